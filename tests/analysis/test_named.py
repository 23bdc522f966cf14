"""A bare capture and a model: the names of NVTX ranges lead to nodes, nodes and kernel names to a priced ranking."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.fakes import command_line
from tests.fakes.command_line import trtprof
from tests.fakes.resnet_factory import HALF_KERNEL, REFORMAT, engine_of, layer_names, write_capture, write_resnet18
from tests.fakes.stats_factory import write_stats
from tests.fakes.support import ROOT, SAMPLES, captured, refused
from tests.fakes.trace_factory import COPIES, Layer, Rows, Work, global_tid
from trtprof.base.errors import UsageError
from trtprof.base.records import LayerResult, Run
from trtprof.capture.nsys.trace import read_trace
from trtprof.engine.inspector import read_layer_info
from trtprof.flows.analyze import Files, analyze, sort_files
from trtprof.flows.predict.on_gpus import Settings
from trtprof.hardware import gpus
from trtprof.report import render
from trtprof.source.request import ModelRequest

BATCH = 8
INT8_KERNEL = "sm80_xmma_fprop_implicit_gemm_interleaved_i8i8_i8i32_f32_nchw_vect_c_32kcrs_vect_c_32_kernel"
FULL_KERNEL = "ampere_sgemm_128x64_tn"
MIXED_KERNEL = "sm80_xmma_gemm_f16f32_f16f32_f32_tn_n_tilesize128x128x32_stage4_warpsize2x2x1_tensor16x8x16_kernel"


def run_of(
    nsys: Path, model: Path, *, batch: int | None = None, gpu: str = "a100-pcie-80gb", shapes: tuple[str, ...] = ()
) -> Run:
    request = ModelRequest.of("", shapes, batch)
    found = analyze(Files(onnx=model, nsys=nsys), [gpus.find(gpu)], Settings(), request)
    assert isinstance(found, Run)
    return found


def by_name(run: Run) -> dict[str, LayerResult]:
    return {layer.name: layer for layer in run.layers}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "resnet18.onnx"
    write_resnet18(path, width=16, size=64)
    return path


@pytest.fixture
def capture(tmp_path: Path, model: Path) -> Path:
    path = tmp_path / "run.sqlite"
    write_capture(path, engine_of(onnx.load(model)))
    return path


def test_a_bare_capture_and_a_model_give_a_priced_ranking(tmp_path: Path, model: Path) -> None:
    proto = onnx.load(model)
    path = tmp_path / "run.sqlite"
    kernel_ns = write_capture(path, engine_of(proto))
    run = run_of(path, model, batch=BATCH, gpu="rtx-4090")
    assert run.captured_ns == kernel_ns
    own = [kernel for layer in run.layers for kernel in layer.kernels]
    assert sum(kernel.total_ns for kernel in (*own, *run.kernels_unattributed)) == run.captured_ns
    assert sum(row.ns for row in run.ledger) == run.latency.median_ns
    assert run.coverage.exact == pytest.approx(1.0)
    layers = by_name(run)
    assert layers.keys() == {REFORMAT + layer_names(proto)[0], *layer_names(proto)}
    for name in layer_names(proto):
        layer = layers[name]
        assert " + ".join(layer.nodes) in (name, f"{name} + /flatten/Flatten", f"/flatten/Flatten + {name}")
        assert layer.match == "exact"
        assert layer.lost_ns == layer.measured_ns - (layer.attainable_ns or 0)
    # 16 channels of 56 x 56 in and out, 3 x 3, at fp16: 16x16 of it behind the pooling of a 64 x 64 image.
    conv = layers["/layer1/layer1.0/conv1/Conv + /layer1/layer1.0/relu/Relu"]
    pixels = BATCH * 16 * 16
    assert conv.work is not None
    assert conv.work.tensor_flops == 2 * pixels * 16 * 16 * 9
    assert conv.bytes == 2 * (2 * pixels * 16 + 16 * 16 * 9 + 16)
    assert conv.dtype == "fp16"
    assert [layer.name for layer in run.layers] == sorted(layers, key=lambda name: (-(layers[name].lost_ns or 0), name))
    assert {node.fate for node in run.nodes} <= {"layer", "folded", "eliminated"}
    # What layers compute is what their nodes do, each once.
    assert sum(layer.flops or 0 for layer in run.layers) == sum(node.flops or 0 for node in run.nodes)
    assert "no verdict" not in run.verdict
    assert "by match exact 24 3.85 MB 1.18 ms 100.0 %" in " ".join(render(run, "text").split())


def test_a_command_of_two_files_prints_the_ranking_and_the_coverage(capture: Path, model: Path) -> None:
    done = trtprof("analyze", "--nsys", capture, "--onnx", model, "--batch", BATCH, "--gpu", "a100-pcie-80gb")
    assert done.exit_code == 0, done.output
    for words in ("by match exact 24 ", "of the excess", "peaks not measured"):
        assert words in " ".join(done.stdout.split())
    without = command_line.refused(trtprof("analyze", capture, "--batch", BATCH, "--gpu", "l4"))
    assert "--batch is of no use without the ONNX model" in without


def test_real_names_and_kernels_are_priced_like_the_detailed_plan(tmp_path: Path) -> None:
    """The plan of a real engine names its layers and tactics: without the rest of it the work is the same."""
    stem = "trex__examples__pytorch__resnet__A100__fp16__resnet.onnx.engine"
    plan_file, times = captured("layer_info", f"{stem}.graph.json"), captured("layer_info", f"{stem}.profile.json")
    took = {one["name"]: round(one["medianMs"] * 1e6) for one in json.loads(times.read_text())[1:]}
    layers = tuple(
        Layer(layer.name, (Work(layer.tactic or "generatedNativePointwise", took[layer.name]),))
        for layer in read_layer_info(plan_file).layers
        if took[layer.name]
    )
    model, nsys = tmp_path / "resnet18.onnx", tmp_path / "run.sqlite"
    write_resnet18(model, numbered=True)
    write_capture(nsys, layers)
    bare = run_of(nsys, model, batch=32)
    request = ModelRequest.of("", (), 32)
    detailed = analyze(
        Files(layers=plan_file, onnx=model, nsys=nsys), [gpus.find("a100-pcie-80gb")], Settings(), request
    )
    assert isinstance(detailed, Run)
    assert bare.coverage == detailed.coverage
    known, found = by_name(detailed), by_name(bare)
    assert known.keys() == found.keys()
    assert sum(layer.lost_ns is not None for layer in bare.layers) == len(known)
    for name, layer in found.items():
        assert layer.measured_ns == known[name].measured_ns
        if layer.role == "layout":
            assert layer.work is None
        elif name == "Conv_0 + Relu_1":
            # The engine pads its three channels to four, which the model cannot tell.
            assert (layer.bytes, known[name].bytes) == (61_032_960, 64_244_224)
        else:
            assert (layer.flops, layer.bytes, layer.dtype) == (known[name].flops, known[name].bytes, known[name].dtype)


def test_sums_of_kernels_by_range_are_enough_too(tmp_path: Path, capture: Path, model: Path) -> None:
    sums = write_stats(read_trace(capture), "nvtx_kern_sum", tmp_path / "nvtx_kern_sum.csv")
    whole, run = run_of(capture, model, batch=BATCH), run_of(sums, model, batch=BATCH)
    assert run.captured_ns == whole.captured_ns
    assert {name: (layer.measured_ns, layer.work) for name, layer in by_name(run).items()} == {
        name: (layer.measured_ns, layer.work) for name, layer in by_name(whole).items()
    }
    # What is in the cache hangs on the order of the layers, which sums do not have and nodes do.
    assert [layer.attainable_ns for layer in run.layers] == [layer.attainable_ns for layer in whole.layers]


def test_what_leads_to_no_node_keeps_its_time_and_has_no_price(tmp_path: Path, model: Path) -> None:
    proto = onnx.load(model)
    strange = Layer("__myl_MulSum_myl0_3", (Work("__myl_MulSum_0x0123456789abcdef", 70_000),))
    path = tmp_path / "run.sqlite"
    write_capture(path, (*engine_of(proto), strange))
    run = run_of(path, model, batch=BATCH)
    layer = by_name(run)[strange.name]
    assert (layer.measured_ns, layer.match) == (70_000, "none")
    assert (layer.ideal_ns, layer.attainable_ns, layer.lost_ns, layer.work) == (None, None, None, None)
    assert [row.measured_ns for row in run.unsupported] == [70_000]
    assert {row.cause: row.ns for row in run.ledger}["kernels without a price"] == 70_000
    assert not any(strange.name in finding.layers for finding in run.findings if finding.code == "LA401")
    assert run.coverage.unattributed > 0
    # A reformat is lost whatever it moves.
    reformat = by_name(run)[REFORMAT + layer_names(proto)[0]]
    assert (reformat.role, reformat.lost_ns, reformat.work) == ("layout", reformat.measured_ns, None)


def test_a_range_of_nodes_is_inferred_and_priced_as_one(tmp_path: Path, model: Path) -> None:
    proto = onnx.load(model)
    foreign = "{ForeignNode[/avgpool/GlobalAveragePool.../fc/Gemm]}"
    layers = (*engine_of(proto)[:-2], Layer(foreign, (Work("__myl_Fc_0x0123456789abcdef", 30_000),)))
    path = tmp_path / "run.sqlite"
    write_capture(path, layers)
    run = run_of(path, model, batch=BATCH)
    layer = by_name(run)[foreign]
    assert layer.match == "inferred"
    assert layer.nodes == ("/avgpool/GlobalAveragePool", "/flatten/Flatten", "/fc/Gemm")
    assert layer.work is not None
    assert layer.work.tensor_flops == 2 * BATCH * 128 * 1000
    assert layer.work.bound == "lower"
    assert run.coverage.inferred > 0


def test_a_capture_of_another_model_is_refused(tmp_path: Path, model: Path) -> None:
    path = tmp_path / "run.sqlite"
    write_capture(path, (Layer("conv_of_another", (Work(HALF_KERNEL),)),))
    with pytest.raises(UsageError) as caught:
        run_of(path, model)
    message = refused(caught.value)
    assert "no layer of" in message
    assert "'conv_of_another'" in message
    assert "'/conv1/Conv'" in message


@pytest.mark.parametrize("report", ["", "cuda_gpu_kern_sum"])
def test_without_ranges_nothing_leads_to_the_model(tmp_path: Path, model: Path, capture: Path, report: str) -> None:
    path = tmp_path / "bare.sqlite"
    write_capture(path, engine_of(onnx.load(model)), ranges=False)
    if report:
        path = write_stats(read_trace(capture), report, tmp_path / f"{report}.csv")
    with pytest.raises(UsageError) as caught:
        run_of(path, model)
    assert "does not tell which nodes of the model a kernel computes" in refused(caught.value)


def chain(tmp_path: Path, *op_types: str) -> Path:
    """MatMuls of 64 by 64 and pointwise ops, one behind the other."""
    weights = helper.make_tensor("w", TensorProto.FLOAT, [64, 64], [0.0] * 4096)
    nodes = [
        helper.make_node(
            kind,
            [f"t{at}", *(["w"] if kind == "MatMul" else ["t2"] if kind == "Mul" else [])],
            [f"t{at + 1}"],
            name=f"/{kind}_{at}",
        )
        for at, kind in enumerate(op_types)
    ]
    ends = [helper.make_tensor_value_info(f"t{at}", TensorProto.FLOAT, [512, 64]) for at in (0, len(op_types))]
    path = tmp_path / "chain.onnx"
    onnx.save(
        helper.make_model(
            helper.make_graph(nodes, "chain", ends[:1], ends[1:], [weights]),
            opset_imports=[helper.make_opsetid("", 17)],
            ir_version=8,
        ),
        path,
    )
    return path


def chained(tmp_path: Path, **kernels: str) -> tuple[Run, list[int | None]]:
    """A run of a chain, whose ops and kernels are named in order, and the bytes of its layers in order."""
    model = chain(tmp_path, *(name.partition("_")[0] for name in kernels))
    names = [f"/{name.partition('_')[0]}_{at}" for at, name in enumerate(kernels)]
    layers = [Layer(name, (Work(kernel, 9000),)) for name, kernel in zip(names, kernels.values(), strict=True)]
    path = tmp_path / "run.sqlite"
    write_capture(path, tuple(layers))
    run = run_of(path, model)
    return run, [by_name(run)[name].bytes for name in names]


TENSOR, WEIGHTS = 512 * 64, 64 * 64


@pytest.mark.parametrize(("kernel", "size", "dtype"), [(HALF_KERNEL, 2, "fp16"), (FULL_KERNEL, 4, "fp32")])
def test_a_kernel_tells_the_dtype_of_what_it_multiplies(tmp_path: Path, kernel: str, size: int, dtype: str) -> None:
    run, moved = chained(tmp_path, MatMul=kernel)
    assert moved == [size * (2 * TENSOR + WEIGHTS)]
    assert run.layers[0].dtype == dtype
    assert "unknown dtype" not in run.verdict


def test_a_tensor_is_stored_as_its_writer_says(tmp_path: Path) -> None:
    _, moved = chained(tmp_path, MatMul_a=MIXED_KERNEL, Relu="generatedNativePointwise", MatMul_b=HALF_KERNEL)
    # fp16 by fp16 into fp32, which the Relu reads; what it writes is read as fp16.
    assert moved[0] == 2 * (TENSOR + WEIGHTS) + 4 * TENSOR
    assert moved[1] == (4 + 2) * TENSOR
    assert moved[2] == 2 * (2 * TENSOR + WEIGHTS)


def test_what_no_kernel_tells_is_taken_as_the_narrowest(tmp_path: Path) -> None:
    run, moved = chained(tmp_path, MatMul=HALF_KERNEL, Relu="generatedNativePointwise", Exp="generatedNativePointwise")
    assert moved == [2 * (2 * TENSOR + WEIGHTS), 2 * 2 * TENSOR, 2 * 2 * TENSOR]
    told = "names of kernels tell the dtypes of 2 of 4 floating-point tensors; the others are taken as fp16"
    assert any(told in sentence for sentence in run.assumptions)
    assert "2 tensors of unknown dtype" in run.verdict


def test_where_no_kernel_tells_any_the_model_is_believed_and_that_is_said(tmp_path: Path) -> None:
    run, moved = chained(tmp_path, Relu="generatedNativePointwise")
    assert moved == [4 * 2 * TENSOR]
    assert "dtypes of the model" in run.verdict
    assert any("no name of a kernel tells a dtype" in sentence for sentence in run.assumptions)


def test_kernels_of_int8_tell_what_a_quantised_model_multiplies(tmp_path: Path) -> None:
    model, nsys = SAMPLES / "qdq_cnn.onnx", tmp_path / "run.sqlite"
    write_capture(nsys, (Layer("/stage1/conv1/Conv + /stage1/conv1/Relu", (Work(INT8_KERNEL, 9000),)),))
    (layer,) = run_of(nsys, model, batch=4).layers
    pixels, weights = 4 * 16 * 32 * 32, 16 * 16 * 9
    assert layer.work is not None
    assert (layer.dtype, layer.work.dtype, layer.work.tensor_flops) == ("int8", "int8", 2 * pixels * 16 * 9)
    # What the quantised weights and the bias of the model take, and a byte for each of the others.
    assert layer.bytes == 2 * pixels + weights + 16 * 4


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("/MatMul_0 + /Relu_1", ("/MatMul_0", "/Relu_1")),
        ("/MatMul_0 || /Relu_1", ("/MatMul_0", "/Relu_1")),
        ("PWN(/Relu_1)", ("/Relu_1",)),
        ("PWN(PWN(/Sigmoid_2), /Mul_3)", ("/Sigmoid_2", "/Mul_3")),
        ("/MatMul_0 + PWN(/Relu_1) [profile 1]", ("/MatMul_0", "/Relu_1")),
        ("w + /MatMul_0", ("/MatMul_0",)),
        ("(Unnamed Layer* 3) [Shuffle] + /MatMul_0", ("/MatMul_0",)),
        ("{ForeignNode[/Relu_1.../Mul_3]}", ("/Relu_1", "/Sigmoid_2", "/Mul_3")),
        ("Reformatting CopyNode for Output Tensor 0 to /MatMul_0", ()),
        ("[trainStation1]", ()),
    ],
)
def test_ranges_are_read_by_the_grammar_of_plans(tmp_path: Path, name: str, nodes: tuple[str, ...]) -> None:
    model, nsys = chain(tmp_path, "MatMul", "Relu", "Sigmoid", "Mul", "Exp"), tmp_path / "run.sqlite"
    write_capture(nsys, (Layer(name, (Work("kernel", 9000),)), Layer("/Exp_4", (Work("kernel", 100),))))
    run = run_of(nsys, model)
    assert tuple(node.name for node in run.nodes if name in node.layers) == nodes
    assert (by_name(run)[name].work is not None) == bool(nodes)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.sets(st.integers(1, 5)), junk=st.sets(st.integers(0, 6)))
def test_however_nodes_are_fused_the_work_is_theirs_and_no_time_is_lost(
    tmp_path: Path, cuts: set[int], junk: set[int]
) -> None:
    """Layers of neighbouring nodes, and ranges between them that name none."""
    kinds = ("MatMul", "Relu", "MatMul", "Sigmoid", "Exp", "MatMul")
    model, nsys = chain(tmp_path, *kinds), tmp_path / "run.sqlite"
    ends = [0, *sorted(cuts), len(kinds)]
    named = [" + ".join(f"/{kinds[at]}_{at}" for at in range(first, last)) for first, last in itertools.pairwise(ends)]
    layers = [Layer(name, (Work(HALF_KERNEL, 5000 + 7 * at),)) for at, name in enumerate(named)]
    for at in sorted(junk):
        layers.insert(min(at, len(layers)), Layer(f"__myl_Junk{at}_myl0_{at}", (Work("kernel", 300 + at),)))
    captured_ns = write_capture(nsys, tuple(layers))
    run = run_of(nsys, model)
    own = [kernel.total_ns for layer in run.layers for kernel in layer.kernels]
    assert sum(own) + sum(match.total_ns for match in run.kernels_unattributed) == run.captured_ns == captured_ns
    assert sum(row.ns for row in run.ledger) == run.latency.median_ns
    found = by_name(run)
    assert sum(found[name].flops or 0 for name in named) == sum(node.flops or 0 for node in run.nodes)
    for (first, last), name in zip(itertools.pairwise(ends), named, strict=True):
        products = kinds[first:last].count("MatMul")
        assert found[name].bytes == 2 * (2 * TENSOR + (WEIGHTS if products else 0))
    assert all(found[layer.name].work is None for layer in layers if "Junk" in layer.name)


def ideal_ns(run: Run) -> dict[str, int]:
    return {layer.name: layer.ideal_ns or 0 for layer in run.layers}


def as_fast_as_at(tmp_path: Path, model: Path, capture: Path, batch: int) -> Path:
    """The capture of an engine each of whose layers took just its ideal time at a batch."""
    ideal = ideal_ns(run_of(capture, model, batch=batch))
    path = tmp_path / f"ideal_{batch}.sqlite"
    layers = [
        layer._replace(work=tuple(work._replace(ns=max(ideal[layer.name], 1)) for work in layer.work))
        for layer in engine_of(onnx.load(model))
    ]
    write_capture(path, tuple(layers))
    return path


def test_an_open_batch_is_bracketed_by_the_roofs(tmp_path: Path) -> None:
    model, slow = tmp_path / "resnet18.onnx", tmp_path / "slow.sqlite"
    write_resnet18(model)
    write_capture(slow, engine_of(onnx.load(model)))
    fast = as_fast_as_at(tmp_path, model, slow, 32)
    run = run_of(fast, model)
    # A tenth is left to clocks above that of the datasheet.
    largest = next(
        batch for batch in range(32, 64) if f"the batch is not known, 1 to {batch} are possible" in run.verdict
    )
    measured = {layer.name: layer.measured_ns for layer in run.layers}

    def above(batch: int) -> bool:
        return any(ns > 1.1 * measured[name] for name, ns in ideal_ns(run_of(fast, model, batch=batch)).items())

    assert above(largest + 1)
    assert not above(largest)
    # Nothing is priced at a batch that nobody told, and the page says what decides.
    assert all(layer.work is None and layer.ideal_ns is None for layer in run.layers)
    assert all(node.flops is None for node in run.nodes if node.op_type == "Conv")
    assert run.model.inputs[0].shape is None
    assert not any("1 assumed" in sentence for sentence in run.assumptions)
    assert "--batch decides" in run.verdict
    assert any("alone would take at least" in sentence for sentence in run.assumptions)
    assert f"1 to {largest} are possible" in " ".join(render(run, "text").split())


def test_copies_to_the_gpu_hint_at_the_batch(tmp_path: Path, model: Path) -> None:
    """Inputs are copied for each inference: of three sizes one is that of whole images, and comes again."""
    image, rows, path = 3 * 64 * 64 * 4, Rows(), tmp_path / "run.sqlite"
    for at, size in enumerate((8 * image, 8 * image, 2 * image, 8 * image + 4, 8 * image + 4)):
        rows.add(
            COPIES, start=1000 * at, end=1000 * at + 500, deviceId=0, contextId=1, streamId=7, correlationId=at + 1,
            globalPid=global_tid(111, 0), bytes=size, copyKind=1,
        )  # fmt: skip
    write_capture(path, engine_of(onnx.load(model)), rows=rows)
    assert "(copies to the GPU are as large as the inputs of 8), --batch decides" in run_of(path, model).verdict


def test_where_not_even_one_image_fits_that_is_said(tmp_path: Path) -> None:
    model, fast = tmp_path / "resnet18.onnx", tmp_path / "fast.sqlite"
    write_resnet18(model)
    write_capture(fast, engine_of(onnx.load(model), ns=2))
    run = run_of(fast, model)
    assert "no batch is possible" in run.verdict
    assert any("another model, or another GPU" in sentence for sentence in run.assumptions)


def test_a_model_that_leaves_more_open_than_its_batch_needs_its_shapes(tmp_path: Path, capture: Path) -> None:
    model = tmp_path / "open.onnx"
    proto = write_resnet18(model, width=16, size=64)
    for dim in proto.graph.input[0].type.tensor_type.shape.dim[2:]:
        dim.dim_param = "side"
    onnx.save(proto, model)
    run = run_of(capture, model)
    assert "the shapes are not known, --shapes decides" in run.verdict
    assert all(layer.work is None for layer in run.layers)
    shaped = run_of(capture, model, shapes=("input:8x3x64x64",))
    assert sum(layer.ideal_ns or 0 for layer in shaped.layers) > 0


@pytest.fixture
def names(tmp_path: Path, model: Path) -> Path:
    """What trtexec exports of an engine without detailed verbosity."""
    path = tmp_path / "layers.json"
    found = [layer.name for layer in engine_of(onnx.load(model))]
    path.write_text(json.dumps({"Layers": found, "Bindings": ["input", "output"]}))
    return path


def test_a_file_of_names_is_enough_beside_a_profile(tmp_path: Path, names: Path, capture: Path, model: Path) -> None:
    profile = tmp_path / "profile.json"
    rows = [{"name": layer.name, "timeMs": 0.5, "averageMs": 0.05, "medianMs": 0.05, "percentage": 4.0}
            for layer in engine_of(onnx.load(model))]  # fmt: skip
    profile.write_text(json.dumps([{"count": 10}, *rows]))
    files = Files(layers=names, onnx=model, profile=profile)
    run = analyze(files, [gpus.find("a100-pcie-80gb")], Settings(), ModelRequest.of("", (), BATCH))
    assert isinstance(run, Run)
    conv = layer_names(onnx.load(model))[0]
    layer, by_kernel = by_name(run)[conv], by_name(run_of(capture, model, batch=BATCH))[conv]
    assert (layer.measured_ns, layer.match, layer.dtype) == (50_000, "exact", "fp32")
    # No kernel tells the dtype, so that the model's stands.
    assert layer.bytes == 2 * (by_kernel.bytes or 0)
    assert layer.flops == by_kernel.flops
    assert "dtypes of the model" in run.verdict
    without = analyze(files, [gpus.find("a100-pcie-80gb")], Settings())
    assert isinstance(without, Run)
    assert "--batch decides" in without.verdict


def test_a_profile_names_its_layers_too(tmp_path: Path, names: Path, model: Path) -> None:
    profile = tmp_path / "profile.json"
    found = json.loads(names.read_text())["Layers"]
    rows = [{"name": name, "timeMs": 0.5, "averageMs": 0.05, "medianMs": 0.05, "percentage": 4.0} for name in found]
    profile.write_text(json.dumps([{"count": 10}, *rows]))
    request, a100 = ModelRequest.of("", (), BATCH), [gpus.find("a100-pcie-80gb")]
    alone = analyze(sort_files([profile, model]), a100, Settings(), request)
    beside = analyze(sort_files([profile, model, names]), a100, Settings(), request)
    assert isinstance(alone, Run)
    assert isinstance(beside, Run)
    assert alone.layers == beside.layers
    with pytest.raises(UsageError) as caught:
        sort_files([profile])
    assert "beside a profile the ONNX model will do" in refused(caught.value)


def test_a_file_of_names_without_the_model_is_refused(names: Path, capture: Path) -> None:
    with pytest.raises(UsageError) as caught:
        analyze(Files(layers=names, nsys=capture), [gpus.find("l4")], Settings())
    assert "only the names of its 24 layers" in refused(caught.value)
    assert "--onnx" in str(caught.value)


def test_names_alone_never_tell_more_work_than_the_whole_plan(tmp_path: Path) -> None:
    """Myelin names few nodes: what no name tells is in no layer, rather than in one beside it."""
    plan_file, model = ROOT / "tests" / "engine" / "data" / "rtx_resnet_tiny.log", SAMPLES / "resnet_tiny.onnx"
    plan = read_layer_info(plan_file)
    layers = tuple(Layer(layer.name, (Work(layer.tactic or "kernel", 9000),)) for layer in plan.layers)
    nsys = tmp_path / "run.sqlite"
    write_capture(nsys, layers)
    request = ModelRequest.of("", (), 1)
    whole = analyze(Files(layers=plan_file, onnx=model, nsys=nsys), [gpus.find("rtx-4090")], Settings(), request)
    assert isinstance(whole, Run)
    run, truth = run_of(nsys, model, batch=1, gpu="rtx-4090"), by_name(whole)
    priced = [layer for layer in run.layers if layer.work is not None]
    named = {"/stem/MaxPool_myl0_3", "/stage3/block1/conv2/Conv_myl0_25", "/fc/Gemm_myl0_27"}
    assert {layer.name for layer in priced} == named
    for layer in priced:
        assert layer.match == "inferred"
        assert (layer.ideal_ns or 0) <= (truth[layer.name].ideal_ns or 0)
    assert run.verdict.startswith("no verdict")
    assert sum(node.fate == "lost" for node in run.nodes) > 30


def test_a_range_of_myelin_is_called_after_one_node_of_several(tmp_path: Path) -> None:
    model, nsys = chain(tmp_path, "MatMul", "Relu"), tmp_path / "run.sqlite"
    write_capture(nsys, (Layer("{ForeignNode[a]}", (Work(HALF_KERNEL, 9000),), myelin="/MatMul_0"),))
    (layer,) = run_of(nsys, model).layers
    assert (layer.name, layer.match, layer.nodes) == ("/MatMul_0", "inferred", ("/MatMul_0",))
    assert "Myelin calls a layer after one node of several" in layer.reason
