"""An ONNX file read, checked, given unique node names, bound to shapes and turned into records.

Weights stay where they are: those in the file are passed over (`source.skim`), and of those in files
beside it only presence, place and size are checked.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import msgspec
import onnx
import onnx.checker
import onnx.external_data_helper
import onnx.inliner
from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto, SparseTensorProto

from trtprof.base import onnx_graph, shape_inference
from trtprof.base.calls import PLUGINS, folded
from trtprof.base.errors import ModelError
from trtprof.base.evaluate import MAX_ELEMENTS
from trtprof.base.records import Call, Dim, InputTensor, ModelInfo, Node, Source, Tensor
from trtprof.base.units import format_shape
from trtprof.runtime.gc_paused import gc_paused
from trtprof.source import inputs as input_values
from trtprof.source import skim
from trtprof.source.check import EXPORT_HINT, EXTERNAL, check_external_data, check_model, first_line, stored_of
from trtprof.source.consistent import Clash, clash_of, settled
from trtprof.source.forward import complete, one_sided
from trtprof.source.shapes import Binding, Instead, Shapes, bind_shapes

_MAX_BYTES = 2**31 - 1
"""Largest protobuf that can be read; ONNX keeps bigger weights in files beside the model."""


class LoadedModel:
    """An ONNX model in memory with unique node names."""

    def __init__(self, path: Path, proto: ModelProto) -> None:
        self.path = path  # The file it came from
        self.proto = proto  # The model without the elements of its large tensors; see `skim.left_out`
        # Its main graph and its bodies by path, outer before inner; see `onnx_graph.subgraph_path`
        self.graphs: dict[str, GraphProto] = {}
        self.original_names: dict[str, str] = {}  # Unique node name -> the name in the file
        # Node of a function of a plugin -> the custom node that has it; see `records.Call`
        self.calls: dict[str, Call] = {}
        # Whether ``proto`` differs from the file in more than elements, so that a runtime must be given `full` instead
        # of the file
        self.changed = False
        self.external_data = False  # Whether some weights lie in files beside the model
        self.assumptions: list[str] = []  # What was repaired, in words
        # Tensors as they were in a run, by path of their graph and name; they fill in what inference leaves open
        self.seen: Mapping[tuple[str, str], Tensor] = {}
        # What was found in place of guesses, by the shapes, the batch and the dimensions that were asked for
        self.instead: dict[object, dict[str, Instead]] = {}

    @property
    def renamed(self) -> int:
        """Number of nodes whose name in the file was empty or taken."""
        return sum(1 for new, old in self.original_names.items() if new != old)

    @cached_property
    def sha256(self) -> str:
        """Digest of the file, which is read in full for it."""
        with _readable(self.path), self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def full(self, *, plugins: bool = False) -> ModelProto:
        """The file with its weights, changed as ``proto`` was; external data stays where it is."""
        with _readable(self.path):
            proto = ModelProto.FromString(self.path.read_bytes())
        proto, names, _ = _flat(self.path, proto, plugins=plugins)
        proto.graph.ClearField("output")
        proto.graph.output.extend(self.proto.graph.output)
        callers = {call.name for call in self.calls.values()} if plugins else set()
        inner = self.calls if plugins else {}
        kept = {name: old for name, old in names.items() if name not in callers}
        if kept != {name: old for name, old in self.original_names.items() if name not in inner}:
            raise ModelError(
                f"{self.path} was changed while it was used",
                why="its nodes are not those that were read before",
                fix="run the command again",
            )
        return proto


@gc_paused()
def load_model(path: str | Path) -> LoadedModel:
    """Read and check an ONNX file; give unnamed and duplicate nodes unique names."""
    path = Path(path)
    loaded = LoadedModel(path, _read(path))
    tensors = stored_of(loaded.proto).tensors
    if any(isinstance(tensor.name, bytes) for tensor in tensors):  # what protobuf makes of a name that is no UTF-8
        raise ModelError(f"{path} is damaged", why="a name in it is not text", fix="copy it again, or " + EXPORT_HINT)
    loaded.external_data = any(tensor.data_location == EXTERNAL for tensor in tensors)
    check_external_data(path, tensors)
    mended = check_model(path, loaded.proto)
    functions = sum(function.domain != PLUGINS for function in loaded.proto.functions)
    loaded.changed = bool(mended or loaded.proto.functions)
    loaded.proto, loaded.original_names, loaded.calls = _flat(path, loaded.proto)
    loaded.graphs = dict(onnx_graph.all_graphs(loaded.proto.graph))
    loaded.changed = loaded.changed or loaded.renamed > 0
    custom = len({call.name for call in loaded.calls.values()})
    loaded.assumptions += [
        *([mended] if mended else []),
        *([f"{functions} local functions were inlined before the build"] if functions else []),
        *([f"custom nodes of plugins, priced by their functions, each as one kernel: {custom}"] if custom else []),
    ]
    return loaded


def _flat(
    path: Path, proto: ModelProto, *, plugins: bool = False
) -> tuple[ModelProto, dict[str, str], dict[str, Call]]:
    """A model without local functions, but for those of plugins where these are to stay, and with unique names."""
    ids = [(function.domain, function.name) for function in proto.functions if function.domain == PLUGINS]
    before: dict[str, str] = {}
    calls: dict[str, Call] = {}
    if ids:
        before, _ = onnx_graph.name_nodes(proto)
    try:
        if ids and plugins:
            proto = onnx.inliner.inline_selected_functions(proto, ids, exclude=True)
        else:
            if ids:
                proto, calls = onnx_graph.inline_calls(proto)
            if proto.functions:
                proto = onnx.inliner.inline_local_functions(proto)
    except RuntimeError as error:  # of more inputs than the function has, which the checker lets through
        why = first_line(error).rpartition("failed: ")[2]
        raise ModelError(f"{path}: its functions cannot be inlined", why=why, fix=EXPORT_HINT) from None
    names, _ = onnx_graph.name_nodes(proto)
    calls = {name: calls[old] for name, old in names.items() if old in calls}
    return proto, {name: before.get(old, old) for name, old in names.items()}, calls


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Say what is wrong with a file that cannot be read, or is no protobuf."""
    try:
        yield
    except OSError as error:
        raise ModelError(
            f"{path} cannot be read", why=error.strerror or str(error), fix="check the path and its permissions"
        ) from None
    except (skim.SkimError, DecodeError) as error:
        with path.open("rb") as file:
            head = file.read(64)
        if head.startswith(b"version https://git-lfs"):
            raise ModelError(
                f"{path} is a Git LFS pointer, not the model itself",
                why="the repository was cloned without its large files",
                fix="git lfs pull --include " + path.name,
            ) from None
        text = all(byte in b"\t\r\n" or 32 <= byte < 127 for byte in head)
        raise ModelError(
            f"{path} is not an ONNX model",
            why="it holds text, not an ONNX protobuf"
            if text
            else f"it is not an ONNX protobuf, or it is cut short ({error})",
            fix="check the file's size, or " + EXPORT_HINT,
        ) from None


def _read(path: Path) -> ModelProto:
    try:
        os.fsencode(path).decode()
    except UnicodeDecodeError:
        raise ModelError(
            f"{str(path)!a} cannot be used", why="its name is not UTF-8, which onnx needs", fix="rename the file"
        ) from None
    with _readable(path):
        if not path.exists():
            raise ModelError(
                f"{path}: no such file",
                why=f"there is no {path.absolute()}",
                fix="check the path; the command takes an .onnx file",
            )
        if path.is_dir():
            found = sorted(file.name for file in path.glob("*.onnx"))
            raise ModelError(
                f"{path} is a directory, not an ONNX file",
                why=f"it holds {len(found)} .onnx files",
                fix=f"name the file in it, for example {path / found[0]}" if found else "name an .onnx file",
            )
        if not path.is_file():
            raise ModelError(
                f"{path} is a pipe or a device, not an ONNX file",
                why="the model is read more than once",
                fix="write it to a file first",
            )
        size = path.stat().st_size
        if size > _MAX_BYTES:
            raise ModelError(
                f"{path} is not an ONNX model",
                why=f"it has {size} bytes; a protobuf has at most {_MAX_BYTES}",
                fix="keep large weights beside the model: onnx.save(model, path, save_as_external_data=True)",
            )
        if not size:
            raise ModelError(f"{path} is empty", why="the file has 0 bytes", fix="copy it again, or " + EXPORT_HINT)
        proto = skim.read_model(path, MAX_ELEMENTS)
    if not proto.HasField("graph") or (not proto.graph.node and not proto.graph.output):
        raise ModelError(f"{path} is not an ONNX model", why="it holds no graph", fix=EXPORT_HINT)
    return proto


class Outline(NamedTuple):
    """What tells files apart, and what may be asked of their shapes, without the rest."""

    inputs: tuple[Tensor, ...]
    nodes: int  # Of its main graph
    external: tuple[str, ...]  # Files that hold weights, as seen from the model's folder; they need not be there


def outline(path: Path) -> Outline:
    """The inputs of a model, its size, and the files beside it; nothing else of it is checked."""
    proto = _read(path)
    outside = (tensor for tensor in stored_of(proto).tensors if tensor.data_location == EXTERNAL)
    entries = (entry for tensor in outside for entry in tensor.external_data)
    places = {entry.value for entry in entries if entry.key == "location"}
    return Outline(tuple(graph_inputs(proto)), len(proto.graph.node), tuple(sorted(places)))


def graph_inputs(proto: ModelProto) -> list[Tensor]:
    """The inputs that a caller must feed: graph inputs without an initializer."""
    constants = {tensor.name for tensor in proto.graph.initializer}
    constants.update(sparse.values.name for sparse in proto.graph.sparse_initializer)
    return [onnx_graph.tensor_from_value_info(info) for info in proto.graph.input if info.name not in constants]


class KnownTensors(NamedTuple):
    """The tensors that the nodes of a `Source` are made with, by graph path and name; what inference said."""

    tensors: dict[str, dict[str, Tensor]]
    notes: list[str]
    refused: list[Clash]  # Nodes that inference finds fault with
    idle: frozenset[str] = frozenset()  # Paths of the branches that are not taken


def source_of(
    loaded: LoadedModel,
    given_shapes: Shapes | None = None,
    batch: int | None = None,
    input_files: Mapping[str, Path] | None = None,
    seed: int = 0,
    *,
    feed: bool = True,
    symbols: Mapping[str, int] | None = None,
    known: KnownTensors | None = None,
    instead: Mapping[str, Instead] | None = None,
) -> Source:
    """Bind the dynamic dimensions, infer all shapes and list the nodes with their ops.

    Args:
        batch: Value of ``--batch``.
        input_files: Input name -> ``.npy`` file of ``--loadInputs``; its shape binds dimensions too.
        feed: Whether the model will run. If not, inputs that cannot be made up are taken too, no values are planned,
            and the digest of the file, for which it is read in full, stays empty.
        instead: What to assume of dimensions that nobody gave, by name; None looks for what the graph allows.
    """
    proto = loaded.proto
    inputs = graph_inputs(proto)
    shapes = dict(given_shapes or {})
    files = input_values.check_files(inputs, input_files or {})
    for name, header in files.items():
        shapes.setdefault(name, header.shape)
    if instead is not None:
        binding = bind_shapes(inputs, shapes, batch, symbols=symbols, feed=feed, instead=instead)
        found = None
    else:
        binding, found = _allowed(loaded, shapes, batch, symbols or {}, feed=feed)
    known = known or found or _known_tensors(loaded, binding)
    _mend_outputs(loaded, known.tensors[""])
    notes = [*loaded.assumptions, *binding.assumptions, *known.notes]
    nodes: list[Node] = []
    weights = _stored_weights(loaded.graphs.values())
    for each in onnx_graph.nodes_in(proto, known.tensors):
        op, name = each.op, each.proto.name
        nodes.append(
            Node(
                name=name,
                original_name=loaded.original_names[name],
                graph=each.graph,
                op=op,
                constant=each.constant,
                call=loaded.calls.get(name),
            )
        )
        if each.constant and op.op_type in ("Constant", "ConstantOfShape"):
            weights += _made_weights(each)
    _check_sizes(loaded.path, nodes)
    if feed:
        plans = input_values.plan_inputs(inputs, binding.shapes, nodes, files)
        if any(plan.kind != "file" for plan in plans):
            drawn = "; ".join(f"{plan.name}: {plan.values}" for plan in plans if plan.kind != "file")
            notes.append(f"inputs are random (seed {seed}): {drawn}")
    else:
        plans = [InputTensor(name=t.name, dtype=t.dtype, shape=binding.shapes.get(t.name), kind="none") for t in inputs]
    declared = {tensor.name: tensor.shape or () for tensor in inputs}
    made = {t.name: t for node in nodes if not node.graph for t in node.op.outputs if t is not None}
    wanted = [output.name for output in proto.graph.output]
    read = {tensor.name for node in nodes for tensor in node.op.inputs if tensor is not None}.union(wanted)
    # Outputs that nothing reads, such as the mask of an old Dropout, decide nothing.
    needed = [tensor for node in nodes for tensor in node.op.outputs if tensor is not None and tensor.name in read]
    shaped = sum(map(_is_shaped, needed))
    return Source(
        model=ModelInfo(
            name=loaded.path.stem,
            path=str(loaded.path),
            sha256=loaded.sha256 if feed else "",
            ir_version=proto.ir_version,
            opsets={entry.domain or "ai.onnx": entry.version for entry in proto.opset_import},
            producer=f"{proto.producer_name} {proto.producer_version}".strip(),
            inputs=tuple(msgspec.structs.replace(plan, declared=declared[plan.name]) for plan in plans),
            outputs=tuple(made[name] for name in wanted if name in made),
            parameters=sum(tensor.elements or 0 for tensor in weights if tensor.value is None),
            parameter_bytes=sum(tensor.nbytes or 0 for tensor in weights if tensor.value is None),
            nodes=len(folded(nodes)),
            renamed=loaded.renamed,
            shape_coverage=shaped / len(needed) if needed else 1.0,
            assumptions=tuple(notes),
        ),
        nodes=tuple(nodes),
    )


def tensors_of(
    loaded: LoadedModel, given_shapes: Shapes, batch: int | None = None, symbols: Mapping[str, int] | None = None
) -> KnownTensors:
    """What `source_of` infers, without the nodes."""
    return _known_tensors(
        loaded, bind_shapes(graph_inputs(loaded.proto), given_shapes, batch, symbols=symbols, feed=False)
    )


MOST_ELEMENTS = 2**50
"""A tensor of more is in no memory, and what is said of it would be no number that anybody can use."""


def _check_sizes(path: Path, nodes: Iterable[Node]) -> None:
    for node in nodes:
        for tensor in (*node.op.inputs, *node.op.outputs):
            if tensor is None or tensor.shape is None:
                continue
            if len(tensor.shape) > shape_inference.MOST_RANK or (tensor.elements or 0) > MOST_ELEMENTS:
                shown = format_shape(tensor.shape[:8]) + ("x…" if len(tensor.shape) > 8 else "")
                raise ModelError(
                    f"{path}: tensor {tensor.name!r} is larger than any memory",
                    why=f"{len(tensor.shape)} dimensions: {shown}",
                    fix="--shapes or --batch with smaller numbers, or " + EXPORT_HINT,
                )


def bound_as_allowed(
    loaded: LoadedModel, given_shapes: Shapes, batch: int | None, symbols: Mapping[str, int] | None = None
) -> Binding:
    """How `source_of` binds a model that will not run."""
    return _allowed(loaded, given_shapes, batch, symbols or {}, feed=False)[0]


def _allowed(
    loaded: LoadedModel, shapes: Shapes, batch: int | None, symbols: Mapping[str, int], *, feed: bool
) -> tuple[Binding, KnownTensors | None]:
    """The binding, with other guesses where the graph contradicts one; and what is known of the tensors then."""
    inputs = graph_inputs(loaded.proto)
    key = (tuple(sorted(shapes.items())), batch, tuple(sorted(symbols.items())))
    binding = bind_shapes(inputs, shapes, batch, symbols, feed=feed, instead=loaded.instead.get(key))
    if not binding.guesses or key in loaded.instead:
        return binding, None
    latest: tuple[Binding, KnownTensors | None] = binding, None

    def attempt(instead: Mapping[str, Instead]) -> list[Clash]:
        nonlocal latest
        bound = bind_shapes(inputs, shapes, batch, symbols, feed=feed, instead=instead)
        known = _known_tensors(loaded, bound)
        latest = bound, known
        return _clashes(loaded, known)

    chosen, left = settled(binding.guesses, attempt, len(loaded.original_names))
    loaded.instead[key] = chosen
    if not chosen and not left:
        return latest
    binding = bind_shapes(inputs, shapes, batch, symbols, feed=feed, instead=chosen)
    if left:
        names = ", ".join(guess.name for guess in binding.guesses)
        binding.assumptions.append(
            f"no numbers were found for {names} with which all shapes fit: {left[0].node!r} {left[0].reason}"
        )
    return binding, None


def _clashes(loaded: LoadedModel, known: KnownTensors) -> list[Clash]:
    """The nodes whose inputs cannot belong together; of an If of unknown condition those of its better branch."""
    refused = {(clash.graph, clash.node): clash for clash in known.refused}
    own: dict[str, list[Clash]] = defaultdict(list)
    controls: dict[str, list[tuple[str, list[str]]]] = defaultdict(list)
    for each in onnx_graph.nodes_in(loaded.proto, known.tensors):
        told = clash_of(each.op)
        if told is not None:
            own[each.graph].append(Clash(each.graph, each.proto.name, *told))
        elif (each.graph, each.proto.name) in refused:
            own[each.graph].append(refused[each.graph, each.proto.name])
        bodies = onnx_graph.subgraphs(each.proto) if len(loaded.graphs) > 1 else ()
        paths = [onnx_graph.subgraph_path(each.proto.name, attribute) for attribute, _ in bodies]
        if paths:
            controls[each.graph].append((each.op.op_type, [path for path in paths if path not in known.idle]))

    def inside(path: str) -> list[Clash]:
        found = list(own[path])
        for op_type, paths in controls[path]:
            options = [inside(inner) for inner in paths]
            options = sorted(options, key=len)[:1] if op_type == "If" else options
            found += [one for each in options for one in each]
        return found

    return inside("")


def _mend_outputs(loaded: LoadedModel, known: Mapping[str, Tensor]) -> None:
    """Have graph outputs declare the rank that they have, and no wrong size: ONNX Runtime fails on a second run."""
    for output in loaded.proto.graph.output:
        found, declared = known.get(output.name), output.type.tensor_type
        if found is None or found.shape is None or found.kind != "tensor" or not declared.HasField("shape"):
            continue
        dims = declared.shape.dim
        wrong = [
            dim
            for dim, size in zip(dims, found.shape, strict=False)
            if dim.dim_value > 0 and isinstance(size, int) and dim.dim_value != size
        ]
        if len(dims) == len(found.shape) and not wrong:
            continue
        said = format_shape(onnx_graph.tensor_from_value_info(output).shape)
        loaded.assumptions.append(
            f"the file declares output {output.name!r} as {said}, and it is {format_shape(found.shape)}: mended"
        )
        loaded.changed = True
        if len(dims) != len(found.shape):
            del dims[:]
            for _ in found.shape:
                dims.add()
        else:
            for dim in wrong:
                dim.ClearField("dim_value")


def _known_tensors(loaded: LoadedModel, binding: Binding) -> KnownTensors:
    notes: list[str] = []
    known = {
        path: {name: _bound(tensor, path, binding) for name, tensor in onnx_graph.declared_tensors(graph).items()}
        for path, graph in loaded.graphs.items()
    }
    main = _infer(loaded, binding, notes).graph
    outputs = {output.name for output in main.output}
    bound = any(tensor.elements is None for tensor in graph_inputs(loaded.proto) if tensor.kind == "tensor")
    for path, graph in onnx_graph.all_graphs(main) if len(known) > 1 else [("", main)]:
        found = known[path]
        for name, tensor in onnx_graph.declared_tensors(graph).items():
            declared = found.get(name)
            if path == "" and name in outputs and declared is not None and (tensor.shape is None or not bound):
                # A declared output counts where less is inferred, unless the binding may have outdated it.
                settled = tensor.elements is not None or not declared.shape or declared.elements is None
                found[name] = tensor if settled else msgspec.structs.replace(tensor, shape=declared.shape)
            else:
                found[name] = tensor
    for (path, name), tensor in loaded.seen.items():
        if path in known and (name not in known[path] or known[path][name].elements is None):
            known[path][name] = tensor
    faults = complete(loaded.proto, known)
    refused = [Clash(path, node, f"is refused: {why}") for path, node, why in faults.refused]
    return KnownTensors(known, notes, refused, faults.idle)


def _bound(tensor: Tensor, path: str, binding: Binding) -> Tensor:
    """A tensor as declared, with the dimensions that are bound."""
    if not path and tensor.name in binding.shapes:
        return msgspec.structs.replace(tensor, shape=binding.shapes[tensor.name])
    if tensor.shape is None or not any(isinstance(dim, str) for dim in tensor.shape):
        return tensor
    shape: tuple[Dim, ...] = tuple(
        binding.symbols.get(dim, dim) if isinstance(dim, str) else dim for dim in tensor.shape
    )
    return msgspec.structs.replace(tensor, shape=shape)


def _infer(loaded: LoadedModel, binding: Binding, notes: list[str]) -> ModelProto:
    """Shapes of all tensors by `onnx.shape_inference`; what fails is said, and leaves what is declared."""
    for declared in (False, True):
        bare, graphs = onnx_graph.for_inference(loaded.proto, list(loaded.graphs.items()), declared=declared)
        _bind_graphs(graphs, binding)
        _state_default(graphs)
        try:
            return shape_inference.infer_shapes(bare)
        except shape_inference.InferenceError as error:
            reason = first_line(error)
    notes.append(f"shape inference stopped: {reason}")
    return bare


def _bind_graphs(graphs: Sequence[tuple[str, GraphProto]], binding: Binding) -> None:
    for info in graphs[0][1].input:
        if info.name in binding.shapes:
            tensor = info.type.tensor_type
            tensor.shape.ClearField("dim")
            for number in binding.shapes[info.name]:
                tensor.shape.dim.add().dim_value = number
    if not binding.symbols:
        return
    for path, graph in graphs:
        for info in (*(graph.input if path else ()), *graph.output, *graph.value_info):
            for dim in info.type.tensor_type.shape.dim:
                if dim.dim_param in binding.symbols:
                    dim.dim_value = binding.symbols[dim.dim_param]


def _state_default(graphs: Sequence[tuple[str, GraphProto]]) -> None:
    for _, graph in graphs:
        for node in graph.node:
            if node.op_type == "STFT":
                node.CopyFrom(one_sided(node))


def _stored_weights(graphs: Iterable[GraphProto]) -> list[Tensor]:
    """Initializers; of a sparse one, the values and the indices that it stores."""
    found: list[Tensor] = []
    for graph in graphs:
        found += map(onnx_graph.tensor_from_initializer, graph.initializer)
        for sparse in graph.sparse_initializer:
            found += _stored_of(sparse)
    return found


def _stored_of(sparse: SparseTensorProto) -> tuple[Tensor, Tensor]:
    """Values and indices; however few these are, they are no shape, axes or the like."""
    values, indices = map(onnx_graph.tensor_from_initializer, (sparse.values, sparse.indices))
    return msgspec.structs.replace(values, value=None), msgspec.structs.replace(indices, value=None)


def _made_weights(node: onnx_graph.GraphNode) -> Iterator[Tensor]:
    """Weights that the file makes with nodes: Constant, and ConstantOfShape of a fixed shape."""
    sparse = [attribute.sparse_tensor for attribute in node.proto.attribute if attribute.name == "sparse_value"]
    for stored in sparse:
        yield from _stored_of(stored)
    if not sparse:
        yield from (tensor for tensor in node.op.outputs if tensor is not None)


def _is_shaped(tensor: Tensor) -> bool:
    """Whether the shape is known; a map, and a sequence of maps, has none that could be."""
    return tensor.elements is not None or tensor.kind == "map" or (tensor.kind, tensor.dtype) == ("sequence", "unknown")
