"""The run folder: all artefacts of one run, and how they become records and tables again.

    reports/<model>-<stamp>/
      request.json      what was asked (`Request`): model, options, versions
      source.json       the model as bound: nodes with shapes (`records.Source`)
      engine.json       the engine's layers (`records.Engine`); engine.onnx is its graph, without weights
      ceilings.json     the roofs of the device, device.json the device
      gpu.json          of a run on a GPU: its datasheet
      measured.json     where kernels that were timed on it correct what is expected: these (`expected.Measured`)
      plan.json         with TensorRT: how the engine came about; layers.* is what the library says of its layers
      latency.parquet   raw latency samples in ns, without the profiler
      latency-ahead.parquet  the same ahead of other processes, where these disturbed them
      kernels.parquet   one row a kernel launch (`records.KERNEL_COLUMNS`)
      gpu_*.parquet     on a GPU instead: kernels and copies, launches, NVTX ranges, nodes of CUDA graphs, and
      gpu_trace.json    what is no table of them (`gpu_trace_file`); nsys.nsys-rep is nsys' own report
      counters.json     with --confirm: what ncu counted of the kernels that findings blame
      ort_nodes.parquet with ONNX Runtime on a GPU: when the host was in which node
      capture.json      summary of both; its presence says that the capture is whole
      report.json       the result (`records.Run`), the document of ``--format json``
      report.html       the page
      bench.json        custom kernels for layers of it that were measured (`records.PluginBenches`)
      tags.json         what its owner calls it (`RunFolder.tag`); no part of the result

JSON for what people read, Parquet for what there is a lot of. A file is written beside its place
and moved there, so that a kill leaves the old file or the new one, never half of one.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from trtprof.base import record_file, scratch
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.input_file import read_file, stays_inside
from trtprof.base.output_file import replace_file
from trtprof.base.parquet_file import read_parquet
from trtprof.base.records import SCHEMA_VERSION, Run

if TYPE_CHECKING:
    import pandas as pd

REQUEST = "request.json"
SOURCE = "source.json"
ENGINE = "engine.json"
CEILINGS = "ceilings.json"
DEVICE = "device.json"
GPU = "gpu.json"
MEASURED = "measured.json"
PLAN = "plan.json"
CAPTURE = "capture.json"
LATENCY = "latency.parquet"
AHEAD = "latency-ahead.parquet"
"""Samples of inferences ahead of other processes, in the form of `LATENCY`, where these disturbed those."""
KERNELS = "kernels.parquet"
REPORT = "report.json"
PAGE = "report.html"
TAGS = "tags.json"
BENCH = "bench.json"
"""Custom kernels that `trtprof plugin bench` measured: of a run those for its layers, in the folder of one its own."""
TRIED = "tried.json"
"""What `trtprof try` measured of the model of this run."""

_AGAIN = "run the model again"
_TAG = re.compile(r"\w[\w.+:/@-]{0,63}")
"""A tag: one word of at most 64 letters, digits and ``. + : / @ - _``, which no shell and no list takes apart."""

T = TypeVar("T")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was asked to do; a resumed run must be asked the same.

    ``options`` are those that change a result, as text. ``version`` is trtprof's own, ``command`` what was typed.
    """

    schema_version: int
    created: str
    version: str
    model: str
    sha256: str
    options: Mapping[str, str]
    command: str = ""


class Tags(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner of a run calls it: the content of ``tags.json``, sorted, each once."""

    schema_version: int
    tags: tuple[str, ...] = ()


class RunFolder:
    """A folder with the artefacts of one run, some of which may be missing yet."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, name: str) -> Path:
        """Path of an artefact, present or not."""
        if not stays_inside(name):
            raise UsageError(f"{name!r} is no file of {self.path}", why="all of a run lies in one folder", fix=_AGAIN)
        return self.path / name

    def has(self, name: str) -> bool:
        """Whether an artefact is there."""
        return self.file(name).is_file()

    def write(self, name: str, record: object) -> Path:
        """Write a record as JSON, whole or not at all."""
        return self.write_bytes(name, msgspec.json.format(msgspec.json.encode(record, order="deterministic"), indent=1))

    def write_bytes(self, name: str, data: bytes) -> Path:
        """Write a file, whole or not at all; see `write`."""
        target = self.file(name)
        try:
            replace_file(target, data)
        except OSError as error:
            raise _unwritable(target, error) from None
        return target

    def read(self, name: str, kind: type[T]) -> T:
        """Read an artefact back."""
        path = self.file(name)
        try:
            data = read_file(path, most=record_file.MAX_BYTES, what="an artefact of a run", fix=_AGAIN)
        except FileNotFoundError:
            raise MissingError(
                f"{self.path} has no {name}",
                why="the run ended before that stage" if self.has(REQUEST) else "it is not a run folder of trtprof",
                fix=f"finish it with `trtprof run ... -o {self.path} --resume`"
                if self.has(REQUEST)
                else "name a folder that `trtprof run` wrote, for example the newest under reports/",
            ) from None
        except NotADirectoryError:
            raise UsageError(
                f"{self.path} is a file, not a run folder",
                why="a run folder holds report.json and what it was made of",
                fix="name the folder that `trtprof run` wrote",
            ) from None
        except OSError as error:
            raise MissingError(
                f"{path} cannot be read", why=error.strerror or str(error), fix="check its permissions"
            ) from None
        found = _schema_version(data)
        try:
            return record_file.decoded(data, kind)
        except ValueError as error:
            if found is not None and found != SCHEMA_VERSION:
                why = f"it has schema version {found}, this trtprof reads {SCHEMA_VERSION}"
            else:
                why = str(error)
            raise UsageError(f"{path} cannot be read", why=why, fix=_AGAIN) from None

    def table(self, name: str) -> pd.DataFrame:
        """Read a Parquet table back."""
        path = self.file(name)
        if not path.is_file():
            raise MissingError(f"{self.path} has no {name}", why="the run ended before that stage", fix="run again")
        try:
            return read_parquet(path)
        except (OSError, ValueError) as error:
            why = (str(error).splitlines() or ["it is no Parquet"])[0]
            raise UsageError(f"{path} cannot be read", why=why, fix="run again") from None

    def written(self) -> int | None:
        """Schema version that the finished run was written with; None where there is none, or it cannot be told."""
        try:
            return _schema_version(read_file(self.file(REPORT), most=record_file.MAX_BYTES))
        except (OSError, UsageError):
            return None

    def report(self) -> Run:
        """The finished run with its tags."""
        run = self.read(REPORT, Run)
        if run.schema_version > SCHEMA_VERSION:
            raise UsageError(
                f"{self.file(REPORT)} cannot be read",
                why=f"it has schema version {run.schema_version}, this trtprof reads {SCHEMA_VERSION}",
                fix="read it with the trtprof that wrote it, or run the model again",
            )
        return msgspec.structs.replace(run, schema_version=SCHEMA_VERSION, tags=self.tags())

    def tags(self) -> tuple[str, ...]:
        """The tags of the run, sorted; none where it never got any."""
        return self.read(TAGS, Tags).tags if self.has(TAGS) else ()

    def tag(self, add: Sequence[str] = (), remove: Sequence[str] = ()) -> tuple[str, ...]:
        """Give the run tags and take others away; one that it has, or has not, already is no error."""
        check_tags((*add, *remove))
        old = self.tags()
        for tag in remove:
            if tag not in old:
                raise UsageError(
                    f"{self.path} has no tag {tag!r}",
                    why="it has " + (", ".join(old) or "none"),
                    fix=f"--untag {old[0]}" if old else f"--tag {tag} gives it one",
                )
        new = tuple(sorted((set(old) - set(remove)) | set(add)))
        if new != old:
            self.write(TAGS, Tags(schema_version=SCHEMA_VERSION, tags=new))
        return new


def check_tags(tags: Sequence[str]) -> None:
    """Refuse tags that would not do as a word on a command line or in a list."""
    for tag in tags:
        if not _TAG.fullmatch(tag):
            raise UsageError(
                f"{tag[:80]!r} is no tag",
                why="a tag is one word: it begins with a letter or a digit, then letters, digits and . + : / @ - _, "
                "at most 64 in all",
                fix="--tag baseline",
            )


def newest(reports: Path) -> RunFolder:
    """The finished run that was written last, of all in a folder."""
    found: list[tuple[int, str, Path]] = []
    try:
        for path in reports.iterdir():
            report = path / REPORT
            if not path.name.startswith(".") and report.is_file():
                found.append((report.stat().st_mtime_ns, path.name, path))
    except OSError:
        found = []
    if not found:
        raise MissingError(
            f"there is no finished run in {reports}",
            why="no folder in it has a report.json" if reports.is_dir() else "there is no such folder",
            fix="trtprof run model.onnx, or name a run folder",
        )
    return RunFolder(max(found)[2])


def _schema_version(data: bytes) -> int | None:
    class Probe(msgspec.Struct):
        schema_version: int | None = None

    try:
        return record_file.decoded(data, Probe).schema_version
    except ValueError:
        return None


def _unwritable(path: Path, error: OSError) -> MissingError:
    return MissingError(
        f"{path.parent} cannot be written", why=error.strerror or str(error), fix="choose another folder with -o"
    )


def default_folder(model_name: str, reports: Path, now: dt.datetime) -> Path:
    """``reports/<model>-<stamp>``, with a counter when two runs share a second."""
    stem = re.sub(r"[^\w.-]+", "_", model_name) or "model"
    stamp = now.strftime("%Y%m%d-%H%M%S")
    path, counter = reports / f"{stem}-{stamp}", 1
    while path.exists():
        counter += 1
        path = reports / f"{stem}-{stamp}-{counter}"
    return path


def occupied(path: Path) -> bool:
    """Whether a folder is there and not empty."""
    try:
        return path.is_dir() and any(each.name != scratch.IN_USE for each in path.iterdir())
    except OSError as error:
        raise _unwritable(path / "x", error) from None


def create(path: Path) -> RunFolder:
    """Make an empty run folder."""
    if path.is_file():
        raise UsageError(f"{path} is a file", why="a run needs a folder", fix="choose another path with -o")
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise _unwritable(path / "x", error) from None
    return RunFolder(path)


@contextmanager
def claimed(target: Path) -> Iterator[None]:
    """Have a run folder for this process alone until the block ends; what killed ones left in it is removed."""
    with ExitStack() as stack:
        try:
            stack.enter_context(scratch.in_use(create(target).path))
            for path in target.glob(f"{scratch.PREFIX}*"):
                shutil.rmtree(path, ignore_errors=True)
            for path in target.glob(f"{scratch.PART}*"):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise _unwritable(target / "x", error) from None
        yield


@contextmanager
def replacing(target: Path) -> Iterator[RunFolder]:
    """An empty folder for a run that will take the place of another, which is `claimed` and stays until then."""
    new = target.with_name(f".{target.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    try:
        yield create(new)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def replace(finished: RunFolder, target: Path) -> RunFolder:
    """Put a finished run in the place of an older one."""
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    os.replace(target, old)
    os.replace(finished.path, target)
    shutil.rmtree(old, ignore_errors=True)
    return RunFolder(target)
