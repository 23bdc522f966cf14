"""``trtprof analyze`` as a person uses it."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.fakes import command_line
from tests.fakes.engine_factory import RESNET, files_of
from tests.fakes.support import ROOT, SAMPLES
from trtprof.cli import completion
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
    assert "MEASURED  530 us median" in done.stdout
    words = " ".join(done.stdout.split())
    assert "layer time led back to nodes" in words
    assert "ceilings not measured: datasheet rtx-4090.toml" in words
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
        ("fp16", "MEASURED  100 us median (p99 100 us", "image 8x3x256x256 fp32"),
        (RESNET, "MEASURED  862 us median (p99 871 us", "input.1 32x3x224x224 fp32"),
    ],
)
def test_an_engine_of_a_file_a_kind(engine: str, measured: str, given: str, tmp_path: Path) -> None:
    done = trtprof(*map(str, filter(None, files_of(engine, tmp_path))), "--gpu", "A100 80GB PCIe")
    assert done.exit_code == 0, done.output
    assert measured in done.stdout
    assert "reformats: 2, by origin" in done.stdout
    assert given in done.stdout


def test_kernels_that_were_timed_correct_what_is_expected_with_and_without_times(profile: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("kind,dtype,m,n,k,ns\n" + "product,fp16,4096,32,288,90000\n" * 4)
    asked = (LOG, "--onnx", RESNET_TINY, "--batch", "2", "--gpu", "rtx-4090", "--measured", str(rows))
    for more in ((profile,), ()):
        done = trtprof(*asked, *more, "--format", "json")
        assert done.exit_code == 0, done.output
        document = json.loads(done.stdout)
        corrected = document["corrected"] if more else document["gpus"][0]["corrected"]
        assert (corrected["rows"], corrected["source"]) == (4, "rows.csv")
        shown = " ".join(trtprof(*asked, *more, "--format", "markdown").stdout.split())
        assert "expectations are corrected by 4 rows timed on the GPU (rows.csv)" in shown.replace("\\", "")
    rows.write_text("kind,dtype,m,n,k,ns\nproduct,fp16,4096,4096,4096,1\n")
    for more in ((profile,), ()):
        wrong = trtprof(*asked, *more)
        assert (wrong.exit_code, "line 2 of the measured rows cannot be right" in wrong.stderr) == (2, True)


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


def test_every_suffix_is_written_and_nothing_overwritten(profile: str, tmp_path: Path) -> None:
    asked = [LOG, profile, "--onnx", RESNET_TINY, "--batch", "2", "--gpu", "rtx-4090"]
    files = [tmp_path / f"report.{suffix}" for suffix in ("html", "json", "csv", "txt")]
    out = [part for file in files for part in ("-o", str(file))]
    done = trtprof(*asked, *out)
    assert done.exit_code == 0, done.output
    page = files[0].read_text()
    assert '<section id="engine">' in page
    assert "Sum of the layers" in page
    assert "0 threads" not in page
    assert json.loads(files[1].read_text())["plan"]["layers"] == 29
    with files[2].open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 29
    assert sum(int(row["measured_ns"]) for row in rows) == 580_000
    refused = trtprof(*asked, "-o", str(files[0]))
    assert refused.exit_code == 2
    assert "will not be overwritten" in refused.stderr
    before = [file.read_bytes() for file in files]
    assert trtprof(*asked, *out, "--force").exit_code == 0
    assert [file.read_bytes() for file in files] == before


def test_without_a_profile_the_layers_are_predicted(tmp_path: Path) -> None:
    files = [tmp_path / f"roofline.{suffix}" for suffix in ("svg", "md", "json")]
    done = trtprof(LOG, "--onnx", RESNET_TINY, "--batch", "2", "--gpu", "rtx-4090,l4",
                   *(part for file in files for part in ("-o", str(file))))  # fmt: skip
    assert done.exit_code == 0, done.output
    found = json.loads(files[2].read_text())
    assert found["level"] == "layers"
    assert [gpu["gpu"] for gpu in found["gpus"]] == ["rtx-4090", "l4"]
    assert files[0].read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("LOG", "PROFILE"), "which GPU ran it?"),
        (("LOG", "PROFILE", "--gpu", "rtx-4909"), "rtx-4090"),
        (("LOG", "PROFILE", "--gpu", "rtx-4090,l4"), "one GPU must be named"),
        (("LOG", "PROFILE", "--gpu", "l4", "--format", "pdf"), "no report format 'pdf'"),
        (("LOG", "--gpu", "l4", "--format", "junit"), "known: csv, html, json, markdown"),
        (("LOG", "PROFILE", "--gpu", "l4", "-o", "r.docx"), "says no format"),
        (("LOG", "PROFILE", "--gpu", "l4", "--ceiling", "drum=3e12"), "'drum'"),
        (("LOG", "PROFILE", "--gpu", "l4", "--accumulate", "int32"), "fp32 or fp16"),
        (("PROFILE", "--gpu", "l4"), "no layer information among the files"),
        (("LOG", "PROFILE", "PROFILE", "--gpu", "l4"), "are both times of layers"),
        (("ENGINE", "--gpu", "l4"), "an engine itself cannot be read"),
        (("--layers", "ENGINE", "--gpu", "l4"), "may be an engine itself"),
        (("--layers", "PROFILE", "--gpu", "l4"), "it holds times"),
        (("LOG", "--profile", "LOG", "--gpu", "l4"), "holds no profile"),
        (("LOG", "PROFILE", "--onnx", "GEMV", "--gpu", "l4"), "not the model that this engine was built from"),
        (("LOG", "PROFILE", "--batch", "2", "--gpu", "l4"), "of no use without the ONNX model"),
        ((), "no file is named"),
    ],
)
def test_one_clear_message(arguments: tuple[str, ...], words: str, profile: str, tmp_path: Path) -> None:
    engine = tmp_path / "model.plan"
    engine.write_bytes(b"ftrt" + bytes(100))
    files = {"LOG": LOG, "PROFILE": profile, "ENGINE": str(engine), "GEMV": str(SAMPLES / "gemv.onnx")}
    done = trtprof(*(files.get(one, one) for one in arguments))
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    assert words in done.stderr
    assert "fix:" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_not_there() -> None:
    done = trtprof("none.json", "--gpu", "l4")
    assert done.exit_code == 3
    assert "there is no file none.json" in done.stderr


def test_the_log_may_name_the_gpu(profile: str, tmp_path: Path) -> None:
    log = tmp_path / "trtexec.log"
    log.write_text("[I] Selected Device: NVIDIA L4\n" + Path(LOG).read_text(encoding="utf-8"))
    done = trtprof(str(log), profile, "--format", "json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["device"]["name"] == "L4"
    assert "--gpu NVIDIA L4: as the log says" in done.stderr


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nimport trtprof.cli.analyze\n"
        "print(*sorted({'pandas', 'onnx', 'numpy', 'matplotlib', 'msgspec', 'rich'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.split() == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with a name are POSIX")
def test_a_pipe_among_the_files_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "layers.json")
    os.mkfifo(tmp_path / "fleet.toml")
    done = command_line.trtprof("analyze", tmp_path / "layers.json", "--gpu", "l4")
    command_line.refused(done, words="is a pipe, not a file")
    assert completion.manifests(str(tmp_path / "fl")) == []
