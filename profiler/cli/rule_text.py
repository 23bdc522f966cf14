"""What ``trtprof rules`` and ``--explain`` print: the rules, their thresholds, and what one says of a layer."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from profiler.diagnose import Rule
    from profiler.diagnose.config import Config
    from profiler.diagnose.explain import Explanation

FORMATS = ("text", "json")
_SECTIONS = ("What", "Why", "Try")
_WIDTH = 78
_TITLE = 42
"""Columns of titles in the list; longer ones push what follows."""
_OUTCOMES = {
    "claims": "says",
    "run": "says",
    "taken": "silent",
    "dropped": "silent",
    "silent": "silent",
}


def listed(format_name: str, width: int) -> str:
    """All rules: code, title, order and the first words of what each finds."""
    from profiler.diagnose import RULES

    rules = list(RULES.values())
    if format_name == "json":
        return json.dumps([_head(rule) for rule in rules], indent=2)
    rows = [("code", "title", "order", "what it finds")]
    rows += [(rule.code, rule.title, f"{rule.order:>5}", _summary(rule)) for rule in rules]
    return "\n".join(_row(*row, width) for row in rows)


def _row(code: str, title: str, order: str, summary: str, width: int) -> str:
    head = f"{code:<5}  {title.ljust(_TITLE)}  {order}"
    words = _first_words(summary, width - len(head) - 2)
    return f"{head}  {words}" if words else head


def _first_words(text: str, width: int) -> str:
    """As many words of a text as fit, with a mark where some do not; empty where hardly any does."""
    if len(text) <= width:
        return text
    words = text[: max(width - 3, 0)].rpartition(" ")[0].rstrip(" ,;:")
    return f"{words}..." if " " in words else ""


def _head(rule: Rule) -> dict[str, Any]:
    return {"code": rule.code, "title": rule.title, "order": rule.order, "summary": _summary(rule)}


def _summary(rule: Rule) -> str:
    return rule.doc.strip().partition("\n")[0].rstrip(".")


def described(rule: Rule, config: Config, format_name: str) -> str:
    """One rule: what it looks at, why it happens, what to try, and its thresholds as they are set here."""
    from profiler.diagnose import Thresholds
    from profiler.diagnose.rank import OF_EVERY_FINDING

    # What is told of a plan has no time to be large or small.
    every_finding = () if rule.plan else OF_EVERY_FINDING
    own, every = ([name for name in Thresholds._fields if name in of] for of in (rule.thresholds, every_finding))
    if format_name == "json":
        document = {
            **_head(rule),
            **{name.lower(): rule.section(name) for name in _SECTIONS},
            "thresholds": [_threshold(name, config) for name in own],
            "thresholds_of_every_finding": [_threshold(name, config) for name in every if name not in own],
        }
        return json.dumps(document, indent=2)
    lines = [f"{rule.code}  {rule.title}"]
    for section in _SECTIONS:
        lines += ["", f"{section}:", _wrapped(rule.section(section))]
    lines += ["", "Thresholds:", *(_lines(own, config) if own else ["  none of its own"])]
    if every:
        lines += ["", "Thresholds of every finding:", *_lines([name for name in every if name not in own], config)]
    lines += ["", _wrapped("Each can be set in pyproject.toml, [tool.trtprof]; TRTPROF_CONFIG names another file.", "")]
    return "\n".join(lines)


def _threshold(name: str, config: Config) -> dict[str, Any]:
    from profiler.diagnose import THRESHOLDS
    from profiler.diagnose.config import meanings

    return {
        "name": name.replace("_", "-"),
        "value": getattr(config.thresholds, name),
        "default": getattr(THRESHOLDS, name),
        "from": config.source(name),
        "meaning": meanings().get(name, ""),
    }


def _lines(names: list[str], config: Config) -> list[str]:
    lines = []
    for name in names:
        row = _threshold(name, config)
        where = "the default" if row["from"] == "default" else f"by default {row['default']:g}; from {row['from']}"
        lines += [f"  {row['name']} = {row['value']:g}  ({where})", _wrapped(row["meaning"], "    ")]
    return lines


def _wrapped(text: str, indent: str = "  ") -> str:
    return textwrap.fill(text, _WIDTH, initial_indent=indent, subsequent_indent=indent)


def explained(found: Explanation, format_name: str) -> str:
    """What a rule says of a layer."""
    import msgspec

    from profiler.base.units import format_ns

    if format_name == "json":
        return msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n"
    attainable = "not known" if found.attainable_ns is None else format_ns(found.attainable_ns)
    lost = "not known" if found.lost_ns is None else format_ns(found.lost_ns)
    nodes = [node for node in found.nodes if node != found.layer]
    lines = [
        f"{found.code}  {found.title}",
        f"{found.layer}  ({found.op_type})",
        *([_wrapped("nodes: " + ", ".join(nodes))] if nodes else []),
        f"  {format_ns(found.measured_ns)} measured, {attainable} attainable, {lost} lost, bound: {found.bound}",
        "",
        f"{_OUTCOMES[found.outcome]}:",
        _wrapped(found.why),
    ]
    others = [finding for finding in found.findings if finding.code != found.code]
    if others:
        lines += ["", "other findings that name the layer:"]
        lines += [
            f"  {finding.code}  {finding.title}, {format_ns(finding.lost_ns)}, {finding.severity}" for finding in others
        ]
    return "\n".join(lines) + "\n"
