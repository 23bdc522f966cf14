"""A model alone: its ops, shapes, parameters and work, and the layers that an engine would have."""

from __future__ import annotations

import msgspec

from trtprof.base.records import Inspection
from trtprof.flows.progress import SILENT, Progress
from trtprof.flows.run_shapes import count_by_running, request_as_run
from trtprof.runtime.gc_paused import gc_paused
from trtprof.source.request import ModelRequest


def inspect(request: ModelRequest, progress: Progress = SILENT, *, engine: str = "") -> Inspection:
    """Look at a model alone, or at that of a run folder: its ops, shapes, parameters and work; nothing is run.

    With ``engine``, a precision as `flows.build.engine_at` takes it, the plan of the engine that TensorRT-RTX builds of
    the model is there too.
    """
    from trtprof.analysis.work import inspection_of

    request = request_as_run(request)
    with request.opened() as loaded, gc_paused():
        source = request.bound(loaded)
        found = inspection_of(source)
        found = msgspec.structs.replace(found, uncounted=count_by_running(found.uncounted, request))
        if not engine:
            return found
        from trtprof.flows.build import engine_at

        return msgspec.structs.replace(found, plan=engine_at(loaded, source, engine, progress).priced.document)
