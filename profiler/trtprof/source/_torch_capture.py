"""torch's two steps: a module captured as an ExportedProgram, and that translated to ONNX.

A dynamic dimension is first captured as a strict `torch.export.Dim`; where torch finds a condition instead, without
that proof, and the condition is said. Source: the documentation of `torch.export`, "Expressing Dynamism".
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.export.graph_signature import InputKind, TensorArgument
from torch.utils import _pytree

from trtprof.base.errors import BuildError, TrtprofError, UsageError
from trtprof.source._torch_module import cause
from trtprof.source.spec import ModelSpec


def capture(
    spec: ModelSpec, module: Any, call: inspect.BoundArguments, dims: Mapping[str, Mapping[int, str]]
) -> tuple[Any, list[str]]:
    """The module as an ExportedProgram, and what holds for its dynamic dimensions, in words."""

    def exported(dim_of: Callable[[str], Any]) -> Any:
        shapes = {
            name: {index: dim_of(symbol) for index, symbol in dims[name].items()}
            if name in dims
            else _pytree.tree_map(lambda _: None, value)
            for name, value in call.arguments.items()
        }
        return torch.export.export(
            module, call.args, call.kwargs, dynamic_shapes=shapes if dims else None, strict=False
        )

    symbols = {symbol for axes in dims.values() for symbol in axes.values()}
    named = {symbol: torch.export.Dim(symbol) for symbol in symbols}
    limits: list[str] = []
    try:
        try:
            return exported(named.__getitem__), []
        except Exception as error:
            if not dims:
                raise
            # What is no matter of dimensions fails again below.
            limits = _limits(spec, str(error), symbols)
        return exported(lambda _: torch.export.Dim.DYNAMIC), limits
    except TrtprofError:
        raise
    except Exception as error:
        raise BuildError(
            f"{spec} cannot be captured by torch.export",
            why=cause(error),
            fix="change that code so that no branch or shape depends on values"
            + (", or leave --dynamic away" if dims else "")
            + "; TRTPROF_DEBUG=1 shows all that torch says",
        ) from error


_SUGGESTED = re.compile(r"^\s*(\w+) = (.+?)\s*$", re.MULTILINE)
_UNMET = re.compile(
    r"Not all values of (\w+) = (\S+) in the specified range satisfy the generated guard (.+?)\.?$", re.MULTILINE
)


def _limits(spec: ModelSpec, message: str, symbols: Iterable[str]) -> list[str]:
    """What torch.export found about dimensions that are not free, from its message."""
    known = set(symbols)
    suggested = message.partition("Suggested fixes:")[2].split("\n\n")[0]
    found: dict[str, list[str]] = {}
    for symbol, value in _SUGGESTED.findall(suggested):
        if symbol not in known:
            continue
        if value.isdigit():
            raise UsageError(
                f"the dimension {symbol!r} of {spec} cannot be dynamic",
                why=f"what forward computes holds for {symbol} = {value} alone, says torch.export",
                fix=f"leave {symbol!r} out of --dynamic; if another input shares it, make it dynamic there too",
            )
        if value in known:
            raise UsageError(
                f"--dynamic has two names for one dimension of {spec}",
                why=f"{symbol} and {value} must always be equal, says torch.export",
                fix=f"call both {value}",
            )
        bounds = [
            f"is at {'least' if end == 'min' else 'most'} {number}"
            for end, number in re.findall(r"(min|max)=(\d+)", value)
        ]
        factor = re.fullmatch(r"(\d+)\*_\w+", value)
        found[symbol] = [f"is a multiple of {factor[1]}"] if factor else bounds or [f"is {value}"]
    bounded = set(found)
    for symbol, place, guard in _UNMET.findall(message):
        if symbol in known and symbol not in bounded:
            found.setdefault(symbol, []).append(f"satisfies {guard.replace(place, symbol)}")
    if not found:
        return ["may not be free: " + " ".join(message.partition("\n\n")[0].split())]
    return [f"{symbol!r} {' and '.join(words)}, says torch.export" for symbol, words in sorted(found.items())]


def translate(
    spec: ModelSpec,
    captured: Any,
    call: inspect.BoundArguments,
    dims: Mapping[str, Mapping[int, str]],
    opset: int | None,
) -> Any:
    """The ONNXProgram of an ExportedProgram, its inputs called as the parameters of forward."""
    placeholders = [
        entry.arg.name
        for entry in captured.graph_signature.input_specs
        if entry.kind is InputKind.USER_INPUT and isinstance(entry.arg, TensorArgument)
    ]
    # One entry a tensor, in the order of the inputs; torch has names of its own for what is nested.
    owners = [
        name if leaf is value else ""
        for name, value in call.arguments.items()
        for leaf in _pytree.tree_leaves(value)
        if isinstance(leaf, torch.Tensor)
    ]
    names = [owner or placeholder for owner, placeholder in zip(owners, placeholders, strict=True)]
    try:
        program = torch.onnx.export(
            captured,
            dynamo=True,
            verbose=False,
            opset_version=opset,
            input_names=names,
            dynamic_shapes=tuple(dict(dims[owner]) if owner in dims else None for owner in owners) if dims else None,
        )
    except Exception as error:
        deepest: BaseException = error
        while deepest.__cause__ is not None:
            deepest = deepest.__cause__
        raise BuildError(
            f"{spec} cannot be translated to ONNX",
            why=cause(deepest),
            fix="compute it with other operators; TRTPROF_DEBUG=1 shows all that torch says",
        ) from error
    made = program.model.opset_imports.get("")
    if opset is not None and made != opset:
        raise BuildError(
            f"{spec} cannot be exported with opset {opset}",
            why=f"torch {torch.__version__} makes opset {made} of it",
            fix=f"--opset {made}",
        )
    return program
