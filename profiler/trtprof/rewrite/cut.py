"""A few nodes of a model as a model of their own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import onnx_ir as ir

from trtprof.rewrite.edit import Edit


def cut_out(model: ir.Model, nodes: Collection[str], shapes: Mapping[str, Sequence[int]]) -> ir.Model | None:
    """The nodes of these names, out of ``model``, which changes; None where shape or type of an input is not known."""
    inside = [node for node in model.graph if node.name in nodes]
    made = {value for node in inside for value in node.outputs}
    read = dict.fromkeys(value for node in inside for value in node.inputs if value is not None and value not in made)
    edit = Edit(model)
    given = [value for value in read if not edit.is_constant(value)]
    results = [
        value
        for node in inside
        for value in node.outputs
        if value.is_graph_output() or any(user not in inside for user in value.consumers())
    ]
    if not given or not results or any(value.name not in shapes or value.type is None for value in given):
        return None
    for value in given:
        value.shape = ir.Shape(shapes[str(value.name)])
    return ir.Model(ir.convenience.extract(model.graph, given, results), ir_version=model.ir_version)
