"""Faults planted in right kernels: each is seen by a check, and the right kernels pass."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.fakes import kernel_tasks as tasks
from trtprof.base.errors import UsageError
from trtprof.base.records import KernelBuild, KernelVariant, PluginCheck
from trtprof.plugin import interpret
from trtprof.plugin.check import check_numbers, find_wrong_builds
from trtprof.plugin.compile import compile_kernel, count_loads
from trtprof.plugin.form import Form, Number, read_kernel
from trtprof.plugin.kernels import form_of
from trtprof.plugin.task import Task

pytest.importorskip("triton")

COPY = """
@triton.jit
def kernel(x, N, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < N, other=0.0)
    tl.store(y + i, v, mask=i < N)
"""
GEMV = """
@triton.jit
def kernel(x, w, R, y, K: tl.constexpr, D1: tl.constexpr, D2: tl.constexpr, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    r = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, BLOCK_K)
    v = r // (D1 * D2) * D2 + r % D2
    total = tl.zeros([BLOCK, BLOCK_K], tl.float32)
    for start in range(0, K, BLOCK_K):
        inside = (r < R)[:, None] & (start + k < K)[None, :]
        a = tl.load(x + r[:, None] * K + start + k[None, :], mask=inside, other=0.0).to(tl.float32)
        b = tl.load(w + v[:, None] * K + start + k[None, :], mask=inside, other=0.0).to(tl.float32)
        total += a * b
    tl.store(y + r, tl.sum(total, 1), mask=r < R)
"""
ROWS = """
@triton.jit
def kernel(x, mask, R, y, C: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + r * C + c, mask=c < C, other=-float("inf")).to(tl.float32) * 0.125
    v += tl.load(mask + c, mask=c < C, other=0.0).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + r * C + c, e / tl.sum(e, 0), mask=c < C)
"""
NORM = """
@triton.jit
def kernel(x, w, b, R, y, C: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + r * C + c, mask=c < C, other=0.0).to(tl.float32)
    d = tl.where(c < C, v - tl.sum(v, 0) / C, 0.0)
    n = d * tl.rsqrt(tl.sum(d * d, 0) / C + 1e-5)
    gain = tl.load(w + c, mask=c < C, other=0.0).to(tl.float32)
    shift = tl.load(b + c, mask=c < C, other=0.0).to(tl.float32)
    tl.store(y + r * C + c, n * gain + shift, mask=c < C)
"""
TURN = """
@triton.jit
def kernel(x, R, y, C: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (r < R)[:, None] & (c < C)[None, :]
    v = tl.load(x + r[:, None] * C + c[None, :], mask=inside)
    tl.store(y + c[:, None] * R + r[None, :], tl.trans(v), mask=(c < C)[:, None] & (r < R)[None, :])
"""


class Case(NamedTuple):
    """A right kernel."""

    task: Task
    body: str
    sizes: dict[str, Number]
    blocks: dict[str, int]
    integers: dict[str, str]
    grid: tuple[str, str, str]


def softmax() -> Task:
    """With a scale and a mask that all rows have."""
    nodes = [tasks.node("Mul", "x s", "z"), tasks.node("Add", "z mask", "t"), tasks.node("Softmax", "t", axis=-1)]
    constants = {"s": np.array(0.125, np.float32)}
    inputs: tasks.Specs = {"x": ("fp32", ("n", 48)), "mask": ("fp32", (48,))}
    return tasks.task(nodes, inputs, {"y": ("fp32", ("n", 48))}, constants=constants)


ROW_GRID = ("R", "1", "1")
CASES = {
    "copy": Case(
        tasks.one_node("Identity", {"x": ("n", 5), "y": ("n", 5)}), COPY, {}, {"BLOCK": 32}, {"N": "x[0] * 5"},
        ("cdiv(N, BLOCK)", "1", "1"),
    ),
    "gemv": Case(
        tasks.batched_gemv("n", 3, 2, 33), GEMV, {"K": 33, "D1": 3, "D2": 2}, {"BLOCK": 8, "BLOCK_K": 64},
        {"R": "x[0] * 6"}, ("cdiv(R, BLOCK)", "1", "1"),
    ),
    "softmax": Case(softmax(), ROWS, {"C": 48}, {"BLOCK": 64}, {"R": "x[0]"}, ROW_GRID),
    "norm": Case(tasks.layer_norm("n", 48, "fp32"), NORM, {"C": 48}, {"BLOCK": 64}, {"R": "x[0]"}, ROW_GRID),
    "turn": Case(
        tasks.transpose(("n", 24), (1, 0), "fp32"), TURN, {"C": 24}, {"BLOCK": 8}, {"R": "x[0]"},
        ("cdiv(R, BLOCK)", "cdiv(C, BLOCK)", "1"),
    ),
}  # fmt: skip
LAST, INSIDE = "(start + k < K)", "mask=i < N, other=0.0"
FAULTS = (
    # Kernel, what is replaced by what, and what the check says
    ("copy", f"x + i, {INSIDE}", "x + i", "out of bounds: x, bytes"),
    ("copy", "v, mask=i < N", "v", "out of bounds: y, bytes"),
    ("copy", "* BLOCK +", "* (BLOCK - 1) +", "race: two programs write the same element of y"),
    ("copy", "y + i, v", "y + i // 2, v", "race: one store writes an element of y twice"),
    ("copy", "v, mask=i < N", "v, mask=i < N - 1", "1 elements of y are never written"),
    ("copy", "(0) * BLOCK +", "(0) * 1073741823 +", "out of bounds"),
    ("copy", "v, mask", "v + 0 * tl.load(y + i, mask=i < N), mask", "reads y, an output"),
    ("copy", "y + i, v", "x + i, v", "writes x, an input"),
    ("copy", "x + i, mask", "(x.to(tl.pointer_type(tl.int8)) + 4 * i + 2).to(x.dtype), mask", "misaligned"),
    ("copy", "    tl.store", "    tl.atomic_add(y + i, v, mask=i < N)\n    tl.store", "it uses atomics"),
    ("softmax", "other=0.0", "other=None", "elements of y are wrong: nan instead of"),
    ("gemv", LAST, "(start + k < K - 1)", "elements of y are wrong"),  # The last term is dropped
    ("gemv", "v[:, None] * K", "v[:, None] * (K - 1)", "elements of y are wrong"),  # A stride
    ("gemv", "* D2 + r % D2", "* D2 + r % D1", ""),  # Another broadcast
    (
        "gemv",
        "total += a * b",
        "total = (total + a * b).to(tl.float16).to(tl.float32)",
        "elements of y are wrong",
    ),  # Accumulates in fp16
    ("gemv", "(r < R)[:, None]", "(r <= R)[:, None]", "out of bounds"),  # A mask off by one
    ("gemv", "cdiv(R, BLOCK)", "R // BLOCK", "elements of y are never written"),  # One program too few
    ("softmax", "* 0.125", "* 1.0", "elements of y are wrong"),  # No scale
    ("softmax", "v - tl.max(v, 0)", "v", "elements of y are wrong"),  # Overflows
    ("softmax", "x + r * C + c", "x + c * R + r", "elements of y are wrong"),  # Along the other axis
    ("norm", "/ C + 1e-5", "/ C", "elements of y are wrong"),  # No epsilon
    ("norm", "tl.where(c < C, v - tl.sum(v, 0) / C, 0.0)", "v - tl.sum(v, 0) / C", "elements of y are wrong"),
    ("norm", "n * gain + shift", "n * shift + gain", "elements of y are wrong"),  # Operands swapped
    ("turn", "c[:, None] * R + r[None, :]", "c[:, None] * C + r[None, :]", ""),  # The stride of the input
)


def write(folder: Path, name: str, old: str = "", new: str = "") -> tuple[Path, Task]:
    """kernel.py of a kernel, with a fault planted."""
    case = CASES[name]
    tactics = {1: {**case.blocks, "num_warps": 1}}
    text = Form("kernel", "A kernel.", case.body, case.sizes, tactics, case.integers, case.grid).text(case.task)
    assert old in text
    file = folder / "kernel.py"
    file.write_text(text.replace(old, new, 1) if old else text)
    return file, case.task


def numbers(folder: Path, name: str, old: str = "", new: str = "") -> PluginCheck:
    """What the interpreter sees of it."""
    file, task = write(folder, name, old, new)
    return check_numbers(file, "kernel", task, {"n": 40})


def test_planted_faults_are_seen_and_right_kernels_pass(tmp_path: Path) -> None:
    wrong = []
    for name in CASES:
        result = numbers(tmp_path, name)
        wrong += [f"{name}: {step}" for step in result.steps if step.verdict != "passed"]
        wrong += [f"{name}: {case}" for case in result.numerics if not 0 <= (case.worst or 0) < 1]
    for name, old, new, said in FAULTS:
        step = numbers(tmp_path, name, old, new).steps[0]
        if step.verdict != "failed" or said not in step.reason:
            wrong.append(f"{name}, {old!r} -> {new!r}: {step.verdict}: {step.reason}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "int8", "uint8", "int64", "bool", "int32"])
def test_each_dtype_is_copied_by_its_bits(dtype: str, tmp_path: Path) -> None:
    file, task = write(tmp_path, "copy")
    inputs, outputs = ((replace(one, dtype=dtype),) for (one,) in (task.inputs, task.outputs))
    steps = check_numbers(file, "kernel", replace(task, inputs=inputs, outputs=outputs), {"n": 9}).steps
    assert [(step.name, step.verdict) for step in steps] == [("numerics", "passed"), ("traffic", "passed")]
    write(tmp_path, "copy", "y + i, v,", "y + i, v + (i == 3).to(v.dtype),")
    step = check_numbers(file, "kernel", replace(task, inputs=inputs, outputs=outputs), {"n": 9}).steps[0]
    assert step.verdict == "failed", step


def test_products_in_half_precision_round_as_a_gpu_does(tmp_path: Path) -> None:
    """The interpreter cuts bf16 off, which the tolerance of a half unit would not pass."""
    file, task = write(tmp_path, "gemv")
    for dtype in ("bf16", "fp16"):
        inputs = tuple(replace(one, dtype=dtype) for one in task.inputs)
        typed = replace(task, inputs=inputs, outputs=(replace(task.outputs[0], dtype=dtype),))
        result = check_numbers(file, "kernel", typed, {"n": 20})
        assert result.steps[0].verdict == "passed", result.steps[0]


def test_sectors_are_those_of_the_operands(tmp_path: Path) -> None:
    """The same as a PTX executor counted: 76,800, 384 and 1,200 for 6 of the 600 slices of the story."""
    case = CASES["gemv"]._replace(
        task=tasks.batched_gemv("n"), sizes={"K": 64, "D1": 200, "D2": 8}, integers={"R": "x[0] * 1600"}
    )
    file = tmp_path / "kernel.py"
    blocks = {"BLOCK": 64, "BLOCK_K": 64, "num_warps": 4}
    file.write_text(Form("kernel", "A.", case.body, case.sizes, {1: blocks}, case.integers, case.grid).text(case.task))
    shapes = case.task.shapes({"n": 6})
    arrays = [np.ones(shape, np.float32) for shape in shapes]
    launched = interpret.launch(read_kernel(file, "kernel"), case.task, shapes, arrays, {**blocks, "BLOCK": 2048})
    assert launched.sectors == {"x": 76_800, "w": 384, "y": 1200}
    assert launched.programs == 5
    assert np.all(launched.outputs[0] == 64)


def test_what_is_not_read_is_told(tmp_path: Path) -> None:
    file, _ = write(tmp_path, "copy", "v = tl.load(x + i, mask=i < N, other=0.0)", "v = tl.zeros([BLOCK], tl.float32)")
    nothing = tasks.task([tasks.node("Sub", "x x")], {"x": ("fp32", ("n", 5))}, {"y": ("fp32", ("n", 5))})
    numerics, traffic = check_numbers(file, "kernel", nothing, {"n": 40}).steps
    assert numerics.verdict == "passed"
    assert (traffic.verdict, traffic.reason) == ("failed", "not all of x is read")


def test_large_sizes_are_cut_and_time_ends(tmp_path: Path) -> None:
    file, task = write(tmp_path, "softmax")
    result = check_numbers(file, "kernel", task, {"n": 5000}, seconds=0.3)
    assert "n was cut from 5000 to 313; " in result.steps[0].reason
    assert result.steps[0].reason.endswith("the other cases were left out: the time for them was over")


def test_a_file_that_does_not_run_is_told(tmp_path: Path) -> None:
    for old, new, said in (
        ("def launch(", "def launch(,", "SyntaxError"),
        ("tl.arange(0, BLOCK)", "tl.arange(0, unknown)", "unknown"),
        ("x, N, y, BLOCK: tl", "x, N, y, M, BLOCK: tl", "its parameters are x, N, y, M, BLOCK"),
    ):
        step = numbers(tmp_path, "copy", old, new).steps[0]
        assert (step.verdict, said in step.reason) == ("failed", True), step


def test_spills_and_single_loads_are_wrong() -> None:
    task = CASES["gemv"].task
    wide = replace(task, inputs=(replace(task.inputs[0], dims=(9, 64)), task.inputs[1]))
    for spill, loads, of, said in (
        (0, "4 of 8", wide, []), (0, "0 of 8", task, []),  # 33 floats are no multiple of 16 bytes
        (8, "4 of 8", wide, ["tactic 1 spills 8 bytes a thread on sm_89"]),
        (0, "0 of 8", wide, ["no load is a vector, though rows of x have 256 bytes"]),
    ):  # fmt: skip
        build = KernelBuild(
            architecture="sm_89", registers=9, spill_bytes=spill, shared_bytes=0, blocks_per_sm=1, occupancy=1.0,
            loads=f"{loads} loads are vectors",
        )  # fmt: skip
        variant = KernelVariant(tactic=1, entry="kernel", label="", builds=(build,))
        assert list(find_wrong_builds(of, [variant])) == said
    ptx = (
        "@%p1 ld.global.L1::evict_first.v4.b32 { %r1 }, [ %rd1 + 0 ];\nld.global.b32 %r2, [%rd2];\nld.shared.v4.b32 x;"
    )
    assert count_loads(ptx) == (1, 2)


@pytest.mark.process
def test_a_kernel_compiles_for_each_architecture(tmp_path: Path) -> None:
    file, task = write(tmp_path, "gemv")
    found = compile_kernel(file, "kernel", task, ("sm_75", "sm_120"))
    assert [(one.architecture, one.spill_bytes, 0 < one.registers < 100) for one in found.variants[0].builds] == [
        ("sm_75", 0, True), ("sm_120", 0, True),
    ]  # fmt: skip
    assert ".target sm_75" in found.builds["sm_75", 1].ptx
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kernel.py"]
    write(tmp_path, "gemv", "tl.zeros([BLOCK, BLOCK_K]", "tl.zeros([BLOCK, 33]")
    with pytest.raises(UsageError, match=r"kernel\.py does not compile") as caught:
        compile_kernel(file, "kernel", task, ("sm_75",))
    assert "power of 2" in caught.value.why


@pytest.mark.parametrize("name", sorted(tasks.usual("fp16")))
def test_all_forms_are_right(name: str, tmp_path: Path) -> None:
    task = tasks.usual("fp16")[name]
    form, why = form_of(task)
    if form is None:
        pytest.skip(f"no form: {why}")
    (tmp_path / "kernel.py").write_text(form.text(task))
    dims = {dim: 5 for one in task.inputs for dim in one.dims if isinstance(dim, str)}
    result = check_numbers(tmp_path / "kernel.py", form.name, task, dims, seconds=2)
    assert result.steps[0].verdict == "passed", result
    assert "failed" not in [step.verdict for step in result.steps], result
