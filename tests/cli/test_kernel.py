"""`trtprof kernel`: the parse of names, as text and as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from trtprof.cli import app
from trtprof.cli import kernel as kernel_command

assert kernel_command.kernel is not None  # importing it registers the command
KEYS = ("name", "family", "op", "arch", "unit", "mma", "in", "acc", "out", "layout", "tile", "stages", "split_k")
SCALAR = "sm50_xmma_cublas_gemvx_f32f32_f32_f32_tn_n_int32_unit_n_launch_param4x32x32_strided_unit_stride"
TENSOR = "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize32x32x64_stage3_warpsize2x2x1_tensor16x8x8_aligna4_alignc4"


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["kernel", *arguments], input=stdin)


def records(*arguments: str, stdin: str | None = None) -> list[dict[str, Any]]:
    done = run(*arguments, "--format", "json", stdin=stdin)
    assert done.exit_code == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["kernels"]
    return found


def test_json_lists_every_name_with_the_keys_in_order() -> None:
    first, second = records(TENSOR, SCALAR)
    assert tuple(first)[: len(KEYS)] == KEYS
    assert first["name"] == TENSOR
    assert (first["arch"], first["unit"], first["mma"], first["tile"], first["stages"]) == (
        80, "tensor", "16x8x8", "32x32x64", 3,
    )  # fmt: skip
    assert (first["in"], first["math"], first["acc"], first["out"]) == ("fp32", "tf32", "fp32", "fp32")
    assert first["alignment"] == {"a": 4, "c": 4}
    assert (second["op"], second["arch"], second["unit"]) == ("gemv", 50, "simt")


def test_stdin_gives_one_name_a_line_beside_arguments() -> None:
    found = records("first_kernel", "-", stdin=f"{SCALAR}\n\n  {TENSOR}  \r\n")
    assert [each["name"] for each in found] == ["first_kernel", SCALAR, TENSOR]


def test_text_names_the_unit_and_its_evidence() -> None:
    done = run(SCALAR, TENSOR)
    assert done.exit_code == 0
    assert "gemv, family xmma, sm50 or later" in done.stdout
    assert "scalar pipes, no tensor cores (gemv)" in done.stdout
    assert "tensor cores (tensor16x8x8)" in done.stdout
    assert "in fp32, math tf32, acc fp32, out fp32" in done.stdout


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="pseudo terminals are POSIX")
def test_a_terminal_gets_no_control_characters_of_a_name_in_any_format_and_a_pipe_each_byte() -> None:
    import pty

    line = [sys.executable, "-m", "trtprof", "kernel", "--format", "csv", "sgemm\x1b[31m"]
    assert b"sgemm\x1b[31m" in subprocess.run(line, capture_output=True, check=True).stdout
    ours, its = pty.openpty()
    subprocess.run(line, stdout=its, stderr=subprocess.DEVNULL, check=True)
    os.close(its)
    shown = os.read(ours, 1 << 16)
    os.close(ours)
    assert b"sgemm\\x1b[31m" in shown
    assert b"\x1b" not in shown
