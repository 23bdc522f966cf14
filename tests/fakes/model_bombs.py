"""Small models that are more than all memory, or take for ever, where somebody does what they say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

node, tensor = helper.make_node, helper.make_tensor
_OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]


def made(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Sequence[int]],
    constants: Mapping[str, Sequence[int] | int],
    output: str,
    rank: int | None = 1,
) -> ModelProto:
    """A model of integers, with one output."""
    kind = TensorProto.INT64
    initializers = [
        tensor(name, kind, [], [value]) if isinstance(value, int) else tensor(name, kind, [len(value)], value)
        for name, value in constants.items()
    ]
    takes = [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()]
    gives: ValueInfoProto = helper.make_tensor_value_info(output, kind, None if rank is None else [None] * rank)
    graph = helper.make_graph(nodes, "g", takes, [gives], initializers)
    return helper.make_model(graph, opset_imports=_OPSETS, ir_version=10)


def doubled(op_type: str, times: int = 40, *, rank: int = 1) -> ModelProto:
    """A tensor that is put to itself again and again, and decides a shape."""
    nodes = [node(op_type, [f"t{i}", f"t{i}"], [f"t{i + 1}"]) for i in range(times)]
    for one in nodes if op_type != "GatherND" else ():
        one.attribute.append(helper.make_attribute("axis", 0))
    graph = made([*nodes, node("ConstantOfShape", [f"t{times}"], ["y"])], {}, {"t0": [1]}, "y")
    if rank > 1:
        graph.graph.initializer[0].dims[:] = [1] * rank
    return graph


def chained(op_type: str, times: int) -> ModelProto:
    """A tensor that gets one more dimension with every node."""
    nodes = [
        node(op_type, [f"t{i}", "k", *(["v"] if op_type == "OneHot" else [])], [f"t{i + 1}"]) for i in range(times)
    ]
    return made(nodes, {"t0": [1]}, {"k": [0] if op_type == "Unsqueeze" else 1, "v": [0, 1]}, f"t{times}")


def calling(levels: int, calls: int = 2) -> ModelProto:
    """Functions that each call the next one, several times in a row."""
    model = made([node("f0", ["x"], ["y"], domain="d")], {"x": [1]}, {}, "y")
    for level in range(levels):
        names = ["x", *(f"a{i}" for i in range(calls - 1)), "y"]
        inner = [node(f"f{level + 1}", [a], [b], domain="d") for a, b in pairwise(names)]
        body = inner if level < levels - 1 else [node("Relu", ["x"], ["y"])]
        model.functions.append(helper.make_function("d", f"f{level}", ["x"], ["y"], body, _OPSETS))
    return model


def calling_in_branches(levels: int) -> ModelProto:
    """Functions that each call the next one in a branch: graphs that lie in one another."""

    def branch(called: NodeProto) -> GraphProto:
        return helper.make_graph([called], "b", [], [helper.make_tensor_value_info("z", TensorProto.INT64, [1])])

    model = calling(levels, 1)
    for level, function in enumerate(model.functions[:-1]):
        del function.node[:]
        function.node.extend([
            node("Constant", [], ["c"], value=tensor("c", TensorProto.BOOL, [], [1])),
            node(
                "If", ["c"], ["y"],
                then_branch=branch(node(f"f{level + 1}", ["x"], ["z"], domain="d")),
                else_branch=branch(node("Identity", ["x"], ["z"])),
            ),
        ])  # fmt: skip
    return model


def looping(levels: int, trips: int) -> ModelProto:
    """A product in loops in one another, of a few trips or more than anybody waits for."""
    value = helper.make_tensor_value_info
    kind = TensorProto.FLOAT
    body = [node("MatMul", ["a0", "x"], ["b0"])]
    for level in range(levels):
        takes = [value(f"i{level}", TensorProto.INT64, []), value(f"c{level}", TensorProto.BOOL, []),
                 value(f"a{level}", kind, [64, 64])]  # fmt: skip
        gives = [value(f"d{level}", TensorProto.BOOL, []), value(f"b{level}", kind, [64, 64])]
        graph = helper.make_graph([*body, node("Identity", [f"c{level}"], [f"d{level}"])], f"g{level}", takes, gives)
        start = f"a{level + 1}" if level < levels - 1 else "x"
        body = [node("Loop", ["n", "", start], [f"b{level + 1}"], body=graph)]
    last = f"b{levels}"
    whole = helper.make_graph(
        body, "g", [value("x", kind, [64, 64])], [value(last, kind, [64, 64])],
        [tensor("n", TensorProto.INT64, [], [trips])],
    )  # fmt: skip
    return helper.make_model(whole, opset_imports=_OPSETS, ir_version=10)


def deciding(nodes: Sequence[NodeProto], constants: Mapping[str, Sequence[int] | int]) -> ModelProto:
    """A sum over a huge tensor ``h`` that is made of constants, and decides a shape."""
    total = [node("ReduceSum", ["h"], ["s"], keepdims=0), node("Unsqueeze", ["s", "zero"], ["u"])]
    return made([*nodes, *total, node("ConstantOfShape", ["u"], ["y"])], {}, {**constants, "zero": [0]}, "y")


HUGE = 4 * 10**9

GROWING: Mapping[str, Callable[[], ModelProto]] = {
    "Concat doubles": lambda: doubled("Concat"),
    "Gather doubles the rank": lambda: doubled("Gather", rank=2),
    "GatherND doubles the rank": lambda: doubled("GatherND", rank=3),
    "Unsqueeze in a row": lambda: chained("Unsqueeze", 8000),
    "OneHot in a row": lambda: chained("OneHot", 8000),
    "axes without end": lambda: made(
        [*(node("Neg", [f"t{i}"], [f"t{i + 1}"]) for i in range(30)), node("Slice", ["t30", "b", "e", "a"], ["y"])],
        {"t0": [4], "a": [2**31]},
        {"b": [0], "e": [1]},
        "y",
    ),
    "axes of a Range": lambda: made(
        [
            *(node("Neg", [f"t{i}"], [f"t{i + 1}"]) for i in range(30)),
            node("Range", ["b", "e", "s"], ["a"]),
            node("ReduceSum", ["t30", "a"], ["y"]),
        ],
        {"t0": [4]},
        {"b": -(2**31), "e": 2, "s": 1},
        "y",
    ),
}
"""What shape inference would write down for them is without end."""

CALLING: Mapping[str, Callable[[], ModelProto]] = {
    "twice each": lambda: calling(24),
    "in a row": lambda: calling(300, 1),
    "in branches": lambda: calling_in_branches(40),
}
"""Their functions cannot be put in the place of their calls."""

DECIDING: Mapping[str, Callable[[], ModelProto]] = {
    "Expand": lambda: deciding([node("Expand", ["one", "n"], ["h"])], {"one": [1], "n": [HUGE]}),
    "Tile": lambda: deciding([node("Tile", ["one", "n"], ["h"])], {"one": [1], "n": [HUGE]}),
    "Range": lambda: deciding([node("Range", ["a", "b", "c"], ["h"])], {"a": 0, "b": 3 * HUGE, "c": 3}),
    "OneHot": lambda: deciding([node("OneHot", ["i", "n", "v"], ["h"])], {"i": [1], "n": HUGE, "v": [0, 1]}),
    "Pad": lambda: deciding([node("Pad", ["one", "n"], ["h"])], {"one": [1], "n": [HUGE, 0]}),
    "Where": lambda: deciding(
        [*(node("Unsqueeze", ["r", f"x{i}"], [f"u{i}"]) for i in range(3)), node("Sum", ["u0", "u1", "u2"], ["h"])],
        {"r": [1] * 4096, "x0": [0, 1], "x1": [1, 2], "x2": [0, 2]},
    ),
}
"""A shape depends on the elements of a tensor that is never to be made."""
