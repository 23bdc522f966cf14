"""What predictions take here, tried on a few of them: for a plan before any cell is done."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Mapping

from trtprof.base.records import FleetCell
from trtprof.flows.fleet.cells import request_of
from trtprof.flows.fleet.options import settings_of
from trtprof.flows.fleet.progress import Pace

BUDGET_S = 1.0  # Seconds that may be spent, beside what is loaded once
_FIRST, _FIRST_AT_MOST = 100, 400
"""Nodes of the model that is tried first, and of the smallest where all are larger: nobody knows how long it takes."""
_MOST = 3


def tried(cells: Iterable[FleetCell], nodes: Mapping[str, int]) -> Pace:
    """The pace of predictions: a few are done, and their times taken to grow with the nodes of a model."""
    groups: dict[str, list[FleetCell]] = {}
    for cell in cells:
        if cell.verb == "predict" and nodes.get(cell.model) and cell.options.get("level") != "layers":
            groups.setdefault(cell.group, []).append(cell)
    by_model = {group[0].model: group for group in groups.values()}
    spent = worked = 0.0
    names: list[str] = []
    while by_model and len(names) < _MOST:
        chosen = _next(by_model, nodes, worked / spent * (BUDGET_S - spent) if worked else 0)
        if chosen is None:
            break
        group = by_model.pop(chosen)
        try:
            if not names:
                _seconds(group)  # The first one loads what all need.
            spent += _seconds(group)
        except Exception:  # its rows will say it, when it is answered  # noqa: S112
            continue
        worked += nodes[chosen] * len(group)
        names.append(chosen)
    if not names:
        return Pace()
    paces = {("predict", model): spent / worked * size for model, size in nodes.items() if size}
    return Pace(
        paces, {"predict": statistics.median(paces.values())}, f"predictions of {', '.join(names)} now, by their nodes"
    )


def _next(groups: Mapping[str, list[FleetCell]], nodes: Mapping[str, int], work: float) -> str | None:
    """The largest model of which so many nodes are done in time, over all its targets; the first is not that large."""
    sizes = {model: nodes[model] * len(group) for model, group in groups.items()} if work else dict(nodes)
    most = work or (_FIRST if min(nodes[model] for model in groups) <= _FIRST else _FIRST_AT_MOST)
    fits = [model for model in groups if sizes[model] <= most]
    return max(fits, key=lambda model: (sizes[model], model)) if fits else None


def _seconds(group: list[FleetCell]) -> float:
    """What it takes to predict the cells of a group."""
    from trtprof.flows.predict import predict
    from trtprof.hardware import gpus

    cell = group[0]
    specs = [gpus.find(each.gpu) for each in group]
    began = time.perf_counter()
    predict(request_of(cell), specs, settings_of(cell))
    return time.perf_counter() - began
