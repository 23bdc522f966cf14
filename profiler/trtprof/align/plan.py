"""Layers of a TensorRT plan led back to ONNX nodes, many to many, with a confidence and a reason.

Evidence in this order: metadata; the name; tensors that are ONNX tensors under their own names; the nodes of the layers
before and behind. A name such as ``y.1_15_myl0`` is no such tensor: Myelin calls copies of what a node reads after what
it makes. Where a plan has nothing but names (`Plan.names_only`), a layer computes what its name tells and no more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from trtprof.align._graph import Key, present
from trtprof.align._plan_fates import Leftovers
from trtprof.align._plan_lookup import Lookup, Named
from trtprof.align._plan_model import FILLERS, Model
from trtprof.align._plan_roles import fills, is_copy, only_moves, own_role
from trtprof.align._plan_tensors import PlanTensors
from trtprof.base.op_kinds import MOVERS, PRODUCTS, VIEWS
from trtprof.base.plan_words import change, is_product, tokens
from trtprof.base.records import MatchConfidence, MatchedLayer, Node, NodeFate, Plan, PlanLayer, PlanRole
from trtprof.base.units import format_names

_MOST_NODES = 2000  # Layers of more nodes than this say nothing about a layer beside them


def match_plan(
    nodes: Sequence[Node], plan: Plan, *, outputs: Collection[str] = (), added: Collection[str] = ()
) -> tuple[tuple[MatchedLayer, ...], tuple[NodeFate, ...]]:
    """The layers with their nodes, and one fate a node, in the orders given; ``nodes`` are empty without a model.

    A node's fate is ``layer`` exactly when it stands in `MatchedLayer.nodes` of the layers that it names.
    """
    if not nodes:
        return tuple(_without_model(layer, frozenset(added)) for layer in plan.layers), ()
    return _Matcher(nodes, plan, outputs, added).run()


def _without_model(layer: PlanLayer, added: Collection[str]) -> MatchedLayer:
    role, why = own_role(layer)
    own = tuple(name for name in layer.onnx_nodes if name not in added)
    put_in = tuple(name for name in layer.onnx_nodes if name in added)
    match: MatchConfidence = "none"
    if role == "compute" and not own and (put_in or only_moves(layer) or is_copy(layer)):
        role = "layout"
    if own:
        match = "inferred"
        why = "its name gives the first and the last of them" if layer.onnx_range else _source(layer)
        why += "; no model was given to look them up in"
    elif role == "layout":
        match, why = ("exact" if layer.serves or put_in else "inferred"), _moves(layer, layer.serves)
    elif role != "compute":
        match = "exact"
    else:
        why = "it names no nodes, and no model was given"
    return MatchedLayer(layer=layer, role=role, nodes=own, added=put_in, match=match, reason=why)


class _Matcher:
    def __init__(self, nodes: Sequence[Node], plan: Plan, outputs: Collection[str], added: Collection[str]) -> None:
        self.layers = plan.layers
        self.names_only = plan.names_only
        self.lookup = Lookup(nodes, plan.layers, added)
        self.model = Model(nodes, plan, outputs)
        self.named: list[Named] = [self.lookup.of_layer(layer) for layer in plan.layers]
        own = [own_role(layer) for layer in plan.layers]
        self.roles: list[PlanRole] = [role for role, _ in own]
        self.verdicts: list[tuple[MatchConfidence, str]] = [("none", why) for _, why in own]
        self.found: list[Collection[str]] = [()] * len(plan.layers)
        self.tensors = PlanTensors(plan.layers, [i for i in range(len(plan.layers)) if self._copies(i)], self.model)
        # Layers that cannot be told apart get all the nodes of their group: large groups would take no end.
        self.shares = 100 * (len(nodes) + len(plan.layers)) + 100_000
        self.crowded: dict[str, str] = {}
        self.given_out = {*outputs, *(binding.name for binding in plan.bindings if binding.mode == "output")}

    def run(self) -> tuple[tuple[MatchedLayer, ...], tuple[NodeFate, ...]]:
        for index, layer in enumerate(self.layers):
            if self.named[index].nodes:
                named = self.named[index]
                for node in named.nodes:
                    self.model.claim(node, index)
                words = _source(layer)
                if named.guessed:
                    self.verdicts[index] = "inferred", f"{words}, though not literally: {_list(named.guessed)}"
                elif layer.nodes_from == "name" and (tokens(layer) or layer.kind.islower()):
                    self.verdicts[index] = "inferred", f"{words}, and Myelin calls a layer after one node of several"
                else:
                    self.verdicts[index] = "exact", words
        for index, layer in enumerate(self.layers):
            if layer.onnx_range or self._nameless(index):
                self._take_between_tensors(index, layer)
        for group in () if self.names_only else self._groups():
            self._take_between_layers(group)
        for index in range(len(self.layers)):
            if self._nameless(index) and fills(self.layers[index]):
                self._take_filled(index)
        left = Leftovers(self.layers, self.model, self.tensors, names_only=self.names_only)
        fates = left.settle()
        matched = tuple(self._finished(index, left) for index in range(len(self.layers)))
        return matched, tuple(self._fate(node, fates) for node in self.model.nodes)

    def _copies(self, index: int) -> bool:
        """Whether a layer leaves the values of its one tensor as they are."""
        layer = self.layers[index]
        if len(layer.inputs) != 1 or len(layer.outputs) != 1 or self.named[index].nodes:
            return False
        if self.roles[index] == "compute" and not (only_moves(layer) or is_copy(layer)):
            return False
        if layer.inputs[0].name == layer.outputs[0].name:
            return False
        read, written = layer.inputs[0].dims, layer.outputs[0].dims
        return read is None or written is None or read == written

    def _nameless(self, index: int) -> bool:
        """Whether a layer that may do the work of nodes has none yet."""
        return self.roles[index] == "compute" and not self.model.parts[index] and not self._casts_only(index)

    def _casts_only(self, index: int) -> bool:
        """Whether all that a layer is known to do was put in by a conversion."""
        named = self.named[index]
        return bool(named.added) and not named.unknown

    # --- what the plan says itself --------------------------------------------------------------

    # --- what lies between tensors that both know -------------------------------------------------

    def _take_between_tensors(self, index: int, layer: PlanLayer) -> None:
        holds = self.tensors.holds
        borders = {holds[tensor.name] for tensor in layer.inputs if tensor.name in holds}
        made = [holds[tensor.name] for tensor in layer.outputs if tensor.name in holds]
        borders.difference_update(made)
        graph = self.model.graph
        ends = [graph.producer[key] for key in made if key in graph.producer]
        certain = bool(ends) and len(made) == len(layer.outputs)
        ends = [node for node in ends if not node.constant and self.model.owners.get(node.name, [index]) == [index]]
        if layer.onnx_range:
            ends += self.named[index].nodes
        if not ends:
            return
        region = self.model.region(index, ends, borders)
        if not (layer.onnx_range or region.closed):
            return
        nodes = region.nodes if region.closed else self._behind(region.nodes, self.named[index].nodes, borders)
        for node in nodes:
            self.model.claim(node, index)
        closed = region.closed and certain
        if layer.onnx_range:
            why = "everything between the ends that it names, and between its tensors"
        else:
            why = "its tensors are the borders of these nodes"
        if not closed:
            why += ", not all of which are known"
        self.verdicts[index] = ("exact" if closed else "inferred"), why

    def _behind(self, nodes: Sequence[Node], ends: Sequence[Node], borders: set[Key]) -> list[Node]:
        """Of nodes in graph order those that depend on the first end or on a border, and the ends themselves."""
        starts = {node.name for node in ends[:1] if len(ends) > 1}
        starts.update(node.name for node in nodes if not borders.isdisjoint(self.model.reads[node.name]))
        if not starts:
            return list(nodes)
        kept = {node.name for node in ends} | starts
        for node in nodes:
            if any(before.name in kept and before.name != node.name for before in self.model.before[node.name]):
                kept.add(node.name)
        return [node for node in nodes if node.name in kept]

    # --- what lies between the nodes of the layers around -----------------------------------------

    def _groups(self) -> list[list[int]]:
        """Layers without nodes, those together that pass on tensors to one another."""
        nameless = [index for index in range(len(self.layers)) if self._nameless(index)]
        inside = set(nameless)
        leader = {index: index for index in nameless}

        def lead(index: int) -> int:
            while leader[index] != index:
                leader[index] = leader[leader[index]]
                index = leader[index]
            return index

        for name, makers in self.tensors.makers.items():
            own = [index for index in makers if index in inside and not self._apart(index)]
            if own:
                readers = self.tensors.readers.get(name, ())
                for index in (*own, *(one for one in readers if one in inside and not self._apart(one))):
                    leader[lead(index)] = lead(own[0])
        groups: dict[int, list[int]] = defaultdict(list)
        for index in nameless:
            groups[lead(index)].append(index)
        return list(groups.values())

    def _apart(self, index: int) -> bool:
        """Whether a layer is looked at alone: one that only moves something."""
        return only_moves(self.layers[index]) or is_copy(self.layers[index])

    def _take_between_layers(self, group: Sequence[int]) -> None:
        own = set(group)
        moves = self._apart(group[0])
        feeding = self._nodes_of(other for index in group for other in self.tensors.feeding(index) if other not in own)
        served = self._nodes_of(other for index in group for other in self.tensors.served(index) if other not in own)
        between = self._between(group, feeding, served, moves=moves)
        work = [node for node in between if node.op.op_type not in VIEWS]
        if moves:
            work = [node for node in work if node.op.op_type in MOVERS]
        if work:
            self._share_out(group, work if moves else between)
        elif not moves:
            for index in group:
                self._take_step(index, feeding, served)

    def _share_out(self, group: Sequence[int], nodes: Sequence[Node]) -> None:
        """Give the nodes between its neighbours to the layers of a group: products to those that multiply."""
        words = "it lies" if len(nodes) == 1 else "they lie"
        why = f"{words} between the nodes of the layers before and behind"
        if len(group) == 1:
            self._infer(group[0], nodes, why)
            return
        multiplying = [index for index in group if is_product(self.layers[index])]
        products = [node for node in nodes if node.op.op_type in PRODUCTS]
        others = [node for node in nodes if node.op.op_type not in PRODUCTS]
        own = self._pair(multiplying, products)
        why += f"; one of {len(group)} layers that compute them"
        if own and len(multiplying) == len(group):
            # What follows a product is its epilogue.
            place = {node.name: index for index, (node, *_) in own.items()}
            for node in others:
                near = next((place[one.name] for one in self.model.before[node.name] if one.name in place), None)
                if near is not None:
                    place[node.name] = near
                    own[near].append(node)
            others = [node for node in others if node.name not in place]
        rest = others if own else nodes
        self.shares -= len(group) * len(rest)
        if self.shares < 0:
            crowd = f"one of {len(nodes)} nodes that {len(group)} layers compute, too many to tell apart"
            self.crowded.update((node.name, crowd) for node in nodes)
        for index in group:
            if self.shares < 0:
                self.verdicts[index] = "none", f"one of {len(group)} layers that compute {len(nodes)} nodes together"
            elif part := [*own.get(index, ()), *rest]:
                self._infer(index, part, why)

    def _pair(self, layers: Sequence[int], products: Sequence[Node]) -> dict[int, list[Node]]:
        """Layer -> its product, where there are as many of the one as of the other; those of one size in order."""
        if len(layers) != len(products):
            return {}
        waiting: dict[int | None, list[Node]] = defaultdict(list)
        for node in reversed(products):
            waiting[next((one.elements for one in present(node.op.outputs)), None)].append(node)
        pairs: dict[int, list[Node]] = {}
        for index in layers:
            same = waiting[next((one.elements for one in self.layers[index].outputs), None)]
            if not same:
                return {}
            pairs[index] = [same.pop()]
        return pairs

    def _nodes_of(self, layers: Iterable[int]) -> dict[str, Node]:
        """The nodes of layers beside a group, those of very large ones left out."""
        found: dict[str, Node] = {}
        for index in layers:
            names = self.model.parts[index]
            self.model.steps -= len(names)
            if len(names) <= _MOST_NODES and self.model.steps > 0:
                found.update((name, self.lookup.by_name[name]) for name in names)
        return found

    def _between(
        self, group: Sequence[int], feeding: dict[str, Node], served: dict[str, Node], *, moves: bool
    ) -> list[Node]:
        """Nodes without a layer on the way from what feeds a group to what it serves."""
        model, holds = self.model, self.tensors.holds
        inputs = [tensor.name for index in group for tensor in self.layers[index].inputs]
        outputs = [tensor.name for index in group for tensor in self.layers[index].outputs]
        read = {holds[name] for name in inputs if name in holds}
        made = {holds[name] for name in outputs if name in holds}
        ends = [model.graph.producer[key] for key in made - read if key in model.graph.producer]
        parted = any(len(self.tensors.makers[name]) > 1 for name in outputs) and not moves
        for node in served.values():
            for before in model.before[node.name]:
                # Behind a part of a tensor is the Concat of all parts.
                ends += model.before[before.name] if parted and before.op.op_type == "Concat" else [before]
        ends = [node for node in ends if node.name not in model.owners and node.name not in model.shapes]
        if not ends or not inputs:
            return []
        kept: dict[str, Node] = {}
        entered = set(feeding)
        for node in model.region(group[0], ends, read).nodes:
            makers = model.before[node.name]
            if (
                not (feeding or read)
                or any(key in read for key in model.reads[node.name])
                or any(maker.name in entered for maker in makers)
            ):
                entered.add(node.name)
                owners = (index for maker in makers for index in model.owners.get(maker.name, ()))
                if moves or not self.tensors.written_in_parts(node, owners):
                    kept[node.name] = node
        return list(kept.values())

    def _take_step(self, index: int, feeding: dict[str, Node], served: dict[str, Node]) -> None:
        """A layer between which and its neighbours no node is left: a step of one that they compute, too."""
        layer = self.layers[index]
        beside = [name for name in feeding if name in served and feeding[name].op.op_type not in VIEWS]
        # The node that the internal tensors of a layer, or the layer itself, are called after.
        names = [layer.name, *(tensor.name for tensor in (*layer.outputs, *layer.inputs, *layer.constants))]
        nodes = (self.lookup.near(name) for name in names)
        hint = next((node for node in nodes if node is not None and not node.constant), None)
        if hint is not None and (not beside or hint.name in beside):
            words = "tensors of the layer are called after it"
            self._infer(index, [hint], f"a step of {hint.name!r}: {words}")
            return
        if not beside:
            for side in (served, feeding):
                beside = [name for name, node in side.items() if node.op.op_type not in VIEWS and not node.constant]
                if len(beside) == 1:
                    break
        if len(beside) == 1:
            node = self.lookup.by_name[beside[0]]
            self._infer(index, [node], f"a step of {node.name!r}, which layers beside it compute")
        elif not layer.inputs and not layer.outputs:
            self.verdicts[index] = "none", "it names neither nodes nor tensors"
        else:
            self.verdicts[index] = "none", "neither its names nor its neighbours lead to one node"

    def _infer(self, index: int, nodes: Iterable[Node], why: str) -> None:
        for node in nodes:
            self.model.claim(node, index)
        self.verdicts[index] = "inferred", why

    # --- constants that are made in every run -----------------------------------------------------

    def _take_filled(self, index: int) -> None:
        """A layer that writes weights: the model fills them from a scalar, and the engine does so in every run."""
        sizes = [sorted(tensor.dims or ()) for tensor in self.layers[index].outputs]
        found: dict[str, Node] = {}
        for reader in self.tensors.served(index):
            for name in list(self.model.parts[reader])[:_MOST_NODES]:
                for maker in self._constant_makers(self.lookup.by_name[name]):
                    shape = next((tensor.shape for tensor in present(maker.op.outputs)), None)
                    if shape is not None and sorted(map(str, shape)) in [sorted(map(str, one)) for one in sizes]:
                        found[maker.name] = maker
        if found:
            self._infer(index, found.values(), "it writes weights of the layer behind, filled from a scalar")

    def _constant_makers(self, node: Node) -> list[Node]:
        """Nodes that fill a constant input of a node, a few steps upstream of it."""
        found = []
        stack = [(key, 0) for key in self._constants(node)]
        while stack:
            key, steps = stack.pop()
            maker = self.model.graph.producer.get(key)
            if maker is None or not maker.constant:
                continue
            if maker.op.op_type in FILLERS:
                found.append(maker)
            elif steps < 4:
                stack += [(other, steps + 1) for other in self._constants(maker)]
        return found

    def _constants(self, node: Node) -> list[Key]:
        keys = self.model.graph.inputs(node)
        return [key for tensor, key in zip(present(node.op.inputs), keys, strict=True) if tensor.constant]

    # --- results ----------------------------------------------------------------------------------

    def _finished(self, index: int, left: Leftovers) -> MatchedLayer:
        layer, model, named = self.layers[index], self.model, self.named[index]
        names = sorted(model.parts[index], key=model.position.__getitem__)
        profile = layer.profile
        shared = tuple(
            [
                name
                for name in names
                if len(model.owners[name]) > 1
                and sum(self.layers[one].profile == profile for one in model.owners[name]) > 1
            ]
        )
        match, why = self.verdicts[index]
        role = self._role(index, names, shared)
        if role == "layout" and not names:
            match, why = self._made_for(index)
        elif role in ("sync", "shape", "idle") and not names:
            match = "exact"
        notes = [why] if why else []
        if taken := left.absorbed.get(index, ()):
            if not notes:
                notes, match = [f"nothing names its nodes: {taken[0][2]}"], "inferred"
            for sure, words in ((True, "and"), (False, "perhaps")):
                more = [node.name for node, certain, _ in taken if certain == sure]
                if more and why:
                    notes.append(f"{words} {_list(more)}, which no layer names")
            if match == "exact" and any(not sure and node.op.op_type not in MOVERS for node, sure, _ in taken):
                match = "inferred"
        if named.unknown:
            notes.append(f"the model has no {_list(named.unknown)}: another model, or put in by the parser")
        if not notes and role == "compute":
            notes.append("neither its names nor its tensors occur in the model")
        return MatchedLayer(
            layer=layer, role=role, nodes=tuple(names), shared=shared, added=named.added, match=match,
            reason="; ".join(notes),
        )  # fmt: skip

    def _role(self, index: int, names: Sequence[str], shared: Collection[str]) -> PlanRole:
        role, layer = self.roles[index], self.layers[index]
        if role != "compute":
            return role
        if not names:
            return "layout" if self._casts_only(index) or self._apart(index) else role
        # It brings a tensor into shape for a node that other layers compute: casts it, pads its channels.
        brings = only_moves(layer) and len(shared) == len(names)
        if brings and MOVERS.isdisjoint([self.lookup.by_name[name].op.op_type for name in names]):
            return "layout"
        return role

    def _made_for(self, index: int) -> tuple[MatchConfidence, str]:
        """What a layout layer is made for, in words."""
        layer = self.layers[index]
        if layer.serves:
            return "exact", _moves(layer, layer.serves)
        output = next((tensor.name for tensor in layer.outputs if tensor.name in self.given_out), "")
        if output:
            return "exact", _moves(layer, f"the output {output!r}")
        for other in self.tensors.served(index):
            node = next(iter(self.model.parts[other]), "")
            return "exact", _moves(layer, node or self.layers[other].name)
        return "inferred", _moves(layer, "")

    def _fate(self, node: Node, fates: dict[str, NodeFate]) -> NodeFate:
        owners = self.model.owners.get(node.name)
        if owners is None:
            fate = fates[node.name]
            if fate.fate == "lost" and node.name in self.crowded:
                return NodeFate(node=node.name, fate="lost", reason=self.crowded[node.name])
            return fate
        reason = fates[node.name].reason if node.name in fates else ""
        layers = tuple([self.layers[index].name for index in sorted(owners)])
        return NodeFate(node=node.name, fate="layer", layers=layers, reason=reason)


def _moves(layer: PlanLayer, serves: str) -> str:
    """What a layout layer does with its tensor, and for whom."""
    done = change(layer)
    first = next(iter((*layer.inputs, *layer.constants)), None)
    tensor = "fills a tensor" if first is None else f"brings {first.name!r}"
    text = tensor if done == "unknown" else f"{tensor}: {done}"
    return f"{text}, for {serves}" if serves else text


def _source(layer: PlanLayer) -> str:
    """How the plan tells the nodes of a layer, in words."""
    return "its metadata names them" if layer.nodes_from == "metadata" else "its name spells them out"


def _list(names: Sequence[str]) -> str:
    """Names in quotes, a few of them."""
    return format_names([repr(name) for name in names])
