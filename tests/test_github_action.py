"""The GitHub Action and the workflow: what they may do, and their scripts, run as a runner runs them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.run_factory import tiny_run
from tests.fakes.support import ROOT

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

ACTION = ROOT / ".github" / "actions" / "compare" / "action.yml"
WORKFLOW = ROOT / ".github" / "workflows" / "latency.yml"
ACTION_STEPS: list[dict[str, Any]] = yaml.safe_load(ACTION.read_text("utf-8"))["runs"]["steps"]
INPUTS: dict[str, dict[str, str]] = yaml.safe_load(ACTION.read_text("utf-8"))["inputs"]
FLOW: dict[Any, Any] = yaml.safe_load(WORKFLOW.read_text("utf-8"))
JOB_STEPS: list[dict[str, Any]] = FLOW["jobs"]["compare"]["steps"]


def test_foreign_actions_are_pinned_and_no_input_is_put_into_a_script() -> None:
    for step in (*ACTION_STEPS, *JOB_STEPS):
        name = step.get("uses", "./")
        assert name.startswith("./") or re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", name)
        assert "${{" not in step.get("run", "")


def test_the_workflow_may_do_as_little_as_it_needs_and_calls_the_action_with_inputs_that_it_has() -> None:
    # What a pull request brings runs only where it can reach no secret (`True` is what YAML makes of `on`).
    assert (FLOW["permissions"], set(FLOW[True])) == ({}, {"pull_request"})
    assert FLOW["jobs"]["compare"]["permissions"] == {"contents": "read"}
    assert "secrets." not in WORKFLOW.read_text("utf-8")
    (call,) = (step for step in JOB_STEPS if step.get("uses", "").endswith("actions/compare"))
    assert {name for name, each in INPUTS.items() if each.get("required")} <= set(call["with"]) <= set(INPUTS)
    assert set(re.findall(r"inputs\.([\w-]+)", ACTION.read_text("utf-8"))) == set(INPUTS)


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash on the PATH")
@pytest.mark.parametrize(
    ("gates", "code", "answer"), [("latency>3%", 1, "failed"), ("latency>1e9%", 0, "passed"), ("$(touch x)", 2, "")]
)
def test_the_scripts_of_the_action(tmp_path: Path, gates: str, code: int, answer: str) -> None:
    """An input is never run; a gate fails the last step alone, and what is no gate the first one."""
    tool = tmp_path / "bin" / "trtprof"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m trtprof "$@"\n')
    tool.chmod(0o755)
    given = {name.upper(): each.get("default", "") for name, each in INPUTS.items()} | {
        "BEFORE": str(tiny_run(tmp_path / "base", batch=1, median_ns=250_000, seed=1)),
        "AFTER": str(tiny_run(tmp_path / "head", batch=4, median_ns=1_000_000, seed=2)),
        "GATES": gates, "FOLDER": str(tmp_path / "documents"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "GITHUB_OUTPUT": str(tmp_path / "output"), "ANSWER": answer,
        "PATH": f"{tool.parent}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip

    def run(script: str) -> subprocess.CompletedProcess[str]:
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        return subprocess.run(
            words, cwd=tmp_path, env={**os.environ, **given}, capture_output=True, text=True, check=False
        )

    first, last = (step["run"] for step in ACTION_STEPS if "run" in step)
    compared = run(first)
    assert not (tmp_path / "x").exists()
    if not answer:
        assert (compared.returncode, "::error title=trtprof compare::" in compared.stdout) == (code, True)
        return
    assert compared.returncode == 0, compared.stderr
    assert (tmp_path / "output").read_text() == f"answer={answer}\n"
    assert {path.suffix for path in (tmp_path / "documents").iterdir()} == {".html", ".json", ".md", ".txt"}
    assert (tmp_path / "summary.md").read_text().startswith("### ")
    said = run(last)
    assert (said.returncode, "::error title=trtprof compare::gate " in said.stdout) == (code, bool(code))
