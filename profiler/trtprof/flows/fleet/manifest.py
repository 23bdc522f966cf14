"""The manifest of a fleet: which models, on which targets, at which sizes; a TOML file that holds no code.

    name = "nightly"                    # of the fleet; default: the file's stem
    currency = "EUR"                    # of all prices
    latency_limit = "10 ms"             # of models that have none of their own: ns, us, ms or s

    [options]                           # of every cell, by the long names of the command line (`options.OPTIONS`);
    duration = 1                        # each goes to those of predict, build and run that take it

    [[models]]                          # files that are asked about in the same ways; as many entries as there are ways
    files = ["vision/**/*.onnx"]        # ONNX files from the folder of the manifest on; *, ?, [a-z], and ** for folders
    exclude = ["vision/old/*"]
    batches = [1, 8]                    # --batch
    precisions = ["model", "fp16"]      # --dtype; default: "model", which is as in the file
    requests_per_s = 200                # asked of each model in a second, spread over its sizes and precisions
    latency_limit = "5 ms"
    served_by = "l4"                    # default: the cheapest target that keeps to the limit
    tags = ["vision"]

    [[models]]
    files = "bert.onnx"                 # one of something need not stand in a list
    name = "bert"                       # of one file; default: the file's stem, with the folders that tell it apart
    sizes = { seq = [128, 512] }        # named dimensions of inputs; "x[1]" is a dimension of x without a name
    shapes = ["mask:1x128"]             # --shapes, each a whole set
    targets = ["rtx-4090", "h100"]      # default: all
    options = { level = "nodes" }       # beside those of the whole fleet

    [[targets]]
    gpu = "rtx-4090"                    # what `trtprof gpus` lists, or a .toml file from the folder of the manifest on
    price_per_hour = 0.44

    [[targets]]
    gpu = ["l4", "t4"]                  # two targets that are alike

    [[targets]]
    name = "h100"                       # default: the GPU, else the resource, else "local"
    verb = "run"                        # predict, build or run; default: predict where only a gpu is named, else run
    resource = "gpu_h100"               # what a node of a Ray cluster offers; without: any node, or this machine
    num_gpus = 1                        # GPUs that Ray keeps for a cell
    gpu = "h100-sxm"                    # what that is: a run on another GPU says so; not needed
    precisions = ["fp16"]               # only these of what models ask for
    options = { backend = "tensorrt" }
    tags = ["cloud"]

Each of the shapes, the batches and the precisions and every combination of the sizes is a cell on each target.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

import msgspec

from trtprof.base.errors import MissingError, TrtprofError, UsageError
from trtprof.base.input_file import read_file
from trtprof.base.records import FleetVerb
from trtprof.base.toml_file import MOST_BYTES, parse_toml
from trtprof.base.units import format_names, parse_ns
from trtprof.cost.recast import PRECISIONS
from trtprof.flows.fleet import options as known_options
from trtprof.flows.fleet.toml_places import lines_of
from trtprof.source.shapes import MAX_DIM, parse_shapes
from trtprof.source.spec import parse_spec

T = TypeVar("T")

MOST_TOLD = 20  # Mistakes that are told one by one
NAMES_TOLD = 20  # Of models with one mistake
VERBS: tuple[FleetVerb, ...] = get_args(FleetVerb)
_AT = re.compile(r" \(at line (?P<line>\d+), column (?P<column>\d+)\)$")
_NAME = 100  # Longest name


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One ``[[models]]``: files that are asked about in the same ways.

    Each of ``shapes`` (or none), each of ``batches`` (or none), each combination of ``sizes`` and each of
    ``precisions`` is a size of its own; all of them are combined.
    """

    files: tuple[str, ...]  # Globs of ONNX files, from the folder of the manifest on
    exclude: tuple[str, ...] = ()  # Globs of files among them that are not meant
    name: str = ""  # What the model is called
    shapes: tuple[str, ...] = ()  # Values of ``--shapes``, each a whole set of shapes
    batches: tuple[int, ...] = ()  # Values of ``--batch``
    sizes: dict[str, tuple[int, ...]] = {}  # Values of named dimensions: ``{seq = [128, 512]}``
    precisions: tuple[str, ...] = ("model",)  # Values of ``--dtype``
    targets: tuple[str, ...] = ()  # Names of the targets that are asked; none: all
    # Inferences that are asked of the model in a second, spread evenly over its sizes and precisions (an inference of
    # a batch of 8 answers 8).
    requests_per_s: float | None = None
    served_by: str = ""  # The target that serves it; empty: the cheapest that keeps to the limit
    latency_limit_ns: int | None = None  # A request may take no longer
    options: dict[str, str] = {}  # Beside those of the whole fleet
    tags: tuple[str, ...] = ()  # Words to group by
    place: str = ""  # Where it stands: ``models[2]``; see `Manifest.where`


class TargetEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One ``[[targets]]``: what models are asked on."""

    name: str  # What it is called; default: the GPU's slug, the resource, or ``local``
    verb: FleetVerb  # ``predict`` for a datasheet alone; ``run`` or ``build`` on this machine or a node of a cluster
    gpu: str = ""  # A datasheet (slug, or a file from the folder of the manifest on); a run on another GPU has a doubt
    # A custom resource that a node of a Ray cluster offers (``gpu_h100``), of which a cell takes one
    resource: str = ""
    num_gpus: float = 0.0  # GPUs that Ray keeps for a cell; 0 asks for none
    price_per_hour: float | None = None  # In the currency of the manifest; None where nobody said
    precisions: tuple[str, ...] = ()  # Only these of those that models ask for; none: all
    options: dict[str, str] = {}  # Beside those of the model
    tags: tuple[str, ...] = ()  # Words to group by
    place: str = ""  # Where it stands: ``targets[0]``; see `Manifest.where`


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A manifest as it was read; all globs are still globs."""

    path: Path  # The file
    name: str  # Of the fleet; default: the file's stem
    currency: str = ""  # Of all prices, a word or a sign
    models: tuple[ModelEntry, ...]  # Each entry
    targets: tuple[TargetEntry, ...]  # Each entry; names are unique
    options: dict[str, str] = {}  # Of every cell
    latency_limit_ns: int | None = None  # Of models that have none of their own
    lines: dict[str, int] = {}  # On which line what stands, by place: ``models[2].batches``

    def where(self, place: str) -> str:
        """A place with its line, or that of what it is a part of: ``fleet.toml, line 12: models[2].batches``."""
        return _where(self.path.name, self.lines, place)


class Mistakes:
    """What is wrong in a manifest, all of it told at once."""

    def __init__(self, file: str, lines: Mapping[str, int]) -> None:
        self._file = file
        self._lines = lines
        self._told: dict[str, int] = {}
        self._alike: dict[str, list[str]] = {}

    def add(self, place: str, text: str) -> None:
        """One of them, in a line."""
        told = f"{_where(self._file, self._lines, place)}: {text}"
        self._told[told] = self._lines.get(_known(self._lines, place), 0)

    def add_of(self, name: str, place: str, text: str) -> None:
        """The same of something that has a name; of several with one mistake it is told once, with their names."""
        told = f"{_where(self._file, self._lines, place)}: {text}"
        self._told[told] = self._lines.get(_known(self._lines, place), 0)
        names = self._alike.setdefault(told, [])
        names += [] if name in names else [name]

    def add_error(self, place: str, error: TrtprofError) -> None:
        """What an error says."""
        self.add(place, ": ".join(filter(None, (error.what, error.why))))

    def tell(self) -> None:
        """Raise what was found, if anything was."""
        if not self._told:
            return
        first, *more = (
            f"{told}: {format_names(self._alike[told], NAMES_TOLD)}" if told in self._alike else told
            for told in sorted(self._told, key=lambda told: self._told[told])
        )
        if not more:
            raise UsageError(first)
        lines = [first, *more][:MOST_TOLD]
        rest = len(self._told) - len(lines)
        raise UsageError(
            f"{self._file} has {len(self._told):,} mistakes",
            why="\n       ".join([*lines, *([f"and {rest:,} more"] if rest else [])]),
        )


def _known(lines: Mapping[str, int], place: str) -> str:
    while place and place not in lines:
        place = place[: max(place.rfind("."), place.rfind("["), 0)]
    return place


def _where(file: str, lines: Mapping[str, int], place: str) -> str:
    known = _known(lines, place)
    line = f", line {lines[known]}" if known else ""
    return f"{file}{line}" + (f": {place}" if place else "")


def read(path: Path) -> Manifest:
    """Read and check a manifest."""
    text = _text_of(path)
    try:
        document = parse_toml(text)
        lines = {_words(place): line for place, line in lines_of(text).items()}
    except RecursionError:
        raise UsageError(f"{path.name} is no manifest", why="it is nested too deep") from None
    except ValueError as error:
        found = _AT.search(str(error))
        line = f", line {found['line']}" if found else ""
        what = _AT.sub(f" (column {found['column']})", str(error)) if found else str(error)
        raise UsageError(f"{path.name}{line}: {what}", why="it is no TOML", fix=_mended(what)) from None
    mistakes = Mistakes(path.name, lines)
    manifest = _Reader(path, mistakes, lines).manifest(document)
    mistakes.tell()
    return manifest


def _mended(what: str) -> str:
    """What to do about text that is no TOML."""
    if "'\\'" in what or "hex value" in what:
        return "write folders with /, or the text in 'single quotes': in double ones \\ begins a mark such as \\n"
    if what.startswith("Invalid value"):
        return 'texts stand in quotes, lists in [], and true and false are in lower case: files = ["a.onnx"]'
    return "mend it: https://toml.io"


def _text_of(path: Path) -> str:
    try:
        data = read_file(
            path,
            most=MOST_BYTES,
            what="a manifest",
            fix="name the TOML file that says what is asked; globs such as models/**/*.onnx keep it short",
        )
    except FileNotFoundError:
        raise MissingError(
            f"there is no file {path}",
            why="a manifest says which models are asked about, and on which GPUs",
            fix="name one; sample_models/fleet.toml is an example",
        ) from None
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise UsageError(f"{path} cannot be read", why=why, fix="check its permissions") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{path.name}, line {line}: it is no text", why="a manifest is a TOML file in UTF-8", fix="save it as UTF-8"
        ) from None


def _words(place: Iterable[str | int]) -> str:
    """``models[2].options.duration``."""
    words = ""
    for part in place:
        words = f"{words}[{part}]" if isinstance(part, int) else _join(words, part)
    return words


def _join(place: str, key: str) -> str:
    """A key of a table at a place; one that cannot be read as it is escaped."""
    key = key if key.isprintable() and len(key) <= _NAME else ascii(key[:_NAME])
    return f"{place}.{key}" if place else key


def _kind(value: object) -> str:
    """What a value of TOML is, in words."""
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list", dict: "a table"}
    return kinds.get(type(value), "a date or a time")


class _Reader:
    """Makes entries of tables; what it cannot use it tells `mistakes`, and goes on with what is left."""

    def __init__(self, path: Path, mistakes: Mistakes, lines: dict[str, int]) -> None:
        self.path = path
        self.mistakes = mistakes
        self.lines = lines

    def manifest(self, document: dict[str, Any]) -> Manifest:
        known = ("name", "currency", "latency_limit", "options", "models", "targets")
        table = self.table("", document, known)
        targets = [
            target
            for place, each in self.tables(
                table, "targets", "targets are missing: [[targets]] with a gpu to predict for"
            )
            for target in self.targets(place, each)
        ]
        targets = self.distinct(targets)
        models = [
            self.model(place, each, targets)
            for place, each in self.tables(table, "models", 'models are missing: [[models]] with files = "*.onnx"')
        ]
        manifest = Manifest(
            path=self.path,
            name=self.optional(table, "name", "", self.name) or self.path.stem,
            currency=self.optional(table, "currency", "", self.name) or "",
            models=tuple(models),
            targets=tuple(targets),
            options=self.options("options", table.get("options", {}), [target.verb for target in targets]),
            latency_limit_ns=self.optional(table, "latency_limit", "", self.time),
            lines=self.lines,
        )
        self.together(manifest)
        return manifest

    # --- entries ----------------------------------------------------------------------------

    def model(self, place: str, given: object, targets: Sequence[TargetEntry]) -> ModelEntry:
        known = [name for name in ModelEntry.__struct_fields__ if name not in ("place", "latency_limit_ns")]
        table = self.table(place, given, (*known, "latency_limit"))
        if "files" not in table and isinstance(given, dict):
            self.mistakes.add(place, 'files are missing: files = "models/*.onnx"')
        names = [target.name for target in targets]

        def target(at: str, value: object) -> str:
            return self.among(at, value, names, "target")

        asked = self.many(table, "targets", place, target)
        served = self.optional(table, "served_by", place, target) or ""
        if served and asked and served not in asked:
            self.mistakes.add(f"{place}.served_by", f"{served} is not among its targets: {', '.join(asked)}")
        verbs = [target.verb for target in targets if not asked or target.name in asked]
        return ModelEntry(
            files=self.many(table, "files", place, self.file),
            exclude=self.many(table, "exclude", place, self.text),
            name=self.optional(table, "name", place, self.name) or "",
            shapes=self.many(table, "shapes", place, self.shape),
            batches=self.many(table, "batches", place, self.size),
            sizes=self.sizes(f"{place}.sizes", table.get("sizes", {})),
            precisions=self.many(table, "precisions", place, self.precision) or ("model",),
            targets=asked,
            requests_per_s=self.optional(table, "requests_per_s", place, self.amount),
            served_by=served,
            latency_limit_ns=self.optional(table, "latency_limit", place, self.time),
            options=self.options(f"{place}.options", table.get("options", {}), verbs),
            tags=self.many(table, "tags", place, self.tag),
            place=place,
        )

    def targets(self, place: str, given: object) -> list[TargetEntry]:
        """The targets of an entry, one for each GPU that it names."""
        known = [name for name in TargetEntry.__struct_fields__ if name != "place"]
        table = self.table(place, given, known)
        gpus = self.many(table, "gpu", place, self.gpu)
        resource = self.optional(table, "resource", place, self.name) or ""
        usual: FleetVerb = "predict" if "gpu" in table and not resource else "run"
        verb = cast("FleetVerb", self.optional(table, "verb", place, self.verb) or usual)
        name = self.optional(table, "name", place, self.name) or ""
        num_gpus = self.optional(table, "num_gpus", place, self.gpus_kept) or 0.0
        if verb == "predict":
            if "gpu" not in table:
                self.mistakes.add(place, 'a prediction needs a datasheet: gpu = "rtx-4090"')
            for key in ("resource", "num_gpus"):
                if table.get(key):
                    self.mistakes.add(f"{place}.{key}", "a prediction runs anywhere, and needs no GPU")
        elif len(gpus) > 1:
            self.mistakes.add(f"{place}.gpu", f"a machine to {verb} on has one kind of GPU")
        if name and len(gpus) > 1:
            self.mistakes.add(f"{place}.name", f"{len(gpus)} targets cannot have one name: leave it away")
        if name or verb != "predict":
            gpus = gpus[:1]
        entry = TargetEntry(
            name=name,
            verb=verb,
            resource=resource,
            num_gpus=num_gpus,
            price_per_hour=self.optional(table, "price_per_hour", place, self.amount),
            precisions=self.many(table, "precisions", place, self.precision),
            options=self.options(f"{place}.options", table.get("options", {}), [verb]),
            tags=self.many(table, "tags", place, self.tag),
            place=place,
        )
        return [
            msgspec.structs.replace(
                entry, gpu=gpu, name=name or (Path(gpu).stem if verb == "predict" else "") or usual_name
            )
            for usual_name in [resource or "local"]
            for gpu in gpus or ("",)
        ]

    def distinct(self, targets: Sequence[TargetEntry]) -> list[TargetEntry]:
        """The targets less those with the name of another, or that ask the same, which are mistakes."""
        found: dict[str, TargetEntry] = {}
        asked: dict[tuple[Any, ...], TargetEntry] = {}
        for target in targets:
            first = found.setdefault(target.name, target)
            if first is not target:
                place = f"{target.place}.name" if f"{target.place}.name" in self.lines else target.place
                self.mistakes.add(
                    place, f"another target is called {target.name!r}, {self.at(first.place)}: give one a name"
                )
                continue
            what = (target.verb, target.gpu, target.resource, tuple(sorted(target.options.items())))
            same = asked.setdefault(what, target)
            shared = not same.precisions or not target.precisions or set(same.precisions) & set(target.precisions)
            if same is not target and shared:
                self.mistakes.add(
                    target.place, f"{target.name} asks what {same.name} asks, {self.at(same.place)}: leave one away"
                )
        return list(found.values())

    def at(self, place: str) -> str:
        """``line 12``, for a sentence about another line."""
        return f"on line {self.lines[place]}" if place in self.lines else place

    def together(self, manifest: Manifest) -> None:
        """Tell of what is possible each, but not together."""
        seen: set[tuple[Any, ...]] = set()
        for model in manifest.models:
            asked = [target for target in manifest.targets if not model.targets or target.name in model.targets]
            wanted = [(target, precisions_on(model, target)) for target in asked]
            if manifest.targets and asked and not any(precisions for _, precisions in wanted):
                self.mistakes.add(model.place, "none of its precisions is one of its targets'")
            for target, precisions in wanted:
                options = options_on(manifest, model, target)
                for precision in precisions:
                    key = (target.verb, precision, *options.items())
                    if key in seen:
                        continue
                    seen.add(key)
                    try:
                        known_options.check(target.verb, precision, options)
                    except UsageError as error:
                        self.mistakes.add_error(target.place, error)

    # --- values -----------------------------------------------------------------------------

    def table(self, place: str, value: object, known: Sequence[str]) -> dict[str, Any]:
        """A table without what nobody knows."""
        if not isinstance(value, dict):
            self.mistakes.add(place, f"it is a table, not {_kind(value)}")
            return {}
        for key in value:
            if key not in known:
                near = difflib.get_close_matches(key.lower().replace("-", "_"), known, n=1, cutoff=0.5)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
                self.mistakes.add(_join(place, key), f"there is no such key; {hint}")
        return {key: each for key, each in value.items() if key in known}

    def tables(self, table: Mapping[str, Any], key: str, missing: str) -> list[tuple[str, object]]:
        """The entries of ``[[key]]``, each with its place."""
        value = table.get(key, [])
        if not isinstance(value, list):
            self.mistakes.add(key, f"it is a list of tables, [[{key}]], not {_kind(value)}")
        elif not value:
            self.mistakes.add(key if key in table else "", missing)
        else:
            return [(f"{key}[{number}]", each) for number, each in enumerate(value)]
        return []

    def optional(self, table: Mapping[str, Any], key: str, place: str, one: Callable[[str, object], T]) -> T | None:
        """A value that need not be there."""
        if key not in table:
            return None
        try:
            return one(_join(place, key), table[key])
        except (ValueError, OSError) as error:
            self.mistakes.add(_join(place, key), _why(error))
        return None

    def many(self, table: Mapping[str, Any], key: str, place: str, one: Callable[[str, object], T]) -> tuple[T, ...]:
        """One of something, or a list of them, each once."""
        value = table.get(key)
        if value is None:
            return ()
        return tuple(dict.fromkeys(self.items(_join(place, key), value, one)))

    def items(self, place: str, value: object, one: Callable[[str, object], T]) -> Iterable[T]:
        if not isinstance(value, list):
            value, places = [value], [place]
        elif value:
            places = [f"{place}[{number}]" for number in range(len(value))]
        else:
            places = []
            self.mistakes.add(place, "the list is empty: leave it away")
        for at, each in zip(places, value, strict=True):
            try:
                yield one(at, each)
            except (ValueError, OSError) as error:
                self.mistakes.add(at, _why(error))

    def sizes(self, place: str, value: object) -> dict[str, tuple[int, ...]]:
        if not isinstance(value, dict):
            self.mistakes.add(place, f"it is a table such as {{ seq = [128, 512] }}, not {_kind(value)}")
            return {}
        return {
            name: tuple(dict.fromkeys(self.items(_join(place, name), each, self.size))) for name, each in value.items()
        }

    def options(self, place: str, value: object, verbs: Sequence[FleetVerb]) -> dict[str, str]:
        """Options as cells have them; one that none of the verbs takes is a mistake."""
        if not isinstance(value, dict):
            self.mistakes.add(place, f'it is a table such as {{ level = "nodes" }}, not {_kind(value)}')
            return {}
        found = {}
        for name, each in value.items():
            try:
                text = known_options.read(name, each)
            except UsageError as error:
                self.mistakes.add_error(_join(place, name), error)
                continue
            takes = known_options.OPTIONS[name].verbs
            if verbs and not set(takes) & set(verbs):
                self.mistakes.add(
                    _join(place, name), f"it is an option of {' and '.join(takes)}, and nothing here asks for that"
                )
                continue
            found[name] = text
        return found

    # Each takes a place and a value; ValueError says what is wrong with it.

    def text(self, _: str, value: object) -> str:
        if not isinstance(value, str):
            raise ValueError(f"it is a text, not {_kind(value)}")
        if not value.strip() or not value.isprintable():
            raise ValueError(f"{value[:_NAME]!r} is no text that can be read" if value.strip() else "it is empty")
        return value

    def name(self, place: str, value: object) -> str:
        text = self.text(place, value)
        if text != text.strip() or len(text) > _NAME:
            raise ValueError(f"{text[:_NAME]!r} is no name: at most {_NAME} characters, and no blanks around it")
        return text

    def tag(self, place: str, value: object) -> str:
        from trtprof.base.run_folder import check_tags

        tag = self.text(place, value)
        try:
            check_tags([tag])
        except UsageError as error:
            raise ValueError(f"{error.what}: {error.why}") from None
        return tag

    def file(self, place: str, value: object) -> str:
        text = self.text(place, value)
        named = text.replace("\\", "/")
        if named.endswith(".py") or (".py:" in named and not (self.path.parent / text).exists()):
            raise ValueError(_CODE.format(text))
        if not (self.path.parent / text).exists() and parse_spec(text) is not None:
            raise ValueError(_CODE.format(text))
        return text

    def shape(self, place: str, value: object) -> str:
        text = self.text(place, value)
        try:
            parse_shapes([text])
        except UsageError as error:
            raise ValueError(": ".join(filter(None, (error.what.removeprefix("--shapes "), error.why)))) from None
        return text.strip()

    def size(self, _: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"it is a whole number, not {value if isinstance(value, float) else _kind(value)}")
        if not 1 <= value <= MAX_DIM:
            raise ValueError(f"{known_options.shown(value)} is not possible: from 1 to {MAX_DIM}")
        return value

    def amount(self, _: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"it is a number, not {_kind(value)}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number) or number < 0:
            raise ValueError(f"{number:g} is not possible: a number from 0 on")
        return number

    def gpus_kept(self, place: str, value: object) -> float:
        number = self.amount(place, value)
        if number > 1 and not number.is_integer():
            raise ValueError(f"{number:g} is not possible: a share of one GPU, or a whole number of them")
        return number

    def time(self, _: str, value: object) -> int:
        if not isinstance(value, str):
            raise ValueError(f'it is a text such as "10 ms", not {_kind(value)}')
        try:
            found = parse_ns(value)
        except ValueError:
            raise ValueError(f'{value[:_NAME]!r} is no time: a number and ns, us, ms or s, such as "10 ms"') from None
        if not found:
            raise ValueError(f"{value!r} is not possible: nothing takes no time")
        return found

    def among(self, _: str, value: object, known: Sequence[str], what: str) -> str:
        if not isinstance(value, str):
            raise ValueError(f"it is a text, not {_kind(value)}")
        if value not in known:
            near = difflib.get_close_matches(value, known, n=1, cutoff=0.5)
            hint = (
                f"did you mean {near[0]}?"
                if near
                else f"there are {format_names(known, 12)}"
                if known
                else "there are none"
            )
            raise ValueError(f"there is no {what} {value[:_NAME]!r}; {hint}")
        return value

    def precision(self, place: str, value: object) -> str:
        return self.among(place, value, PRECISIONS, "precision")

    def verb(self, place: str, value: object) -> str:
        return self.among(place, value, VERBS, "verb")

    def gpu(self, place: str, value: object) -> str:
        """A slug, or the path of a datasheet."""
        from trtprof.hardware import gpus

        text = self.text(place, value)
        own = text.endswith(".toml")
        file = str((self.path.parent / text).absolute()) if own else ""
        try:
            spec = gpus.find(file or text)
        except UsageError as error:
            raise ValueError(": ".join(filter(None, (error.what, error.why)))) from None
        return file or spec.slug


def _why(error: ValueError | OSError) -> str:
    """What is wrong with a value; a place may be one that nobody can look at."""
    return str(error) if isinstance(error, ValueError) else f"it cannot be looked at: {error.strerror or error}"


_CODE = "{!r} names code, and a manifest holds none: `trtprof export` makes an ONNX file of it"


def precisions_on(model: ModelEntry, target: TargetEntry) -> tuple[str, ...]:
    """The precisions that a model asks for, of those that a target is there for."""
    return tuple(each for each in model.precisions if not target.precisions or each in target.precisions)


def options_on(manifest: Manifest, model: ModelEntry, target: TargetEntry) -> dict[str, str]:
    """What a target is asked of a model beside its size: those of the target before the model's and the fleet's."""
    return known_options.taken(target.verb, manifest.options, model.options, target.options)
