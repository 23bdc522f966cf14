"""A capture with a real plan: kernels, layers, nodes and the ledger of one inference."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.fakes.kernel_rule_cases import FLASH_2
from tests.fakes.support import H100, ROOT, SAMPLES, needs_captures, refused
from tests.fakes.trace_factory import ERAS, Layer, Process, Work, write_trace
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.records import Plan, Run
from trtprof.engine.inspector import read_layer_info
from trtprof.flows.analyze import Files, analyze, exported, sort_files
from trtprof.flows.predict.on_gpus import Settings
from trtprof.hardware import gpus
from trtprof.report import render

PLAN = ROOT / "tests" / "engine" / "data" / "rtx_resnet_tiny.log"
ONNX = SAMPLES / "resnet_tiny.onnx"
ITERATIONS = 5
IDLE = ("signal", "wait", "shape_call")


def kernel_ns(place: int) -> int:
    return 10_000 + 100 * place


def layers_of(plan: Plan, *, named: bool = True) -> tuple[Layer, ...]:
    """What each layer of the plan launches: one kernel, or two where it is the last product."""
    found = []
    for place, layer in enumerate(plan.layers):
        work = [] if layer.kind in IDLE else [Work(layer.tactic or f"kernel_{place}", ns=kernel_ns(place))]
        if layer.kind == "gemm":
            work.append(Work("splitKreduce_kernel", ns=700))
        found.append(Layer(layer.name if named else f"layer {place}", tuple(work)))
    return tuple(found)


def analysed(path: Path, *, plan: bool = True, onnx: bool = True) -> Run:
    files = Files(layers=PLAN if plan else None, onnx=ONNX if plan and onnx else None, nsys=path)
    found = analyze(files, [gpus.find("rtx-4090")], Settings())
    assert isinstance(found, Run)
    return found


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "run.sqlite"
    write_trace(path, [Process(pid=111, layers=layers_of(read_layer_info(PLAN)), iterations=ITERATIONS)])
    return path


@pytest.mark.parametrize("era", ERAS)
def test_every_kernel_of_every_era_is_led_to_its_layer_and_its_nodes(tmp_path: Path, era: str) -> None:
    plan = read_layer_info(PLAN)
    path = tmp_path / "run.sqlite"
    truth = write_trace(path, [Process(pid=111, layers=layers_of(plan), iterations=ITERATIONS)], era=era)
    run = analysed(path)
    assert run.captured_ns == truth.kernel_ns
    assert run.coverage.exact == pytest.approx(1.0)
    assert run.kernels_unattributed == ()
    by_name = {layer.name: layer for layer in run.layers}
    for place, layer in enumerate(plan.layers):
        if layer.kind in IDLE:
            assert layer.name not in by_name
            continue
        found = by_name[layer.name]
        assert found.measured_ns == kernel_ns(place) + (700 if layer.kind == "gemm" else 0)
        assert [kernel.count for kernel in found.kernels] == [ITERATIONS] * (2 if layer.kind == "gemm" else 1)
        assert found.attainable_ns is not None
        # What only reorders is lost altogether.
        allowed = 0 if found.role == "layout" else found.attainable_ns
        assert found.lost_ns == found.measured_ns - allowed
    assert "/fc/Gemm" in by_name["/fc/Gemm_myl0_27"].nodes


def test_the_document_conserves_every_nanosecond_and_the_ledger_closes(trace: Path) -> None:
    run = analysed(trace)
    kernels = [kernel for layer in run.layers for kernel in layer.kernels]
    assert sum(kernel.total_ns for kernel in (*kernels, *run.kernels_unattributed)) == run.captured_ns
    assert sum(row.ns for row in run.ledger) == run.latency.median_ns
    assert run.latency.n == ITERATIONS
    assert "as captured, with the profiler attached" in run.verdict
    assert "inferences/s, with the profiler" in " ".join(render(run, "text").split())
    rows = {row.cause: row.ns for row in run.ledger}
    # Every inference is alike, so that nothing is left over.
    assert rows["unexplained"] == 0
    # The stream of an inference works without a break but where the host is slower than the kernels.
    busy = sum(layer.measured_ns for layer in run.layers)
    assert (
        sum(rows.get(name, 0) for name in ("gaps between layers", "gaps inside layers", "waiting for the host"))
        == run.latency.median_ns - busy
    )


def test_inferences_in_which_another_kernel_is_fast_each_do_not_add_up_and_no_gap_is_missed(tmp_path: Path) -> None:
    """In each inference another kernel ends 5 us sooner: every median of a layer is that of the slow ones."""
    path = tmp_path / "run.sqlite"
    write_trace(path, [Process(pid=111, layers=layers_of(read_layer_info(PLAN)), iterations=ITERATIONS)])
    before = {row.cause: row.ns for row in analysed(path).ledger}
    with sqlite3.connect(path) as connection:
        table = "CUPTI_ACTIVITY_KIND_KERNEL"
        rows = [row for (row,) in connection.execute(f"SELECT rowid FROM {table} ORDER BY start")]  # noqa: S608
        for iteration in range(ITERATIONS):
            row = rows[iteration * (len(rows) // ITERATIONS) + 2 * iteration + 1]
            connection.execute(f"UPDATE {table} SET end = end - 5000 WHERE rowid = ?", (row,))  # noqa: S608
    connection.close()
    run = analysed(path)
    found = {row.cause: row.ns for row in run.ledger}
    assert found["medians not adding up"] == -5000
    gaps = ("gaps between layers", "gaps inside layers", "waiting for the host")
    assert sum(found.get(name, 0) for name in gaps) == sum(before.get(name, 0) for name in gaps) + 5000
    assert found["unexplained"] == 0
    assert sum(found.values()) == run.latency.median_ns


def test_without_ranges_and_layers_kernels_stand_for_themselves(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    truth = write_trace(path, [Process(pid=111, layers=layers_of(read_layer_info(PLAN)), iterations=ITERATIONS)])
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM NVTX_EVENTS")
    connection.close()
    run = analysed(path, plan=False)
    assert run.captured_ns == truth.kernel_ns
    assert sum(kernel.total_ns for layer in run.layers for kernel in layer.kernels) == run.captured_ns
    assert all([kernel.kernel for kernel in layer.kernels] == [layer.name] for layer in run.layers)
    assert run.coverage.unattributed == 1.0
    assert run.verdict.startswith("no verdict")
    assert sum(row.ns for row in run.ledger) == run.latency.median_ns
    split = next(layer for layer in run.layers if layer.name == "splitKreduce_kernel")
    assert split.measured_ns == 700


def test_two_streams_overlap_in_the_ledger(tmp_path: Path) -> None:
    plan = read_layer_info(PLAN)
    layers = [
        layer._replace(work=tuple(work._replace(stream=8, ns=200_000) for work in layer.work)) if place == 10 else layer
        for place, layer in enumerate(layers_of(plan))
    ]
    path = tmp_path / "streams.sqlite"
    write_trace(path, [Process(pid=111, layers=tuple(layers), iterations=ITERATIONS)])
    run = analysed(path)
    rows = {row.cause: row.ns for row in run.ledger}
    assert rows["overlap of streams"] < 0
    assert sum(rows.values()) == run.latency.median_ns
    assert run.coverage.exact == pytest.approx(1.0)


def test_a_report_of_nsys_is_exported_first(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = tmp_path / "other.nsys-rep"
    report.write_bytes(b"a report")
    files = Files(layers=PLAN, nsys=report)
    made = report.with_suffix(".sqlite")
    # Without nsys there is no way but an export that is there already.
    monkeypatch.setenv("TRTPROF_NSYS", str(tmp_path / "nowhere"))
    with pytest.raises(MissingError) as missing:
        exported(files)
    assert refused(missing.value)
    shutil.copy(trace, made)
    assert exported(files) == files._replace(nsys=made)
    assert exported(Files(layers=PLAN, nsys=trace)).nsys == trace
    assert sort_files([report, PLAN]).nsys == report


def test_files_are_told_apart_and_contradictions_refused(trace: Path, tmp_path: Path) -> None:
    assert sort_files([trace, PLAN, ONNX]) == Files(layers=PLAN, onnx=ONNX, nsys=trace)
    profile = tmp_path / "profile.json"
    profile.write_text('[{"count": 1}, {"name": "a", "timeMs": 1.0, "averageMs": 1.0}]')
    with pytest.raises(UsageError) as both:
        sort_files([trace, PLAN, profile])
    assert "both have times of layers" in refused(both.value)


@needs_captures
def test_a_capture_of_pytorch_on_two_gpus() -> None:
    runs = [analyze(Files(layers=None, nsys=H100), [gpus.find("h100-sxm5")], Settings(), device=gpu) for gpu in (0, 1)]
    for run in runs:
        assert isinstance(run, Run)
        kernels = [kernel for layer in run.layers for kernel in layer.kernels]
        assert sum(kernel.total_ns for kernel in (*kernels, *run.kernels_unattributed)) == run.captured_ns > 0
        assert sum(row.ns for row in run.ledger) == run.latency.median_ns


GPU_MM = (
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4_execute_kernel"
)
GPU_FILL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int)"
)


def bare(path: Path, gpu: str, *device: int) -> Run:
    found = analyze(Files(nsys=path), [gpus.find(gpu)], Settings(), device=device[0] if device else None)
    assert isinstance(found, Run)
    return found


def test_a_capture_of_pytorch_alone_tells_who_ran_it_what_it_copied_and_on_which_unit(tmp_path: Path) -> None:
    path = tmp_path / "torch.sqlite"
    layers = (
        Layer("mm", (Work(GPU_MM, ns=80_000),)),
        Layer("fetch", (Work("memcpy HtoD", ns=900_000, kind="memcpy", bytes=25_000_000),)),
        Layer("attention", (Work(FLASH_2, ns=60_000),)),
        Layer("fill", (Work(GPU_FILL, ns=10_000),)),
    )
    write_trace(path, [Process(pid=111, layers=layers, iterations=ITERATIONS)])
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM NVTX_EVENTS")
        connection.execute("UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET copyKind = 1")
    connection.close()
    run = bare(path, "h100-sxm5")
    assert run.backend.name == "pytorch"
    assert any(note.startswith("PyTorch launched the kernels") for note in run.assumptions)
    assert render(run, "text").splitlines()[1].startswith("pytorch on H100")
    findings = {finding.code: finding for finding in run.findings}
    assert "emit_nvtx" in findings["TR902"].try_
    assert {"HO502", "KN702", "KN705"} <= findings.keys()
    assert "memcpy HtoD: 5 of no layer, 125 MB in all at 27.8 GB/s" in findings["HO502"].evidence
    assert findings["HO502"].lost_ns == pytest.approx(900_000, rel=0.01)
    assert findings["KN702"].layers == (GPU_MM,)
    assert findings["KN705"].lost_ns == 20_000
    # On a GPU of the kernels' own generation there is nothing to say of the attention.
    assert "KN705" not in {finding.code for finding in bare(path, "a100-sxm4-80gb").findings}


def test_a_capture_that_nobody_signed_is_of_an_unknown_backend(tmp_path: Path) -> None:
    path = tmp_path / "own.sqlite"
    write_trace(path, [Process(pid=111, layers=(Layer("a", (Work("my_kernel"),)),), iterations=ITERATIONS)])
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM NVTX_EVENTS")
    connection.close()
    run = bare(path, "rtx-4090")
    assert run.backend.name == "unknown"
    assert "no name of a kernel or an NVTX range tells what launched the kernels" in run.assumptions


@needs_captures
@pytest.mark.parametrize("device", [0, 1])
def test_the_real_capture_of_pytorch_is_led_by_its_copies_and_its_fp32_products(device: int) -> None:
    run = bare(H100, "h100-sxm5", device)
    assert run.backend.name == "pytorch"
    first, second = [finding for finding in run.findings if finding.kind == "hypothesis"]
    assert (first.code, second.code) == ("HO502", "KN702")
    assert first.lost_ns > 0.9 * run.latency.median_ns
    assert second.where == "aten::mm and 1 more"
    assert "ffma" in second.evidence
