"""Compiled kernels held against float64."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from tests.fakes import kernel_tasks as bodies
from tests.fakes.kernel_tasks import batched_gemv, softmax, swish_gate, usual
from trtprof.plugin.kernel import Kernel, write
from trtprof.plugin.numerics import check, compiled, planned, signature, some_blocks
from trtprof.plugin.ptx.parse import Program
from trtprof.plugin.task import Task

pytestmark = pytest.mark.nightly


def ptx_of(kernels: tuple[Kernel, ...], *architectures: str) -> dict[tuple[int, str], str]:
    return {(one.tactic, name): compiled(one.source, name) for one in kernels for name in architectures}


def test_every_template_is_within_its_floor(subtests: pytest.Subtests) -> None:
    for name in usual("fp32"):
        for dtype in ("fp32", "fp16", "bf16"):
            with subtests.test(f"{dtype} {name}"):
                task = usual(dtype)[name]
                kernels = write(task).kernels[:1]
                assert kernels, "no template knows it"
                step, cases = check(task, kernels, ptx_of(kernels, "sm_89"), seconds=0.0, least=4)
                assert step.verdict == "passed", [(one.what, one.reason) for one in cases]
                assert step.cases >= 3
                assert all(one.worst is not None and one.worst <= 2.0 for one in cases)


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
