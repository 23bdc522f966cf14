"""What a kernel must not do is found, named and placed: each kind of fault, planted."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from trtprof.plugin import ptx

pytestmark = pytest.mark.nightly


def kernel(body: str, parameters: str = ".param .u64 x, .param .u64 y", before: str = "") -> ptx.Program:
    """A kernel ``k`` whose %x and %y are pointers, %t the thread of the grid, %l that of the block."""
    return ptx.Program.parse(
        f"""
        .version 9.0
        .target sm_90
        .address_size 64
        {before}
        .visible .entry k({parameters})
        {{
          .reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<29>, %t, %l, %b, %n; .reg .b64 %d<29>, %x, %y;
          ld.param.u64 %x, [x]; ld.param.u64 %y, [y];
          mov.u32 %l, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %n, %ntid.x; mad.lo.s32 %t, %b, %n, %l;
          {body}
          ret;
        }}
        """
    )


def fault(
    body: str, kind: str, says: str, *, before: str = "", grid: int = 2, block: int = 64, shift: int = 0, **more: Any
) -> str:
    """Execute ``body``, which must fail, over x (100 numbers, read-only) and y (an output of as many)."""
    memory = ptx.Memory()
    x = memory.add("x", np.arange(100, dtype=np.float32), shift=shift)
    arguments = [x, memory.output("y", 400, shift=shift)]
    with pytest.raises(ptx.Fault) as caught:
        ptx.launch(kernel(body, before=before), "k", (grid, 1, 1), (block, 1, 1), arguments, memory, **more)
    message = str(caught.value)
    assert caught.value.kind == kind, message
    assert message.startswith(f"{kind}: ")
    assert re.search(says, message), message
    return message


ADDRESS = "mad.wide.u32 %d0, %t, 4, %x; mad.wide.u32 %d1, %t, 4, %y;"


def test_reads_past_the_end() -> None:
    message = fault(f"{ADDRESS} ld.global.b32 %r0, [%d0];", "out of bounds", "0 bytes behind the end of x")
    assert "block (1, 0, 0), thread (36, 0, 0)" in message  # 100 = 64 + 36
    assert "ld.global.b32 %r0, [%d0]" in message
    fault(f"{ADDRESS} ld.global.b32 %r0, [%d0+-4];", "out of bounds", "4 bytes before x")


def test_writes_past_the_end() -> None:
    fault(f"{ADDRESS} st.global.b32 [%d1], %t;", "out of bounds", "0 bytes behind the end of y")


def test_pointers_that_are_not_aligned() -> None:
    fault(f"{ADDRESS} ld.global.b32 %r0, [%d0];", "misaligned", "x", grid=1, shift=2)
    memory = ptx.Memory()
    x = memory.add("x", np.arange(64, dtype=np.uint16), shift=2)
    y = memory.output("y", 128, shift=6)
    body = (
        "mad.wide.u32 %d0, %t, 2, %x; mad.wide.u32 %d1, %t, 2, %y; ld.global.b16 %h0, [%d0]; st.global.b16 [%d1], %h0;"
    )
    assert (x % 256, y % 256) == (2, 6)
    counted = ptx.launch(kernel(body), "k", (1, 1, 1), (64, 1, 1), [x, y], memory)
    np.testing.assert_array_equal(memory.read("y", np.uint16, (64,)), np.arange(64))
    # 128 bytes that begin within a sector touch five; the two warps share one of them.
    assert counted.sectors_read == {"x": 5}
    assert counted.sectors_written == {"y": 5}
    assert (counted.requested_sectors_read, counted.requested_sectors_written) == (6, 6)


def test_inputs_are_not_written() -> None:
    fault(f"{ADDRESS} st.global.b32 [%d0], %t;", "read-only", "it writes x", grid=1)


def test_outputs_are_not_read_before_they_are_written() -> None:
    fault(f"{ADDRESS} ld.global.b32 %r0, [%d1];", "uninitialised", "nobody wrote, 0 bytes into y", grid=1)
    memory = ptx.Memory()
    arguments = [memory.add("x", bytes(256)), memory.output("y", 256)]
    body = (
        f"{ADDRESS} st.global.b32 [%d1], %t; ld.global.b32 %r0, [%d1]; add.u32 %r0, %r0, 1; st.global.b32 [%d1], %r0;"
    )
    ptx.launch(kernel(body), "k", (1, 1, 1), (32, 1, 1), arguments, memory)
    assert memory.unwritten("y") == 128
    np.testing.assert_array_equal(memory.read("y", np.uint32, (32,)), np.arange(32) + 1)
    assert np.isnan(memory.read("y", np.float32, (64,))[32:]).all()


def test_registers_that_were_never_set() -> None:
    fault(f"{ADDRESS} add.u32 %r1, %r0, 1; st.global.b32 [%d1], %r1;", "uninitialised", "never set", grid=1)
    fault("mul.wide.u32 %d0, %r0, 4; add.s64 %d0, %d0, %x; ld.global.b32 %r1, [%d0];", "uninitialised", "never set")
    fault("setp.eq.u32 %p0, %r0, 1; @%p0 bra END; mov.u32 %r1, 0; END:", "uninitialised", "@%p0 bra END")
    # Set by those that go one way, and used by all.
    some = "setp.lt.u32 %p0, %l, 20; @%p0 bra SKIP; mov.u32 %r0, 1; SKIP:"
    message = fault(f"{ADDRESS} {some} st.global.b32 [%d1], %r0;", "uninitialised", "never set", grid=1)
    assert "thread (0, 0, 0)" in message
    fault(f"{ADDRESS} @%p1 mov.u32 %r0, 1;", "uninitialised", "never set")


SHARED = ".shared .align 16 .b8 s[256];"


def test_shared_memory_ends_where_it_ends() -> None:
    body = "mov.u32 %r0, s; mad.lo.u32 %r0, %l, 4, %r0; st.shared.b32 [%r0+4], %l;"
    fault(SHARED + body, "out of bounds", "0 bytes behind the end of s")
    fault(SHARED + body.replace("%r0+4", "%r0+2"), "misaligned", "byte 2 of s")
    fault(SHARED + body.replace("st.shared", "st.shared::cta"), "out of bounds", "behind the end of s")


WRITE = "mov.u32 %r0, s; mad.lo.u32 %r0, %l, 4, %r0; st.shared.b32 [%r0], %l;"
OTHER = "xor.b32 %r1, %l, {}; mov.u32 %r2, s; mad.lo.u32 %r2, %r1, 4, %r2; ld.shared.b32 %r3, [%r2];"


def test_a_barrier_orders_threads() -> None:
    for distance in (1, 32):
        read = OTHER.format(distance)
        fault(SHARED + WRITE + read, "race", "no barrier is between them")
    message = fault(SHARED + WRITE + OTHER.format(33), "race", "thread .33, 0, 0. writes it too, at byte 132 of s")
    assert "ld.shared" in message

    def fine(body: str, block: int = 64) -> None:
        memory = ptx.Memory()
        arguments = [memory.add("x", bytes(4)), memory.output("y", 4)]
        for order in range(3):
            ptx.launch(kernel(body), "k", (2, 1, 1), (block, 1, 1), arguments, memory, order=order)

    fine(SHARED + WRITE + "bar.sync 0;" + OTHER.format(33))
    fine(SHARED + WRITE + "bar.warp.sync 0xffffffff;" + OTHER.format(1))
    fine(SHARED + WRITE + OTHER.format(0))
    fault(SHARED + WRITE + "bar.warp.sync 0xffffffff;" + OTHER.format(32), "race", "no barrier")
    # What is read must not be overwritten before all have read it.
    again = SHARED + WRITE + "bar.sync 0;" + OTHER.format(33) + "{} add.u32 %r4, %l, 9; st.shared.b32 [%r0], %r4;"
    fault(again.format(""), "race", "reads it too")
    fine(again.format("bar.sync 0;"))
    # All write the same.
    same = SHARED + "mov.u32 %r0, s; mov.u32 %r1, 7; st.shared.b32 [%r0], %r1;"
    fine(same)
    fault(same.replace("%r1;", "%l;"), "race", "another value")
    # Atomics order themselves, and nothing else.
    add = (
        SHARED
        + "mov.u32 %r0, s; setp.eq.u32 %p0, %l, 0; @%p0 st.shared.b32 [%r0], %l; {} atom.shared.add.u32 %r1, [%r0], 1;"
    )
    fine(add.format("bar.sync 0;"))
    fault(add.format(""), "race", "no barrier")
    fault(add.format("bar.sync 0;") + "ld.shared.b32 %r2, [%r0];", "race", "no barrier")


def test_barriers_that_some_never_reach() -> None:
    fault("setp.lt.u32 %p0, %l, 32; @%p0 ret; bar.sync 0;", "divergent barrier", "with 32 threads for 64")
    fault(
        "setp.lt.u32 %p0, %l, 3; @%p0 bra A; bar.sync 0; bra.uni E; A: bar.sync 0; E:",
        "divergent barrier",
        "another barrier",
    )
    fault(
        "setp.lt.u32 %p0, %l, 32; @%p0 bra A; bar.sync 1; bra.uni E; A: bar.sync 2; E:",
        "divergent barrier",
        "wait elsewhere",
    )
    fault(
        "setp.lt.u32 %p0, %l, 3; @%p0 bra E; shfl.sync.idx.b32 %r0, %l, 0, 31, 0xffffffff; E: bar.warp.sync -1;",
        "divergent barrier", "of its warp",
    )  # fmt: skip
    fault("bar.warp.sync 0x0000ffff;", "divergent barrier", "take part")


def test_loops_without_end() -> None:
    fault("AGAIN: bra.uni AGAIN;", "endless", "more than 1000 instructions", budget=1000)


def test_instructions_that_are_not_known() -> None:
    message = fault("frobnicate.sync.b32 %r0, %l;", "unknown instruction", "frobnicate.sync.b32 %r0, %l")
    assert "block (0, 0, 0)" in message
    # Where nobody goes it may stand.
    memory = ptx.Memory()
    arguments = [memory.add("x", bytes(4)), memory.output("y", 4)]
    ptx.launch(kernel("bra.uni E; frobnicate.b32 %r0; E:"), "k", (1, 1, 1), (32, 1, 1), arguments, memory)
    for text in (
        ".version 9.0\n.target sm_90\n.foo bar;",
        ".visible .entry k( {",
        "hello",
        ".visible .entry k() { add.s32 %r1, %r2; }",
    ):
        with pytest.raises(ptx.Fault, match="unknown instruction"):
            ptx.Program.parse(text)


COPY = SHARED + (
    "mov.u32 %r0, s; mad.lo.u32 %r0, %l, 4, %r0; mad.wide.u32 %d0, %l, 4, %x;"
    "cp.async.ca.shared.global [%r0], [%d0], 4;"
    "cp.async.commit_group; {} ld.shared.b32 %r1, [%r0]; mad.wide.u32 %d1, %t, 4, %y; st.global.b32 [%d1], %r1;"
)


def test_asynchronous_copies_are_waited_for() -> None:
    fault(COPY.format(""), "race", "still being copied", grid=1)
    fault(COPY.format("cp.async.wait_group 1;"), "race", "still being copied", grid=1)
    for wait in ("cp.async.wait_group 0;", "cp.async.wait_all;", "cp.async.wait_group 0; bar.sync 0;"):
        memory = ptx.Memory()
        arguments = [memory.add("x", np.arange(64, dtype=np.int32)), memory.output("y", 256)]
        ptx.launch(kernel(COPY.format(wait)), "k", (1, 1, 1), (64, 1, 1), arguments, memory)
        np.testing.assert_array_equal(memory.read("y", np.int32, (64,)), np.arange(64))
    # A buffer that others still read is not copied into.
    body = COPY.format("cp.async.wait_all; bar.sync 0;") + OTHER.format(33)
    fault(body + "cp.async.ca.shared.global [%r0], [%d0], 4;", "race", "reads it too", grid=1)
