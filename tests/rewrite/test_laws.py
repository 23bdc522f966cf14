"""What holds of every rewrite: same outputs, same interface, a valid model, nothing left to do, the rest untouched."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from tests.fakes.rewrite_laws import touched
from tests.fakes.rewrites import RewriteCase, cases_of, feeds_of, outputs_of, rewritten
from trtprof.capture.verify import check_outputs
from trtprof.rewrite import REWRITES

NAMES = REWRITES.keys()
EVERY = [(name, case) for name in NAMES for case in cases_of(name)]


@pytest.mark.parametrize(("name", "case"), EVERY, ids=[f"{name}: {case.name}" for name, case in EVERY])
def test_a_rewrite_keeps_what_a_model_computes(name: str, case: RewriteCase, tmp_path: Path) -> None:
    chosen = REWRITES.get(name)
    assert chosen is not None
    # In the form in which onnx-ir writes: it leaves out fields that are empty.
    model = ir.to_proto(ir.from_proto(case.model()))
    onnx.checker.check_model(model, full_check=True)
    sites, changed = rewritten(chosen, model, tmp_path)
    assert len(sites) == case.fits, sites
    onnx.checker.check_model(changed, full_check=True)
    # The interface is the same, to the byte.
    for one, other in ((model.graph.input, changed.graph.input), (model.graph.output, changed.graph.output)):
        assert [info.SerializeToString() for info in one] == [info.SerializeToString() for info in other]
    # Whatever it did not match is the same, to the byte.
    gone = {node for site in sites for node in site.before}
    assert touched(model, changed, gone) == ""
    with np.errstate(all="ignore"):
        for feeds in feeds_of(model, case):
            expected, found = outputs_of(model, feeds), outputs_of(changed, feeds)
            names = [output.name for output in model.graph.output]
            if chosen.exact:
                for one, other in zip(expected, found, strict=True):
                    np.testing.assert_array_equal(one, other)
            checks = check_outputs(names, found, expected, tf32=False)
            assert all(check.matches for check in checks), checks


@pytest.mark.parametrize(("name", "case"), EVERY, ids=[f"{name}: {case.name}" for name, case in EVERY])
def test_a_rewrite_has_nothing_left_to_do(name: str, case: RewriteCase, tmp_path: Path) -> None:
    chosen = REWRITES.get(name)
    assert chosen is not None
    _, once = rewritten(chosen, case.model(), tmp_path)
    sites, twice = rewritten(chosen, once, tmp_path)
    assert sites == ()
    assert twice.SerializeToString() == once.SerializeToString()


@pytest.mark.parametrize("name", NAMES)
def test_a_rewrite_leaves_alone_what_nobody_asked_for(name: str, tmp_path: Path) -> None:
    chosen = REWRITES.get(name)
    assert chosen is not None
    case = next(case for case in cases_of(name) if case.fits)
    sites, _ = rewritten(chosen, case.model(), tmp_path, only={"no node has this name"})
    assert sites == ()


@pytest.mark.parametrize("name", NAMES)
def test_a_rewrite_is_told_by_its_file(name: str) -> None:
    chosen = REWRITES.get(name)
    assert chosen is not None
    assert chosen.name == name
    module = __import__(chosen.step.__module__, fromlist=["__doc__"])
    assert module.__name__ == f"trtprof.rewrite.{name.replace('-', '_')}"
    for part in ("What:", "When:", "Why:"):
        assert part in (module.__doc__ or ""), part
    fits = [case.fits for case in cases_of(name)]
    assert any(fits)
    assert not all(fits), "a case that it must leave alone is missing"
