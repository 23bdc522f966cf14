"""The plugin driven through TensorRT's own registry, on a machine that needs no GPU.

TensorRT's lean runtime has the registry, is on the package index, and weighs 44 MB; its Python bindings load beside it
once the libraries that it lacks are there by name. Where the whole of TensorRT is installed, that is asked instead.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from trtprof.base.errors import BuildError, MissingError
from trtprof.base.records import CheckStep
from trtprof.base.scratch import scratch_folder
from trtprof.plugin import library, quick
from trtprof.plugin.cases import Shapes, cases
from trtprof.plugin.kernel import Kernel
from trtprof.plugin.registry_worker import Answer, Asked, Launch, Request
from trtprof.plugin.specification import MOST_EXTRA, TYPES, VERSION, Specification
from trtprof.plugin.task import DOMAIN
from trtprof.runtime import child, installed_tool
from trtprof.runtime.stub_library import stub_library

INSTALL = "pip install 'trtprof[plugin]'"  # What brings the registry, without the rest of TensorRT

_LIBRARIES = ("nvinfer", "nvonnxparser", "nvinfer_plugin")
_SYMBOLS = (
    "createInferBuilder_INTERNAL", "createNvOnnxParser_INTERNAL", "createNvOnnxParserRefitter_INTERNAL",
    "getBuilderPluginRegistry", "getNvOnnxParserVersion", "initLibNvInferPlugins",
)  # fmt: skip
"""What the bindings link and the lean runtime lacks; nothing of it is called here."""

_DEADLINE_S = 120.0
_NO_TACTIC = 999_999  # What no variant is
_MOST_BLOCKS = (2**31 - 1, 65535, 65535)
"""In x, y and z: CUDA C++ Programming Guide, technical specifications per compute capability."""


class TensorRT(NamedTuple):
    """Where TensorRT is, as far as it is here."""

    lean: Path | None  # Library of the lean runtime; None where all of TensorRT is here
    path: Path | None  # The folder with the bindings, where it is not on the path anyway


def find_tensorrt(place: Path | None = None) -> TensorRT:
    """All of TensorRT, or its lean runtime with the bindings."""
    folders = [str(place)] if place else None
    if PathFinder.find_spec("tensorrt", folders):
        return TensorRT(None, place)
    bindings = PathFinder.find_spec("tensorrt_bindings", folders)
    libraries = PathFinder.find_spec("tensorrt_lean_libs", folders)
    found = sorted(
        one for folder in (libraries.submodule_search_locations if libraries else None) or ()
        for one in Path(folder).glob("libnvinfer_lean.so.*")
    )  # fmt: skip
    if bindings is None or not found:
        lacking = [name for name, one in (("its bindings", bindings), ("its lean runtime", found)) if not one]
        raise MissingError("TensorRT is not installed", why=f"{' and '.join(lacking)} are not found", fix=INSTALL)
    return TensorRT(found[-1], place)


def registry(
    spec: Specification, folder: Path, shapes: Sequence[Shapes] | None = None, place: Path | None = None
) -> CheckStep:
    """The quick deployable plugin, asked all that a build asks, for each architecture and shape."""
    started = time.perf_counter()
    given = tuple(cases(spec.task) if shapes is None else shapes)
    asked = request(spec, folder, given)
    count, wrong, version = 0, [], ""
    try:
        tensorrt = find_tensorrt(place)
        for called in (False, True):
            answer = ask(msgspec.structs.replace(asked, called=called), tensorrt)
            version, how = answer.version, " (called at every inference)" if called else ""
            found = list(_differences(spec, folder, given, answer))
            count += len(found)
            wrong += [f"{one}{how}" for one in found if one]
            if not answer.copies:  # it was called already
                break
    except MissingError as error:
        return CheckStep(name="registry", verdict="not here", reason=_missing(error))
    said = f"TensorRT {version}{'' if tensorrt.lean is None else ', the lean runtime'}"
    return _step("registry", said, wrong, count, started)


def native(spec: Specification, folder: Path, *, include: Path | None = None, place: Path | None = None) -> CheckStep:
    """The plugin in C++: compiled, asked everything by its own test, loaded by TensorRT's registry."""
    started = time.perf_counter()
    count, wrong = 0, []
    with scratch_folder() as scratch:
        try:
            made = library.compile_library(spec, folder, scratch, include=include)
        except MissingError as error:
            return CheckStep(name="native", verdict="not here", reason=_missing(error))
        except BuildError as error:
            return CheckStep(name="native", verdict="failed", reason=f"{error.what}: {error.why}", cases=1)
        headers = installed_tool.dotted(made.headers.version)
        said = f"nvcc {made.nvcc.version_text} with the headers of TensorRT {headers}"
        for arguments in ([], [str(made.file)]):
            checks, failures = _asked_by_test([str(made.test), *arguments])
            count += checks
            wrong += failures
        try:
            answer = ask(
                Request(
                    file=str(made.file), native=True, name=spec.task.name, namespace=DOMAIN,
                    tactics=(*(kernel.tactic for kernel in spec.kernels), _NO_TACTIC),
                ),
                find_tensorrt(place),
            )  # fmt: skip
        except MissingError as error:
            said += f"; not loaded by TensorRT's registry: {_missing(error)}"
        else:
            said += f"; loaded by TensorRT {answer.version}"
            found = list(_served(spec, answer))
            count += len(found)
            wrong += [one for one in found if one]
    return _step("native", said, wrong, count, started)


def _asked_by_test(command: Sequence[str]) -> tuple[int, list[str]]:
    """How many checks the project's test made, and what failed."""
    told, why = installed_tool.answer(command, _DEADLINE_S)
    lines = told.splitlines()
    end = re.fullmatch(r"(\d+) checks, (\d+) failed", lines[-1]) if lines else None
    failures = [line.removeprefix("failed: ") for line in lines if line.startswith("failed: ")]
    if end is None:
        return 1, [*failures, f"the test ended before its end: {why or 'it says nothing'}"]
    return int(end[1]), failures


def _served(spec: Specification, answer: Answer) -> Iterator[str]:
    """For each thing that was looked at what is wrong, empty where nothing is."""
    if answer.error:
        yield answer.error
        return
    yield _unlike("creators registered", answer.creators, ((spec.task.name, VERSION, DOMAIN),))
    wanted = (f"CORE {spec.plugin} {VERSION}", f"BUILD {len(spec.task.outputs)}", "RUNTIME")
    for one in wanted:
        yield "" if one in answer.served else f"it serves {', '.join(answer.served) or 'nothing'} instead of {one}"
    for kernel, made in zip(spec.kernels, answer.made, strict=False):
        yield "" if made else f"no plugin is made of the fields of tactic {kernel.tactic}"
    yield f"a plugin is made of tactic {_NO_TACTIC}" if answer.made[-1] else ""
    yield _unlike("creators after the library was let go of", answer.left, ())


def _step(
    name: Literal["registry", "native"], said: str, wrong: Sequence[str], cases: int, started: float
) -> CheckStep:
    if wrong:
        more = f" (and {len(wrong) - 3} more)" if len(wrong) > 3 else ""
        said = f"{said}: {'; '.join(wrong[:3])}{more}"
    return CheckStep(
        name=name, verdict="failed" if wrong else "passed", reason=said, cases=cases,
        seconds=time.perf_counter() - started,
    )  # fmt: skip


def request(spec: Specification, folder: Path, shapes: Sequence[Shapes]) -> Request:
    """What is asked of the quick deployable plugin in a folder, for inputs of these shapes."""
    operands = (*spec.task.inputs, *spec.task.outputs)
    return Request(
        file=str(folder / f"{spec.file_name}.py"), name=spec.task.name, namespace=DOMAIN, inputs=len(spec.task.inputs),
        types=tuple(TYPES[one.dtype].python for one in operands),
        cases=tuple((*one, *spec.task.output_shapes(one)) for one in shapes), architectures=spec.architectures,
    )  # fmt: skip


def ask(request: Request, tensorrt: TensorRT) -> Answer:
    """What a plugin answers in a process of its own."""
    with loadable(tensorrt) as environment:
        try:
            answer = child.ask(
                "trtprof.plugin.registry_worker",
                request,
                Answer,
                what="TensorRT",
                within_s=_DEADLINE_S,
                variables=environment,
            )
        except child.DiedError as died:
            return Answer(error=died.why)
    if answer.missing:
        raise MissingError("TensorRT does not load", why=answer.missing, fix=INSTALL)
    return answer


@contextmanager
def loadable(tensorrt: TensorRT) -> Iterator[dict[str, str]]:
    """The environment in which a child of ours loads TensorRT."""
    environment = child.environment()
    if tensorrt.path is not None:
        environment["PYTHONPATH"] = os.pathsep.join([str(tensorrt.path), environment["PYTHONPATH"]])
    if tensorrt.lean is None:
        yield environment
        return
    major = tensorrt.lean.name.rpartition(".")[2]
    with scratch_folder() as folder:
        for name in _LIBRARIES:
            target = folder / f"lib{name}.so.{major}"
            if name == "nvinfer":
                target.symlink_to(tensorrt.lean)
            else:
                target.write_bytes(stub_library(_SYMBOLS))
        usual = environment.get("LD_LIBRARY_PATH")
        environment["LD_LIBRARY_PATH"] = os.pathsep.join([str(folder), *([usual] if usual else [])])
        yield environment


def _differences(spec: Specification, folder: Path, given: Sequence[Shapes], answer: Answer) -> Iterator[str]:
    """For each thing that was looked at what is wrong, empty where nothing is."""
    if answer.error:
        yield answer.error
        return
    wanted = ((spec.task.name, VERSION, DOMAIN),)
    yield _unlike("creators registered", answer.creators, wanted)
    for one in answer.asked:
        if one.error:
            yield f"{one.architecture}: {one.error}"
        else:
            yield from (text and f"{one.architecture}: {text}" for text in _asked(spec, folder, given, one))


def _asked(spec: Specification, folder: Path, given: Sequence[Shapes], asked: Asked) -> Iterator[str]:
    task = spec.task
    types = [TYPES[one.dtype].python for one in (*task.inputs, *task.outputs)]
    yield _unlike("dtypes of the outputs", asked.types, tuple(types[len(task.inputs) :]))
    yield _unlike("combinations of formats", asked.formats, (tuple((one, "LINEAR") for one in types),))
    kernels = {kernel.tactic: kernel for kernel in spec.tactics(asked.architecture)}
    yield _unlike("tactics", asked.tactics, tuple(sorted(kernels)))
    for shapes, found in zip(given, asked.shapes, strict=True):
        yield _unlike(f"shapes of the outputs for {_written(shapes)}", found, task.output_shapes(shapes))
    for launch in asked.launches:
        kernel = kernels.get(launch.tactic)
        if kernel is not None:
            shapes = given[launch.case]
            for text in _launched(spec, folder, asked.architecture, kernel, shapes, launch):
                yield text and f"tactic {launch.tactic} for {_written(shapes)}: {text}"


def _launched(
    spec: Specification, folder: Path, architecture: str, kernel: Kernel, shapes: Shapes, launch: Launch
) -> Iterator[str]:  # fmt: skip
    grid, extras = kernel.launch(shapes)
    yield _unlike("kernel", launch.entry, kernel.entry)
    yield _unlike("blocks", launch.grid, grid)
    yield _unlike("threads", launch.block, kernel.block)
    yield _unlike("integers", launch.extras, extras)
    yield _unlike("dynamic shared memory", launch.shared, 0)
    file = folder / quick.ptx_name(spec, architecture, kernel)
    same = file.is_file() and launch.ptx == file.read_bytes() == spec.ptx[architecture, kernel.tactic].encode()
    yield "" if same else f"its PTX is not that of {file.name}"
    yield "" if all(a <= b for a, b in zip(grid, _MOST_BLOCKS, strict=True)) else f"CUDA starts no {grid} blocks"
    yield "" if all(abs(one) <= MOST_EXTRA for one in extras) else f"an argument of {extras} has more than 32 bits"
    if launch.pointers:
        order = tuple(sorted(launch.pointers))
        yield _unlike("addresses of inputs and outputs", launch.pointers, order)


def _missing(error: MissingError) -> str:
    return "; ".join(one for one in (error.what, error.why, error.fix) if one)


def _unlike(what: str, found: object, wanted: object) -> str:
    return "" if found == wanted else f"{what}: {found} instead of {wanted}"


def _written(shapes: Shapes) -> str:
    return ", ".join("x".join(map(str, one)) or "scalar" for one in shapes)
