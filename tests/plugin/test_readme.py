"""The README of a plugin's folder: what it tells, and what no generated file tells."""

from __future__ import annotations

import re
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


def test_its_python_is_python(spec: Specification) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", readme.text(spec, NOTHING), re.DOTALL)
    compile(code, "README.md", "exec")


def test_every_engine_that_it_builds_is_strongly_typed(spec: Specification) -> None:
    # TensorRT 10 takes fp16, bf16 and fp8 of a model in no other way than by this or by a flag of each.
    text = readme.text(spec, NOTHING).replace("\\\n", "")
    builds = [line for line in text.splitlines() if line.startswith("trtexec") and "--onnx=" in line]
    assert len(builds) == 3
    assert all(" --stronglyTyped " in line for line in builds)
