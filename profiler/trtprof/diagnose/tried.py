"""What `trtprof try` measured beside a run, and the command that has it measured."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from trtprof.base.records import Interval, Rung, TriedRung
from trtprof.base.rungs import ANSWERS, answered
from trtprof.diagnose import Case

NAMED = 3  # Rungs that a sentence names; the others are counted
_TRIED = frozenset({"helps", "no difference", "slower", "wrong", "failed"})
_WITHOUT = {"no difference": "without effect", "slower": "slower", "wrong": "wrong", "failed": "failed"}


class Remedy(NamedTuple):
    """What to do about a finding; see the fields of `records.Finding`."""

    words: str
    command: str = ""
    tried: tuple[TriedRung, ...] = ()


def remedy_of(case: Case, code: str, words: str, layers: Collection[str], rungs: str = "") -> Remedy:
    """What was tried in place of ``words``, and the command that tries or makes it; no ``layers``: the whole run."""
    own = [rung for rung in tried_in(case, nodes_of(case, layers)) if code in rung.answers]
    helps = [rung for rung in own if rung.verdict == "helps"]
    tried = tuple(map(short, own))
    if helps:
        best = _named([f"{rung.name}, {times(rung.gain)}" for rung in helps], " and ")
        return Remedy("; ".join([f"tried: {best}", *_fruitless(own)]), makes(case, helps), tried)
    if own:
        return Remedy("; ".join([words, *(f"tried: {text}" for text in _fruitless(own))]), "", tried)
    known = case.tries and answered(code, case.backend)
    if code == "SK803":  # Of the other forms that it knows only some are made by a rewrite, which it then names.
        known = known and any(f"({name})" in words for name in ANSWERS[code].rewrites)
    which = f"--rung {rungs} --budget 1m" if rungs else f"--only {code}"
    return Remedy(words, f"{case.tries} {which}" if known else "")


def nodes_of(case: Case, layers: Collection[str]) -> frozenset[str] | None:
    """Nodes of layers; None for all, where no layer is named."""
    if not layers:
        return None
    return frozenset(node for layer in case.layers if layer.name in layers for node in layer.nodes)


def tried_in(case: Case, nodes: frozenset[str] | None) -> list[Rung]:
    """Rungs measured alone or refuted that change any of these nodes or an option; the most helpful first."""
    rungs = case.tried.rungs if case.tried is not None else ()
    found = [
        rung
        for rung in rungs
        if rung.verdict in _TRIED
        and rung.kind != "combination"
        and (nodes is None or rung.kind == "option" or not nodes.isdisjoint(rung.nodes))
    ]
    return sorted(found, key=lambda rung: (rung.verdict != "helps", -rung.gain.value if rung.gain else 0.0, rung.name))


def makes(case: Case, rungs: Iterable[Rung]) -> str:
    """The command that tries rungs again, and writes the model that they make."""
    rungs = list(rungs)
    write = " -o best.onnx" if any(rung.kind != "option" for rung in rungs) else ""
    return f"{case.tries} --rung {','.join(rung.name for rung in rungs)}{write}" if case.tries else ""


def short(rung: Rung) -> TriedRung:
    """The part of a rung that others tell of it."""
    return TriedRung(name=rung.name, verdict=rung.verdict, gain=rung.gain)


def times(gain: Interval | None) -> str:
    """``3.2x (3.1 to 3.3)``: of the whole inference, before over after."""
    return "" if gain is None else f"{gain.value:.3g}x ({gain.low:.3g} to {gain.high:.3g})"


def _fruitless(rungs: Iterable[Rung]) -> list[str]:
    """What was tried and does not help, by what became of it: ``without effect: no-spinning``."""
    by: dict[str, list[str]] = {}
    for rung in rungs:
        if rung.verdict in _WITHOUT:
            by.setdefault(_WITHOUT[rung.verdict], []).append(rung.name)
    return [f"{what}: {_named(names, ', ')}" for what, names in by.items()]


def _named(texts: list[str], between: str) -> str:
    more = f" and {len(texts) - NAMED} more" if len(texts) > NAMED else ""
    return between.join(texts[:NAMED]) + more
