"""What a plan and a status of a fleet say, in every format."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import msgspec

from tests.fakes import fleets
from tests.fakes.support import ROOT, golden
from trtprof.base.records import SCHEMA_VERSION, FleetPlan, FleetRow, FleetTargetCount
from trtprof.report import render

GOLDEN = Path(__file__).parents[1] / "golden"
CELLS = list(fleets.cells())


def failed(name: str = "resnet", error: str = "resnet.onnx is not an ONNX model") -> FleetRow:
    cell = msgspec.structs.replace(CELLS[1], model=name)
    return FleetRow(
        **msgspec.structs.asdict(cell), status="failed", stage="source", error=error, why="it is cut short",
        fix="copy it again",
    )  # fmt: skip


def made(**changed: object) -> FleetPlan:
    """A fleet that is half done."""
    plan = FleetPlan(
        schema_version=SCHEMA_VERSION,
        name="nightly",
        folder="s3://bucket/nightly",
        models=200,
        cells=12_000,
        targets=(
            FleetTargetCount(
                target="rtx-4090", verb="predict", cells=10_000, done=4_000, failed=12, claimed=40, left_s=90
            ),
            FleetTargetCount(target="h100-pool", verb="run", cells=2_000, done=100, left_s=9_000),
        ),
        left_s=9_000,
        basis="the median of cells that are done (4,000 of predict, 100 of run), by model where it has some",
        failures=(failed(),),
        sample=(CELLS[0], CELLS[4]),
        notes=("no ONNX model can be read from resnet: its cells will fail",),
    )
    return msgspec.structs.replace(plan, **changed)


def test_it_reads_as_it_always_did() -> None:
    """After an intended change: TRTPROF_UPDATE_GOLDEN=1."""
    golden(ROOT / "tests/report/golden" / "fleet_plan.txt", render(made(), "text"))


def test_an_estimate_is_marked_as_one_and_what_nobody_knows_is_said() -> None:
    text = render(made(), "text")
    assert "time left   ~2 h 30 min (the median of" in text
    unknown = FleetTargetCount(target="l4", verb="predict", cells=3)
    text = " ".join(render(made(targets=(unknown,), left_s=None, basis=""), "text").split())
    assert "time left not known: no cell of l4 is done" in text
    assert "predicted 3 0 0 3 0 not known" in text
    done = FleetTargetCount(target="l4", verb="predict", cells=3, done=3, left_s=0)
    text = render(made(cells=3, targets=(done,), left_s=0.0, basis="", sample=(), failures=(), notes=()), "text")
    assert "time left" not in text.split("\n\n")[0]
    assert "3 done, 0 failed, 0 left" in text


def test_a_row_a_target_for_tables() -> None:
    first, second = csv.DictReader(io.StringIO(render(made(), "csv")))
    assert (first["target"], first["cells"], first["done"], first["failed"], first["left"]) == (
        "rtx-4090", "10000", "4000", "12", "5988",
    )  # fmt: skip
    assert (second["verb"], second["left_s"]) == ("run", "9000")
