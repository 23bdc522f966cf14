"""Which kernels are timed to correct a GPU, and how much better that makes its expectations."""

from __future__ import annotations

import functools
from collections import Counter

import msgspec
import pytest

from trtprof.base.records import GpuSpec, Work
from trtprof.expected import expect, held_out, works_to_time
from trtprof.expected.measured import TimedWork
from trtprof.expected.model import class_of, document, dtype_on
from trtprof.expected.sweep import COUNT, LONGEST_NS, MOST_BYTES
from trtprof.hardware import gpus
from trtprof.hardware.cuda._kernels import ROW_LENGTHS, row_kernel

SLUGS = ("l4", "h100-sxm5")


@functools.cache
def chosen(slug: str, count: int = COUNT) -> tuple[GpuSpec, tuple[Work, ...]]:
    spec = gpus.find(slug)
    return spec, works_to_time(spec, gpus.ceilings(spec, tf32=False), ROW_LENGTHS, count=count)


@pytest.mark.parametrize("slug", SLUGS)
def test_all_that_is_timed_can_be_and_corrects_something(slug: str) -> None:
    spec, works = chosen(slug)
    assert COUNT - 3 <= len(works) <= COUNT
    assert len({(work.core, work.dtype) for work in works}) == len(works)
    told = expect(works, spec, gpus.ceilings(spec, tf32=False), tf32=False)
    for work, one in zip(works, told, strict=True):
        assert work.core is not None
        assert one.firm
        assert 0 < (one.expected_ns or 0) <= LONGEST_NS
        assert work.bytes <= MOST_BYTES
        if work.core.kind == "product":
            assert work.dtype == "fp32" or work.dtype in spec.tensor_flops_per_s
            assert work.core.n % 4 == work.core.k % 4 == 0
            assert work.dtype == "fp32" or work.core.n % 16 == work.core.k % 16 == 0
        if work.core.kind in ("softmax", "normalisation"):
            assert row_kernel(work.core.kind, work.dtype, work.core.n) is not None
    # Each a dozen times, all within a few seconds.
    assert sum(one.expected_ns or 0 for one in told) < 0.5e9


@pytest.mark.parametrize("part", [60, 300])
def test_any_part_of_them_from_the_first_on_covers_the_range_of_each_class(part: int) -> None:
    spec, works = chosen("l4")
    counts = Counter(class_of(work.core.kind, dtype_on(work, spec, tf32=False)) for work in works[:part] if work.core)
    whole = Counter(class_of(work.core.kind, dtype_on(work, spec, tf32=False)) for work in works if work.core)
    for name, count in whole.items():
        assert counts[name] == pytest.approx(count * part / len(works), abs=1)
    products = [
        work.core for work in works[:part] if work.core and work.core.kind == "product" and work.dtype != "fp32"
    ]
    for name, most in (("m", 4096), ("n", 4096), ("k", 2048)):
        values = [getattr(core, name) for core in products]
        low = document().classes["product"].range[name][0]
        assert min(values) <= 4 * low
        assert max(values) >= most
    assert {work.dtype for work in works[:part]} == {"fp16", "bf16", "fp8e4m3fn", "fp32"}


def test_products_of_8_bits_are_timed_where_a_gpu_has_a_unit_and_none_where_nothing_is_expected() -> None:
    assert "fp8e4m3fn" not in {work.dtype for work in chosen("a100-sxm4-80gb")[1]}
    _, blackwell = chosen("b200")
    assert {work.core.kind for work in blackwell if work.core} == {"product"}
    spec = msgspec.structs.replace(gpus.find("l4"), architecture="Unknown")
    assert works_to_time(spec, gpus.ceilings(spec, tf32=False), ROW_LENGTHS) == ()


def test_rows_held_out_tell_how_much_better_a_correction_makes_it() -> None:
    spec, works = chosen("l4", 200)
    ceilings = gpus.ceilings(spec, tf32=False)
    plain = expect(works, spec, ceilings, tf32=False)
    slow = [TimedWork(work, 1.4 * (one.expected_ns or 0)) for work, one in zip(works, plain, strict=True)]
    found = held_out([*slow, TimedWork(works[0], 1.0)], spec, ceilings)
    assert found["all"].rows == sum(one.rows for name, one in found.items() if name != "all")
    assert 80 <= found["all"].rows <= 100
    assert found["all"].before == pytest.approx(1 - 1 / 1.4, abs=1e-3)
    assert found["product"].after < 0.3 * found["product"].before
    assert found["product"].covered > 0.7
    even = [TimedWork(work, float(one.expected_ns or 0)) for work, one in zip(works, plain, strict=True)]
    assert held_out(even, spec, ceilings)["all"].after < 0.02
    assert held_out([], spec, ceilings) == {}
