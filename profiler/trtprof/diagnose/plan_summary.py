"""A plan in figures: shares by kind and precision, reformats by origin, fusions that did not happen, lints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from trtprof.base import records
from trtprof.base.plan_words import LAUNCHING, change, is_reformat, precision
from trtprof.diagnose import judge_plan
from trtprof.diagnose.plans import PlanView


def summarise(
    layers: Sequence[records.MatchedLayer],
    works: Sequence[records.Work | None],
    fates: Sequence[records.NodeFate],
    *,
    times_ns: Sequence[int | None] | None = None,
    edges: Sequence[records.PlanEdge] = (),
    bindings: Sequence[records.PlanBinding] = (),
    lints: Sequence[records.PlanLint] | None = None,
) -> records.PlanSummary:
    """A plan in figures: by times in ns, measured or attainable (None where a layer has none), else by bytes."""
    parts = [
        _Part(matched, work, times_ns[at] if times_ns is not None else None)
        for at, (matched, work) in enumerate(zip(layers, works, strict=True))
    ]
    view = PlanView(layers, works, bindings)
    timed = any(part.ns is not None for part in parts)
    launching = [part for part in parts if part.matched.role in LAUNCHING]
    return records.PlanSummary(
        layers=len(layers),
        launches=len(launching),
        by_kind=_shares(parts, lambda part: part.matched.layer.kind or "unknown", timed),
        by_precision=_shares(launching, lambda part: precision(part.matched, part.work), timed),
        by_match=_shares(launching, lambda part: part.matched.match, timed),
        reformats=tuple(_reformats(parts, view)),
        edges=tuple(edges),
        lints=judge_plan(view) if lints is None else tuple(lints),
        fates=dict(sorted(Counter(fate.fate for fate in fates).items())),
    )


class _Part:
    """A layer with its bytes and its time, None where that is not known."""

    def __init__(self, matched: records.MatchedLayer, work: records.Work | None, ns: int | None) -> None:
        self.matched = matched
        self.work = work
        self.ns = ns
        self.moved: int | None = 0
        if matched.role in LAUNCHING:
            self.moved = work.bytes if work is not None else matched.layer.nbytes


def _shares(parts: Sequence[_Part], of: Callable[[_Part], str], timed: bool) -> tuple[records.PlanShare, ...]:
    """Layers of each kind, largest share first; fractions of 0 where not even bytes are known."""
    members: dict[str, list[_Part]] = {}
    for part in parts:
        members.setdefault(of(part), []).append(part)
    sizes = {
        what: (sum([part.moved or 0 for part in own]), sum([part.ns or 0 for part in own]))
        for what, own in members.items()
    }
    total = sum(sizes[what][timed] for what in sizes)
    shares = [
        records.PlanShare(
            what=what,
            layers=len(own),
            bytes=sizes[what][0],
            ns=sizes[what][1] if timed else None,
            fraction=sizes[what][timed] / total if total else 0.0,
        )
        for what, own in members.items()
    ]
    return tuple(sorted(shares, key=lambda share: (-share.fraction, -share.layers, share.what)))


def _reformats(parts: Sequence[_Part], view: PlanView) -> Iterator[records.PlanReformat]:
    for part in parts:
        layer = part.matched.layer
        if not is_reformat(part.matched):
            continue
        read = next((tensor.name for tensor in layer.inputs if tensor.name in view.inputs), "")
        written = next((tensor.name for tensor in layer.outputs if tensor.name in view.outputs), "")
        where = "input" if read else "output" if written else "between layers"
        readers = (view.readers[tensor.name][0] for tensor in layer.outputs if tensor.name in view.readers)
        yield records.PlanReformat(
            layer=layer.name,
            # That a reformat is one says nothing: where it stands does.
            origin=where if layer.origin in ("", "REFORMAT") else layer.origin,
            serves=layer.serves or written or next(readers, read),
            change=change(layer),
            bytes=part.moved,
            ns=part.ns,
        )
