"""The ways in which cells of a fleet failed, as SARIF: a rule a stage, a result a way, at the files of its models."""

from __future__ import annotations

import hashlib
import json
from typing import Any
from urllib.parse import quote

from trtprof.base.records import Fleet, FleetFailure
from trtprof.base.text_file import visible
from trtprof.base.units import format_names
from trtprof.report._format import count
from trtprof.report.formats.sarif import literal, log_of, model_uri


def render(found: Fleet) -> str:
    """The log."""
    stages = list(dict.fromkeys(one.stage for one in found.failures))
    driver = {"name": "trtprof", "rules": [_rule(stage) for stage in stages]}
    return log_of(
        {
            "tool": {"driver": driver},
            "automationDetails": {"id": f"trtprof/fleet/{quote(visible(found.name), safe='')}/"},
            "results": [_result(one, stages.index(one.stage)) for one in found.failures],
            "columnKind": "unicodeCodePoints",
            "properties": {
                "fleet": visible(found.name), "cells": found.cells, "done": found.done, "failed": found.failed,
                "waysLeftOut": found.failures_left_out,
            },
        }
    )  # fmt: skip


def _id(stage: str) -> str:
    return f"fleet/{visible(stage) or 'unknown'}"


def _rule(stage: str) -> dict[str, Any]:
    where = f"at the stage {literal(stage)}" if stage else "before any stage"
    return {
        "id": _id(stage),
        "shortDescription": {"text": f"A cell failed {where}"},
        "help": {"text": "`trtprof fleet run MANIFEST --retry failed` does failed cells again."},
        "defaultConfiguration": {"level": "error"},
    }


def _result(one: FleetFailure, rule: int) -> dict[str, Any]:
    words = [literal(one.error)]
    words += [f"why: {literal(one.why)}"] if one.why else []
    words += [f"fix: {literal(one.fix)}"] if one.fix else []
    words.append(f"{count(one.cells, 'cell')} of {count(one.models, 'model')} on {literal(format_names(one.targets))}")
    uris = dict.fromkeys(filter(None, (model_uri(cell.path or cell.model) for cell in one.examples)))
    mark = hashlib.sha256(json.dumps([one.stage, one.error]).encode()).hexdigest()[:32]
    return {
        "ruleId": _id(one.stage),
        "ruleIndex": rule,
        "kind": "fail",
        "level": "error",
        "message": {"text": ". ".join(words)},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri}}} for uri in uris],
        "partialFingerprints": {"trtprofFleet/v1": mark},
        "properties": {"cells": one.cells, "models": one.models, "targets": [visible(name) for name in one.targets]},
    }
