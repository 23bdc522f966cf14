"""``trtprof predict`` as a person uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fakes.command_line import trtprof
from tests.fakes.support import SAMPLES

GEMV, RESNET = str(SAMPLES / "gemv.onnx"), str(SAMPLES / "resnet_tiny.onnx")


def test_the_story_in_one_line() -> None:
    done = trtprof("predict", GEMV, "--gpu", "rtx-4090", "--ceiling", "dram=0.92TB/s", "--ceiling", "fp32=78.65TFLOP/s")
    assert done.exit_code == 0, done.output
    assert "memory >= 273 us, L2 >= " in done.stdout
    assert "estimated groups, no engine built" in done.stdout
    assert "next: " in done.stderr


def test_gpus_by_commas_and_by_repeating_each_once() -> None:
    done = trtprof("predict", RESNET, "--gpu", "rtx-4090,L4", "--gpu", "NVIDIA GeForce RTX 4090", "--gpu", "t4",
                   "--format", "json", "--batch", "4", "--dtype", "fp16")  # fmt: skip
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [gpu["gpu"] for gpu in found["gpus"]] == ["rtx-4090", "l4", "t4"]
    assert found["precision"] == "fp16"
    assert found["schema_version"]
    assert found["model"]["inputs"][0]["shape"] == [4, 3, 64, 64]


def test_a_datasheet_of_ones_own(tmp_path: Path) -> None:
    from trtprof.hardware import gpus

    sheet = Path(gpus.__file__).with_name("specs") / "l4.toml"
    (tmp_path / "mine.toml").write_bytes(sheet.read_bytes())
    done = trtprof("predict", GEMV, "--gpu", str(tmp_path / "mine.toml"), "--format", "json")
    assert json.loads(done.stdout)["gpus"][0]["gpu"] == "mine"


def test_without_a_gpu_named_or_here_a_few_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trtprof.hardware.nvml.gpus", lambda: ((), "no driver is installed here"))
    done = trtprof("predict", GEMV)
    assert done.exit_code == 2
    assert "no driver is installed here" in done.stderr
    assert "--gpu NAME, such as " in done.stderr


def test_why_shows_bound_expectation_basis_and_the_nearest_measurements() -> None:
    block = str(SAMPLES / "transformer_block.onnx")
    asked = ("predict", block, "--gpu", "rtx-4090", "--dtype", "fp16", "--why", "layer0/attention/query/MatMul")
    done = trtprof(*asked)
    assert done.exit_code == 0, done.output
    words = " ".join(done.stdout.split())
    assert "bound >= 940 ns: launch >= 940 ns, L2 >= " in words
    assert "expected ~" in words
    assert ", 80 %)" in words
    assert "basis RTX 4090 was not measured, l40s of its architecture were" in words
    assert words.count(" l40s bf16 ") == 3
    assert "aiconfigurator: https://github.com/ai-dynamo/aiconfigurator at " in words
    assert ", Apache-2.0" in words
    found = json.loads(trtprof(*asked, "--format", "json").stdout)
    assert len(found["gpus"][0]["nearest"]) == 3
    assert found["gpus"][0]["layer"]["expected_ns"] > 0
    rows = trtprof(*asked, "--format", "csv").stdout.splitlines()
    assert len(rows) == 4


def test_why_of_an_unknown_layer_suggests_others() -> None:
    done = trtprof("predict", RESNET, "--gpu", "l4", "--why", "/stem/conv/Convx")
    assert done.exit_code == 2
    assert "no layer is called '/stem/conv/Convx'" in done.stderr
    assert "/stem/conv/Conv +2" in done.stderr
    refused = trtprof("predict", RESNET, "--gpu", "l4", "--why", "fc", "-o", "r.svg")
    assert refused.exit_code == 2
    assert "known suffixes" in refused.stderr


BLOCK = str(SAMPLES / "transformer_block.onnx")
TIMED = "kind,dtype,m,n,k,ns\n" + "".join(f"product,fp16,{m},1024,1024,{m * 60}\n" for m in (512, 1024, 2048, 4096))


def expected_ns(*more: str) -> int:
    done = trtprof("predict", BLOCK, "--gpu", "rtx-4090", "--dtype", "fp16", "--format", "json", *more)
    assert done.exit_code == 0, done.output
    (gpu,) = json.loads(done.stdout)["gpus"]
    return int(gpu["expected_ns"])


def test_kernels_that_were_timed_correct_what_is_expected(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text(TIMED)
    assert expected_ns("--measured", str(rows)) > 1.1 * expected_ns()
    shown = trtprof("predict", BLOCK, "--gpu", "rtx-4090", "--dtype", "fp16", "--measured", str(rows)).stdout
    assert "% corrected by kernels that were timed on this GPU" in " ".join(shown.split())
    one = ("--why", "/layer0/attention/query/MatMul")
    why = trtprof("predict", BLOCK, "--gpu", "rtx-4090", "--dtype", "fp16", "--measured", str(rows), *one).stdout
    assert "corrected by 4 timed rows of matrix products" in " ".join(why.split())
