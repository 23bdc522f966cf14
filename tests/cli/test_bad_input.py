"""Bad input on the command line: one clear error, its exit code, and nothing lost.

Every case runs the command in an empty folder, with no ceilings at hand: what is refused must be refused before
anything is measured. It is a process of its own where that could differ: what ONNX Runtime itself prints, and signals.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor, make_tensor_value_info
from typer.testing import CliRunner

from tests.fakes.in_process import quick
from tests.fakes.support import ROOT, SAMPLES, captured, fixed_ceilings
from trtprof.base import run_folder, scratch
from trtprof.base.records import Device, Engine, Source
from trtprof.base.run_folder import Request, RunFolder
from trtprof.cli import app, load_commands
from trtprof.flows.options import RunOptions
from trtprof.flows.run import execute
from trtprof.hardware.store import load_or_calibrate
from trtprof.source.request import ModelRequest

load_commands()

RESNET = SAMPLES / "resnet_tiny.onnx"
COMMAND = [sys.executable, "-c", "from trtprof.cli import main; main()"]
FLOAT = TensorProto.FLOAT


def environment(folder: Path) -> dict[str, str]:
    """The caller's, with this package on the path and every cache and scratch file below ``folder``."""
    scratch = folder.parent / f"{folder.name}-scratch"
    scratch.mkdir(exist_ok=True)
    found = {name: value for name, value in os.environ.items() if not name.startswith("TRTPROF_")}
    path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH", "")) if part)
    return {**found, "PYTHONPATH": path, "TRTPROF_CACHE_DIR": str(scratch / "cache"), "TMPDIR": str(scratch)}


def in_a_process(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], cwd=cwd, env=environment(cwd), capture_output=True, text=True, check=False
    )


def trtprof(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The same command without the wait for a new interpreter; an error that is not ours is raised."""
    none = dict.fromkeys(name for name in os.environ if name.startswith("TRTPROF_"))
    with contextlib.chdir(cwd):
        result = CliRunner().invoke(
            app, list(map(str, arguments)), env={**none, **environment(cwd)}, catch_exceptions=False
        )
    return subprocess.CompletedProcess(arguments, result.exit_code, result.stdout, result.stderr)


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below a folder with its content and its time."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def refused(done: subprocess.CompletedProcess[str], code: int) -> tuple[str, str, str]:
    """What, why and fix of the one error that a command must have ended with."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    lines = done.stderr.splitlines()
    (at,) = (index for index, line in enumerate(lines) if line.startswith("error: "))
    what, why, fix = lines[at : at + 3]
    assert why.startswith("  why: "), done.stderr
    assert fix.startswith("  fix: "), done.stderr
    assert len(why) > len("  why: ")
    assert len(fix) > len("  fix: ")
    # Nothing but finished stages and what was assumed before the error, nothing but what is kept behind it.
    assert all(re.match(r"\w+ +\d+\.\d s  |assumed: |  ", line) for line in lines[:at]), done.stderr
    assert all(line.startswith(("  kept: ", "  go on: ")) for line in lines[at + 3 :]), done.stderr
    return what.removeprefix("error: "), why, fix


def gemm() -> ModelProto:
    """A valid model with a dynamic batch and a weight."""
    graph = make_graph(
        [make_node("MatMul", ["x", "w"], ["y"], name="gemm")],
        "graph",
        [make_tensor_value_info("x", FLOAT, ["N", 3])],
        [make_tensor_value_info("y", FLOAT, ["N", 4])],
        initializer=[numpy_helper.from_array(np.zeros((3, 4), np.float32), "w")],
    )
    return make_model(graph, opset_imports=[make_opsetid("", 17)], ir_version=8)


def external(folder: Path, size: int | None) -> None:
    model = gemm()
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="weights.bin")
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    if size is not None:
        (folder / "weights.bin").write_bytes(bytes(size))


# --- the model file ---------------------------------------------------------------------------


def _make(content: bytes) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "model.onnx").write_bytes(content)

    return write


BAD_MODELS: dict[str, tuple[Callable[[Path], None], int, str]] = {
    "missing file": (lambda _: None, 2, "no such file"),
    "directory": (lambda folder: (folder / "model.onnx").mkdir(), 2, "is a directory"),
    "empty file": (_make(b""), 2, "is empty"),
    "random bytes": (_make(np.random.default_rng(1).bytes(10_000)), 2, "is not an ONNX model"),
    "truncated": (_make(RESNET.read_bytes()[:-40]), 2, "is not an ONNX model"),
    "text": (_make(b"import torch\nprint('hello')\n" * 20), 2, "is not an ONNX model"),
    "zeros": (_make(bytes(1000)), 2, "is not an ONNX model"),
    "fails the checker": (_make(gemm().SerializeToString().replace(b"MatMul", b"NoMul0")), 2, "fails the ONNX checker"),
    "damaged name": (_make(gemm().SerializeToString().replace(b"gemm", b"\xff\xfe\xff\xfe")), 2, "is damaged"),
    "no external data": (lambda folder: external(folder, None), 3, "weights of 'w' are missing"),
    "short external data": (lambda folder: external(folder, 47), 3, "weights of 'w' are cut short"),
}


@pytest.mark.parametrize("case", BAD_MODELS)
def test_a_model_that_cannot_be_used(case: str, tmp_path: Path) -> None:
    make, code, says = BAD_MODELS[case]
    make(tmp_path)
    before = snapshot(tmp_path)
    what, _, _ = refused(trtprof("run", "model.onnx", cwd=tmp_path), code)
    assert says in what
    assert "model.onnx" in what
    assert snapshot(tmp_path) == before
    assert not (tmp_path / "reports").exists()


def test_inspect_refuses_as_run_does(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"")
    assert refused(trtprof("inspect", "model.onnx", cwd=tmp_path), 2) == refused(
        trtprof("run", "--onnx", "model.onnx", cwd=tmp_path), 2
    )


@pytest.mark.parametrize("which", ["duplicate_node_names", "multi_level_errors", "no_name", "parallel_invalid_nodes"])
def test_the_invalid_graphs_of_polygraphy(which: str, tmp_path: Path) -> None:
    path = captured("onnx", f"polygraphy__bad_graph_with_{which}.onnx")
    what, why, _ = refused(trtprof("run", path, "-o", "out", cwd=tmp_path), 2)
    assert "fails the ONNX checker" in what
    assert "required" in why
    assert snapshot(tmp_path) == {}


# --- shapes and inputs --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--shapes", "z:1x3"], 2, "'z', which is not an input"),
        (["--shapes", "x:1x3x1"], 2, "given 3 dimensions, the model has 2"),
        (["--shapes", "x:2x5"], 2, "the model fixes it at 3"),
        (["--shapes", "x:0x3"], 2, "the dimension 0"),
        (["--shapes", "x:-1x3"], 2, "the dimension -1"),
        (["--shapes", "x:99999999999999999999x3"], 2, "the dimension 99999999999999999999"),
        (["--shapes", "1x3"], 2, "cannot be read"),
        (["--shapes", "x:2x3", "--shapes", "x:2x3"], 2, "twice"),
        (["--batch", "0"], 2, "--batch 0 is not possible"),
        (["--batch", "2", "--shapes", "x:4x3"], 2, "--batch 2 binds nothing"),
        (["--loadInputs", "x:none.npy"], 3, "no file none.npy"),
        (["--loadInputs", "x:model.onnx"], 2, "is not a .npy array"),
        (["--loadInputs", "z:x.npy"], 2, "'z', which is not an input"),
        (["--loadInputs", "x:x.npy", "--shapes", "x:2x3"], 2, "has shape (5, 3)"),
        (["--loadInputs", "x.npy"], 2, "cannot be read"),
    ],
)
def test_shapes_and_inputs_that_do_not_fit(options: list[str], code: int, says: str, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(gemm().SerializeToString())
    np.save(tmp_path / "x.npy", np.zeros((5, 3), np.float32))
    before = snapshot(tmp_path)
    what, why, _ = refused(trtprof("run", "model.onnx", "-o", "out", *options, cwd=tmp_path), code)
    assert says in f"{what}\n{why}"
    assert snapshot(tmp_path) == before
    assert not (tmp_path / "out").exists()


def test_a_shape_error_on_the_real_command_line(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(gemm().SerializeToString())
    before = snapshot(tmp_path)
    refused(in_a_process("run", "model.onnx", "--shapes", "x:-1x3", cwd=tmp_path), 2)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("options", [["--batch", "two"], ["--no-such-option"], ["--seed"]])
def test_options_that_are_none(options: list[str], tmp_path: Path) -> None:
    done = trtprof("run", RESNET, *options, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    assert "Error: " in done.stderr
    assert snapshot(tmp_path) == {}


# --- ops that the runtime cannot run --------------------------------------------------------------


def _of_no_runtime() -> ModelProto:
    graph = make_graph(
        [make_node("Relu", ["x"], ["h"], name="fine"), make_node("Odd", ["h"], ["y"], name="strange", domain="own")],
        "graph",
        [make_tensor_value_info("x", FLOAT, [2])],
        [make_tensor_value_info("y", FLOAT, [2])],
    )
    return make_model(graph, opset_imports=[make_opsetid("", 17), make_opsetid("own", 1)], ir_version=8)


def _without_a_kernel() -> ModelProto:
    """A standard op on a type for which the CPU has no kernel."""
    bf16 = TensorProto.BFLOAT16
    graph = make_graph(
        [
            make_node("Cast", ["x"], ["h"], name="down", to=bf16),
            make_node("Conv", ["h", "w"], ["c"], name="narrow"),
            make_node("Cast", ["c"], ["y"], name="up", to=FLOAT),
        ],
        "graph",
        [make_tensor_value_info("x", FLOAT, [1, 1, 8, 8])],
        [make_tensor_value_info("y", FLOAT, [1, 2, 8, 8])],
        initializer=[make_tensor("w", bf16, [2, 1, 1, 1], [1.0, 1.0])],
    )
    return make_model(graph, opset_imports=[make_opsetid("", 22)], ir_version=10)


@pytest.mark.parametrize(
    ("model", "names"),
    [(_of_no_runtime(), ["own:Odd"]), (_without_a_kernel(), ["op Conv", "'narrow'"])],
    ids=["unknown op", "no kernel"],
)
def test_an_op_that_the_runtime_cannot_run_is_named(model: ModelProto, names: list[str], tmp_path: Path) -> None:
    onnx.checker.check_model(model)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    what, _, _ = refused(in_a_process("run", "model.onnx", "-o", "out", cwd=tmp_path), 3)
    assert "cannot run the op" in what
    assert all(name in what for name in names), what
    assert "model.onnx" in what
    assert_parses(tmp_path / "out", (run_folder.REQUEST, run_folder.SOURCE, run_folder.DEVICE))
    looked = trtprof("inspect", "model.onnx", "--no-engine", cwd=tmp_path)
    assert (looked.returncode, looked.stderr) == (0, "")


def assert_parses(folder: Path, names: tuple[str, ...]) -> None:
    """The folder holds exactly these artefacts (and the engine's graph), all of them whole."""
    kinds: dict[str, type[object]] = {
        run_folder.REQUEST: Request,
        run_folder.SOURCE: Source,
        run_folder.DEVICE: Device,
        run_folder.ENGINE: Engine,
    }
    assert {path.name for path in folder.iterdir()} - {"engine.onnx", scratch.IN_USE} == set(names)
    for name in names:
        assert RunFolder(folder).read(name, kinds[name])
    if (folder / "engine.onnx").exists():
        assert onnx.load(str(folder / "engine.onnx"), load_external_data=False).graph.node


# --- the output -------------------------------------------------------------------------------------


def _blocked_default(folder: Path) -> list[str]:
    (folder / "reports").write_text("a file where the folder of all runs would be")
    return []


def _below_a_file(folder: Path) -> list[str]:
    (folder / "file").write_text("kept")
    return ["-o", "file/out"]


def _on_a_file(folder: Path) -> list[str]:
    (folder / "file").write_text("kept")
    return ["-o", "file"]


def _in_proc(folder: Path) -> list[str]:
    if not Path("/proc/self").exists():
        pytest.skip("no /proc, a folder that not even root may write")
    return ["-o", "/proc/out"]


@pytest.mark.parametrize(
    ("arrange", "code", "says"),
    [
        (_blocked_default, 3, "cannot be written"),
        (_below_a_file, 3, "cannot be written"),
        (_in_proc, 3, "cannot be written"),
        (_on_a_file, 2, "is a file"),
    ],
)
@pytest.mark.parametrize("force", [False, True])
def test_an_output_that_cannot_be_written(
    arrange: Callable[[Path], list[str]], code: int, says: str, force: bool, tmp_path: Path
) -> None:
    options = arrange(tmp_path)
    before = snapshot(tmp_path)
    what, _, fix = refused(trtprof("run", RESNET, *options, *(["--force"] if force else []), cwd=tmp_path), code)
    assert says in what
    assert "-o" in fix
    assert snapshot(tmp_path) == before


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; tests must leave it as it is."""
    out = tmp_path_factory.mktemp("runs") / "resnet"
    with pytest.MonkeyPatch.context() as patch:
        quick(patch)
        execute(
            RunOptions(
                model=ModelRequest.of(RESNET),
                output=str(out),
                duration_s=0,
                iterations=3,
                warmup_ms=0,
                profile_iterations=3,
            )
        )
    return out


def test_a_finished_run_is_not_overwritten(finished: Path, tmp_path: Path) -> None:
    before = snapshot(finished)
    what, why, fix = refused(trtprof("run", RESNET, "-o", finished, cwd=tmp_path), 2)
    assert str(finished) in what
    assert "finished run" in why
    assert "--force" in fix
    assert snapshot(finished) == before


def test_a_failed_replacement_keeps_the_finished_run(finished: Path, tmp_path: Path) -> None:
    before = snapshot(finished)
    (tmp_path / "odd.onnx").write_bytes(_of_no_runtime().SerializeToString())
    refused(trtprof("run", "odd.onnx", "-o", finished, "--force", cwd=tmp_path), 3)
    assert snapshot(finished) == before


@pytest.mark.parametrize("options", [[], ["--force"], ["--resume"], ["--force", "--resume"]])
def test_a_folder_that_is_no_run_is_never_touched(options: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "thesis"
    (folder / "chapters").mkdir(parents=True)
    (folder / "chapters" / "one.tex").write_text("years of work")
    (folder / "report.html").write_text("looks like ours")
    before = snapshot(tmp_path)
    what, _, _ = refused(
        trtprof("run", RESNET, "-o", "thesis", *options, cwd=tmp_path), 3 if "--resume" in options else 2
    )
    assert "thesis" in what
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["none"], 3, "none has no report.json"),
        (["."], 3, "no report.json"),
        (["file"], 2, "is a file, not a run folder"),
        (["damaged"], 2, "cannot be read"),
        (["damaged", "--format", "pdf"], 2, "no report format 'pdf'"),
        (["{finished}", "-o", "file.csv"], 2, "file.csv exists"),
        (["{finished}", "-o", "report.pdf"], 2, "report.pdf says no format"),
        (["{finished}", "-o", "file/report.csv"], 3, "cannot be written"),
    ],
)
def test_report_says_what_it_cannot_do(
    arguments: list[str], code: int, says: str, finished: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "file.csv").write_text("kept")
    (tmp_path / "damaged").mkdir()
    whole = (finished / "report.json").read_bytes()
    (tmp_path / "damaged" / "report.json").write_bytes(whole[: len(whole) // 2])
    before = snapshot(tmp_path)
    done = trtprof("report", *(part.format(finished=finished) for part in arguments), cwd=tmp_path)
    assert done.returncode == code
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("error: ")
    assert says in done.stderr
    assert "  fix: " in done.stderr
    assert snapshot(tmp_path) == before


# --- killed half-way ----------------------------------------------------------------------------------

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


class Started:
    """A run in a process group of its own, so that what it leaves behind can be seen."""

    def __init__(self, folder: Path, *arguments: str | Path) -> None:
        self._log = folder / "stderr.txt"
        self._out = folder / "stdout.txt"
        with self._log.open("wb") as log, self._out.open("wb") as out:
            self.child = subprocess.Popen(
                [*COMMAND, *map(str, arguments)],
                cwd=folder,
                env=environment(folder),
                stdout=out,
                stderr=log,
                start_new_session=True,
            )

    @property
    def stderr(self) -> str:
        return self._log.read_text()

    @property
    def stdout(self) -> str:
        return self._out.read_text()

    def until(self, what: str, reached: Callable[[], bool]) -> None:
        """Wait for a state of the running command."""
        give_up = time.monotonic() + 60
        while not reached():
            assert self.child.poll() is None, f"ended before {what}: {self.stderr}"
            assert time.monotonic() < give_up, f"no {what} after a minute: {self.stderr}"
            time.sleep(0.03)

    def family(self) -> list[str]:
        """Command lines of all live processes of the group."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                state, _, group = stat.read_text().rpartition(")")[2].split()[:3]
                if int(group) == self.child.pid and state not in "ZX":
                    found.append(stat.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode())
        return found

    def measuring(self) -> bool:
        """Whether the process that calibrates or captures is at work beside the command."""
        return any(
            "trtprof.hardware._measure" in line or "trtprof.capture.workers.ort_cpu" in line for line in self.family()
        )

    def worker_seconds(self) -> float:
        """CPU time of the processes beside the command so far."""
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[2]) == self.child.pid != int(stat.parent.name):
                    ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def alone(self) -> bool:
        """Whether the command's children are gone, or go within the time that Python takes to start."""
        give_up = time.monotonic() + 10
        while self.family() and time.monotonic() < give_up:
            time.sleep(0.05)
        return self.family() == []

    def stop(self, signal_number: int, *, group: bool = False) -> int:
        """Send a signal to the command, or as a terminal does to its group, and wait for the end."""
        (os.killpg if group else os.kill)(self.child.pid, signal_number)
        return self.child.wait(timeout=60)

    def clean(self) -> None:
        if self.child.poll() is None or self.family():
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Started]]:
    """Starts commands in ``tmp_path`` and leaves none behind."""
    running: list[Started] = []

    def begin(*arguments: str | Path) -> Started:
        running.append(Started(tmp_path, *arguments))
        return running[-1]

    yield begin
    for each in running:
        each.clean()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_killed_run_leaves_whole_files_and_report_says_how_to_go_on(
    tmp_path: Path, start: Callable[..., Started]
) -> None:
    out = tmp_path / "out"
    running = start("run", RESNET, "-o", "out")
    running.until("engine.json", (out / "engine.json").exists)
    assert running.stop(signal.SIGKILL) == -signal.SIGKILL
    assert_parses(out, (run_folder.REQUEST, run_folder.SOURCE, run_folder.DEVICE, run_folder.ENGINE))
    what, why, fix = refused(trtprof("report", "out", cwd=tmp_path), 3)
    assert what == "out has no report.json"
    assert "ended before that stage" in why
    assert "-o out --resume" in fix
    before = snapshot(out)
    del before[scratch.IN_USE]
    refused(trtprof("run", RESNET, "-o", "out", cwd=tmp_path), 2)
    refused(trtprof("run", SAMPLES / "lstm.onnx", "-o", "out", "--resume", cwd=tmp_path), 2)
    refused(trtprof("run", RESNET, "-o", "out", "--resume", "--seed", "5", cwd=tmp_path), 2)
    assert snapshot(out) == before


def _assert_interrupted(running: Started, code: int, kept: str) -> None:
    assert code == 130
    assert running.stdout == ""
    assert "Traceback" not in running.stderr
    lines = running.stderr.splitlines()
    assert lines[-3:] == [
        "stopped by Ctrl-C",
        f"  kept: {kept} in out",
        "  go on: the same command with -o out --resume",
    ]
    assert running.alone()


@on_linux
@pytest.mark.parametrize("group", [False, True], ids=["command", "terminal"])
def test_ctrl_c_while_calibrating(tmp_path: Path, start: Callable[..., Started], group: bool) -> None:
    running = start("run", RESNET, "-o", "out")
    running.until("calibration", running.measuring)
    code = running.stop(signal.SIGINT, group=group)
    _assert_interrupted(running, code, "source, engine")
    assert_parses(tmp_path / "out", (run_folder.REQUEST, run_folder.SOURCE, run_folder.DEVICE, run_folder.ENGINE))
    assert not Path(environment(tmp_path)["TRTPROF_CACHE_DIR"]).exists()


@on_linux
@pytest.mark.parametrize("group", [False, True], ids=["command", "terminal"])
def test_ctrl_c_while_capturing_and_resume(tmp_path: Path, start: Callable[..., Started], group: bool) -> None:
    cache = Path(environment(tmp_path)["TRTPROF_CACHE_DIR"])
    load_or_calibrate(0, cache_dir=cache, measure=lambda _: fixed_ceilings())
    command = ["run", str(RESNET), "-o", "out", "--duration", "1", "--profile-iterations", "3"]
    running = start(*command)
    running.until("capture", running.measuring)
    code = running.stop(signal.SIGINT, group=group)
    _assert_interrupted(running, code, "source, engine, ceilings")
    assert list(cache.parent.glob("trtprof-*")) == [], "the scratch folder is gone"
    refused(trtprof("report", "out", cwd=tmp_path), 3)
    if group:
        return  # The rest would be the same.
    source = (tmp_path / "out" / "source.json").read_bytes()
    done = trtprof(*command, "--resume", "--quiet", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "out\n")
    assert (tmp_path / "out" / "source.json").read_bytes() == source
    assert trtprof("report", "out", "--format", "json", cwd=tmp_path).returncode == 0


@on_linux
def test_a_command_that_is_killed_takes_its_worker_with_it(tmp_path: Path, start: Callable[..., Started]) -> None:
    cache = Path(environment(tmp_path)["TRTPROF_CACHE_DIR"])
    load_or_calibrate(0, cache_dir=cache, measure=lambda _: fixed_ceilings())
    running = start("run", str(RESNET), "-o", "out", "--duration", "600")
    # Far into the timed loop, where the worker says nothing for ten minutes and so meets no broken pipe.
    running.until("the timed loop", lambda: running.measuring() and running.worker_seconds() > 3)
    assert running.stop(signal.SIGKILL) == -signal.SIGKILL
    assert running.alone()
    assert RunFolder(tmp_path / "out").read(run_folder.ENGINE, Engine).layers


class _Stop:
    """A `Progress` that ends the run where a stage begins, as a kill would."""

    def __init__(self, stage: str) -> None:
        self._stage = stage

    def note(self, text: str) -> None: ...

    def opened(self, folder: Path) -> None: ...

    def detail(self, text: str) -> None: ...

    def stage(self, name: str) -> None:
        if name == self._stage:
            raise KeyboardInterrupt


def test_what_a_killed_replacement_left_is_not_taken_for_the_next(finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for name, (content, _) in snapshot(finished).items():
        (out / name).write_bytes(content)
    engines = []
    for model in (RESNET, SAMPLES / "lstm.onnx"):
        with pytest.raises(KeyboardInterrupt):
            execute(RunOptions(model=ModelRequest.of(model), output=str(out), force=True), _Stop("ceilings"))
        engines.append(RunFolder(tmp_path / ".out.new").read(run_folder.ENGINE, Engine))
    assert "LSTM" not in {layer.op.op_type for layer in engines[0].layers}
    assert "LSTM" in {layer.op.op_type for layer in engines[1].layers}
    assert snapshot(out).keys() == snapshot(finished).keys()
