"""The files of a plugin: kernel.py, plugin.py, README.md, a test, plugin.json; PTX and a C++ skeleton if asked for."""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trtprof.base.errors import UsageError
from trtprof.base.output_file import write_file
from trtprof.base.records import Dim
from trtprof.plugin.folder import FILE, PluginFolder, save
from trtprof.plugin.form import Form
from trtprof.plugin.task import DOMAIN, Operand, Task

if TYPE_CHECKING:
    import jinja2

    from trtprof.plugin.compile import Build

PORTABLE = "sm_75"
"""Architecture of the PTX on disk: it runs on all that are newer."""


class TensorRTType(NamedTuple):
    """What a dtype is called."""

    quick: str  # In combinations of plugins in Python
    tensorrt: str  # In Python
    cpp: str  # In ``nvinfer1::DataType``


TYPES: Mapping[str, TensorRTType] = {
    "fp32": TensorRTType("FP32", "float32", "kFLOAT"),
    "fp16": TensorRTType("FP16", "float16", "kHALF"),
    "bf16": TensorRTType("BF16", "bfloat16", "kBF16"),
    "int8": TensorRTType("INT8", "int8", "kINT8"),
    "int32": TensorRTType("INT32", "int32", "kINT32"),
    "int64": TensorRTType("INT64", "int64", "kINT64"),
    "bool": TensorRTType("BOOL", "bool", "kBOOL"),
}
"""Dtypes that TensorRT passes to plugins and Triton computes with."""


def write(
    form: Form, task: Task, folder: Path, *, brief: str = "", ptx: bool = False, cpp: bool = False, **more: Any
) -> tuple[str, ...]:
    """Write all files but the model, plugin.json last; ``more`` are fields of `PluginFolder`. Return their names.

    ``ptx`` and ``cpp`` need Triton.
    """
    given = PluginFolder.of(task, entry=form.name, ptx=ptx, cpp=cpp, **more)
    written = []

    def put(name: str, text: str) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_file(folder / name, text.encode())
        written.append(name)

    put("kernel.py", form.text(task))
    put("plugin.py", plugin_text(form.name, task))
    put("README.md", readme_text(folder, given, brief))
    put("test_plugin.py", _environment().get_template("test_plugin.py.j2").render(plugin=_plugin(task)))
    for suffix, typed in dtypes_offered(task).items() if ptx or cpp else ():
        builds = _portable(folder, form.name, typed)
        if ptx:
            for one in builds:
                put(f"kernel.{one.tactic}{suffix}.ptx", f"// {one.shared_bytes} bytes of shared memory\n{one.ptx}")
        if cpp and not suffix:
            put("cpp/plugin.cpp", cpp_text(form, task, builds))
            put("cpp/CMakeLists.txt", _environment().get_template("CMakeLists.txt.j2").render(name=task.name))
    save(folder, given)
    return (*written, FILE)


def plugin_text(entry: str, task: Task) -> str:
    """plugin.py."""
    from trtprof.plugin.compile import PTX_VERSIONS
    from trtprof.plugin.compile import TYPES as TRITON

    operands = (*task.inputs, *task.outputs)
    kinds = [_type(task, one) for one in operands]
    typed = dtypes_offered(task)
    half = len(typed) > 1
    used = sorted({one.dtype for each in typed.values() for one in (*each.inputs, *each.outputs)})
    first = task.inputs[0].name
    outputs = [
        f"trtp.from_shape_expr({_tuple([_size(task, dim) for dim in one.dims])}, "
        f"{f'{first}.dtype' if half else f'trt.{TYPES[one.dtype].tensorrt}'})"
        for one in task.outputs
    ]
    described = ", ".join("trtp.TensorDesc" for _ in outputs)
    names = [one.name for one in task.inputs]
    return _environment().get_template("plugin.py.j2").render(
        plugin=_plugin(task), entry=entry, half=half,
        types=", ".join(f'trt.{TYPES[one].tensorrt}: "*{TRITON[one]}"' for one in used),
        inputs=_tuple([repr(tuple(dim if isinstance(dim, int) else None for dim in one.dims)) for one in task.inputs]),
        versions=", ".join(f"{name.removeprefix('sm_')}: {version}" for name, version in PTX_VERSIONS.items()),
        names=", ".join(names), described=", ".join(f"{name}: trtp.TensorDesc" for name in names),
        shapes=", ".join(f"{name}.shape_expr" for name in names),
        returned=described if len(outputs) == 1 else f"Tuple[{described}]",
        outputs=outputs,
        offered=",".join("FP32|FP16" if half else kind.quick for kind in kinds),
    )  # fmt: skip


def cpp_text(form: Form, task: Task, builds: Sequence[Build]) -> str:
    """cpp/plugin.cpp, with the launch of the form: kernel.py may be another one by now."""
    operands = (*task.inputs, *task.outputs)
    places = {one.name: at for at, one in enumerate(task.inputs)}

    def size(dim: Dim) -> str:
        name, bracket, axis = task.expression(dim).partition("[")
        return f"in[{places[name]}].d[{axis}" if bracket else f"builder.constant({name})"

    return _environment().get_template("plugin.cpp.j2").render(
        plugin=_plugin(task), name=task.name, namespace=DOMAIN, entry=form.name, inputs=list(places),
        outputs=[[size(dim) for dim in one.dims] for one in task.outputs],
        types=", ".join(f"DataType::{_type(task, one).cpp}" for one in operands),
        ranks=", ".join(str(len(one.dims)) for one in task.inputs),
        dims=", ".join(
            f"{{{', '.join(str(dim if isinstance(dim, int) else -1) for dim in one.dims)}}}" for one in task.inputs
        ),
        blocks=list(next(iter(form.tactics.values()))),
        kernels=[(", ".join(map(str, form.tactics[one.tactic].values())), one) for one in builds],
        tactics=", ".join(str(one.tactic) for one in builds),
        sizes=[(name, int(value)) for name, value in form.sizes.items() if isinstance(value, int)],
        integers=[(name, value.replace("//", "/")) for name, value in form.integers.items()],
        grid=", ".join(form.grid).replace("//", "/"),
    )  # fmt: skip


def readme_text(folder: Path, given: PluginFolder, brief: str) -> str:
    """README.md of a folder whose kernel.py is there; ``brief`` is Markdown for its end."""
    document = ast.get_docstring(ast.parse((folder / "kernel.py").read_text(encoding="utf-8"))) or ""
    return _environment().get_template("README.md.j2").render(
        plugin=_plugin(given.task), name=given.name, doc=document.partition("\n")[0], nodes=", ".join(given.nodes),
        model=given.model, inserted=given.inserted, ptx=given.ptx, cpp=given.cpp, brief=brief,
    )  # fmt: skip


def _portable(folder: Path, entry: str, task: Task) -> Sequence[Build]:
    from trtprof.plugin.compile import compile_kernel

    return tuple(compile_kernel(folder / "kernel.py", entry, task, (PORTABLE,)).builds.values())


def dtypes_offered(task: Task) -> dict[str, Task]:
    """The task, and with fp16 in place of fp32 where all is fp32, by the suffix of their PTX files."""
    if any(one.dtype != "fp32" for one in (*task.inputs, *task.outputs)):
        return {"": task}
    inputs, outputs = (
        tuple(replace(one, dtype="fp16") for one in operands) for operands in (task.inputs, task.outputs)
    )
    return {"": task, ".fp16": replace(task, inputs=inputs, outputs=outputs)}


def _type(task: Task, operand: Operand) -> TensorRTType:
    if operand.dtype not in TYPES:
        raise UsageError(
            f"no plugin is written for {task.name}",
            why=f"{operand.name} is {operand.dtype}; TensorRT passes {', '.join(TYPES)}",
            fix="cast it in the model",
        )
    return TYPES[operand.dtype]


def _size(task: Task, dim: Dim) -> str:
    return task.expression(dim).replace("[", ".shape_expr[")


def _tuple(texts: Sequence[str]) -> str:
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def _plugin(task: Task) -> str:
    return f"{DOMAIN}::{task.name}"


@functools.cache
def _environment() -> jinja2.Environment:
    import jinja2

    return jinja2.Environment(  # noqa: S701 - programs, not pages
        loader=jinja2.PackageLoader("trtprof.plugin", "texts"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
