"""The README says what is true: its example, its rules, its commands, its map."""

from __future__ import annotations

import re

from profiler.cli import app, load_commands
from profiler.diagnose import RULES
from profiler.hardware.gpus import specs
from tests.fakes.support import ROOT, load_script

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_what_commands_print_is_what_the_code_prints() -> None:
    """After an intended change: python scripts/record_example.py --keep-run."""
    script = load_script(ROOT / "scripts" / "record_example.py", "record_example")
    assert script.updated(README) == README
    for name, expected in (
        ("example", "measured"), ("two runs", "ceilings changed"), ("sweep", "*batch"), ("predict", "memory >= 273 us"),
        ("compare", "fastest"), ("plan", "20 launches"), ("op sweep", "116 M"),
    ):  # fmt: skip
        assert name in script.PRINTED
        assert expected in README.split(f"<!-- {name} -->")[1].split("```")[1], name


def test_every_command_is_listed() -> None:
    load_commands()
    names = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
    names |= {str(group.typer_instance.info.name) for group in app.registered_groups if group.typer_instance}
    assert set(re.findall(r"^\| `trtprof (\w+)", README, re.MULTILINE)) == names


def test_every_path_it_names_exists() -> None:
    named = set(re.findall(r"\]\((?!https?:)([^)#]+)\)", README))
    named |= set(re.findall(r"^(profiler/[\w/.]+)", README, re.MULTILINE))
    assert len(named) > 8
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_it_counts_the_datasheets_that_there_are() -> None:
    (count,) = re.findall(r"datasheets of over (\d+) GPUs", README)
    assert int(count) < len(specs()) <= int(count) + 50


def test_every_rule_that_it_names_is_one() -> None:
    named = set(re.findall(r"\b[A-Z]{2}\d{3}\b", README))
    assert "KN701" in named
    assert named <= set(RULES.keys())


def test_quick_start_is_exactly_two_commands() -> None:
    section = README.split("## Quick start")[1].split("##")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    assert [block.split()[0] for block in blocks] == ["./scripts/trtprof", "./scripts/test"]
    assert all(len(block.strip().splitlines()) == 1 for block in blocks)
    assert (ROOT / blocks[0].split()[2]).is_file()
