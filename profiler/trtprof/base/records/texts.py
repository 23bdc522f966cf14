"""Fields of records that hold text, walked by their types: what each holds, its type says (`records.Holds`)."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

import msgspec

from trtprof.base.records.common import Holds

UNKNOWN = Holds("text_")
"""Of a field of text that does not say what it holds: it is taken for a name."""


def held(hint: Any) -> tuple[Holds, Any]:
    """What text of that type holds, and the type alone."""
    rule = UNKNOWN
    while typing.get_origin(hint) is typing.Annotated:
        hint, *marks = typing.get_args(hint)
        rule = next((mark for mark in marks if isinstance(mark, Holds)), rule)
    return rule, hint


Change = Callable[[str, Holds, str], str]
"""What becomes of a text, by what its field holds; the key of the dict that it is a value of, else ``""``."""
Rewrite = Callable[[Any, Change], Any]


@lru_cache(maxsize=256)
def text_fields(record: type[msgspec.Struct]) -> dict[str, Rewrite]:
    """How the fields of a record that hold text are rewritten; the others are left out."""
    hints = typing.get_type_hints(record, include_extras=True)
    found = {name: _rewriter(hint, f"{record.__name__}.{name}") for name, hint in hints.items()}
    return {name: rewrite for name, rewrite in found.items() if rewrite is not None}


def rewritten(record: msgspec.Struct, change: Change) -> Any:
    """A record in which every text has become what ``change`` makes of it."""
    return _of_record(type(record))(record, change)


def _rewriter(hint: Any, where: str) -> Rewrite | None:
    rule, hint = held(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is str:
        return lambda value, change: change(value, rule, "")
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _of_record(hint) if text_fields(hint) else None
    if origin is dict:
        return _of_dict(arguments, where)
    if origin in (tuple, list):
        return _of_items(arguments, where)
    if origin in (typing.Union, types.UnionType):
        return _of_union(arguments, where)
    # Numbers, None and words of a few choices; anything else would be a kind of field that is not known here.
    if origin is Literal or hint in (int, float, bool, type(None)):
        return None
    raise TypeError(f"{where} is of a type that may hold names and is not known here: {hint}")


def _of_record(kind: type[msgspec.Struct]) -> Rewrite:
    fields = tuple(text_fields(kind).items())

    def rewrite(value: Any, change: Change) -> Any:
        return msgspec.structs.replace(value, **{name: inner(getattr(value, name), change) for name, inner in fields})

    return rewrite


def _of_dict(arguments: tuple[Any, ...], where: str) -> Rewrite | None:
    key_rule, _ = held(arguments[0])
    rule, kind = held(arguments[1])
    of_text = kind is str
    inner = None if of_text else _rewriter(arguments[1], where)
    if key_rule.kind == "safe" and inner is None and (not of_text or rule.kind == "safe"):
        return None

    def rewrite(value: Any, change: Change) -> Any:
        found: dict[str, Any] = {}
        for key, item in value.items():
            if of_text:
                item = change(item, rule, key)  # noqa: PLW2901 - it takes its place
            elif inner is not None:
                item = inner(item, change)  # noqa: PLW2901
            found[change(key, key_rule, "")] = item
        return found

    return rewrite


def _of_items(arguments: tuple[Any, ...], where: str) -> Rewrite | None:
    inner = _rewriter(arguments[0], where)
    if len(arguments) > 1 and arguments[1] is not ...:
        every = [_rewriter(argument, where) for argument in arguments]
        if any(each is not None for each in every):
            return lambda value, change: tuple(
                item if each is None else each(item, change) for item, each in zip(value, every, strict=True)
            )
        return None
    if inner is None:
        return None
    known: Rewrite = inner
    return lambda value, change: tuple(known(item, change) for item in value)


def _of_union(arguments: tuple[Any, ...], where: str) -> Rewrite | None:
    options: list[tuple[type, Rewrite]] = []
    for argument in arguments:
        inner = _rewriter(argument, where)
        if inner is not None:
            _, kind = held(argument)
            options.append((typing.get_origin(kind) or kind, inner))

    def rewrite(value: Any, change: Change) -> Any:
        for kind, inner in options:
            if isinstance(value, kind):
                return inner(value, change)
        return value

    return rewrite if options else None
