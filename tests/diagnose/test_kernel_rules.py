"""Rules that judge by the name of a kernel and the dimensions of a product: yes and no of each, and users' slow cases.

The GPUs are those of the datasheets. `CALIBRATED` takes their figures as if they had been measured, so that a rule's
own threshold decides and not the share that a datasheet is worth.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.cases import RTX_4090, Timed, engine_case, found, gemv, layer, make_case, only, relu, tensor
from tests.fakes.kernel_rule_cases import (
    DEPTH,
    DEPTHWISE,
    DIRECT,
    FLASH_2,
    GEMV,
    MISFIT,
    NEGATIVE,
    POSITIVE,
    SM50_GEMV,
    SM50_SIMT,
    SM80_SIMT,
    SM80_SIMT_HALF,
    SM80_TENSOR,
    SM80_TF32,
    SPLIT_K,
    conv,
    on,
    planned,
    product,
    run_case,
    with_kernels,
)
from trtprof.base.records import Layer
from trtprof.base.units import format_ns
from trtprof.cost import work_of
from trtprof.diagnose import RULES, THRESHOLDS, Case
from trtprof.diagnose.products import Product, padded_ns, product_of
from trtprof.diagnose.rank import diagnose
from trtprof.hardware import gpus

CODES = ("KN701", "KN702", "KN703", "KN704", "KN705", "PR801", "AL802", "DW805")


def codes(case: Case) -> list[str]:
    return [finding.code for finding in diagnose(case) if finding.kind == "hypothesis"]


# --- every rule --------------------------------------------------------------------------------


def test_every_rule_of_this_file_has_a_positive_and_a_negative_case() -> None:
    assert set(CODES) == set(POSITIVE) == set(NEGATIVE)
    assert set(CODES) <= set(RULES.keys())


@pytest.mark.parametrize("code", CODES)
def test_a_rule_fires_on_its_positive_case_and_comes_first(code: str) -> None:
    case = POSITIVE[code]
    finding = only(case, code)
    assert codes(case)[0] == code
    assert finding.lost_ns >= THRESHOLDS.min_share * case.latency.median_ns
    assert finding.layers == (case.layers[0].name,)
    assert finding.where
    assert finding.try_
    assert any(character.isdigit() for character in finding.evidence)


@pytest.mark.parametrize("code", [code for code in CODES if code != "PR801"])
def test_a_rule_claims_no_more_than_was_lost(code: str) -> None:
    case = POSITIVE[code]
    assert 0 < only(case, code).lost_ns <= (case.layers[0].lost_ns or 0)


WHY_SILENT = {
    "KN701": "multiplies on the tensor cores ('s884cudnn')",
    "KN702": "no more than the",
    "KN703": "attainable",
    "KN704": "takes 5.0 % of the layer, less than 10.0 %",
    "KN705": "no name of its kernels is of fused attention for a GPU before sm90",
    "PR801": "it multiplies fp16, not fp32",
    "AL802": "8 products of 1,024 x 1,024 by 1,024 x 1,024, all multiples of 64",
    "DW805": "neither its layout nor its kernel",
}


@pytest.mark.parametrize("code", CODES)
def test_a_rule_says_why_it_is_silent(code: str) -> None:
    rule = RULES.get(code)
    assert rule is not None
    assert rule.reason is not None
    case = NEGATIVE[code]
    assert WHY_SILENT[code] in rule.reason(case, case.layers[0])


@pytest.mark.parametrize("code", CODES)
def test_a_rule_says_nothing_of_a_cpu(code: str) -> None:
    case = POSITIVE[code]._replace(gpu=False, tensorrt=False, spec=None)
    assert found(case, code) == []
    rule = RULES.get(code)
    assert rule is not None
    assert rule.reason is not None
    assert "GPU" in rule.reason(case, case.layers[0])


def without_work(case: Case) -> Case:
    """The first layer of a case as a capture alone shows it."""
    unknown = msgspec.structs.replace(
        case.layers[0], work=None, attainable_ns=None, ideal_ns=None, lost_ns=None, bound="unknown"
    )
    return case._replace(layers=(unknown, *case.layers[1:]))


BY_NAME = ("KN702", "KN705")
"""Rules that the names of kernels are enough for."""


@pytest.mark.parametrize("code", [code for code in CODES if code not in BY_NAME])
def test_a_rule_says_nothing_of_layers_without_known_work(code: str) -> None:
    assert found(without_work(POSITIVE[code]), code) == []


# --- the story ---------------------------------------------------------------------------------


def story(efficiency: float, kernel: str = SM50_GEMV) -> Case:
    """The batched gemv at a share of the 1.01 TB/s of the datasheet."""
    datasheet = msgspec.structs.replace(
        RTX_4090, attainable=msgspec.structs.replace(RTX_4090.attainable, dram_bytes_per_s=1.01e12)
    )
    return run_case(Timed(gemv(), 1 / efficiency), kernel, {"ceilings": datasheet, "spec": gpus.find("rtx-4090")})


def test_the_story_is_found_first_with_the_whole_loss_as_its_price() -> None:
    case = story(0.1)
    (one,) = case.layers
    # 250,828,800 bytes at 1.01 TB/s: 0.248 ms; 122.88 MFLOP.
    assert (one.bytes, one.flops, one.attainable_ns) == (250_828_800, 122_880_000, 248_346)
    first = diagnose(case)[0]
    assert (first.code, first.severity, first.layers) == ("KN701", "critical", ("gemv",))
    assert first.lost_ns == one.measured_ns - 248_346
    assert f"{SM50_GEMV} is written for sm50 and runs on sm89" in first.evidence
    assert "multiplies on the CUDA cores ('gemv' in its name)" in first.evidence
    assert "251 MB in 2.48 ms is 101 GB/s, 10.0 % of what DRAM allows (248 us)" in first.evidence
    order = [first.try_.index(words) for words in ("fold the batch", "Mul + ReduceSum", "a hand-written kernel")]
    assert order == sorted(order)
    assert codes(case) == ["KN701"], "no nanosecond is claimed twice"


def test_the_story_with_a_kernel_that_tells_no_architecture_is_a_gemv_all_the_same() -> None:
    case = story(0.1, GEMV)
    finding = only(case, "KN703")
    assert codes(case) == ["KN703"]
    assert finding.lost_ns == case.layers[0].lost_ns
    assert finding.evidence.startswith("960,000 products of 1 x 64 by 64 x 1 in void gemv2T_kernel_val")


@pytest.mark.parametrize("kernel", [SM50_GEMV, GEMV])
def test_the_story_at_nine_tenths_of_the_bandwidth_is_no_finding(kernel: str) -> None:
    assert diagnose(story(0.9, kernel)) == ()


# --- KN701 -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "slug", "fires"),
    [
        (SM50_SIMT, "l4", True),
        (SM50_SIMT, "h100-sxm5", True),
        (SM50_SIMT.replace("sm50", "sm70"), "h100-sxm5", True),
        # One generation behind is normal.
        (SM50_SIMT.replace("sm50", "sm70"), "a10", False),
        (SM50_SIMT.replace("sm50", "sm75"), "l4", False),
        # There are no newer kernels for the CUDA cores than those of sm80.
        (SM50_SIMT.replace("sm50", "sm80"), "b200", False),
        (SM80_TF32, "h100-sxm5", False),
    ],
)  # fmt: skip
def test_a_kernel_is_old_from_two_generations_on_the_cuda_cores(kernel: str, slug: str, fires: bool) -> None:
    case = run_case(Timed(conv(), 4.0), kernel, on(slug))
    assert bool(found(case, "KN701")) == fires


def test_an_old_kernel_is_no_finding_where_the_dtype_has_no_faster_unit() -> None:
    # Turing's tensor cores do not take fp32; on Ada they do, unless TF32 is off.
    assert not found(run_case(Timed(conv(), 4.0), SM50_SIMT, on("t4")), "KN701")
    assert not found(run_case(Timed(conv(), 4.0), SM50_SIMT, on("l4", tf32=False)), "KN701")


def test_an_old_kernel_without_a_product_is_none_of_its_business() -> None:
    add = layer("add", "Add", (tensor("p", 10_000_000), tensor("q", 10_000_000)), (tensor("r", 10_000_000),))
    assert not found(run_case(Timed(add, 4.0), SM50_SIMT, on("l4")), "KN701")


def test_of_several_kernels_only_the_old_one_is_claimed() -> None:
    case = run_case(Timed(conv(), 4.0), {SM50_SIMT: 0.6, "void splitKreduce_kernel<float>(...)": 0.4}, on("l4"))
    assert only(case, "KN701").lost_ns == pytest.approx(0.6 * case.layers[0].measured_ns, abs=2)


def test_an_old_kernel_that_explains_little_of_the_loss_hides_no_other_cause() -> None:
    """A fourth of the time, where three fourths were lost: another rule is to speak of the layer."""
    case = run_case(Timed(conv(), 4.0), {SM50_SIMT: 0.25, "a_kernel_of_nobody": 0.75}, on("l4"))
    assert "KN701" not in codes(case)
    rule = RULES.get("KN701")
    assert rule is not None
    assert rule.reason is not None
    assert "less than 50.0 % of the" in rule.reason(case, case.layers[0])


def test_layers_with_the_same_cause_are_one_finding() -> None:
    timed = [Timed(product(1, 4096, 4096, dtype="fp32", name=f"mm{at}"), 4.0) for at in range(3)]
    case = with_kernels(engine_case(*timed, **on("l4")), {f"mm{at}": SM50_GEMV for at in range(3)})
    finding = only(case, "KN701")
    assert len(finding.layers) == 3
    assert "and 2 more MatMul" in finding.where
    assert "transpose the weight" in finding.try_


# --- KN702 -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "why", "remedy"),
    [
        (product(2048, 2048, 2048), "nothing in its dtype and dimensions forbids", "--builderOptimizationLevel"),
        (product(2048, 2047, 2048), "N = 2,047: no multiple of 8", "pad N to a multiple of 8"),
        (product(2048, 2048, 2050), "K = 2,050: no multiple of 8", "pad K to"),
        (product(2048, 2048, 2048, dtype="fp32"), "TF32 is allowed", "allow TF32"),
        (conv(512, 512, group=8, size=28, dtype="fp16"), "8 groups of 64 input channels", "widen its groups"),
    ],
    ids=["fitting", "N", "K", "fp32", "groups"],
)
def test_the_reason_is_told_where_shapes_or_dtype_tell_it(one: Layer, why: str, remedy: str) -> None:
    finding = only(run_case(Timed(one, 4.0), SM80_SIMT, on("l4")), "KN702")
    assert why in finding.evidence
    assert remedy in finding.try_


def test_only_what_tensor_cores_would_save_is_claimed() -> None:
    case = POSITIVE["KN702"]
    (one,) = case.layers
    # 17.2 GFLOP at the 121 TFLOP/s of an L4 (dense fp16, accumulated in fp32).
    peak = gpus.find("l4").tensor_flops_per_s["fp16"]["fp32"].value
    assert one.attainable_ns == pytest.approx(2 * 2048**3 / peak * 1e9, abs=1)
    assert only(case, "KN702").lost_ns == one.lost_ns


def test_what_must_be_padded_first_is_priced_padded() -> None:
    case = run_case(Timed(product(2048, 2047, 2048), 4.0), SM80_SIMT_HALF, on("l4"))
    (one,) = case.layers
    assert one.attainable_ns is not None
    assert only(case, "KN702").lost_ns == pytest.approx(one.measured_ns - one.attainable_ns * 2048 / 2047, abs=2)


def test_products_of_eight_bits_on_the_cuda_cores_have_the_rate_of_dp4a() -> None:
    """The first convolution of a quantised ResNet-50 on an A100 (TensorRT's own example): 202 us in dp4a."""
    x, w, y = (
        tensor("x", 32, 3, 224, 224, dtype="int8"),
        tensor("w", 64, 3, 7, 7, dtype="int8", constant=True),
        tensor("y", 32, 64, 112, 112, dtype="fp32"),
    )
    one = layer("conv", "Conv", (x, w), (y,), attributes={"group": 1})
    kernel = "ampere_fp32_icudnn_int8x4_128x64_relu_medium_nn_v1"
    finding = only(run_case(Timed(one, ns=202_000), kernel, on("a100-sxm4-40gb", measured=False)), "KN702")
    # 2 * 32 * 64 * 112 * 112 * 3 * 49 operations at four times the rate of int32.
    scalar_ns = (
        2 * 32 * 64 * 112 * 112 * 3 * 49 / 4 / gpus.find("a100-sxm4-40gb").vector_flops_per_s["int32"].value * 1e9
    )
    assert f"which take {format_ns(scalar_ns)} at their peak" in finding.evidence
    assert "input channels = 3: no multiple of 16" in finding.evidence
    assert finding.try_.startswith("leave it unquantised")


def test_tensor_cores_that_are_no_faster_are_not_missed() -> None:
    """TF32 of an RTX 4090 has the rate of its CUDA cores."""
    gpu = on("rtx-4090")
    assert not found(run_case(Timed(product(2048, 2048, 2048, dtype="fp32"), 4.0), SM80_SIMT, gpu), "KN702")


def test_without_tf32_fp32_is_not_expected_on_tensor_cores() -> None:
    gpu = on("l4", tf32=False)
    assert not found(run_case(Timed(product(2048, 2048, 2048, dtype="fp32"), 4.0), SM80_SIMT, gpu), "KN702")


@pytest.mark.parametrize("code", ["KN702", "KN704"])
def test_the_remedy_fits_the_backend(code: str) -> None:
    assert "--builderOptimizationLevel" in only(POSITIVE[code], code).try_
    assert "--backend tensorrt" in only(POSITIVE[code]._replace(tensorrt=False), code).try_


def test_a_kernel_whose_unit_the_name_does_not_tell_is_not_judged() -> None:
    for name in ("__myl_Fc_0x123", "a_kernel_of_nobody", SM80_TENSOR):
        assert not found(run_case(Timed(product(2048, 2048, 2048), 3.0), name, on("l4")), "KN702")


# --- KN703 -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "kernel", "fires"),
    [
        (product(1, 8192, 8192), GEMV.replace("float", "__half"), True),
        (product(8, 8192, 8192), "ampere_h16816gemm_64x64_ldg8_stages_64x5_nn", True),
        (product(9, 8192, 8192), "ampere_h16816gemm_64x64_ldg8_stages_64x5_nn", False),
        (product(8192, 1, 8192), "ampere_h16816gemm_64x64_ldg8_stages_64x5_nn", True),
        # No tile wider than the dimension, so nothing in the name is to blame.
        (product(8, 8192, 8192), "nvjet_hsh_64x8_64x16_4x1_v_bz_TNT", False),
        (product(4, 4, 64, batch=100_000), "void gemmSN_NN_kernel<__half, 128, 2, 4, 8, 2, 4, false>", True),
        (product(2, 8192, 8192), "a_kernel_of_nobody", False),
    ],
    ids=["gemv", "eight rows", "nine rows", "one column", "fitting tile", "small products", "unknown"],
)  # fmt: skip
def test_a_thin_product_is_one_of_few_rows_or_columns_in_a_kernel_for_others(
    one: Layer, kernel: str, fires: bool
) -> None:
    case = run_case(Timed(one, 4.0), kernel, on("l4"))
    assert case.layers[0].bound in ("dram", "l2")
    assert bool(found(case, "KN703")) == fires


def test_the_ladder_names_the_weight_only_where_there_is_one() -> None:
    with_weight = only(run_case(Timed(product(1, 8192, 8192), 4.0), GEMV, on("l4")), "KN703")
    without = only(run_case(Timed(product(1, 8192, 8192, weights=False), 4.0), GEMV, on("l4")), "KN703")
    assert "transpose the weight" in with_weight.try_
    assert "transpose" not in without.try_


def test_a_tiny_gemv_is_a_launch_unless_it_takes_ten() -> None:
    tiny = product(1, 64, 64)
    launch = on("l4")["ceilings"].launch_ns
    slow = run_case(Timed(tiny, ns=round(11 * launch)), GEMV, on("l4"))
    assert slow.layers[0].bound == "launch"
    assert found(slow, "KN703")
    assert not found(run_case(Timed(tiny, ns=round(9 * launch)), GEMV, on("l4")), "KN703")


# --- KN704 -------------------------------------------------------------------------------------


def test_what_adds_up_the_parts_is_the_price() -> None:
    case = POSITIVE["KN704"]
    (one,) = case.layers
    finding = only(case, "KN704")
    assert finding.lost_ns == pytest.approx(0.2 * one.measured_ns, abs=2)
    assert "only adds up the parts of a product of 64 x 65,536 by 65,536 x 64" in finding.evidence
    assert "20.0 % of the layer's" in finding.evidence


def test_a_reduction_that_may_be_the_models_own_is_not_taken_for_a_helper() -> None:
    kernels = {SM80_TENSOR: 0.7, "void cub::DeviceReduceKernel<float>(...)": 0.3}
    one = msgspec.structs.replace(product(64, 64, 65536), nodes=("mm",))
    fused = msgspec.structs.replace(one, nodes=("mm", "sum"))
    assert found(run_case(Timed(one, 1.5), kernels, on("l4")), "KN704")
    assert not found(run_case(Timed(fused, 1.5), kernels, on("l4")), "KN704")


# --- PR801 -------------------------------------------------------------------------------------


def test_fp32_of_a_whole_model_is_one_finding_with_fp16_and_tf32_as_the_way_out() -> None:
    gpu = on("l4", tf32=False)
    timed = [Timed(product(2048, 2048, 2048, dtype="fp32", name=f"mm{at}"), 1.2) for at in range(3)]
    finding = only(engine_case(*timed, **gpu), "PR801")
    assert finding.where == "3 fp32 products, largest mm2"
    assert set(finding.layers) == {"mm0", "mm1", "mm2"}
    assert "TF32 is off" in finding.evidence
    assert "without --noTF32" in finding.try_
    assert "trtprof run MODEL --fp16" in finding.try_
    assert finding.confidence <= 0.5


def test_the_price_of_fp32_is_the_same_share_of_the_narrower_roof() -> None:
    case = run_case(Timed(product(2048, 2048, 2048, dtype="fp32"), 1.2), SM80_SIMT, on("l4", tf32=False))
    (one,) = case.layers
    spec = gpus.find("l4")
    ratio = spec.vector_flops_per_s["fp32"].value / spec.tensor_flops_per_s["fp16"]["fp32"].value
    assert only(case, "PR801").lost_ns == pytest.approx(one.measured_ns * (1 - ratio), rel=1e-4)


def test_an_fp16_model_with_an_fp32_product_is_no_fp32_model() -> None:
    timed = [
        Timed(product(2048, 2048, 2048, dtype="fp32", name="wide"), 1.2),
        *(Timed(product(2048, 2048, 2048, name=f"mm{at}"), 1.2) for at in range(2)),
    ]
    assert not found(engine_case(*timed, **on("l4", tf32=False)), "PR801")


def test_a_gpu_without_fp16_on_tensor_cores_is_not_told_to_use_it() -> None:
    one = Timed(product(2048, 2048, 2048, dtype="fp32"), 1.2)
    assert not found(engine_case(one, **on("gtx-1650")), "PR801")


def test_products_that_bytes_bound_are_not_priced() -> None:
    assert not found(engine_case(Timed(product(4, 4096, 4096, dtype="fp32"), 1.2), **on("l4", tf32=False)), "PR801")


# --- AL802 -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "dtype", "step"),
    [
        (1001, "fp16", 8),
        (1020, "fp16", 8),
        (1024, "fp16", None),
        (1001, "int8", 16),
        (1008, "int8", None),
        (1002, "fp32", 4),
    ],
)
def test_dimensions_fill_sixteen_bytes(n: int, dtype: str, step: int | None) -> None:
    case = run_case(
        Timed(product(2048, n, 1024, batch=8, dtype=dtype), 1.6), SM80_TENSOR, on("t4" if dtype != "fp32" else "l4")
    )
    findings = found(case, "AL802")
    if step is None:
        assert findings == []
    else:
        assert f"N = {n:,}: no multiple of {step}" in findings[0].evidence
        assert f"a multiple of {step} with zeros" in findings[0].try_


def test_the_price_is_that_of_the_padded_dimensions() -> None:
    case = POSITIVE["AL802"]
    (one,) = case.layers
    finding = only(case, "AL802")
    assert "N = 1,001: no multiple of 8 (fp16); padded to 1,008" in finding.evidence
    assert one.attainable_ns is not None
    assert finding.lost_ns == one.measured_ns - round(one.attainable_ns * 1008 / 1001)


def test_what_is_on_the_cuda_cores_is_told_once() -> None:
    case = run_case(Timed(product(2048, 2047, 2048), 4.0), SM80_SIMT_HALF, on("l4"))
    assert codes(case) == ["KN702"]


def test_dimensions_are_not_blamed_for_a_kernel_on_the_cuda_cores_that_bytes_bound() -> None:
    case = run_case(Timed(product(4096, 17, 4096), 4.0), SM80_SIMT_HALF, on("l4"))
    assert codes(case) == ["RL101"]
    assert codes(run_case(Timed(product(4096, 17, 4096), 4.0), SM80_TENSOR, on("l4"))) == ["AL802"]


def test_what_healthy_kernels_lose_too_is_not_blamed_on_dimensions() -> None:
    """Padded to 1,008 columns, the product needs 1.007 of its time: 0.72 of 1.4, and healthy kernels have 0.7."""
    assert not found(run_case(Timed(MISFIT, 1.4), SM80_TENSOR, on("l4")), "AL802")
    assert found(run_case(Timed(MISFIT, 1.45), SM80_TENSOR, on("l4")), "AL802")
    # A datasheet's roof is worth 0.7 of a measured one.
    assert not found(run_case(Timed(MISFIT, 2.0), SM80_TENSOR, on("l4", measured=False)), "AL802")
    assert found(run_case(Timed(MISFIT, 2.1), SM80_TENSOR, on("l4", measured=False)), "AL802")


def test_padding_makes_more_work_of_what_it_touches() -> None:
    """Three input channels padded to eight: 2.7 times the multiply-accumulates, but as many bytes of results."""
    image = conv(3, 64, size=224, dtype="fp16")
    case = run_case(Timed(image, 3.0), SM80_TENSOR, on("l4"))
    (one,) = case.layers
    found_product = product_of(one)
    assert found_product is not None
    assert found_product.padded(8) == (8 / 3, 1.0)
    assert found_product.padding(8) == 8 / 3
    assert one.attainable_ns is not None
    assert one.work is not None
    inputs = one.work.bytes_read - one.work.bytes_parameters
    more = (inputs + one.work.bytes_parameters) * 8 / 3 + one.work.bytes_written
    assert padded_ns(one, found_product, 8) == pytest.approx(one.attainable_ns * more / one.work.bytes, rel=1e-3)


# --- DW805 -------------------------------------------------------------------------------------


def test_a_depthwise_convolution_is_told_its_layout_and_its_kernel() -> None:
    case = planned(run_case(Timed(DEPTH, 3.0), DIRECT, on("l4")), "conv", "Row major linear FP32 format")
    finding = only(case, "DW805")
    assert "512 groups of one channel; its tensors lie channel by channel (fp32 NCHW)" in finding.evidence
    assert "conv2d_grouped_direct_kernel" in finding.evidence
    assert "no kernel for depthwise convolutions, on the CUDA cores" in finding.evidence
    assert finding.lost_ns == case.layers[0].lost_ns


def test_a_grouped_convolution_of_several_channels_is_no_depthwise_one() -> None:
    assert not found(run_case(Timed(conv(512, 512, group=256), 3.0), DIRECT, on("l4")), "DW805")


def test_a_depthwise_convolution_with_nothing_to_blame_is_left_to_the_roofs_rules() -> None:
    case = run_case(Timed(DEPTH, 3.0), DEPTHWISE, on("l4"))
    assert not found(case, "DW805")
    assert codes(case) == ["RL101"]


# --- laws --------------------------------------------------------------------------------------


@given(
    m=st.integers(1, 300),
    n=st.integers(1, 300),
    k=st.integers(1, 300),
    batch=st.sampled_from([1, 7, 4096]),
    dtype=st.sampled_from(["fp32", "fp16", "int8"]),
    kernel=st.sampled_from([SM50_GEMV, SM50_SIMT, SM80_SIMT, SM80_TENSOR, GEMV, SPLIT_K, "a_kernel_of_nobody"]),
    slug=st.sampled_from(["rtx-4090", "a100-sxm4-40gb", "t4", "gtx-1650", "b200"]),
    slow=st.floats(0.9, 50),
)
def test_findings_of_any_product_claim_no_more_than_was_lost(
    m: int, n: int, k: int, batch: int, dtype: str, kernel: str, slug: str, slow: float
) -> None:
    one = Timed(product(m, n, k, batch=batch, dtype=dtype), slow)
    case = run_case(one, {kernel: 0.7, SPLIT_K: 0.3}, on(slug))
    (result,) = case.layers
    findings = [finding for finding in diagnose(case) if finding.code in CODES and finding.code != "PR801"]
    assert sum(finding.lost_ns for finding in findings) <= max(result.lost_ns or 0, 0)
    # A rule that is silent says why, and one that speaks has nothing to excuse.
    for code in CODES:
        rule = RULES.get(code)
        assert rule is not None
        assert rule.reason is not None
        assert bool(rule.reason(case, result)) != bool(list(rule.check(case)))


@given(slow=st.floats(0.95, 1.4), kernel=st.sampled_from([SM50_GEMV, SM80_SIMT, SM80_TENSOR, GEMV]))
def test_a_kernel_that_attains_what_healthy_ones_do_is_never_a_finding(slow: float, kernel: str) -> None:
    for one in (product(1, 8192, 8192), product(1001, 1001, 1001, batch=8), DEPTH):
        findings = diagnose(run_case(Timed(one, slow), kernel, on("l4")))
        assert [finding.code for finding in findings if finding.code in CODES and finding.code != "PR801"] == []


# --- dimensions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (gemv(), Product(1, 1, 64, 960_000, 64)),
        (product(128, 256, 512), Product(128, 256, 512, 1, 512)),
        (product(16, 32, 64, batch=12), Product(16, 32, 64, 12, 64)),
        (
            layer("g", "Gemm", (tensor("a", 64, 16), tensor("b", 32, 64)), (tensor("y", 16, 32),),
                  attributes={"transA": 1, "transB": 1}),
            Product(16, 32, 64, 1, 64),
        ),
        (layer("v", "MatMul", (tensor("a", 64), tensor("b", 64, 32)), (tensor("y", 32),)), Product(1, 32, 64, 1, 64)),
        (conv(64, 128, group=4), Product(8 * 56 * 56, 32, 16 * 9, 4, 16, convolution=True)),
        (relu("r", "x", "y"), None),
    ],
    ids=["batched gemv", "matrices", "batch", "transposed", "vector", "grouped convolution", "no product"],
)  # fmt: skip
def test_dimensions_give_the_work_that_was_counted(one: Layer, expected: Product | None) -> None:
    case = make_case(Timed(one))
    assert product_of(case.layers[0]) == expected
    work = work_of(one.op)
    if expected is not None:
        assert work is not None
        assert expected.flops == work.tensor_flops


# --- what users ask ----------------------------------------------------------------------------


class Asked(NamedTuple):
    """A slow case that somebody reported, with the figures given there.

    Attributes:
        one: What was computed.
        ns: How long it took.
        kernel: In what.
        gpu: On what; ``peak`` is what the same report reaches with other dimensions, in FLOP/s.
        codes: The rules that answer it, first the one that must come first.
        says: What the evidence must name.
    """

    one: Layer
    ns: float
    kernel: str
    gpu: dict[str, Any]
    codes: list[str]
    says: str = ""


def square(n: int, tflops: float, dtype: str = "bf16") -> tuple[Layer, float]:
    """A square product, and the ns that it takes at this rate."""
    return product(n, n, n, dtype=dtype), 2 * n**3 / tflops / 1e3


def reaching(slug: str, **peaks: float) -> dict[str, Any]:
    """A GPU that attains these FLOP/s by dtype, as the report itself shows."""
    gpu = on(slug)
    roof = gpu["ceilings"].attainable
    roof = msgspec.structs.replace(roof, tensor_flops_per_s={**roof.tensor_flops_per_s, **peaks})
    return {**gpu, "ceilings": msgspec.structs.replace(gpu["ceilings"], attainable=roof)}


UNNAMED = "an_unnamed_kernel"
SMALL_TILES = "cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_32x6_nn_align8>"
ALIGN_ONE = "cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1>"
LARGE_TILES = "ampere_bf16_s1688gemm_bf16_128x128_ldg8_f2f_stages_32x1_nn"
ADA = reaching("rtx-4090", bf16=155.9e12)

ASKED: dict[str, Asked] = {
    # Square products on an RTX 4090: 155.9 TFLOP/s at 2040, and much less at sizes near by.
    "pytorch/pytorch#181718 N=2056": Asked(*square(2056, 89.6), SMALL_TILES, ADA, ["AL802"], "padded to 2,112"),
    "pytorch/pytorch#181718 N=2072": Asked(*square(2072, 83.6), SMALL_TILES, ADA, ["AL802"], "padded to 2,112"),
    "pytorch/pytorch#181718 N=2040": Asked(*square(2040, 155.9), LARGE_TILES, ADA, []),
    # Dimensions that fill 2 bytes only cost less than those above: nothing to gain by padding to 2056.
    "pytorch/pytorch#181718 N=2055": Asked(*square(2055, 115.6), ALIGN_ONE, ADA, []),
    # A batch of products with N = 140 next to one with N = 128, which reaches 132.7 TFLOP/s (132.5 in fp16). That one
    # moves 1.29 TB/s, which of GPUs with bf16 in August 2022 an A100 could alone.
    "pytorch/pytorch#83272 bf16": Asked(
        product(1024, 140, 1024, batch=384, dtype="bf16"), 9_232_000, UNNAMED,
        reaching("a100-sxm4-40gb", bf16=132.71e12), ["AL802"], "N = 140: no multiple of 8",
    ),
    "pytorch/pytorch#83272 fp16": Asked(
        product(1024, 140, 1024, batch=384), 2_092_000, UNNAMED,
        reaching("a100-sxm4-40gb", fp16=132.48e12), ["AL802"], "padded to 144",
    ),
    "pytorch/pytorch#83272 N=128": Asked(
        product(1024, 128, 1024, batch=512, dtype="bf16"), 1_036_000, UNNAMED,
        reaching("a100-sxm4-40gb", bf16=132.71e12), [],
    ),
    # Two rows in tiles of 64 x 64 on an RTX 3090: 59 us.
    "NVIDIA/cutlass#1582 m=2": Asked(
        product(2, 1792, 5120), 59_000, "cutlass_tensorop_s16816gemm_f16_64x64_32x10_tn_align2", on("rtx-3090"),
        ["KN703"], "tiles of 64 x 64 are mostly padding at M = 2",
    ),
    # The weights of a layer read by one row, then by two, on a GTX 1650: 99.5 and 4.3 GiB/s.
    "pytorch/pytorch#195716 M=1": Asked(product(1, 4864, 896), 81_585, UNNAMED, on("gtx-1650"), []),
    "pytorch/pytorch#195716 M=2": Asked(
        product(2, 4864, 896), 1_887_840, UNNAMED, on("gtx-1650"), ["RL101"], "of what DRAM allows",
    ),
    # A dot product of 131,072 in a batch of one: 412.48 us with cuBLAS above 12.1.0, on an A100.
    "pytorch/pytorch#114911 1x1x131072": Asked(
        product(1, 1, 131_072, dtype="fp32", weights=False), 412_480, UNNAMED, on("a100-sxm4-40gb"), ["KN703"],
        "a product of 1 x 131,072 by 131,072 x 1 takes 308 times as long as an empty kernel",
    ),
    # One row of bf16 by other weights each time, 2048 x 4096, on a B200: 11.86 us, and 4.40 us in another kernel.
    "vllm-project/vllm#27173 batch 1": Asked(
        product(1, 4096, 2048, dtype="bf16"), 11_858, UNNAMED, on("b200", cache_bytes=0), ["RL101"], "1.42 TB/s",
    ),
    # fp32 on the CUDA cores of an A10 at 12,470 GFLOP/s.
    "NVIDIA/cutlass#941": Asked(
        product(3456, 4096, 4096, dtype="fp32"), 9_301_720, "cutlass_simt_sgemm_128x128_8x2_nn_align1", on("a10"),
        ["KN702"], "12.5 TFLOP/s",
    ),
}  # fmt: skip


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED.keys())
def test_what_users_report_as_slow_is_answered(asked: Asked) -> None:
    case = run_case(Timed(asked.one, ns=round(asked.ns)), asked.kernel, asked.gpu)
    assert codes(case) == asked.codes
    if asked.codes:
        assert asked.says in only(case, asked.codes[0]).evidence


def test_the_estimate_for_fp16_is_near_what_the_same_gpu_was_measured_with() -> None:
    """zzc0721/torch-performance-test-data#78, an RTX 4090 at 4096: 53.02 TFLOP/s of fp32, 168.38 of fp16."""
    one, ns = square(4096, 53.02, "fp32")
    _, narrow_ns = square(4096, 168.38)
    case = run_case(Timed(one, ns=round(ns)), SM80_SIMT, on("rtx-4090", tf32=False))
    assert only(case, "PR801").lost_ns == pytest.approx(ns - narrow_ns, rel=0.35)


# --- a capture alone: names without work ---------------------------------------------------------


def test_a_matrix_product_on_the_cuda_cores_is_found_by_its_name() -> None:
    case = without_work(run_case(Timed(product(2048, 2048, 2048, dtype="fp32"), 8.0), SM80_SIMT, on("h100-sxm5")))
    finding, (one,) = only(case, "KN702"), case.layers
    # 66.9 of 494.7 TFLOP/s: the rest is the most that can be won.
    assert finding.lost_ns == pytest.approx(one.measured_ns * (1 - 66.9 / 494.7), rel=0.001)
    assert finding.confidence <= 0.5
    assert "at the most" in finding.evidence
    assert "fp32 as TF32 at 495 TFLOP/s, the CUDA cores at 66.9 TFLOP/s" in finding.evidence
    assert "--noTF32" in finding.try_
    assert "set_float32_matmul_precision" in only(case._replace(tensorrt=False, backend="pytorch"), "KN702").try_


@pytest.mark.parametrize(
    ("kernel", "gpu", "why"),
    [
        (GEMV, on("h100-sxm5"), "is no matrix product in tiles"),
        (DIRECT, on("h100-sxm5"), "is no matrix product in tiles"),
        (SM80_TENSOR, on("h100-sxm5"), "multiplies on the tensor cores"),
        # TF32 was forbidden, or is no faster than the CUDA cores of a GeForce.
        (SM80_SIMT, on("h100-sxm5", tf32=False), "are not faster at fp32"),
        (SM80_SIMT, on("rtx-4090"), "are not faster at fp32"),
        ("a_kernel", on("h100-sxm5"), "no name of its kernels tells"),
    ],
)
def test_a_name_alone_is_no_reason_where_tensor_cores_would_not_help(
    kernel: str, gpu: dict[str, Any], why: str
) -> None:
    case = without_work(run_case(Timed(product(2048, 2048, 2048, dtype="fp32"), 8.0), kernel, gpu))
    assert found(case, "KN702") == []
    rule = RULES.get("KN702")
    assert rule is not None
    assert rule.reason is not None
    assert why in rule.reason(case, case.layers[0])


def test_of_layers_without_a_price_the_longest_is_named() -> None:
    short, long = (product(1024, 1024, 1024, dtype="fp32", name=name) for name in ("a", "b"))
    case = engine_case(Timed(short, 8.0), Timed(long, 16.0), **on("h100-sxm5"))
    case = with_kernels(case, dict.fromkeys("ab", SM80_SIMT))
    layers = tuple(
        msgspec.structs.replace(one, work=None, attainable_ns=None, ideal_ns=None, lost_ns=None, bound="unknown")
        for one in case.layers
    )
    assert only(case._replace(layers=layers), "KN702").where == "b and 1 more MatMul"


@pytest.mark.parametrize("known", [True, False])
def test_attention_of_the_generation_before_is_priced_by_the_smallest_gain(known: bool) -> None:
    case = POSITIVE["KN705"] if known else without_work(POSITIVE["KN705"])
    finding, one = only(case, "KN705"), case.layers[0]
    assert finding.lost_ns == pytest.approx(one.measured_ns / 3, abs=1)
    assert "is written for sm80 and runs on sm90" in finding.evidence
    assert "a newer TensorRT" in finding.try_
    torch = only(case._replace(tensorrt=False, backend="pytorch"), "KN705")
    assert "FlashAttention 3" in torch.try_
    assert "SDPBackend.CUDNN_ATTENTION" in torch.try_


@pytest.mark.parametrize(
    ("kernel", "slug", "why"),
    [
        (FLASH_2, "a100-sxm4-80gb", "no library has fused attention that is written for this GPU alone"),
        (FLASH_2, "rtx-5090", "no library has fused attention that is written for this GPU alone"),
        # A few rows of queries: bytes bound them.
        (FLASH_2.replace("flash_fwd_kernel", "flash_fwd_splitkv_kernel"), "h100-sxm5", "before sm90"),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80", "h100-sxm5", "before sm90"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128", "h100-sxm5", "before sm90"),
    ],
)
def test_attention_that_nothing_newer_would_speed_up_is_left_alone(kernel: str, slug: str, why: str) -> None:
    case = without_work(run_case(Timed(product(4096, 4096, 4096, dtype="bf16"), 2.5), kernel, on(slug)))
    assert found(case, "KN705") == []
    rule = RULES.get("KN705")
    assert rule is not None
    assert rule.reason is not None
    assert why in rule.reason(case, case.layers[0])


def test_attention_near_its_roof_is_no_finding_whatever_its_name() -> None:
    case = run_case(Timed(product(4096, 4096, 4096, dtype="bf16"), 1.3), FLASH_2, on("h100-sxm5"))
    assert found(case, "KN705") == []
