"""What several reporters share: sums for the headline, words for records, text made safe to show."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from trtprof.base import units
from trtprof.base.errors import TrtprofError
from trtprof.base.records import ClockSummary, Finding, InputTensor, Latency, LedgerRow, Record, Run, Spread, Tensor
from trtprof.base.records.capture import CORES, QUIET
from trtprof.base.text_file import is_unicode

CAUSES = 3  # Likely causes that the first screen names; the others are counted
APART = 0.1  # Share of the latency by which the sum of its layers may differ before that is said
KIND_WORDS = {"fact": "measured", "estimate": "estimate", "remainder": "remainder"}


def seen(text: str) -> str:
    """A name that a reader can see and hear: one of nothing but blanks is told to be none."""
    return text if any(char.isprintable() and not char.isspace() for char in text) else "(no name)"


class Headline(NamedTuple):
    """The sums behind "what the roofline allows". None where no layer has an estimate."""

    attainable_ns: int | None
    ideal_ns: int | None
    of_roof: float | None  # Attainable over measured latency
    unpriced: int  # Layers without an estimate, which the sums leave out
    unpriced_share: float  # Their share of the time of all layers


def headline(run: Run) -> Headline:
    """Add up the estimates of the layers that do the model's work and set them against the latency."""
    working = [layer for layer in run.layers if layer.role in ("compute", "control")]
    priced = [layer for layer in working if layer.attainable_ns is not None]
    unpriced = [layer for layer in working if layer.attainable_ns is None or layer.lost_ns is None]
    unpriced_ns = sum(layer.measured_ns for layer in unpriced)
    layers_ns = sum(layer.measured_ns for layer in run.layers)
    share = unpriced_ns / layers_ns if layers_ns else 0.0
    if not priced:
        return Headline(None, None, None, len(unpriced), share)
    attainable = sum(layer.attainable_ns or 0 for layer in priced)
    ideal = sum(layer.ideal_ns or 0 for layer in priced)
    of_roof = attainable / run.latency.headline_ns if run.latency.headline_ns else None
    return Headline(attainable, ideal, of_roof, len(unpriced), share)


class Good(NamedTuple):
    """What good library kernels take for the layers that have an expectation, and how much of the time those are.

    The band is that of a sum whose terms err the same way: no band of errors that partly cancel is wider.
    """

    expected_ns: int
    p10_ns: int
    p90_ns: int
    measured_ns: int  # What these layers took
    share: float  # That over the time of all layers
    praised: int  # Layers that are faster than nine of ten library kernels


def good_kernels(run: Run) -> Good | None:
    """Add up the firm expectations of the layers that do the model's work; None where there is none."""
    working = [layer for layer in run.layers if layer.role in ("compute", "control")]
    known = [layer for layer in working if layer.firm]
    if not known:
        return None
    measured = sum(layer.measured_ns for layer in known)
    layers_ns = sum(layer.measured_ns for layer in run.layers)
    return Good(
        expected_ns=sum(layer.expected_ns or 0 for layer in known),
        p10_ns=sum(layer.expected_p10_ns or 0 for layer in known),
        p90_ns=sum(layer.expected_p90_ns or 0 for layer in known),
        measured_ns=measured,
        share=measured / layers_ns if layers_ns else 1.0,
        # Faster than its ideal a layer is counted wrong, which is no merit.
        praised=sum(max(layer.ideal_ns or 0, 1) <= layer.measured_ns < (layer.expected_p10_ns or 0) for layer in known),
    )


def good_text(run: Run) -> str:
    """The same in words; empty where there is none."""
    good = good_kernels(run)
    if good is None:
        return ""
    band = units.format_band(good.expected_ns, good.p10_ns, good.p90_ns)
    text = f"expected {band} for {100 * good.share:.0f} % of the time, measured {units.format_ns(good.measured_ns)}"
    if good.praised:
        text += f"; {count(good.praised, 'layer')} faster than nine of ten library kernels"
    if run.corrected is not None:
        text += f"; {run.corrected.brief}"
    return text


def spread_text(latency: Latency) -> str:
    """p10, p50 and p99 of all samples: ``p10 146, p50 148, p99 160 us``; p10 only where it is known."""
    known = {"p10": latency.p10_ns, "p50": latency.median_ns, "p99": latency.p99_ns}
    factor, unit = units.ns_unit(latency.median_ns)
    if latency.p99_ns >= 1000 * factor:
        return ", ".join(f"{name} {units.format_ns(ns)}" for name, ns in known.items() if ns)
    return ", ".join(f"{name} {units.in_unit(ns, factor)}" for name, ns in known.items() if ns) + f" {unit}"


def latency_text(run: Run) -> str:
    """The latency in one sentence: the headline, its spread, and what is known of the undisturbed machine."""
    latency, headline_ns = run.latency, run.latency.headline_ns
    if not headline_ns:
        return "unknown: no sample of the latency was taken"
    if not latency.n:
        return f"{units.format_ns(headline_ns)} in layers: their sum, not an end-to-end latency"
    text = units.format_ns(headline_ns)
    quiet = run.cpu_use is not None and not run.cpu_use.disturbed
    if not quiet and latency.undisturbed_basis == "inferences" and latency.undisturbed_n != latency.n:
        ahead = run.cpu_use is not None and run.cpu_use.ahead
        of = " inferences ahead of other processes" if ahead else f" of {count(latency.n, 'inference')} undisturbed"
        text += f", {latency.undisturbed_n:,}{of}"
        text += f"; as shared {spread_text(latency)}"
    else:
        text += f" ({spread_text(latency)})"
    text += f", {_rate(1e9 / headline_ns)} inferences/s"
    if run.engine is not None and latency == run.profiled:
        text += ", with the profiler"
    if latency.undisturbed_basis == "layers" and latency.undisturbed_ns:
        low, high = latency.undisturbed_low_ns, latency.undisturbed_high_ns
        interval = f" ({units.format_ns(low)} to {units.format_ns(high)})" if low and high else ""
        text += f"; ~{units.format_ns(latency.undisturbed_ns)}{interval} when nothing else runs"
        text += ", estimated from its layers"
    elif latency.undisturbed_reason and (not quiet or latency.undisturbed_reason.startswith(CORES)):
        text += f"; when nothing else runs: unknown, {latency.undisturbed_reason}"
    if latency.regimes and (quiet or latency.regimes not in latency.undisturbed_reason):
        text += f"; {latency.regimes}"
    layers_ns = sum(layer.measured_ns for layer in run.layers)
    if layers_ns and abs(layers_ns / headline_ns - 1) >= APART:
        text += f"; its layers add up to {units.format_ns(layers_ns)} in the profiled inferences"
    return text


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f}" if per_second >= 100 else f"{per_second:.3g}"


def bound_text(run: Run) -> str:
    """The roofline bound in one sentence with the largest possible speedup, or why there is none."""
    total, latency = headline(run), run.latency
    if run.bound_reason or total.attainable_ns is None:
        return f"none: {run.bound_reason or 'no layer has a cost model'}"
    measured = run.ceilings.origin == "measured"
    text = f"~{units.format_ns(total.attainable_ns)}"
    text += f" on this {run.device.kind.upper()}" if measured else f" at peaks not measured: {run.ceilings.source}"
    if total.unpriced:
        text += f", without {count(total.unpriced, 'layer')} that no cost model covers"
    # Compared with a latency that holds other processes' time, the factor would promise theirs.
    shared = run.cpu_use is not None and run.cpu_use.disturbed and latency.undisturbed_reason
    alone = latency.undisturbed_ns or (None if shared else latency.headline_ns)
    if not alone or run.no_verdict:
        return text
    factor = alone / total.attainable_ns if total.attainable_ns else 0.0
    if 0 < factor < 1:
        return f"{text}: above what was measured, so peaks are too low or work is counted that was not done"
    return f"{text}: at most {factor:.{1 if factor >= 2 else 2}f}x faster" if factor else text


class Trust(NamedTuple):
    """How far the numbers hold: ``good``, ``fair`` or ``low``, and why, in words."""

    level: Literal["good", "fair", "low"]
    why: str


def trust_of(run: Run) -> Trust:
    """The level by the gravest measurement warning; what used the CPUs meanwhile comes first in its words."""
    warnings = [finding for finding in run.findings if finding.kind == "trust"]
    low = run.no_verdict or any(finding.severity == "critical" for finding in warnings)
    why = [*filter(None, [_cpu_text(run)]), *run.doubts]
    if run.no_verdict and not warnings:
        why.append(run.verdict.removeprefix("no verdict: ").partition("; less sure for")[0])
    why += [f"less sure: {', '.join(run.lacking)}"] if run.lacking else []
    codes = " or ".join(dict.fromkeys(finding.code for finding in warnings))
    text = "; ".join(why) or "nothing speaks against the numbers"
    return Trust(
        "low" if low else "fair" if warnings or run.lacking or _slow_cores(run) else "good",
        f"{text} (explained by: trtprof rules {codes})" if codes else text,
    )


def _slow_cores(run: Run) -> str:
    """How the cores were slower than at their best, though nothing else used them; empty where they were not."""
    reason = run.latency.undisturbed_reason
    return reason if run.cpu_use is not None and reason.startswith(CORES) else ""


def _cpu_text(run: Run) -> str:
    use = run.cpu_use
    if use is None:
        return ""
    cores = f"these {use.cpus} cores" if use.cpus > 1 else "this core"
    if use.others_cpus is None and use.waited is None:
        return f"this system does not report what else used {cores}"
    if not use.disturbed:
        return f"nothing else used {cores}" + (f", but {_slow_cores(run)}" if _slow_cores(run) else "")
    waited, taken, stolen = use.waited or 0.0, use.others_cpus or 0.0, use.steal_cpus or 0.0
    parts = []
    if waited >= 0.01 or taken > stolen:
        number = f"{use.others} other" if use.others else "other"
        who = f"{number} process wants" if use.others == 1 else f"{number} processes want"
        it = ("it", "it") if use.others == 1 else ("they", "them")
        took = f"{100 * waited:.0f} % of this run's CPU time went to {it[1]}"
        parts.append(f"{who} {cores}: {took if waited >= 0.01 else f'{it[0]} kept {taken:.2g} of them busy'}")
    if stolen > QUIET * use.cpus:
        parts.append(f"the hypervisor gave {stolen:.2g} of {cores} to other guests")
    latency = run.latency
    if use.ahead and latency.undisturbed_basis == "inferences":
        parts.append("the latency was measured ahead of other processes, at a raised priority")
    elif latency.undisturbed_basis != "inferences" and 0 < latency.min_ns < latency.p10_ns:
        factor, unit = units.ns_unit(latency.min_ns)
        fast = f"{units.in_unit(latency.min_ns, factor)} to {units.in_unit(latency.p10_ns, factor)} {unit}"
        parts.append(f"the fastest tenth took {fast}")
    return "; ".join(parts)


class Step(NamedTuple):
    """Something to do, and the command that tries it; empty where there is none."""

    text: str
    command: str = ""


def causes_of(run: Run) -> list[Finding]:
    """The likely causes, most time first; where measurement warnings forbid a conclusion, none that rests on layers."""
    causes = [finding for finding in run.findings if finding.kind == "hypothesis"]
    return [one for one in causes if run.cpu_use is not None and not one.layers] if run.no_verdict else causes


def steps_of(run: Run, place: Callable[[Finding], str]) -> list[Step]:
    """What to do about the first causes, those with one remedy together; then what makes the numbers surer."""
    batches = [dim for tensor in run.model.inputs for dim in tensor.declared[:1]]
    fixed = batches and all(isinstance(dim, int) for dim in batches)
    alike: dict[str, list[Finding]] = {}
    for finding in causes_of(run)[:CAUSES]:
        alike.setdefault(finding.try_, []).append(finding)
    steps: list[Step] = []
    for words, findings in alike.items():
        batch = " (the batch of this model is fixed: export it again)" if fixed and "the batch" in words else ""
        places = " and ".join(dict.fromkeys(map(place, findings)))
        command = next((one.command for one in findings if one.command), "")
        steps.append(Step(f"{places}: {words}{batch}", "" if command in {step.command for step in steps} else command))
    warnings = [finding for finding in run.findings if finding.kind == "trust" and finding.try_]
    return [*steps, *(Step(f"{finding.try_} (see TRUST)") for finding in warnings[:1])]


def next_command(run: Run) -> str:
    """The first command of DO NEXT; empty where there is none."""
    return next((step.command for step in steps_of(run, lambda finding: finding.where) if step.command), "")


def time_of(run: Run) -> str:
    """What it is whose time was measured: kernels, or the layers of a TensorRT engine."""
    return "layer" if run.plan is not None else "kernel"


def ledger_gap_ns(run: Run) -> int:
    """Measured latency less the sum of the ledger: 0 when the ledger closes."""
    return run.latency.headline_ns - sum(row.ns for row in run.ledger)


def largest(rows: list[LedgerRow], most: int) -> list[LedgerRow]:
    """At most ``most`` rows in their order; the smallest become one row, so that the sum stays."""
    if len(rows) <= most:
        return rows
    kept = sorted(range(len(rows)), key=lambda index: -abs(rows[index].ns))[: most - 1]
    small = [row for index, row in enumerate(rows) if index not in kept]
    facts = all(row.kind == "fact" for row in small)
    total = sum(row.ns for row in small)
    rest = LedgerRow(cause=f"{len(small)} smaller rows", ns=total, kind="fact" if facts else "estimate")
    return [*(rows[index] for index in sorted(kept)), rest]


def perturbation(latency: Latency, profiled: Latency) -> float | None:
    """How much longer an inference takes while the profiler runs, as a fraction; None where it was not measured."""
    if not latency.headline_ns or not latency.n or not profiled.n:
        return None
    return profiled.headline_ns / latency.headline_ns - 1


def signed_percent(fraction: float) -> str:
    """``+4.0 %``, ``-1.2 %``."""
    return f"{100 * fraction:+.1f} %"


def mode_text(run: Run) -> str:
    """The parts of the latency on a GPU, and what a CUDA graph makes of it; empty where they were not measured."""
    parts = []
    for mode in run.modes:
        if mode.mode == "cuda graph":
            parts.append(f"as a CUDA graph {units.format_ns(mode.latency.headline_ns)}")
        else:
            copies = f"{units.format_ns(mode.h2d_ns)} to it and {units.format_ns(mode.d2h_ns)} back"
            parts.append(f"GPU {units.format_ns(mode.compute_ns)}, copies {copies}")
    return "; ".join(parts)


def mode_rows(run: Run) -> list[tuple[str, str]]:
    """The same as rows of a table."""
    rows: list[tuple[str, str]] = []
    for mode in run.modes:
        rows.append((mode.mode, f"{units.format_ns(mode.latency.headline_ns)} median of {mode.latency.n:,}"))
        for name, ns in (
            ("copies to the GPU", mode.h2d_ns),
            ("GPU", mode.compute_ns),
            ("copies back", mode.d2h_ns),
            ("enqueuing", mode.enqueue_ns),
        ):
            if ns:
                rows.append((f"{mode.mode}: {name}", units.format_ns(ns)))
    return rows


def check_text(run: Run) -> str:
    """Whether the outputs are right, the worst one named; empty where they were not held against others."""
    if not run.checks:
        return ""
    wrong = [check for check in run.checks if not check.matches]
    if not wrong:
        return f"{len(run.checks)} of {len(run.checks)} as ONNX Runtime's on the CPU"
    return f"{len(wrong)} of {len(run.checks)} WRONG: {wrong[0].name} ({wrong[0].dtype}): {wrong[0].reason}"


def check_rows(run: Run) -> list[tuple[str, str]]:
    """Every output that was held against ONNX Runtime's, the worst first."""
    return [
        (
            f"{check.name} ({check.dtype})",
            f"off by {check.max_abs:.3g}, {check.tolerance:.3g} of what is allowed"
            if check.matches
            else f"wrong: {check.reason}",
        )
        for check in run.checks
    ]


def clock_text(clocks: ClockSummary) -> str:
    """The clocks of a GPU and what held them down, in words; empty where nothing is known."""
    parts = []
    if (sm := clocks.sm_clock_mhz) is not None:
        moved = f" ({sm.min:,.0f} to {sm.max:,.0f})" if sm.max > sm.min else ""
        parts.append(f"SM {sm.median:,.0f} MHz{moved}")
    for spread, unit in ((clocks.power_w, "W"), (clocks.temperature_c, "C")):
        if spread is not None:
            parts.append(f"{spread.median:.0f} {unit}")
    parts += [f"{reason} {100 * share:.0f} % of the time" for reason, share in (clocks.reasons or {}).items()]
    return ", ".join(parts) or "; ".join(clocks.notes)


def clock_rows(run: Run) -> list[tuple[str, str]]:
    """What was sampled of a GPU, without the profiler and with it, as rows of a table; empty where nothing was."""
    rows = []
    for when, clocks in (("", run.clocks), ("profiled: ", run.clocks_profiled)):
        if clocks is None:
            continue
        if not clocks.samples:
            rows.append((f"{when}clocks", "; ".join(clocks.notes) or "unknown"))
            continue
        rows.append((f"{when}samples", f"{clocks.samples:,} in {units.format_ns(clocks.duration_ns)}"))
        for name, spread, unit in (
            ("SM clock", clocks.sm_clock_mhz, "MHz"),
            ("memory clock", clocks.memory_clock_mhz, "MHz"),
            ("power", clocks.power_w, "W"),
            ("temperature", clocks.temperature_c, "C"),
        ):
            rows.append((f"{when}{name}", _range(spread, unit)))
        if clocks.energy_j is not None:
            rows.append((f"{when}energy", f"{clocks.energy_j:,.1f} J"))
        rows.append((f"{when}clock held down by", _reasons(clocks.reasons)))
    return rows


def _range(spread: Spread | None, unit: str) -> str:
    if spread is None:
        return "unknown: the driver does not tell it"
    return f"median {spread.median:,.0f} {unit}, {spread.min:,.0f} to {spread.max:,.0f} {unit}"


def _reasons(reasons: dict[str, float] | None) -> str:
    if reasons is None:
        return "unknown: the driver does not tell it"
    return (
        ", ".join(f"{reason} ({units.format_percent(share)} of the time)" for reason, share in reasons.items())
        or "nothing"
    )


def tensor_text(tensor: InputTensor | Tensor) -> str:
    """A tensor in words: ``x 1x3x224x224 fp32``."""
    if tensor.shape is None and isinstance(tensor, InputTensor) and tensor.declared:
        return f"{tensor.name} {'x'.join(map(str, tensor.declared))} {tensor.dtype}"
    if tensor.shape is None:
        return f"{tensor.name} of unknown rank {tensor.dtype}"
    return f"{tensor.name} {'x'.join(map(str, tensor.shape)) or 'scalar'} {tensor.dtype}"


def input_text(tensor: InputTensor, unbound: Collection[str] = ()) -> str:
    """An input as the model declares it, and what its dynamic dimensions are: ``x: fp32 Nx3x8x8 (N=1)``.

    Args:
        tensor: The input; a dimension without a name is called ``input[axis]``.
    """
    declared = tensor.declared or tensor.shape
    if declared is None:
        return f"{tensor.name}: {tensor.dtype} ?"
    numbers = {
        dim if dim != "?" else f"{tensor.name}[{index}]": number
        for index, (dim, number) in enumerate(zip(declared, tensor.shape or (), strict=False))
        if isinstance(dim, str)
    }
    bound = ", ".join(f"{name}={number}" for name, number in numbers.items() if name not in unbound)
    return f"{tensor.name}: {tensor.dtype} {'x'.join(map(str, declared)) or 'scalar'}" + (
        f" ({bound})" if bound else ""
    )


BOUND_MARKS = {"exact": "", "upper": "<", "lower": ">", "mixed": "~"}
"""Before work of which data decides how much it is."""
BOUND_WORDS = "< at most, > at least, ~ partly each: data decides"


def without_unit(flops: int) -> str:
    """``1.02 M`` of FLOP."""
    return units.format_flops(flops).removesuffix("FLOP").strip() if flops else "0"


def bytes_or_0(count: int) -> str:
    """``1.02 MB``, ``0``."""
    return units.format_bytes(count) if count else "0"


def dims_text(dims: Collection[int | str] | None) -> str:
    """``1x3x?``; ``scalar`` without a dimension, ``?`` where the rank is not known."""
    return (
        "?"
        if dims is None
        else "x".join("?" if isinstance(dim, int) and dim < 0 else str(dim) for dim in dims) or "scalar"
    )


def count(n: int, noun: str) -> str:
    """``1 layer``, ``2 layers``, ``10,000 layers``."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def plain(found: Record, *, order: Literal["deterministic"] | None = "deterministic") -> Any:
    """The record as dicts, lists and numbers that every JSON reader accepts.

    Fields keep their declared order, the keys of dicts are sorted.
    """
    data = msgspec.to_builtins(found, order=order)
    try:
        json.dumps(data, allow_nan=False, ensure_ascii=False).encode()
    except ValueError:
        _blame(data)
        raise
    return data


def _blame(data: Any) -> None:
    for path, value in _walk(data, "run"):
        if isinstance(value, float) and not math.isfinite(value):
            raise TrtprofError(
                f"the run cannot be written as JSON: {path} is {value}",
                why="JSON has no NaN and no infinity",
                fix="report this as a bug of the stage that made the number, with the run folder",
            )
        if isinstance(value, str) and not is_unicode(value):
            raise TrtprofError(
                f"the run cannot be written as JSON: {path} is not valid Unicode: {value!a:.80}",
                why="it holds half of a surrogate pair",
                fix="rename that node or tensor in the model",
            )


def _walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"a key of {path}", key
            yield from _walk(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _walk(item, f"{path}[{index}]")
    else:
        yield path, value


def latency_name(run: Run) -> str:
    """What to call the median of `Run.latency`, which without a sample of whole inferences is the sum of the layers."""
    return "latency_median_ns" if run.latency.n else "layers_sum_ns"
