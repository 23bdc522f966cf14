"""What a class reaches: from the run where it tells, else from calibration or a datasheet; never more than the roof."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.cases import CEILINGS, RTX_4090, Timed, engine_case, gemv, layer, relu, tensor
from trtprof.base.records import Layer, MatchedLayer, Measurement, PlanLayer
from trtprof.diagnose import THRESHOLDS, Case
from trtprof.diagnose.reached import DATASHEET_HIGH, DATASHEET_LOW, class_of, healthy_layers, reached


def conv(channels: int, group: int = 1) -> Layer:
    weights = tensor("w", channels, channels // group, 3, 3, constant=True)
    image = tensor("x", 1, channels, 56, 56)
    outputs = (tensor("y", 1, channels, 56, 56),)
    return layer("one", "Conv", (image, weights), outputs, attributes={"group": group})


def product(m: int, n: int, op_type: str = "MatMul", batch: int = 4) -> Layer:
    inputs = (tensor("a", batch, m, 64), tensor("b", batch, 64, n))
    return layer("one", op_type, inputs, (tensor("y", batch, m, n),))


def simple(op_type: str) -> Layer:
    return layer("one", op_type, (tensor("x", 1000, 1000),), (tensor("y", 1000, 1000),))


def relus(*slow: float, elements: int = 1_000_000) -> list[Timed]:
    """Relu layers of one size, which take ``slow`` times what is attainable."""
    return [Timed(relu(f"r{at}", f"x{at}", f"y{at}", elements), factor) for at, factor in enumerate(slow)]


def datasheet(case: Case) -> Case:
    return case._replace(ceilings=msgspec.structs.replace(case.ceilings, origin="datasheet"))


def test_the_class_is_what_the_op_and_its_shapes_say(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Layer, str]] = [
        (product(64, 64), "gemm"),
        (product(1, 64), "gemv"),
        (product(64, 1), "gemv"),
        (gemv("one"), "gemv"),
        (conv(64), "conv"),
        (conv(64, 8), "conv"),
        (conv(64, 64), "depthwise conv"),
        (simple("Softmax"), "softmax"),
        (simple("Relu"), "elementwise"),
        (simple("Transpose"), "data movement"),
    ]
    for one, expected in rows:
        with subtests.test(expected=expected):
            case = engine_case(Timed(one))
            found = class_of(case.layers[0], case)
            assert found.op == expected
            assert found.precision == "fp32"
            assert found.bound == case.layers[0].bound
            assert found.size == len(str(case.layers[0].attainable_ns))


def test_an_attention_kernel_of_a_plan_is_attention_though_its_first_op_is_a_product() -> None:
    plan = {"one": MatchedLayer(layer=PlanLayer(name="_gemm_mha_v2_0", kind="kgen"))}
    case = engine_case(Timed(product(64, 64)), plan=plan)
    assert class_of(case.layers[0], case).op == "attention"


def test_three_healthy_kernels_of_the_class_tell_what_it_reaches() -> None:
    case = engine_case(*relus(1 / 0.6, 1 / 0.8, 1 / 0.9, 10.0))
    found = reached(case, case.layers[3])
    # Of 0.6, 0.8 and 0.9 the upper quartile, halfway between the last two.
    assert found.efficiency == pytest.approx(0.85, abs=1e-5)
    assert (found.low, found.high) == pytest.approx((0.6, 0.9), abs=1e-5)
    assert found.basis.startswith("85.0 % of the roofline, the upper quartile of 3 healthy kernels of this run")


def test_a_layer_has_no_say_in_what_its_own_class_reaches() -> None:
    case = engine_case(*relus(1 / 0.6, 1 / 0.8, 1 / 0.9))
    assert "fewer than 3 healthy kernels" in reached(case, case.layers[0]).basis
    assert len(healthy_layers(case)) == 3


def test_slow_and_impossible_kernels_are_not_healthy() -> None:
    # The ideal has 7 of 8 MB at 11 GB/s, the attainable 8 MB at 10: 0.75 of the attainable time beats the ideal.
    case = engine_case(*relus(1 / 0.45, 1 / 0.9, 0.75, 1.0))
    assert [one.layer for one in healthy_layers(case)] == ["r1", "r3"]
    assert [one.layer for one in healthy_layers(case._replace(partial=frozenset({"r1"})))] == ["r3"]


def test_smaller_kernels_stand_in_where_there_are_too_few_of_a_size_but_larger_ones_do_not() -> None:
    small = [Timed(relu(f"s{at}", f"p{at}", f"q{at}", 100_000), 1 / 0.7) for at in range(3)]
    case = engine_case(*small, *relus(10.0))
    assert "and smaller" in reached(case, case.layers[3]).basis
    big = [Timed(relu(f"b{at}", f"p{at}", f"q{at}", 10_000_000), 1 / 0.7) for at in range(3)]
    case = engine_case(*big, *relus(10.0))
    assert "fewer than 3" in reached(case, case.layers[3]).basis


def test_small_kernels_are_held_against_each_other_and_not_against_an_empty_one() -> None:
    tiny = [Timed(layer(f"t{at}", "Add", (tensor(f"p{at}", 1),), (tensor(f"q{at}", 1),)), 4.0 + at) for at in range(5)]
    case = engine_case(*tiny)
    assert {one.bound for one in case.layers} == {"launch"}
    found = reached(case, case.layers[4])
    assert found.low < 0.2 < found.efficiency < found.high == pytest.approx(0.25)
    assert "the upper quartile of 4 other layers of this run bound by launch" in found.basis


def test_calibration_reaches_its_own_ceiling_at_best() -> None:
    case = engine_case(Timed(gemv(), 7.0), ceilings=RTX_4090)
    found = reached(case, case.layers[0])
    assert (found.low, found.high) == (THRESHOLDS.healthy, 1.0)
    assert found.efficiency == pytest.approx(0.85)
    shaky = Measurement(value=0.92e12, unit="B/s", what="a copy of 1 GB", repeats=9, spread=0.1)
    case = case._replace(ceilings=msgspec.structs.replace(case.ceilings, measurements={"dram": shaky}))
    less = reached(case, case.layers[0])
    assert less.low == pytest.approx(0.63)
    assert "which a copy of 1 GB attained" in less.basis
    assert "10.0 %" in less.basis


def test_a_product_is_held_against_the_products_of_its_size_in_calibration() -> None:
    """1024 x 1024 x 1024 takes 21.5 ms at 100 GFLOP/s: the calibrated 1024 is of its size, 256 and 4096 are not."""
    sides = tensor("a", 1024, 1024), tensor("b", 1024, 1024)
    case = engine_case(Timed(layer("one", "MatMul", sides, (tensor("y", 1024, 1024),)), 4.0))
    assert case.layers[0].bound == "tensor"
    rates = {"gemm fp32 256": 60e9, "gemm fp32 acc fp32 1024": 90e9, "gemm fp32 4096": 99e9, "gemm fp16 1024": 95e9}
    made = {
        key: Measurement(value=value, unit="FLOP/s", what=f"the library at {key}", repeats=5, spread=0.1)
        for key, value in rates.items()
    }
    case = case._replace(ceilings=msgspec.structs.replace(case.ceilings, measurements=made))
    found = reached(case, case.layers[0])
    assert found.efficiency == pytest.approx(0.9)
    assert (found.low, found.high) == pytest.approx((0.7 * 0.9, 1.0))
    assert "which the library at gemm fp32 acc fp32 1024 reached in calibration" in found.basis


def test_a_datasheet_is_reached_as_far_as_others_measured_it() -> None:
    case = datasheet(engine_case(Timed(gemv(), 7.0), ceilings=RTX_4090))
    found = reached(case, case.layers[0])
    assert found.efficiency == THRESHOLDS.of_datasheet
    assert (found.low, found.high) == (DATASHEET_LOW, DATASHEET_HIGH)
    assert "NeuSight" in found.basis


@given(slow=st.lists(st.floats(0.5, 20), min_size=1, max_size=7), measured=st.booleans(), spread=st.floats(0, 5))
def test_nothing_reaches_more_than_the_roof(slow: list[float], measured: bool, spread: float) -> None:
    shaky = Measurement(value=1.0, unit="B/s", what="", repeats=2, spread=spread)
    case = engine_case(*relus(*slow), ceilings=msgspec.structs.replace(CEILINGS, measurements={"dram": shaky}))
    case = case if measured else datasheet(case)
    for one in case.layers:
        found = reached(case, one)
        assert 0 < found.low <= found.efficiency <= found.high <= 1
        assert found.basis
        assert found == reached(case, one, healthy_layers(case))
