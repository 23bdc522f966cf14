"""Variants of a model: rewritten files, and sessions that are set up otherwise."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import onnx
import onnx.checker

from trtprof.base import onnx_graph
from trtprof.base.errors import MissingError, ModelError, TrtprofError
from trtprof.engine.passes import INSTALL, PASSES, run_pass
from trtprof.flows.options import GpuOptions
from trtprof.flows.try_.target import Built, Setup, Target
from trtprof.rewrite import REWRITES, apply
from trtprof.runtime.ort_session import SessionRequest

try:
    import onnx_ir as ir

    from trtprof.rewrite.edit import Site
    from trtprof.rewrite.model import opened, save
except ModuleNotFoundError:
    raise MissingError("onnx-ir is not installed", why="graphs are rewritten with it", fix=INSTALL) from None

if TYPE_CHECKING:
    from trtprof.flows.build import EngineBuild


class UnfitError(Exception):
    """A rung changes nothing of this model: it is no candidate."""


class Variant(NamedTuple):
    """A model and how a session of it is set up."""

    steps: tuple[str, ...]  # Names of the rewrites and passes that made the file, in order
    session: SessionRequest  # The file, and how it is run
    sites: tuple[Site, ...]  # What the steps changed
    graph: str  # Digest of what the runtime makes of it; see `target.Built`
    gpu: GpuOptions = GpuOptions()  # How it is built for a GPU, and run there
    engine: EngineBuild | None = None  # What TensorRT built of it

    @property
    def gone(self) -> tuple[str, ...]:
        """Names of the nodes that the steps took out, as the original has them."""
        made = {name for site in self.sites for name in site.after}
        return tuple(dict.fromkeys(name for site in self.sites for name in site.before if name not in made))

    @property
    def added(self) -> int:
        """How many nodes came in their place and are still there."""
        gone = {name for site in self.sites for name in site.before}
        return len({name for site in self.sites for name in site.after} - gone)


class Workshop:
    """Makes variants of one model, each file once.

    Args:
        session: The original: its file has unique names of nodes.
        scratch: Where the files go.

    Attributes:
        pass_s: Seconds that a pass of another project may take.
    """

    def __init__(self, session: SessionRequest, scratch: Path) -> None:
        self._scratch, self._folders = scratch, 0
        self._opened: tuple[Path, ir.Model] | None = None
        self._files: dict[tuple[str, ...], tuple[Path, tuple[Site, ...]]] = {(): (Path(session.model), ())}
        self._built: dict[tuple[object, ...], Built] = {}
        self.session = session
        self.pass_s = PASS_S

    def variant(
        self, target: Target, steps: Sequence[str], setup: Setup, only: frozenset[str] | None = None
    ) -> Variant:
        """A variant, built by the runtime once so that it is known to take it.

        `only`: nodes of the original that the steps are for; None for all.
        """
        file, sites = self.file(tuple(steps), only)
        session = msgspec.structs.replace(
            setup.session, model=str(file), external_data="" if steps else setup.session.external_data
        )
        given = msgspec.structs.replace(setup, session=session)
        key = tuple(steps), msgspec.json.encode(given)
        if key not in self._built:
            self._folders += 1
            folder = self._scratch / f"built_{self._folders}"
            folder.mkdir()
            self._built[key] = target.built(given, folder)
        built = self._built[key]
        return Variant(tuple(steps), session, sites, built.graph, given.gpu, built.engine)

    def file(self, steps: tuple[str, ...], only: frozenset[str] | None = None) -> tuple[Path, tuple[Site, ...]]:
        """The file that some steps make, and what they changed; see `variant`."""
        if steps not in self._files:
            before, sites = self.file(steps[:-1], only)
            self._folders += 1
            folder = self._scratch / f"model_{self._folders}"
            folder.mkdir()
            after = folder / Path(self.session.model).name
            beside = self.session.external_data if len(steps) == 1 else ""
            if steps[-1] in _PASSES:
                taken = _passed(steps[-1], before, after, self.pass_s)
            else:
                taken = self._rewritten(steps[-1], before, beside, after, only)
            self._files[steps] = after, (*sites, *taken)
        return self._files[steps]

    def _rewritten(
        self, step: str, before: Path, beside: str, after: Path, only: frozenset[str] | None
    ) -> tuple[Site, ...]:
        """Rewrite one file to another; ``beside`` is where the weights of the first lie, if not with it."""
        chosen = REWRITES.get(step)
        assert chosen is not None  # noqa: S101 - names come from the registry
        try:
            if self._opened is None or self._opened[0] != before:
                self._opened = before, opened(before, beside)
            model = self._opened[1]
            sites = apply(chosen, model, only)
            if not sites:
                raise UnfitError(step)  # The model is as it was: the next rewrite may look at it.
            self._opened = None
            save(model, after)
            onnx.checker.check_model(str(after), full_check=True)
        except (UnfitError, TrtprofError):
            raise
        except Exception as error:
            self._opened = None
            why = " ".join(str(error).split())[:300] or type(error).__name__
            raise ModelError(
                f"{step} makes no valid model of {before.name}", why=why, fix="leave it out: --skip " + step
            ) from None
        return sites


_PASSES = {one.name: one for one in PASSES}
PASS_S = 120.0  # Seconds after which a pass is ended, where nobody says otherwise


def _passed(step: str, before: Path, after: Path, seconds: float) -> tuple[Site, ...]:
    """Have a pass of another project make one file of another; what it changed is told by the names of nodes."""
    if not run_pass(_PASSES[step], before, after, seconds).changed:
        raise UnfitError(step)
    old, new = (
        {node.name: node.op_type for node in onnx.load(str(path), load_external_data=False).graph.node}
        for path in (before, after)
    )
    gone = tuple(name for name, op_type in old.items() if new.get(name) != op_type)
    return (Site(gone, tuple(name for name, op_type in new.items() if old.get(name) != op_type)),)


# --- the same graph ------------------------------------------------------------------------------


def graph_digest(path: Path) -> str:
    """A digest of what a runtime saved of its graph, whatever its nodes and tensors are called and where they stand.

    Each tensor is told by what makes it: the op, its attributes, and the tensors that it reads. Of constants only the
    type and the shape count: their elements follow from those of the model, whose meaning no variant changes.
    """
    model = onnx.load(str(path), load_external_data=False)
    return _graph(model.graph, {})


def _graph(graph: onnx.GraphProto, around: dict[str, str]) -> str:
    known = dict(around)
    for tensor in graph.initializer:
        known[tensor.name] = f"constant {tensor.data_type} {list(tensor.dims)}"
    for place, info in enumerate(graph.input):
        known[info.name] = f"input {place} {info.type.SerializeToString().hex()}"
    nodes = []
    for node in graph.node:
        bodies = {attribute: _graph(body, known) for attribute, body in onnx_graph.subgraphs(node)}
        plain = sorted(
            attribute.SerializeToString().hex() for attribute in node.attribute if attribute.name not in bodies
        )
        reads = [known.get(name, "") for name in node.input]
        text = f"{node.domain} {node.op_type} {plain} {sorted(bodies.items())} {reads}"
        digest = hashlib.sha256(text.encode()).hexdigest()
        nodes.append(digest)
        known.update({name: f"{digest} {place}" for place, name in enumerate(node.output)})
    outputs = [known.get(info.name, "") for info in graph.output]
    return hashlib.sha256(f"{sorted(nodes)} {outputs}".encode()).hexdigest()
