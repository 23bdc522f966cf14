"""Loops whose number of rounds is known as the ops of each round, and an If with one way as that.

A Loop becomes copies of its body, one a round, each with the results of the one before; a Scan the same, with the entry
of its sequences that the round reads. What a round adds to a list is joined at the end. An If becomes the branch that
is taken.
When: A Loop has a constant number of rounds and a condition that is always true, a Scan sequences of a known length;
there are at least one and at most 32 rounds, and at most 512 ops afterwards. The body has no random numbers: the copies
would draw the same. The condition of the If is a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from trtprof.base.op_kinds import RANDOM
from trtprof.rewrite import rewrite
from trtprof.rewrite.edit import Edit

MOST_ROUNDS = 32
MOST_OPS = 512  # Of all rounds together


class Listed(NamedTuple):
    """How results of rounds are joined: along which new axis, and whether the last comes first."""

    axis: int
    backwards: bool


@rewrite(
    "loop-unrolled", "loops of few rounds unrolled, an If with one way replaced", answers=("HO501", "LA401"), exact=True
)
def loop_unrolled(node: ir.Node, edit: Edit) -> None:
    """Replace one node of control flow."""
    if edit.is_op(node, "If"):
        _if(node, edit)
    elif edit.is_op(node, "Loop"):
        _loop(node, edit)
    elif edit.is_op(node, "Scan") and edit.opset >= 9:
        _scan(node, edit)


def _if(node: ir.Node, edit: Edit) -> None:
    taken = edit.array(node.inputs[0])
    if taken is None or taken.size != 1:
        return
    branch = node.attributes["then_branch" if taken.all() else "else_branch"].as_graph()
    if _can_be_copied(branch):
        edit.replace([node], dict(zip(node.outputs, edit.inlined(branch, []), strict=True)))


def _loop(node: ir.Node, edit: Edit) -> None:
    body = node.attributes["body"].as_graph()
    given, start = edit.array(node.inputs[0]), node.inputs[1] if len(node.inputs) > 1 else None
    if given is None or given.size != 1 or not (start is None or _always(start, edit)):
        return
    rounds = int(given.reshape(()))
    again = body.inputs[1]
    if not _few(body, rounds) or not _goes_on(body.outputs[0], again, edit):
        return
    first = list(node.inputs[2:])
    states = [value for value in first if value is not None]
    if len(states) < len(first):
        return
    true = edit.constant(np.array(True), "condition")
    constants: dict[str, ir.Value] = {}
    lists: list[list[ir.Value]] = [[] for _ in node.outputs[len(states) :]]
    for number in range(rounds):
        place = edit.constant(np.array(number, np.int64), "round")
        results = edit.inlined(body, [place, true, *states], constants)[1:]
        states = results[: len(states)]
        _note(lists, results[len(states) :])
    _put_in(node, states, lists, [Listed(0, False)] * len(lists), edit)


def _scan(node: ir.Node, edit: Edit) -> None:
    body = node.attributes["body"].as_graph()
    count = int(edit.number(node, "num_scan_inputs", 0))
    given = [value for value in node.inputs if value is not None]
    if len(given) < len(node.inputs) or not 0 < count <= len(given):
        return
    states, sequences = given[: len(given) - count], given[len(given) - count :]
    axes = edit.ints(node, "scan_input_axes") or (0,) * count
    ranks = [edit.rank(value) for value in sequences]
    lengths = {dims[axis] for value, axis in zip(sequences, axes, strict=True) if (dims := edit.dims(value))}
    numbers = {length for length in lengths if isinstance(length, int)}
    if len(numbers) != 1 or None in ranks or not _few(body, min(numbers)):
        return
    rounds = min(numbers)
    backwards = edit.ints(node, "scan_input_directions") or (0,) * count
    constants: dict[str, ir.Value] = {}
    lists: list[list[ir.Value]] = [[] for _ in node.outputs[len(states) :]]
    for number in range(rounds):
        entries = []
        for value, axis, back in zip(sequences, axes, backwards, strict=True):
            place = edit.constant(np.array(rounds - 1 - number if back else number, np.int64), "round")
            entries.append(edit.node("Gather", [value, place], {"axis": axis}))
        results = edit.inlined(body, [*states, *entries], constants)
        states = results[: len(states)]
        _note(lists, results[len(states) :])
    into = edit.ints(node, "scan_output_axes") or (0,) * len(lists)
    turned = edit.ints(node, "scan_output_directions") or (0,) * len(lists)
    _put_in(node, states, lists, [Listed(axis, bool(back)) for axis, back in zip(into, turned, strict=True)], edit)


def _note(lists: list[list[ir.Value]], results: Sequence[ir.Value]) -> None:
    for entries, result in zip(lists, results, strict=True):
        entries.append(result)


def _put_in(
    node: ir.Node, states: Sequence[ir.Value], lists: Sequence[list[ir.Value]], how: Sequence[Listed], edit: Edit
) -> None:
    """Replace a loop by what its rounds gave."""
    values = dict(zip(node.outputs, states, strict=False))
    for output, entries, one in zip(node.outputs[len(states) :], lists, how, strict=True):
        if output.uses() or output.is_graph_output():
            parts = [edit.with_axes("Unsqueeze", [entry], [one.axis]) for entry in entries]
            joined = [edit.node("Concat", parts[:: -1 if one.backwards else 1], {"axis": one.axis})]
            values[output] = (joined if len(parts) > 1 else parts)[0]
    edit.replace([node], values)


def _few(body: ir.Graph, rounds: int) -> bool:
    """Whether a body can be repeated so many times."""
    nodes = list(ir.traversal.RecursiveGraphIterator(body))
    random = any(node.op_type in RANDOM or node.op_type == "Dropout" for node in nodes)
    fits = 1 <= rounds <= MOST_ROUNDS and rounds * len(nodes) <= MOST_OPS
    return fits and not random and _can_be_copied(body)


def _can_be_copied(body: ir.Graph) -> bool:
    """Whether graphs within a graph give nothing that they do not make themselves."""
    inner = [graph for graph in body.subgraphs() if graph is not body]
    return all(
        (made := output.producer()) is not None and made.graph is graph for graph in inner for output in graph.outputs
    )


def _always(value: ir.Value | None, edit: Edit) -> bool:
    """Whether a condition is a constant that is true."""
    array = edit.array(value)
    return array is not None and array.size == 1 and bool(array.all())


def _goes_on(value: ir.Value | None, before: ir.Value, edit: Edit) -> bool:
    """Whether what a round says of the next is true, where that was so before."""
    while (made := edit.producer(value, "Identity")) is not None:
        value = made.inputs[0]
    # The condition has one element, in whatever shape; it is read for nothing else.
    readers_pass_it_on = all(edit.is_op(user, "Identity") for user, _ in before.uses())
    return readers_pass_it_on and (value is before or _always(value, edit))
