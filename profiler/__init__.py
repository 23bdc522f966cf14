"""trtprof: why is deployed latency above theory, and which op deserves a hand-written kernel?

In Python and notebooks, a finished run is `load_run`:

    run = profiler.load_run("reports/resnet_tiny-20261121-101500")
    run.layers.nlargest(5, "lost_ns")
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from profiler.base.run_folder import LoadedRun

__version__ = "0.1.0"
__all__ = ["__version__", "load_run"]

# ONNX Runtime looks up a host and names the graph of the model there unless this is set before its library is loaded
# (`disable_telemetry_events` comes too late). Our processes import this package first, and children inherit it.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"


def load_run(path: str | Path) -> LoadedRun:
    """A finished run as pandas tables; nothing but its folder is needed.

    Args:
        path: The run folder, or its ``report.json``.

    Raises:
        profiler.base.errors.MissingError: There is no run, or it did not finish.
        profiler.base.errors.UsageError: A file is damaged or of another schema version.
    """
    from profiler.base.run_folder import LoadedRun

    return LoadedRun(Path(path))
