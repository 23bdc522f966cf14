"""Groups of nodes as one kernel, against a kernel that runs them on real arrays.

The kernel keeps what it makes to itself; a buffer from outside is read when its values are first
used, and one that is needed outside is stored at the end. Views are numpy views, so that buffers,
not names, are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.fakes.core_law import keeps_the_law
from tests.fakes.counting import Array
from trtprof.base import onnx_graph
from trtprof.base.records import Node, Op, Tensor, Work
from trtprof.cost import work_of
from trtprof.cost.fused import total, work_of_group
from trtprof.cost.precision import compute_dtypes

MANY = settings(derandomize=True, suppress_health_check=[HealthCheck.too_slow])

ROWS, COLUMNS = 3, 3
INPUTS = ("a", "b", "c")
"""What comes from outside; ``c`` is a constant, and so is what is made of it alone."""


class Step(NamedTuple):
    """A node by op type, the names that it reads and the one that it makes.

    ``constants`` are those of the names that are constant.
    """

    op_type: str
    reads: tuple[str, ...]
    makes: str
    constants: frozenset[str] = frozenset()

    @property
    def is_view(self) -> bool:
        return self.op_type in ("Identity", "Flatten")

    def op(self) -> Op:
        def tensor(name: str) -> Tensor:
            return Tensor(name=name, dtype="fp32", shape=(ROWS, COLUMNS), constant=name in self.constants)

        return Op(op_type=self.op_type, opset=21, inputs=tuple(map(tensor, self.reads)), outputs=(tensor(self.makes),))

    def run(self, arrays: Sequence[Array]) -> Array:
        match self.op_type:
            case "Identity" | "Flatten":
                return arrays[0][:]
            case "Relu":
                return np.maximum(arrays[0], 0)
            case "Transpose":
                return np.ascontiguousarray(arrays[0].T)
            case "Add":
                return arrays[0] + arrays[1]
            case _:
                return arrays[0] @ arrays[1]


ARITY = {"Identity": 1, "Flatten": 1, "Relu": 1, "Transpose": 1, "Add": 2, "MatMul": 2}
FLOPS = {"Relu": ROWS * COLUMNS, "Add": ROWS * COLUMNS, "MatMul": 2 * ROWS * COLUMNS * ROWS}


@st.composite
def graphs(draw: st.DrawFn, least: int = 1) -> list[Step]:
    """A random acyclic graph of square matrices."""
    steps: list[Step] = []
    names, constants = list(INPUTS), {"c"}
    for index in range(draw(st.integers(least, 7))):
        kind = draw(st.sampled_from(sorted(ARITY)))
        reads = tuple(draw(st.sampled_from(names)) for _ in range(ARITY[kind]))
        if constants.issuperset(reads):
            constants.add(f"t{index}")
        steps.append(Step(kind, reads, f"t{index}", frozenset(constants)))
        names.append(f"t{index}")
    return steps


class Moved(NamedTuple):
    """Bytes that a kernel loads and stores, and those of them that are constants."""

    loaded: int
    stored: int
    constants: int


def _in(array: Array, known: Iterable[Array]) -> bool:
    """Whether an array shows the buffer of one that is known."""
    return any(np.shares_memory(array, other) for other in known)


def simulated(steps: Sequence[Step], needed: Iterable[str]) -> Moved:
    """Run a group as one kernel."""
    arrays: dict[str, Array] = {}
    outside: list[Array] = []
    loaded: list[Array] = []
    for name in {name for step in steps for name in step.reads}.difference(step.makes for step in steps):
        arrays[name] = np.ones((ROWS, COLUMNS), dtype=np.float32)
        outside.append(arrays[name])
    for step in steps:
        taken = [arrays[name] for name in step.reads]
        for buffer in () if step.is_view else outside:
            if _in(buffer, taken) and not _in(buffer, loaded):
                loaded.append(buffer)
        arrays[step.makes] = step.run(taken)
    stored: list[Array] = []
    for name in needed:
        array = arrays[name]
        if not _in(array, [*outside, *stored]):
            stored.append(array)
    constant = [buffer for buffer in loaded if "c" in arrays and _in(buffer, [arrays["c"]])]
    sizes = [sum(array.nbytes for array in arrays_) for arrays_ in (loaded, stored, constant)]
    return Moved(*sizes)


def group(steps: Sequence[Step], outputs: Iterable[str] | None = None, dtypes: Mapping[str, str] | None = None) -> Work:
    found = work_of_group([step.op() for step in steps], None if outputs is None else set(outputs), dtypes)
    assert found is not None
    return found


def leaves(steps: Sequence[Step]) -> list[str]:
    """What no step of the group reads."""
    read = {name for step in steps for name in step.reads}
    return [step.makes for step in steps if step.makes not in read]


@MANY
@given(steps=graphs(), data=st.data())
def test_bytes_are_those_of_a_kernel_that_runs_the_group(steps: list[Step], data: st.DataObject) -> None:
    needed = data.draw(st.sets(st.sampled_from([step.makes for step in steps])))
    for outputs in (None, needed):
        found = group(steps, outputs)
        moved = simulated(steps, leaves(steps) if outputs is None else sorted(outputs))
        assert (found.bytes_read, found.bytes_written, found.bytes_parameters) == moved


@MANY
@given(steps=graphs())
def test_flops_add_up(steps: list[Step]) -> None:
    found = group(steps)
    assert found.flops == sum(FLOPS.get(step.op_type, 0) for step in steps)
    alone = total(work for step in steps if (work := work_of(step.op())) is not None)
    assert (found.tensor_flops, found.vector_flops) == (alone.tensor_flops, alone.vector_flops)
    assert found.bytes <= alone.bytes
    assert keeps_the_law(found), found.core


@MANY
@given(steps=graphs(least=2), data=st.data())
def test_cutting_a_group_in_two_never_moves_less(steps: list[Step], data: st.DataObject) -> None:
    """What crosses the cut is stored by one kernel and loaded by the other; inputs that both read count twice."""
    at = data.draw(st.integers(1, len(steps) - 1))
    needed = data.draw(st.sets(st.sampled_from([step.makes for step in steps]), min_size=1))
    first, second = steps[:at], steps[at:]
    crossing = {name for step in second for name in step.reads}
    whole = group(steps, needed)
    parts = [group(first, {step.makes for step in first} & (needed | crossing)), group(second, needed)]
    assert sum(part.bytes for part in parts) >= whole.bytes
    assert sum(part.flops for part in parts) == whole.flops


@MANY
@given(steps=graphs())
def test_a_group_of_one_is_the_op_itself(steps: list[Step]) -> None:
    for step in steps:
        if not step.is_view:  # whose note speaks of the op alone
            assert group([step]) == work_of(step.op())


@MANY
@given(steps=graphs(), data=st.data())
def test_bytes_follow_the_dtypes_of_the_border(steps: list[Step], data: st.DataObject) -> None:
    """Every border tensor at half its width is half the bytes; what stays inside has no say."""
    names = sorted({*INPUTS, *(step.makes for step in steps)})
    wide, narrow = group(steps), group(steps, dtypes=dict.fromkeys(names, "fp16"))
    assert (2 * narrow.bytes_read, 2 * narrow.bytes_written) == (wide.bytes_read, wide.bytes_written)
    views = {step.makes for step in steps if step.is_view}
    inside = {step.makes for step in steps}.difference(leaves(steps))
    roots = inside - views - {name for step in steps if step.is_view for name in step.reads}
    assert group(steps, dtypes=dict.fromkeys(roots, "fp64")) == wide
    one = data.draw(st.sampled_from(INPUTS))
    changed = group(steps, dtypes={one: "int8"})
    assert wide.bytes_read - changed.bytes_read in (0, 3 * ROWS * COLUMNS)
    assert changed.bytes_written == wide.bytes_written


@pytest.mark.parametrize(("extra", "loaded", "stored"), [
    ([], 1, 1),
    ([Step("Identity", ("a",), "v"), Step("Relu", ("v",), "z")], 1, 2),  # a view in front: the same tensor
    ([Step("Flatten", ("y",), "v")], 1, 1),  # a view at the end: stored once
    ([Step("Flatten", ("y",), "v"), Step("Relu", ("v",), "z")], 1, 1),  # a view inside: nothing
    ([Step("Identity", ("b",), "v")], 1, 1),  # a view of what comes from outside: neither loaded nor stored
    ([Step("Add", ("a", "a"), "z")], 1, 2),  # two readers: loaded once
])  # fmt: skip
def test_views_and_shared_inputs(extra: list[Step], loaded: int, stored: int) -> None:
    found = group([Step("Relu", ("a",), "y"), *extra])
    size = 4 * ROWS * COLUMNS
    assert (found.bytes_read, found.bytes_written) == (loaded * size, stored * size)


# --- precision of quantised models ----------------------------------------------------------

NUMBERS = {
    "int8": TensorProto.INT8, "uint8": TensorProto.UINT8, "int4": TensorProto.INT4,
    "fp8e4m3fn": TensorProto.FLOAT8E4M3FN, "fp8e5m2": TensorProto.FLOAT8E5M2,
}  # fmt: skip


def quantised(x: str, w: str, path: Sequence[str], per_channel: bool = True, product: str = "MatMul") -> dict[str, str]:
    """What the product computes with in x -> Q -> DQ, w -> DQ -> the ops of a path, product, as exporters write it.

    ``x`` or ``w`` may be empty: that operand is a float.
    """
    nodes, initializers = [], [numpy_helper.from_array(np.array(0.1, np.float32), "scale")]
    left = "x"
    if x:
        initializers.append(helper.make_tensor("x_zero", NUMBERS[x], (), [0]))
        nodes.append(helper.make_node("QuantizeLinear", ["x", "scale", "x_zero"], ["xq"]))
        nodes.append(helper.make_node("DequantizeLinear", ["xq", "scale", "x_zero"], ["xd"]))
        left = "xd"
    shape = (8, 8, 1, 1) if product == "Conv" else (8, 8)
    right = "w"
    if w:
        initializers.append(helper.make_tensor("wq", NUMBERS[w], shape, [1] * 64))
        scales = np.full(8 if per_channel else (), 0.1, np.float32)
        initializers.append(numpy_helper.from_array(scales, "scales"))
        nodes.append(helper.make_node("DequantizeLinear", ["wq", "scales"], ["wd"], axis=0))
        right = "wd"
    else:
        initializers.append(numpy_helper.from_array(np.ones(shape, np.float32), "w"))
    for index, op_type in enumerate(path):
        inputs = [right]
        if op_type == "Reshape":
            initializers.append(numpy_helper.from_array(np.array(shape), f"target{index}"))
            inputs.append(f"target{index}")
        nodes.append(helper.make_node(op_type, inputs, [f"p{index}"]))
        right = f"p{index}"
    nodes.append(helper.make_node(product, [left, right], ["y"], name="product"))
    data = (1, 8, 4, 4) if product == "Conv" else (4, 8)
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, data)],
        [onnx.ValueInfoProto(name="y")], initializers,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    for index, node in enumerate(model.graph.node):
        node.name = node.name or f"n{index}"
    records = [
        Node(name=found.proto.name, original_name="", graph=found.graph, op=found.op)
        for found in onnx_graph.nodes_in(onnx.shape_inference.infer_shapes(model))
    ]
    return compute_dtypes(records)


@pytest.mark.parametrize("product", ["MatMul", "Gemm", "Conv"])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize(
    ("x", "w", "dtype"),
    [
        ("int8", "int8", "int8"),
        ("uint8", "int8", "int8"),
        ("fp8e4m3fn", "fp8e4m3fn", "fp8e4m3fn"),
        ("fp8e5m2", "fp8e4m3fn", "fp8e5m2"),
        ("int8", "int4", "int8"),
    ],
)
def test_qdq_models_multiply_what_is_stored(product: str, per_channel: bool, x: str, w: str, dtype: str) -> None:
    assert quantised(x, w, [], per_channel, product) == {"product": dtype}


@pytest.mark.parametrize("path", [["Transpose"], ["Reshape"], ["Identity", "Transpose"], ["Reshape", "Transpose"]])
def test_weights_may_be_moved_before_they_are_multiplied(path: list[str]) -> None:
    assert quantised("int8", "int8", path) == {"product": "int8"}


@pytest.mark.parametrize(
    ("x", "w", "path"), [("", "int4", []), ("", "int8", ["Transpose"]), ("int8", "", []), ("int8", "int8", ["Relu"])]
)
def test_one_operand_in_floating_point_keeps_the_product_there(x: str, w: str, path: list[str]) -> None:
    """Weights alone quantised (int4 of language models), activations alone, or arithmetic in between."""
    assert quantised(x, w, path) == {}
