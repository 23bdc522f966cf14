"""Cases that a plugin is weighed in: the layers of an engine with their kernels, the story among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tests.fakes.cases import RTX_4090, Timed, engine_case, gemv
from tests.fakes.support import one_unit
from trtprof.base.records import LayerResult, Match, MatchedLayer, Op, PlanLayer, PlanRole, PlanTensor, PluginCandidate
from trtprof.diagnose import Case
from trtprof.diagnose.plugin import candidates

SM50 = "sm50_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4"
NHWC8 = "Channel major FP16 format where channel % 8 == 0"
LINEAR = "Row major linear FP16 format"

HALF_RATES = {"fp32": 78.65e12, "fp16": 157.3e12}
GPU = msgspec.structs.replace(
    RTX_4090,
    best=one_unit({key: 1.05 * rate for key, rate in HALF_RATES.items()}, dram=1.01e12, cache=5e12),
    attainable=one_unit(HALF_RATES, dram=0.92e12, cache=5e12),
)
"""The ceilings of the story, with fp16 at twice the rate; its cache holds nothing."""


def plan_tensor(name: str, *dims: int, dtype: str = "fp16", form: str = LINEAR) -> PlanTensor:
    padded = form == NHWC8 and len(dims) > 1
    axis = 1 if padded else None
    return PlanTensor(name=name, dims=dims, dtype=dtype, format=form, vector=8 if padded else 1, vector_axis=axis)


def matched(
    name: str,
    inputs: Sequence[PlanTensor],
    outputs: Sequence[PlanTensor],
    nodes: Sequence[str] = (),
    *,
    kind: str = "CaskConvolution",
    role: PlanRole = "compute",
) -> MatchedLayer:
    plan = PlanLayer(name=name, kind=kind, inputs=tuple(inputs), outputs=tuple(outputs))
    return MatchedLayer(layer=plan, role=role, nodes=tuple(nodes) or (name,), match="exact")


def weigh(case: Case, *plan: MatchedLayer, ops: Mapping[str, Op] | None = None, **how: Any) -> PluginCandidate:
    """The one candidate of a case."""
    case = case._replace(plan={one.layer.name: one for one in plan}, ops=ops or {}, **how)
    (found,) = candidates(case)
    return found


def with_kernel(case: Case, name: str, kernel: str) -> Case:
    """A layer with one kernel that took all of its time."""

    def given(one: LayerResult) -> LayerResult:
        ns = one.measured_ns
        match = Match(
            layer=name, kernel=kernel, count=1, median_ns=ns, total_ns=ns, confidence="exact", reason="the range of it"
        )
        return msgspec.structs.replace(one, kernels=(match,)) if one.name == name else one

    return case._replace(layers=tuple(map(given, case.layers)))


def story(ns: int) -> tuple[Case, MatchedLayer]:
    """The batched gemv of the story as a layer of one node that takes ``ns``, in a kernel for sm50."""
    case = with_kernel(engine_case(Timed(gemv(), ns=ns), ceilings=GPU), "gemv", SM50)
    inputs = (plan_tensor("a", 600, 200, 8, 1, 64, dtype="fp32"), plan_tensor("b", 600, 1, 8, 64, 1, dtype="fp32"))
    plan = matched("gemv", inputs, (plan_tensor("y", 600, 200, 8, 1, 1, dtype="fp32"),), kind="gemm")
    return case, plan
