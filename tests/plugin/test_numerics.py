"""Compiled kernels held against float64."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tests.fakes import kernel_tasks as bodies
from tests.fakes.kernel_tasks import batched_gemv, layer_norm, linear, one_node, softmax, swish_gate, usual
from trtprof.base.errors import MissingError
from trtprof.plugin import numerics, trials
from trtprof.plugin.kernel import Kernel, write
from trtprof.plugin.numerics import check, compiled, planned, respecialised, signature, some_blocks
from trtprof.plugin.ptx.parse import Program
from trtprof.plugin.reference import Expected
from trtprof.plugin.task import Task

pytestmark = pytest.mark.nightly


def ptx_of(kernels: tuple[Kernel, ...], *architectures: str) -> dict[tuple[int, str], str]:
    return {(one.tactic, name): compiled(one.source, name) for one in kernels for name in architectures}


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("name", usual("fp32"))
def test_every_template_is_within_its_floor(name: str, dtype: str) -> None:
    task = usual(dtype)[name]
    kernels = write(task).kernels[:1]
    assert kernels, "no template knows it"
    step, cases = check(task, kernels, ptx_of(kernels, "sm_89"), seconds=0.0, least=4)
    assert step.verdict == "passed", [(one.what, one.reason) for one in cases]
    assert step.cases >= 3
    assert all(one.worst is not None and one.worst <= 2.0 for one in cases)


def test_trials_come_in_turns_and_are_the_same_again() -> None:
    task = swish_gate("n", 40, "fp32")
    kernels = write(task).kernels[:2]
    ptx = ptx_of(kernels, "sm_75", "sm_120")
    first = check(task, kernels, ptx, seconds=0.0, least=6, seed=3)
    again = check(task, kernels, ptx, seconds=0.0, least=6, seed=3)
    assert first[1] == again[1]
    assert first[0].cases == again[0].cases >= 12
    assert {one.tactic for one in first[1]} == {1, 2}
    assert " ".join(one.architecture for one in first[1]).count("sm_120") >= 2


def test_a_large_task_is_executed_at_its_own_place_in_memory() -> None:
    task = batched_gemv()
    trial, sampled = next(planned(task, 0))
    assert sampled
    assert trial.shapes == ((600, 200, 8, 1, 64), (600, 1, 8, 64, 1))
    kernels = write(task).kernels[:1]
    wide, small = planned(task, 0), planned(swish_gate(4, 8), 0)
    assert sum(one for _, one in itertools.islice(wide, 10)) == 2
    assert sum(one for _, one in itertools.islice(small, 10)) == 0
    step, _ = check(task, kernels, ptx_of(kernels, "sm_89"), seconds=0.0, least=1)
    assert (step.verdict, step.cases) == ("passed", 1)
    text = kernels[0].source
    wrong = text.replace("float total = warp_reduce", "float total = (blockIdx.x > 9000) + warp_reduce")
    assert wrong != text
    bad = (replace(kernels[0], source=wrong),)
    step, cases = check(task, bad, ptx_of(bad, "sm_89"), seconds=0.0, least=1)
    assert step.verdict == "failed"
    assert "y: element" in cases[0].reason


def test_parts_of_a_task_are_found_by_trial() -> None:
    for task, axis, inputs in (
        (batched_gemv(), 0, (0, 0)),
        (linear(4, 4096, 8192), 0, (0, None, None)),
        (linear(1, 4096, 8192), 1, (None, 1, 0)),
        (layer_norm(4096, 4096), 0, (0, None, None)),
    ):
        found = numerics._Parts.of(task)
        assert (found.axis, found.inputs) == (axis, inputs)


def test_a_few_blocks_stand_for_many() -> None:
    assert some_blocks(64) is None
    assert some_blocks(1000) == [0, 1, 500, 998, 999]


def parts(task: Task) -> tuple[Kernel, Program]:
    (kernel, *_) = write(task).kernels
    return kernel, Program.parse(compiled(kernel.source, "sm_89"))


def test_what_tensorrt_gives_is_held_against_the_parameters() -> None:
    task = softmax("n", 64)
    kernel, program = parts(task)
    assert signature(task, kernel, program) == ""
    assert "it has no entry other" in signature(task, replace(kernel, entry="other"), program)
    assert kernel.extras
    assert "32-bit integers" in signature(task, replace(kernel, extras=()), program)
    assert "it takes" in signature(task, replace(kernel, inputs=("y",)), program)
    gate = swish_gate("n", 64)
    kernel, program = parts(gate)
    turned = (kernel.inputs[1], kernel.inputs[0], *kernel.inputs[2:])
    assert "the task has x, bias, gate" in signature(gate, replace(kernel, inputs=turned), program)
    step, cases = check(gate, [replace(kernel, inputs=turned)], ptx_of((kernel,), "sm_89"), seconds=0.0, least=1)
    assert step.verdict == "failed"
    assert cases[0].worst is None


def test_a_grid_that_is_short_leaves_its_poison() -> None:
    task = swish_gate(40, 96, "fp32")
    kernel, _ = parts(task)
    one = kernel.grid[0] - 1
    step, cases = check(task, [replace(kernel, grid=(one, *kernel.grid[1:]))], ptx_of((kernel,), "sm_89"), seconds=0.0)
    assert step.verdict == "failed"
    assert "elements of y are never written" in cases[0].reason


def test_without_a_compiler_the_text_that_ships_is_tried_all_the_same() -> None:
    def absent(source: str, architecture: str) -> str:
        raise MissingError("NVRTC is not installed", why="", fix="")

    task = swish_gate("n", 40)
    kernels = write(task).kernels[:1]
    ptx = ptx_of(kernels, "sm_89")
    step, _ = check(task, kernels, ptx, seconds=0.0, least=5, compile_source=absent)
    assert step.verdict == "passed"
    assert step.cases >= 2
    assert "no other dimensions were tried" in step.reason
    nothing, _ = check(task, kernels, {}, seconds=0.0)
    assert nothing.verdict == "not here"


def test_the_same_variant_is_asked_for_at_other_dimensions() -> None:
    task = batched_gemv("n", 20, 8, 64)
    (kernel, *_) = write(task).kernels
    other = respecialised(trials.sized(task, {64: 33}), kernel)
    assert other is not None
    assert other.source != kernel.source
    assert respecialised(task, replace(kernel, template="nobody's")) is None


def test_an_input_that_two_trials_share_is_not_changed() -> None:
    task = swish_gate("n", 40, "fp32")
    kernel, program = parts(task)
    trial = trials.Trial(task, task.shapes({"n": 3}))
    inputs = trials.drawn(trial, 0)
    before = [one.copy() for one in inputs]
    numerics.execute(kernel, program, trial, inputs)
    assert all(np.array_equal(a, b) for a, b in zip(inputs, before, strict=True))


def test_outputs_follow_where_dimensions_change() -> None:
    joined = one_node("Concat", {"a": ("n", 17), "b": ("n", 8), "y": ("n", 25)}, "fp16", axis=1)
    kernels = write(joined).kernels[:1]
    step, cases = check(joined, kernels, ptx_of(kernels, "sm_89"), seconds=0.0, least=8)
    assert step.verdict == "passed", cases
    assert step.cases == 8
    changed = trials.Trial(trials.sized(joined, {25: 3}), ((2, 17), (2, 8)))
    kept = numerics._settled(changed, [Expected(np.zeros((2, 25)), np.zeros((2, 25)), "fp16")])
    assert kept is not None
    assert kept.task.outputs[0].dims == ("n", 25)


@pytest.mark.parametrize(
    ("of", "template"),
    [
        (
            bodies.task([bodies.node("Conv", "x w", "y", group=64, pads=[2, 2, 2, 2])],
                 {"x": ("fp32", [1, 64, 50, 38]), "w": ("fp32", [64, 1, 5, 5])}, {"y": ("fp32", [1, 64, 50, 38])}),
            "depthwise",
        ),
        (
            bodies.task([bodies.node("Reshape", "x s", "r"), bodies.node("Transpose", "r", "y", perm=[0, 2, 1])],
                 {"x": ("fp32", [1, 31360])}, {"y": ("fp32", [1, 160, 196])}, constants={"s": [1, -1, 160]}),
            "copy",
        ),
    ],
)  # fmt: skip
def test_a_large_task_whose_nodes_say_dimensions_is_tried(of: Task, template: str) -> None:
    kernel = next(iter(write(of).kernels))
    assert kernel.template == template
    step, _ = check(of, [kernel], {(kernel.tactic, "sm_89"): compiled(kernel.source, "sm_89")}, seconds=0)
    assert (step.verdict, step.cases > 0) == ("passed", True), step.reason


def test_outputs_of_a_smaller_task_are_those_that_its_nodes_make() -> None:
    """Of 3001 rows the last is cut off: of fewer rows, fewer are left."""
    of = bodies.task(
        [bodies.node("Slice", "x s e a", "y")], {"x": ("fp32", [1, 3001, 201, 2])}, {"y": ("fp32", [1, 3000, 201, 2])},
        constants={"s": [0], "e": [-1], "a": [1]},
    )  # fmt: skip
    kernel = write(of).kernels[0]
    step, _ = check(of, [kernel], {(kernel.tactic, "sm_89"): compiled(kernel.source, "sm_89")}, seconds=0)
    assert (step.verdict, step.cases > 0) == ("passed", True), step.reason
