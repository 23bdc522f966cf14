"""`trtprof plugin` on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests.fakes.command_line import trtprof
from tests.fakes.plugin_factory import bench, typical
from tests.fakes.support import SAMPLES
from trtprof.flows import plugin
from trtprof.flows.plugin import STEPS, PluginOptions
from trtprof.flows.plugin import bench as benched

GEMV = SAMPLES / "gemv.onnx"


def test_options_reach_the_flow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(plugin, "make", made := Mock(return_value=typical()))
    done = trtprof(
        "plugin", GEMV, "MatMul", "--gpu", "rtx-4090", "-o", tmp_path / "p", "--only", "check,write", "--place", "a,b",
        "--no-function", "--alone", "--ptx", "--cpp", "--check-seconds", 7, "--shapes", "a:1x2", "--force",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "wrote" in done.stderr
    trtprof("plugin", tmp_path, "layer")
    trtprof("plugin", "--only", "check", "-o", tmp_path)
    options, run, check = (call.args[0] for call in made.call_args_list)
    assert options.request.shapes_given == ("a:1x2",)
    assert options == PluginOptions(
        what=str(GEMV), layer="MatMul", request=options.request, gpu="rtx-4090", folder=str(tmp_path / "p"),
        steps=("write", "check"), places=("a", "b"), function=False, alone=True, ptx=True, cpp=True, seconds=7,
        force=True,
    )  # fmt: skip
    assert run == PluginOptions(what=str(tmp_path), layer="layer", steps=STEPS)
    assert check == PluginOptions(folder=str(tmp_path), steps=("check",))


def test_bench_measures_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(benched, "bench", measured := Mock(return_value=bench()))
    done = trtprof("plugin", "bench", tmp_path, "--device", 1)
    assert done.exit_code == 0, done.output
    assert measured.call_args.args[::2] == (tmp_path, 1)
    assert bench().verdict in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("bench",), "bench needs a folder"),
        ((GEMV,), "a layer are required"),
        ((GEMV, "MatMul", "--only", "brew"), "brew is not a step"),
        ((GEMV, "MatMul", "--device", "1"), "is for bench"),
        ((GEMV, "MatMul", "--gpu", "t4,l4"), "names 2 GPUs"),
        ((GEMV, "nonsense", "--gpu", "t4"), "no layer is called 'nonsense'"),
        (("missing.onnx", "MatMul", "--gpu", "t4"), "missing.onnx"),
    ],
)
def test_a_wrong_command_is_one_sentence(arguments: tuple[Any, ...], words: str) -> None:
    done = trtprof("plugin", *arguments)
    assert done.exit_code == 2, done.output
    assert words in done.stderr
