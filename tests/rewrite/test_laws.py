"""What holds of every rewrite: same outputs, same interface, a valid model, nothing left to do, the rest untouched."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from tests.fakes.random_graphs import Drawn
from tests.fakes.rewrite_laws import Subject
from tests.fakes.rewrites import cases_of, feeds_of, rewritten
from trtprof.rewrite import REWRITES


@pytest.mark.parametrize("name", REWRITES.keys())
def test_a_rewrite_keeps_the_laws_in_all_its_cases(name: str, tmp_path: Path) -> None:
    chosen = REWRITES.get(name)
    assert chosen is not None
    assert chosen.step.__module__ == f"trtprof.rewrite.{name.replace('-', '_')}"
    cases, failures = cases_of(name), []
    for case in cases:
        # In the form in which onnx-ir writes: it leaves out fields that are empty.
        model = ir.to_proto(ir.from_proto(case.model()))
        with np.errstate(all="ignore"):
            kept = Subject(Drawn(model, tuple(feeds_of(model, case))), tmp_path).kept([name])
        if kept.broken or kept.unstable or kept.places != case.fits:
            failures.append(f"{case.name}: {kept}, and it fits in {case.fits} places")
    assert not failures, "\n".join(failures)
    first = next(case for case in cases if case.fits)
    assert rewritten(chosen, first.model(), tmp_path, only={"no node has this name"})[0] == ()
    assert not all(case.fits for case in cases), "a case that it must leave alone is missing"
