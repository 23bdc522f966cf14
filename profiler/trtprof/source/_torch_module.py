"""The user's code: the module that a spec names, imported and made, and where its failures came from."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from trtprof.base.errors import MissingError, TrtprofError, UsageError
from trtprof.source.spec import TORCH_DTYPES, ModelSpec

_SHOW = "TRTPROF_DEBUG=1 shows the traceback"


def make_module(spec: ModelSpec, arguments: Mapping[str, Any], precision: str) -> tuple[Any, Any]:
    """The module of a spec, on the CPU, in eval mode and converted to ``precision``, and its example inputs or None."""
    found = _attribute(spec, _imported(spec))
    if callable(found) and not isinstance(found, torch.nn.Module):
        try:
            inspect.signature(found).bind(**arguments)
        except ValueError:
            pass  # It has no signature to check, as some functions made in C.
        except TypeError as error:
            raise UsageError(
                f"{spec} cannot be called",
                why=f"{error}; it takes {inspect.signature(found)}",
                fix="give its arguments with --factory-arg name=value",
            ) from None
        try:
            found = found(**arguments)
        except (Exception, SystemExit) as error:
            raise UsageError(
                f"{spec} failed",
                why=cause(error),
                fix="give it what it needs, with --factory-arg where it takes arguments; " + _SHOW,
            ) from error
    elif arguments:
        raise UsageError(
            f"{spec} takes no --factory-arg", why="it is a module, not a function or a class", fix="leave it away"
        )
    examples = None
    if isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], torch.nn.Module):
        found, examples = found
    if not isinstance(found, torch.nn.Module):
        raise UsageError(
            f"{spec} gives no PyTorch module",
            why=f"it is of type {type(found).__name__}",
            fix="name a torch.nn.Module, or what returns one or a pair (module, example_inputs)",
        )
    if isinstance(found, torch.jit.ScriptModule):
        raise UsageError(
            f"{spec} is a TorchScript module",
            why="torch.export captures Python code, which TorchScript has left behind",
            fix="name the module before torch.jit.script or torch.jit.trace",
        )
    # What torch.compile and DataParallel return hides the parameters of forward.
    found = getattr(found, "_orig_mod", found)
    if isinstance(found, torch.nn.DataParallel):
        found = found.module
    try:
        found = found.eval().cpu()
        if precision:
            found = found.to(getattr(torch, TORCH_DTYPES[precision]))
    except Exception as error:
        raise UsageError(
            f"{spec} cannot be moved to the CPU" + (f" and converted to {precision}" if precision else ""),
            why=cause(error),
            fix="let the factory return a module whose parameters have values; " + _SHOW,
        ) from error
    return found, examples


def _imported(spec: ModelSpec) -> Any:
    try:
        if not spec.is_file:
            return importlib.import_module(spec.module)
        path = Path(spec.module)
        if not path.is_file():
            raise UsageError(f"{path}: no such file", why=f"there is no {path.absolute()}", fix="check the path")
        # A name of its own, so that a file called onnx.py is not taken for the package.
        name = f"trtprof_spec_{path.stem}"
        found = importlib.util.spec_from_file_location(name, path.resolve())
        assert found is not None  # noqa: S101 - a .py file has a loader
        assert found.loader is not None  # noqa: S101
        module = importlib.util.module_from_spec(found)
        sys.modules[name] = module
        found.loader.exec_module(module)
    except TrtprofError:
        raise
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) and error.name else ""
        if missing and (spec.module + ".").startswith(missing + "."):
            raise UsageError(
                f"{spec}: there is no module {missing!r}",
                why=f"it is neither in the current folder, {os.getcwd()}, nor installed",
                fix="run it from the folder that holds the package, or name the file: path/to/file.py:factory",
            ) from None
        if missing:
            raise MissingError(
                f"{spec.module} cannot be imported",
                why=cause(error),
                fix=f"install what provides {missing!r} for {sys.executable}",
            ) from error
        script = "move what it does as a script below `if __name__ == '__main__':`; "
        raise UsageError(
            f"{spec.module} cannot be imported",
            why=cause(error),
            fix=(script if isinstance(error, SystemExit) else "") + _SHOW,
        ) from error
    return module


def _attribute(spec: ModelSpec, module: Any) -> Any:
    found = module
    for part in spec.attribute.split("."):
        if not hasattr(found, part):
            usable = [
                name
                for name, value in vars(module).items()
                if not name.startswith("_")
                and (
                    isinstance(value, torch.nn.Module)
                    or (callable(value) and getattr(value, "__module__", None) == module.__name__)
                )
            ]
            near = difflib.get_close_matches(part, usable, n=1) or usable
            raise UsageError(
                f"{spec.module} has no {spec.attribute!r}",
                why="it has " + (", ".join(usable[:10]) or "no function, class or module of its own"),
                fix=f"{spec.module}:{near[0]}" if near else "name what makes the model",
            )
        found = getattr(found, part)
    return found


def _said(error: BaseException) -> str:
    """An exception in one line: the first paragraph of its message, cut where it goes on for long."""
    text = " ".join(str(error).strip().split("\n\n")[0].split())
    return f"{type(error).__name__}: {text if len(text) <= 300 else text[:297] + '...'}".removesuffix(": ")


def cause(error: BaseException) -> str:
    """An exception in one line, with the last line of the user's own code that it came through."""
    place = _place(error)
    return f"{_said(error)} ({place})" if place else _said(error)


def _place(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return ""  # Its message says where.
    homes = [str(Path(__file__).parents[1]), str(Path(torch.__file__).parent)]
    standard = str(Path(os.__file__).parent)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        name = frame.filename
        own = any(name.startswith(home + os.sep) for home in homes)
        if name.startswith(standard + os.sep) and f"{os.sep}site-packages{os.sep}" not in name:
            own = True
        if not own and not name.startswith("<"):
            return f"{_short(name)}:{frame.lineno}"
    return ""


def _short(file: str) -> str:
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
