"""Sectors, passes over shared memory, instructions: counted as the definitions say."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from trtprof.plugin import ptx

Array = npt.NDArray[Any]


def run(body: str, x: Array, block: int = 32, grid: int = 1) -> ptx.Counted:
    text = f"""
        .version 9.0
        .target sm_90
        .address_size 64
        .visible .entry k(.param .u64 x, .param .u64 o)
        {{
          .shared .align 16 .b8 s[8192];
          .reg .pred %p<9>; .reg .b32 %r<29>, %l; .reg .b64 %d<9>, %x, %o;
          ld.param.u64 %x, [x]; ld.param.u64 %o, [o]; mov.u32 %l, %tid.x;
          mul.wide.u32 %d0, %l, 4; add.s64 %d0, %d0, %o;
          {body}
          ret;
        }}
        """
    memory = ptx.Memory()
    pointers = [memory.add("x", x), memory.add("o", np.arange(1024, dtype=np.uint32))]
    return ptx.launch(ptx.Program.parse(text), "k", (grid, 1, 1), (block, 1, 1), pointers, memory)


OFFSETS = "ld.global.u32 %r0, [%d0]; mul.wide.u32 %d1, %r0, {}; add.s64 %d1, %d1, %x;"


def test_sectors_of_a_stride(subtests: pytest.Subtests) -> None:
    for stride, sectors in ((0, 1), (1, 1), (4, 4), (8, 8), (16, 16), (32, 32), (64, 32), (128, 32)):
        with subtests.test(f"{stride} {sectors}"):
            size = min(stride, 4) or 4
            kind = {1: "u8", 4: "u32"}[size]
            counted = run(OFFSETS.format(stride) + f"ld.global.{kind} %r1, [%d1];", np.zeros(8192, np.uint8))
            assert counted.sectors_read == {"o": 4, "x": sectors}
            assert counted.requested_sectors_read == 4 + sectors


def test_what_one_warp_asks_for_twice_is_read_once() -> None:
    body = "ld.global.u32 %r1, [%x+64]; ld.global.u32 %r2, [%x+68];"
    counted = run(body, np.zeros(256, np.uint8), block=128, grid=5)
    assert counted.sectors_read == {"x": 1}
    assert counted.requested_sectors_read == 2 * 4 * 5
    assert counted.instructions == 4 * 5 * 8


def conflicts(offsets: list[int], size: int) -> int:
    """By the definition: 32 banks of 4 bytes, phases of 128 bytes, each word of a bank a pass."""
    per_phase = 32 if size <= 4 else 128 // size
    found = 0
    for first in range(0, len(offsets), per_phase):
        banks: dict[int, set[int]] = {}
        for one in offsets[first : first + per_phase]:
            for word in range(one // 4, (one + size - 1) // 4 + 1):
                banks.setdefault(word % 32, set()).add(word)
        found += max(len(words) for words in banks.values()) - 1
    return found


def test_conflicts_of_banks(subtests: pytest.Subtests) -> None:
    for stride in (1, 2, 3, 4, 5, 8, 16, 32, 33):
        for size in (1, 2, 4, 8, 16):
            with subtests.test(f"{size} {stride}"):
                text = {1: "b8 [%r0], %l", 2: "b16 [%r0], %h0", 4: "b32 [%r0], %l", 8: "v2.b32 [%r0], {%l, %l}",
                        16: "v4.b32 [%r0], {%l, %l, %l, %l}"}[size]  # fmt: skip
                step = stride * size if size <= 4 else stride * size % 256 or 256
                body = ".reg .b16 %h0; cvt.u16.u32 %h0, %l; mov.u32 %r0, s;"
                body += f" mad.lo.u32 %r0, %l, {step}, %r0; st.shared.{text};"
                counted = run(body, np.zeros(4, np.uint8))
                assert counted.bank_conflicts == conflicts([lane * step for lane in range(32)], size)


def test_a_transpose_through_shared_memory() -> None:
    # Columns of 32 numbers: 32 passes; with a number of padding none but one.
    for pitch, passes in ((128, 31), (132, 0)):
        body = (
            f"mov.u32 %r0, s; mad.lo.u32 %r1, %l, {pitch}, %r0; st.shared.b32 [%r1], %l; bar.sync 0;"
            "setp.gt.u32 %p0, %l, 99; @%p0 ld.shared.b32 %r2, [%r1];"
        )
        assert run(body, np.zeros(4, np.uint8)).bank_conflicts == passes


def test_atomics_are_read_and_written() -> None:
    program = """
        .visible .entry k(.param .u64 x)
        { .reg .b32 %r<9>; .reg .b64 %x; ld.param.u64 %x, [x]; mov.u32 %r0, 1; red.global.add.u32 [%x+32], %r0; ret; }
        """
    memory = ptx.Memory()
    pointer = memory.add("x", np.zeros(64, np.uint32), writable=True)
    counted = ptx.launch(ptx.Program.parse(program), "k", (100, 1, 1), (64, 1, 1), [pointer], memory)
    assert memory.read("x", np.uint32, (64,)).tolist() == [0] * 8 + [6400] + [0] * 55
    assert counted.sectors_read == {"x": 1}
    assert counted.sectors_written == {"x": 1}
    assert counted.requested_sectors_written == 200
