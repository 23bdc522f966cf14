"""A remedy fits the layer's own shape: nothing is proposed that the layer has already, by any rule."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from tests.fakes.cases import Timed, layer, make_case, only, tensor
from tests.fakes.generated_cases import NAMES, cases, gaps
from tests.fakes.kernel_rule_cases import (
    SM80_SIMT,
    SM80_TENSOR,
    SM80_TF32,
    SPLIT_K,
    conv,
    on,
    planned,
    product,
    run_case,
)
from trtprof.base.plan_words import FULL, layout
from trtprof.base.records import Layer, LayerResult
from trtprof.diagnose import RULES, Case
from trtprof.diagnose.plugin import candidates
from trtprof.diagnose.products import has_weights, multiplies, product_dtype, product_of
from trtprof.diagnose.rank import diagnose
from trtprof.diagnose.remedies import tiles_of

STEP = re.compile(r"pad (?P<dims>[\w ]+?) to a multiple of (?P<step>\d+)")
DP4A = "ampere_fp32_icudnn_int8x4_128x64_relu_medium_nn_v1"
TILED = (
    "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x64x32_stage3_warpsize2x2x1_g1_"
    "tensor16x8x16"
)


def unfit(case: Case, result: LayerResult, remedy: str) -> str:
    """What a remedy proposes that the layer has already, or that it can have no use of; empty where there is nothing.

    The words are those of the remedies; `test_the_generated_cases_make_remedies_speak` says that they still are.
    """
    found = product_of(result)
    for step in STEP.finditer(remedy):
        misfits = [name for name, _ in found.misfits(int(step["step"]))] if found is not None else []
        if step["dims"].split(" and ") != misfits:
            return f"{step[0]}: {misfits} are none"
    if "a multiple of 8 channels" in remedy and (found is None or found.batch % 8 == 0):
        return "its channels are a multiple of 8"
    alone = remedy.startswith("leave it unquantised")
    if alone and (found is None or not found.convolution or found.inner > 4 or "8" not in product_dtype(result)):
        return "it is no convolution of an image in 8 bits"
    if re.search(r"fp16|lower precision|half precision", remedy) and not alone and product_dtype(result) not in FULL:
        return f"it computes in {product_dtype(result)}"
    if "TF32" in remedy and product_dtype(result) != "fp32":
        return f"it multiplies {product_dtype(result)}"
    matched = case.plan.get(result.name)
    if "channels last" in remedy and matched is not None and layout(matched.layer.inputs[0]).startswith("NHWC"):
        return "its channels lie last"
    if "fold the batch" in remedy and found is not None and found.batch == 1:
        return "it has no batch"
    if "split-k" in remedy and (not multiplies(result) or any(name.split_k for _, name in case.kernel_names(result))):
        return "nothing can be split, or it is"
    if "transpose the weight" in remedy and not has_weights(case, result):
        return "it has no weight"
    if "merge products" in remedy and not multiplies(result):
        return "it is no product"
    if "groups" in remedy and (found is None or found.batch == 1):
        return "it has one group"
    return ""


some_case = cases(
    st.floats(1.0, 30.0),
    st.sampled_from([*NAMES, DP4A, TILED, SM80_SIMT, SM80_TF32]),
    dtypes=st.sampled_from(["fp32", "fp16", "bf16", "int8"]),
    overheads=gaps,
)


@given(some_case)
def test_no_remedy_proposes_what_the_layer_has(case: Case) -> None:
    results = {result.name: result for result in case.layers}
    for rule in RULES.values():
        for claim in rule.check(case):
            for name in claim.layers:
                assert not (why := unfit(case, results[name], claim.remedy)), f"{rule.code} {claim.remedy!r}: {why}"
    for one in candidates(case):
        for step in one.ladder:
            assert not (why := unfit(case, results[one.layer], step.what)), f"{step.what!r}: {why}"
            for before, after in re.findall(r"from (\d+) to (\d+)", step.what):
                assert int(before) < int(after), step.what


CHANNELS = st.sampled_from([1, 3, 4, 7, 8, 16, 30, 320, 640])


def test_the_generated_cases_make_remedies_speak() -> None:
    """A law about words that no rule says would hold for nothing."""
    words = ["to a multiple of", "fp16", "channels last", "fold the batch", "split-k", "leave it unquantised"]
    spoken: set[str] = set()

    @given(some_case)
    @settings(database=None)
    def collect(case: Case) -> None:
        remedies = [claim.remedy for rule in RULES.values() for claim in rule.check(case)]
        spoken.update(word for word in words if any(word in remedy for remedy in remedies))

    # Convolutions of images in 8 bits are too rare to wait for: they have a test of their own.
    rare = {"leave it unquantised"}
    for number in range(20):
        seed(number)(collect)()
        if set(words) - spoken <= rare:
            return
    assert set(words) - spoken <= rare


def few_tiles(channels: int = 320, made: int = 640) -> Case:
    """A convolution of 24 x 32 places in tiles of 128 x 64, on a GPU of 72 SMs, at a third of its peak."""
    weights = tensor("w", made, channels, 3, 3, dtype="fp16", constant=True)
    image, result = tensor("x", 1, channels, 24, 32, dtype="fp16"), tensor("y", 1, made, 24, 32, dtype="fp16")
    one = layer("conv", "Conv", (image, weights), (result,), attributes={"group": 1})
    return run_case(Timed(one, 3.0), TILED, on("a10", measured=False))


def test_too_few_tiles_are_named_and_not_the_channels() -> None:
    """320 and 640 channels are multiples of 8 and of 64: what is wrong is a tile that makes 60 blocks of them."""
    case = few_tiles()
    cut = tiles_of(case, case.layers[0])
    assert cut is not None
    assert (cut.tile, cut.blocks, cut.sms) == ("128 x 64", 6 * 10, 72)
    assert cut.idle == pytest.approx(12 / 72)
    finding = only(case, "RL102")
    assert finding.evidence.endswith("; its tiles of 128 x 64 make 60 blocks for 72 SMs")
    assert finding.try_.startswith("give it more blocks: a larger batch, or smaller tiles or split-k; ")
    assert "pad" not in finding.try_


def test_tiles_that_fill_the_sms_are_not_named() -> None:
    one = product(4096, 4096, 8192)
    case = run_case(Timed(one, 3.0), SM80_TENSOR, on("a10", measured=False))
    finding = only(case, "RL102")
    assert "tiles" not in finding.evidence
    assert "blocks" not in finding.try_


@pytest.mark.parametrize("kernel", ["a_kernel", SPLIT_K])
def test_a_name_without_a_tile_or_with_a_split_tells_no_blocks(kernel: str) -> None:
    case = run_case(Timed(product(128, 128, 8192), 3.0), kernel, on("a10"))
    assert tiles_of(case, case.layers[0]) is None


def image_conv(dtype: str, out: str = "fp32", channels: int = 3) -> Layer:
    """That of a ResNet at a batch of 32, as a quantised engine has it."""
    x, y = tensor("x", 32, channels, 224, 224, dtype=dtype), tensor("y", 32, 64, 112, 112, dtype=out)
    weights = tensor("w", 64, channels, 7, 7, dtype=dtype, constant=True)
    return layer("conv", "Conv", (x, weights), (y,), attributes={"group": 1})


@pytest.mark.parametrize(
    ("kernel", "slug", "ns", "code"),
    [
        (DP4A, "a100-pcie-80gb", 302_000, "KN702"),
        ("a_kernel_of_nobody", "a100-pcie-80gb", 302_000, "AL802"),
        # Where bytes take longer than dp4a does.
        (DP4A, "l4", 1_200_000, "RL101"),
    ],
    ids=["dp4a", "unknown kernel", "by bytes"],
)
def test_the_convolution_of_an_image_is_left_unquantised(kernel: str, slug: str, ns: int, code: str) -> None:
    """Measured: 202 us in 8 bits, 112 us in fp16. Neither fusion nor padding would give that."""
    finding = only(run_case(Timed(image_conv("int8"), ns=ns), kernel, on(slug, measured=False)), code)
    assert finding.try_.startswith("leave it unquantised, without a Q/DQ pair in front of it, and let it run in fp16")


def test_others_are_not() -> None:
    wide = run_case(Timed(image_conv("int8", channels=20), ns=900_000), DP4A, on("a100-pcie-80gb", measured=False))
    assert "pad input channels to a multiple of 16" in only(wide, "KN702").try_
    half = run_case(Timed(image_conv("fp16", "fp16"), ns=400_000), "a_kernel", on("a100-pcie-80gb", measured=False))
    assert diagnose(half)
    assert not any("unquantised" in finding.try_ for finding in diagnose(half))


def test_the_ladder_before_a_plugin_says_so_too() -> None:
    case = run_case(Timed(image_conv("int8"), ns=302_000), DP4A, on("a100-pcie-80gb", measured=False))
    (one,) = candidates(case)
    first = one.ladder[0]
    assert first.what.startswith("leave it unquantised")
    assert not any("zeros" in step.what for step in one.ladder)


@pytest.mark.parametrize(
    ("dtype", "form", "channels", "says"),
    [
        ("fp32", "Row major linear FP32 format", 512, "fp16 (--fp16) and channels last, or merge it"),
        ("fp16", "Row major linear FP16 format", 512, "channels last, or merge it"),
        ("fp16", "Channel major FP16 format where channel % 8 == 0", 500, "a multiple of 8 channels, or merge it"),
        ("fp16", "Channel major FP16 format where channel % 8 == 0", 512, "merge it with the pointwise"),
    ],
)
def test_a_depthwise_convolution_is_told_what_it_lacks(dtype: str, form: str, channels: int, says: str) -> None:
    one = conv(channels, channels, group=channels, dtype=dtype)
    case = planned(run_case(Timed(one, 4.0), SM80_SIMT, on("l4")), "conv", form)
    rule = RULES.get("DW805")
    assert rule is not None
    (claim,) = rule.check(case)
    assert claim.remedy.startswith(says)


def test_what_multiplies_nothing_has_no_products_to_merge() -> None:
    """A transform that a runtime does value by value is a product in disguise; other arithmetic is none."""
    frames = (
        tensor("x", 1, 16_000, 1),
        tensor("step", dtype="int64", constant=True),
        tensor("window", 512, constant=True),
    )
    one = layer("stft", "STFT", frames, (tensor("y", 1, 101, 257, 2),), attributes={"onesided": 1})
    case = make_case(Timed(one, 100.0))
    (result,) = case.layers
    assert not multiplies(result)
    assert (
        only(case, "RL102").try_
        == "write it as a convolution with the window's cosines and sines, which runs as one product"
    )
