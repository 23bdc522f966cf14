"""No verb says anything to another machine; what watches that sees it where somebody does."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.fakes.every_verb import EVERY_VERB, command, fill
from tests.fakes.support import ROOT, load_script

pytestmark = pytest.mark.nightly

TALKS = """
import os, pathlib, socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    sender.connect(("192.0.2.1", 53))  # for documentation: no packet is sent by connecting
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    sender.connect(("127.0.0.1", 53))
pathlib.Path(os.environ["ELSEWHERE"], "made").write_text("")
pathlib.Path(os.environ["TMPDIR"], "forgotten").write_text("")
pathlib.Path("in its place").write_text("")
"""
"""What a library does that reports to its maker."""
REPORTING = "import onnxruntime, time; onnxruntime.InferenceSession('gemv.onnx'); time.sleep(1)"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    if (
        shutil.which("strace") is None
        or subprocess.run(["strace", "-f", "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("no strace here, or it may not trace")
    return load_script(ROOT / "scripts" / "fuzz" / "connections.py", "connections")


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path, Path]:
    work, home, temporary = (tmp_path / each for each in ("work", "home", "tmp"))
    for each in (work, home, temporary):
        each.mkdir()
    fill(work)
    return work, home, temporary


def test_what_talks_to_others_or_leaves_files_is_seen(
    script: ModuleType, places: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    found = script.traced([sys.executable, "-c", TALKS], *places, ELSEWHERE=str(tmp_path))
    assert found.code == 0
    assert dict(found.away) == {"192.0.2.1": 1}
    assert found.loopback == 1
    assert dict(found.outside) == {str(tmp_path / "made"): 1}
    assert found.left == [str(places[2] / "forgotten")]


def test_a_run_with_all_its_children_talks_to_nobody(script: ModuleType, places: tuple[Path, Path, Path]) -> None:
    found = script.traced(command(*EVERY_VERB["run"]), *places)
    assert found.code == 0
    assert not found.away
    assert not found.outside
    assert not found.left


def test_the_library_by_itself_would_have_been_seen(script: ModuleType, places: tuple[Path, Path, Path]) -> None:
    """Else the test above says nothing: it is this library that reports."""
    found = script.traced([sys.executable, "-c", REPORTING], *places)
    assert found.code == 0
    if not found.left:
        pytest.skip("this build of ONNX Runtime has no telemetry")
    ours = script.traced([sys.executable, "-c", f"import trtprof; {REPORTING}"], *places)
    assert ours.left == found.left  # those of before
    assert not ours.outside
