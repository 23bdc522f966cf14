"""A small builder for `Case`: engine layers are priced by the real cost functions and the real roofline."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tests.fakes.support import one_unit
from trtprof.base.records import (
    Attribute,
    Ceilings,
    Coverage,
    Dim,
    Estimate,
    Finding,
    Latency,
    Layer,
    LayerResult,
    MatchConfidence,
    Op,
    Tensor,
    Work,
)
from trtprof.cost import work_of
from trtprof.cost.precision import compute_dtype
from trtprof.diagnose import Case
from trtprof.diagnose.ledger import Overheads, build_ledger
from trtprof.diagnose.rank import diagnose
from trtprof.estimate.cache import steady_state_traffic
from trtprof.estimate.roofline import estimate, layer_accesses, out_of_place

CEILINGS = Ceilings(
    device="an invented device", source="a test", measured_at="2026-01-01T00:00:00+00:00",
    best=one_unit({"fp32": 110e9, "fp64": 55e9, "int8": 440e9}, dram=11e9, cache=44e9),
    attainable=one_unit({"fp32": 100e9, "fp64": 50e9, "int8": 400e9}, dram=10e9, cache=40e9), cache_bytes=1_000_000,
    threads=2, launch_ns=500.0, call_ns=1000.0,
)  # fmt: skip

RTX_4090 = Ceilings(
    device="RTX 4090",
    source="the story of DESIGN.md: the datasheet, and what was measured",
    measured_at="2026-01-01T00:00:00+00:00",
    best=one_unit({"fp32": 82.58e12}, dram=1.01e12, cache=1.01e12),
    attainable=one_unit({"fp32": 78.65e12}, dram=0.92e12, cache=5e12),
    # The tensors of the story are streamed: the cache would hold some of them from run to run.
    cache_bytes=0,
    threads=1,
    launch_ns=2000.0,
    call_ns=10_000.0,
)


def tensor(name: str, *dims: Dim, dtype: str = "fp32", constant: bool = False) -> Tensor:
    return Tensor(name=name, dtype=dtype, shape=dims, constant=constant)


def layer(
    name: str,
    op_type: str,
    inputs: tuple[Tensor | None, ...],
    outputs: tuple[Tensor | None, ...],
    *,
    domain: str = "",
    attributes: Mapping[str, Attribute] | None = None,
    **fields: Any,
) -> Layer:
    """An engine layer matched exactly to a node of its own name; ``fields`` are those of `Layer`."""
    op = Op(op_type=op_type, domain=domain, opset=17, attributes=dict(attributes or {}), inputs=inputs, outputs=outputs)
    return Layer(name=name, op=op, **{"nodes": (name,), "match": "exact", "reason": "its name", **fields})


def relu(name: str, source: str, target: str, elements: int = 1_000_000, **fields: Any) -> Layer:
    """A Relu from ``source`` to ``target``; its 4 MB tensors are streamed from DRAM, so 0.8 ms at 10 GB/s."""
    return layer(name, "Relu", (tensor(source, elements),), (tensor(target, elements),), **fields)


def gemv(name: str = "gemv") -> Layer:
    """The story's batched gemv."""
    inputs = (tensor("a", 600, 200, 8, 1, 64), tensor("b", 600, 1, 8, 64, 1))
    return layer(name, "MatMul", inputs, (tensor("y", 600, 200, 8, 1, 1),))


class Timed(NamedTuple):
    """A layer that takes ``slow`` times what is attainable, or ``ns``, which one without a price needs."""

    layer: Layer
    slow: float = 1.0
    ns: int | None = None


def predict_layers(
    layers: Sequence[Layer], works: Mapping[str, Work | None], ceilings: Ceilings, outputs: Collection[str] = ()
) -> dict[str, Estimate | None]:
    """An estimate for every layer in execution order, None where its work is unknown."""
    accesses, kept = layer_accesses(layers, works, outputs)
    traffic = steady_state_traffic(accesses, ceilings.cache_bytes, outputs=kept)
    apart = out_of_place(accesses)
    found: dict[str, Estimate | None] = {}
    for layer in layers:
        work = works.get(layer.name)
        found[layer.name] = (
            None if work is None else estimate(work, traffic[layer.name], ceilings, out_of_place=layer.name in apart)
        )
    return found


def make_case(
    *timed: Timed,
    ceilings: Ceilings = CEILINGS,
    gap_ns: int = 0,
    unattributed_ns: int = 0,
    cv: float = 0.01,
    coverage: tuple[float, float] = (1.0, 0.0),
    **changes: Any,
) -> Case:
    """A case of layers in execution order.

    Latency is the kernels, the call and ``gap_ns``, which is what the ledger cannot explain.
    ``coverage`` is exact and inferred; ``changes`` replace fields of the case.
    """
    layers = [one.layer for one in timed]
    works = {one.name: work_of(one.op) for one in layers}
    # No kernel of the CPU leaves out products.
    works = {name: work and msgspec.structs.replace(work, fast_flops=0) for name, work in works.items()}
    estimates = predict_layers(layers, works, ceilings)
    results = tuple(result(one, works[one.layer.name], estimates[one.layer.name]) for one in timed)
    kernels_ns = sum(one.measured_ns for one in results) + unattributed_ns
    median_ns = kernels_ns + round(ceilings.call_ns) + gap_ns
    latency = Latency(median_ns=median_ns, p99_ns=round(median_ns * 1.1), cv=cv, n=100)
    case = Case(
        layers=results, engine={one.name: one for one in layers}, latency=latency, profiled=latency,
        coverage=Coverage(exact=coverage[0], inferred=coverage[1], unattributed=1 - sum(coverage)), ceilings=ceilings,
        ledger=build_ledger(results, estimates, latency, ceilings, unattributed_ns), clock_resolution_ns=1000,
        profiled_gap_ns=max(gap_ns, 0) + round(ceilings.call_ns),
    )  # fmt: skip
    return case._replace(**changes)


def engine_case(
    *timed: Timed, ceilings: Ceilings = CEILINGS, overheads: Overheads | None = None, gap_ns: int = 0, **changes: Any
) -> Case:
    """The same layers as those of a TensorRT engine: the latency holds ``overheads`` and ``gap_ns``, and no call."""
    case = make_case(*timed, ceilings=ceilings, tensorrt=True, gpu=True, **changes)
    overheads = overheads or Overheads()
    median_ns = sum(one.measured_ns for one in case.layers) + sum(overheads) + gap_ns
    latency = msgspec.structs.replace(case.latency, median_ns=median_ns)
    estimates = predict_layers([one.layer for one in timed], {one.name: one.work for one in case.layers}, ceilings)
    ledger = build_ledger(case.layers, estimates, latency, ceilings, overheads=overheads, partial=case.partial)
    return case._replace(latency=latency, ledger=ledger)


def result(timed: Timed, work: Work | None, estimate: Estimate | None) -> LayerResult:
    one = timed.layer
    if timed.ns is not None:
        measured_ns = timed.ns
    else:
        assert estimate is not None, f"{one.name} has no price, so it needs ns"
        measured_ns = round(estimate.attainable_ns * timed.slow)
    lost_ns = None if estimate is None else measured_ns - estimate.attainable_ns
    return LayerResult(
        name=one.name, op_type=one.op.op_type, role=one.role, nodes=one.nodes, kernels=(), measured_ns=measured_ns,
        ideal_ns=None if estimate is None else estimate.ideal_ns,
        attainable_ns=None if estimate is None else estimate.attainable_ns,
        lost_ns=measured_ns if one.role == "layout" else lost_ns,
        bound="unknown" if estimate is None else estimate.bound, flops=None if work is None else work.flops,
        bytes=None if work is None else work.bytes, dtype=compute_dtype(one.op), match=one.match,
        terms={} if estimate is None else estimate.terms, work=work, constant=one.constant,
    )  # fmt: skip


def expecting(case: Case, **bands: tuple[float, float, float]) -> Case:
    """The case with expectations of layers by name: p10, p50 and p90, each over what the layer took."""
    return case._replace(layers=tuple(_expecting(one, bands.get(one.name)) for one in case.layers))


def _expecting(one: LayerResult, band: tuple[float, float, float] | None) -> LayerResult:
    if band is None:
        return msgspec.structs.replace(one, expected_reason="nothing like it was measured")
    p10, p50, p90 = (round(one.measured_ns * share) for share in band)
    return msgspec.structs.replace(
        one, expected_ns=p50, expected_p10_ns=p10, expected_p90_ns=p90, expected_basis="measured"
    )


def with_match(one: Layer, match: MatchConfidence) -> Layer:
    return msgspec.structs.replace(one, match=match)


def found(case: Case, code: str) -> list[Finding]:
    return [finding for finding in diagnose(case) if finding.code == code]


def only(case: Case, code: str) -> Finding:
    (finding,) = found(case, code)
    return finding
