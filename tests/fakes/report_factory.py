"""Run records for the tests of reporters. All numbers are invented for the tests."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, cast

import msgspec

from tests.fakes.support import one_unit
from trtprof.base.records import (
    SCHEMA_VERSION,
    Backend,
    Bound,
    Ceilings,
    ClockSummary,
    Coverage,
    Device,
    EngineFacts,
    Finding,
    InputTensor,
    Latency,
    LayerResult,
    LedgerRow,
    Match,
    MatchConfidence,
    Measurement,
    ModelInfo,
    ModeTimes,
    NodeResult,
    PlanEdge,
    PlanLint,
    PlanReformat,
    PlanShare,
    PlanSummary,
    Run,
    Spread,
    Tensor,
    TensorCheck,
    Unsupported,
    Work,
)

FLOPS_PER_S = 80e9
DRAM = 12e9
CACHE = 45e9
LAUNCH_NS = 900


def layer(
    name: str,
    op_type: str,
    *,
    flops: int,
    nbytes: int,
    slow: float,
    cached: bool = False,
    nodes: tuple[str, ...] | None = None,
    match: MatchConfidence = "exact",
    dtype: str = "fp32",
    role: str = "compute",
) -> LayerResult:
    """A layer that takes ``slow`` times what the ceilings of this module allow."""
    terms = {
        "launch": LAUNCH_NS,
        "tensor": round(flops / FLOPS_PER_S * 1e9),
        "vector": 0,
        "sfu": 0,
        "dram": 0 if cached else round(nbytes / DRAM * 1e9),
        "l2": round(nbytes / CACHE * 1e9),
    }
    attainable = max(terms.values())
    bound, runner_up = sorted(terms, key=lambda name: -terms[name])[:2]
    measured = round(attainable * slow)
    nodes = (name,) if nodes is None else nodes
    kernel = Match(
        layer=name,
        kernel=f"{name}_kernel_time",
        count=50,
        median_ns=measured,
        total_ns=measured * 50,
        confidence=match,
        reason="the profile names the node",
    )
    return LayerResult(
        name=name,
        op_type=op_type,
        role=role,
        nodes=nodes,
        kernels=(kernel,),
        measured_ns=measured,
        ideal_ns=round(max(flops / (FLOPS_PER_S * 1.15), nbytes / (DRAM * 1.2)) * 1e9),
        attainable_ns=attainable,
        lost_ns=measured - attainable,
        bound=cast("Bound", bound),
        runner_up=cast("Bound", runner_up),
        flops=flops,
        bytes=nbytes,
        dtype=dtype,
        match=match,
        reason="the layer keeps the name of its node",
        shapes="1x64x56x56 -> 1x64x56x56",
        terms=terms,
        work=Work(
            tensor_flops=flops // 2 * 2,
            vector_flops=flops % 2,
            bytes_read=nbytes // 2,
            bytes_written=nbytes - nbytes // 2,
            bytes_parameters=nbytes // 8,
        ),
    )


def ledger_for(layers: tuple[LayerResult, ...], latency_ns: int) -> tuple[LedgerRow, ...]:
    """A ledger from ideal to ``latency_ns`` that closes."""
    ideal = sum(one.ideal_ns or 0 for one in layers)
    attainable = sum(one.attainable_ns or 0 for one in layers)
    measured = sum(one.measured_ns for one in layers)
    inside = measured - attainable
    rows = [
        ("ideal", ideal, "estimate", "the best ceiling this device ever reached"),
        ("ceilings of this run", attainable - ideal, "estimate", "the clock and the caches of today, launch overhead"),
        ("layout and casts", inside // 5, "fact", "layers that only reorder or cast"),
        ("kernels below the roofline", inside - inside // 5, "estimate", "kernel time above what the roofline allows"),
        ("profiler", -(measured // 40), "fact", "the profile slowed the run down by this much"),
        ("dispatch", measured // 30, "estimate", "time between kernels that the runtime needs"),
    ]
    rows.append(("unexplained", latency_ns - sum(row[1] for row in rows), "remainder", "what has no name"))
    return tuple(LedgerRow(cause=c, ns=ns, kind=k, meaning=m) for c, ns, k, m in rows)  # type: ignore[arg-type]


def make_run(layers: tuple[LayerResult, ...] = (), **changes: Any) -> Run:
    """A run of ``layers``, ranked by time lost; ``changes`` replace fields."""
    layers = tuple(sorted(layers, key=lambda one: -(one.lost_ns if one.lost_ns is not None else -(10**18))))
    measured = sum(one.measured_ns for one in layers)
    median = round(measured * 1.06)
    roof = one_unit({"fp32": FLOPS_PER_S, "int8": 190e9}, dram=DRAM, cache=CACHE)
    best = one_unit({"fp32": FLOPS_PER_S * 1.15, "int8": 220e9}, dram=DRAM * 1.2, cache=CACHE * 1.3)
    homes: dict[str, list[LayerResult]] = {}
    for one in layers:
        for node in one.nodes:
            homes.setdefault(node, []).append(one)
    nodes = tuple(
        NodeResult(
            name=node,
            op_type=node.rpartition("/")[2]
            if node.endswith(("/Conv", "/Relu"))
            else min(at, key=lambda one: one.role).op_type,
            graph="",
            fate="layer",
            layers=tuple(one.name for one in at),
            flops=at[0].flops,
            bytes=at[0].bytes,
            reason=at[0].reason,
        )
        for node, at in homes.items()
    )
    fields: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "model": ModelInfo(
            name="tinynet.onnx",
            path="models/tinynet.onnx",
            sha256="ab" * 32,
            ir_version=10,
            opsets={"": 20},
            producer="pytorch 2.9",
            inputs=(InputTensor(name="x", dtype="fp32", shape=(1, 3, 224, 224), values="uniform -1..1"),),
            outputs=(Tensor(name="y", dtype="fp32", shape=(1, 1000)),),
            parameters=3_504_872,
            parameter_bytes=14_019_488,
            nodes=len(nodes),
        ),
        "backend": Backend(name="ort-cpu", reason="no GPU was found", options={"threads": "2"}),
        "device": Device(
            name="Example CPU @ 2.20GHz",
            kind="cpu",
            cores=2,
            memory_bytes=8_000_000_000,
            cache_bytes=32_000_000,
            clock_mhz=2200.0,
            detail={"governor": "unknown"},
        ),
        "versions": {"onnxruntime": "1.31.0", "trtprof": "0.1.0"},
        "ceilings": Ceilings(
            device="Example CPU @ 2.20GHz",
            source="measured here on 2026-11-20",
            measured_at="2026-11-20T10:00:00Z",
            best=best,
            attainable=roof,
            cache_bytes=32_000_000,
            threads=2,
            launch_ns=900.0,
            call_ns=5200.0,
            profiler_ns=310.0,
            profiler_tensor_ns=120.0,
            profiler_gap_ns=450.0,
            measurements={
                "dram": Measurement(value=DRAM, unit="B/s", what="Add 128 MB", repeats=4, spread=0.03, threads=2),
                "fp32_flops": Measurement(
                    value=FLOPS_PER_S, unit="FLOP/s", what="matmul 512", repeats=3, spread=0.01, threads=2
                ),
            },
        ),
        "latency": Latency(
            median_ns=median,
            p99_ns=round(median * 1.09),
            cv=0.018,
            n=200,
            mean_ns=round(median * 1.005),
            min_ns=round(median * 0.98),
            max_ns=round(median * 1.12),
        ),
        "profiled": Latency(median_ns=round(median * 1.04), p99_ns=round(median * 1.2), cv=0.03, n=50),
        "coverage": Coverage(exact=1.0, inferred=0.0, unattributed=0.0),
        "verdict": "The kernels reach 62 % of the roofline; the largest loss is in one depthwise convolution.",
        "ledger": ledger_for(layers, median) if layers else (),
        "layers": layers,
        "nodes": nodes,
        "findings": (),
        "unsupported": (),
        "captured_ns": measured * 50,
        "assumptions": ("batch: 1, as no --shapes were given", "inputs: random, uniform -1..1"),
        "created": "2026-11-20T10:01:02Z",
    }
    return Run(**{**fields, **changes})


def _finding(code: str, **changes: Any) -> Finding:
    fields: dict[str, Any] = {
        "code": code,
        "title": "a depthwise convolution runs at 31 % of its roofline",
        "severity": "warning",
        "where": "/features/1/conv",
        "evidence": "measured 1.93 ms; estimate 0.60 ms, bound by memory; the kernel is the generic one",
        "lost_ns": 1_330_000,
        "confidence": 0.8,
        "try_": "fuse the activation, or write the 3x3 stride-1 kernel by hand",
        "layers": ("/features/1/conv",),
    }
    return Finding(**{**fields, **changes})


def typical() -> Run:
    """A run such as a person meets: 46 layers, some fused, some folded, three findings."""
    layers = []
    for block in range(1, 12):
        size, slow = 3_200_000 // block, 1.25 + 0.09 * (block % 5)
        stem = f"/features/{block}"
        layers.append(
            layer(
                f"{stem}/expand/Conv",
                "FusedConv",
                flops=size * (6 + block * block),
                nbytes=size,
                slow=slow,
                cached=block > 2,
                nodes=(f"{stem}/expand/Conv", f"{stem}/expand/Relu"),
            )
        )
        layers.append(layer(f"{stem}/conv", "Conv", flops=size * 2 + block * 90_000, nbytes=size, slow=3.2 - block / 9))
        layers.append(layer(f"{stem}/Add", "Add", flops=size // 8, nbytes=size // 2, slow=1.1, cached=block > 4))
        layers.append(
            layer(
                f"reorder_{block}",
                "ReorderOutput",
                flops=0,
                nbytes=size // 2,
                slow=1.6,
                role="layout",
                nodes=(f"{stem}/conv",),
                match="inferred",
            )
        )
    layers.append(layer("/classifier/Gemm", "Gemm", flops=2_560_000, nbytes=5_120_000, slow=1.9))
    layers.append(layer("/Shape", "Shape", flops=4, nbytes=32, slow=1.4))
    unpriced = layer("/post/Nms", "NonMaxSuppression", flops=0, nbytes=1, slow=90.0)
    layers.append(
        LayerResult(
            name=unpriced.name,
            op_type=unpriced.op_type,
            role=unpriced.role,
            nodes=unpriced.nodes,
            kernels=unpriced.kernels,
            measured_ns=unpriced.measured_ns,
            ideal_ns=None,
            attainable_ns=None,
            lost_ns=None,
            bound="unknown",
            flops=None,
            bytes=None,
            match="exact",
            reason="the layer keeps the name of its node",
        )
    )
    run = make_run(tuple(layers))
    share = unpriced.measured_ns / sum(one.measured_ns for one in layers)
    folded = NodeResult(
        name="/Constant_4",
        op_type="Constant",
        graph="",
        fate="folded",
        layers=(),
        flops=None,
        bytes=None,
        reason="all inputs are constants; the built graph has its value as an initializer",
    )
    return make_run(
        tuple(layers),
        coverage=Coverage(exact=0.93, inferred=0.062, unattributed=0.008),
        nodes=(*run.nodes, folded),
        kernels_unattributed=(
            Match(
                layer=None,
                kernel="Memcpy_token_17",
                count=50,
                median_ns=21_000,
                total_ns=1_050_000,
                confidence="none",
                reason="no layer has this name",
            ),
        ),
        unsupported=(
            Unsupported(
                domain="",
                op_type="NonMaxSuppression",
                count=1,
                measured_ns=unpriced.measured_ns,
                share=share,
                reason="no cost function: its work depends on the data",
            ),
        ),
        findings=(
            _finding("OC301", severity="critical"),
            _finding(
                "OC110",
                title="eleven layers only reorder data for the backend",
                where="reorder_1 and 10 more",
                evidence="measured 1.10 ms in ReorderOutput layers",
                lost_ns=410_000,
                confidence=0.6,
                try_="keep the channels-blocked layout across the Add: use the fused residual form",
                layers=("reorder_1", "reorder_2", "reorder_3"),
            ),
            _finding(
                "TR010",
                kind="trust",
                severity="info",
                title="/Shape is at the step of the profiler's clock",
                where="/Shape",
                evidence="measured 1.3 us with a clock step of 1 us",
                lost_ns=0,
                confidence=1.0,
                try_="read its time as 1 to 2 us",
                layers=("/Shape",),
            ),
        ),
    )


def empty() -> Run:
    """A model without a layer: nothing ran, nothing was lost."""
    return make_run(
        latency=Latency(median_ns=5200, p99_ns=6100, cv=0.04, n=200),
        ledger=(LedgerRow(cause="call", ns=5200, kind="fact", meaning="a call around an empty graph"),),
        verdict="The graph has no layer; the latency is the call itself.",
    )


def one_layer() -> Run:
    """One matrix multiplication and its finding."""
    only = layer("/MatMul", "MatMul", flops=2 * 512**3, nbytes=3 * 512 * 512 * 4, slow=1.8)
    return make_run((only,), findings=(_finding("OC200", where="/MatMul", layers=("/MatMul",)),))


def all_unmatched() -> Run:
    """Every kernel lost its layer: coverage 0, so no verdict."""
    lost = tuple(
        Match(
            layer=None,
            kernel=f"kernel_{index}",
            count=50,
            median_ns=1000 * index,
            total_ns=50_000 * index,
            confidence="none",
            reason="no layer has this name",
        )
        for index in range(1, 9)
    )
    return make_run(
        latency=Latency(median_ns=41_000, p99_ns=45_000, cv=0.02, n=200),
        coverage=Coverage(exact=0.0, inferred=0.0, unattributed=1.0),
        ledger=(
            LedgerRow(cause="kernels without a layer", ns=36_000, kind="fact"),
            LedgerRow(cause="unexplained", ns=5_000, kind="remainder"),
        ),
        verdict="no verdict: 100.0 % of the kernel time could not be led back to a layer.",
        kernels_unattributed=lost,
        captured_ns=sum(one.total_ns for one in lost),
    )


@functools.cache
def many(count: int = 10_000) -> Run:
    """As many layers as large models have."""
    ops = ("Conv", "Gemm", "Add", "Softmax")
    return make_run(
        tuple(
            layer(
                f"/model/layers.{index // 4}/block/{ops[index % 4]}_{index}",
                ops[index % 4],
                flops=(index * 7919 % 1000) * 3000,
                nbytes=1 + index * 104729 % 900_000,
                slow=1 + index * 31 % 200 / 100,
                cached=index % 3 == 0,
            )
            for index in range(count)
        )
    )


SCRIPT = "</script><script>window.__pwned = 1</script>"


def of_engine(run: Run, names: tuple[str, ...] = ("conv1 + relu1", "pool")) -> Run:
    """The run as one of a TensorRT engine from files: a GPU, ceilings of a datasheet, no sample of the latency, a plan.

    Args:
        run: Its layers and findings stay.
        names: What layers, tensors and words of the plan are called.
    """
    first, last = names[0], names[-1]
    edges = tuple(
        PlanEdge(tensor=name, maker=first, readers=(name, last), kind="epilogue", expected=at % 2 == 0, reason=name,
                 bytes=1 << 20, saved_ns=1000)
        for at, name in enumerate(names)
    )  # fmt: skip
    share = tuple(PlanShare(what=name, layers=1, bytes=1 << 20, ns=4000, fraction=1 / len(names)) for name in names)
    return msgspec.structs.replace(
        run,
        backend=Backend(name="tensorrt", reason="read from files"),
        device=Device(name="Example GPU", kind="gpu", cores=100, cache_bytes=1 << 25),
        ceilings=msgspec.structs.replace(
            run.ceilings, origin="datasheet", source="datasheet example.toml, dense peaks"
        ),
        latency=Latency(median_ns=run.latency.median_ns, p99_ns=run.latency.median_ns, cv=0.0, n=0),
        engine=EngineFacts(backend="tensorrt", era=first),
        plan=PlanSummary(
            layers=len(names),
            launches=len(names),
            by_kind=share,
            by_precision=share[:1],
            by_match=share[:1],
            reformats=tuple(
                PlanReformat(layer=name, origin=name, serves=last, change=name, bytes=1 << 20, ns=4000)
                for name in names
            ),
            edges=edges,
            lints=tuple(PlanLint(code="TC1", layer=name, what=name, evidence=name, try_=name) for name in names),
        ),
    )


def beside_libraries(one: LayerResult) -> LayerResult:
    """A convolution with an expectation: a fused one is faster than it, another slower; of other ops there is none."""
    bands = {"Conv": (0.8, 0.6, 0.9), "FusedConv": (1.3, 1.1, 1.6)}
    if one.op_type not in bands:
        return msgspec.structs.replace(one, expected_reason="no measured kernel computes its like")
    p50, p10, p90 = (round(one.measured_ns * part) for part in bands[one.op_type])
    return msgspec.structs.replace(
        one, expected_ns=p50, expected_p10_ns=p10, expected_p90_ns=p90, expected_basis="measured"
    )


def on_gpu() -> Run:
    """The run as one that was measured here on a GPU whose power limit held its clock down."""
    run = of_engine(typical())
    return msgspec.structs.replace(
        run,
        layers=tuple(map(beside_libraries, run.layers)),
        latency=typical().latency,
        modes=(
            ModeTimes(
                mode="stream",
                latency=typical().latency,
                h2d_ns=210_000,
                compute_ns=9_000_000,
                d2h_ns=18_000,
                enqueue_ns=900_000,
            ),
            ModeTimes(
                mode="cuda graph",
                latency=msgspec.structs.replace(typical().latency, median_ns=8_100_000),
                h2d_ns=210_000,
                compute_ns=7_700_000,
                d2h_ns=18_000,
                enqueue_ns=0,
            ),
        ),
        checks=tuple(
            TensorCheck(
                name=name,
                dtype="float32",
                max_abs=gap,
                max_rel=gap,
                tolerance=gap * 1e4,
                matches=gap < 1e-4,
                reason="" if gap < 1e-4 else f"an element is {gap * 1e4:g} times as far off as allowed",
            )
            for name, gap in (("logits", 1e-3), ("probabilities", 2e-5))
        ),
        clocks=ClockSummary(
            samples=150,
            duration_ns=3_000_000_000,
            sm_clock_mhz=Spread(min=1395, median=1410, max=1740),
            memory_clock_mhz=Spread(min=7251, median=7251, max=7251),
            power_w=Spread(min=120.4, median=298.6, max=301.2),
            temperature_c=Spread(min=52, median=71, max=72),
            energy_j=861.234,
            reasons={"power cap": 0.93},
        ),
        clocks_profiled=ClockSummary(
            samples=3, duration_ns=40_000_000, sm_clock_mhz=Spread(min=1740, median=1740, max=1740), reasons={}
        ),
    )


HOSTILE_NAMES = (
    SCRIPT,
    '"><img src=x onerror="window.__pwned = 2">',
    "=HYPERLINK(\"http://example.invalid\",\"x\")",
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(1)",
    "\u202egnp.exe\u202c right to left",
    "line\nbreak\rand\ttab",
    "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "n" * 10_000,
    "",
    "{{ 7 * 7 }}{% raw %}",
    "a;b,c\"d'e",
    "層/畳み込み/" * 12,
    "__proto__",
    "nul\0inside\u2028separator",
    "<!--<script>",
    "zalgo" + "\u0301" * 40,
    "\U0001f525" * 60,
    "&lt;b&gt;&amp;",
)  # fmt: skip


def hostile() -> Run:
    """Names that try to break out of every format, in every place that holds a name."""
    layers = tuple(
        layer(name, name[:200] or "Op", flops=10_000 * (99 - index), nbytes=200_000, slow=2.0)
        for index, name in enumerate(HOSTILE_NAMES)
    )
    base = make_run(layers)
    findings = tuple(
        _finding("OC999", title=name, where=name, evidence=name, try_=name, layers=(name,)) for name in HOSTILE_NAMES
    )
    return make_run(
        layers,
        model=ModelInfo(
            name=SCRIPT,
            path=SCRIPT,
            sha256="00",
            ir_version=10,
            opsets={SCRIPT: 1},
            producer=SCRIPT,
            inputs=tuple(InputTensor(name=n, dtype="fp32", shape=(1,), values=n) for n in HOSTILE_NAMES),
            assumptions=HOSTILE_NAMES,
        ),
        backend=Backend(name="ort-cpu", reason=SCRIPT, options={name: name for name in HOSTILE_NAMES}),
        device=Device(name=SCRIPT, kind="cpu", detail={name: name for name in HOSTILE_NAMES}),
        versions={name: name for name in HOSTILE_NAMES},
        verdict=" ".join(name[:60] for name in HOSTILE_NAMES),
        findings=findings,
        ledger=tuple(
            LedgerRow(cause=row.cause + name, ns=row.ns, kind=row.kind, meaning=name)
            for row, name in zip(base.ledger, HOSTILE_NAMES, strict=False)
        ),
        unsupported=tuple(
            Unsupported(domain=n, op_type=n, count=1, measured_ns=1, share=0.001, reason=n) for n in HOSTILE_NAMES
        ),
        assumptions=HOSTILE_NAMES,
    )


CASES: dict[str, Callable[[], Run]] = {
    "typical": typical,
    "empty": empty,
    "one_layer": one_layer,
    "all_unmatched": all_unmatched,
    "hostile": hostile,
    "many": many,
}
