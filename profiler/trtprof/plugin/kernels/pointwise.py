"""Element-wise nodes alone, with broadcasts."""

from __future__ import annotations

from trtprof.plugin.chain import ELEMENTWISE, Chain
from trtprof.plugin.form import Form, NoFitError
from trtprof.plugin.task import Task


def fits(task: Task) -> Form:
    """Element-wise nodes, all of whose outputs have the same shape."""
    chain = Chain(task)
    for node in chain.nodes:
        if node.op_type not in ELEMENTWISE:
            raise NoFitError(f"{node.op_type} is not an element-wise op that is known")
    dims = task.outputs[0].dims
    if not dims:
        raise NoFitError("it computes a single number")
    chain.size("N", dims)
    walk = [("i", dims, "i < N")]
    known: dict[str, str] = {}
    lines = chain.lines(chain.nodes, walk, known)
    # An open number of elements is passed in 32 bits.
    wide = ".to(tl.int64)" if "N" in chain.sizes and chain.wide else ""
    first = f"tl.program_id(0){wide} * BLOCK"
    lines = [f"i = {first} + tl.arange(0, BLOCK)", *lines, *chain.stores(list(task.body.output), walk, known)]
    tactics = [{"BLOCK": block, "num_warps": warps} for block, warps in ((512, 4), (1024, 4), (1024, 8), (2048, 8))]
    return chain.form("pointwise", lines, tactics, ["cdiv(N, BLOCK)"])
