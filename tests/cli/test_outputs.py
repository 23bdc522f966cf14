"""``-o`` writes reports, in every verb and in the format of the suffix, and never an engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fakes.command_line import refused, trtprof
from tests.fakes.support import ROOT, SAMPLES

GEMV, RESNET = str(SAMPLES / "gemv.onnx"), str(SAMPLES / "resnet_tiny.onnx")
DATA = Path(__file__).parents[1] / "engine" / "data"
EXAMPLE = ROOT / "reports" / "example"
VERBS = {
    "predict": ("predict", GEMV, "--gpu", "l4", "--level", "groups"),
    "inspect": ("inspect", GEMV, "--no-engine"),
    "inspect --sweep": ("inspect", RESNET, "--sweep", "batch=1,2"),
    "gpus": ("gpus", "l4"),
    "sweep": ("sweep", "gemm", "--m", "64", "--n", "64", "--k", "64"),
    "analyze": ("analyze", DATA / "rtx_gemv.log", "--gpu", "rtx-4090"),
    "kernel": ("kernel", "ampere_sgemm_128x64_tn"),
    "rules": ("rules",),
    "rules CODE": ("rules", "RL101"),
    "report --explain": ("report", EXAMPLE, "--explain", "RL101", "MaxPool"),
    "doctor": ("doctor",),
}


@pytest.mark.parametrize(
    "verb", ["predict", "gpus", "analyze", "rules", pytest.param("doctor", marks=pytest.mark.process)]
)
def test_every_verb_writes_its_report_in_the_formats_of_the_suffixes(verb: str, tmp_path: Path) -> None:
    files = {suffix: tmp_path / f"report{suffix}" for suffix in (".html", ".json", ".md", ".txt", ".csv")}
    outputs = [part for path in files.values() for part in ("-o", path)]
    done = trtprof(*VERBS[verb], *outputs)
    assert done.exit_code == 0, done.output
    assert files[".html"].read_text().startswith("<!doctype html>")
    assert json.loads(files[".json"].read_text())
    assert all(path.stat().st_size > 20 for path in files.values())
    assert [f"wrote {path}" in done.stderr for path in files.values()] == [True] * 5
    again = refused(trtprof(*VERBS[verb], "-o", files[".md"]))
    assert "will not be overwritten" in again


COMMANDS = {
    **VERBS, "build": ("build", GEMV), "run": ("run", GEMV), "report": ("report", EXAMPLE),
    "compare": ("compare",), "calibrate": ("calibrate",),
}  # fmt: skip
WRONG = (
    ("mine.engine", 2, "--saveEngine="),
    ("x.docx", 2, "x.docx says no format why: known suffixes: .csv, .html,"),
    ("none/x.html", 3, "x.html cannot be written why: there is no folder"),
    ("folder.html", 2, "folder.html"),
)


@pytest.mark.parametrize(("name", "code", "words"), WRONG, ids=lambda value: str(value)[:8])
def test_a_file_that_cannot_be_written_is_refused_before_any_work(
    name: str, code: int, words: str, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "folder.html" / "mine").touch()
    for verb, command in COMMANDS.items():
        with subtests.test(verb):
            assert words in refused(trtprof(*command, "-o", tmp_path / name), code)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.html"]


def test_a_report_takes_the_format_of_the_suffix_and_prints_that_of_the_option(tmp_path: Path) -> None:
    page = tmp_path / "p.html"
    done = trtprof("report", EXAMPLE, "-o", page, "--format", "json")
    assert page.read_text().startswith("<!doctype html>")
    assert json.loads(done.stdout)["model"]
    done = trtprof("report", EXAMPLE, "-o", tmp_path / "mine", "--format", "json")
    assert done.stdout == ""
    assert json.loads((tmp_path / "mine").read_text())["model"]


@pytest.mark.usefixtures("quick_runs")
def test_a_run_writes_its_folder_and_files_of_its_report(tmp_path: Path) -> None:
    folder, page, table = tmp_path / "run", tmp_path / "p.html", tmp_path / "p.csv"
    quick = ("--duration", "0", "--iterations", "3", "--warmUp", "0", "--profile-iterations", "3")
    done = trtprof("run", RESNET, "-o", folder, "-o", page, "-o", table, "-q", *quick)
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{folder}\n"
    assert page.read_text().startswith("<!doctype html>")
    assert "Conv" in table.read_text()
    assert (folder / "report.json").is_file()
    words = refused(trtprof("run", RESNET, "-o", tmp_path / "a", "-o", tmp_path / "b"))
    assert "names 2 folders" in words
