"""The ledger: from what the work needs to the latency that was measured, row by row.

The rows always sum to the end-to-end latency measured without the profiler, to the nanosecond:
what has no name is the row ``unexplained``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from profiler.records import Ceilings, Estimate, Latency, LayerResult, LedgerRow

IDEAL = "ideal"
CEILING = "ceiling"
LAUNCH = "launch floor"
LAYOUT = "layout conversions"
INEFFICIENCY = "kernel inefficiency"
UNPRICED = "kernels without a price"
HOST = "host call"
UNEXPLAINED = "unexplained"


def build_ledger(
    layers: Sequence[LayerResult],
    estimates: Mapping[str, Estimate | None],
    latency: Latency,
    ceilings: Ceilings,
    unattributed_ns: int = 0,
) -> tuple[LedgerRow, ...]:
    """Rows from ideal to the measured median.

    Args:
        layers: Layers with their measured times in ns.
        estimates: Estimate by layer name; None where the work is unknown.
        latency: Measured without the profiler.
        ceilings: For the cost of an inference call.
        unattributed_ns: Kernel time of one inference that no layer owns.

    Returns:
        Rows whose ``ns`` sum to ``latency.median_ns`` exactly.
    """
    ideal = ceiling = launch = layout = inefficiency = unpriced = 0
    for layer in layers:
        estimate = estimates.get(layer.name)
        if layer.role == "layout":
            layout += layer.measured_ns
        elif estimate is None:
            unpriced += layer.measured_ns
        else:
            ideal += estimate.ideal_ns
            ceiling += estimate.roofline_ns - estimate.ideal_ns
            launch += estimate.attainable_ns - estimate.roofline_ns
            inefficiency += layer.measured_ns - estimate.attainable_ns
    unpriced += unattributed_ns
    host = min(round(ceilings.call_ns), latency.median_ns)
    rows = [
        LedgerRow(
            cause=IDEAL, ns=ideal, kind="estimate", meaning="the work at the best ceilings of this device"
        ),
        LedgerRow(
            cause=CEILING, ns=ceiling, kind="estimate",
            meaning="the ceilings as measured for this run: its threads, and DRAM where the cache is too small",
        ),
        LedgerRow(
            cause=LAUNCH, ns=launch, kind="estimate", meaning="layers shorter than an empty kernel takes here"
        ),
        LedgerRow(
            cause=LAYOUT, ns=layout, kind="fact", meaning="layers that only reorder or cast for the backend"
        ),
        LedgerRow(
            cause=INEFFICIENCY, ns=inefficiency, kind="estimate", meaning="kernels measured, less what is attainable"
        ),
        LedgerRow(
            cause=UNPRICED, ns=unpriced, kind="fact", meaning="kernels whose work is not known, or that have no layer"
        ),
        LedgerRow(
            cause=HOST, ns=host, kind="estimate", meaning="an inference call around an all but empty graph"
        ),
    ]  # fmt: skip
    rest = latency.median_ns - sum(row.ns for row in rows)
    rows.append(
        LedgerRow(
            cause=UNEXPLAINED,
            ns=rest,
            kind="remainder",
            meaning="gaps between kernels, and what the profiler changed while it watched",
        )
    )
    return tuple(row for row in rows if row.ns or row.cause in (IDEAL, INEFFICIENCY, UNEXPLAINED))
