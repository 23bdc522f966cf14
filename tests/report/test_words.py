"""Documents for people say what bounds a layer in words of the field; those for programs keep their keys."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from html import unescape
from typing import Any, Literal, get_args

import msgspec
import pytest

from tests.fakes import comparison_factory
from tests.fakes.estimates import SWEEPS, predicted
from tests.fakes.page_factory import with_panels
from tests.fakes.report_factory import typical
from trtprof.base.records import BOUND_WORDS, Bound, CeilingsDocument, Measurement, Run, bound_name
from trtprof.diagnose import RULES
from trtprof.report import encode, render

pytestmark = pytest.mark.nightly

KEYS = re.compile(
    r"\b(?:llc|sfu|dram|l2|launch floor|first suspect|(?<!gap-to-)roofs?)\b"
    r"|(?<!\ba )(?<!\bthe )(?<!\bits )(?<!each )\btensor(?=\s*$|\s\s|\s[\d~]|[,:;])"
)
"""What the code calls bounds, and words that the field does not use. A tensor of a model and a tensor core are none."""
LOOKS = ("text", "markdown", "html")


def bounded(device: Literal["cpu", "gpu"]) -> Run:
    """A run with layers of every bound, before every other."""
    run, bounds = typical(), get_args(Bound)
    terms = dict(zip(bounds[:6], range(600, 0, -100), strict=True))
    layers = [
        msgspec.structs.replace(one, bound=bounds[at % 8], runner_up=bounds[(at + at // 8 + 1) % 8], terms=terms)
        for at, one in enumerate(run.layers)
    ]
    keys = ("dram", "best dram read", "tensor fp32", "vector fp32", "special exp", "cache")
    measured = {key: Measurement(value=5e10, unit="B/s", what="copy", repeats=3) for key in keys}
    ceilings = msgspec.structs.replace(run.ceilings, measurements=measured)
    about = msgspec.structs.replace(run.device, kind=device, detail={"llc": "L3 32768 KiB"})
    return with_panels(msgspec.structs.replace(run, layers=tuple(layers), ceilings=ceilings, device=about))


def texts(page: str) -> str:
    """What a reader sees or hears of a page before its script: texts, labels and titles."""
    said = re.findall(r'(?:aria-label|title|alt)="([^"]*)"', page)
    page = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return unescape("\n".join([re.sub(r"<[^>]+>", "\n", page), *said]))


def drawn(picture: bytes) -> str:
    """The texts of an SVG, which are beside their outlines as comments, or texts."""
    text = picture.decode()
    return unescape("\n".join([*re.findall(r"<!--(.*?)-->", text, re.DOTALL), *re.findall(r">([^<]+)<", text)]))


def hits(text: str) -> list[str]:
    """Lines that hold one of the keys as a word."""
    return sorted({line.strip()[:150] for line in text.splitlines() if KEYS.search(line)})


def _shown(found: Any, look: str, options: dict[str, Any]) -> str:
    return texts(render(found() if callable(found) else found, look, **options))


def documents() -> dict[str, Callable[[], str]]:
    """Every document for people in which a bound may stand, made when it is called."""
    made: dict[str, Callable[[], str]] = {}

    def add(name: str, found: Any, *looks: str, **options: Any) -> None:
        for look in looks:
            made[f"{name}, {look}"] = functools.partial(_shown, found, look, options)

    for device in ("cpu", "gpu"):
        run = bounded(device)
        for by in ("layer", "type", "node", "kernel", "module"):
            add(f"run on a {device} by {by}", run, "text", by=by, top=60, ledger=True, roofline=True)
        add(f"run on a {device}", run, *LOOKS)
        add(f"run on a {device}", run, "perfetto")
        for figure in ("roofline", "timeline", "ledger"):
            made[f"run on a {device}, {figure}"] = functools.partial(
                lambda run, figure: drawn(encode(run, "svg", figure=figure)), run, figure
            )
    for name, sweep in SWEEPS.items():
        add(f"sweep, {name}", sweep, *LOOKS)
    made["sweep, svg"] = lambda: drawn(encode(SWEEPS["warm on a CPU"], "svg"))
    add("predict one", lambda: predicted("resnet_tiny", "rtx-4090"), *LOOKS, top=100)
    add("predict many", lambda: predicted("resnet_tiny", "rtx-4090", "l4"), *LOOKS, top=100)
    made["predict, svg"] = lambda: drawn(encode(predicted("resnet_tiny", "rtx-4090"), "svg"))
    for compared in (comparison_factory.typical(), comparison_factory.unknown()):
        add(f"compare {compared.before.label}", comparison_factory.document(compared), *LOOKS)
    add(
        "calibrate",
        CeilingsDocument(schema_version=1, ceilings=bounded("gpu").ceilings, ridge_flop_per_byte={}),
        *LOOKS,
    )
    return made


DOCUMENTS = documents()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_document_for_people_names_a_bound_by_its_key(name: str) -> None:
    assert hits(DOCUMENTS[name]()) == []


def test_the_law_can_fail() -> None:
    """A table, a sentence and a label that it must see."""
    assert hits(texts("<td>dram</td><p>far from its roof</p><i title='x' aria-label=\"bound by llc\"></i>")) == [
        "bound by llc", "dram", "far from its roof",
    ]  # fmt: skip
    assert hits("2.34 us  memory  tensor 82 %\nbound by tensor, not by vector") != []
    assert hits("the tensor cores of DRAM, far from the roofline, read each tensor once") == []


@pytest.mark.parametrize("code", RULES.keys())
def test_no_rule_explains_itself_by_them(code: str) -> None:
    rule = RULES.get(code)
    assert rule is not None
    assert hits(f"{rule.title}\n{rule.doc}") == []


def test_every_bound_has_its_words_and_programs_its_key() -> None:
    assert set(BOUND_WORDS) == set(get_args(Bound))
    for device in ("cpu", "gpu"):
        assert len({bound_name(bound, device) for bound in BOUND_WORDS}) == len(BOUND_WORDS)
    assert (bound_name("l2", "gpu"), bound_name("l2", "cpu")) == ("L2", "cache")
    rows = json.loads(render(bounded("cpu"), "json"))["layers"]
    assert {row["bound"] for row in rows} == set(get_args(Bound))


@pytest.mark.browser
@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_the_page_with_its_charts_names_no_bound_by_its_key(
    open_page: Callable[..., Any], device: Literal["cpu", "gpu"]
) -> None:
    page = open_page(bounded(device))
    for chart in ("roofline", "timeline", "graph"):
        page.locator(f"#chart-{chart} canvas").first.wait_for(timeout=15_000)
    for _ in range(3):
        page.keyboard.press("j")
        page.keyboard.press("Enter")
    said = page.evaluate(
        """() => [document.body.innerText, ...[...document.querySelectorAll("[aria-label], [title]")]
          .flatMap((one) => [one.getAttribute("aria-label"), one.getAttribute("title")])].join("\\n")"""
    )
    assert {bound_name(bound, device) for bound in ("tensor", "dram", "l2", "sfu")} <= set(said.split())
    assert hits(said) == []
