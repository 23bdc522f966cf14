"""An ONNX file read, checked, given unique node names, bound to shapes and turned into records.

Weights stay where they are: external data is never opened (its presence and size are checked),
and embedded weights are neither copied nor looked at.
"""

from __future__ import annotations

import copy
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import onnx
import onnx.inliner
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto

from profiler import onnx_graph
from profiler.errors import MissingError, ModelError
from profiler.records import ModelInfo, Node, Source, Tensor
from profiler.source import inputs as input_values
from profiler.source.shapes import bind_shapes

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
        return any(
            tensor.data_location == TensorProto.EXTERNAL
            for _, graph in onnx_graph.all_graphs(self.proto.graph)
            for tensor in graph.initializer
        )


def load_model(path: str | Path) -> LoadedModel:
    """Read and check an ONNX file; give unnamed and duplicate nodes unique names.

    Raises:
        ModelError: The path is no readable ONNX file, or the ONNX checker rejects it.
        MissingError: A file with external data is absent or too short.
    """
    path = Path(path)
    proto, digest = _read(path)
    loaded = LoadedModel(path, proto, digest)
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


def _read(path: Path) -> tuple[ModelProto, str]:
    if not path.exists():
        raise ModelError(f"{path}: no such file", fix="check the path; the command takes an .onnx file")
    if path.is_dir():
        found = sorted(file.name for file in path.glob("*.onnx"))
        raise ModelError(
            f"{path} is a directory, not an ONNX file",
            fix=f"name the file in it, for example {path / found[0]}" if found else "name an .onnx file",
        )
    try:
        data = path.read_bytes()
    except PermissionError as error:
        raise ModelError(f"{path} cannot be read", why=str(error), fix=f"chmod +r {path}") from None
    if not data:
        raise ModelError(f"{path} is empty", why="the file has 0 bytes", fix="copy or " + _EXPORT_HINT)
    proto = ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        head = data[:64]
        text = all(byte in b"\t\r\n" or 32 <= byte < 127 for byte in head)
        if head.startswith(b"version https://git-lfs"):
            raise ModelError(
                f"{path} is a Git LFS pointer, not the model itself", fix="git lfs pull --include " + path.name
            ) from None
        why = (
            "it holds text, not an ONNX protobuf"
            if text
            else f"it is not an ONNX protobuf, or it is cut short ({error})"
        )
        raise ModelError(
            f"{path} is not an ONNX model", why=why, fix="check the file's size, or " + _EXPORT_HINT
        ) from None
    if not proto.HasField("graph") or (not proto.graph.node and not proto.graph.output):
        raise ModelError(f"{path} is not an ONNX model", why="it holds no graph", fix=_EXPORT_HINT)
    return proto, hashlib.sha256(data).hexdigest()


def _check_external_data(path: Path, proto: ModelProto) -> None:
    for _, graph in onnx_graph.all_graphs(proto.graph):
        for tensor in graph.initializer:
            if tensor.data_location != TensorProto.EXTERNAL:
                continue
            entries = {entry.key: entry.value for entry in tensor.external_data}
            file = path.parent / entries.get("location", "")
            hint = f"copy {entries.get('location')!r} beside {path.name}: an exporter writes both"
            if not file.is_file():
                raise MissingError(
                    f"{path}: the weights of {tensor.name!r} are missing", why=f"no file {file}", fix=hint
                )
            need = int(entries.get("offset", 0)) + int(entries.get("length", 0))
            if file.stat().st_size < need:
                raise MissingError(
                    f"{path}: the weights of {tensor.name!r} are cut short",
                    why=f"{file} has {file.stat().st_size} bytes, {need} are needed",
                    fix=hint,
                )


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

    def fresh(stem: str) -> str:
        name, counter = stem, 0
        while name in taken or name in used:
            counter += 1
            name = f"{stem}_{counter}"
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
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    visit(attribute.g, onnx_graph.subgraph_path(node.name, attribute.name))
                for number, body in enumerate(attribute.graphs):
                    visit(body, onnx_graph.subgraph_path(node.name, f"{attribute.name}.{number}"))

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
    proto = loaded.proto
    inputs = graph_inputs(proto)
    shapes = dict(given_shapes or {})
    files = input_values.check_files(inputs, input_files or {})
    for name, header in files.items():
        shapes.setdefault(name, header.shape)
    binding = bind_shapes(inputs, shapes, batch)
    notes = [*loaded.assumptions, *binding.assumptions]
    bare = onnx_graph.without_weights(proto)
    _bind_graph(bare, binding.shapes, binding.symbols)
    inferred = _infer(bare, notes)
    constants = {t.name: onnx_graph.tensor_from_initializer(t) for t in proto.graph.initializer}
    nodes = tuple(
        Node(
            name=found.proto.name,
            original_name=loaded.original_names[found.proto.name],
            graph=found.graph,
            op=found.op,
            constant=found.constant,
        )
        for found in onnx_graph.nodes_in(inferred, constants)
    )
    plans = input_values.plan_inputs(inputs, binding.shapes, nodes, files)
    if any(plan.kind != "file" for plan in plans):
        drawn = "; ".join(f"{plan.name}: {plan.values}" for plan in plans if plan.kind != "file")
        notes.append(f"inputs are random (seed {seed}): {drawn}")
    outputs = [tensor for node in nodes if not node.graph for tensor in node.op.outputs if tensor is not None]
    wanted = {output.name for output in proto.graph.output}
    read = {tensor.name for node in nodes for tensor in node.op.inputs if tensor is not None} | wanted
    # Outputs that nothing reads, such as the mask of an old Dropout, decide nothing.
    needed = [tensor for node in nodes for tensor in node.op.outputs if tensor is not None and tensor.name in read]
    known = sum(1 for tensor in needed if tensor.elements is not None)
    weights = [*constants.values(), *_computed_weights(nodes)]
    return Source(
        model=ModelInfo(
            name=loaded.path.stem,
            path=str(loaded.path),
            sha256=loaded.sha256,
            ir_version=proto.ir_version,
            opsets={entry.domain or "ai.onnx": entry.version for entry in proto.opset_import},
            producer=f"{proto.producer_name} {proto.producer_version}".strip(),
            inputs=tuple(plans),
            outputs=tuple(tensor for tensor in outputs if tensor.name in wanted),
            parameters=sum(tensor.elements or 0 for tensor in weights if tensor.value is None),
            parameter_bytes=sum(tensor.nbytes or 0 for tensor in weights if tensor.value is None),
            nodes=len(nodes),
            renamed=loaded.renamed,
            shape_coverage=known / len(needed) if needed else 1.0,
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


def _infer(bare: ModelProto, notes: list[str]) -> ModelProto:
    """Shapes of all tensors by onnx.shape_inference; what fails is said and left unknown.

    Declared shapes of inner tensors are dropped first: with the inputs bound they are either the
    same as what is inferred, or stale.
    """
    trial = copy.deepcopy(bare)
    for _, graph in onnx_graph.all_graphs(trial.graph):
        graph.ClearField("value_info")
    for output in trial.graph.output:
        if output.type.WhichOneof("value") == "tensor_type" and _stale(output.type.tensor_type.shape):
            output.type.tensor_type.ClearField("shape")
    for candidate in (trial, bare):
        try:
            return onnx.shape_inference.infer_shapes(candidate, data_prop=True)
        except (onnx.shape_inference.InferenceError, RuntimeError) as error:
            reason = _first_line(error)
    notes.append(f"shape inference stopped: {reason}")
    return bare


def _stale(shape: onnx.TensorShapeProto) -> bool:
    """A declared output shape that binding may have outdated: symbolic, unknown, or rank 0."""
    return not shape.dim or any(not dim.HasField("dim_value") or dim.dim_value < 0 for dim in shape.dim)


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
