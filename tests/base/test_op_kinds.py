"""The table of op kinds: every op type once, and nobody has another answer of its own."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import get_args

import onnx.defs
import pytest

from trtprof.base import op_kinds
from trtprof.base.op_kinds import MOVERS, MULTIPLYING, OPERANDS, PRODUCTS, VIEWS, OpKind, op_kind, op_types
from trtprof.cost import COSTS

PACKAGE = Path(op_kinds.__file__).parents[1]


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


OWN_QUESTIONS = {
    "cost/precision.py": "what is multiplied in 8 bits between Q and DQ",
    "align/nodes.py": "what has weights that a scale folds into",
    "cost/_core.py": "products with operands that lie otherwise",
    "flows/op_sweep.py": "what is swept",
    "estimate/edges.py": "products with a bias of their own",
    "base/plan_words.py": "what Myelin calls them",
}


def test_nobody_lists_products_but_the_table() -> None:
    """A set or tuple of op types with a convolution and a matrix product in it answers "what is a product?" again."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        where = path.relative_to(PACKAGE).as_posix()
        if where.startswith(("cost/ops/", "source/shape_rules/", "kernel_names/")) or where == "base/op_kinds.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            items = node.elts if isinstance(node, ast.Set | ast.Tuple | ast.List) else []
            names = {item.value for item in items if isinstance(item, ast.Constant)}
            if names & op_types("convolution") and names & op_types("matmul"):
                found.add(where)
    assert found <= OWN_QUESTIONS.keys()
