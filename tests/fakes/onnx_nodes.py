"""The node tests of the onnx package that hold a single node: its record, what goes in and what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from tests.fakes.node_tests import node_test_cases, with_values
from trtprof.base import onnx_graph
from trtprof.base.records import Op


class SingleNode(NamedTuple):
    """A node test; small integer inputs are constants of the op."""

    name: str
    op: Op
    inputs: Sequence[Any]
    """Arrays by position; None for an input that is omitted."""
    outputs: Sequence[Any]


@cache
def single_nodes() -> Mapping[tuple[str, str], Sequence[SingleNode]]:
    """All of them, by domain and op type."""
    found: dict[tuple[str, str], list[SingleNode]] = {}
    for case in node_test_cases():
        if len(case.model.graph.node) != 1:
            continue
        (node, *_) = onnx_graph.nodes_in(with_values(case))
        arrays = case.inputs | case.outputs
        op = node.op
        inputs, outputs = (
            [None if tensor is None else arrays.get(tensor.name) for tensor in tensors]
            for tensors in (op.inputs, op.outputs)
        )
        found.setdefault((op.domain, op.op_type), []).append(SingleNode(case.name, op, inputs, outputs))
    return found
