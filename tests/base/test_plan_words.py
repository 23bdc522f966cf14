"""What a layer of a plan does and how its tensors lie in memory, in the words of every TensorRT."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from trtprof.base.plan_words import (
    change,
    is_convolution,
    is_product,
    is_reduction,
    is_reformat,
    layout,
    precision,
    tensor_words,
)
from trtprof.base.records import MatchedLayer, PlanLayer, PlanTensor, Work


def tensor(dims: tuple[int, ...] | None = (1, 3, 8, 8), dtype: str = "fp32", **fields: Any) -> PlanTensor:
    return PlanTensor(name="t", dims=dims, dtype=dtype, **fields)


@pytest.mark.parametrize(
    ("kind", "parameter_type", "name", "product", "convolution", "reduction"),
    [
        ("CaskConvolution", "Convolution", "conv1 + relu1", True, True, False),
        ("CudaDepthwiseConvolution", "Convolution", "dw", True, True, False),
        ("CaskGemmConvolution", "Convolution", "conv1", True, True, False),
        ("CaskGemmMatrixMultiply", "MatrixMultiply", "fc", True, False, False),
        ("CaskPooling", "Pooling", "pool", False, False, True),
        ("gemm", "", "node_linear_myl0_3", True, False, False),
        ("correlation", "", "n4_myl0_6", True, True, False),
        ("runtime_fusion", "", "__myl_FcAddRelu_myl0_2", True, False, False),
        ("runtime_fusion", "", "__myl_CorrMulAdd_myl0_2", True, True, False),
        ("runtime_function", "", "__myl_Conc_myl0_22", False, False, False),
        ("kgen", "", "_gemm_mha_v2_myl0_6", True, False, False),
        ("kgen", "", "__myl_MulAddMaxrSubExpSumDiv_myl0_5", False, False, True),
        ("kgen", "", "__myl_ConcAddMul_myl0_5", False, False, False),
        ("kgen", "", "__myl_ResTraAdd_myl0_5", False, False, False),
        ("maxpool", "", "n7_myl0_2", False, False, True),
        ("PointWiseV2", "PointWise", "PWN(relu)", False, False, False),
        ("Reformat", "Reformat", "Reformatting CopyNode for Input Tensor 0 to conv1", False, False, False),
        ("SoftMaxV2", "SoftMax", "softmax", False, False, True),
        # Neither a layer that is called so, nor one that converts.
        ("PointWiseV2", "PointWise", "convolution_bias", False, False, False),
        ("TypeConverter", "", "x", False, False, False),
    ],
)
def test_what_a_layer_does(
    kind: str, parameter_type: str, name: str, product: bool, convolution: bool, reduction: bool
) -> None:
    layer = PlanLayer(name=name, kind=kind, parameter_type=parameter_type)
    assert (is_product(layer), is_convolution(layer), is_reduction(layer)) == (product, convolution, reduction)


@pytest.mark.parametrize(
    ("role", "kind", "expected"),
    [("layout", "kgen", True), ("compute", "Reformat", True), ("idle", "Reformat", False), ("compute", "kgen", False)],
)
def test_reformats(role: Any, kind: str, expected: bool) -> None:
    assert is_reformat(MatchedLayer(layer=PlanLayer(name="x", kind=kind), role=role)) is expected


@pytest.mark.parametrize(
    ("text", "vector", "word"),
    [
        ("Row major linear FP32", 1, "Linear"),
        ("Row major linear FP16 format", 1, "Linear"),
        ("Channel major FP32 format", 1, "NHWC"),
        ("Channel major FP16 format where channel % 8 == 0", 8, "NHWC8"),
        ("Channel major FP16 format where channel % 8 == 0 with 3 spatial dimensions", 8, "NDHWC8"),
        ("Thirty-two wide channel vectorized row major Int8 format", 32, "NC/32HW32"),
        ("Thirty-two wide channel vectorized row major Int8 format with 3 spatial dimensions", 32, "NC/32DHW32"),
        ("(Linear) Row major linear format", 1, "Linear"),
        ("(NHWC) Channel major format", 1, "NHWC"),
        ("(Transposed) Transposed format", 1, "Transposed"),
        ("(Arbitrary) Format with stride order = [4,1,0,3,2]", 1, "order 4,1,0,3,2"),
        ("Float", 1, ""),
        ("N/A due to dynamic shapes", 1, ""),
    ],
)
def test_formats_have_short_names(text: str, vector: int, word: str) -> None:
    made = tensor(format=text, vector=vector, vector_axis=1 if vector > 1 else None)
    assert layout(made) == word
    assert tensor_words(made) == f"fp32 {word}".strip()


def reformat(source: PlanTensor, target: PlanTensor) -> PlanLayer:
    return PlanLayer(name="r", kind="Reformat", inputs=(source,), outputs=(target,))


def test_a_change_says_dtype_and_format_then_dims_then_strides() -> None:
    linear = tensor(format="(Linear) Row major linear format", strides=(192, 64, 8, 1))
    nhwc = tensor(format="(NHWC) Channel major format", strides=(192, 1, 24, 3), dtype="fp16")
    padded = tensor((1, 4, 8, 8), format="(NHWC) Channel major format", dtype="fp16")
    turned = tensor(format="(Linear) Row major linear format", strides=(192, 64, 1, 8))
    assert change(reformat(linear, nhwc)) == "fp32 Linear -> fp16 NHWC"
    assert change(reformat(linear, padded)) == "fp32 Linear 1x3x8x8 -> fp16 NHWC 1x4x8x8"
    assert change(reformat(linear, turned)) == "fp32 Linear strides 192,64,8,1 -> 192,64,1,8"
    assert change(reformat(linear, linear)) == "fp32 Linear -> fp32 Linear"
    assert change(PlanLayer(name="fill", kind="kgen", outputs=(nhwc,))) == "to fp16 NHWC"
    assert change(PlanLayer(name="nothing", kind="kgen")) == "unknown"


def test_the_precision_is_that_of_the_arithmetic_else_of_the_largest_tensor() -> None:
    layer = PlanLayer(
        name="x",
        kind="kgen",
        inputs=(tensor(dtype="int8"),),
        outputs=(tensor((1, 3, 16, 16), dtype="fp16"),),
        constants=(tensor((1,), dtype="fp32"),),
    )
    matched = MatchedLayer(layer=layer)
    assert precision(matched, Work(dtype="bf16", vector_flops=1)) == "bf16"
    assert precision(matched, Work()) == "fp16"
    assert precision(matched, Work(dtype="unknown")) == "fp16"
    assert precision(matched, None) == "fp16"
    assert precision(MatchedLayer(layer=msgspec.structs.replace(layer, kind="gemm")), None) == "int8"
    assert precision(MatchedLayer(layer=PlanLayer(name="x", kind="signal")), None) == "unknown"
