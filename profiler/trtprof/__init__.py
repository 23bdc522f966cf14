"""trtprof: why is deployed latency above theory, and which op deserves a hand-written kernel?

In Python and notebooks:

    import trtprof as tp

    run = tp.run("model.onnx")                   # or tp.load_run("reports/resnet_tiny-20261121-101500")
    run.layers.nlargest(5, "lost_ns")
    run.plot.roofline()
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trtprof.flows.notebook import LoadedRun, analyze, fleet, predict, run, runs

__version__ = "0.1.0"
__all__ = ["__version__", "analyze", "compare", "fleet", "load_run", "predict", "run", "runs"]

# ONNX Runtime looks up a host and names the graph of the model there unless this is set before its library is loaded
# (`disable_telemetry_events` comes too late). Our processes import this package first, and children inherit it.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
# Ray reports what it is used for unless this is set before it is imported.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"


def load_run(path: str | Path) -> LoadedRun:
    """A finished run with its tables and pictures; nothing but its folder is needed.

    Args:
        path: The run folder, or its ``report.json``.
    """
    from trtprof.flows.notebook import LoadedRun

    return LoadedRun(Path(path))


def __getattr__(name: str) -> Any:
    """The verbs, imported when they are asked for: the package itself loads nothing."""
    if name == "compare":  # a package of that name, which can be called: it would take the place of a function
        return importlib.import_module("trtprof.compare")
    if name in __all__:
        from trtprof.flows import notebook

        return getattr(notebook, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
