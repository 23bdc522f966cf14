r"""The findings of a run as JUnit XML, which GitLab, Jenkins and most CI systems show as tests.

There is no one standard; this keeps to what GitLab and Jenkins (its ``junit-10.xsd``) both read: ``testsuites``,
``testsuite``, ``testcase`` with at most one of ``failure``, ``error``, ``skipped``.

- One test case a code of the findings. It fails where one of them is a likely cause of severity warning or critical;
  with info alone it passes, and its output has the words.
- A doubt about the measurement (kind ``trust``) is no failure of the model: its case is skipped, and says why. The test
  could not be judged as it should.
- ``coverage`` and ``verdict`` are cases of their own. They are errors, which is JUnit's word for a test that did not
  come to an answer, where too little kernel time was led back to layers, or no verdict could be given.

Of two fleets a test suite is a target and a case a cell. It fails where the cell is slower beyond noise or fails now,
and is skipped where it vanished, was not answered or cannot be decided; an estimate that moved passes, and its output
says so. A last suite has a case a gate, which is skipped where it is inconclusive.

No ``time`` is given: a test took none, and what a finding claims is an estimate. It stands in the properties, with the
other numbers. Characters that XML 1.0 forbids are shown as ``\x1b``.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Sequence

from trtprof.base import units
from trtprof.base.records import Finding, Fleet, FleetCellChange, FleetComparison, Run
from trtprof.base.text_file import visible
from trtprof.report import ReportOptions, reporter
from trtprof.report._format import headline, time_of
from trtprof.report.content import _fleet_comparison as words
from trtprof.report.formats._lanes import latency_name

LOW_COVERAGE = "TR902"
"""Code of the finding that too little kernel time was led back to layers."""

NO_VERDICT = "no verdict"
"""How a verdict begins that is withheld."""

_FAILING = ("warning", "critical")


@reporter("junit", suffix=".junit.xml", of=(Run, Fleet, FleetComparison))
def render(found: Run | Fleet | FleetComparison, options: ReportOptions) -> str:
    """Of a run one test suite: a case a code of the findings, then coverage and verdict. Of fleets one a target."""
    if isinstance(found, Fleet):
        from trtprof.report.formats import _fleet_junit

        return _fleet_junit.render(found)
    if isinstance(found, FleetComparison):
        return document(_fleet_suites(found), found.after.last)
    suite = ET.Element("testsuite", name=visible(f"trtprof: {found.model.name}"))
    _add_properties(suite, _of_run(found, options))
    by_code: dict[str, list[Finding]] = {}
    for finding in found.findings:
        by_code.setdefault(finding.code, []).append(finding)
    for code, findings in by_code.items():
        _add_case(suite, found, code, findings)
    _add_coverage(suite, found)
    _add_verdict(suite, found)
    return document([suite], found.created)


def document(suites: Iterable[ET.Element], created: str = "") -> str:
    """Suites of test cases as a document, counted; ``created`` is when they were found, in ISO 8601."""
    root = ET.Element("testsuites", name="trtprof")
    totals = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for suite in suites:
        root.append(suite)
        counts = {
            "tests": len(suite.findall("testcase")),
            "failures": len(suite.findall("testcase/failure")),
            "errors": len(suite.findall("testcase/error")),
            "skipped": len(suite.findall("testcase/skipped")),
        }
        for name, number in counts.items():
            suite.set(name, str(number))
            totals[name] += number
        if created:
            suite.set("timestamp", visible(created))
    for name, number in totals.items():
        root.set(name, str(number))
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


# --- two fleets -----------------------------------------------------------------------------

_SKIPPED = ("vanished", "not answered", "not decided", "failed on both")


def _fleet_suites(found: FleetComparison) -> Iterable[ET.Element]:
    by_target: dict[str, list[FleetCellChange]] = {}
    for cell in found.cells:
        by_target.setdefault(cell.target, []).append(cell)
    for target in sorted(by_target):
        suite = ET.Element("testsuite", name=visible(f"trtprof fleet: {target}"))
        _add_properties(suite, {"before": found.before.folder, "after": found.after.folder})
        for cell in by_target[target]:
            _add_cell(suite, cell)
        yield suite
    if found.gates:
        suite = ET.Element("testsuite", name="trtprof fleet: gates")
        for gate in found.gates:
            case = ET.SubElement(suite, "testcase", classname="trtprof.gates", name=visible(gate.gate))
            if gate.answer == "failed":
                _outcome(case, "failure", "gate", gate.reason, "")
            elif gate.answer == "inconclusive":
                _outcome(case, "skipped", "", f"inconclusive: {gate.reason}", "")
            else:
                ET.SubElement(case, "system-out").text = visible(gate.reason)
        yield suite


def _add_cell(suite: ET.Element, cell: FleetCellChange) -> None:
    classname = "trtprof." + visible(cell.model).replace(".", "_")
    case = ET.SubElement(suite, "testcase", classname=classname, name=visible(words.size(cell)))
    _add_properties(
        case,
        {
            "answer": cell.answer,
            "was": cell.was,
            "told_by": cell.told_by,
            "before_ns": cell.before_ns,
            "after_ns": cell.after_ns,
            "causes": ", ".join(cell.causes),
        },
    )
    said = words.in_words(cell)
    if cell.answer == "slower":
        _outcome(case, "failure", "slower", said, "")
    elif cell.answer == "failed now" or (cell.answer == "appeared" and cell.reason):
        _outcome(case, "failure", "failed", said, "")
    elif cell.answer in _SKIPPED:
        _outcome(case, "skipped", "", said, "")
    elif cell.answer not in ("not significant", "estimate equal"):
        ET.SubElement(case, "system-out").text = visible(said)
