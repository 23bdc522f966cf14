"""A run is gone on with whatever became of its artefacts, and never with one that cannot be read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.in_process import quick
from tests.fakes.support import SAMPLES
from trtprof.base import run_folder
from trtprof.base.errors import UsageError
from trtprof.base.run_folder import RunFolder
from trtprof.flows.options import RunOptions
from trtprof.flows.run import execute
from trtprof.source.request import ModelRequest


class _Heard:
    def __init__(self) -> None:
        self.told: list[str] = []

    def opened(self, folder: Path) -> None: ...

    def stage(self, name: str) -> None: ...

    def note(self, text: str) -> None: ...

    def detail(self, text: str) -> None:
        self.told.append(text)


def _go_on(folder: Path) -> _Heard:
    heard = _Heard()
    with pytest.MonkeyPatch.context() as patch:
        quick(patch)
        execute(
            RunOptions(
                model=ModelRequest.of(SAMPLES / "resnet_tiny.onnx"), output=str(folder), resume=folder.exists(),
                duration_s=0.0, iterations=3, warmup_ms=0.0, profile_iterations=3,
            ),
            heard,
        )  # fmt: skip
    return heard


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("done") / "run"
    _go_on(folder)
    return folder


def _half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _other(path: Path) -> None:
    path.write_bytes(b"[1, 2]")


DAMAGED: tuple[tuple[str, Callable[[Path], object]], ...] = (
    (run_folder.SOURCE, _half),
    (run_folder.ENGINE, _half),
    ("engine.onnx", _half),
    (run_folder.CEILINGS, _other),
    (run_folder.DEVICE, _half),
    (run_folder.CAPTURE, _half),
    (run_folder.KERNELS, _half),
    (run_folder.KERNELS, Path.unlink),
    (run_folder.LATENCY, _empty),
)


def test_what_cannot_be_read_is_made_again(done: Path, tmp_path: Path, subtests: pytest.Subtests) -> None:
    for number, (name, damage) in enumerate(DAMAGED):
        with subtests.test(f"{name} {damage.__name__}"):
            folder = tmp_path / str(number)
            shutil.copytree(done, folder)
            damage(folder / name)
            heard = _go_on(folder)
            assert name == run_folder.SOURCE or [line for line in heard.told if "cannot be read" in line]
            run = RunFolder(folder).report()
            assert sum(row.ns for row in run.ledger) == run.latency.median_ns


def test_a_request_that_cannot_be_read_is_not_resumed(done: Path, tmp_path: Path) -> None:
    shutil.copytree(done, tmp_path / "run")
    _half(tmp_path / "run" / run_folder.REQUEST)
    with pytest.raises(UsageError, match="cannot be read"):
        _go_on(tmp_path / "run")


def test_what_can_be_read_is_kept(done: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(done, folder)
    capture = (folder / run_folder.CAPTURE).read_bytes()
    heard = _go_on(folder)
    assert not [line for line in heard.told if "cannot be read" in line]
    assert (folder / run_folder.CAPTURE).read_bytes() == capture


def test_no_artefact_lies_elsewhere(tmp_path: Path) -> None:
    for name in ("../other", "/etc/passwd", "a/../b", "", "a\0b", "C:x"):
        with pytest.raises(UsageError, match="is no file of"):
            RunFolder(tmp_path).file(name)
