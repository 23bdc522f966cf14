"""``trtprof fleet run`` and ``status`` as they are typed: to the end, interrupted, beside another, with failures."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tests.fakes.support import ROOT, SAMPLES
from trtprof.base.errors import MissingError
from trtprof.base.fleet_table import lasting
from trtprof.base.records import FleetPlan, FleetTargetCount
from trtprof.cli import app
from trtprof.cli.fleet.live import FleetLines, block, overall
from trtprof.flows import fleet as flow
from trtprof.flows.fleet import HowToRun, running
from trtprof.flows.fleet.cells import expand
from trtprof.flows.fleet.manifest import read
from trtprof.flows.fleet.store import Store
from trtprof.flows.progress import SILENT

pytestmark = pytest.mark.nightly

MANIFEST = f"""
[[models]]
files = ["{SAMPLES}/resnet_tiny.onnx", "{SAMPLES}/mobilenet_tiny.onnx"]
batches = [1, 2, 4, 8, 16, 32]
precisions = ["model", "fp16"]

[[targets]]
gpu = "l4"

[[targets]]
gpu = "t4"
"""
CELLS = 2 * 6 * 2 * 2


FEW = 8 * 2


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.toml"
    path.write_text(MANIFEST)
    return path


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(
        f'models = [{{ files = "{SAMPLES}/transformer_block.onnx", batches = [1, 2, 3, 4, 5, 6, 7, 8] }}]\n'
        'targets = [{ gpu = "l4" }, { gpu = "t4" }]\n'
    )
    return path


def started(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "trtprof", "fleet", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def ran(*arguments: object) -> tuple[int, str, str]:
    process = started(*arguments)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def rows(folder: Path) -> pa.Table:
    return lasting(Store(str(folder)).table())


def ended_on_the_way(manifest: Path, folder: Path, workers: int, *numbers: signal.Signals) -> tuple[int, str]:
    """What a fleet that gets signals once it has an answer leaves with and says; another has a part of it till then."""
    other = Store(str(folder), owner="another")
    other.claim([expand(read(manifest)).cells[-1].group])
    process = started("run", manifest, "-o", folder, "--workers", workers)
    while not list(folder.glob("parts/*.parquet")) and process.poll() is None:
        other.alive()
        time.sleep(0.05)
    process.send_signal(signal.SIGSTOP)
    for each in numbers:  # as they are when a session is ended: all there at once
        process.send_signal(each)
    process.send_signal(signal.SIGCONT)
    _, err = process.communicate(timeout=60)
    other.close()
    return process.returncode, err


def test_interrupted_and_resumed_the_table_is_that_of_an_undisturbed_run(manifest: Path, tmp_path: Path) -> None:
    code, out, err = ran("run", manifest, "-o", tmp_path / "whole", "--workers", 2)
    assert code == 0, err
    assert f"{CELLS} done, 0 failed, 0 left" in out
    assert f"{CELLS} of {CELLS} cells done" in err
    assert err.rstrip().endswith(f"next: trtprof fleet report {tmp_path}/whole -o fleet.html")
    whole = rows(tmp_path / "whole")
    assert whole.num_rows == CELLS

    code, err = ended_on_the_way(manifest, tmp_path / "parts", 2, signal.SIGINT)
    assert code == 130
    assert "Traceback" not in err
    assert f"what is answered is kept in {tmp_path}/parts, and the same command goes on" in err
    kept = rows(tmp_path / "parts").num_rows
    assert 0 < kept < CELLS, "it was interrupted in the middle"
    assert not Store(str(tmp_path / "parts")).claimed()

    code, out, _ = ran("status", tmp_path / "parts", "--format", "json")
    found = msgspec.json.decode(out, type=FleetPlan)
    assert (code, sum(each.done for each in found.targets)) == (0, kept)

    # Two at once finish it, and neither does what the other does.
    both = [started("run", manifest, "-o", tmp_path / "parts", "--workers", 1, "--quiet") for _ in range(2)]
    for each in both:
        out, err = each.communicate(timeout=120)
        assert (each.returncode, out) == (0, f"{tmp_path}/parts\n"), err
    assert rows(tmp_path / "parts").equals(whole)


@pytest.mark.parametrize("numbers", [(signal.SIGTERM,), (signal.SIGHUP, signal.SIGTERM)])
def test_what_ends_a_job_or_closes_a_terminal_lets_all_go(
    numbers: tuple[signal.Signals, ...], manifest: Path, tmp_path: Path
) -> None:
    code, err = ended_on_the_way(manifest, tmp_path / "f", 1, *numbers)
    # Which of those that wait is heard first is the system's affair.
    assert code in {128 + each for each in numbers}
    assert f"stopped by {signal.Signals(code - 128).name}: what is answered is kept" in err
    assert "Traceback" not in err
    assert 0 < rows(tmp_path / "f").num_rows < CELLS, "it was ended in the middle"
    assert not list((tmp_path / "f" / "claims").iterdir())


def test_cells_that_fail_are_counted_and_done_again_when_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    manifest = tmp_path / "fleet.toml"
    manifest.write_text('models = [{ files = "*.onnx" }]\ntargets = [{ gpu = "l4" }]\n')
    folder = tmp_path / "fleet"
    code, out, err = ran("run", manifest, "-o", folder, "--fail-on", "failed")
    assert code == 1
    assert "1 failed" in out
    assert f"1 cell failed; again: trtprof fleet run {manifest} -o {folder} --retry failed" in err
    first = Store(str(folder)).table().to_pylist()
    assert ran("run", manifest, "-o", folder)[0] == 0
    assert Store(str(folder)).table().to_pylist() == first, "nothing was asked again"
    (tmp_path / "broken.onnx").write_bytes((SAMPLES / "lstm.onnx").read_bytes())
    code, out, err = ran("run", manifest, "-o", folder, "--retry", "failed", "--format", "json")
    assert (code, json.loads(out)["targets"][0]["done"]) == (0, 1), err


def test_what_to_do_again_is_on_the_same_cluster(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = FleetTargetCount(target="l4", verb="predict", cells=1, failed=1)
    plan = FleetPlan(schema_version=1, name="", folder="out", models=1, cells=1, targets=(count,))
    monkeypatch.setattr(flow, "run", lambda *_: plan)
    found = CliRunner().invoke(app, ["fleet", "run", str(small), "-o", "out", "--shard", "1/2", "--ray", "auto"])
    again = f"again: trtprof fleet run {small} -o out --shard 1/2 --ray auto --retry failed"
    assert (found.exit_code, again in " ".join(found.stderr.split())) == (0, True)


def test_what_nothing_here_executes_is_left_with_exit_code_3(tmp_path: Path) -> None:
    manifest = tmp_path / "fleet.toml"
    manifest.write_text(
        f'models = [{{ files = "{SAMPLES}/lstm.onnx" }}]\n'
        'targets = [{ gpu = "l4" }, { name = "pool", verb = "run", resource = "gpu_h100" }]\n'
    )
    code, out, err = ran("run", manifest, "-o", tmp_path / "fleet")
    assert code == 3
    assert "1 done, 0 failed, 1 left" in out
    assert re.search(r"error: 1 cell is left\n  why: 1 cell of pool: it needs gpu_h100, .*\n  fix: .*--ray", err)


def test_a_shard_does_its_part_alone(small: Path, tmp_path: Path) -> None:
    for part in ("1/2", "2/2"):
        code, _, err = ran("run", small, "-o", tmp_path / "fleet", "--shard", part)
        assert code == 0, err
        done = rows(tmp_path / "fleet").num_rows
        assert (done < FEW) == (part == "1/2")
    assert rows(tmp_path / "fleet").num_rows == FEW


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["run", "MANIFEST", "-o", "F", "--retry", "all"], "error: --retry all is not known"),
        (["run", "MANIFEST", "-o", "F", "--shard", "3/2"], "error: --shard 3/2 is no part"),
        (["run", "nowhere.toml", "-o", "F"], "nowhere.toml"),
        (["status", "F"], "is no folder of a fleet"),
    ],
)
def test_what_is_not_possible_is_told_in_a_line(
    arguments: list[str], error: str, manifest: Path, tmp_path: Path
) -> None:
    code, _, err = ran(*({"MANIFEST": manifest, "F": tmp_path / "f"}.get(each, each) for each in arguments))
    assert code in (2, 3)
    assert error in err
    assert "Traceback" not in err
    assert not (tmp_path / "f").exists()


# --- what is shown on the way -------------------------------------------------------------------


def target(name: str, cells: int, done: int, failed: int = 0, left_s: float | None = None) -> FleetTargetCount:
    return FleetTargetCount(target=name, verb="predict", cells=cells, done=done, failed=failed, left_s=left_s)


def a_plan(*targets: FleetTargetCount, left_s: float | None = None) -> FleetPlan:
    cells = sum(each.cells for each in targets)
    return FleetPlan(schema_version=1, name="x", folder="f", models=1, cells=cells, targets=targets, left_s=left_s)


def test_a_block_has_a_line_a_target_and_no_more_than_the_terminal() -> None:
    plan = a_plan(target("l4", 10, 10), target("rtx-4090", 10, 3, 2, left_s=75), left_s=75)
    assert block(plan, 24) == [
        "l4        predict  ####################  10 done",
        "rtx-4090  predict  ##########..........  3 done, 2 failed, 5 left, about 75 s",
        "13 of 20 cells done, 2 failed, 5 left, about 75 s to go",
    ]
    many = a_plan(*(target(f"gpu{at:02}", 4, 4 if at < 30 else 1) for at in range(40)))
    lines = block(many, 12)
    assert [line[:5] for line in lines[:10]] == [f"gpu{at}" for at in range(30, 40)]
    assert lines[-2] == "and 30 other targets"
    assert len(lines) == 12
    assert overall(a_plan(target("l4", 3, 3))) == "3 of 3 cells done"


class Terminal(io.StringIO):
    """What seems to be one."""

    def isatty(self) -> bool:
        return True


def test_on_a_terminal_a_block_is_drawn_and_goes_and_elsewhere_lines_are_told_now_and_then() -> None:
    half, whole = a_plan(target("l4", 2, 1)), a_plan(target("l4", 2, 2))
    screen = Terminal()
    with FleetLines(stream=screen) as lines:
        lines.watch(half)
        lines.note("a file was set aside")
        lines.watch(whole)
    shown = screen.getvalue()
    assert "a file was set aside\n" in shown
    assert "l4  predict  ##########" in shown
    log = io.StringIO()
    with FleetLines(stream=log, every_s=0.0) as lines:
        lines.watch(half)
        lines.watch(half)
        lines.watch(whole)
    assert log.getvalue().splitlines() == ["1 of 2 cells done, 1 left", "2 of 2 cells done"]
    silent = io.StringIO()
    with FleetLines(stream=silent, quiet=True, every_s=0.0) as lines:
        lines.watch(half)
    assert not silent.getvalue()


def test_status_watches_until_nothing_is_left(small: Path, tmp_path: Path) -> None:
    folder = tmp_path / "my fleet"
    assert ran("run", small, "-o", folder, "--shard", "1/2")[0] == 0
    watching = started("status", folder, "--watch")
    assert ran("run", small, "-o", folder)[0] == 0
    out, err = watching.communicate(timeout=60)
    assert (watching.returncode, f"{FEW} done, 0 failed, 0 left" in out) == (0, True), err
    assert f"next: trtprof fleet report '{folder}' -o fleet.html" in " ".join(err.split())


def test_cells_that_a_manifest_asks_no_more_are_told(small: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert "asked no more" not in started("run", small, "-o", folder).communicate(timeout=120)[1]
    small.write_text(small.read_text().replace(", 3, 4, 5, 6, 7, 8", ""))
    process = started("run", small, "-o", folder)
    told = " ".join(process.communicate(timeout=120)[1].split())
    assert process.returncode == 0
    assert "12 of 16 cells that 'small' asked in" in told
    assert "asked no more: reports leave them out" in told


def test_on_windows_it_is_told_before_anything_is_made(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(MissingError, match="cannot be answered on Windows"):
        running.run(small, str(tmp_path / "out"), HowToRun(), SILENT)
    assert not (tmp_path / "out").exists()
