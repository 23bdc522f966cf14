"""A memory-bound layer far under the bandwidth of the device.

What:
    The roofline says that bytes, not arithmetic, bound the layer, yet it takes more than twice the
    time in which the device moves those bytes; and it is slower than nine of ten library kernels that do the same,
    where those were measured. What is claimed is then what lies above the fastest tenth of them.

Why:
    Many small matrix products (a batched gemv) pay a call each; strided or broadcast access wastes
    cache lines; one thread cannot draw the whole bandwidth; a scalar loop does not vectorise. On a GPU,
    a kernel for an old architecture, or too few blocks to fill it.

Try:
    Give the layer work in one piece: fold batch dimensions into one GEMM, write a gemv as Mul and
    ReduceSum, keep the reduced axis innermost. If nothing else helps, a custom kernel that
    streams the tensors once.
"""

from __future__ import annotations

from trtprof.base.op_kinds import op_kind
from trtprof.base.records import LayerResult
from trtprof.base.units import format_bytes, format_ns, format_percent, format_rate
from trtprof.diagnose import Case, Loss, layer_rule
from trtprof.diagnose.libraries import down_to, winnable_ns
from trtprof.diagnose.products import product_dtype, product_of
from trtprof.diagnose.reasons import not_far
from trtprof.diagnose.remedies import unquantised


@layer_rule("RL101", "memory-bound op far under bandwidth", order=60, thresholds=("efficiency", "of_datasheet"))
def judge(case: Case, layer: LayerResult) -> Loss | str:
    """A layer bound by DRAM or cache whose efficiency is under the threshold."""
    if (why := not_far(case, layer, "dram", "l2")) is not None:
        return why
    moved, measured = layer.bytes or 0, layer.measured_ns
    level = "DRAM" if layer.bound == "dram" else case.cache_name
    evidence = (
        f"{format_bytes(moved)} in {format_ns(measured)} is {format_rate(moved / measured * 1e9, 'B/s')}, "
        f"{format_percent((layer.attainable_ns or 0) / measured)} of what {level} allows "
        f"({format_ns(layer.attainable_ns or 0)}){case.tactic(layer)}{down_to(layer)}"
    )
    return Loss(winnable_ns(layer), evidence, _remedy(layer, case))


def _remedy(layer: LayerResult, case: Case) -> str:
    product = product_of(layer)
    if product is not None and not product.convolution and product.thin == 1 and product.batch > 1:
        return "it is a batched gemv: write it as Mul + ReduceSum, or fold the batch into one GEMM"
    if alone := unquantised(product, product_dtype(layer)):
        return alone
    if op_kind(case.engine[layer.name].op.op_type) == "move":
        return "it only moves data: choose layouts so that it is not needed, or fuse it into its reader"
    if _special(layer, case):
        return "special functions (exp, pow, erf, sqrt) may bound it, not memory: use a fused or approximate form"
    return "fuse it with its neighbours, or give it contiguous, larger pieces; then a hand-written kernel"


def _special(layer: LayerResult, case: Case) -> bool:
    """Whether special functions are the other suspect.

    The roof has units side by side; a kernel that does one thing after the other pays for both. Where
    they have no ceiling, the roof knows no more than that they are most of the arithmetic.
    """
    if case.ceilings.attainable.special_per_s:
        return 2 * layer.terms.get("sfu", 0) >= layer.terms.get(layer.bound, 0)
    return layer.work is not None and 2 * layer.work.special_flops >= layer.work.flops > 0
