"""``trtprof compare`` as a person uses it: what is printed and written, what is refused, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.fakes.command_line import trtprof
from tests.fakes.run_factory import tiny_run
from trtprof.cli import app
from trtprof.compare import compare


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Real runs: the same model twice, and once with 16 times the work."""
    folder = tmp_path_factory.mktemp("runs")
    return {
        name: tiny_run(folder / name, batch=batch, median_ns=median_ns, seed=seed)
        for seed, (name, batch, median_ns) in enumerate(
            [("a1", 1, 250_000), ("a2", 1, 251_000), ("big", 16, 4_000_000)]
        )
    }


def test_a_run_against_itself_is_not_significant(runs: dict[str, Path]) -> None:
    done = trtprof("compare", runs["a1"], runs["a1"])
    assert done.exit_code == 0, done.output
    assert "not significant" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert done.stderr.startswith("next: the same command with --gate")


def test_sixteen_times_the_work_is_slower_and_fails_the_gate(runs: dict[str, Path]) -> None:
    done = trtprof("compare", runs["a1"], runs["big"], "--gate", "latency>3%", "--gate", "latency>1e9%")
    assert done.exit_code == 1
    assert "slower" in done.stdout
    assert "work changed" in done.stdout
    failed = [line for line in done.stderr.splitlines() if line.startswith("gate ")]
    assert len(failed) == 1
    assert failed[0].startswith("gate latency>3% failed: +")
    assert "is all above 3%" in failed[0]
    back = trtprof("compare", runs["big"], runs["a1"], "--gate", "latency>3%", "--gate", "lost>1%")
    assert back.exit_code == 0, back.output
    assert "gate " not in back.stderr


@pytest.mark.parametrize(
    ("option", "code"), [([], 0), (["--inconclusive", "pass"], 0), (["--inconclusive", "fail"], 1)]
)
def test_what_cannot_be_decided_is_its_own_answer(runs: dict[str, Path], option: list[str], code: int) -> None:
    # A threshold that is the change itself lies inside its interval.
    (one,) = compare([[runs["a1"]], [runs["a2"]]]).comparisons
    gate = f"latency>{100 * (one.latency.ratio.value - 1):.6f}%"
    arguments = ("compare", runs["a1"], runs["a2"], "--gate", gate, *option)
    done = trtprof(*arguments)
    assert done.exit_code == code
    (said,) = (line for line in done.stderr.splitlines() if line.startswith("gate "))
    assert said.startswith(f"gate {gate} inconclusive")
    assert ("counts as failed" in said) == bool(code)
    for name in ("text", "json", "markdown", "html"):
        assert "inconclusive" in trtprof(*arguments, "--format", name).stdout


def test_each_side_is_set_against_the_first(runs: dict[str, Path]) -> None:
    done = trtprof("compare", runs["a1"], runs["big"], runs["a2"], "--format", "json", "--gate", "latency>3%")
    assert done.exit_code == 1
    found = json.loads(done.stdout)["comparisons"]
    assert [(one["before"]["label"], one["after"]["label"]) for one in found] == [("a1", "big"), ("a1", "a2")]
    assert " (big against a1) failed: " in done.stderr


def test_no_more_than_ascii_where_the_terminal_takes_no_more(runs: dict[str, Path]) -> None:
    done = CliRunner(charset="ascii").invoke(app, ["compare", str(runs["a1"]), str(runs["big"])], env={"NO_COLOR": "1"})
    assert done.exit_code == 0, done.output
    assert done.stdout.isascii()
