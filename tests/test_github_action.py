"""The GitHub Action and the workflow that are in the repository do what they say: their scripts are run here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.fakes.run_factory import tiny_run
from tests.fakes.support import ROOT
from trtprof.cli import app, load_commands
from trtprof.compare import compare

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

load_commands()

ACTION = ROOT / ".github" / "actions" / "compare" / "action.yml"
WORKFLOW = ROOT / ".github" / "workflows" / "latency.yml"
BASH = shutil.which("bash")
# What GitHub gives to `shell: bash`.
SHELL = ["--noprofile", "--norc", "-eo", "pipefail"]

needs_bash = pytest.mark.skipif(BASH is None, reason="no bash on the PATH")


def document(path: Path) -> dict[Any, Any]:
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def steps() -> Iterator[dict[str, Any]]:
    """Of the action and of the workflow."""
    yield from document(ACTION)["runs"]["steps"]
    for job in document(WORKFLOW)["jobs"].values():
        yield from job["steps"]


def accepted(arguments: list[str]) -> dict[str, Any]:
    """What the parser of the app makes of a command line; it fails where that refuses it."""
    group = typer.main.get_command(app)
    with group.make_context("trtprof", list(arguments), resilient_parsing=False) as context:
        assert context.info_name == "trtprof"
        name, *rest = arguments
        command = group.get_command(context, name)  # type: ignore[attr-defined]
        assert command is not None, name
        with command.make_context(name, rest, parent=context) as inner:
            return dict(inner.params)


def shell(script: str, folder: Path, tools: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    file = folder / "step.sh"
    file.write_text(script, encoding="utf-8")
    return subprocess.run(
        [str(BASH), *SHELL, str(file)],
        cwd=folder,
        env={**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def tool(folder: Path, code: str) -> Path:
    """A folder with a ``trtprof`` that runs ``code``."""
    folder.mkdir(exist_ok=True)
    (folder / "code.py").write_text(code, encoding="utf-8")
    script = folder / "trtprof"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{folder / "code.py"}" "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return folder


@pytest.fixture
def recorder(tmp_path: Path) -> Path:
    """A ``trtprof`` that writes down how it is called."""
    return tool(
        tmp_path / "recorder",
        "import json, sys\n"
        f"open({str(tmp_path / 'calls')!r}, 'a').write(json.dumps(sys.argv[1:]) + '\\n')\n"
        "for flag, name in zip(sys.argv, sys.argv[1:]):\n"
        "    if flag == '--output': open(name, 'w').close()\n",
    )


def calls(folder: Path) -> list[list[str]]:
    return [json.loads(line) for line in (folder / "calls").read_text(encoding="utf-8").splitlines()]


# --- what is written ------------------------------------------------------------------------


def test_foreign_actions_are_pinned_to_commits() -> None:
    used = [step["uses"] for step in steps() if "uses" in step]
    assert used
    for name in used:
        assert name.startswith("./") or re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", name)
    for path in (ACTION, WORKFLOW):
        pinned = [line for line in path.read_text(encoding="utf-8").splitlines() if re.search(r"@[0-9a-f]{40}", line)]
        assert all(re.search(r"@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line) for line in pinned)


def test_the_workflow_may_do_as_little_as_it_needs() -> None:
    found = document(WORKFLOW)
    assert found["permissions"] == {}
    for job in found["jobs"].values():
        assert job["permissions"] == {"contents": "read"}
        assert job["timeout-minutes"] <= 60
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False
    # What a pull request brings runs only where it can reach no secret (`True` is what YAML makes of `on`).
    assert set(found[True]) == {"pull_request"}
    assert "secrets." not in WORKFLOW.read_text(encoding="utf-8")


def test_no_input_is_put_into_a_script() -> None:
    for step in steps():
        assert "${{" not in step.get("run", "")


def test_the_workflow_gives_the_action_inputs_that_it_has() -> None:
    (call,) = (step for step in steps() if step.get("uses", "").endswith("actions/compare"))
    inputs = document(ACTION)["inputs"]
    assert set(call["with"]) <= set(inputs)
    assert {name for name, each in inputs.items() if each.get("required")} <= set(call["with"])
    used = set(re.findall(r"inputs\.([\w-]+)", ACTION.read_text(encoding="utf-8")))
    assert used == set(inputs)


# --- what is run ----------------------------------------------------------------------------


@needs_bash
def test_the_workflow_measures_both_sides_in_turns(tmp_path: Path, recorder: Path) -> None:
    found = document(WORKFLOW)
    (job,) = found["jobs"].values()
    for step in job["steps"]:
        if "trtprof" in step.get("run", "") and "pip" not in step["run"]:
            done = shell(step["run"], tmp_path, recorder, **found["env"])
            assert done.returncode == 0, done.stderr
    made = calls(tmp_path)
    for call in made:
        accepted(call)
    runs = [accepted(call) for call in made if call[0] == "run"]
    assert [Path(run["model"]).parts[0] for run in runs] == ["base", "head", "head", "base", "base", "head"]
    (compare,) = (step["with"] for step in job["steps"] if step.get("uses", "").endswith("actions/compare"))
    for side in ("base", "head"):
        folders = [",".join(run["output"]) for run in runs if run["model"] == f"{side}/{found['env']['MODEL']}"]
        assert compare["before" if side == "base" else "after"] == ",".join(folders)
    assert (ROOT / found["env"]["MODEL"]).is_file()


def inputs(folder: Path, **changes: str) -> dict[str, str]:
    """The variables that the steps of the action get."""
    given = {name: str(each.get("default", "")) for name, each in document(ACTION)["inputs"].items()}
    given |= {"folder": str(folder / "documents"), **changes}
    return {
        **{name.upper(): value for name, value in given.items()},
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "GITHUB_OUTPUT": str(folder / "output"),
    }


def run_action(
    folder: Path, tools: Path, **given: str
) -> tuple[subprocess.CompletedProcess[str], subprocess.CompletedProcess[str] | None, str]:
    """Both scripts of the action, as GitHub runs them, and the answer that it puts out."""
    first, last = (step for step in document(ACTION)["runs"]["steps"] if "run" in step)
    environment = inputs(folder, **given)
    compared = shell(
        first["run"],
        folder,
        tools,
        **{name: environment[name] for name in (*first["env"], "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")},
    )
    output = folder / "output"
    answer = output.read_text(encoding="utf-8").partition("answer=")[2].strip() if output.is_file() else ""
    if compared.returncode:
        return compared, None, answer
    return compared, shell(last["run"], folder, tools, FOLDER=environment["FOLDER"], ANSWER=answer), answer


@needs_bash
def test_the_commands_of_the_action_are_accepted(tmp_path: Path, recorder: Path) -> None:
    gates = "latency>3%\n  lost > 50us  \n\ngap-to-roof>2%\n"
    compared, said, answer = run_action(tmp_path, recorder, before="a1,a2", after="-b 1,b 2", gates=gates)
    assert compared.returncode == 0, compared.stderr
    compare, report = calls(tmp_path)
    found = accepted(compare)
    assert found["sides"] == ["a1,a2", "-b 1,b 2"]
    assert found["gate"] == ["latency>3%", "lost > 50us", "gap-to-roof>2%"]
    assert [Path(name).name for name in found["output"]] == ["compare.html", "compare.json", "compare.md"]
    assert str(accepted(report)["run_folder"]) == "b 2"
    assert answer == "passed"
    assert said is not None
    assert said.returncode == 0
    assert said.stdout == ""


@needs_bash
def test_an_input_is_never_run(tmp_path: Path, recorder: Path) -> None:
    evil = f'"; touch {tmp_path}/pwned; $(touch {tmp_path}/pwned) `touch {tmp_path}/pwned` #'
    run_action(tmp_path, recorder, before=evil, after=evil, gates=f"latency>3%\n{evil}", inconclusive=evil)
    assert not (tmp_path / "pwned").exists()
    assert evil in calls(tmp_path)[0]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two tiny runs; the second takes much longer."""
    folder = tmp_path_factory.mktemp("runs")
    return (
        tiny_run(folder / "base", batch=1, median_ns=250_000, seed=1),
        tiny_run(folder / "head", batch=4, median_ns=1_000_000, seed=2),
    )


@pytest.fixture
def real(tmp_path: Path) -> Path:
    """This trtprof."""
    return tool(
        tmp_path / "real", f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom trtprof.cli import main\nmain()\n"
    )


@needs_bash
@pytest.mark.parametrize(
    ("gates", "inconclusive", "expected"),
    [
        ("latency>3%", "pass", "failed"),
        ("latency>1e9%", "fail", "passed"),
        ("latency>{change}%", "pass", "inconclusive"),
    ],
)
def test_the_action_for_real(
    tmp_path: Path, real: Path, finished: tuple[Path, Path], gates: str, inconclusive: str, expected: str
) -> None:
    before, after = finished
    # A threshold that is the change itself lies inside its interval.
    (found,) = compare([[before], [after]]).comparisons
    gates = gates.format(change=f"{100 * (found.latency.ratio.value - 1):.6f}")
    compared, said, answer = run_action(
        tmp_path, real, before=str(before), after=str(after), gates=gates, inconclusive=inconclusive
    )
    assert compared.returncode == 0, compared.stderr
    assert said is not None
    assert answer == expected
    assert said.returncode == (expected == "failed")
    level = {"failed": "error", "inconclusive": "warning"}.get(expected)
    lines = said.stdout.splitlines()
    assert len(lines) == (level is not None)
    assert all(line.startswith(f"::{level} title=trtprof compare::gate ") and "%25" in line for line in lines)
    kept = tmp_path / "documents"
    assert {path.name for path in kept.iterdir()} == {
        "compare.html", "compare.json", "compare.md", "findings.sarif", "messages.txt",
    }  # fmt: skip
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert summary == (kept / "compare.md").read_text(encoding="utf-8")
    assert summary.startswith("### ")
    assert json.loads((kept / "findings.sarif").read_text(encoding="utf-8"))["version"] == "2.1.0"
    (one,) = json.loads((kept / "compare.json").read_text(encoding="utf-8"))["comparisons"]
    assert len(one["gates"]) == (gates != "")


@needs_bash
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"after": "nowhere"}, "nowhere is not there"),
        ({"gates": "latency"}, "looks cut off"),
        ({"inconclusive": "perhaps"}, "--inconclusive fail"),
    ],
)
def test_what_is_no_gate_fails_at_once_and_says_why(
    tmp_path: Path, real: Path, finished: tuple[Path, Path], given: dict[str, str], said: str
) -> None:
    compared, last, answer = run_action(
        tmp_path, real, **{"before": str(finished[0]), "after": str(finished[1]), **given}
    )
    assert compared.returncode in (2, 3)
    assert said in compared.stderr
    assert "::error title=trtprof compare::" in compared.stdout
    assert (last, answer) == (None, "")
