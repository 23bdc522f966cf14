"""The rules as a document tells of them: what each looks at, and the thresholds as they are set here."""

from __future__ import annotations

from trtprof.base.records import SCHEMA_VERSION, RuleListing, RuleSheet, RuleThreshold
from trtprof.base.rungs import ANSWERS, WITHOUT
from trtprof.diagnose import RULES, THRESHOLDS, Rule, Thresholds
from trtprof.diagnose.config import Config, meanings
from trtprof.diagnose.explain import rule_of
from trtprof.diagnose.rank import OF_EVERY_FINDING


def rules(config: Config, code: str | None = None) -> RuleListing:
    """All rules, or the one with that code, however it is spelled."""
    asked = list(RULES.values()) if code is None else [rule_of(code)]
    return RuleListing(schema_version=SCHEMA_VERSION, rules=tuple(_sheet(rule, config) for rule in asked))


def _sheet(rule: Rule, config: Config) -> RuleSheet:
    # What is told of a plan has no time to be large or small.
    every = () if rule.plan else OF_EVERY_FINDING
    return RuleSheet(
        code=rule.code, title=rule.title, order=rule.order, summary=rule.doc.strip().partition("\n")[0].rstrip("."),
        what=rule.section("What"), why=rule.section("Why"), remedy=rule.section("Try"),
        thresholds=tuple(_threshold(name, config) for name in Thresholds._fields if name in rule.thresholds),
        rungs=ANSWERS[rule.code].names if rule.code in ANSWERS else (),
        no_rung=WITHOUT.get(rule.code, "" if rule.code in ANSWERS else "no rung says that it answers this rule"),
        thresholds_of_every_finding=tuple(
            _threshold(name, config) for name in Thresholds._fields if name in every and name not in rule.thresholds
        ),
    )  # fmt: skip


def _threshold(name: str, config: Config) -> RuleThreshold:
    return RuleThreshold(
        name=name.replace("_", "-"),
        value=getattr(config.thresholds, name),
        default=getattr(THRESHOLDS, name),
        origin=config.source(name),
        meaning=meanings().get(name, ""),
    )
