"""The plugin in Python, which TensorRT calls a quick deployable one: a module, and its kernels as PTX beside it.

Every `Size` can be written as an expression of TensorRT: its ``DimensionOperation`` has sum, difference, product,
both quotients, least and most (``tensorrt/plugin/_tensor.py`` and ``_top_level.py`` of the bindings).
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence

from trtprof.plugin.cases import cases
from trtprof.plugin.kernel import Kernel
from trtprof.plugin.sizes import Size, most
from trtprof.plugin.specification import TYPES, Specification, capability, forms, python_names
from trtprof.plugin.task import DOMAIN

_HELPERS = {"cdiv": "_cdiv", "min": "_least", "max": "_most"}


def files(spec: Specification) -> dict[str, bytes]:
    """The files of the plugin by their names, in one folder."""
    spec.check()
    places = tuple(f"_{place}" for place in range(len(spec.task.inputs)))
    text = _module(spec, python_names(spec.task.inputs, _words(_module(spec, places))))
    found = {f"{spec.file_name}.py": text.encode(), f"test_{spec.file_name}.py": _test(spec)}
    for architecture in spec.architectures:
        for kernel in spec.tactics(architecture):
            found[ptx_name(spec, architecture, kernel)] = spec.ptx[architecture, kernel.tactic].encode()
    return found


def _words(text: str) -> set[str]:
    """Names that a module uses itself, and those of Python."""
    tree = list(ast.walk(ast.parse(text)))
    own = {one.id for one in tree if isinstance(one, ast.Name)} | {one.arg for one in tree if isinstance(one, ast.arg)}
    return own | {one.name for one in tree if isinstance(one, ast.FunctionDef)} | set(dir(builtins))


def _module(spec: Specification, names: tuple[str, ...]) -> str:
    """The module, where the inputs are called so."""
    task = spec.task
    kernels = [
        (capability(one), [(kernel.tactic, kernel.entry, ptx_name(spec, one, kernel)) for kernel in spec.tactics(one)])
        for one in spec.architectures
    ]
    return forms().get_template("quick.py.j2").render(
        plugin=spec.plugin,
        types=",".join(TYPES[one.dtype].quick for one in (*task.inputs, *task.outputs)),
        inputs=[(name, repr(one.dims)) for name, one in zip(names, task.inputs, strict=True)],
        kernels=kernels,
        names=", ".join(names),
        outputs=[_tuple(task.dims(one), names) for one in task.outputs],
        launches=[
            (
                one.tactic, " ".join(one.label.split()), _tuple([most(size, 1) for size in one.grid], names),
                one.block, _tuple([extra.size for extra in one.extras], names),
            )
            for one in spec.kernels
        ],
        described=", ".join(f"{name}: trtp.TensorDesc" for name in names),
        output_annotations=", ".join(["trtp.TensorDesc"] * len(task.outputs)),
        symbols=", ".join(f"{name}.shape_expr" for name in names),
        impl=", ".join(f"{name}: trtp.Tensor" for name in names),
        impl_outputs=", ".join(["trtp.Tensor"] * len(task.outputs)),
        output_types=", ".join(f"trt.DataType.{TYPES[one.dtype].python}" for one in task.outputs),
    )  # fmt: skip


def _test(spec: Specification) -> bytes:
    """Tests that go with the module, and run where what they need is there."""
    shapes = next(cases(spec.task))
    types = [TYPES[one.dtype].python for one in spec.task.inputs]
    names = [one.name for one in spec.task.inputs]
    tensors = [
        {"name": name, "type": kind, "shape": shape} for name, kind, shape in zip(names, types, shapes, strict=True)
    ]
    text = forms().get_template("test_quick.py.j2").render(
        plugin=spec.plugin, namespace=DOMAIN, name=spec.task.name, file=spec.file_name, tensors=tensors,
        test=f"test_{spec.file_name}.py", shapes=spec.task.output_shapes(shapes),
    )  # fmt: skip
    return text.encode()


def ptx_name(spec: Specification, architecture: str, kernel: Kernel) -> str:
    """Name of the file with the PTX of a variant."""
    return f"{spec.file_name}.{architecture}.{kernel.tactic}.ptx"


def python_text(size: Size, names: tuple[str, ...]) -> str:
    """A size in Python, over the dimensions of inputs as sequences of these names."""
    if size.operation == "number":
        return str(size.number)
    if size.operation == "dim":
        place, axis = size.dim
        return f"{names[place]}[{axis}]"
    left, right = (python_text(one, names) for one in size.of)
    if size.operation in _HELPERS:
        return f"{_HELPERS[size.operation]}({left}, {right})"
    if size.of[0].known is not None:  # TensorRT's expressions have no operators with a number on the left
        left = f"_symbol({left}, {right})"
    return f"({left} {size.operation} {right})"


def _tuple(sizes: Sequence[Size], names: tuple[str, ...]) -> str:
    texts = [python_text(one, names) for one in sizes]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"
