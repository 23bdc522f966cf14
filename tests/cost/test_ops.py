"""One representative of every op that must have a cost, with its arithmetic and traffic worked out by hand.

ONNX Runtime runs each one that it has on a CPU, so that shapes and the order of inputs are real.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.core_law import keeps_the_law
from tests.fakes.counting import tensor, totals, work
from tests.fakes.op_cases import CASES, MS, RECORDS, assert_case, covered, names, record, x
from trtprof.base.records import Op, Tensor
from trtprof.base.registry import Registry
from trtprof.cost import COSTS, Cost, CostError, CostFunction, cost, work_of


def test_every_case_costs_what_was_worked_out(subtests: pytest.Subtests) -> None:
    for key, case in CASES.items():
        with subtests.test(key):
            assert_case(key.rpartition("::")[2].split(" ")[0].split("-")[0], case)


def test_every_record_costs_what_was_worked_out(subtests: pytest.Subtests) -> None:
    for key, (op, expected) in RECORDS.items():
        with subtests.test(key):
            found = work(op)
            assert totals(found) == expected
            assert keeps_the_law(found), found.core
            assert found.bytes_read == sum({t.name: t.nbytes or 0 for t in op.inputs if t is not None}.values())
            assert found.bytes_written == sum(item.nbytes or 0 for item in op.outputs if item is not None)


def test_control_flow_has_no_arithmetic() -> None:
    condition = tensor("c", "bool")
    found = work(record("If", condition, out=[tensor("y", "fp32", "n")]))
    assert (found.flops, found.bytes_read, found.bytes_written) == (0, 1, 0)
    assert "branches" in found.note
    for op_type in ("Loop", "Scan"):
        found = work(record(op_type, condition, out=[tensor("y", "fp32", "n")]))
        assert (found.flops, found.bytes, found.bound) == (0, 0, "exact")


@pytest.mark.parametrize(
    "op", [record("Constant", out=[x(4)]), record("BitCast", x(4), out=[x(4, dtype="int32", name="y")], opset=26)]
)
def test_nothing_is_done_at_run_time(op: Op) -> None:
    found = work(op)
    assert (found.flops, found.bytes) == (0, 0)
    assert found.note


# --- conventions ----------------------------------------------------------------------------


def test_batched_gemv() -> None:
    op = record(
        "MatMul", x(600, 200, 8, 1, 64, name="a"), x(600, 1, 8, 64, 1, name="b"), out=[x(600, 200, 8, 1, 1, name="y")]
    )
    found = work(op)
    assert found.flops == found.tensor_flops == 122_880_000
    assert found.bytes == 250_828_800


def test_large_convolution() -> None:
    op = record(
        "Conv", x(1, 512, 256, 256), x(512, 512, 5, 5, name="w"), out=[x(1, 512, 256, 256, name="y")], pads=(2, 2, 2, 2)
    )
    assert work(op).flops == 858_993_459_200


def test_transformer_block_is_24_h2_plus_4_sh_per_token() -> None:
    """Forward FLOP of a block per token, 24 h^2 + 4 s h (Narayanan et al. 2021, equation 2's forward third)."""
    s, h, heads = 128, 64, 4

    def product(k: int, n: int) -> Op:
        return record("MatMul", x(1, s, k, name="a"), x(k, n, name="b"), out=[x(1, s, n, name="y")])

    qkv = (x(1, heads, s, h // heads, name=letter) for letter in "qkv")
    core = record("Attention", *qkv, out=[x(1, heads, s, h // heads, name="y")], opset=23)
    ops = [product(h, 3 * h), core, product(h, h), product(h, 4 * h), product(4 * h, h)]
    assert sum(work(op).tensor_flops for op in ops) == s * (24 * h * h + 4 * s * h)


def test_lstm_has_4_h_times_h_plus_i_macs_a_step() -> None:
    op = record(
        "LSTM",
        x(7, 3, 10),
        x(1, 80, 10, name="w"),
        x(1, 80, 20, name="r"),
        out=[x(7, 1, 3, 20, name="y")],
        hidden_size=20,
    )
    assert work(op).macs == 7 * 3 * 4 * 20 * (20 + 10)


def test_depthwise_convolution_is_k2_per_output() -> None:
    op = record(
        "Conv",
        x(1, 32, 56, 56),
        x(32, 1, 3, 3, name="w"),
        out=[x(1, 32, 56, 56, name="y")],
        group=32,
        pads=(1, 1, 1, 1),
    )
    found = work(op)
    assert found.macs == 32 * 56 * 56 * 9
    assert "padded" in found.note


def test_a_tensor_used_twice_is_read_once() -> None:
    found = work(record("Mul", x(10), x(10), out=[x(10, name="y")]))
    assert (found.bytes_read, found.bytes_written) == (40, 40)


def test_widths_follow_the_dtype() -> None:
    found = work(
        record("Add", x(3, dtype="int4"), x(3, dtype="bf16", name="b"), out=[x(3, dtype="fp8e4m3fn", name="y")])
    )
    assert (found.bytes_read, found.bytes_written) == (2 + 6, 3)


def test_parameters_are_the_constant_part() -> None:
    weights = tensor("w", "fp16", 6, 4, 3, 3, constant=True)
    found = work(record("Conv", x(1, 4, 5, 5, dtype="fp16"), weights, out=[x(1, 6, 3, 3, dtype="fp16", name="y")]))
    assert (found.bytes_parameters, found.bytes_read) == (2 * 216, 2 * 216 + 200)


SMALLEST: list[tuple[Op, tuple[int, int, int]]] = [
    (record("Add", x(), x(name="b"), out=[x(name="y")]), (0, 1, 0)),
    (record("Add", x(0, 3), x(3, name="b"), out=[x(0, 3, name="y")]), (0, 0, 0)),
    (record("MatMul", x(0, 3), x(3, 4, name="b"), out=[x(0, 4, name="y")]), (0, 0, 0)),
    (record("Softmax", x(), out=[x(name="y")]), (0, 2, 1)),
    (record("Softmax", x(3, 0), out=[x(3, 0, name="y")]), (0, 0, 0)),
    (record("LayerNormalization", x(0, 4), x(4, name="s"), out=[x(0, 4, name="y")]), (0, 0, 0)),
    (record("LayerNormalization", x(4, 0), x(0, name="s"), out=[x(4, 0, name="y")]), (0, 0, 0)),
    (record("ReduceSum", x(0), out=[x(name="y")]), (0, 0, 0)),
    (record("ReduceMean", x(), out=[x(name="y")]), (0, 1, 0)),
    (record("GlobalAveragePool", x(0, 3, 2, 2), out=[x(0, 3, 1, 1, name="y")]), (0, 0, 0)),
    (record("DynamicQuantizeLinear", x(0), out=[x(0, dtype="uint8", name="y")]), (0, 0, 0)),
    (record("Conv", x(0, 3, 4, 4), x(2, 3, 3, 3, name="w"), out=[x(0, 2, 2, 2, name="y")]), (0, 0, 0)),
    (record("CumSum", x(0, 3), tensor("a", "int64", constant=True, value=(1,)), out=[x(0, 3, name="y")]), (0, 0, 0)),
    (record("LpNormalization", x(0, 3), out=[x(0, 3, name="y")]), (0, 0, 0)),
    (record("TopK", x(0, 3), tensor("k", "int64", 1), out=[x(0, 2, name="y"), None]), (0, 0, 0)),
    (record("Gather", x(0, 3), tensor("i", "int64", 0), out=[x(0, 3, name="y")]), (0, 0, 0)),
    (record("BatchNormalization", x(0, 3, 2), *names((3,), (3,), (3,), (3,)), out=[x(0, 3, 2, name="y")]), (0, 12,
        3)),
    (record("NonZero", x(), out=[tensor("y", "int64", 0, 1)]), (0, 1, 0)),
    (record("DFT", x(0, 8, 1), out=[x(0, 8, 2, name="y")]), (0, 0, 0)),
]  # fmt: skip


def test_scalars_and_empty_tensors(subtests: pytest.Subtests) -> None:
    for op, expected in SMALLEST:
        with subtests.test(op.op_type):
            assert totals(work(op)) == expected


def test_outputs_of_unknown_size_are_bounded() -> None:
    found = work(record("NonZero", x(2, 3), out=[tensor("y", "int64", 2, "n")]))
    assert (found.bytes_written, found.bound) == (2 * 6 * 8, "upper")
    found = work(record("Compress", x(4), tensor("c", "bool", 4), out=[tensor("y", "fp32", "n")]))
    assert (found.bytes_read, found.bytes_written, found.bound) == (16 + 4, 16, "upper")
    found = work(
        record(
            "NonMaxSuppression",
            x(1, 9, 4),
            x(1, 2, 9, name="s"),
            tensor("m", "int64", constant=True, value=(3,)),
            out=[tensor("y", "int64", "n", 3)],
        )
    )
    assert (found.bytes_written, found.bound) == (2 * 3 * 3 * 8, "upper")


def test_unknown_activation_is_said() -> None:
    op = record(
        "FusedConv",
        x(1, 4, 5, 5),
        x(6, 4, 3, 3, name="w"),
        out=[x(1, 6, 3, 3, name="y")],
        domain=MS,
        activation="Snake",
    )
    found = work(op)
    assert found.bound == "lower"
    assert "Snake" in found.note


UNKNOWN = [
    record("Relu", tensor("x", "fp32", "n", 3), out=[tensor("y", "fp32", "n", 3)]),
    record("Relu", Tensor(name="x", dtype="fp32", shape=None), out=[x(3, name="y")]),
    record("Add", x(3), tensor("b", "string", 3), out=[x(3, name="y")]),
    record("Add", x(3), tensor("b", "unknown", 3), out=[x(3, name="y")]),
    record("Conv", x(1, 4, 5, 5), out=[x(1, 6, 3, 3, name="y")]),
    record("Relu", x(3), out=[None]),
    record("MaxPool", x(1, 4, 5, 5), out=[x(1, 4, 2, 2, name="y")]),
    record("Einsum", x(3, 4), out=[x(3, name="y")], equation="i->i"),
    record("MatMul", x(), x(3, name="b"), out=[x(3, name="y")]),
]  # fmt: skip


def test_what_is_unknown_is_said(subtests: pytest.Subtests) -> None:
    for op in UNKNOWN:
        with subtests.test(op.op_type), pytest.raises(CostError):
            work_of(op)


def test_an_op_without_a_cost_function_is_none() -> None:
    assert work_of(record("Snake", x(3), out=[x(3, name="y")])) is None
    assert work_of(record("Relu", x(3), out=[x(3, name="y")], domain="org.example")) is None
    # Attention came to ai.onnx with opset 23.
    assert work_of(record("Attention", x(3), out=[x(3, name="y")], opset=22)) is None


PREVIEWS = ("ai.onnx.preview", "ai.onnx.preview.training")


def cost_of_nothing(_op: Op) -> Cost:
    return Cost(note="nothing")


def test_a_second_cost_function_is_an_error() -> None:
    with pytest.raises(ValueError, match="registered twice"):
        cost("Conv", first=11, last=11)(cost_of_nothing)
    registry: Registry[str, CostFunction] = Registry("cost", "trtprof.cost.ops", "trtprof.costs.none")
    registry.register("A", first=1, last=9)(cost_of_nothing)
    registry.register("A", first=10)(cost_of_nothing)
    with pytest.raises(ValueError, match="registered twice"):
        registry.register("A", first=9, last=9)(cost_of_nothing)


def test_every_cost_function_of_onnx_has_a_case() -> None:
    """Here, or by name in `test_onnx_forms`; `test_ms_ops` and `test_ml_ops` look after their domains."""
    registered = set(COSTS.keys())
    assert covered() <= registered
    elsewhere = Path(__file__).with_name("test_onnx_forms.py").read_text()
    left = {
        name for domain, name in registered - covered() if domain in ("", *PREVIEWS) and f'"{name}"' not in elsewhere
    }
    assert not left
