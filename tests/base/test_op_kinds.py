"""The table of op kinds: every op type once, and nobody has another answer of its own."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import onnx.defs
import pytest

from trtprof.base import op_kinds
from trtprof.base.op_kinds import MOVERS, MULTIPLYING, OPERANDS, PRODUCTS, VIEWS, OpKind, op_kind, op_types
from trtprof.cost import COSTS


def test_every_op_type_has_one_kind() -> None:
    names = [name for kind in get_args(OpKind) for name in op_kinds._TYPES[kind].split()]
    assert [name for name, times in Counter(names).items() if times > 1] == []
    assert set(op_kinds._TYPES) == set(get_args(OpKind))
    assert all(name in op_types(op_kind(name)) for name in names if op_kind(name))  # type: ignore[arg-type]
    assert op_kind("NoSuchOp") == ""


def test_every_op_type_is_one() -> None:
    """A slip of the pen would be a name that no operator set has and nothing has a cost for."""
    known = {schema.name for schema in onnx.defs.get_all_schemas()} | {op_type for _, op_type in set(COSTS.keys())}
    assert sorted(name for kind in get_args(OpKind) for name in op_types(kind) if name not in known) == []
    assert sorted(OPERANDS.keys() - known) == []


@pytest.mark.parametrize(
    ("kinds", "has", "has_not"),
    [
        (PRODUCTS, {"Conv", "ConvTranspose", "DeformConv", "Gemm", "Einsum", "QLinearMatMul"}, {"LSTM", "Attention"}),
        (MULTIPLYING, {"Conv", "MatMul", "LSTM", "Attention", "GroupQueryAttention"}, {"Softmax", "Add"}),
        (VIEWS, {"Reshape", "Identity", "Dropout"}, {"Transpose", "Cast", "Expand"}),
        (MOVERS, {"Reshape", "Transpose", "Cast", "ConstantOfShape", "Gather"}, {"Add", "QuantizeLinear", "MaxPool"}),
        (op_types("random"), {"Bernoulli", "Multinomial"}, {"Dropout"}),
    ],
)
def test_what_a_set_holds(kinds: frozenset[str], has: set[str], has_not: set[str]) -> None:
    assert has <= kinds
    assert not has_not & kinds


def test_what_is_multiplied_is_told_of_products() -> None:
    beside = OPERANDS.keys() - MULTIPLYING
    assert beside == {"QLinearAdd", "QLinearMul", "MoE"}  # two operands decide their dtype, too
