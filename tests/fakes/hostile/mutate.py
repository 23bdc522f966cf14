"""Documents and bytes broken at random places, as broken programs and people with bad intents break them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

TEXTS = (
    "", "\0", "a\0b", "\x1b[31mred\x1b[0m", "\x1b]0;t\x07", "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>", "x" * 1_000_000, "../../etc/passwd", "\u202eevil", "\ud800",
    "\udfff\ud800", "a\nb\rc", "{{7*7}}", "=1+1", "-1", "NaN", "1e999", "名前", "[bold]x[/]", "[/]", "٣", "0x10",
    "a+b" * 1000, "%s%n", "\x9b31m", "\x85\u2028", "|a|", "`x`", "[](javascript:alert(1))",
)  # fmt: skip
"""For names: markup, escapes, paths, other scripts, halves of surrogate pairs, a megabyte."""
NUMBERS = (
    0, -1, -0.0, 1, 1e308, -1e308, 1e-320, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30, 10**400,
    float("nan"), float("inf"), float("-inf"), 1e18, 1e15, 0.1, 1e9, 1e12,
)  # fmt: skip
ODD: tuple[Any, ...] = (None, True, False, [], {}, [[]], [None], {"a": 1}, "str", ["a"] * 1000)
"""What stands where something of another type was expected."""

_LONG = "9" * 5000
_SCALES = (-1, 1000, 1e-3, 1e6, 0)
_LARGEST_COPY = 50_000
"""Letters of a part that is put into another place."""


def mutated(random: Random, document: Any, texts: Sequence[str] = TEXTS) -> Any:
    """A copy of a JSON document with one to ten of its parts taken away, replaced, repeated, renamed or scaled."""
    document = copy.deepcopy(document)
    places = list(_places(document))
    for _ in range(random.choice((1, 1, 1, 2, 3, 10))):
        place = random.choice(places)
        if not place:
            document = random.choice(ODD) if random.random() < 0.05 else document
            continue
        try:
            _mutate(random, _part(document, place[:-1]), place[-1], document, places, texts)
        except (KeyError, IndexError, TypeError, OverflowError):  # an earlier mutation took the place away
            continue
    return document


def _places(document: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in inner:
        yield from _places(value, (*at, key))


def _part(document: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        document = document[key]
    return document


def _mutate(
    random: Random, parent: Any, key: Any, document: Any, places: Sequence[tuple[Any, ...]], texts: Sequence[str]
) -> None:
    old = parent[key]
    kind = random.randrange(13)
    if kind == 0:
        del parent[key]
    elif kind == 1:
        parent[key] = copy.deepcopy(random.choice(ODD))
    elif kind in (2, 3, 4):
        parent[key] = random.choice(NUMBERS)
    elif kind in (5, 6):
        parent[key] = random.choice(texts)
    elif kind == 7:
        parent[key] = [copy.deepcopy(old)] * random.choice((0, 1, 2, 50))
    elif kind == 8:
        parent[key] = {"x": copy.deepcopy(old)}
    elif kind == 9:
        other = _part(document, random.choice(places))
        parent[key] = copy.deepcopy(other) if len(repr(other)) < _LARGEST_COPY else 0
    elif kind == 10 and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(old))
        if random.random() < 0.3:
            random.shuffle(parent)
    elif kind == 11 and isinstance(parent, dict):
        parent[random.choice((*texts[:10], "name", "Name", "id"))] = parent.pop(key)
    elif isinstance(old, str):
        parent[key] = old + random.choice(texts[:20])
    elif isinstance(old, int | float):
        parent[key] = old * random.choice(_SCALES)


def written(random: Random, document: Any) -> bytes:
    """The document as JSON; one time in two cut short, in another encoding, with keys twice, or otherwise odd."""
    text = json.dumps(document, ensure_ascii=random.random() < 0.5, indent=random.choice((None, 1, 2)))
    odd: Sequence[Callable[[], str | bytes]] = (
        lambda: text[: random.randrange(len(text) + 1)],
        lambda: b"\xef\xbb\xbf" + text.encode("utf-8", "surrogatepass"),
        lambda: text.encode("utf-16", "surrogatepass"),
        lambda: text.replace('{"', '{"Name": 1, "name": "dup", "', 3),
        lambda: text + text,
        lambda: text.replace("\n", "\r\n"),
        lambda: _at_a_digit(random, text, _LONG),
        lambda: _at_a_digit(random, text, "[" * 100_000),
    )
    made = random.choice(odd)() if random.random() < 0.5 else text
    return made if isinstance(made, bytes) else made.encode("utf-8", "surrogatepass")


def _at_a_digit(random: Random, text: str, what: str) -> str:
    """The text with ``what`` in the place of one of its digits: a number that is too long, or no number."""
    digits = [at for at, letter in enumerate(text) if letter.isdigit()]
    at = random.choice(digits or [0])
    return text[:at] + what + text[at + 1 :]


def mutated_bytes(random: Random, data: bytes) -> bytes:
    """The bytes with one to forty pieces changed, cut out, doubled, moved, or put in; or an end that is missing."""
    made = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 8, 40))):
        if not made:
            break
        kind, at = random.randrange(9), random.randrange(len(made))
        size = min(len(made) - at, random.choice((1, 2, 4, 8, 64, 512, 4096)))
        if kind == 0:
            made[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            made[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
        elif kind == 2:
            del made[at:]
        elif kind == 3:
            del made[at : at + size]
        elif kind == 4:
            made[at:at] = made[at : at + size]
        elif kind == 5:
            made[at:at] = random.randbytes(size)
        elif kind == 6:
            made[at : at + size] = random.randbytes(size)
        elif kind == 7:
            made[at : at + size] = bytes([random.choice((0, 0xFF))]) * size
        else:
            other = random.randrange(len(made))
            made[other:other] = made[at : at + size]
    return bytes(made)
