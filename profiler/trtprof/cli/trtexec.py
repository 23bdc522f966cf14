"""Every flag of trtexec, and what `trtprof run` and `trtprof build` do with it: the one table.

The flags are those that TensorRT's open-source releases read in ``samples/common/sampleOptions.cpp``: 6.0, 7.0, 8.6,
9.1 to 9.3, 10.0 to 10.16, 11.0 and 11.1 were looked through. ``since`` and ``until`` are the first and the last of
these that have a flag; ``8.6`` may be any version after 7.0.

A flag is acted on by an option of the same name, or is always so, or is answered: why there is none, and what does the
same. So nobody is sent to an option that means something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from trtprof.base.errors import UsageError

LATEST = "11.1"
"""The last release that was looked through."""

Verb = Literal["run", "build"]
Kind = Literal["acted on", "always so", "answered"]


class How(NamedTuple):
    """What a verb does with a flag."""

    kind: Kind  # An option of the verb has that name; the verb does so anyway; or it is told why not
    why: str = ""  # A sentence; of what is acted on, what differs from trtexec, or nothing
    fix: str = ""  # What to do in its place
    only: str = ""  # Of what is always so: the one value that is; others are answered


class Flag(NamedTuple):
    """A flag of trtexec."""

    names: tuple[str, ...]  # Its spellings
    since: str  # First release that has it
    until: str  # Last release that has it
    takes: str  # What it is given, as in its help; empty of a switch
    run: How  # What `trtprof run` does with it
    build: How  # What `trtprof build` does with it

    def of(self, verb: Verb) -> How:
        """What a verb does with it."""
        return self.run if verb == "run" else self.build


ACTS = How("acted on")


def _acts(why: str) -> How:
    return How("acted on", why)


def _so(why: str, only: str = "", fix: str = "") -> How:
    return How("always so", why, fix, only)


def _no(why: str, fix: str) -> How:
    return How("answered", why, fix)


def _flag(names: str, span: str, takes: str, run: How, build: How | None = None) -> Flag:
    since, _, until = span.partition("-")
    return Flag(tuple(names.split()), since, until or LATEST, takes, run, build or run)


# What several flags are answered.
_RUNS_NOTHING = _no("`trtprof build` builds and runs nothing", "give it to `trtprof run`, which takes or answers it")
_NO_DLA = _no("trtprof prices and profiles GPUs, and knows no DLA", "use trtexec for engines with a DLA")
_NO_SAFE = _no("trtprof builds no safety-certified engines", "use trtexec --safe; `trtprof analyze` reads its files")
_NO_CALIBRATION = _no(
    "trtprof calibrates nothing, and TensorRT 11 takes quantisation from the model alone",
    "quantise the model (python -m modelopt.onnx.quantization --quantize_mode int8), then --int8",
)
_NO_LAYER_TYPES = _no(
    "types of single layers are those of the ONNX file; TensorRT 11 has no other way",
    "change them in the model (python -m modelopt.onnx.autocast), then --stronglyTyped",
)
_NO_REFIT = _no(
    "an engine whose weights can be exchanged has other kernels than one that is deployed with its weights",
    "build it with trtexec; `trtprof run MODEL --loadEngine=FILE` profiles it",
)
_ELSEWHERE = _no(
    "trtprof has no setting for it",
    "build it with trtexec --saveEngine=FILE; `trtprof run MODEL --loadEngine=FILE` profiles it",
)
_NO_CAFFE = _no("TensorRT reads ONNX alone since version 9", "convert the model to ONNX; it is the argument")
_NO_OUTPUTS = _no(
    "outputs of an inference are not kept", "--verify holds them against ONNX Runtime's on the CPU, on a GPU"
)
_NO_REFERENCE = _no(
    "outputs are not held against files", "--verify holds them against ONNX Runtime's on the CPU, on a GPU"
)
_NO_TUNING = _no(
    "trtprof runs no search over ways to build",
    "--builderOptimizationLevel=5 lets the builder try more; `trtprof compare` sets two runs side by side",
)
_NO_DEBUG_TENSORS = _no(
    "tensors inside of the engine are not kept: marking them would cut fusion",
    "polygraphy run --trt --onnxrt --trt-outputs mark all, which compares them",
)
_COPIES_APART = _no(
    "copies to the GPU and back are measured apart from the kernels in every run",
    "read the rows of copies in the ledger",
)
_WAITS = _no(
    "trtprof times the GPU with events and the host apart, so that how it waits is in neither", "leave it away"
)
_GRAPH = "the latency with a CUDA graph is measured beside that without one, unless it is switched off"

FLAGS: tuple[Flag, ...] = (
    # --- the model ---
    _flag("--onnx", "6.0", "FILE", _acts("also the argument MODEL")),
    _flag("--model", "6.0-9.2", "FILE", _NO_CAFFE),
    _flag("--deploy", "6.0-9.2", "FILE", _NO_CAFFE),
    _flag("--uff", "6.0-9.2", "FILE", _NO_CAFFE),
    _flag("--uffInput", "6.0-9.2", "NAME,X,Y,Z", _NO_CAFFE),
    _flag("--uffNHWC", "6.0-9.2", "", _NO_CAFFE),
    _flag("--output", "6.0-9.2", "NAME",
        _acts("here it names a file for the report; trtexec's named tensors of Caffe and "
                                                "UFF models, which no version reads any more")),
    # --- the engine ---
    _flag("--maxBatch", "6.0-9.2", "N", _no("the batch is a dimension of the ONNX model", "--batch=N or --shapes=...")),
    _flag("--explicitBatch", "6.0-9.3", "", _so("the batch is a dimension of the ONNX model")),
    _flag("--explicitPrecision", "8.6-9.3", "", _so("types are those of the ONNX model")),
    _flag("--minShapes", "6.0", "SPEC", ACTS),
    _flag("--optShapes", "6.0", "SPEC", _acts("they are what `run` measures at"), ACTS),
    _flag("--maxShapes", "6.0", "SPEC", ACTS),
    _flag("--minShapesCalib", "8.6-10.16", "SPEC", _NO_CALIBRATION),
    _flag("--optShapesCalib", "8.6-10.16", "SPEC", _NO_CALIBRATION),
    _flag("--maxShapesCalib", "8.6-10.16", "SPEC", _NO_CALIBRATION),
    _flag("--profile", "9.1", "N", ACTS),
    _flag("--calibProfile", "9.1-10.16", "N", _NO_CALIBRATION),
    _flag("--calib", "6.0-10.16", "FILE", _NO_CALIBRATION),
    _flag("--inputIOFormats", "6.0", "SPEC", _ELSEWHERE),
    _flag("--outputIOFormats", "6.0", "SPEC", _ELSEWHERE),
    _flag("--memPoolSize", "8.6", "SPEC", _acts("the pool is workspace")),
    _flag("--workspace", "6.0-9.3", "MIB", ACTS),
    _flag("--profilingVerbosity", "8.6", "MODE", _so(
        "engines are built with all that the inspector can tell", "detailed", "leave it away")),
    _flag("--nvtxMode", "8.6-9.3", "MODE", _so(
        "engines are built with all that the inspector can tell", "verbose", "leave it away")),
    _flag("--minTiming", "6.0-9.3", "N", _ELSEWHERE),
    _flag("--avgTiming", "6.0", "N", _ELSEWHERE),
    _flag("--refit", "8.6", "", _NO_REFIT),
    _flag("--stripWeights", "10.0", "", _NO_REFIT),
    _flag("--stripAllWeights", "10.1", "", _NO_REFIT),
    _flag("--weightless", "9.3-10.16", "", _NO_REFIT),
    _flag("--refitFromOnnx", "10.14", "", _NO_REFIT),
    _flag("--dumpRefit", "8.6", "", _NO_REFIT),
    _flag("--timeRefit", "8.6", "", _NO_REFIT),
    _flag("--versionCompatible --vc", "8.6", "", _ELSEWHERE),
    _flag("--excludeLeanRuntime", "8.6", "", _ELSEWHERE),
    _flag("--leanDLLPath", "8.6", "FILE", _ELSEWHERE),
    _flag("--useRuntime", "8.6", "MODE",
        _so("the full runtime runs the engine", "full", "leave it away"), _RUNS_NOTHING),
    _flag("--hardwareCompatibilityLevel", "8.6", "MODE", _no(
        "kernels for several architectures are not those of this GPU",
        "--backend tensorrt-rtx builds one engine for all; or build it with trtexec, then --loadEngine=FILE")),
    _flag("--runtimePlatform", "10.2", "PLATFORM", _ELSEWHERE),
    _flag("--cpuOnly --cpu_only", "10.15", "", _no(
        "TensorRT is built with on its GPU here", "--backend tensorrt-rtx builds and needs no GPU")),
    _flag("--nativeInstanceNorm --ni", "9.1-9.3", "", _ELSEWHERE),
    _flag("--pluginInstanceNorm --pi", "10.0", "", _ELSEWHERE),
    _flag("--enablePluginOverride", "10.15", "", _ELSEWHERE),
    _flag("--uint8AsymmetricQuantizationDLA", "10.11", "", _NO_DLA),
    _flag("--reportCapabilityDLA", "10.16", "", _NO_DLA),
    _flag("--adjustForDLA", "10.16", "", _NO_DLA),
    _flag("--useDLACore", "6.0", "N", _NO_DLA),
    _flag("--allowGPUFallback", "6.0", "", _NO_DLA),
    _flag("--buildDLAStandalone", "8.6", "", _NO_DLA),
    _flag("--monitorMemory", "10.6", "", _no(
        "trtprof samples clocks and power, not memory", "nsys profile --cuda-memory-usage=true trtprof run ...")),
    _flag("--sparsity", "8.6", "SPEC", _ELSEWHERE),
    _flag("--noTF32", "8.6", "", ACTS),
    _flag("--fp16", "6.0-10.16", "", _acts("from TensorRT 11 on, and with TensorRT-RTX, the model is converted")),
    _flag("--bf16", "9.1-10.16", "", ACTS),
    _flag("--int8", "6.0", "", _acts("needs a quantised model: scales are never made up (trtexec does that)")),
    _flag("--fp8", "8.6-10.16", "", _acts("needs a quantised model: scales are never made up (trtexec does that)")),
    _flag("--int4", "10.1-10.16", "", _no(
        "types of 4 bits are those of the ONNX file", "quantise the weights in the model, and leave the flag away")),
    _flag("--best", "8.6-10.16", "", _acts("fp16, bf16 and, of a quantised model, int8; not from TensorRT 11 on")),
    _flag("--stronglyTyped", "9.1", "", ACTS),
    _flag("--directIO", "8.6", "", _ELSEWHERE),
    _flag("--precisionConstraints", "8.6-10.16", "SPEC", _NO_LAYER_TYPES),
    _flag("--layerPrecisions --layerPrecision", "8.6-10.16", "SPEC", _NO_LAYER_TYPES),
    _flag("--layerOutputTypes", "8.6-10.16", "SPEC", _NO_LAYER_TYPES),
    _flag("--layerDeviceTypes", "8.6", "SPEC", _NO_DLA),
    _flag("--decomposableAttentions", "10.14", "SPEC", _ELSEWHERE),
    _flag("--safe", "6.0", "", _NO_SAFE),
    _flag("--std", "8.6", "", _NO_SAFE),
    _flag("--serialized", "8.6", "FILE", _NO_SAFE),
    _flag("--consistency", "8.6", "", _NO_SAFE),
    _flag("--restricted", "8.6-10.16", "", _NO_SAFE),
    _flag("--dumpKernelText", "10.13", "", _NO_SAFE),
    _flag("--safetyPlugins", "10.13", "LIB", _NO_SAFE),
    _flag("--remoteAutoTuningConfig", "10.13", "CONFIG", _NO_SAFE),
    _flag("--saveEngine", "6.0", "FILE", ACTS),
    _flag("--loadEngine", "6.0", "FILE", ACTS),
    _flag("--asyncFileReader", "10.7", "", _no("how an engine is read from the disk is not measured", "leave it away")),
    _flag("--getPlanVersionOnly", "9.1", "", _no(
        "an engine is looked into whole", "`trtprof build --loadEngine=FILE` says which version made it")),
    _flag("--tacticSources", "8.6", "SPEC", ACTS),
    _flag("--noBuilderCache", "8.6", "", _ELSEWHERE),
    _flag("--noCompilationCache", "9.1", "", _ELSEWHERE),
    _flag("--errorOnTimingCacheMiss", "9.1", "", _ELSEWHERE),
    _flag("--timingCacheFile", "8.6", "FILE", ACTS),
    _flag("--preview", "8.6", "SPEC", _ELSEWHERE),
    _flag("--heuristic", "8.6-9.3", "", _no("version 10 dropped it", "--builderOptimizationLevel=2 times less")),
    _flag("--builderOptimizationLevel", "8.6", "N", ACTS),
    _flag("--maxTactics", "10.4", "N",
        _no("trtprof has no setting for it", "--builderOptimizationLevel=N times more or less")),
    _flag("--tempdir", "8.6", "DIR", _no("temporary files go where the system has them", "TMPDIR=DIR trtprof ...")),
    _flag("--tempfileControls", "8.6", "SPEC", _ELSEWHERE),
    _flag("--maxAuxStreams", "8.6", "N", ACTS),
    _flag("--allowWeightStreaming", "10.0", "", _ELSEWHERE),
    _flag("--weightStreamingBudget", "10.0", "SIZE", _no(
        "engines are run with all their weights on the GPU",
    "trtexec --weightStreamingBudget measures the other case")),
    _flag("--markDebug", "10.0", "NAMES", _NO_DEBUG_TENSORS),
    _flag("--markUnfusedTensorsAsDebugTensors", "10.12", "", _NO_DEBUG_TENSORS),
    _flag("--saveDebugTensors", "10.0", "SPEC", _NO_DEBUG_TENSORS),
    _flag("--saveAllDebugTensors", "10.12", "SPEC", _NO_DEBUG_TENSORS),
    _flag("--tilingOptimizationLevel", "10.8", "N", _ELSEWHERE),
    _flag("--l2LimitForTiling", "10.8", "N", _ELSEWHERE),
    _flag("--distributiveIndependence", "10.12", "", _ELSEWHERE),
    # --- build routes ---
    _flag("--tuneBuildRoutes", "11.1", "EXPR", _NO_TUNING),
    _flag("--tuneBuildRouteFile", "11.1", "FILE", _NO_TUNING),
    _flag("--tuningSearch", "11.1", "SPEC", _NO_TUNING),
    _flag("--tuningCacheFile", "11.1", "FILE", _NO_TUNING),
    _flag("--tuningResultFile", "11.1", "FILE", _NO_TUNING),
    _flag("--tuningTimeOut", "11.1", "S", _NO_TUNING),
    _flag("--saveAllEngines", "11.1", "", _NO_TUNING),
    _flag("--dryRun", "11.1", "", _no(
        "it lists build routes, of which trtprof has none",
    "`trtprof build MODEL --dry-run` prints the trtexec command")),
    _flag("--continue", "11.1", "",
        _no("it goes on with a search, of which trtprof has none", "--resume goes on with a run")),
    _flag("--helpBuildRoute", "11.1", "", _NO_TUNING),
    _flag("--setBuildRoute", "11.1", "ROUTE", ACTS),
    # --- the machine ---
    _flag("--device", "6.0", "N", ACTS, _no(
        "engines are built on the first GPU that CUDA shows", "CUDA_VISIBLE_DEVICES=N trtprof build MODEL")),
    _flag("--staticPlugins --plugins", "6.0", "LIB", ACTS),
    _flag("--dynamicPlugins", "8.6", "LIB",
        _no("a library is loaded beside the engine, not kept in it", "--staticPlugins=LIB")),
    _flag("--setPluginsToSerialize", "8.6", "LIB", _no(
        "a library is loaded beside the engine, not kept in it", "--staticPlugins=LIB")),
    _flag("--ignoreParsedPluginLibs", "8.6", "", _ELSEWHERE),
    # --- the inference ---
    _flag("--shapes", "6.0", "SPEC", ACTS),
    _flag("--batch", "6.0-9.2", "N", _acts("the number for dynamic batch dimensions")),
    _flag("--loadInputs", "7.0", "SPEC", _acts(".npy files, which hold shape and type"), _RUNS_NOTHING),
    _flag("--iterations", "6.0", "N", ACTS, _RUNS_NOTHING),
    _flag("--warmUp", "6.0", "MS", ACTS, _RUNS_NOTHING),
    _flag("--duration", "6.0", "S", ACTS, _RUNS_NOTHING),
    _flag("--sleepTime", "7.0", "MS",
        _no("a pause inside an inference would be priced as a gap", "leave it away"), _RUNS_NOTHING),
    _flag("--idleTime", "8.6", "MS", _no(
        "a pause lets the clocks fall, and the ceilings are those of a busy GPU", "leave it away"), _RUNS_NOTHING),
    _flag("--infStreams --streams", "6.0", "N", _so(
        "one inference runs at a time, so that every kernel's time is its own", "1",
        "trtexec --infStreams=N measures the throughput of several"), _RUNS_NOTHING),
    _flag("--exposeDMA", "7.0", "", _COPIES_APART, _RUNS_NOTHING),
    _flag("--noDataTransfers", "8.6", "", _COPIES_APART, _RUNS_NOTHING),
    _flag("--includeDataTransfers", "11.0", "", _so("the latency holds copies to the GPU and back"), _RUNS_NOTHING),
    _flag("--useManagedMemory", "8.6", "",
        _no("inputs and outputs lie in the GPU's own memory", "leave it away"), _RUNS_NOTHING),
    _flag("--useSpinWait", "7.0", "", _WAITS, _RUNS_NOTHING),
    _flag("--noSpinWait", "11.0", "", _WAITS, _RUNS_NOTHING),
    _flag("--threads", "6.0", "",
        _acts("here it takes a number, of threads inside an op on the CPU; trtexec's is a switch "
                                        "for several streams, of which trtprof runs one"), _RUNS_NOTHING),
    _flag("--useCudaGraph", "6.0", "", _acts(_GRAPH), _RUNS_NOTHING),
    _flag("--noCudaGraph", "11.0", "", _acts(_GRAPH), _RUNS_NOTHING),
    _flag("--timeDeserialize", "8.6", "", _no("what happens before the first inference is not measured",
                                              "trtexec --loadEngine=FILE --timeDeserialize"), _RUNS_NOTHING),
    _flag("--separateProfileRun", "8.6", "", _so("latency and profile are of separate runs"), _RUNS_NOTHING),
    _flag("--skipInference --buildOnly", "6.0", "",
        _no("`trtprof run` is the inference", "`trtprof build MODEL` runs nothing"),
          _so("`trtprof build` runs nothing")),
    _flag("--persistentCacheRatio", "8.6", "RATIO",
        _no("no part of the L2 is set aside", "leave it away; --cold-l2 empties it"),
          _RUNS_NOTHING),
    _flag("--useProfile", "9.1", "N", _so("the first profile is run, at its optimal shapes", "0",
                                          "make it the first: --profile=0 --optShapes=..."), _RUNS_NOTHING),
    _flag("--allocationStrategy", "10.0", "SPEC", _so("memory is set aside once, for the largest shapes", "static",
                                                      "leave it away"), _RUNS_NOTHING),
    # --- accuracy ---
    _flag("--loadRefOutputs", "11.1", "SPEC", _NO_REFERENCE, _RUNS_NOTHING),
    _flag("--accuracyAlgorithm", "11.1", "SPEC", _NO_REFERENCE, _RUNS_NOTHING),
    _flag("--accuracyThreshold", "11.1", "NUMBER", _NO_REFERENCE, _RUNS_NOTHING),
    _flag("--atol", "11.1", "NUMBER", _NO_REFERENCE, _RUNS_NOTHING),
    _flag("--rtol", "11.1", "NUMBER", _NO_REFERENCE, _RUNS_NOTHING),
    _flag("--refPair", "11.1", "N", _NO_REFERENCE, _RUNS_NOTHING),
    # --- what is told ---
    _flag("--verbose -v", "6.0", "", _acts("every step is told on stderr")),
    _flag("--avgRuns", "6.0", "N", ACTS, _RUNS_NOTHING),
    _flag("--percentile", "6.0", "P1,P2", ACTS, _RUNS_NOTHING),
    _flag("--dumpOutput", "6.0", "", _NO_OUTPUTS, _RUNS_NOTHING),
    _flag("--dumpRawBindingsToFile", "8.6", "", _NO_OUTPUTS, _RUNS_NOTHING),
    _flag("--exportOutput", "7.0", "FILE", _NO_OUTPUTS, _RUNS_NOTHING),
    _flag("--dumpProfile", "6.0", "", ACTS, _RUNS_NOTHING),
    _flag("--dumpLayerInfo", "8.6", "", ACTS, _so("`trtprof build` prints the layers")),
    _flag("--dumpOptimizationProfile", "9.1", "", _no("profiles are those that were asked for",
          "`trtprof build MODEL --minShapes=... --format json` has the tensors with their shapes")),
    _flag("--exportTimes", "6.0", "FILE", ACTS, _RUNS_NOTHING),
    _flag("--exportProfile", "6.0", "FILE", ACTS, _RUNS_NOTHING),
    _flag("--exportLayerInfo", "8.6", "FILE", ACTS),
    _flag("--help -h", "6.0", "", ACTS),
)  # fmt: skip
"""All of them, by subject."""

FLAGS_BY_NAME = {name: flag for flag in FLAGS for name in flag.names}
"""The flag of each spelling."""


def answer(verb: Verb, name: str) -> UsageError | None:
    """What whoever types a flag that the verb does not take is told; None where it is no flag of trtexec."""
    flag = FLAGS_BY_NAME.get(name)
    if flag is None or flag.of(verb).kind == "acted on":
        return None
    how = flag.of(verb)
    what = f"{name} is not taken by trtprof {verb}" + (f", except as {name}={how.only}" if how.only else "")
    return UsageError(what, why=how.why, fix=how.fix or "leave it away")


def without(verb: Verb, name: str, arguments: Sequence[str]) -> list[str] | None:
    """The arguments without a flag that asks for what the verb does anyway; None where it asks for something else."""
    flag = FLAGS_BY_NAME.get(name)
    if flag is None or flag.of(verb).kind != "always so":
        return None
    for place, argument in enumerate(arguments):
        spelled, equals, value = argument.partition("=")
        if spelled != name:
            continue
        length = 1
        if flag.takes and not equals:
            value, length = "".join(arguments[place + 1 : place + 2]), 2
        if flag.of(verb).only not in ("", value):
            return None
        return [*arguments[:place], *arguments[place + length :]]
    return None
