"""``trtprof analyze --nsys`` on bad captures: one clear error and its exit code, or a report that says what is missing.

Whatever happens, the file that was given stays as it was.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.fakes import command_line
from tests.fakes.command_line import refused
from tests.fakes.fake_nsys import FakeNsys
from tests.fakes.stats_factory import write_stats
from tests.fakes.support import H100, ROOT, needs_captures
from tests.fakes.trace_factory import COPIES, KERNELS, NVTX, SETS, Layer, Process, Work, write_trace
from trtprof.capture.nsys import _find as _nsys_find
from trtprof.capture.nsys.trace import read_trace
from trtprof.cli import analyze as command
from trtprof.cli import app
from trtprof.engine.inspector import read_layer_info

assert command.analyze is not None  # importing it registers the command

PLAN = ROOT / "tests" / "engine" / "data" / "rtx_resnet_tiny.log"
ITERATIONS = 5


def layers() -> tuple[Layer, ...]:
    return tuple(
        Layer(layer.name, (Work(layer.tactic or f"kernel_{place}", ns=10_000),))
        for place, layer in enumerate(read_layer_info(PLAN).layers)
    )


PROCESS = Process(pid=111, layers=layers(), iterations=ITERATIONS)


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "run.sqlite"
    write_trace(path, [PROCESS])
    return path


@pytest.fixture(autouse=True)
def no_nsys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As if nsys were not installed here."""
    for variable in ("TRTPROF_NSYS", "NSYS_PROFILING_SESSION_ID", "CUDA_INJECTION64_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(_nsys_find, "_USUAL_PLACES", (str(tmp_path / "usual" / "*" / "nsys"),))
    real = shutil.which
    monkeypatch.setattr(
        shutil, "which", lambda name: found if (found := real(name)) and tmp_path in Path(found).parents else None
    )


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNsys:
    """A fake nsys, first on the PATH."""
    made = FakeNsys(tmp_path / "nsight")
    made.exports("StringIds", "META_DATA_EXPORT")
    monkeypatch.setenv("PATH", f"{made.folder}:/usr/bin:/bin")
    return made


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "captures" / "run.nsys-rep"
    path.parent.mkdir()
    path.write_bytes(b"a report")
    return path


def trtprof(*arguments: str | Path) -> Result:
    gpu = [] if "--gpu" in arguments else ["--gpu", "rtx-4090"]
    return command_line.trtprof("analyze", *arguments, *gpu, COLUMNS="100")


def told(*arguments: str | Path) -> dict[str, Any]:
    """The JSON document of a run that ends well."""
    done = trtprof(*arguments, "--format", "json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    assert sum(kernel["total_ns"] for kernel in kernels_of(found)) == found["captured_ns"] > 0
    return found


def kernels_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [*(kernel for layer in found["layers"] for kernel in layer["kernels"]), *found["kernels_unattributed"]]


@contextmanager
def changing(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path)
    yield connection
    connection.commit()
    connection.close()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def of_something_else(path: Path) -> None:
    path.unlink()
    with changing(path) as database:
        database.execute("CREATE TABLE bookmarks (url TEXT)")


def without_kernels(path: Path) -> None:
    with changing(path) as database:
        database.execute(f"DELETE FROM {KERNELS}")  # noqa: S608


def without_anything(path: Path) -> None:
    with changing(path) as database:
        for table in (KERNELS, COPIES, SETS, NVTX, "CUPTI_ACTIVITY_KIND_RUNTIME"):
            database.execute(f"DROP TABLE IF EXISTS {table}")


@pytest.mark.parametrize("by_option", [True, False])
@pytest.mark.parametrize(
    ("spoil", "code", "words"),
    [
        (cut, 2, "is cut short"),
        (of_something_else, 2, "is not an export of nsys"),
        (without_kernels, 5, "holds no kernels"),
        (without_anything, 5, "holds no GPU work"),
        (lambda path: path.write_bytes(b""), 2, "is empty"),
        (lambda path: path.unlink(), 3, "there is no file"),
    ],
)
def test_a_capture_that_cannot_be_used(
    capture: Path, spoil: Callable[[Path], object], code: int, words: str, by_option: bool
) -> None:
    spoil(capture)
    before = capture.read_bytes() if capture.exists() else None
    refused(trtprof(*(["--nsys"] if by_option else []), capture), code, words)
    assert (capture.read_bytes() if capture.exists() else None) == before


# --- reports of nsys ------------------------------------------------------------------------


def left(report: Path) -> list[str]:
    assert report.read_bytes() == b"a report"
    return sorted(path.name for path in report.parent.iterdir())


def test_a_report_without_nsys(report: Path) -> None:
    refused(trtprof("--nsys", report), 3, "Nsight Systems (nsys) is not installed here")
    assert left(report) == ["run.nsys-rep"]


def test_an_export_beside_the_report_needs_no_nsys(report: Path, capture: Path) -> None:
    shutil.copyfile(capture, report.with_suffix(".sqlite"))
    assert told(report)["latency"]["n"] == ITERATIONS


@pytest.mark.process
def test_a_report_is_exported_and_analysed(report: Path, capture: Path, fake: FakeNsys) -> None:
    shutil.copyfile(capture, fake.folder / "export.sqlite")
    assert told("--nsys", report, "--layers", PLAN)["coverage"]["unattributed"] == 0
    assert left(report) == ["run.nsys-rep", "run.sqlite"]


# --- captures that lack something -----------------------------------------------------------


def said(found: dict[str, Any], words: str) -> bool:
    return any(words in sentence for sentence in found["assumptions"])


def test_without_nvtx_less_is_led_back_and_it_is_said(capture: Path) -> None:
    with changing(capture) as database:
        database.execute(f"DROP TABLE {NVTX}")
    found = told("--nsys", capture, "--layers", PLAN)
    assert said(found, "no NVTX ranges were captured")
    assert found["coverage"]["unattributed"] > 0
    assert found["kernels_unattributed"]


def test_without_the_table_of_gpus_one_must_be_named(capture: Path) -> None:
    with changing(capture) as database:
        database.execute("DROP TABLE TARGET_INFO_GPU")
    done = CliRunner().invoke(app, ["analyze", "--nsys", str(capture)], catch_exceptions=False)
    refused(done, 2, "which GPU ran it?")
    assert said(told("--nsys", capture), "the file does not describe GPU 0")


# --- CSVs of nsys stats ---------------------------------------------------------------------


def test_the_gpu_of_a_trace_is_told(capture: Path, tmp_path: Path) -> None:
    path = write_stats(read_trace(capture), "cuda_gpu_trace", tmp_path / "run.csv")
    done = CliRunner().invoke(app, ["analyze", str(path), "--format", "json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["device"]["name"] == "RTX 4090"
    assert "--gpu NVIDIA GeForce RTX 4090: as the capture says" in done.stderr


def test_the_number_of_inferences_may_be_said(capture: Path, tmp_path: Path) -> None:
    path = write_stats(read_trace(capture), "cuda_gpu_kern_sum", tmp_path / "run.csv")
    whole, told_so = told(path), told(path, "--inferences", str(ITERATIONS))
    assert whole["latency"]["median_ns"] == whole["captured_ns"]
    assert told_so["latency"]["median_ns"] * ITERATIONS == whole["captured_ns"]
    refused(trtprof(capture, "--inferences", "5"), 2, "--inferences is of no use here")


@needs_captures
def test_the_sums_that_a_colleague_mails() -> None:
    done = trtprof(H100.with_name(f"{H100.stem}__cuda_gpu_kern_sum.csv"), "--gpu", "h100-sxm5")
    assert done.exit_code == 0, done.output
    assert "44.8 ms in layers: their sum, not an end-to-end latency" in done.stdout
    assert "of 41 layers" in done.stdout
    assert "gemm xmma sm80 128x128x8" in done.stdout
    assert "sums of kernels alone" in " ".join(done.stdout.split())
