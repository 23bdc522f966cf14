"""The work of every op: FLOPs and bytes, from shapes and attributes alone.

A cost function takes an `Op` and returns its `Cost`. Functions live in ``cost/ops/<family>.py``
and are filed under ``(domain, op_type)`` and a range of opsets:

    @cost("Gemm", first=7)
    def gemm(op: Op) -> Cost: ...

Conventions, the same for every op:

* The multiply-accumulates of convolutions, matrix products, recurrent gates and attention are
  ``tensor_flops``, 2 per MAC, whatever unit runs them and whatever their dtype.
* All other arithmetic is ``vector_flops``: one per add, multiply, divide, compare, negation,
  absolute value, rounding, logic or bit operation, and one per element that changes dtype.
* exp, log, erf, tanh, sine and the like, square root and power are ``special``, counted by function;
  `units.SPECIAL_FLOPS` says what one counts as.
* An op is counted as its definition reads, with the stable softmax (maximum subtracted) and the
  two-pass variance. Index arithmetic and what is computed once per axis are not counted.
* Convolution: every output element takes the whole kernel, so that padded positions count as MACs.
  Transposed convolution: every input element meets the whole kernel. Pooling: the whole window,
  padding included, per output element.
* ``bytes_read``: each distinct input once, at its dtype, however often an algorithm comes back to
  it, and only the part that is touched where that is known (Slice, Gather). ``bytes_parameters``
  is the part of it that is constant. ``bytes_written``: each output that is present.
* Parameters that live in attributes (trees, linear models of ai.onnx.ml) are constants of the node
  and count as read. Of a cache that is updated in place only the new entries are written.
* A view (Reshape, Squeeze, Identity, ...) moves nothing.
* What data decides is bounded: ``bound`` says from which side, ``note`` why, ``unsure`` how much of an upper bound is
  not certain. ``fast_flops`` are the products that Winograd or FFT would save.
* An op whose outputs are all empty reads nothing.
* Shapes are taken as recorded, so that a layout that pads channels counts what it pads.
* An op without a function of its own that ONNX defines by a function body costs what its body does,
  as one kernel (`functions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from trtprof.base import units
from trtprof.base.records import Core, Op, Tensor, Unsure, Work, WorkBound
from trtprof.base.registry import NEWEST, Registry
from trtprof.cost._core import core_of
from trtprof.cost._recipes import NOTHING, Recipe
from trtprof.cost.precision import compute_dtype


class CostError(Exception):
    """An op has a cost function, but no price; ``kind`` says in two words why."""

    kind = "no price"


class UnknownShapeError(CostError):
    """A cost function met a tensor whose shape or dtype it needs and does not have."""

    kind = "unknown shape"


class NoWidthError(CostError):
    """A tensor that moves is of a dtype without a fixed width."""

    kind = "no fixed width"


class MalformedOpError(CostError):
    """The inputs, outputs or attributes of an op are not those of its definition."""

    kind = "malformed op"


class Moved(NamedTuple):
    """How many elements of a tensor an op reads or writes."""

    tensor: Tensor
    elements: int


class Spare(NamedTuple):
    """What data may spare of a cost: arithmetic, and the traffic of tensors by name, see `records.Unsure`."""

    tensor_flops: int = 0
    arithmetic: Recipe = NOTHING
    tensors: frozenset[str] = frozenset()

    def plus(self, other: Spare) -> Spare:
        """Both."""
        if not any(other):
            return self
        arithmetic = self.arithmetic.plus(other.arithmetic)
        return Spare(self.tensor_flops + other.tensor_flops, arithmetic, self.tensors | other.tensors)

    def times(self, count: int) -> Spare:
        """The arithmetic that many times; each tensor still moves once."""
        return Spare(self.tensor_flops * count, self.arithmetic.times(count), self.tensors)


NO_SPARE = Spare()


class Cost(NamedTuple):
    """What a cost function returns: arithmetic, and traffic by tensor."""

    tensor_flops: int = 0  # FLOP of multiply-accumulates, 2 per MAC
    arithmetic: Recipe = NOTHING  # Other FLOP and special functions
    reads: tuple[Moved, ...] = ()  # Each distinct tensor that is read, and how much of it
    writes: tuple[Moved, ...] = ()  # Each tensor that is written
    views: Mapping[str, str] = {}  # Output -> the input whose bytes it shows under another name
    bound: WorkBound = "exact"  # See `Work`
    note: str = ""  # See `Work`
    fast_flops: int = 0  # See `Work`
    # What data may spare; None for what ``bound`` says: nothing, or of an upper bound all arithmetic and all that is
    # read
    spare: Spare | None = None
    # See `Work`; a cost function leaves it out where operands and kind of op tell it (`cost_of`)
    core: Core | None = None

    @property
    def computes(self) -> bool:
        """Whether there is any arithmetic."""
        return bool(self.tensor_flops or self.arithmetic.vector or any(self.arithmetic.special.values()))

    @property
    def unsure(self) -> Spare:
        """What data may spare."""
        if self.spare is not None:
            return self.spare
        if self.bound in ("exact", "lower"):
            return NO_SPARE
        return Spare(self.tensor_flops, self.arithmetic, frozenset(moved.tensor.name for moved in self.reads))


CostFunction = Callable[[Op], Cost]

COSTS: Registry[tuple[str, str], CostFunction] = Registry("cost", "trtprof.cost.ops", "trtprof.costs")


def cost(
    *op_types: str, domain: str = "", first: int = 1, last: int = NEWEST
) -> Callable[[CostFunction], CostFunction]:
    """Decorator that files a cost function under op types of one domain and a range of opsets."""
    return COSTS.register(*((domain, op_type) for op_type in op_types), first=first, last=last)


def cost_of(op: Op) -> Cost | None:
    """The cost of one op, or None when no cost function knows it and ONNX defines no body for it."""
    function = COSTS.get((op.domain, op.op_type), op.opset)
    try:
        if function is not None:
            found = function(op)
        else:
            from trtprof.cost.functions import body_cost

            body = body_cost(op)
            if body is None:
                return None
            found = body
        if found.core is not None:
            return found
        core = core_of(op, found)
        return found if core is None else Cost(*found[:-1], core)
    except (LookupError, ArithmeticError, ValueError, TypeError) as error:
        # Third parties write models and cost functions; neither may take a report down.
        raise MalformedOpError(f"{op.op_type} does not fit its definition ({type(error).__name__}: {error})") from error


def moved_bytes(moved: Moved, dtypes: Mapping[str, str] | None = None) -> int:
    """Bytes of what is moved, at the tensor's own dtype or the one given for its name."""
    tensor, elements = moved
    dtype = (dtypes or {}).get(tensor.name, tensor.dtype)
    if dtype == "string":
        raise NoWidthError(f"{tensor.name!r} holds strings, whose length the model does not say")
    if dtype not in units.DTYPE_BITS:
        raise UnknownShapeError(f"tensor {tensor.name!r} has dtype {dtype}, whose width is not known")
    return units.dtype_bytes(dtype, elements)


def work_of(op: Op, dtype: str = "") -> Work | None:
    """The work of one op, or None when no cost function knows it.

    Args:
        dtype: What it computes with, where that is known better than from its own tensors (`precision.compute_dtypes`).
    """
    found = cost_of(op)
    if found is None:
        return None
    return as_work(found, (dtype or compute_dtype(op)) if found.computes else "")


def as_work(found: Cost, dtype: str, dtypes: Mapping[str, str] | None = None) -> Work:
    """A cost in FLOP and bytes, computed with ``dtype``; ``dtypes`` are those of tensors that differ from their own."""
    spare = found.unsure
    partly = [moved for moved in (*found.reads, *found.writes) if moved.tensor.name in spare.tensors]
    return Work(
        tensor_flops=found.tensor_flops,
        vector_flops=found.arithmetic.vector,
        special=dict(found.arithmetic.special),
        bytes_read=sum(moved_bytes(moved, dtypes) for moved in found.reads),
        bytes_written=sum(moved_bytes(moved, dtypes) for moved in found.writes),
        bytes_parameters=sum(moved_bytes(moved, dtypes) for moved in found.reads if moved.tensor.constant),
        dtype=dtype,
        bound=found.bound,
        note=found.note,
        fast_flops=found.fast_flops,
        unsure=unsure_of(spare, sum(moved_bytes(moved, dtypes) for moved in partly)),
        core=found.core,
    )


def unsure_of(spare: Spare, nbytes: int) -> Unsure:
    """What data may spare of a work, of which ``nbytes`` are the bytes of the tensors that it names."""
    if not any(spare):
        return _SURE
    return Unsure(
        tensor_flops=spare.tensor_flops,
        vector_flops=spare.arithmetic.vector,
        special=dict(spare.arithmetic.special),
        bytes=nbytes,
    )


_SURE = Unsure()
