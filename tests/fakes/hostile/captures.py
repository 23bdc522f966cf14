"""Files of other profilers, broken at random: each is refused in one error, or read as far as it is right."""

# ruff: noqa: S608 - names of tables come from the file itself
from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from pathlib import Path
from random import Random
from typing import Any

from tests.fakes import trace_factory, trtexec_files
from tests.fakes.hostile.mutate import TEXTS, mutated, mutated_bytes, written
from tests.fakes.hostile.running import Case
from tests.fakes.ncu_factory import counted, ncu_csv
from tests.fakes.stats_factory import write_stats
from tests.fakes.support import ROOT
from trtprof.capture.nsys.trace import read_trace
from trtprof.engine.profile_files import profile_table, read_profile

_LOG = ROOT / "tests" / "engine" / "data" / "rtx_gemv.log"
_SHOWN: tuple[tuple[str, ...], ...] = (
    (), (), ("--format", "json"), ("-o", "out.html"), ("--format", "markdown"), ("--by", "type"), ("--redact",),
    ("--format", "perfetto"), ("--format", "junit"),
    ("--format", "csv"), ("-o", "out.svg"), ("-o", "out.parquet"), ("--by", "node"), ("--by", "kernel"),
)  # fmt: skip
WARM = [
    ("analyze", str(_LOG), "--gpu", "l4"),
    ("analyze", str(_LOG), "--gpu", "l4", "--format", "json"),
]
_ORT = [
    {"cat": "Session", "name": "model_run", "ts": 1, "dur": 9, "tid": 1, "args": {}},
    {"cat": "Node", "name": "a_kernel_time", "ts": 2, "dur": 3, "tid": 1, "args": {"op_name": "Conv", "provider": "x"}},
]

Files = dict[str, bytes]
"""Content by name: ``layers.json``, ``profile.json``, ``times.json`` and so on."""


def _json_of(data: bytes) -> Any:
    return json.loads(data.decode("utf-8", "replace"), strict=False)


def broken_json(random: Random, data: bytes) -> bytes:
    """A document with parts that are wrong, or bytes of it."""
    if random.random() < 0.2:
        return mutated_bytes(random, data)
    return written(random, mutated(random, _json_of(data)))


def broken_text(random: Random, data: bytes) -> bytes:
    """Lines or cells of a log or a CSV: numbers that are none, rows twice, columns too many, bytes."""
    if random.random() < 0.3:
        return mutated_bytes(random, data)
    lines = data.split(b"\n")
    for _ in range(random.choice((1, 1, 2, 5, 20))):
        at = random.randrange(len(lines))
        mark = random.choice((b",", b" ", b'"'))
        cells = lines[at].split(mark)
        cell = random.randrange(len(cells))
        kind = random.randrange(7)
        if kind == 0:
            cells[cell] = random.choice(_CELLS)
        elif kind == 1:
            del cells[cell]
        elif kind == 2:
            cells.insert(cell, cells[cell])
        elif kind == 3:
            cells[cell] = random.choice(TEXTS).encode("utf-8", "surrogatepass")
        elif kind == 4:
            cells[cell] += random.choice(_CELLS)
        lines[at] = mark.join(cells)
        if kind == 5:
            lines.insert(at, lines[random.randrange(len(lines))])
        elif kind == 6 and len(lines) > 1:
            del lines[at]
    made = b"\n".join(lines)
    return made.decode("utf-8", "replace").encode("utf-16") if random.random() < 0.05 else made


_CELLS = (
    b"", b"nan", b"inf", b"-inf", b"-1", b"0", b"1e308", b"1e999", b"1e-320", b"9" * 5000, b"9" * 400, b"0x10",
    b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808", b"18446744073709551616", b"1,5",
    b"(1, 2)", b"(99999999999999999999, 1, 1)", b"%", b"\xff\xfe", b'"', b"\0", b"\r", b"-",
)  # fmt: skip


def broken_capture(random: Random, data: bytes, folder: Path) -> bytes:
    """An SQLite file with other values, tables and columns; or with pages that are broken."""
    if random.random() < 0.5:
        return _broken_pages(random, data)
    path = folder / "made.sqlite"
    path.write_bytes(data)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA journal_mode = MEMORY")
        for _ in range(random.choice((1, 1, 2, 4))):
            with contextlib.suppress(sqlite3.Error, OverflowError, UnicodeDecodeError, IndexError):
                _mutate_table(random, connection)
    made = path.read_bytes()
    path.unlink()
    return made


_VALUES: tuple[Any, ...] = (
    0, -1, 1, 2**31, 2**62, 2**63 - 1, -(2**63), 10**15, None, "text", b"\xff\xfe", 1.5, 1e308, "12", "", "x" * 100_000,
    float("inf"), b"a\0b", b"\x1b[31m", b"<script>alert(1)</script>", "\u202e",
)  # fmt: skip
_LOOKED_AT = ("CUPTI", "NVTX", "StringIds", "TARGET", "META", "EXPORT")


def _mutate_table(random: Random, connection: sqlite3.Connection) -> None:
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    name = random.choice([each for each in tables if each.startswith(_LOOKED_AT)] or tables)
    table = f'"{name}"'
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    column = f'"{random.choice(columns)}"'
    some = f"rowid IN (SELECT rowid FROM {table} ORDER BY (rowid * {random.randrange(1, 99, 2)}) % 101 LIMIT ?)"
    connection.execute("PRAGMA writable_schema = ON")
    statements: tuple[tuple[str, tuple[Any, ...]], ...] = (
        (f"DROP TABLE {table}", ()),
        (f"ALTER TABLE {table} DROP COLUMN {column}", ()),
        (f"ALTER TABLE {table} RENAME COLUMN {column} TO zz", ()),
        *[
            (f"UPDATE {table} SET {column} = ? WHERE {some}", (random.choice(_VALUES), random.choice((1, 5, 10**9))))
            for _ in range(6)
        ],
        (f'UPDATE {table} SET "end" = start - ?', (random.choice((1, 10**9, 2**62)),)),
        (f"UPDATE {table} SET start = start + ?", (random.choice((2**62, -(2**62), 10**18)),)),
        (f"DELETE FROM {table}" + random.choice(("", " WHERE rowid % 2")), ()),
        (f"INSERT INTO {table} SELECT * FROM {table} LIMIT 5000", ()),
        (f"ALTER TABLE {table} ADD COLUMN zz TEXT DEFAULT 'q'", ()),
        (f"ALTER TABLE {table} ADD COLUMN gen INTEGER GENERATED ALWAYS AS (1) VIRTUAL", ()),
        ("UPDATE sqlite_master SET sql = replace(sql, 'INTEGER', 'TEXT') WHERE name = ?", (name,)),
        ("UPDATE sqlite_master SET rootpage = ? WHERE name = ?", (random.choice((0, 1, 2, 10**6, -1)), name)),
        ("view", (random.choice(_VIEWS),)),
    )
    statement, values = random.choice(statements)
    if statement == "view":
        connection.execute(f"ALTER TABLE {table} RENAME TO kept")
        connection.execute(f"CREATE VIEW {table} AS {values[0].format(column=column)}")
        return
    connection.execute(statement, values)


_VIEWS = (
    "SELECT * FROM kept",
    "SELECT a.* FROM kept a, kept b, kept c, kept d",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS {column} FROM n",
)


def _broken_pages(random: Random, data: bytes) -> bytes:
    made = bytearray(data)
    page = int.from_bytes(made[16:18], "big") or 4096
    for _ in range(random.choice((1, 2, 5, 50))):
        if len(made) < 2 * page:
            break
        at, start = random.randrange(len(made)), random.randrange(len(made) // page) * page
        kind = random.randrange(7)
        if kind == 0:
            made[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            made[start : start + 12] = random.randbytes(12)
        elif kind == 2:
            made[start : start + page] = bytes(page)
        elif kind == 3:
            other = random.randrange(len(made) // page) * page
            made[start : start + page] = made[other : other + page]
        elif kind == 4:  # the pointer to the right: loops
            made[start + 8 : start + 12] = random.choice((start // page + 1, 1, 2, 2**31, 0)).to_bytes(4, "big")
        elif kind == 5:
            made[random.randrange(100)] = random.randrange(256)
        else:
            del made[at:]
    return bytes(made)


# --- whole files ------------------------------------------------------------------------------


def _dumped(document: Any) -> bytes:
    return json.dumps(document).encode()


def _of_trtexec(random: Random, data: Path | None, folder: Path) -> Files:
    """Files of one engine that fit one another."""
    found = sorted((data / "layer_info").glob("trex__*.graph.json")) if data is not None else []
    if found and random.random() < 0.7:
        graph = random.choice(found)
        suffixes = {
            "profile.json": "profile.json",
            "timing.json": "times.json",
            "profile.metadata.json": "summary.json",
        }
        files = {"layers.json": graph.read_bytes()}
        for suffix, name in suffixes.items():
            beside = graph.with_name(graph.name.replace("graph.json", suffix))
            if beside.exists():
                files[name] = beside.read_bytes()
    else:
        layers = trtexec_files.layers_document()
        files = {
            "layers.json": _dumped(layers),
            "profile.json": _dumped(trtexec_files.profile_document(layers)),
            "times.json": _dumped(trtexec_files.times_document(layers, random)),
            "summary.json": _dumped(trtexec_files.summary_document(layers)),
        }
    files["ort.json"] = _dumped(_ORT)
    profile = folder / "whole.json"
    profile.write_bytes(files["profile.json"])
    files["profile.log"] = profile_table(read_profile(profile)).encode()
    profile.unlink()
    logs = sorted((data / "logs").glob("*.log")) if data is not None else []
    files["layers.log"] = random.choice([*logs, _LOG, _LOG]).read_bytes()
    files["counters.csv"] = ncu_csv([counted(_TACTIC, read=1e7, written=1e7)] * 3).encode()
    return files


_TACTIC = trtexec_files.layers_document(1)["Layers"][0]["TacticName"]


def _of_nsys(random: Random, data: Path | None, folder: Path) -> Files:
    """A capture with its plan, and what nsys stats prints of it."""
    path = folder / "whole.sqlite"
    reals = sorted((data / "nsys").glob("*.sqlite")) if data is not None else []
    if reals and random.random() < 0.5:
        shutil.copyfile(random.choices(reals, [1 + 8 * (each.stat().st_size < 1 << 20) for each in reals])[0], path)
    else:
        layers = tuple(
            trace_factory.Layer(layer["Name"], (trace_factory.Work(layer["TacticName"], ns=48_000),))
            for layer in trtexec_files.layers_document()["Layers"]
        )
        trace_factory.write_trace(
            path, [trace_factory.Process(111, layers)], era=random.choice(list(trace_factory.ERAS))
        )
    files = {"run.sqlite": path.read_bytes(), "layers.json": _dumped(trtexec_files.layers_document())}
    report = random.choice(("cuda_gpu_kern_sum", "nvtx_kern_sum", "cuda_gpu_trace"))
    if path.stat().st_size < 1 << 20:
        files["stats.csv"] = write_stats(read_trace(path), report, folder / "stats.csv").read_bytes()
    else:
        files["stats.csv"] = random.choice(sorted((data / "nsys").glob("*kern_sum.csv"))).read_bytes()  # type: ignore[operator]
    files["counters.csv"] = ncu_csv([counted(_TACTIC, read=1e7, written=1e7)] * 3).encode()
    for made in folder.iterdir():
        made.unlink()
    return files


_TRTEXEC: tuple[tuple[str, ...], ...] = (
    ("layers.json", "profile.json"),
    ("layers.json", "profile.json", "times.json"),
    ("layers.json",),
    ("profile.json", "layers.json"),
    ("profile.json", "layers.json", "times.json"),
    ("times.json", "layers.json", "profile.json"),
    ("summary.json", "layers.json", "profile.json"),
    ("profile.log", "layers.json"),
    ("layers.log",),
    ("counters.csv", "layers.json", "profile.json"),
    ("ort.json", "layers.json"),
)
"""Which file is broken, and what stands whole beside it."""
_NSYS: tuple[tuple[str, ...], ...] = (
    ("run.sqlite",),
    ("run.sqlite", "layers.json"),
    ("stats.csv",),
    ("stats.csv", "layers.json"),
    ("layers.json", "run.sqlite"),
    ("counters.csv", "run.sqlite", "layers.json"),
)


def case(random: Random, folder: Path, data: Path | None) -> Case:
    """One file broken, the others as they were."""
    of_trtexec = random.random() < 0.7
    files = _of_trtexec(random, data, folder) if of_trtexec else _of_nsys(random, data, folder)
    broken, *others = random.choice([each for each in (_TRTEXEC if of_trtexec else _NSYS) if each[0] in files])
    beside = [name for name in others if name in files]
    made = _broken(random, broken, files[broken], folder)
    for name, content in ((broken, made), *((name, files[name]) for name in beside)):
        (folder / name).write_bytes(content)
    names = (broken, *beside)
    captures = [word for name in names if name.endswith(".sqlite") for word in ("--nsys", name)]
    given = [name for name in names if not name.endswith(".sqlite")]
    gpu = trtexec_files.GPU if of_trtexec else "l4"
    words = ("analyze", *given, *captures, "--gpu", gpu, *random.choice(_SHOWN))
    return Case(
        label=f"{broken} beside {', '.join(beside) or 'nothing'}",
        words=words,
        exact="csv" in words,
    )


def _broken(random: Random, name: str, data: bytes, folder: Path) -> bytes:
    if name.endswith(".sqlite"):
        return broken_capture(random, data, folder)
    return broken_json(random, data) if name.endswith(".json") else broken_text(random, data)
