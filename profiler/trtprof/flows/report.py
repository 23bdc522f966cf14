"""From a run folder to its result and its documents: no model, no engine, no device."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Callable

import msgspec

from trtprof.base import run_folder
from trtprof.base.errors import UsageError
from trtprof.base.records import Backend, GpuSpec, Run, Tried
from trtprof.base.run_folder import Request, RunFolder
from trtprof.base.rungs import MEASURED
from trtprof.diagnose import Case
from trtprof.diagnose.config import judge_of
from trtprof.flows.options import GPU_BACKENDS


def analysed(folder: RunFolder, seen: Callable[[Case], None] | None = None) -> Run:
    """The result of a run from its saved artefacts alone: no model, no engine, no device."""
    from trtprof.analysis.run import analyse

    if folder.has(run_folder.GPU):
        from trtprof.analysis.gpu import evidence_of_gpu as evidence_of
    else:
        from trtprof.analysis.cpu import evidence_of_cpu as evidence_of
    request = folder.read(run_folder.REQUEST, Request)
    evidence, subject = evidence_of(folder)
    subject = subject._replace(
        tries=tries(request, subject.backend, subject.spec),
        tried=folder.read(run_folder.TRIED, Tried) if folder.has(run_folder.TRIED) else None,
    )
    return analyse(evidence, subject, judge_of(request, seen))


_AS_ASKED = {"backend": ("--backend", "auto"), "batch": ("--batch", "None"), "threads": ("--threads", "0")}
"""Options of a run that `trtprof try` has too, each with the value that needs no saying."""
_LISTS = {"shapes": "--shapes", "load_inputs": "--loadInputs"}
_OF_AN_ENGINE = (
    "fp16", "bf16", "int8", "fp8", "noTF32", "stronglyTyped", "builderOptimizationLevel", "maxAuxStreams",
    "tacticSources", "setBuildRoute",
)  # fmt: skip
_OF_ANOTHER_ENGINE = ("loadEngine", "optShapes", "memPoolSize", "staticPlugins")
"""Options of a run on a GPU that `trtprof try` has not."""
_OF_AN_EXPORT = ("dtypes", "dynamic", "factory_args")


def tries(request: Request, backend: Backend | None, spec: GpuSpec | None) -> str:
    """The command that tries what would help the model of a run as it was run, up to what it is to try."""
    options = request.options
    if backend is None or any(name in options for name in _OF_AN_EXPORT):
        return ""
    words = ["trtprof", "try", request.model]
    for name, flag in _LISTS.items():
        for given in ast.literal_eval(options.get(name) or "()"):
            words += [flag, given]
    measured = backend.name in MEASURED and not any(name in options for name in _OF_ANOTHER_ENGINE)
    asked = {**options, "backend": backend.name} if backend.name in GPU_BACKENDS else options
    for name, (flag, usual) in _AS_ASKED.items():
        value = asked.get(name, usual)
        # Nothing runs where it is predicted.
        if value != usual and (measured or name == "batch"):
            words += [flag, value]
    if measured:
        for name in filter(options.__contains__, _OF_AN_ENGINE):
            words.append(f"--{name}" if options[name] in ("True", "False") else f"--{name}={options[name]}")
        for setting in filter(None, options.get("sessionOption", "").split(",")):
            words += ["--sessionOption", setting]
    elif spec is None or spec.origin == "derived":
        return ""
    else:
        words += ["--dry-run", "--gpu", spec.slug]
    return shlex.join(words)


def engine_settings(request: Request) -> dict[str, str]:
    """How the engine of a run was built, and whether a CUDA graph runs it, as `options.with_flags` takes it."""
    options = request.options
    found = {f"--{name}": options[name] for name in filter(options.__contains__, _OF_AN_ENGINE)}
    # What is told of a switch is the field that it sets.
    settings = {name: "1" if value in ("True", "False") else value for name, value in found.items()}
    if "cuda-graph" in options:
        settings["--cuda-graph"] = "1" if options["cuda-graph"] == "True" else "0"
    return settings


def case_of(folder: RunFolder) -> Case:
    """What the rules look at, of a finished run; see `analysed`."""
    cases: list[Case] = []
    analysed(folder, cases.append)
    return cases[0]


def save_report(folder: RunFolder, run: Run) -> None:
    """Write the document and the page of a finished run into its folder; its tags are kept beside them."""
    from trtprof.report import render

    run = msgspec.structs.replace(run, tags=())
    folder.write_bytes(run_folder.REPORT, render(run, "json").encode())
    folder.write_bytes(run_folder.PAGE, render(run, "html").encode())


def model_as_run(run: Run, *, weights: bool = True) -> bytes:
    """The model of a run under the names that the run knows its nodes by, serialised."""
    import onnx

    from trtprof.flows.run_shapes import path_of_model
    from trtprof.source.load import load_model

    path = path_of_model(run.model)
    loaded = load_model(path)
    if not loaded.changed and not (loaded.external_data and weights):
        return path.read_bytes()
    proto = loaded.full() if loaded.changed else onnx.load(str(path), load_external_data=False)
    if loaded.external_data and weights:
        onnx.external_data_helper.load_external_data_for_model(proto, str(path.parent))
    try:
        return proto.SerializeToString()
    except Exception as error:  # protobuf has an error of its own for what is larger than 2 GB
        raise UsageError(
            f"{path} is too large for one file with its weights", why=str(error), fix="leave them out: --no-weights"
        ) from None
