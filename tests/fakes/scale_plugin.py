"""A plugin with two integers, one size, two tactics and two outputs, for tests that need any plugin."""

from __future__ import annotations

from tests.fakes import kernel_tasks
from trtprof.plugin.form import Form
from trtprof.plugin.task import Task

_BODY = """
@triton.jit
def scale(x, w, N, M, s, y, K: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < N * M * K
    a = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(w + at // (M * K), mask=inside, other=0.0).to(tl.float32)
    tl.store(s + at, a * b, mask=inside)
    tl.store(y + at, a * b + a, mask=inside)
"""
_TACTICS = {1: {"BLOCK": 256, "num_warps": 4}, 2: {"BLOCK": 512, "num_warps": 8}}
_GRID = ("cdiv(K, 4) * cdiv(N * M * K, BLOCK)", "1", "1")
FORM = Form("scale", "s = x * w; y = s + x", _BODY, {"K": 4}, _TACTICS, {"N": "x[0]", "M": "x[1]"}, _GRID)


def task(dtype: str = "fp32", weights: str = "") -> Task:
    """Of rows and columns that are open, and four channels."""
    nodes = [kernel_tasks.node("Mul", "x w", "s"), kernel_tasks.node("Add", "s x")]
    whole = (dtype, ("n", "m", 4))
    return kernel_tasks.task(
        nodes, {"x": whole, "w": (weights or dtype, ("n", 1, 1))}, {"s": whole, "y": whole}, name="Scale"
    )
