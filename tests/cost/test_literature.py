"""The formulas of the literature, each with its source, held against the work of real ONNX nodes.

Shapes of outputs come from ONNX shape inference. Where a source counts otherwise (a MAC as one
FLOP, a bias twice, half of the attention), the test shows by how much.
"""

from __future__ import annotations

import math
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from tests.fakes.counting import work
from trtprof.base import onnx_graph
from trtprof.base.records import Op, Work

Shape = tuple[int, ...]


def op_of(
    op_type: str,
    *shapes: Shape | None,
    outputs: int = 1,
    dtype: int = TensorProto.FLOAT,
    opset: int = 23,
    values: dict[int, list[int]] | None = None,
    **attributes: Any,
) -> Op:
    """A node alone, its output shapes inferred; ``values`` are inputs that are constants by position."""
    fixed = values or {}
    names = ["" if dims is None else f"x{index}" for index, dims in enumerate(shapes)]
    names += [f"x{index}" for index in fixed]
    results = [f"y{index}" for index in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op_type, names, results, **attributes)],
        "one",
        [
            helper.make_tensor_value_info(name, dtype, dims)
            for name, dims in zip(names, shapes, strict=False)
            if dims is not None
        ],
        [onnx.ValueInfoProto(name=name) for name in results],
        [helper.make_tensor(f"x{index}", TensorProto.INT64, (), items) for index, items in fixed.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    (found,) = onnx_graph.nodes_in(inferred)
    return found.op


def intensity(found: Work) -> float:
    """FLOP per byte, special functions left out, as the sources leave them out."""
    return (found.tensor_flops + found.vector_flops) / found.bytes


def conv(
    batch: int, cin: int, cout: int, size: int, kernel: int, group: int = 1, bias: bool = False, **more: Any
) -> Op:
    weights, added = (cout, cin // group, kernel, kernel), [(cout,)] if bias else []
    return op_of("Conv", (batch, cin, size, size), weights, *added, group=group, **more)


def height_width(op: Op) -> int:
    """Height times width of the output map."""
    made = op.outputs[0]
    assert made is not None
    assert made.shape is not None
    return math.prod(int(dim) for dim in made.shape[2:])


# --- layers of convolutional networks -------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "kernel", "window"),
    [
        (56, 3, {"pads": [1, 1, 1, 1]}),
        (57, 3, {"strides": [2, 2]}),
        (224, 7, {"pads": [3, 3, 3, 3], "strides": [2, 2]}),
        (32, 3, {"dilations": [2, 2], "pads": [2, 2, 2, 2]}),
        (14, 1, {}),
        (15, 5, {"auto_pad": "SAME_LOWER", "strides": [3, 3]}),
    ],
)
def test_convolution_takes_twice_cin_cout_k2_per_output_position(
    size: int, kernel: int, window: dict[str, Any]
) -> None:
    """2 * Cin * Hout * Wout * Cout * K^2; Hout and Wout are of the output, which strides and pads make.

    One MAC is counted as 2 FLOP. Tables of vision models (torchvision's weights call 4.09 G of
    ResNet-50 "GFLOPS") count MACs; He et al. 2016 (arXiv 1512.03385, table 1) say so: "FLOPs
    (multiply-adds)".
    """
    cin, cout = 24, 40
    op = conv(2, cin, cout, size, kernel, **window)
    found = work(op)
    assert found.flops == found.tensor_flops == 2 * (2 * cin * height_width(op) * cout * kernel**2)
    assert found.macs * 2 == found.flops


def test_first_convolution_of_resnet() -> None:
    """64 filters of 7x7 over 3 channels, stride 2, 224 -> 112: 118,013,952 MACs (He et al. 2016, table 1)."""
    assert work(conv(1, 3, 64, 224, 7, pads=[3] * 4, strides=[2, 2])).macs == 118_013_952


@pytest.mark.parametrize("group", [1, 2, 8])
def test_groups_divide_the_work(group: int) -> None:
    """Every output channel sees Cin / g channels (Krizhevsky et al. 2012, section 3.5, with g = 2)."""
    whole, split = work(conv(1, 16, 32, 14, 3)), work(conv(1, 16, 32, 14, 3, group=group))
    assert split.tensor_flops * group == whole.tensor_flops


@pytest.mark.parametrize(
    ("channels", "size", "plain", "separable"), [(512, 14, 462, 52.3), (384, 14, 0, 29.6), (384, 10, 0, 15.1)]
)
def test_depthwise_separable_convolution(channels: int, size: int, plain: float, separable: float) -> None:
    """DK^2 M DF^2 + M N DF^2 multiply-adds instead of DK^2 M N DF^2 (Howard et al. 2017, arXiv 1704.04861).

    Equations 2 to 6, and table 3 in millions of mult-adds for DK = 3, M = N = 512, DF = 14, then with
    width multiplier 0.75 and resolution 10. A mult-add is 2 FLOP here.
    """
    depthwise = work(conv(1, channels, channels, size, 3, group=channels, pads=[1] * 4))
    pointwise = work(conv(1, channels, channels, size, 1))
    assert depthwise.macs == 3 * 3 * channels * size**2
    assert pointwise.macs == channels * channels * size**2
    assert round((depthwise.macs + pointwise.macs) / 1e6, 1) == separable
    full = work(conv(1, channels, channels, size, 3, pads=[1] * 4)).macs
    assert (depthwise.macs + pointwise.macs) / full == pytest.approx(1 / channels + 1 / 3**2)
    if plain:
        assert round(full / 1e6) == plain


@pytest.mark.parametrize("stride", [1, 2])
def test_molchanov_counts_the_bias_of_a_convolution_as_a_mac(stride: int) -> None:
    """2 H W (Cin K^2 + 1) Cout (Molchanov et al., ICLR 2017, arXiv 1611.06440, appendix A.1).

    H and W are said to be those of the *input* map: right only where a stride of 1 and padding keep
    the size. The + 1 makes the add of the bias two FLOP; here it is one, so that the formula, with
    the size of the output, is H W Cout too high.
    """
    cin, cout, k, size = 8, 12, 3, 16
    op = conv(1, cin, cout, size, k, bias=True, pads=[1] * 4, strides=[stride] * 2)
    positions = height_width(op)
    assert 2 * positions * (cin * k**2 + 1) * cout - work(op).flops == positions * cout
    as_printed = 2 * size * size * (cin * k**2 + 1) * cout
    assert as_printed == stride**2 * 2 * positions * (cin * k**2 + 1) * cout


def test_molchanov_counts_a_fully_connected_layer_without_its_first_add() -> None:
    """(2 I - 1) O (the same appendix): I multiplies and I - 1 adds an output, for a layer without bias.

    With a bias the - 1 is misplaced: its add makes 2 I O. Beside the formula for convolutions, which
    counts a bias, and an accumulator that starts from zero, the two do not fit together. Here both
    start from zero: 2 I O, and O more for the bias, which is O and 2 O above the formula.
    """
    inputs, made = 25088, 4096
    bare = work(op_of("MatMul", (1, inputs), (inputs, made)))
    assert bare.flops - (2 * inputs - 1) * made == made
    assert bare.macs == 102_760_448
    biased = work(op_of("Gemm", (1, inputs), (inputs, made), (made,)))
    assert biased.flops - (2 * inputs - 1) * made == 2 * made
    assert biased.flops - bare.flops == made


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
def test_pooling_takes_its_window_per_output(op_type: str) -> None:
    """C * Hout * Wout * K^2: exact for the average (K^2 - 1 adds, a divide).

    A maximum needs one compare less, K^2 - 1; the customary count takes K^2 for both.
    """
    op = op_of(op_type, (1, 64, 112, 112), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    assert height_width(op) == 56 * 56
    assert work(op).flops == 64 * 56 * 56 * 9


def test_relu_is_one_compare_and_sigmoid_three_flop_and_an_exponential() -> None:
    """max(0, x); 1 / (1 + exp(-x)): negate, exp, add, divide.

    By the weights of the Livermore loops (McMahon, UCRL-53745, 1986) an exp counts 8. They count 4
    for a divide, where the formulas of deep learning and this project count 1: 3 an element more.
    """
    relu, sigmoid = work(op_of("Relu", (10, 100))), work(op_of("Sigmoid", (10, 100)))
    assert relu.flops == 1000
    assert (sigmoid.vector_flops, sigmoid.special) == (3 * 1000, {"exp": 1000})
    assert sigmoid.flops == 1000 * (1 + 8 + 1 + 1)
    assert 1000 * (1 + 8 + 1 + 4) - sigmoid.flops == 3 * 1000


# --- matrix products and attention ----------------------------------------------------------


@pytest.mark.parametrize(("m", "n", "k"), [(8192, 8192, 8192), (1, 4096, 11008), (17, 33, 65)])
def test_gemm_takes_2mnk(m: int, n: int, k: int) -> None:
    """m n k multiplications and as many additions (LAPACK Working Note 41, operation counts of xGEMM)."""
    assert work(op_of("MatMul", (m, k), (k, n))).flops == 2 * m * n * k
    assert work(op_of("Gemm", (k, m), (n, k), transA=1, transB=1)).flops == 2 * m * n * k


@pytest.mark.parametrize(("batch", "length", "heads", "depth"), [(2, 512, 32, 64), (1, 1024, 16, 128), (4, 7, 3, 5)])
def test_flash_attention_counts_the_same_products(batch: int, length: int, heads: int, depth: int) -> None:
    """4 * batch * seqlen^2 * nheads * headdim, and half of it when causal.

    Source: ``flops`` in benchmarks/benchmark_flash_attention.py of Dao-AILab/flash-attention. Its
    causal half leaves out half of the diagonal, which is needed: (n^2 + n) / 2 scores, not n^2 / 2.
    """
    qkv = [(batch, heads, length, depth)] * 3
    full, causal = work(op_of("Attention", *qkv)), work(op_of("Attention", *qkv, is_causal=1))
    assert full.tensor_flops == 4 * batch * length**2 * heads * depth
    assert (full.bound, causal.bound) == ("exact", "exact")
    assert causal.tensor_flops == full.tensor_flops * (length + 1) // (2 * length)
    assert causal.special["exp"] == full.special["exp"] * (length + 1) // (2 * length)


def layer(batch: int, length: int, hidden: int, heads: int) -> list[Work]:
    """A transformer layer: projections to Q, K and V, attention, projection, and 4 h wide feed-forward."""

    def product(k: int, n: int) -> Op:
        return op_of("MatMul", (batch, length, k), (k, n))

    core = op_of("Attention", *[(batch, heads, length, hidden // heads)] * 3)
    ops = [product(hidden, 3 * hidden), core, product(hidden, hidden), product(hidden, 4 * hidden)]
    return [work(op) for op in (*ops, product(4 * hidden, hidden))]


@pytest.mark.parametrize(("batch", "length", "hidden", "heads"), [(1, 128, 768, 12), (3, 2048, 1024, 16)])
def test_transformer_layer(batch: int, length: int, hidden: int, heads: int) -> None:
    """24 B s h^2 + 4 B s^2 h forward (Narayanan et al. 2021, arXiv 2104.04473, appendix)."""
    found = sum(part.tensor_flops for part in layer(batch, length, hidden, heads))
    assert found == 24 * batch * length * hidden**2 + 4 * batch * length**2 * hidden


def test_kaplan_counts_half_of_the_attention() -> None:
    """2 N + 2 n_layer n_ctx d_model per token (Kaplan et al. 2020, arXiv 2001.08361, equation 2.2).

    N = 12 n_layer d_model^2. The products by the weights agree; of the two products without weights,
    Q K^T and the sum over values, only one is in the formula.
    """
    length, hidden, heads = 1024, 768, 12
    per_token = sum(part.tensor_flops for part in layer(1, length, hidden, heads)) // length
    formula = 2 * 12 * hidden**2 + 2 * length * hidden
    assert per_token - formula == 2 * length * hidden


# --- recurrent layers -----------------------------------------------------------------------


@pytest.mark.parametrize(("op_type", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_recurrent_layers(op_type: str, gates: int, direction: str) -> None:
    """(E + H) * H * gates * 2 FLOP a step, sample and direction: each gate has a row of E + H weights per unit.

    For an LSTM (E + H) * H * 4 * 2. A sequence takes that for every step: a count that leaves out
    the length is short by that factor.
    """
    steps, batch, embedded, hidden = 35, 20, 200, 650
    ways = 2 if direction == "bidirectional" else 1
    op = op_of(
        op_type,
        (steps, batch, embedded),
        (ways, gates * hidden, embedded),
        (ways, gates * hidden, hidden),
        opset=22,
        hidden_size=hidden,
        direction=direction,
    )
    assert work(op).tensor_flops == ways * steps * batch * (embedded + hidden) * hidden * gates * 2


# --- what GPUs are measured by --------------------------------------------------------------

HALF = TensorProto.FLOAT16


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (op_of("MatMul", (512, 1024), (1024, 4096), dtype=HALF), 315),
        (op_of("MatMul", (1, 1024), (1024, 4096), dtype=HALF), 1),
        (op_of("MaxPool", (8, 64, 256, 256), dtype=HALF, kernel_shape=[3, 3], pads=[1] * 4), 2.25),
        (op_of("Relu", (512, 4096), dtype=HALF), 0.25),
    ],
    ids=["linear, batch 512", "linear, batch 1", "max pooling", "relu"],
)
def test_arithmetic_intensity_of_nvidias_guide(op: Op, expected: float) -> None:
    """FLOP per byte in fp16: 315, 1, 2.25 and 0.25.

    Source: NVIDIA, GPU Performance Background User's Guide, "Understanding Performance", table 1
    (linear layer of 4096 outputs and 1024 inputs at batch 512 and 1, max pooling 3x3 with unit
    stride, ReLU). The linear layer at batch 1 is 0.9988, rounded there.
    """
    assert intensity(work(op)) == pytest.approx(expected, rel=2e-3)


def test_layer_normalization_is_below_ten_flop_a_byte() -> None:
    """The last row of the same table: < 10 FLOP/B. Read once and written once, it is 7 / 4 in fp16."""
    found = work(op_of("LayerNormalization", (512, 1024), (1024,), (1024,), dtype=HALF))
    assert intensity(found) < 10
    assert intensity(found) == pytest.approx(7 / 4, rel=0.01)


@pytest.mark.parametrize(("m", "n", "k", "expected"), [(8192, 128, 8192, 124.1), (8192, 8192, 8192, 2730.7)])
def test_arithmetic_intensity_of_matrix_products(m: int, n: int, k: int, expected: float) -> None:
    """2 M N K / (2 (M K + N K + M N)) in fp16, and below 1 for a matrix by a vector.

    Source: NVIDIA, Matrix Multiplication Background User's Guide, "Math And Memory Bounds".
    """
    assert intensity(work(op_of("MatMul", (m, k), (k, n), dtype=HALF))) == pytest.approx(expected, rel=1e-3)
    assert intensity(work(op_of("MatMul", (m, k), (k, 1), dtype=HALF))) < 1


def test_what_bounds_a_linear_layer_on_an_a100() -> None:
    """312 TFLOP/s in fp16 and 2039 GB/s: 153 FLOP per byte is where the bounds meet.

    Source of the peaks: the first of the two guides, on an A100 of 80 GB. Batch 512 lies above, batch 1 below.
    """
    ridge = 312e12 / 2039e9
    assert int(ridge) == 153
    large, small = (work(op_of("MatMul", (batch, 1024), (1024, 4096), dtype=HALF)) for batch in (512, 1))
    assert intensity(small) < ridge < intensity(large)


# --- the story that this project started from -----------------------------------------------


def test_the_batched_gemv() -> None:
    """[600,200,8,1,64] x [600,1,8,64,1] in fp32: 122,880,000 FLOP, 250,828,800 bytes, 0.248 ms at 1.01 TB/s.

    The right operand is broadcast 200 times and read once. Reading it for every product, as a batched
    kernel without the broadcast does, would take 244,531,200 bytes more.
    """
    found = work(op_of("MatMul", (600, 200, 8, 1, 64), (600, 1, 8, 64, 1)))
    assert found.flops == found.tensor_flops == 122_880_000
    assert found.bytes == 250_828_800
    assert round(found.bytes / 1.01e12 * 1e3, 3) == 0.248
    expanded = work(op_of("MatMul", (600, 200, 8, 1, 64), (600, 200, 8, 64, 1)))
    assert expanded.bytes - found.bytes == 244_531_200


def test_the_convolution_at_256() -> None:
    """512 -> 512 channels, 5x5, at 256x256: 858,993,459,200 FLOP, padded positions included.

    Without them every side has 6 of its 1280 taps less: (1274 / 1280)^2 of it, 0.9 % fewer.
    """
    found = work(conv(1, 512, 512, 256, 5, pads=[2] * 4))
    assert found.flops == 858_993_459_200
    taps = sum(0 <= position + offset - 2 < 256 for position in range(256) for offset in range(5))
    assert taps == 1274
    assert found.flops - 2 * 512 * 512 * taps**2 == 2 * 512 * 512 * (1280**2 - 1274**2)
    assert "padded positions" in found.note


# --- transforms and decompositions ----------------------------------------------------------


def test_fourier_transforms() -> None:
    """5 N log2 N for a complex transform, 2.5 N log2 N for a real one: benchFFT's convention, www.fftw.org/speed."""
    complex_ = op_of("DFT", (3, 1024, 2), opset=17, axis=1)
    real = op_of("DFT", (3, 1024, 1), opset=17, axis=1)
    assert work(complex_).flops == 3 * 5 * 1024 * 10
    assert work(real).flops == 3 * 5 * 1024 * 10 // 2


def test_determinant() -> None:
    """2 n^3 / 3 to leading order, by elimination (Golub and Van Loan, Matrix Computations, section 3.2)."""
    for n in (50, 100, 200):
        assert abs(work(op_of("Det", (n, n))).flops - 2 * n**3 / 3) < n**2
