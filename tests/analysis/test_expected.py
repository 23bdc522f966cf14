"""What good library kernels take stands beside every layer of a run on a GPU, or why it does not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from tests.fakes.support import SAMPLES
from trtprof.analysis import run as tail
from trtprof.analysis.evidence import Evidence, Subject
from trtprof.analysis.plan import PricedPlan, price_plan
from trtprof.analysis.run import analyse
from trtprof.base.latency import latency_of_sum
from trtprof.base.records import Ceilings, Core, Expectation, GpuSpec, Run, Work
from trtprof.diagnose.ledger import INEFFICIENCY, SLOWER, UNREACHED
from trtprof.engine.inspector import read_layer_info
from trtprof.expected import Measured
from trtprof.expected.measured import work_at
from trtprof.hardware import gpus
from trtprof.report._format import good_text
from trtprof.source.load import load_model, source_of

LSTM = Path(__file__).parents[1] / "cost" / "data" / "rtx_lstm.txt"
A100 = gpus.find("a100-pcie-80gb")
BAND = Expectation(
    expected_ns=7000, expected_p10_ns=5000, expected_p90_ns=9000, expected_basis="measured",
    expected_reason="invented by a test",
)  # fmt: skip


class Asked:
    """In place of the model: the same band for whatever work is known, and what was asked for."""

    def __init__(self) -> None:
        self.works: Sequence[Work | None] = ()
        self.ceilings: Ceilings | None = None
        self.tf32: bool | None = None

    def __call__(
        self, works: Sequence[Work | None], _: GpuSpec, ceilings: Ceilings, *, tf32: bool, correction: object
    ) -> tuple[Expectation, ...]:
        assert correction is None
        self.works, self.ceilings, self.tf32 = works, ceilings, tf32
        return tuple(Expectation(expected_reason="no work") if work is None else BAND for work in works)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    found = Asked()
    monkeypatch.setattr(tail, "expect", found)
    return found


@pytest.fixture(scope="module")
def lstm() -> PricedPlan:
    source = source_of(load_model(SAMPLES / "lstm.onnx"), {}, None, feed=False)
    return price_plan(read_layer_info(LSTM), source)


def run_of(engine: PricedPlan, subject: Subject, ns: int = 10_000_000) -> Run:
    count = len(engine.costs)
    whole = latency_of_sum(ns * count)
    source = source_of(load_model(SAMPLES / "lstm.onnx"), {}, None, feed=False)
    return analyse(Evidence(engine, [ns] * count, [()] * count, whole, whole), subject._replace(source=source))


def on_a100(tf32: bool = True) -> Subject:
    return Subject(ceilings=gpus.ceilings(A100, tf32=tf32), spec=A100, device=None)


def test_an_expectation_is_of_all_rounds_of_a_loop_as_the_other_times_are(lstm: PricedPlan, asked: Asked) -> None:
    run = run_of(lstm, on_a100())
    runs = {matched.layer.name: cost.runs for matched, cost in zip(lstm.document.layers, lstm.costs, strict=True)}
    known = [layer for layer in run.layers if layer.expected_ns is not None]
    assert {runs[layer.name] for layer in known} >= {1, max(runs.values())}
    for layer in known:
        times = runs[layer.name]
        assert (layer.expected_p10_ns, layer.expected_ns, layer.expected_p90_ns) == (
            5000 * times,
            7000 * times,
            9000 * times,
        )
    assert {layer.expected_reason for layer in known} == {"invented by a test"}
    # The work that it is told of is that of one round.
    assert [work for work in asked.works if work is not None] == [
        cost.work for cost, work in zip(lstm.costs, asked.works, strict=True) if work is not None
    ]


def test_what_is_not_known_of_a_layer_is_said(lstm: PricedPlan, asked: Asked) -> None:
    run = run_of(lstm, on_a100())
    silent = {layer.role: layer.expected_reason for layer in run.layers if layer.expected_ns is None}
    assert "it launches no kernel" in silent.values()
    assert all(silent.values())
    partial = [cost._replace(reason="an op without a cost function") for cost in lstm.costs]
    for layer in run_of(lstm._replace(costs=tuple(partial)), on_a100()).layers:
        if layer.role == "compute" and layer.work is not None and not layer.work.tensor_flops:
            assert (layer.expected_ns, layer.expected_reason) == (None, "only a part of its work is known")


@pytest.mark.parametrize("tf32", [True, False])
def test_the_model_is_asked_about_the_ceilings_and_the_tf32_of_the_run(
    lstm: PricedPlan, asked: Asked, tf32: bool
) -> None:
    subject = on_a100(tf32)
    run_of(lstm, subject)
    assert asked.ceilings is subject.ceilings
    assert asked.tf32 is tf32


def test_of_a_gpu_whose_datasheet_is_derived_as_much_is_expected_as_predictions_do(lstm: PricedPlan) -> None:
    """As of any GPU that was not measured itself: with the wider band, and saying so."""
    listed = on_a100(tf32=False)
    spec = msgspec.structs.replace(A100, origin="derived")
    known = [layer for layer in run_of(lstm, listed._replace(spec=spec)).layers if layer.expected_ns is not None]
    assert known
    assert {layer.expected_basis for layer in known} <= {"architecture", "extrapolated"}
    own = {layer.name: layer for layer in run_of(lstm, listed).layers}
    for layer in known:
        assert layer.expected_ns == own[layer.name].expected_ns
        if layer.expected_basis == "architecture":
            assert "is derived from its own properties: it was not measured, " in layer.expected_reason
            assert (layer.expected_p10_ns or 0) <= (own[layer.name].expected_p10_ns or 0)


def test_the_ledger_splits_what_the_layers_lost(lstm: PricedPlan, asked: Asked) -> None:
    run = run_of(lstm, on_a100())
    rows = {row.cause: row.ns for row in run.ledger}
    known = [layer for layer in run.layers if layer.expected_ns is not None and layer.role == "compute"]
    beyond = [(layer, layer.expected_ns or 0, layer.attainable_ns or 0) for layer in known]
    assert rows[UNREACHED] == sum(max(expected - attainable, 0) for _, expected, attainable in beyond)
    assert rows[SLOWER] == sum(layer.measured_ns - max(expected, attainable) for layer, expected, attainable in beyond)
    assert rows[SLOWER] + rows[UNREACHED] + rows[INEFFICIENCY] == sum(
        layer.lost_ns or 0 for layer in run.layers if layer.role == "compute"
    )
    assert sum(rows.values()) == run.latency.median_ns


def test_kernels_that_were_timed_correct_what_is_expected_of_a_run_and_its_ledger(lstm: PricedPlan) -> None:
    """Twice as long as expected: as much of what a layer lost no library reaches either."""
    work = work_at(Core(kind="product", m=512, n=512, k=512), "fp32")
    costs = [cost._replace(work=work, runs=1) if cost.work and cost.work.tensor_flops else cost for cost in lstm.costs]
    engine, subject = lstm._replace(costs=tuple(costs)), on_a100(tf32=False)
    plain = run_of(engine, subject)
    (each_ns,) = {layer.expected_ns for layer in plain.layers if layer.expected_ns}
    assert plain.corrected is None
    assert not any("corrected" in text for text in plain.assumptions)
    rows = 30 * f"product,fp32,512,512,512,{2 * each_ns}\n"
    measured = Measured(text=f"kind,dtype,m,n,k,ns\n{rows}", source="rows.csv")
    run = run_of(engine, subject._replace(measured=measured))
    assert run.corrected is not None
    assert (run.corrected.rows, run.corrected.source) == (30, "rows.csv")
    assert run.corrected.words == "expectations are corrected by 30 rows timed on the GPU (rows.csv)"
    assert good_text(run).endswith("; corrected by 30 rows timed on the GPU (rows.csv)")
    assert run.corrected.words in run.assumptions
    (layer,) = {(layer.expected_ns, layer.expected_reason) for layer in run.layers if layer.expected_ns}
    assert (layer[0] or 0) == pytest.approx(2 * each_ns, rel=0.15)
    assert layer[1].startswith("corrected by 30 timed rows of matrix products")
    before, after = ({row.cause: row.ns for row in each.ledger} for each in (plain, run))
    assert after[UNREACHED] > before[UNREACHED]
    assert sum(after.values()) == sum(before.values())
