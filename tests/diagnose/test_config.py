"""Thresholds that a project sets: found upwards, checked, and kept with a run."""

from __future__ import annotations

from pathlib import Path
from typing import get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.support import ROOT, refused
from trtprof.base import run_folder
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.run_folder import Request, RunFolder
from trtprof.diagnose import THRESHOLDS, AtLeastOne, Case, Thresholds, config
from trtprof.diagnose.config import KEPT, VARIABLE, Config, judge_of, kept, load, thresholds_of
from trtprof.flows.report import analysed, case_of
from trtprof.report import render

EXAMPLE = ROOT / "reports" / "example"


def project(folder: Path, text: str, name: str = "pyproject.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


def loaded(folder: Path, **environment: str) -> Config:
    return load(folder, environment)


def test_the_nearest_table_upwards_counts_and_files_without_one_are_passed_over(tmp_path: Path) -> None:
    project(tmp_path, "[tool.trtprof]\nmin-share = 0.02\nefficiency = 0.4\n")
    inner = tmp_path / "a" / "b"
    project(inner, "[tool.other]\nx = 1\n")
    found = loaded(inner)
    assert found.file == tmp_path / "pyproject.toml"
    assert found.thresholds == THRESHOLDS._replace(min_share=0.02, efficiency=0.4)
    # A nearer table counts alone: nothing is added up.
    near = project(tmp_path / "a", "[tool.trtprof]\ndoubt = 0.5\n")
    assert loaded(inner) == Config(THRESHOLDS._replace(doubt=0.5), near)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("strict.toml", "min-share = 0.03\n"),
        ("strict.toml", "[tool.trtprof]\nmin-share = 0.03\n"),
        ("pyproject.toml", "[tool.trtprof]\nmin-share = 0.03\n"),
    ],
)
def test_a_variable_names_another_file(tmp_path: Path, name: str, text: str) -> None:
    project(tmp_path, "[tool.trtprof]\nmin-share = 0.02\n")
    other = project(tmp_path / "elsewhere", text, name)
    found = loaded(tmp_path, **{VARIABLE: str(other)})
    assert found == Config(THRESHOLDS._replace(min_share=0.03), other)
    assert found.source("min_share") == str(other)
    assert found.source("doubt") == "default"
    assert loaded(tmp_path, **{VARIABLE: ""}).thresholds.min_share == 0.02


def test_a_file_that_the_variable_names_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(MissingError) as error:
        loaded(tmp_path, **{VARIABLE: str(tmp_path / "none.toml")})
    assert VARIABLE in refused(error.value)
    with pytest.raises(UsageError, match="is a folder") as of_folder:
        loaded(tmp_path, **{VARIABLE: str(tmp_path)})
    assert VARIABLE in of_folder.value.fix


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tool.trtprof]\nmin_share = 0.02\n", ("'min_share'", "nearest is min-share")),
        ("[tool.trtprof]\nminshare = 0.02\n", ("'minshare'", "nearest is min-share")),
        ("[tool.trtprof]\nmin-share = '1 %'\n", ("min-share = '1 %'", "got `str`", "the default is 0.01")),
        ("[tool.trtprof]\nmin-share = true\n", ("got `bool`",)),
        ("[tool.trtprof]\nmin-share = 1.5\n", ("min-share = 1.5", "<= 1.0")),
        ("[tool.trtprof]\nmin-share = -0.1\n", (">= 0.0",)),
        ("[tool.trtprof]\np99 = 0.5\n", (">= 1.0",)),
        ("[tool.trtprof]\np99 = inf\n", ("finite",)),
        ("[tool.trtprof]\nnoise-cv = -0.1\n", ("not below 0",)),
        ("[tool.trtprof]\nnoise-cv = nan\n", ("finite",)),
        ("[tool.trtprof]\nskinny = 8.5\n", ("got `float`",)),
        ("[tool.trtprof.min-share]\nx = 1\n", ("got `object`",)),
        ("[tool]\ntrtprof = 1\n", ("no table",)),
        ("[tool.trtprof\n", ("no TOML", "line 1")),
        ("x = '\udcff'", ("no TOML", "utf-8")),
    ],
)
def test_what_cannot_be_is_refused_with_its_file(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    path = project(tmp_path, "")
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UsageError) as error:
        loaded(tmp_path)
    said = refused(error.value)
    assert str(path) in said
    for word in words:
        assert word in said


def test_every_threshold_is_a_number_that_may_be_set_to_its_default(subtests: pytest.Subtests) -> None:
    for name in Thresholds._fields:
        with subtests.test(name=name):
            default = getattr(THRESHOLDS, name)
            assert thresholds_of({name.replace("_", "-"): default}, "a test") == THRESHOLDS
            kind = get_type_hints(Thresholds)[name]
            assert kind in (int, float)
            with pytest.raises(UsageError):
                thresholds_of({name.replace("_", "-"): -1}, "a test")


def allowed(name: str) -> st.SearchStrategy[float]:
    """Values that a threshold may have."""
    if get_type_hints(Thresholds)[name] is int:
        return st.integers(1, 1000)
    least_one = get_type_hints(Thresholds, include_extras=True)[name] == AtLeastOne
    return st.floats(1, 10) if least_one else st.floats(0, 1)


@given(st.fixed_dictionaries({}, optional={name: allowed(name) for name in Thresholds._fields}))
def test_what_is_kept_reads_back_the_same(values: dict[str, float]) -> None:
    thresholds = THRESHOLDS._replace(**values)  # type: ignore[arg-type]
    text = kept(thresholds)
    assert (text == "") == (thresholds == THRESHOLDS)
    assert judge_of(request(**({KEPT: text} if text else {}))).thresholds == thresholds


def request(**options: str) -> Request:
    return Request(schema_version=1, created="", version="", model="m.onnx", sha256="", options=options)


@pytest.mark.parametrize("text", ["[]", "nonsense", '{"no-such": 1}', '{"min-share": 2}'])
def test_a_run_whose_thresholds_cannot_be_read_says_so(text: str) -> None:
    with pytest.raises(UsageError) as error:
        judge_of(request(**{KEPT: text}))
    assert "request.json" in refused(error.value)


def copied(folder: Path, **options: str) -> RunFolder:
    """The example, as if it had been run with options of its own."""
    folder.mkdir()
    for path in EXAMPLE.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    copy = RunFolder(folder)
    asked = copy.read(run_folder.REQUEST, Request)
    copy.write(run_folder.REQUEST, msgspec.structs.replace(asked, options={**asked.options, **options}))
    return copy


def test_a_run_is_judged_by_what_it_kept_wherever_it_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = analysed(RunFolder(EXAMPLE))
    strict = copied(tmp_path / "run", thresholds='{"host-share":0.001,"min-share":0.001}')
    cases: list[Case] = []
    run = analysed(strict, cases.append)
    assert [case.thresholds for case in cases] == [THRESHOLDS._replace(min_share=0.001, host_share=0.001)]
    said = [note for note in run.assumptions if note not in plain.assumptions]
    assert said == [
        "the threshold min-share is 0.001, by default 0.01",
        "the threshold host-share is 0.001, by default 0.1",
    ]
    # The call of a thousandth of the latency counts now.
    assert sum(finding.lost_ns for finding in run.findings) > sum(finding.lost_ns for finding in plain.findings)

    project(tmp_path, "[tool.trtprof]\nmin-share = 0.5\n")
    monkeypatch.chdir(tmp_path)
    assert config.load().thresholds.min_share == 0.5
    assert render(analysed(strict), "json") == render(run, "json")
    assert case_of(strict).thresholds == cases[0].thresholds
