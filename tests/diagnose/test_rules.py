"""Every rule of runs: what it finds, with its numbers, and what it passes by, with its reason, in one table.

The GPUs are those of the datasheets. `on` takes their figures as if they had been measured, so that a rule's own
threshold decides and not the share that a datasheet is worth.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import cpu_rule_cases, kernel_rule_cases, plan_rule_cases, rule_cases
from tests.fakes.cases import CEILINGS, RTX_4090, Timed, engine_case, found, gemv, layer, make_case, only, relu, tensor
from tests.fakes.kernel_rule_cases import (
    DEPTH,
    DEPTHWISE,
    DIRECT,
    FLASH_2,
    GEMV,
    MISFIT,
    SM50_GEMV,
    SM50_SIMT,
    SM80_SIMT,
    SM80_SIMT_HALF,
    SM80_TENSOR,
    SM80_TF32,
    SPLIT_K,
    on,
    product,
    run_case,
    with_kernels,
)
from tests.fakes.kernel_rule_cases import conv as convolved
from tests.fakes.kernel_rule_cases import planned as in_format
from tests.fakes.plan_rule_cases import (
    SPEC,
    convolution,
    float_output,
    launched,
    plan_tensor,
    planned,
    quantised,
    streamed,
    thrash,
)
from tests.fakes.plan_rule_cases import with_kernels as with_launches
from tests.fakes.rule_cases import (
    BIG,
    alike,
    chain,
    clocks,
    conv,
    faster,
    held,
    latencies,
    launch_case,
    reorder,
    reorder_case,
    scalars,
)
from trtprof.base.records import ClockSummary, CpuUse, Layer, MatchedLayer, PlanBinding, PlanEdge, Spread, Work
from trtprof.base.trace import Transfer
from trtprof.base.units import format_ns, format_percent
from trtprof.cost import work_of
from trtprof.cost._core import matrices
from trtprof.diagnose import RULES, THRESHOLDS, Case, rules
from trtprof.diagnose.ledger import Overheads, build_ledger
from trtprof.diagnose.products import Product, padded_ns, product_of
from trtprof.diagnose.rank import bound_reason, diagnose, verdict
from trtprof.diagnose.rules import tr906_clock_held_down
from trtprof.hardware import gpus
from trtprof.runtime.nvml_session import CLOCK_EVENTS

CODES = [rule.code for rule in RULES.values() if rule.plan is None]
"""Of the rules of runs; those of plans are in `test_lints`."""
FILES = (rule_cases, kernel_rule_cases, plan_rule_cases, cpu_rule_cases)
FIRES: dict[str, Case] = {code: case for file in FILES for code, case in file.POSITIVE.items()}
SILENT: dict[str, Case] = {code: case for file in FILES for code, case in file.NEGATIVE.items()}
"""A case for every rule there is, one that it finds and one that it must not."""
TOLD = ("HO503", "PR802", "ST804")
"""Rules that tell what is so, however little time that claims."""
BY_KERNEL = tuple(kernel_rule_cases.POSITIVE)
"""Rules that judge by the name of a kernel and the dimensions of a product."""


def codes(case: Case) -> list[str]:
    return [finding.code for finding in diagnose(case) if finding.kind == "hypothesis"]


def reason(case: Case, code: str, at: int = 0) -> str:
    rule = RULES.get(code)
    assert rule is not None
    return "" if rule.reason is None else rule.reason(case, case.layers[at])


def without_work(case: Case, last: int = 1) -> Case:
    """The first layers of a case as a capture alone shows them."""
    unknown = {"work": None, "attainable_ns": None, "ideal_ns": None, "lost_ns": None, "bound": "unknown"}
    first = tuple(msgspec.structs.replace(one, **unknown) for one in case.layers[:last])
    return case._replace(layers=(*first, *case.layers[last:]))


def ceilings(case: Case, **changes: Any) -> Case:
    return case._replace(ceilings=msgspec.structs.replace(case.ceilings, **changes))


def test_every_rule_fires_on_its_case_and_is_silent_on_its_near_miss(subtests: pytest.Subtests) -> None:
    assert set(CODES) == set(FIRES) == set(SILENT)
    for code, case in FIRES.items():
        with subtests.test(code):
            rule, findings = RULES.get(code), found(case, code)
            assert rule is not None
            assert findings
            assert found(SILENT[code], code) == []
            for finding in findings:
                assert (finding.title, bool(finding.where), bool(finding.try_)) == (rule.title, True, True)
                assert any(character.isdigit() for character in finding.evidence)
                assert 0 < finding.confidence <= 1
                least = 0 if code in TOLD else THRESHOLDS.min_share * case.latency.median_ns
                assert finding.kind == "trust" or finding.lost_ns >= least
            # What a more specific rule has claimed is left alone; a doubt claims no time, and stays.
            for name in {name for claim in rule.check(case) if claim.kind != "trust" for name in claim.layers}:
                left = rule.check(case._replace(claimed=frozenset({name})))
                assert all(name not in (*claim.layers, claim.where) for claim in left)
            if code in BY_KERNEL:
                assert codes(case)[0] == code
                cpu = case._replace(gpu=False, tensorrt=False, spec=None)
                assert not found(cpu, code)
                assert "GPU" in reason(cpu, code)
                assert code == "PR801" or findings[0].lost_ns <= (case.layers[0].lost_ns or 0)
                assert code in ("KN702", "KN705") or not found(without_work(case), code)
            if code in plan_rule_cases.NEGATIVE:
                assert all(reason(SILENT[code], code, at) for at in range(len(SILENT[code].layers)))


def test_a_rule_is_a_file_named_after_its_code_with_what_why_and_try_and_no_thresholds() -> None:
    modules = {rule.code: inspect.getmodule(rule.plan or rule.check) for rule in RULES.values()}
    homes = {code: str(module and module.__name__).rpartition(".")[2] for code, module in modules.items()}
    assert sorted(homes.values()) == sorted(module.name for module in pkgutil.iter_modules(rules.__path__))
    assert [rule.code for rule in RULES.values()] == RULES.keys()
    for rule in RULES.values():
        assert homes[rule.code].startswith(rule.code.lower() + "_")
        assert rule.doc == importlib.import_module((rule.plan or rule.check).__module__).__doc__
        sections = {rule.section(name) for name in ("What", "Why", "Try")}
        assert len(sections) == 3, rule.code
        assert all(len(section) > 20 for section in sections), rule.code
        # A module constant that is a number would be a threshold outside `Thresholds`.
        assert [name for name, value in vars(modules[rule.code]).items() if isinstance(value, int | float)] == []
    taken = next(RULES.values())
    with pytest.raises(ValueError, match=f"{taken.code}.*twice"):
        RULES.register(taken.code)(taken)


class Row(NamedTuple):
    name: str
    case: Case
    fires: bool
    words: tuple[str, ...]  # of where, evidence and remedy; of a silent rule of its reason
    ns: float | None = None
    layers: tuple[str, ...] | None = None
    confidence: float | None = None
    lacks: str = "\0"
    at: int = 0


def yes(name: str, case: Case, *words: str, **expected: Any) -> Row:
    return Row(name, case, True, words, **expected)


def no(name: str, case: Case, *words: str, at: int = 0) -> Row:
    return Row(name, case, False, words, at=at)


def wrong(code: str, row: Row) -> str:
    """What a rule says of a case that the row does not; empty where they agree."""
    findings = found(row.case, code)
    if not row.fires:
        said = reason(row.case, code, row.at)
        missing = [word for word in row.words if word not in said]
        return f"fires: {findings[0].evidence}" if findings else f"{missing} not in {said!r}" if missing else ""
    if len(findings) != 1:
        return f"{len(findings)} findings; {reason(row.case, code, row.at)}"
    (one,) = findings
    said = f"{one.where} | {one.evidence} | {one.try_}"
    missing = [word for word in row.words if word not in said]
    if missing or row.lacks in said:
        return f"{missing or row.lacks} of {said!r}"
    if row.ns is not None and abs(one.lost_ns - row.ns) > max(2, 2e-4 * row.ns):
        return f"{one.lost_ns} ns, not {row.ns}"
    if row.layers is not None and one.layers != row.layers:
        return f"layers {one.layers}"
    return f"confidence {one.confidence}" if row.confidence not in (None, one.confidence) else ""


def lost(case: Case, at: int = 0) -> int:
    return case.layers[at].lost_ns or 0


def memory_bound() -> list[Row]:
    def at(efficiency: float, **changes: Any) -> Case:
        limits = msgspec.structs.replace(RTX_4090, **changes)
        return make_case(Timed(gemv(), 1 / efficiency), ceilings=limits)

    power = Timed(layer("pow", "Pow", (tensor("x", 1_000_000), tensor("e", 1)), (tensor("y", 1_000_000),)), 5.0)

    def with_rate(rate: float) -> Case:
        roof = msgspec.structs.replace(CEILINGS.attainable, special_per_s={"pow": rate})
        return make_case(power, ceilings=msgspec.structs.replace(CEILINGS, best=roof, attainable=roof))

    small = Timed(relu("small", "x", "y", 100_000), 4.0)  # two tensors of 400 kB stay in 1 MB: 20 us at 40 GB/s
    slow = Timed(gemv(), 10.0)
    story = FIRES["RL101"]
    return [
        # 250,828,800 bytes at 0.92 TB/s are 0.273 ms; ten times that is 2.73 ms, or 92.0 GB/s.
        yes("the story", story, "251 MB in 2.73 ms is 92.0 GB/s", "10.0 % of what DRAM allows (273 us)",
            "batched gemv", "Mul + ReduceSum", ns=lost(story), layers=("gemv",)),
        yes("half of the bandwidth", at(0.49)), no("more than half", at(0.51)),
        yes("half of a datasheet's 0.7", at(0.34, origin="datasheet")), no("over it", at(0.36, origin="datasheet")),
        yes("in the cache", make_case(small), "25.0 % of what the last-level cache allows (20.0 us)"),
        yes("in the L2", make_case(small)._replace(tensorrt=True, gpu=True), "of what the L2 allows"),
        yes("over a step of the clock", make_case(small, clock_resolution_ns=59_999)),
        no("within a step of the clock", make_case(small, clock_resolution_ns=60_000)),
        yes("suspected functions", make_case(power), "special functions"),
        yes("no functions", make_case(Timed(relu("relu", "x", "y"), 5.0)), lacks="special functions"),
        # 800 us for the bytes: 500 us of pow are a suspect, 100 us are not.
        yes("slow pow", with_rate(2e9), "special functions"), yes("fast pow", with_rate(1e10), lacks="special func"),
        yes("of an engine", engine_case(slow, ceilings=RTX_4090)),
        no("known in part", engine_case(slow, ceilings=RTX_4090, partial=frozenset({"gemv"}))),
    ]  # fmt: skip


def compute_bound() -> list[Row]:
    def of(one: Layer, **changes: Any) -> Case:
        return make_case(Timed(one, 5.0), **changes)

    x, w, r, y = (
        tensor(name, *dims, constant=name in "wr")
        for name, dims in {"x": (50, 1, 256), "w": (1, 1024, 256), "r": (1, 1024, 256), "y": (50, 1, 1, 256)}.items()
    )
    lstm = layer("lstm", "LSTM", (x, w, r), (y,), attributes={"hidden_size": 256})
    square = tensor("a", 512, 512), tensor("b", 512, 512, constant=True)
    functions = msgspec.structs.replace(CEILINGS.attainable, special_per_s={"exp": 1e9})
    exp = layer("exp", "Exp", (tensor("x", 1_000_000),), (tensor("y", 1_000_000),))
    few = of(conv(), ceilings=msgspec.structs.replace(CEILINGS, origin="datasheet"))
    few = few._replace(tensorrt=True, gpu=True, tactics={"conv": "sm50_xmma_conv"})
    return [
        # 64 * 56 * 56 outputs of 64 * 9 MACs are 231 MFLOP: 2.31 ms at 100 GFLOP/s; 64 channels fill whole vectors.
        yes("a convolution", FIRES["RL102"], "231 MFLOP in 5.14 ms is 45.0 GFLOP/s, 45.0 % of the fp32 peak measured",
            "| raise the batch", ns=lost(FIRES["RL102"])),
        yes("60 channels", of(conv(channels=60)), "| pad input channels and output channels to a multiple of 16"),
        yes("groups", of(conv(group=2)), "grouped or depthwise"), yes("an LSTM", of(lstm), "one thin product"),
        yes("a product", of(layer("mm", "MatMul", square, (tensor("c", 512, 512),))), "merge products"),
        yes("exp", of(exp, ceilings=msgspec.structs.replace(CEILINGS, attainable=functions)), "special functions"),
        yes("of an engine", few, "peak of the datasheet; its tactic is sm50_xmma_conv", "--builderOptimizationLevel"),
    ]  # fmt: skip


def launch_bound() -> list[Row]:
    # A cache of 400 bytes keeps nothing: 1200 bytes cross to DRAM in 120 ns, and pass the cache in 30.
    tight = msgspec.structs.replace(CEILINGS, cache_bytes=400)
    adds = [layer(f"add{i}", "Add", (tensor(f"p{i}", 100), tensor(f"q{i}", 100)), (tensor(f"r{i}", 100),))
            for i in range(2)]  # fmt: skip
    return [
        # 12 bytes of scalars: 1 ns for the cache's part, 1 ns for the FLOP, which overlap.
        yes("three", FIRES["LA401"], "3 layers: Add", "4.50 us a run, 11.0 % of latency; an empty kernel takes 500 ns",
            "fold shape arithmetic", ns=3 * (1500 - 1), layers=("tiny0", "tiny1", "tiny2")),
        no("one", make_case(*scalars(1))), yes("two", make_case(*scalars(2))),
        yes("its longest term", make_case(*(Timed(one, ns=1000) for one in adds), ceilings=tight), ns=2 * (1000 - 120)),
        yes("of an engine", launch_case(0.11)._replace(tensorrt=True, gpu=True), "--useCudaGraph"),
    ]  # fmt: skip


def edge(kind: str = "epilogue", *, expected: bool = True, saved_ns: int = 400_000, **fields: Any) -> PlanEdge:
    return PlanEdge(**{"tensor": "m", "maker": "conv", "readers": ("relu",), "kind": kind, "expected": expected,
                       "bytes": 8_000_000, "saved_ns": saved_ns, **fields})  # fmt: skip


def unfused() -> list[Row]:
    pair = Timed(relu("first", "x", "m"), 3.0), Timed(relu("second", "m", "y"), 3.0)
    inside = Timed(relu("inside", "m", "z", graph="If_1/then_branch"))
    foreign = Timed(relu("first", "x", "m", domain="acme"), ns=3_000_000)
    wide = {name: tensor(name, 1_000_000) for name in "abcdmsxy"}
    gelu = Timed(layer("gelu", "QuickGelu", (wide["x"],), (wide["m"],), domain="com.microsoft"), 3.0)
    meeting = make_case(
        Timed(layer("left", "Relu", (wide["a"],), (wide["b"],)), 3.0),
        Timed(layer("right", "Relu", (wide["c"],), (wide["d"],)), 3.0),
        Timed(layer("sum", "Add", (wide["b"], wide["d"]), (wide["s"],)), 3.0),
        Timed(layer("last", "Tanh", (wide["s"],), (wide["y"],)), 3.0),
    )
    assert only(meeting, "RL101").layers == ("right",)
    timed = [Timed(conv(), 1.2), Timed(relu("relu", "y", "z"), 2.0)]
    story = FIRES["FU301"]
    bare = engine_case(BIG, timed[1], edges=(edge(maker="big"),))
    return [
        yes("a chain", story, "exp -> square |", "2 elementwise layers take", "8.00 MB between them are written and",
            "one kernel", ns=sum(one.lost_ns or 0 for one in story.layers)),
        no("at its roof", chain(slow=1.0)), yes("two", make_case(*pair)), no("a body reads", make_case(*pair, inside)),
        no("a foreign domain", make_case(foreign, pair[1])), yes("Microsoft's", make_case(gelu, pair[1])),
        yes("two chains that meet", meeting, layers=("left", "sum", "last")),
        # 0.8 ms at its roof and 0.8 ms lost; fused, 0.4 ms of its roof go too.
        yes("an epilogue", engine_case(*timed, edges=(edge(),)), "conv -> relu |",
            "8.00 MB between layers are written and read back", ns=800_000 + 400_000, layers=("relu",)),
        yes("a prologue", engine_case(*timed, edges=(edge("prologue"),)), layers=("conv",)),
        *(no("what no engine fuses", engine_case(*timed, edges=(one,)))
          for one in (edge(expected=False), edge("products"), edge("layout"), edge(saved_ns=0))),
        no("the layers of an engine are many nodes", chain()._replace(tensorrt=True, gpu=True)),
        yes("what it takes and lost", bare, "they would take 400 us less by the roofline", "what would be absorbed "
            "takes 1.60 ms, of which 800 us could be won as it is", ns=1_200_000),
    ]  # fmt: skip


def host() -> list[Row]:
    dear = msgspec.structs.replace(CEILINGS, call_ns=4_000_000.0)
    idle = engine_case(BIG, gap_ns=2_000_000, profiled_gap_ns=2_000_000)
    launches = engine_case(BIG, overheads=Overheads(gaps_between_ns=2_000_000, captured=True))
    waits = engine_case(BIG, overheads=Overheads(gaps_between_ns=500_000, waiting_ns=1_500_000, captured=True))
    waits = waits._replace(enqueue_ns=3_000_000, graph_ns=8_100_000)
    return [
        yes("gaps", FIRES["HO501"], "between and around the kernels |", "kernels take 8.00 ms of 9.00 ms", "11.1 % of "
            "latency lies outside them (1.00 us of it is the call)", "bind inputs and outputs once", ns=1_001_000,
            layers=()),
        yes("what the profile shows", make_case(BIG, gap_ns=3_000_000, profiled_gap_ns=2_000_000), ns=2_001_000),
        # A negative remainder is no gap, but the call still counts.
        yes("the call", make_case(BIG, ceilings=dear, gap_ns=-2_000_000), "6.00 ms of 10.0 ms", ns=4_000_000),
        yes("of an engine", idle, confidence=0.5),
        yes("a slow host", idle._replace(enqueue_ns=9_000_000), "the host takes 9.00 ms to enqueue an inference",
            ns=2_000_000, confidence=0.8),
        yes("gaps of launches", launches, confidence=0.5),
        yes("waiting", waits, "and the GPU waits 1.50 ms for it", "as a CUDA graph it takes 8.10 ms", ns=2_000_000,
            confidence=0.8),
        yes("no TensorRT", waits._replace(tensorrt=False), "CUDA graph", lacks="--useCudaGraph"),
    ]  # fmt: skip


def copies() -> list[Row]:
    def captured(*transfers: Transfer, copies_ns: int = 9_000_000) -> Case:
        return engine_case(BIG, overheads=Overheads(copies_ns=copies_ns, captured=True), transfers=transfers)

    weights = Transfer("memcpy HtoD", number=10, total_ns=90_000_000, bytes=2_500_000_000, per_iteration_ns=9_000_000)
    moves = weights._replace(name="memcpy DtoD")
    case = captured(weights)
    return [
        yes("over the bus", case, "memcpy HtoD: 10 of no layer, 2.50 GB in all at 27.8 GB/s", "weights too",
            format_percent(9_000_000 / case.latency.median_ns), ns=9_000_000),
        no("on the GPU", captured(moves)), no("beside kernels", captured(weights, copies_ns=0)),
        # What may have been copies on the GPU is not claimed: at least 4 of 9 ms went over the bus.
        yes("both", captured(weights, moves._replace(per_iteration_ns=5_000_000)), ns=4_000_000),
    ]  # fmt: skip


def layouts() -> list[Row]:
    def reformat(name: str, source: str, target: str, dtype: str, origin: str = "REFORMAT") -> MatchedLayer:
        return planned(name, (plan_tensor(source, 1, 8, dtype="fp32"),), (plan_tensor(target, 1, 8, dtype=dtype),),
                       kind="Reformat", role="layout", origin=origin)  # fmt: skip

    plan = {
        "a": reformat("a", "image", "image_h", "fp16"), "b": reformat("b", "m", "n", "fp16"),
        "c": reformat("c", "n", "o", "bf16", origin=""), "d": reformat("d", "p", "logits", "fp32"),
        "e": reformat("e", "q", "r", "fp32", origin="COPY"),
    }  # fmt: skip
    ns = {"a": 500_000, "b": 100_000, "c": 300_000, "d": 200_000, "e": 50_000}
    timed = [Timed(layer(name, "Reformat", (tensor(f"{name}1", 8),), (tensor(f"{name}2", 8),), role="layout"),
                   ns=ns[name]) for name in plan]  # fmt: skip
    bindings = PlanBinding(name="image", mode="input"), PlanBinding(name="logits", mode="output")
    case = FIRES["LY201"]
    return [
        yes("a reorder", case, "1 reorder, largest reorder |", "2.0 % of latency, does none of the model's work",
            "chains unbroken", ns=case.layers[1].measured_ns),
        no("that computes", make_case(BIG, reorder(1_000_000, role="compute"))),
        yes("of an engine", reorder_case(0.02)._replace(tensorrt=True, gpu=True), "--inputIOFormats", "1 reformat,"),
        yes("by origin", engine_case(BIG, *timed, plan=plan, bindings=bindings), "another dtype, order or place: "
            "1 at an input 500 us (fp32 Linear -> fp16 Linear), 2 between layers 400 us (fp32 Linear -> bf16 Linear), "
            "1 at an output 200 us (fp32 Linear -> fp32 Linear), 1 for COPY 50.0 us (fp32 Linear -> fp32 Linear) |",
            ns=1_150_000),
    ]  # fmt: skip


def doubts() -> dict[str, list[Row]]:
    clockless = (None, ClockSummary(samples=0, duration_ns=0), clocks(1410, 1410, 1410),
                 clocks(900, 900, 900, reasons={"idle": 1.0}))  # fmt: skip
    nothing = [no("no samples, or an idle GPU", make_case(BIG, clocks=one, clocks_profiled=one, rated_mhz=1740.0))
               for one in clockless]  # fmt: skip
    at = clocks(1410, 1410, 1410)
    reasons = {"power cap": 0.3, "temperature, slowed by software": 0.6, "power brake": 0.01}
    above = FIRES["TR901"]
    measured, ideal = above.layers[0].measured_ns, above.layers[0].ideal_ns or 0
    engine: dict[str, Any] = {"tensorrt": True, "gpu": True}
    four = alike(4.0)
    return {
        "TR901": [
            yes("above", above, "big |", f"measured {format_ns(measured)}, ideal {format_ns(ideal)}", "--recalibrate",
                ns=0),
            no("a step of the clock", above._replace(clock_resolution_ns=ideal - measured)),
            yes("more than a step", above._replace(clock_resolution_ns=ideal - measured - 1)),
            no("a step a run", above._replace(clock_resolution_ns=(ideal - measured) // 4 + 1, runs={"big": 4})),
            yes("of an engine", faster(0.94)._replace(**engine), "--gpu"),
        ],
        "TR902": [
            yes("low", FIRES["TR902"], "the whole run |", "94.0 % of kernel time is attributed, 95.0 % are needed",
                confidence=1.0),
            yes("of an engine", make_case(BIG, coverage=(0.9, 0.0), **engine), "layer time", "--onnx"),
        ],
        "TR903": [
            yes("noisy", FIRES["TR903"], "the whole run |", "p50 8.00 ms, p99 8.80 ms: p99 is 1.1 times",
                "--duration", confidence=1.0),
            yes("of an engine", make_case(BIG, cv=0.2, **engine), "clocks of the GPU locked"),
            # One preempted slice in 2,000, and cv, say nothing where the undisturbed latency is known.
            no("undisturbed", beside_others_ran(undisturbed_basis="inferences", undisturbed_n=66), "66 of 100"),
            no("nothing disturbed it", beside_others_ran(undisturbed_ns=None, undisturbed_reason="two speeds")._replace(
                cpu_use=msgspec.structs.replace(SHARED, others_cpus=0.03, waited=0.01))),
            yes("estimated", beside_others_ran(undisturbed_basis="layers"), "is estimated from its layers: 0 of 100"),
            yes("unknown", beside_others_ran(undisturbed_ns=None, undisturbed_reason="all waited"), "is unknown: 0 of"),
        ],
        "TR905": [
            *nothing,
            yes("moved", FIRES["TR905"], "SM clock from 1,330 to 1,410 MHz", "5.7 % of its median 1,410 MHz",
                "samples: 50 |", "--lock-gpu-clocks=1410", ns=0),
            *(yes("profiled at another", make_case(BIG, clocks=at, clocks_profiled=clocks(mhz, mhz, mhz)),
                  f"{mhz:,} MHz while the kernels were timed, {share} of the 1,410 MHz", "samples: 50 and 50",
                  f"--lock-gpu-clocks={min(mhz, 1410)}") for mhz, share in ((1500, "106.4 %"), (1320, "93.6 %"))),
            yes("the memory's", make_case(BIG, clocks=clocks(1410, 1410, 1410, memory_clock_mhz=Spread(
                min=405, median=10251, max=10251))), "memory clock from 405 to 10,251 MHz",
                "--lock-memory-clocks=10251", lacks="SM clock"),
        ],
        "TR906": [
            *nothing,
            yes("capped", held(0.93), "SMs at 1,410 MHz, 81.0 % of 1,740 MHz, 300 W, 71 C, samples: 50, while the "
                "latency was measured; held down by power cap (93.0 % of the time) |", "--power-limit"),
            yes("hot", held(0.5, reason="temperature, slowed by hardware"), "cool down"),
            yes("set", held(0.5, reason="application clocks are set"), "reset"),
            yes("unknown", held(0.5, reason="reason 0x400"), "PERFORMANCE"),
            no("near its rating", held(0.93, mid=1700)),
            yes("without a rating, the driver's word", held(0.93, mid=1700)._replace(rated_mhz=None)),
            yes("the longest", make_case(BIG, clocks_profiled=clocks(900, 900, 900, reasons=reasons), rated_mhz=1740.0),
                "while profiled", "power cap (30.0 % of the time), temperature, slowed by software (60.0 % of the "
                "time)", "cool down", lacks="power brake"),
        ],
        "TR907": [
            # The best are the first of each: 1 / (4 * 1.4) and 1 / (4 * 1.2).
            yes("all slow", four, "the best bound by memory 17.9 % (relu0), by arithmetic 20.8 % (conv0)"),
            yes("sampled", four._replace(clocks=clocks(700, 705, 710), rated_mhz=1410.0),
                "the SMs ran at 705 of 1,410 MHz", lacks="--gpu"),
            no("one side", alike(4.0, memory=3.0), "not one cause"), no("healthy", alike(1.6), "under 50.0 % is far"),
            no("small", ceilings(four, launch_ns=1e6), "fewer than two are bound by memory and by arithmetic"),
            no("one bound by memory", four._replace(layers=four.layers[:3]), "fewer than two are bound by memory"),
            no("one known", four._replace(partial=frozenset({"conv1"})), "fewer than two are bound by arithmetic"),
            no("a CPU", four._replace(gpu=False), "on no GPU"),
        ],
        "TR908": [no("on a CPU the layers are compared", FIRES["TR908"]._replace(gpu=False), "which was on a CPU")],
        "TR909": [
            no("claims are scaled", lost_to_nobody(-0.3)._replace(cpu_use=msgspec.structs.replace(
                SHARED, others_cpus=0.0, waited=0.0)), "take longer under the profiler"),
            no("the latency holds others' time", FIRES["TR909"]._replace(
                cpu_use=SHARED, latency=beside_others_ran(undisturbed_basis="layers").latency), "TR903"),
        ],
    }  # fmt: skip


SHARED = CpuUse(cpus=2, seconds=3.0, own_cpus=1.0, others_cpus=0.9, others=3, waits=True, waited=0.6)


def beside_others_ran(**latency: Any) -> Case:
    """A run beside other processes, whose p99 is 40 times the median."""
    case = latencies(make_case(BIG, cv=4.0), p99=40.0)
    latency = {"undisturbed_ns": case.latency.median_ns, **latency}
    return case._replace(cpu_use=SHARED, latency=msgspec.structs.replace(case.latency, **latency))


def old_kernels() -> list[Row]:
    def of(kernel: Mapping[str, float] | str, slug: str, *, tf32: bool = True, one: Layer | None = None) -> Case:
        return run_case(Timed(one or convolved(), 4.0), kernel, on(slug, tf32=tf32))

    add = layer("add", "Add", (tensor("p", 10_000_000), tensor("q", 10_000_000)), (tensor("r", 10_000_000),))
    parts = of({SM50_SIMT: 0.6, "void splitKreduce_kernel<float>(...)": 0.4}, "l4")
    thin = [Timed(product(1, 4096, 4096, dtype="fp32", name=f"mm{at}"), 4.0) for at in range(3)]
    same = with_kernels(engine_case(*thin, **on("l4")), {f"mm{at}": SM50_GEMV for at in range(3)})
    return [
        no("tensor cores", SILENT["KN701"], "multiplies on the tensor cores ('s884cudnn')"),
        yes("L4", of(SM50_SIMT, "l4")), yes("H100", of(SM50_SIMT, "h100-sxm5")),
        yes("sm70", of(SM50_SIMT.replace("sm50", "sm70"), "h100-sxm5")),
        # One generation behind is normal; there are no newer kernels for the CUDA cores than those of sm80.
        no("sm70 on sm86", of(SM50_SIMT.replace("sm50", "sm70"), "a10")),
        no("sm75 on sm89", of(SM50_SIMT.replace("sm50", "sm75"), "l4")),
        no("sm80 on sm100", of(SM50_SIMT.replace("sm50", "sm80"), "b200")), no("TF32", of(SM80_TF32, "h100-sxm5")),
        # Turing's tensor cores do not take fp32; on Ada they do, unless TF32 is off.
        no("no faster unit", of(SM50_SIMT, "t4")), no("TF32 off", of(SM50_SIMT, "l4", tf32=False)),
        no("no product", of(SM50_SIMT, "l4", one=add)),
        yes("one of several", parts, ns=0.6 * parts.layers[0].measured_ns),
        # A fourth of the time, where three fourths were lost: another rule is to speak of the layer.
        no("too little", of({SM50_SIMT: 0.25, "a_kernel_of_nobody": 0.75}, "l4"), "less than 50.0 % of the"),
        yes("alike", same, "and 2 more MatMul", "transpose the weight", layers=("mm0", "mm1", "mm2")),
    ]  # fmt: skip


def idle_tensor_cores() -> list[Row]:
    def of(one: Layer, kernel: str = SM80_SIMT, slug: str = "l4", slow: float = 4.0, **gpu: Any) -> Case:
        return run_case(Timed(one, slow), kernel, on(slug, **gpu))

    cube, wide = product(2048, 2048, 2048), product(2048, 2048, 2048, dtype="fp32")
    padded = of(product(2048, 2047, 2048), SM80_SIMT_HALF)
    # The first convolution of a quantised ResNet-50 on an A100 (TensorRT's own example): 202 us in dp4a.
    x, w = tensor("x", 32, 3, 224, 224, dtype="int8"), tensor("w", 64, 3, 7, 7, dtype="int8", constant=True)
    first = layer("conv", "Conv", (x, w), (tensor("y", 32, 64, 112, 112),), attributes={"group": 1})
    a100 = on("a100-sxm4-40gb", measured=False)
    bytewise = run_case(Timed(first, ns=202_000), "ampere_fp32_icudnn_int8x4_128x64_relu_medium_nn_v1", a100)
    # 2 * 32 * 64 * 112 * 112 * 3 * 49 operations at four times the rate of int32.
    scalar_ns = 2 * 32 * 64 * 112**2 * 147 / 4 / gpus.find("a100-sxm4-40gb").vector_flops_per_s["int32"].value * 1e9
    capture = without_work(of(wide, slug="h100-sxm5", slow=8.0))
    two = engine_case(*(Timed(product(1024, 1024, 1024, dtype="fp32", name=name), slow)
                        for name, slow in (("a", 8.0), ("b", 16.0))), **on("h100-sxm5"))  # fmt: skip
    two = without_work(with_kernels(two, dict.fromkeys("ab", SM80_SIMT)), 2)
    return [
        no("bytes bound it", SILENT["KN702"], "no more than the"),
        # 17.2 GFLOP at the 121 TFLOP/s of an L4 (dense fp16, accumulated in fp32).
        yes("its loss", FIRES["KN702"], "--builderOptimizationLevel", ns=lost(FIRES["KN702"])),
        yes("no TensorRT", FIRES["KN702"]._replace(tensorrt=False), "--backend tensorrt"),
        yes("fitting", of(cube), "nothing in its dtype and dimensions forbids", "--builderOptimizationLevel"),
        yes("N", padded, "N = 2,047: no multiple of 8", "pad N to a multiple of 8",
            ns=padded.layers[0].measured_ns - (padded.layers[0].attainable_ns or 0) * 2048 / 2047),
        yes("K", of(product(2048, 2048, 2050)), "K = 2,050: no multiple of 8", "pad K to"),
        yes("fp32", of(wide), "TF32 is allowed", "allow TF32"),
        yes("groups", of(convolved(512, 512, group=8, size=28, dtype="fp16")), "8 groups of 64 input channels",
            "widen its groups"),
        yes("dp4a", bytewise, f"which take {format_ns(scalar_ns)} at their peak",
            "input channels = 3: no multiple of 16", "| leave it unquantised"),
        no("TF32 of a GeForce is no faster", of(wide, slug="rtx-4090")), no("TF32 off", of(wide, tf32=False)),
        *(no("a unit that no name tells", of(cube, name, slow=3.0))
          for name in ("__myl_Fc_0x123", "a_kernel_of_nobody", SM80_TENSOR)),
        # By the name alone: 66.9 of 494.7 TFLOP/s, and the rest is the most that can be won.
        yes("a capture", capture, "at the most", "fp32 as TF32 at 495 TFLOP/s, the CUDA cores at 66.9 TFLOP/s",
            "--noTF32", ns=capture.layers[0].measured_ns * (1 - 66.9 / 494.7)),
        yes("of PyTorch", capture._replace(tensorrt=False, backend="pytorch"), "set_float32_matmul_precision"),
        yes("the longest is named", two, "b and 1 more MatMul |"),
        *(no("a name", without_work(of(wide, kernel, slug, 8.0, tf32=tf32)), why) for kernel, slug, tf32, why in (
            (GEMV, "h100-sxm5", True, "is no matrix product in tiles"),
            (DIRECT, "h100-sxm5", True, "is no matrix product in tiles"),
            (SM80_TENSOR, "h100-sxm5", True, "multiplies on the tensor cores"),
            (SM80_SIMT, "h100-sxm5", False, "are not faster at fp32"),
            (SM80_SIMT, "rtx-4090", True, "are not faster at fp32"),
            ("a_kernel", "h100-sxm5", True, "no name of its kernels tells"))),
    ]  # fmt: skip


def thin_products() -> list[Row]:
    def of(one: Layer, kernel: str, slow: float = 4.0, ns: int | None = None) -> Case:
        return run_case(Timed(one, slow, ns), kernel, on("l4"))

    tiles = "ampere_h16816gemm_64x64_ldg8_stages_64x5_nn"
    launch = on("l4")["ceilings"].launch_ns
    row = product(1, 8192, 8192)
    return [
        no("its bytes", SILENT["KN703"], "attainable"),
        yes("gemv", of(row, GEMV.replace("float", "__half")), "transpose the weight"),
        yes("no weight", of(product(1, 8192, 8192, weights=False), GEMV), lacks="transpose"),
        yes("eight rows", of(product(8, 8192, 8192), tiles)), no("nine rows", of(product(9, 8192, 8192), tiles)),
        yes("one column", of(product(8192, 1, 8192), tiles)),
        # No tile wider than the dimension, so nothing in the name is to blame.
        no("a fitting tile", of(product(8, 8192, 8192), "nvjet_hsh_64x8_64x16_4x1_v_bz_TNT")),
        yes("small ones",
            of(product(4, 4, 64, batch=100_000), "void gemmSN_NN_kernel<__half, 128, 2, 4, 8, 2, 4, false>")),
        no("unknown", of(product(2, 8192, 8192), "a_kernel_of_nobody")),
        yes("eleven launches", of(product(1, 64, 64), GEMV, ns=round(11 * launch))),
        no("nine launches", of(product(1, 64, 64), GEMV, ns=round(9 * launch))),
    ]  # fmt: skip


def helpers() -> list[Row]:
    kernels = {SM80_TENSOR: 0.7, "void cub::DeviceReduceKernel<float>(...)": 0.3}
    one = product(64, 64, 65536)
    case = FIRES["KN704"]
    return [
        no("5 %", SILENT["KN704"], "takes 5.0 % of the layer, less than 10.0 %"),
        yes("its price", case, "only adds up the parts of a product of 64 x 65,536 by 65,536 x 64", "20.0 % of the "
            "layer's", "--builderOptimizationLevel", ns=0.2 * case.layers[0].measured_ns),
        yes("no TensorRT", case._replace(tensorrt=False), "--backend tensorrt"),
        yes("one node", run_case(Timed(one, 1.5), kernels, on("l4"))),
        # A reduction that may be the model's own is not taken for a helper.
        no("two", run_case(Timed(msgspec.structs.replace(one, nodes=("mm", "sum")), 1.5), kernels, on("l4"))),
    ]  # fmt: skip


def older_attention() -> list[Row]:
    def of(kernel: str, slug: str = "h100-sxm5", slow: float = 2.5) -> Case:
        return run_case(Timed(product(4096, 4096, 4096, dtype="bf16"), slow), kernel, on(slug))

    case = FIRES["KN705"]
    third = case.layers[0].measured_ns / 3
    return [
        no("written for it", SILENT["KN705"], "no name of its kernels is of fused attention for a GPU before sm90"),
        no("near its roof", of(FLASH_2, slow=1.3)),
        *(row for one in (case, without_work(case)) for row in (
            yes("priced by the smallest gain", one, "written for sm80 and runs on sm90", "a newer TensorRT", ns=third),
            yes("of PyTorch", one._replace(tensorrt=False, backend="pytorch"), "FlashAttention 3",
                "SDPBackend.CUDNN_ATTENTION"))),
        *(no("nothing newer", without_work(of(kernel, slug)), why) for kernel, slug, why in (
            (FLASH_2, "a100-sxm4-80gb", "no library has fused attention that is written for this GPU alone"),
            (FLASH_2, "rtx-5090", "no library has fused attention that is written for this GPU alone"),
            # A few rows of queries: bytes bound them.
            (FLASH_2.replace("flash_fwd_kernel", "flash_fwd_splitkv_kernel"), "h100-sxm5", "before sm90"),
            ("fmha_cutlassF_f32_aligned_64x64_rf_sm80", "h100-sxm5", "before sm90"),
            ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128", "h100-sxm5",
             "before sm90"))),
    ]  # fmt: skip


def of_fp32() -> list[Row]:
    def timed(number: int, dtype: str = "fp32") -> list[Timed]:
        return [Timed(product(2048, 2048, 2048, dtype=dtype, name=f"{dtype}{at}"), 1.2) for at in range(number)]

    l4 = on("l4", tf32=False)
    case = FIRES["PR801"]
    spec = gpus.find("l4")
    ratio = spec.vector_flops_per_s["fp32"].value / spec.tensor_flops_per_s["fp16"]["fp32"].value
    return [
        no("fp16", SILENT["PR801"], "it multiplies fp16, not fp32"),
        # The same share of the narrower roof.
        yes("its price", case, ns=case.layers[0].measured_ns * (1 - ratio)),
        yes("a model", engine_case(*timed(3), **l4), "3 fp32 products, largest fp322 |", "TF32 is off",
            "without --noTF32", "trtprof run MODEL --fp16", confidence=0.5),
        no("an fp16 model with one", engine_case(*timed(1), *timed(2, "fp16"), **l4)),
        no("no fp16 on tensor cores", engine_case(*timed(1), **on("gtx-1650"))),
        no("bytes", engine_case(Timed(product(4, 4096, 4096, dtype="fp32"), 1.2), **l4)),
    ]  # fmt: skip


def misaligned() -> list[Row]:
    def of(slow: float, *, measured: bool = True) -> Case:
        return run_case(Timed(MISFIT, slow), SM80_TENSOR, on("l4", measured=measured))

    def wide(n: int, dtype: str) -> Case:
        one = product(2048, n, 1024, batch=8, dtype=dtype)
        return run_case(Timed(one, 1.6), SM80_TENSOR, on("t4" if dtype != "fp32" else "l4"))

    case = FIRES["AL802"]
    own = case.layers[0]
    steps = {(1001, "fp16"): 8, (1020, "fp16"): 8, (1024, "fp16"): 0, (1001, "int8"): 16, (1008, "int8"): 0,
             (1002, "fp32"): 4}  # fmt: skip
    return [
        no("fitting", SILENT["AL802"], "8 products of 1,024 x 1,024 by 1,024 x 1,024, all multiples of 64"),
        yes("its price", case, "N = 1,001: no multiple of 8 (fp16); padded to 1,008",
            ns=own.measured_ns - round((own.attainable_ns or 0) * 1008 / 1001)),
        *(yes(f"{n} {dtype}", wide(n, dtype), f"N = {n:,}: no multiple of {step}", f"a multiple of {step} with zeros")
          if step else no(f"{n} {dtype}", wide(n, dtype)) for (n, dtype), step in steps.items()),
        # Padded to 1,008 columns, the product needs 1.007 of its time: 0.72 of 1.4, and healthy kernels have 0.7.
        no("what healthy ones lose", of(1.4)), yes("more", of(1.45)),
        # A datasheet's roof is worth 0.7 of a measured one.
        no("of a datasheet", of(2.0, measured=False)), yes("more of it", of(2.1, measured=False)),
    ]  # fmt: skip


def depthwise() -> list[Row]:
    direct = in_format(run_case(Timed(DEPTH, 3.0), DIRECT, on("l4")), "conv", "Row major linear FP32 format")
    return [
        no("neither", SILENT["DW805"], "neither its layout nor its kernel"),
        yes("layout and kernel", direct, "512 groups of one channel; its tensors lie channel by channel (fp32 NCHW)",
            "conv2d_grouped_direct_kernel", "no kernel for depthwise convolutions, on the CUDA cores", ns=lost(direct)),
        no("several channels", run_case(Timed(convolved(512, 512, group=256), 3.0), DIRECT, on("l4"))),
        no("nothing to blame", run_case(Timed(DEPTH, 3.0), DEPTHWISE, on("l4"))),
    ]  # fmt: skip


def tails() -> list[Row]:
    def of(slow: float = 2.1, kernel: str = "a_kernel", **launch: int) -> Case:
        return launched(convolution(), slow, kernel=kernel, **launch)

    case = FIRES["WV706"]
    shared = engine_case(Timed(convolution(), 2.1), ceilings=RTX_4090, spec=SPEC)
    full, tail = {"blocks": 256, "threads": 256}, {"blocks": 129, "threads": 256}
    ns = case.layers[0].measured_ns
    flash = "fmha_v2_flash_attention_fp16_64_64_S_40_sm89_kernel"
    unknown = msgspec.structs.replace(SPEC, compute_capability="99.0")
    return [
        # 129 blocks in two rounds of 128 SMs: 127 of 256 places are empty.
        yes("two rounds", case, "129 blocks of 256 threads on 128 SMs, 2 at once on each", "1 SM has a block in the "
            "last of 2 rounds, 49.6 % of the SMs' time is idle", ns=ns * 127 // 256, confidence=0.7),
        yes("explains the loss", of(blocks=129, threads=256)),
        no("at the roof", of(1.05, blocks=129, threads=256), " "),
        no("lost less", of(1.9, blocks=129, threads=256), " "),
        no("lost more", of(10.0, blocks=257, threads=256), " "), no("10 rounds", of(blocks=1153, threads=256), " "),
        no("few blocks", of(blocks=65, threads=256), " "), no("no launch", of(), " "),
        no("2048 threads", of(blocks=129, threads=2048), " "),
        no("300 registers", of(blocks=129, threads=256, registers=300), " "),
        no("unequal blocks", of(kernel=flash, blocks=129, threads=128)),
        yes("bound by memory", launched(streamed(), 2.1, blocks=129, threads=1024, registers=32), confidence=0.5),
        *(no("an unknown GPU", case._replace(spec=spec), "not known") for spec in (unknown, None)),
        yes("its part", with_launches(shared, "conv", ("a", 3, tail), ("b", 1, full)), ns=ns * 3 // 4 * 127 // 256),
        no("a small part", with_launches(shared, "conv", ("a", 1, tail), ("b", 3, full))),
    ]  # fmt: skip


def occupancies() -> list[Row]:
    def of(slow: float = 3.0, kernel: str = "a_kernel", one: Layer | None = None, **launch: int) -> Case:
        return launched(one or streamed(), slow, kernel=kernel, **launch)

    case = FIRES["OC707"]
    own = case.layers[0]
    pipeline = "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x64_stage4_warpsize2x2x1_tensor16x8x16_kernel"
    shared = engine_case(Timed(streamed(), 5.0), ceilings=RTX_4090, spec=SPEC)
    few, many = {"blocks": 1, "threads": 32}, {"blocks": 100_000, "threads": 1024}
    unknown = msgspec.structs.replace(SPEC, compute_capability="99.0")
    kib = 1024
    computes = convolution()
    return [
        # 16 blocks of 8 warps are 128 of 128 * 48 warps, of half of which more would hardly help.
        yes("few blocks", case, "16 blocks of 256 threads on 128 SMs are 2.1 % of the warps that they can hold",
            "limited by the number of blocks", "| give it more blocks: a larger batch",
            ns=min(int(own.measured_ns * (1 - 16 * 8 / (128 * 48) / 0.5)), own.lost_ns or 0)),
        # 8 warps of 255 registers: one block, 8 of 48 warps. 96 KiB each: one block, 4 of 48 warps.
        yes("registers", of(blocks=10_000, threads=256, registers=255), "255 registers a thread", "fewer registers"),
        yes("shared memory", of(blocks=10_000, threads=128, shared_bytes=96 * kib), "98.3 kB of shared memory",
            "less shared"),
        no("24 blocks of one warp: half is enough", of(blocks=10_000, threads=10, registers=16)),
        # A pipeline on tensor cores needs few warps, but all SMs.
        no("a pipeline", of(kernel=pipeline, blocks=10_000, threads=128, registers=255, shared_bytes=96 * kib)),
        yes("on few SMs", of(kernel=pipeline, blocks=16, threads=128, registers=255, shared_bytes=96 * kib)),
        yes("that computes", of(5.0, one=computes, blocks=16, threads=256)),
        no("near its roof", of(1.5, one=computes, blocks=16, threads=256), " "),
        no("100 of 128 SMs", of(5.0, one=computes, blocks=100, threads=256), " "),
        *(no("an unknown GPU", case._replace(spec=spec), "not known") for spec in (unknown, None)),
        no("a small part", with_launches(shared, "relu", ("a", 2, few), ("b", 3, many))),
        no("none has most", with_launches(shared, "relu", ("a", 1, few), ("b", 1, few), ("c", 1, few))),
    ]  # fmt: skip


def quantising() -> list[Row]:
    one = layer("dq", "DequantizeLinear", (tensor("x", 10, dtype="int8"), tensor("s", 1)), (tensor("y", 10),))
    fused = msgspec.structs.replace(one, nodes=("dq", "conv"))
    # Claimed whole before it counts as a reformat.
    assert not found(FIRES["QD803"], "LY201")
    assert found(SILENT["QD803"], "LY201")
    return [
        yes("its own", FIRES["QD803"], "1 Q/DQ layer, largest quantise |", "400 us a run",
            "(fp16 Linear -> int8 Linear)", "next to the product", ns=400_000),
        yes("a second reader", quantised(second_reader=True), "what else reads the tensor"),
        yes("at the input", quantised(at_input=True, second_reader=True), "give the engine the quantised input"),
        yes("by its op", engine_case(BIG, Timed(one, ns=400_000)), ns=400_000),
        no("fused", engine_case(BIG, Timed(fused, ns=400_000))),
    ]  # fmt: skip


def float_outputs() -> list[Row]:
    case = FIRES["QD804"]
    unbound = tuple(msgspec.structs.replace(one, bound="tensor") for one in case.layers)
    slow = float_output(slow=10.0)
    assert found(slow, "RL101")
    return [
        # Of 2 * 33.6 MB at 10 GB/s in each of two layers.
        yes("bytes", case, "16.8 MB of fp16 are written", "readers that could take int8: each touch moves 8.39 MB too "
            "many", ns=2 * 8 * 64 * 128 * 128 / 10, layers=("conv", "next")),
        *(no("needed", one, "output")
          for one in (float_output(reader="fp16"), float_output(given_out=True), float_output(second="fp32"))),
        yes("two readers", float_output(second="int8"), layers=("conv", "next", "third")),
        *(yes("a residual", float_output(reader=reader, products=True), layers=("conv", "next"))
          for reader in ("int8", "fp16")),
        no("bytes that bound nothing", case._replace(layers=unbound)), no("far from its roof", slow),
    ]  # fmt: skip


def thrashing() -> list[Row]:
    case = FIRES["CA806"]
    heavy = tuple(
        msgspec.structs.replace(one, work=msgspec.structs.replace(one.work or Work(), bytes_parameters=5_000_000))
        for one in case.layers
    )
    return [
        # 1.2 MB at 10 GB/s of DRAM or 40 GB/s of the cache: 120 us or 30 us, less a launch of 0.5 us.
        yes("a little too large", case, "1.20 MB between them do not stay in the 1.00 MB of the L2, 600 kB would",
            "two runs of batch 2 with one of 4", ns=89_500, layers=("reader0",)),
        *(no("half would not stay for sure", one) for one in (
            thrash(0.9), thrash(1.6), thrash(batch=1), thrash(batch=3), thrash(readers=2), thrash(given_out=True),
            thrash(apart=True))),
        # Weights that two runs read twice may cost more than is saved.
        no("weights", case._replace(layers=heavy)),
        no("an unknown cache", ceilings(case, cache_bytes=0), "not known", at=1),
    ]  # fmt: skip


def recomputed() -> list[Row]:
    case = FIRES["CN601"]
    loop = layer("loop", "Loop", (tensor("n", 1, dtype="int64", constant=True),), (), role="control", constant=True)
    ns = case.layers[1].measured_ns
    return [
        yes("whole", case, "1 layer, largest quantise |", f"{format_ns(ns)} a run", "initializer", ns=ns),
        no("a loop is not folded away", make_case(BIG, Timed(loop, ns=1_000_000))),
    ]


def table() -> dict[str, list[Row]]:
    return {
        "RL101": memory_bound(), "RL102": compute_bound(), "LA401": launch_bound(), "FU301": unfused(),
        "HO501": host(), "HO502": copies(), "LY201": layouts(), "CN601": recomputed(), "KN701": old_kernels(),
        "KN702": idle_tensor_cores(), "KN703": thin_products(), "KN704": helpers(), "KN705": older_attention(),
        "PR801": of_fp32(), "AL802": misaligned(), "DW805": depthwise(), "WV706": tails(), "OC707": occupancies(),
        "QD803": quantising(), "QD804": float_outputs(), "CA806": thrashing(), **doubts(),
    }  # fmt: skip


def test_what_each_rule_finds_and_passes_by() -> None:
    rows = [(code, row) for code, rows in table().items() for row in rows]
    assert len(rows) > 200
    misses = [f"{code}, {row.name}: {said}" for code, row in rows if (said := wrong(code, row))]
    assert not misses, "\n".join(misses)


def test_a_batched_gemv_has_one_row_or_column_and_many_batches() -> None:
    case = FIRES["RL101"]
    own = case.layers[0]
    assert own.work is not None
    for left, right, across, batched in (
        ((600, 200, 8, 1, 64), (600, 1, 8, 64, 1), (False, False), True),
        ((64, 1, 256), (64, 256, 256), (False, False), True), ((256, 256), (64, 256, 1), (False, False), True),
        ((64, 256, 1), (64, 256, 256), (True, False), True), ((64, 256, 256), (64, 1, 256), (False, True), True),
        ((64, 2, 256), (64, 256, 256), (False, False), False), ((1, 1, 4096), (4096, 4096), (False, False), False),
        ((1, 4096), (4096, 4096), (False, False), False), ((4096, 4096), (4096,), (False, False), False),
        ((64, 1, 256), (64, 256, 256), (True, False), False),
    ):  # fmt: skip
        work = msgspec.structs.replace(own.work, core=matrices(left, right, *across))
        result = msgspec.structs.replace(own, op_type="FusedMatMul", work=work)
        finding = only(case._replace(layers=(result,)), "RL101")
        assert ("batched gemv" in finding.try_) == batched, (left, right, across)


def test_layers_of_one_kind_and_remedy_are_one_finding_and_others_are_another() -> None:
    moves = [
        Timed(layer(f"move{i}", "Transpose", (tensor(f"m{i}", 1000, 1000),), (tensor(f"n{i}", 1000, 1000),),
                    attributes={"perm": (1, 0)}), 3.0 + i)
        for i in range(3)
    ]  # fmt: skip
    findings = found(make_case(*moves, Timed(relu("lone", "u", "v"), 4.0)), "RL101")
    assert [finding.where for finding in findings] == ["move2 and 2 more Transpose", "lone"]
    assert findings[0].layers == ("move2", "move1", "move0")
    assert "only moves data" in findings[0].try_
    assert "fuse it with its neighbours" in findings[1].try_


def test_every_reason_of_the_driver_but_idleness_has_a_remedy() -> None:
    assert set(tr906_clock_held_down.REMEDIES) == set(CLOCK_EVENTS.values()) - {"idle"}


def story(efficiency: float, kernel: str = SM50_GEMV) -> Case:
    """The batched gemv at a share of the 1.01 TB/s of the datasheet."""
    roof = msgspec.structs.replace(RTX_4090.attainable, dram_bytes_per_s=1.01e12)
    datasheet = msgspec.structs.replace(RTX_4090, attainable=roof)
    return run_case(Timed(gemv(), 1 / efficiency), kernel, {"ceilings": datasheet, "spec": gpus.find("rtx-4090")})


def test_the_story_is_found_first_with_the_whole_loss_as_its_price() -> None:
    case = story(0.1)
    (one,) = case.layers
    # 250,828,800 bytes at 1.01 TB/s: 0.248 ms; 122.88 MFLOP.
    assert (one.bytes, one.flops, one.attainable_ns) == (250_828_800, 122_880_000, 248_346)
    first = diagnose(case)[0]
    assert (first.code, first.severity, first.layers) == ("KN701", "critical", ("gemv",))
    assert first.lost_ns == one.measured_ns - 248_346
    assert f"{SM50_GEMV} is written for sm50 and runs on sm89" in first.evidence
    assert "multiplies on the CUDA cores ('gemv' in its name)" in first.evidence
    assert "251 MB in 2.48 ms is 101 GB/s, 10.0 % of what DRAM allows (248 us)" in first.evidence
    order = [first.try_.index(words) for words in ("fold the batch", "Mul + ReduceSum", "a hand-written kernel")]
    assert order == sorted(order)
    assert codes(case) == ["KN701"], "no nanosecond is claimed twice"
    # With a kernel that tells no architecture it is a gemv all the same.
    case = story(0.1, GEMV)
    finding = only(case, "KN703")
    assert codes(case) == ["KN703"]
    assert finding.lost_ns == case.layers[0].lost_ns
    assert finding.evidence.startswith("960,000 products of 1 x 64 by 64 x 1 in void gemv2T_kernel_val")
    assert [diagnose(story(0.9, kernel)) for kernel in (SM50_GEMV, GEMV)] == [(), ()]


def test_which_rule_speaks_of_a_layer_that_several_want() -> None:
    for one, kernel, expected in (
        (product(2048, 2047, 2048), SM80_SIMT_HALF, ["KN702"]),
        # Dimensions are not blamed for a kernel on the CUDA cores that bytes bound.
        (product(4096, 17, 4096), SM80_SIMT_HALF, ["RL101"]), (product(4096, 17, 4096), SM80_TENSOR, ["AL802"]),
        (DEPTH, DEPTHWISE, ["RL101"]),
    ):  # fmt: skip
        assert codes(run_case(Timed(one, 4.0), kernel, on("l4"))) == expected


class Asked(NamedTuple):
    """A slow case that somebody reported, with the figures given there."""

    one: Layer
    ns: float
    kernel: str
    gpu: dict[str, Any]
    codes: list[str]  # the rules that answer it, first the one that must come first
    says: str = ""  # what the evidence must name


def square(n: int, tflops: float, dtype: str = "bf16") -> tuple[Layer, float]:
    """A square product, and the ns that it takes at this rate."""
    return product(n, n, n, dtype=dtype), 2 * n**3 / tflops / 1e3


def reaching(slug: str, **peaks: float) -> dict[str, Any]:
    """A GPU that attains these FLOP/s by dtype, as the report itself shows."""
    gpu = on(slug)
    roof = gpu["ceilings"].attainable
    roof = msgspec.structs.replace(roof, tensor_flops_per_s={**roof.tensor_flops_per_s, **peaks})
    return {**gpu, "ceilings": msgspec.structs.replace(gpu["ceilings"], attainable=roof)}


UNNAMED = "an_unnamed_kernel"
SMALL_TILES = "cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_32x6_nn_align8>"
ALIGN_ONE = "cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1>"
LARGE_TILES = "ampere_bf16_s1688gemm_bf16_128x128_ldg8_f2f_stages_32x1_nn"
ADA = reaching("rtx-4090", bf16=155.9e12)

ASKED: dict[str, Asked] = {
    # Square products on an RTX 4090: 155.9 TFLOP/s at 2040, and much less at sizes near by.
    "pytorch/pytorch#181718 N=2056": Asked(*square(2056, 89.6), SMALL_TILES, ADA, ["AL802"], "padded to 2,112"),
    "pytorch/pytorch#181718 N=2072": Asked(*square(2072, 83.6), SMALL_TILES, ADA, ["AL802"], "padded to 2,112"),
    "pytorch/pytorch#181718 N=2040": Asked(*square(2040, 155.9), LARGE_TILES, ADA, []),
    # Dimensions that fill 2 bytes only cost less than those above: nothing to gain by padding to 2056.
    "pytorch/pytorch#181718 N=2055": Asked(*square(2055, 115.6), ALIGN_ONE, ADA, []),
    # A batch of products with N = 140 next to one with N = 128, which reaches 132.7 TFLOP/s (132.5 in fp16). That one
    # moves 1.29 TB/s, which of GPUs with bf16 in August 2022 an A100 could alone.
    "pytorch/pytorch#83272 bf16": Asked(
        product(1024, 140, 1024, batch=384, dtype="bf16"), 9_232_000, UNNAMED,
        reaching("a100-sxm4-40gb", bf16=132.71e12), ["AL802"], "N = 140: no multiple of 8",
    ),
    "pytorch/pytorch#83272 fp16": Asked(
        product(1024, 140, 1024, batch=384), 2_092_000, UNNAMED,
        reaching("a100-sxm4-40gb", fp16=132.48e12), ["AL802"], "padded to 144",
    ),
    "pytorch/pytorch#83272 N=128": Asked(
        product(1024, 128, 1024, batch=512, dtype="bf16"), 1_036_000, UNNAMED,
        reaching("a100-sxm4-40gb", bf16=132.71e12), [],
    ),
    # Two rows in tiles of 64 x 64 on an RTX 3090: 59 us.
    "NVIDIA/cutlass#1582 m=2": Asked(
        product(2, 1792, 5120), 59_000, "cutlass_tensorop_s16816gemm_f16_64x64_32x10_tn_align2", on("rtx-3090"),
        ["KN703"], "tiles of 64 x 64 are mostly padding at M = 2",
    ),
    # The weights of a layer read by one row, then by two, on a GTX 1650: 99.5 and 4.3 GiB/s.
    "pytorch/pytorch#195716 M=1": Asked(product(1, 4864, 896), 81_585, UNNAMED, on("gtx-1650"), []),
    "pytorch/pytorch#195716 M=2": Asked(
        product(2, 4864, 896), 1_887_840, UNNAMED, on("gtx-1650"), ["RL101"], "of what DRAM allows",
    ),
    # A dot product of 131,072 in a batch of one: 412.48 us with cuBLAS above 12.1.0, on an A100.
    "pytorch/pytorch#114911 1x1x131072": Asked(
        product(1, 1, 131_072, dtype="fp32", weights=False), 412_480, UNNAMED, on("a100-sxm4-40gb"), ["KN703"],
        "a product of 1 x 131,072 by 131,072 x 1 takes 308 times as long as an empty kernel",
    ),
    # One row of bf16 by other weights each time, 2048 x 4096, on a B200: 11.86 us, and 4.40 us in another kernel.
    "vllm-project/vllm#27173 batch 1": Asked(
        product(1, 4096, 2048, dtype="bf16"), 11_858, UNNAMED, on("b200", cache_bytes=0), ["RL101"], "1.42 TB/s",
    ),
    # fp32 on the CUDA cores of an A10 at 12,470 GFLOP/s.
    "NVIDIA/cutlass#941": Asked(
        product(3456, 4096, 4096, dtype="fp32"), 9_301_720, "cutlass_simt_sgemm_128x128_8x2_nn_align1", on("a10"),
        ["KN702"], "12.5 TFLOP/s",
    ),
}  # fmt: skip


def test_what_users_report_as_slow_is_answered() -> None:
    for name, asked in ASKED.items():
        case = run_case(Timed(asked.one, ns=round(asked.ns)), asked.kernel, asked.gpu)
        assert codes(case) == asked.codes, name
        if asked.codes:
            assert asked.says in only(case, asked.codes[0]).evidence, name


def test_the_estimate_for_fp16_is_near_what_the_same_gpu_was_measured_with() -> None:
    """zzc0721/torch-performance-test-data#78, an RTX 4090 at 4096: 53.02 TFLOP/s of fp32, 168.38 of fp16."""
    one, ns = square(4096, 53.02, "fp32")
    _, narrow_ns = square(4096, 168.38)
    case = run_case(Timed(one, ns=round(ns)), SM80_SIMT, on("rtx-4090", tf32=False))
    assert only(case, "PR801").lost_ns == pytest.approx(ns - narrow_ns, rel=0.35)


def slow_run(**medians: float) -> Case:
    """A kernel at a tenth of its roof, which RL101 suspects; see `latencies`."""
    return latencies(make_case(Timed(gemv(), 10.0), ceilings=RTX_4090), **medians)


def lost_to_nobody(share: float) -> Case:
    """The same kernel in a latency of which its layers exceed, or leave, a share."""
    kernels_ns = slow_run().layers[0].measured_ns
    return make_case(Timed(gemv(), 10.0), ceilings=RTX_4090, gap_ns=round(kernels_ns / (1 - share)) - kernels_ns)


def test_beyond_its_limit_a_doubt_leaves_no_verdict_but_how_to_measure_again(subtests: pytest.Subtests) -> None:
    for case, code, brief, how in (
        # The runs that ended with a confident verdict: p99 16.6 ms on 130 us, +823 %, and -74 % unexplained.
        (slow_run(p99=127.7), "TR903", "p99 is 128 x the median", "measure longer (--duration) on a quiet machine"),
        (slow_run(profiled=9.23)._replace(gpu=True), "TR908", "the profiler cost +823 %", "lock the GPU's clocks"),
        (lost_to_nobody(-0.74), "TR909", "unexplained -74 %", "measure longer"),
        (faster(0.5), "TR901", "1 layer faster than the floor", "measure the ceilings again with --recalibrate"),
    ):  # fmt: skip
        with subtests.test(code):
            findings = diagnose(case)
            first = findings[0]
            assert (first.code, first.kind, first.severity, first.brief) == (code, "trust", "critical", brief)
            assert "there is no verdict" in first.evidence
            said = verdict(case, findings, 1_000_000)
            assert said.startswith(f"no verdict: {brief}")
            assert f"; measure again: {how}" in said
            assert "suspect" not in said


def test_under_its_limit_a_doubt_is_told_and_the_verdict_stands(subtests: pytest.Subtests) -> None:
    for case, code, brief in (
        (slow_run(p99=2.5), "TR903", "p99 is 2.5 x the median"),
        (slow_run(profiled=2.05)._replace(gpu=True), "TR908", "the profiler cost +105 %"),
        (lost_to_nobody(-0.2), "TR909", "unexplained -20 %"),
    ):
        with subtests.test(code):
            findings = diagnose(case)
            trust = [(one.code, one.severity, one.brief) for one in findings if one.kind == "trust"]
            assert trust == [(code, "warning", brief)]
            assert "likely cause RL101" in verdict(case, findings, 1_000_000)
    assert [one for one in diagnose(slow_run(p99=1.9, profiled=1.4)) if one.kind == "trust"] == []


def test_a_cause_under_disturbed_ceilings_is_less_sure() -> None:
    case = slow_run()
    sure = next(one.confidence for one in diagnose(case) if one.kind != "trust")
    disturbed = ceilings(case, cpus=2, others_cpus=0.5)
    unsure = next(one.confidence for one in diagnose(disturbed) if one.kind != "trust")
    assert unsure == pytest.approx(sure * THRESHOLDS.doubt, abs=0.01)
    assert bound_reason(case, diagnose(case)) == ""


def test_a_bound_that_the_latency_beats_is_not_shown() -> None:
    case = slow_run()
    for factor, reason in ((1.001, ""), (0.999, "is above the measured latency")):
        latency = msgspec.structs.replace(case.latency, median_ns=round(case.attainable_ns * factor))
        found = bound_reason(case._replace(latency=latency), ())
        assert bool(found) == bool(reason)
        assert reason in found
        # On a GPU layers may overlap, so that the latency says nothing of their sum.
        assert not bound_reason(case._replace(latency=latency, gpu=True), ())


def test_every_doubt_says_what_it_is_in_a_few_words() -> None:
    trust = [one for case in FIRES.values() for one in diagnose(case) if one.kind == "trust"]
    assert {one.code for one in trust} >= {f"TR9{number:02}" for number in (1, 2, 3, 5, 6, 7, 8, 9)}
    for one in trust:
        assert 0 < len(one.brief) <= 50, one
        beyond = "no verdict" in one.evidence or one.code in ("TR902", "TR907")
        assert one.severity == ("critical" if beyond else "warning")


def test_medians_that_do_not_add_up_are_doubted_and_no_gap() -> None:
    """Layers of a fifth of the latency, kernels of all of it: what six of sixteen runs called host gaps."""
    case = make_case(BIG)
    ns = case.layers[0].measured_ns
    latency = msgspec.structs.replace(case.latency, median_ns=5 * ns, p99_ns=5 * ns)
    rows = build_ledger(case.layers, {}, latency, msgspec.structs.replace(CEILINGS, call_ns=0.0), adding_ns=4 * ns)
    spread = case._replace(latency=latency, profiled=latency, ledger=rows, profiled_gap_ns=0)
    assert not found(spread, "HO501")
    (told,) = found(spread, "TR909")
    assert (told.severity, told.brief) == ("critical", "medians of layers miss +80 %")


@given(
    m=st.integers(1, 300),
    n=st.integers(1, 300),
    k=st.integers(1, 300),
    batch=st.sampled_from([1, 7, 4096]),
    dtype=st.sampled_from(["fp32", "fp16", "int8"]),
    kernel=st.sampled_from([SM50_GEMV, SM50_SIMT, SM80_SIMT, SM80_TENSOR, GEMV, SPLIT_K, "a_kernel_of_nobody"]),
    slug=st.sampled_from(["rtx-4090", "a100-sxm4-40gb", "t4", "gtx-1650", "b200"]),
    slow=st.floats(0.9, 50),
)
def test_findings_of_any_product_claim_no_more_than_was_lost(
    m: int, n: int, k: int, batch: int, dtype: str, kernel: str, slug: str, slow: float
) -> None:
    one = Timed(product(m, n, k, batch=batch, dtype=dtype), slow)
    case = run_case(one, {kernel: 0.7, SPLIT_K: 0.3}, on(slug))
    findings = [finding for finding in diagnose(case) if finding.code in BY_KERNEL and finding.code != "PR801"]
    assert sum(finding.lost_ns for finding in findings) <= max(lost(case), 0)
    # A rule that is silent says why, and one that speaks has nothing to excuse.
    for code in BY_KERNEL:
        rule = RULES.get(code)
        assert rule is not None
        assert bool(reason(case, code)) != bool(list(rule.check(case)))


@given(slow=st.floats(0.95, 1.4), kernel=st.sampled_from([SM50_GEMV, SM80_SIMT, SM80_TENSOR, GEMV]))
def test_a_kernel_that_attains_what_healthy_ones_do_is_never_a_finding(slow: float, kernel: str) -> None:
    for one in (product(1, 8192, 8192), product(1001, 1001, 1001, batch=8), DEPTH):
        findings = diagnose(run_case(Timed(one, slow), kernel, on("l4")))
        assert [finding.code for finding in findings if finding.code in BY_KERNEL and finding.code != "PR801"] == []


def test_padding_makes_more_work_of_what_it_touches() -> None:
    """Three input channels padded to eight: 2.7 times the multiply-accumulates, but as many bytes of results."""
    (one,) = run_case(Timed(convolved(3, 64, size=224, dtype="fp16"), 3.0), SM80_TENSOR, on("l4")).layers
    image = product_of(one)
    assert image is not None
    assert (image.padded(8), image.padding(8)) == ((8 / 3, 1.0), 8 / 3)
    assert one.attainable_ns is not None
    assert one.work is not None
    inputs = one.work.bytes_read - one.work.bytes_parameters
    more = (inputs + one.work.bytes_parameters) * 8 / 3 + one.work.bytes_written
    assert padded_ns(one, image, 8) == pytest.approx(one.attainable_ns * more / one.work.bytes, rel=1e-3)


def test_dimensions_give_the_work_that_was_counted() -> None:
    across = layer("g", "Gemm", (tensor("a", 64, 16), tensor("b", 32, 64)), (tensor("y", 16, 32),),
                   attributes={"transA": 1, "transB": 1})  # fmt: skip
    for one, expected in (
        (gemv(), Product(1, 1, 64, 960_000, 64)), (product(128, 256, 512), Product(128, 256, 512, 1, 512)),
        (product(16, 32, 64, batch=12), Product(16, 32, 64, 12, 64)), (across, Product(16, 32, 64, 1, 64)),
        (layer("v", "MatMul", (tensor("a", 64), tensor("b", 64, 32)), (tensor("y", 32),)), Product(1, 32, 64, 1, 64)),
        (convolved(64, 128, group=4), Product(8 * 56 * 56, 32, 16 * 9, 4, 16, convolution=True)),
    ):  # fmt: skip
        work = work_of(one.op)
        assert product_of(make_case(Timed(one)).layers[0]) == expected, one.name
        assert work is not None
        assert expected.flops == work.tensor_flops, one.name
    assert product_of(make_case(Timed(relu("r", "x", "y"))).layers[0]) is None
