"""A sweep gives at every point what `inspect` gives there, and closed forms that say the same."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import onnx
import onnx.parser
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.support import SAMPLES, captured
from trtprof.base.records import OpForms, Polynomial, Sweep, WorkForms
from trtprof.flows.inspect import inspect
from trtprof.flows.model_sweep import sweep
from trtprof.report import render
from trtprof.report.content.model_sweep import polynomial_text
from trtprof.source.load import KnownTensors, LoadedModel, tensors_of
from trtprof.source.request import ModelRequest


def written(folder: Path, text: str) -> str:
    """A model in ONNX's text form, without its header, as a file."""
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]>\n' + text)
    path = folder / "model.onnx"
    onnx.save(model, path)
    return str(path)


def value(form: Polynomial, at: dict[str, int]) -> int:
    total = 0
    for term in form.terms:
        product = term.coefficient
        for name, power in term.powers.items():
            for _ in range(power):
                product *= at[name]
        total += product
    assert total % form.divisor == 0
    return total // form.divisor


def checked(
    model: str, sweeps: Sequence[str], shapes_at: Callable[..., Sequence[str]], given_shapes: Sequence[str] = ()
) -> Sweep:
    """The sweep, after every point of it was held against `inspect` with the shapes spelled out."""
    found = sweep(ModelRequest.of(model, given_shapes), sweeps)
    assert len(found.points) == math.prod(len(dim.values) for dim in found.dims)
    for point in found.points:
        alone = inspect(ModelRequest.of(model, shapes_at(*point.at.values())))
        assert (point.total, point.ops, point.macs_by_dtype, point.unsupported) == (
            alone.total, alone.ops, alone.macs_by_dtype, alone.unsupported,
        )  # fmt: skip
        assert_forms_hold(found.total, found, point.at, point.total)
        for op in point.ops:
            assert_forms_hold(form_of(found, op.op_type, op.domain).work, found, point.at, op.work)
    return found


def assert_forms_hold(forms: WorkForms, found: Sweep, at: dict[str, int], work: object) -> None:
    for name in WorkForms.__struct_fields__:
        form = getattr(forms, name)
        if form is not None:
            assert value(form, at) == getattr(work, name), (name, at)


def form_of(found: Sweep, op_type: str, domain: str = "") -> OpForms:
    return next(op for op in found.ops if (op.domain, op.op_type) == (domain, op_type))


def text(form: Polynomial | None) -> str:
    return polynomial_text(form)


# --- real models ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["resnet_tiny", "mobilenet_tiny", "qdq_cnn"])
def test_batch_of_the_sample_networks(name: str) -> None:
    model = str(SAMPLES / f"{name}.onnx")
    found = sweep(ModelRequest.of(model), ["batch=1..64:x2"])
    for point in found.points:
        alone = inspect(ModelRequest.of(model, batch=point.at["batch"]))
        assert (point.total, point.ops, point.macs_by_dtype) == (alone.total, alone.ops, alone.macs_by_dtype)
    one = inspect(ModelRequest.of(model, batch=1)).total
    assert text(found.total.macs) == f"{one.macs:,}*batch"
    assert found.total.bytes is not None
    assert {sum(term.powers.values()) for term in found.total.bytes.terms} == {0, 1}


def test_sequence_of_a_transformer_is_quadratic() -> None:
    """Two layers, width 64: QK and AV are 64 * length^2 MACs each, the weights 12 * 64^2 a token."""
    found = checked(
        str(SAMPLES / "transformer_block.onnx"),
        ["batch=1,3", "sequence=32..160:32"],
        lambda batch, length: [f"input_ids:{batch}x{length},attention_mask:{batch}x{length}"],
    )
    products = form_of(found, "MatMul").work.macs
    assert products is not None
    assert {tuple(term.powers.items()): term.coefficient for term in products.terms} == {
        (("batch", 1), ("sequence", 2)): 2 * 2 * 64,
        (("batch", 1), ("sequence", 1)): 2 * 12 * 64 * 64,
    }


def test_steps_of_an_lstm() -> None:
    found = checked(
        str(SAMPLES / "lstm.onnx"),
        ["sequence=1..9:4", "batch=2"],
        lambda length, batch: [f"features:{length}x{batch}x64"],
    )
    assert found.total.macs is not None


def test_a_speech_model_with_branches() -> None:
    model = captured("onnx", "silero_vad_16k_op15.onnx")
    found = checked(
        str(model),
        ["sequence=512..1536:512", "batch=2"],
        lambda length, batch: [f"input:{batch}x{length},state:2x{batch}x128"],
    )
    assert text(form_of(found, "Sqrt").work.bytes) == "(129*sequence - 16,512) / 8"


# --- what shapes are made of ----------------------------------------------------------------

CONVOLUTIONS = """
g (float[N, 3, S, S] x, float[8, 3, 3, 3] w, float[8, 8, 3, 3] v) => (float[N, 8, a, b] y) {
    c = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w)
    r = Relu (c)
    p = MaxPool <kernel_shape = [3, 3], strides = [2, 2]> (r)
    y = Conv <strides = [2, 2]> (p, v)
}
"""


def images(size: int) -> list[str]:
    return [f"x:1x3x{size}x{size}"]


def test_sizes_that_a_stride_divides_have_a_closed_form(tmp_path: Path) -> None:
    found = checked(written(tmp_path, CONVOLUTIONS), ["S=64..512:32"], images)
    assert found.forms_hold == "every S from 64 to 512 in steps of 32"
    assert text(form_of(found, "Relu").work.flops) == "2*S^2"


def test_sizes_that_no_stride_divides_are_exact_without_one(tmp_path: Path) -> None:
    """Floors: S = 33..47 takes every rest of 2, 4 and 8, in parts of the sweep and point by point."""
    found = checked(written(tmp_path, CONVOLUTIONS), ["S=33..47"], images)
    assert found.forms_hold == "the points of the table"
    assert form_of(found, "Conv").work.macs is None
    assert "no closed form" in render(found)


@pytest.fixture
def inferred(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, int]]:
    """Symbols of every inference that a sweep makes."""
    seen: list[dict[str, int]] = []

    def counted(
        model: LoadedModel, shapes: dict[str, tuple[int, ...]], batch: int | None, symbols: dict[str, int]
    ) -> KnownTensors:
        seen.append(symbols)
        return tensors_of(model, shapes, batch, symbols)

    monkeypatch.setattr("trtprof.source.symbolic.tensors_of", counted)
    return seen


def test_a_long_sweep_over_floors_takes_few_inferences(tmp_path: Path, inferred: list[dict[str, int]]) -> None:
    model = written(tmp_path, CONVOLUTIONS)
    found = sweep(ModelRequest.of(model), ["S=33..432"])
    assert len(inferred) < 120
    for size in (33, 34, 47, 200, 319, 432):
        point = next(point for point in found.points if point.at["S"] == size)
        assert point.total == inspect(ModelRequest.of(model, images(size))).total


def test_a_batch_is_inferred_at_five_points(tmp_path: Path, inferred: list[dict[str, int]]) -> None:
    found = sweep(ModelRequest.of(written(tmp_path, CONVOLUTIONS), ["x:1x3x64x64"]), ["N=1..1000"])
    assert inferred == [{"N": n} for n in (1, 2, 3, 1000, 500)]
    assert len(found.points) == 1000
    assert found.forms_hold == "every N from 1 to 1000"


CHAINS = """
g (float[B, L, 12] x) => (float[a, b] y, float[c] z)
<int64 zero = {0}, int64 one = {1}, int64[1] axis = {0}, int64[1] last = {-1}, int64[1] width = {12},
 int64[2] flat = {-1, 12}, float[12, 12] w = {WEIGHTS}>
{
    s = Shape (x)
    b = Gather (s, zero)
    l = Gather (s, one)
    tokens = Mul (b, l)
    t = Unsqueeze (tokens, axis)
    target = Concat <axis = 0> (t, width)
    f = Reshape (x, target)
    m = MatMul (f, w)
    back = Concat <axis = 0> (last, width)
    r = Reshape (m, flat)
    places = Range (zero, l, one)
    p = Cast <to = 1> (places)
    lv = Unsqueeze (l, axis)
    square = Concat <axis = 0> (lv, lv)
    e = Expand (p, square)
    grid = Reshape (e, last)
    z = Relu (grid)
    y = Add (r, m)
}
""".replace("WEIGHTS", ", ".join(["0.5"] * 144))


def test_shapes_computed_from_shapes(tmp_path: Path) -> None:
    found = checked(
        written(tmp_path, CHAINS), ["L=5..29:4", "B=1..4"], lambda length, batch: [f"x:{batch}x{length}x12"]
    )
    assert text(form_of(found, "MatMul").work.macs) == "144*L*B"
    assert text(form_of(found, "Relu").work.flops) == "L^2"


def test_a_reshape_that_needs_multiples(tmp_path: Path) -> None:
    """Between the values asked for the model has no shapes at all."""
    model = written(
        tmp_path,
        """g (float[N, 4] x) => (float[a, 16, 4] y) <int64[3] target = {-1, 16, 4}>
        { r = Reshape (x, target) y = Exp (r) }""",
    )
    found = checked(model, ["N=16..256:16"], lambda n: [f"x:{n}x4"])
    assert (found.forms_hold, text(found.total.flops)) == ("every N from 16 to 256 in steps of 16", "32*N")
    mixed = checked(model, ["N=8,16,20,32,48,50"], lambda n: [f"x:{n}x4"])
    assert [bool(point.unsupported) for point in mixed.points] == [True, False, True, False, False, True]


def test_what_data_decides_is_bounded_at_every_point(tmp_path: Path) -> None:
    model = written(
        tmp_path,
        """g (float[N, 8] x) => (int64[2, k] y, float[N, 3] v) <int64[1] three = {3}>
        { y = NonZero (x) v, i = TopK (x, three) }""",
    )
    found = checked(model, ["N=1..12"], lambda n: [f"x:{n}x8"])
    assert {point.total.bound for point in found.points} == {"upper"}
    shown = render(found)
    assert "data decides" in shown
    assert len([line for line in shown.splitlines() if line.split()[1:2] == ["<"]]) == 12


def test_alike_are_only_nodes_that_do_the_same(tmp_path: Path) -> None:
    """Same shapes each time: a tensor read twice or two, a weight or not, a window, quantised operands, fp16."""
    model = written(
        tmp_path,
        """g (float[N, 8] x, float[8, 8] p, int8[8, 8] q, float[N, 2, 8, 8] im) =>
          (float[N, 8] y, float[N, 2, 8, 8] im2, float[N, 16] wide, float16[N, 8] narrow)
        <float[8, 8] w = {WEIGHTS}, float scale = {0.5}> {
            a = Add (x, x) b = Add (x, a) c = Add (a, x)
            d = MatMul (c, w) e = MatMul (d, w) f = MatMul (e, p)
            im1 = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (im)
            im2 = MaxPool <kernel_shape = [5, 5], pads = [2, 2, 2, 2]> (im1)
            dq = DequantizeLinear (q, scale) qf = QuantizeLinear (f, scale) df = DequantizeLinear (qf, scale)
            i = MatMul (df, dq) y = Add (i, b)
            xx = Concat <axis = 1> (x, y) wide = Tanh (xx)
            h = Cast <to = 10> (x) h1 = Tanh (h) h2 = Tanh (h1) narrow = Tanh (h2)
        }""".replace("WEIGHTS", ", ".join(["1"] * 64)),
    )
    found = checked(model, ["N=1..9"], lambda n: [f"x:{n}x8,im:{n}x2x8x8"])
    assert found.points[0].macs_by_dtype == {"fp32": 3 * 64, "int8": 64}
    tanh = next(op.work for op in found.points[0].ops if op.op_type == "Tanh")
    assert (tanh.special["tanh"], tanh.dtype) == (16 + 3 * 8, "fp32")


def test_a_part_that_ends_is_no_polynomial(tmp_path: Path) -> None:
    """Slice takes at most 40 of N: min(N, 40) is a line before and a line behind."""
    model = written(
        tmp_path,
        """g (float[N, 4] x) => (float[a, 4] y) <int64[1] from = {0}, int64[1] to = {40}>
        { s = Slice (x, from, to) y = Exp (s) }""",
    )
    across = checked(model, ["N=30..50"], lambda n: [f"x:{n}x4"])
    assert form_of(across, "Exp").work.flops is None
    before = checked(model, ["N=8,40"], lambda n: [f"x:{n}x4"])
    assert text(form_of(before, "Exp").work.flops) == "32*N"
    behind = checked(model, ["N=40..80:20"], lambda n: [f"x:{n}x4"])
    assert text(form_of(behind, "Exp").work.flops) == "1,280"


# --- bodies ---------------------------------------------------------------------------------

BODIES = {
    "If": (
        """g (float[N, 8] x, bool c) => (float[N, 8] y) {
            y = If (c) <
                then_branch = t () => (float[N, 8] a) { a = Exp (x) },
                else_branch = e () => (float[N, 8] b) { d = Exp (x) b = Relu (d) }
            >
        }""",
        lambda n: [f"x:{n}x8"],
    ),
    "Loop": (
        """g (float[N, 8] x) => (float[N, 8] y) <int64 trips = {7}> {
            y = Loop (trips, , x) <
                body = b (int64 i, bool c, float[N, 8] s) => (bool k, float[N, 8] t) { k = Identity (c) t = Exp (s) }
            >
        }""",
        lambda n: [f"x:{n}x8"],
    ),
    "a Loop as long as a dimension": (
        """g (float[N, 8] x) => (float[8] y) <int64 zero = {0}, float[8] start = {0, 0, 0, 0, 0, 0, 0, 0}> {
            s = Shape (x)
            n = Gather (s, zero)
            y = Loop (n, , start) <
                body = b (int64 i, bool c, float[8] s) => (bool k, float[8] u) {
                    k = Identity (c) row = Gather (x, i) u = Add (s, row)
                }
            >
        }""",
        lambda n: [f"x:{n}x8"],
    ),
    "Scan": (
        """g (float[8] start, float[N, 8] x) => (float[8] last, float[N, 8] y) {
            last, y = Scan (start, x) <
                num_scan_inputs = 1,
                body = b (float[8] s, float[8] e) => (float[8] t, float[8] o) { t = Add (s, e) o = Exp (t) }
            >
        }""",
        lambda n: [f"x:{n}x8"],
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies_run_as_often_as_at_that_point(name: str, tmp_path: Path) -> None:
    graph, shapes = BODIES[name]
    found = checked(written(tmp_path, graph), ["N=1..12"], shapes)
    if name == "Scan":
        assert text(form_of(found, "Exp").work.flops) == "64*N"


# --- any chain ------------------------------------------------------------------------------

STEPS = {
    "relu": "{o} = Relu ({i})",
    "conv": "{o} = Conv <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> ({i}, w)",
    "conv5": "{o} = Conv <kernel_shape = [3, 3], strides = [3, 2]> ({i}, w)",
    "pool": "{o} = AveragePool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> ({i})",
    "twice": "{o} = Concat <axis = 2> ({i}, {i})",
    "turn": "{o} = Transpose <perm = [0, 1, 3, 2]> ({i})",
    "part": "{o} = Slice ({i}, from, to, axes)",
    "rows": "{o}_s = Reshape ({i}, rows) {o} = Softmax ({o}_s)",
    "pairs": "{o}_t = Transpose <perm = [0, 1, 3, 2]> ({i}) {o} = MatMul ({i}, {o}_t)",
    "up": '{o} = Resize <mode = "nearest"> ({i}, , scales)',
}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5),
    low=st.integers(1, 70),
    by=st.sampled_from((1, 2, 3, 7, 16)),
    count=st.integers(2, 14),
)
def test_any_chain_of_ops(steps: list[str], low: int, by: int, count: int, tmp_path: Path) -> None:
    names = ["x", *(f"t{index}" for index in range(len(steps)))]
    body = "\n".join(STEPS[step].format(i=i, o=o) for step, i, o in zip(steps, names, names[1:], strict=False))
    model = written(
        tmp_path,
        f"""g (float[2, 4, H, 33] x, float[4, 4, 3, 3] w) => (float[a, b, c, d] {names[-1]})
        <int64[1] from = {{1}}, int64[1] to = {{20}}, int64[1] axes = {{2}}, int64[4] rows = {{0, 2, -1, 6}},
         float[4] scales = {{1, 1, 1.5, 2}}>
        {{ {body} }}""",
    )
    checked(model, [f"H={low}..{low + by * (count - 1)}:{by}"], lambda h: [f"x:2x4x{h}x33"])


# --- how it is asked for --------------------------------------------------------------------


def test_dimensions_without_a_name(tmp_path: Path) -> None:
    graph = onnx.parser.parse_graph("g (float[N, 3, S, S] x) => (float[N, 3, S, S] y) { y = Exp (x) }")
    for info in (*graph.input, *graph.output):
        for dim in info.type.tensor_type.shape.dim:
            dim.ClearField("dim_param")
    for info in (*graph.input, *graph.output):
        info.type.tensor_type.shape.dim[1].dim_value = 3
    model = str(tmp_path / "m.onnx")
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), model)
    found = checked(model, ["batch=1,2", "x[3]=7..21:7"], lambda n, s: [f"x:{n}x3x5x{s}"], ["x:1x3x5x9"])
    assert [dim.symbols for dim in found.dims] == [("x[0]",), ("x[3]",)]
    assert any("--shapes gives input 'x' 9 for x[3]" in note for note in found.notes)
    assert "input 'x' 1 for batch" not in "".join(found.notes)


def test_a_given_shape_says_the_other_dimensions(tmp_path: Path) -> None:
    found = sweep(ModelRequest.of(written(tmp_path, CONVOLUTIONS), ["x:1x3x96x96"]), ["N=4"])
    assert found.points[0].total == inspect(ModelRequest.of(tmp_path / "model.onnx", ["x:4x3x96x96"])).total
    assert found.total.macs is not None


def test_batch_binds_what_the_sweep_does_not(tmp_path: Path) -> None:
    model = written(tmp_path, CONVOLUTIONS)
    found = sweep(ModelRequest.of(model, batch=5), ["S=64,96"])
    assert found.points[1].total == inspect(ModelRequest.of(model, ["x:5x3x96x96"])).total


# --- what is printed ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def resnet() -> Sweep:
    return sweep(ModelRequest.of(SAMPLES / "resnet_tiny.onnx"), ["batch=1..64:x2"])


def test_the_text_has_a_row_a_point_and_fits(resnet: Sweep) -> None:
    for width in (60, 80, 120):
        lines = render(resnet, width=width).splitlines()
        assert max(map(len, lines)) <= width
        head = next(index for index, line in enumerate(lines) if line.split()[:2] == ["batch", "MAC"])
        assert [int(line.split()[0]) for line in lines[head + 1 : head + 8]] == [1, 2, 4, 8, 16, 32, 64]
    assert any(line.split() == ["all", "MAC", "27,984,512*batch"] for line in lines)


def test_the_csv_has_the_same_numbers(resnet: Sweep) -> None:
    rows = list(csv.DictReader(io.StringIO(render(resnet, "csv"))))
    assert [(int(row["batch"]), int(row["flops"]), int(row["bytes_read"])) for row in rows] == [
        (point.at["batch"], point.total.flops, point.total.bytes_read) for point in resnet.points
    ]


def test_the_json_holds_everything(resnet: Sweep) -> None:
    assert msgspec.json.decode(render(resnet, "json"), type=Sweep) == resnet


@pytest.mark.parametrize(
    ("terms", "divisor", "expected"),
    [
        ([], 1, "0"),
        ([(1, {"n": 1})], 1, "n"),
        ([(-1, {"n": 2}), (4096, {})], 1, "-n^2 + 4,096"),
        ([(1, {"b": 1, "n": 2}), (-3, {"n": 1})], 2, "(b*n^2 - 3*n) / 2"),
    ],
)
def test_polynomials_as_text(terms: list[tuple[int, dict[str, int]]], divisor: int, expected: str) -> None:
    from trtprof.base.records import Term

    form = Polynomial(terms=tuple(Term(coefficient=c, powers=powers) for c, powers in terms), divisor=divisor)
    assert polynomial_text(form) == expected
