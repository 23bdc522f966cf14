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

Of two fleets a result is a cell that is worse, a pattern of kernels that got slower, or a gate that did not pass; the
rules are `FLEET_RULES`. What got better is no result. A fingerprint is of the rule and what is asked of the cell.

The properties of a result keep ``lost_ns``, which is an estimate, and the confidence; those of the run its latency.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PureWindowsPath
from typing import Any
from urllib.parse import quote

from trtprof.base import units
from trtprof.base.records import Finding, Fleet, FleetCellChange, FleetComparison, Run
from trtprof.base.text_file import visible
from trtprof.report import ReportOptions, reporter
from trtprof.report._format import headline
from trtprof.report.content import _fleet_comparison as words
from trtprof.report.formats._lanes import latency_name

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

LEVELS = {"critical": "error", "warning": "warning", "info": "note"}
"""SARIF's level of a likely cause by its severity."""

_WORST_FIRST = ("critical", "warning", "info")


@reporter("sarif", suffix=".sarif", of=(Run, Fleet, FleetComparison))
def render(found: Run | Fleet | FleetComparison, options: ReportOptions) -> str:
    """The findings as one SARIF log with one run."""
    if isinstance(found, Fleet):
        from trtprof.report.formats import _fleet_sarif

        return _fleet_sarif.render(found)
    return log_of(_fleet_log(found) if isinstance(found, FleetComparison) else _run_log(found, options))


def log_of(run: dict[str, Any]) -> str:
    """A log of one run of the tool, as text."""
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, allow_nan=False, ensure_ascii=False, indent=1) + "\n"


def _run_log(run: Run, options: ReportOptions) -> dict[str, Any]:
    places = _Places(run)
    results = []
    seen: dict[str, int] = {}
    codes = list(dict.fromkeys(finding.code for finding in run.findings))
    for finding in run.findings:
        mark = fingerprint(finding, places.nodes_of(finding))
        seen[mark] = seen.get(mark, 0) + 1
        results.append(_result(finding, codes.index(finding.code), places, f"{mark}:{seen[mark]}"))
    return {
        "tool": {"driver": _driver(run, codes)},
        "automationDetails": {"id": f"trtprof/{quote(visible(run.backend.name), safe='')}/"},
        "invocations": [_invocation(run.created)],
        "artifacts": _artifacts(run),
        "logicalLocations": places.listed,
        "results": results,
        "columnKind": "unicodeCodePoints",
        "properties": _of_run(run, options),
    }


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
            location["message"] = {"text": literal(finding.where)}
        return [location] if location else []

    def _place(self, kind: str, name: str) -> dict[str, Any]:
        full = f"{kind}:{visible(name)}"
        at = self._at.get(full)
        if at is None:
            at = self._at[full] = len(self.listed)
            self.listed.append({"name": visible(name), "fullyQualifiedName": full, "kind": kind})
        return {"index": at, "fullyQualifiedName": full}


def literal(text: str) -> str:
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
    parts = [f"{literal(finding.title)} ({head}{sure}{lost})"]
    if finding.where:
        parts.append(f"At {literal(finding.where)}")
    if finding.evidence:
        parts.append(literal(finding.evidence))
    if finding.try_:
        parts.append(f"Try: {literal(finding.try_)}")
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
    tries = f"`{literal(first.command)}` tries it.\n" if first.command else ""
    explained = f"`trtprof rules {visible(code)}` says what it is, why it costs time and what to try."
    return {
        "id": visible(code),
        "shortDescription": {"text": literal(first.title)},
        "fullDescription": {
            "text": literal(first.title)
            + (": a doubt about the measurement" if trust else ": a likely cause of time above the roofline")
        },
        "help": {"text": f"Try: {literal(first.try_)}\n{tries}{explained}"},
        "defaultConfiguration": {"level": "none" if trust else LEVELS[worst]},
        "properties": {"tags": ["trust"] if trust else ["performance"]},
    }


def _invocation(created: str) -> dict[str, Any]:
    """The analysis itself went well, whatever it found."""
    invocation: dict[str, Any] = {"executionSuccessful": True}
    try:
        moment = dt.datetime.fromisoformat(created)
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


# --- two fleets -----------------------------------------------------------------------------

FLEET_RULES: dict[str, tuple[str, str, str]] = {
    "FL001": ("error", "a cell fails now that did not before", "its row has the error, the stage and the log"),
    "FL002": ("warning", "a cell is slower beyond noise", "`trtprof compare` of both run folders tells which part is"),
    "FL003": ("warning", "kernels of one pattern are slower in many models", "`trtprof plugin` weighs one of them"),
    "FL004": ("warning", "a cell is not asked any more", "leave it in the manifest, or take it out on both sides"),
    "FL005": ("note", "an estimate rose", "it is computed: what changed is its cause, and no measurement says so"),
    "FL006": ("none", "a cell cannot be compared", "answer it on both sides: `trtprof fleet run` goes on where it was"),
    "FL007": ("error", "a gate failed, or cannot be decided", "the cells that it looked at are results of their own"),
}
"""Rules by their ids: level, what it is, what to do. Of level ``none`` are those that a person must look at."""

_RULE_OF = {
    "failed now": "FL001", "slower": "FL002", "vanished": "FL004", "estimate rose": "FL005", "not answered": "FL006",
    "not decided": "FL006",
}  # fmt: skip


def _fleet_log(found: FleetComparison) -> dict[str, Any]:
    rules = list(FLEET_RULES)
    driver: dict[str, Any] = {"name": "trtprof"}
    if len(found.after.trtprof) == 1:
        driver["version"] = visible(found.after.trtprof[0])
    driver["rules"] = [
        {
            "id": rule,
            "shortDescription": {"text": text},
            "help": {"text": help_},
            "defaultConfiguration": {"level": level},
            "properties": {"tags": ["trust"] if level == "none" else ["performance"]},
        }
        for rule, (level, text, help_) in FLEET_RULES.items()
    ]
    results = [
        {
            "ruleId": rule,
            "ruleIndex": rules.index(rule),
            "kind": "review" if level == "none" else "fail",
            "level": level,
            "message": {"text": literal(text)},
            "locations": locations,
            "partialFingerprints": {"primaryLocationLineHash": mark, "trtprofFinding/v1": mark},
            "properties": properties,
        }
        for rule, level, text, locations, mark, properties in _fleet_results(found)
    ]
    return {
        "tool": {"driver": driver},
        "automationDetails": {"id": "trtprof/fleet/"},
        "invocations": [_invocation(found.after.last)],
        "results": results,
        "columnKind": "unicodeCodePoints",
        "properties": {
            "before": visible(found.before.folder),
            "after": visible(found.after.folder),
            "verdict": visible(found.verdict),
            "counts": dict(found.counts),
        },
    }


def _fleet_results(
    found: FleetComparison,
) -> Iterator[tuple[str, str, str, list[dict[str, Any]], str, Mapping[str, Any]]]:
    """Rule, level, message, locations, fingerprint and properties of each result."""
    for gate in found.gates:
        if gate.answer != "passed":
            level = "error" if gate.answer == "failed" else "none"
            text = f"gate {gate.gate} {gate.answer}: {gate.reason}"
            yield "FL007", level, text, [], _mark("FL007", gate.gate), {"answer": gate.answer}
    for kernel in found.kernels:
        if kernel.kind == "fact" and kernel.ratio > 1:
            text = f"{kernel.pattern} {kernel.dtype} on {kernel.target}: {words.kernel(kernel)}"
            mark = _mark("FL003", kernel.pattern, kernel.dtype, kernel.target)
            yield "FL003", FLEET_RULES["FL003"][0], text, [], mark, {"more_ns": kernel.after_ns - kernel.before_ns}
    for cell in found.cells:
        rule = _RULE_OF.get(cell.answer)
        if cell.answer == "appeared" and cell.reason:
            rule = "FL001"
        if rule is not None:
            size = words.size(cell)
            text = f"{cell.model} on {cell.target}, {size}: {words.in_words(cell)}"
            mark = _mark(rule, cell.model, cell.target, cell.verb, size)
            known = {"before_ns": cell.before_ns, "after_ns": cell.after_ns, "told_by": cell.told_by}
            properties = {name: value for name, value in known.items() if value is not None}
            yield rule, FLEET_RULES[rule][0], text, _cell_place(cell), mark, {"answer": cell.answer, **properties}


def _mark(*words_: str) -> str:
    return hashlib.sha256(json.dumps(words_).encode()).hexdigest()[:32] + ":1"


def _cell_place(cell: FleetCellChange) -> list[dict[str, Any]]:
    named = {"name": visible(cell.target), "fullyQualifiedName": f"target:{visible(cell.target)}", "kind": "target"}
    location: dict[str, Any] = {"logicalLocations": [named]}
    if uri := model_uri(cell.path):
        location["physicalLocation"] = {"artifactLocation": {"uri": uri}}
    return [location]
