"""What can run on this machine: versions, devices, kept ceilings, and of every backend what it lacks."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
from collections.abc import Iterator
from typing import Literal

from trtprof import __version__
from trtprof.base import plugins
from trtprof.base.errors import TrtprofError
from trtprof.base.records import SCHEMA_VERSION, Machine, Part
from trtprof.capture.cupti import activity as cupti
from trtprof.capture.nsys import record as nsys
from trtprof.engine.backends import backends, onnxruntime_version
from trtprof.engine.passes import INSTALL
from trtprof.flows.fleet.execute import INSTALL_RAY
from trtprof.hardware import gpus, nvml
from trtprof.hardware.device import host_cpu
from trtprof.hardware.store import default_cache_dir


def look() -> Machine:
    """Look at everything; nothing is run, and nothing raises."""
    folder = default_cache_dir()
    live, note = nvml.gpus()
    return Machine(
        schema_version=SCHEMA_VERSION,
        trtprof=__version__,
        python=platform.python_version(),
        platform=platform.platform(terse=True),
        onnxruntime=onnxruntime_version(),
        device=host_cpu(),
        gpus=live,
        gpus_note=note,
        ceilings_kept=sum(1 for _ in folder.glob("*.json")) if folder.is_dir() else 0,
        ceilings_folder=str(folder),
        parts=(
            *(
                Part(kind="backend", name=each.name, available=each.available, reason=each.reason, fix=each.fix)
                for each in backends()
            ),
            *_collectors(),
            *_plugin_tools(),
            _package("try", "onnx-ir", INSTALL),
            _package("fleet", "ray", INSTALL_RAY),
            *_left_out(),
        ),
    )


def _collectors() -> Iterator[Part]:
    """What can watch a GPU here, and what the others lack."""
    for name, find in (("nsys", nsys.find), ("cupti", cupti.require)):
        try:
            found = find()
        except TrtprofError as error:
            why = f"{error.what}: {error.why}"
            yield Part(kind="collector", name=name, available=False, reason=why, fix=error.fix)
        else:
            what = f"{found.version_text} ({found.path})" if found else "in the process"
            yield Part(kind="collector", name=name, available=True, reason=what)


def _plugin_tools() -> Iterator[Part]:
    """What compiles and checks custom kernels without a GPU."""
    from trtprof.plugin import contract

    yield _package("plugin", "triton", contract.INSTALL)
    try:
        lean = contract.find_tensorrt() is not None
    except TrtprofError as error:
        why = f"{error.what}: {error.why}"
        yield Part(kind="plugin", name="registry", available=False, reason=why, fix=error.fix)
    else:
        what = "the lean runtime of TensorRT, with its bindings" if lean else "TensorRT"
        yield Part(kind="plugin", name="registry", available=True, reason=what)


def _package(kind: Literal["plugin", "try", "fleet"], name: str, fix: str) -> Part:
    """What of an extra is installed: importing it takes longer than all of the rest."""
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Part(kind=kind, name=name, available=False, reason=f"{name} is not installed", fix=fix)
    return Part(kind=kind, name=name, available=True, reason=version)


def _left_out() -> Iterator[Part]:
    """Plug-ins of other distributions and datasheets of GPUs that are broken."""
    from trtprof.cost import COSTS
    from trtprof.diagnose import RULES
    from trtprof.report import CONTENT, REPORTERS
    from trtprof.rewrite import REWRITES
    from trtprof.source.shape_rules import RULES as SHAPE_RULES

    rewrites = (REWRITES,) if importlib.util.find_spec("onnx_ir") else ()
    for registry in (COSTS, SHAPE_RULES, RULES, CONTENT, REPORTERS, *rewrites):
        registry.load()
    gpus.specs()
    for each in plugins.LEFT_OUT:
        yield Part(kind="left out", name=each.what, available=False, reason=each.why, fix=each.fix)
