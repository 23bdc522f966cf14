"""``trtprof report``: every format, tables into a folder, the browser, tags, redaction, and the server."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.fakes.command_line import refused, trtprof
from tests.fakes.support import ROOT
from trtprof.base.records import Run
from trtprof.base.run_folder import RunFolder
from trtprof.cli.options import command_line
from trtprof.report import REPORTERS, formats_of
from trtprof.report.tables import TABLES

EXAMPLE = ROOT / "reports" / "example"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(tmp_path: Path) -> str:
    """A copy of the example under reports/."""
    folder = tmp_path / "reports" / "example"
    folder.mkdir(parents=True)
    for name in ("report.json", "report.html", "request.json"):
        shutil.copyfile(EXAMPLE / name, folder / name)
    return str(folder)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What would have been opened in a browser."""
    urls: list[str] = []

    def open_in_browser(url: str) -> str:
        urls.append(url)
        return ""

    monkeypatch.setattr("trtprof.cli.browser.open_in_browser", open_in_browser)
    return urls


# --- formats -----------------------------------------------------------------------------------


OF_THE_RECORD = [one.name for one in formats_of(Run) if one.name != "onnx"]
"""The formats that need no file of the model; of the other one see ``report/formats/test_onnx.py``."""


@pytest.mark.parametrize("name", OF_THE_RECORD)
def test_every_format_goes_to_a_file_by_its_suffix(run: str, name: str) -> None:
    reporter = REPORTERS.get(name)
    assert reporter is not None
    out = Path(f"out{reporter.suffix}")
    done = trtprof("report", run, "-o", str(out))
    assert done.exit_code == 0, done.output
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith(f"wrote {out}")
    assert out.stat().st_size > 100
    refused(trtprof("report", run, "-o", str(out)))
    assert trtprof("report", run, "-o", str(out), "--force").exit_code == 0


@pytest.mark.parametrize("name", ["png", "parquet"])
def test_binary_goes_to_a_pipe_and_to_no_terminal(run: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reporter = REPORTERS.get(name)
    assert reporter is not None
    done = trtprof("report", run, "--format", name)
    assert done.exit_code == 0
    assert done.stdout_bytes[:4] in (b"\x89PNG", b"PAR1")
    monkeypatch.setattr("trtprof.cli.output.sys", _Terminal())
    from trtprof.base.errors import UsageError
    from trtprof.cli.output import refuse_binary

    with pytest.raises(UsageError, match="is not for a terminal") as caught:
        refuse_binary(name)
    assert f"-o report{reporter.suffix}" in caught.value.fix


class _Terminal:
    """The part of ``sys`` that tells a terminal."""

    def __init__(self) -> None:
        self.stdout = self

    @staticmethod
    def isatty() -> bool:
        return True


@pytest.mark.parametrize("name", [one.name for one in formats_of(Run) if one.tables])
def test_a_folder_takes_all_tables(run: str, name: str) -> None:
    reporter = REPORTERS.get(name)
    assert reporter is not None
    done = trtprof("report", run, "--format", name, "-o", "tables/")
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in Path("tables").iterdir()) == sorted(f"{t}{reporter.suffix}" for t in TABLES)
    assert f"wrote tables/ ({len(tuple(TABLES))} tables)" in done.stderr
    refused(trtprof("report", run, "--format", name, "-o", "tables"))


def test_the_newest_run_is_taken_where_none_is_named(run: str) -> None:
    done = trtprof("report")
    # The page goes by the path that was given.
    assert done.stdout.rpartition("page")[0] == trtprof("report", run).stdout.rpartition("page")[0]
    assert done.stdout.endswith(f"page      {Path('reports') / 'example' / 'report.html'}\n")
    assert done.stderr.startswith(f"{Path('reports') / 'example'}: the newest run")
    shutil.rmtree("reports")
    assert "no finished run in reports" in refused(trtprof("report"), 3)


# --- the browser -------------------------------------------------------------------------------


def test_the_page_of_the_folder_is_opened(run: str, opened: list[str]) -> None:
    page = Path(run) / "report.html"
    os.utime(page)
    done = trtprof("report", run, "--open")
    assert done.exit_code == 0, done.output
    assert done.stdout.strip() == str(page)
    assert opened == [page.as_uri()]


@pytest.mark.parametrize("how", ["absent", "old", "redacted"])
def test_a_page_is_made_for_the_moment(run: str, opened: list[str], how: str) -> None:
    page = Path(run) / "report.html"
    if how == "absent":
        page.unlink()
    elif how == "old":
        os.utime(page, ns=(1, 1))
    done = trtprof("report", run, "--open", *(["--redact"] if how == "redacted" else []))
    made = Path(done.stdout.strip())
    try:
        assert made != page
        assert opened == [made.as_uri()]
        assert ("resnet_tiny" in made.read_text(encoding="utf-8")) is (how != "redacted")
    finally:
        made.unlink()


def test_without_a_display_the_path_is_what_is_left(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    done = trtprof("report", run, "--open")
    assert done.exit_code == 0
    assert Path(done.stdout.strip()).is_file()
    assert "there is no display here" in done.stderr


# --- tags --------------------------------------------------------------------------------------


def test_tags_are_given_and_taken(run: str) -> None:
    before = (Path(run) / "report.json").read_bytes()
    assert trtprof("report", run, "--tag", "v2", "--tag", "baseline").stdout == "baseline v2\n"
    assert RunFolder(Path(run)).report().tags == ("baseline", "v2")
    assert json.loads(trtprof("report", run, "--format", "json").stdout)["tags"] == ["baseline", "v2"]
    assert trtprof("report", run, "--untag", "v2").stdout == "baseline\n"
    assert (Path(run) / "report.json").read_bytes() == before


@pytest.mark.usefixtures("quick_runs")
def test_a_run_gets_its_tags(tmp_path: Path) -> None:
    quick = [
        "--duration",
        "0",
        "--iterations",
        "3",
        "--warmUp",
        "0",
        "--profile-iterations",
        "3",
        "--backend",
        "ort-cpu",
    ]
    model = str(ROOT / "sample_models" / "resnet_tiny.onnx")
    assert "is no tag" in trtprof("run", model, *quick, "-o", "out", "--tag", "a b").stderr
    assert not Path("out").exists()
    done = trtprof("run", model, *quick, "-o", "out", "--tag", "nightly", "--by", "type")
    assert done.exit_code == 0, done.output
    assert RunFolder(tmp_path / "out").tags() == ("nightly",)
    assert json.loads((tmp_path / "out" / "report.json").read_text())["tags"] == []


# --- redaction ---------------------------------------------------------------------------------


def test_names_are_replaced_and_kept_apart(run: str) -> None:
    done = trtprof("report", run, "--redact", "--redact-map", "map.json", "-o", "r.json", "-o", "r.html", "-o", "r.md")
    assert done.exit_code == 0, done.output
    for name in ("r.json", "r.html", "r.md"):
        text = Path(name).read_text(encoding="utf-8")
        assert "resnet_tiny" not in text
        assert "/stem/conv" not in text
    names = json.loads(Path("map.json").read_text(encoding="utf-8"))
    assert names["model"] == "resnet_tiny"
    assert names["node_0001"] == "/stem/conv/Conv"
    assert "map.json" in done.stderr
    assert "exists" in refused(trtprof("report", run, "--redact", "--redact-map", "map.json"))


# --- the server --------------------------------------------------------------------------------


@pytest.mark.process
def test_the_server_says_its_address_and_ends_with_ctrl_c(run: str) -> None:
    command = [sys.executable, "-c", "from trtprof.cli import main; main()", "report", "--serve", "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "profiler")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310 - our own server
            assert "resnet_tiny" in answer.read().decode()
        server.send_signal(signal.SIGINT)
        _, talk = server.communicate(timeout=20)
        assert server.returncode == 0
    assert "Ctrl-C ends it" in talk
    assert "Traceback" not in talk


# --- the first screen --------------------------------------------------------------------------


def test_the_ledger_and_modules_are_shown_where_they_are_asked_for(run: str) -> None:
    assert "kernel inefficiency" not in trtprof("report", run).stdout
    assert "kernel inefficiency" in trtprof("report", run, "--ledger").stdout
    shown = trtprof("report", run, "--by", "module", "--top", "3").stdout
    assert " 3 of 19 modules, " in shown
    assert " stem/conv 1 layer " in shown
    assert "module" in refused(trtprof("report", run, "--by", "modul"))


def test_what_was_typed_is_kept_to_be_typed_again() -> None:
    typed = "trtprof run 'my model.onnx' --batch 2 --fp16"
    given = ["run", "my model.onnx", "-o", "there", "--batch", "2", "-f", "--resume", "--output=x", "--fp16"]
    assert command_line(given) == typed
    assert command_line([]) == ""
