"""What a folder of `trtprof plugin` holds, for those who go on with it: checks, bench, another insertion.

``plugin.json`` names no place outside of its folder, and the same task makes the same bytes. The kernel is kernel.py.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from trtprof.base.errors import MissingError, UsageError
from trtprof.base.input_file import stays_inside
from trtprof.base.output_file import write_file
from trtprof.base.record_file import decoded
from trtprof.base.records import SCHEMA_VERSION, Work
from trtprof.plugin.task import Operand, Task

FILE = "plugin.json"
_AGAIN = "write it again: trtprof plugin MODEL NODE -o FOLDER --force"


class OfRun(msgspec.Struct, frozen=True, kw_only=True):
    """The run whose layer the kernel is for."""

    folder: str  # Its name, without where it lies
    created: str  # When it was made, by its request
    kernels_ns: int | None = None  # What the present kernels of the layer take, once, by the run
    kernels: tuple[str, ...] = ()  # Names of these
    gpu: str = ""  # What it ran on, as the driver calls it


class PluginFolder(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `FILE`."""

    schema_version: int = SCHEMA_VERSION
    name: str  # Of the plugin, and of the op of its node
    entry: str  # Of the kernel in kernel.py: the name of its form
    nodes: tuple[str, ...]  # See `Task`; so are ``inputs``, ``outputs``, ``body`` (serialised) and ``main``
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    body: bytes
    main: str
    model: str = ""  # File name of the original model
    sha256: str = ""  # Of the original model
    inserted: str = ""  # File of the model with the plugin in it; "" where none was written
    dims: dict[str, int] = {}  # What named dimensions of the task were in the brief
    shapes: tuple[str, ...] = ()  # Of the model, as ``--shapes`` takes them
    settings: dict[str, str] = {}  # How the engine of the run was built, by option; see `flows.options.with_flags`
    layer: str = ""  # That the brief is of
    runs: int = 1  # How often the kernel runs in one inference
    work: Work | None = None  # Of one run of it, at these sizes
    run: OfRun | None = None  # The run that the brief is of
    versions: dict[str, str] = {}  # Of what wrote it: ``trtprof``, ``triton``
    cpp: bool = False  # Whether cpp/ is there
    ptx: bool = False  # Whether kernel.N.ptx are there

    @property
    def task(self) -> Task:
        """What the kernel computes."""
        import onnx

        body = onnx.FunctionProto.FromString(self.body)
        return Task(self.name, self.nodes, self.inputs, self.outputs, body, self.main)

    @classmethod
    def of(cls, task: Task, **more: Any) -> PluginFolder:
        """Of a task; ``more`` are the fields that it does not have."""
        return cls(
            name=task.name, nodes=task.nodes, inputs=task.inputs, outputs=task.outputs,
            body=task.body.SerializeToString(deterministic=True), main=task.main, **more,
        )  # fmt: skip


def save(folder: Path, given: PluginFolder) -> None:
    """Write `FILE`."""
    text = msgspec.json.format(msgspec.json.encode(given, order="deterministic"), indent=1)
    write_file(folder / FILE, text + b"\n")


def load(folder: Path) -> PluginFolder:
    """Read a folder back."""
    path = folder / FILE
    if not path.is_file():
        fix = "trtprof plugin MODEL NODE -o FOLDER writes one"
        raise MissingError(f"{folder} is no folder of trtprof plugin", why=f"{FILE} is not in it", fix=fix)
    try:
        found = decoded(path.read_bytes(), PluginFolder)
        if found.schema_version != SCHEMA_VERSION:
            raise ValueError(f"it has schema version {found.schema_version}, this trtprof reads {SCHEMA_VERSION}")
        if found.inserted and not stays_inside(found.inserted):
            raise ValueError(f"it names {found.inserted}, outside of its folder")
        _ = found.task
    except Exception as error:  # of protobuf, too
        raise UsageError(f"{path} cannot be read", why=str(error).partition("\n")[0], fix=_AGAIN) from None
    for name in ("kernel.py", "plugin.py", found.inserted):
        if not (folder / name).exists():
            raise MissingError(f"{folder / name} is not there", why=f"{FILE} needs it", fix=_AGAIN)
    return found


@contextmanager
def making(folder: Path) -> Iterator[Path]:
    """Yield an empty folder for the files of a new plugin; with `FILE` in it they take the place of the old one's."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".trtprof-", dir=folder) as name:
            made = Path(name)
            yield made
            if (made / FILE).is_file():
                _replace(folder, made)
    except OSError as error:
        why = error.strerror or str(error)
        raise MissingError(f"{error.filename or folder} cannot be replaced", why=why, fix="-o another-folder") from None


def _replace(folder: Path, made: Path) -> None:
    """Move files to their places, `FILE` last; PTX and C++ of the old plugin go."""
    if (folder / FILE).is_file():
        for path in (*folder.glob("kernel.*.ptx"), *folder.glob("cpp/plugin.cpp"), *folder.glob("cpp/CMakeLists.txt")):
            path.unlink()
    files = [path for path in made.rglob("*") if path.is_file()]
    for path in sorted(files, key=lambda path: path == made / FILE):
        place = folder / path.relative_to(made)
        place.parent.mkdir(parents=True, exist_ok=True)
        path.replace(place)
