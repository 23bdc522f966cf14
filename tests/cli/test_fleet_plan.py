"""``trtprof fleet plan`` as a person uses it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.fakes.command_line import refused, trtprof
from tests.fakes.support import SAMPLES

SAMPLE = SAMPLES / "fleet.toml"


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTPROF_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


def test_the_sample_says_what_it_asks_and_how_long_it_takes() -> None:
    done = trtprof("fleet", "plan", SAMPLE)
    assert done.exit_code == 0, done.output
    assert "sample models, 90 cells: 6 models on 4 targets" in done.stdout
    assert "0 done, 0 failed, 90 left" in done.stdout
    assert "time left   ~" in done.stdout
    assert done.stderr == f"next: trtprof fleet run {SAMPLE} -o FOLDER\n"


def test_a_shard_and_a_folder_go_on_into_the_next_command(tmp_path: Path) -> None:
    done = trtprof("fleet", "plan", SAMPLE, "-o", tmp_path / "my fleet", "--shard", "2/3", "--format", "json")
    found = json.loads(done.stdout)
    assert 0 < found["cells"] < 90
    assert found["folder"] == str(tmp_path / "my fleet")
    assert done.stderr == f"next: trtprof fleet run {SAMPLE} -o '{tmp_path / 'my fleet'}' --shard 2/3\n"
    assert not (tmp_path / "my fleet").exists()


def test_every_mistake_is_told_with_its_line_and_no_traceback(tmp_path: Path) -> None:
    manifest = tmp_path / "fleet.toml"
    manifest.write_text('[[models]]\nfiles = "*.onnx"\nbatches = 0\n\n[[targets]]\ngpu = "l5"\n')
    done = trtprof("fleet", "plan", manifest)
    assert (done.exit_code, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert lines[0] == "error: fleet.toml has 2 mistakes"
    assert lines[1].startswith("  why: fleet.toml, line 3: models[0].batches: 0 is not possible")
    assert lines[2].startswith("       fleet.toml, line 6: targets[0].gpu: no GPU is called 'l5': the nearest are")
    manifest.write_text(manifest.read_text().replace("l5", "l4").replace("batches = 0", ""))
    done = trtprof("fleet", "plan", manifest)
    assert done.stderr == f"error: fleet.toml, line 2: models[0].files: *.onnx means no file in {tmp_path}\n"


def test_a_size_that_a_model_has_not_names_those_that_it_has(tmp_path: Path) -> None:
    shutil.copy(SAMPLES / "transformer_block.onnx", tmp_path)
    manifest = tmp_path / "fleet.toml"
    manifest.write_text('[[models]]\nfiles = "*.onnx"\nsizes = { seq = 8 }\n[[targets]]\ngpu = "l4"\n')
    said = trtprof("fleet", "plan", manifest).stderr
    assert "fleet.toml, line 3: models[0].sizes.seq: transformer_block.onnx: 'seq' is not a dynamic dimension" in said
    assert "input_ids:batchxsequence" in said


def test_an_option_of_cells_is_led_to_the_manifest() -> None:
    said = refused(trtprof("fleet", "plan", SAMPLE, "--warmUp", "3"))
    assert "in the manifest: options = { warmup = ... }" in said
    assert "--useSpinWait is not taken by trtprof fleet plan" in refused(trtprof("fleet", "plan", "--useSpinWait"))
