"""Linear models of ``ai.onnx.ml``."""

from __future__ import annotations

from trtprof.base.records import Op
from trtprof.cost import Cost, MalformedOpError, cost
from trtprof.cost._ml import ML, converted, items, labels, matrix, post_transform, reading, table, with_outputs
from trtprof.cost._shapes import integer, made, need, string, work


@cost("LinearClassifier", domain=ML)
def linear_classifier(op: Op) -> Cost:
    """2 * rows * features * scores, one add per intercept, the transform, a compare per further score for the label.

    There are as many scores as rows of coefficients. One for two classes is compared with zero, and its
    negation is the score of the other class.
    """
    x = need(op, 0)
    rows, features = matrix(x)
    coefficients = len(items(op, "coefficients"))
    if not features or not coefficients or coefficients % features:
        raise MalformedOpError(f"{coefficients} coefficients are not rows of {features} features")
    scores = coefficients // features
    intercepts = len(items(op, "intercepts"))
    classes, label, stored = labels(op, "classlabels_ints", "classlabels_strings")
    opposite = scores == 1 and classes == 2
    given = 2 if opposite else scores
    transform, note = post_transform(string(op, "post_transform", "NONE"), rows, given)
    vector = converted(x, rows * features) + rows * (scores if intercepts else 0) + rows * int(opposite)
    if made(op, 0) is not None:
        vector += rows * max(scores - 1, 1)
    found = work(
        with_outputs(op, (label, (rows,)), ("fp32", (rows, given))),
        transform,
        tensor=2 * rows * coefficients,
        vector=vector,
        bound="upper" if note else "exact",
        note=note,
    )
    return reading(
        found,
        table(op, "coefficients", "fp32", coefficients),
        table(op, "intercepts", "fp32", intercepts),
        *(stored if made(op, 0) is not None else ()),
    )


@cost("LinearRegressor", domain=ML)
def linear_regressor(op: Op) -> Cost:
    """2 * rows * features * targets, one add per intercept, the transform."""
    x = need(op, 0)
    rows, features = matrix(x)
    targets = integer(op, "targets", 1)
    coefficients, intercepts = len(items(op, "coefficients")), len(items(op, "intercepts"))
    if coefficients != targets * features:
        raise MalformedOpError(f"{coefficients} coefficients are not {targets} rows of {features} features")
    transform, note = post_transform(string(op, "post_transform", "NONE"), rows, targets)
    found = work(
        with_outputs(op, ("fp32", (rows, targets))),
        transform,
        tensor=2 * rows * coefficients,
        vector=converted(x, rows * features) + (rows * targets if intercepts else 0),
        bound="upper" if note else "exact",
        note=note,
    )
    return reading(found, table(op, "coefficients", "fp32", coefficients), table(op, "intercepts", "fp32", intercepts))
