"""The cost that ONNX's function bodies give, beside the costs that are written for the same ops.

Every function op is priced both ways on the node tests of the onnx package: the products must be the
same, and so must the bytes; other arithmetic may differ where a body spells out what a kernel need
not do, and then the difference is named here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import defs

from tests.fakes import op_cases
from tests.fakes.counting import tensor
from tests.fakes.onnx_nodes import single_nodes
from tests.fakes.op_cases import x
from trtprof.base import units
from trtprof.base.records import Attribute, Core, Op, Tensor
from trtprof.cost import COSTS, Cost, CostError, MalformedOpError, UnknownShapeError, cost_of, functions, moved_bytes
from trtprof.cost.functions import body_cost, has_body, kernel_cost

record = partial(op_cases.record, opset=28)

DOMAINS = ("", "ai.onnx.preview")
FACTOR = 1.15
"""How much more or less FLOP, tensor products apart, a body may take than the cost written for its op."""


class Differs(NamedTuple):
    """How far a body is from a written cost, and why."""

    factor: float
    why: str


DIFFERS: dict[str, Differs] = {
    "Attention": Differs(4.5, "scales Q and K apart, converts for the softmax, and adds a bias of zeros"),
    "Bernoulli": Differs(2.0, "converts the result of its compare"),
    "CausalConvWithState": Differs(1.3, "converts fp16 to fp32 and back around the activation"),
    "FlexAttention": Differs(1.8, "scales Q and K apart, and converts fp16 to fp32 and back"),
    "Gelu": Differs(1.5, "cubes with a power"),
    "GreaterOrEqual": Differs(3.0, "compares twice and joins"),
    "HammingWindow": Differs(2.1, "adds a second cosine times zero, as a Blackman window has one"),
    "HannWindow": Differs(2.1, "adds a second cosine times zero, as a Blackman window has one"),
    "LessOrEqual": Differs(3.0, "compares twice and joins"),
    "LinearAttention": Differs(9.0, "adds the outer product to the state by itself, and not as a multiply-accumulate"),
    "MeanVarianceNormalization": Differs(2.4, "squares with a power, and takes E[x^2] - E[x]^2"),
    "NegativeLogLikelihoodLoss": Differs(2.0, "multiplies by 0 or 1 to ignore labels"),
    "Range": Differs(2.5, "computes how many values there are"),
    "ReduceLogSumExp": Differs(1.3, "does without the maximum"),
    "Shrink": Differs(1.4, "compares with -lambda, which it negates for every element"),
}  # fmt: skip

BYTES_DIFFER = {
    "CenterCropPad": "the body pads before it crops",
    "Clip": "without limits the body is a view; a kernel copies",
    "NegativeLogLikelihoodLoss": "the body looks at labels that are constants",
}

NO_PRICE = {
    "AffineGrid": "the body gives Range tensors of rank 1, for which ONNX infers nothing",
    "Range": "the body of opset 11 is a Loop whose state has no known shape",
    "SequenceMap": "the body depends on a graph, which an Op does not hold",
}
"""Ops of which some or all bodies cannot be priced."""


def names_of_functions() -> list[tuple[str, str]]:
    every = [*defs.get_all_schemas(), *defs.get_all_schemas_with_history()]
    return sorted({(s.domain, s.name) for s in every if s.domain in DOMAINS and has_body(s) and not s.deprecated})


def flops(cost: Cost) -> int:
    """All but the products of matrices."""
    special = sum(units.SPECIAL_FLOPS[name] * count for name, count in cost.arithmetic.special.items())
    return cost.arithmetic.vector + special


def traffic(cost: Cost) -> tuple[int, int]:
    return sum(map(moved_bytes, cost.reads)), sum(map(moved_bytes, cost.writes))


def body_of(op: Op) -> Cost:
    found = body_cost(op)
    assert found is not None, f"ONNX defines no body for {op.op_type}-{op.opset}"
    return found


@pytest.mark.parametrize(("domain", "op_type"), names_of_functions())
def test_a_body_costs_what_is_written_for_its_op(domain: str, op_type: str) -> None:
    cases = [(found.name, found.op) for found in single_nodes()[domain, op_type]]
    cases = [(name, op) for name, op in cases if has_body(defs.get_schema(op_type, op.opset, domain))]
    assert cases
    factor = DIFFERS[op_type].factor if op_type in DIFFERS else FACTOR
    worst, other_bytes, unpriced = 1.0, 0, 0
    for name, op in cases:
        assert COSTS.get((domain, op_type), op.opset) is not None
        written = cost_of(op)
        assert written is not None
        try:
            body = body_of(op)
        except CostError:
            unpriced += 1
            continue
        if traffic(body) != traffic(written):
            assert op_type in BYTES_DIFFER, f"{name}: {traffic(body)} and {traffic(written)} bytes"
            other_bytes += 1
        if {"left_window_size", "right_window_size", "is_causal"} & set(op.attributes):
            # The body computes every score; what is written counts those that a mask or window lets through.
            assert body.tensor_flops >= written.tensor_flops, name
            continue
        assert body.tensor_flops == written.tensor_flops, name
        if flops(written):
            ratio = flops(body) / flops(written)
            assert 1 / factor <= ratio <= factor, name
            worst = max(worst, ratio, 1 / ratio)
        else:
            moved = sum(found.elements or 0 for found in (*op.inputs, *op.outputs) if found is not None)
            assert flops(body) <= moved, name  # no more than converts
    assert (worst > FACTOR) == (op_type in DIFFERS), "the exception is stale"
    assert bool(other_bytes) == (op_type in BYTES_DIFFER), "the exception is stale"
    assert bool(unpriced) == (op_type in NO_PRICE), "the exception is stale"


# --- how a call fills in its body ------------------------------------------------------------


def convolution(bias: bool, past: bool) -> Op:
    return record(
        "CausalConvWithState",
        x(2, 3, 8),
        x(3, 1, 4, name="w"),
        x(3, name="b") if bias else None,
        x(2, 3, 3, name="p") if past else None,
        out=[x(2, 3, 8, name="y"), x(2, 3, 3, name="s")],
    )


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("past", [False, True])
def test_omitted_inputs_are_left_out(bias: bool, past: bool) -> None:
    found = body_of(convolution(bias, past))
    assert found.tensor_flops == 2 * 48 * 4
    assert found.arithmetic.vector == 48 * bias
    assert traffic(found) == (4 * (48 + 12 + 3 * bias + 18 * past), 4 * (48 + 18))
    trailing = record("Clip", x(6), out=[x(6, name="y")])
    assert body_of(trailing) == body_of(msgspec.structs.replace(trailing, inputs=(x(6), None, None)))


def test_omitted_outputs_are_not_written() -> None:
    scale, y, mean, deviation = x(4, name="s"), x(3, 4, name="y"), x(3, 1, name="m"), x(3, 1, name="d")
    written = {
        asked: traffic(body_of(record("LayerNormalization", x(3, 4), scale, out=asked)))[1]
        for asked in ((y,), (y, mean), (y, None, deviation), (y, mean, deviation))
    }
    assert list(written.values()) == [48, 60, 60, 72]


def test_attributes_reach_the_body() -> None:
    logits, labels = x(5, 7, name="scores"), x(5, name="labels", dtype="int64")

    def loss(*shape: int, **attributes: Attribute) -> int:
        op = record("SoftmaxCrossEntropyLoss", logits, labels, out=[x(*shape, name="l")])
        return body_of(msgspec.structs.replace(op, attributes=attributes)).arithmetic.vector

    whole = loss(5, reduction="none")
    assert loss(reduction="sum") == whole + 4  # one add per label after the first
    assert loss() == loss(reduction="mean") == whole + 4 + 1


def test_an_axis_reaches_the_body() -> None:
    def rows(**attributes: Attribute) -> int:
        op = record("LogSoftmax", x(3, 5), out=[x(3, 5, name="y")])
        return body_of(msgspec.structs.replace(op, attributes=attributes)).arithmetic.special["log"]

    assert (rows(), rows(axis=-1), rows(axis=0)) == (3, 3, 5)


def test_an_attribute_of_another_type_is_converted_or_refused() -> None:
    def leaky(**attributes: Attribute) -> Op:
        return msgspec.structs.replace(record("LeakyRelu", x(6), out=[x(6, name="y")]), attributes=attributes)

    assert body_of(leaky(alpha=1)) == body_of(leaky(alpha=1.0)) == body_of(leaky(of_no_schema=(1, 2)))
    for wrong in ("steep", (0.1,)):
        with pytest.raises(MalformedOpError, match="alpha"):
            body_of(leaky(alpha=wrong))


def test_a_tensor_that_is_passed_twice_is_read_once() -> None:
    once = body_of(record("SwiGLU", x(6), x(6), out=[x(6, name="y")]))
    twice = body_of(record("SwiGLU", x(6), x(6, name="v"), out=[x(6, name="y")]))
    assert once.arithmetic == twice.arithmetic
    assert (traffic(once), traffic(twice)) == ((24, 24), (48, 24))
    assert [moved.tensor.name for moved in twice.reads] == ["x", "v"]


def test_a_body_that_hands_on_its_input_is_a_view() -> None:
    found = body_of(record("Clip", x(6), out=[x(6, name="y")]))
    assert (found.views, found.reads, found.writes) == ({"y": "x"}, (), ())
    assert found.note


def test_parameters_stay_parameters() -> None:
    op = convolution(bias=True, past=False)
    weights = tensor("w", "fp32", 3, 1, 4, constant=True)
    found = body_of(msgspec.structs.replace(op, inputs=(op.inputs[0], weights, op.inputs[2])))
    assert [moved.tensor.name for moved in found.reads if moved.tensor.constant] == ["w"]


def test_values_of_inputs_decide_shapes() -> None:
    def crop(value: tuple[int, ...] | None) -> Op:
        target = tensor("t", "int64", 2, constant=value is not None, value=value)
        return record("CenterCropPad", x(8, 10), target, out=[x(4, 10, name="y")])

    assert traffic(body_of(crop((4, 10)))) == (4 * 80 + 16, 160)  # the body pads before it crops
    with pytest.raises(UnknownShapeError):
        body_of(crop(None))


@pytest.mark.parametrize(("op_type", "opsets"), [("LayerNormalization", (17, 18, 28)), ("ReduceL1", (18, 28))])
def test_bodies_of_all_opsets_cost_the_same(op_type: str, opsets: Sequence[int]) -> None:
    second = x(4, name="s") if op_type == "LayerNormalization" else tensor("s", "int64", 1, value=(1,))
    out = x(3, 4, name="y") if op_type == "LayerNormalization" else x(3, 1, name="y")
    assert len({str(body_of(record(op_type, x(3, 4), second, out=[out], opset=opset))) for opset in opsets}) == 1


def test_a_deprecated_op_and_one_without_a_body_have_none() -> None:
    scale = x(4, name="s")
    norm = record("GroupNormalization", x(2, 4, 6), scale, scale, out=[x(2, 4, 6, name="y")], num_groups=2)
    assert body_cost(norm) is not None
    assert body_cost(msgspec.structs.replace(norm, opset=18)) is None
    assert body_cost(record("MatMul", x(3, 4), x(4, 5, name="b"), out=[x(3, 5, name="y")])) is None
    assert body_cost(record("Relu", x(3), out=[x(3, name="y")], opset=13)) is None
    assert body_cost(record("Relu", x(3), out=[x(3, name="y")], domain="org.example")) is None


def test_a_function_in_a_function_is_priced_by_its_own_body(monkeypatch: pytest.MonkeyPatch) -> None:
    op = record(
        "SoftmaxCrossEntropyLoss",
        x(5, 7, name="scores"),
        x(5, name="labels", dtype="int64"),
        x(7, name="w"),
        out=[x(name="l"), x(5, 7, name="p")],
        ignore_index=2,
    )
    written = body_of(op)
    COSTS.keys()
    entries = {key: found for key, found in COSTS._entries.items() if key != ("", "NegativeLogLikelihoodLoss")}
    monkeypatch.setattr(COSTS, "_entries", entries)
    functions._call_cost.cache_clear()
    body = body_of(op)
    functions._call_cost.cache_clear()
    assert written != body
    assert written.arithmetic.special == body.arithmetic.special
    assert written.arithmetic.vector < body.arithmetic.vector <= written.arithmetic.vector + 4 * 5
    assert traffic(written) == traffic(body)


# --- control flow ----------------------------------------------------------------------------


def kernel(text: str, takes: Sequence[Tensor], makes: Sequence[Tensor]) -> Cost:
    return kernel_cost(onnx.parser.parse_function(text), {}, takes, makes)


BRANCHES = """
<domain: "local", opset_import: ["": 18]>
choose (c, a) => (y)
{
    y = If (c) <
        then_branch = g1 () => (t) { s = Exp (a)  t = Exp (s) },
        else_branch = g2 () => (e) { e = Exp (a) }
    >
}
"""


def test_of_branches_the_one_with_more_work_counts() -> None:
    condition = x(name="c", dtype="bool")
    found = kernel(BRANCHES, [condition, x(6, name="a")], [x(6, name="y")])
    assert (found.arithmetic.special, found.bound) == ({"exp": 12}, "upper")
    assert traffic(found) == (1 + 24, 24)
    assert "branch" in found.note


@pytest.mark.parametrize(("value", "evaluations"), [(1, 12), (0, 6)])
def test_a_known_condition_takes_its_branch(value: int, evaluations: int) -> None:
    condition = tensor("c", "bool", value=(value,))
    found = kernel(BRANCHES, [condition, x(6, name="a")], [x(6, name="y")])
    assert (found.arithmetic.special, found.bound) == ({"exp": evaluations}, "exact")


LOOP = """
<domain: "local", opset_import: ["": 18]>
again (n, a) => (y, all)
{
    y, all = Loop (n, , a) <
        body = g (i, go, state) => (go, next, kept) { next = Exp (state)  kept = Identity (next) }
    >
}
"""


@pytest.mark.parametrize(
    ("value", "trips", "bound"), [((5,), 5, "exact"), (None, 1, "lower"), ((2**63 - 1,), 1, "lower")]
)
def test_a_loop_counts_its_trips(value: tuple[int, ...] | None, trips: int, bound: str) -> None:
    count = tensor("n", "int64", value=value)
    found = kernel(LOOP, [count, x(6, name="a")], [x(6, name="y"), x(5, 6, name="all")])
    assert (found.arithmetic.special, found.bound) == ({"exp": 6 * trips}, bound)
    assert traffic(found) == (8 + 24, 24 + 120)


def test_what_stands_before_a_loop_is_not_most_of_it() -> None:
    text = LOOP.replace("    y, all = Loop (n, , a)", "    p = Softmax (a)\n    y, all = Loop (n, , p)")
    count = tensor("n", "int64", value=(5,))
    takes, makes = [count, x(3, 6, name="a")], [x(3, 6, name="y"), x(5, 3, 6, name="all")]
    assert kernel(text, takes, makes).core is None
    plain = '<domain: "local", opset_import: ["": 18]> one (a) => (p) { p = Softmax (a) }'
    assert kernel(plain, takes[1:], [x(3, 6, name="p")]).core == Core(kind="softmax", m=3, n=6)


def test_a_scan_runs_once_per_slice() -> None:
    text = """
    <domain: "local", opset_import: ["": 18]>
    scan (start, a) => (last, y)
    {
        last, y = Scan (start, a) <
            num_scan_inputs = 1, scan_input_axes = [1],
            body = g (state, slice) => (sum, e) { sum = Add (state, slice)  e = Exp (slice) }
        >
    }
    """
    takes, makes = [x(6, name="start"), x(6, 9, name="a")], [x(6, name="last"), x(9, 6, name="y")]
    found = kernel(text, takes, makes)
    assert (found.arithmetic.vector, found.arithmetic.special, found.bound) == (54, {"exp": 54}, "exact")
    assert traffic(found) == (4 * 60, 4 * 60)


def test_constants_of_a_graph_inside_are_known() -> None:
    text = """
    <domain: "local", opset_import: ["": 18]>
    add (c, a) => (y)
    {
        y = If (c) <
            then_branch = g1 () => (t) <int64[1] at = {1}> { t = ReduceSum <keepdims = 0> (a, at) },
            else_branch = g2 () => (e) <int64[1] of = {0}> { e = ReduceSum <keepdims = 0> (a, of) }
        >
    }
    """
    found = kernel(text, [tensor("c", "bool", value=(1,)), x(3, 8, name="a")], [x(3, name="y")])
    assert (found.arithmetic.vector, traffic(found)) == (21, (1 + 96, 12))


def test_a_loop_that_grows_its_state_is_refused() -> None:
    text = """
    <domain: "local", opset_import: ["": 18]>
    grow (n, a) => (y)
    {
        y = Loop (n, , a) < body = g (i, go, state) => (go, next) { next = Concat <axis = 0> (state, state) } >
    }
    """
    with pytest.raises(UnknownShapeError, match="from trip to trip"):
        kernel(text, [tensor("n", "int64", value=(3,)), x(6, name="a")], [x("?", name="y")])


def test_index_arithmetic_is_not_counted() -> None:
    text = """
    <domain: "local", opset_import: ["": 18]>
    halve (a) => (y)
    {
        dims = Shape (a)
        two = Constant <value_ints = [2]> ()
        half = Div (dims, two)
        zero = Constant <value_ints = [0]> ()
        y = Slice (a, zero, half, zero)
    }
    """
    found = kernel(text, [x(6, name="a")], [x(3, name="y")])
    assert (found.computes, traffic(found)) == (False, (12, 12))


def test_what_shapes_decide_counts_where_it_is_the_result() -> None:
    text = """
    <domain: "local", opset_import: ["": 18]>
    ramp (a) => (y)
    {
        dims = Shape (a)
        zero = Constant <value_int = 0> ()
        one = Constant <value_int = 1> ()
        n = Squeeze (dims)
        y = Range (zero, n, one)
    }
    """
    found = kernel(text, [x(6, name="a")], [x(6, name="y", dtype="int64")])
    assert (found.arithmetic.vector, traffic(found)) == (12, (0, 48))


def test_an_op_without_a_cost_in_a_body_is_named() -> None:
    text = """
    <domain: "local", opset_import: ["": 18, "org.example": 1]>
    odd (a) => (y) { b = Exp (a)  y = org.example.Snake (b) }
    """
    with pytest.raises(CostError, match="Snake"):
        kernel(text, [x(6, name="a")], [x(6, name="y")])


# --- what is not known, and what is wrong ----------------------------------------------------


def one_of_each() -> list[Op]:
    return [single_nodes()[key][0].op for key in names_of_functions()]


UNKNOWN: dict[str, Callable[[Tensor], Tensor]] = {
    "rank": lambda found: msgspec.structs.replace(found, shape=None, value=None),
    "dtype": lambda found: msgspec.structs.replace(found, dtype="unknown", value=None),
    "dimensions": lambda found: msgspec.structs.replace(found, shape=("n",) * len(found.shape or ()), value=None),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_is_unknown_gives_no_number(what: str) -> None:
    for op in one_of_each():
        unknown = msgspec.structs.replace(
            op,
            inputs=tuple(found and UNKNOWN[what](found) for found in op.inputs),
            outputs=tuple(found and UNKNOWN[what](found) for found in op.outputs),
        )
        with pytest.raises(CostError) as raised:
            traffic(body_of(unknown))
        assert raised.value.kind == ("no price" if op.op_type == "SequenceMap" else "unknown shape")


tensors = st.builds(
    lambda name, dtype, shape, value, kind: Tensor(name=name, dtype=dtype, shape=shape, value=value, kind=kind),
    st.sampled_from("abc"),
    st.sampled_from(["fp32", "fp16", "int64", "bool", "string", "unknown"]),
    st.none() | st.lists(st.sampled_from([0, 1, 2, 3, "n", "?"]), max_size=4).map(tuple),
    st.none(),
    st.sampled_from(["tensor", "tensor", "sequence", "optional", "map"]),
)
small = st.builds(
    lambda value: tensor("v", "int64", len(value), constant=True, value=tuple(value)),
    st.lists(st.integers(-3, 3), max_size=3),
)
attributes = (
    st.integers(-3, 3)
    | st.floats(-1, 1)
    | st.sampled_from(["", "none", "mean", "NOTSET"])
    | st.lists(st.integers(-2, 4), max_size=3).map(tuple)
)


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_whatever_a_model_holds_only_a_cost_error_comes_out(data: st.DataObject) -> None:
    real = data.draw(st.sampled_from(one_of_each()))
    schema = defs.get_schema(real.op_type, domain=real.domain)
    others = data.draw(st.dictionaries(st.sampled_from([*schema.attributes, "other"]), attributes, max_size=2))
    op = Op(
        op_type=real.op_type,
        domain=real.domain,
        opset=data.draw(st.sampled_from([real.opset, schema.since_version, defs.onnx_opset_version(), 10**6])),
        attributes={**real.attributes, **others},
        inputs=tuple(data.draw(st.just(found) | st.none() | tensors | small) for found in real.inputs),
        outputs=tuple(data.draw(st.just(found) | st.none() | tensors) for found in real.outputs),
    )
    try:
        found = body_cost(op)
    except CostError as error:
        found, said = None, str(error)
        if op.op_type not in said:
            pytest.fail(f"the error does not say what op it is about: {said}")
    assert found is None or found.note


def test_calls_alike_are_priced_once() -> None:
    functions._call_cost.cache_clear()
    for at in range(1000):
        op = record("SwiGLU", x(6, name=f"a{at}"), x(6, name=f"b{at}"), out=[x(6, name=f"y{at}")])
        assert [moved.tensor.name for moved in body_of(op).writes] == [f"y{at}"]
    info = functions._call_cost.cache_info()
    assert (info.misses, info.hits) == (1, 999)
    for _ in range(2):
        with pytest.raises(UnknownShapeError):
            body_of(record("SwiGLU", x("n"), x("n", name="b"), out=[x("n", name="y")]))
    assert functions._call_cost.cache_info().misses == 2
