"""A process goes ahead of others, and is afterwards what it was."""

from __future__ import annotations

import os
import threading

import pytest

from trtprof.runtime.priority import MOST, ahead_of_others, list_threads

pytestmark = pytest.mark.skipif(not list_threads(), reason="only Linux tells the threads of a process")


def test_what_was_changed_is_undone_and_a_polite_process_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    own, nice, places = threading.get_native_id(), dict[int, int](), dict[int, set[int]]()
    monkeypatch.setattr(os, "setpriority", lambda _, thread, value: nice.update({thread: value}))
    monkeypatch.setattr(os, "getpriority", lambda *_: -1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 5})
    monkeypatch.setattr(os, "sched_setaffinity", lambda thread, cpus: places.update({thread: set(cpus)}))
    seen = []

    def fail() -> None:
        with ahead_of_others([own]) as allowed:
            seen.append((allowed, nice[own], places[own]))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert seen == [(True, MOST, {2})]
    assert (nice[own], places[own]) == (-1, {2, 5})
    with ahead_of_others([own, own + 1, own + 2]):
        assert places[own] == {2, 5}, "more threads than CPUs have none of their own"

    nice.clear()
    monkeypatch.setattr(os, "getpriority", lambda *_: 10)
    with ahead_of_others() as allowed:
        assert not allowed
    assert not nice


def test_a_process_without_the_right_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "getpriority", lambda *_: 0)
    monkeypatch.setattr(os, "setpriority", refuse)
    with ahead_of_others([threading.get_native_id()]) as allowed:
        assert not allowed
