"""Building with TensorRT: the real TensorRT-RTX where it is installed, and a stub of the versions that need a GPU."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.fakes import stub_tensorrt
from tests.fakes.in_process import call_telling
from tests.fakes.support import SAMPLES, captured, refused
from trtprof.base.errors import BuildError, MissingError, ModelError, TrtprofError, UsageError
from trtprof.engine import tensorrt
from trtprof.engine._trt_build import plain, plan_text
from trtprof.engine.tensorrt import BuildOptions, BuiltEngine, ShapeRange, build, load_engine, trtexec_command
from trtprof.runtime import child

VERSIONS = ("8.6.1", "10.0.1", "10.16.1.11", "11.4.0.106")
STATIC: dict[str, tuple[int, ...]] = {"x": (2, 4)}

needs_rtx = pytest.mark.skipif(
    importlib.util.find_spec("tensorrt_rtx") is None,
    reason="the package tensorrt_rtx is not installed (scripts/test installs it where it has a wheel)",
)
posix = pytest.mark.skipif(os.name == "nt", reason="there are no signals to end a process by")


def small_model(path: Path, *nodes: onnx.NodeProto, sizes: bool = False, external: bool = False) -> Path:
    """``y = relu(x @ w)`` with a dynamic batch, and more nodes behind it."""
    weight = numpy_helper.from_array(np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4), "w")
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])]
    if sizes:
        inputs.append(helper.make_tensor_value_info("sizes", TensorProto.INT64, [2]))
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["product"], name="matmul"),
            helper.make_node("Relu", ["product"], ["y"], name="relu"),
            *nodes,
        ],
        "g",
        inputs,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
        [weight],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.save(model, path, save_as_external_data=external, location="w.bin", size_threshold=0)
    return path


@pytest.fixture
def stubbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Installs the stub of a version, in the scenario of some words; builds in this process unless ``apart``."""
    modules = ("tensorrt", "tensorrt_rtx")

    def install(version: str = "10.16.1.11", words: str = "", *, driver: bool = False, apart: bool = False) -> None:
        module = modules[version.startswith("1.")]
        folder = tmp_path / f"stub-{module}-{version}"
        stub_tensorrt.install(folder, version, module)
        for name in modules:
            sys.modules.pop(name, None)
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setenv("PYTHONPATH", str(folder))
        monkeypatch.setenv("STUB_TENSORRT", words)
        monkeypatch.setattr("trtprof.engine.tensorrt.has_driver", lambda: driver)
        if not apart:
            monkeypatch.setattr(child, "run_telling", call_telling)

    before = {name: sys.modules[name] for name in modules if name in sys.modules}
    yield install
    for name in modules:
        sys.modules.pop(name, None)
    sys.modules.update(before)


def built(tmp_path: Path, options: BuildOptions | None = None, **named: Any) -> BuiltEngine:
    model = named.pop("model", None) or small_model(tmp_path / "small.onnx")
    return build(model, options or BuildOptions(shapes=STATIC), cache_dir=tmp_path / "cache", **named)


def record_of(engine: BuiltEngine) -> dict[str, Any]:
    """What the stub was told, which it writes instead of an engine."""
    found = json.loads(engine.plan.read_bytes()[28:])
    assert isinstance(found, dict)
    return found


def kept_engines(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache" / "engines").iterdir())


# --- all versions, by the stub ------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_builds_by_the_names_that_it_has(version: str, stubbed: Any, tmp_path: Path) -> None:
    stubbed(version)
    said: list[str] = []
    engine = built(tmp_path, progress=said.append)
    record = record_of(engine)
    assert record["verbosity"] == "DETAILED"
    assert record["network_flags"] == (0 if version.startswith("11.") else 1)
    assert record["profiles"] == [{"x": ["shape", [2, 4], [2, 4], [2, 4]]}]
    assert record["flags"] == ["TF32"]
    assert engine.plan_text.startswith("Layers:\nName: conv")
    assert engine.plan_text.endswith("Bindings:\nx\ny\n")
    assert engine.versions["tensorrt"] == version
    assert engine.warnings == ("a warning of the library",)
    assert engine.network_layers == 2
    assert engine.build_ns > 0
    assert engine.precision == tensorrt.Precision(asked="fp32", way="as in the file")
    assert f"parsing small.onnx with TensorRT {version}" in said
    has_monitor = not version.startswith("8.")
    assert ("Building engine: Timing tactics" in said) == has_monitor


@pytest.mark.parametrize("version", ["8.6.1", "10.16.1.11", "11.4.0.106"])
@pytest.mark.parametrize("strongly_typed", [False, True])
def test_fp16_is_a_flag_up_to_10_and_a_conversion_from_11(
    version: str, strongly_typed: bool, stubbed: Any, tmp_path: Path
) -> None:
    stubbed(version)
    options = BuildOptions(shapes=STATIC, fp16=True, strongly_typed=strongly_typed)
    if strongly_typed and version.startswith("8."):
        with pytest.raises(UsageError, match="no strongly typed networks"):
            built(tmp_path, options)
        return
    engine = built(tmp_path, options)
    record = record_of(engine)
    assert engine.precision is not None
    assert engine.precision.asked == "fp16"
    assert engine.precision.way == tensorrt.precision_way("tensorrt", version, strongly_typed=strongly_typed)
    if engine.precision.way == "builder flag":
        assert record["flags"] == ["FP16", "TF32"]
        assert record["dtypes"] == [TensorProto.FLOAT]
        assert engine.precision.added_nodes == ()
        return
    assert record["flags"] == ["TF32"]
    assert record["dtypes"] == [TensorProto.FLOAT16]
    assert "onnxruntime" in engine.precision.converter
    assert engine.versions["onnxruntime"] in engine.precision.converter
    assert len(engine.precision.added_nodes) == 2, "a cast behind the input, one before the output"
    typed = 0 if version.startswith("11.") else 1
    assert record["network_flags"] & 1 << typed, "the types of the file must count"


def test_a_model_without_fp32_is_not_converted(stubbed: Any, tmp_path: Path) -> None:
    stubbed("11.4.0.106")
    model = onnx.load(small_model(tmp_path / "half.onnx"))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    half = numpy_helper.from_array(np.ones((4, 4), np.float16), "w")
    model.graph.initializer[0].CopyFrom(half)
    onnx.save(model, tmp_path / "half.onnx")
    for name in ("fp16", "bf16"):
        options = BuildOptions(shapes=STATIC, fp16=name == "fp16", bf16=name == "bf16")
        engine = built(tmp_path, options, model=tmp_path / "half.onnx")
        assert engine.precision == tensorrt.Precision(asked=name, way="as in the file")
        assert engine.warnings[0] == "nothing in half.onnx is fp32: built as it is"


def test_weights_beyond_fp16_are_told(stubbed: Any, tmp_path: Path) -> None:
    stubbed("11.4.0.106")
    model = onnx.load(small_model(tmp_path / "large.onnx"))
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.full((4, 4), 1e6, np.float32), "w"))
    onnx.save(model, tmp_path / "large.onnx")
    engine = built(tmp_path, BuildOptions(shapes=STATIC, fp16=True), model=tmp_path / "large.onnx")
    assert "weights beyond the range of fp16" in engine.warnings[0]
    assert "1e+06" in engine.warnings[0]


@pytest.mark.parametrize(
    ("version", "fix"), [("8.6.1", "--fp16"), ("11.4.0.106", "modelopt.onnx.autocast"), ("10.0.1", "")]
)
def test_bf16_is_refused_where_there_is_no_way_to_it(version: str, fix: str, stubbed: Any, tmp_path: Path) -> None:
    stubbed(version)
    options = BuildOptions(shapes=STATIC, bf16=True)
    if not fix:
        assert record_of(built(tmp_path, options))["flags"] == ["BF16", "TF32"]
        return
    with pytest.raises(UsageError) as caught:
        built(tmp_path, options)
    assert fix in refused(caught.value)


def test_eight_bits_are_flags_of_a_model_that_holds_the_scales_and_are_never_made_up(
    stubbed: Any, tmp_path: Path
) -> None:
    stubbed()
    quantised = {"model": SAMPLES / "qdq_cnn.onnx"}
    shapes: dict[str, tuple[int, ...]] = {"image": (1, 3, 32, 32)}
    both = built(tmp_path, BuildOptions(shapes=shapes, int8=True, fp16=True), **quantised)
    assert record_of(both)["flags"] == ["FP16", "INT8", "TF32"]
    assert both.precision is not None
    assert (both.precision.asked, both.precision.way) == ("fp16+int8", "builder flag")
    with pytest.raises(UsageError) as caught:
        built(tmp_path, BuildOptions(shapes=STATIC, int8=True))
    assert "no QuantizeLinear" in refused(caught.value)
    best = built(tmp_path, BuildOptions(shapes=STATIC, fp16=True, bf16=True, int8=True))
    assert record_of(best)["flags"] == ["BF16", "FP16", "TF32"], "what --best asks is what there is of it"
    assert "no int8 in small.onnx" in best.warnings[0]


def test_from_11_on_eight_bits_are_as_in_the_file_and_there_is_no_best(stubbed: Any, tmp_path: Path) -> None:
    stubbed("11.4.0.106")
    quantised = SAMPLES / "qdq_cnn.onnx"
    shapes: dict[str, tuple[int, ...]] = {"image": (1, 3, 32, 32)}
    engine = built(tmp_path, BuildOptions(shapes=shapes, int8=True), model=quantised)
    assert engine.precision is not None
    assert (engine.precision.asked, engine.precision.way) == ("int8", "as in the file")
    with pytest.raises(UsageError, match="chooses no precision"):
        built(tmp_path, BuildOptions(shapes=STATIC, fp16=True, bf16=True, int8=True))


def test_best_is_what_the_version_has(stubbed: Any, tmp_path: Path) -> None:
    stubbed("8.6.1")
    best = built(tmp_path, BuildOptions(shapes=STATIC, fp16=True, bf16=True, int8=True))
    assert record_of(best)["flags"] == ["FP16", "TF32"]


def test_options_reach_the_builder(stubbed: Any, tmp_path: Path) -> None:
    stubbed()
    library = tmp_path / "libplugins.so"
    library.touch()
    sizes = ShapeRange(min=(1, 1), opt=(2, 2), max=(3, 3))
    options = BuildOptions(
        profiles=(
            {"x": ShapeRange(min=(1, 4), opt=(2, 4), max=(8, 4)), "sizes": sizes},
            {"x": ShapeRange(min=(9, 4), opt=(9, 4), max=(9, 4)), "sizes": sizes},
        ),
        tf32=False, workspace_bytes=1 << 30, builder_optimization_level=5, max_aux_streams=0,
        static_plugins=(str(library),),
    )  # fmt: skip
    record = record_of(built(tmp_path, options, model=small_model(tmp_path / "sized.onnx", sizes=True)))
    assert record["flags"] == []
    assert record["pools"] == {"WORKSPACE": 1 << 30}
    assert (record["level"], record["streams"]) == (5, 0)
    values = ["values", [1, 1], [2, 2], [3, 3]]
    assert record["profiles"] == [
        {"x": ["shape", [1, 4], [2, 4], [8, 4]], "sizes": values},
        {"x": ["shape", [9, 4], [9, 4], [9, 4]], "sizes": values},
    ]


def test_sources_of_tactics_are_switched_and_the_others_stay(stubbed: Any, tmp_path: Path) -> None:
    stubbed()
    given = BuildOptions(shapes=STATIC, tactic_sources="+CUBLAS, -JIT_CONVOLUTIONS")
    assert record_of(built(tmp_path))["sources"] == 0b11000
    assert record_of(built(tmp_path, given))["sources"] == 0b01001
    assert "--tacticSources=+CUBLAS" in trtexec_command(Path("m.onnx"), BuildOptions(tactic_sources="+CUBLAS"))


def test_a_build_route_goes_to_the_version_that_has_them(stubbed: Any, tmp_path: Path) -> None:
    stubbed("11.4.0.106")
    given = BuildOptions(shapes=STATIC, build_route="-copy_ppg=off -peep:max=2")
    assert record_of(built(tmp_path, given))["route"] == "-copy_ppg=off -peep:max=2"
    assert "'--setBuildRoute=-copy_ppg=off -peep:max=2'" in trtexec_command(Path("m.onnx"), given)


@pytest.mark.parametrize(
    ("version", "named", "part"),
    [
        ("11.4.0.106", {"tactic_sources": "+CUBLAS"}, "before EDGE_MASK_CONVOLUTIONS"),
        ("10.16.1.11", {"tactic_sources": "CUDNN"}, "--tacticSources=+CUDNN"),
        ("10.16.1.11", {"build_route": "-copy_ppg=off"}, "TensorRT 11.1 and later do"),
        ("1.7.1.116", {"build_route": "-copy_ppg=off"}, "takes no build route"),
    ],
)
def test_sources_and_routes_that_a_version_has_not_are_refused(
    version: str, named: dict[str, Any], part: str, stubbed: Any, tmp_path: Path
) -> None:
    stubbed(version)
    backend = "tensorrt-rtx" if version.startswith("1.") else "tensorrt"
    with pytest.raises(UsageError) as caught:
        built(tmp_path, BuildOptions(backend=backend, shapes=STATIC, **named))
    assert part in refused(caught.value)


def test_a_copy_of_a_model_has_its_engine(stubbed: Any, tmp_path: Path) -> None:
    stubbed()
    model = small_model(tmp_path / "small.onnx")
    copy = model.with_name("best.onnx")
    copy.write_bytes(model.read_bytes())
    assert built(tmp_path, model=model).plan == built(tmp_path, model=copy).plan


@posix
@pytest.mark.nightly
def test_a_build_that_hangs_is_given_up(stubbed: Any, tmp_path: Path) -> None:
    stubbed(words="slow", apart=True)
    with pytest.raises(BuildError, match="does not come to an end"):
        built(tmp_path, deadline_s=3.0)
    assert kept_engines(tmp_path) == []


@pytest.mark.parametrize("version", [*VERSIONS, "1.7.1.116"])
def test_parser_errors_name_node_op_and_reason(version: str, stubbed: Any, tmp_path: Path) -> None:
    stubbed(version)
    model = small_model(
        tmp_path / "custom.onnx",
        helper.make_node("MyOp", ["y"], ["z"], name="mine", domain="my.ops"),
        helper.make_node("Unique", ["y"], ["u"], name="uniq"),
    )
    options = BuildOptions(backend="tensorrt-rtx" if version == "1.7.1.116" else "tensorrt", shapes=STATIC)
    with pytest.raises(BuildError) as caught:
        built(tmp_path, options, model=model)
    assert caught.value.exit_code == 4
    assert "'mine' (MyOp) of custom.onnx" in caught.value.what
    assert "no op of this name, and no plugin" in caught.value.why
    assert "uniq (Unique): it does not take this op" in caught.value.why
    assert ("has no plugins" in caught.value.fix) == (version == "1.7.1.116")
    assert kept_engines(tmp_path) == []


@pytest.mark.parametrize(
    ("words", "error", "parts"),
    [
        ("refuses", BuildError, ("cannot build small.onnx", "Could not find any implementation for node conv")),
        ("no_gpu", MissingError, ("does not start", "CUDA initialization failure", "tensorrt-rtx")),
        ("bad_profile", BuildError, ("shapes of a profile", "min <= opt <= max")),
    ],
)
def test_what_the_library_refuses_is_told_in_its_words(
    words: str, error: type[TrtprofError], parts: tuple[str, ...], stubbed: Any, tmp_path: Path
) -> None:
    stubbed(words=words)
    with pytest.raises(error) as caught:
        built(tmp_path)
    assert all(part in str(caught.value) for part in parts), caught.value
    assert "/_src/" not in str(caught.value)
    assert kept_engines(tmp_path) == []


@posix
@pytest.mark.process
def test_a_crash_of_the_library_is_an_error_of_ours(stubbed: Any, tmp_path: Path) -> None:
    stubbed(words="segfault", apart=True)
    with pytest.raises(BuildError) as caught:
        built(tmp_path)
    parts = ("SIGSEGV", "Timing tactics", "assertion failed in the library")
    assert all(part in refused(caught.value) for part in parts), caught.value
    assert kept_engines(tmp_path) == []


@posix
@pytest.mark.process
def test_ctrl_c_ends_the_build_within_a_second(stubbed: Any, tmp_path: Path) -> None:
    stubbed(words="slow")
    model = small_model(tmp_path / "small.onnx")
    code = (
        "import sys; from pathlib import Path; from trtprof.engine.tensorrt import *\n"
        f"build(Path({str(model)!r}), BuildOptions(shapes={{'x': (2, 4)}}), lambda line: print(line, flush=True),"
        f" cache_dir=Path({str(tmp_path / 'cache')!r}))"
    )
    # A group of its own, as a shell makes one of the foreground job: Ctrl-C reaches parent and child.
    parent = subprocess.Popen(
        [sys.executable, "-c", code], env=child.environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, start_new_session=True,
    )  # fmt: skip
    with parent:
        assert parent.stdout is not None
        assert any("Timing tactics" in line for line in parent.stdout), "it never began"
        pressed = time.monotonic()
        os.killpg(parent.pid, signal.SIGINT)
        parent.wait(timeout=30)
        assert time.monotonic() - pressed < 1.0
    with pytest.raises(ProcessLookupError):
        os.killpg(parent.pid, 0)
    assert kept_engines(tmp_path) == []


# --- shapes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shapes", "parts"),
    [
        ({}, ("no shape is given for the dynamic input 'x'", "--shapes=x:1x4")),
        ({"z": (1, 4), "x": (1, 4)}, ("no input 'z'", "its inputs are x", "--shapes=x:1x4")),
        ({"x": (1, 5)}, ("1x5 does not fit the input 'x'", "-1x4")),
        ({"x": (1, 4, 1)}, ("1x4x1 does not fit the input 'x'",)),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    shapes: dict[str, tuple[int, ...]], parts: tuple[str, ...], stubbed: Any, tmp_path: Path
) -> None:
    stubbed()
    with pytest.raises(UsageError) as caught:
        built(tmp_path, BuildOptions(shapes=shapes))
    assert all(part in refused(caught.value) for part in parts), caught.value


def test_options_that_contradict_themselves_are_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    cases: list[tuple[BuildOptions, str]] = [
        (BuildOptions(shapes=STATIC, profiles=({},)), "both given"),
        (BuildOptions(profiles=({"x": ShapeRange(min=(2, 4), opt=(1, 4), max=(8, 4))},)), "not in order"),
        (BuildOptions(profiles=({"x": ShapeRange(min=(1,), opt=(1, 4), max=(8, 4))},)), "differ in rank"),
        (BuildOptions(shapes=STATIC, builder_optimization_level=6), "levels are 0 to 5"),
        (BuildOptions(shapes=STATIC, workspace_bytes=-1), "workspace=-1"),
        (BuildOptions(shapes=STATIC, max_aux_streams=-1), "maxAuxStreams=-1"),
        (BuildOptions(backend="ort-cpu"), "builds no TensorRT engine"),
    ]
    for options, part in cases:
        with subtests.test(str(options)[:80]):
            with pytest.raises(UsageError) as caught:
                built(tmp_path, options)
            assert part in refused(caught.value)
            assert not (tmp_path / "cache").exists()


# --- timing cache, plugins, compute capabilities --------------------------------------------------


def test_a_timing_cache_is_made_read_and_written_back(stubbed: Any, tmp_path: Path) -> None:
    stubbed()
    file = tmp_path / "timing.cache"
    options = BuildOptions(shapes=STATIC, timing_cache=str(file))
    assert record_of(built(tmp_path, options))["cache"] is True
    assert file.read_bytes() == b"cache of 10.16.1.11"
    again = built(tmp_path, options, rebuild=True)
    assert again.warnings == ("a warning of the library",)
    assert [path.name for path in tmp_path.glob("*timing.cache*")] == ["timing.cache"], "no temporary file stays"


@pytest.mark.parametrize("stored", [b"cache of 10.0.1", b"damaged"])
def test_a_timing_cache_of_another_version_is_said_and_left(stored: bytes, stubbed: Any, tmp_path: Path) -> None:
    stubbed()
    file = tmp_path / "timing.cache"
    file.write_bytes(stored)
    engine = built(tmp_path, BuildOptions(shapes=STATIC, timing_cache=str(file)))
    assert "not used, and left as it is" in engine.warnings[0]
    assert file.read_bytes() == stored


def test_a_timing_cache_that_cannot_be_written_is_said(stubbed: Any, tmp_path: Path) -> None:
    stubbed()
    engine = built(tmp_path, BuildOptions(shapes=STATIC, timing_cache=str(tmp_path / "no folder" / "timing.cache")))
    assert "could not be written" in engine.warnings[0]


@pytest.mark.parametrize(
    ("named", "part"),
    [
        ({"timing_cache": "t.cache"}, "no use for a timing cache"),
        ({"static_plugins": ("libplugins.so",)}, "has no plugins"),
        ({"compute_capabilities": ("9.0",)}, "it knows current, 7.5, 8.0, 8.6, 8.9, 12.0"),
    ],
)
def test_what_tensorrt_rtx_has_not_is_refused(
    named: dict[str, Any], part: str, stubbed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stubbed("1.7.1.116")
    monkeypatch.chdir(tmp_path)
    Path("libplugins.so").touch()
    with pytest.raises(UsageError) as caught:
        built(tmp_path, BuildOptions(backend="tensorrt-rtx", shapes=STATIC, **named))
    assert part in refused(caught.value)


def test_tensorrt_rtx_builds_for_the_gpus_that_are_asked_for(stubbed: Any, tmp_path: Path) -> None:
    stubbed("1.7.1.116")
    options = BuildOptions(backend="tensorrt-rtx", shapes=STATIC, compute_capabilities=("8.9", "12.0"))
    assert record_of(built(tmp_path, options))["capabilities"] == {"0": "SM89", "1": "SM120"}


def test_a_capability_that_the_library_refuses_is_an_error(stubbed: Any, tmp_path: Path) -> None:
    stubbed("1.7.1.116", "no_capability")
    with pytest.raises(BuildError, match="refuses compute capability current"):
        built(tmp_path, BuildOptions(backend="tensorrt-rtx", shapes=STATIC, compute_capabilities=("current",)))


def test_tensorrt_builds_for_this_gpu_alone(stubbed: Any, tmp_path: Path) -> None:
    stubbed()
    with pytest.raises(UsageError) as caught:
        built(tmp_path, BuildOptions(shapes=STATIC, compute_capabilities=("8.9",)))
    assert "--backend tensorrt-rtx" in refused(caught.value)


def test_a_plugin_library_that_does_not_load_or_is_not_there(stubbed: Any, tmp_path: Path) -> None:
    stubbed()
    broken = tmp_path / "libbroken.so"
    with pytest.raises(MissingError, match=r"libbroken\.so is not there"):
        built(tmp_path, BuildOptions(shapes=STATIC, static_plugins=(str(broken),)))
    broken.touch()
    with pytest.raises(BuildError, match="cannot be loaded"):
        built(tmp_path, BuildOptions(shapes=STATIC, static_plugins=(str(broken),)))


def test_a_plugin_in_python_is_imported_where_the_engine_is_built(stubbed: Any, tmp_path: Path) -> None:
    stubbed()
    plugin, marker = tmp_path / "quick.py", tmp_path / "imported"
    plugin.write_text("raise RuntimeError('no tensorrt.plugin here')")
    how = BuildOptions(shapes=STATIC, static_plugins=(str(plugin),))
    with pytest.raises(BuildError, match=r"quick\.py cannot be loaded") as caught:
        built(tmp_path, how)
    assert caught.value.why == "RuntimeError: no tensorrt.plugin here"
    assert "10.8 or later" in caught.value.fix
    plugin.write_text(f"import pathlib\npathlib.Path({str(marker)!r}).touch()")
    built(tmp_path, how)
    assert marker.exists()
    with pytest.raises(UsageError, match=r"trtexec does not load .*quick\.py"):
        trtexec_command(tmp_path / "model.onnx", how)


def test_an_engine_is_of_the_kernels_that_the_variable_picks(
    stubbed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stubbed()
    plugin = tmp_path / "quick.py"
    plugin.touch()
    how = BuildOptions(shapes=STATIC, static_plugins=(str(plugin),))
    assert [built(tmp_path, how).cached for _ in range(2)] == [False, True]
    monkeypatch.setenv("TRTPROF_PLUGIN_ARCH", "sm_75")
    assert [built(tmp_path, how).cached for _ in range(2)] == [False, True]


def test_an_engine_is_built_again_when_a_kernel_beside_its_plugin_has_changed(stubbed: Any, tmp_path: Path) -> None:
    stubbed()
    for name in ("plugin.py", "kernel.py", "kernel.1.ptx", "README.md"):
        (tmp_path / name).touch()
    how = BuildOptions(shapes=STATIC, static_plugins=(str(tmp_path / "plugin.py"),))
    assert [built(tmp_path, how).cached for _ in range(2)] == [False, True]
    for name in ("README.md", "kernel.py", "kernel.1.ptx"):
        (tmp_path / name).write_text("# changed")
        assert built(tmp_path, how).cached == (name == "README.md"), name


# --- engines that are kept ------------------------------------------------------------------------


def test_the_same_build_is_done_once(stubbed: Any, tmp_path: Path) -> None:
    stubbed()
    first = built(tmp_path)
    said: list[str] = []
    second = built(tmp_path, progress=said.append)
    assert not first.cached
    assert second == msgspec.structs.replace(first, cached=True)
    assert said == [f"engine kept from an earlier build: {first.plan} (--rebuild builds it again)"]
    assert not built(tmp_path, rebuild=True).cached
    assert kept_engines(tmp_path) == [first.plan.parent.name]


def test_an_engine_depends_on_model_options_version_and_device(stubbed: Any, tmp_path: Path) -> None:
    stubbed()
    options = BuildOptions(shapes=STATIC)
    found = [built(tmp_path, options).plan]
    found.append(built(tmp_path, msgspec.structs.replace(options, tf32=False)).plan)
    found.append(built(tmp_path, options, device="NVIDIA L4").plan)
    external = small_model(tmp_path / "external.onnx", external=True)
    found.append(built(tmp_path, options, model=external).plan)
    (tmp_path / "w.bin").write_bytes((tmp_path / "w.bin").read_bytes()[::-1])
    found.append(built(tmp_path, options, model=external).plan)
    stubbed("10.0.1")
    found.append(built(tmp_path, options).plan)
    assert len(set(found)) == len(found)
    same = BuildOptions(profiles=options.all_profiles())
    assert built(tmp_path, same).cached, "--shapes is the same as a profile of one shape"


@pytest.mark.parametrize("damage", ["cut", "garbled", "gone"])
def test_a_damaged_engine_is_built_again(damage: str, stubbed: Any, tmp_path: Path) -> None:
    stubbed()
    engine = built(tmp_path)
    if damage == "cut":
        engine.plan.write_bytes(engine.plan.read_bytes()[:10])
    elif damage == "garbled":
        (engine.plan.parent / "build.json").write_text("{")
    else:
        engine.plan.unlink()
    said: list[str] = []
    assert not built(tmp_path, progress=said.append).cached
    assert "is damaged" in said[0]
    assert built(tmp_path).cached


def test_weights_in_another_folder_are_found(stubbed: Any, tmp_path: Path) -> None:
    stubbed()
    weights = tmp_path / "weights"
    weights.mkdir()
    model = small_model(weights / "external.onnx", external=True)
    moved = tmp_path / "moved.onnx"
    moved.write_bytes(model.read_bytes())
    engine = built(tmp_path, model=moved, external_data=weights)
    assert record_of(engine)["model"] == str(weights / "moved.onnx"), "the parser looks beside this path"
    with pytest.raises(MissingError) as caught:
        built(tmp_path, model=moved)
    assert "w.bin" in refused(caught.value)


def test_a_folder_that_cannot_be_written_is_said(stubbed: Any, tmp_path: Path) -> None:
    stubbed()
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(MissingError) as caught:
        built(tmp_path)
    assert "TRTPROF_CACHE_DIR" in refused(caught.value)


def test_files_that_are_no_models_are_refused(stubbed: Any, tmp_path: Path) -> None:
    stubbed()
    (tmp_path / "bad.onnx").write_bytes(b"\xff" * 40)
    with pytest.raises(ModelError) as caught:
        built(tmp_path, model=tmp_path / "bad.onnx")
    assert "no ONNX file" in refused(caught.value)
    with pytest.raises(ModelError, match="cannot be read"):
        built(tmp_path, model=tmp_path / "none.onnx")


@pytest.mark.parametrize(("backend", "extra"), [("tensorrt", "[tensorrt]"), ("tensorrt-rtx", "[rtx]")])
def test_without_the_library_the_way_to_it_is_told(
    backend: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(MissingError) as caught:
        built(tmp_path, BuildOptions(backend=backend, shapes=STATIC))
    assert caught.value.exit_code == 3
    assert f"pip install 'trtprof{extra}'" in refused(caught.value)


@pytest.mark.process
def test_a_library_that_does_not_load_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "broken" / "tensorrt"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('libnvinfer.so.10: cannot open shared object file')")
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    with pytest.raises(MissingError) as caught:
        built(tmp_path)
    assert "libnvinfer.so.10" in refused(caught.value)


# --- engines made elsewhere -----------------------------------------------------------------------


def test_an_engine_made_elsewhere_is_inspected_where_there_is_a_driver(stubbed: Any, tmp_path: Path) -> None:
    stubbed()
    plan = built(tmp_path).plan
    here = load_engine(plan)
    assert here.layer_info == ""
    assert "no NVIDIA driver" in here.warnings[0]
    stubbed("10.0.1", driver=True)
    there = load_engine(plan)
    assert json.loads(there.layer_info)["shapes"] == {"x": [2, 4]}, "the optimal shape of the first profile"
    assert there.versions["tensorrt"] == "10.0.1"
    stubbed("8.6.1", "other_version", driver=True)
    other = load_engine(plan)
    assert other.layer_info == ""
    assert "Version tag does not match" in other.warnings[0]


def test_a_build_beside_a_driver_is_inspected_too(stubbed: Any, tmp_path: Path) -> None:
    stubbed("11.4.0.106", driver=True)
    assert json.loads(built(tmp_path).layer_info)["Bindings"] == ["x"]


@posix
@pytest.mark.process
def test_an_engine_is_kept_though_the_library_dies_over_it(stubbed: Any, tmp_path: Path) -> None:
    stubbed(words="dies_loading", driver=True, apart=True)
    engine = built(tmp_path)
    assert engine.plan_text
    assert engine.layer_info == ""
    assert "its layers could not be read" in engine.warnings[0]
    assert "SIGSEGV" in engine.warnings[0]
    assert built(tmp_path).cached
    with pytest.raises(BuildError, match=r"died over model\.engine"):
        load_engine(engine.plan)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "no TensorRT engine"),
        (b"ftrt", "no TensorRT engine"),
        (b"{" * 100, "no TensorRT engine"),
        (b"vtrt" + bytes(40), "--backend tensorrt-rtx"),
    ],
)
def test_files_that_are_no_engines_are_refused(content: bytes, part: str, tmp_path: Path) -> None:
    path = tmp_path / "some.engine"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        load_engine(path)
    assert part in refused(caught.value)
    with pytest.raises(MissingError, match="cannot be read"):
        load_engine(tmp_path / "none.engine")


# --- the command line of the library's own tool ---------------------------------------------------


def test_the_trtexec_command_says_the_same() -> None:
    options = BuildOptions(
        profiles=({"x": ShapeRange(min=(1, 4), opt=(2, 4), max=(8, 4)), "y": ShapeRange(min=(), opt=(), max=())},),
        fp16=True, tf32=False, workspace_bytes=512 << 20, builder_optimization_level=4, timing_cache="t.cache",
        max_aux_streams=0,
    )  # fmt: skip
    words = shlex.split(trtexec_command(Path("a model.onnx"), options, version="10.16.1.11"))
    assert words == [
        "trtexec", "--onnx=a model.onnx", "--fp16", "--minShapes=x:1x4,y:", "--optShapes=x:2x4,y:",
        "--maxShapes=x:8x4,y:", "--noTF32", "--memPoolSize=workspace:512M", "--builderOptimizationLevel=4",
        "--maxAuxStreams=0",
        "--timingCacheFile=t.cache", "--profilingVerbosity=detailed", "--verbose", "--skipInference",
        "--saveEngine=model.engine",
    ]  # fmt: skip


def test_several_profiles_are_numbered() -> None:
    one = {"x": ShapeRange(min=(1,), opt=(1,), max=(1,))}
    text = trtexec_command(Path("m.onnx"), BuildOptions(profiles=(one, one)), version="8.6.1")
    assert re.findall(r"--profile=(\d) --minShapes=(\S+) ", text) == [("0", "x:1"), ("1", "x:1")]


@pytest.mark.parametrize(
    ("backend", "version", "converted"),
    [("tensorrt", "8.6.1", False), ("tensorrt", "11.4.0.106", True), ("tensorrt-rtx", "1.7.1.116", True)],
)
def test_the_conversion_is_the_first_line(backend: str, version: str, converted: bool) -> None:
    options = BuildOptions(backend=backend, shapes=STATIC, fp16=True)
    lines = trtexec_command(Path("m.onnx"), options, version=version).splitlines()
    assert len(lines) == 1 + converted
    assert ("--fp16" in lines[-1]) != converted
    assert "--shapes=x:2x4" in lines[-1]
    if converted:
        assert "--onnx=m_fp16.onnx" in lines[1]
        code = shlex.split(lines[0])
        assert code[:2] == ["python", "-c"]
        compile(code[2], "command", "exec")


def test_compute_capabilities_are_numbers_without_a_dot() -> None:
    options = BuildOptions(backend="tensorrt-rtx", compute_capabilities=("8.9", "12.0"))
    assert "tensorrt_rtx --onnx=m.onnx --computeCapabilities=89,120" in trtexec_command(Path("m.onnx"), options)
    here = BuildOptions(backend="tensorrt-rtx", compute_capabilities=("current",))
    assert "--useGpu" in trtexec_command(Path("m.onnx"), here)


# --- what the library prints ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            (
                "IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error (Network has dynamic or shape inputs. "
                "In validate at /_src/optimizer/api/network.cpp:4023)"
            ),
            "Error Code 4: API Usage Error (Network has dynamic or shape inputs.)",
        ),
        (
            (
                "[graphScope.cpp::analyze::471] Error Code 2: Internal Error (Assertion failed.  In analyze at "
                "/_src/optimizer/common/graphScope.cpp:471)"
            ),
            "Error Code 2: Internal Error (Assertion failed.)",
        ),
        (
            (
                "[checkMacros.cpp::catchCudaError::250] Error Code 1: Cuda Runtime (In catchCudaError at "
                "/_src/common/dispatch/checkMacros.cpp:250 (cudaError 35: CUDA driver version is insufficient))"
            ),
            "",
        ),
    ],
)
def test_messages_lose_places_in_the_sources_of_the_library(message: str, expected: str) -> None:
    assert plain(message) == expected


def test_the_plan_ends_with_the_tensors() -> None:
    message = "Layers:\nName: a\n\nI/O Tensors:\n Name: x\n\nEngine Metadata:\n Multi-Device: Disabled\n"
    assert plan_text(message) == "Layers:\nName: a\n\nI/O Tensors:\n Name: x\n"


# --- the real TensorRT-RTX, which needs no GPU to build ---------------------------------------------


def real(tmp_path: Path, model: Path, **named: Any) -> BuiltEngine:
    options = BuildOptions(backend="tensorrt-rtx", **named)
    return build(model, options, cache_dir=tmp_path / "cache")


@needs_rtx
@pytest.mark.process
def test_the_gemv_of_the_story_is_one_kernel(tmp_path: Path) -> None:
    engine = real(tmp_path, SAMPLES / "gemv.onnx")
    layers = re.findall(r"^Name: (.*?), LayerType: (\w+)", engine.plan_text, re.MULTILINE)
    assert len(layers) == 1
    assert layers[0][1] == "kgen"
    assert engine.plan_text.splitlines()[0] == "Layers:"
    assert "\nI/O Tensors:\n" in engine.plan_text
    assert "Dimensions: [600,200,8,1,64]" in engine.plan_text
    assert engine.layer_info == "" or json.loads(engine.layer_info)
    assert load_engine(engine.plan, "tensorrt-rtx").versions["tensorrt-rtx"] == engine.versions["tensorrt-rtx"]


@needs_rtx
@pytest.mark.nightly
@pytest.mark.parametrize("fp16", [False, True])
def test_a_real_plan_names_the_nodes_of_the_file(fp16: bool, tmp_path: Path) -> None:
    model = SAMPLES / "resnet_tiny.onnx"
    engine = real(tmp_path, model, shapes={"image": (1, 3, 64, 64)}, fp16=fp16)
    named = set(re.findall(r"\[ONNX Layer: ([^\]]*)\]", engine.plan_text))
    assert engine.precision is not None
    known = {node.name for node in onnx.load(model).graph.node} | set(engine.precision.added_nodes)
    assert len(named) > 20
    assert named <= known
    assert ("Datatype: Half" in engine.plan_text) == fp16
    assert engine.precision.way == ("converted" if fp16 else "as in the file")
    if fp16:
        assert len(engine.precision.added_nodes) == 2


@needs_rtx
@pytest.mark.nightly
def test_real_profiles_leave_dims_open(tmp_path: Path) -> None:
    profiles = tuple(
        {"image": ShapeRange(min=(low, 3, 64, 64), opt=(high, 3, 64, 64), max=(high, 3, 64, 64))}
        for low, high in ((1, 8), (16, 32))
    )
    engine = real(tmp_path, SAMPLES / "resnet_tiny.onnx", profiles=profiles, compute_capabilities=("8.9",))
    assert "Dimensions: [-1,3,64,64]" in engine.plan_text
    assert "MaxShape: [32,3,64,64]" in engine.plan_text


@needs_rtx
@pytest.mark.nightly
def test_real_refusals_name_the_cause(tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        real(tmp_path, SAMPLES / "qdq_cnn.onnx")
    assert "(QuantizeLinear) of qdq_cnn.onnx" in caught.value.what
    assert "Non-zero zero point is not supported" in caught.value.why
    assert "int8" in caught.value.fix
    assert kept_engines(tmp_path) == []


@needs_rtx
@pytest.mark.nightly
def test_a_real_internal_error_names_the_control_flow(tmp_path: Path) -> None:
    model = captured("onnx", "silero_vad_16k_op15.onnx")
    with pytest.raises(BuildError) as caught:
        real(tmp_path, model, shapes={"input": (1, 576), "state": (2, 1, 128)})
    assert "Internal Error" in caught.value.why
    assert "/_src/" not in caught.value.why
    assert "If nodes" in caught.value.fix


@needs_rtx
@pytest.mark.nightly
def test_a_real_engine_that_is_cut_off_is_told(tmp_path: Path) -> None:
    engine = real(tmp_path, SAMPLES / "gemv.onnx")
    cut = tmp_path / "cut.engine"
    cut.write_bytes(engine.plan.read_bytes()[:-1])
    with pytest.raises(UsageError) as caught:
        load_engine(cut, "tensorrt-rtx")
    assert "cut off" in refused(caught.value)
    with pytest.raises(UsageError, match="no engine of TensorRT"):
        load_engine(engine.plan, "tensorrt")


def test_a_build_that_dies_of_a_full_disk_says_so(
    stubbed: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stubbed("11.4.0.106")

    def dies(_command: Any, log: Path, *_: Any) -> int:
        log.write_text("Traceback:\nOSError: [Errno 28] No space left on device: 'model.engine'")
        return 1

    monkeypatch.setattr(child, "run_telling", dies)
    with pytest.raises(MissingError, match="a file cannot be written"):
        built(tmp_path)
