"""Runs with a timeline and a graph, for the tests of the HTML page. All numbers are invented for the tests."""

from __future__ import annotations

import msgspec

from trtprof.base.records import Run, RunGraph, RunMemory, Timeline, TimelineLane


def memory_of(count: int) -> RunMemory | None:
    """Of a chain of ``count`` layers: each writes 1,000 bytes more than the one before, which the next one reads."""
    if not count:
        return None
    size = [1_000 * (at + 1) for at in range(count)]
    live = tuple(size[at] + (size[at - 1] if at else 0) for at in range(count))
    return RunMemory(
        live=live,
        peak_bytes=live[-1],
        peak_at=count - 1,
        tensor=tuple(f"t{at}" for at in range(count)),
        nbytes=tuple(size),
        first=tuple(range(count)),
        last=tuple(min(at + 1, count - 1) for at in range(count)),
    )


def with_panels(run: Run) -> Run:
    """``run`` with a timeline of its layers one after the other on two lanes, and a graph that is a chain of them."""
    names = tuple(layer.name for layer in run.layers)
    kernels = tuple(dict.fromkeys(layer.kernels[0].kernel if layer.kernels else layer.name for layer in run.layers))
    place = {name: at for at, name in enumerate(kernels)}
    starts, now = [], 0
    for layer in run.layers:
        starts.append(now)
        now += layer.measured_ns + 700
    last = now + 5_000
    return msgspec.structs.replace(
        run,
        timeline=Timeline(
            iteration=17,
            duration_ns=last + 9_000,
            lanes=(TimelineLane(name="stream 7", kind="kernels"), TimelineLane(name="copies", kind="copies")),
            layers=names,
            names=(*kernels, "Memcpy DtoH"),
            lane=(*(0 for _ in names), 1),
            layer=(*range(len(names)), -1),
            name=(*(place[one.kernels[0].kernel if one.kernels else one.name] for one in run.layers), len(kernels)),
            start_ns=(*starts, last),
            dur_ns=(*(layer.measured_ns for layer in run.layers), 9_000),
            note="of 50 inferences the one whose time is the median",
        ),
        graph=RunGraph(
            layers=names,
            layer_from=tuple(range(len(names) - 1)),
            layer_to=tuple(range(1, len(names))),
            tensor=tuple(f"t{at}" for at in range(len(names) - 1)),
            nbytes=tuple(-1 if at == 0 else 4096 for at in range(len(names) - 1)),
            node_from=tuple(range(max(len(run.nodes) - 1, 0))),
            node_to=tuple(range(1, len(run.nodes))),
            dtype=tuple(("fp32", "fp16", "int8")[at % 3] for at in range(len(names) - 1)),
        ),
        memory=memory_of(len(names)),
        nodes=tuple(
            msgspec.structs.replace(node, attributes={"kernel_shape": "3, 3", "group": str(at)})
            for at, node in enumerate(run.nodes)
        ),
    )
