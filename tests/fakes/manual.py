"""Pages of the manual, and the README, executed: every command that they show, and what it prints.

A page is a story in one folder, told from its first block to its last:

* In a ``console`` block a line behind ``$`` is a command, and what follows is what a terminal shows. Commands of ``sh``
  blocks must succeed. ``python`` blocks are executed in one namespace. A block of any language with
  ``title="fleet.toml"`` is a file: it is written.
* Comments straight above a block say what is not so::

      <!-- until: layers of -->       the output is shown up to the first line that begins so; "..." stands for the rest
      <!-- from: verdict -->          and from there
      <!-- measured -->               numbers differ from run to run: the same rows are there
      <!-- kept: reports/example -->  a run, of which the one kept there is shown, and goes on in the story
      <!-- exit: 1 -->                its exit code
      <!-- on a GPU -->               not executed; its options exist
      <!-- not run: why -->           the same, for another reason
      <!-- captures -->               reads captures by others, which not every checkout has beside it
      <!-- needs: tensorrt_rtx -->    executed where that module is installed

A command in a sentence (`trtprof predict MODEL.onnx`) is parsed, not executed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import typer.main
from typer.testing import CliRunner

from tests.fakes.support import CAPTURES, ROOT
from trtprof.base.errors import TrtprofError
from trtprof.cli import app, load_commands

PAGES = ROOT / "profiler" / "trtprof" / "docs"
README = ROOT / "README.md"
QUICK = ("--duration", "0", "--iterations", "3", "--warmUp", "0", "--profile-iterations", "3")
"""Options of a run whose numbers nobody reads."""
REASONS = ("on a GPU", "not run")
_FENCE = re.compile(
    r"(?P<above>(?:^[ ]*<!--[^\n]*-->\n)*)^(?P<indent> *)```(?P<head>[^\n`]*)\n(?P<body>.*?)^ *```$", re.M | re.S
)
SOMETIMES = {"DO NEXT"}
"""Rows that a run lacks which finds no cause and has no warning."""
_OWN = ("trtprof", "./scripts/trtprof")


class Told(NamedTuple):
    """A page that was executed."""

    text: str
    """With what its commands print today."""
    problems: tuple[str, ...]
    executed: int
    marked: int


class _Shown(NamedTuple):
    """A command of a block, and what stands below it."""

    command: str
    output: str


def pages() -> list[Path]:
    """The README, and what is written of the manual."""
    return [README, *sorted(PAGES.glob("*.md"))]


def spans(text: str) -> list[str]:
    """Commands in sentences and tables."""
    prose = _FENCE.sub("", text)
    return [" ".join(each.split()) for each in re.findall(r"`(trtprof [^`]+)`", prose)]


def commands(text: str) -> Iterator[tuple[str, int]]:
    """What a reader of a page types who has nothing but trtprof, each with its exit code."""
    for match in _FENCE.finditer(text):
        how, kind = _read(match)
        if kind not in {"sh", "console"} or not {*REASONS, "captures", "needs"}.isdisjoint(how):
            continue
        for each in _given(kind, match["body"]):
            if each.command.startswith("trtprof "):
                yield each.command.replace("\\\n", " "), int(how.get("exit", 0))


def not_parsed(command: str) -> str:
    """What is wrong with a command, as it can be told without executing it; empty where nothing is."""
    load_commands()
    if command.split()[1:2] == ["COMMAND"]:
        return ""
    words = shlex.split(re.sub(r"(?<=\s)(\[[^\]]*\]|\.\.\.|\|.*|>.*)(?=\s|$)", "", command), comments=True)[1:]
    group: Any = typer.main.get_command(app)
    context = typer.Context(group, info_name="trtprof")
    while words and isinstance(group, typer.core.TyperGroup) and not words[0].startswith("-"):
        found = group.get_command(context, words[0])
        if found is None:
            return f"there is no command {words[0]!r}"
        group, words = found, words[1:]
        context = typer.Context(group, info_name=group.name, parent=context)
    known = {each for parameter in group.params for each in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}
    unknown = [word for word in words if word.startswith("--") and word.partition("=")[0] not in known]
    return f"no option {unknown[0]}" if unknown else ""


def told(text: str, folder: Path, *, really: bool = False) -> Told:
    """Execute the blocks of a page in a folder.

    Args:
        text: The page.
        folder: Empty; the working directory of its commands. Samples are put there.
        really: What is measured is, in a process of its own, and takes the place of what stood there.
    """
    story = _Story(folder, really)
    with contextlib.chdir(folder):
        new = _FENCE.sub(story.block, text)
    problems = [f"`{each}`: {why}" for each in spans(text) if (why := not_parsed(each))]
    return Told(new, (*story.problems, *problems), story.executed, story.marked)


class _Story:
    def __init__(self, folder: Path, really: bool) -> None:
        self.folder = folder
        self.really = really
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.problems: list[str] = []
        self.executed = self.marked = 0
        (folder / "sample_models").symlink_to(ROOT / "sample_models")
        (folder / "reports").mkdir()
        for each in (ROOT / "reports").glob("example*"):
            (folder / "reports" / each.name).symlink_to(each)
        if CAPTURES.is_dir():
            (folder / "captures").symlink_to(CAPTURES)

    def block(self, match: re.Match[str]) -> str:
        """One block, as it should stand."""
        how, kind = _read(match)
        indent = match["indent"]
        body = re.sub(rf"^{indent}", "", match["body"], flags=re.M)
        title = re.search(r'title="([^"]+)"', match["head"])
        if title:
            path = self.folder / title[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body, encoding="utf-8")
        elif kind == "python":
            self._python(body, how)
        elif kind in {"sh", "console"}:
            new = "".join(self._command(each, how, kind) for each in _given(kind, body))
            if kind == "console":
                body = new
        body = "".join(f"{indent}{line}".rstrip(" ") for line in body.splitlines(keepends=True))
        return f"{match['above']}{indent}```{match['head']}\n{body}{indent}```"

    def _left(self, how: dict[str, str]) -> bool:
        """Whether a block is not executed, which is counted."""
        left = any(each in how for each in REASONS) or ("captures" in how and not CAPTURES.is_dir())
        left = left or ("needs" in how and importlib.util.find_spec(how["needs"]) is None)
        self.marked += left
        return left

    def _python(self, body: str, how: dict[str, str]) -> None:
        if self._left(how):
            compile(body, "page", "exec")
            return
        self.executed += 1
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(body, "page", "exec"), self.names)  # noqa: S102 - the page's own example
        except Exception as error:
            self.problems.append(f"python block {body.splitlines()[0]!r}: {type(error).__name__}: {error}")

    def _command(self, shown: _Shown, how: dict[str, str], kind: str) -> str:
        head = "".join(f"{'$ ' if at == 0 else ''}{line}\n" for at, line in enumerate(shown.command.splitlines()))
        line = re.sub(r"\\\n\s*", " ", shown.command)
        words = shlex.split(line, comments=True)
        own = bool(words) and words[0] in _OWN
        if own and (why := not_parsed(line)):
            self.problems.append(f"$ {line}: {why}")
            return head + shown.output
        if not words or self._left(how):
            return head + shown.output
        if not own:
            self.problems.append(f"$ {line}: only trtprof is executed; say <!-- not run: why --> or <!-- on a GPU -->")
            return head + shown.output
        self.executed += 1
        code, output = self._outcome(words[1:], how)
        if code != int(how.get("exit", 0)):
            self.problems.append(f"$ {line}: exit {code}: {output[-600:]}")
            return head + shown.output
        if kind == "sh":
            return head
        output = part(output, how.get("from", ""), how.get("until", ""))
        if "measured" in how and not (self.really or not shown.output):
            lacking = _lacking(shown.output, output)
            if lacking:
                self.problems.append(f"$ {line}: no row {lacking[0]!r} today:\n{output}")
            return head + shown.output
        if output != shown.output:
            self.problems.append(f"$ {line} prints:\n{output}--- and not\n{shown.output}")
        return head + output

    def _outcome(self, words: list[str], how: dict[str, str]) -> tuple[int, str]:
        """Exit code, and what a terminal shows: the result, or the error."""
        if "measured" in how and self.really:
            return _alone(words)
        quick = list(QUICK) if words[0] == "run" and "--dry-run" not in words else []
        done = CliRunner().invoke(app, [*words, *quick], env={"COLUMNS": "80", "NO_COLOR": "1"})
        if done.exception is not None and not isinstance(done.exception, SystemExit | TrtprofError):
            return 70, f"{type(done.exception).__name__}: {done.exception}"
        if "kept" in how and done.exit_code == 0:
            target = Path(words[words.index("-o") + 1]) if "-o" in words else Path(how["kept"])
            if "-o" in words:
                shutil.rmtree(target)
                shutil.copytree(ROOT / how["kept"], target)
            again = CliRunner().invoke(app, ["report", str(target)], env={"COLUMNS": "80", "NO_COLOR": "1"})
            # A busy machine has other rows.
            lacking = _lacking(again.stdout, done.stdout)
            if lacking and "TRUST     low" not in done.stdout:
                return 71, f"no row {lacking[0]!r} in a run today:\n{done.stdout}"
            return again.exit_code, again.stdout
        return done.exit_code, done.stderr if done.exit_code > 1 else done.stdout


def blocks(text: str) -> Iterator[re.Match[str]]:
    """The fenced blocks of a page, with what stands straight above each."""
    return _FENCE.finditer(text)


def note(text: str) -> tuple[str, str]:
    """Name and value of a comment."""
    name, _, value = text.partition(":")
    return name.strip(), value.strip()


def _read(match: re.Match[str]) -> tuple[dict[str, str], str]:
    """What the comments above a block say, and its language."""
    how = dict(note(each) for each in re.findall(r"<!-- (.*?) -->", match["above"]))
    return how, match["head"].split()[0] if match["head"].strip() else ""


def _given(kind: str, body: str) -> Iterator[_Shown]:
    return shown(body) if kind == "console" else _typed(body)


def shown(body: str) -> Iterator[_Shown]:
    """The commands of a block, each with what stands below it."""
    for each in re.split(r"^\$ ", body, flags=re.M)[1:]:
        command = re.match(r"(?:.*\\\n)*.*\n", each)
        if command is None:
            raise ValueError(f"no end of line behind {each!r}")
        yield _Shown(command[0].rstrip("\n"), each[command.end() :])


def _typed(body: str) -> Iterator[_Shown]:
    for line in re.findall(r"(?:.*\\\n)*.+\n", body):
        if not line.lstrip().startswith("#"):
            yield _Shown(line.rstrip("\n"), "")


def part(output: str, first: str, end: str) -> str:
    """From the line that begins with ``first`` up to that which begins with ``end``, dots for the rest."""
    lines = output.splitlines(keepends=True)
    start = next((at for at, line in enumerate(lines) if first and line.startswith(first)), 0)
    stop = next((at for at, line in enumerate(lines) if end and at > start and line.startswith(end)), len(lines))
    kept = lines[start:stop]
    while kept and not kept[-1].strip():
        kept.pop()
    return "...\n" * (start > 0) + "".join(kept) + "...\n" * (stop < len(lines))


def _rows(output: str) -> list[str]:
    """What the rows are called: words at the margin, without numbers, before a wide gap."""
    found = (re.match(r"[A-Za-z?'][A-Za-z?' -]*?(?=\s{2,})", line) for line in output.splitlines())
    return [match[0] for match in found if match is not None]


def _lacking(output: str, today: str) -> list[str]:
    lines = today.splitlines()
    lacking, start = [], 0
    for row in _rows(output):
        if row in SOMETIMES:
            continue
        at = next((at for at, line in enumerate(lines[start:], start) if line.startswith(row)), None)
        if at is None:
            lacking.append(row)
        else:
            start = at + 1
    return lacking


def _alone(words: list[str]) -> tuple[int, str]:
    environment = dict(os.environ) | {"COLUMNS": "80", "NO_COLOR": "1", "PYTHONPATH": str(ROOT / "profiler")}
    done = subprocess.run(
        [sys.executable, "-m", "trtprof", *words], capture_output=True, text=True, env=environment, check=False
    )
    return done.returncode, done.stderr if done.returncode > 1 else done.stdout
