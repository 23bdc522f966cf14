"""What several rules propose; each function says one remedy, or nothing where the layer has it already."""

from __future__ import annotations

from typing import NamedTuple

from trtprof.base.occupancy import Waves, waves
from trtprof.base.op_kinds import op_kind
from trtprof.base.plan_words import FULL, NARROW
from trtprof.base.records import LayerResult
from trtprof.diagnose import Case
from trtprof.diagnose.products import Product, aligned, has_weights, main_kernel, multiplies, product_dtype, product_of

IMAGE_CHANNELS = 4
"""Input channels up to which a convolution reads an image. Kernels of 8 bits that take so few multiply four at once on
the CUDA cores (dp4a), or pad them to the 16 or 32 of a tensor core."""

_LANES = 16  # What channels are blocked by on a CPU at the most: 16 values of fp32 fill the widest vector (AVX-512)

_REDUCING = frozenset({"reduction", "softmax", "normalisation", "ranking"})


def pad(product: Product | None, step: int) -> str:
    """``pad N to a multiple of 8``: the dimensions that are none; empty where all are, or they are not known."""
    misfits = product.misfits(step) if product is not None else ()
    return f"pad {' and '.join(name for name, _ in misfits)} to a multiple of {step}" if misfits else ""


def step_of(case: Case, dtype: str) -> int:
    """What channels should be a multiple of to fill the unit that multiplies them."""
    return aligned(dtype) if case.gpu else _LANES


def half_precision(layer: LayerResult) -> str:
    """To multiply what is fp32 in fewer bits."""
    return "fp16 (--fp16)" if product_dtype(layer) in FULL else ""


def unquantised(product: Product | None, dtype: str) -> str:
    """To leave the convolution of an image unquantised: 202 us in 8 bits, 112 us in fp16 (TensorRT's ResNet, A100)."""
    if product is None or not product.convolution or product.batch > 1 or dtype not in NARROW:
        return ""
    if product.inner > IMAGE_CHANNELS:
        return ""
    return (
        f"leave it unquantised, without a Q/DQ pair in front of it, and let it run in fp16: {dtype} kernels have no "
        "use for so few input channels"
    )


def thin(case: Case, layer: LayerResult, product: Product | None) -> str:
    """The ladder for a product that is a vector's or nearly one."""
    fold = "fold the batch into M or N, so that one GEMM does it; " if product is None or product.batch > 1 else ""
    transpose = "; transpose the weight once, so that what is summed over lies innermost"
    return (
        f"{fold}write it as Mul + ReduceSum, which is fused into one pass over the data"
        f"{transpose if has_weights(case, layer) else ''}; then a hand-written kernel"
    )


def more_kernels(case: Case) -> str:
    """How to have more kernels tried for a product."""
    if case.tensorrt:
        return "a higher --builderOptimizationLevel and more workspace, so that more tactics are tried"
    return "TensorRT (--backend tensorrt), which times many kernels and takes the fastest"


def is_split(case: Case, layer: LayerResult) -> bool:
    """Whether a kernel of the layer has split what it sums already, by its name."""
    return any(name.split_k for _, name in case.kernel_names(layer))


def more_blocks(case: Case, layer: LayerResult) -> str:
    """How to cut a layer into more blocks: a product along what it sums, what reduces in two steps."""
    ways = ["a larger batch"]
    if multiplies(layer):
        ways.append("smaller tiles" if is_split(case, layer) else "smaller tiles or split-k")
    elif (engine := case.engine.get(layer.name)) is not None and op_kind(engine.op.op_type) in _REDUCING:
        ways.append("a reduction in two steps")
    return f"give it more blocks: {', or '.join(ways)}"


class Tiles(NamedTuple):
    """How the result of a product is cut into tiles, one block each."""

    tile: str  # Rows and columns of one, in the words of the kernel's name
    blocks: int  # How many there are
    sms: int  # SMs of the GPU
    grid: Waves  # How the blocks fill the SMs, one at a time on each

    @property
    def rounds(self) -> int:
        return self.grid.count

    @property
    def idle(self) -> float:
        """Share of the SMs' time in which they have no block, if all blocks take the same time."""
        return float(1 - self.grid.sm_efficiency)

    @property
    def words(self) -> str:
        """``its tiles of 128 x 64 make 60 blocks for 72 SMs``."""
        rounds = f" in {self.rounds} rounds" if self.rounds > 1 else ""
        return f"its tiles of {self.tile} make {self.blocks:,} blocks for {self.sms} SMs{rounds}"


def tiles_of(case: Case, layer: LayerResult) -> Tiles | None:
    """The tiles in the name of the kernel, or of the tactic that a plan names; None unless known for sure."""
    product, kernel = product_of(layer), main_kernel(case, layer)
    if product is None or kernel is None or case.spec is None or kernel.name.split_k or kernel.name.op == "attention":
        return None
    sides = [int(side) for side in (kernel.name.tile or "").split("x")[:2] if side.isdigit()]
    if len(sides) != 2 or not min(sides):
        return None
    # Libraries that count columns first swap both: of two numbers the larger one blames the tile less.
    counted = max(-(-product.m // rows) * -(-product.n // columns) for rows, columns in (sides, sides[::-1]))
    blocks, sms = kernel.match.blocks or product.batch * counted, int(case.spec.sms.value)
    return Tiles(f"{sides[0]} x {sides[1]}", blocks, sms, waves(blocks, 1, sms))
