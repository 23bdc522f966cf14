"""Names of the model that sentences of a run hold and none of its fields is for: a run without names needs them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from trtprof.base.name_tree import NameTree
from trtprof.base.op_kinds import VENDORS_DOMAINS
from trtprof.base.records import Holds, Layer, Node, Op, PlanLayer, Run
from trtprof.base.records.texts import text_fields

NameKind = Literal["tensor", "dim", "op", "node"]
_PROSE = frozenset({"text", "place", "detail", "producer"})
"""What fields hold (`records.Holds`) that are sentences, or may be."""


def with_own_names(run: Run, nodes: Sequence[Node], layers: Iterable[PlanLayer], own: Iterable[Layer] = ()) -> Run:
    """The run with the names of tensors, dimensions and custom ops that it holds in sentences or as op types alone."""
    texts, ops, told = _said(run)
    names: dict[str, NameKind] = {}
    for node in nodes:
        _take(names, node.op)
        names.setdefault(node.original_name, "node")
    for layer in own:
        _take(names, layer.op)
    for planned in layers:
        for tensor in (*planned.inputs, *planned.outputs, *planned.constants):
            names.setdefault(tensor.name, "tensor")
    tree = NameTree()
    # What is as short as ``x``, or a number, tells nothing, and stands anywhere.
    telling = {name for name in names if len(name) > 2 and any(letter.isalpha() for letter in name)} - told
    for name in telling:
        tree.plant(name, name)
    found = {span.word for text in texts for span in tree.spans(text, lambda *_: True)}
    found |= {name for name, kind in names.items() if kind == "op" and name in ops}
    # Dimensions stand between two ``x``, too: ``1xbatchx8``.
    found |= {name for name in telling if names[name] == "dim" and any(name in text for text in texts)}
    return msgspec.structs.replace(run, own_names={name: names[name] for name in sorted(found)})


def _take(names: dict[str, NameKind], op: Op) -> None:
    """Names that an op holds; first of all its own, which no tensor of that name may hide."""
    if op.domain not in VENDORS_DOMAINS:
        names[op.op_type] = "op"
    for tensor in (*op.inputs, *op.outputs):
        if tensor is not None:
            names.setdefault(tensor.name, "tensor")
            for dim in tensor.shape or ():
                if isinstance(dim, str):
                    names.setdefault(dim, "dim")


def _said(run: Run) -> tuple[set[str], set[str], set[str]]:
    """All sentences of a run, the words of its op types, and what its other fields hold."""
    texts: set[str] = set()
    ops: set[str] = set()
    told: set[str] = set()

    def look(value: str, rule: Holds, _key: str) -> str:
        if rule.kind in _PROSE:
            texts.add(value)
        elif rule.kind == "op":
            ops.update(re.findall(r"\w+", value))
        else:
            told.add(value)
        return value

    for field, walk in text_fields(Run).items():
        walk(getattr(run, field), look)
    return texts, ops, told
