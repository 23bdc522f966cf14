from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
import pytest

from trtprof.base.errors import UsageError
from trtprof.base.records import Ceilings, Device, LiveGpu, Measurement, Roof
from trtprof.hardware import store
from trtprof.hardware.store import default_cache_dir, of_gpu, runtime_version

DEVICE = Device(name="Fake (R) CPU @ 3 GHz", kind="cpu", cores=2, memory_bytes=1 << 33, cache_bytes=1 << 20)
ROOF = Roof(
    tensor_flops_per_s={"fp32": 1e11}, vector_flops_per_s={"fp32": 1e11}, special_per_s={"exp": 1e10},
    dram_bytes_per_s=1e10, cache_bytes_per_s=1e11,
)  # fmt: skip
GPU = LiveGpu(index=0, uuid="GPU-1", name="NVIDIA Fake 4090", driver="575.57", power_limit_w=450.0)


class Bench:
    """Stands in for the measurement: every call gives other ceilings."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def __call__(self, threads: int) -> Ceilings:
        self.calls.append(threads)
        return Ceilings(
            device=DEVICE.name,
            source="test",
            measured_at="2026-11-20T12:00:00+00:00",
            best=ROOF,
            attainable=ROOF,
            cache_bytes=1 << 20,
            threads=threads,
            launch_ns=1000.0 + len(self.calls),
            call_ns=1500.0,
            measurements={
                "dram": Measurement(value=1e10, unit="B/s", what="a test", repeats=3, spread=0.01, threads=threads)
            },
            clocks_mhz={"before": 3000.0},
        )


@pytest.fixture
def bench() -> Bench:
    return Bench()


def load(
    bench: Bench, folder: Path, threads: int = 2, *, said: list[str] | None = None, device: Device = DEVICE,
    runtime: str = "1.2.3",
) -> Ceilings:  # fmt: skip
    """What is kept, else what the bench measures, which is kept from then on."""
    say = said.append if said is not None else print
    shelf = store.of_host(threads, cache_dir=folder, device=device, runtime=runtime)
    held = shelf.read(say)
    if held is None:
        held = bench(int(shelf.key["threads"]))
        shelf.write(held, say)
    return held


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_the_second_call_reads_what_the_first_measured(bench: Bench, tmp_path: Path) -> None:
    said: list[str] = []
    first = load(bench, tmp_path / "new" / "folder")
    second = load(bench, tmp_path / "new" / "folder", said=said)
    assert bench.calls == [2]
    assert not first.cached
    assert second == msgspec.structs.replace(first, cached=True)
    assert said == []
    (path,) = files(tmp_path / "new" / "folder")
    assert path.name.startswith("ceilings-fake-r-cpu-3-ghz-2t-")


def test_threads_runtime_and_shape_are_kept_apart(bench: Bench, tmp_path: Path) -> None:
    load(bench, tmp_path, 2)
    assert load(bench, tmp_path, 1).threads == 1
    load(bench, tmp_path, runtime="1.2.4")
    load(bench, tmp_path, device=msgspec.structs.replace(DEVICE, cores=8))
    load(bench, tmp_path, device=msgspec.structs.replace(DEVICE, detail={"isa": "avx2"}))
    assert bench.calls == [2, 1, 2, 2, 2]
    assert len(files(tmp_path)) == 5


def test_the_ceilings_of_a_gpu_are_kept_by_driver_and_limits(bench: Bench, tmp_path: Path) -> None:
    said: list[str] = []
    shelf = of_gpu(GPU, cache_dir=tmp_path)
    shelf.write(bench(0), said.append)
    assert shelf.path.name.startswith("ceilings-nvidia-fake-4090-gpu-")
    held = of_gpu(msgspec.structs.replace(GPU, temperature_c=60), cache_dir=tmp_path).read(said.append)
    assert held is not None
    assert held.cached
    for changed in ({"driver": "580.1"}, {"uuid": "GPU-2"}, {"power_limit_w": 300.0}, {"ecc": True}, {"slice": 1}):
        other = msgspec.structs.replace(GPU, **changed)
        assert of_gpu(other, cache_dir=tmp_path).read(said.append) is None
    assert said == []


def test_zero_threads_share_the_file_of_all_cores(bench: Bench, tmp_path: Path) -> None:
    load(bench, tmp_path, 0)
    assert load(bench, tmp_path, 2).cached
    assert bench.calls == [2]
    with pytest.raises(UsageError, match="-3"):
        load(bench, tmp_path, -3)


def test_a_corrupt_file_is_said_and_measured_again(bench: Bench, tmp_path: Path, subtests: pytest.Subtests) -> None:
    cases: list[bytes] = [b"", b"{", b"\xff\xfe", b"[1]", b'{"schema_version": "x"}', b"[" * 100_000]
    for content in cases:
        with subtests.test(str(content)[:80]):
            load(bench, tmp_path)
            (path,) = files(tmp_path)
            path.write_bytes(content)
            said: list[str] = []
            assert not load(bench, tmp_path, said=said).cached
            assert "not readable" in said[0]
            assert path.name in said[0]
            assert load(bench, tmp_path).cached


@pytest.mark.parametrize("key", ["schema_version", "method_version"])
def test_a_file_of_an_older_version_is_said_and_measured_again(bench: Bench, tmp_path: Path, key: str) -> None:
    load(bench, tmp_path)
    (path,) = files(tmp_path)
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, key: 0, "ceilings": {"old": "layout"}}))
    said: list[str] = []
    assert not load(bench, tmp_path, said=said).cached
    assert "another version" in said[0]


def test_a_file_of_another_host_is_measured_again(bench: Bench, tmp_path: Path) -> None:
    load(bench, tmp_path)
    (path,) = files(tmp_path)
    path.write_text(path.read_text().replace("1.2.3", "9.9.9"))
    said: list[str] = []
    assert not load(bench, tmp_path, said=said).cached
    assert "another host" in said[0]


def test_a_cache_that_cannot_be_written_is_said_and_not_fatal(bench: Bench, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    said: list[str] = []
    assert load(bench, blocked, said=said).launch_ns == 1001.0
    assert "ceilings not kept" in said[-1]
    assert "TRTPROF_CACHE_DIR" in said[-1]


@pytest.mark.skipif(sys.platform != "linux", reason="platformdirs knows the others")
def test_the_cache_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    for name in ("TRTPROF_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert default_cache_dir() == tmp_path / ".cache" / "trtprof"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_cache_dir() == tmp_path / ".cache" / "trtprof"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_cache_dir() == tmp_path / "xdg" / "trtprof"
    monkeypatch.setenv("TRTPROF_CACHE_DIR", str(tmp_path / "own"))
    assert default_cache_dir() == tmp_path / "own"


def test_the_runtime_is_known_without_importing_it() -> None:
    import onnxruntime

    assert runtime_version().split("+")[0] == onnxruntime.__version__.split("+")[0]
