"""Variants held against their original: what is the same passes, what is wrong with some inputs alone does not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.fakes.in_process import call_telling
from tests.fakes.support import SAMPLES, refused
from trtprof.base.errors import CaptureError
from trtprof.base.records import InputTensor
from trtprof.capture import launch, same_outputs
from trtprof.capture.same_outputs import KindCheck, OutputsRequest, check_variant, inputs_of, keep_original, kinds_of
from trtprof.capture.turns import Variant
from trtprof.capture.verify import Reference, check_outputs, differs_by
from trtprof.capture.workers import outputs as worker
from trtprof.runtime import child
from trtprof.runtime.ort_session import SessionRequest
from trtprof.source.load import load_model, source_of

X = InputTensor(name="x", dtype="fp32", shape=(3, 4), low=0.0, high=1.0)
KINDS = ["random, seed 0", "random, seed 1", "zeros", "extremes"]


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are called, not started."""
    monkeypatch.setattr(child, "run_telling", call_telling)


def model(folder: Path, name: str, *nodes: onnx.NodeProto, out: int = TensorProto.FLOAT, **constants: Any) -> Variant:
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])],
        [helper.make_tensor_value_info("y", out, None)],
        [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()],
    )
    path = folder / f"{name}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), str(path))
    return Variant(name=name, inputs=(X,), session=SessionRequest(model=str(path), threads=1))


def node(op: str, inputs: str, output: str = "y", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), [output], output, **attributes)


def checked(original: Variant, variant: Variant, folder: Path) -> dict[str, KindCheck]:
    first, second = folder / "original", folder / "variant"
    first.mkdir()
    second.mkdir()
    return {one.kind: one for one in check_variant(keep_original(original, first), variant, second)}


# --- kinds of inputs ------------------------------------------------------------------------


def test_extremes_saturate_and_integers_keep_their_range(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.asarray([[2.0, 7.0, np.nan]], np.float32))
    np.save(tmp_path / "i.npy", np.asarray([5, 6]))
    inputs = (
        InputTensor(name="x", dtype="fp32", shape=(500,), low=-1.0, high=2.0),
        InputTensor(name="half", dtype="fp16", shape=(500,), low=-1000.0, high=1000.0),
        InputTensor(name="ids", dtype="int64", shape=(500,), kind="integers", low=3, high=9),
        InputTensor(name="mask", dtype="bool", shape=(50,), kind="integers", low=0, high=1),
        InputTensor(name="f", dtype="fp32", shape=(1, 3), kind="file", file=str(tmp_path / "f.npy")),
        InputTensor(name="i", dtype="int64", shape=(2,), kind="file", file=str(tmp_path / "i.npy")),
    )
    made = {kind: inputs_of(kind, inputs, seed) for kind, seed in kinds_of(inputs, 0).items()}
    assert list(made) == ["given", *KINDS]
    for kind, feeds in made.items():
        assert {name: (array.dtype, array.shape) for name, array in feeds.items()} == {
            name: (array.dtype, array.shape) for name, array in made["given"].items()
        }, kind
        assert feeds["i"].tolist() == [5, 6]
        assert 3 <= feeds["ids"].min() <= feeds["ids"].max() <= 9
        assert np.isfinite(feeds["half"]).all()
    assert set(np.unique(made["extremes"]["x"])) == {-100.0, -1.0, 2.0, 200.0}
    assert made["extremes"]["half"].max() == np.finfo(np.float16).max
    assert set(np.unique(made["extremes"]["ids"])) == {3, 9}
    assert not made["zeros"]["x"].any()
    assert set(np.unique(made["zeros"]["ids"])) == {3}, "0 is no index here"
    assert np.isnan(made["given"]["f"][0, 2])
    for kind in KINDS[:2]:
        assert 2 <= made[kind]["f"].min() <= made[kind]["f"].max() < 7
    assert not np.array_equal(made[KINDS[0]]["x"], made[KINDS[1]]["x"])


# --- variants of models ---------------------------------------------------------------------


@pytest.mark.usefixtures("in_process")
def test_another_spelling_of_the_same_passes_with_all_kinds(tmp_path: Path) -> None:
    original = model(tmp_path, "square", node("Pow", "x two"), two=np.float32(2))
    found = checked(original, model(tmp_path, "times", node("Mul", "x x")), tmp_path)
    assert list(found) == KINDS
    for one in found.values():
        assert one.matches
        assert one.worst is not None
        assert one.worst.name == "y"


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("wrong", "kinds"),
    [
        # Numerically naive: overflows where the original does not.
        ([node("Exp", "x", "e"), node("ReduceSum", "e axis", "s"), node("Div", "e s")], {"extremes"}),
        # Divides by what may be nothing.
        ([node("Softmax", "x", "p"), node("Div", "x x", "one"), node("Mul", "p one")], {"zeros", "extremes"}),
        ([node("Softmax", "x", "p"), node("Mul", "p off")], set(KINDS)),
    ],
)
def test_what_is_wrong_with_some_inputs_alone_is_wrong(
    wrong: list[onnx.NodeProto], kinds: set[str], tmp_path: Path
) -> None:
    original = model(tmp_path, "softmax", node("Softmax", "x"))
    variant = model(tmp_path, "variant", *wrong, axis=np.asarray([1]), off=np.float32(1.01))
    found = checked(original, variant, tmp_path)
    assert {kind for kind, one in found.items() if not one.matches} == kinds
    for kind in kinds:
        worst = found[kind].worst
        assert worst is not None
        assert worst.reason
        assert "CPU provider" not in worst.reason, "that is not what it is held against"


@pytest.mark.usefixtures("in_process")
def test_infinite_values_and_nan_alike_are_the_same(tmp_path: Path) -> None:
    original = model(tmp_path, "log", node("Log", "x", "l"), node("Mul", "l zero"), zero=np.float32(0))
    found = checked(original, model(tmp_path, "other", node("Log", "x", "m"), node("Mul", "zero m"),
                                    zero=np.float32(0)), tmp_path)  # fmt: skip
    assert all(one.matches for one in found.values())


@pytest.mark.usefixtures("in_process")
def test_a_variant_that_does_not_run_or_lacks_an_output_is_wrong(tmp_path: Path) -> None:
    original = model(tmp_path, "relu", node("Relu", "x"))
    fails = model(tmp_path, "fails", node("Reshape", "x shape"), shape=np.asarray([5, 5]))
    found = checked(original, fails, tmp_path)
    assert not any(one.matches for one in found.values())
    assert "reshape" in found["zeros"].note.lower()
    renamed = onnx.load(str(tmp_path / "relu.onnx"))
    renamed.graph.node[0].output[0] = renamed.graph.output[0].name = "z"
    onnx.save(renamed, str(tmp_path / "renamed.onnx"))
    session = SessionRequest(model=str(tmp_path / "renamed.onnx"), threads=1)
    folder = tmp_path / "again"
    folder.mkdir()
    found = checked(original, Variant(name="renamed", inputs=(), session=session), folder)
    assert found["zeros"].note == "it has no output 'y'"
    assert not found["zeros"].matches


@pytest.mark.usefixtures("in_process")
def test_fp16_is_not_asked_for_what_it_cannot_hold(tmp_path: Path) -> None:
    """Random inputs and zeros are its own range; extremes are a hundred times that."""
    one, other = (model(tmp_path, name, node("Mul", "x x")) for name in ("one", "other"))
    kept = keep_original(one, tmp_path)
    for precision, left_out in (("", False), ("bf16", False), ("fp16", True), ("fp16+bf16", True)):
        found = {check.kind: check for check in check_variant(kept, other, tmp_path, precision=precision)}
        assert ("65504" in found["extremes"].note) == left_out
        assert found["zeros"].worst is not None


@pytest.mark.nightly
def test_what_the_original_does_not_run_with_is_left_out_and_said(tmp_path: Path) -> None:
    """An index that is out of range with extremes."""
    nodes = [node("ReduceMax", "x", "top", keepdims=0), node("Cast", "top", "i", to=7), node("Gather", "ten i")]
    variant = model(tmp_path, "gather", *nodes, ten=np.arange(10, dtype=np.float32))
    found = checked(variant, variant, tmp_path)
    assert [one.matches for one in found.values()] == [True] * 4
    assert found["extremes"].worst is None
    assert "the original itself does not run" in found["extremes"].note
    assert not found["zeros"].note


@pytest.mark.usefixtures("in_process")
def test_an_original_that_runs_with_nothing_or_draws_lots_cannot_be_held_against(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="does not run with these inputs"):
        keep_original(model(tmp_path, "no", node("Reshape", "x shape"), shape=np.asarray([5, 5])), tmp_path)
    lots = model(tmp_path, "lots", node("RandomUniformLike", "x", "r"), node("Add", "x r"))
    with pytest.raises(CaptureError, match="no outputs can be held against") as error:
        keep_original(lots, tmp_path)
    assert "a second time" in refused(error.value)


@pytest.mark.parametrize("sample", ["resnet_tiny", "lstm"])
@pytest.mark.usefixtures("in_process")
def test_samples_are_the_same_as_themselves(sample: str, tmp_path: Path) -> None:
    path = SAMPLES / f"{sample}.onnx"
    inputs = source_of(load_model(path), {}).model.inputs
    one = Variant(name="one", inputs=inputs, session=SessionRequest(model=str(path), threads=1))
    found = checked(one, one, tmp_path)
    assert all(each.matches for each in found.values())
    assert all(each.worst is not None for kind, each in found.items() if kind != "extremes")


# --- tolerance ------------------------------------------------------------------------------


def held(found: Any, expected: Any, own: Any) -> Any:
    (check,) = check_outputs(["y"], [found], Reference([expected], [own], "the original"), tf32=False)
    return check


@given(by=st.floats(1.5, 1e3), sign=st.sampled_from([-1, 1]))
def test_twice_what_the_original_differs_from_itself_is_allowed_and_said(by: float, sign: int) -> None:
    expected = np.asarray([1.0, 0.5])
    limit = 2e-5  # 1e-5 of the largest, and 1e-5 of the element itself
    own = expected + np.asarray([sign * by * limit, 0.0])
    fits = held(expected + np.asarray([1.9 * by * limit, 0.0]), expected, own)
    assert fits.matches
    assert "rounded differently" in fits.reason
    assert fits.tolerance == pytest.approx(0.95, rel=1e-3)
    beyond = held(expected + np.asarray([2.1 * by * limit, 0.0]), expected, own)
    assert not beyond.matches
    assert beyond.tolerance == pytest.approx(1.05, rel=1e-3)
    assert held(expected, expected, own).reason == ""


def test_what_is_no_number_in_one_rendering_alone_is_not_looked_at() -> None:
    expected, own = np.asarray([1.0, np.inf, np.nan, np.nan]), np.asarray([1.0, 3e38, np.nan, 2.0])
    assert held(np.asarray([1.0, 7.0, np.nan, 0.0]), expected, own).matches
    assert not held(np.asarray([1.0, 7.0, 0.0, 0.0]), expected, own).matches
    assert not held(np.asarray([np.nan, 7.0, np.nan, 0.0]), expected, own).matches
    assert not held(np.asarray([1.0, 7.0, np.nan, np.nan]), expected, expected).matches


def test_integers_may_flip_as_often_as_they_do_in_the_original() -> None:
    expected, own = np.zeros(10, np.int64), np.asarray([1] + [0] * 9)
    for flips, matches in ((0, True), (2, True), (3, False)):
        check = held(np.asarray([1] * flips + [0] * (10 - flips)), expected, own)
        assert check.matches == matches
    assert not held(np.asarray([1] + [0] * 9), expected, expected).matches


@pytest.mark.parametrize(
    ("one", "other", "by"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.0], [1.0, 1.5], 1 / 3),
        ([np.nan, 2.0], [np.nan, 2.0], 0.0),
        ([np.nan, 2.0], [1.0, 2.0], 0.5),
        ([1, 2, 3, 4], [1, 2, 3, 5], 0.25),
        ([1.0], [1.0, 2.0], 1.0),
        ([], [], 0.0),
    ],
)
def test_how_much_renderings_differ(one: list[float], other: list[float], by: float) -> None:
    assert differs_by("y", np.asarray(one), np.asarray(other)) == pytest.approx(by)


# --- children -------------------------------------------------------------------------------


@pytest.mark.nightly
def test_a_variant_is_checked_in_a_child_and_one_that_hangs_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = model(tmp_path, "relu", node("Relu", "x"))
    kept = keep_original(original, tmp_path)
    assert all(one.matches for one in check_variant(kept, original, tmp_path))
    (tmp_path / "hang").mkdir()
    (tmp_path / "hang" / "onnxruntime.py").write_text("import time\ntime.sleep(600)\n")
    path = os.pathsep.join([str(tmp_path / "hang"), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setattr(child, "environment", lambda: {**os.environ, "PYTHONPATH": path})
    with pytest.raises(CaptureError, match="hangs") as error:
        check_variant(kept, original, tmp_path, deadline_s=3.0)
    assert "3 s" in error.value.why


@pytest.mark.nightly
def test_results_of_an_earlier_variant_are_not_taken_for_those_of_a_later_one(tmp_path: Path) -> None:
    original = model(tmp_path, "relu", node("Relu", "x"))
    kept = keep_original(original, tmp_path)
    assert check_variant(kept, original, tmp_path)
    gone = msgspec.structs.replace(original, session=SessionRequest(model=str(tmp_path / "gone.onnx")))
    with pytest.raises(Exception, match="gone"):
        check_variant(kept, gone, tmp_path)


@pytest.mark.nightly
def test_the_worker_says_what_it_was_asked(tmp_path: Path) -> None:
    request = OutputsRequest(
        variant=model(tmp_path, "relu", node("Relu", "x")), folder=str(tmp_path), scratch=str(tmp_path),
        kept=str(tmp_path / same_outputs.KEPT_FILE), original=True,
    )  # fmt: skip
    launch.run_worker(request, same_outputs.WORKER, type(None))
    checks = worker.check(msgspec.structs.replace(request, original=False))
    assert [one.kind for one in checks] == KINDS
