"""`trtprof export`, and a PyTorch spec in place of a file, as a person uses them."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.command_line import refused, trtprof
from trtprof.base import run_folder

pytestmark = pytest.mark.usefixtures("quick_runs")
needs_torch = pytest.mark.skipif(
    not (importlib.util.find_spec("torch") and importlib.util.find_spec("onnxscript")),
    reason="torch or onnxscript is not installed: pip install 'trtprof[export]'",
)
QUICK = ["--duration", "0", "--iterations", "3", "--warmUp", "0", "--profile-iterations", "3"]

NETS = """
import torch
from torch import nn


class Small(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.fc = nn.Linear(8, width)

    def forward(self, x):
        return self.fc(x).relu()


def made(width=4):
    print("made by the factory")
    return Small(width)


def ready():
    return nn.Embedding(10, 4), torch.ones(1, 5, dtype=torch.int64)


def broken():
    raise ValueError("no checkpoint")


def branchy():
    class Branchy(nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x
    return Branchy()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a package ``cli_nets`` in it."""
    (tmp_path / "cli_nets.py").write_text(NETS)
    monkeypatch.delitem(sys.modules, "cli_nets", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_is_there_is_kept_without_force(folder: Path) -> None:
    (folder / "made.onnx").write_text("precious")
    assert "made.onnx exists" in refused(trtprof("export", "cli_nets:made", "--shapes", "x:1x8"), 2)
    assert (folder / "made.onnx").read_text() == "precious"


@needs_torch
@pytest.mark.nightly
def test_torch_is_imported_only_to_export() -> None:
    code = (
        "import sys\nimport trtprof.cli.export, trtprof.flows.export, trtprof.source.export\n"
        "print(*sorted({'torch', 'onnxscript'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == ""


@needs_torch
def test_export_prints_the_model_and_talks_on_stderr(folder: Path) -> None:
    done = trtprof("export", "cli_nets:made", "--factory-arg", "width=6", "--shapes", "x:1x8", "--dynamic", "0=batch")
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "made.onnx   54 parameters (216 B)"
    assert lines[1] == "  in   fp32 x:batchx8"
    assert lines[2].startswith("  out  fp32 ")
    assert lines[2].endswith(":batchx6")
    assert lines[3].startswith("exported from cli_nets:made with torch ")
    assert lines[3].endswith(", width=6")
    talk = done.stderr.splitlines()
    assert talk[0] == "made by the factory"
    assert talk[1].startswith("export ")
    assert talk[2:] == ["wrote made.onnx", "next: trtprof run made.onnx --shapes x:1x8"]
    assert sorted(file.name for file in folder.iterdir() if file.is_file()) == ["cli_nets.py", "made.onnx"]


@needs_torch
def test_a_dynamic_spec_is_bound_like_a_file() -> None:
    done = trtprof("inspect", "cli_nets:made", "--shapes", "x:1x8", "--dynamic", "0=batch", "--format", "json")
    assert json.loads(done.stdout)["model"]["inputs"][0]["shape"] == [1, 8]
    done = trtprof("inspect", "cli_nets:ready", "--dynamic", "0=batch", "--batch", "7", "--format", "json")
    assert json.loads(done.stdout)["model"]["inputs"][0]["shape"] == [7, 5]


@needs_torch
def test_run_takes_a_spec_to_the_end_and_resumes(folder: Path) -> None:
    arguments = ["run", "cli_nets:made", "--shapes", "x:2x8", "--factory-arg", "width=6", "-o", "out", *QUICK]
    done = trtprof(*arguments)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("made ")
    run = run_folder.RunFolder(folder / "out").report()
    assert run.model.path == "cli_nets:made"
    assert run.latency.n >= 3
    assert any("torch " in note and note.endswith("width=6") for note in run.model.assumptions)
    for name in (run_folder.CAPTURE, run_folder.REPORT):
        (folder / "out" / name).unlink()
    again = trtprof(*arguments, "--resume")  # the same spec exports to the same bytes
    assert again.exit_code == 0, again.stderr
    (folder / "out" / run_folder.REPORT).unlink()
    other = trtprof(*[argument.replace("width=6", "width=5") for argument in arguments], "--resume")
    assert "different: model" in refused(other, 2)
    named = trtprof(*arguments[:-10], *QUICK)
    assert named.exit_code == 0, named.stderr
    assert [path.name.startswith("made-") for path in (folder / "reports").iterdir()] == [True]
