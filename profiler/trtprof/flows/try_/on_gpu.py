"""What rewrites should bring on a GPU that need not be here: predicted, nothing runs."""

from __future__ import annotations

import time

from trtprof import __version__
from trtprof.base.errors import TrtprofError
from trtprof.base.records import SCHEMA_VERSION, Backend, Device, GpuPrediction, GpuSpec, Rung, Tried
from trtprof.base.scratch import scratch_folder
from trtprof.base.units import format_ns
from trtprof.engine.tensorrt import BuildOptions
from trtprof.flows.predict import predict
from trtprof.flows.predict.on_gpus import Settings
from trtprof.flows.progress import SILENT, Progress
from trtprof.flows.run import session_of
from trtprof.flows.try_.options import TryOptions, rewrite_candidates
from trtprof.flows.try_.price import Price
from trtprof.flows.try_.search import asked_for
from trtprof.flows.try_.variants import UnfitError, Workshop
from trtprof.source.request import ModelRequest

CHANGES = 0.01  # A bound or an expectation that differs by less is the same


def predicted_on(options: TryOptions, spec: GpuSpec, created: str, progress: Progress = SILENT) -> Tried:
    """What each rewrite should bring on a GPU, by what good kernels take there, or by the bound."""
    began = time.monotonic()
    chosen = asked_for(list(rewrite_candidates()), options)
    settings = Settings(level="groups", precision=_precision(options.run.gpu.build))
    with options.run.model.opened(progress.detail) as loaded, scratch_folder() as scratch:
        source = options.run.model.bound(loaded)
        shop = Workshop(session_of(loaded, scratch, options.run.threads, options.run.tuning), scratch)
        progress.stage("variants")
        base = predict(options.run.model, [spec], settings).gpus[0]
        rows, unfit = [], []
        for one in chosen:
            try:
                file, sites = shop.file((one.name,))
            except UnfitError:
                unfit.append(one.name)
                continue
            except TrtprofError as error:
                rows.append(Rung(name=one.name, kind="rewrite", title=one.title, verdict="failed", reason=str(error)))
                continue
            request = ModelRequest.of(file, options.run.model.shapes_given, options.run.model.batch)
            price = _price(base, predict(request, [spec], settings).gpus[0])
            progress.detail(f"{one.name}: {price.basis}")
            rows.append(
                Rung(
                    name=one.name, kind="rewrite", title=one.title, verdict="not measured", answers=one.answers,
                    reason="a dry run measures nothing", exact=one.exact, predicted=price.gain, basis=price.basis,
                    nodes=tuple(name for site in sites for name in site.before),
                    added=sum(len(site.after) for site in sites),
                )
            )  # fmt: skip
    rows.sort(key=lambda row: -(row.predicted or 0.0))
    best = next((row for row in rows if (row.predicted or 0.0) > 1 + CHANGES), None)
    return Tried(
        schema_version=SCHEMA_VERSION, model=source.model, device=Device(name=spec.name, kind="gpu"),
        backend=Backend(name="none", reason=f"predicted for {spec.name}: nothing ran"), created=created,
        version=__version__, command=options.run.command, threads=0, latency=None,
        verdict=(
            f"{best.name} should make it {best.predicted:.3g} times as fast on {spec.name}, predicted: {best.basis}"
            if best
            else f"no rewrite is predicted to help on {spec.name}"
        ),
        rungs=tuple(rows), best=None, candidates=0, budget_s=options.budget_s,
        spent_s=round(time.monotonic() - began, 1), unfit=tuple(unfit),
    )  # fmt: skip


def _precision(build: BuildOptions) -> str:
    """What the flags of an engine ask for, as predictions call it: the narrowest of them."""
    flags = {"fp8": build.fp8, "int8": build.int8, "fp16": build.fp16, "bf16": build.bf16, "fp32": not build.tf32}
    return next((name for name, on in flags.items() if on), "model")


def _price(before: GpuPrediction, after: GpuPrediction) -> Price:
    """By what good kernels take where it is known of both for the same part, else by the bound."""
    if before.expected_ns and after.expected_ns:
        return Price(
            before.expected_ns / after.expected_ns,
            f"good kernels take ~{format_ns(before.expected_ns)} before and ~{format_ns(after.expected_ns)} after",
        )
    if before.time_ns and after.time_ns:
        words = f"the bound is {format_ns(before.time_ns)} before and {format_ns(after.time_ns)} after"
        return Price(before.time_ns / after.time_ns, words)
    return Price(None, "the work of its layers is not known")
