"""The plugin in C++: a project that CMake or one nvcc makes a library for TensorRT 10.0 to 11.x of.

kernel_1.cu     the CUDA text of tactic 1, as NVRTC compiles it for the other form
launch.h        grids, and which tactics are for which architecture; it needs no TensorRT
launch_1.cu     starts the kernel of tactic 1
plugin.h/.cpp   the class that TensorRT sees
host_test.cpp   asks it everything, without a GPU and without TensorRT, and knows the answers
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from trtprof.base.records import Dim
from trtprof.plugin.cases import Shapes, cases
from trtprof.plugin.kernel import Kernel
from trtprof.plugin.sizes import Operation, Size
from trtprof.plugin.specification import TYPES, VERSION, Specification, capability, forms
from trtprof.plugin.task import DOMAIN

_FIXED = ("CMakeLists.txt", "launch.h", "plugin.h", "plugin.cpp", "host_test.cpp")
_EXPRESSIONS: Mapping[Operation, str] = {
    "+": "kSUM", "-": "kSUB", "*": "kPROD", "//": "kFLOOR_DIV", "cdiv": "kCEIL_DIV", "min": "kMIN", "max": "kMAX",
}  # fmt: skip
_FUNCTIONS: Mapping[Operation, str] = {
    "//": "floor_div", "cdiv": "ceil_div", "min": "std::min<int64_t>", "max": "std::max<int64_t>",
}  # fmt: skip
_NAMED = -1000  # In the text, stands for the first dimension that may be anything; see ``launch.h``


def files(spec: Specification) -> dict[str, bytes]:
    """The files of the project by their names, in one folder."""
    spec.check()
    values = _values(spec)
    found = {name: _rendered(name, values) for name in _FIXED}
    for kernel in spec.kernels:
        found[kernel_name(kernel)] = kernel.source.encode()
        found[f"launch_{kernel.tactic}.cu"] = _rendered("launch.cu", {**values, **_start(kernel)})
    return found


def kernel_name(kernel: Kernel) -> str:
    """Name of the file with the CUDA text of a variant."""
    return f"kernel_{kernel.tactic}.cu"


def library_name(spec: Specification) -> str:
    """Name of the library, without what a system puts around it."""
    return f"{spec.file_name}_plugin"


def library(spec: Specification) -> str:
    """Name of the library's file."""
    return f"lib{library_name(spec)}.so"


def sources(spec: Specification) -> tuple[str, ...]:
    """The files that are compiled."""
    return ("plugin.cpp", *(f"launch_{kernel.tactic}.cu" for kernel in spec.kernels))


def architecture_options(spec: Specification) -> tuple[str, ...]:
    """What nvcc is told: of each architecture machine code, and PTX for those that are newer."""
    numbers = [capability(one) for one in spec.architectures]
    return tuple(f"-gencode=arch=compute_{one},code=[sm_{one},compute_{one}]" for one in numbers)


def function_text(size: Size) -> str:
    """A size in C++, of type int64_t, where ``dims(input, axis)`` gives dimensions."""
    if size.operation == "number":
        return f"INT64_C({size.number})"
    if size.operation == "dim":
        return f"dims({size.dim[0]}, {size.dim[1]})"
    left, right = (function_text(one) for one in size.of)
    if size.operation in _FUNCTIONS:
        return f"{_FUNCTIONS[size.operation]}({left}, {right})"
    return f"({left} {size.operation} {right})"


def expression_text(size: Size) -> str:
    """A size in C++ as an expression that TensorRT's builder makes."""
    if size.operation == "number":
        return f"number({size.number})"
    if size.operation == "dim":
        return f"dim({size.dim[0]}, {size.dim[1]})"
    left, right = (expression_text(one) for one in size.of)
    return f"of(DimensionOperation::{_EXPRESSIONS[size.operation]}, {left}, {right})"


def _values(spec: Specification) -> dict[str, object]:
    task = spec.task
    operands = (*task.inputs, *task.outputs)
    names = list(dict.fromkeys(one for operand in task.inputs for one in operand.dims if isinstance(one, str)))
    ranks = [len(operand.dims) for operand in task.inputs]
    return {
        "plugin": spec.plugin,
        "space": f"trtprof_{spec.file_name}",
        "name": task.name,
        "version": VERSION,
        "namespace": DOMAIN,
        "library": library_name(spec),
        "digest": _digest(spec),
        "numbers": " ".join(str(capability(one)) for one in spec.architectures),
        "names": names,
        "most_rank": max([1, *ranks]),
        "most_extras": max(len(kernel.extras) for kernel in spec.kernels),
        "inputs": [(operand.name, [_dim(one, names) for one in operand.dims]) for operand in task.inputs],
        "outputs": task.outputs,
        "fixed": [
            (place, axis)
            for place, operand in enumerate(task.inputs)
            for axis, one in enumerate(operand.dims)
            if isinstance(one, int)
        ],
        "types": [(operand.name, TYPES[operand.dtype].cpp) for operand in operands],
        "cpp_types": [f"DataType::{TYPES[operand.dtype].cpp}" for operand in operands],
        "shapes": [[expression_text(one) for one in task.dims(operand)] for operand in task.outputs],
        "architectures": [
            (capability(one), [kernel.tactic for kernel in spec.tactics(one)]) for one in spec.architectures
        ],
        "tactics": [kernel.tactic for kernel in spec.kernels],
        "launches": [
            {
                "tactic": kernel.tactic,
                "label": _line(kernel.label),
                "grid": [function_text(one) for one in kernel.grid],
                "block": kernel.block,
                "extras": [function_text(extra.size) for extra in kernel.extras] or ["0"],
            }
            for kernel in spec.kernels
        ],
        "cases": [_case(spec, shapes) for shapes in cases(task)],
    }


def _case(spec: Specification, shapes: Shapes) -> dict[str, object]:
    """Inputs of some shapes, and what is expected of the plugin."""
    starts = []
    for kernel in spec.kernels:
        grid, extras = kernel.launch(shapes)
        starts.append(
            {
                "tactic": kernel.tactic,
                "kernel": kernel.entry,
                "blocks": _braces(grid),
                "threads": _braces(kernel.block),
                "extras": _braces(extras),
            }
        )
    return {
        "inputs": _braces([_braces(one) for one in shapes]),
        "outputs": _braces([_braces(one) for one in spec.task.output_shapes(shapes)]),
        "starts": starts,
    }


def _start(kernel: Kernel) -> dict[str, object]:
    arguments = [
        *(f"inputs[{place}]" for place in range(len(kernel.inputs))),
        *(f"launch.extras[{place}]" for place in range(len(kernel.extras))),
        *(f"outputs[{place}]" for place in range(len(kernel.outputs))),
    ]
    return {
        "tactic": kernel.tactic,
        "label": _line(kernel.label),
        "entry": kernel.entry,
        "arguments": "".join(f", {one}" for one in arguments),
    }


def _rendered(name: str, values: Mapping[str, object]) -> bytes:
    return forms().get_template(f"{name}.j2").render(values).encode()


def _digest(spec: Specification) -> str:
    """Of all that times of a kernel depend on: its text, its grid, its block."""
    told = [repr((one.source, one.grid, one.block, one.extras)) for one in spec.kernels]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]


def _dim(one: Dim, names: Sequence[str]) -> int:
    return one if isinstance(one, int) else _NAMED - names.index(one)


def _braces(values: Sequence[object]) -> str:
    return "{" + ", ".join(map(str, values)) + "}"


def _line(text: str) -> str:
    """Text for a comment that ends with its line."""
    return " ".join(text.split()).rstrip("\\")
