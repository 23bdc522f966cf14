from __future__ import annotations

import itertools
import json
import re
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from tests.fakes.page_factory import with_panels
from tests.fakes.report_factory import (
    CASES,
    HOSTILE_NAMES,
    SCRIPT,
    hostile,
    layer,
    make_run,
    many,
    of_engine,
    on_gpu,
    typical,
)
from trtprof.base.records import (
    BarrierPart,
    ClockSummary,
    Confirmation,
    CounterCheck,
    LadderStep,
    PluginCandidate,
    Run,
)
from trtprof.report import ReportOptions, get, render
from trtprof.report._format import perturbation
from trtprof.report._templates import asset, digest, sentence
from trtprof.report.formats._page import page_data
from trtprof.report.terms import TERMS


class Page(HTMLParser):
    """What a browser would see, as far as these tests ask."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.bodies: list[tuple[str, str]] = []
        self.text = ""
        self._inside: str | None = None
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside = tag
            self.bodies.append((tag, ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside:
            tag, body = self.bodies[-1]
            self.bodies[-1] = (tag, body + data)
        else:
            self.text += data


def html(run: Run) -> str:
    return get("html").render(run, ReportOptions())


def shown(source: str) -> str:
    """The page without the licences and definitions at its end, which name much."""
    return source.split('id="words"', maxsplit=1)[0]


@pytest.mark.parametrize("case", [case for case in CASES if case != "many"])
def test_the_page_is_whole_and_asks_for_nothing(case: str) -> None:
    page = Page(html(CASES[case]()))
    assert [tag for tag, _ in page.bodies] == ["script", "style", "script", "script"]
    for tag, attributes in page.tags:
        assert tag not in ("img", "iframe", "object", "embed", "base", "form", "audio", "video")
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "style", "action")]
        if "href" in attributes:
            assert (attributes["href"] or "").startswith(("#", "data:,"))
    theme, style, data, script = (body for _, body in page.bodies)
    assert "@import" not in style
    assert not re.search(r"url\((?!#)", style)
    assert len(json.loads(data)["layers"]) > 10
    policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy") or ""
    assert "default-src 'none'" in policy
    assert f"script-src '{digest(theme)}' '{digest(script)}';" in policy
    assert f"style-src '{digest(style)}'" in policy
    assert "unsafe" not in policy


def data_of(run: Run) -> Any:
    return json.loads(Page(html(run)).bodies[2][1])


def cells(columns: dict[str, Any], name: str, rows: int) -> list[Any]:
    """A column of the page's data, as its script reads it."""
    column = columns[name]
    return [column["all"]] * rows if isinstance(column, dict) else column


@pytest.mark.parametrize("case", [case for case in CASES if case != "many"])
@pytest.mark.parametrize("panels", [False, True])
def test_the_data_block_holds_the_run_unchanged(case: str, panels: bool) -> None:
    run = CASES[case]()
    run = with_panels(run) if panels else run
    data = data_of(run)
    text = data["text"]
    assert len(set(text)) == len(text)

    def words(columns: dict[str, Any], name: str, rows: int) -> list[str]:
        return [text[place] for place in cells(columns, name, rows)]

    def names(refs: list[list[int]], of: list[str]) -> list[tuple[str, ...]]:
        return [tuple(of[ref] if ref >= 0 else text[~ref] for ref in row) for row in refs]

    rows = len(run.layers)
    assert data["rows"]["layers"] == rows
    for name in ("name", "op_type", "role", "bound", "runner_up", "dtype", "match", "reason", "shapes"):
        assert words(data["layers"], name, rows) == [getattr(one, name) for one in run.layers]
    for name in ("measured_ns", "ideal_ns", "attainable_ns", "lost_ns", "flops", "bytes", "constant"):
        assert cells(data["layers"], name, rows) == [getattr(one, name) for one in run.layers]
    node_names, layer_names = [node.name for node in run.nodes], [one.name for one in run.layers]
    assert names(cells(data["layers"], "nodes", rows), node_names) == [one.nodes for one in run.layers]
    for name in {name for one in run.layers for name in one.terms}:
        assert cells(data["terms"], name, rows) == [one.terms.get(name) for one in run.layers]
    work = [one.work for one in run.layers]
    assert cells(data["work"], "known", rows) == [one is not None for one in work]
    for name in ("tensor_flops", "vector_flops", "bytes_read", "bytes_written", "bytes_parameters"):
        assert [n for n, one in zip(cells(data["work"], name, rows), work, strict=True) if one] == [
            getattr(one, name) for one in work if one
        ]
    kernels = [kernel for one in run.layers for kernel in one.kernels]
    assert cells(data["layers"], "kernels", rows) == [len(one.kernels) for one in run.layers]
    for key, found in (("kernels", kernels), ("unattributed", list(run.kernels_unattributed))):
        assert data["rows"][key] == len(found)
        assert words(data[key], "name", len(found)) == [kernel.kernel for kernel in found]
        assert words(data[key], "reason", len(found)) == [kernel.reason for kernel in found]
        for name in ("count", "median_ns", "total_ns"):
            assert cells(data[key], name, len(found)) == [getattr(kernel, name) for kernel in found]
    assert words(data["nodes"], "fate", len(run.nodes)) == [node.fate for node in run.nodes]
    assert words(data["nodes"], "reason", len(run.nodes)) == [node.reason for node in run.nodes]
    assert names(cells(data["nodes"], "layers", len(run.nodes)), layer_names) == [node.layers for node in run.nodes]
    assert [[layer_names[place] for place in one["layers"]] for one in data["findings"]] == [
        [name for name in one.layers if name in layer_names] for one in run.findings
    ]
    assert data["latency_ns"] == run.latency.median_ns
    assert [(row["cause"], row["ns"]) for row in data["ledger"]] == [(row.cause, row.ns) for row in run.ledger]


def test_names_that_are_not_in_the_run_are_kept_as_text() -> None:
    run = make_run((layer("a", "Add", flops=1, nbytes=8, slow=2.0, nodes=("a", "gone")),))
    node = msgspec.structs.replace(run.nodes[0], layers=("a", "no layer"))
    data = page_data(msgspec.structs.replace(run, nodes=(node,)))
    assert data["layers"]["nodes"] == [[0, ~data["text"].index("gone")]]
    assert data["nodes"]["layers"] == [[0, ~data["text"].index("no layer")]]


def test_events_of_the_timeline_point_at_ranked_layers_and_edges_stay() -> None:
    run = with_panels(typical())
    assert run.timeline is not None
    assert run.graph is not None
    # The order of the timeline's own layers is not the rank.
    turned = msgspec.structs.replace(run.timeline, layers=run.timeline.layers[::-1])
    data = page_data(msgspec.structs.replace(run, timeline=turned))["timeline"]
    last = len(run.layers) - 1
    assert data["layer"] == [*range(last, -1, -1), -1]
    assert list(itertools.accumulate(data["start_ns"])) == list(run.timeline.start_ns)
    assert data["dur_ns"] == list(run.timeline.dur_ns)
    graph = page_data(run)["graph"]
    assert graph["places"] == list(range(len(run.layers)))
    assert graph["nbytes"] == list(run.graph.nbytes)


def test_a_run_without_timeline_or_graph_says_why() -> None:
    without, with_ = (Page(html(run)) for run in (typical(), with_panels(typical())))
    assert "There is no timeline: nobody recorded when each kernel ran" in without.text
    assert "There is no graph: neither a plan" in without.text
    ids = [{a.get("id") for _, a in page.tags} for page in (without, with_)]
    assert not {"chart-timeline", "chart-graph"} & ids[0]
    assert {"chart-timeline", "chart-graph"} <= ids[1]
    assert "There is no" not in with_.text


def test_hostile_text_stays_text() -> None:
    source = html(hostile())
    assert source.count("<script") == source.count("</script>") == 3
    assert SCRIPT not in source
    assert "\x1b" not in source
    assert "\u202e" not in source
    assert "\0" not in source
    assert "{{ 7 * 7 }}" in Page(source).text
    assert "\\u202egnp.exe" in Page(source).text


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("run again with --recalibrate: it", ["--recalibrate"]),
        ("(--builderOptimizationLevel=5 tries more), -q -d CLOCK", ["--builderOptimizationLevel=5", "-q", "-d"]),
        ("build without --noTF32.", ["--noTF32"]),
        ("a well-known layer--norm is 3 - 2 - x -> y of --", []),
        ("--" + 99 * "a", []),
        ("--<b>", []),
    ],
)
def test_no_line_ends_inside_an_option(text: str, whole: list[str]) -> None:
    made = str(sentence(text))
    assert re.findall(r'<span class="nw">(.*?)</span>', made) == whole
    assert re.sub(r"<[^>]+>", "", made) == text.replace("<", "&lt;").replace(">", "&gt;")


def test_options_in_findings_stay_whole_on_the_page() -> None:
    run = typical()
    found = msgspec.structs.replace(run.findings[0], evidence="seen --evidence=1", try_="try <i> --recalibrate")
    run = msgspec.structs.replace(run, findings=(found,), verdict="no verdict: --again", assumptions=("as --asked",))
    page = html(run)
    for option in ("--evidence=1", "--recalibrate", "--again", "--asked"):
        assert f'<span class="nw">{option}</span>' in page
    assert "try &lt;i&gt; <span" in page


def test_the_page_without_data_is_small_and_the_assets_cannot_end_their_block() -> None:
    run = typical()
    source = html(run)
    assert len(source) - len(Page(source).bodies[2][1]) < 900_000
    for name in ("app.js", "theme.js"):
        assert "</script" not in asset(name).lower()
        assert "<!--" not in asset(name)
    assert "</style" not in asset("app.css").lower()


def test_both_ways_into_the_dark_give_the_same_colours() -> None:
    style = asset("app.css")
    by_script = re.search(r'^:root\[data-theme="dark"\] \{(.*?)^\}', style, re.DOTALL | re.MULTILINE)
    by_system = re.search(r"^  :root:not\(\[data-theme\]\) \{(.*?)^  \}", style, re.DOTALL | re.MULTILINE)
    assert by_script
    assert by_system
    assert by_script[1].split() == by_system[1].split()


def test_the_order_of_the_page_is_from_the_verdict_to_the_method() -> None:
    source = html(of_engine(with_panels(typical())))
    sections = ["findings", "ledger", "roofline", "layers", "timeline", "graph", "memory", "nodes", "engine", "method"]
    places = [source.index(f'id="{name}"') for name in ("verdict", *sections)]
    assert places == sorted(places)
    assert [a["href"] for tag, a in Page(source).tags if tag == "a" and "#layer-" not in (a["href"] or "")] == [
        f"#{name}" for name in ("top", *sections)
    ]


def test_every_question_mark_has_its_definition() -> None:
    page = Page(html(of_engine(with_panels(typical()))))
    asked = {a["popovertarget"] for tag, a in page.tags if "popovertarget" in a}
    # Those that the script adds to the heads of its tables.
    asked |= {f"term-{name}" for name in re.findall(r'term:"([\w-]+)"', asset("app.js"))}
    there = {a["id"] for _, a in page.tags if "popover" in a}
    assert there == {f"term-{name}" for name in TERMS}
    assert asked <= there
    assert len(asked) > 25
    for term in TERMS.values():
        assert term.text in page.text
        assert term.text.endswith(".")


def test_candidates_and_counters_stand_with_the_findings() -> None:
    run = typical()
    name = run.layers[0].name
    candidate = PluginCandidate(
        layer=name, nodes=(name,), kernel="old_kernel", measured_ns=9000, reachable_ns=4000, basis="healthy ones",
        recoverable_ns=5000, barrier=(BarrierPart(what="one more launch", ns=1500),), net_ns=3500, net_low_ns=3000,
        net_high_ns=4000, verdict="try first", why="padding is cheaper",
        ladder=(LadderStep(what="pad the channels", command="trtprof run padded.onnx"),),
    )  # fmt: skip
    check = CounterCheck(what="DRAM bytes", verdict="refuted", reason="it read twice what was said")
    confirmed = Confirmation(
        layer=name, verdict="refuted", checks=(check,), launches=3, match="exact", reason="by its name"
    )
    source = html(msgspec.structs.replace(run, candidates=(candidate,), confirmations=(confirmed,)))
    findings = source[source.index('<section id="findings">') : source.index('<section id="ledger">')]
    for words in (
        "~3.50 us net", "padding is cheaper", "gain unknown", "trtprof run padded.onnx", "one more launch",
        "it read twice what was said", 'id="plugins"', 'href="#layer-1"',
    ):  # fmt: skip
        assert words in findings, words
    assert 'id="plugins"' not in html(run)
    assert 'id="counters"' not in html(run)


def test_the_page_says_the_headline_the_causes_and_the_method() -> None:
    run = typical()
    words = " ".join(Page(html(run)).text.split())
    for expected in (
        run.verdict,
        "9.42 ms",
        "99.2 %",
        "OC301?",
        "likely cause",
        "TR010!",
        run.findings[0].evidence,
        run.findings[0].try_,
        "80 %",
        "NonMaxSuppression",
        "The rows add up to the measured median, to the nanosecond",
        "1 folded",
        *run.assumptions,
        run.model.sha256,
        run.ceilings.source,
        "onnxruntime",
    ):
        assert expected in words, expected


def test_a_ledger_that_does_not_close_is_told() -> None:
    run = typical()
    words = Page(html(msgspec.structs.replace(run, ledger=run.ledger[:-1]))).text
    assert "The rows miss the measured median by" in words
    assert "The rows add up" not in words


def test_links_lead_to_the_rank_of_the_layer() -> None:
    run = typical()
    rank = [layer.name for layer in run.layers].index("/features/1/conv") + 1
    assert f'href="#layer-{rank}"' in html(run)


def test_many_findings_are_all_there_but_folded() -> None:
    run = hostile()
    page = Page(html(run))
    assert sum(tag == "article" for tag, _ in page.tags) == len(run.findings)
    assert f"{len(run.findings) - 12} more findings" in page.text


def test_the_cost_of_the_profiler_is_unknown_without_a_latency() -> None:
    run = make_run()
    assert perturbation(run.latency, run.profiled) is None
    seen = msgspec.structs.replace(run.latency, median_ns=100, n=1)
    assert perturbation(seen, msgspec.structs.replace(seen, median_ns=104)) == pytest.approx(0.04)


def rows(source: str) -> dict[str, str]:
    """The page's lists of pairs."""
    return dict(re.findall(r"<dt><bdi>(.*?)</bdi>(?:<button.*?</button>)?</dt><dd><bdi>(.*?)</bdi></dd>", source))


def test_the_cost_of_the_profiler_stands_beside_the_latency() -> None:
    source = html(typical())
    assert "9.80 ms under the profiler (+4.0 %)" in Page(source).text
    assert '(+4.0 %)<button type="button" class="q" popovertarget="term-perturbation"' in source
    assert rows(source)["cost of the profiler"] == "+4.0 %"
    alone = msgspec.structs.replace(typical(), profiled=typical().latency)
    assert 'id="profiled"' not in html(alone)


def test_parts_of_the_latency_and_outputs_stand_beside_the_device() -> None:
    found = rows(html(on_gpu()))
    assert found["cuda graph"] == "8.10 ms median of 200"
    assert found["stream: copies to the GPU"] == "210 us"
    assert "cuda graph: enqueuing" not in found
    assert found["logits (float32)"] == "wrong: an element is 10 times as far off as allowed"
    assert found["probabilities (float32)"] == "off by 2e-05, 0.2 of what is allowed"


def test_clocks_stand_beside_the_device() -> None:
    run = on_gpu()
    source = html(run)
    found = rows(source)
    assert {name: found[name] for name in list(found)[list(found).index("samples") :][:10]} == {
        "samples": "150 in 3.00 s",
        "SM clock": "median 1,410 MHz, 1,395 to 1,740 MHz",
        "memory clock": "median 7,251 MHz, 7,251 to 7,251 MHz",
        "power": "median 299 W, 120 to 301 W",
        "temperature": "median 71 C, 52 to 72 C",
        "energy": "861.2 J",
        "clock held down by": "power cap (93.0 % of the time)",
        "profiled: samples": "3 in 40.0 ms",
        "profiled: SM clock": "median 1,740 MHz, 1,740 to 1,740 MHz",
        "profiled: memory clock": "unknown: the driver does not tell it",
    }
    assert found["profiled: clock held down by"] == "nothing"
    unread = ClockSummary(samples=0, duration_ns=0, notes=("no NVML here",))
    assert rows(html(msgspec.structs.replace(run, clocks=unread, clocks_profiled=None)))["clocks"] == "no NVML here"
    assert "While it was measured" not in Page(html(typical())).text


def test_what_was_measured_here_is_not_told_as_trtexecs() -> None:
    here, files = (Page(shown(html(run))).text for run in (on_gpu(), of_engine(typical())))
    assert "no profiler attached" in here
    assert "trtexec" not in here
    assert "kernel time captured" in here
    assert "layer time profiled" in files


def test_ten_thousand_layers_are_written_compactly() -> None:
    run = many()
    data = Page(html(run)).bodies[2][1]
    assert json.loads(data)["rows"]["layers"] == 10_000
    assert len(data) < len(get("json").render(run, ReportOptions())) / 4


def test_the_strip_says_what_is_known_of_the_clock() -> None:
    def clock(run: Run) -> str:
        return " ".join(Page(html(run)).text.split("Clocks?")[1].split("fact: measured")[0].split())

    assert clock(on_gpu()) == "1,410 MHz SM clock, 1,395 to 1,740 MHz power cap 93 % of the time"
    assert clock(typical()) == "2,200 MHz as the system tells it"
    slowed = msgspec.structs.replace(typical(), speed=0.91)
    assert clock(slowed) == "2,200 MHz as the system tells it 0.91x its speed when the ceilings were measured"
    device = msgspec.structs.replace(typical().device, clock_mhz=None)
    assert clock(msgspec.structs.replace(typical(), device=device)) == "unknown nobody looked while it ran"


def test_the_page_of_an_engine_shows_its_plan_and_speaks_of_no_cpu() -> None:
    source = html(of_engine(typical()))
    for words in (
        '<section id="engine">', "Fusions that did not happen", "Reformats", "Worth checking", "Sum of the layers",
        "not an end-to-end latency", "by the ceilings of the datasheet", "of layer time led back to nodes",
        "<dt><bdi>L2</bdi></dt>", "<dt><bdi>multiprocessors</bdi></dt>", "conv1 + relu1",
    ):  # fmt: skip
        assert words in source, words
    for words in ("thread", "no profiler attached", "measured for this run", "empty call"):
        assert words not in shown(source.split("</style>")[1]), words
    assert '<section id="engine">' not in html(typical())


def test_hostile_names_in_a_plan_stay_text() -> None:
    source = html(of_engine(hostile(), HOSTILE_NAMES))
    assert source.count("<script") == html(hostile()).count("<script") == 3
    assert SCRIPT not in source
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08]", source)


def test_doubts_stand_under_the_latency_of_the_page_and_of_markdown() -> None:
    run = typical()
    sure = msgspec.structs.replace(run, findings=run.findings[:2])
    said = msgspec.structs.replace(run.findings[2], brief="p99 is 128 x <the> median")
    doubted = msgspec.structs.replace(run, findings=(*run.findings[:2], said))
    assert 'id="trust"' not in html(sure)
    page = html(doubted)
    assert '<p class="doubt" id="trust">! <bdi>p99 is 128 x &lt;the&gt; median</bdi></p>' in page
    assert page.index('id="measured"') < page.index('id="trust"') < page.index('id="allowed"')
    markdown = render(doubted, "markdown")
    assert "TRUST | GOOD" in render(sure, "markdown")
    assert markdown.index("TRUST | FAIR: p99 is 128 x &lt;the> median") < markdown.index("MEASURED")
