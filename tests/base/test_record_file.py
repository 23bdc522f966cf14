"""Records are read from files of any content with one error, and never with a number that nothing can have."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from trtprof.base import record_file
from trtprof.base.errors import UsageError
from trtprof.base.record_file import decoded, read_record


class _Told(msgspec.Struct):
    ns: int = 0
    speed: float = 1.0
    name: str = ""
    shares: dict[str, int] = {}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "truncated"),
        (b"[]", "Expected `object`"),
        (b"[" * 100_000, "Expected `object`"),
        (b'{"other": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "too many levels deep"),
        (b'{"name": "\xff"}', "no UTF-8"),
        ('{"name": "x"}'.encode("utf-16"), "malformed"),
        (b'{"speed": NaN}', "malformed"),
        (b'{"speed": 1e999}', "out of range"),
        (b'{"speed": 1e300}', "larger than any"),
        (b'{"ns":' + b"9" * 30 + b"}", "larger than any"),
        (b'{"ns": -' + b"9" * 30 + b"}", "larger than any"),
        (b'{"shares": {"a": ' + b"9" * 30 + b"}}", "larger than any"),
        (b'{"ns": ' + b"9" * 5_000 + b"}", "out of range"),
    ],
    ids=lambda value: value[:20] if isinstance(value, bytes) else value,
)
def test_what_is_no_record_is_said_in_words(data: bytes, why: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=why):
        decoded(data, _Told)
    (tmp_path / "a.json").write_bytes(data)
    with pytest.raises(UsageError, match=r"a\.json cannot be read"):
        read_record(tmp_path / "a.json", _Told, what="a record", fix="write it again")


@pytest.mark.parametrize("name", ["layer 1,9999999999999999999999,2", "1e300", ", 1e99, "])
def test_numbers_in_names_are_no_numbers(name: str) -> None:
    told = _Told(ns=record_file.MAX_INT, speed=record_file.MAX_FLOAT, name=name)
    assert decoded(msgspec.json.encode(told), _Told) == told
