from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from trtprof.base.records import Device
from trtprof.hardware.device import (
    available_memory,
    busy_seconds,
    clock_is_stated,
    clock_mhz,
    host_cpu,
    llc_instance_bytes,
)

EPYC = """processor	: {cpu}
vendor_id	: AuthenticAMD
cpu family	: 26
model		: 2
model name	: AMD  EPYC
stepping	: 1
cpu MHz		: 2596.124
flags		: fpu sse4_2 avx avx2 fma avx512f avx512_vnni hypervisor
"""

ARM_TAIL = """processor	: 0
BogoMIPS	: 108.00
Features	: fp asimd asimddp
CPU implementer	: 0x41
CPU part	: 0xd0b

Hardware	: BCM2712
"""


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")


def cpu_files(cpu: int, siblings: str, cluster: str) -> dict[str, str]:
    base = f"sys/devices/system/cpu/cpu{cpu}"
    return {
        f"{base}/topology/core_cpus_list": siblings, f"{base}/cache/index0/level": "1",
        f"{base}/cache/index0/type": "Data", f"{base}/cache/index0/size": "48K",
        f"{base}/cache/index0/shared_cpu_list": siblings, f"{base}/cache/index1/level": "1",
        f"{base}/cache/index1/type": "Instruction", f"{base}/cache/index1/size": "999M",
        f"{base}/cache/index3/level": "3", f"{base}/cache/index3/type": "Unified",
        f"{base}/cache/index3/size": "32768K", f"{base}/cache/index3/shared_cpu_list": cluster,
    }  # fmt: skip


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    """What psutil tells: 16 GB, eight CPUs, clocks of 3 GHz and up by 0.5 GHz a CPU."""
    clocks = [SimpleNamespace(current=3000.0 + 500 * cpu, min=0.0, max=4400.0) for cpu in range(8)]
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=16_000_000 * 1024, available=1 << 33))
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: 8 if logical else 4)
    monkeypatch.setattr(psutil, "cpu_freq", lambda **_: clocks)


@pytest.fixture
def epyc(tmp_path: Path) -> Path:
    """Eight logical CPUs on four cores, two cores a last-level cache."""
    blocks = "\n".join(EPYC.format(cpu=cpu) for cpu in range(8))
    write(tmp_path, {"proc/cpuinfo": blocks})
    for cpu in range(8):
        core = cpu % 4
        write(tmp_path, cpu_files(cpu, f"{core},{core + 4}", "0-1,4-5" if core < 2 else "2-3,6-7"))
    return tmp_path


def linux(root: Path, cpus: range | list[int]) -> Device:
    return host_cpu(root, cpus=cpus)


def test_physical_cores_and_every_cache_instance_are_counted(epyc: Path) -> None:
    device = linux(epyc, range(8))
    assert (device.name, device.kind, device.cores) == ("AMD EPYC", "cpu", 4)
    assert device.memory_bytes == 16_000_000 * 1024
    assert device.cache_bytes == 2 * (32 << 20)
    assert llc_instance_bytes(device) == 32 << 20
    assert (device.clock_mhz, device.detail["max_clock_mhz"]) == (3000.0, "4400")
    assert device.detail["family"] == "26"
    assert device.detail["isa"] == "sse4_2 avx fma avx2 avx512f avx512_vnni"
    assert device.detail["logical_cpus"] == "8"
    assert device.detail["llc"] == "L3 32768 KiB x 2 (sysfs)"
    assert device.detail["hypervisor"] == "yes (unnamed)"
    assert device.detail["governor"] == "unknown"


def test_affinity_limits_cores_and_caches(epyc: Path) -> None:
    device = linux(epyc, [2, 6])
    assert (device.cores, device.cache_bytes) == (1, 32 << 20)
    assert device.detail["cpus_of_host"] == "8"


def test_a_v2_quota_of_a_parent_group_limits_cores_and_memory(epyc: Path) -> None:
    group = "sys/fs/cgroup"
    write(
        epyc,
        {
            "proc/self/cgroup": "0::/pod/app", f"{group}/pod/cpu.max": "250000 100000",
            f"{group}/pod/app/cpu.max": "max 100000", f"{group}/pod/app/memory.max": "1073741824",
        },
    )  # fmt: skip
    device = linux(epyc, range(8))
    assert (device.cores, device.memory_bytes) == (2, 1 << 30)
    assert device.detail["cpu_quota"] == "2.5 CPUs (cgroup)"


def test_a_v1_quota_is_found_at_the_mount_when_the_path_is_the_hosts(epyc: Path) -> None:
    write(
        epyc,
        {
            "proc/self/cgroup": "4:cpu,cpuacct:/docker/abc\n3:memory:/docker/abc",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
        },
    )
    device = linux(epyc, range(8))
    assert device.cores == 1
    assert device.memory_bytes == 16_000_000 * 1024
    assert "memory_limit" not in device.detail


def test_an_unlimited_quota_is_none(epyc: Path) -> None:
    write(epyc, {"proc/self/cgroup": "1:cpu:/", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1"})
    write(epyc, {"sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"})
    assert "cpu_quota" not in linux(epyc, range(8)).detail


def test_governor_and_hypervisor_are_read(epyc: Path) -> None:
    freq = "sys/devices/system/cpu/cpu0/cpufreq"
    assert clock_is_stated(linux(epyc, range(8)), epyc), "a guest without cpufreq shows what the hypervisor stated"
    write(epyc, {f"{freq}/scaling_governor": "performance", "sys/class/dmi/id/product_name": "Standard VM"})
    write(epyc, {f"{freq}/scaling_cur_freq": "3000000"})
    device = linux(epyc, range(8))
    assert device.detail["governor"] == "performance"
    assert device.detail["hypervisor"] == "yes (Standard VM)"
    assert not clock_is_stated(device, epyc)


def test_the_clock_is_the_mean_of_the_usable_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    assert clock_mhz([0, 1]) == 3250.0

    def absent(percpu: bool) -> None:
        raise NotImplementedError

    monkeypatch.setattr(psutil, "cpu_freq", absent)
    assert clock_mhz([0]) is None
    assert host_cpu().clock_mhz is None


def test_an_arm_board_is_named_by_its_part_and_tree(tmp_path: Path) -> None:
    write(tmp_path, {"proc/cpuinfo": ARM_TAIL, "proc/device-tree/model": "Raspberry Pi 5\0"})
    device = linux(tmp_path, [0])
    assert device.name == "Arm CPU part 0xd0b (Raspberry Pi 5)"
    assert device.detail["isa"] == "asimd asimddp"


def test_an_empty_tree_gives_unknowns_and_says_so(tmp_path: Path) -> None:
    device = linux(tmp_path, [0, 1])
    assert (device.cores, device.cache_bytes) == (2, 0)
    assert device.name
    assert device.detail["llc"].startswith("unknown")
    assert device.detail["cores_from"].startswith("logical CPUs")
    assert llc_instance_bytes(device) == 0


def test_other_systems_have_what_psutil_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Windows")
    device = linux(tmp_path, range(8))
    assert (device.cores, device.memory_bytes, device.clock_mhz) == (4, 16_000_000 * 1024, 3000.0)
    assert device.detail["os"].startswith("Windows")


def test_busy_seconds_adds_work_and_steal_of_the_usable_cpus_only(monkeypatch: pytest.MonkeyPatch) -> None:
    times = [SimpleNamespace(user=1.0, nice=0.1, system=0.2, idle=50.0, iowait=7.0, irq=0.03, softirq=0.02, steal=0.65)]
    monkeypatch.setattr(psutil, "cpu_times", lambda **_: times)
    assert busy_seconds([0]) == pytest.approx(2.0)
    assert busy_seconds([7]) is None


def test_memory_is_what_the_cgroup_leaves(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/app/memory"
    assert available_memory(tmp_path) == 1 << 33
    write(tmp_path, {"proc/self/cgroup": "0::/app", f"{group}.max": "1000", f"{group}.current": "900",
                     f"{group}.stat": "anon 1\ninactive_file 50"})  # fmt: skip
    assert available_memory(tmp_path) == 150


def test_this_host_is_described() -> None:
    device = host_cpu()
    assert device.name
    assert 1 <= device.cores <= int(device.detail["logical_cpus"])
