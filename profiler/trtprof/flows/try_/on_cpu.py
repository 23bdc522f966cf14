"""Variants on the CPU, by ONNX Runtime."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from trtprof.base import run_folder
from trtprof.base.records import Device, Engine, InputTensor
from trtprof.base.run_folder import RunFolder
from trtprof.capture.turns import Variant as Side
from trtprof.engine.onnxruntime import ENGINE_GRAPH
from trtprof.engine.ort_graph import save_graph
from trtprof.flows.options import RunOptions
from trtprof.flows.run import session_of
from trtprof.flows.try_.options import Candidate, option_rungs
from trtprof.flows.try_.price import NOT_TOLD, Price
from trtprof.flows.try_.target import Built, Rounding, Setup
from trtprof.flows.try_.variants import Variant, graph_digest
from trtprof.runtime.session_tuning import FLAG, SessionTuning
from trtprof.source.load import LoadedModel


class OnCpu:
    """ONNX Runtime's CPU provider; see `target.Target`."""

    def __init__(self, run: RunOptions, folder: RunFolder, loaded: LoadedModel, scratch: Path) -> None:
        self._run, self._base = run, folder.report()
        self._device = folder.read(run_folder.DEVICE, Device)
        session = session_of(loaded, scratch, run.threads, run.tuning)
        self.original = Setup(session=msgspec.structs.replace(session, threads=self._threads(folder)))

    def _threads(self, folder: RunFolder) -> int:
        engine = folder.read(run_folder.ENGINE, Engine)
        return int(engine.backend.options["intra_op_threads"]) or self._device.cores

    def rungs(self) -> Iterator[Candidate]:
        return option_rungs(self._base, self._device, self.original.session.threads)

    def setup(self, settings: Mapping[str, str], threads: int) -> Setup:
        session = self.original.session
        texts = {**session.tuning.changed, **settings}
        tuning = SessionTuning.of(f"{key}={value}" for key, value in texts.items())
        return Setup(
            session=msgspec.structs.replace(session, tuning=tuning, threads=threads or session.threads),
            gpu=self.original.gpu,
        )

    def built(self, setup: Setup, folder: Path) -> Built:
        save_graph(setup.session, folder)
        digest = graph_digest(folder / ENGINE_GRAPH)
        shutil.rmtree(folder)
        return Built(digest)

    def priced(self, _variant: Variant, /) -> Price:
        return NOT_TOLD

    def side(self, variant: Variant, name: str, inputs: tuple[InputTensor, ...], seed: int) -> Side:
        return Side(name=name, inputs=inputs, seed=seed, session=variant.session)

    def rounding(self, _variant: Variant, /) -> Rounding:
        return Rounding()

    def run_options(self, variant: Variant) -> RunOptions:
        session = variant.session
        threads = session.threads if session.threads != self.original.session.threads else self._run.threads
        return msgspec.structs.replace(self._run, threads=threads, tuning=session.tuning, gpu=variant.gpu)

    def flags(self, variant: Variant) -> tuple[str, ...]:
        options = self.run_options(variant)
        threads = ("--threads", str(options.threads)) if options.threads else ()
        return (*threads, *(word for text in options.tuning.texts for word in (FLAG, text)))
