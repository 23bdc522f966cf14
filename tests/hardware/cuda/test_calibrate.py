"""The calibration of a GPU without one: a device of given rates, and a CUDA driver that is a stub."""

from __future__ import annotations

import contextlib
import ctypes
import datetime as dt
import importlib.util
import itertools
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.given_rates import POOL_AT, PROPERTIES, UUID, FakeGpu, FakeProducts
from tests.fakes.stub_driver import stub_driver
from trtprof.base.errors import CaptureError, MissingError
from trtprof.base.records import LiveGpu
from trtprof.hardware import gpus, nvml
from trtprof.hardware._fit import Reading
from trtprof.hardware.cuda import _kernels, _measure, _workloads, calibrate
from trtprof.hardware.cuda._exchange import GpuMeasured, GpuRequest
from trtprof.hardware.cuda._kernels import TILE
from trtprof.hardware.cuda._measure import Bench
from trtprof.hardware.cuda._workloads import Memory
from trtprof.runtime import child, cublas, cuda_driver, nvrtc

NOW = dt.datetime(2026, 11, 21, 12, 0, tzinfo=dt.UTC)
HAS_BINDINGS = importlib.util.find_spec("cuda") is not None
WITHOUT_GPU = pytest.mark.skipif(bool(nvml.gpus()[0]), reason="there is an NVIDIA GPU here")

H200 = LiveGpu(
    index=0, uuid=f"GPU-{UUID}", name="NVIDIA H200", compute_capability="9.0", sms=132, memory_bytes=150_754_820_096,
    l2_bytes=60 << 20, max_sm_clock_mhz=1980, driver="580.95",
)  # fmt: skip


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small products and no waiting: the fake device's clock is its own."""
    monkeypatch.setattr(_workloads, "GEMM_SIZES", (64, 128))
    monkeypatch.setattr(_measure, "SAMPLE_SECONDS", 0.0)
    monkeypatch.setattr(_measure, "WARM_UP_SECONDS", 0.0)
    monkeypatch.setattr(_workloads, "PINNED", (1 << 20, 4 << 20))
    monkeypatch.setattr(_workloads, "PAGEABLE", (1 << 20,))


def bench(gpu: FakeGpu, products: FakeProducts | None = None) -> Bench:
    return Bench(gpu, _measure.take_memory(gpu), products)


# --- what is laid out -----------------------------------------------------------------------


@given(l2=st.integers(0, 256 << 20), free=st.integers(0, 300 << 30), sms=st.integers(1, 200))
def test_no_more_than_a_quarter_of_the_free_memory_is_taken(l2: int, free: int, sms: int) -> None:
    gpu = FakeGpu(PROPERTIES._replace(l2_bytes=l2, free_bytes=free, sms=sms))
    if _workloads.pool_bytes(gpu.properties) < _workloads.LEAST_POOL:
        with pytest.raises(CaptureError, match="too little free memory"):
            _measure.take_memory(gpu)
        assert gpu.allocated == []
        return
    memory = _measure.take_memory(gpu)
    assert sum(gpu.allocated) <= free // 4
    assert memory.pool_bytes % TILE == 0
    assert memory.pool_bytes >= _workloads.LEAST_POOL


@given(l2=st.integers(1 << 18, 200 << 20), region=st.integers(64 << 20, 8 << 30))
def test_runs_from_dram_follow_each_other_through_the_whole_region(l2: int, region: int) -> None:
    sizes = _workloads.dram_sizes(l2, region)
    assert sizes
    for size in sizes:
        assert size % TILE == 0
        places = _workloads.rotation(region, size)
        assert len(places) >= 2
        assert places == sorted(set(places))
        assert all(later - earlier >= size for earlier, later in itertools.pairwise(places))
        assert places[-1] + size <= region < places[-1] + 2 * size
    if region >= 8 * l2:
        # No more than a tile short of four times the L2, and never as large as a run that meets its own lines.
        assert all(size > 4 * l2 - TILE for size in sizes)


@given(l2=st.integers(1 << 16, 256 << 20))
def test_working_sets_of_the_l2_fit_into_half_of_it(l2: int) -> None:
    sizes = _workloads.cache_sizes(l2)
    assert all(size % TILE == 0 and size <= max(l2 // 2, TILE) for size in sizes)
    assert max(sizes) > l2 // 2 - TILE


def test_operands_and_result_of_a_product_do_not_overlap(subtests: pytest.Subtests) -> None:
    for product in cublas.PRODUCTS:
        with subtests.test(str(product)[:80]):
            for size in (100, 2048, 8192):
                a, b, c, total = cublas.layout(product, cublas.square(size))
                operand = size * size * cublas.element_bytes(product.data)
                assert a + operand <= b <= c - operand
                assert c + size * size * cublas.element_bytes(product.out) == total
                assert a % 256 == b % 256 == c % 256 == 0


def test_products_that_the_gpu_has_no_unit_for_or_that_do_not_fit_are_not_tried() -> None:
    def kinds(capability: tuple[int, int], pool: int) -> set[tuple[str, int]]:
        return {(product.dtype, size) for product, size in _workloads.products(capability, pool)}

    assert {dtype for dtype, _ in kinds((7, 0), 1 << 30)} == {"fp64", "fp32", "fp16"}
    assert {dtype for dtype, _ in kinds((9, 0), 1 << 30)} >= {"tf32", "bf16", "int8", "fp8e4m3fn"}
    # Three matrices of 128 x 128 doubles.
    assert ("fp64", 128) in kinds((9, 0), 3 * 8 * 128 * 128)
    assert ("fp64", 128) not in kinds((9, 0), 3 * 8 * 128 * 128 - 1)


# --- what is measured -----------------------------------------------------------------------


def test_the_readings_are_the_rates_of_the_device() -> None:
    gpu = FakeGpu()
    products = FakeProducts(gpu)
    readings = bench(gpu, products).readings(1.0)
    rate = {key: reading.value for key, reading in readings.items()}
    assert rate["dram read"] == pytest.approx(400e9)
    assert rate["dram copy"] == pytest.approx(350e9)
    assert rate["dram write"] == pytest.approx(300e9)
    assert rate["dram"] == pytest.approx(400e9)
    assert rate["cache read"] == pytest.approx(2000e9)
    assert rate["cache copy"] == pytest.approx(1800e9)
    # 8 threads a ns, each 8 chains of 16 multiply-adds of 2 FLOP a trip.
    assert rate["vector fp32"] == pytest.approx(8e9 * 256)
    assert rate["vector fp16"] == pytest.approx(8e9 * 512)
    # 4 chains of 8 evaluations, two at a time in fp16.
    assert rate["special sin"] == pytest.approx(8e9 * 32)
    assert rate["special exp"] == pytest.approx(8e9 * 64)
    # A warp of 32 threads does 32 products of 16x8x16 multiply-adds a trip.
    assert rate["mma fp16 acc fp32"] == pytest.approx(8e9 / 32 * 32 * 4096)
    assert rate["mma int8 acc int32"] == pytest.approx(8e9 / 32 * 32 * 8192)
    assert rate["gemm bf16 acc fp32 128"] == pytest.approx(200e9)
    assert rate["tensor fp16 acc fp32"] == pytest.approx(8e9 * 4096)
    assert rate["tensor fp32 acc fp32"] == pytest.approx(200e9)
    assert (rate["h2d"], rate["d2h pageable"]) == pytest.approx((50e9, 40e9))
    assert (rate["launch stream"], rate["launch graph"]) == pytest.approx((1500.0, 900.0))
    assert all(reading.repeats >= 2 for reading in readings.values())
    # Each product was made by the algorithm that was faster when both were tried.
    assert {which for _, _, which in products.runs[-10:]} == {1}


def test_runs_from_dram_rotate_and_stay_within_the_pool() -> None:
    gpu = FakeGpu()
    bench(gpu).readings(0.2)
    last: dict[tuple[str, int], int] = {}
    pool = gpu.allocated[0]
    for kernel, _, values in gpu.launches:
        if not kernel.startswith("dram"):
            continue
        target, source, count = values if kernel != "dram_write" else (values[0], values[0], values[1])
        source_end = source + 16 * count
        assert POOL_AT <= source < source_end <= POOL_AT + pool
        if kernel == "dram_copy":
            assert source_end <= target
            assert target + 16 * count <= POOL_AT + pool
        before = last.get((kernel, count))
        if before is not None:
            assert source == POOL_AT != before or abs(source - before) >= 16 * count
        last[kernel, count] = source
    assert len(last) == 9


def test_short_runs_are_queued_behind_a_busy_device_and_a_slow_host_is_no_failure() -> None:
    prompt, slow = FakeGpu(), FakeGpu(late=True)
    bench(prompt).run_ns(next(_workloads.memory_workloads(prompt, Memory(POOL_AT, 64 << 20, 0, 0))))
    assert min(prompt.held) >= 2 * _measure.HOST_NS
    ns = bench(slow).run_ns(next(_workloads.memory_workloads(slow, Memory(POOL_AT, 64 << 20, 0, 0))))
    assert ns == pytest.approx(4 * (1 << 20) / 400)
    # Ever longer, then not at all.
    assert slow.held[:4] == [40_000, 160_000, 640_000, 0]
    with pytest.raises(CaptureError, match="empty kernel could not be measured"):
        bench(slow).floors()


def test_copies_that_the_driver_stages_are_not_queued() -> None:
    gpu = FakeGpu()
    at = Memory(POOL_AT, 64 << 20, 0, 0)
    loads = list(_workloads.transfer_workloads(gpu, at, (1, 4 << 20), (2, 1 << 20)))
    assert {(load.task.ceiling, load.held) for load in loads} == {
        ("h2d", True), ("d2h", True), ("h2d pageable", False), ("d2h pageable", False),
    }  # fmt: skip


def test_a_launch_of_a_compute_kernel_lasts_about_a_millisecond() -> None:
    gpu = FakeGpu()
    loads = [load for load in bench(gpu).workloads() if load.task.ceiling.startswith("vector")]
    for load in loads:
        before = gpu.now
        run = load.prepare()
        assert run is not None
        run()
        assert gpu.now - before == pytest.approx(_measure.LAUNCH_NS, rel=0.01)


def test_a_product_with_a_wrong_result_is_left_out_and_said() -> None:
    gpu = FakeGpu()
    tried = bench(gpu, FakeProducts(gpu, wrong="bf16"))
    readings = tried.readings(0.2)
    assert not any(key.startswith("gemm bf16") for key in readings)
    assert tried.errors["tensor bf16 acc fp32"] > 1
    assert tried.errors["tensor int8 acc int32"] == 0
    assert 1e-9 < tried.errors["tensor fp32 acc fp32"] < 1e-5
    assert [note for note in tried.notes if "gemm bf16 acc fp32 64: left out" in note]
    # The tensor cores were measured by mma.sync all the same.
    assert "tensor bf16 acc fp32" in readings


def test_a_product_without_an_algorithm_is_said_once() -> None:
    gpu = FakeGpu()
    tried = bench(gpu, FakeProducts(gpu, refused="fp64"))
    readings = tried.readings(0.5)
    assert not any(key.startswith("gemm fp64") for key in readings)
    assert sum("fp64" in note for note in tried.notes) == 2  # one for each size


def test_operands_are_filled_anew_before_every_repeat() -> None:
    gpu = FakeGpu()
    tried = bench(gpu, FakeProducts(gpu))
    load = next(load for load in tried.workloads() if load.task.part == "gemm fp16 acc fp32 64")
    for _ in range(2):
        gpu.pool[:] = 0
        tried.run_ns(load)
        raw = gpu.read(POOL_AT, 2 * 64 * 64)
        assert np.std(cublas.values("R_16F", raw)) == pytest.approx(1 / np.sqrt(3), rel=0.1)


@pytest.mark.parametrize(("name", "theirs"), [("R_8F_E4M3", "float8_e4m3fn"), ("R_16BF", "bfloat16")])
def test_narrow_floats_are_read_as_others_read_them(name: str, theirs: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    count = 1 << 8 * cublas.element_bytes(name)
    bits = np.arange(count).astype(f"u{cublas.element_bytes(name)}")
    with np.errstate(invalid="ignore"):
        right = bits.view(getattr(ml_dtypes, theirs)).astype(np.float64)
        np.testing.assert_array_equal(cublas.values(name, bits.tobytes()), right)


def test_the_clock_is_watched_before_during_and_after() -> None:
    readings = iter(
        _measure.ClockReading(*values)
        for values in (
            (210.0, 405.0, ("idle",)), (1980.0, 2619.0, ()), (1905.0, 2619.0, ("power cap",)),
            (1900.0, None, ("power cap", "idle")),
        )
    )  # fmt: skip
    seen = threading.Event()

    def clock() -> _measure.ClockReading:
        found = next(readings, None)
        if found is None:
            seen.set()
        return found or _measure.ClockReading(1890.0, 2619.0, ())

    with _measure.watch(clock) as watched:
        assert seen.wait(10)
    clocks = watched.clocks_mhz()
    assert (clocks["before"], clocks["after"]) == (210.0, 1890.0)
    assert 1890.0 <= clocks["during"] <= 1980.0
    assert clocks["memory"] == 2619.0
    assert watched.held_down() == {"power cap": pytest.approx(2 / (len(watched.readings) - 2))}
    unknown = _measure.Watched([_measure.ClockReading(None, None, ())] * 3)
    assert (unknown.clocks_mhz(), unknown.held_down()) == ({}, {})


# --- the ceilings ---------------------------------------------------------------------------


def measured(**changed: float) -> GpuMeasured:
    values = {
        "tensor fp16 acc fp32": 700e12, "tensor fp16 acc fp16": 720e12, "tensor tf32 acc fp32": 400e12,
        "tensor fp32 acc fp32": 50e12, "tensor int8 acc int32": 1500e12, "tensor fp8e4m3fn acc fp32": 1400e12,
        "gemm fp16 acc fp32 8192": 700e12, "gemm fp16 acc fp32 2048": 600e12, "mma fp16 acc fp32": 620e12,
        "vector fp32": 60e12, "vector fp16": 120e12, "vector fp64": 30e12, "special exp": 4e12, "special erf": 3e12,
        "dram": 4.3e12, "dram read": 4.3e12, "dram copy": 4.0e12, "cache": 9e12, "cache read": 9e12,
        "h2d": 55e9, "launch graph": 800.0, "launch stream": 1700.0,
    } | {key.replace("_", " "): value for key, value in changed.items()}  # fmt: skip
    return GpuMeasured(
        name="NVIDIA H200", architecture="sm_90", nvrtc="13.4", cublas="13.10.0", l2_bytes=60 << 20,
        pool_bytes=32 * 60 << 20,
        readings={key: Reading(value, 0.01, 3, f"winner of {key}") for key, value in values.items()},
        clocks_mhz={"before": 345.0, "during": 1755.0, "after": 1980.0}, held_down={"power cap": 0.4},
    )  # fmt: skip


def test_attainable_is_measured_and_best_is_the_datasheets() -> None:
    ceilings = calibrate.ceilings_of(H200, measured(), now=NOW)
    spec, _ = nvml.spec_of(H200)
    sheet = gpus.ceilings(spec).best
    assert spec.slug.startswith("h200")
    own = ceilings.attainable
    # The faster accumulator, TF32 for fp32, and the CUDA cores where nothing was measured on the tensor cores.
    assert own.tensor_flops_per_s["fp16"] == 720e12
    assert own.tensor_flops_per_s["fp32"] == own.tensor_flops_per_s["tf32"] == 400e12
    assert own.tensor_flops_per_s["fp64"] == 30e12
    assert own.tensor_flops_per_s["uint8"] == own.tensor_flops_per_s["int8"] == 1500e12
    assert own.tensor_flops_per_s["fp8e5m2"] == own.tensor_flops_per_s["fp8e4m3fn"] == 1400e12
    assert own.vector_flops_per_s == {"fp16": 120e12, "fp32": 60e12, "fp64": 30e12}
    assert own.special_per_s == {"erf": 3e12, "exp": 4e12}
    assert (own.dram_bytes_per_s, own.cache_bytes_per_s) == (4.3e12, 9e12)
    assert ceilings.best.tensor_flops_per_s["fp16"] == sheet.tensor_flops_per_s["fp16"]
    assert ceilings.best.dram_bytes_per_s == sheet.dram_bytes_per_s
    assert set(own.tensor_flops_per_s) <= set(ceilings.best.tensor_flops_per_s)
    assert (ceilings.launch_ns, ceilings.origin, ceilings.cache_bytes) == (800.0, "measured", 60 << 20)
    assert ceilings.measured_at == "2026-11-21T12:00:00+00:00"
    assert ceilings.clocks_mhz["during"] == 1755.0


def test_every_reading_is_kept_in_order_with_its_unit() -> None:
    kept = calibrate.ceilings_of(H200, measured(), now=NOW).measurements
    names = list(kept)
    assert names[:4] == ["tensor fp16", "tensor fp16 acc fp16", "tensor fp16 acc fp32", "tensor fp32"]
    assert names.index("gemm fp16 acc fp32 2048") < names.index("gemm fp16 acc fp32 8192") < names.index("vector fp32")
    assert names[-2:] == ["launch graph", "launch stream"]
    assert kept["tensor fp16"].what == "winner of tensor fp16 acc fp16, summed in fp16"
    # A dtype with a single accumulator is named once.
    assert "tensor int8 acc int32" not in kept
    assert {name.split()[0]: one.unit for name, one in kept.items()} == {
        "tensor": "FLOP/s", "gemm": "FLOP/s", "mma": "FLOP/s", "vector": "FLOP/s", "special": "1/s",
        "dram": "B/s", "cache": "B/s", "h2d": "B/s", "launch": "ns",
    }  # fmt: skip
    assert all(one.threads == 0 and one.repeats == 3 and one.spread == 0.01 for one in kept.values())


def test_the_source_says_how_and_what_is_doubtful() -> None:
    source = calibrate.ceilings_of(H200, measured(), now=NOW).source
    for words in ("2026-11-21", "driver 580.95", "sm_90", "NVRTC 13.4", "cuBLASLt 13.10.0", "datasheet of",
                  "power cap (40.0 % of the time)", "winner of dram"):  # fmt: skip
        assert words in source
    for words in ("above the datasheet", "may hold some", "Repeats lie", "mma.sync, which"):
        assert words not in source
    doubtful = msgspec.structs.replace(
        measured(dram=6e12), cublas="", pool_bytes=4 * 60 << 20, clocks_mhz={},
        notes=("no matrix products: not installed",),
        readings=measured(dram=6e12).readings | {"cache": Reading(9e12, 0.2, 3, "x")},
    )  # fmt: skip
    ceilings = calibrate.ceilings_of(H200, doubtful, now=NOW)
    for words in ("above the datasheet, and ideal with it: dram (1.25 times)", "may hold some of the L2's",
                  "for cache", "does not tell the clock", "no matrix products: not installed",
                  "mma.sync, which newer GPUs exceed"):  # fmt: skip
        assert words in ceilings.source
    assert ceilings.best.dram_bytes_per_s == ceilings.attainable.dram_bytes_per_s == 6e12


def test_without_a_datasheet_ideal_is_what_was_measured() -> None:
    unknown = msgspec.structs.replace(H200, name="NVIDIA X", compute_capability="99.9")
    ceilings = calibrate.ceilings_of(unknown, measured(), now=NOW)
    assert ceilings.best == ceilings.attainable
    assert "Ideal is what was measured" in ceilings.source


def test_a_missing_ceiling_is_an_error_and_never_zero() -> None:
    whole = measured()
    readings = {key: value for key, value in whole.readings.items() if key != "cache"}
    with pytest.raises(CaptureError, match="no ceiling for cache"):
        calibrate.ceilings_of(H200, msgspec.structs.replace(whole, readings=readings), now=NOW)


def test_a_gpu_is_measured_as_the_one_device_that_its_child_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    second = msgspec.structs.replace(H200, index=1)
    monkeypatch.setattr(nvml, "gpus", lambda: ((msgspec.structs.replace(H200, uuid="GPU-other"), second), ""))
    asked: list[GpuRequest] = []

    def measure(wanted: GpuRequest) -> GpuMeasured:
        asked.append(wanted)
        return measured()

    said: list[str] = []
    ceilings = calibrate.calibrate_gpu(1, progress=said.append, seconds=7.0, measure=measure)
    assert asked == [GpuRequest(ordinal=0, uuid=second.uuid, nvml_index=1, seconds=7.0)]
    assert calibrate.environment(asked[0])["CUDA_VISIBLE_DEVICES"] == second.uuid
    assert ceilings.device == "NVIDIA H200"
    assert len(said) == 2
    assert "720 TFLOP/s" in said[1]
    # What is kept can be read again.
    assert msgspec.json.decode(msgspec.json.encode(ceilings), type=type(ceilings)) == ceilings


def test_a_gpu_that_is_not_there_or_is_split_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    split = msgspec.structs.replace(H200, mig=True)
    monkeypatch.setattr(nvml, "gpus", lambda: ((split, msgspec.structs.replace(split, slice=0)), ""))
    with pytest.raises(MissingError, match="there is no GPU 3") as absent:
        calibrate.calibrate_gpu(3)
    assert absent.value.why == "the driver sees 0 NVIDIA H200"
    with pytest.raises(MissingError, match="cannot be measured as a whole") as refused:
        calibrate.calibrate_gpu(0)
    assert "MIG" in refused.value.why


# --- the child ------------------------------------------------------------------------------


@WITHOUT_GPU
def test_without_a_driver_it_is_said_what_is_missing() -> None:
    with pytest.raises(MissingError, match="there is no GPU 0 to measure") as error:
        calibrate.calibrate_gpu()
    assert error.value.why
    assert error.value.fix


@WITHOUT_GPU
@pytest.mark.nightly
@pytest.mark.skipif(not HAS_BINDINGS, reason="cuda-bindings is not installed")
def test_the_child_says_what_is_missing() -> None:
    lacking = "the CUDA driver is not installed here"
    with contextlib.suppress(OSError):
        ctypes.CDLL("libcuda.so.1")
        lacking = "CUDA sees no device 0"  # the driver's library is there, and no GPU
    with pytest.raises(MissingError, match=lacking) as error:
        calibrate.measure_in_child(GpuRequest(ordinal=0, seconds=1.0))
    assert error.value.fix


@pytest.mark.parametrize("module", ["driver", "nvrtc"])
def test_without_the_package_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    uses: dict[str, Callable[[], object]] = {
        "driver": lambda: cuda_driver.Gpu(0),
        "nvrtc": lambda: nvrtc.compile_source(b"", "sm_90"),
    }
    with pytest.raises(MissingError, match="cuda-bindings is not installed") as error:
        uses[module]()
    assert "trtprof[gpu]" in error.value.fix


# --- the bindings ---------------------------------------------------------------------------

STUB_RUN = """
import sys
from trtprof.hardware.cuda import _measure
from trtprof.runtime import cuda_driver, nvrtc
image = open(sys.argv[1], "rb").read()
nvrtc.compile_source = lambda source, architecture: nvrtc.Compiled(image, "", "")
_measure.SAMPLE_SECONDS = _measure.WARM_UP_SECONDS = 0.0
sys.exit(_measure.main(["", sys.argv[2]]))
"""


@pytest.fixture(scope="session")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a driver library that is a stub, and the kernels compiled for it."""
    folder = tmp_path_factory.mktemp("stub")
    stub_driver(folder)
    try:
        # Beforehand, for NVRTC asks a driver that is there for more than the stub has.
        image = nvrtc.compile_source(_kernels.source(), "sm_90").image
    except MissingError as error:
        pytest.skip(str(error))
    (folder / "kernels.cubin").write_bytes(image)
    return folder


def run_stub(
    stub: Path, folder: Path, *, fails_at: str = "", version: str = "99040", uuid: str = f"GPU-{UUID}"
) -> GpuMeasured:
    request = GpuRequest(ordinal=0, uuid=uuid, seconds=0.0)
    *_, file = child.prepare("m", request, folder)
    variables = {"LD_LIBRARY_PATH": str(stub), "STUB_CUDA_VERSION": version, "STUB_FAILS_AT": fails_at}
    command = [sys.executable, "-P", "-c", STUB_RUN, str(stub / "kernels.cubin"), file]
    done = subprocess.run(
        command, env={**child.environment(), **variables}, capture_output=True, text=True, timeout=120, check=False
    )
    if error := child.failure_in(folder):
        raise error
    assert not done.returncode, done.stderr
    return child.answer_in(folder, GpuMeasured)


@pytest.mark.nightly
def test_the_driver_is_called_as_its_bindings_want_it(stub: Path, tmp_path: Path) -> None:
    found = run_stub(stub, tmp_path)
    rate = {key: reading.value for key, reading in found.readings.items()}
    # The stub's rates, up to the whole nanoseconds in which floats of milliseconds tell a time.
    assert rate["dram read"] == pytest.approx(400e9, rel=1e-3)
    assert rate["dram copy"] == pytest.approx(350e9, rel=1e-3)
    assert rate["dram write"] == pytest.approx(300e9, rel=1e-3)
    assert rate["cache read"] == pytest.approx(2000e9, rel=1e-3)
    assert rate["cache copy"] == pytest.approx(1800e9, rel=1e-3)
    assert rate["vector fp32"] == pytest.approx(8e9 * 256, rel=1e-3)
    assert rate["mma fp16 acc fp32"] == pytest.approx(8e9 * 4096, rel=1e-3)
    assert rate["h2d"] == pytest.approx(50e9, rel=1e-3)
    assert rate["d2h pageable"] == pytest.approx(40e9, rel=1e-3)
    assert rate["launch stream"] == pytest.approx(1500.0, rel=1e-3)
    assert rate["launch graph"] == pytest.approx(900.0, rel=1e-3)
    assert (found.name, found.architecture, found.l2_bytes) == ("Stub", "sm_90", 1 << 20)
    # cuBLASLt needs more of a driver than that; its absence does not stop the rest.
    assert not found.cublas
    assert found.notes[0].startswith("no matrix products")


@pytest.mark.nightly
def test_what_the_driver_refuses_is_one_clear_error(stub: Path, tmp_path: Path) -> None:
    with pytest.raises(CaptureError) as failed:
        run_stub(stub, tmp_path, fails_at="dram_copy")
    assert failed.value.why == "CUDA_ERROR_ILLEGAL_ADDRESS: said by the stub"
    with pytest.raises(MissingError, match="too old for NVRTC") as old:
        run_stub(stub, tmp_path, version="12020")
    assert old.value.why == "it runs CUDA 12.2 at most"
    assert "trtprof[gpu-cu12]" in old.value.fix
    with pytest.raises(MissingError, match="does not see the GPU"):
        run_stub(stub, tmp_path, uuid="GPU-ffffffff-0506-0708-090a-0b0c0d0e0f10")


def test_the_library_of_products_has_the_names_that_are_used() -> None:
    nvmath = pytest.importorskip("nvmath", reason="nvmath-python binds cuBLASLt")
    from nvmath.bindings import cublas
    from nvmath.bindings import cublasLt as lt  # noqa: N813

    for product in cublas.PRODUCTS:
        assert f"COMPUTE_{product.compute}" in cublas.ComputeType.__members__
        assert {f"CUDA_{name}" for name in (product.data, product.out, product.scale)} <= set(
            nvmath.CudaDataType.__members__
        )
    assert {"BATCH_COUNT", "STRIDED_BATCH_OFFSET"} <= set(lt.MatrixLayoutAttribute.__members__)
    # cublasLtMatmulHeuristicResult_t: an algorithm of eight words, a size, a status, a float, four reserved ints.
    assert lt.matmul_heuristic_result_dtype.itemsize == 8 * 8 + 8 + 4 + 4 + 4 * 4
    assert np.dtype(lt.get_matmul_desc_attribute_dtype(lt.MatmulDescAttribute.TRANSA)).itemsize == 4
    assert np.dtype(lt.get_matmul_desc_attribute_dtype(lt.MatmulDescAttribute.FAST_ACCUM)).itemsize == 1
