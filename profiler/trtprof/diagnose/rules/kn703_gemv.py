"""A product of a vector, or of a few rows, far under the bandwidth that bounds it.

What:
    A product with one row or column (or a few) is bound by the bytes of its matrix, and takes more than twice the time
    in which the device moves them. The kernel is a gemv, one for small products, or a GEMM whose tile is far larger
    than the dimension.

Why:
    Each value of the matrix is used once or a few times, so nothing but bandwidth counts. A gemv kernel of a library
    runs one small product for each block or thread, with short rows that fill no cache line and too little in
    flight; a batch pays that again and again. A GEMM kernel pads the thin dimension to its tile and splits the work
    over few blocks.

Try:
    Cheapest first: fold the batch into the thin dimension, so that one GEMM does it; write the product as Mul and
    ReduceSum, which a compiler fuses into one pass; store the weight transposed, so that what is summed over lies
    innermost; merge products of the same rows, so that one large matrix is streamed; then a hand-written kernel that
    streams the matrix once, which is a simple one to write.
"""

from __future__ import annotations

from trtprof.base.records import LayerResult
from trtprof.diagnose import Case, Loss, layer_rule
from trtprof.diagnose.libraries import down_to, winnable_ns
from trtprof.diagnose.products import Product, beside_roof, no_product, product_of, shown
from trtprof.diagnose.reasons import bound_otherwise, not_slow
from trtprof.diagnose.remedies import thin
from trtprof.kernel_names.parse import KernelName


@layer_rule(
    "KN703",
    "gemv or skinny GEMM far from bandwidth",
    order=25,
    thresholds=("efficiency", "of_datasheet", "skinny", "launched"),
)
def judge(case: Case, layer: LayerResult) -> Loss | str:
    """A thin product bound by bytes whose efficiency is under the threshold, and the kernel that does it."""
    if why := no_product(case, layer):
        return why
    if not _by_bytes(case, layer):
        return bound_otherwise(case, layer, "dram", "l2")
    if why := not_slow(case, layer):
        return why
    product = product_of(layer)
    if product is not None and product.thin > case.thresholds.skinny:
        return f"it is {product.words}, which is not thin: {case.thresholds.skinny:g} rows or columns at most are"
    for match, name in case.kernel_names(layer):
        if reason := _unfit(name, product):
            size = f"{product.words} in " if product is not None else ""
            return _loss(case, layer, f"{size}{shown(match.kernel)}, {reason}")
    if product is None:
        return "the dimensions of its product are not known for sure, and no kernel of it is named a gemv"
    if layer.bound == "launch":
        times = layer.measured_ns / (layer.attainable_ns or 1)
        words = f"{product.words} takes {times:.0f} times as long as an empty kernel, whatever its kernel is called"
        return _loss(case, layer, words)
    return f"it is {product.words}, but no name of its kernels tells one that is for other products"


def _loss(case: Case, layer: LayerResult, words: str) -> Loss:
    evidence = f"{words}; {beside_roof(case, layer)}{down_to(layer)}"
    return Loss(winnable_ns(layer), evidence, thin(case, layer, product_of(layer)), 0.85)


def _by_bytes(case: Case, layer: LayerResult) -> bool:
    """Whether bytes bound a layer, or it is small but takes far longer than an empty kernel."""
    if layer.bound == "launch":
        return (layer.attainable_ns or 0) < case.thresholds.launched * layer.measured_ns
    return layer.bound in ("dram", "l2")


def _unfit(name: KernelName, product: Product | None) -> str:
    """What the name tells of a kernel that suits a thin product badly; empty where it does not."""
    if name.op == "gemv":
        return "a gemv kernel"
    if product is None:
        return ""
    if name.evidence == "gemmSN":
        return "a kernel for small products"
    if name.family == "cublas" and name.op == "reduce":
        return "the two-step dot product of cuBLAS"
    sides = [int(side) for side in (name.tile or "").split("x")[:2] if side.isdigit()]
    if name.op == "gemm" and len(sides) == 2 and min(sides) > 2 * product.thin:
        dim = "M" if product.m <= product.n else "N"
        return f"whose tiles of {sides[0]} x {sides[1]} are mostly padding at {dim} = {product.thin}"
    return ""
