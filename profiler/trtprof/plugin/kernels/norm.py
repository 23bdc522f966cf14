"""Layer, RMS and instance normalization, as an op or spelled out in element-wise ops."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import onnx
from onnx import NodeProto, helper

from trtprof.plugin.chain import Chain, attribute, find
from trtprof.plugin.form import Form, NoFitError
from trtprof.plugin.kernels.softmax import Steps, rows
from trtprof.plugin.task import Task

_RMS = ("RMSNormalization", "SimplifiedLayerNormalization")
_OPS = (*_RMS, "LayerNormalization", "InstanceNormalization")
_CORE = "Normalize"  # Without scale and bias; not an op of ONNX
_CENTERED = Steps(
    "0.0",
    [
        "mean = tl.sum({x}, 1, keep_dims=True) / C",
        "apart = tl.where(inside, {x} - mean, 0.0)",
        "{y} = apart * tl.rsqrt(tl.sum(apart * apart, 1, keep_dims=True) / C + EPS)",
    ],
    ["mean = tl.zeros([BLOCK_R, 1], tl.float32)", "square = tl.zeros([BLOCK_R, 1], tl.float32)"],
    # Chan, Golub and LeVeque: means and squared deviations of a chunk and of all before it become those of both.
    [
        "n = tl.minimum(C - start, BLOCK_C)",
        "step = tl.sum({x}, 1, keep_dims=True) / n - mean",
        "apart = tl.where(inside, {x} - mean - step, 0.0)",
        "mean += step * n / (start + n)",
        "square += tl.sum(apart * apart, 1, keep_dims=True) + step * step * start * n / (start + n)",
    ],
    ["{y} = ({x} - mean) * tl.rsqrt(square / C + EPS)"],
)
_PLAIN = Steps(
    "0.0",
    ["{y} = {x} * tl.rsqrt(tl.sum({x} * {x}, 1, keep_dims=True) / C + EPS)"],
    ["square = tl.zeros([BLOCK_R, 1], tl.float32)"],
    ["square += tl.sum({x} * {x}, 1, keep_dims=True)"],
    ["{y} = {x} * tl.rsqrt(square / C + EPS)"],
)
_MOST_TAKEN = 16  # Nodes that are spelled, one as often as it is read
# How values are computed of x, as `_spelled` writes it; d is x or x - mean(x).
_CENTER = re.compile(r"Sub\(x,ReduceMean\(x,[\d:]+\)\)")
_MEAN = r"ReduceMean\((?:Mul\(d,d\)|Pow\(d,#2(?:\.0)?\)),(?P<axes>[\d:]+)\)"
_DEVIATION = rf"Sqrt\(Add\(#(?P<epsilon>[^,]+),{_MEAN}\)\)"
_SPELLED = re.compile(rf"(?P<div>Div\(d,)?(?(div)|Mul\((?:Reciprocal\(|Div\(#1(?:\.0)?,)){_DEVIATION}(?(div)|\),d)\)")


def fits(task: Task) -> Form:
    """Normalization over axes side by side, with element-wise nodes around it."""
    if not any(node.op_type in _OPS for node in task.body.node):
        return _spelled(task)
    node = find(task, *_OPS)
    if any(node.output[1:]):
        raise NoFitError("mean and deviation are outputs")
    rank = len(Chain(task).dims(node.input[0]))
    instance = node.op_type == "InstanceNormalization"
    axis = 2 if instance else attribute(node, "axis", -1) % rank
    # Scale and bias become element-wise nodes; those of channels get the rank of a channel.
    nodes = [helper.make_node(_CORE, node.input[:1], ["core"])]
    for op_type, name in zip(("Mul", "Add"), node.input[1:], strict=False):
        if name:
            nodes.append(helper.make_node(op_type, [nodes[-1].output[0], name], [f"core_{op_type}"]))
    nodes[-1].output[0] = node.output[0]
    task = replace_nodes(task, [node], nodes, dict.fromkeys(node.input[1:], rank - 1) if instance else {})
    return _rows(task, (axis, rank), attribute(node, "epsilon", 1e-5), centered=node.op_type not in _RMS)


def replace_nodes(task: Task, old: Sequence[NodeProto], new: Sequence[NodeProto], ranks: Mapping[str, int]) -> Task:
    """The task with new nodes for the last of some, which all go; inputs get dims of 1 after theirs, up to a rank."""
    gone, body = {node.output[0] for node in old}, onnx.FunctionProto()
    body.CopyFrom(task.body)
    del body.node[:]
    for node in task.body.node:
        body.node.extend([node] if node.output[0] not in gone else new if node.output[0] == old[-1].output[0] else [])
    inputs = [replace(one, dims=(*one.dims, *[1] * (ranks.get(one.name, 0) - len(one.dims)))) for one in task.inputs]
    return replace(task, body=body, inputs=tuple(inputs))


def _rows(task: Task, axes: tuple[int, int], epsilon: float, *, centered: bool) -> Form:
    constants = {"EPS": float(f"{epsilon:.7g}")}
    return rows(task, find(task, _CORE), "norm", _CENTERED if centered else _PLAIN, axes, constants)


def _spelled(task: Task) -> Form:
    """What is spelled d / sqrt(mean(d * d) + epsilon)."""
    chain = Chain(task)
    makers = {node.output[0]: node for node in chain.nodes}
    scalars = {name for name, array in chain.constants.items() if array.size == 1}

    def spell(name: str, x: str, taken: list[NodeProto]) -> str:
        """How a value is computed of x, and by which nodes."""
        if name == x or name not in makers:
            return "x" if name == x else f"#{chain.constants[name].item()}" if name in scalars else "?"
        node = makers[name]
        taken.append(node)
        if len(taken) > _MOST_TAKEN:
            return "?"
        if node.op_type == "ReduceMean":
            return f"ReduceMean({spell(node.input[0], x, taken)},{_axes(chain, node)})"
        words = [spell(one, x, taken) for one in node.input]
        return f"{node.op_type}({','.join(sorted(words) if node.op_type in ('Add', 'Mul') else words)})"

    for root in chain.nodes:
        for x in dict.fromkeys(name for node in chain.nodes for name in node.input):
            taken: list[NodeProto] = []
            raw = spell(root.output[0], x, taken)
            centered = _CENTER.search(raw) is not None
            match = _SPELLED.fullmatch(_CENTER.sub("d", raw) if centered else raw.replace("x", "d"))
            inner = {node.output[0] for node in taken} - {root.output[0]}
            readers = [node for node in chain.nodes if inner & set(node.input)]
            if match and not inner & set(task.body.output) and all(node in taken for node in readers):
                task = replace_nodes(task, [*taken, root], [helper.make_node(_CORE, [x], root.output)], {})
                first, end = map(int, match["axes"].split(":"))
                return _rows(task, (first, end), float(match["epsilon"]), centered=centered)
    raise NoFitError("no normalization is in it")


def _axes(chain: Chain, node: NodeProto) -> str:
    """Axes of a mean, "2:4"; "?" where they lie apart or are dropped."""
    rank = len(chain.dims(node.input[0]))
    axes = chain.constants[node.input[1]].tolist() if len(node.input) > 1 else attribute(node, "axes", range(rank))
    first, *_ = places = sorted(axis % rank for axis in axes)
    beside = places == list(range(first, first + len(places))) and attribute(node, "keepdims", 1)
    return f"{first}:{places[-1] + 1}" if beside else "?"
