"""The manual as a site, and its pages with what their commands print today.

scripts/docs build [FOLDER]    the site, strictly: a link that leads nowhere or a page that no other names is an error
scripts/docs serve             the same on this machine, at http://127.0.0.1:8000
scripts/docs record [PAGE...]  executes pages and writes outputs into them; --measured measures anew, too
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import yaml  # noqa: E402

from tests.fakes import manual as executed  # noqa: E402
from trtprof.cli import manual  # noqa: E402

SITE = ROOT / "reports" / "site"
REGISTRIES = ("rules", "ops", "gpus")
"""Whose pages stand in folders of their own."""


def sources(folder: Path) -> None:
    """Every page, as Markdown."""
    for topic in (manual.INDEX, *(each.topic for each in manual.contents()), *manual.generated()):
        path = folder / f"{topic}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(manual.page(topic), encoding="utf-8")
    (folder / "api.md").write_text("# The Python API\n\n::: trtprof\n", encoding="utf-8")


SETTINGS = """
site_name: trtprof
theme:
  name: material
  font: false  # a manual that is read offline fetches nothing
  features: [navigation.sections, content.code.copy, search.suggest, search.highlight]
  palette: [{media: (prefers-color-scheme), toggle: {icon: material/brightness-auto, name: dark}}]
use_directory_urls: false
validation: {omitted_files: warn, absolute_links: warn, anchors: warn}
markdown_extensions: [admonition, attr_list, tables, toc, pymdownx.highlight, pymdownx.superfences]
"""


def configuration(folder: Path, site: Path) -> dict[str, Any]:
    """What mkdocs is told."""
    nav: list[dict[str, Any]] = [{"The manual": "index.md"}]
    for group, entries in itertools.groupby(manual.contents(), key=lambda each: each.group):
        nav.append({group: [{each.title: f"{each.topic}.md"} for each in entries]})
    nav[-1][next(iter(nav[-1]))].append({"The Python API": "api.md"})
    options = {"docstring_style": "google", "show_source": False, "show_root_heading": False}
    python = {"paths": [str(ROOT / "profiler")], "options": options}
    return {
        **yaml.safe_load(SETTINGS), "docs_dir": str(folder), "site_dir": str(site), "nav": nav,
        "not_in_nav": "\n".join(f"/{name}/*" for name in REGISTRIES),
        "plugins": [{"search": {}}, {"mkdocstrings": {"handlers": {"python": python}}}],
    }  # fmt: skip


def build(site: Path, verb: str = "build") -> int:
    """The site, by mkdocs."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "docs"
        sources(folder)
        settings = Path(made) / "mkdocs.yml"
        settings.write_text(yaml.safe_dump(configuration(folder, site), sort_keys=False), encoding="utf-8")
        command = [sys.executable, "-m", "mkdocs", verb, "--strict", "--config-file", str(settings)]
        return subprocess.run(command, check=False).returncode


def record(names: list[str], measured: bool) -> int:
    """Pages with what their commands print today."""
    import pytest

    from tests.fakes.in_process import quick

    wrong = 0
    for path in executed.pages():
        if names and path.stem not in names:
            continue
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            quick(patch)
            text = path.read_text(encoding="utf-8")
            told = executed.told(text, Path(folder), really=measured)
        if told.text != text:
            path.write_text(told.text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
        left = [each for each in told.problems if " prints:\n" not in each]
        wrong += len(left)
        for each in left:
            print(f"{path.stem}: {each}", file=sys.stderr)
    return min(wrong, 1)


SHELL = ROOT / "profiler" / "trtprof" / "docs" / "shell"


def shell_files() -> dict[str, str]:
    """What the wheel installs beside the package: file name -> content."""
    from typer._completion_shared import get_completion_script

    def completion(shell: str) -> str:
        return str(get_completion_script(prog_name="trtprof", complete_var="_TRTPROF_COMPLETE", shell=shell)) + "\n"

    return {
        "trtprof.1": man_page(),
        "trtprof.bash": completion("bash"),
        "_trtprof": completion("zsh"),
        "trtprof.fish": completion("fish"),
    }


def man_page() -> str:
    """The man page: what the commands are, and the options of each."""
    from trtprof import __version__
    from trtprof.cli import EXIT_CODES, app
    from trtprof.cli.manual_tables import helps

    def quoted(text: str) -> str:
        lines = text.replace("\\", "\\e").replace("-", "\\-").splitlines()
        return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in lines)

    pages = [f".SS trtprof {name}\n.nf\n{quoted(text)}\n.fi" for name, text in helps()]
    parts = [
        f'.TH TRTPROF 1 "" "trtprof {__version__}"',
        f".SH NAME\ntrtprof \\- {quoted(app.info.help or '')}",
        ".SH SYNOPSIS\n.B trtprof\n.I COMMAND\n[OPTIONS]",
        f".SH EXIT STATUS\n{quoted(EXIT_CODES)}",
        ".SH MANUAL\n.B trtprof help\nlists its pages and the words of a report;",
        ".B trtprof help \\-\\-search\nlooks for words.",
        ".SH COMMANDS",
        *pages,
    ]
    return "\n".join(parts) + "\n"


def write_shell_files() -> int:
    """Bring what the wheel installs up to date."""
    SHELL.mkdir(exist_ok=True)
    for name, text in shell_files().items():
        (SHELL / name).write_text(text, encoding="utf-8")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("build").add_argument("folder", nargs="?", type=Path, default=SITE)
    verbs.add_parser("serve")
    verbs.add_parser("files")
    of_record = verbs.add_parser("record")
    of_record.add_argument("pages", nargs="*")
    of_record.add_argument("--measured", action="store_true")
    asked = parser.parse_args()
    if asked.verb == "record":
        return record(asked.pages, asked.measured)
    if asked.verb == "files":
        return write_shell_files()
    return build(asked.folder.resolve() if asked.verb == "build" else SITE, asked.verb)


if __name__ == "__main__":
    sys.exit(main())
