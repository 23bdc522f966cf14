"""The work, the arithmetic intensity and the time of one op over a sweep of its shape; nothing is built or run."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol

import msgspec

from trtprof.base import units
from trtprof.base.errors import UsageError
from trtprof.base.records import (
    SCHEMA_VERSION,
    Attribute,
    Op,
    OpSweep,
    OpSweepCrossing,
    OpSweepDevice,
    OpSweepDim,
    OpSweepPoint,
    OpSweepSkip,
    OpSweepTime,
    Tensor,
    Work,
    bound_name,
)
from trtprof.cost import work_of
from trtprof.estimate.cache import Access, Traffic, steady_state_traffic
from trtprof.estimate.roofline import estimate, unit_terms
from trtprof.source.sweep_axes import check_points, parse_values

Value = int | str
At = Mapping[str, Value]

OPSET = 24  # Version of ai.onnx that the ops are of: the first with Attention, LayerNormalization, Gelu and Swish
SHORT_DTYPES: Mapping[str, str] = MappingProxyType({"fp8": "fp8e4m3fn", "fp4": "fp4e2m1"})
DTYPES = tuple(
    dtype for dtype in units.DTYPE_BITS if dtype.startswith(("fp", "bf", "int", "uint")) and dtype != "fp8e8m0"
)
"""What an op may compute with: numbers, and no bare scales."""
BINARY = ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min")
UNARY = (
    "Abs", "Neg", "Reciprocal", "Sqrt", "Exp", "Log", "Erf", "Sin", "Cos", "Tanh", "Sigmoid", "Relu", "LeakyRelu",
    "HardSigmoid", "HardSwish", "Elu", "Softplus", "Mish", "Swish", "Gelu",
)  # fmt: skip
"""Element-wise ops by the number of their inputs."""

_SENTENCES_FOR = 4  # Lines of a sweep that get sentences of their own


class Parameter(NamedTuple):
    """A parameter of a family."""

    default: Value  # A number, a word, or the name of another parameter that it equals
    words: tuple[str, ...] = ()  # The values that it takes, where it is no number


class Values:
    """The parameters of one point, references followed."""

    def __init__(self, values: At) -> None:
        self._values = values

    def numbers(self, *names: str) -> tuple[int, ...]:
        """The values of parameters that are numbers."""
        return tuple(int(self._values[name]) for name in names)

    def word(self, name: str) -> str:
        """The value of a parameter that is a word."""
        return str(self._values[name])

    def tensor(self, name: str, *shape: int, constant: bool = False) -> Tensor:
        """A tensor of the dtype of the point."""
        return Tensor(name=name, dtype=self.word("dtype"), shape=shape, constant=constant)


class Family(NamedTuple):
    """Ops of one kind."""

    title: str  # What they compute
    parameters: Mapping[str, Parameter]  # In the order in which they are listed
    build: Callable[[Values], Op]  # Makes the op of a point
    shorthands: tuple[str, ...] = ()  # Parameters that only stand in for others
    note: str = ""  # What is counted or left out


class _ImpossibleError(Exception):
    """The values of a point make no op; the message says why."""


# --- the families ---------------------------------------------------------------------------


def _window_out(size: int, kernel: int, stride: int, dilation: int, pad: str) -> int:
    """Length of an output along one axis; ``same`` is SAME_UPPER of ONNX, ``valid`` no padding."""
    if pad == "same":
        return -(-size // stride)
    extent = dilation * (kernel - 1) + 1
    if extent > size:
        raise _ImpossibleError(f"a window of {extent} does not fit into {size} without padding")
    return (size - extent) // stride + 1


def _op(op_type: str, inputs: Sequence[Tensor], output: Tensor, **attributes: Attribute) -> Op:
    return Op(op_type=op_type, opset=OPSET, attributes=attributes, inputs=tuple(inputs), outputs=(output,))


def _window_attributes(kernel: int, stride: int, dilation: int, pad: str) -> dict[str, Attribute]:
    return {
        "kernel_shape": (kernel, kernel),
        "strides": (stride, stride),
        "dilations": (dilation, dilation),
        "auto_pad": "SAME_UPPER" if pad == "same" else "VALID",
    }


def _check_groups(groups: int, **channels: int) -> None:
    for name, number in channels.items():
        if number % groups:
            raise _ImpossibleError(f"{name} {number} is not divisible by groups {groups}")


def _conv(at: Values) -> Op:
    """X [batch, cin, h, w], W [cout, cin / groups, kernel, kernel]."""
    kernel, cin, cout, h, w, batch = at.numbers("kernel", "cin", "cout", "h", "w", "batch")
    stride, dilation, groups = at.numbers("stride", "dilation", "groups")
    _check_groups(groups, cin=cin, cout=cout)
    window = kernel, stride, dilation, at.word("pad")
    weights = at.tensor("weights", cout, cin // groups, kernel, kernel, constant=True)
    y = at.tensor("y", batch, cout, *(_window_out(size, *window) for size in (h, w)))
    return _op("Conv", (at.tensor("x", batch, cin, h, w), weights), y, **_window_attributes(*window), group=groups)


def _conv_transpose(at: Values) -> Op:
    """X [batch, cin, h, w], W [cin, cout / groups, kernel, kernel]."""
    kernel, cin, cout, h, w, batch = at.numbers("kernel", "cin", "cout", "h", "w", "batch")
    stride, dilation, groups = at.numbers("stride", "dilation", "groups")
    _check_groups(groups, cin=cin, cout=cout)
    pad = at.word("pad")
    out = [(size - 1) * stride + dilation * (kernel - 1) + 1 for size in (h, w)]
    if pad == "same":
        # Padding crops: it cannot fill the gaps that a window smaller than the stride leaves at the end.
        out = [min(size * stride, full) for size, full in zip((h, w), out, strict=True)]
    inputs = at.tensor("x", batch, cin, h, w), at.tensor("weights", cin, cout // groups, kernel, kernel, constant=True)
    attributes = _window_attributes(kernel, stride, dilation, pad)
    return _op("ConvTranspose", inputs, at.tensor("y", batch, cout, *out), **attributes, group=groups)


def _pool(at: Values) -> Op:
    kernel, cin, h, w, batch, stride = at.numbers("kernel", "cin", "h", "w", "batch", "stride")
    window = kernel, stride, 1, at.word("pad")
    y = at.tensor("y", batch, cin, *(_window_out(size, *window) for size in (h, w)))
    return _op("MaxPool", [at.tensor("x", batch, cin, h, w)], y, **_window_attributes(*window))


def _gemm(at: Values) -> Op:
    m, n, k = at.numbers("m", "n", "k")
    return _op("Gemm", (at.tensor("x", m, k), at.tensor("weights", k, n, constant=True)), at.tensor("y", m, n))


def _matmul(at: Values) -> Op:
    batch, m, n, k = at.numbers("batch", "m", "n", "k")
    return _op("MatMul", (at.tensor("a", batch, m, k), at.tensor("b", batch, k, n)), at.tensor("y", batch, m, n))


def _gemv(at: Values) -> Op:
    batch, m, k = at.numbers("batch", "m", "k")
    return _op("MatMul", (at.tensor("a", batch, m, k), at.tensor("x", batch, k, 1)), at.tensor("y", batch, m, 1))


def _attention(at: Values) -> Op:
    batch, heads, seq, kv, dim = at.numbers("batch", "heads", "seq", "kv", "dim")
    inputs = [at.tensor(name, batch, heads, length, dim) for name, length in (("q", seq), ("k", kv), ("v", kv))]
    return _op("Attention", inputs, at.tensor("y", batch, heads, seq, dim))


def _elementwise(at: Values) -> Op:
    (elements,) = at.numbers("elements")
    op_type = at.word("op")
    names = ("a", "b") if op_type in BINARY else ("x",)
    return _op(op_type, [at.tensor(name, elements) for name in names], at.tensor("y", elements))


def _softmax(at: Values) -> Op:
    rows, cols = at.numbers("rows", "cols")
    return _op("Softmax", [at.tensor("x", rows, cols)], at.tensor("y", rows, cols), axis=-1)


def _layernorm(at: Values) -> Op:
    rows, cols = at.numbers("rows", "cols")
    scale, bias = (at.tensor(name, cols, constant=True) for name in ("scale", "bias"))
    return _op("LayerNormalization", (at.tensor("x", rows, cols), scale, bias), at.tensor("y", rows, cols), axis=-1)


def _parameters(**defaults: Value | Parameter) -> dict[str, Parameter]:
    found = {
        name: default if isinstance(default, Parameter) else Parameter(default) for name, default in defaults.items()
    }
    return found | {"dtype": Parameter("fp32", DTYPES)}


_PAD = Parameter("same", ("same", "valid"))
_MAP: Mapping[str, Value] = {"hw": 56, "h": "hw", "w": "h", "batch": 1}

FAMILIES: Mapping[str, Family] = {
    "conv": Family(
        "convolution",
        _parameters(kernel=3, cin=64, cout=64, **_MAP, stride=1, dilation=1, groups=1, pad=_PAD),
        _conv,
        ("hw",),
        "no bias; --groups cin is depthwise",
    ),
    "convtranspose": Family(
        "transposed convolution",
        _parameters(kernel=2, cin=64, cout=64, **_MAP, stride=2, dilation=1, groups=1, pad=_PAD),
        _conv_transpose,
        ("hw",),
        "no bias; h and w are those of the input",
    ),
    "gemm": Family(
        "fully connected layer: m = batch rows, n = out, k = in",
        {
            "batch": Parameter(1),
            "in": Parameter(1024),
            "out": Parameter(1024),
            **_parameters(m="batch", n="out", k="in"),
        },
        _gemm,
        ("batch", "in", "out"),
        "no bias; the weights are constant",
    ),
    "matmul": Family("batched matrix product of two activations", _parameters(batch=1, m=1024, n="m", k="m"), _matmul),
    "gemv": Family(
        "batched product of a matrix [m, k] and a vector [k] of its own", _parameters(batch=4800, m=200, k=64), _gemv
    ),
    "attention": Family(
        "attention",
        _parameters(batch=1, heads=8, seq=512, kv="seq", dim=64),
        _attention,
        note="as one fused kernel: the scores do not leave the chip; no mask",
    ),
    "pool": Family("max pooling", _parameters(kernel=3, cin=64, **_MAP, stride=2, pad=_PAD), _pool, ("hw",)),
    "elementwise": Family(
        "element-wise op",
        _parameters(op=Parameter("Add", BINARY + UNARY), elements=1 << 20),
        _elementwise,
        note="inputs of the same size",
    ),
    "softmax": Family("softmax over rows", _parameters(rows=4096, cols=1024), _softmax),
    "layernorm": Family("layer normalization over rows", _parameters(rows=4096, cols=1024), _layernorm),
}
"""Families by name. A default is there to be replaced: it only makes an op that is neither tiny nor huge."""
ALL_PARAMETERS = frozenset(name for family in FAMILIES.values() for name in family.parameters)
ALIASES: Mapping[str, str] = {"fc": "gemm", "layernormalization": "layernorm"}


def family_of(name: str) -> tuple[str, Family]:
    """The family that a name means, with the name under which it is filed."""
    filed = ALIASES.get(name.lower(), name.lower())
    if filed not in FAMILIES:
        raise UsageError(
            f"there is no op {name!r} to sweep",
            why="known: " + ", ".join([*FAMILIES, "fc"]),
            fix="trtprof sweep conv --kernel 1,3,5,7",
        )
    return filed, FAMILIES[filed]


def parse_options(name: str, options: Mapping[str, str]) -> dict[str, tuple[Value, ...]]:
    """The values of each parameter that is given, in the order given."""
    _, family = family_of(name)
    found: dict[str, tuple[Value, ...]] = {}
    for option, text in options.items():
        parameter = family.parameters.get(option)
        if parameter is None:
            raise UsageError(
                f"{name} has no parameter --{option}",
                why=f"it has {', '.join(family.parameters)}",
                fix=f"trtprof sweep {name} --{next(iter(family.parameters))} 1,2",
            )
        found[option] = _words(option, text, parameter.words) if parameter.words else _numbers(option, text, family)
    _check_shorthands(family, found)
    return found


def _numbers(option: str, text: str, family: Family) -> tuple[Value, ...]:
    given = f"--{option} {text!r}"
    found: dict[Value, None] = {}
    for item in (part.strip() for part in text.split(",")):
        other = family.parameters.get(item)
        if other is None:
            found.update(dict.fromkeys(parse_values(item, given)))
        elif other.words or item == option:
            raise UsageError(
                f"{given} cannot be read",
                why=f"{item} is not a number here",
                fix=f"--{option} 1..64:x2 or --{option} 1,2,4",
            )
        else:
            found[item] = None
    return tuple(found)


def _words(option: str, text: str, words: tuple[str, ...]) -> tuple[Value, ...]:
    known = {word.lower(): word for word in words}
    if option == "dtype":
        known |= SHORT_DTYPES
    found: dict[Value, None] = {}
    for item in (part.strip() for part in text.split(",")):
        if item.lower() not in known:
            why = "fp32 is multiplied as TF32 unless --no-tf32 is given" if item.lower() == "tf32" else ""
            raise UsageError(
                f"--{option} {text!r} cannot be read",
                why=why or f"{item!r} is none of {', '.join(known.values())}",
                fix=f"--{option} {words[0]}" + (f",{words[1]}" if len(words) > 1 else ""),
            )
        found[known[item.lower()]] = None
    return tuple(found)


def _check_shorthands(family: Family, given: Mapping[str, Sequence[Value]]) -> None:
    """Refuse what has no effect, because all that it stands in for is given too."""
    values = {name: given.get(name, (parameter.default,)) for name, parameter in family.parameters.items()}
    for name in family.shorthands:
        users = [other for other, items in values.items() if name in items]
        if name in given and not users:
            replaced = [other for other, parameter in family.parameters.items() if parameter.default == name]
            raise UsageError(
                f"--{name} has no effect",
                why=f"it stands in for {' and '.join('--' + other for other in replaced)}, which is given too",
                fix="leave one of them away",
            )


# --- the sweep ------------------------------------------------------------------------------


def sweep_op(
    name: str, values: Mapping[str, Sequence[Value]], devices: Sequence[OpSweepDevice] = (), *, cold: bool = True
) -> OpSweep:
    """Price an op at every combination of the values given, on each device.

    `values`: parameter -> values, from `parse_options`; what has several is swept, in this order. `cold`: charge every
    byte to DRAM. Otherwise the op runs again and again, and what the model of the last-level cache finds there is
    charged at its bandwidth.
    """
    filed, family = family_of(name)
    check_points({option: len(items) for option, items in values.items()}, "the sweep")
    dims = tuple(OpSweepDim(name=option, values=tuple(items)) for option, items in values.items() if len(items) > 1)
    single = {option: items[0] for option, items in values.items() if len(items) == 1}
    pricer = _Pricer(family, single, devices, cold)
    points: list[OpSweepPoint] = []
    skipped: list[OpSweepSkip] = []
    for combination in itertools.product(*(dim.values for dim in dims)):
        at = {dim.name: value for dim, value in zip(dims, combination, strict=True)}
        try:
            points.append(pricer.at(at))
        except _ImpossibleError as error:
            skipped.append(OpSweepSkip(at=at, reason=str(error)))
    if not points:
        reasons = list(dict.fromkeys(skip.reason for skip in skipped))
        raise UsageError(
            f"no combination of these values makes a {name}",
            why="; ".join(reasons[:3]),
            fix=f"change {' or '.join(f'--{option}' for option in values) or 'the parameters'}",
        )
    points = list(_marked(points, dims))
    lines = _lines(points, dims)
    crossings = tuple(_crossings(lines, dims, devices, pricer))
    return OpSweep(
        schema_version=SCHEMA_VERSION,
        op=filed,
        dims=dims,
        fixed=_fixed(family, values, dims),
        cold=cold,
        devices=tuple(devices),
        points=tuple(points),
        skipped=tuple(skipped),
        crossings=crossings,
        shows=tuple(_shows(lines, dims, devices, crossings)),
        notes=tuple(_notes(family, points, devices)),
    )


def _fixed(family: Family, given: Mapping[str, Sequence[Value]], dims: Sequence[OpSweepDim]) -> dict[str, Value]:
    """Parameters with one value: those that were given, and the defaults that are in use."""
    values = {name: given.get(name, (parameter.default,)) for name, parameter in family.parameters.items()}
    used = {item for items in values.values() for item in items}
    swept = {dim.name for dim in dims}
    return {
        name: items[0]
        for name, items in values.items()
        if name not in swept
        and (name in given or items[0] not in family.parameters)
        and (name not in family.shorthands or name in used)
    }


class _Pricer:
    """Prices the op of a family at any point."""

    def __init__(self, family: Family, single: At, devices: Sequence[OpSweepDevice], cold: bool) -> None:
        self._family = family
        self._single = {name: parameter.default for name, parameter in family.parameters.items()} | dict(single)
        self._devices = devices
        self._cold = cold

    def at(self, at: At) -> OpSweepPoint:
        """The point at these values of the swept parameters."""
        op = self._family.build(Values(self._followed(self._single | dict(at))))
        work = work_of(op)
        if work is None:
            raise _ImpossibleError(f"{op.op_type} has no cost function")
        return OpSweepPoint(
            at=dict(at),
            shapes=_shapes(op),
            work=work,
            intensity=work.flops / work.bytes if work.bytes else None,
            times=tuple(self._time(op, work, device) for device in self._devices),
        )

    def _followed(self, values: At) -> dict[str, Value]:
        return {name: self._follow(values, name) for name in values}

    def _follow(self, values: At, name: str) -> Value:
        parameters, path = self._family.parameters, [name]
        if parameters[name].words:
            return values[name]
        while isinstance(value := values[path[-1]], str):
            if value in path:
                raise _ImpossibleError(f"{' = '.join([*path, value])} has no value")
            path.append(value)
        return value

    def _time(self, op: Op, work: Work, device: OpSweepDevice) -> OpSweepTime:
        ceilings = device.ceilings
        found = estimate(work, Traffic(0, work.bytes) if self._cold else _warm(op, ceilings.cache_bytes), ceilings)
        busiest = max(unit_terms(work, ceilings.attainable).values())
        ridge = None
        if busiest:
            # FLOP per second at which this mix of arithmetic keeps the busiest unit at its peak, with all products.
            whole = unit_terms(msgspec.structs.replace(work, fast_flops=0), ceilings.attainable)
            peak = work.flops * 10**9 / max(whole.values())
            ridge = float(peak / Fraction(ceilings.attainable.dram_bytes_per_s))
        return OpSweepTime(
            device=device.slug,
            estimate=found,
            of_peak=float(min(busiest / found.attainable_ns, Fraction(1))) if found.attainable_ns else 0.0,
            ridge=ridge,
        )


def _warm(op: Op, capacity: int) -> Traffic:
    """Traffic of an op that runs again and again."""
    reads, writes = ({t.name: t.nbytes or 0 for t in tensors if t is not None} for tensors in (op.inputs, op.outputs))
    return steady_state_traffic([Access("op", reads, writes)], capacity)["op"]


def _shapes(op: Op) -> str:
    """``x 1x64x56x56, weights 64x64x3x3 -> y 1x64x56x56``."""
    sides = (
        ", ".join(f"{t.name} {'x'.join(map(str, t.shape or ()))}" for t in tensors if t is not None)
        for tensors in (op.inputs, op.outputs)
    )
    return " -> ".join(sides)


Lines = Mapping[tuple[Value, ...], Sequence[OpSweepPoint]]
"""Points along the first swept parameter by the values of the others."""


def _lines(points: Sequence[OpSweepPoint], dims: Sequence[OpSweepDim]) -> Lines:
    found: dict[tuple[Value, ...], list[OpSweepPoint]] = {}
    for point in points:
        found.setdefault(tuple(point.at[dim.name] for dim in dims[1:]), []).append(point)
    return found


def _marked(points: Sequence[OpSweepPoint], dims: Sequence[OpSweepDim]) -> Iterator[OpSweepPoint]:
    """The points, with a mark where the bound is not that of the point before on the same line."""
    last: dict[tuple[Value, ...], OpSweepPoint] = {}
    for point in points:
        line = tuple(point.at[dim.name] for dim in dims[1:])
        before = last.get(line, point)
        last[line] = point
        times = tuple(
            msgspec.structs.replace(now, changed=now.estimate.bound != then.estimate.bound)
            for then, now in zip(before.times, point.times, strict=True)
        )
        yield msgspec.structs.replace(point, times=times)


# --- where something changes ----------------------------------------------------------------


def _bound(point: OpSweepPoint, index: int) -> str:
    return point.times[index].estimate.bound


def _side(point: OpSweepPoint, index: int) -> str:
    """On which side of the ridge of a device the intensity is."""
    ridge = point.times[index].ridge
    return "" if ridge is None or point.intensity is None else "above" if point.intensity >= ridge else "below"


class _State(Protocol):
    def __call__(self, point: OpSweepPoint, index: int) -> str: ...


_KINDS: Mapping[Literal["bound", "ridge"], _State] = {"bound": _bound, "ridge": _side}


def _crossings(
    lines: Lines, dims: Sequence[OpSweepDim], devices: Sequence[OpSweepDevice], pricer: _Pricer
) -> Iterator[OpSweepCrossing]:
    """What changes between two neighbouring points, for a first swept parameter that is a number."""
    for (index, device), (kind, state), line in itertools.product(enumerate(devices), _KINDS.items(), lines.values()):
        for pair in itertools.pairwise(line):
            before, after = (state(point, index) for point in pair)
            first, second = (point.at[dims[0].name] for point in pair)
            if before == after or isinstance(first, str) or isinstance(second, str):
                continue
            low = pair[0] if first < second else pair[1]
            between = min(first, second), max(first, second)
            yield OpSweepCrossing(
                device=device.slug,
                kind=kind,
                at={dim.name: low.at[dim.name] for dim in dims[1:]},
                low=between[0],
                high=between[1],
                value=_first_behind(low, dims[0].name, between, pricer, functools.partial(state, index=index)),
                before=before if first < second else after,
                after=after if first < second else before,
            )


def _first_behind(
    low: OpSweepPoint, dim: str, between: tuple[int, int], pricer: _Pricer, state: Callable[[OpSweepPoint], str]
) -> int | None:
    """A value whose state is not that of ``low``, while the value before has it still, by bisection."""
    value, high = between
    while high - value > 1:
        middle = (value + high) // 2
        try:
            same = state(pricer.at({**low.at, dim: middle})) == state(low)
        except _ImpossibleError:
            return None
        value, high = (middle, high) if same else (value, middle)
    return high


# --- what it shows --------------------------------------------------------------------------


def _shows(
    lines: Lines, dims: Sequence[OpSweepDim], devices: Sequence[OpSweepDevice], crossings: Sequence[OpSweepCrossing]
) -> Iterator[str]:
    """What the numbers say along the first swept parameter, line by line."""
    told = {values: line for values, line in lines.items() if len(line) > 1} if dims else {}
    for values, line in itertools.islice(told.items(), _SENTENCES_FOR):
        at = {dim.name: value for dim, value in zip(dims[1:], values, strict=True)}
        label = "".join(f"{name} {value}, " for name, value in at.items())
        own = [crossing for crossing in crossings if crossing.at == at]
        yield from (label + sentence for sentence in _line_shows(line, dims[0].name, devices, own))
    if len(told) > _SENTENCES_FOR:
        yield f"and {len(told) - _SENTENCES_FOR} more lines, without sentences"


def _line_shows(
    line: Sequence[OpSweepPoint], dim: str, devices: Sequence[OpSweepDevice], crossings: Sequence[OpSweepCrossing]
) -> Iterator[str]:
    at = [point.at[dim] for point in line]
    intensities = [point.intensity or 0.0 for point in line]
    yield f"intensity in FLOP/byte {_trend(intensities, dim, at, short)}"
    yield f"work {_trend([point.work.flops for point in line], dim, at, units.format_flops)}"
    for index, device in enumerate(devices):
        own = [crossing for crossing in crossings if crossing.device == device.slug]
        times = [point.times[index].estimate.attainable_ns for point in line]
        yield f"{device.slug}: time {_trend(times, dim, at, lambda ns: f'>= {units.format_ns(ns)}')}"
        runs = [
            (bound, [point.at[dim] for point in run])
            for bound, run in itertools.groupby(line, key=lambda point: _bound(point, index))
        ]
        bounds = ", ".join(f"{bound_name(bound, device.kind)} at {dim} {_span(values)}" for bound, values in runs)
        solved = [str(crossing.value) for crossing in own if crossing.kind == "bound" and crossing.value is not None]
        yield f"{device.slug}: bound by {bounds}" + (f"; it changes at {', '.join(solved)}" if solved else "")
        yield from (_passes(crossing, dim, line, index) for crossing in own if crossing.kind == "ridge")


def _span(values: Sequence[Value]) -> str:
    if any(isinstance(value, str) for value in values):
        return ", ".join(map(str, values))
    return f"{values[0]}" + (f" to {values[-1]}" if len(values) > 1 else "")


def _trend(values: Sequence[float], dim: str, at: Sequence[Value], form: Callable[[float], str]) -> str:
    """How a series goes from its first to its last value: ``grows x3.20 from kernel 1 to 7: 15.8 to 50.7``."""
    if min(values) == max(values):
        return f"stays at {form(values[0])}"
    if any(isinstance(value, str) for value in at):
        # Words have no order.
        least, most = values.index(min(values)), values.index(max(values))
        return f"is least at {dim} {at[least]}, {form(values[least])}, and largest at {at[most]}, {form(values[most])}"
    up = all(a <= b for a, b in itertools.pairwise(values))
    down = all(a >= b for a, b in itertools.pairwise(values))
    ratio = f" x{short(values[-1] / values[0])}" if values[0] else ""
    verb = "grows" if up else "falls" if down else "goes up and down,"
    return f"{verb}{ratio} from {dim} {at[0]} to {at[-1]}: {form(values[0])} to {form(values[-1])}"


def _passes(crossing: OpSweepCrossing, dim: str, line: Sequence[OpSweepPoint], index: int) -> str:
    at = "" if crossing.value is None else f" from {dim} {crossing.value} on,"
    ridge = next(point.times[index].ridge for point in line if point.at[dim] == crossing.high)
    return (
        f"{crossing.device}: intensity is {crossing.after} the ridge ({short(ridge or 0.0)} FLOP/byte){at} "
        f"between the points {crossing.low} and {crossing.high}"
    )


def short(value: float) -> str:
    """Three significant digits without an exponent."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "-"
    return f"{value:,.{min(max(2 - math.floor(math.log10(abs(value))), 0), 6)}f}"


def _notes(family: Family, points: Sequence[OpSweepPoint], devices: Sequence[OpSweepDevice]) -> Iterator[str]:
    if family.note:
        yield family.note
    yield from dict.fromkeys(point.work.note for point in points if point.work.note)
    if any(point.work.fast_flops for point in points):
        yield "the time leaves out products that a fast algorithm (Winograd) saves: no kernel is faster"
    for device in devices:
        peaks = device.ceilings.attainable.tensor_flops_per_s
        for dtype in dict.fromkeys(point.work.dtype for point in points if point.work.tensor_flops):
            if dtype not in peaks:
                yield f"{device.slug} has no peak for {dtype}: that of the next wider dtype is taken"
