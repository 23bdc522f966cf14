"""Sectors that kernels move, beside those predicted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fakes.kernel_tasks import batched_gemv, layer_norm, linear, masked_softmax, reduction, swish_gate, transpose
from trtprof.base.records import Traffic
from trtprof.plugin import sizes
from trtprof.plugin.kernel import Kernel, write
from trtprof.plugin.numerics import compiled
from trtprof.plugin.ptx.parse import Program
from trtprof.plugin.task import Task
from trtprof.plugin.traffic import count


def first(task: Task) -> Kernel:
    return write(task).kernels[0]


def counted(task: Task, kernel: Kernel, **how: int) -> Traffic:
    most = how.pop("most_threads", 4_000_000)
    return count(task, kernel, Program.parse(compiled(kernel.source, "sm_89")), given=how, most_threads=most)


def test_the_gemv_of_the_story_moves_what_its_operands_have() -> None:
    task = batched_gemv()
    found = counted(task, first(task))
    assert found.ok
    assert found.predicted_bytes == found.counted_bytes == 250_828_800
    assert found.reason == ""
    assert found.bank_conflicts == 0


TASKS = {
    "rows of weights": linear(1, 2048, 512, "fp16"),
    "pointwise": swish_gate(512, 1024),
    "masked softmax": masked_softmax(8, 64, 128),
    "layer norm": layer_norm(500, 768),
    "reduction": reduction("ReduceSum", (400, 1000), -1),
    "reduction of columns": reduction("ReduceMean", (400, 1000), 0),
    "transpose": transpose((8, 128, 96), (0, 2, 1)),
}


def test_each_template_moves_what_is_predicted(subtests: pytest.Subtests) -> None:
    for name, task in TASKS.items():
        with subtests.test(name):
            found = counted(task, first(task), n=4)
            assert found.ok, found.reason
            assert found.counted_bytes == pytest.approx(found.predicted_bytes, rel=0.02)


APART = """
// Each thread has a row of its own, so that neighbours are 1024 elements apart.
extern "C" __global__ void apart(const float *x, float *y) {
    const int row = blockIdx.x * 128 + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < 1024; ++k) sum += x[row * 1024 + k] * (STEP);
    y[row] = sum;
}
"""


def by_hand(step: str) -> tuple[Task, Kernel]:
    task = reduction("ReduceSum", (512, 1024), -1, "fp32")
    kernel = Kernel(
        template="by hand", tactic=1, label="", entry="apart", source=APART.replace("STEP", step), inputs=("x",),
        outputs=("y",), grid=(sizes.number(4), sizes.number(1), sizes.number(1)), block=(128, 1, 1), why="",
        in_flight=4,
    )  # fmt: skip
    return task, kernel


def test_threads_that_lie_apart_are_told() -> None:
    task, kernel = by_hand("1.0f")
    found = counted(task, kernel)
    assert "L1 is asked for 7.99 times" in found.reason
    assert found.ok, "it is slow, and moves what is predicted"
    assert found.counted_bytes == found.predicted_bytes


def test_reading_twice_what_is_predicted_is_told() -> None:
    task = swish_gate(64, 96)
    kernel = first(task)
    short = replace(kernel, reads={"x": sizes.number(1000)})
    found = counted(task, short)
    assert not found.ok
    assert "times what is predicted" in found.reason
    half = swish_gate(128, 96)
    found = counted(half, replace(first(half), grid=(sizes.number(1), sizes.number(1), sizes.number(1))))
    assert not found.ok
    assert "it moves only" in found.reason
