"""What `trtprof inspect` prints of the plan of an engine."""

from __future__ import annotations

import msgspec
import pytest

from tests.fakes.rendering import render_text
from tests.fakes.support import ROOT, SAMPLES
from trtprof.analysis.plan import price_plan
from trtprof.base.records import Inspection
from trtprof.engine.inspector import read_layer_info
from trtprof.flows.inspect import inspect
from trtprof.source.load import load_model, source_of
from trtprof.source.request import ModelRequest

LOG = ROOT / "tests/engine" / "data" / "rtx_resnet_tiny.log"


@pytest.fixture(scope="module")
def plain() -> Inspection:
    """Without a plan, whatever is installed here."""
    found = inspect(ModelRequest.of(SAMPLES / "resnet_tiny.onnx"))
    return msgspec.structs.replace(found, plan=None, notes=())


@pytest.fixture(scope="module")
def planned(plain: Inspection) -> Inspection:
    source = source_of(load_model(SAMPLES / "resnet_tiny.onnx"), {}, feed=False)
    return msgspec.structs.replace(plain, plan=price_plan(read_layer_info(LOG), source).document)


def test_the_plan_follows_the_work_of_the_model(plain: Inspection, planned: Inspection) -> None:
    text = render_text(planned)
    before, title, plan = text.partition("what TensorRT-RTX makes of it")
    assert title
    assert before.strip() == render_text(plain).strip()
    assert planned.plan is not None
    number = len(planned.plan.layers)
    for words in (f"{number} in the engine", "nodes       ", f"8 of {number} layers, largest by bytes",
                  "fusions that did not happen", "by kind"):  # fmt: skip
        assert words in plan
    assert f"{number} layers, in execution order" in render_text(planned, top=number)


def test_why_there_is_no_plan_is_said(plain: Inspection) -> None:
    note = "no plan: TensorRT-RTX is not installed here; python -m pip install 'trtprof[rtx]' gets it for this Python"
    lines = render_text(msgspec.structs.replace(plain, notes=(note,))).splitlines()
    assert " ".join(line.strip() for line in lines[-2:]) == note
    assert "what TensorRT-RTX makes of it" not in "".join(lines)
