"""The JSON Schemas that ship with the package, made of the records that they describe."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from trtprof.base.records import (
    SCHEMA_VERSION,
    Comparisons,
    Fleet,
    FleetComparison,
    FleetPlan,
    Plugin,
    PluginBench,
    Prediction,
    Record,
    Run,
    Tried,
)


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
    "fleet_plan": (FleetPlan, "trtprof fleet plan"),
    "fleet": (Fleet, "trtprof fleet report"),
    "fleet_comparison": (FleetComparison, "trtprof fleet compare"),
    "tried": (Tried, "trtprof try"),
    "plugin": (Plugin, "trtprof plugin"),
    "plugin_bench": (PluginBench, "trtprof plugin bench"),
}
"""The documents whose schemas ship with the package, as ``NAME.schema.json``."""


def schema_text(name: str = "run") -> str:
    """The schema as the text of the copy that ships with the package."""
    return (
        msgspec.json.format(msgspec.json.encode(schema_of(*SCHEMAS[name]), order="deterministic"), indent=2).decode()
        + "\n"
    )
