r"""The findings of a run, or the gates of two fleets, as JUnit XML, which most CI systems show as tests.

There is no one standard; this keeps to what GitLab and Jenkins (its ``junit-10.xsd``) both read: ``testsuites``,
``testsuite``, ``testcase`` with at most one of ``failure``, ``error``, ``skipped``.

- One test case a code of the findings. It fails where one of them is a likely cause of severity warning or critical;
  with info alone it passes, and its output has the words. A doubt about the measurement (kind ``trust``) is skipped.
- ``coverage`` and ``verdict`` are cases of their own. They are errors, JUnit's word for a test that did not come to an
  answer, where too little kernel time was led back to layers, or no verdict could be given.
- One case a gate; an inconclusive one is skipped.

No ``time`` is given: a test took none. Characters that XML 1.0 forbids are shown as ``\x1b``.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from trtprof.base import units
from trtprof.base.records import Finding, FleetComparison, Run
from trtprof.base.text_file import visible
from trtprof.report import ReportOptions, reporter
from trtprof.report._format import headline, latency_name, time_of

LOW_COVERAGE = "TR902"  # Code of the finding that too little kernel time was led back to layers

NO_VERDICT = "no verdict"  # How a verdict begins that is withheld

_FAILING = ("warning", "critical")


@reporter("junit", suffix=".junit.xml", of=(Run, FleetComparison))
def render(found: Run | FleetComparison, options: ReportOptions) -> str:
    """Return a test suite: of a run a case a code of the findings, coverage and verdict; of fleets a case a gate."""
    if isinstance(found, FleetComparison):
        return _document(_gates(found), found.after.last)
    suite = ET.Element("testsuite", name=visible(f"trtprof: {found.model.name}"))
    _add_properties(suite, _of_run(found, options))
    by_code: dict[str, list[Finding]] = {}
    for finding in found.findings:
        by_code.setdefault(finding.code, []).append(finding)
    for code, findings in by_code.items():
        _add_case(suite, found, code, findings)
    _add_coverage(suite, found)
    _add_verdict(suite, found)
    return _document(suite, found.created)


def _document(suite: ET.Element, created: str) -> str:
    """Return the suite as a document, with its counts; ``created`` is a time in ISO 8601, or empty."""
    root = ET.Element("testsuites", name="trtprof")
    root.append(suite)
    kinds = {"tests": "", "failures": "/failure", "errors": "/error", "skipped": "/skipped"}
    for name, path in kinds.items():
        number = str(len(suite.findall(f"testcase{path}")))
        suite.set(name, number)
        root.set(name, number)
    if created:
        suite.set("timestamp", visible(created))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(suite: ET.Element, run: Run, name: str) -> ET.Element:
    # Jenkins makes packages of the parts between dots.
    classname = "trtprof." + visible(run.model.name).replace(".", "_")
    return ET.SubElement(suite, "testcase", classname=classname, name=visible(name))


def _add_case(suite: ET.Element, run: Run, code: str, findings: Sequence[Finding]) -> None:
    case = _case(suite, run, f"{code} {findings[0].title}")
    _add_properties(
        case,
        {
            "kind": ", ".join(dict.fromkeys(one.kind for one in findings)),
            "severity": ", ".join(dict.fromkeys(one.severity for one in findings)),
            "findings": len(findings),
            "estimate.lost_ns": sum(one.lost_ns for one in findings),
            "confidence": max(one.confidence for one in findings),
        },
    )
    causes = [one for one in findings if one.kind == "hypothesis"]
    failing = [one for one in causes if one.severity in _FAILING]
    text = "\n\n".join(map(_words, findings))
    if failing:
        worst = "critical" if any(one.severity == "critical" for one in failing) else "warning"
        _outcome(case, "failure", worst, _short(failing), text)
    elif causes:
        ET.SubElement(case, "system-out").text = text
    else:
        _outcome(case, "skipped", "", f"a doubt, no failure: {_short(findings)}", "")
        ET.SubElement(case, "system-out").text = text


def _outcome(case: ET.Element, kind: str, type_: str, message: str, text: str) -> None:
    element = ET.SubElement(case, kind, message=visible(message))
    if type_:
        element.set("type", type_)
    if text:
        element.text = text


def _short(findings: Sequence[Finding]) -> str:
    first = findings[0]
    lost = sum(one.lost_ns for one in findings)
    where = f" at {first.where}" if first.where else ""
    more = f" and {len(findings) - 1} more" if len(findings) > 1 else ""
    return f"{first.title}{where}{more}" + (f", ~{units.format_ns(lost)} lost" if lost else "")


def _words(finding: Finding) -> str:
    mark = "doubt" if finding.kind == "trust" else f"likely cause, {100 * finding.confidence:.0f} % sure"
    lines = [f"{finding.title} ({finding.severity}; {mark})"]
    if finding.where:
        lines.append(f"at: {finding.where}")
    if finding.lost_ns:
        lines.append(f"lost: ~{units.format_ns(finding.lost_ns)} (estimate)")
    lines += [f"evidence: {finding.evidence}", f"try: {finding.try_}"]
    lines += [f"command: {finding.command}"] if finding.command else []
    return "\n".join(map(visible, lines))


def _add_coverage(suite: ET.Element, run: Run) -> None:
    share = run.coverage
    case = _case(suite, run, "coverage")
    _add_properties(case, {"exact": share.exact, "inferred": share.inferred, "unattributed": share.unattributed})
    words = (
        f"{units.format_percent(share.exact)} of {time_of(run)} time led back exactly, "
        f"{units.format_percent(share.inferred)} by inference, {units.format_percent(share.unattributed)} not"
    )
    low = next((one for one in run.findings if one.code == LOW_COVERAGE), None)
    if low is not None:
        _outcome(case, "error", "coverage", low.evidence, words)
    elif run.captured_ns and not share.exact + share.inferred:
        _outcome(case, "error", "coverage", "no kernel time was led back to a layer", words)
    else:
        ET.SubElement(case, "system-out").text = words


def _add_verdict(suite: ET.Element, run: Run) -> None:
    case = _case(suite, run, "verdict")
    if run.verdict.startswith(NO_VERDICT):
        _outcome(case, "error", "verdict", run.verdict, "")
    else:
        ET.SubElement(case, "system-out").text = visible(run.verdict)


def _of_run(run: Run, options: ReportOptions) -> dict[str, object]:
    sums = headline(run)
    return {
        "model": run.model.name,
        "model.sha256": run.model.sha256,
        "backend": run.backend.name,
        "device": run.device.name,
        **{f"version.{name}": version for name, version in sorted(run.versions.items())},
        latency_name(run): run.latency.median_ns,
        "latency_p99_ns": run.latency.p99_ns if run.latency.n else None,
        "samples": run.latency.n,
        "estimate.attainable_ns": sums.attainable_ns,
        "estimate.of_roof": sums.of_roof,
        "run_folder": options.file,
    }


def _add_properties(parent: ET.Element, values: dict[str, object]) -> None:
    """Properties with a value; what is unknown has none."""
    known = {name: value for name, value in values.items() if value is not None and value != ""}
    if not known:
        return
    properties = ET.SubElement(parent, "properties")
    for name, value in known.items():
        ET.SubElement(properties, "property", name=visible(name), value=visible(str(value)))


def _gates(found: FleetComparison) -> ET.Element:
    suite = ET.Element("testsuite", name="trtprof fleet: gates")
    for gate in found.gates:
        case = ET.SubElement(suite, "testcase", classname="trtprof.gates", name=visible(gate.gate))
        if gate.answer == "failed":
            _outcome(case, "failure", "gate", gate.reason, "")
        elif gate.answer == "inconclusive":
            _outcome(case, "skipped", "", f"inconclusive: {gate.reason}", "")
        else:
            ET.SubElement(case, "system-out").text = visible(gate.reason)
    return suite
