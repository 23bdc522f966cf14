"""A variant beside the original: are the outputs the same, and which is faster?"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence

from trtprof.base.undisturbed import ALL_RAN_INFERENCES, ENOUGH
from trtprof.capture.turns import Mask, Pair, Variant, round_of
from trtprof.compare.turns import TurnsChange, change_of_turns

ROUNDS = 3  # Fresh processes of either side, unless it is clear before
FEWEST = 2
"""Of these: one alone tells nothing of what processes differ by, and its interval is too narrow (`compare.turns`)."""
PAIRS = 4  # Turns of each side in a round
TURN_MS, MOST_TURN_MS = 120.0, 200.0  # Least time of a turn; it is one inference at least
TURN_RUNS = 10  # Inferences that a turn holds up to the most: its first one finds caches and cores of the other side
ALIKE = 0.02  # A variant that is within so much of the original, for sure, makes no difference worth another process
CLEAR = 0.05  # One that is further away, for sure, needs no further process either


def measured(
    before: Variant, after: Variant, deadline: float, usual_ns: float = 0.0, fewest: int = FEWEST
) -> TurnsChange:
    """Take turns until it is clear which of two is faster, or that none is.

    `deadline`: ``time.monotonic()`` at which rounds are over but those that are needed; ``usual_ns``: an inference.
    """
    began, rounds = time.monotonic(), list[Sequence[Pair]]()
    while True:
        rounds.append(round_of(before, after, pairs=PAIRS, ms=turn_ms(usual_ns), first=len(rounds) % 2))
        change = change_of_rounds(rounds)
        low, high = change.interval()
        alike = low > math.exp(-ALIKE) and high < math.exp(ALIKE)
        clear = low > math.exp(CLEAR) or high < math.exp(-CLEAR)
        now = time.monotonic()
        enough = len(rounds) >= fewest and (clear or now + (now - began) / len(rounds) > deadline)
        if len(rounds) >= ROUNDS or alike or enough:
            return change


def turn_ms(usual_ns: float) -> float:
    """How long a turn is; an inference takes ``usual_ns``."""
    return max(min(TURN_RUNS * usual_ns / 1e6, MOST_TURN_MS), TURN_MS)


def change_of_rounds(rounds: Sequence[Sequence[Pair]]) -> TurnsChange:
    """What became of the latency: by the undisturbed inferences where both sides have enough, else by all."""
    shares = [[pair.all_ran[side] for pairs in rounds for pair in pairs] for side in (0, 1)]
    known = [[share for share in side if share is not None] for side in shares]
    all_ran = min(map(statistics.fmean, known)) if all(known) else None
    own = [
        [(pair.before[first], pair.after[second]) for pair in pairs if _any(first := pair.undisturbed[0])
         and _any(second := pair.undisturbed[1])]
        for pairs in rounds
    ]  # fmt: skip
    fewest = min(sum(len(pair[side]) for pairs in own for pair in pairs) for side in (0, 1))
    enough = fewest >= ENOUGH and all(own) and all_ran is not None and all_ran >= ALL_RAN_INFERENCES
    return change_of_turns(own if enough else rounds)._replace(undisturbed=enough, all_ran=all_ran)


def _any(mask: Mask | None) -> bool:
    return mask is not None and bool(mask.any())
