"""A share of each campaign of hostile inputs, by fixed seeds; and that the campaigns see what goes wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes import hostile
from tests.fakes.hostile.running import Case, Outcome, wrong_with

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).resolve().parents[2]
CAMPAIGNS = sorted(
    {path.stem for path in Path(hostile.__file__).parent.glob("*.py")} - {"__init__", "running", "mutate"}
)
SECONDS = 25
"""For each campaign at most, where a machine is slow; the count is what ends it elsewhere."""
COUNT = 100
LONG = ("runs",)
"""Campaigns whose cases take seconds: they are run by hand."""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="cases are forked")
@pytest.mark.parametrize("name", [name for name in CAMPAIGNS if name not in LONG])
def test_nothing_hostile_ends_in_anything_but_an_answer_or_a_clear_error(name: str, tmp_path: Path) -> None:
    line = [sys.executable, "scripts/fuzz/hostile.py", name, "--seed", "23", "--count", str(COUNT)]
    asked = subprocess.run([*line, "--seconds", str(SECONDS), "--out", str(tmp_path)],
                           cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)  # fmt: skip
    assert asked.returncode == 0, asked.stdout + asked.stderr
    assert int(asked.stdout.splitlines()[1].split()[1]) > 0


def _ended(
    code: int = 0, out: bytes = b"", err: bytes = b"", folder: Path = Path("nowhere"), **more: object
) -> Outcome:
    return Outcome(code, out, err, folder, cpu_s=0.1, peak=int(str(more.get("peak", 1 << 20))), hung="hung" in more)


_TRACEBACK = b'Traceback (most recent call last):\n  File "/x/trtprof/a.py", line 3, in f\nKeyError: 1\n'
BAD = (
    (_ended(1, err=_TRACEBACK), "traceback: KeyError: 1 @ a.py:3 f"),
    (_ended(-11), "signal: 11"),
    (_ended(1, err=b"error: x"), "exit code: 1"),
    (_ended(2), "silent"),
    (_ended(0, peak=3 << 30), "memory: 3072 MiB"),
    (_ended(0, out=b"a \x1b[31m"), "escape"),
    (_ended(2, err=b"error: \x1b]0;x"), "escape"),
    (_ended(0, err=b"x.py:1: RuntimeWarning: overflow"), "warning"),
    (_ended(0, out=b"latency nan ms\n"), "number: latency nan ms"),
    (_ended(0, out=b"a\nideal None\nb"), "number: ideal None"),
    (_ended(0, hung=True), "hang"),
)  # fmt: skip


@pytest.mark.parametrize(("outcome", "told"), BAD, ids=[told for _, told in BAD])
def test_each_way_to_end_badly_is_seen(outcome: Outcome, told: str) -> None:
    (wrong,) = wrong_with(outcome, Case("", []))
    assert wrong.startswith(told)


def test_a_temporary_file_left_is_seen_and_what_a_campaign_says(tmp_path: Path) -> None:
    assert wrong_with(_ended(), Case("", [], lambda _: ["a verdict"])) == ["accepted: a verdict"]
    (tmp_path / ".trtprof-part-0123").touch()
    assert wrong_with(_ended(folder=tmp_path), Case("", [])) == ["left: .trtprof-part-0123"]


def test_a_clear_error_and_names_that_only_look_odd_are_right() -> None:
    assert not wrong_with(_ended(2, err=b"error: x is no model"), Case("", []))
    assert not wrong_with(_ended(0, out=b"/nan/x 'None' info_nan infinite Nancy"), Case("", []))
    assert not wrong_with(_ended(0, out=b'<bdi class="name">kernel&lt;(inf *, nan)</bdi>'), Case("", []))
    assert not wrong_with(_ended(0, out=b"None\n  unknown"), Case("", ["kernel", "None"]))
