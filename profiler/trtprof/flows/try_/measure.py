"""A variant beside the original: are the outputs the same, and which is faster?"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from trtprof.capture.turns import Pair, Variant, round_of
from trtprof.compare.turns import TurnsChange, change_of_turns

ROUNDS = 3  # Fresh processes of either side, unless it is clear before
FEWEST = 2
"""Of these: one alone tells nothing of what processes differ by, and its interval is too narrow (`compare.turns`)."""
PAIRS = 4  # Turns of each side in a round
TURN_MS = 120.0  # Least time of a turn; it is one inference at least
ALIKE = 0.02  # A variant that is within so much of the original, for sure, makes no difference worth another process
CLEAR = 0.05  # One that is further away, for sure, needs no further process either


def measured(before: Variant, after: Variant, deadline: float) -> TurnsChange:
    """Take turns until it is clear which of two is faster, or that none is.

    `deadline`: ``time.monotonic()`` from which on no further round is begun but those that are needed.
    """
    rounds: list[Sequence[Pair]] = []
    while True:
        rounds.append(round_of(before, after, pairs=PAIRS, ms=TURN_MS))
        change = change_of_turns(rounds)
        low, high = change.interval()
        alike = low > math.exp(-ALIKE) and high < math.exp(ALIKE)
        clear = low > math.exp(CLEAR) or high < math.exp(-CLEAR)
        enough = len(rounds) >= FEWEST and (clear or time.monotonic() > deadline)
        if len(rounds) >= ROUNDS or alike or enough:
            return change
