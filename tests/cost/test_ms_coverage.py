"""Every op that the installed ONNX Runtime adds to ONNX has a cost, or a reason why it has none."""

from __future__ import annotations

import pytest

from tests.fakes.counting import ms_schemas
from trtprof.base.records import Op, Tensor
from trtprof.cost import COSTS, work_of

MS = "com.microsoft"

_BLOB = "what it does is in a compiled blob that only one vendor's runtime can read"
_SEARCH = "a search that runs subgraphs until the data ends it; their nodes are listed by themselves"
NOT_PRICED = {
    "EPContext": _BLOB,
    "Snpe": _BLOB,
    "BeamSearch": _SEARCH,
    "GreedySearch": _SEARCH,
    "Sampling": _SEARCH,
    "WhisperBeamSearch": _SEARCH,
    "Tokenizer": "regular expressions over strings, whose length the model does not say",
}
"""Ops of com.microsoft without a cost function, with the reason."""


def test_every_op_has_a_cost_or_a_reason() -> None:
    known = ms_schemas()
    assert len(known) > 100
    without = known - set(COSTS.keys()) - {(MS, name) for name in NOT_PRICED}
    assert not without, f"no cost and no reason: {sorted(without)}"


def test_no_reason_is_stale() -> None:
    assert not {(MS, name) for name in NOT_PRICED} & set(COSTS.keys())


@pytest.mark.parametrize("op_type", NOT_PRICED)
def test_what_has_no_cost_is_none(op_type: str) -> None:
    x = Tensor(name="x", dtype="string" if op_type == "Tokenizer" else "int32", shape=(1, 8))
    assert work_of(Op(op_type=op_type, domain=MS, inputs=(x,), outputs=(x,))) is None
