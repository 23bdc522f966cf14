"""Groups of nodes as one kernel, against a kernel that runs them on real arrays.

The kernel keeps what it makes to itself; a buffer from outside is read when its values are first
used, and one that is needed outside is stored at the end. Views are numpy views, so that buffers,
not names, are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.core_law import keeps_the_law
from tests.fakes.counting import Array
from trtprof.base.records import Op, Tensor, Work
from trtprof.cost import work_of
from trtprof.cost.fused import total, work_of_group

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
