"""Kernels compiled for each architecture by NVRTC, without a GPU: what they take of an SM, and the bandwidth they draw.

The PTX ships with the lowest version that has its instructions, so that older drivers take it too. The share of DRAM's
bandwidth is that of Little's law: what is under way at once over the time that an answer takes, joined with the limit
of memory by a norm (`drawn`), fitted to bandwidths that others measured. Nothing else is modelled.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from trtprof.base.occupancy import occupancy
from trtprof.base.records import GpuSpec, KernelBuild, KernelVariant
from trtprof.base.units import dtype_bytes, format_bytes, format_percent
from trtprof.plugin import specification
from trtprof.plugin.kernel import Kernel
from trtprof.plugin.sizes import product
from trtprof.plugin.task import Operand, Task
from trtprof.runtime import nvrtc

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
"""What kernels are compiled for, where NVRTC still does."""

REACHABLE = 0.92
"""The largest share of a datasheet's bandwidth that is predicted: what an RTX 4090 was measured to reach (0.92 of 1.008
TB/s), and an A100 80 GB (1880 of 2039 GB/s; te42kyfo/gpu-benches, gpu-stream/a100_80.txt). Kernels of libraries were
seen at 87 to 94 % on GPUs from A100 to B300."""

JOINT = 3.0  # Exponent of the norm that joins both limits of the bandwidth; see `drawn`

SM_BYTES_PER_CLOCK = 64
"""What an SM can take from the L2 in a clock: NVIDIA A100 Tensor Core GPU Architecture (2020), 5120 bytes per clock and
40 more SMs than its 80 slices of 64; the GPUs since have no less."""


class Latency(NamedTuple):
    """How long DRAM takes to answer where little is asked of it, blocks coming and going included."""

    ns: float  # As fitted; where nobody measured the architecture, twice that of the nearest, to be careful
    source: str  # Of what, in words


_STREAM = "fitted to te42kyfo/gpu-benches, gpu-stream"
LATENCIES: dict[str, Latency] = {
    "7.0": Latency(300, f"{_STREAM}, V100"),
    "7.5": Latency(300, f"{_STREAM}, V100, the architecture before"),
    "8.0": Latency(350, f"{_STREAM}, A100"),
    "8.6": Latency(280, f"{_STREAM}, A40"),
    "8.9": Latency(225, f"{_STREAM}, L40"),
    "9.0": Latency(310, f"{_STREAM}, H100 PCIe and H200"),
    "10.0": Latency(620, "not measured in public: twice that of an H100"),
    "12.0": Latency(450, "not measured in public: twice that of an L40"),
}
"""By compute capability. Measured is the time from which on the curve of bandwidth over resident threads bends: threads
times their 8 bytes, over the bandwidth they draw."""


class Compiled(NamedTuple):
    """A kernel as it was compiled for one architecture."""

    ptx: str  # What ships
    registers: int  # Of a thread
    spill_bytes: int  # Of a thread, stores and loads together
    shared_bytes: int  # Of a block


@dataclass(frozen=True)
class Built:
    """A kernel compiled for each architecture."""

    kernel: Kernel  # What was compiled
    ptx: dict[str, str]  # Of each architecture on which it is used
    builds: tuple[KernelBuild, ...]  # Of all architectures

    @property
    def variant(self) -> KernelVariant:
        """The kernel and its builds, as a document has them."""
        kernel = self.kernel
        return KernelVariant(
            tactic=kernel.tactic, entry=kernel.entry, label=kernel.label, why=kernel.why, builds=self.builds
        )


def build(
    task: Task,
    kernels: Sequence[Kernel],
    shapes: Sequence[Sequence[int]],
    gpus: Sequence[GpuSpec] = (),
    architectures: Sequence[str] = ARCHITECTURES,
) -> tuple[Built, ...]:
    """Compile kernels, for each architecture that NVRTC knows, and predict what they draw of the bandwidth.

    `architectures`: such as ``sm_89``.
    """
    known = nvrtc.architectures()
    wanted = [
        (kernel, name)
        for kernel in kernels
        for name in architectures
        if number_of(name) in known and number_of(name) >= 10 * kernel.least[0] + kernel.least[1]
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        compiled = dict(zip([(one.tactic, name) for one, name in wanted],
                            pool.map(lambda one: compile_for(task, *one), wanted), strict=True))  # fmt: skip
    found = []
    for kernel in kernels:
        ptx: dict[str, str] = {}
        builds = []
        for name in architectures:
            one = compiled.get((kernel.tactic, name))
            if one is None:
                continue
            record = _build(task, kernel, shapes, name, one, gpus)
            builds.append(record)
            if not record.dropped:
                ptx[name] = one.ptx
        found.append(Built(kernel, ptx, tuple(builds)))
    return tuple(found)


def compile_for(task: Task, kernel: Kernel, architecture: str) -> Compiled:
    """A kernel compiled for one architecture; its parameters are held against its declaration, in text and PTX."""
    specification.check_source(task, kernel)
    made = nvrtc.compile_source(kernel.source.encode(), architecture, fast_math=False)
    specification.check_ptx(task, kernel, architecture, made.ptx)
    of_entry = made.log.partition(f"'{kernel.entry}'")[2]
    spills = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", of_entry)
    registers = re.search(r"Used (\d+) registers", of_entry)
    if spills is None or registers is None:
        raise nvrtc.CudaError(f"NVRTC's log tells no registers of {kernel.entry}: {made.log.strip()}")
    shared = re.search(r"(\d+) bytes smem", of_entry)
    return Compiled(
        portable(made.ptx), int(registers[1]), int(spills[1]) + int(spills[2]), int(shared[1]) if shared else 0
    )


def number_of(architecture: str) -> int:
    """The number in ``sm_89``."""
    return int(architecture.removeprefix("sm_"))


def _build(
    task: Task,
    kernel: Kernel,
    shapes: Sequence[Sequence[int]],
    architecture: str,
    of: Compiled,
    gpus: Sequence[GpuSpec],
) -> KernelBuild:
    capability = f"{number_of(architecture) // 10}.{number_of(architecture) % 10}"
    threads = kernel.block[0] * kernel.block[1] * kernel.block[2]
    dropped = f"it spills {of.spill_bytes} bytes a thread" if of.spill_bytes else ""
    blocks, fraction = 0, 0.0
    try:
        held = occupancy(capability, threads, of.registers, of.shared_bytes)
        blocks, fraction = held.blocks_per_sm, float(held.fraction)
    except ValueError as error:
        dropped = f"it cannot be launched: {error}"
    share, basis = None, ""
    spec = next((one for one in gpus if one.compute_capability == capability), None)
    if spec is not None and not dropped:
        share, basis = predicted(task, kernel, shapes, blocks, spec)
    return KernelBuild(
        architecture=architecture,
        registers=of.registers,
        spill_bytes=of.spill_bytes,
        shared_bytes=of.shared_bytes,
        blocks_per_sm=blocks,
        occupancy=fraction,
        bandwidth=share,
        basis=basis,
        dropped=dropped,
    )


def dram_bytes(task: Task, kernel: Kernel, shapes: Sequence[Sequence[int]]) -> int:
    """What a kernel moves between DRAM and the caches for inputs of these shapes: inputs as it says, outputs once."""
    total = 0
    for operand in task.inputs:
        if operand.name in kernel.reads:
            total += kernel.reads[operand.name].value(shapes)
        else:
            total += _bytes(task, operand, shapes)
    return total + sum(_bytes(task, operand, shapes) for operand in task.outputs)


def _bytes(task: Task, operand: Operand, shapes: Sequence[Sequence[int]]) -> int:
    return dtype_bytes(operand.dtype, product(task.dims(operand)).value(shapes))


def drawn(in_flight: float, latency_ns: float, most: float) -> float:
    """The bandwidth in bytes/s that so many bytes under way draw.

    Little's law gives ``a = in_flight / latency``; the memory gives ``most``. Near both, answers take longer: the
    bandwidth is ``(a^-p + most^-p)^(-1/p)`` with p = `JOINT`.
    """
    if in_flight <= 0:
        return 0.0
    alone = in_flight / (latency_ns * 1e-9)
    return float((alone**-JOINT + most**-JOINT) ** (-1 / JOINT))


def predicted(
    task: Task, kernel: Kernel, shapes: Sequence[Sequence[int]], blocks_per_sm: int, gpu: GpuSpec
) -> tuple[float | None, str]:
    """The share of a datasheet's bandwidth that a kernel draws, start and end included, and what that rests on.

    Each moves its share of the bytes at the bandwidth of `drawn`; a launch comes before. None where nothing is moved,
    where no thread waits for memory (it reads single elements, or only writes), or where nobody knows the latency.
    """
    latency = LATENCIES.get(gpu.compute_capability)
    total = dram_bytes(task, kernel, shapes)
    bandwidth, sms = gpu.dram_bytes_per_s.value, int(gpu.sms.value)
    if latency is None or not total or not blocks_per_sm or not kernel.in_flight:
        return None, ""
    grid, _ = kernel.launch(shapes)
    blocks = grid[0] * grid[1] * grid[2]
    threads = kernel.block[0] * kernel.block[1] * kernel.block[2]
    slots = blocks_per_sm * sms
    full, tail = divmod(blocks, slots)
    of_block = total / blocks
    most = REACHABLE * bandwidth

    def seconds(at_once: int, moved: float) -> float:
        under_way = at_once * min(threads * kernel.in_flight, of_block)
        of_sms = min(at_once, sms) * SM_BYTES_PER_CLOCK * gpu.boost_mhz.value * 1e6
        return moved / min(drawn(under_way, latency.ns, most), of_sms)

    moving = (seconds(slots, full * slots * of_block) if full else 0.0) + (
        seconds(tail, tail * of_block) if tail else 0
    )
    launch = gpu.launch_ns.value * 1e-9
    share = min(total / bandwidth / (moving + launch), REACHABLE)
    per_sm = min(blocks_per_sm, -(-blocks // sms)) * min(threads * kernel.in_flight, of_block)
    needed = bandwidth * latency.ns * 1e-9 / sms
    flight = f"{format_bytes(per_sm)} under way on an SM, where {format_bytes(needed)} hide the {latency.ns:.0f} ns"
    words = [
        f"{gpu.name}: {flight} of its memory ({latency.source})",
        f"{blocks} blocks on {slots} slots of {sms} SMs" + _idle(blocks, slots, sms),
    ]
    if launch > 0.02 * (moving + launch):
        words.append(f"launch {format_percent(launch / (moving + launch))} of the time")
    words.append(f"at most {format_percent(REACHABLE)}, which was measured to be reachable")
    return share, "; ".join(words)


def _idle(blocks: int, slots: int, sms: int) -> str:
    """What a grid leaves idle, in words."""
    if blocks < sms:
        return f", {sms - blocks} SMs idle"
    full, tail = divmod(blocks, slots)
    if not full:
        return f", {format_percent(1 - blocks / slots)} of the slots idle"
    return f", {full + bool(tail)} waves, the last {format_percent(tail / slots)} full" if tail else f", {full} waves"


# The first version of the PTX ISA that has a target, or something that compilers write: PTX ISA, "Release Notes", and
# the notes of each instruction.
_TARGET_VERSIONS = {
    "sm_70": (6, 0), "sm_75": (6, 3), "sm_80": (7, 0), "sm_86": (7, 1), "sm_87": (7, 4), "sm_89": (7, 8),
    "sm_90": (7, 8), "sm_100": (8, 6), "sm_103": (8, 8), "sm_110": (9, 0), "sm_120": (8, 7), "sm_121": (8, 8),
}  # fmt: skip

_OLD = frozenset([
    "abs", "activemask", "add", "addc", "and", "atom", "bar", "barrier", "bfe", "bfi", "bfind", "bra", "brev", "brx",
    "call", "clz", "cnot", "copysign", "cos", "cvt", "cvta", "div", "dp2a", "dp4a", "ex2", "exit", "fma", "isspacep",
    "ld", "ldu", "lg2", "lop3", "mad", "mad24", "madc", "match", "max", "membar", "min", "mov", "mul", "mul24",
    "nanosleep", "neg", "not", "or", "popc", "prefetch", "prefetchu", "prmt", "rcp", "red", "rem", "ret", "rsqrt",
    "sad", "selp", "set", "setp", "shf", "shfl", "shl", "shr", "sin", "slct", "sqrt", "st", "sub", "subc", "testp",
    "trap", "vote", "xor",
])  # fmt: skip
"""Instructions that PTX 6.3 has, but for the forms of `_NEWER`."""

_NEWER: tuple[tuple[str, tuple[int, int]], ...] = (
    (r"\.b128|\.v8\.|\.level::|\.f16x2\.f32x2|f32x2|\.acquire\.|mbarrier|tensor", (9, 0)),
    (r"\.(min|max)\S*\.(NaN|xorsign)|^(min|max)\.(ftz\.)?NaN|^(min|max)\S*xorsign", (7, 2)),
    (r"^(min|max|fma|neg|abs)\S*bf16", (7, 0)),
    (r"^(add|sub|mul|set|setp)\S*bf16|^ex2\S*bf16|\.cluster", (7, 8)),
    (r"^(min|max|ex2|tanh)\S*\.f16|^tanh|^cvt\S*bf16|^cvt\S*\.relu|^redux", (7, 0)),
    (r"L2::cache_hint|L1::|L2::", (7, 4)),
    (r"^(min|max)\S*\.relu|^cvt\.\S*e[45]m", (8, 1)),
)
"""Forms of instructions that came later, by a pattern, with the first version that has them or a later one."""

_DIRECTIVES = frozenset([
    "version", "target", "address_size", "visible", "entry", "param", "reg", "shared", "local", "global", "const",
    "align", "maxntid", "minnctapersm", "reqntid", "maxnreg", "loc", "file", "section", "func", "extern", "weak",
    "pragma", "ptr", "b8", "b16", "b32", "b64", "u8", "u16", "u32", "u64", "s32", "s64", "f32", "f64", "pred",
])  # fmt: skip


def portable(ptx: str) -> str:
    """PTX with the lowest version that has all of it, so that drivers older than the compiler take it."""
    version = re.search(r"^\.version (\d+)\.(\d+)", ptx, re.MULTILINE)
    target = re.search(r"^\.target (sm_\d+)\s*$", ptx, re.MULTILINE)
    if version is None or target is None or target[1] not in _TARGET_VERSIONS:
        return ptx
    lowest = _TARGET_VERSIONS[target[1]]
    text = re.sub(r"//[^\n]*", "", ptx)
    for name in set(re.findall(r"(?:^|[;{}])\s*\.([a-z]\w*)", text, re.MULTILINE)):
        if name not in _DIRECTIVES:
            return ptx
    for operation in set(re.findall(r"(?:^|[;{}])\s*(?:@!?%\w+\s+)?([a-z][\w.:]*)", text, re.MULTILINE)):
        if operation.split(".")[0] not in _OLD | {"tanh", "redux"}:
            return ptx
        lowest = max([lowest, *(since for pattern, since in _NEWER if re.search(pattern, operation))])
    now = int(version[1]), int(version[2])
    return ptx.replace(version[0], f".version {lowest[0]}.{lowest[1]}", 1) if lowest < now else ptx
