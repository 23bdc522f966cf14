"""The data of the HTML page: a run as columns of numbers, each text written once.

``web/src/page.ts`` reads it. Rows of records would name every field again and again: of 10,000 layers that is most of
the file. A column is a list with one value a row, or ``{"all": value}`` where every row has the same. Every text is a
place in ``text``. A reference to a layer or a node is its place, or ``~place of its name`` where it is not in the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import msgspec

from trtprof.base import records
from trtprof.base.text_file import visible
from trtprof.report.content._views import alike

_WORK = ("tensor_flops", "vector_flops", "bytes_read", "bytes_written", "bytes_parameters")


def page_data(run: records.Run) -> dict[str, Any]:
    """What the script of the page draws from; the rest of the run is in the page as text."""
    text = _Texts()
    layer_at = _places(layer.name for layer in run.layers)
    node_at = _places(node.name for node in run.nodes)
    kernels = [kernel for layer in run.layers for kernel in layer.kernels]
    ceilings = run.ceilings
    data = {
        "rows": {
            "layers": len(run.layers),
            "nodes": len(run.nodes),
            "kernels": len(kernels),
            "unattributed": len(run.kernels_unattributed),
        },
        "device": {"kind": run.device.kind},
        "bounds": {
            key: [records.bound_name(key, run.device.kind), words.phrase] for key, words in records.BOUND_WORDS.items()
        },
        "engine": run.plan is not None,
        "ceilings": {
            "origin": ceilings.origin,
            "best": msgspec.to_builtins(ceilings.best, order="deterministic"),
            "attainable": msgspec.to_builtins(ceilings.attainable, order="deterministic"),
            "cache_bytes": ceilings.cache_bytes,
            "threads": ceilings.threads,
            "launch_ns": ceilings.launch_ns,
        },
        "latency_ns": run.latency.headline_ns,
        "end_to_end": bool(run.latency.n or not run.latency.headline_ns),
        "ledger": msgspec.to_builtins(run.ledger, order="deterministic"),
        "layers": _layers(run.layers, text, node_at),
        "terms": {
            name: _column([layer.terms.get(name) for layer in run.layers])
            for name in sorted({name for layer in run.layers for name in layer.terms})
        },
        "work": _work([layer.work for layer in run.layers], text),
        "kernels": _kernels(kernels, text),
        "unattributed": _kernels(run.kernels_unattributed, text),
        "nodes": _nodes(run.nodes, text, layer_at),
        "findings": [
            {
                "code": finding.code,
                "title": finding.title,
                "kind": finding.kind,
                "lost_ns": finding.lost_ns,
                "layers": [layer_at[name] for name in finding.layers if name in layer_at],
            }
            for finding in run.findings
        ],
        "timeline": None if run.timeline is None else _timeline(run.timeline, text, layer_at),
        "graph": None if run.graph is None else _graph(run.graph, text, layer_at),
        "memory": None if run.memory is None else _memory(run.memory, text),
    }
    return {"text": text.all, **data}


class _Texts:
    """Texts in the order they are first met, each once."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._place: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        place = self._place.setdefault(text, len(self.all))
        if place == len(self.all):
            self.all.append(text)
        return place


def _places(names: Iterable[str]) -> dict[str, int]:
    """The first place of each name."""
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        places.setdefault(name, place)
    return places


def _column(values: list[Any]) -> Any:
    """``values``, or one for all of them."""
    # 1 == True == 1.0 in Python, and in no column does it matter: each has values of one type.
    if len(values) > 1 and all(value == values[0] for value in values):
        return {"all": values[0]}
    return values


def _texts(values: Iterable[str], text: Callable[[str], int]) -> Any:
    return _column([text(value) for value in values])


def _refs(names: Sequence[str], at: dict[str, int], text: Callable[[str], int]) -> list[int]:
    return [at[name] if name in at else ~text(name) for name in names]


def _layers(layers: Sequence[records.LayerResult], text: _Texts, node_at: dict[str, int]) -> dict[str, Any]:
    words = ("name", "op_type", "role", "bound", "runner_up", "dtype", "match", "reason", "shapes", "expected_reason")
    numbers = (
        "measured_ns", "ideal_ns", "attainable_ns", "lost_ns", "expected_ns", "expected_p10_ns", "expected_p90_ns",
        "firm", "flops", "bytes", "constant",
    )  # fmt: skip
    return {
        **{name: _texts((getattr(layer, name) for layer in layers), text) for name in words},
        **{name: _column([getattr(layer, name) for layer in layers]) for name in numbers},
        "nodes": _column([_refs(layer.nodes, node_at, text) for layer in layers]),
        "kernels": _column([len(layer.kernels) for layer in layers]),
        "alike": _column(_alike(layers)),
    }


def _alike(layers: Sequence[records.LayerResult]) -> list[int]:
    """Of each layer the place of the first that does the same (`_views.alike`); -1 where no other does."""
    keys = [alike(layer) for layer in layers]
    first: dict[Hashable, int] = {}
    for place, key in enumerate(keys):
        first.setdefault(key, place)
    shared = Counter(keys)
    return [first[key] if shared[key] > 1 else -1 for key in keys]


def _work(works: Sequence[records.Work | None], text: _Texts) -> dict[str, Any]:
    filled = [work or records.Work() for work in works]
    return {
        "known": _column([work is not None for work in works]),
        **{name: _column([getattr(work, name) for work in filled]) for name in _WORK},
        "special": _column([dict(sorted(work.special.items())) or None for work in filled]),
        "bound": _texts((work.bound for work in filled), text),
        "note": _texts((work.note for work in filled), text),
    }


def _kernels(kernels: Sequence[records.Match], text: _Texts) -> dict[str, Any]:
    return {
        "name": _texts((kernel.kernel for kernel in kernels), text),
        "confidence": _texts((kernel.confidence for kernel in kernels), text),
        "reason": _texts((kernel.reason for kernel in kernels), text),
        **{name: _column([getattr(kernel, name) for kernel in kernels]) for name in ("count", "median_ns", "total_ns")},
    }


def _nodes(nodes: Sequence[records.NodeResult], text: _Texts, layer_at: dict[str, int]) -> dict[str, Any]:
    words = ("name", "op_type", "graph", "fate", "reason")
    return {
        **{name: _texts((getattr(node, name) for node in nodes), text) for name in words},
        **{name: _column([getattr(node, name) for node in nodes]) for name in ("flops", "bytes")},
        "layers": _column([_refs(node.layers, layer_at, text) for node in nodes]),
        # Many nodes have the same: one text for all of them, a line each.
        "attributes": _texts(
            ("\n".join(f"{name} {visible(value)}" for name, value in node.attributes.items()) for node in nodes), text
        ),
    }


def _timeline(timeline: records.Timeline, text: _Texts, layer_at: dict[str, int]) -> dict[str, Any]:
    owner = [layer_at.get(name, -1) for name in timeline.layers]
    starts = timeline.start_ns
    return {
        "iteration": timeline.iteration,
        "duration_ns": timeline.duration_ns,
        "lanes": msgspec.to_builtins(timeline.lanes),
        "names": [text(name) for name in timeline.names],
        "lane": _column(list(timeline.lane)),
        "layer": _column([owner[place] if place >= 0 else -1 for place in timeline.layer]),
        "name": _column(list(timeline.name)),
        # Steps are shorter than times.
        "start_ns": [start - before for before, start in zip((0, *starts), starts, strict=False)],
        "dur_ns": list(timeline.dur_ns),
        "note": timeline.note,
    }


def _graph(graph: records.RunGraph, text: _Texts, layer_at: dict[str, int]) -> dict[str, Any]:
    return {
        "layers": [text(name) for name in graph.layers],
        "places": [layer_at.get(name, -1) for name in graph.layers],
        "layer_from": list(graph.layer_from),
        "layer_to": list(graph.layer_to),
        "tensor": [text(name) for name in graph.tensor],
        "nbytes": list(graph.nbytes),
        "node_from": list(graph.node_from),
        "node_to": list(graph.node_to),
        "dtype": _texts(graph.dtype, text),
    }


def _memory(memory: records.RunMemory, text: _Texts) -> dict[str, Any]:
    return {
        "live": list(memory.live),
        "peak_at": memory.peak_at,
        "tensor": [text(name) for name in memory.tensor],
        **{name: list(getattr(memory, name)) for name in ("nbytes", "first", "last")},
        "unknown": memory.unknown,
    }
