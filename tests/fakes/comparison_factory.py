"""Comparisons for the tests of their reporters and gates. All numbers are invented for the tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

import msgspec

from tests.fakes.report_factory import HOSTILE_NAMES
from trtprof.base.records import (
    SCHEMA_VERSION,
    ChangeCause,
    ChangeRow,
    Comparison,
    Comparisons,
    FactChange,
    Finding,
    GateResult,
    Interval,
    Latency,
    LatencyChange,
    RegionChange,
    Side,
    Significance,
)

MS = 1_000_000
US = 1_000


def side(label: str, median_ns: int, **changes: Any) -> Side:
    """One side, of three runs whose medians lie about ``median_ns``."""
    fields: dict[str, Any] = {
        "label": label,
        "paths": tuple(f"reports/{label}-{run}" for run in (1, 2, 3)),
        "model": "tinynet.onnx",
        "backend": "ort-cpu",
        "device": "Example CPU @ 2.20GHz",
        "created": "2026-11-20T10:01:02Z",
        "latency": Latency(
            median_ns=median_ns,
            p99_ns=round(median_ns * 1.1),
            cv=0.02,
            n=600,
            mean_ns=round(median_ns * 1.005),
            min_ns=round(median_ns * 0.97),
            max_ns=round(median_ns * 1.2),
        ),
        "medians_ns": (round(median_ns * 0.994), median_ns, round(median_ns * 1.007)),
        "attainable_ns": 2_100 * US,
    }
    return Side(**{**fields, **changes})


def change(
    before: Side, after: Side, half_ns: int, *, answer: Significance | None = None, reason: str = ""
) -> LatencyChange:
    """The change between both sides with an interval of ``half_ns`` to each hand."""
    old, new = before.latency.median_ns, after.latency.median_ns
    low, high = new - old - half_ns, new - old + half_ns
    found: Significance = answer or ("slower" if low > 0 else "faster" if high < 0 else "not significant")
    scale = old or 1
    return LatencyChange(
        difference_ns=Interval(value=new - old, low=low, high=high),
        ratio=Interval(value=new / scale, low=1 + low / scale, high=1 + high / scale),
        answer=found,
        samples_before=before.latency.n,
        samples_after=after.latency.n,
        method="bootstrap of the medians, runs drawn first, samples of each after; 2,000 draws",
        reason=reason or ("the interval holds 0" if found == "not significant" else "the interval is on one side of 0"),
    )


def region(name: str, before_ns: int, after_ns: int, cause: str, **changes: Any) -> RegionChange:
    """A part of the model whose difference has one cause."""
    difference = after_ns - before_ns
    fields: dict[str, Any] = {
        "name": name,
        "op_types": "Conv",
        "nodes_before": (name,),
        "nodes_after": (name,),
        "layers_before": (name,),
        "layers_after": (name,),
        "kernels_before": ("conv_direct_3x3",),
        "kernels_after": ("conv_direct_3x3",),
        "dtype_before": "fp32",
        "dtype_after": "fp32",
        "before_ns": before_ns,
        "after_ns": after_ns,
        "difference_ns": difference,
        "attainable_before_ns": before_ns * 6 // 10,
        "attainable_after_ns": before_ns * 6 // 10,
        "parts": {cause: difference},
        "interval_ns": Interval(value=difference, low=difference - 4 * US, high=difference + 4 * US),
        "answer": "slower" if difference > 4 * US else "faster" if difference < -4 * US else "not significant",
        "match": "same names",
        "reason": "the nodes have the same names on both sides",
    }
    return RegionChange(**{**fields, **changes})


def row(cause: ChangeCause, ns: int, kind: str, regions: int = 0, meaning: str = "") -> ChangeRow:
    """A row of the ledger."""
    return ChangeRow(
        cause=cause,
        ns=ns,
        kind=cast("Literal['fact', 'estimate', 'remainder']", kind),
        regions=regions,
        meaning=meaning,
    )


def finding(code: str, title: str, lost_ns: int, **changes: Any) -> Finding:
    """A finding that is on one side alone."""
    fields: dict[str, Any] = {
        "code": code, "title": title, "severity": "warning", "where": "/features/1/conv",
        "evidence": "measured 480 us; estimate 204 us", "lost_ns": lost_ns, "confidence": 0.8,
        "try_": "keep the layout of the layer before", "layers": ("/features/1/conv",),
    }  # fmt: skip
    return Finding(**{**fields, **changes})


def typical() -> Comparison:
    """Slower, for three reasons, one of which is a kernel; two gates, one of which fails."""
    before, after = side("base", 3_210 * US), side("head", 3_342 * US)
    regions = (
        region(
            "/features/1/conv +1", 340 * US, 480 * US, "kernel changed",
            kernels_after=("conv_generic_nchw_kernel",), nodes_before=("/features/1/conv", "/features/1/Relu"),
            nodes_after=("/features/1/conv", "/features/1/Relu"), op_types="Conv, Relu",
            parts={"kernel changed": 118 * US, "precision changed": 30 * US, "clock changed": -8 * US},
            dtype_after="fp16",
        ),
        region("/features/4/Gemm", 510 * US, 470 * US, "clock changed", op_types="Gemm"),
        region("/features/2/Add", 90 * US, 119 * US, "fusion changed", op_types="Add", match="same place",
               layers_after=("/features/2/Add", "reorder_7"), reason="the nodes stand in the same place of the graph"),
        region("/features/9/Mul", 0, 9 * US, "only after", match="only after", nodes_before=(), layers_before=(),
               kernels_before=(), dtype_before="", attainable_before_ns=None, op_types="Mul", answer=None,
               interval_ns=None, reason="no node of the model before computes it"),
        region("/features/3/Relu", 21 * US, 22 * US, "same kernels, other time", op_types="Relu"),
    )  # fmt: skip
    return Comparison(
        before=before,
        after=after,
        verdict="head is slower than base: +132 us (+4.1 %, 95 % sure of +3.2 to +5.0 %), most of it another kernel.",
        latency=change(before, after, 28 * US),
        ledger=(
            row("kernel changed", 118 * US, "estimate", 1, "other kernels for the same layers"),
            row("precision changed", 30 * US, "estimate", 1, "parts computed in another dtype"),
            row("fusion changed", 29 * US, "fact", 1, "nodes that share a layer on one side alone"),
            row("clock changed", -48 * US, "estimate", 2, "the device ran faster than before"),
            row("only after", 9 * US, "fact", 1, "nodes that the model before does not have"),
            row("same kernels, other time", 1 * US, "fact", 1),
            row("copies and gaps", -12 * US, "fact", 0, "time in no kernel"),
            row("unexplained", 5 * US, "remainder", 0, "what has no name"),
        ),
        regions=regions,
        facts=(
            FactChange(what="version of onnxruntime", before="1.30.0", after="1.31.0"),
            FactChange(what="option threads", before="2", after="4"),
        ),
        findings_gone=(finding("OC110", "eleven layers only reorder data", 41 * US),),
        findings_new=(
            finding("OC301", "a convolution runs at 31 % of its roofline", 276 * US, severity="critical"),
            finding("TR010", "/Shape is at the step of the profiler's clock", 0, kind="trust", severity="info"),
        ),
        gates=(
            GateResult(
                gate="latency>3%", what="latency", unit="%", threshold=3.0,
                value=Interval(value=4.11, low=3.24, high=4.98), answer="failed",
                reason="+4.11 % (+3.24 % to +4.98 %) is all above 3 %",
            ),
            GateResult(
                gate="lost>15%", what="lost", unit="%", threshold=15.0,
                value=Interval(value=11.9, low=9.1, high=14.8), answer="passed",
                reason="+11.9 % (+9.1 % to +14.8 %) is not above 15 %",
            ),
            GateResult(
                gate="lost>0.12ms", what="lost", unit="ns", threshold=120e3,
                value=Interval(value=132e3, low=104e3, high=160e3), answer="inconclusive",
                reason="+132 us (+104 us to +160 us) holds 120 us: about 17 runs a side in place of 3 would settle it",
            ),
        ),
        notes=("layers are matched by their ONNX nodes", "the profiler slowed both sides by 4 %"),
    )  # fmt: skip


def same() -> Comparison:
    """The same run twice."""
    before = side("base", 3_210 * US, medians_ns=(3_210 * US,), paths=("reports/base",))
    return Comparison(
        before=before,
        after=before,
        verdict="not significant: base is as fast as base, within 0.9 %.",
        latency=change(before, before, 29 * US),
        ledger=(),
        regions=(),
    )


def faster() -> Comparison:
    """Faster by half, with another dtype."""
    before, after = side("fp32", 3_210 * US), side("qdq", 1_500 * US, model="tinynet_qdq.onnx", attainable_ns=900 * US)
    return Comparison(
        before=before,
        after=after,
        verdict="qdq is faster than fp32: -1.71 ms (-53.3 %).",
        latency=change(before, after, 15 * US),
        ledger=(
            row("precision changed", -1_730 * US, "estimate", 2, "parts computed in another dtype"),
            row("unexplained", 20 * US, "remainder"),
        ),
        regions=(region("/conv", 2_000 * US, 700 * US, "precision changed", dtype_after="int8"),
                 region("/fc", 900 * US, 470 * US, "precision changed", dtype_after="int8")),
        facts=(FactChange(what="model", before="tinynet.onnx", after="tinynet_qdq.onnx"),),
    )  # fmt: skip


def unknown() -> Comparison:
    """No latency end to end, no roof, no part that was found on both sides."""
    none = Latency(median_ns=0, p99_ns=0, cv=0.0, n=0)
    before = side("a", 0, latency=none, medians_ns=(0,), attainable_ns=None)
    after = side("b", 0, latency=none, medians_ns=(0,), attainable_ns=None)
    return Comparison(
        before=before,
        after=after,
        verdict="not significant: no latency was measured.",
        latency=change(before, after, 0, reason="one side has no samples"),
        ledger=(),
        regions=(),
    )


def hostile() -> Comparison:
    """Names that try to break out of every format, in every place that holds a name."""
    base = typical()
    words = " ".join(name[:60] for name in HOSTILE_NAMES)
    before, after = (
        side(name, ns, model=name, backend=name, device=name, created=name, paths=(name,), tags=HOSTILE_NAMES)
        for name, ns in ((HOSTILE_NAMES[0], 3_210 * US), (HOSTILE_NAMES[5], 3_342 * US))
    )
    return msgspec.structs.replace(
        base,
        before=before,
        after=after,
        verdict=words,
        latency=msgspec.structs.replace(base.latency, method=words, reason=words),
        ledger=tuple(
            msgspec.structs.replace(one, meaning=name) for one, name in zip(base.ledger, HOSTILE_NAMES, strict=False)
        ),
        regions=tuple(
            region(
                name, 100 * US, (120 - at) * US, "kernel changed", op_types=name, nodes_before=(name, name),
                nodes_after=(name,), layers_before=(name,), layers_after=(name,), kernels_before=(name,),
                kernels_after=(name + "x",), dtype_before=name, dtype_after=name + "x", reason=name,
            )
            for at, name in enumerate(HOSTILE_NAMES)
        ),
        facts=tuple(FactChange(what=name, before=name, after=name + "x") for name in HOSTILE_NAMES),
        findings_gone=tuple(
            finding("OC999", name, 10, where=name, evidence=name, try_=name, layers=(name,)) for name in HOSTILE_NAMES
        ),
        findings_new=tuple(
            finding(name[:40], name, 10, where=name, evidence=name, try_=name, layers=(name,)) for name in HOSTILE_NAMES
        ),
        gates=tuple(msgspec.structs.replace(gate, gate=words, reason=words) for gate in base.gates),
        notes=HOSTILE_NAMES,
    )  # fmt: skip


def many(count: int = 10_000) -> Comparison:
    """As many parts as large models have."""
    regions = tuple(
        region(
            f"/model/layers.{index // 4}/block/Op_{index}", 40 * US + index, 40 * US + index + (count - index) * 7,
            "same kernels, other time",
        )
        for index in range(count)
    )  # fmt: skip
    total = sum(one.difference_ns for one in regions)
    before, after = side("base", 500 * MS), side("head", 500 * MS + total)
    return Comparison(
        before=before,
        after=after,
        verdict="head is slower than base.",
        latency=change(before, after, 100 * US),
        ledger=(row("same kernels, other time", total, "fact", count),),
        regions=regions,
    )


def document(*comparisons: Comparison) -> Comparisons:
    """The document of them."""
    return Comparisons(schema_version=SCHEMA_VERSION, comparisons=comparisons)


CASES: dict[str, Callable[[], Comparisons]] = {
    "typical": lambda: document(typical()),
    "same": lambda: document(same()),
    "three": lambda: document(typical(), faster(), same()),
    "unknown": lambda: document(unknown()),
    "hostile": lambda: document(hostile()),
}
