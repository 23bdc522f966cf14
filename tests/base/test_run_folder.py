"""Tags of a run: beside the result, and no part of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.support import ROOT, refused
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.run_folder import REPORT, TAGS, RunFolder, check_tags, newest
from trtprof.flows.notebook import LoadedRun


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    target = tmp_path / "run"
    target.mkdir()
    for name in ("report.json", "request.json"):
        shutil.copyfile(ROOT / "reports" / "example" / name, target / name)
    return RunFolder(target)


def test_a_run_has_no_tags_at_first(folder: RunFolder) -> None:
    assert folder.tags() == ()
    assert folder.report().tags == ()


def test_tags_are_sorted_kept_once_and_taken_away(folder: RunFolder) -> None:
    before = folder.file("report.json").read_bytes()
    assert folder.tag(["v1.2", "baseline", "v1.2"]) == ("baseline", "v1.2")
    assert folder.report().tags == ("baseline", "v1.2")
    assert LoadedRun(folder.path).run.tags == ("baseline", "v1.2")
    assert folder.tag(["team/nightly"], ["v1.2"]) == ("baseline", "team/nightly")
    assert folder.tag(remove=["baseline", "team/nightly"]) == ()
    assert folder.file("report.json").read_bytes() == before


def test_taking_away_what_is_not_there_changes_nothing(folder: RunFolder) -> None:
    folder.tag(["one"])
    with pytest.raises(UsageError) as caught:
        folder.tag(["two"], ["three"])
    assert "it has one" in refused(caught.value)
    assert folder.tags() == ("one",)


@pytest.mark.parametrize("tag", ["", " ", "a b", "a,b", "-x", "x" * 65, "a\n", "a\u202eb", "a\x1b[31m", "<b>", "'"])
def test_what_is_no_tag_is_refused(folder: RunFolder, tag: str) -> None:
    with pytest.raises(UsageError) as caught:
        folder.tag([tag])
    refused(caught.value)
    assert not folder.has(TAGS)


@given(st.from_regex(r"\A[A-Za-z0-9_][A-Za-z0-9_.+:/@-]{0,63}\Z"))
def test_one_word_is_a_tag(tag: str) -> None:
    check_tags([tag])


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema_version": 6, "tags": "x"}'])
def test_damaged_tags_are_said(folder: RunFolder, content: str) -> None:
    folder.file(TAGS).write_text(content)
    with pytest.raises(UsageError, match=r"tags\.json cannot be read"):
        folder.tags()


def test_the_file_says_its_version(folder: RunFolder) -> None:
    folder.tag(["a"])
    document = json.loads(folder.file(TAGS).read_text())
    assert sorted(document) == ["schema_version", "tags"]
    assert not list(folder.path.glob("*.part"))


def test_the_newest_run_is_the_one_written_last(tmp_path: Path) -> None:
    import os

    for at, name in enumerate(("b", "c", "a")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.json").write_text("{}")
        os.utime(tmp_path / name / "report.json", ns=(at, at))
    (tmp_path / "unfinished").mkdir()
    (tmp_path / ".new").mkdir()
    (tmp_path / ".new" / "report.json").write_text("{}")
    assert newest(tmp_path).path == tmp_path / "a"


@pytest.mark.parametrize("there", [True, False])
def test_no_run_at_all_is_said(tmp_path: Path, *, there: bool) -> None:
    with pytest.raises(MissingError, match="no finished run") as caught:
        newest(tmp_path if there else tmp_path / "none")
    refused(caught.value)


def _edited(document: dict[str, Any], what: str) -> None:
    if what == "ledger":
        document["ledger"][0]["ns"] += 1
    elif what == "latency":
        document["latency"]["median_ns"] //= 2
    elif what == "best":
        document["latency"]["min_ns"] = document["latency"]["median_ns"] + 1
    elif what == "layer":
        document["layers"][0]["lost_ns"] = document["layers"][0]["measured_ns"] + 1
    elif what == "coverage":
        document["coverage"].update(exact=1.0, inferred=1.0)
    elif what == "timeline":
        document["timeline"]["lane"][0] = 1_000
    elif what == "columns":
        document["graph"]["layer_to"].append(0)
    elif what == "graph":
        document["graph"]["layer_to"][0] = -1
    elif what == "memory":
        document["memory"]["live"].append(0)


@pytest.mark.parametrize(
    "what", ["ledger", "latency", "best", "layer", "coverage", "timeline", "columns", "graph", "memory"]
)
def test_a_result_that_somebody_changed_gives_no_verdict(what: str, folder: RunFolder) -> None:
    assert folder.report().verdict
    document = json.loads(folder.file(REPORT).read_bytes())
    _edited(document, what)
    folder.file(REPORT).write_text(json.dumps(document))
    with pytest.raises(UsageError, match="do not fit each other"):
        folder.report()


@pytest.mark.parametrize(
    "old", [{}, {"layers": 7}, {"layers": {"a": 1}}, {"layers": [{"kernels": 5}]}, {"kernels_unattributed": 3}], ids=str
)
def test_an_old_result_of_another_form_is_refused(old: dict[str, Any], folder: RunFolder) -> None:
    folder.file(REPORT).write_text(json.dumps({"schema_version": 4, **old}))
    with pytest.raises(UsageError, match="schema version 4"):
        folder.report()
