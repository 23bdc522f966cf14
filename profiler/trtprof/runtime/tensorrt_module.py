"""TensorRT and TensorRT-RTX as Python modules: how they are packaged, loaded, listened to and given plugins."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from trtprof.base.errors import MissingError, TrtprofError, UsageError

Version = tuple[int, ...]


class Product(NamedTuple):
    """A library that builds engines, as it is packaged."""

    backend: str
    module: str
    title: str
    oldest: Version
    packages: tuple[str, ...]  # Names under which it is distributed; the first that is installed tells the version
    install: str
    command_line: str  # Its own command line tool


PRODUCTS: Mapping[str, Product] = {
    product.backend: product
    for product in (
        Product(
            "tensorrt", "tensorrt", "TensorRT", (8, 6), ("tensorrt", "tensorrt-cu13", "tensorrt-cu12", "tensorrt-cu11"),
            "pip install 'trtprof[tensorrt]'", "trtexec",
        ),
        Product(
            "tensorrt-rtx", "tensorrt_rtx", "TensorRT-RTX", (1, 5),
            ("tensorrt-rtx", "tensorrt-rtx-cu13", "tensorrt-rtx-cu12"),
            "pip install 'trtprof[rtx]'", "tensorrt_rtx",
        ),
    )
}  # fmt: skip
"""By the name of the backend."""


def product_of(backend: str) -> Product:
    """The product that a backend is."""
    try:
        return PRODUCTS[backend]
    except KeyError:
        raise UsageError(
            f"the backend {backend!r} builds no TensorRT engine", why=f"those that do: {', '.join(PRODUCTS)}",
            fix=f"--backend {next(iter(PRODUCTS))}",
        ) from None  # fmt: skip


def installed_version(product: Product) -> str | None:
    """The version that the package metadata tells, without an import; ``""`` unknown, None not installed."""
    if importlib.util.find_spec(product.module) is None:
        return None
    for name in product.packages:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


def parse_version(text: str) -> Version:
    """The leading numbers of a version: ``10.16.1.11`` and ``10.0.0b6`` are (10, 16, 1, 11) and (10, 0, 0)."""
    return tuple(int(number) for number in re.findall(r"(?:^|\.)(\d+)", text))


def imported(product: Product) -> Any:
    """The module of a product."""
    try:
        return importlib.import_module(product.module)
    except (ImportError, OSError) as error:
        raise MissingError(
            f"{product.title} does not load", why=" ".join(str(error).split()), fix=product.install
        ) from None


def logger(trt: Any, sink: Callable[[str, str], None]) -> Any:
    """A logger that hands ``sink`` every message, from VERBOSE on, with the name of its severity."""
    return _logger_class(trt)(sink)


@functools.cache
def _logger_class(trt: Any) -> Any:
    class Logger(trt.ILogger):  # type: ignore[misc]
        """Hands on what the library says."""

        def __init__(self, sink: Callable[[str, str], None]) -> None:
            trt.ILogger.__init__(self)
            self._sink = sink

        def log(self, severity: Any, message: str) -> None:
            self._sink(severity.name, message)

    return Logger


def load_plugins(
    trt: Any, title: str, logger: Any, registry: Callable[[], Any], libraries: Sequence[str],
    refused: type[TrtprofError],
) -> None:  # fmt: skip
    """Make TensorRT's own plugins and those of the libraries known; a Python module among them is imported."""
    if trt.__name__.startswith(PRODUCTS["tensorrt-rtx"].module):
        if libraries:
            raise UsageError(
                f"{title} has no plugins", why=f"--staticPlugins names {', '.join(libraries)}",
                fix="use --backend tensorrt, or replace the ops by ones that it knows",
            )  # fmt: skip
        return
    trt.init_libnvinfer_plugins(logger, "")
    for library in libraries:
        if is_python(library):
            _import_plugin(library, title, refused)
        elif registry().load_library(library) is None:
            raise refused(
                f"the plugin library {library} cannot be loaded",
                why="it is no library of TensorRT plugins, or needs another library that is not found",
                fix=f"ldd {library} lists what it needs; it must be built against {title}",
            )


def is_python(library: str) -> bool:
    """Whether a plugin is a Python module (a quick deployable one) and no library."""
    return library.endswith(".py")


def _import_plugin(path: str, title: str, refused: type[TrtprofError]) -> None:
    """Import a module that registers plugins; never in a process that uses TensorRT-RTX, whose parser aborts then."""
    sys.dont_write_bytecode = True  # a folder of a plugin keeps the code that it has
    try:
        spec = importlib.util.spec_from_file_location(Path(path).stem, path)
        assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - its name ends with .py
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    except Exception as error:
        raise refused(
            f"the plugin {path} cannot be loaded",
            why=f"{type(error).__name__}: {' '.join(str(error).split())}",
            fix=f"quick deployable plugins need TensorRT 10.8 or later; this is {title}",
        ) from None
