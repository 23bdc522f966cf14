"""A plugin put into a model: custom nodes in the place of those that its kernel computes.

TensorRT finds it by op type and the attributes ``plugin_namespace`` and ``plugin_version``; other runtimes use the
model-local function of the same name, which holds the original nodes.
"""

from __future__ import annotations

import filecmp
import heapq
from collections.abc import Callable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import onnx
import onnx.checker
from onnx import helper
from onnx.external_data_helper import ExternalDataInfo

from trtprof.base import onnx_graph, onnx_metadata
from trtprof.base.errors import MissingError, ModelError, UsageError
from trtprof.base.input_file import stays_inside
from trtprof.base.output_file import check_place, copy_file, replaced
from trtprof.base.records.plugin import Inserted
from trtprof.base.units import format_names
from trtprof.plugin.model import EXTERNAL, NAMED, Model
from trtprof.plugin.select import Place
from trtprof.plugin.task import DOMAIN, VERSION, Task

_FUNCTIONS = 8  # The first IR version with model-local functions


def insert(
    model: Model, task: Task, places: Sequence[Place], path: Path, *, function: bool = True, left: Sequence[str] = (),
    force: bool = False, held: Path | None = None,
) -> Inserted:  # fmt: skip
    """Write a model with a plugin at places (`select.alike`), none of which has a node of another.

    Weights beside the model are copied beside the new one, never read. `force`: whether a file that is there is
    written over, which the original never is. `held`: where the file is put in the end, if not there.
    """
    check_place(path)
    if path.exists() and model.path.exists() and path.samefile(model.path):
        raise UsageError(f"{path} is the model itself", why="it is never written over", fix="choose another")
    if path.exists() and not force:
        raise UsageError(f"{path} exists", why="nothing is written over unasked", fix="--force writes over it")
    changed = model.copy()
    if function:
        onnx_metadata.raise_version(changed.proto, _FUNCTIONS)
        changed.refresh()
    _replace(changed, task, places)
    _drop_unread(changed, places)
    if all(entry.domain != DOMAIN for entry in changed.proto.opset_import):
        changed.proto.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    if function and task.body not in changed.proto.functions:
        changed.proto.functions.append(task.body)
    _write(changed, model, path, force=force, held=held)
    return Inserted(model=path.name, places=tuple(place.nodes for place in places), function=function, left=tuple(left))


def _order(model: Model, stands: Mapping[int, int]) -> list[int]:
    """All nodes behind all that they read, else where they stood; those of a place stand where its last does."""
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for at in range(len(model.proto.graph.node)):
        own = stands.get(at, at)
        sorter.add(own, *({stands.get(made, made) for made in model.before(at)} - {own}))
    try:
        sorter.prepare()
    except CycleError as error:
        why = "they wait for one another, through " + format_names([model.node(at).name for at in error.args[1]], NAMED)
        raise UsageError("not all places can be one node each", why=why, fix="--place names one of them") from None
    ready, order = list[int](), list[int]()
    while sorter.is_active():
        for at in sorter.get_ready():
            heapq.heappush(ready, at)
        order.append(heapq.heappop(ready))
        sorter.done(order[-1])
    return order


def _replace(model: Model, task: Task, places: Sequence[Place]) -> None:
    """Put custom nodes in the place of the others."""
    graph = model.proto.graph
    members = [[model.named(name) for name in place.nodes] for place in places]
    order = _order(model, {at: max(nodes) for nodes in members for at in nodes})
    made = {name for nodes in members for at in nodes for name in model.node(at).output}
    gone = made.difference(*(place.outputs for place in places))
    for place, nodes in zip(places, members, strict=True):
        main = model.node(model.named(place.main))
        custom = helper.make_node(
            task.name, place.inputs, place.outputs, name=place.main, doc_string=main.doc_string or None, domain=DOMAIN,
            plugin_namespace=DOMAIN, plugin_version=VERSION,
        )  # fmt: skip
        custom.metadata_props.extend(main.metadata_props)
        model.node(max(nodes)).CopyFrom(custom)
    kept = [model.node(at) for at in order]
    graph.ClearField("node")
    graph.node.extend(kept)
    _keep(graph.value_info, lambda one: one.name not in gone)
    model.refresh()


def _drop_unread(model: Model, places: Sequence[Place]) -> None:
    """Take out constants that nothing reads any more because the function holds them."""
    names = {name for place in places for name in place.constants if not model.uses[name]}
    for entries in (model.proto.graph.initializer, model.proto.graph.input, model.proto.graph.value_info):
        _keep(entries, lambda one: one.name not in names)
    _keep(model.proto.graph.node, lambda one: names.isdisjoint(one.output))


def _keep(entries: Any, kept: Callable[[Any], bool]) -> None:
    for at in reversed([at for at, one in enumerate(entries) if not kept(one)]):
        del entries[at]


def _write(model: Model, original: Model, path: Path, *, force: bool, held: Path | None) -> None:
    """Write a model that is valid where its original is; what was there stays until then."""
    stored = [one for one in onnx_graph.stored_tensors(model.proto) if one.data_location == EXTERNAL]
    try:
        for location in sorted({ExternalDataInfo(one).location for one in stored}):
            if not stays_inside(location):
                why = f"{location!r} is not below the folder of the model"
                raise ModelError(f"weights of {model.path} lie where none may", why=why, fix="export the model again")
            _copy(model.path.parent / location, path.parent / location, force=force)
        with replaced(path, held) as beside:
            beside.write_bytes(model.proto.SerializeToString())
            _check(original, beside, path.name)
    except OSError as error:
        why = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        raise MissingError(f"{path} cannot be written", why=why, fix="choose another folder") from None


def _copy(source: Path, target: Path, *, force: bool) -> None:
    if target.exists() and filecmp.cmp(source, target):
        return
    if target.exists() and not force:
        why = "the weights of the model belong there, and these are others"
        raise UsageError(f"{target} exists", why=why, fix="choose another folder, or --force")
    target.parent.mkdir(parents=True, exist_ok=True)
    copy_file(source, target)


def _check(model: Model, path: Path, name: str) -> None:
    """Hold the result against the rules of ONNX, those of them that the original keeps."""
    for full in (True, False):
        wrong = _fault(path, full=full)
        if not wrong:
            return
        if not _fault(model.path, full=full):
            raise ModelError(f"{name} is no valid model", why=wrong, fix="choose other nodes, or one place alone")


def _fault(path: Path, *, full: bool) -> str:
    try:
        onnx.checker.check_model(str(path), full_check=full)
    except Exception as error:  # of many kinds
        return " ".join(str(error).split())[:300] or type(error).__name__
    return ""
