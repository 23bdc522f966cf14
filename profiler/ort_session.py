"""The one way to make an ONNX Runtime session, shared by the stages that build, run and measure.

Engine, capture and calibration must use the same options, or their numbers are not of one thing.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from profiler.errors import BuildError, MissingError

PROVIDER = "CPUExecutionProvider"

SAVE_ENTRIES = {
    # Weights beside the graph, so that models over 2 GB can be saved and the graph stays small.
    "session.optimized_model_external_initializers_file_name": "weights.bin",
    "session.optimized_model_external_initializers_min_size_in_bytes": "1024",
}
"""Session entries for saving an optimised graph with its weights in a file that can be dropped."""

_NO_KERNEL = (
    re.compile(r"Could not find an implementation for (?P<op>\S+?)\(\d+\) node with name '(?P<node>[^']*)'"),
    re.compile(r"(?P<op>[\w.:]+)\(-?\d+\) is not a registered function/op"),
    re.compile(r"No [Oo]p registered for (?P<op>\S+) with domain_version of"),
    re.compile(r"Op type not supported: (?P<op>\S+)"),
)


class SessionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a session depends on, so that two processes make the same one.

    Attributes:
        model: The ONNX file to load.
        threads: Threads inside an op; 0 lets ONNX Runtime take one a physical core.
        external_data: Folder of the external weights when it is not the model's own.
    """

    model: str
    threads: int = 0
    external_data: str = ""


def make_session(request: SessionRequest, *, profile_prefix: str = "", save_to: str = "") -> Any:
    """An `onnxruntime.InferenceSession` with all graph optimisations, one node at a time.

    Args:
        request: Model and threads.
        profile_prefix: Turns the profiler on and names its file.
        save_to: Where to write the optimised graph; its weights go into ``weights.bin`` beside it.

    Raises:
        MissingError: ONNX Runtime has no kernel for an op; the message names it.
        BuildError: ONNX Runtime refuses the model for another reason.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.intra_op_num_threads = request.threads
    options.log_severity_level = 4  # errors come back as exceptions
    if profile_prefix:
        options.enable_profiling = True
        options.profile_file_prefix = profile_prefix
    if save_to:
        options.optimized_model_filepath = save_to
        for key, value in SAVE_ENTRIES.items():
            options.add_session_config_entry(key, value)
    model: str | bytes = request.model
    if request.external_data:
        # Only a model given as bytes may keep its weights in a folder that is not its own.
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", request.external_data)
        model = Path(request.model).read_bytes()
    with runtime_errors(request.model):
        session = ort.InferenceSession(model, options, providers=[PROVIDER])
    if save_to:
        Path(save_to).with_name("weights.bin").unlink(missing_ok=True)
    return session


@contextlib.contextmanager
def runtime_errors(model: str) -> Iterator[None]:
    """Turn ONNX Runtime's exceptions of session creation into ours, with the op named."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    try:
        yield
    except (
        state.Fail,
        state.InvalidArgument,
        state.InvalidGraph,
        state.InvalidProtobuf,
        state.NoSuchFile,
        state.NotImplemented,
        state.RuntimeException,
        RuntimeError,
    ) as error:
        text = clean_message(error)
        for pattern in _NO_KERNEL:
            found = pattern.search(text)
            if found:
                groups = found.groupdict()
                where = f" (node {groups['node']!r})" if groups.get("node") else ""
                raise MissingError(
                    f"ONNX Runtime cannot run the op {groups['op'].strip(':')}{where} of {Path(model).name}",
                    why=text,
                    fix="use an op set that this onnxruntime knows, or replace the op; `trtprof inspect` lists all ops",
                ) from None
        raise BuildError(
            f"ONNX Runtime cannot build {Path(model).name}", why=text, fix="`trtprof inspect` shows the graph as loaded"
        ) from None


def clean_message(error: BaseException) -> str:
    """ONNX Runtime's message without its prefix, status code and source line."""
    text = " ".join(str(error).split())
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", text)
    return re.sub(r"^\S+\.(?:cc|h):\d+ \S+ ", "", text)
