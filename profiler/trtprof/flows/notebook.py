"""What a person in Python or a notebook holds: results that show themselves, their tables as frames, their pictures.

Every table is that of the reports (`trtprof.report.tables`): one value a cell, times in ns, work in FLOP and bytes.
`Result.layers` and `Result.kernels` join by the name of the layer::

    run.layers.merge(run.kernels, left_on="name", right_on="layer")
"""

from __future__ import annotations

import functools
import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from trtprof.base.errors import MissingError, TrtprofError, UsageError
from trtprof.base.output_file import check_place, write_file
from trtprof.base.records import Comparisons, Prediction, Record, Run
from trtprof.base.run_folder import GPU, KERNELS, LATENCY, REPORT, RunFolder
from trtprof.base.trace_file import table_file

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_WIDTH = 100  # Columns of what a notebook shows


class Result:
    """A record with its tables and documents."""

    def __init__(self, record: Record) -> None:
        self.record = record

    def table(self, name: str = "") -> pd.DataFrame:
        """One of its tables, those of ``--table``; without a name the first."""
        import pandas as pd

        from trtprof.report.tables import table_of

        found = table_of(name, type(self.record))
        return pd.DataFrame(
            list(found.rows(self.record)), columns=[column.name for column in found.columns(self.record)]
        )

    @property
    def tables(self) -> dict[str, str]:
        """Its tables: what `table` takes, and what a row of each is."""
        from trtprof.report.tables import tables_of

        return {name: each.meaning for name, each in tables_of(type(self.record)).items()}

    def save(self, path: str | Path) -> Path:
        """Write it to a file, in the format that its suffix names; see ``trtprof report -o``."""
        from trtprof import report

        target = Path(path)
        if target.exists():
            raise UsageError(
                f"{target} exists", why="it will not be overwritten", fix="choose another name, or remove it"
            )
        name = report.for_path(str(target), type(self.record)).name
        check_place(target)
        write_file(target, report.encode(self.record, name, **self._options(name)))
        return target

    def _options(self, name: str) -> Mapping[str, Any]:
        """What a format needs beside the record."""
        if name != "onnx" or not isinstance(self.record, Run):
            return {}
        from trtprof.flows.report import model_as_run

        return {"model": model_as_run(self.record)}

    def __str__(self) -> str:
        from trtprof import report

        return report.render(self.record, "text", width=_WIDTH)

    def _repr_html_(self) -> str:
        return f'<pre style="line-height:1.25;overflow-x:auto">{html.escape(str(self))}</pre>'


class PredictedModel(Result):
    """A model on GPUs that need not be at hand."""

    record: Prediction

    @property
    def layers(self) -> pd.DataFrame:
        """One row a layer on a GPU, longest first."""
        return self.table("layers")


class ComparedRuns(Result):
    """Runs held against the first of them."""

    record: Comparisons

    @property
    def parts(self) -> pd.DataFrame:
        """One row a part of the model, largest difference first."""
        return self.table("parts")


class Picture:
    """A drawing that a notebook shows."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def save(self, path: str | Path) -> Path:
        """Write it as SVG."""
        target = Path(path)
        write_file(target, self.svg.encode())
        return target

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Picture({len(self.svg):,} bytes of SVG)"


class Plots:
    """The pictures of a run; matplotlib draws them."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def roofline(self) -> Picture:
        """Every layer under the roofs of the device."""
        return self._drawn("roofline")

    def ledger(self) -> Picture:
        """From ideal to measured, step by step; see `roofline`."""
        return self._drawn("ledger")

    def timeline(self) -> Picture:
        """One inference as captured, lane by lane; see `roofline`."""
        return self._drawn("timeline")

    def _drawn(self, figure: Literal["roofline", "ledger", "timeline"]) -> Picture:
        from trtprof import report

        return Picture(report.render(self._run, "svg", figure=figure))


class MeasuredModel(Result):
    """A measured run, from wherever its files came.

    Attributes:
        run: The whole result as records (`records.Run`).
    """

    record: Run

    @property
    def run(self) -> Run:
        """The whole result as records."""
        return self.record

    @property
    def plot(self) -> Plots:
        """Its pictures."""
        return Plots(self.record)

    @property
    def layers(self) -> pd.DataFrame:
        """One row a layer, ranked by time lost; ``name`` is what ``layer`` is in `kernels`."""
        return self.table("layers")

    @property
    def kernels(self) -> pd.DataFrame:
        """One row for the kernels of one name in one ``layer``."""
        return self.table("kernels")

    @property
    def nodes(self) -> pd.DataFrame:
        """One row an ONNX node: its work and what became of it."""
        return self.table("nodes")

    @property
    def findings(self) -> pd.DataFrame:
        """One row a finding, ranked."""
        return self.table("findings")

    @property
    def ledger(self) -> pd.DataFrame:
        """One row a cause; ``ns`` sums to the median latency."""
        return self.table("ledger")


class LoadedRun(MeasuredModel):
    """A finished run in its folder."""

    def __init__(self, path: Path) -> None:
        self._folder = RunFolder(path.parent if path.name == REPORT else path)
        super().__init__(self._folder.report())

    def __repr__(self) -> str:
        return f"LoadedRun({str(self.path)!r}: {self.run.model.name}, {len(self.run.layers)} layers)"

    @property
    def path(self) -> Path:
        """The run folder."""
        return self._folder.path

    @functools.cached_property
    def launches(self) -> pd.DataFrame:
        """One row a kernel launch, as captured (`records.KERNEL_COLUMNS`, of a GPU those of `base.trace`)."""
        return self._folder.table(table_file("kernels") if self._folder.has(GPU) else KERNELS)

    @functools.cached_property
    def latency(self) -> pd.DataFrame:
        """Raw latency samples in ns, measured without the profiler."""
        return self._folder.table(LATENCY)


class Runs:
    """The finished runs of a folder, oldest first; each is read when it is its turn.

    Attributes:
        left_out: Run folders that could not be read, with why; known once they have been gone through.
    """

    def __init__(self, reports: Path) -> None:
        if not reports.is_dir():
            raise MissingError(
                f"there is no folder {reports}", why="runs are kept in one", fix="tp.runs('reports/'), where they are"
            )
        self.reports = reports
        self.left_out: dict[Path, str] = {}

    def __iter__(self) -> Iterator[LoadedRun]:
        for path in self._paths():
            try:
                yield LoadedRun(path)
            except TrtprofError as error:
                self.left_out[path] = str(error)

    def __len__(self) -> int:
        return len(self._paths())

    @functools.cached_property
    def frame(self) -> pd.DataFrame:
        """One row a run: the table ``run`` of each, with the folder in front."""
        import pandas as pd

        rows = []
        for run in self:
            row = run.table("run")
            row.insert(0, "path", str(run.path))
            rows.append(row)
        return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame(columns=["path"])

    def _paths(self) -> list[Path]:
        found = (path for path in self.reports.iterdir() if not path.name.startswith(".") and (path / REPORT).is_file())
        return sorted(found, key=lambda path: ((path / REPORT).stat().st_mtime_ns, path.name))

    def __repr__(self) -> str:
        return f"Runs({str(self.reports)!r}: {len(self)} finished)"

    def _repr_html_(self) -> str:
        made: str = self.frame.to_html()
        return made


def run(model: str | Path, *, shapes: str | Iterable[str] = (), batch: int | None = None, **options: Any) -> LoadedRun:
    """Run a model through all stages, as ``trtprof run`` does.

    Args:
        model: An ONNX file, or ``package.module:factory``.
        shapes: As ``--shapes``: ``"x:1x3x224x224"``.
        batch: As ``--batch``.
        options: The other fields of `flows.options.RunOptions`: ``backend``, ``duration_s``, ``output`` ...
    """
    from trtprof.flows.options import RunOptions
    from trtprof.flows.run import execute

    unknown = [name for name in options if name not in RunOptions.__struct_fields__]
    if unknown:
        known = [name for name in RunOptions.__struct_fields__ if name != "model"]
        raise UsageError(f"run has no option {unknown[0]!r}", why="known: " + ", ".join(known), fix="use one of these")
    if "output" in options:
        options["output"] = str(options["output"])
    return LoadedRun(execute(RunOptions(model=_request(model, shapes, batch), **options)).path)


def analyze(
    *files: str | Path, gpu: str | Iterable[str] = (), shapes: str | Iterable[str] = (), batch: int | None = None
) -> MeasuredModel | PredictedModel:
    """Analyse files made elsewhere, as ``trtprof analyze`` does."""
    from trtprof.flows import analyze as flow
    from trtprof.flows.predict.on_gpus import Settings
    from trtprof.hardware import gpus

    found = flow.analyze(
        flow.exported(flow.sort_files(map(Path, files))),
        [gpus.find(name) for name in _names(gpu)],
        Settings(),
        _request("", shapes, batch),
    )
    return MeasuredModel(found) if isinstance(found, Run) else PredictedModel(found)


def predict(
    model: str | Path,
    gpu: str | Iterable[str],
    *,
    dtype: str = "model",
    level: Literal["auto", "layers", "groups"] = "auto",
    shapes: str | Iterable[str] = (),
    batch: int | None = None,
) -> PredictedModel:
    """Predict a model on GPUs that need not be at hand, as ``trtprof predict`` does.

    Args:
        gpu: Names that ``trtprof gpus`` lists, with commas or one by one.
        dtype: As ``--dtype``.
        level: As ``--level``.
    """
    from trtprof.flows import predict as flow
    from trtprof.flows.predict.on_gpus import Settings
    from trtprof.hardware import gpus

    how = Settings(level=level, precision=dtype)
    return PredictedModel(flow.predict(_request(model, shapes, batch), [gpus.find(name) for name in _names(gpu)], how))


def compare(*sides: LoadedRun | str | Path | Iterable[LoadedRun | str | Path]) -> ComparedRuns:
    """Compare runs with the first of them, as ``trtprof compare`` does; a side may be several runs."""
    from trtprof.compare import compare as flow

    def folders(side: Any) -> list[Path | RunFolder]:
        one = [side] if isinstance(side, (LoadedRun, str, Path)) else list(side)
        return [each.path if isinstance(each, LoadedRun) else Path(each) for each in one]

    return ComparedRuns(flow([folders(side) for side in sides]))


def runs(reports: str | Path = "reports") -> Runs:
    """All finished runs of a folder."""
    return Runs(Path(reports))


def fleet(
    place: str | Path,
    *,
    all: bool = False,  # noqa: A002
    columns: Sequence[str] | None = None,
) -> pd.DataFrame:
    """The table of a fleet: one row a cell that is done or failed, with columns of `records.FleetRow`.

    Sizes and options are text (JSON), tags and attempts lists of words, ``ledger`` and ``kernels`` lists of dicts, and
    whole numbers stay whole where some are missing (``Int64``). Times are in ns.

    Args:
        place: The folder that ``trtprof fleet run`` wrote, or its URI (``s3://bucket/fleet``).
        columns: Names of columns, in the order in which they are wanted; None: all but ``ledger`` and ``kernels``,
            which take most of the memory.
    """
    import warnings

    import pandas as pd
    import pyarrow as pa

    from trtprof.base.fleet_table import schema
    from trtprof.flows.fleet.store import Store

    kinds = schema()
    known = kinds.names
    if isinstance(columns, str):
        columns = [columns]
    if strangers := [name for name in columns or () if name not in known]:
        raise UsageError(f"a fleet has no column {', '.join(strangers)}", fix=f"one of: {', '.join(known)}")
    if columns is None:
        wanted = [name for name in known if not _holds_records(kinds.field(name).type)]
    else:
        wanted = list(dict.fromkeys(columns))
    told: list[str] = []
    store = Store(str(place), say=told.append)
    _, cells = store.asked()
    table = store.table(None if all else {cell.key for cell in cells}, wanted)
    lists = [field.name for field in table.schema if pa.types.is_list(field.type)]
    frame: pd.DataFrame = table.drop_columns(lists).to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    for name in lists:
        frame[name] = table[name].to_pylist()
    for text in told:
        warnings.warn(text, stacklevel=2)
    in_order: pd.DataFrame = frame[table.column_names]
    return in_order


def _holds_records(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) and pa.types.is_struct(kind.value_type))


def _request(model: str | Path, shapes: str | Iterable[str], batch: int | None) -> Any:
    from trtprof.source.request import ModelRequest

    return ModelRequest.of(model, _several(shapes), batch)


def _names(given: str | Iterable[str]) -> list[str]:
    """With commas, as on the command line, or each by itself."""
    return [name for name in given.split(",") if name] if isinstance(given, str) else list(given)


def _several(given: str | Iterable[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)
