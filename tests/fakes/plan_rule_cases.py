"""Cases for the rules that look at a plan or at launches: one that each finds, and a near miss."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.fakes.cases import RTX_4090, Timed, engine_case, layer, relu, tensor
from trtprof.base.records import (
    Layer,
    LayerResult,
    Match,
    MatchedLayer,
    PlanBinding,
    PlanLayer,
    PlanRole,
    PlanTensor,
    PlanWeights,
)
from trtprof.diagnose import Case
from trtprof.hardware.gpus import find

SPEC = find("rtx-4090")
"""128 SMs of compute capability 8.9: 48 warps, 24 blocks, 65,536 registers and 100 KiB of shared memory each."""


def convolution(name: str = "conv", dtype: str = "fp32") -> Layer:
    """7.4 GMAC, which arithmetic bounds."""
    image, weights = tensor("x", 8, 256, 56, 56, dtype=dtype), tensor("w", 128, 256, 3, 3, dtype=dtype, constant=True)
    return layer(name, "Conv", (image, weights), (tensor("y", 8, 128, 56, 56, dtype=dtype),))


def streamed(name: str = "relu") -> Layer:
    """800 MB of DRAM traffic."""
    return relu(name, "x", "y", 100_000_000)


def launched(one: Layer, slow: float, *, kernel: str = "a_kernel", **launch: int) -> Case:
    """One layer of a 4090 that takes ``slow`` times what is attainable, in one kernel."""
    case = engine_case(Timed(one, slow), ceilings=RTX_4090, spec=SPEC)
    return with_kernels(case, one.name, (kernel, 1, launch))


def with_kernels(case: Case, name: str, *kernels: tuple[str, int, dict[str, int]]) -> Case:
    """The case with kernels of one layer: their names, their parts of its time, and how they were launched."""
    parts = sum(part for _, part, _ in kernels)

    def given(result: LayerResult) -> LayerResult:
        if result.name != name:
            return result
        found = tuple(
            Match(
                layer=name, kernel=kernel, count=10, median_ns=result.measured_ns * part // parts,
                total_ns=result.measured_ns * part * 10 // parts, confidence="exact", reason="", **launch,
            )
            for kernel, part, launch in kernels
        )  # fmt: skip
        return msgspec.structs.replace(result, kernels=found)

    return case._replace(layers=tuple(map(given, case.layers)))


def plan_tensor(name: str, *dims: int, dtype: str = "fp16") -> PlanTensor:
    return PlanTensor(name=name, dims=dims, dtype=dtype, format="Row major linear FP16 format")


def planned(
    name: str,
    inputs: tuple[PlanTensor, ...],
    outputs: tuple[PlanTensor, ...],
    *,
    kind: str = "CaskConvolution",
    role: PlanRole = "compute",
    **fields: Any,
) -> MatchedLayer:
    given = PlanLayer(name=name, kind=kind, inputs=inputs, outputs=outputs, **fields)
    return MatchedLayer(layer=given, role=role, match="exact")


BIG = Timed(relu("big", "big_in", "big_out", 10_000_000))


def quantised(*, second_reader: bool = False, at_input: bool = False, alone: bool = True) -> Case:
    """A quantisation of its own, a layer that only reformats where it is not ``alone``."""
    source, target = plan_tensor("x", 1, 64, 56, 56), plan_tensor("xq", 1, 64, 56, 56, dtype="int8")
    other = msgspec.structs.replace(target, dtype="fp16")
    plan = {
        "quantise": planned("quantise", (source,), (target if alone else other,), kind="Reformat", role="layout",
                            origin="QDQ" if alone else "REFORMAT"),
        "big": planned("big", (source if second_reader else other,), (), kind="PointWise"),
    }  # fmt: skip
    one = layer("quantise", "QuantizeLinear" if alone else "Reformat", (tensor("x", 10),), (tensor("xq", 10),),
                role="layout")  # fmt: skip
    bindings = (PlanBinding(name="x", mode="input"),) if at_input else ()
    return engine_case(BIG, Timed(one, ns=400_000), plan=plan, bindings=bindings)


def float_output(
    *, reader: str = "int8", given_out: bool = False, second: str = "", products: bool = False, slow: float = 1.2
) -> Case:
    """An int8 convolution that writes fp16, and a layer that makes ``reader`` of it; both bound by bytes."""
    shape = 8, 64, 128, 128
    image = plan_tensor("x", *shape, dtype="int8")
    wide, out = plan_tensor("y", *shape), plan_tensor("z", *shape, dtype=reader)
    plan = {"conv": planned("conv", (image,), (wide,), weights=PlanWeights(dtype="int8", count=4096))}
    if products:
        plan["next"] = planned("next", (image, wide), (out,))
    else:
        plan["next"] = planned("next", (wide,), (out,), kind="PointWise")
    if second:
        plan["third"] = planned("third", (wide,), (plan_tensor("s", *shape, dtype=second),), kind="PointWise")
    count = 8 * 64 * 128 * 128
    timed = [Timed(relu(name, f"{name}_in", f"{name}_out", count), slow) for name in plan]
    bindings = (PlanBinding(name="y", mode="output"),) if given_out else ()
    return engine_case(*timed, plan=plan, bindings=bindings)


def thrash(
    sizes: float = 1.2, *, batch: int = 4, readers: int = 1, given_out: bool = False, apart: bool = False
) -> Case:
    """Two layers of a GPU with an L2 of 1 MB, and a tensor of so many MB from one to the other."""
    rest = round(sizes * 1_000_000 / 4 / batch)
    between = plan_tensor("m", batch, rest, dtype="fp32")
    small = plan_tensor("s", batch, 1, dtype="fp32")
    plan = {"one": planned("one", (small,), (between,), kind="PointWise")}
    names = [f"reader{at}" for at in range(readers)]
    for name in [*names[:-1], "apart", names[-1]] if apart else names:
        read = small if name == "apart" else between
        plan[name] = planned(name, (read,), (plan_tensor(f"{name}_out", batch, 1, dtype="fp32"),), kind="Reduce")
    timed = []
    for name, matched in plan.items():
        inputs, outputs = (
            tuple(tensor(one.name, *(one.dims or ())) for one in side)
            for side in (matched.layer.inputs, matched.layer.outputs)
        )
        timed.append(Timed(layer(name, "Relu" if name in ("one", "apart") else "ReduceSum", inputs, outputs), 1.1))
    bindings = (PlanBinding(name="m", mode="output"),) if given_out else ()
    return engine_case(*timed, plan=plan, bindings=bindings)


POSITIVE: dict[str, Case] = {
    # One block more than the SMs share evenly: half of the SMs' time is idle.
    "WV706": launched(convolution(), 2.1, blocks=129, threads=256, registers=128),
    "OC707": launched(streamed(), 5.0, blocks=16, threads=256, registers=32),
    "QD803": quantised(),
    "QD804": float_output(),
    "CA806": thrash(),
}

NEGATIVE: dict[str, Case] = {
    "WV706": launched(convolution(), 2.1, blocks=256, threads=256, registers=128),
    "OC707": launched(streamed(), 5.0, blocks=1280, threads=256, registers=32),
    "QD803": quantised(alone=False),
    "QD804": float_output(reader="fp16"),
    "CA806": thrash(1.6),
}
