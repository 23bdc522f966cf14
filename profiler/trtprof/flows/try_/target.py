"""What differs by what runs a model: the one seam between the search and the backends.

`search` makes, prices, checks, measures and combines in one way. A target says how a variant is set up and built, which
options are rungs, what its layers should take, and what takes turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from trtprof.base.records import InputTensor
from trtprof.capture.turns import Variant as Side
from trtprof.flows.options import GpuOptions, RunOptions
from trtprof.flows.try_.price import Price
from trtprof.runtime.ort_session import SessionRequest

if TYPE_CHECKING:
    from trtprof.flows.build import EngineBuild
    from trtprof.flows.try_.options import Candidate
    from trtprof.flows.try_.variants import Variant


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """How a variant is run."""

    session: SessionRequest  # Its file, and how ONNX Runtime is set up; of TensorRT the file alone counts
    gpu: GpuOptions = GpuOptions()  # Of a GPU: how its engine is built, and how it is run


class Built(NamedTuple):
    """What a runtime made of a file."""

    graph: str  # A digest of it: two files with the same are the same to the runtime
    engine: EngineBuild | None = None  # Of TensorRT


class Rounding(NamedTuple):
    """What the original or a variant may compute fp32 in; see `capture.verify.check_outputs`."""

    tf32: bool = False
    precision: str = ""


class Target(Protocol):
    """What runs the variants of one model."""

    @property
    def original(self) -> Setup: ...

    def rungs(self) -> Iterator[Candidate]:
        """The rungs of options, those that cannot be had here too."""

    def setup(self, settings: Mapping[str, str], threads: int, /) -> Setup:
        """The original with settings; ``threads`` of 0 leaves those of the original."""

    def built(self, setup: Setup, folder: Path) -> Built:
        """Build it once, so that it is known to be taken; ``folder`` is for what comes and goes."""

    def priced(self, variant: Variant, /) -> Price:
        """What a variant should take, by its layers."""

    def side(self, variant: Variant, name: str, inputs: tuple[InputTensor, ...], seed: int) -> Side:
        """What takes turns."""

    def rounding(self, variant: Variant, /) -> Rounding:
        """What the outputs of a variant are held against those of the original with."""

    def run_options(self, variant: Variant) -> RunOptions:
        """How `flows.run.execute` runs a variant."""

    def flags(self, variant: Variant) -> tuple[str, ...]:
        """The same, as `trtprof run` takes it."""
