"""Bad input on the command line: one clear error, its exit code, and nothing lost.

Every case runs the command in an empty folder, with no ceilings at hand: what is refused must be refused before
anything is measured.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info
from typer.testing import CliRunner

from tests.fakes.in_process import quick
from tests.fakes.support import SAMPLES, captured
from trtprof.cli import app, load_commands
from trtprof.flows.options import RunOptions
from trtprof.flows.run import execute
from trtprof.source.request import ModelRequest

load_commands()

RESNET = SAMPLES / "resnet_tiny.onnx"
FLOAT = TensorProto.FLOAT


def trtprof(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command, with the cache below ``cwd``'s parent; an error that is not ours is raised."""
    cache = {"TRTPROF_CACHE_DIR": str(cwd.parent / "cache")}
    with contextlib.chdir(cwd):
        result = CliRunner().invoke(app, list(map(str, arguments)), env=cache, catch_exceptions=False)
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
    "no external data": (lambda folder: external(folder, None), 3, "weights of 'w' are missing"),
    "short external data": (lambda folder: external(folder, 47), 3, "weights of 'w' are cut short"),
}


def test_a_model_that_cannot_be_used(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for case, (make, code, says) in BAD_MODELS.items():
        with subtests.test(case):
            folder = tmp_path / case
            folder.mkdir()
            make(folder)
            before = snapshot(folder)
            found = refused(trtprof("run", "model.onnx", cwd=folder), code)
            assert says in found[0]
            assert "model.onnx" in found[0]
            assert snapshot(folder) == before
            assert not (folder / "reports").exists()
            assert refused(trtprof("inspect", "model.onnx", cwd=folder), code) == found


def test_the_invalid_graphs_of_polygraphy(tmp_path: Path) -> None:
    for which in ("duplicate_node_names", "multi_level_errors", "no_name", "parallel_invalid_nodes"):
        path = captured("onnx", f"polygraphy__bad_graph_with_{which}.onnx")
        what, why, _ = refused(trtprof("run", path, "-o", "out", cwd=tmp_path), 2)
        assert "fails the ONNX checker" in what
        assert "required" in why
        assert snapshot(tmp_path) == {}


# --- shapes and inputs --------------------------------------------------------------------------


SHAPES: tuple[tuple[list[str], int, str], ...] = (
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
)


def test_shapes_and_inputs_that_do_not_fit(tmp_path: Path, subtests: pytest.Subtests) -> None:
    (tmp_path / "model.onnx").write_bytes(gemm().SerializeToString())
    np.save(tmp_path / "x.npy", np.zeros((5, 3), np.float32))
    before = snapshot(tmp_path)
    for options, code, says in SHAPES:
        with subtests.test(" ".join(options)):
            what, why, _ = refused(trtprof("run", "model.onnx", "-o", "out", *options, cwd=tmp_path), code)
            assert says in f"{what}\n{why}"
    for options in (["--batch", "two"], ["--no-such-option"], ["--seed"]):
        with subtests.test(" ".join(options)):
            done = trtprof("run", RESNET, *options, cwd=tmp_path)
            assert (done.returncode, done.stdout) == (2, "")
            assert "Error: " in done.stderr
    assert snapshot(tmp_path) == before
    assert not (tmp_path / "out").exists()


# --- ops that the runtime cannot run --------------------------------------------------------------


def _of_no_runtime() -> ModelProto:
    graph = make_graph(
        [make_node("Relu", ["x"], ["h"], name="fine"), make_node("Odd", ["h"], ["y"], name="strange", domain="own")],
        "graph",
        [make_tensor_value_info("x", FLOAT, [2])],
        [make_tensor_value_info("y", FLOAT, [2])],
    )
    return make_model(graph, opset_imports=[make_opsetid("", 17), make_opsetid("own", 1)], ir_version=8)


@pytest.mark.process
def test_an_op_that_the_runtime_cannot_run_is_named(finished: Path, tmp_path: Path) -> None:
    kept = snapshot(finished)
    (tmp_path / "model.onnx").write_bytes(_of_no_runtime().SerializeToString())
    for more in (["-o", "out"], ["-o", finished, "--force"]):
        what, _, _ = refused(trtprof("run", "model.onnx", *more, cwd=tmp_path), 3)
        assert all(each in what for each in ("cannot run the op", "own:Odd", "model.onnx"))
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"request.json", "source.json", "device.json"}
    assert not (tmp_path / "out" / "report.json").exists()
    assert snapshot(finished) == kept, "a failed replacement keeps the finished run"
    looked = trtprof("inspect", "model.onnx", "--no-engine", cwd=tmp_path)
    assert (looked.returncode, looked.stderr) == (0, "")


# --- the output -------------------------------------------------------------------------------------


OUTPUTS: tuple[tuple[list[str], int, str], ...] = (
    ([], 3, "cannot be written"),
    (["-o", "file/out"], 3, "cannot be written"),
    (["-o", "file"], 2, "is a file"),
)
"""Options of a run, where ``file`` and ``reports`` are files."""


def test_an_output_that_cannot_be_written(tmp_path: Path, subtests: pytest.Subtests) -> None:
    (tmp_path / "reports").write_text("a file where the folder of all runs would be")
    (tmp_path / "file").write_text("kept")
    before = snapshot(tmp_path)
    for options, code, says in OUTPUTS:
        for force in ([], ["--force"]):
            with subtests.test(" ".join((*options, *force))):
                what, _, fix = refused(trtprof("run", RESNET, *options, *force, cwd=tmp_path), code)
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


def test_a_folder_that_is_no_run_is_never_touched(tmp_path: Path) -> None:
    folder = tmp_path / "thesis"
    (folder / "chapters").mkdir(parents=True)
    (folder / "chapters" / "one.tex").write_text("years of work")
    (folder / "report.html").write_text("looks like ours")
    before = snapshot(tmp_path)
    for options in ([], ["--force"], ["--resume"], ["--force", "--resume"]):
        code = 3 if "--resume" in options else 2
        assert "thesis" in refused(trtprof("run", RESNET, "-o", "thesis", *options, cwd=tmp_path), code)[0]
    assert snapshot(tmp_path) == before
