"""Ceilings at the clocks of a run: what scales with which clock, from which one, and what is said of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trtprof.base.records import Ceilings, ClockSummary, Roof, Spread
from trtprof.hardware import gpus
from trtprof.hardware.clocked import MEMORY, at_clock, sm_clock_mhz

A40 = gpus.find("a40")
"""Boost and tensor clock are both 1,740 MHz."""
H100 = gpus.find("h100-sxm5")
"""1,980 MHz, and 1,830 MHz behind the peaks of the tensor cores."""

SLUGS = st.sampled_from(["a40", "h100-sxm5", "rtx-4090", "gtx-1650", "b200", "v100-sxm2", "t4"])
CLOCKS = st.integers(min_value=1, max_value=4000).map(float)


def clocks(sm: float | None, memory: float | None = None, **changes: Any) -> ClockSummary:
    """Samples at one clock throughout."""

    def spread(mhz: float | None) -> Spread | None:
        return None if mhz is None else Spread(min=mhz, median=mhz, max=mhz)

    fields = {"sm_clock_mhz": spread(sm), "memory_clock_mhz": spread(memory), **changes}
    return ClockSummary(samples=50, duration_ns=1_000_000_000, **fields)


def calibrated(
    slug: str = "a40", sm_mhz: float = 1600.0, share: float = 0.8, memory_mhz: float | None = None
) -> Ceilings:
    """Ceilings measured at ``share`` of the datasheet's."""
    sheet = gpus.ceilings(gpus.find(slug))
    return msgspec.structs.replace(
        sheet, origin="measured", source="Measured in a test.",
        attainable=Roof(**{name: scaled(rate, share) for name, rate in msgspec.structs.asdict(sheet.best).items()}),
        clocks_mhz={"before": 210.0, "during": sm_mhz, "after": 1740.0} | ({MEMORY: memory_mhz} if memory_mhz else {}),
    )  # fmt: skip


def scaled(rate: Any, factor: float) -> Any:
    return {name: value * factor for name, value in rate.items()} if isinstance(rate, dict) else rate * factor


def rates(roof: Roof) -> dict[str, float]:
    """All ceilings of a roof by a name of their own."""
    found: dict[str, float] = {}
    for name, rate in msgspec.structs.asdict(roof).items():
        found |= {f"{name} {key}": value for key, value in rate.items()} if isinstance(rate, dict) else {name: rate}
    return found


def assert_not_above(low: Roof, high: Roof) -> None:
    above = rates(high)
    assert all(rate <= above[name] * (1 + 1e-12) for name, rate in rates(low).items() if name in above)


# --- a datasheet ----------------------------------------------------------------------------


def test_a_lower_clock_of_the_sms_lowers_what_is_attainable_but_dram_the_launch_and_ideal() -> None:
    sheet = gpus.ceilings(A40)
    found, (words, dram) = at_clock(sheet, clocks(1410, 7000, reasons={"idle": 0.02, "power cap": 0.93}), A40)
    expected = gpus.ceilings(A40, clock_mhz=1410)
    assert rates(found.attainable) == pytest.approx(rates(expected.attainable))
    assert found.best == sheet.best
    assert found.launch_ns == sheet.launch_ns
    assert found.attainable.dram_bytes_per_s == sheet.attainable.dram_bytes_per_s
    assert words == (
        "the SMs ran at 1,410 MHz, 81 % of the 1,740 MHz that the peaks are for; it was held down by power cap "
        "(93 % of the time): peaks and L2 bandwidth that count as attainable are scaled by it"
    )
    assert "DRAM bandwidth is not scaled to the clock of the memory, 7,000 MHz" in dram
    assert found.source.endswith("; scaled to the clocks of the run")


def test_tensor_cores_go_by_their_own_clock_and_cuda_cores_by_the_boost_clock() -> None:
    sheet = gpus.ceilings(H100)
    found, notes = at_clock(sheet, clocks(1755), H100)
    before, after = sheet.attainable, found.attainable
    assert after.tensor_flops_per_s["fp16"] == pytest.approx(before.tensor_flops_per_s["fp16"] * 1755 / 1830)
    assert after.vector_flops_per_s["fp16"] == pytest.approx(before.vector_flops_per_s["fp16"] * 1755 / 1980)
    # int32 has no tensor cores: it is multiplied where it is added.
    assert after.tensor_flops_per_s["int32"] == after.vector_flops_per_s["int32"]
    assert found.best == sheet.best
    assert "89 % of the 1,980 MHz that the peaks are for (1,830 MHz those of the tensor cores)" in notes[0]
    assert "ideal" not in notes[0]


def test_a_gpu_that_clocks_above_its_datasheet_raises_ideal_too() -> None:
    sheet = gpus.ceilings(A40)
    boosted = clocks(1800, sm_clock_mhz=Spread(min=1700, median=1800, max=1914))
    found, notes = at_clock(sheet, boosted, A40)
    assert found.attainable.tensor_flops_per_s["fp16"] == pytest.approx(
        sheet.attainable.tensor_flops_per_s["fp16"] * 1800 / 1740
    )
    # A kernel may have run at the highest clock that was seen: it is not above the roof for that.
    assert found.best.tensor_flops_per_s["fp16"] == pytest.approx(sheet.best.tensor_flops_per_s["fp16"] * 1.1)
    assert found.best.cache_bytes_per_s == pytest.approx(sheet.best.cache_bytes_per_s * 1.1)
    assert found.best.dram_bytes_per_s == sheet.best.dram_bytes_per_s
    assert "103 % of the 1,740 MHz" in notes[0]
    assert "ideal is at 1,914 MHz, the highest clock seen, where that is more than its peaks are for" in notes[0]


def test_the_memory_of_a_geforce_runs_below_the_clock_of_its_datasheet() -> None:
    spec = gpus.find("rtx-4090")
    sheet = gpus.ceilings(spec)
    found, notes = at_clock(sheet, clocks(2520, 10251), spec, max_memory_clock_mhz=10501)
    assert found.attainable.dram_bytes_per_s == pytest.approx(1.008e12 * 10251 / 10501, rel=1e-3)
    assert found.best == sheet.best
    assert found.attainable.vector_flops_per_s == sheet.attainable.vector_flops_per_s
    assert " ".join(notes) == (
        "the memory ran at 10,251 MHz, 98 % of the 10,501 MHz that its bandwidth is for: DRAM bandwidth that counts "
        "as attainable is scaled by it"
    )
    faster, _ = at_clock(sheet, clocks(2520, 11000), spec, max_memory_clock_mhz=10501)
    assert faster.best.dram_bytes_per_s == faster.attainable.dram_bytes_per_s > sheet.best.dram_bytes_per_s


# --- measured ceilings ----------------------------------------------------------------------


def test_measured_ceilings_go_by_the_clocks_at_their_calibration() -> None:
    kept = calibrated(memory_mhz=7000.0)
    found, notes = at_clock(kept, clocks(1400, 6300), A40, max_memory_clock_mhz=7251)
    before, after = kept.attainable, found.attainable
    assert after.tensor_flops_per_s["fp16"] == pytest.approx(before.tensor_flops_per_s["fp16"] * 0.875)
    assert after.special_per_s["exp"] == pytest.approx(before.special_per_s["exp"] * 0.875)
    assert after.cache_bytes_per_s == pytest.approx(before.cache_bytes_per_s * 0.875)
    assert after.dram_bytes_per_s == pytest.approx(before.dram_bytes_per_s * 0.9)
    assert found.best == kept.best
    assert found.measurements == kept.measurements
    assert "88 % of the 1,600 MHz that the peaks were measured at" in notes[0]
    assert "90 % of the 7,000 MHz that its bandwidth was measured at" in notes[1]
    assert found.source == "Measured in a test; scaled to the clocks of the run"


def test_a_best_that_was_measured_goes_by_the_clock_of_its_measurement() -> None:
    """A board that boosts above its datasheet was calibrated so: the same clock in the run raises nothing again."""
    kept = calibrated(sm_mhz=1900.0, share=1.05)
    kept = msgspec.structs.replace(kept, best=kept.attainable)
    same, _ = at_clock(kept, clocks(1900), A40)
    assert same.best == kept.best
    assert same.attainable == kept.attainable
    faster, _ = at_clock(kept, clocks(1995), A40)
    assert faster.best.cache_bytes_per_s == pytest.approx(kept.best.cache_bytes_per_s * 1.05)
    assert faster.best.vector_flops_per_s == faster.attainable.vector_flops_per_s


def test_without_the_clock_of_the_calibration_nothing_is_scaled_and_that_is_said() -> None:
    kept = msgspec.structs.replace(calibrated(), clocks_mhz={})
    found, notes = at_clock(kept, clocks(1400, 7000), A40, max_memory_clock_mhz=7251)
    assert found is kept
    assert "the clock at which they were measured is not known" in notes[0]
    assert "DRAM bandwidth is not scaled" in notes[1]


# --- what is not known ----------------------------------------------------------------------


def test_without_clocks_the_ceilings_stay_the_same_object() -> None:
    sheet = gpus.ceilings(A40)
    assert at_clock(sheet, None, A40) == (sheet, ())
    silent = ClockSummary(samples=0, duration_ns=0, notes=("no NVML here",))
    found, notes = at_clock(sheet, silent, A40, profiled=silent)
    assert found is sheet
    assert notes == ("ceilings are not scaled to the clocks of the run, which are not known: no NVML here",)
    assert sm_clock_mhz(None, silent) is None


def test_kernels_go_by_the_clock_that_they_were_timed_at() -> None:
    sheet = gpus.ceilings(A40)
    both, _ = at_clock(sheet, clocks(1410), A40, profiled=clocks(1740))
    assert both.attainable == sheet.attainable
    untold, _ = at_clock(sheet, clocks(1410), A40, profiled=ClockSummary(samples=0, duration_ns=0))
    assert untold.attainable == at_clock(sheet, clocks(1410), A40)[0].attainable
    assert sm_clock_mhz(clocks(1410), clocks(1740)) == 1740
    assert sm_clock_mhz(clocks(1410), clocks(None)) == 1410


# --- laws -----------------------------------------------------------------------------------


def some(slug: str, share: float | None, mhz: float) -> Ceilings:
    """The datasheet, or ceilings measured at ``mhz``."""
    return gpus.ceilings(gpus.find(slug)) if share is None else calibrated(slug, mhz, share, mhz)


SHARES = st.none() | st.floats(min_value=0.1, max_value=1.0)


@given(slug=SLUGS, share=SHARES, calibration=CLOCKS, low=CLOCKS, high=CLOCKS)
def test_more_clock_never_lowers_a_ceiling(
    slug: str, share: float | None, calibration: float, low: float, high: float
) -> None:
    low, high = sorted((low, high))
    kept, spec = some(slug, share, calibration), gpus.find(slug)
    slower, faster = (at_clock(kept, clocks(mhz, mhz), spec, max_memory_clock_mhz=2000)[0] for mhz in (low, high))
    assert_not_above(slower.attainable, faster.attainable)
    assert_not_above(slower.best, faster.best)


@given(slug=SLUGS, share=SHARES, calibration=CLOCKS, median=CLOCKS, more=st.floats(1.0, 2.0))
def test_what_is_attainable_is_never_above_ideal_and_ideal_never_sinks(
    slug: str, share: float | None, calibration: float, median: float, more: float
) -> None:
    kept, spec = some(slug, share, calibration), gpus.find(slug)
    spread = Spread(min=1.0, median=median, max=median * more)
    during = clocks(None, sm_clock_mhz=spread, memory_clock_mhz=spread)
    found, _ = at_clock(kept, during, spec, max_memory_clock_mhz=2000)
    assert_not_above(found.attainable, found.best)
    assert_not_above(kept.best, found.best)
    assert rates(found.attainable).keys() == rates(kept.attainable).keys()
    assert all(rate > 0 for rate in rates(found.attainable).values())


@given(slug=SLUGS, share=st.floats(min_value=0.1, max_value=1.0), mhz=st.integers(200, 1000).map(float))
def test_at_the_clocks_of_their_calibration_ceilings_stay_the_same_to_the_bit(
    slug: str, share: float, mhz: float
) -> None:
    kept = calibrated(slug, mhz, share, mhz)
    assert at_clock(kept, clocks(mhz, mhz), gpus.find(slug), max_memory_clock_mhz=1000) == (kept, ())
