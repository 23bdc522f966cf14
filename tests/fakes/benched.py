"""Folders of `trtprof plugin` to be measured: a small product by kernels that are right, or wrong, each in its way."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import onnx
from onnx import helper

from tests.fakes.compiler import needs_nvrtc
from trtprof.base.records import Core, Work
from trtprof.plugin import sizes
from trtprof.plugin.folder import PluginFolder, kernel_files, save
from trtprof.plugin.kernel import Extra, Kernel
from trtprof.plugin.task import DOMAIN, Operand, Task
from trtprof.runtime import nvrtc

NAME, DEPTH, ROWS = "SmallGemv", 8, 300
BLOCK = 64
GUARD, RESULT = "if (row >= n) return;", "y[row] = sum;"
SOURCE = """
extern "C" __global__ void ENTRY(const float *a, const float *x, int n, float *y) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  GUARD
  float sum = 0;
  for (int k = 0; k < 8; ++k) sum += a[row * 8 + k] * x[k];
  RESULT
}
"""


class Made(NamedTuple):
    """A variant: what guards its rows, what becomes of a sum, and the rows of a block by which its grid is made."""

    guard: str = GUARD
    result: str = RESULT
    block_rows: int = BLOCK
    architecture: str = "compute_80"
    least: tuple[int, int] = (7, 5)


RIGHT = Made()
UNWRITTEN = Made(block_rows=2 * BLOCK)
NAN = Made(result="y[row] = row == 3 ? __int_as_float(0x7fc00000) : sum;")
OFF = Made(result="y[row] = row == 3 ? sum + 0.01f : sum;")
BEHIND = Made(guard="if (row == n) y[row] = 0; if (row >= n) return;")
CRASHES = Made(result="y[row + 100000000] = sum;")


def task() -> Task:
    """``y = a x`` over any number of rows."""
    node = helper.make_node("MatMul", ["a", "x"], ["y"])
    body = helper.make_function(DOMAIN, NAME, ["a", "x"], ["y"], [node], [helper.make_opsetid("", 17)])
    operands = [
        Operand(*one) for one in (("a", "fp32", ("n", DEPTH)), ("x", "fp32", (DEPTH, 1)), ("y", "fp32", ("n", 1)))
    ]
    return Task(NAME, ("product",), tuple(operands[:2]), tuple(operands[2:]), body, "MatMul")


def entry(tactic: int) -> str:
    return f"small_gemv_{tactic}"


def kernel(tactic: int, made: Made) -> Kernel:
    rows = sizes.dim(0, 0)
    source = SOURCE.replace("ENTRY", entry(tactic)).replace("GUARD", made.guard).replace("RESULT", made.result)
    return Kernel(
        "gemv", tactic, f"a thread a row, {tactic}", entry(tactic), source, ("a", "x"), ("y",),
        (sizes.cdiv(rows, made.block_rows), sizes.number(1), sizes.number(1)), (BLOCK, 1, 1), "", 16,
        (Extra("n", rows),), least=made.least,
    )  # fmt: skip


@functools.cache
def compiled(source: str, architecture: str) -> str:
    return nvrtc.compile_source(source.encode(), architecture).ptx


def work(rows: int = ROWS) -> Work:
    return Work(
        tensor_flops=2 * rows * DEPTH, bytes_read=4 * (rows * DEPTH + DEPTH), bytes_written=4 * rows, dtype="fp32",
        core=Core(kind="product", m=rows, n=1, k=DEPTH),
    )  # fmt: skip


def written(folder: Path, variants: Sequence[Made] = (RIGHT,), **more: Any) -> PluginFolder:
    """A folder with these variants, by their tactic from 1, and a model with the plugin in it."""
    needs_nvrtc()
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for tactic, made in enumerate(variants, 1):
        one = kernel(tactic, made)
        names = f"{entry(tactic)}.cu", f"{entry(tactic)}.{made.architecture}.ptx"
        (folder / names[0]).write_text(one.source)
        (folder / names[1]).write_text(compiled(one.source, made.architecture))
        files.append(kernel_files(one, names[0], {made.architecture: names[1]}))
    onnx.save(inserted(), folder / "model.plugin.onnx")
    (folder / "small_gemv.py").write_text("# registers nothing\n")
    given = PluginFolder.of(
        task(), tuple(files), dims={"n": ROWS}, work=work(), inserted="model.plugin.onnx", quick="small_gemv.py",
        model="model.onnx", layer="product", shapes=(f"a:{ROWS}x{DEPTH}",),
    )  # fmt: skip
    given = PluginFolder(**{name: more.get(name, getattr(given, name)) for name in given.__struct_fields__})
    save(folder, given)
    return given


def inserted() -> onnx.ModelProto:
    """The product between two others, as a custom node with its function."""
    a = helper.make_tensor_value_info("a", 1, ["n", DEPTH])
    x = helper.make_tensor_value_info("x", 1, [DEPTH, 1])
    y = helper.make_tensor_value_info("y", 1, ["n", 1])
    attributes = {"plugin_namespace": DOMAIN, "plugin_version": "1"}
    nodes = [
        helper.make_node("Relu", ["a"], ["positive"], name="before"),
        helper.make_node(NAME, ["positive", "x"], ["product"], name="product", domain=DOMAIN, **attributes),
        helper.make_node("Relu", ["product"], ["y"], name="after"),
    ]
    body = task().body
    body.attribute.extend(attributes)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    graph = helper.make_graph(nodes, "g", [a, x], [y])
    model = helper.make_model(graph, opset_imports=opsets, functions=[body], ir_version=10)
    onnx.checker.check_model(model)
    return model
