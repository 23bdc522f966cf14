"""How well kernel names are read, on names labelled by hand, beside the rules of three other tools.

    python scripts/bench/kernel_names.py [--differences]

* Precision and recall of each field: of the values that the parser gives, how many are right; of the values that the
  labels give, how many it finds; and how many of those it leaves unknown. Goal: arch and unit 100 % and at most 5 %
  unknown.
* The question that the other tools ask of a name, whether it is a tensor-core kernel, on the kernels that multiply.
  Their rules are written down here in our own words, from their source:
  TREx 0.2.1 (``trex/lint.py`` of NVIDIA/TensorRT), convolutions that are not fp32;
  trt-perf-analysis (``.agents/skills/trt-perf-analysis/scripts/trt_perf/data.py`` of NVIDIA/TensorRT 11.1), GEMMs;
  nsys-ai (``src/nsys_ai/parquet_cache.py`` of GindaChen/nsys-ai, September 2026), every kernel.
* Names per second, each name once.

The labels are in ``tests/kernel_names``: ``labels.csv`` has names of captures, ``public_names.csv`` names of families
that those lack, some of them made up in the form of their family. Exit code 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from trtprof.kernel_names.parse import KernelName, parse

LABELS = Path(__file__).resolve().parents[2] / "tests" / "kernel_names"
FIELDS = ("family", "op", "arch", "unit", "in", "acc", "out")
GOALS = ("arch", "unit")
MOST_UNKNOWN = 0.05
SECONDS = 2.0


class Score(NamedTuple):
    """Counts of one field: values told by the label, given by the parser, right, and left unknown though told."""

    told: int
    given: int
    right: int
    unknown: int

    @property
    def precision(self) -> float:
        return self.right / self.given if self.given else 1.0

    @property
    def recall(self) -> float:
        return self.right / self.told if self.told else 1.0


def trex(name: str) -> bool:
    """A tactic with one of five marks is accelerated."""
    return any(mark in name for mark in ("imma", "hmma", "xmma", "i88", "884"))


def perf_skill(name: str) -> bool:
    """A tactic with one of five marks, in any case, looks tensor-core based."""
    return any(mark in name.lower() for mark in ("xmma", "tensor", "tc", "cublaslt", "mma"))


def nsys_ai(name: str) -> bool:
    """A kernel with one of nine marks, in any case, uses tensor cores."""
    marks = ("xmma", "mma_sync", "16816", "1688", "884", "ampere_bf16", "sm80_tensor_op", "tensorop", "flash", "nvjet")
    return any(mark in name.lower() for mark in marks)


def nsys_ai_looks(name: str) -> bool:
    """Only these kernels does nsys-ai ask about at all."""
    return nsys_ai(name) or bool(re.search("gemm|conv|linear|attention|matmul|flash|nvjet", name.lower()))


def ours(name: str) -> bool:
    """What `parse` says of the same question."""
    return parse(name).unit == "tensor"


RULES: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("trtprof", ours), ("TREx", trex), ("trt-perf-analysis", perf_skill), ("nsys-ai", nsys_ai),
)  # fmt: skip


def value(parsed: KernelName, field: str) -> str:
    """A field as the labels write it: empty or ``unknown`` where it is not known."""
    found = parsed.as_dict()[field]
    return "" if found is None else str(found)


def scores(rows: Iterable[dict[str, str]]) -> dict[str, Score]:
    """Of each field over labelled rows."""
    rows = list(rows)
    found = {}
    for field in FIELDS:
        pairs = [(row[field], value(parse(row["name"]), field)) for row in rows]
        told = [(label, ours) for label, ours in pairs if label not in ("", "unknown")]
        given = [(label, ours) for label, ours in pairs if ours not in ("", "unknown")]
        right = sum(label == ours for label, ours in given)
        found[field] = Score(len(told), len(given), right, sum(ours in ("", "unknown") for _, ours in told))
    return found


def read(name: str) -> list[dict[str, str]]:
    """One of the files of labels."""
    with (LABELS / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def show_scores(title: str, rows: list[dict[str, str]]) -> bool:
    print(f"{title}: {len(rows)} names")
    print(f"  {'field':8}{'told':>6}{'given':>7}{'right':>7}{'precision':>11}{'recall':>9}{'unknown':>9}")
    met = True
    for field, score in scores(rows).items():
        share = score.unknown / score.told if score.told else 0.0
        counts = f"{score.told:6}{score.given:7}{score.right:7}"
        print(f"  {field:8}{counts}{score.precision:11.1%}{score.recall:9.1%}{share:9.1%}")
        if field in GOALS:
            met &= score.precision == 1.0 and score.recall >= 1 - MOST_UNKNOWN and share <= MOST_UNKNOWN
    return met


def show_rules(title: str, rows: list[dict[str, str]]) -> None:
    tensor = [row["name"] for row in rows if row["unit"] == "tensor"]
    scalar = [row["name"] for row in rows if row["unit"] == "simt"]
    other = [row["name"] for row in rows if row["unit"] == "none"]
    print(f"{title}: is it a tensor-core kernel? {len(tensor)} are, {len(scalar)} multiply on the scalar pipes, "
          f"{len(other)} multiply nothing")  # fmt: skip
    print(f"  {'rule':20}{'tensor found':>14}{'scalar called tensor':>22}{'others called tensor':>22}{'precision':>11}")
    for label, rule in RULES:
        hits, wrong, noise = (sum(map(rule, names)) for names in (tensor, scalar, other))
        claimed = hits + wrong
        precision = f"{hits / claimed:.1%}" if claimed else "-"
        print(f"  {label:20}{f'{hits}/{len(tensor)}':>14}{f'{wrong}/{len(scalar)}':>22}{f'{noise}/{len(other)}':>22}"
              f"{precision:>11}")  # fmt: skip
    gemv = [row["name"] for row in rows if row["op"] == "gemv"]
    unseen = [name for name in gemv if not nsys_ai_looks(name)]
    print(f"  gemv kernels: {len(gemv)}; nsys-ai does not look at {len(unseen)} of them")


def speed(names: list[str]) -> float:
    """Names per second, none of them twice."""
    parse_once = parse.__wrapped__
    done, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < SECONDS:
        for name in names:
            parse_once(name)
        done += len(names)
    return done / spent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--differences", action="store_true", help="print every field that differs from its label")
    arguments = parser.parse_args()
    captured, public = read("labels.csv"), read("public_names.csv")
    met = show_scores("names of captures", captured)
    show_scores("names of other families", public)
    show_rules("names of captures", captured)
    show_rules("names of other families", public)
    if arguments.differences:
        for row in (*captured, *public):
            for field in FIELDS:
                if row[field] != (found := value(parse(row["name"]), field)):
                    print(f"  {field}: label {row[field]!r}, parser {found!r}: {row['name']}")
    names = list(dict.fromkeys(row["name"] for row in (*captured, *public)))
    print(f"speed: {speed(names):,.0f} names/s, {sum(map(len, names)) / len(names):.0f} characters a name")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
