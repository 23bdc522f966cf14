"""Values and shapes that kernels are tried on."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from tests.fakes import kernel_tasks as bodies
from tests.fakes.kernel_tasks import batched_gemv, one_node, usual
from trtprof.plugin import trials
from trtprof.plugin.trials import SMALL, VALUES, Trial, drawn, elements, numbers, shrunk


def test_equal_dimensions_stay_equal_and_the_depth_is_kept() -> None:
    small = shrunk(batched_gemv(600, 200, 8, 64))
    batch = small.inputs[0].dims[0]
    assert small.inputs[0].dims[2:] == (8, 1, 64)
    assert small.inputs[1].dims == (batch, 1, 8, 64, 1)
    assert small.outputs[0].dims[0] == batch
    assert elements(small, small.shapes({})) <= trials.SMALL
    assert shrunk(small) == small


def test_values_fill_each_dtype(subtests: pytest.Subtests) -> None:
    for values in VALUES:
        for dtype in ("fp32", "fp16", "bf16"):
            with subtests.test(f"{dtype} {values}"):
                task = one_node("Add", {"a": (4, 300), "b": (300,), "y": (4, 300)}, dtype)
                a, b = drawn(Trial(task, task.shapes({}), values), 0)
                assert (a.shape, b.shape) == ((4, 300), (300,))
                wide = a.astype(np.float64)
                if values == "infinite and NaN":
                    assert np.isnan(wide).any()
                    assert np.isinf(wide).any()
                    assert np.isfinite(b.astype(np.float64)).all()
                    return
                assert np.isfinite(wide).all()
                if values == "one-hot":
                    assert (np.count_nonzero(wide, axis=1) == 1).all()
                elif values == "equal":
                    assert np.unique(wide).size == 1
                elif values == "cancelling":
                    assert np.abs(wide.sum(axis=1)).max() < 0.05 * np.abs(wide).sum(axis=1).min()
                elif values == "denormal":
                    assert 0 < np.abs(wide).max() <= {"fp16": 2.0**-14}.get(dtype, 2.0**-126)
                elif values == "large":
                    assert np.abs(wide).min() > {"fp16": 2e4}.get(dtype, 1e38)
                else:
                    assert np.unique(wide).size > 50


def test_every_usual_task_takes_its_trials() -> None:
    for task in usual("fp16").values():
        for trial in islice(trials.trials(task, 1), 12):
            for operand, shape, array in zip(trial.task.inputs, trial.shapes, drawn(trial, 0), strict=True):
                assert array.shape == shape, operand.name


def test_what_nodes_say_themselves_stays() -> None:
    conv = bodies.task(
        [bodies.node("Conv", "x w", "y", group=64, pads=[2, 2, 2, 2])],
        {"x": ("fp32", [1, 64, 50, 38]), "w": ("fp32", [64, 1, 5, 5])},
        {"y": ("fp32", [1, 64, 50, 38])},
    )
    small = shrunk(conv)
    assert small.inputs[0].dims[1] == small.inputs[1].dims[0] == 64
    assert elements(small, small.shapes({})) <= SMALL
    joined = bodies.task(
        [bodies.node("Reshape", "x s", "y")],
        {"x": ("fp32", [1, 15680])},
        {"y": ("fp32", [1, 98, 160])},
        constants={"s": [1, -1, 160]},
    )
    assert numbers(joined) == [15680, 98]
