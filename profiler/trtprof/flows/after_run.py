"""After the report of a run on the CPU: the first candidates of its findings, measured within a few seconds.

A rewrite is timed on the layer that it is for, cut out of the model, and then on the model; an option on the model.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from trtprof.base import run_folder
from trtprof.base.records import Capture, Finding, InputTensor, Interval, LayerResult, Run, Rung, Source, Tried
from trtprof.base.run_folder import RunFolder
from trtprof.base.scratch import scratch_folder
from trtprof.base.units import format_ns
from trtprof.capture.turns import Variant as Side
from trtprof.compare.samples import LEVEL
from trtprof.compare.turns import TurnsChange
from trtprof.diagnose.tried import times
from trtprof.flows.options import RunOptions
from trtprof.flows.progress import SILENT, Progress
from trtprof.flows.report import analysed, save_report
from trtprof.flows.try_ import document_of
from trtprof.flows.try_.measure import FEWEST, PAIRS, measured, turn_ms
from trtprof.flows.try_.on_cpu import OnCpu
from trtprof.flows.try_.options import Candidate, TryOptions, rewrite_candidates
from trtprof.flows.try_.price import NOT_TOLD, Price
from trtprof.flows.try_.search import Search
from trtprof.flows.try_.target import Built, Setup
from trtprof.flows.try_.variants import UnfitError, Variant, Workshop
from trtprof.rewrite.cut import cut_out
from trtprof.rewrite.model import opened, save
from trtprof.source.load import LoadedModel

MOST_S = 9.0  # Nothing begins that would end later after the report, which is then written once more
MOST_TRIED, MOST_OF_ONE = 3, 2  # Candidates in all, and of one finding
START_S, ALONE_S = 0.6, 2.5  # A process; turns of a layer alone
_FIRST = ("HO503", "SK803")  # Their remedies are the surest: spinning on busy CPUs, kernels with a faster form
_DRAWN = {"fp32": (-1.0, 1.0), "fp16": (-1.0, 1.0), "fp64": (-1.0, 1.0), "int8": (-100, 100), "uint8": (0, 200)}
"""Range of the inputs of a layer alone, by type; values of other types may be indices, whose range is not known."""


def candidates_of(run: Run, options: Iterable[Candidate], threads: int) -> Iterator[tuple[Candidate, Finding]]:
    """The candidates that findings name, each once; of one finding options first, which need no other file."""
    usable = sorted((one for one in options if not one.idle and not one.why_not), key=lambda one: one.threads)
    seen: set[str] = set()
    for finding in sorted(run.findings, key=lambda finding: finding.code not in _FIRST):
        for one in (*usable, *rewrite_candidates()):
            # Of a slow layer or a layout no option but more threads helped any model so far.
            idle = finding.code[:2] in ("RL", "LY") and (one.settings or 0 < one.threads < threads)
            if finding.code in one.answers and not idle and one.name not in seen:
                seen.add(one.name)
                yield one, finding


class AloneFirst(OnCpu):
    """Variants of a finished run; what a rewrite should bring is measured on a layer alone, and nothing is built."""

    def __init__(self, run: RunOptions, folder: RunFolder, loaded: LoadedModel, scratch: Path) -> None:
        super().__init__(run, folder, loaded, scratch)
        self._folder, self._scratch = folder, scratch

    def built(self, setup: Setup, folder: Path) -> Built:
        folder.rmdir()
        return Built(setup.session.model)

    def priced(self, variant: Variant, /) -> Price:
        """By the slowest of the layers that a rewrite changes."""
        near = {name for site in variant.sites for name in site.before}
        touched = [layer for layer in self._base.layers if not near.isdisjoint(layer.nodes)]
        layer = max(touched, key=lambda one: one.measured_ns, default=None)
        change = self._alone(variant, layer) if layer is not None else None
        if layer is None or change is None:
            return NOT_TOLD
        low, high = change.interval()
        gain = change.gain if low > 1 else min(change.gain, 1.0)
        before_ns = self._base.latency.headline_ns
        after_ns = max(before_ns - layer.measured_ns * (1 - 1 / gain), 1.0)
        alone = times(Interval(value=change.gain, low=low, high=high, level=LEVEL))
        return Price(before_ns / after_ns, f"{alone} on {layer.op_type} {layer.name} alone")

    def _alone(self, variant: Variant, layer: LayerResult) -> TurnsChange | None:
        """Time the nodes of a layer before and after a rewrite, with the shapes that they ran with."""
        sites = (site.before for site in variant.sites if not set(site.before).isdisjoint(layer.nodes))
        nodes = {*layer.nodes}.union(*sites)
        source, seen = self._folder.read(run_folder.SOURCE, Source), self._folder.read(run_folder.CAPTURE, Capture)
        read = {tensor.name: tensor for node in source.nodes for tensor in node.op.inputs if tensor is not None}
        if nodes == set(layer.nodes) and len(nodes) == 1 and layer.name in seen.runtime_shapes:
            (own,) = (node.op for node in source.nodes if node.name in nodes)
            names = [tensor.name for tensor in own.inputs if tensor is not None]
            read |= dict(zip(names, seen.runtime_shapes[layer.name][0], strict=False))
        read = {name: tensor for name, tensor in read.items() if tensor.dtype in _DRAWN and tensor.elements is not None}
        shapes = {name: tuple(map(int, tensor.shape or ())) for name, tensor in read.items()}
        session = self.original.session
        cut = cut_out(opened(session.model, session.external_data), nodes, shapes)
        if cut is None:
            return None
        inputs = []
        for value in cut.graph.inputs:
            name, dtype = str(value.name), read[str(value.name)].dtype
            plan = InputTensor(name=name, dtype=dtype, shape=shapes[name], low=_DRAWN[dtype][0], high=_DRAWN[dtype][1])
            inputs.append(plan if "fp" in dtype else msgspec.structs.replace(plan, kind="integers"))
        folder = self._scratch / f"alone_{'_'.join(variant.steps)}"
        folder.mkdir()
        save(cut, folder / "alone.onnx")
        session = msgspec.structs.replace(session, model=str(folder / "alone.onnx"), external_data="")
        try:
            rewritten, _ = Workshop(session, folder).file(variant.steps)
        except UnfitError:
            return None
        before = Side(name="the layer", inputs=tuple(inputs), session=session)
        after = msgspec.structs.replace(before, session=msgspec.structs.replace(session, model=str(rewritten)))
        return measured(before, after, 0.0, layer.measured_ns, fewest=1)


def try_after(options: RunOptions, folder: RunFolder, progress: Progress = SILENT) -> Tried | None:
    """Measure what the findings of a run name, and keep it in its folder; None where nothing was measured."""
    began, run = time.monotonic(), folder.report()
    if run.backend.name != "ort-cpu" or options.model.spec is not None:
        return None
    progress.stage("trial")
    source, usual_ns = folder.read(run_folder.SOURCE, Source), run.latency.headline_ns
    codes = tuple(finding.code for finding in run.findings if finding.layers)
    asked = TryOptions(run=options, budget_s=MOST_S, most=MOST_TRIED, only=codes, quick=True)
    turns_s, start_s = 2 * FEWEST * PAIRS * max(turn_ms(usual_ns), usual_ns / 1e6) / 1e3, 2 * FEWEST * START_S
    tried: Counter[str] = Counter()
    with options.model.opened() as loaded, scratch_folder() as scratch:
        target = AloneFirst(options, folder, loaded, scratch)
        search = Search(asked, run, target, source, scratch, SILENT)
        until = began + MOST_S - start_s - 1.2 * turns_s
        for one, finding in candidates_of(run, target.rungs(), search.threads):
            if tried.total() == MOST_TRIED or time.monotonic() > (began + MOST_S - ALONE_S if one.steps else until):
                break
            if tried[finding.code] < MOST_OF_ONE:
                progress.detail(one.name)
                room = (search.candidates + 1) * turns_s <= (options.duration_s or MOST_S)
                tried[finding.code] += search.try_one(one, until if room else 0.0)
        search.judge()
        progress.detail(f"{tried.total()} tried")
    for row in search.rungs():
        if row.verdict == "failed":
            progress.note(f"{row.name}: {row.reason}")
    if not any(row.verdict not in ("not measured", "failed") or row.predicted for row in search.rungs()):
        return None
    found = document_of(asked, source, run, folder, search, None, time.monotonic() - began)
    folder.write(run_folder.TRIED, found)
    save_report(folder, analysed(folder))
    return found


def told(rungs: Iterable[Rung]) -> list[str]:
    """What was measured: a line for each candidate that is faster, and one for the others."""
    lines, others = [], []
    for rung in rungs:
        how = "".join(f" ({key}={value})" for key, value in rung.options.items())
        alone = f"{rung.basis}, " if rung.predicted else ""
        whole = f"{times(rung.gain)} on the model" if rung.gain else ""
        if rung.verdict == "helps" and rung.before_ns is not None and rung.after_ns is not None:
            levels = f"{format_ns(rung.before_ns)} to {format_ns(rung.after_ns)}"
            levels += f", {rung.reason}" if rung.reason else ""
            lines.append(f"{rung.name}{how}: measured {alone}{whole}, {levels}; {rung.title}")
        elif rung.verdict == "not measured" and rung.predicted:
            lines.append(f"{rung.name}: measured {rung.basis}; there was no time for the model")
        elif rung.verdict == "unclear":
            lines.append(f"{rung.name}{how}: no verdict: {rung.reason}")
        elif whole or alone:
            others.append(f"{rung.name}, {alone}{whole}".removesuffix(", "))
    return [*lines, *([f"tried, does not clearly help: {'; '.join(others)}"] if others else [])]
