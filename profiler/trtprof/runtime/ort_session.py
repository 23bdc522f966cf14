"""The one way to make an ONNX Runtime session, shared by the stages that build, run and measure.

Engine, capture and calibration must use the same options, or their numbers are not of one thing.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from trtprof.base.errors import BuildError, MissingError
from trtprof.base.machine_errors import without_room
from trtprof.runtime.session_tuning import SessionTuning

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

PROVIDER = "CPUExecutionProvider"
CUDA_PROVIDER = "CUDAExecutionProvider"

COPY_OPS = frozenset({"MemcpyFromHost", "MemcpyToHost"})
"""Nodes that ONNX Runtime puts between providers (onnxruntime/core/optimizer/transformer_memcpy.cc)."""

SAVE_ENTRIES = {
    # Weights beside the graph, so that models over 2 GB can be saved and the graph stays small.
    "session.optimized_model_external_initializers_file_name": "weights.bin",
    "session.optimized_model_external_initializers_min_size_in_bytes": "1024",
}
"""Session entries for saving an optimised graph with its weights in a file that can be dropped."""

NUMBERED = re.compile(r"_token_\d+$")
"""Ending of the names of nodes and tensors that ONNX Runtime inserts; the numbers differ from session to session."""

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


class CudaOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the CUDA provider, under the names that ONNX Runtime has for them.

    The names and what they mean are those of ``OrtCUDAProviderOptionsV2``
    (onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.html#configuration-options).
    """

    device_id: int = 0  # The GPU, counted as CUDA does
    use_tf32: bool = True  # Whether products and convolutions of fp32 may run in TF32, as they do by default
    # How cuDNN finds its algorithm for a convolution: by trying all, by its own rules, or the one that it calls the
    # default.
    cudnn_conv_algo_search: Literal["EXHAUSTIVE", "HEURISTIC", "DEFAULT"] = "EXHAUSTIVE"
    # Whether the second inference and all after it are replays of a CUDA graph. The inputs and outputs must then stay
    # where they are, and every node must run on the GPU.
    enable_cuda_graph: bool = False
    prefer_nhwc: bool = False  # Whether convolutions run with channels last
    gpu_mem_limit: int = 0  # Bytes that the provider may take for tensors; 0 for all there are

    def as_given(self) -> dict[str, str]:
        """The options as ONNX Runtime reads them: words and 0 or 1; what is left to it is not named."""
        found = {
            "device_id": str(self.device_id),
            "use_tf32": str(int(self.use_tf32)),
            "cudnn_conv_algo_search": self.cudnn_conv_algo_search,
            "enable_cuda_graph": str(int(self.enable_cuda_graph)),
            "prefer_nhwc": str(int(self.prefer_nhwc)),
        }
        if self.gpu_mem_limit:
            found["gpu_mem_limit"] = str(self.gpu_mem_limit)
        return found


class SessionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a session depends on, so that two processes make the same one."""

    model: str  # The ONNX file to load
    threads: int = 0  # Threads inside an op; 0 lets ONNX Runtime take one a physical core
    external_data: str = ""  # Folder of the external weights when it is not the model's own
    # What runs the nodes: ``cpu``, or ``cuda`` and what it cannot run on the CPU.
    provider: Literal["cpu", "cuda"] = "cpu"
    cuda: CudaOptions = CudaOptions()  # Options of the CUDA provider; the CPU has none
    tuning: SessionTuning = SessionTuning()  # What else may make it faster or slower


NODE_EVENT_COLUMNS = ("start_ns", "end_ns", "layer", "provider", "iteration", "tid")
"""Columns of node events: one row a node that ran, and one with the layer ``""`` for each inference around them.

Times are in ns since the profile began (``InferenceSession.get_profiling_start_time_ns``), on the host: a node of the
CUDA provider ends when its kernels are enqueued. ``end_ns`` is the last moment that the cut-off microseconds allow.
``layer`` and ``provider`` (``CPU``, ``CUDA``) are categories; ``tid`` is the number of the thread as the system counts.
"""


class ScheduledNode(NamedTuple):
    """A node of an optimised graph, as ONNX Runtime schedules and times it."""

    name: str  # Unique in the whole model; what trtprof calls the layer
    graph: str  # Path of the subgraph that holds it, after unique names
    saved_name: str  # Its name in the saved graph and in the profile, which may be empty or repeat
    op_type: str  # The profile calls a node without a name ``<op_type>_<number>``


def name_layers(model: ModelProto) -> tuple[ScheduledNode, ...]:
    """Give the nodes of a saved graph unique names, in place; all sessions of a model give the same.

    Returns:
        All nodes, a control node before its body, each graph in the order in which it runs.
    """
    from trtprof.base import onnx_graph

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
            tensors = [tensor for tensor in (*node.output, *node.input) if tensor and not NUMBERED.search(tensor)]
            inserted = saved == node.op_type and node.domain == "com.microsoft.nchwc"  # the first has no number
            if tensors and (inserted or NUMBERED.search(saved)):
                node.name = fresh(path, "", f"{node.op_type}_{tensors[0]}")
            else:
                # "#" keeps it apart from the numbers of the profile, which are not places in the file.
                node.name = fresh(path, saved, saved or f"{node.op_type}#{index}")
            taken.add(node.name)
            scheduled.append(ScheduledNode(node.name, path, saved, node.op_type))
            for attribute, body in onnx_graph.subgraphs(node):
                visit(body, onnx_graph.subgraph_path(node.name, attribute))

    visit(model.graph, "")
    return tuple(scheduled)


def make_session(request: SessionRequest, *, profile_prefix: str = "", save_to: str = "", user_stream: int = 0) -> Any:
    """An `onnxruntime.InferenceSession`; unless it is tuned, with all graph optimisations, one node at a time.

    Args:
        save_to: Where to write the optimised graph; its weights go into ``weights.bin`` beside it.
        user_stream: The CUDA stream for the CUDA provider to work on, as an address; 0 for one of its own.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    request.tuning.apply(options)
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
    if request.provider == "cpu":
        with runtime_errors(request.model):
            session = ort.InferenceSession(model, options, providers=[PROVIDER])
    else:
        session = _cuda_session(request, model, options, user_stream)
    if save_to:
        Path(save_to).with_name("weights.bin").unlink(missing_ok=True)
    return session


class SessionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a session that was made."""

    build_ns: int
    threads: int  # Inside an op; 0 where ONNX Runtime chose
    placements: tuple[Placement, ...] = ()
    """Of the nodes on providers; empty on the CPU, and where this version does not tell."""


def timed_session(request: SessionRequest, **how: Any) -> tuple[Any, SessionFacts]:
    """Make a session as `make_session` does; return it with what is known of it."""
    began = time.perf_counter_ns()
    session = make_session(request, **how)
    build_ns = time.perf_counter_ns() - began
    threads = session.get_session_options().intra_op_num_threads
    where = placements(session) if request.provider != "cpu" else ()
    return session, SessionFacts(build_ns=build_ns, threads=threads, placements=where)


def _cuda_session(request: SessionRequest, model: str | bytes, options: Any, user_stream: int) -> Any:
    """A session of the CUDA provider, or the reason why there is none: ONNX Runtime itself falls back to the CPU."""
    import onnxruntime as ort

    require_cuda_provider()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    given = request.cuda.as_given()
    if user_stream:
        given["user_compute_stream"] = str(user_stream)
    with _standard_error() as log, runtime_errors(request.model):
        try:
            # Without the fallback of the Python layer, which prints to the standard output.
            session = ort.InferenceSession(
                model, options, providers=[(CUDA_PROVIDER, given), PROVIDER], enable_fallback=0
            )
        except Exception as error:
            if _NO_DEVICE.search(str(error)):
                raise no_cuda_provider(clean_message(error)) from None
            raise
    if CUDA_PROVIDER not in session.get_providers():
        why = _provider_failure("".join(log))
        raise no_cuda_provider(why or "ONNX Runtime took the CPU provider in its place and said no more")
    sys.stderr.write("".join(log))
    return session


def require_cuda_provider() -> None:
    """See that the CUDA provider can be loaded here; see `why_no_cuda_provider`."""
    why = why_no_cuda_provider()
    if why:
        raise no_cuda_provider(why)


def no_cuda_provider(why: str) -> MissingError:
    """The error of a CUDA provider that cannot be used, with what mends it."""
    library = re.search(r"lib(cublas|cudart|curand|cufft|cudnn|nvrtc)\w*\.so", why)
    if library:
        fix = f"pip install {_CUDA_LIBRARIES}, or put CUDA and cuDNN on LD_LIBRARY_PATH"
    elif "onnxruntime" in why and "built" in why:
        fix = "pip install onnxruntime-gpu in place of onnxruntime"
    else:
        fix = "check the driver with nvidia-smi and CUDA_VISIBLE_DEVICES, or use --backend ort-cpu"
    return MissingError("ONNX Runtime cannot use the GPU (CUDA provider)", why=why, fix=fix)


_CUDA_LIBRARIES = "'onnxruntime-gpu[cuda,cudnn]'"
_LOG_LINE = re.compile(r"^\W*(?:\[[\d;]*m)?\d{4}-\d\d-\d\d [\d:.]+ \[([WEF]):onnxruntime:[^\]]*\] ?(.*)")
_NO_DEVICE = re.compile(r"CUDA (?:failure|error)|cuda(?:Get|Set)Device|CUDNN failure|CUBLAS failure|libcuda\b")
_NOT_LOADED = re.compile(r"Failed to load library (?:\S*/)?(\S+) with error: (.+)")


def why_no_cuda_provider() -> str:
    """Why the CUDA provider of the installed ONNX Runtime cannot be loaded, in a line; empty where it can.

    The libraries of CUDA are loaded from where their Python packages put them, as ``onnxruntime.preload_dlls`` does.
    """
    import onnxruntime as ort

    if CUDA_PROVIDER not in ort.get_available_providers():
        return f"this onnxruntime {ort.__version__} was built without the CUDA provider"
    folder = Path(ort.__file__).parent / "capi"
    with contextlib.redirect_stdout(io.StringIO()):  # It prints what it does not find.
        ort.preload_dlls()
    for name in ("libonnxruntime_providers_shared.so", "libonnxruntime_providers_cuda.so"):
        try:
            ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            return f"{name} cannot be loaded: {error}"
    return ""


@contextlib.contextmanager
def _standard_error() -> Iterator[list[str]]:
    """A list that holds, when the block has ended, what was written to the standard error within, by C++ too."""
    log: list[str] = []
    with tempfile.TemporaryFile() as kept:
        before = os.dup(2)
        try:
            os.dup2(kept.fileno(), 2)
            yield log
        finally:
            os.dup2(before, 2)
            os.close(before)
            kept.seek(0)
            log.append(kept.read().decode(errors="replace"))


def _provider_failure(log: str) -> str:
    """The line of ONNX Runtime's log that says why a provider could not be made; empty where none does."""
    found: dict[str, str] = {}
    for line in log.splitlines():
        entry = _LOG_LINE.match(line)
        if entry is None or "plugin EP" in entry[2]:
            continue
        library = _NOT_LOADED.search(entry[2])
        text = f"{library[1]} cannot be loaded: {library[2]}" if library else clean_message(entry[2])
        found.setdefault(entry[1], text)
    return next((found[level] for level in "FEW" if level in found), "")


class Placement(NamedTuple):
    """A node and the provider that runs it."""

    node: str  # Its name before ONNX Runtime fused nodes for the provider, which may be empty
    op_type: str  # Its op
    provider: str  # ``CPU`` or ``CUDA``


def placements(session: Any) -> tuple[Placement, ...]:
    """Which provider takes which node; empty where the session does not tell."""
    try:
        subgraphs = session.get_provider_graph_assignment_info()
    except (AttributeError, RuntimeError):  # Older than 1.24, or not asked to note it.
        return ()
    except Exception as error:
        if type(error).__module__.startswith("onnxruntime"):
            return ()
        raise
    return tuple(
        Placement(node.name, node.op_type, short_provider(subgraph.ep_name))
        for subgraph in subgraphs
        for node in subgraph.get_nodes()
    )


def short_provider(provider: str) -> str:
    """The name of an execution provider in short: ``CPUExecutionProvider`` -> ``CPU``."""
    return provider.removesuffix("ExecutionProvider")


_LOOKED_FOR_ELSEWHERE = "External data path for model loaded from bytes escapes working directory"
"""What ONNX Runtime 1.31 says of the constant condition of an If: it looks for its file in the working folder."""


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
        full = without_room(error)
        if full is not None:
            raise full from None
        fix = "`trtprof inspect` shows the graph as loaded"
        if _LOOKED_FOR_ELSEWHERE in text:
            fix = "keep the condition of an If in the model, not in a file beside it (onnx.save with a size_threshold)"
        raise BuildError(f"ONNX Runtime cannot build {Path(model).name}", why=text, fix=fix) from None


def clean_message(error: BaseException | str) -> str:
    """ONNX Runtime's message without status code, path of the model, and place in its own sources."""
    text = " ".join(str(error).split())
    for noise, instead in _NOISE:
        text = noise.sub(instead, text)
    return text
