"""Which rungs of `trtprof try` make what the remedy of a rule names, for those who may not import the rungs.

A rewrite, a pass or an option says itself which rules it answers; a test holds this table against them, and asks of
each rule that no rung answers for the reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple


class Answers(NamedTuple):
    """Names of the rungs that answer a rule."""

    rewrites: tuple[str, ...] = ()  # Of the graph, for any runtime
    passes: tuple[str, ...] = ()  # Of other projects; some write ops that ONNX Runtime alone has
    on_cpu: tuple[str, ...] = ()  # Options of ONNX Runtime on the CPU; ``threads`` stands for any number of them
    on_cuda: tuple[str, ...] = ()  # Of its CUDA provider
    on_tensorrt: tuple[str, ...] = ()  # Of TensorRT and TensorRT-RTX, which have not all of them

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys(name for names in self for name in names))


def _answers(**names: str) -> Answers:
    return Answers(**{kind: tuple(text.split()) for kind, text in names.items()})


_FEWER_LAUNCHES = _answers(
    rewrites="attention-fused batchnorm-folded cast-pairs concat-of-slices constant-folding gelu-fused "
    "layernorm-fused loop-unrolled merge-products reshape-chains rmsnorm-fused transpose-through "
    "where-constant",
    passes="onnxscript-optimizer onnxslim ort-transformers",
    on_cpu="no-spinning parallel-execution threads",
    on_cuda="cuda-graph",
    on_tensorrt="cuda-graph",
)
"""What leaves fewer kernels to launch, or makes the host wait less for them."""

ANSWERS: Mapping[str, Answers] = {
    "AL802": _answers(rewrites="conv-pad-channels"),
    "CN601": _answers(rewrites="constant-folding", passes="onnxscript-optimizer onnxslim"),
    "DW805": _answers(
        rewrites="conv-pad-channels conv1d-as-conv2d depthwise-repeated-channels",
        on_cuda="channels-last",
        on_tensorrt="fp16",
    ),
    "FU301": _answers(
        rewrites="attention-fused batchnorm-as-mul-add batchnorm-folded gelu-fused gelu-spelled layernorm-fused "
        "layernorm-spelled rmsnorm-fused rmsnorm-spelled where-constant",
        passes="onnxslim ort-transformers",
    ),
    "HO501": _FEWER_LAUNCHES,
    "HO503": _answers(on_cpu="no-spinning threads"),
    "KN701": _answers(
        rewrites="conv-pad-channels gemv-as-reduce gemv-fold-batch row-matmul-transposed",
        on_tensorrt="builder-level-5 fp16 tactics-of-libraries",
    ),
    "KN702": _answers(
        rewrites="conv-pad-channels",
        on_cuda="channels-last tf32",
        on_tensorrt="bf16 builder-level-5 fp16 tactics-of-libraries tf32",
    ),
    "KN703": _answers(rewrites="gemv-as-reduce gemv-fold-batch merge-products row-matmul-transposed"),
    "KN704": _answers(rewrites="merge-products", on_tensorrt="builder-level-5"),
    "KN705": _answers(on_tensorrt="bf16 fp16"),
    "LA401": _FEWER_LAUNCHES,
    "LY201": _answers(
        rewrites="cast-pairs conv-pad-channels conv1x1-as-matmul convtranspose-as-conv convtranspose-as-resize "
        "matmul-as-conv1x1 transpose-through",
        on_cpu="no-blocked-layout",
        on_cuda="channels-last graph-extended",
        on_tensorrt="builder-level-5",
    ),
    "OC707": _answers(on_tensorrt="aux-streams-4 builder-level-5"),
    "PR2": _answers(on_tensorrt="fp16"),
    "PR801": _answers(on_cuda="tf32", on_tensorrt="bf16 fp16 tf32"),
    "RF2": _answers(rewrites="cast-pairs"),
    "RL101": _answers(
        rewrites="attention-fused batchnorm-folded cast-pairs concat-of-slices conv1d-as-conv2d convtranspose-as-conv "
        "convtranspose-as-resize cube-as-mul depthwise-repeated-channels gather-as-slice gelu-fused "
        "gemv-as-reduce gemv-fold-batch layernorm-fused matmul-as-conv1x1 merge-products pow-as-mul prelu-spelled "
        "rmsnorm-fused row-matmul-transposed split-products transpose-through "
        "where-constant",
        passes="onnxslim ort-transformers",
        on_cpu="gelu-approximation threads",
        on_cuda="gelu-approximation",
    ),
    "RL102": _answers(
        rewrites="attention-fused conv-pad-channels conv1d-as-conv2d conv1x1-as-matmul convtranspose-as-conv "
        "convtranspose-as-resize cube-as-mul depthwise-repeated-channels div-as-mul gelu-fused "
        "merge-products pow-as-mul",
        passes="ort-transformers",
        on_cpu="gelu-approximation threads",
        on_cuda="gelu-approximation",
        on_tensorrt="builder-level-5 fp16",
    ),
    "SK803": _answers(rewrites="conv1d-as-conv2d convinteger-uint8-weights pow-as-mul prelu-spelled softmax-spelled"),
    "SL1": _answers(rewrites="cast-pairs"),
    "TC1": _answers(rewrites="conv-pad-channels"),
    "TC2": _answers(on_cuda="tf32", on_tensorrt="builder-level-5 fp16 tf32"),
    "WV706": _answers(on_tensorrt="aux-streams-4 builder-level-5"),
}
"""By code of the rule."""

_QUANTISED = "it moves Q/DQ pairs, which decides what is rounded: that is for the calibration of the model"
_DOUBT = "it doubts the measurement: nothing of the model is to be changed"

WITHOUT: Mapping[str, str] = {
    "CA806": "it changes the batch, which is for the program around the model",
    "HO502": "it changes the program around the model: where its inputs and outputs lie",
    "PR1": _QUANTISED,
    "ST804": "it batches sequences, which is for the program around the model",
    "PR802": "it quantizes more of the model, or takes another file: that is for whoever made it",
    "QD1": _QUANTISED,
    "QD803": _QUANTISED,
    "QD804": _QUANTISED,
    "RF1": "it changes the types of the model's inputs and outputs, which the program around it sees",
    **dict.fromkeys((f"TR{number}" for number in range(900, 910) if number != 904), _DOUBT),
}
"""Why no rung makes what the remedy of a rule names, by its code."""

MEASURED = frozenset({"ort-cpu", "ort-cuda", "tensorrt", "tensorrt-rtx"})
"""Backends that `trtprof try` measures with."""

_OPTIONS = {"ort-cpu": "on_cpu", "ort-cuda": "on_cuda", "tensorrt": "on_tensorrt", "tensorrt-rtx": "on_tensorrt"}


def family(name: str) -> str:
    """What `Answers` calls a rung: ``threads-4`` is one of ``threads``."""
    return re.sub(r"^threads-\d+$", "threads", name)


def answered(code: str, backend: str) -> bool:
    """Whether `trtprof try` has a rung for a finding of a backend."""
    found = ANSWERS.get(code)
    if found is None or backend not in _OPTIONS:
        return False
    return bool(found.rewrites or found.passes or getattr(found, _OPTIONS[backend]))
