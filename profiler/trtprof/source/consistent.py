"""Guessed dimensions that the graph contradicts, and numbers in their place that it allows.

Where a node's inputs cannot belong together (a Concat of maps of different height), other numbers are tried: what the
two sizes that clash are solved for, and the sizes that models are made for.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from trtprof.base.records import Op, Tensor
from trtprof.source.shapes import MAX_DIM, Guess, Instead

MOST_TRIALS = 100
"""Other numbers that are tried of one model; of one with more than `_MANY_NODES` nodes fewer, for each is inferred."""
_MANY_NODES = 1000
_SIZES: Mapping[str, tuple[int, ...]] = {
    "a batch": (1, 2, 4, 8, 16, 32, 64, 3),
    "a spatial dimension": (
        48, 32, 64, 96, 112, 128, 160, 192, 224, 256, 288, 299, 320, 384, 416, 448, 480, 512, 640, 800, 1024,
    ),
    "a length": (1, 16, 32, 64, 77, 100, 128, 197, 256, 384, 512, 1024),
    "samples of a recording": (512, 576, 1536, 8_000, 16_000, 32_000, 48_000, 80_000, 160_000, 480_000),
    "the length of a signal": (16, 32, 64, 80, 128, 256, 512, 576, 640, 1024, 1536, 4096, 16_000),
}  # fmt: skip
"""What is tried of each place, in this order: lines of text, image sides, windows of speech models, context lengths."""
_BROADCASTS = frozenset({
    "Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater", "GreaterOrEqual",
    "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul", "Or", "Pow", "Sub", "Sum", "Where", "Xor",
})  # fmt: skip
_STATES = {"LSTM": (5, 6), "GRU": (5,), "RNN": (5,)}
_WINDOWS = frozenset({"Conv", "MaxPool", "AveragePool", "LpPool"})


class Clash(NamedTuple):
    """A node whose inputs cannot belong together."""

    graph: str  # Path of the graph that holds it
    node: str
    reason: str  # Why, in words
    off: int | None = None  # By how much the two sizes differ, which is 0 where they fit; None where that is not known


Try = Callable[[Mapping[str, Instead]], Sequence[Clash]]
"""Infers the model with some numbers in place of those guessed, and tells what clashes."""


def clash_of(op: Op) -> tuple[str, int | None] | None:
    """Why the inputs of a node cannot belong together, and by how much they are off; None where they seem to."""
    if op.domain not in ("", "ai.onnx"):
        return None
    shapes = [_dims(tensor) for tensor in op.inputs]
    if op.op_type in _BROADCASTS:
        return _of_broadcast([shape for shape in shapes if shape is not None])
    if op.op_type == "Concat":
        return _of_concat([shape for shape in shapes if shape is not None], op)
    if op.op_type == "MatMul" and len(shapes) == 2 and all(shapes):
        first, second = shapes
        inner = second[-2] if second and len(second) > 1 else second[-1] if second else 0
        return _differ(first[-1] if first else 0, inner, "multiplies rows of {} by columns of {}")
    if op.op_type == "Gemm" and len(shapes) > 1 and all(shape and len(shape) == 2 for shape in shapes[:2]):
        first, second = (shape or () for shape in shapes[:2])
        rows, columns = first[0 if op.attributes.get("transA") else 1], second[1 if op.attributes.get("transB") else 0]
        return _differ(rows, columns, "multiplies rows of {} by columns of {}")
    if op.op_type == "Reshape":
        return _of_reshape(op, shapes)
    rank = len(op.inputs[0].shape or ()) if op.inputs and op.inputs[0] is not None else 0
    if op.op_type in _STATES and rank not in (0, 3):
        return f"reads {rank} dimensions, not steps, batch and features", None
    if op.op_type in _STATES and shapes and shapes[0]:
        batch = shapes[0][0 if op.attributes.get("layout") else 1]
        for index in _STATES[op.op_type]:
            state = shapes[index] if index < len(shapes) else None
            if state and len(state) == 3:
                found = _differ(
                    state[0 if op.attributes.get("layout") else 1], batch, "starts {} states for a batch of {}"
                )
                if found:
                    return found
    if op.op_type in _WINDOWS:
        return _of_window(op, shapes)
    return None


def _dims(tensor: Tensor | None) -> tuple[int, ...] | None:
    if tensor is None or tensor.shape is None or tensor.kind != "tensor":
        return None
    dims = tuple(dim for dim in tensor.shape if isinstance(dim, int))
    return dims if len(dims) == len(tensor.shape) else None


def _differ(got: int, wanted: int, words: str) -> tuple[str, int] | None:
    return None if got == wanted else (words.format(got, wanted), got - wanted)


def _of_broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[str, int] | None:
    for dims in itertools.zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1):
        large = [dim for dim in dims if dim != 1]
        for other in large[1:]:
            if other != large[0]:
                return f"combines {large[0]} with {other} elements", large[0] - other
    return None


def _of_concat(shapes: Sequence[tuple[int, ...]], op: Op) -> tuple[str, int] | None:
    axis = op.attributes.get("axis", 0)
    ranks = {len(shape) for shape in shapes}
    if len(ranks) != 1 or not isinstance(axis, int):
        return None
    (rank,) = ranks
    for index in range(rank):
        if index != axis % max(rank, 1):
            found = next((shape[index] for shape in shapes if shape[index] != shapes[0][index]), None)
            if found is not None:
                return f"joins {shapes[0][index]} and {found} at axis {index}", shapes[0][index] - found
    return None


def _of_reshape(op: Op, shapes: Sequence[tuple[int, ...] | None]) -> tuple[str, int | None] | None:
    target = op.inputs[1].value if len(op.inputs) > 1 and op.inputs[1] is not None else None
    data = shapes[0]
    if target is None or data is None or op.attributes.get("allowzero"):
        return None
    if any(dim == 0 and index >= len(data) for index, dim in enumerate(target)):
        return None
    full = [data[index] if dim == 0 else dim for index, dim in enumerate(target)]
    elements, wanted = math.prod(data), math.prod(dim for dim in full if dim != -1)
    told = "makes " + "x".join(map(str, full)) + f" of {elements} elements"
    if -1 in full:
        return (told, None) if wanted and elements % wanted else None
    return None if elements == wanted else (told, elements - wanted)


def _of_window(op: Op, shapes: Sequence[tuple[int, ...] | None]) -> tuple[str, int] | None:
    data, weights = shapes[0], shapes[1] if len(shapes) > 1 else None
    window = op.attributes.get("kernel_shape") or (weights[2:] if weights else ())
    if not data or not isinstance(window, tuple) or len(window) != len(data) - 2:
        return None
    if op.attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return None
    rank = len(window)
    pads, dilations = op.attributes.get("pads") or (0,) * 2 * rank, op.attributes.get("dilations") or (1,) * rank
    if (
        not isinstance(pads, tuple)
        or not isinstance(dilations, tuple)
        or (len(pads), len(dilations)) != (2 * rank, rank)
    ):
        return None
    for axis, size in enumerate(window):
        needs = int(dilations[axis]) * (int(size) - 1) + 1
        has = data[axis + 2] + int(pads[axis]) + int(pads[axis + rank])
        if has < needs:
            return f"has a window of {needs} for {has} elements", has - needs
    return None


def settled(guesses: Sequence[Guess], try_: Try, nodes: int) -> tuple[dict[str, Instead], tuple[Clash, ...]]:
    """Numbers in place of guesses that the graph contradicts, with why; and what still clashes."""
    clashes = tuple(try_({}))
    chosen: dict[str, Instead] = {}
    if not clashes or not guesses:
        return chosen, clashes
    budget = iter(range(max(8, MOST_TRIALS * _MANY_NODES // max(nodes, _MANY_NODES))))
    while clashes:
        first = clashes[0]
        why = f"{{}} cannot be ({first.node!r} then {first.reason})"
        found = _better(guesses, chosen, clashes, try_, why, budget)
        if found is None:
            break
        chosen, clashes = found
    return chosen, clashes


def _better(
    guesses: Sequence[Guess],
    chosen: Mapping[str, Instead],
    clashes: tuple[Clash, ...],
    try_: Try,
    why: str,
    budget: Iterator[int],
) -> tuple[dict[str, Instead], tuple[Clash, ...]] | None:
    """The first other numbers with which nothing clashes, else those with which least does, if that is less."""
    best: tuple[dict[str, Instead], tuple[Clash, ...]] | None = None
    least = len(clashes)
    for numbers in alternatives(guesses, {name: one.number for name, one in chosen.items()}, clashes, try_, budget):
        if next(budget, None) is None:
            break
        before = {guess.name: guess.number for guess in guesses}
        changed = {
            **chosen,
            **{name: Instead(number, why.replace("{}", str(before[name]), 1)) for name, number in numbers.items()},
        }
        left = tuple(try_(changed))
        if len(left) < least:
            best, least = (changed, left), len(left)
        if not left:
            break
    return best


def alternatives(
    guesses: Sequence[Guess],
    chosen: Mapping[str, int],
    clashes: Sequence[Clash] = (),
    try_: Try | None = None,
    budget: Iterator[int] | None = None,
) -> Iterator[dict[str, int]]:
    """Other numbers to try, by `Guess.name`, the likeliest first; with ``try_``, sizes are solved for."""
    done: set[tuple[tuple[str, int], ...]] = set()

    def fresh(numbers: Iterable[tuple[str, int]]) -> Iterator[dict[str, int]]:
        key = tuple(numbers)
        if key not in done:
            done.add(key)
            yield dict(key)

    at = {guess.name: chosen.get(guess.name, guess.number) for guess in guesses}
    guesses = sorted(guesses, key=lambda guess: guess.place == "a batch")
    sides = [guess for guess in guesses if guess.place == "a spatial dimension"]
    others = [guess for guess in guesses if guess not in sides]
    common = _SIZES["a spatial dimension"]
    later: list[tuple[list[Guess], int]] = []
    for together in ([[guess] for guess in others] + [[guess] for guess in sides] + [sides]) if try_ else ():
        for number in _solved(together, at, clashes, try_, budget) if together else ():
            if together[0] in sides and number not in common:
                # What pools and strides round away has no one solution: a size that models are made for comes first.
                later.append((together, number))
            else:
                yield from fresh((guess.name, number) for guess in together)
    singles = [(guess, number) for guess in guesses for number in _SIZES[guess.place] if number != at[guess.name]]
    for guess, number in singles:
        if guess.place != "a batch":
            yield from fresh([(guess.name, number)])
    for number in common if len(sides) > 1 else ():
        yield from fresh((guess.name, number) for guess in sides)
    for guess, number in singles:
        if guess.place == "a batch":
            yield from fresh([(guess.name, number)])
    for together, number in later:
        yield from fresh((guess.name, number) for guess in together)


def _solved(
    together: Sequence[Guess],
    at: Mapping[str, int],
    clashes: Sequence[Clash],
    try_: Try | None,
    budget: Iterator[int] | None,
) -> Iterator[int]:
    """Where a line through two sizes of the first clash crosses zero, all of ``together`` being the same number."""
    first = clashes[0] if clashes else None
    number = at[together[0].name]
    if try_ is None or first is None or first.off is None or any(at[guess.name] != number for guess in together):
        return
    if budget is not None and next(budget, None) is None:
        return
    twice = {guess.name: Instead(2 * number, "") for guess in together}
    clashing = try_({**{name: Instead(size, "") for name, size in at.items()}, **twice})
    there = next((clash for clash in clashing if (clash.graph, clash.node) == (first.graph, first.node)), None)
    if there is None:
        yield 2 * number
    elif there.off is not None and there.off != first.off:
        step = (there.off - first.off) / number
        solved = round(number - first.off / step)
        if 1 <= solved <= MAX_DIM and solved != number:
            yield solved
