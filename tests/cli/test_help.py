"""``trtprof help``: the words of reports, from the table behind the definitions of the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fakes.command_line import refused, trtprof
from tests.fakes.support import SAMPLES
from trtprof.cli import app, manual
from trtprof.report.terms import TERMS


@pytest.mark.parametrize(
    ("word", "title"),
    [
        ("TRUST", "trust"), ("~bound", "bound"), ("by", "bound"), ("special", "bound"), ("llc", "bound"),
        ("~excess", "lost"), ("share", "share"), ("launch floor", "empty-kernel"), ("roof", "attainable"),
        ("where it goes", "row"), ("kernel?", "net"), ("ignored", "unsupported"), ("causes", "finding-lost"),
        ("--by module", "module"), ("medians not adding up", "medians"), ("unexplained", "unexplained"),
        ("confidence", "confidence"), ("by op", "share"), ("at most", "allowed"), ("undisturbed", "latency"),
    ],
)  # fmt: skip
def test_a_word_of_the_first_screen_is_explained_as_on_the_page(word: str, title: str) -> None:
    done = trtprof("help", "--", *word.split())
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0] == TERMS[title].title
    assert " ".join(done.stdout.split()).startswith(f"{TERMS[title].title} {TERMS[title].text}")


def test_a_word_of_a_report_is_no_op_of_that_name() -> None:
    told = trtprof("help", "floor").stdout
    assert told.startswith(TERMS["allowed"].title)
    assert "The op Floor: trtprof help ops/Floor." in " ".join(told.split())
    assert trtprof("help", "Floor").stdout.startswith("# Floor")
    assert trtprof("help", "ops/floor").stdout.startswith("# Floor")


def test_no_word_means_two_things() -> None:
    words = [word for key, term in TERMS.items() for word in {key, *term.also} - {term.title.lower()}]
    assert sorted(words) == sorted(set(words))
    assert all(word == word.lower() for word in words)


def test_an_unknown_word_is_refused_with_those_that_are_near() -> None:
    assert "why: near ones: floor" in refused(trtprof("help", "flor"))
    assert "fix: trtprof help lists them" in refused(trtprof("help", "xyzzyq"))


def test_without_a_word_the_manual_is_listed_and_a_command_shows_its_options() -> None:
    listed = trtprof("help").stdout
    words = set(re.findall(r"[\w-]+", listed))
    assert words >= {*TERMS, *(each.topic for each in manual.contents())}
    assert all(len(line) <= 80 for line in listed.splitlines())
    assert {command.callback.__name__ for command in app.registered_commands if command.callback} >= {"run"}
    assert trtprof("help", "run").stdout.startswith("Usage: ")
    assert "--by WHAT" in trtprof("help", "report").stdout


@pytest.mark.parametrize(
    ("word", "first"),
    [
        ("work-model", "# The work model"), ("KN701", "# KN701 "), ("kn701", "# KN701 "), ("Conv", "# Conv"),
        ("com.microsoft.FusedConv", "# FusedConv"), ("l4", "# L4 "), ("index", "# The manual of trtprof"),
    ],
)  # fmt: skip
def test_a_page_is_shown_by_its_name(word: str, first: str) -> None:
    assert trtprof("help", word).stdout.startswith(first)


def test_words_are_looked_for_in_the_whole_manual() -> None:
    assert "work-model: The work model\n" in trtprof("help", "--search", "Livermore", "loops").stdout
    assert "\nrules/" in trtprof("help", "--search", "batched", "gemv").stdout
    assert "no section has all these words" in refused(trtprof("help", "--search", "xyzzyq"))
    assert "--search takes words" in refused(trtprof("help", "--search"))


def test_samples_are_put_here_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert trtprof("help", "--samples").stdout == "sample_models\n"
    gemv = tmp_path / "sample_models" / "gemv.onnx"
    assert gemv.read_bytes() == (SAMPLES / "gemv.onnx").read_bytes()
    gemv.write_bytes(b"mine")
    done = trtprof("help", "--samples")
    assert (done.exit_code, gemv.read_bytes()) == (0, b"mine")
    assert "has them all" in done.stderr
