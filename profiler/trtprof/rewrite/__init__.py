"""Changes of the graph that keep its meaning: what a person would try by hand before a kernel is written.

A rewrite is one file here. It registers a function that looks at one node, the last of what it would replace, and
either replaces it through the `Edit` that it is given or leaves the graph as it is:

    @rewrite("pow-as-mul", "Pow(x, 2) as x * x", answers=("RL101", "RL102"), exact=False)
    def pow_as_mul(node: ir.Node, edit: Edit) -> None: ...

Its module docstring says what it replaces by what, when (the condition), and why that can be faster. It must hold for
every input that the model takes: a dimension without a number may be any. `apply` runs one over a model; `save` writes
the result. The graph is onnx-ir's (https://onnx.ai/ir-py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple

from trtprof.base.registry import Registry

if TYPE_CHECKING:
    import onnx_ir as ir

    from trtprof.rewrite.edit import Edit, Site

Step = Callable[["ir.Node", "Edit"], None]  # Looks at a node and replaces what ends with it, or does nothing


class Rewrite(NamedTuple):
    """One kind of change."""

    name: str  # What it is called in commands and documents
    title: str  # What it makes of what, in a few words
    answers: tuple[str, ...]  # Codes of the rules whose remedy it is
    # Whether every output keeps every bit; otherwise sums are taken in another order, or a function is rounded at
    # another place.
    exact: bool
    step: Step  # See `Step`


REWRITES: Registry[str, Rewrite] = Registry("rewrite", "trtprof.rewrite", "trtprof.rewrites")  # All rewrites by name


def rewrite(name: str, title: str, *, answers: tuple[str, ...] = (), exact: bool) -> Callable[[Step], Step]:
    """Decorator that files a step as a `Rewrite`."""

    def add(step: Step) -> Step:
        REWRITES.register(name)(Rewrite(name, title, answers, exact, step))
        return step

    return add


def apply(chosen: Rewrite, model: ir.Model, only: Collection[str] | None = None) -> tuple[Site, ...]:
    """Rewrite a model in place wherever the rewrite fits, in its subgraphs too, until it fits nowhere.

    `only`: names of nodes; a place is left alone if none of its nodes is among them. None for all places.
    """
    from trtprof.rewrite.edit import Edit

    edit = Edit(model, only)
    while True:
        before = len(edit.sites)
        for graph in (model.graph, *model.graph.subgraphs()):
            for node in tuple(graph):
                if node.graph is graph:  # An earlier step may have taken it out.
                    edit.at(graph, chosen.step, node)
        if len(edit.sites) == before:
            edit.finish()
            return tuple(edit.sites)
