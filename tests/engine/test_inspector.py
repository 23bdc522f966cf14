from __future__ import annotations

import codecs
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.fakes.support import CAPTURES, layer_of_line, needs_captures, refused
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.records import (
    IDLE_KINDS,
    InferenceTimes,
    LayerTime,
    LayerTimes,
    Plan,
    PlanLayer,
    PlanTensor,
    PlanWeights,
)
from trtprof.engine._plan_formats import parse_format
from trtprof.engine._plan_names import layer_served, metadata_nodes, name_nodes
from trtprof.engine._plan_text import parse_layer_line
from trtprof.engine.inspector import join_profile, read_layer_info, read_profile, read_times

DATA = Path(__file__).parent / "data"
LAYER_INFO = CAPTURES / "layer_info"
LOGS = CAPTURES / "logs"


RESNET = "trex__examples__pytorch__resnet__A100__fp16__resnet.onnx.engine"
RESNET_QAT = "trex__examples__pytorch__resnet__A100__qat__resnet-qat.onnx.engine"
MOBILENET = "trex__tests__inputs__mobilenet.qat.onnx.engine"
MOBILENET_V2 = "trex__tests__inputs__mobilenet_v2_residuals.qat.onnx.engine"
MNIST = "trt10.16.0_ada__mnist.layers.json"


# --- what tests are made of -----------------------------------------------------------------


def tensor(name: str, dims: list[int], form: str = "Float", **more: Any) -> dict[str, Any]:
    return {"Name": name, "Location": "Device", "Dimensions": dims, "Format/Datatype": form, **more}


def layer(name: str = "conv1 + relu1", kind: str = "CaskConvolution", **more: Any) -> dict[str, Any]:
    return {
        "Name": name,
        "LayerType": kind,
        "Inputs": [tensor("x", [1, 3, 8, 8])],
        "Outputs": [tensor("y", [1, 16, 8, 8])],
        **more,
    }


def one_line(raw: dict[str, Any]) -> str:
    """A layer as TensorRT's one-line form has it."""

    def value(one: Any) -> str:
        return (
            one if isinstance(one, str) else json.dumps(one).replace(", ", ",") if isinstance(one, list) else f"{one}"
        )

    def tensors(ones: list[dict[str, Any]]) -> str:
        inner = ", ".join("{ " + ", ".join(f"{key}: {value(part)}" for key, part in one.items()) + " }" for one in ones)
        return f"[ {inner}]" if inner else "[]"

    lists = ("Inputs", "Outputs", "Constants")
    return ", ".join(
        f"{key}: {tensors(part) if key in lists else json.dumps(part) if isinstance(part, dict) else value(part)}"
        for key, part in raw.items()
    )


def write(folder: Path, content: Any, name: str = "layers.json") -> Path:
    path = folder / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8", newline="")
    return path


def by_name(plan: Plan, name: str) -> PlanLayer:
    return next(one for one in plan.layers if one.name == name)


def sizes(plan: Plan) -> dict[str, int | None]:
    """Bytes by tensor."""
    return {one.name: one.nbytes for layer in plan.layers for one in (*layer.inputs, *layer.constants, *layer.outputs)}


def times(*names: str, complete: bool = True) -> LayerTimes:
    rows = (
        LayerTime(name=name, total_ns=10 * index, average_ns=index, fraction=0.0) for index, name in enumerate(names, 1)
    )
    return LayerTimes(iterations=10, layers=tuple(rows), complete=complete)


def plan_of(*names: str) -> Plan:
    return Plan(era="a test's", layers=tuple(PlanLayer(name=name, kind="kgen") for name in names))


# --- real files -----------------------------------------------------------------------------


BYTES = {
    "Row major linear FP32": (4, 1), "Row major linear FP16 format": (2, 1),
    "Channel major FP16 format where channel % 4 == 0": (2, 4),
    "Channel major FP16 format where channel % 8 == 0": (2, 8),
    "Channel major FP16 format where channel % 16 == 0": (2, 16),
    "Two wide channel vectorized row major FP16 format": (2, 2),
    "Four wide channel vectorized row major Int8 format": (1, 4),
    "Thirty-two wide channel vectorized row major Int8 format": (1, 32),
    "Thirty-two wide channel vectorized row major FP16 format": (2, 32),
    "Thirty-two wide channel vectorized row major FP32 format": (4, 32),
    "Float": (4, 1), "Half": (2, 1), "Int8": (1, 1), "Int32": (4, 1), "Int64": (8, 1),
}  # fmt: skip
"""All formats of the captures: bytes of an element, and the multiple that the channels (dimension 1) fill."""


def bytes_by_table(raw: dict[str, Any]) -> int:
    """Bytes that a layer of the captures moves."""
    total: int = 0
    for one in (*raw["Inputs"], *raw["Outputs"]):
        width, multiple = BYTES[one["Format/Datatype"]]
        dims = list(one["Dimensions"])
        if multiple > 1:
            dims[1] = math.ceil(dims[1] / multiple) * multiple
        total += math.prod(dims) * width
    held = (raw.get("Weights"), raw.get("Bias"))
    return total + sum(BYTES[one["Type"]][0] * int(one["Count"]) for one in held if one)


@needs_captures
@pytest.mark.parametrize(
    ("file", "layers", "bindings"),
    [
        (f"{RESNET}.graph.json", 36, ["input.1", "191"]),
        (f"{RESNET_QAT}.graph.json", 37, ["input.1", "422"]),
        (f"{MOBILENET}.graph.json", 73, ["input1", "1179"]),
        (f"{MOBILENET_V2}.graph.json", 58, ["inputs.1", "1304"]),
        (MNIST, 9, ["x", "y", "z"]),
    ],
)
def test_captured_layer_info(file: str, layers: int, bindings: list[str]) -> None:
    plan = read_layer_info(LAYER_INFO / file)
    assert len(plan.layers) == layers
    assert [one.name for one in plan.bindings] == bindings
    assert [one.mode for one in plan.bindings] == ["input"] + ["output"] * (len(bindings) - 1)
    assert all(one.dtype and one.dims for one in plan.bindings)
    assert all(one.nbytes == 0 for one in plan.layers if one.kind in IDLE_KINDS)
    assert all(one.nbytes for one in plan.layers if one.kind not in IDLE_KINDS)
    for raw, one in zip(json.loads((LAYER_INFO / file).read_bytes())["Layers"], plan.layers, strict=True):
        assert one.nbytes == (0 if one.kind == "NoOp" else bytes_by_table(raw))
        assert one.name == raw["Name"]
        assert one.kind == raw["LayerType"]
        assert one.tactic == raw.get("TacticName", "")
        assert (one.weights.count if one.weights else None) == raw.get("Weights", {}).get("Count")
        assert one.attributes.get("Kernel") == (tuple(raw["Kernel"]) if "Kernel" in raw else None)
        assert [list(each.dims or ()) for each in one.inputs] == [each["Dimensions"] for each in raw["Inputs"]]


@needs_captures
def test_bytes_of_captured_tensors_by_hand() -> None:
    resnet = sizes(read_layer_info(LAYER_INFO / f"{RESNET}.graph.json"))
    quantised = sizes(read_layer_info(LAYER_INFO / f"{RESNET_QAT}.graph.json"))
    mobilenet = sizes(read_layer_info(LAYER_INFO / f"{MOBILENET}.graph.json"))
    mnist = sizes(read_layer_info(LAYER_INFO / MNIST))
    # Channel major FP16 where channel % 4 == 0: 3 channels take the room of 4.
    assert resnet["Reformatted Input Tensor 0 to Conv_0 + Relu_1"] == 32 * 4 * 224 * 224 * 2
    assert resnet["191"] == 32 * 1000 * 4
    # Four wide Int8: 3 channels as 4. Two wide FP16: 512 are even already.
    assert quantised["onnx::DequantizeLinear_125"] == 32 * 4 * 224 * 224
    assert quantised["Reformatted Input Tensor 0 to GlobalAveragePool_246"] == 32 * 512 * 7 * 7 * 2
    # Thirty-two wide: 16 and 24 channels as 32.
    assert mobilenet["365"] == 32 * 112 * 112
    assert mobilenet["410"] == 32 * 56 * 56 * 2
    assert mobilenet["994"] == 160 * 7 * 7 * 4
    assert mnist["z"] == 8


@needs_captures
@pytest.mark.parametrize(
    ("engine", "iterations"), [(RESNET, 1), (RESNET_QAT, 1), (MOBILENET, 6610), (MOBILENET_V2, 8657)]
)
def test_captured_profiles_join_row_by_row(engine: str, iterations: int) -> None:
    plan = read_layer_info(LAYER_INFO / f"{engine}.graph.json")
    profile = read_profile(LAYER_INFO / f"{engine}.profile.json")
    assert profile.iterations == iterations
    joined, notes = join_profile(plan, profile)
    assert notes == ()
    rows = json.loads((LAYER_INFO / f"{engine}.profile.json").read_bytes())[1:]
    assert [(one.name, one.average_ns) for one in joined if one] == [
        (row["name"], round(row["averageMs"] * 1e6)) for row in rows
    ]
    assert sum(row.fraction for row in profile.layers) == pytest.approx(1, abs=1e-4)
    # What runs nothing takes no time: the evidence behind IDLE_KINDS.
    idle = [time for one, time in zip(plan.layers, joined, strict=True) if one.kind in IDLE_KINDS]
    assert idle
    assert all(one is not None and one.total_ns == 0 for one in idle)


@needs_captures
def test_captured_profile_of_another_engine_is_refused() -> None:
    plan = read_layer_info(LAYER_INFO / f"{RESNET}.graph.json")
    with pytest.raises(UsageError) as caught:
        join_profile(plan, read_profile(LAYER_INFO / f"{RESNET_QAT}.profile.json"))
    message = refused(caught.value)
    assert "row 0 is 'QuantizeLinear_2'" in message
    assert "'Reformatting CopyNode for Input Tensor 0 to Conv_0 + Relu_1' there" in message
    assert "0 of 37 rows match" in message


@needs_captures
@pytest.mark.parametrize(("engine", "count"), [(RESNET, 3698), (RESNET_QAT, 3614)])
def test_captured_times(engine: str, count: int) -> None:
    read = read_times(LAYER_INFO / f"{engine}.timing.json")
    assert read.summary is None
    columns = [getattr(read, name) for name in InferenceTimes.__struct_fields__ if name.endswith("_ns")]
    assert {len(column) for column in columns} == {count}
    # trex's own summary of the same file: the median of the latency.
    summary = json.loads((LAYER_INFO / f"{engine}.profile.metadata.json").read_bytes())["performance_summary"]
    assert sorted(read.latency_ns)[count // 2] / 1e6 == pytest.approx(summary["Latency"][3], rel=1e-3)


@needs_captures
def test_captured_metadata() -> None:
    plan = read_layer_info(LAYER_INFO / MNIST)
    assert plan.layers[0].onnx_nodes == ("node_conv2d", "node_relu")  # U+001E between them
    assert plan.layers[4].onnx_nodes == ("node_linear", "node_relu_2")  # U+001F
    assert [one.nodes_from for one in plan.layers] == ["metadata"] * 8 + ["none"]
    assert plan.layers[0].weights == PlanWeights(dtype="fp32", count=800)
    assert plan.layers[0].nbytes == (28 * 28 + 32 * 28 * 28 + 800 + 32) * 4
    assert plan.era == "TensorRT 10, JSON"
    assert plan.notes == ()


@needs_captures
def test_captured_names_only() -> None:
    with pytest.raises(UsageError) as caught:
        read_layer_info(LAYER_INFO / "trt8.6.0_names_only.layers.json")
    message = refused(caught.value)
    assert "only the names of its 15 layers" in message
    assert "--profilingVerbosity=detailed" in message


@needs_captures
def test_captured_inspector_log_of_two_profiles() -> None:
    plan = read_layer_info(LOGS / "trt10.16.0_ada__EngineInspector.log")
    # The marks of the second profile are in the names of some layers, in tensors of others, or in neither.
    assert [one.profile for one in plan.layers] == [0] * 14 + [1] * 14
    assert [(one.name, one.mode) for one in plan.bindings] == [("x", "input"), ("y", "output"), ("z", "output")]
    conv, again = plan.layers[1], plan.layers[15]
    assert conv.onnx_nodes == again.onnx_nodes == ("node_conv2d", "node_relu")
    assert (conv.weights, conv.bias) == (PlanWeights(dtype="fp16", count=800), PlanWeights(dtype="fp16", count=32))
    assert conv.attributes["Kernel"] == (5, 5)
    assert conv.attributes["Activation"] == "RELU"
    assert plan.layers[0].serves == "node_conv2d + node_relu"
    assert plan.layers[14].serves == "node_conv2d + node_relu"
    assert plan.layers[0].origin == "REFORMAT"
    assert plan.layers[0].inputs[0].dims == (-1, 1, 28, 28)
    assert conv.nbytes is None
    assert any("32 of 32 tensors have dimensions that depend on the input" in note for note in plan.notes)


@needs_captures
def test_captured_printed_profile() -> None:
    profile = read_profile(LOGS / "trt10.16.0_ada__trtexec_dumpProfile.log")
    assert profile.iterations == 19126
    assert len(profile.layers) == 16
    assert not profile.complete
    assert sum(row.total_ns for row in profile.layers) == pytest.approx(1452.72e6, abs=16 * 0.005e6)
    row = profile.layers[8]
    assert row.name == "PWN(node_linear_1 + node_relu_2)"
    assert (row.total_ns, row.average_ns, row.median_ns) == (76_080_000, 4000, 3100)
    assert row.fraction == pytest.approx(0.052)


def test_log_of_a_build_the_gemv_of_the_story() -> None:
    plan = read_layer_info(DATA / "rtx_gemv.log")
    (only,) = plan.layers
    assert only.nbytes == 250_828_800
    assert only.kind == "kgen"
    assert only.onnx_nodes == ("/gemv/MatMul",)
    assert only.tactic == "__myl_ReplReshReshMulSum_0xd253a876daa1168c8acb1e486c5da3b5"
    assert plan.bindings[0].profiles[0].opt == plan.bindings[0].dims == (600, 200, 8, 1, 64)
    assert plan.era == "TensorRT 11 or TensorRT-RTX, text of one line a layer"
    assert plan.notes == ()


def test_log_of_a_build_with_dynamic_shapes() -> None:
    plan = read_layer_info(DATA / "rtx_resnet_tiny.log")
    assert len(plan.layers) == 29
    kinds = [one.kind for one in plan.layers]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "shape_call": 1, "kgen": 3, "runtime_fusion": 14, "maxpool": 1, "signal": 4, "wait": 4, "correlation": 1,
        "gemm": 1,
    }  # fmt: skip
    nodes = {node for one in plan.layers for node in one.onnx_nodes}
    assert {"/stem/conv/Conv", "/stage2/block0/Add", "/fc/Gemm", "/softmax/Softmax"} <= nodes
    stem = plan.layers[2]
    assert stem.onnx_nodes == ("/stem/conv/Conv", "/stem/bn/BatchNormalization", "/stem/Relu")
    assert [one.nbytes for one in stem.constants] == [64, 64, 16 * 3 * 3 * 3 * 4]
    assert stem.outputs[0].strides == (65536, 1, 1024, 16)
    assert stem.outputs[0].format == "(NHWC) Channel major format"
    assert [(one.name, one.mode, one.dtype, one.dims) for one in plan.bindings] == [
        ("image", "input", "fp32", (-1, 3, 64, 64)),
        ("probabilities", "output", "fp32", (-1, 10)),
    ]
    shapes = plan.bindings[0].profiles[0]
    assert (shapes.min, shapes.opt, shapes.max) == ((1, 3, 64, 64), (2, 3, 64, 64), (8, 3, 64, 64))
    assert plan.bindings[1].profiles[0].min is None
    assert {one.stream for one in plan.layers} == {0, 1}
    assert all(one.attributes["EventId"] for one in plan.layers if one.kind in ("signal", "wait"))


# --- formats and dtypes ---------------------------------------------------------------------


def test_formats(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str, int]] = [
        ("Float", "fp32", 1), ("Half", "fp16", 1), ("BFloat16", "bf16", 1), ("Int4", "int4", 1),
        ("FP8", "fp8e4m3fn", 1), ("FP4", "fp4e2m1", 1), ("kHALF", "fp16", 1), ("UInt8", "uint8", 1),
        ("Bool", "bool", 1), ("Row major linear FP32", "fp32", 1), ("Row major linear FP16 format", "fp16", 1),
        ("Row major Int8 format", "int8", 1), ("Row major linear Int32", "int32", 1),
        ("Row major linear BOOL", "bool", 1), ("Row major linear FP32 format (kLINEAR)", "fp32", 1),
        ("Channel major FP16 format where channel % 8 == 0", "fp16", 8),
        ("Channel major FP16 format where C % 8 == 0 and H Stride % 32 == 0", "fp16", 8),
        ("Channel major FP32 format", "fp32", 1),
        ("Channel major FP16 format where channel == 4 and column stride % 32 == 0", "fp16", 4),
        ("Two wide channel vectorized row major FP16 format", "fp16", 2),
        ("Four wide channel vectorized row major Int8 format", "int8", 4),
        ("Sixteen wide channel vectorized row major FP16 format (kCHW16)", "fp16", 16),
        ("Thirty-two wide channel vectorized row major Int8 format.", "int8", 32),
        ("Thirty-two wide channel vectorized row major FP32 format", "fp32", 32),
        ("Eight channel BF16 format (kHWC8) where C is padded to a multiple of 8", "bf16", 8),
        ("Sixteen channel FP8 format (kHWC16) where C is padded to a multiple of 16", "fp8e4m3fn", 16),
        ("Non-vectorized channel-last UINT8 format", "uint8", 1), ("(Linear) Row major linear format", "", 1),
        ("(Arbitrary) Format with stride order = [3,0,2,1]", "", 1), ("N/A due to dynamic shapes", "", 1),
        ("Format not available due to dynamic shapes", "", 1), ("Unknown format", "", 1),
    ]  # fmt: skip
    for text, dtype, vector in cases:
        with subtests.test(str(text)[:80]):
            read = parse_format(text)
            assert (read.dtype, read.vector) == (dtype, vector)
            assert read.axis(4) == (1 if vector > 1 else None)
            assert read.axis(2) is None


def test_a_format_with_three_spatial_dimensions_pads_the_fourth_from_the_end() -> None:
    text = "Thirty-two wide channel vectorized row major FP16 format (kCDHW32) with 3 spatial dimensions"
    assert parse_format(text).axis(5) == 1
    assert parse_format("Thirty-two wide channel vectorized row major FP16 format").axis(3) == 0


def test_tensor_bytes() -> None:
    def nbytes(**fields: Any) -> int | None:
        return PlanTensor(**({"name": "t", "dims": (2, 3, 5), "dtype": "fp16"} | fields)).nbytes

    assert nbytes() == 2 * 3 * 5 * 2
    assert nbytes(dims=()) == 2
    assert nbytes(dims=(2, 0, 5)) == 0
    assert nbytes(dims=(2, -1, 5)) is None
    assert nbytes(dims=None) is None
    assert nbytes(dtype="") is None
    assert nbytes(vector_axis=1, vector=8) == 2 * 8 * 5 * 2
    assert nbytes(dtype="int4", dims=(3,)) == 2
    # Broadcast: one row of five serves all three.
    assert nbytes(strides=(5, 0, 1)) == 2 * 5 * 2


def test_layer_bytes_count_a_tensor_once_and_the_larger_of_two_views() -> None:
    row = PlanTensor(name="x", dims=(10,), dtype="fp32")
    read = (row, msgspec.structs.replace(row, dims=(4,)), msgspec.structs.replace(row, name="z"))
    one = PlanLayer(name="a", kind="kgen", inputs=read, outputs=(row,), weights=PlanWeights(dtype="int8", count=7))
    assert one.nbytes == 40 + 40 + 40 + 7
    assert msgspec.structs.replace(one, bias=PlanWeights(dtype="", count=1)).nbytes is None
    assert msgspec.structs.replace(one, kind="NoOp").nbytes == 0


def test_padded_rows_are_counted_without_the_padding_and_said(tmp_path: Path) -> None:
    raw = layer(Outputs=[tensor("y", [1, 2, 3, 4], "Row major FP16 format where column stride % 64 == 0")])
    plan = read_layer_info(write(tmp_path, {"Layers": [raw]}))
    assert plan.layers[0].outputs[0].nbytes == 48
    assert any("rows padded" in note for note in plan.notes)


# --- names ----------------------------------------------------------------------------------


def test_nodes_of_a_name(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, list[str]]] = [
        ("Conv_0 + Relu_1", ["Conv_0", "Relu_1"]), ("/a/Conv || /b/Conv", ["/a/Conv", "/b/Conv"]),
        ("c.weight + QuantizeLinear_7 + Conv_9 + PWN(Clip_13)", ["c.weight", "QuantizeLinear_7", "Conv_9", "Clip_13"]),
        ("PWN(PWN(/Sigmoid), PWN(/Mul))", ["/Sigmoid", "/Mul"]), ("PWN(a(1) + b)", ["a(1)", "b"]), ("a, b", ["a, b"]),
        ("{ForeignNode[a...b]}", ["a", "b"]),
        ("{ForeignNode[771 + (Unnamed Layer* 1) [Shuffle]...dummy_gather_]}", ["771", "dummy_gather_"]),
        ("{ForeignNode[/gemv/MatMul]}", ["/gemv/MatMul"]), ("{ForeignNode[a...b]} + c", ["a", "b", "c"]),
        ("(Unnamed Layer* 32) [Shuffle]", []),
        ("Transpose-7 + Reshape-7 + reshape_before_MatMul-9", ["Transpose-7", "Reshape-7"]),
        ("copied_squeeze_after_(Unnamed Layer* 850) [ElementWise]", []), ("[ShapeHostToDeviceCopy 0]", []),
        ("__myl_MulSum_myl4_1", []), ("cast_hvar^8200i64_myl1_10", []), ("entry^bb^signal^2", []),
        ("node_linear_myl4_0", ["node_linear"]), ("node_linear [profile 1]_myl13_2", ["node_linear"]),
        ("a + b [profile 3]", ["a", "b"]), ("a + a", ["a"]), ("PWN(unbalanced", ["PWN(unbalanced"]), ("", []),
    ]  # fmt: skip
    for name, nodes in cases:
        with subtests.test(str(name)[:80]):
            assert list(name_nodes(name).nodes) == nodes
            assert name_nodes(name).is_range == ("..." in name)


def test_reformats_and_copies_serve_a_layer_and_compute_no_node(tmp_path: Path, subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str]] = [
        ("Reformatting CopyNode for Input Tensor 0 to conv1 + relu1", "conv1 + relu1"),
        ("Reformatting CopyNode for Output Tensor 12 to PWN(a) [profile 1]", "PWN(a)"), ("shuffle3 copy", "shuffle3"),
        ("shuffle3 copy [profile 2]", "shuffle3"), ("conv1 + relu1", ""), ("copy of a", ""),
    ]  # fmt: skip
    for name, serves in cases:
        with subtests.test(str(name)[:80]):
            assert layer_served(name) == serves
            (only,) = read_layer_info(write(tmp_path, [layer(name, "Reformat")])).layers
            assert only.serves == serves
            assert bool(only.onnx_nodes) == (not serves)


NODE_NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12) | st.sampled_from(
    ["a]", "]", "[b]", "x + y", "p || q", "a][b", "PWN(c)", "node, LayerType: no", "ONNX Layer: z"]
)


@given(st.lists(NODE_NAMES, max_size=5, unique=True), st.sampled_from(["\x1e", "\x1f", ""]))
def test_metadata_gives_back_every_name(names: list[str], separator: str) -> None:
    names = [name.rstrip() for name in names]
    assume(all(names) and len(set(names)) == len(names))
    metadata = separator.join(f"[ONNX Layer: {name}]" for name in names)
    assert list(metadata_nodes(metadata)) == names


def test_a_node_of_a_function_is_called_after_the_node_that_has_it() -> None:
    said = "[ONNX Layer: matmul | gemv0 (BatchedGemv)]\x1e[ONNX Layer: c | b (G) | /a (F_1)][ONNX Layer: x | y]"
    assert metadata_nodes(said) == ("gemv0/matmul", "/a/b/c", "x | y")


def test_metadata_wins_over_the_name(tmp_path: Path) -> None:
    layers = [
        layer("a + b", Metadata="[ONNX Layer: c]"), layer("a + b", Metadata=""), layer("a + b", Metadata="[x: y]"),
    ]  # fmt: skip
    first, second, third = read_layer_info(write(tmp_path, layers)).layers
    assert (first.onnx_nodes, first.nodes_from) == (("c",), "metadata")
    assert (second.onnx_nodes, second.nodes_from) == (("a", "b"), "name")
    assert third.attributes["Metadata"] == "[x: y]"


# --- forms of layer information -------------------------------------------------------------

LAYERS = [
    layer(Kernel=[3, 3], Weights={"Type": "Half", "Count": 432}, Bias={"Type": "Float", "Count": 16}, StreamId=0),
    layer("pool", "CaskPooling", TacticName="sm80_pool", TacticValue="0x1f", HasBias=False),
]


def test_all_forms_say_the_same(tmp_path: Path, subtests: pytest.Subtests) -> None:
    cases: list[Any] = [
        {"Layers": LAYERS, "Bindings": ["x", "y"]},
        {"layers": LAYERS, "bindings": ["x", "y"]},
        {"LayerInfo": LAYERS, "Bindings": ["x", "y"]},
        {"layerInfo": LAYERS, "Bindings": ["x", "y"]},
        "\n--- Layer 0 ---\n"
        + json.dumps(LAYERS[0], indent=2)
        + "\n--- Layer 1: {ForeignNode[a]} ---\n"
        + json.dumps(LAYERS[1])
        + '\n{"Bindings": ["x", "y"]}\n',
        "\n".join(json.dumps(one) for one in LAYERS) + '\n{"Bindings": ["x", "y"]}',
        "[11/01/2024-10:32:57] [I] a\n" + json.dumps({"Layers": LAYERS, "Bindings": ["x", "y"]}) + "\n&&&& PASSED",
        "\ufeff" + json.dumps({"Layers": LAYERS, "Bindings": ["x", "y"]}),
        codecs.BOM_UTF16_LE + json.dumps({"Layers": LAYERS, "Bindings": ["x", "y"]}).encode("utf-16-le"),
        "Layers:\n" + "\n".join(map(one_line, LAYERS)) + "\n\nBindings:\nx\ny\n\nBye\n",
        "Layers:\r\n" + "\r\n".join(map(one_line, LAYERS)) + "\r\n\r\nBindings:\r\nx\r\ny\r\n",
        "".join(f"[07/02/2026-03:30:41] [TRT] [V] {line}\n" for line in ["Layers:", *map(one_line, LAYERS)])
        + "Bindings:\nx\ny\n",
        f"[V] Layers:\n{one_line(LAYERS[0])}\n[I] [TRT] another thread\n{one_line(LAYERS[1])}\n\nBindings:\nx\ny",
    ]
    for content in cases:
        with subtests.test(str(content)[:80]):
            plan = read_layer_info(write(tmp_path, content))
            expected = read_layer_info(write(tmp_path, {"Layers": LAYERS, "Bindings": ["x", "y"]}, "expected.json"))
            assert [msgspec.structs.replace(one, attributes={}) for one in plan.layers] == [
                msgspec.structs.replace(one, attributes={}) for one in expected.layers
            ]
            assert plan.layers[0].attributes == {"Kernel": (3, 3)}
            assert [(one.name, one.mode) for one in plan.bindings] == [("x", "input"), ("y", "output")]


def test_a_list_of_layers_alone_has_no_bindings(tmp_path: Path) -> None:
    plan = read_layer_info(write(tmp_path, LAYERS))
    assert [one.name for one in plan.layers] == ["conv1 + relu1", "pool"]
    assert plan.bindings == ()
    assert plan.layers[0].bias == PlanWeights(dtype="fp32", count=16)
    assert plan.era == "TensorRT 8.6 to 10, JSON"


def test_keys_of_tensorrt_11(tmp_path: Path) -> None:
    new = {
        "Name": "x", "Dimensions": [1, 3, 8, 8], "Strides": [256, 1, 32, 4], "StrideOrder": [3, 0, 2, 1],
        "Datatype": "Half", "Format": "(NHWC) Channel major format where channel % 4 == 0",
    }  # fmt: skip
    info = {
        "Layers": [layer(Inputs=[new], Constants=[{**new, "Name": "w", "Dimensions": [8]}], StreamId=1)],
        "I/O Tensors": [
            {
                "Name": "x", "IOMode": "Input", "DataType": "Half", "Dimensions": [-1, 3, 8, 8], "Location": "Device",
                "IsShapeInferenceIO": False, "ProfileInfo": [{"MinShape": [1, 3, 8, 8], "OptShape": [2, 3, 8, 8],
                "MaxShape": [4, 3, 8, 8], "Format": "Row major linear FP16 format (kLINEAR)"}, {"Format": "?"}],
            }
        ],
        "Engine Metadata": {"Multi-Device": "Disabled"},
    }  # fmt: skip
    plan = read_layer_info(write(tmp_path, info))
    (x,) = plan.layers[0].inputs
    assert (x.dtype, x.vector, x.nbytes, x.strides) == ("fp16", 4, 4 * 8 * 8 * 2, (256, 1, 32, 4))
    assert [one.nbytes for one in plan.layers[0].constants] == [16]
    (binding,) = plan.bindings
    assert (binding.mode, binding.dtype, binding.dims) == ("input", "fp16", (-1, 3, 8, 8))
    assert [one.max for one in binding.profiles] == [(4, 3, 8, 8), None]
    assert plan.era.startswith("TensorRT 11 or TensorRT-RTX")


def test_regions_and_prefixed_weights_and_odd_attributes(tmp_path: Path) -> None:
    raw = {
        "Name": "a", "LayerType": "ConvActPool",
        "InputRegions": [tensor("x", [4])], "OutputRegions": [tensor("y", [4])],
        "ConvWeights": {"Type": "Int8", "Count": 5}, "ConvKernel": [1, 1],
        "Nested": {"a": {"b": [[1], 2, True]}, "c": 1}, "None": None, "_subgraph": 2, "Yes": True,
    }  # fmt: skip
    (only,) = read_layer_info(write(tmp_path, [raw])).layers
    assert only.nbytes == 16 + 16 + 5
    assert only.attributes == {
        "ConvKernel": (1, 1),
        "Nested.a.b": ("[1]", 2, 1),
        "Nested.c": 1,
        "_subgraph": 2,
        "Yes": 1,
    }


def test_everything_but_the_type_may_be_missing(tmp_path: Path) -> None:
    plan = read_layer_info(write(tmp_path, [{"LayerType": "kgen"}, {"LayerType": "gemm", "Inputs": [{}]}, "a name"]))
    assert [one.name for one in plan.layers] == ["layer 0", "layer 1"]
    assert plan.layers[1].inputs == (PlanTensor(name="tensor 0", dims=None, dtype=""),)
    notes = "\n".join(plan.notes)
    assert "2 of 2 layers have no name" in notes
    assert "1 of 3 entries are no layers" in notes
    assert "1 of 1 tensors have no dimensions" in notes
    assert "1 of 1 tensors have no dtype" in notes


def test_a_log_of_several_plans_gives_the_last(tmp_path: Path) -> None:
    first, second = one_line(layer("first")), one_line(layer("second"))
    text = f"Layers:\n{first}\n\nBindings:\nx\n[I] more\nLayers:\n{second}\nLayers:\n"
    plan = read_layer_info(write(tmp_path, text))
    assert [one.name for one in plan.layers] == ["second"]
    assert "2 plans in the file: the last one is taken" in plan.notes


def test_the_version_in_a_log_is_told(tmp_path: Path) -> None:
    text = f"[I] TensorRT version: 10.16.0\n[V] Layers:\n{one_line(layer())}\n"
    assert read_layer_info(write(tmp_path, text)).era == "TensorRT 10.16.0, text of one line a layer"


@pytest.mark.parametrize(
    ("line", "dims", "vector", "nbytes"),
    [
        ("x (Float[1,3,224,224]) -> y (Half[1,3:4,224,224])", (1, 3, 224, 224), 4, 4 * 224 * 224 * 2),
        ("x[Float(1,3,224,224)] -> y[Half(1,3,224,224)]", (1, 3, 224, 224), 1, 3 * 224 * 224 * 2),
    ],
)
def test_engine_layer_information_of_a_verbose_log(
    line: str, dims: tuple[int, ...], vector: int, nbytes: int, tmp_path: Path
) -> None:
    log = f"[V] [TRT] Engine Layer Information:\nLayer(CaskConvolution): conv1 + relu1, Tactic: 0x9cbd8f04, {line}\n"
    plan = read_layer_info(write(tmp_path, log, "build.log"))
    (only,) = plan.layers
    assert (only.name, only.kind, only.tactic_value) == ("conv1 + relu1", "CaskConvolution", "0x9cbd8f04")
    assert (only.inputs[0].name, only.inputs[0].dtype) == ("x", "fp32")
    (y,) = only.outputs
    assert (y.name, y.dims, y.vector, y.nbytes) == ("y", dims, vector, nbytes)
    assert any("--profilingVerbosity=detailed" in note for note in plan.notes)


@given(
    st.lists(NODE_NAMES.map(str.strip), min_size=1, max_size=3),
    st.lists(st.tuples(NODE_NAMES.map(str.strip), st.lists(st.integers(-1, 9), max_size=4)), max_size=3),
    st.sampled_from(["Half", "Channel major FP16 format where channel % 8 == 0", "N/A due to dynamic shapes"]),
)
def test_one_line_says_what_json_says(names: list[str], tensors: list[tuple[str, list[int]]], form: str) -> None:
    text = " + ".join(names)
    assume(all(names) and all(name for name, _ in tensors) and ", LayerType: " not in text)
    raw = layer(
        text, "gemm", Inputs=[tensor(name, dims, form) for name, dims in tensors], TacticName="sm80_gemm", StreamId=3,
        Metadata="\x1e".join(f"[ONNX Layer: {name}]" for name in names),
    )  # fmt: skip
    read = layer_of_line(one_line(raw))
    assert read.name == text
    assert [(one.name, list(one.dims or ()), one.format) for one in read.inputs] == [
        (name, dims, form) for name, dims in tensors
    ]
    assert (read.tactic, read.stream) == ("sm80_gemm", 3)
    assert read.onnx_nodes == tuple(dict.fromkeys(names))


@pytest.mark.parametrize(
    "line", ["", "Name: a", "[V] Layers:", "LayerType: a", " Name: x, IOMode: Input, DataType: Float"]
)
def test_lines_that_are_no_layer(line: str) -> None:
    assert parse_layer_line(line) is None


# --- what is not layer information ----------------------------------------------------------


def test_what_is_not_layer_information_says_so(tmp_path: Path, subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, str]] = [
        ("", "is empty"), (" \n", "is empty"), ({"Layers": []}, "describes no layers"),
        ("Layers:\n\nBindings:\nx\n", "describes no layers"),
        ({"Layers": ["a", "b"]}, "only the names of its 2 layers"),
        ({"Layers": [{"Name": "a"}]}, "only the names of its 1 layers"),
        ("[V] Layers:\nconv1 + relu1\n{ForeignNode[a...b]}\n\nBindings:\nx\n", "only the names of its 2 layers"),
        ({"Nodes": []}, "is no layer information"), ({"Layers": [1, 2]}, "none of the entries"),
        ([{"Name": "NVIDIA A100", "TotalMemory": 1}], "none of the entries"),
        ([{"count": 1}, {"name": "a", "averageMs": 1}], "--exportProfile"), ([{"latencyMs": 1}], "--exportTimes"),
        ('{"Layers": [{"Name": "conv', "is cut short"), (json.dumps({"Layers": LAYERS})[:-2], "is cut short"),
        ('{"Layers": [{"Name" "a"}]}', "is broken JSON"), ('{"Layers": [{"Count": nan}]}', "has nan for a number"),
        ("[" * 100_000, "nest too deep"), ("hello", "holds no layer information"),
        ("[I] Engine generation completed in 1 s.\n", "without detailed profiling verbosity"),
        ("[V] a\n[E] first\n[E] no kernel for it\n[V] b\n", "ends without an engine: no kernel for it"),
        (b"ftrt\0\0\1", "is a binary file"), (b"ftrt" + bytes(10_000), "only TensorRT can read"),
    ]  # fmt: skip
    for content, says in cases:
        with subtests.test(str(content)[:80]):
            with pytest.raises(UsageError) as caught:
                read_layer_info(write(tmp_path, content))
            assert says in refused(caught.value)


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="there is no file"):
        read_layer_info(tmp_path / "no.json")
    with pytest.raises(UsageError, match="is a folder, not a file"):
        read_layer_info(tmp_path)


@given(st.integers(0, 3000))
def test_layer_information_cut_short_is_never_taken_for_whole(length: int) -> None:
    text = json.dumps({"Layers": LAYERS, "Bindings": ["x", "y"]}, indent=1)
    assume(length < len(text))
    # Not tmp_path, which all examples would share.
    with tempfile.TemporaryDirectory() as folder, pytest.raises(UsageError):
        read_layer_info(write(Path(folder), text[:length]))


# --- profiles and times ---------------------------------------------------------------------


def profile_row(name: str = "a", **fields: Any) -> dict[str, Any]:
    return {"name": name, "timeMs": 3.0, "averageMs": 1.5, "medianMs": 1.25, "percentage": 100.0, **fields}


def test_profile_in_ns(tmp_path: Path) -> None:
    profile = read_profile(write(tmp_path, [{"count": 2}, profile_row()]))
    assert profile.iterations == 2
    assert profile.layers == (
        LayerTime(name="a", total_ns=3_000_000, average_ns=1_500_000, median_ns=1_250_000, fraction=1.0),
    )
    assert profile.complete


def test_profile_without_median_and_count(tmp_path: Path) -> None:
    row = {key: value for key, value in profile_row().items() if key != "medianMs"}
    profile = read_profile(write(tmp_path, [row]))
    assert profile.layers[0].median_ns is None
    assert profile.notes == ("the number of iterations is not told",)


def test_what_is_not_a_profile_says_so(tmp_path: Path, subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, str]] = [
        ([{"count": 1}], "holds no layers"),
        ([], "is no profile"),
        ({"Layers": LAYERS}, "it is layer information"),
        ([{"latencyMs": 1}], "times of whole inferences"),
        ([profile_row(averageMs=-1)], "averageMs is -1"),
        ([profile_row(timeMs=-0.5)], "timeMs is -0.5"),
        ([profile_row(medianMs="x")], "medianMs is x"),
        ('[{"name": "a", "averageMs": NaN}]', "averageMs is NaN"),
        ('[{"name": "a", "averageMs": nan}]', "has nan for a number"),
        ('[{"name": "a", "averageMs": -inf}]', "has -inf for a number"),
        ('[{"name": "a", "averageMs": 1', "cut short"),
        ([{"name": "a", "timeMs": 1}, profile_row()], "layer 0 (a) has no averageMs"),
        ("no table", "holds no profile"),
        (
            "=== Profile (3 iterations ) ===\nTime(ms) Avg.(ms) Median(ms) Time(%) Layer\n 0.0 0.0 0.0 100.0 Total\n",
            "no layers",
        ),
        ("Time(ms) Avg.(ms) Median(ms) Time(%) Layer\n 1.0 nan 0.0 9.0 conv1\n", "conv1: average is nan"),
        (b"ftrt\0", "is a binary file, not a profile"),
    ]
    for content, says in cases:
        with subtests.test(str(content)[:80]):
            with pytest.raises(UsageError) as caught:
                read_profile(write(tmp_path, content))
            assert says in refused(caught.value)


@pytest.mark.parametrize(
    "table",
    [
        """[I] === Profile (4 iterations ) ===
[I]    Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer
[I]        4.00       1.0000       0.9000      80.0   conv 1 + relu1
[I]        1.00       0.2500       0.2000      20.0   [ShapeHostToDeviceCopy 0]
[I]        5.00       1.2500       1.1000     100.0   Total
[I]
[I] 1 2 3 4 no more
""",
        """[I] === Profile (4 iterations ) ===
[I]                       Layer   Time (ms)   Avg. Time (ms)   Median Time (ms)   Time %
[I]              conv 1 + relu1        4.00           1.0000             0.9000     80.0
[I]   [ShapeHostToDeviceCopy 0]        1.00           0.2500             0.2000     20.0
[I]                       Total        5.00           1.2500             1.1000    100.0
""",
    ],
    ids=["layer last", "layer first"],
)
def test_printed_profiles(table: str, tmp_path: Path) -> None:
    profile = read_profile(write(tmp_path, "[I] === Profile (9 iterations ) ===\n" + table, "trtexec.log"))
    assert profile.iterations == 4
    assert [(row.name, row.total_ns, row.median_ns) for row in profile.layers] == [
        ("conv 1 + relu1", 4_000_000, 900_000),
        ("[ShapeHostToDeviceCopy 0]", 1_000_000, 200_000),
    ]


def test_of_two_printed_profiles_the_last_is_taken(tmp_path: Path) -> None:
    head = "=== Profile ({0} iterations ) ===\nTime(ms) Avg.(ms) Time(%) Layer\n"
    table = head + " 1.0 1.0 100.0 l{0}\n 1.0 1.0 100.0 Total\n"
    profile = read_profile(write(tmp_path, table.format(3) + table.format(5)))
    assert (profile.iterations, [row.name for row in profile.layers]) == (5, ["l5"])
    assert any("2 tables" in note for note in profile.notes)


def test_times_in_ns(tmp_path: Path) -> None:
    entry = {"startEnqMs": 2.5, "endEnqMs": 2.75, "h2dMs": 0, "computeMs": 0.5, "d2hMs": 0.125, "latencyMs": 0.625}
    read = read_times(write(tmp_path, [entry, {**entry, "latencyMs": 0.75}]))
    assert read.latency_ns == (625_000, 750_000)
    assert (read.enqueue_ns, read.compute_ns) == ((250_000, 250_000), (500_000, 500_000))
    assert (read.h2d_ns, read.d2h_ns) == ((0, 0), (125_000, 125_000))


def test_what_are_not_times_says_so(tmp_path: Path, subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, str]] = [
        ([], "holds no times of inferences"), ([profile_row()], "holds no times of inferences"),
        ({"Layers": []}, "holds no times of inferences"),
        ([{"latencyMs": 1}, {"latencyMs": -1}], "inference 1: latencyMs is -1"),
        ([{"latencyMs": 1, "computeMs": "?"}], "computeMs is ?"),
        ([{"latencyMs": 1, "startEnqMs": 2, "endEnqMs": 1}], "endEnqMs - startEnqMs is -1"), ("[{", "cut short"),
    ]  # fmt: skip
    for content, says in cases:
        with subtests.test(str(content)[:80]):
            with pytest.raises(UsageError) as caught:
                read_times(write(tmp_path, content))
            assert says in refused(caught.value)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1, max_size=12))
def test_rows_in_order_join_to_layers_of_their_name(drawn: list[tuple[str, bool]]) -> None:
    plan = plan_of(*(name for name, _ in drawn))
    profile = times(*(name for name, kept in drawn if kept), complete=False)
    joined, notes = join_profile(plan, profile)
    assert [row for row in joined if row] == list(profile.layers)
    assert all(row is None or row.name == one.name for one, row in zip(plan.layers, joined, strict=True))
    lacking = len(drawn) - len(profile.layers)
    assert any("have no time" in note for note in notes) == (lacking > 0)


@given(st.permutations(["a", "b", "c", "d"]))
def test_rows_in_another_order_join_by_name_and_say_so(order: list[str]) -> None:
    joined, notes = join_profile(plan_of("a", "b", "c", "d"), times(*order))
    assert [row.name for row in joined if row] == ["a", "b", "c", "d"]
    assert bool(notes) == (order != ["a", "b", "c", "d"])


def test_layers_of_one_name_get_their_rows_in_order() -> None:
    joined, notes = join_profile(plan_of("a", "b", "a"), times("a", "b", "a"))
    assert [row.average_ns for row in joined if row] == [1, 2, 3]
    assert notes == ()
    joined, notes = join_profile(plan_of("a", "b", "a"), times("b", "a", complete=False))
    assert [row and row.average_ns for row in joined] == [None, 1, 2]
    assert any("1 names are those of several layers" in note for note in notes)


def test_a_profile_of_one_of_two_optimisation_profiles_joins() -> None:
    plan = plan_of("a", "b", "a [profile 1]", "b [profile 1]")
    joined, notes = join_profile(plan, times("a [profile 1]", "b [profile 1]"))
    assert [row and row.average_ns for row in joined] == [None, None, 1, 2]
    assert notes == ("2 of 4 layers have no time in the profile",)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (
            ("a", "x", "c"),
            "row 1 is 'x', which no layer of the plan is called; the plan has 'b' there; 2 of 3 rows match",
        ),
        (("a", "b", "c", "c"), "row 3 is 'c' once more than the plan has layers of that name; 3 of 4 rows match"),
        (("a", "b", "c", "d"), "row 3 is 'd', which no layer of the plan is called; 3 of 4 rows match"),
    ],
)
def test_a_profile_of_another_engine_names_the_first_row_that_differs(rows: tuple[str, ...], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        join_profile(plan_of("a", "b", "c"), times(*rows))
    assert says in refused(caught.value)
