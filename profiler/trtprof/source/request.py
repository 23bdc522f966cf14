"""What model is asked for: its file or spec, its shapes, and how a spec is exported; read once, for every verb."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from trtprof.base.errors import UsageError
from trtprof.base.records import ModelInfo, Source, Tensor
from trtprof.base.scratch import scratch_folder
from trtprof.source.shapes import parse_shapes
from trtprof.source.spec import ExportOptions, ModelSpec, parse_spec

if TYPE_CHECKING:
    from trtprof.source.load import LoadedModel


class ModelRequest(msgspec.Struct, frozen=True):
    """A model as it is asked for."""

    model: str  # An ONNX file, or a spec of a PyTorch module: ``package.module:factory``
    batch: int | None = None  # Value of ``--batch``: a number for dynamic batch dimensions
    # How a spec is exported. Its shapes are bound to the inputs of a file, too.
    export: ExportOptions = ExportOptions()
    shapes_given: tuple[str, ...] = ()  # The values of ``--shapes`` as they were written
    symbols: dict[str, int] = {}  # Numbers of named dimensions, whatever inputs they are of; see `shapes.bind_shapes`
    seen: dict[tuple[str, str], Tensor] = {}  # See `LoadedModel.seen`
    assumptions: tuple[str, ...] = ()  # Of the run that they were seen in

    @classmethod
    def of(
        cls,
        model: str | Path,
        shapes: Iterable[str] = (),
        batch: int | None = None,
        symbols: Mapping[str, int] | None = None,
        **export: Any,
    ) -> ModelRequest:
        """A request from what was written (``shapes``: values of ``--shapes``; see `shapes.parse_shapes`)."""
        given = tuple(shapes)
        how = ExportOptions(shapes=parse_shapes(given), **export)
        return cls(str(model), batch, how, given, dict(symbols or {}))

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Input name (which may hold one ``*``) -> shape, as asked for."""
        return self.export.shapes

    @property
    def spec(self) -> ModelSpec | None:
        """The spec that is named, or None where a file is; see `parse_spec`."""
        return parse_spec(self.model)

    def at(self, shapes: Mapping[str, tuple[int, ...]]) -> ModelRequest:
        """The same model at other shapes."""
        return msgspec.structs.replace(self, export=msgspec.structs.replace(self.export, shapes=dict(shapes)))

    @contextmanager
    def opened(self, progress: Callable[[str], None] = lambda _: None) -> Iterator[LoadedModel]:
        """The model read from its file, or exported from its spec to a file that lasts as long as the context."""
        from trtprof.source.load import load_model

        spec = self.spec
        if spec is None:
            self._refuse_export_options()
            loaded = load_model(self.model)
            loaded.seen = self.seen
            loaded.assumptions += (note for note in self.assumptions if note not in loaded.assumptions)
            yield loaded
            return
        from trtprof.source.export import export_model

        with scratch_folder() as folder:
            exported = export_model(spec, self.export, folder / f"{spec.name}.onnx", progress)
            loaded = load_model(exported.path)
            loaded.assumptions += exported.assumptions
            yield loaded

    def _refuse_export_options(self) -> None:
        for flag, given in (
            ("--dtypes", self.export.dtypes),
            ("--dynamic", self.export.dynamic),
            ("--factory-arg", self.export.factory_args),
        ):
            if given:
                raise UsageError(
                    f"{flag} is not for {self.model}",
                    why="it says how a PyTorch module is exported, and this is a file",
                    fix=f"leave {flag} away, or name package.module:factory",
                )

    def bound(
        self, loaded: LoadedModel, files: Mapping[str, Path] | None = None, seed: int = 0, *, feed: bool = False
    ) -> Source:
        """The model with its shapes; see `source.load.source_of`."""
        from trtprof.source.load import source_of

        source = source_of(loaded, self.shapes, self.batch, files, seed, feed=feed, symbols=self.symbols)
        return msgspec.structs.replace(source, model=self.named(source.model))

    def named(self, model: ModelInfo) -> ModelInfo:
        """The model under the name that it was asked for by: of a spec the exported file is gone after the run."""
        return model if self.spec is None else msgspec.structs.replace(model, path=self.model)
