"""A run under way, as its stages share it, on whatever device."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from trtprof.base.records import Backend, Source
from trtprof.base.run_folder import RunFolder
from trtprof.flows.options import RunOptions
from trtprof.flows.progress import Progress
from trtprof.runtime.ort_session import SessionRequest
from trtprof.source.load import LoadedModel


class Job(NamedTuple):
    """A run under way.

    Attributes:
        folder: The run folder, which has the source; what else is there is kept.
        loaded: The model.
        source: The same with its shapes.
        backend: The one that runs it, and why it was chosen.
        options: What is asked of the run.
        scratch: A folder for what nobody needs afterwards.
        session: Of ONNX Runtime on the CPU: the file, and the threads asked for.
        progress: Told what goes on.
    """

    folder: RunFolder
    loaded: LoadedModel
    source: Source
    backend: Backend
    options: RunOptions
    scratch: Path
    session: SessionRequest
    progress: Progress
