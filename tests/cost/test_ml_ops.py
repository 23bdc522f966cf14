"""Costs of ``ai.onnx.ml``: every op and version, hand-worked cases, and loops that count what ONNX Runtime computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import defs, helper

from tests.fakes.counting import DTYPES, Array, op_of, tensor, totals, work
from trtprof.base import onnx_graph
from trtprof.base.records import Op, Tensor
from trtprof.cost import COSTS, MalformedOpError, NoWidthError, UnknownShapeError, work_of
from trtprof.cost.ops.ml_tree import Forest, walks

ML = "ai.onnx.ml"
INT64, FLOAT, STRING = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT, onnx.TensorProto.STRING
MAP = helper.make_map_type_proto


def shown(name: str, value: Any) -> Tensor:
    """The record of a value as it is seen; what is no array is a map, or a sequence of maps."""
    if not isinstance(value, np.ndarray):
        return Tensor(name=name, dtype="unknown", shape=None, kind="map" if isinstance(value, dict) else "sequence")
    dtype = "string" if value.dtype.kind in "OU" else DTYPES[value.dtype.name]
    return Tensor(name=name, dtype=dtype, shape=value.shape)


def run(
    op_type: str,
    inputs: Sequence[Any],
    outputs: int = 1,
    version: int = 3,
    kind: onnx.TypeProto | None = None,
    **attributes: Any,
) -> tuple[Op, list[Any]]:
    """A node run alone by ONNX Runtime: its record, with the shapes seen, and its results.

    Args:
        op_type: Of the node.
        inputs: Arrays, or one dict for a map.
        outputs: How many.
        version: Of the domain.
        kind: Type of the input where that is a map.
        attributes: Of the node.
    """
    names, results = [f"x{index}" for index in range(len(inputs))], [f"y{index}" for index in range(outputs)]
    node = helper.make_node(op_type, names, results, domain=ML, **attributes)
    feeds = dict(zip(names, inputs, strict=True))
    infos = [
        helper.make_value_info(
            name, kind or helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        )
        for name, value in feeds.items()
    ]
    graph = helper.make_graph([node], "one", infos, [onnx.ValueInfoProto(name=name) for name in results])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(ML, version)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    values = session.run(None, feeds)
    tensors = {name: shown(name, value) for name, value in (*feeds.items(), *zip(results, values, strict=True))}
    held = {a.name: v for a in node.attribute if (v := onnx_graph.attribute_value(a)) is not None}
    return msgspec.structs.replace(op_of(node, version, tensors), attributes=held), values


def record(
    op_type: str, *inputs: Tensor, out: Sequence[Tensor], opset: int = 3, held: Mapping[str, Any] = MappingProxyType({})
) -> Op:
    """An op that is not run; lists in attributes become tuples, tensors are left out, as in any record."""
    attributes = {name: tuple(value) if isinstance(value, list) else value for name, value in held.items()}
    return Op(
        op_type=op_type,
        domain=ML,
        opset=opset,
        inputs=inputs,
        outputs=tuple(out),
        attributes={name: value for name, value in attributes.items() if not isinstance(value, onnx.TensorProto)},
    )


def named(key: str) -> str:
    """The op type of a case."""
    return key.partition(" ")[0]


# --- every op --------------------------------------------------------------------------------


def schemas() -> list[Any]:
    return [schema for schema in defs.get_all_schemas_with_history() if schema.domain == ML]


def test_every_op_of_every_version_has_a_cost() -> None:
    found = [(schema.name, schema.since_version) for schema in schemas()]
    assert len(found) >= 25
    assert [key for key in found if COSTS.get((ML, key[0]), key[1]) is None] == []


def test_every_op_has_a_case() -> None:
    assert {schema.name for schema in schemas()} == {named(key) for key in (*CASES, *STRINGS)}


# --- hand-worked ------------------------------------------------------------------------------


class Case(NamedTuple):
    """What ONNX Runtime runs, and what is expected: FLOP (tensor, vector, special), bytes, which are parameters."""

    inputs: Sequence[Any]
    flops: tuple[int, int, int]
    read: int
    parameters: int
    written: int
    attributes: Mapping[str, Any] = MappingProxyType({})
    outputs: int = 1
    version: int = 3
    kind: onnx.TypeProto | None = None
    bound: str = "exact"
    note: str = ""


def f32(*values: float) -> Array:
    return np.array(values, dtype=np.float32)


def i64(*values: int) -> Array:
    return np.array(values, dtype=np.int64)


X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
KERNEL = {"kernel_params": [0.5, 0.25, 3.0]}
STUMP: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [1, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
}  # fmt: skip
"""One test of feature 1, with one value at each leaf."""
REGRESSOR: dict[str, Any] = {
    **STUMP, "n_targets": 1, "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0],
    "target_weights": [1.0, 2.0],
}  # fmt: skip
STUMP_5: dict[str, Any] = {
    "tree_roots": [0],
    "nodes_featureids": [1],
    "nodes_modes": helper.make_tensor("m", onnx.TensorProto.UINT8, [1], [0]),
    "nodes_splits": helper.make_tensor("s", FLOAT, [1], [0.5]),
    "nodes_truenodeids": [0],
    "nodes_falsenodeids": [1],
    "nodes_trueleafs": [1],
    "nodes_falseleafs": [1],
    "leaf_targetids": [0, 0],
    "leaf_weights": helper.make_tensor("w", FLOAT, [2], [1.0, 2.0]),
    "n_targets": 1,
}  # fmt: skip
NODE = 8 + 8 + 8 + 4 + 1  # feature, both children, threshold, mode
VALUE = 8 + 4  # target and weight

# A key is the op type, and whatever tells two cases of one op apart.
CASES: dict[str, Case] = {
    "Scaler": Case([X], (0, 12, 0), 24 + 24, 24, 24, {"offset": [1.0, 2.0, 3.0], "scale": [1.0, 2.0, 3.0]}),
    "Scaler of integers": Case([X.astype(np.int64)], (0, 12 + 6, 0), 48 + 8, 8, 24, {"offset": [1.0], "scale":
        [2.0]}),
    "Imputer": Case([X], (0, 6, 0), 24 + 12, 12, 24, {"imputed_value_floats": [1.0, 2.0, 3.0], "replaced_value_float":
        0.0}),
    "Imputer of integers": Case([X.astype(np.int64)], (0, 6, 0), 48 + 8, 8, 48, {"imputed_value_int64s": [7],
        "replaced_value_int64": 0}),
    "Binarizer": Case([X], (0, 6, 0), 24, 0, 24, {"threshold": 1.0}),
    # Per row of 3: the norm, its compare with zero, 3 divides.
    "Normalizer": Case([X], (0, 2 * (2 + 1 + 3), 0), 24, 0, 24, {"norm": "MAX"}),
    "Normalizer L1": Case([X], (0, 2 * (5 + 1 + 3), 0), 24, 0, 24, {"norm": "L1"}),
    "Normalizer L2": Case([X], (0, 2 * (5 + 1 + 3), 2), 24, 0, 24, {"norm": "L2"}),
    "Normalizer of doubles": Case([X.astype(np.float64)], (0, 2 * (5 + 1 + 3) + 6, 0), 48, 0, 24, {"norm": "L1"}),
    "FeatureVectorizer": Case([X, X[:, :2].copy()], (0, 0, 0), 24 + 16, 0, 40, {"inputdimensions": [3, 2]}),
    "FeatureVectorizer of integers": Case([X.astype(np.int64)], (0, 6, 0), 48, 0, 24, {"inputdimensions": [3]}),
    "ArrayFeatureExtractor": Case([X, i64(2)], (0, 0, 0), 8 + 8, 0, 8),
    "ArrayFeatureExtractor of two": Case([X, i64(2, 0)], (0, 0, 0), 16 + 16, 0, 16, bound="upper",
        note="indices may repeat"),
    # Of 4 look-ups in 3 keys at most 3 meet another key.
    "LabelEncoder": Case([i64(1, 2, 1, 9)], (0, 4, 0), 32 + 3 * (8 + 4), 3 * (8 + 4), 16, {"keys_int64s": [1, 2, 3],
        "values_floats": [0.5, 1.5, 2.5]}, bound="upper", note="look-up"),
    "LabelEncoder of floats": Case([f32(1, 2)], (0, 2, 0), 8 + 2 * (4 + 8), 2 * (4 + 8), 16, {"keys_floats": [1.0,
        2.0, 3.0], "values_int64s": [4, 5, 6]}, bound="upper"),
    "LabelEncoder of doubles": Case([np.array([1.0, 2.0])], (0, 2, 0), 16 + 2 * (8 + 8), 2 * (8 + 8), 16,
        {"keys_tensor": helper.make_tensor("k", onnx.TensorProto.DOUBLE, [3], [1.0, 2.0, 3.0]), "values_tensor":
        helper.make_tensor("v", onnx.TensorProto.DOUBLE, [3], [4.0, 5.0, 6.0]), "default_tensor":
        helper.make_tensor("d", onnx.TensorProto.DOUBLE, [1], [0.0])}, version=4, bound="upper"),
    "OneHotEncoder": Case([i64(1, 5)], (0, 2, 0), 16 + 16, 16, 2 * 4 * 4, {"cats_int64s": [1, 2, 3, 5]},
        bound="upper", note="look-up"),
    "OneHotEncoder of floats": Case([f32(1, 5)], (0, 2 + 2, 0), 8 + 16, 16, 2 * 4 * 4, {"cats_int64s": [1, 2, 3, 5]},
        bound="upper"),
    # Scores are values in maps; string keys are part of them.
    "ZipMap": Case([X], (0, 0, 0), 24, 0, 24, {"classlabels_int64s": [1, 2, 3]}, bound="lower", note="not the keys"),
    "ZipMap to strings": Case([X], (0, 0, 0), 24, 0, 24, {"classlabels_strings": ["a", "b", "c"]}, bound="lower"),
    # The map holds at most a key and a value for each of 3.
    "DictVectorizer": Case([{1: 0.5, 7: 2.5}], (0, 3, 0), 3 * (8 + 4) + 24, 24, 12, {"int64_vocabulary": [1, 5, 7]},
        kind=MAP(INT64, helper.make_tensor_type_proto(FLOAT, [])), bound="upper", note="every key"),
    "CastMap": Case([{1: 0.5, 7: 2.5}], (0, 0, 0), 0, 0, 8, {"cast_to": "TO_FLOAT"}, kind=MAP(INT64,
        helper.make_tensor_type_proto(FLOAT, [])), bound="lower", note="of the map is not counted"),
    "CastMap to integers": Case([{1: 0.5, 7: 2.5}], (0, 2, 0), 0, 0, 16, {"cast_to": "TO_INT64"}, kind=MAP(INT64,
        helper.make_tensor_type_proto(FLOAT, [])), bound="lower"),
    "CastMap sparse": Case([{1: 0.5, 7: 2.5}], (0, 0, 0), 0, 0, 36, {"cast_to": "TO_FLOAT", "map_form": "SPARSE",
        "max_map": 9}, kind=MAP(INT64, helper.make_tensor_type_proto(FLOAT, [])), bound="lower"),
    # 2 rows, 3 features: 2 targets with intercepts.
    "LinearRegressor": Case([X], (2 * 2 * 6, 4, 0), 24 + 24 + 8, 32, 16, {"coefficients": [1.0, 2.0, 3.0, 4.0, 5.0,
        6.0], "intercepts": [1.0, 2.0], "targets": 2}),
    "LinearClassifier": Case([X], (2 * 2 * 9, 2 * (3 + 2), 0), 24 + 36 + 12 + 24, 72, 2 * 8 + 2 * 12, {"coefficients":
        [0.1] * 9, "intercepts": [1.0, 2.0, 3.0], "classlabels_ints": [4, 5, 6]}, outputs=2),
    # One score for two classes: the intercept, its negation, the compare with zero.
    "LinearClassifier of two": Case([X], (2 * 2 * 3, 2 * 3, 0), 24 + 12 + 4 + 16, 32, 2 * 8 + 2 * 8, {"coefficients":
        [0.1] * 3, "intercepts": [1.0], "classlabels_ints": [0, 1]}, outputs=2),
    "LinearClassifier of doubles": Case([X.astype(np.float64)], (2 * 2 * 6, 2 * (2 + 1) + 6, 0), 48 + 24 + 8 + 16, 48,
        2 * 8 + 2 * 8, {"coefficients": [0.1] * 6, "intercepts": [1.0, 2.0], "classlabels_ints": [4, 5]}, outputs=2),
    "LinearClassifier softmax": Case([X], (2 * 2 * 9, 2 * (3 + 2 + 4 * 3 - 2), 2 * 3), 24 + 36 + 12 + 24, 72,
        2 * 8 + 2 * 12, {"coefficients": [0.1] * 9, "intercepts": [1.0, 2.0, 3.0], "classlabels_ints": [4, 5, 6],
        "post_transform": "SOFTMAX"}, outputs=2),
    # 2 vectors: 2 kernel values a row, 2 MACs with the coefficients, rho. RBF: 3 subtracts, 3 squares, 2 adds, -gamma.
    "SVMRegressor": Case([X], (2 * (2 * 2 * 3 + 2 * 2), 2, 0), 24 + 24 + 8 + 4, 36, 8, {"kernel_type": "LINEAR",
        "n_supports": 2, "support_vectors": [0.1] * 6, "coefficients": [1.0, -1.0], "rho": [0.5], **KERNEL}),
    "SVMRegressor of one class": Case([X], (2 * 2 * 2, 2 * (2 * 9 + 2), 4), 24 + 24 + 8 + 4, 36, 8, {"kernel_type":
        "RBF", "n_supports": 2, "support_vectors": [0.1] * 6, "coefficients": [1.0, -1.0], "rho": [0.5], "one_class":
        1, **KERNEL}),
    "SVMRegressor without vectors": Case([X], (2 * 2 * 3, 2, 0), 24 + 12 + 4, 16, 8, {"coefficients": [1.0, 2.0, 3.0],
        "rho": [0.5], **KERNEL}),
    # 3 classes with 1, 2 and 1 vectors: 4 kernel values a row, each in 2 machines; 3 times rho, compare, vote; label.
    "SVMClassifier": Case([X], (2 * (2 * 4 * 3 + 2 * 8), 2 * (9 + 2 + 4 * 2), 2 * 4), 24 + 48 + 32 + 12 + 24, 116,
        2 * 8 + 2 * 3 * 4, {"kernel_type": "SIGMOID", "vectors_per_class": [1, 2, 1], "support_vectors": [0.1] * 12,
        "coefficients": [0.5, -0.5] * 4, "rho": [0.1, 0.2, 0.3], "classlabels_ints": [4, 5, 6], **KERNEL}, outputs=2),
    # 2 rows: a compare and an add each; the node and both leaves are read, a mode at each.
    "TreeEnsembleRegressor": Case([X], (0, 2 * 2, 0), 8 + NODE + 2 * (VALUE + 1), NODE + 2 * (VALUE + 1), 8,
        REGRESSOR, bound="upper", note="longest"),
    "TreeEnsembleRegressor average": Case([X], (0, 2 * (2 + 1 + 1), 0), 8 + NODE + 2 * (VALUE + 1) + 4,
        NODE + 2 * (VALUE + 1) + 4, 8, {**REGRESSOR, "base_values": [0.5], "aggregate_function": "AVERAGE"},
        bound="upper"),
    # With doubles the sum is converted to the float of the output; base values may be there.
    "TreeEnsembleRegressor of doubles": Case([X.astype(np.float64)], (0, 2 * (2 + 1), 0),
        16 + NODE + 4 + 2 * (VALUE + 4 + 1) + 8, NODE + 4 + 2 * (VALUE + 4 + 1) + 8, 8, {**{name: value for name,
        value in REGRESSOR.items() if name not in ("nodes_values", "target_weights")}, "nodes_values_as_tensor":
        helper.make_tensor("v", onnx.TensorProto.DOUBLE, [3], [0.5, 0.0, 0.0]), "target_weights_as_tensor":
        helper.make_tensor("w", onnx.TensorProto.DOUBLE, [2], [1.0, 2.0])}, bound="upper"),
    # Values for one class of two: the score of the other, and the compare for the label.
    "TreeEnsembleClassifier": Case([X], (0, 2 * (2 + 1 + 1), 0), 8 + NODE + 2 * (VALUE + 1) + 16,
        NODE + 2 * (VALUE + 1) + 16, 2 * 8 + 2 * 8, {**STUMP, "class_treeids": [0, 0], "class_nodeids": [1, 2],
        "class_ids": [1, 1], "class_weights": [0.25, 0.75], "classlabels_int64s": [0, 1]}, outputs=2, bound="upper"),
    # Integers are converted: one feature of each row is looked at.
    "TreeEnsembleClassifier of integers": Case([X.astype(np.int64)], (0, 2 * (2 + 2) + 2, 0),
        16 + NODE + 2 * (VALUE + 1) + 24, NODE + 2 * (VALUE + 1) + 24, 2 * 8 + 2 * 12, {**STUMP, "class_treeids": [0,
        0], "class_nodeids": [1, 2], "class_ids": [1, 2], "class_weights": [0.25, 0.75], "classlabels_int64s": [0, 1,
        2]}, outputs=2, bound="upper"),
    "TreeEnsemble": Case([X], (0, 2 * 2, 0), 8 + NODE + 16 + 2 * VALUE, NODE + 16 + 2 * VALUE, 8, STUMP_5, version=5,
        bound="upper", note="set membership"),
    "TreeEnsemble logistic": Case([X], (0, 2 * (2 + 3), 2), 8 + NODE + 16 + 2 * VALUE, NODE + 16 + 2 * VALUE, 8,
        {**STUMP_5, "post_transform": 2}, version=5, bound="upper"),
}  # fmt: skip

STRINGS: dict[str, tuple[Any, dict[str, Any]]] = {
    "CategoryMapper": (i64(1), {"cats_int64s": [1], "cats_strings": ["a"]}),
    "LabelEncoder 1": (i64(0), {"classes_strings": ["a"], "version": 1}),
    "LabelEncoder to strings": (i64(0), {"keys_int64s": [0], "values_strings": ["a"]}),
    "OneHotEncoder": (np.array(["a", "b"]), {"cats_strings": ["a", "b"]}),
    "DictVectorizer": ({"a": 1.0}, {"string_vocabulary": ["a", "b"],
        "kind": MAP(STRING, helper.make_tensor_type_proto(FLOAT, []))}),
    "CastMap": ({1: 0.5}, {"cast_to": "TO_STRING", "kind": MAP(INT64, helper.make_tensor_type_proto(FLOAT, []))}),
    "LinearClassifier": (X, {"coefficients": [0.1] * 9, "intercepts": [1.0] * 3,
        "classlabels_strings": ["a", "b", "c"], "outputs": 2}),
}  # fmt: skip
"""What ONNX Runtime runs and no cost can be told of."""


def test_every_case_costs_what_was_worked_out(subtests: pytest.Subtests) -> None:
    for key, case in CASES.items():
        with subtests.test(key):
            op, _ = run(named(key), case.inputs, case.outputs, version=case.version, kind=case.kind, **case.attributes)
            found = work(op)
            assert totals(found) == case.flops
            moved = (found.bytes_read, found.bytes_parameters, found.bytes_written)
            assert moved == (case.read, case.parameters, case.written)
            assert found.bound == case.bound
            assert case.note in found.note


def test_strings_are_refused_with_a_word(subtests: pytest.Subtests) -> None:
    for key, (value, attributes) in STRINGS.items():
        with subtests.test(key), pytest.raises(NoWidthError, match="strings"):
            work_of(run(named(key), [value], **attributes)[0])


def test_few_rows_read_few_nodes_and_many_rows_all() -> None:
    # A complete tree of 10 levels; a row passes one node a level.
    inner = 2**10 - 1
    complete = Forest(
        roots=[0],
        when_true=[2 * n + 1 if 2 * n + 1 < inner else ~(2 * n + 1 - inner) for n in range(inner)],
        when_false=[2 * n + 2 if 2 * n + 2 < inner else ~(2 * n + 2 - inner) for n in range(inner)],
        tests=[1] * inner,
        votes=[1] * (inner + 1),
        features=[0] * inner,
    )
    assert [walks(complete, rows).nodes for rows in (0, 1, 2, 4, 10**6)] == [0, 10, 1 + 9 * 2, 1 + 2 + 8 * 4, inner]
    assert [walks(complete, rows).leaves for rows in (0, 1, 2, 4, 10**6)] == [0, 1, 2, 4, inner + 1]
    assert walks(complete, 7).tests == 10


def test_branches_may_share_nodes() -> None:
    # Both branches of each node lead to the next, as where members of a set are tested one by one.
    depth = 40
    chain = Forest(
        roots=[0],
        when_true=[*range(1, depth), ~0],
        when_false=[*range(1, depth), ~0],
        tests=[1] * depth,
        votes=[2],
        features=[0] * depth,
    )
    found = walks(chain, 3)
    assert (found.tests, found.nodes, found.leaves, found.values, found.votes) == (depth, depth, 1, 2, 2)
    # Two trees that meet: what is met is no more than there is.
    twice = walks(chain._replace(roots=[0, 20]), 3)
    assert (twice.tests, twice.nodes, twice.leaves, twice.votes) == (depth + 20, depth, 1, 4)
    # A row may end at leaf 0 of the first tree and, by way of node 2, at one of two others of the second.
    meeting = Forest(
        roots=[0, 1], when_true=[~0, 2, ~1], when_false=[2, 2, ~2], tests=[1] * 3, votes=[1] * 3, features=[0, 1, 2]
    )
    assert walks(meeting, 1).leaves >= 2


MALFORMED: dict[str, tuple[str, Mapping[str, Any]]] = {
    "a longer cycle": ("TreeEnsembleRegressor", {**REGRESSOR, "nodes_modes": ["BRANCH_LT", "BRANCH_LT", "LEAF"],
        "nodes_falsenodeids": [2, 2, 0]}),
    "a child that is not there": ("TreeEnsembleRegressor", {**REGRESSOR, "nodes_falsenodeids": [7, 0, 0]}),
    "a list that is too short": ("TreeEnsembleRegressor", {**REGRESSOR, "nodes_featureids": [1, 0]}),
    "an unknown transform": ("TreeEnsembleRegressor", {**REGRESSOR, "post_transform": "TANH"}),
    "a root that is not there": ("TreeEnsemble", {**STUMP_5, "tree_roots": [1]}),
    "a cycle by position": ("TreeEnsemble", {**STUMP_5, "nodes_trueleafs": [0]}),
    "a linear model that does not fit": ("LinearRegressor", {"coefficients": [1.0, 2.0]}),
    "vectors that do not fit": ("SVMRegressor", {"n_supports": 2, "support_vectors": [1.0] * 5,
        "coefficients": [1.0, 2.0]}),
    "a norm that is unknown": ("Normalizer", {"norm": "L3"}),
}  # fmt: skip


def test_what_cannot_be_priced_is_said(subtests: pytest.Subtests) -> None:
    for key, (op_type, held) in MALFORMED.items():
        opset = 5 if op_type == "TreeEnsemble" else 1
        op = record(op_type, tensor("x", "fp32", 2, 3), out=[tensor("y", "fp32", 2, 1)], opset=opset, held=held)
        with subtests.test(key), pytest.raises(MalformedOpError):
            work_of(op)
    for op_type, held in (("Scaler", {}), ("TreeEnsembleRegressor", REGRESSOR)):
        unknown = record(op_type, tensor("x", "fp32", "n", 3), out=[tensor("y", "fp32", "n", 1)], held=held)
        with subtests.test(op_type), pytest.raises(UnknownShapeError):
            work_of(unknown)
