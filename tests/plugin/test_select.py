"""Nodes of a model as tasks: what is taken in, what becomes a constant, what is refused, and what is alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from tests.fakes.plugin_models import model
from tests.fakes.support import SAMPLES, refused
from trtprof.base.errors import UsageError
from trtprof.plugin.model import opened
from trtprof.plugin.select import Choice, alike, choices, chosen
from trtprof.plugin.task import Operand, Task
from trtprof.source.load import load_model, source_of

STORY = "/gemv/MatMul"


def ops(task: Task) -> list[str]:
    return [node.op_type for node in task.body.node]


def shapes(operands: tuple[Operand, ...]) -> list[tuple[str, str, tuple[int | str, ...], bool]]:
    return [(one.name, one.dtype, one.dims, one.constant) for one in operands]


def names(found: tuple[Choice, ...]) -> list[tuple[str, ...]]:
    return [one.task.nodes for one in found]


# --- the task ------------------------------------------------------------------------------------


def test_the_story_is_one_product_of_two_streams() -> None:
    (choice,) = choices(opened(SAMPLES / "gemv.onnx"), STORY)
    task = choice.task
    assert (task.nodes, task.main, ops(task)) == ((STORY,), "MatMul", ["MatMul"])
    assert shapes(task.inputs) == [
        ("x0", "fp32", (600, 200, 8, 1, 64), False),
        ("x1", "fp32", (600, 1, 8, 64, 1), False),
    ]
    assert shapes(task.outputs) == [("y", "fp32", (600, 200, 8, 1, 1), False)]
    assert task.name.startswith("MatMul_")
    assert task.name.isidentifier()


def test_a_body_computes_what_its_nodes_do(tmp_path: Path) -> None:
    found = choices(
        model(
            tmp_path,
            """g (float[N,4] a, float[4] b) => (float[N,3] y)
            <float[4,3] w = {1,2,3,4,5,6,7,8,9,1,2,3}, float half = {0.5}, float[3] bias = {1,2,3}>
            { [s] s = Mul(a, half) [p] p = MatMul(s, w) [q] q = Add(p, bias) [y] y = Relu(q) }""",
        ),
        "p",
    )
    task = found[0].task
    assert (found[0].before, found[0].behind) == (("s",), ("q", "y"))
    assert ops(task) == ["Constant", "Mul", "MatMul", "Add", "Relu"]
    assert shapes(task.inputs) == [
        ("x", "fp32", ("N", 4), False),
        ("w0", "fp32", (4, 3), True),
        ("w1", "fp32", (3,), True),
    ]
    rng = np.random.default_rng(0)
    x, w, bias = (rng.standard_normal(shape, np.float32) for shape in ((5, 4), (4, 3), (3,)))
    (made,) = ReferenceEvaluator(task.body).run(None, {"x": x, "w0": w, "w1": bias}, attributes={})
    np.testing.assert_allclose(np.asarray(made), np.maximum(x * 0.5 @ w + bias, 0), rtol=1e-6)


def test_choices_are_the_node_with_less_and_less_beside_it(tmp_path: Path) -> None:
    found = choices(
        model(
            tmp_path,
            """g (float[8,4] a, float[4,2] w) => (float[8,2] y)
            { [b] b = Exp(a) [c] c = Neg(b) [p] p = MatMul(c, w) [q] q = Tanh(p) [y] y = Relu(q) }""",
        ),
        "p",
    )
    assert names(found) == [
        ("b", "c", "p", "q", "y"),
        ("c", "p", "q", "y"),
        ("b", "c", "p", "q"),
        ("p", "q", "y"),
        ("c", "p", "q"),
        ("b", "c", "p"),
        ("p", "q"),
        ("c", "p"),
        ("p",),
    ]
    assert len({one.task.name for one in found}) == len(found)


@pytest.mark.parametrize(
    ("rest", "taken"),
    [
        ("[y] y = Relu(p) [z] z = Neg(p)", ("p",)),  # two readers
        ("[y] y = Relu(p) [z] z = Identity(y)", ("p", "y")),
        ("[y] y = Add(p, a) [z] z = Identity(y)", ("p",)),  # broadcast to more than the product
        ("[y] y = Softmax(p) [z] z = Identity(y)", ("p",)),
    ],
)
def test_what_is_behind_is_taken_in_as_far_as_it_reads_alone_and_keeps_the_shape(
    tmp_path: Path, rest: str, taken: tuple[str, ...]
) -> None:
    graph = (
        f"g (float[3,2,2] a, float[2,2] b, float[2,2] c) => (float[] z, float[] y) {{ [p] p = MatMul(b, c) {rest} }}"
    )
    assert choices(model(tmp_path, graph), "p")[0].task.nodes == taken


NORM = """g (float[N,6] a, float[N,6] b) => (float[N,6] z)
    <float two = {2}, float eps = {0.001}, float[6] w = {1,2,3,4,5,6}>
    { [r] x = Add(a, b) [m] m = ReduceMean <axes = [-1]> (x) [d] d = Sub(x, m) [q] q = Pow(d, two)
      [v] v = ReduceMean <axes = [-1]> (q) [e] e = Add(v, eps) [s] s = Sqrt(e) [n] n = Div(d, s) [g] g = Mul(n, w)
      [z] z = Softmax(g) }"""


def test_a_normalisation_that_is_written_out_comes_together(tmp_path: Path) -> None:
    found = choices(model(tmp_path, NORM), "m")
    whole = found[0].task
    assert (whole.nodes, whole.main) == (("r", "m", "d", "q", "v", "e", "s", "n", "g"), "ReduceMean")
    assert [one.tensor for one in (*whole.inputs, *whole.outputs)] == ["a", "b", "w", "g"]
    # What has two readers goes in with all up to where these meet, or not at all.
    assert ("m", "d") in names(found)
    assert ("m", "d", "q", "v", "e", "s", "n") in names(found)
    assert not [one for one in names(found) if "q" in one and "n" not in one]


def test_a_gelu_that_is_written_out_comes_together(tmp_path: Path) -> None:
    graph = """g (float[4,6] a, float[6,6] b) => (float[4,6] y, float[4,6] z)
        <float two = {2}, float half = {0.5}, float one = {1}>
        { [p] p = MatMul(a, b) [d] d = Div(p, two) [e] e = Erf(d) [o] o = Add(e, one) [m] m = Mul(p, o)
          [h] h = Mul(m, half) [y] y = Softmax(h) [z] z = Softmax(MORE) }"""
    whole = choices(model(tmp_path, graph.replace("MORE", "a")), "p")
    assert whole[0].behind == ("d", "e", "o", "m", "h")
    read_inside = choices(model(tmp_path, graph.replace("MORE", "e")), "p")
    assert names(read_inside) == [("p",)]


def test_an_output_of_the_model_is_not_computed_away(tmp_path: Path) -> None:
    found = choices(
        model(
            tmp_path,
            """g (float[2,2] a, float[2,2] b) => (float[2,2] p, float[2,2] y, float[2,2] n)
            { [n] n = Neg(a) [p] p = MatMul(n, b) [y] y = Relu(p) }""",
        ),
        "p",
    )
    assert names(found) == [("p",)]


# --- constants -----------------------------------------------------------------------------------


def test_what_decides_shapes_and_single_numbers_are_part_of_the_task(tmp_path: Path) -> None:
    task = chosen(
        model(
            tmp_path,
            """g (float[2,3,4] a) => (float[2,3,1] y) <int64[1] axes = {2}>
            { [k] k = Constant <value_float = 2.0> ()
              [w] w = Constant <value_floats = [1.0, 2.0, 3.0, 4.0]> ()
              [m] m = Mul(a, k) [n] n = Mul(m, w) [y] y = ReduceSum(n, axes) }""",
        ),
        ("m", "n", "y", "k"),
    ).task
    assert ops(task) == ["Constant", "Constant", "Mul", "Mul", "ReduceSum"]
    assert [onnx.numpy_helper.to_array(node.attribute[0].t).tolist() for node in task.body.node[:2]] == [2.0, [2]]
    assert [(one.name, one.tensor, one.constant) for one in task.inputs] == [("x", "a", False), ("w", "w", True)]
    assert task.main == "ReduceSum"


def test_constants_beside_the_file_are_read_where_they_are_small(tmp_path: Path) -> None:
    made = model(
        tmp_path,
        "g (float[4] a) => (float[4] y) <float[1] k = {3.0}, float[4] w = {1,2,3,4}>"
        "{ [m] m = Mul(a, k) [y] y = Add(m, w) }",
    )
    path = tmp_path / "outside.onnx"
    onnx.save(made.proto, path, save_as_external_data=True, location="weights", size_threshold=0)
    task = chosen(opened(path), ("m", "y")).task
    assert onnx.numpy_helper.to_array(task.body.node[0].attribute[0].t).tolist() == [3.0]
    assert [one.tensor for one in task.inputs] == ["a", "w"]


# --- refusals ------------------------------------------------------------------------------------


def test_what_no_kernel_is_written_for_is_said(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for graph, why in (
        ("g (float a) => (float y) { [y] y = Relu(a) }", ""),
        (
            "g (float[] a, int64[M] s) => (float[] y) { [r] r = Reshape(a, s) [y] y = Relu(r) }",
            "how many dimensions 'r'",
        ),
        ("g (float[2] a) => (int64[1] y) { [y] y = Shape(a) }", "makes a shape"),
        ("g (string[2] a) => (string[2] z) { [y] z = Identity(a) }", "'a' has the type string"),
        ("g (double[2] a) => (double[2] z) { [y] z = Relu(a) }", "'a' has the type fp64"),
        ("g (seq(float[2]) a) => (seq(float[2]) z) { [y] z = Identity(a) }", "'a' is a sequence"),
        ("g (float[2] a) => (float[2] z) { [y] z = RandomNormalLike(a) }", "makes random numbers"),
        ("g (float[2] a) => (float[2] z) <float[2] w = {1,2}> { [y] u = Neg(w) z = Add(a, u) }", "is constant"),
        ("g (float[2] a) => (float[2] z) { [y] u = Neg(a) z = Relu(a) }", "nothing reads what it makes"),
        (
            "g (float[2,4] a, float[N] b) => (float[] z) { s = Shape(b) [y] z = Reshape(a, s) }",
            "a shape of y is computed by the model, in 's'",
        ),
        (
            """g (float[2,4] a, float[N,2] b) => (float[] z) <int64[1] k = {-1}>
            { s = Shape(b) [y] u = Mul(s, k) z = Reshape(a, u) }""",
            "what it makes is a shape",
        ),
        (
            "g (float[N,4] a) => (float[] z) <int64[2] s = {-1, 8}> { [y] r = Reshape(a, s) z = Relu(r) }",
            "is no dimension of an input",
        ),
        (
            """g (float[2] a, bool c) => (float[2] z)
            { [y] z = If (c) <then_branch = t () => (float[2] r) { r = Neg(a) },
                              else_branch = e () => (float[2] s) { s = Exp(a) }> }""",
            "control flow",
        ),
    ):
        with subtests.test(f"{graph} {why}"):
            made = model(tmp_path, graph)
            if not why:
                assert choices(made, "y")
                return
            with pytest.raises(UsageError, match="no kernel can be written for y") as error:
                choices(made, "y")
            assert why in refused(error.value)


# --- dimensions ----------------------------------------------------------------------------------


def test_shapes_of_a_run_take_the_place_of_open_ones() -> None:
    path = SAMPLES / "lstm.onnx"
    source = source_of(load_model(path), {"*": (7, 3, 64)}, feed=False)
    open_, bound = (choices(opened(path, nodes=nodes), "/lstm/LSTM")[0].task for nodes in (None, source.nodes))
    assert open_.inputs[0].dims == ("sequence", "batch", 64)
    assert bound.inputs[0].dims == (7, 3, 64)


# --- the same elsewhere --------------------------------------------------------------------------

TWICE = """g (float[N,4] a, float[M,4] b, float[4,8] c) => (float[] y, float[] z, float[] u, float[] v, float[] w)
    <float[4,3] k = {1,2,3,4,5,6,7,8,9,1,2,3}, float[4,3] l = {1,2,3,4,5,6,7,8,9,1,2,3}, float one = {1.0},
     float two = {2.0}>
    { [p] p = MatMul(a, k) [y] y = Mul(p, one)
      [q] q = MatMul(b, l) [z] z = Mul(q, one)
      [r] r = MatMul(a, k) [u] u = Mul(r, two)
      [s] s = MatMul(a, c) [v] v = Mul(s, one)
      [t] t = MatMul(a, k) [w] w = Mul(one, t) }"""


def test_places_are_alike_up_to_names_of_tensors_and_dimensions(tmp_path: Path) -> None:
    made = model(tmp_path, TWICE)
    task = chosen(made, ("q", "z")).task
    found = alike(made, task)
    assert [(place.nodes, place.main, place.inputs, place.outputs) for place in found.places] == [
        (("p", "y"), "p", ("a", "k"), ("y",)),
        (("q", "z"), "q", ("b", "l"), ("z",)),
    ]
    assert found.left == (
        "r: attributes, constants or which dimensions are the same differ",
        "s: other values go in or out",
    )
    assert chosen(made, ("p", "y")).task.name == task.name
    assert len({chosen(made, pair).task.name for pair in (("p", "y"), ("r", "u"), ("s", "v"), ("t", "w"))}) == 4


def test_places_can_be_named(tmp_path: Path) -> None:
    made = model(tmp_path, TWICE)
    task = chosen(made, ("p", "y")).task
    found = alike(made, task, ("z",))
    assert [place.main for place in found.places] == ["q"]
    assert "p: not asked for" in found.left
    with pytest.raises(UsageError) as error:
        alike(made, task, ("r",))
    assert "which dimensions are the same differ" in refused(error.value)
