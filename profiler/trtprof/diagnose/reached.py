"""What kernels of a layer's class reach of their roof on this device: the first of four sources that there is.

1. what library kernels take for the same on this GPU, by measurements of others (`records.Expectation`);
2. the healthy kernels of the run itself: of the same op class, bound, precision and size, at least `KERNELS`;
3. calibration: the ceilings were attained by its own workloads, a typical kernel reaches less;
4. the datasheet: measured over roofline time of healthy kernels as others published it.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from trtprof.base.op_kinds import op_kind
from trtprof.base.plan_words import is_convolution, is_product, is_reduction, is_reformat, tokens
from trtprof.base.records import BOUND_WORDS, LayerResult, MatchedLayer, Op
from trtprof.base.units import FLOP_PER_MAC, format_ns, format_percent
from trtprof.diagnose import Case
from trtprof.diagnose.libraries import expected_words, reachable_ns
from trtprof.diagnose.products import product_of

KERNELS = 3
"""Healthy kernels of a class from which on they tell what it reaches: the fewest that have quartiles of their own."""

LEAST = 0.01
"""No class reaches less than this share of its roof, whatever the thresholds are set to: a guard, not a finding."""

DATASHEET_LOW, DATASHEET_HIGH = 1 / 2.53, 1 / 1.07
"""Range of roofline over measured time, whose median is `Thresholds.of_datasheet`, in the same data: 54 inferences
on 7 GPUs (data published with Lee et al., NeuSight, ASPLOS 2025)."""

_GEMM = re.compile(r"gemm (?P<dtype>\w+)(?: acc \w+)? (?P<size>\d+)")
"""A matrix product that calibration measured, with the length of its sides: ``gemm fp16 acc fp32 2048``."""

_CLASS_OF_OP: dict[str, str] = {
    "convolution": "conv", "matmul": "gemm", "attention": "attention", "softmax": "softmax", "normalisation": "norm",
    "batch norm": "norm", "reduction": "reduce", "ranking": "reduce", "scan": "reduce", "pool": "reduce",
    "move": "data movement", "view": "data movement", "cast": "data movement", "pointwise": "elementwise",
}  # fmt: skip
"""By `op_kinds.OpKind`."""
_CLASS_OF_KERNEL = {
    "gemm": "gemm", "gemv": "gemv", "conv": "conv", "dgrad": "conv", "wgrad": "conv", "attention": "attention",
    "softmax": "softmax", "batch_norm": "norm", "layer_norm": "norm", "norm": "norm", "elementwise": "elementwise",
    "reduce": "reduce", "pooling": "reduce", "topk": "reduce", "copy": "data movement", "concat": "data movement",
    "transpose": "data movement", "reformat": "data movement", "cast": "data movement", "gather": "data movement",
}  # fmt: skip


class OpClass(NamedTuple):
    """What makes two kernels comparable."""

    op: str  # gemm, gemv, conv, depthwise conv, attention, softmax, norm, elementwise, reduce, data movement or other
    bound: str  # What bounds it by the roofline
    precision: str  # What it computes with
    # Decimal digits of the time in ns that the roof allows it: kernels of another size keep the device busy for
    # another share of their time.
    size: int

    @property
    def words(self) -> str:
        """``gemv fp32, bound by DRAM, of 100 us to 1 ms``."""
        op = f"{self.op} {self.precision}" if self.precision else self.op
        return f"{op}, bound by {BOUND_WORDS[self.bound].phrase}, {self.sized}"

    @property
    def sized(self) -> str:
        """The times that the size stands for."""
        low = max(self.size - 1, 0)
        return f"of {_ten_to_the(low)} to {_ten_to_the(low + 1)} by its roofline"


class Reached(NamedTuple):
    """The share of its roof that a class reaches, ``0 < low <= efficiency <= high <= 1``, and its source."""

    efficiency: float
    low: float
    high: float
    basis: str
    down_to: str = ""  # What that is of kernels, in a few words to be said behind a gain


def class_of(layer: LayerResult, case: Case) -> OpClass:
    """The class of a layer: by its ONNX op or the words of its plan, then by the names of its kernels."""
    return OpClass(_op_class(layer, case), layer.bound, layer.dtype, len(str(max(layer.attainable_ns or 0, 1))))


def is_healthy(layer: LayerResult, case: Case) -> bool:
    """Whether a layer tells what its class reaches: its work is known, it is near its roof and not above it."""
    if layer.role != "compute" or layer.name in case.partial or not layer.measured_ns:
        return False
    if not layer.attainable_ns or layer.lost_ns is None or layer.bound == "unknown":
        return False
    # Faster than its ideal it is counted wrong.
    too_fast = layer.ideal_ns is not None and layer.measured_ns < case.thresholds.above_roof * layer.ideal_ns
    return not too_fast and not case.far_from_roof(layer)


class Healthy(NamedTuple):
    """A healthy layer of a run, its class, and the share of its roof that it reaches."""

    layer: str
    op_class: OpClass
    share: float


def healthy_layers(case: Case) -> tuple[Healthy, ...]:
    """Those of a run, in execution order."""
    return tuple(
        Healthy(layer.name, class_of(layer, case), min((layer.attainable_ns or 0) / layer.measured_ns, 1.0))
        for layer in case.layers
        if is_healthy(layer, case)
    )


def reached(case: Case, layer: LayerResult, healthy: Sequence[Healthy] | None = None) -> Reached:
    """What good kernels of the class of a layer reach of their roof; of one that a launch bounds, other small ones."""
    if layer.firm and layer.attainable_ns:
        return _of_libraries(layer)
    own = class_of(layer, case)
    if own.bound == "launch":
        small = [
            min((other.attainable_ns or 0) / other.measured_ns, 1.0)
            for other in case.layers
            if other.bound == "launch" and other.role == "compute" and other.measured_ns and other.name != layer.name
        ]
        if len(small) >= KERNELS:
            return _of_small(small)
    alike = [other for other in (healthy_layers(case) if healthy is None else healthy) if other.layer != layer.name]
    same = [other.share for other in alike if other.op_class == own]
    if len(same) >= KERNELS:
        return _of_run(same, own.words)
    smaller = [other.share for other in alike if other.op_class[:3] == own[:3] and other.op_class.size <= own.size]
    if len(smaller) >= KERNELS:
        return _of_run(smaller, f"{own.words} and smaller")
    if case.from_datasheet:
        point = max(case.thresholds.of_datasheet, LEAST)
        low, high = min(DATASHEET_LOW, point), max(DATASHEET_HIGH, point)
        return Reached(
            point, low, min(high, 1.0),
            f"{format_percent(point)} of a datasheet's roofline, the median over 54 published inferences "
            f"({format_percent(low)} to {format_percent(high)}; NeuSight, ASPLOS 2025): fewer than {KERNELS} healthy "
            f"kernels of this class ran here ({own.words})",
        )  # fmt: skip
    return _of_products(case, own) or _of_calibration(case, own)


def _of_libraries(layer: LayerResult) -> Reached:
    """From the slowest to the fastest tenth of them: no kernel by hand is promised to be faster than those are."""
    attainable = layer.attainable_ns or 0
    point, low = (min(attainable / max(ns or 0, 1), 1.0) for ns in (layer.expected_p10_ns, layer.expected_p90_ns))
    why = f"; {layer.expected_reason}" if layer.expected_reason else ""
    return Reached(
        point, low, point,
        f"{format_percent(point)} of the roofline ({format_ns(reachable_ns(layer))}), as the fastest tenth of library "
        f"kernels by measurements of others, which take {expected_words(layer)}{why}",
        ", down to the fastest tenth of library kernels",
    )  # fmt: skip


def _of_run(shares: Sequence[float], words: str) -> Reached:
    low, high = min(shares), max(shares)
    # The interpolation rounds.
    point = min(max(statistics.quantiles(shares, n=4, method="inclusive")[2], low), high)
    return Reached(
        point, low, high,
        f"{format_percent(point)} of the roofline, the upper quartile of {len(shares)} healthy kernels of this run "
        f"({format_percent(low)} to {format_percent(high)}): {words}",
    )  # fmt: skip


def _of_small(shares: Sequence[float]) -> Reached:
    quarter, _, most = statistics.quantiles(shares, n=4, method="inclusive")
    high = max(shares)
    point = min(most, high)
    low = min(quarter, point)
    return Reached(
        point, low, high,
        f"{format_percent(point)} of the roofline, which is an empty kernel's: the upper quartile of {len(shares)} "
        f"other layers of this run bound by launch (from the lower one, {format_percent(low)}, to "
        f"{format_percent(high)})",
    )  # fmt: skip


def _of_products(case: Case, own: OpClass) -> Reached | None:
    """What the GEMM library reached in calibration, for a GEMM that the tensor unit bounds."""
    peak = case.ceilings.attainable.tensor_flops_per_s.get(own.precision, 0.0)
    if own.op != "gemm" or own.bound != "tensor" or not peak:
        return None
    dtypes = ("fp32", "tf32") if own.precision in ("fp32", "tf32") else (own.precision,)
    found = []
    for key, one in case.ceilings.measurements.items():
        match = _GEMM.fullmatch(key)
        if match is None or match["dtype"] not in dtypes:
            continue
        digits = len(str(max(math.ceil(FLOP_PER_MAC * int(match["size"]) ** 3 * 1e9 / peak), 1)))
        if digits == own.size:
            found.append((min(one.value / peak, 1.0), one.spread or 0.0, one.what or key))
    if not found:
        return None
    point, spread, what = max(found)
    point = max(point, LEAST)
    low = max(min(point, case.thresholds.healthy) * (1 - min(spread, 1.0)), LEAST)
    return Reached(
        point, low, 1.0,
        f"{format_percent(point)} of the measured ceiling, which {what} reached in calibration, at best all of it and "
        f"at least {format_percent(low)}; fewer than {KERNELS} healthy kernels of this class ran here ({own.words})",
    )  # fmt: skip


def _of_calibration(case: Case, own: OpClass) -> Reached:
    """The ceilings at best; at least what is healthy of them (`Thresholds.healthy`), less their spread."""
    measurements = case.ceilings.measurements
    keys = {
        "tensor": (f"tensor {own.precision}",),
        "vector": (f"vector {own.precision}", f"tensor {own.precision}"),
        "sfu": ("special exp",),
        "dram": ("dram",),
        "l2": ("cache",),
        "launch": ("launch graph", "launch"),
    }.get(own.bound, ())
    found = next((measurements[key] for key in keys if key in measurements), None)
    spread = min(found.spread, 1 - 1e-3) if found is not None and found.spread is not None else 0.0
    least = case.thresholds.healthy
    low = max(least * (1 - spread), LEAST)
    point = (low + 1) / 2
    attained = f", which {found.what} attained" if found is not None and found.what else ""
    shaken = f", less {format_percent(spread)} that it was seen to vary" if spread else ""
    return Reached(
        point, low, 1.0,
        f"{format_percent(point)} of the roofline: the middle between the measured ceiling{attained} and the "
        f"{format_percent(least)} of it that calibration holds healthy{shaken}; fewer than {KERNELS} healthy "
        f"kernels of this class ran here ({own.words})",
    )  # fmt: skip


def _op_class(layer: LayerResult, case: Case) -> str:
    engine = case.engine.get(layer.name)
    op = engine.op if engine is not None else None
    matched = case.plan.get(layer.name)
    of_kernel = next(
        (kind for _, name in case.kernel_names(layer) if (kind := _CLASS_OF_KERNEL.get(name.op)) is not None), ""
    )
    if of_kernel == "attention" or (matched is not None and "mha" in matched.layer.name.lower()):
        return "attention"
    found = op_class(op) if op is not None else ""
    found = found or (_of_plan(matched) if matched is not None else "") or of_kernel or "other"
    product = product_of(layer) if found in ("gemm", "conv") else None
    if product is None:
        return found
    if product.depthwise:
        return "depthwise conv"
    # A gemv is a GEMM with one row or one column, whatever the kernel calls itself.
    return "gemv" if not product.convolution and product.thin == 1 else found


def op_class(op: Op) -> str:
    """The class of an ONNX op by itself, whatever its shapes; empty of one that has none."""
    return _CLASS_OF_OP.get(op_kind(op.op_type), "")


def _of_plan(matched: MatchedLayer) -> str:
    one = matched.layer
    if is_reformat(matched):
        return "data movement"
    if is_product(one):
        return "conv" if is_convolution(one) else "gemm"
    words = {one.kind.lower(), one.parameter_type.lower()}
    if words & {"softmax", "soft max"} or "Soft" in tokens(one):
        return "softmax"
    if any("normali" in word for word in words):
        return "norm"
    if is_reduction(one):
        return "reduce"
    if words & {"slice", "shuffle", "gather", "concatenation", "copy"}:
        return "data movement"
    if words & {"pointwise", "pointwisev2", "elementwise", "activation", "unary", "scale", "kgen"}:
        return "elementwise"
    return ""


def _ten_to_the(power: int) -> str:
    unit, digits = [("ns", 0), ("us", 3), ("ms", 6), ("s", 9)][min(power // 3, 3)]
    return f"{10 ** (power - digits):,} {unit}"
