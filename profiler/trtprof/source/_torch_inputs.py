"""What forward is called with: example inputs, made-up values, and dimensions that stay dynamic."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree

from trtprof.base.errors import UsageError
from trtprof.base.records import Tensor
from trtprof.base.units import format_shape
from trtprof.source._torch_module import cause
from trtprof.source.shapes import bind_shapes
from trtprof.source.spec import TORCH_DTYPES, DynamicDim, ExportOptions, ModelSpec

_TRACED = 2
"""A dynamic dimension of 1 is traced with this number: torch.export takes a 1 for a constant."""


def call_of(
    spec: ModelSpec, module: Any, examples: Any, options: ExportOptions, dtypes: Mapping[str, str]
) -> inspect.BoundArguments:
    """What forward is called with: the examples, and made-up values for what ``--shapes`` names."""
    signature = inspect.signature(module.forward)
    named = {
        name: parameter
        for name, parameter in signature.parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    for option, names in (("--shapes", options.shapes), ("--dtypes", dtypes)):
        for name in names:
            if name not in named and "*" not in name:
                raise UsageError(
                    f"{option} names {name!r}, which is not an input of {spec}",
                    why=f"forward takes {signature}",
                    fix=f"for example {option} {next(iter(named), 'x')}:{'1x128' if option == '--shapes' else 'int64'}",
                )
    call = _bound_examples(spec, signature, examples)
    missing = [
        name for name, parameter in named.items() if parameter.default is parameter.empty and name not in call.arguments
    ]
    if missing and not options.shapes:
        raise UsageError(
            f"the shapes of the inputs of {spec} are not known",
            why=f"forward takes {signature}",
            fix="--shapes "
            + ",".join(f"{name}:<dims>" for name in missing)
            + f", for example {missing[0]}:1x128, or let the factory return (module, example_inputs)",
        )
    if not call.arguments and not missing and not options.shapes:
        raise UsageError(
            f"what to feed to {spec} is not known",
            why=f"forward takes {signature}, which requires nothing by name",
            fix="name its inputs in --shapes, or let the factory return (module, example_inputs)",
        )
    shaped = [Tensor(name=name, dtype="", shape=None) for name in named if name in missing or name in options.shapes]
    shapes = bind_shapes(shaped, options.shapes).shapes if options.shapes else {}
    floating = _float_dtype(module, options.precision)
    for name, shape in shapes.items():
        example = call.arguments.get(name)
        like = example.dtype if isinstance(example, torch.Tensor) else floating
        call.arguments[name] = _made_up(shape, like)
    if options.precision:
        call.arguments = _each_tensor(
            call.arguments, lambda tensor: tensor.to(floating) if tensor.is_floating_point() else tensor
        )
    for name, dtype in dtypes.items():
        value = call.arguments.get(name)
        if not isinstance(value, torch.Tensor):
            raise UsageError(
                f"--dtypes names {name!r}, which is not fed to {spec}",
                why="it is no tensor among the example inputs" if name in call.arguments else "it has no shape",
                fix="leave it away" if name in call.arguments else f"give it a shape too: --shapes {name}:<dims>",
            )
        wanted = getattr(torch, TORCH_DTYPES[dtype])
        call.arguments[name] = _made_up(value.shape, wanted) if name in shapes else value.to(wanted)
    # In the order of the signature, which is that of the inputs of the exported model.
    call.arguments = {name: call.arguments[name] for name in signature.parameters if name in call.arguments}
    return call


def _bound_examples(spec: ModelSpec, signature: inspect.Signature, examples: Any) -> inspect.BoundArguments:
    if examples is None:
        return signature.bind_partial()
    try:
        if isinstance(examples, Mapping):
            call = signature.bind(**examples)
        else:
            call = signature.bind(*(examples if isinstance(examples, (tuple, list)) else (examples,)))
    except TypeError as error:
        raise UsageError(
            f"the example inputs of {spec} do not fit its forward",
            why=f"{error}; forward takes {signature}",
            fix="return (module, inputs) with inputs a tuple in that order, or a dict by name",
        ) from None
    call.arguments = _each_tensor(call.arguments, lambda tensor: tensor.detach().cpu())
    return call


def _each_tensor(values: Any, change: Callable[[Any], Any]) -> Any:
    return _pytree.tree_map_only(torch.Tensor, change, values)


def _float_dtype(module: Any, precision: str) -> Any:
    """What float inputs are made of: the dtype of the module's first float parameter or buffer."""
    if precision:
        return getattr(torch, TORCH_DTYPES[precision])
    tensors = (*module.parameters(), *module.buffers())
    return next((tensor.dtype for tensor in tensors if tensor.is_floating_point()), torch.float32)


def _made_up(shape: Sequence[int], dtype: Any) -> Any:
    """Values that most models take: 0..1 for floats; 1 for integers, an index, a length and a mask alike."""
    if dtype.is_floating_point:
        return torch.rand(tuple(shape)).to(dtype)
    return torch.ones(tuple(shape), dtype=dtype)


def dynamic_dims(
    spec: ModelSpec, call: inspect.BoundArguments, dynamic: Sequence[DynamicDim]
) -> dict[str, dict[int, str]]:
    """Name of every dynamic dimension, by input and index."""
    ranks = {name: value.dim() for name, value in call.arguments.items() if isinstance(value, torch.Tensor)}
    inputs = ", ".join(f"{name} with {rank} dimensions" for name, rank in ranks.items()) or "none by name"
    dims: dict[str, dict[int, str]] = {}
    # Those for all inputs first, so that one input's own name for a dimension wins.
    for item in sorted(dynamic, key=lambda item: item.name is not None):
        names = [name for name, rank in ranks.items() if item.name in (None, name) and item.axis < rank]
        if not names:
            raise UsageError(
                f"--dynamic {item.name + ':' if item.name else ''}{item.axis}={item.symbol} fits no input of {spec}",
                why=f"its inputs are {inputs}; the first dimension is 0",
                fix="name an input and a dimension that it has",
            )
        for name in names:
            dims.setdefault(name, {})[item.axis] = item.symbol
    sizes: dict[str, tuple[str, int]] = {}
    for name, axes in dims.items():
        for index, symbol in axes.items():
            number = int(call.arguments[name].shape[index])
            other, size = sizes.setdefault(symbol, (name, number))
            if size != number:
                raise UsageError(
                    f"--dynamic calls two dimensions {symbol!r} that differ",
                    why=f"it is {size} in {other} and {number} in {name}",
                    fix="give them the same number in --shapes, or two names",
                )
    return dims


def widen(call: inspect.BoundArguments, dims: Mapping[str, Mapping[int, str]]) -> list[str]:
    """Double, in place, dynamic dimensions of 1; returns their names."""
    widened = []
    for name, axes in dims.items():
        for index, symbol in axes.items():
            value = call.arguments[name]
            if value.shape[index] == 1:
                call.arguments[name] = torch.cat([value] * _TRACED, index)
                widened.append(symbol)
    return sorted(set(widened))


def try_forward(
    spec: ModelSpec,
    module: Any,
    call: inspect.BoundArguments,
    widened: Sequence[str],
    options: ExportOptions,
    dtypes: Mapping[str, str],
) -> None:
    """Call the module itself: what torch.export traces is not checked as strictly."""
    try:
        module(*call.args, **call.kwargs)
    except (Exception, SystemExit) as error:
        # A GPU may have the kernel that this CPU lacks; the export needs none.
        if options.precision and "not implemented for" in str(error):
            return
        tensors = {name: value for name, value in call.arguments.items() if isinstance(value, torch.Tensor)}
        fed = ", ".join(f"{name}:{format_shape(value.shape)} {_dtype_name(value)}" for name, value in tensors.items())
        guessed = [
            name
            for name in tensors
            if name in options.shapes and name not in dtypes and tensors[name].is_floating_point()
        ]
        if guessed and re.search(r"\b(Long|Int|indices|integers?|integral|index)\b", str(error)):
            fix = f"say which inputs are integers, for example --dtypes {guessed[0]}:int64"
        elif widened:
            fix = (
                f"a dynamic dimension of 1 ({', '.join(widened)}) is traced as {_TRACED}: name it in every input "
                "that shares it, --dynamic 0=batch, or leave --dynamic away"
            )
        elif options.precision:
            fix = f"make the tensors of forward with the dtype of its inputs, or leave --{options.precision} away"
        else:
            fix = "give --shapes and --dtypes that forward takes, or let the factory return (module, example_inputs)"
        raise UsageError(f"forward of {spec} failed on {fed or 'its inputs'}", why=cause(error), fix=fix) from error


def _dtype_name(tensor: Any) -> str:
    theirs = str(tensor.dtype).removeprefix("torch.")
    return next((ours for ours, name in TORCH_DTYPES.items() if name == theirs), theirs)
