"""What holds of every document in every format, whatever the names in it are."""

from __future__ import annotations

import io
import itertools
import json
import re
import typing
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pyarrow.parquet as pq
import pytest

import trtprof.report
from tests.fakes import (
    comparison_factory,
    fleet_comparison_factory,
    fleet_reports,
    page_factory,
    plan_factory,
    plugin_factory,
    report_factory,
    tried_factory,
)
from tests.fakes.estimates import SWEEPS, built, predicted
from tests.fakes.hostile.names import NAMES, in_markdown, in_page, in_table
from tests.fakes.schemas import SCHEMAS, schema_of, schema_text
from tests.fakes.support import ROOT, columns, golden
from tests.fakes.timeline_factory import timed
from trtprof.base.records import Holds, Plugin, PluginBench, PluginBenches, Record, Run
from trtprof.base.records.texts import UNKNOWN, held, rewritten
from trtprof.report import ReportOptions, formats_of, get, render
from trtprof.report.tables import tables_of

GPU_RUN = page_factory.with_panels(report_factory.of_engine(report_factory.on_gpu()))
RECORDS: dict[str, Callable[[], Record]] = {
    **{f"run, {name}": made for name, made in report_factory.CASES.items() if name != "many"},
    "run, 300 layers": lambda: report_factory.many(300),
    "run, engine": lambda: report_factory.of_engine(report_factory.hostile(), report_factory.HOSTILE_NAMES),
    "run, timeline": lambda: timed(report_factory.on_gpu()),
    "run, page": lambda: GPU_RUN,
    **{f"comparison, {name}": made for name, made in comparison_factory.CASES.items()},
    **{f"plan, {name}": made for name, made in plan_factory.CASES.items()},
    "plugin": plugin_factory.typical,
    "plugin, refused": plugin_factory.refused,
    "bench": plugin_factory.bench,
    "benches": plugin_factory.benches,
    "prediction": lambda: predicted("gemv", "rtx-4090", "l4"),
    "prediction, engine": lambda: built("gemv", "rtx-4090"),
    "sweep": lambda: SWEEPS["two devices"],
    "tried": tried_factory.typical,
    "tried, nothing": tried_factory.nothing,
    "fleet": fleet_reports.made_up,
    "fleet, predicted": lambda: fleet_reports.made_up(ran=False),
    "fleet, hostile": fleet_reports.hostile,
    **{f"fleets, {name}": made for name, made in fleet_comparison_factory.CASES.items()},
}
RENAMED = ("run, page", "comparison, typical", "plan, typical", "plugin", "bench", "prediction",
           "tried", "fleet", "fleets, typical")  # fmt: skip
SLOW = ("png", "svg", "onnx")
"""Pictures take a second each and have tests of their own; the annotated model needs a model."""
STEERS = re.compile("[\u202a-\u202e\u2066-\u2069\x00-\x08\x0b-\x1f\x7f-\x9f]")
UNCUT = ("trtprof ", "plugins/")
"""What is never cut, however narrow the screen is: commands and paths."""


def hostile(found: Record) -> Record:
    """Return the record with a hostile name in every field of text, the same one for the same text."""
    names = itertools.cycle(NAMES)
    given: dict[str, str] = {}

    def change(value: str, rule: Holds, _: str) -> str:
        if not value or rule.kind == "safe":
            return value
        return given.setdefault(
            value, f"{next(names)}{len(given)}" if rule.kind != "text" else f"{value} {next(names)}"
        )

    changed: Record = rewritten(found, change)
    return changed


def problems(name: str, text: str) -> Iterator[str]:
    """What is wrong with a document in a format."""
    if name not in ("csv", "json", "perfetto") and (steers := STEERS.search(text)):
        yield f"{name} has {steers[0]!r}"
    if name == "html":
        yield from in_page(text)
        if "<script>window" in text:
            yield "html has a script of a name"
    elif name == "csv":
        yield from in_table(text)
    elif name == "markdown":
        yield from in_markdown(text)
        if len(text) > 65_536:
            yield "markdown does not fit a comment"
    elif name == "junit":
        ET.fromstring(text)  # noqa: S314 - our own
    elif name in ("json", "perfetto"):
        json.loads(text)


def documents() -> Iterable[tuple[str, Record]]:
    yield from ((name, made()) for name, made in RECORDS.items())
    yield from ((f"{name}, hostile names", hostile(RECORDS[name]())) for name in RENAMED)


@pytest.mark.parametrize("pages", [False, True])
def test_every_format_of_every_document_is_whole_and_the_same_twice(*, pages: bool) -> None:
    wrong = []
    for name, made_up in documents():
        found, again = (msgspec.json.decode(msgspec.json.encode(made_up), type=type(made_up)) for _ in range(2))
        assert found == made_up, name
        for each in formats_of(type(found)):
            if each.name in SLOW or (each.name == "html") != pages:
                continue
            made = each.encode(found, ReportOptions())
            if (not pages or name == "run, typical") and made != each.encode(again, ReportOptions()):
                wrong.append(f"{name}: {each.name} is another one from a record that was read")
            if not each.binary:
                wrong += [f"{name}: {said}" for said in problems(each.name, made.decode())]
    assert wrong == []


def test_ten_documents_are_as_they_were() -> None:
    """TRTPROF_UPDATE_GOLDEN=1 writes the files anew."""
    kept = {"run": ("text", "markdown", "junit"), "comparison": ("text", "markdown"), "plan": ("text",),
            "plugin": ("text",), "bench": ("text",), "fleets": ("text",)}  # fmt: skip
    for name, formats in kept.items():
        found = (RECORDS.get(name) or RECORDS[f"{name}, typical"])()
        for each in map(get, formats):
            golden(ROOT / "tests/report/golden" / f"{name}{each.suffix}", each.render(found, ReportOptions()))


def test_no_line_is_wider_than_the_terminal() -> None:
    wrong = []
    for name, found in documents():
        if name == "fleet, hostile names":
            continue  # The path of a log, which is not cut either.
        for width, ascii_only in ((60, False), (80, True), (120, False)):
            text = get("text").render(found, ReportOptions(width=width, ascii=ascii_only, top=9))
            wide = (line for line in text.splitlines() if columns(line) > width)
            wrong += [f"{name}, {width}: {line}" for line in wide if not any(word in line for word in UNCUT)]
            if ascii_only and not text.isascii():
                wrong.append(f"{name}: no ASCII")
    assert wrong == []


def test_every_table_has_its_columns_and_their_types() -> None:
    types = {"str": str, "int": int, "float": float, "bool": bool, "list": tuple}
    wrong = []
    for name, found in documents():
        for title, table in tables_of(type(found)).items():
            heads = table.columns(found)
            rows = list(table.rows(found))
            for cell, head in ((cell, head) for row in rows for cell, head in zip(row, heads, strict=True)):
                if cell is not None and type(cell) is not types[head.type]:
                    wrong.append(f"{name}: {title}.{head.name} is {cell!r}")
            read = pq.read_table(io.BytesIO(get("parquet").encode(found, ReportOptions(table=title))))
            if (read.num_rows, read.column_names) != (len(rows), [head.name for head in heads]):
                wrong.append(f"{name}: {title} as Parquet")
            if in_table(render(found, "csv", table=title)):
                wrong.append(f"{name}: {title} has a formula")
    assert wrong == []


def test_documents_follow_the_schemas_that_ship() -> None:
    """TRTPROF_UPDATE_GOLDEN=1 writes the files anew."""
    validators = {}
    for name, (record, title) in SCHEMAS.items():
        golden(Path(trtprof.report.__file__).with_name(f"{name}.schema.json"), schema_text(name))
        schema = schema_of(record, title)
        jsonschema.Draft202012Validator.check_schema(schema)
        validators[record] = jsonschema.Draft202012Validator(schema)
    for name, found in documents():
        if type(found) in validators and "300" not in name:
            validators[type(found)].validate(json.loads(render(found, "json")))
    document = json.loads(render(report_factory.typical(), "json"))
    spoils: list[dict[str, Any]] = [{"schema_version": 99}, {"layers": [{}]}, {"coverage": None}, {"captured_ns": -1}]
    for spoil in spoils:
        with pytest.raises(jsonschema.ValidationError):
            validators[type(report_factory.typical())].validate({**document, **spoil})


def test_each_field_of_text_says_what_it_holds() -> None:
    """So that names can be replaced in any document: what does not say it is taken for a name."""
    seen: set[Any] = set()
    wrong = []

    def check(kind: Any, where: str) -> None:
        rule, inner = held(kind)
        if inner is str and rule is UNKNOWN:
            wrong.append(where)
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct) and inner not in seen:
            seen.add(inner)
            for name, hint in typing.get_type_hints(inner, include_extras=True).items():
                check(hint, f"{inner.__name__}.{name}")
        elif typing.get_origin(inner) is not typing.Literal:
            for argument in typing.get_args(inner):
                if argument is not Ellipsis:
                    check(argument, where)

    for record in (Run, Plugin, PluginBench, PluginBenches):
        check(record, record.__name__)
    assert wrong == []
