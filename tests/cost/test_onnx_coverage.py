"""Every op of ONNX at every version, and every op that ONNX Runtime adds, has a cost or a reason why not."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from onnx import defs

from tests.fakes.counting import ms_schemas
from trtprof.base.records import Op, Tensor
from trtprof.cost import COSTS, work_of
from trtprof.cost.functions import has_body

MS = "com.microsoft"
DOMAINS = ("", "ai.onnx.preview", "ai.onnx.preview.training")
NOT_RUN = {
    (
        "ai.onnx.preview.training",
        "Gradient",
    ): "stands for the derivative of a graph that names it, and is not run itself"
}
"""Ops without a cost, with the reason."""


@cache
def versions(domain: str) -> list[Any]:
    """Every version of every op of a domain, in the order of their names."""
    found = {(s.name, s.since_version): s for s in (*defs.get_all_schemas_with_history(), *defs.get_all_schemas())
             if s.domain == domain}  # fmt: skip
    return [found[key] for key in sorted(found)]


def unpriced(domain: str) -> list[str]:
    """Versions in use that neither have a cost function nor a body."""
    return [
        f"{schema.name}-{schema.since_version}"
        for schema in versions(domain)
        if not schema.deprecated
        and (domain, schema.name) not in NOT_RUN
        and COSTS.get((domain, schema.name), schema.since_version) is None
        and not has_body(schema)
    ]


def test_every_version_of_every_op_has_a_cost() -> None:
    missing = [each for domain in DOMAINS for each in unpriced(domain)]
    assert not missing, f"no cost: {', '.join(missing)}"


def test_the_enumeration_reaches_the_newest_opset_and_all_of_history() -> None:
    found = versions("")
    assert max(schema.since_version for schema in found) == defs.onnx_opset_version()
    assert len({schema.name for schema in found}) >= 200
    assert [schema.since_version for schema in found if schema.name == "Relu"][:4] == [1, 6, 13, 14]


def test_a_version_that_is_left_out_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    COSTS.keys()
    entries = {**COSTS._entries, ("", "Clip"): [entry for entry in COSTS._entries["", "Clip"] if entry.first > 10]}
    monkeypatch.setattr(COSTS, "_entries", entries)
    assert unpriced("") == ["Clip-1", "Clip-6"]


def test_a_deprecated_op_keeps_its_cost() -> None:
    gone = [schema for schema in versions("") if schema.deprecated]
    assert {schema.name for schema in gone} >= {"Upsample", "Scatter", "GroupNormalization"}
    for schema in gone:
        assert COSTS.get(("", schema.name), schema.since_version) is not None
        assert COSTS.get(("", schema.name), schema.since_version - 1) is not None


_BLOB = "what it does is in a compiled blob that only one vendor's runtime can read"
_SEARCH = "a search that runs subgraphs until the data ends it; their nodes are listed by themselves"
NOT_PRICED = {
    "EPContext": _BLOB, "Snpe": _BLOB, "BeamSearch": _SEARCH, "GreedySearch": _SEARCH, "Sampling": _SEARCH,
    "WhisperBeamSearch": _SEARCH, "Tokenizer": "regular expressions over strings, whose length the model does not say",
}  # fmt: skip
"""Ops of com.microsoft without a cost function, with the reason."""


def test_every_op_that_onnx_runtime_adds_has_a_cost_or_a_reason() -> None:
    known, priced = ms_schemas(), set(COSTS.keys())
    reasons = {(MS, name) for name in NOT_PRICED}
    assert len(known) > 100
    assert not known - priced - reasons
    assert not reasons & priced
    for _, op_type in reasons:
        x = Tensor(name="x", dtype="string" if op_type == "Tokenizer" else "int32", shape=(1, 8))
        assert work_of(Op(op_type=op_type, domain=MS, inputs=(x,), outputs=(x,))) is None
