"""Nothing is sent to anybody: ONNX Runtime's telemetry is off in every process before its library is loaded."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from trtprof.runtime import child


@pytest.mark.process
def test_our_package_turns_it_off_whatever_the_user_has_set() -> None:
    names = ("ORT_DISABLE_TELEMETRY", "RAY_USAGE_STATS_ENABLED")
    environment = {**os.environ, names[0]: "0", names[1]: "1"}
    code = f"import os, sys, trtprof; print(*map(os.environ.get, {names}), {{'ray', 'onnxruntime'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "0", "set()"]


def test_every_child_begins_with_it_turned_off() -> None:
    assert child.environment()["ORT_DISABLE_TELEMETRY"] == "1"
