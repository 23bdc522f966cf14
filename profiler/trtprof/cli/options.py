"""Options that several commands take, spelled once; trtexec's spellings are accepted beside kebab-case.

Options that are always taken together are a group: a tuple whose fields are the options, and which `command` puts in
the place of a parameter that has it as its type.
"""

from __future__ import annotations

import functools
import inspect
import shlex
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar, cast, get_type_hints

import typer
import typer.core

from trtprof.base.errors import UsageError
from trtprof.cli import app, completion
from trtprof.cli.declared import opt
from trtprof.cli.output import errors_shown, say

if TYPE_CHECKING:
    from trtprof.source.request import ModelRequest

Command = TypeVar("Command", bound=Callable[..., None])


_PANELS = {
    **dict.fromkeys(("NamedModel", "Shapes", "Export"), "Model"),
    "Types": "Precision",
    **dict.fromkeys(("Plugins", "Ranges", "Memory"), "Engine of TensorRT"),
    "Tactics": "Tactics of TensorRT",
    "Told": "As trtexec tells it",
}
"""Title in the help of the options of a group."""
_ClickUsageError: type[Exception] = getattr(typer.BadParameter, "__mro__")[1]  # noqa: B009 - mypy takes no index here
"""What the parser raises; Typer has its own copy of Click, or takes that which is installed."""
_ALIKE = 0.75
"""Least likeness of an option that is offered in place of one that there is not: ``--int8`` is no ``--quiet``."""


class Verb(typer.core.TyperCommand):
    """A command that knows trtexec's flags, and whose help lists its options by subject."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = list(args)
        while True:
            try:
                return super().parse_args(ctx, list(given))
            except _ClickUsageError as error:
                given = self._mended(error, given, ctx)

    def _mended(self, error: Any, given: list[str], ctx: Any) -> list[str]:
        """The arguments to try again with, less a flag of trtexec that changes nothing."""
        name = getattr(error, "option_name", None)
        if not name or not hasattr(error, "possibilities"):
            raise error
        # A command of a group, `fleet run`, is another one than that of its name.
        inside = ctx.parent.info_name if ctx.parent is not None and ctx.parent.parent is not None else ""
        if self.name in ("run", "build") and not inside:
            from trtprof.cli import trtexec

            verb = cast("trtexec.Verb", self.name)
            rest = trtexec.without(verb, name, given)
            if rest is not None:
                say(f"{name}: always so: {trtexec.FLAGS_BY_NAME[name].of(verb).why}")
                return rest
            if answer := trtexec.answer(verb, name):
                with errors_shown():
                    raise answer
        elif answer := _of_manifest(inside, name) or _taken_elsewhere(error, f"{inside} {self.name}".strip(), name):
            with errors_shown():
                raise answer
        alike = [each for each in error.possibilities or () if SequenceMatcher(None, each, name).ratio() >= _ALIKE]
        error.possibilities = alike
        raise error

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            row = param.get_help_record(ctx)
            if row is not None:
                usual = "Arguments" if param.param_type_name == "argument" else "Options"
                sections.setdefault(getattr(param, "rich_help_panel", None) or usual, []).append(row)
        for title in sorted(sections, key=lambda title: (title != "Arguments", title == "Options")):
            with formatter.section(title):
                formatter.write_dl(sections[title])


def _of_manifest(group: str, name: str) -> UsageError | None:
    """What whoever types an option of a cell at a command of `trtprof fleet` is told; None where it is none."""
    if group != "fleet":
        return None
    from trtprof.flows.fleet.options import OPTIONS

    word = name.lstrip("-").replace("-", "").lower()
    known = next((option for option in OPTIONS if option.replace("-", "") == word), "")
    if not known:
        return None
    return UsageError(
        f"{name} is not taken by trtprof fleet",
        why="its manifest says how cells are answered: of all, of a model or of a target",
        fix=f"in the manifest: options = {{ {known} = ... }}",
    )


def _taken_elsewhere(error: Any, verb: str, name: str) -> UsageError | None:
    """What whoever types a flag of trtexec at another verb than `run` and `build` is told; None where it is none."""
    from trtprof.cli import app, load_commands, trtexec

    flag = trtexec.FLAGS_BY_NAME.get(name)
    if flag is None:
        return None
    load_commands()  # this process has no other one than its own
    group: Any = typer.main.get_command(app)
    takes = [
        other
        for other in group.list_commands(error.ctx)
        if any(name in (*param.opts, *param.secondary_opts) for param in group.commands[other].params)
    ]
    return UsageError(
        f"{name} is not taken by trtprof {verb}",
        why=f"these take it: {', '.join(takes)}" if takes else flag.run.why,
        fix="leave it away",
    )


def command(function: Command) -> Command:
    """Register a command whose parameters are options or groups of options.

    Example:
        >>> @command
        ... def inspect(model: NamedModel, shapes: Shapes, export: Export, no_engine: ...) -> None: ...
    """
    return command_of(app)(function)


def command_of(parent: typer.Typer) -> Callable[[Command], Command]:
    """The same of a command that has commands of its own."""

    def register(function: Command) -> Command:
        _register(parent, function)
        return function

    return register


def _register(parent: typer.Typer, function: Callable[..., None]) -> None:
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        kind = hints[parameter.name]
        if not hasattr(kind, "_fields"):
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=kind))
            continue
        groups[parameter.name] = kind
        for name, annotation in get_type_hints(kind, include_extras=True).items():
            annotation.__metadata__[0].rich_help_panel = _PANELS.get(kind.__name__)
            default = kind._field_defaults[name]
            parameters.append(inspect.Parameter(name, parameter.KEYWORD_ONLY, default=default, annotation=annotation))

    @functools.wraps(function)
    def call(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(*(given.pop(field) for field in kind._fields))
        function(**given)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    # Those of the signature are read already; Typer would do it again.
    call.__annotations__ = {}
    # A verb that is a keyword of Python has an underscore behind it there.
    parent.command(function.__name__.rstrip("_").replace("_", "-"), cls=Verb)(call)


ForceOption = Annotated[bool, opt("--force -f", "Replace what is there.", "Result")]
LoadInputsOption = Annotated[
    list[str] | None,
    opt("--loadInputs --load-inputs", "Real inputs from .npy files.", "Measurement", metavar="NAME:FILE.npy,..."),
]
SeedOption = Annotated[int, opt("--seed", "Seed of the random inputs.", "Measurement")]
BackendOption = Annotated[
    str,
    opt(
        "--backend",
        "auto, or one that `trtprof doctor` lists.",
        "Device",
        envvar="TRTPROF_BACKEND",
        autocompletion=completion.backends,
    ),
]
ThreadsOption = Annotated[
    int,
    opt(
        "--threads", "On the CPU: threads inside an op; 0: one a usable core.", "Measurement", envvar="TRTPROF_THREADS"
    ),
]
SessionOptionOption = Annotated[
    list[str] | None,
    opt(
        "--sessionOption --session-option",
        "Of ONNX Runtime: tune the session, such as execution_mode=parallel or "
        "session.intra_op.allow_spinning=0; may be repeated.",
        "Measurement",
        metavar="KEY=VALUE",
        autocompletion=completion.session_options,
    ),
]
QuietOption = Annotated[bool, opt("--quiet -q", "Print nothing but the path of what was made.", "Result")]
EngineOption = Annotated[
    bool | None,
    opt(
        "--engine/--no-engine",
        "Build an engine with TensorRT-RTX, without a GPU, and show its layers: that may take minutes, "
        "and by default none is built.",
        show_default=False,
    ),
]
TopOption = Annotated[
    int | None, opt("--top", "Rows of lists and findings in text and Markdown.", "Result", metavar="N", min=1)
]
FailOnOption = Annotated[
    list[str] | None,
    opt(
        "--fail-on",
        "Leave with exit code 1, all written, where there is such a finding: the code of a rule (RL101), a "
        "severity or worse (info, warning, critical), or lost-ms=0.5 (one that claims so much); may be repeated. "
        "Findings that doubt the numbers (TR...) count by code alone.",
        "Result",
        metavar="WHAT",
        autocompletion=completion.findings,
    ),
]
ExplainOption = Annotated[
    tuple[str, str] | None,
    opt(
        "--explain",
        "In place of the report: what a rule says of a layer (or an ONNX node in it), or why nothing.",
        "Result",
        metavar="CODE LAYER",
        autocompletion=completion.rules,
        show_default=False,
    ),
]


class NamedModel(NamedTuple):
    """The model, as an argument or as trtexec spells it."""

    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="The ONNX model, or a PyTorch one as package.module:factory or file.py:factory.",
            show_default=False,
        ),
    ] = None
    onnx: Annotated[str | None, opt("--onnx", "The same as the argument.", metavar="FILE")] = None

    @property
    def name(self) -> str:
        """The model that is named."""
        if self.model and self.onnx:
            raise UsageError(
                "the model is named twice", why=f"{self.model} and --onnx {self.onnx}", fix="leave one away"
            )
        if not (self.model or self.onnx):
            raise UsageError("no model is named", fix="trtprof run model.onnx")
        return self.model or self.onnx or ""


ShapesOption = Annotated[
    list[str] | None,
    opt("--shapes", "Input shapes, such as x:1x3x224x224,mask:1x128; may be repeated.", metavar="NAME:DIMS,..."),
]


class Shapes(NamedTuple):
    """What is bound to the dynamic dimensions of a model."""

    shapes: ShapesOption = None
    batch: Annotated[int | None, opt("--batch", "Number for dynamic batch dimensions.", metavar="N")] = None


class Export(NamedTuple):
    """How a PyTorch module is exported."""

    dtypes: Annotated[
        list[str] | None,
        opt("--dtypes", "PyTorch: dtypes of inputs, such as ids:int64,mask:bool.", metavar="NAME:DTYPE,..."),
    ] = None
    dynamic: Annotated[
        list[str] | None,
        opt(
            "--dynamic",
            "PyTorch: dimensions to keep dynamic, such as x:0=batch,x:2=height; 0=batch is that of every input.",
            metavar="[NAME:]AXIS=DIM,...",
        ),
    ] = None
    factory_arg: Annotated[
        list[str] | None,
        opt("--factory-arg", "PyTorch: an argument of the factory; may be repeated.", metavar="NAME=VALUE"),
    ] = None


def model_request(model: str, shapes: Shapes, export: Export = Export(), **more: Any) -> ModelRequest:
    """The model as it is asked for; ``more`` are the other fields of `source.spec.ExportOptions`."""
    from trtprof.source.request import ModelRequest

    fields = {"dtypes": export.dtypes, "dynamic": export.dynamic, "factory_args": export.factory_arg}
    more |= {name: tuple(values or ()) for name, values in fields.items()}
    return ModelRequest.of(model, shapes.shapes or (), shapes.batch, **more)


def command_line(given: Sequence[str]) -> str:
    """What was typed, to be typed again: without the folder that is there now; empty where nobody did."""
    kept, skip = ["trtprof"] * bool(given), False
    for word in given:
        if skip or word in ("-f", "--force", "--resume") or word.startswith(("-o=", "--output=")):
            skip = False
        elif word in ("-o", "--output"):
            skip = True
        else:
            kept.append(word)
    return shlex.join(kept)
