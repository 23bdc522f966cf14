"""`trtprof gpus` and the gpu lines of `trtprof doctor`, with datasheets and devices that are given."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fakes.command_line import trtprof
from trtprof.base.records import SCHEMA_VERSION, Figure, GpuListing, GpuSpec, LiveGpu
from trtprof.hardware import gpus, nvml

GIB = 1 << 30
WHY = "no driver in this test"


def made(slug: str, cc: str, kind: str, sms: int, boost: float, memory: int, dram: float, **changed: Any) -> GpuSpec:
    spec = gpus.derive(
        name=slug.upper(), cc=cc, product_class=kind, sms=sms, boost_mhz=boost, memory_bytes=memory * GIB,  # type: ignore[arg-type]
        dram_bytes_per_s=dram, l2_bytes=40 << 20, tdp_w=300,
    )  # fmt: skip
    return msgspec.structs.replace(spec, slug=slug, nvml_names=(f"NVIDIA {slug}",), origin=f"{slug}.toml", **changed)


ADA = made("ada", "8.9", "geforce", 128, 2520, 24, 1.008e12)
AMPERE = made(
    "ampere", "8.6", "geforce", 68, 1710, 10, 0.76e12,
    tdp_w=Figure(value=320, kind="weak", source="a shop"), note="the 12 GB board has 70 SMs",
)  # fmt: skip
CENTER = made("center", "8.0", "datacenter", 108, 1410, 80, 2.039e12)
LIVE = LiveGpu(
    index=0, name="NVIDIA ada", compute_capability="8.9", sms=128, sm_clock_mhz=210, max_sm_clock_mhz=3105,
    memory_bytes=24 * GIB, dram_bytes_per_s=1.008e12, clock_events=("power cap",), driver="580.95.05", cuda="13.0",
    power_w=21.5, power_limit_w=450.0, ecc=False,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _given(monkeypatch: pytest.MonkeyPatch) -> None:
    specs = {spec.slug: spec for spec in (AMPERE, CENTER, ADA)}
    real = gpus.find
    monkeypatch.setattr(gpus, "specs", lambda: specs)
    monkeypatch.setattr(gpus, "find", lambda name: specs[name] if name in specs else real(name))
    monkeypatch.setattr(nvml, "gpus", lambda: ((), WHY))


def listed(*arguments: str) -> list[str]:
    done = trtprof("gpus", "--format", "json", *arguments)
    assert done.exit_code == 0, done.output
    return [sheet.spec.slug for sheet in msgspec.json.decode(done.stdout.encode(), type=GpuListing).gpus]


def test_the_table_is_sorted_and_the_absence_of_a_gpu_is_talk() -> None:
    done = trtprof("gpus", COLUMNS="120")
    assert done.exit_code == 0
    assert done.stderr == f"gpus here: {WHY}\n"
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[2:5]] == ["center", "ada", "ampere"]  # class, then newest first
    head = lines[0].split()
    row = dict(zip(head, lines[3].split(), strict=True))
    assert row["fp32"] == "82.6"
    assert row["fp16"] == "165.2"  # a GeForce halves it with fp32 sums
    assert row["int8"] == "660.6"
    assert row["ridge"] == "81.9"  # 82.6 TFLOP/s over 1.008 TB/s
    weak = dict(zip(head, lines[4].split(), strict=True))
    assert weak["TDP"] == "320?"
    assert "? weak" in done.stdout


@pytest.mark.parametrize("columns", [60, 70, 80, 100, 120])
@pytest.mark.parametrize("names", [(), ("ampere",), ("ampere", "ada", "center")])
def test_text_fits_the_terminal(columns: int, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "gpus", lambda: ((LIVE,), ""))
    done = trtprof("gpus", *names, COLUMNS=str(columns))
    assert done.exit_code == 0
    assert max(map(len, done.stdout.splitlines())) <= columns
    assert "..." not in done.stdout  # nothing is cut: columns are left out, prose is wrapped
    assert done.stdout.isascii()


def test_columns_left_out_are_named() -> None:
    narrow = trtprof("gpus", COLUMNS="60").stdout
    wide = trtprof("gpus", COLUMNS="120").stdout
    hidden = " ".join(narrow.split()).split("not shown: ")[1].split(" (--format csv")[0].split(", ")
    shown = set(narrow.splitlines()[0].split())
    assert shown.isdisjoint(hidden)
    assert set(wide.splitlines()[0].split()) <= shown | set(hidden)
    assert {"gpu", "DRAM", "fp32", "fp16"} <= shown


@pytest.mark.parametrize(
    ("arguments", "slugs"),
    [
        (["--arch", "ada"], ["ada"]),
        (["--arch", "AMPERE"], ["center", "ampere"]),
        (["--cc", "8.6"], ["ampere"]),
        (["--cc", "sm_89"], ["ada"]),
        (["--cc", "80"], ["center"]),
        (["--class", "geforce"], ["ada", "ampere"]),
        (["--min-memory", "24"], ["center", "ada"]),
        (["--dtype", "fp8"], ["ada"]),
        (["--class", "geforce", "--min-memory", "80"], []),
    ],
)
def test_filters(arguments: list[str], slugs: list[str]) -> None:
    assert listed(*arguments) == slugs


def test_an_empty_choice_is_said() -> None:
    done = trtprof("gpus", "--class", "datacenter", "--dtype", "fp8")
    assert (done.exit_code, done.stdout) == (0, "no GPU of the list has all of that\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--arch", "Fermi"], ["no GPU has --arch Fermi", "Ada, Ampere"]),
        (["--cc", "3.5"], ["no GPU has --cc 3.5", "8.0, 8.6, 8.9"]),
        (["--class", "gaming"], ["no GPU has --class gaming", "datacenter, geforce"]),
        (["--dtype", "fp7"], ["no GPU has --dtype fp7", "tf32"]),
        (["--format", "yaml"], ["gpus has no format 'yaml'", "csv, html, json, markdown, parquet, text"]),
        (["nonesuch"], ["no GPU is called 'nonesuch'"]),
        (["nonesuch.toml"], ["nonesuch.toml"]),
        (["ada", "--class", "geforce"], ["named and filtered"]),
    ],
)
def test_bad_requests_say_what_why_and_how(arguments: list[str], words: list[str]) -> None:
    done = trtprof("gpus", *arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    for word in (*words, "error: ", "  why: ", "  fix: "):
        assert word in done.stderr


def test_one_gpu_in_full() -> None:
    done = trtprof("gpus", "ampere")
    assert done.exit_code == 0
    assert done.stderr == ""  # the GPUs here were not asked for
    text = done.stdout
    assert text.startswith("AMPERE (ampere): Ampere, compute capability 8.6, geforce\n")
    figures = {line.split("  ")[0]: line.split() for line in text.splitlines() if line.endswith("]")}
    assert set(AMPERE.figures) - {"uint8 tensor cores (int32)"} == set(figures)  # it says the same as int8
    assert figures["power"][-4:-1] == ["320", "W", "weak"]
    assert f"  {figures['power'][-1]} a shop" in text
    assert figures["fp16 tensor cores (fp32)"][-4:-1] == ["59.54", "TFLOP/s", "derived"]
    assert "fp32 39.2" in " ".join(text.split())  # 29.77 TFLOP/s over 0.76 TB/s
    assert "1.86 T of exp" in text  # 68 SMs x 16 a clock x 1.71 GHz
    assert text.endswith("note:\n  the 12 GB board has 70 SMs\n")


def test_a_toml_path_is_a_name(tmp_path: Path) -> None:
    original = Path(gpus.__file__).with_name("specs") / "rtx-4090.toml"
    own = tmp_path / "my-gpu.toml"
    own.write_text(original.read_text(encoding="utf-8"), encoding="utf-8")
    assert listed(str(own)) == ["my-gpu"]
    assert str(own) in trtprof("gpus", str(own), COLUMNS="120").stdout.replace("\n        ", "")


def test_several_are_compared_with_the_first() -> None:
    done = trtprof("gpus", "ampere", "ada", "ampere")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["ampere", "ada"]
    rows = {line[:24].strip(): line for line in lines}
    assert rows["SMs"].split() == ["SMs", "68", "128", "x1.88"]
    assert rows["power"].split()[1:] == ["320", "W?", "300", "W", "x0.94"]
    assert rows["fp8 tensor cores (fp32)"].split()[-3:] == ["-", "330.3", "TFLOP/s"]
    assert rows["fp32 ridge"].split()[-2:] == ["39.2", "81.9"]


def test_json_is_one_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "gpus", lambda: ((LIVE,), ""))
    done = trtprof("gpus", "--format", "json")
    assert json.loads(done.stdout)["schema_version"] == SCHEMA_VERSION
    found = msgspec.json.decode(done.stdout.encode(), type=GpuListing)
    assert found.live[0].gpu == LIVE
    assert found.live[0].sheet is not None
    assert found.live[0].sheet.spec == ADA
    assert found.gpus[0].spec == CENTER
    compared = msgspec.json.decode(
        trtprof("gpus", "ampere", "ada", "--format", "json").stdout.encode(), type=GpuListing
    )
    assert compared.gpus[0].relative["SMs"] == 1.0
    assert compared.gpus[1].relative["SMs"] == 128 / 68
    assert "fp8e4m3fn tensor cores (fp32)" not in compared.gpus[1].relative


def test_csv_has_every_figure_exactly() -> None:
    rows = {row["slug"]: row for row in csv.DictReader(io.StringIO(trtprof("gpus", "--format", "csv").stdout))}
    assert list(rows) == ["center", "ada", "ampere"]
    for spec in (ADA, AMPERE, CENTER):
        row = rows[spec.slug]
        assert float(row["dram_bytes_per_s"]) == spec.dram_bytes_per_s.value
        assert float(row["tensor_fp16_fp32_per_s"]) == spec.tensor_flops_per_s["fp16"]["fp32"].value
        assert float(row["cuda_fp32_per_s"]) == spec.vector_flops_per_s["fp32"].value
    assert rows["ampere"]["tensor_fp8e4m3fn_fp32_per_s"] == ""
    assert "tdp_w" in rows["ampere"]["weak"].split(";")
    assert "tdp_w" not in rows["ada"]["weak"].split(";")
    columns = list(rows["ada"])
    assert columns[-3:] == ["weak", "derived", "note"]
    assert columns.index("tensor_mhz") < columns.index("cuda_fp32_per_s") < columns.index("tensor_fp8e5m2_fp32_per_s")


@pytest.mark.parametrize("names", [(), ("ampere",), ("ampere", "ada")])
def test_markdown_tables_are_whole(names: tuple[str, ...]) -> None:
    lines = trtprof("gpus", *names, "--format", "markdown").stdout.splitlines()
    tables = [table.splitlines() for table in "\n".join(lines).split("\n\n") if table.startswith("|")]
    assert tables
    for table in tables:
        assert len({line.count("|") for line in table}) == 1
        assert set(table[1]) <= {"|", " ", "-", ":"}
    assert any("39.2" in line for line in lines)


def test_the_gpus_here_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = msgspec.structs.replace(LIVE, index=1, name="NVIDIA nobody", compute_capability="99.0", slice=2)
    monkeypatch.setattr(nvml, "gpus", lambda: ((LIVE, odd), "GPU 2 cannot be read: GPU is lost"))
    done = trtprof("gpus", COLUMNS="120")
    assert done.exit_code == 0
    assert done.stderr == "gpus here: GPU 2 cannot be read: GPU is lost\n"
    lines = done.stdout.splitlines()
    assert lines[0] == "GPU 0  NVIDIA ada"
    assert lines[1] == "  datasheet: ada, the driver's name; SMs, clock, memory, bandwidth agree"
    assert lines[2] == "  SM 210 of 3105 MHz, power 21.5 of 450 W, clock held down by: power cap"
    assert lines[3] == "  driver 580.95.05 (CUDA 13.0), ECC off, 25.8 GB of memory"
    assert lines[4] == "GPU 1.2  NVIDIA nobody"
    assert "99.0" in lines[5] or "no datasheet" in lines[5]


def test_doctor_names_the_gpus_or_says_why_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def gpu_lines() -> list[str]:
        done = trtprof("doctor", COLUMNS="120")
        assert done.exit_code == 0
        return [line for line in done.stdout.splitlines() if line.startswith("gpu ")]

    assert gpu_lines() == [f"gpu          none: {WHY}"]
    monkeypatch.setattr(nvml, "gpus", lambda: ((LIVE,), "GPU 1 cannot be read: GPU is lost"))
    assert gpu_lines() == [
        "gpu 0        NVIDIA ada, compute capability 8.9, 128 SMs, driver 580.95.05, CUDA 13.0",
        "gpu          GPU 1 cannot be read: GPU is lost",
    ]


def test_what_others_measured_is_a_column_a_line_and_in_the_documents() -> None:
    lines = trtprof("gpus", COLUMNS="80").stdout.splitlines()
    at = lines[0].split().index("known")
    assert {line.split()[0]: line.split()[at] for line in lines[2:5]} == {
        "center": "mcasnp", "ada": "m-asnp", "ampere": "mcasnp",
    }  # fmt: skip
    assert "Matrix products, Convolutions, Attention" in " ".join(" ".join(lines).split())
    compared = trtprof("gpus", "l40s", "jetson-agx-orin-64gb", COLUMNS="120").stdout.splitlines()
    real = next(line for line in compared if line.startswith("known "))
    assert real.split() == ["known", "M-Asnp", "mcasnp"]
    sheet = " ".join(trtprof("gpus", "l40s", COLUMNS="80").stdout.split())
    assert re.search(r"matrix products: 16 bits \([\d,]+ rows\), fp32 \(on l4\), fp8 \([\d,]+ rows\)", sheet)
    document = json.loads(trtprof("gpus", "l40s", "--format", "json").stdout)
    measured = {(one["kind"], one["dtypes"]): one for one in document["gpus"][0]["measured"]}
    assert measured["product", "fp32"]["rows"] == 0
    assert measured["product", "fp32"]["others"] == ["l4"]
    assert measured["product", "16 bits"]["measured"] == ["bf16"]
    rows = list(csv.DictReader(io.StringIO(trtprof("gpus", "l40s", "--format", "csv").stdout)))
    assert "attention in fp8: " in rows[0]["measured"]


def test_an_architecture_that_nobody_measured_has_no_expectations(monkeypatch: pytest.MonkeyPatch) -> None:
    kepler = msgspec.structs.replace(ADA, architecture="Kepler", slug="kepler")
    monkeypatch.setattr(gpus, "specs", lambda: {"kepler": kepler})
    lines = trtprof("gpus", COLUMNS="80").stdout.splitlines()
    assert lines[2].split()[lines[0].split().index("known")] == "-"
