"""Passes of others: the real ones over small models, and ones that fail."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from tests.fakes.rewrites import RewriteCase, random
from tests.fakes.rewrites.layernorm_fused import layer
from trtprof.base.errors import BuildError, MissingError
from trtprof.engine import passes
from trtprof.engine.passes import PASSES, Pass, run_pass
from trtprof.runtime import child

MODEL = RewriteCase(
    "a constant sum, an Identity and a layer normalisation",
    layer(
        "nw = Mul (n, w)\n i = Identity (nw)\n c = Add (b, b)\n y = Add (i, c)", "(float[N,3,8] x) => (float[N,3,8] y)"
    ),
    weights={"w": random(0, 8), "b": random(1, 8)},
)


PLAIN = RewriteCase("a layer normalisation", layer("nw = Mul (n, w)\n y = Add (nw, b)"), weights=MODEL.weights)


def written(folder: Path, case: RewriteCase = MODEL) -> Path:
    path = folder / "model.onnx"
    onnx.save(case.model(), path)
    return path


def outputs_of(path: Path) -> np.ndarray:
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    found: np.ndarray = session.run(None, {"x": random(2, 4, 3, 8)})[0]
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("chosen", PASSES, ids=lambda one: one.name)
def test_a_pass_leaves_fewer_nodes_and_the_same_outputs(chosen: Pass, tmp_path: Path) -> None:
    if chosen.missing():
        pytest.skip(f"{chosen.missing()}: {passes.INSTALL}")
    source, target = written(tmp_path), tmp_path / "changed.onnx"
    as_it_was = source.read_bytes()
    passed = run_pass(chosen, source, target, seconds=120)
    assert passed.changed
    assert sum(passed.after.values()) < sum(passed.before.values())
    assert "Identity" in passed.before
    assert "Identity" not in passed.after or chosen.name == "ort-transformers"
    np.testing.assert_allclose(outputs_of(target), outputs_of(source), rtol=1e-4, atol=1e-5)
    assert source.read_bytes() == as_it_was


@pytest.mark.nightly
def test_the_transformers_of_onnxruntime_fuse_as_the_type_that_leaves_the_fewest_nodes(tmp_path: Path) -> None:
    chosen = next(one for one in PASSES if one.name == "ort-transformers")
    if chosen.missing():
        pytest.skip(f"{chosen.missing()}: {passes.INSTALL}")
    passed = run_pass(chosen, written(tmp_path, PLAIN), tmp_path / "changed.onnx", seconds=120)
    assert passed.after == {"LayerNormalization": 1}
    assert passed.note == "as bert"


def test_a_pass_that_is_not_installed_says_so_and_how_to_get_it(tmp_path: Path) -> None:
    absent = Pass("absent", "a pass that nobody has", ("no_module_of_this_name", "nor.of_this"))
    assert absent.missing() == "no_module_of_this_name and nor.of_this are not installed"
    with pytest.raises(MissingError) as caught:
        run_pass(absent, written(tmp_path), tmp_path / "changed.onnx", seconds=1)
    assert caught.value.fix == "pip install 'trtprof[try]'"


FAILING = {
    "hangs": ("import time; time.sleep(600)", "it took more than 2 s"),
    "crashes": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "it was ended by SIGSEGV"),
    "raises": ("raise ValueError('an op that I do not know')", "ValueError: an op that I do not know"),
    "renames": (
        (
            "import json, onnx, sys; asked = json.load(open(sys.argv[1])); m = onnx.load(asked['source']); "
            "m.graph.output[0].name = 'z'; onnx.save(m, asked['target']); "
            "open(sys.argv[1].replace('request', 'answer'), 'w').write(json.dumps(dict(before={}, after={})))"
        ),
        "it made a model with other inputs or outputs",
    ),
}


@pytest.mark.nightly
def test_a_pass_that_fails_is_one_error_that_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    chosen = Pass("stub", "a stand-in", ())
    for way, (code, why) in FAILING.items():
        monkeypatch.setattr(child, "command", lambda _module, path, code=code: [sys.executable, "-c", code, path])
        with subtests.test(way):
            with pytest.raises(BuildError) as caught:
                run_pass(chosen, written(tmp_path), tmp_path / "changed.onnx", seconds=2 if way == "hangs" else 120)
            assert caught.value.what == "the pass stub left no model"
            assert caught.value.why == why
