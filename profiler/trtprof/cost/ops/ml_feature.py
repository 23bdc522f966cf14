"""Numeric features of ``ai.onnx.ml``: scaled, imputed, normalised, picked and put together."""

from __future__ import annotations

import math

from trtprof.base.records import Op
from trtprof.cost import Cost, MalformedOpError, cost
from trtprof.cost._ml import ML, converted, items, matrix, reading, table, with_outputs
from trtprof.cost._recipes import Recipe
from trtprof.cost._shapes import need, shape, size, string, work


@cost("Scaler", domain=ML)
def scaler(op: Op) -> Cost:
    """(x - offset) * scale, two FLOP per value, and a conversion where x is not fp32."""
    x = need(op, 0)
    elements = size(x)
    offset, scale = len(items(op, "offset")), len(items(op, "scale"))
    found = work(
        with_outputs(op, ("fp32", shape(x))),
        vector=elements * (int(offset > 0) + int(scale > 0)) + converted(x, elements),
    )
    return reading(found, table(op, "offset", "fp32", offset), table(op, "scale", "fp32", scale))


@cost("Imputer", domain=ML)
def imputer(op: Op) -> Cost:
    """A compare per value with the one to be replaced."""
    x = need(op, 0)
    integers = "int" in x.dtype
    name = "imputed_value_int64s" if integers else "imputed_value_floats"
    found = work(with_outputs(op, (x.dtype, shape(x))), vector=size(x))
    return reading(found, table(op, name, "int64" if integers else "fp32", len(items(op, name))))


@cost("Binarizer", domain=ML)
def binarizer(op: Op) -> Cost:
    """A compare per value with the threshold."""
    x = need(op, 0)
    return work(with_outputs(op, (x.dtype, shape(x))), vector=size(x))


@cost("Normalizer", domain=ML)
def normalizer(op: Op) -> Cost:
    """Every row divided by its norm, which is compared with zero.

    MAX, the largest value: n - 1 compares. L1, the sum of absolute values: n and n - 1 adds. L2, the root of the
    sum of squares: n multiplies, n - 1 adds, a square root. The text of ONNX has the root of x^2 / sum x^2
    for L2, one per value; it is the same but for the sign of x, which runtimes keep.
    """
    x = need(op, 0)
    rows, n = matrix(x)
    norm = string(op, "norm", "MAX")
    norms = {"MAX": Recipe(n - 1), "L1": Recipe(2 * n - 1), "L2": Recipe(2 * n - 1, {"sqrt": 1})}
    if norm not in norms:
        raise MalformedOpError(f"there is no norm {norm!r}")
    recipe = norms[norm].plus(Recipe(1 + n)).times(rows if n else 0)
    return work(with_outputs(op, ("fp32", shape(x))), recipe, vector=converted(x, rows * n))


@cost("FeatureVectorizer", domain=ML)
def feature_vectorizer(op: Op) -> Cost:
    """Inputs [N, C] side by side, converted where they are not fp32."""
    inputs = [tensor for tensor in op.inputs if tensor is not None]
    rows, columns = 0, 0
    for tensor in inputs:
        rows, features = matrix(tensor)
        columns += features
    conversions = sum(converted(tensor, size(tensor)) for tensor in inputs)
    return work(with_outputs(op, ("fp32", (rows, columns))), vector=conversions)


@cost("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(op: Op) -> Cost:
    """Values picked along the last axis; where indices may repeat, each is counted once per naming.

    Inputs X [..., n], Y the indices; the output of a vector X is a row.
    """
    x, indices = need(op, 0), need(op, 1)
    dims = shape(x)
    if not dims:
        raise MalformedOpError("ArrayFeatureExtractor needs an input of rank 1 or more")
    named = size(indices)
    distinct = named if indices.value is None else len(set(indices.value))
    outer = math.prod(dims[:-1])
    repeats = indices.value is None and named > 1
    return work(
        with_outputs(op, (x.dtype, (*(dims[:-1] or (1,)), named))),
        read={0: outer * min(distinct, dims[-1])},
        bound="upper" if repeats else "exact",
        note="indices may repeat" if repeats else "",
    )
