from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.base import units
from profiler.base.records import ClockSummary, Confirmation, CounterCheck, LedgerRow, Match, Run
from profiler.report import ReportOptions, get
from tests.fakes.report_factory import (
    CASES,
    HOSTILE_NAMES,
    all_unmatched,
    hostile,
    layer,
    make_run,
    many,
    of_engine,
    on_gpu,
    one_layer,
    typical,
)
from tests.fakes.support import ROOT, columns, golden

GOLDEN = ROOT / "tests/report/golden"
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def text(run: Run, **options: object) -> str:
    return get("text").render(run, ReportOptions(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize("case", CASES)
def test_golden_at_80_columns(case: str) -> None:
    made = text(CASES[case]())
    golden(GOLDEN / f"{case}.txt", made)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("width", [1, 7, 40, 50, 63, 64, 75, 76, 80, 100, 200])
def test_at_most_25_lines_and_never_wider_than_asked(case: str, width: int) -> None:
    run = CASES[case]() if case != "many" else many(300)
    for ascii_only in (False, True):
        lines = text(run, width=width, ascii=ascii_only).splitlines()
        assert len(lines) <= 25
        assert max(map(columns, lines)) <= width
        assert not any(line != line.rstrip() for line in lines)


@pytest.mark.parametrize("case", CASES)
def test_coverage_and_latency_are_always_shown(case: str) -> None:
    run = CASES[case]()
    shown = text(run)
    coverage = next(line for line in shown.splitlines() if line.startswith("coverage"))
    for share in (run.coverage.exact, run.coverage.inferred, run.coverage.unattributed):
        assert units.format_percent(share) in coverage
    assert f"{units.format_ns(run.latency.median_ns)} median" in shown
    assert f"n {run.latency.n}" in shown


def test_hostile_names_put_no_control_character_on_the_terminal() -> None:
    shown = text(CASES["hostile"](), top=len(HOSTILE_NAMES))
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert r"\x1b[31m" in text(CASES["hostile"](), top=20, width=200)


@given(name=st.text(max_size=60), op=st.text(max_size=20), width=st.integers(40, 120), ascii_only=st.booleans())
@settings(max_examples=150, deadline=None)
def test_any_name_keeps_the_layout(name: str, op: str, width: int, ascii_only: bool) -> None:
    run = make_run((layer(name, op, flops=1000, nbytes=1000, slow=2.0),), verdict=name)
    shown = text(run, width=width, ascii=ascii_only)
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert max(map(columns, shown.splitlines())) <= width
    assert not ascii_only or shown.isascii()


def test_colour_only_adds_escapes() -> None:
    run = typical()
    plain, coloured = text(run), text(run, color=True)
    assert "\x1b[" not in plain
    assert "\x1b[" in coloured
    assert ANSI.sub("", coloured) == plain


def test_facts_estimates_and_causes_look_different() -> None:
    run = one_layer()
    only = run.layers[0]
    row = next(line for line in text(run).splitlines() if re.search(r" MatMul \S*/MatMul$", line))
    assert row.split()[:6] == [
        *f"~{units.format_ns(only.lost_ns or 0)}".split(),
        *units.format_ns(only.measured_ns).split(),
        *f"~{units.format_ns(only.attainable_ns or 0)}".split(),
    ]
    assert "OC200?" in text(run)
    trust = text(typical(), top=10)
    assert "TR010!" in trust
    assert "TR010?" not in trust
    assert "=" in next(line for line in text(run).splitlines() if "unexplained" in line)
    assert text(run).splitlines()[-1].startswith("marks")


def test_rows_keep_the_rank_of_the_run_and_top_limits_them() -> None:
    run = many(300)
    shown = text(run, top=12, width=200)
    rows = [line for line in shown.splitlines() if "/model/layers." in line]
    assert len(rows) == 12
    assert [re.search(r"\S*layers\.\S+", row)[0] for row in rows] == [one.nodes[-1] for one in run.layers[:12]]  # type: ignore[index]
    assert "12 of 300 layers" in shown


def test_layers_without_an_estimate_are_counted_not_zero() -> None:
    run = typical()
    shown = text(run)
    assert "1 layer unpriced" in shown
    assert "NonMaxSuppression" in shown
    rows = text(run, top=len(run.layers), width=120).splitlines()
    nms = next(line for line in rows if "/post/Nms" in line)
    assert nms.split()[0] == "-"


def test_no_estimate_is_said_and_a_verdict_can_be_withheld() -> None:
    shown = text(all_unmatched())
    assert "unknown: no layer has an estimate" in shown
    assert "unattributed 100.0 %" in shown
    assert "verdict   Withheld" in shown


def test_no_sample_is_not_a_latency_of_zero() -> None:
    run = one_layer()
    without = msgspec.structs.replace(run, latency=msgspec.structs.replace(run.latency, median_ns=0, n=0))
    assert "no sample of the latency was taken" in text(without)
    assert "0 ns median" not in text(without)


def test_a_long_ledger_is_folded_without_losing_a_nanosecond() -> None:
    rows = tuple(LedgerRow(cause=f"cause {i}", ns=(i + 1) * 1_000_000, kind="fact") for i in range(30))
    run = make_run(ledger=rows, latency=msgspec.structs.replace(make_run().latency, median_ns=465_000_000))
    shown = text(run)
    assert len(shown.splitlines()) <= 25
    rest = next(line for line in shown.splitlines() if "19 smaller rows" in line)
    assert units.format_ns(sum(range(1, 20)) * 1_000_000) in rest
    assert "adds up" in shown


def test_a_ledger_that_does_not_close_is_told() -> None:
    run = one_layer()
    broken = msgspec.structs.replace(run, ledger=run.ledger[:-1])
    missing = run.ledger[-1].ns
    assert f"misses the median by {units.format_ns(missing)}" in text(broken)


def test_a_critical_doubt_is_the_first_finding() -> None:
    run = typical()
    doubt = msgspec.structs.replace(run.findings[2], severity="critical")
    shown = text(msgspec.structs.replace(run, findings=(*run.findings[:2], doubt)), top=10)
    assert shown.index("TR010!") < shown.index("OC301?")


def doubted(*briefs: str) -> Run:
    run = typical()
    return msgspec.structs.replace(
        run, findings=tuple(msgspec.structs.replace(run.findings[2], brief=brief) for brief in briefs)
    )


def test_what_is_doubtful_stands_directly_under_the_latency_and_nothing_where_all_is_well() -> None:
    briefs = ("p99 is 128 x the median", "the profiler cost +823 %", "unexplained -74 %, medians of layers miss +11 %")
    for options in ({}, {"top": 10}):
        lines = text(doubted(*briefs), **options).splitlines()
        at = next(at for at, line in enumerate(lines) if line.startswith("measured"))
        assert lines[at + 1] == "trust     ! p99 is 128 x the median; the profiler cost +823 %;"
        assert lines[at + 2].strip() == "unexplained -74 %, medians of layers miss +11 %"
    assert not [line for line in text(doubted()).splitlines() if line.startswith("trust")]
    # Where there are more than two lines hold, they are counted.
    many = text(doubted(*(f"doubt number {at}" for at in range(20)))).splitlines()
    assert many[4].endswith("more")
    assert many[5].startswith("allowed")


def test_inferred_matches_and_fused_nodes_are_marked() -> None:
    shown = text(typical(), top=50, width=140)
    assert re.search(r"Conv \S+ \+1$", shown, re.MULTILINE)
    assert re.search(r" ~ReorderOutput \(layout\) reorder_1$", shown, re.MULTILINE)


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_an_engine_has_its_plan_below_and_no_line_is_wider_than_asked(width: int, ascii_only: bool) -> None:
    for run in (of_engine(typical()), of_engine(hostile(), HOSTILE_NAMES)):
        lines = text(run, width=width, ascii=ascii_only).splitlines()
        assert all(columns(line) <= width for line in lines)
        assert any(line.startswith("fusions that did not happen") for line in lines)
        assert any(line.startswith("by kind") for line in lines)
        assert all(line.isprintable() for line in lines)
        assert not ascii_only or all(line.isascii() for line in lines)


def test_an_engine_is_not_spoken_of_as_a_cpu() -> None:
    shown = text(of_engine(typical()))
    assert "tensorrt on Example GPU  " in shown
    assert "thread" not in shown
    assert "their sum, not an end-to-end latency" in shown
    assert "of layer time" in shown
    assert "adds up to the sum of the layers" in shown
    assert "ceilings  datasheet example.toml, dense peaks" in shown
    assert "llc" not in shown


def test_the_cost_of_the_profiler_is_told_in_as_many_words_as_fit() -> None:
    run = typical()
    assert "n 200; profiled +4.0 %\n" in text(run)
    assert "n 200; profiled 9.80 ms (+4.0 %)\n" in text(run, width=100)
    faster = msgspec.structs.replace(run, profiled=msgspec.structs.replace(run.profiled, median_ns=9_000_000))
    assert "profiled -4.5 %" in text(faster)
    for changes in ({"latency": run.profiled}, {"latency": of_engine(run).latency}):
        assert "; profiled" not in text(msgspec.structs.replace(run, **changes))


def test_what_counters_say_is_listed_by_layer() -> None:
    checks = (
        CounterCheck(what="DRAM bytes", verdict="confirmed", reason="48.8 MB counted, 47.2 to 50.3 MB predicted"),
        CounterCheck(what="math unit", verdict="not told", reason="the counter was not taken"),
    )
    one = Confirmation(layer="conv1", verdict="confirmed", checks=checks, launches=3, match="exact", reason="its name")
    page = text(msgspec.structs.replace(typical(), confirmations=(one,)))
    assert "\ncounters  predictions held against ncu\nconfirmed  conv1\n" in page
    assert "\n           DRAM bytes: 48.8 MB counted, 47.2 to 50.3 MB predicted\n" in page
    assert "math unit" not in page
    assert "counters " not in text(typical())


def test_kernels_of_no_layer_are_listed_with_their_reason() -> None:
    kernels = tuple(
        Match(
            layer=None, kernel=f"kernel_{number}", count=3, median_ns=1000, total_ns=1000 * number, confidence="none",
            reason="no range holds its launch",
        )
        for number in range(1, 8)
    )  # fmt: skip
    run = msgspec.structs.replace(of_engine(typical()), kernels_unattributed=kernels)
    lines = text(run).splitlines()
    at = lines.index("kernels of no layer: 5 of 7, by time in the capture")
    assert lines[at + 1] == "   7.00 us        3 x  kernel_7"
    assert lines[at + 2].strip() == "no range holds its launch"
    assert "kernel_2" not in "\n".join(lines[at:])
    assert max(map(columns, text(run, width=40).splitlines())) <= 40
    assert "kernels of no layer" not in text(typical())


def test_parts_of_the_latency_and_outputs_of_a_gpu_are_rows_of_the_headline() -> None:
    run = on_gpu()
    whole = text(run, width=100)
    assert "parts     GPU 9.00 ms, copies 210 us to it and 18.0 us back; as a CUDA graph 8.10 ms\n" in whole
    assert "outputs   1 of 2 WRONG: logits (float32): an element is 10 times as far off as allowed\n" in whole
    right = msgspec.structs.replace(run, checks=run.checks[1:])
    assert "outputs   1 of 1 as ONNX Runtime's on the CPU\n" in text(right)
    assert "outputs " not in text(typical())
    assert "parts " not in text(typical())


def test_clocks_of_a_gpu_are_one_row_of_the_headline() -> None:
    run = on_gpu()
    row = "clocks    SM 1,410 MHz (1,395 to 1,740), 299 W, 71 C, power cap 93 % of the time"
    assert f"{row}\n" in text(run)
    assert "clocks    SM 1,410 MHz" in text(run, width=40)
    for width in (40, 80, 120):
        lines = text(run, width=width).splitlines()
        assert lines.index("") <= 25, "the report above the plan"
        assert max(map(columns, lines)) <= width
    profiled_alone = msgspec.structs.replace(
        run, clocks=ClockSummary(samples=0, duration_ns=0, notes=("no NVML here",))
    )
    assert "clocks    SM 1,740 MHz\n" in text(profiled_alone)
    assert "clocks    no NVML here\n" in text(msgspec.structs.replace(profiled_alone, clocks_profiled=None))
    assert "clocks " not in text(typical())
