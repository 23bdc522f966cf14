"""The GPUs of this machine as the NVIDIA driver describes them, and the datasheet that fits each.

NVML is asked through nvidia-ml-py; what it does not tell (the L2, the rated clock) the CUDA driver
API does. No function here fails where there is no GPU: it says why there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from trtprof.base.errors import MissingError
from trtprof.base.records import Device, GpuSpec, LiveGpu
from trtprof.base.units import format_bytes, format_rate
from trtprof.hardware import throughput
from trtprof.hardware.cuda import _properties
from trtprof.runtime import nvml_session

ProductClass = Literal["datacenter", "workstation", "geforce", "jetson"]

_COMPUTE_MODES = {
    "NVML_COMPUTEMODE_DEFAULT": "default",
    "NVML_COMPUTEMODE_PROHIBITED": "prohibited",
    "NVML_COMPUTEMODE_EXCLUSIVE_PROCESS": "exclusive process",
}

_CLOCK_TOLERANCE = 0.02
_MEMORY_TOLERANCE = 0.12  # ECC of GDDR6 takes 1/16, and 80 GB may be meant as 80e9 or as 80 * 2**30 bytes
_BANDWIDTH_TOLERANCE = 0.06  # Datasheets round: 4.8 TB/s of the H200 is 3201 MHz * 6144 bit * 2 / 8 = 4.92 TB/s


def gpus() -> tuple[tuple[LiveGpu, ...], str]:
    """The GPUs that NVML sees, MIG slices behind the GPU that they are part of.

    Returns:
        The GPUs, and in words why there are none or which could not be read; empty where all is well.
    """
    with nvml_session.opened() as (nvml, why):
        if nvml is None:
            return (), why
        count = nvml_session.ask(nvml, "nvmlDeviceGetCount") or 0
        driver = _text(nvml_session.ask(nvml, "nvmlSystemGetDriverVersion"))
        if not count:
            return (), f"the NVIDIA driver {driver} finds no GPU".replace("  ", " ")
        cuda = nvml_session.ask(nvml, "nvmlSystemGetCudaDriverVersion_v2")
        versions = (driver, f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else "")
        properties = _properties.properties()
        found: list[LiveGpu] = []
        lost: list[str] = []
        for index in range(count):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
            except nvml.NVMLError as error:
                lost.append(f"GPU {index} cannot be read: {error}")
                continue
            gpu = _read(nvml, handle, index, versions, properties)
            found += [gpu, *_slices(nvml, handle, gpu, properties)]
        return tuple(found), "; ".join(lost)


def as_device(gpu: LiveGpu) -> Device:
    """The GPU as the device of a run: ``cores`` are SMs, ``cache_bytes`` is the L2, 0 where unknown."""
    fields = msgspec.to_builtins(gpu)
    skipped = {"name", "sms", "memory_bytes", "l2_bytes", "sm_clock_mhz"}
    detail = {key: _words(value) for key, value in fields.items() if key not in skipped and value not in (None, "")}
    return Device(
        name=gpu.name,
        kind="gpu",
        cores=gpu.sms or 0,
        memory_bytes=gpu.memory_bytes or 0,
        cache_bytes=gpu.l2_bytes or 0,
        clock_mhz=gpu.sm_clock_mhz,
        detail=detail,
    )


def dram_bytes_per_s(clock_mhz: float, bus_bits: int) -> float:
    """Bandwidth of device memory from the clock that NVML gives and the width of the bus.

    ``2 * clock * width / 8``, as NVIDIA's blog "How to Implement Performance Metrics in CUDA C/C++"
    has it: two transfers a clock. It holds for GDDR5X to GDDR7 too, whose data rate the driver
    already expresses as the clock of a double data rate (9751 MHz for 19.5 Gbit/s a pin).
    """
    return 2 * clock_mhz * 1e6 * bus_bits / 8


def product_class(name: str) -> ProductClass:
    """The market that a GPU is made for, which decides its tensor rates, from the driver's name of it."""
    plain = _plain(name)
    if re.search(r"\b(Xavier|Orin|Thor|Tegra|Jetson)\b", plain):
        return "jetson"
    if "GeForce" in plain:
        return "geforce"
    # A TITAN is sold to gamers, but its tensor cores run at the full rate of the workstation parts.
    if re.search(r"\b(Quadro|RTX|Ada|NVS|TITAN)\b|^T\d{3,4}\b", plain):
        return "workstation"
    return "datacenter"


# --- which datasheet ------------------------------------------------------------------------


def spec_of(gpu: LiveGpu) -> tuple[GpuSpec, str]:
    """The datasheet of a GPU, and in words why this one."""
    from trtprof.hardware import gpus as datasheets

    known = tuple(datasheets.specs().values())
    board = _plain(gpu.name).split(" MIG ")[0]
    named = [spec for spec in known if _is_called(spec, board)]
    if gpu.slice is None:
        fitting = [spec for spec in named if not _misfit(gpu, spec)]
        if fitting:
            spec = min(fitting, key=lambda spec: _distance(gpu.memory_bytes, spec.memory_bytes.value))
            return spec, _agreement(gpu, spec)
    reason = (
        f"derived: a MIG slice of {board}"
        if gpu.slice is not None
        else f"derived: {'; '.join(_misfit(gpu, spec) for spec in named)}"
        if named
        else "derived: no datasheet is of that name"
    )
    return _derived(gpu, named or _similar(gpu, known), reason)


def _is_called(spec: GpuSpec, board: str) -> bool:
    """Whether the driver may call the GPU of this datasheet so: boards of several sizes share a name."""
    if board in map(_plain, spec.nvml_names):
        return True
    model = re.escape(re.sub(r"^(GeForce|Tesla|Quadro) ", "", board))
    return re.fullmatch(rf"{model}( \d+ ?Gi?B)?", spec.name) is not None


def _misfit(gpu: LiveGpu, spec: GpuSpec) -> str:
    """Why this datasheet is not that of the GPU, although it has its name; empty when nothing speaks against it."""
    if gpu.sms and gpu.sms != spec.sms.value:
        return f"{gpu.sms} SMs here, {spec.sms.value:g} in {spec.slug}"
    if gpu.compute_capability and gpu.compute_capability != spec.compute_capability:
        return f"compute capability {gpu.compute_capability} here, {spec.compute_capability} in {spec.slug}"
    clock = gpu.max_sm_clock_mhz
    # A clock above the datasheet's is usual: boost is what a board promises, not the most it does.
    if clock and clock < (1 - _CLOCK_TOLERANCE) * spec.boost_mhz.value:
        return f"at most {clock} MHz here, {spec.boost_mhz.value:g} in {spec.slug}"
    if _distance(gpu.memory_bytes, spec.memory_bytes.value) > _MEMORY_TOLERANCE:
        here, there = format_bytes(gpu.memory_bytes or 0), format_bytes(spec.memory_bytes.value)
        return f"{here} of memory here, {there} in {spec.slug}"
    if _distance(gpu.dram_bytes_per_s, spec.dram_bytes_per_s.value) > _BANDWIDTH_TOLERANCE:
        here, there = (format_rate(rate, "B/s") for rate in (gpu.dram_bytes_per_s or 0, spec.dram_bytes_per_s.value))
        return f"{here} here, {there} in {spec.slug}"
    return ""


def _agreement(gpu: LiveGpu, spec: GpuSpec) -> str:
    checked = {
        "SMs": gpu.sms,
        "clock": gpu.max_sm_clock_mhz,
        "memory": gpu.memory_bytes,
        "bandwidth": gpu.dram_bytes_per_s,
    }
    agree = [name for name, value in checked.items() if value]
    unknown = [name for name, value in checked.items() if not value]
    words = "the driver's name" + (f"; {', '.join(agree)} agree" if agree else "")
    if unknown:
        words += f"; the driver does not tell {', '.join(unknown)}, so the datasheet's count"
    if gpu.boost_mhz and gpu.boost_mhz > (1 + _CLOCK_TOLERANCE) * spec.boost_mhz.value:
        words += f"; this board is rated at {gpu.boost_mhz} MHz, the datasheet's at {spec.boost_mhz.value:g}"
    return words


def _distance(here: float | None, there: float) -> float:
    """Relative difference; 0 where nothing is known here."""
    return abs(here / there - 1) if here and there else 0.0


def _similar(gpu: LiveGpu, known: tuple[GpuSpec, ...]) -> list[GpuSpec]:
    """Datasheets of the same compute capability, the nearest in class and SMs first."""
    same = [spec for spec in known if spec.compute_capability == gpu.compute_capability]
    kind = product_class(gpu.name)
    return sorted(same, key=lambda spec: (spec.product_class != kind, _distance(gpu.sms, spec.sms.value)))


def _derived(gpu: LiveGpu, like: list[GpuSpec], reason: str) -> tuple[GpuSpec, str]:
    from trtprof.hardware import gpus as datasheets

    near = like[0] if like else None
    share = _memory_share(gpu, near)
    # A slice clocks as its board, whose datasheet knows the rated clock.
    highest = gpu.max_sm_clock_mhz if near is None or gpu.slice is None else None
    given: dict[str, tuple[float | None, float | None]] = {
        # Each: what the device says, what the similar datasheet says.
        "SMs": (gpu.sms, near.sms.value if near else None),
        "boost clock": (gpu.boost_mhz or highest, near.boost_mhz.value if near else None),
        "memory": (gpu.memory_bytes, near.memory_bytes.value if near else None),
        "bandwidth": (gpu.dram_bytes_per_s, near.dram_bytes_per_s.value * share if near else None),
        "L2": (gpu.l2_bytes, near.l2_bytes.value * share if near else None),
        "power": (gpu.default_power_limit_w or gpu.power_limit_w, near.tdp_w.value if near else None),
    }
    capability = gpu.compute_capability or (near.compute_capability if near else "")
    unknown = [name for name, (here, there) in given.items() if not here and not there]
    if unknown or not capability:
        raise MissingError(
            f"no datasheet can be derived for {gpu.name}",
            why="the driver does not tell " + ", ".join([*unknown, *([] if capability else ["compute capability"])]),
            fix="describe it in a TOML file and name that",
        )
    taken = [name for name, (here, _) in given.items() if not here]
    value = {name: float(here or there or 0) for name, (here, there) in given.items()}
    spec = datasheets.derive(
        name=_plain(gpu.name),
        cc=capability,
        product_class=near.product_class if near and gpu.slice is not None else product_class(gpu.name),
        sms=int(value["SMs"]),
        boost_mhz=value["boost clock"],
        memory_bytes=int(value["memory"]),
        dram_bytes_per_s=value["bandwidth"],
        l2_bytes=int(value["L2"]),
        tdp_w=value["power"],
    )
    if taken and near:
        part = f" ({share:g} of its memory system)" if share != 1 else ""
        reason += f"; {', '.join(taken)} as in {near.slug}{part}"
    if not gpu.boost_mhz and highest:
        reason += "; peaks are at the highest clock, for the rated one is not told"
    return spec, reason


def _memory_share(gpu: LiveGpu, board: GpuSpec | None) -> float:
    """How much of the board's memory system a MIG slice has."""
    if gpu.slice is None or board is None or not gpu.memory_bytes:
        return 1.0
    return min(max(round(8 * gpu.memory_bytes / board.memory_bytes.value), 1), 8) / 8


# --- asking NVML ----------------------------------------------------------------------------


def _read(
    nvml: Any, handle: Any, index: int, versions: tuple[str, str], properties: dict[str, _properties.CudaProperties]
) -> LiveGpu:
    def ask(function: str, *arguments: Any) -> Any:
        return nvml_session.ask(nvml, function, handle, *arguments)

    uuid = _text(ask("nvmlDeviceGetUUID"))
    cuda = properties.get(uuid.partition("-")[2])
    capability = ask("nvmlDeviceGetCudaComputeCapability")
    cc = f"{capability[0]}.{capability[1]}" if capability else cuda.compute_capability if cuda else ""
    cores = ask("nvmlDeviceGetNumGpuCores")
    lanes = throughput.cuda_results(cc)["fp32"] if throughput.known(cc) else None
    memory = ask("nvmlDeviceGetMemoryInfo")
    bus = ask("nvmlDeviceGetMemoryBusWidth") or (cuda.bus_bits if cuda else None)
    max_memory = ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_MEM) or (cuda.memory_mhz if cuda else None)
    mode = ask("nvmlDeviceGetComputeMode")
    return LiveGpu(
        index=index,
        uuid=uuid,
        name=_text(ask("nvmlDeviceGetName")) or "unknown NVIDIA GPU",
        compute_capability=cc,
        sms=cores // lanes if cores and lanes else cuda.sms if cuda else None,
        memory_bytes=memory.total if memory else None,
        memory_free_bytes=memory.free if memory else None,
        l2_bytes=cuda.l2_bytes if cuda else None,
        bus_bits=bus,
        dram_bytes_per_s=dram_bytes_per_s(max_memory, bus) if max_memory and bus else None,
        sm_clock_mhz=ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
        max_sm_clock_mhz=ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
        boost_mhz=cuda.boost_mhz if cuda else None,
        memory_clock_mhz=ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
        max_memory_clock_mhz=max_memory,
        application_sm_clock_mhz=ask("nvmlDeviceGetApplicationsClock", nvml.NVML_CLOCK_SM),
        application_memory_clock_mhz=ask("nvmlDeviceGetApplicationsClock", nvml.NVML_CLOCK_MEM),
        power_w=nvml_session.thousandth(ask("nvmlDeviceGetPowerUsage")),
        power_limit_w=nvml_session.thousandth(
            ask("nvmlDeviceGetEnforcedPowerLimit") or ask("nvmlDeviceGetPowerManagementLimit")
        ),
        default_power_limit_w=nvml_session.thousandth(ask("nvmlDeviceGetPowerManagementDefaultLimit")),
        temperature_c=nvml_session.temperature(nvml, handle),
        clock_events=nvml_session.clock_events(nvml, handle),
        mig=_enabled(ask("nvmlDeviceGetMigMode")),
        ecc=_enabled(ask("nvmlDeviceGetEccMode")),
        persistence=_enabled(ask("nvmlDeviceGetPersistenceMode")),
        compute_mode={getattr(nvml, name): words for name, words in _COMPUTE_MODES.items()}.get(mode),
        pcie_generation=ask("nvmlDeviceGetCurrPcieLinkGeneration"),
        max_pcie_generation=ask("nvmlDeviceGetMaxPcieLinkGeneration"),
        pcie_width=ask("nvmlDeviceGetCurrPcieLinkWidth"),
        max_pcie_width=ask("nvmlDeviceGetMaxPcieLinkWidth"),
        driver=versions[0],
        cuda=versions[1],
    )


def _slices(
    nvml: Any, handle: Any, board: LiveGpu, properties: dict[str, _properties.CudaProperties]
) -> Iterator[LiveGpu]:
    """The MIG slices of a GPU. Clocks, power and temperature are the board's, which they share."""
    if not board.mig:
        return
    for number in range(nvml_session.ask(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        part = nvml_session.ask(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
        if part is None:  # no slice is set up there
            continue
        uuid = _text(nvml_session.ask(nvml, "nvmlDeviceGetUUID", part))
        cuda = properties.get(uuid.partition("-")[2])
        shape = nvml_session.ask(nvml, "nvmlDeviceGetAttributes_v2", part)
        memory = nvml_session.ask(nvml, "nvmlDeviceGetMemoryInfo", part)
        name = _text(nvml_session.ask(nvml, "nvmlDeviceGetName", part))
        yield msgspec.structs.replace(
            board,
            slice=number,
            uuid=uuid,
            name=name if " MIG " in name else f"{board.name} MIG {number}",
            sms=shape.multiprocessorCount if shape else cuda.sms if cuda else None,
            memory_bytes=memory.total if memory else None,
            memory_free_bytes=memory.free if memory else None,
            l2_bytes=cuda.l2_bytes if cuda else None,
            bus_bits=None,
            dram_bytes_per_s=None,
        )


def _enabled(mode: int | list[int] | None) -> bool | None:
    """Of [current, pending] the current one."""
    if isinstance(mode, list):
        mode = mode[0]
    return None if mode is None else bool(mode)


def _text(value: str | bytes | None) -> str:
    """Versions of nvidia-ml-py before 11.5 give bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value or ""


def _plain(name: str) -> str:
    """Drivers before 470 leave the maker out of the name."""
    return " ".join(name.removeprefix("NVIDIA ").split())


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
