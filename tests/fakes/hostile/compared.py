"""Run folders to compare, broken: samples, kernels, reports, what is beside them, and gates."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd

from tests.fakes.compare_factory import L, chain, make_run, save
from tests.fakes.hostile.mutate import TEXTS, mutated, mutated_bytes, written
from tests.fakes.hostile.running import Case, Outcome
from trtprof.base import run_folder

_EXAMPLES = Path(__file__).parents[3] / "reports"
_FORMATS = ("text", "json", "csv", "markdown", "html")
_DOCUMENTS = (*[run_folder.REPORT] * 4, run_folder.CAPTURE, run_folder.CEILINGS, run_folder.REQUEST, run_folder.SOURCE)
_GATES = (
    "latency>3%", "lost>5%", "gap-to-roof>2%", "latency>0.1ms", "lost>50us", "latency>-3%", "latency>nan%",
    "latency>1e400%", "latency>" + "9" * 5000 + "ms", "latency<3%", "x>3%", "latency>", ">3%", "", "latency>3",
    "lost>0%", "latency>٣%", "latency > 3 %", "latency>3%,lost>3%", "\x1b[31m>3%", "latency>1e-320%", "lost>0ns",
    "latency>inf ms",
)  # fmt: skip

WARM = tuple(("compare", _EXAMPLES / "example", _EXAMPLES / "example-1-thread", "--format", name) for name in _FORMATS)


def case(random: Random, folder: Path, data: Path | None) -> Case:
    """Two to four sides, of which something in one or more is wrong."""
    names = [f"run{number}" for number in range(random.choice((2, 2, 2, 3, 4)))]
    for name in names:
        _make(random, folder / name)
    done = []
    untold = False
    for name in names:
        for _ in range(random.choice((0, 1, 1, 2))):
            kind = random.randrange(5)
            if kind == 0:
                done.append(_samples(random, folder / name / run_folder.LATENCY))
                untold = untold or done[-1] in _UNTOLD
            elif kind == 1:
                done.append(_kernels(random, folder / name / run_folder.KERNELS))
            elif kind == 2:
                document = random.choice((run_folder.LATENCY, run_folder.KERNELS, *_DOCUMENTS))
                place = folder / name / document
                if place.is_file():
                    place.write_bytes(mutated_bytes(random, place.read_bytes()))
                done.append(f"bytes of {document}")
            else:
                done.append(_document(random, folder / name))
    style = random.choice(_FORMATS)
    words = [*([",".join(names[:2]), *names[2:]] if len(names) > 2 and random.random() < 0.3 else names)]
    for _ in range(random.choice((0, 0, 1, 2))):
        words += ["--gate", random.choice(_GATES)]

    def nothing_told(outcome: Outcome) -> Iterable[str]:
        if outcome.code or style != "json":
            return
        answers = {one["latency"]["answer"] for one in json.loads(outcome.out)["comparisons"]}
        if untold and len(names) == 2 and answers != {"not significant"}:
            yield f"{answers} by samples that are none"

    label = f"{'; '.join(done)}: {words}"
    codes = frozenset({0, 1, 2, 3}) if "--gate" in words else frozenset({0, 2, 3})
    return Case(label, ["compare", "--format", style, "--", *words] if "--gate" not in words else
                ["compare", "--format", style, *words], nothing_told, codes, exact=style == "csv")  # fmt: skip


def _make(random: Random, path: Path) -> None:
    if random.random() < 0.2:
        example = _EXAMPLES / random.choice(("example", "example-1-thread"))
        shutil.copytree(example, path, ignore=shutil.ignore_patterns("*.svg", "*.png", "*.html"))
        return
    ops = ["Conv", "Relu", "Add", "MatMul", "Softmax"][: random.choice((1, 3, 5))]
    layers = [L(f"l{at}", (f"n{at}",), random.choice((0, 1000, 50_000)) + at) for at in range(len(ops))]
    save(path, make_run(chain(*ops), layers, host_ns=random.choice((0, 5000))), kernels=random.random() < 0.8,
         probe_ns=random.choice(((), (1e6,), (1e6, 1.1e6, 1e6))))  # fmt: skip


def _document(random: Random, folder: Path) -> str:
    """One of its documents mutated, or of another version, or not there."""
    name = random.choice(_DOCUMENTS)
    place = folder / name
    if not place.is_file():
        return f"no {name}"
    if random.random() < 0.1:
        place.unlink()
        return f"{name} taken away"
    try:
        document: Any = json.loads(place.read_bytes())
    except (ValueError, RecursionError):
        return f"{name} is broken already"
    if not isinstance(document, dict):
        return f"{name} is broken already"
    if random.random() < 0.2:
        document["schema_version"] = random.choice((0, 1, 3, 5, 7, 9, 99, -1, 2**40, None, "8"))
        for key in random.sample(sorted(document), random.randrange(3)):
            del document[key]
        place.write_text(json.dumps(document))
        return f"version of {name}"
    if name == run_folder.REPORT and isinstance(document.get("layers"), list) and random.random() < 0.4:
        return _emptied(random, place, document)
    place.write_bytes(written(random, mutated(random, document)))
    return f"{name} mutated"


def _emptied(random: Random, place: Path, document: Any) -> str:
    """A report without nodes, layers, a ledger; with edges, names and times that no run has."""
    for key in random.sample(("nodes", "layers", "ledger", "findings", "graph", "kernels_unattributed"), 2):
        if isinstance(document.get(key), list):
            document[key] = random.choice(([], document[key][:1], document[key] * 2, document[key][::-1]))
    graph = document.get("graph")
    if isinstance(graph, dict) and random.random() < 0.5:
        edge = random.choice(("node_from", "node_to", "layer_from", "layer_to"))
        graph[edge] = random.choice(([], [-1], [10**6], [0, 0, 0], [2**62, -(2**62)]))
    for layer in document["layers"]:
        if isinstance(layer, dict) and random.random() < 0.3:
            layer["measured_ns"] = random.choice((0, -1, 2**62, 1, 10**15))
    if isinstance(document.get("latency"), dict) and random.random() < 0.6:
        document["latency"]["median_ns"] = random.choice((0, 1, 2**62))
    place.write_text(json.dumps(document))
    return f"emptied {place.name}"


_UNTOLD = ("none", "one", "nan", "inf", "negative", "text", "no column", "lists", "dates", "all zero", "missing")


def _samples(random: Random, place: Path) -> str:
    """Samples of a latency as nobody measures them; one of `_UNTOLD`, or samples that are possible."""
    kind = random.choice((*_UNTOLD, "huge", "uneven", "equal", "numbers as text", "bool", "mode"))
    some = np.random.default_rng(random.randrange(99)).normal(1e6, 1e4, random.choice((50, 400)))
    columns: dict[str, Any] = {"latency_ns": some}
    if kind in ("none", "one"):
        columns["latency_ns"] = some[: kind == "one"]
    elif kind in ("nan", "inf", "negative"):
        some[random.randrange(len(some))] = {"nan": np.nan, "inf": np.inf, "negative": -1e6}[kind]
    elif kind == "text":
        columns["latency_ns"] = [random.choice((*TEXTS[:6], "1 ms")) for _ in some]
    elif kind == "no column":
        columns = {random.choice(("x", "latency", "")): some}
    elif kind == "lists":
        columns["latency_ns"] = [[each] for each in some]
    elif kind == "dates":
        columns["latency_ns"] = pd.to_datetime(some.astype("int64"))
    elif kind == "all zero":
        some[:] = 0
    elif kind == "missing":
        columns["latency_ns"] = [None for _ in some]
    elif kind == "huge":
        some *= 1e300
    elif kind == "uneven":
        some[::7] *= 1e9
    elif kind == "equal":
        some[:] = 1e6
    elif kind == "numbers as text":
        columns["latency_ns"] = [str(each) for each in some]
    elif kind == "bool":
        columns["latency_ns"] = some > 1e6
    else:
        columns["mode"] = random.choice((["stream"] * len(some), [None] * len(some), list(range(len(some)))))
    pd.DataFrame(columns).to_parquet(place)
    return kind


def _kernels(random: Random, place: Path) -> str:
    """The table of launches with columns of other types, other names, or numbers that no launch has."""
    if not place.is_file():
        return "no kernels"
    try:
        table = pd.read_parquet(place)
    except (OSError, ValueError):
        return "kernels are broken already"
    name = random.choice(list(table.columns))
    how = random.randrange(6)
    if how == 0:
        table = table.drop(columns=name)
    elif how == 1:
        table[name] = random.choice(("x", None, -1, 2**62, float("nan"), True))
    elif how == 2:
        table[name] = table[name].astype(str)
    elif how == 3:
        table = table.iloc[: random.choice((0, 1, 2))]
    elif how == 4:
        table["self_ns"] = table["self_ns"] * random.choice((-1, 0, 10**6, float("inf"), float("nan")))
    else:
        table["iteration"] = random.choice((0, list(range(len(table))), None))
    table.to_parquet(place)
    return f"kernels: {name} {how}"
