"""The script that takes evidence on a GPU: its commands exist, and what a run comes to."""

from __future__ import annotations

import json

import pytest

from tests.fakes.command_line import trtprof
from tests.fakes.support import ROOT, load_script

script = load_script(ROOT / "scripts" / "gpu_evidence.py", "gpu_evidence")


def test_a_dry_run_prints_commands_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main(["--dry-run", "here", "truth", "plugin", "try"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 11
    flags: dict[str, set[str]] = {}
    for step in script.steps():
        flags.setdefault(" ".join(step.words[:1]), set()).update(word for word in step.words if word.startswith("--"))
    for verb, used in flags.items():
        if verb:
            text = trtprof(verb, "--help").stdout
            assert not [flag for flag in used if flag not in text], verb


def test_a_run_whose_ledger_does_not_close_failed() -> None:
    document = json.loads((ROOT / "reports" / "example" / "report.json").read_bytes())
    assert script.of_run(document)[0] == "ok"
    document["ledger"][0]["ns"] += 1
    assert script.of_run(document)[0] == "failed"
