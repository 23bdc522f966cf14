"""What NVML does not tell: SMs, the rated clock and the L2 of a device, from the CUDA driver API.

The functions that need no context are called through `ctypes`, so that nothing but the driver has
to be installed and no device memory is taken.
"""

from __future__ import annotations

import ctypes
import sys
import uuid
from typing import Any, NamedTuple

# CUdevice_attribute in cuda.h; these numbers are part of the ABI and do not change.
_ATTRIBUTES = {
    "boost_khz": 13,  # CU_DEVICE_ATTRIBUTE_CLOCK_RATE: the rated boost clock
    "sms": 16,  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
    "memory_khz": 36,  # CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE
    "bus_bits": 37,  # CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH
    "l2_bytes": 38,  # CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
    "major": 75,  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
    "minor": 76,  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
}


class CudaProperties(NamedTuple):
    """Properties of a device or MIG slice; None where the driver refuses to tell."""

    sms: int | None
    compute_capability: str
    boost_mhz: int | None
    memory_mhz: int | None
    bus_bits: int | None
    l2_bytes: int | None


def properties(library: Any = None) -> dict[str, CudaProperties]:
    """Properties of the devices that this process may use, by the tail of their UUID.

    The tail is what stands behind ``GPU-`` or ``MIG-`` in the UUID that NVML gives. Empty where
    there is no CUDA driver, or no device that it would use (``CUDA_VISIBLE_DEVICES``).

    Args:
        library: The loaded driver library; None loads it.
    """
    cuda = library if library is not None else _load()
    count = ctypes.c_int()
    if cuda is None or cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return {}
    found: dict[str, CudaProperties] = {}
    for ordinal in range(count.value):
        device = ctypes.c_int()
        identity = (ctypes.c_ubyte * 16)()
        if cuda.cuDeviceGet(ctypes.byref(device), ordinal) or _identify(cuda, identity, device):
            continue
        value = {name: _attribute(cuda, number, device) for name, number in _ATTRIBUTES.items()}
        major, minor = value["major"], value["minor"]
        found[str(uuid.UUID(bytes=bytes(identity)))] = CudaProperties(
            sms=value["sms"],
            compute_capability="" if major is None or minor is None else f"{major}.{minor}",
            boost_mhz=_mhz(value["boost_khz"]),
            memory_mhz=_mhz(value["memory_khz"]),
            bus_bits=value["bus_bits"],
            l2_bytes=value["l2_bytes"],
        )
    return found


def _load() -> Any:
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def _identify(cuda: Any, identity: Any, device: ctypes.c_int) -> int:
    """Fill in the UUID. The first of the two functions, of CUDA 11.4 and later, knows MIG slices."""
    function = getattr(cuda, "cuDeviceGetUuid_v2", None) or getattr(cuda, "cuDeviceGetUuid", None)
    return 1 if function is None else int(function(identity, device))


def _attribute(cuda: Any, number: int, device: ctypes.c_int) -> int | None:
    value = ctypes.c_int()
    if cuda.cuDeviceGetAttribute(ctypes.byref(value), number, device) or value.value <= 0:
        # Compute capability x.0 has a minor of 0.
        return 0 if number == _ATTRIBUTES["minor"] else None
    return value.value


def _mhz(khz: int | None) -> int | None:
    return None if khz is None else round(khz / 1000)
