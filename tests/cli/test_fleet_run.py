"""``trtprof fleet run`` and ``status`` as they are typed: to the end, interrupted, beside another, with failures."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from tests.fakes.support import ROOT, SAMPLES
from trtprof.base.fleet_table import lasting
from trtprof.base.records import FleetPlan
from trtprof.flows.fleet.cells import expand
from trtprof.flows.fleet.manifest import read
from trtprof.flows.fleet.store import Store

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


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.toml"
    path.write_text(MANIFEST)
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


# --- what is shown on the way -------------------------------------------------------------------
