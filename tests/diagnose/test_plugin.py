"""The weighing of a plugin: the story, cases in which users found that a plugin did not pay, and what always holds.

The cases of users are those of issues of NVIDIA/TensorRT, rebuilt with tensors of a size that shows the cause; numbers
follow from the ceilings of the story.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.cases import CEILINGS, RTX_4090, Timed, engine_case, gemv, layer, relu, tensor
from tests.fakes.engine_factory import ENGINES, MOBILENET, RESIDUALS, RESNET, RESNET_QAT, files_of
from tests.fakes.plugin_cases import (
    GPU,
    HALF_RATES,
    LINEAR,
    NHWC8,
    SM50,
    matched,
    plan_tensor,
    story,
    weigh,
    with_kernel,
)
from tests.fakes.support import SAMPLES, one_unit
from trtprof.base.records import Coverage, LayerResult, Op, PlanTensor, PluginCandidate, Run, Tensor
from trtprof.diagnose.plugin import Thought, candidates, fused_in, is_linear, no_candidates, noise_floor_ns
from trtprof.diagnose.plugin import weigh as weigh_layer
from trtprof.engine.inspector import read_layer_info
from trtprof.flows.analyze import Files, analyze
from trtprof.flows.predict.on_gpus import Settings
from trtprof.hardware import gpus
from trtprof.report import ReportOptions, get


def barrier_ns(one: PluginCandidate) -> int:
    return sum(part.ns for part in one.barrier)


def test_the_gemv_of_the_story_is_worth_a_kernel() -> None:
    case, plan = story(1_900_000)
    (result,) = case.layers
    assert result.bytes == 250_828_800
    assert result.attainable_ns == pytest.approx(250_828_800 / 0.92e12 * 1e9, abs=1)
    found = weigh(case, plan, ops={"gemv": case.engine["gemv"].op})
    assert found.verdict == "write it"
    assert found.kernel == SM50
    # The middle between the ceiling and 70 % of it: 0.273 ms / 0.85.
    assert found.reachable_ns == pytest.approx(320_753, abs=2)
    assert found.recoverable_ns == 1_900_000 - found.reachable_ns
    # One node has no fusion to cut, and its tensors are linear: a launch is all.
    assert [part.ns for part in found.barrier] == [2000]
    assert found.net_ns == found.recoverable_ns - 2000
    # At worst 70 % of the ceiling, and 1 % of noise either way; at best the ceiling.
    assert found.net_low_ns == pytest.approx(1_900_000 - 19_000 - 272_640 / 0.7 - 2000, abs=3)
    assert found.net_high_ns == pytest.approx(1_900_000 + 19_000 - 272_640 - 2000, abs=3)
    assert [step.what for step in found.ladder] == [
        "half precision", "a higher builder optimisation level", "a build route (TensorRT 11.1 and later)"
    ]  # fmt: skip
    # Half the bytes take half the time, if the kernel is as slow at them.
    assert found.ladder[0].gain_ns == pytest.approx(950_000, rel=1e-3)
    assert found.ladder[0].command == "trtprof run MODEL --fp16 -o reports/b"
    assert "950 us" in found.why


def test_where_half_precision_is_predicted_to_bring_most_of_it_that_comes_first() -> None:
    case, plan = story(600_000)
    found = weigh(case, plan)
    assert found.net_low_ns > 0
    assert found.verdict == "try first"
    assert found.why.startswith("cheaper: half precision, predicted to bring 300 us, where a plugin")


def test_any_layer_can_be_weighed_and_none_that_is_not_listed_is_to_be_written(subtests: pytest.Subtests) -> None:
    rows: list[int] = [270_000, 300_000, 350_000, 380_000, 400_000, 1_900_000]
    for ns in rows:
        with subtests.test(ns=ns):
            case, plan = story(ns)
            case = case._replace(plan={"gemv": plan})
            found = weigh_layer(case, case.layers[0])
            listed = candidates(case)
            assert found.listed == bool(listed)
            assert found.candidate is not None
            assert (found.candidate.verdict, found.candidate.why) == (found.verdict, found.why)
            if listed:
                assert found.candidate == listed[0]
                assert found.candidate.command == "trtprof plugin RUN gemv"
            else:
                assert (found.verdict, found.candidate.command) == ("do not", "")


def test_between_the_least_and_the_best_of_its_class_there_is_none_to_write() -> None:
    """Though something could be won back: kernels that are as slow are healthy."""
    case, plan = story(380_000)
    found = weigh_layer(case._replace(plan={"gemv": plan}), case.layers[0])
    assert found.candidate is not None
    assert found.candidate.net_ns > noise_floor_ns(case)
    assert (found.verdict, found.listed) == ("do not", False)
    assert found.why.startswith("it is no slower than kernels of its class are")


def test_a_kernel_that_is_known_better_is_weighed_as_it_is() -> None:
    case, plan = story(1_900_000)
    case = case._replace(plan={"gemv": plan})
    (before,) = candidates(case)
    known = weigh_layer(case, case.layers[0], Thought(ns=400_000, basis="predicted")).candidate
    assert known is not None
    assert (known.reachable_ns, known.basis) == (400_000, "predicted")
    assert known.net_ns == 1_500_000 - 2000
    assert known.net_low_ns <= known.net_ns < before.net_ns < known.net_high_ns == before.net_high_ns
    fast = weigh_layer(case, case.layers[0], Thought(ns=1)).candidate
    assert fast is not None
    assert fast.reachable_ns == case.layers[0].attainable_ns, "nothing beats the ceiling"
    slow = weigh_layer(case, case.layers[0], Thought(ns=1_899_000)).candidate
    assert slow is not None
    assert slow.net_low_ns <= slow.net_ns
    assert slow.verdict == "do not"


def test_what_cannot_be_weighed_says_why() -> None:
    case, plan = story(1_900_000)
    case = case._replace(plan={"gemv": plan})
    (one,) = case.layers
    for changed, of, verdict, why in (
        (case._replace(gpu=False), one, "not decided", "on a CPU"),
        (case._replace(partial=frozenset({"gemv"})), one, "not decided", "only a part of its work"),
        (case, msgspec.structs.replace(one, bound="unknown", reason="no cost"), "not decided", "not known: no cost"),
        (case, msgspec.structs.replace(one, constant=True), "do not", "before the run"),
        (case, msgspec.structs.replace(one, role="layout"), "do not", "no work of the model"),
    ):
        found = weigh_layer(changed, of)
        assert (found.verdict, why in found.why, found.candidate) == (verdict, True, None)
    assert weigh_layer(case, one, doubts=("too noisy",)).why == "there is no verdict: too noisy"


def test_the_command_names_a_node_of_the_layer_alone_as_a_shell_takes_it() -> None:
    case, plan = story(1_900_000)
    (one,) = case.layers
    spaced = msgspec.structs.replace(one, nodes=("a node",))
    assert weigh(case._replace(layers=(spaced,)), plan).command == "trtprof plugin RUN 'a node'"
    other = msgspec.structs.replace(one, name="other", nodes=("a node",), lost_ns=0)
    assert weigh(case._replace(layers=(spaced, other)), plan).command == "trtprof plugin RUN gemv"


def test_a_plugin_that_computes_what_is_fused_too_cuts_nothing() -> None:
    a, b, m, r, y = (tensor(name, 512, 512) for name in "abmry")
    one = layer("first", "MatMul", (a, b), (m,), nodes=("first", "second", "third"))
    case = engine_case(Timed(one, 10.0))
    case = case._replace(ops={"first": one.op, "second": op("Add", (m, a), r), "third": op("Relu", (r,), y)})
    result = case.layers[0]
    alone = fused_in(case, result)
    assert (alone.nodes, alone.behind) == (("first",), ("Add", "Relu"))
    assert [name for name, _, _ in alone.crossing] == ["m"]
    part = fused_in(case, result, ("first", "second"))
    assert (part.nodes, part.behind, [name for name, _, _ in part.crossing]) == (("first", "second"), ("Relu",), ["r"])
    whole = fused_in(case, result, ("first", "second", "third"))
    assert (whole.crossing, whole.before, whole.behind) == ((), (), ())


def conv(elements: int, *, slow: float, out: str = "y", size: int = 512) -> Timed:
    """A convolution of 1 x 1 in fp16 that memory bounds: ``elements`` channels, in and out alike."""
    image, made = (tensor(name, 1, elements, size, size, dtype="fp16") for name in ("x", out))
    weights = tensor("w", elements, elements, 1, 1, dtype="fp16", constant=True)
    return Timed(layer("conv", "Conv", (image, weights), (made,), nodes=("conv",)), slow)


def op(op_type: str, inputs: Sequence[Tensor], *outputs: Tensor) -> Op:
    return Op(op_type=op_type, opset=17, inputs=tuple(inputs), outputs=outputs)


def test_4029_an_empty_plugin_adds_time_by_the_formats_at_its_borders() -> None:
    """A layer between channel-major tensors: all that is won back goes into reformats."""
    case = engine_case(conv(64, slow=2.0), ceilings=GPU)
    image, made = (plan_tensor(name, 1, 64, 512, 512, form=NHWC8) for name in ("x", "y"))
    found = weigh(case, matched("conv", (image,), (made,)), ops={"conv": case.engine["conv"].op})
    assert found.verdict == "do not"
    assert found.net_high_ns < found.recoverable_ns
    size = 64 * 512 * 512 * 2
    reformats = [part for part in found.barrier if part.bytes]
    assert [part.what.partition(":")[0] for part in reformats] == [
        "a reformat of x before it, NHWC8 -> Linear", "a reformat of y behind it, Linear -> NHWC8"
    ]  # fmt: skip
    assert [part.bytes for part in reformats] == [2 * size, 2 * size]
    # Read and written at 0.92 TB/s, and a launch each.
    assert reformats[0].ns == pytest.approx(2 * size / 0.92e12 * 1e9 + 2000, abs=1)
    assert "nothing is left; one that takes and gives the formats as they are would keep" in found.why
    linear = weigh(case, matched("conv", (plan_tensor("x", 1, 64, 512, 512),), (plan_tensor("y", 1, 64, 512, 512),)))
    assert linear.verdict == "write it"


def test_3573_a_normalisation_out_of_its_fusion_costs_more_than_it_brings() -> None:
    """LayerNormalization and the addition of the residual before it in one kernel, not far from its roof."""
    x, r, s, y = (tensor(name, 32, 512, 768, dtype="fp16") for name in "xrsy")
    scale = tensor("g", 768, dtype="fp16", constant=True)
    one = layer("norm", "LayerNormalization", (s, scale), (y,), nodes=("add", "norm"))
    case = engine_case(Timed(one, 1 / 0.6), ceilings=GPU)
    ops = {"add": op("Add", (x, r), s), "norm": one.op}
    plan = matched("norm", (plan_tensor("x", 32, 512, 768),), (plan_tensor("y", 32, 512, 768),), ("add", "norm"))
    found = weigh(case, plan, ops=ops)
    assert found.verdict == "do not"
    assert found.net_ns < 0
    crossing, apart, launch = found.barrier
    assert crossing.what.startswith("s crosses memory, written and read: 25.2 MB")
    assert crossing.bytes == 2 * 32 * 512 * 768 * 2
    assert apart.what == "Add before LayerNormalization: a layer of its own, with a launch"
    assert (apart.ns, launch.ns) == (2000, 2000)
    assert "one that computes Add too would keep" in found.why
    # A plugin for the norm alone, where the engine did not fuse the addition either.
    alone = engine_case(Timed(msgspec.structs.replace(one, nodes=("norm",)), 1 / 0.6), ceilings=GPU)
    assert weigh(alone, msgspec.structs.replace(plan, nodes=("norm",)), ops=ops).verdict != "do not"


@pytest.mark.parametrize("told_by", ["the plan", "the model"])
def test_4345_a_plugin_cannot_write_into_a_concatenation(told_by: str) -> None:
    """Two layers write their part of a concatenation in its place; behind a plugin there is a copy."""
    case = engine_case(conv(64, slow=2.0), ceilings=GPU)
    name = "cat" if told_by == "the plan" else "y"
    target = plan_tensor(name, 1, 64, 512, 512)
    first = matched("conv", (plan_tensor("x", 1, 64, 512, 512),), (target,))
    other = matched("other", (plan_tensor("z", 1, 64, 512, 512),), (plan_tensor("cat", 1, 64, 512, 512),))
    joined = op(
        "Concat", (tensor("y", 1, 64, 512, 512), tensor("cat", 1, 64, 512, 512)), tensor("all", 1, 128, 512, 512)
    )
    ops = {"conv": case.engine["conv"].op} | ({"join": joined} if told_by == "the model" else {})
    found = weigh(case, first, other, ops=ops)
    assert found.verdict == "do not"
    copy = found.barrier[0]
    assert copy.what.startswith("a copy into the ")
    assert ("which 2 layers write" in copy.what) == (told_by == "the plan")
    assert ("the concatenation join" in copy.what) == (told_by == "the model")
    assert copy.bytes == 2 * 64 * 512 * 512 * 2
    # A concatenation that is a layer of its own copies already.
    joins = matched("join", (target,), (plan_tensor("all", 1, 128, 512, 512),), kind="Concatenation")
    if told_by == "the model":
        assert weigh(case, first, other, joins, ops=ops).verdict == "write it"


def test_4714_a_plugin_for_a_convolution_loses_its_epilogue() -> None:
    """Convolution and activation in one kernel, channel-major on both sides."""
    image, made, out = (tensor(name, 1, 64, 512, 512, dtype="fp16") for name in "xmy")
    case = engine_case(conv(64, slow=3.0, out="m"), ceilings=GPU)
    fused = msgspec.structs.replace(case.layers[0], nodes=("conv", "relu"))
    case = case._replace(layers=(fused,))
    ops = {"conv": case.engine["conv"].op, "relu": op("Relu", (made,), out)}
    borders = [plan_tensor(name, 1, 64, 512, 512, form=NHWC8) for name in "xy"]
    found = weigh(case, matched("conv", borders[:1], borders[1:], ("conv", "relu")), ops=ops)
    assert image.nbytes is not None
    assert found.verdict == "do not"
    # The product written and read, and two reformats; the activation and the plugin itself are launches.
    assert [part.bytes for part in found.barrier] == [2 * image.nbytes, 0, 2 * image.nbytes, 2 * image.nbytes, 0]
    assert "Relu behind Conv" in found.barrier[1].what
    assert "computes Relu too and takes and gives the formats as they are would keep" in found.why
    # Slow enough, it pays for all of that.
    slower = msgspec.structs.replace(
        fused, measured_ns=4 * fused.measured_ns, lost_ns=4 * fused.measured_ns - (fused.attainable_ns or 0)
    )
    latency = msgspec.structs.replace(case.latency, median_ns=slower.measured_ns)
    again = case._replace(layers=(slower,), latency=latency)
    assert weigh(again, matched("conv", borders[:1], borders[1:], ("conv", "relu")), ops=ops).verdict == "write it"


def test_a_reformat_that_is_there_for_the_layer_alone_falls_away() -> None:
    case = engine_case(conv(64, slow=2.0), ceilings=GPU)
    inside = [plan_tensor(name, 1, 64, 512, 512, form=NHWC8) for name in ("x", "y")]
    outside = [plan_tensor(name, 1, 64, 512, 512) for name in ("x0", "y0")]
    before = matched("before", outside[:1], inside[:1], kind="Reformat", role="layout")
    behind = matched("behind", inside[1:], outside[1:], kind="Reformat", role="layout")
    one = matched("conv", inside[:1], inside[1:])
    assert len(weigh(case, before, one, behind).barrier) == 1
    other = matched("other", inside[:1], [plan_tensor("z", 1, 64, 512, 512)])
    parts = weigh(case, before, one, behind, other).barrier
    assert [part.what.partition(" before")[0] for part in parts[:-1]] == ["a reformat of x"]


def test_what_a_plugin_takes_for_linear(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, Any], bool]] = [
        ({"format": LINEAR}, True),
        ({"format": ""}, True),
        ({"format": NHWC8}, False),
        ({"format": "Thirty-two wide channel vectorized row major Int8 format", "vector": 32, "vector_axis": 1}, False),
        ({"format": "(Arbitrary) Format with stride order = [1,2,0]", "strides": (6, 1, 2)}, False),
        # What an order says of dimensions of one element moves nothing.
        ({"format": "(Arbitrary) Format with stride order = [0,2,1]", "strides": (1, 3, 1)}, True),
        ({"format": "(Linear) Row major linear format", "strides": (6, 3, 1)}, True),
        ({"format": "(Linear) Row major linear format", "strides": (6, 0, 1)}, False),
    ]
    for fields, expected in rows:
        with subtests.test(str(fields)):
            assert is_linear(PlanTensor(name="t", dims=(1, 2, 3), dtype="fp16", **fields)) is expected


def test_views_and_constants_inside_a_layer_move_nothing_and_the_engine_has_its_own_width() -> None:
    """MatMul, Reshape, Add of a dequantised bias, Relu: only the product crosses, as fp16."""
    a, b, m, v, s, y = (tensor(name, 64, 64) for name in "abmvsy")
    q, bias = tensor("q", 64, constant=True, dtype="int8"), tensor("bias", 64)
    names = ("product", "view", "dequantise", "add", "relu")
    one = layer("product", "MatMul", (a, b), (m,), nodes=names)
    ops = {
        "product": one.op,
        "view": op("Reshape", (m, tensor("to", 2, dtype="int64", constant=True)), v),
        "dequantise": op("DequantizeLinear", (q,), bias),
        "add": op("Add", (v, bias), s),
        "relu": op("Relu", (s,), y),
    }
    plan = matched("product", (plan_tensor("a", 64, 64),), (plan_tensor("y", 64, 64),), names)
    case = engine_case(Timed(one), plan={"product": plan})
    found = fused_in(case._replace(ops=ops), case.layers[0])
    assert found.main == "MatMul"
    assert found.crossing == (("m", 64 * 64 * 2, 2),)
    assert (found.before, found.behind) == ((), ("Add", "Relu"))
    assert not found.guessed


def test_without_the_model_the_words_of_the_plan_tell_that_something_is_fused() -> None:
    one = layer("l", "MatMul", (tensor("a", 8, 8), tensor("b", 8, 8)), (tensor("y", 8, 8),))
    named = matched("__myl_FcAddRelu_myl0_1", (plan_tensor("a", 8, 8),), (plan_tensor("y", 8, 8),), kind="gemm")
    case = engine_case(Timed(one), plan={"l": named})
    unnamed = msgspec.structs.replace(case.layers[0], nodes=())
    found = fused_in(case, unnamed)
    assert found.guessed
    assert found.crossing[0][1:] == (128, 2)
    assert found.behind == ("Add", "Relu")
    # A node that the plan names for sure may be many words of Myelin.
    assert not fused_in(case, case.layers[0]).crossing
    # Weights and what quantises them are in the name of a layer, and are no work of it.
    result = msgspec.structs.replace(case.layers[0], nodes=("conv1.weight", "QuantizeLinear_7", "Conv_9"))
    alone = case._replace(plan={"l": matched("l", (), ())})
    assert not fused_in(alone, result).crossing


def test_a_chain_without_a_main_op_is_computed_as_a_whole() -> None:
    x, m, y = (tensor(name, 64, 64) for name in "xmy")
    one = layer("exp", "Exp", (x,), (m,), nodes=("exp", "mul"))
    case = engine_case(Timed(one))
    found = fused_in(case._replace(ops={"exp": one.op, "mul": op("Mul", (m, m), y)}), case.layers[0])
    assert (found.crossing, found.before, found.behind, found.products) == ((), (), (), 1)


def test_what_fits_the_cache_crosses_it_and_at_worst_dram() -> None:
    """0.4 MB through a cache of 1 MB at 40 GB/s, or DRAM at 10 GB/s."""
    x, m, y = (tensor(name, 100_000) for name in "xmy")
    one = layer("soft", "Softmax", (x,), (m,), nodes=("soft", "relu"))
    ops = {"soft": one.op, "relu": op("Relu", (m,), y)}
    case = engine_case(Timed(one, 20.0), cv=0.0)
    found = weigh(case, ops=ops)
    assert found.barrier[0].ns == 800_000 // 40
    attainable = case.layers[0].attainable_ns or 0
    at_worst = case.layers[0].measured_ns - attainable / 0.7 - 800_000 // 10 - 500 * 2
    assert found.net_low_ns == pytest.approx(at_worst, abs=2)


def test_a_loop_pays_the_barrier_in_every_round() -> None:
    case, plan = story(1_900_000)
    assert barrier_ns(weigh(case, plan, runs={"gemv": 7})) == 7 * 2000


def test_several_products_in_one_layer_have_to_be_told_apart_first() -> None:
    a, b, m, c, y = (tensor(name, 512, 512) for name in "abmcy")
    one = layer("first", "MatMul", (a, b), (m,), nodes=("first", "second"))
    case = engine_case(Timed(one, 10.0))
    found = weigh(case, ops={"first": one.op, "second": op("MatMul", (m, c), y)})
    assert found.verdict == "try first"
    assert found.why.startswith("2 products are one layer here")


def test_while_the_host_is_slower_than_the_gpu_no_kernel_shortens_anything() -> None:
    case, plan = story(1_900_000)
    slow_host = case._replace(enqueue_ns=2_500_000, graph_ns=1_000_000)
    found = weigh(slow_host, plan)
    assert found.verdict == "try first"
    assert "CUDA graph" in found.why
    (step,) = [step for step in found.ladder if step.what == "a CUDA graph"]
    assert step.gain_ns == case.latency.median_ns - 1_000_000
    assert step.basis.startswith("measured: 1.00 ms with a CUDA graph")


def test_tensorrt_rtx_takes_no_plugins_and_onnx_runtime_no_builder_level() -> None:
    case, plan = story(1_900_000)
    rtx = weigh(case, plan, backend="tensorrt-rtx")
    assert (rtx.verdict, "TensorRT-RTX takes no plugins" in rtx.why) == ("try first", True)
    ort = weigh(case, plan, backend="ort-cuda")
    assert ort.verdict == "write it"
    assert [step.command for step in ort.ladder] == [
        "trtprof run MODEL-FP16.onnx -o reports/b", "trtprof run MODEL --backend tensorrt -o reports/b"
    ]  # fmt: skip


def test_a_gain_within_the_noise_is_not_worth_it() -> None:
    """A layer of 2 % of the latency, of which two runs of ten inferences that vary by a tenth show nothing."""
    rest = Timed(relu("rest", "p", "q", 10_000_000))
    one = Timed(relu("slow", "x", "y", 100_000), 3.0)
    calm = engine_case(rest, one, cv=0.01)
    assert weigh(calm).verdict != "do not"
    noisy = calm._replace(latency=msgspec.structs.replace(calm.latency, cv=0.1, n=10))
    assert weigh(noisy).verdict == "do not"
    assert noise_floor_ns(noisy) == pytest.approx(2 * 0.1 * (2 / 10) ** 0.5 * calm.latency.median_ns, abs=1)


def test_padding_is_priced_where_no_kernel_is_on_the_tensor_cores() -> None:
    inputs = tensor("a", 4096, 1021, dtype="fp16"), tensor("b", 1021, 4096, dtype="fp16", constant=True)
    one = layer("product", "MatMul", inputs, (tensor("y", 4096, 4096, dtype="fp16"),))
    case = engine_case(Timed(one, 4.0), ceilings=GPU)
    found = weigh(case)
    step = found.ladder[0]
    assert step.what == "zeros that pad K from 1021 to 1024"
    attainable = case.layers[0].attainable_ns or 0
    assert step.gain_ns == pytest.approx(case.layers[0].measured_ns - attainable * 1024 / 1021 / 0.85, abs=3)
    assert found.verdict == "try first"
    assert found.ladder[1].what == "store the weights transposed"
    assert found.ladder[1].gain_ns is None
    tensor_cores = "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x64x32_stage4_warpsize2x2x1_tensor16x8x16"
    step = weigh(with_kernel(case, "product", tensor_cores)).ladder[0]
    assert (step.gain_ns, "on the tensor cores already" in step.basis) == (None, True)


def test_a_quantised_layer_that_writes_floats_can_write_less() -> None:
    inputs = tensor("x", 1, 64, 512, 512, dtype="int8"), tensor("w", 64, 64, 1, 1, dtype="int8", constant=True)
    ints = msgspec.structs.replace(GPU, attainable=one_unit({**HALF_RATES, "int8": 314e12}, dram=0.92e12, cache=5e12))
    one = layer("conv", "ConvInteger", inputs, (tensor("y", 1, 64, 512, 512, dtype="int32"),))
    case = engine_case(Timed(one, 3.0), ceilings=ints)
    plan = matched(
        "conv", (plan_tensor("x", 1, 64, 512, 512, dtype="int8"),), (plan_tensor("y", 1, 64, 512, 512, dtype="fp32"),)
    )
    step = weigh(case, plan).ladder[0]
    assert step.what == "a Q/DQ pair behind it, so that it writes int8"
    # Three quarters of the 67 MB that it writes, of 84 MB in all.
    assert step.gain_ns == pytest.approx(case.layers[0].measured_ns * 0.6, rel=1e-3)


@given(
    slow=st.lists(st.floats(0.5, 30), min_size=1, max_size=8),
    elements=st.lists(st.integers(1, 3_000_000), min_size=8, max_size=8),
    cv=st.floats(0, 2),
    formats=st.lists(st.sampled_from([LINEAR, NHWC8]), min_size=8, max_size=8),
    origin=st.sampled_from(["measured", "datasheet"]),
)
def test_gains_are_within_what_was_lost(
    slow: list[float], elements: list[int], cv: float, formats: list[str], origin: Any
) -> None:
    timed = [Timed(relu(f"r{at}", f"x{at}", f"y{at}", elements[at]), factor) for at, factor in enumerate(slow)]
    case = engine_case(*timed, ceilings=msgspec.structs.replace(CEILINGS, origin=origin), cv=cv)
    plan = {
        one.name: matched(
            one.name,
            (plan_tensor(f"x{at}", elements[at], dtype="fp32", form=formats[at]),),
            (plan_tensor(f"y{at}", elements[at], dtype="fp32"),),
        )
        for at, one in enumerate(case.layers)
    }
    check_laws(case.layers, candidates(case._replace(plan=plan)))
    assert candidates(case) == candidates(case)


def check_laws(layers: Sequence[LayerResult], found: Sequence[PluginCandidate]) -> None:
    by_name = {one.name: one for one in layers}
    for one in found:
        result = by_name[one.layer]
        assert result.lost_ns is not None
        assert result.attainable_ns is not None
        assert one.net_ns == one.recoverable_ns - barrier_ns(one) <= one.recoverable_ns
        assert one.net_low_ns <= one.net_ns <= one.net_high_ns
        assert result.attainable_ns <= one.reachable_ns <= one.measured_ns == result.measured_ns
        assert 0 <= one.recoverable_ns == one.measured_ns - one.reachable_ns <= result.lost_ns
        assert one.verdict != "write it" or one.net_low_ns > 0
        assert one.why
        assert one.basis
        assert all(step.command.startswith("trtprof run ") and step.basis for step in one.ladder)
    assert len({one.layer for one in found}) == len(found)
    assert [one.net_ns for one in found] == sorted((one.net_ns for one in found), reverse=True)
    assert sum(one.recoverable_ns for one in found) <= sum(max(one.lost_ns or 0, 0) for one in layers)


GEMV_LOG = Path(__file__).parents[1] / "engine" / "data" / "rtx_gemv.log"


def run_of(engine: str, folder: Path) -> Run:
    files = files_of(engine, folder)._replace(times=None)
    found = analyze(files, [gpus.find("a100-pcie-80gb")], Settings())
    assert isinstance(found, Run)
    return found


def test_the_story_from_the_plan_of_an_engine_and_a_profile(tmp_path: Path) -> None:
    """The plan in the committed log, with a profile made by hand, on the ceilings of the story."""
    (one,) = read_layer_info(GEMV_LOG).layers
    profile = tmp_path / "profile.json"
    row = {"name": one.name, "timeMs": 190.0, "averageMs": 1.9, "medianMs": 1.9, "percentage": 100.0}
    profile.write_text(json.dumps([{"count": 100}, row]))
    files = Files(layers=GEMV_LOG, profile=profile, onnx=SAMPLES / "gemv.onnx")
    how = Settings(overrides={"dram": 0.92e12, "fp32": 78.65e12}, cold=True)
    run = analyze(files, [gpus.find("rtx-4090")], how)
    assert isinstance(run, Run)
    assert run.layers[0].bytes == 250_828_800
    (found,) = run.candidates
    assert (found.layer, found.verdict) == (one.name, "write it")
    assert [part.what for part in found.barrier] == ["the launch of the plugin itself"]
    check_laws(run.layers, run.candidates)


@pytest.mark.parametrize("engine", [*ENGINES, RESNET, RESNET_QAT, MOBILENET, RESIDUALS])
def test_engines_keep_the_laws_and_are_shown(engine: str, tmp_path: Path) -> None:
    run = run_of(engine, tmp_path)
    check_laws(run.layers, run.candidates)
    text = get("text").render(run, ReportOptions())
    assert ("layers weighed" in text or "layer weighed" in text) == bool(run.candidates)


def test_why_no_layer_is_weighed_is_said() -> None:
    slow = Timed(gemv(), 10.0)
    case = engine_case(slow, ceilings=RTX_4090)
    assert candidates(case)
    shares = Coverage(exact=0.5, inferred=0.2, unattributed=0.3)
    for without, why in (
        (case._replace(gpu=False, tensorrt=False), "not decided: on a CPU"),
        (case._replace(coverage=shares), "only 70.0 % of layer time is attributed, and 95.0 % are needed"),
        (engine_case(Timed(gemv(), 1.0), ceilings=RTX_4090), "no layer whose work is known lost 1.0 % of latency"),
        (engine_case(Timed(gemv(), 1.2), ceilings=RTX_4090), "is slower than kernels of its class"),
    ):
        assert candidates(without) == ()
        assert why in no_candidates(without)
