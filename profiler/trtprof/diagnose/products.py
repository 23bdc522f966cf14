"""The products of a layer as rules look at them: dimensions, the kernel that multiplies, and what would suit it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from trtprof.base import units
from trtprof.base.op_kinds import OPERANDS, PRODUCTS
from trtprof.base.plan_words import is_convolution, precision
from trtprof.base.records import Ceilings, GpuSpec, LayerResult, Match, MatchedLayer, PlanLayer, Work
from trtprof.base.units import format_bytes, format_flops, format_ns, format_percent, format_rate
from trtprof.diagnose import Case
from trtprof.diagnose.reasons import no_work, unpriced
from trtprof.kernel_names.parse import KernelName

ALIGNED_BYTES = 16
"""What rows of operands should be a multiple of for tensor cores: 8 of fp16, 16 of int8, 4 of TF32. NVIDIA, Matrix
Multiplication Background User's Guide, "Tensor Core Requirements"."""

FULL_BYTES = 128
"""What they should be a multiple of to be most efficient from the A100 on: 64 of fp16. The same section."""

FULL_FROM = 80  # The first architecture that `FULL_BYTES` is told of

NEWEST_SIMT = 80
"""The newest architecture that libraries write kernels for the CUDA cores for: on an H100 the fp32 kernels of cuBLAS
are still ``sm80_xmma_..._ffma``. Such a kernel is old on no GPU."""

TENSOR_DTYPES = frozenset({
    "fp16", "bf16", "fp32", "tf32", "int8", "uint8", "fp8e4m3fn", "fp8e5m2", "fp4e2m1", "fp64",
})  # fmt: skip
"""What tensor cores of some GPU multiply, fp32 as TF32."""

UNIT_WORDS: dict[str, str] = {"simt": "the CUDA cores", "tensor": "the tensor cores"}
"""Units of `kernel_name.KernelName` as a person calls them."""

PRODUCT_OPS = frozenset({"gemm", "gemv", "conv", "dgrad", "wgrad", "attention"})
"""What the name of a kernel that multiplies says it computes."""


class Product(NamedTuple):
    """A product of matrices, or a convolution as one."""

    m: int  # Rows of the result; of a convolution, images times places
    n: int  # Columns; of a convolution, output channels of a group
    k: int  # Summed over; of a convolution, input channels of a group times the window
    batch: int  # Products of this size; groups of a convolution
    inner: int  # What rows of the operands are long: K, or the input channels of a group
    convolution: bool = False  # Whether it is one

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.m * self.n * self.k

    @property
    def depthwise(self) -> bool:
        """Whether each group of a convolution reads one channel."""
        return self.convolution and self.inner == 1 and self.batch > 1

    @property
    def thin(self) -> int:
        """The smaller side of the result; that of a convolution is never thin."""
        return max(self.m, self.n) if self.convolution else min(self.m, self.n)

    @property
    def suits_tensor_cores(self) -> bool:
        """Whether a tensor core has anything to do: not so of a vector, nor of a depthwise convolution."""
        return not self.depthwise and (self.convolution or self.thin > 1)

    @property
    def words(self) -> str:
        """``960,000 products of 1 x 64 by 64 x 1``."""
        if self.convolution:
            groups = f" in {self.batch:,} groups" if self.batch > 1 else ""
            return f"a convolution of {self.inner} to {self.n} channels{groups}"
        size = f"{self.m:,} x {self.k:,} by {self.k:,} x {self.n:,}"
        return f"{self.batch:,} products of {size}" if self.batch > 1 else f"a product of {size}"

    def misfits(self, step: int) -> tuple[tuple[str, int], ...]:
        """The dimensions that are no multiple of ``step``, by name."""
        names = ("K", "N")
        if self.convolution:
            grouped = self.batch > 1
            names = ("input channels a group", "outputs a group") if grouped else ("input channels", "output channels")
        return tuple((name, size) for name, size in zip(names, (self.inner, self.n), strict=True) if size % step)

    def padded(self, step: int) -> tuple[float, float]:
        """Length of rows and width of the result padded to multiples of ``step``, over those without."""
        inner, outer = (-(-size // step) * step / size for size in (self.inner, self.n))
        return inner, outer

    def padding(self, step: int) -> float:
        """Multiply-accumulates with both padded, over those without; bytes grow by no more (`padded_ns`)."""
        return math.prod(self.padded(step))


class MainKernel(NamedTuple):
    """The kernel that does most of a layer's multiplying."""

    match: Match  # As captured, or the tactic of the plan
    name: KernelName  # What its name says
    share: float  # Share of the layer's time in kernels that multiply on the same unit and architecture


def product_of(layer: LayerResult) -> Product | None:
    """The product of a layer; None where its dimensions are not known for sure, or it has several different ones."""
    core = None if layer.work is None else layer.work.core
    if core is None or core.kind not in ("product", "convolution"):
        return None
    return Product(core.m, core.n, core.k, core.batch, core.k // core.window, core.kind == "convolution")


def of_plan(layer: PlanLayer) -> Product | None:
    """The product of a layer as its plan tells it, with a window of one element; None where it does not tell."""
    if not layer.inputs or not layer.outputs:
        return None
    source, target = layer.inputs[0].dims, layer.outputs[0].dims
    if source is None or target is None or min((*source, *target), default=0) < 1:
        return None
    if is_convolution(layer):
        return _plan_convolution(layer, source, target)
    if min(len(source), len(target)) < 2:
        return None
    m, n = target[-2:]
    # A matrix may be read transposed.
    if m not in source[-2:]:
        return None
    k = source[-1] if source[-2] == m else source[-2]
    return Product(m, n, k, math.prod(target[:-2]), k)


def _plan_convolution(layer: PlanLayer, source: Sequence[int], target: Sequence[int]) -> Product | None:
    if min(len(source), len(target)) < 3:
        return None
    channels, made = source[1], target[1]
    groups = layer.attributes.get("Groups", layer.attributes.get("ConvGroups"))
    if not isinstance(groups, int):
        # TensorRT-RTX tells weights instead: K x C/groups x kernel. Biases have one row, residuals the batch.
        weights = [tensor.dims for tensor in (*layer.constants, *layer.inputs[1:])]
        rows = [dims[1] for dims in weights if dims is not None and len(dims) == len(target) and dims[0] == made]
        groups = channels // next((row for row in rows if row and channels % row == 0), channels)
    if groups < 1 or channels % groups or made % groups:
        return None
    inner = channels // groups
    return Product(target[0] * math.prod(target[2:]), made // groups, inner, groups, inner, convolution=True)


def plan_misfits(matched: MatchedLayer, work: Work | None) -> tuple[tuple[str, int], ...]:
    """Dimensions that do not fill whole pieces of what tensor cores work on, by name; none where they have no use."""
    product, dtype = of_plan(matched.layer), precision(matched, work)
    if product is None or not product.suits_tensor_cores or dtype not in TENSOR_DTYPES:
        return ()
    return product.misfits(aligned(dtype))


def main_kernel(case: Case, layer: LayerResult) -> MainKernel | None:
    """The kernel that multiplies; None where no name says so. Of several the one that takes longest."""
    kernels = case.kernel_names(layer)
    total = sum(match.total_ns for match, _ in kernels)
    for match, name in kernels:
        if name.op in PRODUCT_OPS and name.unit in ("tensor", "simt"):
            alike = sum(
                one.total_ns
                for one, other in kernels
                if other.op in PRODUCT_OPS and (other.unit, other.arch) == (name.unit, name.arch)
            )
            return MainKernel(match, name, alike / total if total else 1.0)
    return None


def multiplies(layer: LayerResult) -> bool:
    """Whether a layer does the model's work and its multiply-accumulates are known."""
    return layer.role == "compute" and layer.work is not None and layer.work.tensor_flops > 0


def product_dtype(layer: LayerResult) -> str:
    """What a layer multiplies, ``fp32`` also where it is rounded to TF32."""
    dtype = layer.work.dtype if layer.work is not None and layer.work.dtype else layer.dtype
    return "fp32" if dtype == "tf32" else dtype


def tf32_off(spec: GpuSpec | None, ceilings: Ceilings) -> bool:
    """Whether fp32 is multiplied on the CUDA cores although TF32 on the tensor cores would be faster."""
    if spec is None or "tf32" not in spec.tensor_flops_per_s:
        return False
    roof = ceilings.attainable
    tf32 = max(figure.value for figure in spec.tensor_flops_per_s["tf32"].values())
    faster = tf32 > spec.vector_flops_per_s["fp32"].value
    return faster and roof.tensor_flops_per_s.get("fp32", 0.0) <= roof.vector_flops_per_s["fp32"]


def tensor_peak(case: Case, dtype: str) -> float:
    """FLOP/s of the tensor cores for a dtype as it may be multiplied, fp32 as TF32; 0 where they do not take it."""
    if case.spec is None or (dtype == "fp32" and tf32_off(case.spec, case.ceilings)):
        return 0.0
    if ("tf32" if dtype == "fp32" else dtype) not in case.spec.tensor_flops_per_s:
        return 0.0
    return case.ceilings.attainable.tensor_flops_per_s.get(dtype, 0.0)


def padded_ns(layer: LayerResult, product: Product, step: int) -> int:
    """What a layer would attain with dimensions padded to multiples of ``step``.

    Multiply-accumulates and weights grow with both, results with the width, what else is read with the length of rows;
    of a product of two activations with both.
    """
    work = layer.work
    if work is None:
        return layer.attainable_ns or 0
    inner, outer = product.padded(step)
    activations = inner if work.bytes_parameters or product.convolution else inner * outer
    moved = (
        (work.bytes_read - work.bytes_parameters) * activations
        + work.bytes_parameters * inner * outer
        + work.bytes_written * outer
    )
    more = {"tensor": inner * outer, "dram": moved / (work.bytes or 1), "l2": moved / (work.bytes or 1)}
    return max((round(ns * more.get(term, 1.0)) for term, ns in layer.terms.items()), default=0)


def no_product(case: Case, layer: LayerResult) -> str:
    """Why a layer is none of the business of a rule about products on a GPU; empty where it is."""
    if not case.gpu:
        return "the layer did not run on a GPU"
    if why := no_work(case, layer) or unpriced(case, layer):
        return why
    return "" if multiplies(layer) else "the layer multiplies no matrices, as far as its work is known"


def explains(case: Case, layer: LayerResult, ns: int) -> bool:
    """Whether a price explains enough of what a layer lost to be named for it (`Thresholds.explains`)."""
    return ns >= case.thresholds.explains * (layer.lost_ns or 0)


def too_little(case: Case, layer: LayerResult, ns: int) -> str:
    """Why a price that does not explain enough is not claimed."""
    return (
        f"it explains {format_ns(ns)}, less than {format_percent(case.thresholds.explains)} of the "
        f"{format_ns(layer.lost_ns or 0)} that the layer lost"
    )


def named_unit(kernel: MainKernel | None) -> str:
    """What the name of a kernel tells of its unit, in words."""
    if kernel is None:
        return "no name of its kernels tells on which unit it multiplies"
    return f"{shown(kernel.match.kernel)} multiplies on {UNIT_WORDS[kernel.name.unit]} ('{kernel.name.evidence}')"


def least_healthy(case: Case) -> float:
    """Attainable / measured of a healthy kernel at the least: `Thresholds.healthy`, less for a datasheet's roof."""
    return case.thresholds.healthy * (case.thresholds.of_datasheet if case.from_datasheet else 1.0)


def aligned(dtype: str) -> int:
    """Elements that tensor cores want dimensions to be a multiple of: `ALIGNED_BYTES`."""
    return ALIGNED_BYTES * 8 // units.DTYPE_BITS.get(dtype, 32)


def multiples(case: Case, layer: LayerResult) -> tuple[int, ...]:
    """The same, then what is best where arithmetic bounds a layer (`FULL_BYTES`), if this GPU has such."""
    least = aligned(product_dtype(layer))
    best = layer.bound == "tensor" and (case.architecture or 0) >= FULL_FROM
    return (least, least * FULL_BYTES // ALIGNED_BYTES) if best else (least,)


def superseded(name: KernelName) -> bool:
    """Whether there are kernels for the CUDA cores of a newer architecture than the name's; see `NEWEST_SIMT`."""
    return name.arch is not None and name.arch < NEWEST_SIMT


def shown(name: str) -> str:
    """The name of a kernel in an evidence line: what a signature has behind 100 characters adds nothing there."""
    return name if len(name) <= 100 else f"{name[:99]}…"


def beside_roof(case: Case, layer: LayerResult) -> str:
    """What the layer did in its time, and what share of its roof that is."""
    measured, attainable = layer.measured_ns, layer.attainable_ns or 0
    share = format_percent(attainable / measured) if measured else "all"
    per_s = 1e9 / measured if measured else 0.0
    if layer.bound in ("dram", "l2"):
        level = "DRAM" if layer.bound == "dram" else case.cache_name
        moved = layer.bytes or 0
        return (
            f"{format_bytes(moved)} in {format_ns(measured)} is {format_rate(moved * per_s, 'B/s')}, {share} of what "
            f"{level} allows ({format_ns(attainable)})"
        )
    if layer.bound in ("tensor", "vector"):
        flops = layer.flops or 0
        return (
            f"{format_flops(flops)} in {format_ns(measured)} is {format_rate(flops * per_s, 'FLOP/s')}, {share} of the "
            f"{layer.dtype or 'arithmetic'} peak {case.peaks_from} ({format_ns(attainable)})"
        )
    return f"{format_ns(measured)} where {format_ns(attainable)} are attainable ({share})"


def has_weights(case: Case, layer: LayerResult) -> bool:
    """Whether an operand of the layer's product is constant."""
    engine = case.engine.get(layer.name)
    op = engine.op if engine is not None else None
    places = OPERANDS.get(op.op_type, ()) if op is not None and op.op_type in PRODUCTS else ()
    operands = [op.inputs[at] for at in places if at < len(op.inputs)] if op is not None else []
    listed = any(tensor is not None and tensor.constant for tensor in operands)
    matched = case.plan.get(layer.name)
    return listed or (matched is not None and (bool(matched.layer.constants) or matched.layer.weights is not None))
