"""Engines as the files of TensorRT 8 tell of them: layer information, a profile and times, as trtexec exports them.

Small networks, so that whoever has no engine tests what the files of others prove too: one in fp16 as healthy as
they come, a quantised one with what goes wrong with quantisation, and one whose work is not told. Nothing of them was
measured.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fakes.support import captured
from trtprof.flows.analyze import Files

FP32 = "Row major linear FP32"
FP16 = "Row major linear FP16 format"
FP16_C4 = "Channel major FP16 format where channel % 4 == 0"
FP16_C8 = "Channel major FP16 format where channel % 8 == 0"
FP16_V32 = "Thirty-two wide channel vectorized row major FP16 format"
INT8_V4 = "Four wide channel vectorized row major Int8 format"
INT8_V32 = "Thirty-two wide channel vectorized row major Int8 format"

HMMA = (
    "sm80_xmma_fprop_implicit_gemm_f16f16_f16f16_f16_nhwckrsc_nhwc_tilesize128x64x32_stage3_warpsize2x2x1_g1_"
    "tensor16x8x16"
)
IMMA = (
    "sm80_xmma_fprop_implicit_gemm_interleaved_i8i8_i8i32_f32_nchw_vect_c_32kcrs_vect_c_32_nchw_vect_c_32_"
    "tilesize128x64x64_stage3_warpsize2x2x1_g1_tensor16x8x32"
)
DP4A = "ampere_fp32_icudnn_int8x4_128x64_relu_medium_nn_v1"
BATCH = 8

# What others captured is called: an engine of ResNet-18 in fp16 and a quantised one, two of MobileNet, and one of MNIST
# of TensorRT 10, which has no profile.
RESNET = "trex__examples__pytorch__resnet__A100__fp16__resnet.onnx.engine"
RESNET_QAT = "trex__examples__pytorch__resnet__A100__qat__resnet-qat.onnx.engine"
MOBILENET = "trex__tests__inputs__mobilenet.qat.onnx.engine"
RESIDUALS = "trex__tests__inputs__mobilenet_v2_residuals.qat.onnx.engine"
MNIST = "trt10.16.0_ada__mnist.layers.json"

Raw = dict[str, Any]


def tensor(name: str, form: str, *dims: int) -> Raw:
    """One of a batch of `BATCH`."""
    return {"Name": name, "Location": "Device", "Dimensions": [BATCH, *dims], "Format/Datatype": form}


def layer(name: str, kind: str, inputs: list[Raw], output: Raw, **more: Any) -> Raw:
    return {"Name": name, "LayerType": kind, "Inputs": inputs, "Outputs": [output], **more}


def reformat(name: str, source: Raw, target: Raw, origin: str = "REFORMAT") -> Raw:
    return layer(name, "Reformat", [source], target, ParameterType="Reformat", Origin=origin)


def convolution(
    name: str, inputs: list[Raw], output: Raw, tactic: str, *, kernel: int = 3, stride: int = 1, groups: int = 1
) -> Raw:
    channels, maps = inputs[0]["Dimensions"][1], output["Dimensions"][1]
    int8 = "Int8" in inputs[0]["Format/Datatype"]
    return layer(
        name, "CaskConvolution" if groups == 1 else "CudaDepthwiseConvolution", inputs, output,
        ParameterType="Convolution", Kernel=[kernel] * 2, PrePadding=[kernel // 2] * 2, PostPadding=[kernel // 2] * 2,
        Stride=[stride] * 2, Dilation=[1, 1], OutMaps=maps, Groups=groups,
        Weights={"Type": "Int8" if int8 else "Half", "Count": maps * channels // groups * kernel**2},
        Bias={"Type": "Float" if int8 else "Half", "Count": maps}, Activation="RELU", TacticName=tactic,
    )  # fmt: skip


def pooling(name: str, kind: str, source: Raw, target: Raw) -> Raw:
    return layer(name, kind, [source], target, ParameterType="Pooling", PoolingType="MAX", WindowSize=[2, 2])


def fp16() -> list[Raw]:
    """A residual network in fp16: it is converted at both ends, and runs on tensor cores in between."""
    image, read = tensor("image", FP32, 3, 256, 256), tensor("image_nhwc", FP16_C4, 3, 256, 256)
    stem, pooled = tensor("stem", FP16_C8, 32, 128, 128), tensor("pooled", FP16_C8, 32, 64, 64)
    inner, block = tensor("inner", FP16_C8, 32, 64, 64), tensor("block", FP16_C8, 32, 64, 64)
    mean, scores = tensor("mean", FP16_C8, 32, 1, 1), tensor("scores_nhwc", FP16_C8, 10, 1, 1)
    flat, out = tensor("scores_flat", FP16, 10), tensor("scores", FP32, 10)
    return [
        reformat("Reformatting CopyNode for Input Tensor 0 to Conv_0 + Relu_1", image, read),
        convolution("Conv_0 + Relu_1", [read], stem, HMMA, kernel=7, stride=2),
        pooling("MaxPool_2", "CudaPooling", stem, pooled),
        convolution("Conv_3 + Relu_4", [pooled], inner, HMMA),
        convolution("Conv_5 + Add_6 + Relu_7", [inner, pooled], block, HMMA),
        pooling("GlobalAveragePool_8", "CaskPooling", block, mean),
        convolution("Gemm_9", [mean], scores, HMMA, kernel=1),
        layer("reshape_after_Gemm_9", "NoOp", [scores], flat),
        reformat("Reformatting CopyNode for Output Tensor 0 to reshape_after_Gemm_9", flat, out),
    ]


def int8() -> list[Raw]:
    """A quantised one: two quantisations of their own, and two convolutions that write floats, one on CUDA cores."""
    image, read = tensor("image", FP32, 3, 256, 256), tensor("image_q", INT8_V4, 3, 256, 256)
    stem, pooled = tensor("stem", FP32, 64, 128, 128), tensor("pooled", FP32, 64, 64, 64)
    turned, quantised = tensor("pooled_v", FP16_V32, 64, 64, 64), tensor("pooled_q", INT8_V32, 64, 64, 64)
    inner, deep = tensor("inner", INT8_V32, 64, 64, 64), tensor("deep", INT8_V32, 64, 64, 64)
    wide, small = tensor("wide", FP16_V32, 48, 64, 64), tensor("small", FP16_V32, 48, 32, 32)
    return [
        reformat("QuantizeLinear_2", image, read, "QDQ"),
        convolution("conv1.weight + QuantizeLinear_4 + Conv_5", [read], stem, DP4A, kernel=7, stride=2),
        pooling("MaxPool_6", "TiledPooling", stem, pooled),
        reformat("Reformatting CopyNode for Output Tensor 0 to MaxPool_6", pooled, turned),
        reformat("QuantizeLinear_8", turned, quantised, "QDQ"),
        convolution("conv2.weight + QuantizeLinear_10 + Conv_11", [quantised], inner, IMMA),
        convolution("conv3.weight + QuantizeLinear_14 + Conv_15", [inner], deep, "", groups=64),
        convolution("conv4.weight + QuantizeLinear_18 + Conv_19", [deep], wide, IMMA, kernel=1),
        pooling("MaxPool_20", "TiledPooling", wide, small),
        layer("Flatten_21", "NoOp", [small], tensor("features", FP16, 48 * 1024)),
    ]


def regions() -> list[Raw]:
    """Two layers that each stand for what Myelin makes of many nodes, as TensorRT 8 has them, around a convolution."""
    latent, context = tensor("latent", FP16, 4, 64, 64), tensor("context", FP16, 77, 768)
    hidden, inner = tensor("hidden", FP16_C8, 32, 64, 64), tensor("inner", FP16_C8, 32, 64, 64)
    made = tensor("made", FP16, 4, 64, 64)

    def block(ends: str, inputs: list[Raw], output: Raw) -> Raw:
        return layer(f"{{ForeignNode[{ends}]}}", "Myelin", inputs, output, TacticValue="0x0000000000000000")

    return [
        block("/down/norm/Cast.../down/attn/MatMul_1", [latent, context], hidden),
        convolution("/mid/conv/Conv", [hidden], inner, HMMA),
        block("/up/norm/Cast.../up/proj/Add", [inner, context], made),
    ]


ENGINES: dict[str, Callable[[], list[Raw]]] = {"fp16": fp16, "int8": int8, "regions": regions}


def write_engine(folder: Path, name: str, *, count: int = 1, times: int = 11) -> Files:
    """The files of an engine; a layer takes 8 us and 10 ps more for each element of its tensors, an idle one nothing.

    ``count`` is the inferences that the profile is of, ``times`` those whose latency is exported: 100 us each.
    """
    layers = ENGINES[name]()
    last = layers[-1]["Outputs"][0]["Name"]
    graph, profile, latency = (folder / f"{name}.{part}.json" for part in ("graph", "profile", "timing"))
    graph.write_text(json.dumps({"Layers": layers, "Bindings": ["image", last]}))
    rows = []
    for raw in layers:
        elements = sum(math.prod(one["Dimensions"]) for one in (*raw["Inputs"], *raw["Outputs"]))
        ms = 0.0 if raw["LayerType"] == "NoOp" else round(0.008 + elements * 1e-8, 6)
        rows.append({"name": raw["Name"], "timeMs": count * ms, "averageMs": ms, "medianMs": ms})
    for row in rows:
        row["percentage"] = 100 * row["averageMs"] / sum(each["averageMs"] for each in rows)
    profile.write_text(json.dumps([{"count": count}, *rows]))
    one = {"startEnqMs": 0.0, "endEnqMs": 0.01, "h2dMs": 0.0, "computeMs": 0.1, "d2hMs": 0.0, "latencyMs": 0.1}
    latency.write_text(json.dumps([one] * times))
    return Files(layers=graph, profile=profile, times=latency)


def files_of(engine: str, folder: Path) -> Files:
    """Those of an engine of `ENGINES`, written to ``folder``, or those that others captured, by how they are called."""
    if engine in ENGINES:
        return write_engine(folder, engine)
    graph, profile = (captured("layer_info", f"{engine}.{part}.json") for part in ("graph", "profile"))
    times = graph.with_name(f"{engine}.timing.json")
    return Files(layers=graph, profile=profile, times=times if times.exists() else None)


def layers_of(engine: str, folder: Path) -> Path:
    """The layer information of it alone."""
    if engine == MNIST:
        return captured("layer_info", engine)
    layers = files_of(engine, folder).layers
    assert layers is not None
    return layers
