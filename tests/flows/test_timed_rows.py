"""Kernels that `trtprof calibrate` times: kept beside the ceilings, and used without being asked for."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from trtprof.base.errors import CaptureError, UsageError
from trtprof.base.records import LiveGpu, Work
from trtprof.expected import expect, read_measured, works_to_time
from trtprof.flows import timed_rows
from trtprof.flows.timed_rows import time_kernels, timed_on
from trtprof.hardware import gpus, store
from trtprof.hardware.cuda._exchange import KernelShape, KernelsMeasured
from trtprof.hardware.cuda._kernels import ROW_LENGTHS
from trtprof.hardware.cuda.kernel_times import KernelTimes

L4 = LiveGpu(
    index=0, uuid="GPU-1", name="NVIDIA L4", compute_capability="8.9", memory_bytes=24_152_899_584, driver="580.0",
)  # fmt: skip
SPEC = gpus.find("l4")
CEILINGS = gpus.ceilings(SPEC, tf32=False)
TOLD = KernelsMeasured(
    name="NVIDIA L4", architecture="sm_89", nvrtc="13.4", cublas="13.1.0", l2_bytes=1, pool_bytes=1,
    clocks_mhz={"during": 1600.0}, held_down={"power cap": 0.6}, notes=("one could not be timed",),
)  # fmt: skip


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRTPROF_CACHE_DIR", str(tmp_path / "cache"))
    works = expected()[0]
    monkeypatch.setattr(timed_rows, "works_to_time", lambda *_: works)
    return tmp_path / "cache"


@functools.cache
def expected() -> tuple[tuple[Work, ...], list[int]]:
    """What is timed, and what is expected of it."""
    works = works_to_time(SPEC, CEILINGS, ROW_LENGTHS)
    return works, [one.expected_ns or 0 for one in expect(works, SPEC, CEILINGS, tf32=False)]


class Timer:
    """Takes for each kernel a multiple of what is expected of it, for as many as it is let."""

    def __init__(self, *, most: int = 1000, stopped: BaseException | None = None, factor: float = 1.5) -> None:
        self.most, self.stopped, self.factor = most, stopped, factor
        self.shapes: Sequence[KernelShape] = ()

    def __call__(self, _: LiveGpu, shapes: Sequence[KernelShape], **__: object) -> KernelTimes:
        self.shapes = shapes
        times = {at: self.factor * ns for at, ns in enumerate(expected()[1][: self.most])}
        return KernelTimes(times, TOLD if self.stopped is None else None, self.stopped)  # type: ignore[arg-type]


def test_what_is_timed_is_kept_beside_the_ceilings_and_used_for_that_gpu(cache: Path) -> None:
    timer = Timer()
    kept = time_kernels(L4, seconds=1.0, measure=timer)
    assert kept.path is not None
    assert kept.path.parent == store.of_gpu(L4).path.parent == cache
    assert kept.corrected is not None
    assert (kept.corrected.rows, kept.corrected.left_out, kept.corrected.gpu) == (len(timer.shapes), 0, "NVIDIA L4")
    assert kept.notes == ("one could not be timed",)
    text = kept.path.read_text()
    assert "# held down by power cap: 60% of the time\n" in text
    assert "# library: cuBLASLt 13.1.0\n" in text
    # Every row is read back as the work that was timed.
    rows = read_measured(kept.path).rows()
    assert [row.work for row in rows] == list(expected()[0])
    for found in (timed_on(None, [SPEC]), timed_on(None, [SPEC, gpus.find("t4")]), timed_on(None, [SPEC], live=L4)):
        assert set(found) == {"l4"}
        assert found["l4"].timed_at
    assert timed_rows.kept_of(L4).corrected == kept.corrected


def test_they_are_of_no_other_gpu_and_can_be_left_out_or_replaced_by_rows_of_a_person(tmp_path: Path) -> None:
    time_kernels(L4, seconds=1.0, measure=Timer())
    other = msgspec.structs.replace(L4, uuid="GPU-2")
    assert timed_on(None, [SPEC], live=other) == {}, "a run is corrected by rows of its own board"
    assert timed_on(None, [gpus.find("t4")]) == {}
    assert timed_on("none", [SPEC]) == {}
    mine = tmp_path / "rows.csv"
    mine.write_text("kind,dtype,m,n,k,ns\nproduct,bf16,64,64,64,5000\n")
    assert timed_on(str(mine), [SPEC])["l4"].source == "rows.csv"
    with pytest.raises(UsageError, match="of which GPU"):
        timed_on(str(mine), [SPEC, gpus.find("t4")])


def test_a_kept_table_that_is_damaged_is_said_and_not_used(cache: Path) -> None:
    time_kernels(L4, seconds=1.0, measure=Timer())
    path = store.kernels_of_gpu(L4)
    path.write_text(path.read_text().replace("product,", "produce,", 1))
    said: list[str] = []
    assert timed_on(None, [SPEC], say=said.append) == {}
    assert said[0].startswith("kernels that were timed are not used: line ")


@pytest.mark.parametrize("stopped", [CaptureError("it died", why="SIGSEGV", fix="again"), KeyboardInterrupt()])
def test_an_interruption_loses_nothing(stopped: BaseException) -> None:
    part = Timer(most=40, stopped=stopped)

    def calibrate() -> None:
        if isinstance(stopped, KeyboardInterrupt):
            with pytest.raises(KeyboardInterrupt):
                time_kernels(L4, seconds=1.0, measure=part)
        else:
            assert time_kernels(L4, seconds=1.0, measure=part).notes[0].startswith("kernels were timed in part, 40 of")

    calibrate()
    assert len(timed_on(None, [SPEC])["l4"].rows()) == 40, "the part that was timed is better than nothing"
    time_kernels(L4, seconds=1.0, measure=Timer())
    calibrate()
    assert len(timed_on(None, [SPEC])["l4"].rows()) > 200, "and does not replace what is whole"


def test_a_gpu_without_a_datasheet_is_not_timed() -> None:
    unknown = msgspec.structs.replace(L4, name="NVIDIA Z9", sms=10, l2_bytes=1 << 20, bus_bits=128,
                                      max_sm_clock_mhz=1500, max_memory_clock_mhz=5000)  # fmt: skip
    kept = time_kernels(unknown, seconds=1.0, measure=Timer())
    assert kept.path is None
    assert "no datasheet is of NVIDIA Z9" in kept.notes[0]
