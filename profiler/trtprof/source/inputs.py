"""Which values each graph input gets: from a file, or random but valid for the ops that read it.

Random integers into a Gather lie inside its table, a mask is 0 or 1, a sequence length the length of the sequence.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trtprof.base import units
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.input_file import open_file
from trtprof.base.op_kinds import SHAPE_INPUTS
from trtprof.base.records import Dim, InputTensor, Node, Tensor
from trtprof.base.units import NUMPY_DTYPES
from trtprof.source.shapes import Shapes

_MOVES_DATA = frozenset(
    {"Cast", "Identity", "Unsqueeze", "Squeeze", "Reshape", "Transpose", "Slice", "Concat", "Expand", "Flatten",
     "Tile", "Split"}
)  # fmt: skip
# A quoted name ends at its quote; a file on a Windows drive holds a colon too.
_QUOTED = re.compile(r"""(?:'(?P<single>[^']+)'|"(?P<double>[^"]+)")\s*:\s*(?P<file>.+)""")
_DRIVE = re.compile(r"(?P<name>.+):(?P<file>[A-Za-z]:[\\/].*)")
_SEQUENCE_LENGTHS: dict[str, int] = {"LSTM": 4, "GRU": 4, "RNN": 4}


class FileHeader(NamedTuple):
    """What is known of an input file without reading it."""

    path: Path
    shape: tuple[int, ...]


class _Range(NamedTuple):
    low: int
    high: int
    why: str
    hard: bool = True  # Values outside are refused by the op; otherwise they only make it do more of its work


def parse_load_inputs(specs: Iterable[str]) -> dict[str, Path]:
    r"""Files by input name from ``--loadInputs`` values: ``name:file[,name:file]`` (trtexec's form).

    Otherwise the last colon parts name and file, as in ``--shapes``, unless it is that of a drive (``x:C:\x.npy``) or
    only an earlier one leaves a file that exists.
    """
    files: dict[str, Path] = {}
    for spec in specs:
        for item in spec.split(","):
            name, file = _name_and_file(item.strip())
            if not name or not file:
                raise UsageError(
                    f"--loadInputs {item!r} cannot be read",
                    why="it takes an input name, a colon and a file",
                    fix="--loadInputs input:values.npy[,other:values.npy]",
                )
            if name in files:
                raise UsageError(
                    f"--loadInputs names input {name!r} twice",
                    why=f"it gives {files[name]} and {file}",
                    fix="give each input one file",
                )
            if not Path(file).is_file():
                raise MissingError(
                    f"--loadInputs: no file {file}",
                    why=f"there is no file {Path(file).absolute()}",
                    fix=f"check the path given for input {name!r}; quote a name that holds a colon",
                )
            files[name] = Path(file)
    return files


def _name_and_file(item: str) -> tuple[str, str]:
    quoted = _QUOTED.fullmatch(item)
    if quoted:
        return quoted["single"] or quoted["double"], quoted["file"]
    drive = _DRIVE.fullmatch(item)
    if drive:
        return drive["name"], drive["file"]
    splits = [(item[: colon.start()].strip(), item[colon.end() :].strip()) for colon in re.finditer(":", item)]
    for name, file in reversed(splits):
        if name and file and Path(file).is_file():
            return name, file
    return splits[-1] if splits else ("", "")


def check_files(inputs: Sequence[Tensor], files: Mapping[str, Path]) -> dict[str, FileHeader]:
    """Match ``.npy`` files with the graph inputs by name and dtype, reading headers only."""
    known = {tensor.name: tensor for tensor in inputs}
    headers: dict[str, FileHeader] = {}
    for name, path in files.items():
        if name not in known:
            raise UsageError(
                f"--loadInputs names {name!r}, which is not an input of this model",
                why="its inputs are " + (", ".join(known) or "none"),
                fix="use one of these names",
            )
        wanted = known[name].dtype
        dtype, shape = _header(path, NUMPY_DTYPES.get(wanted, wanted), known[name].shape)
        if wanted not in NUMPY_DTYPES:
            raise UsageError(
                f"input {name!r} has type {wanted}, which no .npy file can hold",
                why="numpy has no such numbers",
                fix="give the model a numeric input there, for example with a Cast in front",
            )
        if dtype != NUMPY_DTYPES[wanted]:
            raise UsageError(
                f"{path} holds {dtype}, input {name!r} takes {wanted}",
                why=f"{wanted} is {NUMPY_DTYPES[wanted]} in numpy, in this machine's byte order",
                fix=f"numpy.save({str(path)!r}, values.astype({NUMPY_DTYPES[wanted]!r}))",
            )
        if 0 in shape:
            raise UsageError(
                f"{path} holds no values",
                why=f"its shape is {shape}, and an empty tensor has nothing to measure",
                fix="save an array whose dimensions are all at least 1",
            )
        headers[name] = FileHeader(path, shape)
    return headers


def _header(path: Path, wanted: str, dims: Sequence[Dim] | None) -> tuple[str, tuple[int, ...]]:
    try:
        with open_file(path) as file:
            archive = file.read(2) == b"PK"
        if not archive:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
            return str(array.dtype), tuple(int(dim) for dim in array.shape)
    except Exception as error:  # numpy lets through what its header parser meets: tokenize errors, overflows
        text = str(error).strip()
        why = "it does not begin as one" if "pickle" in text else text.splitlines()[0] if text else repr(error)
        # Raw values, which trtexec reads, tell neither type nor shape.
        free = sum(isinstance(dim, str) for dim in dims or ())
        sizes = ", ".join("-1" if free == 1 and isinstance(dim, str) else str(dim) for dim in dims or ())
        raw = f"numpy.fromfile({str(path)!r}, {wanted!r}).reshape({sizes})"
        raise UsageError(
            f"{path} is not a .npy array",
            why=why,
            fix=f"numpy.save({str(path.with_suffix('.npy'))!r}, values); of raw values as trtexec reads: {raw}",
        ) from None
    raise UsageError(
        f"{path} is an archive, not one array", why="an .npz has no single value", fix="save one .npy an input"
    )


def plan_inputs(
    inputs: Sequence[Tensor], shapes: Shapes, nodes: Sequence[Node], files: Mapping[str, FileHeader]
) -> list[InputTensor]:
    """How each input is filled, in the order of the graph inputs (``shapes``: bound shape of each)."""
    readers: dict[str, list[tuple[Node, int]]] = defaultdict(list)
    for node in nodes:
        for index, tensor in enumerate(node.op.inputs):
            if tensor is not None:
                readers[tensor.name].append((node, index))
    plans = []
    for tensor in inputs:
        shape = shapes[tensor.name]
        if tensor.name in files:
            header = files[tensor.name]
            if header.shape != shape:
                raise UsageError(
                    f"{header.path} has shape {header.shape}, input {tensor.name!r} is bound to {shape}",
                    why="the file and --shapes, or two files, disagree",
                    fix="let --shapes agree with the file, or leave it away",
                )
            file = str(header.path.resolve())
            plans.append(
                InputTensor(
                    name=tensor.name,
                    dtype=tensor.dtype,
                    shape=shape,
                    kind="file",
                    file=file,
                    values=f"file {header.path.name}",
                )
            )
        elif tensor.dtype not in NUMPY_DTYPES:
            raise UsageError(
                f"input {tensor.name!r} has type {tensor.dtype}, for which no values can be made up",
                why="numpy, which makes them, has no such numbers",
                fix="give the model a numeric input there, for example with a Cast in front",
            )
        elif tensor.dtype.startswith("fp"):
            plans.append(InputTensor(name=tensor.name, dtype=tensor.dtype, shape=shape, values="uniform -1..1"))
        else:
            found = _integer_range(tensor, readers, _counted(tensor, inputs, shapes))
            plans.append(
                InputTensor(
                    name=tensor.name,
                    dtype=tensor.dtype,
                    shape=shape,
                    kind="integers",
                    low=found.low,
                    high=found.high,
                    values=(f"{found.low}" if found.low == found.high else f"integers {found.low}..{found.high}")
                    + f" ({found.why})",
                )
            )
    return plans


_LENGTHS = re.compile(r"_?(len|length|lens|lengths)$", re.IGNORECASE)


def _counted(tensor: Tensor, inputs: Sequence[Tensor], shapes: Shapes) -> _Range | None:
    """The full length of the input whose lengths a ``..._lens`` holds: its samples, frames or tokens."""
    if tensor.dtype not in ("int32", "int64") or len(shapes[tensor.name]) > 1 or not _LENGTHS.search(tensor.name):
        return None
    long = [other for other in inputs if other.name != tensor.name and len(shapes[other.name]) > 1]
    stem = _LENGTHS.sub("", tensor.name)
    called = [other for other in long if stem and (other.name.startswith(stem) or stem.startswith(other.name))]
    found = called[:1] or (long if len(long) == 1 else [])
    if not found:
        return None
    (of,) = found
    # Frames of features, [batch, features, frames], are counted where they are dynamic; tokens come second.
    open_ = [index for index, dim in enumerate(of.shape or ()) if index and isinstance(dim, str)]
    count = shapes[of.name][open_[-1] if open_ else 1]
    return _Range(count, count, f"the length of {of.name}")


def _integer_range(
    tensor: Tensor, readers: Mapping[str, list[tuple[Node, int]]], counted: _Range | None = None
) -> _Range:
    ranges: list[_Range] = []
    queue, seen = [tensor.name], {tensor.name}
    while queue:
        for node, index in readers.get(queue.pop(), ()):
            found = _constraint(node, index)
            if found is not None:
                ranges.append(found)
            elif node.op.op_type in _MOVES_DATA:
                # A cast to float ends the trail of an index, but a mask is often used that way.
                names = [output.name for output in node.op.outputs if output is not None and output.name not in seen]
                seen.update(names)
                queue.extend(names)
    if ranges:
        # Every reader must be satisfied: the tightest upper end wins. What an index is compared with limits nothing.
        return min(ranges, key=lambda found: (not found.hard, found.high, found.low))
    if counted is not None:
        return counted
    if tensor.dtype == "bool":
        return _Range(0, 1, "a condition or mask")
    if tensor.dtype in ("int8", "uint8"):
        bits = units.DTYPE_BITS[tensor.dtype]
        return _Range(-128, 127, "full range") if tensor.dtype == "int8" else _Range(0, 2**bits - 1, "full range")
    return _Range(0, 1, "no reader limits it: read as a mask")


def _constraint(node: Node, index: int) -> _Range | None:
    op = node.op
    data = op.inputs[0] if op.inputs else None
    shape = data.shape if data is not None else None
    if op.op_type in ("Gather", "GatherElements", "ScatterElements") and index == 1 and shape:
        axis = op.attributes.get("axis", 0)
        # A model with an axis beyond its rank passes the checker; the runtime refuses it in its own words.
        size = shape[axis] if isinstance(axis, int) and -len(shape) <= axis < len(shape) else None
        if isinstance(size, int):
            return _Range(0, max(size - 1, 0), f"indices of {node.name}")
    if op.op_type in ("GatherND", "ScatterND") and index == 1 and shape:
        sizes = [size for size in shape if isinstance(size, int)]
        return _Range(0, max(min(sizes, default=1) - 1, 0), f"indices of {node.name}")
    if op.op_type == "OneHot" and index == 0:
        depth = op.inputs[1].value if len(op.inputs) > 1 and op.inputs[1] is not None else None
        return _Range(0, max(depth[0] - 1, 0) if depth else 1, f"classes of {node.name}")
    if _SEQUENCE_LENGTHS.get(op.op_type) == index and shape and len(shape) == 3:
        steps = shape[1 if op.attributes.get("layout") else 0]
        if isinstance(steps, int):
            return _Range(steps, steps, f"sequence lengths of {node.name}")
    if op.op_type == "Equal":
        other = op.inputs[1 - index]
        if other is not None and other.value and other.value[0] not in (0, 1):
            return _Range(other.value[0], other.value[0], f"the value that {node.name} asks for", hard=False)
        return _Range(0, 1, f"compared in {node.name}: read as a mask", hard=False)
    if index in SHAPE_INPUTS.get(op.op_type, ()):
        return _Range(1, 1, f"decides a shape in {node.name}: give it with --loadInputs")
    return None
