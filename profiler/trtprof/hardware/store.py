"""Ceilings kept between runs: one JSON file a host, thread count and runtime version, or a GPU and driver.

`Ceilings.measured_at` says when; a file of another method or of another device is measured anew.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
from pathlib import Path
from typing import NamedTuple

import msgspec
import platformdirs

from trtprof.base.errors import MissingError, UsageError
from trtprof.base.input_file import read_file
from trtprof.base.output_file import replace_file
from trtprof.base.progress import Progress
from trtprof.base.records import SCHEMA_VERSION, Ceilings, Device, LiveGpu
from trtprof.hardware.device import host_cpu, resolve_threads

METHOD_VERSION = 12  # Raised when calibration measures something else, so that older files are measured anew
_MOST_BYTES = 4 << 20


class _File(msgspec.Struct, frozen=True, kw_only=True):
    schema_version: int
    method_version: int
    host: dict[str, str]
    ceilings: Ceilings


class _Versions(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of a file first: an older one need not have the rest."""

    schema_version: int = 0
    method_version: int = 0


class Shelf(NamedTuple):
    """Where the ceilings of one device are kept."""

    path: Path
    key: dict[str, str]  # What they depend on, as far as it can be known before they are measured

    def read(self, say: Progress) -> Ceilings | None:
        """The kept ceilings; None where there are none for this key, with the reason said if there is a file."""
        try:
            data = read_file(self.path, most=_MOST_BYTES, what="kept ceilings")
        except FileNotFoundError:
            return None
        except UsageError as error:
            say(f"{error.what}: measuring again")
            return None
        except OSError as error:
            say(f"cannot read {self.path} ({error.strerror or error}): measuring again")
            return None
        try:
            versions = msgspec.json.decode(data, type=_Versions)
            if (versions.schema_version, versions.method_version) != (SCHEMA_VERSION, METHOD_VERSION):
                say(f"{self.path} was written by another version of trtprof: measuring again")
                return None
            held = msgspec.json.decode(data, type=_File)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            say(f"{self.path} is not readable ({error}): measuring again")
            return None
        if held.host != self.key:
            say(f"{self.path} is of another host: measuring again")
            return None
        return msgspec.structs.replace(held.ceilings, cached=True)

    def write(self, ceilings: Ceilings, say: Progress) -> None:
        """Keep them, in place of any others of this key; that they cannot be written is said."""
        content = _File(schema_version=SCHEMA_VERSION, method_version=METHOD_VERSION, host=self.key, ceilings=ceilings)
        keep(self.path, msgspec.json.format(msgspec.json.encode(content), indent=1), say, "ceilings")


def of_host(
    threads: int, *, cache_dir: Path | None = None, device: Device | None = None, runtime: str | None = None
) -> Shelf:
    """Where the ceilings of this host are kept; 0 ``threads`` are one a usable core, None is what is usual."""
    device = device or host_cpu()
    threads = resolve_threads(threads, device)
    key = _host_key(device, threads, runtime or runtime_version())
    return Shelf((cache_dir or default_cache_dir()) / _file_name(key["cpu"], f"{threads}t", key), key)


def of_gpu(gpu: LiveGpu, *, cache_dir: Path | None = None) -> Shelf:
    """Where the ceilings of a GPU are kept: they depend on its driver and on what limits its clock and memory."""
    words = {
        "gpu": gpu.name, "uuid": gpu.uuid, "slice": gpu.slice, "driver": gpu.driver, "ecc": gpu.ecc,
        "power_limit_w": gpu.power_limit_w, "sm_clock_mhz": gpu.application_sm_clock_mhz,
        "memory_clock_mhz": gpu.application_memory_clock_mhz,
    }  # fmt: skip
    key = {name: "" if value is None else str(value) for name, value in words.items()}
    return Shelf((cache_dir or default_cache_dir()) / _file_name(gpu.name, "gpu", key), key)


def kernels_of_gpu(gpu: LiveGpu, *, cache_dir: Path | None = None) -> Path:
    """Where the kernels that were timed on a GPU are kept: beside its ceilings, a table with the same key."""
    path = of_gpu(gpu, cache_dir=cache_dir).path
    return path.with_name(f"{_KERNELS}{path.stem.removeprefix('ceilings-')}.csv")


def kept_kernels(*, cache_dir: Path | None = None) -> list[Path]:
    """The tables of kernels that were timed on any GPU, by name."""
    return sorted((cache_dir or default_cache_dir()).glob(f"{_KERNELS}*.csv"))


_KERNELS = "kernels-"


def keep(path: Path, data: bytes, say: Progress, what: str) -> bool:
    """Write a file of the cache, whole or not at all; that it cannot be written is said, and False."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)
    except OSError as error:
        why = error.strerror or error
        say(f"{what} not kept: cannot write {path} ({why}); TRTPROF_CACHE_DIR names another folder")
        return False
    return True


def default_cache_dir() -> Path:
    """``TRTPROF_CACHE_DIR``, else the folder that the platform keeps for the user's caches."""
    given = os.environ.get("TRTPROF_CACHE_DIR")
    if given:
        return Path(given).expanduser()
    return platformdirs.user_cache_path("trtprof", appauthor=False)


def runtime_version() -> str:
    """Version of the installed ONNX Runtime, without importing it."""
    for package in ("onnxruntime", "onnxruntime-gpu"):
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    try:
        # Vendors ship it under names of their own.
        import onnxruntime
    except ImportError as error:
        raise MissingError("ONNX Runtime is not installed", why=str(error), fix="pip install onnxruntime") from None
    return str(onnxruntime.__version__)


def _host_key(device: Device, threads: int, runtime: str) -> dict[str, str]:
    """What the ceilings depend on, as far as it can be known before they are measured."""
    detail = {
        key: device.detail.get(key, "")
        for key in ("vendor", "family", "model", "stepping", "isa", "llc", "logical_cpus", "cpu_quota", "hypervisor")
    }
    shape = {"cores": str(device.cores), "memory": f"{device.memory_bytes / 1e9:.0f} GB"}
    return {"cpu": device.name, "threads": str(threads), "onnxruntime": runtime, **shape, **detail}


def _file_name(device: str, kind: str, key: dict[str, str]) -> str:
    digest = hashlib.sha256(msgspec.json.encode(key, order="sorted")).hexdigest()[:12]
    slug = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")[:40] or "device"
    return f"ceilings-{slug}-{kind}-{digest}.json"
