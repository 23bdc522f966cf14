"""The rules of the diagnosis, as documents tell of them."""

from __future__ import annotations

from typing import Literal

import msgspec

from trtprof.base.records.common import Record
from trtprof.base.records.estimate import Bound
from trtprof.base.records.findings import Finding


class RuleThreshold(Record, frozen=True, kw_only=True):
    """A number that a rule judges by, as it is set here."""

    name: str
    """As a project file spells it: ``min-share``."""
    value: float
    default: float
    origin: str = msgspec.field(name="from")
    """The file that sets it, or ``default``."""
    meaning: str


class RuleSheet(Record, frozen=True, kw_only=True):
    """A rule: what it looks at, why that happens, what to try, and what it judges by."""

    code: str
    title: str
    order: int
    """Of two rules that could claim the same time the one with the lower order gets it."""
    summary: str
    """What it finds, in its first sentence."""
    what: str
    why: str
    remedy: str = msgspec.field(name="try")
    thresholds: tuple[RuleThreshold, ...]
    """Its own."""
    thresholds_of_every_finding: tuple[RuleThreshold, ...]
    """Those besides its own."""
    rungs: tuple[str, ...] = ()
    """What of its remedy `trtprof try` makes, as ``--rung`` calls it."""
    no_rung: str = ""
    """Why that is nothing; empty where it is something."""


class RuleListing(Record, frozen=True, kw_only=True):
    """All rules, or one: the document of `trtprof rules --format json`."""

    schema_version: int
    rules: tuple[RuleSheet, ...]


class Explanation(Record, frozen=True, kw_only=True):
    """What a rule says of one layer: the document of ``--explain``.

    ``outcome`` is ``claims`` where a finding of the rule names the layer, ``run`` where one speaks of the whole run
    or of a place outside the layers, ``taken`` where a more specific rule has claimed the layer first, ``dropped``
    where the claim is too small to be shown, and ``silent`` where the rule has nothing to say of it.
    """

    schema_version: int
    code: str
    title: str
    layer: str
    op_type: str
    nodes: tuple[str, ...]
    measured_ns: int
    attainable_ns: int | None
    lost_ns: int | None
    bound: Bound
    outcome: Literal["claims", "run", "taken", "dropped", "silent"]
    why: str
    """In a sentence, with numbers."""
    findings: tuple[Finding, ...] = ()
    """All findings of the report that name the layer, those of other rules too."""
