"""What `trtprof gpus` prints: a table of GPUs, one datasheet with its sources, or several side by side."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from profiler.base.records import Figure, GpuListing, GpuSheet, GpuSpec, LiveSheet
from profiler.base.units import format_bytes, format_rate
from profiler.report._format import visible
from profiler.report.csv_ import safe

View = Literal["table", "sheet", "comparison"]
"""A row a GPU; one GPU with the source of each figure; a column a GPU with ratios to the first."""

_TWINS = {"uint8": "int8", "fp8e5m2": "fp8e4m3fn"}
"""Dtypes that are left out where they run at the rate of another one."""
_SHORT = {"fp8e4m3fn": "fp8", "fp4e2m1": "fp4"}
_WEAK = "?"
_LEGEND = (
    "dense TFLOP/s (int8: TOP/s): fp32 on CUDA cores, the rest on tensor cores with fp32 sums where there is a choice; "
    "ridge: FLOP per byte of DRAM traffic where the fp32 roofline bends"
)
_WEAK_LEGEND = "? weak: one source that quotes nobody, or sources that disagree"


def render_json(found: GpuListing) -> str:
    """The listing as one JSON document, indented."""
    return msgspec.json.format(msgspec.json.encode(found, order="deterministic"), indent=1).decode() + "\n"


def render_text(found: GpuListing, view: View, width: int = 80, *, ascii_only: bool = False) -> str:
    """The listing for a terminal, at most ``width`` columns wide."""
    lines = [line for live in found.live for line in _live(live, width)]
    if view == "table":
        lines += [*([""] if lines else []), *_table(found.gpus, width)]
    elif view == "sheet":
        lines += _sheet(found.gpus[0], width)
    else:
        lines += _comparison(found.gpus, width)
    return "\n".join(_cut(visible(line, ascii_only=ascii_only), width).rstrip() for line in lines) + "\n"


def render_csv(found: GpuListing) -> str:
    """A header and one row a GPU, in SI base units; an empty cell is what the GPU has not, or nobody tells."""
    rows = [_csv_row(sheet) for sheet in found.gpus]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    # Not every GPU has every dtype: what only later rows have goes where it belongs.
    columns.sort(key=lambda column: next((n for n, start in enumerate(_CSV_GROUPS, 1) if column.startswith(start)), 0))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([safe(row.get(column)) for column in columns] for row in rows)
    return out.getvalue()


def render_markdown(found: GpuListing, view: View) -> str:
    """The listing as Markdown tables."""
    if view == "table":
        rows = [[column.head + (f" ({column.unit})" if column.unit else "") for column in _COLUMNS]]
        rows += [[column.cell(sheet).strip() for column in _COLUMNS] for sheet in found.gpus]
        return _markdown(rows) + f"\n{_LEGEND}.\n" + (f"\n{_WEAK_LEGEND}.\n" if _any_weak(found.gpus) else "")
    if view == "sheet":
        (sheet,) = found.gpus[:1]
        rows = [["", "value", "kind", "source"]]
        rows += [
            [label, _with_unit(name, figure), figure.kind, figure.source]
            for label, name, figure in _figures(sheet.spec)
        ]
        ridge = "".join(f"- {dtype}: {value:.1f} FLOP/B\n" for dtype, value in _ridges(sheet))
        note = f"\n{sheet.spec.note}\n" if sheet.spec.note else ""
        return f"## {_described(sheet.spec)}\n\n{_markdown(rows)}\nRidge points:\n\n{ridge}{note}"
    return _markdown(_compared_rows(found.gpus))


# --- a row a GPU ----------------------------------------------------------------------------


class _Column(NamedTuple):
    head: str
    unit: str
    cell: Callable[[GpuSheet], str]
    priority: int
    """The lower, the longer it stays as the terminal gets narrow."""


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


_COLUMNS = (
    _Column("gpu", "", lambda s: s.spec.slug, 0),
    _Column("name", "", lambda s: s.spec.name, 99),
    _Column("arch", "", lambda s: s.spec.architecture, 13),
    _Column("cc", "", lambda s: s.spec.compute_capability + " ", 10),
    _Column("SMs", "", lambda s: _number(s.spec.sms), 8),
    _Column("boost", "MHz", lambda s: _number(s.spec.boost_mhz), 12),
    _Column("mem", "GiB", lambda s: _number(s.spec.memory_bytes, 1 << 30), 4),
    _Column("DRAM", "GB/s", lambda s: _number(s.spec.dram_bytes_per_s, 1e9), 1),
    _Column("L2", "MiB", lambda s: _number(s.spec.l2_bytes, 1 << 20, 0 if s.spec.l2_bytes.value >= 1e7 else 1), 11),
    _Column("TDP", "W", lambda s: _number(s.spec.tdp_w), 7),
    _Column("fp32", "T/s", lambda s: _peak(_vector(s.spec, "fp32")), 2),
    _Column("tf32", "T/s", lambda s: _peak(_tensor(s.spec, "tf32")), 6),
    _Column("fp16", "T/s", lambda s: _peak(_tensor(s.spec, "fp16")), 3),
    _Column("int8", "T/s", lambda s: _peak(_tensor(s.spec, "int8")), 5),
    _Column("fp8", "T/s", lambda s: _peak(_tensor(s.spec, "fp8e4m3fn")), 9),
    _Column("ridge", "FLOP/B", lambda s: f"{s.ridge['fp32']:.1f} " if "fp32" in s.ridge else "- ", 6),
)


def _table(sheets: Sequence[GpuSheet], width: int) -> list[str]:
    if not sheets:
        return ["no GPU of the list has all of that"]
    cells = {column.head: [column.cell(sheet) for sheet in sheets] for column in _COLUMNS}
    widths = {
        column.head: max(len(column.head) + 1, len(column.unit) + 1, *map(len, cells[column.head]))
        for column in _COLUMNS
    }
    shown: set[str] = set()
    left = width
    for column in sorted(_COLUMNS, key=lambda column: column.priority):
        # What is less important may still fit, but a gap in the order of importance would surprise.
        if widths[column.head] + 1 > left + 1:
            break
        shown.add(column.head)
        left -= widths[column.head] + 1
    columns = [column for column in _COLUMNS if column.head in shown]

    def line(texts: Sequence[str]) -> str:
        return " ".join(
            text.ljust(widths[column.head]) if column.head in _LEFT else text.rjust(widths[column.head])
            for column, text in zip(columns, texts, strict=True)
        )

    lines = [line([_head(column, column.head) for column in columns])]
    lines.append(line([_head(column, column.unit) for column in columns]))
    lines += [line([cells[column.head][row] for column in columns]) for row in range(len(sheets))]
    legend = _LEGEND
    hidden = [column.head for column in _COLUMNS if column.head not in shown]
    if hidden:
        legend += f"; not shown: {', '.join(hidden)} (--format csv has all)"
    lines += ["", *textwrap.wrap(legend, width)]
    return lines + (textwrap.wrap(_WEAK_LEGEND, width) if _any_weak(sheets) else [])


_LEFT = ("gpu", "name", "arch")


def _head(column: _Column, text: str) -> str:
    return text if column.head in _LEFT else text + " "


def _any_weak(sheets: Sequence[GpuSheet]) -> bool:
    return any(_WEAK in column.cell(sheet) for sheet in sheets for column in _COLUMNS if column.unit)


# --- one GPU --------------------------------------------------------------------------------


def _sheet(sheet: GpuSheet, width: int) -> list[str]:
    spec = sheet.spec
    lines = textwrap.wrap(_described(spec), width, subsequent_indent="  ")
    if spec.nvml_names:
        lines += _labelled("driver", ", ".join(spec.nvml_names), width)
    lines += [*_labelled("from", spec.origin, width), ""]
    sources: dict[str, int] = {}
    rows = []
    for label, name, figure in _figures(spec):
        number = sources.setdefault(figure.source, len(sources) + 1)
        rows.append((label, _with_unit(name, figure), f"{figure.kind:<9} [{number}]"))
    label_width, value_width = (max(len(row[column]) for row in rows) for column in (0, 1))
    lines += [f"{label:<{label_width}}  {value:>{value_width}}  {source}" for label, value, source in rows]
    lines += ["", "ridge points, FLOP per byte of DRAM traffic:"]
    lines += _wrapped(", ".join(f"{dtype} {value:.1f}" for dtype, value in _ridges(sheet)), width)
    if sheet.roof.special_per_s:
        lines += ["special functions, a second:", *_wrapped(", ".join(_specials(sheet)), width)]
    lines += ["sources:", *(line for text, number in sources.items() for line in _wrapped(f"[{number}] {text}", width))]
    return lines + (["note:", *_wrapped(spec.note, width)] if spec.note else [])


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


def _comparison(sheets: Sequence[GpuSheet], width: int) -> list[str]:
    rows = _compared_rows(sheets)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines: list[str] = []
    columns = list(range(1, len(rows[0])))
    while columns:
        block: list[int] = []
        left = width - widths[0]
        while columns and (not block or widths[columns[0]] + 2 <= left):
            left -= widths[columns[0]] + 2
            block.append(columns.pop(0))
        lines += [
            row[0].ljust(widths[0]) + "".join("  " + row[column].rjust(widths[column]) for column in block)
            for row in rows
        ]
        lines.append("")
    weak = any(_WEAK in cell for row in rows for cell in row)
    legend = f"x: times that of {sheets[0].spec.slug}; ridge: FLOP per byte of DRAM traffic"
    return [*lines, *textwrap.wrap(legend + (f"; {_WEAK_LEGEND}" if weak else ""), width)]


def _compared_rows(sheets: Sequence[GpuSheet]) -> list[list[str]]:
    ridges = [dict(_ridges(sheet)) for sheet in sheets]
    return [
        ["", *(sheet.spec.slug for sheet in sheets)],
        ["architecture", *(f"{sheet.spec.architecture} {sheet.spec.compute_capability}" for sheet in sheets)],
        *(
            [label, *(_compared(sheet, name, index == 0) for index, sheet in enumerate(sheets))]
            for label, name in _labels(sheets)
        ),
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


def _compared(sheet: GpuSheet, name: str, first: bool) -> str:
    figure = sheet.spec.figures.get(name)
    if figure is None:
        return "-"
    text = _with_unit(name, figure) + (_WEAK if figure.kind == "weak" else "")
    ratio = sheet.relative.get(name)
    return text if first or ratio is None else f"{text}  x{ratio:.2f}"


# --- the GPUs at hand -----------------------------------------------------------------------


def _live(live: LiveSheet, width: int) -> list[str]:
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
    lines = [f"{place}  {gpu.name}"]
    for words in ([f"datasheet: {slug}{live.reason}"], now, state):
        lines += _wrapped(", ".join(word for word in words if word), width)
    return lines


def _link(what: str, generation: int | None, lanes: int | None) -> str:
    return "" if generation is None or lanes is None else f"{what} {generation}.0 x{lanes}"


def _of(what: str, now: float | None, most: float | None, unit: str) -> str:
    if now is None and most is None:
        return ""
    shown = "?" if now is None else f"{now:g}"
    return f"{what} {shown}" + (f" of {most:g}" if most is not None else "") + (f" {unit}" if unit else "")


# --- CSV and Markdown -----------------------------------------------------------------------

_CSV_GROUPS = (
    "cuda_", "tensor_fp", "tensor_tf", "tensor_bf", "tensor_int", "tensor_uint", "ridge_", "weak", "derived", "note",
)  # fmt: skip


def _csv_row(sheet: GpuSheet) -> dict[str, str | int | None]:
    spec = sheet.spec
    numbers = {
        "sms": spec.sms, "boost_mhz": spec.boost_mhz, "tensor_mhz": spec.tensor_mhz,
        "memory_bytes": spec.memory_bytes, "dram_bytes_per_s": spec.dram_bytes_per_s, "l2_bytes": spec.l2_bytes,
        "l2_bytes_per_s": spec.l2_bytes_per_s, "tdp_w": spec.tdp_w, "launch_ns": spec.launch_ns,
        **{f"cuda_{dtype}_per_s": figure for dtype, figure in spec.vector_flops_per_s.items()},
        **{
            f"tensor_{dtype}_{accumulator}_per_s": figure
            for dtype, by in spec.tensor_flops_per_s.items()
            for accumulator, figure in by.items()
        },
    }  # fmt: skip
    return {
        "slug": spec.slug,
        "name": spec.name,
        "architecture": spec.architecture,
        "compute_capability": spec.compute_capability,
        "product_class": spec.product_class,
        **{name: _exact(figure.value) for name, figure in numbers.items()},
        **{f"ridge_{dtype}": f"{value:.6g}" for dtype, value in sheet.ridge.items()},
        "weak": ";".join(name for name, figure in numbers.items() if figure.kind == "weak"),
        "derived": ";".join(name for name, figure in numbers.items() if figure.kind == "derived"),
        "note": spec.note,
    }


def _exact(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(visible(cell).replace("|", "\\|") for cell in cells) + " |\n"

    return line(rows[0]) + line(["---"] * len(rows[0])) + "".join(map(line, rows[1:]))


def _labelled(label: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=f"{label:<8}", subsequent_indent=" " * 8)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="  ")


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 3] + "..."
