"""Which ONNX nodes a layer of a TensorRT plan names: its metadata, or else its name."""

from __future__ import annotations

import re
from typing import NamedTuple

_ITEM = "[ONNX Layer: "
_SEPARATORS = re.compile("[\x1e\x1f]")
_NEXT_TAG = re.compile(r"\]\[[A-Za-z][\w ]*: ")
_PROFILE = re.compile(r" \[profile (\d{1,9})\]")
_MYELIN = re.compile(r"_myl(\d{1,9})_\d+$")
_REFORMAT = re.compile(r"^Reformatting CopyNode for (?:Input|Output) Tensor \d+ to (.*)$", re.DOTALL)
_COPY = re.compile(r" copy(?: \[profile \d+\])?$")
_FUNCTION = re.compile(r"(?P<node>.+?) \| (?P<caller>.+?) \([^()|]*\)(?P<more>(?: \| .+ \([^()|]*\))?)$", re.DOTALL)
_RANGE = "{ForeignNode["
_POINTWISE = "PWN("
# A range ends with its own bracket, whatever the names of its ends hold.
_TOKEN = re.compile(r"\{ForeignNode\[.*?\]\}|PWN\(|[()]| \+ | \|\| |, ", re.DOTALL)
_HELPER = re.compile(
    r"^\(Unnamed Layer\* \d+\) \[|^ONNXTRT_|^\[?ShapeHostToDevice"
    r"|(?:un)?squeeze_(?:node_)?(?:before|after)_|reshape_(?:before|after)_"
)
_INTERNAL = re.compile(r"__my[el]|\$\$myelin\$\$|hvar\^|\^bb\^")


class Named(NamedTuple):
    """The ONNX nodes that a layer names, see `records.PlanLayer`."""

    nodes: tuple[str, ...] = ()
    is_range: bool = False


def metadata_nodes(metadata: str) -> tuple[str, ...]:
    """Names in ``[ONNX Layer: a][ONNX Layer: b]``, each once, in the order given.

    ``b | a (F)`` is the node ``b`` of the function ``F`` that the node ``a`` calls, and is called ``a/b`` here.
    """
    names: dict[str, None] = {}
    for rest in metadata.split(_ITEM)[1:]:
        item = _SEPARATORS.split(rest, maxsplit=1)[0].rstrip()
        if "][" in item and (foreign := _NEXT_TAG.search(item)):
            item = item[: foreign.start() + 1]
        if not item.endswith("]") and (made := item.rfind("]__")) > 0:
            item = item[:made]  # what Myelin made of the node: ``[ONNX Layer: Relu_84]__gemm_from_conv1x1``
        names.setdefault(_in_function(item.removesuffix("]")))
    names.pop("", None)
    return tuple(names)


def _in_function(name: str) -> str:
    while (found := _FUNCTION.match(name)) is not None:
        name = f"{found['caller']}/{found['node']}" + found["more"]
    return name


def profile_index(text: str) -> int | None:
    """The optimisation profile of ``X [profile 1]``; None where the text has no such mark."""
    found = _PROFILE.search(text) if " [profile " in text else None
    return int(found[1]) if found else None


def myelin_graph(name: str) -> int | None:
    """Number of the Myelin graph that a layer ``..._myl4_0`` belongs to."""
    found = _MYELIN.search(name)
    return int(found[1]) if found else None


def layer_served(name: str) -> str:
    """The layer that a reformat or a copy of this name is made for; ``""`` for any other layer."""
    if reformat := _REFORMAT.match(name):
        return _PROFILE.sub("", reformat[1])
    return _PROFILE.sub("", name).removesuffix(" copy") if " copy" in name and _COPY.search(name) else ""


def name_nodes(name: str) -> Named:
    """ONNX nodes that the name of a layer spells out.

    ``A + B`` and ``A || B`` are layers made of several nodes, ``PWN(A)`` and ``PWN(PWN(A), B)`` are pointwise ones,
    ``{ForeignNode[a...b]}`` is everything from a to b. A node whose own name holds `` + `` cannot be told from two
    nodes here.
    """
    bare = _PROFILE.sub("", name)
    nodes: dict[str, None] = {}
    is_range = _collect(_MYELIN.sub("", bare), nodes)
    return Named(tuple(nodes), is_range)


def _collect(text: str, into: dict[str, None], separators: tuple[str, ...] = (" + ", " || ")) -> bool:
    """Add the nodes that ``text`` names; True where it holds a range of them."""
    parts = _split(text, separators)
    if len(parts) > 1:
        ranges = [_collect(part, into, separators) for part in parts]
        return any(ranges)
    text = text.strip()
    if text.startswith(_POINTWISE) and text.endswith(")"):
        return _collect(text[len(_POINTWISE) : -1], into, (" + ", " || ", ", "))
    if text.startswith(_RANGE) and text.endswith("]}"):
        first, dots, last = text[len(_RANGE) : -2].partition("...")
        _collect(first, into)
        _collect(last, into)
        return bool(dots)
    if text and not _HELPER.search(text) and not _INTERNAL.search(text):
        into.setdefault(text)
    return False


def _split(text: str, separators: tuple[str, ...]) -> list[str]:
    """The parts of a fused name, those of ``PWN(...)`` and ``{ForeignNode[...]}`` kept together."""
    parts = []
    start = depth = 0
    for found in _TOKEN.finditer(text):
        mark = found[0]
        if mark == _POINTWISE or (depth and mark == "("):
            depth += 1
        elif depth and mark == ")":
            depth -= 1
        elif not depth and mark in separators:
            parts.append(text[start : found.start()])
            start = found.end()
    return [*parts, text[start:]]
