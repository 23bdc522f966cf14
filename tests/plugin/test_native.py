"""The plugin in C++: compiled for real, asked everything by its own test, and wrong ones found by it."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.fakes.other_versions import LEAN, other_version
from tests.fakes.plugin_forms import gemv_specification, scalar_specification
from trtprof.base.errors import BuildError, MissingError
from trtprof.plugin import contract, library, native
from trtprof.plugin.registry_worker import Request
from trtprof.plugin.sizes import Size, cdiv, dim, least, most, number
from trtprof.plugin.specification import Specification
from trtprof.runtime import child
from trtprof.runtime.stub_library import stub_library

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


def test_times_in_a_timing_cache_are_of_one_text() -> None:
    first, second = whole().kernels
    other = whole()._replace(kernels=(first, replace(second, source=second.source + "\n")))
    told = [re.findall(r'TIMING_CACHE_ID = "(.*)"', native.files(one)["plugin.h"].decode()) for one in (whole(), other)]
    assert told[0] != told[1]
    assert told[0][0].startswith("trtprof::BatchedGemv_64 ")


@pytest.mark.parametrize(("version", "runtime"), list(zip(VERSIONS, sorted(LEAN), strict=True)))
def test_one_source_passes_with_old_and_new_headers(tmp_path: Path, cuda: Path, version: str, runtime: str) -> None:
    folder = written(small(), tmp_path)
    step = contract.native(small(), folder, include=HEADERS / version, place=other_version(LEAN[runtime]))
    assert step.verdict == "passed", step.reason
    assert re.fullmatch(
        rf"nvcc [\d.]+ with the headers of TensorRT {version}; loaded by TensorRT {runtime}", step.reason
    )
    assert step.cases > 120


def test_a_kernel_without_integers_and_an_operand_without_dimensions(made: Made, tmp_path: Path) -> None:
    spec = scalar_specification()
    step = contract.native(spec, written(spec, tmp_path), include=HEADERS / "10.0.1")
    assert step.verdict == "passed", step.reason


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


@pytest.mark.parametrize("fault", FAULTS)
def test_a_project_that_is_wrong_fails_its_own_test(made: Made, tmp_path: Path, fault: str) -> None:
    file, old, new, said = FAULTS[fault]
    assert said in made.changed(tmp_path, file, old, new)


def test_a_kernel_with_other_parameters_does_not_compile(tmp_path: Path, cuda: Path) -> None:
    folder = written(small(), tmp_path)
    (folder / "kernel_1.cu").write_bytes(
        whole().kernels[0].source.replace("int rows,", "").replace(">= rows", ">= 9").replace("* rows", "* 9").encode()
    )
    step = contract.native(small(), folder, include=HEADERS / "10.0.1")
    assert step.verdict == "failed"
    assert "the kernel has other parameters" in step.reason


def test_a_library_that_tensorrt_cannot_load_fails(made: Made, tmp_path: Path) -> None:
    place = other_version(LEAN["10.16.1.11"])
    file = tmp_path / "nothing.so"
    file.write_bytes(b"no library")
    request = Request(file=str(file), native=True, name="BatchedGemv_64", namespace="trtprof")
    assert contract.ask(request, contract.find_tensorrt(place)).error == "the registry does not load the library"
    loaded = Request(file=str(made.folder / native.library(whole())), native=True, name="Other", namespace="x")
    answer = contract.ask(loaded, contract.find_tensorrt(place))
    assert answer.error == "the registry has no such creator"
    assert answer.creators == (("BatchedGemv_64", "1", "trtprof"),)


REGISTERED = """
import ctypes, os, sys
sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)
import tensorrt_bindings as trt
ctypes.CDLL(sys.argv[1])
print([one.name for one in trt.get_plugin_registry().all_creators if one.plugin_namespace == "trtprof"])
"""


def test_a_library_may_register_itself_when_it_is_opened(made: Made, tmp_path: Path) -> None:
    place = other_version(LEAN["11.4.0.106"])
    shutil.copytree(made.folder, tmp_path, dirs_exist_ok=True)
    command = ["g++", "-std=c++17", "-fPIC", "-DREGISTER_AT_LOAD", "-c", "plugin.cpp", *made.included("11.1.0")]
    subprocess.run(command, cwd=tmp_path, check=True)
    objects = [f"{Path(name).stem}.o" for name in native.sources(whole())]
    nvcc = str(library.find_nvcc().path)
    subprocess.run([nvcc, "-shared", "-o", "opened.so", *objects], cwd=tmp_path, check=True)
    with contract.loadable(contract.find_tensorrt(place)) as environment:
        done = subprocess.run(
            [sys.executable, "-c", REGISTERED, tmp_path / "opened.so"], env={**child.environment(), **environment},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.stdout.strip() == "['BatchedGemv_64']", done.stderr


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


def test_cmake_makes_the_library_that_registers_itself(tmp_path: Path, cuda: Path) -> None:
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("CMake is not installed")
    folder, root = tmp_path / "cpp", tmp_path / "tensorrt"
    folder.mkdir()
    written(small(), folder)
    (root / "lib").mkdir(parents=True)
    (root / "lib" / "libnvinfer.so").write_bytes(stub_library(["getPluginRegistry"]))
    build = str(tmp_path / "build")
    for command in (
        [cmake, "-S", str(folder), "-B", build, f"-DTENSORRT_INCLUDE={HEADERS / '11.1.0'}", "-DREGISTER_AT_LOAD=ON"],
        [cmake, "--build", build],
    ):
        done = subprocess.run(
            command, env={**os.environ, "TENSORRT_ROOT": str(root)}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
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


def test_what_the_compiler_says_is_the_reason(tmp_path: Path, cuda: Path) -> None:
    folder = written(whole(), tmp_path)
    (folder / "launch_1.cu").write_text("#error it is late\n")
    with pytest.raises(BuildError) as caught:
        library.compile_library(whole(), folder, tmp_path, include=HEADERS / "10.0.1")
    assert "it is late" in caught.value.why


def a_size(random_source: random.Random, depth: int) -> Size:
    if depth == 0 or random_source.random() < 0.2:
        return random_source.choice([dim(0, 0), dim(0, 1), dim(1, 1), number(random_source.randint(0, 9))])
    left, right = a_size(random_source, depth - 1), a_size(random_source, depth - 1)
    makers: list[Callable[[], Size]] = [
        lambda: left + right, lambda: left - right, lambda: left * right, lambda: left // most(right, 1),
        lambda: cdiv(left, most(right, 1)), lambda: least(left, right), lambda: most(left, right),
    ]  # fmt: skip
    return random_source.choice(makers)()


def test_an_expression_is_worth_the_same_in_cpp(tmp_path: Path, made: Made) -> None:
    shapes = ((3, 5, 64), (3, 64, 1))
    source = random.Random(21)
    sizes = [a_size(source, 4) for _ in range(60)]
    lines = [
        '#include "launch.h"', "#include <cstdio>",
        "static int64_t table[2][3] = {{3, 5, 64}, {3, 64, 1}};",
        "static int64_t dims(int i, int j) { return table[i][j]; }",
        "using namespace trtprof_batchedgemv_64;",
        "int main() {",
        *(f'std::printf("%lld\\n", (long long)({native.function_text(one)}));' for one in sizes), "}",
    ]  # fmt: skip
    (tmp_path / "sizes.cpp").write_text("\n".join(lines))
    command = ["g++", "-std=c++17", "-I", str(made.folder), *made.included("10.0.1"), "-o", "sizes", "sizes.cpp"]
    subprocess.run(command, cwd=tmp_path, check=True)
    told = subprocess.run([tmp_path / "sizes"], capture_output=True, text=True, check=True).stdout
    assert [int(line) for line in told.split()] == [one.value(shapes) for one in sizes]


def test_every_operation_is_an_expression_of_tensorrt() -> None:
    size = most(least(cdiv(dim(0, 0) + 1, 2) - dim(0, 1), dim(1, 1) * 3) // 4, 5)
    assert native.expression_text(size).replace("DimensionOperation::k", "") == (
        "of(MAX, of(FLOOR_DIV, of(MIN, of(SUB, of(CEIL_DIV, of(SUM, dim(0, 0), number(1)), number(2)), dim(0, 1)), "
        "of(PROD, dim(1, 1), number(3))), number(4)), number(5))"
    )
