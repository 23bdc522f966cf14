"""The dictionaries of layer information, of any TensorRT, as records. Every key is optional."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from trtprof.base.records import Attribute, Plan, PlanBinding, PlanLayer, PlanShapes, PlanTensor, PlanWeights
from trtprof.engine._plan_formats import parse_dtype, parse_format
from trtprof.engine._plan_names import Named, layer_served, metadata_nodes, myelin_graph, name_nodes, profile_index

_OWN_FIELDS = frozenset(
    {
        "Name", "LayerType", "ParameterType", "Inputs", "Outputs", "Constants", "InputRegions", "OutputRegions",
        "TacticName", "TacticValue", "StreamId", "Origin",
    }
)  # fmt: skip
"""Keys that have a field of their own in `PlanLayer`."""

_NOTHING = Named()
_SCALARS = frozenset({int, str})
_INTEGER = frozenset({int})
_MOST_ELEMENTS = 1 << 50
_DTYPE_KEYS = ("Datatype", "DataType", "Format/Datatype", "Format/DataType")
_FORMAT_KEYS = ("Format", "Format/Datatype", "Format/DataType")
_MODES = {"input": "input", "kinput": "input", "output": "output", "koutput": "output"}


def make_plan(
    layers: Sequence[Mapping[str, Any]], bindings: Iterable[Any], *, found_in: str, era: str, notes: Iterable[str]
) -> Plan:
    """A plan of the dictionaries of its layers; bindings are names (``Bindings``) or dictionaries (``I/O Tensors``)."""
    notes = list(notes)
    records = _profiles([_layer(raw, index) for index, raw in enumerate(layers)])
    notes += _missing(records, layers)
    return Plan(
        era=f"{era or _era(records, layers)}, {found_in}",
        layers=tuple(records),
        bindings=tuple(_bindings(bindings, records)),
        notes=tuple(notes),
    )


def _layer(raw: Mapping[str, Any], index: int) -> PlanLayer:
    name = str(raw.get("Name") or f"layer {index}")
    serves = layer_served(name)
    nodes = metadata_nodes(str(raw.get("Metadata") or ""))
    named = _NOTHING if nodes or serves else name_nodes(name)
    attributes: dict[str, Attribute] = {}
    held: dict[str, PlanWeights] = {}
    for key, value in raw.items():
        if key in _OWN_FIELDS or (key == "Metadata" and (nodes or not value)):
            continue
        if type(value) in _SCALARS:
            attributes[key] = value
        elif isinstance(value, dict) and "Count" in value and (what := _held(key)) not in held:
            count = _integer(value["Count"]) or 0
            held[what] = PlanWeights(dtype=parse_dtype(str(value.get("Type", ""))), count=count)
        else:
            attributes.update(_attributes(key, value))
    return PlanLayer(
        name=name,
        kind=str(raw.get("LayerType") or ""),
        parameter_type=str(raw.get("ParameterType") or ""),
        inputs=_tensors(raw.get("Inputs") or raw.get("InputRegions")),
        outputs=_tensors(raw.get("Outputs") or raw.get("OutputRegions")),
        constants=_tensors(raw.get("Constants")),
        tactic=str(raw.get("TacticName") or ""),
        tactic_value=str(raw.get("TacticValue") or ""),
        stream=_integer(raw.get("StreamId")),
        onnx_nodes=nodes or named.nodes,
        nodes_from="metadata" if nodes else "name" if named.nodes else "none",
        onnx_range=named.is_range and not nodes,
        serves=serves,
        origin=str(raw.get("Origin") or ""),
        weights=held.get("weights"),
        bias=held.get("bias"),
        attributes=attributes,
    )


def _held(key: str) -> str:
    """What a layer holds under a key; one of convolution, activation and pooling calls it ``ConvWeights``."""
    return "weights" if key.endswith("Weights") else "bias" if key.endswith("Bias") else key


def _tensors(raw: Any) -> tuple[PlanTensor, ...]:
    if not isinstance(raw, list):
        return ()
    return tuple([_tensor(one, position) for position, one in enumerate(raw) if isinstance(one, dict)])


def _tensor(raw: Mapping[str, Any], position: int) -> PlanTensor:
    form, dtype = raw.get("Format"), raw.get("Datatype")
    if type(form) is not str:
        form = _first(raw, _FORMAT_KEYS)
    if type(dtype) is not str:
        dtype = _first(raw, _DTYPE_KEYS)
    parsed = parse_format(form)
    dims = _dimensions(raw.get("Dimensions"))
    axis, vector = (parsed.axis(len(dims)) if dims is not None else None), parsed.vector
    if isinstance(own := raw.get("_vector"), tuple):
        axis, vector = own
    return PlanTensor(
        name=str(raw.get("Name") or f"tensor {position}"),
        dims=dims,
        dtype=parse_dtype(dtype) or parsed.dtype,
        format=form,
        vector_axis=axis,
        vector=vector if axis is not None else 1,
        strides=_integers(raw.get("Strides")),
        location=str(raw.get("Location") or ""),
    )


def _first(raw: Mapping[str, Any], keys: Sequence[str]) -> str:
    for key in keys:
        if key in raw:
            return str(raw[key])
    return ""


def _dimensions(value: Any) -> tuple[int, ...] | None:
    """The dimensions of a tensor; None where they are not told, or no memory holds such a tensor."""
    dims = _integers(value)
    return None if dims is None or math.prod(map(abs, filter(None, dims))) > _MOST_ELEMENTS else dims


def _integers(value: Any) -> tuple[int, ...] | None:
    """A list of integers; None for anything else."""
    if not isinstance(value, list):
        return None
    if _INTEGER.issuperset(map(type, value)):
        return tuple(value)
    found = [_integer(one) for one in value]
    return None if None in found else tuple(one for one in found if one is not None)


def _integer(value: Any) -> int | None:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if abs(number) < 1 << 63 else None


def _attributes(key: str, value: Any) -> dict[str, Attribute]:
    """An attribute as a scalar or a flat tuple; the fields of an object become ``key.field``."""
    if value is None:
        return {}
    if isinstance(value, dict):
        return {name: one for field, part in value.items() for name, one in _attributes(f"{key}.{field}", part).items()}
    if isinstance(value, list):
        return {key: tuple(_scalar(one) for one in value)}
    return {key: _scalar(value)}


def _scalar(value: Any) -> int | float | str:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return json.dumps(value)


def _profiles(layers: list[PlanLayer]) -> list[PlanLayer]:
    """The layers with the optimisation profile each belongs to."""
    own: list[int | None] = []
    graphs: dict[int, int] = {}
    for layer in layers:
        names = [layer.name, *[tensor.name for tensor in layer.inputs], *[tensor.name for tensor in layer.outputs]]
        mark = next((found for name in names if (found := profile_index(name)) is not None), None)
        own.append(mark)
        if mark is not None and (graph := myelin_graph(layer.name)) is not None:
            graphs[graph] = mark
    if not any(own):
        return layers
    marked = []
    for layer, mark in zip(layers, own, strict=True):
        graph = myelin_graph(layer.name)
        profile = mark if mark is not None else graphs.get(graph, 0) if graph is not None else 0
        marked.append(msgspec.structs.replace(layer, profile=profile) if profile else layer)
    return marked


def _era(layers: Sequence[PlanLayer], raw: Sequence[Mapping[str, Any]]) -> str:
    sides = (layer.get(key) for layer in raw for key in ("Inputs", "Outputs"))
    tensors = (tensor for side in sides if isinstance(side, list) for tensor in side)
    if any(isinstance(tensor, dict) and ("Datatype" in tensor or "Strides" in tensor) for tensor in tensors):
        return "TensorRT 11 or TensorRT-RTX"
    if any(myelin_graph(layer.name) is not None for layer in layers):
        return "TensorRT 10"
    if any("Metadata" in layer or "StreamId" in layer for layer in raw):
        return "TensorRT 8.6 to 10"
    return "TensorRT 8.5 or before"


def _missing(layers: Sequence[PlanLayer], raw: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the description of a plan does not tell, one note a kind."""
    tensors = [tensor for layer in layers for tensor in (*layer.inputs, *layer.outputs, *layer.constants)]
    distinct = {tensor.name: tensor for tensor in tensors}.values()
    kinds = Counter([(tensor.dims, tensor.dtype, tensor.format) for tensor in distinct])
    unnamed = sum(not one.get("Name") for one in raw)
    dynamic = sum(count for (dims, _, _), count in kinds.items() if dims is not None and min(dims, default=0) < 0)
    no_dims = sum(count for (dims, _, _), count in kinds.items() if dims is None)
    no_dtype = sum(count for (_, dtype, _), count in kinds.items() if not dtype)
    rows = sum(count for (_, _, form), count in kinds.items() if parse_format(form).padded_rows)
    ranges = sum(layer.onnx_range for layer in layers)
    total = len(distinct)
    notes = []
    if not any("Metadata" in one for one in raw):
        notes.append("no metadata: ONNX nodes are read off the names of the layers")
    if unnamed:
        notes.append(f"{unnamed} of {len(raw)} layers have no name and got one from their position")
    if ranges:
        notes.append(f"{ranges} layers name only the first and the last of the ONNX nodes that they compute")
    if dynamic:
        notes.append(
            f"{dynamic} of {total} tensors have dimensions that depend on the input: their bytes are not known"
        )
    if no_dims:
        notes.append(f"{no_dims} of {total} tensors have no dimensions: their bytes are not known")
    if no_dtype:
        notes.append(f"{no_dtype} of {total} tensors have no dtype: their bytes are not known")
    if rows:
        notes.append(f"{rows} of {total} tensors have rows padded for the device: counted without that padding")
    return notes


def _bindings(raw: Iterable[Any], layers: Sequence[PlanLayer]) -> list[PlanBinding]:
    raw = list(raw)
    if not raw:
        return []
    read = {tensor.name: tensor for layer in reversed(layers) for tensor in layer.inputs}
    written = {tensor.name: tensor for layer in layers for tensor in layer.outputs}
    bindings = []
    for one in raw:
        if isinstance(one, dict):
            bindings.append(_binding(one))
            continue
        name = str(one)
        tensor = written.get(name) or read.get(name)
        bindings.append(
            PlanBinding(
                name=name, mode="output" if name in written else "input" if name in read else "unknown",
                dtype=tensor.dtype if tensor else "", dims=tensor.dims if tensor else None,
                format=tensor.format if tensor else "", location=tensor.location if tensor else "",
            )
        )  # fmt: skip
    return bindings


def _binding(raw: Mapping[str, Any]) -> PlanBinding:
    given = raw.get("ProfileInfo")
    profiles = tuple(
        PlanShapes(
            min=_integers(one.get("MinShape")),
            opt=_integers(one.get("OptShape")),
            max=_integers(one.get("MaxShape")),
            format=str(one.get("Format") or ""),
        )
        for one in (given if isinstance(given, list) else ())
        if isinstance(one, dict)
    )
    form = str(raw.get("Format") or (profiles[0].format if profiles else ""))
    return PlanBinding(
        name=str(raw.get("Name") or ""),
        mode=_MODES.get(str(raw.get("IOMode", "")).lower(), "unknown"),  # type: ignore[arg-type]
        dtype=parse_dtype(_first(raw, _DTYPE_KEYS)) or parse_format(form).dtype,
        dims=_dimensions(raw.get("Dimensions")),
        format=form,
        location=str(raw.get("Location") or ""),
        profiles=profiles,
    )
