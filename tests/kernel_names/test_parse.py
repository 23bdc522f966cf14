"""What names say: labels written by hand, and laws that hold for every text.

``labels.csv`` has names of captures with where each was seen; ``public_names.csv`` has names of families that those
lack: ``seen`` is ``yes`` where public reports print the name as it stands, ``form`` where it was completed or made up
in the form of its family. All were labelled by reading the names; ``why`` has the reason where it is not plain. An
empty field is one that the name does not tell.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import sqlite3
import string
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fakes.support import H100, captured, needs_captures
from trtprof.base.units import DTYPE_BITS
from trtprof.kernel_names.parse import MAX_LENGTH, UNKNOWN, KernelName, parse
from trtprof.kernel_names.record import MMA_SHAPES, SM_VERSIONS

FOLDER = Path(__file__).parent
LABELLED = ("family", "op", "arch", "unit", "in", "acc", "out")
FIELDS = [field.name for field in dataclasses.fields(KernelName) if field.name not in ("name", "evidence")]
OPEN_KINDS = {"fp8", "fp6", "fp4", "fp16|bf16", "tf32", "b1"}  # kinds without a width of their own, or with an open one
XMMA = "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize32x32x64_stage3_warpsize2x1x2_tensor16x8x8"


def labels(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


CAPTURED, PUBLIC = labels("labels.csv"), labels("public_names.csv")
NAMES = [row["name"] for row in (*CAPTURED, *PUBLIC)]


def told(parsed: KernelName) -> dict[str, str]:
    found = parsed.as_dict()
    return {field: "" if found[field] is None else str(found[field]) for field in LABELLED}


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"][:80]) for row in (*CAPTURED, *PUBLIC)])
def test_the_parse_is_the_label(row: dict[str, str]) -> None:
    assert told(parse(row["name"])) == {field: row[field] for field in LABELLED}, row["why"]


def test_the_corpus_is_large_and_spread_wide() -> None:
    assert len({row["name"] for row in CAPTURED}) == len(CAPTURED) >= 320
    assert len(set(NAMES)) == len(NAMES)
    assert all(row["source"] for row in CAPTURED)
    assert len({row["family"] for row in (*CAPTURED, *PUBLIC)}) >= 15
    assert {row["unit"] for row in CAPTURED} >= {"tensor", "simt", "none"}


def test_the_captured_names_are_those_of_the_captures() -> None:
    with captured("kernel_names.csv").open(encoding="utf-8", newline="") as file:
        seen = {(row["name"], row["source"]) for row in csv.DictReader(file)}
    assert {(row["name"], row["source"]) for row in CAPTURED} <= seen


@needs_captures
def test_mangled_and_demangled_names_say_the_same() -> None:
    with sqlite3.connect(f"file:{H100}?mode=ro", uri=True) as rows:
        pairs = rows.execute(
            "SELECT DISTINCT m.value, d.value FROM CUPTI_ACTIVITY_KIND_KERNEL k"
            " JOIN StringIds m ON m.id = k.mangledName JOIN StringIds d ON d.id = k.demangledName"
        ).fetchall()
    rows.close()
    assert len(pairs) > 30
    for mangled, demangled in pairs:
        assert dataclasses.replace(parse(mangled), name="") == dataclasses.replace(parse(demangled), name="")


def test_every_tactic_of_the_captures_has_a_unit_and_an_architecture() -> None:
    files = sorted(captured("layer_info").glob("*.json"))
    tactics = set()
    for file in files:
        document = json.loads(file.read_text(encoding="utf-8"))
        layers = document.get("Layers", []) if isinstance(document, dict) else []
        tactics |= {layer["TacticName"] for layer in layers if isinstance(layer, dict) and layer.get("TacticName")}
    assert len(tactics) > 40
    for tactic in tactics:
        found = parse(tactic)
        assert found.unit != UNKNOWN, tactic
        assert found.arch is not None or found.family == "myelin", tactic


# The fields beside the labels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "sm80_xmma_gemm_f16f16_f16f16_f16_tn_n_tilesize32x32x64_stage6_warpsize2x2x1_tensor16x8x16_aligna2_alignc4",
            {"mma": "16x8x16", "layout": "tn_n", "tile": "32x32x64", "stages": 6, "alignment": (("a", 2), ("c", 4))},
        ),
        (
            (
                "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4"
                "_execute_split_k_kernel__5x_cublas"
            ),
            {"split_k": True, "mma": None, "evidence": "ffma", "alignment": (("a", 4), ("c", 4))},
        ),
        (
            (
                "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1"
                "_execute_segment_k_off_kernel__5x_cublas"
            ),
            {"split_k": False, "tile": "128x128x64", "evidence": "warpgroupsize1x1x1"},
        ),
        (
            (
                "sm80_xmma_fprop_implicit_gemm_interleaved_i8f32_i8i32_f32_nchw_vect_c_32kcrs_vect_c_32_nchw_tilesize64x32x64"
                "_stage6_warpsize2x1x1_g1_tensor16x8x32_t1r1s1_alignc4_nchw"
            ),
            {"layout": "nchw_vect_c_32kcrs_vect_c_32_nchw", "alignment": (("c", 4),), "mma": "16x8x32"},
        ),
        (
            (
                "sm50_xmma_conv_fprop_fused_conv_act_fp32_NCHW_fp32_NCHW_KCRS_fp32_fp32_fp32_Accfloat_1_1_cC1_dC1_srcVec1"
                "_fltVec2_2_TP3_TQ5_C8_R5_S5_U1_V1"
            ),
            {"layout": "nchwkcrs_nchw", "vector": 1, "evidence": "sm50"},
        ),
        (
            "ampere_h16816gemm_128x64_ldg8_relu_stages_64x4_nn_v1",
            {"mma": "16x8x16", "tile": "128x64", "stages": 4, "vector": 8, "layout": "nn", "evidence": "h16816gemm"},
        ),
        (
            "cudnn_train_volta_scudnn_128x128_stridedB_splitK_interior_nn_v1",
            {"split_k": True, "tile": "128x128", "evidence": "scudnn"},
        ),
        (
            "cudnn_infer_volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1",
            {"ops": ("winograd",), "vector": 1, "layout": "nt"},
        ),
        (
            "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(T1::Params)",
            {"mma": "16x8x16", "tile": "256x128x32", "stages": 3, "layout": "tn", "alignment": (("a", 8), ("b", 8))},
        ),
        (
            "cutlass3x_sm90_tensorop_s64x256x16gemm_f16_f16_f32_void_f32_128x256x64_2x1x1_0_ttt_align8_epi_tma",
            {"mma": "64x256x16", "tile": "128x256x64", "cluster": "2x1x1", "stages": None, "layout": "ttt"},
        ),
        (
            "nvjet_sm90_tst_192x192_64x4_2x1_v_bz_coopB_TNN",
            {"tile": "192x192x64", "stages": 4, "cluster": "2x1", "layout": "TNN", "split_k": None},
        ),
        ("nvjet_sm90_hss_64x8_64x16_1x1_h_bz_splitK_NNT", {"split_k": True, "stages": 16}),
        (
            "nvjet_sm120_hsh_mma_96x256x64_2_48x64x64_tmaAB_alignCD4_bz_TNNN",
            {"tile": "96x256x64", "stages": 2, "layout": "TNNN", "evidence": "mma"},
        ),
        (
            "__myl_AddMaxrSubExpSum_0x574acd01f7517732d5f2fd1c9042a089",
            {"ops": ("add", "max_reduce", "sub", "exp", "sum")},
        ),
        ("__myl_TraResMov_0x78d7a9345f6dcc42cd792b32565e643a", {"ops": ("transpose", "reshape", "copy")}),
        (
            "__myl_Fc_0x33c3fcd6a1b2c3d4e5f60718293a4b5c_tensorop256x256_cga2x2_sm2",
            {"tile": "256x256", "evidence": "tensorop256x256"},
        ),
        (
            (
                "bmm_Bfloat16_E2m1E2m1_Fp32_Ab16_Bb16_t128x128x256u2_s6_et128x128_m256x128x64_c2x1x1_rM_TN_transOut"
                "_schPd2x1x2x3_biasFp32M_bN_rgTma_clmp_dynB_sm100f"
            ),
            {"tile": "128x128x256", "stages": 6, "mma": "256x128x64", "cluster": "2x1x1", "layout": "TN"},
        ),
        (
            (
                "cutlass3x_sm100_bstensorop_s256x192x64gemm_block_scaled_ue4m3xf4_ue4m3xf4_f32_f16_f16_256x192x256_0_tnn"
                "_align32_o_vs16_2sm_bias_f16_relu"
            ),
            {"tile": "256x192x256", "mma": "256x192x64", "cluster": None, "layout": "tnn"},
        ),
        (
            (
                "cutlass3x_sm120_bstensorop_s16864gemm_block_scaled_ue4m3xe2m1_ue4m3xe2m1_f32_bf16_bf16_128x128x256"
                "_1x1x1_0_tnn_align32_o_vs16_bias_bf16_relu"
            ),
            {"mma": "16x8x64", "cluster": "1x1x1", "alignment": (("a", 32), ("b", 32))},
        ),
        (
            (
                "void cutlass::device_kernel<vllm::cutlass_3x_gemm_sm100<cutlass::float_e4m3_t, cutlass::bfloat16_t,"
                " vllm::c3x::ScaledEpilogue, cute::tuple<cute::C<256>, cute::C<128>, cute::C<128> >,"
                " cute::tuple<cute::C<2>, cute::C<1>, cute::C<1> >, int>::GemmKernel>(T1::Params)"
            ),
            {"tile": "256x128x128", "cluster": "2x1x1"},
        ),
        ("_gemv_mha_v1_myl3_6", {"ops": ("decode",)}),
        ("__myl_bb1_3_MaxSubExpSumDivMul", {"ops": ("max", "sub", "exp", "sum", "div")}),
        ("triton_poi_fused_add_mul_silu_23", {"ops": ("add", "mul", "silu")}),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, A<char*, 1>>()",
            {"vector": 4, "ops": ("fill",)},
        ),
        (
            "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 32, 4, false, false, cutlass::bfloat16_t>>(P)",
            {"tile": "128x32"},
        ),
        (
            "void at::native::elementwise_kernel<128, 4, ours::apply<float>(float*)::{lambda(int)#1}>(int)",
            {"op": "elementwise", "dtype_in": None},  # the int is an index
        ),
        ("fmha_cutlassF_f16_aligned_64x128_rf_sm80", {"tile": "64x128", "mma": None}),
    ],
)
def test_the_other_fields(name: str, said: dict[str, object]) -> None:
    parsed = parse(name)
    assert {field: getattr(parsed, field) for field in said} == said


def test_tf32_is_what_fp32_is_multiplied_as() -> None:
    parsed = parse(XMMA)
    assert (parsed.dtype_in, parsed.dtype_math, parsed.dtype_acc, parsed.dtype_out) == ("fp32", "tf32", "fp32", "fp32")


@pytest.mark.parametrize(
    ("scalar", "tensor"),
    [
        ("sm80_xmma_gemm_f16f16_f32f32_f32_nn_n_tilesize64x32x8_stage3_warpsize1x2x1_ffma_aligna2_alignc2",
         "sm80_xmma_gemm_f16f16_f16f32_f32_nn_n_tilesize64x32x64_stage5_warpsize2x2x1_tensor16x8x16_aligna2_alignc2"),
        ("ampere_sgemm_64x32_sliced1x4_nn_v1", "ampere_s16816gemm_fp16_64x64_sliced1x2_ldg8_nn_v1"),
        ("ampere_fp32_icudnn_int8x4_128x64_relu_medium_nn_v1",
         "turing_fp32_i8816cudnn_int8_128x128_ldg16_relu_small_nt_v1"),
        ("cutlass_80_simt_sgemm_128x32_8x5_tn_align1", "cutlass_80_tensorop_s1688gemm_128x64_16x6_tn_align4"),
        ("volta_hgemm_128x64_nn", "volta_h884gemm_128x64_ldg8_nn"),
    ],
)  # fmt: skip
def test_names_that_differ_in_one_mark(scalar: str, tensor: str) -> None:
    assert parse(scalar).unit == "simt"
    assert parse(tensor).unit == "tensor"


def test_json_has_every_field_once() -> None:
    found = parse(XMMA).as_dict()
    assert json.loads(json.dumps(found)) == found
    assert len(found) == len(dataclasses.fields(KernelName))


def test_a_name_is_read_once() -> None:
    name = "ampere_sgemm_128x64_tn_read_once"
    before = parse.cache_info().misses
    assert parse(name) is parse(name)
    assert parse.cache_info().misses <= before + 2


# Laws ---------------------------------------------------------------------------------------------------------------

PIECES = [
    "_", "::", "<", ">", "(", ")", ", ", " ", "[", "]", "{", "}", "lambda", "(anonymous namespace)", "<unnamed>",
    "(int)4", "_ZN", "E", "I", "S_", "S0_", "T_", "Ul", "Z", "L", "X", "J", "Dp", "0x1f", "sm80", "sm_", "xmma", "gemm",
    "f16f32", "tensor16x8x16", "ampere", "s16816gemm", "cutlass", "cutlass3x", "tensorop", "nvjet", "tst", "__myl_",
    "MulSum", "fmha", "v2", "cutlassF", "triton", "poi", "fused", "nccl", "at::native::", "reduce_kernel", "ReduceOp",
    "flash_fwd_kernel", "device_kernel", "cute::tuple", "float", "__half", "128x64", "64x3", "align8", "stages",
    "...", "\u2026", "9" * 30, "bmm", "_E2m1E2m1_Fp32_", "Bfloat16", "fmhaSm100fKernel_Qkv", "kernel_cutlass_kernel_",
    "FlashAttentionForwardSm100_object_at__", "tensorptrbf16gmem", "deep_gemm::", "sm90_fp8_gemm", "flashinfer::",
    "KernelTraits", "Sm100FmhaFwd", "DeviceGemmFp4GemmSm100", "cutlass_3x_gemm_sm100", "ue4m3xf4", "block_scaled",
]  # fmt: skip
GRAMMATICAL = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


def well_formed(parsed: KernelName) -> None:
    assert parsed.unit in ("tensor", "simt", "none", "unknown")
    assert parsed.arch is None or parsed.arch in SM_VERSIONS
    for kind in (parsed.dtype_in, parsed.dtype_math, parsed.dtype_acc, parsed.dtype_out):
        assert kind is None or kind in DTYPE_BITS or kind in OPEN_KINDS
    assert parsed.family
    assert parsed.op
    # A unit that is told has its evidence.
    assert bool(parsed.evidence) == (parsed.unit != UNKNOWN)
    if parsed.mma is not None:
        assert parsed.unit == "tensor"
        assert parsed.mma in MMA_SHAPES or parsed.mma.count("x") == 2


@given(st.one_of(st.text(max_size=300), st.text(alphabet=string.printable, max_size=300), GRAMMATICAL))
@example("")
@example("_Z")
@example("_ZN")
@example("_ZNSt")
@example("<" * 300)
@example("_Z" + "N" * 300)
@example("sm\u0668\u0660_xmma_gemm")  # digits of another script
@example("cutlass_\u0668\u0660_tensorop_s16816gemm_f16_128x128_32x3_nn_align8")
def test_no_text_raises(name: str) -> None:
    well_formed(parse(name))
    assert parse(name).name == name


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_well_formed(name: str) -> None:
    well_formed(parse(name))


def says_no_more(cut: KernelName, whole: KernelName) -> None:
    for field in FIELDS:
        short, full = getattr(cut, field), getattr(whole, field)
        if short in (None, UNKNOWN, ()):
            continue
        if field == "ops":
            assert full[: len(short)] == short, field
        elif field == "alignment":
            assert set(short) <= set(full), field
        else:
            assert short == full, f"{field}: {short!r} of {cut.name!r}, {full!r} of the whole name"


@given(st.sampled_from(NAMES), st.data(), st.sampled_from(["", "...", "\u2026"]))
def test_a_cut_name_never_says_something_else(name: str, data: st.DataObject, mark: str) -> None:
    length = data.draw(st.integers(1, len(name)))
    says_no_more(parse(name[:length] + mark), parse(name))


@pytest.mark.parametrize("family", sorted({row["family"] for row in (*CAPTURED, *PUBLIC)}))
def test_no_cut_of_a_short_name_says_something_else(family: str) -> None:
    for row in (*CAPTURED, *PUBLIC):
        name = row["name"]
        if row["family"] == family and len(name) <= 160:
            whole = parse(name)
            for length in range(1, len(name)):
                says_no_more(parse.__wrapped__(name[:length]), whole)


@given(
    st.sampled_from([
        "{}_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x64_stage3_warpsize2x2x1_tensor16x8x16",
        "cutlass_{}_tensorop_s16816gemm_f16_128x128_32x3_nn_align8",
        "cutlass3x_{}_tensorop_gemm_f16_f16_f32_void_f16_128x128x64_2x1x1_0_ntn_align8",
        "nvjet_{}_tst_192x192_64x4_2x1_v_bz_coopB_TNN",
        "fmha_cutlassF_f32_aligned_64x64_rf_{}",
        "fmha_v2_flash_attention_fp16_64_32_S_qkv_128_{}_kernel_nl",
        "cudnn_generated_fort_native_sdpa_{}_flash_fprop_wgmma_f16_knob_7_64x128x128",
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<X<{}> > >(P)",
        "void cutlass::device_kernel<flash::{}<flash::FlashAttnFwd<int> > >(P)",
        "void my_kernel<{}>(float*)",
        "{}_kernel",
        "{}",
    ]),
    st.sampled_from(["sm", "Sm", "SM"]),
    st.sampled_from(sorted(SM_VERSIONS)),
    st.text(string.ascii_lowercase, max_size=3),
    st.text(string.ascii_lowercase.replace("a", "").replace("f", "") + string.digits, max_size=3),
)  # fmt: skip
def test_an_architecture_is_never_read_from_inside_a_word(
    pattern: str, mark: str, version: int, before: str, behind: str
) -> None:
    if behind[:1].isdigit() and len(behind) + len(str(version)) <= 3:
        behind = "x" + behind  # 8 + 0 would be another version, and no part of a word
    word = f"{before}{mark}{version}{behind}"
    found = parse(pattern.format(word)).arch
    if behind or (before and mark == "sm"):
        assert found is None
    else:
        assert found in (None, version)


@pytest.mark.parametrize("word", ["voltage", "amperes", "turingx", "hopperette", "evolta", "xampere"])
def test_an_architecture_word_is_a_whole_word(word: str) -> None:
    assert parse(f"{word}_sgemm_128x64_nn").arch is None


@pytest.mark.parametrize(
    "name", ["", " ", "\n\t", "\x00", "\ufeff", "\u4e2d\u6587\u6838", "\U0001f525" * 9, "::", "<>", "()", "_", "__"]
)
def test_text_without_a_name_says_nothing(name: str) -> None:
    parsed = parse(name)
    assert (parsed.family, parsed.op, parsed.unit, parsed.arch) == (UNKNOWN, UNKNOWN, UNKNOWN, None)


@pytest.mark.parametrize(
    "name",
    ["a" * 10_240, "_" * 10_240, "<" * 10_240, "a<" * 5_120, "(" * 10_240, "_Z" * 5_120, "_ZN" + "1a" * 5_120,
     "_Z" + "NI" * 5_120, "_Z1aI" + "P" * 10_240, "__myl_" + "Mul" * 3_413, "sm80_xmma_" + "f16f16_" * 1_463,
     "9" * 10_240,     "void f<" + "float, " * 1_463, "\u00e9" * 10_240],
    ids=lambda name: name[:12],
)  # fmt: skip
def test_ten_kilobytes_are_read(name: str) -> None:
    well_formed(parse(name))


def test_a_name_beyond_the_limit_is_read_as_one_that_was_cut() -> None:
    name = (
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
        + "int, " * 5_000
        + "int>()"
    )
    assert len(name) > MAX_LENGTH
    parsed = parse(name)
    assert (parsed.name, parsed.family, parsed.vector, parsed.dtype_in) == (name, "pytorch", 4, "fp32")


def test_a_name_is_read_without_the_space_around_it() -> None:
    assert dataclasses.replace(parse(f"  {XMMA}\n"), name=XMMA) == parse(XMMA)
