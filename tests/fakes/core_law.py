"""What every `records.Core` must agree with: the multiply-accumulates of the work that it is the core of."""

from __future__ import annotations

from trtprof.base.records import Work


def keeps_the_law(work: Work) -> bool:
    """Whether the dimensions of a core give the products of its work; of one that multiplies nothing, that none are.

    Those of a product or convolution are all products, or nine tenths and more of them, or are done several times.
    Those of an attention are at least so many, under a causal mask about twice as many.
    """
    core, flops = work.core, work.tensor_flops
    if core is None:
        return True
    if min(core.batch, core.m, core.n, core.k, core.window, core.stride, core.shared) < 1 or core.k % core.window:
        return False
    each = 2 * core.batch * core.m * core.n * core.k
    if core.kind in ("product", "convolution"):
        return flops > 0 and (flops % each == 0 or 0.9 * flops <= each <= flops)
    if core.kind == "attention":
        return 0 < 0.9 * flops <= 2 * each and (core.causal or 2 * each <= 2 * flops) and core.batch % core.shared == 0
    return flops == 0
