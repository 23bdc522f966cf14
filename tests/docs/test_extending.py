"""The recipes of the page "Extending": each is installed from the page as a distribution, and its commands are run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.fakes import manual
from tests.fakes.support import ROOT

pytestmark = pytest.mark.nightly

PAGE = manual.PAGES / "extending.md"
WITH_PLUGIN = "with the plug-in"
RECIPES = {
    "The cost of an op": ("house-costs", "3.15 M"),
    "A rule": ("house-rules", "rows that we do not tune for"),
    "A GPU": ("house-gpus", "lab-card"),
    "A report format": ("house-formats", '"label": "latency"'),
}


def section(title: str) -> str:
    """One recipe of the page."""
    return re.split(r"^## ", PAGE.read_text(encoding="utf-8").split(f"\n## {title}\n")[1], flags=re.M)[0]


def commands(title: str) -> list[tuple[str, str, str, str]]:
    """What the recipe runs with its plug-in: the command, its output, and between which lines that is."""
    found = []
    for match in manual.blocks(section(title)):
        notes = dict(manual.note(each) for each in re.findall(r"<!-- (.*?) -->", match["above"]))
        if notes.get("not run", "").startswith(WITH_PLUGIN):
            found += [(*each, notes.get("from", ""), notes.get("until", "")) for each in manual.shown(match["body"])]
    return found


def install(project: Path) -> None:
    """What pip leaves of a distribution without files of its own: who it is, and its entry points."""
    said = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = project / f"{said['name'].replace('-', '_')}-{said['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {said['name']}\nVersion: {said['version']}\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in said["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups))


def run(command: str, folder: Path, *projects: Path) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(map(str, (*projects, ROOT)))
    environment = dict(os.environ) | {"COLUMNS": "80", "NO_COLOR": "1", "PYTHONPATH": paths}
    line = [sys.executable, "-m", "trtprof", *shlex.split(command)[1:]]
    return subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_does_what_it_says(title: str, tmp_path: Path, quick_runs: None) -> None:
    """Its outputs are those on the page, and without the plug-in they are others."""
    told = manual.told(section(title), tmp_path)
    assert told.problems == ()
    name, result = RECIPES[title]
    before = [run(command, tmp_path) for command, *_ in commands(title)]
    install(tmp_path / name)
    after = [run(command, tmp_path, tmp_path / name) for command, *_ in commands(title)]
    assert [each.stderr for each in after if each.returncode] == []
    shown = [manual.part(done.stdout, *cut) for done, (_, _, *cut) in zip(after, commands(title), strict=True)]
    assert shown == [output for _, output, *_ in commands(title)]
    assert all(result in each for each in shown)
    assert all(result not in done.stdout for done in before)


def test_a_broken_recipe_is_named_and_disables_itself_alone(tmp_path: Path) -> None:
    manual.told(section("The cost of an op"), tmp_path)
    install(tmp_path / "house-costs")
    (tmp_path / "house-costs" / "house_costs.py").write_text("raise OSError('no disk')\n")
    done = run("trtprof inspect mlp.onnx", tmp_path, tmp_path / "house-costs")
    assert done.returncode == 0
    assert "the plug-in 'house' of house-costs 1.0" in " ".join(done.stderr.split())
    assert "no cost function" in done.stdout
