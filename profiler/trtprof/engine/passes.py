"""Well-kept passes of others over a graph: each makes a model of a model, as one candidate to try.

They run in a process of their own with a time limit: what they do not expect of a graph they may crash on, or not come
back from. Whether the outputs are the same is for the caller to check.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from trtprof.base.errors import BuildError, MissingError
from trtprof.engine.backends import is_installed
from trtprof.runtime import child

if TYPE_CHECKING:
    import onnx

INSTALL = "pip install 'trtprof[try]'"
IN_THE_FILE = 2**30  # Bytes of a model up to which its weights are kept in the ONNX file
MODEL_TYPES = ("bert", "gpt2", "vit", "bart", "t5", "clip", "swin", "conformer")
"""Those of `onnxruntime.transformers.optimizer` whose ops have kernels on a CPU; of equals the first is taken."""


class Pass(NamedTuple):
    """A pass of another project."""

    name: str  # What it is called in commands and documents
    title: str  # What it does, in a few words
    modules: tuple[str, ...]  # What must be installed
    answers: tuple[str, ...] = ()  # Codes of the rules whose remedy it is

    def missing(self) -> str:
        """Why it cannot run here; empty where it can. `INSTALL` mends it."""
        names = [module for module in self.modules if not is_installed(module)]
        return f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'} not installed" if names else ""


PASSES = (
    Pass(
        "onnxslim", "onnxslim: constants folded, nodes merged and removed", ("onnxslim",),
        ("CN601", "FU301", "RL101", "LA401", "HO501"),
    ),
    Pass(
        "onnxscript-optimizer", "onnxscript.optimizer: constants folded, functions inlined, unused nodes removed",
        ("onnxscript",), ("CN601", "LA401", "HO501"),
    ),
    Pass(
        "ort-transformers",
        "onnxruntime.transformers.optimizer: attention, normalisation and GELU as ops of ONNX Runtime",
        ("onnxruntime", "sympy"), ("FU301", "RL101", "RL102", "LA401", "HO501"),
    ),
)  # fmt: skip


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A pass of `PASSES`, and two files."""

    name: str
    source: str
    target: str


class Passed(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass made of a model."""

    before: dict[str, int]  # Nodes by op before it
    after: dict[str, int]  # Nodes by op after it
    note: str = ""  # How it was run, where there was a choice

    @property
    def changed(self) -> bool:
        """Whether it left other nodes than it found."""
        return self.before != self.after


def run_pass(chosen: Pass, source: Path, target: Path, seconds: float) -> Passed:
    """Run a pass over a model in a process of its own, which is ended after so many seconds."""
    missing = chosen.missing()
    if missing:
        raise MissingError(f"the pass {chosen.name} cannot run here", why=missing, fix=INSTALL)
    request = Request(name=chosen.name, source=str(source), target=str(target))
    try:
        passed = child.ask("trtprof.engine.passes", request, Passed, what=chosen.name, within_s=seconds)
    except child.DiedError as died:
        raise _failed(chosen, died.why) from None
    if _interface(source) != _interface(target):
        raise _failed(chosen, "it made a model with other inputs or outputs")
    return passed


def _failed(chosen: Pass, why: str) -> BuildError:
    return BuildError(f"the pass {chosen.name} left no model", why=why, fix="leave it out")


def _interface(path: Path) -> list[tuple[str, int, tuple[int | str, ...] | None]]:
    """Names, types and dimensions of what a caller gives and gets."""
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    constants = {tensor.name for tensor in graph.initializer}
    found: list[tuple[str, int, tuple[int | str, ...] | None]] = []
    for info in (*(info for info in graph.input if info.name not in constants), *graph.output):
        tensor = info.type.tensor_type
        dims = tuple(dim.dim_value or dim.dim_param for dim in tensor.shape.dim)
        found.append((info.name, tensor.elem_type, dims if tensor.HasField("shape") else None))
    return found


# --- in the process of its own ------------------------------------------------------------------


def _onnxslim(source: Path) -> tuple[onnx.ModelProto, str]:
    import onnxslim

    return onnxslim.slim(str(source)), ""


def _onnxscript_optimizer(source: Path) -> tuple[onnx.ModelProto, str]:
    import onnx
    import onnxscript.optimizer

    return onnxscript.optimizer.optimize(onnx.load(source)), ""


def _ort_transformers(source: Path) -> tuple[onnx.ModelProto, str]:
    """As the type of model of which it leaves the fewest nodes."""
    import onnx
    from onnxruntime.transformers.optimizer import optimize_model

    best: tuple[int, Any, str] | None = None
    for model_type in MODEL_TYPES:
        with contextlib.suppress(Exception):  # A type that does not expect this graph says so in many ways.
            model = optimize_model(str(source), model_type=model_type, opt_level=0, use_gpu=False).model
            if best is None or len(model.graph.node) < best[0]:
                best = (len(model.graph.node), model, model_type)
    if best is None:
        raise SystemExit(f"no type of model suits the graph: {', '.join(MODEL_TYPES)}")
    model = best[1]
    domains = {node.domain for node in model.graph.node} - {one.domain for one in model.opset_import}
    if "com.microsoft" in domains:  # It writes such ops and leaves out what they are of.
        model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    return model, f"as {best[2]}"


_RUN: dict[str, Callable[[Path], tuple[Any, str]]] = {
    "onnxslim": _onnxslim,
    "onnxscript-optimizer": _onnxscript_optimizer,
    "ort-transformers": _ort_transformers,
}


def _ops(graph: onnx.GraphProto) -> dict[str, int]:
    return dict(sorted(Counter(f"{node.domain}::{node.op_type}".removeprefix("::") for node in graph.node).items()))


def apply(request: Request) -> Passed:
    """Run a pass."""
    import onnx

    source, target = Path(request.source), Path(request.target)
    before = _ops(onnx.load(source, load_external_data=False).graph)
    model, note = _RUN[request.name](source)
    model.ir_version = max(model.ir_version, 4)  # Before that a constant must be among the inputs, too.
    onnx.save(model, target, save_as_external_data=model.ByteSize() > IN_THE_FILE, location=f"{target.name}.data")
    return Passed(before=before, after=_ops(model.graph), note=note)


def main(argv: list[str]) -> int:
    """Entry point of the child; returns its exit code."""
    return child.answer(argv, Request, apply)


if __name__ == "__main__":
    child.end_with_parent()
    sys.exit(main(sys.argv))
