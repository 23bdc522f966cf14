"""The scripts that fail writes and kill commands: a share of them, and that they see what is lost."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).resolve().parents[2]


def script(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, f"scripts/fuzz/{name}.py", *words], cwd=ROOT, capture_output=True, text=True,
                          check=False, timeout=300)  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("gcc") is None, reason="a library is preloaded")
@pytest.mark.parametrize("words", [("tag", "report-json"), ("completion", "--stays")], ids=["once", "stays"])
def test_a_write_that_fails_loses_nothing(words: tuple[str, ...], tmp_path: Path) -> None:
    done = script("disk_full", "--out", str(tmp_path), *words)
    assert done.returncode == 0, done.stdout + done.stderr
    for row in done.stdout.splitlines()[1:]:
        _, writes, failed, told, *wrong = row.split()
        assert int(writes) == int(failed) == int(told) > 0
        assert set(wrong) == {"0"}
