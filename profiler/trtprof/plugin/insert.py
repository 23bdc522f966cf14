"""A plugin put into a model: custom nodes in the place of those that its kernel computes.

TensorRT finds it by op type and the attributes ``plugin_namespace`` and ``plugin_version``; other runtimes use the
model-local function of the same name, which holds the original nodes.
"""

from __future__ import annotations

import filecmp
import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import onnx
import onnx.checker
from onnx import helper

from trtprof.base import onnx_graph, onnx_metadata
from trtprof.base.errors import MissingError, ModelError, UsageError
from trtprof.base.input_file import stays_inside
from trtprof.base.output_file import check_place, copy_file, replaced
from trtprof.base.records.plugin import Inserted
from trtprof.plugin.model import EXTERNAL, At, Model, Value
from trtprof.plugin.select import Place
from trtprof.plugin.specification import VERSION
from trtprof.plugin.task import DOMAIN, Task

_FUNCTIONS = 8  # The first IR version with model-local functions
_DATA_TYPES = {name: number for number, name in onnx_graph.DTYPES.items()}


def insert(
    model: Model,
    task: Task,
    places: Sequence[Place],
    path: Path,
    *,
    function: bool = True,
    left: Sequence[str] = (),
    force: bool = False,
    held: Path | None = None,
) -> Inserted:
    """Write a model with a plugin at some places.

    Weights beside the model are copied beside the new one, never read. `places`: where; see `select.alike`. None may
    have a node of another. `force`: whether a file that is there is written over, which the original never is.
    """
    _check_path(model, path, force=force)
    changed = model.copy()
    if function:
        onnx_metadata.raise_version(changed.proto, _FUNCTIONS)
        changed.refresh()
    done, late = list(places), list(left)
    for name in dict.fromkeys(place.graph for place in places):
        here = _Graph(changed, name, [place for place in places if place.graph == name])
        for place in here.left:
            done.remove(place)
            late.append(f"{place.main}: another plugin computes between its nodes, from what they make")
        here.replace(task)
    changed.refresh()
    _drop_unread(changed, places)
    _add_function(changed.proto, task, function=function)
    _write(changed, model, path, force=force, held=held)
    return Inserted(model=path.name, places=tuple(place.nodes for place in done), function=function, left=tuple(late))


def _check_path(model: Model, path: Path, *, force: bool) -> None:
    check_place(path)
    if not path.exists():
        return
    if model.path.exists() and path.samefile(model.path):
        raise UsageError(f"{path} is the model itself", why="the original is never written over", fix="choose another")
    if not force:
        raise UsageError(f"{path} exists", why="nothing is written over unasked", fix="--force writes over it")


class _Graph:
    """One graph of a model, and the places of it that become one node each.

    Attributes:
        left: Those that cannot: with the others they would wait for one another.
    """

    def __init__(self, model: Model, path: str, places: Sequence[Place]) -> None:
        self._model, self._path = model, path
        self._graph = model.graphs[path]
        self._places = list(places)
        self._members = {place: sorted(model.named(name).place for name in place.nodes) for place in places}
        self._reads = [
            {
                made.place
                for value in model.reads(At(path, index))
                if (made := model.maker(value)) is not None and made.graph == path
            }
            for index in range(len(self._graph.node))
        ]
        self.left: list[Place] = []
        self._order, waits = self._sorted()
        while any(waits.values()):
            late = next(one for one in reversed(self._places) if _waits_for_itself(self._members[one][-1], waits))
            self.left.append(late)
            self._places.remove(late)
            self._order, waits = self._sorted()

    def _sorted(self) -> tuple[dict[int, int], dict[int, set[int]]]:
        """The rank of each node, or of the last of each place, behind all that it reads, else where it stood.

        Those that wait for one another, or for such nodes, have none; the second result says what each waits for.
        """
        stands = {at: members[-1] for place in self._places for members in [self._members[place]] for at in members}
        waits: dict[int, set[int]] = {}
        for index, makers in enumerate(self._reads):
            own = stands.get(index, index)
            waits.setdefault(own, set()).update({stands.get(made, made) for made in makers} - {own})
        readers: dict[int, list[int]] = {index: [] for index in waits}
        for index, makers in waits.items():
            for made in makers:
                readers[made].append(index)
        ready = [index for index, makers in waits.items() if not makers]
        heapq.heapify(ready)
        order: dict[int, int] = {}
        while ready:
            index = heapq.heappop(ready)
            order[index] = len(order)
            for reader in readers[index]:
                waits[reader].discard(index)
                if not waits[reader]:
                    heapq.heappush(ready, reader)
        return order, waits

    def replace(self, task: Task) -> None:
        """Put custom nodes in the place of the others."""
        graph, order = self._graph, self._order
        gone: set[int] = set()
        values: set[str] = set()
        declared = {info.name for info in (*graph.value_info, *graph.output)}
        for place in self._places:
            *others, last = self._members[place]
            gone.update(others)
            made = {name for at in self._members[place] for name in graph.node[at].output}
            values |= made - set(place.outputs)
            graph.node[last].CopyFrom(_custom(task, place, self._model.node(self._model.named(place.main))))
            for name, operand in zip(place.outputs, task.outputs, strict=True):
                if name not in declared:
                    graph.value_info.append(self._type(name, operand.dtype))
        _forget(graph, values)
        ranks = {graph.node[index].name: rank for index, rank in order.items()}
        for index in sorted(gone, reverse=True):
            del graph.node[index]
        if sorted(order.values()) != [order[index] for index in sorted(order)]:
            graph.node.sort(key=lambda node: ranks[node.name])

    def _type(self, name: str, dtype: str) -> onnx.ValueInfoProto:
        """The type of a result, which those who know no plugin cannot infer without a function."""
        dims, shape = self._model.tensor(Value(self._path, name)).shape, None
        if dims is not None and not self._model.bound:
            shape = [dim if isinstance(dim, int) or dim in self._model.declared_dims else None for dim in dims]
        return helper.make_tensor_value_info(name, _DATA_TYPES[dtype], shape)


def _waits_for_itself(start: int, waits: Mapping[int, AbstractSet[int]]) -> bool:
    seen: set[int] = set()
    open_ = [start]
    while open_:
        for other in waits[open_.pop()] - seen:
            if other == start:
                return True
            seen.add(other)
            open_.append(other)
    return False


def _custom(task: Task, place: Place, main: onnx.NodeProto) -> onnx.NodeProto:
    node = helper.make_node(
        task.name,
        place.inputs,
        place.outputs,
        name=place.main,
        doc_string=main.doc_string or None,
        domain=DOMAIN,
        plugin_namespace=DOMAIN,
        plugin_version=VERSION,
    )
    node.metadata_props.extend(main.metadata_props)
    return node


def _forget(graph: onnx.GraphProto, names: AbstractSet[str]) -> None:
    """Take out what is said of values that are not there any more."""
    _take_out(graph.value_info, names, lambda info: [info.name])
    _take_out(graph.quantization_annotation, names, lambda note: [note.tensor_name])


def _take_out(entries: Any, names: AbstractSet[str], named: Callable[[Any], Iterable[str]]) -> None:
    """Take out of a list of a graph what is called by one of these names."""
    for index in reversed([at for at, entry in enumerate(entries) if not names.isdisjoint(named(entry))]):
        del entries[index]


def _drop_unread(model: Model, places: Sequence[Place]) -> None:
    """Take out constants that nothing reads any more because the functions hold them."""
    read = {value for place in places for value in place.constants if not model.uses[value]}
    for path in dict.fromkeys(value.graph for value in read):
        graph, names = model.graphs[path], {value.name for value in read if value.graph == path}
        _take_out(graph.node, names, lambda node: node.output)
        _take_out(graph.initializer, names, lambda tensor: [tensor.name])
        _take_out(graph.input, names, lambda info: [info.name])
        _forget(graph, names)


def _add_function(proto: onnx.ModelProto, task: Task, *, function: bool) -> None:
    if all(entry.domain != DOMAIN for entry in proto.opset_import):
        proto.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    if not function:
        return
    for one in proto.functions:
        if (one.domain, one.name) == (DOMAIN, task.name):
            if one != task.body:
                raise UsageError(
                    f"the model has another plugin that is called {task.name}",
                    why="its function computes something else",
                    fix="start from the model without plugins",
                )
            return
    proto.functions.append(task.body)


def _write(model: Model, original: Model, path: Path, *, force: bool, held: Path | None) -> None:
    """Write a model that is valid where its original is; what was there stays until then."""
    folder = model.path.parent
    if not path.parent.samefile(folder):
        for location in sorted({_location(tensor) for tensor in onnx_graph.stored_tensors(model.proto)} - {""}):
            _copy(folder / location, path.parent / location, force=force)
    try:
        with replaced(path, held) as beside:
            beside.write_bytes(model.proto.SerializeToString())
            _check(original, beside, path.name)
    except OSError as error:
        raise MissingError(
            f"{path} cannot be written", why=error.strerror or str(error), fix="choose another path"
        ) from None


def _location(tensor: onnx.TensorProto) -> str:
    """The file that holds a tensor, if one beside the model does."""
    if tensor.data_location != EXTERNAL:
        return ""
    location = {entry.key: entry.value for entry in tensor.external_data}.get("location", "")
    if not stays_inside(location):
        raise ModelError(
            f"the weights {tensor.name!r} lie where none may",
            why=f"{location!r} is not below the folder of the model",
            fix="export the model again",
        )
    return location


def _copy(source: Path, target: Path, *, force: bool) -> None:
    if target.exists():
        if filecmp.cmp(source, target):
            return
        if not force:
            raise UsageError(
                f"{target} exists",
                why="the weights of the model belong there, and these are others",
                fix="choose another folder, or --force",
            )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        copy_file(source, target)
    except OSError as error:
        raise MissingError(
            f"the weights beside the model cannot be copied to {target}",
            why=error.strerror or str(error),
            fix="see that they are there, and that the folder has room",
        ) from None


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
