"""The work of the layers of TensorRT plans: bytes of the plan's own tensors, arithmetic of the ONNX nodes."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.core_law import keeps_the_law
from tests.fakes.engine_factory import BATCH, ENGINES, MNIST, MOBILENET, RESIDUALS, RESNET, RESNET_QAT, layers_of
from tests.fakes.support import SAMPLES, captured
from trtprof.align.plan import match_plan
from trtprof.base.plan_words import LAUNCHING, is_product
from trtprof.base.records import (
    Attribute,
    Core,
    MatchedLayer,
    Op,
    Plan,
    PlanLayer,
    PlanRole,
    PlanTensor,
    PlanWeights,
    Tensor,
    Work,
)
from trtprof.cost import Cost, cost_of
from trtprof.cost._plan_loops import runs
from trtprof.cost._plan_products import plan_product, touched_share
from trtprof.cost._plan_shares import Owner, apportioned, shares
from trtprof.cost._recipes import Recipe
from trtprof.cost.plan import PlanCost, plan_costs
from trtprof.engine.inspector import read_layer_info
from trtprof.source.load import load_model, source_of

DATA = Path(__file__).parent / "data"
LOGS = Path(__file__).parents[1] / "engine" / "data"
PLANS = {
    "gemv": (LOGS / "rtx_gemv.log", "gemv"),
    "resnet_tiny": (LOGS / "rtx_resnet_tiny.log", "resnet_tiny"),
    "transformer_block": (DATA / "rtx_transformer_block.txt", "transformer_block"),
    "transformer_block_fp16": (DATA / "rtx_transformer_block_fp16.txt", "transformer_block"),
    "lstm": (DATA / "rtx_lstm.txt", "lstm"),
}
SHAPES = {"transformer_block": {"input_ids": (1, 128), "attention_mask": (1, 128)}}


class Priced:
    """A plan with its model, layer by layer."""

    def __init__(self, plan: Plan, ops: dict[str, Op], layers: Sequence[MatchedLayer]):
        self.plan, self.ops, self.layers = plan, ops, layers
        self.costs = plan_costs(layers, ops)

    def named(self, start: str) -> tuple[MatchedLayer, PlanCost]:
        """The first layer whose name starts so."""
        return next(
            (layer, cost)
            for layer, cost in zip(self.layers, self.costs, strict=True)
            if layer.layer.name.startswith(start)
        )


@functools.cache
def priced(name: str, batch: int | None = None) -> Priced:
    path, model = PLANS[name]
    source = source_of(load_model(SAMPLES / f"{model}.onnx"), SHAPES.get(model), batch, feed=False)
    plan = read_layer_info(path)
    layers, _ = match_plan(source.nodes, plan, outputs=[tensor.name for tensor in source.model.outputs])
    if name == "lstm":
        layers = tuple(_of_lstm(layer) for layer in layers)
    return Priced(plan, {node.name: node.op for node in source.nodes}, layers)


def _of_lstm(matched: MatchedLayer) -> MatchedLayer:
    """By hand: the layers of a loop, which name no node, belong to the LSTM; those of counters are for shapes."""
    layer = matched.layer
    if layer.kind in ("memset", "add", "cjmp"):
        return msgspec.structs.replace(matched, role="shape", nodes=())
    nodes = tuple(name for name in layer.onnx_nodes if name.startswith("/")) or ("/lstm/LSTM",)
    return msgspec.structs.replace(matched, role="compute", nodes=nodes)


def known(cost: PlanCost) -> Work:
    assert cost.work is not None, cost.reason
    assert sum(cost.reads.values()) == cost.work.bytes_read
    assert sum(cost.writes.values()) == cost.work.bytes_written
    assert sum(cost.reads[name] for name in cost.constants if name in cost.reads) == cost.work.bytes_parameters
    assert keeps_the_law(cost.work), cost.work.core
    return cost.work


def of_one(layer: PlanLayer) -> PlanLayer:
    """At batch 1, where the plan is for any."""

    def bound(tensors: Sequence[PlanTensor]) -> tuple[PlanTensor, ...]:
        return tuple(msgspec.structs.replace(one, dims=tuple(map(abs, one.dims or ()))) for one in tensors)

    return msgspec.structs.replace(layer, inputs=bound(layer.inputs), outputs=bound(layer.outputs))


def pt(name: str, *dims: int, dtype: str = "fp32", strides: tuple[int, ...] | None = None) -> PlanTensor:
    return PlanTensor(name=name, dims=dims, dtype=dtype, strides=strides)


def t(name: str, *dims: int, dtype: str = "fp32", constant: bool = False) -> Tensor:
    return Tensor(name=name, dtype=dtype, shape=dims, constant=constant)


def op(kind: str, inputs: list[Tensor | None], outputs: list[Tensor], **attributes: Attribute) -> Op:
    return Op(op_type=kind, opset=21, inputs=tuple(inputs), outputs=tuple(outputs), attributes=attributes)


def layer(
    name: str,
    kind: str,
    inputs: list[PlanTensor],
    outputs: list[PlanTensor],
    *nodes: str,
    role: PlanRole = "compute",
    constants: Sequence[PlanTensor] = (),
    profile: int = 0,
    weights: PlanWeights | None = None,
    attributes: dict[str, Attribute] | None = None,
    added: tuple[str, ...] = (),
) -> MatchedLayer:
    return MatchedLayer(
        layer=PlanLayer(
            name=name,
            kind=kind,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            constants=tuple(constants),
            profile=profile,
            weights=weights,
            attributes=attributes or {},
        ),
        role=role,
        nodes=nodes,
        added=added,
    )


# --- real plans -----------------------------------------------------------------------------


def test_the_gemv_of_the_story_moves_250_828_800_bytes() -> None:
    (cost,) = priced("gemv").costs
    work = known(cost)
    assert work.bytes == 250_828_800
    assert work.tensor_flops == 122_880_000
    assert (work.dtype, work.bound, cost.runs) == ("fp32", "exact", 1)


@pytest.mark.parametrize("images", [1, 8])
def test_the_layers_of_a_resnet_by_hand(images: int) -> None:
    """The plan is for any batch: the model says which."""
    found = priced("resnet_tiny", images)
    _, cost = found.named("__myl_CorrMulAddRelu_myl0_2")
    work = known(cost)
    assert work.tensor_flops == images * 2 * 16 * 64 * 64 * 3 * 9
    # A Conv without bias, a BatchNormalization of two FLOP an element and as much a channel, a Relu of one.
    assert work.vector_flops >= images * 16 * 64 * 64 * 3
    weights = 4 * (16 * 3 * 9 + 2 * 16)
    assert work.bytes_read == images * 4 * 3 * 64 * 64 + weights
    assert work.bytes_parameters == weights
    assert work.bytes_written == images * 4 * 16 * 64 * 64

    _, residual = found.named("__myl_CorrMulAddAddRelu_myl0_5")
    work = known(residual)
    assert work.tensor_flops == images * 2 * 16 * 32 * 32 * 16 * 9
    assert work.bytes_read == images * 4 * 2 * 16 * 32 * 32 + 4 * (16 * 16 * 9 + 2 * 16)
    assert work.bytes_written == images * 4 * 16 * 32 * 32

    _, pool = found.named("/stem/MaxPool_myl0_3")
    work = known(pool)
    assert (work.vector_flops, work.bytes) == (images * 9 * 16 * 32 * 32, images * 4 * 16 * (64 * 64 + 32 * 32))

    matched, move = found.named("__myl_Move_myl0_1")
    work = known(move)
    assert matched.nodes == ()
    assert (work.flops, work.bytes_read, work.bytes_written) == (0, images * 49152, images * 49152)


def test_a_plan_for_any_batch_has_no_bytes_without_the_model() -> None:
    for matched, cost in zip(priced("resnet_tiny").layers, plan_costs(priced("resnet_tiny").layers, {}), strict=True):
        if matched.layer.outputs:
            assert cost.work is None
            assert "--minShapes" in cost.reason


def test_three_products_of_one_gemm() -> None:
    _, cost = priced("transformer_block").named("/layer0/attention/value/MatMul+")
    work = known(cost)
    assert work.tensor_flops == 3 * 2 * 128 * 64 * 64
    # The scalars alpha and beta count as they are.
    assert work.bytes_read == 4 * (128 * 64 + 64 * 192) + 8
    assert work.bytes_written == 4 * 128 * 192


def test_a_reader_of_a_slice_reads_the_slice() -> None:
    found = priced("transformer_block")
    maker, cost = found.named("/layer0/attention/value/MatMul+")
    name = maker.layer.outputs[0].name
    readers = [cost.reads[name] for cost in found.costs if name in cost.reads]
    assert readers == [4 * 128 * 64] * 3
    assert cost.writes[name] == sum(readers)


@pytest.mark.parametrize(("name", "width"), [("transformer_block", 4), ("transformer_block_fp16", 2)])
def test_an_embedding_reads_the_rows_that_are_asked_for(name: str, width: int) -> None:
    matched, cost = priced(name).named("__myl_CastGath")
    table = next(tensor for tensor in matched.layer.constants if tensor.name.startswith("embedding"))
    assert table.dims == (1000, 64)
    assert cost.reads[table.name] == width * 128 * 64
    assert known(cost).bytes_read == 8 * 128 + width * (128 * 64 + 2 * 64)


def test_fused_attention_multiplies_twice_and_keeps_its_scores() -> None:
    matched, cost = priced("transformer_block_fp16").named("_gemm_mha_v2_myl0_6")
    work = known(cost)
    assert work.tensor_flops == 2 * (2 * 4 * 128 * 128 * 16)
    assert work.special == {"exp": 4 * 128 * 128}
    assert work.dtype == "fp16"
    assert work.bytes == 2 * (4 * (4 * 128 * 16) + 128)
    product = plan_product(matched.layer)
    assert product is not None
    assert product.flops == work.tensor_flops
    assert work.core == product.core == Core(kind="attention", batch=4, m=128, n=128, k=16)


def test_the_cores_of_the_layers_of_a_resnet_by_hand() -> None:
    found = priced("resnet_tiny")
    cores = [known(found.named(start)[1]).core for start in ("__myl_CorrMulAddRelu_myl0_2", "__myl_CorrMulAdd_myl0_10")]
    assert cores == [
        Core(kind="convolution", m=64 * 64, n=16, k=27, window=9),
        Core(kind="convolution", m=16 * 16, n=32, k=16, stride=4),
    ]
    # Of the plan alone steps are the shortest that fit: 3 x 3 windows from 32 x 32 to 16 x 16 make steps of 2.
    strided = of_one(found.named("__myl_CorrMulAddRelu_myl0_12")[0].layer)
    product = plan_product(strided)
    assert product is not None
    assert product.core == Core(kind="convolution", m=16 * 16, n=32, k=144, window=9, stride=4)


@pytest.mark.parametrize("name", PLANS)
def test_all_arithmetic_of_the_nodes_is_in_the_layers(name: str) -> None:
    found = priced(name)
    asked = [cost for op in found.ops.values() if (cost := cost_of(op)) is not None]
    works = [(known(cost), cost.runs) for cost in found.costs]
    assert sum(work.tensor_flops * times for work, times in works) == sum(cost.tensor_flops for cost in asked)
    assert sum(work.vector_flops * times for work, times in works) == sum(cost.arithmetic.vector for cost in asked)
    special: dict[str, int] = {}
    for cost in asked:
        for function, count in cost.arithmetic.special.items():
            special[function] = special.get(function, 0) + count
    for function, count in special.items():
        assert sum(work.special.get(function, 0) * times for work, times in works) == count


@pytest.mark.parametrize("name", PLANS)
def test_the_dims_of_a_plan_tell_the_products_of_its_nodes(name: str) -> None:
    found = priced(name)
    compared = 0
    for matched, cost in zip(found.layers, found.costs, strict=True):
        if is_product(matched.layer):
            product = plan_product(of_one(matched.layer))
            assert product is not None, matched.layer.name
            assert product.flops == known(cost).tensor_flops, matched.layer.name
            compared += 1
    assert (
        compared
        == {"gemv": 0, "resnet_tiny": 16, "transformer_block": 12, "transformer_block_fp16": 10, "lstm": 16}[name]
    )


@pytest.mark.parametrize("name", [name for name in PLANS if name != "resnet_tiny"])
def test_the_model_agrees_with_the_plan_alone(name: str) -> None:
    """Bytes need no model, but for what is read in part; products need none at all."""
    found = priced(name)
    alone = plan_costs([msgspec.structs.replace(one, nodes=()) for one in found.layers], {})
    for matched, cost, bare in zip(found.layers, found.costs, alone, strict=True):
        work, without = known(cost), known(bare)
        assert work.bytes_written == without.bytes_written
        # Of a table only rows are read; how long a sequence is that two steps are taken from, the plan does not tell.
        if "Gath" not in matched.layer.name and "features" not in cost.reads:
            assert work.bytes_read == without.bytes_read
        if is_product(matched.layer):
            assert (work.tensor_flops, work.dtype) == (without.tensor_flops, without.dtype)
            assert work.core is not None
            assert work.core == without.core
            assert without.bound == "lower"
        if not bare.reason:
            assert work.flops == without.flops


def test_the_loop_of_an_lstm_runs_16_times_8_steps() -> None:
    found = priced("lstm")
    inside = [
        cost.runs for matched, cost in zip(found.layers, found.costs, strict=True) if matched.layer.kind == "gemm"
    ]
    assert inside == [16] * 16
    _, gates = found.named("__mye2803_unroll0_myl0_41")
    assert known(gates).tensor_flops == 2 * 2 * 512 * 128
    assert "16 runs" in known(gates).note
    _, head = found.named("__myl_ReshMoveMulSum_myl0_91")
    assert (head.runs, known(head).tensor_flops) == (1, 2 * 256 * 10)
    # The steps of both directions are read one by one: each is its own part of the input.
    read = sum(cost.reads.get("features", 0) * cost.runs for cost in found.costs)
    assert read == 4 * 2 * 128 * 64


def test_the_bias_of_a_gemm_goes_to_the_layer_that_adds_it() -> None:
    found = priced("lstm")
    _, product = found.named("__myl_ReshMoveMulSum_myl0_91")
    _, bias = found.named("__myl_Add_myl0_92")
    assert (known(product).tensor_flops, known(product).vector_flops) == (2 * 256 * 10, 0)
    assert (known(bias).tensor_flops, known(bias).vector_flops) == (0, 10)
    assert known(bias).bytes_parameters == 4 * 10


# --- plans of other people ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "moving"),
    [("fp16", 8), ("int8", 9), (RESNET, 25), (RESNET_QAT, 35), (MOBILENET, 72), (RESIDUALS, 57), (MNIST, 9)],
)
def test_every_layer_that_moves_data_has_bytes(engine: str, moving: int, tmp_path: Path) -> None:
    layers, _ = match_plan((), read_layer_info(layers_of(engine, tmp_path)))
    for matched, cost in zip(layers, plan_costs(layers, {}), strict=True):
        work = known(cost)
        if matched.role in LAUNCHING and matched.layer.outputs:
            assert work.bytes_read > 0, matched.layer.name
            assert work.bytes_written > 0, matched.layer.name
            skipped = 0
            if (share := touched_share(matched.layer)) < 1:
                # A 1x1 convolution with stride 2 steps over three pixels of four.
                first = matched.layer.inputs[0].nbytes or 0
                skipped = first - math.ceil(first * share)
            assert work.bytes == (matched.layer.nbytes or 0) - skipped
            moving -= 1
        elif matched.role == "idle":
            assert work == Work()
    assert moving == 0


@pytest.mark.parametrize(
    ("engine", "name", "read", "written", "macs"),
    [
        # The same of the engines of the project itself, whose image has 65,536 pixels and whose batch is 8.
        ("fp16", "Reformatting CopyNode for Input Tensor 0 to Conv_0", 4 * 3 * 65536, 2 * 4 * 65536, 0),
        ("fp16", "Conv_0", 2 * 4 * 65536 + 2 * (32 * 147 + 32) / 8, 2 * 32 * 16384, 32 * 16384 * 147),
        ("int8", "QuantizeLinear_2", 4 * 3 * 65536, 4 * 65536, 0),
        ("int8", "conv1.weight", 4 * 65536 + 64 * 147 / 8 + 4 * 64 / 8, 4 * 64 * 16384, 64 * 16384 * 147),
        ("int8", "conv3.weight", 64 * 4096 + 576 / 8 + 4 * 64 / 8, 64 * 4096, 64 * 4096 * 9),
        ("int8", "conv4.weight", 64 * 4096 + 48 * 64 / 8 + 4 * 48 / 8, 2 * 64 * 4096, 48 * 4096 * 64),
        # fp32 to fp16 in NHWC with 3 channels padded to 4, then with 64.
        (RESNET, "Reformatting CopyNode for Input Tensor 0 to Conv_0", 4 * 3 * 50176, 2 * 4 * 50176, 0),
        (RESNET, "Conv_0 + Relu_1", 2 * 4 * 50176 + 2 * 9408 / 32 + 2 * 64 / 32, 2 * 64 * 12544, 64 * 12544 * 147),
        # int8 in vectors of 4 channels, and fp32 behind it.
        (RESNET_QAT, "QuantizeLinear_2", 4 * 3 * 50176, 4 * 50176, 0),
        (RESNET_QAT, "conv1.weight", 4 * 50176 + 9408 / 32 + 4 * 64 / 32, 4 * 64 * 12544, 64 * 12544 * 147),
        # int8 in vectors of 32, batch 1: the 32 channels of a depthwise convolution.
        (MOBILENET, "features.1.conv.0.0.weight", 32 * 12544 + 288 + 4 * 32, 32 * 12544, 32 * 12544 * 9),
        (MOBILENET, "features.0.0.weight", 4 * 50176 + 864 + 4 * 32, 32 * 12544, 32 * 12544 * 27),
    ],
)
def test_tensor_bytes_by_hand(engine: str, name: str, read: float, written: int, macs: int, tmp_path: Path) -> None:
    """All per image; the batch of ResNet-18 is 32."""
    layers, _ = match_plan((), read_layer_info(layers_of(engine, tmp_path)))
    images = BATCH if engine in ENGINES else 32 if "A100" in engine else 1
    cost = next(
        cost
        for matched, cost in zip(layers, plan_costs(layers, {}), strict=True)
        if matched.layer.name.startswith(name)
    )
    work = known(cost)
    assert (work.bytes_read, work.bytes_written) == (images * read, images * written)
    assert work.tensor_flops == 2 * images * macs
    if macs:
        assert work.dtype == ("fp16" if "fp16" in engine else "int8")


@pytest.mark.parametrize(
    ("engine", "convolutions"),
    [("fp16", 4), ("int8", 4), (RESNET, 21), (RESNET_QAT, 21), (MOBILENET, 53), (RESIDUALS, 53), (MNIST, 2)],
)
def test_convolutions_multiply_each_weight_once_an_output_position(
    engine: str, convolutions: int, tmp_path: Path
) -> None:
    """Held against the number of weights, which the attributes that are used do not contain."""
    layers, _ = match_plan((), read_layer_info(layers_of(engine, tmp_path)))
    for matched, cost in zip(layers, plan_costs(layers, {}), strict=True):
        own = matched.layer
        if own.weights is not None and own.parameter_type == "Convolution":
            dims = own.outputs[0].dims
            assert dims is not None
            assert known(cost).tensor_flops == 2 * dims[0] * math.prod(dims[2:]) * own.weights.count
            convolutions -= 1
    assert convolutions == 0


def test_the_weights_of_a_perceptron_that_tensorrt_10_does_not_list() -> None:
    """Its two Gemm as a gemm with an epilogue, and as a product of a vector whose bias the softmax adds."""
    plan = read_layer_info(captured("layer_info", MNIST))
    hidden, scores = t("h", 1, 1024), t("y", 1, 10)
    ops = {
        "node_linear": op(
            "Gemm",
            [t("view", 1, 3136), t("w0", 1024, 3136, constant=True), t("b0", 1024, constant=True)],
            [hidden],
            transB=1,
        ),
        "node_relu_2": op("Relu", [hidden], [t("r", 1, 1024)]),
        "node_linear_1": op(
            "Gemm", [t("r", 1, 1024), t("w1", 10, 1024, constant=True), t("b1", 10, constant=True)], [scores], transB=1
        ),
        "node_softmax": op("Softmax", [scores], [t("p", 1, 10)]),
    }
    layers = [MatchedLayer(layer=one, nodes=tuple(filter(ops.__contains__, one.onnx_nodes))) for one in plan.layers]
    first, second, softmax, rest = plan_costs(layers, ops)[4:8]
    assert dict(first.reads) == {"max_pool2d_1": 4 * 3136, "w0": 4 * 1024 * 3136, "b0": 4 * 1024}
    assert dict(second.reads) == {"relu_2.1_myl4": 4 * 1024, "w1": 4 * 10 * 1024}
    assert dict(softmax.reads) == {"__myln_k_arg__bb1_3_myl4": 4 * 10, "b1": 4 * 10}
    assert known(first).tensor_flops == 2 * 1024 * 3136
    assert known(first).vector_flops == 2 * 1024
    assert (known(second).tensor_flops, known(second).vector_flops) == (2 * 10 * 1024, 0)
    assert known(softmax).special == {"exp": 10}
    assert known(rest).flops == 0


# --- by hand --------------------------------------------------------------------------------

X, W, B = t("x", 8, 64), t("w", 64, 32, constant=True), t("b", 32, constant=True)
GEMM = op("Gemm", [X, W, B], [t("y", 8, 32)])


def test_weights_that_the_plan_does_not_list_are_those_of_the_model() -> None:
    split = [
        layer("g_myl0_0", "gemm", [pt("x", 8, 64, dtype="fp16")], [pt("p", 8, 32, dtype="fp16")], "g"),
        layer("__myl_Add_myl0_1", "kgen", [pt("p", 8, 32, dtype="fp16")], [pt("y", 8, 32, dtype="fp16")], "g"),
    ]
    product, bias = plan_costs(split, {"g": GEMM})
    assert dict(product.reads) == {"x": 2 * 8 * 64, "w": 2 * 64 * 32}
    assert product.constants == {"w"}
    assert dict(bias.reads) == {"p": 2 * 8 * 32, "b": 2 * 32}
    assert known(product).tensor_flops == 2 * 8 * 64 * 32
    assert known(product).dtype == "fp16"
    assert (known(product).vector_flops, known(bias).vector_flops) == (0, 8 * 32)


HELD = PlanWeights(dtype="fp32", count=64 * 32 + 32)


@pytest.mark.parametrize(
    "listed",
    [
        layer("g", "gemm", [pt("x", 8, 64), pt("w", 64, 32), pt("b", 32)], [pt("y", 8, 32)], "g"),
        layer("g", "gemm", [pt("x", 8, 64)], [pt("y", 8, 32)], "g", constants=[pt("c0", 64, 32), pt("c1", 1, 32)]),
        layer("g", "CaskGemmConvolution", [pt("x", 8, 64)], [pt("y", 8, 32)], "g", weights=HELD),
    ],
)
def test_weights_that_the_plan_lists_are_not_counted_twice(listed: MatchedLayer) -> None:
    (cost,) = plan_costs([listed], {"g": GEMM})
    assert known(cost).bytes_read == 4 * (8 * 64 + 64 * 32 + 32)
    assert known(cost).bytes_parameters == 4 * (64 * 32 + 32)


@pytest.mark.parametrize(
    ("activations", "weights", "dtype"),
    [
        ("fp16", "int8", "fp16"),  # weight-only
        ("bf16", "int4", "bf16"),
        ("fp16", "fp8e4m3fn", "fp16"),
        ("int8", "int8", "int8"),
        ("fp8e4m3fn", "fp8e4m3fn", "fp8e4m3fn"),
        ("fp32", "fp16", "fp16"),  # the input is cast on the way in
        ("fp32", "fp32", "fp32"),
    ],
)
def test_what_is_multiplied_is_what_the_engine_holds(activations: str, weights: str, dtype: str) -> None:
    one = layer(
        "g",
        "gemm",
        [pt("x", 8, 64, dtype=activations)],
        [pt("y", 8, 32)],
        "g",
        constants=[pt("w", 64, 32, dtype=weights)],
    )
    (cost,) = plan_costs([one], {"g": GEMM})
    assert known(cost).dtype == dtype


def test_casts_inside_a_layer_narrow_what_it_computes_with() -> None:
    one = layer("__myl_CastMulSumCast_myl0_0", "kgen", [pt("x", 8, 64)], [pt("y", 8, 32)], "g", added=("cast",))
    other = layer("__myl_Relu_myl0_1", "kgen", [pt("a", 8, dtype="bf16")], [pt("b", 8, dtype="bf16")])
    assert known(plan_costs([one, other], {"g": GEMM})[0]).dtype == "bf16"
    alone = known(plan_costs([one], {"g": GEMM})[0])
    assert alone.dtype == "fp32"
    assert "does not tell what its casts convert to" in alone.note


def attention(width: int, keys: int) -> Op:
    """Queries of ``width``, 4 heads, 16 rows; values as wide as queries."""
    shape = (2, 4, 16, width), (2, 4, keys, width), (2, 4, keys, width)
    return Op(
        op_type="Attention",
        opset=23,
        inputs=tuple(t(name, *dims) for name, dims in zip("qkv", shape, strict=True)),
        outputs=(t("y", 2, 4, 16, width),),
    )


def test_the_products_of_an_attention_go_by_the_dims_of_its_layers() -> None:
    op_ = attention(8, 24)
    scores = pt("s", 8, 16, 24)
    split = [
        layer("qk", "gemm", [pt("q", 8, 16, 8), pt("k", 8, 8, 24)], [scores], "a"),
        layer("__myl_MulMaxrSubExpSumDiv_myl0_1", "kgen", [scores], [pt("p", 8, 16, 24)], "a"),
        layer("pv", "gemm", [pt("p", 8, 16, 24), pt("v", 8, 24, 8)], [pt("y", 8, 16, 8)], "a"),
        layer("other", "gemm", [pt("y", 8, 16, 8), pt("w", 8, 8, 8)], [pt("z", 8, 16, 8)], "o"),
    ]
    costs = plan_costs(split, {"a": op_, "o": op("MatMul", [t("y", 8, 16, 8), t("w", 8, 8, 8)], [t("z", 8, 16, 8)])})
    works = [known(cost) for cost in costs]
    assert [work.tensor_flops for work in works] == [2 * 8 * 16 * 24 * 8, 0, 2 * 8 * 16 * 24 * 8, 2 * 8 * 16 * 8 * 8]
    whole = cost_of(op_)
    assert whole is not None
    assert works[1].special == whole.arithmetic.special
    assert works[1].vector_flops == whole.arithmetic.vector
    first, last = (Core(kind="product", batch=8, m=16, n=n, k=k) for n, k in ((24, 8), (8, 24)))
    assert [work.core for work in works] == [first, None, last, Core(kind="product", batch=8, m=16, n=8, k=8)]


def test_what_several_layers_do_together_is_the_core_of_none() -> None:
    norm = op("LayerNormalization", [t("x", 4, 8), t("g", 8)], [t("y", 4, 8)])
    first = layer("__myl_MeaSub_myl0_0", "kgen", [pt("x", 4, 8)], [pt("m", 4, 8)], "n")
    second = layer("__myl_MulSqrDiv_myl0_1", "kgen", [pt("m", 4, 8)], [pt("y", 4, 8)], "n")
    assert [known(cost).core for cost in plan_costs([first, second], {"n": norm})] == [None, None]
    whole = layer("__myl_MeaSubMulSqrDiv_myl0_0", "kgen", [pt("x", 4, 8)], [pt("y", 4, 8)], "n")
    (cost,) = plan_costs([whole], {"n": norm})
    assert known(cost).core == Core(kind="normalisation", m=4, n=8)


def test_a_layer_that_does_more_than_a_node_leaves_the_rest_to_others() -> None:
    """Two gemms list node b: the first has room for a alone."""
    ops = {
        "a": op("MatMul", [t("x", 8, 64), t("w", 64, 32, constant=True)], [t("y", 8, 32)]),
        "b": op("MatMul", [t("y", 8, 32), t("v", 32, 16, constant=True)], [t("z", 8, 16)]),
    }
    both = [
        layer("0", "gemm", [pt("x", 8, 64)], [pt("y", 8, 32)], "a", "b", constants=[pt("w", 64, 32)]),
        layer("1", "gemm", [pt("y", 8, 32)], [pt("z", 8, 16)], "b", constants=[pt("v", 32, 16)]),
    ]
    assert [known(cost).tensor_flops for cost in plan_costs(both, ops)] == [2 * 8 * 64 * 32, 2 * 8 * 32 * 16]


def test_profiles_do_not_share_the_work_of_a_node() -> None:
    """An inference runs the layers of one profile."""
    both = [layer(f"g{index}", "gemm", [pt("x", 8, 64)], [pt("y", 8, 32)], "g", profile=index) for index in range(2)]
    assert [known(cost).tensor_flops for cost in plan_costs(both, {"g": GEMM})] == [2 * 8 * 64 * 32] * 2


def test_dims_that_depend_on_the_input_are_those_of_the_model() -> None:
    relu = op("Relu", [t("a", 3, 16)], [t("r", 3, 16)])
    flat = op("Flatten", [t("r", 3, 16)], [t("f", 3, 16)])
    cast, made = pt("a in fp16", -1, 16, dtype="fp16"), pt("r.1_4_myl0", -1, 16, dtype="fp16")
    layers = [
        layer("in", "Reformat", [pt("a", -1, 16)], [cast], role="layout"),
        layer("__myl_Relu_myl0_1", "kgen", [cast], [made], "r"),
        layer("p1", "kgen", [pt("r [profile 1].1_4_myl1", -1, 16)], [pt("m", -1, 1)], "f", profile=1),
    ]
    costs = plan_costs(layers, {"r": relu, "f": flat})
    assert [(known(cost).bytes_read, known(cost).bytes_written) for cost in costs] == [(192, 96), (96, 96), (192, 12)]
    # Nothing but the other dims of the plan tells those of m.
    assert "taken as those of other tensors" in known(costs[2]).note
    assert "taken" not in known(costs[1]).note
    for cost in plan_costs(layers, {}):
        assert cost.work is None
        assert "--minShapes" in cost.reason


def test_dims_that_may_be_several_things_stay_unknown() -> None:
    ops = {
        "m": op("MatMul", [t("a", 3, 16), t("b", 16, 5)], [t("c", 3, 5)]),
        "n": op("MatMul", [t("d", 7, 16), t("b", 16, 5)], [t("e", 7, 5)]),
    }
    layers = [
        layer("named", "gemm", [pt("a", -1, 16), pt("b", 16, 5)], [pt("c", -1, 5)], "m"),
        layer("other", "gemm", [pt("d", -1, 16), pt("b", 16, 5)], [pt("e", -1, 5)], "n"),
        layer("open", "kgen", [pt("u", -1, 4)], [pt("v", -1, 4)], "m"),
    ]
    named, other, open_ = plan_costs(layers, ops)
    assert known(named).bytes_written == 4 * 3 * 5
    assert known(other).bytes_written == 4 * 7 * 5
    assert open_.work is None


def test_readers_of_a_view_read_what_it_shows() -> None:
    layers = [
        layer("r", "kgen", [pt("a", 4, 16)], [pt("b", 4, 16)], "r"),
        layer("v", "NoOp", [pt("b", 4, 16)], [pt("c", 64)], role="idle"),
        layer("w", "reshape", [pt("c", 64)], [pt("d", 8, 8)], role="idle"),
        layer("s", "kgen", [pt("d", 8, 8)], [pt("e", 8, 8)], "s"),
    ]
    ops = {"r": op("Relu", [t("a", 4, 16)], [t("b", 4, 16)]), "s": op("Relu", [t("d", 8, 8)], [t("e", 8, 8)])}
    costs = plan_costs(layers, ops)
    assert dict(costs[3].reads) == {"b": 256}
    assert known(costs[1]) == known(costs[2]) == Work()


def test_a_tensor_that_is_listed_twice_is_read_in_parts_but_never_more_than_all_of_it() -> None:
    maker = layer("__myl_Move_myl0_0", "kgen", [], [pt("q", 3, 8)], role="layout")
    thirds = layer("__myl_Conc_myl0_1", "kgen", [pt("q", 1, 8), pt("q", 1, 8)], [pt("r", 2, 8)], role="layout")
    same = layer("__myl_Mul_myl0_2", "kgen", [pt("q", 3, 8), pt("q", 3, 8)], [pt("s", 3, 8)], role="layout")
    costs = plan_costs([maker, thirds, same], {})
    assert (costs[1].reads["q"], costs[2].reads["q"]) == (64, 96)


def test_padding_and_dims_of_one_element_count_as_they_lie_in_memory() -> None:
    padded = PlanTensor(name="a", dims=(1, 20, 4, 4), dtype="fp16", vector_axis=1, vector=8)
    repeated = pt("b", 1, 20, 4, 4, strides=(0, 1, 0, 0))
    (cost,) = plan_costs([layer("c", "kgen", [repeated], [padded], role="layout")], {})
    assert (cost.reads["b"], cost.writes["a"]) == (4 * 20, 2 * 24 * 16)


@pytest.mark.parametrize(
    ("source", "target", "flops"),
    [("fp32", "fp32", 0), ("fp32", "fp16", 64), ("fp32", "int8", 4 * 64), ("int8", "fp16", 2 * 64)],
)
def test_a_reformat_converts_what_changes_dtype(source: str, target: str, flops: int) -> None:
    (cost,) = plan_costs(
        [layer("r", "Reformat", [pt("a", 64, dtype=source)], [pt("b", 64, dtype=target)], role="layout")], {}
    )
    assert known(cost).vector_flops == flops
    assert known(cost).bound == "exact"


def test_what_is_not_known_is_said() -> None:
    ops = {
        "odd": Op(op_type="Odd", domain="my", inputs=(t("a", 8),), outputs=(t("b", 8),)),
        "open": op(
            "Relu", [Tensor(name="c", dtype="fp32", shape=("n",))], [Tensor(name="d", dtype="fp32", shape=("n",))]
        ),
    }
    layers = [
        layer("0", "PluginV3", [pt("a", 8)], [pt("b", 8)], "odd"),
        layer("1", "kgen", [pt("c", 8)], [pt("d", 8)], "open"),
        layer("2", "kgen", [pt("e", 8)], [pt("f", 8)]),
        layer("3", "kgen", [PlanTensor(name="g", dims=None, dtype="fp32")], [pt("h", 8)]),
        layer("4", "kgen", [pt("i", 8, dtype="")], [pt("j", 8)]),
        layer("5", "Myelin", [], [], "open"),
    ]
    plugin, shape, none, dims, dtype, bare = plan_costs(layers, ops)
    for cost, words in ((plugin, "my.Odd"), (shape, "unknown shape"), (none, "no ONNX node")):
        assert words in cost.reason
        assert (known(cost).bytes, known(cost).bound) == (64, "lower")
        assert words in known(cost).note
    for cost, words in ((dims, "dimensions"), (dtype, "dtype"), (bare, "which tensors")):
        assert cost.work is None
        assert words in cost.reason


def test_a_region_hides_several_kernels() -> None:
    ops = {
        "a": op("MatMul", [t("x", 8, 64), t("w", 64, 32, constant=True)], [t("y", 8, 32)]),
        "b": op("Softmax", [t("y", 8, 32)], [t("z", 8, 32)]),
    }
    (cost,) = plan_costs([layer("{ForeignNode[a...b]}", "Myelin", [pt("x", 8, 64)], [pt("z", 8, 32)], "a", "b")], ops)
    work = known(cost)
    assert work.tensor_flops == 2 * 8 * 64 * 32
    assert work.bytes_read == 4 * (8 * 64 + 64 * 32)
    assert work.bytes_written == 4 * 8 * 32
    assert work.bound == "lower"
    assert "several kernels" in work.note


def test_an_embedding_in_a_region_reads_its_rows() -> None:
    table = t("table", 30522, 768, constant=True)
    ops = {"e": op("Gather", [table, t("ids", 1, 16, dtype="int64")], [t("y", 1, 16, 768)], axis=0)}
    ids, made = pt("ids", 1, 16, dtype="int32"), pt("y", 1, 16, 768, dtype="fp16")
    unlisted = layer("{ForeignNode[e...e]}", "Myelin", [ids], [made], "e")
    constant = layer(
        "table", "Constant", [], [pt("(Unnamed Layer* 1) [Constant]", 30522, 768, dtype="fp16")], role="idle"
    )
    listed = layer("e", "Gather", [ids, *constant.layer.outputs], [made], "e")
    (cost,) = plan_costs([unlisted], ops)
    assert dict(cost.reads) == {"ids": 64, "table": 2 * 16 * 768}
    # Every word may be the same one: what is read of the table is no bound.
    assert known(cost).unsure.bytes == 64 + 2 * 16 * 768
    _, cost = plan_costs([constant, listed], ops)
    assert dict(cost.reads) == {"ids": 64, "(Unnamed Layer* 1) [Constant]": 2 * 16 * 768}
    assert known(cost).bytes_parameters == 2 * 16 * 768


def test_what_is_folded_before_the_run_counts_nothing() -> None:
    ops = {
        "q": op(
            "DequantizeLinear", [t("i", 64, 32, dtype="int8", constant=True), t("s", constant=True)], [t("w", 64, 32)]
        ),
        "m": op("MatMul", [t("x", 8, 64), t("w", 64, 32)], [t("y", 8, 32)]),
    }
    (cost,) = plan_costs([layer("m", "gemm", [pt("x", 8, 64)], [pt("y", 8, 32)], "q", "m")], ops)
    assert known(cost).vector_flops == 0
    # The engine keeps what is dequantised.
    assert dict(cost.reads) == {"x": 4 * 8 * 64, "w": 64 * 32}
    assert cost.constants == {"w"}


def test_a_deconvolution_and_a_fused_pooling_by_their_attributes() -> None:
    window: dict[str, Attribute] = {"Kernel": (2, 2), "OutMaps": 6, "Groups": 2}
    up = layer("up", "CaskDeconvolutionV2", [pt("a", 1, 4, 5, 5)], [pt("b", 1, 6, 10, 10)], attributes=window)
    names: dict[str, Attribute] = {
        "ConvKernel": (3, 3), "ConvOutMaps": 8, "ConvGroups": 1, "ConvStride": (2, 2), "ConvPrePadding": (1, 1),
        "ConvPostPadding": (1, 1), "ConvDilation": (1, 1), "PoolingType": "MAX", "PoolingWindowSize": (2, 2),
    }  # fmt: skip
    pooled = layer("p", "CaskConvActPool", [pt("c", 1, 4, 16, 16)], [pt("d", 1, 8, 4, 4)], attributes=names)
    costs = plan_costs([up, pooled], {})
    assert known(costs[0]).tensor_flops == 2 * (4 * 25) * (6 // 2) * 4
    assert known(costs[1]).tensor_flops == 2 * (8 * 8 * 8) * 4 * 9
    assert [known(cost).core for cost in costs] == [
        None,
        Core(kind="convolution", m=8 * 8, n=8, k=4 * 9, window=9, stride=4),
    ]


def test_several_products_of_the_same_size_in_one_layer_are_a_batch() -> None:
    weights = [pt(name, 64, 32) for name in "uvw"]
    rows, made = pt("x", 2, 16, 64), [pt(name, 2, 16, 32) for name in "abc"]
    three = layer("three", "gemm", [rows], made, constants=weights)
    other = layer("two", "gemm", [rows], [*made[:1], pt("d", 2, 16, 8)], constants=[*weights[:1], pt("z", 64, 8)])
    cores = [known(cost).core for cost in plan_costs([three, other], {})]
    assert cores == [Core(kind="product", batch=3, m=32, n=32, k=64), None]


def test_a_loop_whose_length_is_not_told_is_said() -> None:
    counted = [
        PlanLayer(name="body", kind="kgen"),
        PlanLayer(name="step", kind="add", inputs=(pt("i", 1), pt("__d^3i32_myl0", 1)), outputs=(pt("i", 1),)),
        PlanLayer(
            name="jump",
            kind="cjmp",
            inputs=(pt("i", 1), pt("__d^10i32_myl0", 1)),
            attributes={"JumpTargetThen": "body"},
        ),
        PlanLayer(name="after", kind="kgen"),
    ]
    assert runs(counted) == [4, 4, 4, 1]
    open_ = [*counted[:1], *counted[2:]]
    assert runs(open_) == [None, None, 1]
    layers = [MatchedLayer(layer=msgspec.structs.replace(open_[0], outputs=(pt("o", 4),)), nodes=("n",))]
    layers += [MatchedLayer(layer=one, role="shape") for one in open_[1:]]
    cost = plan_costs(layers, {"n": op("Relu", [t("a", 4)], [t("o", 4)])})[0]
    assert known(cost).bound == "lower"
    assert "unknown length" in known(cost).note


# --- laws -----------------------------------------------------------------------------------


@given(st.integers(0, 10**18), st.lists(st.integers(0, 10**12), min_size=1, max_size=20))
def test_parts_add_up_and_keep_to_their_weights(total: int, weights: list[int]) -> None:
    parts = apportioned(total, weights)
    assert sum(parts) == total
    whole = sum(weights)
    for part, weight in zip(parts, weights, strict=True):
        assert part >= 0
        if whole:
            assert abs(part * whole - total * weight) < whole


WORDS = ["", "Add", "MulSum", "Fc", "MaxrSubExpSum", "DivMul", "Corr"]


@given(st.data())
def test_no_arithmetic_is_lost_whoever_shares_it(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 6))
    places = [
        Owner(
            place=index,
            layer=PlanLayer(name=f"__myl_{data.draw(st.sampled_from(WORDS))}_myl0_{index}", kind="kgen"),
            explicit=data.draw(st.booleans()),
            sums=data.draw(st.booleans()),
            flops=data.draw(st.integers(0, 10**6)),
            moved=data.draw(st.integers(0, 10**6)),
            written=data.draw(st.integers(0, 10**6)),
        )
        for index in range(count)
    ]
    nodes = {
        f"n{index}": Cost(
            tensor_flops=data.draw(st.integers(0, 10**6)),
            arithmetic=Recipe(data.draw(st.integers(0, 10**6)), {"exp": data.draw(st.integers(0, 100))}),
        )
        for index in range(data.draw(st.integers(1, 6)))
    }
    own = st.lists(st.sampled_from(range(count)), min_size=1, unique=True)
    owners = {name: [places[index] for index in data.draw(own)] for name in nodes}
    kinds = {name: data.draw(st.sampled_from(["Gemm", "Softmax", "Add", "Odd"])) for name in nodes}
    parts = shares(nodes, kinds, owners).parts
    assert sum(part.tensor_flops for part in parts.values()) == sum(cost.tensor_flops for cost in nodes.values())
    assert sum(part.arithmetic.vector for part in parts.values()) == sum(
        cost.arithmetic.vector for cost in nodes.values()
    )
    assert sum(part.arithmetic.special.get("exp", 0) for part in parts.values()) == sum(
        cost.arithmetic.special["exp"] for cost in nodes.values()
    )
