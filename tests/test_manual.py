"""The manual and the README say what is true: commands run, outputs are today's, links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import manual as executed
from tests.fakes.support import ROOT
from trtprof.base import run_folder
from trtprof.base.records import SCHEMA_VERSION
from trtprof.cli import manual, trtexec

PAGES = {path.stem: path for path in executed.pages()}
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]+)\)")


PROCESS, NIGHTLY = pytest.mark.process, pytest.mark.nightly
READ_FIRST: dict[str, Any] = {
    "README": PROCESS, "tutorial": PROCESS, "try": PROCESS, "fleets": PROCESS,
    "reading-the-report": (), "comparing": (),
}  # fmt: skip
"""The pages of the default suite; those that measure something start processes."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=READ_FIRST.get(name, NIGHTLY)) for name in sorted(PAGES)])
def test_what_a_page_shows_is_what_happens(name: str, tmp_path: Path, quick_runs: None) -> None:
    """After an intended change: scripts/docs record."""
    text = PAGES[name].read_text(encoding="utf-8")
    told = executed.told(text, tmp_path)
    assert not told.problems, "\n".join(told.problems)
    assert told.text == text


def test_every_page_is_listed_once_and_every_entry_is_a_page() -> None:
    listed = [each.topic for each in manual.contents()]
    assert sorted([*listed, manual.INDEX]) == sorted(path.stem for path in executed.PAGES.glob("*.md"))
    assert all(each.group and each.summary for each in manual.contents())


def anchors(text: str) -> set[str]:
    return {re.sub(r"[^\w -]", "", head.lower()).strip().replace(" ", "-") for head, _ in manual.sections(text)}


def broken_links(topic: str) -> list[str]:
    text = manual.page(topic)
    here = Path(topic).parent
    broken = []
    for target in LINK.findall(re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)):
        path, _, anchor = target.partition("#")
        named = (Path("/") / here / path).resolve().relative_to("/").as_posix().removesuffix(".md") if path else topic
        try:
            found = manual.page(named)
        except Exception as error:
            broken.append(f"{topic}: {target}: {error}")
            continue
        if anchor and anchor not in anchors(found):
            broken.append(f"{topic}: {target}: no such heading")
    return broken


def test_every_link_leads_to_a_page_and_its_heading() -> None:
    topics = [manual.INDEX, *(each.topic for each in manual.contents()), *manual.generated()]
    assert len(topics) > 400
    assert [each for topic in topics for each in broken_links(topic)] == []


def test_the_page_of_formats_names_every_variable_and_every_file_of_a_run() -> None:
    told = manual.page("formats")
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "profiler" / "trtprof").rglob("*.py"))
    assert [each for each in sorted(set(re.findall(r"TRTPROF_[A-Z_]+", code))) if f"`{each}`" not in told] == []
    files = re.findall(r"^[A-Z]+ = \"(\w+\.\w+)\"", Path(run_folder.__file__).read_text(encoding="utf-8"), flags=re.M)
    assert [each for each in files if f"`{each}`" not in told] == []
    assert len(files) > 10
    assert f"{SCHEMA_VERSION} today" in told
    schemas = [path.name for path in (ROOT / "profiler" / "trtprof" / "report").glob("*.schema.json")]
    assert [each for each in schemas if f"`{each}`" not in told] == []


def test_every_link_of_the_readme_leads_to_a_file() -> None:
    named = set(LINK.findall(executed.README.read_text(encoding="utf-8")))
    assert [each for each in sorted(named) if not (ROOT / each.partition("#")[0]).exists()] == []


def test_the_page_from_trtexec_counts_the_flags() -> None:
    found = [len(trtexec.FLAGS)]
    for verb in ("run", "build"):
        kinds = [flag.of(verb).kind for flag in trtexec.FLAGS]
        found += [kinds.count("acted on"), kinds.count("always so"), kinds.count("answered")]
    said = manual.page("trtexec").split("Of all ")[1].split(" A flag")[0]
    assert [int(each) for each in re.findall(r"(?<![.\d])\d+(?!\.?\d)", said)] == found


def test_an_output_that_is_not_todays_is_told(tmp_path: Path) -> None:
    text = "# A page\n\n```console\n$ trtprof kernel gemv\nsomething else\n```\n"
    told = executed.told(text, tmp_path)
    assert len(told.problems) == 1
    assert "something else" not in told.text
    (tmp_path / "again").mkdir()
    assert executed.told(told.text, tmp_path / "again").problems == ()


def test_a_comment_is_of_the_block_below_it_alone(tmp_path: Path) -> None:
    block = "```console\n$ trtprof kernel gemv\n```\n"
    told = executed.told(f"<!-- exit: 0 -->\n{block}\nThen\n\n<!-- not run: why -->\n{block}", tmp_path)
    assert (told.executed, told.marked) == (1, 1)


def test_what_needs_a_module_is_executed_where_that_is_installed(tmp_path: Path) -> None:
    block = "```sh\ntrtprof kernel gemv\n```\n"
    told = executed.told(f"<!-- needs: onnx -->\n{block}\n<!-- needs: no_such_module -->\n{block}", tmp_path)
    assert (told.executed, told.marked, told.problems) == (1, 1, ())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("```sh\ntrtprof nothing\n```\n", "there is no command"),
        ("```sh\ntrtprof gpus --nothing\n```\n", "no option --nothing"),
        ("```sh\ntrtprof gpus no-such-gpu\n```\n", "exit 2"),
        ("```console\n$ ls\n```\n", "only trtprof is executed"),
        ("<!-- on a GPU -->\n```sh\ntrtprof run m.onnx --bogus\n```\n", "no option --bogus"),
        ("Type `trtprof run MODEL.onnx --bogus` then.\n", "no option --bogus"),
        ("```python\n1 / 0\n```\n", "ZeroDivisionError"),
    ],
)
def test_what_is_wrong_on_a_page_is_told(text: str, why: str, tmp_path: Path) -> None:
    (problem,) = executed.told(text, tmp_path).problems
    assert why in problem
