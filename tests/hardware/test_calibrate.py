from __future__ import annotations

import datetime as dt
import subprocess
import sys

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

from profiler.errors import CaptureError, MissingError, UsageError
from profiler.hardware._exchange import Failure, Measured, MeasureRequest
from profiler.hardware._fit import Reading
from profiler.hardware._measure import _ladder
from profiler.hardware._workloads import Workload, compute_workloads, empty_chain, memory_workloads
from profiler.hardware.calibrate import calibrate, measure_in_child, merge, read_result
from profiler.records import Ceilings, Device

DEVICE = Device(
    name="Fake CPU",
    kind="cpu",
    cores=4,
    memory_bytes=1 << 34,
    cache_bytes=64 << 20,
    detail={"llc": "L3 32768 KiB x 2 (sysfs)", "llc_instances": "2"},
)


def measured(threads: int, **changed: float) -> Measured:
    values = {"fp32_flops": 100e9 * threads, "int8_flops": 400e9 * threads, "dram": 30e9, "cache": 90e9 * threads}
    values |= {"launch": 140.0 + threads, "call": 1600.0, "profiler": 1700.0, "profiler_tensor": 80.0}
    values |= {"profiler_gap": 500.0, "probe": 500_000.0} | changed
    readings = {key: Reading(value, 0.01 * threads, 3, f"winner of {key}") for key, value in values.items()}
    return Measured(threads=threads, runtime="9.9", readings=readings, working_set=1 << 28, seconds=1.0)


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
    assert ceilings.attainable.flops_per_s == {"fp32": 200e9, "int8": 800e9, "uint8": 800e9}
    assert ceilings.best.flops_per_s == {"fp32": 400e9, "int8": 1600e9, "uint8": 1600e9}
    assert (ceilings.attainable.dram_bytes_per_s, ceilings.best.dram_bytes_per_s) == (30e9, 50e9)
    assert (ceilings.attainable.cache_bytes_per_s, ceilings.best.cache_bytes_per_s) == (180e9, 360e9)
    assert (ceilings.launch_ns, ceilings.call_ns) == (142.0, 1600.0)
    assert (ceilings.profiler_ns, ceilings.profiler_tensor_ns, ceilings.profiler_gap_ns) == (1700.0, 80.0, 500.0)
    assert ceilings.probe_ns == 500_000.0
    assert ceilings.fp32_flops_by_threads == {"1": 100e9, "2": 200e9, "4": 400e9}
    assert [request.with_profiler for request in asked] == [False, True, False]
    assert (ceilings.device, ceilings.threads, ceilings.cached) == ("Fake CPU", 2, False)
    assert ceilings.cache_bytes == 64 << 20
    assert ceilings.spread["fp32_flops"] == pytest.approx(0.02)
    assert ceilings.spread["best_fp32_flops"] == pytest.approx(0.04)
    assert ceilings.spread["best_dram"] == pytest.approx(0.01)
    assert set(ceilings.spread) >= {"dram", "cache", "launch", "call", "profiler", "profiler_tensor"}
    assert len(said) == 4


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
    assert ceilings.best == ceilings.attainable


def test_the_source_says_what_is_doubtful() -> None:
    result = msgspec.structs.replace(
        measured(1),
        readings=measured(1).readings | {"dram": Reading(1e10, 0.4, 3, "x"), "cache": Reading(9e10, 0.0, 1, "y")},
        others_cpus=0.7,
        working_set=1 << 26,
    )
    ceilings = merge(DEVICE, 1, {1: result}, now=dt.datetime.now(dt.UTC))
    source = ceilings.source
    assert "for cache and dram" in source
    assert "cache" not in ceilings.spread
    assert ceilings.spread["dram"] == pytest.approx(0.4)
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


def test_the_childs_failures_become_one_clear_error() -> None:
    result = measured(1)
    text = msgspec.json.encode(result).decode()
    assert read_result(0, f"noise\n{text}\n", "", what="w", fix="f") == result
    with pytest.raises(CaptureError, match="unreadable result"):
        read_result(0, "", "", what="w", fix="f")
    with pytest.raises(CaptureError, match="why: the last line"):
        read_result(1, "", "Traceback\nthe last line\n\n", what="w", fix="f")
    with pytest.raises(CaptureError, match="signal 9"):
        read_result(-9, "", "", what="w", fix="f")
    with pytest.raises(MissingError, match="onnxruntime"):
        read_result(1, "", "ModuleNotFoundError: No module named 'onnxruntime'", what="w", fix="f")
    failure = msgspec.json.encode(Failure(what="no op Neg", why="old", fix="update it")).decode()
    with pytest.raises(MissingError, match="no op Neg: old\n  fix: update it"):
        read_result(3, failure, "", what="w", fix="f")
    with pytest.raises(CaptureError, match="no op Neg"):
        read_result(4, failure, "", what="w", fix="f")


def test_a_child_that_hangs_or_does_not_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    request = MeasureRequest(threads=1, seconds=1.0, cache_bytes=0, memory_bytes=0)

    def hang(*args: object, **kwargs: object) -> None:
        raise subprocess.TimeoutExpired("python", 600)

    monkeypatch.setattr(subprocess, "run", hang)
    with pytest.raises(CaptureError, match="no result after 600 s"):
        measure_in_child(request)
    monkeypatch.undo()
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(CaptureError, match="did not start"):
        measure_in_child(request)


# --- workloads ------------------------------------------------------------------------------


def request(cache: int, memory: int = 0) -> MeasureRequest:
    return MeasureRequest(threads=1, seconds=1.0, cache_bytes=cache, memory_bytes=memory)


def test_the_ladder_keeps_clear_of_the_edge_of_the_cache() -> None:
    cached, beyond = _ladder(request(32 << 20))
    assert min(cached) == 65_536
    assert max(cached) == 16 << 20
    assert beyond == [128 << 20, 256 << 20]
    assert _ladder(request(0)) == (cached, beyond)
    assert max(_ladder(request(1 << 30))[1]) == 512_000_000
    assert max(_ladder(request(32 << 20, memory=1 << 30))[1]) == 1 << 27


@pytest.mark.parametrize("load", memory_workloads("cache", [1 << 20]), ids=lambda load: load.kind)
def test_bytes_are_the_distinct_tensors_of_the_graph(load: Workload) -> None:
    graph = load.build()
    assert load.task.amount == sum(port.nbytes for port in (*graph.inputs, *graph.outputs))
    held = graph.inputs if graph.in_place else (*graph.inputs, *graph.outputs)
    assert sum(port.nbytes for port in held) == pytest.approx(1 << 20, rel=0.02)


@pytest.mark.parametrize(
    "load",
    [load for load in compute_workloads([TensorProto.FLOAT, TensorProto.DOUBLE]) if max(load.size) <= 512],
    ids=lambda load: load.task.name,
)
def test_flop_are_two_per_mac_of_the_graph(load: Workload) -> None:
    model = onnx.shape_inference.infer_shapes(onnx.load_from_string(load.build().model), strict_mode=True)
    onnx.checker.check_model(model)
    shapes = {
        info.name: [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        for info in [*model.graph.input, *model.graph.value_info, *model.graph.output]
    }
    weights = {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}
    flop = 0
    for node in model.graph.node:
        weight = next(weights[name] for name in node.input if len(weights.get(name, [])) >= 2)
        # Each output element is one dot product over all of the weight but its output channels.
        length = weight[0] if len(weight) == 2 else int(np.prod(weight[1:]))
        flop += 2 * int(np.prod(shapes[node.output[0]])) * length
    assert load.task.amount == flop


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


@pytest.fixture(scope="module")
def real() -> Ceilings:
    return calibrate(1, seconds=1.0, device=msgspec.structs.replace(DEVICE, cores=1, cache_bytes=8 << 20))


def test_a_real_calibration_is_sane(real: Ceilings) -> None:
    assert real.attainable.flops_per_s["fp32"] > 1e9
    assert real.attainable.flops_per_s["fp64"] < 1.2 * real.attainable.flops_per_s["fp32"]
    assert real.attainable.dram_bytes_per_s > 1e8
    assert real.attainable.dram_bytes_per_s <= 1.2 * real.attainable.cache_bytes_per_s
    assert real.best.dram_bytes_per_s >= real.attainable.dram_bytes_per_s
    assert real.best.cache_bytes_per_s >= real.attainable.cache_bytes_per_s
    for dtype, flops in real.attainable.flops_per_s.items():
        assert real.best.flops_per_s[dtype] >= flops
    assert 0 < real.launch_ns < real.call_ns
    # An event is stamped around the profiler's own notes: it is longer than the node was.
    assert real.profiler_ns > 0
    assert real.profiler_tensor_ns >= 0
    assert real.profiler_gap_ns > 0
    assert real.probe_ns > real.call_ns
    assert all(spread >= 0 for spread in real.spread.values())


def test_a_real_calibration_survives_json(real: Ceilings) -> None:
    assert msgspec.json.decode(msgspec.json.encode(real), type=Ceilings) == real
