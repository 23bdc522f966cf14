"""Tags of a run: beside the result, and no part of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.fakes.support import ROOT, refused
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.records import SCHEMA_VERSION
from trtprof.base.run_folder import REPORT, TAGS, RunFolder, newest
from trtprof.flows.notebook import LoadedRun


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    target = tmp_path / "run"
    target.mkdir()
    for name in ("report.json", "request.json"):
        shutil.copyfile(ROOT / "reports" / "example" / name, target / name)
    return RunFolder(target)


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


def test_a_result_of_another_schema_is_refused(folder: RunFolder) -> None:
    for version in (SCHEMA_VERSION - 1, SCHEMA_VERSION + 1):
        folder.file(REPORT).write_text(json.dumps({"schema_version": version, "layers": 7}))
        with pytest.raises(UsageError, match=f"schema version {version}"):
            folder.report()
