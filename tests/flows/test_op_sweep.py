"""Sweeps of one op: closed forms by hand, ONNX's own shapes, laws of the roofline, and what is refused."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import msgspec
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, shape_inference

from tests.fakes.support import fixed_ceilings, one_unit, refused
from trtprof.base.errors import UsageError
from trtprof.base.records import Ceilings, Op, OpSweep, OpSweepDevice, OpSweepPoint
from trtprof.cost import work_of
from trtprof.flows.op_sweep import FAMILIES, OPSET, Value, Values, parse_options, sweep_op
from trtprof.hardware import gpus
from trtprof.source.sweep_axes import MAX_POINTS

PEAK, DRAM, LAUNCH = 30e12, 750e9, 1500.0
ROOF = one_unit({"fp32": PEAK, "fp16": 2 * PEAK}, dram=DRAM, cache=3e12)
CEILINGS = msgspec.structs.replace(
    fixed_ceilings(), best=ROOF, attainable=ROOF, cache_bytes=5 << 20, launch_ns=LAUNCH, threads=0
)
RIDGE = PEAK / DRAM


def device(ceilings: Ceilings = CEILINGS, slug: str = "gpu") -> OpSweepDevice:
    return OpSweepDevice(slug=slug, name=slug.upper(), ceilings=ceilings)


def swept(name: str, *, cold: bool = True, on: tuple[OpSweepDevice, ...] = (device(),), **options: Any) -> OpSweep:
    asked = {option.rstrip("_"): str(value) for option, value in options.items()}
    return sweep_op(name, parse_options(name, asked), on, cold=cold)


def one(name: str, **options: Any) -> OpSweepPoint:
    (point,) = swept(name, **options).points
    return point


# --- closed forms by hand -------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "macs"), [(1, 12_845_056), (3, 115_605_504), (5, 321_126_400), (7, 629_407_744)])
def test_a_convolution_has_the_work_that_it_has_on_paper(kernel: int, macs: int) -> None:
    point = one("conv", kernel=kernel, cin=64, cout=64, hw=56)
    # N Cout Hout Wout Cin K K
    assert point.work.macs == macs == 64 * 56 * 56 * 64 * kernel**2
    moved = 4 * (2 * 64 * 56 * 56 + 64 * 64 * kernel**2)
    assert point.work.bytes == moved
    assert point.intensity == 2 * macs / moved


def test_the_batched_gemv_of_the_story() -> None:
    """[600, 200, 8, 1, 64] x [600, 1, 8, 64, 1] at the datasheet's 1.01 TB/s, and at the 0.92 TB/s measured."""
    point = one("gemv", batch=600 * 8, m=200, k=64)
    assert (point.work.bytes, point.work.flops) == (250_828_800, 122_880_000)
    for bandwidth, ns in ((1.01e12, 248_346), (0.92e12, 272_640)):
        roof = one_unit({"fp32": 78.65e12}, dram=bandwidth, cache=5e12)
        card = device(msgspec.structs.replace(CEILINGS, attainable=roof))
        (time,) = one("gemv", batch=600 * 8, m=200, k=64, on=(card,)).times
        assert time.estimate.bound == "dram"
        assert time.estimate.attainable_ns == ns
        assert time.estimate.terms["tensor"] == 1563


def test_the_ridge_of_an_rtx_3080() -> None:
    """29.77 TFLOP/s over 760.3 GB/s."""
    spec = gpus.find("rtx-3080")
    card = OpSweepDevice(slug=spec.slug, name=spec.name, ceilings=gpus.ceilings(spec))
    (time,) = one("conv", on=(card,)).times
    assert time.ridge == pytest.approx(39.2, abs=0.05)
    assert time.ridge == pytest.approx(gpus.ridge_points(card.ceilings.attainable)["fp32"])


# --- every family is an op of ONNX ----------------------------------------------------------

PROTO = {"fp32": TensorProto.FLOAT}


def inferred(op: Op) -> list[tuple[int, ...]]:
    """The shapes of the outputs, by the rules of the onnx package."""
    inputs = [helper.make_tensor_value_info(t.name, PROTO[t.dtype], t.shape) for t in op.inputs if t is not None]
    names = [t.name for t in op.outputs if t is not None]
    attributes: dict[str, Any] = {key: list(v) if isinstance(v, tuple) else v for key, v in op.attributes.items()}
    node = helper.make_node(op.op_type, [v.name for v in inputs], names, **attributes)
    outputs = [helper.make_empty_tensor_value_info(name) for name in names]
    model = helper.make_model(
        helper.make_graph([node], "op", inputs, outputs), opset_imports=[helper.make_opsetid("", OPSET)]
    )
    found = shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    onnx.checker.check_model(found)
    return [tuple(d.dim_value for d in value.type.tensor_type.shape.dim) for value in found.graph.output]


def built(name: str, **options: Any) -> Op:
    family = FAMILIES[name]
    values: dict[str, Value] = {option: parameter.default for option, parameter in family.parameters.items()}
    values |= options
    while any(value in values for value in values.values()):
        values = {option: values.get(str(value), value) for option, value in values.items()}
    return family.build(Values(values))


def shapes(op: Op) -> list[tuple[int | str, ...]]:
    return [t.shape or () for t in op.outputs if t is not None]


def test_the_default_of_a_family_is_an_op_with_a_price(subtests: pytest.Subtests) -> None:
    for name in FAMILIES:
        with subtests.test(name):
            op = built(name)
            assert shapes(op) == inferred(op)
            work = work_of(op)
            assert work is not None
            assert work.flops > 0
            assert one(name).work == work


# --- laws -----------------------------------------------------------------------------------

dims = st.integers(1, 300)


@given(
    kernel=st.integers(1, 9), cin=dims, cout=dims, hw=st.integers(1, 60), batch=st.integers(1, 8),
    cold=st.booleans(), peak=st.floats(1e9, 1e15), dram=st.floats(1e9, 1e13), launch=st.floats(1.0, 1e4),
)  # fmt: skip
def test_the_time_is_the_longest_of_its_terms(
    kernel: int, cin: int, cout: int, hw: int, batch: int, cold: bool, peak: float, dram: float, launch: float
) -> None:
    roof = one_unit({"fp32": peak}, dram=dram, cache=4 * dram)
    card = device(msgspec.structs.replace(CEILINGS, attainable=roof, best=roof, launch_ns=launch))
    found = swept("conv", kernel=kernel, cin=cin, cout=cout, hw=hw, batch=batch, on=(card,), cold=cold)
    (point,) = found.points
    (time,) = point.times
    work, estimate = point.work, time.estimate
    # A window of 3 x 3 may take a quarter of its products, by Winograd.
    fewest = work.flops - work.fast_flops
    assert bool(work.fast_flops) == (kernel == 3)
    assert time.ridge == pytest.approx(peak / dram)
    compute = fewest * 10**9 / Fraction(peak)
    moved = work.bytes * 10**9 / Fraction(dram)
    if cold:
        assert estimate.dram_bytes == work.bytes
        assert estimate.attainable_ns == max(math.ceil(max(compute, moved)), math.ceil(launch))
        if estimate.bound != "launch":
            # The roofline itself: attainable FLOP/s = min(peak, intensity x bandwidth).
            roofline = min(1.0, fewest / work.bytes * dram / peak)
            assert time.of_peak == pytest.approx(roofline, rel=2 / estimate.attainable_ns)
    else:
        assert estimate.attainable_ns <= max(math.ceil(max(compute, moved)), math.ceil(launch))
        assert estimate.dram_bytes >= max(0, work.bytes_read - CEILINGS.cache_bytes)
    assert 0 <= time.of_peak <= 1


# --- the sweep ------------------------------------------------------------------------------


def test_points_are_all_combinations_in_the_order_asked_for() -> None:
    found = swept("conv", cout="32,16", kernel="1,3", dtype="fp32,fp16")
    assert [dim.name for dim in found.dims] == ["cout", "kernel", "dtype"]
    assert [tuple(point.at.values()) for point in found.points] == list(
        itertools.product((32, 16), (1, 3), ("fp32", "fp16"))
    )
    assert found.fixed == {
        "cin": 64, "hw": 56, "batch": 1, "stride": 1, "dilation": 1, "groups": 1, "pad": "same",
    }  # fmt: skip


def test_what_makes_no_op_is_skipped_and_said() -> None:
    found = swept("conv", cin="6,8,9", cout=12, groups="2,3")
    assert [tuple(point.at.values()) for point in found.points] == [(6, 2), (6, 3), (8, 2), (9, 3)]
    assert {tuple(skip.at.values()): skip.reason for skip in found.skipped} == {
        (8, 3): "cin 8 is not divisible by groups 3",
        (9, 2): "cin 9 is not divisible by groups 2",
    }


def test_a_changed_bound_is_marked_along_the_first_parameter() -> None:
    found = swept("fc", batch="1..1024:x2", in_=1024, out="1024,2048")
    bounds = {tuple(point.at.values()): point.times[0].estimate.bound for point in found.points}
    for (batch, out), point in zip(bounds, found.points, strict=True):
        before = bounds.get((int(batch) // 2, out), bounds[batch, out])
        assert point.times[0].changed == (before != bounds[batch, out])
    assert sum(point.times[0].changed for point in found.points) == 2


def test_the_crossing_is_found_between_the_points() -> None:
    """2 b n^2 / 4 (2 b n + n^2) >= ridge for n = 1024: b >= 2 ridge n / (n - 4 ridge) = 94.8 with a ridge of 40."""
    assert RIDGE == 40
    found = swept("fc", batch="16..1024:x4", in_=1024, out=1024)
    assert {(c.kind, c.low, c.high, c.value, c.before, c.after) for c in found.crossings} == {
        ("ridge", 64, 256, 95, "below", "above"),
        ("bound", 64, 256, 95, "dram", "tensor"),
    }
    assert swept("fc", batch="1024,256,64,16", in_=1024, out=1024).crossings[0].value == 95


@given(data=st.data())
def test_crossings_are_where_they_are_said_to_be(data: st.DataObject) -> None:
    name, grown = data.draw(
        st.sampled_from([("fc", "batch"), ("conv", "cin"), ("conv", "kernel"), ("softmax", "rows")])
    )
    values = data.draw(st.lists(st.integers(1, 400), min_size=2, max_size=5, unique=True))

    def at(*values: int) -> OpSweep:
        return sweep_op(name, {grown: values}, [device()])

    for crossing in at(*values).crossings:
        assert crossing.value is not None
        assert crossing.low < crossing.value <= crossing.high
        before, after = at(crossing.value - 1, crossing.value).points
        if crossing.kind == "bound":
            assert before.times[0].estimate.bound == crossing.before != after.times[0].estimate.bound
        else:
            sides = [(p.intensity or 0) >= (p.times[0].ridge or 0) for p in (before, after)]
            assert sides == [crossing.before == "above", crossing.after == "above"]


# --- what is refused ------------------------------------------------------------------------


def test_what_is_no_sweep_is_refused(subtests: pytest.Subtests) -> None:
    for name, options, says in (
        ("convolve", {}, "there is no op 'convolve'"),
        ("conv", {"heads": "1"}, "it has kernel, cin, cout, hw"),
        ("fc", {"kernel": "3"}, "it has batch, in, out, m, n, k, dtype"),
        ("conv", {"kernel": "0"}, "--kernel '0' holds the dimension 0"),
        ("conv", {"kernel": "3..1"}, "--kernel '3..1' is an empty range"),
        ("conv", {"kernel": "three"}, "cannot read 'three'"),
        ("conv", {"kernel": ""}, "a value is missing"),
        ("conv", {"kernel": "1,,3"}, "a value is missing"),
        ("conv", {"kernel": "1..9:x1"}, "a factor of 1 never reaches 9"),
        ("conv", {"kernel": "kernel"}, "kernel is not a number here"),
        ("conv", {"kernel": "dtype"}, "dtype is not a number here"),
        ("conv", {"dtype": "fp31"}, "'fp31' is none of"),
        ("conv", {"dtype": "tf32"}, "unless --no-tf32"),
        ("conv", {"dtype": "bool"}, "'bool' is none of"),
        ("conv", {"pad": "3"}, "'3' is none of same, valid"),
        ("elementwise", {"op": "Conv"}, "'Conv' is none of Add"),
        ("conv", {"groups": "7"}, "cin 64 is not divisible by groups 7"),
        ("conv", {"cin": "n"}, "cannot read 'n'"),
        ("matmul", {"m": "n", "n": "m"}, "m = n = m has no value"),
        ("conv", {"hw": "28", "h": "14"}, "--hw has no effect"),
        ("fc", {"batch": "2", "m": "3"}, "it stands in for --m"),
        ("conv", {"pad": "valid", "kernel": "9", "hw": "8"}, "a window of 9 does not fit into 8"),
        ("conv", {"cin": "1..200", "cout": "1..200"}, "too many points"),
        ("conv", {"cin": f"1..{MAX_POINTS + 1}"}, "too many points"),
    ):
        with subtests.test(f"{name} {says}"):
            with pytest.raises(UsageError) as error:
                sweep_op(name, parse_options(name, options))
            assert says in refused(error.value)
