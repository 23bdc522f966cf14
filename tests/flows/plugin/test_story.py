"""The manual's story of the kernel by hand: its commands, in their order, as far as no GPU is needed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.fakes.command_line import refused, trtprof
from tests.fakes.compiler import needs_nvrtc
from tests.fakes.in_process import fixed_calibration
from tests.fakes.support import ROOT, SAMPLES

pytestmark = pytest.mark.nightly


def commands() -> list[list[str]]:
    """What the page has its reader type, each once."""
    text = (ROOT / "profiler" / "trtprof" / "docs" / "plugins.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:sh|console)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in re.findall(r"^(?:\$ )?(trtprof .*)", block, re.MULTILINE)]
    return [shlex.split(line)[1:] for line in dict.fromkeys(lines)]


def test_each_command_does_what_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_nvrtc()
    (tmp_path / "sample_models").symlink_to(SAMPLES)
    monkeypatch.chdir(tmp_path)
    fixed_calibration(monkeypatch)
    brief, write, check, run, bench, *_ = commands()
    assert "what that takes is not known before it is measured" in " ".join(trtprof(*brief).stdout.split())
    written = trtprof(*write, "--check-seconds", 1)
    assert written.exit_code == 0, written.output
    assert "bandwidth" in written.stdout
    assert Path("gemv-plugin/model.onnx").is_file()
    assert not re.search(r"^\S+ +failed", written.stdout, re.MULTILINE), written.stdout
    checked = trtprof(*check, "--check-seconds", 1)
    assert re.search(r"^numerics +passed", checked.stdout, re.MULTILINE), checked.stdout
    ran = trtprof(*run, "--iterations", 1, "--warmUp", 0, "--duration", 0, "-o", "ran")
    assert ran.exit_code == 0, ran.output
    assert "100.0 %" in ran.stdout  # the custom node is led back to, and priced
    refused(trtprof(*bench), 3)
