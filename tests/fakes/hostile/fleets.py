"""Manifests and folders of fleets, broken: every mistake is told, a table that is damaged is set aside."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from tests.fakes import fleets as factory
from tests.fakes.hostile.mutate import NUMBERS, TEXTS, broken_toml, mutated, mutated_bytes, toml_of, written
from tests.fakes.hostile.running import Case, Outcome
from trtprof.base.records import SCHEMA_VERSION, FleetCell, FleetRow
from trtprof.flows.fleet.cells import Asked, AskedModel, AskedTarget
from trtprof.flows.fleet.store import ASKED, CORRUPT, PARTS, RUNS, TABLE, Store

_SAMPLES = Path(__file__).parents[3] / "sample_models"
_FORMATS = ("text", "json", "csv", "markdown", "html")
_MANIFEST: dict[str, Any] = {
    "name": "nightly", "currency": "EUR", "latency_limit": "10 ms", "options": {"duration": 1},
    "models": [
        {"files": ["*.onnx", "deep/**/*.onnx"], "exclude": ["old/*"], "batches": [1, 8],
         "precisions": ["model", "fp16"], "requests_per_s": 200, "latency_limit": "5 ms", "served_by": "l4",
         "tags": ["vision"]},
        {"files": "gemv.onnx", "name": "gemv", "shapes": ["a:600x200x8x1x64"], "targets": ["l4", "here"]},
        {"files": "b.onnx", "sizes": {"seq": [128, 512]}, "options": {"level": "nodes"}},
    ],
    "targets": [
        {"gpu": "l4", "price_per_hour": 0.44}, {"gpu": ["t4", "h100"]}, {"gpu": "mine.toml"},
        {"name": "here", "verb": "run", "resource": "gpu_h100", "num_gpus": 1, "gpu": "h100-sxm5",
         "precisions": ["fp16"], "options": {"backend": "tensorrt"}, "tags": ["cloud"]},
    ],
}  # fmt: skip
_GATES = ("latency>3%", "lost>5%", "x>1", "", "latency>nan%", "failed>0", "price>1%", "latency>" + "9" * 400 + "%")

_GLOBS = (
    "**/*.onnx", "../**/x*.onnx", "*" * 300, "[" * 50, "**/" * 40 + "x", "{a,b}.onnx", "~/x.onnx", "\\x.onnx",
    "/dev/zero", "pipe.onnx", "x" * 5000, "*/" * 60 + "*.onnx", "**/*/**/*/**/*.onnx",
)  # fmt: skip
_DAMAGES = ("document", "document", "part", "part", "cells", "special", "claims", "names", "gone", "clock")

WARM = (
    ("fleet", "plan", _SAMPLES / "fleet.toml"),
    *(("fleet", "plan", _SAMPLES / "fleet.toml", "--format", name) for name in _FORMATS),
)


def case(random: Random, folder: Path, data: Path | None) -> Case:
    """A manifest with its models, or one or two folders of fleets."""
    return _manifest(random, folder) if random.random() < 0.5 else _stores(random, folder)


# --- manifests ------------------------------------------------------------------------------------


def _manifest(random: Random, folder: Path) -> Case:
    _models(random, folder)
    place = folder / "fleet.toml"
    document = json.loads(json.dumps(_MANIFEST))
    kind = random.randrange(8)
    check = None
    if kind == 0:
        entry = random.choice(document["models"])
        names = [f"d{number}" for number in range(random.choice((3, 13, 60)))]
        entry["sizes"] = {name: list(range(1, random.choice((10, 101)))) for name in names}
        entry["batches"] = list(range(1, random.choice((2, 1001, 100_000))))
        place.write_text(toml_of(document))
        check = _refused
    elif kind == 1:
        _special(random, place)
    elif kind == 2:
        document["models"] = document["models"] * random.choice((1, 20, 200))
        document["targets"] = document["targets"] * random.choice((1, 20, 200))
        place.write_text(toml_of(document))
    elif kind == 3:
        pattern = random.choice(_GLOBS)
        document["models"] = [{"files": [pattern]}]
        document["targets"] = [{"gpu": "l4"}]
        place.write_text(toml_of(document))
    else:
        place.write_bytes(broken_toml(random, document))
    name = random.choice(_FORMATS)
    return Case(f"manifest {kind}", ["fleet", "plan", "fleet.toml", "--format", name], check, exact=name == "csv")


def _models(random: Random, folder: Path) -> None:
    """Files that are models, and others that are called so."""
    for name in ("gemv", "resnet_tiny"):
        shutil.copy(_SAMPLES / f"{name}.onnx", folder)
    data = (_SAMPLES / "resnet_tiny.onnx").read_bytes()
    (folder / "b.onnx").write_bytes(mutated_bytes(random, data))
    (folder / "mine.toml").write_bytes((_SAMPLES / "fleet.toml").read_bytes())
    (folder / "deep").mkdir()
    if random.random() < 0.5:
        _special(random, folder / random.choice(("pipe.onnx", "deep/x.onnx", "c.onnx", "mine.toml")))
    if random.random() < 0.2:
        (folder / os.fsdecode(b"\xff\x1b[31m.onnx")).write_bytes(data)
    if random.random() < 0.2:
        (folder / "loop").symlink_to(".")


def _special(random: Random, place: Path) -> None:
    """A pipe, a device, a link that leads nowhere or round, a folder, nothing at all."""
    kind = random.randrange(7)
    place.unlink(missing_ok=True)
    if kind == 0:
        os.mkfifo(place)
    elif kind == 1:
        place.mkdir()
    elif kind == 2:
        place.write_bytes(b"")
    elif kind < 6:
        place.symlink_to(("/dev/zero", place.name, "none")[kind - 3])


def _refused(outcome: Outcome) -> Iterable[str]:
    if not outcome.code:
        yield "a fleet without an end is taken"


# --- folders --------------------------------------------------------------------------------------


def _stores(random: Random, folder: Path) -> Case:
    for name in ("before", "after"):
        _write(folder / name, random.randrange(4))
    done = []
    for _ in range(random.choice((0, 1, 1, 3))):
        with suppress(OSError):  # one damage may be in the way of the next
            done.append(_damage(random, folder / random.choice(("before", "after"))))
    name = random.choice(_FORMATS)
    verb = random.choice(("status", "report", "compare"))
    words = ["fleet", verb, "before", *(["after"] if verb == "compare" else []), "--format", name]
    if verb == "compare" and random.random() < 0.4:
        words += ["--gate", random.choice(_GATES)]
    if verb == "report" and random.random() < 0.4:
        words += random.choice((["--limit", "10 ms"], ["--limit", "nan ms"], ["--model", "[" * 99], ["--target", "l4"],
                                ["--tag", "x\0"[:1]], ["--limit", "1e400 s"]))  # fmt: skip
    codes = frozenset({0, 1, 2, 3}) if "--gate" in words else frozenset({0, 2, 3})
    return Case(f"{done}: {words}", words, None, codes, exact=name == "csv")


def _write(place: Path, seed: int) -> None:
    """A folder of a fleet that nothing is wrong with, but for the numbers of some rows."""
    random = Random(seed)
    rows = factory.rows(models=2, sizes=2, seed=seed)
    if seed:
        rows = [_odd(random, row) if random.random() < 0.3 else row for row in rows]
    store = Store(str(place))
    cells = [FleetCell(**{name: getattr(row, name) for name in FleetCell.__struct_fields__}) for row in rows]
    asked = Asked(
        schema_version=SCHEMA_VERSION, name="nightly", currency="EUR",
        models=tuple(AskedModel(name=name, requests_per_s=9.0) for name in dict.fromkeys(row.model for row in rows)),
        targets=tuple(AskedTarget(name=name, verb="predict", gpu="l4", price_per_hour=1.0)
                      for name in dict.fromkeys(row.target for row in rows)),
    )  # fmt: skip
    store.keep(asked, cells)
    store.put(rows)
    store.close()


def _odd(random: Random, row: FleetRow) -> FleetRow:
    """A row with a number or a text that no cell has, as far as a column holds it."""
    name = random.choice([name for name in row.__struct_fields__ if name not in ("key", "kernels")])
    old = getattr(row, name)
    if isinstance(old, str):
        new: Any = random.choice([text for text in TEXTS if "\ud800" not in text and "\udfff" not in text])[:5000]
    elif isinstance(old, bool) or not isinstance(old, int | float):
        return row
    else:
        new = random.choice(NUMBERS)
        new = int(min(max(new, -(2**63)), 2**63 - 1)) if isinstance(old, int) and abs(new) < 1e19 else new
        if isinstance(old, int) and not isinstance(new, int):
            return row
        new = float(min(new, 10**300)) if isinstance(old, float) else min(max(new, -(2**63)), 2**63 - 1)
    return msgspec.structs.replace(row, **{name: new})


def _damage(random: Random, store: Path) -> str:
    """Something in a folder of a fleet that is not as it was written."""
    parts = sorted((store / PARTS).glob("*.parquet")) if (store / PARTS).is_dir() else []
    part = random.choice(parts) if parts else store / PARTS / "x.parquet"
    cells = next(store.glob("cells-*.parquet"), store / "cells-0.parquet")
    kind = random.choice(
        ("document", "document", "part", "part", "cells", "special", "claims", "names", "gone", "clock")
    )
    if kind == "document":
        try:
            document = json.loads((store / ASKED).read_bytes())
        except (OSError, ValueError, RecursionError):
            return "document is broken already"
        (store / ASKED).write_bytes(written(random, mutated(random, document)))
    elif kind in ("part", "cells"):
        place = part if kind == "part" else cells
        if place.is_file():
            place.write_bytes(mutated_bytes(random, place.read_bytes()))
    elif kind == "special":
        names = (ASKED, f"{PARTS}/{'a' * 24}.parquet", cells.name, f"{TABLE}/x.parquet", "claims", PARTS, CORRUPT, RUNS)
        place = store / random.choice(names)
        place.parent.mkdir(exist_ok=True)
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        _special(random, place)
    elif kind == "claims":
        (store / "claims").mkdir(exist_ok=True)
        for name in ("a.b", "..", "x.alive", ".alive", "fold.me", "%2E.alive", "a" * 250, "g.\x1b[31m"):
            if name != "..":
                (store / "claims" / name).write_bytes(b"alive\n" * random.choice((0, 1, 10**5)))
                os.utime(store / "claims" / name, (time.time() + random.choice((-1e9, 0, 1e9)),) * 2)
    elif kind == "names":
        for name in ("\x1b[31m.parquet", "..parquet", ".parquet", "x" * 240 + ".parquet", "a/b.parquet"):
            (store / PARTS / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(part, store / PARTS / name) if part.is_file() else (store / PARTS / name).touch()
    elif kind == "gone":
        shutil.rmtree(store / random.choice((PARTS, "claims")), ignore_errors=True)
        cells.unlink(missing_ok=True)
    else:
        for each in store.rglob("*"):
            if each.is_file() and not each.is_symlink():
                os.utime(each, (random.choice((0.0, 4e9, -1e9)),) * 2)
    return kind
