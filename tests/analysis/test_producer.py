"""What launched the kernels of a capture that nothing else is known of."""

from __future__ import annotations

import pytest

from trtprof.analysis.producer import producer_of
from trtprof.base.records import Match

FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int)"
MYELIN = "__myl_MulSum_0x574acd01f7517732d5f2fd1c9042a089"
TACTIC = "sm80_xmma_gemm_f16f16_f16f16_f16_tn_n_tilesize32x32x64_stage6_warpsize2x2x1_tensor16x8x16_kernel_trt"
CUBLAS = "ampere_sgemm_128x64_tn"
ORT = "void onnxruntime::cuda::_UnaryElementWise<float, float, onnxruntime::cuda::OP_Relu<float>, 256, 4>(float*)"


def kernel(name: str, ns: int = 1000) -> Match:
    return Match(layer=None, kernel=name, count=1, median_ns=ns, total_ns=ns, confidence="none", reason="")


def test_the_names_tell_what_launched_the_kernels(subtests: pytest.Subtests) -> None:
    rows: list[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], str]] = [
        ((FILL, CUBLAS), (), (), "pytorch"),
        (("triton_poi_fused_add_mul_silu_23",), (), (), "pytorch"),
        ((CUBLAS,), ("aten::mm, op_id = 3",), ("",), "pytorch"),
        ((MYELIN, CUBLAS), (), (), "tensorrt"),
        ((TACTIC,), (), (), "tensorrt"),
        (("trt_ampere_h16816gemm_256x64_ldg8_tn_v1",), (), (), "tensorrt"),
        ((CUBLAS,), ("fc1",), ("TensorRT",), "tensorrt"),
        # TensorRT within a program of PyTorch: the ranges are those of the engine.
        ((FILL, CUBLAS), ("fc1",), ("", "TensorRT"), "tensorrt"),
        ((ORT, CUBLAS), (), (), "ort-cuda"),
        # cuBLAS, cuDNN, NCCL and CUB are launched by everybody.
        ((CUBLAS, "ncclDevKernel_SendRecv", "DeviceRadixSortOnesweepKernel"), ("step",), ("",), "unknown"),
        (("my_kernel",), (), (), "unknown"),
        ((), (), (), "unknown"),
    ]
    for kernels, ranges, domains, backend in rows:
        with subtests.test(kernels=kernels, ranges=ranges, domains=domains, backend=backend):
            told = producer_of(map(kernel, kernels), ranges, domains)
            assert told.backend == backend
            assert told.note


def test_of_several_the_one_that_took_most_time_is_named() -> None:
    kernels = [kernel(FILL, 100), kernel(MYELIN, 300), kernel(CUBLAS, 600)]
    told = producer_of(kernels, (), ())
    assert told.backend == "tensorrt"
    assert "30.0 % of their time" in told.note
