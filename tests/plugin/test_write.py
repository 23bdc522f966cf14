"""The files of a plugin: what plugin.py says of the task, and what the C++ skeleton passes to the driver."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes.scale_plugin import FORM, task
from trtprof.base.errors import UsageError
from trtprof.plugin.folder import FILE, load
from trtprof.plugin.write import cpp_text, plugin_text, write


def test_a_folder_has_six_files_that_name_what_they_are(tmp_path: Path) -> None:
    names = write(FORM, task(), tmp_path, brief="## Brief\n\nDo not.", model="m.onnx")
    assert set(names) == {"kernel.py", "plugin.py", "README.md", "test_plugin.py", FILE}
    assert {path.name for path in tmp_path.iterdir()} == set(names)
    readme = (tmp_path / "README.md").read_text()
    for words in (FORM.doc, "Mul_s, Add_y in m.onnx", "no GPU has run it", "## Brief\n\nDo not.", ">= 10.16"):
        assert words in readme
    for code in [*re.findall(r"```python\n(.*?)```", readme, re.DOTALL), (tmp_path / "test_plugin.py").read_text()]:
        ast.parse(code)
    assert load(tmp_path).task == task()


def test_plugin_py_says_of_a_task_what_tensorrt_asks(subtests: pytest.Subtests) -> None:
    cases = {
        ("fp32", ""): (",".join(["FP32|FP16"] * 4), "x.dtype", '{trt.float16: "*fp16", trt.float32: "*fp32"}'),
        ("fp16", ""): ("FP16,FP16,FP16,FP16", "trt.float16", '{trt.float16: "*fp16"}'),
        ("bf16", "int8"): ("BF16,INT8,BF16,BF16", "trt.bfloat16", '{trt.bfloat16: "*bf16", trt.int8: "*i8"}'),
    }
    for (dtype, weights), (offered, kind, types) in cases.items():
        with subtests.test(dtype):
            text = plugin_text("scale", task(dtype, weights))
            ast.parse(text)
            assert f'AutoTuneCombination("{offered}", "LINEAR"' in text
            assert text.count(f"trtp.from_shape_expr((x.shape_expr[0], x.shape_expr[1], 4), {kind}),") == 2
            assert f"TYPES = {types}" in text
            assert "INPUTS = ((None, None, 4), (None, 1, 1))" in text
            described = "x: trtp.TensorDesc, w: trtp.TensorDesc) -> Tuple[trtp.TensorDesc, trtp.TensorDesc]:"
            assert f"def describe({described}" in text
            assert all(len(line) <= 120 for line in text.splitlines())
    with pytest.raises(UsageError, match="no plugin is written") as refused:
        plugin_text("scale", task("fp32", "int4"))
    assert "w is int4" in refused.value.why


_DRIVER = """
#pragma once
#include <cuda_runtime_api.h>
#include <cstdio>
typedef int CUresult;
typedef struct Module* CUmodule;
typedef char const* CUfunction;
enum { CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES };
inline CUresult cuModuleUnload(CUmodule) { return 0; }
inline CUresult cuModuleLoadData(CUmodule* made, void const* ptx) {
    std::printf("%s: ", static_cast<char const*>(ptx));
    *made = reinterpret_cast<CUmodule>(1);
    return 0;
}
inline CUresult cuModuleGetFunction(CUfunction* made, CUmodule, char const* name) { return *made = name, 0; }
inline CUresult cuFuncSetAttribute(CUfunction, int, int) { return 0; }
inline CUresult cuLaunchKernel(CUfunction name, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned, unsigned,
    unsigned shared, cudaStream_t, void** is, void**) {
    auto const p = [&](int at) { return *static_cast<char**>(is[at]) - static_cast<char*>(nullptr); };
    auto const i = [&](int at) { return *static_cast<int*>(is[at]); };
    std::printf("%s %u %u %u %u %u: ", name, x, y, z, bx, shared);
    std::printf("%td %td %d %d %td %td %td %td\\n", p(0), p(1), i(2), i(3), p(4), p(5), p(6), p(7));
    return 0;
}
"""
_MAIN = """
#include "plugin.cpp"
int main() {
    PluginTensorDesc in[2] = {};
    void const* inputs[] = {reinterpret_cast<void*>(16), reinterpret_cast<void*>(32)};
    void* outputs[] = {reinterpret_cast<void*>(48), reinterpret_cast<void*>(64)};
    Plugin plugin;
    for (int64_t channels = 4; channels < 6; ++channels) {
        in[0].dims = {3, {1000, 7, channels}};
        in[1].dims = {3, {1000, 1, 1}};
        for (int32_t tactic : TACTICS) {
            plugin.setTactic(tactic);
            std::printf("%d\\n", plugin.enqueue(in, nullptr, inputs, outputs, nullptr, nullptr));
        }
    }
    int32_t count = 0;
    auto* const creator = static_cast<IPluginCreatorV3One*>(getCreators(count)[0]);
    std::printf("%s %d %d\\n", creator->getPluginName(), count, plugin.setTactic(9));
}
"""


@pytest.mark.process
@pytest.mark.parametrize("version", ["10.0.1", "11.1.0"])
def test_the_skeleton_in_cpp_starts_what_kernel_py_says(version: str, tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not here")
    builds: Any = [SimpleNamespace(tactic=one, ptx=f"PTX {one}", shared_bytes=64 * one) for one in FORM.tactics]
    headers = "typedef struct Stream* cudaStream_t;\ntypedef struct Event* cudaEvent_t;\n"
    text = cpp_text(FORM, task(), builds)
    files = {"plugin.cpp": text, "cuda.h": _DRIVER, "cuda_runtime_api.h": headers, "main.cpp": _MAIN}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    include = Path(__file__).parents[1] / "fakes" / "tensorrt_headers" / version
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-isystem", str(include), "-I."]
    subprocess.run([*command, "main.cpp", "-o", "main"], cwd=tmp_path, check=True)
    done = subprocess.run(["./main"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "PTX 1: scale 110 1 1 128 64: 16 32 1000 7 48 64 0 0", "0",
        "PTX 2: scale 55 1 1 256 128: 16 32 1000 7 48 64 0 0", "0",
        "-1", "-1", "Scale 1 -1",
    ]  # fmt: skip
    assert done.stderr.count("the kernel is for another size (5)") == 2
