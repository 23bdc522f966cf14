"""What is refused, which band holds, and what no expectation may contradict."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trtprof.base.records import Core, Expectation, Work
from trtprof.estimate.cache import Traffic
from trtprof.estimate.roofline import estimate
from trtprof.expected import document, expect, nearest
from trtprof.expected.features import device_of, features, rows_of
from trtprof.hardware import gpus

WIDTH = {"fp32": 4, "fp16": 2, "bf16": 2, "int8": 1, "fp8e4m3fn": 1}


def work(kind: Any, dtype: str = "fp16", m: int = 512, n: int = 512, k: int = 512, batch: int = 1) -> Work:
    """A work of one kind, with the bytes that it moves at least."""
    width = WIDTH[dtype]
    product = kind in ("product", "convolution")
    deep = k if product else 1
    return Work(
        tensor_flops=2 * batch * m * n * k if product else 0,
        vector_flops=0 if product else batch * m * n,
        bytes_read=batch * (m * deep + deep * n if product else m * n) * width,
        bytes_written=batch * m * n * width,
        dtype=dtype,
        core=Core(kind=kind, batch=batch, m=m, n=n, k=deep) if kind != "pointwise" else Core(kind=kind, m=m * n),
    )


def one(asked: Work | None, gpu: str, *, tf32: bool = True) -> Expectation:
    spec = gpus.find(gpu)
    return expect([asked], spec, gpus.ceilings(spec, tf32=tf32), tf32=tf32)[0]


@pytest.mark.parametrize(
    ("asked", "gpu", "why"),
    [
        (None, "h100-sxm5", "its work is not known"),
        (Work(), "h100-sxm5", "it moves nothing"),
        (Work(bytes_read=8, bytes_written=8), "h100-sxm5", "no measured kernel computes its like"),
        (work("product", "fp32"), "h100-sxm5", "no matrix products in tf32 were measured"),
        (work("product", "bf16"), "t4", "no matrix products in bf16 were measured on Turing"),
        (work("convolution", "int8"), "h100-sxm5", "no convolutions in int8 were measured (there are: fp32)"),
        (work("convolution", "fp16", batch=64), "h100-sxm5", "no convolutions in fp16 were measured"),
        (work("product", batch=64), "h100-sxm5", "products like it were measured: batch is 64, and was 1 to 1"),
        (work("product", "fp8e4m3fn"), "a100-sxm4-80gb", "no matrix products in fp8e4m3fn were measured on Ampere"),
    ],
)
def test_what_nobody_measured_is_refused(asked: Work | None, gpu: str, why: str) -> None:
    found = one(asked, gpu)
    assert (found.expected_ns, found.expected_p10_ns, found.expected_p90_ns) == (None, None, None)
    assert (found.expected_basis, found.firm) == ("none", False)
    assert why in found.expected_reason


@pytest.mark.parametrize(
    ("asked", "gpu", "basis", "why"),
    [
        (work("product", "bf16"), "h100-sxm5", "measured", ""),
        (work("product", "fp16"), "h200", "measured", ""),
        (
            work("product", "fp16"),
            "rtx-4090",
            "architecture",
            "RTX 4090 was not measured, l40s of its architecture were",
        ),
        (
            work("pointwise", "fp16", m=4096, n=4096),
            "t4",
            "architecture",
            "pointwise ops in fp16 were not measured on T4, others were",
        ),
        (
            work("product", "bf16", m=1 << 16),
            "h100-sxm5",
            "extrapolated",
            "extrapolated: m lies outside of what was measured",
        ),
    ],
)
def test_what_is_near_to_what_was_measured_says_how(asked: Work, gpu: str, basis: str, why: str) -> None:
    found = one(asked, gpu)
    assert found.expected_ns is not None
    assert (found.expected_basis, found.expected_reason) == (basis, why)
    assert found.firm is (basis != "extrapolated")


def test_a_gpu_that_was_not_measured_has_a_wider_band() -> None:
    def wide(gpu: str) -> float:
        found = one(work("product", "bf16", m=2048, n=4096, k=4096), gpu)
        assert found.expected_p10_ns
        assert found.expected_p90_ns
        return found.expected_p90_ns / found.expected_p10_ns

    assert wide("rtx-4090") > 1.2 * wide("l40s")


@given(
    st.sampled_from(("product", "pointwise", "normalisation", "softmax")),
    st.sampled_from(("fp32", "fp16", "bf16", "int8")),
    st.sampled_from(("h100-sxm5", "l4", "rtx-4090", "t4", "a100-pcie-80gb", "rtx-5090")),
    st.integers(1, 1 << 13),
    st.integers(1, 1 << 13),
    st.integers(1, 1 << 13),
)
def test_an_expectation_lies_in_its_band_and_never_under_the_bound(
    kind: str, dtype: str, gpu: str, m: int, n: int, k: int
) -> None:
    asked = work(kind, dtype, m, n, k)
    spec = gpus.find(gpu)
    ceilings = gpus.ceilings(spec, tf32=False)
    found = expect([asked], spec, ceilings, tf32=False)[0]
    if found.expected_ns is None:
        assert found.expected_reason
        return
    assert found.expected_p10_ns is not None
    assert found.expected_p90_ns is not None
    assert found.expected_p10_ns <= found.expected_ns <= found.expected_p90_ns
    least = estimate(asked, Traffic(asked.bytes, 0), ceilings).ideal_ns
    assert found.expected_p10_ns >= 0.99 * least - 1


def test_a_convolution_in_16_bits_is_shown_as_its_product_and_no_verdict_rests_on_it() -> None:
    found, product = (
        one(work(kind, "fp16", m=4096, n=256, k=1152), "h100-sxm5") for kind in ("convolution", "product")
    )
    assert found.expected_ns == product.expected_ns
    assert found.expected_p10_ns is not None
    assert product.expected_p10_ns is not None
    assert found.expected_p10_ns < product.expected_p10_ns
    assert "no convolutions in fp16 were measured" in found.expected_reason
    assert product.firm
    assert not found.firm
    rows = nearest(work("convolution", "fp16", m=4096, n=256, k=1152), gpus.find("h100-sxm5"))
    assert rows == nearest(work("product", "fp16", m=4096, n=256, k=1152), gpus.find("h100-sxm5")) != ()


def test_a_board_that_is_short_of_power_takes_longer_for_products_on_cuda_cores() -> None:
    spec = gpus.find("t4")
    device = device_of(spec, gpus.ceilings(spec, tf32=False))

    def start(dtype: str, watts: float) -> float:
        asked = work("product", dtype, 4096, 4096, 4096)
        assert asked.core is not None
        return float(features(rows_of([(asked, asked.core)], device), device._replace(watts=watts), product=True)[1][0])

    assert start("fp32", 35) == pytest.approx(2 * start("fp32", 70), rel=0.01)
    assert start("fp32", 70) > 1.5 * start("fp32", 300)
    assert start("fp32", 300) == start("fp32", 0), "power that is not known holds nothing down"
    assert start("fp16", 35) == start("fp16", 300)


def test_the_nearest_rows_are_of_its_kind_and_of_this_gpu_first() -> None:
    asked = work("product", "bf16", m=1024, n=4096, k=4096)
    rows = nearest(asked, gpus.find("h100-sxm5"))
    assert [row.gpu for row in rows] == ["h100-sxm5"] * 3
    assert {row.dtype for row in rows} <= {"bf16", "fp16"}
    assert all(row.source.startswith(tuple(document().sources)) for row in rows)


def test_every_source_says_which_commit_and_licence() -> None:
    assert all({"repository", "commit", "licence"} <= set(source) for source in document().sources.values())
