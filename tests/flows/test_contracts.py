"""The five contracts, on real runs of real models."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import msgspec
import numpy as np
import onnx
import pandas as pd
import pytest
from onnx import TensorProto, helper

from tests.fakes.in_process import fixed_calibration
from tests.fakes.schemas import schema
from tests.fakes.support import QUICK, fixed_ceilings, needs_captures, real_models
from trtprof.base import run_folder
from trtprof.base.records import Capture, Engine, Run, Source, Work
from trtprof.base.run_folder import RunFolder
from trtprof.cost import COSTS, work_of
from trtprof.cost.fused import work_of_group
from trtprof.diagnose.ledger import ADDING
from trtprof.flows.options import RunOptions
from trtprof.flows.report import analysed
from trtprof.flows.run import execute
from trtprof.report import render
from trtprof.source.request import ModelRequest

HEAVY = ("light_bvlc_alexnet", "light_vgg19", "light_zfnet512")
"""They have no op and no shape of graph that others do not have, and hundreds of megabytes of weights."""
USUAL = ("resnet_tiny", "transformer_block", "lstm", "RFB-320_simplified", "polygraphy__qdq_conv")
MODELS = [
    pytest.param(path, id=path.stem, marks=() if path.stem in USUAL else pytest.mark.nightly)
    for path in real_models()
    if path.stem not in HEAVY
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunFolder]:
    """Folders of runs made by this module, by model name; each model runs once."""
    return {}


def folder_of(model: Path, runs: dict[str, RunFolder], factory: pytest.TempPathFactory) -> RunFolder:
    if model.stem not in runs:
        out = factory.mktemp("run") / model.stem
        runs[model.stem] = execute(RunOptions(model=ModelRequest.of(model), output=str(out), **QUICK))  # type: ignore[arg-type]
    return runs[model.stem]


@pytest.mark.usefixtures("quick_runs")
@pytest.mark.parametrize("model", MODELS)
def test_contracts_hold(model: Path, runs: dict[str, RunFolder], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = folder_of(model, runs, tmp_path_factory)
    run = folder.report()
    kernels = folder.table(run_folder.KERNELS)

    # 1. Conservation: what was captured is what was attributed, to the ns.
    attributed = sum(match.total_ns for layer in run.layers for match in layer.kernels)
    attributed += sum(match.total_ns for match in run.kernels_unattributed)
    assert attributed == run.captured_ns == int(kernels["self_ns"].sum())
    assert run.coverage.exact + run.coverage.inferred >= 0.98

    # 2. The ledger closes on the latency without the profiler.
    assert sum(row.ns for row in run.ledger) == run.latency.median_ns

    # 3. No point above the roof without a trust finding.
    margin = 0.95
    above = {
        layer.name
        for layer in run.layers
        if layer.ideal_ns is not None
        and layer.measured_ns < margin * layer.ideal_ns
        and layer.ideal_ns - layer.measured_ns > 1000
    }
    assert above == {name for finding in run.findings if finding.code == "TR901" for name in finding.layers}

    # What is drawn of one inference is all of it, and whom a layer reads from runs before it.
    assert run.timeline is not None
    assert run.graph is not None
    shown = kernels[kernels["iteration"] == run.timeline.iteration]
    assert sum(run.timeline.dur_ns) == int(shown["dur_ns"].sum())
    assert {run.timeline.layers[at] for at in run.timeline.layer} == set(shown["layer"])
    assert set(run.graph.layers) == {layer.name for layer in run.layers}
    assert all(maker < reader for maker, reader in zip(run.graph.layer_from, run.graph.layer_to, strict=True))
    if len(run.layers) > 1:
        assert set(run.graph.layer_from) | set(run.graph.layer_to) == set(range(len(run.layers)))

    # 4. Nothing is unknown here, and every node has a fate.
    assert run.unsupported == ()
    assert {node.fate for node in run.nodes} <= {"layer", "folded", "eliminated"}

    # The cost of what the backend made and of the ONNX nodes it was made from are two counts of the same
    # products; blocked layouts pad channels, and twins with equal weights are merged into one.
    ops = {node.name: node.op for node in folder.read(run_folder.SOURCE, Source).nodes}
    layers = {layer.name: layer for layer in folder.read(run_folder.ENGINE, Engine).layers}
    for result in run.layers:
        group = [ops[name] for name in result.nodes]
        products = [op for op in group if (work_of(op) or Work()).tensor_flops]
        blocked = layers[result.name].op.domain == "com.microsoft.nchwc"
        if result.match == "exact" and len(products) == 1 and not blocked:
            found = work_of_group(group)
            assert found is not None
            assert result.work is not None
            assert found.tensor_flops == result.work.tensor_flops, result.name

    # 5. Analysed again, the same bytes.
    again = render(analysed(folder), "json")
    assert again.encode() == folder.file(run_folder.REPORT).read_bytes()

    document = json.loads(again)
    jsonschema.Draft202012Validator(schema()).validate(document)
    assert sum(row["ns"] for row in document["ledger"]) == document["latency"]["median_ns"]


@needs_captures
def test_captures_are_among_the_models() -> None:
    names = {path.stem for path in real_models()}
    assert {"RFB-320_simplified", "silero_vad_16k_op15", "polygraphy__qdq_conv", "polygraphy__residual_block"} <= names


def _run(model: Path, out: Path) -> Run:
    return execute(RunOptions(model=ModelRequest.of(model), output=str(out), **QUICK)).report()  # type: ignore[arg-type]


@pytest.mark.usefixtures("quick_runs")
def test_a_layer_above_the_roof_is_a_trust_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ceilings a thousand times too low, every large layer is impossibly fast and must be doubted."""
    fixed_calibration(monkeypatch, fixed_ceilings(scale=1e-3))
    run = _run(next(path for path in real_models() if path.stem == "resnet_tiny"), tmp_path / "run")
    doubted = {name for finding in run.findings if finding.code == "TR901" for name in finding.layers}
    assert doubted
    assert run.verdict.startswith("no verdict: ")
    assert "is above the measured latency" in run.bound_reason
    assert all(finding.lost_ns == 0 for finding in run.findings if finding.kind == "trust")
    assert not doubted & {layer for finding in run.findings if finding.kind != "trust" for layer in finding.layers}


@pytest.mark.usefixtures("quick_runs")
def test_inferences_in_which_another_layer_is_slow_each_have_no_gaps(tmp_path: Path) -> None:
    """The kernels of each take 97 % of its span, though the medians of layers are a tenth of it."""
    model = next(path for path in real_models() if path.stem == "resnet_tiny")
    folder = execute(RunOptions(model=ModelRequest.of(model), output=str(tmp_path / "run"), **QUICK))  # type: ignore[arg-type]
    kernels, number = folder.table(run_folder.KERNELS), 11
    one = kernels[kernels["iteration"] == 0]
    assert not {layer.graph for layer in folder.read(run_folder.ENGINE, Engine).layers} - {""}
    slow = np.arange(len(one))[None, :] % number == np.arange(number)[:, None]
    dur = np.where(slow, 2_000_000, 10_000)
    made = pd.concat([one.assign(iteration=at) for at in range(number)], ignore_index=True)
    made["dur_ns"] = made["self_ns"] = dur.ravel()
    # A launch lies between each kernel and the next: what the profiler does there, and 1 us.
    between = round(fixed_ceilings().profiler_gap_ns) + 1000
    made["start_ns"] = (np.cumsum(dur + between, axis=1) - dur).ravel()
    made.to_parquet(folder.file(run_folder.KERNELS))
    capture = folder.read(run_folder.CAPTURE, Capture)
    span = round(float(np.median((dur + between).sum(axis=1))))
    clean = msgspec.structs.replace(capture.latency, median_ns=span, p99_ns=span, cv=0.0)
    folder.write(run_folder.CAPTURE, msgspec.structs.replace(capture, latency=clean, profiled=clean))

    run = analysed(folder)
    rows = {row.cause: row.ns for row in run.ledger}
    assert sum(rows.values()) == span
    busy = dur.sum(axis=1) / (dur + between).sum(axis=1)
    assert np.median(busy) > 0.97
    assert sum(layer.measured_ns for layer in run.layers) < 0.15 * span
    assert rows[ADDING] > 0.8 * span
    assert not [finding for finding in run.findings if finding.code == "HO501"]


@pytest.mark.usefixtures("quick_runs")
def test_bounds_follow_a_faster_machine_and_not_a_slower_one(tmp_path: Path) -> None:
    """Ceilings of a clock that was half as high are too low; a clock that is lower now makes no bound longer."""
    model = next(path for path in real_models() if path.stem == "resnet_tiny")
    folder = execute(RunOptions(model=ModelRequest.of(model), output=str(tmp_path / "run"), **QUICK))  # type: ignore[arg-type]
    probe = min(folder.read(run_folder.CAPTURE, Capture).probe_ns)
    peaks = {}
    for then in (0.5, 1.0, 2.0):
        for band in (0, 25):
            kept = msgspec.structs.replace(fixed_ceilings(), probe_ns=then * probe, band=band)
            folder.write(run_folder.CEILINGS, kept)
            run = analysed(folder)
            assert run.speed == pytest.approx(then)
            peaks[then, band] = run.ceilings.attainable.tensor_flops_per_s["fp32"] / 5e11
            assert run.ceilings.best == run.ceilings.attainable
    assert peaks == pytest.approx({(t, b): max(t, 1) * (1 + b / 100) for t in (0.5, 1.0, 2.0) for b in (0, 25)})


@pytest.mark.usefixtures("quick_runs")
def test_an_op_without_a_cost_is_listed_with_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TfIdfVectorizer runs on the CPU; without its cost function it is unsupported, never free."""
    assert ("", "TfIdfVectorizer") in COSTS.keys()  # noqa: SIM118 - not a dict: asking loads it
    others = {key: found for key, found in COSTS._entries.items() if key != ("", "TfIdfVectorizer")}
    monkeypatch.setattr(COSTS, "_entries", others)
    node = helper.make_node(
        "TfIdfVectorizer", ["ids"], ["counts"], name="tfidf", mode="TF", min_gram_length=1, max_gram_length=1,
        max_skip_count=0, ngram_counts=[0], ngram_indexes=[0, 1, 2], pool_int64s=[1, 2, 3],
    )  # fmt: skip
    scale = helper.make_node("Mul", ["counts", "counts"], ["y"], name="square")
    graph = helper.make_graph(
        [node, scale],
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [4096])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])],
    )
    path = tmp_path / "tfidf.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    run = _run(path, tmp_path / "run")
    assert [(op.op_type, op.count, op.reason) for op in run.unsupported] == [("TfIdfVectorizer", 1, "no cost function")]
    layer = next(layer for layer in run.layers if layer.op_type == "TfIdfVectorizer")
    assert (layer.flops, layer.bytes, layer.ideal_ns, layer.attainable_ns, layer.bound) == (None,) * 4 + ("unknown",)
    unpriced = sum(row.ns for row in run.ledger if row.cause == "kernels without a price")
    assert unpriced == layer.measured_ns
    assert "TfIdfVectorizer" in render(run, "text")
    assert "TfIdfVectorizer" in render(run, "html")


@pytest.mark.usefixtures("quick_runs")
def test_inputs_from_files_are_the_values_that_run(tmp_path: Path) -> None:
    """Indices out of range would fail, so a run with good ones shows that the file was used."""
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "ids"], ["y"], name="gather")],
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])],
        [onnx.numpy_helper.from_array(np.zeros((4, 2), np.float32), "table")],
    )
    path = tmp_path / "gather.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    good, bad = tmp_path / "good.npy", tmp_path / "bad.npy"
    np.save(good, np.array([0, 1, 2, 3, 3], np.int64))
    np.save(bad, np.array([0, 1, 2, 3, 9], np.int64))

    def options(file: Path, out: str) -> RunOptions:
        return RunOptions(
            model=ModelRequest.of(path),
            load_inputs=(f"ids:{file}",),
            output=str(tmp_path / out),
            **QUICK,  # type: ignore[arg-type]
        )

    run = execute(options(good, "good")).report()
    assert run.model.inputs[0].shape == (5,)
    assert run.model.inputs[0].values == "file good.npy"
    from trtprof.base.errors import CaptureError

    with pytest.raises(CaptureError, match="does not run with these inputs") as caught:
        execute(options(bad, "bad"))
    assert "gather" in caught.value.why.lower()
