"""`trtprof plugin` on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.command_line import trtprof
from tests.fakes.plugin_factory import bench, typical
from tests.fakes.support import SAMPLES
from trtprof.flows import plugin
from trtprof.flows.plugin import bench as benched
from trtprof.flows.plugin.bench import BenchOptions
from trtprof.flows.plugin.options import STEPS, PluginOptions

GEMV = SAMPLES / "gemv.onnx"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[PluginOptions]:
    """What the flow was asked; it made `typical` without doing anything."""
    given: list[PluginOptions] = []

    def stand_in(options: PluginOptions, *_: Any) -> Any:
        given.append(options)
        return typical()

    monkeypatch.setattr(plugin, "make", stand_in)
    return given


def test_options_get_to_the_flow(asked: list[PluginOptions], tmp_path: Path) -> None:
    done = trtprof(
        "plugin", GEMV, "MatMul", "--gpu", "rtx-4090", "-o", tmp_path / "p", "--only", "check,write", "--place", "a,b",
        "--no-function", "--alone", "--check-seconds", 7, "--trt-include", tmp_path, "--shapes", "a:1x2", "--force",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    (options,) = asked
    assert (options.what, options.layer, options.gpu) == (str(GEMV), "MatMul", "rtx-4090")
    assert (options.steps, options.places, options.function) == (("write", "check"), ("a", "b"), False)
    assert (options.alone, options.seconds, options.headers, options.force) == (True, 7, tmp_path, True)
    assert options.request is not None
    assert options.request.shapes_given == ("a:1x2",)
    assert options.folder == str(tmp_path / "p")
    assert "wrote" in done.stderr


def test_all_steps_are_done_unless_some_are_asked_for(asked: list[PluginOptions], tmp_path: Path) -> None:
    assert trtprof("plugin", tmp_path, "layer").exit_code == 0
    (options,) = asked
    assert (options.steps, options.request, options.what, options.folder) == (STEPS, None, str(tmp_path), "")


def test_what_lies_in_a_folder_is_checked_without_a_subject(asked: list[PluginOptions], tmp_path: Path) -> None:
    assert trtprof("plugin", "--only", "check", "-o", tmp_path).exit_code == 0
    assert trtprof("plugin", tmp_path, "--only", "check").exit_code == 0
    for options in asked:
        assert (options.steps, options.folder, options.what) == (("check",), str(tmp_path), "")


def test_bench_measures_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given: list[tuple[Path, BenchOptions]] = []

    def stand_in(folder: Path, _: Any, options: BenchOptions) -> Any:
        given.append((folder, options))
        return bench()

    monkeypatch.setattr(benched, "bench", stand_in)
    done = trtprof("plugin", "bench", tmp_path, "--device", 1)
    assert done.exit_code == 0, done.output
    assert given == [(tmp_path, BenchOptions(device=1))]
    assert bench().verdict in done.stdout
