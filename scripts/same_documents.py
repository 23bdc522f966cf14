"""Whether two revisions of the code say the same, byte by byte.

    git worktree add ../before HEAD~20
    python scripts/same_documents.py ../before reports ../captures --samples --keep /tmp/same

Makes JSON documents with both codes, each in a process of its own, and compares them: every run folder in the folders
that are named, analyzed again; every layer information, profile, capture and log in them, alone and together with those
beside it, through ``trtprof analyze``; and, with ``--samples``, what `same_cases` makes with the other revision: runs
of the sample models, run folders of a GPU, plans, 400 single ops, every kernel name of the labels. What a revision
refuses counts as a document too: its words are compared.

``--keep`` leaves what the other revision made in a folder, so that the next comparison only makes the other half (empty
it when that checkout moves on). ``--except latency.p99_ns`` leaves a field out that is meant to differ.
Exit code 1: something differs.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import difflib
import importlib
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

ROOT = Path(__file__).resolve().parents[1]
GPU, PREDICTED = "a100-pcie-80gb", "rtx-4090,h100-sxm"
TYPES, CAPTURES, MOST_TOGETHER = {".json", ".log", ".txt", ".csv", ".sqlite"}, {".sqlite", ".csv"}, 3
ANALYSED = (("profiler.flows.report", "profiler.base.run_folder"), ("trtprof.flows.report", "trtprof.base.run_folder"))
"""Modules with ``analysed`` and ``RunFolder``: where they have been, the newest last."""


class Job(NamedTuple):
    """A document to make: ``run`` is a run folder to analyze again, else ``arguments`` are those of ``trtprof``."""

    name: str
    run: str = ""
    arguments: tuple[str, ...] = ()


def command(*arguments: object) -> Job:
    words = (*map(str, arguments), "--format", "json")
    return Job(" ".join(words), arguments=words)


def jobs_of_folder(folder: Path) -> Iterator[Job]:
    """What run folders and files of an analysis come to, in a folder and all that is in it."""
    runs = sorted(path.parent.resolve() for path in folder.rglob("request.json"))
    for run in runs:
        if (run / "source.json").is_file():
            yield Job(f"analyzed again {run}", run=str(run))
        if (run / "report.json").is_file():
            yield command("report", run)
    for first, second in itertools.pairwise(run for run in runs if (run / "report.json").is_file()):
        if first.parent == second.parent:
            yield command("compare", first, second)
    groups: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix in TYPES and path.is_file() and not any(parent in runs for parent in path.resolve().parents):
            groups.setdefault(f"{path.parent}/{path.name.partition('.engine')[0]}", []).append(path.resolve())
    for files in groups.values():
        for number in range(1, MOST_TOGETHER + 1):
            for together in itertools.combinations(files, number):
                yield command("analyze", *together, "--gpu", GPU)
    for capture in (path for files in groups.values() for path in files if path.suffix in CAPTURES):
        yield command("analyze", capture)


def jobs_of_cases(before: Path, keep: Path) -> Iterator[Job]:
    """What `same_cases` makes with the other revision, once."""
    cases = keep / "cases"
    if not (cases / "whole").is_file():
        maker = Path(__file__).with_name("same_cases.py")
        subprocess.run([sys.executable, maker, before.resolve(), cases], env=environment(before, keep), check=True)
    for model in sorted(cases.glob("models/*.onnx")):
        yield command("inspect", model)
        for level in ("groups", "auto"):
            yield command("predict", model, "--gpu", PREDICTED, "--level", level)
        for plan in sorted(cases.glob(f"plans/{model.stem}.*.txt")):
            yield command("analyze", plan, "--onnx", model, "--gpu", GPU)
    for op in sorted(cases.glob("ops/*.onnx")):
        yield command("inspect", op)
    for labels in sorted(before.glob("tests/kernel_names/*.csv")):
        with labels.open(newline="", encoding="utf-8") as file:
            yield from (command("kernel", "--", row["name"]) for row in csv.DictReader(file))
    yield from jobs_of_folder(cases / "folders")


# --- in a process of its own ------------------------------------------------------------------


def make(jobs: Iterable[Job], out: Path) -> None:
    """Make documents with the code that this process imports, one file each, called after their place."""
    for at, job in enumerate(jobs):
        path = out / f"{at}.json"
        if path.is_file():
            continue
        with tempfile.TemporaryFile() as said, captured(path.with_suffix(".part"), said):
            code = made(job)
            sys.stdout.flush()
            if code:
                said.seek(0)
                os.write(1, f"\nexit code {code}\n".encode() + said.read())
        path.with_suffix(".part").rename(path)


def made(job: Job) -> object:
    """Write a document to standard output; return what is wrong, or 0."""
    try:
        if not job.run:
            sys.argv = ["trtprof", *job.arguments]
            package = "profiler" if importlib.util.find_spec("profiler.cli") else "trtprof"
            return importlib.import_module(f"{package}.cli").main()
        for flow, folders in ANALYSED:
            with contextlib.suppress(ModuleNotFoundError):
                read, analysed = importlib.import_module(folders).RunFolder, importlib.import_module(flow).analysed
                os.write(1, msgspec.json.encode(analysed(read(Path(job.run)))))
                return 0
    except SystemExit as error:
        return error.code
    except Exception as error:
        # Whatever it is, the other revision must say it too.
        return f"{type(error).__name__}: {error}"
    return "nothing here analyzes a run folder: its place belongs into ANALYSED"


@contextlib.contextmanager
def captured(path: Path, said: Any) -> Iterator[None]:
    """Both outputs of this process go into files."""
    kept = os.dup(1), os.dup(2)
    with path.open("wb") as file:
        try:
            os.dup2(file.fileno(), 1)
            os.dup2(said.fileno(), 2)
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, saved in enumerate(kept, 1):
                os.dup2(saved, number)
                os.close(saved)


def environment(code: Path, keep: Path) -> dict[str, str]:
    path, cache = f"{code.resolve() / 'profiler'}:{code.resolve()}", str(keep / "cache")
    return {**os.environ, "PYTHONPATH": path, "TRTPROF_CACHE_DIR": cache, "COLUMNS": "100", "NO_COLOR": "1"}


def made_by(code: Path, jobs: list[Job], out: Path, keep: Path) -> None:
    """Make the documents with a checkout; those that are there are kept."""
    out.mkdir(parents=True, exist_ok=True)
    listed, wanted = out / "jobs.json", json.dumps({"code": str(code.resolve()), "jobs": jobs})
    if listed.is_file() and listed.read_text() != wanted:
        for old in out.glob("*.json"):
            old.unlink()
    listed.write_text(wanted)
    words = [sys.executable, __file__, "--make", str(listed), "--keep", str(out)]
    subprocess.run(words, env=environment(code, keep), check=True)


# --- what differs -----------------------------------------------------------------------------


def without(document: bytes, fields: list[str]) -> object:
    """A document without fields, given by their path (``latency.p99_ns``); one that is no JSON stays as it is."""
    try:
        tree = json.loads(document)
    except ValueError:
        return document
    for path in fields:
        *parents, last = path.split(".")
        here = tree
        for parent in parents:
            here = here.get(parent, {}) if isinstance(here, dict) else {}
        if isinstance(here, dict):
            here.pop(last, None)
    return tree


def indented(document: bytes) -> str:
    with contextlib.suppress(ValueError):
        return json.dumps(json.loads(document), indent=1)
    return document.decode(errors="replace")


def compare(jobs: list[Job], before: Path, after: Path, fields: list[str]) -> int:
    """Print what differs; return how many documents do."""
    differing = meant = refused = 0
    for at, job in enumerate(jobs):
        one, other = ((folder / f"{at}.json").read_bytes() for folder in (before, after))
        refused += b"\nexit code " in other
        if one == other:
            continue
        if fields and without(one, fields) == without(other, fields):
            meant += 1
            print(f"differs as meant: {job.name}")
            continue
        differing += 1
        left, right = (indented(each).splitlines() for each in (one, other))
        shown = list(difflib.unified_diff(left, right, n=0, lineterm=""))
        shown = [line for line in shown if not line.startswith(("---", "+++", "@@"))]
        print(f"differs: {job.name}", *shown[:6], sep="\n    ")
    said = f"{len(jobs)} documents compared ({len(jobs) - refused} results, {refused} refusals): {differing} differ"
    print(said + (f", {meant} more in {', '.join(fields)} alone" if fields else ""))
    return differing


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("before", nargs="?", type=Path, help="a checkout of the other revision")
    parser.add_argument("folders", nargs="*", type=Path, help="run folders and files, with all that is in them")
    parser.add_argument("--samples", action="store_true", help="what the other revision makes of models and fakes, too")
    parser.add_argument("--keep", type=Path, help="where what the other revision makes is kept")
    parser.add_argument("--except", dest="fields", action="append", default=[], help="a field that is meant to differ")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.make:
        make([Job(*job) for job in json.loads(given.make.read_text())["jobs"]], given.keep)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        keep = (given.keep or Path(scratch)).resolve()
        jobs = list(jobs_of_cases(given.before, keep)) if given.samples else []
        jobs += [job for folder in given.folders for job in jobs_of_folder(folder)]
        made_by(given.before, jobs, keep / "before", keep)
        made_by(ROOT, jobs, Path(scratch) / "after", keep)
        return 1 if compare(jobs, keep / "before", Path(scratch) / "after", given.fields) else 0


if __name__ == "__main__":
    sys.exit(main())
