"""The weighing of a plugin: the story, cases of users of NVIDIA/TensorRT by their issues, and what always holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from tests.fakes.cases import CEILINGS, RTX_4090, Timed, engine_case, gemv, layer, relu, tensor
from tests.fakes.engine_factory import ENGINES, MOBILENET, RESIDUALS, RESNET, RESNET_QAT, files_of
from tests.fakes.plugin_cases import GPU, LINEAR, NHWC8, SM50, matched, plan_tensor, story, weigh
from trtprof.base.records import Coverage, Op, PlanTensor, Run, Tensor
from trtprof.diagnose import Case
from trtprof.diagnose.plugin import Thought, candidates, cost_of, fused_in, is_linear, no_candidates
from trtprof.diagnose.plugin import weigh as weigh_layer
from trtprof.flows.analyze import analyze
from trtprof.flows.predict.on_gpus import Settings
from trtprof.hardware import gpus

SIZE = 64 * 512 * 512 * 2


def op(op_type: str, inputs: Sequence[Tensor], *outputs: Tensor) -> Op:
    return Op(op_type=op_type, opset=17, inputs=tuple(inputs), outputs=outputs)


def grouped(case: Case, **ops: Op) -> Case:
    """The case with all ``ops`` in its first layer."""
    (first, *rest) = case.layers
    return case._replace(layers=(msgspec.structs.replace(first, nodes=tuple(ops)), *rest), ops=ops)


def conv(slow: float, out: str = "y") -> Case:
    """A 1 x 1 convolution in fp16 that memory bounds."""
    image, made = (tensor(name, 1, 64, 512, 512, dtype="fp16") for name in ("x", out))
    weights = tensor("w", 64, 64, 1, 1, dtype="fp16", constant=True)
    return engine_case(Timed(layer("conv", "Conv", (image, weights), (made,)), slow), ceilings=GPU)


def border(name: str, form: str = LINEAR) -> PlanTensor:
    return plan_tensor(name, 1, 64, 512, 512, form=form)


def test_the_gemv_of_the_story_is_worth_a_kernel() -> None:
    case, plan = story(1_900_000)
    found = weigh(case, plan, ops={"gemv": case.engine["gemv"].op})
    assert (found.verdict, found.kernel, case.layers[0].bytes) == ("write it", SM50, 250_828_800)
    # The middle between the peak and 70 % of it: 0.273 ms / 0.85; a launch is all that it costs.
    assert found.reachable_ns == pytest.approx(320_753, abs=2)
    assert [part.ns for part in found.barrier] == [2000]
    assert found.net_ns == found.recoverable_ns - 2000 == 1_900_000 - found.reachable_ns - 2000
    assert found.net_low_ns == pytest.approx(1_900_000 - 19_000 - 272_640 / 0.7 - 2000, abs=3)
    assert found.net_high_ns == pytest.approx(1_900_000 + 19_000 - 272_640 - 2000, abs=3)
    assert [step.rung for step in found.ladder] == ["fp16", "builder-level-5", "route-more-fusions"]
    assert "no cheaper fix is predicted to bring more than 950 us" in found.why
    assert found.command == "trtprof plugin RUN gemv"
    assert weigh(*story(600_000)).why.startswith("cheaper: half precision, predicted to bring 300 us, where a plugin")


@pytest.mark.parametrize("slow", [1.2, 8.0])
def test_2273_a_gelu_inside_a_fused_product_is_not_to_be_taken_out(slow: float) -> None:
    """On a T4, in fp16: in TensorRT issue 2273 such a plugin took the latency from 44 to 102 ms."""
    a, b = tensor("a", 4096, 768, dtype="fp16"), tensor("b", 768, 3072, dtype="fp16", constant=True)
    m, c, e, y = (tensor(name, 4096, 3072, dtype="fp16") for name in "mcey")
    ceilings = gpus.ceilings(gpus.find("t4"), tf32=False)
    case = engine_case(Timed(layer("ffn", "MatMul", (a, b), (m,)), slow), ceilings=ceilings)
    ops = {"product": case.engine["ffn"].op, "bias": op("Add", (m, b), c), "erf": op("Erf", (c,), e)}
    case = grouped(case, **ops, mul=op("Mul", (c, e), y))
    (ffn,) = case.layers
    verdict, why, one, _ = weigh_layer(case, ffn, Thought(frozenset({"erf", "mul"})))
    assert "computes Erf + Mul in the kernel of MatMul" in why
    assert one is not None
    assert (verdict, "the product loses its epilogue" in why) == ("do not", True)
    # The product takes what it takes now; its result is written and read, and one kernel more is launched.
    assert (one.recoverable_ns, one.reachable_ns, one.command) == (0, ffn.measured_ns, "")
    assert [part.bytes for part in one.barrier] == [2 * 4096 * 3072 * 2, 0]
    moved = 2 * 4096 * 3072 * 2 * 1e9 / case.ceilings.attainable.dram_bytes_per_s
    assert one.net_ns == pytest.approx(-moved - case.ceilings.launch_ns, abs=2)
    product = cost_of(case, ffn)
    assert (product.fused.kept, product.fused.behind) == ("", ("Add", "Erf", "Mul"))
    assert cost_of(case, ffn, Thought(frozenset(ffn.nodes))).barrier_ns < product.barrier_ns


def test_what_is_pointwise_alone_is_left_to_the_engine() -> None:
    x, m, y = (tensor(name, 1_000_000) for name in "xmy")
    chain = engine_case(Timed(layer("chain", "Exp", (x,), (m,)), 9.0))
    for case, words in (
        (engine_case(Timed(relu("relu", "x", "y"), 9.0)), "Relu"),
        (grouped(chain, exp=op("Exp", (x,), m), mul=op("Mul", (m, m), y)), "Exp + Mul"),
    ):
        (listed,) = candidates(case)
        assert (listed.verdict, listed.command) == ("do not", "")
        assert listed.why.startswith(f"an engine fuses it; {words} is pointwise")
        assert weigh_layer(case, case.layers[0], Thought(frozenset(case.layers[0].nodes))).why == listed.why
    softmax = grouped(chain, exp=op("Softmax", (x,), m), mul=op("Mul", (m, m), y))
    assert "an engine fuses it" not in candidates(softmax)[0].why


def test_only_what_is_slower_than_its_class_is_listed_and_nothing_else_is_to_be_written() -> None:
    for ns in (270_000, 380_000, 400_000):
        case, _ = story(ns)
        found, listed = weigh_layer(case, case.layers[0]), candidates(case)
        assert found.candidate is not None
        assert (found.listed, listed) == (ns == 400_000, (found.candidate,) if ns == 400_000 else ())
        assert listed or (found.verdict, found.candidate.verdict, found.candidate.command) == ("do not", "do not", "")


def test_what_cannot_be_weighed_says_why() -> None:
    case, _ = story(1_900_000)
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
    for without, why in (
        (case._replace(coverage=Coverage(exact=0.5, inferred=0.2, unattributed=0.3)), "only 70.0 % of layer time is"),
        (engine_case(Timed(gemv(), 1.0), ceilings=RTX_4090), "no layer whose work is known lost 1.0 % of latency"),
        (engine_case(Timed(gemv(), 1.2), ceilings=RTX_4090), "is slower than kernels of its class"),
    ):
        assert (candidates(without), why in no_candidates(without)) == ((), True)


def test_4029_formats_at_its_borders_cost_reformats_but_for_those_that_are_there_for_it() -> None:
    case = conv(2.0)
    inside, outside = ([border(name, form) for name in names] for names, form in (("xy", NHWC8), ("ab", LINEAR)))
    found = weigh(case, matched("conv", inside[:1], inside[1:]), ops={"conv": case.engine["conv"].op})
    words = [part.what.partition(":")[0] for part in found.barrier[:-1]]
    assert words == ["a reformat of x before it, NHWC8 -> Linear", "a reformat of y behind it, Linear -> NHWC8"]
    assert found.barrier[0].ns == pytest.approx(2 * SIZE / 0.92e12 * 1e9 + 2000, abs=1)
    assert "nothing is left; one that takes and gives the formats as they are would keep" in found.why
    assert weigh(case, matched("conv", outside[:1], outside[1:])).verdict == "write it"
    before = matched("before", outside[:1], inside[:1], kind="Reformat", role="layout")
    behind = matched("behind", inside[1:], outside[1:], kind="Reformat", role="layout")
    one, other = matched("conv", inside[:1], inside[1:]), matched("other", inside[:1], [border("z")])
    assert [len(weigh(case, before, one, behind, *more).barrier) for more in ((), (other,))] == [1, 2]
    strides = [(6, 3, 1), (1, 3, 1), (6, 1, 2), (6, 0, 1)]  # Those of a dimension of one element say nothing
    tensors = [PlanTensor(name="t", dims=(1, 2, 3), dtype="fp16", strides=each) for each in strides]
    assert [is_linear(each) for each in tensors] == [True, True, False, False]


@pytest.mark.parametrize(("name", "words"), [("cat", "which 2 layers write"), ("y", "the concatenation join")])
def test_4345_a_plugin_cannot_write_into_a_concatenation(name: str, words: str) -> None:
    case, (y, cat) = conv(2.0), (tensor(each, 1, 64, 512, 512) for each in ("y", "cat"))
    ops = {"conv": case.engine["conv"].op, "join": op("Concat", (y, cat), tensor("all", 1, 128, 512, 512))}
    first, other = matched("conv", (border("x"),), (border(name),)), matched("other", (border("z"),), (border("cat"),))
    found = weigh(case, first, other, ops=ops)
    assert (found.verdict, found.barrier[0].bytes, words in found.barrier[0].what) == ("do not", 2 * SIZE, True)
    join = matched("join", (border("y"),), (border("all"),), kind="Concatenation")
    assert weigh(case, first, other, join, ops=ops).verdict == ("write it" if name == "y" else "do not")


def test_4714_a_plugin_for_a_convolution_loses_its_epilogue_and_3573_a_norm_its_prologue() -> None:
    made, out = (tensor(name, 1, 64, 512, 512, dtype="fp16") for name in "my")
    case = conv(3.0, "m")
    case = grouped(case, conv=case.engine["conv"].op, relu=op("Relu", (made,), out))
    plan = matched("conv", (border("x", NHWC8),), (border("y", NHWC8),), ("conv", "relu"))
    found = weigh(case, plan, ops=case.ops)
    assert [part.bytes for part in found.barrier] == [2 * SIZE, 0, 2 * SIZE, 2 * SIZE, 0]
    assert "computes Relu too and takes and gives the formats as they are would keep" in found.why
    x, s, y = (tensor(name, 32, 512, 768, dtype="fp16") for name in "xsy")
    norm = engine_case(Timed(layer("norm", "LayerNormalization", (s, s), (y,)), 1 / 0.6), ceilings=GPU)
    (after,) = candidates(grouped(norm, add=op("Add", (x, x), s), norm=norm.engine["norm"].op))
    assert after.verdict == "do not"
    assert after.barrier[1].what == "Add before LayerNormalization: a layer of its own, with a launch"


def test_views_and_constants_inside_a_layer_move_nothing_and_the_engine_has_its_own_width() -> None:
    a, b, m, v, s, y = (tensor(name, 64, 64) for name in "abmvsy")
    q, bias, to = tensor("q", 64, constant=True, dtype="int8"), tensor("bias", 64), tensor("to", 2, constant=True)
    case = engine_case(Timed(layer("product", "MatMul", (a, b), (m,))))
    ops = {"product": case.engine["product"].op, "view": op("Reshape", (m, to), v), "add": op("Add", (v, bias), s)}
    case = grouped(case, **ops, bias=op("DequantizeLinear", (q,), bias), relu=op("Relu", (s,), y))
    plan = matched("product", (plan_tensor("a", 64, 64),), (plan_tensor("y", 64, 64),))
    found = fused_in(case._replace(plan={"product": plan}), case.layers[0])
    assert (found.main, found.crossing, found.behind) == ("MatMul", (("m", 64 * 64 * 2, 2),), ("Add", "Relu"))
    part = fused_in(case, case.layers[0], ("product", "view", "add"))
    assert (part.behind, [name for name, _, _ in part.crossing], part.kept) == (("Relu",), ["s"], "")
    assert fused_in(case, case.layers[0], ("relu",)).kept == "MatMul"


def test_without_the_model_the_words_of_the_plan_tell_that_something_is_fused() -> None:
    case = engine_case(Timed(layer("l", "MatMul", (tensor("a", 8, 8), tensor("b", 8, 8)), (tensor("y", 8, 8),))))
    named = matched("__myl_FcAddRelu_myl0_1", (plan_tensor("a", 8, 8),), (plan_tensor("y", 8, 8),), kind="gemm")
    case, unnamed = case._replace(plan={"l": named}), msgspec.structs.replace(case.layers[0], nodes=())
    found = fused_in(case, unnamed)
    assert (found.guessed, found.crossing[0][1:], found.behind) == (True, (128, 2), ("Add", "Relu"))


def test_what_good_kernels_take_is_told_by_the_run_or_by_its_peaks() -> None:
    case = engine_case(*(Timed(gemv(f"g{at}"), slow) for at, slow in enumerate((1 / 0.6, 1 / 0.8, 1 / 0.9, 10.0))))
    slow = case.layers[3]
    bound = slow.attainable_ns or 0
    assert cost_of(case, slow).reachable_ns == pytest.approx(bound / 0.85, rel=1e-4)  # The upper quartile
    assert cost_of(case, slow).worst_ns == pytest.approx(bound / 0.6, rel=1e-4)
    alone = case._replace(layers=case.layers[2:])
    assert cost_of(alone, slow).best_ns == bound
    datasheet = alone._replace(ceilings=msgspec.structs.replace(CEILINGS, origin="datasheet"))
    assert cost_of(datasheet, slow).reachable_ns == pytest.approx(bound / 0.7, abs=1)


def test_what_stands_before_a_kernel_of_ones_own() -> None:
    case, plan = story(1_900_000)
    a, m, y = (tensor(name, 512, 512) for name in "amy")
    two = engine_case(Timed(layer("first", "MatMul", (a, a), (m,)), 10.0))
    two = grouped(two, first=two.engine["first"].op, second=op("MatMul", (m, a), y))
    slow_host = weigh(case._replace(enqueue_ns=2_500_000, graph_ns=1_000_000), plan)
    for found, words in (
        (candidates(two)[0], "2 products are one layer here"),
        (slow_host, "until a CUDA graph takes the host out"),
        (weigh(case, plan, backend="tensorrt-rtx"), "TensorRT-RTX takes no plugins"),
    ):
        assert (found.verdict, words in found.why) == ("try first", True)
    assert slow_host.ladder[-1].gain_ns == case.latency.median_ns - 1_000_000
    assert "MODEL --backend tensorrt" in weigh(case, plan, backend="ort-cuda").ladder[-1].command
    assert sum(part.ns for part in weigh(case, plan, runs={"gemv": 7}).barrier) == 7 * 2000
    noisy = case._replace(latency=msgspec.structs.replace(case.latency, cv=0.9, n=2))
    assert "that are sure to show" in weigh(noisy, plan).why


def test_padding_is_priced_where_no_kernel_is_on_the_tensor_cores() -> None:
    inputs = tensor("a", 4096, 1021, dtype="fp16"), tensor("b", 1021, 4096, dtype="fp16", constant=True)
    one = layer("product", "MatMul", inputs, (tensor("y", 4096, 4096, dtype="fp16"),))
    case = engine_case(Timed(one, 4.0), ceilings=GPU)
    found, bound = weigh(case), case.layers[0].attainable_ns or 0
    assert (found.verdict, found.ladder[0].what) == ("try first", "zeros that pad K from 1021 to 1024")
    assert found.ladder[0].gain_ns == pytest.approx(4 * bound - bound * 1024 / 1021 / 0.85, abs=4)
    assert (found.ladder[1].what, found.ladder[1].gain_ns) == ("store the weights transposed", None)


@pytest.mark.parametrize("engine", [*ENGINES, RESNET, RESNET_QAT, MOBILENET, RESIDUALS])
def test_engines_keep_the_laws(engine: str, tmp_path: Path) -> None:
    run = analyze(files_of(engine, tmp_path)._replace(times=None), [gpus.find("a100-pcie-80gb")], Settings())
    assert isinstance(run, Run)
    for one in run.candidates:
        result = {each.name: each for each in run.layers}[one.layer]
        assert one.net_ns == one.recoverable_ns - sum(part.ns for part in one.barrier) <= one.recoverable_ns
        assert one.net_low_ns <= one.net_ns <= one.net_high_ns
        assert (result.attainable_ns or 0) <= one.reachable_ns <= one.measured_ns == result.measured_ns
        assert 0 <= one.recoverable_ns == one.measured_ns - one.reachable_ns <= (result.lost_ns or 0)
        assert one.verdict != "write it" or one.net_low_ns > 0
        assert all(step.command.startswith("trtprof run ") and step.basis for step in one.ladder)
    assert [one.net_ns for one in run.candidates] == sorted((one.net_ns for one in run.candidates), reverse=True)
