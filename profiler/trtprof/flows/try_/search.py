"""Which candidates are measured, in which order, and what is combined."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from trtprof.base.errors import TrtprofError, UsageError
from trtprof.base.records import Interval, Run, Rung, RungCheck, RungVerdict, Source
from trtprof.base.units import format_ns
from trtprof.capture.same_outputs import KindCheck, Original, check_variant, keep_original
from trtprof.capture.turns import Variant as Side
from trtprof.compare.samples import LEVEL
from trtprof.compare.turns import Judged, TurnsChange, judged
from trtprof.engine.passes import INSTALL, PASSES
from trtprof.flows.progress import Progress
from trtprof.flows.try_ import measure
from trtprof.flows.try_.measure import measured
from trtprof.flows.try_.options import SESSION_NAMES, Candidate, TryOptions, rewrite_candidates
from trtprof.flows.try_.price import NOT_TOLD, SAME, Price
from trtprof.flows.try_.target import Rounding, Target
from trtprof.flows.try_.variants import PASS_S, UnfitError, Variant, Workshop
from trtprof.rewrite import REWRITES

HOPELESS = 0.8  # A rewrite that is predicted to reach less of the speed of the original is not measured
PLAUSIBLE = 0.03  # Share of the layers' time that a rewrite must touch to be worth a measurement
FIRST = ("no-spinning", "threads-1")  # On a CPU: cheap to set up, and often what helps most
PASSED, SINGLES, COMBINED = 0.3, 0.7, 0.85
"""Shares of the budget without the two runs after which passes are hurried, no further candidate is begun, and nothing
more is combined: the rest is for the last measurement."""
TURNS = 2 * measure.FEWEST * (measure.PAIRS + 2)
"""Inferences that a measurement needs at least: those of the turns, and two to warm up each process."""
LEAST_PASS_S = 10.0
"""Seconds that a pass of another project has, even when its share is used up."""
LAST_S = 10.0  # Seconds that the last measurement has at least for further rounds
AGREE = 1.2  # The original alone and interleaved may differ by this factor, for a verdict
ALL_RAN = 0.9  # Share of the time that every thread has a CPU: below, other processes disturb the measurement
_ORDER: tuple[RungVerdict, ...] = (
    "helps", "unclear", "no difference", "slower", "wrong", "failed", "refused", "not measured",
)  # fmt: skip


class Ready(NamedTuple):
    """A candidate that can be measured."""

    candidate: Candidate
    variant: Variant
    price: Price
    seconds: float


class Best(NamedTuple):
    """What is fastest, and by how much, measured again."""

    names: tuple[str, ...]
    variant: Variant
    gain: Interval
    options: dict[str, str]
    where: str  # What it depends on; empty for nothing


class Search:
    """Tries candidates one by one; what is measured stays when it is interrupted.

    Attributes:
        best: The fastest combination, once it is found and was measured again.
        candidates: How many were measured against the original.
        notes: What else is to be said.
        unfit: Rungs that change nothing of this model.
    """

    def __init__(
        self, options: TryOptions, base: Run, target: Target, source: Source, scratch: Path, progress: Progress
    ) -> None:
        self._options, self._base, self._target, self._source = options, base, target, source
        self._scratch, self._progress = scratch, progress
        self._shop = Workshop(target.original.session, scratch)
        self._original = self._shop.variant(target, (), target.original)
        self._rows: dict[str, Rung] = {}
        self._changes: dict[str, TurnsChange] = {}
        self._ready: dict[str, Ready] = {}
        self._twins: dict[str, tuple[str, Ready]] = {}
        self._kept: Original | None = None
        self._folders, self._passing, self._end, self._took_s = 0, float("inf"), float("inf"), 0.0
        self.best: Best | None = None
        self.threads = target.original.session.threads
        self.notes: list[str] = []
        self.unfit: list[str] = []
        self.interrupted = False

    @property
    def candidates(self) -> int:
        return len(self._changes)

    def everything(self, began: float) -> None:
        """Make all candidates, price them, measure the promising ones, combine what helps.

        `began`: ``time.monotonic()`` from which on the budget counts.
        """
        now = time.monotonic()
        left, ran = began + self._options.budget_s - now, now - began
        left -= ran if left > 2 * ran else 0.0  # For the run of the best, which takes as long as that of the original
        until, combining, self._end = now + SINGLES * left, now + COMBINED * left, now + left
        self._passing = now + PASSED * left
        try:
            chosen = self._chosen()
            first = [] if self._options.dry_run else [one for name in FIRST for one in chosen if one.name == name]
            self._measure_all(self._prepared(first, until), until)
            ready = self._prepared([one for one in chosen if one not in first], until)
            if self._options.dry_run:
                for one in ready:
                    self._row(one.candidate, "not measured", "a dry run measures nothing", price=one.price)
                return
            self._measure_all(ready, until)
            self.judge()
            self._combine(combining)
        except KeyboardInterrupt:
            self.stopped("before what helps was combined and measured again")
            self.judge()

    def try_one(self, candidate: Candidate, until: float) -> bool:
        """Make one candidate, and measure it if it is before ``until``; return whether anything was measured."""
        for ready in self._prepared([candidate], float("inf")):
            if ready.price.gain is not None and ready.price.gain <= 1:
                self._row(candidate, "no difference", ready.price.basis, variant=ready.variant, price=ready.price)
            else:
                self._measure_all([ready], until)
        return candidate.name in self._rows and self._rows[candidate.name].verdict != "not measured"

    def stopped(self, when: str) -> None:
        """Note that somebody interrupted it, and when."""
        self.interrupted = True
        self.notes.append(f"it was interrupted {when}: what was measured until then is here")

    # --- candidates ------------------------------------------------------------------------------

    def _chosen(self) -> list[Candidate]:
        """The candidates that are asked for and can be made; those that answer a finding come first."""
        options = self._options
        every = asked_for(list(self._all()), options)
        answered = {finding.code for finding in self._base.findings}
        if absent := [code for code in options.only if code not in answered]:
            self.notes.append(f"the original has no finding {' or '.join(absent)}: rewrites have no layer of it")
        found = []
        for one in every:
            if one.idle:
                self.unfit.append(one.name)
            elif one.why_not:
                self._row(one, "refused", one.why_not)
            else:
                found.append(one)
        # Passes of others may take minutes for a large graph: they come last.
        return sorted(found, key=lambda one: (one.kind == "pass", not answered & set(one.answers)))

    def _all(self) -> Iterator[Candidate]:
        yield from rewrite_candidates()
        for one in PASSES:
            missing = one.missing()
            why_not = f"{missing}: {INSTALL}" if missing else ""
            yield Candidate(one.name, one.title, (), 0, one.answers, None, "", why_not, steps=(one.name,), kind="pass")
        yield from self._target.rungs()

    def _only(self) -> frozenset[str] | None:
        """Nodes that rewrites may touch: those of the layers of the findings that are asked for; None for all."""
        if not self._options.only:
            return None
        findings = [finding for finding in self._base.findings if finding.code in self._options.only]
        if any(not finding.layers for finding in findings):
            return None
        layers = {name for finding in findings for name in finding.layers}
        return frozenset(node for layer in self._base.layers if layer.name in layers for node in layer.nodes)

    def _prepared(self, candidates: Sequence[Candidate], until: float) -> list[Ready]:
        """Those that change anything, the most promising first; rows for all others that fit."""
        self._progress.stage("candidates")
        prepared = []
        for one in candidates:
            if time.monotonic() > until:
                self._row(one, "not measured", _NO_TIME)
                continue
            began = time.monotonic()
            self._shop.pass_s = min(max(self._passing - began, LEAST_PASS_S), PASS_S)
            try:
                ready = self._prepare(one)
            except UnfitError:
                self.unfit.append(one.name)
            except TrtprofError as error:
                self._row(one, "failed", f"{error.what}: {error.why}", seconds=time.monotonic() - began)
            else:
                if ready is not None:
                    prepared.append(ready._replace(seconds=time.monotonic() - began))
                    self._ready[one.name] = prepared[-1]
        return sorted(prepared, key=lambda one: -(one.price.gain or one.price.at_most or 1.0))

    def _prepare(self, candidate: Candidate) -> Ready | None:
        at_most = self._at_most(candidate)
        if at_most is not None and at_most < 1 / (1 - PLAUSIBLE) and candidate.name not in self._options.rungs:
            price = Price(None, f"the layers that it changes take under {PLAUSIBLE:.0%} of the time", at_most)
            self._row(candidate, "not measured", price.basis, price=price)
            return None
        variant = self._made(candidate)
        same = variant.graph == self._original.graph
        if same and candidate.steps and not candidate.options:
            self._row(candidate, "no difference", SAME.basis, variant=variant, price=SAME)
            return None
        if same or candidate.price is not None:
            return Ready(candidate, variant, candidate.price or NOT_TOLD, 0.0)
        return Ready(candidate, variant, self._target.priced(variant)._replace(at_most=at_most), 0.0)

    def _at_most(self, candidate: Candidate) -> float | None:
        """The gain if the layers that a candidate changes took no time; None for options, and where no layer tells."""
        layers = self._base.layers
        total = sum(layer.measured_ns for layer in layers)
        if not candidate.steps or not total:
            return None
        _, sites = self._shop.file(candidate.steps, self._only())
        gone = {name for site in sites for name in site.before}
        # A layer without nodes, such as a reorder, may go with any of them.
        kept = sum(layer.measured_ns for layer in layers if layer.nodes and gone.isdisjoint(layer.nodes))
        return total / max(kept, 1)

    def _made(self, candidate: Candidate) -> Variant:
        setup = self._target.setup(dict(text.split("=", 1) for text in candidate.settings), candidate.threads)
        return self._shop.variant(self._target, candidate.steps, setup, self._only())

    # --- measuring -------------------------------------------------------------------------------

    def _measure_all(self, ready: Sequence[Ready], until: float) -> None:
        self._progress.stage("turns")
        seen: dict[tuple[object, ...], str] = {}
        for one in ready:
            key = one.variant.graph, tuple(sorted(one.candidate.options.items()))
            why = self._why_not(one, until)
            if key in seen:
                self._twins[one.candidate.name] = seen[key], one
            elif why:
                self._row(one.candidate, "not measured", why, variant=one.variant, price=one.price)
            else:
                seen[key] = one.candidate.name
                self._measure(one, until)

    def _why_not(self, one: Ready, until: float) -> str:
        """Why a variant is not measured; empty where it is."""
        asked = one.candidate.name in self._options.rungs
        if one.price.gain is not None and one.price.gain < HOPELESS and not asked:
            return "it is predicted to be slower"
        if self.candidates >= self._options.most:
            return f"{self._options.most} were measured, as many as asked for"
        left, latency_ns = until - time.monotonic(), self._base.latency.headline_ns
        if left > 0 and TURNS * latency_ns / 1e9 > max(left, self._options.budget_s / 2):
            return (
                f"{TURNS} inferences of {format_ns(latency_ns)} do not fit into a budget of "
                f"{self._options.budget_s:.0f} s: give a longer --budget"
            )
        # What helps is measured once more.
        return _NO_TIME if left <= 0 or time.monotonic() + 2 * self._took_s > self._end else ""

    def _measure(self, one: Ready, until: float, beside: Ready | None = None) -> TurnsChange | None:
        """Check the outputs of a variant, measure it, and write its row; None where it is wrong or does not run."""
        candidate, began = one.candidate, time.monotonic()
        mine = self._side(one.variant, candidate.name)
        other = self._side(beside.variant, beside.candidate.name) if beside else self._side(self._original, _ORIGINAL)
        checks: tuple[RungCheck, ...] = ()
        change = None
        verdict: RungVerdict = "no difference"
        reason = ""
        try:
            self._progress.detail(f"{candidate.name}: outputs")
            if candidate.steps or not self._options.quick:
                checks = self._checks(mine, self._target.rounding(one.variant))
            wrong = [check for check in checks if not check.matches]
            if wrong:
                verdict, reason = "wrong", f"on {wrong[0].inputs}: {wrong[0].reason}"
            else:
                self._progress.detail(f"{candidate.name}: turns with {other.name}")
                change = measured(other, mine, until, self._base.latency.headline_ns)
        except TrtprofError as error:
            verdict, reason = "failed", f"{error.what}: {error.why}"
        self._took_s = max(self._took_s, time.monotonic() - began)
        seconds = one.seconds + time.monotonic() - began
        self._row(candidate, verdict, reason, variant=one.variant, price=one.price, checks=checks, seconds=seconds,
                  change=change, beside=beside.candidate.name if beside else "")  # fmt: skip
        if change is not None:
            low, high = change.interval()
            self._progress.note(f"{candidate.name}: {change.gain:.3g}x ({low:.2f} to {high:.2f})")
            if beside is None:
                self._changes[candidate.name] = change
        else:
            self._progress.note(f"{candidate.name}: {verdict}: {reason}")
        return change

    def _side(self, variant: Variant, name: str) -> Side:
        return self._target.side(variant, name, self._source.model.inputs, self._options.run.seed)

    def _checks(self, side: Side, rounding: Rounding) -> tuple[RungCheck, ...]:
        """The outputs of a variant beside those of the original, which are made once."""
        if self._kept is None:
            self._kept = keep_original(self._side(self._original, _ORIGINAL), self._folder("outputs"))
        return tuple(map(_check, check_variant(self._kept, side, self._folder("outputs"), **rounding._asdict())))

    def _folder(self, stem: str) -> Path:
        self._folders += 1
        folder = self._scratch / f"{stem}_{self._folders}"
        folder.mkdir()
        return folder

    def judge(self) -> None:
        """Turn what was measured against the original into verdicts that hold for all of them together."""
        names = list(self._changes)
        for name, found in zip(names, judged([self._changes[name] for name in names]), strict=True):
            verdict, reason = self._verdict(self._ready[name].candidate, found)
            self._judged(name, verdict, reason, found)
        for name, (twin, one) in self._twins.items():
            if twin in self._rows:
                self._rows[name] = msgspec.structs.replace(
                    self._rows[twin], name=name, kind=one.candidate.kind, title=one.candidate.title,
                    answers=one.candidate.answers, exact=one.candidate.exact, nodes=one.variant.gone,
                    added=one.variant.added, predicted=one.price.gain, at_most=one.price.at_most,
                    basis=one.price.basis, seconds=one.seconds,
                    reason=f"the runtime makes the same graph of it as of {twin}",
                )  # fmt: skip

    def _judged(self, name: str, verdict: RungVerdict, reason: str, found: Judged) -> None:
        self._rows[name] = msgspec.structs.replace(
            self._rows[name], gain=_interval(found), verdict=verdict, reason=reason
        )

    def _verdict(self, candidate: Candidate, found: Judged) -> tuple[RungVerdict, str]:
        """The verdict on a candidate that was measured against the original, and what it depends on."""
        change, latency = found.change, self._base.latency
        alone = latency.undisturbed_ns if change.undisturbed and latency.undisturbed_ns else latency.headline_ns
        # As shared it takes anything from what it takes undisturbed to what it took when others used the CPUs most.
        most = alone if change.undisturbed else max(alone, latency.median_ns)
        verdict = _VERDICTS[found.answer]
        if not alone / AGREE <= change.before_ns <= most * AGREE:
            times = f"{format_ns(alone)} alone, {format_ns(round(change.before_ns))} interleaved"
            return "unclear", f"the original took {times}{'; ' if _shared(change) else ''}{_shared(change)}"
        if verdict == "no difference" and (found.low < AGREE**-2 or found.high > AGREE**2):
            return "unclear", "the interval is wide: measure longer (--budget)"
        if not _shared(change) or change.undisturbed:
            return verdict, "the interval holds 1" if verdict == "no difference" else ""
        if verdict == "helps" and 0 < candidate.threads < self.threads:
            known = latency.undisturbed_ns is not None and latency.undisturbed_ns < change.levels[1] / AGREE
            there = f"on a machine of your own {self.threads} threads {'are' if known else 'may be'} faster"
            return "unclear", f"{self.threads} threads lose to other processes here; {there}; {_shared(change)}"
        return verdict, f"while other processes use these CPUs; {_shared(change)}"

    # --- combining -------------------------------------------------------------------------------

    def _combine(self, until: float) -> None:
        """Put what helps together, the best first, as long as each makes the whole faster; measure the result again."""
        helps = [self._rows[name] for name in self._changes if self._rows[name].verdict == "helps"]
        helps.sort(key=lambda row: -_value(row))
        if not helps:
            return
        self._progress.stage("combination")
        if self._confirm(self._combined(helps, until), until):
            return
        for row in helps:  # What does not hold is no longer among those that help.
            left = time.monotonic() + self._took_s < self._end and self._rows[row.name].verdict == "helps"
            if left and self._confirm(self._ready[row.name], until):
                return

    def _combined(self, helps: Sequence[Rung], until: float) -> Ready:
        """The best, and with it each of the others that makes it faster still."""
        best = self._ready[helps[0].name]
        for number, row in enumerate(helps[1:], 1):
            if time.monotonic() > until:
                self.notes.append(f"there was no time left to combine {', '.join(one.name for one in helps[number:])}")
                break
            both = self._both(best, self._ready[row.name])
            change = self._measure(both, until, beside=best) if both is not None else None
            # Each of those that are combined is one more chance to err.
            found = judged([change], (1 - LEVEL) / (len(helps) - 1))[0] if change is not None else None
            if both is None or found is None:
                continue
            self._judged(both.candidate.name, _VERDICTS[found.answer], f"beside {best.candidate.name} alone", found)
            if found.answer == "faster":
                best = both
        return best

    def _both(self, best: Ready, other: Ready) -> Ready | None:
        """The best so far with another rung on top; None where that changes nothing or cannot be."""
        if best.candidate.options.keys() & other.candidate.options.keys():
            return None  # one option has one value
        candidate = best.candidate.beside(other.candidate)
        try:
            variant = self._made(candidate)
        except UnfitError:
            return None
        except TrtprofError as error:
            self._row(candidate, "failed", f"{error.what}: {error.why}")
            return None
        if variant.graph == best.variant.graph and candidate.options == best.candidate.options:
            return None
        return Ready(candidate, variant, Price(None, "of a combination nothing is predicted"), 0.0)

    def _confirm(self, best: Ready, until: float) -> bool:
        """Measure the best once more, and return whether it holds: what was chosen for a measurement looks too good."""
        sides = self._side(self._original, _ORIGINAL), self._side(best.variant, best.candidate.name)
        if time.monotonic() + self._took_s > self._end:
            self.notes.append("there was no time left to measure the best once more: give a longer --budget")
            return False
        try:
            last = measured(*sides, max(until, time.monotonic() + LAST_S), self._base.latency.headline_ns)
            found = judged([last])[0]
            verdict, where = self._verdict(best.candidate, found)
        except TrtprofError as error:
            self.notes.append(f"{best.candidate.name} failed when it was measured again: {error.what}: {error.why}")
            return False
        gain = _interval(found)
        if verdict != "helps":
            name = best.candidate.name
            again = where if verdict == "unclear" else f"not when it was measured again: {_gain(gain)}"
            reason = f"helped once, but {again}"
            self.notes.append(f"{name} {reason}")
            self._rows[name] = msgspec.structs.replace(self._rows[name], verdict="unclear", reason=reason)
            return False
        one = best.candidate
        self.best = Best(tuple(one.name.split("+")), best.variant, gain, one.options, where)
        return True

    # --- the result ------------------------------------------------------------------------------

    def rungs(self) -> tuple[Rung, ...]:
        """All rows: what helps first, by its gain."""
        rows = self._rows.values()
        return tuple(sorted(rows, key=lambda row: (_ORDER.index(row.verdict), -_value(row), -(row.predicted or 0.0))))

    def verdict(self) -> str:
        """What came of it, in a sentence."""
        if self.best is not None:
            return f"{' and '.join(self.best.names)}: {_gain(self.best.gain)}{_after(self.best.where)}"
        helped = [row for row in self.rungs() if row.verdict == "helps" and not row.beside]
        if helped and helped[0].gain is not None:
            return f"{helped[0].name}: {_gain(helped[0].gain)}, not measured again{_after(helped[0].reason)}"
        unclear = [row for row in self.rungs() if row.verdict == "unclear"]
        if unclear:
            faster = [f"{row.name}: {_gain(row.gain)}" for row in unclear if row.gain is not None and row.gain.low > 1]
            there = f". There {', '.join(faster)}; on a machine of your own they may not help" if faster else ""
            return f"no verdict: {unclear[0].reason}{there}"
        if self._options.dry_run:
            return f"a dry run: {len(self._rows)} candidates, of which nothing was measured"
        if not self.candidates:
            reasons = Counter(row.reason for row in self._rows.values() if row.verdict != "refused")
            why = reasons.most_common(1)[0][0] if reasons else "no candidate changes anything of this model"
            return f"nothing was measured: {why}"
        if self.candidates == 1:
            return "the one candidate that was measured does not help"
        return f"nothing helps of the {self.candidates} candidates that were measured"

    def _row(
        self, candidate: Candidate, verdict: RungVerdict, reason: str, *, variant: Variant | None = None,
        price: Price | None = None, checks: tuple[RungCheck, ...] = (), seconds: float = 0.0,
        change: TurnsChange | None = None, beside: str = "",
    ) -> None:  # fmt: skip
        low, high = change.interval() if change is not None else (0.0, 0.0)
        shares = [check.of_tolerance for check in checks if check.of_tolerance is not None]
        self._rows[candidate.name] = Rung(
            name=candidate.name, kind=candidate.kind, title=candidate.title, verdict=verdict, reason=reason,
            answers=candidate.answers, exact=candidate.exact, options=candidate.options,
            predicted=price.gain if price else None, at_most=price.at_most if price else None,
            basis=price.basis if price else "",
            gain=Interval(value=change.gain, low=low, high=high, level=LEVEL) if change else None,
            tail=change.tail if change else None, beside=beside,
            before_ns=round(change.levels[0]) if change else None, after_ns=round(change.levels[1]) if change else None,
            turns=2 * change.pairs if change else 0, processes=2 * change.rounds if change else 0,
            checks=checks, difference=max(shares) if shares else None,
            nodes=variant.gone if variant else (), added=variant.added if variant else 0, seconds=round(seconds, 1),
        )  # fmt: skip


_ORIGINAL = "the original"
_NO_TIME = "there was no time left: give a longer --budget"
_VERDICTS: dict[str, RungVerdict] = {"faster": "helps", "slower": "slower", "not significant": "no difference"}


def asked_for(every: Sequence[Candidate], options: TryOptions) -> list[Candidate]:
    """Those of all candidates that are asked for."""
    refuse_unknown({one.name for one in every}, options)
    chosen = [one for one in every if (one.name in options.rungs if options.rungs else one.kind in options.kinds)]
    return [
        one for one in chosen
        if (not options.only or set(one.answers) & set(options.only)) and one.name not in options.skip
    ]  # fmt: skip


def names_on_cpu(options: TryOptions) -> set[str]:
    """Names of all candidates on a CPU, known before the model has run; any number of threads is one."""
    threads = {name for name in (*options.rungs, *options.skip) if re.fullmatch(r"threads-\d+", name)}
    return {*(one.name for one in REWRITES.values()), *(one.name for one in PASSES), *SESSION_NAMES, *threads}


def refuse_unknown(known: set[str], options: TryOptions) -> None:
    """Refuse names of candidates that there are not."""
    for flag, names in (("--rung", options.rungs), ("--skip", options.skip)):
        unknown = [name for name in names if name not in known]
        if unknown:
            raise UsageError(
                f"{flag} {unknown[0]}: there is no such candidate",
                why="there are: " + ", ".join(sorted(known)),
                fix=f"Remove {flag}, or name one of them.",
            )


def _check(found: KindCheck) -> RungCheck:
    worst = found.worst
    return RungCheck(
        inputs=found.kind, matches=found.matches, tensor=worst.name if worst else "",
        max_abs=worst.max_abs if worst and worst.max_abs >= 0 else None,
        of_tolerance=worst.tolerance if worst and worst.tolerance >= 0 else None,
        reason="; ".join(filter(None, (worst.reason if worst else "", found.note))),
    )  # fmt: skip


def _interval(found: Judged) -> Interval:
    return Interval(value=found.change.gain, low=found.low, high=found.high, level=found.level)


def _value(row: Rung) -> float:
    return row.gain.value if row.gain is not None else 0.0


def _shared(change: TurnsChange) -> str:
    """What other processes took away while it was measured; empty for next to nothing, or where nobody knows."""
    if change.all_ran is None or change.all_ran >= ALL_RAN:
        return ""
    return f"all threads had a CPU in as little as {change.all_ran:.0%} of the time".replace("%", " %")


def _after(text: str) -> str:
    return f", {text}" if text else ""


def _gain(gain: Interval) -> str:
    """``1.66x (1.47 to 1.88)``."""
    return f"{gain.value:.3g}x ({gain.low:.2f} to {gain.high:.2f})"
