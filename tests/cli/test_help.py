"""``trtprof help``: the words of reports, from the table behind the definitions of the page."""

from __future__ import annotations

import pytest

from profiler.cli import app
from profiler.report.terms import TERMS
from tests.fakes.command_line import refused, trtprof


@pytest.mark.parametrize(
    ("word", "title"),
    [
        ("TRUST", "trust"), ("~floor", "allowed"), ("limit", "bound"), ("special", "bound"), ("llc", "bound"),
        ("~lost", "lost"), ("share", "share"), ("launch floor", "empty-kernel"), ("roof", "attainable"),
        ("where it goes", "row"), ("kernel?", "net"), ("ignored", "unsupported"), ("likely cause", "finding-lost"),
        ("--by module", "module"), ("medians not adding up", "medians"), ("unexplained", "unexplained"),
        ("sure", "confidence"), ("by op", "share"), ("ideal", "ideal"), ("allows", "allowed"), ("eff", "of-roof"),
    ],
)  # fmt: skip
def test_a_word_of_the_first_screen_is_explained_as_on_the_page(word: str, title: str) -> None:
    done = trtprof("help", "--", *word.split())
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0] == TERMS[title].title
    assert " ".join(done.stdout.split()).startswith(f"{TERMS[title].title} {TERMS[title].text}")


def test_no_word_means_two_things() -> None:
    words = [word for key, term in TERMS.items() for word in {key, *term.also} - {term.title.lower()}]
    assert sorted(words) == sorted(set(words))
    assert all(word == word.lower() for word in words)


def test_an_unknown_word_is_refused_with_those_that_are_near() -> None:
    assert "why: near ones: floor" in refused(trtprof("help", "flor"))
    assert "fix: trtprof help lists them" in refused(trtprof("help", "xyzzyq"))


def test_without_a_word_all_are_listed_and_a_command_shows_its_options() -> None:
    listed = trtprof("help").stdout
    assert {line.split()[0] for line in listed.splitlines() if not line.startswith(" ")} == set(TERMS)
    assert all(len(line) <= 80 for line in listed.splitlines())
    assert {command.callback.__name__ for command in app.registered_commands if command.callback} >= {"run"}
    assert trtprof("help", "run").stdout.startswith("Usage: ")
    assert "--by WHAT" in trtprof("help", "report").stdout
