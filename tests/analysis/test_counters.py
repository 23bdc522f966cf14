"""Which kernels are worth counting, and what is said of those that were."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.fakes.ncu_factory import counted, ncu_csv
from tests.fakes.support import fixed_ceilings
from trtprof.analysis.counters import confirmed, flagged
from trtprof.base.records import Backend, Coverage, Device, Finding, Latency, LayerResult, Match, ModelInfo, Run
from trtprof.capture.ncu.csv import parse_counters
from trtprof.diagnose import THRESHOLDS

ONCE = Latency(median_ns=1000, p99_ns=1000, cv=0.0, n=10)


def layer(name: str, lost_ns: int | None, *kernels: tuple[str, int, int]) -> LayerResult:
    """A layer with kernels, how often they were captured and how long they took in all."""
    return LayerResult(
        name=name, op_type="Conv", role="compute", nodes=(name,), measured_ns=1000, ideal_ns=10, attainable_ns=100,
        lost_ns=lost_ns, bound="dram", flops=None, bytes=None,
        kernels=tuple(
            Match(layer=name, kernel=kernel, count=count, median_ns=1, total_ns=total, confidence="exact", reason="")
            for kernel, count, total in kernels
        ),
    )  # fmt: skip


def run_of(*layers: LayerResult, findings: tuple[Finding, ...] = ()) -> Run:
    return Run(
        schema_version=1, model=ModelInfo(name="m", path="m", sha256="", ir_version=8, opsets={}),
        backend=Backend(name="tensorrt", reason=""), device=Device(name="d", kind="gpu"), versions={},
        ceilings=fixed_ceilings(), latency=ONCE, profiled=ONCE,
        coverage=Coverage(exact=1.0, inferred=0.0, unattributed=0.0), verdict="", ledger=(), layers=layers, nodes=(),
        findings=findings, unsupported=(), captured_ns=0,
    )  # fmt: skip


def finding(*layers: str, kind: Any = "hypothesis") -> Finding:
    return Finding(code="RL101", title="", severity="info", where="", evidence="", lost_ns=1, confidence=0.8, try_="",
                   kind=kind, layers=layers)  # fmt: skip


LAYERS = (
    layer("worst", 900, ("void a<1>(int)", 10, 50), ("b", 20, 90)),
    layer("flagged", 500, ("c", 10, 70), ("b", 10, 5)),
    layer("fast", -5, ("d", 10, 70)),
    layer("unpriced", None, ("e", 10, 70)),
)


@pytest.mark.parametrize(
    ("number", "names", "launches"), [(0, [], 0), (1, ["c"], 1), (2, ["b", "c"], 4), (9, ["a", "b", "c"], 5)]
)
def test_kernels_of_findings_come_first_then_those_of_the_worst_layers(
    number: int, names: list[str], launches: int
) -> None:
    run = run_of(*LAYERS, findings=(finding("fast", kind="trust"), finding("flagged")))
    assert flagged(run, number) == (names, launches)


def test_nothing_lost_is_nothing_to_count() -> None:
    assert flagged(run_of(*LAYERS[2:]), 3) == ([], 0)


def test_launches_are_dealt_out_in_execution_order() -> None:
    """The run ranks its layers by what they lost, the counters come as the layers are executed."""
    run = run_of(layer("late", 900, ("k", 10, 50)), layer("early", 1, ("k", 10, 50)))
    launches = parse_counters(ncu_csv([counted("k", ns=1000), counted("k", ns=2000)]), "x")
    found = confirmed(run, launches, ["early", "late"], THRESHOLDS)
    assert {one.layer: one.counted_ns for one in found.confirmations} == {"early": 1000, "late": 2000}
    # Without the order nothing tells which is which, and that is said.
    blind = confirmed(run, launches, [], THRESHOLDS)
    assert blind.confirmations == ()
    assert any(
        "counters that are left out: 2 launches of k may be of late, early" in note for note in blind.assumptions
    )
    assert msgspec.structs.replace(blind, assumptions=()) == run
