"""Compile a kernel.py for GPUs that need not be here: registers, spills, shared memory, vector loads, occupancy, PTX.

Triton ends its process where the PTX version is too low for a GPU, so that a child compiles.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from itertools import groupby, product
from pathlib import Path
from typing import NamedTuple

import msgspec

from trtprof.base.errors import MissingError, UsageError
from trtprof.base.occupancy import WARP, occupancy
from trtprof.base.records import KernelBuild, KernelVariant
from trtprof.plugin.form import Kernel, read_kernel
from trtprof.plugin.task import Task
from trtprof.runtime import child

PTX_VERSIONS = {
    "sm_75": 74, "sm_80": 74, "sm_86": 74, "sm_89": 78, "sm_90": 80, "sm_100": 86, "sm_120": 87,
}  # fmt: skip
"""Architectures, with the PTX version to write for them: low, so that drivers older than Triton's take it."""
TYPES = {
    "fp64": "fp64", "fp32": "fp32", "fp16": "fp16", "bf16": "bf16", "bool": "i1", "int8": "i8", "uint8": "u8",
    "int16": "i16", "int32": "i32", "int64": "i64", "uint16": "u16", "uint32": "u32", "uint64": "u64",
}  # fmt: skip
"""Triton's names of dtypes."""
_DEADLINE_S = 300.0


class Build(KernelBuild, frozen=True, kw_only=True):
    """What a tactic was compiled to for an architecture."""

    tactic: int
    label: str  # Blocks and warps, in words
    entry: str
    ptx: str
    warps: int

    @property
    def record(self) -> KernelBuild:
        """It without its text."""
        return KernelBuild(**{name: getattr(self, name) for name in KernelBuild.__struct_fields__})


class Compiled(NamedTuple):
    """A kernel.py compiled for some architectures."""

    variants: tuple[KernelVariant, ...]
    builds: Mapping[tuple[str, int], Build]  # By architecture and tactic


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the child compiles: tactics (empty: all) of a kernel.py, for dtypes of its inputs and outputs."""

    file: str
    entry: str
    dtypes: tuple[list[str], list[str]]
    architectures: list[str]
    tactics: list[int]


def require_triton() -> None:
    """Raise MissingError where Triton is not installed."""
    if importlib.util.find_spec("triton") is None:
        fix = "pip install 'trtprof[plugin]'"
        raise MissingError("Triton is not installed", why="it compiles and checks kernels", fix=fix)


def compile_kernel(
    file: Path, entry: str, task: Task, architectures: Iterable[str] = PTX_VERSIONS, tactics: Iterable[int] = ()
) -> Compiled:
    """Compile tactics (all by default) of the function ``entry`` of a kernel.py, for the dtypes of a task.

    Raises UsageError, with what is wrong, where it does not compile or needs scratch memory.
    """
    require_triton()
    dtypes = [one.dtype for one in task.inputs], [one.dtype for one in task.outputs]
    request = Request(
        file=str(file.resolve()), entry=entry, dtypes=dtypes, architectures=list(architectures), tactics=list(tactics)
    )
    builds = child.ask(
        "trtprof.plugin.compile", request, list[Build], what="Triton's compiler", within_s=_DEADLINE_S,
        variables={"TRITON_DISABLE_LINE_INFO": "1"},
    )  # fmt: skip
    variants = tuple(
        KernelVariant(tactic=tactic, entry=entry, label=label, builds=tuple(build.record for build in of_tactic))
        for (tactic, label), of_tactic in groupby(builds, lambda build: (build.tactic, build.label))
    )
    return Compiled(variants, {(build.architecture, build.tactic): build for build in builds})


def count_loads(ptx: str) -> tuple[int, int]:
    """Loads from global memory in PTX: those of more than one register, and all."""
    loads = re.findall(r"\bld\.global[^;]*", ptx)
    return sum(bool(re.search(r"\.v[248]\.|\.b128", one)) for one in loads), len(loads)


def _compile(request: Request) -> list[Build]:
    """The child's side."""
    file = Path(request.file)
    try:
        kernel = read_kernel(file, request.entry)
        every = product(request.tactics or kernel.tactics, request.architectures)
        return [_build(kernel, request, *one) for one in every]
    except Exception as error:  # whatever the file or the compiler raises is the answer
        lines = [line.strip() for line in f"{error}\n{error.__cause__ or ''}".splitlines() if line.strip(" ^")]
        why = f"{type(error).__name__}: {' / '.join(lines[:1] + lines[1:][-2:])}"
        raise UsageError(f"{file.name} does not compile", why=why, fix="edit it") from None


def _build(kernel: Kernel, request: Request, tactic: int, architecture: str) -> Build:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    blocks = dict(kernel.tactics[tactic])
    label = ", ".join(f"{name}={value}" for name, value in blocks.items())
    warps = blocks.pop("num_warps")
    constants = {**kernel.sizes, **blocks}
    names = kernel.function.arg_names
    inputs, outputs = ([f"*{TYPES[one]}" for one in dtypes] for dtypes in request.dtypes)
    integers = ["i32"] * (len(names) - len(inputs) - len(outputs) - len(constants))
    kinds = [*inputs, *integers, *outputs, *["constexpr"] * len(constants)]
    aligned = {(at,): [["tt.divisibility", 16]] for at, kind in enumerate(kinds) if kind.startswith("*")}
    made = triton.compile(
        ASTSource(kernel.function, dict(zip(names, kinds, strict=True)), constants, aligned),
        target=GPUTarget("cuda", int(architecture.removeprefix("sm_")), WARP),
        options={"num_warps": warps, "enable_fp_fusion": True, "ptx_version": PTX_VERSIONS[architecture]},
    )
    if made.metadata.global_scratch_size or made.metadata.profile_scratch_size:
        raise ValueError("it needs scratch memory, which TensorRT does not pass")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        cubin.write(made.asm["cubin"])
        cubin.flush()
        tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
        told = subprocess.run([str(tool), "-res-usage", cubin.name], capture_output=True, text=True, check=True).stdout
    registers, stack = map(int, re.findall(r"REG:(\d+) STACK:(\d+)", told)[0])
    vectors, loads = count_loads(made.asm["ptx"])
    number, shared = architecture.removeprefix("sm_"), made.metadata.shared
    held = occupancy(f"{number[:-1]}.{number[-1]}", warps * WARP, registers, shared)
    return Build(
        tactic=tactic, label=label, entry=made.metadata.name, ptx=made.asm["ptx"], warps=warps,
        architecture=architecture, registers=registers, spill_bytes=stack, shared_bytes=shared,
        blocks_per_sm=held.blocks_per_sm, occupancy=float(held.fraction),
        loads=f"{vectors} of {loads} loads are vectors",
    )  # fmt: skip


if __name__ == "__main__":
    child.end_with_parent()
    sys.exit(child.answer(sys.argv, Request, _compile))
