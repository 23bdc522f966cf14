"""A kernel alone, on a device that executes it in numpy: what is right, what is wrong, and what is timed."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.benched import BEHIND, CRASHES, NAN, OFF, RIGHT, ROWS, UNWRITTEN, Made, entry, written
from tests.fakes.seeming_device import ADA, SeemingDevice, SeemingProducts
from tests.fakes.stub_driver import stub_driver
from trtprof.base.errors import CaptureError, MissingError, TrtprofError
from trtprof.hardware import nvml
from trtprof.plugin import alone_worker
from trtprof.plugin.alone import PAIRS, RACE, TIMED, WARM_UPS, WORKER, Alone, AloneRequest, Rival, measure_alone
from trtprof.plugin.alone_worker import FLUSH, measure
from trtprof.runtime import child, cublas, cuda_driver, nvrtc

RIVAL = Rival(dtype="fp32", batch=1, m=ROWS, n=1, k=8)
FLUSH_IMAGE = b"\x7fELF"


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alone_worker, "LEAST_FLUSHED", 1 << 16)
    monkeypatch.setattr(alone_worker, "RAMP", 50)
    monkeypatch.setattr(cublas, "WORKSPACE", 1 << 16)


def taken(
    folder: Path,
    variants: Sequence[Made] = (RIGHT,),
    *,
    ns: Mapping[str, float | Callable[[], float]] | None = None,
    rival_ns: float | None = None,
    refused: str = "",
    request: Mapping[str, Any] | None = None,
    **device: Any,
) -> tuple[Alone, SeemingDevice]:
    """What is measured of variants, which take 1 us, 2 us ... unless it is said."""
    written(folder, variants)
    times = {entry(tactic): 1000.0 * tactic for tactic in range(1, len(variants) + 1)} | dict(ns or {})
    gpu = SeemingDevice(times, **device)
    products = None if rival_ns is None else SeemingProducts(gpu, rival_ns, refused)
    asked = AloneRequest(folder=str(folder), rival=RIVAL if rival_ns is not None else None, **(request or {}))
    found = measure(asked, gpu, FLUSH_IMAGE, None if products is None else lambda _: products)
    return found, gpu


def test_a_right_kernel_takes_turns_with_its_rival(tmp_path: Path) -> None:
    found, gpu = taken(tmp_path, rival_ns=3000.0)
    (check,) = found.checks
    assert check.ok
    assert check.worst is not None
    assert 0 < check.worst <= 1
    assert (found.tactic, found.gpu, found.capability) == (1, ADA.name, (8, 9))
    assert len(found.pairs) == PAIRS
    assert {len(side) for pair in found.pairs for side in (pair.kernel, pair.rival)} == {TIMED}
    assert PAIRS * TIMED >= 50
    assert WARM_UPS == 10
    assert {ns for pair in found.pairs for ns in pair.kernel} == {1000.0}
    # The second algorithm of the library is the faster one.
    assert {ns for pair in found.pairs for ns in pair.rival} == {3000.0}
    assert found.rival.startswith("cuBLASLt 13.1.0: 1 products of 300 x 8 and 8 x 1")
    assert found.began_ns <= found.ended_ns
    # Two sizes, each with two poisons; a race; what warms up; what is timed.
    assert gpu.launched.count(entry(1)) == 2 * 2 + (1 + RACE) + WARM_UPS + PAIRS * TIMED
    # Everything that is timed begins with a flushed L2.
    timed = [name for name in gpu.launched if name == "library"]
    assert len(timed) >= WARM_UPS + PAIRS * TIMED
    flushes = [at for at, name in enumerate(gpu.launched) if name == "flush"]
    assert all(gpu.launched[at - 1] == "flush" for at, name in enumerate(gpu.launched) if name == "library")
    assert flushes


def test_turns_begin_with_each_side_in_turn(tmp_path: Path) -> None:
    def order(first: int) -> list[str]:
        _, gpu = taken(tmp_path / str(first), rival_ns=3000.0, request={"first": first, "tactic": 1})
        sides = [name for name in gpu.launched if name != "flush"][-2 * PAIRS * TIMED :]
        return [name for name, _ in itertools.groupby(sides)]

    library, own = "library", entry(1)
    # A B, B A, A B, B A: neighbours of the same side are one.
    assert order(0) == [library, own, library, own, library]
    assert order(1) == [own, library, own, library, own]


def test_the_clock_is_up_before_anything_is_timed(tmp_path: Path) -> None:
    # In a process that checks nothing the device has been idle: numbers were drawn, and the library was opened.
    for tactic in (0, 1):
        _, gpu = taken(tmp_path / str(tactic), rival_ns=3000.0, request={"tactic": tactic})
        groups = [(name, len(list(each))) for name, each in itertools.groupby(gpu.launched)]
        busy = [at for at, (name, count) in enumerate(groups) if name == "flush" and count >= alone_worker.RAMP]
        # Before the race of the variants, before that of the library, and before the turns.
        assert [groups[at + 1][0] for at in busy] == [entry(1), "library", entry(1)][bool(tactic) :]


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (UNWRITTEN, "108 of 300 elements of y are not written"),
        (NAN, "1 of 300 elements of y are NaN"),
        (OFF, "y: element [3, 0] is"),
        (BEHIND, "it writes before or behind y"),
        (CRASHES, "it crashed: CUDA_ERROR_ILLEGAL_ADDRESS"),
    ],
)
def test_a_wrong_kernel_is_found_and_not_timed(made: Made, reason: str, tmp_path: Path) -> None:
    found, gpu = taken(tmp_path, (RIGHT, made), rival_ns=3000.0)
    right, wrong = found.checks
    assert right.ok
    assert not wrong.ok
    assert reason in wrong.reason
    assert found.tactic == 0
    assert found.pairs == ()
    assert "library" not in gpu.launched


def test_after_a_crash_nothing_is_asked_of_the_device(tmp_path: Path) -> None:
    found, gpu = taken(tmp_path, (CRASHES, RIGHT))
    assert [check.tactic for check in found.checks] == [1]
    assert gpu.launched == [entry(1)]


def test_a_host_that_is_slow_is_told(tmp_path: Path) -> None:
    found, _ = taken(tmp_path, busy=True)
    assert found.notes == ("the host is slow: the time that it takes to launch is in some of the times",)
    assert {ns for pair in found.pairs for ns in pair.kernel} == {1000.0}


def test_variants_for_other_gpus_are_left_out_and_none_at_all_is_an_error(tmp_path: Path) -> None:
    newer = Made(architecture="compute_90")
    found, _ = taken(tmp_path / "a", (RIGHT, newer, Made(least=(9, 0))))
    assert [check.tactic for check in found.checks] == [1]
    assert found.left_out == {
        2: "it was compiled for compute_90 only", 3: "it is for compute capability 9.0 and later",
    }  # fmt: skip
    with pytest.raises(
        MissingError, match=r"no variant of SmallGemv is for a GPU of compute capability 8\.9"
    ) as caught:
        taken(tmp_path / "b", (newer,))
    assert caught.value.why == "it was compiled for compute_90 only"


def test_a_driver_that_is_too_old_for_the_ptx_is_told(tmp_path: Path) -> None:
    named = r"the NVIDIA driver is too old for small_gemv_1\.compute_80\.ptx"
    with pytest.raises(MissingError, match=named) as caught:
        taken(tmp_path, newest=(8, 0), properties=ADA._replace(cuda=(12, 0)))
    assert "it runs CUDA 12.0 at most, and this is PTX " in caught.value.why
    assert "update the driver" in caught.value.fix


def test_too_little_memory_is_told(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="too little free memory on NVIDIA GeForce RTX 4090") as caught:
        taken(tmp_path, properties=ADA._replace(free_bytes=1 << 18, l2_bytes=1 << 16))
    assert "262 kB are free, of which one part in 2" in caught.value.why


def test_without_a_library_the_kernel_is_timed_alone_and_it_is_said(tmp_path: Path) -> None:
    found, _ = taken(tmp_path, rival_ns=3000.0, refused="cuBLASLt has no algorithm for it")
    assert found.rival == ""
    assert all(pair.rival == () and len(pair.kernel) == TIMED for pair in found.pairs)
    assert found.notes == ("no library takes turns with it: cuBLASLt has no algorithm for it",)


def test_the_worker_answers_and_errors_of_cuda_are_errors_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path)
    made: list[SeemingDevice] = []

    def gpu(_: int) -> SeemingDevice:
        made.append(SeemingDevice({entry(1): 1000.0}))
        return made[-1]

    monkeypatch.setattr(cuda_driver, "Gpu", gpu)

    def answered(**asked: Any) -> TrtprofError | None:
        code = alone_worker.main(child.prepare("m", AloneRequest(folder=str(tmp_path), **asked), tmp_path)[-2:])
        error = child.failure_in(tmp_path)
        assert code == (0 if error is None else error.exit_code)
        return error

    assert answered(uuid=f"GPU-{ADA.uuid}") is None
    assert child.answer_in(tmp_path, Alone).tactic == 1
    assert made[-1].closed
    error = answered(uuid="GPU-other")
    assert isinstance(error, MissingError)
    assert "CUDA does not see the GPU GPU-other" in error.what

    def fails(*_: object, **__: object) -> None:
        raise nvrtc.CudaError("CUDA_ERROR_LAUNCH_FAILED")

    monkeypatch.setattr(SeemingDevice, "elapsed_ns", fails)
    error = answered()
    assert isinstance(error, CaptureError)
    assert "CUDA_ERROR_LAUNCH_FAILED" in error.why
    assert alone_worker.__name__ == WORKER


# --- the bindings ----------------------------------------------------------------------------

STUB_RUN = """
import sys
from trtprof.plugin import alone_worker
from trtprof.runtime import nvrtc
image = open(sys.argv[1], "rb").read()
nvrtc.compile_source = lambda source, architecture: nvrtc.Compiled(image, "", "")
alone_worker.LEAST_FLUSHED = 1 << 20
sys.exit(alone_worker.main(["", sys.argv[2]]))
"""


@pytest.mark.process
def test_the_driver_is_called_as_its_bindings_want_it(tmp_path: Path) -> None:
    stub_driver(tmp_path)
    written(tmp_path / "plugin", (RIGHT, UNWRITTEN))
    # Beforehand, for NVRTC asks a driver that is there for more than the stub has.
    (tmp_path / "flush").write_bytes(nvrtc.compile_source(FLUSH, "sm_90").image)

    def answered(**asked: Any) -> Alone:
        *_, request = child.prepare("m", AloneRequest(folder=str(tmp_path / "plugin"), rival=RIVAL, **asked), tmp_path)
        done = subprocess.run(
            [sys.executable, "-P", "-c", STUB_RUN, tmp_path / "flush", request],
            env={
                **child.environment(),
                "LD_LIBRARY_PATH": str(tmp_path),
                "STUB_CUDA_VERSION": "99040",
                "STUB_FAILS_AT": "",
            },
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return child.answer_in(tmp_path, Alone)

    found = answered()
    right, wrong = found.checks
    assert right.ok
    assert "108 of 300 elements of y are not written" in wrong.reason, "the grid reaches the driver as it was given"
    found = answered(tactic=1)
    assert (found.tactic, found.gpu) == (1, "Stub")
    assert {round(ns) for pair in found.pairs for ns in pair.kernel} == {1000}
    assert found.notes[0].startswith("no library takes turns with it")


@pytest.mark.process
def test_without_a_driver_the_child_says_so(tmp_path: Path) -> None:
    written(tmp_path)
    if nvml.gpus()[0]:
        pytest.skip("there is a GPU here")
    with pytest.raises(MissingError, match="CUDA"):
        measure_alone(AloneRequest(folder=str(tmp_path)))
