"""The README of a plugin's folder: what it tells, and what no generated file tells."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.fakes.plugin_factory import typical
from tests.fakes.plugin_forms import gemv_specification
from trtprof.base.records import CheckStep, PluginCheck
from trtprof.plugin import native, quick, readme
from trtprof.plugin.specification import Specification

NOTHING = msgspec.structs.replace(typical(), check=None, inserted=None)


@pytest.fixture(name="spec")
def _spec() -> Specification:
    return gemv_specification()


def test_it_names_each_file_and_tactic_and_the_architectures(spec: Specification) -> None:
    text = readme.text(spec, NOTHING)
    assert "# BatchedGemv_64" in text
    assert "| `w` | fp32 | batch x rows x 64 |" in text
    assert "| `y` (output) | fp32 | batch x rows x 1 |" in text
    assert "| 1 | 4 rows a block | sm_75, sm_89, sm_120 |" in text
    fewer = spec._replace(ptx={key: one for key, one in spec.ptx.items() if key != ("sm_89", 2)})
    assert "| 2 | 8 rows a block | sm_75, sm_120 |" in readme.text(fewer, NOTHING)
    files = {f"python/{one}" for one in quick.files(spec)} | {f"cpp/{one}" for one in native.files(spec)}
    named = set(re.findall(r"`((?:python|cpp)/[^`]+)`", text))
    assert named
    assert named <= files
    for command in (
        "import batchedgemv_64",
        "--dynamicPlugins=build/libbatchedgemv_64_plugin.so",
        "python -m pytest python",
    ):
        assert command in text


def test_it_says_what_was_checked_and_that_no_gpu_ran_it(spec: Specification) -> None:
    said = readme.text(spec, NOTHING)
    assert "Nothing yet" in said
    assert "**No GPU has run any of this.**" in said
    steps = (
        CheckStep(name="numerics", verdict="passed", cases=20), CheckStep(name="registry", verdict="failed", cases=3),
        CheckStep(name="native", verdict="not here", reason="in a place of this machine"),
    )  # fmt: skip
    said = readme.text(spec, msgspec.structs.replace(NOTHING, check=PluginCheck(steps=steps)))
    assert "beside float64 | passed | 20 |" in said
    assert "asks | **failed** | 3 |" in said
    assert "registry | not run: it lacks something |  |" in said
    assert "Nothing yet" not in said
    assert "**No GPU has run any of this.**" in said


def test_generated_files_name_no_place_of_this_machine(spec: Specification) -> None:
    home = str(Path(__file__).resolve().parent.parent.parent)
    files = {**quick.files(spec), **native.files(spec), "README.md": readme.text(spec, typical()).encode()}
    for name, content in files.items():
        text = content.decode()
        assert home not in text, name
        assert not re.search(r"/(home|root|work|tmp)/", text), name
        assert not re.search(r"20\d\d-\d\d-\d\d", text), name


@pytest.mark.parametrize(
    ("version", "cuda"),
    [((8, 0), "12.0"), ((8, 5), "12.5"), ((8, 6), "12.7"), ((8, 8), "12.9"), ((9, 0), "13.0"), ((7, 8), "")],
)
def test_a_version_of_ptx_is_of_a_cuda(version: tuple[int, int], cuda: str) -> None:
    assert readme.cuda_of(version) == cuda


def test_the_newest_ptx_decides_which_driver_it_takes(spec: Specification) -> None:
    old = {key: re.sub(r"\.version \S+", ".version 8.7", one) for key, one in spec.ptx.items()}
    assert readme.ptx_version(spec._replace(ptx=old)) == (8, 7)
    newer = {**old, ("sm_120", 1): old["sm_120", 1].replace(".version 8.7", ".version 9.0")}
    assert readme.ptx_version(spec._replace(ptx=newer)) == (9, 0)
    assert "CUDA 13.0 or later" in readme.text(spec._replace(ptx=newer), NOTHING)


def test_its_python_is_python(spec: Specification) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", readme.text(spec, NOTHING), re.DOTALL)
    compile(code, "README.md", "exec")


def test_its_nvcc_makes_the_library_that_its_trtexec_loads(spec: Specification, tmp_path: Path) -> None:
    text = readme.text(spec, NOTHING)
    (compiles,) = (one for one in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) if "nvcc -std" in one)
    loaded = set(re.findall(r"Plugins[= ](\S+\.so)", text))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvcc").write_text(
        '#!/bin/sh\ncat plugin.cpp launch_1.cu || exit 1\nfor last; do :; done\n: > "$last"\n'
    )
    (tmp_path / "bin" / "nvcc").chmod(0o755)
    (tmp_path / "cpp").mkdir()
    for name, content in native.files(spec).items():
        (tmp_path / "cpp" / name).write_bytes(content)
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    # What follows is typed in the same shell, and names files of the folder.
    subprocess.run(
        ["sh", "-ec", compiles + "".join(f"\ntest -f {one}" for one in loaded)], cwd=tmp_path, env=environment,
        check=True, capture_output=True,
    )  # fmt: skip
    assert loaded == {f"build/{native.library(spec)}"}


def test_a_timing_cache_of_other_kernels_is_warned_of(spec: Specification) -> None:
    # The bindings name all of them "" in it, and the C++ form a digest of its own.
    (section,) = re.findall(r"## In Python\n(.*?)\n## ", readme.text(spec, NOTHING), re.DOTALL)
    assert "timing cache" in section


def test_every_engine_that_it_builds_is_strongly_typed(spec: Specification) -> None:
    # TensorRT 10 takes fp16, bf16 and fp8 of a model in no other way than by this or by a flag of each.
    text = readme.text(spec, NOTHING).replace("\\\n", "")
    builds = [line for line in text.splitlines() if line.startswith("trtexec") and "--onnx=" in line]
    assert len(builds) == 3
    assert all(" --stronglyTyped " in line for line in builds)


def test_the_tests_of_a_folder_skip_in_words_where_nothing_is_there(spec: Specification, tmp_path: Path) -> None:
    for name, content in quick.files(spec).items():
        (tmp_path / name).write_bytes(content)
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", str(tmp_path)]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 skipped" in done.stdout
    assert "plugin.json is not in the folder" in done.stdout or "trtprof is not installed" in done.stdout
