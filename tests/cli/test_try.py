"""`trtprof try` on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fakes.command_line import refused, trtprof
from tests.fakes.support import SAMPLES
from tests.fakes.tried_factory import nothing, typical
from trtprof.cli.try_ import seconds
from trtprof.flows import try_
from trtprof.flows.try_.options import TryOptions

GEMV = SAMPLES / "gemv.onnx"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[TryOptions]:
    """What the flow was asked; it found `typical` without doing anything."""
    given: list[TryOptions] = []

    def stand_in(options: TryOptions, *_: Any) -> Any:
        given.append(options)
        return typical()

    monkeypatch.setattr(try_, "try_model", stand_in)
    return given


@pytest.mark.parametrize(
    ("text", "value"), [("90s", 90), ("5m", 300), ("1h", 3600), ("120", 120), ("1.5m", 90), ("2 min", 120)]
)
def test_a_budget_is_a_time(text: str, value: float) -> None:
    assert seconds(text) == value


def test_options_get_to_the_flow(asked: list[TryOptions]) -> None:
    done = trtprof(
        "try", GEMV, "--budget", "2m", "--max-candidates", 7, "--only", "kn703,RL101", "--rung", "gemv-as-reduce",
        "--skip", "no-arena", "--rewrites-only", "--threads", 2, "--seed", 3, "--runs", "somewhere",
        "--sessionOption", "execution_mode=parallel",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    (options,) = asked
    assert (options.budget_s, options.most, options.only) == (120, 7, ("KN703", "RL101"))
    assert (options.rungs, options.skip, options.kinds) == (
        ("gemv-as-reduce",),
        ("no-arena",),
        frozenset({"rewrite", "pass"}),
    )
    assert (options.run.threads, options.run.seed, options.run.output) == (2, 3, "somewhere")
    assert options.run.tuning.execution_mode == "parallel"
    assert "7.1x (6.90 to 7.30)" in done.stdout


@pytest.mark.usefixtures("asked")
def test_the_original_is_never_written_over(tmp_path: Path) -> None:
    copy = tmp_path / "mine.onnx"
    copy.write_bytes(GEMV.read_bytes())
    assert "is the original" in refused(trtprof("try", copy, "-o", copy, "--force"))
    other = tmp_path / "best.onnx"
    other.write_text("kept")
    assert "will not be overwritten" in refused(trtprof("try", copy, "-o", other))
    assert other.read_text() == "kept"


@pytest.mark.usefixtures("asked")
def test_a_patch_is_shown_where_it_is_asked_for() -> None:
    assert "- MatMul\n+ Mul\n+ ReduceSum" in trtprof("try", GEMV, "--patch").stdout
    assert "- MatMul" not in trtprof("try", GEMV).stdout


def test_a_model_that_is_not_better_is_not_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(try_, "try_model", lambda *_: nothing())
    done = trtprof("try", GEMV, "-o", tmp_path / "best.onnx")
    assert done.exit_code == 0
    assert "was not written" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_one_that_was_stopped_shows_what_it_has_and_leaves_as_ctrl_c_does(monkeypatch: pytest.MonkeyPatch) -> None:
    found = msgspec.structs.replace(typical(), interrupted=True, best=None)
    monkeypatch.setattr(try_, "try_model", lambda *_: found)
    done = trtprof("try", GEMV, "--format", "json")
    assert done.exit_code == 130
    assert '"interrupted": true' in done.stdout
