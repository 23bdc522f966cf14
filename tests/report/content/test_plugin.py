"""What is said of a hand-written kernel and of its proof."""

from __future__ import annotations

import csv
import io
import json
import typing
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from tests.fakes.plugin_factory import bench, benches, incorrect, refused, typical
from tests.fakes.rendering import render_text
from tests.fakes.schemas import schema_text
from tests.fakes.support import ROOT, golden
from trtprof.base.records import Plugin, PluginBench, PluginBenches, Record
from trtprof.base.records.texts import UNKNOWN, held, text_fields
from trtprof.report import CONTENT, render
from trtprof.report._cells import cells
from trtprof.report.tables import tables_of

GOLDEN = Path(__file__).parents[1] / "golden" / "plugin"
SCHEMA_FOLDER = ROOT / "profiler" / "trtprof" / "report"
COMMANDS = ("trtprof ", "plugins/")
"""What begins a line that is never cut, however narrow the screen is."""


@pytest.mark.parametrize(
    ("name", "found"), [("typical", typical()), ("refused", refused()), ("bench", bench()), ("benches", benches())]
)
@pytest.mark.parametrize("form", ["text", "markdown"])
def test_golden(name: str, found: Record, form: str) -> None:
    made = render_text(found) if form == "text" else render(found, form)
    golden(GOLDEN / f"{name}.{'txt' if form == 'text' else 'md'}", made)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("found", [typical(), refused(), bench(), benches()])
def test_no_line_is_wider_than_asked_but_commands_and_paths(found: Record, width: int) -> None:
    text = render_text(found, width)
    for line in text.splitlines():
        assert cells(line) <= width or any(word in line for word in COMMANDS), line


@pytest.mark.parametrize("width", [40, 60, 80])
def test_the_verdict_and_its_doubts_come_before_all_else(width: int) -> None:
    found = typical()
    text = " ".join(render_text(found, width).split())
    words = (
        "verdict write it:", "the latency varies by 12 %", "computes y", "work 123", "bound >=", "measured 1.90",
        "in reach", "net gain", "half precision", "the launch of the plugin", "tactic for registers", "numerics",
        "2 places", "README.md", "next trtprof plugin bench plugins/BatchedGemv_64",
    )  # fmt: skip
    places = [text.index(word) for word in words]
    assert places == sorted(places)


def test_what_no_gpu_ran_is_said_to_be_a_prediction() -> None:
    text = " ".join(render_text(typical()).split())
    assert "these checks run on no GPU, and times are predictions" in text
    assert "~87.0 %" in text
    assert "dropped: tactic 2 for sm_75: 48 bytes a thread spill to memory" in text


def test_a_screen_has_the_first_variant_and_paper_has_all() -> None:
    rows = [line.split()[:2] for line in render_text(typical()).splitlines()]
    assert ["1", "sm_120"] in rows
    assert ["2", "sm_120"] not in rows
    for form in ("markdown", "html"):
        page = render(typical(), form)
        assert page.count("sm_120") == 2
        assert "dropped: 48 bytes a thread spill to memory" in page
    alone = msgspec.structs.replace(typical(), variants=typical().variants[1:])
    assert ["2", "sm_120"] in [line.split()[:2] for line in render_text(alone).splitlines()]
    assert "other tactic" not in render_text(alone)


def test_a_layer_that_no_template_knows_has_a_brief_and_the_reasons() -> None:
    text = " ".join(render_text(refused()).split())
    assert "no kernel is written; templates that do not know this:" in text
    assert "gemv: TopK is no product" in text
    assert "v, i = TopK(x, k; axis=-1)" in text
    assert "trtprof plugin bench" not in text
    assert "the engine's own kernel takes more than ~318 us" in text


def test_every_check_has_its_verdict_its_count_and_its_worst() -> None:
    text = " ".join(render_text(typical(), 160).split())
    check = typical().check
    assert check is not None
    for step in check.steps:
        assert f"{step.name} {step.verdict}" in text
    for words in ("212", "14.2 s", "worst error that passed: 1.37 of the rounding floor", "it writes outside of y",
                  "nvcc is not installed", "250,828,800"):  # fmt: skip
        assert words in text


def test_a_bench_says_both_sides_alone_and_in_the_engine() -> None:
    text = " ".join(render_text(bench()).split())
    for words in ("faster: the engine with it is 5.21 times as fast", "the clock moved by 15 MHz", "cuBLAS",
                  "6.03x 5.98 to 6.08", "with the plugin", "87.4 % of what this GPU was measured", "0.976",
                  "2,505 to 2,520 MHz", "wrong 12 tactic 2 alone", "a warp a row", ">= 273 us",
                  "TensorRT 11.4.0"):  # fmt: skip
        assert words in text
    assert text.index("doubts") < text.index("cuBLAS")


@pytest.mark.parametrize("form", ["html", "markdown"])
def test_other_documents_say_the_same(form: str) -> None:
    page = render(typical(), form)
    for words in ("write it", "half precision", "BatchedGemv_64", "sm_120", "rounding floor", "/gemv_1/MatMul"):
        assert words in page
    assert "sum_k" in page


@pytest.mark.parametrize(
    ("name", "found"),
    [("plugin", typical()), ("plugin", refused()), ("plugin_bench", bench()), ("plugin_bench", incorrect())],
)
def test_programs_get_all_of_it_by_a_schema(name: str, found: Plugin | PluginBench) -> None:
    made = render(found, "json")
    golden(SCHEMA_FOLDER / f"{name}.schema.json", schema_text(name))
    jsonschema.validate(json.loads(made), json.loads(schema_text(name)))
    assert msgspec.json.decode(made, type=type(found)) == found


def test_tables_have_a_row_a_kernel_and_a_row_a_side() -> None:
    rows = list(csv.DictReader(io.StringIO(render(typical(), "csv"))))
    assert [(row["tactic"], row["architecture"]) for row in rows] == [
        (tactic, one) for tactic in "12" for one in ("sm_75", "sm_89", "sm_120")
    ]
    assert (rows[3]["dropped"], rows[3]["bandwidth"]) == ("48 bytes a thread spill to memory", "")
    for table in tables_of(Plugin):
        assert list(csv.DictReader(io.StringIO(render(typical(), "csv", table=table)))), table
    for table in tables_of(PluginBench):
        assert list(csv.DictReader(io.StringIO(render(benches(), "csv", table=table)))), table
    sides = list(csv.DictReader(io.StringIO(render(bench(), "csv"))))
    assert [(row["of"], row["what"]) for row in sides] == [
        ("kernel", "cuBLAS"), ("kernel", "4 threads a row"), ("engine", "without"), ("engine", "with the plugin")
    ]  # fmt: skip


HOSTILE = ("<script>window.x=1</script>", "a\x1b[31mb\n# c", "\u202egnp.exe", "x" * 400)


@pytest.mark.parametrize("bad", HOSTILE)
def test_names_by_others_stay_text(bad: str) -> None:
    found = typical()
    brief = msgspec.structs.replace(
        found.brief, layer=bad, nodes=(bad,), kernels=(bad,),
        tensors=tuple(msgspec.structs.replace(one, name=bad) for one in found.brief.tensors),
        neighbours=tuple(msgspec.structs.replace(one, node=bad) for one in found.brief.neighbours),
    )  # fmt: skip
    made = msgspec.structs.replace(found, brief=brief, model=bad)
    for width in (40, 80):
        lines = render_text(made, width).splitlines()
        assert all(line.isprintable() for line in lines)
        assert all(cells(line) <= width or any(word in line for word in COMMANDS) for line in lines)
    assert "<script>window" not in render(made, "html")


@pytest.mark.parametrize("record", [Plugin, PluginBench, PluginBenches])
def test_each_field_of_text_says_what_it_holds(record: type[Record]) -> None:
    """So that a run without names can be made of it: what does not say it is taken for a name."""
    text_fields(record)
    assert record in CONTENT.keys()  # noqa: SIM118 - a registry is no dict
    seen: set[Any] = set()

    def check(kind: Any, where: str) -> None:
        rule, inner = held(kind)
        if inner is str:
            assert rule is not UNKNOWN, where
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct) and inner not in seen:
            seen.add(inner)
            for name, hint in typing.get_type_hints(inner, include_extras=True).items():
                check(hint, f"{inner.__name__}.{name}")
        elif typing.get_origin(inner) is not typing.Literal:
            for argument in typing.get_args(inner):
                if argument is not Ellipsis:
                    check(argument, where)

    check(record, record.__name__)
