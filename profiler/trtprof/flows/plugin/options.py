"""What `trtprof plugin` is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from trtprof.source.request import ModelRequest

Step = Literal["brief", "write", "insert", "check"]
STEPS: tuple[Step, ...] = ("brief", "write", "insert", "check")


class PluginOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `trtprof plugin` is asked for.

    Attributes:
        what: A run folder, a document of a run, an analysis or a prediction, or a model.
        layer: What a layer or node of it is called; see `find_layer`.
        request: How the model is opened, where ``what`` is one.
        gpu: A GPU that need not be here; "" for that of the run, or the one that is here.
        folder: Where files go; "" where none are written.
        steps: What is done.
        places: Names of nodes: the plugin goes where one of them stands; none for every place that is alike.
        function: Whether the custom node keeps the original nodes as its function.
        alone: Whether the kernel computes the node alone, without the pointwise ops beside it.
        seconds: That the execution of kernels may take.
        headers: Folder of TensorRT's headers, where they are at no usual place.
        force: Whether files that are there are replaced.
        command: What was typed.
    """

    what: str = ""
    layer: str = ""
    request: ModelRequest | None = None
    gpu: str = ""
    folder: str = ""
    steps: tuple[Step, ...] = STEPS
    places: tuple[str, ...] = ()
    function: bool = True
    alone: bool = False
    seconds: float = 20.0
    headers: Path | None = None
    force: bool = False
    command: str = ""
