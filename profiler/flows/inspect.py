"""A model alone: its ops, shapes, parameters and work, and the layers that an engine would have."""

from __future__ import annotations

import msgspec

from profiler.base.errors import TrtprofError
from profiler.base.records import Inspection, Source
from profiler.flows.progress import SILENT, Progress
from profiler.runtime.gc_paused import gc_paused
from profiler.source.load import LoadedModel
from profiler.source.request import ModelRequest


def inspect(request: ModelRequest, progress: Progress = SILENT, *, engine: bool = False) -> Inspection:
    """Look at a model alone: its ops, shapes, parameters and work; nothing is run.

    With ``engine`` the plan of TensorRT-RTX is there too, where that is installed; a model that it refuses has a note
    instead.

    Raises:
        TrtprofError: The model or the shapes are not usable; see `source.load`.
    """
    from profiler.analysis.work import inspection_of

    with request.opened() as loaded, gc_paused():
        source = request.bound(loaded)
        found = inspection_of(source)
        return _with_plan(found, loaded, source, progress) if engine else found


def _with_plan(found: Inspection, loaded: LoadedModel, source: Source, progress: Progress) -> Inspection:
    from profiler.flows.build import engine_at, in_one_line, why_no_engine

    if why_no_engine():
        return found
    try:
        plan = engine_at(loaded, source, "model", progress).priced.document
    except TrtprofError as error:
        progress.detail("none was built")
        return msgspec.structs.replace(found, notes=(*found.notes, f"no engine was built: {in_one_line(error)}"))
    return msgspec.structs.replace(found, plan=plan)
