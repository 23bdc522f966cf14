"""Single kernels timed on a device of given rates: what runs, what is checked, and what is left when it goes wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.given_rates import FakeGpu, FakeProducts
from trtprof.base.errors import CaptureError
from trtprof.base.records import LiveGpu
from trtprof.hardware.cuda import _measure, _timed, kernel_times
from trtprof.hardware.cuda._exchange import KernelShape, KernelsMeasured, KernelsRequest
from trtprof.hardware.cuda._measure import Bench
from trtprof.runtime import cublas
from trtprof.runtime.nvrtc import CudaError

GPU = LiveGpu(index=0, uuid="GPU-1", name="NVIDIA Fake")
PRODUCT = KernelShape(kind="product", dtype="bf16", m=48, n=64, k=80)
COPY = KernelShape(kind="pointwise", dtype="fp16", m=32 << 10)
ROWS = [
    KernelShape(kind=kind, dtype=dtype, m=7, n=length)
    for kind in ("softmax", "normalisation")
    for dtype, length in (("fp32", 128), ("fp32", 4096), ("fp16", 512), ("fp16", 16384))
]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_measure, "SAMPLE_SECONDS", 0.0)


def bench(gpu: FakeGpu, products: FakeProducts | None = None) -> Bench:
    return Bench(gpu, _measure.take_memory(gpu), products)


def times(bench: Bench, *shapes: KernelShape, seconds: float = 60.0) -> dict[int, float]:
    found: dict[int, float] = {}
    request = KernelsRequest(ordinal=0, seconds=seconds, shapes=shapes, rows_file="")
    _timed.time_all(bench, request, found.__setitem__)
    return found


def test_a_product_of_any_extent_is_run_with_the_weights_as_its_rows_and_checked() -> None:
    gpu = FakeGpu()
    products = FakeProducts(gpu)
    batch = KernelShape(kind="product", dtype="fp32", batch=3, m=16, n=32, k=48)
    tried = bench(gpu, products)
    found = times(tried, PRODUCT, batch)
    # By the faster of two algorithms, 200 FLOP a ns.
    assert found == pytest.approx({0: 2 * 48 * 64 * 80 / 200, 1: 3 * 2 * 16 * 32 * 48 / 200})
    assert products.runs[0][:2] == ("tensor bf16 acc fp32", 64)
    assert 0 < tried.errors["tensor bf16 acc fp32"] < 2e-2
    assert not tried.notes


@pytest.mark.nightly
def test_copies_and_rows_take_the_time_of_the_device() -> None:
    gpu = FakeGpu()
    tried = bench(gpu)
    found = times(tried, COPY, *ROWS)
    assert tried.notes == []
    assert found[0] == pytest.approx(2 * COPY.m * 2 / 350)
    for place, shape in enumerate(ROWS, 1):
        width = 4 if shape.dtype == "fp32" else 2
        assert found[place] == pytest.approx(1000 + 2 * shape.m * shape.n * width / 200)
    # A warp a row where rows are short, a block where they are long; all rows in one wave here.
    blocks = {kernel: blocks for kernel, blocks, _ in gpu.launches}
    assert (blocks["softmax_fp32_128"], blocks["softmax_fp32_4096"]) == (1, 7)


def test_a_wrong_row_a_shape_without_kernel_and_one_that_does_not_fit_are_said_and_the_others_go_on() -> None:
    gpu = FakeGpu()
    gpu.wrong = "softmax_fp32_128"
    large = KernelShape(kind="pointwise", dtype="fp32", m=1 << 30)
    odd = KernelShape(kind="softmax", dtype="fp32", m=4, n=100)
    tried = bench(gpu, FakeProducts(gpu, wrong="bf16", refused="fp16"))
    refused = KernelShape(kind="product", dtype="fp16", m=16, n=16, k=16)
    assert set(times(tried, ROWS[0], large, odd, refused, PRODUCT, COPY)) == {5}
    said = " | ".join(tried.notes)
    for words in ("softmax fp32 1x7x128x1: left out, a row is off by", "does not fit", "no kernel of such rows",
                  "no algorithm", "product bf16 1x48x64x80: left out, its result is off"):  # fmt: skip
        assert words in said


def test_without_a_library_products_are_left_out() -> None:
    tried = bench(FakeGpu())
    assert set(times(tried, PRODUCT, COPY)) == {1}
    assert "there is no library for it here" in tried.notes[0]


def test_when_the_time_is_up_it_is_said_how_many_were_not_timed() -> None:
    tried = bench(FakeGpu())
    assert times(tried, COPY, COPY, seconds=0.0) == {}
    assert tried.notes == ["2 kernels were not timed: the time was up"]


def test_the_operands_of_a_product_of_a_batch_lie_behind_each_other() -> None:
    kind = next(product for product in cublas.PRODUCTS if product.dtype == "fp16")
    a, b, c, total = cublas.layout(kind, cublas.Extent(rows=32, columns=8, depth=128, batch=4))
    assert (a, b, c) == (0, 4 * 32 * 128 * 2, 4 * (32 + 8) * 128 * 2)
    assert total == c + 4 * 32 * 8 * 2


# --- what is left when it goes wrong -----------------------------------------------------------


def told(request: KernelsRequest) -> KernelsMeasured:
    return KernelsMeasured(name="f", architecture="sm_90", nvrtc="13.4", cublas="9", l2_bytes=1, pool_bytes=1)


@pytest.mark.parametrize("error", [None, CaptureError("it died", why="SIGSEGV", fix="again"), KeyboardInterrupt()])
def test_what_was_timed_is_there_whatever_becomes_of_the_process(error: BaseException | None) -> None:
    def measure(request: KernelsRequest) -> KernelsMeasured:
        # The last line was being written.
        Path(request.rows_file).write_text("0 1500.5\n2 900.25\n9 1\n1 12" + ("\n" if error is None else ""))
        if error is not None:
            raise error
        return told(request)

    found = kernel_times.time_kernels(GPU, [COPY] * 3, seconds=1.0, measure=measure)
    assert found.times_ns == {0: 1500.5, 2: 900.25, **({1: 12.0} if error is None else {})}
    assert found.stopped is error
    assert (found.measured is None) == (error is not None)


def test_a_device_that_fails_half_way_leaves_the_rows_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the entry point of the child: a kernel that faults ends the process."""
    gpu = FakeGpu()
    rows = tmp_path / "rows"
    real = gpu.launch

    def launch(kernel: str, *arguments: object) -> None:
        if kernel.startswith("softmax"):
            raise CudaError("CUDA_ERROR_ILLEGAL_ADDRESS")
        real(kernel, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(gpu, "launch", launch)
    tried = bench(gpu)
    request = KernelsRequest(ordinal=0, seconds=60.0, shapes=(COPY, ROWS[0], COPY), rows_file=str(rows))
    with rows.open("a") as file, pytest.raises(CudaError):
        _timed.time_all(tried, request, lambda place, ns: print(place, ns, file=file, flush=True))
    assert [line.split()[0] for line in rows.read_text().splitlines()] == ["0"]
