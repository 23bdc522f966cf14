"""``trtprof build``, and engines in ``predict`` and ``inspect``, as a person uses them."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import onnx
import pytest

from tests.fakes import command_line
from tests.fakes.support import ROOT, SAMPLES, hide_modules
from trtprof.base.errors import BuildError, UsageError
from trtprof.base.records import EnginePlan
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

needs_rtx = pytest.mark.skipif(
    importlib.util.find_spec("tensorrt_rtx") is None,
    reason="the package tensorrt_rtx is not installed (scripts/test installs it where it has a wheel)",
)


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
        monkeypatch.setattr("ctypes.util.find_library", lambda _name: None)
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


@pytest.mark.parametrize(
    ("backend", "version", "lines"),
    [("tensorrt", "8.6.1", 1), ("tensorrt", "10.16.1", 1), ("tensorrt", "11.4.0", 2), ("tensorrt-rtx", "1.7.1", 2)],
)
def test_a_dry_run_of_fp16_is_of_the_version_that_is_installed(
    backend: str, version: str, lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trtprof.engine.tensorrt.installed_version", lambda _product: version)
    done = trtprof("build", RESNET, "--dry-run", "--fp16", "--backend", backend, "--saveEngine=mine.engine")
    assert done.exit_code == 0, done.output
    assert len(done.stdout.splitlines()) == lines
    assert ("--fp16" in done.stdout) == (lines == 1)
    assert done.stdout.endswith("--saveEngine=mine.engine\n")


@pytest.mark.usefixtures("nothing")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--minShapes=image:1x3x64x64", "--minShapes=image:2x3x64x64", "--optShapes=image:1x3x64x64"],
         "--minShapes 2 times, --optShapes 1 times"),
        (["--minShapes=image:1x3x64x64", "--optShapes=other:1x3x64x64"], "does not name the same inputs"),
        (["--minShapes=image:4x3x64x64", "--optShapes=image:1x3x64x64"], "not in order"),
        (["--optShapes=imago:1x3x64x64"], "which is not an input of this model"),
        (["--optShapes=image:axb"], "--optShapes 'image:axb' cannot be read"),
        (["--profile=0"], "--profile is given without shapes"),
        (["--profile=1", "--optShapes=image:1x3x64x64"], "the profiles are numbered 1"),
        (["--batch=2", "--optShapes=image:1x3x64x64"], "--batch and profiles are both given"),
        (["--shapes=image:1x3x64x64", "--optShapes=image:1x3x64x64"], "--shapes and profiles are both given"),
        (["--memPoolSize=dlaSRAM:1"], "known pools: workspace"),
        (["--memPoolSize=workspace:lots"], "cannot be read"),
        (["--memPoolSize=workspace:1", "--workspace=1"], "given twice"),
        (["--workspace=-1"], "not possible"),
        (["--builderOptimizationLevel=9"], "levels are 0 to 5"),
        (["--maxAuxStreams=-1"], "maxAuxStreams=-1 is not usable"),
        (["--backend=ort-cpu"], "builds no TensorRT engine"),
        (["--format=junit"], "known: csv, html, json"),
        (["--loadEngine=x.engine"], "--dry-run and --loadEngine"),
    ],
)  # fmt: skip
def test_one_clear_message(options: list[str], words: str) -> None:
    done = trtprof("build", RESNET, "--dry-run", *options)
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    assert words in done.stderr
    assert "fix:" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_dry_run_of_a_pytorch_model_says_to_export_it() -> None:
    done = trtprof("build", "nets:small", "--dry-run")
    assert done.exit_code == 2
    assert "fix: trtprof export nets:small, first" in done.stderr


# --- what is missing ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("nothing")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("build", GEMV), "pip install 'trtprof[rtx]'"),
        (("build", GEMV, "--backend", "tensorrt"), "pip install 'trtprof[tensorrt]'"),
        (("build", GEMV, "--backend", "tensorrt-rtx"), "pip install 'trtprof[rtx]'"),
        (("predict", GEMV, "--gpu", "l4", "--level", "layers"), "pip install 'trtprof[rtx]'"),
        (("build", "--loadEngine", "nowhere.engine"), "check the path of --loadEngine"),
    ],
)
def test_what_is_missing_is_said_with_the_fix(arguments: tuple[str, ...], words: str) -> None:
    done = trtprof(*arguments)
    assert done.exit_code == 3, done.output
    assert done.stdout == ""
    assert words in done.stderr
    assert "Traceback" not in done.stderr


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


def test_reports_of_a_build_go_where_o_says_and_the_engine_does_not(builder: Builder, tmp_path: Path) -> None:
    builder()
    page, plan, engine = (tmp_path / name for name in ("b.html", "b.json", "b.engine"))
    done = trtprof("build", GEMV, "-o", page, "-o", plan, "--saveEngine", engine)
    assert done.exit_code == 0, done.output
    assert page.read_text().startswith("<!doctype html>")
    assert msgspec.json.decode(plan.read_bytes(), type=EnginePlan).layers
    assert engine.read_bytes() == b"vtrt an engine"
    for path in (page, plan, engine):
        assert f"wrote {path}" in done.stderr
    quiet = trtprof("build", GEMV, "-q", "-o", tmp_path / "c.html")
    assert (tmp_path / "c.html").is_file()
    assert len(quiet.stdout.splitlines()) == 1


def test_the_document(builder: Builder) -> None:
    builder(precision=Precision(asked="fp16", way="converted", converter="onnxruntime 1.31"))
    done = trtprof("build", GEMV, "--format", "json", "--fp16")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    facts = document["facts"]
    assert facts["backend"] == "tensorrt-rtx"
    assert facts["device"] == "no GPU"
    assert facts["precision"] == "fp16, converted by onnxruntime 1.31"
    assert facts["build_ns"] == 40_000_000
    assert [layer["layer"]["kind"] for layer in document["layers"]] == ["kgen"]
    assert document["works"][0]["bytes_read"] + document["works"][0]["bytes_written"] == 250_828_800
    assert [(fate["node"], fate["fate"]) for fate in document["fates"]] == [("/gemv/MatMul", "layer")]


def test_quiet_prints_the_path_alone(builder: Builder, tmp_path: Path) -> None:
    builder()
    done = trtprof("build", GEMV, "-q")
    assert (done.stdout, done.stderr) == (f"{tmp_path / 'kept.engine'}\n", "")


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


def test_weights_beside_the_model_stay_where_they_are(builder: Builder, tmp_path: Path) -> None:
    calls = builder("rtx_resnet_tiny.log")
    model = onnx.load(RESNET)
    model.graph.node[1].name = model.graph.node[0].name
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
    build(ModelRequest.of(tmp_path / "m.onnx"), BuildOptions(backend="tensorrt-rtx"))
    (call,) = calls
    assert call["external_data"] == tmp_path
    assert call["model"].parent != tmp_path


def test_with_profiles_the_work_is_that_at_the_optimal_shapes_and_said(builder: Builder) -> None:
    builder("rtx_resnet_tiny.log")
    flops = []
    for batch in (2, 8):
        done = trtprof("build", RESNET, "--format", "json", f"--optShapes=image:{batch}x3x64x64")
        document = json.loads(done.stdout)
        assert document["facts"]["notes"][0] == "work is that at the optimal shapes of the profile"
        flops.append(sum(work["tensor_flops"] for work in document["works"] if work))
    assert flops[1] == 4 * flops[0] > 0


def test_layer_info_is_what_it_is_called(builder: Builder, tmp_path: Path) -> None:
    builder()
    done = trtprof("build", GEMV, "--exportLayerInfo", str(tmp_path / "own.json"))
    assert "trtprof's own document" in done.stderr
    assert msgspec.json.decode((tmp_path / "own.json").read_bytes(), type=EnginePlan).facts.device == "no GPU"
    done = trtprof("build", GEMV, "--exportLayerInfo", str(tmp_path / "plan.txt"))
    assert "the plan as the build printed it" in done.stderr
    from trtprof.engine.inspector import read_layer_info

    assert [layer.kind for layer in read_layer_info(tmp_path / "plan.txt").layers] == ["kgen"]
    builder(layer_info='{"Layers": []}')
    done = trtprof("build", GEMV, "--exportLayerInfo", str(tmp_path / "theirs.json"))
    assert "what TensorRT's engine inspector says" in done.stderr
    assert (tmp_path / "theirs.json").read_text() == '{"Layers": []}'


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


def test_a_library_that_says_nothing_of_its_layers(builder: Builder) -> None:
    builder("", warnings=("it printed no plan",))
    done = trtprof("build", GEMV)
    assert done.exit_code == 4
    assert "it printed no plan" in done.stderr


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


@pytest.mark.parametrize("asked", [("--no-engine", "layers"), ("--engine", "groups"), ("--engine", "nodes")])
def test_an_engine_and_a_level_that_has_no_use_for_it_are_refused(asked: tuple[str, str], builder: Builder) -> None:
    calls = builder()
    done = trtprof("predict", GEMV, "--gpu", "l4", asked[0], "--level", asked[1])
    assert done.exit_code == 2
    assert f"{asked[0]} and --level {asked[1]}" in done.stderr
    assert calls == []


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


@pytest.mark.usefixtures("nothing")
@pytest.mark.parametrize("verb", [("predict", "--gpu", "l4"), ("inspect",)])
def test_without_tensorrt_rtx_an_engine_that_is_asked_for_says_how_to_get_it(verb: tuple[str, ...]) -> None:
    done = trtprof(*verb, GEMV, "--engine")
    assert done.exit_code == 3
    assert "pip install 'trtprof[rtx]'" in done.stderr
    assert trtprof(*verb, GEMV).exit_code == 0


def test_a_precision_that_the_file_does_not_have_is_not_answered_by_its_engine(
    builder: Builder, tmp_path: Path
) -> None:
    builder()
    text = (LOGS / "rtx_gemv.log").read_text().replace("Float", "Half")
    builder(plan_text=text[text.index("Layers:\n") :])
    with pytest.raises(UsageError, match="the engine computes in fp16, as the file has it"):
        predict(ModelRequest.of(GEMV), [RTX_4090], Settings(engine=True, level="auto", precision="fp32"))
    assert predict(ModelRequest.of(GEMV), [RTX_4090], Settings(engine=True, level="auto")).level == "layers"


def test_an_engine_takes_no_precision_away_what_it_does_not_tell_is_estimated_and_marked(builder: Builder) -> None:
    """Installing TensorRT-RTX made fp16, int8 and fp8 vanish from the times by precision."""
    builder()
    asked = ModelRequest.of(GEMV)
    (engine,) = predict(asked, [RTX_4090], Settings(level="layers")).gpus
    (groups,) = predict(asked, [RTX_4090], Settings(level="groups")).gpus
    assert list(engine.by_precision) == list(groups.by_precision) == ["fp32", "tf32", "fp16", "bf16", "int8", "fp8"]
    assert engine.estimated_precisions == ("fp16", "bf16", "int8", "fp8")
    assert groups.estimated_precisions == ()
    for name in engine.estimated_precisions:
        assert engine.by_precision[name] == groups.by_precision[name]
    shown = trtprof("predict", GEMV, "--gpu", "rtx-4090", "--level", "layers").stdout.splitlines()
    (at,) = (place for place, line in enumerate(shown) if line.startswith("bound by precision"))
    assert "' of estimated groups" in shown[at]
    assert shown[at + 2].count("'") == 4
    assert not shown[at + 2].split()[3].endswith("'")
    apart = trtprof("predict", GEMV, "--gpu", "rtx-4090", "--level", "groups").stdout
    assert "'" not in apart.partition("bound by precision")[2].partition("\n\n")[0]


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


def test_inspect_says_why_an_engine_that_is_asked_for_is_not_there(builder: Builder) -> None:
    builder(refusal="no such op")
    done = trtprof("inspect", GEMV, "--engine")
    assert (done.exit_code, done.stdout) == (4, "")
    assert "why: no such op" in done.stderr


# --- the real TensorRT-RTX ------------------------------------------------------------------------------


@pytest.fixture
def rtx(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run trtprof as a process, with engines kept in a folder of the test."""
    environment = {**os.environ, "TRTPROF_CACHE_DIR": str(tmp_path / "cache"), "COLUMNS": "80"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from trtprof.cli import main; main()", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    return run


@needs_rtx
def test_a_real_build_then_one_that_is_kept(rtx: Any, tmp_path: Path) -> None:
    engine = tmp_path / "resnet.engine"
    done = rtx("build", RESNET, "--backend", "tensorrt-rtx", "--batch", "4", "--saveEngine", engine, "--format", "json")
    assert done.returncode == 0, done.stderr
    plan = msgspec.json.decode(done.stdout, type=EnginePlan)
    assert engine.read_bytes()[:4] == b"vtrt"
    assert plan.facts.cached is False
    assert {tensor.dims for tensor in plan.bindings} == {(4, 3, 64, 64), (4, 10)}
    assert len(plan.fates) == 54
    again = rtx("build", RESNET, "--backend", "tensorrt-rtx", "--batch", "4", "--format", "json")
    assert msgspec.json.decode(again.stdout, type=EnginePlan).facts.cached is True
    assert "kept from an earlier build" in again.stderr


@needs_rtx
def test_the_real_story(rtx: Any) -> None:
    done = rtx("predict", GEMV, "--engine", "--gpu", "rtx-4090", "--ceiling", "dram=1.01TB/s", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["level"] == "layers"
    assert found["gpus"][0]["time_ns"] == pytest.approx(250_828_800 / 1.01e12 * 1e9, rel=1e-3)
    (layer,) = found["gpus"][0]["layers"]
    assert layer["work"]["bytes_read"] + layer["work"]["bytes_written"] == 250_828_800


@needs_rtx
def test_a_real_refusal_is_an_error_where_an_engine_is_asked_for(rtx: Any) -> None:
    assert rtx("predict", QDQ, "--gpu", "l4").returncode == 0
    for verb in (("predict", "--gpu", "l4", "--engine"), ("predict", "--gpu", "l4", "--level", "layers"), ("build",),
                 ("inspect", "--engine")):  # fmt: skip
        done = rtx(*verb, QDQ)
        assert done.returncode == 4, done.stderr
        assert "Non-zero zero point is not supported" in done.stderr
