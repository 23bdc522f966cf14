"""`trtprof gpus` and the gpu lines of `trtprof doctor`, with datasheets and devices that are given."""

from __future__ import annotations

import csv
import io
import json
import re
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
