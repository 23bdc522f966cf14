"""Every node test of the onnx package goes through `inspect`, and its bytes are those of its arrays."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fakes.node_tests import (
    MOVES,
    PARTS,
    STORED_IN_ATTRIBUTES,
    NodeTest,
    elements_read,
    elements_that_arrive,
    judge,
    look,
    node_test_cases,
    total_of,
    with_values,
)

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def cases() -> Sequence[NodeTest]:
    return node_test_cases()


def test_every_node_test_is_priced_and_moves_what_its_arrays_hold(cases: Sequence[NodeTest], tmp_path: Path) -> None:
    """No crash, no silent zero, no reason that does not hold; bytes equal those of the real arrays."""
    verdicts = [judge(case, tmp_path) for case in cases]
    faults = [f"{verdict.case}: {fault}" for verdict in verdicts for fault in verdict.faults]
    assert not faults, "\n".join(faults)
    # Newer onnx packages have more.
    assert len(verdicts) > 1500
    assert sum(verdict.compared for verdict in verdicts) > sum(verdict.nodes for verdict in verdicts) > 10_000
    # An exemption that no model needs would hide a fault.
    used = frozenset().union(*(verdict.parts for verdict in verdicts))
    assert used >= {*PARTS, *STORED_IN_ATTRIBUTES}


def test_moves_read_the_elements_that_arrive(cases: Sequence[NodeTest], tmp_path: Path) -> None:
    """Exactly, once positions are known; where they are data, no fewer."""
    seen: Counter[str] = Counter()
    for case in cases:
        nodes = case.model.graph.node
        if len(nodes) != 1 or nodes[0].op_type not in MOVES:
            continue
        arrived = elements_that_arrive(case)
        if arrived is None:
            continue
        (node,) = look(case, tmp_path, with_values(case)).nodes
        read = elements_read(node)
        assert node.work is not None
        assert read >= arrived if node.work.bound == "upper" else read == arrived, case.name
        seen[node.op.op_type] += 1
    assert seen.keys() == MOVES


LIGHTER: dict[str, str] = {
    "Attention": "masks are made and added in many steps, and scores outside a window computed and thrown away",
    "FlexAttention": "heads are repeated and scores converted",
    "Gelu": "the cube of the form with tanh is a power",
    "GreaterOrEqual": "two compares and an or for one",
    "HammingWindow": "a cosine of the Blackman window, times zero",
    "HannWindow": "a cosine of the Blackman window, times zero",
    "LessOrEqual": "two compares and an or for one",
    "LinearAttention": "states are converted in every step",
    "MeanVarianceNormalization": "squares are powers",
    "NegativeLogLikelihoodLoss": "indices that are ignored are compared and selected in several steps",
}
"""Ops whose function body does more than the op asks for, and what."""


def test_an_op_and_its_function_body_do_the_same(cases: Sequence[NodeTest], tmp_path: Path) -> None:
    """Both are node tests: the op alone, and expanded. Matrix products are equal, the rest nearly so.

    The difference that is left free is index arithmetic of bodies, and the stable form of
    ReduceLogSumExp, which subtracts the maximum.
    """
    by_name = {case.name: case for case in cases}
    compared: Counter[str] = Counter()
    lighter: set[str] = set()
    for name, expanded in by_name.items():
        case = by_name.get(re.sub(r"_expanded(_ver\d+)?$", "", name), expanded)
        if case is expanded:
            continue
        op, body = total_of(case, tmp_path), total_of(expanded, tmp_path)
        if op is None or body is None:
            continue
        node = case.model.graph.node[0]
        op_type = node.op_type
        # What a mask hides the body computes all the same.
        hides = any(
            (attribute.name.endswith("window_size") and attribute.i >= 0)
            or (attribute.name == "is_causal" and attribute.i > 0)
            for attribute in node.attribute
        )
        assert op.tensor_flops < body.tensor_flops if hides else op.tensor_flops == body.tensor_flops, name
        assert op.flops <= 1.25 * body.flops, name
        if op.flops < 0.9 * body.flops - 24:
            lighter.add(op_type)
        compared[op_type] += 1
    assert lighter == LIGHTER.keys() & compared.keys()  # older onnx packages have fewer
    assert compared.total() > 400
