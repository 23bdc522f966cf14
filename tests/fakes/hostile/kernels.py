"""Names of kernels, broken: the grammar says what a name tells, whatever it is, in every format."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from random import Random

from tests.fakes.hostile.running import Case, Outcome

WARM = (("kernel", "ampere_sgemm_128x64_tn"), ("kernel", "x", "--format", "json"), ("kernel", "x", "--format", "html"))

_NAMES = Path(__file__).parents[2] / "kernel_names" / "public_names.csv"
_PIECES = (
    *(
        "<",
        ">",
        "(",
        ")",
        "::",
        "_",
        ",",
        "sm_",
        "sm50_",
        "tn",
        "stage",
        "x",
        "0",
        "9" * 400,
        "-",
        "\x1b[31m",
        "\u202e",
    ),
    *("é", "_ZN", "_Z", "I", "E", "St", "S_", "L_Z", "Li", "lambda", "operator", "anonymous namespace", " ", "\t"),
)
_FORMATS = ("text", "json", "csv", "markdown", "html")


def case(random: Random, folder: Path, data: Path | None) -> Case:
    """Some names of real kernels, cut, doubled, spliced and salted."""
    with _NAMES.open(encoding="utf-8", newline="") as file:
        known = [row["name"] for row in csv.DictReader(file)]
    names = [_broken(random, known) for _ in range(random.choice((1, 1, 3, 20)))]
    names = [name for name in names if name.strip() and name != "-"] or ["x"]
    name = random.choice(_FORMATS)

    def all_told(outcome: Outcome) -> Iterable[str]:
        if name == "json" and len(json.loads(outcome.out)["kernels"]) != len(names):
            yield "kernels are lacking"

    return Case(" | ".join(names), ["kernel", "--format", name, "--", *names], all_told, exact=name == "csv")


def _broken(random: Random, known: list[str]) -> str:
    name = random.choice(known)
    for _ in range(random.choice((1, 2, 5, 20))):
        at, to = sorted(random.randrange(len(name) + 1) for _ in range(2))
        kind = random.randrange(5)
        if kind == 0:
            name = name[:at] + name[to:]
        elif kind == 1:
            name = name[:to] + name[at:to] * random.choice((1, 2, 100)) + name[to:]
        elif kind == 2:
            name = name[:at] + random.choice(_PIECES) * random.choice((1, 1, 2, 300)) + name[at:]
        elif kind == 3:
            name = name[:at] + random.choice(known)[at:]
        else:
            name = name[:at] + chr(random.randrange(1, 0xD800)) + name[at:]
        name = name[:100_000]
    return name
