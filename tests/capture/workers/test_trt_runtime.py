"""The names that run an engine, against the real bindings of each version."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.other_versions import TENSORRT, asked_of, other_version, stub_libraries
from trtprof.runtime.tensorrt_module import parse_version

ASK = """
import importlib, json, sys
from trtprof.capture.workers.trt_runtime import DTYPES, allocator_class, Library
from tests.fakes.tensorrt_names import RTX_NAMES, RUN_NAMES
trt = importlib.import_module(sys.argv[1])
def has(path):
    found = trt
    for part in path.split("."):
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True
allocator = allocator_class(trt)(lambda size: 1000 * size)
addresses = [allocator.reallocate_output("y", 0, size, 256) for size in (8, 16, 4)]
allocator.notify_shape("y", trt.Dims([2, 3]))
print(json.dumps({
    "lacks": [name for name in RUN_NAMES if not has(name)],
    "rtx_lacks": [name for name in RTX_NAMES if not has(name)],
    "types": sorted(trt.DataType.__members__),
    "known": sorted(DTYPES),
    "addresses": addresses,
    "shape": allocator.shape,
}))
"""


def holds(said: dict[str, Any]) -> None:
    """What every version has."""
    assert said["lacks"] == []
    assert set(said["types"]) <= set(said["known"]), "a tensor may be of any of them"
    assert said["addresses"] == [8000, 16000, 16000]
    assert said["shape"] == [2, 3]


@pytest.mark.nightly
@pytest.mark.parametrize("version", TENSORRT)
def test_every_version_has_the_names_that_run_an_engine(version: str, tmp_path: Path) -> None:
    path = other_version(TENSORRT[version])
    holds(asked_of(ASK, ["tensorrt_bindings"], path, stub_libraries(tmp_path, parse_version(version)[0])))


@pytest.mark.nightly
def test_tensorrt_rtx_has_them_too() -> None:
    if importlib.util.find_spec("tensorrt_rtx") is None:
        pytest.skip("the package tensorrt_rtx is not installed")
    said = asked_of(ASK, ["tensorrt_rtx"])
    holds(said)
    assert said["rtx_lacks"] == []
