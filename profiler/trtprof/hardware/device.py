"""What the host is: CPU, usable cores, memory, last-level cache, clocks, hypervisor.

Linux is read from ``/proc`` and ``/sys`` under a root that tests may replace; other systems fall
back to ``platform`` and ``sysctl``. A missing file never stops anything: what is not known is 0,
None or absent, and `Device.detail` says where each figure is from.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from trtprof.base.records import Device

_ISA_FLAGS = (
    "sse4_2", "avx", "f16c", "fma", "avx2", "avx_vnni", "avx512f", "avx512bw", "avx512vl", "avx512_vnni",
    "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16",
    "asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sve", "sve2", "svei8mm", "svebf16", "sme", "sme2",
)  # fmt: skip
"""The flags that decide which kernels a CPU runtime picks; the first lines are x86, the last Arm."""

_ARM_IMPLEMENTERS = {"0x41": "Arm", "0x48": "HiSilicon", "0x51": "Qualcomm", "0x61": "Apple", "0xc0": "Ampere"}

_UNLIMITED = 1 << 60
"""cgroup v1 writes 'no memory limit' as a number close to 2**63."""


def host_cpu(root: Path = Path("/"), *, system: str | None = None, cpus: Iterable[int] | None = None) -> Device:
    """Describe the CPU that this process may use.

    ``cores`` are physical cores within the process's affinity and cgroup quota, ``memory_bytes``
    is the memory of the host or of the cgroup, whichever is less, ``cache_bytes`` the sum of the
    last-level caches that the usable cores reach, 0 when unknown.

    Args:
        root: Where ``proc`` and ``sys`` lie; another root than ``/`` is for tests.
        system: Name of the operating system as `platform.system` gives it; None asks it.
        cpus: Logical CPUs that the process may use; None asks the operating system.
    """
    system = system or platform.system()
    allowed = sorted(cpus) if cpus is not None else _affinity()
    if system == "Linux":
        return _linux(root, allowed)
    if system == "Darwin":
        return _darwin(len(allowed))
    return _portable(system, len(allowed))


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes of memory that can be had without swapping, by the host and by the cgroup; None where nothing tells."""
    match = re.search(r"^MemAvailable:\s*(\d+) kB", _read(root / "proc/meminfo"), re.MULTILINE)
    free = [int(match[1]) * 1024] if match else []
    for folder in _cgroup_folders(root, "memory"):
        for most, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            limit, taken = _read(folder / most), _read(folder / used)
            if limit.isdigit() and taken.isdigit() and 0 < int(limit) < _UNLIMITED:
                # Pages of files that nobody has open are given back when they are needed.
                cached = re.search(r"^(?:total_)?inactive_file (\d+)$", _read(folder / "memory.stat"), re.MULTILINE)
                free.append(max(int(limit) - int(taken) + (int(cached[1]) if cached else 0), 0))
    return min(free, default=None)


def llc_instance_bytes(device: Device) -> int:
    """Size of one last-level cache in bytes: what a single thread can reach. 0 when unknown."""
    instances = int(device.detail.get("llc_instances", "1"))
    return device.cache_bytes // max(instances, 1)


def busy_seconds(root: Path = Path("/"), *, cpus: Iterable[int] | None = None) -> float | None:
    """CPU seconds spent since boot on the usable CPUs by everyone, time stolen by a host included.

    None where the system does not tell.
    """
    names = {f"cpu{cpu}" for cpu in (cpus if cpus is not None else _affinity())}
    ticks = 0
    seen = False
    for line in _read(root / "proc/stat").splitlines():
        words = line.split()
        if words and words[0] in names and len(words) >= 8 and all(word.isdigit() for word in words[1:9]):
            user, nice, system, _, _, irq, softirq = (int(word) for word in words[1:8])
            ticks += user + nice + system + irq + softirq + (int(words[8]) if len(words) > 8 else 0)
            seen = True
    return ticks / os.sysconf("SC_CLK_TCK") if seen else None


def others_cpus_now(seconds: float = 0.5) -> float | None:
    """CPUs that others keep busy, looked at for so long; None where the system does not tell."""
    before, own_before, began = busy_seconds(), time.process_time(), time.monotonic()
    time.sleep(seconds)
    after, own = busy_seconds(), time.process_time() - own_before
    if before is None or after is None:
        return None
    return max(after - before - own, 0.0) / (time.monotonic() - began)


def clock_mhz(root: Path = Path("/"), *, cpus: Iterable[int] | None = None) -> float | None:
    """Clock of the usable CPUs just now in MHz, the mean of them; None where the system does not tell.

    ``cpufreq`` where there is one, else what ``/proc/cpuinfo`` says; see `clock_is_stated`.
    """
    allowed = sorted(cpus) if cpus is not None else _affinity()
    folder = root / "sys/devices/system/cpu"
    clocks = [_khz(folder / f"cpu{cpu}/cpufreq/scaling_cur_freq") for cpu in allowed]
    if not any(clocks):
        wanted = {str(cpu) for cpu in allowed}
        clocks = [_mhz(block.get("cpu MHz")) for block in _cpuinfo_blocks(root) if block.get("processor") in wanted]
    known = [clock for clock in clocks if clock]
    return sum(known) / len(known) if known else None


def clock_is_stated(device: Device, root: Path = Path("/")) -> bool:
    """Whether the clock is a number that a hypervisor states once, and no reading of the clock."""
    virtual = device.detail.get("hypervisor", "none seen") != "none seen"
    return virtual and not any((root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))


def _affinity() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


# --- Linux ----------------------------------------------------------------------------------


def _linux(root: Path, allowed: list[int]) -> Device:
    info = _cpuinfo(root, allowed)
    cpu_root = root / "sys/devices/system/cpu"
    detail: dict[str, str] = {"os": f"Linux {_read(root / 'proc/sys/kernel/osrelease') or platform.release()}"}
    detail["architecture"] = platform.machine()
    for key, label in (("vendor_id", "vendor"), ("cpu family", "family"), ("model", "model"), ("stepping", "stepping"),
                       ("CPU part", "part"), ("microcode", "microcode")):  # fmt: skip
        if key in info:
            detail[label] = info[key]
    flags = set((info.get("flags") or info.get("Features") or "").split())
    detail["isa"] = " ".join(flag for flag in _ISA_FLAGS if flag in flags) or "unknown"

    physical = _physical_cores(cpu_root, allowed)
    detail["logical_cpus"] = str(len(allowed))
    detail["cpus_of_host"] = str(_count_online(cpu_root) or os.cpu_count() or len(allowed))
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

    memory, limit = _mem_total(root), _memory_limit(root)
    if limit is not None and (not memory or limit < memory):
        detail["memory_limit"] = f"{limit} bytes (cgroup)"
        memory = limit

    first = cpu_root / f"cpu{allowed[0] if allowed else 0}/cpufreq"
    current = _khz(first / "scaling_cur_freq") or _mhz(info.get("cpu MHz"))
    maximum = _khz(first / "cpuinfo_max_freq")
    if maximum is not None:
        detail["max_clock_mhz"] = f"{maximum:g}"
    detail["governor"] = _read(first / "scaling_governor") or "unknown"
    detail["hypervisor"] = _hypervisor(root, flags)
    return Device(
        name=_cpu_name(root, info),
        kind="cpu",
        cores=cores,
        memory_bytes=memory,
        cache_bytes=cache,
        clock_mhz=current,
        detail=detail,
    )


def _cpuinfo(root: Path, allowed: list[int]) -> dict[str, str]:
    """Fields of the first usable CPU in /proc/cpuinfo, and those of the file's tail block (Arm)."""
    blocks = _cpuinfo_blocks(root)
    wanted = str(allowed[0]) if allowed else "0"
    chosen = next((b for b in blocks if b.get("processor") == wanted), blocks[0] if blocks else {})
    tail = next((b for b in reversed(blocks) if b and "processor" not in b), {})
    return {**tail, **chosen}


def _cpuinfo_blocks(root: Path) -> list[dict[str, str]]:
    """The paragraphs of /proc/cpuinfo, one a CPU, as fields."""
    blocks: list[dict[str, str]] = []
    for block in re.split(r"\n\s*\n", _read(root / "proc/cpuinfo")):
        pairs = (line.split(":", 1) for line in block.splitlines() if ":" in line)
        blocks.append({key.strip(): value.strip() for key, value in pairs})
    return blocks


def _cpu_name(root: Path, info: dict[str, str]) -> str:
    name = info.get("model name") or info.get("cpu model") or info.get("uarch") or ""
    if not name and "CPU implementer" in info:
        maker = _ARM_IMPLEMENTERS.get(info["CPU implementer"].lower(), info["CPU implementer"])
        name = f"{maker} CPU part {info.get('CPU part', 'unknown')}"
        board = _read(root / "proc/device-tree/model").rstrip("\0")
        name = f"{name} ({board})" if board else name
    return " ".join(name.split()) or platform.processor() or f"{platform.machine() or 'unknown'} CPU"


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


def _count_online(cpu_root: Path) -> int:
    return len(_cpu_list(_read(cpu_root / "online")))


def _cpu_list(text: str) -> set[int]:
    """Parse the kernel's list format, for example ``0-3,8``."""
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if match:
            found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return found


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
    return 0, 1, "unknown: neither sysfs nor getconf tells the size of the last-level cache"


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


def _mem_total(root: Path) -> int:
    match = re.search(r"^MemTotal:\s*(\d+) kB", _read(root / "proc/meminfo"), re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


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


def _khz(path: Path) -> float | None:
    text = _read(path)
    return int(text) / 1000 if text.isdigit() and int(text) else None


def _mhz(text: str | None) -> float | None:
    try:
        return float(text) if text and float(text) > 0 else None
    except ValueError:
        return None


# --- elsewhere ------------------------------------------------------------------------------


def _darwin(logical: int) -> Device:
    names = ("machdep.cpu.brand_string", "hw.physicalcpu", "hw.memsize", "hw.l3cachesize", "hw.l2cachesize",
             "hw.perflevel0.l2cachesize", "hw.perflevel0.physicalcpu")  # fmt: skip
    values = {name: _sysctl(name) for name in names}

    def number(*keys: str) -> int:
        return next((int(values[key]) for key in keys if values[key].isdigit() and int(values[key])), 0)

    cache = number("hw.l3cachesize", "hw.perflevel0.l2cachesize", "hw.l2cachesize")
    detail = _portable_detail("Darwin", logical)
    detail["llc"] = f"{cache >> 10} KiB (sysctl)" if cache else "unknown: sysctl does not tell it"
    if values["hw.perflevel0.physicalcpu"]:
        detail["performance_cores"] = values["hw.perflevel0.physicalcpu"]
    return Device(
        name=values["machdep.cpu.brand_string"] or platform.processor() or platform.machine() or "unknown CPU",
        kind="cpu",
        cores=number("hw.physicalcpu") or logical,
        memory_bytes=number("hw.memsize"),
        cache_bytes=cache,
        detail=detail,
    )


def _sysctl(name: str) -> str:
    try:
        done = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _portable(system: str, logical: int) -> Device:
    detail = _portable_detail(system, logical)
    detail["cores_from"] = "logical CPUs: the core topology is not readable"
    detail["llc"] = "unknown: no source for the last-level cache on this system"
    name = platform.processor() or os.environ.get("PROCESSOR_IDENTIFIER", "") or platform.machine() or "unknown CPU"
    return Device(name=name, kind="cpu", cores=logical, detail=detail)


def _portable_detail(system: str, logical: int) -> dict[str, str]:
    return {
        "os": f"{system} {platform.release()}".strip(),
        "architecture": platform.machine(),
        "logical_cpus": str(logical),
        "llc_instances": "1",
    }
