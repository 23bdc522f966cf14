"""Files of trtexec that fit one another: of eight convolutions on an A100."""

from __future__ import annotations

from random import Random
from typing import Any

GPU = "a100-pcie-80gb"
DEVICE = "NVIDIA A100 80GB PCIe"
INFERENCES = 50
_FORM = "Channel major FP16 format where channel % 8 == 0"


def layers_document(layers: int = 8, batch: int = 32) -> dict[str, Any]:
    """What ``--exportLayerInfo`` writes: 3x3 convolutions of 64 channels."""

    def tensor(name: str) -> dict[str, Any]:
        return {"Name": name, "Location": "Device", "Dimensions": [batch, 64, 56, 56], "Format/Datatype": _FORM}

    def layer(at: int) -> dict[str, Any]:
        return {
            "Name": f"/conv{at}/Conv + /relu{at}/Relu", "LayerType": "CaskConvolution",
            "Inputs": [tensor(f"t{at}")], "Outputs": [tensor(f"t{at + 1}")],
            "ParameterType": "Convolution", "Kernel": [3, 3], "PrePadding": [1, 1], "PostPadding": [1, 1],
            "Stride": [1, 1], "Dilation": [1, 1], "OutMaps": 64, "Groups": 1,
            "Weights": {"Type": "Half", "Count": 64 * 64 * 9}, "Bias": {"Type": "Half", "Count": 64},
            "TacticName": "sm80_xmma_fprop_implicit_gemm_f16f16_f16f16_f16_nhwckrsc_nhwc_tilesize128x64x32_stage5"
            "_warpsize2x2x1_g1_tensor16x8x16_t1r3s3", "TacticValue": "0x1dcf9babce3d9b3b", "StreamId": 0,
            "Metadata": f"[ONNX Layer: /conv{at}/Conv]\x1e[ONNX Layer: /relu{at}/Relu]",
        }  # fmt: skip

    return {"Layers": [layer(at) for at in range(layers)], "Bindings": ["t0", f"t{layers}"]}


def layer_times_ms(layers: dict[str, Any]) -> list[float]:
    """Of each layer, near twice of what the A100 needs."""
    return [0.048 + 0.001 * (at % 5) for at in range(len(layers["Layers"]))]


def profile_document(layers: dict[str, Any]) -> list[dict[str, Any]]:
    """What ``--exportProfile`` writes."""
    times = layer_times_ms(layers)
    rows = [
        {
            "name": layer["Name"], "timeMs": INFERENCES * ms, "averageMs": ms, "medianMs": ms,
            "percentage": 100 * ms / sum(times),
        }
        for layer, ms in zip(layers["Layers"], times, strict=True)
    ]  # fmt: skip
    return [{"count": INFERENCES}, *rows]


def times_document(layers: dict[str, Any], random: Random) -> list[dict[str, float]]:
    """What ``--exportTimes`` writes: a little more than the layers take together."""
    compute = sum(layer_times_ms(layers)) + 0.01
    rows, at = [], 4.0
    for _ in range(INFERENCES):
        took = compute * random.uniform(0.99, 1.02)
        ends = at + 0.02, at + 0.02 + took, at + 0.04 + took
        rows.append(
            {
                "startEnqMs": at, "endEnqMs": at + 0.03, "startH2dMs": at, "endH2dMs": ends[0],
                "startComputeMs": ends[0], "endComputeMs": ends[1], "startD2hMs": ends[1], "endD2hMs": ends[2],
                "h2dMs": 0.02, "computeMs": took, "d2hMs": 0.02, "latencyMs": took + 0.04,
            }
        )  # fmt: skip
        at = ends[2]
    return rows


def summary_document(layers: dict[str, Any], *, separate: bool = True) -> dict[str, Any]:
    """What trt-engine-explorer keeps of a run of trtexec (``*.profile.metadata.json``)."""
    compute = sum(layer_times_ms(layers)) + 0.01
    return {
        "performance_summary": {
            "Throughput": 1000 / compute, "Total Host Walltime": 3.0, "Total GPU Compute Time": 2.9,
            "Latency": [compute * by for by in (0.99, 1.1, 1.0, 1.0, 1.02)],
            "Enqueue Time": [0.006, 0.016, 0.007, 0.007, 0.008], "H2D Latency": [0.0] * 5, "D2H Latency": [0.0] * 5,
            "GPU Compute Time": [compute * by for by in (0.99, 1.1, 1.0, 1.0, 1.02)],
        },
        "inference_options": {"Batch": "Explicit", "Separate profiling": "Enabled" if separate else "Disabled"},
        "device_information": {"Selected Device": DEVICE, "Compute Capability": 8.0, "SMs": 108.0},
    }  # fmt: skip
