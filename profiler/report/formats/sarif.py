"""The findings of a run as SARIF 2.1.0, for code scanning and editors.

The format is that of the OASIS standard (`SCHEMA`). A rule of the tool is a code of the findings, a result a finding.

- A likely cause (kind ``hypothesis``) is a result of kind ``fail``: critical is an ``error``, warning a ``warning``,
  info a ``note``.
- A doubt about the measurement (kind ``trust``) is no failure of the model. It is a result of kind ``review``, which
  the standard has for what a person must look at, and of level ``none``, which it then asks for.
- The physical location is the model file, relative: of a path from the root of a machine, the name of the file alone.
  There is no region, since a model has no lines. Logical locations are the layers and the ONNX nodes.
- A fingerprint is of the code and the ONNX nodes alone (the layers, or the place in words, where there are none), so
  that it is the same over runs, devices and names of engine layers, as long as the same nodes are concerned.

The properties of a result keep ``lost_ns``, which is an estimate, and the confidence; those of the run its latency.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import posixpath
from collections.abc import Sequence
from pathlib import PureWindowsPath
from typing import Any
from urllib.parse import quote

from profiler.base import units
from profiler.base.records import Finding, Run
from profiler.report import ReportOptions, reporter
from profiler.report._format import headline, visible
from profiler.report.formats._lanes import latency_name

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

LEVELS = {"critical": "error", "warning": "warning", "info": "note"}
"""SARIF's level of a likely cause by its severity."""

_WORST_FIRST = ("critical", "warning", "info")


@reporter("sarif", suffix=".sarif", of=(Run,))
def render(run: Run, options: ReportOptions) -> str:
    """The findings as one SARIF log with one run."""
    places = _Places(run)
    results = []
    seen: dict[str, int] = {}
    codes = list(dict.fromkeys(finding.code for finding in run.findings))
    for finding in run.findings:
        mark = fingerprint(finding, places.nodes_of(finding))
        seen[mark] = seen.get(mark, 0) + 1
        results.append(_result(finding, codes.index(finding.code), places, f"{mark}:{seen[mark]}"))
    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": _driver(run, codes)},
                "automationDetails": {"id": f"trtprof/{quote(visible(run.backend.name), safe='')}/"},
                "invocations": [_invocation(run)],
                "artifacts": _artifacts(run),
                "logicalLocations": places.listed,
                "results": results,
                "columnKind": "unicodeCodePoints",
                "properties": _of_run(run, options),
            }
        ],
    }
    return json.dumps(log, allow_nan=False, ensure_ascii=False, indent=1) + "\n"


def model_uri(path: str) -> str:
    """The path of the model as a relative URI reference, or its name alone where the path does not start here."""
    # A path of Windows may come from a run made there.
    posix = PureWindowsPath(path).as_posix() if "\\" in path else path
    posix = posixpath.normpath(posix) if posix else ""
    if posix.startswith(("/", "..")) or PureWindowsPath(path).drive:
        posix = posixpath.basename(posix)
    return quote(posix.encode("utf-8", "backslashreplace"), safe="/")


def fingerprint(finding: Finding, nodes: Sequence[str]) -> str:
    """A digest of what is found where, which does not change with times, engines or devices."""
    place = sorted(set(nodes)) or sorted(set(finding.layers)) or [finding.where]
    text = json.dumps([finding.code, *place])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class _Places:
    """Logical locations: each layer and each node that a finding names, once."""

    def __init__(self, run: Run) -> None:
        self.uri = model_uri(run.model.path or run.model.name)
        self.listed: list[dict[str, Any]] = []
        self._nodes = {layer.name: layer.nodes for layer in run.layers}
        self._at: dict[str, int] = {}

    def nodes_of(self, finding: Finding) -> list[str]:
        """The ONNX nodes of the layers of a finding."""
        return list(dict.fromkeys(node for layer in finding.layers for node in self._nodes.get(layer, ())))

    def of(self, finding: Finding) -> list[dict[str, Any]]:
        """The one location of a finding."""
        named = [self._place("layer", layer) for layer in finding.layers]
        named += [self._place("node", node) for node in self.nodes_of(finding)]
        location: dict[str, Any] = {}
        if self.uri:
            location["physicalLocation"] = {"artifactLocation": {"uri": self.uri, "index": 0}}
        if named:
            # Two names may look the same.
            location["logicalLocations"] = list({at["index"]: at for at in named}.values())
        if finding.where:
            location["message"] = {"text": _literal(finding.where)}
        return [location] if location else []

    def _place(self, kind: str, name: str) -> dict[str, Any]:
        full = f"{kind}:{visible(name)}"
        at = self._at.get(full)
        if at is None:
            at = self._at[full] = len(self.listed)
            self.listed.append({"name": visible(name), "fullyQualifiedName": full, "kind": kind})
        return {"index": at, "fullyQualifiedName": full}


def _literal(text: str) -> str:
    """Text of a message (3.11 of the standard) that holds no placeholder and no link."""
    text = visible(text).replace("{", "{{").replace("}", "}}")
    return text.replace("[", "\\[").replace("]", "\\]") if "](" in text else text


def _result(finding: Finding, rule: int, places: _Places, mark: str) -> dict[str, Any]:
    trust = finding.kind == "trust"
    return {
        "ruleId": visible(finding.code),
        "ruleIndex": rule,
        "kind": "review" if trust else "fail",
        "level": "none" if trust else LEVELS[finding.severity],
        "message": {"text": _message(finding)},
        "locations": places.of(finding),
        # What GitHub tells alerts apart by, and the same under a name of our own.
        "partialFingerprints": {"primaryLocationLineHash": mark, "trtprofFinding/v1": mark},
        "properties": {
            "kind": finding.kind,
            "severity": finding.severity,
            "lost_ns": finding.lost_ns,
            "confidence": finding.confidence,
            "evidence": visible(finding.evidence),
            "try": visible(finding.try_),
            **({"command": visible(finding.command)} if finding.command else {}),
        },
    }


def _message(finding: Finding) -> str:
    head = "doubt" if finding.kind == "trust" else "likely cause"
    lost = f", ~{units.format_ns(finding.lost_ns)} lost" if finding.lost_ns else ""
    sure = "" if finding.kind == "trust" else f", {100 * finding.confidence:.0f} % sure"
    parts = [f"{_literal(finding.title)} ({head}{sure}{lost})"]
    if finding.where:
        parts.append(f"At {_literal(finding.where)}")
    if finding.evidence:
        parts.append(_literal(finding.evidence))
    if finding.try_:
        parts.append(f"Try: {_literal(finding.try_)}")
    return ". ".join(parts)


def _driver(run: Run, codes: Sequence[str]) -> dict[str, Any]:
    driver: dict[str, Any] = {"name": "trtprof"}
    if version := run.versions.get("trtprof"):
        driver["version"] = visible(version)
    driver["rules"] = [_rule(code, [one for one in run.findings if one.code == code]) for code in codes]
    return driver


def _rule(code: str, findings: Sequence[Finding]) -> dict[str, Any]:
    first = findings[0]
    worst = min((one.severity for one in findings), key=_WORST_FIRST.index)
    trust = all(one.kind == "trust" for one in findings)
    tries = f"`{_literal(first.command)}` tries it.\n" if first.command else ""
    explained = f"`trtprof rules {visible(code)}` says what it is, why it costs time and what to try."
    return {
        "id": visible(code),
        "shortDescription": {"text": _literal(first.title)},
        "fullDescription": {
            "text": _literal(first.title)
            + (": a doubt about the measurement" if trust else ": a likely cause of time above the roofline")
        },
        "help": {"text": f"Try: {_literal(first.try_)}\n{tries}{explained}"},
        "defaultConfiguration": {"level": "none" if trust else LEVELS[worst]},
        "properties": {"tags": ["trust"] if trust else ["performance"]},
    }


def _invocation(run: Run) -> dict[str, Any]:
    """The analysis itself went well, whatever it found."""
    invocation: dict[str, Any] = {"executionSuccessful": True}
    try:
        moment = dt.datetime.fromisoformat(run.created)
    except ValueError:
        return invocation
    if moment.tzinfo is not None:
        invocation["endTimeUtc"] = moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return invocation


def _artifacts(run: Run) -> list[dict[str, Any]]:
    uri = model_uri(run.model.path or run.model.name)
    if not uri:
        return []
    artifact: dict[str, Any] = {"location": {"uri": uri, "index": 0}, "roles": ["analysisTarget"]}
    if run.model.sha256:
        artifact["hashes"] = {"sha-256": visible(run.model.sha256)}
    return [artifact]


def _of_run(run: Run, options: ReportOptions) -> dict[str, Any]:
    sums = headline(run)
    properties: dict[str, Any] = {
        "model": visible(run.model.name),
        "backend": visible(run.backend.name),
        "device": visible(run.device.name),
        latency_name(run): run.latency.median_ns,
        "samples": run.latency.n,
        "estimate": {"attainable_ns": sums.attainable_ns, "of_roof": sums.of_roof},
        "coverage": {
            "exact": run.coverage.exact,
            "inferred": run.coverage.inferred,
            "unattributed": run.coverage.unattributed,
        },
        "verdict": visible(run.verdict),
    }
    if options.file:
        properties["run_folder"] = visible(options.file)
    return properties
