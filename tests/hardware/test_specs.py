"""The datasheets that come with trtprof: every figure is checked against a formula or a law."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.support import CAPTURES, NO_CAPTURES
from trtprof.base.records import Figure
from trtprof.hardware import gpus, throughput

SPECS = Path(gpus.__file__).with_name("specs")
FILES = sorted(SPECS.glob("*.toml"))
TABLE = CAPTURES.parent / "facts" / "gpus.csv"

TERA = 1e12
OFF = 0.02
"""A peak may differ from the formula by this share; more must be explained in its file."""


def raw(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def peaks(path: Path) -> list[tuple[str, dict[str, Any], float]]:
    """Name and cell of every peak of a file, with what the formula gives, in FLOP/s."""
    file = raw(path)
    cc, kind = file["compute_capability"], file["class"]
    sms = file["figures"]["sms"]["value"]
    boost = file["figures"]["boost_mhz"]["value"] * 1e6
    tensor_clock = file["figures"]["tensor_mhz"]["value"] * 1e6
    results = throughput.cuda_results(cc)
    rates = throughput.tensor_flops(cc, kind)
    return [
        *((f"cuda {dtype}", cell, sms * results[dtype] * 2 * boost) for dtype, cell in file["cuda_tflops"].items()),
        *(
            (f"tensor {dtype} {accumulator}", cell, sms * rates[dtype][accumulator] * tensor_clock)
            for dtype, by in file.get("tensor_tflops", {}).items()
            for accumulator, cell in by.items()
        ),
    ]


def wrong_peaks(path: Path) -> Iterator[str]:
    """Peaks that are not multiprocessors x rate x clock and do not say why, or are sparse ones."""
    for name, cell, formula in peaks(path):
        off = cell["value"] * TERA / formula - 1
        if abs(off) > OFF and not cell.get("note"):
            yield f"{name}: {off:+.1%} of the formula without a note"
        if abs(off) <= OFF and "note" in cell:
            yield f"{name}: a note explains a difference of only {off:+.1%}"
        if off > 0.1:
            yield f"{name}: a peak with sparsity"


def missing_peaks(path: Path) -> Iterator[str]:
    """Peaks that the architecture has and the file lacks, or the other way round."""
    file = raw(path)
    cc = file["compute_capability"]
    listed = {(dtype, acc) for dtype, by in file.get("tensor_tflops", {}).items() for acc in by}
    rates = throughput.tensor_flops(cc, file["class"])
    tensor = {(dtype, acc) for dtype, by in rates.items() for acc in by if not path.stem.startswith("gtx-")}
    yield from (str(each) for each in set(file["cuda_tflops"]) ^ set(throughput.cuda_results(cc)))
    yield from (str(each) for each in listed ^ tensor)


def broken_rules(path: Path) -> Iterator[str]:
    """Figures that have no datasheet and do not follow their rule, or are surer than what they are made of."""
    file = raw(path)
    figures, cc = file["figures"], file["compute_capability"]
    l2, launch = figures["l2_bandwidth_gbs"], figures["launch_us"]
    per_clock, source = throughput.l2_bytes(cc)
    if l2["value"] != pytest.approx(per_clock * figures["sms"]["value"] * figures["boost_mhz"]["value"] / 1e3, 1e-3):
        yield "l2_bandwidth_gbs"
    if source not in file["sources"][l2["source"]]:
        yield "the source of l2_bandwidth_gbs"
    launch_ns, source = throughput.graph_launch_ns(cc)
    if (file["sources"][launch["source"]], launch["kind"]) != (source, "weak"):
        yield "the source of launch_us"
    if launch["value"] != pytest.approx(launch_ns / 1e3):
        yield "launch_us"
    if "weak" in (figures["sms"]["kind"], figures["boost_mhz"]["kind"]):
        cells = {dtype: file["cuda_tflops"].get(dtype) for dtype in ("bf16", "int32")}
        yield from (f"{dtype} is not weak" for dtype, cell in cells.items() if cell and cell["kind"] != "weak")


def unused_sources(path: Path) -> Iterator[str]:
    """Sources that no figure names, or that are empty."""
    file = raw(path)
    tensor = [cell for by in file.get("tensor_tflops", {}).values() for cell in by.values()]
    used = {cell["source"] for cell in (*file["figures"].values(), *file["cuda_tflops"].values(), *tensor)}
    yield from used ^ set(file["sources"])
    yield from (name for name, text in file["sources"].items() if not text.strip())


def implausible(path: Path) -> Iterator[str]:
    """Laws that a slip of a power of ten or a swapped figure breaks."""
    spec = gpus.load(path)[0]
    ridge = gpus.ridge_points(gpus.ceilings(spec, tf32=False).attainable)
    laws = {
        "architecture": spec.architecture == throughput.architecture(spec.compute_capability),
        "sms": 1 <= spec.sms.value <= 200, "clocks": 500 <= spec.tensor_mhz.value <= spec.boost_mhz.value <= 3000,
        "bandwidths": spec.dram_bytes_per_s.value < spec.l2_bytes_per_s.value < 100 * spec.dram_bytes_per_s.value,
        "memory": spec.l2_bytes.value < spec.memory_bytes.value,
        "l2": 5e3 < spec.l2_bytes.value / spec.sms.value < 20e6, "tdp": 5 <= spec.tdp_w.value <= 1500,
        "ridge": 4 < ridge["fp32"] < 120,
        "names": all(name.isprintable() and not name.isspace() for name in (spec.slug, spec.name, *spec.nvml_names)),
    }  # fmt: skip
    yield from (law for law, holds in laws.items() if not holds)


@pytest.mark.parametrize("law", [wrong_peaks, missing_peaks, broken_rules, unused_sources, implausible])
def test_every_datasheet_keeps_the_laws(law: Callable[[Path], Iterator[str]]) -> None:
    assert len(FILES) > 100
    assert [f"{path.stem}: {what}" for path in FILES for what in law(path)] == []


def test_names_are_used_once() -> None:
    specs = gpus.specs()
    names = [name for spec in specs.values() for name in spec.nvml_names]
    assert len(names) == len(set(names))
    assert [path.stem for path in FILES] == list(specs)


def test_geforce_accumulates_in_fp32_at_half_the_rate() -> None:
    for spec in gpus.specs().values():
        fp16 = spec.tensor_flops_per_s.get("fp16")
        if fp16 is None:
            continue
        half = spec.product_class == "geforce"
        assert fp16["fp16"].value / fp16["fp32"].value == pytest.approx(2.0 if half else 1.0, rel=0.01), spec.slug


# --- the table that the project started from ------------------------------------------------

COLUMNS: dict[str, tuple[str, ...]] = {
    "sm_count": ("SMs",), "boost_mhz": ("boost clock",), "tensor_clock_mhz": ("tensor clock",), "tdp_w": ("power",),
    "fp32": ("fp32 CUDA cores",), "fp16_cuda": ("fp16 CUDA cores",), "fp64": ("fp64 CUDA cores",),
    "tf32_tc": ("tf32 tensor cores (fp32)",), "fp16_tc_acc16": ("fp16 tensor cores (fp16)",),
    "fp16_tc_acc32": ("fp16 tensor cores (fp32)",), "bf16_tc": ("bf16 tensor cores (fp32)",),
    "int8_tc": ("int8 tensor cores (int32)", "uint8 tensor cores (int32)"),
    "fp8_tc_acc16": ("fp8e4m3fn tensor cores (fp16)", "fp8e5m2 tensor cores (fp16)"),
    "fp8_tc_acc32": ("fp8e4m3fn tensor cores (fp32)", "fp8e5m2 tensor cores (fp32)"),
    "fp4_tc": ("fp4e2m1 tensor cores (fp32)",), "fp64_tc": ("fp64 tensor cores (fp64)",), "mem_gb": ("memory",),
    "mem_bw_gbs": ("bandwidth",), "l2_mb": ("L2",),
}  # fmt: skip
SCALE = {"mem_gb": float(1 << 30), "mem_bw_gbs": 1e9, "l2_mb": float(1 << 20)}
BOARD = ("sm_count", "boost_mhz", "tensor_clock_mhz", "tdp_w")

ROWS = {
    "A100 40GB SXM4": "a100-sxm4-40gb", "A100 80GB SXM4": "a100-sxm4-80gb", "A100 40GB PCIe": "a100-pcie-40gb",
    "A100 80GB PCIe": "a100-pcie-80gb", "RTX 3080 10GB": "rtx-3080", "H200 SXM": "h200", "B200 (HGX)": "b200",
    "GB200 (per GPU)": "gb200", "RTX PRO 6000 Blackwell WS": "rtx-pro-6000-blackwell",
    "Jetson AGX Thor T5000": "jetson-thor-t5000",
}  # fmt: skip
"""Rows whose name is not that of a datasheet here."""


def rows() -> list[dict[str, str]]:
    if not TABLE.exists():
        return []
    with TABLE.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.skipif(not TABLE.exists(), reason=NO_CAPTURES)
def test_every_row_of_the_table_has_a_datasheet_that_agrees() -> None:
    assert len(rows()) >= 30
    for row in rows():
        spec = gpus.find(ROWS.get(row["name"], row["name"]))
        assert spec.compute_capability == row["cc"], spec.slug
        for column, names in COLUMNS.items():
            listed = [spec.figures.get(name) for name in names]
            if not row[column]:
                assert listed == [None] * len(names), (spec.slug, column)
                continue
            value = float(row[column]) * SCALE.get(column, 1.0 if column in BOARD else TERA)
            # Cells of the table with one or two digits were rounded from the same formula.
            digits = len(row[column].replace(".", "").lstrip("0"))
            for figure in listed:
                assert figure is not None, (spec.slug, column)
                assert figure.value == pytest.approx(value, rel=0.06 if digits == 1 else 0.005), (spec.slug, column)
                check_kind(row, column, figure, spec.slug)


def check_kind(row: dict[str, str], column: str, figure: Figure, slug: str) -> None:
    """What the table does not know from a source is not called published here."""
    unknown = row["unsourced_cells"].split()
    if column in unknown or ("peaks" in unknown and column not in (*BOARD, *SCALE)):
        assert figure.kind == "weak", (slug, column)
    elif column in row["derived_cells"].split():
        assert figure.kind in ("derived", "weak"), (slug, column)


# --- figures that are known by heart --------------------------------------------------------


def test_the_a100() -> None:
    spec = gpus.find("A100")
    assert {dtype: figure.value / TERA for dtype, figure in spec.vector_flops_per_s.items()} == pytest.approx(
        {"fp64": 9.7, "fp32": 19.5, "fp16": 78, "bf16": 39, "int32": 19.5}, rel=1e-3
    )
    tensor = {dtype: {acc: f.value / TERA for acc, f in by.items()} for dtype, by in spec.tensor_flops_per_s.items()}
    assert tensor == {
        "fp64": {"fp64": 19.5},
        "tf32": {"fp32": 156},
        "fp16": {"fp16": 312, "fp32": 312},
        "bf16": {"fp32": 312},
        "int8": {"int32": 624},
        "uint8": {"int32": 624},
    }
    assert spec.l2_bytes_per_s.value == pytest.approx(5120 * 1.41e9, rel=1e-3)


def test_the_rtx_3080_bends_at_39_flop_per_byte() -> None:
    assert gpus.ridge_points(gpus.ceilings(gpus.find("rtx-3080")).attainable)["fp32"] == pytest.approx(39.2, abs=0.05)
