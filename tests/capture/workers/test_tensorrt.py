"""The worker of TensorRT against a library and a CUDA runtime that are as late and as strict as the real ones."""

from __future__ import annotations

import contextlib
import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import ml_dtypes
import msgspec
import numpy as np
import onnx
import pandas as pd
import pytest
from onnx import TensorProto, helper

from tests.fakes import fake_gpu
from tests.fakes.fake_gpu import engine
from tests.fakes.support import refused
from tests.fakes.tensorrt_names import RTX_NAMES, RUN_NAMES
from trtprof.base.errors import CaptureError, MissingError, TrtprofError, UsageError
from trtprof.base.records import InputTensor
from trtprof.capture.gpu_record import ITERATION_RANGE, TIME_COLUMNS, CleanTimes, TensorrtRequest
from trtprof.capture.same_outputs import OutputsRequest
from trtprof.capture.turns import Variant
from trtprof.capture.workers import trt_runner, trt_runtime
from trtprof.capture.workers.gpu_window import Watch
from trtprof.capture.workers.inference import make_inputs
from trtprof.capture.workers.outputs import check, keep
from trtprof.capture.workers.runnable import runnable_of
from trtprof.capture.workers.tensorrt import clean, main, profiled
from trtprof.capture.workers.trt_runner import opened
from trtprof.runtime import child, tensorrt_module
from trtprof.runtime.ort_session import SessionRequest

X = InputTensor(name="x", dtype="fp32", shape=(2, 3))


class Gpu(NamedTuple):
    runtime: fake_gpu.Runtime
    trt: fake_gpu.Tensorrt
    folder: Path

    def request(self, plan: bytes | None = None, **changes: Any) -> TensorrtRequest:
        results, scratch = self.folder / "run", self.folder / "scratch"
        results.mkdir(exist_ok=True)
        scratch.mkdir(exist_ok=True)
        path = self.folder / "model.engine"
        path.write_bytes(engine() if plan is None else plan)
        request = TensorrtRequest(
            phase="clean", folder=str(results), scratch=str(scratch), inputs=(X,), layers=1, seed=0, iterations=4,
            warmup_ms=0.0, duration_s=0.0, profile_iterations=5, backend="tensorrt", engine=str(path),
        )  # fmt: skip
        return msgspec.structs.replace(request, **changes)

    def clean(self, plan: bytes | None = None, **changes: Any) -> CleanTimes:
        return clean(self.request(plan, **changes))

    def outputs(self, plan: bytes | None = None, **changes: Any) -> list[Any]:
        """What an inference gives, through the whole way that it takes."""
        request = self.request(plan, **changes)
        feeds = make_inputs(request.inputs, request.seed)
        with opened(request, feeds, 1) as runner:
            return runner.outputs()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Gpu]:
    """A GPU with TensorRT; all that a test takes from it must have been given back in the end."""
    runtime = fake_gpu.Runtime()
    package, bindings = ModuleType("cuda"), ModuleType("cuda.bindings")
    bindings.runtime = runtime  # type: ignore[attr-defined]
    trt = fake_gpu.Tensorrt(runtime)
    for name, module in (("cuda", package), ("cuda.bindings", bindings), ("tensorrt", trt)):
        monkeypatch.setitem(sys.modules, name, module)
    yield Gpu(runtime, trt, tmp_path)
    assert runtime.left() == {}, "nothing is left on the GPU, however it went"


def file_input(folder: Path, name: str, values: Any, dtype: str) -> InputTensor:
    path = folder / f"{name}.npy"
    np.save(path, values)
    return InputTensor(name=name, dtype=dtype, shape=values.shape, kind="file", file=str(path))


# --- the phase ``clean`` --------------------------------------------------------------------


def test_latency_is_measured_on_a_stream_and_as_a_graph_and_all_is_given_back(gpu: Gpu) -> None:
    record = gpu.clean()
    samples = pd.read_parquet(gpu.folder / "run" / "latency.parquet")
    assert tuple(samples.columns) == TIME_COLUMNS
    assert [mode.mode for mode in record.modes] == ["stream", "cuda graph"]
    for mode in record.modes:
        rows = samples[samples["mode"] == mode.mode]
        assert len(rows) == mode.latency.n == 4
        # One piece of work lies between the events, whatever was copied before and after.
        assert set(rows["compute_ns"]) == {round(fake_gpu.STEP_MS * 1e6)}
        assert (rows["enqueue_ns"] > 0).all()
        assert (rows["h2d_ns"] + rows["d2h_ns"] + rows["enqueue_ns"] <= rows["latency_ns"]).all()
    assert (record.timed_by, record.copies, record.copy_bytes, record.no_cuda_graph) == ("cuda events", 1, 24, "")
    assert 0 < record.begin_ns <= record.end_ns
    assert record.notes == ()


def test_the_calls_of_an_inference_come_in_the_order_that_the_times_mean(gpu: Gpu) -> None:
    request = gpu.request()
    with opened(request, make_inputs(request.inputs, 0), 1) as runner:
        gpu.runtime.asked.clear()
        gpu.trt.asked.clear()
        runner.infer()
        assert gpu.runtime.asked == [
            "cudaMemcpyAsync HtoD", "cudaStreamSynchronize", "cudaEventRecord", "cudaEventRecord",
            "cudaEventSynchronize", "cudaEventElapsedTime", "cudaMemcpyAsync DtoH", "cudaStreamSynchronize",
        ]  # fmt: skip
        assert gpu.trt.asked == ["execute"]
        runner.capture_graphs()
        gpu.runtime.asked.clear()
        runner.infer()
        assert gpu.runtime.asked[2:5] == ["cudaEventRecord", "cudaGraphLaunch", "cudaEventRecord"]
        assert gpu.trt.asked.count("execute") == 3, "before the capture, within it, and never again"
        x = make_inputs(request.inputs, 0)["x"]
        np.testing.assert_array_equal(runner.outputs()[0], x + x)


def test_outputs_are_those_of_the_inputs(gpu: Gpu) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (found,) = gpu.outputs(inputs=(file_input(gpu.folder, "x", x, "fp32"),))
    np.testing.assert_array_equal(found, x + x)


def test_copies_take_turns_each_with_memory_and_a_graph_of_its_own(gpu: Gpu) -> None:
    request = gpu.request(cold_l2=True, l2_bytes=40)
    feeds = make_inputs(request.inputs, 0)
    with opened(request, feeds, 3) as runner:
        inputs = [address for slot in runner._slots for address, _ in slot.inputs]
        assert len(set(inputs)) == 3
        gpu.trt.asked.clear()
        for _ in range(7):
            np.testing.assert_array_equal(runner.outputs()[0], feeds["x"] * 2)
        runner.capture_graphs()
        assert len({slot.graph for slot in runner._slots}) == 3
        for address in inputs:  # what an earlier inference left must not be what the next one reads
            gpu.runtime.held(address, 24, on_device=True)[:] = 0
        values = [runner.outputs()[0].tolist() for _ in range(4)]
        assert values[0] == values[1] == np.zeros((2, 3)).tolist(), "of several, that furthest away is written"
        assert values[2] == values[3] == (feeds["x"] * 2).tolist()
    record = gpu.clean(cold_l2=True, l2_bytes=40)
    assert (record.copies, record.copy_bytes) == (4, 24)
    assert "--cold-l2" in record.notes[0]


def test_the_clean_run_has_the_nvtx_names_of_a_deployed_engine_and_the_profiled_one_all(gpu: Gpu) -> None:
    gpu.clean()
    assert gpu.trt.contexts[-1].nvtx_verbosity.name == "LAYER_NAMES_ONLY"
    profiled(gpu.request(phase="profiled"))
    assert gpu.trt.contexts[-1].nvtx_verbosity.name == "DETAILED"
    record = profiled(gpu.request(engine(verbosity="NONE"), phase="profiled"))
    assert any("no NVTX names" in note for note in record.notes)


def test_streams_besides_the_main_one_are_said(gpu: Gpu) -> None:
    assert gpu.clean(engine(aux=2)).notes == ("the engine works on 2 streams besides the main one",)


def test_an_optimisation_profile_is_chosen_before_the_shapes(gpu: Gpu) -> None:
    gpu.clean(engine(profiles=3), profile=2)
    assert "profile 2" in gpu.trt.asked
    with pytest.raises(CaptureError, match="has no optimisation profile 3"):
        gpu.clean(engine(profiles=3), profile=3)
    gpu.trt.fails["profile"] = "setOptimizationProfileAsync: profile 1 is in use"
    with pytest.raises(CaptureError) as caught:
        gpu.clean(engine(profiles=3), profile=1)
    assert "in use" in refused(caught.value)


# --- shapes, types, memory ------------------------------------------------------------------


def test_a_shape_tensor_is_read_from_the_host_before_shapes_are_inferred(gpu: Gpu) -> None:
    tensors = [
        {"name": "sizes", "mode": "INPUT", "dtype": "INT64", "shape": [2], "host": True},
        {"name": "x", "mode": "INPUT", "dtype": "FLOAT", "shape": [2]},
        {"name": "y", "mode": "OUTPUT", "dtype": "FLOAT", "shape": [-1, -1], "shape_from": "sizes", "of": "x",
         "does": "fill"},
    ]  # fmt: skip
    inputs = (
        file_input(gpu.folder, "sizes", np.array([4, 5]), "int64"),
        file_input(gpu.folder, "x", np.array([7, 0], np.float32), "fp32"),
    )
    (found,) = gpu.outputs(engine(tensors=tensors), inputs=inputs)
    np.testing.assert_array_equal(found, np.full((4, 5), 7, np.float32))
    assert gpu.runtime.asked.count("cudaMalloc") == 2, "the sizes need no memory of the device"


NONZERO = [
    {"name": "x", "mode": "INPUT", "dtype": "FLOAT", "shape": [-1]},
    {"name": "places", "mode": "OUTPUT", "dtype": "INT64", "shape": [1, -1], "of": "x"},
]


@pytest.mark.parametrize("x", [[0.0, 1.0, 0.0, 2.0], [0.0, 0.0], [1.0, 1.0, 1.0]])
def test_an_output_whose_shape_depends_on_the_data_is_as_long_as_it_is(x: list[float], gpu: Gpu) -> None:
    values = np.array(x, np.float32)
    (found,) = gpu.outputs(engine(tensors=NONZERO), inputs=(file_input(gpu.folder, "x", values, "fp32"),))
    np.testing.assert_array_equal(found, np.stack(np.nonzero(values)))


def test_such_an_output_cannot_be_in_a_graph_and_the_rest_goes_on(gpu: Gpu) -> None:
    record = gpu.clean(engine(tensors=NONZERO), inputs=(msgspec.structs.replace(X, shape=(4,)),))
    assert [mode.mode for mode in record.modes] == ["stream"]
    assert record.no_cuda_graph == "a data-dependent shape needs a synchronisation"


def test_memory_that_runs_out_in_the_allocator_is_the_error_that_is_told(gpu: Gpu) -> None:
    gpu.runtime.capacity = 20  # the input takes 16 of them
    with pytest.raises(CaptureError) as caught:
        gpu.clean(engine(tensors=NONZERO), inputs=(msgspec.structs.replace(X, shape=(4,)),))
    assert "out of memory" in refused(caught.value)


def test_empty_tensors_have_an_address_and_nothing_is_copied(gpu: Gpu) -> None:
    record = gpu.clean(inputs=(msgspec.structs.replace(X, shape=(0, 3)),))
    assert record.copy_bytes == 0
    assert not any("Memcpy" in name for name in gpu.runtime.asked)
    assert gpu.outputs(inputs=(msgspec.structs.replace(X, shape=(0, 3)),))[0].shape == (0, 3)


def io(dtype: str, out: str, shape: list[int]) -> bytes:
    return engine(
        tensors=[
            {"name": "x", "mode": "INPUT", "dtype": dtype, "shape": shape},
            {"name": "y", "mode": "OUTPUT", "dtype": out, "shape": shape, "like": "x", "of": "x"},
        ]
    )


@pytest.mark.parametrize(
    ("out", "dtype"),
    [("FLOAT", np.float32), ("HALF", np.float16), ("BF16", ml_dtypes.bfloat16), ("FP8", ml_dtypes.float8_e4m3fn),
     ("INT32", np.int32), ("INT64", np.int64)],
)  # fmt: skip
def test_outputs_have_the_type_of_the_engine(out: str, dtype: Any, gpu: Gpu) -> None:
    x = np.array([1.0, 2.0, -3.0], np.float32)
    (found,) = gpu.outputs(io("FLOAT", out, [3]), inputs=(file_input(gpu.folder, "x", x, "fp32"),))
    assert found.dtype == dtype
    assert found.astype(np.float32).tolist() == [2.0, 4.0, -6.0]


def test_a_scalar_stays_a_scalar(gpu: Gpu) -> None:
    (found,) = gpu.outputs(
        io("FLOAT", "FLOAT", []), inputs=(file_input(gpu.folder, "x", np.array(3.0, np.float32), "fp32"),)
    )
    assert found.shape == ()
    assert found == 6.0
    (found,) = gpu.outputs(io("INT32", "INT32", []), inputs=(file_input(gpu.folder, "x", np.array(3), "int64"),))
    assert (found.shape, found.dtype, int(found)) == ((), np.int32, 6)


def test_types_of_four_bits_are_taken_apart(gpu: Gpu) -> None:
    (found,) = gpu.outputs(io("FLOAT", "INT4", [3]), inputs=(msgspec.structs.replace(X, shape=(3,)),))
    assert found.tolist() == [-1, 1, -1], "0x1F holds 15, which is -1, and then 1"


def test_values_are_brought_into_the_types_of_an_engine_that_has_no_int64(gpu: Gpu) -> None:
    inputs = (file_input(gpu.folder, "x", np.array([1, 2**31 - 1]), "int64"),)
    record = gpu.clean(io("INT32", "INT32", [2]), inputs=inputs)
    assert record.notes == ("the input x is int64 in the model, and int32 in the engine",)
    inputs = (file_input(gpu.folder, "x", np.array([1, 2**31]), "int64"),)
    with pytest.raises(CaptureError) as caught:
        gpu.clean(io("INT32", "INT32", [2]), inputs=inputs)
    assert "int32" in refused(caught.value)


def test_a_type_of_a_newer_library_is_named(gpu: Gpu) -> None:
    with pytest.raises(CaptureError) as caught:
        gpu.clean(io("NEWER", "FLOAT", [3]))
    assert "NEWER" in refused(caught.value)


def test_vectors_of_elements_get_the_room_that_they_take(gpu: Gpu) -> None:
    tensors = [
        {"name": "x", "mode": "INPUT", "dtype": "HALF", "shape": [1, 3, 2], "vector": [1, 4]},
        {"name": "y", "mode": "OUTPUT", "dtype": "FLOAT", "shape": [1, 3, 2], "of": "x"},
    ]
    inputs = (InputTensor(name="x", dtype="fp16", shape=(1, 3, 2)),)
    request = gpu.request(engine(tensors=tensors), inputs=inputs)
    with opened(request, make_inputs(inputs, 0), 1) as runner:
        assert runner._slots[0].inputs[0][1].nbytes == 4 * 2 * 2
    reference = SessionRequest(model="none.onnx")
    record = gpu.clean(engine(tensors=tensors), inputs=inputs, verify=True, reference=reference)
    assert record.checks == ()
    assert "vectors of several elements" in record.notes[0]


# --- verify ---------------------------------------------------------------------------------


def doubled(path: Path) -> SessionRequest:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, 3]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"], "twice")], "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return SessionRequest(model=str(path), threads=1)


def test_outputs_are_held_against_those_of_the_cpu(gpu: Gpu) -> None:
    reference = doubled(gpu.folder / "m.onnx")
    (check,) = gpu.clean(verify=True, reference=reference).checks
    assert (check.name, check.matches, check.max_abs) == ("y", True, 0.0)
    gpu.trt.error = 1e-3
    found = {
        (tf32, precision): gpu.clean(verify=True, reference=reference, tf32=tf32, precision=precision).checks[0]
        for tf32, precision in ((False, ""), (True, ""), (False, "fp16"), (False, "bf16"))
    }
    assert [check.matches for check in found.values()] == [False, True, True, True]
    assert found[False, "bf16"].tolerance < found[False, "fp16"].tolerance < found[False, ""].tolerance


def test_without_the_model_it_is_said_that_nothing_was_compared(gpu: Gpu) -> None:
    record = gpu.clean(verify=True)
    assert record.checks == ()
    assert "the ONNX model is not at hand" in record.notes[0]


# --- the phase ``profiled`` -----------------------------------------------------------------


class Seeing(Watch):
    """Notes which inferences the engine ran while it watched."""

    def __init__(self, trt: fake_gpu.Tensorrt) -> None:
        self.notes = ()
        self.trt = trt
        self.seen: list[str] | None = None
        self.saved: Path | None = None

    def start(self) -> None:
        assert self.trt.asked.count("execute") > 0, "it is warm"
        self.trt.asked.clear()

    def stop(self) -> None:
        self.seen = list(self.trt.asked)

    def save(self, folder: Path) -> None:
        self.saved = folder

    @contextlib.contextmanager
    def watching(self) -> Iterator[Watch]:
        assert "deserialize" not in self.trt.asked, "before the first NVTX call of the library"
        yield self


def test_the_window_holds_just_so_many_inferences_without_a_graph(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    ranges: list[str] = []
    nvtx = ModuleType("nvtx")

    def start(name: str) -> int:
        ranges.append(f"begin {name}")
        return len(ranges)

    nvtx.start_range = start  # type: ignore[attr-defined]
    nvtx.end_range = lambda mark: ranges.append(f"end {mark}")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "nvtx", nvtx)
    watch = Seeing(gpu.trt)
    record = profiled(gpu.request(phase="profiled"), watch.watching)
    assert watch.seen == ["execute"] * 5
    assert watch.saved == gpu.folder / "run"
    assert ranges == [text for number in range(5) for text in (f"begin {ITERATION_RANGE}", f"end {2 * number + 1}")]
    assert "cudaGraphLaunch" not in gpu.runtime.asked
    assert (record.latency.n, record.notes) == (5, ())
    assert 0 < record.begin_ns <= record.end_ns


def test_without_nvtx_and_collector_it_is_said(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", None)
    record = profiled(gpu.request(phase="profiled"))
    assert "no collector" in record.notes[0]
    assert "nvtx" in record.notes[1]


# --- TensorRT-RTX ---------------------------------------------------------------------------


def test_tensorrt_rtx_runs_the_same_way_and_says_that_it_compiles(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    trt = fake_gpu.Tensorrt(gpu.runtime, "tensorrt_rtx")
    monkeypatch.setitem(sys.modules, "tensorrt_rtx", trt)
    record = gpu.clean(backend="tensorrt-rtx")
    assert [mode.latency.n for mode in record.modes] == [4, 4]
    (note,) = record.notes
    assert note.startswith("TensorRT-RTX 10.16.1 compiles kernels when they are first used")
    assert "plugins" not in trt.asked
    with pytest.raises(UsageError, match="has no plugins"):
        gpu.clean(backend="tensorrt-rtx", plugins=("a.so",))


# --- what goes wrong ------------------------------------------------------------------------


def test_plugins_are_loaded_before_the_engine(gpu: Gpu) -> None:
    gpu.clean(plugins=("a.so", "b.so"))
    assert gpu.trt.asked[:4] == ["plugins", "load a.so", "load b.so", "deserialize"]
    with pytest.raises(CaptureError) as caught:
        gpu.clean(plugins=("broken.so",))
    assert "broken.so" in refused(caught.value)


OTHER_VERSION = (
    "IRuntime::deserializeCudaEngine: Error Code 1: Serialization (Serialization assertion stdVersionRead == "
    "kSERIALIZATION_VERSION failed.Version tag does not match. In x at /a/b.cpp:48)"
)
OTHER_LIBRARY = (
    "Error Code 6: API Usage Error (The engine plan file is not compatible with this version of TensorRT, "
    "expecting library version 10.16.1 got 10.9.0, please rebuild.)"
)
OTHER_GPU = (
    "Error Code 6: API Usage Error (The engine plan file is generated on an incompatible device, expecting compute 8.9 "
    "got compute 9.0, please rebuild.)"
)
NO_PLUGIN = (
    "Error Code 1: Serialization (Cannot deserialize plugin since corresponding IPluginCreator not found in Plugin "
    "Registry)"
)
NO_DRIVER = (
    "[checkMacros.cpp::catchCudaError::250] Error Code 1: Cuda Runtime (In catchCudaError at /a/c.cpp:250 "
    "(cudaError 35: CUDA driver version is insufficient for CUDA runtime version))"
)


@pytest.mark.parametrize(
    ("said", "told", "code"),
    [
        (OTHER_VERSION, "no engine of this version", 5),
        (OTHER_LIBRARY, "no engine of this version", 5),
        (OTHER_GPU, "built for another GPU", 5),
        (NO_PLUGIN, "--staticPlugins", 5),
        (NO_DRIVER, "why: CUDA: CUDA driver version is insufficient for CUDA runtime version\n", 3),
        ("something else", "something else", 5),
    ],
)
def test_an_engine_that_cannot_be_loaded_says_why(said: str, told: str, code: int, gpu: Gpu) -> None:
    gpu.trt.fails["deserialize"] = said
    with pytest.raises(TrtprofError) as caught:
        gpu.clean()
    assert told in refused(caught.value)
    assert ".cpp" not in refused(caught.value)
    assert caught.value.exit_code == code


def test_a_library_without_a_gpu_is_missing_one(gpu: Gpu) -> None:
    gpu.trt.fails["Runtime"] = "CUDA initialization failure with error: 35"
    with pytest.raises(MissingError) as caught:
        gpu.clean()
    assert "CUDA initialization failure" in refused(caught.value)
    gpu.runtime.fails["cudaSetDevice"] = 35
    with pytest.raises(MissingError) as caught:
        gpu.clean()
    assert "driver version is insufficient" in refused(caught.value)


@pytest.mark.parametrize("missing", ["tensorrt", "cuda.bindings"])
def test_a_package_that_is_missing_is_named(missing: str, gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingError) as caught:
        gpu.clean()
    assert "pip install" in refused(caught.value)


def test_inputs_whose_shape_is_not_known_are_named(gpu: Gpu) -> None:
    gpu.trt.fails["unknown"] = "sizes"
    with pytest.raises(CaptureError) as caught:
        gpu.clean()
    assert "sizes" in refused(caught.value)
    del gpu.trt.fails["unknown"]
    gpu.trt.fails["infer_shapes"] = "IExecutionContext::inferShapes: Error Code 7: condition '==' violated: 3 != 4"
    with pytest.raises(CaptureError) as caught:
        gpu.clean()
    assert "3 != 4" in refused(caught.value)


@pytest.mark.parametrize("shape", [(9, 3), (2, 4), (3,)])
def test_a_shape_that_the_engine_was_not_built_for_is_said_with_what_it_was(shape: tuple[int, ...], gpu: Gpu) -> None:
    with pytest.raises(CaptureError) as caught:
        gpu.clean(inputs=(msgspec.structs.replace(X, shape=shape),))
    text = refused(caught.value)
    assert "x".join(map(str, shape)) in text
    assert "-1x3" in text
    assert len(shape) == 1 or "from 1x3 to 8x8" in text or "1x3" in text


def test_inputs_that_the_engine_lacks_are_said_and_those_that_the_model_lacks_refused(gpu: Gpu) -> None:
    other = InputTensor(name="mask", dtype="fp32", shape=(1,))
    assert gpu.clean(inputs=(X, other)).notes == ("the engine does not use mask",)
    with pytest.raises(CaptureError) as caught:
        gpu.clean(inputs=(other,))
    assert "'x'" in refused(caught.value)


@pytest.mark.parametrize(
    ("fails", "word"),
    [("cudaMalloc", "out of memory"), ("cudaMallocHost", "out of memory"), ("cudaStreamCreateWithFlags", "out of mem")],
)
def test_memory_that_runs_out_is_said(fails: str, word: str, gpu: Gpu) -> None:
    if fails == "cudaStreamCreateWithFlags":
        gpu.runtime.cudaStreamCreateWithFlags = lambda _flags: (2, None)  # type: ignore[method-assign]
    else:
        gpu.runtime.fails[fails] = 2
    with pytest.raises(CaptureError) as caught:
        gpu.clean()
    assert word in refused(caught.value)


@pytest.mark.parametrize("fails", ["context", "execute", "address"])
def test_what_the_library_refuses_is_said_in_its_words(fails: str, gpu: Gpu) -> None:
    gpu.trt.fails[fails] = f"[executionContext.cpp::enqueueInternal::795] Error Code 1: {fails} went wrong"
    with pytest.raises(CaptureError) as caught:
        gpu.clean()
    assert f"{fails} went wrong" in refused(caught.value)
    assert "executionContext" not in refused(caught.value)


def test_an_error_of_the_device_is_said_when_it_shows(gpu: Gpu) -> None:
    request = gpu.request()
    with opened(request, make_inputs(request.inputs, 0), 1) as runner:
        gpu.runtime.fails["cudaStreamSynchronize"] = fake_gpu.ILLEGAL
        with pytest.raises(CaptureError) as caught:
            runner.infer()
    assert "illegal memory access" in refused(caught.value)


@pytest.mark.parametrize(
    ("fails", "reason"),
    [("capture", "a layer cannot be captured"), ("cudaStreamBeginCapture", "invalid argument"),
     ("cudaStreamEndCapture", "invalid argument"), ("cudaGraphInstantiate", "invalid argument")],
)  # fmt: skip
def test_a_graph_that_is_refused_is_said_and_what_was_measured_is_kept(fails: str, reason: str, gpu: Gpu) -> None:
    if fails == "capture":
        gpu.trt.fails[fails] = reason
    else:
        gpu.runtime.fails[fails] = fake_gpu.INVALID
    record = gpu.clean()
    assert reason in record.no_cuda_graph
    assert [mode.mode for mode in record.modes] == ["stream"]


def test_graphs_of_some_copies_are_given_back_when_another_is_refused(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, answers = gpu.runtime.cudaGraphInstantiate, iter([0, fake_gpu.OUT_OF_MEMORY])

    def second_fails(graph: int, flags: int) -> tuple[Any, ...]:
        error = next(answers)
        return (error, None) if error else made(graph, flags)

    monkeypatch.setattr(gpu.runtime, "cudaGraphInstantiate", second_fails)
    record = gpu.clean(cold_l2=True, l2_bytes=40)
    assert record.no_cuda_graph == "CUDA: out of memory"
    assert record.copies == 4


def test_memory_is_given_back_when_the_work_that_uses_it_is_done(gpu: Gpu) -> None:
    """Here the copy back is refused, while the inference before it is still to run."""
    gpu.runtime.fails["cudaMemcpyAsync DtoH"] = fake_gpu.INVALID
    with pytest.raises(CaptureError) as caught:
        gpu.clean()
    assert "invalid argument" in refused(caught.value)


def test_an_output_that_grows_gets_more_memory_and_keeps_it(gpu: Gpu) -> None:
    asked: list[int] = []

    def allocate(size: int) -> int:
        asked.append(size)
        return 1000 * size

    allocator = trt_runtime.allocator_class(gpu.trt)(allocate)
    assert [allocator.reallocate_output("y", 0, size, 256) for size in (8, 4, 16, 8)] == [8000, 8000, 16000, 16000]
    assert asked == [8, 16]


def test_an_error_reaches_the_parent_as_a_file(gpu: Gpu) -> None:
    gpu.trt.fails["execute"] = "no"
    path = gpu.folder / "request.json"
    path.write_bytes(msgspec.json.encode(gpu.request(phase="profiled")))
    assert main(["worker", str(path)]) == 5
    failure = child.failure_in(gpu.folder)
    assert failure is not None
    assert failure.why == "no"


# --- names ----------------------------------------------------------------------------------


def test_the_fake_library_has_just_the_names_that_are_held_against_the_real_ones(gpu: Gpu) -> None:
    """So that nothing but these can be used."""
    trt = fake_gpu.Tensorrt(gpu.runtime, "tensorrt_rtx")
    known = {*RUN_NAMES, *RTX_NAMES}
    members = {
        "ICudaEngine": trt.ICudaEngine, "IExecutionContext": trt.IExecutionContext, "Runtime": trt.Runtime,
        "IPluginRegistry": trt.IPluginRegistry, "IRuntimeConfig": trt.IRuntimeConfig,
    }  # fmt: skip
    names = {f"{title}.{name}" for title, owner in members.items() for name in vars(owner) if name[0] != "_"}
    sample = trt.ICudaEngine(json.loads(engine()))
    names |= {f"ICudaEngine.{name}" for name in vars(sample) if name[0] != "_"}
    names |= {
        name
        for name, value in vars(type(trt)).items()
        if inspect.isfunction(value) and name[0] != "_" and name != "say"
    }
    assert names == {name for name in known if name in names or name.split(".")[0] in members}


def test_every_member_that_the_code_takes_of_the_module_is_on_the_list() -> None:
    modules = (trt_runtime, trt_runner, tensorrt_module)
    text = "".join(Path(str(module.__file__)).read_text(encoding="utf-8") for module in modules)
    known = {part for name in (*RUN_NAMES, *RTX_NAMES) for part in (name, name.partition(".")[0])}
    found = set(re.findall(r"\btrt\.([A-Za-z]\w*(?:\.[A-Z]+\b)?)", text))
    assert {"ILogger", "get_plugin_registry", "TensorLocation.HOST"} <= found
    assert found <= known


@pytest.mark.nightly
def test_the_calls_of_cuda_are_those_of_the_real_bindings() -> None:
    """Their names, and how many arguments each takes."""
    real = pytest.importorskip("cuda.bindings.runtime", reason="the package cuda-bindings is not installed")
    fake = fake_gpu.Runtime()
    names = [name for name in vars(fake_gpu.Runtime) if name.startswith("cuda")]
    assert len(names) > 20
    for name in names:
        assert hasattr(real, name), name
        value = getattr(fake, name)
        if inspect.ismethod(value):
            signature = (real.__dict__[name].__doc__ or "").split("\n")[0]
            arguments = [part for part in signature.partition("(")[2].rpartition(")")[0].split(",") if part.strip()]
            assert len(arguments) == len(inspect.signature(value).parameters), signature
    assert hasattr(real.cudaMemcpyKind, "cudaMemcpyHostToDevice")
    assert hasattr(real.cudaMemcpyKind, "cudaMemcpyDeviceToHost")
    assert hasattr(real.cudaStreamCaptureMode, "cudaStreamCaptureModeThreadLocal")


# --- turns ----------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", [False, True])
def test_turns_are_timed_as_a_run_is_and_all_is_given_back(gpu: Gpu, graph: bool) -> None:
    variant = Variant(name="v", inputs=(X,), engine=gpu.request(), cuda_graph=graph)
    with runnable_of(variant, make_inputs((X,), 0)) as timed:
        before = len(gpu.runtime.asked)
        assert timed() > 0
        asked = gpu.runtime.asked[before:]
        assert ("cudaGraphLaunch" in asked) == graph
        assert "cudaEventSynchronize" in asked, "an inference has ended when it is told"


@pytest.mark.parametrize(("name", "note"), [("y", ""), ("z", "it has no output 'y'")])
def test_outputs_of_engines_are_held_against_those_of_the_original(gpu: Gpu, name: str, note: str) -> None:
    original = Variant(name="the original", inputs=(X,), engine=gpu.request())
    folder, kept = str(gpu.folder), str(gpu.folder / "kept.msgpack")
    request = OutputsRequest(variant=original, folder=folder, scratch=folder, kept=kept, original=True)
    keep(request)
    tensors = [
        {"name": "x", "mode": "INPUT", "dtype": "FLOAT", "shape": [-1, 3]},
        {"name": name, "mode": "OUTPUT", "dtype": "FLOAT", "shape": [-1, 3], "like": "x", "of": "x"},
    ]
    other = Variant(name="v", inputs=(X,), engine=gpu.request(engine(tensors=tensors)))
    found = check(msgspec.structs.replace(request, variant=other, original=False))
    assert {(one.matches, one.note) for one in found} == {(not note, note)}
    assert {one.kind for one in found} >= {"zeros", "extremes"}
