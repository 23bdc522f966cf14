"""Whether two revisions of the code say the same, byte by byte.

    git worktree add ../before HEAD~20
    python scripts/same_documents.py ../before reports ../captures --samples --keep /tmp/same

Makes JSON documents with both codes, each in a process of its own, and compares them: every run folder in the folders
that are named, analysed again; every layer information, profile, capture and log in them, alone and together with those
beside it, through ``trtprof analyze``; and, with ``--samples``, a run of every sample model by the other revision,
analysed again, and what ``inspect`` and ``predict`` say of it. What a revision refuses counts as a document too: its
words are compared.

``--keep`` leaves what the other revision made in a folder, so that the next comparison only makes what is ours (empty
it when that checkout moves on).
``--except latency.p99_ns`` leaves a field out that is meant to differ, and says of how many documents that is so.
Exit code 1: something differs.
"""

from __future__ import annotations

import argparse
import contextlib
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
SAMPLES = ROOT / "sample_models"
GPU = "a100-pcie-80gb"
"""What ran the files that do not tell: any would do."""
PREDICTED = "rtx-4090,h100-sxm"
TYPES = {".json", ".log", ".txt", ".csv", ".sqlite"}
CAPTURES = {".sqlite", ".csv"}
MOST_TOGETHER = 3
ANALYSED = (("profiler.flows.report", "profiler.base.run_folder"), ("trtprof.flows.report", "trtprof.base.run_folder"))
"""Modules with ``analysed`` and ``RunFolder``: where they have been, the newest last."""


class Job(NamedTuple):
    """A document to make: ``run`` is a run folder to analyse again, else ``arguments`` are those of ``trtprof``."""

    name: str
    run: str = ""
    arguments: tuple[str, ...] = ()


# --- what there is to make --------------------------------------------------------------------


def jobs_of_folder(folder: Path, beside: list[Path]) -> Iterator[Job]:
    """What run folders and files of an analysis come to.

    Args:
        folder: Searched with all that is in it.
        beside: Files that each capture is analysed with, too.
    """
    runs = sorted(path.parent.resolve() for path in folder.rglob("request.json"))
    for run in runs:
        if (run / "source.json").is_file():
            yield Job(f"analysed again {run}", run=str(run))
        if (run / "report.json").is_file():
            yield _command("report", run, "--format", "json")
    for first, second in itertools.pairwise(run for run in runs if (run / "report.json").is_file()):
        if first.parent == second.parent:
            yield _command("compare", first, second, "--format", "json")
    groups: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix in TYPES and path.is_file() and not any(parent in runs for parent in path.resolve().parents):
            groups.setdefault(f"{path.parent}/{path.name.partition('.engine')[0]}", []).append(path.resolve())
    for files in groups.values():
        for number in range(1, MOST_TOGETHER + 1):
            for together in itertools.combinations(files, number):
                yield _command("analyze", *together, "--gpu", GPU, "--format", "json")
    for capture in (path for files in groups.values() for path in files if path.suffix in CAPTURES):
        yield _command("analyze", capture, "--format", "json")
        for number in range(1, len(beside) + 1):
            yield _command("analyze", capture, *beside[:number], "--gpu", GPU, "--format", "json")


def jobs_of_samples(before: Path, keep: Path) -> Iterator[Job]:
    """A run of every sample model by the other revision, and what there is to say without one."""
    package = "trtprof" if (before / "profiler" / "trtprof").is_dir() else "profiler"
    code = f"import sys; from {package}.cli import main; sys.exit(main())"
    for model in sorted(SAMPLES.glob("*.onnx")):
        run, quickly = keep / "runs" / model.stem, ("--duration", "0.2", "--profile-iterations", "5", "--force")
        if not (run / "report.json").is_file():
            # Engines are built and kept here, so that both find them.
            for command in (("run", model, *quickly, "-o", run), ("inspect", model)):
                words = [sys.executable, "-c", code, *map(str, command)]
                subprocess.run(words, env=_environment(before, keep), check=True, capture_output=True)
        yield _command("inspect", model, "--format", "json")
        for level in ("groups", "auto"):
            yield _command("predict", model, "--gpu", PREDICTED, "--level", level, "--format", "json")
    yield from jobs_of_folder(keep / "runs", [])


def _command(*arguments: object) -> Job:
    words = tuple(map(str, arguments))
    return Job(" ".join(words), arguments=words)


# --- in a process of its own ------------------------------------------------------------------


def make(jobs: Iterable[Job], out: Path) -> None:
    """Make documents with the code that this process imports, one file each, called after their place."""
    for at, job in enumerate(jobs):
        path = out / f"{at}.json"
        if path.is_file():
            continue
        with tempfile.TemporaryFile() as said, _captured(path.with_suffix(".part"), said):
            code = _made(job)
            sys.stdout.flush()
            if code:
                said.seek(0)
                os.write(1, f"\nexit code {code}\n".encode() + said.read())
        path.with_suffix(".part").rename(path)


def _made(job: Job) -> object:
    try:
        if not job.run:
            sys.argv = ["trtprof", *job.arguments]
            package = "profiler" if importlib.util.find_spec("profiler.cli") else "trtprof"
            return importlib.import_module(f"{package}.cli").main()
        os.write(1, _analysed(job.run))
    except SystemExit as error:
        return error.code
    except Exception as error:
        # Whatever it is, the other revision must say it too.
        return f"{type(error).__name__}: {error}"
    return 0


def _analysed(folder: str) -> bytes:
    for flow, folders in ANALYSED:
        with contextlib.suppress(ModuleNotFoundError):
            read, analysed = importlib.import_module(folders).RunFolder, importlib.import_module(flow).analysed
            return msgspec.json.encode(analysed(read(Path(folder))))
    raise SystemExit("nothing here analyses a run folder: its place belongs into ANALYSED")


@contextlib.contextmanager
def _captured(path: Path, said: Any) -> Iterator[None]:
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
            os.dup2(kept[0], 1)
            os.dup2(kept[1], 2)
            os.close(kept[0])
            os.close(kept[1])


def _environment(code: Path, keep: Path) -> dict[str, str]:
    own = {
        "PYTHONPATH": f"{code.resolve() / 'profiler'}:{code.resolve()}",
        "TRTPROF_CACHE_DIR": str(keep / "cache"),
        "COLUMNS": "100",
    }
    return {**os.environ, **own, "NO_COLOR": "1"}


def made_by(code: Path, jobs: list[Job], out: Path, keep: Path) -> None:
    """Make the documents with a checkout; those that are there are kept."""
    out.mkdir(parents=True, exist_ok=True)
    listed, wanted = out / "jobs.json", json.dumps({"code": str(code.resolve()), "jobs": jobs})
    if listed.is_file() and listed.read_text() != wanted:
        for old in out.glob("*.json"):
            old.unlink()
    listed.write_text(wanted)
    command = [sys.executable, __file__, "--make", str(listed), "--keep", str(out)]
    subprocess.run(command, env=_environment(code, keep), check=True)


# --- what differs -----------------------------------------------------------------------------


def without(document: bytes, fields: list[str]) -> bytes:
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
    return json.dumps(tree).encode()


def first_differences(before: bytes, after: bytes, number: int = 6) -> list[str]:
    """The first lines of a difference, of JSON those of its indented form."""

    def lines(document: bytes) -> list[str]:
        with contextlib.suppress(ValueError):
            return json.dumps(json.loads(document), indent=1).splitlines()
        return document.decode(errors="replace").splitlines()

    found = difflib.unified_diff(lines(before), lines(after), n=0, lineterm="")
    return [line for line in found if not line.startswith(("---", "+++", "@@"))][:number]


def compare(jobs: list[Job], before: Path, after: Path, fields: list[str]) -> int:
    """Print what differs; returns how many documents do."""
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
        print(f"differs: {job.name}", *first_differences(one, other), sep="\n    ")
    said = f"{len(jobs)} documents compared ({len(jobs) - refused} results, {refused} refusals): {differing} differ"
    print(said + (f", {meant} more in {', '.join(fields)} alone" if fields else ""))
    return differing


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("before", nargs="?", type=Path, help="a checkout of the other revision")
    parser.add_argument("folders", nargs="*", type=Path, help="run folders and files, with all that is in them")
    parser.add_argument("--beside", action="append", type=Path, default=[], help="a file to analyse captures with")
    parser.add_argument("--samples", action="store_true", help="run every sample model with the other revision")
    parser.add_argument("--keep", type=Path, help="where what the other revision makes is kept")
    parser.add_argument("--except", dest="fields", action="append", default=[], help="a field that is meant to differ")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.make:
        make([Job(*job) for job in json.loads(given.make.read_text())["jobs"]], given.keep)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        keep = (given.keep or Path(scratch)).resolve()
        beside = [path.resolve() for path in given.beside]
        jobs = list(jobs_of_samples(given.before, keep)) if given.samples else []
        jobs += [job for folder in given.folders for job in jobs_of_folder(folder, beside)]
        made_by(given.before, jobs, keep / "before", keep)
        made_by(ROOT, jobs, Path(scratch) / "after", keep)
        return 1 if compare(jobs, keep / "before", Path(scratch) / "after", given.fields) else 0


if __name__ == "__main__":
    sys.exit(main())
