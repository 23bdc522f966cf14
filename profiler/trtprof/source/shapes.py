"""Shapes as asked for on the command line, and the binding of dynamic dimensions.

The grammar is trtexec's (``a:1x3x224x224,b:8x128``; ``'Input:0':1x3``; ``s:scalar`` or ``s:`` is rank 0; ``*`` in a
name matches any run of characters) and Polygraphy's brackets. Source: TensorRT samples/common/sampleOptions.cpp and
Polygraphy's ``--input-shapes`` help.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from trtprof.base.errors import UsageError
from trtprof.base.records import Dim, Tensor
from trtprof.base.units import format_shape

Shapes = Mapping[str, tuple[int, ...]]  # By input
DEFAULT_BATCH = 1
DEFAULT_SPATIAL = 224
DEFAULT_LENGTH = 128
DEFAULT_SIGNAL = 512
"""Length of a float vector a sample, such as a waveform: speech models refuse shorter windows."""
MAX_DIM = 2**31 - 1
"""Largest dimension: what trtexec and TensorRT's 32-bit dims can say."""
DEFAULT_SAMPLES = 16_000
"""Samples of a recording: a second at the rate that speech models take. A shorter one is not what anybody deploys."""
_BATCH_NAME = re.compile(r"^(bs|batch|batch_?size|.*_batch)$", re.IGNORECASE)
_BATCH_LETTER = re.compile(r"^[nb]$", re.IGNORECASE)
_LENGTH_NAME = re.compile(r"(^|_)(seq|sequence|len|length|time|frames?|steps?|tokens?)(_|$)|^seqlen$", re.IGNORECASE)
_AUDIO_NAME = re.compile(
    r"(^|[^a-z])(audios?|wavs?|waves?|waveforms?|speech|pcm|samples|num_samples|raw_audio)([^a-z]|$)", re.IGNORECASE
)
# Enough digits for any dimension, and few enough for int() to read them.
_INTEGER = re.compile(r"-?[0-9]{1,30}")
_GRAMMAR = "name:1x3x224x224[,name:...], 'na:me':8x128, name:scalar or name:[1,3,224,224]"
# The last colon parts name and dims, so that `onnx::x:1x2` needs no quotes.
_ITEM = re.compile(
    r"""\s*(?:'(?P<single>[^']+)'|"(?P<double>[^"]+)"|(?P<bare>[^'",\[\]]+))\s*:\s*
    (?P<dims>\[[^\]]*\]|[^,:\[\]]*)\s*(?:,|$)""",
    re.VERBOSE,
)


def parse_shapes(specs: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Shapes by input name (which may hold one ``*``) from one or more ``--shapes`` values."""
    shapes: dict[str, tuple[int, ...]] = {}
    for spec in specs:
        position = 0
        text = spec.strip()
        if not text:
            raise _grammar_error(spec, "it is empty")
        while position < len(text):
            match = _ITEM.match(text, position)
            if match is None or match.end() == position:
                raise _grammar_error(spec, f"cannot read {text[position:]!r}")
            name = (match["single"] or match["double"] or match["bare"]).strip()
            if not name:
                raise _grammar_error(spec, "an input has no name")
            if name in shapes:
                raise UsageError(
                    f"--shapes names input {name!r} twice",
                    why="it has one shape in a run",
                    fix="give each input one shape, in the form " + _GRAMMAR,
                )
            if name.count("*") > 1:
                raise _grammar_error(spec, f"{name!r} has more than one '*'")
            shapes[name] = _parse_dims(match["dims"].strip(), name, spec)
            position = match.end()
    return shapes


def _parse_dims(text: str, name: str, spec: str) -> tuple[int, ...]:
    if text in ("", "scalar", "[]"):
        return ()
    parts = text[1:-1].split(",") if text.startswith("[") else re.split("[xX]", text)
    dims = []
    for part in parts:
        number = part.strip()
        if not _INTEGER.fullmatch(number):
            raise _grammar_error(spec, f"dimension {number!r} of {name!r} is not an integer")
        if not 1 <= int(number) <= MAX_DIM:
            raise UsageError(
                f"--shapes gives input {name!r} the dimension {int(number)}",
                why="a dimension must be at least 1: an empty tensor has nothing to measure"
                if int(number) < 1
                else f"a dimension is at most {MAX_DIM}",
                fix="--shapes " + name + ":<dims> with each dimension from 1 up, for example " + name + ":1x128",
            )
        dims.append(int(number))
    return tuple(dims)


def _grammar_error(spec: str, why: str) -> UsageError:
    return UsageError(f"--shapes {spec!r} cannot be read", why=why, fix="the form is " + _GRAMMAR)


class Guess(NamedTuple):
    """A dimension that nobody gave."""

    name: str  # Its symbol, or ``input[axis]`` where it has none
    number: int  # What it is taken to be
    place: str  # What it is: ``a batch``, ``a length``


class Instead(NamedTuple):
    """A number in place of the one that would be guessed, and why."""

    number: int
    why: str


class Binding:
    """Dynamic dimensions bound to numbers."""

    def __init__(self) -> None:
        self.shapes: dict[str, tuple[int, ...]] = {}  # Input name -> static shape
        self.symbols: dict[str, int] = {}  # Symbolic dimension -> number, for the rest of the graph
        self.assumptions: list[str] = []  # One sentence for each dimension that was filled in rather than given
        self.guesses: list[Guess] = []  # Those dimensions, in the same order


def bind_shapes(
    inputs: Sequence[Tensor],
    given: Shapes,
    batch: int | None = None,
    symbols: Mapping[str, int] | None = None,
    *,
    feed: bool = True,
    instead: Mapping[str, Instead] | None = None,
) -> Binding:
    """Give every dimension of every graph input a number.

    An input named in full takes that shape, not the one of a ``*`` that fits it too. A dimension is taken from
    ``given``, else from ``symbols``, else from the same symbol in another input, else from ``batch`` if it is one
    (`batch_axes`), else from a default that depends on its place: 1 for a batch, 224 for height and width of a 4-D or
    5-D tensor, 16000 for the samples of a recording, 512 for the length of another float vector, 128 for other lengths.

    Args:
        batch: Value of ``--batch``.
        symbols: Numbers of symbolic dimensions; one without a name is called ``input[axis]``.
        feed: Whether values must be made for the inputs. If not, what has no shape to bind (an unknown rank, a
            sequence, map or optional) stays unknown, and a dimension may be 0.
    """
    if batch is not None and batch <= 0:
        raise UsageError(f"--batch {batch} is not possible", why="a batch holds at least one sample", fix="--batch 1")
    if batch is not None and batch > MAX_DIM:
        raise UsageError(f"--batch {batch} is not possible", why=f"a dimension is at most {MAX_DIM}", fix="--batch 1")
    chosen = chosen_shapes(inputs, given)
    inputs = [_with_names(tensor, symbols or {}) for tensor in inputs]
    binding = Binding()
    owner: dict[str, str] = {}
    for tensor in inputs:
        if tensor.name in chosen:
            _check_given(tensor, chosen[tensor.name], inputs)
            for dim, number in zip(tensor.shape or (), chosen[tensor.name], strict=False):
                if isinstance(dim, str) and dim != "?":
                    if binding.symbols.setdefault(dim, number) != number:
                        raise UsageError(
                            f"dimension {dim!r} would be {binding.symbols[dim]} and {number} at once",
                            why=f"inputs {owner[dim]!r} and {tensor.name!r} share it",
                            fix="give both inputs the same number there",
                        )
                    owner.setdefault(dim, tensor.name)
    _bind_symbols(inputs, symbols or {}, owner, binding)
    batches = batch_axes(inputs)
    if batch is not None:
        _bind_batch(inputs, chosen, batch, batches, binding)
    for tensor in inputs:
        if tensor.kind != "tensor" or (tensor.shape is None and tensor.dtype == "unknown"):
            if feed or tensor.name in chosen:
                raise UsageError(
                    f"input {tensor.name!r} is not a tensor",
                    why="sequences, maps and optionals have no shape to bind and no values that could be made up",
                    fix="leave it out of --shapes" if tensor.name in chosen else "export the model with tensor inputs",
                )
            what = {"tensor": "of a type that is not known", "sparse": "a sparse tensor", "optional": "an optional"}
            binding.assumptions.append(
                f"input {tensor.name!r} is {what.get(tensor.kind, f'a {tensor.kind}')}: no shape was bound to it"
            )
        elif tensor.name in chosen:
            binding.shapes[tensor.name] = chosen[tensor.name]
        elif tensor.shape is None and feed:
            raise UsageError(
                f"input {tensor.name!r} declares no shape",
                why="the model does not say its rank",
                fix=f"--shapes {tensor.name}:<dims>, for example --shapes {tensor.name}:1x128",
            )
        elif tensor.shape is None:
            binding.assumptions.append(
                f"input {tensor.name!r} declares no shape and was given none: what depends on it stays unknown"
            )
        else:
            assumed = _Assumed(batch, batches[tensor.name], instead or {})
            binding.shapes[tensor.name] = tuple(
                _bind_dim(tensor, index, dim, assumed, binding, feed=feed) for index, dim in enumerate(tensor.shape)
            )
    return binding


class _Assumed(NamedTuple):
    batch: int | None
    batches: tuple[int, ...]  # Batch dimensions of the tensor at hand
    instead: Mapping[str, Instead]


def _with_names(tensor: Tensor, symbols: Mapping[str, int]) -> Tensor:
    """The tensor with those of its unnamed dynamic dimensions named that ``symbols`` names."""
    shape = tuple(
        name if dim == "?" and (name := f"{tensor.name}[{index}]") in symbols else dim
        for index, dim in enumerate(tensor.shape or ())
    )
    return msgspec.structs.replace(tensor, shape=shape) if tensor.shape else tensor


def _bind_symbols(
    inputs: Sequence[Tensor], symbols: Mapping[str, int], owner: Mapping[str, str], binding: Binding
) -> None:
    known = [dim for tensor in inputs for dim in tensor.shape or () if isinstance(dim, str) and dim != "?"]
    for symbol, number in symbols.items():
        if symbol not in known:
            raise UsageError(
                f"{symbol!r} is not a dynamic dimension of this model",
                why="its inputs are " + describe(inputs) if inputs else "it has no inputs",
                fix="use one of: " + ", ".join(dict.fromkeys(known))
                if known
                else "export the model with that dimension dynamic",
            )
        if not 1 <= number <= MAX_DIM:
            raise UsageError(
                f"dimension {symbol!r} cannot be {number}",
                why=f"a dimension is at least 1 and at most {MAX_DIM}",
                fix=f"{symbol}=1",
            )
        if binding.symbols.setdefault(symbol, number) != number:
            raise UsageError(
                f"dimension {symbol!r} would be {binding.symbols[symbol]} and {number} at once",
                why=f"the shape of input {owner[symbol]!r} decides it too",
                fix="give both the same number, or leave one away",
            )


def chosen_shapes(inputs: Sequence[Tensor], given: Shapes) -> dict[str, tuple[int, ...]]:
    """The shapes of ``--shapes`` by input, with ``*`` resolved."""
    chosen: dict[str, tuple[int, ...]] = {}
    by_pattern: dict[str, str] = {}
    for pattern, dims in given.items():
        for tensor in _matching(inputs, pattern):
            if tensor.name == pattern:
                chosen[tensor.name] = dims
            elif tensor.name in given:
                continue
            elif chosen.setdefault(tensor.name, dims) != dims:
                raise UsageError(
                    f"--shapes gives input {tensor.name!r} two shapes",
                    why=f"both {by_pattern[tensor.name]!r} and {pattern!r} fit its name",
                    fix=f"name it in full: --shapes {tensor.name}:" + "x".join(map(str, dims)),
                )
            else:
                by_pattern.setdefault(tensor.name, pattern)
    return chosen


def _matching(inputs: Sequence[Tensor], pattern: str) -> list[Tensor]:
    exact = [tensor for tensor in inputs if tensor.name == pattern]
    if exact or "*" not in pattern:
        found = exact
    else:
        head, tail = pattern.split("*", 1)
        found = [
            tensor
            for tensor in inputs
            if tensor.name.startswith(head) and tensor.name.endswith(tail) and len(tensor.name) >= len(head) + len(tail)
        ]
    if not found:
        raise UsageError(
            f"--shapes names {pattern!r}, which is not an input of this model",
            why="its inputs are " + describe(inputs) if inputs else "it has no inputs",
            fix=f"for example --shapes {example(inputs)}" if inputs else "leave --shapes away",
        )
    return found


def _check_given(tensor: Tensor, dims: tuple[int, ...], inputs: Sequence[Tensor]) -> None:
    if tensor.shape is None:
        return
    if len(tensor.shape) != len(dims):
        raise UsageError(
            f"input {tensor.name!r} is given {len(dims)} dimensions, the model has {len(tensor.shape)}",
            why="its inputs are " + describe(inputs),
            fix=f"for example --shapes {example([tensor])}",
        )
    for index, (own, number) in enumerate(zip(tensor.shape, dims, strict=True)):
        if isinstance(own, int) and own != number:
            raise UsageError(
                f"dimension {index} of input {tensor.name!r} is given as {number}, the model fixes it at {own}",
                why="its inputs are " + describe(inputs),
                fix=f"for example --shapes {example([tensor])}, or export the model with that dimension dynamic",
            )


def batch_axes(inputs: Sequence[Tensor]) -> dict[str, tuple[int, ...]]:
    """The dynamic dimensions of each input that are a batch: those that are called so, else one that leads.

    ``N`` and ``B`` are names of a batch where they lead their tensors, or come second behind a leading dynamic one;
    elsewhere they count samples, and so they do in a model that calls another dimension a batch.
    """
    shapes = {tensor.name: tensor.shape or () for tensor in inputs}
    places = [(dim, index, shape) for shape in shapes.values() for index, dim in enumerate(shape)]
    named = {dim for dim, _, _ in places if isinstance(dim, str) and _BATCH_NAME.match(dim)}
    if not named:
        letters = {dim for dim, _, _ in places if isinstance(dim, str) and _BATCH_LETTER.match(dim)}
        named = letters - {
            dim
            for dim, index, shape in places
            if index and not (index == 1 and len(shape) > 2 and isinstance(shape[0], str))
        }
        named -= {dim for tensor in inputs if _is_recording(tensor) for dim in (tensor.shape or ())[-1:]}
    inner = {
        dim for dim, index, shape in places if index and dim not in named and isinstance(dim, str) and shape[0] != dim
    } - {"?"}
    found = {}
    for tensor in inputs:
        shape = shapes[tensor.name]
        own = tuple(index for index, dim in enumerate(shape) if dim in named)
        lead = shape[0] if shape else 1
        if not own and isinstance(lead, str) and lead not in inner and not _LENGTH_NAME.search(lead):
            own = () if len(shape) == 1 and _is_recording(tensor) else (0,)
        found[tensor.name] = own
    return found


def _is_recording(tensor: Tensor) -> bool:
    """Whether the last dimension of an input counts samples of sound, by what it is called."""
    if not tensor.shape or len(tensor.shape) > 3 or tensor.dtype not in ("fp32", "fp16", "fp64", "int16"):
        return False
    return bool(_AUDIO_NAME.search(tensor.name) or _AUDIO_NAME.search(str(tensor.shape[-1])))


def _bind_batch(
    inputs: Sequence[Tensor],
    chosen: Mapping[str, object],
    batch: int,
    batches: Mapping[str, Sequence[int]],
    binding: Binding,
) -> None:
    dynamic = found = False
    for tensor in inputs:
        shape = tensor.shape or ()
        for index in batches[tensor.name]:
            dim = shape[index]
            dynamic = True
            if tensor.name in chosen:
                continue
            if dim != "?" and binding.symbols.setdefault(str(dim), batch) != batch:
                if not (_BATCH_NAME.match(str(dim)) or _BATCH_LETTER.match(str(dim))):
                    continue  # It only leads its tensor, and --shapes has said what it is.
                raise UsageError(
                    f"dimension {dim!r} would be {binding.symbols[str(dim)]} and {batch} at once",
                    why="--shapes and --batch both decide it",
                    fix="give both the same number, or leave --batch away",
                )
            found = True
    if not found:
        raise UsageError(
            f"--batch {batch} binds nothing",
            why="--shapes already gives every dynamic batch dimension a number"
            if dynamic
            else "no input has a dynamic leading or batch dimension: " + (describe(inputs) or "no inputs"),
            fix="leave --batch away" + ("" if dynamic else ", or export the model with a dynamic batch"),
        )


def _bind_dim(tensor: Tensor, index: int, dim: Dim, assumed: _Assumed, binding: Binding, *, feed: bool) -> int:
    if isinstance(dim, int):
        if dim == 0 and feed:
            raise UsageError(
                f"dimension {index} of input {tensor.name!r} is 0 in the model",
                why="an empty tensor has nothing to measure",
                fix=f"--shapes {tensor.name}:<dims> cannot change a fixed dimension; export the model with it dynamic",
            )
        return dim
    if dim in binding.symbols:
        return binding.symbols[dim]
    number, place = _default(tensor, index, assumed.batches)
    if index in assumed.batches and assumed.batch is not None:
        binding.symbols.update({} if dim == "?" else {dim: assumed.batch})
        return assumed.batch
    name = dim if dim != "?" else f"{tensor.name}[{index}]"
    why = ""
    if name in assumed.instead:
        number, why = assumed.instead[name]
    if dim != "?":
        binding.symbols[dim] = number
    label = f"dynamic dimension {dim!r}" if dim != "?" else "an unnamed dynamic dimension"
    binding.assumptions.append(
        f"{label} ({place}, index {index} of input {tensor.name!r}) was not given{why and ', and '}{why}: "
        f"{number} assumed"
    )
    binding.guesses.append(Guess(name, number, place))
    return number


def _default(tensor: Tensor, index: int, batches: Sequence[int]) -> tuple[int, str]:
    """What a dynamic dimension is taken to be where nothing is known, and what it is."""
    rank = len(tensor.shape or ())
    if index in batches:
        return DEFAULT_BATCH, "a batch"
    if rank in (4, 5) and index >= 2:
        return DEFAULT_SPATIAL, "a spatial dimension"
    if index == rank - 1 and _is_recording(tensor):
        return DEFAULT_SAMPLES, "samples of a recording"
    if rank == 2 and index and tensor.dtype.startswith("fp"):
        return DEFAULT_SIGNAL, "the length of a signal"
    return DEFAULT_LENGTH, "a length"


def describe(inputs: Sequence[Tensor]) -> str:
    """Inputs with their dimensions, as ``x:Nx3x224x224, mask:?``."""
    return ", ".join(f"{tensor.name}:{format_shape(tensor.shape)}" for tensor in inputs)


def example(inputs: Sequence[Tensor]) -> str:
    """A ``--shapes`` value that these inputs would accept."""
    batches = batch_axes(inputs)
    shapes = {}
    for tensor in inputs:
        own = (DEFAULT_BATCH,) if tensor.shape is None else tensor.shape
        shapes[tensor.name] = tuple(
            dim if isinstance(dim, int) else _default(tensor, index, batches[tensor.name])[0]
            for index, dim in enumerate(own)
        )
    return written(shapes)


def written(shapes: Shapes) -> str:
    """Shapes by input as a value of ``--shapes``."""
    parts = []
    for name, dims in shapes.items():
        mark = ('"' if "'" in name else "'") if any(mark in name for mark in ":,[]'") else ""
        parts.append(f"{mark}{name}{mark}:{format_shape(dims)}")
    return ",".join(parts)
