"""A PyTorch module exported to ONNX by ``torch.onnx.export(dynamo=True)``: ``package.module:factory`` for a file."""

from __future__ import annotations

import io
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

from trtprof.base.errors import MissingError, TrtprofError, UsageError
from trtprof.base.output_file import check_place
from trtprof.base.scratch import scratch_folder
from trtprof.source.spec import ExportOptions, ModelSpec, parse_dtypes, parse_dynamic, parse_factory_args

EXTERNAL_ABOVE = 10**9
"""Bytes of weights above which they go into a file beside the model; a protobuf ends at 2 GiB."""

_MIN_TORCH = (2, 7, 1)
"""2.6 crashes in its translation to ONNX."""


class Exported(NamedTuple):
    """An exported model: its files, and in words where it came from and what holds for it."""

    path: Path
    data: Path | None  # Weights that lie beside the model, if they do
    shapes: dict[str, tuple[int, ...]]  # Inputs as asked for, also where dimensions stay dynamic
    assumptions: list[str]


def export_model(
    spec: ModelSpec,
    options: ExportOptions,
    path: Path,
    progress: Callable[[str], None] = lambda _: None,
    external_above: int = EXTERNAL_ABOVE,
) -> Exported:
    """Export the module of a spec to ONNX; more weights than ``external_above`` bytes go to ``<path>.data``."""
    arguments = parse_factory_args(options.factory_args)
    dtypes = parse_dtypes(options.dtypes)
    dynamic = parse_dynamic(options.dynamic)
    versions = _versions()
    import torch

    from trtprof.source._torch_capture import capture, translate
    from trtprof.source._torch_inputs import call_of, dynamic_dims, try_forward, widen
    from trtprof.source._torch_module import make_module

    with _importable(spec), redirect_stdout(sys.stderr), torch.no_grad():
        torch.manual_seed(0)
        progress(f"making {spec}")
        module, examples = make_module(spec, arguments, options.precision)
        call = call_of(spec, module, examples, options, dtypes)
        shapes = {name: tuple(value.shape) for name, value in call.arguments.items() if isinstance(value, torch.Tensor)}
        dims = dynamic_dims(spec, call, dynamic)
        widened = widen(call, dims)
        progress("calling forward once")
        try_forward(spec, module, call, widened, options, dtypes)
        progress(f"exporting with torch {torch.__version__}")
        with _quiet():
            captured, limits = capture(spec, module, call, dims)
            program = translate(spec, captured, call, dims, options.opset)
        weights = sum(value.const_value.nbytes for value in program.model.graph.initializers.values())
        external = weights > external_above
        progress(f"writing {weights} bytes of weights" + (" beside the model" if external else ""))
        try:
            program.save(path, external_data=external)
        except OSError as error:
            raise _unwritable(path, error) from None
    how = ", ".join(
        [
            *versions,
            f"opset {program.model.opset_imports['']}",
            *([f"converted to {options.precision}"] if options.precision else []),
            *(f"{name}={value!r}" for name, value in arguments.items()),
        ]
    )
    return Exported(
        path,
        _data_of(path) if external else None,
        shapes,
        [f"exported from {spec} with {how}", *(f"the dynamic dimension {limit}" for limit in limits)],
    )


@contextmanager
def staged(target: Path, *, force: bool) -> Iterator[Path]:
    """A path to write a model to, moved to ``target`` with the weights beside it if all went well."""
    if target.is_dir() or target.name in ("", "-"):
        raise UsageError(
            f"{target} cannot be written as a model",
            why="it is a folder" if target.is_dir() else "a model may be two files",
            fix="-o model.onnx",
        )
    names = target, target.with_name(f"{target.name}.2")
    taken = [path for path in (target, *map(_data_of, names)) if path.exists()]
    if taken and not force:
        raise UsageError(
            f"{taken[0]} exists and will not be overwritten",
            why="no --force was given",
            fix="choose another file with -o, or say --force",
        )
    check_place(target)
    with scratch_folder(target.parent) as folder:
        # The exporter calls the weights after the model.
        used = _weights_of(target)
        path = folder / next(each.name for each in names if _data_of(each).name != used)
        yield path
        try:
            kept = ""
            if _data_of(path).exists():
                kept = _data_of(path).name
                _data_of(path).replace(target.with_name(kept))
            path.replace(target)
            for data in map(_data_of, names):
                if data.name != kept:
                    data.unlink(missing_ok=True)
        except OSError as error:
            raise _unwritable(target, error) from None


def _data_of(path: Path) -> Path:
    """Where the exporter puts the weights that it does not put into the model."""
    return path.with_name(f"{path.name}.data")


def _weights_of(target: Path) -> str:
    """The file beside a model that holds its weights, by its name; "" where none does, or what is there is no model."""
    from trtprof.source.load import outline

    try:
        return next(iter(outline(target).external), "")
    except (OSError, TrtprofError):
        return ""


def _unwritable(path: Path, error: OSError) -> MissingError:
    return MissingError(
        f"{path} cannot be written", why=error.strerror or str(error), fix="choose another path with -o"
    )


def _versions() -> list[str]:
    fix = "pip install 'trtprof[export]' (torch's CPU build is enough)"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import onnxscript
            import torch.onnx
    except (ImportError, OSError) as error:
        raise MissingError(
            "exporting a PyTorch model needs torch and onnxscript",
            why=" ".join(str(error).split()) or type(error).__name__,
            fix=fix,
        ) from None
    version = tuple(int(number) for number in re.findall(r"\d+", torch.__version__)[:3])
    if version < _MIN_TORCH:
        raise MissingError(
            f"torch {torch.__version__} is too old to export with",
            why=f"it takes torch {'.'.join(map(str, _MIN_TORCH))} or newer",
            fix=fix,
        )
    return [f"torch {torch.__version__}", f"onnxscript {onnxscript.__version__}"]


@contextmanager
def _importable(spec: ModelSpec) -> Iterator[None]:
    """The folder of a file, or else the current one, first on the import path, as for a script."""
    folder = str(Path(spec.module).resolve().parent) if spec.is_file else os.getcwd()
    before = list(sys.path)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path[:] = before


@contextmanager
def _quiet() -> Iterator[None]:
    """Warnings, logs and what is printed go nowhere: what torch has to say comes as an error or not at all."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
