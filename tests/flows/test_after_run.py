"""What is tried after a run on the CPU, and what is kept of it. Times are made up: no test depends on the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnxruntime as ort
import pytest

from tests.fakes.in_process import quick
from tests.fakes.report_factory import make_run
from tests.fakes.trying import model_of, row
from trtprof.base import run_folder
from trtprof.base.errors import CaptureError
from trtprof.base.records import Finding, Tried
from trtprof.base.run_folder import RunFolder
from trtprof.capture.turns import Pair, Samples, Variant
from trtprof.capture.workers.inference import make_inputs
from trtprof.flows import after_run
from trtprof.flows.after_run import candidates_of, told, try_after
from trtprof.flows.options import RunOptions
from trtprof.flows.run import execute
from trtprof.flows.try_ import measure
from trtprof.flows.try_.options import Candidate
from trtprof.source.request import ModelRequest

GRAPH = """g (float[N,3,8,8] x) => (float[N,3,8,8] y) {
    a = Exp (x) b = PRelu (a, s) c = MatMul (b, b) d = PRelu (c, s) y = Sin (d)
}"""


def finding(code: str, *layers: str) -> Finding:
    return Finding(
        code=code, title="slow", severity="warning", where="all", evidence="e", lost_ns=5, confidence=0.5, try_="t",
        layers=layers,
    )  # fmt: skip


class Finished:
    """A run of two PRelus whose findings are given, and what is measured after it; hears what is said meanwhile."""

    def note(self, text: str) -> None:
        self.said.append(text)

    def stage(self, _: str) -> None: ...

    def detail(self, _: str) -> None: ...

    def opened(self, _: Path) -> None: ...

    def __init__(
        self, folder: Path, patch: pytest.MonkeyPatch, graph: str = GRAPH, shape: tuple[int, ...] = (2, 3, 8, 8)
    ) -> None:
        quick(patch)
        slope = np.random.default_rng(0).normal(size=(3, 1, 1)).astype(np.float32)
        model = ModelRequest.of(model_of(graph, folder, s=slope), batch=2)
        self.options = RunOptions(
            model=model, backend="ort-cpu", threads=2, iterations=1, warmup_ms=0, duration_s=0, profile_iterations=1,
            output=str(folder / "run"),
        )  # fmt: skip
        self.folder: RunFolder = execute(self.options)
        self.compared: list[str] = []
        self.said: list[str] = []
        self._patch, self._shape = patch, shape

    def tried(
        self, *findings: Finding, usual_ns: int = 10**6, duration_s: float | None = None, **gains: float | Exception
    ) -> Tried | None:
        """`gains`: what turns say of the layer ``alone`` and of the ``whole`` model."""

        def rounds(before: Variant, after: Variant, **_: Any) -> list[Pair]:
            assert before.session is not None
            assert after.session is not None
            which = "alone" if "alone" in Path(before.session.model).name else "whole"
            self.compared.append(which)
            results = [
                ort.InferenceSession(side.session.model).run(None, make_inputs(side.inputs, 0))[0]
                for side in (before, after)
                if side.session is not None
            ]
            assert results[0].shape == self._shape
            np.testing.assert_allclose(results[0], results[1])
            gain = gains[which]
            if isinstance(gain, Exception):
                raise gain
            noise = np.random.default_rng(0)

            def one(by: float) -> Samples:
                return noise.normal(1e6 / by, 1e3 / by, 30).astype(np.int64)

            return [Pair(one(1), one(gain)) for _ in range(4)]

        self._patch.setattr(measure, "round_of", rounds)
        self.compared.clear()
        self.said.clear()
        run = msgspec.structs.replace(self.folder.report(), findings=findings)
        latency = msgspec.structs.replace(run.latency, median_ns=usual_ns)
        self.folder.write(run_folder.REPORT, msgspec.structs.replace(run, latency=latency))
        return try_after(msgspec.structs.replace(self.options, duration_s=duration_s), self.folder, self)


def test_a_layer_is_timed_alone_with_its_shapes_and_then_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished = Finished(tmp_path, monkeypatch)
    slow = finding("RL101", "PRelu_1", "PRelu_3")
    tried = finished.tried(slow, alone=4.0, whole=1.5)
    assert tried is not None
    assert finished.compared == ["alone", "whole", "whole"]
    one = row(tried, "prelu-spelled")
    assert (one.verdict, one.kind, one.nodes) == ("helps", "rewrite", ("PRelu_1", "PRelu_3"))
    (line,) = told(tried.rungs)
    assert line.startswith("prelu-spelled: measured 4x (")
    assert " on PRelu PRelu_" in line
    assert " alone, 1.5x (" in line
    assert finished.folder.read(run_folder.TRIED, Tried) == tried
    # What does not help the layer is not tried on the model, and not printed as advice.
    tried = finished.tried(slow, alone=1.0)
    assert tried is not None
    assert finished.compared == ["alone"]
    assert row(tried, "prelu-spelled").verdict == "no difference"
    assert told(tried.rungs)[0].startswith("tried, does not clearly help: prelu-spelled, 1x")
    # It helps the layer, and nobody would notice.
    tried = finished.tried(slow, alone=4.0, whole=1.0)
    assert tried is not None
    assert finished.compared == ["alone", "whole", "whole"]
    assert told(tried.rungs)[0].startswith("tried, does not clearly help: prelu-spelled, 4x")
    # Sixteen inferences of a second would take longer than there is, and so would more turns than ``--duration`` has.
    for usual_ns, duration_s in ((10**9, None), (10**6, 1.0)):
        tried = finished.tried(slow, usual_ns=usual_ns, duration_s=duration_s, alone=4.0)
        assert tried is not None
        assert finished.compared == ["alone"]
        assert told(tried.rungs)[0].endswith(" alone; there was no time for the model")


def test_a_layer_whose_shape_follows_from_data_is_timed_with_the_shape_that_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = """g (float[N,3,4] x) => (float[a,b,c] y) <int64[1] k = {1}> {
        n = NonZero (x) m = Cast <to = 1> (n) z = Unsqueeze (m, k) y = PRelu (z, s)
    }"""
    finished = Finished(tmp_path, monkeypatch, graph, (3, 1, 24))
    finished.tried(finding("RL101", "PRelu_3"), alone=1.0)
    assert finished.compared == ["alone"]


def test_an_option_is_timed_on_the_model_and_what_fails_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished = Finished(tmp_path, monkeypatch)
    tried = finished.tried(finding("HO501"), whole=2.0)
    assert tried is not None
    assert finished.compared == ["whole"] * 4
    assert row(tried, "no-spinning").options == {"session.intra_op.allow_spinning": "0"}
    assert told(tried.rungs)[0].startswith("no-spinning (session.intra_op.allow_spinning=0): measured 2x (")
    assert finished.tried(finding("HO501"), whole=CaptureError("the candidate died", why="signal 11")) is None
    assert finished.said == ["no-spinning: the candidate died: signal 11", "threads-1: the candidate died: signal 11"]
    assert finished.tried(finding("TR903"), finding("AL802", "PRelu_1")) is None


def test_candidates_are_those_that_findings_name() -> None:
    options = (
        Candidate("threads-1", "one thread", threads=1, answers=("RL102", "HO501")),
        Candidate("threads-4", "four", threads=4, answers=("RL102", "HO501")),
        Candidate("no-spinning", "sleep", ("a=0",), answers=("HO501", "LY201")),
        Candidate("parallel", "side by side", ("b=1",), answers=("HO501",), idle="one chain"),
    )

    def names(*codes: str) -> list[str]:
        run = make_run(findings=tuple(map(finding, codes)))
        return [rung.name for rung, _ in candidates_of(run, options, 2) if rung.settings or rung.threads]

    assert names("HO501") == ["no-spinning", "threads-1", "threads-4"]
    assert names("RL102") == ["threads-4"], "fewer threads are no answer to a busy unit"
    assert names("RL102", "HO501") == ["threads-4", "no-spinning", "threads-1"]
    assert names("TR903", "LY201") == []
    run = make_run(findings=(finding("RL101"),))
    assert "prelu-spelled" in [rung.name for rung, _ in candidates_of(run, (), 2)]
    run = make_run(findings=(finding("HO501"), finding("SK803")))
    assert [where.code for _, where in candidates_of(run, options, 2)][::-1][:3] == ["HO501"] * 3


@pytest.mark.nightly
def test_a_real_trial_measures_in_processes_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finished = Finished(tmp_path, monkeypatch)
    run = msgspec.structs.replace(finished.folder.report(), findings=(finding("RL101", "PRelu_1"),))
    finished.folder.write(run_folder.REPORT, run)
    monkeypatch.setattr(after_run, "MOST_S", 120.0)
    tried = try_after(msgspec.structs.replace(finished.options, duration_s=3.0), finished.folder)
    assert tried is not None
    assert " on PRelu PRelu_1 alone" in row(tried, "prelu-spelled").reason
