"""The worker of the CUDA provider, with the CPU provider in its place: only the name differs, and the events."""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import ml_dtypes
import msgspec
import numpy as np
import onnx
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.fakes import fake_gpu
from tests.fakes.support import SAMPLES, refused
from trtprof.align.ort_cuda import align_ort
from trtprof.base.errors import BuildError, CaptureError, MissingError, TrtprofError
from trtprof.base.trace import GRAPH_COLUMNS, LAUNCH_COLUMNS, RANGE_COLUMNS, WORK_COLUMNS, GpuTrace
from trtprof.base.trace_file import load_trace
from trtprof.capture.gpu_record import NODE_EVENTS_FILE, TIME_COLUMNS, CleanTimes, OrtCudaRequest, ProfiledTimes
from trtprof.capture.launch import run_worker
from trtprof.capture.turns import Variant
from trtprof.capture.verify import TOLERANCES, check_outputs, reference_outputs
from trtprof.capture.workers import gpu_work, inference
from trtprof.capture.workers import ort_cuda as cuda_worker
from trtprof.capture.workers.gpu_window import Watch
from trtprof.capture.workers.gpu_work import copies_beyond
from trtprof.capture.workers.ort_cuda import OrtRunner, clean, profiled
from trtprof.capture.workers.runnable import runnable_of
from trtprof.engine.onnxruntime import layers_from_file
from trtprof.runtime import child
from trtprof.runtime.ort_session import NODE_EVENT_COLUMNS, CudaOptions, SessionRequest, timed_session
from trtprof.source.load import load_model, source_of
from trtprof.source.shapes import parse_shapes

if TYPE_CHECKING:
    from trtprof.capture.cupti.activity import Collection

WORKER = "trtprof.capture.workers.ort_cuda"


def request_for(path: Path, folder: Path, shapes: tuple[str, ...] = (), **changes: Any) -> OrtCudaRequest:
    """A short capture on the CPU."""
    results, scratch = folder / "run", folder / "scratch"
    results.mkdir()
    scratch.mkdir()
    request = OrtCudaRequest(
        phase="clean",
        session=SessionRequest(model=str(path), threads=1),
        folder=str(results),
        scratch=str(scratch),
        inputs=source_of(load_model(path), parse_shapes(shapes)).model.inputs,
        graph_file="engine.onnx",
        layers=10,
        seed=0,
        iterations=4,
        warmup_ms=1.0,
        duration_s=0.0,
        profile_iterations=3,
    )
    return msgspec.structs.replace(request, **changes)


def save(path: Path, nodes: list[onnx.NodeProto], shape: list[int], out: int = TensorProto.FLOAT) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", out, None)],
        [numpy_helper.from_array(np.asarray([7, 7]), "wrong")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def relu(path: Path, shape: list[int]) -> Path:
    return save(path, [helper.make_node("Relu", ["x"], ["y"], "relu")], shape)


def trace(work: pd.DataFrame | None = None, launches: pd.DataFrame | None = None) -> GpuTrace:
    def empty(columns: tuple[str, ...], words: tuple[str, ...]) -> pd.DataFrame:
        kinds = {column: "category" if column in words else "int64" for column in columns}
        return pd.DataFrame({column: pd.Series([], dtype=kind) for column, kind in kinds.items()})

    return GpuTrace(
        work=empty(WORK_COLUMNS, ("kind", "name", "short_name")) if work is None else work,
        launches=empty(LAUNCH_COLUMNS, ("name",)) if launches is None else launches,
        ranges=empty(RANGE_COLUMNS, ("domain", "name", "style")),
        graph_nodes=empty(GRAPH_COLUMNS, ()),
        collector="cupti",
        version="a test's",
    )


class Fake:
    """A collector that sees nothing, notes what it is asked, and whose clock is ahead of the system's."""

    def __init__(self, ahead_ns: int = 0) -> None:
        self.asked: list[str] = []
        self.ahead_ns = ahead_ns

    def now_ns(self) -> int:
        return time.time_ns() + self.ahead_ns

    def start(self) -> None:
        self.asked.append("start")

    def stop(self) -> None:
        self.asked.append("stop")

    def trace(self) -> GpuTrace:
        self.asked.append("trace")
        return trace()

    @contextlib.contextmanager
    def watching(self) -> Iterator[Watch]:
        self.asked.append("open")
        yield Watch(cast("Collection", self))
        self.asked.append("close")


# --- whole captures -------------------------------------------------------------------------


CASES = [("resnet_tiny", ()), ("transformer_block", ("input_ids:2x8", "attention_mask:2x8"))]


@pytest.mark.parametrize(("name", "shapes"), CASES, ids=[name for name, _ in CASES])
def test_the_clean_phase_leaves_samples_and_a_record_that_agree(
    name: str, shapes: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = request_for(SAMPLES / f"{name}.onnx", tmp_path, shapes, verify=True)
    before = time.monotonic_ns()
    record = clean(request)
    folder = Path(request.folder)
    assert [path.name for path in folder.iterdir()] == ["latency.parquet"]
    samples = pd.read_parquet(folder / "latency.parquet")
    assert tuple(samples.columns) == TIME_COLUMNS
    assert [mode.mode for mode in record.modes] == ["stream", "cuda graph"]
    for mode in record.modes:
        rows = samples[samples["mode"] == mode.mode]
        assert len(rows) == mode.latency.n >= 4
        assert mode.compute_ns == round(float(rows["compute_ns"].median()))
        parts = rows["h2d_ns"] + rows["compute_ns"] + rows["d2h_ns"]
        assert (parts <= rows["latency_ns"]).all(), "they follow one another"
    assert (record.timed_by, record.copies) == ("host clock", 1)
    timed = int(samples[samples["mode"] == "stream"]["latency_ns"].sum())
    assert before < record.begin_ns <= record.end_ns - timed, "the clocks are asked for while it was timed"
    assert record.copy_bytes == sum(array.nbytes for array in inference.make_inputs(request.inputs, 0).values())
    assert all(check.matches and check.max_abs == 0 for check in record.checks), "one provider against itself"
    assert capsys.readouterr().out.split("\n")[:3] == [
        "clean latency", "outputs of the CPU provider to compare with", "clean latency with a CUDA graph",
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "shapes"), CASES, ids=[name for name, _ in CASES])
def test_the_profiled_phase_leaves_nodes_graph_and_trace(name: str, shapes: tuple[str, ...], tmp_path: Path) -> None:
    request = request_for(SAMPLES / f"{name}.onnx", tmp_path, shapes, phase="profiled")
    fake = Fake()
    record = profiled(request, fake.watching)
    folder = Path(request.folder)
    assert {path.name for path in folder.iterdir()} == {
        "engine.onnx", "gpu_graph_nodes.parquet", "gpu_launches.parquet", "gpu_ranges.parquet", "gpu_trace.json",
        "gpu_work.parquet", "ort_nodes.parquet",
    }  # fmt: skip
    assert fake.asked == ["open", "start", "stop", "trace", "close"]
    assert load_trace(folder).version == "a test's"
    assert record.latency.n == 3
    assert 0 < record.begin_ns < record.end_ns
    assert record.cpu_layers == (), "the CPU is in the place of the GPU here"
    events = pd.read_parquet(folder / NODE_EVENTS_FILE)
    assert tuple(events.columns) == NODE_EVENT_COLUMNS
    assert set(events["layer"]) - {""} == {layer.name for layer in layers_from_file(folder / "engine.onnx")}
    assert sorted(set(events["iteration"])) == [0, 1, 2]
    assert not list(Path(request.scratch).glob("profile_*.json")), "ONNX Runtime's own profile is large"


@pytest.mark.parametrize(("name", "shapes"), CASES, ids=[name for name, _ in CASES])
def test_node_events_nest_in_their_inference_and_lead_launches_to_layers(
    name: str, shapes: tuple[str, ...], tmp_path: Path
) -> None:
    """Launches are put into the nodes of a real profile, on another clock: each must find its node again."""
    request = request_for(SAMPLES / f"{name}.onnx", tmp_path, shapes, phase="profiled", profile_iterations=5)
    record = profiled(request, Fake(10**15).watching)
    events = pd.read_parquet(Path(request.folder) / NODE_EVENTS_FILE)
    for _, rows in events.groupby("iteration"):
        around = rows[rows["layer"] == ""].iloc[0]
        assert around["start_ns"] <= rows["start_ns"].min()
        assert around["end_ns"] >= rows["end_ns"].max()
    assert record.clock_guess_ns is not None
    nodes = events[(events["layer"] != "") & (events["end_ns"] - events["start_ns"] >= 3000)]
    start = record.clock_guess_ns + nodes["start_ns"].to_numpy() + 1000
    launches = pd.DataFrame(dict.fromkeys(LAUNCH_COLUMNS, 1), index=range(len(nodes)))
    launches["start_ns"], launches["end_ns"], launches["correlation"] = start, start + 900, np.arange(len(nodes)) + 1
    launches["name"], launches["tid"] = pd.Categorical(["cudaLaunchKernel"] * len(nodes)), nodes["tid"].to_numpy()
    work = pd.DataFrame(dict.fromkeys(WORK_COLUMNS, 0), index=range(len(nodes)))
    work["start_ns"], work["end_ns"], work["correlation"], work["pid"] = (
        start + 5000,
        start + 5500,
        range(1, len(nodes) + 1),
        1,
    )
    for column, word in (("kind", "kernel"), ("name", "k"), ("short_name", "k")):
        work[column] = pd.Categorical([word] * len(nodes))
    found = align_ort(
        trace(work, launches),
        layers_from_file(Path(request.folder) / "engine.onnx"),
        events,
        guess_ns=record.clock_guess_ns,
        within_ns=record.clock_within_ns,
    )
    names = [layer.layer.name for layer in found.alignment.layers]
    assert [names[place] for place in found.alignment.work["layer"]] == nodes["layer"].tolist()
    assert found.alignment.coverage.unattributed == 0
    assert len(found.alignment.iterations) == 5


@pytest.mark.process
def test_the_child_does_one_phase_at_a_time(tmp_path: Path) -> None:
    request = request_for(relu(tmp_path / "m.onnx", [4, 4]), tmp_path)
    lines: list[str] = []
    times = run_worker(request, WORKER, CleanTimes, lines.append)
    assert lines == ["clean latency", "clean latency with a CUDA graph"]
    request = msgspec.structs.replace(request, phase="profiled")
    seen = run_worker(request, WORKER, ProfiledTimes, lines.append)
    assert lines[2:] == ["profile of 3 iterations", "reading the profile"]
    assert times.modes[0].mode == "stream"
    assert any("no collector" in note for note in seen.notes)


@pytest.mark.nightly
def test_without_a_usable_cuda_provider_the_child_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    request = request_for(relu(tmp_path / "m.onnx", [4]), tmp_path)
    request = msgspec.structs.replace(request, session=msgspec.structs.replace(request.session, provider="cuda"))
    with pytest.raises(TrtprofError) as caught:
        run_worker(request, WORKER, CleanTimes)
    assert "CUDA" in refused(caught.value)
    assert caught.value.exit_code == 3
    left = child.failure_in(Path(request.scratch))
    assert left is not None
    assert (str(left), left.exit_code) == (str(caught.value), 3)
    child.prepare(WORKER, request, Path(request.scratch))
    assert child.failure_in(Path(request.scratch)) is None, "the error of one run is not that of the next"


def test_a_collector_that_cannot_start_leaves_no_record(tmp_path: Path) -> None:
    class Refusing(Fake):
        def start(self) -> None:
            raise CaptureError("CUPTI cannot be used", why="another tool", fix="end it")

    request = request_for(relu(tmp_path / "m.onnx", [4]), tmp_path, phase="profiled")
    with pytest.raises(CaptureError, match="CUPTI cannot be used"):
        profiled(request, Refusing().watching)


def test_inputs_that_do_not_run_are_an_error_with_the_cause_in_plain_words(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [helper.make_node("Reshape", ["x", "wrong"], ["y"], "squeeze_it")], [3, 4])
    request = request_for(SAMPLES / "gemv.onnx", tmp_path)
    inputs = tuple(msgspec.structs.replace(one, name="x", shape=(3, 4)) for one in request.inputs[:1])
    request = msgspec.structs.replace(request, inputs=inputs, session=SessionRequest(model=str(path), threads=1))
    with pytest.raises(CaptureError) as caught:
        clean(request)
    assert "squeeze_it" in refused(caught.value)


def test_a_cuda_graph_that_is_refused_is_said_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = timed_session

    def refusing(request: SessionRequest, **named: Any) -> Any:
        if request.cuda.enable_cuda_graph:
            raise BuildError("no", why="nodes are on the CPU", fix="none")
        return made(request, **named)

    monkeypatch.setattr(cuda_worker, "timed_session", refusing)
    request = request_for(relu(tmp_path / "m.onnx", [4]), tmp_path)
    record = clean(request)
    assert record.no_cuda_graph == "nodes are on the CPU"
    assert [mode.mode for mode in record.modes] == ["stream"]


# --- one inference --------------------------------------------------------------------------


class Events:
    """A timer that measures a fixed time, and notes in which order it is used."""

    stream = 0

    def __init__(self) -> None:
        self.asked: list[str] = []

    def begin(self) -> None:
        self.asked.append("begin")

    def end(self) -> None:
        self.asked.append("end")

    def elapsed_ns(self) -> int | None:
        self.asked.append("elapsed")
        return 7


def runner_of(
    tmp_path: Path, feeds: dict[str, Any], copies: int = 1, timer: Any = None, graph: bool = False
) -> OrtRunner:
    shape = list(next(iter(feeds.values())).shape)
    session = SessionRequest(
        model=str(relu(tmp_path / "m.onnx", shape)), threads=1, cuda=CudaOptions(enable_cuda_graph=graph)
    )
    return OrtRunner(session, feeds, copies, timer)


def test_copies_of_the_inputs_take_turns_and_all_give_the_same(tmp_path: Path) -> None:
    feeds = {"x": np.array([-1.0, 2.0], dtype=np.float32)}
    runner = runner_of(tmp_path, feeds, copies=3)
    addresses = [slot.copied[0][0].data_ptr() for slot in runner._slots]
    assert len(set(addresses)) == 3
    assert feeds["x"].ctypes.data not in addresses, "the device has its own"
    for _ in range(4):
        assert [value.tolist() for value in runner.outputs()] == [[0.0, 2.0]]
    assert len({slot.outputs[0].data_ptr() for slot in runner._slots}) == 3


def test_inputs_are_copied_anew_before_every_inference(tmp_path: Path) -> None:
    feeds = {"x": np.array([1.0, 2.0], dtype=np.float32)}
    runner = runner_of(tmp_path, feeds)
    feeds["x"][0] = 5.0
    assert runner.outputs()[0].tolist() == [5.0, 2.0]


def test_of_several_copies_the_one_is_written_whose_turn_is_furthest_away(tmp_path: Path) -> None:
    """What was just written is in the L2 cache."""
    feeds = {"x": np.array([1.0], dtype=np.float32)}
    runner = runner_of(tmp_path, feeds, copies=3)
    feeds["x"][0] = 5.0
    assert [runner.outputs()[0].tolist() for _ in range(4)] == [[1.0], [1.0], [5.0], [5.0]]


def test_events_stand_around_the_inference_alone_and_their_time_is_the_compute(tmp_path: Path) -> None:
    timer = Events()
    runner = runner_of(tmp_path, {"x": np.ones(3, np.float32)}, timer=timer)
    assert timer.asked == [], "not while it is set up"
    latency, h2d, compute, d2h, enqueue = runner.infer()
    assert timer.asked == ["begin", "end", "elapsed"]
    assert compute == 7
    assert 0 < enqueue <= latency
    assert h2d + d2h + enqueue <= latency


@pytest.mark.parametrize("graph", [False, True])
def test_each_copy_has_a_cuda_graph_of_its_own(graph: bool, tmp_path: Path) -> None:
    runner = runner_of(tmp_path, {"x": np.ones(3, np.float32)}, copies=2, graph=graph)
    ids = [slot.options.get_run_config_entry("gpu_graph_id") for slot in runner._slots] if graph else []
    assert ids == (["1", "2"] if graph else [])


def test_as_many_iterations_as_asked_for_and_as_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = runner_of(tmp_path, {"x": np.ones(3, np.float32)})
    assert len(runner.time(5, 0.0)) == 5
    ticks = itertools.count(step=10_000_000)
    monkeypatch.setattr(time, "perf_counter_ns", lambda: next(ticks))
    # Each inference looks at the clock five times, and the loop once: 60 ms.
    assert len(runner.time(1, 0.3)) == 5


def test_a_shape_that_depends_on_the_data_is_taken_from_the_first_run(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [helper.make_node("NonZero", ["x"], ["y"], "nz")], [4], TensorProto.INT64)
    runner = OrtRunner(SessionRequest(model=str(path)), {"x": np.array([0, 1, 0, 1], np.float32)}, 1, None)
    assert runner.outputs()[0].tolist() == [[1, 3]]


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> fake_gpu.Runtime:
    fake, package, bindings = fake_gpu.Runtime(), ModuleType("cuda"), ModuleType("cuda.bindings")
    bindings.runtime = fake  # type: ignore[attr-defined]
    for name, module in (("cuda", package), ("cuda.bindings", bindings)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(cuda_worker, "require_cuda_provider", lambda: None)
    return fake


CUDA = SessionRequest(model="m.onnx", provider="cuda")


def test_events_are_recorded_on_a_stream_of_their_own_and_given_back(runtime: fake_gpu.Runtime) -> None:
    with cuda_worker.timer_for(CUDA) as timer:
        assert timer is not None
        timer.begin()
        for _ in range(3):
            runtime.streams[timer.stream].enqueue(lambda: None)
        timer.end()
        assert timer.elapsed_ns() == round(3e6 * fake_gpu.STEP_MS)
    assert runtime.left() == {}


def test_a_gpu_that_cannot_be_used_is_missing(runtime: fake_gpu.Runtime) -> None:
    runtime.fails["cudaSetDevice"] = 35
    with pytest.raises(MissingError) as caught, cuda_worker.timer_for(CUDA):
        pass
    assert "driver version is insufficient" in refused(caught.value)


def test_without_the_bindings_the_clock_of_the_host_tells(
    runtime: fake_gpu.Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with cuda_worker.timer_for(CUDA) as timer:
        assert timer is None
    assert runtime.asked == []


# --- cold caches ----------------------------------------------------------------------------


@given(size=st.integers(1, 10**10), l2=st.integers(1, 10**9))
def test_copies_are_more_than_twice_the_cache_or_it_is_said(size: int, l2: int) -> None:
    copies, notes = copies_beyond(size, l2)
    assert 2 <= copies <= gpu_work.MAX_COPIES
    assert (copies * size > 2 * l2) or any("they may stay" in note for note in notes)
    assert (copies - 1) * size <= 2 * l2 or copies == 2, "no more than needed"


def test_without_inputs_or_a_known_cache_nothing_can_be_cold() -> None:
    assert copies_beyond(0, 100)[0] == 1
    with pytest.raises(CaptureError) as caught:
        copies_beyond(100, 0)
    assert "--cold-l2" in refused(caught.value)


def test_a_cold_capture_says_how_many_copies_took_turns(tmp_path: Path) -> None:
    request = request_for(relu(tmp_path / "m.onnx", [256]), tmp_path, cold_l2=True, l2_bytes=4096)
    times = clean(request)
    assert (times.copies, times.copy_bytes) == (9, 1024)


# --- clocks ---------------------------------------------------------------------------------


def test_a_clock_is_read_against_the_systems() -> None:
    for ahead_ns in (0, -(10**12), 10**15):
        found = Watch(cast("Collection", Fake(ahead_ns))).ahead_ns()
        assert found is not None
        offset, within = found
        assert abs(offset - ahead_ns) <= within + 1
    assert Watch().ahead_ns() is None


# --- outputs --------------------------------------------------------------------------------


def one(found: Any, expected: Any, *, tf32: bool = False) -> Any:
    (check,) = check_outputs(["y"], [found], [expected], tf32=tf32)
    return check


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_a_difference_up_to_the_tolerance_passes_and_one_beyond_does_not(dtype: Any, scale: float) -> None:
    allowed = TOLERANCES[str(np.dtype(dtype))]
    expected = np.array([0.0, scale], dtype=np.float64)
    limit = allowed.absolute * scale
    for factor, matches in ((0.5, True), (2.0, False)):
        found = expected + np.array([factor * limit, 0.0])
        check = one(found.astype(dtype), expected.astype(dtype))
        assert check.matches == matches, factor
        assert check.max_abs == pytest.approx(factor * limit, rel=0.01)
        assert check.max_rel == pytest.approx(factor * limit / scale, rel=0.01)
        assert check.tolerance == pytest.approx(factor, rel=0.01)


def test_tf32_is_given_what_fp16_is() -> None:
    expected = np.array([1.0], np.float32)
    found = expected + np.float32(1e-3)
    assert not one(found, expected).matches
    assert one(found, expected, tf32=True).matches


@pytest.mark.parametrize(
    ("precision", "tf32", "off", "matches"),
    [("", False, 2e-4, False), ("fp16", False, 2e-3, True), ("fp16", False, 1e-2, False), ("bf16", False, 1e-2, True),
     ("fp16+bf16", False, 1e-2, True), ("bf16", True, 1e-2, True), ("fp16", False, 1e-1, False)],
)  # fmt: skip
def test_fp32_gets_the_tolerance_of_the_widest_type_that_it_may_be_computed_in(
    precision: str, tf32: bool, off: float, matches: bool
) -> None:
    expected = np.array([1.0], np.float32)
    (check,) = check_outputs(["y"], [expected + np.float32(off)], [expected], tf32=tf32, precision=precision)
    assert check.matches == matches
    (check,) = check_outputs(["y"], [np.array([1])], [np.array([2])], tf32=tf32, precision=precision)
    assert not check.matches, "integers are none of it"


@pytest.mark.parametrize(
    ("found", "expected", "matches"),
    [
        (np.array([1.001], np.float16), np.array([1.0], np.float32), True),
        (np.array([1.1], np.float16), np.array([1.0], np.float32), False),
        (np.array([5], np.int32), np.array([5], np.int64), True),
        (np.array([5], np.int32), np.array([2**32 + 5], np.int64), False),
        (np.array([1], np.int32), np.array([True]), False),
    ],
)
def test_an_output_of_another_width_is_compared_at_the_narrower_one(found: Any, expected: Any, matches: bool) -> None:
    assert one(found, expected).matches == matches


def test_outputs_of_a_type_that_numpy_lacks_come_from_the_cpu_provider_too(tmp_path: Path) -> None:
    node = helper.make_node("Cast", ["x"], ["y"], "cast", to=TensorProto.BFLOAT16)
    path = save(tmp_path / "m.onnx", [node], [2], TensorProto.BFLOAT16)
    feeds = {"x": np.array([1.0, 2.5], np.float32), "unused": np.zeros(1, np.float32)}
    (found,) = reference_outputs(SessionRequest(model=str(path), threads=1), feeds, ["y"])
    assert found.dtype == ml_dtypes.bfloat16
    assert found.astype(np.float32).tolist() == [1.0, 2.5]


@pytest.mark.parametrize("kind", ["sequence", "bfloat16"])
def test_outputs_that_are_no_plain_arrays_are_run_and_compared(kind: str, tmp_path: Path) -> None:
    if kind == "sequence":
        node = helper.make_node("SequenceConstruct", ["x", "x"], ["y"], "pair")
        out = helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)
    else:
        node = helper.make_node("Cast", ["x"], ["y"], "cast", to=TensorProto.BFLOAT16)
        out = helper.make_tensor_value_info("y", TensorProto.BFLOAT16, [2])
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])], [out])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    request = request_for(relu(tmp_path / "other.onnx", [2]), tmp_path, verify=True)
    checks = clean(msgspec.structs.replace(request, session=SessionRequest(model=str(path), threads=1))).checks
    assert [check.name for check in checks] == (["y[0]", "y[1]"] if kind == "sequence" else ["y"])
    assert all(check.matches for check in checks)


def test_a_model_that_lacks_an_output_of_the_engine_is_not_its_model(tmp_path: Path) -> None:
    session = SessionRequest(model=str(relu(tmp_path / "m.onnx", [4])), threads=1)
    with pytest.raises(CaptureError) as caught:
        reference_outputs(session, {"x": np.zeros(4, np.float32)}, ["y", "z"])
    assert "'z'" in refused(caught.value)


def test_a_model_that_the_cpu_provider_does_not_run_cannot_be_held_against_it(tmp_path: Path) -> None:
    session = SessionRequest(model=str(relu(tmp_path / "m.onnx", [4])), threads=1)
    with pytest.raises(CaptureError) as caught:
        reference_outputs(session, {"x": np.zeros(5, np.float32)}, ["y"])
    assert "--verify" in refused(caught.value)


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.bool_])
def test_integers_must_be_equal(dtype: Any) -> None:
    expected = np.array([0, 1, 1], dtype=dtype)
    assert one(expected, expected.copy()).matches
    check = one(np.array([0, 1, 0], dtype=dtype), expected)
    assert not check.matches
    assert "1 of 3 elements differ" in check.reason
    assert check.max_abs == 1.0


@pytest.mark.parametrize(
    ("found", "expected", "matches"),
    [
        ([np.nan, 1], [np.nan, 1], True),
        ([np.inf, 1], [np.inf, 1], True),
        ([np.nan, 1], [1, 1], False),
        ([1, 1], [np.nan, 1], False),
        ([np.inf, 1], [-np.inf, 1], False),
        ([], [], True),
    ],
)
def test_what_is_no_number_must_stand_in_the_same_place(found: Any, expected: Any, matches: bool) -> None:
    assert one(np.array(found, np.float32), np.array(expected, np.float32)).matches == matches


@pytest.mark.parametrize("found", [np.zeros(3, np.float32), np.zeros((2, 1), np.float32), np.zeros(2, np.int32)])
def test_another_shape_or_type_is_named(found: Any) -> None:
    check = one(found, np.zeros(2, np.float32))
    assert not check.matches
    assert "float32 2" in check.reason


def test_the_worst_comes_first_and_sequences_are_looked_into() -> None:
    good, off, wrong = (np.array([value], np.float32) for value in (1.0, 1.00009, 2.0))
    checks = check_outputs(
        ["a", "b", "c", "d"], [good, off, wrong, [good, wrong]], [good, good, good, [good, good]], tf32=False
    )
    assert [check.name for check in checks] == ["c", "d[1]", "b", "a", "d[0]"]
    assert [check.matches for check in checks] == [False, False, True, True, True]


# --- turns ----------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", [False, True])
def test_turns_are_run_as_a_run_is(graph: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU in place of the GPU that is not here."""
    asked: list[tuple[SessionRequest, int]] = []

    class OnCpu(OrtRunner):
        def __init__(self, request: SessionRequest, feeds: Any, copies: int, timer: gpu_work.EventTimer | None) -> None:
            asked.append((request, copies))
            super().__init__(msgspec.structs.replace(request, provider="cpu"), feeds, copies, timer)

    def no_bindings(_device: int) -> None:
        raise ImportError

    monkeypatch.setattr(cuda_worker, "OrtRunner", OnCpu)
    monkeypatch.setattr(cuda_worker, "require_cuda_provider", lambda: None)
    monkeypatch.setattr(cuda_worker, "Cuda", no_bindings)
    session = SessionRequest(model=str(relu(tmp_path / "m.onnx", [4])), threads=1, provider="cuda")
    variant = Variant(name="v", inputs=(), session=session, cuda_graph=graph)
    with runnable_of(variant, {"x": np.ones(4, np.float32)}) as timed:
        assert timed() > 0
    ((request, copies),) = asked
    assert (request.provider, request.cuda.enable_cuda_graph, copies) == ("cuda", graph, 1)


def test_a_variant_has_something_to_run() -> None:
    with pytest.raises(ValueError, match="neither"), runnable_of(Variant(name="v", inputs=()), {}):
        pass
