"""Costs of ``ai.onnx.ml``: every op and version, hand-worked cases, and loops that count what ONNX Runtime computes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import defs, helper

from tests.fakes.counting import DTYPES, Array, Num, Tally, largest, op_of, plain, tensor, total, totals, work
from trtprof.base import onnx_graph
from trtprof.base.records import Op, Tensor
from trtprof.cost import COSTS, CostError, MalformedOpError, NoWidthError, UnknownShapeError, work_of
from trtprof.cost.fused import work_of_group
from trtprof.cost.ops.ml_svm import COUPLING_STEPS
from trtprof.cost.ops.ml_tree import Forest, walks

ML = "ai.onnx.ml"
FEW = settings(derandomize=True, suppress_health_check=[HealthCheck.too_slow])

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
    assert {schema.name for schema in schemas()} == {named(key) for key in (*CASES, *REFUSED)}


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
}
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
}
NODE = 8 + 8 + 8 + 4 + 1  # feature, both children, threshold, mode
VALUE = 8 + 4  # target and weight

# A key is the op type, and whatever tells two cases of one op apart.
CASES: dict[str, Case] = {
    "Scaler": Case([X], (0, 12, 0), 24 + 24, 24, 24, {"offset": [1.0, 2.0, 3.0], "scale": [1.0, 2.0, 3.0]}),
    "Scaler of integers": Case(
        [X.astype(np.int64)], (0, 12 + 6, 0), 48 + 8, 8, 24, {"offset": [1.0], "scale": [2.0]}
    ),
    "Imputer": Case(
        [X], (0, 6, 0), 24 + 12, 12, 24, {"imputed_value_floats": [1.0, 2.0, 3.0], "replaced_value_float": 0.0}
    ),
    "Imputer of integers": Case(
        [X.astype(np.int64)], (0, 6, 0), 48 + 8, 8, 48, {"imputed_value_int64s": [7], "replaced_value_int64": 0}
    ),
    "Binarizer": Case([X], (0, 6, 0), 24, 0, 24, {"threshold": 1.0}),
    # Per row of 3: the norm, its compare with zero, 3 divides.
    "Normalizer": Case([X], (0, 2 * (2 + 1 + 3), 0), 24, 0, 24, {"norm": "MAX"}),
    "Normalizer L1": Case([X], (0, 2 * (5 + 1 + 3), 0), 24, 0, 24, {"norm": "L1"}),
    "Normalizer L2": Case([X], (0, 2 * (5 + 1 + 3), 2), 24, 0, 24, {"norm": "L2"}),
    "Normalizer of doubles": Case([X.astype(np.float64)], (0, 2 * (5 + 1 + 3) + 6, 0), 48, 0, 24, {"norm": "L1"}),
    "FeatureVectorizer": Case(
        [X, X[:, :2].copy()], (0, 0, 0), 24 + 16, 0, 40, {"inputdimensions": [3, 2]}
    ),
    "FeatureVectorizer of integers": Case([X.astype(np.int64)], (0, 6, 0), 48, 0, 24, {"inputdimensions": [3]}),
    "ArrayFeatureExtractor": Case([X, i64(2)], (0, 0, 0), 8 + 8, 0, 8),
    "ArrayFeatureExtractor of two": Case(
        [X, i64(2, 0)], (0, 0, 0), 16 + 16, 0, 16, bound="upper", note="indices may repeat"
    ),
    # Of 4 look-ups in 3 keys at most 3 meet another key.
    "LabelEncoder": Case(
        [i64(1, 2, 1, 9)], (0, 4, 0), 32 + 3 * (8 + 4), 3 * (8 + 4), 16,
        {"keys_int64s": [1, 2, 3], "values_floats": [0.5, 1.5, 2.5]}, bound="upper", note="look-up",
    ),
    "LabelEncoder of floats": Case(
        [f32(1, 2)], (0, 2, 0), 8 + 2 * (4 + 8), 2 * (4 + 8), 16,
        {"keys_floats": [1.0, 2.0, 3.0], "values_int64s": [4, 5, 6]}, bound="upper",
    ),
    "LabelEncoder of doubles": Case(
        [np.array([1.0, 2.0])], (0, 2, 0), 16 + 2 * (8 + 8), 2 * (8 + 8), 16,
        {
            "keys_tensor": helper.make_tensor("k", onnx.TensorProto.DOUBLE, [3], [1.0, 2.0, 3.0]),
            "values_tensor": helper.make_tensor("v", onnx.TensorProto.DOUBLE, [3], [4.0, 5.0, 6.0]),
            "default_tensor": helper.make_tensor("d", onnx.TensorProto.DOUBLE, [1], [0.0]),
        }, version=4, bound="upper",
    ),
    "OneHotEncoder": Case(
        [i64(1, 5)], (0, 2, 0), 16 + 16, 16, 2 * 4 * 4, {"cats_int64s": [1, 2, 3, 5]}, bound="upper", note="look-up"
    ),
    "OneHotEncoder of floats": Case(
        [f32(1, 5)], (0, 2 + 2, 0), 8 + 16, 16, 2 * 4 * 4, {"cats_int64s": [1, 2, 3, 5]}, bound="upper"
    ),
    # Scores are values in maps; string keys are part of them.
    "ZipMap": Case([X], (0, 0, 0), 24, 0, 24, {"classlabels_int64s": [1, 2, 3]}, bound="lower", note="not the keys"),
    "ZipMap to strings": Case([X], (0, 0, 0), 24, 0, 24, {"classlabels_strings": ["a", "b", "c"]}, bound="lower"),
    # The map holds at most a key and a value for each of 3.
    "DictVectorizer": Case(
        [{1: 0.5, 7: 2.5}], (0, 3, 0), 3 * (8 + 4) + 24, 24, 12, {"int64_vocabulary": [1, 5, 7]},
        kind=MAP(INT64, helper.make_tensor_type_proto(FLOAT, [])), bound="upper", note="every key",
    ),
    "CastMap": Case(
        [{1: 0.5, 7: 2.5}], (0, 0, 0), 0, 0, 8, {"cast_to": "TO_FLOAT"},
        kind=MAP(INT64, helper.make_tensor_type_proto(FLOAT, [])), bound="lower", note="of the map is not counted",
    ),
    "CastMap to integers": Case(
        [{1: 0.5, 7: 2.5}], (0, 2, 0), 0, 0, 16, {"cast_to": "TO_INT64"},
        kind=MAP(INT64, helper.make_tensor_type_proto(FLOAT, [])), bound="lower",
    ),
    "CastMap sparse": Case(
        [{1: 0.5, 7: 2.5}], (0, 0, 0), 0, 0, 36, {"cast_to": "TO_FLOAT", "map_form": "SPARSE", "max_map": 9},
        kind=MAP(INT64, helper.make_tensor_type_proto(FLOAT, [])), bound="lower",
    ),
    # 2 rows, 3 features: 2 targets with intercepts.
    "LinearRegressor": Case(
        [X], (2 * 2 * 6, 4, 0), 24 + 24 + 8, 32, 16,
        {"coefficients": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "intercepts": [1.0, 2.0], "targets": 2},
    ),
    "LinearClassifier": Case(
        [X], (2 * 2 * 9, 2 * (3 + 2), 0), 24 + 36 + 12 + 24, 72, 2 * 8 + 2 * 12,
        {"coefficients": [0.1] * 9, "intercepts": [1.0, 2.0, 3.0], "classlabels_ints": [4, 5, 6]}, outputs=2,
    ),
    # One score for two classes: the intercept, its negation, the compare with zero.
    "LinearClassifier of two": Case(
        [X], (2 * 2 * 3, 2 * 3, 0), 24 + 12 + 4 + 16, 32, 2 * 8 + 2 * 8,
        {"coefficients": [0.1] * 3, "intercepts": [1.0], "classlabels_ints": [0, 1]}, outputs=2,
    ),
    "LinearClassifier of doubles": Case(
        [X.astype(np.float64)], (2 * 2 * 6, 2 * (2 + 1) + 6, 0), 48 + 24 + 8 + 16, 48, 2 * 8 + 2 * 8,
        {"coefficients": [0.1] * 6, "intercepts": [1.0, 2.0], "classlabels_ints": [4, 5]}, outputs=2,
    ),
    "LinearClassifier softmax": Case(
        [X], (2 * 2 * 9, 2 * (3 + 2 + 4 * 3 - 2), 2 * 3), 24 + 36 + 12 + 24, 72, 2 * 8 + 2 * 12,
        {"coefficients": [0.1] * 9, "intercepts": [1.0, 2.0, 3.0], "classlabels_ints": [4, 5, 6],
         "post_transform": "SOFTMAX"}, outputs=2,
    ),
    # 2 vectors: 2 kernel values a row, 2 MACs with the coefficients, rho. RBF: 3 subtracts, 3 squares, 2 adds, -gamma.
    "SVMRegressor": Case(
        [X], (2 * (2 * 2 * 3 + 2 * 2), 2, 0), 24 + 24 + 8 + 4, 36, 8,
        {"kernel_type": "LINEAR", "n_supports": 2, "support_vectors": [0.1] * 6, "coefficients": [1.0, -1.0],
         "rho": [0.5], **KERNEL},
    ),
    "SVMRegressor of one class": Case(
        [X], (2 * 2 * 2, 2 * (2 * 9 + 2), 4), 24 + 24 + 8 + 4, 36, 8,
        {"kernel_type": "RBF", "n_supports": 2, "support_vectors": [0.1] * 6, "coefficients": [1.0, -1.0],
         "rho": [0.5], "one_class": 1, **KERNEL},
    ),
    "SVMRegressor without vectors": Case(
        [X], (2 * 2 * 3, 2, 0), 24 + 12 + 4, 16, 8, {"coefficients": [1.0, 2.0, 3.0], "rho": [0.5], **KERNEL}
    ),
    # 3 classes with 1, 2 and 1 vectors: 4 kernel values a row, each in 2 machines; 3 times rho, compare, vote; label.
    "SVMClassifier": Case(
        [X], (2 * (2 * 4 * 3 + 2 * 8), 2 * (9 + 2 + 4 * 2), 2 * 4),
        24 + 48 + 32 + 12 + 24, 116, 2 * 8 + 2 * 3 * 4,
        {"kernel_type": "SIGMOID", "vectors_per_class": [1, 2, 1], "support_vectors": [0.1] * 12,
         "coefficients": [0.5, -0.5] * 4, "rho": [0.1, 0.2, 0.3], "classlabels_ints": [4, 5, 6], **KERNEL},
        outputs=2,
    ),
    # 2 rows: a compare and an add each; the node and both leaves are read, a mode at each.
    "TreeEnsembleRegressor": Case(
        [X], (0, 2 * 2, 0), 8 + NODE + 2 * (VALUE + 1), NODE + 2 * (VALUE + 1), 8,
        REGRESSOR, bound="upper", note="longest",
    ),
    "TreeEnsembleRegressor average": Case(
        [X], (0, 2 * (2 + 1 + 1), 0), 8 + NODE + 2 * (VALUE + 1) + 4, NODE + 2 * (VALUE + 1) + 4, 8,
        {**REGRESSOR, "base_values": [0.5], "aggregate_function": "AVERAGE"}, bound="upper",
    ),
    # With doubles the sum is converted to the float of the output; base values may be there.
    "TreeEnsembleRegressor of doubles": Case(
        [X.astype(np.float64)], (0, 2 * (2 + 1), 0),
        16 + NODE + 4 + 2 * (VALUE + 4 + 1) + 8, NODE + 4 + 2 * (VALUE + 4 + 1) + 8, 8,
        {**{name: value for name, value in REGRESSOR.items() if name not in ("nodes_values", "target_weights")},
         "nodes_values_as_tensor": helper.make_tensor("v", onnx.TensorProto.DOUBLE, [3], [0.5, 0.0, 0.0]),
         "target_weights_as_tensor": helper.make_tensor("w", onnx.TensorProto.DOUBLE, [2], [1.0, 2.0])}, bound="upper",
    ),
    # Values for one class of two: the score of the other, and the compare for the label.
    "TreeEnsembleClassifier": Case(
        [X], (0, 2 * (2 + 1 + 1), 0), 8 + NODE + 2 * (VALUE + 1) + 16, NODE + 2 * (VALUE + 1) + 16, 2 * 8 + 2 * 8,
        {**STUMP, "class_treeids": [0, 0], "class_nodeids": [1, 2], "class_ids": [1, 1],
         "class_weights": [0.25, 0.75], "classlabels_int64s": [0, 1]}, outputs=2, bound="upper",
    ),
    # Integers are converted: one feature of each row is looked at.
    "TreeEnsembleClassifier of integers": Case(
        [X.astype(np.int64)], (0, 2 * (2 + 2) + 2, 0),
        16 + NODE + 2 * (VALUE + 1) + 24, NODE + 2 * (VALUE + 1) + 24, 2 * 8 + 2 * 12,
        {**STUMP, "class_treeids": [0, 0], "class_nodeids": [1, 2], "class_ids": [1, 2],
         "class_weights": [0.25, 0.75], "classlabels_int64s": [0, 1, 2]}, outputs=2, bound="upper",
    ),
    "TreeEnsemble": Case(
        [X], (0, 2 * 2, 0), 8 + NODE + 16 + 2 * VALUE, NODE + 16 + 2 * VALUE, 8, STUMP_5, version=5, bound="upper",
        note="set membership",
    ),
    "TreeEnsemble logistic": Case(
        [X], (0, 2 * (2 + 3), 2), 8 + NODE + 16 + 2 * VALUE, NODE + 16 + 2 * VALUE, 8,
        {**STUMP_5, "post_transform": 2}, version=5, bound="upper",
    ),
}  # fmt: skip

REFUSED: dict[str, tuple[Case, type[CostError], str]] = {
    "CategoryMapper": (
        Case([i64(1)], (0, 0, 0), 0, 0, 0, {"cats_int64s": [1], "cats_strings": ["a"]}), NoWidthError, "strings"
    ),
    "CategoryMapper to integers": (
        Case([np.array(["a"])], (0, 0, 0), 0, 0, 0, {"cats_int64s": [1], "cats_strings": ["a"]}),
        NoWidthError, "strings",
    ),
    "LabelEncoder 1": (
        Case([i64(0)], (0, 0, 0), 0, 0, 0, {"classes_strings": ["a"]}, version=1), NoWidthError, "strings"
    ),
    "LabelEncoder to strings": (
        Case([i64(0)], (0, 0, 0), 0, 0, 0, {"keys_int64s": [0], "values_strings": ["a"]}), NoWidthError, "strings"
    ),
    "OneHotEncoder of strings": (
        Case([np.array(["a", "b"])], (0, 0, 0), 0, 0, 0, {"cats_strings": ["a", "b"]}), NoWidthError, "strings"
    ),
    "DictVectorizer of strings": (
        Case([{"a": 1.0}], (0, 0, 0), 0, 0, 0, {"string_vocabulary": ["a", "b"]},
             kind=MAP(STRING, helper.make_tensor_type_proto(FLOAT, []))),
        NoWidthError, "strings",
    ),
    "CastMap to strings": (
        Case([{1: 0.5}], (0, 0, 0), 0, 0, 0, {"cast_to": "TO_STRING"},
             kind=MAP(INT64, helper.make_tensor_type_proto(FLOAT, []))),
        NoWidthError, "strings",
    ),
    "LinearClassifier of strings": (
        Case([X], (0, 0, 0), 0, 0, 0, {"coefficients": [0.1] * 9, "intercepts": [1.0] * 3,
                                       "classlabels_strings": ["a", "b", "c"]}, outputs=2),
        NoWidthError, "strings",
    ),
}  # fmt: skip
"""What ONNX Runtime runs and no cost can be told of."""


def run_case(key: str, case: Case) -> Op:
    op, _ = run(named(key), case.inputs, case.outputs, version=case.version, kind=case.kind, **case.attributes)
    return op


def blank(op: Op) -> Op:
    """The op as shape inference leaves it where it knows nothing of the outputs."""
    outputs = [Tensor(name=t.name, dtype="unknown", shape=None) if t is not None else None for t in op.outputs]
    return msgspec.structs.replace(op, outputs=tuple(outputs))


@pytest.mark.parametrize("key", CASES)
def test_case(key: str) -> None:
    case = CASES[key]
    op = run_case(key, case)
    found = work(op)
    assert totals(found) == case.flops
    assert (found.bytes_read, found.bytes_parameters, found.bytes_written) == (case.read, case.parameters, case.written)
    assert found.bound == case.bound
    assert case.note in found.note


OUTPUT_DECIDES = {"CastMap", "CastMap to integers", "DictVectorizer", "LabelEncoder of doubles"}
"""Cases whose outputs do not follow from inputs and attributes as the record holds them."""


@pytest.mark.parametrize("key", sorted(set(CASES) - OUTPUT_DECIDES))
def test_outputs_follow_from_inputs_and_attributes(key: str) -> None:
    op = run_case(key, CASES[key])
    assert work(blank(op)) == msgspec.structs.replace(work(op), dtype=work(blank(op)).dtype)


@pytest.mark.parametrize("key", sorted(OUTPUT_DECIDES))
def test_an_output_that_does_not_follow_is_unknown(key: str) -> None:
    with pytest.raises(UnknownShapeError):
        work_of(blank(run_case(key, CASES[key])))


@pytest.mark.parametrize("key", REFUSED)
def test_strings_are_refused_with_a_word(key: str) -> None:
    case, error, word = REFUSED[key]
    with pytest.raises(error, match=word):
        work_of(run_case(key, case))


def test_no_label_no_compare() -> None:
    case = CASES["LinearClassifier"]
    op = run_case("LinearClassifier", case)
    found = work(msgspec.structs.replace(op, outputs=(None, op.outputs[1])))
    assert (found.vector_flops, found.bytes_parameters, found.bytes_written) == (2 * 3, 36 + 12, 24)


# --- score transforms -----------------------------------------------------------------------


def logistic(x: Num) -> Num:
    return 1 / (1 + (-x).exp())


def probit(x: Num) -> Num:
    y = 2 * x - 1
    sign = 1.0 if y > 0 else -1.0
    log = ((1 - y) * (1 + y)).log()
    v = 2 / (math.pi * 0.147) + 0.5 * log
    w = (1 / 0.147) * log
    return math.sqrt(2) * (sign * ((-v) + (v * v - w).sqrt()).sqrt())


def each(function: Callable[[Num], Num]) -> Callable[[list[Num]], list[Num]]:
    return lambda scores: [function(score) for score in scores]


def softmax(scores: list[Num]) -> list[Num]:
    most = largest(scores)
    exps = [(score - most).exp() for score in scores]
    whole = total(exps)
    return [value / whole for value in exps]


def softmax_zero(scores: list[Num]) -> list[Num]:
    most = largest(scores)
    zero = (-most).exp()
    values = [(score - most).exp() if score > 1e-7 or score < -1e-7 else score * zero for score in scores]
    whole = total(values)
    return [value / whole for value in values]


TRANSFORMS: dict[str, Callable[[list[Num]], list[Num]]] = {
    "NONE": lambda scores: scores,
    "LOGISTIC": each(logistic),
    "SOFTMAX": softmax,
    "SOFTMAX_ZERO": softmax_zero,
    "PROBIT": each(probit),
}


def dot(a: Sequence[Num] | Array, b: Sequence[Num] | Array) -> Num:
    result = Num(0.0, a[0].tally)
    for left, right in zip(a, b, strict=True):
        result = result.mac(left, right)
    return result


def uniform(*shape: int, seed: int = 0, low: float = -1.0, high: float = 1.0) -> Array:
    return np.random.default_rng(seed + sum(shape)).uniform(low, high, shape).astype(np.float32)


@FEW
@given(
    rows=st.integers(1, 3),
    features=st.integers(1, 4),
    targets=st.integers(2, 4),
    intercepts=st.booleans(),
    transform=st.sampled_from(sorted(TRANSFORMS)),
    zero=st.booleans(),
)
def test_linear_models(rows: int, features: int, targets: int, intercepts: bool, transform: str, zero: bool) -> None:
    # PROBIT takes probabilities: scores between 0 and 1.
    x = uniform(rows, features, low=0.1, high=0.9)
    w, b = uniform(targets, features, low=0.1, high=0.9) / features, uniform(targets, low=0.05, high=0.1)
    if zero and transform == "SOFTMAX_ZERO":
        w[0], b[0] = 0, 0
    held: dict[str, Any] = {"coefficients": w.ravel().tolist(), "post_transform": transform}
    if intercepts:
        held["intercepts"] = b.tolist()
    op, (y,) = run("LinearRegressor", [x], targets=targets, **held)
    tally = Tally()
    scores = []
    for row in tally.array(x):
        each_target = [dot(row, weights) for weights in tally.array(w)]
        if intercepts:
            each_target = [score + float(start) for score, start in zip(each_target, b, strict=True)]
        scores.append(TRANSFORMS[transform](each_target))
    np.testing.assert_allclose(plain(scores), y, rtol=1e-4, atol=1e-4)
    found = work(op)
    if transform == "SOFTMAX_ZERO":
        assert found.bound == "upper"
        assert found.tensor_flops == tally.tensor
        assert found.vector_flops >= tally.vector
        assert found.special["exp"] == rows * (targets + 1) >= tally.special["exp"]
    else:
        assert found.bound == "exact"
        assert (found.tensor_flops, found.vector_flops) == (tally.tensor, tally.vector)
        assert dict(found.special) == tally.special


def test_softmax_zero_of_scores_that_are_not_zero_is_exact() -> None:
    op, _ = run(
        "LinearRegressor", [-X[:1, :2]], targets=2, coefficients=[-1.0, -2.0, -3.0, -4.0], post_transform="SOFTMAX_ZERO"
    )
    tally = Tally()
    # Negative scores take both compares.
    softmax_zero([tally.of(-1.0), tally.of(-2.0)])
    assert (work(op).vector_flops, dict(work(op).special)) == (tally.vector, tally.special)


# --- support vector machines -------------------------------------------------------------------


def kernel(name: str, x: Sequence[Num], s: Sequence[Num], gamma: float, coef0: float, degree: float) -> Num:
    if name == "RBF":
        differences = [a - b for a, b in zip(x, s, strict=True)]
        return (-gamma * total([d * d for d in differences])).exp()
    product = dot(x, s)
    if name == "LINEAR":
        return product
    inner = gamma * product + coef0
    return inner.pow(degree) if name == "POLY" else inner.tanh()


KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


@FEW
@given(
    rows=st.integers(1, 3),
    features=st.integers(1, 3),
    supports=st.integers(1, 4),
    name=st.sampled_from(KERNELS),
    one_class=st.booleans(),
)
def test_svm_regressor(rows: int, features: int, supports: int, name: str, one_class: bool) -> None:
    x, s, c = uniform(rows, features), uniform(supports, features, seed=1), uniform(supports, seed=2)
    op, (y,) = run(
        "SVMRegressor", [x], kernel_type=name, kernel_params=[0.7, 0.3, 2.0], n_supports=supports,
        support_vectors=s.ravel().tolist(), coefficients=c.tolist(), rho=[0.2], one_class=int(one_class),
    )  # fmt: skip
    tally = Tally()
    vectors, coefficients = tally.array(s), tally.array(c)
    results = []
    for row in tally.array(x):
        score = dot([kernel(name, row, vector, 0.7, 0.3, 2.0) for vector in vectors], coefficients) + 0.2
        results.append([(tally.of(1.0) if score > 0 else tally.of(-1.0)) if one_class else score])
    np.testing.assert_allclose(plain(results), y, rtol=1e-4, atol=1e-4)
    found = work(op)
    assert (found.tensor_flops, found.vector_flops) == (tally.tensor, tally.vector)
    assert {n: count for n, count in found.special.items() if count} == tally.special


def coupled(pairwise: Mapping[tuple[int, int], Num], classes: int, tally: Tally, stop: bool = True) -> list[Num]:
    """Class probabilities from pairwise ones: Wu, Lin and Weng, 2004, algorithm 2; every step where it may not stop."""
    r = {pair: tally.of(probability.value) for pair, probability in pairwise.items()}
    zero = tally.of(0.0)
    q = [[zero] * classes for _ in range(classes)]
    p = [tally.of(1 / classes) for _ in range(classes)]
    for i in range(classes):
        for j in range(classes):
            if j != i:
                q[i][i] = q[i][i] + r[j, i] * r[j, i]
        for j in range(i + 1, classes):
            q[i][j] = q[j][i] = -(r[j, i] * r[i, j])
    for _ in range(COUPLING_STEPS):
        qp = [dot(q[i], p) for i in range(classes)]
        pqp = dot(p, qp)
        error = largest([zero, *(abs(value - pqp) for value in qp)])
        if error < 0.005 / classes and stop:
            break
        for i in range(classes):
            diff = ((-qp[i]) + pqp) / q[i][i]
            p[i] = p[i] + diff
            grown = 1 + diff
            pqp = (pqp + diff * (diff * q[i][i] + 2 * qp[i])) / grown / grown
            for j in range(classes):
                qp[j] = (qp[j] + diff * q[i][j]) / grown
                p[j] = p[j] / grown
    return p


@FEW
@given(
    rows=st.integers(1, 2),
    features=st.integers(1, 3),
    per_class=st.lists(st.integers(1, 3), min_size=2, max_size=4),
    name=st.sampled_from(KERNELS),
    probabilities=st.booleans(),
)
def test_svm_classifier(rows: int, features: int, per_class: list[int], name: str, probabilities: bool) -> None:
    classes, supports = len(per_class), sum(per_class)
    pairs = list(itertools.combinations(range(classes), 2))
    x, s = uniform(rows, features), uniform(supports, features, seed=1)
    c, rho = uniform(classes - 1, supports, seed=2), uniform(len(pairs), seed=3)
    a, b = uniform(len(pairs), seed=4), uniform(len(pairs), seed=5)
    held = {"prob_a": a.tolist(), "prob_b": b.tolist()} if probabilities else {}
    op, (label, y) = run(
        "SVMClassifier", [x], 2, kernel_type=name, kernel_params=[0.7, 0.3, 2.0], vectors_per_class=per_class,
        support_vectors=s.ravel().tolist(), coefficients=c.ravel().tolist(), rho=rho.tolist(),
        classlabels_ints=list(range(classes)), **held,
    )  # fmt: skip
    tally, longest = Tally(), Tally()
    vectors, coefficients = tally.array(s), tally.array(c)
    starts = np.cumsum([0, *per_class])
    scores, winners = [], []
    for row in tally.array(x):
        kernels = np.array([kernel(name, row, vector, 0.7, 0.3, 2.0) for vector in vectors], dtype=object)
        votes = [tally.of(0.0) for _ in range(classes)]
        found_scores = []
        for (i, j), start in zip(pairs, rho, strict=True):
            of_i, of_j = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
            sides = [(coefficients[j - 1, of_i], kernels[of_i]), (coefficients[i, of_j], kernels[of_j])]
            score = dot(np.concatenate([w for w, _ in sides]), np.concatenate([k for _, k in sides])) + float(start)
            found_scores.append(score)
            winner = i if score > 0 else j
            votes[winner] = votes[winner] + 1
        winners.append(max(range(classes), key=lambda k: votes[k].value))
        largest(votes)
        if probabilities:
            r = {}
            for (i, j), score, slope, shift in zip(pairs, found_scores, a, b, strict=True):
                p = 1 / (1 + (float(slope) * score + float(shift)).exp())
                r[i, j] = p.max(1e-7).min(1 - 1e-7)
                r[j, i] = 1 - r[i, j]
            scores.append(coupled(r, classes, Tally()))
            coupled(r, classes, longest, stop=False)
        elif classes == 2:
            scores.append([*found_scores, -found_scores[0]])
        else:
            scores.append(found_scores)
    found = work(op)
    if classes > 2 or probabilities:
        np.testing.assert_allclose(plain(scores), y, rtol=1e-3, atol=1e-3)
    if classes > 2:
        assert label.tolist() == winners
    assert dict(found.special) == tally.special
    assert found.bound == ("upper" if probabilities else "exact")
    assert found.tensor_flops == tally.tensor
    assert found.vector_flops == tally.vector + longest.tensor + longest.vector


# --- trees -------------------------------------------------------------------------------------


class Split(NamedTuple):
    """An inner node: where a row goes if its feature compares as asked with the threshold."""

    feature: int
    mode: str
    threshold: float
    track: bool
    when_true: Split | Leaf
    when_false: Split | Leaf


class Leaf(NamedTuple):
    """Values by target; one target may get several."""

    values: tuple[tuple[int, float], ...]


FEATURES, TARGETS = 3, 2
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
HOLDS: dict[str, Callable[[float, float], bool]] = {
    "BRANCH_LEQ": lambda x, t: x <= t, "BRANCH_LT": lambda x, t: x < t, "BRANCH_GTE": lambda x, t: x >= t,
    "BRANCH_GT": lambda x, t: x > t, "BRANCH_EQ": lambda x, t: x == t, "BRANCH_NEQ": lambda x, t: x != t,
}  # fmt: skip


def trees(most_values: int) -> st.SearchStrategy[Split | Leaf]:
    value = st.tuples(st.integers(0, TARGETS - 1), st.integers(-8, 8).map(float))
    leaves = st.builds(Leaf, st.lists(value, min_size=1, max_size=most_values).map(tuple))
    return st.recursive(
        leaves,
        lambda below: st.builds(
            Split, st.integers(0, FEATURES - 1), st.sampled_from(MODES), st.integers(-2, 2).map(float), st.booleans(),
            below, below,
        ),
        max_leaves=8,
    )  # fmt: skip


def forests(most_values: int) -> st.SearchStrategy[list[Split | Leaf]]:
    return st.lists(trees(most_values), min_size=1, max_size=3)


def by_ids(forest: Sequence[Split | Leaf], prefix: str, rng: np.random.Generator) -> dict[str, Any]:
    """Attributes of the older ops, the nodes of each tree but its root in any order."""
    held: dict[str, list[Any]] = {
        name: [] for name in (
            *(f"nodes_{n}" for n in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids",
                                     "falsenodeids", "missing_value_tracks_true")),
            *(f"{prefix}_{n}" for n in ("treeids", "nodeids", "ids", "weights")),
        )
    }  # fmt: skip

    for tree, root in enumerate(forest):
        listed = list(nodes_of(root))
        order = [0, *(1 + rng.permutation(len(listed) - 1))]
        name = {id(listed[old]): new for new, old in enumerate(order)}
        for old in order:
            node = listed[old]
            split = node if isinstance(node, Split) else None
            for key, value in {
                "treeids": tree,
                "nodeids": name[id(node)],
                "featureids": split.feature if split else 0,
                "modes": split.mode if split else "LEAF",
                "values": split.threshold if split else 0.0,
                "truenodeids": name[id(split.when_true)] if split else 0,
                "falsenodeids": name[id(split.when_false)] if split else 0,
                "missing_value_tracks_true": int(split.track) if split else 0,
            }.items():
                held[f"nodes_{key}"].append(value)
            if isinstance(node, Leaf):
                for target, weight in node.values:
                    for key, value in {
                        "treeids": tree,
                        "nodeids": name[id(node)],
                        "ids": target,
                        "weights": weight,
                    }.items():
                        held[f"{prefix}_{key}"].append(value)
    return held


def by_positions(forest: Sequence[Split | Leaf]) -> dict[str, Any]:
    """Attributes of TreeEnsemble, whose leaves have one value each."""
    splits: list[Split] = []
    leaves: list[Leaf] = []
    roots = []
    for root in forest:
        # A tree that is a leaf is a node whose branches are this leaf.
        top = root if isinstance(root, Split) else Split(0, "BRANCH_LEQ", 0.0, False, root, root)
        roots.append(len(splits))
        splits += [node for node in nodes_of(top) if isinstance(node, Split)]
        leaves += [node for node in nodes_of(root) if isinstance(node, Leaf)]
    position = {id(node): index for listed in (splits, leaves) for index, node in enumerate(listed)}
    names = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
    return {
        "tree_roots": roots,
        "n_targets": TARGETS,
        "nodes_featureids": [node.feature for node in splits],
        "nodes_missing_value_tracks_true": [int(node.track) for node in splits],
        "nodes_modes": helper.make_tensor(
            "m", onnx.TensorProto.UINT8, [len(splits)], [names.index(n.mode) for n in splits]
        ),
        "nodes_splits": helper.make_tensor("s", FLOAT, [len(splits)], [node.threshold for node in splits]),
        "nodes_truenodeids": [position[id(node.when_true)] for node in splits],
        "nodes_falsenodeids": [position[id(node.when_false)] for node in splits],
        "nodes_trueleafs": [int(isinstance(node.when_true, Leaf)) for node in splits],
        "nodes_falseleafs": [int(isinstance(node.when_false, Leaf)) for node in splits],
        "leaf_targetids": [leaf.values[0][0] for leaf in leaves],
        "leaf_weights": helper.make_tensor("w", FLOAT, [len(leaves)], [leaf.values[0][1] for leaf in leaves]),
    }


def nodes_of(root: Split | Leaf) -> list[Split | Leaf]:
    if isinstance(root, Leaf):
        return [root]
    return [root, *nodes_of(root.when_true), *nodes_of(root.when_false)]


def own(node: Split | Leaf) -> Split | Leaf:
    """A copy in which every node is an object of its own, where hypothesis may repeat one."""
    if isinstance(node, Leaf):
        return node._replace()
    return node._replace(when_true=own(node.when_true), when_false=own(node.when_false))


def paths_of(node: Split | Leaf) -> list[list[Split | Leaf]]:
    """Every way from a node to a leaf."""
    if isinstance(node, Leaf):
        return [[node]]
    return [[node, *path] for child in (node.when_true, node.when_false) for path in paths_of(child)]


def compares(path: Sequence[Split | Leaf]) -> int:
    """Compares on a way: one a node, and one where a missing value takes the true branch."""
    return sum(1 + node.track for node in path if isinstance(node, Split))


def walk(node: Split | Leaf, row: Array, tally: Tally) -> list[Split | Leaf]:
    """The way that a row takes, with compares counted."""
    path = [node]
    while isinstance(node, Split):
        x = float(row[node.feature])
        holds = HOLDS[node.mode](x, node.threshold)
        tally.vector += 1
        if node.track and not holds:
            tally.vector += 1
            holds = math.isnan(x)
        node = node.when_true if holds else node.when_false
        path.append(node)
    return path


def rows_of(count: int, missing: bool, rng: np.random.Generator) -> Array:
    x = rng.integers(-3, 4, (count, FEATURES)).astype(np.float32)
    if missing:
        x[rng.random(x.shape) < 0.2] = np.nan
    return x


AGGREGATES: dict[str, Callable[[list[float]], float]] = {"SUM": sum, "AVERAGE": sum, "MIN": min, "MAX": max}


@FEW
@given(
    forest=forests(3),
    count=st.integers(1, 5),
    seed=st.integers(0, 999),
    missing=st.booleans(),
    aggregate=st.sampled_from(sorted(AGGREGATES)),
)
def test_no_row_does_more_than_is_counted(
    forest: list[Split | Leaf], count: int, seed: int, missing: bool, aggregate: str
) -> None:
    forest = [own(root) for root in forest]
    rng = np.random.default_rng(seed)
    x = rows_of(count, missing, rng)
    held = by_ids(forest, "target", rng)
    op, (y,) = run("TreeEnsembleRegressor", [x], n_targets=TARGETS, aggregate_function=aggregate, **held)
    tally = Tally()
    passed: set[int] = set()
    ends: dict[int, Leaf] = {}
    for row, result in zip(x, y, strict=True):
        scores: list[list[float]] = [[] for _ in range(TARGETS)]
        for root in forest:
            path = walk(root, row, tally)
            passed |= {id(node) for node in path}
            leaf = path[-1]
            assert isinstance(leaf, Leaf)
            ends[id(leaf)] = leaf
            for target, value in leaf.values:
                scores[target].append(value)
                tally.vector += 1
        expected = np.array([AGGREGATES[aggregate](values) if values else 0.0 for values in scores])
        np.testing.assert_allclose(result, expected / (len(forest) if aggregate == "AVERAGE" else 1), rtol=1e-5)
    tally.vector += count * TARGETS if aggregate == "AVERAGE" else 0
    found = work(op)
    assert found.bound == "upper"
    assert found.vector_flops >= tally.vector
    inner = len(passed) - len(ends)
    values = sum(len(leaf.values) for leaf in ends.values())
    assert found.bytes_parameters >= (NODE + 8) * inner + len(ends) + VALUE * values
    # And the most that there can be is what is counted.
    longest = sum(max(map(compares, paths_of(root))) for root in forest)
    most = sum(max(len(leaf.values) for leaf in nodes_of(root) if isinstance(leaf, Leaf)) for root in forest)
    whole = longest + most + (TARGETS if aggregate == "AVERAGE" else 0)
    assert found.vector_flops == count * whole


@FEW
@given(forest=forests(1), count=st.integers(1, 5), seed=st.integers(0, 999))
def test_tree_ensemble_counts_as_the_regressor_does(forest: list[Split | Leaf], count: int, seed: int) -> None:
    forest = [own(root) for root in forest]
    rng = np.random.default_rng(seed)
    x = rows_of(count, False, rng)
    older, (y,) = run("TreeEnsembleRegressor", [x], n_targets=TARGETS, **by_ids(forest, "target", rng))
    newer, (z,) = run("TreeEnsemble", [x], version=5, **by_positions(forest))
    np.testing.assert_allclose(y, z)
    assert work(newer).flops == work(older).flops
    assert work(newer).bytes_written == work(older).bytes_written


@FEW
@given(forest=forests(3), rows=st.integers(1, 12))
def test_distinct_nodes_are_those_that_rows_can_reach(forest: list[Split | Leaf], rows: int) -> None:
    forest = [own(root) for root in forest]
    found = walks(as_forest(forest), rows)
    nodes = leaves = values = 0
    exact = True
    for root in forest:
        paths = paths_of(root)
        if len(paths) <= rows or rows == 1:
            picked: list[tuple[list[Split | Leaf], ...]] = (
                [tuple(paths)] if len(paths) <= rows else [(p,) for p in paths]
            )
        else:
            picked, exact = list(itertools.combinations(paths, rows)), False
        nodes += max(len({id(n) for path in some for n in path[:-1]}) for some in picked)
        leaves += max(len({id(path[-1]) for path in some}) for some in picked)
        values += max(sum(len(path[-1].values) for path in some if isinstance(path[-1], Leaf)) for some in picked)
    assert found.nodes >= nodes
    assert found.leaves == leaves
    assert found.values >= values
    if exact:
        assert found.nodes == nodes


def as_forest(forest: Sequence[Split | Leaf]) -> Forest:
    listed = [node for root in forest for node in nodes_of(root)]
    place = {id(node): ~index if isinstance(node, Leaf) else index for index, node in enumerate(listed)}
    return Forest(
        roots=[place[id(root)] for root in forest],
        when_true=[place[id(n.when_true)] if isinstance(n, Split) else -1 for n in listed],
        when_false=[place[id(n.when_false)] if isinstance(n, Split) else -1 for n in listed],
        tests=[1 + n.track if isinstance(n, Split) else 1 for n in listed],
        votes=[len(n.values) if isinstance(n, Leaf) else 0 for n in listed],
        features=[n.feature if isinstance(n, Split) else 0 for n in listed],
    )


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


def test_values_at_inner_nodes_are_ignored() -> None:
    held = {
        **REGRESSOR, "target_treeids": [0, 0, 0], "target_nodeids": [0, 1, 2], "target_ids": [0, 0, 0],
        "target_weights": [9.0, 1.0, 2.0],
    }  # fmt: skip
    op, (y,) = run("TreeEnsembleRegressor", [X], **held)
    plain_op, (z,) = run("TreeEnsembleRegressor", [X], **REGRESSOR)
    assert y.tolist() == z.tolist()
    assert work(op) == work(plain_op)


def random_forest(trees: int, splits: int, seed: int = 0) -> dict[str, Any]:
    """Trees grown at random leaves, as attributes of TreeEnsemble; chains where ``trees`` is 1 are not made."""
    rng = np.random.default_rng(seed)
    held: dict[str, Any] = {f"nodes_{n}": [] for n in ("truenodeids", "falsenodeids", "trueleafs", "falseleafs")}
    roots, leaves = [], 0
    for _ in range(trees):
        base = len(held["nodes_truenodeids"])
        roots.append(base)
        ends: list[tuple[int, str]] = []
        for index in range(splits):
            node = base + index
            if ends:
                at = int(rng.integers(len(ends)))
                parent, branch = ends[at]
                ends[at] = ends[-1]
                ends.pop()
                held[f"nodes_{branch}nodeids"][parent] = node
                held[f"nodes_{branch}leafs"][parent] = 0
            for branch in ("true", "false"):
                held[f"nodes_{branch}nodeids"].append(-1)
                held[f"nodes_{branch}leafs"].append(1)
                ends.append((node, branch))
        for parent, branch in ends:
            held[f"nodes_{branch}nodeids"][parent] = leaves
            leaves += 1
    count = trees * splits
    return {
        "tree_roots": roots,
        **held,
        "nodes_featureids": rng.integers(0, 50, count).tolist(),
        "leaf_targetids": [0] * leaves,
        "n_targets": 1,
    }


def ensemble(rows: int, **held: Any) -> Op:
    return record("TreeEnsemble", tensor("x", "fp32", rows, 50), out=[tensor("y", "fp32", rows, 1)], opset=5, held=held)


def test_a_hundred_thousand_nodes() -> None:
    op = ensemble(1000, **random_forest(100, 1000))
    found = work(op)
    assert found.vector_flops > 1000 * 100 * math.log2(1000)


@pytest.mark.parametrize("roots", [1, 1000])
def test_a_chain_of_a_hundred_thousand_nodes(roots: int) -> None:
    count = 100_000
    op = ensemble(
        3,
        tree_roots=[0] * roots,
        nodes_truenodeids=[*range(1, count), 0],
        nodes_falsenodeids=[0] * count,
        nodes_trueleafs=[*[0] * (count - 1), 1],
        nodes_falseleafs=[1] * count,
        nodes_featureids=[0] * count,
        leaf_targetids=[0],
        n_targets=1,
    )
    found = work(op)
    assert found.vector_flops == 3 * roots * (count + 1)
    assert found.bytes_parameters == count * (NODE + 16) + VALUE


MALFORMED: dict[str, tuple[str, Mapping[str, Any]]] = {
    "a node that leads to itself": ("TreeEnsembleRegressor", {**REGRESSOR, "nodes_truenodeids": [0, 0, 0]}),
    "a longer cycle": (
        "TreeEnsembleRegressor",
        {**REGRESSOR, "nodes_modes": ["BRANCH_LT", "BRANCH_LT", "LEAF"], "nodes_falsenodeids": [2, 2, 0]},
    ),
    "a child that is not there": ("TreeEnsembleRegressor", {**REGRESSOR, "nodes_falsenodeids": [7, 0, 0]}),
    "a child in another tree": ("TreeEnsembleRegressor", {**REGRESSOR, "nodes_treeids": [0, 0, 1]}),
    "an id that is taken": ("TreeEnsembleRegressor", {**REGRESSOR, "nodes_nodeids": [0, 1, 1]}),
    "a value at a node that is not there": ("TreeEnsembleRegressor", {**REGRESSOR, "target_nodeids": [1, 9]}),
    "a list that is too short": ("TreeEnsembleRegressor", {**REGRESSOR, "nodes_featureids": [1, 0]}),
    "no modes": ("TreeEnsembleRegressor", {n: v for n, v in REGRESSOR.items() if n != "nodes_modes"}),
    "thresholds that are too few": ("TreeEnsembleRegressor", {**REGRESSOR, "nodes_values": [1.0]}),
    "a feature that X has not": ("TreeEnsembleRegressor", {**REGRESSOR, "nodes_featureids": [3, 0, 0]}),
    "an unknown aggregate": ("TreeEnsembleRegressor", {**REGRESSOR, "aggregate_function": "MEDIAN"}),
    "an unknown transform": ("TreeEnsembleRegressor", {**REGRESSOR, "post_transform": "TANH"}),
    "a root that is not there": ("TreeEnsemble", {**STUMP_5, "tree_roots": [1]}),
    "a leaf that is not there": ("TreeEnsemble", {**STUMP_5, "nodes_falsenodeids": [2]}),
    "a negative position": ("TreeEnsemble", {**STUMP_5, "nodes_truenodeids": [-1]}),
    "a cycle by position": ("TreeEnsemble", {**STUMP_5, "nodes_trueleafs": [0]}),
    "an aggregate out of range": ("TreeEnsemble", {**STUMP_5, "aggregate_function": 4}),
    "a linear model that does not fit": ("LinearRegressor", {"coefficients": [1.0, 2.0]}),
    "classes that do not fit": ("LinearClassifier", {"coefficients": [1.0] * 4, "classlabels_ints": [0, 1]}),
    "vectors that do not fit": (
        "SVMRegressor", {"n_supports": 2, "support_vectors": [1.0] * 5, "coefficients": [1.0, 2.0]},
    ),
    "an unknown kernel": (
        "SVMRegressor",
        {"n_supports": 1, "support_vectors": [1.0] * 3, "coefficients": [1.0], "kernel_type": "COSINE"},
    ),
    "a norm that is unknown": ("Normalizer", {"norm": "L3"}),
}  # fmt: skip


@pytest.mark.parametrize("key", MALFORMED)
def test_a_malformed_op_is_said(key: str) -> None:
    op_type, held = MALFORMED[key]
    opset = 5 if op_type == "TreeEnsemble" else 1
    op = record(op_type, tensor("x", "fp32", 2, 3), out=[tensor("y", "fp32", 2, 1)], opset=opset, held=held)
    with pytest.raises(MalformedOpError) as error:
        work_of(op)
    assert "does not fit its definition" not in str(error.value), "caught by chance"


@pytest.mark.parametrize(
    "op",
    [
        record("Scaler", tensor("x", "fp32", "n", 3), out=[tensor("y", "fp32", "n", 3)]),
        record(
            "TreeEnsembleRegressor",
            tensor("x", "fp32", "n", 3),
            out=[tensor("y", "fp32", "n", 1)],
            held=REGRESSOR,
        ),
        record("ZipMap", Tensor(name="x", dtype="fp32", shape=None), out=[shown("y", [])]),
    ],
)
def test_unknown_rows_are_said(op: Op) -> None:
    with pytest.raises(UnknownShapeError):
        work_of(op)


def test_parameters_of_two_nodes_are_two_constants() -> None:
    x = tensor("x", "fp32", 2, 3)
    ops = [record("TreeEnsembleRegressor", x, out=[tensor(y, "fp32", 2, 1)], held=REGRESSOR) for y in ("y", "z")]
    group = work_of_group(ops)
    assert group is not None
    assert group.bytes_parameters == 2 * work(ops[0]).bytes_parameters > 0
