"""Finding ncu, what it is asked, and its failures in words."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

from tests.fakes.fake_ncu import FakeNcu
from tests.fakes.ncu_factory import counted
from tests.fakes.support import refused
from trtprof.base.errors import CaptureError, MissingError, TrtprofError, UsageError
from trtprof.base.kernel_counters import GEOMETRY, METRICS
from trtprof.capture.ncu import record as ncu

PROGRAM = [sys.executable, "-IS", "-c", "import sys; print('an inference'); sys.exit(int(sys.argv[1]))"]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNcu:
    """An ncu that is the only one here."""
    made = FakeNcu(tmp_path / "nsight", [counted("gemm", read=7)])
    monkeypatch.setenv("PATH", str(made.folder))
    monkeypatch.delenv(ncu.NCU_VARIABLE, raising=False)
    monkeypatch.setattr(ncu, "_USUAL_PLACES", ())
    return made


def profile(fake: FakeNcu, folder: Path, *, code: int = 0, error: TrtprofError | None = None) -> ncu.Counted:
    folder.mkdir(exist_ok=True)
    said: list[str] = []
    found = ncu.profile(
        ncu.find(), [*PROGRAM, str(code)], folder, ["gemm", "operator()"], launches=3, timeout_s=60,
        progress=said.append, worker_error=lambda: error,
    )  # fmt: skip
    assert "an inference" in said
    return found


# --- which one ------------------------------------------------------------------------------


@pytest.mark.nightly
def test_the_one_on_the_path_is_taken(fake: FakeNcu) -> None:
    found = ncu.find()
    assert (found.path, found.version, found.version_text) == (fake.path, (2022, 3, 0, 0), "2022.3.0.0")
    assert "PATH" in found.why


@pytest.mark.nightly
def test_a_named_one_wins_and_must_answer(fake: FakeNcu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = FakeNcu(tmp_path / "other")
    monkeypatch.setenv(ncu.NCU_VARIABLE, str(other.path))
    assert ncu.find().path == other.path
    other.behave(version="some other tool 1.2\n")
    with pytest.raises(MissingError, match="is no ncu that runs") as caught:
        ncu.find()
    assert "some other tool" in refused(caught.value)
    monkeypatch.setenv(ncu.NCU_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(MissingError, match="is no ncu that runs"):
        ncu.find()


@pytest.mark.nightly
def test_of_the_usual_folders_the_newest_is_taken(
    fake: FakeNcu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("2023.2.0.0", "2025.10.0.0", "2025.9.1.0"):
        FakeNcu(tmp_path / "opt" / version).behave(version=f"Nsight Compute\nVersion {version} (build 1)\n")
    monkeypatch.setattr(ncu, "_USUAL_PLACES", (str(tmp_path / "opt" / "*" / "ncu"),))
    assert ncu.find().path == fake.path
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ncu.find().version == (2025, 10, 0, 0)


@pytest.mark.nightly
def test_none_and_an_old_one_are_said(fake: FakeNcu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.behave(version="NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2020.3.1.0 (build 1)\n")
    with pytest.raises(MissingError, match="too old") as caught:
        ncu.find()
    assert "2021.1" in refused(caught.value)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match="not installed") as caught:
        ncu.find()
    assert ncu.NCU_VARIABLE in refused(caught.value)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("parameters", "capabilities", "allowed"),
    [
        ("RmProfilingAdminOnly: 1\n", "00000000a80425fb", False),
        ("RmProfilingAdminOnly: 1\n", "000001ffffffffff", True),
        ("RmProfilingAdminOnly: 0\n", "0000000000000000", True),
        ("", "0000000000000000", True),
    ],
)
def test_counters_kept_to_administrators_are_said_before_anything_runs(
    fake: FakeNcu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parameters: str, capabilities: str, *, allowed: bool
) -> None:
    for name, text in (("_PARAMETERS", parameters), ("_STATUS", f"Name:\tx\nCapEff:\t{capabilities}\n")):
        path = tmp_path / name
        path.write_text(f"ResmanDebugLevel: 4294967295\n{text}")
        monkeypatch.setattr(ncu, name, path)
    if allowed:
        assert ncu.require().path == fake.path
        return
    with pytest.raises(MissingError, match="may not read the GPU's performance counters") as caught:
        ncu.require()
    assert "NVreg_RestrictProfilingToAdminUsers=0" in refused(caught.value)


# --- what it is asked -----------------------------------------------------------------------


@pytest.mark.process
def test_the_counters_of_a_run_are_read(fake: FakeNcu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/another/tool.so")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    found = profile(fake, tmp_path / "out")
    assert [(launch.kernel, launch.dram_read) for launch in found.launches] == [("gemm", 7)]
    assert list(found.command) == [str(fake.path), *fake.calls()[-1]]
    assert (tmp_path / "out" / "ncu.log").read_text().startswith("$ ")
    environment = fake.environment()
    assert environment["LC_ALL"] == "C.UTF-8"
    assert "CUDA_INJECTION64_PATH" not in environment


@pytest.mark.nightly
def test_the_command_names_functions_and_known_metrics(fake: FakeNcu, tmp_path: Path) -> None:
    fake.behave(query="Device NVIDIA RTX 4090 (AD102)\n-----\ndram__bytes_read   Counter   byte   # of\n  more words\n")
    profile(fake, tmp_path / "out")
    arguments = fake.calls()[-1]
    values = dict(itertools.pairwise(arguments))
    assert values["--kernel-name"] == r"regex:^(gemm|operator\(\))$"
    assert values["--metrics"].split(",") == ["dram__bytes_read.sum", *GEOMETRY]
    assert (values["--launch-count"], values["--profile-from-start"], values["--page"]) == ("3", "off", "raw")
    assert arguments[-len(PROGRAM) - 1 :] == [*PROGRAM, "0"]


@pytest.mark.nightly
@pytest.mark.parametrize("told", [{"query_code": 1}, {"query": "==ERROR== no GPU"}])
def test_all_metrics_are_asked_for_where_ncu_does_not_tell(fake: FakeNcu, told: dict[str, object]) -> None:
    fake.behave(**told)
    assert ncu.known_metrics(ncu.find()) == METRICS


@pytest.mark.nightly
def test_a_report_is_read_by_the_ncu_that_is_here(
    fake: FakeNcu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = tmp_path / "x.ncu-rep"
    with pytest.raises(MissingError, match="there is no file"):
        ncu.read_report(report)
    report.write_bytes(b"NVR")
    assert [launch.kernel for launch in ncu.read_report(report)] == ["gemm"]
    assert fake.calls()[-1] == ["--import", str(report), "--csv", "--page", "raw", "--print-units", "base"]
    fake.behave(said="==ERROR== Failed to load report file\n", code=1)
    with pytest.raises(UsageError) as caught:
        ncu.read_report(report)
    assert "Failed to load report file" in refused(caught.value)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError) as missing:
        ncu.read_report(report)
    assert "--import FILE.ncu-rep --csv" in refused(missing.value)


# --- failures -------------------------------------------------------------------------------

PERMISSION = (
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters\n"
)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("told", "kind", "words"),
    [
        ({"said": PERMISSION, "code": 1}, MissingError, "--cap-add=SYS_ADMIN"),
        # Some versions end well all the same.
        ({"said": PERMISSION, "code": 0}, MissingError, "NVreg_RestrictProfilingToAdminUsers=0"),
        ({"said": "==WARNING== No kernels were profiled.\n"}, CaptureError, "saw no kernel"),
        ({"said": "==WARNING== No kernels were profiled.\nAvailable Kernels:\n1. other\n"}, CaptureError, "1. other"),
        ({"said": "==ERROR== Cuda driver is not compatible with Nsight\n", "code": 1}, MissingError, "nvidia-smi"),
        ({"said": "==ERROR== a driver resource was unavailable\n", "code": 9}, MissingError, "dcgmi profile --pause"),
        ({"said": "==ERROR== Unknown Error on device 0.\n", "code": 9}, CaptureError, "older than the driver"),
        ({"said": "==ERROR== Something new\n", "code": 9}, CaptureError, "Something new"),
        ({"options": ["--csv"]}, MissingError, "unrecognised option '--page'"),
        ({"code": 7}, CaptureError, "exit code 7"),
    ],
)  # fmt: skip
def test_failures_are_explained(
    fake: FakeNcu, tmp_path: Path, told: dict[str, object], kind: type[TrtprofError], words: str
) -> None:
    fake.behave(**{"table": "", **told})
    with pytest.raises(kind) as caught:
        profile(fake, tmp_path / "out")
    assert words in refused(caught.value)


@pytest.mark.nightly
def test_the_workers_own_error_comes_first(fake: FakeNcu, tmp_path: Path) -> None:
    own = CaptureError("the model does not run", why="its input is missing", fix="give it")
    with pytest.raises(CaptureError) as caught:
        profile(fake, tmp_path / "out", code=5, error=own)
    assert caught.value is own
    with pytest.raises(CaptureError) as caught:
        profile(fake, tmp_path / "out", code=5)
    assert "error code (5)" in refused(caught.value)


@pytest.mark.nightly
def test_an_ncu_that_hangs_is_ended(fake: FakeNcu, tmp_path: Path) -> None:
    fake.behave(hang=True)
    (tmp_path / "out").mkdir()
    with pytest.raises(CaptureError) as caught:
        ncu.profile(
            ncu.find(), [*PROGRAM, "0"], tmp_path / "out", ["gemm"], launches=1, timeout_s=0.5, progress=lambda _: None
        )
    assert "did not end within 0.5 s" in refused(caught.value)


@pytest.mark.nightly
def test_the_table_of_an_earlier_run_is_not_taken_for_this_ones(fake: FakeNcu, tmp_path: Path) -> None:
    profile(fake, tmp_path / "out")
    fake.behave(options=["--csv"])
    with pytest.raises(MissingError):
        profile(fake, tmp_path / "out")
    assert not (tmp_path / "out" / "ncu.csv").exists()
