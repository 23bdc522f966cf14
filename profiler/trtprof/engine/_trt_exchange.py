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
    """What an engine is built with; None leaves a setting to the library. Verbosity is always detailed.

    Attributes:
        backend: ``tensorrt`` or ``tensorrt-rtx``.
        shapes: Dims by input, the same as one profile with min = opt = max.
        profiles: Optimisation profiles: ranges by input.
        fp16: Compute in fp16 where the builder finds it faster; see `tensorrt.precision_way`.
        bf16: The same for bf16.
        int8: The same for int8, of a model that holds the scales (QuantizeLinear).
        fp8: The same for fp8.
        tf32: Whether fp32 products may run in TF32.
        strongly_typed: Take all types from the ONNX file; TensorRT 11 and RTX always do.
        workspace_bytes: Limit of the memory inside a layer.
        builder_optimization_level: 0 to 5; higher levels try more.
        timing_cache: File of measured tactics, read before the build and written after it.
        compute_capabilities: GPUs that a TensorRT-RTX engine is built for: ``8.9``, or ``current``.
        static_plugins: Libraries with plugins.
        max_aux_streams: Streams beside the main one; 0 runs layers one after the other.
        tactic_sources: Where kernels are from, as trtexec spells it: ``-EDGE_MASK_CONVOLUTIONS,+CUBLAS``.
        build_route: Knobs of the compiler, as TensorRT 11.1 spells them: ``-copy_ppg=off -peep:max=2``.
    """

    backend: str = "tensorrt"
    shapes: dict[str, tuple[int, ...]] = {}
    profiles: tuple[dict[str, ShapeRange], ...] = ()
    fp16: bool = False
    bf16: bool = False
    int8: bool = False
    fp8: bool = False
    tf32: bool = True
    strongly_typed: bool = False
    workspace_bytes: int | None = None
    builder_optimization_level: int | None = None
    timing_cache: str = ""
    compute_capabilities: tuple[str, ...] = ()
    static_plugins: tuple[str, ...] = ()
    max_aux_streams: int | None = None
    tactic_sources: str = ""
    build_route: str = ""

    def all_profiles(self) -> tuple[dict[str, ShapeRange], ...]:
        """The profiles, with ``shapes`` as the only one where they are given."""
        if not self.shapes:
            return self.profiles
        return ({name: ShapeRange(min=dims, opt=dims, max=dims) for name, dims in self.shapes.items()},)


class Precision(msgspec.Struct, frozen=True, kw_only=True):
    """How the precision of an engine came about.

    Attributes:
        asked: ``fp32`` (that is: none), ``fp16``, ``bf16`` or ``fp16+bf16``.
        way: ``as in the file``, ``builder flag`` (the builder may use it) or ``converted`` (the ONNX
            file was, and all types are taken from it).
        converter: Package and version that converted the file.
        added_nodes: Cast nodes that the conversion put into the graph, in graph order.
    """

    asked: str
    way: Literal["as in the file", "builder flag", "converted"]
    converter: str = ""
    added_nodes: tuple[str, ...] = ()


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the child does: build ``model`` into ``folder``, or look into the engine file ``plan``."""

    folder: str
    scratch: str
    options: BuildOptions
    model: str = ""
    external_data: str = ""
    plan: str = ""
    inspect: bool = False
    """Whether to try the inspector on the engine, which needs a driver."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What was built; kept beside the engine.

    Attributes:
        versions: Of the library and the converter.
        precision: None for an engine that was only looked into.
        build_ns: From the start of the parser to the engine; the start of the process is not in it.
        network_layers: Layers of the network before the builder fused them.
        warnings: What the library and the converter warned of, each once.
    """

    versions: dict[str, str]
    precision: Precision | None = None
    build_ns: int = 0
    network_layers: int = 0
    warnings: tuple[str, ...] = ()
