from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import ClassVar

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

from tests.fakes.measured import measured
from trtprof.analysis.work import inspection_of
from trtprof.base.errors import CaptureError, MissingError, UsageError
from trtprof.base.progress import Line
from trtprof.base.records import Ceilings, Device, Work
from trtprof.base.units import SPECIAL_FLOPS
from trtprof.hardware import calibrate as calibrate_module
from trtprof.hardware._exchange import Measured, MeasureRequest
from trtprof.hardware._fit import Reading
from trtprof.hardware._measure import _Bench, _ladder
from trtprof.hardware._workloads import (
    Workload,
    compute_workloads,
    empty_chain,
    memory_workloads,
    quick_workloads,
    special_workloads,
    vector_workloads,
)
from trtprof.hardware.calibrate import QUICK_BAND, Calibration, calibrate, merge, needed_ceilings
from trtprof.runtime import child
from trtprof.source.load import load_model, source_of

DEVICE = Device(
    name="Fake CPU", kind="cpu", cores=4, memory_bytes=1 << 34, cache_bytes=64 << 20,
    detail={"llc": "L3 32768 KiB x 2 (sysfs)", "llc_instances": "2"},
)  # fmt: skip


def measurement_spread(ceilings: Ceilings, name: str) -> float:
    spread = ceilings.measurements[name].spread
    assert spread is not None
    return spread


def test_best_is_over_thread_counts_and_attainable_is_the_runs_own() -> None:
    asked: list[MeasureRequest] = []

    def measure(request: MeasureRequest) -> Measured:
        asked.append(request)
        # One thread reads memory faster than two here.
        return measured(request.threads, **({"dram": 50e9} if request.threads == 1 else {}))

    said: list[str] = []
    ceilings = calibrate(2, device=DEVICE, measure=measure, progress=said.append)
    assert [request.threads for request in asked] == [1, 2, 4]
    assert [request.cache_bytes for request in asked] == [32 << 20, 64 << 20, 64 << 20]
    assert ceilings.attainable.tensor_flops_per_s == {"fp32": 200e9, "int8": 800e9, "uint8": 800e9}
    assert ceilings.best.tensor_flops_per_s == {"fp32": 400e9, "int8": 1600e9, "uint8": 1600e9}
    assert (ceilings.attainable.special_per_s, ceilings.best.special_per_s) == ({"exp": 10e9}, {"exp": 20e9})
    assert (ceilings.attainable.dram_bytes_per_s, ceilings.best.dram_bytes_per_s) == (30e9, 50e9)
    assert (ceilings.attainable.cache_bytes_per_s, ceilings.best.cache_bytes_per_s) == (180e9, 360e9)
    assert (ceilings.launch_ns, ceilings.call_ns) == (142.0, 1600.0)
    assert (ceilings.profiler_ns, ceilings.profiler_tensor_ns, ceilings.profiler_gap_ns) == (1700.0, 80.0, 500.0)
    assert ceilings.probe_ns == 500_000.0
    assert ceilings.fp32_flops_by_threads == {"1": 100e9, "2": 200e9, "4": 400e9}
    assert [request.with_profiler for request in asked] == [False, True, False]
    assert (ceilings.device, ceilings.threads, ceilings.cached) == ("Fake CPU", 2, False)
    assert ceilings.cache_bytes == 64 << 20
    assert measurement_spread(ceilings, "tensor fp32") == pytest.approx(0.02)
    assert measurement_spread(ceilings, "best tensor fp32") == pytest.approx(0.04)
    assert measurement_spread(ceilings, "best dram") == pytest.approx(0.01)
    reached = ceilings.measurements["best tensor fp32"]
    assert (reached.value, reached.threads, reached.what, reached.unit) == (
        400e9, 4, "winner of tensor fp32", "FLOP/s",
    )  # fmt: skip
    units = {name: measurement.unit for name, measurement in ceilings.measurements.items()}
    assert (units["special exp"], units["dram read"], units["probe"]) == ("1/s", "B/s", "ns")
    # A part bounds nothing, so that it is not repeated for another thread count.
    assert "best gemm fp32 512" not in units
    assert list(units)[:4] == ["tensor fp32", "tensor int8", "gemm fp32 512", "gemm fp32 1024"]
    assert len(said) == 2


class Answering:
    """Stands in for the child of a `Calibration`: every round gives what was asked for, others took so many CPUs."""

    rounds: ClassVar[list[tuple[str, ...]]] = []
    others_cpus: float | None = 0.0
    faster = 1.0

    def __init__(self, _module: str, _log: Path, _variables: dict[str, str]) -> None:
        pass

    def send(self, line: bytes) -> None:
        self.rounds.append(msgspec.json.decode(line, type=MeasureRequest).needed)

    def receive(self, _within_s: float) -> bytes:
        rates = {name.replace(" ", "_"): 300e9 * self.faster for name in self.rounds[-1] if name.startswith("tensor")}
        whole = measured(2, dram=25e9 * self.faster, special_exp=5e9, special_erf=2e9, probe=2 * 256**3 / 150, **rates)
        named = {key: one for key, one in whole.readings.items() if key in (*self.rounds[-1], "probe")}
        return msgspec.json.encode(msgspec.structs.replace(whole, readings=named, others_cpus=self.others_cpus))

    def end(self) -> None:
        pass


def calibrated(folder: Path, *works: Work, recalibrate: bool = False) -> Ceilings:
    needed = needed_ceilings(works)
    with Calibration(2, needed, device=DEVICE, cache_dir=folder, recalibrate=recalibrate) as calibration:
        calibration.round()
        calibration.round()
        return calibration.finish()


INT8 = Work(tensor_flops=8, dtype="uint8")
GELU = Work(vector_flops=8, special={"erf": 2}, dtype="fp32")


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> type[Answering]:
    monkeypatch.setattr(child, "Dialogue", Answering)
    monkeypatch.setattr(calibrate_module, "others_cpus_now", lambda: 0.0)
    monkeypatch.setattr(Answering, "rounds", [])
    monkeypatch.setattr(Answering, "faster", 1.0)
    monkeypatch.setattr(Answering, "others_cpus", 0.0)
    return Answering


def test_a_run_measures_what_its_model_needs_and_only_what_is_not_kept(
    answering: type[Answering], tmp_path: Path
) -> None:
    first = calibrated(tmp_path, GELU, Work(tensor_flops=8, dtype="int4"))
    assert {"tensor fp32", "tensor int8", "special erf", "special exp", "dram", "cache", "launch"} < set(
        answering.rounds[0]
    )
    assert "special sqrt" not in answering.rounds[0]
    assert answering.rounds[0] == answering.rounds[1]
    assert (first.extent, first.band, first.cached) == ("quick", QUICK_BAND, False)
    assert calibrated(tmp_path, GELU, INT8) == msgspec.structs.replace(first, cached=True)
    assert len(answering.rounds) == 2

    # What another model needs beyond that comes to what is kept; a kept ceiling stays where a new one is lower.
    Answering.faster = 0.5
    more = calibrated(tmp_path, Work(tensor_flops=8, dtype="fp64"))
    assert answering.rounds[2:] == [("tensor fp64",)] * 2
    assert more.attainable.tensor_flops_per_s == {"fp32": 3e11, "fp64": 1.5e11, "int8": 3e11, "uint8": 3e11}
    again = calibrated(tmp_path, recalibrate=True)
    assert set(answering.rounds[-1]) == needed_ceilings([])
    assert (again.attainable.dram_bytes_per_s, again.best.tensor_flops_per_s["fp32"]) == (25e9, 3e11)
    Answering.faster = 2.0
    assert calibrated(tmp_path, recalibrate=True).attainable.dram_bytes_per_s == 50e9


def test_ceilings_measured_beside_others_are_measured_again_when_it_is_quiet(
    answering: type[Answering], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering.others_cpus = 1.4
    assert calibrated(tmp_path, INT8).disturbed
    monkeypatch.setattr(calibrate_module, "others_cpus_now", lambda: 1.0)
    assert calibrated(tmp_path).disturbed
    assert len(answering.rounds) == 2
    monkeypatch.setattr(calibrate_module, "others_cpus_now", lambda: 0.0)
    answering.others_cpus = 0.0
    quiet = calibrated(tmp_path)
    assert not quiet.disturbed
    assert "int8" not in quiet.attainable.tensor_flops_per_s
    # Beside others again: all of it is kept already, so that nothing is worse.
    answering.others_cpus = 1.4
    assert not calibrated(tmp_path, recalibrate=True).disturbed
    assert calibrated(tmp_path, INT8).disturbed


def test_where_the_system_does_not_tell_of_others_the_rate_of_all_threads_does() -> None:
    now = dt.datetime.now(dt.UTC)
    alone = 2 * 256**3 / 100  # 100 GFLOP/s in one thread
    for flops, disturbed in ((150e9, False), (110e9, True)):
        result = msgspec.structs.replace(measured(2, tensor_fp32=flops, probe=alone), others_cpus=None)
        assert merge(DEVICE, 2, {2: result}, now=now).disturbed == disturbed


def test_a_type_that_is_computed_in_another_one_bounds_nothing() -> None:
    ceilings = merge(DEVICE, 1, {1: measured(1, tensor_fp16=0.0)}, now=dt.datetime.now(dt.UTC))
    assert "fp16" not in ceilings.attainable.tensor_flops_per_s
    assert ceilings.measurements["tensor fp16"].value == 0.0


def test_a_quick_set_has_a_way_to_every_ceiling_of_products_memory_and_functions() -> None:
    quick = quick_workloads(8 << 20, 128 << 20)
    wanted = {f"tensor {dtype}" for dtype in ("fp32", "fp64", "fp16", "bf16", "int8")}
    wanted |= {f"special {name}" for name in SPECIAL_FLOPS} | {"cache", "dram"}
    assert {load.task.ceiling for load in quick} == wanted
    patterns = {"read", "copy", "copy in place", "add", "write"}
    assert {load.task.part for load in quick if load.task.part} == {
        f"{level} {pattern}" for level in ("cache", "dram") for pattern in patterns
    }


def test_other_arithmetic_is_never_bounded_below_products() -> None:
    """A fused multiply-add counts two FLOP: what else the same units do is no faster."""
    now = dt.datetime.now(dt.UTC)
    slow = merge(DEVICE, 1, {1: measured(1)}, now=now)
    assert slow.attainable.vector_flops_per_s == slow.attainable.tensor_flops_per_s
    assert slow.measurements["vector fp32"].value == 40e9
    # Were it faster all the same, that would be its bound.
    fast = merge(DEVICE, 1, {1: measured(1, vector_fp32=150e9)}, now=now)
    assert fast.attainable.vector_flops_per_s["fp32"] == 150e9


def test_writing_in_place_and_writing_alone_do_not_bound_the_others() -> None:
    result = measured(
        1, dram=80e9, dram_read=25e9, dram_copy=30e9, dram_copy_in_place=60e9, dram_write=80e9, dram_cast=20e9
    )
    roof = merge(DEVICE, 1, {1: result}, now=dt.datetime.now(dt.UTC)).attainable
    assert roof.dram_bytes_per_s == 80e9
    assert roof.dram_out_of_place_bytes_per_s == {"read": 25e9, "add": 20e9, "copy": 30e9}


def test_clocks_are_those_around_and_within_all_thread_counts() -> None:
    results = {
        count: msgspec.structs.replace(measured(count), clocks_mhz=clocks)
        for count, clocks in (
            (1, {"before": 3000.0, "during": 4000.0, "after": 3900.0}),
            (2, {"before": 3800.0, "during": 3600.0, "after": 3500.0}),
        )
    }
    now = dt.datetime.now(dt.UTC)
    ceilings = merge(DEVICE, 2, results, now=now)
    assert ceilings.clocks_mhz == {"before": 3000.0, "during": 3800.0, "after": 3500.0}
    silent = merge(DEVICE, 1, {1: measured(1)}, now=now)
    assert silent.clocks_mhz == {}
    assert "does not tell the clock" in silent.source


def test_the_source_says_what_a_cpus_ideal_is() -> None:
    now = dt.datetime(2026, 11, 20, 12, 0, tzinfo=dt.UTC)
    ceilings = merge(DEVICE, 1, {1: measured(1)}, now=now)
    assert "2026-11-20" in ceilings.source
    assert "ONNX Runtime 9.9" in ceilings.source
    assert "no datasheet" in ceilings.source
    assert "best ceiling measured" in ceilings.source
    assert ceilings.measured_at == "2026-11-20T12:00:00+00:00"
    assert "may be low" not in ceilings.source
    assert "less than four times" not in ceilings.source
    # At one thread count alone, the best is what was attained; by which pattern matters to the latter only.
    assert ceilings.best == msgspec.structs.replace(ceilings.attainable, dram_out_of_place_bytes_per_s={})


def test_the_source_says_what_is_doubtful() -> None:
    result = msgspec.structs.replace(
        measured(1),
        readings=measured(1).readings | {"dram": Reading(1e10, 0.4, 3, "x"), "cache": Reading(9e10, 0.0, 1, "y")},
        others_cpus=0.7,
        working_set=1 << 26,
    )
    ceilings = merge(DEVICE, 1, {1: result}, now=dt.datetime.now(dt.UTC))
    source = ceilings.source
    assert "for memory and cache" in source
    assert ceilings.measurements["cache"].spread is None
    assert measurement_spread(ceilings, "dram") == pytest.approx(0.4)
    assert "0.7 CPUs busy" in source
    assert "less than four times the cache" in source


def test_a_little_activity_on_a_big_host_is_no_disturbance() -> None:
    result = msgspec.structs.replace(measured(1), others_cpus=0.7)
    device = msgspec.structs.replace(DEVICE, detail={**DEVICE.detail, "logical_cpus": "32"})
    assert "busy" not in merge(device, 1, {1: result}, now=dt.datetime.now(dt.UTC)).source


def test_zero_threads_are_all_usable_cores_and_negative_ones_are_refused() -> None:
    assert calibrate(0, device=DEVICE, measure=lambda request: measured(request.threads)).threads == 4
    with pytest.raises(UsageError, match="-1"):
        calibrate(-1, device=DEVICE, measure=lambda request: measured(request.threads))


def test_a_missing_ceiling_is_an_error_and_never_zero() -> None:
    def measure(request: MeasureRequest) -> Measured:
        whole = measured(request.threads)
        readings = {key: value for key, value in whole.readings.items() if key != "cache"}
        return msgspec.structs.replace(whole, readings=readings)

    with pytest.raises(CaptureError, match="cache"):
        calibrate(1, device=DEVICE, measure=measure)


# --- workloads ------------------------------------------------------------------------------


def request(cache: int, memory: int = 0) -> MeasureRequest:
    return MeasureRequest(threads=1, seconds=1.0, cache_bytes=cache, memory_bytes=memory)


def test_the_ladder_keeps_clear_of_the_edge_of_the_cache() -> None:
    cached, beyond = _ladder(request(32 << 20))
    assert min(cached) == 262_144
    assert max(cached) == 16 << 20
    assert beyond == [128 << 20, 256 << 20]
    assert _ladder(request(0)) == (cached, beyond)
    assert max(_ladder(request(1 << 30))[1]) == 512_000_000
    assert max(_ladder(request(32 << 20, memory=1 << 30))[1]) == 1 << 27


PATTERNS = ("read", "copy", "copy in place", "add", "cast", "write")

SMALL = [
    *memory_workloads("cache", [1 << 20]),
    *(load for load in compute_workloads([TensorProto.FLOAT, TensorProto.DOUBLE]) if max(load.size) <= 512),
    *vector_workloads([1 << 20]),
    *special_workloads([1 << 20]),
]


def names(load: Workload) -> str:
    return f"{load.task.ceiling}: {load.task.name}"


def test_names_are_unique_within_a_ceiling() -> None:
    sizes = [262_144, 1 << 20, 8 << 20]
    loads = [
        *memory_workloads("cache", sizes),
        *compute_workloads([TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16]),
        *vector_workloads(sizes), *special_workloads(sizes),
    ]  # fmt: skip
    assert len({(load.task.ceiling, load.task.name) for load in loads}) == len(loads)


def test_every_special_function_has_a_workload() -> None:
    assert {load.task.ceiling for load in special_workloads([1 << 20])} == {f"special {name}" for name in SPECIAL_FLOPS}


def test_a_run_is_worth_what_the_cost_model_counts(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for load in SMALL:
        with subtests.test(str(load)[:80]):
            path = tmp_path / "model.onnx"
            path.write_bytes(load.build().model)
            found = inspection_of(source_of(load_model(path)))
            assert not found.unsupported
            assert counted(load, found.total) == load.task.amount
            kind, _, dtype = load.task.ceiling.partition(" ")
            if kind in ("tensor", "vector"):
                assert {node.work.dtype for node in found.nodes if node.work is not None} == {dtype}


def counted(load: Workload, work: Work) -> int:
    kind, _, what = load.task.ceiling.partition(" ")
    if kind == "special":
        return work.special[what]
    return {"tensor": work.tensor_flops, "vector": work.vector_flops, "cache": work.bytes}[kind]


def test_the_working_set_is_what_the_ladder_asked_for(subtests: pytest.Subtests) -> None:
    for load in memory_workloads("cache", [1 << 20]):
        with subtests.test(str(load)[:80]):
            graph = load.build()
            touched = graph.inputs if graph.in_place else (*graph.inputs, *graph.outputs)
            if load.kind == "EyeLike":  # only the shape of its input is used
                touched = graph.outputs
            assert sum(port.nbytes for port in touched) == pytest.approx(1 << 20, rel=0.02)


def test_chained_values_stay_ordinary() -> None:
    load = next(load for load in compute_workloads([TensorProto.FLOAT]) if load.task.name == "Conv 3x3 256->256 14x14")
    graph = load.build()
    (y,) = ReferenceEvaluator(onnx.load_from_string(graph.model)).run(
        None, {"x": np.ones(graph.inputs[0].shape, np.float32)}
    )
    assert np.isfinite(y).all()
    # Denormals would be slow and infinities would be no numbers: the chain keeps its scale.
    assert 1e-4 < float(np.abs(y).mean()) < 1e4


def test_an_empty_chain_has_the_length_and_inputs_asked_for() -> None:
    model = onnx.load_from_string(empty_chain(17).model)
    assert [node.op_type for node in model.graph.node] == ["Neg"] * 17
    model = onnx.load_from_string(empty_chain(3, inputs=5).model)
    onnx.checker.check_model(model)
    assert [len(node.input) for node in model.graph.node] == [5] * 3


# --- the real thing -------------------------------------------------------------------------


@pytest.mark.nightly
def test_a_real_calibration_is_sane() -> None:
    said: list[str] = []
    device = msgspec.structs.replace(DEVICE, cores=1, cache_bytes=8 << 20)
    real = calibrate(1, seconds=1.0, device=device, progress=said.append)
    counted = [line for line in said if "timings of" in line]
    assert counted
    assert all(isinstance(line, Line) and line.startswith("1 thread: ") for line in counted)
    assert msgspec.json.decode(msgspec.json.encode(real), type=Ceilings) == real
    # Each is bounded by its own rate or that of products; a wrong count of FLOP would show here.
    for dtype in ("fp32", "fp64", "int8"):
        assert real.measurements[f"vector {dtype}"].value <= real.attainable.vector_flops_per_s[dtype]
    assert real.attainable.tensor_flops_per_s["fp32"] > 1e9
    assert set(real.attainable.tensor_flops_per_s) >= {"fp32", "fp64", "int8", "uint8"}
    assert set(real.attainable.special_per_s) == set(SPECIAL_FLOPS)
    assert real.attainable.dram_bytes_per_s > 1e8
    for level in ("dram", "cache"):
        parts = [m.value for name, m in real.measurements.items() if name in [f"{level} {p}" for p in PATTERNS]]
        assert real.measurements[level].value >= max(parts)
    assert {"dram read", "dram copy", "dram write"} <= set(real.measurements)
    assert "gemm fp32 512" in real.measurements
    patterns = real.attainable.dram_out_of_place_bytes_per_s
    assert set(patterns) == {"read", "add", "copy"}
    assert all(0 < rate <= real.attainable.dram_bytes_per_s for rate in patterns.values())
    assert real.best.dram_bytes_per_s >= real.attainable.dram_bytes_per_s
    assert real.best.cache_bytes_per_s >= real.attainable.cache_bytes_per_s
    for dtype, flops in real.attainable.tensor_flops_per_s.items():
        assert real.best.tensor_flops_per_s[dtype] >= flops
        assert real.attainable.vector_flops_per_s[dtype] >= flops
    assert 0 < real.launch_ns < real.call_ns
    # An event is stamped around the profiler's own notes: it is longer than the node was.
    assert real.profiler_ns > 0
    assert real.profiler_tensor_ns >= 0
    assert real.profiler_gap_ns >= 0
    assert real.probe_ns > real.call_ns
    assert all(m.value >= 0 and (m.spread is None or m.spread >= 0) for m in real.measurements.values())


@pytest.mark.nightly
def test_real_rounds_give_what_is_needed(tmp_path: Path) -> None:
    device = msgspec.structs.replace(DEVICE, cores=1, cache_bytes=8 << 20)
    needed = needed_ceilings([GELU, INT8, Work(tensor_flops=8, dtype="fp16")])
    with Calibration(1, needed, device=device, cache_dir=tmp_path) as calibration:
        for _ in range(3):
            calibration.round()
        real = calibration.finish()
    assert needed <= set(real.measurements)
    assert real.measurements["probe"].repeats == real.measurements["tensor fp32"].repeats == 3
    assert 0 < real.launch_ns < real.call_ns < real.probe_ns


@pytest.mark.parametrize("content", [b'[{"cat" : "Node",', None])
def test_a_profile_that_is_cut_off_is_told_as_a_lack_of_room(content: bytes | None, tmp_path: Path) -> None:
    """ONNX Runtime writes it without looking whether it can."""

    class Session:
        def end_profiling(self) -> str:
            if content is not None:
                (tmp_path / "profile.json").write_bytes(content)
            return str(tmp_path / "profile.json")

    class Bound:
        session = Session()

        def run(self) -> None:
            pass

    bench = _Bench(1, tmp_path)
    bench.bind = lambda *_, **__: Bound()  # type: ignore[method-assign,assignment]
    with pytest.raises(MissingError, match="cannot be written"):
        bench._profile(empty_chain(1), runs=1)
