"""Files that are right in form and untrue: other units, another GPU, another engine; none of them has a verdict."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tests.fakes import trace_factory, trtexec_files
from tests.fakes.hostile.running import Case, Outcome
from tests.fakes.stats_factory import write_stats
from tests.fakes.support import ROOT
from trtprof.capture.nsys.trace import read_trace

WARM = [("analyze", str(ROOT / "tests" / "engine" / "data" / "rtx_gemv.log"), "--gpu", "l4", "--format", "json")]
_MUCH_SLOWER = ("gtx-1650", "jetson-orin-nano-8gb", "jetson-xavier-nx-8gb", "a2", "a16", "rtx-a2000", "rtx-3050")
"""GPUs of which none could have been as fast as an A100 was."""

Document = Any


class Engine(NamedTuple):
    """What is known of one engine: documents of trtexec by what they are, and the GPU that ran it."""

    gpu: str
    files: dict[str, Document]


def engines(random: Random, data: Path | None) -> list[Engine]:
    """A made-up one, and those of others."""
    layers = trtexec_files.layers_document()
    made = {
        "layers": layers,
        "profile": trtexec_files.profile_document(layers),
        "times": trtexec_files.times_document(layers, random),
        "summary": trtexec_files.summary_document(layers),
    }
    found = [Engine(trtexec_files.GPU, made)]
    for graph in sorted((data / "layer_info").glob("trex__*.graph.json")) if data is not None else ():
        suffixes = {
            "layers": "graph.json",
            "profile": "profile.json",
            "times": "timing.json",
            "summary": "profile.metadata.json",
        }
        paths = {kind: graph.with_name(graph.name.replace("graph.json", end)) for kind, end in suffixes.items()}
        files = {kind: json.loads(path.read_text(), strict=False) for kind, path in paths.items() if path.exists()}
        device = files["summary"]["device_information"]["Selected Device"]
        found.append(Engine("titan-rtx" if "TITAN" in device else trtexec_files.GPU, files))
    return found


# --- what makes them untrue -----------------------------------------------------------------


def _scale(rows: Iterable[dict[str, Any]], by: float, only: str = "Ms") -> None:
    for row in rows:
        row.update({key: value * by for key, value in row.items() if key.endswith(only)})


def _profile_units(random: Random, engine: Engine) -> Engine:
    _scale(engine.files["profile"][1:], random.choice((1e3, 1e6, 1e-3, 1e-6)))
    return engine


def _times_units(random: Random, engine: Engine) -> Engine:
    by = random.choice((1e3, 1e-3))
    _scale(engine.files.get("times", ()), by)
    for values in engine.files["summary"]["performance_summary"].values():
        if isinstance(values, list):
            values[:] = [value * by for value in values]
    return engine


def _slower_gpu(random: Random, engine: Engine) -> Engine:
    if engine.gpu != trtexec_files.GPU:  # of a single picture, which keeps no GPU busy
        return _profile_units(random, engine)
    return engine._replace(gpu=random.choice(_MUCH_SLOWER))


def _with_profiler(_: Random, engine: Engine) -> Engine:
    engine.files["summary"]["inference_options"]["Separate profiling"] = "Disabled"
    engine.files.pop("times", None)
    return engine


def _row(random: Random, engine: Engine) -> dict[str, Any]:
    rows = [row for row in engine.files["profile"][1:] if row["medianMs"] > 0.01]
    return random.choice(rows)


def _zero_average(random: Random, engine: Engine) -> Engine:
    _row(random, engine)["averageMs"] = 0
    return engine


def _other_total(random: Random, engine: Engine) -> Engine:
    _row(random, engine)["timeMs"] *= random.choice((0.1, 3, 1000))
    return engine


def _other_count(random: Random, engine: Engine) -> Engine:
    engine.files["profile"][0]["count"] *= random.choice((2, 7, 1000))
    return engine


def _percentages(random: Random, engine: Engine) -> Engine:
    by = random.choice((10, 50, 1000))
    for row in engine.files["profile"][1:]:
        row["percentage"] *= by
    return engine


def _one_percentage(random: Random, engine: Engine) -> Engine:
    _row(random, engine)["percentage"] = random.choice((60.0, 99.0, 5000.0))
    return engine


def _latency_of_its_own(random: Random, engine: Engine) -> Engine:
    by = random.choice((3, 1000))
    _scale(engine.files.get("times", ()), by, "latencyMs")
    latency = engine.files["summary"]["performance_summary"]["Latency"]
    latency[:] = [value * by for value in latency]
    return engine


def _another_engine(random: Random, engine: Engine) -> Engine:
    """Times of one that takes five times as long and more, as the host did not; what takes less may be slow itself."""
    by = random.uniform(5, 50)
    _scale(engine.files.get("times", ()), by, "omputeMs")
    _scale(engine.files.get("times", ()), by, "latencyMs")
    summary = engine.files["summary"]["performance_summary"]
    for key in ("Latency", "GPU Compute Time"):
        summary[key] = [value * by for value in summary[key]]
    return engine


def _falling(_: Random, engine: Engine) -> Engine:
    engine.files["summary"]["performance_summary"]["Latency"].reverse()
    engine.files.pop("times", None)
    return engine


def _other_batch(random: Random, engine: Engine) -> Engine:
    """A plan of a larger batch than ran."""
    by = random.choice((64, 256))
    for layer in engine.files["layers"]["Layers"]:
        for tensor in (*layer["Inputs"], *layer["Outputs"]):
            tensor["Dimensions"] = [tensor["Dimensions"][0] * by, *tensor["Dimensions"][1:]]
    return engine


UNTRUE: dict[str, Callable[[Random, Engine], Engine]] = {
    "the profile in other units": _profile_units,
    "times in other units": _times_units,
    "a GPU that is much slower": _slower_gpu,
    "times with the profiler on": _with_profiler,
    "an average of zero": _zero_average,
    "a total that is not": _other_total,
    "another number of inferences": _other_count,
    "percentages of thousands": _percentages,
    "a percentage that is not": _one_percentage,
    "a latency that is not the sum of its parts": _latency_of_its_own,
    "times of another engine": _another_engine,
    "a median above the 99th percentile": _falling,
    "the plan of a larger batch": _other_batch,
}
_ABOUT_TIMES = frozenset(
    {"times in other units", "times with the profiler on", "a latency that is not the sum of its parts",
     "times of another engine", "a median above the 99th percentile"}
)  # fmt: skip


def _of_nsys(random: Random, folder: Path) -> Case:
    """The made-up engine as nsys saw it on an RTX 4090, as a capture or as sums of its kernels."""
    what = random.choice(("", "in other units", "of another GPU", "sums that disagree"))
    ns = 60_000 * (random.choice((1000, 20_000)) if what == "in other units" else 1)
    document = trtexec_files.layers_document()
    layers = tuple(
        trace_factory.Layer(layer["Name"], (trace_factory.Work(layer["TacticName"], ns=ns + at),))
        for at, layer in enumerate(document["Layers"])
    )
    path = folder / "run.sqlite"
    trace_factory.write_trace(path, [trace_factory.Process(111, layers)])
    if what == "sums that disagree" or (what != "of another GPU" and random.random() < 0.5):
        capture, path = path, write_stats(read_trace(path), "nvtx_kern_sum", folder / "sums.csv")
        capture.unlink()
        if what == "sums that disagree":
            header, first, rest = path.read_text().split("\n", 2)
            total = str(3 * (ns))
            path.write_text("\n".join((header, first.replace(f",{total},", f",{total}000,", 1), rest)))
    (folder / "layers.json").write_text(json.dumps(document))
    gpu = random.choice(("l4", "h100-sxm", "rtx-4080")) if what == "of another GPU" else "rtx-4090"
    return Case(
        label=f"nsys, {what or 'all true'}: {path.name}",
        words=("analyze", path.name, "layers.json", "--gpu", gpu, "--format", "json"),
        check=_has_no_verdict if what else _is_not_doubted,
    )


def case(random: Random, folder: Path, data: Path | None) -> Case:
    """One engine of which something is not true; one time in five nothing, and then there is a verdict."""
    if random.random() < 0.2:
        return _of_nsys(random, folder)
    engine = copy.deepcopy(random.choice(engines(random, data)))
    what = random.choice(list(UNTRUE)) if random.random() < 0.8 else ""
    if what:
        engine = UNTRUE[what](random, engine)
    beside = [kind for kind in ("times", "summary") if kind in engine.files]
    wanted = what in _ABOUT_TIMES or random.random() < 0.5
    kinds = ["layers", "profile", *(random.sample(beside, 1) if wanted else ())]
    for kind in kinds:
        (folder / f"{kind}.json").write_text(json.dumps(engine.files[kind]))
    return Case(
        label=f"{what or 'all true'}: {', '.join(kinds)}",
        words=("analyze", *(f"{kind}.json" for kind in kinds), "--gpu", engine.gpu, "--format", "json"),
        check=_has_no_verdict if what else _is_not_doubted,
    )


def _has_no_verdict(outcome: Outcome) -> Iterable[str]:
    if outcome.code == 0 and not json.loads(outcome.out)["verdict"].startswith("no verdict"):
        yield "it has a verdict"
    if outcome.code == 0 and json.loads(outcome.out)["findings"][:1] == []:
        yield "nothing is doubted"


def _is_not_doubted(outcome: Outcome) -> Iterable[str]:
    if outcome.code:
        yield "it is refused"
        return
    document = json.loads(outcome.out)
    if document["verdict"].startswith("no verdict"):
        yield "it has no verdict"
    if any(finding["code"] == "TR900" for finding in document["findings"]):
        yield "it is doubted"
