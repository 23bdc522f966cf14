"""What a model takes on GPUs that are not at hand: the figures of the story, and what always holds."""

from __future__ import annotations

from pathlib import Path

import msgspec
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.fakes.support import SAMPLES, known, load_script, real_models, refused
from trtprof.analysis.work import inspection_of
from trtprof.base.errors import UsageError
from trtprof.base.records import GpuPrediction, PredictedLayer, Prediction, Source
from trtprof.cost.recast import PRECISIONS
from trtprof.flows.inspect import inspect
from trtprof.flows.predict import predict
from trtprof.flows.predict.groups import Settings, predict_source
from trtprof.hardware import gpus
from trtprof.source.load import load_model, source_of
from trtprof.source.request import ModelRequest

GEMV = SAMPLES / "gemv.onnx"
RTX_4090, A100, T4 = gpus.find("rtx-4090"), gpus.find("a100-sxm4-80gb"), gpus.find("t4")


def source(path: Path, **shapes: tuple[int, ...]) -> Source:
    return source_of(load_model(path), shapes, feed=False)


def on_4090(path: Path, how: Settings, **shapes: tuple[int, ...]) -> GpuPrediction:
    (found,) = predict_source(source(path, **shapes), [RTX_4090], how).gpus
    return found


# --- the story ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("dram", "ms"), [(1.01e12, 0.248), (0.92e12, 0.273)])
@pytest.mark.parametrize("cold", [True, False])
def test_the_story_gemv(dram: float, ms: float, cold: bool) -> None:
    """250,828,800 bytes; no cache of 72 MiB keeps a thing of them from one inference to the next."""
    found = on_4090(GEMV, Settings(overrides={"dram": dram, "fp32": 78.65e12}, cold=cold))
    assert round(known(found.time_ns) / 1e6, 3) == ms
    (layer,) = found.layers
    assert layer.estimate is not None
    assert layer.estimate.bound == "dram"
    assert round(layer.estimate.terms["tensor"] / 1e6, 5) == 0.00156
    assert layer.estimate.dram_bytes == 250_828_800


def test_the_story_convolution(tmp_path: Path) -> None:
    generate = load_script(SAMPLES / "generate.py", "sample_models_generate_conv")
    onnx.save(generate.conv(), tmp_path / "conv.onnx")
    found = on_4090(tmp_path / "conv.onnx", Settings(precision="fp32"), x=(1, 512, 256, 256))
    (layer,) = found.layers
    assert layer.work is not None
    assert layer.work.macs == 429_496_729_600
    assert found.ceilings.attainable.tensor_flops_per_s["fp32"] == 82.6e12
    assert round(known(found.time_ns) / 1e6, 1) == 10.4
    assert list(found.ns_by_bound) == ["tensor"]


def test_ridges_are_peak_over_bandwidth() -> None:
    found = on_4090(GEMV, Settings(precision="fp32"))
    assert found.ridge["fp32"] == 82.6e12 / 1.008e12


# --- several GPUs, several precisions -----------------------------------------------------------


@pytest.fixture(scope="module")
def compared() -> Prediction:
    return predict_source(source(SAMPLES / "resnet_tiny.onnx", image=(64, 3, 64, 64)), [RTX_4090, A100, T4], Settings())


def test_gpus_stand_in_the_order_asked_for_and_the_best_are_named(compared: Prediction) -> None:
    assert [gpu.gpu for gpu in compared.gpus] == ["rtx-4090", "a100-sxm4-80gb", "t4"]
    times = {gpu.gpu: known(gpu.time_ns) for gpu in compared.gpus}
    assert times[compared.fastest] == min(times.values())
    joules = {gpu.gpu: known(gpu.joules) for gpu in compared.gpus}
    assert joules[compared.most_efficient] == min(joules.values())
    for gpu in compared.gpus:
        assert known(gpu.joules) == pytest.approx(known(gpu.time_ns) * 1e-9 * gpu.tdp_w)
        assert sum(gpu.ns_by_bound.values()) == known(gpu.time_ns) >= known(gpu.ideal_ns)


def test_a_precision_without_a_unit_has_no_time(compared: Prediction) -> None:
    by_precision = {gpu.gpu: gpu.by_precision for gpu in compared.gpus}
    missing = {slug: {name for name, ns in of.items() if ns is None} for slug, of in by_precision.items()}
    # Turing has no TF32, bf16 and fp8, Ampere no fp8.
    assert missing == {"rtx-4090": set(), "a100-sxm4-80gb": {"fp8"}, "t4": {"tf32", "bf16", "fp8"}}


def test_what_is_asked_for_is_what_the_table_says(compared: Prediction) -> None:
    for precision in PRECISIONS[1:]:
        found = predict_source(source(SAMPLES / "resnet_tiny.onnx", image=(64, 3, 64, 64)), [A100, T4],
                               Settings(precision=precision))  # fmt: skip
        for gpu, before in zip(found.gpus, compared.gpus[1:], strict=True):
            assert before.by_precision[precision] in (None, gpu.time_ns)
            if before.by_precision[precision] is None:
                assert any(f"no unit for {precision}" in note for note in gpu.notes)


def test_the_model_itself_runs_on_tf32_where_there_is_tf32(compared: Prediction) -> None:
    _, a100, t4 = compared.gpus
    assert a100.time_ns == a100.by_precision["tf32"] != a100.by_precision["fp32"]
    assert t4.time_ns == t4.by_precision["fp32"]


def test_fewer_bits_never_take_longer(compared: Prediction) -> None:
    for gpu in compared.gpus:
        order = [ns for name in ("fp32", "fp16", "int8") if (ns := gpu.by_precision[name]) is not None]
        assert order == sorted(order, reverse=True)


def test_a_quantised_model_multiplies_integers_and_reads_them() -> None:
    found = on_4090(SAMPLES / "qdq_cnn.onnx", Settings(), image=(8, 3, 32, 32))
    convolutions = [layer for layer in found.layers if "Conv" in layer.op_type]
    assert {layer.work.dtype for layer in convolutions if layer.work} == {"int8"}
    first = convolutions[1]
    assert first.work is not None
    # x and y in 8 bits, 16 x 16 x 3 x 3 weights in 8 bits, 16 biases of 32; scale and zero point of y.
    assert first.work.bytes == 2 * 8 * 16 * 32 * 32 + 16 * 16 * 9 + 16 * 4 + 4 + 1


def test_the_clock_scales_arithmetic_and_not_memory() -> None:
    slow = on_4090(GEMV, Settings(clock_mhz=RTX_4090.boost_mhz.value / 2))
    fast = on_4090(GEMV, Settings())
    assert slow.time_ns == fast.time_ns
    (before,), (after,) = fast.layers, slow.layers
    assert before.estimate is not None
    assert after.estimate is not None
    assert after.estimate.terms["tensor"] == pytest.approx(2 * before.estimate.terms["tensor"], abs=2)


def test_memory_is_weights_and_what_lives_at_one_time(tmp_path: Path) -> None:
    """Of a chain x -> a -> b -> y two neighbours live at a time, beside the input and the output of the model."""
    shape, chain = [256, 256], [("x", "a"), ("a", "b"), ("b", "y")]
    nodes = [helper.make_node("MatMul", [a, f"w{i}"], [b], name=b) for i, (a, b) in enumerate(chain)]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [helper.make_tensor(f"w{i}", TensorProto.FLOAT, shape, b"\0" * 256 * 256 * 4, raw=True) for i in range(3)],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    found = predict_source(source(tmp_path / "m.onnx"), [RTX_4090], Settings())
    each = 256 * 256 * 4
    assert found.memory_bytes == 3 * each + 4 * each
    half = predict_source(source(tmp_path / "m.onnx"), [RTX_4090], Settings(precision="fp16"))
    assert half.memory_bytes == found.memory_bytes // 2
    tiny = msgspec.structs.replace(
        RTX_4090, memory_bytes=msgspec.structs.replace(RTX_4090.memory_bytes, value=6 * each)
    )
    full = predict_source(source(tmp_path / "m.onnx"), [tiny], Settings())
    assert any(note.startswith("does not fit") for note in full.gpus[0].notes)


def test_a_body_counts_as_often_as_it_runs(tmp_path: Path) -> None:
    shape, whole, info = [64, 64], TensorProto.FLOAT, helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("MatMul", ["h", "w"], ["t"], name="p"), helper.make_node("Relu", ["t"], ["h2"], name="r"),
         helper.make_node("Identity", ["go"], ["go2"], name="i")],
        "body", [info("n", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("h", whole, shape)],
        [info("go2", TensorProto.BOOL, []), info("h2", whole, shape)],
    )  # fmt: skip
    graph = helper.make_graph(
        [helper.make_node("Loop", ["seven", "", "x"], ["y"], name="loop", body=body)], "g",
        [info("x", TensorProto.FLOAT, shape)], [info("y", TensorProto.FLOAT, shape)],
        [helper.make_tensor("seven", TensorProto.INT64, [], [7]),
         helper.make_tensor("w", TensorProto.FLOAT, shape, b"\0" * 64 * 64 * 4, raw=True)],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    found = on_4090(tmp_path / "m.onnx", Settings())
    (layer,) = found.layers
    assert (layer.op_type, layer.repeats) == ("MatMul + Relu", 7)
    assert layer.estimate is not None
    assert found.time_ns == 7 * layer.estimate.attainable_ns


def test_an_op_without_a_price_is_listed_and_not_in_the_time(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Mystery", ["x"], ["h"], name="m", domain="nobody"),
        helper.make_node("Relu", ["h"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [info("x", TensorProto.FLOAT, [8])], [info("y", TensorProto.FLOAT, [8])],
                              value_info=[info("h", TensorProto.FLOAT, [8])])  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("nobody", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    found = predict_source(source(tmp_path / "m.onnx"), [RTX_4090], Settings())
    assert [(u.op_type, u.count) for u in found.unsupported] == [("Mystery", 1)]
    mystery, relu = found.gpus[0].layers
    assert (mystery.estimate, mystery.work) == (None, None)
    assert mystery.reason
    assert relu.estimate is not None
    assert found.gpus[0].time_ns == relu.estimate.attainable_ns
    assert any("without a price" in note for note in found.gpus[0].notes)


@pytest.mark.parametrize(
    "how",
    [
        Settings(precision="fp4"),
        Settings(level="tensors"),  # type: ignore[arg-type]
        Settings(overrides={"drum": 1e12}),
        Settings(overrides={"dram": -1.0}),
        Settings(clock_mhz=0.0),
    ],
)
def test_what_is_not_possible_is_refused(how: Settings) -> None:
    with pytest.raises(UsageError) as error:
        on_4090(GEMV, how)
    assert refused(error.value)


def test_the_pipeline_opens_the_model_as_inspect_does() -> None:
    path = str(SAMPLES / "resnet_tiny.onnx")
    found = predict(ModelRequest.of(path, batch=4), [RTX_4090], Settings())
    assert found.model == inspect(ModelRequest.of(path, batch=4)).model


# --- what always holds --------------------------------------------------------------------------


def totals(layers: tuple[PredictedLayer, ...]) -> tuple[int, int]:
    works = [(layer.work, layer.repeats) for layer in layers if layer.work is not None]
    return sum(w.tensor_flops * times for w, times in works), sum(w.bytes * times for w, times in works)


@pytest.mark.parametrize("path", real_models(), ids=lambda path: path.stem)
def test_groups_multiply_as_much_as_nodes_and_move_no_more(path: Path) -> None:
    model = source(path)
    (groups,) = predict_source(model, [RTX_4090], Settings()).gpus
    (nodes,) = predict_source(model, [RTX_4090], Settings(level="nodes")).gpus
    group_flops, group_bytes = totals(groups.layers)
    node_flops, node_bytes = totals(nodes.layers)
    assert group_flops == node_flops == inspection_of(model).total.tensor_flops
    assert group_bytes <= node_bytes
    assert known(groups.time_ns) <= known(nodes.time_ns)


@pytest.mark.parametrize("path", real_models(), ids=lambda path: path.stem)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_no_layer_is_above_its_roof(path: Path, precision: str) -> None:
    (found,) = predict_source(source(path), [A100], Settings(precision=precision)).gpus
    attainable = found.ceilings.attainable
    for layer in found.layers:
        if layer.estimate is None or layer.work is None:
            continue
        seconds = layer.estimate.attainable_ns / 1e9
        assert layer.work.bytes / seconds <= attainable.cache_bytes_per_s
        assert layer.work.fewest_tensor_flops / seconds <= max(attainable.tensor_flops_per_s.values())
        assert layer.estimate.dram_bytes + layer.estimate.cache_bytes == layer.work.bytes
        assert layer.estimate.attainable_ns == max(layer.estimate.terms.values())


@given(st.sampled_from(sorted(gpus.specs())), st.sampled_from(PRECISIONS[1:]), st.booleans())
def test_a_cold_cache_never_helps(slug: str, precision: str, by_nodes: bool) -> None:
    model, spec = source(SAMPLES / "transformer_block.onnx"), gpus.find(slug)
    level = "nodes" if by_nodes else "groups"
    warm, cold = (
        predict_source(model, [spec], Settings(precision=precision, level=level, cold=cold)).gpus[0]  # type: ignore[arg-type]
        for cold in (False, True)
    )
    assert known(warm.time_ns) <= known(cold.time_ns)
    assert all(layer.estimate is None or not layer.estimate.cache_bytes for layer in cold.layers)


def test_the_same_model_gives_the_same_prediction() -> None:
    made = [predict_source(source(SAMPLES / "transformer_block.onnx"), [A100], Settings()) for _ in range(2)]
    assert msgspec.json.encode(made[0]) == msgspec.json.encode(made[1])
