"""The one plug-in mechanism: costs, rules and reporters are all entries of a `Registry`.

An entry registers itself with a decorator when its module is imported; the registry imports
every module of its home package, then the modules that other distributions announce under its
entry-point group. A key may be registered several times with disjoint opset ranges; a second
entry for the same key and version is an error, never a silent override. A module of another
distribution that cannot be imported is left out whole (`trtprof.base.plugins`); one of our own raises.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, Literal, NamedTuple, TypeVar

from trtprof.base import plugins

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

NEWEST = 10**6
"""Open end of a version range."""


class _Entry(NamedTuple, Generic[V]):
    first: int
    last: int
    value: V


class Registry(Generic[K, V]):
    """Maps a key and a version to a value; ``name`` is what an entry is called in messages, for example ``cost``."""

    def __init__(self, name: str, package: str, entry_point_group: str) -> None:
        self.name = name
        self._package = package
        self._group = entry_point_group
        self._entries: dict[K, tuple[_Entry[V], ...]] = {}
        self._state: Literal["new", "loading", "loaded"] = "new"

    def register(self, *keys: K, first: int = 1, last: int = NEWEST) -> Callable[[V], V]:
        """Decorator that files a value under ``keys`` for versions ``first`` to ``last``."""

        def add(value: V) -> V:
            for key in keys:
                entries = self._entries.get(key, ())
                for entry in entries:
                    if first <= entry.last and entry.first <= last:
                        both = f"{entry.value!r} and {value!r}"
                        raise ValueError(f"{self.name} {key!r} is registered twice for {first}..{last}: {both}")
                self._entries[key] = (*entries, _Entry(first, last, value))
            return value

        return add

    def get(self, key: K, version: int = NEWEST) -> V | None:
        """The value for ``key`` whose range holds ``version``, or None."""
        self.load()
        return next((e.value for e in self._entries.get(key, ()) if e.first <= version <= e.last), None)

    def keys(self) -> list[K]:
        """All keys, sorted by their text so that listings do not depend on import order."""
        self.load()
        return sorted(self._entries, key=str)

    def values(self) -> Iterator[V]:
        """The newest value of every key, in the order of `keys`."""
        for key in self.keys():
            yield max(self._entries[key], key=lambda e: e.last).value

    def entries(self, key: K) -> list[tuple[int, int, V]]:
        """First and last version of each entry of a key, and its value; the oldest first."""
        self.load()
        return [(e.first, e.last, e.value) for e in sorted(self._entries.get(key, ()), key=lambda e: e.first)]

    def load(self) -> None:
        """Import all modules with entries, once; look-ups do it by themselves."""
        if self._state != "new":
            return
        self._state = "loading"  # a module may look up others as it is imported
        try:
            package = importlib.import_module(self._package)
            for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
                self._whole(functools.partial(importlib.import_module, f"{self._package}.{module.name}"))
        except BaseException:
            self._state = "new"
            raise
        for _ in plugins.loaded(self._group, lambda point: self._whole(point.load)):
            pass
        self._state = "loaded"

    def _whole(self, load: Callable[[], object]) -> None:
        """Import a module; one that fails half-way leaves no entries behind."""
        before = dict(self._entries)
        try:
            load()
        except BaseException:
            self._entries = before
            raise
