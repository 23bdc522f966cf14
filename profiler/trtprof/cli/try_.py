"""``trtprof try``: what would help, tried."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trtprof.base.errors import UsageError
from trtprof.cli import completion, process, typed
from trtprof.cli import options as o
from trtprof.cli.declared import opt
from trtprof.cli.engine_options import AuxStreamsOption, Memory, Plugins, Ranges, Tactics, Types, build_options
from trtprof.cli.gpu_targets import GpuOption, names
from trtprof.cli.options import command, command_line, model_request
from trtprof.cli.output import StageLines, errors_shown, result, say
from trtprof.cli.output_files import FormatOption, OutputsOption, check_report, deliver, refuse_existing, writable

if TYPE_CHECKING:
    from trtprof.base.records import GpuSpec

ITERATIONS, DURATION_S, PROFILED = 5, 1.0, 8
"""Of the runs of the original and of the best: enough for findings and for the times of layers. Candidates are measured
interleaved."""
_BUDGET = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?")
_SECONDS = {"s": 1, None: 1, "m": 60, "min": 60, "h": 3600}


@command
def try_(
    *,
    model: o.NamedModel,
    shapes: o.Shapes,
    load_inputs: o.LoadInputsOption = None,
    seed: o.SeedOption = 0,
    backend: o.BackendOption = "auto",
    threads: o.ThreadsOption = 0,
    session_option: o.SessionOptionOption = None,
    types: Types,
    tactics: Tactics,
    aux_streams: AuxStreamsOption = None,
    budget: Annotated[
        str,
        opt(
            "--budget",
            "About how long it may take: 90s, 5m, 1h.",
            "What is tried",
            metavar="TIME",
        ),
    ] = "5m",
    most: Annotated[
        int,
        opt(
            "--max-candidates",
            "Measure at most so many candidates, the most promising first.",
            "What is tried",
            metavar="N",
            min=1,
        ),
    ] = 40,
    only: Annotated[
        list[str] | None,
        opt(
            "--only",
            "Candidates for these findings only, in their layers.",
            "What is tried",
            metavar="CODE,...",
            autocompletion=completion.rules,
        ),
    ] = None,
    rung: Annotated[
        list[str] | None, opt("--rung", "These candidates only.", "What is tried", metavar="NAME,...")
    ] = None,
    skip: Annotated[
        list[str] | None, opt("--skip", "All candidates but these.", "What is tried", metavar="NAME,...")
    ] = None,
    options_only: Annotated[bool, opt("--options-only", "Leave the graph as it is.", "What is tried")] = False,
    rewrites_only: Annotated[
        bool, opt("--rewrites-only", "Leave the options of the runtime as they are.", "What is tried")
    ] = False,
    dry_run: Annotated[
        bool, opt("--dry-run", "Measure the original only, and predict the candidates.", "What is tried")
    ] = False,
    gpu: GpuOption = None,
    export: o.Export,
    runs: Annotated[
        str,
        opt(
            "--runs",
            "Where the runs of the original and of the best are kept (default reports/<model>-try-<stamp>).",
            "Result",
            metavar="FOLDER",
        ),
    ] = "",
    output: OutputsOption = None,
    patch: Annotated[bool, opt("--patch", "Show what the best changes in the graph.", "Result")] = False,
    force: o.ForceOption = False,
    format_name: FormatOption = "text",
    top: o.TopOption = None,
) -> None:
    """Try what would help a model: rewrites of its graph and options of the runtime, each measured.

    Each candidate's outputs are checked, then it is measured interleaved with the original, each in a process of
    its own. What helps is combined, and the best is measured once more. The original is never changed:
    -o best.onnx writes the rewritten model.

    Example: trtprof try model.onnx --budget 2m -o best.onnx -o tried.html
    """
    progress = StageLines()
    with errors_shown(progress), progress:
        from trtprof.base.records import Tried
        from trtprof.diagnose import config
        from trtprof.flows.options import GpuOptions, RunOptions
        from trtprof.flows.try_ import try_model
        from trtprof.flows.try_.options import TryOptions
        from trtprof.runtime.session_tuning import SessionTuning

        check_report("try", format_name, Tried)
        models = [name for name in output or () if name.lower().endswith(".onnx")]
        paths = writable(
            [name for name in output or () if name not in models], Tried, force=force, example="tried.html"
        )
        written = _model_file(models, model.name, force=force)
        if options_only and rewrites_only:
            raise UsageError(
                "--options-only and --rewrites-only leave nothing to try", why="each leaves out what the other keeps",
                fix="say one of them, or neither",
            )  # fmt: skip
        kinds = {"option"} if options_only else {"rewrite", "pass"} if rewrites_only else {"option", "rewrite", "pass"}
        found = try_model(
            TryOptions(
                run=RunOptions(
                    model=model_request(model.name, shapes, export),
                    load_inputs=tuple(load_inputs or ()),
                    seed=seed,
                    backend=backend,
                    threads=threads,
                    tuning=SessionTuning.of(session_option or ()),
                    gpu=GpuOptions(
                        build=build_options(types, tactics, Plugins(aux_streams=aux_streams), Ranges(), Memory())
                    ),
                    iterations=ITERATIONS,
                    duration_s=DURATION_S,
                    profile_iterations=PROFILED,
                    thresholds=config.load().thresholds,
                    output=runs,
                    command=command_line(typed),
                ),
                budget_s=seconds(budget),
                most=most,
                only=_codes(only),
                rungs=_split(rung),
                skip=_split(skip),
                kinds=frozenset(kinds),
                dry_run=dry_run,
                gpu=_gpu(gpu, dry_run=dry_run),
                model=written,
                force=force,
            ),
            progress,
        )
    with errors_shown():
        deliver(found, format_name, paths, top=top)
        if patch and found.best is not None:
            result("\n".join(found.best.patch) or "the graph is as it was")
        if written and (found.best is None or found.best.model != written):
            say(f"{written} was not written: the fastest is the graph as it is")
        elif written:
            say(f"wrote {written}")
        if found.folder:
            say(f"kept: {Path(found.folder).parent}")
        if found.interrupted:
            raise typer.Exit(process.ended_code())


def _gpu(asked: list[str] | None, *, dry_run: bool) -> GpuSpec | None:
    """The GPU to predict for; None where none is named."""
    from trtprof.hardware import gpus

    slugs = names(asked)
    if not slugs:
        return None
    if len(slugs) > 1 or not dry_run:
        raise UsageError(
            f"--gpu {','.join(slugs)} is for a dry run on one GPU",
            why="what is measured is measured on the device that is here",
            fix=f"--dry-run --gpu {slugs[0]}",
        )
    return gpus.find(slugs[0])


def seconds(text: str) -> float:
    """Seconds of ``90s``, ``5m``, ``1h`` or ``120``."""
    match = _BUDGET.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--budget {text!r} is no time", why="a number and a unit are: s, m or h", fix="--budget 5m")
    return float(match[1]) * _SECONDS[match[2]]


def _split(values: list[str] | None) -> tuple[str, ...]:
    return tuple(name.strip() for value in values or () for name in value.split(",") if name.strip())


def _codes(values: list[str] | None) -> tuple[str, ...]:
    """Codes of rules."""
    from trtprof.diagnose import RULES

    known = set(RULES.keys())
    found = tuple(code.upper() for code in _split(values))
    unknown = [code for code in found if code not in known]
    if unknown:
        raise UsageError(
            f"--only {unknown[0]}: there is no such rule", why="known: " + ", ".join(sorted(known)),
            fix="`trtprof rules` lists them; --rung takes the name of a candidate, such as threads-1",
        )  # fmt: skip
    return found


def _model_file(names: list[str], original: str, *, force: bool) -> str:
    """The file that ``-o`` names for the best model; empty where it names none."""
    if len(names) > 1:
        raise UsageError(f"-o names {len(names)} models", why="there is one best", fix=f"-o {names[0]}")
    for name in names:
        if Path(name).exists() and Path(original).exists() and Path(name).samefile(original):
            raise UsageError(
                f"-o {name} is the original", why="it is never written over, even with --force",
                fix="-o best.onnx",
            )  # fmt: skip
        refuse_existing(Path(name), force=force)
    return "".join(names)
