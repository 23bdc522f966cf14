"""NVML through nvidia-ml-py: opened only when it is needed, and never an error where it cannot be.

What asks it: the list of GPUs, the calibration, and the clocks of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

NO_NVML = {
    "NVML_ERROR_LIBRARY_NOT_FOUND": (
        "no NVIDIA driver is installed here (its NVML library is not found); "
        "a container sees the driver of its host when started with --gpus all"
    ),
    "NVML_ERROR_DRIVER_NOT_LOADED": (
        "the NVIDIA driver is installed but its kernel module is not loaded; nvidia-smi or a reboot loads it"
    ),
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH": (
        "the NVIDIA driver library and the loaded kernel module are of different versions, as after an update; reboot"
    ),
    "NVML_ERROR_NO_PERMISSION": "this user may not talk to the NVIDIA driver; allow it to read and write /dev/nvidia*",
    "NVML_ERROR_FUNCTION_NOT_FOUND": "the NVIDIA driver is too old for this NVML",
    "NVML_ERROR_GPU_IS_LOST": "a GPU has fallen off the bus; dmesg says more, a reboot may bring it back",
}
"""What an error of `nvmlInit` means to the user."""

CLOCK_EVENTS = {
    "nvmlClocksEventReasonGpuIdle": "idle",
    "nvmlClocksEventReasonApplicationsClocksSetting": "application clocks are set",
    "nvmlClocksEventReasonSwPowerCap": "power cap",
    "nvmlClocksEventReasonHwSlowdown": "hardware slowdown",
    "nvmlClocksEventReasonSyncBoost": "sync boost with other GPUs",
    "nvmlClocksEventReasonSwThermalSlowdown": "temperature, slowed by software",
    "nvmlClocksEventReasonHwThermalSlowdown": "temperature, slowed by hardware",
    "nvmlClocksEventReasonHwPowerBrakeSlowdown": "power brake",
    "nvmlClocksEventReasonDisplayClockSetting": "display clocks",
}


@contextmanager
def opened() -> Iterator[tuple[Any, str]]:
    """The initialised pynvml module, or None and why there is none."""
    try:
        import pynvml as nvml
    except ImportError as error:
        yield None, f"the Python package nvidia-ml-py cannot be imported ({error}); pip install nvidia-ml-py"
        return
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        words = {getattr(nvml, code): text for code, text in NO_NVML.items()}
        yield None, words.get(error.value, f"NVML does not start: {error}")
        return
    try:
        yield nvml, ""
    finally:
        ask(nvml, "nvmlShutdown")


def ask(nvml: Any, function: str, *arguments: Any) -> Any:
    """What NVML answers, or None where the device, the driver or the package does not support the question."""
    call: Callable[..., Any] | None = getattr(nvml, function, None)
    if call is None:
        return None
    try:
        return call(*arguments)
    except (nvml.NVMLError, UnicodeDecodeError):
        return None


def clock_events(nvml: Any, handle: Any) -> tuple[str, ...] | None:
    """In words, what holds the SM clock of a GPU down now; None where the driver does not tell."""
    bits = ask(nvml, "nvmlDeviceGetCurrentClocksEventReasons", handle)
    if bits is None:  # what drivers before 535 call it
        bits = ask(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    if bits is None:
        return None
    named = {getattr(nvml, name): words for name, words in CLOCK_EVENTS.items()}
    found = tuple(words for bit, words in named.items() if bits & bit)
    rest = bits & ~sum(named)
    return (*found, f"reason 0x{rest:x}") if rest else found


def temperature(nvml: Any, handle: Any) -> int | None:
    """Temperature of a GPU in degrees Celsius, or None."""
    value: int | None = ask(nvml, "nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU)
    return value


def thousandth(milli: int | None) -> float | None:
    """Watts of milliwatts, joules of millijoules."""
    return None if milli is None else milli / 1000


# --- while something runs -------------------------------------------------------------------


class Sampler:
    """Readings of one GPU, cheap enough to take many times a second; see `sampler`.

    Attributes:
        note: Why there are no readings; empty where there is a GPU to read.
    """

    def __init__(self, nvml: Any, handle: Any, note: str = "") -> None:
        self._nvml = nvml
        self._handle = handle
        self.note = note

    def _ask(self, function: str, *arguments: Any) -> Any:
        return None if self._handle is None else ask(self._nvml, function, self._handle, *arguments)

    def sm_clock_mhz(self) -> float | None:
        return None if self._handle is None else self._ask("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_SM)

    def memory_clock_mhz(self) -> float | None:
        return None if self._handle is None else self._ask("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_MEM)

    def throttle_reasons(self) -> tuple[str, ...]:
        """In words, what holds the SM clock down; empty where nothing does or nothing is told."""
        return self.clock_events() or ()

    def clock_events(self) -> tuple[str, ...] | None:
        """The same, None where the driver does not tell."""
        return None if self._handle is None else clock_events(self._nvml, self._handle)

    def power_w(self) -> float | None:
        return thousandth(self._ask("nvmlDeviceGetPowerUsage"))

    def temperature_c(self) -> int | None:
        return None if self._handle is None else temperature(self._nvml, self._handle)

    def processes(self) -> int | None:
        """How many processes compute on it; None where the driver does not tell."""
        found = self._ask("nvmlDeviceGetComputeRunningProcesses")
        return None if found is None else len(found)

    def energy_j(self) -> float | None:
        """Energy used since the driver was loaded, in joules; GPUs before Volta do not count it."""
        return thousandth(self._ask("nvmlDeviceGetTotalEnergyConsumption"))


@contextmanager
def sampler(which: int | str) -> Iterator[Sampler]:
    """Keep NVML open to sample one GPU, by its NVML index or its UUID.

    Without NVML, or without such a GPU, every reading is None and no clock is held down.
    """
    with opened() as (nvml, why):
        handle, note = None, why
        if nvml is not None:
            find = "nvmlDeviceGetHandleByUUID" if isinstance(which, str) else "nvmlDeviceGetHandleByIndex"
            handle = ask(nvml, find, which)
            if handle is None:
                note = f"the NVIDIA driver has no GPU {which}, or this user may not read it"
            elif isinstance(which, str) and which.startswith("MIG-"):
                # A slice has no clocks of its own.
                handle = ask(nvml, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle) or handle
        yield Sampler(nvml, handle, note)
