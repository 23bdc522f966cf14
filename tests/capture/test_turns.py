"""Variants that take turns in processes of their own: real ones, and ones that die, hang or refuse."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.fakes.support import SAMPLES
from trtprof.base.errors import CaptureError, TrtprofError
from trtprof.base.records import InputTensor
from trtprof.capture import turns
from trtprof.capture.turns import Pair, Turn, TurnsRequest, Variant, opened, pairs_of, round_of
from trtprof.capture.workers import turns as worker
from trtprof.runtime.ort_session import SessionRequest
from trtprof.runtime.session_tuning import SessionTuning
from trtprof.source.load import load_model, source_of

MODEL = SAMPLES / "resnet_tiny.onnx"


def variant(path: Path = MODEL, name: str = "the original", *tuned: str, threads: int = 1) -> Variant:
    session = SessionRequest(model=str(path), threads=threads, tuning=SessionTuning.of(tuned))
    return Variant(name=name, inputs=source_of(load_model(path), {}).model.inputs, session=session)


def cpu_ticks(pid: int) -> int:
    """CPU time of a process with all its threads, in ticks of 10 ms (proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# --- turns of real sessions -----------------------------------------------------------------


@pytest.mark.process
def test_sides_take_turns_and_the_one_that_waits_is_quiet() -> None:
    """By CPU time: with two threads each, ONNX Runtime's would spin on into the turn of the other."""
    one, other = variant(threads=2), variant(MODEL, "a variant", "enable_mem_pattern=0", threads=2)
    with opened(one, warmup_ms=50) as a, opened(other, warmup_ms=50) as b:
        assert min(a.run_ns, b.run_ns, a.made_ns, b.made_ns) > 0
        waited = []
        for running, waiting in ((a, b), (b, a), (a, b), (b, a)):
            before = cpu_ticks(waiting.pid)
            samples = running.turn(100)
            waited.append(cpu_ticks(waiting.pid) - before)
            assert samples.dtype == np.int64
            assert samples.min() > 0
            assert samples[:-1].sum() <= 100e6, "a turn ends with the first inference beyond its time"
        assert max(waited) <= 1, "a tick is 10 ms, a turn ten and more of them"
    assert not alive(a.pid)
    assert not alive(b.pid)


@pytest.mark.nightly
def test_a_turn_holds_one_inference_at_least(tmp_path: Path) -> None:
    with opened(variant(), warmup_ms=0) as side:
        assert len(side.turn(0)) == 1


def test_pairs_begin_with_each_side_in_turn() -> None:
    said: list[str] = []

    class Telling(turns.Side):
        def __init__(self, name: str, level: int) -> None:
            self.name, self._level = name, level

        def turn(self, _ms: float, _deadline_s: float | None = None) -> turns.Samples:
            said.append(self.name)
            return np.asarray([self._level])

    a, b = Telling("A", 1), Telling("B", 2)
    found = pairs_of(a, b, 3, 10)
    assert "".join(said) == "ABBAAB"
    assert found == [Pair(np.asarray([1]), np.asarray([2]))] * 3
    said.clear()
    assert pairs_of(a, b, 2, 10, first=1) == found[:2]
    assert "".join(said) == "BAAB"


@pytest.mark.nightly
@pytest.mark.parametrize("first", [0, 1])
def test_a_round_is_of_fresh_processes_whichever_begins(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    real = turns.opened

    def opened_too(each: Variant, **how: float) -> AbstractContextManager[turns.Side]:
        started.append(each.name)
        return real(each, **how)

    monkeypatch.setattr(turns, "opened", opened_too)
    other = variant(MODEL, "no optimisation", "graph_optimization_level=disable")
    pairs = round_of(variant(), other, pairs=2, ms=1, warmup_ms=1, first=first)
    assert started == (["no optimisation", "the original"] if first else ["the original", "no optimisation"])
    assert len(pairs) == 2
    assert all(len(side) >= 1 for pair in pairs for side in pair)


# --- what can go wrong ----------------------------------------------------------------------


@pytest.mark.process
def test_a_side_that_is_killed_is_said_to_be() -> None:
    with opened(variant(), warmup_ms=0) as side:
        threading.Timer(0.2, os.kill, (side.pid, signal.SIGKILL)).start()
        with pytest.raises(CaptureError, match="the original died") as error:
            side.turn(600_000)
        assert "SIGKILL" in error.value.why
        with pytest.raises(CaptureError, match="the original died"):
            side.turn(1)


@pytest.mark.nightly
def test_a_side_that_hangs_is_given_up_and_ended() -> None:
    with opened(variant(), warmup_ms=0) as side:
        os.kill(side.pid, signal.SIGSTOP)
        with pytest.raises(CaptureError, match="the original hangs") as error:
            side.turn(1, deadline_s=0.2)
        assert "0.2 s" in error.value.why
    assert not alive(side.pid)


def in_place_of_the_worker(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    script = folder / "python"
    script.write_text(f"#!{sys.executable}\nimport os, signal, sys, time\n{body}\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("body", "what", "why"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "died", "SIGSEGV"),
        ("sys.exit(7)", "died", "exit code 7 without a word"),
        ("raise ZeroDivisionError('a bug of ours')", "died", "ZeroDivisionError: a bug of ours"),
        ("print('loading', file=sys.stderr, flush=True); time.sleep(600)", "hangs", "to be ready: loading"),
    ],
)
def test_a_side_that_is_never_ready_is_an_error(
    body: str, what: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_place_of_the_worker(tmp_path, monkeypatch, body)
    with (
        pytest.raises(CaptureError, match=f"the original {what}") as error,
        opened(variant(), deadline_s=3.0 if what == "hangs" else 60.0),
    ):
        pytest.fail("it is not ready")
    assert why in error.value.why
    assert error.value.fix


def save(path: Path, op_type: str, domain: str = "") -> Path:
    graph = helper.make_graph(
        [helper.make_node(op_type, ["x"], ["y"], "node", domain=domain)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
    )
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    return path


def held(path: Path, shape: tuple[int, ...]) -> Variant:
    inputs = (InputTensor(name="x", dtype="fp32", shape=shape),)
    return Variant(name="a variant", inputs=inputs, session=SessionRequest(model=str(path), threads=1))


@pytest.mark.process
def test_what_onnx_runtime_has_against_a_variant_comes_back_with_its_exit_code(tmp_path: Path) -> None:
    with (
        pytest.raises(TrtprofError, match="acme:FlashThing") as error,
        opened(held(save(tmp_path / "m.onnx", "FlashThing", "acme"), (4,))),
    ):
        pass
    assert error.value.exit_code == 3
    with (
        pytest.raises(CaptureError, match="does not run with these inputs"),
        opened(held(save(tmp_path / "n.onnx", "Relu"), (5,))),
    ):
        pass


@pytest.mark.nightly
def test_ctrl_c_ends_all_sides() -> None:
    pids: list[int] = []

    def interrupted() -> None:
        with opened(variant(), warmup_ms=0) as a, opened(variant(), warmup_ms=0) as b:
            pids.extend((a.pid, b.pid))
            # The terminal sends it to the parent alone: the sides are in sessions of their own.
            assert os.getsid(a.pid) == a.pid != os.getsid(0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [alive(pid) for pid in pids] == [False, False]


@pytest.mark.nightly
def test_a_variant_whose_threads_never_sleep_cannot_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ready, turn = turns.Ready(made_ns=1, run_ns=1), Turn(samples=(1,), quiet=False)
    said = [msgspec.json.encode(each).decode() for each in (ready, turn)]
    body = f"for said in {said!r}: sys.stdin.readline(); print(said, flush=True)\nsys.stdin.readline()"
    in_place_of_the_worker(tmp_path, monkeypatch, body)
    with opened(variant()) as side:
        with pytest.raises(CaptureError, match="the original cannot take turns") as error:
            side.turn(10)
        assert "busy while it waits" in error.value.why


@pytest.mark.nightly
def test_what_libraries_print_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "def hook(event, given):\n"
        "    if event == 'import' and given[0] == 'onnxruntime':\n"
        "        os.write(1, b'a library says hello\\n')\n"
        "sys.addaudithook(hook)\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    with opened(variant(), warmup_ms=0) as side:
        assert len(side.turn(1)) >= 1
        assert "hello" in side._log.read_text()


# --- the worker, in this process ------------------------------------------------------------


def test_a_worker_answers_each_turn_with_its_samples() -> None:
    request = msgspec.json.encode(TurnsRequest(variant=variant(), warmup_ms=1))
    ready, first, second = worker.take_turns(iter([request, b"0.0", b"5.0"]))
    assert isinstance(ready, turns.Ready)
    assert isinstance(first, Turn)
    assert isinstance(second, Turn)
    assert ready.run_ns < ready.made_ns
    assert len(first.samples) == 1
    assert min(second.samples) > 0


def test_busy_threads_are_no_sleep() -> None:
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            pass

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        assert not worker.asleep(0.1)
    finally:
        stop.set()
        thread.join()
    assert worker.asleep(30.0)


def test_time_goes_by_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10**9, 10**6))
    monkeypatch.setattr(time, "perf_counter_ns", lambda: next(clock))
    assert worker.run_for(lambda: 7, 10) == [7] * 10
