"""What became of the ONNX nodes that no layer of a TensorRT plan names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from trtprof.align._fates import settled_before_run
from trtprof.align._graph import SAME_VALUES, Key, present
from trtprof.align._plan_model import Model
from trtprof.align._plan_roles import in_order
from trtprof.align._plan_tensors import PlanTensors
from trtprof.base.op_kinds import CONTROL, PRODUCTS, VIEWS
from trtprof.base.plan_words import is_product, tokens
from trtprof.base.records import Node, NodeFate, PlanLayer, PlanTensor, Tensor

_READERS_JOB = frozenset({"DequantizeLinear", "Pad", "Expand", "Tile", "Slice", "Split", "Gather"})
"""Ops that a backend does while it reads, where it does them within another layer."""
_SCALES = frozenset({"BatchNormalization", "Mul", "Add", "Sub", "Div"})
_MOST_LAYERS = 16  # At most as many layers are kept in mind on one side of a node


class Leftovers:
    """Fates of the nodes that have no layer yet; nodes that a layer takes in on the way become its own.

    With ``names_only`` no layer takes in what none names, unless it lies between nodes of one layer or folds into
    weights. ``absorbed`` has by layer what it took in: a node, whether that is more than a guess, and why.
    """

    def __init__(
        self, layers: Sequence[PlanLayer], model: Model, tensors: PlanTensors, *, names_only: bool = False
    ) -> None:
        self.layers = layers
        self.model = model
        self.tensors = tensors
        self.absorbed: dict[int, list[tuple[Node, bool, str]]] = {}
        self.fates: dict[str, NodeFate] = {}
        self._up: dict[str, tuple[int, ...]] = {}
        self._down: dict[str, tuple[int, ...]] = {}
        self._classes: dict[str, tuple[Mapping[Key, int], dict[int, Node]]] = {}
        self._dead: set[str] = set()
        self._names_only = names_only
        self._rules = (
            self._before_run, self._of_shapes, self._control, self._same_result, self._between, self._view,
            *([self._folded] if names_only else [self._in_place, self._reordered, self._product, self._alike,
                                                 self._merged]),
        )  # fmt: skip
        self._opened = {
            node.graph.rpartition("/")[0] for node in model.nodes if node.graph and node.name in model.owners
        }

    def settle(self) -> dict[str, NodeFate]:
        """Give every node without a layer a fate."""
        left = [node for node in self.model.nodes if node.name not in self.model.owners]
        for node in reversed(left):
            if (
                not node.constant
                and all(after.name in self._dead for after in self.model.after[node.name])
                and not any(self._given_out(key) for key in self.model.makes[node.name])
            ):
                self._dead.add(node.name)
            self._down[node.name] = self._reached(self.model.after[node.name], self._down, nearest=min)
        for node in left:
            self._up[node.name] = self._reached(self.model.before[node.name], self._up, nearest=max)
            self._settle(node)
        # What hangs on nodes that follow it in the file, as those of a subgraph do.
        for node in reversed(left):
            if self.fates[node.name].fate == "lost":
                self._up[node.name] = self._reached(self.model.before[node.name], self._up, nearest=max)
                self._down[node.name] = self._reached(self.model.after[node.name], self._down, nearest=min)
                self._settle(node)
        return self.fates

    def _given_out(self, key: Key) -> bool:
        return key in self.model.outputs or bool(key.graph) or not self.model.outputs

    def _reached(
        self, neighbours: Iterable[Node], known: Mapping[str, tuple[int, ...]], nearest: Callable[[Iterable[int]], int]
    ) -> tuple[int, ...]:
        """The layers that own the nearest nodes with an owner on one side, a limited number of them."""
        found: set[int] = set()
        for node in neighbours:
            owners = self.model.owners.get(node.name)
            found.update(known.get(node.name, ()) if owners is None else owners)
        ordered = sorted(found)
        return tuple(ordered[:_MOST_LAYERS] if nearest is min else ordered[-_MOST_LAYERS:])

    def _settle(self, node: Node) -> None:
        for rule in self._rules:
            fate = rule(node)
            if fate is not None:
                self.fates[node.name] = fate
                return
        reason = "no name, tensor or neighbour leads from a layer to it"
        if self._names_only:
            reason = "no layer is named after it: it runs in none, or as a part of one"
        self.fates[node.name] = NodeFate(node=node.name, fate="lost", reason=reason)

    # --- rules, first come first served -------------------------------------------------------

    def _before_run(self, node: Node) -> NodeFate | None:
        if node.name in self._dead:
            return _eliminated(node, "its result is never read")
        return settled_before_run(self.model.graph, node, self.model.is_read)

    def _of_shapes(self, node: Node) -> NodeFate | None:
        if node.name not in self.model.shapes:
            return None
        return NodeFate(node=node.name, fate="folded", reason="shape arithmetic: known before the run, or on the host")

    def _control(self, node: Node) -> NodeFate | None:
        """A loop or branch whose body is compiled with the rest; the body of one that is a layer is part of it."""
        if node.op.op_type in CONTROL and node.name in self._opened:
            return _eliminated(node, "control flow: the nodes of its body have layers of their own")
        if node.graph:
            owner = node.graph.rpartition("/")[0]
            if layers := self.model.owners.get(owner):
                return self._take(node, layers, sure=True, why=f"a step of {owner!r}")
        return None

    def _same_result(self, node: Node) -> NodeFate | None:
        double = self._double(node, "same")
        return None if double is None else _eliminated(node, f"computed once, together with {double.name!r}")

    def _between(self, node: Node) -> NodeFate | None:
        """A node all of whose neighbours are in one layer is in it, too."""
        up, down = self._up[node.name], self._down[node.name]
        common = [index for index in up if index in down]
        if not common:
            return None
        owners = [
            *(
                self.model.owners.get(other.name, self._up.get(other.name, ()))
                for other in self.model.before[node.name]
            ),
            *(self.model.owners.get(other.name, self._down.get(other.name, ())) for other in self._readers(node)),
        ]
        inside = [index for index in common if all(index in own for own in owners)]
        if inside:
            return self._take(node, inside[-1:], sure=True, why="it lies between nodes of the layer")
        if self._names_only or node.op.op_type in VIEWS or self.tensors.written_in_parts(node, self._up[node.name]):
            return None
        return self._take(node, common[-1:], sure=False, why="the layer computes nodes before and after it")

    def _view(self, node: Node) -> NodeFate | None:
        op = node.op
        if op.op_type in SAME_VALUES:
            return _eliminated(node, "it changes nothing in an inference")
        source, target = _ends(node)
        if op.op_type == "Cast" and source is not None and target is not None and source.dtype == target.dtype:
            return _eliminated(node, f"it casts {source.dtype} to {target.dtype}")
        if op.op_type in VIEWS or _keeps_order(node):
            return _eliminated(node, "a view: its readers see the same elements with other dimensions")
        return None

    def _in_place(self, node: Node) -> NodeFate | None:
        """Parts of a tensor that their makers write, or their readers read, where they lie in the whole."""
        if tensor := self.tensors.written_in_parts(node, self._up[node.name]):
            return _eliminated(node, f"nothing is copied: its inputs are written side by side into {tensor!r}")
        if node.op.op_type in ("Split", "Slice", "Gather"):
            for made, read in self._borders(node):
                if made.elements is not None and read.elements is not None and read.elements < made.elements:
                    return _eliminated(node, f"nothing is copied: its readers read their part of {made.name!r}")
        return None

    def _reordered(self, node: Node) -> NodeFate | None:
        """A Transpose or Cast that the layer before does while it writes, or the layer behind while it reads."""
        op_type = node.op.op_type
        if op_type not in ("Transpose", "Cast"):
            return None
        maker, readers = self._up[node.name][-1:], self._down[node.name]
        for made, read in self._borders(node):
            if op_type == "Cast":
                source, target = _ends(node)
                if target is not None and made.dtype == target.dtype:
                    return self._take(node, maker, sure=True, why=f"the layer writes {made.dtype}")
                if source is not None and made.dtype == source.dtype:
                    return self._take(node, readers, sure=True, why=f"the layer reads {read.dtype}")
            elif in_order(made) is False:
                why = f"the strides of {made.name!r}, which it writes, are in the order asked for"
                return self._take(node, maker, sure=True, why=why)
            elif in_order(read) is False:
                why = f"it reads {read.name!r} with strides in the order asked for"
                return self._take(node, readers, sure=True, why=why)
        return None

    def _product(self, node: Node) -> NodeFate | None:
        """A product beside a layer that multiplies what no node of it says."""
        if node.op.op_type in PRODUCTS:
            for index in (*self._down[node.name], *reversed(self._up[node.name])):
                by_name = self.model.graph.by_name
                if is_product(self.layers[index]) and not any(
                    by_name[name].op.op_type in PRODUCTS for name in self.model.parts[index]
                ):
                    return self._take(node, [index], sure=False, why="the layer multiplies, and none of its nodes does")
        return None

    def _alike(self, node: Node) -> NodeFate | None:
        """A node that reads what another one reads, with weights alike: taken for the same, or done side by side."""
        double = self._double(node, "fills alike")
        if double is not None:
            return _eliminated(node, f"taken for the same as {double.name!r}: all but the values of fills is the same")
        double = self._double(node, "alike")
        if double is None:
            return None
        own = sum(tensor.elements or 0 for one in (node, double) for tensor in present(one.op.outputs))
        for index in self.model.owners[double.name]:
            written = sum(tensor.elements or 0 for tensor in self.layers[index].outputs)
            if own and written >= own:
                return self._take(node, [index], sure=False, why=f"the layer writes as much as it and {double.name!r}")
        return None

    def _double(self, node: Node, how: str) -> Node | None:
        """A node with an owner that makes the same from the same."""
        if node.op.op_type in VIEWS:
            return None
        if how not in self._classes:
            classes = self.model.graph.classes(strict=how != "alike", fills_alike=how == "fills alike")
            owned: dict[int, Node] = {}
            for other in self.model.nodes:
                if other.name in self.model.owners:
                    for key in self.model.makes[other.name]:
                        owned.setdefault(classes[key], other)
            self._classes[how] = classes, owned
        found, first = self._classes[how]
        return next((first[one] for key in self.model.makes[node.name] if (one := found[key]) in first), None)

    def _folded(self, node: Node) -> NodeFate | None:
        """A normalisation by constants behind a product: the weights of the product take it in."""
        makers = self.model.before[node.name]
        if node.op.op_type != "BatchNormalization" or len(makers) != 1 or makers[0].op.op_type not in PRODUCTS:
            return None
        owners = self.model.owners.get(makers[0].name, ())
        return (
            self._take(node, owners[-1:], sure=True, why="it folds into the weights of the layer") if owners else None
        )

    def _merged(self, node: Node) -> NodeFate | None:
        """The layer before it or behind it, whichever does such work."""
        up, down = self._up[node.name], self._down[node.name]
        if not up and not down:
            return None
        op_type = node.op.op_type
        if op_type in PRODUCTS and not (up and is_product(self.layers[up[-1]])):
            able = [index for index in (*down, *reversed(up)) if is_product(self.layers[index])]
            if able:
                return self._take(node, able[:1], sure=False, why="the layer multiplies")
        if (named := self._spelled(op_type, up[-1:])) or (named := self._spelled(op_type, down)):
            return self._take(node, named[:1], sure=False, why=f"the name of the layer tells of a {op_type}")
        if op_type in _READERS_JOB and down:
            return self._take(node, down, sure=False, why="a layer can do it while it reads")
        if not up:
            return self._take(node, down[:1], sure=False, why="no layer comes before this one that reads its result")
        why = "a layer can do it on its results"
        if op_type in _SCALES and any(other.op.op_type in PRODUCTS for other in self.model.before[node.name]):
            why = "it folds into the weights of the layer"
        return self._take(node, up[-1:], sure=False, why=why)

    def _spelled(self, op_type: str, layers: Sequence[int]) -> list[int]:
        """Those of the layers whose Myelin name holds an op, in four letters or in three."""
        words = {op_type[:4].capitalize(), op_type[:3].capitalize()}
        return [index for index in layers if not words.isdisjoint(tokens(self.layers[index]))]

    # --- what the rules stand on --------------------------------------------------------------

    def _readers(self, node: Node) -> list[Node]:
        """The nodes behind it that do more than ask for its shape."""
        return [
            other
            for other in self.model.after[node.name]
            if other.name not in self.model.shapes and other.name not in self._dead
        ]

    def _borders(self, node: Node) -> list[tuple[PlanTensor, PlanTensor]]:
        """Tensors of the plan between the layers before and behind a node: as written, and as read."""
        read = {
            tensor.name: tensor for index in reversed(self._down[node.name]) for tensor in self.layers[index].inputs
        }
        made = {tensor.name: tensor for index in self._up[node.name] for tensor in self.layers[index].outputs}
        return [(made[name], read[name]) for name in made if name in read]

    def _take(self, node: Node, layers: Sequence[int], *, sure: bool, why: str) -> NodeFate:
        for index in layers:
            self.model.claim(node, index)
            self.absorbed.setdefault(index, []).append((node, sure, why))
        names = tuple(self.layers[index].name for index in self.model.owners[node.name])
        return NodeFate(node=node.name, fate="layer", layers=names, reason=why if sure else f"inferred: {why}")


def _eliminated(node: Node, reason: str) -> NodeFate:
    return NodeFate(node=node.name, fate="eliminated", reason=reason)


def _ends(node: Node) -> tuple[Tensor | None, Tensor | None]:
    """The first tensor that a node reads and the first that it makes."""
    return next(present(node.op.inputs), None), next(present(node.op.outputs), None)


def _keeps_order(node: Node) -> bool:
    """Whether a Transpose moves nothing but dimensions of one element."""
    source, _ = _ends(node)
    order = node.op.attributes.get("perm")
    if node.op.op_type != "Transpose" or source is None or source.shape is None:
        return False
    if not isinstance(order, tuple):
        order = tuple(reversed(range(len(source.shape))))
    if len(order) != len(source.shape):
        return False
    wide = [axis for axis in order if isinstance(axis, int) and 0 <= axis < len(order) and source.shape[axis] != 1]
    return wide == sorted(wide)
