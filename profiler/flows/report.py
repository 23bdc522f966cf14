"""From a run folder to its result and its documents: no model, no engine, no device."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from profiler.base import run_folder
from profiler.base.records import Run
from profiler.base.run_folder import Request, RunFolder
from profiler.diagnose import Case
from profiler.diagnose.config import judge_of


def analysed(folder: RunFolder, seen: Callable[[Case], None] | None = None) -> Run:
    """The result of a run from its saved artefacts alone: no model, no engine, no device.

    Args:
        folder: Of the run.
        seen: Given the case that the rules look at.

    Raises:
        MissingError: An artefact is missing because the run did not get that far.
        CaptureError: Kernels could not be aligned.
    """
    from profiler.analysis.run import analyse

    if folder.has(run_folder.GPU):
        from profiler.analysis.gpu import evidence_of_gpu as evidence_of
    else:
        from profiler.analysis.cpu import evidence_of_cpu as evidence_of
    judge = judge_of(folder.read(run_folder.REQUEST, Request), seen)
    return analyse(*evidence_of(folder), judge)


def case_of(folder: RunFolder) -> Case:
    """What the rules look at, of a finished run; see `analysed`."""
    cases: list[Case] = []
    analysed(folder, cases.append)
    return cases[0]


def save_report(folder: RunFolder, run: Run) -> None:
    """Write the document and the page of a finished run into its folder; its tags are kept beside them."""
    from profiler.report import render

    run = msgspec.structs.replace(run, tags=())
    folder.write_bytes(run_folder.REPORT, render(run, "json").encode())
    folder.write_bytes(run_folder.PAGE, render(run, "html").encode())
