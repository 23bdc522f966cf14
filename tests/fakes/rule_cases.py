"""A case for every rule that needs times alone: one that it finds, and a near miss."""

from __future__ import annotations

import msgspec

from tests.fakes.cases import CEILINGS, RTX_4090, Timed, engine_case, gemv, layer, make_case, relu, tensor
from trtprof.base.records import ClockSummary, Layer, Spread
from trtprof.diagnose import Case
from trtprof.diagnose.ledger import Overheads

BIG = Timed(relu("big", "x", "big_out", 10_000_000))
"""8 ms at its roof: what the share of the others is measured by. Nothing reads it."""


def conv(group: int = 1, channels: int = 64, op_type: str = "Conv") -> Layer:
    weights = tensor("w", channels, channels // group, 3, 3, constant=True)
    image = tensor("x", 1, channels, 56, 56)
    return layer("conv", op_type, (image, weights), (tensor("y", 1, channels, 56, 56),), attributes={"group": group})


def scalars(n: int, op_type: str = "Add") -> list[Timed]:
    return [
        Timed(layer(f"tiny{i}", op_type, (tensor(f"p{i}", 1), tensor(f"q{i}", 1)), (tensor(f"r{i}", 1),)), slow=3)
        for i in range(n)
    ]


def chain(*, second_reader: bool = False, slow: float = 1.8) -> Case:
    """Exp, then a square that names its input twice; ``second_reader`` reads the tensor between them too."""
    wide = [tensor(name, 1_000_000) for name in ("x", "m", "y", "z")]
    timed = [
        Timed(layer("exp", "Exp", wide[:1], wide[1:2]), slow),  # type: ignore[arg-type]
        Timed(layer("square", "Mul", (wide[1], wide[1]), (wide[2],)), slow),
    ]
    if second_reader:
        timed.append(Timed(layer("sum", "ReduceSum", (wide[1],), (tensor("s", 1),)), 1.0))
    return make_case(*timed)


def reorder(ns: int, *, role: str = "layout") -> Timed:
    image = tensor("x", 1, 64, 56, 56)
    outputs = (msgspec.structs.replace(image, name="y"),)
    return Timed(layer("reorder", "ReorderInput", (image,), outputs, domain="com.microsoft.nchwc", role=role), ns=ns)


def folded(*, constant: bool) -> Case:
    weights = tensor("w", 200_000, constant=constant)
    one = layer("quantise", "Relu", (weights,), (tensor("wq", 200_000),), constant=constant)
    return make_case(BIG, Timed(one, 3.0))


def faster(of_ideal: float) -> Case:
    """A layer at a share of its ideal: 80 MB at the best 44 GB/s take 1.82 ms."""
    ideal = make_case(BIG).layers[0].ideal_ns
    assert ideal is not None
    return make_case(BIG._replace(ns=round(ideal * of_ideal)))


def launch_case(share: float) -> Case:
    """Three launch-bound layers of 1.5 us each beside one that leaves them ``share`` of the latency."""
    tiny = scalars(3)
    rest = round(4500 / share) - 4500 - round(CEILINGS.call_ns)
    return make_case(*tiny, Timed(relu("rest", "x", "y", rest * 5 // 4), ns=rest))


def reorder_case(share: float) -> Case:
    reordered = round(8_000_000 * share / (1 - share))
    return make_case(BIG, reorder(reordered))


def clocks(low: float, mid: float, high: float, **changes: object) -> ClockSummary:
    """Samples of a second, with the lowest, the median and the highest clock of the SMs in MHz."""
    summary = ClockSummary(samples=50, duration_ns=1_000_000_000, sm_clock_mhz=Spread(min=low, median=mid, max=high))
    return msgspec.structs.replace(summary, **changes)


def latencies(case: Case, *, p99: float = 1.1, profiled: float = 1.0) -> Case:
    """The case with this 99th percentile, and this latency under the profiler, both in medians."""
    latency = msgspec.structs.replace(case.latency, p99_ns=round(p99 * case.latency.median_ns))
    under = msgspec.structs.replace(latency, median_ns=round(profiled * latency.median_ns))
    return case._replace(latency=latency, profiled=under)


def held(share: float, mid: float = 1410, reason: str = "power cap") -> Case:
    """A GPU rated at 1,740 MHz that a reason held down for a share of the time."""
    power, heat = Spread(min=280, median=300, max=301), Spread(min=60, median=71, max=72)
    summary = clocks(mid, mid, mid, reasons={"idle": 0.9, reason: share}, power_w=power, temperature_c=heat)
    return make_case(BIG, clocks=summary, rated_mhz=1740.0, tensorrt=True, gpu=True)


def alike(slow: float, *, memory: float = 1.0) -> Case:
    """Two layers that memory bounds and two that arithmetic does, ``slow`` times as long as their roofs allow.

    Those that memory bounds take ``memory`` times as long again.
    """

    def renamed(one: Layer, name: str) -> Layer:
        return msgspec.structs.replace(one, name=name, nodes=(name,))

    products = [Timed(renamed(conv(), f"conv{at}"), slow * (1.2 + at)) for at in range(2)]
    copies = [Timed(relu(f"relu{at}", f"x{at}", f"y{at}"), slow * memory * (1.4 + at)) for at in range(2)]
    return engine_case(*products, *copies)


POSITIVE: dict[str, Case] = {
    "CN601": folded(constant=True),
    "FU301": chain(),
    "HO501": make_case(BIG, gap_ns=1_000_000),
    "HO502": engine_case(BIG, overheads=Overheads(700_000, 300_000)),
    "LA401": launch_case(0.11),
    "LY201": reorder_case(0.02),
    "RL101": make_case(Timed(gemv(), 10.0), ceilings=RTX_4090),
    "RL102": make_case(Timed(conv(), 1 / 0.45)),
    "TR900": make_case(BIG)._replace(implausible=(("times of another GPU", "the log says that it was an A100"),)),
    "TR901": faster(0.94),
    "TR902": make_case(BIG, coverage=(0.90, 0.04)),
    "TR903": make_case(BIG, cv=0.11),
    "TR905": make_case(BIG, clocks=clocks(1330, 1410, 1410)),
    "TR906": held(0.11),
    "TR907": alike(4.0),
    "TR908": latencies(make_case(BIG, gpu=True), profiled=1.51),
    "TR909": make_case(BIG, gap_ns=-1_000_000),
}

NEGATIVE: dict[str, Case] = {
    "CN601": folded(constant=False),
    "FU301": chain(second_reader=True),
    # The remainder is as large, but the profile shows no gaps: it is drift of the machine.
    "HO501": make_case(BIG, gap_ns=1_000_000, profiled_gap_ns=0),
    "HO502": engine_case(BIG, overheads=Overheads(500_000, 300_000)),
    "LA401": launch_case(0.09),
    "LY201": reorder_case(0.009),
    "RL101": make_case(Timed(gemv(), 1 / 0.9), ceilings=RTX_4090),
    "RL102": make_case(Timed(conv(), 1 / 0.55)),
    "TR900": make_case(BIG),
    "TR901": faster(0.96),
    "TR902": make_case(BIG, coverage=(0.90, 0.06)),
    "TR903": make_case(BIG, cv=0.10),
    "TR905": make_case(BIG, clocks=clocks(1340, 1410, 1410), clocks_profiled=clocks(1470, 1480, 1710)),
    "TR906": held(0.09),
    # One convolution reaches 52 % of its roof.
    "TR907": alike(1.6),
    "TR908": latencies(make_case(BIG, gpu=True), profiled=1.49),
    # The remainder is as large, but the profile shows gaps: HO501 speaks of them.
    "TR909": make_case(BIG, gap_ns=1_000_000),
}
