"""The README fits on three screens, and says what is true; its commands are executed by `test_manual`."""

from __future__ import annotations

import re

from tests.fakes.support import ROOT
from trtprof.cli import app, load_commands
from trtprof.hardware.gpus import specs

README = (ROOT / "README.md").read_text(encoding="utf-8")
MOST_BYTES = 9_000


def test_it_is_short() -> None:
    assert len(README.encode()) <= MOST_BYTES
    (output,) = re.findall(r"^```console\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    assert len([line for line in output.splitlines()[1:] if line != "..."]) <= 15


def test_every_command_is_listed() -> None:
    load_commands()
    names = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
    names |= {str(group.typer_instance.info.name) for group in app.registered_groups if group.typer_instance}
    assert set(re.findall(r"^\| `trtprof (\w+)", README, re.MULTILINE)) == names


def test_it_counts_the_datasheets_that_there_are() -> None:
    (count,) = re.findall(r"datasheets of over (\d+) GPUs", README)
    assert int(count) < len(specs()) <= int(count) + 50


def test_quick_start_is_exactly_two_commands() -> None:
    section = README.split("## Quick start")[1].split("##")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    assert [block.split()[0] for block in blocks] == ["./scripts/trtprof", "./scripts/test"]
    assert all(len(block.strip().splitlines()) == 1 for block in blocks)
    assert (ROOT / blocks[0].split()[2]).is_file()
