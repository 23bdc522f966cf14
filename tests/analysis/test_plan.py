"""Composition of a plan: loops in it, above all. The plan is a real one, of `sample_models/lstm.onnx`."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from tests.fakes.support import SAMPLES, refused
from trtprof.analysis.plan import PricedPlan, estimates_of, on_device, price_plan, told_by_names, traffic_of
from trtprof.base.errors import UsageError
from trtprof.engine.inspector import read_layer_info
from trtprof.estimate.cache import Access
from trtprof.hardware import gpus
from trtprof.report import render
from trtprof.source.load import load_model, source_of

LSTM = Path(__file__).parents[1] / "cost" / "data" / "rtx_lstm.txt"
ROUNDS = 16


@pytest.fixture(scope="module")
def priced() -> PricedPlan:
    source = source_of(load_model(SAMPLES / "lstm.onnx"), {}, None, feed=False)
    return price_plan(read_layer_info(LSTM), source)


def test_a_loop_is_summed_over_its_rounds(priced: PricedPlan) -> None:
    ceilings = gpus.ceilings(gpus.find("rtx-4090"))
    estimates = estimates_of(priced, ceilings, traffic_of(priced, ceilings.cache_bytes))
    looped = [at for at, cost in enumerate(priced.costs) if cost.runs == ROUNDS and estimates[at] is not None]
    assert len(looped) > 10
    found = on_device(priced, ceilings)
    expected = sum(
        each.attainable_ns * cost.runs for each, cost in zip(estimates, priced.costs, strict=True) if each is not None
    )
    assert sum(share.ns or 0 for share in found.summary.by_kind) == expected
    for at in looped:
        once, all_runs = priced.costs[at].work, priced.document.works[at]
        assert once is not None
        assert all_runs is not None
        assert all_runs.bytes == once.bytes * ROUNDS
        assert all_runs.flops == once.flops * ROUNDS


def test_the_second_round_of_a_loop_finds_what_the_first_left(priced: PricedPlan) -> None:
    by_hand = [
        ({"big": 79}, {"x": 1}),
        ({"x": 1, "weights": 60}, {"state": 10}),
        ({"state": 10, "more": 100}, {"y": 1}),
    ]
    plan = priced._replace(
        costs=tuple(priced.costs[0]._replace(runs=runs) for runs in (1, ROUNDS, 1)),
        accesses=tuple(Access(str(at), *touched) for at, touched in enumerate(by_hand)),
        outputs=frozenset({"y"}),
    )
    straight = plan._replace(costs=tuple(cost._replace(runs=1) for cost in plan.costs))
    # 80 bytes and more pass through 80 before and after the loop, so that the weights are gone when it begins,
    # and so is y, which is written back.
    assert [found.dram_bytes for found in traffic_of(plan, 80)] == [79, 0, 101]
    assert [found.dram_bytes for found in traffic_of(straight, 80)] == [79, 60, 101]


def test_a_document_of_build_is_layer_information(priced: PricedPlan, tmp_path: Path) -> None:
    file = tmp_path / "build.json"
    file.write_text(render(priced.document, "json"))
    before, after = read_layer_info(LSTM), read_layer_info(file)
    assert after.layers == before.layers
    assert after.bindings == before.bindings
    document = json.loads(file.read_text())
    del document["layers"][3]["layer"]["name"]
    file.write_text(json.dumps(document))
    with pytest.raises(UsageError) as error:
        read_layer_info(file)
    assert "layers[3].layer" in refused(error.value)


WINOGRAD = "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1"
_TILE = "nhwckrsc_nhwc_tilesize128x64x32_stage4_warpsize2x2x1_g1_tensor16x8x16"
IMPLICIT = f"sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_{_TILE}"
HALF = f"sm80_xmma_fprop_implicit_gemm_f16f16_f16f16_f16_{_TILE}"


@pytest.mark.parametrize(
    ("names", "fast", "accumulator", "said"),
    [
        ((), True, "", "no name says how it convolves"),
        (("generatedNativePointwise",), True, "", "no name says how it convolves"),
        ((WINOGRAD,), True, None, "its name says Winograd"),
        ((IMPLICIT,), False, "fp32", "all products counted"),
        ((HALF,), False, "fp16", "all products counted"),
        (("permutationKernelPLC3", IMPLICIT), False, "fp32", "all products counted"),
    ],
)
def test_names_tell_how_a_layer_multiplies(
    priced: PricedPlan, names: tuple[str, ...], fast: bool, accumulator: str | None, said: str
) -> None:
    at = next(at for at, cost in enumerate(priced.costs) if cost.work is not None and cost.work.tensor_flops)
    work = priced.costs[at].work
    assert work is not None
    costs = list(priced.costs)
    costs[at] = costs[at]._replace(
        work=msgspec.structs.replace(work, fast_flops=work.tensor_flops // 2, accumulator="")
    )
    layers = list(priced.document.layers)
    layers[at] = msgspec.structs.replace(layers[at], layer=msgspec.structs.replace(layers[at].layer, tactic=""))
    document = msgspec.structs.replace(priced.document, layers=tuple(layers))
    kernels = [names if place == at else () for place in range(len(costs))]
    plan = told_by_names(priced._replace(costs=tuple(costs), document=document), kernels)
    found = plan.costs[at].work
    assert found is not None
    assert found.fast_flops == (work.tensor_flops // 2 if fast else 0)
    assert accumulator is None or found.accumulator == accumulator
    assert said in found.note
    again = told_by_names(plan, kernels)
    assert again.costs[at].work == found
