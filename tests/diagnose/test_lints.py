"""Lints on plans made for each of them, and on real ones, where they are counted from the files by other means."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from tests.fakes.cases import Timed, gemv, make_case
from tests.fakes.engine_factory import MNIST, MOBILENET, RESNET, RESNET_QAT, layers_of
from tests.fakes.support import ROOT, captured
from trtprof.analysis.plan import price_plan
from trtprof.base.records import Match, MatchedLayer, PlanBinding, PlanLayer, PlanLint, PlanTensor, Work
from trtprof.diagnose import RULES, judge_plan
from trtprof.diagnose.plans import PlanView
from trtprof.diagnose.products import PRODUCT_OPS, main_kernel, of_plan
from trtprof.engine.inspector import read_layer_info
from trtprof.kernel_names.parse import parse

SIMT = (
    "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize32x32x8_stage3_warpsize1x2x1_g1_ffma_t1r5s5"
)
TENSOR = "sm80_xmma_fprop_implicit_gemm_f16f16_f16f16_f16_nhwckrsc_nhwc_tilesize64x32x64_stage5_g1_tensor16x8x16_t1r1s1"


def tensor(name: str, *dims: int, dtype: str = "fp16", **fields: Any) -> PlanTensor:
    return PlanTensor(name=name, dims=dims, dtype=dtype, **fields)


def conv(
    channels: int = 64,
    made: int = 64,
    *,
    groups: int = 1,
    dtype: str = "fp16",
    out: str = "",
    tactic: str = "",
    name: str = "conv",
) -> PlanLayer:
    return PlanLayer(
        name=name, kind="CaskConvolution", parameter_type="Convolution",
        inputs=(tensor(f"{name}_in", 1, channels, 8, 8, dtype=dtype),),
        outputs=(tensor(f"{name}_out", 1, made, 8, 8, dtype=out or dtype),), tactic=tactic,
        attributes={"Groups": groups},
    )  # fmt: skip


def gemm(rows: int, inner: int, columns: int, dtype: str = "fp16") -> PlanLayer:
    return PlanLayer(
        name="gemm",
        kind="gemm",
        inputs=(tensor("a", 4, rows, inner, dtype=dtype),),
        constants=(tensor("b", 4, inner, columns, dtype=dtype), tensor("alpha", 1, dtype="fp32")),
        outputs=(tensor("c", 4, rows, columns, dtype=dtype),),
    )


def correlation(channels: int, weights: tuple[int, int], made: int) -> PlanLayer:
    """As TensorRT-RTX shows a convolution: with weights and biases as constants, and no number of groups."""
    return PlanLayer(
        name="correlation",
        kind="correlation",
        inputs=(tensor("x", 1, channels, 8, 8),),
        constants=(tensor("scale", 1), tensor("bias", 1, made, 1, 1), tensor("w", *weights, 3, 3)),
        outputs=(tensor("y", 1, made, 8, 8),),
    )


def other(kind: str, source: PlanTensor, target: PlanTensor, name: str = "x", **fields: Any) -> PlanLayer:
    return PlanLayer(name=name, kind=kind, inputs=(source,), outputs=(target,), **fields)


def binding(name: str, mode: Literal["input", "output"]) -> PlanBinding:
    return PlanBinding(name=name, mode=mode)


def lints(*layers: PlanLayer, works: list[Work | None] | None = None, bindings: Any = ()) -> list[PlanLint]:
    matched = [MatchedLayer(layer=layer, role="idle" if layer.kind == "NoOp" else "compute") for layer in layers]
    return list(judge_plan(PlanView(matched, works or [None] * len(layers), bindings)))


def codes(*layers: PlanLayer, **rest: Any) -> list[str]:
    return [each.code for each in lints(*layers, **rest)]


def test_dimensions_of_products(subtests: pytest.Subtests) -> None:
    """Summed over, and the width of the result; then the groups of a convolution, or the rows of a matrix product."""
    rows: list[tuple[PlanLayer, tuple[int, int, int] | None]] = [
        (conv(3, 64), (3, 64, 1)),
        (conv(32, 64, groups=4), (8, 16, 4)),
        (conv(32, 32, groups=32), (1, 1, 32)),
        (correlation(3, (64, 3), 64), (3, 64, 1)),
        (correlation(16, (16, 1), 16), (1, 1, 16)),
        (correlation(1, (8, 1), 8), (1, 8, 1)),
        (gemm(128, 64, 192), (64, 192, 128)),
        (other("gemm", tensor("a", 64, 128), tensor("c", 128, 30)), (64, 30, 128)),
        (other("gemm", tensor("a", 64, 100), tensor("c", 128, 30)), None),
        (other("gemm", tensor("a", -1, 100), tensor("c", -1, 30)), None),
        (other("gemm", PlanTensor(name="a", dims=None, dtype=""), tensor("c", 128, 30)), None),
        (PlanLayer(name="empty", kind="gemm"), None),
    ]
    for layer, dims in rows:
        with subtests.test(dims=dims):
            found = of_plan(layer)
            third = None if found is None else found.batch if found.convolution else found.m
            assert (None if found is None else (found.inner, found.n, third)) == dims


def test_tc1_dimensions_that_tensor_cores_cannot_use(subtests: pytest.Subtests) -> None:
    rows: list[tuple[PlanLayer, bool]] = [
        (conv(64, 64), False),
        (conv(3, 64), True),
        (conv(64, 60), True),
        # 16 bytes are 8 of fp16, 16 of int8 and 4 of TF32.
        (conv(8, 24), False),
        (conv(8, 24, dtype="int8"), True),
        (conv(16, 32, dtype="int8"), False),
        (conv(4, 12, dtype="fp32"), False),
        (conv(3, 12, dtype="fp32"), True),
        (conv(3, 64, dtype="int64"), False),
        # A depthwise convolution and a product of a vector leave nothing to a tensor core.
        (conv(33, 33, groups=33), False),
        (gemm(1, 63, 30), False),
        (gemm(128, 63, 1), False),
        (gemm(128, 63, 64), True),
        (gemm(128, 64, 64), False),
        # It is on tensor cores all the same.
        (conv(3, 64, tactic=TENSOR), False),
        (conv(3, 64, tactic=SIMT), True),
    ]
    for layer, found in rows:
        with subtests.test(found=found):
            assert ("TC1" in codes(layer)) is found


def test_tc1_shows_the_numbers_and_what_to_pad_to() -> None:
    (found,) = lints(conv(3, 60))
    assert found.what == "input channels no multiple of 8, as tensor cores want them of fp16"
    assert found.evidence == "3 input channels and 60 output channels"
    assert found.try_.startswith("pad to 8, 64 with zeros in the model")
    (found,) = lints(gemm(128, 30, 64))
    assert found.evidence == "K = 30"


def test_tc1_goes_by_what_is_multiplied() -> None:
    """A weight-only quantised product is one of fp16: 24 is a multiple of 8, not of 16."""
    layer = conv(24, 24, dtype="int8", out="int8")
    assert codes(layer) == ["TC1"]
    assert codes(layer, works=[Work(tensor_flops=2, dtype="fp16")]) == []


def test_tc2_tactics_that_leave_the_tensor_cores_idle(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str]] = [
        (SIMT, "ffma"),
        ("sm50_xmma_conv_fprop_fused_conv_act_fp32_NCHW_fp32_NCHW_KCRS_fp32_fp32_fp32", "sm50"),
        ("ampere_sgemm_128x32_sliced1x4_nn_v1", "sgemm"),
        ("ampere_scudnn_128x128_ldg4_relu_exp_interior_nhwc_tn_v1", "scudnn"),
        ("volta_int8x4_icudnn_int8x4_128x32_relu_xregs_medium_c32_nn_v1", "icudnn"),
        ("sm70_xmma_fprop_conv1x1_f32f32_f32_f32_nchwkcrs_nchw_simt_small_batch_bias_relu", "simt"),
        ("maxwell_fp16_anything_128x32", ""),
        (TENSOR, ""),
        ("sm80_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_g1_tensor16x8x8_simple_t1r1s1", ""),
        ("ampere_h16816cudnn_128x64_sliced1x2_ldg8_relu_exp_stages_64x3_small_nhwc_tn_v1", ""),
        ("turing_fp16_i8816cudnn_int8_128x128_ldg16_relu_small_nt_v1", ""),
        ("trt_turing_cutlass_image_network_first_layer_hmma_fprop_f16f16f32_nhwc_nhwc_k64r7s7c4_stride2x2", ""),
        ("cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4", ""),
        # None of these says anything for sure: xmma is no mark, and "batch" has a tc in it.
        ("sm80_xmma_fprop_batch_anything", ""),
        ("__myelin_CASK_STUB", ""),
        ("", ""),
    ]
    for tactic, mark in rows:
        with subtests.test(tactic=tactic, mark=mark):
            found = [each for each in lints(conv(64, 64, tactic=tactic)) if each.code == "TC2"]
            assert [each.evidence.split("'")[1] for each in found] == ([mark] if mark else [])


def labelled() -> list[str]:
    """Names of kernels whose unit the grammar knows to be one that multiplies."""
    files = ("labels.csv", "public_names.csv")
    folder = ROOT / "tests" / "kernel_names"
    names = [
        row["name"]
        for file in files
        for row in csv.DictReader((folder / file).read_text(encoding="utf-8").splitlines())
    ]
    return [name for name in names if parse(name).unit in ("tensor", "simt")]


def test_plans_and_runs_are_judged_alike_by_every_labelled_name() -> None:
    names = labelled()
    assert len(names) > 240
    case, judged = make_case(Timed(gemv())), Counter[str]()
    for name in names:
        unit, of_misfit, of_fit = parse(name).unit, codes(conv(3, 64, tactic=name)), codes(conv(64, 64, tactic=name))
        assert ("TC2" in of_fit, "TC1" in of_misfit) == (unit == "simt", unit != "tensor"), name
        match = Match(kernel=name, layer="gemv", confidence="exact", reason="", median_ns=1, total_ns=1, count=1)
        kernel = main_kernel(case, msgspec.structs.replace(case.layers[0], kernels=(match,)))
        if parse(name).op in PRODUCT_OPS:
            assert kernel is not None, name
            assert ("TC2" in of_fit) == (kernel.name.unit == "simt"), name
            judged[kernel.name.unit] += 1
    assert min(judged["tensor"], judged["simt"]) > 80


def test_pr1_quantised_products_with_wide_outputs() -> None:
    (found,) = lints(conv(64, 64, dtype="int8", out="fp32"))
    assert (found.code, found.what) == ("PR1", "reads int8 and writes fp32")
    assert found.evidence == "16.4 kB written, 4.10 kB as int8"
    (found,) = lints(conv(64, 64, dtype="int8", out="fp16"), bindings=[binding("conv_out", "output")])
    assert "(an output of the engine)" in found.evidence
    assert codes(conv(64, 64, dtype="int8")) == []
    assert codes(conv(64, 64, dtype="int8", out="int32")) == []


def test_pr2_fp32_layers_in_an_engine_of_lower_precision() -> None:
    wide = conv(64, 64, dtype="fp32", name="wide")
    halves = [conv(64, 64, name="first"), conv(64, 64, name="second")]
    (found,) = lints(*halves, wide)
    assert (found.code, found.layer, found.evidence) == ("PR2", "wide", "a product, 32.8 kB moved")
    # As many of the one as of the other, or all of fp32: no engine of lower precision.
    assert codes(halves[0], wide) == []
    assert codes(wide) == []
    # By arithmetic where that is known.
    works = [Work(tensor_flops=1, dtype="fp16"), Work(tensor_flops=1, dtype="fp16")]
    assert codes(*halves, wide, works=[*works, Work(tensor_flops=100, dtype="fp32")]) == []


WIDE, HALF, INT8 = (tensor("x", 2, 8, dtype=dtype) for dtype in ("fp32", "fp16", "int8"))


def named(name: str, source: PlanTensor) -> PlanTensor:
    return PlanTensor(name=name, dims=source.dims, dtype=source.dtype)


def test_rf1_conversions_at_the_border_of_the_engine() -> None:
    bindings = [binding("in", "input"), binding("out", "output")]
    (found,) = lints(other("Reformat", named("in", WIDE), named("a", HALF)), bindings=bindings)
    assert (found.code, found.what) == ("RF1", "converts an input of the engine")
    assert found.evidence == "in, fp32 -> fp16, 2x8: 96.0 B moved"
    assert "--inputIOFormats=fp16:chw" in found.try_
    (found,) = lints(other("Reformat", named("a", HALF), named("out", WIDE)), bindings=bindings)
    assert (found.code, found.what) == ("RF1", "converts an output of the engine")
    assert "let the engine give fp16" in found.try_
    assert codes(other("Reformat", named("in", HALF), named("a", HALF)), bindings=bindings) == []


def test_rf2_conversions_between_layers() -> None:
    (found,) = lints(other("Reformat", named("a", WIDE), named("b", HALF), serves="conv1"))
    assert (found.code, found.what) == ("RF2", "converts fp32 to fp16 between two layers")
    assert found.try_.endswith("it is made for conv1")
    assert codes(other("NoOp", named("a", WIDE), named("b", HALF))) == []


def test_qd1_layers_that_only_quantise(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str, PlanTensor, PlanTensor, str]] = [
        ("Reformat", "QDQ", HALF, INT8, "quantising"),
        ("Reformat", "QDQ", INT8, HALF, "dequantising"),
        ("Scale", "", WIDE, INT8, "quantising"),
        ("Quantize", "", WIDE, INT8, "quantising"),
        ("Dequantize", "", INT8, HALF, "dequantising"),
        ("Scale", "", HALF, HALF, ""),
        ("Scale", "", INT8, INT8, ""),
        ("PointWiseV2", "", HALF, INT8, ""),
    ]
    for kind, origin, source, target, what in rows:
        with subtests.test(kind=kind, origin=origin, what=what):
            found = lints(other(kind, named("a", source), named("b", target), origin=origin))
            assert [(each.code, each.what) for each in found] == (
                [("QD1", f"a layer of its own for {what}")] if what else []
            )


def test_sl1_slices_that_convert() -> None:
    (found,) = lints(other("Slice", named("a", WIDE), named("b", HALF)))
    assert (found.code, found.what) == ("SL1", "a slice that converts fp32 to fp16")
    assert codes(other("Shuffle", named("a", HALF), named("b", INT8))) == ["SL1"]
    assert codes(other("Slice", named("a", HALF), named("b", HALF))) == []


def test_codes_are_unique_and_titled() -> None:
    of_plans = sorted((rule for rule in RULES.values() if rule.plan is not None), key=lambda rule: rule.order)
    assert [rule.code for rule in of_plans] == ["TC1", "TC2", "PR1", "PR2", "RF1", "RF2", "QD1", "SL1"]
    assert all(rule.title and rule.section(part) for rule in of_plans for part in ("What", "Why", "Try"))


def test_lints_come_by_code_then_in_the_order_of_the_plan() -> None:
    found = lints(conv(3, 64, name="first"), conv(64, 64, tactic=SIMT, name="second"), conv(5, 64, name="third"))
    assert [(each.code, each.layer) for each in found] == [("TC1", "first"), ("TC1", "third"), ("TC2", "second")]


def real(path: Path) -> list[PlanLint]:
    return list(price_plan(read_layer_info(path)).document.summary.lints)


@pytest.mark.parametrize(
    ("engine", "floats", "unfused"),
    [("fp16", 0, 0), ("int8", 2, 2), (RESNET_QAT, 13, 10), (RESNET, 0, 0), (MOBILENET, 17, 17)],
)
def test_float_outputs_and_unfused_quantisation_are_those_in_the_file(
    engine: str, floats: int, unfused: int, tmp_path: Path
) -> None:
    path = layers_of(engine, tmp_path)
    layers = json.loads(path.read_text())["Layers"]
    found = real(path)
    written = [
        layer["Name"]
        for layer in layers
        if layer.get("ParameterType") == "Convolution"
        and "Int8" in layer["Inputs"][0]["Format/Datatype"]
        and "Int8" not in layer["Outputs"][0]["Format/Datatype"]
    ]
    assert [each.layer for each in found if each.code == "PR1"] == written
    assert len(written) == floats
    alone = [layer["Name"] for layer in layers if layer.get("Origin") == "QDQ"]
    assert [each.layer for each in found if each.code == "QD1"] == alone
    assert len(alone) == unfused


@pytest.mark.parametrize(
    ("engine", "layer"),
    [("int8", "conv1.weight + QuantizeLinear_4 + Conv_5"), (RESNET_QAT, "conv1.weight + QuantizeLinear_7 + Conv_9")],
)
def test_the_first_convolution_of_a_quantised_network_does_not_use_tensor_cores(
    engine: str, layer: str, tmp_path: Path
) -> None:
    (found,) = [each for each in real(layers_of(engine, tmp_path)) if each.code == "TC1"]
    assert found.layer == layer
    assert found.evidence.startswith("3 input channels; its tactic is one of the CUDA cores (icudnn)")


@pytest.mark.parametrize("engine", ["fp16", RESNET])
def test_an_fp16_network_that_runs_on_tensor_cores_converts_at_both_ends_and_nothing_else(
    engine: str, tmp_path: Path
) -> None:
    assert Counter(each.code for each in real(layers_of(engine, tmp_path))) == {"RF1": 2}


def test_fp32_convolutions_on_an_ada_gpu_are_found_whatever_xmma_suggests() -> None:
    found = {each.code: each.layer for each in real(captured("layer_info", MNIST)) if each.code.startswith("TC")}
    assert found == {"TC1": "node_conv2d + node_relu", "TC2": "node_conv2d_1 + node_relu_1"}
