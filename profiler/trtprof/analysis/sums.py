"""Evidence from sums of kernels, as ``nsys stats`` prints them: no moments, so no gaps, copies or overlap."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from trtprof.align.kernel_sums import SumsAlignment, align_sums
from trtprof.analysis.evidence import NO_LAYERS, Evidence, Lack, latency_and_copies, layers_of_names
from trtprof.analysis.named import NamedPlan, price_named
from trtprof.analysis.plan import PricedPlan
from trtprof.analysis.producer import producer_of
from trtprof.base.latency import latency_of_sum
from trtprof.base.records import InferenceTimes, Match, PlanLayer

if TYPE_CHECKING:
    import pandas as pd


def ranges_of_sums(sums: pd.DataFrame) -> tuple[PlanLayer, ...]:
    """The NVTX ranges that launched something; none where the sums are not by range."""
    alignment = align_sums(sums, None)
    return () if alignment.from_kernels else tuple(matched.layer for matched in alignment.layers)


def evidence_of_sums(
    sums: pd.DataFrame,
    engine: PricedPlan | NamedPlan | None,
    times: InferenceTimes | None,
    *,
    inferences: int | None = None,
    notes: Iterable[str] = (),
) -> Evidence:
    """What sums of kernels (`align.kernel_sums.align_sums`) know of an engine.

    ``engine`` is its plan with its work, or layers by name; None takes the layers from the NVTX ranges, else from the
    kernels, and nothing is known of their work. Without ``times`` the latency is the sum of the kernels. ``inferences``
    of None is what ranges and plan tell, or one.
    """
    unsure: tuple[Lack, ...] = ()
    if engine is None:
        alignment = align_sums(sums, None)
        priced = _layers_of_sums(alignment, sums)
    elif isinstance(engine, NamedPlan):
        alignment = align_sums(sums, engine.layers)
        priced, unsure = price_named(engine, alignment.matches)
    else:
        alignment = align_sums(sums, engine.document.layers, [cost.runs for cost in engine.costs])
        priced = engine
    number = inferences or alignment.inferences or 1
    layers_ns = [_in_one(matches, number) if matches else None for matches in alignment.matches]
    unattributed_ns = _in_one(alignment.unattributed, number)
    busy_ns = sum(ns or 0 for ns in layers_ns) + unattributed_ns
    latency, copies, _ = latency_and_copies(times, busy_ns)
    return Evidence(
        engine=priced,
        layers_ns=layers_ns,
        kernels=alignment.matches,
        latency=latency,
        profiled=latency_of_sum(busy_ns),
        overheads=copies._replace(captured=True),
        # Of ranges or kernels alone nothing leads on to nodes: how surely kernels were led to them is what counts.
        coverage=alignment.coverage if engine is None else alignment.node_coverage,
        captured_ns=alignment.captured_ns,
        unattributed=alignment.unattributed,
        unattributed_ns=unattributed_ns,
        end_to_end=times is not None,
        lacking=(*_lacking(alignment, times, inferences, number, planned=engine is not None), *unsure),
        notes=(*notes, *_facts(alignment, inferences), *alignment.notes),
    )


def _layers_of_sums(alignment: SumsAlignment, sums: pd.DataFrame) -> PricedPlan:
    what, reason = "NVTX ranges", "an NVTX range does not tell its work"
    if alignment.from_kernels:
        what, reason = "kernels", "the name of a kernel does not tell its work"
    note = f"no layer information was given: what is listed as layers are {what}, and their work is not known"
    # Printed as ``domain:name``, or as the name alone.
    ranges = [str(name) for name in sums["range"].unique()] if "range" in sums else []
    producer = producer_of(
        (match for own in (*alignment.matches, alignment.unattributed) for match in own),
        [name.removeprefix(":") for name in ranges],
        [name.partition(":")[0] for name in ranges if ":" in name],
    )
    return layers_of_names(alignment.layers, f"the {what} of nsys stats", note, reason, producer)


def _in_one(matches: Iterable[Match], inferences: int) -> int:
    """Time of kernels in one inference: the median of what runs once in each, else the average."""
    return round(
        sum(match.median_ns if match.count == inferences else match.total_ns / inferences for match in matches)
    )


def _lacking(
    alignment: SumsAlignment, times: InferenceTimes | None, asked: int | None, inferences: int, *, planned: bool
) -> Iterable[Lack]:
    if not planned:
        yield NO_LAYERS
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
