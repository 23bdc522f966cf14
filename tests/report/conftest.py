"""What tests of the page of a run share."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

WEB = Path(__file__).parents[2] / "profiler" / "trtprof" / "report" / "web"


@pytest.fixture(scope="session")
def web(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources with what they are built with, as the lock file has it."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm on the PATH")
    folder = tmp_path_factory.mktemp("page") / "web"
    shutil.copytree(WEB, folder, ignore=shutil.ignore_patterns("node_modules"))
    installed = subprocess.run(
        [npm, "ci", "--ignore-scripts", "--prefer-offline"], cwd=folder, capture_output=True, text=True, check=False
    )
    if installed.returncode:
        pytest.skip(f"no package registry answers: {installed.stderr.strip()[-200:]}")
    return folder
