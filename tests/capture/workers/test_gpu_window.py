"""The profiled window: what watches it sees just the inferences that were asked for."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.support import refused
from trtprof.base.errors import CaptureError, MissingError
from trtprof.capture.cupti import activity as cupti
from trtprof.capture.workers import gpu_window
from trtprof.capture.workers.gpu_window import Watch, profile_window, watching


class Driver:
    """libcuda.so.1, as far as it is called; ``code`` is what it answers."""

    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Callable[[], int]:
        assert name in {"cuProfilerStart", "cuProfilerStop"}

        def call() -> int:
            self.asked.append(name)
            return self.code

        return call


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    fake = Driver()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: {"libcuda.so.1": fake}[name])
    return fake


def test_nsys_is_told_to_record_the_inferences_and_nothing_else(driver: Driver) -> None:
    with watching("nsys", nvtx=True) as watch:
        driver.asked.append("warm up")
        seen = profile_window(watch, lambda: driver.asked.append("infer"), 3)
        watch.save(Path("nowhere"))
    assert driver.asked == ["warm up", "cuProfilerStart", "infer", "infer", "infer", "cuProfilerStop"]
    assert seen.notes == ()
    assert watch.ahead_ns() is None, "its clock is not to be had here"


def test_a_driver_that_refuses_is_quoted(driver: Driver) -> None:
    driver.code = 201
    with watching("nsys", nvtx=True) as watch, pytest.raises(CaptureError) as caught:
        profile_window(watch, lambda: None, 1)
    assert "cuProfilerStart answered with error 201" in refused(caught.value)


def test_without_a_driver_nothing_can_be_marked_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_window, "_DRIVER", "libcuda-of-nobody.so.1")
    with pytest.raises(MissingError) as caught, watching("nsys", nvtx=True):
        pass
    assert "libcuda-of-nobody.so.1" in refused(caught.value)


@pytest.mark.parametrize("nvtx", [True, False])
def test_cupti_is_made_known_to_nvtx_before_it_is_opened(nvtx: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setenv("THE_INJECTION", "")

    @contextmanager
    def collecting(**named: bool) -> Iterator[str]:
        asked.append((named, os.environ["THE_INJECTION"]))
        yield "the collection"
        asked.append("closed")

    monkeypatch.setattr(cupti, "injection_environment", lambda: {"THE_INJECTION": "libcupti"})
    monkeypatch.setattr(cupti, "collecting", collecting)
    with watching("cupti", nvtx=nvtx) as watch:
        assert watch.notes == ()
    assert asked == [({"nvtx": nvtx}, "libcupti" if nvtx else ""), "closed"]


def test_inferences_are_timed_one_by_one_within_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0]

    def tick() -> int:
        now[0] += 1
        return now[0]

    monkeypatch.setattr(time, "time_ns", tick)
    monkeypatch.setattr(time, "monotonic_ns", tick)
    running: list[int] = []
    seen = profile_window(Watch(), lambda: running.append(tick()), 2)
    assert (seen.begin_ns, seen.bounds.tolist(), seen.end_ns) == (1, [[2, 4], [5, 7]], 8)
    assert running == [3, 6]
    assert seen.run_ns.tolist() == [2, 2]


def test_the_real_nvtx_takes_the_ranges() -> None:
    pytest.importorskip("nvtx", reason="the package nvtx is not installed")
    begin, end, notes = gpu_window._ranges()
    end(begin())
    assert notes == ()


def test_without_nvtx_the_inferences_run_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", None)
    running: list[int] = []
    seen = profile_window(Watch(), lambda: running.append(1), 2)
    assert len(running) == 2
    assert seen.notes == (gpu_window.NO_COLLECTOR, gpu_window.NO_RANGES)
