"""How far two calibrations of one host lie apart, measurement by measurement.

    python scripts/bench/calibration_spread.py [--threads N] [--seconds S]

The spread within a calibration is that of its repeats; the one between the two is what a user sees
who calibrates again. A host shared with others shows it in the bandwidths first.
"""

from __future__ import annotations

import argparse
import sys

from profiler.base.errors import TrtprofError
from profiler.base.records import Ceilings, Measurement
from profiler.base.units import format_ns, format_percent, format_rate
from profiler.hardware.calibrate import SECONDS, calibrate
from profiler.hardware.device import host_cpu


def shown(measured: Measurement) -> str:
    return (
        format_ns(measured.value)
        if measured.unit == "ns"
        else format_rate(measured.value, measured.unit.removeprefix("1"))
    )


def calibrated_twice(threads: int, seconds: float) -> tuple[Ceilings, Ceilings]:
    """Two calibrations, one after the other; progress on stderr."""

    def say(text: str) -> None:
        print(text, file=sys.stderr)

    device = host_cpu()
    first, second = (calibrate(threads, seconds=seconds, device=device, progress=say) for _ in range(2))
    return first, second


def print_spread(first: Ceilings, second: Ceilings) -> None:
    """A row for each measurement: both values, how far they lie apart, and the spread of either's repeats."""
    print(f"{first.device}, {first.threads} threads, {first.measured_at} and {second.measured_at}")
    print(f"{'measurement':<28} {'first':>14} {'second':>14} {'between':>9} {'within':>9} {'within':>9}")
    for name, one in first.measurements.items():
        other = second.measurements.get(name)
        if other is None:
            continue
        middle = (one.value + other.value) / 2
        between = abs(one.value - other.value) / middle if middle else 0.0
        within = [format_percent(m.spread) if m.spread is not None else "-" for m in (one, other)]
        print(
            f"{name:<28} {shown(one):>14} {shown(other):>14} {format_percent(between):>9} {within[0]:>9} {within[1]:>9}"
        )
    only = set(first.measurements) ^ set(second.measurements)
    if only:
        print(f"measured in one run only: {', '.join(sorted(only))}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=0, help="threads inside an op; 0 is one a usable core")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time for the ceilings of each thread count")
    options = parser.parse_args()
    try:
        print_spread(*calibrated_twice(options.threads, options.seconds))
    except TrtprofError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
