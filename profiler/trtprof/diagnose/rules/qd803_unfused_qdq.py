"""Layers that only quantise or dequantise.

What:
    A QuantizeLinear or DequantizeLinear runs as a layer of its own, though such conversions are free as a part of
    the layer before or behind them.

Why:
    A quantisation becomes a part of the layer that makes its tensor when that is its only reader and both may run
    in the quantised type. An input of the engine, a second reader that wants the tensor in float (a residual, an op
    without an int8 kernel), or a Q/DQ pair far from the product that it belongs to keeps it alone: the tensor is
    read and written once more.

Try:
    Put Q/DQ pairs right before the products and poolings that they belong to, and on both inputs of the addition
    of a residual; give the engine quantised inputs. `trtprof build` shows where they stand.
"""

from __future__ import annotations

from collections.abc import Iterator

from trtprof.base.plan_words import change, quantisation
from trtprof.base.records import LayerResult
from trtprof.diagnose import Case, Claim, needless, rule

_OPS = ("QuantizeLinear", "DequantizeLinear")

_INPUT = "give the engine the quantised input, where the program around it can"
_SHARED = (
    "quantise what else reads the tensor too (a Q/DQ pair on both inputs of an addition), so that one form is left"
)
_ALONE = "move the Q/DQ pair next to the product or pooling that it belongs to, so that the layer before it quantises"


def _is_alone(case: Case, layer: LayerResult) -> bool:
    matched = case.plan.get(layer.name)
    if matched is not None and quantisation(matched.layer) is not None:
        return True
    one = case.engine.get(layer.name)
    return one is not None and one.op.op_type in _OPS and len(one.nodes) == 1 and matched is None


def _reason(case: Case, layer: LayerResult) -> str:
    if not _is_alone(case, layer):
        return "the layer does more than to quantise or dequantise, or nothing of it"
    return "" if layer.measured_ns else "the layer took no time"


@rule("QD803", "Q/DQ left unfused", order=15, reason=_reason)
def check(case: Case) -> Iterator[Claim]:
    """All layers that only quantise or dequantise, by what would fuse them."""
    groups: dict[str, list[LayerResult]] = {}
    for layer in case.unclaimed:
        if layer.measured_ns and not layer.constant and _is_alone(case, layer):
            groups.setdefault(_remedy(case, layer), []).append(layer)
    for remedy, layers in groups.items():
        worst = max(layers, key=lambda layer: layer.measured_ns)
        matched = case.plan.get(worst.name)
        what = f" ({change(matched.layer)})" if matched is not None else ""
        yield from needless(
            case, layers, noun="Q/DQ layer", why=f"to convert what a layer beside it could convert{what}", remedy=remedy
        )


def _remedy(case: Case, layer: LayerResult) -> str:
    matched = case.plan.get(layer.name)
    found = quantisation(matched.layer) if matched is not None else None
    if found is None or not found.quantises:
        return _ALONE
    name = found.source.name
    if name in case.bound_to("input"):
        return _INPUT
    return _SHARED if len(case.readers.get(name, ())) > 1 else _ALONE
