"""A record as one JSON document, and the JSON Schema of it.

The document is complete and stable: fields in declared order, dict keys sorted, no NaN, no
infinity, so that a saved record gives the same bytes every time.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import msgspec

from profiler.base.records import (
    SCHEMA_VERSION,
    CeilingsDocument,
    Comparisons,
    EnginePlan,
    Prediction,
    Record,
    Run,
)
from profiler.report import ReportOptions, reporter
from profiler.report._format import plain


@reporter("json", suffix=".json")
def render(found: Record, options: ReportOptions) -> str:  # noqa: ARG001 - a document has nothing to choose
    """The record as indented JSON with a trailing newline.

    Raises:
        TrtprofError: A number is NaN or infinite, or a string is not valid Unicode.
    """
    # The precisions of a device are told from the widest to the narrowest.
    data = plain(found, order=None if isinstance(found, CeilingsDocument) else "deterministic")
    if isinstance(found, EnginePlan):
        data = {"schema_version": SCHEMA_VERSION, **data}
    indent = 2 if isinstance(found, Run | CeilingsDocument) else 1
    text = msgspec.json.format(msgspec.json.encode(data), indent=indent).decode()
    return (_on_one_line(text) if isinstance(found, Run) else text) + "\n"


_NUMBERS = re.compile(r"\[\s+-?\d+(?:,\s+-?\d+)*\s+\]")
"""A list of whole numbers, as indented JSON has it. Within a string nothing has a line break."""


def _on_one_line(text: str) -> str:
    """Lists of whole numbers on one line each: shapes read better, and columns of 10,000 rows are no pages."""
    return _NUMBERS.sub(lambda found: re.sub(r"\s+", " ", found[0]).replace("[ ", "[").replace(" ]", "]"), text)


def schema() -> dict[str, Any]:
    """JSON Schema (Draft 2020-12) of the document; see `schema_of`."""
    return schema_of(Run, "trtprof run")


def schema_of(document: type[Record], title: str) -> dict[str, Any]:
    """JSON Schema (Draft 2020-12) of a document with a ``schema_version``.

    Fields with a default are not required, and unknown ones are allowed: a reader of version N
    reads every document of version N, those with later additions included.
    """
    (root,), components = msgspec.json.schema_components((document,), ref_template="#/$defs/{name}")
    version = components[document.__name__]["properties"]["schema_version"]
    version["const"] = SCHEMA_VERSION
    for component in components.values():
        # Python 3.13 takes the indentation out of docstrings, older ones leave it in.
        if "description" in component:
            component["description"] = inspect.cleandoc(component["description"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "description": "Times in ns, work in FLOP and bytes, rates per second, fractions 0 to 1.",
        "version": SCHEMA_VERSION,
        **root,
        "$defs": dict(sorted(components.items())),
    }


SCHEMAS: dict[str, tuple[type[Record], str]] = {
    "run": (Run, "trtprof run"),
    "prediction": (Prediction, "trtprof predict"),
    "comparison": (Comparisons, "trtprof compare"),
}
"""The documents whose schemas ship with the package, as ``NAME.schema.json``."""


def schema_text(name: str = "run") -> str:
    """The schema as the text of the copy that ships with the package."""
    return (
        msgspec.json.format(msgspec.json.encode(schema_of(*SCHEMAS[name]), order="deterministic"), indent=2).decode()
        + "\n"
    )
