"""Support vector machines of ``ai.onnx.ml``, in the form of libsvm.

C.-C. Chang and C.-J. Lin, LIBSVM: a library for support vector machines, ACM TIST 2(3), 2011.
"""

from __future__ import annotations

from trtprof.base.records import Op
from trtprof.cost import Cost, MalformedOpError, cost
from trtprof.cost._ml import ML, converted, ids, items, labels, matrix, post_transform, reading, table, with_outputs
from trtprof.cost._recipes import NOTHING, Recipe
from trtprof.cost._shapes import integer, made, need, string, work

COUPLING_STEPS = 100
"""Most iterations of the pairwise coupling, in libsvm and in ONNX Runtime."""


def _kernel(op: Op, pairs: int, features: int) -> tuple[int, Recipe]:
    """FLOP of multiply-accumulates, and the rest, of ``pairs`` kernel values of ``features`` each.

    LINEAR x.s; POLY (gamma x.s + coef0)^degree; SIGMOID tanh(gamma x.s + coef0); RBF
    exp(-gamma |x - s|^2) as it is written: subtract, square and sum, no product of matrices.

    Raises:
        MalformedOpError: There is no such kernel.
    """
    name = string(op, "kernel_type", "LINEAR")
    match name:
        case "LINEAR":
            return 2 * pairs * features, NOTHING
        case "POLY":
            return 2 * pairs * features, Recipe(2, {"pow": 1}).times(pairs)
        case "SIGMOID":
            return 2 * pairs * features, Recipe(2, {"tanh": 1}).times(pairs)
        case "RBF":
            distance = max(3 * features - 1, 0)
            return 0, Recipe(distance + 1, {"exp": 1}).times(pairs)
        case _:
            raise MalformedOpError(f"there is no kernel_type {name!r}")


def _coupling(classes: int) -> int:
    """FLOP of the probabilities of all classes from those of every pair, at most.

    T.-F. Wu, C.-J. Lin and R. C. Weng, Probability estimates for multi-class classification by
    pairwise coupling, JMLR 5, 2004, algorithm 2. The matrix takes a multiply and an add for each
    value beside the diagonal, and a negated product for each above it. A step takes Qp and pQp as dot
    products, the largest error (subtract, absolute value, compare) and a test; then for each class
    4 to move it, 8 for pQp, and for each value of Qp and p a multiply, an add and two divides.
    """
    k = classes
    matrix_flops = 2 * k * (k - 1) + k * (k - 1)
    step = 2 * k * k + 2 * k + 3 * k + 1 + k * (4 + 8 + 4 * k)
    return matrix_flops + COUPLING_STEPS * step


@cost("SVMRegressor", domain=ML)
def svm_regressor(op: Op) -> Cost:
    """A kernel value per row and support vector, their product with the coefficients, and rho.

    Without support vectors the coefficients are those of a linear model. A one-class machine has its
    result compared with zero.
    """
    x = need(op, 0)
    rows, features = matrix(x)
    supports = integer(op, "n_supports", 0)
    vectors, coefficients = len(items(op, "support_vectors")), len(items(op, "coefficients"))
    if supports:
        if vectors != supports * features or coefficients != supports:
            raise MalformedOpError(
                f"{vectors} values and {coefficients} coefficients are not {supports} vectors of {features}"
            )
        tensor, recipe = _kernel(op, rows * supports, features)
    else:
        if coefficients != features:
            raise MalformedOpError(f"{coefficients} coefficients do not fit {features} features")
        tensor, recipe = 0, NOTHING
    transform, note = post_transform(string(op, "post_transform", "NONE"), rows, 1)
    after = 2 if integer(op, "one_class", 0) else 1
    found = work(
        with_outputs(op, ("fp32", (rows, 1))),
        recipe.plus(transform),
        tensor=tensor + 2 * rows * coefficients,
        vector=converted(x, rows * features) + after * rows,
        bound="upper" if note else "exact",
        note=note,
    )
    return reading(
        found,
        table(op, "support_vectors", "fp32", vectors if supports else 0),
        table(op, "coefficients", "fp32", coefficients),
        table(op, "rho", "fp32", 1),
    )


@cost("SVMClassifier", domain=ML)
def svm_classifier(op: Op) -> Cost:
    """One machine per pair of classes; without support vectors a linear model per class.

    A kernel value per row and support vector; each vector takes part in classes - 1 machines, one MAC
    in each. Per pair of classes rho, a compare and a vote; the label is that with most votes.
    Probabilities per pair are 1 / (1 + exp(a s + b)), kept off 0 and 1 by two compares, and one subtract for
    the opposite; then coupled. With two classes and no probabilities one score is the negation of the other.
    """
    x = need(op, 0)
    rows, features = matrix(x)
    classes, label, stored = labels(op, "classlabels_ints", "classlabels_strings")
    per_class = ids(op, "vectors_per_class")
    supports = sum(per_class)
    vectors, coefficients = len(items(op, "support_vectors")), len(items(op, "coefficients"))
    pairs = classes * (classes - 1) // 2
    probabilities = bool(supports and items(op, "prob_a"))
    notes = []
    if supports:
        if len(per_class) != classes or vectors != supports * features or coefficients != (classes - 1) * supports:
            raise MalformedOpError(
                f"{vectors} values and {coefficients} coefficients are not {supports} vectors of {features} "
                f"features for {classes} classes"
            )
        tensor, recipe = _kernel(op, rows * supports, features)
        # Rho, the compare with zero, the vote.
        recipe = recipe.plus(Recipe(3 * pairs).times(rows))
        scores = classes if probabilities else max(pairs, 2)
    else:
        if coefficients != classes * features:
            raise MalformedOpError(f"{coefficients} coefficients are not {classes} rows of {features} features")
        tensor, recipe = 0, Recipe(classes).times(rows)
        scores = classes
    if probabilities:
        recipe = recipe.plus(Recipe(7, {"exp": 1}).times(rows * pairs)).plus(Recipe(_coupling(classes)).times(rows))
        notes.append(f"pairwise coupling counted with all of its {COUPLING_STEPS} iterations")
    elif supports and pairs == 1:
        recipe = recipe.plus(Recipe(1).times(rows))
    if made(op, 0) is not None:
        recipe = recipe.plus(Recipe(max(classes - 1, 0)).times(rows))
    transform, note = post_transform(string(op, "post_transform", "NONE"), rows, scores)
    notes += [note] if note else []
    found = work(
        with_outputs(op, (label, (rows,)), ("fp32", (rows, scores))),
        recipe.plus(transform),
        tensor=tensor + 2 * rows * coefficients,
        vector=converted(x, rows * features),
        bound="upper" if notes else "exact",
        note="; ".join(notes),
    )
    return reading(
        found,
        table(op, "support_vectors", "fp32", vectors if supports else 0),
        table(op, "coefficients", "fp32", coefficients),
        table(op, "rho", "fp32", pairs if supports else 1),
        table(op, "prob_a", "fp32", pairs if probabilities else 0),
        table(op, "prob_b", "fp32", pairs if probabilities else 0),
        *(stored if made(op, 0) is not None else ()),
    )
