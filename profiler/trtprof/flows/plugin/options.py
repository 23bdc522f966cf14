"""What `trtprof plugin` is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from trtprof.source.request import ModelRequest

Step = Literal["brief", "write", "insert", "check"]
STEPS: tuple[Step, ...] = ("brief", "write", "insert", "check")


class PluginOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `trtprof plugin` is asked for."""

    what: str = ""  # A run folder, a document of a run, an analysis or a prediction, or a model
    layer: str = ""  # What a layer or node of it is called; see `find_layer`
    request: ModelRequest | None = None  # How the model is opened, where ``what`` is one
    gpu: str = ""  # A GPU that need not be here; "" for that of the run, or the one that is here
    folder: str = ""  # Where files go; "" where none are written
    steps: tuple[Step, ...] = STEPS  # What is done
    places: tuple[str, ...] = ()  # Names of nodes: the plugin goes where one of them stands
    function: bool = True  # Whether the custom node keeps the original nodes as its function
    alone: bool = False  # Whether the kernel computes the node alone, without the pointwise ops beside it
    seconds: float = 20.0  # That the execution of kernels may take
    headers: Path | None = None  # Folder of TensorRT's headers, where they are at no usual place
    force: bool = False  # Whether files that are there are replaced
    command: str = ""  # What was typed
