"""Runs with a timeline, for the tests of formats that show one. All numbers are invented for the tests."""

from __future__ import annotations

import functools

import msgspec

from tests.fakes.report_factory import CASES
from trtprof.base.records import Run, Timeline, TimelineLane


def timed(run: Run) -> Run:
    """The run with one inference of its layers: two streams that overlap, copies, a host thread, a loop's inside.

    Every third layer runs on the second stream, every fourth has its kernel launched twice, each fifth event of the
    first stream has one inside, and the last kernel is led to no layer.
    """
    lanes = (
        TimelineLane(name="stream 7", kind="kernels"),
        TimelineLane(name="stream 7", kind="kernels", depth=1),
        TimelineLane(name="stream 13", kind="kernels"),
        TimelineLane(name="stream 7, copies", kind="copies"),
        TimelineLane(name="host thread 1", kind="host"),
    )
    layers = tuple(layer.name for layer in run.layers)
    names = [kernel.kernel for layer in run.layers for kernel in layer.kernels]
    rows: list[tuple[int, int, int, int, int]] = []
    copy, launch, lost, body = (len(names) + at for at in range(4))
    rows.append((0, 3, -1, copy, 2_001))
    ends = [2_500, 0, 2_700]
    for at, layer in enumerate(run.layers):
        lane = 2 if at % 3 == 2 else 0
        start, dur = ends[lane], layer.measured_ns
        rows.append((start // 2, 4, at, launch, 37))
        rows.append((start, lane, at, at, dur))
        if at % 4 == 1:
            rows.append((start + dur + 3, lane, at, at, dur // 2))
        if at % 5 == 0 and lane == 0:
            rows.append((start + 1, 1, -1, body, dur // 3))
        ends[lane] = start + dur + 3 + dur // 2 + 11
    rows.append((max(ends), 0, -1, lost, 0))
    rows.sort()
    return msgspec.structs.replace(
        run,
        timeline=Timeline(
            iteration=16,
            duration_ns=max(start + dur for start, *_, dur in rows),
            lanes=lanes,
            layers=layers,
            names=(*names, "copy to the GPU", "cudaLaunchKernel", "lost_kernel", "body_kernel"),
            lane=tuple(row[1] for row in rows),
            layer=tuple(row[2] for row in rows),
            name=tuple(row[3] for row in rows),
            start_ns=tuple(row[0] for row in rows),
            dur_ns=tuple(row[4] for row in rows),
            note="inference 17 of the profile, whose time is the median of 50; times are as captured",
        ),
    )


@functools.cache
def timed_case(case: str) -> Run:
    """A case of `factory.CASES` with a timeline."""
    return timed(CASES[case]())
