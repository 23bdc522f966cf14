"""What a model should take on GPUs that need not be at hand: a source and datasheets in, a prediction out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from trtprof.analysis.work import Kinds, count_runs, price, work_of_nodes
from trtprof.base.errors import UsageError
from trtprof.base.records import (
    Ceilings,
    Estimate,
    GpuPrediction,
    GpuSpec,
    Node,
    Op,
    PredictedLayer,
    Prediction,
    Source,
    Tensor,
    Unsupported,
    Work,
)
from trtprof.base.units import format_shape
from trtprof.cost import as_work, moved_bytes
from trtprof.cost.fused import group_cost
from trtprof.cost.ops.recurrent import count_steps
from trtprof.cost.precision import compute_dtype, compute_dtypes
from trtprof.cost.recast import NARROW, PRECISIONS, narrow_tensors, recast
from trtprof.estimate.cache import Access, Traffic, never_read, traffic_of_accesses
from trtprof.estimate.fusion import Group, fuse
from trtprof.estimate.roofline import estimate
from trtprof.flows.predict import on_gpus
from trtprof.flows.predict.on_gpus import OPEN_LOOP, Settings, ceilings_of, has_unit, live_bytes

__all__ = ["Settings", "predict_source"]

Key = tuple[str, str]  # A tensor: path of the graph that makes it, and its name


def predict_source(source: Source, specs: Sequence[GpuSpec], how: Settings) -> Prediction:
    """Predict a model on each GPU."""
    on_gpus.check(how)
    if how.level not in ("groups", "nodes"):
        raise UsageError(
            f"--level {how.level} is not possible here",
            why="it needs an engine, and there is none",
            fix="--level groups, or flows.predict.predict, which builds one",
        )
    plan = _Plan(source, how.level)
    return on_gpus.prediction(
        source,
        how.level,
        how,
        plan.moves(how.precision).memory_bytes,
        tuple(_on_gpu(plan, spec, how) for spec in specs),
        plan.unsupported,
        tuple(_assumptions(plan, how)),
    )


def times_by_precision(source: Source, specs: Sequence[GpuSpec], how: Settings) -> list[dict[str, int | None]]:
    """The time of the groups of a model at every precision, on each GPU; None where it has no unit for one."""
    plan = _Plan(source, "groups")
    return [_by_precision(plan, spec, how) for spec in specs]


# --- what does not depend on the GPU --------------------------------------------------------


class _Layer(NamedTuple):
    """A group that launches something."""

    shown: PredictedLayer
    kind: int
    tensors: tuple[Key, ...]  # What the names ``t0``, ``t1``, ... of its kind stand for


class _Kind(NamedTuple):
    """Groups that differ in the names of their tensors alone.

    The tensors of ``ops`` are called ``t0``, ``t1``, ... in the order in which they are met, other
    names of the same bytes by the same.
    """

    ops: tuple[Op, ...]
    outputs: frozenset[str]
    quantised: tuple[str, ...]  # What each op multiplies where it is fed dequantised values, else empty
    narrow: frozenset[str]

    def recast(self, precision: str) -> list[Op]:
        """Its ops at another precision."""
        return [recast(op, precision, self.narrow) for op in self.ops]


class _Moves(NamedTuple):
    """What moves at precisions of one width."""

    accesses: list[Access]  # By layer
    memory_bytes: int


class _Plan:
    """The layers of a model, and what they cost at each precision."""

    def __init__(self, source: Source, level: Literal["groups", "nodes"]) -> None:
        self.source = source
        self.nodes = source.nodes
        self.outputs = frozenset(tensor.name for tensor in source.model.outputs)
        self.bound_note = ""
        self.open_loops = False
        self.times = self._runs()
        self.graph_of = {node.name: node.graph for node in self.nodes}
        self.made: dict[str, set[str]] = {}
        for node in self.nodes:
            self.made.setdefault(node.graph, set()).update(t.name for t in node.op.outputs if t is not None)
        groups = fuse(self.nodes, self.outputs, groups=level == "groups")
        views = {name for group in groups for name in group.views}
        self.free = sum(len(group.nodes) if group.free else len(group.views) for group in groups)
        self.stored = self._stored() if level == "groups" else {}
        """Constants that are read in the dtype that they are stored in, not in that of their values."""
        self.roots = self._roots(views)
        """Other name -> the tensor that holds the bytes, and its dtype."""
        self.narrow = narrow_tensors(self.nodes, self.outputs)
        self.kinds: list[_Kind] = []
        self.layers = self._layers(groups)
        self.reasons = self._reasons()
        self.unsupported = self._unsupported()
        floats = {t.dtype for kind in self.kinds for op in kind.ops for t in (*op.inputs, *op.outputs) if t is not None}
        self._mixed = bool(floats & {"fp16", "bf16"})
        self._works: dict[str, list[Work | None]] = {}
        self._moves: dict[str, _Moves] = {}
        self._traffic: dict[tuple[str, int], list[Traffic]] = {}

    def _runs(self) -> Mapping[str, int]:
        """How often each graph runs; the work of its nodes decides where data would."""
        if not any(node.graph for node in self.nodes):
            return {"": 1}
        works, _ = work_of_nodes(self.nodes)
        runs = count_runs([msgspec.structs.replace(node, work=works[node.name]) for node in self.nodes])
        self.bound_note = runs.note
        self.open_loops = runs.bound in ("lower", "mixed")
        return runs.times

    # --- which tensor is meant --------------------------------------------------------------

    def _key(self, graph: str, name: str) -> Key:
        """The tensor that a graph sees under a name; one that no node makes belongs to the main graph."""
        while graph and name not in self.made[graph]:
            graph = self.graph_of.get(graph.rpartition("/")[0], "")
        return graph, name

    def _stored(self) -> dict[Key, str]:
        """An engine keeps quantised weights quantised, whatever is done to their shape before the run."""
        stored: dict[Key, str] = {}
        for node in self.nodes:
            op = node.op
            if not node.constant or not op.inputs or op.inputs[0] is None or not op.outputs or op.outputs[0] is None:
                continue
            source = op.inputs[0]
            if op.op_type == "DequantizeLinear":
                dtype = source.dtype
            elif op.op_type in ("Transpose", "Reshape", "Unsqueeze", "Squeeze", "Identity"):
                dtype = stored.get((node.graph, source.name), "")
            else:
                continue
            if dtype:
                stored[node.graph, op.outputs[0].name] = dtype
        return stored

    def _roots(self, views: set[str]) -> dict[Key, tuple[Key, str]]:
        roots: dict[Key, tuple[Key, str]] = {key: (key, dtype) for key, dtype in self.stored.items()}
        for node in self.nodes:
            if node.name in views:
                source, made = node.op.inputs[0], node.op.outputs[0]
                if source is not None and made is not None:
                    key = self._key(node.graph, source.name)
                    roots[node.graph, made.name] = roots.get(key, (key, source.dtype))
        return roots

    # --- the layers -------------------------------------------------------------------------

    def _layers(self, groups: Sequence[Group]) -> list[_Layer]:
        kinds, known = Kinds(), dict[object, int]()
        dtypes = compute_dtypes(self.nodes)
        shapes: list[str] = []
        mains: list[int] = []
        steps: list[int] = []
        found = []
        for group in self._in_order(groups):
            times = self.times.get(group.nodes[0].graph, 0)
            if group.free or not times:
                continue
            graph = group.nodes[0].graph
            real = [node for node in group.nodes if node.name not in group.views]
            numbers: dict[Key, int] = {}
            parts: list[object] = []
            for node in real:
                tokens = kinds.of(node.op)
                places: list[tuple[int, str, bool] | None] = []
                for tensor in (*node.op.inputs, *node.op.outputs):
                    if tensor is None:
                        places.append(None)
                        continue
                    key = self._key(graph, tensor.name)
                    key, dtype = self.roots.get(key, (key, ""))
                    places.append((numbers.setdefault(key, len(numbers)), dtype, key in self.narrow))
                parts += [tokens, tuple(places), dtypes.get(node.name, "")]
            outputs = frozenset(numbers[key] for key in self._roots_of(graph, group.outputs) if key in numbers)
            parts.append(outputs)
            same = tuple(parts)
            kind = known.get(same)
            if kind is None:
                kind = known[same] = len(self.kinds)
                self.kinds.append(self._kind(graph, real, numbers, outputs, dtypes))
                shapes.append(_shapes(self.kinds[kind]))
                mains.append(_main(self.kinds[kind].ops))
                steps.append(max(map(count_steps, self.kinds[kind].ops)))
            call = group.nodes[0].call
            shown = PredictedLayer(
                name=call.name if call is not None else _called(real, mains[kind]),
                op_type=" + ".join(node.op.op_type for node in real),
                nodes=tuple(node.name for node in group.nodes),
                rule=group.rule,
                graph=graph,
                shapes=shapes[kind],
                repeats=times,
                steps=steps[kind],
            )
            found.append(_Layer(shown, kind, tuple(numbers)))
        return found

    def _in_order(self, groups: Sequence[Group]) -> Iterator[Group]:
        """Bodies behind the group that owns them, where they run."""
        graphs: dict[str, list[Group]] = {}
        for group in groups:
            graphs.setdefault(group.nodes[0].graph, []).append(group)
        bodies: dict[str, list[str]] = {}
        for graph in graphs:
            if graph:
                bodies.setdefault(graph.rpartition("/")[0], []).append(graph)

        def walk(graph: str) -> Iterator[Group]:
            for group in graphs.get(graph, ()):
                yield group
                for node in group.nodes:
                    for body in bodies.get(node.name, ()):
                        yield from walk(body)

        return walk("")

    def _roots_of(self, graph: str, names: Iterable[str]) -> Iterator[Key]:
        for name in names:
            yield self.roots.get((graph, name), ((graph, name), ""))[0]

    def _kind(
        self,
        graph: str,
        nodes: Sequence[Node],
        numbers: Mapping[Key, int],
        outputs: frozenset[int],
        dtypes: Mapping[str, str],
    ) -> _Kind:
        def renamed(tensor: Tensor | None) -> Tensor | None:
            if tensor is None:
                return None
            key = self._key(graph, tensor.name)
            key, dtype = self.roots.get(key, (key, tensor.dtype))
            return msgspec.structs.replace(tensor, name=f"t{numbers[key]}", dtype=dtype)

        return _Kind(
            ops=tuple(
                msgspec.structs.replace(
                    node.op, inputs=tuple(map(renamed, node.op.inputs)), outputs=tuple(map(renamed, node.op.outputs))
                )
                for node in nodes
            ),
            outputs=frozenset(f"t{number}" for number in outputs),
            quantised=tuple(dtypes.get(node.name, "") for node in nodes),
            narrow=frozenset(f"t{number}" for key, number in numbers.items() if key in self.narrow),
        )

    def _reasons(self) -> dict[int, str]:
        """Kinds without a price, and why."""
        reasons = {}
        for index, kind in enumerate(self.kinds):
            why = [f"{op.op_type}: {price(op)[1]}" for op in kind.ops if price(op)[0] is None]
            if why:
                reasons[index] = "; ".join(dict.fromkeys(why))
        return reasons

    def _unsupported(self) -> tuple[Unsupported, ...]:
        ops = [op for layer in self.layers if layer.kind in self.reasons for op in self.kinds[layer.kind].ops]
        priced = [(op, *price(op)) for op in ops]
        missing = Counter((op.domain, op.op_type, why.partition(":")[0]) for op, work, why in priced if work is None)
        return tuple(
            Unsupported(domain=domain, op_type=op_type, count=count, measured_ns=0, share=0.0, reason=reason)
            for (domain, op_type, reason), count in sorted(missing.items())
        )

    # --- at a precision ---------------------------------------------------------------------

    def works(self, precision: str) -> list[Work | None]:
        """The work of every kind, None where it is unknown."""
        found = self._works.get(precision)
        if found is None:
            found = self._works[precision] = [
                None if index in self.reasons else _work(kind, precision) for index, kind in enumerate(self.kinds)
            ]
        return found

    def _width(self, precision: str) -> str:
        """A precision whose tensors are as large."""
        if precision == "model":
            return "model" if self._mixed else "fp32"
        return {"tf32": "fp32", "bf16": "fp16", "fp8": "int8"}.get(precision, precision)

    def moves(self, precision: str) -> _Moves:
        """What every layer touches."""
        width = self._width(precision)
        found = self._moves.get(width)
        if found is None:
            found = self._moves[width] = self._moved(width)
        return found

    def _moved(self, precision: str) -> _Moves:
        touched = [_touched(kind, precision, unknown=index in self.reasons) for index, kind in enumerate(self.kinds)]
        weights: dict[str, int] = {}
        accesses = []
        for layer in self.layers:
            own = layer.shown.name
            names = {f"t{number}": f"{key[0]}/{key[1]}" for number, key in enumerate(layer.tensors)}
            reads, writes, constants = touched[layer.kind]
            # Parameters that lie in attributes are tensors of the layer alone.
            access = Access(
                own,
                {names.get(name) or f"{own} ({name})": size for name, size in reads.items()},
                {names.get(name) or f"{own} ({name})": size for name, size in writes.items()},
            )
            accesses.append(access)
            for name in constants:
                full = names.get(name) or f"{own} ({name})"
                weights[full] = max(weights.get(full, 0), constants[name])
        kept = {f"/{name}" for name in self.outputs} | {f"/{tensor.name}" for tensor in self.source.model.inputs}
        return _Moves(accesses, sum(weights.values()) + live_bytes(accesses, weights, kept))

    def traffic(self, precision: str, capacity: int) -> list[Traffic]:
        """What each layer finds in a cache of this size."""
        place = self._width(precision), capacity
        found = self._traffic.get(place)
        if found is None:
            accesses = self.moves(precision).accesses
            given_out = {f"{graph}/{name}" for graph, name in self._roots_of("", self.outputs)}
            found = self._traffic[place] = traffic_of_accesses(
                accesses, capacity, outputs=never_read(accesses) | given_out
            )
        return found


def _work(kind: _Kind, precision: str) -> Work | None:
    ops = kind.recast(precision)
    cost = group_cost(ops, kind.outputs)
    if cost is None or not cost.computes:
        return None if cost is None else as_work(cost, "")
    main = _main(ops)
    return as_work(cost, kind.quantised[main] or compute_dtype(ops[main]))


def _touched(kind: _Kind, precision: str, *, unknown: bool) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Bytes by tensor that a kind reads and writes, and the size of its constants."""
    ops = kind.recast(precision)
    given = [tensor for op in ops for tensor in op.inputs if tensor is not None]
    cost = None if unknown else group_cost(ops, kind.outputs)
    if cost is None:
        made = [tensor for op in ops for tensor in op.outputs if tensor is not None]
        inside = {tensor.name for tensor in made}
        reads = {tensor.name: tensor.nbytes or 0 for tensor in given if tensor.name not in inside}
        writes = {tensor.name: tensor.nbytes or 0 for tensor in made if tensor.name in kind.outputs}
    else:
        reads = {moved.tensor.name: moved_bytes(moved) for moved in cost.reads}
        writes = {moved.tensor.name: moved_bytes(moved) for moved in cost.writes}
        given += [moved.tensor for moved in cost.reads]
    return reads, writes, {tensor.name: tensor.nbytes or 0 for tensor in given if tensor.constant}


def _called(nodes: Sequence[Node], main: int) -> str:
    return nodes[main].name + (f" +{len(nodes) - 1}" if len(nodes) > 1 else "")


def _main(ops: Sequence[Op]) -> int:
    """Position of the op with most arithmetic; products count before all else, and the first of equals."""
    if len(ops) == 1:
        return 0
    found = []
    for op in ops:
        work, _ = price(op)
        found.append((work.tensor_flops, work.vector_flops) if work is not None else (0, 0))
    return max(range(len(ops)), key=lambda at: (found[at], -at))


def _shapes(kind: _Kind) -> str:
    """What comes in and what goes out: ``1x3x64x64, 16x3x3x3 -> 1x16x64x64``."""
    made = {tensor.name: tensor for op in kind.ops for tensor in op.outputs if tensor is not None}
    given = {t.name: t for op in kind.ops for t in op.inputs if t is not None and t.name not in made}

    def text(tensors: Iterable[Tensor]) -> str:
        return ", ".join(format_shape(tensor.shape) for tensor in tensors)

    return f"{text(given.values())} -> {text(t for name, t in made.items() if name in kind.outputs)}"


# --- on a GPU -------------------------------------------------------------------------------


def _on_gpu(plan: _Plan, spec: GpuSpec, how: Settings) -> GpuPrediction:
    ceilings = ceilings_of(spec, how, how.precision)
    estimates = _estimates(plan, ceilings, how.precision)
    works = plan.works(how.precision)
    correction, corrected = on_gpus.correction(spec, how, ceilings)
    by_kind = list(map(msgspec.structs.asdict, on_gpus.expectations(works, spec, how, ceilings, correction)))
    layers = tuple(
        msgspec.structs.replace(
            layer.shown,
            work=works[layer.kind],
            estimate=found,
            reason=plan.reasons.get(layer.kind, "") or OPEN_LOOP * (plan.open_loops and bool(layer.shown.graph)),
            **by_kind[layer.kind],
        )
        for layer, found in zip(plan.layers, estimates, strict=True)
    )
    by_precision = _by_precision(plan, spec, how)
    memory_bytes = plan.moves(how.precision).memory_bytes
    return on_gpus.gpu_prediction(spec, how, ceilings, layers, by_precision, memory_bytes, corrected=corrected)


def _by_precision(plan: _Plan, spec: GpuSpec, how: Settings) -> dict[str, int | None]:
    return {
        precision: _time(plan, ceilings_of(spec, how, precision), precision) if has_unit(spec, precision) else None
        for precision in PRECISIONS
        if precision != "model"
    }


def _estimates(plan: _Plan, ceilings: Ceilings, precision: str) -> list[Estimate | None]:
    """By layer; those of one kind that find as much in the cache are estimated once."""
    works = plan.works(precision)
    known: dict[tuple[int, Traffic], Estimate | None] = {}
    found = []
    for layer, traffic in zip(plan.layers, plan.traffic(precision, ceilings.cache_bytes), strict=True):
        place = layer.kind, traffic
        if place not in known:
            work = works[layer.kind]
            known[place] = None if work is None else estimate(work, traffic, ceilings)
        found.append(known[place])
    return found


def _time(plan: _Plan, ceilings: Ceilings, precision: str) -> int:
    found = _estimates(plan, ceilings, precision)
    return sum(
        each.attainable_ns * layer.shown.repeats
        for each, layer in zip(found, plan.layers, strict=True)
        if each is not None
    )


# --- in words -------------------------------------------------------------------------------


def _assumptions(plan: _Plan, how: Settings) -> Iterator[str]:
    if how.level == "groups":
        yield "groups are estimated: no engine was built (--engine builds one with TensorRT-RTX, without a GPU)"
    else:
        yield "each node is a kernel: an engine would fuse many"
    if plan.free:
        yield f"nodes that launch nothing (views, control flow, what shapes and constants alone decide): {plan.free}"
    if any(layer.shown.steps > 1 for layer in plan.layers):
        yield "the steps of a recurrence wait for each other: a forecast counts each as a launch"
    yield from on_gpus.assumptions(how, tf32=how.precision in ("model", "tf32"))
    if how.precision in NARROW:
        yield f"operands of products are {how.precision}, all else that floats is fp16; what is quantised stays so"
    if plan.bound_note:
        yield plan.bound_note
