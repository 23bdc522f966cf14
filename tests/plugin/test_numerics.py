"""Compiled kernels held against float64."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fakes.kernel_tasks import softmax, swish_gate, usual
from trtprof.plugin.kernel import Kernel, write
from trtprof.plugin.numerics import check, compiled, signature, some_blocks
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
