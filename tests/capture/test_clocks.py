"""Clocks of a GPU while something runs on it, read through a pynvml whose answers are given."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.fake_nvml import ENERGY, SM, STEADY, UUID, FakeNvml, drivers
from trtprof.base.records import ClockSummary, Spread
from trtprof.capture import clocks
from trtprof.capture.clocks import ClockSample

MS = 1_000_000


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., FakeNvml]]:
    """Put a driver with these answers in place of this machine's."""
    yield from drivers(monkeypatch)


def sampled(which: int | str = 0, samples: int = 3) -> ClockSummary:
    with clocks.sampling(which, step_s=0.001) as run:
        deadline = time.monotonic() + 30
        while len(run.samples()) < samples and time.monotonic() < deadline:
            time.sleep(0.001)
    return run.summary()


# --- the thread -----------------------------------------------------------------------------


def test_a_run_is_sampled_in_a_thread_until_it_ends(driver: Callable[..., FakeNvml]) -> None:
    fake = driver({**STEADY, SM: [1980, 1755, 1980], ENERGY: [1_000_000, 1_007_500]})
    with clocks.sampling(step_s=0.001) as run:
        while len(run.samples()) < 4:
            time.sleep(0.001)
    taken = len(run.samples())
    assert fake.threads == {"gpu-clocks"}
    assert not [thread for thread in threading.enumerate() if thread.name == "gpu-clocks"]
    summary = run.summary()
    assert summary.samples == taken >= 4
    assert summary.sm_clock_mhz == Spread(min=1755.0, median=1980.0, max=1980.0)
    assert summary.memory_clock_mhz == Spread(min=2619.0, median=2619.0, max=2619.0)
    assert summary.power_w == Spread(min=350.0, median=350.0, max=350.0)
    assert summary.temperature_c == Spread(min=55.0, median=55.0, max=55.0)
    assert summary.energy_j == 7.5
    assert summary.reasons == {}
    assert summary.notes == ()
    stamps = [sample.at_ns for sample in run.samples()]
    assert stamps == sorted(stamps)
    assert stamps[0] >= time.monotonic_ns() - 60e9, "the clock that other processes have too"


def test_a_run_shorter_than_a_step_has_its_start_and_its_end(driver: Callable[..., FakeNvml]) -> None:
    driver({**STEADY, SM: [210, 1980]})
    with clocks.sampling(step_s=3600.0) as run:
        while not run.samples():
            time.sleep(0.001)
    summary = run.summary()
    assert summary.samples == 2
    assert summary.sm_clock_mhz == Spread(min=210.0, median=1095.0, max=1980.0)


def test_the_thread_ends_when_the_block_fails(driver: Callable[..., FakeNvml]) -> None:
    driver(STEADY)
    with pytest.raises(KeyboardInterrupt), clocks.sampling(step_s=0.001):
        raise KeyboardInterrupt
    assert not [thread for thread in threading.enumerate() if thread.name == "gpu-clocks"]


def test_the_gpu_is_found_by_uuid_and_a_slice_by_its_board(driver: Callable[..., FakeNvml]) -> None:
    driver(STEADY, slices={0: {"nvmlDeviceGetUUID": "MIG-1"}})
    assert sampled(UUID).sm_clock_mhz == Spread(min=1980.0, median=1980.0, max=1980.0)
    assert sampled("MIG-1").sm_clock_mhz == Spread(min=1980.0, median=1980.0, max=1980.0)


# --- what cannot be read is a note, never an error ------------------------------------------


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "no NVIDIA driver is installed"),
        (pynvml.NVML_ERROR_NO_PERMISSION, "may not talk to the NVIDIA driver"),
        (pynvml.NVML_ERROR_UNKNOWN, "NVML does not start"),
    ],
)
def test_without_nvml_there_is_a_note(driver: Callable[..., FakeNvml], code: int, words: str) -> None:
    driver(STEADY, start=code)
    with clocks.sampling() as run:
        pass
    summary = run.summary()
    assert (summary.samples, summary.sm_clock_mhz, summary.reasons) == (0, None, None)
    (note,) = summary.notes
    assert words in note


def test_without_the_package_there_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with clocks.sampling() as run:
        pass
    assert "pip install nvidia-ml-py" in run.summary().notes[0]


def test_a_gpu_that_is_not_there_is_a_note(driver: Callable[..., FakeNvml]) -> None:
    driver(STEADY)
    with clocks.sampling(5) as run:
        pass
    assert run.summary().notes == ("the NVIDIA driver has no GPU 5, or this user may not read it",)


def test_this_machine_gives_readings_or_a_note() -> None:
    with clocks.sampling(step_s=0.001) as run:
        pass
    summary = run.summary()
    assert summary.samples or summary.notes


@pytest.mark.parametrize("question", list(STEADY), ids=str)
@pytest.mark.parametrize("error", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NO_PERMISSION,
                                   pynvml.NVML_ERROR_GPU_IS_LOST, 4711])  # fmt: skip
def test_one_question_refused_loses_no_other_reading(
    driver: Callable[..., FakeNvml], question: Any, error: int
) -> None:
    driver(STEADY)
    whole = msgspec.to_builtins(sampled(samples=2))
    driver({**STEADY, question: pynvml.NVMLError(error)})
    less = msgspec.to_builtins(sampled(samples=2))
    varying = {"samples", "duration_ns", "notes"}
    lost = {key for key in whole if key not in varying and whole[key] != less[key]}
    assert len(lost) == 1
    assert [less[key] for key in lost] == [None]
    assert lost == {"energy_j"} or "does not tell" in less["notes"][0]


def test_a_gpu_lost_half_way_keeps_what_was_read(driver: Callable[..., FakeNvml]) -> None:
    lost = pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
    driver({question: [told, lost] for question, told in STEADY.items()})
    summary = sampled(samples=3)
    assert summary.samples >= 3
    assert summary.sm_clock_mhz == Spread(min=1980.0, median=1980.0, max=1980.0)
    assert summary.energy_j is None
    assert summary.notes == ()


# --- the summary ----------------------------------------------------------------------------


def at(ms: float, sm: float | None = 1980.0, reasons: tuple[str, ...] | None = (), **more: Any) -> ClockSample:
    return ClockSample(at_ns=round(ms * MS), sm_clock_mhz=sm, reasons=reasons, **more)


def test_reasons_have_their_share_of_the_time_not_of_the_samples() -> None:
    samples = [at(0, reasons=("idle",)), at(10), at(20, reasons=("power cap", "hardware slowdown")), at(80), at(100)]
    assert clocks.summarize(samples).reasons == {"hardware slowdown": 0.6, "power cap": 0.6, "idle": 0.1}
    assert clocks.summarize(samples[2:3]).reasons == {"hardware slowdown": 1.0, "power cap": 1.0}


def test_a_window_leaves_out_what_lies_around_it() -> None:
    samples = [
        at(0, 210, energy_j=1.0),
        at(20, 1980, energy_j=8.0),
        at(40, 1755, energy_j=15.0),
        at(60, 210, energy_j=16.0),
    ]
    summary = clocks.summarize(samples, 20 * MS, 40 * MS)
    assert (summary.samples, summary.duration_ns, summary.energy_j) == (2, 20 * MS, 7.0)
    assert summary.sm_clock_mhz == Spread(min=1755.0, median=1867.5, max=1980.0)
    none = clocks.summarize(samples, 21 * MS, 39 * MS)
    assert none.samples == 0
    assert none.notes == ("no sample was taken in that time",)


def test_an_energy_counter_that_was_reset_tells_nothing() -> None:
    assert clocks.summarize([at(0, energy_j=900.0), at(20, energy_j=3.0)]).energy_j is None
    assert clocks.summarize([at(0, energy_j=900.0)]).energy_j is None


def test_what_is_not_told_is_not_zero() -> None:
    summary = clocks.summarize([at(0, None, None), at(20, None, None)])
    assert (summary.sm_clock_mhz, summary.power_w, summary.energy_j, summary.reasons) == (None, None, None, None)
    assert summary.notes == (
        "the driver does not tell: SM clock, memory clock, power, temperature, what holds the clocks down",
    )


READING = st.none() | st.floats(0, 1e5)
SAMPLES = st.lists(
    st.tuples(
        st.integers(1, 10**9), READING, READING, READING, READING,
        st.none() | st.lists(st.sampled_from(["idle", "power cap", "hardware slowdown"]), unique=True).map(tuple),
    ),
    min_size=1,
)  # fmt: skip


@given(SAMPLES)
def test_whatever_is_sampled_the_summary_holds_it(steps: list[Any]) -> None:
    at_ns = 0
    samples = []
    for step, sm, memory, power, energy, reasons in steps:
        at_ns += step
        samples.append(ClockSample(at_ns, sm, memory, power, None, energy, reasons))
    summary = clocks.summarize(samples)
    assert summary.duration_ns == samples[-1].at_ns - samples[0].at_ns
    told = [sample.sm_clock_mhz for sample in samples if sample.sm_clock_mhz is not None]
    if summary.sm_clock_mhz is None:
        assert not told
    else:
        assert summary.sm_clock_mhz.min == min(told)
        assert summary.sm_clock_mhz.min <= summary.sm_clock_mhz.median <= summary.sm_clock_mhz.max == max(told)
    assert summary.energy_j is None or summary.energy_j >= 0
    if summary.reasons is not None:
        shares = list(summary.reasons.values())
        assert shares == sorted(shares, reverse=True)
        assert all(0 < share <= 1 for share in shares)
        assert set(summary.reasons) <= {reason for sample in samples for reason in sample.reasons or ()}
    assert msgspec.json.decode(msgspec.json.encode(summary), type=ClockSummary) == summary
