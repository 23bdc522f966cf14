from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from tests.fakes.page_factory import with_panels
from tests.fakes.report_factory import CASES, hostile, layer, make_run, many, of_engine, typical
from trtprof.base.records import Run
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


def test_the_page_is_whole_and_asks_for_nothing(subtests: pytest.Subtests) -> None:
    for case in [case for case in CASES if case != "many"]:
        with subtests.test(case=case):
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
            (policy,) = (a["content"] or "" for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
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


def test_a_run_without_timeline_or_graph_says_why() -> None:
    without, with_ = (Page(html(run)) for run in (typical(), with_panels(typical())))
    assert "There is no timeline: nobody recorded when each kernel ran" in without.text
    assert "There is no graph: neither a plan" in without.text
    ids = [{a.get("id") for _, a in page.tags} for page in (without, with_)]
    assert not {"chart-timeline", "chart-graph"} & ids[0]
    assert {"chart-timeline", "chart-graph"} <= ids[1]
    assert "There is no" not in with_.text


def test_no_line_ends_inside_an_option(subtests: pytest.Subtests) -> None:
    for text, whole in [
        ("run again with --recalibrate: it", ["--recalibrate"]),
        ("(--builderOptimizationLevel=5 tries more), -q -d CLOCK", ["--builderOptimizationLevel=5", "-q", "-d"]),
        ("build without --noTF32.", ["--noTF32"]),
        ("a well-known layer--norm is 3 - 2 - x -> y of --", []),
        ("--" + 99 * "a", []),
        ("--<b>", []),
    ]:
        with subtests.test(text=text, whole=whole):
            made = str(sentence(text))
            assert re.findall(r'<span class="nw">(.*?)</span>', made) == whole
            assert re.sub(r"<[^>]+>", "", made) == text.replace("<", "&lt;").replace(">", "&gt;")


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


def test_the_page_says_the_headline_the_causes_and_the_method() -> None:
    run = typical()
    words = " ".join(Page(html(run)).text.split())
    for expected in (
        "Latency 9.42 ms (p50 9.42, p99 10.3 ms)",
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


def test_the_cost_of_the_profiler_stands_in_the_method() -> None:
    source = html(typical())
    assert rows(source)["cost of the profiler"] == "+4.0 %"
    assert 'cost of the profiler</bdi><button type="button" class="q" popovertarget="term-perturbation"' in source


def test_ten_thousand_layers_are_written_compactly() -> None:
    run = many()
    data = Page(html(run)).bodies[2][1]
    assert json.loads(data)["rows"]["layers"] == 10_000
    assert len(data) < len(get("json").render(run, ReportOptions())) / 4


def test_the_page_of_an_engine_shows_its_plan_and_speaks_of_no_cpu() -> None:
    source = html(of_engine(typical()))
    for words in (
        '<section id="engine">', "Fusions that did not happen", "Reformats", "Worth checking", "Sum of the layers",
        "not an end-to-end latency", "at the peaks of the datasheet", "of layer time attributed to nodes",
        "<dt><bdi>L2</bdi></dt>", "<dt><bdi>multiprocessors</bdi></dt>", "conv1 + relu1",
    ):  # fmt: skip
        assert words in source, words
    for words in ("thread", "no profiler attached", "measured for this run", "empty call"):
        assert words not in shown(source.split("</style>")[1]), words
    assert '<section id="engine">' not in html(typical())


def test_the_page_opens_on_the_latency_then_what_to_do_then_trust_and_warnings_stand_after_causes() -> None:
    run = typical()
    sure = msgspec.structs.replace(run, findings=run.findings[:2])
    said = msgspec.structs.replace(run.findings[2], brief="p99 is 128 x <the> median")
    doubted = msgspec.structs.replace(run, findings=(said, *run.findings[:2]))
    page = html(doubted)
    assert "p99 is 128 x &lt;the&gt; median" in page
    order = ['id="latency"', 'id="bound"', 'id="next"', 'id="trust"', 'id="measured"', "OC301?", "TR010!"]
    assert sorted(order, key=page.index) == order
    none = html(msgspec.structs.replace(run, bound_reason="the model beats it"))
    assert "Bound" in none
    assert none.count("the model beats it") == 2
    markdown = render(doubted, "markdown")
    assert "TRUST | good" in render(sure, "markdown")
    assert markdown.index("TRUST | fair: p99 is 128 x &lt;the> median") < markdown.index("WHERE IT GOES")
