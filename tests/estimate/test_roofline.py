"""The roofline: the story's numbers, which ceiling binds, and what holds for any work on any device."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.fakes.cases import predict_layers
from tests.fakes.support import one_unit
from trtprof.base.peaks import peak_flops
from trtprof.base.records import Attribute, Ceilings, Dim, Estimate, Layer, Op, Roof, Tensor, Unsure, Work
from trtprof.cost import work_of
from trtprof.estimate.cache import Traffic
from trtprof.estimate.roofline import dram_rate, estimate
from trtprof.hardware import gpus

STORY = Ceilings(
    device="RTX 4090",
    source="datasheet, and measured",
    measured_at="2026-01-01T00:00:00+00:00",
    # A datasheet knows one bandwidth.
    best=one_unit({"fp32": 82.58e12}, dram=1.01e12, cache=1.01e12),
    attainable=one_unit({"fp32": 78.65e12}, dram=0.92e12, cache=5e12),
    cache_bytes=0,
    threads=1,
    launch_ns=2000.0,
    call_ns=0.0,
)

ROOF = one_unit({"fp32": 100e9, "fp64": 50e9, "int8": 400e9, "fp16": 200e9}, dram=10e9, cache=40e9)
CEILINGS = msgspec.structs.replace(STORY, best=ROOF, attainable=ROOF, cache_bytes=1_000_000, launch_ns=100.0)

ALL_DRAM, ALL_CACHE = Traffic(0, 1), Traffic(1, 0)


def tensor(name: str, *dims: Dim, dtype: str = "fp32") -> Tensor:
    return Tensor(name=name, dtype=dtype, shape=dims)


def layer(name: str, op_type: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...], graph: str = "") -> Layer:
    return Layer(name=name, op=Op(op_type=op_type, opset=17, inputs=inputs, outputs=outputs), graph=graph)


def predict(*layers: Layer, ceilings: Ceilings = CEILINGS) -> dict[str, Estimate]:
    estimates = predict_layers(layers, {one.name: work_of(one.op) for one in layers}, ceilings)
    return {name: found for name, found in estimates.items() if found is not None}


# --- the story ---------------------------------------------------------------------------------


def test_the_story() -> None:
    gemv = layer(
        "gemv", "MatMul", (tensor("a", 600, 200, 8, 1, 64), tensor("b", 600, 1, 8, 64, 1)),
        (tensor("y", 600, 200, 8, 1, 1),),
    )  # fmt: skip
    work = work_of(gemv.op)
    assert work is not None
    assert work.bytes == 250_828_800
    assert work.flops == 122_880_000
    found = predict(gemv, ceilings=STORY)["gemv"]
    assert round(found.ideal_ns / 1e6, 3) == 0.248
    assert round(found.attainable_ns / 1e6, 3) == 0.273
    assert round(found.terms["tensor"] / 1e6, 4) == 0.0016
    assert (found.bound, found.runner_up) == ("dram", "l2")
    assert found.dram_bytes == work.bytes
    assert found.terms["dram"] == found.roofline_ns == found.attainable_ns


# --- what binds --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flops", "nbytes", "traffic", "bound", "runner_up", "ns"),
    [
        (1_000_000, 10_000, ALL_DRAM, "vector", "dram", 10_000),
        (10_000, 100_000, ALL_DRAM, "dram", "l2", 10_000),
        (10_000, 400_000, ALL_CACHE, "l2", "launch", 10_000),
        (100, 100, ALL_DRAM, "launch", "dram", 100),
        (0, 0, Traffic(0, 0), "launch", "none", 100),
        # 1 us from DRAM, all 130 kB through the cache in 3.25 us, 3 us of arithmetic: side by side.
        (300_000, 130_000, Traffic(120_000, 10_000), "l2", "vector", 3_250),
        (350_000, 130_000, Traffic(120_000, 10_000), "vector", "l2", 3_500),
        # At a tie the floor and then the arithmetic are named.
        (1_000_000, 100_000, ALL_DRAM, "vector", "dram", 10_000),
        (10_000, 1_000, ALL_DRAM, "launch", "vector", 100),
    ],
)
def test_the_largest_term_binds(flops: int, nbytes: int, traffic: Traffic, bound: str, runner_up: str, ns: int) -> None:
    found = estimate(Work(vector_flops=flops, bytes_read=nbytes, dtype="fp32"), traffic, CEILINGS)
    assert (found.bound, found.runner_up, found.attainable_ns) == (bound, runner_up, ns)


UNITS = Roof(
    tensor_flops_per_s={"fp32": 100e9, "tf32": 400e9, "fp16": 800e9},
    vector_flops_per_s={"fp32": 100e9, "fp16": 200e9},
    special_per_s={"exp": 10e9, "erf": 5e9},
    dram_bytes_per_s=10e9,
    cache_bytes_per_s=40e9,
)


@pytest.mark.parametrize(
    ("work", "bound", "terms"),
    [
        (Work(tensor_flops=800_000, vector_flops=10_000, dtype="fp16"), "tensor", {"tensor": 1_000, "vector": 50}),
        (Work(tensor_flops=80_000, vector_flops=40_000, dtype="fp16"), "vector", {"tensor": 100, "vector": 200}),
        # Special functions have a unit of their own: their FLOP are not the vector unit's.
        (
            Work(vector_flops=10_000, special={"exp": 2_000, "erf": 1_000}, dtype="fp32"),
            "sfu",
            {"vector": 100, "sfu": 400},
        ),
        # sqrt was not measured: the fastest of those that were bounds it.
        (Work(special={"sqrt": 5_000}, dtype="fp32"), "sfu", {"sfu": 500}),
    ],
)
def test_each_unit_has_a_time_of_its_own(work: Work, bound: str, terms: dict[str, int]) -> None:
    limits = msgspec.structs.replace(CEILINGS, best=UNITS, attainable=UNITS, launch_ns=0.0)
    found = estimate(work, ALL_DRAM, limits)
    assert (found.bound, found.attainable_ns) == (bound, max(terms.values()))
    assert {name: ns for name, ns in found.terms.items() if ns} == terms


def test_the_launch_floor_is_apart_from_the_roofline() -> None:
    found = estimate(Work(vector_flops=100, bytes_read=100, dtype="fp32"), ALL_DRAM, CEILINGS)
    assert (found.ideal_ns, found.roofline_ns, found.attainable_ns) == (3, 10, 100)
    assert found.terms == {"tensor": 0, "vector": 1, "sfu": 0, "dram": 10, "l2": 3, "launch": 100}


def test_gather_is_charged_for_its_rows_and_not_for_its_table() -> None:
    table, ids = tensor("table", 100_000, 64), tensor("ids", 8, dtype="int64")
    gather = layer("gather", "Gather", (table, ids), (tensor("rows", 8, 64),))
    work = work_of(gather.op)
    assert work is not None
    assert work.bytes < 10_000
    other = layer("other", "Relu", (tensor("x", 50_000),), (tensor("y", 50_000),))
    found = predict(other, gather)
    assert found["gather"].cache_bytes + found["gather"].dram_bytes == work.bytes
    # The table of 25.6 MB does not pass through the cache of 1 MB: the same few rows stay there, and so does x.
    assert found["gather"].dram_bytes == found["other"].dram_bytes == 0


def test_a_layer_whose_work_is_unknown_has_no_estimate_but_still_fills_the_cache() -> None:
    """The unknown layer streams 8 MB between two readers of w: the second one finds w gone."""
    weights = tensor("w", 1000)

    def reader(name: str) -> Layer:
        return layer(name, "Relu", (weights,), (tensor(name, 1000),))

    unknown = layer("unknown", "Custom", (tensor("x", 2_000_000),), ())
    works = {"first": Work(bytes_read=4000), "unknown": None, "second": Work(bytes_read=4000)}
    found = predict_layers([reader("first"), unknown, reader("second")], works, CEILINGS)
    assert found["unknown"] is None
    first, second = found["first"], found["second"]
    assert first is not None
    assert second is not None
    assert first.dram_bytes == 0
    assert second.dram_bytes > 0


# --- views -------------------------------------------------------------------------------------


def test_a_body_reads_tensors_of_the_graph_around_it() -> None:
    """x is written outside and read in the branch, which finds it in the cache."""
    x = tensor("x", 60_000)
    found = predict(
        layer("outer", "Relu", (tensor("in", 60_000),), (x,)),
        layer("inner", "Relu", (x,), (tensor("y", 60_000),), "If/then"),
        layer("large", "Relu", (tensor("z", 250_000),), (tensor("w", 10),)),
    )
    assert found["inner"].cache_bytes == found["inner"].dram_bytes == 240_000  # y is pushed out, x is found


def test_an_output_that_is_also_read_goes_to_memory_when_it_is_pushed_out() -> None:
    """x is read once, then 1 MB of others pushes it out: only as an output must it be written back."""
    layers = [
        layer("make", "Relu", (tensor("in", 60_000),), (tensor("x", 60_000),)),
        layer("read", "Relu", (tensor("x", 60_000),), (tensor("y", 10),)),
        layer("push", "Relu", (tensor("z", 250_000),), (tensor("w", 10),)),
    ]
    works = {one.name: work_of(one.op) for one in layers}

    def written(*outputs: str) -> int:
        found = predict_layers(layers, works, CEILINGS, outputs)["make"]
        assert found is not None
        return found.dram_bytes

    assert written("x") - written() == 240_000


# --- in place or not ---------------------------------------------------------------------------


def test_what_cannot_be_written_in_place_has_a_ceiling_of_its_own() -> None:
    """Of three ops on tensors of 4 MB only the second may overwrite what it reads: nobody else reads it."""
    roof = msgspec.structs.replace(ROOF, dram_out_of_place_bytes_per_s={"copy": 8e9})
    limits = msgspec.structs.replace(CEILINGS, best=ROOF, attainable=roof)
    a, b, c, d = (tensor(name, 1_000_000) for name in "abcd")
    found = predict(
        layer("of an input", "Relu", (a,), (b,)),
        layer("in place", "Relu", (b,), (c,)),
        layer("read again", "Relu", (c,), (d,)),
        layer("last", "Add", (c, d), (tensor("e", 1_000_000),)),
        ceilings=limits,
    )
    # 8 MB at 8 GB/s, or at the 10 GB/s of what works in place; the last one overwrites c or d.
    assert found["of an input"].terms["dram"] == found["read again"].terms["dram"] == 1_000_000
    assert found["in place"].terms["dram"] == 800_000
    assert found["last"].terms["dram"] == 1_200_000


@pytest.mark.parametrize(
    ("read", "written", "rate"),
    [
        (400, 0, 10e9),
        (200, 100, 8e9),
        (100, 100, 4e9),
        (50, 350, 4e9),  # more than half: no pattern that was measured writes more
        (500, 100, 1 / (0.5 / 10e9 + 0.5 / 8e9)),  # a sixth: half way between reading and adding
        (0, 0, 10e9),
    ],
)
def test_the_bandwidth_of_a_kernel_follows_what_it_writes(read: int, written: int, rate: float) -> None:
    roof = msgspec.structs.replace(ROOF, dram_out_of_place_bytes_per_s={"read": 10e9, "add": 8e9, "copy": 4e9})
    assert dram_rate(roof, Work(bytes_read=read, bytes_written=written)) == pytest.approx(rate)
    assert dram_rate(ROOF, Work(bytes_read=read, bytes_written=written)) == ROOF.dram_bytes_per_s


# --- dtypes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "peak"),
    [
        ("fp64", 50e9), ("int8", 400e9), ("uint4", 400e9), ("fp4e2m1", 200e9), ("fp8e5m2", 200e9),
        ("bf16", 100e9), ("int64", 100e9), ("", 100e9),
    ],
)  # fmt: skip
def test_a_dtype_without_a_ceiling_of_its_own_takes_that_of_a_wider_one(dtype: str, peak: float) -> None:
    assert peak_flops(ROOF.tensor_flops_per_s, dtype) == peak
    work = Work(tensor_flops=10**9, dtype=dtype)
    assert estimate(work, ALL_DRAM, CEILINGS).terms["tensor"] == 1e18 / peak


# --- what always holds -------------------------------------------------------------------------

QUIET = settings(deadline=None)  # a busy machine is no failure
RATE = st.floats(1e6, 1e15)
HEADROOM = st.just(1.0) | st.floats(1.0, 3.0)
AMOUNT = st.integers(0, 10**13)


@st.composite
def ceilings(draw: st.DrawFn) -> Ceilings:
    """``best`` is at least ``attainable`` in all things, as calibration sees to it."""
    dtypes = ["fp32", *draw(st.lists(st.sampled_from(["fp64", "int8"]), unique=True))]
    functions = draw(st.lists(st.sampled_from(["exp", "erf"]), unique=True))
    attainable = Roof(
        tensor_flops_per_s={dtype: draw(RATE) for dtype in dtypes},
        vector_flops_per_s={dtype: draw(RATE) for dtype in dtypes},
        special_per_s={function: draw(RATE) for function in functions},
        dram_bytes_per_s=draw(RATE),
        cache_bytes_per_s=draw(RATE),
    )

    def better(rates: dict[str, float]) -> dict[str, float]:
        return {name: rate * draw(HEADROOM) for name, rate in rates.items()}

    best = Roof(
        tensor_flops_per_s=better(attainable.tensor_flops_per_s),
        vector_flops_per_s=better(attainable.vector_flops_per_s),
        special_per_s=better(attainable.special_per_s),
        dram_bytes_per_s=attainable.dram_bytes_per_s * draw(HEADROOM),
        cache_bytes_per_s=attainable.cache_bytes_per_s * draw(HEADROOM),
    )
    return msgspec.structs.replace(STORY, best=best, attainable=attainable, launch_ns=draw(st.floats(0, 1e5)))


def same(rate: float) -> Ceilings:
    """Best and attainable, memory and cache: all ``rate``."""
    roof = one_unit({"fp32": rate}, dram=rate, cache=rate)
    return msgspec.structs.replace(STORY, best=roof, attainable=roof)


@QUIET
@given(
    ceilings(),
    st.builds(
        Work,
        tensor_flops=AMOUNT,
        vector_flops=AMOUNT,
        special=st.dictionaries(st.sampled_from(["exp", "sqrt"]), AMOUNT),
        bytes_read=AMOUNT,
        bytes_written=AMOUNT,
        dtype=st.sampled_from(["fp32", "fp64", "int8", "bf16"]),
    ),
    st.builds(Traffic, AMOUNT, AMOUNT),
)
# Whole ns that floating point does not hit: 60 + 1 and 362 + 1 bytes in one go round up to a ns more.
@example(same(1e9), Work(bytes_read=61), Traffic(1, 60))
@example(same(3e9), Work(bytes_read=363), Traffic(1, 362))
def test_ideal_then_roofline_then_attainable(limits: Ceilings, work: Work, traffic: Traffic) -> None:
    found = estimate(work, traffic, limits)
    assert found.ideal_ns <= found.roofline_ns <= found.attainable_ns
    assert found.attainable_ns >= limits.launch_ns

    assert found.dram_bytes + found.cache_bytes == work.bytes
    if traffic.cache_bytes == 0:
        assert found.cache_bytes == 0
    elif traffic.dram_bytes == 0:
        assert found.dram_bytes == 0

    terms = found.terms
    assert found.roofline_ns == max(ns for name, ns in terms.items() if name != "launch")
    assert found.attainable_ns == max(terms.values())
    # The largest of all binds and the largest of the others is what it beat.
    rest = {name: ns for name, ns in terms.items() if name != found.bound}
    assert terms[found.bound] == found.attainable_ns
    assert max(rest.values()) == (0 if found.runner_up == "none" else rest[found.runner_up])


def test_what_exceeds_the_cache_must_cross_to_dram_even_ideally() -> None:
    """Of 3 capacities of bytes at most one can be found in the cache, whatever ran before."""
    slow, fast, capacity = 1e9, 1e12, 1_000_000
    roof = one_unit({"fp32": 1e15}, dram=slow, cache=fast)
    limits = msgspec.structs.replace(CEILINGS, best=roof, attainable=roof, cache_bytes=capacity, launch_ns=0.0)
    work = Work(bytes_read=3 * capacity)
    all_hits = estimate(work, Traffic(cache_bytes=3 * capacity, dram_bytes=0), limits)
    assert all_hits.ideal_ns == 2_000_000  # the rest passes the cache meanwhile
    assert (all_hits.cache_bytes, all_hits.dram_bytes) == (capacity, 2 * capacity)
    unknown = msgspec.structs.replace(limits, cache_bytes=0)
    assert estimate(work, Traffic(cache_bytes=0, dram_bytes=3 * capacity), unknown).ideal_ns == 3_000


# --- ideal is sound ------------------------------------------------------------------------------


def convolution(
    dtype: str, batch: int, channels: int, filters: int, size: int, kernel: int, stride: int = 1, pad: int = 0
) -> Op:
    places = (size + 2 * pad - kernel) // stride + 1
    attributes: dict[str, Attribute] = {
        "kernel_shape": (kernel, kernel),
        "strides": (stride, stride),
        "pads": (pad,) * 4,
    }
    return Op(
        op_type="Conv",
        opset=17,
        attributes=attributes,
        inputs=(
            tensor("x", batch, channels, size, size, dtype=dtype),
            tensor("w", filters, channels, kernel, kernel, dtype=dtype),
        ),
        outputs=(tensor("y", batch, filters, places, places, dtype=dtype),),
    )


def attention(batch: int, heads: int, length: int, depth: int, causal: bool) -> Op:
    sides = tuple(tensor(name, batch, heads, length, depth, dtype="bf16") for name in "qkv")
    result = (tensor("y", batch, heads, length, depth, dtype="bf16"),)
    return Op(op_type="Attention", opset=24, attributes={"is_causal": int(causal)}, inputs=sides, outputs=result)


@pytest.mark.parametrize(
    ("gpu", "op", "tf32", "measured_ns"),
    [
        # By Winograd; S. Lee et al., NeuSight (MIT licence), scripts/asplos/data/dataset, conv.
        ("v100-pcie-32gb", convolution("fp32", 63, 452, 621, 12, 3, pad=1), False, 1_457_000),
        # The pixels between the steps are not read; TensorRT on an RTX 3090 in fp16.
        ("rtx-3090", convolution("fp16", 32, 256, 128, 56, 1, stride=2), True, 35_800),
    ],
    ids=["winograd", "steps"],
)
def test_no_measured_kernel_beats_ideal(gpu: str, op: Op, tf32: bool, measured_ns: int) -> None:
    work = work_of(op)
    assert work is not None
    found = estimate(work, Traffic(0, work.bytes), gpus.ceilings(gpus.find(gpu), tf32=tf32))
    assert found.ideal_ns <= found.attainable_ns <= measured_ns


def test_a_causal_mask_halves_the_square() -> None:
    whole, half = (work_of(attention(4, 16, 1024, 128, causal)) for causal in (False, True))
    assert whole is not None
    assert half is not None
    assert 2 * 1024 * half.tensor_flops == 1025 * whole.tensor_flops
    assert half.unsure == Unsure()
    ceilings = gpus.ceilings(gpus.find("a100"))
    times = [estimate(work, Traffic(0, work.bytes), ceilings).ideal_ns for work in (whole, half)]
    assert times[1] == pytest.approx(times[0] * 1025 / 2048, rel=1e-3)


@pytest.mark.parametrize(
    ("kernel", "stride", "kept"), [(1, 1, 1.0), (2, 2, 1.0), (3, 2, 1.0), (3, 1, 1 / 4), (5, 1, 1.0), (7, 1, 1.0)]
)
def test_what_a_fast_algorithm_saves(kernel: int, stride: int, kept: float) -> None:
    work = work_of(convolution("fp32", 1, 8, 8, 32, kernel, stride))
    assert work is not None
    assert (work.tensor_flops - work.fast_flops) / work.tensor_flops == pytest.approx(kept, rel=1e-4)
    integers = work_of(convolution("int8", 1, 8, 8, 32, kernel, stride))
    assert integers is not None
    assert integers.fast_flops == 0


@given(
    counts=st.tuples(*[st.integers(0, 10**12)] * 3),
    spared=st.tuples(*[st.floats(0, 1)] * 3),
    bytes_=st.integers(0, 10**9),
)
def test_what_data_may_spare_is_never_in_ideal(
    counts: tuple[int, int, int], spared: tuple[float, float, float], bytes_: int
) -> None:
    """Ideal is that of the work without it; attainable is that of the work as counted."""
    less = [min(int(count * share), count) for count, share in zip(counts, spared, strict=True)]
    gone = int(bytes_ * spared[0])
    unsure = Unsure(tensor_flops=less[0], vector_flops=less[1], special={"exp": less[2]}, bytes=gone)

    def made(tensor_flops: int, vector: int, exp: int, nbytes: int, spare: Unsure) -> Estimate:
        work = Work(
            tensor_flops=tensor_flops,
            vector_flops=vector,
            special={"exp": exp},
            bytes_read=nbytes,
            dtype="fp32",
            unsure=spare,
        )
        return estimate(work, Traffic(0, nbytes), CEILINGS)

    found = made(*counts, bytes_, unsure)
    tensor_flops, vector, exp = (count - part for count, part in zip(counts, less, strict=True))
    sure = made(tensor_flops, vector, exp, bytes_ - gone, Unsure())
    assert found.ideal_ns == sure.ideal_ns
    assert found.attainable_ns == made(*counts, bytes_, Unsure()).attainable_ns
