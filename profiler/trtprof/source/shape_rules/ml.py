"""The ops of ai.onnx.ml: features [rows, columns] in, labels and scores out."""

from __future__ import annotations

from collections.abc import Sequence

from trtprof.base.records import Dim, Op, Tensor
from trtprof.source.shape_rules import rule, rules
from trtprof.source.shape_rules._dims import *

ML = "ai.onnx.ml"


def _rows(op: Op) -> Dim:
    """Rows of the first input; a vector is one row."""
    x = shape(op)
    if x is None:
        return "?"
    if len(x) not in (1, 2):
        raise ValueError(f"{op.op_type} takes a matrix or a vector")
    return 1 if len(x) == 1 else x[0]


@rule("CategoryMapper", domain=ML)
def category_mapper(op: Op) -> Sequence[Tensor | None]:
    """Strings to integers or back."""
    kind = {"string": "int64", "int64": "string"}.get(dtype(op), "unknown")
    return [like(op, kind=kind)]


_LABELS = {
    "values_strings": "string", "values_int64s": "int64", "values_floats": "fp32", "classes_strings": "",
}  # fmt: skip


@rule("LabelEncoder", domain=ML)
def label_encoder(op: Op) -> Sequence[Tensor | None]:
    """The dtype is that of the values; version 1 maps strings to integers or back."""
    kind = next((kind for name, kind in _LABELS.items() if name in op.attributes), "unknown")
    return [like(op, kind=kind)] if kind else category_mapper(op)


def _labels(op: Op) -> tuple[str, int]:
    strings = count(op, "classlabels_strings")
    return ("string", strings) if strings else ("int64", count(op, "classlabels_ints", "classlabels_int64s"))


def _classified(op: Op, scores: Dim) -> list[Tensor | None]:
    rows = _rows(op)
    return [made(_labels(op)[0], (rows,)), made("fp32", (rows, scores))]


@rule("LinearClassifier", domain=ML)
def linear_classifier(op: Op) -> Sequence[Tensor | None]:
    """A score for each row of coefficients; two for one row and two classes."""
    x = shape(op)
    features: Dim = "?" if x is None else x[-1]
    rows = count(op, "intercepts") or over(count(op, "coefficients"), features)
    return _classified(op, 2 if rows == 1 and _labels(op)[1] == 2 else rows)


@rule("SVMClassifier", domain=ML)
def svm_classifier(op: Op) -> Sequence[Tensor | None]:
    """A score for each class where they are linear or probabilities, else for each pair of classes, and two of one."""
    classes = count(op, "vectors_per_class")
    if not classes or count(op, "prob_a"):
        return _classified(op, _labels(op)[1])
    return _classified(op, max(classes * (classes - 1) // 2, 2))


@rule("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(op: Op) -> Sequence[Tensor | None]:
    """The chosen ones along the last dimension; a vector becomes one row."""
    x, chosen = shape(op), like(op, 1).elements
    if x is None:
        return [made(dtype(op), None)]
    outer: Shape = x[:-1] if len(x) > 1 else (1,)
    return [made(dtype(op), (*outer, "?" if chosen is None else chosen))]


@rule("OneHotEncoder", domain=ML)
def one_hot_encoder(op: Op) -> Sequence[Tensor | None]:
    """A new last dimension, one for each category."""
    x = shape(op)
    return [made("fp32", None if x is None else (*x, count(op, "cats_int64s", "cats_strings")))]


@rule("FeatureVectorizer", domain=ML)
def feature_vectorizer(op: Op) -> Sequence[Tensor | None]:
    """As many columns as ``inputdimensions`` has in all; what an input has fewer is filled up."""
    declared = op.attributes.get("inputdimensions")
    columns: Dim = sum(int(item) for item in declared) if isinstance(declared, tuple) else "?"
    x = shape(op)
    rows: Dim = "?" if x is None else 1 if len(x) < 2 else x[0]
    return [made("fp32", (rows, columns))]


_CASTS = {"TO_FLOAT": "fp32", "TO_STRING": "string", "TO_INT64": "int64"}


@rule("CastMap", domain=ML)
def cast_map(op: Op) -> Sequence[Tensor | None]:
    """One row, as long as the map is, or as ``max_map`` says."""
    sparse = text(op, "map_form", "DENSE") == "SPARSE"
    columns: Dim = integer(op, "max_map", 1) if sparse else "?"
    return [made(_CASTS.get(text(op, "cast_to", "TO_FLOAT"), "unknown"), (1, columns))]


rules(
    ML,
    {
        # Floats of the same shape.
        "Scaler Normalizer": lambda op: [like(op, kind="fp32")],
        # Shape and dtype of the input.
        "Imputer Binarizer": lambda op: [like(op)],
        # A score for each class.
        "TreeEnsembleClassifier": lambda op: _classified(op, _labels(op)[1]),
        # A value for each target.
        "LinearRegressor": lambda op: [made("fp32", (_rows(op), integer(op, "targets", 1)))],
        # One value a row.
        "SVMRegressor": lambda op: [made("fp32", (_rows(op), 1))],
        # A value for each target.
        "TreeEnsembleRegressor": lambda op: [made("fp32", (_rows(op), integer(op, "n_targets", 1)))],
        # The same in the dtype of the input.
        "TreeEnsemble": lambda op: [made(dtype(op), (_rows(op), integer(op, "n_targets", 1)))],
        # One row, one column for each word; values keep their dtype, which the record of a map does not have.
        "DictVectorizer": lambda op: [made("unknown", (1, count(op, "string_vocabulary", "int64_vocabulary")))],
        # A sequence of maps, one for each row.
        "ZipMap": lambda _op: [Tensor(name="", dtype="unknown", shape=None, kind="sequence")],
    },
)
