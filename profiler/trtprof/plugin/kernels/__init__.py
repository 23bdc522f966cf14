"""Kernels that can be written for a task: one file for each form."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trtprof.plugin.form import Form, NoFitError
from trtprof.plugin.kernels import copy, depthwise, gemv, norm, pointwise, reduce, softmax
from trtprof.plugin.task import Task

FORMS: Mapping[str, Callable[[Task], Form]] = {
    "gemv": gemv.fits,
    "softmax": softmax.fits,
    "norm": norm.fits,
    "depthwise": depthwise.fits,
    "reduce": reduce.fits,
    "copy": copy.fits,
    "pointwise": pointwise.fits,
}
"""By name, in the order in which they are asked."""


def form_of(task: Task) -> tuple[Form | None, dict[str, str]]:
    """The first form that fits a task; None, and why by name of the form, where none does."""
    reasons: dict[str, str] = {}
    for name, fits in FORMS.items():
        try:
            return fits(task), reasons
        except NoFitError as error:
            reasons[name] = str(error)
    return None, reasons
