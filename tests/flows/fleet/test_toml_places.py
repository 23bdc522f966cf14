"""Lines of a TOML file, as `tomllib` would tell them."""

from __future__ import annotations

import pytest

from trtprof.flows.fleet.toml_places import lines_of

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
