"""After the report of a run on the CPU: the cheapest candidates of its findings, measured within a few seconds.

A rewrite is timed on the layer that it is for, cut out of the model, and then on the model; an option on the model.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from trtprof import __version__
from trtprof.base import run_folder
from trtprof.base.errors import TrtprofError
from trtprof.base.records import (
    SCHEMA_VERSION,
    Capture,
    Finding,
    InputTensor,
    Interval,
    LayerResult,
    Run,
    Rung,
    RungVerdict,
    Source,
    Tried,
)  # fmt: skip
from trtprof.base.run_folder import RunFolder
from trtprof.base.scratch import scratch_folder
from trtprof.base.units import format_ns
from trtprof.capture.turns import Pair, Variant, round_of
from trtprof.compare.samples import LEVEL
from trtprof.compare.turns import Judged, judged
from trtprof.diagnose.tried import times
from trtprof.flows.options import RunOptions
from trtprof.flows.progress import SILENT, Progress
from trtprof.flows.report import analysed, save_report
from trtprof.flows.try_.measure import change_of_rounds
from trtprof.flows.try_.on_cpu import OnCpu
from trtprof.flows.try_.options import OptionRung
from trtprof.flows.try_.variants import UnfitError, Workshop
from trtprof.rewrite import REWRITES, apply
from trtprof.rewrite.cut import cut_out
from trtprof.rewrite.model import opened, save
from trtprof.runtime.ort_session import SessionRequest
from trtprof.source.load import LoadedModel

MOST_S = 9.0  # Nothing begins that would end later after the report, which is then written once more
MOST_TRIED, MOST_OF_ONE = 3, 2  # Candidates in all, and of one finding
ROUNDS, PAIRS, TURN_MS = 2, 4, 60.0  # Least of a comparison of models; of a layer alone one round is enough
TURN_RUNS, MOST_TURN_MS = 10, 200.0  # The first inference of a turn finds caches and cores of the other side
START_S = 1.0  # A process, until one was timed
ALIKE = 0.2  # Share by which the original may differ from the run before that is said
_FIRST = ("HO503", "SK803")  # Their remedies are the surest: spinning on busy CPUs, kernels with a faster form
_VERDICTS: dict[str, RungVerdict] = {"faster": "helps", "slower": "slower", "not significant": "no difference"}
_DRAWN = {"fp32": (-1.0, 1.0), "fp16": (-1.0, 1.0), "fp64": (-1.0, 1.0), "int8": (-100, 100), "uint8": (0, 200)}
"""Range of the inputs of a layer alone, by type; values of other types may be indices, whose range is not known."""


def candidates_of(run: Run, options: Iterable[OptionRung], threads: int) -> Iterator[tuple[OptionRung, Finding]]:
    """The candidates that findings name, each once; of one finding options first, which need no other file.

    Rewrites are among them with neither settings nor threads.
    """
    usable = sorted((rung for rung in options if not rung.idle and not rung.why_not), key=lambda rung: rung.threads)
    usable += [OptionRung(one.name, one.title, answers=one.answers, exact=one.exact) for one in REWRITES.values()]
    seen: set[str] = set()
    for finding in sorted(run.findings, key=lambda finding: finding.code not in _FIRST):
        for rung in usable:
            # Of a slow layer or a layout no option but more threads helped any model so far.
            idle = finding.code[:2] in ("RL", "LY") and (rung.settings or 0 < rung.threads < threads)
            if finding.code in rung.answers and not idle and rung.name not in seen:
                seen.add(rung.name)
                yield rung, finding


class AfterRun:
    """Measures candidates of a finished run one by one, for ``--duration`` and until a monotonic time."""

    def __init__(self, options: RunOptions, folder: RunFolder, loaded: LoadedModel, scratch: Path, until: float):
        self._run, self._scratch, self._until = folder.report(), scratch, until
        self._target = OnCpu(options, folder, loaded, scratch)
        self._original, self._seed = self._target.original.session, options.seed
        self._shop = Workshop(self._original, scratch)
        self._source = folder.read(run_folder.SOURCE, Source)
        self._seen = folder.read(run_folder.CAPTURE, Capture).runtime_shapes
        self._start_s = START_S
        self._left_s = MOST_S if options.duration_s is None else options.duration_s
        self.threads = self._original.threads

    def rungs(self, progress: Progress) -> Iterator[Rung]:
        """What was measured of the first few candidates that fit the model."""
        tried: list[str] = []
        for rung, finding in candidates_of(self._run, self._target.rungs(), self.threads):
            if len(tried) == MOST_TRIED or time.monotonic() + 2 * self._start_s > self._until:
                return
            if tried.count(finding.code) == MOST_OF_ONE:
                continue
            progress.detail(rung.name)
            try:
                yield self._try(rung, [layer for layer in self._run.layers if layer.name in finding.layers])
            except UnfitError:
                continue
            except TrtprofError as error:
                progress.note(f"{rung.name}: {error.what}: {error.why}")
            tried.append(finding.code)

    def _try(self, rung: OptionRung, layers: list[LayerResult]) -> Rung:
        options = dict(text.split("=", 1) for text in rung.settings)
        session = self._target.setup(options, rung.threads).session
        if rung.threads:
            options["--threads"] = str(rung.threads)
        nodes, alone, whole, reason = set[str](), None, None, ""
        if not options:
            only = frozenset(node for layer in layers for node in layer.nodes)
            file, sites = self._shop.file((rung.name,), only or None)
            session = msgspec.structs.replace(session, model=str(file), external_data="")
            nodes = {name for site in sites for name in site.before}
            touched = [layer for layer in layers if not nodes.isdisjoint(layer.nodes)]
            if touched:
                layer = max(touched, key=lambda each: each.measured_ns)
                near = [site.before for site in sites if not set(site.before).isdisjoint(layer.nodes)]
                alone = self._alone(rung.name, layer, {*layer.nodes, *(name for names in near for name in names)})
                reason = f"{times(_gain(alone))} on {layer.op_type} {layer.name} alone" if alone else ""
        if alone is None or alone.answer == "faster":
            inputs, usual = self._source.model.inputs, self._run.latency.headline_ns
            whole = self._compare(self._original, session, inputs, usual, ROUNDS)
            verdict: RungVerdict = _VERDICTS[whole.answer] if whole else "not measured"
        else:
            verdict = _VERDICTS[alone.answer]
        levels = whole.change.levels if whole else None
        return Rung(
            name=rung.name, kind="option" if options else "rewrite", title=rung.title, verdict=verdict, reason=reason,
            answers=rung.answers, exact=rung.exact, nodes=tuple(sorted(nodes)), options=options,
            gain=_gain(whole) if whole else None,
            before_ns=round(levels[0]) if levels else None, after_ns=round(levels[1]) if levels else None,
            turns=2 * whole.change.pairs if whole else 0, processes=2 * ROUNDS if whole else 0,
        )  # fmt: skip

    def _alone(self, name: str, layer: LayerResult, nodes: set[str]) -> Judged | None:
        """Time the nodes of a layer before and after a rewrite, with the shapes that they ran with."""
        read = {tensor.name: tensor for node in self._source.nodes for tensor in node.op.inputs if tensor is not None}
        if nodes == set(layer.nodes) and len(nodes) == 1 and layer.name in self._seen:
            (own,) = (node.op for node in self._source.nodes if node.name in nodes)
            names = [tensor.name for tensor in own.inputs if tensor is not None]
            read |= dict(zip(names, self._seen[layer.name][0], strict=False))
        read = {name: tensor for name, tensor in read.items() if tensor.dtype in _DRAWN and tensor.elements is not None}
        shapes = {name: tuple(map(int, tensor.shape or ())) for name, tensor in read.items()}
        cut = cut_out(opened(self._original.model, self._original.external_data), nodes, shapes)
        chosen = REWRITES.get(name)
        if cut is None or chosen is None:
            return None
        before, after = self._scratch / f"{name}_alone.onnx", self._scratch / f"{name}_rewritten.onnx"
        inputs = []
        for value in cut.graph.inputs:
            name, dtype = str(value.name), read[str(value.name)].dtype
            plan = InputTensor(name=name, dtype=dtype, shape=shapes[name], low=_DRAWN[dtype][0], high=_DRAWN[dtype][1])
            inputs.append(plan if "fp" in dtype else msgspec.structs.replace(plan, kind="integers"))
        save(cut, before)
        changed = opened(before)
        if not apply(chosen, changed):
            return None
        save(changed, after)
        original = msgspec.structs.replace(self._original, model=str(before), external_data="")
        rewritten = msgspec.structs.replace(original, model=str(after))
        return self._compare(original, rewritten, tuple(inputs), layer.measured_ns, 1)

    def _compare(
        self,
        before: SessionRequest,
        after: SessionRequest,
        inputs: tuple[InputTensor, ...],
        usual_ns: float,
        count: int,
    ) -> Judged | None:
        """Interleave two sessions, each round in fresh processes; None without time for it."""
        turn_ms = max(min(TURN_RUNS * usual_ns / 1e6, MOST_TURN_MS), usual_ns / 1e6, TURN_MS)
        measuring_s = 2 * PAIRS * turn_ms / 1e3
        cost_s = 2 * self._start_s + 1.2 * measuring_s
        began = time.monotonic()
        if count * measuring_s > self._left_s or began + count * cost_s > self._until:
            return None
        one = Variant(name="the original", inputs=inputs, seed=self._seed, session=before)
        other = msgspec.structs.replace(one, name="the candidate", session=after)
        rounds: list[list[Pair]] = []
        while True:
            rounds.append(round_of(one, other, pairs=PAIRS, ms=turn_ms, first=len(rounds) % 2, warmup_ms=50))
            spent_s = (time.monotonic() - began) / len(rounds)
            self._start_s, self._left_s = max((spent_s - 1.2 * measuring_s) / 2, 0.1), self._left_s - measuring_s
            found = judged([change_of_rounds(rounds)], (1 - LEVEL) / MOST_TRIED)[0]
            late = time.monotonic() + spent_s > self._until or measuring_s > self._left_s
            if len(rounds) >= count and (found.answer != "not significant" or len(rounds) >= 2 * count or late):
                return found


def try_after(options: RunOptions, folder: RunFolder, progress: Progress = SILENT) -> Tried | None:
    """Measure what the findings of a run name, and keep it in its folder; None where nothing was measured."""
    began = time.monotonic()
    run = folder.report()
    if run.backend.name != "ort-cpu" or options.model.spec is not None:
        return None
    progress.stage("trial")
    with options.model.opened() as loaded, scratch_folder() as scratch:
        after = AfterRun(options, folder, loaded, scratch, began + MOST_S)
        rungs = tuple(after.rungs(progress))
        progress.detail(f"{len(rungs)} tried")
    if not any(rung.verdict != "not measured" or rung.reason for rung in rungs):
        return None
    tried = Tried(
        schema_version=SCHEMA_VERSION, model=run.model, backend=run.backend, device=run.device,
        created=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"), version=__version__, command=options.command,
        threads=after.threads, latency=run.latency, folder=str(folder.path),
        verdict="; ".join(told(rungs, run.latency.headline_ns)), rungs=rungs, best=None,
        candidates=sum(1 for rung in rungs if rung.gain), budget_s=MOST_S,
        spent_s=round(time.monotonic() - began, 1),
    )  # fmt: skip
    folder.write(run_folder.TRIED, tried)
    save_report(folder, analysed(folder))
    return tried


def told(rungs: Iterable[Rung], usual_ns: int = 0) -> list[str]:
    """What was measured: a line for each candidate that is faster, and one for the others; ``usual_ns``: of the run."""
    lines, others = [], []
    for rung in rungs:
        how = "".join(f" ({key}={value})" for key, value in rung.options.items())
        if rung.verdict == "helps" and rung.before_ns is not None and rung.after_ns is not None:
            alone = f"{rung.reason}, " if rung.reason else ""
            levels = f"{format_ns(rung.before_ns)} to {format_ns(rung.after_ns)}"
            if abs(usual_ns - rung.before_ns) > ALIKE * rung.before_ns:
                levels += f" (the run: {format_ns(usual_ns)})"
            lines.append(f"{rung.name}{how}: measured {alone}{times(rung.gain)} on the model, {levels}; {rung.title}")
        elif rung.verdict == "not measured" and rung.reason:
            lines.append(f"{rung.name}: measured {rung.reason}; there was no time for the model")
        elif rung.verdict != "not measured":
            measured = [f"{times(rung.gain)} on the model"] if rung.gain else []
            others.append(f"{rung.name}, {', '.join([*measured, *filter(None, (rung.reason,))])}")
    return [*lines, *([f"tried, does not clearly help: {'; '.join(others)}"] if others else [])]


def _gain(found: Judged) -> Interval:
    return Interval(value=found.change.gain, low=found.low, high=found.high, level=found.level)
