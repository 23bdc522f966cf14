"""The kernels of the GPU calibration, compiled for every architecture: what NVRTC and ptxas made of them is counted."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import sysconfig
from collections import Counter
from pathlib import Path

import pytest

from trtprof.base.errors import MissingError
from trtprof.hardware.cuda import _kernels
from trtprof.hardware.cuda._kernels import ComputeKernel
from trtprof.runtime import nvrtc

pytest.importorskip("cuda.bindings", reason="the kernels are compiled by NVRTC through cuda-bindings")
try:
    nvrtc.nvrtc_version()
except MissingError as missing:
    pytest.skip(f"the kernels are compiled by NVRTC: {missing.what}", allow_module_level=True)

CAPABILITIES = [(7, 5), (8, 0), (8, 6), (8, 7), (8, 9), (9, 0), (10, 0), (10, 3), (11, 0), (12, 0), (12, 1)]
OTHERS = ["dram_read", "dram_write", "dram_copy", "cache_read", "cache_copy", "empty", "spin"]
ROWS = [(dtype, length) for dtype, lengths in _kernels.ROW_LENGTHS.items() for length in lengths]
FILLS = ["bits", "fp64", "fp32", "fp16", "bf16", "int8"]

PTX_MMA = {
    "tensor_fp16_fp32_m16n8k8": "m16n8k8.row.col.f32.f16.f16.f32",
    "tensor_fp16_fp16_m16n8k8": "m16n8k8.row.col.f16.f16.f16.f16",
    "tensor_int8_int32_m8n8k16": "m8n8k16.row.col.s32.s8.s8.s32",
    "tensor_fp16_fp32_m16n8k16": "m16n8k16.row.col.f32.f16.f16.f32",
    "tensor_fp16_fp16_m16n8k16": "m16n8k16.row.col.f16.f16.f16.f16",
    "tensor_bf16_fp32_m16n8k16": "m16n8k16.row.col.f32.bf16.bf16.f32",
    "tensor_tf32_fp32_m16n8k8": "m16n8k8.row.col.f32.tf32.tf32.f32",
    "tensor_int8_int32_m16n8k32": "m16n8k32.row.col.s32.s8.s8.s32",
    "tensor_fp64_fp64_m8n8k4": "m8n8k4.row.col.f64.f64.f64.f64",
    "tensor_fp64_fp64_m16n8k16": "m16n8k16.row.col.f64.f64.f64.f64",
    "tensor_fp8e4m3fn_fp32_m16n8k32": "m16n8k32.row.col.f32.e4m3.e4m3.f32",
    "tensor_fp8e5m2_fp32_m16n8k32": "m16n8k32.row.col.f32.e5m2.e5m2.f32",
    "tensor_fp8e4m3fn_fp16_m16n8k32": "m16n8k32.row.col.f16.e4m3.e4m3.f16",
    "tensor_fp4e2m1_fp32_m16n8k64":
        "kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3",
}  # fmt: skip


@functools.cache
def compiled(architecture: str) -> nvrtc.Compiled:
    return nvrtc.compile_source(_kernels.source(), architecture)


@functools.cache
def ptx_of(architecture: str) -> dict[str, str]:
    """The body of every kernel by its name."""
    parts = re.split(r"\.visible \.entry (\w+)\(", compiled(architecture).ptx)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def ptx_flop(name: str) -> int:
    """FLOP of a product by the m, n and k that its PTX instruction names."""
    found = re.search(r"m(\d+)n(\d+)k(\d+)", PTX_MMA[name])
    assert found is not None
    m, n, k = map(int, found.groups())
    return 2 * m * n * k


def compilable() -> list[tuple[int, int]]:
    return [
        capability
        for capability in CAPABILITIES
        if nvrtc.target(capability, _kernels.architecture(capability)).startswith("sm_")
    ]


# Of the module, so that the tests of one architecture follow each other and one worker of the suite compiles for it.
@pytest.fixture(
    params=[each if each == (9, 0) else pytest.param(each, marks=pytest.mark.nightly) for each in CAPABILITIES],
    ids=_kernels.architecture, scope="module",
)  # fmt: skip
def capability(request: pytest.FixtureRequest) -> tuple[int, int]:
    found: tuple[int, int] = request.param
    if found not in compilable():
        pytest.skip(f"this NVRTC does not know {_kernels.architecture(found)}")
    return found


def test_every_kernel_that_is_used_is_there_and_none_spills(capability: tuple[int, int]) -> None:
    architecture = _kernels.architecture(capability)
    kernels = ptx_of(architecture)
    fills = [*FILLS, *(["fp8e4m3fn"] if capability >= (8, 9) else [])]
    used = {kernel.name for kernel in _kernels.kernels(capability)} | {*OTHERS, *(f"fill_{kind}" for kind in fills)}
    used |= {f"{kind}_{dtype}_{n}" for kind in ("softmax", "normalisation") for dtype, n in ROWS}
    assert used <= set(kernels)
    log = compiled(architecture).log
    spilled = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log)
    assert len(spilled) == len(kernels)
    assert set(spilled) == {("0", "0", "0")}
    assert not any(re.search(r"\b(ld|st)\.local", body) for body in kernels.values())
    assert compiled(architecture).image.startswith(b"\x7fELF")


def test_the_counted_instructions_are_those_of_the_ptx(capability: tuple[int, int]) -> None:
    kernels = ptx_of(_kernels.architecture(capability))
    for kernel in _kernels.kernels(capability):
        lines = Counter(line.split()[0] for line in kernels[kernel.name].splitlines() if line.strip())
        if kernel.name in PTX_MMA:
            found = {name: count for name, count in lines.items() if name.startswith("mma.")}
            assert found == {f"mma.sync.aligned.{PTX_MMA[kernel.name]}": kernel.repeats}
            # A warp has 32 threads, which share what it does.
            assert kernel.amount * 32 == ptx_flop(kernel.name) * kernel.repeats
        elif "." in kernel.instruction:
            for instruction in kernel.instruction.split(", "):
                # One more makes the constants of the loop.
                assert lines[instruction] - kernel.repeats in (0, kernel.name == "vector_fp64"), kernel.name
        else:
            assert kernel.instruction in ("erff", "asinf", "acosf", "atanf")


def test_kernels_over_rows_read_and_write_each_piece_once(capability: tuple[int, int]) -> None:
    kernels = ptx_of(_kernels.architecture(capability))
    for dtype, length in ROWS:
        row = _kernels.row_kernel("softmax", dtype, length)
        assert row is not None
        threads = _kernels.THREADS // row.rows
        pieces = length * {"fp32": 4, "fp16": 2}[dtype] // _kernels.PIECE // threads
        assert pieces * threads * _kernels.PIECE == length * {"fp32": 4, "fp16": 2}[dtype]
        for kind, inputs in (("softmax", 1), ("normalisation", 3)):
            body = kernels[f"{kind}_{dtype}_{length}"]
            assert len(re.findall(r"\bld\.global\.v4\.u32", body)) == inputs * pieces
            assert len(re.findall(r"\bst\.global\.v4\.u32", body)) == pieces
            # What a warp does alone needs no other one.
            assert ("bar.sync" in body) == (threads > 32)


def test_vector_kernels_count_two_flop_a_lane(capability: tuple[int, int]) -> None:
    vector = [kernel for kernel in _kernels.kernels(capability) if kernel.ceiling.startswith("vector")]
    assert {"vector fp32", "vector fp64", "vector fp16", "vector int32"} <= {kernel.ceiling for kernel in vector}
    for kernel in vector:
        lanes = 2 if kernel.instruction.endswith("x2") else 1
        assert kernel.amount == 2 * lanes * kernel.repeats
    special = [kernel for kernel in _kernels.kernels(capability) if kernel.ceiling.startswith("special")]
    for kernel in special:
        assert kernel.amount == (2 if "16x2" in kernel.instruction else 1) * kernel.repeats


def test_memory_kernels_move_sixteen_bytes_and_the_l2_is_read_past_the_l1(capability: tuple[int, int]) -> None:
    kernels = ptx_of(_kernels.architecture(capability))
    loads = {name: re.findall(r"\bld\.global\S*", kernels[name]) for name in OTHERS}
    stores = {name: re.findall(r"\bst\.global\S*", kernels[name]) for name in OTHERS}
    # Once a tile, and the sums of what was read.
    assert (loads["dram_read"], stores["dram_read"]) == (["ld.global.v4.u32"] * 4, ["st.global.v4.u32"])
    assert (loads["dram_write"], stores["dram_write"]) == ([], ["st.global.v4.u32"] * 4)
    assert (loads["dram_copy"], stores["dram_copy"]) == (["ld.global.v4.u32"] * 4, ["st.global.v4.u32"] * 4)
    # The compiler may unroll the loop once more, with what is left of it behind.
    assert set(loads["cache_read"]) == set(loads["cache_copy"]) == {"ld.global.cg.v4.u32"}
    assert set(stores["cache_copy"]) == {"st.global.v4.u32"}
    assert len(stores["cache_copy"]) == len(loads["cache_copy"])


# --- machine code ---------------------------------------------------------------------------


def disassembler() -> str | None:
    """nvdisasm, from the path or from its Python package."""
    packaged = Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13" / "bin" / "nvdisasm"
    return shutil.which("nvdisasm") or (str(packaged) if packaged.is_file() else None)


@functools.cache
def loops_of(architecture: str, folder: Path) -> dict[str, Counter[str]]:
    """Opcodes of the largest loop of each kernel, by its name."""
    image = folder / f"{architecture}.cubin"
    image.write_bytes(compiled(architecture).image)
    text = subprocess.run([disassembler() or "", "-c", image], capture_output=True, text=True, check=True).stdout
    found: dict[str, Counter[str]] = {}
    for part in re.split(r"^//-+ \.text\.", text, flags=re.MULTILINE)[1:]:
        name = part.split()[0]
        codes: list[str] = []
        labels: dict[str, int] = {}
        largest: list[str] = []
        for line in part.splitlines():
            if label := re.match(r"(\.L_\S+):", line):
                labels[label[1]] = len(codes)
            elif code := re.match(r"\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Za-z0-9_.]*)(.*);", line):
                codes.append(code[1])
                to = re.search(r"`\((\S+?)\)", code[2])
                if code[1].startswith("BRA") and to and len(codes) - labels.get(to[1], len(codes)) > len(largest):
                    largest = codes[labels[to[1]] :]
        found[name] = Counter(largest)
    return found


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cubin")


TENSOR_CODES = ("HMMA", "IMMA", "QMMA", "OMMA", "DMMA")


@pytest.mark.skipif(disassembler() is None, reason="nvdisasm, which is not installed, disassembles machine code")
def test_the_machine_code_issues_what_is_counted(capability: tuple[int, int], folder: Path) -> None:
    loops = loops_of(_kernels.architecture(capability), folder)

    def issued(kernel: ComputeKernel, *codes: str) -> int:
        return sum(count for code, count in loops[kernel.name].items() if code.split(".")[0] in codes)

    for kernel in _kernels.kernels(capability):
        loop = loops[kernel.name]
        assert not {code for code in loop if code.startswith(("LDL", "STL"))}, kernel.name
        if kernel.ceiling.startswith("tensor"):
            assert issued(kernel, *TENSOR_CODES) == kernel.repeats, kernel.name
            # Nothing else but what counts the trips, and fillers that ptxas puts between products of fp64.
            others = loop.total() - kernel.repeats - sum(loop[code] for code in ("UIADD3", "UIADD3.64"))
            assert others <= 4 or kernel.ceiling == "tensor fp64"
        elif kernel.ceiling.startswith("vector"):
            # Where there is no fma of two fp32 in one instruction ptxas makes two.
            whole = kernel.repeats * (2 if kernel.instruction.endswith("f32x2") and "FFMA2" not in loop else 1)
            assert issued(kernel, "FFMA", "FFMA2", "DFMA", "HFMA2", "IMAD") in range(whole, whole + 2), kernel.name
            assert loop.total() <= whole + 4
        elif "." in kernel.instruction:
            # One instruction for two fp16 on 10.3 alone, whose unit takes exponentials at twice the rate.
            lanes = 2 if "16x2" in kernel.instruction and not any(code.endswith("F16x2") for code in loop) else 1
            steps = lanes * len(kernel.instruction.split(", "))
            assert issued(kernel, "MUFU") == steps * kernel.repeats, kernel.name
    assert sum(count for code, count in loops["dram_read"].items() if code.startswith("LDG.E.128")) == 4
    # `.cg` is a load that all SMs see alike, which the L1 does not serve.
    assert {code for code in loops["cache_read"] if code.startswith("LDG")} <= {
        "LDG.E.128.STRONG.GPU", "LDG.E.128.STRONG.SM", "LDG.E.128.STRONG.SYS",
    }  # fmt: skip


# --- which architecture -------------------------------------------------------------------


def test_a_gpu_newer_than_nvrtc_gets_ptx_and_one_too_old_a_clear_error() -> None:
    assert nvrtc.target((9, 0), "sm_90") == "sm_90"
    newest = nvrtc.target((99, 0), "sm_990")
    assert newest.startswith("compute_")
    image = nvrtc.compile_source(b'extern "C" __global__ void empty() {}', newest).image
    assert b".entry empty" in image
    assert image.endswith(b"\0")
    with pytest.raises(MissingError, match=r"does not compile for GPUs of compute capability 3\.0") as refused:
        nvrtc.target((3, 0), "sm_30")
    assert "trtprof[gpu-cu12]" in refused.value.fix


def test_an_empty_log_is_not_written_over_a_byte_of_python() -> None:
    """A kernel without a word to say has a log of one byte, and the interpreter shares bytes of one byte."""
    assert nvrtc.compile_source(b'extern "C" __global__ void empty() {}', "compute_90").log == ""
    assert bytes([32]) == b"\x20"
    assert [bytes([value])[0] for value in range(256)] == list(range(256))


def test_what_does_not_compile_is_told_with_the_compilers_words() -> None:
    with pytest.raises(nvrtc.CudaError, match="nonsense"):
        nvrtc.compile_source(b"nonsense", "sm_90")


def test_only_tensor_cores_that_take_a_type_whole_are_asked() -> None:
    def tensor(capability: tuple[int, int]) -> set[str]:
        return {kernel.ceiling for kernel in _kernels.kernels(capability) if kernel.part}

    assert tensor((7, 0)) == set()
    assert tensor((7, 5)) == {"tensor fp16", "tensor int8"}
    assert "tensor fp8e4m3fn" in tensor((8, 9)) & tensor((12, 0))
    # There mma.sync of fp8 becomes products of fp16; cuBLASLt knows better.
    assert not any("fp8" in ceiling for ceiling in tensor((9, 0)) | tensor((10, 0)))
    assert "tensor fp4e2m1" in tensor((12, 0)) - tensor((13, 0))
