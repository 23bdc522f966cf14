"""How far two calibrations of one host lie apart, ceiling by ceiling.

    python scripts/bench/calibration_spread.py [--threads N] [--seconds S]

The spread within a calibration is that of its repeats; the one between the two is what a user sees
who calibrates again. A host shared with others shows it in the bandwidths first.
"""

from __future__ import annotations

import argparse
import sys

from profiler.errors import TrtprofError
from profiler.hardware.calibrate import SECONDS, calibrate
from profiler.hardware.device import host_cpu
from profiler.records import Ceilings, Roof
from profiler.units import format_ns, format_percent, format_rate


def rows_of(name: str, roof: Roof, ceilings: Ceilings) -> dict[str, tuple[str, float, float | None]]:
    """Row label -> (unit, value, spread of the repeats)."""
    prefix = "" if name == "attainable" else "best_"

    def spread(key: str) -> float | None:
        # `best` shares the spread of `attainable` where the run's own thread count reached it.
        return ceilings.spread.get(prefix + key, ceilings.spread.get(key))

    rows = {
        f"{name} {dtype}": ("FLOP/s", rate, spread(f"{'int8' if dtype == 'uint8' else dtype}_flops"))
        for dtype, rate in sorted(roof.flops_per_s.items())
    }
    rows[f"{name} dram"] = ("B/s", roof.dram_bytes_per_s, spread("dram"))
    rows[f"{name} cache"] = ("B/s", roof.cache_bytes_per_s, spread("cache"))
    return rows


def table(ceilings: Ceilings) -> dict[str, tuple[str, float, float | None]]:
    rows = rows_of("attainable", ceilings.attainable, ceilings) | rows_of("best", ceilings.best, ceilings)
    for key in ("launch", "call", "profiler", "profiler_tensor", "profiler_gap", "probe"):
        rows[key] = ("ns", getattr(ceilings, f"{key}_ns"), ceilings.spread.get(key))
    return rows


def shown(unit: str, value: float) -> str:
    return format_ns(value) if unit == "ns" else format_rate(value, unit)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=0, help="threads inside an op; 0 is one a usable core")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time for the ceilings of each thread count")
    options = parser.parse_args()

    def say(text: str) -> None:
        print(text, file=sys.stderr)

    try:
        device = host_cpu()
        runs = [calibrate(options.threads, seconds=options.seconds, device=device, progress=say) for _ in range(2)]
    except TrtprofError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    first, second = (table(run) for run in runs)
    print(f"{device.name}, {runs[0].threads} threads, {runs[0].measured_at}")
    print(f"{'ceiling':<18} {'first':>14} {'second':>14} {'between':>9} {'within':>9} {'within':>9}")
    for label in [label for label in first if label in second]:
        unit, a, within_a = first[label]
        _, b, within_b = second[label]
        between = abs(a - b) / ((a + b) / 2) if a + b else 0.0
        within = [format_percent(w) if w is not None else "-" for w in (within_a, within_b)]
        print(
            f"{label:<18} {shown(unit, a):>14} {shown(unit, b):>14} {format_percent(between):>9} "
            f"{within[0]:>9} {within[1]:>9}"
        )
    only = set(first) ^ set(second)
    if only:
        print(f"measured in one run only: {', '.join(sorted(only))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
