"""Every command that the README shows is one that can be typed, and what it prints is what stands below it.

A command is a line in a fenced block or an inline span that begins with ``trtprof``. Each is parsed by the command
line; those that can run here do, in a folder of stand-ins for the files that they name; the others say why not. The
output of a command that a recorded block belongs to is held against the block.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import NamedTuple

import onnx
import pytest
import typer.main
from typer.testing import CliRunner, Result

from profiler.capture.nsys.trace import read_trace
from profiler.cli import app, load_commands
from profiler.engine.inspector import read_layer_info
from tests.fakes.in_process import quick
from tests.fakes.stats_factory import write_stats
from tests.fakes.support import ROOT, SAMPLES, load_script
from tests.fakes.trace_factory import Layer, Process, Work, write_trace

load_commands()

README = (ROOT / "README.md").read_text(encoding="utf-8")
PLAN = ROOT / "tests" / "engine" / "data" / "rtx_resnet_tiny.log"
QUICK = ["--duration", "0", "--iterations", "3", "--warmUp", "0", "--profile-iterations", "3"]

PLACEHOLDERS = {
    "MODEL.onnx": "sample_models/resnet_tiny.onnx",
    "FLEET.toml": "sample_models/fleet.toml",
    "RUN": "finished",
    "A": "finished",
    "B": "again",
    "BEFORE": "finished",
    "AFTER": "again",
    "[C...]": "",
    "[NAME...]": "rtx-4090 l4",
    "NAME...": "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32_stage4_warpsize2x2x1",
    "[CODE]": "KN701",
    "[TERM]": "floor",
    "CODE LAYER": "RL101 /stem/MaxPool",
}
"""What stands for a word in capitals when the command is run."""


class Absent(NamedTuple):
    """Commands that do not run in a test, and why."""

    pattern: str
    reason: str


NOT_RUN = (
    Absent(r"trtprof export ", "needs torch, which the tests do not install; tests/cli/test_export.py runs it"),
    Absent(r"trtprof run \S+\.py:", "needs torch, which the tests do not install"),
    Absent(r"trtprof run .*(--fp16|ort-cuda|--loadEngine)", "needs an NVIDIA GPU"),
    Absent(r"trtprof build (?!.*--dry-run)", "needs TensorRT or TensorRT-RTX; tests/cli/test_build.py runs it"),
    Absent(r"trtprof calibrate$", "measures for half a minute; tests/cli/test_calibrate.py runs it"),
    Absent(r"trtprof try ", "measures for minutes; tests/flows/test_try.py runs it"),
    Absent(r"trtprof plugin (?!.*--only brief)", "checks for a minute; tests/flows/plugin/test_story.py runs it"),
    Absent(r"trtprof run gemv-plugin", "needs what such a command wrote; tests/flows/plugin/test_story.py runs it"),
    Absent(r"trtprof fleet run .*--ray", "needs a cluster; tests/flows/fleet/test_on_ray.py starts one"),
    Absent(r"trtprof fleet run .*--shard", "needs a queue; tests/cli/test_fleet_run.py asks for a part"),
    Absent(r"trtprof report .*(--serve|--open)", "goes on until Ctrl-C, or opens a browser"),
)


def typed(text: str) -> list[str]:
    """The commands in a README, each as one line, in its order."""
    found = []
    for block in re.findall(r"^```(?:sh|text|console)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        lines = re.sub(r"\\\n\s*", " ", block).splitlines()
        found += [re.sub(r"\s+#.*", "", line) for line in lines if line.startswith(("trtprof ", "./scripts/"))]
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    found += [" ".join(span.split()) for span in re.findall(r"`(trtprof [^`]+)`", prose)]
    return list(dict.fromkeys(found))


COMMANDS = typed(README)
TRTPROF = [re.sub(r"^\./scripts/trtprof", "trtprof", line) for line in COMMANDS if "scripts/test" not in line]


def arguments(command: str) -> list[str]:
    """The words after ``trtprof``, placeholders replaced."""
    for word, instead in PLACEHOLDERS.items():
        command = re.sub(rf"(?<=\s){re.escape(word)}(?=\s|$)", lambda _, instead=instead: instead, command)  # type: ignore[misc]
    return shlex.split(command)[1:]


def invoke(words: list[str]) -> Result:
    return CliRunner().invoke(app, words, env={"COLUMNS": "80", "NO_COLOR": "1"})


def trace(path: Path) -> None:
    """A capture of the plan in the log: every layer launches one kernel."""
    layers = tuple(
        Layer(layer.name, (Work(layer.tactic or f"kernel_{place}", ns=10_000),))
        for place, layer in enumerate(read_layer_info(PLAN).layers)
    )
    write_trace(path, [Process(pid=111, layers=layers, iterations=3)])


def small_model(path: Path) -> None:
    """A model with the input of the README's trtexec-like examples: ``x``, Nx3x224x224."""
    dims: list[str | int | None] = ["N", 3, 224, 224]
    info = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "small", info[:1], info[1:])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10), path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all files that the commands name, and finished runs."""
    path = tmp_path_factory.mktemp("readme")
    for name in ("sample_models", "tests"):
        (path / name).symlink_to(ROOT / name)
    shutil.copy(SAMPLES / "resnet_tiny.onnx", path / "model.onnx")
    shutil.copy(PLAN, path / "layers.json")
    rows = [{"name": layer.name, "averageMs": 0.02, "medianMs": 0.02} for layer in read_layer_info(PLAN).layers]
    (path / "profile.json").write_text(json.dumps([{"count": 100}, *rows]))
    times = {"latencyMs": 0.53, "computeMs": 0.5, "h2dMs": 0.02, "d2hMs": 0.01}
    (path / "times.json").write_text(json.dumps([times] * 20))
    trace(path / "run.sqlite")
    write_stats(read_trace(path / "run.sqlite"), "nvtx_kern_sum", path / "run_nvtx_kern_sum.csv")
    with pytest.MonkeyPatch.context() as patch:
        quick(patch)
        done = invoke(["run", str(SAMPLES / "resnet_tiny.onnx"), "-o", str(path / "finished"), *QUICK])
    assert done.exit_code == 0, done.output
    for name in ("again", "base1", "base2", "base3", "head1", "head2", "head3"):
        shutil.copytree(path / "finished", path / name)
    done = invoke(["fleet", "run", str(SAMPLES / "fleet.toml"), "-o", str(path / "last-week"), "--quiet"])
    assert done.exit_code == 0, done.output
    shutil.copytree(path / "last-week", path / "my-fleet")
    for name in ("example", "example-1-thread"):
        shutil.copytree(ROOT / "reports" / name, path / "reports" / name)
    return path


@pytest.fixture
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch, quick_runs: None) -> Path:
    monkeypatch.chdir(folder)
    return folder


def absent(command: str) -> str | None:
    return next((reason for pattern, reason in NOT_RUN if re.match(pattern, command)), None)


def test_commands_were_found() -> None:
    assert len(TRTPROF) > 20
    assert "trtprof doctor" in TRTPROF


@pytest.mark.parametrize("command", TRTPROF)
def test_a_command_can_be_parsed(command: str) -> None:
    """Its options exist, and take what is written."""
    name, *words = arguments(command)
    group = typer.main.get_command(app)
    known = group.get_command(typer.Context(group), name)  # type: ignore[attr-defined]
    assert known is not None, f"no command {name}"
    if "--help" not in words:
        known.make_context(name, words)


def distinct() -> list[str]:
    """Those that run, each once however it is written."""
    return list({tuple(arguments(line)): line for line in TRTPROF if absent(line) is None}.values())


@pytest.mark.parametrize("command", distinct())
def test_a_command_runs(command: str, inside: Path) -> None:
    words = arguments(command)
    if words[0] == "run" and "--help" not in words:
        words += [*QUICK, "--force", "-o", "made"]
    if words[0] == "build" and "x:8x3x224x224" in command:
        small_model(inside / "small.onnx")
        words = ["small.onnx" if word == "model.onnx" else word for word in words]
    done = invoke(words)
    assert done.exit_code == 0, done.output
    if "-o" in words:
        assert (inside / words[words.index("-o") + 1]).exists()
    else:
        assert done.stdout.strip()


@pytest.mark.parametrize("command", [line for line in TRTPROF if absent(line) is not None])
def test_a_command_that_does_not_run_says_why(command: str) -> None:
    pytest.skip(f"{command}: {absent(command)}")


def test_no_reason_is_left_behind() -> None:
    """A reason without a command, or a script that is no file, is a mistake of the README or of this file."""
    optional = {r"trtprof report .*(--serve|--open)"}
    stale = [p for p, _ in NOT_RUN if p not in optional and not any(re.match(p, line) for line in TRTPROF)]
    assert stale == []
    for line in COMMANDS:
        if line.startswith("./"):
            assert (ROOT / line.split()[0]).is_file()


def blocks() -> dict[str, tuple[str, str]]:
    """The recorded blocks of the README by name: the command that stands last before each, and what is in it."""
    found = {}
    for match in re.finditer(r"<!-- ([\w ]+) -->\n```text\n(.*?)```\n<!-- /\1 -->", README, re.DOTALL):
        before = typed(README[: match.start()] + "\n")
        # The order of `typed` is blocks, then prose: what was written last is looked up by where it stands.
        flat = " ".join(README[: match.start()].split())
        found[match[1]] = max((line for line in before if line != "./scripts/test"), key=flat.rfind), match[2]
    return found


BLOCKS = blocks()


def test_the_blocks_are_those_that_the_script_records() -> None:
    assert set(BLOCKS) == set(load_script(ROOT / "scripts" / "record_example.py", "record_example").PRINTED)


@pytest.mark.parametrize("name", [name for name in BLOCKS if name != "example"])
def test_a_block_is_what_the_command_above_it_prints(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block may be the beginning, or a part, of a longer output."""
    command, block = BLOCKS[name]
    monkeypatch.chdir(ROOT)
    done = invoke(arguments(re.sub(r"^\./scripts/", "", command)))
    assert done.exit_code == 0, done.output
    assert block.strip() in done.stdout


def test_the_first_block_is_what_its_run_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is kept: `trtprof report` prints it again as `trtprof run` did."""
    command, block = BLOCKS["example"]
    assert command == "./scripts/trtprof run sample_models/resnet_tiny.onnx"
    monkeypatch.chdir(ROOT)
    done = invoke(["report", "reports/example"])
    assert done.exit_code == 0, done.output
    assert done.stdout == block


def test_a_run_today_prints_the_same_rows_with_other_numbers(inside: Path) -> None:
    done = invoke(["report", "finished"])
    rows = [re.match(r"[A-Z]+(?: [A-Z]+)*\b|by op|page", line) for line in BLOCKS["example"][1].splitlines()]
    # The fixture's run was typed by nobody.
    labels = [row[0] for row in rows if row is not None]
    printed = iter(done.stdout.splitlines())
    assert [label for label in labels if not any(line.startswith(label) for line in printed)] == [], done.stdout
