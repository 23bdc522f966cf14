"""Entries of the registry: our own modules must import, those of other distributions may be broken."""

from __future__ import annotations

import importlib
import importlib.metadata
import itertools
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trtprof.base import plugins
from trtprof.base.registry import Registry

GROUP = "trtprof.tests"
PACKAGE = Path(plugins.__file__).parents[1]
_NUMBERS = itertools.count()

Announce = Callable[..., Registry[str, str]]


@pytest.fixture
def announce(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Announce]:
    """Makes a registry of a home package with some modules, and entry points to others of their own distribution."""
    monkeypatch.setattr(plugins, "LEFT_OUT", [])
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def make(own: dict[str, str], **others: str) -> Registry[str, str]:
        home = f"home{next(_NUMBERS)}"
        package = tmp_path / home
        package.mkdir()
        (package / "__init__.py").write_text(
            f"from trtprof.base.registry import Registry\nTHINGS = Registry('thing', {home!r}, {GROUP!r})\n"
        )
        head = f"from {home} import THINGS\n"
        for name, text in own.items():
            (package / f"{name}.py").write_text(head + text)
        found: list[importlib.metadata.EntryPoint] = []
        for name, text in others.items():
            folder = tmp_path / f"{home}_{name}-2.0.dist-info"
            folder.mkdir()
            (folder / "METADATA").write_text(f"Name: {name}-things\nVersion: 2.0\n")
            (folder / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {home}_{name}\n")
            (tmp_path / f"{home}_{name}.py").write_text(head + text)
            found += importlib.metadata.PathDistribution(folder).entry_points
        points = importlib.metadata.EntryPoints(found)
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda *, group: points.select(group=group))
        registry: Registry[str, str] = importlib.import_module(home).THINGS
        return registry

    yield make
    for name in set(sys.modules) - before:
        if name.startswith("home"):
            del sys.modules[name]


def adds(key: str) -> str:
    return f"THINGS.register({key!r})('the {key}')\n"


BROKEN = {
    "no such module": (
        "import no_such_module_at_all\n",
        "ModuleNotFoundError: No module named 'no_such_module_at_all'",
    ),
    "raises": ("raise OSError('no disk')\n", "OSError: no disk"),
    "takes what is taken": (adds("own"), "ValueError: thing 'own' is registered twice"),
}


@pytest.mark.parametrize(("text", "why"), BROKEN.values(), ids=list(BROKEN))
def test_a_broken_plugin_is_named_and_the_others_are_loaded(announce: Announce, text: str, why: str) -> None:
    things = announce({"one": adds("own")}, broken=adds("half") + text, sound=adds("other"))
    assert things.keys() == ["other", "own"]  # nothing of what broke half-way
    assert things.get("own") == "the own"
    (left_out,) = plugins.LEFT_OUT
    assert "'broken' of broken-things 2.0 (trtprof.tests: home" in left_out.what
    assert left_out.why.startswith(why)
    assert "uninstall" in left_out.fix


@pytest.mark.process
def test_doctor_finds_a_broken_plugin_of_every_group() -> None:
    """In a process of its own: elsewhere the registries are loaded already."""
    source = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    groups = sorted(set(re.findall(r'(?:= Registry\([^()]*|GROUP = )"(trtprof\.[a-z_]+)"', source)))
    assert len(groups) >= 7
    code = f"""
import importlib.metadata as metadata
def points(group):
    return [metadata.EntryPoint("mine", "no_such_" + group.partition(".")[2], group)] if group in {groups!r} else []
metadata.entry_points = points
from trtprof.cli import app, load_commands
load_commands()
app(["doctor"])
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=300)
    told = " ".join(done.stdout.split())
    assert [each for each in groups if f"the plug-in 'mine' of an unknown distribution ({each}: " not in told] == []
