"""The one way to make an ONNX Runtime session, shared by the stages that build, run and measure.

Engine, capture and calibration must use the same options, or their numbers are not of one thing.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from onnx import GraphProto, ModelProto

from profiler import onnx_graph
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


_NOISE = (
    (re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : "), ""),
    (re.compile(r"^(?:Load model from .*? failed: ?)+"), ""),
    (re.compile(r"^(?:Fatal error|Error in execution): "), ""),
    (
        re.compile(r"^Non-zero status code returned while running (\w+) node\. Name:('.*?') Status Message: "),
        r"\1 \2: ",
    ),
    # A place in the sources, and the function there: a C++ signature behind a path, else one word.
    (
        re.compile(
            r"\S+\.(?:cc|h|cpp):\d+ "
            r"(?:[^()]*?::~?\w+\((?:[^()]|\([^()]*\))*\)(?: const)?(?: \[with [^\]]*\])?|[\w:~]+) "
        ),
        "",
    ),
)
"""What to cut from ONNX Runtime's messages, and what to put in its place."""


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


class ScheduledNode(NamedTuple):
    """A node of an optimised graph, as ONNX Runtime schedules and times it.

    Attributes:
        name: Unique in the whole model; what trtprof calls the layer.
        graph: Path of the subgraph that holds it, after unique names.
        saved_name: Its name in the saved graph and in the profile, which may be empty or repeat.
        op_type: The profile calls a node without a name ``<op_type>_<number>``.
    """

    name: str
    graph: str
    saved_name: str
    op_type: str


def name_layers(model: ModelProto) -> tuple[ScheduledNode, ...]:
    """Give the nodes of a saved graph unique names, in place; the same file always gives the same.

    ONNX Runtime leaves the nodes of functions that it inlines without a name, and what it adds to a
    subgraph gets names that are unique in that subgraph alone.

    Returns:
        All nodes, a control node before its body, each graph in the order in which it runs.
    """
    scheduled: list[ScheduledNode] = []
    found = Counter(node.name for _, graph in onnx_graph.all_graphs(model.graph) for node in graph.node)
    taken = {name for name, count in found.items() if name and count == 1}

    def fresh(path: str, saved: str, stem: str) -> str:
        if saved and (found[saved] == 1 or (not path and saved not in taken)):
            return saved
        stem = name = f"{path}/{stem}" if path else stem
        counter = 0
        while name in taken:
            counter += 1
            name = f"{stem}_{counter}"
        return name

    def visit(graph: GraphProto, path: str) -> None:
        for index, node in enumerate(graph.node):
            saved = node.name
            # "#" keeps it apart from the numbers of the profile, which are not places in the file.
            node.name = fresh(path, saved, saved or f"{node.op_type}#{index}")
            taken.add(node.name)
            scheduled.append(ScheduledNode(node.name, path, saved, node.op_type))
            for attribute, body in onnx_graph.subgraphs(node):
                visit(body, onnx_graph.subgraph_path(node.name, attribute))

    visit(model.graph, "")
    return tuple(scheduled)


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
                fix = "use an op set that this onnxruntime knows, or replace the op; `trtprof inspect` lists all ops"
                if pattern is _NO_KERNEL[0]:
                    fix = "its CPU provider lacks the op in this data type: export in fp32, or replace the op"
                raise MissingError(
                    f"ONNX Runtime cannot run the op {groups['op'].strip(':')}{where} of {Path(model).name}",
                    why=text,
                    fix=fix,
                ) from None
        raise BuildError(
            f"ONNX Runtime cannot build {Path(model).name}", why=text, fix="`trtprof inspect` shows the graph as loaded"
        ) from None


def clean_message(error: BaseException) -> str:
    """ONNX Runtime's message without status code, path of the model, and place in its own sources."""
    text = " ".join(str(error).split())
    for noise, instead in _NOISE:
        text = noise.sub(instead, text)
    return text
