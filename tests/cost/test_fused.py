"""Groups of nodes as one kernel: FLOPs add up, bytes are what crosses the border."""

from __future__ import annotations

import pytest

from trtprof.base.records import Attribute, Op, Tensor, Work
from trtprof.cost import CostError, NoWidthError, work_of
from trtprof.cost.fused import combined, total, work_of_group


def t(name: str, *dims: int, dtype: str = "fp32", constant: bool = False) -> Tensor:
    return Tensor(name=name, dtype=dtype, shape=dims, constant=constant)


def op(kind: str, inputs: list[Tensor | None], outputs: list[Tensor], **attributes: Attribute) -> Op:
    return Op(op_type=kind, opset=21, inputs=tuple(inputs), outputs=tuple(outputs), attributes=attributes)


X, W, B = t("x", 1, 8, 16, 16), t("w", 4, 8, 3, 3, constant=True), t("b", 4, constant=True)
Y, Z = t("y", 1, 4, 14, 14), t("z", 1, 4, 14, 14)
CONV = op("Conv", [X, W, B], [Y], kernel_shape=(3, 3))
RELU = op("Relu", [Y], [Z])


def group(*ops: Op, **options: object) -> Work:
    found = work_of_group(ops, **options)  # type: ignore[arg-type]
    assert found is not None
    return found


def test_what_stays_inside_moves_nothing() -> None:
    found = group(CONV, RELU)
    assert found.tensor_flops == 2 * 4 * 14 * 14 * 8 * 9
    assert found.vector_flops == 4 * 14 * 14 * 2
    assert found.bytes_read == 4 * (8 * 256 + 4 * 8 * 9 + 4)
    assert found.bytes_parameters == 4 * (4 * 8 * 9 + 4)
    assert found.bytes_written == 4 * 4 * 14 * 14


def test_a_tensor_that_is_needed_outside_is_written_even_when_it_is_read_inside() -> None:
    both = group(CONV, RELU, outputs={"y", "z"})
    assert both.bytes_written == 2 * group(CONV, RELU).bytes_written
    assert both.bytes_read == group(CONV, RELU).bytes_read


def test_shared_inputs_count_once() -> None:
    a, b, c = t("a", 100), t("b", 100), t("c", 100)
    found = group(op("Add", [a, a], [b]), op("Mul", [a, b], [c]))
    assert (found.bytes_read, found.bytes_written) == (400, 400)


def test_border_tensors_count_at_the_dtype_of_the_engine() -> None:
    found = group(CONV, RELU, dtypes={"x": "fp16", "w": "int8", "z": "fp8e4m3fn"})
    assert found.bytes_read == 2 * 8 * 256 + 4 * 8 * 9 + 4 * 4
    assert found.bytes_written == 4 * 14 * 14


def test_a_view_between_two_nodes_hides_nothing() -> None:
    """Without the tensor behind the view, the product would read its input for nothing."""
    a, flat = t("a", 4, 5, 6), t("flat", 20, 6)
    weights, y = t("weights", 6, 7, constant=True), t("out", 20, 7)
    found = group(
        op("Reshape", [a, t("target", 2, dtype="int64", constant=True)], [flat]), op("MatMul", [flat, weights], [y])
    )
    assert (found.bytes_read, found.bytes_written) == (4 * (120 + 42), 4 * 140)
    assert group(op("Reshape", [a], [flat]), op("MatMul", [flat, weights], [y]), dtypes={"a": "fp16"}).bytes_read == (
        2 * 120 + 4 * 42
    )


def test_a_view_at_the_end_writes_what_it_shows() -> None:
    flat = t("flat", 784)
    assert group(CONV, RELU, op("Flatten", [Z], [flat])).bytes_written == group(CONV, RELU).bytes_written
    nothing = group(op("Identity", [X], [t("same", 1, 8, 16, 16)]))
    assert (nothing.bytes, nothing.flops) == (0, 0)


def test_parts_of_one_tensor_add_up_to_no_more_than_all_of_it() -> None:
    table = t("table", 10, 4)
    halves = [op("Slice", [table], [t(f"part{i}", rows, 4)]) for i, rows in enumerate((3, 5))]
    assert group(*halves).bytes_read == 4 * 8 * 4
    assert group(*halves, op("Slice", [table], [t("part2", 9, 4)])).bytes_read == 4 * 10 * 4


def test_a_quantised_convolution_reads_and_writes_its_quantised_tensors() -> None:
    """DequantizeLinear x 2 -> Conv -> QuantizeLinear in one kernel: nothing of 32 bits crosses but scales."""
    xq, wq, yq = (t("xq", 1, 8, 16, 16, dtype="int8"), t("wq", 4, 8, 3, 3, dtype="int8", constant=True),
                  t("yq", 1, 4, 14, 14, dtype="int8"))  # fmt: skip
    scale = t("scale", constant=True)
    found = group(
        op("DequantizeLinear", [xq, scale], [X]),
        op("DequantizeLinear", [wq, scale], [t("w", 4, 8, 3, 3, constant=True)]),
        op("Conv", [X, t("w", 4, 8, 3, 3, constant=True)], [Y], kernel_shape=(3, 3)),
        op("QuantizeLinear", [Y, scale], [yq]),
    )
    assert found.bytes_read == 8 * 256 + 4 * 8 * 9 + 4
    assert found.bytes_parameters == 4 * 8 * 9 + 4
    assert found.bytes_written == 4 * 14 * 14
    assert found.dtype == "int8"


def test_a_group_of_one_is_the_op_itself() -> None:
    for one in (CONV, RELU, op("Softmax", [t("s", 3, 5)], [t("p", 3, 5)])):
        assert group(one) == work_of(one)


def test_one_unknown_op_makes_the_group_unknown() -> None:
    assert work_of_group([CONV, op("Snake", [Y], [Z])]) is None
    with pytest.raises(NoWidthError, match="strings"):
        work_of_group([CONV, op("Identity", [t("s", 3, dtype="string")], [t("u", 3, dtype="string")]),
                       op("Concat", [t("u", 3, dtype="string")], [t("v", 3, dtype="string")], axis=0)])  # fmt: skip
    with pytest.raises(CostError):
        work_of_group([op("Relu", [Tensor(name="x", dtype="fp32", shape=None)], [Y])])


def test_bounds_combine() -> None:
    assert combined() == "exact"
    assert combined("exact", "upper", "exact") == "upper"
    assert combined("lower", "exact") == "lower"
    assert combined("lower", "upper") == "mixed" == combined("mixed", "exact")


def test_totals_add_up_and_take_the_dtype_of_the_largest_part() -> None:
    parts = [
        Work(vector_flops=5, special={"exp": 2}, bytes_read=3, dtype="fp32", bound="upper"),
        Work(tensor_flops=70, special={"exp": 1, "sqrt": 1}, bytes_written=4, bytes_parameters=2, dtype="int8"),
    ]
    assert total(parts) == Work(
        tensor_flops=70, vector_flops=5, special={"exp": 3, "sqrt": 1},
        bytes_read=3, bytes_written=4, bytes_parameters=2, dtype="int8", bound="upper",
    )  # fmt: skip
    assert total([]) == Work()
    assert total(parts).flops == 70 + 5 + 3 * 8 + 4
