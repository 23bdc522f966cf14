"""Sweeps of one op: closed forms by hand, ONNX's own shapes, laws of the roofline, and what is refused."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import msgspec
import onnx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from onnx import TensorProto, helper, shape_inference

from tests.fakes.support import fixed_ceilings, one_unit, refused
from trtprof.base.errors import UsageError
from trtprof.base.records import Ceilings, Op, OpSweep, OpSweepDevice, OpSweepPoint
from trtprof.cost import work_of
from trtprof.flows import op_sweep
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


def test_the_intensity_of_the_example() -> None:
    """231,211,008 FLOP over 1,753,088 bytes."""
    point = one("conv", kernel=3)
    assert (point.work.flops, point.work.bytes) == (231_211_008, 1_753_088)
    assert point.intensity == pytest.approx(131.888, abs=5e-4)


def test_depthwise_is_a_group_a_channel() -> None:
    point = one("conv", groups="cin", cin=32, cout="cin", hw=10, kernel=3)
    assert point.work.macs == 32 * 10 * 10 * 9
    assert point.work.bytes == 4 * (2 * 32 * 100 + 32 * 9)
    assert point.work == one("conv", groups=32, cin=32, cout=32, hw=10, kernel=3).work


def test_a_fully_connected_layer_reads_its_weights_once_a_batch() -> None:
    found = swept("fc", batch="1,64", in_=512, out=256)
    assert [point.work.macs for point in found.points] == [512 * 256, 64 * 512 * 256]
    assert [point.work.bytes for point in found.points] == [
        4 * (512 + 512 * 256 + 256),
        4 * (64 * 512 + 512 * 256 + 64 * 256),
    ]
    assert [point.work.bytes_parameters for point in found.points] == [4 * 512 * 256] * 2


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


def test_attention_and_a_matrix_product() -> None:
    point = one("attention", batch=2, heads=4, seq=16, kv=32, dim=8)
    assert point.work.macs == 2 * (2 * 4 * 16 * 32 * 8)
    assert point.work.bytes == 4 * 2 * 4 * 8 * (16 + 32 + 32 + 16)
    point = one("matmul", batch=3, m=4, n=5, k=6)
    assert (point.work.macs, point.work.bytes) == (3 * 4 * 5 * 6, 4 * 3 * (4 * 6 + 6 * 5 + 4 * 5))


def test_an_elementwise_op_has_an_intensity_that_no_size_changes() -> None:
    found = swept("elementwise", op="add,relu", elements="1,1000,1000000")
    assert {point.at["op"]: point.intensity for point in found.points} == {"Add": 1 / 12, "Relu": 1 / 8}
    assert len({(point.at["op"], point.intensity) for point in found.points}) == 2


def test_the_dtype_is_that_of_all_tensors() -> None:
    found = swept("conv", dtype="fp32,fp16,int8,fp8")
    assert [point.at["dtype"] for point in found.points] == ["fp32", "fp16", "int8", "fp8e4m3fn"]
    assert [point.work.dtype for point in found.points] == ["fp32", "fp16", "int8", "fp8e4m3fn"]
    assert [point.work.bytes * 32 // found.points[0].work.bytes for point in found.points] == [32, 16, 8, 8]


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


@pytest.mark.parametrize("name", FAMILIES)
def test_the_default_of_a_family_is_an_op_with_a_price(name: str) -> None:
    op = built(name)
    assert shapes(op) == inferred(op)
    work = work_of(op)
    assert work is not None
    assert work.flops > 0
    assert one(name).work == work


@pytest.mark.parametrize("op_type", [*op_sweep.BINARY, *op_sweep.UNARY])
def test_every_elementwise_op_has_a_price(op_type: str) -> None:
    assert one("elementwise", op=op_type, elements=10).work.flops >= 10


@given(
    name=st.sampled_from(["conv", "convtranspose", "pool"]),
    kernel=st.integers(1, 7),
    stride=st.integers(1, 4),
    dilation=st.integers(1, 3),
    h=st.integers(1, 40),
    w=st.integers(1, 40),
    groups=st.integers(1, 4),
    pad=st.sampled_from(["same", "valid"]),
)
@example(name="convtranspose", kernel=1, stride=2, dilation=1, h=1, w=1, groups=1, pad="same")
def test_windows_have_the_shapes_of_onnx(
    name: str, kernel: int, stride: int, dilation: int, h: int, w: int, groups: int, pad: str
) -> None:
    options: dict[str, Any] = {"kernel": kernel, "stride": stride, "h": h, "w": w, "pad": pad, "cin": 2 * groups}
    if name != "pool":
        options |= {"dilation": dilation, "groups": groups, "cout": 3 * groups}
    extent = (dilation if name != "pool" else 1) * (kernel - 1) + 1
    if name != "convtranspose" and pad == "valid" and extent > min(h, w):
        with pytest.raises(UsageError, match="does not fit"):
            swept(name, **options)
        return
    op = built(name, **options)
    assert shapes(op) == inferred(op)


# --- laws -----------------------------------------------------------------------------------

dims = st.integers(1, 300)


@given(hw=st.integers(1, 60), cin=dims, cout=dims)
def test_a_convolution_of_one_pixel_is_a_matrix_product(hw: int, cin: int, cout: int) -> None:
    conv = one("conv", kernel=1, hw=hw, cin=cin, cout=cout)
    gemm = one("gemm", m=hw * hw, k=cin, n=cout)
    assert (conv.work.macs, conv.work.bytes) == (gemm.work.macs, gemm.work.bytes)
    assert conv.times == gemm.times


RISES: dict[str, tuple[str, ...]] = {
    # Each of these is a factor of every term of the FLOP, and not of every term of the bytes.
    "conv": ("kernel", "cin", "cout", "batch", "hw"),
    "convtranspose": ("cin", "cout", "batch"),
    "gemm": ("batch", "in", "out"),
    "matmul": ("m", "n", "k"),
    "gemv": ("m", "k"),
    "attention": ("seq",),
}


@given(data=st.data())
def test_intensity_rises_with_what_more_work_reuses(data: st.DataObject) -> None:
    """Stride 1, padding that keeps the size, one group: then it holds. See the next test for where it does not."""
    name = data.draw(st.sampled_from(sorted(RISES)))
    grown = data.draw(st.sampled_from(RISES[name]))
    options = {option: data.draw(st.integers(1, 64), label=option) for option in RISES[name]}
    low, high = sorted(data.draw(st.tuples(st.integers(1, 100), st.integers(1, 100))))
    options |= {"stride": 1} if name == "conv" else {}
    first, second = (
        Fraction(p.work.flops, p.work.bytes) for p in (one(name, **{**options, grown: value}) for value in (low, high))
    )
    assert first < second if low < high else first == second


@pytest.mark.parametrize(
    ("name", "options", "grown", "values"),
    [
        # Two sizes with the same output: more is read for the same work.
        ("conv", {"stride": 2, "kernel": 3}, "hw", (57, 58)),
        # What is stepped over is read and not used.
        ("conv", {"kernel": 1, "hw": 56}, "stride", (1, 2)),
        # Each group sees fewer channels.
        ("conv", {"kernel": 3, "hw": 56}, "groups", (1, 64)),
        # A larger window of a pool without stride does more with the same bytes, a larger stride less.
        ("pool", {"kernel": 3}, "stride", (1, 3)),
    ],
)
def test_intensity_may_fall(name: str, options: dict[str, int], grown: str, values: tuple[int, int]) -> None:
    first, second = (one(name, **{**options, grown: value}).intensity or 0.0 for value in values)
    assert second < first


def test_dilation_moves_nothing_but_the_taps() -> None:
    assert one("conv", dilation=1).work == one("conv", dilation=3).work


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


@given(name=st.sampled_from(sorted(FAMILIES)), data=st.data())
def test_more_never_takes_less_time(name: str, data: st.DataObject) -> None:
    """Any size may grow; stride and groups take work away."""
    sizes = [
        option
        for option, parameter in FAMILIES[name].parameters.items()
        if not parameter.words and option not in ("stride", "groups", *FAMILIES[name].shorthands, "dilation")
    ]
    grown = data.draw(st.sampled_from(sizes))
    options = {option: data.draw(st.integers(1, 40)) for option in sizes}
    low, high = sorted(data.draw(st.tuples(st.integers(1, 200), st.integers(1, 200))))
    times = [one(name, **{**options, grown: value}).times[0].estimate.attainable_ns for value in (low, high)]
    assert times[0] <= times[1]


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


def test_a_parameter_may_follow_another_one() -> None:
    found = swept("conv", cin="8,16", cout="cin", groups="1,cin", h=9)
    assert [point.shapes for point in found.points] == [
        "x 1x8x9x9, weights 8x8x3x3 -> y 1x8x9x9",
        "x 1x8x9x9, weights 8x1x3x3 -> y 1x8x9x9",
        "x 1x16x9x9, weights 16x16x3x3 -> y 1x16x9x9",
        "x 1x16x9x9, weights 16x1x3x3 -> y 1x16x9x9",
    ]
    assert found.fixed["cout"] == "cin"
    assert "hw" not in found.fixed


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


def test_a_crossing_that_no_op_lies_at_is_not_solved() -> None:
    found = swept("conv", cin="8,512", groups=8, cout=64, kernel=1)
    assert [(c.kind, c.low, c.high, c.value) for c in found.crossings if c.kind == "ridge"] == []
    found = swept("conv", cin="8,4096", groups=8, cout=4096, kernel=1)
    assert {(c.low, c.high, c.value) for c in found.crossings} == {(8, 4096, None)}


def test_what_it_shows_is_what_the_points_say() -> None:
    found = swept("conv", kernel="1,2,5,7")
    first, *_, last = found.points
    assert first.intensity is not None
    assert last.intensity is not None
    assert found.shows[0] == (
        f"intensity in FLOP/byte grows x{last.intensity / first.intensity:.1f} from kernel 1 to 7: 15.8 to 523"
    )
    assert "work grows x49.0" in found.shows[1]
    assert found.shows[3] == "gpu: bound by memory at kernel 1, compute at kernel 2 to 7; it changes at 2"
    assert "above the ridge (40.0 FLOP/byte) from kernel 2 on" in found.shows[4]
    falling = swept("conv", groups="1..64:x2")
    assert falling.shows[0].startswith("intensity in FLOP/byte falls")
    still = swept("elementwise", elements="10,1000")
    assert still.shows[0] == "intensity in FLOP/byte stays at 0.0833"
    words = swept("elementwise", op="Add,Gelu,Relu")
    assert "least at op Add" in words.shows[0]
    assert "largest at Gelu" in words.shows[0]
    assert swept("conv").shows == ()


def test_only_some_lines_have_sentences() -> None:
    found = swept("conv", kernel="1,3", cout="1..9")
    assert found.shows[-1] == "and 5 more lines, without sentences"


def test_without_a_device_there_is_work_and_no_time() -> None:
    found = swept("conv", kernel="1,3", on=())
    assert [point.times for point in found.points] == [(), ()]
    assert found.crossings == ()
    assert len(found.shows) == 2


def test_a_missing_peak_is_said() -> None:
    found = swept("conv", dtype="fp32,int8")
    assert "gpu has no peak for int8: that of the next wider dtype is taken" in found.notes
    assert not any("fp32" in note for note in found.notes)


def test_a_warm_cache_takes_what_fits() -> None:
    (warm,) = swept("elementwise", elements=1000, cold=False).points
    assert warm.times[0].estimate.dram_bytes == 0
    (large,) = swept("elementwise", elements=10_000_000, cold=False).points
    assert large.times[0].estimate.dram_bytes == large.work.bytes


def test_the_record_survives_json() -> None:
    found = swept("attention", seq="16..64:x2", dtype="fp32,fp16", on=(device(), device(slug="other")))
    assert msgspec.json.decode(msgspec.json.encode(found), type=OpSweep) == found


# --- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
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
    ],
)
def test_what_is_no_sweep_is_refused(name: str, options: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError) as error:
        sweep_op(name, parse_options(name, options))
    assert says in refused(error.value)


@given(st.sampled_from(sorted(FAMILIES)), st.text(max_size=20), st.text(max_size=20))
def test_any_text_is_read_or_refused(name: str, option: str, text: str) -> None:
    for asked in ({option: text}, {next(iter(FAMILIES[name].parameters)): text}):
        try:
            parse_options(name, asked)
        except UsageError as error:
            refused(error)
