"""The shared pieces of CUDA C++."""

from __future__ import annotations

import pytest

from trtprof.plugin.cuda_text import PIECES, STORED, c_type, narrowed, pieces, widened
from trtprof.plugin.kernel import NotFitError
from trtprof.runtime import nvrtc

EVERYTHING = """
extern "C" __global__ void all_of_it(const unsigned short *x, const signed char *q, float *y) {
    if (!aligned<16>(x)) return;
    float sum = 0.0f, four[4];
    const auto once = load_once<8>(x + 8 * threadIdx.x), again = load_again<8>(x + 16 * threadIdx.x);
    for (int i = 0; i < 8; ++i) sum += half_to_float(once.at[i]) * bf16_to_float(again.at[i]);
    bytes_to_float<true>(reinterpret_cast<const unsigned int *>(q)[threadIdx.x], four);
    sum = block_reduce<Max, 128>(sum + four[0] + four[3]);
    Pack<float, 4> out = zeros<4, float>();
    out.at[1] = half_to_float(float_to_half(sum)) + bf16_to_float(float_to_bf16(sum)) + float_to_int8(sum)
        + float_to_uint8(sum);
    store(y + 4 * threadIdx.x, out);
}
"""


@pytest.mark.parametrize("architecture", ["sm_75", "sm_89"])
def test_every_piece_compiles_without_a_header(architecture: str) -> None:
    source = pieces(*PIECES, of=STORED) + EVERYTHING
    assert "#include" not in source
    compiled = nvrtc.compile_source(source.encode(), architecture, fast_math=False)
    assert ".entry all_of_it" in compiled.ptx
    assert "ld.global.cs.v4.u32" in compiled.ptx
    assert "ld.global.nc.v4" in compiled.ptx
    assert ("cvt.rn.bf16.f32" in compiled.ptx) == (architecture == "sm_89")
    assert "0 bytes spill stores" in compiled.log


def test_a_piece_brings_what_it_needs(subtests: pytest.Subtests) -> None:
    for name in PIECES:
        with subtests.test(name):
            source = pieces(name, name)
            assert source.count(PIECES[name].text.strip()) == 1
            nvrtc.compile_source(source.encode(), "compute_75", fast_math=False)


def test_conversions_are_written_for_a_dtype() -> None:
    assert c_type("bf16") == "unsigned short"
    assert narrowed("fp16", f"{widened('bf16', 'x')} * 2.0f") == "float_to_half(bf16_to_float(x) * 2.0f)"
    assert "half_to_float" in pieces(of=["fp16"])
    with pytest.raises(NotFitError, match="complex64"):
        pieces(of=["complex64"])
