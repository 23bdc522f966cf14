"""An ONNX file read, checked, given unique node names, bound to shapes and turned into records.

Weights stay where they are: external data is never opened (its presence and size are checked),
and embedded weights are neither copied nor looked at.
"""

from __future__ import annotations

import copy
import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import onnx
import onnx.inliner
from google.protobuf.message import DecodeError, Message
from onnx import ModelProto, TensorProto

from profiler import onnx_graph
from profiler.errors import MissingError, ModelError
from profiler.records import ModelInfo, Node, Source, Tensor
from profiler.source import inputs as input_values
from profiler.source.constants import fold_shape_constants
from profiler.source.shapes import bind_shapes

_MAX_BYTES = 2**31 - 1
"""Largest protobuf that can be read; ONNX keeps bigger weights in files beside the model."""
_EXPORT_HINT = "export the model again, for example with torch.onnx.export(..., dynamo=True)"


class LoadedModel:
    """An ONNX model in memory with unique node names.

    Attributes:
        path: The file it came from.
        proto: The model; external data is not loaded.
        sha256: Digest of the file.
        original_names: Unique node name -> the name in the file.
        changed: Whether ``proto`` differs from the file, so that a runtime must be given
            ``proto`` instead of the file.
        assumptions: What was repaired, in words.
    """

    def __init__(self, path: Path, proto: ModelProto, sha256: str) -> None:
        self.path = path
        self.proto = proto
        self.sha256 = sha256
        self.original_names: dict[str, str] = {}
        self.changed = False
        self.assumptions: list[str] = []

    @property
    def renamed(self) -> int:
        """Number of nodes whose name in the file was empty or taken."""
        return sum(1 for new, old in self.original_names.items() if new != old)

    @property
    def external_data(self) -> bool:
        """Whether some weights lie in files beside the model."""
        return any(tensor.data_location == TensorProto.EXTERNAL for tensor in _stored_tensors(self.proto))


def load_model(path: str | Path) -> LoadedModel:
    """Read and check an ONNX file; give unnamed and duplicate nodes unique names.

    Raises:
        ModelError: The path is no readable ONNX file, or the ONNX checker rejects it.
        MissingError: A file with external data is absent or too short.
    """
    path = Path(path)
    proto, digest = _read(path)
    loaded = LoadedModel(path, proto, digest)
    with _damage_shown(path):
        _check_external_data(path, proto)
        _check(path, loaded)
        if proto.functions:
            # Runtimes inline local functions under names of their own; done here, provenance is kept.
            loaded.proto = onnx.inliner.inline_local_functions(proto)
            loaded.changed = True
            loaded.assumptions.append(f"{len(proto.functions)} local functions were inlined before the build")
        loaded.original_names = _name_nodes(loaded.proto)
        loaded.changed = loaded.changed or loaded.renamed > 0
    return loaded


@contextmanager
def _damage_shown(path: Path) -> Iterator[None]:
    """Say which file it is when one of its names turns out to be no text, which protobuf finds on reading it."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise ModelError(
            f"{path} is damaged", why=f"a name in it is not text: {error}", fix="copy it again, or " + _EXPORT_HINT
        ) from None


def _read(path: Path) -> tuple[ModelProto, str]:
    try:
        os.fsencode(path).decode()
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
        if path.stat().st_size > _MAX_BYTES:
            raise ModelError(
                f"{path} is not an ONNX model",
                why=f"it has {path.stat().st_size} bytes; a protobuf has at most {_MAX_BYTES}",
                fix="keep large weights beside the model: onnx.save(model, path, save_as_external_data=True)",
            )
        data = path.read_bytes()
    except UnicodeDecodeError:
        raise ModelError(
            f"{str(path)!a} cannot be used", why="its name is not UTF-8, which onnx needs", fix="rename the file"
        ) from None
    except OSError as error:
        raise ModelError(
            f"{path} cannot be read", why=error.strerror or str(error), fix="check the path and its permissions"
        ) from None
    if not data:
        raise ModelError(f"{path} is empty", why="the file has 0 bytes", fix="copy it again, or " + _EXPORT_HINT)
    proto = ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        head = data[:64]
        text = all(byte in b"\t\r\n" or 32 <= byte < 127 for byte in head)
        if head.startswith(b"version https://git-lfs"):
            raise ModelError(
                f"{path} is a Git LFS pointer, not the model itself",
                why="the repository was cloned without its large files",
                fix="git lfs pull --include " + path.name,
            ) from None
        why = (
            "it holds text, not an ONNX protobuf"
            if text
            else f"it is not an ONNX protobuf, or it is cut short ({error})"
        )
        raise ModelError(
            f"{path} is not an ONNX model", why=why, fix="check the file's size, or " + _EXPORT_HINT
        ) from None
    if not _is_text(proto):
        raise ModelError(f"{path} is damaged", why="a name in it is not text", fix="copy it again, or " + _EXPORT_HINT)
    if not proto.HasField("graph") or (not proto.graph.node and not proto.graph.output):
        raise ModelError(f"{path} is not an ONNX model", why="it holds no graph", fix=_EXPORT_HINT)
    return proto, hashlib.sha256(data).hexdigest()


def _is_text(message: Message) -> bool:
    """Whether every string in the message is; protobuf hands out bytes, or fails, where one is damaged."""
    if isinstance(message, TensorProto):  # its weights are not looked at
        return isinstance(message.name, str) and all(map(_is_text, message.external_data))
    for field, value in message.ListFields():
        items = [value] if isinstance(value, (str, bytes, Message)) else value
        if field.type == field.TYPE_STRING and not all(isinstance(item, str) for item in items):
            return False
        if field.type == field.TYPE_MESSAGE and not all(map(_is_text, items)):
            return False
    return True


def _check_external_data(path: Path, proto: ModelProto) -> None:
    for tensor in _stored_tensors(proto):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        size = onnx_graph.tensor_from_initializer(tensor).nbytes
        try:
            offset, length = int(entries.get("offset", 0)), int(entries.get("length", 0)) or size or 0
        except ValueError:
            offset, length = -1, -1
        if not location or offset < 0 or length < 0 or (size is not None and length != size):
            said = ", ".join(f"{key}={value}" for key, value in entries.items()) or "nothing"
            raise ModelError(
                f"{path}: where the weights of {tensor.name!r} lie is damaged",
                why=f"it says {said}; the tensor has {size} bytes",
                fix=_EXPORT_HINT,
            )
        file = path.parent / location
        hint = f"copy {location!r} beside {path.name}: an exporter writes both"
        if not file.is_file():
            raise MissingError(f"{path}: the weights of {tensor.name!r} are missing", why=f"no file {file}", fix=hint)
        if file.stat().st_size < offset + length:
            raise MissingError(
                f"{path}: the weights of {tensor.name!r} are cut short",
                why=f"{file} has {file.stat().st_size} bytes, {offset + length} are needed",
                fix=hint,
            )


def _stored_tensors(proto: ModelProto) -> Iterator[TensorProto]:
    """Every tensor that the file holds or points at: initializers, and attributes of nodes (Constant)."""
    for _, graph in onnx_graph.all_graphs(proto.graph):
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.TENSOR:
                    yield attribute.t


def _check(path: Path, loaded: LoadedModel) -> None:
    """The ONNX checker, with one defect mended: a graph output that declares no shape.

    onnx-graphsurgeon writes such outputs and every runtime takes them. The mend is not made where
    node names repeat too, because runtimes refuse that file as it stands.
    """
    try:
        onnx.checker.check_model(str(path))
    except onnx.checker.ValidationError as error:
        first = _first_line(error)
        names = Counter(node.name for node in loaded.proto.graph.node if node.name)
        duplicates = [name for name, count in names.items() if count > 1]
        shapeless = [
            output.name
            for output in loaded.proto.graph.output
            if output.type.WhichOneof("value") == "tensor_type" and not output.type.tensor_type.HasField("shape")
        ]
        if shapeless and not duplicates and "shape" in first:
            _fill_output_shapes(loaded)
            try:
                # External data was checked before, and the checker would look for it beside the process.
                onnx.checker.check_model(onnx_graph.without_weights(loaded.proto))
            except onnx.checker.ValidationError as second:
                first = _first_line(second)
            else:
                loaded.assumptions.append(
                    "the file declares no shape for " + ", ".join(shapeless) + ": filled in by shape inference"
                )
                loaded.changed = True
                return
        if duplicates:
            first += f"; two nodes are called {duplicates[0]!r}"
        raise ModelError(f"{path} fails the ONNX checker", why=first, fix=_EXPORT_HINT) from None
    except (RuntimeError, ValueError, OSError) as error:
        raise ModelError(f"{path} cannot be checked", why=_first_line(error), fix=_EXPORT_HINT) from None


def _fill_output_shapes(loaded: LoadedModel) -> None:
    inferred = _infer(onnx_graph.without_weights(loaded.proto), [])
    found = {output.name: output for output in inferred.graph.output}
    for output in loaded.proto.graph.output:
        if not output.type.tensor_type.HasField("shape") and output.name in found:
            output.CopyFrom(found[output.name])


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _name_nodes(proto: ModelProto) -> dict[str, str]:
    """Give every node of every graph a name that no other node has.

    The first bearer keeps a name. Others, and nodes without one, are called after their op type
    and place, with a counter where that is taken; the same file always gives the same names.
    """
    taken = {node.name for _, graph in onnx_graph.all_graphs(proto.graph) for node in graph.node if node.name}
    used: set[str] = set()
    originals: dict[str, str] = {}
    counters: dict[str, int] = defaultdict(int)

    def fresh(stem: str) -> str:
        name = stem
        while name in taken or name in used:
            counters[stem] += 1
            name = f"{stem}_{counters[stem]}"
        return name

    def visit(graph: onnx.GraphProto, path: str) -> None:
        for index, node in enumerate(graph.node):
            old = node.name
            if not old:
                node.name = fresh(f"{path}/{node.op_type}_{index}" if path else f"{node.op_type}_{index}")
            elif old in used:
                node.name = fresh(old)
            used.add(node.name)
            originals[node.name] = old
            for attribute, body in onnx_graph.subgraphs(node):
                visit(body, onnx_graph.subgraph_path(node.name, attribute))

    visit(proto.graph, "")
    return originals


def graph_inputs(proto: ModelProto) -> list[Tensor]:
    """The inputs that a caller must feed: graph inputs without an initializer."""
    constants = {tensor.name for tensor in proto.graph.initializer}
    return [onnx_graph.tensor_from_value_info(info) for info in proto.graph.input if info.name not in constants]


def source_of(
    loaded: LoadedModel,
    given_shapes: Mapping[str, tuple[int, ...]] | None = None,
    batch: int | None = None,
    input_files: Mapping[str, Path] | None = None,
    seed: int = 0,
) -> Source:
    """Bind the dynamic dimensions, infer all shapes and list the nodes with their ops.

    Args:
        loaded: Result of `load_model`.
        given_shapes: Result of `shapes.parse_shapes`.
        batch: Value of ``--batch``.
        input_files: Input name -> ``.npy`` file of ``--loadInputs``; its shape binds dimensions too.
        seed: Seed of the random inputs, named in the assumptions.

    Raises:
        UsageError: The shapes do not fit the model; see `shapes.bind_shapes`.
    """
    with _damage_shown(loaded.path):
        return _source_of(loaded, given_shapes or {}, batch, input_files or {}, seed)


def _source_of(
    loaded: LoadedModel,
    given_shapes: Mapping[str, tuple[int, ...]],
    batch: int | None,
    input_files: Mapping[str, Path],
    seed: int,
) -> Source:
    proto = loaded.proto
    inputs = graph_inputs(proto)
    shapes = dict(given_shapes)
    files = input_values.check_files(inputs, input_files)
    for name, header in files.items():
        shapes.setdefault(name, header.shape)
    binding = bind_shapes(inputs, shapes, batch)
    notes = [*loaded.assumptions, *binding.assumptions]
    bare = onnx_graph.without_weights(proto)
    _bind_graph(bare, binding.shapes, binding.symbols)
    known = _known_tensors(bare, notes)
    constants = {t.name: onnx_graph.tensor_from_initializer(t) for t in proto.graph.initializer}
    known[""].update(constants)
    nodes = tuple(
        Node(
            name=found.proto.name,
            original_name=loaded.original_names[found.proto.name],
            graph=found.graph,
            op=found.op,
            constant=found.constant,
        )
        for found in onnx_graph.nodes_in(bare, known)
    )
    plans = input_values.plan_inputs(inputs, binding.shapes, nodes, files)
    if any(plan.kind != "file" for plan in plans):
        drawn = "; ".join(f"{plan.name}: {plan.values}" for plan in plans if plan.kind != "file")
        notes.append(f"inputs are random (seed {seed}): {drawn}")
    made = {t.name: t for node in nodes if not node.graph for t in node.op.outputs if t is not None}
    wanted = [output.name for output in proto.graph.output]
    read = {tensor.name for node in nodes for tensor in node.op.inputs if tensor is not None}.union(wanted)
    # Outputs that nothing reads, such as the mask of an old Dropout, decide nothing.
    needed = [tensor for node in nodes for tensor in node.op.outputs if tensor is not None and tensor.name in read]
    shaped = sum(1 for tensor in needed if tensor.elements is not None)
    weights = [*_stored_weights(proto), *_computed_weights(nodes)]
    return Source(
        model=ModelInfo(
            name=loaded.path.stem,
            path=str(loaded.path),
            sha256=loaded.sha256,
            ir_version=proto.ir_version,
            opsets={entry.domain or "ai.onnx": entry.version for entry in proto.opset_import},
            producer=f"{proto.producer_name} {proto.producer_version}".strip(),
            inputs=tuple(plans),
            outputs=tuple(made[name] for name in wanted if name in made),
            parameters=sum(tensor.elements or 0 for tensor in weights if tensor.value is None),
            parameter_bytes=sum(tensor.nbytes or 0 for tensor in weights if tensor.value is None),
            nodes=len(nodes),
            renamed=loaded.renamed,
            shape_coverage=shaped / len(needed) if needed else 1.0,
            assumptions=tuple(notes),
        ),
        nodes=nodes,
    )


def _bind_graph(proto: ModelProto, shapes: Mapping[str, tuple[int, ...]], symbols: Mapping[str, int]) -> None:
    for info in proto.graph.input:
        if info.name in shapes:
            tensor = info.type.tensor_type
            tensor.shape.ClearField("dim")
            for number in shapes[info.name]:
                tensor.shape.dim.add().dim_value = number
    for _, graph in onnx_graph.all_graphs(proto.graph):
        for info in (*graph.output, *graph.value_info):
            if info.type.WhichOneof("value") == "tensor_type":
                for dim in info.type.tensor_type.shape.dim:
                    if dim.dim_param in symbols:
                        dim.dim_value = symbols[dim.dim_param]


def _known_tensors(bare: ModelProto, notes: list[str]) -> dict[str, dict[str, Tensor]]:
    """What is known of every tensor before the run, by graph path and name."""
    trial = copy.deepcopy(bare)
    values = fold_shape_constants(trial)
    known: dict[str, dict[str, Tensor]] = {}
    for path, graph in onnx_graph.all_graphs(_infer(trial, notes).graph):
        found = known.setdefault(path, {})
        for info in (*graph.value_info, *graph.output):
            found[info.name] = onnx_graph.tensor_from_value_info(info)
        for name, value in values.get(path, {}).items():
            found[name] = onnx_graph.tensor_from_initializer(onnx.numpy_helper.from_array(value, name))
    return known


def _infer(bare: ModelProto, notes: list[str]) -> ModelProto:
    """Shapes of all tensors by onnx.shape_inference; what fails is said and left unknown.

    Declared shapes are dropped first: with the inputs bound they are either the same as what is
    inferred, or stale. That of an output comes back where nothing is inferred.
    """
    trial = copy.deepcopy(bare)
    for _, graph in onnx_graph.all_graphs(trial.graph):
        graph.ClearField("value_info")
    for output in trial.graph.output:
        if output.type.WhichOneof("value") == "tensor_type":
            output.type.tensor_type.ClearField("shape")
    for candidate in (trial, bare):
        try:
            inferred = onnx.shape_inference.infer_shapes(candidate, data_prop=True)
        except (onnx.shape_inference.InferenceError, RuntimeError) as error:
            reason = _first_line(error)
            continue
        for output, declared in zip(inferred.graph.output, bare.graph.output, strict=True):
            if output.type.WhichOneof("value") == "tensor_type":
                own, shape = output.type.tensor_type, declared.type.tensor_type.shape
                if not own.HasField("shape") and not _stale(shape):
                    own.shape.CopyFrom(shape)
        return inferred
    notes.append(f"shape inference stopped: {reason}")
    return bare


def _stale(shape: onnx.TensorShapeProto) -> bool:
    """A declared output shape that binding may have outdated: symbolic, unknown, or rank 0."""
    return not shape.dim or any(not dim.HasField("dim_value") or dim.dim_value < 0 for dim in shape.dim)


def _stored_weights(proto: ModelProto) -> Iterator[Tensor]:
    """Initializers of all graphs; of a sparse one, the values that it stores."""
    for _, graph in onnx_graph.all_graphs(proto.graph):
        yield from map(onnx_graph.tensor_from_initializer, graph.initializer)
        yield from (onnx_graph.tensor_from_initializer(sparse.values) for sparse in graph.sparse_initializer)


def _computed_weights(nodes: Sequence[Node]) -> Iterator[Tensor]:
    """Weights that the file makes with nodes: Constant, and ConstantOfShape of a fixed shape."""
    for node in nodes:
        if node.constant and node.op.op_type in ("Constant", "ConstantOfShape"):
            yield from (tensor for tensor in node.op.outputs if tensor is not None)


def unknown_shapes(source: Source) -> list[str]:
    """Node outputs whose shape stays unknown before the run, as ``node: tensor``."""
    return [
        f"{node.name}: {tensor.name}"
        for node in source.nodes
        for tensor in node.op.outputs
        if tensor is not None and tensor.elements is None
    ]
