"""The ops of ``ai.onnx.ml`` but for trees: features, categories, dictionaries, linear models, support vector machines.

A look-up counts as one compare, that of a hash table, and reads at most one entry; strings have no width. A map has no
dense form: only the values that it holds are counted. Support vector machines: C.-C. Chang and C.-J. Lin, LIBSVM, ACM
TIST 2(3), 2011.
"""

from __future__ import annotations

import math

from trtprof.base.records import Op, Tensor
from trtprof.cost import Cost, MalformedOpError, Moved, NoWidthError, UnknownShapeError, cost
from trtprof.cost._ml import ML, converted, ids, items, labels, matrix, post_transform, reading, table, with_outputs
from trtprof.cost._recipes import NOTHING, Recipe
from trtprof.cost._shapes import integer, made, need, out, shape, size, string, work


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


_NOTE = "a look-up counted as one compare, with an entry of its own to read"
_LISTS = {"int64s": "int64", "floats": "fp32", "strings": "string"}


def _column(op: Op, column: str, dtype: str, elements: int) -> Moved:
    """What is read of the keys or the values of a table for ``elements`` look-ups.

    A column in a tensor attribute is of ``dtype``; its length is not known here.
    """
    for suffix, stored in _LISTS.items():
        length = len(items(op, f"{column}_{suffix}"))
        if length:
            return table(op, f"{column}_{suffix}", stored, length, elements)
    return table(op, f"{column}_tensor", dtype, elements)


@cost("LabelEncoder", domain=ML, first=2)
def label_encoder(op: Op) -> Cost:
    """A look-up per value: its key, and the value that stands for it."""
    x = need(op, 0)
    elements = size(x)
    values = next((stored for suffix, stored in _LISTS.items() if items(op, f"values_{suffix}")), "unknown")
    known = with_outputs(op, (values, shape(x)))
    found = work(known, vector=elements, bound="upper", note=_NOTE)
    result = next((moved.tensor.dtype for moved in found.writes), values)
    return reading(found, _column(op, "keys", x.dtype, elements), _column(op, "values", result, elements))


@cost("LabelEncoder", domain=ML, last=1)
@cost("CategoryMapper", domain=ML)
def string_mapper(op: Op) -> Cost:
    """A look-up per value, from strings to integers or back: strings are on one side always."""
    x = need(op, 0)
    return work(with_outputs(op, ("string" if x.dtype == "int64" else "int64", shape(x))), vector=size(x))


@cost("OneHotEncoder", domain=ML)
def one_hot_encoder(op: Op) -> Cost:
    """A look-up per value, and a row of categories written; values that are not int64 are converted."""
    x = need(op, 0)
    elements = size(x)
    categories = len(items(op, "cats_int64s")) or len(items(op, "cats_strings"))
    conversions = 0 if x.dtype in ("int64", "string") else elements
    found = work(
        with_outputs(op, ("fp32", (*shape(x), categories))), vector=elements + conversions, bound="upper", note=_NOTE
    )
    return reading(found, table(op, "cats_int64s", "int64", len(items(op, "cats_int64s")), elements))


@cost("ZipMap", domain=ML)
def zip_map(op: Op) -> Cost:
    """A map per row from labels to its scores: the scores are copied."""
    x = need(op, 0)
    rows, columns = matrix(x)
    scores = Tensor(name=out(op).name, dtype=x.dtype, shape=(rows, columns))
    return Cost(
        reads=(Moved(x, rows * columns),),
        writes=(Moved(scores, rows * columns),),
        bound="lower",
        note="of the maps only the values are counted, not the keys",
    )


@cost("DictVectorizer", domain=ML)
def dict_vectorizer(op: Op) -> Cost:
    """A look-up, one compare, per entry of the map, at most one for each key of the vocabulary; the rest is zeros.

    Raises:
        NoWidthError: Keys are strings.
    """
    x = need(op, 0)
    if items(op, "string_vocabulary"):
        raise NoWidthError(f"the keys of {x.name!r} are strings, whose length the model does not say")
    keys = len(items(op, "int64_vocabulary"))
    known = with_outputs(op, ("unknown", (1, keys)))
    written = out(known)
    entries = Tensor(name=x.name, dtype=written.dtype, shape=(keys,))
    names = Tensor(name=f"{x.name}/keys", dtype="int64", shape=(keys,))
    found = Cost(
        arithmetic=Recipe(keys),
        reads=(Moved(entries, keys), Moved(names, keys)),
        writes=(Moved(written, size(written)),),
        bound="upper",
        note="the map counted as holding every key of the vocabulary",
    )
    return reading(found, table(op, "int64_vocabulary", "int64", keys))


@cost("CastMap", domain=ML)
def cast_map(op: Op) -> Cost:
    """The values of a map in the order of its keys, converted where integers are made of them.

    Of the map nothing is known but what the output shows: a dense one has as many values, a sparse one is
    ``max_map`` long, whatever the map holds.

    Raises:
        UnknownShapeError: The output is dense and its length is not known.
    """
    cast_to = string(op, "cast_to", "TO_FLOAT")
    dtype = {"TO_FLOAT": "fp32", "TO_INT64": "int64", "TO_STRING": "string"}.get(cast_to, "unknown")
    sparse = string(op, "map_form", "DENSE") == "SPARSE"
    if not sparse and out(op).elements is None:
        raise UnknownShapeError(f"{need(op, 0).name!r} is a map, whose length is not known")
    known = with_outputs(op, (dtype, (1, integer(op, "max_map", 1))))
    elements = size(out(known))
    values = 0 if sparse else elements
    return work(
        known,
        vector=values if cast_to == "TO_INT64" else 0,
        read={0: 0},
        bound="lower",
        note="what is read of the map is not counted: the model does not say what it holds",
    )


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
