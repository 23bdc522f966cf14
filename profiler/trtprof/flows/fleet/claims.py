"""Who works on what: claims of schedulers on groups of cells, as files that every file system can keep.

A claim is an empty file ``claims/GROUP.OWNER``; it counts while ``claims/OWNER.alive`` was written within the lease.
A scheduler writes its claims, then lists all of them once, and withdraws where it sees that of another living owner.
Never two hold one group: each wrote before it listed, so the second to write saw the first. Times are those that the
file system gave to files. Who wakes after its lease writes ``OWNER.alive`` anew and lists again before it goes on; who
takes a group over deletes the claims of the dead on it before it lets go.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar
from urllib.parse import quote

from trtprof.flows.fleet.files import Files

P = ParamSpec("P")
T = TypeVar("T")

FOLDER = "claims"
_ALIVE = "alive"
_OLD = 60  # Leases after which what the dead left is swept


def _now() -> float:
    """Seconds that go on while the machine sleeps, where the system counts them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def _one_at_a_time(method: Callable[Concatenate[Claims, P], T]) -> Callable[Concatenate[Claims, P], T]:
    """Signs of life come from a thread of their own."""

    @functools.wraps(method)
    def alone(self: Claims, /, *given: P.args, **named: P.kwargs) -> T:
        with self._lock:
            return method(self, *given, **named)

    return alone


class _Seen(NamedTuple):
    """One listing: owners of each group, and when each was last heard of, in ns of the clock of the file system."""

    owners: dict[str, set[str]]
    heard: dict[str, int]
    mine: int  # When the newest file of this owner was written


class Claims:
    """The claims of one owner, and what it sees of others."""

    def __init__(self, files: Files, owner: str, lease_s: float) -> None:
        self._files = files
        # No dot: it parts the group from the owner in the name of a claim.
        self._owner = quote(owner, safe="").replace(".", "%2E")
        self._lease_s = lease_s
        self._lock = threading.RLock()
        self._held: set[str] = set()
        self._lost: set[str] = set()
        self._heard = float("-inf")
        self._watched: dict[str, tuple[int, float]] = {}
        """The last sign of life of others, and since when it is that."""

    @property
    def _doubtful(self) -> bool:
        """Whether others may take this owner for dead. The quarter is for clocks that count whole seconds."""
        return _now() - self._heard > self._lease_s * 0.75

    @_one_at_a_time
    def alive(self) -> None:
        """Say that the owner lives; where it did not for long, look which claims are left to it."""
        began, doubtful = _now(), self._doubtful
        self._files.mark(self._path(_ALIVE, self._owner), b"alive\n")
        if doubtful and self._held:
            held, self._held = self._held, set()
            self._lost |= held
            left = self._uncontested(held)
            self._held, self._lost = left, self._lost - left
            self._files.delete(self._path(group) for group in held - left)
        self._heard = began

    @_one_at_a_time
    def claim(self, groups: Iterable[str]) -> set[str]:
        """See `Store.claim`."""
        asked = set(groups)
        self._breathe()
        wanted = asked - self._held
        if wanted:
            self._files.each(lambda group: self._files.mark(self._path(group)), sorted(wanted))
            got = self._uncontested(wanted)
            self._files.delete(self._path(group) for group in sorted(wanted - got))
            self._held |= got
            self._lost -= got
        return asked & self._held

    @_one_at_a_time
    def release(self, groups: Iterable[str]) -> None:
        """See `Store.release`."""
        gone = set(groups)
        self._lost -= gone
        self._files.delete(self._path(group) for group in sorted(gone & self._held))
        self._held -= gone

    @_one_at_a_time
    def holds(self, groups: Iterable[str], look: bool = False) -> set[str]:
        """Those of the groups that are still the owner's; ``look``: their claims are looked at, too."""
        if self._doubtful and self._held:
            self.alive()
        held = sorted(set(groups) & self._held)
        if look:
            there = self._files.look(self._path(group) for group in held)
            gone = {group for group, entry in zip(held, there, strict=True) if entry is None}
            self._held -= gone
            self._lost |= gone
        return set(held) & self._held

    @_one_at_a_time
    def lost(self, groups: Iterable[str]) -> set[str]:
        """Those of the groups that were the owner's and are not any more, though it did not let them go."""
        asked = set(groups)
        self.holds(asked, look=True)
        return asked & self._lost

    @_one_at_a_time
    def claimed(self) -> set[str]:
        """See `Store.claimed`."""
        seen = self._seen()
        now = seen.mine + int((_now() - self._heard) * 1e9) if self._owner and seen.mine else time.time_ns()
        return {group for group, owners in seen.owners.items() if any(self._lives(each, seen, now) for each in owners)}

    @_one_at_a_time
    def close(self) -> None:
        """Let all go, and be no more."""
        self.release(list(self._held))
        self._files.delete([self._path(_ALIVE, self._owner)])
        self._heard = float("-inf")

    @_one_at_a_time
    def time_ns(self) -> int:
        """Now, by the clock of the file system."""
        self.alive()
        (entry,) = self._files.look([self._path(_ALIVE, self._owner)])
        return entry.mtime_ns if entry else time.time_ns()  # deleted by hand just then

    @_one_at_a_time
    def sweep(self) -> None:
        """Delete what owners left that are dead for long."""
        self._breathe()
        seen = self._seen()
        limit = seen.mine - int(self._lease_s * _OLD * 1e9)
        dead = {owner for owner, heard in seen.heard.items() if heard < limit and owner != self._owner}
        names = [self._path(group, each) for group, owners in seen.owners.items() for each in owners & dead]
        self._files.delete(names + [self._path(_ALIVE, each) for each in sorted(dead)])

    def _breathe(self) -> None:
        if _now() - self._heard > self._lease_s / 4:
            self.alive()

    def _uncontested(self, groups: set[str]) -> set[str]:
        """Those that this owner claims and no other living one; claims of the dead on them are deleted."""
        seen = self._seen()
        # A listing that does not show what was just written shows nothing for sure.
        mine = {group for group in groups if self._owner in seen.owners.get(group, ())}
        dead: list[str] = []
        for group in sorted(mine):
            others = seen.owners[group] - {self._owner}
            if any(self._lives(each, seen, seen.mine) for each in others):
                mine.discard(group)
            else:
                dead += [self._path(group, each) for each in sorted(others)]
        self._files.delete(dead)
        return mine

    def _lives(self, owner: str, seen: _Seen, now: int) -> bool:
        if owner not in seen.heard:
            return False
        if seen.heard[owner] > now and _now() - self._watched[owner][1] > self._lease_s:
            # Its clock was put back after it died.
            return False
        return now - seen.heard[owner] <= self._lease_s * 1e9

    def _seen(self) -> _Seen:
        owners: dict[str, set[str]] = {}
        heard: dict[str, int] = {}
        mine = 0
        for entry in self._files.listing(FOLDER):
            left, _, right = entry.name.rpartition(".")
            if entry.kind != "file" or not left:
                continue
            owner = left if right == _ALIVE else right
            if right == _ALIVE:
                heard[owner] = entry.mtime_ns
            else:
                owners.setdefault(left, set()).add(owner)
            if owner == self._owner:
                mine = max(mine, entry.mtime_ns)
        for owner, at in heard.items():
            if self._watched.get(owner, (0, 0.0))[0] != at:
                self._watched[owner] = at, _now()
        return _Seen(owners, heard, mine)

    def _path(self, group: str, owner: str = "") -> str:
        if group == _ALIVE:
            return f"{FOLDER}/{owner}.{_ALIVE}"
        return f"{FOLDER}/{group}.{owner or self._owner}"
