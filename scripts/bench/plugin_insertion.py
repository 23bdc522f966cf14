"""Plugins put into many models: what could be one, and whether the models with them make the same.

    python scripts/bench/plugin_insertion.py MODEL_OR_FOLDER ... [--most 8] [--rtx] [--seconds 120]

Each model is covered from its first node on: a node with what can be fused into it is a pattern, and serves every place
where the same stands. Nodes whose sizes do not follow from names of dimensions are looked at once more at the shapes
that the model is bound to, one for each dimension that is open: such a kernel is for these shapes alone. Then the
patterns with most places, ``--most`` of them, are put in one after the other, and the result is run beside the original
by ONNX Runtime with two draws of inputs, zeros and extremes. With ``--rtx`` TensorRT-RTX builds it, too. Printed is a
Markdown table, and below what no kernel could be written for, by reason.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from trtprof.base.errors import TrtprofError, UsageError
from trtprof.base.records import CheckStep
from trtprof.flows.plugin.inserted import builds, model_of, same_outputs
from trtprof.plugin.insert import insert
from trtprof.plugin.kernel import write
from trtprof.plugin.model import Model, opened
from trtprof.plugin.select import Place, alike, choices
from trtprof.plugin.task import Task
from trtprof.source.load import load_model, source_of


class Pattern(NamedTuple):
    """A task of a model, where it stands, and the template that knows it."""

    task: Task
    places: tuple[Place, ...]
    template: str


class Row(NamedTuple):
    """What came of a model."""

    name: str
    nodes: int
    covered: int
    patterns: Sequence[Pattern]
    fixed: int
    inserted: int
    places: int
    steps: Sequence[CheckStep]
    seconds: float
    note: str = ""


def patterns_of(model: Model, covered: set[str], refused: Counter[str], until: float) -> list[Pattern]:
    """Patterns that have no node in common; their nodes are added to those that are covered."""
    found = []
    refused.clear()
    for name in list(model.nodes):
        if name in covered or time.monotonic() > until:
            continue
        try:
            options = choices(model, name)
        except UsageError as error:
            node = model.node(model.nodes[name])
            if node.op_type != "Constant":
                refused[_reason(error.why)] += 1
            continue
        task = next((one.task for one in options if not covered.intersection(one.task.nodes)), None)
        if task is None:
            continue
        places = tuple(place for place in alike(model, task).places if not covered.intersection(place.nodes))
        covered.update(node for place in places for node in place.nodes)
        kernels = write(task).kernels
        found.append(Pattern(task, places, kernels[0].template if kernels else ""))
    return found


def _reason(why: str) -> str:
    """A reason without the names in it."""
    return re.sub(r"'[^']*'|\S+ \((?=\w+\))|(?<=shape of )\S+|^\S+(?= is a )|(?<=dimension )\S+", "...", why)


def tried(path: Path, most: int, seconds: float, *, rtx: bool) -> tuple[Row, Counter[str]]:
    """A model with its most frequent patterns put in."""
    begun = time.monotonic()
    refused: Counter[str] = Counter()
    loaded = load_model(path)
    source = source_of(loaded)
    first = loaded.graphs[""].node[0].name
    model = model_of(loaded, [first])
    covered: set[str] = set()
    patterns = patterns_of(model, covered, refused, begun + seconds)
    fixed = patterns_of(model_of(loaded, [first], source), covered, refused, begun + seconds)
    patterns += fixed
    chosen = sorted(patterns, key=lambda one: -len(one.places))[:most]
    count = 0
    with tempfile.TemporaryDirectory(prefix="trtprof-") as scratch:
        for number, pattern in enumerate(chosen):
            made = Path(scratch) / f"{number}.onnx"
            count += len(insert(model, pattern.task, pattern.places, made).places)
            model = opened(made)
        checks = [same_outputs, *([builds] if rtx else [])] if chosen else []
        steps = [check(loaded, source, model.path) for check in checks]
    row = Row(
        path.stem,
        len(loaded.original_names),
        len(covered),
        patterns,
        len(fixed),
        len(chosen),
        count,
        steps,
        time.monotonic() - begun,
    )
    return row, refused


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--most", type=int, default=8, help="patterns that are put into a model")
    parser.add_argument("--seconds", type=float, default=120, help="that a model is looked at for patterns")
    parser.add_argument("--rtx", action="store_true", help="have TensorRT-RTX build it")
    options = parser.parse_args()
    files = [file for path in options.paths for file in (sorted(path.rglob("*.onnx")) if path.is_dir() else [path])]
    refused: Counter[str] = Counter()
    rows, wrong = [], 0
    columns = "model, nodes, in patterns, patterns, for one shape, known to a template, put in, places, outputs, RTX, s"
    print("| " + columns.replace(", ", " | ") + " |\n" + "| --- " * 11 + "|")
    for file in files:
        try:
            row, why = tried(file, options.most, options.seconds, rtx=options.rtx)
        except TrtprofError as error:
            print(f"| {file.stem} |{' - |' * 7} {error.what}; {error.why}"[:200].replace("\n", " ") + " | - | - |")
            wrong += 1
            continue
        rows.append(row)
        refused.update(why)
        wrong += sum(step.verdict == "failed" for step in row.steps)
        known = sum(bool(pattern.template) for pattern in row.patterns)
        ran, built = (*map(_told, row.steps), "-", "-")[:2]
        numbers = (row.nodes, row.covered, len(row.patterns), row.fixed, known, row.inserted, row.places)
        print(f"| {row.name} | {' | '.join(map(str, numbers))} | {ran} | {built} | {row.seconds:.1f} |", flush=True)
    done = [row for row in rows if row.steps]
    patterns, put_in = sum(len(row.patterns) for row in rows), sum(row.inserted for row in rows)
    equal = sum(row.steps[0].verdict == "passed" for row in done)
    print(
        f"\n{len(rows)} models, {sum(row.nodes for row in rows)} nodes, {sum(row.covered for row in rows)} of them in"
    )
    print(f"{patterns} patterns; {put_in} patterns put in at {sum(row.places for row in rows)} places; outputs equal:")
    print(f"{equal} of {len(done)} models\n")
    for reason, number in refused.most_common():
        print(f"- {number} x {reason}")
    return 1 if wrong else 0


def _told(step: CheckStep) -> str:
    if step.verdict == "passed":
        return f"equal ({step.cases})" if step.name == "onnxruntime" else "built"
    return f"{step.verdict}: {step.reason}"[:160].replace("|", "/")


if __name__ == "__main__":
    sys.exit(main())
