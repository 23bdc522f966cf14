"""The plugin in C++: compiled for real, asked everything by its own test, and wrong ones found by it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.fakes.other_versions import LEAN, other_version
from tests.fakes.plugin_forms import gemv_specification
from trtprof.base.errors import MissingError
from trtprof.plugin import contract, library, native
from trtprof.plugin.specification import Specification

pytestmark = pytest.mark.nightly

HEADERS = Path(__file__).parent.parent / "fakes" / "tensorrt_headers"
VERSIONS = ("10.0.1", "11.1.0")


def whole() -> Specification:
    return gemv_specification(("sm_89",))


def small() -> Specification:
    """Sooner compiled."""
    return whole()._replace(kernels=whole().kernels[:1], ptx={("sm_89", 1): whole().ptx["sm_89", 1]})


@pytest.fixture(scope="module")
def cuda() -> Path:
    """The folder of CUDA's headers; the tests skip where there is no compiler."""
    try:
        nvcc = library.find_nvcc().path
    except MissingError as error:
        pytest.skip(str(error))
    if shutil.which("g++") is None:
        pytest.skip("no host compiler (g++)")
    told = subprocess.run([nvcc, "--dryrun", "-c", "x.cu"], capture_output=True, text=True, check=False).stderr
    return Path(re.findall(r'INCLUDES="-I([^"]+)"', told)[0].split('" "')[0]).resolve()


class Made(NamedTuple):
    """The project, compiled once: a test changes a file and compiles that."""

    folder: Path
    cuda: Path

    def changed(self, into: Path, file: str, old: str, new: str) -> str:
        """What the project's test says where one piece of a file is another."""
        shutil.copytree(self.folder, into, dirs_exist_ok=True)
        text = (into / file).read_text()
        assert text.count(old) == 1, text.count(old)
        (into / file).write_text(text.replace(old, new))
        if file.endswith(".cu"):
            command = [str(library.find_nvcc().path), "-std=c++17", *native.architecture_options(whole()), "-c", file]
        else:
            command = ["g++", "-std=c++17", "-c", "plugin.cpp", *self.included("10.0.1")]
        subprocess.run(command, cwd=into, check=True, capture_output=True)
        objects = [f"{Path(name).stem}.o" for name in native.sources(whole())]
        subprocess.run(["g++", "-o", "host_test", "host_test.o", *objects, "-ldl"], cwd=into, check=True)
        done = subprocess.run([into / "host_test"], capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stdout
        return done.stdout

    def included(self, version: str) -> list[str]:
        return ["-isystem", str(HEADERS / version), "-isystem", str(self.cuda)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, cuda: Path) -> Made:
    folder = tmp_path_factory.mktemp("native")
    written(whole(), folder)
    found = library.compile_library(whole(), folder, folder, include=HEADERS / "10.0.1")
    assert found.headers.version == (10, 0, 1)
    command = ["g++", "-std=c++17", "-c", "host_test.cpp"]
    result = Made(folder, cuda)
    subprocess.run([*command, *result.included("10.0.1")], cwd=folder, check=True)
    return result


def written(spec: Specification, folder: Path) -> Path:
    for name, data in native.files(spec).items():
        (folder / name).write_bytes(data)
    return folder


def test_the_cuda_text_is_that_of_the_other_form_and_all_is_the_same_each_time() -> None:
    files = native.files(whole())
    assert set(files) == {
        "CMakeLists.txt", "launch.h", "plugin.h", "plugin.cpp", "host_test.cpp",
        "kernel_1.cu", "launch_1.cu", "kernel_2.cu", "launch_2.cu",
    }  # fmt: skip
    for kernel in whole().kernels:
        assert files[f"kernel_{kernel.tactic}.cu"] == kernel.source.encode()
    assert native.files(whole()._replace(ptx=dict(reversed(list(whole().ptx.items()))))) == files


@pytest.mark.parametrize(("version", "runtime"), list(zip(VERSIONS, sorted(LEAN), strict=True)))
def test_one_source_passes_with_old_and_new_headers(tmp_path: Path, cuda: Path, version: str, runtime: str) -> None:
    folder = written(small(), tmp_path)
    step = contract.native(small(), folder, include=HEADERS / version, place=other_version(LEAN[runtime]))
    assert step.verdict == "passed", step.reason
    assert re.fullmatch(
        rf"nvcc [\d.]+ with the headers of TensorRT {version}; loaded by TensorRT {runtime}", step.reason
    )
    assert step.cases > 120


@pytest.mark.parametrize("version", VERSIONS)
def test_the_host_part_compiles_without_a_warning(made: Made, version: str) -> None:
    for name in ("plugin.cpp", "host_test.cpp"):
        done = subprocess.run(
            ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", name, *made.included(version)],
            cwd=made.folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


FAULTS = {
    "an output of another shape": (
        "plugin.cpp", "outputs[0].d[0] = dim(0, 0)", "outputs[0].d[0] = dim(0, 1)", "shape of output 0 for 3x7x64",
    ),
    "an output of another dtype": ("plugin.cpp", "DataType::kFLOAT, // y", "DataType::kHALF,", "dtypes of the outputs"),
    "any format": ("plugin.cpp", "== TensorFormat::kLINEAR", "!= TensorFormat::kCHW2", "another format of operand 0"),
    "any dtype": ("plugin.cpp", "&& inOut[pos].desc.type == TYPES[pos]", "", "another dtype of operand 0"),
    "a grid too short": (
        "launch.h", "{ceil_div(dims(0, 1), INT64_C(4))", "{floor_div(dims(0, 1), INT64_C(4))",
        "blocks of tactic 1 for 3x7",
    ),
    "integers in another order": (
        "launch.h", "{128, 1, 1}, {dims(0, 0), dims(0, 1)}", "{128, 1, 1}, {dims(0, 1), dims(0, 0)}",
        "arguments of tactic 1 for 3x7x64",
    ),
    "another tactic's kernel": ("plugin.cpp", "case 2: error = start_2", "case 2: error = start_1", "gemv_4"),
    "pointers in another order": (
        "launch_1.cu", "inputs[0], inputs[1]", "inputs[1], inputs[0]", "arguments of tactic 1 for 3x7x64",
    ),
    "something started for nothing": ("plugin.cpp", "if (empty) return 0;", "", "kernels started by tactic 1 for 0x7"),
    "a copy that forgets the tactic": ("plugin.cpp", "Plugin(tactic_); }", "Plugin(0); }", "copied, tactic 1"),
    "a field of another name": ("plugin.cpp", 'PluginField("tactic",', 'PluginField("tactics",', "fields of tactic 1"),
    "a field that is not read": ("plugin.cpp", "field.length == 1 && field.data", "false", "serialised and back"),
    "a tactic that is not there": ("plugin.cpp", "tactic == known", "tactic != known", "a tactic that there is not"),
    "any dimensions": ("plugin.cpp", "if (given != wanted)", "if (false)", "another dimension 2 of input 0 is refused"),
    "a tactic that is not offered": ("launch.h", "{89, 2, {1, 2}}", "{89, 1, {1, 2}}", "tactics of sm_89"),
}  # fmt: skip


def test_a_project_that_is_wrong_fails_its_own_test(made: Made, tmp_path: Path, subtests: pytest.Subtests) -> None:
    for fault, (file, old, new, said) in FAULTS.items():
        with subtests.test(fault):
            assert said in made.changed(tmp_path / fault, file, old, new)


def test_cmake_makes_the_library_and_its_test_passes(tmp_path: Path, cuda: Path) -> None:
    cmake, ctest = shutil.which("cmake"), shutil.which("ctest")
    if cmake is None or ctest is None:
        pytest.skip("CMake is not installed")
    folder = written(small(), tmp_path)
    build = str(folder / "build")
    for command in (
        [cmake, "-S", str(folder), "-B", build, f"-DTENSORRT_INCLUDE={HEADERS / '11.1.0'}"],
        [cmake, "--build", build],
        [ctest, "--test-dir", build],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "100% tests passed, 0 tests failed out of 2" in done.stdout
    assert Path(build, native.library(small())).is_file()


def test_headers_and_the_compiler_are_asked_for_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingError, match="TensorRT's headers are not here") as caught:
        library.find_headers(tmp_path)
    assert library.HEADERS_VARIABLE in caught.value.fix
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / library.HEADER).write_text("")
    monkeypatch.setenv(library.HEADERS_VARIABLE, str(tmp_path))
    assert library.find_headers() == library.Headers(tmp_path / "include", ())
    assert library.find_headers(HEADERS / "11.1.0").version == (11, 1, 0)
    monkeypatch.setenv(library.NVCC_VARIABLE, str(tmp_path / "nvcc"))
    step = contract.native(whole(), tmp_path, include=HEADERS / "10.0.1")
    assert step.verdict == "not here"
    assert "nvidia-cuda-nvcc" in step.reason
