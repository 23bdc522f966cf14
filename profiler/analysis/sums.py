"""A TensorRT engine from sums of its kernels, as ``nsys stats`` prints them, beside what the roofline allows.

A pure function of what was read, like `profiler.analysis.trace`, and with the same result. A sum knows of no moment:
there are no gaps, no copies, no overlap, and no inference apart from the others. The result says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from profiler.align.kernel_sums import SumsAlignment, align_sums
from profiler.analysis.plan import PricedPlan, price_plan
from profiler.analysis.run import Measured, analyse_measured, latency_of, without_model
from profiler.base.records import Ceilings, GpuSpec, InferenceTimes, Latency, Match, ModelInfo, Plan, Run, Source
from profiler.diagnose import JUDGE, Judge
from profiler.diagnose.ledger import Around

if TYPE_CHECKING:
    import pandas as pd


def analyse_sums(
    sums: pd.DataFrame,
    priced: PricedPlan | None,
    source: Source | None,
    times: InferenceTimes | None,
    ceilings: Ceilings,
    spec: GpuSpec,
    *,
    inferences: int | None = None,
    model: ModelInfo | None = None,
    files: Mapping[str, str] | None = None,
    clock_mhz: float | None = None,
    notes: Iterable[str] = (),
    judge: Judge = JUDGE,
) -> Run:
    """Set sums of kernels beside the roofline of their layers.

    Args:
        sums: See `align.kernel_sums.align_sums`.
        priced: The plan of the engine and its work; None to take the layers from the NVTX ranges, or from the kernels
            where there are none: then nothing is known of their work.
        source: The model that the engine was built from, with its shapes; None where it is not at hand.
        times: Times of whole inferences without the profiler; without them the latency is the sum of the kernels.
        ceilings: Of the GPU that ran it.
        spec: The datasheet of that GPU.
        inferences: How many inferences the sums are of; None to take what the NVTX ranges and the plan tell, or one.
        model: What to say of the model where there is no source.
        files: What was read, by role.
        clock_mhz: Clock of the SMs that the ceilings are for, where it is not that of the datasheet.
        notes: What is to be said of the sums.
        judge: By what the case is judged.

    Raises:
        UsageError: The sums do not tell layers from the ranges around them.
        CaptureError: Attribution did not conserve the captured time.
    """
    if priced is not None and source is None:
        priced = without_model(priced)
    planned = priced is not None
    if priced is None:
        alignment = align_sums(sums, None)
        priced = _of_names(alignment)
    else:
        alignment = align_sums(sums, priced.document.layers, [cost.runs for cost in priced.costs])
    number = inferences or alignment.inferences or 1
    layers_ns = [_in_one(matches, number) if matches else None for matches in alignment.matches]
    unattributed_ns = _in_one(alignment.unattributed, number)
    busy_ns = sum(ns or 0 for ns in layers_ns) + unattributed_ns
    latency, around, _ = latency_of(times, busy_ns)
    measured = Measured(
        layers_ns=layers_ns,
        kernels=alignment.matches,
        latency=latency,
        profiled=Latency(median_ns=busy_ns, p99_ns=busy_ns, cv=0.0, n=0),
        around=Around(around.to_device_ns, around.from_device_ns, captured=True),
        # Of ranges or kernels alone nothing leads on to nodes: how surely kernels were led to them is what counts.
        coverage=alignment.node_coverage if planned else alignment.coverage,
        captured_ns=alignment.captured_ns,
        unattributed=alignment.unattributed,
        unattributed_ns=unattributed_ns,
        end_to_end=times is not None,
        lacking=tuple(_lacking(alignment, times, inferences, number, planned=planned)),
        notes=(*notes, *_facts(alignment, inferences), *alignment.notes),
    )
    return analyse_measured(
        priced, source, measured, ceilings, spec, model=model, files=files, clock_mhz=clock_mhz, judge=judge
    )


def _of_names(alignment: SumsAlignment) -> PricedPlan:
    """Layers that are known by a name alone, so that nothing is known of their work."""
    what = "kernels" if alignment.from_kernels else "NVTX ranges"
    plan = Plan(
        era=f"the {what} of nsys stats",
        layers=tuple(matched.layer for matched in alignment.layers),
        notes=(f"no layer information was given: what is listed as layers are {what}, and their work is not known",),
    )
    priced = price_plan(plan)
    reason = (
        "the name of a kernel does not tell its work"
        if alignment.from_kernels
        else "an NVTX range does not tell its work"
    )
    costs = tuple(cost._replace(work=None, reason=reason) for cost in priced.costs)
    document = msgspec.structs.replace(priced.document, works=(None,) * len(costs))
    return priced._replace(costs=costs, document=document)


def _in_one(matches: Iterable[Match], inferences: int) -> int:
    """Time of kernels in one inference: the median of what runs once in each, else the average."""
    return round(
        sum(match.median_ns if match.count == inferences else match.total_ns / inferences for match in matches)
    )


def _lacking(
    alignment: SumsAlignment, times: InferenceTimes | None, asked: int | None, inferences: int, *, planned: bool
) -> Iterable[tuple[str, str]]:
    """What makes the result less sure: in a few words for the verdict, and in a sentence."""
    if not planned:
        yield "no layer information", "without layer information (--layers) nothing is known of the work of a layer"
    yield (
        "sums of kernels alone",
        (
            "sums of kernels tell of no gaps between them, no copies, no overlap of streams and no launches; "
            "the capture itself, as .sqlite, does"
        ),
    )
    if times is None:
        yield (
            "no time without the profiler",
            "the latency is the sum of the kernels, with what the profiler added to them; --times gives it without",
        )
    if not (asked or alignment.inferences):
        hint = f"; most kernels ran a multiple of {alignment.common} times" if alignment.common > 1 else ""
        yield (
            "no inferences told apart",
            f"nothing tells how many inferences the sums are of, so all is taken for one: --inferences N says it{hint}",
        )
        return
    matches = [match for own in (*alignment.matches, alignment.unattributed) for match in own]
    uneven = [match for match in matches if match.count != inferences]
    if uneven:
        yield (
            "averages",
            (
                f"{len(uneven)} of {len(matches)} sums are not of one kernel in each inference: their times are "
                "averages, which warm-up and outliers move"
            ),
        )


def _facts(alignment: SumsAlignment, asked: int | None) -> Iterable[str]:
    """How the sums read, in sentences."""
    if asked:
        told = f"; {alignment.inference_source} would make it {alignment.inferences}" if alignment.inferences else ""
        if asked == alignment.inferences:
            told = ", as the file tells too"
        yield f"{asked} inferences, as asked for{told}"
    elif alignment.inferences:
        yield f"{alignment.inferences} inferences, by {alignment.inference_source}"
