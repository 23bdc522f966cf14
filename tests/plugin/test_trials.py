"""Values and shapes that kernels are tried on."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from tests.fakes import kernel_tasks as bodies
from tests.fakes.kernel_tasks import batched_gemv, gather, masked_softmax, one_node, quantised_linear, softmax, usual
from trtprof.plugin import trials
from trtprof.plugin.trials import ODD, SMALL, VALUES, Trial, drawn, elements, numbers, odd_sizes, shrunk, sized


def test_equal_dimensions_stay_equal_and_the_depth_is_kept() -> None:
    small = shrunk(batched_gemv(600, 200, 8, 64))
    batch = small.inputs[0].dims[0]
    assert small.inputs[0].dims[2:] == (8, 1, 64)
    assert small.inputs[1].dims == (batch, 1, 8, 64, 1)
    assert small.outputs[0].dims[0] == batch
    assert elements(small, small.shapes({})) <= trials.SMALL
    assert shrunk(small) == small


def test_ones_stay_where_sizes_change() -> None:
    other = sized(batched_gemv(600, 200, 8, 64), {600: 3, 200: 5, 8: 7, 64: 33})
    assert other.inputs[0].dims == (3, 5, 7, 1, 33)
    assert other.inputs[1].dims == (3, 1, 7, 33, 1)
    assert other.outputs[0].dims == (3, 5, 7, 1, 1)


def test_odd_sizes_are_small_enough_and_have_names_of_every_size() -> None:
    seen = set()
    for seed in range(60):
        task, given = odd_sizes(softmax("n", 4096), np.random.default_rng(seed))
        assert elements(task, task.shapes(given)) <= trials.SMALL
        seen |= {given["n"]}
        assert task.inputs[0].dims[1] in ODD[1:]
    assert {0, 1, 31, 33} <= seen


def test_trials_are_the_same_for_the_same_seed() -> None:
    task = masked_softmax(4, 16, 48)
    first = [(one.what, one.task) for one in islice(trials.trials(task, 3), 40)]
    assert first == [(one.what, one.task) for one in islice(trials.trials(task, 3), 40)]
    assert first != [(one.what, one.task) for one in islice(trials.trials(task, 4), 40)]
    told = " ".join(what for what, _ in first)
    assert all(name in told for name in VALUES)
    assert "pointers shifted by 1" in told
    assert all(f"{name} shifted by 1" in told for name in ("x", "mask", "y"))
    assert "warps in order" in told
    trial = Trial(task, task.shapes({"n": 2}))
    assert all((a == b).all() for a, b in zip(drawn(trial, 7), drawn(trial, 7), strict=True))


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("values", VALUES)
def test_values_fill_each_dtype(values: str, dtype: str) -> None:
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


def test_indices_stay_inside_and_bytes_take_all_values() -> None:
    task = gather(50, 8, 4000)
    _, ids = drawn(Trial(task, task.shapes({})), 0)
    assert (ids.min(), ids.max()) == (-50, 49)
    weights = quantised_linear(1, 128, 96)
    _, w, _ = drawn(Trial(weights, weights.shapes({})), 0)
    assert (w.min(), w.max()) == (-128, 127)


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
