"""The plugin in TensorRT's real registry, and that a plugin that is wrong does not pass there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.fakes.other_versions import LEAN, other_version
from tests.fakes.plugin_forms import gemv_specification
from trtprof.plugin import contract, quick
from trtprof.plugin.cases import cases

NAME = "batchedgemv_64"


@pytest.fixture(params=sorted(LEAN))
def place(request: pytest.FixtureRequest) -> Path:
    return other_version(LEAN[request.param])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in quick.files(gemv_specification()).items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def changed(folder: Path, old: str, new: str) -> None:
    """The module with one piece of it changed."""
    text = (folder / f"{NAME}.py").read_text()
    assert old in text
    (folder / f"{NAME}.py").write_text(text.replace(old, new))


@pytest.mark.nightly
def test_a_plugin_passes_in_both_versions(place: Path, folder: Path) -> None:
    step = contract.registry(gemv_specification(), folder, place=place)
    assert step.verdict == "passed", step.reason
    assert place.name.partition("==")[2].partition("+")[0] in step.reason
    # 3 architectures x 4 shapes x 2 tactics, each with 8 questions and more.
    assert step.cases > 2 * 3 * 4 * 2 * 8


WRONG: list[tuple[str, Callable[[Path], object], str]] = [
    (
        "outputs of another shape",
        lambda folder: changed(folder, "        (w[0], w[1], 1),", "        (w[1], w[0], 1),"),
        "shapes of the outputs for 3x7x64, 3x64x1: ((7, 3, 1),) instead of ((3, 7, 1),)",
    ),
    (
        "an output of another dtype",
        lambda folder: changed(folder, "trt.DataType.FLOAT", "trt.DataType.HALF"),
        "dtypes of the outputs: ('HALF',) instead of ('FLOAT',)",
    ),
    (
        "a combination of other dtypes",
        lambda folder: changed(folder, '"FP32,FP32,FP32"', '"FP32,FP16,FP32"'),
        "combinations of formats: ((('FLOAT', 'LINEAR'), ('HALF', 'LINEAR'), ('FLOAT', 'LINEAR')),) instead of",
    ),
    (
        "a grid too short",
        lambda folder: changed(folder, "_cdiv(w[1], 4)", "(w[1] // 4)"),
        "tactic 1 for 3x7x64, 3x64x1: blocks: (1, 3, 1) instead of (2, 3, 1)",
    ),
    (
        "integers in another order",
        lambda folder: changed(folder, "(w[0], w[1])\n    if tactic == 2", "(w[1], w[0])\n    if tactic == 2"),
        "tactic 1 for 3x7x64, 3x64x1: integers: (7, 3) instead of (3, 7)",
    ),
    (
        "the PTX of an architecture that is not there",
        lambda folder: (folder / f"{NAME}.sm_120.2.ptx").unlink(),
        "sm_120: FileNotFoundError",
    ),
    (
        "the PTX of another kernel",
        lambda folder: (folder / f"{NAME}.sm_89.2.ptx").write_bytes((folder / f"{NAME}.sm_89.1.ptx").read_bytes()),
        "its PTX is not that of batchedgemv_64.sm_89.2.ptx",
    ),
    (
        "another name",
        lambda folder: changed(folder, '"trtprof::BatchedGemv_64"', '"trtprof::BatchedGemv_65"'),
        "creators registered",
    ),
    (
        "a module that does not load",
        lambda folder: changed(folder, "import ctypes\n", "from __future__ import annotations\nimport ctypes\n"),
        "ValueError: ",
    ),
    (
        "pointers in another order, where TensorRT calls the plugin",
        lambda folder: changed(folder, "[*pointers, ", "[*reversed(pointers), "),
        "addresses of inputs and outputs: (8192, 4096, 12288)",
    ),
]


@pytest.mark.nightly
def test_a_plugin_that_is_wrong_fails(folder: Path, subtests: pytest.Subtests) -> None:
    for fault, change, said in WRONG:
        with subtests.test(fault):
            for name, data in quick.files(gemv_specification()).items():
                (folder / name).write_bytes(data)
            change(folder)
            step = contract.registry(gemv_specification(), folder, place=other_version(LEAN["11.4.0.106"]))
            assert step.verdict == "failed"
            assert said in step.reason


@pytest.mark.nightly
def test_shapes_that_the_kernel_is_not_for_are_an_error_in_words(folder: Path) -> None:
    place = other_version(LEAN["11.4.0.106"])
    step = contract.registry(gemv_specification(), folder, [((3, 7, 65), (3, 65, 1))], place)
    assert "dimension 2 of w is 65, the kernels are for 64" in step.reason
    step = contract.registry(gemv_specification(), folder, [((3, 7, 64), (4, 64, 1))], place)
    assert "dimension 0 of x is 4, the kernels are for 3" in step.reason


@pytest.mark.nightly
def test_a_device_older_than_all_kernels_is_an_error_in_words(folder: Path) -> None:
    spec, place = gemv_specification(), other_version(LEAN["11.4.0.106"])
    request = contract.request(spec, folder, list(cases(spec.task)))
    older = contract.ask(
        msgspec.structs.replace(request, architectures=("sm_70", "sm_61", "8.6", "new")), contract.find_tensorrt(place)
    )
    said = [one.error for one in older.asked]
    assert said[0].endswith("trtprof::BatchedGemv_64 has no kernel for sm_70: the oldest architecture is sm_75")
    assert "sm_61" in said[1]
    assert said[2] == ""
    assert {one.ptx for one in older.asked[2].launches} == {
        spec.ptx["sm_75", 1].encode(),
        spec.ptx["sm_75", 2].encode(),
    }
    assert "TRTPROF_PLUGIN_ARCH=new is no architecture" in said[3]


@pytest.mark.process
def test_without_tensorrt_the_check_says_what_to_install(folder: Path, tmp_path: Path) -> None:
    step = contract.registry(gemv_specification(), folder, place=tmp_path / "nothing")
    assert step.verdict == "not here"
    assert contract.INSTALL in step.reason
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "tensorrt.py").write_text("raise ImportError('libnvinfer.so.10: cannot open')")
    step = contract.registry(gemv_specification(), folder, place=tmp_path / "broken")
    assert step.verdict == "not here"
    assert "libnvinfer.so.10: cannot open" in step.reason


@pytest.mark.nightly
def test_the_cases_tell_dimensions_from_one_another() -> None:
    found = list(cases(gemv_specification().task))
    assert found[0] == ((3, 7, 64), (3, 64, 1))
    assert ((0, 7, 64), (0, 64, 1)) in found
    assert ((3, 0, 64), (3, 64, 1)) in found
