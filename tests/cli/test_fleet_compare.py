"""``trtprof fleet compare`` as a person uses it: what is printed and written, what is refused, and the exit codes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fakes import fleets
from tests.fakes.command_line import refused, trtprof
from tests.fakes.fleet_comparison_factory import cell_of, week
from trtprof.base.records import SCHEMA_VERSION, FleetRow
from trtprof.flows.fleet.cells import Asked, AskedModel, AskedTarget
from trtprof.flows.fleet.store import Store


def fleet_at(folder: Path, rows: Sequence[FleetRow], asked: Sequence[FleetRow] | None = None) -> Path:
    """The folder of a fleet that asks for what these rows answer, or for more."""
    cells = [cell_of(row) for row in (rows if asked is None else asked)]
    store = Store(str(folder), owner="test")
    models = tuple(AskedModel(name=name) for name in sorted({cell.model for cell in cells}))
    targets = tuple(AskedTarget(name=name, verb=verb, price_per_hour=2.0) for name, verb, _ in fleets.TARGETS)
    store.keep(Asked(schema_version=SCHEMA_VERSION, name="nightly", models=models, targets=targets), cells)
    store.put(rows)
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two fleets a week apart; of the later one a cell is not done yet."""
    folder = tmp_path_factory.mktemp("fleets")
    before, after = week(5)
    return fleet_at(folder / "monday", before), fleet_at(folder / "friday", after[:-2] + after[-1:], asked=after)


def test_what_changed_is_told(folders: tuple[Path, Path]) -> None:
    done = trtprof("fleet", "compare", *folders)
    assert done.exit_code == 0, done.output
    said = " ".join(done.stdout.split())
    for words in ("faster beyond noise", "failed now", "renamed", "datasheet", "nightly, 60 cells"):
        assert words in said
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert done.stderr.startswith("next: the same command with --gate")
    same = trtprof("fleet", "compare", folders[0], folders[0], "--gate", "latency>3%", "--gate", "failed>0")
    assert same.exit_code == 0, same.output
    assert "changed beyond noise" in same.stdout


def test_a_gate_that_fails_leaves_with_one(folders: tuple[Path, Path], tmp_path: Path) -> None:
    page = tmp_path / "week.html"
    done = trtprof("fleet", "compare", *folders, "--gate", "latency>3%", "--gate", "failed>0", "-o", page)
    assert done.exit_code == 1
    failed = [line.partition(" failed: ")[0] for line in done.stderr.splitlines() if line.startswith("gate ")]
    assert failed == ["gate latency>3%", "gate failed>0"]
    assert 'class="failed"' in page.read_text(encoding="utf-8")
    done = trtprof("fleet", "compare", *folders, "--gate", "latency>1e6%", "--gate", "failed>50")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(("option", "code"), [("pass", 0), ("fail", 1)])
def test_what_cannot_be_decided_is_its_own_answer(folders: tuple[Path, Path], option: str, code: int) -> None:
    arguments = ("--gate", "latency>40%", "--inconclusive", option)
    done = trtprof("fleet", "compare", *folders, *arguments)
    assert done.exit_code == code
    assert "gate latency>40% inconclusive" in done.stderr
    assert ("counts as failed" in done.stderr) == bool(code)


@pytest.mark.parametrize(("arguments", "words"), [
    (["--gate", "failed"], "looks cut off"), (["--gate", "lost>3%"], "known quantities: latency"),
    (["--inconclusive", "no"], "--inconclusive no is not known"), (["--format", "xlsx"], "has no format"),
    (["-o", "x.doc"], "says no format"),
])  # fmt: skip
def test_mistakes_are_one_clear_error(folders: tuple[Path, Path], arguments: list[str], words: str) -> None:
    refused(trtprof("fleet", "compare", *folders, *arguments), 2, words)
