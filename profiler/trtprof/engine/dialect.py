"""What differs between TensorRT 8.6, 10, 11 and TensorRT-RTX: the only place that knows.

A `Dialect` is made of the imported module and asks the module itself what it has: enum values moved
between versions (``STRONGLY_TYPED`` is 1 in 10 and 0 in 11), flags and methods went. The tests list every
name of the module that trtprof uses and the versions that have it, check the list against the real bindings
of each version, and that no build uses a name which is not on it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from trtprof.base.errors import BuildError, MissingError, UsageError
from trtprof.runtime.tensorrt_module import PRODUCTS, Product, load_plugins, parse_version

RTX_CAPABILITIES = ("7.5", "8.0", "8.6", "8.9", "12.0", "12.1")
"""GPUs that TensorRT-RTX is made for: those of its documentation (architecture overview, 1.5: 7.5, 8.6, 8.9, 12.0 and
12.1) and of its enum ``ComputeCapability`` (8.0)."""


class ParseFailure(NamedTuple):
    """One error of the ONNX parser."""

    place: int  # Place of the node in its graph, -1 where it is none's fault
    node: str  # Name of the node; ``""`` before TensorRT 10, which tells the place alone
    op: str
    reason: str
    no_plugin: bool  # It took the op for a plugin's, as it has none of that name itself


class Dialect:
    """One installed TensorRT.

    Attributes:
        trt: The module.
        product: What it is.
        version: Its version as text.
        numbers: Its version as numbers.
    """

    def __init__(self, trt: Any, product: Product, version: str) -> None:
        self.trt = trt
        self.product = product
        self.version = version
        self.numbers = parse_version(version)

    @classmethod
    def of(cls, module: ModuleType | Any) -> Dialect:
        """The dialect of an imported module."""
        name = str(module.__name__).removesuffix("_bindings")
        product = next((product for product in PRODUCTS.values() if product.module == name), None)
        if product is None:
            raise MissingError(f"{module.__name__} is no TensorRT", fix=PRODUCTS["tensorrt"].install)
        dialect = cls(module, product, str(module.__version__))
        if dialect.numbers < product.oldest:
            oldest = ".".join(map(str, product.oldest))
            raise MissingError(
                f"{dialect.title} is too old", why=f"trtprof speaks {product.title} {oldest} and later",
                fix=f"pip install -U {product.packages[0]}",
            )  # fmt: skip
        return dialect

    @property
    def title(self) -> str:
        return f"{self.product.title} {self.version}"

    @property
    def is_rtx(self) -> bool:
        return self.product.module == "tensorrt_rtx"

    @property
    def takes_precision_flags(self) -> bool:
        """Whether the builder chooses the precision by flags; otherwise it is that of the ONNX file."""
        return hasattr(self.trt.BuilderFlag, "FP16")

    @property
    def has_timing_cache(self) -> bool:
        """Whether a timing cache serves: TensorRT-RTX times nothing at the build."""
        return not self.is_rtx

    def network_flags(self, *, strongly_typed: bool) -> int:
        """The flags of ``create_network``."""
        flag = self.trt.NetworkDefinitionCreationFlag
        flags = 0
        if hasattr(flag, "EXPLICIT_BATCH"):
            flags |= 1 << int(flag.EXPLICIT_BATCH)
        if not strongly_typed:
            return flags
        if not hasattr(flag, "STRONGLY_TYPED"):
            raise UsageError(
                f"{self.title} has no strongly typed networks", why="they came with TensorRT 10",
                fix="leave --stronglyTyped out, or update TensorRT",
            )  # fmt: skip
        return flags | 1 << int(flag.STRONGLY_TYPED)

    def create_network(self, builder: Any, *, strongly_typed: bool) -> Any:
        """An empty network; see `network_flags`."""
        return builder.create_network(self.network_flags(strongly_typed=strongly_typed))

    def has_precision_flag(self, precision: str) -> bool:
        """Whether the builder can be let compute in ``fp16``, ``bf16``, ``int8`` or ``fp8``."""
        return hasattr(self.trt.BuilderFlag, precision.upper())

    def set_precision_flag(self, config: Any, precision: str) -> None:
        """Let the builder compute in ``fp16``, ``bf16``, ``int8`` or ``fp8`` where it finds that faster."""
        flag = getattr(self.trt.BuilderFlag, precision.upper(), None)
        if flag is None:
            raise UsageError(
                f"{self.title} cannot choose {precision} by a flag",
                why="its builder has no such flag",
                fix="use --fp16, or another version of TensorRT",
            )
        config.set_flag(flag)

    def set_tf32(self, config: Any, *, on: bool) -> None:
        """Let fp32 products run in TF32 on tensor cores, or not; all versions do unless told."""
        (config.set_flag if on else config.clear_flag)(self.trt.BuilderFlag.TF32)

    def set_workspace(self, config: Any, size: int) -> None:
        """Limit the memory for intermediate results inside a layer, in bytes."""
        config.set_memory_pool_limit(self.trt.MemoryPoolType.WORKSPACE, size)

    def set_detailed(self, config: Any) -> None:
        """Keep everything about the layers in the engine, for the inspector and for NVTX."""
        config.profiling_verbosity = self.trt.ProfilingVerbosity.DETAILED

    def compute_capabilities(self) -> dict[str, Any]:
        """What an engine can be built for: ``8.9`` -> member, and ``current``; empty where it is always this GPU."""
        members = getattr(getattr(self.trt, "ComputeCapability", None), "__members__", {})
        found = {}
        for name, member in members.items():
            match = re.fullmatch(r"SM(\d+)(\d)", name)
            if match is not None:
                found[f"{match[1]}.{match[2]}"] = member
            elif name == "CURRENT":
                found["current"] = member
        return found

    def set_compute_capabilities(self, config: Any, wanted: Sequence[str]) -> None:
        """Build for these compute capabilities: ``("8.9", "12.0")``."""
        known = self.compute_capabilities()
        if not known:
            raise UsageError(
                f"{self.title} cannot build for compute capability {', '.join(wanted)}",
                why="it builds for the GPU that it runs on, and no other",
                fix="leave --computeCapabilities out, or use --backend tensorrt-rtx",
            )
        strange = [name for name in wanted if name not in known]
        if strange:
            raise UsageError(
                f"{self.title} does not build for compute capability {', '.join(strange)}",
                why=f"it knows {', '.join(known)}",
                fix=f"--computeCapabilities {next(iter(known))}",
            )
        config.num_compute_capabilities = len(wanted)
        for index, name in enumerate(wanted):
            if not config.set_compute_capability(known[name], index):
                raise BuildError(
                    f"{self.title} refuses compute capability {name}",
                    why="the GPU is not there" if name == "current" else "its own check of the number failed",
                    fix="leave --computeCapabilities out: the engine then serves all GPUs that it can",
                )

    def set_tactic_sources(self, config: Any, spec: str) -> None:
        """Switch sources of kernels on and off, all others staying as they are: ``+CUBLAS,-CUDNN``."""
        known = self.trt.TacticSource.__members__
        chosen = int(config.get_tactic_sources())
        for text in filter(None, (part.strip() for part in spec.split(","))):
            name = text.lstrip("+-").upper()
            if text[0] not in "+-" or name not in known:
                raise UsageError(
                    f"--tacticSources {text} is not possible with {self.title}",
                    why=f"it takes + or - before {', '.join(known)}",
                    fix="leave it away" if name not in known else f"--tacticSources=+{name}",
                )
            bit = 1 << int(known[name])
            chosen = chosen | bit if text[0] == "+" else chosen & ~bit
        config.set_tactic_sources(chosen)

    def set_build_route(self, config: Any, route: str) -> None:
        """Turn knobs of the compiler: ``-copy_ppg=off -peep:max=2``; an unknown one is refused by the build."""
        if self.is_rtx or not hasattr(config, "build_route"):
            raise UsageError(
                f"{self.title} takes no build route", why="TensorRT 11.1 and later do", fix="leave --setBuildRoute away"
            )
        config.build_route = route

    def set_progress(self, config: Any, report: Callable[[str, str, int, int], None]) -> Any:
        """Have ``report(phase, parent phase, step, steps)`` called while the builder works.

        Returns:
            What must be kept until the build is done; None where the version tells no progress.
        """
        if not hasattr(self.trt, "IProgressMonitor"):
            return None
        config.progress_monitor = monitor = _monitor_class(self.trt)(report)
        return monitor

    def load_plugins(self, builder: Any, logger: Any, libraries: Sequence[str]) -> None:
        """Make TensorRT's own plugins and those of the libraries known."""
        load_plugins(self.trt, self.title, logger, builder.get_plugin_registry, libraries, BuildError)

    def use_timing_cache(self, config: Any, stored: bytes) -> bool:
        """Attach a timing cache made of ``stored``; an empty one if that is of another version or device.

        Returns:
            Whether ``stored`` was taken.
        """
        if not self.has_timing_cache:
            raise UsageError(
                f"{self.title} has no use for a timing cache", why="it times no kernels while it builds",
                fix="leave --timingCacheFile out",
            )  # fmt: skip
        cache = config.create_timing_cache(stored)
        if cache is not None and config.set_timing_cache(cache, False):  # ignore_mismatch
            return True
        config.set_timing_cache(config.create_timing_cache(b""), False)
        return False

    def timing_cache(self, config: Any) -> bytes:
        """The timing cache as the build left it."""
        return bytes(config.get_timing_cache().serialize())

    def parse_failure(self, error: Any) -> ParseFailure:
        """An error of the parser in words; TensorRT 8 does not tell the node's name and op."""
        named = hasattr(error, "node_name")
        text = " ".join(str(error.desc()).split())
        code = str(error.code()).rpartition(".")[2]
        no_plugin = "Plugin not found" in text
        if no_plugin:
            reason = "it has no op of this name, and no plugin"
        elif text in {"", "false"}:  # an assertion without a message prints its condition
            reason = "it does not take this op"
        else:
            reason = text.removeprefix("Assertion failed: ")
        return ParseFailure(
            place=int(error.node()),
            node=str(error.node_name()) if named else "",
            op=str(error.node_operator()) if named else "",
            reason=f"{reason} ({code}, in {error.func()})",
            no_plugin=no_plugin,
        )

    def layer_information(self, engine: Any) -> str:
        """What the inspector says of all layers, as JSON text."""
        names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
        inputs = [name for name in names if engine.get_tensor_mode(name) == self.trt.TensorIOMode.INPUT]
        dynamic = [name for name in inputs if -1 in tuple(engine.get_tensor_shape(name))]
        inspector = engine.create_engine_inspector()
        if dynamic:
            context = engine.create_execution_context()
            for name in dynamic:
                context.set_input_shape(name, engine.get_tensor_profile_shape(name, 0)[1])
            inspector.execution_context = context
        return str(inspector.get_engine_information(self.trt.LayerInformationFormat.JSON))


@functools.cache
def _monitor_class(trt: Any) -> Any:
    class Monitor(trt.IProgressMonitor):  # type: ignore[misc]
        """Hands on where the builder is."""

        def __init__(self, report: Callable[[str, str, int, int], None]) -> None:
            trt.IProgressMonitor.__init__(self)
            self._report = report
            self._phases: dict[str, tuple[str, int]] = {}

        def phase_start(self, phase: str, parent: str | None, steps: int) -> None:
            self._phases[phase] = (parent or "", steps)
            self._report(phase, parent or "", 0, steps)

        def step_complete(self, phase: str, step: int) -> bool:
            parent, steps = self._phases.get(phase, ("", 0))
            self._report(phase, parent, step + 1, steps)
            return True

        def phase_finish(self, phase: str) -> None:
            self._phases.pop(phase, None)

    return Monitor
