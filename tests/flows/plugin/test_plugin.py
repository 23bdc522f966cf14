"""`trtprof plugin` as a flow: from a layer to the files of a plugin and their checks, or to a brief alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

from tests.fakes.compiler import needs_nvrtc
from tests.fakes.in_process import quick
from trtprof.base.errors import MissingError, UsageError
from trtprof.flows.options import RunOptions
from trtprof.flows.plugin import NotCompiledError, make
from trtprof.flows.plugin.options import PluginOptions
from trtprof.flows.run import execute
from trtprof.hardware.store import default_cache_dir
from trtprof.plugin import folder as folders
from trtprof.plugin.trust import other_code
from trtprof.runtime import nvrtc
from trtprof.source.request import ModelRequest

THIN = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[B, 40, 24] x, float[B, 24, 1] w) => (float[B, 40, 1] y, float[B, 40, 1] z) {
  [first] p = MatMul(x, w)
  [behind] y = Relu(p)
  [second] q = MatMul(x, w)
  z = Relu(q)
}
"""


@pytest.fixture(autouse=True)
def _compiler() -> None:
    needs_nvrtc()


@pytest.fixture
def thin(tmp_path: Path) -> Path:
    path = tmp_path / "thin.onnx"
    onnx.save(onnx.parser.parse_model(THIN), path)
    return path


def asked(model: Path, layer: str, **more: object) -> PluginOptions:
    request = ModelRequest.of(model, ("x:3x40x24,w:3x24x1",) if model.name == "thin.onnx" else ())
    return PluginOptions(what=str(model), layer=layer, request=request, gpu="rtx-4090", **{"seconds": 1.0, **more})  # type: ignore[arg-type]


def outputs(model: Path, **inputs: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)  # type: ignore[no-any-return]


@pytest.mark.process
def test_a_layer_becomes_a_plugin_with_all_its_checks(thin: Path, tmp_path: Path) -> None:
    out = tmp_path / "plugin"
    found = make(asked(thin, "first", folder=str(out)))
    assert found.template == "gemv"
    assert found.brief.nodes == ("first", "behind")
    steps = {step.name: step.verdict for step in found.check.steps} if found.check else {}
    assert steps["numerics"] == steps["traffic"] == steps["onnxruntime"] == "passed"
    assert set(steps) == {"numerics", "traffic", "registry", "native", "onnxruntime", "tensorrt-rtx"}
    assert "failed" not in steps.values()
    # Every file that is told is there, and none besides.
    assert sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()) == sorted(found.files)
    # Both places have it, and any batch is served.
    assert found.inserted is not None
    assert len(found.inserted.places) == 2
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((5, 40, 24), (5, 24, 1)))
    for before, after in zip(outputs(thin, x=x, w=w), outputs(out / "model.onnx", x=x, w=w), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)


def test_what_lies_in_a_folder_can_be_checked_again_and_a_fault_is_found(thin: Path, tmp_path: Path) -> None:
    out = tmp_path / "plugin"
    make(asked(thin, "first", folder=str(out), steps=("brief", "write")))
    again = make(PluginOptions(folder=str(out), steps=("check",), seconds=1.0))
    assert again.check is not None
    assert {step.verdict for step in again.check.steps} <= {"passed", "not here"}
    assert other_code(out, default_cache_dir()) is None
    held = folders.load(out)
    for name in held.kernels[0].ptx.values():
        (out / name).write_text(_spoilt((out / name).read_text()))
    spoilt = make(PluginOptions(folder=str(out), steps=("check",), seconds=1.0))
    assert spoilt.check is not None
    assert {step.name: step.verdict for step in spoilt.check.steps}["numerics"] == "failed"
    assert json.loads((out / "brief.json").read_text())["check"]["steps"][0]["verdict"] == "failed"
    assert "**failed**" in (out / "README.md").read_text()
    (out / name).write_text("no PTX")
    with pytest.raises(UsageError, match=r"\.ptx cannot be read"):
        make(PluginOptions(folder=str(out), steps=("check",), seconds=1.0))
    (out / name).write_bytes(b"\xff")
    with pytest.raises(UsageError, match="cannot be read"):
        make(PluginOptions(folder=str(out), steps=("check",), seconds=1.0))
    (out / "brief.json").write_text("{")
    with pytest.raises(UsageError, match=r"brief\.json cannot be read"):
        make(PluginOptions(folder=str(out), steps=("check",), seconds=1.0))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("place", "stop"),
    [
        ("trtprof.base.run_folder.RunFolder.write_bytes", OSError),
        ("trtprof.plugin.insert._check", KeyboardInterrupt),
        ("trtprof.plugin.folder.save", OSError),
    ],
)
def test_what_fails_before_it_is_whole_leaves_the_plugin_that_was_there(
    thin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, stop: type[BaseException]
) -> None:
    def stopped(*_: object, **__: object) -> Any:
        raise stop

    out = tmp_path / "plugin"
    make(asked(thin, "first", folder=str(out), steps=("brief", "write", "insert")))
    before = contents(out)
    monkeypatch.setattr(place, stopped)
    with pytest.raises((KeyboardInterrupt, MissingError)):
        make(asked(thin, "behind", folder=str(out), steps=("brief", "write", "insert"), alone=True, force=True))
    monkeypatch.undo()
    assert contents(out) == before
    folders.load(out)
    assert {path.name for path in out.iterdir()} == {name.split("/")[0] for name in before}


@pytest.mark.nightly
def test_text_that_is_newer_than_its_ptx_is_told(thin: Path, tmp_path: Path) -> None:
    out = tmp_path / "plugin"
    make(asked(thin, "first", folder=str(out), steps=("brief", "write")))
    held = folders.load(out)

    def notes() -> list[str]:
        again = make(PluginOptions(folder=str(out), steps=("check",), seconds=1.0))
        return [note for note in again.notes if "since its PTX was compiled" in note]

    assert notes() == []
    own = held.kernels[0]
    (out / own.source).write_text((out / own.source).read_text() + "// faster\n")
    for _ in range(2):
        assert [note.split()[0] for note in notes()] == [own.source]
    for name in own.ptx.values():
        (out / name).write_text((out / name).read_text() + "// compiled again\n")
    assert notes() == []


def _spoilt(ptx: str) -> str:
    """The same with multiply-adds that forget what they add to."""
    return re.sub(r"fma\.rn\.f32 ([^,]+, [^,]+, [^,]+), [^;]+;", r"mul.rn.f32 \1;", ptx)


def test_a_brief_is_written_where_no_kernel_can_be(tmp_path: Path) -> None:
    path = tmp_path / "wide.onnx"
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[64, 64] x, float[64, 64] w) => (float[64, 64] y)'
    onnx.save(onnx.parser.parse_model(text + " { [wide] y = MatMul(x, w) }"), path)
    found = make(asked(path, "wide", folder=str(tmp_path / "out")))
    assert found.variants == ()
    assert found.inserted is None
    assert "no kernel is written" in found.notes[0]
    assert "libraries have better kernels" in found.refused["gemv"]
    assert found.files == ("brief.json", "brief.md")


def test_a_brief_is_written_where_nothing_compiles(thin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> list[int]:
        raise MissingError("NVRTC is not installed", fix="install it")

    monkeypatch.setattr(nvrtc, "architectures", missing)
    with pytest.raises(NotCompiledError, match="NVRTC is not installed") as refused:
        make(asked(thin, "first", folder=str(tmp_path / "out")))
    assert refused.value.fix == "install it"
    found = refused.value.document
    assert found.notes[0] == "no kernel is written: NVRTC is not installed"
    assert found.files == ("brief.json", "brief.md")


def test_steps_are_done_that_are_asked_for(thin: Path, tmp_path: Path) -> None:
    brief = make(asked(thin, "first", folder=str(tmp_path / "brief"), steps=("brief",)))
    assert brief.files == ("brief.json", "brief.md")
    assert brief.variants == ()
    insert = make(asked(thin, "first", folder=str(tmp_path / "insert"), steps=("insert",), places=("second",)))
    assert insert.inserted is not None
    assert [place[0] for place in insert.inserted.places] == ["second"]
    with pytest.raises(UsageError, match="no folder is named"):
        make(asked(thin, "first", steps=("insert",)))
    nothing = make(asked(thin, "first", steps=("brief", "write")))
    assert (nothing.files, nothing.folder) == ((), "")
    assert nothing.variants


def test_files_that_are_there_are_kept(thin: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thing").write_text("mine")
    with pytest.raises(UsageError, match="will not be overwritten"):
        make(asked(thin, "first", folder=str(tmp_path / "mine")))
    with pytest.raises(UsageError, match="no node is called 'behind the moon'"):
        make(asked(thin, "first", folder=str(tmp_path / "out"), places=("behind the moon",)))
    assert not (tmp_path / "out").exists()
    with pytest.raises(UsageError, match="is a file"):
        make(asked(thin, "first", folder=str(thin)))


def test_a_layer_is_found_by_the_name_that_messages_give_it(tmp_path: Path) -> None:
    path = tmp_path / "chain.onnx"
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[64, 3, 8] x) => (float[3, 64, 8] y, float[64, 3, 8] z) {
      [t] turned = Transpose<perm = [1, 0, 2]>(x)
      [t_more] y = Relu(turned)
      [s] shape = Shape(x)
      [s_abs] a = Abs(x)
      [s_exp] z = Exp(a)
    }"""
    onnx.save(onnx.parser.parse_model(text), path)
    with pytest.raises(UsageError, match="layers are called") as refused:
        make(asked(path, "_", steps=("brief", "write")))
    assert "s_abs +1" in (refused.value.why or "")
    found = make(asked(path, "s_abs +1", steps=("brief", "write")))
    assert found.brief.nodes == ("s_abs", "s_exp")
    assert found.variants
    # A node that launches nothing is not taken for another that has its name as a part.
    for steps in (("brief",), ("brief", "write")):
        with pytest.raises(UsageError, match="Shape 's' launches nothing"):
            make(asked(path, "s", steps=steps))


def test_a_kernel_is_for_the_model_that_ran(thin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    request = ModelRequest.of(str(thin), ("x:3x40x24,w:3x24x1",))
    execute(RunOptions(model=request, iterations=1, duration_s=0, output=str(tmp_path / "run")))
    of_run = PluginOptions(what=str(tmp_path / "run"), layer="first", gpu="rtx-4090", steps=("brief", "write"))
    assert make(of_run).template == "gemv"
    proto = onnx.load(thin)
    proto.doc_string = "changed"
    onnx.save(proto, thin)
    found = make(of_run)
    assert (found.template, found.variants) == ("", ())
    assert "is not the model that this is about" in found.notes[0]


def test_numbers_that_are_part_of_a_kernel_stand_in_its_formulas(tmp_path: Path) -> None:
    path = tmp_path / "scaled.onnx"
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[40, 24] x) => (float[40, 24] y) <float half = {0.5}> { [scale] p = Mul(x, half) [behind] y = Relu(p) }
    """
    onnx.save(onnx.parser.parse_model(text), path)
    brief = make(asked(path, "scale", steps=("brief", "write"))).brief
    assert brief.formulas == ("t0 = x * 0.5", "y = max(t0, 0)")
    assert [one.operand for one in brief.tensors] == ["x", "y"]
