"""Engines made by hypothesis: layers of all kinds with kernels, a plan and unfused edges, for laws over all rules."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
from hypothesis import strategies as st

from tests.fakes.cases import CEILINGS, Timed, engine_case, expecting, layer, tensor
from tests.fakes.support import one_unit
from trtprof.base.records import (
    Attribute,
    Ceilings,
    Layer,
    LayerResult,
    Match,
    MatchedLayer,
    PlanBinding,
    PlanEdge,
    PlanLayer,
    PlanTensor,
)
from trtprof.diagnose import Case
from trtprof.diagnose.ledger import Overheads
from trtprof.hardware.gpus import ceilings, find

NAMES = (
    "a_kernel",
    "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x64_stage4_warpsize2x2x1_tensor16x8x16_kernel",
    "sm50_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_execute_kernel",
    "ampere_h16816gemm_128x128_ldg8_stages_64x3_nn",
    "void gemvNSP_kernel<float, float, float, float, 1, 16, 4, 1024, cublasGemvParams>(cublasGemvParams)",
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, float, float, float, true, false, false>(float*)",
    "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_f16_s16816fprop_optimized_f16_64x64_32x10_nhwc_align8>(Params)",
    "__myl_AddMulRelu_0x6e4f",
    "fmha_v2_flash_attention_fp16_64_64_S_40_sm89_kernel",
    "genericReformat::copyPackedKernel",
)
"""Kernels of all kinds: on tensor cores and not, old and new, helpers, and one that says nothing."""
HELPERS = ("splitKreduce", "copyPackedKernel")
"""What is in the names of kernels that do none of the layer's own work: no healthy layer is made of them."""

OTHER_WORK = {
    "CN601": "what is computed once is not computed in a run",
    "LY201": "a reformat does none of the model's work",
    "QD803": "a conversion that a layer beside it does costs nothing of its own",
    "LA401": "a layer without a launch of its own costs its work alone",
    "FU301": "a tensor that stays inside a layer is not moved",
    "QD804": "fewer bytes are moved",
    "CA806": "bytes come from the cache",
    "PR801": "narrower operands are multiplied faster and are fewer bytes",
    "AL802": "with padded dimensions other kernels run",
    "KN704": "parts of one sum need not be added up",
}
"""Rules whose remedy changes what is to be done, so that a layer may take less than what was attainable of it."""

GPU = find("rtx-4090")
MEASURED = msgspec.structs.replace(
    CEILINGS,
    best=one_unit({"fp32": 83e12, "fp16": 330e12, "int8": 660e12}, dram=1.01e12, cache=5e12),
    attainable=one_unit({"fp32": 78e12, "fp16": 310e12, "int8": 600e12}, dram=0.92e12, cache=4.5e12),
    cache_bytes=72_000_000,
    launch_ns=2000.0,
)
DATASHEET = ceilings(GPU)

sizes = st.sampled_from([1, 7, 8, 64, 256, 1000, 2048, 4096])
dtypes = st.sampled_from(["fp32", "fp16"])


@st.composite
def engine_layers(draw: st.DrawFn, name: str, dtype: str) -> Layer:
    """A layer of some kind with tensors of its own."""
    kind = draw(st.sampled_from(["MatMul", "Conv", "MatMul", "Relu", "Add", "Softmax", "Transpose", "Cast"]))

    def one(suffix: str, *dims: int, constant: bool = False) -> Any:
        return tensor(f"{name}.{suffix}", *dims, dtype=dtype, constant=constant)

    if kind == "MatMul":
        b, m, n, k = (draw(sizes) for _ in range(4))
        return layer(name, kind, (one("a", b, m, k), one("b", b, k, n)), (one("y", b, m, n),))
    if kind == "Conv":
        batch, channels, made, side = draw(sizes), draw(sizes), draw(sizes), draw(st.sampled_from([7, 14, 56]))
        group = channels if draw(st.booleans()) else 1
        made = channels if group > 1 else made
        attributes: dict[str, Attribute] = {"group": group, "pads": (1, 1, 1, 1)}
        weights = one("w", made, channels // group, 3, 3, constant=True)
        image = one("x", min(batch, 16), channels, side, side)
        out = one("y", min(batch, 16), made, side, side)
        return layer(name, kind, (image, weights), (out,), attributes=attributes)
    shape = draw(sizes), draw(sizes), draw(sizes)
    if kind == "Add":
        return layer(name, kind, (one("a", *shape), one("b", *shape)), (one("y", *shape),))
    role = "layout" if kind == "Cast" and draw(st.booleans()) else "compute"
    return layer(name, kind, (one("a", *shape),), (one("y", *shape),), role=role)


launch = st.fixed_dictionaries(
    {
        "blocks": st.sampled_from([0, 1, 16, 100, 128, 129, 256, 257, 300, 1000, 100_000]),
        "threads": st.sampled_from([0, 32, 96, 128, 256, 1024, 5000]),
        "registers": st.sampled_from([0, 32, 100, 255, 300]),
        "shared_bytes": st.sampled_from([0, 1024, 48 * 1024, 99 * 1024, 1_000_000]),
    }
)


bands = st.tuples(*[st.floats(0.01, 2.0)] * 3).map(lambda band: tuple(sorted(band)))
"""p10, p50 and p90 of an expectation, over what a layer took."""


@st.composite
def kernels(draw: st.DrawFn, result: LayerResult, names: st.SearchStrategy[str]) -> tuple[Match, ...]:
    parts = draw(st.lists(st.integers(0, 10), min_size=1, max_size=2))
    return tuple(
        Match(
            layer=result.name, kernel=draw(names), count=10, median_ns=result.measured_ns * part // (sum(parts) or 1),
            total_ns=result.measured_ns * part * 10 // (sum(parts) or 1), confidence="exact", reason="", **draw(launch),
        )
        for part in parts
    )  # fmt: skip


def plan_of(one: Layer, dtypes: tuple[str, str], reads: str, **fields: Any) -> MatchedLayer:
    """The layer as a plan has it: it reads ``reads``, and what it reads and writes has dtypes of its own."""

    def side(tensors: tuple[Any, ...], dtype: str) -> tuple[PlanTensor, ...]:
        return tuple(PlanTensor(name=each.name, dims=each.shape, dtype=dtype) for each in tensors)

    kind = {"Conv": "CaskConvolution", "MatMul": "gemm", "Cast": "Reformat"}.get(one.op.op_type, "kgen")
    given = PlanLayer(
        name=one.name, kind=kind, inputs=side(one.op.inputs[:1], dtypes[0]), outputs=side(one.op.outputs, dtypes[1]),
        **fields,
    )  # fmt: skip
    given = msgspec.structs.replace(
        given, inputs=tuple(msgspec.structs.replace(each, name=reads) for each in given.inputs)
    )
    return MatchedLayer(layer=given, role="layout" if one.role == "layout" else "compute", match="exact")


@st.composite
def cases(
    draw: st.DrawFn,
    slow: st.SearchStrategy[float],
    names: st.SearchStrategy[str],
    *,
    dtypes: st.SearchStrategy[str] = dtypes,
    overheads: st.SearchStrategy[Overheads] | None = None,
    healthy: bool = False,
) -> Case:
    """An engine of some layers, each with kernels; where it is not healthy, reformats and unfused edges too."""
    layers = [draw(engine_layers(f"layer{at}", draw(dtypes))) for at in range(draw(st.integers(1, 6)))]
    if healthy:
        layers = [msgspec.structs.replace(one, role="compute") for one in layers]
    limits: Ceilings = draw(st.sampled_from([MEASURED, DATASHEET]))
    timed = []
    for one in layers:
        reached = draw(slow) / (0.7 if healthy and limits is DATASHEET else 1.0)
        timed.append(Timed(one, reached))
    # A tensor between two layers may be one that a cache does not keep, which is no matter of a kernel's health.
    sources = [f"{one.name}.{'q' if healthy else 'y'}" for one in layers]
    narrow = ["fp32", "fp16"] if healthy else ["int8", "fp16", "fp32"]
    plan = {
        one.name: plan_of(
            one, (draw(st.sampled_from(narrow)), draw(st.sampled_from(narrow))), reads,
            origin="" if healthy else draw(st.sampled_from(["", "QDQ", "REFORMAT"])),
        )
        for one, reads in zip(layers, ["layer0.a", *sources], strict=False)
    }  # fmt: skip
    edges = []
    for one, other in itertools.pairwise(layers):
        if not healthy and draw(st.booleans()):
            edges.append(
                PlanEdge(
                    tensor=f"{one.name}.y", maker=one.name, readers=(other.name,),
                    kind=draw(st.sampled_from(["epilogue", "prologue", "pointwise", "products", "layout"])),
                    expected=draw(st.booleans()), bytes=1_000_000, saved_ns=draw(st.integers(0, 1_000_000)),
                )
            )  # fmt: skip
    case = engine_case(
        *timed,
        ceilings=limits,
        overheads=draw(overheads) if overheads is not None else Overheads(),
        spec=GPU,
        plan=plan,
        edges=tuple(edges),
        bindings=(PlanBinding(name="layer0.a", mode="input"),),
        cv=draw(st.sampled_from([0.01, 0.5])),
        partial=frozenset() if healthy else frozenset(draw(st.sets(st.sampled_from([one.name for one in layers])))),
    )
    case = case._replace(
        layers=tuple(msgspec.structs.replace(result, kernels=draw(kernels(result, names))) for result in case.layers)
    )
    # What good library kernels take has little to do with either: faster than the roof, or slower than the layer.
    known = {one.name: draw(st.none() | bands) for one in case.layers if one.name not in case.partial and one.work}
    case = expecting(case, **{name: band for name, band in known.items() if band is not None})
    far = draw(st.sets(st.sampled_from([one.name for one in layers])))
    return case._replace(
        layers=tuple(
            msgspec.structs.replace(one, expected_basis="extrapolated")
            if one.name in far and one.expected_ns is not None
            else one
            for one in case.layers
        )
    )


some_ns = st.integers(0, 1_000_000)
gaps = st.builds(Overheads, some_ns, some_ns, some_ns, st.just(0), some_ns, some_ns, some_ns, st.just(False))
