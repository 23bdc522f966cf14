"""What `trtprof gpus` says: a table of GPUs, one datasheet with its sources, or several side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from trtprof.base.records import Figure, GpuListing, GpuSheet, GpuSpec, LiveSheet
from trtprof.base.units import format_bytes, format_rate
from trtprof.report import ReportOptions, content_of
from trtprof.report.document import Block, Column, Document, Notes, Pair, Pairs, Row, Table, sections

_TWINS = {"uint8": "int8", "fp8e5m2": "fp8e4m3fn"}  # Dtypes that are left out where they run at the rate of another one
_SHORT = {"fp8e4m3fn": "fp8", "fp4e2m1": "fp4"}
_WEAK = "?"
_LEGEND = (
    "dense TFLOP/s (int8: TOP/s): fp32 on CUDA cores, the rest on tensor cores with fp32 sums where there is a choice; "
    "ridge: FLOP per byte of DRAM traffic where the fp32 roofline bends"
)
_KINDS = {"product": "M", "convolution": "C", "attention": "A", "softmax": "S", "normalisation": "N", "pointwise": "P"}
"""A letter for each kind of work that others measured."""
_KNOWN_LEGEND = (
    "known: what others measured, so that `predict` expects a time: Matrix products, Convolutions, Attention, Softmax, "
    "Norms, Pointwise ops; small: on its architecture alone (`trtprof gpus NAME`: in which dtypes)"
)
_WEAK_LEGEND = "? weak: one source that quotes nobody, or sources that disagree"


@content_of(GpuListing)
def document(found: GpuListing, options: ReportOptions) -> Document:
    """The GPUs at hand, then the view that was asked for."""
    views = {"table": _listed, "sheet": _sheet, "comparison": _compared}
    title = _described(found.gpus[0].spec) if options.view == "sheet" else "GPUs"
    live = [Notes(tuple(_live(each)), hang=0) for each in found.live]
    return Document(
        title=title, titled=False, labels=8, sections=(*sections(live), *sections(*views[options.view](found.gpus)))
    )


# --- a row a GPU ----------------------------------------------------------------------------


class _Shown(NamedTuple):
    head: str
    unit: str
    cell: Callable[[GpuSheet], str]
    priority: int  # The lower, the longer it stays where there is little room; 0 stays


def _number(figure: Figure | None, scale: float = 1.0, digits: int = 0) -> str:
    """The number in the given unit, then the mark of a weak figure or a space, so that points align."""
    if figure is None:
        return "- "
    return f"{figure.value / scale:.{digits}f}" + (_WEAK if figure.kind == "weak" else " ")


def _peak(figure: Figure | None) -> str:
    return _number(figure, 1e12, 1 if figure is None or figure.value < 1e15 else 0)


def _tensor(spec: GpuSpec, dtype: str) -> Figure | None:
    by = spec.tensor_flops_per_s.get(dtype, {})
    return by.get("fp32") or by.get("int32")


def _vector(spec: GpuSpec, dtype: str) -> Figure | None:
    return spec.vector_flops_per_s.get(dtype)


def _known(sheet: GpuSheet) -> str:
    """A letter for each kind of work with an expectation, small where it is by others of the architecture."""
    if not sheet.measured:
        return "-"
    here = {one.kind for one in sheet.measured if one.rows}
    there = {one.kind for one in sheet.measured}
    return "".join(
        letter if kind in here else letter.lower() if kind in there else "-" for kind, letter in _KINDS.items()
    )


_COLUMNS = (
    _Shown("gpu", "", lambda s: s.spec.slug, 0),
    _Shown("name", "", lambda s: s.spec.name, 99),
    _Shown("arch", "", lambda s: s.spec.architecture, 13),
    _Shown("cc", "", lambda s: s.spec.compute_capability + " ", 10),
    _Shown("SMs", "", lambda s: _number(s.spec.sms), 8),
    _Shown("boost", "MHz", lambda s: _number(s.spec.boost_mhz), 12),
    _Shown("mem", "GiB", lambda s: _number(s.spec.memory_bytes, 1 << 30), 4),
    _Shown("DRAM", "GB/s", lambda s: _number(s.spec.dram_bytes_per_s, 1e9), 1),
    _Shown("L2", "MiB", lambda s: _number(s.spec.l2_bytes, 1 << 20, 0 if s.spec.l2_bytes.value >= 1e7 else 1), 11),
    _Shown("TDP", "W", lambda s: _number(s.spec.tdp_w), 7),
    _Shown("fp32", "T/s", lambda s: _peak(_vector(s.spec, "fp32")), 2),
    _Shown("tf32", "T/s", lambda s: _peak(_tensor(s.spec, "tf32")), 6),
    _Shown("fp16", "T/s", lambda s: _peak(_tensor(s.spec, "fp16")), 3),
    _Shown("int8", "T/s", lambda s: _peak(_tensor(s.spec, "int8")), 5),
    _Shown("fp8", "T/s", lambda s: _peak(_tensor(s.spec, "fp8e4m3fn")), 9),
    _Shown("known", "", lambda s: _known(s) + " ", 4),
    _Shown("ridge", "FLOP/B", lambda s: f"{s.ridge['fp32']:.1f} " if "fp32" in s.ridge else "- ", 6),
)


def _listed(sheets: Sequence[GpuSheet]) -> Iterator[list[Block]]:
    if not sheets:
        yield [Notes(("no GPU of the list has all of that",))]
        return
    rows = [Row(tuple(each.cell(sheet) for each in _COLUMNS)) for sheet in sheets]
    weak = any(_WEAK in each.cell(sheet) for sheet in sheets for each in _COLUMNS if each.unit)
    columns = []
    for each in _COLUMNS:
        if each.head in _LEFT:
            columns.append(Column(each.head, drop=each.priority))
        else:
            least = max(len(each.head), len(each.unit)) + 1
            columns.append(
                Column(f"{each.head} ", right=True, gap=1, least=least, drop=each.priority, unit=f"{each.unit} ")
            )
    yield [Table(columns=tuple(columns), rows=rows, hidden="not shown: {} (--format csv has all)")]
    yield [Notes((_LEGEND, _KNOWN_LEGEND, *([_WEAK_LEGEND] if weak else [])), hang=0)]


_LEFT = ("gpu", "name", "arch")


# --- one GPU --------------------------------------------------------------------------------


def _sheet(sheets: Sequence[GpuSheet]) -> Iterator[list[Block]]:
    sheet = sheets[0]
    spec = sheet.spec
    about = [("driver", ", ".join(spec.nvml_names)), ("from", spec.origin)]
    yield [Notes((_described(spec),)), Pairs(tuple(Pair(label, text, None, "") for label, text in about if text))]
    sources: dict[str, int] = {}
    rows = []
    for label, name, figure in _figures(spec):
        number = sources.setdefault(figure.source, len(sources) + 1)
        rows.append(Row((label, _with_unit(name, figure), figure.kind, f"[{number}]")))
    columns = Column(""), Column("value", right=True), Column("kind", least=9), Column("source", gap=1)
    yield [Table(columns=columns, rows=rows, headless=True)]
    notes = ["ridge points, FLOP per byte of DRAM traffic:"]
    notes.append("  " + ", ".join(f"{dtype} {value:.1f}" for dtype, value in _ridges(sheet)))
    if sheet.roof.special_per_s:
        notes += ["special functions, a second:", "  " + ", ".join(_specials(sheet))]
    notes += list(_expectations(sheet))
    notes += ["sources:", *(f"  [{number}] {text}" for text, number in sources.items())]
    notes += ["note:", f"  {spec.note}"] if spec.note else []
    yield [Notes(tuple(notes), hang=0)]


def _expectations(sheet: GpuSheet) -> Iterator[str]:
    """For which works there is an expectation on it, a line a kind."""
    if not sheet.measured:
        yield f"expectations: none, for nothing was measured on {sheet.spec.architecture}"
        return
    yield "expectations (measured by others on it, or on others of its architecture; none for all else):"
    kinds: dict[str, list[str]] = {}
    for one in sheet.measured:
        where = f"{one.rows:,} rows" if one.rows else f"on {', '.join(one.others)}"
        kinds.setdefault(one.words, []).append(f"{one.dtypes} ({where})")
    for words, parts in kinds.items():
        yield f"  {words}: {', '.join(parts)}"


def _described(spec: GpuSpec) -> str:
    return (
        f"{spec.name} ({spec.slug}): {spec.architecture}, compute capability {spec.compute_capability}, "
        f"{spec.product_class}"
    )


def _figures(spec: GpuSpec) -> Iterator[tuple[str, str, Figure]]:
    """(what to call it, its name in the datasheet, the figure), without twins that say the same."""
    figures = spec.figures
    for name, figure in figures.items():
        dtype, _, rest = name.partition(" ")
        if dtype in _TWINS and figures.get(f"{_TWINS[dtype]} {rest}") == figure:
            continue
        yield f"{_SHORT.get(dtype, dtype)} {rest}".rstrip(), name, figure


def _with_unit(name: str, figure: Figure) -> str:
    value = figure.value
    texts = {
        "SMs": f"{value:g}",
        "boost clock": f"{value:g} MHz",
        "tensor clock": f"{value:g} MHz",
        "memory": f"{value / (1 << 30):.4g} GiB",
        "L2": f"{value / (1 << 20):.4g} MiB",
        "bandwidth": f"{value / 1e9:.6g} GB/s",
        "L2 bandwidth": f"{value / 1e9:.6g} GB/s",
        "power": f"{value:g} W",
        "launch": f"{value / 1000:g} us",
    }
    # Operations on integers are no FLOP, but what is counted is the same.
    unit = "TOP/s" if name.startswith(("int", "uint")) else "TFLOP/s"
    return texts.get(name, f"{value / 1e12:.4g} {unit}")


def _ridges(sheet: GpuSheet) -> list[tuple[str, float]]:
    ridge = sheet.ridge
    return [
        (_SHORT.get(dtype, dtype), value)
        for dtype, value in ridge.items()
        if dtype not in _TWINS or ridge.get(_TWINS[dtype]) != value
    ]


def _specials(sheet: GpuSheet) -> Iterator[str]:
    by_rate: dict[float, list[str]] = {}
    for function, rate in sheet.roof.special_per_s.items():
        by_rate.setdefault(rate, []).append(function)
    for rate, functions in by_rate.items():
        yield f"{format_rate(rate, '').strip()} of {' '.join(functions)}"


# --- side by side ---------------------------------------------------------------------------


def _compared(sheets: Sequence[GpuSheet]) -> Iterator[list[Block]]:
    head, *rows = _compared_rows(sheets)
    columns = (Column(key=True), *(Column(slug, right=True) for slug in head[1:]))
    yield [Table(columns=columns, rows=[Row(tuple(row)) for row in rows], stack=True)]
    weak = any(_WEAK in cell for row in rows for cell in row)
    legend = f"x: times that of {sheets[0].spec.slug}; ridge: FLOP per byte of DRAM traffic"
    yield [Notes((legend + (f"; {_WEAK_LEGEND}" if weak else ""), _KNOWN_LEGEND), hang=0)]


def _compared_rows(sheets: Sequence[GpuSheet]) -> list[list[str]]:
    ridges = [dict(_ridges(sheet)) for sheet in sheets]
    return [
        ["", *(sheet.spec.slug for sheet in sheets)],
        ["architecture", *(f"{sheet.spec.architecture} {sheet.spec.compute_capability}" for sheet in sheets)],
        *(
            [label, *(_ratio(sheet, name, index == 0) for index, sheet in enumerate(sheets))]
            for label, name in _labels(sheets)
        ),
        ["known", *(_known(sheet) for sheet in sheets)],
        *(
            [f"{dtype} ridge", *(f"{ridge[dtype]:.1f}" if dtype in ridge else "-" for ridge in ridges)]
            for dtype in dict.fromkeys(dtype for ridge in ridges for dtype in ridge)
        ),
    ]


def _labels(sheets: Sequence[GpuSheet]) -> list[tuple[str, str]]:
    """What to call each figure that any of the GPUs has, and its name; board figures before peaks."""
    names = dict.fromkeys(name for sheet in sheets for name in sheet.spec.figures)
    labels: dict[str, str] = {}
    for sheet in sheets:
        for label, name, _ in _figures(sheet.spec):
            labels.setdefault(name, label)
    order = ("CUDA cores", "tensor cores")
    ranked = sorted(names, key=lambda name: next((rank for rank, word in enumerate(order, 1) if word in name), 0))
    return [(labels[name], name) for name in ranked if name in labels]


def _ratio(sheet: GpuSheet, name: str, first: bool) -> str:
    figure = sheet.spec.figures.get(name)
    if figure is None:
        return "-"
    text = _with_unit(name, figure) + (_WEAK if figure.kind == "weak" else "")
    ratio = sheet.relative.get(name)
    return text if first or ratio is None else f"{text}  x{ratio:.2f}"


# --- the GPUs at hand -----------------------------------------------------------------------


def _live(live: LiveSheet) -> Iterator[str]:
    gpu = live.gpu
    place = f"GPU {gpu.index}" + (f".{gpu.slice}" if gpu.slice is not None else "")
    slug = f"{live.sheet.spec.slug}, " if live.sheet and live.sheet.spec.origin != "derived" else ""
    events = gpu.clock_events
    now = [
        _of("SM", gpu.sm_clock_mhz, gpu.max_sm_clock_mhz, "MHz"),
        _of("memory", gpu.memory_clock_mhz, gpu.max_memory_clock_mhz, "MHz"),
        _of("power", gpu.power_w, gpu.power_limit_w, "W"),
        "" if gpu.temperature_c is None else f"{gpu.temperature_c} C",
        "" if events is None else f"clock held down by: {', '.join(events)}" if events else "clock not held down",
    ]
    memory = [
        "" if gpu.memory_bytes is None else f"{format_bytes(gpu.memory_bytes)} of memory",
        "" if gpu.memory_free_bytes is None else f"{format_bytes(gpu.memory_free_bytes)} free",
    ]
    state = [
        f"driver {gpu.driver}" + (f" (CUDA {gpu.cuda})" if gpu.cuda else ""),
        _link("PCIe", gpu.pcie_generation, gpu.pcie_width),
        _link("of at most", gpu.max_pcie_generation, gpu.max_pcie_width),
        *("" if on is None else f"{what} {'on' if on else 'off'}" for what, on in (("ECC", gpu.ecc), ("MIG", gpu.mig))),
        *memory,
    ]
    yield f"{place}  {gpu.name}"
    for words in ([f"datasheet: {slug}{live.reason}"], now, state):
        yield "  " + ", ".join(word for word in words if word)


def _link(what: str, generation: int | None, lanes: int | None) -> str:
    return "" if generation is None or lanes is None else f"{what} {generation}.0 x{lanes}"


def _of(what: str, now: float | None, most: float | None, unit: str) -> str:
    if now is None and most is None:
        return ""
    shown = "?" if now is None else f"{now:g}"
    return f"{what} {shown}" + (f" of {most:g}" if most is not None else "") + (f" {unit}" if unit else "")
