"""What the host is: CPU, usable cores, memory, last-level cache, clocks, hypervisor.

psutil tells what all systems have; cgroups, caches and flags are read from ``/proc`` and ``/sys`` of Linux, under a
root that tests replace. A missing file never stops anything: what is not known is 0, None or absent, and
`Device.detail` says where each figure is from.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil

from trtprof.base.errors import UsageError
from trtprof.base.records import Device

_ISA_FLAGS = (
    "sse4_2", "avx", "f16c", "fma", "avx2", "avx_vnni", "avx512f", "avx512bw", "avx512vl", "avx512_vnni",
    "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16",
    "asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sve", "sve2", "svei8mm", "svebf16", "sme", "sme2",
)  # fmt: skip
"""The flags that decide which kernels a CPU runtime picks; the first lines are x86, the last Arm."""

_ARM_IMPLEMENTERS = {"0x41": "Arm", "0x48": "HiSilicon", "0x51": "Qualcomm", "0x61": "Apple", "0xc0": "Ampere"}

_UNLIMITED = 1 << 60  # cgroup v1 writes 'no memory limit' as a number close to 2**63


def host_cpu(root: Path = Path("/"), *, cpus: Iterable[int] | None = None) -> Device:
    """Describe the CPU that this process may use.

    ``cores`` are physical cores within the process's affinity and cgroup quota, ``memory_bytes`` is the memory of the
    host or of the cgroup, whichever is less, ``cache_bytes`` the sum of the last-level caches that the usable cores
    reach, 0 when unknown.

    Args:
        cpus: Logical CPUs that the process may use; None asks the operating system.
    """
    allowed = sorted(cpus) if cpus is not None else _affinity()
    info = _cpuinfo(root, allowed)
    cpu_root = root / "sys/devices/system/cpu"
    detail = {"os": f"{platform.system()} {platform.release()}".strip(), "architecture": platform.machine()}
    for key, label in (("vendor_id", "vendor"), ("cpu family", "family"), ("model", "model"), ("stepping", "stepping"),
                       ("CPU part", "part"), ("microcode", "microcode")):  # fmt: skip
        if key in info:
            detail[label] = info[key]
    flags = set((info.get("flags") or info.get("Features") or "").split())
    detail["isa"] = " ".join(flag for flag in _ISA_FLAGS if flag in flags) or "unknown"

    physical = _physical_cores(cpu_root, allowed)
    if not physical and platform.system() != "Linux":
        physical = min(psutil.cpu_count(logical=False) or 0, len(allowed))
    detail["logical_cpus"] = str(len(allowed))
    detail["cpus_of_host"] = str(psutil.cpu_count() or len(allowed))
    cores = physical or len(allowed)
    if not physical:
        detail["cores_from"] = "logical CPUs: the core topology is not readable"
    quota = _cpu_quota(root)
    if quota is not None:
        detail["cpu_quota"] = f"{quota:g} CPUs (cgroup)"
        cores = min(cores, max(int(quota), 1))

    cache, instances, source = _last_level_cache(cpu_root, allowed)
    detail["llc"] = source
    detail["llc_instances"] = str(instances)

    memory, limit = psutil.virtual_memory().total, _memory_limit(root)
    if limit is not None and limit < memory:
        detail["memory_limit"] = f"{limit} bytes (cgroup)"
        memory = limit

    clocks = _clocks(allowed[:1])
    if clocks and clocks[0].max:
        detail["max_clock_mhz"] = f"{clocks[0].max:g}"
    first = allowed[0] if allowed else 0
    detail["governor"] = _read(cpu_root / f"cpu{first}/cpufreq/scaling_governor") or "unknown"
    detail["hypervisor"] = _hypervisor(root, flags)
    return Device(
        name=_cpu_name(root, info),
        kind="cpu",
        cores=cores,
        memory_bytes=memory,
        cache_bytes=cache,
        clock_mhz=clocks[0].current or None if clocks else None,
        detail=detail,
    )


def resolve_threads(threads: int, device: Device) -> int:
    """The thread count that 0 stands for: one a usable core."""
    if threads < 0:
        raise UsageError(
            f"a thread count of {threads} is not usable", fix="give 0 (one thread a core) or a positive number"
        )
    return threads or max(device.cores, 1)


def available_memory(root: Path = Path("/")) -> int:
    """Bytes of memory that can be had without swapping, of the host and of the cgroup."""
    free = [int(psutil.virtual_memory().available)]
    for folder in _cgroup_folders(root, "memory"):
        for most, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            limit, taken = _read(folder / most), _read(folder / used)
            if limit.isdigit() and taken.isdigit() and 0 < int(limit) < _UNLIMITED:
                # Pages of files that nobody has open are given back when they are needed.
                cached = re.search(r"^(?:total_)?inactive_file (\d+)$", _read(folder / "memory.stat"), re.MULTILINE)
                free.append(max(int(limit) - int(taken) + (int(cached[1]) if cached else 0), 0))
    return min(free)


def llc_instance_bytes(device: Device) -> int:
    """Size of one last-level cache in bytes: what a single thread can reach. 0 when unknown."""
    instances = int(device.detail.get("llc_instances", "1"))
    return device.cache_bytes // max(instances, 1)


def busy_seconds(cpus: Iterable[int] | None = None) -> float | None:
    """CPU seconds spent since boot on the usable CPUs by everyone, time stolen by a host included.

    None where the system does not tell.
    """
    wanted, times = set(cpus if cpus is not None else _affinity()), psutil.cpu_times(percpu=True)
    kinds = ("user", "nice", "system", "irq", "softirq", "steal", "interrupt", "dpc")
    busy = [sum(getattr(each, kind, 0.0) for kind in kinds) for cpu, each in enumerate(times) if cpu in wanted]
    return sum(busy) if busy else None


def others_cpus_now(seconds: float = 0.5) -> float | None:
    """CPUs that others keep busy, looked at for so long; None where the system does not tell."""
    before, own_before, began = busy_seconds(), time.process_time(), time.monotonic()
    time.sleep(seconds)
    after, own = busy_seconds(), time.process_time() - own_before
    if before is None or after is None:
        return None
    return max(after - before - own, 0.0) / (time.monotonic() - began)


def clock_mhz(cpus: Iterable[int] | None = None) -> float | None:
    """Clock of the usable CPUs just now in MHz, the mean of them; None where the system does not tell."""
    known = [clock.current for clock in _clocks(cpus if cpus is not None else _affinity()) if clock.current]
    return sum(known) / len(known) if known else None


def clock_is_stated(device: Device, root: Path = Path("/")) -> bool:
    """Whether the clock is a number that a hypervisor states once, and no reading of the clock."""
    virtual = device.detail.get("hypervisor", "none seen") != "none seen"
    return virtual and not any((root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))


def _clocks(cpus: Iterable[int]) -> list[Any]:
    """Psutil's clocks of CPUs; all systems but Linux have one for the whole host, and some none."""
    try:
        clocks = psutil.cpu_freq(percpu=True) or []
    except (OSError, NotImplementedError, RuntimeError, AttributeError):
        return []
    return [clocks[cpu] for cpu in cpus if cpu < len(clocks)] or clocks[:1]


def _affinity() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _cpuinfo(root: Path, allowed: list[int]) -> dict[str, str]:
    """Fields of the first usable CPU in /proc/cpuinfo, and those of the file's tail block (Arm)."""
    blocks: list[dict[str, str]] = []
    for block in re.split(r"\n\s*\n", _read(root / "proc/cpuinfo")):
        pairs = (line.split(":", 1) for line in block.splitlines() if ":" in line)
        blocks.append({key.strip(): value.strip() for key, value in pairs})
    wanted = str(allowed[0]) if allowed else "0"
    chosen = next((b for b in blocks if b.get("processor") == wanted), blocks[0] if blocks else {})
    tail = next((b for b in reversed(blocks) if b and "processor" not in b), {})
    return {**tail, **chosen}


def _cpu_name(root: Path, info: dict[str, str]) -> str:
    name = info.get("model name") or info.get("cpu model") or info.get("uarch") or ""
    if not name and "CPU implementer" in info:
        maker = _ARM_IMPLEMENTERS.get(info["CPU implementer"].lower(), info["CPU implementer"])
        name = f"{maker} CPU part {info.get('CPU part', 'unknown')}"
        board = _read(root / "proc/device-tree/model").rstrip("\0")
        name = f"{name} ({board})" if board else name
    name = " ".join(name.split()) or _sysctl("machdep.cpu.brand_string") or platform.processor()
    return name or f"{platform.machine() or 'unknown'} CPU"


def _physical_cores(cpu_root: Path, allowed: list[int]) -> int:
    """Distinct cores among the allowed CPUs, 0 when one of them has no topology files."""
    seen = set()
    for cpu in allowed:
        topology = cpu_root / f"cpu{cpu}/topology"
        siblings = _read(topology / "core_cpus_list") or _read(topology / "thread_siblings_list")
        if not siblings:
            return 0
        seen.add(siblings)
    return len(seen)


def _last_level_cache(cpu_root: Path, allowed: list[int]) -> tuple[int, int, str]:
    """(bytes of all distinct last-level caches in reach, how many there are, where it is from)."""
    instances: dict[str, int] = {}
    level = 0
    for cpu in allowed:
        found: list[tuple[int, int, str]] = []
        for index in sorted((cpu_root / f"cpu{cpu}/cache").glob("index[0-9]*")):
            size = _size(_read(index / "size"))
            depth = _read(index / "level")
            if size and depth.isdigit() and _read(index / "type") in ("Unified", "Data"):
                found.append((int(depth), size, _read(index / "shared_cpu_list") or str(cpu)))
        if found:
            depth_, size, shared = max(found)
            level = max(level, depth_)
            instances[shared] = size
    if instances:
        each = max(instances.values())
        return sum(instances.values()), len(instances), f"L{level} {each >> 10} KiB x {len(instances)} (sysfs)"
    if cpu_root == Path("/sys/devices/system/cpu"):
        for name in ("SC_LEVEL4_CACHE_SIZE", "SC_LEVEL3_CACHE_SIZE", "SC_LEVEL2_CACHE_SIZE"):
            try:
                size = os.sysconf(name)
            except (ValueError, OSError):
                continue
            if size > 0:
                return size, 1, f"L{name[8]} {size >> 10} KiB (getconf)"
        for key in ("hw.l3cachesize", "hw.perflevel0.l2cachesize", "hw.l2cachesize"):
            told = _sysctl(key)
            if told.isdigit() and int(told):
                return int(told), 1, f"{int(told) >> 10} KiB (sysctl)"
    return 0, 1, "unknown: nothing here tells the size of the last-level cache"


def _cgroup_folders(root: Path, controller: str) -> list[Path]:
    """Folders whose limits bind this process: its own cgroup and its parents, v2 and v1."""
    folders: list[Path] = []
    base = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3:
            continue
        _, controllers, path = parts
        if controllers == "":
            tops = [base, base / "unified"]
        elif controller in controllers.split(","):
            tops = [base / controllers, base / controller]
        else:
            continue
        relative = Path(path.lstrip("/"))
        # In a container the path may be the host's: the root of the mount is then our own cgroup.
        folders += [top / part for top in tops for part in (relative, *relative.parents)]
    return folders


def _cpu_quota(root: Path) -> float | None:
    """CPUs' worth of time that the tightest cgroup grants, or None without a limit."""
    quotas = []
    for folder in _cgroup_folders(root, "cpu"):
        words = _read(folder / "cpu.max").split()
        if len(words) != 2:
            words = [_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")]
        if all(word.isdigit() and int(word) > 0 for word in words):
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def _memory_limit(root: Path) -> int | None:
    limits = []
    for folder in _cgroup_folders(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = _read(folder / name)
            if text.isdigit() and 0 < int(text) < _UNLIMITED:
                limits.append(int(text))
    return min(limits, default=None)


def _hypervisor(root: Path, flags: set[str]) -> str:
    named = _read(root / "sys/hypervisor/type")
    product = _read(root / "sys/class/dmi/id/product_name")
    if named:
        return named
    if "hypervisor" in flags:
        return f"yes ({product})" if product else "yes (unnamed)"
    return "none seen"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]] if match else 0


def _sysctl(name: str) -> str:
    """What macOS tells under a name; empty elsewhere."""
    if platform.system() != "Darwin":
        return ""
    return subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, check=False).stdout.strip()
