"""What the comparison of two revisions finds, and what it takes for the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fakes.support import ROOT, load_script

same = load_script(ROOT / "scripts" / "same_documents.py", "same_documents")

LATENCY = {"latency": {"median_ns": 7, "p99_ns": 9}, "layers": []}


def sides(tmp_path: Path, before: object, after: object) -> tuple[Path, Path]:
    folders = tmp_path / "before", tmp_path / "after"
    for folder, document in zip(folders, (before, after), strict=True):
        folder.mkdir()
        (folder / "0.json").write_bytes(document if isinstance(document, bytes) else json.dumps(document).encode())
    return folders


def test_a_document_that_differs_is_shown_with_its_first_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = LATENCY | {"latency": {"median_ns": 7, "p99_ns": 8}}
    folders = sides(tmp_path, LATENCY, other)
    assert same.compare([same.Job("a run")], *folders, []) == 1
    out = capsys.readouterr().out
    assert "differs: a run" in out
    assert '-  "p99_ns": 9' in out
    assert '+  "p99_ns": 8' in out
    assert same.compare([same.Job("a run")], *folders, ["latency.p99_ns"]) == 0
    assert "0 differ, 1 more in latency.p99_ns alone" in capsys.readouterr().out
    assert same.compare([same.Job("a run")], *folders, ["latency.median_ns"]) == 1, "another field is not meant"


def test_words_of_a_refusal_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = sides(tmp_path, b"\nexit code 2\nerror: one", b"\nexit code 2\nerror: other")
    assert same.compare([same.Job("a refusal")], *folders, []) == 1
    assert "1 documents compared (0 results, 1 refusals): 1 differ" in capsys.readouterr().out


def test_files_are_analysed_alone_and_with_those_beside_them(tmp_path: Path) -> None:
    for name in ("a.engine.graph.json", "a.engine.profile.json", "b.engine.graph.json", "capture.sqlite"):
        (tmp_path / name).touch()
    (tmp_path / "run").mkdir()
    for name in ("request.json", "source.json", "report.json"):
        (tmp_path / "run" / name).touch()
    jobs = list(same.jobs_of_folder(tmp_path))
    assert [job.run for job in jobs if job.run] == [str((tmp_path / "run").resolve())]
    analysed = [
        [Path(word).name for word in job.arguments[1:] if "/" in word]
        for job in jobs
        if job.arguments[:1] == ("analyze",)
    ]
    assert analysed == [
        ["a.engine.graph.json"], ["a.engine.profile.json"], ["a.engine.graph.json", "a.engine.profile.json"],
        ["b.engine.graph.json"], ["capture.sqlite"], ["capture.sqlite"],
    ]  # fmt: skip
