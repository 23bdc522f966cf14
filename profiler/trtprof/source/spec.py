"""What a spec and its options say: ``package.module:factory`` and how to feed and export it.

Only text is read here; nothing is imported or called.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from trtprof.base.errors import UsageError

TORCH_DTYPES = {
    "fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16",
    "int64": "int64", "int32": "int32", "int16": "int16", "int8": "int8", "uint8": "uint8", "bool": "bool",
}  # fmt: skip
"""The dtypes that an input can have, by torch's names for them."""

_SPEC = re.compile(r"(?P<module>.+):(?P<attribute>[^\W\d]\w*(?:\.[^\W\d]\w*)*)")
_DYNAMIC = re.compile(r"(?:(?P<name>\w+)\s*:\s*)?(?P<axis>\d{1,3})\s*=\s*(?P<symbol>\w+)")


class ModelSpec(NamedTuple):
    """Where a module comes from: ``package.module:factory`` or ``path/to/file.py:factory``."""

    module: str
    attribute: str

    @property
    def name(self) -> str:
        """What the exported model is called."""
        return self.attribute.rpartition(".")[2]

    @property
    def is_file(self) -> bool:
        return self.module.endswith(".py")

    def __str__(self) -> str:
        return f"{self.module}:{self.attribute}"


class ExportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a spec is exported."""

    # Input name (which may hold one ``*``) -> shape; the result of `shapes.parse_shapes`
    shapes: dict[str, tuple[int, ...]] = {}
    # Values of ``--dtypes``: ``ids:int64,mask:bool``. Other inputs are of the float type of the module's parameters.
    dtypes: tuple[str, ...] = ()
    dynamic: tuple[str, ...] = ()  # Values of ``--dynamic``: ``x:0=batch,x:2=height``, or ``0=batch`` for all inputs
    factory_args: tuple[str, ...] = ()  # Values of ``--factory-arg``: ``width=64``, read as Python literals
    precision: str = ""  # ``fp16`` or ``bf16`` to convert parameters and float inputs, ``""`` to leave them
    opset: int | None = None  # Version of ai.onnx, or None for the exporter's own choice


class DynamicDim(NamedTuple):
    """A dimension that is to stay dynamic, and what it is called."""

    name: str | None  # An input, or None for all that have the dimension
    axis: int
    symbol: str


def parse_spec(text: str) -> ModelSpec | None:
    r"""The spec that a MODEL argument names, or None where it names a file.

    Otherwise what follows the last colon must be an identifier, and what stands before it a dotted name or the path of
    a ``.py`` file, so that ``C:\model.onnx`` is a file.
    """
    if text.endswith(".py"):
        raise UsageError(
            f"{text} does not say which model to take",
            why="a Python file can hold many",
            fix=f"{text}:<factory>, the name of a function, class or module in it",
        )
    match = _SPEC.fullmatch(text)
    if match is None or Path(text).exists():
        return None
    module = match["module"]
    if not module.endswith(".py") and not all(part.isidentifier() for part in module.split(".")):
        return None
    return ModelSpec(module, match["attribute"])


def parse_dtypes(specs: Iterable[str]) -> dict[str, str]:
    """Dtypes by input name from ``--dtypes`` values, ``ids:int64,mask:bool``, in trtprof's names."""
    ours = {theirs: name for name, theirs in TORCH_DTYPES.items()}
    found: dict[str, str] = {}
    for item in _items(specs):
        name, _, dtype = (part.strip() for part in item.rpartition(":"))
        dtype = ours.get(dtype.removeprefix("torch."), dtype)
        if not name or dtype not in TORCH_DTYPES:
            raise UsageError(
                f"--dtypes {item!r} cannot be read",
                why="it takes an input name, a colon and one of " + ", ".join(TORCH_DTYPES),
                fix=f"--dtypes {name or 'ids'}:int64",
            )
        if found.setdefault(name, dtype) != dtype:
            raise UsageError(
                f"--dtypes names input {name!r} twice",
                why=f"it gives {found[name]} and {dtype}",
                fix="give each input one dtype",
            )
    return found


def parse_dynamic(specs: Iterable[str]) -> list[DynamicDim]:
    """Dynamic dimensions from ``--dynamic`` values: ``x:0=batch,x:2=height``, or ``0=batch``."""
    found: dict[tuple[str | None, int], DynamicDim] = {}
    for item in _items(specs):
        match = _DYNAMIC.fullmatch(item)
        if match is None or not match["symbol"].isidentifier() or keyword.iskeyword(match["symbol"]):
            raise UsageError(
                f"--dynamic {item!r} cannot be read",
                why="it takes an input, a colon, the index of a dimension, '=' and a name for it",
                fix="--dynamic x:0=batch,x:2=height, or --dynamic 0=batch for all inputs",
            )
        new = DynamicDim(match["name"], int(match["axis"]), match["symbol"])
        old = found.setdefault((new.name, new.axis), new)
        if old != new:
            raise UsageError(
                f"--dynamic names dimension {item.partition('=')[0].strip()} twice",
                why=f"it is called {old.symbol!r} and {new.symbol!r}",
                fix="give each dimension one name",
            )
    return list(found.values())


def parse_factory_args(specs: Iterable[str]) -> dict[str, Any]:
    """Arguments of the factory from ``--factory-arg`` values, ``name=value``."""
    found: dict[str, Any] = {}
    for spec in specs:
        name, sign, text = spec.partition("=")
        name = name.strip()
        if not sign or not name.isidentifier():
            raise UsageError(
                f"--factory-arg {spec!r} cannot be read",
                why="it takes the name of an argument, '=' and its value",
                fix="--factory-arg width=64",
            )
        if name in found:
            raise UsageError(f"--factory-arg gives {name!r} twice", why="it has one value", fix="leave one away")
        try:
            found[name] = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            found[name] = text
    return found


def _items(specs: Iterable[str]) -> Iterator[str]:
    for spec in specs:
        for item in spec.split(","):
            yield item.strip()
