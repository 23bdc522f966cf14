"""TOML that nobody wrote by hand is refused, and soon."""

from __future__ import annotations

import pytest

from trtprof.base.toml_file import parse_toml


@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * 200_000 + " = 1",
        "[" + "'a' . " * 200_000 + "a]",
        "x = " + "[" * 20_000,
        "x = " + "{a=" * 20_000,
        "x = " + "9" * 5000,
        "x = 1\nx = 2",
    ],
)
def test_what_is_no_toml_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_toml(text)


def test_long_lines_of_texts_are_no_deep_keys() -> None:
    text = "x = [" + ", ".join(f'"a/b.c.{number}.onnx"' for number in range(5000)) + "]\ny = '" + "a" * 100_000 + "'"
    assert len(parse_toml(text)["x"]) == 5000
