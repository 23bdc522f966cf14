"""``trtprof sweep`` as a person uses it: what is printed and written, and what is refused."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fakes import command_line
from tests.fakes.support import fixed_ceilings
from trtprof.base.records import OpSweep
from trtprof.flows.op_sweep import ALL_PARAMETERS, FAMILIES
from trtprof.hardware import store

trtprof = partial(command_line.trtprof, COLUMNS="100")


EXAMPLE = ("sweep", "conv", "--kernel", "1,3,5,7", "--cin", "64", "--cout", "64", "--hw", "56", "--gpu", "rtx-3080")


def document(*arguments: str, **environment: str) -> Any:
    done = trtprof(*arguments, "--format", "json", **environment)
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


def test_the_first_parameter_of_the_command_line_is_the_axis() -> None:
    for order in (("kernel", "cin"), ("cin", "kernel")):
        words = [word for name in order for word in (f"--{name}", "1,2")]
        assert [dim["name"] for dim in document("sweep", "conv", *words)["dims"]] == list(order)


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


def test_without_a_gpu_there_is_work_alone() -> None:
    done = trtprof("sweep", "fc", "--batch", "1,64")
    assert done.exit_code == 0
    assert "time" not in done.stdout
    assert "--gpu" in done.stderr


def test_the_ceilings_kept_of_this_cpu(tmp_path: Path) -> None:
    done = trtprof("sweep", "fc", "--device", "cpu", TRTPROF_CACHE_DIR=str(tmp_path))
    assert done.exit_code == 3
    assert "no ceilings are kept of this CPU" in done.stderr
    assert "trtprof calibrate" in done.stderr
    assert list(tmp_path.iterdir()) == []
    store.of_host(0, cache_dir=tmp_path).write(fixed_ceilings(), print)
    found = document("sweep", "fc", "--device", "cpu", TRTPROF_CACHE_DIR=str(tmp_path))
    assert [(device["slug"], device["kind"]) for device in found["devices"]] == [("cpu", "cpu")]


# --- the options that predict has too -------------------------------------------------------
