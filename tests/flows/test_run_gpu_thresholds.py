"""A run on a GPU keeps the thresholds that it was judged by, as one on a CPU does (see ``test_config``)."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from profiler.base import run_folder
from profiler.base.run_folder import Request, RunFolder
from profiler.diagnose import THRESHOLDS
from profiler.diagnose.config import KEPT
from profiler.diagnose.explain import explain
from profiler.flows import run as pipeline
from tests.flows.test_run_gpu import engine, options, seeming_gpu

__all__ = ["engine", "seeming_gpu"]


@pytest.mark.parametrize("backend", ["ort-cuda", "tensorrt-rtx"])
@pytest.mark.usefixtures("engine")
def test_a_run_is_judged_by_what_it_kept(backend: str, tmp_path: Path) -> None:
    strict = THRESHOLDS._replace(min_share=0.0, efficiency=0.9)
    asked = msgspec.structs.replace(options(tmp_path / "run", backend), thresholds=strict)
    folder = RunFolder(pipeline.execute(asked).path.rename(tmp_path / "elsewhere"))
    assert folder.read(run_folder.REQUEST, Request).options[KEPT] == '{"efficiency":0.9,"min-share":0.0}'
    run = folder.report()
    assert "the threshold efficiency is 0.9, by default 0.5" in run.assumptions
    assert pipeline.render(pipeline.analysed(folder), "json").encode() == folder.file(run_folder.REPORT).read_bytes()

    case = pipeline.case_of(folder)
    assert case.thresholds == strict
    assert case.gpu
    for finding in run.findings:
        for name in finding.layers:
            assert finding in explain(case, finding.code, name).findings
