"""An engine from files alone, from `flows.analyze` on: figures worked out by hand, and what always holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.engine_factory import (
    BATCH,
    ENGINES,
    HMMA,
    MOBILENET,
    RESIDUALS,
    RESNET,
    RESNET_QAT,
    files_of,
    write_engine,
)
from tests.fakes.support import SAMPLES, captured, refused
from trtprof.analysis.evidence import Subject
from trtprof.analysis.plan import price_plan
from trtprof.analysis.profile import evidence_of_profile
from trtprof.analysis.run import analyse
from trtprof.base.errors import MissingError, TrtprofError, UsageError
from trtprof.base.records import InferenceTimes, LayerTime, LayerTimes, Prediction, Run
from trtprof.diagnose.ledger import FROM_DEVICE, LAYOUT, TO_DEVICE, UNEXPLAINED, UNPRICED
from trtprof.engine.inspector import read_layer_info
from trtprof.flows.analyze import Files, analyze, gpu_in, sort_files
from trtprof.flows.predict.on_gpus import Settings
from trtprof.hardware import gpus
from trtprof.report import render
from trtprof.source.request import ModelRequest

RTX_LOG = Path(__file__).parents[1] / "engine" / "data" / "rtx_resnet_tiny.log"
RESNET_TINY = SAMPLES / "resnet_tiny.onnx"

A100, RTX_4090 = gpus.find("a100-pcie-80gb"), gpus.find("rtx-4090")
TWO = ModelRequest.of("", batch=2)  # The model of the log at the batch that its engine was built for


def run_of(files: Files, **how: object) -> Run:
    found = analyze(files, [A100], Settings(), **how)  # type: ignore[arg-type]
    assert isinstance(found, Run)
    return found


def row(run: Run, cause: str) -> int:
    return sum(one.ns for one in run.ledger if one.cause == cause)


def profile_of(layers: Path, path: Path, ms: Sequence[float] = (0.02,), **changes: object) -> Path:
    """A profile as trtexec exports it; layers take the times in turn."""
    names = [layer.name for layer in read_layer_info(layers).layers]
    total = sum(ms[at % len(ms)] for at in range(len(names))) or 1.0
    rows = [
        {"name": name, "timeMs": 100 * ms[at % len(ms)], "averageMs": ms[at % len(ms)], "medianMs": ms[at % len(ms)],
         "percentage": 100 * ms[at % len(ms)] / total, **changes}
        for at, name in enumerate(names)
    ]  # fmt: skip
    path.write_text(json.dumps([{"count": 100}, *rows]), encoding="utf-8")
    return path


def times_of(path: Path, *, compute: float, h2d: float = 0.0, d2h: float = 0.0, n: int = 11) -> Path:
    """Times as trtexec exports them, in ms, all inferences alike."""
    one = {
        "startEnqMs": 0.0, "endEnqMs": 0.01, "h2dMs": h2d, "computeMs": compute, "d2hMs": d2h,
        "latencyMs": h2d + compute + d2h,
    }  # fmt: skip
    path.write_text(json.dumps([one] * n), encoding="utf-8")
    return path


@pytest.fixture
def rtx(tmp_path: Path) -> Files:
    """The plan in the committed log of TensorRT-RTX, with a profile and times made by hand."""
    profile = profile_of(RTX_LOG, tmp_path / "profile.json")
    times = times_of(tmp_path / "times.json", compute=0.5, h2d=0.02, d2h=0.01)
    return Files(RTX_LOG, profile, times, RESNET_TINY)


def test_an_engine_has_the_figures_that_its_files_have(tmp_path: Path) -> None:
    """Of the project's own: a layer takes 8 us and 10 ps more for each element that it reads or writes."""
    run = run_of(write_engine(tmp_path, "fp16", times=100))
    reformats = 2 * 8000 + round(BATCH * (2 * 3 * 65536 + 20) / 100)
    pools = 2 * 8000 + round(BATCH * 32 * (16384 + 2 * 4096 + 1) / 100)
    products = 4 * 8000 + round(BATCH * (3 * 65536 + 32 * 16384 + 5 * 32 * 4096 + 42) / 100)
    assert run.captured_ns == pytest.approx(reformats + pools + products, abs=9)
    assert (run.latency.median_ns, run.latency.p99_ns, run.latency.n) == (100_000, 100_000, 100)
    assert row(run, LAYOUT) == pytest.approx(reformats, abs=2)
    assert row(run, UNEXPLAINED) == 100_000 - run.captured_ns
    assert [layer.kernels for layer in run.layers if layer.op_type == "Reformat"] == [(), ()]
    assert run.plan is not None
    shares = {share.what: share.ns for share in run.plan.by_kind}
    assert shares["CaskConvolution"] == pytest.approx(products, abs=4)
    assert (shares["Reformat"], shares["NoOp"]) == (row(run, LAYOUT), 0)
    (conv,) = [layer for layer in run.layers if layer.name == "Conv_0 + Relu_1"]
    assert conv.work is not None
    assert conv.work.macs == BATCH * 32 * 128 * 128 * 147
    # 3 channels are padded to 4.
    assert conv.bytes == BATCH * (4 * 65536 + 32 * 16384) * 2 + 2 * (32 * 147 + 32)
    (kernel,) = conv.kernels
    assert (kernel.kernel, kernel.count, kernel.total_ns, kernel.confidence) == (HMMA, 1, conv.measured_ns, "inferred")
    assert conv.nodes == ("Conv_0", "Relu_1")


def test_resnet_on_an_a100_has_the_figures_that_its_files_have(tmp_path: Path) -> None:
    run = run_of(files_of(RESNET, tmp_path))
    # The sum of medianMs, the median of latencyMs, and the 99th percentile of its 3698 samples.
    assert run.captured_ns == 1_016_832
    assert (run.latency.median_ns, run.latency.p99_ns, run.latency.n) == (862_183, 870_605, 3698)
    # 80.896 and 7.168 us of Reformat layers.
    assert row(run, LAYOUT) == 88_064
    assert row(run, UNEXPLAINED) == 862_183 - 1_016_832
    assert (row(run, TO_DEVICE), row(run, FROM_DEVICE)) == (0, 0)
    assert [layer.kernels for layer in run.layers if layer.op_type == "Reformat"] == [(), ()]
    assert run.device.name == "A100 80 GB PCIe"
    assert run.plan is not None
    assert run.engine is not None
    assert {share.what: share.ns for share in run.plan.by_kind} == {
        "CaskConvolution": 857_088, "Reformat": 88_064, "CudaPooling": 62_464, "CaskPooling": 9_216, "NoOp": 0,
    }  # fmt: skip


def test_the_first_convolution_by_hand(tmp_path: Path) -> None:
    (conv,) = [layer for layer in run_of(files_of(RESNET, tmp_path)).layers if layer.name == "Conv_0 + Relu_1"]
    assert conv.work is not None
    # 32 x 64 x 112 x 112 outputs of 3 x 7 x 7 MACs.
    assert conv.work.macs == 32 * 64 * 112 * 112 * 147 == 3_776_446_464
    # Channels padded from 3 to 4 and 64 channels, fp16; 9408 weights and 64 biases.
    assert conv.bytes == 32 * 4 * 224 * 224 * 2 + 32 * 64 * 112 * 112 * 2 + 2 * (9408 + 64) == 64_244_224
    assert conv.measured_ns == 111_616
    assert conv.attainable_ns is not None
    assert conv.lost_ns == 111_616 - conv.attainable_ns
    # 312 TFLOP/s of fp16 and 1.935 TB/s: it is ideal to find as much as the L2 holds there.
    assert conv.ideal_ns == pytest.approx(max(7_552_892_928 / 312e3, (64_244_224 - 40 * 2**20) / 1.935e3), abs=1)
    (kernel,) = conv.kernels
    assert kernel.kernel.startswith("trt_turing_cutlass_image_network_first_layer_hmma_fprop")
    assert (kernel.count, kernel.total_ns, kernel.confidence) == (1, 111_616, "inferred")
    assert "no kernel was captured" in kernel.reason
    assert conv.nodes == ("Conv_0", "Relu_1")


@pytest.mark.parametrize("engine", [*ENGINES, RESNET, RESNET_QAT, MOBILENET, RESIDUALS])
def test_laws_on_every_engine(engine: str, tmp_path: Path) -> None:
    files = files_of(engine, tmp_path)
    assert files.profile is not None
    run = run_of(files)
    rows = json.loads(files.profile.read_text())[1:]
    assert sum(layer.measured_ns for layer in run.layers) == sum(round(one["medianMs"] * 1e6) for one in rows)
    assert sum(one.ns for one in run.ledger) == run.latency.median_ns
    share = run.coverage
    assert share.exact == 0
    assert share.exact + share.inferred + share.unattributed == pytest.approx(1)
    again = run_of(files)
    assert render(run, "json") == render(again, "json")


@pytest.mark.parametrize("engine", [*ENGINES, RESNET, RESNET_QAT, MOBILENET, RESIDUALS])
def test_an_ordinary_engine_is_not_doubted_as_a_whole(engine: str, tmp_path: Path) -> None:
    gpu = gpus.find("titan-rtx") if engine in (MOBILENET, RESIDUALS) else A100
    run = analyze(files_of(engine, tmp_path), [gpu], Settings())
    assert isinstance(run, Run)
    assert "TR907" not in [finding.code for finding in run.findings]


@pytest.mark.parametrize("engine", [RESNET, RESNET_QAT])
def test_an_engine_four_times_slower_in_every_layer_is_doubted(engine: str, tmp_path: Path) -> None:
    """Power, clocks, or another GPU: no kernel does that."""
    files = files_of(engine, tmp_path)
    assert files.profile is not None
    rows = json.loads(files.profile.read_text())
    for one in rows[1:]:
        one.update({key: 4 * one[key] for key in ("timeMs", "averageMs", "medianMs") if key in one})
    slow = tmp_path / "slow.json"
    slow.write_text(json.dumps(rows))
    run = run_of(files._replace(profile=slow, times=None))
    (found,) = [finding for finding in run.findings if finding.code == "TR907"]
    assert (found.kind, found.lost_ns) == ("trust", 0)
    assert "none reaches 35.0 % of it by the datasheet: the best bound by memory" in found.evidence
    assert "no clock was sampled" in found.evidence
    assert found.try_.startswith("check that --gpu is the GPU that ran it, look at its clocks, power")


@pytest.mark.parametrize("engine", ["fp16", RESNET])
def test_what_is_missing_is_said_in_words(engine: str, tmp_path: Path) -> None:
    files = files_of(engine, tmp_path)
    whole, alone = run_of(files), run_of(files._replace(times=None))
    assert alone.latency.n == 0
    assert alone.latency.median_ns == alone.captured_ns
    assert row(alone, UNEXPLAINED) == 0
    assert alone.verdict.startswith("of the layers alone, not end to end: ")
    for run in (whole, alone):
        for words in ("no ONNX model", "a profile of one inference", "an old plan", "datasheet ceilings"):
            assert words in run.verdict
        said = " ".join(run.assumptions)
        for words in ("--onnx", "single samples", "TensorRT 8.5 or before", "healthy kernels do not reach"):
            assert words in said
    assert "no end-to-end times" in alone.verdict
    assert "no end-to-end times" not in whole.verdict
    assert "--times" in " ".join(alone.assumptions)


def test_a_log_is_a_profile_and_tells_the_gpu(tmp_path: Path) -> None:
    files = sort_files(sorted(captured("logs").glob("trt10*.log")))
    assert files.layers is not None
    assert files.layers.name.endswith("EngineInspector.log")
    assert files.profile is not None
    assert files.profile.name.endswith("dumpProfile.log")
    assert gpus.find(gpu_in(files)[0]).slug == "rtx-6000-ada"
    assert gpu_in(Files(tmp_path / "none.log")) == ("", "")


@pytest.mark.parametrize("profile", [0, 1])
def test_of_several_optimisation_profiles_the_timed_one_is_looked_at(tmp_path: Path, profile: int) -> None:
    log = captured("logs", "trt10.16.0_ada__EngineInspector.log")
    names = [layer.name for layer in read_layer_info(log).layers if layer.profile == profile]
    timed = tmp_path / "profile.json"
    timed.write_text(json.dumps([{"count": 3}, *({"name": name, "averageMs": 0.01} for name in names)]))
    run = run_of(Files(log, timed))
    assert sorted(layer.name for layer in run.layers) == sorted(names)
    assert (
        f"the plan has 2 optimisation profiles: only the layers of profile {profile} are looked at" in run.assumptions
    )
    assert "no medians" in run.verdict


def test_copies_overlap_and_layers_make_the_latency(rtx: Files) -> None:
    run = run_of(rtx, model=TWO)
    layers = len(read_layer_info(RTX_LOG).layers)
    assert run.captured_ns == layers * 20_000
    assert run.latency.median_ns == 530_000
    assert (row(run, TO_DEVICE), row(run, FROM_DEVICE)) == (20_000, 10_000)
    # The layers take longer than the GPU time of an inference: streams overlap, and the profiler adds its own.
    assert row(run, UNEXPLAINED) == 500_000 - layers * 20_000 < 0
    assert sum(one.ns for one in run.ledger) == 530_000
    assert run.model.inputs[0].shape == (2, 3, 64, 64)
    assert run.coverage.unattributed == 0
    assert {node.name for node in run.nodes} == {
        fate for layer in run.layers for fate in layer.nodes
    } | {node.name for node in run.nodes if node.fate != "layer"}  # fmt: skip


def test_gaps_between_layers_are_the_hosts(rtx: Files, tmp_path: Path) -> None:
    quick = profile_of(RTX_LOG, tmp_path / "quick.json", (0.005,))
    slow = times_of(tmp_path / "slow.json", compute=1.0)
    run = run_of(rtx._replace(profile=quick, times=slow), model=TWO)
    (gaps,) = [one for one in run.findings if one.code == "HO501"]
    assert gaps.lost_ns == 1_000_000 - run.captured_ns
    assert "CUDA graph" in gaps.try_


def test_what_has_no_price_has_no_allowed_time_and_is_not_launch_bound(tmp_path: Path) -> None:
    """Of a block of many kernels only the tensors at its borders are known: what it computes may take any time."""
    files = write_engine(tmp_path, "regions")
    assert files.layers is not None
    files = files._replace(profile=profile_of(files.layers, tmp_path / "long.json", ms=(1.05, 0.03, 0.3)), times=None)
    run = run_of(files)
    blocks = [layer for layer in run.layers if layer.op_type == "Myelin"]
    assert [layer.measured_ns for layer in blocks] == [1_050_000, 300_000]
    assert all(layer.attainable_ns is None and layer.ideal_ns is None for layer in blocks)
    assert all(layer.bound == "unknown" and layer.lost_ns is None for layer in blocks)
    assert all("that takes the model" in layer.reason for layer in blocks)
    assert row(run, UNPRICED) == 1_350_000
    assert run.verdict.startswith(
        "no verdict: 97.8 % of latency has no price, and under 50.0 % may have none: give the model that the engine was"
    )
    assert not [finding for finding in run.findings if finding.code == "LA401"]


def test_layers_without_a_time_are_left_out_and_named(rtx: Files, tmp_path: Path) -> None:
    assert rtx.profile is not None
    rows = json.loads(rtx.profile.read_text())
    dropped = next(one for one in rows[1:] if "Conv" in one["name"] or "Relu" in one["name"])
    less = tmp_path / "less.json"
    less.write_text(json.dumps([one for one in rows if one is not dropped]))
    run = run_of(rtx._replace(profile=less), model=TWO)
    assert dropped["name"] not in {layer.name for layer in run.layers}
    assert "a layer without a time" in run.verdict
    assert any(dropped["name"] in one for one in run.assumptions)
    assert run.captured_ns == 20_000 * (len(rows) - 2)


def test_layers_of_one_name_stay_apart() -> None:
    plan = read_layer_info(RTX_LOG)
    twice = msgspec.structs.replace(plan, layers=(*plan.layers, plan.layers[-1]))
    rows = tuple(LayerTime(name=one.name, total_ns=10, average_ns=10, fraction=0.0) for one in twice.layers)
    evidence = evidence_of_profile(price_plan(twice), LayerTimes(iterations=1, layers=rows), None)
    run = analyse(evidence, Subject(ceilings=gpus.ceilings(RTX_4090), spec=RTX_4090))
    assert len({layer.name for layer in run.layers}) == len(twice.layers)
    assert run.captured_ns == 10 * len(twice.layers)


def test_without_a_profile_the_layers_are_predicted(rtx: Files) -> None:
    found = analyze(rtx._replace(profile=None, times=None), [A100, RTX_4090], Settings(), TWO)
    assert isinstance(found, Prediction)
    assert found.level == "layers"
    assert [gpu.gpu for gpu in found.gpus] == ["a100-pcie-80gb", "rtx-4090"]
    assert found.fates
    alone = analyze(Files(RTX_LOG), [A100], Settings())
    assert isinstance(alone, Prediction)
    assert alone.fates == ()


NS = st.integers(0, 10**7)


@given(st.lists(NS, min_size=29, max_size=29).filter(any), NS, NS, NS)
def test_the_ledger_closes_whatever_was_measured(times: list[int], compute: int, h2d: int, d2h: int) -> None:
    priced = price_plan(read_layer_info(RTX_LOG))
    names = [matched.layer.name for matched in priced.document.layers]
    rows = tuple(
        LayerTime(name=name, total_ns=ns, average_ns=ns, median_ns=ns, fraction=0.0)
        for name, ns in zip(names, times, strict=True)
    )
    measured = InferenceTimes(
        latency_ns=(h2d + compute + d2h,), compute_ns=(compute,), enqueue_ns=(0,), h2d_ns=(h2d,), d2h_ns=(d2h,)
    )
    for one in (measured, None):
        evidence = evidence_of_profile(priced, LayerTimes(iterations=1, layers=rows), one)
        run = analyse(evidence, Subject(ceilings=gpus.ceilings(RTX_4090), spec=RTX_4090))
        assert sum(each.ns for each in run.ledger) == run.latency.median_ns
        assert sum(layer.measured_ns for layer in run.layers) == sum(times) == run.captured_ns
        claimed = sum(finding.lost_ns for finding in run.findings)
        assert claimed <= max(run.latency.median_ns, 0)


def test_a_profile_of_another_engine_names_the_first_row(rtx: Files, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps([{"count": 1}, {"name": "conv9", "averageMs": 0.1}]))
    with pytest.raises(UsageError) as error:
        run_of(rtx._replace(profile=other), model=TWO)
    assert "another engine" in refused(error.value)
    assert "conv9" in refused(error.value)


@pytest.mark.parametrize("value", ["NaN", "-0.5", '"soon"'])
def test_a_time_that_is_none_is_refused(rtx: Files, tmp_path: Path, value: str) -> None:
    name = read_layer_info(RTX_LOG).layers[0].name
    bad = tmp_path / "bad.json"
    bad.write_text(f'[{{"count": 1}}, {{"name": {json.dumps(name)}, "averageMs": {value}}}]')
    with pytest.raises(UsageError) as error:
        run_of(rtx._replace(profile=bad), model=TWO)
    assert str(bad) in refused(error.value)


def test_a_profile_without_any_time_is_refused(rtx: Files, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no layer took any time"):
        run_of(rtx._replace(profile=profile_of(RTX_LOG, tmp_path / "zero.json", (0.0,))), model=TWO)


def test_the_model_of_another_engine_is_refused(rtx: Files) -> None:
    with pytest.raises(UsageError) as error:
        run_of(rtx._replace(onnx=SAMPLES / "gemv.onnx"))
    assert "not the model that this engine was built from" in refused(error.value)


def test_one_gpu_ran_it(rtx: Files) -> None:
    with pytest.raises(UsageError, match="one GPU must be named"):
        analyze(rtx, [A100, RTX_4090], Settings(), TWO)


def test_files_are_told_apart_by_their_content(rtx: Files) -> None:
    given = [path for path in (rtx.times, RESNET_TINY, rtx.profile, RTX_LOG) if path is not None]
    assert sort_files(given) == rtx
    assert sort_files(given[:3], Files(RTX_LOG)) == rtx


def test_a_log_may_be_layers_and_profile_at_once(tmp_path: Path) -> None:
    both = tmp_path / "both.log"
    both.write_text(RTX_LOG.read_text() + "\n=== Profile (10 iterations ) ===\n")
    assert sort_files([both]) == Files(both, both)
    # What is said for one of its roles leaves it the other.
    assert sort_files([both], Files(profile=RTX_LOG)) == Files(both, RTX_LOG)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"ftrt\x00\x01\x02\x00", "an engine itself cannot be read"),
        (b'{"answer": 42}', "nothing that can be analysed"),
        (b"hello\n", "nothing that can be analysed"),
        (b'[{"cat" : "Session","pid" :7,"ph" : "X","name" :"model_loading_uri"}]', "a profile of ONNX Runtime"),
        (b'[{"cat": "Node", "name": "conv_kernel_time", "dur": 3}]', "trtprof run MODEL --backend ort-cpu"),
        (b'[{"name": "x", "averageMs": 1}]', "no layer information among the files"),
    ],
)
def test_a_file_that_is_something_else(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(UsageError) as error:
        sort_files([path])
    assert words in refused(error.value)


def test_two_files_of_one_kind_and_one_that_is_not_there(tmp_path: Path) -> None:
    again = tmp_path / "again.log"
    again.write_bytes(RTX_LOG.read_bytes())
    with pytest.raises(UsageError, match="are both layer information"):
        sort_files([RTX_LOG, again])
    with pytest.raises(MissingError, match="there is no file"):
        sort_files([tmp_path / "none.json"])
    with pytest.raises(UsageError, match="no file is named"):
        sort_files([])


def test_an_engine_given_as_layers(tmp_path: Path) -> None:
    engine = tmp_path / "model.plan"
    engine.write_bytes(b"ftrt" + bytes(1000))
    with pytest.raises(TrtprofError) as error:
        analyze(Files(engine), [A100], Settings())
    assert error.value.exit_code == 2
    assert "may be an engine itself" in str(error.value)


def test_what_averages_fill_of_an_inference_is_no_gap_though_medians_leave_it(rtx: Files) -> None:
    """Averages of layers add up to that of the inference; the sum of medians is less where other layers are slow."""
    assert rtx.layers is not None
    assert rtx.profile is not None
    assert rtx.times is not None
    rows = json.loads(rtx.profile.read_text())
    layers_ms = sum(row["medianMs"] for row in rows[1:])
    times_of(rtx.times, compute=2 * layers_ms)
    skewed = [rows[0], *({**row, "averageMs": 2 * row["medianMs"]} for row in rows[1:])]

    def found() -> set[str]:
        return {one.code for one in run_of(rtx, model=TWO).findings}

    assert "HO501" in found()
    rtx.profile.write_text(json.dumps(skewed), encoding="utf-8")
    assert "HO501" not in found()


def summary_of(path: Path, *, median: float, percentiles: int = 1, **changes: object) -> Path:
    """A summary as it is kept, in ms: min, max, mean, median, and one percentile or three."""
    latency = [median - 0.002, median + 0.3, median + 0.001, median, *(median + 0.01 * at for at in range(percentiles))]
    summary = {
        "Throughput": 2000.0, "Total Host Walltime": 3.0, "Latency": latency, "GPU Compute Time": latency,
        "Enqueue Time": [0.005] * (4 + percentiles), **changes,
    }  # fmt: skip
    device = {"Selected Device": "NVIDIA A100 80GB PCIe", "SMs": 108.0}
    path.write_text(json.dumps({"performance_summary": summary, "device_information": device}), encoding="utf-8")
    return path


@pytest.mark.parametrize(("percentiles", "p99"), [(1, 200_000), (3, 220_000)])
def test_the_summary_of_trt_engine_explorer_is_the_latency_and_names_the_gpu(
    rtx: Files, tmp_path: Path, percentiles: int, p99: int
) -> None:
    path = summary_of(tmp_path / "e.profile.metadata.json", median=0.2, percentiles=percentiles)
    assert rtx.layers is not None
    assert rtx.profile is not None
    files = sort_files([rtx.layers, rtx.profile, path])
    assert files.times == path
    assert gpu_in(files) == ("NVIDIA A100 80GB PCIe", "summary")
    run = run_of(files)
    found = run.latency
    assert (found.median_ns, found.p99_ns, found.n) == (200_000, p99, 6000)
    assert (found.min_ns, found.max_ns, found.mean_ns) == (198_000, 500_000, 201_000)
    assert sum(one.ns for one in run.ledger) == 200_000
    assert "summary of 6,000 inferences" in " ".join(run.assumptions)
    assert "cv" not in render(run, "text").partition("allowed")[0]


def claims_of(run: Run) -> int:
    return sum(one.lost_ns for one in run.findings)


def test_claims_never_exceed_the_latency_where_the_profile_takes_longer_and_the_evidence_says_so(
    rtx: Files, tmp_path: Path
) -> None:
    """A profile that runs layers one after the other takes three times as long as an inference."""
    alone = run_of(rtx._replace(times=None))
    latency_ms = alone.latency.median_ns / 3e6
    run = run_of(rtx._replace(times=summary_of(tmp_path / "e.profile.metadata.json", median=latency_ms)))
    assert claims_of(alone) > run.latency.median_ns
    assert 0 < claims_of(run) <= run.latency.median_ns
    for finding in run.findings:
        if finding.kind != "trust" and finding.layers:
            assert "layers as profiled take 300.0 % of what the latency leaves them" in finding.evidence
    assert not any("the loss is scaled" in finding.evidence for finding in alone.findings)


@pytest.mark.parametrize(
    ("engine", "median_ns"), [("mobilenet.qat.onnx", 351_196), ("mobilenet_v2_residuals.qat.onnx", 258_240)]
)
def test_engines_whose_profile_serialises_lose_no_more_than_they_take(engine: str, median_ns: int) -> None:
    stem = f"trex__tests__inputs__{engine}.engine"
    files = sort_files(
        captured("layer_info", f"{stem}.{what}.json") for what in ("graph", "profile", "profile.metadata")
    )
    assert gpu_in(files)[0] == "NVIDIA TITAN RTX"
    run = analyze(files, [gpus.find("titan-rtx")], Settings())
    assert isinstance(run, Run)
    assert run.latency.median_ns == median_ns
    assert claims_of(run) <= run.latency.median_ns < run.captured_ns
