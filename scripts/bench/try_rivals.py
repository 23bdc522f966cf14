"""What Olive, isat-tuner and `trtprof try` find for the same models in the same time, measured by one measure.

    python scripts/bench/try_rivals.py MODEL.onnx ... --olive PYTHON --isat PYTHON [--seconds 300] [--keep FOLDER]

PYTHON is an interpreter that has the tool: a virtual environment of its own, with olive-ai, onnxruntime, psutil,
onnxoptimizer and tabulate, or with isat-tuner and onnxruntime. Who is not named is left out. Each tool has the machine
to itself, on the CPU, in fp32, for so many seconds a model; it is killed then, and what it had found until then counts:

* Olive: ``olive auto-opt`` in fp32 for the CPU provider, then its pass OrtSessionParamsTuning on what that made, as a
  workflow of `olive run`: a search (TPE) over execution mode, level of graph optimisation and both numbers of threads,
  for as long as is left. auto-opt measures nothing, so that the gain that Olive tells is that of the session alone.
  Search and auto-opt are two commands, for in one workflow Olive 0.13 fails at the first pass that its cache holds.
* isat: ``isat tune`` with the warm-up and the runs of its profile "latency", and without the pause of 60 s between
  candidates that lets GPUs cool down: within minutes it would measure a handful. It takes no shapes, and gets a copy of
  the model whose inputs have those of the others.
* ours: ``trtprof try`` with a budget that leaves it the time to measure its best again and to write it.

What each calls its best, a model and the options of a session, then takes turns with the original as variants of
`trtprof try` do (`trtprof.capture.turns`, `trtprof.compare.turns`), in the ONNX Runtime of this interpreter, and its
outputs are held against the original's (`trtprof.capture.same_outputs`), with the tolerance of fp32 whatever a tool
did. A result that is wrong, or none, or of which ONNX Runtime makes the graph of the original, counts as 1: one keeps
that, or has it. A result that is slower counts as it is, for who trusts the tool has it. The geometric mean over the
models is the figure; intervals hold for all rows together.

Exit code 1 where what a tool wrote cannot be read: that is no result.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import onnx

from trtprof.base.errors import TrtprofError
from trtprof.base.records import InputTensor, Tried
from trtprof.base.units import NUMPY_DTYPES
from trtprof.capture.same_outputs import check_variant, keep_original
from trtprof.capture.turns import Variant
from trtprof.compare.turns import TurnsChange, judged
from trtprof.engine.onnxruntime import ENGINE_GRAPH, build_ort_cpu
from trtprof.flows.run import session_of
from trtprof.flows.try_.measure import measured
from trtprof.flows.try_.variants import graph_digest
from trtprof.runtime.ort_session import SessionRequest
from trtprof.runtime.session_tuning import SessionTuning
from trtprof.source.request import ModelRequest

ROOT = Path(__file__).resolve().parents[2]
PROVIDER = "CPUExecutionProvider"
MEASURE_S = 120.0
"""No further processes are begun to measure a result after so long."""
START_S = 15.0
"""What Olive takes to start, import PyTorch and measure the model as it is, before it searches."""
_LEVELS: Mapping[int, str] = {0: "disable", 1: "basic", 2: "extended", 99: "all"}
"""``onnxruntime.GraphOptimizationLevel``, by the names that `SessionTuning` has for them."""
_NO_MODEL = "No output model produced"


class UnreadableError(Exception):
    """A tool ended well, and what it should have written is not there or not as it was."""


class Problem(NamedTuple):
    """A model that the tools are given, and its inputs."""

    path: Path
    inputs: tuple[InputTensor, ...]


class Found(NamedTuple):
    """What a tool calls its best.

    Attributes:
        seconds: That it took.
        model: The file; None for the original.
        threads: Inside an op; 0 for those that ONNX Runtime takes.
        settings: As ``--sessionOption`` takes them.
        says: The gain that it tells; None where it tells none.
        note: What else is to be said, such as why there is nothing.
    """

    seconds: float
    model: Path | None = None
    threads: int = 0
    settings: tuple[str, ...] = ()
    says: float | None = None
    note: str = ""

    @property
    def unchanged(self) -> bool:
        """Whether it is the original as it is."""
        return self.model is None and not self.threads and not self.settings


class Row(NamedTuple):
    """A tool on a model.

    Attributes:
        wrong: Why the result is not the original's; empty where its outputs are the same.
        change: Measured; None where the result is the original, or the same to ONNX Runtime, or wrong.
        what: What it changed.
    """

    model: str
    tool: str
    found: Found
    wrong: str
    change: TurnsChange | None
    what: str

    @property
    def gain(self) -> float:
        """What it counts: 1 where one keeps the original."""
        return self.change.gain if self.change is not None and not self.wrong else 1.0


class Ended(NamedTuple):
    """A process that is no more: its exit code, None where it was killed at the limit, and what it printed."""

    code: int | None
    text: str

    @property
    def last(self) -> str:
        """Its last words."""
        lines = [line.strip() for line in self.text.splitlines() if line.strip(" =-|+")]
        return lines[-1][:200] if lines else "it said nothing"


Tool = Callable[[str, Problem, Path, float], Found]
"""Its interpreter, what it is given, a folder of its own, and seconds until it is killed."""


def limited(command: Sequence[str | Path], folder: Path, until: float, **environment: str) -> Ended:
    """Run a command in a folder until it ends, or until ``time.monotonic()`` is so late; its children go with it."""
    own = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    log = folder / f"{len(list(folder.glob('*.log')))}.log"
    with (
        log.open("wb") as out,
        subprocess.Popen(
            [str(part) for part in command], cwd=folder, stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.STDOUT, start_new_session=True, env={**own, "PYTHONUNBUFFERED": "1", **environment},
        ) as process,
    ):  # fmt: skip
        try:
            code: int | None = process.wait(max(until - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return Ended(code, log.read_text(errors="replace"))


# --- the tools -----------------------------------------------------------------------------------


def olive(python: str, problem: Problem, folder: Path, seconds: float) -> Found:
    """``olive auto-opt``, and the search of its OrtSessionParamsTuning on what that made.

    Raises:
        UnreadableError: See there.
    """
    began = time.monotonic()
    made = folder / "auto-opt"
    command: list[str | Path] = [python, "-m", "olive", "auto-opt", "-m", problem.path, "-o", made, "--device", "cpu"]
    ended = limited(
        [*command, "--provider", PROVIDER, "--precision", "fp32", "--log_level", "1"],
        folder, began + seconds, OLIVE_DISABLE_TELEMETRY="1",
    )  # fmt: skip
    if ended.code is None:
        return Found(time.monotonic() - began, note="killed in auto-opt")
    if ended.code != 0 or _NO_MODEL in ended.text:
        return Found(time.monotonic() - began, note=f"auto-opt failed: {ended.last}")
    (model, _options) = _olive_model(made / "model_config.json")
    left = began + seconds - time.monotonic()
    workflow = folder / "tuning.json"
    workflow.write_text(json.dumps(olive_workflow(model, problem.inputs, folder, max(left - START_S, 1.0))))
    ended = limited(
        [python, "-m", "olive", "run", "--config", workflow], folder, began + seconds, OLIVE_DISABLE_TELEMETRY="1"
    )
    took = time.monotonic() - began
    searched = olive_searched(folder)
    if searched is None:
        if ended.code == 0 and _NO_MODEL not in ended.text:
            raise UnreadableError(f"olive run measured nothing that is found in {folder}")
        why = "killed in" if ended.code is None else f"{ended.last}: no result of"
        return Found(took, model, note=f"{why} the search of session options")
    killed = "; killed in the search" if ended.code is None else ""
    says, tuned, options = searched
    if says <= 1.0:  # It measured the session as it is, too: who reads that keeps it.
        return Found(took, model, says=1.0, note=f"no session option helped{killed}")
    threads, settings = session_settings(options)
    return Found(took, tuned, threads, settings, says, f"of the session options alone{killed}")


def olive_workflow(model: Path, inputs: Sequence[InputTensor], folder: Path, seconds: float) -> dict[str, Any]:
    """A search for the session options that give the least latency, as `olive run` takes it."""
    cores = os.cpu_count() or 1
    threads = sorted({1, max(cores // 2, 1), cores})
    data = {
        "input_names": [one.name for one in inputs],
        "input_shapes": [list(one.shape or ()) for one in inputs],
        "input_types": [NUMPY_DTYPES.get(one.dtype, one.dtype) for one in inputs],
    }
    system = {"type": "LocalSystem", "accelerators": [{"device": "cpu", "execution_providers": [PROVIDER]}]}
    latency = {
        "name": "latency", "type": "latency", "data_config": "inputs", "sub_types": [{"name": "avg", "priority": 1}],
    }  # fmt: skip
    return {
        "input_model": {"type": "OnnxModel", "model_path": str(model)},
        "systems": {"local_system": system},
        "data_configs": [
            {"name": "inputs", "type": "DummyDataContainer", "load_dataset_config": {"type": "dummy_dataset", **data}}
        ],
        # Without its type Olive 0.13 takes it for a file.
        "evaluators": {"latency": {"type": "OnnxEvaluator", "metrics": [latency]}},
        "evaluator": "latency",
        "evaluate_input_model": True,
        "search_strategy": {
            "execution_order": "joint", "sampler": "tpe", "max_time": math.ceil(seconds), "sampler_config": {"seed": 0},
        },
        "passes": {
            "tuning": {
                "type": "OrtSessionParamsTuning", "data_config": "inputs", "execution_mode_list": [0, 1],
                "opt_level_list": [1, 2, 99], "intra_thread_num_list": threads, "inter_thread_num_list": threads,
            }
        },
        "host": "local_system",
        "target": "local_system",
        "output_dir": str(folder / "tuned"),
        "cache_dir": str(folder / "cache"),
        "log_severity_level": 1,
        "no_artifacts": False,
    }  # fmt: skip


def olive_searched(folder: Path) -> tuple[float, Path, dict[str, Any]] | None:
    """The best that a search had measured, be it ended or not: gain, model, session options; None for nothing.

    Raises:
        UnreadableError: A file is not as it was.
    """
    cache = folder / "cache" / "default_workflow"
    found = []
    for file in sorted(cache.glob("evaluations/*.json")):
        told = _json(file)
        name = str(_of(told, file, "model_id")).split("-")[0]
        record = cache / "runs" / name / "model.json"
        if record.is_file():
            found.append((float(_of(told, file, "signal", "latency-avg", "value")), record))
    before = folder / "tuned" / "input_model_metrics.json"
    if not found or not before.is_file():
        return None
    latency, record = min(found)
    model, options = _olive_model(record)
    return float(_of(_json(before), before, "latency-avg", "value")) / latency, model, options


def _olive_model(record: Path) -> tuple[Path, dict[str, Any]]:
    """A model of Olive's and the session options that it is to be run with."""
    told = _json(record)
    model = Path(str(_of(told, record, "config", "model_path")))
    if not model.is_file():
        raise UnreadableError(f"{record} names {model}, which is not there")
    settings = _of(told, record, "config", "inference_settings")
    return model, dict(_of(settings, record, "session_options")) if settings else {}


def session_settings(options: Mapping[str, Any]) -> tuple[int, tuple[str, ...]]:
    """Threads inside an op, and what ``--sessionOption`` takes, of session options as Olive has them.

    Raises:
        UnreadableError: There is one that is not known.
    """
    threads, found = 0, []
    parallel = int(options.get("execution_mode") or 0) == 1
    for key, value in options.items():
        if value is None:
            continue
        if key == "intra_op_num_threads":
            threads = int(value)
        elif key == "execution_mode":
            found += ["execution_mode=parallel"] if parallel else []
        elif key == "inter_op_num_threads":
            found += [f"{key}={int(value)}"] if parallel else []  # of no account else
        elif key == "graph_optimization_level" and value in _LEVELS:
            found += [f"{key}={_LEVELS[value]}"] if _LEVELS[value] != "all" else []
        elif key == "extra_session_config":
            found += [f"{entry}={text}" for entry, text in value.items()]
        else:
            raise UnreadableError(f"session option {key}={value} is not known")
    return threads, tuple(found)


_ISAT_CANDIDATE = re.compile(r"Config \d+/\d+: (\S+)")
_ISAT_RESULT = re.compile(r"Result: mean=([\d.]+) ms")
_ISAT_RUN = re.compile(r" run \d+/\d+: ([\d.]+) ms")
_ISAT_FAILED = re.compile(r"  FAILED: (.*)")
_ISAT_SPEEDUP = re.compile(r"Speedup\s*: ([\d.]+)x over baseline")
_ISAT_LEVEL = re.compile(r"_opt(\d+)$")


def isat(python: str, problem: Problem, folder: Path, seconds: float) -> Found:
    """``isat tune``.

    Raises:
        UnreadableError: See `isat_found`.
    """
    began = time.monotonic()
    model = pinned(problem, folder)
    command: list[str | Path] = [
        python,
        "-m",
        "isat",
        "tune",
        model,
        "--provider",
        PROVIDER,
        "--output-dir",
        folder / "isat",
    ]
    ended = limited(
        [*command, "--warmup", "5", "--runs", "30", "--cooldown", "0", "--db", folder / "isat.db"],
        folder, began + seconds,
    )  # fmt: skip
    return isat_found(ended, time.monotonic() - began)


def pinned(problem: Problem, folder: Path) -> Path:
    """The model with the shapes that its inputs are given: isat takes none, and makes each dimension that is open 1."""
    model = onnx.load(str(problem.path))
    shapes = {one.name: one.shape for one in problem.inputs if one.shape is not None and one.shape != one.declared}
    if not shapes:
        return problem.path
    for value in model.graph.input:
        tensor = value.type.tensor_type
        for dim, size in zip(tensor.shape.dim, shapes.get(value.name, ()), strict=False):
            dim.dim_value = size
    file = folder / problem.path.name
    onnx.save(model, str(file))
    return file


def isat_found(ended: Ended, seconds: float) -> Found:
    """The best of what `isat tune` had measured, by what it printed, be it ended or not.

    Its candidates are called by four parts. Those of memory, kernels and precision are variables of AMD's GPU stack,
    which the CPU provider does not read, and ``sim`` and ``pinned`` leave the model as it is (isat 0.12,
    ``benchmark/runner.py``): what is left is the level of graph optimisation at the end of the last part.

    Raises:
        UnreadableError: It ended well, but names no candidate, no time, or no gain.
    """
    means: dict[str, float] = {}
    runs: list[float] = []
    label = failed = ""
    for line in ended.text.splitlines():
        if match := _ISAT_CANDIDATE.search(line):
            label, runs = match[1], []
        elif match := _ISAT_RUN.search(line):
            runs.append(float(match[1]))
        elif _ISAT_RESULT.search(line) and label and runs:
            # It prints the mean with two digits of a millisecond; its runs too, but there are more of these.
            means[label] = sum(runs) / len(runs)
        elif match := _ISAT_FAILED.search(line):
            failed = match[1][:200]
    speedup = _ISAT_SPEEDUP.search(ended.text)
    if not means:
        if ended.code == 0 and not failed:
            raise UnreadableError(f"isat tune names no candidate with a time: {ended.last}")
        killed = "killed in its first candidate" if ended.code is None else f"failed: {ended.last}"
        return Found(seconds, note=f"no candidate ran: {failed}" if failed else killed)
    if ended.code == 0 and speedup is None:
        raise UnreadableError(f"isat tune tells no gain: {ended.last}")
    named = re.search(r"BEST CONFIG : (\S+)", ended.text)
    best = named[1] if named else min(means, key=lambda name: means[name])
    level = _ISAT_LEVEL.search(best)
    if level is None or int(level[1]) not in _LEVELS:
        raise UnreadableError(f"isat's best candidate {best} names no level of graph optimisation that is known")
    _threads, settings = session_settings({"graph_optimization_level": int(level[1])})
    killed = f"; killed after {len(means)} candidates" if ended.code is None else ""
    return Found(seconds, None, 0, settings, float(speedup[1]) if speedup else None, f"{best}{killed}")


def ours(python: str, problem: Problem, folder: Path, seconds: float) -> Found:
    """``trtprof try``.

    Raises:
        UnreadableError: See `our_best`.
    """
    began = time.monotonic()
    budget = seconds - min(60.0, seconds / 3)
    result = folder / "tried.json"
    command: list[str | Path] = [
        python,
        "-m",
        "profiler",
        "try",
        problem.path,
        "--backend",
        "ort-cpu",
        "--budget",
        f"{budget:g}s",
    ]
    ended = limited(
        [*command, "--runs", folder / "runs", "-o", result, "-o", folder / "best.onnx"],
        folder, began + seconds, PYTHONPATH=str(ROOT),
    )  # fmt: skip
    took = time.monotonic() - began
    if ended.code is None:
        return Found(took, note="killed before it was done")
    return our_best(result, took) if ended.code == 0 else Found(took, note=f"failed: {ended.last}")


def our_best(result: Path, seconds: float) -> Found:
    """The best of what `trtprof try` wrote.

    Raises:
        UnreadableError: There is no such document.
    """
    try:
        tried = msgspec.json.decode(result.read_bytes(), type=Tried)
    except (OSError, msgspec.MsgspecError) as error:
        raise UnreadableError(f"{result}: {error}") from None
    best = tried.best
    if best is None:
        return Found(seconds, says=1.0, note=tried.verdict)
    threads = int(best.options.get("--threads", 0))
    settings = tuple(f"{key}={value}" for key, value in best.options.items() if not key.startswith("--"))
    model = Path(best.model) if best.model else None
    return Found(seconds, model, threads, settings, best.gain.value, " + ".join(best.rungs))


TOOLS: Mapping[str, Tool] = {"ours": ours, "olive": olive, "isat": isat}


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise UnreadableError(f"{file}: {error}") from None


def _of(told: Any, file: Path, *keys: str) -> Any:
    for key in keys:
        if not isinstance(told, dict) or key not in told:
            raise UnreadableError(f"{file} has no {'.'.join(keys)}")
        told = told[key]
    return told


# --- what came of it -----------------------------------------------------------------------------


def graph_changes(before: Path, after: Path) -> str:
    """How many nodes of which op went and came: ``-1 MatMul, +1 Mul``."""
    counts = []
    for path in (before, after):
        graph = onnx.load(str(path), load_external_data=False).graph
        counts.append(Counter(node.op_type for node in graph.node))
    ops = sorted(op for op in counts[0] | counts[1] if counts[0][op] != counts[1][op])
    return ", ".join(f"{counts[1][op] - counts[0][op]:+d} {op}" for op in ops) or "as many nodes of each op"


def changed(problem: Problem, found: Found) -> str:
    """What a tool changed, in words."""
    parts = [graph_changes(problem.path, found.model)] if found.model is not None else []
    parts += [f"{found.threads} threads"] if found.threads else []
    return ", ".join([*parts, *found.settings]) or "nothing"


class Judge:
    """Holds what the tools found against the original.

    Args:
        session: The original, as ONNX Runtime runs it unless told.
        problem: The original.
        scratch: A folder for what comes and goes.
    """

    def __init__(self, session: SessionRequest, problem: Problem, scratch: Path) -> None:
        self._session, self._problem, self._scratch, self._asked = session, problem, scratch, 0
        self._before = Variant(name="the original", inputs=problem.inputs, session=session)
        kept = scratch / "original"
        kept.mkdir()
        self._original = keep_original(self._before, kept)

    def judge(self, tool: str, found: Found) -> tuple[str, TurnsChange | None]:
        """Why its outputs are wrong, empty where they are the same; and what became of the latency.

        The latter is None for what ONNX Runtime makes the same graph of, too: of that any gain would be chance.
        """
        if found.unchanged:
            return "", None
        self._asked += 1
        folder = self._scratch / f"check_{self._asked}"
        folder.mkdir()
        file = {} if found.model is None else {"model": str(found.model), "external_data": ""}
        session = msgspec.structs.replace(
            self._session, **file, threads=found.threads, tuning=SessionTuning.of(found.settings)
        )
        after = Variant(name=tool, inputs=self._problem.inputs, session=session)
        try:
            checks = check_variant(self._original, after, folder)
            for check in checks:
                if not check.matches:
                    why = check.worst.reason if check.worst is not None else check.note
                    return f"on {check.kind}: {why or 'outputs differ'}", None
            if self._same(session, folder):
                return "", None
            return "", measured(self._before, after, time.monotonic() + MEASURE_S)
        except TrtprofError as error:
            return f"{error.what}: {error.why}", None

    def _same(self, session: SessionRequest, folder: Path) -> bool:
        """Whether ONNX Runtime makes the same graph of it as of the original, and runs it in the same way."""
        given = self._session
        level = given.tuning.graph_optimization_level
        tuning = msgspec.structs.replace(session.tuning, graph_optimization_level=level)
        if (session.threads, tuning) != (given.threads, given.tuning):
            return False
        digests = set()
        for name, each in (("before", given), ("after", session)):
            graph = folder / name
            graph.mkdir()
            build_ort_cpu(each, graph, graph, "a variant")
            digests.add(graph_digest(graph / ENGINE_GRAPH))
        return len(digests) == 1


def table(rows: Sequence[Row]) -> str:
    """All rows and the means in Markdown."""
    done = [row for row in rows if row.change is not None]
    answers = judged([row.change for row in done if row.change is not None])
    intervals = {id(row): answer for row, answer in zip(done, answers, strict=True)}
    lines = [
        "| model | tool | seconds | gain, it says | gain, measured | outputs | what it changed | note |",
        "| --- | --- | ---: | ---: | --- | --- | --- | --- |",
    ]
    for row in rows:
        answer = intervals.get(id(row))
        gain = "-" if row.wrong else "1, the original" if row.found.unchanged else "1, the same graph"
        if answer is not None:
            gain = f"{answer.change.gain:.2f} ({answer.low:.2f} to {answer.high:.2f}), {answer.answer}"
        cells = (
            row.model, row.tool, f"{row.found.seconds:.0f}", "-" if row.found.says is None else f"{row.found.says:.2f}",
            gain, f"WRONG: {row.wrong}" if row.wrong else "equal", row.what, row.found.note,
        )  # fmt: skip
        lines.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    tools = list(dict.fromkeys(row.tool for row in rows))
    lines += ["", "| tool | models | gain, geometric mean | faster | slower | wrong | seconds a model |",
              "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]  # fmt: skip
    for tool in tools:
        mine = [row for row in rows if row.tool == tool]
        said = Counter(intervals[id(row)].answer for row in mine if id(row) in intervals)
        sums = (
            tool, str(len(mine)), f"{geometric_mean([row.gain for row in mine]):.3f}", str(said["faster"]),
            str(said["slower"]), str(sum(bool(row.wrong) for row in mine)),
            f"{sum(row.found.seconds for row in mine) / len(mine):.0f}",
        )  # fmt: skip
        lines.append("| " + " | ".join(sums) + " |")
    return "\n".join(lines)


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def versions(python: str, tool: str) -> str:
    """Which version of a tool an interpreter has, and of ONNX Runtime."""
    code = (
        "import importlib.metadata, sys, onnxruntime\n"
        "print(*[f'{name} {importlib.metadata.version(name)}' for name in sys.argv[1:]],\n"
        "      f'onnxruntime {onnxruntime.__version__}', sep=', ')"
    )
    packages = {"olive": ["olive-ai"], "isat": ["isat-tuner"]}.get(tool, [])
    done = subprocess.run([python, "-c", code, *packages], capture_output=True, text=True, check=False)
    return f"{tool}: {done.stdout.strip() or 'its version is not known'}"


def compete(path: Path, pythons: Mapping[str, str], seconds: float, folder: Path) -> tuple[list[Row], list[str]]:
    """All tools on one model: rows, and what could not be read.

    Raises:
        TrtprofError: The original does not run.
    """
    rows: list[Row] = []
    unreadable: list[str] = []
    request = ModelRequest.of(path)
    with request.opened() as loaded:
        problem = Problem(path.resolve(), request.bound(loaded, feed=True).model.inputs)
        session = session_of(loaded, folder)
        judge = Judge(session, problem, folder)
        for tool, python in pythons.items():
            own = folder / tool
            own.mkdir()
            try:
                found = TOOLS[tool](python, problem, own, seconds)
            except UnreadableError as error:
                unreadable.append(f"{tool}, {path.name}: {error}")
                print(f"{path.name}: {unreadable[-1]}", file=sys.stderr, flush=True)
                continue
            wrong, change = judge.judge(tool, found)
            rows.append(Row(path.stem, tool, found, wrong, change, changed(problem, found)))
            print(f"{rows[-1].model}: {tool}: {found.seconds:.0f} s, {rows[-1].gain:.3f}, {wrong or found.note}",
                  file=sys.stderr, flush=True)  # fmt: skip
    return rows, unreadable


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL.onnx")
    parser.add_argument("--olive", metavar="PYTHON", help="an interpreter that has olive-ai")
    parser.add_argument("--isat", metavar="PYTHON", help="an interpreter that has isat-tuner")
    parser.add_argument("--seconds", type=float, default=300.0, help="for each tool and model")
    parser.add_argument("--keep", type=Path, help="folder for what the tools write; a temporary one by default")
    options = parser.parse_args(arguments)
    pythons = {"ours": sys.executable, "olive": options.olive, "isat": options.isat}
    pythons = {tool: os.path.abspath(python) for tool, python in pythons.items() if python}
    rows: list[Row] = []
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="trtprof-") as name:
        for number, path in enumerate(options.models):
            folder = (options.keep or Path(name)).resolve() / f"{number}-{path.stem}"
            folder.mkdir(parents=True)
            try:
                found, unreadable = compete(path, pythons, options.seconds, folder)
            except TrtprofError as error:
                failures.append(f"{path.name}: {error}")
                continue
            rows += found
            failures += unreadable
    held = "; ".join(versions(python, tool) for tool, python in pythons.items())
    print(f"{options.seconds:g} s for each tool and model; {held}\n")
    if rows:
        print(table(rows))
    for failure in failures:
        print(f"\nno result: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
