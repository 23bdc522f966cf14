"""A model with a plugin in it, by its functions: run by ONNX Runtime beside the original, and built by TensorRT-RTX.

Neither is given a plugin: TensorRT-RTX, which has none, ends its process where one is registered. Both run in child
processes.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

import msgspec

from trtprof.base.errors import MissingError, TrtprofError
from trtprof.base.records import CheckStep, Source
from trtprof.base.scratch import scratch_folder
from trtprof.capture.same_outputs import KindCheck, check_variant, keep_original
from trtprof.capture.turns import Variant
from trtprof.engine import tensorrt
from trtprof.engine.tensorrt import BuildOptions
from trtprof.flows.build import static_shapes
from trtprof.flows.progress import SILENT, Progress
from trtprof.flows.run import session_of
from trtprof.plugin.model import Model, opened
from trtprof.runtime.ort_session import SessionRequest
from trtprof.source.load import LoadedModel

DEADLINE_S = 300.0  # After which a model that is run, or built, is given up
RTX: Final = "tensorrt-rtx"
_NO_FUNCTION = "the file has no functions, and {} knows no plugin"


def model_of(loaded: LoadedModel, names: Collection[str], source: Source | None = None) -> Model:
    """The model that a plugin is put into: as the file has it where that has these nodes."""
    nodes = None if source is None else source.nodes
    model = opened(loaded.path, nodes=nodes)
    made = {node.name: list(node.output) for graph in loaded.graphs.values() for node in graph.node}
    if all(name in model.nodes and list(model.node(model.nodes[name]).output) == made.get(name) for name in names):
        return model
    return opened(loaded.path, loaded.full(plugins=True), nodes)


def check_inserted(
    loaded: LoadedModel, source: Source, inserted: Path, *, function: bool = True, progress: Progress = SILENT
) -> tuple[CheckStep, CheckStep]:
    """Hold a model with a plugin against the original, where no plugin is: the functions must stand for it."""
    if not function:
        return (
            CheckStep(name="onnxruntime", verdict="not here", reason=_NO_FUNCTION.format("ONNX Runtime")),
            CheckStep(name=RTX, verdict="not here", reason=_NO_FUNCTION.format("TensorRT-RTX")),
        )
    return same_outputs(loaded, source, inserted, progress), builds(loaded, source, inserted, progress)


def same_outputs(loaded: LoadedModel, source: Source, inserted: Path, progress: Progress = SILENT) -> CheckStep:
    """Hold what ONNX Runtime makes of a model with functions against what it makes of the original."""
    begun = time.perf_counter()
    progress.detail(f"{inserted.name} beside {loaded.path.name}, by ONNX Runtime")
    with scratch_folder() as scratch:
        folder, other = scratch / "original", scratch / "inserted"
        folder.mkdir()
        other.mkdir()
        before = Variant(name="the original", inputs=source.model.inputs, session=session_of(loaded, folder))
        try:
            original = keep_original(before, folder, deadline_s=DEADLINE_S)
        except TrtprofError as error:
            return CheckStep(
                name="onnxruntime", verdict="not here", reason=f"the original does not run: {_said(error)}"
            )
        after = msgspec.structs.replace(
            before, name="the model with the plugin", session=SessionRequest(model=str(inserted.resolve()))
        )
        try:
            checks = check_variant(original, after, other, deadline_s=DEADLINE_S)
        except TrtprofError as error:
            return CheckStep(name="onnxruntime", verdict="failed", reason=_said(error), seconds=_since(begun))
    wrong = [check for check in checks if not check.matches]
    told = [check for check in checks if check.worst is not None]
    return CheckStep(
        name="onnxruntime",
        verdict="failed" if wrong else "passed",
        reason=_why(wrong[0]) if wrong else "",
        cases=len(told),
        seconds=_since(begun),
    )


def _why(check: KindCheck) -> str:
    worst = check.worst
    off = f"output {worst.name!r} is off by {worst.max_abs:.3g}" if worst is not None else "no output could be compared"
    return f"with inputs {check.kind}: " + "; ".join(filter(None, (off, check.note)))


def builds(loaded: LoadedModel, source: Source, inserted: Path, progress: Progress = SILENT) -> CheckStep:
    """Have TensorRT-RTX build a model with functions; that says nothing where it does not build the original."""
    begun = time.perf_counter()
    options = BuildOptions(backend=RTX, shapes=static_shapes(source))
    with scratch_folder() as built:
        try:
            tensorrt.build(inserted.resolve(), options, progress.detail, cache_dir=built, deadline_s=DEADLINE_S)
        except MissingError as error:
            return CheckStep(name=RTX, verdict="not here", reason=_said(error))
        except TrtprofError as error:
            return _not_built(loaded, options, built, error, begun)
    return CheckStep(name=RTX, verdict="passed", cases=1, seconds=_since(begun))


def _not_built(loaded: LoadedModel, options: BuildOptions, built: Path, error: TrtprofError, begun: float) -> CheckStep:
    """What it says that a model was not built: nothing, where the original is not either."""
    try:
        tensorrt.build(loaded.path.resolve(), options, cache_dir=built, deadline_s=DEADLINE_S)
    except TrtprofError as same:
        reason = f"TensorRT-RTX does not build the original: {_said(same)}"
        return CheckStep(name=RTX, verdict="not here", reason=reason, seconds=_since(begun))
    return CheckStep(name=RTX, verdict="failed", reason=_said(error), seconds=_since(begun))


def _said(error: TrtprofError) -> str:
    return "; ".join(filter(None, (error.what, error.why)))


def _since(begun: float) -> float:
    return round(time.perf_counter() - begun, 3)
