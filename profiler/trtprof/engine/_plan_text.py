"""Layer information as text: one line a layer, alone or amid the lines of a log.

The lines are turned into the dictionaries that the JSON of the same TensorRT holds, so that one reader
(`_plan_layers`) serves both.
"""

from __future__ import annotations

import functools
import re
from typing import Any, NamedTuple

from trtprof.engine._decode_json import decode_value

_LAYER = re.compile(r"Name: (?P<name>.*?), LayerType: (?P<kind>[^,]*)")
_LIST = re.compile(r", (Inputs|Outputs|Constants|InputRegions|OutputRegions): \[")
_TENSOR_END = re.compile(r" \}(?=\s*(?:\]|, \{ ))")
_TENSOR_KEY = re.compile(
    r", (Location|Dimensions|Strides|StrideOrder|Format/Datatype|Format/DataType|Datatype|DataType|Format): "
)
_KEY = re.compile(r", ([A-Za-z_][\w/]*):(?: |$)")
_METADATA = re.compile(r", Metadata:(?: |$)")
_LOG_PREFIX = re.compile(r"^(?:\[[^\]]*\]\s*)+")
_HEADER = re.compile(r"(?:^|[\s\]])Layers:\s*$")
_TAIL = re.compile(r"(?:^|[\s\]])(Bindings|I/O Tensors):\s*$")
_BINDING = re.compile(r"^\s*Name: (?P<name>.*?), IOMode: ")
_PROFILE_BLOCK = re.compile(r"\{ (.*?) \}")
_OLD_LAYER = re.compile(r"Layer\((?P<kind>[\w:]+)\): (?P<name>.*?), Tactic: (?P<tactic>-?\w+), (?P<tensors>.*)$")
_OLD_TENSOR = re.compile(r"(?:, )?(.*?)(?: \((\w+)\[([-\d,:]*)\]\)|\[(\w+)\(([-\d,:]*)\)\])")
_SIGN = re.compile(r"LayerType: |Layer\(|Layers:|Bindings:|I/O Tensors:|TensorRT version:")
_VERSION = re.compile(r"TensorRT version: (\d[\d.]+)")


class Section(NamedTuple):
    """One description of a plan in a text: what stands under ``Layers:``, and the bindings behind it."""

    layers: list[dict[str, Any]]
    names: list[str]  # Lines under ``Layers:`` that hold a name and nothing more
    bindings: list[Any]


class Text(NamedTuple):
    """All that a text holds of plans."""

    sections: list[Section]
    old_layers: list[dict[str, Any]]
    """Of the ``Engine Layer Information`` that TensorRT 8 logs whatever the verbosity of the profiling."""
    version: str


def read_text(text: str) -> Text:
    """Find the descriptions of plans in a text; lines of a log around and within them do not matter."""
    sections: list[Section] = []
    old_layers: list[dict[str, Any]] = []
    current: Section | None = None
    where = ""
    version = ""
    # Not splitlines: U+001E, which separates items of the metadata, ends a line for it.
    for raw in text.split("\n"):
        if not where and not _SIGN.search(raw):
            continue
        line = raw.rstrip("\r")
        if "LayerType: " in line and (start := line.find("Name: ")) >= 0:
            layer = parse_layer_line(line[start:])
            if layer is not None:
                if current is None or where != "layers":
                    current, where = Section([], [], []), "layers"
                    sections.append(current)
                current.layers.append(layer)
                continue
        if "Layer(" in line and (old := _old_layer(line)):
            old_layers.append(old)
        elif _HEADER.search(line):
            current, where = Section([], [], []), "layers"
            sections.append(current)
        elif current is not None and (tail := _TAIL.search(line)):
            where = tail[1]
        elif current is not None and where:
            where = _other_line(line, current, where)
        if not version and (found := _VERSION.search(line)):
            version = found[1]
    return Text(sections, old_layers, version)


def _other_line(line: str, section: Section, where: str) -> str:
    """Take in a line of a section that is no layer; returns the part of the section that goes on behind it."""
    bare = line.strip()
    if where == "I/O Tensors" and _BINDING.match(line):
        section.bindings.append(_binding(bare))
    elif bare.startswith("Engine Metadata:") or _LOG_PREFIX.match(bare):
        # Another thread may log in the middle of the layers.
        return where if where == "layers" else ""
    elif bare and where == "Bindings":
        section.bindings.append(bare)
    elif bare and where == "layers":
        section.names.append(bare)
    elif not bare and where == "Bindings" and section.bindings:
        return ""
    return where


def parse_layer_line(line: str) -> dict[str, Any] | None:
    """A line ``Name: X, LayerType: Y, Inputs: [ {...}], ...`` as the JSON of the same layer; None for any other."""
    head = _LAYER.match(line)
    if head is None:
        return None
    layer: dict[str, Any] = {"Name": head["name"], "LayerType": head["kind"]}
    at = head.end()
    while found := _LIST.match(line, at):
        layer[found[1]], at = _tensors(line, found.end())
    rest = line[at:]
    if metadata := _METADATA.search(rest):
        layer["Metadata"] = rest[metadata.end() :]
        rest = rest[: metadata.start()]
    pieces = _KEY.split(rest)
    for key, value in zip(pieces[1::2], pieces[2::2], strict=True):
        layer[key] = _value(value)
    return layer


def _tensors(line: str, at: int) -> tuple[list[dict[str, Any]], int]:
    """The tensors of a list that begins at ``at``, and where it ends."""
    tensors = []
    while True:
        start = line.find("{ Name: ", at, at + len(", { Name: "))
        if start < 0:
            break
        end = _TENSOR_END.search(line, start)
        stop = end.start() if end else len(line)
        start += len("{ Name: ")
        first = _TENSOR_KEY.search(line, start, stop)
        behind = first.start() if first else stop
        tensors.append({"Name": line[start:behind], **_description(line[behind:stop])})
        at = end.end() if end else len(line)
    close = line.find("]", at)
    return tensors, close + 1 if close >= 0 else len(line)


@functools.lru_cache(maxsize=1 << 14)
def _description(text: str) -> dict[str, Any]:
    """What stands behind the name of a tensor; most tensors of a plan are like many others in all but the name."""
    pieces = _TENSOR_KEY.split(text)
    return {key: _value(value) for key, value in zip(pieces[1::2], pieces[2::2], strict=True)}


@functools.lru_cache(maxsize=1 << 14)
def _value(text: str) -> Any:
    """A value of the text as JSON has it where it is JSON: a number, a list, an object."""
    return decode_value(text) if text and (text[0] in "[{-" or text[0].isdigit()) else text


def _binding(line: str) -> dict[str, Any]:
    head, _, profiles = line.partition(", ProfileInfo: ")
    pieces = re.split(r", (IOMode|DataType|Dimensions|Location|IsShapeInferenceIO): ", head.removeprefix("Name: "))
    binding: dict[str, Any] = {"Name": pieces[0]}
    binding.update((key, _value(value)) for key, value in zip(pieces[1::2], pieces[2::2], strict=True))
    binding["ProfileInfo"] = [
        {
            key: _value(value)
            for key, value in re.findall(r"(MinShape|OptShape|MaxShape|Format): (\[[-\d, ]*\]|.+?)(?=, [A-Z]|$)", block)
        }
        for block in _PROFILE_BLOCK.findall(profiles)
    ]
    return binding


def _old_layer(line: str) -> dict[str, Any] | None:
    found = _OLD_LAYER.search(line)
    if found is None:
        return None
    inputs, _, outputs = found["tensors"].partition("-> ")
    return {
        "Name": found["name"],
        "LayerType": found["kind"],
        "TacticValue": found["tactic"],
        "Inputs": [_old_tensor(*match) for match in _OLD_TENSOR.findall(inputs)],
        "Outputs": [_old_tensor(*match) for match in _OLD_TENSOR.findall(outputs)],
    }


def _old_tensor(name: str, kind: str, dims: str, kind_before: str, dims_before: str) -> dict[str, Any]:
    """A tensor ``x (Half[1,64:8,56,56])``, before 8.5 ``x[Half(1,64,56,56)]``; ``64:8`` are 64 in vectors of 8."""
    given = [dim.partition(":") for dim in (dims or dims_before).split(",") if dim]
    tensor: dict[str, Any] = {
        "Name": name,
        "Dimensions": [decode_value(size) for size, _, _ in given],
        "Format/Datatype": kind or kind_before,
    }
    # A tuple, which no JSON holds.
    vectors = ((axis, int(vector)) for axis, (_, _, vector) in enumerate(given) if re.fullmatch(r"\d{1,4}", vector))
    if first := next(vectors, None):
        tensor["_vector"] = first
    return tensor
