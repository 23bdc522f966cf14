"""What the child that measures a CPU may have written. All numbers are invented for the tests."""

from __future__ import annotations

from trtprof.hardware._exchange import Measured
from trtprof.hardware._fit import Reading


def measured(threads: int, **changed: float) -> Measured:
    """Ceilings that rise with the number of threads, ``changed`` by name with an underscore for each space."""
    values = {"tensor fp32": 100e9 * threads, "tensor int8": 400e9 * threads, "dram": 30e9, "cache": 90e9 * threads}
    values |= {"gemm fp32 1024": 80e9 * threads, "gemm fp32 512": 100e9 * threads, "vector fp32": 40e9 * threads}
    values |= {"special exp": 5e9 * threads, "dram read": 25e9}
    values |= {"launch": 140.0 + threads, "call": 1600.0, "profiler": 1700.0, "profiler tensor": 80.0}
    values |= {"profiler gap": 500.0, "probe": 500_000.0}
    values |= {key.replace("_", " "): value for key, value in changed.items()}
    readings = {key: Reading(value, 0.01 * threads, 3, f"winner of {key}") for key, value in values.items()}
    return Measured(threads=threads, runtime="9.9", readings=readings, working_set=1 << 28, seconds=1.0)
