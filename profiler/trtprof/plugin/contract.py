"""plugin.py driven through TensorRT's own registry, which needs no GPU, and held against kernel.py.

TensorRT's lean runtime has the registry; its Python bindings load beside it once the libraries that it lacks are there
by name. Where all of TensorRT is installed, that is asked instead.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path

from trtprof.base.errors import MissingError, TrtprofError
from trtprof.base.records import CheckStep
from trtprof.base.scratch import scratch_folder
from trtprof.plugin.compile import PTX_VERSIONS, compile_kernel
from trtprof.plugin.folder import PluginFolder, load
from trtprof.plugin.form import read_kernel
from trtprof.plugin.registry_worker import Answer, Case, Launch, Request, Shapes, ptx_digest
from trtprof.plugin.task import DOMAIN
from trtprof.plugin.write import PORTABLE, TYPES, dtypes_offered
from trtprof.runtime import child
from trtprof.runtime.stub_library import stub_library

INSTALL = "pip install 'trtprof[plugin]'"  # What brings the registry, without the rest of TensorRT

_SYMBOLS = (
    "createInferBuilder_INTERNAL", "createNvOnnxParser_INTERNAL", "createNvOnnxParserRefitter_INTERNAL",
    "getBuilderPluginRegistry", "getNvOnnxParserVersion", "initLibNvInferPlugins",
)  # fmt: skip
"""What the bindings link and the lean runtime lacks; nothing of it is called here."""
_WORKER = "trtprof.plugin.registry_worker"


def find_tensorrt() -> Path | None:
    """The library of TensorRT's lean runtime; None where all of TensorRT is installed."""
    if PathFinder.find_spec("tensorrt"):
        return None
    libraries = PathFinder.find_spec("tensorrt_lean_libs")
    folders = (libraries.submodule_search_locations if libraries else None) or ()
    found = sorted(one for folder in folders for one in Path(folder).glob("libnvinfer_lean.so.*"))
    if not found or not PathFinder.find_spec("tensorrt_bindings"):
        raise MissingError("TensorRT is not installed", why="nor is its lean runtime with its bindings", fix=INSTALL)
    return found[-1]


def registry(folder: Path) -> CheckStep:
    """Ask plugin.py all that a build asks, for several shapes, the dtypes that it offers, and each architecture."""
    started, given, version = time.perf_counter(), load(folder), ""
    wrong: list[str] = []
    try:
        lean = find_tensorrt()
        expected = _expected(folder, given)
        for triton in (True, False) if given.ptx else (True,):  # False: kernel.N.ptx are read
            cases = tuple(case for case in expected if triton or case.architecture == PORTABLE)
            with _loadable(lean) as variables:
                request = Request(
                    file=str(folder / "plugin.py"), name=given.name, namespace=DOMAIN, inputs=len(given.inputs),
                    triton=triton, cases=cases,
                )  # fmt: skip
                variables["TRITON_DISABLE_LINE_INFO"] = "1"
                answer = child.ask(_WORKER, request, Answer, what="TensorRT", within_s=300.0, variables=variables)
            version = answer.version
            how = "" if triton else "without Triton: "
            if answer.creators != (f"{DOMAIN}::{given.name} 1",):
                wrong.append(f"{how}the creators that it registers are {answer.creators}")
            for wanted, told in zip(cases, map(_compared, answer.cases), strict=True):
                shapes = ", ".join("x".join(map(str, one)) or "scalar" for one in wanted.shapes)
                wrong += [
                    f"{how}{wanted.architecture}, {shapes}: {what} {told[what]} instead of {one or 'none'}"
                    for what, one in _compared(wanted).items() if told.get(what, one) != one
                ]  # fmt: skip
    except MissingError as error:
        return CheckStep(name="registry", verdict="not here", reason=f"{error.what}; {error.why}; {error.fix}")
    except TrtprofError as error:
        return CheckStep(name="registry", verdict="failed", reason=f"{error.what}: {error.why}", cases=1)
    said = f"TensorRT {version}{'' if lean is None else ', the lean runtime'}"
    if wrong:
        said += f": {'; '.join(wrong[:3])}{f' (and {len(wrong) - 3} more)' if len(wrong) > 3 else ''}"
    return CheckStep(
        name="registry", verdict="failed" if wrong else "passed", reason=said, cases=len(expected),
        seconds=time.perf_counter() - started,
    )  # fmt: skip


def _expected(folder: Path, given: PluginFolder) -> list[Case]:
    """What kernel.py and its compiler say: of all shapes on one architecture, and of the first one with all else."""
    task, typed = given.task, tuple(dtypes_offered(given.task).values())
    builds = [
        compile_kernel(folder / "kernel.py", given.entry, one, (PORTABLE,) if at else tuple(PTX_VERSIONS)).builds
        for at, one in enumerate(typed)
    ]
    kernel = read_kernel(folder / "kernel.py", given.entry)
    names = [tuple(TYPES[one.dtype].cpp[1:] for one in (*each.inputs, *each.outputs)) for each in typed]
    formats = tuple(tuple((one, "LINEAR") for one in each) for each in names)
    dims = dict.fromkeys(dim for one in task.inputs for dim in one.dims if isinstance(dim, str))
    sizes = (
        given.dims, {name: 3 + 2 * at for at, name in enumerate(dims)}, dict.fromkeys(dims, 1),
        {name: min(at, 2) for at, name in enumerate(dims)},
    )  # fmt: skip
    first, *others = dict.fromkeys(task.shapes(one) for one in sizes)

    def case(shapes: Shapes, dtypes: int, architecture: str) -> Case:
        tactics = {}
        for tactic, blocks in kernel.tactics.items():
            build, (integers, grid) = builds[dtypes][architecture, tactic], kernel.launch(shapes, blocks)
            tactics[tactic] = Launch(
                entry=build.entry, grid=tuple(max(one, 1) for one in grid), threads=(32 * build.warps, 1, 1),
                integers=integers, shared_bytes=build.shared_bytes, ptx=ptx_digest(build.ptx),
            )  # fmt: skip
        return Case(
            architecture=architecture, dtypes=names[dtypes], shapes=(*shapes, *task.output_shapes(shapes)),
            formats=formats, tactics=tactics,
        )  # fmt: skip

    return [
        *(case(first, 0, one) for one in PTX_VERSIONS), *(case(one, 0, PORTABLE) for one in others),
        *(case(first, at, PORTABLE) for at in range(1, len(typed))),
    ]  # fmt: skip


def _compared(case: Case) -> dict[str, object]:
    """What is compared of a case, by what it is called."""
    launches = {
        f"{one} of tactic {tactic}": getattr(launch, one)
        for tactic, launch in case.tactics.items() for one in Launch.__struct_fields__
    }  # fmt: skip
    found = {one: getattr(case, one) for one in ("error", "dtypes", "shapes", "formats")}
    return {**found, "tactics": sorted(case.tactics), **launches}


@contextmanager
def _loadable(lean: Path | None) -> Iterator[dict[str, str]]:
    """Variables with which a child of ours loads TensorRT."""
    if lean is None:
        yield {}
        return
    major = lean.name.rpartition(".")[2]
    with scratch_folder() as folder:
        (folder / f"libnvinfer.so.{major}").symlink_to(lean)
        for name in ("nvonnxparser", "nvinfer_plugin"):
            (folder / f"lib{name}.so.{major}").write_bytes(stub_library(_SYMBOLS))
        yield {"LD_LIBRARY_PATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("LD_LIBRARY_PATH")]))}
