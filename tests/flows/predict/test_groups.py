"""What a model takes on GPUs that are not at hand: the figures of the story, and what always holds."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from tests.fakes.support import SAMPLES, known, real_models
from trtprof.analysis.work import inspection_of
from trtprof.base.records import GpuPrediction, PredictedLayer, Prediction, Source
from trtprof.cost.recast import PRECISIONS
from trtprof.flows.predict.groups import Settings, predict_source
from trtprof.hardware import gpus
from trtprof.source.load import load_model, source_of

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


def test_what_is_asked_for_is_what_the_table_says(compared: Prediction) -> None:
    for precision in PRECISIONS[1:]:
        found = predict_source(source(SAMPLES / "resnet_tiny.onnx", image=(64, 3, 64, 64)), [A100, T4],
                               Settings(precision=precision))  # fmt: skip
        for gpu, before in zip(found.gpus, compared.gpus[1:], strict=True):
            assert before.by_precision[precision] in (None, gpu.time_ns)
            if before.by_precision[precision] is None:
                assert any(f"no unit for {precision}" in note for note in gpu.notes)


def test_fewer_bits_never_take_longer(compared: Prediction) -> None:
    for gpu in compared.gpus:
        order = [ns for name in ("fp32", "fp16", "int8") if (ns := gpu.by_precision[name]) is not None]
        assert order == sorted(order, reverse=True)


def test_the_clock_scales_arithmetic_and_not_memory() -> None:
    slow = on_4090(GEMV, Settings(clock_mhz=RTX_4090.boost_mhz.value / 2))
    fast = on_4090(GEMV, Settings())
    assert slow.time_ns == fast.time_ns
    (before,), (after,) = fast.layers, slow.layers
    assert before.estimate is not None
    assert after.estimate is not None
    assert after.estimate.terms["tensor"] == pytest.approx(2 * before.estimate.terms["tensor"], abs=2)


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


# --- what always holds --------------------------------------------------------------------------


def totals(layers: tuple[PredictedLayer, ...]) -> tuple[int, int]:
    works = [(layer.work, layer.repeats) for layer in layers if layer.work is not None]
    return sum(w.tensor_flops * times for w, times in works), sum(w.bytes * times for w, times in works)


def test_groups_multiply_as_much_as_nodes_and_move_no_more(subtests: pytest.Subtests) -> None:
    for path in real_models():
        with subtests.test(f"{path}"):
            model = source(path)
            (groups,) = predict_source(model, [RTX_4090], Settings()).gpus
            (nodes,) = predict_source(model, [RTX_4090], Settings(level="nodes")).gpus
            group_flops, group_bytes = totals(groups.layers)
            node_flops, node_bytes = totals(nodes.layers)
            assert group_flops == node_flops == inspection_of(model).total.tensor_flops
            assert group_bytes <= node_bytes
            assert known(groups.time_ns) <= known(nodes.time_ns)


def test_no_layer_is_above_its_roof(subtests: pytest.Subtests) -> None:
    for precision in PRECISIONS:
        for name in ("gemv", "resnet_tiny", "transformer_block", "qdq_cnn"):
            with subtests.test(f"{name} {precision}"):
                (found,) = predict_source(source(SAMPLES / f"{name}.onnx"), [A100], Settings(precision=precision)).gpus
                attainable = found.ceilings.attainable
                for layer in found.layers:
                    if layer.estimate is None or layer.work is None:
                        continue
                    seconds = layer.estimate.attainable_ns / 1e9
                    assert layer.work.bytes / seconds <= attainable.cache_bytes_per_s
                    assert layer.work.fewest_tensor_flops / seconds <= max(attainable.tensor_flops_per_s.values())
                    assert layer.estimate.dram_bytes + layer.estimate.cache_bytes == layer.work.bytes
                    assert layer.estimate.attainable_ns == max(layer.estimate.terms.values())
