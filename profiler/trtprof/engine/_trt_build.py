"""The child process that drives TensorRT: ``python -m trtprof.engine._trt_build REQUEST``.

It reads a `Request`, builds the engine or looks into one, and leaves its results in the folder of the
request. It is a process of its own so that a crash of the library, its memory and a Ctrl-C in the middle
of a build cost nothing else. Standard output is progress, a line a step, and nothing else.
"""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import onnx

from trtprof.base import onnx_graph
from trtprof.base.errors import BuildError, MissingError, UsageError
from trtprof.base.input_file import read_file
from trtprof.base.op_kinds import CONTROL
from trtprof.base.output_file import replace_file
from trtprof.base.progress import Line
from trtprof.base.units import format_bytes
from trtprof.engine import _convert
from trtprof.engine._trt_exchange import (
    LAYER_INFO_FILE,
    PLAN_FILE,
    PLAN_TEXT_FILE,
    RESULT_FILE,
    BuildOptions,
    Precision,
    Request,
    Result,
    ShapeRange,
)
from trtprof.engine.dialect import Dialect, ParseFailure
from trtprof.runtime import child
from trtprof.runtime.tensorrt_module import imported, product_of
from trtprof.runtime.tensorrt_module import logger as logger_of

Say = Callable[[str], None]

_REPORT_NS = 200_000_000  # Least time between two lines of progress inside a phase
_STEPS_TOLD = 3  # Steps of a phase after which what is left of it is estimated: the first ones are the longest
_SHOWN = 3  # Errors of the parser that are told; one often causes the others
_PLACE = re.compile(r"\s*In \w+ at /\S+:\d+|\[[\w.]+\.cpp::\w+::\d+\] |^[\w.]+\.cpp:\d+: |^I\w+::\w+: ")
"""Places in the library's own sources, which its messages carry."""
_NO_DRIVER = re.compile(
    r"\s*(?:\[[\w.]+\.cpp::\w+::\d+\] )?Error Code 1: Cuda Runtime \([^()]*\(cudaError 35: [^()]*\)\)"
)
"""Without a driver every error is followed by one about the driver, which is not its cause."""


class Log:
    """What the library says: the plan, warnings, errors."""

    def __init__(self) -> None:
        self.plan = ""
        self.warnings: dict[str, None] = {}
        self.errors: list[str] = []

    def take(self, severity: str, message: str) -> None:
        """One message of the library; several threads may call."""
        if severity in {"ERROR", "INTERNAL_ERROR"}:
            print(message, file=sys.stderr, flush=True)  # noqa: T201 - the log that a crash leaves
            self.errors.append(message)
        elif severity == "WARNING":
            self.warnings[plain(message)] = None
        elif message.startswith("Layers:"):
            self.plan = plan_text(message)

    def why(self) -> str:
        """The first error that names a cause."""
        return next(filter(None, map(plain, self.errors)), None) or next(
            iter(self.errors), "the library gave no reason"
        )


def plain(message: str) -> str:
    """A message of the library on one line, without places in its sources; empty if it only misses the driver."""
    return _PLACE.sub("", _NO_DRIVER.sub("", " ".join(message.split()))).strip()


def plan_text(message: str) -> str:
    """The plan of the engine: from ``Layers:`` to the end of ``I/O Tensors:`` (``Bindings:`` before TensorRT 11)."""
    return message.partition("\nEngine Metadata:")[0].rstrip() + "\n"


def main(argv: list[str]) -> int:
    """Entry point of the child; returns its exit code."""
    return child.answer(argv, Request, _run)


def _write_result(folder: Path, result: Result) -> Result:
    """Write what was built; its presence says that engine and plan are whole."""
    replace_file(folder / RESULT_FILE, msgspec.json.format(msgspec.json.encode(result), indent=1))
    return result


def _say(text: str) -> None:
    """A line of progress; the library calls from several threads."""
    sys.stdout.write(text.replace("\n", " ") + "\n")
    sys.stdout.flush()


def _run(request: Request) -> Result:
    folder, log = Path(request.folder), Log()
    dialect = Dialect.of(imported(product_of(request.options.backend)))
    if request.plan:
        return _look_into(dialect, request, folder, log)
    return _write_result(folder, build(dialect, request, folder, log, _say))


def build(dialect: Dialect, request: Request, folder: Path, log: Log, say: Say) -> Result:
    """Build the engine of a request; engine, plan and, where there is a driver, the inspector's JSON."""
    options = request.options
    original = Path(request.model)
    external = Path(request.external_data) if request.external_data else original.parent
    model, precision, warned = _at_precision(dialect, options, original, external, Path(request.scratch), say)
    began = time.perf_counter_ns()
    logger = logger_of(dialect.trt, log.take)
    builder = _builder(dialect, logger, log)
    dialect.load_plugins(builder, logger, options.static_plugins)
    strongly_typed = options.strongly_typed or precision.way == "converted"
    network = dialect.create_network(builder, strongly_typed=strongly_typed)
    say(f"parsing {original.name} with {dialect.title}")
    parser = _parsed(dialect, network, logger, model, external if model == original else model.parent, log)
    config = builder.create_builder_config()
    monitor = dialect.set_progress(config, _phases(say))
    cache_taken = _configure(dialect, options, precision, config)
    for profile in _profiles(dialect, network, builder, options):
        if config.add_optimization_profile(profile) < 0:
            raise BuildError(
                f"{dialect.title} refuses the shapes of a profile",
                why=log.why(),
                fix="give dims with min <= opt <= max for every dynamic input",
            )
    layers = int(network.num_layers)
    say(f"building {layers} network layers")
    plan = builder.build_serialized_network(network, config)
    build_ns = time.perf_counter_ns() - began
    if plan is None:
        raise _refused(dialect, original, log)
    del monitor, parser  # the builder calls the one, and reads weights that the other owns
    (folder / PLAN_FILE).write_bytes(plan)
    (folder / PLAN_TEXT_FILE).write_text(log.plan, encoding="utf-8")
    warned += _keep_timing_cache(dialect, options, config, taken=cache_taken)
    if not log.plan:
        warned += (f"{dialect.title} printed no plan while it built",)
    result = Result(
        versions=_versions(dialect, precision),
        precision=precision,
        build_ns=build_ns,
        network_layers=layers,
        warnings=(*warned, *log.warnings),
    )
    if not request.inspect:
        return result
    # What is built is not to be lost where the library dies over its own engine.
    _write_result(folder, result)
    say("reading the layers of the engine")
    problems = _inspected(dialect, logger, bytes(plan), folder, log)
    return msgspec.structs.replace(result, warnings=(*problems, *warned, *log.warnings))


def _look_into(dialect: Dialect, request: Request, folder: Path, log: Log) -> Result:
    logger = logger_of(dialect.trt, log.take)
    dialect.load_plugins(_builder(dialect, logger, log), logger, request.options.static_plugins)
    problems = _inspected(dialect, logger, Path(request.plan).read_bytes(), folder, log)
    return Result(versions=_versions(dialect, None), warnings=(*problems, *log.warnings))


def _versions(dialect: Dialect, precision: Precision | None) -> dict[str, str]:
    versions = {dialect.product.backend: dialect.version, "onnx": onnx.__version__}
    if precision is not None and precision.converter:
        versions["onnxruntime"] = precision.converter.rpartition(" ")[2]
    return versions


def _at_precision(
    dialect: Dialect, options: BuildOptions, model: Path, external: Path, scratch: Path, say: Say
) -> tuple[Path, Precision, tuple[str, ...]]:
    asked, warned = _with_scales(options, model)
    text = "+".join(asked) or "fp32"
    wide = [name for name in asked if name in ("fp16", "bf16")]
    if asked and dialect.takes_precision_flags and not options.strongly_typed:
        # --best is what the version has of it.
        had = [name for name in asked if len(asked) == 1 or dialect.has_precision_flag(name)]
        text = "+".join(had or asked)
        return model, Precision(asked=text, way="builder flag"), warned
    if not wide:
        return model, Precision(asked=text, way="as in the file"), warned
    if len(wide) > 1:
        raise UsageError(
            f"{dialect.title} chooses no precision",
            why="it takes all types from the ONNX file: --best and several flags are of TensorRT up to 10",
            fix="--fp16",
        )
    if not _convert.has_fp32(onnx.load(str(model), load_external_data=False)):
        nothing = f"nothing in {model.name} is fp32: built as it is"
        return model, Precision(asked=text, way="as in the file"), (*warned, nothing)
    if options.bf16:
        # ONNX Runtime's converter makes fp16 alone.
        raise UsageError(
            f"{model.name} cannot be built in bf16 as it is",
            why=f"{dialect.title} takes all types from the ONNX file, and trtprof has no converter to bf16",
            fix="convert it first: `python -m modelopt.onnx.autocast --onnx_path "
            f"{model} --output_path {model.stem}_bf16.onnx --low_precision_type bf16`, or use --fp16",
        )
    say(f"converting {model.name} to fp16")
    converted = _convert.to_fp16(model, external, scratch)
    precision = Precision(asked=text, way="converted", converter=converted.converter, added_nodes=converted.added_nodes)
    return converted.path, precision, (*warned, *converted.warnings)


def _with_scales(options: BuildOptions, model: Path) -> tuple[list[str], tuple[str, ...]]:
    """The precisions that are asked for and possible, and what is to be said of the others."""
    asked = [name for name in ("fp16", "bf16", "int8", "fp8") if getattr(options, name)]
    narrow = [name for name in asked if name in ("int8", "fp8")]
    if not narrow:
        return asked, ()
    nodes = onnx.load(str(model), load_external_data=False).graph.node
    if any(node.op_type in ("QuantizeLinear", "DequantizeLinear") for node in nodes):
        return asked, ()
    why = "it holds no QuantizeLinear and DequantizeLinear, and scales are not made up"
    if narrow == asked:
        raise UsageError(
            f"{model.name} cannot be built in {' and '.join(narrow)}",
            why=why,
            fix="quantise it first: `python -m modelopt.onnx.quantization --onnx_path "
            f"{model} --quantize_mode {narrow[0]}`; `trtprof predict --dtype {narrow[0]}` says what it would bring",
        )
    return [name for name in asked if name not in narrow], (f"no {' and '.join(narrow)} in {model.name}: {why}",)


def _builder(dialect: Dialect, logger: Any, log: Log) -> Any:
    try:
        builder = dialect.trt.Builder(logger)
    except TypeError:  # what the bindings make of a null pointer
        builder = None
    if builder is None:
        raise MissingError(
            f"{dialect.title} does not start",
            why=log.why(),
            fix="it needs an NVIDIA GPU and driver; TensorRT-RTX builds without: --backend tensorrt-rtx",
        )
    return builder


def _parsed(dialect: Dialect, network: Any, logger: Any, model: Path, external: Path, log: Log) -> Any:
    parser = dialect.trt.OnnxParser(network, logger)
    if external == model.parent:
        parsed = parser.parse_from_file(str(model))
    else:
        # External weights are looked for beside the path that the parser is told.
        parsed = parser.parse(model.read_bytes(), str(external / model.name))
    if parsed:
        return parser
    failures = [dialect.parse_failure(parser.get_error(index)) for index in range(parser.num_errors)]
    failures = [failure._replace(reason=plain(failure.reason)) for failure in failures]
    raise _unparsed(dialect, model, failures, log)


def _unparsed(dialect: Dialect, model: Path, failures: Sequence[ParseFailure], log: Log) -> BuildError:
    if not failures:
        return BuildError(
            f"{dialect.title} cannot read {model.name}", why=log.why(), fix="`trtprof inspect` checks the file"
        )
    told = [_named(failure, model) for failure in failures[:_SHOWN]]
    more = f"; and {len(failures) - _SHOWN} more errors" if len(failures) > _SHOWN else ""
    first = told[0]
    what = f"the node {first.node!r}" if first.node else f"node number {first.place}" if first.place >= 0 else ""
    what += f" ({first.op})" if first.op else ""
    others = "".join(f"; {failure.node or failure.place} ({failure.op}): {failure.reason}" for failure in told[1:])
    return BuildError(
        f"{dialect.title} cannot read {what + ' of ' if what else ''}{model.name}",
        why=first.reason + others + more,
        fix=_mend(dialect, first),
    )


def _named(failure: ParseFailure, model: Path) -> ParseFailure:
    """The failure with the node's name and op from the file, where the parser tells the place alone."""
    if failure.node or failure.op or failure.place < 0:
        return failure
    nodes = onnx.load(str(model), load_external_data=False).graph.node
    if failure.place >= len(nodes):
        return failure
    node = nodes[failure.place]
    return failure._replace(node=node.name, op=node.op_type)


def _mend(dialect: Dialect, failure: ParseFailure) -> str:
    if failure.no_plugin and dialect.is_rtx:
        return "replace the op by ones of ONNX: TensorRT-RTX has no plugins; TensorRT has (--backend tensorrt)"
    if failure.no_plugin:
        return "give the library that holds its plugin (--staticPlugins=lib.so), or replace the op"
    if "zero point" in failure.reason.lower() or "zero_point" in failure.reason.lower():
        return "quantise to int8 with zero points of 0 (symmetric): it takes no other quantisation"
    return "`trtprof inspect` shows the node; replace it at the export, or try another version"


def _configure(dialect: Dialect, options: BuildOptions, precision: Precision, config: Any) -> bool:
    """Apply the options; returns whether the timing cache given was taken."""
    dialect.set_detailed(config)
    dialect.set_tf32(config, on=options.tf32)
    if precision.way == "builder flag":
        for name in precision.asked.split("+"):
            dialect.set_precision_flag(config, name)
    if options.workspace_bytes is not None:
        dialect.set_workspace(config, options.workspace_bytes)
    if options.builder_optimization_level is not None:
        config.builder_optimization_level = options.builder_optimization_level
    if options.max_aux_streams is not None:
        config.max_aux_streams = options.max_aux_streams
    if options.tactic_sources:
        dialect.set_tactic_sources(config, options.tactic_sources)
    if options.build_route:
        dialect.set_build_route(config, options.build_route)
    if options.compute_capabilities:
        dialect.set_compute_capabilities(config, options.compute_capabilities)
    if not options.timing_cache:
        return False
    return dialect.use_timing_cache(config, _stored(Path(options.timing_cache)))


def _stored(path: Path) -> bytes:
    try:
        return read_file(path, what="a timing cache")
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise UsageError(
            f"the timing cache {path} cannot be read", why=error.strerror or str(error),
            fix="give another file by --timingCacheFile",
        ) from None  # fmt: skip


def _keep_timing_cache(dialect: Dialect, options: BuildOptions, config: Any, *, taken: bool) -> tuple[str, ...]:
    """Write the timing cache back, whole or not at all; returns what is to be said about it."""
    if not options.timing_cache:
        return ()
    path = Path(options.timing_cache)
    if not taken:
        # It may serve another GPU or version.
        return (f"the timing cache {path} is of another version or device, or damaged: not used, and left as it is",)
    try:
        replace_file(path, dialect.timing_cache(config))
    except OSError as error:
        return (f"the timing cache {path} could not be written: {error.strerror or error}",)
    return ()


def _profiles(dialect: Dialect, network: Any, builder: Any, options: BuildOptions) -> list[Any]:
    """The optimisation profiles of the options, checked against the network's inputs."""
    inputs = {tensor.name: tensor for tensor in (network.get_input(index) for index in range(network.num_inputs))}
    dims = {name: tuple(tensor.shape) for name, tensor in inputs.items()}
    open_inputs = [name for name, tensor in inputs.items() if tensor.is_shape_tensor or -1 in dims[name]]
    wanted = options.all_profiles()
    if not wanted and not open_inputs:
        return []
    profiles = []
    for ranges in wanted or ({},):
        profile = builder.create_optimization_profile()
        for name, given in ranges.items():
            if name not in inputs:
                raise UsageError(
                    f"the model has no input {name!r}", why=f"its inputs are {', '.join(inputs)}",
                    fix=f"--shapes={_shape_spec(next(iter(dims.items())))}",
                )  # fmt: skip
            if inputs[name].is_shape_tensor:
                profile.set_shape_input(name, given.min, given.opt, given.max)
                continue
            _check_fit(name, dims[name], given)
            if name in open_inputs:
                profile.set_shape(name, given.min, given.opt, given.max)
        missing = [name for name in open_inputs if name not in ranges]
        if missing:
            raise UsageError(
                f"no shape is given for the dynamic input {missing[0]!r}",
                why=f"{dialect.title} needs the dims of {', '.join(missing)} to build",
                fix=f"--shapes={','.join(_shape_spec((name, dims[name])) for name in missing)}",
            )
        profiles.append(profile)
    return profiles


def _check_fit(name: str, dims: tuple[int, ...], given: ShapeRange) -> None:
    for shape in (given.min, given.opt, given.max):
        if len(shape) != len(dims) or any(have not in {-1, want} for have, want in zip(dims, shape, strict=True)):
            raise UsageError(
                f"the shape {_dims(shape)} does not fit the input {name!r}",
                why=f"the model declares it as {_dims(dims)}, -1 being any size",
                fix=f"--shapes={_shape_spec((name, dims))}",
            )


def _shape_spec(item: tuple[str, tuple[int, ...]]) -> str:
    name, dims = item
    return f"{name}:{_dims([max(size, 1) for size in dims])}" if dims else f"{name}:1"


def _dims(dims: Sequence[int]) -> str:
    return "x".join(map(str, dims)) or "scalar"


def _refused(dialect: Dialect, model: Path, log: Log) -> BuildError:
    why = log.why()
    graphs = onnx_graph.all_graphs(onnx.load(str(model), load_external_data=False).graph)
    control = sorted({node.op_type for _, graph in graphs for node in graph.node} & CONTROL)
    if control:
        fix = (
            f"the model has {', '.join(control)} nodes, which it often refuses: fold them away "
            "(`polygraphy surgeon sanitize --fold-constants`), or export without them"
        )
    elif "memory" in why.lower():
        fix = "limit --memPoolSize=workspace, or use a smaller batch"
    else:
        fix = "try another version of the library, or --builderOptimizationLevel=0"
    return BuildError(f"{dialect.title} cannot build {model.name}", why=why, fix=fix)


def _inspected(dialect: Dialect, logger: Any, plan: bytes, folder: Path, log: Log) -> tuple[str, ...]:
    """Write the inspector's JSON; returns why there is none."""
    seen = len(log.errors)
    engine = dialect.trt.Runtime(logger).deserialize_cuda_engine(plan)
    if engine is None:
        why = plain(log.errors[seen]) if log.errors[seen:] else "the library gave no reason"
        return (f"the engine ({format_bytes(len(plan))}) cannot be loaded here: {why}",)
    (folder / LAYER_INFO_FILE).write_text(dialect.layer_information(engine), encoding="utf-8")
    return ()


def _phases(say: Say) -> Callable[[str, str, int, int], None]:
    """Progress of the builder as lines: outer phases at once, inner ones and steps every now and then."""
    said = 0
    outermost: set[str] = set()
    began: dict[str, int] = {}

    def report(phase: str, parent: str, step: int, steps: int) -> None:
        nonlocal said
        if not parent:
            outermost.add(phase)
        now = time.monotonic_ns()
        if not step:
            began[phase] = now
        outer = not step and (not parent or parent in outermost)
        if not outer and now - said < _REPORT_NS:
            return
        said = now
        name = f"{parent}: {phase}" if parent else phase
        if step < _STEPS_TOLD:
            say(f"{name}, step {step} of {steps}" if step else name)
            return
        each = (now - began.get(phase, now)) / step
        say(Line(f"{name}, step {step} of {steps}", (steps - step) * each / 1e9).wire())

    return report


if __name__ == "__main__":
    # Ctrl-C reaches the whole process group. An exception in a callback would end in std::terminate; the parent kills
    # this process instead.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    child.end_with_parent()
    sys.stdout = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8", errors="replace")
    os.dup2(2, 1)  # what the library itself prints goes to the log
    sys.exit(main(sys.argv))
