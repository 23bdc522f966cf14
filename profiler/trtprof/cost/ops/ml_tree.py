"""Tree ensembles of ``ai.onnx.ml``.

A row walks every tree from its root to a leaf, one compare a node. Data decides the path, so that each
walk counts as the one with most compares. The trees are attributes of the node; what is read of
them are the records of the nodes that are passed, at the width the model stores: at most the
whole of each tree, and for few rows at most one node per row and height.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from trtprof.base.records import Op
from trtprof.cost import Cost, MalformedOpError, Moved, cost
from trtprof.cost._ml import ML, ids, items, labels, matrix, post_transform, reading, table, with_outputs
from trtprof.cost._shapes import integer, made, need, string, work

_POST_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
"""The enumerations of TreeEnsemble; the older ops take the names."""

_NOTE = "every walk counted as the longest of its tree, on paths that share least"
_OPEN = -1


class Forest(NamedTuple):
    """Trees as positions in one list of inner nodes and one of leaves.

    A leaf is the complement ``~position``, so that one number names either.
    """

    roots: Sequence[int]  # Of each tree
    when_true: Sequence[int]  # Where each node leads if its condition holds
    when_false: Sequence[int]  # And if it does not
    tests: Sequence[int]  # Compares at each node
    votes: Sequence[int]  # Values that each leaf adds to scores
    features: Sequence[int]  # Feature that each node looks at


class Walks(NamedTuple):
    """The most that a number of rows can do in a forest."""

    tests: int  # Compares of one row in all trees
    votes: int  # Values that one row collects from all trees
    nodes: int  # Distinct inner nodes that all rows pass
    leaves: int  # Distinct leaves where they end
    values: int  # Values at these leaves
    features: frozenset[int]  # What the inner nodes look at


def walks(forest: Forest, rows: int) -> Walks:
    """The longest walks of ``rows`` rows, in time linear in nodes.

    The height of a node is the most inner nodes on a way down from it, itself included. It falls with every
    step, so that a row passes one node of each height at most.

    Raises:
        MalformedOpError: A node leads back to itself.
    """
    count = len(forest.when_true)
    height, tests, votes, tree_of = [0] * count, [0] * count, [0] * count, [0] * count
    total = Walks(0, 0, 0, 0, 0, frozenset())
    shared = False
    seen: set[int] = set()
    for tree, root in enumerate(forest.roots):
        passed: Counter[int] = Counter()
        """Nodes of this tree by height."""
        ends: set[int] = set()
        stack = [root]
        while stack:
            node = stack[-1]
            if node < 0:
                ends.add(~node)
                stack.pop()
            elif height[node] > 0:
                shared = shared or tree_of[node] != tree
                stack.pop()
            elif height[node] == _OPEN:
                below = (forest.when_true[node], forest.when_false[node])
                height[node] = 1 + max(height[child] if child >= 0 else 0 for child in below)
                tests[node] = forest.tests[node] + max(tests[child] if child >= 0 else 0 for child in below)
                votes[node] = max(votes[child] if child >= 0 else forest.votes[~child] for child in below)
                passed[height[node]] += 1
                stack.pop()
            else:
                height[node] = _OPEN
                tree_of[node] = tree
                for child in (forest.when_true[node], forest.when_false[node]):
                    if child >= 0 and height[child] == _OPEN:
                        raise MalformedOpError(f"tree {tree} leads from a node back to itself")
                    stack.append(child)
        seen |= ends
        most = votes[root] if root >= 0 else forest.votes[~root]
        total = Walks(
            tests=total.tests + (tests[root] if root >= 0 else 0),
            votes=total.votes + most,
            nodes=total.nodes + sum(min(rows, nodes) for nodes in passed.values()),
            leaves=total.leaves + min(rows, len(ends)),
            values=total.values + min(rows * most, sum(forest.votes[end] for end in ends)),
            features=frozenset(),
        )
    reached = [node for node in range(count) if height[node] > 0]
    if shared:
        # Walks of several trees meet in one node: which of them pass it is not told apart.
        values = sum(forest.votes[end] for end in seen)
        total = total._replace(nodes=len(reached), leaves=len(seen), values=values)
    return total._replace(features=frozenset(forest.features[node] for node in reached))


def _forest_of_ids(op: Op, votes_prefix: str) -> Forest:
    """The trees of the ops that name nodes by tree and node id; inner nodes and leaves are in one list.

    The root of a tree is its first node in the list, for ONNX's reference as for ONNX Runtime. Values
    at nodes that are no leaves are ignored, as they are by ONNX Runtime.

    Raises:
        MalformedOpError: Lists differ in length, an id is taken or missing, or no tree comes of it.
    """
    trees = ids(op, "nodes_treeids")
    count = len(trees)
    names = ids(op, "nodes_nodeids", count)
    modes = items(op, "nodes_modes")
    if len(modes) != count:
        raise MalformedOpError(f"{op.op_type} has {len(modes)} nodes_modes, not {count}")
    place = {key: index for index, key in enumerate(zip(trees, names, strict=True))}
    if len(place) != count:
        raise MalformedOpError(f"{op.op_type} has two nodes of one tree and id")

    def position(tree: int, name: int, use: str) -> int:
        found = place.get((tree, name))
        if found is None:
            raise MalformedOpError(f"{use} names node {name} of tree {tree}, which is not there")
        return ~found if modes[found] == "LEAF" else found

    def children(use: str) -> list[int]:
        return [
            -1 if mode == "LEAF" else position(tree, child, use)
            for tree, child, mode in zip(trees, ids(op, use, count), modes, strict=True)
        ]

    first: dict[int, int] = {}
    for index, tree in enumerate(trees):
        first.setdefault(tree, index)
    votes = [0] * count
    voters = ids(op, f"{votes_prefix}_nodeids")
    use = f"{votes_prefix}_treeids"
    for tree, name in zip(ids(op, use, len(voters)), voters, strict=True):
        leaf = position(tree, name, use)
        if leaf < 0:
            votes[~leaf] += 1
    return Forest(
        roots=[~index if modes[index] == "LEAF" else index for index in first.values()],
        when_true=children("nodes_truenodeids"),
        when_false=children("nodes_falsenodeids"),
        tests=_tests(op, count),
        votes=votes,
        features=ids(op, "nodes_featureids", count),
    )


def _forest_of_positions(op: Op) -> Forest:
    """The trees of TreeEnsemble, which names inner nodes and leaves by their positions in two lists.

    A root whose two branches are the same leaf stands for a tree that is a leaf.

    Raises:
        MalformedOpError: Lists differ in length, or a position is outside of them.
    """
    features = ids(op, "nodes_featureids")
    count, leaves = len(features), len(ids(op, "leaf_targetids"))

    def within(position: int, length: int, use: str) -> int:
        if not 0 <= position < length:
            raise MalformedOpError(f"{use} leads to {position}, of {length}")
        return position

    def children(branch: str) -> list[int]:
        use = f"nodes_{branch}nodeids"
        is_leaf = ids(op, f"nodes_{branch}leafs", count)
        return [
            ~within(child, leaves, use) if leaf else within(child, count, use)
            for child, leaf in zip(ids(op, use, count), is_leaf, strict=True)
        ]

    when_true, when_false = children("true"), children("false")
    roots = [within(root, count, "tree_roots") for root in ids(op, "tree_roots")]
    return Forest(
        roots=[
            when_true[root] if when_true[root] < 0 and when_true[root] == when_false[root] else root for root in roots
        ],
        when_true=when_true,
        when_false=when_false,
        tests=_tests(op, count),
        votes=[1] * leaves,
        features=features,
    )


def _tests(op: Op, count: int) -> list[int]:
    """One compare a node, and one more where a missing value takes the true branch, which needs a test of its own."""
    name = "nodes_missing_value_tracks_true"
    return [2 if track else 1 for track in ids(op, name, count)] if items(op, name) else [1] * count


def _stored(op: Op, name: str, count: int) -> str:
    """How numbers are stored that may be in a tensor of doubles instead of a list.

    Raises:
        MalformedOpError: The list is not as long as it must be, or there is none.
    """
    found = len(items(op, name))
    if found == 0 < count and op.opset >= 3:
        return "fp64"
    if found != count:
        raise MalformedOpError(f"{op.op_type} has {found} {name}, not {count}")
    return "fp32"


def _record(op: Op, passed: Walks, count: int, dtype: str, *lists: str) -> list[Moved]:
    """What is read of the inner nodes that are passed: integers, and thresholds of ``dtype``."""
    names = [*lists, *(["nodes_missing_value_tracks_true"] if items(op, "nodes_missing_value_tracks_true") else [])]
    thresholds = "nodes_splits" if op.op_type == "TreeEnsemble" else "nodes_values"
    return [
        *(table(op, name, "int64", count, passed.nodes) for name in names),
        table(op, thresholds, dtype, count, passed.nodes),
    ]


def _scored(
    op: Op,
    passed: Walks,
    tables: Sequence[Moved],
    *,
    targets: int,
    base_values: int,
    aggregate: str,
    transform: str,
    vector: int = 0,
    note: str = _NOTE,
) -> Cost:
    """Walks of all rows of X, ``targets`` scores a row, and their transform.

    ``aggregate`` joins the values of one score: an add or a compare each, and a divide for AVERAGE. A sum starts from
    the base value, to others it is added. ``vector`` is FLOP a row of what is peculiar to the op.
    """
    if aggregate not in _AGGREGATES:
        raise MalformedOpError(f"there is no aggregate_function {aggregate!r}")
    x = need(op, 0)
    rows, features = matrix(x)
    if any(not 0 <= feature < features for feature in passed.features):
        raise MalformedOpError(f"a node looks at a feature that is not among the {features} of {x.name!r}")
    looked_at = rows * min(len(passed.features), passed.tests)
    each = passed.tests + passed.votes + vector
    each += targets if aggregate == "AVERAGE" else 0
    each += base_values if aggregate != "SUM" else 0
    recipe, at_most = post_transform(transform, rows, targets)
    # Thresholds are floats: integers are converted before they are compared.
    conversions = looked_at if "int" in x.dtype else 0
    found = work(
        op,
        recipe,
        vector=rows * each + conversions,
        read={0: looked_at},
        bound="upper",
        note="; ".join(filter(None, (note, at_most))),
    )
    return reading(found, *tables)


def _tables_of_ids(op: Op, forest: Forest, passed: Walks, prefix: str) -> tuple[list[Moved], str]:
    """What the older ops read of attributes, and the dtype of values at leaves.

    A mode is read of every node that is passed and of the leaf that ends a walk; it counts a byte, as in
    TreeEnsemble, for a runtime keeps no strings there. Ids are resolved when the model is loaded.
    """
    count, values = len(forest.when_true), len(items(op, f"{prefix}_nodeids"))
    weights = _stored(op, f"{prefix}_weights", values)
    ids(op, f"{prefix}_ids", values)
    tables = [
        *_record(
            op,
            passed,
            count,
            _stored(op, "nodes_values", count),
            "nodes_featureids",
            "nodes_truenodeids",
            "nodes_falsenodeids",
        ),
        table(op, "nodes_modes", "uint8", count, passed.nodes + passed.leaves),
        table(op, f"{prefix}_ids", "int64", values, passed.values),
        table(op, f"{prefix}_weights", weights, values, passed.values),
    ]
    return tables, weights


def _base_values(op: Op, targets: int, weights: str) -> Moved:
    """The values that scores start from; doubles are in a tensor, and count as present beside other doubles."""
    found = len(items(op, "base_values"))
    if not found and weights == "fp64":
        return table(op, "base_values_as_tensor", "fp64", targets)
    return table(op, "base_values", "fp32", found)


@cost("TreeEnsembleRegressor", domain=ML)
def tree_ensemble_regressor(op: Op) -> Cost:
    """Per row at most the depth of every tree in compares, and one add or compare per value of its leaf.

    Sums of doubles are converted to the float of the output.
    """
    forest = _forest_of_ids(op, "target")
    rows, _ = matrix(need(op, 0))
    passed = walks(forest, rows)
    tables, weights = _tables_of_ids(op, forest, passed, "target")
    targets = integer(op, "n_targets", 1 + max(ids(op, "target_ids"), default=0))
    base = _base_values(op, targets, weights)
    return _scored(
        with_outputs(op, ("fp32", (rows, targets))),
        passed,
        [*tables, base],
        targets=targets,
        base_values=base.elements,
        aggregate=string(op, "aggregate_function", "SUM"),
        transform=string(op, "post_transform", "NONE"),
        vector=targets if weights == "fp64" else 0,
    )


@cost("TreeEnsembleClassifier", domain=ML)
def tree_ensemble_classifier(op: Op) -> Cost:
    """As the regressor with a score per class; the label takes a compare for every class but one.

    Where all values are for one of two classes, the score of the other is a FLOP more.
    """
    forest = _forest_of_ids(op, "class")
    rows, _ = matrix(need(op, 0))
    passed = walks(forest, rows)
    tables, weights = _tables_of_ids(op, forest, passed, "class")
    classes, label, stored = labels(op, "classlabels_int64s", "classlabels_strings")
    base = _base_values(op, classes, weights)
    asked = made(op, 0) is not None
    return _scored(
        with_outputs(op, (label, (rows,)), ("fp32", (rows, classes))),
        passed,
        [*tables, base, *(stored if asked else ())],
        targets=classes,
        base_values=base.elements,
        aggregate="SUM",
        transform=string(op, "post_transform", "NONE"),
        vector=(classes if weights == "fp64" else 0)
        + int(classes == 2 and len(set(ids(op, "class_ids"))) == 1)
        + (max(classes - 1, 1) if asked else 0),
    )


@cost("TreeEnsemble", domain=ML, first=5)
def tree_ensemble(op: Op) -> Cost:
    """Per row at most the depth of every tree in compares, and one add or compare per tree.

    Thresholds and values have the type of X. A test for membership in a set counts as one compare; how many
    members a set has is in a tensor, which the record of an op does not hold.
    """
    forest = _forest_of_positions(op)
    rows, _ = matrix(need(op, 0))
    passed = walks(forest, rows)
    dtype = need(op, 0).dtype
    count, leaves = len(forest.when_true), len(forest.votes)
    targets = integer(op, "n_targets", 1 + max(ids(op, "leaf_targetids"), default=0))
    aggregate, transform = integer(op, "aggregate_function", 1), integer(op, "post_transform", 0)
    if not (0 <= aggregate < len(_AGGREGATES) and 0 <= transform < len(_POST_TRANSFORMS)):
        raise MalformedOpError(f"there is no aggregate_function {aggregate} or no post_transform {transform}")
    lists = ("featureids", "truenodeids", "falsenodeids", "trueleafs", "falseleafs")
    return _scored(
        with_outputs(op, (dtype, (rows, targets))),
        passed,
        [
            *_record(op, passed, count, dtype, *(f"nodes_{name}" for name in lists)),
            table(op, "nodes_modes", "uint8", count, passed.nodes),
            table(op, "leaf_targetids", "int64", leaves, passed.values),
            table(op, "leaf_weights", dtype, leaves, passed.values),
        ],
        targets=targets,
        base_values=0,
        aggregate=_AGGREGATES[aggregate],
        transform=_POST_TRANSFORMS[transform],
        note=f"{_NOTE}; a set membership counted as one compare, its members not read",
    )
