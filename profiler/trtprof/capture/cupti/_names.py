"""Names of kernels as CUPTI has them, which are those of the compiler, as people write them."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from functools import cache

_OPERATOR = re.compile(r"\boperator\s*(\(\)|<=>|<<=?|>>=?|->\*?|<=?|>=?)")


def demangled(name: str) -> str:
    """The C++ declaration behind a mangled name (``_Z...``); any other name as it is, and this where none can tell."""
    demangle = _demangler() if name.startswith("_Z") else None
    return demangle(name) if demangle else name


def can_demangle() -> bool:
    """Whether this machine has the C++ library that knows how."""
    return _demangler() is not None


def short_name(name: str) -> str:
    """The function without namespaces, template arguments and parameters, as nsys' shortName has it.

    ``void at::native::copy<float>(float*)`` -> ``copy``. A name that is no C++ declaration stays as it is.
    """
    if not re.search(r"[(<]", name):
        return name.rpartition("::")[2] or name
    bare, depth = "", 0
    at = 0
    while at < len(name):
        operator = _OPERATOR.match(name, at)
        if operator and depth == 0:
            bare += operator.group().replace("(", "\1").replace("<", "\2").replace(">", "\3")
            at = operator.end()
            continue
        letter = name[at]
        at += 1
        if name.startswith("(anonymous namespace)", at - 1):
            at += len("(anonymous namespace)") - 1
            continue
        if letter in "<{[":
            depth += 1
        elif letter in ">}]":
            depth = max(depth - 1, 0)
        elif letter == "(" and depth == 0:
            break
        elif depth == 0:
            bare += letter
    function = bare.strip().rpartition("::")[2].split(" ")[-1]
    return function.replace("\1", "(").replace("\2", "<").replace("\3", ">") or name


@cache
def _demangler() -> Callable[[str], str] | None:
    """``__cxa_demangle`` of the C++ library that every CUDA program has loaded."""
    try:
        demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
        free = ctypes.CDLL(None).free
    except (OSError, AttributeError):
        return None
    demangle.restype = ctypes.c_void_p
    demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    free.argtypes = [ctypes.c_void_p]

    def of(name: str) -> str:
        status = ctypes.c_int(0)
        found = demangle(name.encode(), None, None, ctypes.byref(status))
        if not found:
            return name
        try:
            return ctypes.string_at(found).decode(errors="replace")
        finally:
            free(found)

    return of
