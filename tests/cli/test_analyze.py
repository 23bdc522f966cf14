"""``trtprof analyze`` as a person uses it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.fakes import command_line
from tests.fakes.engine_factory import RESNET, files_of
from tests.fakes.support import ROOT, SAMPLES
from trtprof.engine.inspector import read_layer_info

trtprof = partial(command_line.trtprof, "analyze")

LOG = str(ROOT / "tests" / "engine" / "data" / "rtx_resnet_tiny.log")
RESNET_TINY = str(SAMPLES / "resnet_tiny.onnx")


@pytest.fixture
def profile(tmp_path: Path) -> str:
    """20 us for every layer of the plan in the log."""
    path = tmp_path / "profile.json"
    rows = [{"name": layer.name, "averageMs": 0.02, "medianMs": 0.02} for layer in read_layer_info(Path(LOG)).layers]
    path.write_text(json.dumps([{"count": 100}, *rows]))
    return str(path)


@pytest.fixture
def times(tmp_path: Path) -> str:
    path = tmp_path / "times.json"
    path.write_text(json.dumps([{"latencyMs": 0.53, "computeMs": 0.5, "h2dMs": 0.02, "d2hMs": 0.01}] * 20))
    return str(path)


def test_the_report_in_the_terminal(profile: str, times: str) -> None:
    done = trtprof(LOG, profile, times, "--onnx", RESNET_TINY, "--batch", "2", "--gpu", "rtx-4090")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[:2] == ["resnet_tiny   image 2x3x64x64 fp32 (dims as asked for)", "tensorrt on RTX 4090"]
    assert "LATENCY   530 us (p10 " in done.stdout
    words = " ".join(done.stdout.split())
    assert "at peaks not measured: datasheet rtx-4090.toml" in words
    asked = trtprof(LOG, profile, times, "--onnx", RESNET_TINY, "--batch", "2", "--gpu", "rtx-4090", "--ledger")
    assert "copies to the GPU" in asked.stdout
    assert "copies to the GPU" not in done.stdout
    assert "fusions that did not happen" in done.stdout
    assert "by kind" in done.stdout
    assert "thread" not in done.stdout
    assert "next: the same command with -o report.html" in done.stderr


@pytest.mark.parametrize(
    ("engine", "measured", "given"),
    [
        ("fp16", "LATENCY   100 us (p10 100, p50 100, p99 100 us", "image 8x3x256x256 fp32"),
        (RESNET, "LATENCY   862 us (p10 860, p50 862, p99 871 us", "input.1 32x3x224x224 fp32"),
    ],
)
def test_an_engine_of_a_file_a_kind(engine: str, measured: str, given: str, tmp_path: Path) -> None:
    done = trtprof(*map(str, filter(None, files_of(engine, tmp_path))), "--gpu", "A100 80GB PCIe")
    assert done.exit_code == 0, done.output
    assert measured in done.stdout
    assert "reformats: 2, by origin" in done.stdout
    assert given in done.stdout


def test_without_times_it_is_said_to_be_a_sum(profile: str) -> None:
    done = trtprof(LOG, profile, "--onnx", RESNET_TINY, "--batch", "2", "--gpu", "rtx-4090", "--ledger")
    assert "580 us in layers: their sum, not an end-to-end latency" in done.stdout
    assert "adds up to the sum of the layers" in done.stdout
    assert "no end-to-end times" in " ".join(done.stdout.split())


def test_options_say_what_the_files_are(profile: str, times: str) -> None:
    by_option = trtprof("--layers", LOG, "--profile", profile, "--times", times, "--gpu", "l4", "--format", "json")
    by_export = trtprof("--exportLayerInfo", LOG, "--exportProfile", profile, "--exportTimes", times, "--gpu", "l4",
                        "--format", "json")  # fmt: skip
    assert by_option.exit_code == 0, by_option.output
    assert (
        by_option.stdout == by_export.stdout == trtprof(times, profile, LOG, "--gpu", "l4", "--format", "json").stdout
    )
    found = json.loads(by_option.stdout)
    assert found["backend"]["reason"].startswith("read from files: layers rtx_resnet_tiny.log, profile profile.json")


def test_ceilings_are_those_asked_for(profile: str) -> None:
    def roof(*more: str) -> dict[str, object]:
        done = trtprof(LOG, profile, "--gpu", "rtx-4090", "--format", "json", *more)
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)["ceilings"]["attainable"]
        assert isinstance(found, dict)
        return found

    plain = roof()
    assert roof("--ceiling", "dram=0.92TB/s")["dram_bytes_per_s"] == 0.92e12
    assert roof("--no-tf32")["tensor_flops_per_s"]["fp32"] == 82.6e12  # type: ignore[index]
    assert plain["tensor_flops_per_s"]["fp32"] == plain["tensor_flops_per_s"]["tf32"]  # type: ignore[index]
    assert roof("--clock", "1260")["cache_bytes_per_s"] == plain["cache_bytes_per_s"] / 2  # type: ignore[operator]
    assert roof("--accumulate", "fp32")["tensor_flops_per_s"] != plain["tensor_flops_per_s"]


def test_without_a_profile_the_layers_are_predicted(tmp_path: Path) -> None:
    files = [tmp_path / f"roofline.{suffix}" for suffix in ("svg", "md", "json")]
    done = trtprof(LOG, "--onnx", RESNET_TINY, "--batch", "2", "--gpu", "rtx-4090,l4",
                   *(part for file in files for part in ("-o", str(file))))  # fmt: skip
    assert done.exit_code == 0, done.output
    found = json.loads(files[2].read_text())
    assert found["level"] == "layers"
    assert [gpu["gpu"] for gpu in found["gpus"]] == ["rtx-4090", "l4"]
    assert files[0].read_text().startswith("<?xml")
