"""Text files that people send: of any size that is sane, in any encoding that a shell writes."""

from __future__ import annotations

import codecs
from pathlib import Path

from trtprof.base.errors import MissingError, UsageError
from trtprof.base.input_file import read_file

_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_HEAD = 1 << 16


def read_text_file(
    path: Path, *, what: str, fix: str, binary: str = "it may be an engine itself, whose content only TensorRT can read"
) -> str:
    """The text of a file of ``what``."""
    try:
        data = read_file(path, what=what, fix=fix)
    except FileNotFoundError:
        raise MissingError(f"there is no file {path}", fix=fix) from None
    except OSError as error:
        raise MissingError(f"{path} cannot be read", why=error.strerror or str(error), fix=fix) from None
    encoding = next((name for bom, name in _BOMS if data.startswith(bom)), "")
    if not encoding and b"\0" in data[:_HEAD]:
        why = "it is an ONNX model" if path.suffix == ".onnx" else binary
        raise UsageError(f"{path} is a binary file, not {what}", why=why, fix=fix)
    text = data.decode(encoding or "utf-8", errors="replace")
    if not text.strip():
        raise UsageError(f"{path} is empty", why=f"{what} was expected", fix=fix)
    return text


def is_unicode(text: str) -> bool:
    """Whether text can be written as UTF-8; half of a surrogate pair, as in a file name in another encoding, cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def visible(text: str, *, ascii_only: bool = False, keep: str = "") -> str:
    r"""``text`` with every character that could steer a terminal or hide on a page escaped, except those of ``keep``.

    Names come from files by others. Control characters, bidirectional overrides, line breaks and
    lone surrogates are shown as ``\x1b``, ``\u202e`` and so on; spaces stay.
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)
    return text.encode("ascii", "backslashreplace").decode() if ascii_only else text
