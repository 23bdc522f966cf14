"""What goes to the process that builds with TensorRT, and what comes back."""

from __future__ import annotations

from typing import Literal

import msgspec

PLAN_FILE = "model.engine"
PLAN_TEXT_FILE = "plan.txt"
LAYER_INFO_FILE = "layers.json"
RESULT_FILE = "build.json"


class ShapeRange(msgspec.Struct, frozen=True, kw_only=True):
    """Smallest, optimal and largest dims of an input; for a shape tensor these are its values."""

    min: tuple[int, ...]
    opt: tuple[int, ...]
    max: tuple[int, ...]


class BuildOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine is built with; None leaves a setting to the library. Verbosity is always detailed."""

    backend: str = "tensorrt"  # ``tensorrt`` or ``tensorrt-rtx``
    shapes: dict[str, tuple[int, ...]] = {}  # Dims by input, the same as one profile with min = opt = max
    profiles: tuple[dict[str, ShapeRange], ...] = ()  # Optimisation profiles: ranges by input
    fp16: bool = False  # Compute in fp16 where the builder finds it faster; see `tensorrt.precision_way`
    bf16: bool = False  # The same for bf16
    int8: bool = False  # The same for int8, of a model that holds the scales (QuantizeLinear)
    fp8: bool = False  # The same for fp8
    tf32: bool = True  # Whether fp32 products may run in TF32
    strongly_typed: bool = False  # Take all types from the ONNX file; TensorRT 11 and RTX always do
    workspace_bytes: int | None = None  # Limit of the memory inside a layer
    builder_optimization_level: int | None = None  # 0 to 5; higher levels try more
    timing_cache: str = ""  # File of measured tactics, read before the build and written after it
    compute_capabilities: tuple[str, ...] = ()  # GPUs that a TensorRT-RTX engine is built for: ``8.9``, or ``current``
    static_plugins: tuple[str, ...] = ()  # Libraries with plugins
    max_aux_streams: int | None = None  # Streams beside the main one; 0 runs layers one after the other
    tactic_sources: str = ""  # Where kernels are from, as trtexec spells it: ``-EDGE_MASK_CONVOLUTIONS,+CUBLAS``
    build_route: str = ""  # Knobs of the compiler, as TensorRT 11.1 spells them: ``-copy_ppg=off -peep:max=2``

    def all_profiles(self) -> tuple[dict[str, ShapeRange], ...]:
        """The profiles, with ``shapes`` as the only one where they are given."""
        if not self.shapes:
            return self.profiles
        return ({name: ShapeRange(min=dims, opt=dims, max=dims) for name, dims in self.shapes.items()},)


class Precision(msgspec.Struct, frozen=True, kw_only=True):
    """How the precision of an engine came about."""

    asked: str  # ``fp32`` (that is: none), ``fp16``, ``bf16`` or ``fp16+bf16``
    # ``as in the file``, ``builder flag`` (the builder may use it) or ``converted`` (the ONNX file was, and all types
    # are taken from it).
    way: Literal["as in the file", "builder flag", "converted"]
    converter: str = ""  # Package and version that converted the file
    added_nodes: tuple[str, ...] = ()  # Cast nodes that the conversion put into the graph, in graph order


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the child does: build ``model`` into ``folder``, or look into the engine file ``plan``."""

    folder: str
    scratch: str
    options: BuildOptions
    model: str = ""
    external_data: str = ""
    plan: str = ""
    inspect: bool = False  # Whether to try the inspector on the engine, which needs a driver


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What was built; kept beside the engine."""

    versions: dict[str, str]  # Of the library and the converter
    precision: Precision | None = None  # None for an engine that was only looked into
    build_ns: int = 0  # From the start of the parser to the engine; the start of the process is not in it
    network_layers: int = 0  # Layers of the network before the builder fused them
    warnings: tuple[str, ...] = ()  # What the library and the converter warned of, each once
