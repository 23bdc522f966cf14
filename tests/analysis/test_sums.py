"""What nsys stats printed of a capture, beside what the capture itself says of the same engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fakes.stats_factory import write_stats
from tests.fakes.support import H100, ROOT, SAMPLES, needs_captures, refused
from tests.fakes.trace_factory import ENGINE, Layer, Process, Work, write_trace
from trtprof.base.errors import TrtprofError, UsageError
from trtprof.base.records import Match, Run
from trtprof.capture.nsys.trace import read_trace
from trtprof.engine.inspector import read_layer_info
from trtprof.flows.analyze import Files, analyze, gpu_in
from trtprof.flows.predict.on_gpus import Settings
from trtprof.hardware import gpus

PLAN = ROOT / "tests" / "engine" / "data" / "rtx_resnet_tiny.log"
ONNX = SAMPLES / "resnet_tiny.onnx"
ITERATIONS = 5
IDLE = ("signal", "wait", "shape_call")


def layers_of_plan() -> tuple[Layer, ...]:
    """Each layer of the plan launches its tactic; the last product launches a helper too."""
    found = []
    for place, layer in enumerate(read_layer_info(PLAN).layers):
        work = [] if layer.kind in IDLE else [Work(layer.tactic or f"kernel_{place}", ns=10_000 + 100 * place)]
        if layer.kind == "gemm":
            work.append(Work("splitKreduce_kernel", ns=700))
        found.append(Layer(layer.name, tuple(work)))
    return tuple(found)


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "run.sqlite"
    write_trace(path, [Process(pid=111, layers=layers_of_plan(), iterations=ITERATIONS)])
    return path


def printed(capture: Path, report: str) -> Path:
    return write_stats(read_trace(capture), report, capture.with_name(f"run_{report}.csv"))


def analysed(
    nsys: Path,
    *,
    plan: bool = True,
    times: Path | None = None,
    device: int | None = None,
    inferences: int | None = None,
) -> Run:
    files = Files(layers=PLAN if plan else None, onnx=ONNX if plan else None, nsys=nsys, times=times)
    found = analyze(files, [gpus.find("rtx-4090")], Settings(), device=device, inferences=inferences)
    assert isinstance(found, Run)
    check(found)
    return found


def check(run: Run) -> None:
    """Conservation, and the ledger closes."""
    kernels = all_kernels(run)
    assert sum(kernel.total_ns for kernel in kernels) == run.captured_ns > 0
    assert sum(row.ns for row in run.ledger) == run.latency.median_ns
    assert all(kernel.reason for kernel in kernels)
    assert all(kernel.confidence == "none" for kernel in run.kernels_unattributed)


def all_kernels(run: Run) -> list[Match]:
    return [*(kernel for layer in run.layers for kernel in layer.kernels), *run.kernels_unattributed]


def times_of(run: Run) -> dict[str, int]:
    return {layer.name: layer.measured_ns for layer in run.layers}


def test_ranges_give_the_layers_that_the_capture_gives(capture: Path) -> None:
    whole, sums = analysed(capture), analysed(printed(capture, "nvtx_kern_sum"))
    assert times_of(sums) == times_of(whole)
    assert sums.captured_ns == whole.captured_ns
    assert sums.coverage == whole.coverage
    assert sums.kernels_unattributed == ()
    assert [layer.attainable_ns for layer in sums.layers] == [layer.attainable_ns for layer in whole.layers]
    assert f"{ITERATIONS} inferences, by TensorRT's own NVTX ranges" in sums.assumptions
    assert "sums of kernels alone" in sums.verdict
    assert "no inferences told apart" not in sums.verdict
    assert "of the layers alone, not end to end" in sums.verdict
    # There are no gaps in a sum: the latency is the time of the layers.
    assert sums.latency.n == 0
    assert sums.latency.median_ns == sum(times_of(sums).values())


def test_ranges_without_a_plan_are_the_layers(capture: Path) -> None:
    whole, sums = analysed(capture, plan=False), analysed(printed(capture, "nvtx_kern_sum"), plan=False)
    assert whole.backend.name == sums.backend.name == "tensorrt"
    assert times_of(sums) == times_of(whole)
    assert {layer.attainable_ns for layer in sums.layers} == {None}
    assert sums.coverage.exact == pytest.approx(1.0)
    assert "no layer information" in sums.verdict


def test_names_of_kernels_lead_to_layers_where_one_alone_has_the_tactic(capture: Path) -> None:
    plan = read_layer_info(PLAN)
    tactics = [layer.tactic for layer in plan.layers]
    run = analysed(printed(capture, "cuda_gpu_kern_sum"))
    alone = {
        layer.name
        for layer in plan.layers
        if layer.kind not in IDLE and layer.tactic and tactics.count(layer.tactic) == 1
    }
    assert alone
    assert set(times_of(run)) == alone
    for layer in run.layers:
        assert [kernel.reason for kernel in layer.kernels] == ["named like the tactic of this layer alone"]
    reasons = {kernel.kernel: kernel.reason for kernel in run.kernels_unattributed}
    assert "its name is no tactic of the plan" in reasons["splitKreduce_kernel"]
    assert f"{ITERATIONS} inferences, by how often its layers came" in run.assumptions


def test_kernels_alone_stand_for_themselves(capture: Path) -> None:
    path = printed(capture, "cuda_gpu_kern_sum")
    run = analysed(path, plan=False)
    assert run.captured_ns == analysed(capture).captured_ns
    assert run.coverage.unattributed == 1.0
    assert run.kernels_unattributed == ()
    for layer in run.layers:
        assert [kernel.kernel for kernel in layer.kernels] == [layer.name]
        assert layer.kernels[0].confidence == "none"
        assert layer.attainable_ns is None
    # All of the sum is one inference until somebody says how many they were; that is never guessed.
    assert sum(times_of(run).values()) == run.captured_ns
    assert "no inferences told apart" in run.verdict
    assert any(
        f"--inferences N says it; most kernels ran a multiple of {ITERATIONS} times" in s for s in run.assumptions
    )
    told = analysed(path, plan=False, inferences=ITERATIONS)
    assert sum(times_of(told).values()) == run.captured_ns // ITERATIONS
    assert "no inferences told apart" not in told.verdict
    assert "no verdict" in told.verdict


def test_a_trace_of_nsys_stats_says_what_the_capture_says_but_for_launches(capture: Path) -> None:
    path = printed(capture, "cuda_gpu_trace")
    trace = analysed(path)
    assert trace.captured_ns == analysed(capture).captured_ns
    assert trace.latency.n == ITERATIONS
    sums = analysed(printed(capture, "cuda_gpu_kern_sum"))
    # The order of the kernels leads further than their names do.
    assert trace.coverage.exact == pytest.approx(sums.coverage.exact)
    assert trace.coverage.inferred > sums.coverage.inferred
    assert trace.latency == analysed(capture).latency
    assert gpu_in(Files(layers=None, nsys=path)) == ("NVIDIA GeForce RTX 4090", "capture")


def test_every_sort_of_layer(tmp_path: Path) -> None:
    """Fused, split-k, Myelin within TensorRT, two streams, two processes with the same correlation ids."""
    path = tmp_path / "all.sqlite"
    truth = write_trace(path, [Process(pid=pid, layers=ENGINE, iterations=4) for pid in (111, 113)])
    run = analysed(printed(path, "nvtx_kern_sum"), plan=False)
    assert run.captured_ns == truth.kernel_ns
    assert run.coverage.exact == pytest.approx(1.0)
    assert "8 inferences, by TensorRT's own NVTX ranges" in run.assumptions
    expected = {layer.name: sum(work.ns for work in layer.work if work.kind == "kernel") for layer in ENGINE}
    assert times_of(run) == {name: ns for name, ns in expected.items() if ns}


@pytest.mark.parametrize(
    ("report", "more", "words"),
    [
        ("cuda_gpu_kern_sum", {"device": 0}, "sums over all GPUs"),
        ("cuda_gpu_trace", {"inferences": 3}, "--inferences is of no use here"),
        ("cuda_gpu_trace", {"device": 3}, "GPU 3 did nothing"),
    ],
)
def test_what_a_file_cannot_tell_is_refused(capture: Path, report: str, more: dict[str, int], words: str) -> None:
    with pytest.raises(TrtprofError) as error:
        analysed(printed(capture, report), device=more.get("device"), inferences=more.get("inferences"))
    assert words in refused(error.value)


@pytest.mark.parametrize("report", ["", "nvtx_kern_sum", "cuda_gpu_kern_sum", "cuda_gpu_trace"])
def test_the_profile_that_ran_is_the_one_that_the_capture_shows(tmp_path: Path, report: str) -> None:
    """Of a plan with two optimisation profiles the second ran: told by ranges, or by tactics alone."""
    plan = tmp_path / "layers.json"
    both = [
        {"Name": f"{name}{mark}", "LayerType": "CaskConvolution", "TacticName": f"{name}_{tactic}",
         "Inputs": [], "Outputs": []}
        for mark, tactic in (("", "slow"), (" [profile 1]", "fast"))
        for name in ("conv1", "conv2")
    ]  # fmt: skip
    plan.write_text(json.dumps({"Layers": both, "Bindings": []}))
    capture = tmp_path / "run.sqlite"
    layers = tuple(Layer(f"{name} [profile 1]", (Work(f"{name}_fast_kernel_trt"),)) for name in ("conv1", "conv2"))
    write_trace(capture, [Process(pid=111, layers=layers, iterations=4)])
    files = Files(layers=plan, nsys=printed(capture, report) if report else capture)
    run = analyze(files, [gpus.find("rtx-4090")], Settings())
    assert isinstance(run, Run)
    assert set(times_of(run)) == {"conv1 [profile 1]", "conv2 [profile 1]"}
    assert any("only the layers of profile 1 are looked at" in note for note in run.assumptions)


@needs_captures
def test_the_official_sums_of_pytorch_on_two_gpus() -> None:
    path = H100.with_name(f"{H100.stem}__cuda_gpu_kern_sum.csv")
    run = analysed(path, plan=False)
    assert run.backend.name == "pytorch"
    trace = read_trace(H100)
    kernels = trace.work[trace.work["kind"] == "kernel"]
    assert run.captured_ns == int((kernels["end_ns"] - kernels["start_ns"]).sum())
    assert sum(kernel.count for kernel in all_kernels(run)) == len(kernels)
    # PyTorch's ranges lie within one another, and each counts the kernel.
    with pytest.raises(UsageError) as error:
        analysed(path.with_name(f"{H100.stem}__nvtx_kern_sum.csv"), plan=False)
    assert "may lie within one another" in refused(error.value)
