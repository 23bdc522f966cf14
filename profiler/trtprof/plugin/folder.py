"""What a folder of `trtprof plugin` holds, for those who go on with it: the checks, the bench, another insertion.

``plugin.json`` names no place outside of its folder, and the same task and kernels make the same bytes. What is text
anyway (CUDA C++, PTX) lies in files of its own beside it, which it names.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

import msgspec

from trtprof.base.errors import MissingError, TrtprofError, UsageError
from trtprof.base.input_file import stays_inside
from trtprof.base.output_file import write_file
from trtprof.base.record_file import decoded
from trtprof.base.records import SCHEMA_VERSION, Work
from trtprof.plugin.kernel import Kernel
from trtprof.plugin.task import Operand, Task
from trtprof.runtime.nvrtc import first_line

FILE = "plugin.json"
_AGAIN = "write it again: trtprof plugin MODEL NODE -o FOLDER --force"


class KernelFiles(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel, and where its text and what was compiled of it lie in the folder; see `kernel_files`."""

    kernel: Kernel  # Without its text, which is in a file; `PluginFolder.kernels_in` gives it with it
    source: str  # That file
    ptx: dict[str, str] = {}  # File by the architecture that it was compiled for: ``sm_89``, or ``compute_89``

    def ptx_for(self, capability: tuple[int, int]) -> str:
        """The file for a device of this compute capability: of the nearest architecture that it runs; "" of none.

        PTX runs on what it was compiled for and on all that is newer; with a letter (``sm_90a``) on that alone.
        """
        fitting = {}
        for architecture, file in self.ptx.items():
            number, letter = _architecture(architecture)
            if number == capability or (number < capability and not letter):
                fitting[number, letter] = file
        return fitting[max(fitting)] if fitting else ""


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
    version: str = "1"  # Of the plugin
    nodes: tuple[str, ...]  # See `Task`; so are ``inputs``, ``outputs``, ``body`` (serialised) and ``main``
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    body: bytes
    main: str
    model: str = ""  # File name of the original model
    sha256: str = ""  # Of the original model
    inserted: str = ""  # File of the model with the plugin in it; "" where none was written. So are all files
    quick: str = ""  # File of the plugin in Python
    native: str = ""  # Folder of the C++ project
    kernels: tuple[KernelFiles, ...] = ()  # Variants by their tactic
    dims: dict[str, int] = {}  # What named dimensions of the task were in the brief
    shapes: tuple[str, ...] = ()  # Of the model, as ``--shapes`` takes them
    settings: dict[str, str] = {}  # How the engine of the run was built, by option; see `flows.options.with_flags`
    layer: str = ""  # That the brief is of
    runs: int = 1  # How often the kernel runs in one inference
    work: Work | None = None  # Of one run of it, at these sizes
    run: OfRun | None = None  # The run that the brief is of
    versions: dict[str, str] = {}  # Of what wrote and compiled it: ``trtprof``, ``nvrtc``
    digests: dict[str, str] = {}  # SHA-256 of text and PTX of the kernels as they were written, by file

    @property
    def task(self) -> Task:
        """What the kernels compute."""
        import onnx
        from google.protobuf.message import DecodeError

        try:
            body = onnx.FunctionProto.FromString(self.body)
        except DecodeError as error:
            raise ValueError(f"its body: {first_line(error)}") from None
        return Task(self.name, self.nodes, self.inputs, self.outputs, body, self.main)

    @property
    def operand_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the inputs of the task, as they were in the brief."""
        return self.task.shapes(self.dims)

    def kernels_in(self, folder: Path) -> tuple[Kernel, ...]:
        """The kernels with their text."""
        return tuple(
            dataclasses.replace(files.kernel, source=read(folder, files.source).decode()) for files in self.kernels
        )

    def ptx_in(self, folder: Path) -> dict[tuple[str, int], str]:
        """What was compiled, by architecture and tactic."""
        return {
            (architecture, files.kernel.tactic): read(folder, name).decode()
            for files in self.kernels
            for architecture, name in files.ptx.items()
        }

    def outdated_in(self, folder: Path) -> tuple[str, ...]:
        """Files with the text of kernels that was changed, while PTX that was compiled of it was not."""

        def changed(name: str) -> bool:
            return name in self.digests and hashlib.sha256(read(folder, name)).hexdigest() != self.digests[name]

        return tuple(
            one.source for one in self.kernels if changed(one.source) and not all(map(changed, one.ptx.values()))
        )

    @classmethod
    def of(cls, task: Task, kernels: tuple[KernelFiles, ...] = (), **more: Any) -> PluginFolder:
        """Of a task; ``more`` are the fields that it does not have."""
        return cls(
            name=task.name, nodes=task.nodes, inputs=task.inputs, outputs=task.outputs,
            body=task.body.SerializeToString(deterministic=True), main=task.main, kernels=kernels, **more,
        )  # fmt: skip


def kernel_files(kernel: Kernel, source: str, ptx: Mapping[str, str] = MappingProxyType({})) -> KernelFiles:
    """A kernel whose text and PTX (by architecture) lie in these files of the folder."""
    return KernelFiles(
        kernel=dataclasses.replace(kernel, source=""), source=source, ptx={name: ptx[name] for name in sorted(ptx)}
    )


def save(folder: Path, given: PluginFolder) -> Path:
    """Write `FILE`; the files that it names are their writers'."""
    path = folder / FILE
    write_file(path, msgspec.json.format(msgspec.json.encode(given, order="deterministic"), indent=1) + b"\n")
    return path


def load(folder: Path) -> PluginFolder:
    """Read a folder back."""
    found = _document(folder)
    for name in named_files(found):
        if not (folder / name).exists():
            raise MissingError(f"{folder / name} is not there", why=f"{FILE} names it", fix=_AGAIN)
    return found


def _document(folder: Path) -> PluginFolder:
    """`FILE`, whether the files that it names are there or not."""
    data = read(folder, FILE)
    try:
        version = decoded(data, _Version).schema_version
        if version != SCHEMA_VERSION:
            raise UsageError(
                f"{folder / FILE} cannot be read",
                why=f"it has schema version {version}, this trtprof reads {SCHEMA_VERSION}",
                fix=_AGAIN,
            )
        found = decoded(data, PluginFolder)
        _ = found.task
    except ValueError as error:
        raise UsageError(f"{folder / FILE} cannot be read", why=first_line(error), fix=_AGAIN) from None
    for name in named_files(found):
        if not stays_inside(name):
            raise UsageError(f"{folder / FILE} is not used", why=f"it names {name}, outside of its folder", fix=_AGAIN)
    return found


@contextmanager
def making(folder: Path) -> Iterator[Path]:
    """Yield an empty folder for the files of a new plugin, `FILE` the last: with it they take those of the old one."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".trtprof-", dir=folder) as made:
            yield Path(made)
            if (Path(made) / FILE).is_file():
                _move(Path(made), folder)
    except OSError as error:
        raise _unplaced(error, folder) from None


def _move(new: Path, folder: Path) -> None:
    """Move new files to their places, `FILE` last, and remove those of the old plugin that the new one has not."""
    names = sorted({path.relative_to(new).as_posix() for path in new.rglob("*") if path.is_file()} - {FILE})
    with suppress(TrtprofError):
        for name in _own_files(_document(folder)) - set(names):
            (folder / name).unlink(missing_ok=True)
    for name in (*names, FILE):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (new / name).replace(folder / name)


def _own_files(given: PluginFolder) -> set[str]:
    """Those that another plugin may not have."""
    found = {name for one in given.kernels for name in (one.source, *one.ptx.values())}
    if given.native:
        found |= {f"{given.native}/launch_{one.kernel.tactic}.cu" for one in given.kernels}
    if given.quick:
        quick = PurePosixPath(given.quick)
        found |= {given.quick, str(quick.with_name(f"test_{quick.name}"))}
    return found


def _unplaced(error: OSError, folder: Path) -> MissingError:
    return MissingError(
        f"{error.filename or folder} cannot be replaced", why=error.strerror or str(error), fix="choose another folder"
    )


def read(folder: Path, name: str) -> bytes:
    """A file of the folder."""
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise MissingError(
            f"{folder} is no folder of trtprof plugin" if name == FILE else f"{folder / name} is not there",
            why=f"{FILE} is not in it" if name == FILE and folder.is_dir() else error.strerror or str(error),
            fix="name a folder that `trtprof plugin MODEL NODE -o FOLDER` wrote",
        ) from None


class _Version(msgspec.Struct):
    schema_version: int


def named_files(given: PluginFolder) -> list[str]:
    """All files and folders that it names."""
    own = (given.inserted, given.quick, given.native)
    of_kernels = (name for one in given.kernels for name in (one.source, *one.ptx.values()))
    return [name for name in (*own, *of_kernels) if name]


def _architecture(name: str) -> tuple[tuple[int, int], str]:
    """Compute capability and letter of an architecture."""
    found = re.fullmatch(r"(?:sm|compute)_(\d+)(\d)([a-z]?)", name)
    if found is None:
        raise ValueError(f"{name} is no architecture")
    return (int(found[1]), int(found[2])), found[3]
