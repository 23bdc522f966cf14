"""What names say: labels written by hand, and laws that hold for every text.

``labels.csv`` has names of captures with where each was seen; ``public_names.csv`` has names of families that those
lack: ``seen`` is ``yes`` where public reports print the name as it stands, ``form`` where it was completed or made up
in the form of its family. All were labelled by reading the names; ``why`` has the reason where it is not plain. An
empty field is one that the name does not tell. ``also`` has further fields of `KernelName`: ``tile=64x32; stages=6``.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import sqlite3
import string
from pathlib import Path

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


def text(value: object) -> str:
    """A field as the column ``also`` has it."""
    if isinstance(value, tuple):
        return ",".join(each if isinstance(each, str) else "".join(map(str, each)) for each in value)
    return "" if value is None else str(value)


def test_every_name_is_parsed_as_labelled() -> None:
    wrong = []
    for row in (*CAPTURED, *PUBLIC):
        parsed = parse(row["name"])
        well_formed(parsed)
        also = dict(pair.split("=") for pair in (row["also"] or "").split("; ") if pair)
        found = told(parsed) | {field: text(getattr(parsed, field)) for field in also}
        wanted = {field: row[field] for field in LABELLED} | also
        if wrong_fields := {field: (found[field], wanted[field]) for field in wanted if found[field] != wanted[field]}:
            wrong.append(f"{row['name']}: (parsed, labelled) {wrong_fields}; {row['why']}")
    assert not wrong, "\n".join(wrong)


def test_the_corpus_is_large_and_spread_wide() -> None:
    assert len({row["name"] for row in CAPTURED}) == len(CAPTURED) >= 320
    assert len(set(NAMES)) == len(NAMES)
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


def test_names_that_differ_in_one_mark() -> None:
    pairs = [
        ("sm80_xmma_gemm_f16f16_f32f32_f32_nn_n_tilesize64x32x8_stage3_warpsize1x2x1_ffma_aligna2_alignc2",
         "sm80_xmma_gemm_f16f16_f16f32_f32_nn_n_tilesize64x32x64_stage5_warpsize2x2x1_tensor16x8x16_aligna2_alignc2"),
        ("ampere_sgemm_64x32_sliced1x4_nn_v1", "ampere_s16816gemm_fp16_64x64_sliced1x2_ldg8_nn_v1"),
        ("ampere_fp32_icudnn_int8x4_128x64_relu_medium_nn_v1",
         "turing_fp32_i8816cudnn_int8_128x128_ldg16_relu_small_nt_v1"),
        ("cutlass_80_simt_sgemm_128x32_8x5_tn_align1", "cutlass_80_tensorop_s1688gemm_128x64_16x6_tn_align4"),
        ("volta_hgemm_128x64_nn", "volta_h884gemm_128x64_ldg8_nn"),
    ]  # fmt: skip
    assert [(parse(scalar).unit, parse(tensor).unit) for scalar, tensor in pairs] == [("simt", "tensor")] * len(pairs)


def test_json_has_every_field_once() -> None:
    found = parse(XMMA).as_dict()
    assert json.loads(json.dumps(found)) == found
    assert len(found) == len(dataclasses.fields(KernelName))


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


def test_no_cut_of_a_short_name_says_something_else() -> None:
    for name in NAMES:
        if len(name) <= 110:
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


def test_an_architecture_word_is_a_whole_word() -> None:
    words = ("voltage", "amperes", "turingx", "hopperette", "evolta", "xampere")
    assert [word for word in words if parse(f"{word}_sgemm_128x64_nn").arch is not None] == []


def test_text_without_a_name_says_nothing() -> None:
    for name in ("", " \n\t", "\x00", "\ufeff", "\u4e2d\u6587\u6838", "\U0001f525" * 9, "::", "<>", "()", "_", "__"):
        parsed = parse(name)
        assert (parsed.family, parsed.op, parsed.unit, parsed.arch) == (UNKNOWN, UNKNOWN, UNKNOWN, None), name


def test_ten_kilobytes_are_read() -> None:
    for name in (
        "a" * 10_240, "_" * 10_240, "<" * 10_240, "a<" * 5_120, "(" * 10_240, "_Z" * 5_120, "_ZN" + "1a" * 5_120,
        "_Z" + "NI" * 5_120, "_Z1aI" + "P" * 10_240, "__myl_" + "Mul" * 3_413, "sm80_xmma_" + "f16f16_" * 1_463,
        "9" * 10_240, "void f<" + "float, " * 1_463, "\u00e9" * 10_240,
    ):  # fmt: skip
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
