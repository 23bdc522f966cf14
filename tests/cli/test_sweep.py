"""``trtprof sweep`` as a person uses it: what is printed and written, and what is refused."""

from __future__ import annotations

import csv
import io
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fakes import command_line
from tests.fakes.in_process import fixed_calibration
from tests.fakes.support import refused
from trtprof.base.errors import UsageError
from trtprof.base.records import OpSweep
from trtprof.cli.gpu_targets import ceilings_for, names, parse_ceilings
from trtprof.flows.op_sweep import ALL_PARAMETERS, FAMILIES
from trtprof.report import formats_of

trtprof = partial(command_line.trtprof, COLUMNS="100")

SUFFIXES = [each.suffix for each in formats_of(OpSweep)]

EXAMPLE = ("sweep", "conv", "--kernel", "1,3,5,7", "--cin", "64", "--cout", "64", "--hw", "56", "--gpu", "rtx-3080")


def document(*arguments: str) -> Any:
    done = trtprof(*arguments, "--format", "json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_the_example() -> None:
    done = trtprof(*EXAMPLE)
    assert done.exit_code == 0, done.output
    assert "ridge 39.2 (fp32) FLOP/byte" in done.stdout
    assert re.search(r"^ +3 +116 M +231 M +1\.75 MB +132 +>= 2\.3[0-9] us +memory +compute", done.stdout, re.MULTILINE)
    assert "bound by memory at kernel 1 to 3, compute at kernel 5 to 7; it changes at 4" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_json_is_one_document_with_exact_numbers() -> None:
    done = trtprof(*EXAMPLE, "--format", "json")
    found = msgspec.json.decode(done.stdout, type=OpSweep)
    assert [point.work.macs for point in found.points] == [12_845_056, 115_605_504, 321_126_400, 629_407_744]
    assert [device.slug for device in found.devices] == ["rtx-3080"]
    assert found.cold


def test_csv_and_markdown() -> None:
    table = list(csv.DictReader(io.StringIO(trtprof(*EXAMPLE, "--format", "csv").stdout)))
    assert [row["macs"] for row in table] == ["12845056", "115605504", "321126400", "629407744"]
    assert trtprof(*EXAMPLE, "--format", "markdown").stdout.startswith("### conv over kernel (4)\n")


def test_files_are_written_by_their_suffix(tmp_path: Path) -> None:
    paths = [tmp_path / f"conv{suffix}" for suffix in SUFFIXES]
    done = trtprof(*EXAMPLE, *(word for path in paths for word in ("-o", str(path))))
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("conv over kernel")
    assert [line.partition("   ")[0] for line in done.stderr.splitlines()] == [f"wrote {path}" for path in paths]
    starts = {
        ".txt": b"conv over",
        ".json": b"{",
        ".csv": b"kernel,",
        ".md": b"### conv",
        ".html": b"<!doctype html>",
        ".parquet": b"PAR1",
        ".svg": b"<?xml",
        ".png": b"\x89PNG",
    }
    for path in paths:
        assert path.read_bytes().startswith(starts[path.suffix])


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    path = tmp_path / "conv.csv"
    path.write_text("mine")
    done = trtprof(*EXAMPLE, "-o", str(path))
    assert done.exit_code == 2
    assert "--force" in done.stderr
    assert done.stdout == ""
    assert path.read_text() == "mine"
    assert trtprof(*EXAMPLE, "-o", str(path), "--force").exit_code == 0
    assert path.read_text().startswith("kernel,")


def test_a_folder_that_is_not_there_is_missing(tmp_path: Path) -> None:
    done = trtprof(*EXAMPLE, "-o", str(tmp_path / "none" / "conv.csv"))
    assert done.exit_code == 3
    assert "cannot be written" in done.stderr


def test_the_first_parameter_of_the_command_line_is_the_axis() -> None:
    for order in (("kernel", "cin"), ("cin", "kernel")):
        words = [word for name in order for word in (f"--{name}", "1,2")]
        assert [dim["name"] for dim in document("sweep", "conv", *words)["dims"]] == list(order)


def test_values_may_be_repeated_and_refer_to_each_other() -> None:
    found = document("sweep", "conv", "--cin", "16", "--cin", "32..64:32", "--cout", "cin", "--groups", "cin")
    assert [point["at"]["cin"] for point in found["points"]] == [16, 32, 64]
    assert [point["work"]["tensor_flops"] for point in found["points"]] == [2 * c * 56 * 56 * 9 for c in (16, 32, 64)]


def test_in_and_op_are_parameters_like_others() -> None:
    assert document("sweep", "fc", "--in", "7", "--out", "5")["points"][0]["work"]["tensor_flops"] == 2 * 7 * 5
    assert document("sweep", "elementwise", "--op", "relu", "--elements", "10")["fixed"]["op"] == "Relu"


def test_every_parameter_of_every_family_is_an_option() -> None:
    shown = trtprof("sweep", "--help").stdout
    for name in ALL_PARAMETERS:
        assert re.search(rf"^ +--{name} VALUES", shown, re.MULTILINE)
    for family in FAMILIES:
        assert family in shown


def times(*arguments: str) -> list[int]:
    return [point["times"][0]["estimate"]["attainable_ns"] for point in document(*EXAMPLE, *arguments)["points"]]


def test_what_is_asked_of_a_gpu_changes_its_time() -> None:
    before = times()
    spec_clock = 1710
    halved = times("--clock", str(spec_clock / 2))
    assert halved[-1] == pytest.approx(2 * before[-1], rel=1e-3)
    assert halved[0] == before[0]
    assert times("--ceiling", "dram=380.15GB/s")[0] == pytest.approx(2 * before[0], rel=1e-3)
    assert times("--ceiling", "launch=1ms") == [1_000_000] * 4
    assert times("--ceiling", "fp32=1TFLOP/s")[-1] == 1_258_816
    half = ("--dtype", "fp16")
    assert times(*half) == times(*half, "--accumulate", "fp16")
    assert times(*half)[-1] < times(*half, "--accumulate", "fp32")[-1] < before[-1]


def test_warm_takes_what_fits_from_the_cache() -> None:
    assert times("--warm")[0] < times("--cold")[0] == times()[0]


def test_several_gpus() -> None:
    found = document(*EXAMPLE, "--gpu", "RTX 4090,rtx-3080")
    assert [device["slug"] for device in found["devices"]] == ["rtx-3080", "rtx-4090"]


def test_without_a_gpu_there_is_work_alone() -> None:
    done = trtprof("sweep", "fc", "--batch", "1,64")
    assert done.exit_code == 0
    assert "time" not in done.stdout
    assert "--gpu" in done.stderr


def test_the_ceilings_kept_of_this_cpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done = trtprof("sweep", "fc", "--device", "cpu", TRTPROF_CACHE_DIR=str(tmp_path))
    assert done.exit_code == 3
    assert "no ceilings are kept of this CPU" in done.stderr
    assert "trtprof calibrate" in done.stderr
    assert list(tmp_path.iterdir()) == []
    fixed_calibration(monkeypatch)
    found = document("sweep", "fc", "--device", "cpu")
    assert [(device["slug"], device["kind"]) for device in found["devices"]] == [("cpu", "cpu")]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("sweep", "convolution"), "there is no op 'convolution' to sweep"),
        (("sweep", "conv", "--heads", "8"), "conv has no parameter --heads"),
        (("sweep", "conv", "--kernel", "1..x"), "--kernel '1..x' cannot be read"),
        (("sweep", "conv", "--groups", "7"), "cin 64 is not divisible by groups 7"),
        (("sweep", "conv", "--format", "junit"), "sweep has no format 'junit'"),
        (("sweep", "conv", "-o", "conv.pdf"), "conv.pdf says no format"),
        (("sweep", "conv", "-o", "never.svg"), "a picture needs two points"),
        (("sweep", "conv", "--gpu", "rtx-9999"), "no GPU is called 'rtx-9999'"),
        (("sweep", "conv", "--device", "gpu"), "--device gpu is not known"),
        (("sweep", "conv", "--clock", "1000"), "--ceiling and --clock need a GPU"),
        ((*EXAMPLE, "--clock", "0"), "clock"),
        ((*EXAMPLE, "--accumulate", "bf16"), "--accumulate bf16 is not possible"),
        ((*EXAMPLE, "--ceiling", "dram"), "--ceiling 'dram' cannot be read"),
        ((*EXAMPLE, "--ceiling", "vram=1TB/s"), "vram"),
    ],
)
def test_what_is_refused_is_refused_in_one_message(
    arguments: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = trtprof(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert says in done.stderr
    assert [line.split(":")[0].strip() for line in done.stderr.splitlines()] == ["error", "why", "fix"]
    assert list(tmp_path.iterdir()) == []


# --- the options that predict has too -------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (None, {}),
        (["dram=0.92TB/s"], {"dram": 0.92e12}),
        (["dram=920e9,l2=5T"], {"dram": 920e9, "l2": 5e12}),
        (["fp32=78.65TFLOP/s", "fp16 = 165.2 TFLOP/s"], {"fp32": 78.65e12, "fp16": 165.2e12}),
        (["launch=2us"], {"launch": 2e-6}),
        (["launch=3e-6"], {"launch": 3e-6}),
        (["launch=.5ms"], {"launch": 0.5e-3}),
        (["launch=1s,dram=1kB/s"], {"launch": 1.0, "dram": 1e3}),
    ],
)
def test_ceilings_are_read(values: list[str] | None, found: dict[str, float]) -> None:
    assert parse_ceilings(values) == pytest.approx(found)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("dram", "cannot be read"),
        ("=1", "cannot be read"),
        ("dram=", "cannot be read"),
        ("dram=fast", "cannot be read"),
        ("dram=-1", "cannot be read"),
        ("dram=1e999", "no device is that fast"),
        ("dram=1TFLOP/s", "wrong unit"),
        ("dram=1us", "wrong unit"),
        ("fp32=1TB/s", "wrong unit"),
        ("launch=1TB/s", "wrong unit"),
        ("dram=1,dram=2", "names 'dram' twice"),
    ],
)
def test_what_is_no_ceiling_is_refused(value: str, says: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_ceilings([value])
    assert says in refused(error.value)


def test_gpus_are_named_once() -> None:
    assert names(["a, b", "b", ",c,"]) == ["a", "b", "c"]
    assert [t.spec.slug for t in ceilings_for(["rtx-4090,RTX 4090", "rtx-3080"])] == ["rtx-4090", "rtx-3080"]


def test_two_datasheets_of_one_name_are_refused(tmp_path: Path) -> None:
    from trtprof.hardware import gpus

    text = (Path(gpus.__file__).with_name("specs") / "rtx-3080.toml").read_text(encoding="utf-8")
    own = tmp_path / "rtx-3080.toml"
    own.write_text(text.replace("RTX 3080", "My 3080"), encoding="utf-8")
    with pytest.raises(UsageError) as error:
        ceilings_for(["rtx-3080", str(own)])
    assert "two datasheets" in refused(error.value)
