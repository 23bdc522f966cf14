"""What a sweep of an op looks like: table, pictures, CSV, Markdown, JSON."""

from __future__ import annotations

import csv
import io
import re
from xml.etree import ElementTree as ET

import pytest

from tests.fakes.estimates import SWEEPS
from tests.fakes.rendering import render_csv, render_image, render_text
from tests.fakes.support import refused
from trtprof.base.errors import UsageError
from trtprof.base.records import OpSweep
from trtprof.report.tables import table_of


def rows(text: str, heads: str) -> list[list[str]]:
    """Cells of the rows below the line that has these column heads."""
    lines = text.splitlines()
    first = next(index for index, line in enumerate(lines) if line.split() == heads.split())
    below = lines[first + 1 :]
    end = next((index for index, line in enumerate(below) if not line.strip() or line.startswith("*")), len(below))
    return [re.split(r"\s{2,}|\s(?=\*)", line.strip()) for line in below[:end]]


def test_no_bound_of_a_sweep_looks_like_a_forecast(subtests: pytest.Subtests) -> None:
    """Beside the time of a launch, which is a figure of the datasheet."""
    for name in SWEEPS:
        with subtests.test(name=name):
            told = re.sub(r"launch [\d.]+ [nu]s", "", render_text(SWEEPS[name], 100))
            assert re.findall(r"(?<![\d.>])(?<!>= )\b\d[\d.,]* (?:ns|us|ms|s)\b", told) == []


def test_the_table_of_the_example() -> None:
    text = render_text(SWEEPS["example"], 100)
    assert rows(text, "kernel MAC FLOP bytes FLOP/B time bound next of peak") == [
        # 1,622,016 bytes at 750 GB/s; 642 MFLOP and more at 30 TFLOP/s. Winograd takes a quarter of those of 3 x 3.
        ["1", "12.8 M", "25.7 M", "1.62 MB", "15.8", ">= 2.16 us", "memory", "launch 69 %", "39.6 %"],
        ["3", "116 M", "231 M", "1.75 MB", "132", ">= 2.34 us", "memory", "compute 82 %", "82.4 %"],
        ["5", "321 M", "642 M", "2.02 MB", "319", ">= 21.4 us", "*compute", "memory 13 %", "100.0 %"],
        ["7", "629 M", "1.26 G", "2.41 MB", "523", ">= 42.0 us", "compute", "memory 8 %", "100.0 %"],
    ]
    for line in (
        "conv over kernel (4)",
        "fast: Fast GPU, DRAM 750 GB/s, launch 1.50 us, ridge 40.0 (fp32) FLOP/byte",
        "cold: every byte crosses to DRAM",
        "* another bound than at the kernel before",
        "work grows x49.0 from kernel 1 to 7: 25.7 MFLOP to 1.26 GFLOP",
        "ceilings of fast: fixed by a test",
    ):
        assert line in text.splitlines()


def test_devices_that_do_not_fit_beside_each_other_go_below() -> None:
    found = SWEEPS["two devices"]
    wide, narrow = render_text(found, 200), render_text(found, 60)
    assert len(rows(wide, "batch dtype MAC FLOP bytes FLOP/B" + " time bound next of peak" * 2)) == len(found.points)
    assert len(rows(narrow, "batch dtype MAC FLOP bytes FLOP/B")) == len(found.points)
    assert narrow.count("of peak") == 2
    assert len(rows(narrow, "batch dtype time bound next of peak")) == len(found.points)


def test_a_cpu_has_no_l2() -> None:
    text = render_text(SWEEPS["warm on a CPU"])
    assert "cache" in text
    assert "l2" not in text.lower()
    assert "warm: the op runs again and again" in text


def test_what_is_skipped_is_said() -> None:
    text = render_text(SWEEPS["skips"], 120)
    found = SWEEPS["skips"]
    assert f"{len(found.skipped)} combinations skipped:" in text
    assert "cin 6, groups" not in text
    assert "cin 7, groups 2: cin 7 is not divisible by groups 2" in text
    assert f"and {len(found.skipped) - 3} more" in text


@pytest.mark.parametrize("found", [SWEEPS["example"], SWEEPS["two devices"], SWEEPS["no device"]])
def test_csv_has_a_row_a_point_and_device(found: OpSweep) -> None:
    table = list(csv.DictReader(io.StringIO(render_csv(found))))
    assert len(table) == len(found.points) * max(len(found.devices), 1)
    assert list(table[0]) == [column.name for column in table_of("points", OpSweep).columns(found)]
    for row, (point, index) in zip(
        table, ((p, i) for p in found.points for i in range(max(len(found.devices), 1))), strict=True
    ):
        assert {dim.name: row[dim.name] for dim in found.dims} == {k: str(v) for k, v in point.at.items()}
        assert int(row["flops"]) == point.work.flops
        assert int(row["bytes_read"]) + int(row["bytes_written"]) == point.work.bytes
        assert float(row["intensity"]) == point.intensity
        time = point.times[index] if found.devices else None
        assert row["device"] == (time.device if time else "")
        assert row["time_ns"] == (str(time.estimate.attainable_ns) if time else "")


@pytest.mark.parametrize("name", [name for name in SWEEPS if "one " not in name])
def test_a_picture_names_what_it_shows_and_is_the_same_each_time(name: str) -> None:
    found = SWEEPS[name]
    svg = render_image(found, ".svg")
    if name == "example":
        assert svg == render_image(found, ".svg")
    root = ET.fromstring(svg)  # noqa: S314 - our own output
    words = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert "intensity, FLOP/byte" in words
    assert found.dims[0].name in words
    assert any((word or "").startswith("time") for word in words) == bool(found.devices)
    ridges = [word for word in words if (word or "").startswith("ridge")]
    assert bool(ridges) == bool(found.devices)
    assert str(found.dims[0].values[0]) in words or len(found.dims[0].values) > 12


@pytest.mark.parametrize("name", ["one point", "one point, no device", "one value left"])
def test_one_point_is_no_picture(name: str) -> None:
    with pytest.raises(UsageError) as error:
        render_image(SWEEPS[name], ".svg")
    assert "two points" in refused(error.value)
