"""The parent of a capture on a GPU: a worker that plays, nsys and NVML that are fakes, files that are real."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.fakes.fake_gpu_worker import CLEAN, UNDER
from tests.fakes.fake_nsys import NVTX_WORKER, FakeNsys, play
from tests.fakes.fake_nvml import SM, STEADY, UUID, FakeNvml, drivers
from tests.fakes.in_process import call_telling
from tests.fakes.support import H100, ROOT, needs_captures, one_at_a_time, refused
from tests.fakes.trace_factory import ENGINE, KERNELS, Process, Rows, Truth, Work, global_tid, write_trace
from trtprof.base.errors import CaptureError, MissingError, TrtprofError
from trtprof.base.records import InputTensor, Spread
from trtprof.base.trace_file import FACTS_FILE, load_trace
from trtprof.capture import clocks, gpu_launch
from trtprof.capture.cupti import activity as cupti
from trtprof.capture.gpu_launch import capture_gpu, choose_collector
from trtprof.capture.gpu_record import GpuCapture, OrtCudaRequest, TensorrtRequest
from trtprof.capture.nsys import _find as _nsys_find
from trtprof.capture.nsys import _process as _nsys_process
from trtprof.capture.nsys import record as nsys
from trtprof.capture.nsys.trace import read_trace
from trtprof.runtime import child
from trtprof.runtime.ort_session import SessionRequest

REAL = os.environ.get("TRTPROF_NSYS") or shutil.which("nsys")
"""As the tests found it: a fixture hides it from all but those of the real one."""
WORKER = "tests.fakes.fake_gpu_worker"
INJECTED = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No nsys, no CUPTI and no driver of this machine; the fake worker can be imported by a child."""
    for variable in ("TRTPROF_NSYS", "NSYS_PROFILING_SESSION_ID", *INJECTED):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(_nsys_find, "_USUAL_PLACES", (str(tmp_path / "usual" / "*" / "target-linux-*" / "nsys"),))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    real = shutil.which
    monkeypatch.setattr(
        shutil, "which", lambda name: found if (found := real(name)) and tmp_path in Path(found).parents else None
    )
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    no_cupti(monkeypatch)
    started = child.run_telling

    def dies(request: str) -> bool:
        """A worker that waits or is killed is a child; the others are called."""
        told = Path(request).with_name("behaviour.json")
        return told.exists() and any({"signal", "wait"} & set(how) for how in json.loads(told.read_text()).values())

    monkeypatch.setattr(
        child, "run_telling", lambda command, *given: (started if dies(command[-1]) else call_telling)(command, *given)
    )
    play(monkeypatch, dies)


def no_cupti(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise MissingError(
            "CUPTI cannot be used", why="the package cupti-python is not installed", fix="pip install it"
        )

    monkeypatch.setattr(cupti, "require", absent)


@pytest.fixture
def with_cupti(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUPTI could be used here."""
    monkeypatch.setattr(cupti, "require", lambda: None)
    monkeypatch.setattr(cupti, "_library", lambda: Path("/nvidia/libcupti.so.13"))


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNsys:
    """A fake nsys, first on the PATH."""
    made = FakeNsys(tmp_path / "nsight")
    monkeypatch.setenv("PATH", f"{made.folder}:/usr/bin:/bin")
    return made


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., FakeNvml]]:
    """A driver with these answers."""
    yield from drivers(monkeypatch)


class Bench:
    """A run folder, a scratch folder and a request."""

    def __init__(self, folder: Path) -> None:
        self.run, self.scratch = folder / "run", folder / "scratch"
        self.run.mkdir()
        self.scratch.mkdir()
        self.lines: list[str] = []
        self.request: gpu_launch.Request = OrtCudaRequest(
            phase="profiled",
            session=SessionRequest(model="m.onnx", threads=3),
            graph_file="engine.onnx",
            folder=str(self.run),
            scratch=str(self.scratch),
            inputs=(InputTensor(name="x", dtype="fp32", shape=(4,)),),
            layers=2,
            seed=0,
            iterations=3,
            warmup_ms=1.0,
            duration_s=0.0,
            profile_iterations=3,
        )

    def of_tensorrt(self) -> None:
        """Ask for an engine of TensorRT instead."""
        shared = ("phase", "folder", "scratch", "inputs", "layers", "seed", "iterations", "warmup_ms", "duration_s",
                  "profile_iterations")  # fmt: skip
        given = {name: getattr(self.request, name) for name in shared}
        self.request = TensorrtRequest(**given, backend="tensorrt", engine="m.engine")

    def behave(self, **phases: dict[str, Any]) -> None:
        (self.scratch / "behaviour.json").write_text(json.dumps(phases))

    def capture(self, asked: gpu_launch.AskedCollector = "auto", gpu: int | str = 0) -> GpuCapture:
        return capture_gpu(self.request, WORKER, asked, self.lines.append, gpu=gpu)

    def seen(self, phase: str) -> dict[str, Any]:
        """What the worker was asked, and its environment."""
        return dict(json.loads((self.scratch / f"{phase}_run.json").read_text()))

    def ran(self, phase: str) -> bool:
        return (self.scratch / f"{phase}_run.json").exists()

    def files(self) -> list[str]:
        return sorted(path.name for path in self.run.iterdir())


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


TRACE_FILES = ["gpu_graph_nodes.parquet", "gpu_launches.parquet", "gpu_ranges.parquet", "gpu_trace.json",
               "gpu_work.parquet"]  # fmt: skip
KEPT_CLEAN = ["clean.json", "clean_clocks.json", "latency.parquet"]


def exported(fake: FakeNsys, **options: Any) -> Truth:
    """What the fake nsys exports: an engine with layers of all sorts, inferred three times."""
    return write_trace(fake.folder / "export.sqlite", [Process(pid=4711, layers=ENGINE)], **options)


def cupti_trace(folder: Path, **options: Any) -> tuple[str, Truth]:
    """What the fake worker saves as seen by CUPTI."""
    path = folder / "cupti.sqlite"
    return str(path), write_trace(path, [Process(pid=4712, layers=ENGINE)], **options)


def kernel_ns(folder: Path) -> int:
    work = load_trace(folder).work
    kernels = work[work["kind"] == "kernel"]
    return int((kernels["end_ns"] - kernels["start_ns"]).sum())


# --- which collector ------------------------------------------------------------------------


def test_auto_takes_nsys_first(fake: FakeNsys, with_cupti: None) -> None:
    name, reason, _ = choose_collector("auto")
    assert name == "nsys"
    assert reason == f"nsys 2023.4.4.54 ({fake.path}): it is the first on the PATH"


def test_auto_takes_cupti_where_nsys_is_absent_and_says_so(with_cupti: None) -> None:
    name, reason, _ = choose_collector("auto")
    assert name == "cupti"
    assert "nsys cannot be used: Nsight Systems (nsys) is not installed here" in reason


def test_auto_takes_cupti_where_nsys_is_too_old(fake: FakeNsys, with_cupti: None) -> None:
    fake.behave(version="NVIDIA Nsight Systems version 2021.3.1.54-1", help="")
    name, reason, _ = choose_collector("auto")
    assert name == "cupti"
    assert "too old" in reason


def test_auto_with_neither_names_both_reasons_and_the_way_out() -> None:
    with pytest.raises(MissingError) as error:
        choose_collector("auto")
    message = refused(error.value)
    assert error.value.exit_code == 3
    for words in ("nsys", "cupti-python is not installed", "pip install it", "TRTPROF_NSYS", "--collector none"):
        assert words in message


def test_what_is_asked_for_by_name_is_taken(fake: FakeNsys, with_cupti: None) -> None:
    assert choose_collector("cupti") == ("cupti", "asked for", None)
    name, reason, _ = choose_collector("nsys")
    assert name == "nsys"
    assert "asked for" in reason
    assert choose_collector("none")[0] == "none"


def test_nsys_asked_for_and_absent_is_refused(with_cupti: None) -> None:
    with pytest.raises(MissingError, match="not installed here") as error:
        choose_collector("nsys")
    message = refused(error.value)
    assert "--collector cupti" in message
    assert "--collector none" in message


def test_cupti_asked_for_and_absent_is_refused(fake: FakeNsys) -> None:
    with pytest.raises(MissingError, match="CUPTI cannot be used") as error:
        choose_collector("cupti")
    message = refused(error.value)
    assert "--collector nsys" in message
    assert "--collector none" in message


def test_under_another_profiler_nothing_is_measured(
    fake: FakeNsys, with_cupti: None, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for asked in ("auto", "none"):
        with monkeypatch.context() as patch:
            patch.setenv("NSYS_PROFILING_SESSION_ID", "4711")
            with pytest.raises(CaptureError, match="runs under nsys") as error:
                bench.capture(asked)
        assert "one subscriber" in refused(error.value)
    assert not bench.ran("clean")


# --- a capture under nsys -------------------------------------------------------------------


def test_a_capture_under_nsys_is_whole(fake: FakeNsys, bench: Bench) -> None:
    truth = exported(fake)
    fake.behave(first=["WARNING: CPU context switches trace requires privileges, disabling."])
    found = bench.capture()
    assert found.collector == "nsys"
    assert found.collector_reason == choose_collector("auto")[1]
    assert (found.latency, found.profiled) == (CLEAN, UNDER)
    assert (found.warmup_iterations, found.threads, found.inputs) == (5, 3, bench.request.inputs)
    assert found.versions == {"nsys": "2026.2.1.210"}, "of the file that was read"
    assert found.notes == ("nsys: CPU context switches trace requires privileges, disabling.",)
    assert bench.files() == sorted(["capture.json", "latency.parquet", "nsys.log", "nsys.nsys-rep", *TRACE_FILES]), (
        "the report is kept, its export and what was under way are not"
    )
    assert msgspec.json.decode((bench.run / "capture.json").read_bytes(), type=GpuCapture) == found
    assert kernel_ns(bench.run) == truth.kernel_ns, "no kernel time is lost or made"
    assert len(load_trace(bench.run).work) == len(truth.work)


def test_the_command_that_is_kept_is_the_one_that_ran(fake: FakeNsys, bench: Bench) -> None:
    exported(fake)
    found = bench.capture()
    (ran,) = [call for call in fake.calls() if call[0] == "profile" and "--help" not in call]
    assert list(found.command) == [str(fake.path), *ran]
    assert found.command[-2:-1] == (WORKER,)
    assert str(bench.run / "nsys") in found.command
    assert (bench.run / "nsys.log").read_text().startswith(f"$ {shlex.quote(str(fake.path))} profile ")


def test_each_phase_is_asked_for_by_itself(fake: FakeNsys, bench: Bench) -> None:
    exported(fake)
    bench.capture()
    asked = {phase: bench.seen(phase)["request"] for phase in ("clean", "profiled")}
    assert [(asked[phase]["phase"], asked[phase]["collector"]) for phase in asked] == [
        ("clean", "none"),
        ("profiled", "nsys"),
    ]
    for phase in asked.values():
        assert {key: phase[key] for key in ("folder", "scratch", "iterations", "seed")} == {
            "folder": str(bench.run), "scratch": str(bench.scratch), "iterations": 3, "seed": 0,
        }  # fmt: skip


def test_what_is_going_on_is_said(fake: FakeNsys, bench: Bench) -> None:
    exported(fake)
    bench.capture()
    assert bench.lines[:3] == ["clean begins", f"collector nsys: {choose_collector('auto')[1]}", "profiled begins"]
    assert bench.lines[3] == "nsys writes its report"
    assert bench.lines[4].startswith("exporting nsys.nsys-rep")
    assert bench.lines[5:] == ["reading the capture", "nsys.nsys-rep (6.00 B) is kept, its SQLite export is not"]


def test_an_engine_of_tensorrt_is_asked_for_in_the_same_way(fake: FakeNsys, bench: Bench) -> None:
    exported(fake)
    bench.of_tensorrt()
    found = bench.capture("nsys")
    assert (found.collector, found.threads) == ("nsys", 1)


def test_the_range_around_an_iteration_is_named_where_it_was_recorded(fake: FakeNsys, bench: Bench) -> None:
    for name, expected in (("trtprof:iteration 0", "trtprof:iteration"), ("mine", None)):
        (fake.folder / "export.sqlite").unlink(missing_ok=True)
        rows = Rows()
        rows.range(1_000, 9_000_000, name, global_tid(4711, 4711))
        exported(fake, rows=rows)
        assert bench.capture().iteration_range == expected


def test_the_step_of_the_gpu_s_timer_is_told_by_its_durations(fake: FakeNsys, bench: Bench) -> None:
    draw = np.random.default_rng(0)
    durations = draw.integers(20, 900, 60) * 32
    assert step_of(durations, fake, bench) == 32, "H100: multiples of 32 ns"
    durations[:3] += 1
    assert step_of(durations, fake, bench) == 32, "rounding does not hide it"
    assert step_of(draw.integers(600, 30_000, 60), fake, bench) == 1
    assert step_of(np.asarray([1024, 2048, 4096]), fake, bench) == 1, "few durations show none"


@needs_captures
def test_the_step_of_a_real_h100() -> None:
    assert gpu_launch._clock_step_ns(read_trace(H100)) == 32


def step_of(durations: Any, fake: FakeNsys, bench: Bench) -> int:
    rows = Rows()
    start = 1_000_000
    for number, ns in enumerate(durations.tolist()):
        rows.work(start, Work("kernel", ns), pid=4711, correlation=number)
        start += 100_000
    (fake.folder / "export.sqlite").unlink(missing_ok=True)
    write_trace(fake.folder / "export.sqlite", rows=rows)
    return bench.capture().clock_resolution_ns


# --- nothing is loaded into the clean phase -------------------------------------------------


def test_the_clean_phase_has_no_tool_in_its_environment(
    fake: FakeNsys, with_cupti: None, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVTX_INJECTION64_PATH", "/a/tool.so")
    exported(fake)
    bench.capture("nsys")
    clean, profiled = (bench.seen(phase)["environment"] for phase in ("clean", "profiled"))
    assert not [name for name in (*INJECTED, "NSYS_PROFILING_SESSION_ID") if name in clean]
    assert "NSYS_PROFILING_SESSION_ID" in profiled, "this one ran under nsys"
    assert not [name for name in INJECTED if name in profiled], "nsys sets its own"
    assert os.environ["NVTX_INJECTION64_PATH"] == "/a/tool.so", "this process is as before"


def test_cupti_is_loaded_into_the_profiled_phase_alone(bench: Bench, with_cupti: None) -> None:
    bench.of_tensorrt()
    path, truth = cupti_trace(bench.scratch)
    bench.behave(profiled={"trace": path})
    found = bench.capture()
    clean, profiled = (bench.seen(phase)["environment"] for phase in ("clean", "profiled"))
    assert not [name for name in INJECTED if name in clean]
    assert profiled["NVTX_INJECTION64_PATH"] == "/nvidia/libcupti.so.13"
    assert "NVTX_INJECTION64_PATH" not in os.environ
    assert bench.seen("profiled")["request"]["collector"] == found.collector == "cupti"
    assert (found.command, found.versions) == ((), {"cupti": "2026.2.1.210"})
    assert kernel_ns(bench.run) == truth.kernel_ns
    assert bench.files() == sorted(["capture.json", "latency.parquet", *TRACE_FILES])


def test_a_tool_for_nvtx_that_the_user_set_stays_with_cupti(
    bench: Bench, with_cupti: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVTX_INJECTION64_PATH", "/a/tool.so")
    bench.of_tensorrt()
    bench.behave(profiled={"trace": cupti_trace(bench.scratch)[0]})
    bench.capture("cupti")
    assert "NVTX_INJECTION64_PATH" not in bench.seen("clean")["environment"]
    assert bench.seen("profiled")["environment"]["NVTX_INJECTION64_PATH"] == "/a/tool.so"


def test_onnx_runtime_needs_no_ranges_of_nvtx(bench: Bench, with_cupti: None) -> None:
    bench.behave(profiled={"trace": cupti_trace(bench.scratch)[0]})
    assert bench.capture("cupti").collector == "cupti"
    assert "NVTX_INJECTION64_PATH" not in bench.seen("profiled")["environment"]


def test_without_a_collector_there_are_times_alone(bench: Bench) -> None:
    found = bench.capture("none")
    assert (found.collector, found.latency, found.profiled) == ("none", CLEAN, UNDER)
    assert (found.iteration_range, found.command, found.versions) == (None, (), {})
    assert not (bench.run / FACTS_FILE).exists()
    assert bench.files() == ["capture.json", "latency.parquet"]


# --- clocks ---------------------------------------------------------------------------------


def test_clocks_are_those_of_the_window_that_the_worker_told(
    bench: Bench, driver: Callable[..., FakeNvml], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = driver(STEADY)
    bench.behave(clean={"seconds": 0.2}, profiled={"seconds": 0.2})
    windows = []
    real = clocks.summarize

    def noted(samples: Any, start_ns: int | None = None, end_ns: int | None = None) -> Any:
        windows.append((start_ns, end_ns))
        return real(samples, start_ns, end_ns)

    monkeypatch.setattr(clocks, "summarize", noted)
    found = bench.capture("none", gpu=UUID)
    assert found.clocks_clean is not None
    assert found.clocks_profiled is not None
    for summary, times in ((found.clocks_clean, found.clean), (found.clocks_profiled, found.under)):
        assert summary.samples >= 2
        assert summary.sm_clock_mhz == Spread(min=1980.0, median=1980.0, max=1980.0)
        assert summary.duration_ns <= times.end_ns - times.begin_ns
    assert windows == [
        (found.clean.begin_ns, found.clean.end_ns), (found.under.begin_ns, found.under.end_ns)
    ]  # fmt: skip
    assert fake.threads == {"gpu-clocks"}, "in this process, beside the one that is measured"
    assert not [thread for thread in threading.enumerate() if thread.name == "gpu-clocks"]


def test_a_window_between_two_samples_takes_those_around_it(bench: Bench, driver: Callable[..., FakeNvml]) -> None:
    driver({**STEADY, SM: 1755})
    with clocks.sampling(step_s=0.005) as sampled:
        while len(sampled.samples()) < 3:
            time.sleep(0.001)
    between = sampled.samples()[0].at_ns + 1
    summary = gpu_launch._clocks(sampled, between, between)
    assert summary.samples >= 2
    assert summary.sm_clock_mhz == Spread(min=1755.0, median=1755.0, max=1755.0)
    assert "before and after" in summary.notes[-1]
    far = gpu_launch._clocks(sampled, between + 10**12, between + 10**12)
    assert (far.samples, far.notes) == (0, ("no sample was taken in that time",))


def test_without_a_driver_the_summary_says_so(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    found = bench.capture("none")
    assert found.clocks_clean is not None
    assert "pip install nvidia-ml-py" in found.clocks_clean.notes[0]


# --- the clean latency is not measured again ------------------------------------------------


@pytest.mark.nightly
def test_the_clean_latency_survives_a_profiled_phase_that_fails(
    fake: FakeNsys, bench: Bench, driver: Callable[..., FakeNvml]
) -> None:
    driver({**STEADY, SM: 1755})
    truth = exported(fake)
    # Long enough for a sample of the clocks.
    bench.behave(clean={"seconds": 0.2}, profiled={"signal": "SIGSEGV"})
    with pytest.raises(CaptureError):
        bench.capture()
    assert set(KEPT_CLEAN) <= set(bench.files())
    assert "capture.json" not in bench.files()
    (bench.scratch / "clean_run.json").unlink()
    bench.behave(clean={"error": "measured again"})
    driver(STEADY)
    bench.lines.clear()
    found = bench.capture()
    assert not bench.ran("clean")
    assert bench.lines[0] == "clean latency kept from before"
    assert found.latency == CLEAN
    assert found.clocks_clean is not None
    assert found.clocks_clean.sm_clock_mhz == Spread(min=1755.0, median=1755.0, max=1755.0), "of the time it was taken"
    assert kernel_ns(bench.run) == truth.kernel_ns
    assert not {"clean.json", "clean_clocks.json"} & set(bench.files()), "capture.json holds them now"


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "damage"), [(name, "gone") for name in KEPT_CLEAN] + [(name, "cut") for name in KEPT_CLEAN[:2]]
)
def test_a_clean_latency_that_is_not_whole_is_measured_again(name: str, damage: str, bench: Bench) -> None:
    bench.behave(profiled={"signal": "SIGSEGV"})
    with pytest.raises(CaptureError):
        bench.capture("none")
    if damage == "gone":
        (bench.run / name).unlink()
    else:
        (bench.run / name).write_bytes((bench.run / name).read_bytes()[:20])
    bench.behave()
    (bench.scratch / "clean_run.json").unlink()
    assert bench.capture("none").latency == CLEAN
    assert bench.ran("clean")


def test_a_clean_phase_that_fails_leaves_nothing_to_go_on_with(bench: Bench) -> None:
    bench.behave(clean={"error": "no GPU is here"})
    with pytest.raises(TrtprofError, match="no GPU is here") as error:
        bench.capture("none")
    assert error.value.exit_code == 3, "the worker's own error, with its code"
    assert bench.files() == []
    assert not bench.ran("profiled")


@pytest.mark.nightly
def test_a_clean_phase_that_is_killed_is_said_to_be(bench: Bench) -> None:
    bench.behave(clean={"signal": "SIGKILL"})
    with pytest.raises(CaptureError, match="died") as error:
        bench.capture("none")
    assert "SIGKILL" in refused(error.value)
    assert bench.files() == ["worker.log"]


# --- failures of the profiled phase ---------------------------------------------------------


def test_the_worker_s_own_error_is_the_one_that_is_shown(fake: FakeNsys, bench: Bench, with_cupti: None) -> None:
    exported(fake)
    bench.behave(profiled={"error": "no memory on the GPU"})
    with pytest.raises(TrtprofError, match="no memory on the GPU") as error:
        bench.capture("auto")
    assert (error.value.exit_code, error.value.why) == (3, "the worker says so")
    assert [line for line in bench.lines if line.startswith("collector")] == [
        f"collector nsys: {choose_collector('auto')[1]}"
    ], "another collector would not help"
    assert set(KEPT_CLEAN) <= set(bench.files())


@pytest.mark.nightly
@pytest.mark.parametrize("asked", ["nsys", "cupti", "none"])
def test_a_worker_that_is_killed_is_one_clear_error(
    asked: gpu_launch.AskedCollector, fake: FakeNsys, bench: Bench, with_cupti: None
) -> None:
    exported(fake)
    bench.behave(profiled={"signal": "SIGKILL"})
    with pytest.raises(CaptureError) as error:
        bench.capture(asked)
    assert "it was killed (SIGKILL): out of memory, or by hand" in refused(error.value)
    assert error.value.exit_code == 5
    assert set(KEPT_CLEAN) <= set(bench.files())
    log = "nsys.log" if asked == "nsys" else "worker.log"
    assert str(bench.run / log) in error.value.fix
    assert not [name for name in bench.files() if name.startswith(".")]


@pytest.mark.parametrize("asked", ["nsys", "none"])
def test_a_worker_that_leaves_no_times_is_an_error(
    asked: gpu_launch.AskedCollector, fake: FakeNsys, bench: Bench
) -> None:
    exported(fake)
    bench.capture(asked)
    (bench.run / "capture.json").unlink()
    bench.behave(profiled={"silent": True})
    with pytest.raises(CaptureError) as error:
        bench.capture(asked)
    assert refused(error.value)
    assert "capture.json" not in bench.files()


@pytest.mark.nightly
def test_an_nsys_that_hangs_is_given_generous_time_and_ended(
    fake: FakeNsys, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_launch, "_START_S", 0.0)
    monkeypatch.setattr(gpu_launch, "_SLOWER", 30.0)
    monkeypatch.setattr(_nsys_process, "_GRACE_S", 1.0)
    fake.behave(fails="hang")
    with pytest.raises(CaptureError, match=r"nsys did not end within 0\.51 s") as error:
        bench.capture("nsys")
    assert refused(error.value)
    assert set(KEPT_CLEAN) <= set(bench.files())
    assert not [name for name in bench.files() if name.startswith(".")]


def test_the_time_that_nsys_gets_grows_with_what_it_has_to_do(bench: Bench) -> None:
    clean = bench.capture("none").clean
    short = gpu_launch._timeout_s(bench.request, clean)
    more = msgspec.structs.replace(bench.request, profile_iterations=100_000)
    longer = gpu_launch._timeout_s(more, clean)
    assert short > 600, "a large model takes minutes to load"
    assert longer - short > 10 * 100_000 * CLEAN.max_ns / 1e9
    warm = msgspec.structs.replace(bench.request, warmup_ms=60_000.0, duration_s=60.0)
    assert gpu_launch._timeout_s(warm, clean) - short > 10 * 120


def test_a_full_disk_is_one_clear_error(fake: FakeNsys, bench: Bench) -> None:
    fake.behave(fails="nospace")
    with pytest.raises(CaptureError, match="the disk is full") as error:
        bench.capture("nsys")
    assert "No space left on device" in refused(error.value)
    assert set(KEPT_CLEAN) <= set(bench.files())


def test_a_disk_that_is_full_when_the_record_is_written_keeps_what_is_there(
    fake: FakeNsys, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported(fake)
    real = Path.replace

    def full(path: Path, target: Path) -> Path:
        if target.name == "capture.json":
            raise OSError(28, "No space left on device")
        return real(path, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(MissingError) as error:
        bench.capture("nsys")
    assert "No space left on device" in refused(error.value)
    assert set(bench.files()) == {*KEPT_CLEAN, *TRACE_FILES, "nsys.nsys-rep", "nsys.log"}


@pytest.mark.parametrize("cut", [0, 3000])
def test_an_export_that_is_cut_off_keeps_the_report(cut: int, fake: FakeNsys, bench: Bench) -> None:
    exported(fake)
    fake.behave(cut=cut)
    with pytest.raises(CaptureError) as error:
        bench.capture("nsys")
    assert refused(error.value)
    assert {"nsys.nsys-rep", *KEPT_CLEAN} <= set(bench.files())
    assert not [name for name in bench.files() if "sqlite" in name or name.startswith(".")]


def test_an_export_that_cannot_be_read_is_no_mistake_of_the_user(fake: FakeNsys, bench: Bench) -> None:
    fake.exports("StringIds", "META_DATA_EXPORT")
    with contextlib.closing(sqlite3.connect(fake.folder / "export.sqlite")) as database:
        database.execute(f"CREATE TABLE {KERNELS} (start INTEGER)")
        database.commit()
    with pytest.raises(CaptureError) as error:
        bench.capture("nsys")
    assert refused(error.value)
    assert error.value.exit_code == 5


def test_an_nsys_that_may_not_is_explained(fake: FakeNsys, bench: Bench) -> None:
    fake.behave(fails="refuse", message=["Failed to create '/runs/x.qdstrm': Permission denied"])
    with pytest.raises(CaptureError, match="may not write") as error:
        bench.capture("nsys")
    assert refused(error.value)


# --- no kernels -----------------------------------------------------------------------------


def test_launches_without_kernels_point_to_the_driver(
    fake: FakeNsys, bench: Bench, driver: Callable[..., FakeNvml]
) -> None:
    driver(STEADY)
    exported(fake, without=[KERNELS])
    with pytest.raises(CaptureError, match=r"nsys 2023\.4\.4\.54 recorded no kernels") as error:
        bench.capture("nsys")
    message = refused(error.value)
    assert "too old for the driver" in message
    assert "--collector cupti" in message
    assert str(bench.run / "nsys.nsys-rep") in error.value.fix, "the report is kept"
    assert not (bench.run / FACTS_FILE).exists()


def test_a_run_that_never_calls_cuda_points_to_the_model(fake: FakeNsys, bench: Bench) -> None:
    rows = Rows()
    rows.range(1_000, 9_000, "trtprof:iteration", global_tid(4711, 4711))
    write_trace(fake.folder / "export.sqlite", rows=rows)
    bench.behave(profiled={"cpu_layers": ["a", "b"]})
    with pytest.raises(CaptureError, match="recorded no kernels") as error:
        bench.capture("nsys")
    assert "it saw no call of CUDA" in refused(error.value)
    assert "2 layers ran on the CPU provider" in error.value.why
    assert "trtprof doctor" in error.value.fix


def test_a_file_without_anything_is_a_capture_error(fake: FakeNsys, bench: Bench) -> None:
    write_trace(fake.folder / "export.sqlite")
    with pytest.raises(CaptureError, match="holds no GPU work") as error:
        bench.capture("nsys")
    assert refused(error.value)


def test_cupti_without_kernels_is_an_error(bench: Bench, with_cupti: None) -> None:
    path, _ = cupti_trace(bench.scratch, without=[KERNELS])
    bench.behave(profiled={"trace": path})
    with pytest.raises(CaptureError, match="CUPTI recorded no kernels") as error:
        bench.capture()
    assert "--collector nsys" in refused(error.value)
    assert "capture.json" not in bench.files()


def test_auto_goes_on_with_cupti_and_says_why(fake: FakeNsys, bench: Bench, with_cupti: None) -> None:
    exported(fake, without=[KERNELS])
    path, truth = cupti_trace(bench.scratch)
    bench.behave(profiled={"trace": path})
    found = bench.capture("auto")
    assert found.collector == "cupti"
    assert "nsys 2023.4.4.54 recorded no kernels" in found.collector_reason
    assert f"collector cupti: {found.collector_reason}" in bench.lines
    assert found.notes[0] == found.collector_reason
    assert found.command == ()
    assert kernel_ns(bench.run) == truth.kernel_ns
    assert bench.lines.count("clean begins") == 1


def test_auto_goes_on_with_cupti_where_nsys_makes_no_report(fake: FakeNsys, bench: Bench, with_cupti: None) -> None:
    fake.behave(fails="qdstrm")
    path, truth = cupti_trace(bench.scratch)
    bench.behave(profiled={"trace": path})
    found = bench.capture("auto")
    assert (found.collector, kernel_ns(bench.run)) == ("cupti", truth.kernel_ns)
    assert "QdstrmImporter" in found.notes[0]
    assert "nsys.qdstrm" in bench.files(), "what was recorded is kept"


def test_auto_without_cupti_ends_with_the_error_of_nsys(fake: FakeNsys, bench: Bench) -> None:
    exported(fake, without=[KERNELS])
    with pytest.raises(CaptureError, match=r"^nsys 2023\.4\.4\.54 recorded no kernels"):
        bench.capture("auto")
    assert bench.seen("profiled")["request"]["collector"] == "nsys"
    assert not [line for line in bench.lines if "collector cupti" in line]


def test_nsys_by_name_is_not_replaced(fake: FakeNsys, bench: Bench, with_cupti: None) -> None:
    exported(fake, without=[KERNELS])
    bench.behave(profiled={"trace": cupti_trace(bench.scratch)[0]})
    with pytest.raises(CaptureError, match="recorded no kernels"):
        bench.capture("nsys")
    assert not [line for line in bench.lines if "collector cupti" in line]


def test_where_both_fail_both_are_named(fake: FakeNsys, bench: Bench, with_cupti: None) -> None:
    exported(fake, without=[KERNELS])
    bench.behave(profiled={"trace": cupti_trace(bench.scratch, without=[KERNELS])[0]})
    with pytest.raises(CaptureError, match="CUPTI recorded no kernels") as error:
        bench.capture("auto")
    both = "no kernel, as a tool does that is too old for the driver"
    first, _, second = refused(error.value).partition("before that, nsys failed: nsys 2023.4.4.54 recorded no kernels")
    assert both in first
    assert both in second


@pytest.mark.nightly
def test_a_trace_of_before_is_not_taken_for_this_one(bench: Bench, with_cupti: None) -> None:
    bench.behave(profiled={"trace": cupti_trace(bench.scratch)[0]})
    bench.capture("cupti")
    (bench.run / "capture.json").unlink()
    bench.behave(profiled={"signal": "SIGSEGV"})
    with pytest.raises(CaptureError):
        bench.capture("cupti")
    assert not (bench.run / FACTS_FILE).exists()


# --- Ctrl-C ---------------------------------------------------------------------------------


def gone(pid: int) -> bool:
    def alive() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    deadline = time.monotonic() + 20
    while alive() and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive()


@pytest.mark.parametrize(
    ("asked", "phase"),
    [
        pytest.param("nsys", "profiled", marks=pytest.mark.process),
        pytest.param("none", "profiled", marks=pytest.mark.nightly),
        pytest.param("none", "clean", marks=pytest.mark.nightly),
    ],
)
def test_ctrl_c_ends_the_children_and_leaves_nothing_half_done(
    asked: gpu_launch.AskedCollector, phase: str, fake: FakeNsys, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVTX_INJECTION64_PATH", "/a/tool.so")
    exported(fake)
    bench.behave(**{phase: {"wait": True}})

    def interrupt(line: str) -> None:
        if line == "waiting":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        capture_gpu(bench.request, WORKER, asked, interrupt, gpu=0)
    assert gone(int((bench.scratch / "worker.pid").read_text()))
    assert os.environ["NVTX_INJECTION64_PATH"] == "/a/tool.so"
    assert not [thread for thread in threading.enumerate() if thread.name == "gpu-clocks"]
    kept = set(bench.files()) - {"worker.log", "nsys.log", "nsys.nsys-rep", "nsys.qdstrm"}
    assert kept == (set() if phase == "clean" else set(KEPT_CLEAN))


def test_ctrl_c_while_the_capture_is_read_leaves_no_export(fake: FakeNsys, bench: Bench) -> None:
    exported(fake)

    def interrupt(line: str) -> None:
        if line == "reading the capture":
            assert (bench.run / "nsys.sqlite").is_file()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        capture_gpu(bench.request, WORKER, "nsys", interrupt, gpu=0)
    assert set(bench.files()) == {*KEPT_CLEAN, "nsys.log", "nsys.nsys-rep"}


# --- the real nsys --------------------------------------------------------------------------


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if REAL is None:
        pytest.skip("no real nsys: neither on the PATH nor by TRTPROF_NSYS")
    monkeypatch.setenv("TRTPROF_NSYS", REAL)
    monkeypatch.setattr(shutil, "which", lambda _name: REAL)
    with one_at_a_time("nsys"):
        yield


@pytest.mark.nightly
def test_a_real_nsys_around_a_worker_without_cuda_says_that_cuda_was_not_loaded(bench: Bench, real: None) -> None:
    with pytest.raises(CaptureError, match="nsys recorded nothing") as error:
        bench.capture("nsys")
    assert "cudaProfilerStart" in refused(error.value)
    assert set(bench.files()) == {*KEPT_CLEAN, "nsys.log"}


@pytest.mark.nightly
def test_a_real_nsys_that_saw_ranges_alone_says_that_there_were_no_kernels(
    bench: Bench, real: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = bench.scratch / "ranges.py"
    script.write_text(NVTX_WORKER)
    bench.behave(profiled={"script": str(script)})
    # The whole run, since nothing calls cudaProfilerStart here.
    monkeypatch.setattr(nsys, "run_profile", partial(nsys.run_profile, trace=("nvtx",), whole_run=True))
    with pytest.raises(CaptureError, match="recorded no kernels") as error:
        bench.capture("nsys")
    message = refused(error.value)
    assert "it saw no call of CUDA" in message
    assert str(bench.run / "nsys.nsys-rep") in message
    assert set(bench.files()) == {*KEPT_CLEAN, "nsys.log", "nsys.nsys-rep"}
