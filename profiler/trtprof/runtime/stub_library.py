"""A shared library that has the names that another links and nothing behind them, made without a compiler.

The bindings of TensorRT link its builder and its parser, which weigh gigabytes; its registry of plugins is in the lean
runtime, which does not. A library that only has the other names lets the bindings load beside the lean runtime.

The layout is that of the System V ABI (generic part, chapters 4 and 5): a header, two segments, symbols with a hash
table of one chain.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Sequence

from trtprof.base.errors import MissingError

_RETURN_0 = {"x86_64": (62, b"\x31\xc0\xc3"), "aarch64": (183, b"\x00\x00\x80\x52\xc0\x03\x5f\xd6")}
"""By machine: its number in an ELF header, and ``return 0`` in its instructions."""

_HEADER, _SEGMENT, _SYMBOL, _TAG = "<16sHHIQQQIHHHHHH", "<IIQQQQQQ", "<IBBHQQ", "<qQ"
_LOAD, _DYNAMIC, _STACK = 1, 2, 0x6474E551
_READ_EXECUTE, _READ_WRITE = 5, 6
_HASH, _STRTAB, _SYMTAB, _STRSZ, _SYMENT = 4, 5, 6, 10, 11
_GLOBAL_FUNCTION = 1 << 4 | 2
_PAGE = 0x10000  # A multiple of every page size in use


def stub_library(names: Sequence[str]) -> bytes:
    """The bytes of a shared library (ELF) for this machine: functions of these names that return 0."""
    machine = platform.machine()
    if machine not in _RETURN_0:
        raise MissingError(f"no stub library is made for {machine}", why=f"known are {', '.join(_RETURN_0)}")
    number, code = _RETURN_0[machine]
    count = len(names) + 1
    strings, symbols = b"\0", struct.pack(_SYMBOL, 0, 0, 0, 0, 0, 0)
    at_code = struct.calcsize(_HEADER) + 4 * struct.calcsize(_SEGMENT)
    for name in names:
        symbols += struct.pack(_SYMBOL, len(strings), _GLOBAL_FUNCTION, 0, 1, at_code, len(code))
        strings += name.encode() + b"\0"
    # One bucket, and a chain from the last symbol to the first: what a name hashes to does not matter then.
    hashes = struct.pack(f"<{3 + count}I", 1, count, count - 1, *(max(index - 1, 0) for index in range(count)))
    text, places = code, []
    for part in (symbols, hashes, strings, b""):
        text += b"\0" * (-len(text) % 16)
        places.append(at_code + len(text))
        text += part
    at_symbols, at_hashes, at_strings, at_tags = places
    tags = b"".join(
        struct.pack(_TAG, *tag)
        for tag in (
            (_HASH, at_hashes), (_STRTAB, at_strings), (_SYMTAB, at_symbols), (_STRSZ, len(strings)),
            (_SYMENT, struct.calcsize(_SYMBOL)), (0, 0),
        )
    )  # fmt: skip
    # The linker writes to the tags: they are in a segment of their own, a page further on in memory.
    tags_of = (at_tags, at_tags + _PAGE, at_tags + _PAGE, len(tags), len(tags))
    segments = b"".join(
        struct.pack(_SEGMENT, *segment)
        for segment in (
            (_LOAD, _READ_EXECUTE, 0, 0, 0, at_tags, at_tags, _PAGE), (_LOAD, _READ_WRITE, *tags_of, _PAGE),
            (_DYNAMIC, _READ_WRITE, *tags_of, 8), (_STACK, _READ_WRITE, 0, 0, 0, 0, 0, 16),
        )
    )  # fmt: skip
    ident = b"\x7fELF" + bytes((2, 1, 1))
    header = struct.pack(
        _HEADER, ident, 3, number, 1, 0, struct.calcsize(_HEADER), 0, 0, struct.calcsize(_HEADER),
        struct.calcsize(_SEGMENT), 4, 0, 0, 0,
    )  # fmt: skip
    return header + segments + text + tags
