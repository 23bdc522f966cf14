"""``trtprof build``, and engines in ``predict`` and ``inspect``, as a person uses them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import onnx
import pytest

from tests.fakes import command_line
from tests.fakes.support import ROOT, SAMPLES, hide_modules
from trtprof.base.errors import BuildError
from trtprof.engine.tensorrt import BuildOptions, BuiltEngine, Precision, ShapeRange
from trtprof.flows.build import build
from trtprof.flows.predict import predict
from trtprof.flows.predict.groups import Settings
from trtprof.hardware import gpus
from trtprof.source.request import ModelRequest

trtprof = command_line.trtprof

GEMV, RESNET, QDQ = (str(SAMPLES / f"{name}.onnx") for name in ("gemv", "resnet_tiny", "qdq_cnn"))
LOGS = ROOT / "tests" / "engine" / "data"
RTX_4090 = gpus.find("rtx-4090")


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """No TensorRT of any kind is installed."""
    hide_modules(monkeypatch, "tensorrt", "tensorrt_rtx")


Builder = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Builder:
    """TensorRT-RTX in name: what it prints is from a log, or it refuses."""

    def install(log: str = "rtx_gemv.log", *, refusal: str = "", layer_info: str = "", **facts: Any) -> Any:
        calls: list[dict[str, Any]] = []

        def build(model: Path, options: BuildOptions, progress: Any, **named: Any) -> BuiltEngine:
            proto = onnx.load(model, load_external_data=False)
            calls.append(
                {"model": model, "options": options, "nodes": [node.name for node in proto.graph.node], **named}
            )
            progress("building")
            if refusal:
                raise BuildError("TensorRT-RTX refuses it", why=refusal, fix="another model")
            engine = tmp_path / "kept.engine"
            engine.write_bytes(b"vtrt an engine")
            text = (LOGS / log).read_text() if log else ""
            plan_text = text[text.find("Layers:\n") :].partition("\nEngine Metadata:")[0]
            return msgspec.structs.replace(
                BuiltEngine(
                    plan=engine, plan_text=plan_text, layer_info=layer_info, backend=options.backend,
                    versions={options.backend: "1.7.1.116"}, precision=Precision(asked="fp32", way="as in the file"),
                    build_ns=40_000_000, network_layers=1, warnings=(),
                ),
                **facts,
            )  # fmt: skip

        monkeypatch.setattr("trtprof.engine.tensorrt.build", build)
        for place in ("engine.backends", "engine.tensorrt"):
            monkeypatch.setattr(
                f"trtprof.{place}.installed_version", lambda product: "1.7.1" if "rtx" in product.module else None
            )
        monkeypatch.setattr("trtprof.hardware.nvml.gpus", lambda: ((), "no driver is installed here"))
        monkeypatch.setattr("trtprof.engine.backends._driver", lambda: None)
        return calls

    return install


# --- the command that does the same -----------------------------------------------------------------

TAIL = "--profilingVerbosity=detailed --verbose --skipInference --saveEngine=resnet_tiny.engine\n"


@pytest.mark.usefixtures("nothing")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--batch", "4"], "trtexec --onnx={model} --shapes=image:4x3x64x64 "),
        (["--shapes=im*:4x3x64x64", "--noTF32"], "trtexec --onnx={model} --shapes=image:4x3x64x64 --noTF32 "),
        (["--backend=tensorrt-rtx", "--computeCapabilities=8.9,120"],
         "tensorrt_rtx --onnx={model} --shapes=image:1x3x64x64 --computeCapabilities=89,120 "),
        (["--fp16", "--stronglyTyped", "--maxAuxStreams=0", "--builderOptimizationLevel=5"],
         "python -c "),
        (["--fp16", "--bf16", "--workspace=512", "--timingCacheFile=t.cache"],
         ("trtexec --onnx={model} --fp16 --bf16 --shapes=image:1x3x64x64 --memPoolSize=workspace:512M "
          "--timingCacheFile=t.cache ")),
        (["--memPoolSize=workspace:1.5G"],
         "trtexec --onnx={model} --shapes=image:1x3x64x64 --memPoolSize=workspace:1536M "),
        (["--memPoolSize=workspace:64"],
         "trtexec --onnx={model} --shapes=image:1x3x64x64 --memPoolSize=workspace:64M "),
        (["--minShapes=image:1x3x64x64", "--optShapes=image:2x3x64x64", "--maxShapes=image:4x3x64x64"],
         "trtexec --onnx={model} --minShapes=image:1x3x64x64 --optShapes=image:2x3x64x64 --maxShapes=image:4x3x64x64 "),
        (["--min-shapes=image:1x3x64x64", "--max-shapes=image:4x3x64x64"],
         "trtexec --onnx={model} --minShapes=image:1x3x64x64 --optShapes=image:4x3x64x64 --maxShapes=image:4x3x64x64 "),
        (["--optShapes=image:2x3x64x64"],
         "trtexec --onnx={model} --minShapes=image:2x3x64x64 --optShapes=image:2x3x64x64 --maxShapes=image:2x3x64x64 "),
        (["--profile=1", "--minShapes=image:5x3x64x64", "--optShapes=image:6x3x64x64",
          "--profile=0", "--minShapes=i*:1x3x64x64", "--optShapes=i*:3x3x64x64"],
         ("trtexec --onnx={model} --profile=0 --minShapes=image:1x3x64x64 --optShapes=image:3x3x64x64 "
          "--maxShapes=image:3x3x64x64 --profile=1 --minShapes=image:5x3x64x64 --optShapes=image:6x3x64x64 "
          "--maxShapes=image:6x3x64x64 ")),
    ],
)  # fmt: skip
def test_a_dry_run_prints_the_command_and_needs_no_tensorrt(options: list[str], expected: str) -> None:
    done = trtprof("build", RESNET, "--dry-run", *options)
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    assert done.stdout.startswith(expected.format(model=RESNET))
    assert done.stdout.endswith(TAIL)


# --- what is missing ----------------------------------------------------------------------------------


def test_a_file_that_is_there_is_not_replaced(tmp_path: Path, builder: Builder) -> None:
    calls = builder()
    there = tmp_path / "there.engine"
    there.write_bytes(b"precious")
    for option in ("--saveEngine", "--exportLayerInfo"):
        done = trtprof("build", GEMV, option, str(there))
        assert done.exit_code == 2
        assert "will not be overwritten" in done.stderr
    assert there.read_bytes() == b"precious"
    assert calls == []
    assert trtprof("build", GEMV, "--saveEngine", str(there), "--force").exit_code == 0
    assert there.read_bytes() == b"vtrt an engine"


# --- what is built ------------------------------------------------------------------------------------


def test_a_build_prints_the_plan_and_keeps_its_talk_to_stderr(builder: Builder, tmp_path: Path) -> None:
    builder()
    done = trtprof("build", GEMV, "--saveEngine", str(tmp_path / "gemv.engine"))
    assert done.exit_code == 0, done.output
    assert "MatMul" in done.stdout
    assert "backend tensorrt-rtx: TensorRT is not installed" in done.stderr
    assert "tensorrt-rtx 1.7.1.116: 1 layer in 40.0 ms" in done.stderr
    assert f"wrote {tmp_path / 'gemv.engine'}" in done.stderr
    assert "next: trtprof predict" in done.stderr


def test_options_reach_the_builder(builder: Builder, tmp_path: Path) -> None:
    calls = builder("rtx_resnet_tiny.log")
    done = trtprof(
        "build", RESNET, "-q", "--rebuild", "--profile=0", "--minShapes=image:1x3x64x64", "--optShapes=image:2x3x64x64",
        "--maxShapes=image:8x3x64x64", "--computeCapabilities=8.9,current", "--no-tf32", "--maxAuxStreams=1",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    (call,) = calls
    ranges = ShapeRange(min=(1, 3, 64, 64), opt=(2, 3, 64, 64), max=(8, 3, 64, 64))
    assert call["options"] == BuildOptions(
        backend="tensorrt-rtx", profiles=({"image": ranges},), compute_capabilities=("8.9", "current"), tf32=False,
        max_aux_streams=1,
    )  # fmt: skip
    assert call["rebuild"]
    assert call["device"] == "no GPU"


def test_dynamic_inputs_are_bound_and_nodes_have_unique_names(builder: Builder, tmp_path: Path) -> None:
    calls = builder("rtx_resnet_tiny.log")
    model = onnx.load(RESNET)
    for node in model.graph.node[:3]:
        node.name = "same"
    onnx.save(model, tmp_path / "same.onnx")
    found = build(ModelRequest.of(tmp_path / "same.onnx", batch=5), BuildOptions(backend="tensorrt-rtx"))
    (call,) = calls
    assert call["options"].shapes == {"image": (5, 3, 64, 64)}
    assert call["nodes"][:3] == ["same", "same_1", "same_2"]
    assert call["model"] != tmp_path / "same.onnx"
    assert [fate.node for fate in found.priced.document.fates[:3]] == ["same", "same_1", "same_2"]
    build(ModelRequest.of(RESNET), BuildOptions(backend="tensorrt-rtx"))
    assert calls[1]["model"] == Path(RESNET), "its names are unique: no copy is made"
    assert calls[1]["options"].shapes == {"image": (1, 3, 64, 64)}


def test_an_engine_made_elsewhere_needs_a_driver(builder: Builder, tmp_path: Path) -> None:
    builder()
    engine = tmp_path / "other.engine"
    engine.write_bytes(b"vtrt".ljust(16, b"\0") + (32).to_bytes(8, "little") + bytes([1, 7, 1, 116]) + b"\0" * 4)
    done = trtprof("build", "--loadEngine", str(engine), "--trust")
    assert done.exit_code == 3, done.output
    assert "no NVIDIA driver" in done.stderr
    assert "tensorrt_rtx --loadEngine" in done.stderr
    assert "trtprof analyze --layers" in done.stderr


def test_an_engine_made_elsewhere_shows_the_layers_that_the_inspector_tells(
    builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder()
    engine = tmp_path / "other.engine"
    engine.write_bytes(b"ftrt".ljust(40, b"\0"))
    told = {
        "Layers": [
            {"Name": "mul", "LayerType": "gemm", "Inputs": [], "Outputs": [], "Metadata": "[ONNX Layer: /gemv/MatMul]"}
        ]
    }

    def load(path: Path, backend: str, *_: Any, **__: Any) -> BuiltEngine:
        return BuiltEngine(plan=path, plan_text="", layer_info=json.dumps(told), backend=backend, versions={},
                           precision=None, build_ns=0, network_layers=0, warnings=())  # fmt: skip

    monkeypatch.setattr("trtprof.engine.tensorrt.load_engine", load)
    alone = json.loads(trtprof("build", "--loadEngine", str(engine), "--trust", "--format", "json").stdout)
    assert (alone["facts"]["backend"], alone["fates"]) == ("tensorrt", [])
    named = json.loads(trtprof("build", GEMV, "--loadEngine", str(engine), "--trust", "--format", "json").stdout)
    assert named["layers"][0]["nodes"] == ["/gemv/MatMul"]


# --- predict and inspect ------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [("--engine",), ("--level", "layers"), ("--engine", "--level", "layers")])
def test_layers_are_predicted_where_an_engine_is_asked_for(asked: tuple[str, ...], builder: Builder) -> None:
    builder()
    done = trtprof("predict", GEMV, "--gpu", "rtx-4090", "--ceiling", "dram=1.01TB/s", "--format", "json", *asked)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["level"] == "layers"
    assert found["engine"]["backend"] == "tensorrt-rtx"
    (gpu,) = found["gpus"]
    assert gpu["time_ns"] == pytest.approx(250_828_800 / 1.01e12 * 1e9, rel=1e-3)
    assert gpu["plan"]["launches"] == 1
    assert "1 layer in 40.0 ms" in done.stderr


@pytest.mark.parametrize("asked", [(), ("--no-engine",), ("--level", "groups"), ("--level", "nodes", "--no-engine")])
def test_nothing_is_built_that_was_not_asked_for(asked: tuple[str, ...], builder: Builder) -> None:
    """It took 7 to 57 s on foreign models, and longer where the machine was busy."""
    calls = builder()
    done = trtprof("predict", GEMV, "--gpu", "l4", "--format", "json", *asked)
    expected = "nodes" if "nodes" in asked else "groups"
    assert json.loads(done.stdout)["level"] == expected
    assert calls == []
    said = json.loads(done.stdout)["assumptions"]
    assert any("--engine builds one" in note for note in said) == (expected == "groups")


@pytest.mark.parametrize(
    ("options", "refusal", "why"),
    [
        ([], "no such op", "TensorRT-RTX refuses it: no such op"),
        (["--dtype", "int8"], "", "trtprof does not quantise it"),
        (["--dtype", "fp8"], "", "trtprof does not quantise it"),
    ],
)
def test_an_engine_that_cannot_be_built_is_an_error_and_no_silent_estimate(
    options: list[str], refusal: str, why: str, builder: Builder
) -> None:
    builder(refusal=refusal)
    explicit = trtprof("predict", GEMV, "--gpu", "l4", "--engine", *options)
    assert explicit.exit_code == (4 if refusal else 2)
    assert explicit.stdout == ""
    assert why.rpartition(": ")[2] in explicit.stderr
    graph = trtprof("predict", GEMV, "--gpu", "l4", "--format", "json", *options)
    assert graph.exit_code == 0, graph.output
    assert json.loads(graph.stdout)["engine"] is None


@pytest.mark.parametrize("precision", ["model", "fp32", "tf32", "fp16", "bf16"])
def test_an_engine_is_built_at_the_precision_asked_for(precision: str, builder: Builder) -> None:
    calls = builder()
    predict(ModelRequest.of(GEMV), [RTX_4090], Settings(level="layers", precision=precision))
    (call,) = calls
    assert (call["options"].fp16, call["options"].bf16) == (precision == "fp16", precision == "bf16")
    assert call["options"].backend == "tensorrt-rtx"
    assert call["options"].tf32


def test_inspect_shows_the_plan_where_it_is_asked_for(builder: Builder) -> None:
    calls = builder()
    alone = trtprof("inspect", GEMV, "--format", "json")
    assert json.loads(alone.stdout)["plan"] is None
    assert "--engine shows the layers" in alone.stderr
    assert json.loads(trtprof("inspect", GEMV, "--format", "json", "--no-engine").stdout)["plan"] is None
    assert calls == []
    found = json.loads(trtprof("inspect", GEMV, "--format", "json", "--engine").stdout)
    assert found["plan"]["summary"]["launches"] == 1
    assert found["notes"] == []
    assert len(calls) == 1
