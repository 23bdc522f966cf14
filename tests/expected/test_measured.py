"""Rows that a user timed: how they are read, and what they change of an expectation."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from trtprof.base.errors import UsageError
from trtprof.base.records import Core, Expectation, Op, Tensor, Work
from trtprof.cost import work_of
from trtprof.expected import Correction, Measured, expect, learn, read_measured
from trtprof.expected.measured import TimedWork, work_at
from trtprof.hardware import gpus

SPEC = gpus.find("l40s")
CEILINGS = gpus.ceilings(SPEC, tf32=True)
SIZES = [(m, n, k) for m in (64, 256, 1024, 4096) for n in (512, 1536, 4096) for k in (256, 1024, 4096)]


def product(m: int, n: int, k: int, dtype: str = "bf16") -> Work:
    return work_at(Core(kind="product", m=m, n=n, k=k), dtype)


def one(work: Work, correction: Correction | None = None) -> tuple[int, int, int, str]:
    found: Expectation = expect([work], SPEC, CEILINGS, correction=correction)[0]
    assert found.expected_ns is not None
    assert found.expected_p10_ns is not None
    assert found.expected_p90_ns is not None
    return found.expected_p10_ns, found.expected_ns, found.expected_p90_ns, found.expected_reason


def slower(sizes: list[tuple[int, int, int]], factor: float) -> Correction:
    """Learned from rows that take a factor of what is expected of them."""
    rows = [TimedWork(product(*size), one(product(*size))[1] * factor) for size in sizes]
    return learn(rows, SPEC, CEILINGS)


def test_a_device_that_is_slower_throughout_is_told_by_its_rows() -> None:
    asked = product(512, 2048, 2048)
    low, middle, high, why = one(asked)
    new_low, new_middle, new_high, new_why = one(asked, slower(SIZES, 1.4))
    assert new_middle / middle == pytest.approx(1.4, rel=0.05)
    # The rows agree with one another, so that the band narrows.
    assert math.log(new_high / new_low) < 0.7 * math.log(high / low)
    assert new_why.startswith(f"corrected by {len(SIZES)} timed rows of matrix products")
    assert why in new_why


def test_timed_convolutions_in_16_bits_correct_those_and_products_but_no_verdict_rests_on_them() -> None:
    conv, alike = (work_at(Core(kind=kind, m=4096, n=256, k=1152), "fp16") for kind in ("convolution", "product"))
    plain = [expect([each], SPEC, CEILINGS)[0] for each in (conv, alike)]
    rows = [
        TimedWork(work_at(Core(kind="convolution", m=2048 * m, n=128 * n, k=1152), "fp16"), 0.0)
        for m in (1, 2, 4)
        for n in (1, 2, 4)
    ]
    times = expect([row.work for row in rows], SPEC, CEILINGS)
    timed = [row._replace(ns=1.5 * (one.expected_ns or 0)) for row, one in zip(rows, times, strict=True)]
    told = learn(timed, SPEC, CEILINGS)
    corrected = [expect([each], SPEC, CEILINGS, correction=told)[0] for each in (conv, alike)]
    for before, after in zip(plain, corrected, strict=True):
        assert before.expected_ns
        assert after.expected_ns
        assert after.expected_ns > 1.15 * before.expected_ns
        assert "corrected by 9 timed rows of matrix products" in after.expected_reason
    assert [one.expected_basis for one in corrected] == ["product", "corrected"]
    assert [one.firm for one in corrected] == [False, True]


def test_few_rows_change_little_and_the_band_less() -> None:
    asked = product(512, 2048, 2048)
    low, middle, high, _ = one(asked)
    new_low, new_middle, new_high, _ = one(asked, slower([(512, 2048, 1024)], 1.4))
    assert 1.0 < new_middle / middle < 1.15
    assert math.log(new_high / new_low) > 0.9 * math.log(high / low)


# --- the file ----------------------------------------------------------------------------------


def test_rows_are_read_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("kind,dtype,m,n,k,ns,read\nproduct,bf16,64,128,256,5000,\npointwise,fp16,1024,,,900.5,4096\n")
    first, second = read_measured(file).rows()
    assert (first.ns, first.line, first.work) == (5000, 2, product(64, 128, 256))
    assert (second.ns, second.work.bytes_read, second.work.core) == (900.5, 4096, Core(kind="pointwise", m=1024))


def test_remarks_say_what_calibrate_timed_and_count_as_lines(tmp_path: Path) -> None:
    file = tmp_path / "kernels.csv"
    table = "kind,dtype,m,n,k,ns\n# in between\nproduct,bf16,64,128,256,5000\n"
    file.write_text(f"# gpu: NVIDIA L40S\n# datasheet: l40s\n# timed: 2026-11-23T01:02:03+00:00\n{table}")
    found = read_measured(file)
    assert (found.gpu, found.slug, found.timed_at, found.source) == (
        "NVIDIA L40S", "l40s", "2026-11-23T01:02:03+00:00", "kernels.csv"
    )  # fmt: skip
    assert [row.line for row in found.rows()] == [6]
    file.write_text(f"# gpu: NVIDIA L40S\n{table}")
    assert (read_measured(file).gpu, read_measured(file).timed_at) == ("", ""), "a person may remark anything"


def test_rows_of_a_calibration_that_say_nothing_are_left_out_and_counted() -> None:
    work = product(4096, 4096, 4096)
    rows = [f"product,bf16,4096,4096,4096,{one(work)[1]}", "product,bf16,4096,4096,4096,100", "product,int8,1,1,1,5"]
    text = "kind,dtype,m,n,k,ns\n" + "\n".join(rows)
    timed = Measured(text=text, source="kernels.csv", gpu="NVIDIA L40S", slug="l40s", timed_at="2026-11-23T01:02:03")
    timed.check(SPEC, CEILINGS)
    _, told = timed.learn(SPEC, CEILINGS)
    assert told is not None
    assert (told.rows, told.left_out) == (1, 2)
    assert told.brief == "corrected by 1 row timed on this GPU on 2026-11-23"
    assert told.words.endswith("--measured none leaves them out; 2 more said nothing of it)")
    with pytest.raises(UsageError, match="line 3 of the measured rows cannot be right"):
        Measured(text=text, source="mine.csv").check(SPEC, CEILINGS)


def test_a_row_may_be_faster_than_the_ceilings_that_were_measured() -> None:
    """It is the datasheet that no kernel beats."""
    slow = msgspec.structs.replace(CEILINGS.attainable, tensor_flops_per_s={
        name: rate / 3 for name, rate in CEILINGS.attainable.tensor_flops_per_s.items()})  # fmt: skip
    rows = [TimedWork(product(4096, 4096, 4096), one(product(4096, 4096, 4096))[1])]
    learn(rows, SPEC, msgspec.structs.replace(CEILINGS, attainable=slow))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("m,n,k,ns\n1,2,3,4\n", "its head lacks kind, dtype"),
        ("kind,dtype,m,ns,colour\nproduct,bf16,1,4,red\n", "nothing is known of colour"),
        ("kind,dtype,m,m,ns\nproduct,bf16,1,1,4\n", "a column is there twice"),
        ("kind,dtype,m,ns\n", "nothing below its head"),
        ("kind,dtype,m,ns\nproduct,bf16,8,4\ngemm,bf16,8,4\n", "line 3 of"),
        ("kind,dtype,m,ns\nproduct,half,8,4\n", "dtype is 'half'"),
        ("kind,dtype,m,ns\nproduct,bf16,8.5,4\n", "m is '8.5', it must be a whole number"),
        ("kind,dtype,m,ns\nproduct,bf16,,4\n", "m is ''"),
        (f"kind,dtype,m,ns\nproduct,bf16,{'9' * 400},4\n", "15 digits at most"),
        (f"kind,dtype,m,ns\nproduct,bf16,{'9' * 5000},4\n", "15 digits at most"),
        ("kind,dtype,m,ns\nproduct,bf16,8\n", "ns is ''"),
        ("kind,dtype,m,ns\nproduct,bf16,8,nan\n", "ns is nan"),
        ("kind,dtype,m,ns\nproduct,bf16,8,-3\n", "ns is -3"),
        ("kind,dtype,m,ns\nproduct,bf16,8,4,9\n", "more than 4 values"),
        ("kind,dtype,m,ns,causal\nattention,bf16,8,4,yes\n", "causal is 'yes'"),
    ],
)
def test_a_bad_row_is_one_error_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(text)
    with pytest.raises(UsageError) as error:
        read_measured(file)
    assert said in f"{error.value} {error.value.why}"


def test_rows_that_cannot_be_right_are_refused_with_their_line() -> None:
    with pytest.raises(UsageError, match="line 7 of the measured rows cannot be right"):
        learn([TimedWork(product(4096, 4096, 4096), 100, 7)], SPEC, CEILINGS)
    with pytest.raises(UsageError, match="line 9 of the measured rows corrects nothing"):
        learn([TimedWork(work_at(Core(kind="convolution", m=64, n=64, k=64), "int8"), 1e6, 9)], SPEC, CEILINGS)


# --- work by dimensions ------------------------------------------------------------------------


def tensor(name: str, dtype: str, *dims: int) -> Tensor:
    return Tensor(name=name, dtype=dtype, shape=dims)


def op(kind: str, inputs: list[Tensor], output: Tensor, **attributes: Any) -> Op:
    return Op(op_type=kind, opset=24, attributes=attributes, inputs=tuple(inputs), outputs=(output,))


HEADS = [tensor("q", "fp16", 2, 8, 64, 32), tensor("k", "fp16", 2, 2, 128, 32), tensor("v", "fp16", 2, 2, 128, 32)]
OPS = [
    op("MatMul", [tensor("a", "fp16", 3, 64, 128), tensor("b", "fp16", 3, 128, 32)], tensor("y", "fp16", 3, 64, 32)),
    op("MatMul", [tensor("a", "int8", 64, 128), tensor("b", "int8", 128, 32)], tensor("y", "bf16", 64, 32)),
    op("Conv", [tensor("x", "fp16", 2, 16, 8, 8), tensor("w", "fp16", 8, 16, 1, 1)], tensor("y", "fp16", 2, 8, 8, 8)),
    op("Attention", HEADS, tensor("y", "fp16", 2, 8, 64, 32), is_causal=0),
    op("Softmax", [tensor("x", "fp32", 64, 128)], tensor("y", "fp32", 64, 128), axis=-1),
    op("LayerNormalization", [tensor("x", "fp16", 64, 128), tensor("g", "fp16", 128), tensor("b", "fp16", 128)],
       tensor("y", "fp16", 64, 128), axis=-1),
    op("Relu", [tensor("x", "fp16", 64, 128)], tensor("y", "fp16", 64, 128)),
]  # fmt: skip


@pytest.mark.parametrize("asked", OPS, ids=lambda asked: asked.op_type)
def test_the_work_of_dimensions_is_that_of_the_op(asked: Op) -> None:
    counted = work_of(asked, "")
    assert counted is not None
    assert counted.core is not None
    found = work_at(counted.core, counted.dtype)
    for name in ("tensor_flops", "fast_flops", "vector_flops", "special", "bytes_read", "bytes_written", "dtype"):
        assert getattr(found, name) == getattr(counted, name), name
