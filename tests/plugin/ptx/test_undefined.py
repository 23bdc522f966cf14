"""Registers of which some bits were never set: each instruction leaves undefined what hangs on them, and no more."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fakes.ptx_text import execute
from trtprof.plugin import ptx

A = np.arange(64, dtype=np.uint32)
ALL = 0xFFFFFFFF
# %r0 was never set by anybody; of %r9 the bytes in the middle are undefined, of %r8 the upper half.
START = "and.b32 %r9, %r0, 0x00FFFF00; and.b32 %r8, %r0, 0xFFFF0000;"

BITS = {
    "and.b32 %r1, %r0, 0x00FFFF00;": 0x00FFFF00,
    "and.b32 %r1, %r9, %r8;": 0x00FF0000,
    "or.b32 %r1, %r0, 0x00FFFF00;": 0xFF0000FF,
    "xor.b32 %r1, %r9, %in0;": 0x00FFFF00,
    "not.b32 %r1, %r9;": 0x00FFFF00,
    "lop3.b32 %r1, %r9, 0x0FF0, 0, 0xCA;": 0x00000F00,  # a ? b : c
    "lop3.b32 %r1, %r9, %in0, %in0, 0xCA;": 0,
    "shl.b32 %r1, %r9, 4;": 0x0FFFF000,
    "shr.u32 %r1, %r9, 12;": 0x00000FFF,
    "shr.s32 %r1, %r8, 8;": 0xFFFFFF00,  # its sign is undefined
    "shl.b32 %r1, %in0, %r9;": ALL,
    "shf.l.wrap.b32 %r1, %r9, %in0, 16;": 0x000000FF,
    "shf.r.clamp.b32 %r1, %in0, %r9, 24;": 0xFFFF0000,
    "bfe.u32 %r1, %r9, 4, 8;": 0x000000F0,
    "bfe.s32 %r1, %r9, 4, 8;": 0xFFFFFFF0,
    "bfi.b32 %r1, %r9, %in0, 4, 8;": 0,
    "bfi.b32 %r1, %in0, %r9, 8, 8;": 0x00FF0000,
    "bfi.b32 %r1, %in0, %in0, 8, %r9;": ALL,
    "prmt.b32 %r1, %r9, %in0, 0x4021;": 0x0000FFFF,
    "prmt.b32 %r1, %r9, %in0, 0x0009;": 0x000000FF,  # the sign of the second byte
    "prmt.b32 %r1, %in0, 3, 0x7654;": 0,
    "prmt.b32 %r1, %in0, %in0, %r9;": ALL,
    "cvt.u16.u32 %h1, %in0; mov.b32 %r1, {%h1, %h0};": 0xFFFF0000,
    "mov.b32 {%h1, %h2}, %r9; cvt.u32.u16 %r1, %h1;": 0x0000FF00,
    "mov.b64 %d0, {%r8, %r9}; mov.b64 {%r2, %r1}, %d0;": 0x00FFFF00,
    "mov.b64 %d0, {%r8, %r9}; shr.u64 %d0, %d0, 16; cvt.u32.u64 %r1, %d0;": 0xFF00FFFF,
    "cvt.u32.u8 %r1, %r9;": 0,
    "cvt.u32.u16 %r1, %r9;": 0x0000FF00,
    "cvt.s32.s16 %r1, %r9;": 0xFFFFFF00,
    "cvt.rn.f32.u8 %r1, %r9;": 0,
    "cvt.rn.f32.u16 %r1, %r9;": ALL,
    "setp.lt.u32 %p0, %in0, 99; selp.b32 %r1, %in0, %r9, %p0;": 0,
    "setp.gt.u32 %p0, %in0, 99; selp.b32 %r1, %in0, %r9, %p0;": 0x00FFFF00,
    "setp.eq.u32 %p0, %r9, 99; selp.b32 %r1, %in0, %in0, %p0;": ALL,
    "slct.b32.s32 %r1, %in0, %r9, 5;": 0,
    "dp2a.lo.u32.u32 %r1, %in0, %r8, 0;": 0,
    "dp2a.hi.u32.u32 %r1, %in0, %r8, 0;": ALL,
    "dp4a.u32.u32 %r1, %in0, %r8, 0;": ALL,
    "add.u32 %r1, %r9, 0;": ALL,
    "shfl.sync.idx.b32 %r1|%p0, %r9, 0, 31, -1;": 0x00FFFF00,
    "shfl.sync.idx.b32 %r2|%p0, %r9, 0, 31, -1; selp.b32 %r1, 1, 0, %p0;": 0,
    "add.cc.u32 %r2, %r9, 1; addc.u32 %r1, 0, 0;": ALL,
    "sub.cc.u32 %r2, %in0, 1; subc.u32 %r1, 0, 0;": 0,
    # What is set again is defined, whatever it was before.
    "mov.b32 %r1, %r9; mov.b32 %r1, %in0;": 0,
    "mov.b64 %d0, {%r8, %r9}; mov.b64 %d0, {%in0, %in0}; mov.b64 {%r2, %r1}, %d0;": 0,
    "mov.b32 %r1, %r9; ld.global.v2.b32 {%r1, %r2}, [%a2];": 0,
    # Registers that are read and written by the same instruction.
    "and.b32 %r9, %r9, 0xFF00; mov.b32 %r1, %r9;": 0x0000FF00,
    "mov.b32 %r1, 8; shl.b32 %r1, %r9, %r1;": 0xFFFF0000,
    "mov.b32 %r1, 0x4021; prmt.b32 %r1, %r9, %in0, %r1;": 0x0000FFFF,
    "mov.b64 %d0, {%r9, %in0}; mov.b64 {%r9, %r1}, %d0; mov.b64 %d0, {%r1, %r9}; mov.b64 {%r2, %r1}, %d0;": 0x00FFFF00,
}


def bits_of(body: str) -> int:
    """Undefined bits of %r1, each found by a kernel that takes it alone."""
    found = 0
    for place in range(32):
        take = f"and.b32 %out, %r1, {1 << place};"
        try:
            execute(f"ld.param.u64 %a2, [p0]; {START} {body} {take}", [A], np.uint32)
        except ptx.Fault as error:
            if error.kind != "uninitialised":
                raise
            found |= 1 << place
    return found


@pytest.mark.nightly
def test_what_is_undefined_of_a_result(subtests: pytest.Subtests) -> None:
    for body, bits in BITS.items():
        with subtests.test(body):
            assert f"{bits_of(body):08x}" == f"{bits:08x}"
