from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import msgspec
import pytest
from factory import CASES, HOSTILE_NAMES, SCRIPT, hostile, make_run, of_engine, on_gpu, typical

from profiler.records import ClockSummary, LedgerRow, Run
from profiler.report import ReportOptions, get
from profiler.report._format import perturbation
from profiler.report.html import asset, digest, ledger_bars


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


@pytest.mark.parametrize("case", [case for case in CASES if case != "many"])
def test_the_page_is_whole_and_asks_for_nothing(case: str) -> None:
    page = Page(html(CASES[case]()))
    assert [tag for tag, _ in page.bodies] == ["style", "script", "script"]
    for tag, attributes in page.tags:
        assert tag not in ("img", "iframe", "object", "embed", "base", "form", "audio", "video")
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "style", "action")]
        if "href" in attributes:
            assert (attributes["href"] or "").startswith(("#", "data:,"))
    style, data, script = (body for _, body in page.bodies)
    assert "@import" not in style
    assert not re.search(r"url\((?!#)", style)
    assert set(json.loads(data)) == {"ceilings", "device", "layers", "nodes", "kernels_unattributed"}
    policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy") or ""
    assert "default-src 'none'" in policy
    assert f"script-src '{digest(script)}'" in policy
    assert f"style-src '{digest(style)}'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("case", [case for case in CASES if case != "many"])
def test_the_data_block_holds_the_run_unchanged(case: str) -> None:
    run = CASES[case]()
    data = json.loads(Page(html(run)).bodies[1][1])
    whole = json.loads(get("json").render(run, ReportOptions()))
    assert all(data[key] == whole[key] for key in data)


def test_hostile_text_stays_text() -> None:
    source = html(hostile())
    assert source.count("<script") == source.count("</script>") == 2
    assert SCRIPT not in source
    assert "\x1b" not in source
    assert "\u202e" not in source
    assert "\0" not in source
    assert "{{ 7 * 7 }}" in Page(source).text
    assert "\\u202egnp.exe" in Page(source).text


def test_the_page_without_data_is_small_and_the_assets_cannot_end_their_block() -> None:
    run = typical()
    source = html(run)
    assert len(source) - len(Page(source).bodies[1][1]) < 300_000
    assert "</script" not in asset("app.js").lower()
    assert "<!--" not in asset("app.js")
    assert "</style" not in asset("app.css").lower()
    assert "innerHTML" not in asset("app.js")
    assert "insertAdjacentHTML" not in asset("app.js")


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
    assert "add up" not in words


def test_links_lead_to_the_rank_of_the_layer() -> None:
    run = typical()
    rank = [layer.name for layer in run.layers].index("/features/1/conv") + 1
    assert f'href="#layer-{rank}"' in html(run)


def test_many_findings_are_all_there_but_folded() -> None:
    run = hostile()
    page = Page(html(run))
    assert sum(tag == "article" for tag, _ in page.tags) == len(run.findings)
    assert f"{len(run.findings) - 12} more findings" in page.text


def test_bars_step_down_for_a_gain_and_stay_on_the_drawing() -> None:
    rows = [LedgerRow(cause=c, ns=ns, kind="fact") for c, ns in (("a", 60), ("b", 60), ("c", -20))]
    bars = ledger_bars(rows)
    assert [(round(b.left, 6), round(b.width, 6), round(b.end, 6)) for b in bars] == [
        (0, 50, 50),
        (50, 50, 100),
        (83.333333, 16.666667, 83.333333),
    ]
    assert ledger_bars(()) == ()
    below = ledger_bars([LedgerRow(cause="a", ns=-10, kind="fact"), LedgerRow(cause="b", ns=40, kind="fact")])
    assert [(b.left, b.width) for b in below] == [(0, 25), (0, 100)]
    assert [b.width for b in ledger_bars([LedgerRow(cause="a", ns=0, kind="fact")])] == [0]


def test_the_cost_of_the_profiler_is_unknown_without_a_latency() -> None:
    run = make_run()
    assert perturbation(run.latency, run.profiled) is None
    seen = msgspec.structs.replace(run.latency, median_ns=100, n=1)
    assert perturbation(seen, msgspec.structs.replace(seen, median_ns=104)) == pytest.approx(0.04)


def rows(source: str) -> dict[str, str]:
    """The page's lists of pairs."""
    return dict(re.findall(r"<dt><bdi>(.*?)</bdi></dt><dd><bdi>(.*?)</bdi></dd>", source))


def test_the_cost_of_the_profiler_stands_beside_the_latency() -> None:
    source = html(typical())
    assert "9.80 ms under the profiler (+4.0 %)" in Page(source).text
    assert rows(source)["cost of the profiler"] == "+4.0 %"
    alone = msgspec.structs.replace(typical(), profiled=typical().latency)
    assert "under the profiler" not in Page(html(alone)).text


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
    here, files = (Page(html(run)).text for run in (on_gpu(), of_engine(typical())))
    assert "no profiler attached" in here
    assert "trtexec" not in here
    assert "kernel time captured" in here
    assert "layer time profiled" in files


def test_ten_thousand_layers_are_written_in_a_few_seconds() -> None:
    source = html(CASES["many"]())
    assert len(json.loads(Page(source).bodies[1][1])["layers"]) == 10_000


def test_the_page_of_an_engine_shows_its_plan_and_speaks_of_no_cpu() -> None:
    source = html(of_engine(typical()))
    for words in (
        '<section id="engine">', "Fusions that did not happen", "Reformats", "Worth checking", "Sum of the layers",
        "not an end-to-end latency", "by the ceilings of the datasheet", "Layer time led back to nodes",
        "<dt><bdi>L2</bdi></dt>", "<dt><bdi>multiprocessors</bdi></dt>", "conv1 + relu1",
    ):  # fmt: skip
        assert words in source, words
    for words in ("thread", "no profiler attached", "measured for this run", "empty call"):
        assert words not in source.split("<script")[0], words
    assert '<section id="engine">' not in html(typical())


def test_hostile_names_in_a_plan_stay_text() -> None:
    source = html(of_engine(hostile(), HOSTILE_NAMES))
    assert source.count("<script") == html(hostile()).count("<script") == 2
    assert SCRIPT not in source
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08]", source)
