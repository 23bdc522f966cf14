"""A process that loads TensorRT and calls a plugin as TensorRT does: reads a request, writes what the plugin answered.

It never loads TensorRT-RTX, which aborts where a creator is registered.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import numpy as np

from trtprof.plugin.cases import Shapes
from trtprof.runtime import child


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What to load and to ask."""

    file: str  # A module that registers a quick deployable plugin, or a library
    native: bool = False  # Whether it is a library
    # Of a module, whether TensorRT is to call it at every inference, as versions do that cannot copy the kernel
    called: bool = False
    name: str  # Of the plugin
    namespace: str  # Of the plugin
    types: tuple[str, ...] = ()  # Names in ``DataType`` of the inputs, then of the outputs
    inputs: int = 0  # How many of them are inputs
    cases: tuple[Shapes, ...] = ()  # Shapes of inputs and outputs
    architectures: tuple[str, ...] = ()  # To be asked for, one after the other
    tactics: tuple[int, ...] = ()  # Of a library: to be made plugins of


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """How a plugin would start its kernel."""

    case: int  # Which of the shapes
    tactic: int  # Which of the variants
    entry: str = ""  # Name of the kernel
    ptx: bytes = b""  # Its text
    grid: tuple[int, ...] = ()  # Blocks
    block: tuple[int, ...] = ()  # Threads of a block
    shared: int = 0  # Bytes of dynamic shared memory
    extras: tuple[int, ...] = ()  # Integers between inputs and outputs
    pointers: tuple[int, ...] = ()  # Of a plugin that is called: addresses that the kernel gets, in their order


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a plugin answered for an architecture."""

    architecture: str
    error: str = ""  # What it raised; all else is missing then
    types: tuple[str, ...] = ()  # Of its outputs
    shapes: tuple[Shapes, ...] = ()  # Of its outputs, for each case
    formats: tuple[tuple[tuple[str, str], ...], ...] = ()  # Its combinations: of all operands type and format
    tactics: tuple[int, ...] = ()  # Numbers
    launches: tuple[Launch, ...] = ()  # Of each case and tactic


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What TensorRT and the plugin said."""

    version: str = ""  # Of TensorRT
    copies: bool = False  # Whether it can copy the kernel of a module
    missing: str = ""  # Why TensorRT was not loaded
    error: str = ""  # What ended it all
    # Name, version and namespace of those that the plugin added to the registry
    creators: tuple[tuple[str, str, str], ...] = ()
    asked: tuple[Asked, ...] = ()  # Of a module, by architecture
    served: tuple[str, ...] = ()  # Of a library: its interfaces, with what they say
    made: tuple[bool, ...] = ()  # Of a library, for each tactic: whether a plugin was made of the fields that tell it
    left: tuple[tuple[str, str, str], ...] = ()  # Of a library: what is still registered after it was let go of


def tensorrt() -> ModuleType:
    """TensorRT as `tensorrt`, also where only its bindings are installed."""
    if importlib.util.find_spec("tensorrt") is None:
        sys.modules["tensorrt"] = importlib.import_module("tensorrt_bindings")
        if importlib.util.find_spec("tensorrt_bindings.plugin") is not None:
            sys.modules["tensorrt.plugin"] = importlib.import_module("tensorrt_bindings.plugin")
    return importlib.import_module("tensorrt")


def answer(request: Request) -> Answer:
    """Load the plugin and ask it everything."""
    try:
        trt = tensorrt()
    except (ImportError, OSError) as error:
        return Answer(missing=str(error))
    registry = trt.get_plugin_registry()
    before = set(_creators(registry))
    if request.native:
        return _native(request, trt, registry, before)
    try:
        trtp = importlib.import_module("tensorrt.plugin")
    except ImportError:
        return Answer(missing=f"TensorRT {trt.__version__} has no quick deployable plugins; 10.8 and later have")
    copies = hasattr(trtp, "aot_impl")
    if request.called:
        vars(trtp).pop("aot_impl", None)
    sys.dont_write_bytecode = True  # the folder keeps the code that it has
    found = importlib.util.spec_from_file_location(Path(request.file).stem, request.file)
    assert found is not None  # noqa: S101 - it ends with .py
    assert found.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    asked = []
    for architecture in request.architectures:
        os.environ["TRTPROF_PLUGIN_ARCH"] = architecture
        try:
            asked.append(_asked(request, trt, registry, module, architecture))
        except Exception as error:  # whatever a plugin raises is an answer
            asked.append(Asked(architecture=architecture, error=f"{type(error).__name__}: {error}"))
    return Answer(
        version=trt.__version__, copies=copies, creators=tuple(sorted(set(_creators(registry)) - before)),
        asked=tuple(asked),
    )  # fmt: skip


def _creators(registry: Any) -> Iterator[tuple[str, str, str]]:
    for one in registry.all_creators:
        yield one.name, one.plugin_version, one.plugin_namespace


def _asked(request: Request, trt: Any, registry: Any, module: ModuleType, architecture: str) -> Asked:
    """Everything that a build asks of a quick deployable plugin, in the order of a build."""
    trtp = importlib.import_module("tensorrt.plugin")
    creator = registry.get_creator(request.name, "1", request.namespace)
    called = request.called or not hasattr(trtp, "aot_impl")
    how: list[Any] = []
    if hasattr(trt, "QuickPluginCreationRequest"):
        strict = trt.QuickPluginCreationRequest
        how = [strict.STRICT_JIT if called else strict.STRICT_AOT]
    builder = _builder(trt, trtp)
    types = [getattr(trt.DataType, one) for one in request.types]
    seen = Asked(architecture=architecture)
    outputs: list[Shapes] = []
    launches: list[Launch] = []
    for number, shapes in enumerate(request.cases):
        plugin = creator.create_plugin(
            request.name, request.namespace, trt.PluginFieldCollection([]), trt.TensorRTPhase.BUILD, *how
        )
        given = shapes[: request.inputs]
        kinds = plugin.get_output_data_types(types[: request.inputs], [len(one) for one in given])
        dims = [[builder.constant(size) for size in one] for one in given]
        exprs = plugin.get_output_shapes(dims, [], builder)
        outputs.append(tuple(tuple(size.value for size in one) for one in exprs))
        tensors = [_described(trt, one, kind) for one, kind in zip(shapes, types, strict=True)]
        flat = tuple(
            (one.type.name, one.format.name) for one in plugin.get_supported_format_combinations(tensors, len(given))
        )
        formats = tuple(flat[at : at + len(types)] for at in range(0, len(flat), len(types)))
        plugin.configure_plugin(tensors[: len(given)], tensors[len(given) :])
        offered = tuple((kind, "LINEAR") for kind in request.types) in formats  # else TensorRT would not go on
        tactics = tuple(sorted(plugin.get_valid_tactics())) if offered else ()
        for tactic in tactics:
            plugin.set_tactic(tactic)
            if called:
                launches.append(_called(module, plugin, tensors, len(given), (number, tactic)))
                continue
            launch, extras = _Bag(), _Extras()
            plugin.get_launch_params(dims, tensors, len(given), launch, extras, builder)
            described = [one.desc for one in tensors]
            entry, ptx = plugin.get_kernel(described[: len(given)], described[len(given) :])
            launches.append(_launch(number, tactic, entry, ptx, launch, extras))
        seen = msgspec.structs.replace(
            seen, types=tuple(one.name for one in kinds), formats=formats, tactics=tactics
        )  # fmt: skip
    return msgspec.structs.replace(seen, shapes=tuple(outputs), launches=tuple(launches))


class _Bag:
    """Something to set attributes of."""


class _Extras(dict[int, Any]):
    """What TensorRT collects the integers in."""

    nbSymExprs = 0  # noqa: N815 - as TensorRT calls it


def _launch(case: int, tactic: int, entry: str | bytes, ptx: bytes, launch: Any, extras: _Extras) -> Launch:
    given = [extras[place] for place in range(extras.nbSymExprs)]
    return Launch(
        case=case, tactic=tactic, entry=entry if isinstance(entry, str) else entry.decode(), ptx=ptx,
        grid=tuple(_value(getattr(launch, f"grid_{axis}")) for axis in "xyz"),
        block=tuple(_value(getattr(launch, f"block_{axis}")) for axis in "xyz"),
        shared=_value(launch.shared_mem), extras=tuple(_value(one) for one in given),
    )  # fmt: skip


def _value(expression: Any) -> int:
    """What an expression comes to, as the 32-bit integer that TensorRT passes."""
    return ctypes.c_int32(expression.value).value


def _described(trt: Any, shape: Sequence[int], kind: Any) -> Any:
    tensor, dynamic = trt.PluginTensorDesc(), trt.DynamicPluginTensorDesc()
    tensor.dims, tensor.type, tensor.format = trt.Dims(shape), kind, trt.TensorFormat.LINEAR
    dynamic.desc = tensor
    dynamic.opt = dynamic.min = dynamic.max = trt.Dims(shape)
    return dynamic


def _builder(trt: Any, trtp: Any) -> Any:
    """TensorRT's builder of expressions, for dimensions that are known."""
    operations: dict[Any, Callable[[int, int], int]] = {
        trt.DimensionOperation.SUM: lambda a, b: a + b,
        trt.DimensionOperation.SUB: lambda a, b: a - b,
        trt.DimensionOperation.PROD: lambda a, b: a * b,
        trt.DimensionOperation.FLOOR_DIV: lambda a, b: a // b,
        trt.DimensionOperation.CEIL_DIV: lambda a, b: -(-a // b),
        trt.DimensionOperation.MIN: min,
        trt.DimensionOperation.MAX: max,
    }

    class Expression(trt.IDimensionExpr):  # type: ignore[misc] # what the bindings ask for; its C++ part stays empty
        value = 0

        def is_constant(self) -> bool:
            return True

        def get_constant_value(self) -> int:
            return self.value

    def expression(value: int) -> Expression:
        made: Expression = Expression.__new__(Expression)
        made.value = value
        return made

    class Builder:
        def constant(self, value: int) -> Expression:
            return expression(value)

        def operation(self, operation: Any, left: Expression, right: Expression) -> Expression:
            return expression(operations[operation](left.value, right.value))

    def handed_over(argument: Any) -> Expression:
        if not isinstance(argument, bindings.SymInt32):
            raise TypeError(f"{type(argument).__name__} is no 32-bit integer")
        found: Expression = argument._expr
        return found

    bindings = importlib.import_module(f"{trtp.cdiv.__module__.rpartition('.')[0]}._tensor")
    vars(bindings)["SymExprImpl"] = handed_over
    trt.DimsExprs = lambda length: [None] * length
    return Builder()


def _called(module: Any, plugin: Any, tensors: Sequence[Any], inputs: int, which: tuple[int, int]) -> Launch:
    """An inference of a plugin that TensorRT calls, in front of a driver that only takes notes."""
    addresses = [0x1000 * (place + 1) for place in range(len(tensors))]
    seen: dict[str, Any] = {}

    def driver(name: str, *arguments: Any, **_: bool) -> int:
        if name == "cuModuleLoadData":
            seen["ptx"] = arguments[1].value
        elif name == "cuModuleGetFunction":
            seen["entry"] = arguments[2].decode()
        elif name == "cuLaunchKernel":
            _, *size, shared, _, values, _ = arguments
            seen.update(grid=tuple(size[:3]), block=tuple(size[3:]), shared=shared)
            last = len(values) - (len(tensors) - inputs)
            seen["extras"] = tuple(ctypes.c_int32.from_address(one).value for one in values[inputs:last])
            pointers = [*values[:inputs], *values[last:]]
            seen["pointers"] = tuple(ctypes.c_uint64.from_address(one).value for one in pointers)
        return 0

    module._driver = driver
    module._FUNCTIONS.clear()
    described = [one.desc for one in tensors]
    none: list[Any] = [None] * len(tensors)
    plugin.enqueue(
        described[:inputs], described[inputs:], addresses[:inputs], addresses[inputs:], none[:inputs], none[inputs:], 7
    )
    return Launch(case=which[0], tactic=which[1], **seen)


def _native(request: Request, trt: Any, registry: Any, before: set[tuple[str, str, str]]) -> Answer:
    """A library loaded by the registry, and what it serves."""
    handle = registry.load_library(request.file)
    if handle is None:
        return Answer(version=trt.__version__, error="the registry does not load the library")
    creators = tuple(sorted(set(_creators(registry)) - before))
    creator = registry.get_creator(request.name, "1", request.namespace)
    if creator is None:
        return Answer(version=trt.__version__, creators=creators, error="the registry has no such creator")
    served = []
    plugin = creator.create_plugin("layer", trt.PluginFieldCollection([]), trt.TensorRTPhase.BUILD)
    for kind in ("CORE", "BUILD", "RUNTIME") if plugin is not None else ():
        interface = plugin.get_capability_interface(getattr(trt.PluginCapabilityType, kind))
        if kind == "CORE":
            served.append(f"{kind} {interface.plugin_namespace}::{interface.plugin_name} {interface.plugin_version}")
        elif kind == "BUILD":
            served.append(f"{kind} {interface.num_outputs}")
        elif interface is not None:
            served.append(kind)
        del interface
    made = []
    for tactic in request.tactics:
        field = trt.PluginField("tactic", np.array([tactic], np.int32), trt.PluginFieldType.INT32)
        again = creator.create_plugin("layer", trt.PluginFieldCollection([field]), trt.TensorRTPhase.RUNTIME)
        made.append(again is not None)
        del again
    del plugin  # a library that is let go of before its plugins ends the process
    registry.deregister_library(handle)
    return Answer(
        version=trt.__version__, creators=creators, served=tuple(served), made=tuple(made),
        left=tuple(sorted(set(_creators(registry)) - before)),
    )  # fmt: skip


def _answer(request: Request) -> Answer:
    try:
        return answer(request)
    except Exception as error:  # the parent says what it means
        return Answer(error=f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    child.end_with_parent()
    sys.exit(child.answer(sys.argv, Request, _answer))
