"""A pynvml whose answers are given and whose names are the real package's."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pynvml
import pytest

SM = ("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_SM)
MEMORY = ("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_MEM)
POWER = "nvmlDeviceGetPowerUsage"
TEMPERATURE = ("nvmlDeviceGetTemperature", pynvml.NVML_TEMPERATURE_GPU)
ENERGY = "nvmlDeviceGetTotalEnergyConsumption"
REASONS = "nvmlDeviceGetCurrentClocksEventReasons"
UUID = "GPU-d5b3a1c0-4e5f-4a6b-8c7d-9e0f1a2b3c4d"
STEADY: dict[Any, Any] = {SM: 1980, MEMORY: 2619, POWER: 350_000, TEMPERATURE: 55, ENERGY: 1_000_000, REASONS: 0}


class FakeNvml:
    """A name that the real package lacks is lacking here; what is not given is refused.

    The answers of each device are given by the name of the question, with what is asked beside the device; a list is
    answered element by element, its last for ever, and an error is raised. ``start`` is the code that NVML fails with
    where it starts, ``slices`` are those of MIG by their index. A device that is given no UUID has `UUID`.
    """

    def __init__(
        self,
        *devices: Mapping[Any, Any],
        start: int | None = None,
        slices: Mapping[int, Mapping[Any, Any]] | None = None,
    ) -> None:
        self.devices = devices
        self.slices = slices or {}
        self.start = start
        self.open = 0
        self.threads: set[str] = set()
        """The names of those that asked something of a device."""

    def __getattr__(self, name: str) -> Any:
        real = getattr(pynvml, name)
        if not re.match("nvml[A-Z]", name) or not callable(real):
            return real
        return lambda *arguments: self._answer(name, arguments)

    def nvmlInit(self) -> None:  # noqa: N802 - the name of the real one
        if self.start is not None:
            raise pynvml.NVMLError(self.start)
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def _answer(self, name: str, arguments: tuple[Any, ...]) -> Any:
        if not self.open:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)
        system = {
            "nvmlDeviceGetCount": len(self.devices),
            "nvmlSystemGetDriverVersion": "580.95.05",
            "nvmlSystemGetCudaDriverVersion_v2": 13000,
        }
        if name in system:
            return system[name]
        if name == "nvmlDeviceGetHandleByIndex":
            if arguments[0] >= len(self.devices):
                self._refuse(pynvml.NVML_ERROR_NOT_FOUND)
            return self.devices[arguments[0]] or self._refuse(pynvml.NVML_ERROR_GPU_IS_LOST)
        if name == "nvmlDeviceGetHandleByUUID":
            every = (*self.devices, *self.slices.values())
            found = (device for device in every if device.get("nvmlDeviceGetUUID", UUID) == arguments[0])
            return next(found, None) or self._refuse(pynvml.NVML_ERROR_NOT_FOUND)
        if name == "nvmlDeviceGetDeviceHandleFromMigDeviceHandle":
            return self.devices[0]
        if name == "nvmlDeviceGetMaxMigDeviceCount":
            return 7
        if name == "nvmlDeviceGetMigDeviceHandleByIndex":
            return self.slices.get(arguments[1]) or self._refuse(pynvml.NVML_ERROR_NOT_FOUND)
        handle, *rest = arguments
        self.threads.add(threading.current_thread().name)
        told = handle.get((name, *rest) if rest else name)
        if isinstance(told, list):
            told = told.pop(0) if len(told) > 1 else told[0]
        if isinstance(told, Exception):
            raise told
        return self._refuse(pynvml.NVML_ERROR_NOT_SUPPORTED) if told is None else told

    @staticmethod
    def _refuse(code: int) -> Any:
        raise pynvml.NVMLError(code)


def drivers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., FakeNvml]]:
    """For a fixture to yield from: what puts a driver in place of this machine's, which must be closed in the end."""
    made: list[FakeNvml] = []

    def put(*devices: Mapping[Any, Any], **named: Any) -> FakeNvml:
        made.append(FakeNvml(*devices, **named))
        monkeypatch.setitem(sys.modules, "pynvml", made[-1])
        return made[-1]

    yield put
    assert [fake.open for fake in made] == [0] * len(made)
