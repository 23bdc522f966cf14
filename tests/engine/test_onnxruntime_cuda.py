"""ONNX Runtime's CUDA engine without a GPU: the CPU provider stands in for it, or why there is none is said."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import msgspec
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.fakes.support import SAMPLES, ort_engine, refused
from trtprof.base.errors import BuildError, MissingError
from trtprof.engine.onnxruntime import layers_from_graph
from trtprof.runtime import ort_session
from trtprof.runtime.ort_session import CudaOptions, SessionRequest, make_session, placements

MODEL = SAMPLES / "resnet_tiny.onnx"
REQUEST = SessionRequest(model=str(MODEL), threads=1, provider="cuda")
LOG = (
    "\x1b[0;93m2026-11-21 11:41:37.769248084 [W:onnxruntime:Default, onnxruntime_pybind_state.cc:856 operator()] "
    "No registered plugin EP device found for 'CUDAExecutionProvider' with device_id=0\x1b[m\n"
    "\x1b[1;31m2026-11-21 11:41:37.770379390 [E:onnxruntime:Default, provider_bridge_ort.cc:2458 operator()] "
    "/onnxruntime_src/onnxruntime/core/session/provider_bridge_ort.cc:2043 onnxruntime::Provider& "
    "onnxruntime::ProviderLibrary::Get() [ONNXRuntimeError] : 1 : FAIL : Failed to load library "
    "/somewhere/capi/libonnxruntime_providers_cuda.so with error: libcublasLt.so.12: cannot open shared object file: "
    "No such file or directory\n\x1b[m\n"
    "\x1b[0;93m2026-11-21 11:41:37.772706169 [W:onnxruntime:Default, onnxruntime_pybind_state.cc:1295 "
    "CreateExecutionProviderFactoryInstance] Failed to create CUDAExecutionProvider. Require cuDNN 9.* and CUDA 12.*."
    "\x1b[m\n"
)


@pytest.fixture
def cpu_for_cuda(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The CPU provider under the name of the CUDA provider; the providers that sessions are made with."""
    asked: list[Any] = []
    made = onnxruntime.InferenceSession

    def session(model: Any, options: Any, providers: list[Any], **named: Any) -> Any:
        asked.append((providers, named))
        return made(model, options, providers=["CPUExecutionProvider"], **named)

    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    monkeypatch.setattr(ort_session, "CUDA_PROVIDER", "CPUExecutionProvider")
    monkeypatch.setattr(ort_session, "why_no_cuda_provider", lambda: "")
    return asked


# --- options --------------------------------------------------------------------------------


def test_options_are_given_in_the_words_of_onnxruntime() -> None:
    options = CudaOptions(device_id=1, use_tf32=False, enable_cuda_graph=True, gpu_mem_limit=5)
    assert options.as_given() == {
        "device_id": "1",
        "use_tf32": "0",
        "cudnn_conv_algo_search": "EXHAUSTIVE",
        "enable_cuda_graph": "1",
        "prefer_nhwc": "0",
        "gpu_mem_limit": "5",
    }
    assert "gpu_mem_limit" not in CudaOptions().as_given(), "0 would leave it nothing"


def test_options_stream_and_no_fallback_get_to_the_session(cpu_for_cuda: list[Any]) -> None:
    make_session(REQUEST, user_stream=4711)
    ((providers, named),) = cpu_for_cuda
    assert providers == [
        ("CPUExecutionProvider", {**CudaOptions().as_given(), "user_compute_stream": "4711"}),
        "CPUExecutionProvider",
    ]
    assert named == {"enable_fallback": 0}


# --- the engine -----------------------------------------------------------------------------


def test_layers_are_those_of_the_cpu_engine_where_the_provider_is_the_same(
    tmp_path: Path, cpu_for_cuda: list[Any]
) -> None:
    engine = ort_engine(REQUEST, tmp_path, "ort-cuda")
    cpu = ort_engine(msgspec.structs.replace(REQUEST, provider="cpu"), tmp_path)
    assert [layer.op for layer in engine.layers] == [layer.op for layer in cpu.layers]
    assert (engine.backend.name, cpu.backend.name) == ("ort-cuda", "ort-cpu")
    assert engine.backend.options["use_tf32"] == "1"
    assert set(cpu.backend.options) == {"graph_optimization_level", "execution_mode", "intra_op_threads"}
    known = {node.name for node in onnx.load(str(MODEL)).graph.node}
    assert set(engine.backend.options["nodes_on_cpu"].split(", ")) <= known
    assert "/stem/conv/Conv" in engine.backend.options["nodes_on_cpu"]


def test_a_session_of_the_cpu_notes_no_placements() -> None:
    assert placements(make_session(msgspec.structs.replace(REQUEST, provider="cpu"))) == ()
    assert placements(object()) == (), "as of an older ONNX Runtime"


def test_copies_between_the_providers_are_layout_layers() -> None:
    nodes = [
        helper.make_node("MemcpyFromHost", ["x"], ["a"], "Memcpy"),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("MemcpyToHost", ["b"], ["y"], "Memcpy_token_1"),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    model = helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:]))
    assert [layer.role for layer in layers_from_graph(model)] == ["layout", "compute", "layout"]


# --- why there is none ----------------------------------------------------------------------


def test_a_library_that_is_missing_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str, **_named: Any) -> None:
        if "cuda" in name:
            raise OSError("libcublasLt.so.12: cannot open shared object file: No such file or directory")

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: print("Failed to load x"), raising=False)  # noqa: T201
    monkeypatch.setattr(ctypes, "CDLL", load)
    with pytest.raises(MissingError) as caught:
        make_session(REQUEST)
    assert "libcublasLt.so.12: cannot open" in refused(caught.value)
    assert "onnxruntime-gpu[cuda,cudnn]" in caught.value.fix


def test_what_onnxruntime_prints_while_loading_stays_out_of_the_result(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: print("Failed to load x"), raising=False)  # noqa: T201
    ort_session.why_no_cuda_provider()
    assert capfd.readouterr().out == ""


def test_a_wheel_without_the_provider_is_said_to_be_the_wrong_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(MissingError) as caught:
        make_session(REQUEST)
    assert "built without the CUDA provider" in refused(caught.value)
    assert "onnxruntime-gpu" in caught.value.fix


def test_the_silent_fallback_is_an_error_that_quotes_the_log(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The real ONNX Runtime, which takes the CPU and only logs why."""
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime has no CUDA provider to fall back from")
    if not ort_session.why_no_cuda_provider():
        pytest.skip("the CUDA provider can be loaded here")
    monkeypatch.setattr(ort_session, "why_no_cuda_provider", lambda: "")
    with pytest.raises(MissingError) as caught:
        make_session(REQUEST)
    assert ".so" in refused(caught.value)
    assert "onnxruntime_src" not in str(caught.value)
    assert capfd.readouterr() == ("", ""), "what it logged is in the error"


def test_the_log_line_with_the_cause_is_found_among_the_others() -> None:
    assert ort_session._provider_failure(LOG) == (
        "libonnxruntime_providers_cuda.so cannot be loaded: libcublasLt.so.12: cannot open shared object file: "
        "No such file or directory"
    )
    assert ort_session._provider_failure("".join(LOG.splitlines(keepends=True)[-1:])).startswith(
        "Failed to create CUDAExecutionProvider"
    )
    assert ort_session._provider_failure("nothing of ONNX Runtime\n") == ""


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("CUDA failure 100: no CUDA-capable device is detected ; GPU=-1 ; hostname=h ; file=c.cc", MissingError),
        ("This session cannot use the graph capture feature as requested", BuildError),
    ],
)
def test_a_gpu_that_is_not_there_is_missing_and_a_model_that_is_refused_is_not(
    text: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(*_given: Any, **_named: Any) -> None:
        raise RuntimeError(text)

    monkeypatch.setattr(ort_session, "why_no_cuda_provider", lambda: "")
    monkeypatch.setattr(onnxruntime, "InferenceSession", refusing)
    with pytest.raises(error) as caught:
        make_session(REQUEST)
    assert text.split(" ;", maxsplit=1)[0] in str(caught.value)
