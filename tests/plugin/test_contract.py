"""plugin.py in TensorRT's real registry: what was written passes, and what is wrong does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fakes.other_versions import LEAN, other_version
from tests.fakes.scale_plugin import FORM, task
from trtprof.base.errors import MissingError
from trtprof.plugin.contract import find_tensorrt, registry
from trtprof.plugin.write import write


def use(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this version of the lean runtime and of the bindings in front of all others."""
    place = other_version(LEAN[version])
    monkeypatch.syspath_prepend(place)
    monkeypatch.setenv("PYTHONPATH", str(place), prepend=os.pathsep)


@pytest.mark.nightly
@pytest.mark.parametrize("version", LEAN)
def test_what_was_written_passes_with_triton_and_without(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton")
    use(version, monkeypatch)
    write(FORM, task(), tmp_path, ptx=True, dims={"n": 40, "m": 600})
    step = registry(tmp_path)
    assert (step.verdict, step.reason) == ("passed", f"TensorRT {version}, the lean runtime")
    assert step.cases == 7 + 3 + 1  # architectures, further shapes, further dtypes


FAULTS = {
    "plugin.py": (
        ('["launch"](cdiv', '["launch"](lambda a, b: a // b', "grid of tactic 1 (375, 1, 1) instead of (376, 1, 1)"),
        ("for one in integers]", "for one in integers[::-1]]", "integers of tactic 1 (601, 40) instead of (40, 601)"),
        ("sorted(TACTICS)", "[1]", "tactics [1] instead of [1, 2]"),
        ("(x.shape_expr[0], x.", "(x.shape_expr[1], x.", "shapes ((40, 601, 4), (40, 1, 1), (601, 601, 4), (601, "),
        ("x.dtype)", "trt.int32)", "dtypes ('FLOAT', 'FLOAT', 'INT32', 'INT32') instead of"),
        ('"FP32|FP16,', '"FP32,', "formats ((('FLOAT', 'LINEAR'), "),
        ('"enable_fp_fusion": True', '"enable_fp_fusion": False', "ptx of tactic 1 "),
        ("32 * TACTICS", "64 * TACTICS", "threads of tactic 1 (256, 1, 1) instead of (128, 1, 1)"),
        ("ENTRY.encode()", 'b"other"', "entry of tactic 1 other instead of scale"),
        ("trtprof::Scale", "trtprof::Other", "Other"),
        ("import os\n", "import os, nothing\n", "No module named 'nothing'"),
        ("INPUTS = ((None, None, 4)", "INPUTS = ((None, None, 5)", "not for ShapeExpr[4] in place of 5"),
    ),
    "kernel.py": (
        ("a * b + a", "a * b - a", "without Triton: sm_75, "),
        ("    M = x[1]", "    M = 1 + x[1]", "TypeError"),
        ("x[1]", "x[1] * 2**22", "integers of tactic 1 (40, -1774190592) instead of"),
    ),
}  # fmt: skip


@pytest.mark.nightly
def test_what_is_wrong_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    pytest.importorskip("triton")
    use("11.4.0.106", monkeypatch)
    for name, faults in FAULTS.items():
        for old, new, said in faults:
            with subtests.test(new):
                write(FORM, task(), tmp_path, ptx=name == "kernel.py", dims={"n": 40, "m": 601})
                text = (tmp_path / name).read_text()
                assert old in text
                (tmp_path / name).write_text(text.replace(old, new))
                step = registry(tmp_path)
                assert step.verdict == "failed"
                assert said in step.reason


def test_it_says_what_of_tensorrt_is_not_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tensorrt_bindings").mkdir()
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    with pytest.raises(MissingError, match="TensorRT is not installed"):
        find_tensorrt()
