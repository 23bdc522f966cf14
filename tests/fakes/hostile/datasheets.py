"""Datasheets of GPUs and tables of timed kernels, broken: refused by file and key, and no bound that no GPU has."""

from __future__ import annotations

import csv
import io
import json
import os
import tomllib
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

from tests.fakes.hostile.mutate import NUMBERS, TEXTS, broken_toml, mutated_bytes, toml_of
from tests.fakes.hostile.running import Case, Outcome
from trtprof.expected.measured import KINDS, NEEDED, OPTIONAL
from trtprof.hardware import gpus

_SPECS = Path(gpus.__file__).with_name("specs")
_SAMPLES = Path(__file__).parents[3] / "sample_models"
_MODELS = tuple(_SAMPLES / f"{name}.onnx" for name in ("gemv", "mobilenet_tiny", "transformer_block", "qdq_cnn"))
_FORMATS = ("text", "json", "csv", "markdown", "html")

WARM = tuple(
    words
    for name in _FORMATS
    for words in (("gpus", "l4", "--format", name), ("predict", _MODELS[0], "--gpu", "l4", "--format", name))
)


def case(random: Random, folder: Path, data: Path | None) -> Case:
    """A datasheet of those that ship, or rows that were timed, or both, of which something is wrong."""
    place = folder / "sheet.toml"
    name = random.choice(_FORMATS)
    document = tomllib.loads(random.choice(sorted(_SPECS.glob("*.toml"))).read_text(encoding="utf-8"))
    kind = random.randrange(11)
    check = None
    if kind == 0:
        os.mkfifo(place)
    elif kind == 1:
        place.symlink_to(random.choice(("/dev/zero", "/dev/null", "/proc/self/mem", "sheet.toml", "none", "/")))
    elif kind in (2, 3):
        key = random.choice([key for key in document["figures"] if key != "sms"])
        document["figures"][key]["value"] *= random.choice((1000.0, 0.001, -1.0, 0.0, 1e9, float("inf")))
        place.write_text(toml_of(document))
        check = _refused
    elif kind in (5, 6, 7):
        place.write_text(toml_of(_possible(random, document)), encoding="utf-8")
    elif kind == 4:
        place.write_text(toml_of(document | {"x": "y" * (5 << 20)}) if random.random() < 0.5 else "")
        check = _refused
    else:
        place.write_bytes(broken_toml(random, document))
    words: list[str | Path] = ["gpus", "./sheet.toml"]
    if random.random() < 0.7:
        words = ["predict", random.choice(_MODELS), "--gpu", random.choice(("./sheet.toml", "l4,./sheet.toml"))]
        words += random.choice(([], ["--level", "nodes"], ["--dtype", "fp16"], ["--no-tf32"], ["--clock", "1000"]))
    if check is None and random.random() < 0.3:
        (folder / "rows.csv").write_bytes(_rows(random))
        words = ["predict", random.choice(_MODELS), "--gpu", random.choice(("l4", "./sheet.toml")), "--measured"]
        words += ["rows.csv"]
    return Case(f"{kind} {words}", [*words, "--format", name], check or _sane, exact=name == "csv")


def _possible(random: Random, document: dict[str, Any]) -> dict[str, Any]:
    """Another GPU, or one of which less is known."""
    tables = [document["figures"], document["cuda_tflops"], *document.get("tensor_tflops", {}).values()]
    for table in tables:
        for cell in table.values():
            cell["value"] *= random.choice((1.0, 1.0, 0.5, 2.0, 0.3))
            cell["note"] = random.choice(("", "seen", random.choice(TEXTS[1:7])))
    for name in [name for name in document["cuda_tflops"] if name != "fp32" and random.random() < 0.3]:
        del document["cuda_tflops"][name]
    for name in [name for name in document.get("tensor_tflops", {}) if random.random() < 0.3]:
        del document["tensor_tflops"][name]
    document["compute_capability"] = random.choice((document["compute_capability"], "8.9", "15.0", "0.0", "99.9"))
    document["architecture"] = random.choice((document["architecture"], "Ada", "<b>Rubin</b>"))
    document["name"] = random.choice((document["name"], "<script>alert(1)</script>", "a|b`c`", "名前", "-1", "=1+1"))
    return document


def _refused(outcome: Outcome) -> Iterable[str]:
    if not outcome.code:
        yield "a datasheet that is wrong is used"


def _sane(outcome: Outcome) -> Iterable[str]:
    if not outcome.code and outcome.out.startswith(b"{"):
        for gpu in json.loads(outcome.out).get("gpus", ()):
            bound = gpu.get("bound_ns")
            if bound is not None and not 1 <= bound <= 10**9:
                yield f"a bound of {bound} ns"


def _rows(random: Random) -> bytes:
    """A table of timed kernels, most of them possible."""
    file = io.StringIO()
    table = csv.writer(file)
    if random.random() < 0.5:
        file.write("# gpu: NVIDIA L4\n# datasheet: l4\n# timed: 2026-01-01T00:00:00+00:00\n")
    head = [*NEEDED, *OPTIONAL]
    if random.random() < 0.2:
        head[random.randrange(len(head))] = random.choice(("", "ns", "x", "NS", "\x1b[31m"))
    table.writerow(head)
    for _ in range(random.choice((0, 1, 3, 20, 2000))):
        row: dict[str, Any] = {name: random.choice(("", 1, 64, 4096)) for name in head}
        row |= {
            "kind": random.choice(KINDS), "dtype": random.choice(("fp16", "fp32", "int8", "fp4e2m1", "bool")),
            "m": random.choice((1, 512, 10**6)), "ns": random.choice((1e3, 1e6, 1e9)),
            "causal": random.choice(("", 0, 1)),
            "read": "", "written": "",
        }  # fmt: skip
        if random.random() < 0.1:
            row[random.choice(head)] = random.choice((*NUMBERS, *TEXTS[:6]))
        table.writerow([row.get(name, "") for name in head])
    made = file.getvalue().encode("utf-8", "surrogatepass")
    return mutated_bytes(random, made) if random.random() < 0.2 else made
