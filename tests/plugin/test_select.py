"""Nodes of a model as tasks: what is taken in, what becomes a constant, what is refused, and what is alike."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.fakes.plugin_models import model
from tests.fakes.support import SAMPLES, refused
from trtprof.base.errors import UsageError
from trtprof.plugin.model import opened
from trtprof.plugin.select import alike, choices, chosen
from trtprof.plugin.task import Operand
from trtprof.source.load import load_model, source_of


def test_the_story_is_one_product_of_two_streams_and_shapes_of_a_run_are_bound() -> None:
    ((task,),) = choices(opened(SAMPLES / "gemv.onnx"), "/gemv/MatMul")
    assert (task.nodes, task.main, task.name.isidentifier()) == (("/gemv/MatMul",), "MatMul", True)
    dims = {one.name: one.dims for one in (*task.inputs, *task.outputs)}
    assert dims == {"x0": (600, 200, 8, 1, 64), "x1": (600, 1, 8, 64, 1), "y": (600, 200, 8, 1, 1)}
    path = SAMPLES / "lstm.onnx"
    source = source_of(load_model(path), {"*": (7, 3, 64)}, feed=False)
    open_, bound = (choices(opened(path, nodes=nodes), "/lstm/LSTM")[0].task for nodes in (None, source.nodes))
    assert (open_.inputs[0].dims, bound.inputs[0].dims) == (("sequence", "batch", 64), (7, 3, 64))


NORM = """g (float[N,6] a, float[N,6] b) => (float[N,6] z) <float two = {2}, float e0 = {0.1}>
    { [r] x = Add(a, b) [m] m = ReduceMean <axes = [-1]> (x) [d] d = Sub(x, m) [q] q = Pow(d, two)
      [v] v = ReduceMean <axes = [-1]> (q) [e] e = Add(v, e0) [s] s = Sqrt(e) [n] n = Div(d, s) [g] g = Mul(n, n)
      [z] z = Softmax(g) }"""
GELU = """g (float[4,6] a, float[6,6] b) => (float[4,6] y, float[4,6] z) <float two = {2}, float half = {0.5}>
    { [p] p = MatMul(a, b) [d] d = Div(p, two) [e] e = Erf(d) [o] o = Add(e, two) [m] m = Mul(p, o)
      [h] h = Mul(m, half) [y] y = Softmax(h) [z] z = Softmax(MORE) }"""
CHAIN = """g (float[8,4] a, float[4,2] w) => (float[8,2] y) { [b] b = Exp(a) [c] c = Neg(b) [p] p = MatMul(c, w)
      [q] q = Tanh(p) [y] y = Relu(q) }"""
IF = """g (float[2] a, bool c) => (float[2] z) { z = If (c) <then_branch = t () => (float[2] r) { r = Neg(a) },
      else_branch = e () => (float[2] s) { s = Exp(a) }> }"""
PRODUCT = "g (float[3,2,2] a, float[2,2] b, float[2,2] c) => (float[] z, float[] y) { [p] p = MatMul(b, c) REST }"


@pytest.mark.parametrize(
    ("graph", "node", "taken"),
    [
        (NORM, "m", "rmdqvesng md rmd mdqvesn"),  # what has two readers goes in up to where these meet, or not at all
        (GELU.replace("MORE", "a"), "p", "pdeomh p"),
        (GELU.replace("MORE", "e"), "p", "p !pdeomh"),  # read from outside, too
        (CHAIN, "p", "bcpqy cpqy bcpq pqy cpq bcp pq cp p"),
        (PRODUCT.replace("REST", "[y] y = Relu(p) [z] z = Neg(p)"), "p", "p !py"),  # two readers
        (PRODUCT.replace("REST", "[y] y = Add(p, a) [z] z = Identity(y)"), "p", "p !py"),  # broadcast to more
        (CHAIN.replace("y) {", "y, float[8,4] c, float[8,2] p) {"), "p", "p !cp !pq"),  # outputs of the model
        (IF.replace("z = If", "[p] p = Exp(a) z = If").replace("Neg(a)", "Neg(p)"), "p", "p"),  # read in a body alone
    ],
)  # fmt: skip
def test_what_is_taken_in_beside_a_node(tmp_path: Path, graph: str, node: str, taken: str) -> None:
    """`taken`: names of nodes, a letter each; the first are most, and behind ``!`` none."""
    found = ["".join(one.task.nodes) for one in choices(model(tmp_path, graph), node)]
    first, *others = taken.split()
    assert (found[0], found[-1], len(set(found))) == (first, node, len(found))
    assert [one for one in others if (one.removeprefix("!") in found) == one.startswith("!")] == []


def test_what_decides_shapes_and_single_numbers_are_part_of_the_task(tmp_path: Path) -> None:
    graph = """g (float[?,3,4] a) => (float[?,3,1] y) <int64[1] axes = {2}>
        { [k] k = Constant <value_float = 2.0> () [w] w = Constant <value_floats = [1.0, 2.0, 3.0, 4.0]> ()
          [m] m = Mul(a, k) [n] n = Mul(m, w) [y] y = ReduceSum(n, axes) }"""
    made = model(tmp_path, graph)
    onnx.save(made.proto, tmp_path / "o.onnx", save_as_external_data=True, size_threshold=0, convert_attribute=True)
    for one in (made, opened(tmp_path / "o.onnx")):  # where they lie beside the file, too
        task = chosen(one, ("m", "n", "y", "k")).task
        held = [onnx.numpy_helper.to_array(node.attribute[0].t).tolist() for node in task.body.node[:2]]
        assert (task.main, held) == ("ReduceSum", [2.0, [2]])
        assert [one for one in task.inputs if one.constant] == [Operand("w", "fp32", (4,), "w", constant=True)]
        assert task.outputs[0].dims == ("a_0", 3, 1)


RESHAPE = """g (float[2,4] a, float[N,4] b) => (float[] z) <int64[2] k = {-1, 8}>
      { s = Shape(b) u = Neg(s) [y] r = Reshape(a, u) z = Relu(r) }"""


def test_what_no_kernel_is_written_for_is_said(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for graph, why in (
        ("g (float[] a, int64[M] s) => (float[] y) { r = Reshape(a, s) [y] y = Relu(r) }", "how many dimensions 'r'"),
        ("g (float[2] a) => (int64[1] y) { [y] y = Shape(a) }", "makes a shape"),
        ("g (double[2] a) => (double[2] z) { [y] z = Relu(a) }", "'a' is a tensor of type fp64"),
        ("g (seq(float[2]) a) => (seq(float[2]) z) { [y] z = Identity(a) }", "'a' is a sequence"),
        ("g (float[2] a) => (float[2] z) { [y] z = RandomNormalLike(a) }", "makes random numbers"),
        ("g (float[2] a) => (float[2] z) <float[2] w = {1,2}> { [y] u = Neg(w) z = Add(a, u) }", "is constant"),
        ("g (float[2] a) => (float[2] z) { [y] u = Neg(a) z = Relu(a) }", "nothing reads what it makes"),
        (RESHAPE, "a shape of y is computed by the model, in 'u'"),
        (RESHAPE.replace("[y]", "").replace("u =", "[y] u ="), "what it makes is a shape"),
        (RESHAPE.replace("(a, u)", "(b, k)"), "is no dimension of an input"),
        (IF.replace("z = If", "[y] z = If"), "control flow"),
        (IF.replace("r = Neg", "[y] r = Neg"), "bodies of control flow"),
    ):  # fmt: skip
        with subtests.test(why), pytest.raises(UsageError) as error:
            choices(model(tmp_path, graph), "y")
        assert why in refused(error.value)
    made = model(tmp_path, "g (float[2] a) => (float[2] y) { s = Exp(a) r = Softmax(s) y = Mul(s, r) }")
    with pytest.raises(UsageError, match=r"Exp_0, Mul_2\n.*computed between them"):
        chosen(made, ("Mul_2", "Exp_0"))


CHAINED = "g (float[4] a) => (float[4] s) { [p] p = Exp(a) [q] q = Exp(p) [r] r = Exp(q) s = Softmax(r) }"
TWICE = """g (float[N,4] a, float[M,4] b, float[4,8] c) => (float[] y, float[] z, float[] u, float[] v, float[] w)
    <float[4,3] k = {1,2,3,4,5,6,7,8,9,1,2,3}, float[4,3] l = {1,2,3,4,5,6,7,8,9,1,2,3}, float one = {1.0},
     float two = {2.0}>
    { [p] p = MatMul(a, k) [y] y = Mul(p, one) [q] q = MatMul(b, l) [z] z = Mul(q, one)
      [r] r = MatMul(a, k) [u] u = Mul(r, two) [s] s = MatMul(a, c) [v] v = Mul(s, one)
      [t] t = MatMul(a, k) [w] w = Mul(one, t) }"""


def test_places_are_alike_up_to_names_of_tensors_and_dimensions(tmp_path: Path) -> None:
    made = model(tmp_path, TWICE)
    task = chosen(made, ("q", "z")).task
    found = alike(made, task)
    assert [one[:4] for one in found.places] == [
        (("p", "y"), "p", ("a", "k"), ("y",)), (("q", "z"), "q", ("b", "l"), ("z",)),
    ]  # fmt: skip
    assert [one.partition(":")[0] for one in found.left] == ["r", "s"]
    assert chosen(made, ("p", "y")).task.name == task.name
    assert len({chosen(made, pair).task.name for pair in (("p", "y"), ("r", "u"), ("s", "v"), ("t", "w"))}) == 4
    assert [place.main for place in alike(made, task, ("y",)).places] == ["p"]
    with pytest.raises(UsageError, match=r"at r there is nothing.*\n.*constants"):
        alike(made, task, ("r",))
    made = model(tmp_path, CHAINED)
    assert alike(made, chosen(made, ("p", "q")).task).left == ("r: a node of it belongs to another place",)
