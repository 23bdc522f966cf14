"""Findings from claims: no nanosecond twice, largest first, and the verdict above them.

All hypotheses together claim no more than the latency without the profiler: a layer is claimed by one finding, for no
more than it took, as part of that latency (`Case.in_latency`); time outside layers once, for what the ledger's rows of
host, copies and unexplained hold. Where no layer beats its ideal and the remainder is not negative, rules that claim
time above the roof claim at most latency less ideal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from trtprof.base.records import Finding
from trtprof.base.units import format_ns, format_percent
from trtprof.diagnose import RULES, Case, Claim, Rule
from trtprof.diagnose.ledger import OUTSIDE, UNPRICED
from trtprof.diagnose.tried import Remedy, remedy_of

OF_EVERY_FINDING = ("min_share", "noise_cv", "warning_share", "critical_share", "doubt")
"""Fields of `Thresholds` that decide what becomes of a claim, whatever the rule."""


def diagnose(case: Case, rules: Iterable[Rule] | None = None) -> tuple[Finding, ...]:
    """Run all rules and rank findings by claimed time; a layer goes once, to the lowest order that wants it."""
    measured = {layer.name: layer.measured_ns for layer in case.layers}
    outside = sum(max(case.row(cause), 0) for cause in OUTSIDE)
    claimed: set[str] = set(case.claimed)
    findings: list[Finding] = []
    for found in sorted(RULES.values() if rules is None else rules, key=lambda r: (r.order, r.code)):
        claims = found.check(case._replace(claimed=frozenset(claimed)))
        for claim in sorted(claims, key=lambda c: (-sum(c.layers.values()) - c.other_ns, c.where)):
            if claim.kind == "trust":
                findings.append(_finding(found, claim, case, 0, tuple(claim.layers)))
                continue
            layers = {
                name: case.in_latency(min(max(ns, 0), measured[name]))
                for name, ns in claim.layers.items()
                if name not in claimed
            }
            if claim.layers and not layers:
                continue
            other = min(max(claim.other_ns, 0), outside)
            lost = sum(layers.values()) + other
            if case.share(lost) < case.thresholds.min_share and not claim.always:
                continue
            claimed.update(layers)
            outside -= other
            findings.append(_finding(found, claim, case, lost, tuple(layers)))
    return tuple(sorted(findings, key=_rank))


_FIRST = ("PR802",)  # What concerns the whole model comes before what concerns some layers
_SEVERITIES = ("critical", "warning", "info")


def _rank(finding: Finding) -> tuple[int, bool, int, str, str]:
    """Key for a sort: doubts first, since they say whether the rest can be believed, the gravest at the top."""
    doubt = _SEVERITIES.index(finding.severity) if finding.kind == "trust" else len(_SEVERITIES)
    return doubt, finding.code not in _FIRST, -finding.lost_ns, finding.code, finding.where


def _finding(found: Rule, claim: Claim, case: Case, lost: int, layers: tuple[str, ...]) -> Finding:
    confidence = claim.confidence
    if claim.kind != "trust":
        if any(layer.match != "exact" for layer in case.layers if layer.name in layers):
            confidence *= case.thresholds.doubt
        if case.noisy or (case.gpu and case.profiled.n == 1):
            confidence *= case.thresholds.doubt
        if case.from_datasheet or case.ceilings.disturbed:
            confidence *= case.thresholds.doubt
    trust = claim.kind == "trust"
    remedy = Remedy(claim.remedy) if trust else remedy_of(case, found.code, claim.remedy, layers, claim.rungs)
    return Finding(
        code=found.code,
        title=found.title,
        severity=_severity(claim, case, lost),
        where=claim.where,
        evidence=claim.evidence + (_scaled(case) if claim.kind != "trust" and claim.layers and lost else ""),
        lost_ns=lost,
        confidence=round(confidence, 2),
        try_=remedy.words,
        kind=claim.kind,
        layers=layers,
        brief=claim.brief,
        command=remedy.command,
        tried=remedy.tried,
    )


def _scaled(case: Case) -> str:
    """To be said behind the evidence of a claim to layers that the profile says take longer than the latency."""
    kernels, room = case.kernels_ns, case.room_ns
    if kernels <= room:
        return ""
    share = format_percent(kernels / room) if room > 0 else "all"
    return f"; {case.time_of}s as profiled take {share} of what the latency leaves them: the loss is scaled to that"


def _severity(claim: Claim, case: Case, lost: int) -> Literal["info", "warning", "critical"]:
    if claim.kind == "trust":
        return "critical" if claim.beyond else "warning"
    share = case.share(lost)
    if share >= case.thresholds.critical_share:
        return "critical"
    return "warning" if share >= case.thresholds.warning_share else "info"


def withheld(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The doubts beyond the limits at which there is no verdict."""
    return tuple(finding for finding in findings if finding.kind == "trust" and finding.severity == "critical")


def bound_reason(case: Case, findings: Iterable[Finding]) -> str:
    """Why no bound is shown; empty where it holds."""
    measured = case.latency.headline_ns
    if not case.gpu and 0 < measured < case.attainable_ns:
        return (
            f"the bound, {format_ns(case.attainable_ns)}, is above the measured latency, {format_ns(measured)}: "
            "the work is counted too high, or the ceilings were measured too low"
        )
    if beaten := [one for one in withheld(findings) if one.code == "TR901"]:
        return f"{beaten[0].brief}: their work is counted too high, or the ceilings are not those of this device"
    return ""


def verdict(case: Case, findings: Iterable[Finding], attainable_ns: int) -> str:
    """One sentence: how far from the roof, and the first cause; what is lacking is said behind it."""
    findings = tuple(findings)
    unsure = f"; less sure for: {', '.join(case.lacking)}" if case.lacking else ""
    attributed = case.coverage.exact + case.coverage.inferred
    if attributed < case.thresholds.coverage:
        return (
            f"no verdict: only {format_percent(attributed)} of {case.time_of} time is attributed, "
            f"{format_percent(case.thresholds.coverage)} are needed{unsure}"
        )
    measured = case.latency.headline_ns
    if not measured:
        return "no verdict: no latency was measured"
    if not attainable_ns and any(layer.role in ("compute", "control") for layer in case.layers):
        why = f": {case.would_price}" if case.would_price else ""
        return f"no verdict: nothing is priced, the work of no layer is known{why}{unsure}"
    if beyond := withheld(findings):
        how = beyond[0].try_.removeprefix("run again ")
        return f"no verdict: {'; '.join(one.brief for one in beyond)}; measure again: {how}{unsure}"
    unpriced = case.share(case.row(UNPRICED))
    if unpriced >= case.thresholds.unpriced:
        why = f": {case.would_price}" if case.would_price else ""
        return (
            f"no verdict: {format_percent(unpriced)} of latency has no price, and under "
            f"{format_percent(case.thresholds.unpriced)} may have none{why}{unsure}"
        )
    roof = f"the datasheet of {case.ceilings.device} allows" if case.from_datasheet else "this device attains"
    head = f"{format_percent(attainable_ns / measured)} of what {roof}"
    if unpriced >= case.thresholds.min_share:
        head = f"at least {head} ({format_percent(unpriced)} of latency has no price)"
    if reason := bound_reason(case, findings):
        head = f"no bound: {reason}"
    if not case.end_to_end:
        what = "as captured, with the profiler attached" if case.latency.n else "of the layers alone, not end to end"
        head = f"{what}: {head}"
    first = next((finding for finding in findings if finding.kind == "hypothesis"), None)
    if first is None:
        return f"{head}: no single cause stands out{unsure}"
    return f"{head}; likely cause {first.code} ({first.title}), {format_ns(first.lost_ns)}{unsure}"
