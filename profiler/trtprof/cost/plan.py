"""The work of the layers of a TensorRT plan, at the dtypes that its tensors have in the engine.

Bytes are those of the plan's own tensors, each distinct one once, weights too. Arithmetic is that of the ONNX nodes
that a layer computes, by the conventions of `trtprof.cost`; the plan alone tells no more than products.

* A tensor that a layer lists twice is read in two parts, unless that is more than all of it.
* What an op reads only in part (an embedding) counts with that part, in the layer too.
* TensorRT up to 10 lists no weights of what Myelin compiles: they are those of the model, at the dtype of the
  activations, and are read by the layers that use them.
* The products and the other arithmetic of a node that several layers compute go to the layers that do them
  (`_plan_shares`), so that the sum over the layers, each times its runs, is that of the nodes which they compute.
  What the engine computes again in a second layer counts once, channels that it pads are not multiplied, what it
  folds into weights before the run counts nothing, and conversions by reformats of its own come on top.
* A layer multiplies what it reads as it is stored: `fp32` stays `fp32`, whatever unit TensorRT may take for it.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trtprof.base import units
from trtprof.base.op_kinds import OPERANDS
from trtprof.base.plan_words import LAUNCHING, REGIONS, is_product, is_reformat
from trtprof.base.records import Core, MatchedLayer, Op, PlanLayer, PlanTensor, Work, WorkBound
from trtprof.cost import Cost, CostError, Spare, cost_of, unsure_of
from trtprof.cost._core import joined_core
from trtprof.cost._plan_loops import runs
from trtprof.cost._plan_products import Product, Sides, operand_dtype, plan_product, sums_products, touched_share
from trtprof.cost._plan_shares import Owner, Part, Shares, shares
from trtprof.cost._plan_tensors import Bound, is_dynamic, model_names, roots_of, shapes_of
from trtprof.cost._recipes import ACTIVATIONS, NOTHING, Recipe, dequantize, quantize
from trtprof.cost.fused import combined, group_cost
from trtprof.cost.precision import product_dtype

_MEND = "build the engine with --minShapes, --optShapes and --maxShapes alike, or give the model and its --shapes"
_FACTORS = {"LSTM": (1, 2), "GRU": (1, 2), "RNN": (1, 2)}
"""Positions of the weights of ops that `op_kinds.OPERANDS` leaves out."""


class PlanCost(NamedTuple):
    """What a layer of a plan does and touches, in one of its runs."""

    work: Work | None  # None where not even its bytes are known, and ``reason`` says why
    # Bytes by tensor. Names are those of the plan, of a view that of the tensor it shows; weights that the plan does
    # not list are called after the ONNX tensor.
    reads: Mapping[str, int]
    writes: Mapping[str, int]  # Likewise
    constants: frozenset[str]  # Those of ``reads`` that are weights
    reason: str = ""  # Why ``work`` is None, or which part of it is not known
    runs: int = 1  # How often it runs in one inference: more than once in the loop of a recurrent op


def plan_costs(layers: Sequence[MatchedLayer], ops: Mapping[str, Op]) -> list[PlanCost]:
    """The cost of every layer of a whole plan, in execution order; ``ops`` by node name, with shapes, or empty."""
    return _Plan(layers, ops).costs()


class _Touched(NamedTuple):
    """What a layer moves; ``unknown`` says in words what is not known of it."""

    reads: dict[str, int]
    writes: dict[str, int]
    constants: frozenset[str]
    unknown: str = ""


class _Plan:
    def __init__(self, layers: Sequence[MatchedLayer], ops: Mapping[str, Op]):
        self.matched = layers
        self.ops = ops
        bound = Bound(layers, ops)
        self.layers: list[PlanLayer] = bound.layers
        self.guessed = bound.guessed
        self.runs = runs(self.layers)
        self.folded, self.kept = _folded(ops)
        self.roots = roots_of(layers, self.layers)
        self.fixed = frozenset(
            tensor.name for layer in self.layers if layer.kind == "Constant" for tensor in layer.outputs
        )
        self.lists_weights = any(
            layer.constants or any(tensor.strides is not None for tensor in layer.outputs) for layer in self.layers
        )
        self.prices: dict[str, Cost] = {}
        """Of every node that has one; those that are alike share one, so that the tensors in it may have the names
        of another node's."""
        self.alike: dict[tuple[object, ...], tuple[Cost | str, bool]] = {}
        """By `_key`: the cost or why there is none, and whether only a part of a tensor is read."""
        self.partial: set[str] = set()
        """Nodes that touch only a part of a tensor that they read."""
        self.unpriced: dict[str, str] = {}
        """Node -> why it has none."""
        launching = [one.role in LAUNCHING for one in layers]
        self.explicit = [found and is_product(one) for found, one in zip(launching, self.layers, strict=True)]
        self.sums = [found and sums_products(one) for found, one in zip(launching, self.layers, strict=True)]
        products: dict[Sides, Product | None] = {}
        self.products = [
            plan_product(layer, products) if explicit or sums else None
            for layer, explicit, sums in zip(self.layers, self.explicit, self.sums, strict=True)
        ]

    @functools.cached_property
    def model_constants(self) -> frozenset[str]:
        """Names of the constants of the model, where the plan has no list of its own."""
        if self.lists_weights:
            return frozenset()
        return frozenset(
            tensor.name for op in self.ops.values() for tensor in op.inputs if tensor is not None and tensor.constant
        )

    @functools.cached_property
    def narrow(self) -> str:
        """The float of 16 bits that most tensors of the plan have; empty where none has."""
        counts = Counter(
            tensor.dtype for layer in self.layers for tensor in (*layer.inputs, *layer.outputs, *layer.constants)
        )
        return max((dtype for dtype in ("fp16", "bf16") if counts[dtype]), key=counts.__getitem__, default="")

    @functools.cached_property
    def extents(self) -> Mapping[str, int]:
        """Root -> the largest size that it has in any layer."""
        found: dict[str, int] = {}
        for layer in self.layers:
            for tensor in (*layer.inputs, *layer.outputs):
                root = self.roots.get(tensor.name, tensor.name)
                found[root] = max(found.get(root, 0), tensor.nbytes or 0)
        return found

    @functools.cached_property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return shapes_of(self.ops.values())

    def costs(self) -> list[PlanCost]:
        """Bytes first: they settle who does the arithmetic of a node that several layers compute."""
        nodes = [self._running(one) if one.role in LAUNCHING else () for one in self.matched]
        for name in dict.fromkeys(name for names in nodes for name in names):
            self._price(name)
        touched = [self._touched(place, names) for place, names in enumerate(nodes)]
        parts = self._parts(nodes, touched)
        found = []
        for place, (names, moved) in enumerate(zip(nodes, touched, strict=True)):
            own = parts[self.layers[place].profile]
            found.append(self._cost(place, names, self._with_weights(place, names, moved, own), own))
        return found

    def _running(self, matched: MatchedLayer) -> tuple[str, ...]:
        """The nodes that a layer computes in every inference: those of constants alone are folded."""
        known = tuple([name for name in matched.nodes if name in self.ops])
        if self.folded.isdisjoint(known):
            return known
        return tuple([name for name in known if name not in self.folded]) or known

    def _price(self, name: str) -> None:
        op = self.ops[name]
        key = _key(op)
        found = self.alike.get(key)
        if found is None:
            try:
                cost = cost_of(op)
            except CostError as error:
                self.unpriced[name] = f"{op.op_type} has {error.kind}: {error}"
                return
            if cost is None:
                found = f"there is no cost function for {op.domain + '.' if op.domain else ''}{op.op_type}", False
            else:
                found = cost, any(moved.elements != moved.tensor.elements for moved in cost.reads)
            self.alike[key] = found
        price, partial = found
        if isinstance(price, str):
            self.unpriced[name] = price
            return
        self.prices[name] = price
        if partial:
            self.partial.add(name)

    # --- bytes ------------------------------------------------------------------------------

    def _touched(self, place: int, nodes: Sequence[str]) -> _Touched:
        layer = self.layers[place]
        if self.matched[place].role not in LAUNCHING:
            return _Touched({}, {}, frozenset())
        unknown: dict[str, None] = {}
        constants: dict[str, None] = {}
        reads = self._sizes((*layer.inputs, *layer.constants), unknown)
        writes = self._sizes(layer.outputs, unknown)
        for tensor in layer.constants:
            constants[tensor.name] = None
        for tensor in layer.inputs:
            if tensor.name in self.fixed or tensor.name in self.model_constants:
                constants[self.roots.get(tensor.name, tensor.name)] = None
        if not self.partial.isdisjoint(nodes):
            self._read_in_part(layer, nodes, reads)
        elif not nodes and layer.inputs and (first := layer.inputs[0]).nbytes and (share := touched_share(layer)) < 1:
            root = self.roots.get(first.name, first.name)
            reads[root] = min(reads[root], math.ceil(first.nbytes * share))
        for what, weights in (("weights", layer.weights), ("bias", layer.bias)):
            if weights is None or not weights.count:
                continue
            if weights.nbytes is None:
                unknown[f"the plan does not tell the dtype of its {what}"] = None
            name = f"{layer.name} {what}"
            reads[name] = weights.nbytes or 0
            constants[name] = None
        return _Touched(reads, writes, frozenset(constants), "; ".join(unknown))

    def _sizes(self, tensors: Sequence[PlanTensor], unknown: dict[str, None]) -> dict[str, int]:
        """Bytes by root; one that is listed twice is touched in parts."""
        sizes: dict[str, int] = {}
        for tensor in tensors:
            root = self.roots.get(tensor.name, tensor.name)
            size = tensor.nbytes
            if size is None:
                unknown[_why_unknown(tensor)] = None
                continue
            if root in sizes:
                size = max(sizes[root], size, min(sizes[root] + size, self._extent(root, tensor)))
            sizes[root] = size
        return sizes

    def _extent(self, root: str, tensor: PlanTensor) -> int:
        extent = self.extents.get(root, 0)
        shape = self._shape(root)
        if shape is not None and tensor.dtype in units.DTYPE_BITS:
            extent = max(extent, units.dtype_bytes(tensor.dtype, _product(shape)))
        return extent

    def _shape(self, name: str) -> tuple[int, ...] | None:
        """Of the tensor of the model that has just this name, or this one with a mark of Myelin's."""
        return next((self.shapes[one] for one in model_names(name) if one in self.shapes), None)

    def _read_in_part(self, layer: PlanLayer, nodes: Sequence[str], reads: dict[str, int]) -> None:
        """Tensors of which the nodes touch only a part: found by name, else as the only ones of their size."""
        group = group_cost([self.ops[name] for name in nodes if name in self.prices])
        if group is None:
            return
        open_ = {
            tensor.name: tensor
            for tensor in (*layer.inputs, *layer.constants)
            if tensor.elements and self.roots.get(tensor.name, tensor.name) in reads
        }
        for moved in group.reads:
            whole = moved.tensor.elements
            if whole is None:
                continue
            same = [tensor for tensor in open_.values() if _logical(tensor) == whole]
            called = [tensor for tensor in same if moved.tensor.name in model_names(tensor.name)]
            if moved.elements < whole and (called or len(same) == 1):
                tensor = (called or same)[0]
                root = self.roots.get(tensor.name, tensor.name)
                reads[root] = min(reads[root], units.dtype_bytes(tensor.dtype, moved.elements))
            for tensor in called[:1]:
                del open_[tensor.name]

    def _with_weights(self, place: int, nodes: Sequence[str], moved: _Touched, found: Shares) -> _Touched:
        """With the constants of the model that no tensor or weights of the layer stand for."""
        layer = self.layers[place]
        if self.lists_weights or not nodes or layer.weights is not None or layer.bias is not None:
            return moved
        listed = (*layer.inputs, *layer.constants)
        names = {name for tensor in listed for name in model_names(tensor.name)}
        sizes = {_logical(tensor) for tensor in listed if tensor.name in self.fixed}
        reads = dict(moved.reads)
        constants = set(moved.constants)
        for name in nodes:
            op = self.ops[name]
            price = cost_of(op) if name in self.prices else None
            for constant, elements in () if price is None else price.reads:
                kept = self.kept.get(constant.name, "")
                if (
                    not (constant.constant or constant.name in self.kept)
                    or elements <= 1
                    or constant.name in names
                    or constant.elements in sizes
                    or constant.dtype not in units.DTYPE_BITS
                ):
                    continue
                users = found.makers if _is_factor(op, constant.name) else found.doers
                if name in users and place not in users[name]:
                    continue
                size = units.dtype_bytes(kept or _stored(layer, constant.dtype), elements)
                reads[constant.name] = max(reads.get(constant.name, 0), size)
                constants.add(constant.name)
        return moved._replace(reads=reads, constants=frozenset(constants))

    # --- arithmetic -------------------------------------------------------------------------

    def _parts(self, nodes: Sequence[Sequence[str]], touched: Sequence[_Touched]) -> dict[int, Shares]:
        """By optimisation profile: an inference runs the layers of one of them."""
        owners: dict[int, dict[str, list[Owner]]] = {layer.profile: {} for layer in self.layers}
        for place, names in enumerate(nodes):
            if not names:
                continue
            layer, moved, product = self.layers[place], touched[place], self.products[place]
            times = self.runs[place] or 1
            written = sum(moved.writes.values())
            owner = Owner(
                place=place,
                layer=layer,
                explicit=self.explicit[place] or layer.kind in REGIONS,
                sums=self.sums[place],
                flops=0 if product is None else product.flops * times,
                moved=written + sum(moved.reads.values()),
                written=written * times,
                runs=times,
            )
            own = owners[layer.profile]
            for name in names:
                if name in self.prices:
                    own.setdefault(name, []).append(owner)
        return {
            profile: shares(self.prices, {name: self.ops[name].op_type for name in own}, own)
            for profile, own in owners.items()
        }

    def _cost(self, place: int, nodes: Sequence[str], moved: _Touched, found: Shares) -> PlanCost:
        matched, layer = self.matched[place], self.layers[place]
        times = self.runs[place]
        if matched.role not in LAUNCHING:
            return PlanCost(Work(), {}, {}, frozenset(), runs=times or 1)
        if not (layer.inputs or layer.outputs):
            return PlanCost(None, {}, {}, frozenset(), "nothing tells which tensors it reads and writes", times or 1)
        if moved.unknown:
            return PlanCost(None, moved.reads, moved.writes, moved.constants, moved.unknown, times or 1)
        notes: dict[str, None] = {}
        missing: dict[str, None] = {}
        bound: WorkBound = "exact"
        part = found.parts.get(place) or Part()
        for name in nodes:
            price = self.prices.get(name)
            if price is None:
                missing[self.unpriced[name]] = None
                continue
            if price.bound != bound:
                bound = combined(bound, price.bound)
            if price.note and not price.views:
                notes[price.note] = None
        product = self.products[place]
        if not nodes:
            part, lacking = self._without_model(matched, layer, product)
            if lacking:
                missing[lacking] = None
        elif times is not None and times > 1:
            part = _per_run(part, times)
        if layer.kind in REGIONS or (layer.onnx_range and matched.role == "compute"):
            bound = combined(bound, "lower")
            notes["several kernels: what they pass to one another is not counted"] = None
        if times is None:
            bound = combined(bound, "lower")
            notes["in a loop of unknown length: counted once"] = None
        elif times > 1:
            notes[f"one of {times} runs in a loop"] = None
        if self.guessed and any((tensor.name, tensor.dims) in self.guessed for tensor in _listed(matched.layer)):
            notes["dimensions that depend on the input taken as those of other tensors"] = None
        if missing:
            bound = combined(bound, "lower")
            notes.update(missing)
        dtype = _dtype(layer, product, multiplied=part.tensor_flops > 0)
        if dtype == "fp32" and matched.added:
            if self.narrow:
                dtype = self.narrow
            else:
                notes["the plan does not tell what its casts convert to: taken as fp32"] = None
        computes = Cost(part.tensor_flops, part.arithmetic).computes
        reads, writes = moved.reads, moved.writes
        work = Work(
            tensor_flops=part.tensor_flops,
            vector_flops=part.arithmetic.vector,
            special=dict(part.arithmetic.special),
            bytes_read=sum(reads.values()),
            bytes_written=sum(writes.values()),
            bytes_parameters=sum(reads[name] for name in moved.constants if name in reads),
            dtype=dtype if computes else "",
            bound=bound,
            note="; ".join(notes),
            fast_flops=part.fast_flops,
            unsure=unsure_of(part.spare, _spared_bytes(part.spare, reads, writes)),
            core=self._core(place, nodes, part.tensor_flops, found),
        )
        return PlanCost(work, reads, writes, moved.constants, "; ".join(missing), times or 1)

    def _core(self, place: int, nodes: Sequence[str], flops: int, found: Shares) -> Core | None:
        """That of its nodes, where it does all that they multiply; else what its own tensors tell."""
        costs = [self.prices[name] for name in nodes if name in self.prices]
        alone = found.makers.keys().isdisjoint(nodes)
        if (
            nodes
            and len(costs) == len(nodes)
            and flops == sum(cost.tensor_flops for cost in costs)
            and (flops or alone)
        ):
            written = sum(_logical(tensor) or 0 for tensor in self.layers[place].outputs)
            core = joined_core([self.ops[name] for name in nodes], costs, written)
            if core is not None:
                return core
        product = self.products[place]
        return None if product is None or not flops or flops % product.flops else product.core

    def _without_model(self, matched: MatchedLayer, layer: PlanLayer, product: Product | None) -> tuple[Part, str]:
        """What the plan alone tells, and what it does not."""
        why = "no ONNX node was found for it" if self.ops else "that takes the model"
        if is_reformat(matched):
            return Part(0, _conversion(layer)), ""
        if product is not None:
            return Part(product.flops, _epilogue(layer), product.fast_flops), f"only its products are known: {why}"
        pooled = _pooling(layer)
        if pooled is not None:
            return Part(0, pooled), ""
        return Part(), f"its arithmetic is not known: {why}"


def _key(op: Op) -> tuple[object, ...]:
    """What the price of an op depends on: all but the names of its tensors, of which only equal ones matter."""
    names: list[str] = []
    key: list[object] = [op.op_type, op.domain, op.opset, *op.attributes.items()]
    for tensor in (*op.inputs, None, *op.outputs):
        if tensor is None:
            key.append(None)
        else:
            key += (tensor.dtype, tensor.shape, tensor.constant, tensor.value, tensor.kind)
            names.append(tensor.name)
    if len(set(names)) < len(names):
        key.append(tuple([names.index(name) for name in names]))
    return tuple(key)


def _folded(ops: Mapping[str, Op]) -> tuple[frozenset[str], dict[str, str]]:
    """Nodes of constants alone, which are computed before the run.

    Returns:
        Their names, and what they make -> the dtype that it is kept as in an engine, ``""`` for that of its own: of a
            DequantizeLinear what it reads.
    """
    nodes: set[str] = set()
    made: dict[str, str] = {}
    for name, op in ops.items():
        given = [tensor for tensor in op.inputs if tensor is not None]
        if not given or not (given[0].constant or given[0].name in made):
            continue
        if all(tensor.constant or tensor.name in made for tensor in given):
            nodes.add(name)
            dtype = given[0].dtype if op.op_type == "DequantizeLinear" else made.get(given[0].name, "")
            made.update({tensor.name: dtype for tensor in op.outputs if tensor is not None})
    return frozenset(nodes), made


def _is_factor(op: Op, name: str) -> bool:
    positions = _FACTORS.get(op.op_type) or OPERANDS.get(op.op_type) or ()
    return any(at < len(op.inputs) and (one := op.inputs[at]) is not None and one.name == name for at in positions)


def _stored(layer: PlanLayer, dtype: str) -> str:
    """The dtype that a constant of the model has in the engine: that of the activations where it floats."""
    if not units.is_float(dtype):
        return dtype
    return next((one.dtype for one in (*layer.inputs, *layer.outputs) if _computes(one.dtype)), dtype)


def _listed(layer: PlanLayer) -> tuple[PlanTensor, ...]:
    return (*layer.inputs, *layer.outputs, *layer.constants)


def _product(dims: Sequence[int]) -> int:
    count = 1
    for dim in dims:
        count *= dim
    return count


def _logical(tensor: PlanTensor) -> int | None:
    return None if tensor.dims is None or is_dynamic(tensor) else _product(tensor.dims)


def _why_unknown(tensor: PlanTensor) -> str:
    """In words that are the same for all tensors, so that layers can be counted by them."""
    if tensor.dims is None:
        return "the plan does not tell the dimensions of its tensors"
    if is_dynamic(tensor):
        return f"its dimensions depend on the input: {_MEND}"
    return f"the plan does not tell the dtype of its tensors: {_MEND}"


def _computes(dtype: str) -> bool:
    """Whether it is one that activations have, and not that of indices or masks."""
    return units.is_float(dtype) or dtype in ("int8", "int4")


def _dtype(layer: PlanLayer, product: Product | None, *, multiplied: bool) -> str:
    """What a layer computes with: what it multiplies, else the first of its tensors that floats."""
    if multiplied:
        if product is not None:
            return operand_dtype(product)
        activations = (tensor.dtype for tensor in (*layer.inputs, *layer.outputs) if _computes(tensor.dtype))
        if first := next(activations, ""):
            return product_dtype([first])
    dtypes = [tensor.dtype for tensor in (*layer.inputs, *layer.constants, *layer.outputs) if tensor.dtype]
    return next(filter(units.is_float, dtypes), dtypes[0] if dtypes else "unknown")


def _per_run(part: Part, times: int) -> Part:
    def each(recipe: Recipe) -> Recipe:
        return Recipe(recipe.vector // times, {name: count // times for name, count in recipe.special.items()})

    spare = Spare(part.spare.tensor_flops // times, each(part.spare.arithmetic), part.spare.tensors)
    return Part(part.tensor_flops // times, each(part.arithmetic), part.fast_flops // times, spare)


def _spared_bytes(spare: Spare, reads: Mapping[str, int], writes: Mapping[str, int]) -> int:
    """Bytes of the tensors of which a layer may move less; all that it reads where it calls them by other names."""
    if not spare.tensors:
        return 0
    known = spare.tensors <= reads.keys() | writes.keys()
    moved = {name: size for name, size in reads.items() if name in spare.tensors or not known}
    moved |= {name: size for name, size in writes.items() if name in spare.tensors}
    return sum(moved.values())


def _conversion(layer: PlanLayer) -> Recipe:
    """Of a reformat or a copy: one FLOP per element that changes dtype, more where a scale is applied."""
    if len(layer.inputs) != 1 or len(layer.outputs) != 1:
        return NOTHING
    source, result = layer.inputs[0], layer.outputs[0]
    count = _logical(result) or 0
    if source.dtype == result.dtype:
        return NOTHING
    if units.is_float(source.dtype) and result.dtype == "int8":
        return quantize(zero_point=False).times(count)
    if source.dtype == "int8" and units.is_float(result.dtype):
        return dequantize(zero_point=False).times(count)
    return Recipe(count)


def _epilogue(layer: PlanLayer) -> Recipe:
    """Of a convolution by its attributes: a bias, a summand, the activation, per output element."""
    if not layer.outputs or "Activation" not in layer.attributes:
        return NOTHING
    name = str(layer.attributes["Activation"]).replace("_", "").lower()
    activation = ACTIVATIONS.get("clip" if name == "clippedrelu" else name, NOTHING)
    adds = int(layer.bias is not None and layer.bias.count > 0) + int(len(layer.inputs) > 1)
    return Recipe(adds).plus(activation).times(_logical(layer.outputs[0]) or 0)


def _pooling(layer: PlanLayer) -> Recipe | None:
    """Of a pooling by its attributes: the window, per output element."""
    window = layer.attributes.get("WindowSize")
    if not isinstance(window, tuple) or not layer.outputs or "PoolingType" not in layer.attributes:
        return None
    sizes = [size for size in window if isinstance(size, int)]
    return Recipe(_product(sizes) * (_logical(layer.outputs[0]) or 0))
