"""Cases for the rules that judge by the name of a kernel: one that each finds, and a near miss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tests.fakes.cases import RTX_4090, Timed, engine_case, gemv, layer, relu, tensor
from trtprof.base.records import Ceilings, Layer, Match, MatchedLayer, PlanLayer, PlanTensor
from trtprof.diagnose import Case
from trtprof.hardware import gpus

SM50_GEMV = "sm50_xmma_cublas_gemvx_f32f32_f32_f32_tn_n_int32_unit_n_launch_param4x32x32_strided_unit_stride"
SM50_SIMT = (
    "sm50_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nhwckrsc_nhwc_tilesize128x64x8_stage1_warpsize2x2x1_g1_ffma_"
    "aligna4_alignc4"
)
SM80_SIMT = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4"
SM80_SIMT_HALF = "sm80_xmma_gemm_f16f16_f32f32_f32_nn_n_tilesize64x32x8_stage3_warpsize1x2x1_ffma_aligna2_alignc2"
SM80_TF32 = (
    "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16_stage4_warpsize2x2x1_g1_"
    "tensor16x8x8"
)
SM80_TENSOR = "ampere_h16816gemm_128x128_ldg8_stages_64x3_nn"
GEMV = (
    "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false, false, cublasGemvParams<...>>"
)
SPLIT_K = "void cublasLt::splitKreduce_kernel<32, 16, int, float, float, float, float, true, true, false>(...)"
DIRECT = "void conv2d_grouped_direct_kernel<float, float, float, float, float, true, false, 0, 0, 0>(...)"
FLASH_2 = (
    "void flash::flash_fwd_kernel<flash::Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t, "
    "flash::Flash_kernel_traits<128, 128, 64, 4, cutlass::bfloat16_t> >, false, true, false, false, true, true, false>"
    "(flash::Flash_fwd_params)"
)
FLASH_3 = (
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<"
    "flash::CollectiveMainloopFwdSm90<2, cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> >, 128, cutlass::bfloat16_t, "
    "float, cutlass::arch::Sm90> > > >(P)"
)
DEPTHWISE = "cuDepthwise::depthwiseConvHMMAPrefetchKernel<3, 1>"


def calibrated(ceilings: Ceilings) -> Ceilings:
    return msgspec.structs.replace(ceilings, origin="measured")


def on(slug: str, *, tf32: bool = True, measured: bool = True, **replaced: Any) -> dict[str, Any]:
    """The GPU of a case: its ceilings, which ``replaced`` changes, and its datasheet."""
    spec = gpus.find(slug)
    ceilings = gpus.ceilings(spec, tf32=tf32)
    ceilings = msgspec.structs.replace(ceilings, **replaced)
    return {"ceilings": calibrated(ceilings) if measured else ceilings, "spec": spec}


def with_kernels(case: Case, kernels: Mapping[str, Mapping[str, float] | str]) -> Case:
    """A case whose layers ran these kernels, each for a share of its layer's time."""

    def matches(name: str, measured_ns: int) -> tuple[Match, ...]:
        shares = kernels.get(name, {})
        shares = {shares: 1.0} if isinstance(shares, str) else shares
        return tuple(
            Match(
                layer=name, kernel=kernel, count=1, median_ns=round(measured_ns * share),
                total_ns=round(measured_ns * share), confidence="exact", reason="a test",
            )
            for kernel, share in shares.items()
        )  # fmt: skip

    layers = tuple(msgspec.structs.replace(one, kernels=matches(one.name, one.measured_ns)) for one in case.layers)
    return case._replace(layers=layers)


def run_case(timed: Timed | Sequence[Timed], kernels: Mapping[str, float] | str, gpu: dict[str, Any]) -> Case:
    """Layers of an engine; the first ran ``kernels``."""
    timed = [timed] if isinstance(timed, Timed) else list(timed)
    return with_kernels(engine_case(*timed, **gpu), {timed[0].layer.name: kernels})


def product(
    m: int, n: int, k: int, *, batch: int = 1, dtype: str = "fp16", name: str = "mm", weights: bool = True
) -> Layer:
    """A MatMul of ``batch`` products; its second operand is constant unless there is a batch."""
    left, right = (m, k), (k, n)
    dims = ((batch, *left), (batch, *right), (batch, m, n)) if batch > 1 else (left, right, (m, n))
    a, b, y = (tensor(f"{name}_{side}", *dims[at], dtype=dtype) for at, side in enumerate("aby"))
    if weights and batch == 1:
        b = msgspec.structs.replace(b, constant=True)
    return layer(name, "MatMul", (a, b), (y,))


def conv(channels: int = 256, made: int = 256, *, group: int = 1, size: int = 56, dtype: str = "fp32") -> Layer:
    weights = tensor("w", made, channels // group, 3, 3, dtype=dtype, constant=True)
    image, result = tensor("x", 8, channels, size, size, dtype=dtype), tensor("y", 8, made, size, size, dtype=dtype)
    return layer("conv", "Conv", (image, weights), (result,), attributes={"group": group})


def planned(case: Case, name: str, image_format: str) -> Case:
    """The same case with a plan in which the image of a convolution has this format."""
    op = case.engine[name].op
    image, result = op.inputs[0], op.outputs[0]
    assert image is not None
    assert result is not None
    tensors = [
        PlanTensor(name=one.name, dims=one.shape, dtype=one.dtype, format=image_format)  # type: ignore[arg-type]
        for one in (image, result)
    ]
    plan = PlanLayer(name=name, kind="CaskConvolution", inputs=(tensors[0],), outputs=(tensors[1],))
    return case._replace(plan={name: MatchedLayer(layer=plan)})


BIG = Timed(relu("big", "u", "v", 100_000_000))  # 800 MB at the roof: what the share of the others is measured by

STORY_GPU = {"ceilings": RTX_4090, "spec": gpus.find("rtx-4090")}
STORY = run_case(Timed(gemv(), 10.0), SM50_GEMV, STORY_GPU)
THIN = product(2, 8192, 8192)
MISFIT = product(1024, 1001, 1024, batch=8)
DEPTH = conv(512, 512, group=512)

POSITIVE: dict[str, Case] = {
    "KN701": run_case(Timed(conv(), 4.0), SM50_SIMT, on("l4")),
    "KN702": run_case(Timed(product(2048, 2048, 2048), 3.0), SM80_SIMT_HALF, on("l4")),
    "KN703": run_case(Timed(THIN, 3.0), SM80_TENSOR, on("l4")),
    "KN704": run_case(
        Timed(product(64, 64, 65536), 1.4), {SM80_TENSOR: 0.8, SPLIT_K: 0.2}, on("l4")
    ),
    "KN705": run_case(Timed(product(4096, 4096, 4096, dtype="bf16"), 2.5), FLASH_2, on("h100-sxm5")),
    "PR801": run_case(Timed(product(2048, 2048, 2048, dtype="fp32"), 1.2), SM80_SIMT, on("l4", tf32=False)),
    "AL802": run_case(Timed(MISFIT, 1.6), SM80_TENSOR, on("l4")),
    "DW805": planned(run_case(Timed(DEPTH, 3.0), DEPTHWISE, on("l4")), "conv", "Row major linear FP32 format"),
}  # fmt: skip

NEGATIVE: dict[str, Case] = {
    # As old and as slow, but on the tensor cores.
    "KN701": run_case(Timed(conv(dtype="fp16"), 4.0), "volta_fp16_s884cudnn_fp16_256x64_ldg8_relu_f2f_nhwc", on("l4")),
    # As old a name and as slow, but bytes bound it on either unit.
    "KN702": run_case(Timed(product(4096, 16, 4096), 3.0), SM80_SIMT_HALF, on("l4")),
    # As thin, but its time is that of the bytes.
    "KN703": run_case(Timed(THIN, 1 / 0.9), SM80_TENSOR, on("l4")),
    "KN704": run_case(Timed(product(64, 64, 65536), 1.05), {SM80_TENSOR: 0.95, SPLIT_K: 0.05}, on("l4")),
    # As slow, but written for this GPU.
    "KN705": run_case(Timed(product(4096, 4096, 4096, dtype="bf16"), 2.5), FLASH_3, on("h100-sxm5")),
    # TF32 is as fast as the CUDA cores on a GeForce, and fp16 is what the model has.
    "PR801": run_case(Timed(product(2048, 2048, 2048), 1.2), SM80_TENSOR, on("rtx-4090")),
    "AL802": run_case(Timed(product(1024, 1024, 1024, batch=8), 1.6), SM80_TENSOR, on("l4")),
    "DW805": planned(
        run_case(Timed(conv(512, 512, group=512, dtype="fp16"), 3.0), DEPTHWISE, on("l4")),
        "conv",
        "Channel major FP16 format where channel % 8 == 0",
    ),
}
