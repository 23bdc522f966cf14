"""The manual: pages that are written, and those that the registries write.

Written ones are Markdown in ``docs``, which the wheel carries; ``index.md`` lists every one of them, in the order in
which they are to be read, with a line each. What a registry knows better is generated when it is read, so that
it cannot be out of date: a page a rule, an op and a GPU, the flags of trtexec, the options of each command, the
glossary. A written page takes such a table in where it says ``<!-- table: NAME -->``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from trtprof.base.errors import MissingError, UsageError

DOCS = Path(__file__).resolve().parents[1] / "docs"
"""What is written."""
INDEX = "index"
_ENTRY = re.compile(r"^- \[(?P<title>[^\]]+)\]\((?P<topic>[\w/-]+)\.md\): (?P<summary>.+(?:\n  .+)*)", re.M)
_FENCED = re.compile(r"^```.*?^```", re.M | re.S)


class Entry(NamedTuple):
    """A page in the list of contents."""

    group: str
    topic: str
    title: str
    summary: str


class Found(NamedTuple):
    """A place in the manual that holds words that were looked for."""

    topic: str
    section: str
    line: str


def contents() -> list[Entry]:
    """The written pages, in the order of the index."""
    found = []
    for section in re.split(r"^## ", _written(INDEX), flags=re.M)[1:]:
        group = section.partition("\n")[0]
        found += [
            Entry(group, each["topic"], each["title"], " ".join(each["summary"].split()))
            for each in _ENTRY.finditer(section)
        ]
    return found


def generated() -> list[str]:
    """Topics of the pages that registries write: ``rules/KN701``, ``ops/Conv``, ``gpus/l4``."""
    from trtprof.cli import manual_tables

    return list(manual_tables.pages())


def page(topic: str) -> str:
    """A page in Markdown, its tables in it."""
    from trtprof.cli import manual_tables

    made = manual_tables.pages().get(topic)
    if made is not None:
        return made()
    if topic != INDEX and topic not in {each.topic for each in contents()}:
        raise UsageError(
            f"there is no page {topic!r}", why="the manual does not list it", fix="trtprof help lists them"
        )
    return re.sub(r"<!-- table: ([\w -]+) -->\n", lambda match: manual_tables.TABLES[match[1]](), _written(topic))


def topic_of(word: str) -> str | None:
    """The page that a word names: its topic, with or without its folder, whatever its case; None where none does."""
    topics = [INDEX, *(each.topic for each in contents()), *generated()]
    asked = word.lower().removesuffix(".md")
    return next((each for each in topics if asked in (each.lower(), each.lower().partition("/")[2])), None)


def search(words: list[str]) -> Iterator[Found]:
    """Lines of the manual in sections that hold all words, best pages first: those whose title holds them."""
    asked = [word.lower() for word in words]
    topics = [*(each.topic for each in contents()), *(each for each in generated() if each.startswith("rules/"))]
    found = []
    for place, topic in enumerate(topics):
        for section, text in sections(page(topic)):
            low = f"{section}\n{text}".lower()
            if all(word in low for word in asked):
                line = next((each for each in text.splitlines() if any(word in each.lower() for word in asked)), "")
                titled = sum(word in section.lower() for word in asked)
                count = sum(low.count(word) for word in asked)
                found.append((-titled, -count, place, Found(topic, section, line.strip())))
    yield from (each[-1] for each in sorted(found, key=lambda each: each[:3]))


def sections(text: str) -> Iterator[tuple[str, str]]:
    """Heading and text of each section of a page, code blocks with it."""
    heads = list(re.finditer(r"^#{1,4} (.+)$", _FENCED.sub(lambda m: " " * len(m[0]), text), flags=re.M))
    for match, after in zip(heads, [*(each.start() for each in heads[1:]), len(text)], strict=True):
        yield match[1], text[match.end() : after].strip("\n")


def shown(text: str, width: int, color: bool) -> str:
    """A page as a terminal shows it."""
    import io

    from rich.console import Console
    from rich.markdown import CodeBlock, Markdown
    from rich.text import Text

    class Code(CodeBlock):
        """As it was printed: its lines are as wide as a terminal, so that a border would break them."""

        def __rich_console__(self, *_: Any) -> Iterator[Text]:
            yield Text(str(self.text).rstrip(), style="cyan", no_wrap=True, overflow="ignore")

    class Page(Markdown):
        elements: ClassVar = {**Markdown.elements, "fence": Code, "code_block": Code}

    console = Console(
        file=io.StringIO(), width=width, force_terminal=color, no_color=not color, legacy_windows=False, highlight=False
    )
    plain = re.sub(r"<!--.*?-->\n?", "", text)
    # A page of a registry is found by its name, which is what such a link shows.
    plain = re.sub(r"\[([^\]]+)\]\((?:\.\./)?(?:rules|ops|gpus)/[\w.-]+\.md\)", r"\1", plain)
    named = re.sub(r"\[([^\]]+)\]\((?:\.\./)?([\w-]+)\.md(?:#[\w-]*)?\)", r"\1 (`trtprof help \2`)", plain)
    console.print(Page(named, hyperlinks=color), crop=False)
    written: Any = console.file
    return str(written.getvalue())


def copy_samples(folder: Path) -> list[Path]:
    """Put the sample models into ``folder/sample_models``; what is there already stays."""
    from trtprof.base.output_file import write_file

    source = next((each for each in (DOCS / "sample_models", DOCS.parents[2] / "sample_models") if each.is_dir()), None)
    if source is None:
        raise MissingError(
            "this installation has no sample models",
            why=f"{DOCS / 'sample_models'} is not there",
            fix="install the wheel",
        )
    target = folder / "sample_models"
    made = []
    try:
        target.mkdir(exist_ok=True)
    except OSError as error:
        raise MissingError(
            f"{target} cannot be made", why=error.strerror or str(error), fix="name another folder"
        ) from None
    for path in sorted(source.iterdir()):
        place = target / path.name
        if path.suffix in {".onnx", ".toml", ".md"} and "generated" not in path.name and not place.exists():
            write_file(place, path.read_bytes())
            made.append(place)
    return made


def _written(topic: str) -> str:
    try:
        return (DOCS / f"{topic}.md").read_text(encoding="utf-8")
    except OSError as error:
        raise MissingError(
            "the manual cannot be read", why=f"{error.filename}: {error.strerror}", fix="install trtprof again"
        ) from None
