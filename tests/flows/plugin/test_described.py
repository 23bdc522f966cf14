"""What formulas call their operands; neighbours and tensors are held in `test_brief`."""

from __future__ import annotations

from trtprof.flows.plugin.described import operand_names


def test_operands_keep_their_names_where_those_are_words() -> None:
    assert operand_names([("a", "input"), ("/enc/x.0", "input"), ("w.1", "weight"), ("out", "output")]) == {
        "a": "a", "/enc/x.0": "x0", "w.1": "w", "out": "out"
    }  # fmt: skip
    assert operand_names([("k", "input"), ("t3", "output")]) == {"k": "x", "t3": "y"}
