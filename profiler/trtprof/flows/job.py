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
    """A run under way."""

    folder: RunFolder  # The run folder, which has the source; what else is there is kept
    loaded: LoadedModel  # The model
    source: Source  # The same with its shapes
    backend: Backend  # The one that runs it, and why it was chosen
    options: RunOptions  # What is asked of the run
    scratch: Path  # A folder for what nobody needs afterwards
    session: SessionRequest  # Of ONNX Runtime on the CPU: the file, and the threads asked for
    progress: Progress  # Told what goes on
