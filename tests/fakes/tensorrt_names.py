"""Every name that trtprof takes from the modules of TensorRT, and which versions have it."""

from __future__ import annotations

from typing import NamedTuple

from trtprof.runtime.tensorrt_module import Version


class Name(NamedTuple):
    """A name of the module, and which versions have it."""

    path: str
    """``Class.member``, or a name of the module itself."""
    since: Version | None = (8, 6)
    """First TensorRT that has it; None has none of them."""
    until: Version | None = None
    """First TensorRT that lacks it again."""
    rtx: bool = True
    """Whether TensorRT-RTX 1.5 and later have it."""

    def expected(self, version: Version, *, rtx: bool) -> bool:
        """Whether a version should have it."""
        if rtx:
            return self.rtx
        return self.since is not None and self.since <= version and (self.until is None or version < self.until)


_SEVERITIES = ("INTERNAL_ERROR", "ERROR", "WARNING", "INFO", "VERBOSE")

NAMES: tuple[Name, ...] = (
    *(Name(f"ILogger.{name}") for name in _SEVERITIES),
    Name("Builder.build_serialized_network"),
    Name("Builder.create_builder_config"),
    Name("Builder.create_network"),
    Name("Builder.create_optimization_profile"),
    Name("Builder.get_plugin_registry"),
    Name("IPluginRegistry.load_library"),
    Name("init_libnvinfer_plugins"),
    Name("NetworkDefinitionCreationFlag.EXPLICIT_BATCH", until=(11,), rtx=False),
    Name("NetworkDefinitionCreationFlag.STRONGLY_TYPED", since=(10,)),
    Name("INetworkDefinition.get_input"),
    Name("INetworkDefinition.num_inputs"),
    Name("INetworkDefinition.num_layers"),
    Name("ITensor.is_shape_tensor"),
    Name("ITensor.name"),
    Name("ITensor.shape"),
    Name("OnnxParser.get_error"),
    Name("OnnxParser.num_errors"),
    Name("OnnxParser.parse"),
    Name("OnnxParser.parse_from_file"),
    Name("ParserError.code"),
    Name("ParserError.desc"),
    Name("ParserError.func"),
    Name("ParserError.node"),
    Name("ParserError.node_name", since=(10,)),
    Name("ParserError.node_operator", since=(10,)),
    Name("BuilderFlag.BF16", since=(10,), until=(11,), rtx=False),
    Name("BuilderFlag.FP16", until=(11,), rtx=False),
    Name("BuilderFlag.FP8", until=(11,), rtx=False),
    Name("BuilderFlag.INT8", until=(11,), rtx=False),
    Name("BuilderFlag.TF32"),
    Name("MemoryPoolType.WORKSPACE"),
    *(Name(f"TacticSource.{name}", until=(11,), rtx=False) for name in ("CUBLAS", "CUBLAS_LT", "CUDNN")),
    *(Name(f"TacticSource.{name}") for name in ("EDGE_MASK_CONVOLUTIONS", "JIT_CONVOLUTIONS")),
    Name("ProfilingVerbosity.DETAILED"),
    Name("IBuilderConfig.add_optimization_profile"),
    Name("IBuilderConfig.build_route", since=(11, 1)),
    Name("IBuilderConfig.builder_optimization_level"),
    Name("IBuilderConfig.clear_flag"),
    Name("IBuilderConfig.create_timing_cache"),
    Name("IBuilderConfig.get_tactic_sources"),
    Name("IBuilderConfig.get_timing_cache"),
    Name("IBuilderConfig.max_aux_streams"),
    Name("IBuilderConfig.num_compute_capabilities", since=None),
    Name("IBuilderConfig.profiling_verbosity"),
    Name("IBuilderConfig.progress_monitor", since=(10,)),
    Name("IBuilderConfig.set_compute_capability", since=None),
    Name("IBuilderConfig.set_flag"),
    Name("IBuilderConfig.set_memory_pool_limit"),
    Name("IBuilderConfig.set_tactic_sources"),
    Name("IBuilderConfig.set_timing_cache"),
    Name("ITimingCache.serialize"),
    Name("IOptimizationProfile.set_shape"),
    Name("IOptimizationProfile.set_shape_input"),
    Name("IProgressMonitor.phase_finish", since=(10,)),
    Name("IProgressMonitor.phase_start", since=(10,)),
    Name("IProgressMonitor.step_complete", since=(10,)),
    Name("ComputeCapability.CURRENT", since=None),
    Name("ComputeCapability.NONE", since=None),
    *(Name(f"ComputeCapability.SM{number}", since=None) for number in (75, 80, 86, 89, 120)),
    Name("Runtime.deserialize_cuda_engine"),
    Name("ICudaEngine.create_engine_inspector"),
    Name("ICudaEngine.create_execution_context"),
    Name("ICudaEngine.get_tensor_mode"),
    Name("ICudaEngine.get_tensor_name"),
    Name("ICudaEngine.get_tensor_profile_shape"),
    Name("ICudaEngine.get_tensor_shape"),
    Name("ICudaEngine.num_io_tensors"),
    Name("TensorIOMode.INPUT"),
    Name("IExecutionContext.set_input_shape"),
    Name("EngineInspector.execution_context"),
    Name("EngineInspector.get_engine_information"),
    Name("LayerInformationFormat.JSON"),
)  # fmt: skip
"""Those that a build takes. Classes need no line of their own; ``__version__`` all have."""

RUN_NAMES = (
    "DataType", "ICudaEngine.create_execution_context", "ICudaEngine.get_tensor_components_per_element",
    "ICudaEngine.get_tensor_dtype", "ICudaEngine.get_tensor_location", "ICudaEngine.get_tensor_mode",
    "ICudaEngine.get_tensor_name", "ICudaEngine.get_tensor_profile_shape", "ICudaEngine.get_tensor_shape",
    "ICudaEngine.get_tensor_vectorized_dim", "ICudaEngine.num_aux_streams", "ICudaEngine.num_io_tensors",
    "ICudaEngine.num_optimization_profiles", "ICudaEngine.profiling_verbosity", "IExecutionContext.execute_async_v3",
    "IExecutionContext.get_tensor_shape", "IExecutionContext.infer_shapes", "IExecutionContext.nvtx_verbosity",
    "IExecutionContext.set_input_shape", "IExecutionContext.set_optimization_profile_async",
    "IExecutionContext.set_output_allocator", "IExecutionContext.set_tensor_address", "ILogger.__init__",
    "IOutputAllocator.__init__", "IPluginRegistry.load_library", "ProfilingVerbosity.DETAILED",
    "ProfilingVerbosity.LAYER_NAMES_ONLY", "ProfilingVerbosity.NONE", "Runtime.deserialize_cuda_engine",
    "TensorIOMode.INPUT", "TensorLocation.HOST", "get_plugin_registry", "init_libnvinfer_plugins",
)  # fmt: skip
"""Those that running an engine takes; all versions have them."""
RTX_NAMES = (
    "DynamicShapesKernelSpecializationStrategy.EAGER",
    "ICudaEngine.create_runtime_config",
    "IRuntimeConfig.dynamic_shapes_kernel_specialization_strategy",
)
"""Of TensorRT-RTX alone."""
