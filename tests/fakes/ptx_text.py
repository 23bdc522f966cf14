"""PTX around a few instructions: each thread reads an element of each input, and writes one result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from trtprof.plugin import ptx

Array = npt.NDArray[Any]


def module(body: str, inputs: int, sizes: Sequence[int], result: int, *, shared: int = 0) -> str:
    """A kernel ``k``: %in0, %in1, ... of ``sizes`` bits are read, ``body`` sets %out of ``result`` bits."""
    parameters = ", ".join(f".param .u64 p{place}" for place in range(inputs + 1))
    text = [
        ".version 9.0", ".target sm_90", ".address_size 64", f".visible .entry k({parameters})", "{",
        "  .reg .pred %p<10>; .reg .b16 %h<20>; .reg .b32 %r<40>; .reg .b64 %d<40>; .reg .b64 %a<10>;",
        f"  .reg .b{result} %out;", "  .reg .b32 %lane, %block, %size;",
        f"  .shared .align 16 .b8 room[{shared}];" if shared else "",
        "  mov.u32 %lane, %tid.x; mov.u32 %block, %ctaid.x; mov.u32 %size, %ntid.x;",
        "  mad.lo.s32 %r39, %block, %size, %lane;",
    ]  # fmt: skip
    for place, size in enumerate(sizes):
        text += [
            f"  .reg .b{size} %in{place};", f"  ld.param.u64 %a0, [p{place}];",
            f"  mad.wide.u32 %a1, %r39, {size // 8}, %a0;", f"  ld.global.b{size} %in{place}, [%a1];",
        ]  # fmt: skip
    text += [
        body, f"  ld.param.u64 %a0, [p{inputs}];", f"  mad.wide.u32 %a1, %r39, {result // 8}, %a0;",
        f"  st.global.b{result} [%a1], %out;", "  ret;", "}",
    ]  # fmt: skip
    return "\n".join(text)


def execute(
    body: str, inputs: Sequence[Array], dtype: npt.DTypeLike, *, block: int = 0, shared: int = 0, order: int = 0
) -> Array:
    """What ``body`` makes of each element of the inputs, of which all have as many."""
    count = inputs[0].size
    sizes = [one.dtype.itemsize * 8 for one in inputs]
    threads = block or min(count, 256)
    assert count % threads == 0
    text = module(body, len(inputs), sizes, np.dtype(dtype).itemsize * 8, shared=shared)
    memory = ptx.Memory()
    arguments = [memory.add(f"in{place}", one) for place, one in enumerate(inputs)]
    arguments.append(memory.output("out", count * np.dtype(dtype).itemsize))
    program = ptx.Program.parse(text)
    ptx.launch(program, "k", (count // threads, 1, 1), (threads, 1, 1), arguments, memory, order=order)
    return memory.read("out", dtype, (count,))
