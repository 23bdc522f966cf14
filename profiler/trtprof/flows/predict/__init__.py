"""What a model should take on GPUs that need not be at hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from trtprof.base.errors import UsageError
from trtprof.base.records import GpuSpec, Prediction, Source
from trtprof.flows.progress import SILENT, Progress
from trtprof.flows.run_shapes import count_by_running, request_as_run
from trtprof.runtime.gc_paused import gc_paused
from trtprof.source.request import ModelRequest

if TYPE_CHECKING:
    from trtprof.analysis.plan import PricedPlan
    from trtprof.flows.predict.on_gpus import Settings
    from trtprof.source.load import LoadedModel


def predict(
    request: ModelRequest, gpus: Sequence[GpuSpec], settings: Settings, progress: Progress = SILENT
) -> Prediction:
    """Predict what a model takes on GPUs that need not be at hand.

    An engine is built with TensorRT-RTX where it is asked for, by the level ``layers`` or by itself
    (`on_gpus.Settings.engine`); else the graph alone is looked at, which takes no time to speak of. The model may be
    a run folder: then it is that of the run, with the shapes that its tensors had.
    """
    from trtprof.flows.predict import on_gpus

    on_gpus.check(settings)
    request = request_as_run(request)
    with request.opened() as loaded, gc_paused():
        found = _predicted(loaded, request.bound(loaded), gpus, settings, progress)
    return msgspec.structs.replace(found, unpriced=count_by_running(found.unpriced, request))


def _predicted(
    loaded: LoadedModel, source: Source, gpus: Sequence[GpuSpec], settings: Settings, progress: Progress
) -> Prediction:
    from trtprof.flows.predict.groups import predict_source
    from trtprof.flows.predict.layers import predict_plan

    if settings.engine or settings.level == "layers":
        priced = _plan_at(loaded, source, settings.precision, progress)
        return _with_other_precisions(predict_plan(priced, source, gpus, settings), source, gpus, settings)
    level = "groups" if settings.level == "auto" else settings.level
    return predict_source(source, gpus, msgspec.structs.replace(settings, level=level))


def _with_other_precisions(
    found: Prediction, source: Source, gpus: Sequence[GpuSpec], settings: Settings
) -> Prediction:
    """The prediction of an engine with the times at those precisions that it does not tell, of groups and marked so."""
    from trtprof.flows.predict.groups import times_by_precision

    filled = []
    for gpu, times in zip(found.gpus, times_by_precision(source, gpus, settings), strict=True):
        if gpu.by_precision or gpu.time_ns is not None:
            estimated = tuple(name for name in times if name not in gpu.by_precision)
            by_precision = {name: gpu.by_precision.get(name, ns) for name, ns in times.items()}
            gpu = msgspec.structs.replace(gpu, by_precision=by_precision, estimated_precisions=estimated)  # noqa: PLW2901
        filled.append(gpu)
    return msgspec.structs.replace(found, gpus=tuple(filled))


def _plan_at(loaded: LoadedModel, source: Source, precision: str, progress: Progress) -> PricedPlan:
    """The plan of the engine that TensorRT-RTX builds at a precision."""
    from trtprof.flows.build import engine_at
    from trtprof.flows.predict.layers import computes_otherwise

    priced = engine_at(loaded, source, precision, progress).priced
    otherwise = computes_otherwise(priced, precision)
    if otherwise:
        raise UsageError(
            f"the engine does not tell what {source.model.name} takes at {precision}",
            why=otherwise,
            fix="leave --engine (or --level layers) away, or --dtype",
        )
    return priced
