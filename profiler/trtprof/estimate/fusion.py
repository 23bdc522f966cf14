"""Which nodes an engine would run as one kernel, estimated from the structure of the graph alone.

The rules are those that TensorRT lists under "Types of Fusions" (`RULES`): a group is what a good engine can do, its
time a lower bound. A group joins its only consumer or its only producer, so that no edge makes a cycle; an epilogue of
a product is several such steps. What follows from shapes and constants alone orders nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from trtprof.base.calls import folded
from trtprof.base.op_kinds import CONTROL, CONVOLUTIONS, PRODUCTS, RANDOM, SHAPES, op_types
from trtprof.base.records import Node, Op, Tensor

_CATALOG = "https://docs.nvidia.com/deeplearning/tensorrt/latest/performance/fusion-catalog.html, Types of Fusions"
_ATTENTION = "https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/transformers-fused-attention.html"


class Rule(NamedTuple):
    """What is taken to be fused, and who says that it is."""

    text: str
    source: str


RULES: dict[str, Rule] = {
    "product": Rule(
        "a convolution or matrix product with what follows it element by element: normalisation by constants, "
        "bias, one residual, activation",
        f"Convolution and ReLU, GELU, Clip, Scale, ElementWise Operation; {_CATALOG}",
    ),
    "attention": Rule(
        "two matrix products around a softmax, with scale, mask and the transposes of their operands",
        _ATTENTION,
    ),
    "normalisation": Rule(
        "reductions over the same axes with what is computed of them and of the values that they reduce: "
        "a softmax, layer or RMS norm written out, and its scale and bias",
        f"Reduction Operation Fusions, Scale; {_CATALOG}",
    ),
    "reduction": Rule(
        "a reduction, softmax or norm with the element by element arithmetic that only it reads, and what "
        "follows it element by element",
        f"Reduction Operation Fusions, SoftMax and Log; {_CATALOG}",
    ),
    "elementwise": Rule(
        "adjacent element by element arithmetic on tensors of one size", f"PointWise Fusion; {_CATALOG}"
    ),
    "quantise": Rule(
        "QuantizeLinear into the node before it; of a DequantizeLinear the quantised values are read",
        f"Q/DQ Fusion; {_CATALOG}",
    ),
    "transpose": Rule("a transpose into the matrix product that reads it by strides", f"Shuffle; {_CATALOG}"),
    "padding": Rule(
        "Pad into the convolution that alone reads it", f"Padding and Convolution/Deconvolution; {_CATALOG}"
    ),
    "plugin": Rule("the nodes of the function of a custom node: its plugin is one kernel", "convention"),
    "view": Rule("other names for the same bytes launch nothing and move nothing", f"Shuffle; {_CATALOG}"),
    "control": Rule("If, Loop and Scan launch nothing: their bodies are nodes of their own", "convention"),
    "shape": Rule("what follows from shapes and constants alone is computed before the run", "constant folding"),
}  # fmt: skip
"""By the name that a group has its rule by."""

_FREE = frozenset({"view", "shape", "control"})
_VIEWS = op_types("view")
_QUANTIZE, _DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"
_MATMULS = op_types("matmul") - {"Gemm", "FusedGemm", "QGemm", "GemmFloat8", "GemmFastGelu", "Einsum"}
"""Those of stacks of matrices: a Gemm has attributes that transpose, and of Einsum nobody knows which side is which."""
_SOFTMAX = op_types("softmax")
_REDUCTIONS = op_types("reduction")
_NORMS = op_types("normalisation") - {"LRN"}
"""LRN is a layer of its own, into which nothing is fused."""
_ELEMENTWISE = op_types("pointwise", "cast", "quantise", "batch norm")
_MAX_EPILOGUE = 16
"""Nodes between a product and where its branches meet again: the decomposed Gelu has 8."""


class Group(NamedTuple):
    """Nodes that run as one kernel."""

    nodes: tuple[Node, ...]  # In graph order
    rule: str  # A key of `RULES`; empty for a node that stands alone
    outputs: tuple[str, ...]  # Names of the tensors that are needed outside
    views: frozenset[str] = frozenset()  # Names of those of its nodes that only give other names to the same bytes

    @property
    def free(self) -> bool:
        """Whether it launches nothing."""
        return self.rule in _FREE


class Edges(NamedTuple):
    """What orders the nodes of one graph, by their position in it."""

    reads: tuple[frozenset[int], ...]  # The nodes whose tensors a node reads, those that only its bodies read included
    known: tuple[bool, ...]  # Whether what a node computes is known before the run
    needed: frozenset[str]  # Names of the tensors that are needed when the graph is done


def fuse(nodes: Sequence[Node], outputs: Collection[str] = (), *, groups: bool = True) -> tuple[Group, ...]:
    """The groups of a model, graph by graph as the nodes come, each graph in an order that it can run in."""
    inside = {node.name: inner for node, inner in folded(nodes) if node.call is not None}
    nodes = [node for node, _ in folded(nodes)] if inside else nodes
    found: list[Group] = []
    graphs = _graphs(nodes)
    edges = _edges_of(graphs, nodes, outputs)
    for graph, own in graphs.items():
        found += _Fusion(own, edges[graph]).groups() if groups else _alone(own, edges[graph])
    return tuple(
        _of_plugin(group, inside[group.nodes[0].name]) if group.nodes[0].name in inside else group for group in found
    )


def _of_plugin(group: Group, nodes: Sequence[Node]) -> Group:
    """The group of a custom node as that of the nodes of its function."""
    real = tuple(node for node in nodes if not node.constant)
    return Group(real, "plugin", group.outputs, frozenset(node.name for node in real if is_view(node.op)))


def _graphs(nodes: Sequence[Node]) -> dict[str, list[Node]]:
    """The nodes of each graph that constants do not decide, outer before inner."""
    graphs: dict[str, list[Node]] = {}
    for node in nodes:
        own = graphs.setdefault(node.graph, [])
        if not node.constant:
            own.append(node)
    return graphs


def _edges_of(
    graphs: Mapping[str, Sequence[Node]], nodes: Sequence[Node], outputs: Collection[str]
) -> dict[str, Edges]:
    place = {node.name: node.graph for node in nodes} if len(graphs) > 1 else {}
    captured: dict[str, dict[str, set[str]]] = {}
    """Graph -> node with bodies -> names that these read from around them."""
    found: dict[str, Edges] = {}
    # A body is first met after the graph around it, so from the back it comes first.
    for graph in reversed(list(graphs)):
        own, inner = graphs[graph], captured.get(graph, {})
        maker = {tensor.name: at for at, node in enumerate(own) for tensor in node.op.outputs if tensor is not None}
        known = _known(own, inner)
        reads: list[frozenset[int]] = []
        used: set[str] = set()
        for node in own:
            names = [tensor.name for tensor in node.op.inputs if tensor is not None and not tensor.constant]
            names += inner.get(node.name, ())
            used.update(names)
            if node.op.op_type in SHAPES:
                reads.append(frozenset())
                continue
            makers = [maker[name] for name in names if name in maker]
            reads.append(frozenset([at for at in makers if not known[at]]))
        needed = set(outputs) if not graph else {name for name in maker if name not in used}
        # A body finds in memory what it reads from around it.
        needed.update(*inner.values())
        found[graph] = Edges(tuple(reads), tuple(known), frozenset(needed))
        if graph:
            owner = graph.rpartition("/")[0]
            around = captured.setdefault(place.get(owner, ""), {})
            around.setdefault(owner, set()).update(name for name in used if name not in maker)
    return {graph: found[graph] for graph in graphs}


def _known(nodes: Sequence[Node], owners: Collection[str]) -> list[bool]:
    """Of each node whether shapes and constants alone decide what it computes."""
    names: set[str] = set()
    known = []
    for node in nodes:
        op = node.op
        decided = op.op_type in SHAPES
        if not decided and names:
            inputs = [tensor for tensor in op.inputs if tensor is not None]
            decided = (
                not names.isdisjoint([tensor.name for tensor in inputs])
                and op.op_type not in RANDOM
                and node.name not in owners
                and all(tensor.constant or tensor.name in names for tensor in inputs)
            )
        known.append(decided)
        if decided:
            names.update(tensor.name for tensor in op.outputs if tensor is not None)
    return known


def _alone(nodes: Sequence[Node], edges: Edges) -> Iterator[Group]:
    for node, known in zip(nodes, edges.known, strict=True):
        outputs = tuple(tensor.name for tensor in node.op.outputs if tensor is not None)
        kind = "shape" if known else "view" if is_view(node.op) else _kind(node.op)
        views = frozenset({node.name} if kind == "view" else ())
        yield Group((node,), kind if kind in _FREE else "", outputs, views)


def is_view(op: Op) -> bool:
    """Whether the first output is the first input under another name: a shape changes, no value does."""
    if op.op_type in _VIEWS:
        return True
    first, made = (tensors[0] if tensors else None for tensors in (op.inputs, op.outputs))
    if op.op_type == "Cast":
        return first is not None and made is not None and first.dtype == made.dtype != "unknown"
    if op.op_type == "Dropout":
        if op.opset < 7:
            return bool(op.attributes.get("is_test", 0))
        training = op.inputs[2] if len(op.inputs) > 2 else None
        return training is None or training.value == (0,)
    return False


class _Unit(NamedTuple):
    """A node with the views of what it makes."""

    op: Op
    at: int
    kind: str
    elements: int | None  # Of its first output


class _Fusion:
    """The graph of groups of one graph, contracted edge by edge."""

    def __init__(self, nodes: Sequence[Node], edges: Edges) -> None:
        self.nodes = nodes
        self.edges = edges
        self.units: dict[int, _Unit] = {}
        self.members: dict[int, list[int]] = {}
        """Unit or group -> positions of its nodes. A group has the name of its first unit."""
        self.last: dict[int, int] = {}
        """Unit or group -> its last unit."""
        self.rule: dict[int, str] = {}
        self.home: list[int] = list(range(len(nodes)))
        self.maker: dict[str, int] = {}
        """Tensor -> position of the node that makes it."""
        self.before: dict[int, set[int]] = {}
        self.after: dict[int, set[int]] = {}
        self.escapes: set[int] = set()
        """Groups whose result consumers must find in memory: an output of the graph, quantised values."""
        self.axes: dict[int, object] = {}
        """Of a group that normalises: what it reduces over."""
        self.softmaxes: set[int] = set()
        self.views: set[int] = set()
        self._units()

    def groups(self) -> list[Group]:
        """Apply the rules, those of the most particular patterns first."""
        order = [unit for unit in self.units if not self._is_free(unit)]
        kinds = {unit: self.units[unit].kind for unit in order}
        for unit in order:
            if kinds[unit] == "reduction" and unit in self.members:
                self._normalisation(unit)
        self.softmaxes.update(unit for unit in order if kinds[unit] == "softmax")
        for group in sorted(self.softmaxes & self.members.keys()):
            self._attention(group)
        for unit in order:
            if unit in self.members and unit not in self.rule and kinds[unit] in ("transpose", "pad"):
                self._operand(unit)
        # From the back: of two products that are added up, the later one takes the sum.
        for unit in reversed(order):
            if kinds[unit] == "product" and self.rule.get(self.home[unit]) != "attention":
                self._epilogue(self.home[unit], "product")
        for unit in reversed(order):
            if kinds[unit] in ("norm", "softmax", "reduction") and self.rule.get(self.home[unit]) != "attention":
                self._epilogue(self.home[unit], "reduction")
        for unit in order:
            if kinds[unit] == "elementwise":
                self._elementwise(unit)
        for unit in reversed(order):
            if kinds[unit] in ("norm", "softmax", "reduction") and self.rule.get(self.home[unit]) != "attention":
                self._prologue(self.home[unit])
        for unit in order:
            if self.units[unit].op.op_type == _QUANTIZE and unit in self.members and unit not in self.rule:
                self._quantise(unit)
        return self._made()

    # --- the graph --------------------------------------------------------------------------

    def _units(self) -> None:
        home, maker, needed = self.home, self.maker, self.edges.needed
        for at, (node, known) in enumerate(zip(self.nodes, self.edges.known, strict=True)):
            op = node.op
            view = not known and (is_view(op) or self._reads_quantised(op))
            behind = at
            if view:
                self.views.add(at)
                source = op.inputs[0] if op.inputs else None
                first = home[maker[source.name]] if source is not None and source.name in maker else None
                if first is not None and self.units[first].kind != "shape" and self._only(at, first):
                    behind = home[at] = first
                    self.members[behind].append(at)
            if behind == at:
                kind = "shape" if known else "view" if view else _kind(op)
                made = op.outputs[0] if op.outputs else None
                if op.op_type == _QUANTIZE:
                    self.escapes.add(at)
                self.units[at] = _Unit(op, at, kind, None if made is None else made.elements)
                self.members[at] = [at]
                self.last[at] = at
            for tensor in op.outputs:
                if tensor is not None:
                    maker[tensor.name] = at
                    if tensor.name in needed:
                        self.escapes.add(behind)
        before: dict[int, set[int]] = {unit: set() for unit in self.units}
        after: dict[int, set[int]] = {unit: set() for unit in self.units}
        for own, reads in zip(home, self.edges.reads, strict=True):
            for source_at in reads:
                other = home[source_at]
                if other != own:
                    before[own].add(other)
                    after[other].add(own)
        self.before, self.after = before, after

    def _reads_quantised(self, op: Op) -> bool:
        """A DequantizeLinear whose readers can take the quantised values."""
        return op.op_type == _DEQUANTIZE and not any(
            tensor is not None and tensor.name in self.edges.needed for tensor in op.outputs
        )

    def _only(self, at: int, unit: int) -> bool:
        return all(self.home[source] == unit for source in self.edges.reads[at])

    def _into_consumer(self, group: int) -> int | None:
        return next(iter(self.after[group])) if len(self.after[group]) == 1 and group not in self.escapes else None

    def _into_producer(self, group: int) -> int | None:
        if len(self.before[group]) != 1:
            return None
        (found,) = self.before[group]
        return None if found in self.escapes or self._is_free(found) else found

    def _is_free(self, group: int) -> bool:
        return self.units[group].kind in _FREE

    def _join(self, first: int, second: int, rule: str) -> int:
        """Contract an edge; the group that results is called by the earlier of the two."""
        kept, gone = min(first, second), max(first, second)
        for at in self.members[gone]:
            self.home[at] = kept
        self.members[kept] += self.members.pop(gone)
        self.last[kept] = max(self.last[kept], self.last.pop(gone))
        for ours, theirs in ((self.before, self.after), (self.after, self.before)):
            for other in ours.pop(gone):
                theirs[other].discard(gone)
                if other != kept:
                    theirs[other].add(kept)
                    ours[kept].add(other)
            ours[kept].discard(kept)
        if gone in self.escapes:
            self.escapes.discard(gone)
            self.escapes.add(kept)
        if gone in self.axes:
            self.axes.setdefault(kept, self.axes.pop(gone))
        if gone in self.softmaxes:
            self.softmaxes.discard(gone)
            self.softmaxes.add(kept)
        self.rule.pop(gone, None)
        self.rule[kept] = rule
        return kept

    def _plain(self, group: int, kind: str = "elementwise") -> bool:
        return group not in self.rule and self.units[group].kind == kind

    def _elements(self, group: int) -> int | None:
        """Elements of what the last node of a group makes, views left aside."""
        return self.units[self.last[group]].elements

    def _given(self, group: int) -> Iterator[Tensor]:
        for tensor in self.units[group].op.inputs:
            if tensor is not None and not tensor.constant:
                yield tensor

    # --- the rules --------------------------------------------------------------------------

    def _normalisation(self, unit: int) -> None:
        op = self.units[unit].op
        source = op.inputs[0] if op.inputs else None
        if not op.attributes.get("keepdims", 1) or source is None or not source.elements:
            return
        full, reduced = source.elements, self.units[unit].elements
        axes = _axes(op)
        group = unit
        self.axes[group] = axes
        for before in list(self.before[group]):
            if self._plain(before) and self._into_consumer(before) == group and self._elements(before) == full:
                group = self._join(before, group, "reduction")
        producer = self._into_producer(group)
        if producer is not None and self.axes.get(producer) == axes is not None:
            group = self._join(producer, group, self.rule.get(producer, "reduction"))
        grown = True
        while grown:
            grown = False
            for after in sorted(self.after[group]):
                if group in self.escapes or not self._plain(after):
                    continue
                size = self.units[after].elements
                alone, last = self._into_producer(after) == group, self._into_consumer(group) == after
                if size == reduced != full:
                    joins, rule = alone, self.rule.get(group, "reduction")
                elif size == full and self._mixes(after, group, full):
                    joins, rule = alone or last, "normalisation"
                else:
                    # Scale and bias of a norm.
                    follows = size == full and self._elements(group) == full and alone and last
                    joins, rule = follows and self.rule.get(group) == "normalisation", "normalisation"
                if joins:
                    group = self._join(group, after, rule)
                    grown = True
                    break
        types = {self.nodes[at].op.op_type for at in self.members[group]}
        if {"Exp", "ReduceSum", "Div"} <= types:
            self.softmaxes.add(group)

    def _mixes(self, unit: int, group: int, full: int) -> bool:
        """Whether a unit brings what a group reduced back to what it was reduced from."""
        small = False
        for at in self.edges.reads[unit]:
            home = self.home[at]
            if home == group:
                small |= any(t is not None and t.elements != full for t in self.nodes[at].op.outputs)
            elif home not in self.before[group]:
                return False
        return small

    def _attention(self, softmax: int) -> None:
        group = softmax
        size = self._elements(group)
        scores = values = None
        while scores is None:
            found = None
            for before in sorted(self.before[group]):
                if self._into_consumer(before) == group and self._elements(before) == size:
                    if self._plain(before) or (self.rule.get(before) == "elementwise"):
                        found = before
                    elif self._multiplies(before):
                        scores = before
            if scores is not None or found is None:
                break
            group = self._join(found, group, self.rule.get(group, "reduction"))
        if scores is None:
            return
        tail = group
        while values is None:
            after = self._into_consumer(tail)
            if after is None:
                return
            if self._multiplies(after):
                values = after
            elif self._plain(after) and self._elements(after) == size and self._into_producer(after) == tail:
                group = tail = self._join(tail, after, self.rule.get(tail, "reduction"))
            else:
                return
        group = self._join(self._join(group, scores, "attention"), values, "attention")
        for before in sorted(self.before[group]):
            if self._into_consumer(before) == group and (
                self._plain(before, "transpose") or (self._plain(before) and sum(1 for _ in self._given(before)) == 1)
            ):
                group = self._join(before, group, "attention")
        for before in sorted(self.before[group]):
            if self._plain(before, "transpose") and self._into_consumer(before) == group:
                group = self._join(before, group, "attention")
        after = self._into_consumer(group)
        if after is not None and self._plain(after, "transpose"):
            self._join(group, after, "attention")

    def _multiplies(self, unit: int) -> bool:
        return (
            self._plain(unit, "product")
            and self.units[unit].op.op_type in _MATMULS
            and sum(1 for _ in self._given(unit)) >= 2
        )

    def _operand(self, unit: int) -> None:
        after = self._into_consumer(unit)
        if after is None or self.rule.get(after, "transpose") != "transpose":
            return
        types = {self.nodes[at].op.op_type for at in self.members[after]}
        if self.units[unit].kind == "pad":
            if types & CONVOLUTIONS:
                self._join(unit, after, "padding")
        elif types & _MATMULS and _by_strides(self.units[unit].op):
            self._join(unit, after, "transpose")

    def _epilogue(self, group: int, rule: str) -> None:
        """What follows a group element by element, as long as its branches meet again in one tensor."""
        residual = False
        size = self._elements(group)
        while size and group not in self.escapes:
            found = self._closed(group, size)
            if found is None:
                return
            region, given = found
            # One operand more than the product has: the residual of a skip connection, or a gate.
            if given and residual:
                return
            residual |= bool(given)
            if given > 1:
                return
            kept = self.rule.get(group)
            for unit in region:
                group = self._join(group, unit, rule if kept in (None, "transpose", "padding") else kept)

    def _closed(self, group: int, size: int) -> tuple[list[int], int] | None:
        """The fewest units behind a group of which only the last is read elsewhere, and what else they read.

        Returns:
            The units in order and the number of tensors that they read besides those of the group; None
            where there are none.
        """
        home, maker = self.home, self.maker
        region: list[int] = []
        waiting = sorted(self.after[group])
        while waiting and len(region) < _MAX_EPILOGUE:
            unit = waiting[0]
            # Each step but the last must stay inside.
            if not self._plain(unit) or self.units[unit].elements != size or (waiting[1:] and unit in self.escapes):
                return None
            region.append(unit)
            inside = {group, *region}
            waiting = sorted({after for one in inside for after in self.after[one]} - inside)
            open_ = [one for one in region if self.after[one] - inside or one in self.escapes]
            if len(open_) <= 1 and self.after[group] <= inside and (not open_ or open_[0] == unit):
                names = {t.name for one in region for t in self._given(one)}
                return region, sum(name not in maker or home[maker[name]] not in inside for name in names)
        return None

    def _elementwise(self, unit: int) -> None:
        group = self.home[unit]
        if self.rule.get(group, "elementwise") != "elementwise":
            return
        size = self.units[unit].elements
        for before in sorted(self.before[group]):
            if before not in self.before.get(group, ()) or self.rule.get(before, "elementwise") != "elementwise":
                continue
            if self.units[before].kind != "elementwise" or self._elements(before) != size or size is None:
                continue
            if self._into_consumer(before) == group or self._into_producer(group) == before:
                group = self._join(before, group, "elementwise")

    def _prologue(self, group: int) -> None:
        first = min(at for at in self.members[group] if at in self.units)
        source = next((t for t in self.units[first].op.inputs if t is not None), None)
        grown = source is not None
        while grown:
            grown = False
            for before in sorted(self.before[group]):
                if (
                    self.rule.get(before, "elementwise") == "elementwise"
                    and self.units[before].kind == "elementwise"
                    and self._into_consumer(before) == group
                    and source is not None
                    and self._elements(before) == source.elements
                ):
                    group = self._join(before, group, self.rule.get(group, "reduction"))
                    grown = True
                    break

    def _quantise(self, unit: int) -> None:
        before = self._into_producer(unit)
        if before is not None and self._into_consumer(before) == unit:
            self._join(before, unit, self.rule.get(before, "quantise"))

    # --- the result -------------------------------------------------------------------------

    def _made(self) -> list[Group]:
        """The groups in an order that they can run in: as early in the graph as their last input allows."""
        missing = {group: len(self.before[group]) for group in self.members}
        ready = [group for group, count in missing.items() if not count]
        heapq.heapify(ready)
        found: list[Group] = []
        outside = self._read_outside()
        while ready:
            group = heapq.heappop(ready)
            found.append(self._group(group, outside))
            for after in self.after[group]:
                missing[after] -= 1
                if not missing[after]:
                    heapq.heappush(ready, after)
        return found

    def _read_outside(self) -> set[str]:
        """Names of the tensors that are read by another group than the one that makes them, or needed at the end."""
        home, maker = self.home, self.maker
        outside = set(self.edges.needed)
        for own, node in zip(home, self.nodes, strict=True):
            for tensor in node.op.inputs:
                if tensor is not None and tensor.name in maker and home[maker[tensor.name]] != own:
                    outside.add(tensor.name)
        return outside

    def _group(self, group: int, outside: Collection[str]) -> Group:
        members = sorted(self.members[group])
        kind = self.units[group].kind
        nodes = tuple([self.nodes[at] for at in members])
        names = [tensor.name for node in nodes for tensor in node.op.outputs if tensor is not None]
        return Group(
            nodes=nodes,
            rule=self.rule.get(group, kind if kind in _FREE else ""),
            outputs=tuple([name for name in names if name in outside]),
            views=frozenset([self.nodes[at].name for at in members if at in self.views]),
        )


def _kind(op: Op) -> str:
    kind = op.op_type
    if kind in _ELEMENTWISE:
        # In training a batch norm gives out its statistics too.
        return "elementwise" if len(op.outputs) == 1 else "other"
    if kind in PRODUCTS:
        return "product"
    if kind in _REDUCTIONS:
        return "reduction"
    if kind in _SOFTMAX:
        return "softmax"
    if kind in _NORMS:
        return "norm"
    if kind in CONTROL:
        return "control"
    return {"Transpose": "transpose", "Pad": "pad"}.get(kind, "other")


def _axes(op: Op) -> object:
    """What a reduction reduces over, None where that is not known; negative axes count from the end."""
    source = op.inputs[0]
    if source is None or source.shape is None:
        return None
    given = op.inputs[1].value if len(op.inputs) > 1 and op.inputs[1] is not None else op.attributes.get("axes")
    if not isinstance(given, tuple) or not source.shape:
        return None
    return tuple(sorted(int(axis) % len(source.shape) for axis in given))


def _by_strides(op: Op) -> bool:
    """Whether a matrix product can read the transposed tensor where it is: its rows or columns stay contiguous."""
    order = op.attributes.get("perm")
    if order is None:
        return True
    return isinstance(order, tuple) and (len(order) - 1) in order[-2:]
