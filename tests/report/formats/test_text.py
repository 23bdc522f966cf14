from __future__ import annotations

import re
import sys
from types import FrameType

import msgspec
import pytest

from tests.fakes.report_factory import CASES, make_run, many, of_engine, on_gpu, one_layer, typical
from tests.fakes.support import columns
from trtprof.base import units
from trtprof.base.records import ClockSummary, Confirmation, CounterCheck, CpuUse, LedgerRow, Match, Run
from trtprof.report import ReportOptions, get
from trtprof.report._format import next_command
from trtprof.report.content._views import view_of
from trtprof.report.content.run import LINES

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def text(run: Run, **options: object) -> str:
    return get("text").render(run, ReportOptions(**options))  # type: ignore[arg-type]


def test_never_wider_than_asked_and_at_the_usual_width_a_screen(subtests: pytest.Subtests) -> None:
    for case in CASES:
        for width in [1, 7, 40, 50, 63, 64, 75, 76, 80, 100, 200]:
            with subtests.test(case=case, width=width):
                run = CASES[case]() if case != "many" else many(300)
                for ascii_only in (False, True):
                    lines = text(run, width=width, ascii=ascii_only).splitlines()
                    # Words wrap; only names by others can make them more than a screen.
                    assert len(lines) <= LINES or width < 80 or case == "hostile"
                    assert max(map(columns, lines)) <= width
                    assert not any(line != line.rstrip() for line in lines)


@pytest.mark.parametrize("width", [60, 80])
def test_at_60_columns_the_same_words_stand_as_at_80(width: int) -> None:
    """Nothing but names and heads is cut: it wraps at words."""
    run = msgspec.structs.replace(typical(), lacking=("no model", "no clock"))
    said = " ".join(text(run, width=width, by="type").split("WHERE IT GOES")[0].split())
    assert "less sure: no model, no clock (explained by: trtprof rules TR010)" in said
    assert "on this CPU, without 1 layer that no cost model covers: at most 1.92x faster" in said
    after = " ".join(text(run, width=width).partition("CAUSES")[2].split())
    assert "work not known: NonMaxSuppression x1, 0.9 % of kernel time" in after
    assert "…" not in after


def test_the_latency_is_always_shown_and_attribution_where_it_is_too_little(subtests: pytest.Subtests) -> None:
    for case in CASES:
        with subtests.test(case=case):
            run = CASES[case]()
            shown = " ".join(text(run).split())
            share = run.coverage
            assert ("attributed to nodes: exact" in shown) == (share.exact + share.inferred < 0.95)
            assert f"LATENCY {units.format_ns(run.latency.median_ns)} (p50 " in shown
            assert not re.search(r"\bcv\b", shown)


def test_the_questions_are_answered_in_their_order() -> None:
    lines = text(typical()).splitlines()
    labels = ("LATENCY", "BOUND", "TRUST", "WHERE IT GOES", "CAUSES", "DO NEXT", "IGNORED")
    at = [next(at for at, line in enumerate(lines) if line.startswith(label)) for label in labels]
    assert at == sorted(at)
    assert not any(line.startswith("KERNEL?") for line in lines), "on a CPU there is no custom kernel"


def shared(**changes: object) -> Run:
    """A run whose latency beside other processes was 9.42 ms."""
    use = CpuUse(cpus=2, seconds=3.0, own_cpus=1.2, others_cpus=0.9, others=3, waits=True, waited=0.62)
    latency = {"p10_ns": 5_600_000, "min_ns": 4_900_000, "undisturbed_reason": "no inference had its cores", **changes}
    run = msgspec.structs.replace(typical(), cpu_use=use)
    return msgspec.structs.replace(run, latency=msgspec.structs.replace(run.latency, **latency))


def test_the_latency_says_what_is_known_of_the_undisturbed_machine() -> None:
    def line(run: Run, label: str) -> str:
        return text(run, width=1000).partition(f"{label} ")[2].partition("\n")[0].strip()

    unknown = shared()
    assert line(unknown, "LATENCY").startswith("9.42 ms (p10 5.60, p50 9.42, p99 10.3 ms), 106 inferences/s; when")
    assert "when nothing else runs: unknown, no inference had its cores" in line(unknown, "LATENCY")
    assert "x faster" not in line(unknown, "BOUND"), "the factor would promise the time of others"
    words = "3 other processes want these 2 cores: 62 % of this run's CPU time went to them"
    assert line(unknown, "TRUST").startswith(f"fair: {words}; the fastest tenth took 4.90 to 5.60 ms")
    clean = shared(undisturbed_ns=6_000_000, undisturbed_basis="inferences", undisturbed_n=66, undisturbed_reason="")
    assert line(clean, "LATENCY").startswith("6.00 ms, 66 of 200 inferences undisturbed; as shared p10 5.60, p50 9.42")
    assert "at most 1.22x faster" in line(clean, "BOUND")
    assert "fastest tenth" not in line(clean, "TRUST")
    layers = shared(
        undisturbed_ns=9_800_000, undisturbed_low_ns=9_100_000, undisturbed_high_ns=10_600_000,
        undisturbed_basis="layers", undisturbed_reason="", regimes="two speeds: 5.6 and 9.4 ms",
    )  # fmt: skip
    estimate = "; ~9.80 ms (9.10 ms to 10.6 ms) when nothing else runs, estimated from its layers; two speeds"
    assert estimate in line(layers, "LATENCY")
    quiet = msgspec.structs.replace(
        shared(undisturbed_reason=""),
        cpu_use=CpuUse(cpus=2, seconds=3.0, own_cpus=1.9, others_cpus=0.01, others=0, waits=True, waited=0.001),
        findings=(),
    )
    assert line(quiet, "TRUST") == "good: nothing else used these 2 cores"
    speeds = {"undisturbed_reason": "two speeds: 5.6 and 9.4 ms", "regimes": "two speeds: 5.6 and 9.4 ms"}
    differ = msgspec.structs.replace(quiet, latency=msgspec.structs.replace(quiet.latency, **speeds))
    assert line(differ, "LATENCY").endswith("inferences/s; two speeds: 5.6 and 9.4 ms")
    far = msgspec.structs.replace(quiet.latency, undisturbed_reason="the cores were far apart")
    apart = msgspec.structs.replace(quiet, latency=far)
    assert line(apart, "TRUST") == "fair: nothing else used these 2 cores, but the cores were far apart"
    assert "unknown, the cores were far apart" in line(apart, "LATENCY")
    assert "at most 1.92x faster" in line(differ, "BOUND")
    none = msgspec.structs.replace(quiet, bound_reason="the model beats it")
    assert line(none, "BOUND") == "none: the model beats it"


def test_random_inputs_that_decide_shapes_stand_on_the_third_line() -> None:
    run = typical()
    said = "random values of speed = 0.27 decide shapes: give real ones with --loadInputs"
    model = msgspec.structs.replace(run.model, assumptions=("inputs are random (seed 0)", said))
    shown = text(msgspec.structs.replace(run, model=model), width=200).splitlines()
    assert shown[2] == f"ASSUMED   {said}"
    assert "ASSUMED" not in text(run)


def test_layer_times_that_other_processes_shared_are_marked() -> None:
    run = shared()
    assert run.cpu_use is not None
    use = msgspec.structs.replace(run.cpu_use, layers_basis="shared")
    said = "other processes shared the CPUs: measured times may be too long"
    assert said in text(msgspec.structs.replace(run, cpu_use=use))
    assert said not in text(run)


def test_layers_below_the_step_of_the_profiler_took_less_than_it() -> None:
    run = typical()
    last = run.layers[-1]
    none = msgspec.structs.replace(last, measured_ns=0, lost_ns=-(last.attainable_ns or 0))
    run = msgspec.structs.replace(run, layers=(*run.layers[:-1], none))
    shown = text(run, top=len(run.layers), width=120).splitlines()
    assert next(line for line in shown if "/post/Nms" in line and "<1 " in line).split()[-1] == "-"


def asking(*dims: int | str, said: tuple[str, ...] = ()) -> Run:
    run = typical()
    one = msgspec.structs.replace(run.model.inputs[0], declared=dims)
    model = msgspec.structs.replace(run.model, inputs=(one,), assumptions=said)
    return msgspec.structs.replace(run, model=model, command="trtprof run models/tinynet.onnx --batch 1")


def test_the_head_says_where_the_dimensions_are_from() -> None:
    fixed = text(asking(1, 3, 224, 224))
    assert fixed.startswith("tinynet.onnx   x 1x3x224x224 fp32 (all dims fixed by the model)\n")
    assert "(dims as asked for)" in text(asking("N", 3, 224, 224))
    said = "dynamic dimension 'N' (a batch, index 0 of input 'x') was not given: 1 assumed"
    unnamed = "an unnamed dynamic dimension (a spatial dimension, index 2 of input 'x') was not given: 224 assumed"
    unnamed += ", since it is what works"
    assumed = text(asking("N", 3, "?", 224, said=(said, unnamed)))
    assert "\nASSUMED   N=1, x[2]=224; give yours: --shapes=x:1x3x224x224\n" in assumed
    assert "as asked" not in assumed


def test_where_doubts_forbid_a_verdict_there_is_no_cause_and_nothing_to_win() -> None:
    run = typical()
    grave = msgspec.structs.replace(run.findings[2], severity="critical", brief="the profiler cost +823 %")
    withheld = msgspec.structs.replace(
        run, verdict="no verdict: the profiler cost +823 %", findings=(grave, *run.findings[:2])
    )
    shown = " ".join(text(withheld).split())
    assert "TRUST low: the profiler cost +823 %" in shown
    assert "CAUSES none named: the numbers are not good enough, see TRUST DO NEXT 1. read its time" in shown
    assert "x faster" not in shown
    assert run.findings[0].title not in shown
    uncovered = msgspec.structs.replace(run, verdict="no verdict: only 3 % is attributed", findings=())
    assert "TRUST low: only 3 % is attributed" in " ".join(text(uncovered).split())
    assert "TRUST good: nothing speaks against" in " ".join(text(one_layer()).split())


def test_what_helps_several_is_said_once_with_one_command() -> None:
    run = typical()
    rows = view_of(run, "layer").rows
    small = msgspec.structs.replace(
        run.findings[0], code="RL101", lost_ns=1000, layers=rows[0].members, try_="raise the batch"
    )
    large = msgspec.structs.replace(run.findings[0], layers=rows[2].members, try_="raise the batch")
    large = msgspec.structs.replace(large, command="trtprof try m.onnx --only OC200")
    shown = text(msgspec.structs.replace(run, findings=(large, small)))
    assert "\nDO NEXT   1. row 3 and row 1: raise the batch\n             trtprof try m.onnx --only OC200\n" in shown
    assert next_command(msgspec.structs.replace(run, findings=(large, small))) == "trtprof try m.onnx --only OC200"
    assert next_command(msgspec.structs.replace(run, findings=(large,), verdict="no verdict: noise")) == ""
    fixed = msgspec.structs.replace(asking(8, 3, 224, 224), findings=(large, small))
    assert "the batch of this model is fixed: export it again" in " ".join(text(fixed).split())
    wide = msgspec.structs.replace(large, layers=(*large.layers, *rows[-1].members))
    assert "row 3 and 1 more layer: " in " ".join(text(msgspec.structs.replace(run, findings=(wide,))).split())


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_a_report_takes_steps_in_proportion_to_its_layers(form: str) -> None:
    """Counted in calls of functions and resumed generators."""

    def steps(count: int) -> int:
        run, made = many(count), 0

        def counted(frame: FrameType, event: str, argument: object) -> None:
            nonlocal made
            made += event == "call"

        render = get(form).render
        before = sys.getprofile()
        sys.setprofile(counted)
        try:
            render(run, ReportOptions())
        finally:
            sys.setprofile(before)
        return made

    steps(1)
    assert steps(2_000) < 5 * steps(500)


def test_colour_only_adds_escapes() -> None:
    run = typical()
    plain, coloured = text(run), text(run, color=True)
    assert "\x1b[" not in plain
    assert "\x1b[" in coloured
    assert ANSI.sub("", coloured) == plain


def test_facts_estimates_and_causes_look_different() -> None:
    run = one_layer()
    only = run.layers[0]
    row = next(line for line in text(run).splitlines() if re.search(r" MatMul \S*  /MatMul ", line))
    measured, estimate = row.split("|")
    assert units.in_unit(only.measured_ns, 1e6) in measured.split()
    assert estimate.split() == [
        units.in_unit(only.attainable_ns or 0, 1e6), "compute", units.in_unit(only.lost_ns or 0, 1e6)
    ]  # fmt: skip
    head = next(line for line in text(run).splitlines() if line.startswith("WHERE IT GOES"))
    assert head.index("MEASURED") < head.index("|") < head.index("~ESTIMATE")
    assert "BOUND     ~3.36 ms on this CPU" in text(run)
    assert "OC200?" in text(run, top=1)
    trust = text(typical(), top=10)
    assert "TR010!" in trust
    assert "TR010?" not in trust
    assert "=" in next(line for line in text(run, ledger=True).splitlines() if "unexplained" in line)
    assert text(run, ledger=True).splitlines()[-1].startswith("marks")
    assert "marks" not in text(run)


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
    assert "1 layer without a cost model" in shown
    assert "NonMaxSuppression" in shown
    rows = text(run, top=len(run.layers), width=120).splitlines()
    nms = next(line for line in rows if "/post/Nms" in line)
    assert nms.split("|")[1].split() == ["-", "unknown", "-"]


def test_no_sample_is_not_a_latency_of_zero() -> None:
    run = one_layer()
    without = msgspec.structs.replace(run, latency=msgspec.structs.replace(run.latency, median_ns=0, n=0))
    assert "no sample of the latency was taken" in text(without)
    assert "0 ns" not in text(without).partition("WHERE")[0]


def test_the_ledger_stands_where_it_is_asked_for_with_all_its_rows() -> None:
    rows = tuple(LedgerRow(cause=f"cause {i}", ns=(i + 1) * 1_000_000, kind="fact") for i in range(30))
    run = make_run(ledger=rows, latency=msgspec.structs.replace(make_run().latency, median_ns=465_000_000))
    assert "ledger" not in text(run)
    shown = text(run, ledger=True)
    assert all(f"cause {i}" in shown for i in range(30))
    assert "adds up" in shown


def doubted(*briefs: str) -> Run:
    run = typical()
    return msgspec.structs.replace(
        run, findings=tuple(msgspec.structs.replace(run.findings[2], brief=brief) for brief in briefs)
    )


def test_all_doubts_are_named() -> None:
    briefs = ("p99 is 128 x the median", "the profiler cost +823 %", "unexplained -74 %, medians of layers miss +11 %")
    for options in ({}, {"top": 10}):
        shown = text(doubted(*briefs), **options)
        assert f"TRUST fair: {'; '.join(briefs)} (explained by" in " ".join(shown.split())
    many = " ".join(text(doubted(*(f"doubt number {at}" for at in range(20)))).split())
    assert "doubt number 19 (explained by" in many


def test_inferred_matches_and_fused_nodes_are_marked() -> None:
    shown = text(typical(), top=50, width=140)
    assert re.search(r"FusedConv 1x64x56x56  \S+/Relu \+1 ", shown)
    assert re.search(r" ReorderOutput 1x64x56x56  reorder_1 .* layout ", shown)
    run = one_layer()
    inferred = msgspec.structs.replace(run.layers[0], match="inferred")
    assert "  ~/MatMul " in text(msgspec.structs.replace(run, layers=(inferred,)))


def test_an_engine_is_not_spoken_of_as_a_cpu() -> None:
    shown = text(of_engine(typical()))
    assert "tensorrt on Example GPU, " in shown
    assert "thread" not in shown
    assert "their sum, not an end-to-end latency" in shown
    assert "of layer time" in shown
    assert "adds up to the sum of the layers" in text(of_engine(typical()), ledger=True)
    assert "at peaks not measured: datasheet example.toml, dense peaks" in " ".join(shown.split())
    assert "llc" not in shown


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
    row = "clocks SM 1,410 MHz (1,395 to 1,740), 299 W, 71 C, power cap 93 % of the time"
    assert row in " ".join(text(run).split())
    assert "clocks    SM 1,410 MHz" in text(run, width=40)
    for width in (40, 80, 120):
        lines = text(run, width=width).splitlines()
        assert max(map(columns, lines)) <= width
    profiled_alone = msgspec.structs.replace(
        run, clocks=ClockSummary(samples=0, duration_ns=0, notes=("no NVML here",))
    )
    assert "clocks    SM 1,740 MHz\n" in text(profiled_alone)
    assert "clocks    no NVML here\n" in text(msgspec.structs.replace(profiled_alone, clocks_profiled=None))
    assert "clocks " not in text(typical())
