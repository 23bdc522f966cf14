"""What CUPTI's error codes mean for the person who reads them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from trtprof.base.errors import CaptureError, MissingError, TrtprofError

ONE_SUBSCRIBER = "CUPTI has one subscriber at a time in a process: one tool alone can trace it"
OLD_DRIVER = (
    "update the driver, or take CUPTI of the driver's CUDA version or older: "
    "pip install 'cupti-python==13.0.1' 'nvidia-cuda-cupti==13.0.*' goes with CUDA 13.0 (driver 580)"
)
_NSYS = "profile with nsys instead"


class _Meaning(NamedTuple):
    error: type[TrtprofError]
    why: str
    fix: str


_DRIVER = _Meaning(
    MissingError, "there is no GPU that CUDA can use, or this CUPTI is newer than the NVIDIA driver", OLD_DRIVER
)
_RIGHTS = _Meaning(
    MissingError,
    "the driver gives profiling to administrators alone",
    "load the driver with NVreg_RestrictProfilingToAdminUsers=0, or run as root or with CAP_SYS_ADMIN "
    "(docker run --cap-add SYS_ADMIN)",
)
_DEVICE = _Meaning(MissingError, "CUPTI does not trace this kind of GPU or set-up", _NSYS)
# CUpti_Result in cupti_result.h.
_MEANINGS = {
    "ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED": _Meaning(
        CaptureError,
        ONE_SUBSCRIBER,
        "end the other profiler (nsys, ncu, cuda-gdb, or a profiler within a library such as torch.profiler)",
    ),
    "ERROR_INSUFFICIENT_PRIVILEGES": _RIGHTS,
    "ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES": _Meaning(
        MissingError,
        "the host does not let this virtual GPU be profiled",
        "have profiling enabled for the vGPU on its host",
    ),
    "ERROR_NOT_INITIALIZED": _DRIVER,
    "ERROR_API_NOT_IMPLEMENTED": _DRIVER,
    # What CUPTI 13.0 and 13.5 answer where libcuda.so.1 lacks what they look for in it.
    "ERROR_UNKNOWN": _DRIVER,
    "ERROR_OUT_OF_MEMORY": _Meaning(
        CaptureError, "no memory was left for its buffers", "profile fewer iterations, or a smaller batch"
    ),
    "ERROR_INVALID_DEVICE": _DEVICE,
    "ERROR_NOT_SUPPORTED": _DEVICE,
    "ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED": _DEVICE,
    "ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED": _DEVICE,
    "ERROR_CMP_DEVICE_NOT_SUPPORTED": _DEVICE,
    "ERROR_MIG_DEVICE_NOT_SUPPORTED": _DEVICE,
    "ERROR_SLI_DEVICE_NOT_SUPPORTED": _DEVICE,
    "ERROR_WSL_DEVICE_NOT_SUPPORTED": _DEVICE,
}
_OTHER = _Meaning(CaptureError, "", _NSYS)


@contextmanager
def explained(module: Any, what: str) -> Iterator[None]:
    """Turn errors of cupti-python (the module ``cupti.cupti``) into those of trtprof."""
    try:
        yield
    except module.cuptiError as error:
        name = code_name(module, error)
        meaning = _MEANINGS.get(name, _OTHER)
        why = f"{meaning.why} (CUPTI_{name})" if meaning.why else f"CUPTI_{name}"
        raise meaning.error(f"CUPTI cannot {what}", why=why, fix=meaning.fix) from None
    except RuntimeError as error:
        # NotSupportedError and FunctionNotFoundError of cupti-python: no driver, or a library without the function.
        raise MissingError(f"CUPTI cannot {what}", why=str(error), fix=OLD_DRIVER) from None


def code_name(module: Any, error: Exception) -> str:
    """``ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED`` for the code 39."""
    status = int(getattr(error, "status", -1))
    try:
        return str(module.Result(status).name)
    except ValueError:
        return f"error {status}"


def attempt(module: Any, call: Callable[[], Any]) -> str:
    """Call; returns the name of CUPTI's error, empty where there was none."""
    try:
        call()
    except module.cuptiError as error:
        return code_name(module, error)
    return ""


def second_profiler() -> str:
    """Why no tool can trace this process besides the one that does already; empty where there is none."""
    from trtprof.capture.nsys.record import INJECTION_VARIABLE, SESSION_VARIABLE

    if os.environ.get(SESSION_VARIABLE):
        return f"the process runs under nsys ({SESSION_VARIABLE} is set); {ONE_SUBSCRIBER}"
    library = os.environ.get(INJECTION_VARIABLE)
    if library:
        return f"another tool traces the process ({INJECTION_VARIABLE}={library}); {ONE_SUBSCRIBER}"
    return ""
