"""Sweeps of an op and predictions of sample models, for the tests of documents."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.fakes.support import ROOT, SAMPLES, fixed_ceilings, one_unit
from trtprof.analysis.plan import price_plan
from trtprof.base.records import EngineFacts, OpSweep, OpSweepDevice, Prediction
from trtprof.engine.inspector import read_layer_info
from trtprof.flows.op_sweep import parse_options, sweep_op
from trtprof.flows.predict.groups import Settings, predict_source
from trtprof.flows.predict.layers import predict_plan
from trtprof.hardware import gpus
from trtprof.source.load import load_model, source_of

ROOF = one_unit({"fp32": 30e12, "fp16": 60e12}, dram=750e9, cache=3e12)
CEILINGS = msgspec.structs.replace(
    fixed_ceilings(), best=ROOF, attainable=ROOF, cache_bytes=5 << 20, launch_ns=1500.0, source="fixed by a test"
)
FAST = OpSweepDevice(slug="fast", name="Fast GPU", ceilings=CEILINGS)
SLOW = OpSweepDevice(slug="slow", name="Slow CPU", kind="cpu", ceilings=fixed_ceilings())


def swept(name: str, *on: OpSweepDevice, cold: bool = True, **options: Any) -> OpSweep:
    asked = {option.rstrip("_"): str(value) for option, value in options.items()}
    return sweep_op(name, parse_options(name, asked), on, cold=cold)


SWEEPS = {
    "example": swept("conv", FAST, kernel="1,3,5,7"),
    "two devices": swept("fc", FAST, SLOW, batch="1..1024:x4", dtype="fp32,fp16"),
    "no device": swept("attention", seq="16..1024:x2"),
    "one point": swept("conv", FAST),
    "one point, no device": swept("gemv"),
    "words": swept("elementwise", FAST, op="Add,Exp,Gelu", elements="1024,1048576"),
    "many lines": swept("conv", FAST, cin="8..64:8", cout="8..96:8", kernel="1,3"),
    "skips": swept("conv", FAST, cin="6..16", groups="2,3", cout=12),
    "warm on a CPU": swept("softmax", SLOW, rows="1..4096:x4", cold=False),
    "many points": swept("fc", FAST, batch="1..300"),
    "one value left": swept("conv", FAST, pad="valid", hw=4, kernel="3,9"),
}


def predicted(name: str, *slugs: str, how: Settings | None = None, **shapes: tuple[int, ...]) -> Prediction:
    source = source_of(load_model(SAMPLES / f"{name}.onnx"), shapes, feed=False)
    return predict_source(source, [gpus.find(slug) for slug in slugs], how or Settings())


FACTS = EngineFacts(
    backend="tensorrt-rtx",
    versions={"tensorrt-rtx": "1.2.3"},
    device="no GPU",
    precision="fp32, as in the file",
    network_layers=80,
)


def built(name: str, *slugs: str) -> Prediction:
    """Of the plan in a log of a real build."""
    source = source_of(load_model(SAMPLES / f"{name}.onnx"), {}, feed=False)
    log = ROOT / "tests/engine" / "data" / f"rtx_{name}.log"
    priced = price_plan(read_layer_info(log), source, FACTS)
    return predict_plan(priced, source, [gpus.find(slug) for slug in slugs], Settings(level="layers"))
