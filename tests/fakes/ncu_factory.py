"""Files as ``ncu --csv`` prints them, from a small description.

Headers, the row of units, rows of rules that are shorter than the header, and how numbers are grouped are those of ncu
2022.3 (printed from a report that NVIDIA ships with it, in the locales named here) and, with the columns of block,
grid, device and CC, of later versions as users published them. The numbers are invented.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

Form = Literal["raw", "long"]

_SCALES = {
    "byte": (("Gbyte", 10**9), ("Mbyte", 10**6), ("Kbyte", 1000)),
    "nsecond": (("msecond", 10**6), ("usecond", 1000)),
}
TALK = """==PROF== Connected to process 111 (/usr/bin/python3.11)
==PROF== Profiling "a_kernel" - 0: 0%....50%....100% - 8 passes
"""


class Launch(NamedTuple):
    """A launch: ``metrics`` are values in base units and their unit, as text where ncu prints no number."""

    kernel: str
    metrics: Mapping[str, tuple[float | str, str]]
    grid: tuple[int, int, int] = (80, 1, 1)
    block: tuple[int, int, int] = (256, 1, 1)
    process: int = 111
    device: int = 0
    capability: str = "8.9"


def counted(
    kernel: str, *, read: float = 0, written: float = 0, ns: float = 10_000, tensor: float | None = None,
    ffma: float | None = None, occupancy: float | None = None, **fields: object,
) -> Launch:  # fmt: skip
    """A launch with the counters that matter here."""
    metrics: dict[str, tuple[float | str, str]] = {
        "dram__bytes_read.sum": (read, "byte"),
        "dram__bytes_write.sum": (written, "byte"),
        "gpu__time_duration.sum": (ns, "nsecond"),
    }
    if tensor is not None:
        metrics["sm__inst_executed_pipe_tensor.sum"] = (tensor, "inst")
    if ffma is not None:
        metrics |= {
            f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum": (count, "inst")
            for op, count in (("fadd", 0), ("fmul", 0), ("ffma", ffma))
        }
    if occupancy is not None:
        metrics["sm__warps_active.avg.pct_of_peak_sustained_active"] = (100 * occupancy, "%")
    return Launch(kernel, metrics, **fields)  # type: ignore[arg-type]


# --- numbers --------------------------------------------------------------------------------


def _grouped(value: float, mark: str, point: str) -> str:
    text = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"
    return text.replace(",", "\0").replace(".", point).replace("\0", mark)


def _indian(value: float) -> str:
    whole, dot, rest = (f"{value:.0f}" if float(value).is_integer() else f"{value:.2f}").partition(".")
    head, tail = whole[:-3], whole[-3:]
    groups = [head[max(at - 2, 0) : at] for at in range(len(head), 0, -2)][::-1]
    return ",".join([*groups, tail]) + dot + rest


LOCALES: Mapping[str, Callable[[float], str]] = {
    "C": lambda value: _grouped(value, "", "."),
    "en_US": lambda value: _grouped(value, ",", "."),
    "de_DE": lambda value: _grouped(value, ".", ","),
    "fr_FR": lambda value: _grouped(value, " ", ","),
    "en_IN": _indian,
    "de_CH": lambda value: _grouped(value, "'", "."),
}


# --- files ----------------------------------------------------------------------------------


def ncu_csv(
    launches: Sequence[Launch], *, form: Form = "raw", locale: str = "C", scaled: bool = False, columns: bool = True,
    rules: bool = False, before: str = TALK, after: str = "",
) -> str:  # fmt: skip
    """What ncu prints of launches.

    Args:
        launches: In their order.
        form: The page ``raw``, or the one with a row a metric.
        locale: One of `LOCALES`.
        scaled: Whether units are scaled (``--print-units auto``); of a column by its first value.
        columns: Whether there are columns for block, grid, device and CC, as after 2022.
        rules: Whether rules left rows of their own (the long form alone).
        before: What stands before the table.
        after: What stands behind it.
    """
    fixed = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name"]
    fixed += (
        ["Context", "Stream", "Block Size", "Grid Size", "Device", "CC"]
        if columns
        else ["Kernel Time", "Context", "Stream"]
    )
    names = list(dict.fromkeys(name for launch in launches for name in launch.metrics))
    lines = []
    if form == "raw":
        units = {
            name: _unit(launch.metrics[name], scaled)
            for name in names
            for launch in launches[::-1]
            if name in launch.metrics
        }
        lines = [_row([*fixed, *names]), _row([""] * len(fixed) + [units[name][0] for name in names])]
    else:
        own = ["Rule Name", "Rule Type", "Rule Description"] if rules else []
        lines = [_row([*fixed, "Section Name", "Metric Name", "Metric Unit", "Metric Value", *own])]
    for number, launch in enumerate(launches):
        cells = [str(number), str(launch.process), "python3.11", "127.0.0.1", launch.kernel]
        if columns:
            cells += ["1", "7", str(launch.block), str(launch.grid), str(launch.device), launch.capability]
        else:
            cells += ["2026-Jan-01 10:00:00", "1", "7"]
        if form == "raw":
            values = [
                _value(launch.metrics[name][0], units[name][1], locale) if name in launch.metrics else ""
                for name in names
            ]
            lines.append(_row([*cells, *values]))
            continue
        for name, value in launch.metrics.items():
            unit, scale = _unit(value, scaled)
            section = "Command line profiler metrics"
            lines.append(_row([*cells, section, name, unit, _value(value[0], scale, locale)]) + ("," if rules else ""))
        if rules:
            lines.append(
                _row([*cells, "SpeedOfLight", "", "", "", "SOLBottleneck", "INF", 'This kernel, as "all", is slow.'])
            )
    return before + "\n".join(lines) + "\n" + after


def _unit(value: tuple[float | str, str], scaled: bool) -> tuple[str, float]:
    number, unit = value
    for name, scale in _SCALES.get(unit, ()) if scaled else ():
        if not isinstance(number, str) and number >= scale:
            return name, scale
    return unit, 1.0


def _value(value: float | str, scale: float, locale: str) -> str:
    if isinstance(value, str):
        return value
    # What is scaled has six decimals on the page raw, in any locale.
    return f"{value / scale:.6f}" if scale != 1 else LOCALES[locale](value)


def _row(cells: Iterable[str]) -> str:
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)
