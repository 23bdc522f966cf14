"""Predictions held against hardware counters: what of them is proven, and what is not.

ncu flushes the caches before every launch (``--cache-control all``), so a layer of one kernel reads all that it needs
from DRAM once; what it writes may stay in the L2. Counted FLOP are adds, multiplies and fused multiply-adds of floats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from trtprof.base.kernel_counters import LayerCounters
from trtprof.base.records import Confirmation, CounterCheck, Finding, LayerResult, Run, Work
from trtprof.base.units import format_bytes, format_flops, format_percent, format_rate
from trtprof.diagnose import THRESHOLDS, Thresholds
from trtprof.kernel_names.parse import parse

TOLERANCE = 0.1
"""Share that a count may be off a prediction and still confirm it: with it, no rule says another thing. Counted bytes
of GEMMs and convolutions lie within it where the model of fused layers is right."""
SLACK_BYTES = 1 << 15
"""That a kernel may move beside its tensors: its code, its parameters, page tables. The two reports that ncu 2022.3
ships as examples have 4,224 and 30,720 bytes read more than their arrays."""
PROVEN = 0.95
"""Confidence in a cause that a counter proves: that of a fact, as `needless` has it; the match may still be wrong."""
REFUTED = 0.2  # What the confidence in a cause is multiplied by that a counter speaks against

Verdict = Literal["confirmed", "refuted", "not told"]
_PLAIN = frozenset({"fp64", "fp32", "tf32", "fp16", "bf16", "fp8e4m3fn", "fp8e5m2", "fp4e2m1"})
"""Dtypes whose products the counters of FLOP see."""


def confirm(run: Run, counters: Sequence[LayerCounters], thresholds: Thresholds = THRESHOLDS) -> Run:
    """The run with ``confirmations``; findings that counters prove or refute change confidence, and say by which."""
    found = {one.layer: one for one in counters}
    layers = {layer.name: layer for layer in run.layers}
    seen = [(layer, found[layer.name]) for layer in run.layers if layer.name in found]
    return msgspec.structs.replace(
        run,
        confirmations=tuple(_confirmation(layer, one, run) for layer, one in seen),
        findings=tuple(_judged(finding, layers, found, run, thresholds) for finding in run.findings),
    )


def _confirmation(layer: LayerResult, counted: LayerCounters, run: Run) -> Confirmation:
    checks = (_dram(layer, counted, run), _flop(layer, counted), _unit(counted))
    told = {check.verdict for check in checks}
    return Confirmation(
        layer=layer.name,
        verdict="refuted" if "refuted" in told else "confirmed" if "confirmed" in told else "not told",
        checks=checks,
        launches=counted.launches,
        match=counted.confidence,
        reason=counted.reason,
        uncounted=counted.uncounted,
        counted_ns=None if counted.duration_ns is None else round(counted.duration_ns),
        occupancy=None if counted.occupancy is None else min(counted.occupancy, 1.0),
    )


_WARM = " (not all of a tensor is read; or ncu was told to leave the caches as they were, --cache-control none)"


class _Range(NamedTuple):
    low: float
    high: float


def _dram(layer: LayerResult, counted: LayerCounters, run: Run) -> CounterCheck:
    """DRAM bytes: at least what is read and what cannot stay in the L2, at most each tensor once."""
    work, bytes_ = layer.work, counted.dram_bytes
    if bytes_ is None:
        return CounterCheck(what="DRAM bytes", verdict="not told", reason="no counter of DRAM bytes")
    if work is None:
        reason = f"{format_bytes(bytes_)} counted; what the layer must move is not known"
        return CounterCheck(
            what="DRAM bytes", verdict="not told", counted_low=bytes_, counted_high=bytes_, reason=reason
        )
    spilled = max(work.bytes_written - run.ceilings.cache_bytes, 0)
    wanted = _bounded(_Range(work.bytes_read + spilled, work.bytes), work)
    said = f"{format_bytes(bytes_)} counted, {_words(wanted, format_bytes)} predicted"
    verdict, why = _compare(_Range(bytes_, bytes_), wanted, SLACK_BYTES)
    if wanted.high < SLACK_BYTES and why != "more":
        verdict, said = "not told", f"{said}: too few to tell from its code and parameters"
    elif verdict == "not told":
        said = f"{format_bytes(bytes_)} counted; what the layer must move is not known from either side"
    elif verdict == "refuted":
        share = _ratio(bytes_, wanted)
        if counted.uncounted and why == "less":
            verdict, said = "not told", f"{said}; {_uncounted(counted)}"
        elif counted.launched > 1 and why == "more":
            verdict = "not told"
            said = f"{said}; it is {counted.launched} launches, and ncu empties the caches before each"
        else:
            said = f"{said}: {share} of it" + (_WARM if why == "less" else "")
    elif counted.uncounted:
        verdict, said = "not told", f"{said}; {_uncounted(counted)}"
    return _check("DRAM bytes", verdict, _Range(bytes_, bytes_), wanted, said)


def _flop(layer: LayerResult, counted: LayerCounters) -> CounterCheck:
    """FLOP: at least the multiply-accumulates, at most all arithmetic."""
    work, low, high = layer.work, counted.flops_low, counted.flops_high
    if low is None or high is None:
        return CounterCheck(what="FLOP", verdict="not told", reason="no counters of all FLOP")
    own = _Range(low, high)
    said = f"{_words(own, format_flops)} counted"
    if work is None:
        return _check("FLOP", "not told", own, None, f"{said}; the work of the layer is not known")
    if not work.tensor_flops or 2 * work.tensor_flops < work.flops:
        reason = f"{said}; most of its arithmetic is no products, and the counters see but a part of that"
        return _check("FLOP", "not told", own, None, reason)
    if work.dtype not in _PLAIN:
        return _check("FLOP", "not told", own, None, f"{said}; the counters do not see products of {work.dtype}")
    wanted = _bounded(_Range(work.tensor_flops, work.flops), work)
    said = f"{said}, {_words(wanted, format_flops)} predicted"
    verdict, why = _compare(own, wanted)
    if verdict != "refuted" and not counted.uncounted:
        return _check("FLOP", verdict, own, wanted, said)
    if counted.uncounted and why != "more":
        return _check("FLOP", "not told", own, wanted, f"{said}; {_uncounted(counted)}")
    reason = {
        "more": "tiles that reach beyond the tensor, or work that is done twice",
        "less": "Winograd, an FFT or sparsity need fewer; or it is not all that the layer does",
    }[why]
    return _check("FLOP", verdict, own, wanted, f"{said}: {_ratio(low, wanted)} of it ({reason})")


def _unit(counted: LayerCounters) -> CounterCheck:
    """The math unit that the names of kernels tell, against the pipe of the tensor cores."""
    worked = counted.tensor_cores
    if worked is None:
        return CounterCheck(what="math unit", verdict="not told", reason="no counter tells of tensor cores for sure")
    own = _Range(float(worked), float(worked))
    units = {name: parse(name).unit for name in counted.kernels}
    said = "tensor cores worked" if worked else "tensor cores did nothing"
    if "tensor" in units.values():
        expected = True
    elif units and set(units.values()) <= {"simt", "none"}:
        expected = False
    else:
        return _check("math unit", "not told", own, None, f"{said}; the kernel's name does not tell its unit")
    named = "tensor cores" if expected else "the scalar pipes" if "simt" in units.values() else "no matrix products"
    verdict: Verdict = "confirmed" if worked == expected else "refuted"
    reason = f"{said}, {'and' if verdict == 'confirmed' else 'but'} the kernel's name tells of {named}"
    return _check("math unit", verdict, own, _Range(float(expected), float(expected)), reason)


def _check(
    what: Literal["DRAM bytes", "FLOP", "math unit"], verdict: Verdict, own: _Range, wanted: _Range | None, reason: str
) -> CounterCheck:
    return CounterCheck(
        what=what,
        verdict=verdict,
        predicted_low=None if wanted is None else wanted.low,
        # Without an upper bound there is no number for it.
        predicted_high=None if wanted is None or wanted.high == float("inf") else wanted.high,
        counted_low=own.low,
        counted_high=own.high,
        reason=reason,
    )


def _bounded(wanted: _Range, work: Work) -> _Range:
    """A prediction as far as its work is known."""
    low = 0.0 if work.bound in ("upper", "mixed") else wanted.low
    high = float("inf") if work.bound in ("lower", "mixed") else wanted.high
    return _Range(low, high)


def _compare(own: _Range, wanted: _Range, slack: int = 0) -> tuple[Verdict, Literal["", "more", "less"]]:
    if wanted == _Range(0.0, float("inf")):
        return "not told", ""
    if own.low > wanted.high * (1 + TOLERANCE) + slack:
        return "refuted", "more"
    return ("refuted", "less") if own.high < wanted.low * (1 - TOLERANCE) else ("confirmed", "")


def _words(one: _Range, shown: Callable[[float], str]) -> str:
    low, high = shown(one.low), shown(one.high) if one.high != float("inf") else ""
    if not high:
        return f"at least {low}"
    return high if low == high else f"{low} to {high}"


def _ratio(count: float, wanted: _Range) -> str:
    nearest = wanted.high if count > wanted.high else wanted.low
    return f"{count / nearest:.2f} times" if nearest else "more than none"


def _uncounted(counted: LayerCounters) -> str:
    number = len(counted.uncounted)
    return f"{number} of its kernels {'were' if number > 1 else 'was'} not counted"


class _Proof(NamedTuple):
    """What counters say of a cause: whether it is so, and by which numbers."""

    holds: bool
    words: str


_Prove = Callable[[LayerResult, LayerCounters, Run, Thresholds], _Proof | None]


def _idle_tensor_cores(
    _layer: LayerResult, counted: LayerCounters, _run: Run, _thresholds: Thresholds
) -> _Proof | None:
    """Products are not done on tensor cores."""
    if counted.tensor_cores is None or (counted.uncounted and not counted.tensor_cores):
        return None
    return _Proof(not counted.tensor_cores, f"tensor cores {'worked' if counted.tensor_cores else 'did nothing'}")


def _idle_memory(layer: LayerResult, counted: LayerCounters, run: Run, thresholds: Thresholds) -> _Proof | None:
    """The memory is not what the kernel waits for: it delivers less than it could."""
    if counted.dram_bytes is None or not layer.measured_ns or counted.uncounted:
        return None
    if layer.bound == "l2":
        # What the L2 gave its clients is not what DRAM had to give; both must be below what they can.
        if counted.l2_bytes is None:
            return None
        level, moved, most = "the L2", counted.l2_bytes, run.ceilings.attainable.cache_bytes_per_s
    else:
        level, moved, most = "DRAM", counted.dram_bytes, run.ceilings.attainable.dram_bytes_per_s
    rate = moved / layer.measured_ns * 1e9
    words = f"{level} gave {format_rate(rate, 'B/s')}, {format_percent(rate / most)} of what it can"
    holds = rate < most * _efficiency(run, thresholds)
    if not holds and layer.bytes and moved > layer.bytes * (1 + TOLERANCE):
        words += f": the kernel moves {moved / layer.bytes:.1f} times the bytes that it needs"
    return _Proof(holds, words)


def _idle_arithmetic(layer: LayerResult, counted: LayerCounters, run: Run, thresholds: Thresholds) -> _Proof | None:
    """The arithmetic that is done takes the unit less than half of the time."""
    work, term = layer.work, layer.terms.get("tensor", 0)
    if counted.flops_low is None or counted.flops_high is None or work is None or counted.uncounted:
        return None
    if layer.bound != "tensor" or not term or not work.tensor_flops or not layer.measured_ns:
        return None
    share = counted.flops_high / work.tensor_flops * term / layer.measured_ns
    words = f"{format_flops(counted.flops_high)} were done, {format_percent(share)} of what the unit can in that time"
    return _Proof(share < _efficiency(run, thresholds), words)


def _few_warps(layer: LayerResult, counted: LayerCounters, run: Run, thresholds: Thresholds) -> _Proof | None:
    """Few warps are active at once; where blocks are missing, the SMs that have one may still be full."""
    if counted.occupancy is None:
        return None
    words = f"{format_percent(counted.occupancy)} of the warps that fit were active on the SMs that worked"
    if counted.occupancy < thresholds.occupancy:
        return _Proof(True, words)
    blocks = [match.blocks for match in layer.kernels]
    return _Proof(False, words) if blocks and min(blocks) >= max(run.device.cores, 1) else None


PROOFS: Mapping[str, _Prove] = {
    "KN701": _idle_tensor_cores,
    "KN702": _idle_tensor_cores,
    "KN703": _idle_memory,
    "OC707": _few_warps,
    "RL101": _idle_memory,
    "RL102": _idle_arithmetic,
}
"""By the code of a rule: the counter that tells whether its cause is so."""


def _efficiency(run: Run, thresholds: Thresholds) -> float:
    """The share of the roof under which a layer is far from it; see `Case.far_from_roof`."""
    return thresholds.efficiency * (thresholds.of_datasheet if run.ceilings.origin == "datasheet" else 1.0)


def _judged(
    finding: Finding,
    layers: Mapping[str, LayerResult],
    counters: Mapping[str, LayerCounters],
    run: Run,
    thresholds: Thresholds,
) -> Finding:
    """A finding with the confidence that counters leave in it."""
    prove = PROOFS.get(finding.code)
    if prove is None or finding.kind != "hypothesis":
        return finding
    lost = {name: max(layers[name].lost_ns or 0, 0) for name in finding.layers if name in layers}
    proofs = {
        name: proof
        for name in lost
        if name in counters and (proof := prove(layers[name], counters[name], run, thresholds)) is not None
    }
    if not proofs:
        return finding
    total = sum(lost.values())
    holding = [name for name, proof in proofs.items() if proof.holds]
    against = [name for name, proof in proofs.items() if not proof.holds]

    def share(names: Sequence[str]) -> float:
        return sum(lost[name] for name in names) / total if total else len(names) / len(lost)

    up = max(PROVEN * _surest(counters, holding) - finding.confidence, 0.0) * share(holding)
    down = finding.confidence * (1 - REFUTED) * share(against)
    said = []
    for names, words in ((holding, "a counter proves it"), (against, "a counter speaks against it")):
        if names:
            worst = max(names, key=lambda name: (lost[name], name))
            of = f" of {len(names)} of {len(lost)} layers" if len(lost) > 1 else ""
            said.append(f"{words}{of}: {proofs[worst].words}")
    return msgspec.structs.replace(
        finding,
        confidence=round(min(max(finding.confidence + up - down, 0.0), 1.0), 2),
        evidence="; ".join((finding.evidence, *said)),
    )


def _surest(counters: Mapping[str, LayerCounters], names: Sequence[str]) -> float:
    """What a proof counts that rests on launches which were led to the layer less surely."""
    return 1.0 if all(counters[name].confidence == "exact" for name in names) else THRESHOLDS.doubt
