"""What a built engine takes on GPUs that are not here, from plans that TensorRT-RTX printed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.support import ROOT, SAMPLES, known
from trtprof.analysis.plan import PricedPlan, price_plan
from trtprof.base.plan_words import LAUNCHING
from trtprof.base.records import EngineFacts, GpuPrediction, Source
from trtprof.engine.inspector import parse_layer_info, read_layer_info
from trtprof.flows.predict.groups import Settings
from trtprof.flows.predict.layers import predict_plan
from trtprof.hardware import gpus
from trtprof.source.load import load_model, source_of

LOGS = ROOT / "tests" / "engine" / "data"
RTX_4090, A100, T4 = gpus.find("rtx-4090"), gpus.find("a100-sxm4-80gb"), gpus.find("t4")
FACTS = EngineFacts(backend="tensorrt-rtx", versions={"tensorrt-rtx": "1.7.1.116"}, device="no GPU")


def source(name: str, **shapes: tuple[int, ...]) -> Source:
    return source_of(load_model(SAMPLES / f"{name}.onnx"), shapes, feed=False)


def gemv_as(dtype: str) -> tuple[PricedPlan, Source]:
    """The engine of the gemv, with its tensors of another type."""
    text = (LOGS / "rtx_gemv.log").read_text()
    assert "Datatype: Float" in text
    model = source("gemv")
    return price_plan(parse_layer_info(text.replace("Float", dtype), Path("gemv.log")), model, FACTS), model


GEMV, GEMV_MODEL = gemv_as("Float")
RESNET_MODEL = source("resnet_tiny", image=(2, 3, 64, 64))
RESNET = price_plan(read_layer_info(LOGS / "rtx_resnet_tiny.log"), RESNET_MODEL, FACTS)


def on_4090(priced: PricedPlan, model: Source, how: Settings) -> GpuPrediction:
    (found,) = predict_plan(priced, model, [RTX_4090], how).gpus
    return found


# --- the story ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("dram", "ms"), [(1.01e12, 0.248), (0.92e12, 0.273)])
@pytest.mark.parametrize("cold", [True, False])
def test_the_story_gemv_from_its_engine(dram: float, ms: float, cold: bool) -> None:
    found = on_4090(GEMV, GEMV_MODEL, Settings(overrides={"dram": dram, "fp32": 78.65e12}, cold=cold))
    (layer,) = found.layers
    assert layer.work is not None
    assert layer.estimate is not None
    assert layer.work.bytes == layer.estimate.dram_bytes == 250_828_800
    assert layer.estimate.bound == "dram"
    assert found.time_ns == pytest.approx(250_828_800 / dram * 1e9, rel=1e-3)
    assert round(known(found.time_ns) / 1e6, 3) == ms
    assert (layer.kind, layer.role, layer.match, layer.op_type) == ("kgen", "compute", "exact", "MatMul")
    assert layer.nodes == ("/gemv/MatMul",)
    assert layer.shapes == "600x200x8x1x64, 600x1x8x64x1 -> 960000x1x1"


# --- what always holds ----------------------------------------------------------------------------


def test_every_launching_layer_is_predicted_in_the_order_of_the_plan() -> None:
    found = on_4090(RESNET, RESNET_MODEL, Settings())
    launching = [matched for matched in RESNET.document.layers if matched.role in LAUNCHING]
    assert [layer.name for layer in found.layers] == [matched.layer.name for matched in launching]
    assert len(launching) > 15
    assert found.plan is not None
    assert found.plan.launches == len(launching)
    ops = {node.name: node.op.op_type for node in RESNET_MODEL.nodes}
    for layer, matched in zip(found.layers, launching, strict=True):
        assert layer.kind == matched.layer.kind
        assert layer.op_type == (" + ".join(ops[name] for name in matched.nodes) or matched.layer.kind)


@settings(max_examples=25)
@given(
    st.sampled_from(sorted(gpus.specs())),
    st.sampled_from(["model", "fp32", "tf32"]),
    st.booleans(),
    st.sampled_from([None, 1000.0]),
)
def test_sums_and_roofs(slug: str, precision: str, cold: bool, clock: float | None) -> None:
    how = Settings(level="layers", precision=precision, cold=cold, clock_mhz=clock)
    (found,) = predict_plan(RESNET, RESNET_MODEL, [gpus.find(slug)], how).gpus
    times = [layer.estimate.attainable_ns for layer in found.layers if layer.estimate is not None]
    assert sum(times) == known(found.time_ns) == sum(found.ns_by_bound.values()) >= known(found.ideal_ns)
    assert found.joules == pytest.approx(known(found.time_ns) * 1e-9 * found.tdp_w)
    assert found.plan is not None
    assert sum(share.ns or 0 for share in found.plan.by_kind) == found.time_ns
    for layer in found.layers:
        if layer.estimate is None or layer.work is None:
            continue
        assert layer.estimate.dram_bytes + layer.estimate.cache_bytes == layer.work.bytes
        assert not (cold and layer.estimate.cache_bytes)
    (warm,) = predict_plan(RESNET, RESNET_MODEL, [gpus.find(slug)], msgspec.structs.replace(how, cold=False)).gpus
    assert known(warm.time_ns) <= known(found.time_ns)


def test_an_fp16_engine_answers_for_fp16_where_that_was_asked_for() -> None:
    priced, model = gemv_as("Half")
    assert on_4090(priced, model, Settings(precision="fp16")).by_precision.keys() == {"fp16"}
    as_filed = on_4090(priced, model, Settings())
    assert as_filed.by_precision == {}
    assert known(as_filed.time_ns) == pytest.approx(known(on_4090(GEMV, GEMV_MODEL, Settings()).time_ns) / 2, rel=1e-3)
    assert not any("TF32" in note for note in predict_plan(priced, model, [A100], Settings()).assumptions)
    for engine, stay in ((priced, False), (GEMV, True)):
        said = predict_plan(engine, model, [A100], Settings(precision="fp16")).assumptions
        assert ("inputs and outputs stay fp32, as in the file: a, b, y" in said) == stay


# --- what is to be said -----------------------------------------------------------------------------


def test_a_layer_without_work_is_listed_and_not_in_the_time() -> None:
    whole = predict_plan(RESNET, RESNET_MODEL, [RTX_4090], Settings())
    at = max(range(len(RESNET.costs)), key=lambda index: len(RESNET.document.layers[index].nodes))
    costs = list(RESNET.costs)
    costs[at] = costs[at]._replace(work=None, reason="nobody knows")
    found = predict_plan(RESNET._replace(costs=tuple(costs)), RESNET_MODEL, [RTX_4090], Settings())
    kind = RESNET.document.layers[at].layer.kind
    listed = [(u.domain, u.op_type, u.count, u.reason) for u in found.unsupported if u.reason == "nobody knows"]
    assert listed == [("tensorrt-rtx", kind, 1, "nobody knows")]
    name = RESNET.document.layers[at].layer.name
    (layer,) = (layer for layer in found.gpus[0].layers if layer.name == name)
    assert (layer.work, layer.estimate) == (None, None)
    assert layer.reason.startswith("nobody knows")
    assert known(found.gpus[0].time_ns) < known(whole.gpus[0].time_ns)
    assert any("layers without a price" in note for note in found.gpus[0].notes)


def test_memory_is_weights_and_what_lives_at_one_time() -> None:
    found = predict_plan(RESNET, RESNET_MODEL, [RTX_4090], Settings())
    model = RESNET_MODEL.model
    # Beside the weights, input and output live all the time, and what the largest layer writes.
    activations = found.memory_bytes - sum(
        {name: cost.reads[name] for cost in RESNET.costs for name in cost.constants}.values()
    )
    image, first = 2 * 3 * 64 * 64 * 4, 2 * 16 * 64 * 64 * 4
    assert image + first <= activations <= image + 3 * first
    assert found.memory_bytes >= model.parameter_bytes * 0.9
    small = msgspec.structs.replace(
        RTX_4090, memory_bytes=msgspec.structs.replace(RTX_4090.memory_bytes, value=found.memory_bytes - 1)
    )
    (tight,) = predict_plan(RESNET, RESNET_MODEL, [small], Settings()).gpus
    assert any(note.startswith("does not fit") for note in tight.notes)
    assert not any(note.startswith("does not fit") for note in found.gpus[0].notes)
