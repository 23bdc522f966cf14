"""The GPUs of a machine, read through a pynvml whose answers are given and whose names are the real package's."""

from __future__ import annotations

import ctypes
import itertools
import re
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pynvml
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.fakes.fake_nvml import FakeNvml, drivers
from trtprof.base.errors import MissingError, TrtprofError
from trtprof.base.records import GpuSpec, LiveGpu
from trtprof.hardware import gpus, nvml
from trtprof.hardware.cuda import _properties
from trtprof.runtime import nvml_session

GIB = 1 << 30
CUDA_PROPERTIES = _properties.properties
"""The real one, whatever a fixture puts in its place."""
UUID = "d5b3a1c0-4e5f-4a6b-8c7d-9e0f1a2b3c4d"

# NVML 4090 figures: the clocks, width, L2 and rated clock as nvbench prints them (NVIDIA/nvbench pull request 207).
RTX_4090: dict[Any, Any] = {
    "nvmlDeviceGetUUID": f"GPU-{UUID}", "nvmlDeviceGetName": "NVIDIA GeForce RTX 4090",
    "nvmlDeviceGetCudaComputeCapability": (8, 9), "nvmlDeviceGetNumGpuCores": 16384,
    "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=24564 << 20, free=22952 << 20, used=0),
    "nvmlDeviceGetMemoryBusWidth": 384, ("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_SM): 210,
    ("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_MEM): 405, ("nvmlDeviceGetMaxClockInfo", pynvml.NVML_CLOCK_SM): 3105,
    ("nvmlDeviceGetMaxClockInfo", pynvml.NVML_CLOCK_MEM): 10501, "nvmlDeviceGetPowerUsage": 21500,
    "nvmlDeviceGetEnforcedPowerLimit": 450000, "nvmlDeviceGetPowerManagementDefaultLimit": 450000,
    ("nvmlDeviceGetTemperature", pynvml.NVML_TEMPERATURE_GPU): 31,
    "nvmlDeviceGetCurrentClocksEventReasons": pynvml.nvmlClocksEventReasonGpuIdle, "nvmlDeviceGetPersistenceMode": 1,
    "nvmlDeviceGetComputeMode": pynvml.NVML_COMPUTEMODE_DEFAULT, "nvmlDeviceGetCurrPcieLinkGeneration": 1,
    "nvmlDeviceGetMaxPcieLinkGeneration": 4, "nvmlDeviceGetCurrPcieLinkWidth": 16,
    "nvmlDeviceGetMaxPcieLinkWidth": 16,
}  # fmt: skip
A100: dict[Any, Any] = {
    **RTX_4090,
    "nvmlDeviceGetName": "NVIDIA A100-SXM4-40GB",
    "nvmlDeviceGetCudaComputeCapability": (8, 0),
    "nvmlDeviceGetNumGpuCores": 6912,
    "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=40 * GIB, free=40 * GIB, used=0),
    "nvmlDeviceGetMemoryBusWidth": 5120,
    ("nvmlDeviceGetMaxClockInfo", pynvml.NVML_CLOCK_SM): 1410,
    ("nvmlDeviceGetMaxClockInfo", pynvml.NVML_CLOCK_MEM): 1215,
    "nvmlDeviceGetPowerManagementDefaultLimit": 400000,
    "nvmlDeviceGetMigMode": (pynvml.NVML_DEVICE_MIG_ENABLE, pynvml.NVML_DEVICE_MIG_ENABLE),
    "nvmlDeviceGetEccMode": (pynvml.NVML_FEATURE_ENABLED, pynvml.NVML_FEATURE_DISABLED),
}


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., FakeNvml]]:
    """Put a driver with these devices in place of this machine's."""
    monkeypatch.setattr(_properties, "properties", dict)
    yield from drivers(monkeypatch)


def only() -> LiveGpu:
    found, note = nvml.gpus()
    assert note == ""
    (gpu,) = found
    return gpu


# --- reading --------------------------------------------------------------------------------


def test_every_name_asked_of_pynvml_is_in_the_real_package() -> None:
    source = "".join(Path(module.__file__ or "").read_text(encoding="utf-8") for module in (nvml, nvml_session))
    names = set(re.findall(r'"((?:nvml[A-Z]|NVML_)\w+)"', source)) | set(
        re.findall(r"nvml\.((?:nvml|NVML)\w+)", source)
    )
    assert len(names) > 40
    assert {name for name in names if not hasattr(pynvml, name)} == set()


def test_clock_events_cover_every_reason_of_the_real_package() -> None:
    assert sum(getattr(pynvml, name) for name in nvml_session.CLOCK_EVENTS) == pynvml.nvmlClocksEventReasonAll


def test_a_gpu_with_all_that_its_driver_tells(driver: Callable[..., FakeNvml]) -> None:
    driver(RTX_4090)
    gpu = only()
    assert (gpu.index, gpu.slice, gpu.name, gpu.compute_capability) == (0, None, "NVIDIA GeForce RTX 4090", "8.9")
    assert (gpu.driver, gpu.cuda) == ("580.95.05", "13.0")
    assert gpu.sms == 128
    assert gpu.dram_bytes_per_s == pytest.approx(1008.096e9)
    assert (gpu.sm_clock_mhz, gpu.max_sm_clock_mhz, gpu.memory_clock_mhz, gpu.max_memory_clock_mhz) == (
        210, 3105, 405, 10501,
    )  # fmt: skip
    assert (gpu.power_w, gpu.power_limit_w, gpu.default_power_limit_w, gpu.temperature_c) == (21.5, 450.0, 450.0, 31)
    assert gpu.clock_events == ("idle",)
    assert (gpu.ecc, gpu.mig, gpu.persistence, gpu.compute_mode) == (None, None, True, "default")
    assert (gpu.pcie_generation, gpu.max_pcie_generation, gpu.pcie_width) == (1, 4, 16)
    assert gpu.application_sm_clock_mhz is None  # GeForce has none


def test_one_question_refused_loses_no_other_field(driver: Callable[..., FakeNvml], subtests: pytest.Subtests) -> None:
    device = {**A100, "nvmlDeviceGetMigMode": [0, 0]}
    driver(device)
    whole = msgspec.to_builtins(only())
    errors = itertools.cycle((pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NO_PERMISSION, 4711))
    for question in [key for key in A100 if key != "nvmlDeviceGetUUID"]:
        with subtests.test(str(question)):
            driver({**device, question: pynvml.NVMLError(next(errors))})
            less = msgspec.to_builtins(only())
            differing = {key for key in whole if whole[key] != less[key]}
            assert 1 <= len(differing) <= 2  # memory has a size and what is free; bandwidth needs clock and width
            kept = ("compute_capability", "sms")
            assert all(less[key] is None or key == "name" for key in differing if key not in kept)


def test_a_driver_that_answers_nothing_still_gives_a_device(driver: Callable[..., FakeNvml]) -> None:
    driver({"nvmlDeviceGetBoardId": 1})
    gpu = only()
    told = {key for key, value in msgspec.to_builtins(gpu).items() if value not in (None, "")}
    assert told == {"index", "name", "driver", "cuda"}
    assert nvml.as_device(gpu).cores == 0
    with pytest.raises(MissingError, match="no datasheet can be derived"):
        nvml.spec_of(gpu)


def test_a_lost_gpu_is_said_and_the_others_are_listed(driver: Callable[..., FakeNvml]) -> None:
    driver(RTX_4090, {}, {**A100, "nvmlDeviceGetMigMode": None})
    found, note = nvml.gpus()
    assert [gpu.index for gpu in found] == [0, 2]
    assert note == "GPU 1 cannot be read: GPU is lost"


def test_why_there_is_no_gpu(driver: Callable[..., FakeNvml], subtests: pytest.Subtests) -> None:
    cases: list[tuple[int, str]] = [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "no NVIDIA driver is installed"),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "kernel module is not loaded"),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "different versions"),
        (pynvml.NVML_ERROR_NO_PERMISSION, "may not talk to the NVIDIA driver"),
        (pynvml.NVML_ERROR_TIMEOUT, "NVML does not start: Timeout"),
    ]
    for code, words in cases:
        with subtests.test(str(code)[:80]):
            driver(start=code)
            found, note = nvml.gpus()
            assert found == ()
            assert words in note


def test_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    found, note = nvml.gpus()
    assert found == ()
    assert "pip install nvidia-ml-py" in note


def test_older_drivers_call_clock_events_throttle_reasons(driver: Callable[..., FakeNvml]) -> None:
    bits = pynvml.nvmlClocksEventReasonSwPowerCap | pynvml.nvmlClocksEventReasonHwThermalSlowdown | 1 << 20
    driver(
        {
            **RTX_4090,
            "nvmlDeviceGetCurrentClocksEventReasons": pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND),
            "nvmlDeviceGetCurrentClocksThrottleReasons": bits,
        }
    )
    assert only().clock_events == ("power cap", "temperature, slowed by hardware", "reason 0x100000")


def test_sampling_by_index_and_by_uuid(driver: Callable[..., FakeNvml]) -> None:
    driver(A100, {**RTX_4090, ("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_SM): 2745})
    with nvml_session.sampler(1) as gpu:
        assert (gpu.sm_clock_mhz(), gpu.throttle_reasons()) == (2745, ("idle",))
    with nvml_session.sampler(f"GPU-{UUID}") as gpu:
        assert (gpu.sm_clock_mhz(), gpu.memory_clock_mhz(), gpu.power_w(), gpu.temperature_c()) == (210, 405, 21.5, 31)
    with nvml_session.sampler("GPU-none") as gpu:
        assert (gpu.sm_clock_mhz(), gpu.throttle_reasons(), gpu.power_w(), gpu.temperature_c()) == (
            None,
            (),
            None,
            None,
        )


def test_processes_that_compute_are_counted_where_the_driver_tells_them(driver: Callable[..., FakeNvml]) -> None:
    driver({**RTX_4090, "nvmlDeviceGetComputeRunningProcesses": [("one", "another")]}, RTX_4090)
    for index, count in ((0, 2), (1, None)):
        with nvml_session.sampler(index) as gpu:
            assert gpu.processes() == count


def test_as_device(driver: Callable[..., FakeNvml]) -> None:
    driver(RTX_4090)
    device = nvml.as_device(msgspec.structs.replace(only(), l2_bytes=72 << 20))
    assert (device.kind, device.cores, device.cache_bytes, device.clock_mhz) == ("gpu", 128, 72 << 20, 210)
    assert device.memory_bytes == 24564 << 20
    assert device.detail["clock_events"] == "idle"
    assert device.detail["persistence"] == "on"
    assert "ecc" not in device.detail  # not told is not off


# --- which datasheet ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "clock_mhz", "bus_bits"),
    [
        # deviceQuery in the user documentation of the Paderborn Center for Parallel Computing
        ("NVIDIA A100-SXM4-40GB", 1215, 5120),
        # forums.developer.nvidia.com/t/rtx-3090-a100-memory-frequency/198730
        ("NVIDIA GeForce RTX 3090", 9751, 384),
        # NVIDIA/nvbench pull request 207
        ("NVIDIA GeForce RTX 4090", 10501, 384),
        # deviceQuery of a T4
        ("Tesla T4", 5001, 256),
    ],
)
def test_bandwidth_from_clock_and_width_is_the_datasheet_s(name: str, clock_mhz: int, bus_bits: int) -> None:
    assert nvml.dram_bytes_per_s(clock_mhz, bus_bits) == pytest.approx(gpus.find(name).dram_bytes_per_s.value, rel=0.01)


def test_every_datasheet_is_of_the_class_that_its_driver_names_tell() -> None:
    wrong = {
        name: (spec.product_class, nvml.product_class(name))
        for spec in gpus.specs().values()
        for name in spec.nvml_names
        if nvml.product_class(name) != spec.product_class
    }
    assert wrong == {}


def made(slug: str, name: str, driver_names: tuple[str, ...], **changed: Any) -> GpuSpec:
    """A datasheet like that of the RTX 3080, changed."""
    values: dict[str, Any] = {
        "cc": "8.6", "product_class": "geforce", "sms": 68, "boost_mhz": 1710, "memory_bytes": 10 * GIB,
        "dram_bytes_per_s": 760e9, "l2_bytes": 5 << 20, "tdp_w": 320,
    }  # fmt: skip
    spec = gpus.derive(name=name, **values | changed)
    return msgspec.structs.replace(spec, slug=slug, nvml_names=driver_names, origin=f"{slug}.toml")


SMALL = made("rtx-3080", "RTX 3080 10 GB", ("NVIDIA GeForce RTX 3080",))
LARGE = made(
    "rtx-3080-12gb", "RTX 3080 12 GB", (), sms=70, memory_bytes=12 * GIB, dram_bytes_per_s=912e9, l2_bytes=6 << 20
)
BOARD = made("a100-40", "A100 40 GB SXM4", ("NVIDIA A100-SXM4-40GB",), cc="8.0", product_class="datacenter", sms=108,
             boost_mhz=1410, memory_bytes=40 * GIB, dram_bytes_per_s=1555e9, l2_bytes=40 << 20, tdp_w=400)  # fmt: skip
LIVE = LiveGpu(
    index=0, name="NVIDIA GeForce RTX 3080", compute_capability="8.6", sms=68, max_sm_clock_mhz=2100,
    memory_bytes=10240 << 20, dram_bytes_per_s=nvml.dram_bytes_per_s(9501, 320), default_power_limit_w=320.0,
)  # fmt: skip


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "specs", lambda: {spec.slug: spec for spec in (SMALL, LARGE, BOARD)})


@pytest.mark.usefixtures("known")
def test_a_name_and_properties_that_agree() -> None:
    spec, reason = nvml.spec_of(LIVE)
    assert spec is SMALL
    assert reason == "the driver's name; SMs, clock, memory, bandwidth agree"
    old_driver = msgspec.structs.replace(LIVE, name="GeForce RTX 3080")
    assert nvml.spec_of(old_driver)[0] is SMALL


@pytest.mark.usefixtures("known")
def test_of_boards_that_share_a_name_the_properties_decide() -> None:
    live = msgspec.structs.replace(LIVE, sms=70, memory_bytes=12 * GIB, dram_bytes_per_s=912e9)
    assert nvml.spec_of(live)[0] is LARGE


def test_shipped_datasheets_are_told_apart(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str, int, int, str]] = [
        ("NVIDIA GeForce RTX 3080", "8.6", 68, 10, "rtx-3080"),
        ("NVIDIA GeForce RTX 3080", "8.6", 70, 12, "rtx-3080-12gb"),
        ("NVIDIA GeForce RTX 4060 Ti", "8.9", 34, 8, "rtx-4060-ti"),
        ("NVIDIA GeForce RTX 4060 Ti", "8.9", 34, 16, "rtx-4060-ti-16gb"),
        ("NVIDIA A100-SXM4-80GB", "8.0", 108, 80, "a100-sxm4-80gb"),
        ("NVIDIA H100 80GB HBM3", "9.0", 132, 80, "h100-sxm5"),
    ]
    for name, cc, sms, gib, slug in cases:
        with subtests.test(str(name)[:80]):
            live = LiveGpu(index=0, name=name, compute_capability=cc, sms=sms, memory_bytes=gib * GIB)
            assert nvml.spec_of(live)[0].slug == slug


@pytest.mark.usefixtures("known")
def test_a_name_alone_is_taken_where_the_driver_tells_nothing_else() -> None:
    spec, reason = nvml.spec_of(LiveGpu(index=0, name="NVIDIA A100-SXM4-40GB"))
    assert spec is BOARD
    assert "the driver does not tell SMs, clock, memory, bandwidth" in reason


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"sms": 58}, "58 SMs here, 68 in rtx-3080"),
        ({"max_sm_clock_mhz": 1200}, "at most 1200 MHz here, 1710 in rtx-3080"),
        ({"memory_bytes": 20 * GIB}, "21.5 GB of memory here, 10.7 GB in rtx-3080"),
        ({"dram_bytes_per_s": 500e9}, "500 GB/s here, 760 GB/s in rtx-3080"),
    ],
)
def test_a_name_is_not_taken_blindly(changed: dict[str, Any], why: str) -> None:
    live = msgspec.structs.replace(LIVE, **changed)
    spec, reason = nvml.spec_of(live)
    assert spec.origin == "derived"
    assert reason.startswith("derived: ")
    assert why in reason
    assert "L2 as in rtx-3080" in reason  # the driver did not tell it
    assert spec.sms.value == live.sms
    assert spec.memory_bytes.value == live.memory_bytes


@pytest.mark.usefixtures("known")
def test_a_board_rated_above_its_datasheet_keeps_it_and_that_is_said() -> None:
    spec, reason = nvml.spec_of(msgspec.structs.replace(LIVE, boost_mhz=1800))
    assert spec is SMALL
    assert "rated at 1800 MHz, the datasheet's at 1710" in reason


@pytest.mark.usefixtures("known")
def test_an_unknown_gpu_is_derived_from_its_own_properties() -> None:
    live = msgspec.structs.replace(
        LIVE, name="NVIDIA GeForce RTX 3075", sms=64, boost_mhz=1700, l2_bytes=5 << 20, max_sm_clock_mhz=2100
    )
    spec, reason = nvml.spec_of(live)
    assert reason == "derived: no datasheet is of that name"
    assert (spec.name, spec.product_class, spec.boost_mhz.value) == ("GeForce RTX 3075", "geforce", 1700)
    # 64 SMs x 128 lanes x 2 FLOP x 1.7 GHz; fp16 with fp32 sums at the half rate of a GeForce
    assert spec.vector_flops_per_s["fp32"].value == pytest.approx(27.85e12, rel=1e-3)
    assert spec.tensor_flops_per_s["fp16"]["fp32"].value == pytest.approx(64 * 512 * 1.7e9)
    at_most = nvml.spec_of(msgspec.structs.replace(live, boost_mhz=None))[1]
    assert at_most.endswith("peaks are at the highest clock, for the rated one is not told")


@pytest.mark.usefixtures("known")
def test_an_architecture_that_nobody_knows_is_refused_in_words() -> None:
    with pytest.raises(TrtprofError) as refused:
        nvml.spec_of(
            msgspec.structs.replace(LIVE, name="NVIDIA X1", compute_capability="99.0", boost_mhz=1700, l2_bytes=1)
        )
    assert "99.0" in str(refused.value)


@pytest.mark.usefixtures("known")
@given(
    st.builds(
        LiveGpu,
        index=st.just(0),
        slice=st.none() | st.integers(0, 6),
        name=st.sampled_from(["NVIDIA GeForce RTX 3080", "GeForce RTX 3080", "NVIDIA A100-SXM4-40GB", "NVIDIA Q1", ""]),
        compute_capability=st.sampled_from(["", "8.0", "8.6", "9.0", "99.0"]),
        sms=st.none() | st.integers(0, 200),
        memory_bytes=st.none() | st.integers(0, 200 * GIB),
        l2_bytes=st.none() | st.integers(0, 1 << 28),
        dram_bytes_per_s=st.none() | st.floats(0, 1e13),
        max_sm_clock_mhz=st.none() | st.integers(0, 4000),
        boost_mhz=st.none() | st.integers(0, 4000),
    )
)
def test_whatever_a_driver_tells_no_datasheet_contradicts_it(live: LiveGpu) -> None:
    try:
        spec, reason = nvml.spec_of(live)
    except TrtprofError as error:
        assume(not (error.why and error.fix))  # an answer in words is one, too; a bare error is none
        raise
    assert reason
    if live.sms:
        assert spec.sms.value == live.sms
    if live.compute_capability:
        assert spec.compute_capability == live.compute_capability
    if spec.origin != "derived" and live.memory_bytes:
        assert spec.memory_bytes.value == pytest.approx(live.memory_bytes, rel=0.15)


# --- MIG ------------------------------------------------------------------------------------


def mig_slice(sms: int, memory_mib: int, **more: Any) -> dict[Any, Any]:
    return {
        "nvmlDeviceGetUUID": f"MIG-{uuid.UUID(int=sms)}",
        "nvmlDeviceGetAttributes_v2": SimpleNamespace(multiprocessorCount=sms, memorySizeMB=memory_mib),
        "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=memory_mib << 20, free=memory_mib << 20, used=0),
        **more,
    }


@pytest.mark.usefixtures("known")
def test_mig_slices_have_their_share_of_the_board(driver: Callable[..., FakeNvml]) -> None:
    # Sizes as nvidia-smi shows them in NVIDIA's Multi-Instance GPU User Guide: 14 SMs and 4864 MiB are 1g.5gb.
    named = mig_slice(14, 4864, nvmlDeviceGetName="NVIDIA A100-SXM4-40GB MIG 1g.5gb")
    driver(A100, slices={0: mig_slice(42, 20096), 3: named})
    found, note = nvml.gpus()
    assert note == ""
    assert [(gpu.slice, gpu.sms, gpu.name) for gpu in found] == [
        (None, 108, "NVIDIA A100-SXM4-40GB"),
        (0, 42, "NVIDIA A100-SXM4-40GB MIG 0"),
        (3, 14, "NVIDIA A100-SXM4-40GB MIG 1g.5gb"),
    ]
    assert nvml.spec_of(found[0])[0] is BOARD
    half, reason = nvml.spec_of(found[1])
    assert reason.startswith(
        "derived: a MIG slice of A100-SXM4-40GB; boost clock, bandwidth, L2 as in a100-40 (0.5 of its memory system)"
    )
    assert half.dram_bytes_per_s.value == BOARD.dram_bytes_per_s.value / 2
    assert half.l2_bytes.value == BOARD.l2_bytes.value / 2
    eighth, _ = nvml.spec_of(found[2])
    assert (eighth.sms.value, eighth.product_class) == (14, "datacenter")
    assert eighth.dram_bytes_per_s.value == BOARD.dram_bytes_per_s.value / 8


# --- the CUDA driver ------------------------------------------------------------------------


class FakeCuda:
    """The functions of libcuda that are called, for devices given by their attributes."""

    def __init__(self, *devices: dict[int, int], fails: str = "") -> None:
        self.devices = devices
        self.fails = fails

    def cuInit(self, _flags: int) -> int:  # noqa: N802
        return 100 if self.fails == "cuInit" else 0

    def cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802
        count._obj.value = len(self.devices)
        return 0

    def cuDeviceGet(self, device: Any, ordinal: int) -> int:  # noqa: N802
        device._obj.value = ordinal
        return 0

    def cuDeviceGetUuid_v2(self, identity: Any, device: ctypes.c_int) -> int:  # noqa: N802
        identity[:] = uuid.UUID(int=device.value).bytes
        return 1 if self.fails == "cuDeviceGetUuid_v2" else 0

    def cuDeviceGetAttribute(self, value: Any, attribute: int, device: ctypes.c_int) -> int:  # noqa: N802
        value._obj.value = self.devices[device.value].get(attribute, 0)
        return 0 if attribute in self.devices[device.value] else 1


def test_the_cuda_driver_tells_what_nvml_does_not(
    driver: Callable[..., FakeNvml], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {13: 1410000, 16: 108, 36: 1215000, 37: 5120, 38: 41943040, 75: 8, 76: 0}
    properties = CUDA_PROPERTIES(FakeCuda({}, told))
    assert properties[str(uuid.UUID(int=1))] == _properties.CudaProperties(108, "8.0", 1410, 1215, 5120, 41943040)
    assert properties[str(uuid.UUID(int=0))].sms is None

    driver({"nvmlDeviceGetUUID": f"GPU-{uuid.UUID(int=1)}", "nvmlDeviceGetName": "NVIDIA A100-SXM4-40GB"})
    monkeypatch.setattr(_properties, "properties", lambda: properties)
    gpu = only()
    assert (gpu.sms, gpu.compute_capability, gpu.boost_mhz, gpu.l2_bytes) == (108, "8.0", 1410, 41943040)
    assert gpu.dram_bytes_per_s == pytest.approx(1555.2e9)


@pytest.mark.parametrize("fails", ["cuInit", "cuDeviceGetUuid_v2"])
def test_a_cuda_driver_that_fails_tells_nothing(fails: str) -> None:
    assert _properties.properties(FakeCuda({16: 1}, fails=fails)) == {}
