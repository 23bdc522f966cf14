"""The cells of a fleet as JUnit XML: a suite a target, a case a cell.

A cell that failed is an error, JUnit's word for a test that did not come to an answer, with its error and stage. What
the document leaves out is a case of its own that is skipped, and so are the cells that have no answer yet.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET

from trtprof.base.records import Fleet, FleetAnswer
from trtprof.base.text_file import visible
from trtprof.report._format import count
from trtprof.report.content.fleet import time
from trtprof.report.formats.junit import document


def render(found: Fleet) -> str:
    """The suites."""
    named = f"trtprof fleet: {found.name}"
    suites = []
    for target in found.targets:
        suite = ET.Element("testsuite", name=visible(f"{named}: {target.target}"))
        for one in found.answers:
            if one.target == target.target:
                _case(suite, one)
        if left := target.cells - target.done - target.failed:
            _skipped(suite, "cells without an answer", f"{count(left, 'cell')} to be done: trtprof fleet run")
        suites.append(suite)
    if found.answers_left_out:
        suite = ET.Element("testsuite", name=visible(named))
        _skipped(suite, "cells left out here", f"{count(found.answers_left_out, 'cell')}: --model and --target choose")
        suites.append(suite)
    return document(suites)


def _case(suite: ET.Element, one: FleetAnswer) -> None:
    precision = "" if one.precision == "model" else f", {one.precision}"
    # Jenkins makes packages of the parts between dots.
    classname = "trtprof.fleet." + visible(one.target).replace(".", "_")
    case = ET.SubElement(suite, "testcase", classname=classname, name=visible(f"{one.model}, {one.size}{precision}"))
    if one.status == "failed":
        ET.SubElement(case, "error", message=visible(one.error or "failed"), type="cell")
    else:
        doubts = f"; doubt: {one.doubts}" if one.doubts else ""
        ET.SubElement(case, "system-out").text = visible(f"{one.verb}: {time(one)}{doubts}")


def _skipped(suite: ET.Element, name: str, why: str) -> None:
    case = ET.SubElement(suite, "testcase", classname="trtprof.fleet", name=name)
    ET.SubElement(case, "skipped", message=visible(why))
