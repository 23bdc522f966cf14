"""The list of a run by layer, node, op type, kernel or module: the rows that the terminal and Markdown show.

Whatever a row is, the rows of a view add up to the same whole: every layer (of the view by kernel, every
kernel) is counted in exactly one row. `folded` keeps that when only the first rows are shown. A time is never
split: nodes that share a layer share one time, which stands at the node with most work.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Literal, NamedTuple, TypeVar

from trtprof.base.op_kinds import op_kind
from trtprof.base.records import LayerName, LayerResult, Match, Run
from trtprof.kernel_names.parse import UNKNOWN, parse

K = TypeVar("K", bound=Hashable)
By = Literal["layer", "node", "type", "kernel", "module"]


class Band(NamedTuple):
    """What good library kernels take: in the median, at the fastest tenth, at the slowest."""

    p50: int
    p10: int
    p90: int


class Row(NamedTuple):
    """What one row of a view sums up."""

    name: str  # Of the layer, node, op type or kernel; hostile text
    what: str = ""  # A word before the name: the op type of a node, what a kernel's name says. Hostile too.
    # Median time of its layers; of a kernel, its time in the whole capture. Where ``home`` is given, 0: the time
    # stands there.
    measured_ns: int = 0
    attainable_ns: int | None = None  # What the roofline allows those of its layers that are priced; None where none is
    priced_ns: int = 0  # Measured time of those
    lost_ns: int | None = None  # Sum over the layers whose loss is known; None where none is
    # Sum of what good library kernels take, with its band as if all erred the same way; None where a layer has no
    # expectation
    expected_ns: Band | None = None
    bound: str = ""  # What bounds most of its time
    layers: int = 0  # How many layers it sums up; of a kernel, how many it runs in
    unpriced: int = 0  # How many of them lack a loss
    launches: int = 0  # How often a kernel was launched in the capture
    sharing: int = 0  # Other nodes in the layers of a node
    # The node in whose row the time of the layer stands that this node shares; None where it stands here
    home: str | None = None
    # Where the view is by layer, the layer itself, or of those that are alike the one that lost most
    layer: LayerResult | None = None
    inside: str = ""  # Of a node that is in one layer alone, what that is called; hostile too
    rest: bool = False  # Whether it sums up what is not shown
    nameless: bool = False  # Whether it sums up what has no name of the kind that the view is by
    members: tuple[LayerName, ...] = ()  # The layers that it sums up

    @property
    def of_roof(self) -> float | None:
        """Attainable over measured time of its priced layers; None without one."""
        return self.attainable_ns / self.priced_ns if self.attainable_ns is not None and self.priced_ns else None

    @property
    def of_expected(self) -> float | None:
        """What good library kernels take over measured time; None without an expectation of all its layers."""
        return self.expected_ns.p50 / self.measured_ns if self.expected_ns is not None and self.measured_ns else None


class View(NamedTuple):
    """A list of a run: ``noun`` names a row, ``whole`` what ``total_ns`` is the time of.

    ``total_ns`` is the sum of `Row.measured_ns` over ``rows``.
    """

    by: By
    noun: str
    whole: str
    total_ns: int
    rows: tuple[Row, ...]
    note: str = ""  # What else is to be said about the list, in words

    def covered(self, rows: Iterable[Row]) -> float | None:
        """The share of all that is known to be lost that some rows lost; None where nothing is."""
        whole = sum(map(_lost, self.rows))
        return sum(map(_lost, rows)) / whole if whole else None

    def covering(self, share: float) -> int:
        """How many of the first rows with a time of their own hold a share of that; all of them where it is unknown."""
        whole = sum(map(_lost, self.rows))
        rows = [row for row in self.rows if row.home is None]
        held = itertools.accumulate(map(_lost, rows), initial=0)
        return next((n for n, lost in enumerate(held) if whole and lost / whole >= share), len(rows))

    @property
    def named(self) -> int:
        """How many layers, nodes, op types or kernels it lists."""
        return sum(map(self.names_of, self.rows))

    def names_of(self, row: Row) -> int:
        """How many of them a row stands for: none where it has no name, several where layers are alike."""
        return 0 if row.nameless else row.layers if self.by == "layer" else 1


def _lost(row: Row) -> int:
    return max(row.lost_ns or 0, 0)


def view_of(run: Run, by: By) -> View:
    """The rows of a run, most time lost first; by kernel, most time first."""
    views = {"layer": _by_layer, "node": _by_node, "type": _by_type, "kernel": _by_kernel, "module": _by_module}
    return views[by](run)


def folded(view: View, shown: int, sharing: int | None = None) -> tuple[tuple[Row, ...], Row | None]:
    """The first ``shown`` rows (``sharing`` at most of those that share a layer), and one that sums up the others."""
    rows: list[Row] = []
    others: list[Row] = []
    below = 0
    for row in view.rows:
        below = below + 1 if row.home is not None else 0
        fits = len(rows) < shown and (sharing is None or below <= sharing)
        (rows if fits else others).append(row)
    if not others:
        return tuple(rows), None
    named = sum(map(view.names_of, others))
    words = f"{named:,} other {view.noun}{'' if named == 1 else 's'}"
    words += " and the nameless" if named and any(row.nameless for row in others) else ""
    return tuple(rows), _sum(words if named else others[0].name, others)


def _sum(name: str, rows: Sequence[Row]) -> Row:
    allowed = [row.attainable_ns for row in rows if row.attainable_ns is not None]
    lost = [row.lost_ns for row in rows if row.lost_ns is not None]
    return Row(
        name=name,
        measured_ns=sum(row.measured_ns for row in rows),
        attainable_ns=sum(allowed) if allowed else None,
        priced_ns=sum(row.priced_ns for row in rows),
        lost_ns=sum(lost) if lost else None,
        expected_ns=_added(row.expected_ns for row in rows),
        layers=sum(row.layers for row in rows),
        unpriced=sum(row.unpriced for row in rows),
        launches=sum(row.launches for row in rows),
        rest=True,
    )


def _ranked(rows: Iterable[Row]) -> list[Row]:
    """By time lost; what has no loss last, by its time."""
    return sorted(rows, key=lambda row: (row.lost_ns is None, -(row.lost_ns or 0), -row.measured_ns, row.name))


def _row(name: str, layers: Sequence[LayerResult], what: str = "") -> Row:
    """The sum of some layers."""
    priced = [layer for layer in layers if layer.attainable_ns is not None]
    lost = [layer.lost_ns for layer in layers if layer.lost_ns is not None]
    time: dict[str, int] = {}
    for layer in layers:
        time[layer.bound] = time.get(layer.bound, 0) + layer.measured_ns
    return Row(
        name=name,
        what=what,
        measured_ns=sum(layer.measured_ns for layer in layers),
        attainable_ns=sum(layer.attainable_ns or 0 for layer in priced) if priced else None,
        priced_ns=sum(layer.measured_ns for layer in priced),
        lost_ns=sum(lost) if lost else None,
        expected_ns=_added(map(_band, layers)),
        bound=max(time, key=lambda bound: (time[bound], bound)) if time else "",
        layers=len(layers),
        unpriced=len(layers) - len(lost),
        members=tuple(layer.name for layer in layers),
    )


def _band(layer: LayerResult) -> Band | None:
    p50, p10, p90 = layer.expected_ns, layer.expected_p10_ns, layer.expected_p90_ns
    return None if p50 is None or p10 is None or p90 is None else Band(p50, p10, p90)


def _added(bands: Iterable[Band | None]) -> Band | None:
    """Their sum, as if all erred the same way; None where one of them is not known."""
    total = Band(0, 0, 0)
    for one in bands:
        if one is None:
            return None
        total = Band(*(first + second for first, second in zip(total, one, strict=True)))
    return total


def _groups(layers: Iterable[LayerResult], key: Callable[[LayerResult], K]) -> dict[K, list[LayerResult]]:
    groups: dict[K, list[LayerResult]] = {}
    for layer in layers:
        groups.setdefault(key(layer), []).append(layer)
    return groups


def _layers_ns(run: Run) -> int:
    return sum(layer.measured_ns for layer in run.layers)


def _by_layer(run: Run) -> View:
    """A row a layer; those that are alike share one, as they would share a kernel written for them."""
    groups: dict[Hashable, list[LayerResult]] = {}
    for layer in run.layers:
        groups.setdefault(alike(layer), []).append(layer)
    rows = [
        _row(layers[0].name, layers, layers[0].op_type)._replace(bound=layers[0].bound, layer=layers[0])
        for layers in groups.values()
    ]
    # By loss as the layers of a run are; of equals, in their order.
    rows.sort(key=lambda row: -(row.measured_ns if row.lost_ns is None else row.lost_ns))
    return View("layer", "layer", "time of all layers", _layers_ns(run), tuple(rows))


def alike(layer: LayerResult) -> Hashable:
    """What layers that do the same have in common: op, shapes, dtype, work and kernels; of no known shape, the name."""
    if not layer.shapes:
        return layer.name
    kernels = tuple(sorted(match.kernel for match in layer.kernels))
    whole = layer.lost_ns is None, layer.constant, layer.match
    return layer.op_type, layer.role, layer.shapes, layer.dtype, layer.flops, layer.bytes, layer.bound, kernels, whole


UNKNOWN_OP = "unknown op"  # An op type that a range of a capture does not tell


def _by_type(run: Run) -> View:
    groups = _groups(run.layers, lambda layer: (layer.op_type, _role(layer)))
    rows = (_row(f"{op or UNKNOWN_OP}{f' ({role})' if role else ''}", layers) for (op, role), layers in groups.items())
    return View("type", "op type", "time of all layers", _layers_ns(run), tuple(_ranked(rows)))


def _role(layer: LayerResult) -> str:
    return "" if layer.role in ("compute", "control") else layer.role


def _home_in(run: Run) -> Callable[[LayerResult], str | None]:
    """Gives the node of a layer that its time stands at: the one with most work."""
    work = {node.name: -1 if node.flops is None else node.flops for node in run.nodes}

    def home_of(layer: LayerResult) -> str | None:
        # Of equals the last one: it is what the layer is called by elsewhere in the report.
        best = max(enumerate(layer.nodes), key=lambda item: (work.get(item[1], -1), item[0]), default=None)
        return None if best is None else best[1]

    return home_of


MODULES = 30  # Most rows of modules for which their scopes are looked into any deeper


def _by_module(run: Run) -> View:
    """A row a scope of node names (``/layer1/attention`` of ``/layer1/attention/MatMul``)."""
    home_of = _home_in(run)
    scopes = {layer.name: tuple(filter(None, (home_of(layer) or "").split("/")))[:-1] for layer in run.layers}
    deepest = max(map(len, scopes.values()), default=0)
    parts = [len({scope[:depth] for scope in scopes.values()}) for depth in range(1, deepest + 1)]
    first = next((depth for depth, number in enumerate(parts, 1) if number > 1), 1)
    cut = max((depth for depth, number in enumerate(parts, 1) if depth > first and number <= MODULES), default=first)
    groups = _groups(run.layers, lambda layer: scopes[layer.name][:cut])
    rows = [
        _row("/".join(scope) or "layers whose node has no scope", layers)._replace(nameless=not scope)
        for scope, layers in groups.items()
    ]
    return View("module", "module", "time of all layers", _layers_ns(run), tuple(_ranked(rows)))


def _by_node(run: Run) -> View:
    """A row a node that ran, below it the nodes that only share its layers; those of no layer are counted."""
    nodes = {node.name: node for node in run.nodes}

    def op_of(name: str) -> str:
        return nodes[name].op_type if name in nodes else ""

    groups = _groups(run.layers, _home_in(run))
    sharing: dict[str, list[str]] = {}
    seen = set(groups)
    for home, layers in groups.items():
        for name in dict.fromkeys(name for layer in layers for name in layer.nodes):
            if home is not None and name not in seen:
                seen.add(name)
                sharing.setdefault(home, []).append(name)
    heads = []
    for home, layers in groups.items():
        if home is None:
            heads.append(_row("layers of no node", layers)._replace(nameless=True))
            continue
        others = {other for layer in layers for other in layer.nodes} - {home}
        inside = layers[0].name if len(layers) == 1 else ""
        heads.append(_row(home, layers, op_of(home))._replace(sharing=len(others), inside=inside))
    rows: list[Row] = []
    for head in _ranked(heads):
        rows.append(head)
        if not head.nameless:
            rows += [Row(name=name, what=op_of(name), home=head.name) for name in sharing.get(head.name, ())]
    absent = sum(1 for node in run.nodes if node.name not in seen)
    note = f"{absent:,} node{'' if absent == 1 else 's'} in no layer that took time" if absent else ""
    return View("node", "node", "time of all layers", _layers_ns(run), tuple(rows), note)


def _by_kernel(run: Run) -> View:
    kernels: dict[str, list[Match]] = {}
    for match in (*(match for layer in run.layers for match in layer.kernels), *run.kernels_unattributed):
        kernels.setdefault(match.kernel, []).append(match)
    rows = [
        Row(
            name=name,
            what=kernel_words(name),
            measured_ns=sum(match.total_ns for match in found),
            layers=len({match.layer for match in found if match.layer is not None}),
            launches=sum(match.count for match in found),
        )
        for name, found in kernels.items()
    ]
    # A profile that has the times of layers alone names no kernel: its time is there all the same.
    known = sum(row.measured_ns for row in rows)
    if (unnamed := run.captured_ns - known) > 0:
        rows.append(Row(name="time of which no kernel is known", measured_ns=unnamed, nameless=True))
    rows.sort(key=lambda row: (-row.measured_ns, row.name))
    return View("kernel", "kernel", "kernel time in the capture", max(run.captured_ns, known), tuple(rows))


def kernel_words(name: str) -> str:
    """What the name of a kernel says, in a few words: ``gemm xmma sm50``; empty where it says nothing."""
    found = parse(name)
    words = [word for word in (found.op, found.family) if word != UNKNOWN]
    if found.arch is not None:
        words.append(f"sm{found.arch}")
    return " ".join(words)


def shape_words(layer: LayerResult) -> str:
    """What a layer computes on, in a few words.

    ``3x3 3>16 224x224>112x112`` of a convolution: kernel, channels, sizes; ``128x768 x 768x3072`` of a product; else
    what it writes, behind what it reads where that is the larger one.
    """
    reads, _, writes = layer.shapes.partition(" -> ")
    # Scales and zero points of quantized ops stand between what they multiply.
    first, *others = [shape for shape in reads.split(", ") if shape != "scalar"] or ["scalar"]
    out = writes.split(", ")[0]
    read, *kernel, written = (
        [int(dim) for dim in shape.split("x") if dim.isdigit()] for shape in (first, *others[:1], out)
    )
    kind = op_kind(layer.op_type)
    if kind == "convolution" and kernel and len(read) == len(kernel[0]) == len(written) > 2:
        taps, size, made = ("x".join(map(str, dims[2:])) for dims in (kernel[0], read, written))
        batch = "" if read[0] == 1 else f" batch {read[0]}"
        # A transposed one has its input channels first.
        groups = 1 if "Transpose" in layer.op_type else read[1] // max(kernel[0][1], 1)
        if groups > 1 and kernel[0][1] == 1 and read[1] == written[1]:
            return f"{taps} depthwise {read[1]} {made if size == made else f'{size}>{made}'}{batch}"
        batch += "" if groups <= 1 else f" groups {groups}"
        return f"{taps} {read[1]}>{written[1]} {made if size == made else f'{size}>{made}'}{batch}"
    if kind == "matmul" and others:
        return f"{first} x {others[0]}"
    return f"{first}>{out}" if layer.role != "layout" and math.prod(read) > math.prod(written) else out
