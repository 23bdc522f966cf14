"""The cost that ONNX's function bodies give; the node tests hold it against the costs written for the same ops."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec
import onnx
import pytest

from tests.fakes import op_cases
from tests.fakes.counting import tensor
from tests.fakes.op_cases import x
from trtprof.base.records import Attribute, Op, Tensor
from trtprof.cost import Cost, CostError, UnknownShapeError, functions, moved_bytes
from trtprof.cost.functions import body_cost, kernel_cost

record = partial(op_cases.record, opset=28)


def traffic(cost: Cost) -> tuple[int, int]:
    return sum(map(moved_bytes, cost.reads)), sum(map(moved_bytes, cost.writes))


def body_of(op: Op) -> Cost:
    found = body_cost(op)
    assert found is not None, f"ONNX defines no body for {op.op_type}-{op.opset}"
    return found


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


def test_attributes_reach_the_body() -> None:
    logits, labels = x(5, 7, name="scores"), x(5, name="labels", dtype="int64")

    def loss(*shape: int, **attributes: Attribute) -> int:
        op = record("SoftmaxCrossEntropyLoss", logits, labels, out=[x(*shape, name="l")])
        return body_of(msgspec.structs.replace(op, attributes=attributes)).arithmetic.vector

    whole = loss(5, reduction="none")
    assert loss(reduction="sum") == whole + 4  # one add per label after the first
    assert loss() == loss(reduction="mean") == whole + 4 + 1


def test_a_body_that_hands_on_its_input_is_a_view() -> None:
    found = body_of(record("Clip", x(6), out=[x(6, name="y")]))
    assert (found.views, found.reads, found.writes) == ({"y": "x"}, (), ())
    assert found.note


def test_a_deprecated_op_and_one_without_a_body_have_none() -> None:
    scale = x(4, name="s")
    norm = record("GroupNormalization", x(2, 4, 6), scale, scale, out=[x(2, 4, 6, name="y")], num_groups=2)
    assert body_cost(norm) is not None
    assert body_cost(msgspec.structs.replace(norm, opset=18)) is None
    assert body_cost(record("MatMul", x(3, 4), x(4, 5, name="b"), out=[x(3, 5, name="y")])) is None
    assert body_cost(record("Relu", x(3), out=[x(3, name="y")], opset=13)) is None
    assert body_cost(record("Relu", x(3), out=[x(3, name="y")], domain="org.example")) is None


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


def test_an_op_without_a_cost_in_a_body_is_named() -> None:
    text = """
    <domain: "local", opset_import: ["": 18, "org.example": 1]>
    odd (a) => (y) { b = Exp (a)  y = org.example.Snake (b) }
    """
    with pytest.raises(CostError, match="Snake"):
        kernel(text, [x(6, name="a")], [x(6, name="y")])


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
