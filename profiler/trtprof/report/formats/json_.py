"""A record as one JSON document.

The document is complete and stable: fields in declared order, dict keys sorted, no NaN, no
infinity, so that a saved record gives the same bytes every time.
"""

from __future__ import annotations

import re

import msgspec

from trtprof.base.records import SCHEMA_VERSION, CeilingsDocument, EnginePlan, Record, Run
from trtprof.report import ReportOptions, reporter
from trtprof.report._format import plain


@reporter("json", suffix=".json")
def render(found: Record, options: ReportOptions) -> str:  # noqa: ARG001 - a document has nothing to choose
    """The record as indented JSON with a trailing newline."""
    # The precisions of a device are told from the widest to the narrowest.
    data = plain(found, order=None if isinstance(found, CeilingsDocument) else "deterministic")
    if isinstance(found, EnginePlan):
        data = {"schema_version": SCHEMA_VERSION, **data}
    indent = 2 if isinstance(found, Run | CeilingsDocument) else 1
    text = msgspec.json.format(msgspec.json.encode(data), indent=indent).decode()
    return (
        _NUMBERS.sub(lambda found: re.sub(r"\s+", " ", found[0]).replace("[ ", "[").replace(" ]", "]"), text)
        if isinstance(found, Run)
        else text
    ) + "\n"


_NUMBERS = re.compile(r"\[\s+-?\d+(?:,\s+-?\d+)*\s+\]")
"""A list of whole numbers, as indented JSON has it. Within a string nothing has a line break."""
