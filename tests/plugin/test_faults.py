"""Faults that are planted into kernels of the templates, and have to be caught without a GPU."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from tests.fakes.kernel_tasks import (
    batched_gemv,
    gather,
    layer_norm,
    linear,
    one_node,
    quantised_linear,
    reduction,
    softmax,
    swish_gate,
    transpose,
)
from tests.fakes.planted_faults import Planted, Stand, telling
from trtprof.plugin.kernel import write
from trtprof.plugin.numerics import compiled
from trtprof.plugin.task import Task

pytestmark = pytest.mark.nightly

ARCHITECTURE = "sm_89"


class Wrong(NamedTuple):
    """A fault by hand.

    Attributes:
        task: Of whose first kernel.
        pattern: What it has, which is looked for from the end of the text.
        put: What stands in its place.
        reason: What is said of it.
        variant: Which kernel.
    """

    task: Task
    pattern: str
    put: str
    reason: str = "element"
    variant: int = 0


HALF = 'asm volatile("{.reg .b16 h; cvt.rn.f16.f32 h, %0; cvt.f32.f16 %0, h;}" : "+f"('
ADD = one_node("Add", {"a": ("n", 33), "b": ("n", 33), "y": ("n", 33)}, "fp16")
WRONG: Mapping[str, Wrong] = {
    "a vector load that is not aligned": Wrong(
        batched_gemv("n", 20, 8, 64, "fp32"), r"if \(aligned<16>\([\w.]+\) && aligned<16>\([\w.]+\)\)",
        "if (true)", "misaligned",
    ),
    "alignment of one pointer alone": Wrong(
        swish_gate("n", 96, "fp32"), r" && aligned<16>\(y\);", ";", "misaligned",
    ),
    "a guard of rows that is off by one": Wrong(
        softmax("n", 64), r"row < rows;", "row <= rows;", "out of bounds",
    ),
    "no guard of columns": Wrong(
        linear(1, 96, 41), r"r < columns", "r < columns + 8", "out of bounds",
    ),
    "a barrier that is missing": Wrong(
        transpose(("n", 40, 24), (0, 2, 1)), r"__syncthreads\(\);", ";", "race|uninitialised",
    ),
    "a barrier that is missing in a sum": Wrong(
        reduction("ReduceSum", ("n", 3000), -1), r"__syncthreads\(\);(?=\s*\w+ all =)", ";", "race|uninitialised",
    ),
    "a barrier that is missing before shared memory is used again": Wrong(
        layer_norm("n", 6000), r"__syncthreads\(\);(?=\s*return all)", ";", "race",
    ),
    "two arguments in the wrong order": Wrong(
        swish_gate(96, 96), r"__restrict__ bias,(\s+const \w[\w ]*\*__restrict__) gate", r"__restrict__ gate,\1 bias",
    ),
    "a stride that is wrong": Wrong(
        layer_norm("n", 768), r"y \+ \(\(long long\)row \* 768\)", "y + ((long long)row * 760)", "never written|race",
    ),
    "a stride of an input that is wrong": Wrong(
        layer_norm("n", 768), r"x \+ \(\(long long\)row \* 768\)", "x + ((long long)row * 760)",
    ),
    "what is left over, left out": Wrong(
        ADD, r"if \(at >= total\) break;", "if (at + 8 > total) break;", "never written",
    ),
    "what is left over, written too far": Wrong(
        ADD, r"\(long long\)\(total - at\), (?=\w+\);\s*\}\s*\}\s*$)", "8, ", "out of bounds",
    ),
    "a sum in fp16": Wrong(
        reduction("ReduceSum", ("n", 1000), -1, "fp32"), r"(sum_\d) = Add::of\([^;]+;",
        rf"\g<0> {HALF}\1));",
    ),
    "a product in fp16": Wrong(
        batched_gemv("n", 20, 8, 64, "fp32"), r"sum\[u\]\[j\] \+= [^;]+;", rf"{{ \g<0> {HALF}sum[u][j])); }}",
    ),
    "shared memory that nobody wrote": Wrong(
        transpose(("n", 40, 24), (0, 2, 1)), r"square\[i\]\[lane\] = [^;]+;", ";", "uninitialised",
    ),
    "no bias": Wrong(layer_norm("n", 512), r" \+ b_value", ""),
    "no scale": Wrong(quantised_linear(1, 128, 96), r" \* half_to_float\([\w.]*scale\[\w+\]\)", ""),
    "no maximum in a softmax": Wrong(softmax("n", 500), r"(x_kept\[step\]\[i\]) - largest_\d+", r"\1"),
    "a broadcast along the wrong axis": Wrong(swish_gate("n", 96), r"gate\[i0\]", "gate[i1]", "element|out of bounds"),
    "a broadcast with the wrong stride": Wrong(swish_gate("n", 96), r"at % 96", "at % 88"),
    "no epsilon": Wrong(layer_norm("n", 512), r" \+ 1e-05f", ""),
    "a mean of one element less": Wrong(reduction("ReduceMean", ("n", 500), -1, "fp32"), r"/ 500\.0f", "/ 499.0f"),
    "a shuffle too few": Wrong(softmax("n", 500, "fp32"), r"= LANES / 2;", "= LANES / 4;"),
    "a sum that begins with one": Wrong(reduction("ReduceSum", (64, "n"), 0, "fp32"), r"sum_1 = 0\.0f", "sum_1 = 1.0f"),
    "negative indices": Wrong(gather(50, 64, "n"), r"if \(\w+ < 0\) \w+ \+= 50;", ""),
    "a sum that is cut short": Wrong(linear(1, 96, 41), r"if \(k < K\)", "if (k + 1 < K)"),
}  # fmt: skip


def test_a_fault_that_people_make_is_caught(subtests: pytest.Subtests) -> None:
    for name, wrong in WRONG.items():
        with subtests.test(name):
            kernel = write(wrong.task).kernels[wrong.variant]
            *_, last = re.finditer(wrong.pattern, kernel.source)
            text = kernel.source[: last.start()] + last.expand(wrong.put) + kernel.source[last.end() :]
            stand = Stand(wrong.task, telling(wrong.task))
            original = compiled(kernel.source, ARCHITECTURE)
            assert stand.outcome(kernel, original)[0].ok
            reason = stand.caught(kernel, Planted(name, 0, "", "", text), original, ARCHITECTURE)
            assert reason is not None, "it compiles to the same"
            assert re.search(wrong.reason, reason), reason
