"""Lines of a TOML file, as `tomllib` would tell them."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trtprof.flows.fleet.toml_places import Path, lines_of

pytestmark = pytest.mark.nightly

TEXT = '''# a comment
name = "x # [[no]]" # another
[options]
"a b".c = 1
text = """
[[models]]
\\"""
files = 1
"""
[[models]]
files = [
  "a", # ], "
  'b]',
]
sizes = {seq = [1, 2], "x y" = 3}
day = 1979-05-27 07:32:00Z
[[models]]
files = "z"
  [models.options]
  duration = 1
  [[models.parts]]
  x = 1
[[ targets ]]
gpu = 'l4'
'''


def test_what_stands_where() -> None:
    found = lines_of(TEXT)
    assert found["name",] == 2
    assert found["options", "a b", "c"] == 4
    assert [found["models", at] for at in (0, 1)] == [10, 17]
    assert [found["models", 0, "files", at] for at in (0, 1)] == [12, 13]
    assert found["models", 0, "sizes", "x y"] == found["models", 0, "sizes", "seq", 1] == 15
    assert found["models", 0, "day"] == 16
    assert found["models", 1, "options", "duration"] == 20
    assert found["models", 1, "parts", 0, "x"] == 22
    assert found["targets", 0, "gpu"] == 24


def paths(value: object, at: Path = ()) -> set[Path]:
    """Everything in a document."""
    inner: list[tuple[Any, object]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return {path for key, each in inner for path in ({(*at, key)} | paths(each, (*at, key)))}


SCALARS = st.sampled_from([
    "1", "-0.5e3", "true", "inf", '"a"', "'b'", '"\\"]"', "'#'", '"""x\n]"""', "'''\n\n'''", "1979-05-27",
    "1979-05-27 07:32:00", "07:32:00", "0x1F", '"""a"\\""""',
])  # fmt: skip
BLANKS = st.sampled_from(["", " ", "\n", " # ] } \n", "\r\n\t"])


def lists(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(st.tuples(BLANKS, values, BLANKS), max_size=3).map(
        lambda parts: "[" + ",".join("".join(part) for part in parts) + "\n]"
    )


VALUES = st.recursive(SCALARS, lists, max_leaves=6)
KEYS = st.sampled_from(["a", "b-1", '"c d"', "'e.f'", "3"])


@given(st.lists(st.tuples(KEYS, VALUES), max_size=4, unique_by=lambda pair: pair[0]),
       st.lists(st.lists(st.tuples(KEYS, VALUES), max_size=3, unique_by=lambda pair: pair[0]), max_size=3))  # fmt: skip
def test_everything_that_tomllib_reads_has_the_line_where_its_key_stands(
    top: list[tuple[str, str]], tables: list[list[tuple[str, str]]]
) -> None:
    text = "".join(f"{key} = {value}\n" for key, value in top)
    want: dict[Path, int] = {}

    def key_of(key: str) -> str:
        return next(iter(tomllib.loads(f"{key} = 1")))

    line = 1
    for key, value in top:
        want[key_of(key),] = line
        line += value.count("\n") + 1
    for at, pairs in enumerate(tables):
        text += "[[t]]\n"
        want["t", at] = line
        line += 1
        for key, value in pairs:
            text += f"{key} = {{ k.l = {'1'} }}\n" if value == "1" else f"{key} = {value}\n"
            want["t", at, key_of(key)] = line
            line += value.count("\n") + 1
    found = lines_of(text)
    assert want.items() <= found.items()
    assert paths(tomllib.loads(text)) == set(found)
