"""What `trtprof plugin` found of the story, made up: every part of the document, and a bench of it."""

from __future__ import annotations

import msgspec

from trtprof.base.records import (
    SCHEMA_VERSION,
    BarrierPart,
    BenchCheck,
    BenchSide,
    BriefTensor,
    CheckStep,
    Estimate,
    Inserted,
    Interval,
    KernelBuild,
    KernelVariant,
    LadderStep,
    NumericCase,
    Plugin,
    PluginBench,
    PluginBenches,
    PluginBrief,
    PluginCheck,
    Traffic,
    Work,
)

NODE = "/gemv/MatMul"
MOVED = 250_828_800


def brief() -> PluginBrief:
    """That of the story on the GPU that ran it."""
    return PluginBrief(
        layer="gemv_myl0_0",
        nodes=(NODE,),
        op_types=("MatMul",),
        formulas=("y[i,j,l,0,0] = sum_k a[i,j,l,0,k] * b[i,0,l,k,0]",),
        tensors=(
            BriefTensor(name="a", operand="a", role="input", dtype="fp32", shape=(600, 200, 8, 1, 64),
                        nbytes=245_760_000, layout="Linear"),
            BriefTensor(name="b", operand="b", role="input", dtype="fp32", shape=(600, 1, 8, 64, 1), nbytes=1_228_800),
            BriefTensor(name="/out/y.0", operand="y", role="output", dtype="fp32", shape=(600, 200, 8, 1, 1),
                        nbytes=3_840_000),
        ),
        gpu="rtx-4090",
        work=Work(tensor_flops=122_880_000, bytes_read=246_988_800, bytes_written=3_840_000, dtype="fp32"),
        estimate=Estimate(
            ideal_ns=173_940, attainable_ns=272_640, roofline_ns=272_640, bound="dram", runner_up="l2",
            terms={"launch": 940, "tensor": 1562, "dram": 272_640, "l2": 52_377}, dram_bytes=MOVED,
        ),
        measured_ns=1_900_000,
        kernels=("sm50_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8_stage3_ffma_aligna4_alignc4",),
        wrong=("KN701 legacy kernel (90 % sure, ~1.63 ms lost): written for sm50, on sm89",),
        group=(NODE,),
        group_bound_ns=272_640,
        barrier=(
            BarrierPart(what="y crosses memory, read once more: 3.84 MB", ns=4174, bytes=3_840_000),
            BarrierPart(what="the launch of the plugin itself", ns=940),
        ),
        ladder=(
            LadderStep(what="half precision", command="trtprof run MODEL --fp16 -o reports/b", gain_ns=950_000,
                       basis="the roofline at fp16 takes 50.0 % of that at fp32", rung="fp16"),
            LadderStep(what="a higher builder optimisation level",
                       command="trtprof run MODEL --builderOptimizationLevel 5 -o reports/b",
                       basis="nothing tells before the builder has timed more tactics", rung="builder-level-5"),
        ),
        reachable_ns=313_379,
        basis="70.0 % of a datasheet's roofline",
        pays_above_ns=318_493,
        net_ns=1_581_507,
        net_low_ns=1_486_399,
        net_high_ns=1_641_246,
        verdict="write it",
        why="1.59 ms could be won back, and cutting the layer out costs 5.11 us: 1.58 ms net, at least 1.49 ms",
        doubts=("the latency varies by 12 %", "its bound is that of a datasheet, which no kernel reaches"),
    )  # fmt: skip


def builds(registers: int = 32) -> tuple[KernelBuild, ...]:
    return tuple(
        KernelBuild(
            architecture=name, registers=registers + more, spill_bytes=0, shared_bytes=128, blocks_per_sm=12,
            occupancy=0.75, loads="16 of 16 loads are vectors",
        )
        for name, more in (("sm_75", 18), ("sm_89", 0), ("sm_120", 0))
    )  # fmt: skip


def typical() -> Plugin:
    """All of it, with a check that failed and one that is not here."""
    return Plugin(
        schema_version=SCHEMA_VERSION,
        model="gemv",
        name="BatchedGemv_64",
        brief=brief(),
        form="gemv",
        refused={"softmax": "it computes no softmax"},
        variants=tuple(
            KernelVariant(tactic=at, entry="gemv", label=f"BLOCK_M={16 * at}, num_warps=4", builds=builds(24 + 8 * at))
            for at in (1, 2)
        ),
        inserted=Inserted(
            model="model.onnx", places=((NODE,), ("/gemv_1/MatMul",)), function=True,
            left=("/gemv_2/MatMul: its shape is another one",),
        ),
        check=PluginCheck(
            steps=(
                CheckStep(name="numerics", verdict="failed", cases=212, seconds=14.2, reason="1 case of 212 failed"),
                CheckStep(name="traffic", verdict="passed", cases=2, seconds=3.1),
                CheckStep(name="compiler", verdict="passed", cases=14, seconds=2.5),
                CheckStep(name="registry", verdict="passed", cases=14, seconds=2.5),
                CheckStep(name="onnxruntime", verdict="passed", cases=3, seconds=0.8),
                CheckStep(name="tensorrt-rtx", verdict="not here", reason="TensorRT-RTX is not installed"),
            ),
            numerics=(
                NumericCase(tactic=1, what="1003 rows, K 61, adversarial", ok=True, worst=0.37),
                NumericCase(tactic=2, what="K 0", ok=False, worst=None, reason="it writes outside of y"),
            ),
            traffic=(
                Traffic(tactic=1, shapes="600x200x8x1x64", predicted_bytes=MOVED, counted_bytes=MOVED,
                        requested_bytes=MOVED + 1_228_800, ok=True),
            ),
        ),
        files=("README.md", "kernel.py", "model.onnx", "plugin.json", "plugin.py", "test_plugin.py"),
        folder="plugins/BatchedGemv_64",
    )  # fmt: skip


def refused() -> Plugin:
    """A model alone, of which no form knows the layer."""
    return Plugin(
        schema_version=SCHEMA_VERSION,
        model="sort",
        brief=msgspec.structs.replace(
            brief(), layer="/TopK", group=("/TopK",), nodes=("/TopK",), op_types=("TopK",),
            formulas=("v, i = TopK(x, k; axis=-1)",),
            measured_ns=None, kernels=(), wrong=(), net_ns=None, net_low_ns=None, net_high_ns=None,
            verdict="not decided", why="nothing was measured: it pays where the engine's own kernel takes more than "
            "318 us", doubts=("nothing ran: each time is an estimate",),
        ),
        refused={"gemv": "TopK is no product", "reduce": "TopK gives two tensors"},
    )  # fmt: skip


def bench() -> PluginBench:
    """One that is faster."""
    return PluginBench(
        schema_version=SCHEMA_VERSION,
        name="BatchedGemv_64",
        layer=NODE,
        gpu="NVIDIA GeForce RTX 4090",
        created="2026-11-23T05:00:00+00:00",
        verdict="faster",
        why="the engine with the plugin is 5.21x as fast (5.10 to 5.33)",
        doubts=("the SM clock moved between 2505 and 2570 MHz",),
        checks=(BenchCheck(what="zeros inputs", ok=True), BenchCheck(what="extremes inputs", ok=True)),
        kernel=(
            BenchSide(what="cuBLAS (in the run)", median_ns=1_880_000, n=0),
            BenchSide(what="gemv", median_ns=312_000, n=20),
        ),
        engine=(
            BenchSide(what="engine without the plugin", median_ns=1_940_000, n=50),
            BenchSide(what="engine with the plugin", median_ns=372_000, n=50),
        ),
        engine_gain=Interval(value=5.21, low=5.1, high=5.33),
        clocks_mhz=(2505, 2520, 2570),
        versions={"TensorRT": "11.4.0", "driver": "580.95"},
    )  # fmt: skip


def incorrect() -> PluginBench:
    """One whose outputs differ, so that nothing was timed."""
    return msgspec.structs.replace(
        bench(), verdict="incorrect", why="the outputs differ for zeros inputs: 3 of 8 are off", kernel=(), engine=None,
        engine_gain=None, checks=(BenchCheck(what="zeros inputs", ok=False, reason="3 of 8 are off"),), doubts=(),
        clocks_mhz=(),
    )  # fmt: skip


def benches() -> PluginBenches:
    """Those of a run."""
    return PluginBenches(
        schema_version=SCHEMA_VERSION,
        benches=(bench(), msgspec.structs.replace(incorrect(), name="Softmax_128", layer="/softmax")),
    )
