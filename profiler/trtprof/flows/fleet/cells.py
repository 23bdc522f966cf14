"""From a manifest to cells: which files are meant, what they hold, every combination, and its address."""

from __future__ import annotations

import difflib
import fnmatch
import hashlib
import itertools
import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trtprof import __version__
from trtprof.base.errors import UsageError
from trtprof.base.records import SCHEMA_VERSION, FleetCell, FleetVerb, GpuSpec
from trtprof.base.text_file import is_unicode
from trtprof.base.units import format_names
from trtprof.flows.fleet.contents import Content, content_of
from trtprof.flows.fleet.manifest import Manifest, Mistakes, ModelEntry, TargetEntry, options_on, precisions_on
from trtprof.source.request import ModelRequest
from trtprof.source.shapes import batch_axes, bind_shapes, parse_shapes

MOST_CELLS = 1_000_000  # Of a fleet: more are a slip of the hand in sizes, which multiply
_DIGITS = 24  # Of a key, in hex: 96 bits, so that of a billion cells no two have one by chance


class AskedModel(msgspec.Struct, frozen=True, kw_only=True):
    """What a report needs to know of a model beside its rows: nothing of it decides an answer."""

    name: str
    requests_per_s: float | None = None
    served_by: str = ""
    latency_limit_ns: int | None = None
    tags: tuple[str, ...] = ()


class AskedTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The same of a target."""

    name: str
    verb: FleetVerb
    gpu: str = ""
    resource: str = ""
    num_gpus: float = 0.0
    price_per_hour: float | None = None
    tags: tuple[str, ...] = ()


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a fleet asks, beside its cells: ``fleet.json`` of its folder."""

    schema_version: int
    name: str
    currency: str = ""
    models: tuple[AskedModel, ...]
    targets: tuple[AskedTarget, ...]


class Expanded(msgspec.Struct, frozen=True, kw_only=True):
    """A manifest with its globs and combinations made out: `Asked`, and every cell, in the order of the manifest."""

    asked: Asked
    cells: Sequence[FleetCell]
    notes: tuple[str, ...] = ()


def expand(manifest: Manifest) -> Expanded:
    """Every cell of a manifest."""
    mistakes = Mistakes(manifest.path.name, manifest.lines)
    meant = [_files_of(manifest, entry, mistakes) for entry in manifest.models]
    mistakes.tell()
    notes: list[str] = []
    models = _models(manifest, meant, mistakes, notes)
    cells = _Cells(manifest, mistakes)
    _check_count(manifest, meant, mistakes)
    mistakes.tell()
    for entry, paths in zip(manifest.models, meant, strict=True):
        for path in paths:
            cells.add(entry, models[path])
    mistakes.tell()
    asked = Asked(
        schema_version=SCHEMA_VERSION,
        name=manifest.name,
        currency=manifest.currency,
        models=tuple(
            AskedModel(
                name=model.name,
                requests_per_s=_said(model.entries, "requests_per_s"),
                served_by=_said(model.entries, "served_by") or "",
                latency_limit_ns=_said(model.entries, "latency_limit_ns") or manifest.latency_limit_ns,
                tags=tuple(dict.fromkeys(tag for entry in model.entries for tag in entry.tags)),
            )
            for model in dict.fromkeys(models.values())
        ),
        targets=tuple(
            AskedTarget(
                name=target.name,
                verb=target.verb,
                gpu=target.gpu,
                resource=target.resource,
                num_gpus=target.num_gpus,
                price_per_hour=target.price_per_hour,
                tags=target.tags,
            )
            for target in manifest.targets
        ),
    )
    broken = [model.name for model in dict.fromkeys(models.values()) if model.content.inputs is None]
    if broken:
        them = "its cells" if len(broken) == 1 else "their cells"
        notes.append(f"no ONNX model can be read from {format_names(broken)}: {them} will fail")
    with_cells = {cell.target for cell in cells.found.values()}
    notes += [f"target {each.name} has no cells" for each in manifest.targets if each.name not in with_cells]
    return Expanded(asked=asked, cells=list(cells.found.values()), notes=tuple(notes))


def _check_count(manifest: Manifest, meant: Sequence[Sequence[Path]], mistakes: Mistakes) -> None:
    """Refuse more cells than anybody wants, before they are made."""
    total = 0
    for entry, paths in zip(manifest.models, meant, strict=True):
        asked = [target for target in manifest.targets if not entry.targets or target.name in entry.targets]
        sizes = max(len(entry.shapes), 1) * max(len(entry.batches), 1) * math.prod(map(len, entry.sizes.values()))
        total += len(paths) * sizes * sum(len(precisions_on(entry, target)) for target in asked)
        if total > MOST_CELLS:
            mistakes.add(entry.place, f"with it the fleet has {total:,} cells, and at most {MOST_CELLS:,} are possible")
            return


class _Model:
    """A file that is meant, under one name, by one entry or several."""

    def __init__(self, path: Path, content: Content, entries: list[ModelEntry]) -> None:
        self.path = path
        self.content = content
        self.entries = entries
        self.name = next((entry.name for entry in entries if entry.name), "")


def _files_of(manifest: Manifest, entry: ModelEntry, mistakes: Mistakes) -> list[Path]:
    """The files that an entry means, sorted within each of its globs, each once."""
    folder = manifest.path.parent
    left_out = {match for each in entry.exclude for match in _matches(folder, each)}
    found: dict[Path, None] = {}
    for number, pattern in enumerate(entry.files):
        place = f"{entry.place}.files[{number}]"
        place = place if place in manifest.lines else f"{entry.place}.files"
        matches = _matches(folder, pattern)
        if not matches and (folder / pattern).is_dir():
            mistakes.add(place, f"{pattern} is a folder: {pattern.rstrip('/')}/*.onnx means the models in it")
        elif not matches:
            near = difflib.get_close_matches(pattern, _models_in(folder), n=1) if not _magic(pattern) else []
            hint = f"; did you mean {near[0]}?" if near else ""
            if "\\" in pattern and os.sep == "/":
                hint = "; folders are parted by /"
            elif pattern.startswith("~"):
                hint = "; ~ stands for no folder here: write the path out"
            mistakes.add(place, f"{pattern} means no file in {folder.absolute()}{hint}")
        elif left_out.issuperset(matches):
            mistakes.add(place, f"all that {pattern} means is excluded")
        for path in matches:
            if path in left_out:
                continue
            if not is_unicode(str(path)):
                mistakes.add(place, f"{str(path)!a} has no name in UTF-8: rename it, or exclude it by a glob")
            found[path] = None
    if entry.name and len(found) > 1:
        mistakes.add(f"{entry.place}.name", f"{len(found)} files cannot have one name: leave it away")
    return list(found)


def _magic(pattern: str) -> bool:
    return any(char in pattern for char in "*?[")


def _models_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.onnx"))


def _matches(folder: Path, pattern: str) -> list[Path]:
    """The files that a pattern means; by a glob only those that are called ``.onnx``."""
    literal = folder / pattern
    if os.path.isfile(literal):  # of a name that is too long it is no error
        return [literal.absolute()]
    if not _magic(pattern):
        return []
    found = {Path(os.path.normpath(name)) for name in _globbed(folder.absolute(), Path(pattern))}
    return sorted(path for path in found if path.name.lower().endswith(".onnx") and path.is_file())


def _globbed(folder: Path, pattern: Path) -> Iterator[str]:
    """What a pattern means in a folder as `glob.glob` has it, but each folder is entered once, whatever leads there."""
    parts = [*pattern.relative_to(pattern.anchor).parts]
    parts += ["*"] if parts[-1] == "**" else []
    asked = [(pattern.anchor or str(folder), 0)]
    seen: set[tuple[int, int, int]] = set()
    while asked:
        place, at = asked.pop()
        if at == len(parts):
            yield place
            continue
        part, inner = parts[at], at + 1
        try:
            if not _magic(part):
                asked.append((os.path.join(place, part), inner))
                continue
            told = os.stat(place)
            if (told.st_dev, told.st_ino, at) in seen:
                continue
            seen.add((told.st_dev, told.st_ino, at))
            with os.scandir(place) as entries:
                names = [entry for entry in entries if not entry.name.startswith(".") or part.startswith(".")]
            if part == "**":
                asked += [(entry.path, at) for entry in names if entry.is_dir()]
                asked.append((place, inner))
            else:
                asked += [(entry.path, inner) for entry in names if fnmatch.fnmatch(entry.name, part)]
        except (OSError, ValueError):  # no folder, or one that nobody may look into
            continue


def _models(
    manifest: Manifest, meant: Sequence[Sequence[Path]], mistakes: Mistakes, notes: list[str]
) -> dict[Path, _Model]:
    by_content: dict[str, _Model] = {}
    found: dict[Path, _Model] = {}
    alike: dict[Path, Path] = {}
    for entry, paths in zip(manifest.models, meant, strict=True):
        for path in paths:
            content = content_of(path)
            model = by_content.setdefault(content.sha256, _Model(path, content, []))
            if found.setdefault(path, model) is model and model.path != path and model.path.resolve() != path.resolve():
                alike.setdefault(path, model.path)
            model.entries.append(entry)
            if entry.name and model.name and entry.name != model.name:
                mistakes.add(
                    f"{entry.place}.name", f"{path.name} is called {model.name} already, in {model.entries[0].place}"
                )
            model.name = model.name or entry.name
    if alike:
        path, first = next(iter(alike.items()))
        more = f"; so are {len(alike) - 1:,} more files and others" if len(alike) > 1 else ""
        notes.append(f"{path} has the content of {first}: both are one model{more}")
    models = list(by_content.values())
    _name(models, mistakes)
    for model in models:
        for field in ("requests_per_s", "served_by", "latency_limit_ns"):
            said = [entry for entry in model.entries if getattr(entry, field)]
            if len({getattr(entry, field) for entry in said}) > 1:
                key = field.removesuffix("_ns")
                mistakes.add_of(model.name, f"{said[-1].place}.{key}", f"{said[0].place} says another {key}")
    return found


def _said(entries: Sequence[ModelEntry], field: str) -> Any:
    return next((value for entry in entries if (value := getattr(entry, field))), None)


def _name(models: Sequence[_Model], mistakes: Mistakes) -> None:
    """Call models without a name by their stems, with as many folders before these as tell them from others."""
    given: dict[str, _Model] = {}
    for model in models:
        if model.name and given.setdefault(model.name, model) is not model:
            place = next(entry.place for entry in model.entries if entry.name)
            mistakes.add(f"{place}.name", f"{given[model.name].path} is called {model.name}, too")
    parts = {model: (*model.path.parent.parts[1:], model.path.stem) for model in models if not model.name}
    open_ = list(parts)
    for depth in range(1, max(map(len, parts.values()), default=0) + 1):
        names = {model: "/".join(parts[model][-depth:]) for model in open_}
        count = Counter(names.values())
        for model, name in names.items():
            last = depth >= len(parts[model])
            if last or (count[name] == 1 and name not in given):
                model.name = name
                given.setdefault(name, model)
        open_ = [model for model in open_ if not model.name]


_OTHERWISE = (
    "another entry asks the same with other options, and no report could tell the answers apart; ask it in a manifest "
    "and a folder of its own: `trtprof fleet compare` holds one against the other"
)


class _Cells:
    """Cells by key, in the order in which they were asked for first."""

    def __init__(self, manifest: Manifest, mistakes: Mistakes) -> None:
        self.found: dict[str, FleetCell] = {}
        self._asked: dict[tuple[str, ...], str] = {}
        """By what a report calls a cell, its key."""
        self._manifest = manifest
        self._mistakes = mistakes
        self._whats = {target.name: _what(target.resource, _datasheet(target)) for target in manifest.targets}

    def add(self, entry: ModelEntry, model: _Model) -> None:
        """Every combination of an entry, of one model."""
        wanted = [
            (precision, target, options_on(self._manifest, entry, target))
            for precision in entry.precisions
            for target in self._manifest.targets
            if (not entry.targets or target.name in entry.targets) and precision in precisions_on(entry, target)
        ]
        for shapes in entry.shapes or ("",):
            read = _in_order(shapes)
            for batch in entry.batches or (None,):
                for numbers in itertools.product(*entry.sizes.values()):
                    sizes = dict(zip(entry.sizes, numbers, strict=True))
                    if not self._fits(entry, model, dict(read), batch, sizes):
                        continue
                    size = {"shapes": read, "batch": batch, "sizes": sizes}
                    self._at(model, entry, shapes, size, wanted)

    def _fits(
        self,
        entry: ModelEntry,
        model: _Model,
        shapes: dict[str, tuple[int, ...]],
        batch: int | None,
        sizes: dict[str, int],
    ) -> bool:
        """Whether a model can have a size, by its inputs; of one that cannot be read nobody knows."""
        if model.content.inputs is None or not (shapes or sizes or batch is not None):
            return True
        try:
            bind_shapes(model.content.inputs, shapes, batch, sizes, feed=False)
        except UsageError as error:
            key = next(name for name, given in (("sizes", sizes), ("batches", batch), ("shapes", shapes)) if given)
            named = next((name for name in sizes if repr(name) in error.what), "")
            place = f"{entry.place}.{key}" + (f".{named}" if key == "sizes" and named else "")
            if key == "batches" and not any(batch_axes(model.content.inputs).values()):
                text = "no input has a dynamic leading or batch dimension; ask for such in [[models]] without batches"
                self._mistakes.add_of(model.name, place, text)
                return False
            words = [error.what.removeprefix("--"), error.why]
            self._mistakes.add(place, f"{model.path.name}: " + ": ".join(filter(None, words)))
            return False
        return True

    def _at(
        self,
        model: _Model,
        entry: ModelEntry,
        shapes: str,
        size: dict[str, Any],
        wanted: Sequence[tuple[str, TargetEntry, dict[str, str]]],
    ) -> None:
        groups: dict[tuple[str, str, tuple[tuple[str, str], ...]], tuple[bytes, str]] = {}
        for precision, target, options in wanted:
            alike = precision, target.verb, tuple(options.items())
            if alike not in groups:
                text = _question(model.content.sha256, target.verb, precision, options, __version__, size)
                groups[alike] = text, _digest(text)
            text, group = groups[alike]
            key = _digest(text, self._whats[target.name])
            if key in self.found:
                self._seen(target, self.found[key])
                continue
            named = model.name, target.name, precision, repr(size)
            if self._asked.setdefault(named, key) != key:
                self._mistakes.add_of(model.name, entry.place, _OTHERWISE)
                continue
            self.found[key] = FleetCell(
                key=key,
                group=group if target.verb == "predict" else key,
                model=model.name,
                path=str(model.path),
                sha256=model.content.sha256,
                target=target.name,
                verb=target.verb,
                gpu=target.gpu,
                resource=target.resource,
                shapes=shapes,
                batch=size["batch"],
                sizes=size["sizes"],
                precision=precision,
                options=options,
                trtprof=__version__,
                tags=tuple(dict.fromkeys((*entry.tags, *target.tags))),
            )

    def _seen(self, target: TargetEntry, first: FleetCell) -> None:
        """What is asked twice is one cell; under two names of targets one would have none."""
        if first.target != target.name:
            self._mistakes.add(
                target.place, f"{target.name} asks of {first.model} what {first.target} asks: leave one away"
            )


def _question(
    sha256: str, verb: str, precision: str, options: dict[str, str], trtprof: str, size: dict[str, Any]
) -> bytes:
    """What is asked, less of what target."""
    return _canonical({
        "model": sha256, "verb": verb, "precision": precision, "options": options, "trtprof": trtprof, **size,
    })  # fmt: skip


def _what(resource: str, datasheet: GpuSpec | None) -> bytes:
    """What a target is, beside its name: the datasheet, less where it lies, and what a node must offer."""
    figures = msgspec.to_builtins(datasheet)
    if figures is not None:
        figures.pop("origin")
    return _canonical({"gpu": figures, "resource": resource})


def _datasheet(target: TargetEntry) -> GpuSpec | None:
    from trtprof.hardware import gpus

    return gpus.find(target.gpu) if target.gpu else None


def key_by(cell: FleetCell, datasheet: GpuSpec) -> str:
    """The key that a cell would have if its target were that of a datasheet; see `FleetCell`."""
    size = {"shapes": _in_order(cell.shapes), "batch": cell.batch, "sizes": cell.sizes}
    text = _question(cell.sha256, cell.verb, cell.precision, cell.options, cell.trtprof, size)
    return _digest(text, _what(cell.resource, datasheet))


def _in_order(shapes: str) -> list[tuple[str, tuple[int, ...]]]:
    """Shapes by input, so that the same ones are the same."""
    return sorted(parse_shapes([shapes] if shapes else []).items())


def _canonical(value: object) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\n".join(parts)).hexdigest()[:_DIGITS]


def request_of(cell: FleetCell, path: Path | None = None) -> ModelRequest:
    """The model of a cell at its size, as the verbs take it."""
    shapes = (cell.shapes,) if cell.shapes else ()
    return ModelRequest.of(path or cell.path, shapes, cell.batch, cell.sizes)


def in_shard(cell: FleetCell, shard: int, shards: int) -> bool:
    """Whether a cell belongs to one of ``shards`` parts, counted from 1; cells of a group stay together."""
    return int(cell.group[:12], 16) % shards == shard - 1
