"""Findings from claims: no nanosecond twice, largest first, and the verdict above them."""

from __future__ import annotations

from collections.abc import Iterable

from profiler.diagnose import RULES, Case, Claim, Rule
from profiler.records import Finding
from profiler.units import format_ns, format_percent

_CRITICAL_SHARE = 0.25
_WARNING_SHARE = 0.05


def diagnose(case: Case, rules: Iterable[Rule] | None = None) -> tuple[Finding, ...]:
    """Run all rules and rank what they find by the time it claims.

    A layer's time is claimed once, by the most specific rule that wants it (the one with the lowest
    order); what is left of a claim after that is kept only if it is worth showing.

    Args:
        case: The run to look at.
        rules: Defaults to every registered rule.
    """
    claimed: set[str] = set()
    findings: list[Finding] = []
    for found in sorted(RULES.values() if rules is None else rules, key=lambda r: (r.order, r.code)):
        # All claims of one rule see the same state, so that their order does not matter.
        taken = frozenset(claimed)
        for claim in found.check(case):
            layers = {name: ns for name, ns in claim.layers.items() if name not in taken}
            if claim.layers and not layers:
                continue
            lost = sum(layers.values()) + claim.other_ns
            if claim.kind != "trust":
                if case.share(lost) < case.thresholds.min_share:
                    continue
                claimed.update(layers)
            findings.append(_finding(found, claim, case, lost, tuple(layers)))
    return tuple(sorted(findings, key=lambda f: (f.kind != "trust", -f.lost_ns, f.code, f.where)))


def _finding(found: Rule, claim: Claim, case: Case, lost: int, layers: tuple[str, ...]) -> Finding:
    share = case.share(lost)
    inferred = [layer for layer in case.layers if layer.name in layers and layer.match != "exact"]
    confidence = claim.confidence
    if inferred:
        confidence *= 0.8
    if case.latency.cv > case.thresholds.noise_cv:
        confidence *= 0.8
    severity = "info"
    if claim.kind == "trust" or share >= _WARNING_SHARE:
        severity = "warning"
    if claim.kind != "trust" and share >= _CRITICAL_SHARE:
        severity = "critical"
    return Finding(
        code=found.code,
        title=found.title,
        severity=severity,  # type: ignore[arg-type]
        where=claim.where,
        evidence=claim.evidence,
        lost_ns=max(lost, 0),
        confidence=round(confidence, 2),
        try_=claim.remedy,
        kind=claim.kind,
        layers=layers,
    )


def verdict(case: Case, findings: Iterable[Finding], attainable_ns: int) -> str:
    """One sentence: how far from the roof, and the first cause. Withheld when coverage is too low."""
    attributed = case.coverage.exact + case.coverage.inferred
    if attributed < case.thresholds.coverage:
        return (
            f"no verdict: only {format_percent(attributed)} of kernel time is attributed, "
            f"{format_percent(case.thresholds.coverage)} are needed"
        )
    measured = case.latency.median_ns
    if not measured:
        return "no verdict: no latency was measured"
    head = f"{format_percent(attainable_ns / measured)} of what this device attains"
    first = next((finding for finding in findings if finding.kind == "hypothesis"), None)
    if first is None:
        return f"{head}: no single cause stands out"
    return f"{head}; first suspect {first.code} ({first.title}), {format_ns(first.lost_ns)}"
