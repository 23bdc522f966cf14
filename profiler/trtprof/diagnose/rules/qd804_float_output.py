"""A quantised layer that writes float for a reader that needs none.

What:
    A product reads int8 (or fp8) and writes fp16 or fp32, and each reader of that tensor quantises it, adds it as a
    residual in a quantised product, or leaves nothing but quantised results. The tensor is two to four times as
    large as it need be.

Why:
    Without a Q/DQ pair behind it the output of a product stays float; a residual that is added without one, or a
    pair in front of the wrong op, keeps it so (TensorRT Developer Guide, Q/DQ Placement Recommendations: quantize
    the residual input in skip-connections).

Try:
    A Q/DQ pair right behind the product, and on both inputs of the addition of a residual. The price is what the
    bytes cost by the roofline where bytes bound the layers; where arithmetic bounds them, they cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from trtprof.base import units
from trtprof.base.plan_words import NARROW, is_product, is_reduction, quantisation
from trtprof.base.records import BOUND_WORDS, LayerResult, MatchedLayer, PlanLayer, PlanTensor
from trtprof.base.units import format_bytes, format_ns
from trtprof.diagnose import Case, Claim, rule

_FLOAT = ("fp16", "bf16", "fp32")


class _Wide(NamedTuple):
    """A float tensor that could be narrow."""

    tensor: PlanTensor  # As it is
    narrow: str  # What it could be
    extra: int  # Bytes that each touch moves too many
    touching: tuple[str, ...]  # Names of the layers that touch it, the one that makes it first


def _wide(case: Case, name: str, matched: MatchedLayer, readers: Mapping[str, list[str]]) -> _Wide | None:
    layer = matched.layer
    if not is_product(layer) or not layer.inputs or not layer.outputs:
        return None
    narrow, tensor = layer.inputs[0].dtype, layer.outputs[0]
    if narrow not in NARROW or tensor.dtype not in _FLOAT or tensor.nbytes is None or tensor.elements is None:
        return None
    reading = readers.get(tensor.name, [])
    if (
        tensor.name in case.bound_to("output")
        or not reading
        or not all(_takes(case.plan[reader].layer, tensor) for reader in reading)
    ):
        return None
    return _Wide(tensor, narrow, tensor.nbytes - units.dtype_bytes(narrow, tensor.elements), (name, *reading))


def _takes(reader: PlanLayer, tensor: PlanTensor) -> bool:
    """Whether a layer could take the tensor quantised: it quantises it, adds it, or writes nothing but such results."""
    found = quantisation(reader)
    if found is not None:
        return found.quantises
    if is_product(reader):
        # A residual that a quantised product adds, not what it multiplies.
        return bool(reader.inputs) and reader.inputs[0].name != tensor.name and reader.inputs[0].dtype in NARROW
    return not is_reduction(reader) and bool(reader.outputs) and all(one.dtype in NARROW for one in reader.outputs)


def _saved_ns(layer: LayerResult, extra: int) -> int:
    """What so many bytes less are worth by the roofline; 0 where bytes do not bound the layer."""
    if layer.role != "compute" or layer.bound not in ("dram", "l2") or not layer.bytes or not layer.terms:
        return 0
    left = 1 - min(extra / layer.bytes, 1.0)
    without = {term: ns * left if term in ("dram", "l2") else ns for term, ns in layer.terms.items()}
    return int(max(layer.terms.values()) - max(without.values()))


def _reason(case: Case, layer: LayerResult) -> str:
    matched = case.plan.get(layer.name)
    if matched is None or not is_product(matched.layer) or not matched.layer.inputs or not matched.layer.outputs:
        return "the plan has no product in this layer"
    source, target = matched.layer.inputs[0].dtype, matched.layer.outputs[0].dtype
    if source not in NARROW or target not in _FLOAT:
        return f"the layer reads {source or 'an unknown dtype'} and writes {target or 'an unknown dtype'}"
    wide = _wide(case, layer.name, matched, case.readers)
    if wide is None:
        return f"its {target} output is one of the engine, or a reader needs it in {target}"
    bound = BOUND_WORDS[layer.bound].phrase
    return f"the {format_bytes(wide.extra)} more that it writes cost nothing by the roofline: {bound} bounds it"


@rule("QD804", "quantised layer with float output", order=65, reason=_reason)
def check(case: Case) -> Iterator[Claim]:
    """All such tensors as one finding, which claims what their makers and readers would take less."""
    layers = {layer.name: layer for layer in case.unclaimed}
    readers = case.readers
    claims: dict[str, int] = {}
    found: list[tuple[int, _Wide]] = []
    for name, matched in case.plan.items():
        wide = _wide(case, name, matched, readers)
        if wide is None:
            continue
        saved = {one: ns for one in wide.touching if one in layers and (ns := _saved_ns(layers[one], wide.extra)) > 0}
        for one, ns in saved.items():
            claims[one] = claims.get(one, 0) + ns
        if saved:
            found.append((sum(saved.values()), wide))
    if sum(claims.values()) <= case.clock_resolution_ns:
        return
    total = sum(ns for ns, _ in found)
    ns, worst = max(found, key=lambda one: (one[0], one[1].touching))
    tensor = worst.tensor
    yield Claim(
        where=f"{len(found)} tensor{'s' if len(found) > 1 else ''}, largest between {worst.touching[0]} and "
        f"{', '.join(worst.touching[1:3])}",
        evidence=(
            f"{format_bytes(tensor.nbytes or 0)} of {tensor.dtype} are written for readers that could take "
            f"{worst.narrow}: each touch moves {format_bytes(worst.extra)} too many, {format_ns(ns)} by the roofline, "
            f"{format_ns(total)} of all such tensors"
        ),
        remedy="put a Q/DQ pair right behind the product, and on both inputs of the addition of a residual",
        layers=claims,
        confidence=0.5,
    )
