"""What a rule says of one layer, and why where it says nothing: the rules run as for the report."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Literal

from trtprof.base.errors import UsageError
from trtprof.base.find_layer import find_layer
from trtprof.base.records import SCHEMA_VERSION, Explanation, Finding, LayerResult
from trtprof.base.units import format_ns, format_percent
from trtprof.diagnose import RULES, Case, Claim, Rule
from trtprof.diagnose.rank import diagnose
from trtprof.diagnose.reasons import little_time, near_roof, no_work, unpriced


def rule_of(code: str) -> Rule:
    """A rule by its code, however it is spelled."""
    found = RULES.get(code.upper())
    if found is None:
        raise UsageError(
            f"there is no rule {code!r}", why="known: " + ", ".join(RULES.keys()), fix=f"trtprof rules {nearest(code)}"
        )
    return found


def nearest(code: str) -> str:
    """The code of a rule that another text is most like: those of its family first."""

    def likeness(known: str) -> tuple[bool, float]:
        family = known[:2] == code[:2].upper()
        return family, difflib.SequenceMatcher(a=known, b=code.upper()).ratio()

    return max(RULES.keys(), key=likeness)


def layer_of(case: Case, name: str) -> LayerResult:
    """A layer with a measured time; see `find_layer`."""
    return find_layer(case.layers, name, "layer with a measured time")


def explain(case: Case, code: str, layer: str, rules: Iterable[Rule] | None = None) -> Explanation:
    """What a rule says of a layer, and why where it says nothing."""
    rule, about = rule_of(code), layer_of(case, layer)
    every = list(RULES.values() if rules is None else rules)
    findings = diagnose(case, every)
    outcome, why = _outcome(case, rule, about, every, findings)
    return Explanation(
        schema_version=SCHEMA_VERSION,
        code=rule.code,
        title=rule.title,
        layer=about.name,
        op_type=about.op_type,
        nodes=about.nodes,
        measured_ns=about.measured_ns,
        attainable_ns=about.attainable_ns,
        lost_ns=about.lost_ns,
        bound=about.bound,
        outcome=outcome,
        why=why,
        findings=tuple(finding for finding in findings if _names(finding, about)),
    )


def _names(finding: Finding, layer: LayerResult) -> bool:
    return layer.name in finding.layers or finding.where == layer.name


def _outcome(
    case: Case, rule: Rule, layer: LayerResult, rules: list[Rule], findings: tuple[Finding, ...]
) -> tuple[Literal["claims", "run", "taken", "dropped", "silent"], str]:
    own = [finding for finding in findings if finding.code == rule.code]
    for finding in own:
        if _names(finding, layer):
            return "claims", _claimed(finding, layer)
    places = {one.name for one in case.layers}
    for finding in own:
        if not finding.layers and finding.where not in places:
            return "run", f"it speaks of {finding.where}, not of a layer: {finding.evidence}"

    before = diagnose(case, [one for one in rules if (one.order, one.code) < (rule.order, rule.code)])
    taken = [finding for finding in before if finding.kind != "trust"]
    wanted = [claim for claim in rule.check(case) if claim.kind != "trust" and layer.name in claim.layers]
    for finding in taken:
        if wanted and layer.name in finding.layers:
            return "taken", (
                f"a more specific rule has claimed the layer first: {_short(finding)}. Without it, this one would: "
                f"{wanted[0].evidence}"
            )
    claimed = case.claimed.union(*(finding.layers for finding in taken))
    left = case._replace(claimed=claimed)
    for claim in rule.check(left):
        if claim.kind != "trust" and (layer.name in claim.layers or not claim.layers):
            return "dropped", _dropped(left, claim, rule)
    # What the others of a group lost to more specific rules may be what it lacks now.
    seen = left if wanted else case
    return "silent", (rule.reason(seen, layer) if rule.reason is not None else "") or _generic(seen, rule, layer)


def _claimed(finding: Finding, layer: LayerResult) -> str:
    others = len(set(finding.layers) - {layer.name})
    more = f" with {others} other{'s' * (others > 1)}" if others else ""
    if finding.kind == "trust":
        return f"it doubts the layer{more}: {finding.evidence}"
    return f"it claims the layer{more}: {_short(finding)}: {finding.evidence}"


def _short(finding: Finding) -> str:
    return f"{finding.code} ({finding.title}), {format_ns(finding.lost_ns)}, {finding.severity}"


def _dropped(case: Case, claim: Claim, rule: Rule) -> str:
    ns = sum(max(ns, 0) for name, ns in claim.layers.items() if name not in case.claimed) + max(claim.other_ns, 0)
    lost = case.in_latency(ns)
    least = format_percent(case.thresholds.min_share)
    return (
        f"its claim is too small to be shown, or other rules have the time already: {rule.code} would claim "
        f"{format_ns(lost)}, {format_percent(case.share(lost))} of latency, of which a finding needs {least}: "
        f"{claim.evidence}"
    )


def _generic(case: Case, rule: Rule, layer: LayerResult) -> str:
    """What can be said without knowing the rule."""
    reason = no_work(case, layer) or unpriced(case, layer) or near_roof(case, layer) or little_time(case, layer)
    looked = f"the rule does not find in the layer what it is about: {rule.section('What')}"
    return f"{looked} Beside that, {reason}" if reason else looked
