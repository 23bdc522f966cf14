"""Counters of single launches led to the layers of a run: by the names of kernels, their geometry, and their order.

Names differ between a capture and ncu: each is compared as it stands, then without what compilers and demanglers write
differently, then by the function alone, then by the tactic, with which names of kernels begin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from trtprof.base.kernel_counters import KernelCounters, LayerCounters, sum_up
from trtprof.base.records import LayerResult, MatchConfidence
from trtprof.base.units import format_names
from trtprof.kernel_names import mangled, symbols

_TACTIC = 12  # Least characters of a tactic that a name may begin with


class CounterAlignment(NamedTuple):
    """Where launches belong."""

    layers: tuple[LayerCounters, ...]  # Counters of each layer that has some, in the order of the layers given
    ambiguous: tuple[str, ...] = ()  # In sentences, launches that may be of several layers
    # Names of kernels that no layer runs, with those blocks and threads as far as they are known.
    unknown: tuple[str, ...] = ()


class _Candidate(NamedTuple):
    """A kernel of a layer: ``times`` launches in an inference."""

    layer: int
    kernel: str
    times: int
    blocks: int
    threads: int


_How = tuple[MatchConfidence, str]
_WORST: Mapping[MatchConfidence, int] = {"exact": 0, "inferred": 1, "none": 2}


def align_counters(
    launches: Sequence[KernelCounters], layers: Sequence[LayerResult], *, inferences: int = 0, order: Sequence[str] = ()
) -> CounterAlignment:
    """Lead launches, in their order, to layers.

    A name that one layer alone runs is that layer's. Of one that several run, blocks and threads may tell them apart;
    else launches are dealt out in the execution ``order`` of the layers, where their number fits whole inferences. The
    kernels of the layers are of so many ``inferences``; 0 for one.
    """
    candidates = [
        _Candidate(at, kernel, max(round(count / max(inferences, 1)), 1), blocks, threads)
        for at, layer in enumerate(layers)
        for (kernel, blocks, threads), count in _kernels(layer).items()
    ]
    places = {name: place for place, name in enumerate(order)}
    rank = [places.get(layer.name) for layer in layers]
    groups: dict[tuple[_Candidate, ...], list[KernelCounters]] = {}
    levels: dict[tuple[_Candidate, ...], _How] = {}
    unknown: list[str] = []
    finder = _Finder(candidates)
    for launch in launches:
        found, how = finder.find(launch)
        if not found:
            unknown.append(launch.kernel)
            continue
        groups.setdefault(found, []).append(launch)
        levels[found] = how
    dealt: dict[int, dict[str, list[KernelCounters]]] = {}
    hows: dict[int, _How] = {}
    ambiguous: list[str] = []
    for found, own in groups.items():
        how = levels[found]
        if len({one.layer for one in found}) > 1:
            sequence = _sequence(found, rank)
            parts = _by_process(own)
            if not sequence or any(len(part) % len(sequence) for part in parts):
                ambiguous.append(_not_told(found, own, layers, sequence))
                continue
            how = "inferred", f"{how[1]}, and its place among the {len(sequence)} launches of that kind in an inference"
            pairs = [(sequence[at % len(sequence)], launch) for part in parts for at, launch in enumerate(part)]
        else:
            pairs = [(found[0], launch) for launch in own]
        for candidate, launch in pairs:
            dealt.setdefault(candidate.layer, {}).setdefault(candidate.kernel, []).append(launch)
        for at in {candidate.layer for candidate, _ in pairs}:
            hows[at] = max(hows.get(at, how), how, key=lambda each: _WORST[each[0]])
    times: Counter[tuple[int, str]] = Counter()
    for one in candidates:
        times[one.layer, one.kernel] += one.times
    return CounterAlignment(
        layers=tuple(_sum(layers[at], at, dealt[at], times, hows[at]) for at in sorted(dealt)),
        ambiguous=tuple(ambiguous),
        unknown=tuple(dict.fromkeys(unknown)),
    )


def _kernels(layer: LayerResult) -> Counter[tuple[str, int, int]]:
    """How often each kernel of a layer was captured."""
    counts: Counter[tuple[str, int, int]] = Counter()
    for match in layer.kernels:
        counts[match.kernel, match.blocks, match.threads] += match.count
    return counts


def _sum(
    layer: LayerResult, at: int, own: Mapping[str, list[KernelCounters]], times: Counter[tuple[int, str]], how: _How
) -> LayerCounters:
    parts = [(float(times[at, kernel]), launches) for kernel, launches in own.items()]
    fields = sum_up(parts)
    return LayerCounters(
        layer=layer.name,
        launches=sum(len(launches) for _, launches in parts),
        launched=sum(times[at, kernel] for kernel in own),
        kernels=tuple(own),
        uncounted=tuple(dict.fromkeys(match.kernel for match in layer.kernels if match.kernel not in own)),
        confidence=how[0],
        reason=how[1],
        **fields,  # type: ignore[arg-type]
    )


class _Finder:
    """Candidates by their names, at each level of likeness."""

    def __init__(self, candidates: Sequence[_Candidate]) -> None:
        self._exact: dict[str, list[_Candidate]] = {}
        self._bare: dict[str, list[_Candidate]] = {}
        self._function: dict[str, list[_Candidate]] = {}
        for one in candidates:
            self._exact.setdefault(one.kernel, []).append(one)
            self._bare.setdefault(_bare(one.kernel), []).append(one)
            self._function.setdefault(function(one.kernel), []).append(one)
        self._known: dict[tuple[str, int, int], tuple[tuple[_Candidate, ...], _How]] = {}

    def find(self, launch: KernelCounters) -> tuple[tuple[_Candidate, ...], _How]:
        """What a launch may be of, and by what."""
        key = launch.kernel, launch.blocks, launch.threads
        if key not in self._known:
            self._known[key] = self._find(launch)
        return self._known[key]

    def _find(self, launch: KernelCounters) -> tuple[tuple[_Candidate, ...], _How]:
        name = launch.kernel
        called = function(name)
        # A kernel of the name may be of another model or batch, a function have other template arguments: then
        # blocks and threads tell.
        found = self._exact.get(name) or self._bare.get(_bare(name))
        if found:
            strange = all(_fits(one, launch) is False for one in found)
            return ((), ("none", "")) if strange else _alike(found, launch, "exact", "its name")
        found = self._function.get(called)
        if found:
            fits = [one for one in found if _fits(one, launch) is not False]
            return _alike(fits, launch, "inferred", "the name of its function") if fits else ((), ("none", ""))
        tactics = [
            one
            for tactic, own in self._function.items()
            if len(tactic) >= _TACTIC and called.startswith(tactic)
            for one in own
        ]
        return _alike(tactics, launch, "inferred", "the tactic that its name begins with")


def _alike(
    found: Sequence[_Candidate], launch: KernelCounters, confidence: MatchConfidence, reason: str
) -> tuple[tuple[_Candidate, ...], _How]:
    """Those of several layers that have the same geometry, if some have."""
    if len({one.layer for one in found}) > 1:
        fits = [one for one in found if _fits(one, launch)]
        if fits and len(fits) < len(found):
            return tuple(fits), (confidence, f"{reason}, its blocks and threads")
    return tuple(found), (confidence, reason)


def _fits(one: _Candidate, launch: KernelCounters) -> bool | None:
    """Whether a launch has the geometry of a kernel as captured; None where one of the two is not known."""
    pairs = [(one.blocks, launch.blocks), (one.threads, launch.threads)]
    known = [(mine, theirs) for mine, theirs in pairs if mine and theirs]
    return all(mine == theirs for mine, theirs in known) if known else None


@lru_cache(maxsize=65_536)
def function(name: str) -> str:
    """The function of a kernel without path, template arguments and parameters: what ncu's base ``function`` is."""
    text = name.strip()
    term, _ = mangled.read(text) if text.startswith("_Z") else symbols.read(text)
    return term.last.name or text


@lru_cache(maxsize=65_536)
def _bare(name: str) -> str:
    """A name without spaces, result type and parameters."""
    text = name.strip()
    if text.startswith("_Z"):
        return text
    text = text.removeprefix("void ")
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0 and at and not text.startswith("(anonymous namespace)", at):
            text = text[:at]
            break
    return "".join(text.split())


def _sequence(found: Sequence[_Candidate], rank: Sequence[int | None]) -> list[_Candidate]:
    """The candidates in the order in which an inference launches them; empty where it is not known."""
    placed = [(place, one) for one in found if (place := rank[one.layer]) is not None]
    if len(placed) < len(found):
        return []
    return [one for _, one in sorted(placed, key=lambda pair: pair[0]) for _ in range(one.times)]


def _by_process(launches: Sequence[KernelCounters]) -> list[list[KernelCounters]]:
    parts: dict[tuple[int, int], list[KernelCounters]] = {}
    for launch in launches:
        parts.setdefault((launch.process, launch.device), []).append(launch)
    return list(parts.values())


def _not_told(
    found: Sequence[_Candidate],
    launches: Sequence[KernelCounters],
    layers: Sequence[LayerResult],
    sequence: Sequence[_Candidate],
) -> str:
    names = list(dict.fromkeys(layers[one.layer].name for one in found))
    where = format_names(names)
    if sequence:
        why = f"they do not fit whole inferences of {len(sequence)} such launches"
    else:
        why = "the execution order of these is not known"
    own = f"{len(launches)} launches" if len(launches) > 1 else "a launch"
    return f"{own} of {function(launches[0].kernel)} may be of {where}: {why}"
