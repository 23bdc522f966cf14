"""Variants on a GPU, by ONNX Runtime's CUDA provider.

No GPU has run this: what took turns was only ever a stand-in, a session on the CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from trtprof.base import run_folder
from trtprof.base.records import InputTensor
from trtprof.base.run_folder import RunFolder
from trtprof.capture.gpu_record import GpuArtefact
from trtprof.capture.turns import Variant as Side
from trtprof.flows import run_gpu
from trtprof.flows.options import RunOptions, typed_flags, with_flags
from trtprof.flows.try_.on_cpu import OnCpu
from trtprof.flows.try_.options import Candidate, cuda_graph_rung, session_rungs, tf32_rung
from trtprof.flows.try_.target import Rounding, Setup
from trtprof.flows.try_.variants import Variant
from trtprof.runtime.tensorrt_module import parse_version
from trtprof.source.load import LoadedModel


class OnCuda(OnCpu):
    """ONNX Runtime's CUDA provider; see `target.Target`, and `OnCpu` for the arguments."""

    def __init__(self, run: RunOptions, folder: RunFolder, loaded: LoadedModel, scratch: Path) -> None:
        super().__init__(run, folder, loaded, scratch)
        gpu = folder.read(run_folder.GPU, GpuArtefact)
        self._capability = parse_version(gpu.live.compute_capability)
        self.original = Setup(session=run_gpu.on_cuda(self.original.session, run.gpu), gpu=run.gpu)

    def _threads(self, _folder: RunFolder) -> int:
        return self._run.threads

    def rungs(self) -> Iterator[Candidate]:
        convolves = any("Conv" in layer.op_type for layer in self._base.layers)
        for row in _RUNGS:
            idle = "" if convolves or not row.of_convolutions else "no convolution"
            yield Candidate(row.name, row.title, row.settings, 0, row.answers, exact=False, idle=idle)
        yield from session_rungs(self._base, _SHARED)
        yield cuda_graph_rung(self._base)
        yield tf32_rung(self._base, self._capability, on=self.original.gpu.build.tf32)

    def setup(self, settings: Mapping[str, str], threads: int, /) -> Setup:
        plain = super().setup({key: text for key, text in settings.items() if not key.startswith("--")}, threads)
        gpu = with_flags(plain.gpu, {key: text for key, text in settings.items() if key.startswith("--")})
        return Setup(session=run_gpu.on_cuda(plain.session, gpu), gpu=gpu)

    def side(self, variant: Variant, name: str, inputs: tuple[InputTensor, ...], seed: int) -> Side:
        plain = super().side(variant, name, inputs, seed)
        return msgspec.structs.replace(plain, cuda_graph=variant.gpu.cuda_graph is True)

    def rounding(self, variant: Variant, /) -> Rounding:
        return Rounding(tf32=self.original.gpu.build.tf32 or variant.gpu.build.tf32)

    def flags(self, variant: Variant) -> tuple[str, ...]:
        return "--backend", "ort-cuda", *super().flags(variant), *typed_flags(variant.gpu)


class _Row(NamedTuple):
    name: str
    title: str
    settings: tuple[str, ...]
    answers: tuple[str, ...] = ()
    of_convolutions: bool = True


_RUNGS: tuple[_Row, ...] = (
    _Row("cudnn-heuristic", "cuDNN takes the algorithm of a convolution by its rules",
         ("cuda.cudnn_conv_algo_search=HEURISTIC",)),
    _Row("cudnn-default", "cuDNN takes its default algorithm", ("cuda.cudnn_conv_algo_search=DEFAULT",)),
    _Row("channels-last", "convolutions with channels last", ("cuda.prefer_nhwc=1",), ("DW805", "KN702", "LY201")),
    _Row("graph-extended", "the graph without rewrites of its layout", ("graph_optimization_level=extended",),
         ("LY201",), of_convolutions=False),
    _Row("graph-basic", "the graph without fusions for the GPU", ("graph_optimization_level=basic",),
         of_convolutions=False),
)  # fmt: skip
"""Of ONNX Runtime 1.23 and later with CUDA 12 and 13: options of its provider, and how far it rewrites the graph. It
tries all algorithms of cuDNN unless told (``EXHAUSTIVE``)."""
_SHARED = ("gelu-approximation", "no-memory-pattern")
