"""Run folders, broken: reports, comparisons, runs that go on and the list of runs read what somebody else left."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from random import Random

from tests.fakes.hostile.mutate import mutated, mutated_bytes, written
from tests.fakes.hostile.running import Case, Outcome
from trtprof.base.record_file import MAX_BYTES
from trtprof.flows.serve import listing

_WHOLE = Path(__file__).resolve().parents[3] / "reports" / "example"
_READ = (
    "report.json", "report.json", "report.json", "report.json", "report.json", "capture.json", "ceilings.json",
    "request.json", "source.json", "engine.json", "device.json", "tags.json",
)  # fmt: skip
_FORMATS = ("text", "json", "csv", "markdown", "perfetto", "junit")
_FILES = ("out.html", "out.svg", "out.parquet", "out.md", "out.csv", "out.json")

WARM = (
    *(("report", _WHOLE, "--format", name) for name in _FORMATS),
    ("report", _WHOLE, "--format", "html"),
    ("report", _WHOLE, "--redact"),
    ("compare", _WHOLE, _WHOLE),
    ("compare", _WHOLE, _WHOLE, "--format", "json"),
)


def case(random: Random, folder: Path, data: Path | None) -> Case:
    """One artefact of a run is another: of another structure, cut, no file, or larger than anything."""
    run = folder / "run"
    run.mkdir()
    for path in _WHOLE.iterdir():
        if path.suffix not in (".png", ".svg"):
            shutil.copyfile(path, run / path.name)
    (run / "tags.json").write_text('{"schema_version": 8, "tags": ["a", "b"]}')
    label = _break(random, run)
    words = _words(random)
    codes = frozenset({0, 1, 2, 3, 4, 5}) if "--gate" in words else frozenset({0, 2, 3, 4, 5})
    return Case(f"{label}: {' '.join(map(str, words))}", words, _listed, codes=codes, exact="csv" in words)


def _listed(outcome: Outcome) -> Iterable[str]:
    """What is wrong with the list of the runs beside it."""
    try:
        found = listing(outcome.folder)
    except Exception as error:
        yield f"the list of runs: {error!r}"
        return
    for run in found.runs:
        if not 0 < run.latency.median_ns < 1e18 or not (run.of_roof is None or 0 <= run.of_roof < 1e6):
            yield f"listed as good: {run.latency.median_ns} ns, {run.of_roof} of the roof"


def _break(random: Random, run: Path) -> str:
    """Break one artefact, and tell which and how."""
    kind = random.randrange(12)
    name = random.choice(_READ)
    path = run / name
    if kind < 7:
        path.write_bytes(written(random, mutated(random, json.loads(path.read_bytes()))))
        return f"{name} of another structure"
    if kind == 7:
        path = random.choice(sorted(each for each in run.iterdir() if each.suffix in (".parquet", ".json", ".onnx")))
        path.write_bytes(mutated_bytes(random, path.read_bytes()))
        return f"{path.name} of other bytes"
    if kind == 8:
        document = json.loads((run / "report.json").read_bytes())
        document["schema_version"] = random.choice((-1, 0, 1, 2, 3, 4, 5, 6, 7, 9, 2**63, 1.5, "5", None, [], True))
        if random.random() < 0.7:
            document = mutated(random, document)
        (run / "report.json").write_text(json.dumps(document))
        return "an old schema"
    path = random.choice(sorted(run.iterdir()))
    path.unlink()
    if kind == 9:
        made = random.choice(("pipe", "folder", "gone"))
        if made == "pipe":
            os.mkfifo(path)
        elif made == "folder":
            path.mkdir()
        return f"{path.name} is a {made}"
    if kind == 10:
        to = random.choice(("/etc/passwd", "/dev/zero", "/dev/full", path.name, "../run", "/nowhere", "report.json"))
        path.symlink_to(to)
        return f"{path.name} leads to {to}"
    with path.open("wb") as file:
        file.write(
            random.choice((b"", b"[" * 200_000, b'{"a":' * 100_000, b"PAR1PAR1", b"\0" * 5_000, b'{"layers": ['))
        )
        if random.random() < 0.1:
            file.truncate(random.choice((1 << 20, 1 << 20, MAX_BYTES + 1)))
    return f"{path.name} of a few odd bytes"


def _words(random: Random) -> list[str | Path]:
    kind = random.randrange(16)
    if kind < 4:
        return ["report", "run"]
    if kind < 8:
        return ["report", "run", "--format", random.choice(_FORMATS)]
    if kind == 8:
        return ["report", "run", "--by", random.choice(("type", "node", "kernel", "layer")), "--top", "5"]
    if kind == 9:
        return ["report", "run", "--redact", "--format", random.choice(("json", "text"))]
    if kind == 10:
        return ["report", "run", "-o", random.choice(_FILES)]
    if kind == 11:
        return ["compare", "run", _WHOLE]
    if kind == 12:
        return ["compare", _WHOLE, "run", "--format", "json"]
    if kind == 13:
        return ["compare", "run,run", _WHOLE, "--gate", "latency>3%"]
    if kind == 14:
        return ["report", "run", "--explain", "RL102", "/stem/Relu"]
    return ["report", "run", "--tag", "x"]
