"""Layers of ONNX Runtime with the shapes that they ran at, and their work, in the form of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from trtprof.align.ort_cuda import matched_layer
from trtprof.analysis.plan import PricedPlan
from trtprof.analysis.work import NO_COST, price, scaled
from trtprof.base.records import (
    Engine,
    EngineFacts,
    EnginePlan,
    InputTensor,
    Layer,
    NodeFate,
    Op,
    PlanBinding,
    PlanRole,
    Source,
    Tensor,
    Work,
)
from trtprof.cost import CostError
from trtprof.cost.fused import work_of_group
from trtprof.cost.plan import PlanCost
from trtprof.diagnose.plan_summary import summarise
from trtprof.estimate.roofline import layer_accesses

RuntimeShapes = Mapping[str, tuple[tuple[Tensor, ...], tuple[Tensor, ...]]]
"""Layer name -> tensors in and out with the shapes seen while it ran."""


def layers_as_run(layers: Sequence[Layer], inputs: Sequence[InputTensor], shapes: RuntimeShapes) -> list[Layer]:
    """The layers with the shapes that were seen while they ran, which the graph often leaves open."""
    known: dict[tuple[str, str], Tensor] = {
        ("", one.name): Tensor(name=one.name, dtype=one.dtype, shape=one.shape) for one in inputs
    }
    for layer in layers:
        outputs = [tensor for tensor in layer.op.outputs if tensor is not None]
        seen = shapes.get(layer.name, ((), ()))[1]
        if len(outputs) == len(seen):
            known.update(((layer.graph, t.name), _now(t, now)) for t, now in zip(outputs, seen, strict=True))
    return [_filled(layer, shapes, known) for layer in layers]


def _filled(layer: Layer, shapes: RuntimeShapes, known: Mapping[tuple[str, str], Tensor]) -> Layer:
    own = _own_record(layer.op.inputs, shapes.get(layer.name, ((), ()))[0])

    def fill(tensor: Tensor | None) -> Tensor | None:
        if tensor is None or (tensor.constant and tensor.elements is not None):
            return tensor
        # Bodies read tensors of the graph around them too.
        return known.get((layer.graph, tensor.name)) or known.get(("", tensor.name)) or own.get(tensor.name, tensor)

    op = layer.op
    return msgspec.structs.replace(
        layer,
        op=msgspec.structs.replace(
            op, inputs=tuple(fill(tensor) for tensor in op.inputs), outputs=tuple(fill(tensor) for tensor in op.outputs)
        ),
    )


def _own_record(inputs: Sequence[Tensor | None], seen: Sequence[Tensor]) -> dict[str, Tensor]:
    """Inputs by name as the runtime noted them; weights that it packed in advance are not noted."""
    present = [tensor for tensor in inputs if tensor is not None]
    surplus = len(present) - len(seen)
    rest = list(seen)
    found: dict[str, Tensor] = {}
    for tensor in present:
        packed = tensor.constant and surplus > 0 and (not rest or rest[0].shape != tensor.shape)
        if packed:
            surplus -= 1
        elif rest:
            found[tensor.name] = _now(tensor, rest.pop(0))
    return found if surplus == 0 and not rest else {}


def _now(tensor: Tensor, seen: Tensor) -> Tensor:
    dtype = tensor.dtype if seen.dtype == "unknown" else seen.dtype
    return msgspec.structs.replace(tensor, shape=seen.shape, dtype=dtype)


def _price(layer: Layer, ops: Mapping[str, Op]) -> tuple[Work | None, str]:
    """The work of a layer, or why there is none: one whose own op nobody knows does that of its nodes as one kernel."""
    work, reason = price(layer.op)
    if work is None and layer.nodes and reason == NO_COST:
        return _price_of_nodes(layer, [ops[name] for name in layer.nodes], reason)
    return work, reason


def _price_of_nodes(layer: Layer, ops: Sequence[Op], reason: str) -> tuple[Work | None, str]:
    present = [tensor for tensor in (*layer.op.inputs, *layer.op.outputs) if tensor is not None]
    made = {tensor.name for op in ops for tensor in op.outputs if tensor is not None}
    outputs = {tensor.name for tensor in layer.op.outputs if tensor is not None} & made
    try:
        work = work_of_group(ops, outputs or None, {tensor.name: tensor.dtype for tensor in present})
    except CostError as error:
        return None, f"{error.kind}: {error}"
    if work is None:
        return None, reason
    return msgspec.structs.replace(work, note="; ".join(filter(None, ("that of its ONNX nodes", work.note)))), ""


def priced_layers(
    layers: Sequence[Layer], fates: tuple[NodeFate, ...], source: Source, engine: Engine, launches: Mapping[str, float]
) -> PricedPlan:
    """Matched layers of ONNX Runtime, in execution order with the shapes of the run, as a plan with its work.

    ``launches``: on the CPU, how often each layer runs in an inference; on a GPU nothing.
    """
    on_cpu = bool(launches)
    ops = {node.name: node.op for node in source.nodes}
    prices = {layer.name: _price(layer, ops) for layer in layers}
    works = {name: work for name, (work, _) in prices.items()}
    if on_cpu:
        # Its convolutions on the CPU do every product: neither Winograd nor FFT is there.
        works = {
            name: msgspec.structs.replace(work, fast_flops=0) if work is not None and work.fast_flops else work
            for name, work in works.items()
        }
    accesses, kept = layer_accesses(layers, works, [tensor.name for tensor in source.model.outputs])
    matched = tuple(matched_layer(layer, None if on_cpu else _role(layer, works[layer.name])) for layer in layers)
    costs = tuple(
        PlanCost(
            work=works[layer.name],
            reads=access.reads,
            writes=access.writes,
            constants=frozenset(t.name for t in layer.op.inputs if t is not None and t.constant),
            reason=prices[layer.name][1],
            runs=max(int(launches.get(layer.name, 1)), 1),
        )
        for layer, access in zip(layers, accesses, strict=True)
    )
    all_runs = tuple(None if cost.work is None else scaled(cost.work, cost.runs) for cost in costs)
    document = EnginePlan(
        facts=EngineFacts(
            backend=engine.backend.name,
            versions=engine.versions,
            era="ONNX Runtime's optimised graph",
            build_ns=engine.build_ns,
        ),
        bindings=tuple(_bindings(source)),
        layers=matched,
        works=all_runs,
        fates=fates,
        summary=summarise(matched, all_runs, fates),
    )
    return PricedPlan(document, costs, tuple(accesses), kept, (), tuple(layers) if on_cpu else ())


def _role(layer: Layer, work: Work | None) -> PlanRole:
    """A layer that moves nothing is a view: whatever it launches is not its work."""
    if layer.role == "layout":
        return "layout"
    return "idle" if work is not None and not work.bytes and not work.flops else "compute"


def _bindings(source: Source) -> list[PlanBinding]:
    return [
        *(PlanBinding(name=one.name, mode="input", dtype=one.dtype, dims=one.shape) for one in source.model.inputs),
        *(PlanBinding(name=one.name, mode="output", dtype=one.dtype) for one in source.model.outputs),
    ]
