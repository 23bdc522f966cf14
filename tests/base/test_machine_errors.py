"""What the machine refuses is told in words of ours, whoever met it."""

from __future__ import annotations

import errno

import numpy as np
import pyarrow as pa
import pytest

from trtprof.base.errors import MissingError
from trtprof.base.machine_errors import as_error


def _of_numpy() -> BaseException:
    with pytest.raises(MemoryError) as caught:
        np.empty((1 << 40, 1 << 10), np.float32)
    return caught.value


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (_of_numpy(), "an array of 1099511627776x1024 float32 takes 4504 TB"),
        (pa.ArrowMemoryError("malloc of size 4194304 failed"), "a library asked for 4.19 MB at once"),
        (MemoryError("Expand 'e': requested buffer of size 4398046511104"), "Expand 'e' asked for 4.40 TB at once"),
        (MemoryError("std::bad_alloc"), "the system gives no more to this process"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "[Errno 12] Cannot allocate memory"),
    ],
)
def test_too_little_memory_is_told_with_how_much_was_asked_for(error: BaseException, why: str) -> None:
    told = as_error(error)
    assert told is not None
    assert (told.what, told.why, told.exit_code) == ("not enough memory", why, 3)
    assert "smaller batch" in told.fix


@pytest.mark.parametrize(
    ("error", "what", "fix"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "a"), "a cannot be written", "make room"),
        (OSError(errno.EFBIG, "File too large", "a"), "a cannot be written", "ulimit -f"),
        (
            MissingError("a cannot be written", why="File too large", fix="choose another folder"),
            "a cannot be written",
            "ulimit -f",
        ),
        (RuntimeError("write: No space left on device"), "a file cannot be written", "make room"),
        (RuntimeError("write: File too large"), "a file cannot be written", "ulimit -f"),
        (RuntimeError("Failed to write external initializers to file: w"), "a file cannot be written", "ulimit -f"),
        (RuntimeError("is_open() was false. Failed to open for writing:w"), "a file cannot be written", "make room"),
        (RuntimeError("Protobuf serialization failed."), "a file cannot be written", "make room"),
    ],
)
def test_what_cannot_be_written_is_one_error(error: BaseException, what: str, fix: str) -> None:
    told = as_error(error)
    assert told is not None
    assert (told.what, told.exit_code) == (what, 3)
    assert fix in told.fix


def test_a_bug_stays_one() -> None:
    assert as_error(RuntimeError("a bug")) is None
