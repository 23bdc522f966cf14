"""What the names of counters come to, architecture by architecture."""

from __future__ import annotations

import pytest

from trtprof.base.kernel_counters import Counter, KernelCounters, sum_up

PIPE = "sm__inst_executed_pipe_tensor.sum"
HFMA2 = "sm__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum"
SASS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"


def with_counters(counters: dict[str, float], capability: str = "8.9", unit: str = "inst") -> KernelCounters:
    made = {name: Counter(value, unit) for name, value in counters.items()}
    return KernelCounters(kernel="k", capability=capability, counters=made)


@pytest.mark.parametrize(
    ("capability", "counters", "worked"),
    [
        ("8.9", {PIPE: 10}, True),
        ("8.9", {PIPE: 0}, False),
        ("8.9", {}, None),
        # Compilers load constants with HFMA2.MMA, which takes the same pipe on GA100 and GH100.
        ("8.0", {PIPE: 10}, None),
        ("8.0", {PIPE: 10, HFMA2: 10}, False),
        ("9.0", {PIPE: 10, HFMA2: 4}, True),
        ("9.0", {PIPE: 0}, False),
        ("9.0", {PIPE: 10, "sm__inst_executed_pipe_tensor_op_imma.sum": 3}, True),
        # A file that does not tell the GPU may be of any.
        ("", {PIPE: 10}, None),
        ("", {PIPE: 0}, False),
        ("", {PIPE: 10, "sm__ops_path_tensor_src_fp16_dst_fp32.sum": 4096}, True),
        # No product of one kind does not mean none at all.
        ("8.6", {"sm__inst_executed_pipe_tensor_op_hmma.sum": 0}, None),
        # tcgen05 instructions have a pipe of their own.
        ("10.0", {PIPE: 0}, None),
        ("10.0", {PIPE: 0, "sm__inst_executed_pipe_tc.sum": 0}, False),
        ("10.0", {PIPE: 0, "sm__inst_executed_pipe_tc.sum": 5}, True),
        ("10.0", {"sm__pipe_tc_cycles_active.avg.pct_of_peak_sustained_elapsed": 0.8}, True),
        ("12.0", {PIPE: 7, "sm__inst_executed_pipe_tensor_subpipe_hmma_op_hmma.sum": 7}, True),
        ("8.6", {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": 0.0}, False),
        ("8.6", {"smsp__pipe_tensor_cycles_active_v2.sum": 5}, True),
    ],
)
def test_tensor_cores_are_told_only_where_counters_prove_it(
    capability: str, counters: dict[str, float], *, worked: bool | None
) -> None:
    assert with_counters(counters, capability).tensor_cores is worked


@pytest.mark.parametrize(
    ("counters", "flops"),
    [
        ({}, None),
        ({"sm__ops_path_tensor_src_fp16_dst_fp32.sum": 100.0, "sm__ops_path_tensor_src_int8.sum": 0.0}, 100),
        # Parts of what stands beside them.
        (
            {
                "sm__ops_path_tensor_src_fp16_dst_fp32.sum": 100.0,
                "sm__ops_path_tensor_src_fp16_dst_fp32_sparsity_off.sum": 100.0,
                "sm__ops_path_tensor_op_hmma_src_fp16_dst_fp32.sum": 100.0,
            },
            100,
        ),
        (
            {
                "sm__ops_path_tensor_op_hmma_src_bf16_dst_fp32_sparsity_off.sum": 30.0,
                "sm__ops_path_tensor_op_hmma_src_bf16_dst_fp32_sparsity_on.sum": 4.0,
                "sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32.sum": 5.0,
            },
            39,
        ),
    ],
)
def test_operations_of_tensor_cores_are_counted_once(counters: dict[str, float], flops: float | None) -> None:
    assert with_counters(counters).tensor_flops == flops


def test_flop_of_the_scalar_pipes() -> None:
    single = {SASS.format(op): count for op, count in (("fadd", 1.0), ("fmul", 2.0), ("ffma", 10.0))}
    assert with_counters(single).scalar_flops == (23, 23)
    # An instruction of fp16 does one or two of each.
    assert with_counters({**single, SASS.format("hfma"): 5.0}).scalar_flops == (33, 43)
    assert with_counters({**single, SASS.format("dfma"): 5.0, SASS.format("dadd"): 1.0}).scalar_flops == (34, 34)
    del single[SASS.format("fmul")]
    assert with_counters(single).scalar_flops is None


@pytest.mark.parametrize(
    ("counters", "unit", "bytes_"),
    [
        ({"dram__bytes_read.sum": 3.0, "dram__bytes_write.sum": 4.0}, "byte", 7),
        ({"dram__bytes_op_read.sum": 3.0, "dram__bytes_op_write.sum": 4.0}, "byte", 7),
        ({"dram__sectors_read.sum": 3.0, "dram__sectors_write.sum": 4.0}, "sector", 7 * 32),
        ({"dram__bytes.sum": 9.0}, "byte", 9),
        ({"dram__bytes_read.sum": 3.0}, "byte", None),
        # A unit that could not be led back to bytes is not taken for them.
        ({"dram__bytes.sum": 9.0}, "furlong", None),
    ],
)
def test_bytes_of_dram_go_by_several_names(counters: dict[str, float], unit: str, bytes_: float | None) -> None:
    assert with_counters(counters, unit=unit).dram_bytes == bytes_


def test_a_layer_uses_tensor_cores_where_one_of_its_kernels_does() -> None:
    yes, no, open_ = with_counters({PIPE: 1.0}), with_counters({PIPE: 0.0}), with_counters({})
    for launches, worked in (((no, yes), True), ((no, no), False), ((no, open_), None), ((open_, yes), True)):
        assert sum_up([(1.0, launches)])["tensor_cores"] is worked
