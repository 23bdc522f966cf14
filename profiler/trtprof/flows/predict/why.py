"""Why a layer is predicted so: its bound, its expectation, and the measurements by others that are most like it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trtprof.base.find_layer import find_layer
from trtprof.base.records import (
    SCHEMA_VERSION,
    GpuSpec,
    LayerOnGpu,
    MeasuredRow,
    MeasuredSource,
    PredictedWhy,
    Prediction,
)
from trtprof.expected import document, nearest
from trtprof.flows.predict.on_gpus import Settings

NEAREST = 3  # Measurements that are shown of each GPU


def why(found: Prediction, specs: Sequence[GpuSpec], how: Settings, name: str) -> PredictedWhy:
    """Why a layer of a prediction is predicted so. `specs`: its GPUs, in the order asked for."""
    layers = found.gpus[0].layers
    layer = find_layer(layers, name)
    at = next(place for place, each in enumerate(layers) if each is layer)
    shown = []
    for gpu, spec in zip(found.gpus, specs, strict=True):
        one = gpu.layers[at]
        rows = () if one.work is None else nearest(one.work, spec, tf32=how.precision != "fp32", count=NEAREST)
        shown.append(LayerOnGpu(gpu=gpu.gpu, name=gpu.name, layer=one, nearest=rows))
    return PredictedWhy(
        schema_version=SCHEMA_VERSION,
        model=found.model.name,
        layer=layer.name,
        covered=document().covered,
        gpus=tuple(shown),
        sources=tuple(_sources(row for gpu in shown for row in gpu.nearest)),
    )


def _sources(rows: Iterable[MeasuredRow]) -> Iterable[MeasuredSource]:
    """The collections that rows are from: the first word of what a row calls its source."""
    known = document().sources
    for name in sorted({row.source.split()[0] for row in rows}):
        yield MeasuredSource(name=name, **known[name])
