from __future__ import annotations

from pathlib import Path

import pytest

from trtprof.base.records import Device
from trtprof.hardware.device import busy_seconds, clock_is_stated, clock_mhz, host_cpu, llc_instance_bytes

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
        f"{base}/topology/core_cpus_list": siblings,
        f"{base}/cache/index0/level": "1",
        f"{base}/cache/index0/type": "Data",
        f"{base}/cache/index0/size": "48K",
        f"{base}/cache/index0/shared_cpu_list": siblings,
        f"{base}/cache/index1/level": "1",
        f"{base}/cache/index1/type": "Instruction",
        f"{base}/cache/index1/size": "999M",
        f"{base}/cache/index3/level": "3",
        f"{base}/cache/index3/type": "Unified",
        f"{base}/cache/index3/size": "32768K",
        f"{base}/cache/index3/shared_cpu_list": cluster,
    }


@pytest.fixture
def epyc(tmp_path: Path) -> Path:
    """Eight logical CPUs on four cores, two cores a last-level cache."""
    blocks = "\n".join(EPYC.format(cpu=cpu) for cpu in range(8))
    write(tmp_path, {"proc/cpuinfo": blocks, "proc/meminfo": "MemTotal:       16000000 kB\nMemFree: 1 kB"})
    for cpu in range(8):
        core = cpu % 4
        write(tmp_path, cpu_files(cpu, f"{core},{core + 4}", "0-1,4-5" if core < 2 else "2-3,6-7"))
    write(tmp_path, {"sys/devices/system/cpu/online": "0-7"})
    return tmp_path


def linux(root: Path, cpus: range | list[int]) -> Device:
    return host_cpu(root, system="Linux", cpus=cpus)


def test_physical_cores_and_every_cache_instance_are_counted(epyc: Path) -> None:
    device = linux(epyc, range(8))
    assert (device.name, device.kind, device.cores) == ("AMD EPYC", "cpu", 4)
    assert device.memory_bytes == 16_000_000 * 1024
    assert device.cache_bytes == 2 * (32 << 20)
    assert llc_instance_bytes(device) == 32 << 20
    assert device.clock_mhz == 2596.124
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
            "proc/self/cgroup": "0::/pod/app",
            f"{group}/pod/cpu.max": "250000 100000",
            f"{group}/pod/app/cpu.max": "max 100000",
            f"{group}/pod/app/memory.max": "1073741824",
        },
    )
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


def test_clocks_governor_and_hypervisor_are_read(epyc: Path) -> None:
    freq = "sys/devices/system/cpu/cpu0/cpufreq"
    write(
        epyc,
        {
            f"{freq}/scaling_cur_freq": "3100000",
            f"{freq}/cpuinfo_max_freq": "4400000",
            f"{freq}/scaling_governor": "performance",
            "sys/class/dmi/id/product_name": "Standard VM",
        },
    )
    device = linux(epyc, range(8))
    assert device.clock_mhz == 3100.0
    assert device.detail["max_clock_mhz"] == "4400"
    assert device.detail["governor"] == "performance"
    assert device.detail["hypervisor"] == "yes (Standard VM)"


def test_the_clock_is_the_mean_of_the_usable_cpus(epyc: Path) -> None:
    # A guest without cpufreq shows what the hypervisor stated.
    assert clock_mhz(epyc, cpus=range(8)) == pytest.approx(2596.124)
    guest = host_cpu(epyc, system="Linux", cpus=range(8))
    assert clock_is_stated(guest, epyc)
    for cpu, khz in ((0, 3_000_000), (1, 4_000_000), (2, 5_000_000)):
        write(epyc, {f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq": str(khz)})
    assert clock_mhz(epyc, cpus=[0, 1]) == pytest.approx(3500)
    assert not clock_is_stated(guest, epyc)


def test_bare_metal_without_cpufreq_reads_its_clock(epyc: Path) -> None:
    text = (epyc / "proc/cpuinfo").read_text().replace(" hypervisor", "").replace("2596.124", "1500.5", 1)
    write(epyc, {"proc/cpuinfo": text})
    assert not clock_is_stated(host_cpu(epyc, system="Linux", cpus=range(8)), epyc)
    assert clock_mhz(epyc, cpus=[0]) == pytest.approx(1500.5)
    assert clock_mhz(epyc, cpus=[0, 1]) == pytest.approx((1500.5 + 2596.124) / 2)


def test_an_arm_board_is_named_by_its_part_and_tree(tmp_path: Path) -> None:
    write(tmp_path, {"proc/cpuinfo": ARM_TAIL, "proc/device-tree/model": "Raspberry Pi 5\0"})
    device = linux(tmp_path, [0])
    assert device.name == "Arm CPU part 0xd0b (Raspberry Pi 5)"
    assert device.detail["isa"] == "asimd asimddp"


def test_an_empty_tree_gives_unknowns_and_says_so(tmp_path: Path) -> None:
    device = linux(tmp_path, [0, 1])
    assert (device.cores, device.memory_bytes, device.cache_bytes, device.clock_mhz) == (2, 0, 0, None)
    assert device.name
    assert device.detail["llc"].startswith("unknown")
    assert device.detail["cores_from"].startswith("logical CPUs")
    assert llc_instance_bytes(device) == 0


def test_a_clock_that_nobody_tells_is_none(tmp_path: Path) -> None:
    assert clock_mhz(tmp_path, cpus=[0]) is None
    write(tmp_path, {"proc/cpuinfo": ARM_TAIL, "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "fast"})
    assert clock_mhz(tmp_path, cpus=[0]) is None


def test_garbage_in_every_file_is_survived(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/cpuinfo": "processor : 0\ncpu MHz : fast\nno colon here",
            "proc/meminfo": "MemTotal: lots",
            "proc/self/cgroup": "nonsense\n0::/x",
            "proc/stat": "cpu0 a b c d e f g h",
            "sys/fs/cgroup/x/cpu.max": "many few",
            "sys/devices/system/cpu/online": "a-b",
            "sys/devices/system/cpu/cpu0/cache/index0/size": "big",
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "0",
        },
    )
    device = linux(tmp_path, [0])
    assert (device.cores, device.memory_bytes, device.cache_bytes, device.clock_mhz) == (1, 0, 0, None)
    assert busy_seconds(tmp_path, cpus=[0]) is None


@pytest.mark.parametrize("system", ["Windows", "Darwin", "Plan9"])
def test_other_systems_fall_back(system: str, tmp_path: Path) -> None:
    device = host_cpu(tmp_path, system=system, cpus=[0, 1, 2])
    assert device.name
    assert device.cores >= 1
    assert device.detail["logical_cpus"] == "3"
    assert device.detail["os"].startswith(system)


def test_busy_seconds_adds_work_and_steal_of_the_usable_cpus_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sysconf", {"SC_CLK_TCK": 100}.__getitem__)
    stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 100 10 20 5000 700 3 2 65 0 0\ncpu1 900 0 0 0 0 0 0 0 0 0"
    write(tmp_path, {"proc/stat": stat})
    assert busy_seconds(tmp_path, cpus=[0]) == 2.0
    assert busy_seconds(tmp_path, cpus=[7]) is None


def test_this_host_is_described() -> None:
    device = host_cpu()
    assert device.name
    assert 1 <= device.cores <= int(device.detail["logical_cpus"])
