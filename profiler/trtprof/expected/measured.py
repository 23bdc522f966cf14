"""Kernels that a user timed on a GPU: read as a table, and made a correction of what is expected there."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, get_args, get_type_hints

import msgspec
import numpy as np

from trtprof.base import units
from trtprof.base.errors import UsageError
from trtprof.base.records import Ceilings, Core, Corrected, GpuSpec, Work
from trtprof.base.text_file import read_text_file
from trtprof.expected.correction import SIZES, Correction, Fitted, fitted, place_of
from trtprof.expected.features import device_of, rows_of, soonest
from trtprof.expected.model import as_measured, class_of, dtype_on, expect

NEEDED = ("kind", "dtype", "m", "ns")
OPTIONAL = ("batch", "n", "k", "window", "stride", "shared", "causal", "read", "written")
KINDS: tuple[str, ...] = get_args(get_type_hints(Core)["kind"])
_FIX = f"give a table with a head: {','.join(NEEDED)}, and where they are not 1 {','.join(OPTIONAL)}"
_MOST = 1000
"""Rows of a class that are used, drawn at random: the time grows with their third power."""
_FASTER = 0.97
"""A row may be as much faster than the datasheet allows: clocks and clocks' ticks differ."""


NONE = "none"
"""What ``--measured`` says where expectations are to stay those of others."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels that were timed on a GPU, as a table has them; a run folder keeps it."""

    text: str  # The table; see `read_measured`
    source: str  # Name of its file
    gpu: str = ""  # What the driver calls the GPU, where `trtprof calibrate` timed them
    slug: str = ""  # And its datasheet
    timed_at: str = ""  # And when

    def rows(self) -> tuple[TimedWork, ...]:
        """The rows."""
        return _parsed(self.text, self.source)

    def multiplies_tf32(self, tf32: bool) -> bool:
        """Whether fp32 in it was multiplied as TF32: as a run is asked to, unless `trtprof calibrate` says which."""
        return tf32 and not self.timed_at

    def check(self, spec: GpuSpec, ceilings: Ceilings, *, tf32: bool = True) -> None:
        """Refuse rows of a person that say nothing of a device; those of `trtprof calibrate` are left out (`learn`)."""
        rows = self.rows()
        if not self.timed_at:
            learn(rows, spec, ceilings, tf32=tf32)

    def learn(
        self, spec: GpuSpec, ceilings: Ceilings, *, tf32: bool = True
    ) -> tuple[Correction | None, Corrected | None]:
        """What it says of a device, and of what that was learned; None where no row says anything of it."""
        rows = self.rows()
        found = learn(rows, spec, ceilings, tf32=self.multiplies_tf32(tf32), strict=False)
        used = sum(found.counts.values())
        if not used:
            return None, None
        told = Corrected(rows=used, left_out=len(rows) - used, source=self.source, gpu=self.gpu, timed_at=self.timed_at)
        return found, told


class TimedWork(NamedTuple):
    """A work and how long a kernel took for it; ``line`` is where the file tells it."""

    work: Work
    ns: float
    line: int = 0


def read_measured(path: Path) -> Measured:
    """A CSV with a head, one timed kernel a row, as a person or `trtprof calibrate` wrote it.

    Columns are ``kind`` (one of `KINDS`), ``dtype`` of what is multiplied or computed with (a key of
    `units.DTYPE_BITS`), the dimensions of `Core` and ``ns``, the time of the kernel. ``causal`` is 0 or 1. ``read`` and
    ``written``, in bytes, are for kernels that move other than each operand once: a pointwise op of two inputs. A line
    that begins with ``#`` is a remark; ``# gpu: NAME``, ``# datasheet: SLUG`` and ``# timed: WHEN`` say what `trtprof
    calibrate` timed.
    """
    text = read_text_file(path, what="measured rows", fix=_FIX, binary="it may be a spreadsheet, not saved as CSV")
    found = Measured(text=text, source=path.name, **_remarks(text))
    _parsed(text, str(path))
    return found


_REMARKS = {"gpu": "gpu", "datasheet": "slug", "timed": "timed_at"}


def _remarks(text: str) -> dict[str, str]:
    """What the lines before the head say, by field of `Measured`."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        name, _, value = line[1:].partition(":")
        if field := _REMARKS.get(name.strip()):
            found[field] = value.strip()
    return found if len(found) == len(_REMARKS) else {}


def _parsed(text: str, path: str) -> tuple[TimedWork, ...]:
    # An empty line in the place of a remark, so that lines are counted as they are in the file.
    lines = ["\n" if line.startswith("#") else line for line in text.splitlines(keepends=True)]
    before = sum(1 for _ in itertools.takewhile(lambda line: not line.strip(), lines))
    reader = csv.DictReader(lines[before:])
    head = [name.strip().lower() for name in reader.fieldnames or ()]
    reader.fieldnames = head
    missing = [name for name in NEEDED if name not in head]
    unknown = [name for name in head if name not in (*NEEDED, *OPTIONAL)]
    if missing or unknown or len(set(head)) < len(head):
        why = f"its head lacks {', '.join(missing)}" if missing else f"nothing is known of {', '.join(unknown)}"
        raise UsageError(
            f"{path} has no measured rows", why=why if missing or unknown else "a column is there twice", fix=_FIX
        )
    found = []
    for row in reader:
        values = {name: (value or "").strip() for name, value in row.items() if isinstance(name, str)}
        try:
            if None in row:
                raise ValueError(f"it has more than {len(head)} values")
            found.append(TimedWork(_work(values), _number("ns", values["ns"]), before + reader.line_num))
        except ValueError as error:
            raise UsageError(
                f"line {before + reader.line_num} of {path} is no measured row", why=str(error), fix=_FIX
            ) from None
    if not found:
        raise UsageError(f"{path} has no measured rows", why="there is nothing below its head", fix=_FIX)
    return tuple(found)


def measured_text(rows: Sequence[TimedWork], gpu: str, slug: str, timed_at: str, remarks: Sequence[str] = ()) -> str:
    """The table of kernels that `trtprof calibrate` timed, as `read_measured` reads it."""
    file = io.StringIO()
    told = {"gpu": gpu, "datasheet": slug, "timed": timed_at}
    for line in (*(f"{name}: {value}" for name, value in told.items()), *remarks):
        file.write(f"# {' '.join(line.split())}\n")
    table = csv.writer(file, lineterminator="\n")
    table.writerow(("kind", "dtype", "batch", "m", "n", "k", "ns"))
    for row in rows:
        core = row.work.core
        assert core is not None  # noqa: S101 - works of `work_at` have one
        table.writerow([core.kind, row.work.dtype, core.batch, core.m, core.n, core.k, f"{row.ns:.6g}"])
    return file.getvalue()


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{name} is {text!r}, no number") from None
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} is {text}, it must be more than 0")
    return value


def _whole(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 15 or int(text) < 1:
        raise ValueError(f"{name} is {text[:40]!r}, it must be a whole number of 1 or more, and of 15 digits at most")
    return int(text)


def _work(values: Mapping[str, str]) -> Work:
    kind, dtype, causal = values["kind"].lower(), values["dtype"].lower(), values.get("causal") or "0"
    if kind not in KINDS:
        raise ValueError(f"kind is {values['kind']!r}, it must be one of {', '.join(KINDS)}")
    if dtype not in units.DTYPE_BITS:
        raise ValueError(f"dtype is {values['dtype']!r}, it must be one of {', '.join(units.DTYPE_BITS)}")
    if causal not in ("0", "1"):
        raise ValueError(f"causal is {causal!r}, it must be 0 or 1")
    sizes = {name: _whole(name, values[name]) for name in SIZES if name == "m" or values.get(name)}
    core = msgspec.convert({"kind": kind, **sizes, "causal": causal == "1"}, Core)
    moved = {name: _whole(name, values[name]) for name in ("read", "written") if values.get(name)}
    return work_at(core, dtype, **moved)


def work_at(core: Core, dtype: str, read: int | None = None, written: int | None = None) -> Work:
    """The work of a core alone, as the cost functions of the op count it; bytes are of each operand once."""
    batch, m, n, k = core.batch, core.m, core.n, core.k
    results = batch * m * n
    width = units.DTYPE_BITS[dtype] / 8
    # Products of few bits are given out with 16.
    out = width if core.kind in ("softmax", "normalisation", "pointwise") else max(width, 2.0)
    tensor, fast, vector, special, reads = 0, 0, 0, {}, float(results) * width
    if core.kind == "product":
        tensor, reads = 2 * results * k, batch * (m * k + k * n) * width
    elif core.kind == "convolution":
        tensor, reads = 2 * results * k, batch * (m * core.stride * k / core.window + k * n) * width
        # As for ops, where no name says that it is no Winograd: a quarter of the products would do.
        fast = tensor * 3 // 4 if (core.window, core.stride) == (9, 1) else 0
    elif core.kind == "attention":
        pairs = results - (batch * m * (m - 1) // 2 if core.causal else 0)
        tensor, vector, special = 4 * pairs * k, 5 * pairs - 2 * batch * m, {"exp": pairs}
        reads = (batch * m * k + 2 * batch / core.shared * n * k) * width
        results = batch * m * k
    elif core.kind == "softmax":
        vector, special = batch * m * (4 * n - 2), {"exp": results}
    elif core.kind == "normalisation":
        vector, special, reads = batch * m * (7 * n + 2), {"sqrt": batch * m}, (results + 2 * n) * width
    else:
        vector = results
    return Work(
        tensor_flops=tensor, fast_flops=fast, vector_flops=vector, special=special, dtype=dtype, core=core,
        bytes_read=read or math.ceil(reads), bytes_written=written or math.ceil(results * out),
    )  # fmt: skip


# --- what they say ---------------------------------------------------------------------------------


def learn(
    rows: Sequence[TimedWork], spec: GpuSpec, ceilings: Ceilings, *, tf32: bool = True, strict: bool = True
) -> Correction:
    """What rows that were timed on a device say of it."""
    found: dict[str, list[tuple[TimedWork, Core, float]]] = {}
    # No kernel is faster than the best ceilings; it may be faster than those that others were seen to reach.
    device = device_of(spec, msgspec.structs.replace(ceilings, attainable=ceilings.best))
    rows = [row._replace(work=as_measured(row.work, spec, tf32=tf32)) for row in rows]
    for row, one in zip(rows, expect([row.work for row in rows], spec, ceilings, tf32=tf32), strict=True):
        where = f"line {row.line} of the measured rows" if row.line else "a measured row"
        core = row.work.core
        if core is None or not one.expected_ns:
            if not strict:
                continue
            raise UsageError(
                f"{where} corrects nothing",
                why=one.expected_reason,
                fix="leave it away: such layers get no expectation",
            )
        least = float(soonest(rows_of([(row.work, core)], device), device)[0])
        if row.ns < _FASTER * least:
            if not strict:
                continue
            raise UsageError(
                f"{where} cannot be right: {row.ns:g} ns",
                why=f"{spec.name} takes at least {least:.0f} ns for it by its datasheet",
                fix="see that ns are nanoseconds of one kernel on that GPU, and dimensions and dtype those that ran",
            )
        name = class_of(core.kind, dtype_on(row.work, spec, tf32=tf32))
        found.setdefault(name, []).append((row, core, float(one.expected_ns)))
    return Correction(
        {name: _fitted(some) for name, some in found.items()}, {name: len(some) for name, some in found.items()}
    )


def _fitted(rows: Sequence[tuple[TimedWork, Core, float]]) -> Fitted:
    if len(rows) > _MOST:
        chosen = np.random.default_rng(0).choice(len(rows), _MOST, replace=False)
        rows = [rows[at] for at in sorted(chosen.tolist())]
    places = np.array([place_of(core, expected) for _, core, expected in rows])
    dtypes = np.array([row.work.dtype for row, _, _ in rows])
    return fitted(places, dtypes, np.log([row.ns / expected for row, _, expected in rows]))
