"""What is known of the thresholds: what each means, and which a rule uses.

Both are read from where they cannot go stale: the docstring of `Thresholds`, and the source of the rule itself.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

from profiler.diagnose import Case, Thresholds

_HOLDER = "thresholds"
"""The attribute of a case, and of nothing else, that has them."""


@functools.cache
def meanings() -> dict[str, str]:
    """What each threshold means and where its value is from, by name: the docstring of `Thresholds`."""
    section = inspect.cleandoc(Thresholds.__doc__ or "").partition("Attributes:\n")[2]
    entries = re.split(r"(?m)^ {4}(?=\S)", section)
    pairs = (entry.partition(":")[::2] for entry in entries if entry.strip())
    return {name: " ".join(text.split()) for name, text in pairs}


def used_by(function: Callable[..., object]) -> tuple[str, ...]:
    """The thresholds that a function looks at, in the order of `Thresholds`.

    Read from its source, and from that of all functions of its own package and methods of `Case` that it names.
    Where there is no source, none is known.
    """
    package = function.__module__.partition(".")[0]
    packages = {package, Thresholds.__module__.partition(".")[0]}
    found: set[str] = set()
    read: set[object] = set()
    pending: list[object] = [function]
    while pending:
        one = pending.pop()
        if not isinstance(one, FunctionType) or one in read or one.__module__.partition(".")[0] not in packages:
            continue
        read.add(one)
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(one)))
        except (OSError, SyntaxError):
            continue
        # The body alone: what a decorator is given is not what the function looks at.
        body = [node for part in getattr(tree.body[0], "body", []) for node in ast.walk(part)]
        found.update(_looked_at(body))
        pending.extend(_named(body, one.__globals__))
    return tuple(name for name in Thresholds._fields if name in found)


def _looked_at(body: list[ast.AST]) -> Iterator[str]:
    """Fields of thresholds: ``case.thresholds.field``, or ``name.field`` after ``name = case.thresholds``."""
    names = {
        target.id
        for node in body
        if isinstance(node, ast.Assign) and _is_holder(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in body:
        if isinstance(node, ast.Attribute):
            of = node.value
            if _is_holder(of) or (isinstance(of, ast.Name) and of.id in names):
                yield node.attr


def _is_holder(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == _HOLDER


def _named(body: list[ast.AST], known: dict[str, Any]) -> Iterator[object]:
    """What a function may call: functions by their names or those of their modules, and the methods of a case."""
    for node in body:
        if isinstance(node, ast.Name):
            yield known.get(node.id)
        elif isinstance(node, ast.Attribute):
            method = vars(Case).get(node.attr)
            yield method.fget if isinstance(method, property) else method
            if isinstance(node.value, ast.Name) and isinstance(known.get(node.value.id), ModuleType):
                yield getattr(known[node.value.id], node.attr, None)
