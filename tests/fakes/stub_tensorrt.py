"""A TensorRT that builds nothing: what its versions have is taken from `tensorrt_names.NAMES`.

TensorRT itself needs a GPU to build. The stub lets the way through a build be tested without: it refuses
every name that the list denies the version, and the list is tested against the real bindings of each
version (test_dialect.py). The engine that it "builds" is a JSON text of everything that was set.

Scenarios are words in ``STUB_TENSORRT``, separated by spaces.
"""

from __future__ import annotations

import enum
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx

from tests.fakes.tensorrt_names import NAMES
from trtprof.runtime.tensorrt_module import parse_version

TAGS = {"tensorrt": b"ftrt", "tensorrt_rtx": b"vtrt"}


def install(folder: Path, version: str, module: str = "tensorrt") -> None:
    """Put a package of the stub into a folder, to be put on the path."""
    package = folder / module
    package.mkdir(parents=True)
    here = Path(__file__).resolve().parents[2]
    (package / "__init__.py").write_text(
        f"import sys\nsys.path.insert(0, {str(here)!r})\n"
        f"from tests.fakes.stub_tensorrt import fill\n"
        f"__version__ = {version!r}\nfill(sys.modules[__name__], __version__)\n"
    )
    metadata = folder / f"{module}-{version}.dist-info"
    metadata.mkdir()
    name = module.replace("_", "-")
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def scenario(word: str) -> bool:
    return word in os.environ.get("STUB_TENSORRT", "").split()


def fill(module: ModuleType, version: str) -> None:
    """Give a module the names that the version has."""
    rtx = module.__name__ == "tensorrt_rtx"
    numbers = parse_version(version)
    allowed: dict[str, set[str]] = {}
    for name in NAMES:
        if name.expected(numbers, rtx=rtx):
            owner, _, member = name.path.rpartition(".")
            allowed.setdefault(owner, set()).add(member)

    def enumeration(name: str, **values: int) -> Any:
        kept = {member: value for member, value in values.items() if member in allowed.get(name, set())}
        return enum.IntEnum(name, kept) if kept else None

    class Bound:
        """Like a pybind11 class: what it does not have cannot be set."""

        def __setattr__(self, name: str, value: object) -> None:
            if not name.startswith("_") and not hasattr(type(self), name):
                raise AttributeError(f"{type(self).__name__} of {version} has no {name}")
            super().__setattr__(name, value)

    severity = enum.Enum("severity", ["INTERNAL_ERROR", "ERROR", "WARNING", "INFO", "VERBOSE"])
    strongly = 0 if numbers >= (11,) or rtx else 1
    flags = enumeration("NetworkDefinitionCreationFlag", EXPLICIT_BATCH=0, STRONGLY_TYPED=strongly)
    builder_flag = enumeration("BuilderFlag", FP16=0, BF16=1, INT8=2, FP8=3, TF32=6)
    capability = enumeration("ComputeCapability", NONE=0, CURRENT=1, SM75=75, SM80=80, SM86=86, SM89=89, SM120=120)
    verbosity = enumeration("ProfilingVerbosity", DETAILED=2)
    pool = enumeration("MemoryPoolType", WORKSPACE=0)
    source = enumeration(
        "TacticSource", CUBLAS=0, CUBLAS_LT=1, CUDNN=2, EDGE_MASK_CONVOLUTIONS=3, JIT_CONVOLUTIONS=4
    )  # fmt: skip
    mode = enumeration("TensorIOMode", INPUT=1)
    information = enumeration("LayerInformationFormat", JSON=1)

    class ILogger:
        """Base of loggers; subclasses are Python and take any attribute."""

        INTERNAL_ERROR, ERROR, WARNING, INFO, VERBOSE = severity

    class IPluginRegistry(Bound):
        def load_library(self, path: str) -> object | None:
            return None if "broken" in path else object()

    class IOptimizationProfile(Bound):
        def __init__(self) -> None:
            self._shapes: dict[str, list[Any]] = {}

        def set_shape(self, name: str, low: Any, best: Any, high: Any) -> None:
            self._shapes[name] = ["shape", low, best, high]

        def set_shape_input(self, name: str, low: Any, best: Any, high: Any) -> None:
            self._shapes[name] = ["values", low, best, high]

    class ITimingCache(Bound):
        def __init__(self, blob: bytes) -> None:
            self._blob = blob

        def serialize(self) -> bytes:
            return b"cache of " + version.encode()

    class IBuilderConfig(Bound):
        profiling_verbosity: Any = None
        builder_optimization_level: Any = None
        max_aux_streams: Any = None
        progress_monitor: Any = None
        build_route: str = ""
        num_compute_capabilities: int = 0

        def __init__(self) -> None:
            self._flags = {"TF32"}
            self._profiles: list[Any] = []
            self._pools: dict[str, int] = {}
            self._capabilities: dict[int, str] = {}
            self._cache: Any = None
            self._sources = 0b11000

        def get_tactic_sources(self) -> int:
            return self._sources

        def set_tactic_sources(self, sources: int) -> bool:
            self._sources = sources
            return True

        def set_flag(self, flag: Any) -> None:
            self._flags.add(flag.name)

        def clear_flag(self, flag: Any) -> None:
            self._flags.discard(flag.name)

        def add_optimization_profile(self, profile: IOptimizationProfile) -> int:
            if scenario("bad_profile"):
                return -1
            self._profiles.append(profile._shapes)
            return len(self._profiles) - 1

        def set_memory_pool_limit(self, which: Any, size: int) -> None:
            self._pools[which.name] = size

        def set_compute_capability(self, which: Any, index: int) -> bool:
            self._capabilities[index] = which.name
            return not scenario("no_capability")

        def create_timing_cache(self, blob: bytes) -> ITimingCache | None:
            return None if blob == b"damaged" else ITimingCache(blob)

        def set_timing_cache(self, cache: ITimingCache, ignore_mismatch: bool) -> bool:
            assert ignore_mismatch is False
            if cache._blob not in {b"", b"cache of " + version.encode()}:
                return False
            self._cache = cache
            return True

        def get_timing_cache(self) -> ITimingCache:
            assert self._cache is not None
            return self._cache  # type: ignore[no-any-return]

    class ITensor(Bound):
        def __init__(self, value: onnx.ValueInfoProto) -> None:
            self._value = value

        @property
        def name(self) -> str:
            return self._value.name

        @property
        def shape(self) -> tuple[int, ...]:
            dims = self._value.type.tensor_type.shape.dim
            return tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in dims)

        @property
        def is_shape_tensor(self) -> bool:
            return self._value.name == "sizes"

    class INetworkDefinition(Bound):
        def __init__(self, given: int) -> None:
            self._flags = given
            self._model = onnx.ModelProto()

        @property
        def num_inputs(self) -> int:
            return len(self._model.graph.input)

        @property
        def num_layers(self) -> int:
            return len(self._model.graph.node)

        def get_input(self, index: int) -> ITensor:
            return ITensor(self._model.graph.input[index])

    class ParserError(Bound):
        def __init__(self, place: int, node: onnx.NodeProto, text: str) -> None:
            self._place, self._node, self._text = place, node, text

        def code(self) -> str:
            return "ErrorCode.UNSUPPORTED_NODE"

        def desc(self) -> str:
            return self._text

        def func(self) -> str:
            return "importModel"

        def node(self) -> int:
            return self._place

        def node_name(self) -> str:
            return self._node.name

        def node_operator(self) -> str:
            return self._node.op_type

    class OnnxParser(Bound):
        def __init__(self, network: INetworkDefinition, _logger: Any) -> None:
            self._network = network
            self._errors: list[ParserError] = []

        @property
        def num_errors(self) -> int:
            return len(self._errors)

        def get_error(self, index: int) -> ParserError:
            return self._errors[index]

        def parse_from_file(self, path: str) -> bool:
            return self.parse(Path(path).read_bytes(), path)

        def parse(self, blob: bytes, path: str) -> bool:
            model = self._network._model = onnx.ModelProto.FromString(blob)
            self._network._model.doc_string = path
            for place, node in enumerate(model.graph.node):
                if node.domain == "my.ops":
                    text = 'creator && "Plugin not found, are the plugin name, version, and namespace correct?"'
                    self._errors.append(ParserError(place, node, text))
                elif node.op_type == "Unique":
                    self._errors.append(ParserError(place, node, "false"))
            return not self._errors

    class Builder(Bound):
        def __init__(self, logger: Any) -> None:
            if scenario("no_gpu"):
                logger.log(severity.ERROR, "CUDA initialization failure with error: 35")
                raise TypeError("pybind11::init(): factory function returned nullptr")
            self._logger = logger

        def get_plugin_registry(self) -> IPluginRegistry:
            return IPluginRegistry()

        def create_network(self, given: int) -> INetworkDefinition:
            return INetworkDefinition(given)

        def create_builder_config(self) -> IBuilderConfig:
            return IBuilderConfig()

        def create_optimization_profile(self) -> IOptimizationProfile:
            return IOptimizationProfile()

        def build_serialized_network(self, network: INetworkDefinition, config: IBuilderConfig) -> bytes | None:
            monitor = getattr(config, "progress_monitor", None)
            if monitor is not None:
                monitor.phase_start("Building engine", None, 2)
                monitor.phase_start("Timing tactics", "Building engine", 3)
                for step in range(3):
                    monitor.step_complete("Timing tactics", step)
                monitor.phase_finish("Timing tactics")
            self._disaster()
            self._logger.log(severity.WARNING, "a warning of the library")
            if scenario("refuses"):
                self._logger.log(
                    severity.ERROR,
                    "IBuilder::buildSerializedNetwork: Error Code 10: Internal Error (Could not find any "
                    "implementation for node conv. In computeCosts at /_src/optimizer/costs.cpp:4049)",
                )
                return None
            self._logger.log(severity.VERBOSE, "Layers:\nName: conv, LayerType: gemm, Metadata: \n\nBindings:\nx\ny\n")
            record = {
                "network_flags": network._flags, "flags": sorted(config._flags), "profiles": config._profiles,
                "pools": config._pools, "capabilities": config._capabilities, "model": network._model.doc_string,
                "verbosity": getattr(config.profiling_verbosity, "name", ""), "streams": config.max_aux_streams,
                "level": config.builder_optimization_level, "cache": config._cache is not None,
                "sources": config._sources, "route": getattr(config, "build_route", ""),
                "dtypes": [tensor.data_type for tensor in network._model.graph.initializer],
            }  # fmt: skip
            body = json.dumps(record).encode()
            head = TAGS[module.__name__] + bytes(12) + (28 + len(body)).to_bytes(8, "little")
            return head + bytes(min(number, 255) for number in (*numbers, 0, 0)[:4]) + body

        def _disaster(self) -> None:
            if scenario("segfault"):
                sys.stderr.write("assertion failed in the library\n")
                sys.stderr.flush()
                os.kill(os.getpid(), signal.SIGSEGV)
            if scenario("slow"):
                time.sleep(60)

    class EngineInspector(Bound):
        execution_context: Any = None

        def get_engine_information(self, which: Any) -> str:
            assert which is information.JSON
            shapes = getattr(self.execution_context, "_shapes", {})
            return json.dumps({"Layers": [], "Bindings": ["x"], "shapes": shapes})

    class IExecutionContext(Bound):
        def __init__(self) -> None:
            self._shapes: dict[str, Sequence[int]] = {}

        def set_input_shape(self, name: str, shape: Sequence[int]) -> bool:
            self._shapes[name] = shape
            return True

    class ICudaEngine(Bound):
        num_io_tensors = 2

        def get_tensor_name(self, index: int) -> str:
            return ("x", "y")[index]

        def get_tensor_mode(self, name: str) -> Any:
            return mode.INPUT if name == "x" else None

        def get_tensor_shape(self, _name: str) -> tuple[int, ...]:
            return (-1, 4)

        def get_tensor_profile_shape(self, _name: str, _profile: int) -> list[tuple[int, ...]]:
            return [(1, 4), (2, 4), (8, 4)]

        def create_engine_inspector(self) -> EngineInspector:
            return EngineInspector()

        def create_execution_context(self) -> IExecutionContext:
            return IExecutionContext()

    class Runtime(Bound):
        def __init__(self, logger: Any) -> None:
            self._logger = logger

        def __setattr__(self, name: str, value: object) -> None:
            assert name != "engine_host_code_allowed", "code for the host, embedded in an engine, stays refused"
            super().__setattr__(name, value)

        def deserialize_cuda_engine(self, _plan: bytes) -> ICudaEngine | None:
            if scenario("dies_loading"):
                os.kill(os.getpid(), signal.SIGSEGV)
            if scenario("other_version"):
                self._logger.log(
                    severity.ERROR,
                    "IRuntime::deserializeCudaEngine: Error Code 1: Serialization (Version tag does not match. "
                    "In readPlan at /_src/runtime/plan.cpp:12)",
                )
                return None
            return ICudaEngine()

    class IProgressMonitor:
        """Base of monitors; subclasses are Python and take any attribute."""

        def phase_start(self, phase: str, parent: str | None, steps: int) -> None: ...
        def step_complete(self, _phase: str, _step: int) -> bool:
            return True

        def phase_finish(self, phase: str) -> None: ...

    def init_libnvinfer_plugins(logger: Any, namespace: str) -> bool:
        return True

    found: dict[str, Any] = {
        "NetworkDefinitionCreationFlag": flags, "BuilderFlag": builder_flag, "ComputeCapability": capability,
        "ProfilingVerbosity": verbosity, "MemoryPoolType": pool, "TensorIOMode": mode,
        "LayerInformationFormat": information, "TacticSource": source,
    }  # fmt: skip
    for made in (
        ILogger, IPluginRegistry, IOptimizationProfile, ITimingCache, IBuilderConfig, ITensor, INetworkDefinition,
        ParserError, OnnxParser, Builder, EngineInspector, IExecutionContext, ICudaEngine, Runtime, IProgressMonitor,
    ):  # fmt: skip
        members = allowed.get(made.__name__, set())
        for member in [key for key in vars(made) if not key.startswith("_") and key not in members]:
            delattr(made, member)
        if members:  # a class with nothing left is one that the version has not
            found[made.__name__] = made
    for key, value in found.items():
        if value is not None:
            setattr(module, key, value)
    if "init_libnvinfer_plugins" in allowed[""]:
        module.init_libnvinfer_plugins = init_libnvinfer_plugins  # type: ignore[attr-defined]
