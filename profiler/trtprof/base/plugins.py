"""What other distributions bring: loaded through their entry points; what is broken is left out, and named.

One broken plug-in disables nothing but itself. The command line says once what was left out, as `trtprof doctor` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    import importlib.metadata

T = TypeVar("T")


class LeftOut(NamedTuple):
    """Something that cannot be used and was left out."""

    what: str  # What it is, and where it is from
    why: str  # In a few words
    fix: str  # What to do about it

    def __str__(self) -> str:
        return f"{self.what} is left out\n  why: {self.why}\n  fix: {self.fix}"


LEFT_OUT: list[LeftOut] = []
"""All that was left out so far, in the order in which it was met."""


def loaded(group: str, load: Callable[[importlib.metadata.EntryPoint], T]) -> Iterator[T]:
    """What ``load`` makes of every entry point of a group; one that raises is noted in `LEFT_OUT`."""
    import importlib.metadata  # is imported for what the command line says too, most of which loads no plug-in

    for point in importlib.metadata.entry_points(group=group):
        try:
            made = load(point)
        except Exception as error:
            of = f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unknown distribution"
            LEFT_OUT.append(
                LeftOut(
                    f"the plug-in {point.name!r} of {of} ({group}: {point.value})",
                    why=f"{type(error).__name__}: {error}",
                    fix="mend, update or uninstall the distribution that announces it",
                )
            )
        else:
            yield made
