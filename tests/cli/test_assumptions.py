"""What is assumed of a model is said by every verb, whole, however narrow the lines are."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from tests.fakes.command_line import trtprof

NAME = "a_rather_long_name_of_an_input/" * 2 + "x"
LENGTH = f"an unnamed dynamic dimension (a length, index 1 of input '{NAME}') was not given: 128 assumed"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    graph = helper.make_graph(
        [helper.make_node("Relu", [NAME], ["y"], "relu")],
        "g",
        [helper.make_tensor_value_info(NAME, TensorProto.FLOAT, ["batch", None, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", None, 8])],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


VERBS: dict[str, tuple[str | int, ...]] = {
    "run": ("run", "--backend", "ort-cpu", "--iterations", 3, "--duration", 0, "--warmUp", 0, "-o", "out"),
    "inspect": ("inspect",),
    "sweep": ("inspect", "--sweep", "batch=1,2"),
    "predict": ("predict", "--gpu", "rtx-4090", "--level", "groups"),
}


def check(model: Path, verb: str, *rest: object) -> None:
    done = trtprof(verb, model, *rest)
    assert done.exit_code == 0, done.output
    said = " ".join((done.stderr + done.stdout).split())
    assert f"assumed: {LENGTH}" in said, done.output


@pytest.mark.usefixtures("quick_runs")
@pytest.mark.parametrize("verb", VERBS)
def test_what_is_assumed_is_said_whole(verb: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRTPROF_NO_ENGINE", "1")
    first, *rest = VERBS[verb]
    check(model, str(first), *rest)


@pytest.mark.process
@pytest.mark.skipif(importlib.util.find_spec("tensorrt_rtx") is None, reason="tensorrt_rtx is not installed")
def test_a_build_says_what_it_assumed(model: Path) -> None:
    check(model, "build", "--backend", "tensorrt-rtx")
