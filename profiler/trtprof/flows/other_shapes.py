"""Shapes that a model runs with, looked for where it does not run with those that were given or assumed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from trtprof.base.errors import CaptureError, TrtprofError, UsageError
from trtprof.base.records import Source
from trtprof.capture import launch
from trtprof.capture.workers.inference import DOES_NOT_RUN
from trtprof.capture.workers.ort_trial import Trial, TrialRequest
from trtprof.flows.job import Job
from trtprof.source.consistent import alternatives
from trtprof.source.load import bound_as_allowed, source_of
from trtprof.source.shapes import Instead, written

_MOST = 40  # Sets of inputs that are tried


def with_way_out(error: CaptureError, job: Job) -> CaptureError:
    """The error of a run that refused its inputs, with a command that works in place of general advice."""
    if error.what != DOES_NOT_RUN or job.options.load_inputs:
        return error
    candidates = list(_candidates(job))
    if not candidates:
        return error
    asked = job.options.model
    names = [guess.name for guess in bound_as_allowed(job.loaded, asked.shapes, asked.batch, asked.symbols).guesses]
    job.progress.detail(f"it does not run: up to {len(candidates)} other shapes are tried")
    trial = _tried(job, candidates)
    if trial is None:
        return error
    if trial.found is None:
        tried = f"tried {trial.tried} other sizes" + (f" of {', '.join(names)}" if names else "")
        why = f"{error.why}; {tried}: none runs"
        return _final(CaptureError(error.what, why=why, fix=f"{error.fix}; no shapes that work were found"))
    shapes = {
        one.name: one.shape for one in candidates[trial.found].model.inputs if one.shape and one.shape != one.declared
    }
    command = shlex.join(["trtprof", "run", job.options.model.model, "--shapes", written(shapes)])
    return _final(CaptureError(error.what, why=error.why, fix=f"these shapes run, tried just now: {command}"))


def _final(error: CaptureError) -> CaptureError:
    """It would be the same another time."""
    error.resumable = False
    return error


def _candidates(job: Job) -> Iterator[Source]:
    """The model with other shapes: those that it gets if none is asked for, then other numbers for what was guessed."""
    request, count, seen = job.options.model, 0, {_shapes(job.source)}
    asked: list[tuple[dict[str, tuple[int, ...]], int | None, dict[str, int]]]
    asked = [(request.shapes, request.batch, request.symbols)]
    if request.shapes or request.batch is not None or request.symbols:
        asked.insert(0, ({}, None, {}))
    for shapes, batch, symbols in asked:
        guesses = bound_as_allowed(job.loaded, shapes, batch, symbols).guesses
        for numbers in [{}, *alternatives(guesses, {})]:
            try:
                instead = {name: Instead(number, "") for name, number in numbers.items()} if numbers else None
                found = source_of(job.loaded, shapes, batch, seed=job.options.seed, symbols=symbols, instead=instead)
            except UsageError:
                continue
            if _shapes(found) not in seen and count < _MOST:
                seen.add(_shapes(found))
                count += 1
                yield found


def _shapes(source: Source) -> tuple[tuple[int, ...] | None, ...]:
    return tuple(one.shape for one in source.model.inputs)


def _tried(job: Job, candidates: list[Source]) -> Trial | None:
    """What came of trying them; None where that ended before its time, which says nothing of the model."""
    request = TrialRequest(
        session=job.session,
        folder=str(job.scratch),
        scratch=str(job.scratch),
        candidates=tuple(source.model.inputs for source in candidates),
        seed=job.options.seed,
    )
    try:
        return launch.run_worker(request, "trtprof.capture.workers.ort_trial", Trial, job.progress.detail)
    except TrtprofError:
        return None
