"""Everything that is measured on a GPU, in one table: ``python -m trtprof.hardware.cuda.selfcheck [GPU]``.

It is for whoever has a GPU and wants to see at once whether everything works there, in under two
minutes: what each ceiling is beside the datasheet's, how far off the products were, what failed.
"""

from __future__ import annotations

import datetime as dt
import os
import sys
import time

from trtprof.base.errors import CaptureError, TrtprofError
from trtprof.base.records import Ceilings
from trtprof.base.units import format_percent
from trtprof.hardware import calibration
from trtprof.hardware.cuda import _measure, calibrate
from trtprof.hardware.cuda._exchange import GpuMeasured
from trtprof.runtime import nvrtc


def selfcheck(index: int = 0, *, seconds: float = calibrate.SECONDS) -> int:
    """Measure in this very process and print all that was found; returns the exit code."""
    began = time.monotonic()
    try:
        gpu = calibrate.find(index)
        wanted = calibrate.request(gpu, seconds)
        os.environ.update(calibrate.environment(wanted))
        try:
            measured = _measure.measure(wanted)
        except nvrtc.CudaError as error:
            raise CaptureError("a function of CUDA failed", why=str(error), fix=calibrate.FIX) from None
        found = calibrate.ceilings_of(gpu, measured, now=dt.datetime.now(dt.UTC))
    except TrtprofError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    sys.stdout.write(table(found, measured, time.monotonic() - began) + "\n")
    return 0


def table(found: Ceilings, measured: GpuMeasured, seconds: float) -> str:
    """A row a measurement: its value, what share of the ideal it is, how far its repeats agree, what reached it."""
    ideal = calibrate.flat(found.best)
    width = max(map(len, found.measurements))
    lines = [f"{found.device}: {measured.architecture}, NVRTC {measured.nvrtc}, cuBLASLt {measured.cublas or 'absent'}"]
    for key, one in found.measurements.items():
        share = format_percent(one.value / ideal[key]) if ideal.get(key) else "-"
        spread = "-" if one.spread is None else format_percent(one.spread)
        lines.append(
            f"{key:<{width}} {calibration.rate(key, one.value):>14} {share:>8} {spread:>8} {one.repeats:>3}  {one.what}"
        )
    lines += [f"product {part}: error {error:.1e}" for part, error in sorted(measured.errors.items())]
    lines += [f"clock {when}: {mhz:.0f} MHz" for when, mhz in measured.clocks_mhz.items()]
    lines += [f"held down by {reason}: {format_percent(share)}" for reason, share in measured.held_down.items()]
    lines += [*(f"note: {note}" for note in measured.notes), found.source, f"took {seconds:.0f} s"]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(selfcheck(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
