"""Groups of options: a command names the group, and gets what was given for each of its options."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from trtprof.base.errors import UsageError
from trtprof.cli import app, load_commands, options
from trtprof.cli.engine_options import Types
from trtprof.cli.options import Export, NamedModel, Shapes, command, model_request


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> tuple[typer.Typer, list[Any]]:
    """A program with one command of two groups around an option of its own, and what it was given."""
    app, given = typer.Typer(rich_markup_mode=None), list[Any]()
    monkeypatch.setattr(options, "app", app)

    @command
    def try_it(
        *, shapes: Shapes, loud: Annotated[bool, typer.Option("--loud", help="Loudly.")] = False, types: Types
    ) -> None:
        """Try it."""
        given.append((shapes, loud, types))

    return app, given


def test_options_of_groups_reach_the_command(program: tuple[typer.Typer, list[Any]]) -> None:
    app, given = program
    arguments = ["--batch", "4", "--shapes", "x:1", "--shapes", "y:2", "--noTF32", "--loud"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert CliRunner().invoke(app, []).exit_code == 0
    assert given == [(Shapes(["x:1", "y:2"], 4), True, Types(no_tf32=True)), (Shapes(), False, Types())]


def test_the_help_has_the_options_by_subject_in_the_order_of_the_parameters(
    program: tuple[typer.Typer, list[Any]],
) -> None:
    shown = CliRunner().invoke(program[0], ["--help"]).output
    assert "Try it." in shown
    titles_and_options = ("Model:", "--shapes", "--batch", "Precision:", "--fp16", "--noTF32", "Options:", "--loud")
    order = [shown.index(name) for name in titles_and_options]
    assert order == sorted(order)


def test_a_model_is_named_once() -> None:
    assert NamedModel("m.onnx").name == NamedModel(onnx="m.onnx").name == "m.onnx"
    with pytest.raises(UsageError, match="twice"):
        _ = NamedModel("m.onnx", "n.onnx").name
    with pytest.raises(UsageError, match="no model is named"):
        _ = NamedModel().name


def test_a_request_has_what_the_groups_hold() -> None:
    asked = model_request("a.b:c", Shapes(["x:1x3"], 2), Export(["x:fp16"], ["0=n"], ["w=1"]), opset=18)
    assert (asked.model, asked.batch, asked.shapes) == ("a.b:c", 2, {"x": (1, 3)})
    how = asked.export
    assert (how.dtypes, how.dynamic, how.factory_args, how.opset) == (("x:fp16",), ("0=n",), ("w=1",), 18)


# --- one meaning in all verbs ------------------------------------------------------------------

DIFFERENT = {
    "--backend": "a build has fewer of them",
    "--batch": "of a sweep an axis like all others",
    "--device": "what there is to choose from: a GPU, one of a capture, the CPU",
    "--dry-run": "a build prints what it would do, try predicts",
    "--dtype": "of a sweep an axis, of a list of GPUs a filter",
    "--exportLayerInfo": "analyze reads what the others write",
    "--exportProfile": "analyze reads what the others write",
    "--exportTimes": "analyze reads what the others write",
    "--no-tf32": "analyze and sweep have --tf32 beside it",
    "--noTF32": "the same",
    "--onnx": "analyze needs none",
    "--fail-on": "a fleet fails by cells that failed, a run by findings",
    "--gate": "of fleets it is about cells and what they come to, of runs about latency",
    "--tag": "run and report call a run so, fleet report takes the cells that are called so",
    "--only": "try takes codes of findings, plugin its steps",
    "--output": "run names a folder, too, report - and folders of tables, export the model",
    "-o": "the same, and a fleet has a folder",
    "--profile": "analyze reads that of trtexec",
}
"""Flags that do not say the same in every verb, and why not."""


def flags() -> dict[str, dict[tuple[Any, ...], list[str]]]:
    """What each flag says, and in which verbs: its help, spellings and metavar."""
    load_commands()
    found: dict[str, dict[tuple[Any, ...], list[str]]] = {}
    commands = dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    for name, each in list(commands.items()):
        if isinstance(each, typer.core.TyperGroup):
            commands |= {f"{name} {inner}": one for inner, one in each.commands.items()}
    for verb, each in commands.items():
        for option in each.params:
            if option.param_type_name == "option":
                says = (option.help, tuple(option.opts), tuple(option.secondary_opts), option.metavar)
                for name in (*option.opts, *option.secondary_opts):
                    found.setdefault(name, {}).setdefault(says, []).append(verb)
    return found


def test_a_flag_says_the_same_in_every_verb() -> None:
    several = {name for name, says in flags().items() if len(says) > 1}
    assert several == set(DIFFERENT)


@pytest.mark.parametrize(
    ("flag", "verbs"),
    [
        ("--dtype", {"run", "try", "build", "predict", "inspect", "export"}),
        ("--fp16", {"run", "try", "build", "predict", "inspect", "export"}),
        ("--bf16", {"run", "try", "build", "predict", "inspect", "export"}),
        ("--engine", {"predict", "inspect"}),
        ("--measured", {"run", "analyze", "predict"}),
        ("--builderOptimizationLevel", {"run", "try", "build"}),
        ("--quiet", {"run", "build", "export"}),
        ("--loadEngine", {"run", "build"}),
        ("--format", {"run", "try", "plugin", "inspect", "predict", "build", "analyze", "report", "compare", "sweep",
                      "gpus", "calibrate", "kernel", "rules", "doctor"}),
    ],
)  # fmt: skip
def test_a_flag_is_there_wherever_it_could_be(flag: str, verbs: set[str]) -> None:
    alone = [{verb for verb in each if not verb.startswith("fleet ")} for each in flags()[flag].values()]
    assert max(alone, key=len) == verbs
