"""``--fail-on``: exit code 1 where a finding is one that was asked for, with everything written all the same."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import typer

from trtprof.base.errors import UsageError
from trtprof.base.units import format_ns
from trtprof.cli.output import say

if TYPE_CHECKING:
    from trtprof.base.records import Finding

SEVERITIES = ("info", "warning", "critical")
LOST = "lost-ms"
EXIT_CODE = 1


class Criterion(NamedTuple):
    """One value of the option, and the findings that it means."""

    text: str
    fits: Callable[[Finding], bool]


def criteria(values: Iterable[str] | None) -> list[Criterion]:
    """What the option asks for, before any work is done for it."""
    return [_criterion(value.strip()) for value in values or ()]


def _criterion(value: str) -> Criterion:
    from trtprof.diagnose import RULES
    from trtprof.diagnose.explain import nearest

    name, equals, number = value.partition("=")
    if equals:
        return Criterion(value, _lost(value, name, number))
    if value.lower() in SEVERITIES:
        wanted = SEVERITIES[SEVERITIES.index(value.lower()) :]
        return Criterion(value, lambda finding: finding.kind != "trust" and finding.severity in wanted)
    of_runs = [rule.code for rule in RULES.values() if rule.plan is None]
    if value.upper() in of_runs:
        return Criterion(value, lambda finding: finding.code == value.upper())
    known = [*SEVERITIES, *of_runs]
    near = difflib.get_close_matches(value.lower(), SEVERITIES, n=1)
    raise UsageError(
        f"--fail-on {value} names no finding",
        why=f"known: {', '.join(known)}, {LOST}=NUMBER",
        fix=f"--fail-on {near[0] if near else nearest(value)}",
    )


def _lost(value: str, name: str, number: str) -> Callable[[Finding], bool]:
    fix = f"--fail-on {LOST}=0.5 means a finding that claims half a millisecond of an inference or more"
    if name.strip() != LOST:
        raise UsageError(f"--fail-on {value} is not known", why=f"only {LOST} takes a number", fix=fix)
    try:
        least = float(number)
    except ValueError:
        least = math.nan
    if not (math.isfinite(least) and least >= 0):
        raise UsageError(f"--fail-on {value} is not possible", why=f"{number!r} is no time in milliseconds", fix=fix)
    return lambda finding: finding.kind != "trust" and finding.lost_ns >= least * 1e6


def check(findings: Sequence[Finding], asked: Sequence[Criterion]) -> None:
    """Leave with exit code 1, and one line on stderr that names the finding, where one is asked for."""
    failing = [(finding, criterion) for finding in findings for criterion in asked if criterion.fits(finding)]
    if not failing:
        return
    finding, criterion = failing[0]
    others = len({id(other) for other, _ in failing}) - 1
    more = f", and {others} more finding{'s' * (others > 1)}" if others else ""
    lost = f", {format_ns(finding.lost_ns)}" if finding.kind != "trust" else ""
    say(
        f"failed by --fail-on {criterion.text}: {finding.code} ({finding.title}) at {finding.where}{lost}, "
        f"{finding.severity}{more}"
    )
    raise typer.Exit(EXIT_CODE)
