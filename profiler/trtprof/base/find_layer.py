"""A layer by what a person calls it."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Protocol, TypeVar

from trtprof.base.errors import UsageError
from trtprof.base.units import format_names

NAMED = 5
"""Layers that a sentence names."""


class Named(Protocol):
    """Anything with a name that computes nodes of the model."""

    @property
    def name(self) -> str: ...

    @property
    def nodes(self) -> tuple[str, ...]: ...


L = TypeVar("L", bound=Named)


def find_layer(layers: Sequence[L], name: str, what: str = "layer", fix: str = "--format json lists them all") -> L:
    """A layer by its name, by that of an ONNX node in it, or by a part of either that only one layer has."""
    folded = name.casefold()
    for fits in (
        lambda layer: layer.name == name,
        lambda layer: name in layer.nodes,
        lambda layer: any(folded in text.casefold() for text in (layer.name, *layer.nodes)),
    ):
        found = [layer for layer in layers if fits(layer)]
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(
                f"{len(found)} layers are called {name!r}", why=_some(found), fix="give the whole name of one"
            )
    known = [text for layer in layers for text in (layer.name, *layer.nodes)]
    near = difflib.get_close_matches(name, known, n=NAMED)
    alike = list(
        {layer.name: layer for text in near for layer in layers if text in (layer.name, *layer.nodes)}.values()
    )
    raise UsageError(
        f"no {what} is called {name!r}",
        why=f"the nearest: {_some(alike)}" if alike else f"there are {len(layers)} layers",
        fix=fix,
    )


def _some(layers: Sequence[Named]) -> str:
    return format_names([layer.name for layer in layers], NAMED)
