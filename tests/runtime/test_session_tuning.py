"""What a session may be tuned by: how it is written, what it makes of a session, and what is refused."""

from __future__ import annotations

import itertools
from pathlib import Path

import onnxruntime as ort
import pytest

from tests.fakes.support import SAMPLES
from trtprof.base.errors import UsageError
from trtprof.runtime.ort_session import SessionRequest, make_session
from trtprof.runtime.session_tuning import CUDA, KEYS, PREFIXES, SessionTuning

MODEL = str(SAMPLES / "resnet_tiny.onnx")


def test_by_default_a_session_is_what_it_always_was() -> None:
    options = ort.SessionOptions()
    SessionTuning().apply(options)
    usual = ort.SessionOptions()
    for name in ("enable_cpu_mem_arena", "enable_mem_pattern", "inter_op_num_threads"):
        assert getattr(options, name) == getattr(usual, name), name
    assert options.graph_optimization_level == ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    assert options.execution_mode == ort.ExecutionMode.ORT_SEQUENTIAL
    assert SessionTuning().texts == ()
    assert SessionRequest(model="m.onnx").tuning == SessionTuning.of([]) == SessionTuning()


@pytest.mark.parametrize("key", KEYS)
def test_every_key_of_the_table_makes_a_session_that_has_it_set(key: str) -> None:
    values = KEYS[key].values or (("2",) if KEYS[key].number else ("1",))
    for value in values:
        text = f"{key}={value}"
        with_branches = ["execution_mode=parallel"] if key == "inter_op_num_threads" else []
        tuning = SessionTuning.of([text, *with_branches])
        threads = 2 if "affinities" in key else 1
        made = make_session(SessionRequest(model=MODEL, threads=threads, tuning=tuning)).get_session_options()
        if key.startswith(CUDA):
            assert tuning.of_cuda == {key.removeprefix(CUDA): value}
        elif "." in key:
            assert made.get_session_config_entry(key) == value
        else:
            found = getattr(made, key)
            assert value in {str(found), str(int(found)) if isinstance(found, bool) else found.__class__.__name__} or (
                value.upper() in str(found)
            )


def test_what_is_chosen_is_read_back_from_its_texts_whatever_their_order() -> None:
    given = (
        "execution_mode=parallel", "inter_op_num_threads=2", "enable_cpu_mem_arena=0",
        "session.intra_op.allow_spinning=0", "ep.cuda.fpa_intb_gemm=1",
    )  # fmt: skip
    made = {SessionTuning.of(order) for order in itertools.permutations(given)}
    assert len(made) == 1
    (tuning,) = made
    assert set(tuning.texts) == set(given)
    assert SessionTuning.of(tuning.texts) == tuning


def test_the_usual_value_changes_nothing() -> None:
    assert SessionTuning.of(["graph_optimization_level=all", "enable_mem_pattern=1"]).texts == ()


@pytest.mark.parametrize(
    ("values", "what", "help_"),
    [
        (["execution_mode"], "cannot be read", "KEY=VALUE"),
        (["=1"], "cannot be read", "KEY=VALUE"),
        (["execution_mod=parallel"], "execution_mod is not known", "alike: execution_mode"),
        (["spinning=0"], "not known", "session.intra_op.allow_spinning"),
        (["session.intra_op.allow_spining=0"], "not known", "session.intra_op.allow_spinning"),
        (["session.=1"], "not known", "known:"),
        (["execution_mode=both"], "not possible", "sequential or parallel"),
        (["enable_mem_pattern=yes"], "not possible", "0 or 1"),
        (["session.dynamic_block_base=-4"], "not possible", "whole number"),
        (["session.intra_op_thread_affinities="], "not possible", "a text"),
        (["session.some_new_thing="], "no value", "KEY=VALUE"),
        (["enable_mem_pattern=0", "enable_mem_pattern=1"], "twice", "0 and 1"),
        (["inter_op_num_threads=2"], "of no use alone", "execution_mode=parallel"),
        (["intra_op_num_threads=2"], "cannot set", "--threads"),
        (["session.graph_optimization_level=1"], "cannot set", "graph_optimization_level sets it"),
        (["session.optimized_model_filepath=x"], "cannot set", "itself"),
    ],
)
def test_what_cannot_be_is_refused_with_what_could(values: list[str], what: str, help_: str) -> None:
    with pytest.raises(UsageError, match=what) as error:
        SessionTuning.of(values)
    assert help_ in str(error.value)
    assert error.value.fix


@pytest.mark.parametrize("prefix", PREFIXES)
def test_keys_of_other_versions_pass(prefix: str) -> None:
    assert SessionTuning.of([f"{prefix}quite_another_thing=3"]).entries == ((f"{prefix}quite_another_thing", "3"),)


def test_a_level_of_optimisation_makes_another_graph(tmp_path: Path) -> None:
    sizes = {}
    for level in KEYS["graph_optimization_level"].values:
        tuning = SessionTuning.of([f"graph_optimization_level={level}"])
        saved = tmp_path / f"{level}.onnx"
        make_session(SessionRequest(model=MODEL, threads=1, tuning=tuning), save_to=str(saved))
        sizes[level] = saved.stat().st_size
    assert sizes["disable"] != sizes["all"]
