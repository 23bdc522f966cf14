"""Command lines of real options with hostile values: an answer, or one error that says which word it is about."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import typer.main

from tests.fakes.every_verb import EVERY_VERB, fill
from tests.fakes.hostile.running import Case
from tests.fakes.support import SAMPLES
from trtprof.cli import app, load_commands

GEMV = SAMPLES / "gemv.onnx"
WARM = (("gpus", "l4"), ("inspect", GEMV), ("predict", GEMV, "--gpu", "l4"), ("kernel", "x", "--format", "json"))

_LONG = ("calibrate", "try", "fleet run", "export", "doctor")
"""What measures for long whatever it is told, or starts much."""
_SHORT = {"run": ("--duration", "0", "--iterations", "1", "--profile-iterations", "1", "--warmup", "0")}
_STANDING = ("--serve", "--open", "--watch", "--install-completion", "--show-completion", "--ray", "--host", "--port")
_FILES = (
    "gemv.onnx",
    "run",
    "again",
    "plan.log",
    "fleet.toml",
    "resnet_tiny.onnx",
    "nowhere",
    ".",
    "/dev/null",
    "pipe",
)
_VALUES = (
    *(
        "",
        " ",
        "-",
        "--",
        "0",
        "-1",
        "1",
        "1e999",
        "-1e999",
        "nan",
        "inf",
        "1e-320",
        "9" * 30,
        "9" * 5000,
        "0x10",
        "١٢",
    ),
    *(
        "1_000",
        "1,2",
        ",",
        ":",
        "=",
        "x:",
        ":1",
        "x:1x",
        "x:1x-3",
        "x:" + "1x" * 400 + "1",
        "x:99999999999x9999999999999",
    ),
    *(
        "a=b=c",
        "../../etc/passwd",
        "\x1b[31mred",
        "\u202eabc",
        "a\nb",
        "\t",
        "\r",
        "🦆" * 40,
        "%s%n",
        "{0}",
        "$(id)",
        "*",
    ),
    *("model", "fp16", "l4", "rtx-4090,l4", "gpu:0", "auto", "json", "text", "html", "parquet", "all", "true", "None"),
    *("-o", "--force", "--help", "a" * 5000, "a/" * 500, "é" * 200, "x.json", "x.onnx", "x.engine", "x.html", "x.svg"),
    *(
        "latency>3%",
        "latency>",
        "lost>1e400%",
        "1s",
        "1h",
        "-1s",
        "0s",
        "1e9h",
        "128MiB",
        "-5GiB",
        "1e30TB/s",
        "dram=0",
    ),
    *(
        "dram=1e400TB/s",
        "fp32=-1TFLOP/s",
        "Conv>",
        "RL101",
        "RL",
        "1..9:x0",
        "1..9:0",
        "9..1",
        "1..99999999",
        "1..4:-1",
    ),
)


@cache
def _commands() -> dict[str, Any]:
    load_commands()
    found: dict[str, Any] = {}

    def walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:
        inner = getattr(command, "commands", None)
        if inner is None:
            yield name, command
        for each, one in (inner or {}).items():
            yield from walk(one, f"{name} {each}".strip())

    found.update((name, one) for name, one in walk(typer.main.get_command(app), "") if name not in _LONG)
    return found


def case(random: Random, folder: Path, data: Path | None) -> Case:
    """A command line as a person types it, with one to six words of it broken or added."""
    name = random.choice(sorted(_commands()))
    fill(folder)
    (folder / "answered").mkdir()
    os.mkfifo(folder / "pipe")
    shutil.copy(folder / "gemv.onnx", folder / "odd \x1b[31m name.onnx")
    usual = [list(words) for words in EVERY_VERB.values() if " ".join(words).startswith(f"{name} ")]
    words = random.choice(usual) if usual and random.random() < 0.8 else name.split()
    begin = len(name.split())
    if usual and random.random() < 0.3:
        at = random.randrange(begin, len(words) + 1)
        words = [*words[:at], _value(random), *words[at + 1 :]]
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        words += _option(random, _commands()[name])
    return Case(" ".join(words), [*words, *_SHORT.get(name, ())], codes=frozenset({0, 1, 2, 3, 4, 5}), exact=True)


def _option(random: Random, command: Any) -> list[str]:
    options = [each for each in command.params if each.param_type_name == "option"]
    if not options or random.random() < 0.1:
        return [_value(random)]
    option = random.choice(options)
    word = random.choice([*option.opts, *option.secondary_opts])
    if word in _STANDING:
        return []
    if option.is_flag:
        return [word] if random.random() < 0.9 else [f"{word}={_value(random)}"]
    return [word, _value(random)] if random.random() < 0.5 else [f"{word}={_value(random)}"]


def _value(random: Random) -> str:
    value = random.choice(_FILES if random.random() < 0.3 else _VALUES)
    if random.random() < 0.15:
        value += random.choice(_VALUES)[:200]
    return value.replace("\0", "")
