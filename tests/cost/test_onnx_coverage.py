"""Every op of ONNX has a cost at every version it ever had, or a body to take one from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from onnx import defs

from trtprof.cost import COSTS
from trtprof.cost.functions import has_body

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


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_version_of_every_op_has_a_cost(domain: str) -> None:
    assert versions(domain)
    missing = unpriced(domain)
    assert not missing, f"no cost: {', '.join(missing)}"


def test_the_enumeration_reaches_the_newest_opset_and_all_of_history() -> None:
    found = versions("")
    assert max(schema.since_version for schema in found) == defs.onnx_opset_version()
    assert len({schema.name for schema in found}) >= 200
    assert [schema.since_version for schema in found if schema.name == "Relu"][:4] == [1, 6, 13, 14]


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], list[Any]]:
    """The entries of the registry, to take away from."""
    COSTS.keys()
    copied = {key: list(found) for key, found in COSTS._entries.items()}
    monkeypatch.setattr(COSTS, "_entries", copied)
    return copied


def _explicit(domain: str) -> Iterator[tuple[str, list[str]]]:
    """Ops with a cost function, and the versions of theirs that have no body."""
    bare: dict[str, list[str]] = {}
    for schema in versions(domain):
        if not schema.deprecated and not has_body(schema):
            bare.setdefault(schema.name, []).append(f"{schema.name}-{schema.since_version}")
    yield from bare.items()


@pytest.mark.parametrize("domain", DOMAINS)
def test_an_op_that_is_taken_away_is_missed(domain: str, entries: Mapping[tuple[str, str], list[Any]]) -> None:
    for op_type, expected in _explicit(domain):
        if (domain, op_type) in NOT_RUN:
            continue
        kept = entries[domain, op_type][:]
        entries[domain, op_type].clear()
        assert unpriced(domain) == expected
        entries[domain, op_type].extend(kept)


def test_a_version_that_is_left_out_is_missed(entries: Mapping[tuple[str, str], list[Any]]) -> None:
    whole = entries["", "Clip"]
    whole[:] = [entry for entry in whole if entry.first > 10]
    assert unpriced("") == ["Clip-1", "Clip-6"]


def test_what_is_not_run_has_no_cost() -> None:
    known = {(schema.domain, schema.name) for domain in DOMAINS for schema in versions(domain)}
    assert set(NOT_RUN) <= known - set(COSTS.keys())


def test_a_deprecated_op_keeps_its_cost() -> None:
    gone = [schema for schema in versions("") if schema.deprecated]
    assert {schema.name for schema in gone} >= {"Upsample", "Scatter", "GroupNormalization"}
    for schema in gone:
        assert COSTS.get(("", schema.name), schema.since_version) is not None
        assert COSTS.get(("", schema.name), schema.since_version - 1) is not None
