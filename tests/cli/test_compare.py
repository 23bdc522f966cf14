"""``trtprof compare`` as a person uses it: what is printed and written, what is refused, and the exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from tests.fakes.command_line import trtprof
from tests.fakes.run_factory import tiny_run
from trtprof.base.records import Comparisons
from trtprof.cli import app
from trtprof.compare import compare
from trtprof.report import formats_of

SUFFIXES = [each.suffix for each in formats_of(Comparisons)]


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


def test_several_runs_make_one_side(runs: dict[str, Path]) -> None:
    side = ",".join(str(runs[name]) for name in ("a1", "a2"))
    done = trtprof("compare", side, runs["big"], "--format", "json")
    assert done.exit_code == 0, done.output
    (one,) = msgspec.json.decode(done.stdout, type=Comparisons).comparisons
    assert len(one.before.medians_ns) == 2
    assert one.before.latency.n == 400
    assert one.latency.answer == "slower"


def test_each_side_is_set_against_the_first(runs: dict[str, Path]) -> None:
    done = trtprof("compare", runs["a1"], runs["big"], runs["a2"], "--format", "json", "--gate", "latency>3%")
    assert done.exit_code == 1
    found = json.loads(done.stdout)["comparisons"]
    assert [(one["before"]["label"], one["after"]["label"]) for one in found] == [("a1", "big"), ("a1", "a2")]
    assert " (big against a1) failed: " in done.stderr


def test_files_are_written_by_their_suffix(runs: dict[str, Path], tmp_path: Path) -> None:
    paths = [tmp_path / f"compare{suffix}" for suffix in SUFFIXES]
    arguments = ["compare", runs["a1"], runs["big"], *(word for path in paths for word in ("-o", path))]
    done = trtprof(*arguments)
    assert done.exit_code == 0, done.output
    said = [line for line in done.stderr.splitlines() if line.startswith("wrote")]
    assert [line.partition("   ")[0] for line in said] == [f"wrote {path}" for path in paths]
    starts = {".json": b"{", ".md": b"### ", ".html": b"<!doctype html>", ".parquet": b"PAR1"}
    for path in paths:
        assert path.read_bytes().startswith(starts.get(path.suffix, b""))
    again = trtprof(*arguments)
    assert again.exit_code == 2
    assert "will not be overwritten" in again.stderr
    assert trtprof(*arguments, "--force").exit_code == 0


def test_a_failed_gate_leaves_all_files_written(runs: dict[str, Path], tmp_path: Path) -> None:
    done = trtprof("compare", runs["a1"], runs["big"], "--gate", "latency>3%", "-o", tmp_path / "x.html")
    assert done.exit_code == 1
    assert "FAILED" in done.stdout
    assert 'class="failed"' in (tmp_path / "x.html").read_text(encoding="utf-8")


def test_top_limits_the_parts(runs: dict[str, Path]) -> None:
    assert "parts     2 of " in trtprof("compare", runs["a1"], runs["big"], "--top", 2).stdout


def test_no_more_than_ascii_where_the_terminal_takes_no_more(runs: dict[str, Path]) -> None:
    done = CliRunner(charset="ascii").invoke(app, ["compare", str(runs["a1"]), str(runs["big"])], env={"NO_COLOR": "1"})
    assert done.exit_code == 0, done.output
    assert done.stdout.isascii()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "no run is named"),
        (["a1"], 2, "one run is named"),
        (["a1", "nowhere"], 3, "nowhere is not there"),
        (["a1,nowhere", "a2"], 3, "nowhere is not there"),
        (["a1,", "a2"], 2, "names no run"),
        (["a1,a1", "a2"], 2, "named twice on one side"),
        (["a1", "a2", "--gate", "latency"], 2, "the shell takes > for itself"),
        (["a1", "a2", "--gate", "latncy>3%"], 2, "--gate 'latency>3%'"),
        (["a1", "a2", "--inconclusive", "maybe"], 2, "--inconclusive fail"),
        (["a1", "a2", "--format", "junit"], 2, "known: csv, html, json, markdown, parquet, text"),
        (["a1", "a2", "-o", "x.svg"], 2, "known suffixes: .csv, .html, .json, .md"),
        (["a1", "empty"], 3, "report.json"),
        (["a1", "file"], 2, "is a file, not a run folder"),
    ],
)
def test_what_is_refused_says_why_and_how(
    runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a1", "a2"):
        (tmp_path / name).symlink_to(runs[name])
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    done = trtprof("compare", *arguments)
    assert done.exit_code == code, done.output
    assert done.stderr.startswith("error: ")
    assert said in done.stderr
    assert "\n  fix: " in done.stderr
    assert "Traceback" not in done.output
    assert not list(tmp_path.glob("*.svg"))


def test_a_comma_in_the_name_of_a_folder_is_no_border(runs: dict[str, Path], tmp_path: Path) -> None:
    odd = tmp_path / "a,b"
    shutil.copytree(runs["a1"], odd)
    done = trtprof("compare", odd, runs["a2"], "--format", "json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["comparisons"][0]["before"]["paths"] == [str(odd)]


def test_a_report_in_a_folder_names_the_folder(runs: dict[str, Path]) -> None:
    assert trtprof("compare", runs["a1"] / "report.json", runs["a2"]).exit_code == 0


def test_same_runs_same_document(runs: dict[str, Path]) -> None:
    arguments = ("compare", runs["a1"], runs["big"], "--format")
    for name in ("json", "html", "markdown"):
        assert trtprof(*arguments, name).stdout == trtprof(*arguments, name).stdout


def test_the_pipeline_judges_gates_of_what_it_compares(runs: dict[str, Path]) -> None:
    found = compare([[runs["a1"]], [runs["big"]]], ["latency>3%"])
    assert [gate.answer for gate in found.comparisons[0].gates] == ["failed"]
    assert compare([[runs["a1"]], [runs["big"]]]).comparisons[0].gates == ()
