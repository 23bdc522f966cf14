"""How far calibrations of one host lie apart, measurement by measurement.

    python scripts/bench/calibration_spread.py [--pairs 5] [--threads N]

So many quick sets and as many full ones in turn, each begun when others leave the CPUs alone: how far full ones lie
above quick ones is the band that a quick set is given (`trtprof.hardware.calibrate.QUICK_BAND`). With --only-quick N so
many quick sets alone: the highest of each over the lowest. A host shared with others shows it in the bandwidths first.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from trtprof.base.errors import TrtprofError
from trtprof.base.records import Ceilings, Measurement, Work
from trtprof.base.units import SPECIAL_FLOPS, format_ns, format_percent, format_rate
from trtprof.hardware.calibrate import Calibration, calibrate, needed_ceilings
from trtprof.hardware.device import host_cpu, others_cpus_now


def shown(measured: Measurement) -> str:
    return (
        format_ns(measured.value)
        if measured.unit == "ns"
        else format_rate(measured.value, measured.unit.removeprefix("1"))
    )


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def quick_set(threads: int, rounds: int = 3) -> Ceilings:
    """What all ops need, measured in rounds as a run does; nothing is kept."""
    works = [Work(tensor_flops=1, special=dict.fromkeys(SPECIAL_FLOPS, 1), dtype=of) for of in ("fp64", "int8")]
    with (
        tempfile.TemporaryDirectory() as folder,
        Calibration(threads, needed_ceilings(works), cache_dir=Path(folder)) as calibration,
    ):
        for _ in range(rounds):
            calibration.round()
        return calibration.finish()


def when_quiet(longest_wait: float = 120.0) -> None:
    end = time.monotonic() + longest_wait
    while (others_cpus_now() or 0.0) > 0.05 * host_cpu().cores and time.monotonic() < end:
        time.sleep(0.5)


def in_turn(threads: int, pairs: int) -> tuple[list[Ceilings], list[Ceilings]]:
    """Quick and full sets in turn, each after a quiet half second, or after so long all the same."""
    found: tuple[list[Ceilings], list[Ceilings]] = ([], [])
    for at in range(2 * pairs):
        when_quiet()
        began = time.monotonic()
        each = calibrate(threads) if at % 2 else quick_set(threads)
        found[at % 2].append(each)
        say(f"{each.extent}: {time.monotonic() - began:.1f} s, others took {each.others_cpus or 0.0:.2f} CPUs")
    return found


def print_sets(sets: list[Ceilings]) -> None:
    """A row for each measurement: lowest, median and highest of the sets, and the highest over the lowest."""
    for name, one in sets[0].measurements.items():
        values = sorted(each.measurements[name].value for each in sets)
        parts = [
            shown(msgspec.structs.replace(one, value=v)) for v in (values[0], statistics.median(values), values[-1])
        ]
        above = format_percent(values[-1] / values[0] - 1) if values[0] else "-"
        print(f"{name:<28} {' '.join(f'{part:>14}' for part in parts)} {above:>9}")


def print_band(quick: list[Ceilings], full: list[Ceilings]) -> None:
    """A row for each measurement: the medians, how far a full set lies above a quick one, and the range of either."""
    undisturbed = [[one for one in sets if not one.disturbed] for sets in (quick, full)]
    counts = " and ".join(f"{len(some)} {some[0].extent}" for some in undisturbed if some)
    print(f"{full[0].device}, {full[0].threads} threads; undisturbed: {counts or 'none'}")
    if not all(undisturbed):
        print("all of either were disturbed: what follows is of those")
    sets = [some or every for some, every in zip(undisturbed, (quick, full), strict=True)]
    print(f"{'measurement':<28} {'quick':>14} {'full':>14} {'above':>9} {'quick':>9} {'full':>9}")
    for name, one in sets[0][0].measurements.items():
        values = [[each.measurements[name].value for each in some if name in each.measurements] for some in sets]
        if not all(values):
            continue
        low, high = (statistics.median(each) for each in values)
        spreads = [
            format_percent((max(each) - min(each)) / m if m else 0.0)
            for each, m in zip(values, (low, high), strict=True)
        ]
        first, second = (shown(Measurement(value=m, unit=one.unit, what="", repeats=1)) for m in (low, high))
        above = format_percent(high / low - 1) if low else "-"
        print(f"{name:<28} {first:>14} {second:>14} {above:>9} {spreads[0]:>9} {spreads[1]:>9}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=0, help="threads inside an op; 0 is one a usable core")
    parser.add_argument("--pairs", type=int, default=5, metavar="N", help="N quick and N full sets in turn")
    parser.add_argument("--only-quick", type=int, default=0, metavar="N", help="N quick sets")
    options = parser.parse_args()
    try:
        if options.only_quick:
            print_sets([quick_set(options.threads) for _ in range(options.only_quick)])
        else:
            print_band(*in_turn(options.threads, options.pairs))
    except TrtprofError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
