"""What the machine refuses is one error in words, whoever met it."""

from __future__ import annotations

import errno

import pyarrow as pa
import pytest

from trtprof.base.machine_errors import as_error

ERRORS = (
    (pa.ArrowMemoryError("malloc of size 4194304 failed"), "not enough memory", "smaller batch"),
    (MemoryError(), "not enough memory", "smaller batch"),
    (OSError(errno.ENOMEM, "Cannot allocate memory"), "not enough memory", "smaller batch"),
    (OSError(errno.ENOSPC, "No space left on device", "a"), "a cannot be written", "make room"),
    (OSError(errno.EFBIG, "File too large", "a"), "a cannot be written", "ulimit -f"),
    (RuntimeError("write: No space left on device"), "a file cannot be written", "make room"),
    (RuntimeError("Failed to write external initializers to file: w"), "a file cannot be written", "ulimit -f"),
    (OSError(errno.EMFILE, "Too many open files", "a"), "a cannot be used", "ulimit -n"),
    (OSError(errno.EMFILE, "Too many open files"), "the system refuses", "ulimit -n"),
)


def test_what_the_machine_refuses_is_one_error(subtests: pytest.Subtests) -> None:
    for error, what, fix in ERRORS:
        with subtests.test(repr(error)):
            found = as_error(error)
            assert found is not None
            assert (found.what, found.exit_code) == (what, 3)
            assert fix in found.fix
    name = as_error(UnicodeEncodeError("utf-8", "a\udcff", 1, 2, "surrogates not allowed"))
    assert name is not None
    assert name.what == "a name is no UTF-8: 'a\\udcff'"
    assert as_error(RuntimeError("a bug")) is None
