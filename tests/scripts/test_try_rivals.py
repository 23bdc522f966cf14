"""Reading what Olive, isat-tuner and our own `try` wrote, from stubs of them, and what of it counts.

The stubs print and write what Olive 0.13 and isat 0.12 do, cut to what is read and what stands around it.
"""

from __future__ import annotations

import json
import stat
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.fakes.support import load_script
from trtprof.base.records import (
    SCHEMA_VERSION,
    Backend,
    BestRungs,
    Device,
    InputTensor,
    Interval,
    ModelInfo,
    Tried,
)
from trtprof.compare.turns import change_of_turns
from trtprof.runtime.ort_session import SessionRequest

pytestmark = pytest.mark.nightly

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "bench" / "try_rivals.py"
rivals = load_script(SCRIPT, "try_rivals")

LIMIT = 60.0
"""Seconds that a stub has which ends by itself."""


def scaled(path: Path, factor: float, *, dynamic: bool = False) -> Path:
    """A model that multiplies by a constant."""
    shape: list[Any] = ["batch", 4] if dynamic else [1, 4]
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["y"], "scale")],
        "scaled",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.full(4, factor, np.float32), "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


@pytest.fixture
def problem(tmp_path: Path) -> Any:
    inputs = (InputTensor(name="x", dtype="fp32", shape=(1, 4), declared=("batch", 4)),)
    return rivals.Problem(scaled(tmp_path / "model.onnx", 2.0, dynamic=True), inputs)


def interpreter(folder: Path, script: str) -> str:
    """An executable in place of a Python: it gets ``-m TOOL ...``."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


# --- Olive ---------------------------------------------------------------------------------------


def handler(model: Path, settings: dict[str, Any] | None) -> str:
    inference = {"execution_provider": [rivals.PROVIDER], "io_bind": False, "session_options": settings}
    config = {"model_path": str(model), "inference_settings": inference if settings is not None else None}
    return json.dumps({"type": "onnxmodel", "config": config})


SLOW = {"execution_mode": 1, "graph_optimization_level": 1, "inter_op_num_threads": 2, "intra_op_num_threads": 2}
FAST = {"execution_mode": 0, "graph_optimization_level": 2, "inter_op_num_threads": 2, "intra_op_num_threads": 1}


def olive_python(folder: Path, *, tuned: dict[str, float], before: float | None = 4.0, last: str = "exit 0") -> str:
    """A stub of Olive: auto-opt writes a model, and the search has measured ``tuned`` when it comes to ``last``."""
    made = scaled(folder / "made.onnx", 2.0)
    files = {"metrics.json": json.dumps({"latency-avg": {"value": before, "priority": 1}})}
    for name, latency in tuned.items():
        signal = {"latency-avg": {"value": latency, "priority": 1, "higher_is_better": False}}
        files[f"{name}.evaluation"] = json.dumps({"model_id": f"{name}-cpu-cpu", "signal": signal})
        files[f"{name}.model"] = handler(made, FAST if name == "fa57" else SLOW)
    # The model that was given is evaluated, too, and is no run.
    files["00000000.evaluation"] = json.dumps(
        {"model_id": "00000000-cpu-cpu", "signal": {"latency-avg": {"value": before}}}
    )
    files["model_config.json"] = handler(made, None)
    for name, text in files.items():
        (folder / name).write_text(text)
    records = "\n".join(
        f"mkdir -p $cache/runs/{name}; cp {folder}/{name}.model $cache/runs/{name}/model.json\n"
        f"cp {folder}/{name}.evaluation $cache/evaluations/{name}-cpu-cpu.json"
        for name in tuned
    )
    metrics = f"cp {folder}/metrics.json tuned/input_model_metrics.json" if before is not None else ""
    return interpreter(
        folder,
        f"""
if [ "$3" = auto-opt ]; then mkdir -p auto-opt; cp {folder}/model_config.json auto-opt/; exit 0; fi
cache=cache/default_workflow; mkdir -p tuned $cache/evaluations
cp {folder}/00000000.evaluation $cache/evaluations/00000000-cpu-cpu.json
{metrics}
{records}
{last}
""",
    )


def run(tool: str, python: str, problem: Any, tmp_path: Path) -> Any:
    folder = tmp_path / "own"
    folder.mkdir()
    return rivals.TOOLS[tool](python, problem, folder, LIMIT)


def test_olives_best_is_the_session_that_it_measured_as_fastest(problem: Any, tmp_path: Path) -> None:
    found = run("olive", olive_python(tmp_path, tuned={"510e": 3.0, "fa57": 2.0}), problem, tmp_path)
    assert found.says == pytest.approx(2.0)
    assert found.model == tmp_path / "made.onnx"
    assert (found.threads, found.settings) == (1, ("graph_optimization_level=extended",))
    found = run_again("olive", olive_python(tmp_path, tuned={"510e": 1.0, "fa57": 2.0}), problem, tmp_path)
    assert found.says == pytest.approx(4.0)
    assert (found.threads, set(found.settings)) == (
        2,
        {"execution_mode=parallel", "graph_optimization_level=basic", "inter_op_num_threads=2"},
    )


def run_again(tool: str, python: str, problem: Any, tmp_path: Path) -> Any:
    (tmp_path / "again").mkdir()
    return run(tool, python, problem, tmp_path / "again")


def killed_in(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    """Let what has this verb come to its end, and be called killed: no clock decides how far it came."""
    real = rivals.limited

    def limited(command: Any, *arguments: Any, **environment: str) -> Any:
        ended = real(command, *arguments, **environment)
        return ended._replace(code=None) if verb in command else ended

    monkeypatch.setattr(rivals, "limited", limited)


def test_at_the_limit_a_tool_is_killed_with_its_children(tmp_path: Path) -> None:
    started = tmp_path / "started"
    python = interpreter(
        tmp_path, f"echo so far; sleep 600 & echo $! > {started}.part; mv {started}.part {started}; wait"
    )
    ended = rivals.Ended(0, "")
    limit = 0.5
    while not started.exists():  # the limit of a busy machine
        limit *= 2
        ended = rivals.limited([python], tmp_path, time.monotonic() + limit)
    assert ended == rivals.Ended(None, "so far\n")
    child = Path(f"/proc/{started.read_text().strip()}/stat")
    while child.exists() and child.read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    assert rivals.limited([interpreter(tmp_path, "exit 3")], tmp_path, time.monotonic() + LIMIT).code == 3


def test_what_olive_measured_before_it_was_killed_counts(
    problem: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_in(monkeypatch, "run")
    found = run("olive", olive_python(tmp_path, tuned={"510e": 5.0, "fa57": 2.0}), problem, tmp_path)
    assert found.says == pytest.approx(2.0)
    assert "killed" in found.note


def test_a_search_of_olive_that_found_nothing_faster_leaves_the_session_as_it_is(problem: Any, tmp_path: Path) -> None:
    found = run("olive", olive_python(tmp_path, tuned={"fa57": 4.5}), problem, tmp_path)
    assert (found.says, found.threads, found.settings) == (1.0, 0, ())
    assert found.model == tmp_path / "made.onnx"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"latency-avg"', '"latency-mean"'),
        ('"model_path"', '"path"'),
        ('"inference_settings"', '"settings"'),
        ('"session_options"', '"options"'),
        ('"graph_optimization_level"', '"optimization"'),
        ('"model_id"', '"model"'),
        ("evaluations", "metrics"),
        ("input_model_metrics", "metrics"),
        ("/runs/", "/models/"),
    ],
)
def test_another_olive_that_writes_other_files_is_no_result(
    problem: Any, tmp_path: Path, before: str, after: str
) -> None:
    python = olive_python(tmp_path, tuned={"fa57": 2.0})
    for file in [*tmp_path.glob("*.json"), *tmp_path.glob("*.evaluation"), *tmp_path.glob("*.model"), Path(python)]:
        file.write_text(file.read_text().replace(before, after))
    with pytest.raises(rivals.UnreadableError):
        run("olive", python, problem, tmp_path)


def test_an_olive_that_fails_has_found_nothing_and_says_why(problem: Any, tmp_path: Path) -> None:
    found = run("olive", interpreter(tmp_path, "echo ValueError: no such pass; exit 1"), problem, tmp_path)
    assert found.unchanged
    assert found.note == "auto-opt failed: ValueError: no such pass"
    python = olive_python(tmp_path, tuned={}, last="echo No output model produced. Please check the log; exit 0")
    found = run_again("olive", python, problem, tmp_path)
    assert found.model == tmp_path / "made.onnx"
    assert found.says is None


def test_the_workflow_for_olive_names_the_inputs_as_the_model_has_them(problem: Any, tmp_path: Path) -> None:
    data = rivals.olive_workflow(problem.path, problem.inputs, tmp_path, 30.4)
    dataset = data["data_configs"][0]["load_dataset_config"]
    assert dataset["input_names"] == ["x"]
    assert dataset["input_shapes"] == [[1, 4]]
    assert dataset["input_types"] == ["float32"]
    assert data["search_strategy"]["max_time"] == 31
    json.dumps(data)


# --- isat ----------------------------------------------------------------------------------------

PREFIX = "03:08:20 [isat.benchmark] INFO:"


def candidate(number: int, label: str, *latencies: float) -> str:
    runs = "\n".join(f"{PREFIX}     run {one}/2: {value:.2f} ms" for one, value in enumerate(latencies, 1))
    mean = sum(latencies) / len(latencies)
    return (
        f"{PREFIX} Config {number}/3: xnack0_default|mlir_default|{label}\n{PREFIX}   env: HSA_XNACK=0\n{runs}\n"
        f"{PREFIX}   Result: mean={mean:.2f} ms  p95={mean:.2f} ms  throughput=100.0 fps"
    )


ISAT = "\n".join([
    candidate(1, "fp32_native|raw_opt99", 4.0, 4.2), candidate(2, "fp32_native|raw_opt1", 2.0, 2.2),
    candidate(3, "int8_qdq|raw_opt99", 4.1, 4.1),
    "  BEST CONFIG : xnack0_default|mlir_default|fp32_native|raw_opt1", "  Speedup     : 1.95x over baseline",
])  # fmt: skip


def isat_python(folder: Path, text: str) -> str:
    (folder / "printed").write_text(text)
    return interpreter(folder, f'[ "$3" = tune ] || exit 9\ncp "$4" given.onnx\ncat {folder}/printed')


def test_isats_best_is_the_level_of_its_best_candidate(problem: Any, tmp_path: Path) -> None:
    found = run("isat", isat_python(tmp_path, ISAT), problem, tmp_path)
    assert found.settings == ("graph_optimization_level=basic",)
    assert found.says == pytest.approx(1.95)
    assert not found.unchanged
    given = onnx.load(str(tmp_path / "own" / "given.onnx")).graph.input[0].type.tensor_type.shape
    assert [dim.dim_value for dim in given.dim] == [1, 4], "isat takes no shapes"


def test_what_isat_printed_before_it_was_killed_counts(
    problem: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = ISAT.partition("  BEST")[0]
    killed_in(monkeypatch, "tune")
    found = run("isat", isat_python(tmp_path, text), problem, tmp_path)
    assert found.settings == ("graph_optimization_level=basic",)
    assert found.says is None
    assert "killed after 3 candidates" in found.note
    half = text[: text.index("Config 2/3")]
    found = rivals.isat_found(rivals.Ended(None, half), 1.0)
    assert found.unchanged
    assert "killed after 1 candidates" in found.note
    assert rivals.isat_found(rivals.Ended(None, "starting"), 1.0).note == "killed in its first candidate"


@pytest.mark.parametrize(
    ("before", "after"),
    [("Config ", "Candidate "), ("Result: mean=", "Mean: "), (" run ", " iteration "), ("Speedup", "Gain"),
     ("raw_opt1", "raw"), ("raw_opt1", "raw_opt7")],
)  # fmt: skip
def test_another_isat_that_prints_other_lines_is_no_result(before: str, after: str) -> None:
    with pytest.raises(rivals.UnreadableError):
        rivals.isat_found(rivals.Ended(0, ISAT.replace(before, after)), 1.0)


def test_an_isat_none_of_whose_candidates_runs_says_why() -> None:
    text = f"{PREFIX} Config 1/3: a|b|c|raw_opt99\n03:08 [isat.benchmark] WARNING:   FAILED: Pad needs an axis"
    found = rivals.isat_found(rivals.Ended(0, text), 1.0)
    assert found.unchanged
    assert found.note == "no candidate ran: Pad needs an axis"


# --- ours ----------------------------------------------------------------------------------------


def test_our_best_is_read_from_the_document(tmp_path: Path) -> None:
    best = BestRungs(
        rungs=("a", "b"), gain=Interval(value=8.0, low=7.5, high=8.5),
        options={"--threads": "1", "execution_mode": "parallel"}, model=str(tmp_path / "best.onnx"),
    )  # fmt: skip
    tried = Tried(
        schema_version=SCHEMA_VERSION, model=ModelInfo(name="m", path="m", sha256="", ir_version=8, opsets={}),
        backend=Backend(name="ort-cpu", reason=""), device=Device(name="a CPU", kind="cpu"), created="", version="",
        command="", threads=2, latency=None, verdict="a helps", rungs=(), best=best, candidates=2,
        budget_s=10.0, spent_s=9.0,
    )  # fmt: skip
    file = tmp_path / "tried.json"
    file.write_bytes(msgspec.json.encode(tried))
    found = rivals.our_best(file, 9.0)
    assert (found.model, found.threads, found.settings) == (tmp_path / "best.onnx", 1, ("execution_mode=parallel",))
    assert found.says == pytest.approx(8.0)
    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(tried, best=None)))
    assert rivals.our_best(file, 9.0).unchanged
    file.write_text(json.dumps({"gain": 8.0}))
    with pytest.raises(rivals.UnreadableError):
        rivals.our_best(file, 9.0)
    with pytest.raises(rivals.UnreadableError):
        rivals.our_best(tmp_path / "absent.json", 9.0)


# --- what counts ---------------------------------------------------------------------------------


def times(gain: float) -> Any:
    rng = np.random.default_rng(0)
    sides = [rng.normal(1e6, 1e4, (2, 40)).astype(np.int64) for _ in range(12)]
    pairs = [(one[0], (one[1] / gain).astype(np.int64)) for one in sides]
    return change_of_turns([pairs[:4], pairs[4:8], pairs[8:]])


def test_a_wrong_result_counts_as_the_original_and_a_slower_one_as_it_is() -> None:
    found = rivals.Found(10.0, says=4.0, settings=("execution_mode=parallel",), note="a|b")
    rows = [
        rivals.Row("one", "x", found, "", times(4.0), "options"),
        rivals.Row("two", "x", found, "on zeros: differ", None, "options"),
        rivals.Row("one", "y", found, "", times(0.5), "options"),
        rivals.Row("two", "y", rivals.Found(20.0), "", None, "nothing"),
    ]
    lines = rivals.table(rows).splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    assert {len(row) for row in cells[:6]} == {8}, "a | within a cell would begin another"
    one, wrong, slower, nothing = cells[2:6]
    assert "faster" in one[4]
    assert one[5] == "equal"
    assert (wrong[4], wrong[5]) == ("-", "WRONG: on zeros: differ")
    assert "slower" in slower[4]
    assert nothing[4] == "1, the original"
    x, y = cells[-2:]
    assert float(x[2]) == pytest.approx(2.0, rel=0.02)  # of 4 and 1
    assert float(y[2]) == pytest.approx(0.5**0.5, rel=0.02)
    assert x[3:6] == ["1", "0", "1"]
    assert y[3:6] == ["0", "1", "0"]
    assert y[6] == "15"


def test_outputs_are_checked_by_ours_before_anything_is_measured(
    problem: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[SessionRequest] = []
    change = times(2.0)

    def measured(before: Any, after: Any, deadline: float) -> Any:
        asked.append(after.session)
        return change

    monkeypatch.setattr(rivals, "measured", measured)
    judge = rivals.Judge(SessionRequest(model=str(problem.path)), problem, tmp_path)
    wrong = scaled(tmp_path / "wrong.onnx", 2.01)
    right = scaled(tmp_path / "right.onnx", 2.0)
    why, found = judge.judge("x", rivals.Found(1.0, wrong))
    assert found is None
    assert why.startswith("on random")
    why, found = judge.judge("x", rivals.Found(1.0, right, 1, ("execution_mode=parallel",)))
    assert (why, found) == ("", change)
    (session,) = asked
    assert (session.model, session.threads) == (str(right), 1)
    assert session.tuning.execution_mode == "parallel"
    assert judge.judge("x", rivals.Found(1.0)) == ("", None)
    same = scaled(tmp_path / "same.onnx", 2.0, dynamic=True)
    assert judge.judge("x", rivals.Found(1.0, same, 0, ("graph_optimization_level=basic",))) == ("", None)
    assert len(asked) == 1, "the runtime makes the same graph of it"
    assert judge.judge("x", rivals.Found(1.0, same, 0, ("enable_mem_pattern=0",))) == ("", change)
    why, found = judge.judge("x", rivals.Found(1.0, tmp_path / "absent.onnx"))
    assert why
    assert found is None


def test_the_script_ends_with_1_where_a_tool_cannot_be_read(
    problem: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(rivals.TOOLS, "ours", lambda *_: rivals.Found(1.0, note="nothing helps"))
    arguments = [str(problem.path), "--isat", isat_python(tmp_path, ISAT.replace("Speedup", "Gain"))]
    assert rivals.main([*arguments, "--keep", str(tmp_path / "first")]) == 1
    printed = capsys.readouterr().out
    assert "no result: isat, model.onnx: isat tune tells no gain" in printed
    assert "| model | ours | 1 |" in printed
    monkeypatch.setattr(rivals, "measured", lambda *_: times(2.0))
    isat_python(tmp_path, ISAT)
    assert rivals.main([*arguments, "--keep", str(tmp_path / "second")]) == 0
    assert "graph_optimization_level=basic" in capsys.readouterr().out
