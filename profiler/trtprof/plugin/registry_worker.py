"""A process that loads TensorRT and asks a plugin in Python as a build does.

It never loads TensorRT-RTX, which aborts where a creator is registered.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import importlib.util
import os
import runpy
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec

from trtprof.base.errors import MissingError
from trtprof.runtime import child

Shapes = tuple[tuple[int, ...], ...]


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """How a plugin starts its kernel."""

    entry: str
    grid: tuple[int, ...]
    threads: tuple[int, ...]
    integers: tuple[int, ...]  # Between inputs and outputs
    shared_bytes: int
    ptx: str  # See `ptx_digest`


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What a plugin is asked about, and what it answers (is to answer)."""

    architecture: str
    dtypes: tuple[str, ...]  # Names in ``DataType`` of the inputs, then of the outputs
    shapes: Shapes  # Of inputs and outputs
    formats: tuple[tuple[tuple[str, str], ...], ...] = ()  # Combinations: of all operands dtype and format
    tactics: dict[int, Launch] = {}
    error: str = ""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What to load and to ask."""

    file: str  # plugin.py
    name: str  # Of the plugin
    namespace: str
    inputs: int  # How many of the operands are inputs
    triton: bool  # False: as if Triton were not installed
    cases: tuple[Case, ...]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What TensorRT and the plugin said."""

    version: str  # Of TensorRT
    creators: tuple[str, ...]  # That the plugin added to the registry: namespace, name, version
    cases: tuple[Case, ...]


def ptx_digest(text: str) -> str:
    """SHA-256 of PTX, without the line that it has on disk."""
    return hashlib.sha256(text.strip("\0").rpartition(" bytes of shared memory\n")[2].encode()).hexdigest()[:12]


def _answer(request: Request) -> Answer:
    """Load the plugin and ask it everything."""
    try:
        if importlib.util.find_spec("tensorrt") is None:  # the bindings alone
            for name in ("", ".plugin"):
                sys.modules[f"tensorrt{name}"] = importlib.import_module(f"tensorrt_bindings{name}")
        trt = importlib.import_module("tensorrt")
        importlib.import_module("tensorrt.plugin")
    except (ImportError, OSError) as error:
        raise MissingError("TensorRT does not load", why=str(error)) from None
    registry = trt.get_plugin_registry()

    def creators() -> set[str]:
        return {f"{one.plugin_namespace}::{one.name} {one.plugin_version}" for one in registry.all_creators}

    before = creators()
    if not request.triton:
        sys.modules["triton"] = None  # type: ignore[assignment] # importing it raises ImportError
    runpy.run_path(request.file)
    cases = tuple(_asked(request, trt, registry, case) for case in request.cases)
    return Answer(version=trt.__version__, creators=tuple(sorted(creators() - before)), cases=cases)


def _asked(request: Request, trt: Any, registry: Any, case: Case) -> Case:
    os.environ["TRTPROF_PLUGIN_ARCH"] = case.architecture
    try:
        return _built(request, trt, registry, case)
    except Exception as error:  # whatever a plugin raises is an answer
        return msgspec.structs.replace(case, error=f"{type(error).__name__}: {error}")


def _built(request: Request, trt: Any, registry: Any, case: Case) -> Case:
    """Everything that a build asks, in its order."""
    creator = registry.get_creator(request.name, "1", request.namespace)
    plugin = creator.create_plugin(
        request.name, request.namespace, trt.PluginFieldCollection([]), trt.TensorRTPhase.BUILD,
        trt.QuickPluginCreationRequest.STRICT_AOT,
    )  # fmt: skip
    builder = _builder(trt)
    inputs = request.inputs
    types = [getattr(trt.DataType, one) for one in case.dtypes]
    kinds = plugin.get_output_data_types(types[:inputs], [len(one) for one in case.shapes[:inputs]])
    dims = [[builder.constant(size) for size in one] for one in case.shapes[:inputs]]
    outputs = plugin.get_output_shapes(dims, [], builder)
    tensors = [trt.DynamicPluginTensorDesc() for _ in types]
    for tensor, shape, kind in zip(tensors, case.shapes, types, strict=True):
        tensor.opt = tensor.min = tensor.max = tensor.desc.dims = trt.Dims(shape)
        tensor.desc.type, tensor.desc.format = kind, trt.TensorFormat.LINEAR
    described = [one.desc for one in tensors]
    flat = [(one.type.name, one.format.name) for one in plugin.get_supported_format_combinations(tensors, inputs)]
    formats = tuple(tuple(flat[at : at + len(types)]) for at in range(0, len(flat), len(types)))
    plugin.configure_plugin(tensors[:inputs], tensors[inputs:])
    offered = tuple((kind, "LINEAR") for kind in case.dtypes) in formats  # else TensorRT would not go on
    launches = {}
    for tactic in plugin.get_valid_tactics() if offered else ():
        plugin.set_tactic(tactic)
        launch, extras = SimpleNamespace(), _Extras()
        plugin.get_launch_params(dims, tensors, inputs, launch, extras, builder)
        entry, ptx = (
            one if isinstance(one, str) else one.decode()
            for one in plugin.get_kernel(described[:inputs], described[inputs:])
        )
        launches[tactic] = Launch(
            entry=entry, ptx=ptx_digest(ptx), shared_bytes=_value(launch.shared_mem),
            grid=tuple(_value(getattr(launch, f"grid_{axis}")) for axis in "xyz"),
            threads=tuple(_value(getattr(launch, f"block_{axis}")) for axis in "xyz"),
            integers=tuple(_value(extras[place]) for place in range(extras.nbSymExprs)),
        )  # fmt: skip
    return Case(
        architecture=case.architecture, dtypes=(*case.dtypes[:inputs], *(one.name for one in kinds)), tactics=launches,
        shapes=(*case.shapes[:inputs], *(tuple(size.value for size in one) for one in outputs)), formats=formats,
    )  # fmt: skip


class _Extras(dict[int, Any]):
    nbSymExprs = 0  # noqa: N815 - as TensorRT calls it


def _value(expression: Any) -> int:
    """What an expression comes to, as the 32-bit integer that TensorRT passes."""
    return ctypes.c_int32(expression.value).value


def _builder(trt: Any) -> Any:
    """TensorRT's builder of expressions, for dimensions that are known."""
    of = trt.DimensionOperation
    operations: dict[Any, Callable[[int, int], int]] = {
        of.SUM: lambda a, b: a + b, of.SUB: lambda a, b: a - b, of.PROD: lambda a, b: a * b, of.MIN: min, of.MAX: max,
        of.FLOOR_DIV: lambda a, b: a // b, of.CEIL_DIV: lambda a, b: -(-a // b),
    }  # fmt: skip

    class Expression(trt.IDimensionExpr):  # type: ignore[misc] # what the bindings ask for; its C++ part stays empty
        value = 0

        def is_constant(self) -> bool:
            return True

        def get_constant_value(self) -> int:
            return self.value

    def constant(value: int) -> Expression:
        made: Expression = Expression.__new__(Expression)
        made.value = value
        return made

    def handed_over(argument: Any) -> Any:
        if not isinstance(argument, bindings.SymInt32):
            raise TypeError(f"{type(argument).__name__} is no 32-bit integer")
        return argument._expr

    trtp = importlib.import_module("tensorrt.plugin")
    bindings = importlib.import_module(f"{trtp.cdiv.__module__.rpartition('.')[0]}._tensor")
    vars(bindings)["SymExprImpl"] = handed_over
    trt.DimsExprs = lambda length: [None] * length
    return SimpleNamespace(constant=constant, operation=lambda op, a, b: constant(operations[op](a.value, b.value)))


if __name__ == "__main__":
    child.end_with_parent()
    sys.exit(child.answer(sys.argv, Request, _answer))
