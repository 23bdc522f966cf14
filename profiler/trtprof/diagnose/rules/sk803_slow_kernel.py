"""An op whose kernel in ONNX Runtime's CPU provider is far slower than another form of the same op.

What:
    ONNX Runtime runs the op, under the condition that the finding names, at least twice as slowly as other ops that
    compute the same. The table is `diagnose/slow_kernels.toml`: 21 ops and conditions, each measured against the other
    form with equal outputs. The layer's own time is at least what the other form took there for as much work.

Why:
    Not every kernel of the CPU provider is vectorized or has a fast path for every attribute, axis and type. The
    other form uses kernels that are. The times in the evidence are from another machine, which the finding names.

Try:
    The other form that the finding names. If it names a rewrite, too, `trtprof try MODEL --only SK803` measures that.
    The saving is an estimate: the share that the other form saved where it was measured.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trtprof.base.op_kinds import OPERANDS
from trtprof.base.records import LayerResult, Op, Tensor
from trtprof.base.rungs import ANSWERS
from trtprof.base.toml_file import read_toml
from trtprof.base.units import format_ns
from trtprof.diagnose import Case, Loss, layer_rule
from trtprof.diagnose.reasons import no_work


@functools.cache
def read_table() -> dict[str, Any]:
    """The measured kernels (``kernel``), and where they were measured (``cpu``, ``runtime``)."""
    return read_toml(Path(__file__).parents[1] / "slow_kernels.toml", "the table of slow kernels")


@layer_rule("SK803", "slow kernel of ONNX Runtime", order=15, thresholds=("slow_kernel_ns",))
def judge(case: Case, layer: LayerResult) -> Loss | str:
    """A layer that a row of the table describes, and that is no faster than the other form was."""
    if not case.on_ort_cpu:
        return "the table holds kernels of ONNX Runtime on a CPU"
    if why := no_work(case, layer):
        return why
    op, table = case.engine[layer.name].op, read_table()
    rows = [row for row in table["kernel"] if op.op_type in row["ops"].split() and CONDITIONS[row["when"]](case, op)]
    if not rows:
        return f"no slow kernel of {op.op_type} is known, or none for its attributes, axes and types"
    row = rows[0]
    work = _units(layer, op, row.get("per", "elements"))
    alternative_ns = row["fast_us"] * 1000 * work / row["units"]
    if layer.measured_ns < max(alternative_ns, case.thresholds.slow_kernel_ns):
        return f"it takes {format_ns(layer.measured_ns)}, no more than the other form of it may take"
    slow, fast = (format_ns(row[key] * 1000) for key in ("slow_us", "fast_us"))
    evidence = (
        f"{' '.join(filter(None, (op.op_type, row['cause'])))}: {format_ns(layer.measured_ns)}"
        f"{f' for {layer.shapes}' if layer.shapes else ''}; measured elsewhere (1 thread of {table['cpu']}, "
        f"{table['runtime']}): {slow} -> {fast} on {row['shape']}, equal outputs"
    )
    saved_ns = round(layer.measured_ns * (1 - row["fast_us"] / row["slow_us"]))
    # The ops of the other form have their start, too.
    saved_ns = min(saved_ns, layer.measured_ns - case.thresholds.slow_kernel_ns)
    made = f" ({row['rewrite']})" if row["rewrite"] in ANSWERS["SK803"].rewrites else ""
    return Loss(saved_ns, evidence, f"{row['advice']}{made}", 0.9)


def _units(layer: LayerResult, op: Op, per: str) -> int:
    """Work of a layer in what the table counts, 0 where it is not known: the layer is then taken at its time."""
    if per == "flops":
        return layer.flops or 0
    tensors = (*op.outputs[:1], *(op.inputs if per == "elements" else ()))
    return max((tensor.elements or 0 for tensor in tensors if tensor is not None), default=0)


def _input(op: Op, place: int) -> Tensor | None:
    return op.inputs[place] if place < len(op.inputs) else None


def _shape(tensor: Tensor | None) -> tuple[int, ...]:
    """Dimensions of a tensor; none where one is not known."""
    dims = tensor.shape if tensor is not None and tensor.shape is not None else ()
    known = tuple(dim for dim in dims if isinstance(dim, int))
    return known if len(known) == len(dims) else ()


def _axis(op: Op, default: int | None = None) -> int | None:
    """The one axis of an op, counted from the first; None where it has several, or they are not known."""
    axes: Any = op.attributes.get("axes", op.attributes.get("axis"))
    if axes is None and (second := _input(op, 1)) is not None and op.op_type != "Gather":
        axes = second.value
    axes = [default] if axes is None else [axes] if isinstance(axes, int) else list(axes)
    rank = len(_shape(_input(op, 0)))
    return axes[0] % rank if rank and len(axes) == 1 and axes[0] is not None else None


def _inner_axis(_case: Case, op: Op) -> bool:
    shape, axis = _shape(_input(op, 0)), _axis(op, -1)
    return op.opset >= 13 and axis is not None and shape[axis] <= 64 and math.prod(shape[axis + 1 :]) >= 256


def _last_axis(_case: Case, op: Op) -> bool:
    shape = _shape(_input(op, 0))
    return len(shape) > 1 and _axis(op, {"Gather": 0, "LpNormalization": -1}.get(op.op_type)) == len(shape) - 1


def _leading_axis(_case: Case, op: Op) -> bool:
    shape, axis = _shape(_input(op, 0)), _axis(op)
    return axis is not None and math.prod(shape[:axis]) == 1 and math.prod(shape[axis + 1 :]) >= 64 and shape[axis] > 1


def _readers(case: Case, op: Op) -> set[str]:
    """Types of the ops that read what an op makes."""
    made = {tensor.name for tensor in op.outputs if tensor is not None}
    ops = (layer.op for layer in case.engine.values())
    return {one.op_type for one in ops if made & {tensor.name for tensor in one.inputs if tensor is not None}}


def _few_positions(_case: Case, op: Op) -> bool:
    result = _shape(op.outputs[0] if op.outputs else None)
    return len(result) == 3 and 2 <= result[2] <= 6 and op.attributes.get("group", 1) == 1


def _key_mask(case: Case, op: Op) -> bool:
    """A mask of the last axis between scores and a constant in front of a Softmax."""
    mask, *sides = (_shape(_input(op, place)) for place in range(3))
    scores = max(sides, key=len, default=())
    return (
        any(tensor is not None and tensor.elements == 1 for tensor in op.inputs[1:])
        and (1, *scores[-1:]) == (math.prod(mask[-2:-1]), *mask[-1:])
        and math.prod(scores) >= 64 * math.prod(mask)
        and _readers(case, op) <= {"Softmax"}
    )


def _nearest_twice(_case: Case, op: Op) -> bool:
    before, after = _shape(_input(op, 0)), _shape(op.outputs[0] if op.outputs else None)
    return (
        _word(op, "mode", "nearest") == "nearest"
        and _word(op, "nearest_mode", "round_prefer_floor") == "round_prefer_floor"
        and _word(op, "coordinate_transformation_mode", "half_pixel")
        in ("half_pixel", "pytorch_half_pixel", "asymmetric")
        and len(before) == 4
        and after == (*before[:2], 2 * before[2], 2 * before[3])
    )


def _word(op: Op, name: str, default: str) -> str:
    return str(op.attributes.get(name, default))


def _typed(dtype: str, *places: int, constant: bool = False) -> Callable[[Case, Op], bool]:
    """Whether the tensors at these operands (0: activations, 1: weights) have a type, the last perhaps constant."""

    def check(_case: Case, op: Op) -> bool:
        operands = [_input(op, OPERANDS[op.op_type][place]) for place in places]
        fits = all(tensor is not None and tensor.dtype == dtype for tensor in operands)
        return fits and (not constant or (operands[-1] is not None and operands[-1].constant))

    return check


CONDITIONS: Mapping[str, Callable[[Case, Op], bool]] = {
    "always": lambda *_: True,
    "cubic": lambda _, op: _word(op, "mode", "") == "cubic",
    "feeds_tanh": lambda case, op: _readers(case, op) == {"Tanh"},
    "few_positions": _few_positions,
    "inner_axis": _inner_axis,
    "key_mask": _key_mask,
    "last_axis": _last_axis,
    "leading_axis": _leading_axis,
    "linear_of_three": lambda _, op: _word(op, "mode", "") == "linear" and len(_shape(_input(op, 0))) == 3,
    "nearest_twice": _nearest_twice,
    "one_exponent": lambda _, op: (exponent := _input(op, 1)) is not None and exponent.elements == 1,
    "signed_activations": _typed("int8", 0, 1),
    "signed_weights": _typed("int8", 1),
    "three_dimensions": lambda _, op: len(_shape(_input(op, 0))) == 3,
    "unsigned_weights": _typed("uint8", 0, 1, constant=True),
}
"""Under which condition a row of the table holds, by its ``when``."""
