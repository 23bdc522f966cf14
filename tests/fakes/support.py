"""What all tests share: where the real models are, and ceilings that need no measurement."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import tempfile
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import onnx
import pytest

from trtprof.base.errors import TrtprofError
from trtprof.base.records import Backend, Ceilings, Engine, PlanLayer, Roof
from trtprof.engine._plan_layers import make_plan
from trtprof.engine._plan_text import parse_layer_line
from trtprof.engine.onnxruntime import ENGINE_GRAPH, session_engine
from trtprof.runtime.ort_session import SessionRequest, timed_session

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "sample_models"
QUICK = {"duration_s": 0.0, "iterations": 3, "warmup_ms": 0.0, "profile_iterations": 3}
"""Options of a run of which only its existence matters."""
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
CAPTURES = ROOT.parent / "shared" / "captures"
NO_CAPTURES = "needs files that others made, of a folder shared/captures beside this checkout"
needs_captures = pytest.mark.skipif(not CAPTURES.is_dir(), reason=NO_CAPTURES)
H100 = CAPTURES / "nsys" / "torch_h100_2gpu_2026.2.sqlite"


def captured(*parts: str) -> Path:
    """A file that others made; the test skips where it is absent."""
    path = CAPTURES.joinpath(*parts)
    if not path.exists():
        pytest.skip(NO_CAPTURES)
    return path


def load_script(path: Path, name: str) -> ModuleType:
    """A file of a folder that is no package on the path, as the module ``name``."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def hide_modules(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """Make packages look as if they were not installed."""
    real = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name in modules else real(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)


def refused(error: TrtprofError) -> str:
    """The message of an error that says what, why and how."""
    assert error.what
    assert error.why
    assert error.fix
    return str(error)


@contextlib.contextmanager
def what_this_cpu_can() -> Iterator[None]:
    """Skip, with its words, what ONNX Runtime itself says that it has for other CPUs alone."""
    try:
        yield
    except Exception as error:  # ONNX Runtime's errors have no base class of their own
        if "not yet supported on this hardware platform" not in str(error):
            raise
        pytest.skip(f"ONNX Runtime: {error}")


@contextlib.contextmanager
def one_at_a_time(what: str) -> Iterator[None]:
    """Tests of all workers, and of all checkouts of this user, that use ``what`` wait for each other."""
    import fcntl

    with (Path(tempfile.gettempdir()) / f"trtprof-tests-{os.getuid()}-{what}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def one_unit(peaks: Mapping[str, float], *, dram: float, cache: float) -> Roof:
    """The roof of a device that does all arithmetic on one unit: ``peaks`` in FLOP/s, bandwidths in B/s."""
    return Roof(
        tensor_flops_per_s=dict(peaks),
        vector_flops_per_s=dict(peaks),
        dram_bytes_per_s=dram,
        cache_bytes_per_s=cache,
    )


def fixed_ceilings(scale: float = 1.0, cache_bytes: int = 32 << 20) -> Ceilings:
    """Plausible ceilings of a two-core machine, ``scale`` times as fast; nothing is measured."""
    roof = one_unit(
        {"fp32": 5e11 * scale, "fp64": 2.5e11 * scale, "int8": 2e12 * scale}, dram=5e10 * scale, cache=3e11 * scale
    )
    return Ceilings(
        device="a test's fixed ceilings",
        source="not measured: fixed by a test",
        measured_at="2026-01-01T00:00:00+00:00",
        best=roof,
        attainable=roof,
        cache_bytes=cache_bytes,
        threads=2,
        launch_ns=150.0,
        call_ns=1500.0,
        profiler_ns=2600.0,
        profiler_tensor_ns=80.0,
        profiler_gap_ns=1500.0,
    )


def save_with_hole(model: onnx.ModelProto, path: Path, weights: Iterable[onnx.TensorProto], size: int) -> None:
    """Write a model with embedded weights of ``size`` bytes each that are a hole in the file, so take no space.

    The weights follow as further parts of the graph, which a reader of protobuf merges.
    """

    def header(tag: int, length: int) -> bytes:
        return bytes([tag, *((length >> 7 * index & 0x7F) | (0x80 if index < 4 else 0) for index in range(5))])

    with path.open("wb") as file:
        file.write(model.SerializeToString())
        for weight in weights:
            raw = weight.SerializeToString() + header(onnx.TensorProto.RAW_DATA_FIELD_NUMBER << 3 | 2, size)
            stored = header(onnx.GraphProto.INITIALIZER_FIELD_NUMBER << 3 | 2, len(raw) + size) + raw
            file.write(header(onnx.ModelProto.GRAPH_FIELD_NUMBER << 3 | 2, len(stored) + size) + stored)
            file.seek(size, os.SEEK_CUR)
        file.truncate(file.tell())


def real_models() -> list[Path]:
    """Sample models, the nine of the onnx package, and the valid captures where they are at hand."""
    others = sorted((CAPTURES / "onnx").glob("*.onnx"))
    return [
        *sorted(path for path in SAMPLES.glob("*.onnx") if ".generated." not in path.name),
        *sorted(LIGHT.glob("light_*.onnx")),
        *(path for path in others if "bad_graph" not in path.name),
    ]


def columns(line: str) -> int:
    """How many columns of a terminal a line takes."""
    return sum(
        0 if unicodedata.category(c) in ("Mn", "Me") else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in line
    )


def golden(path: Path, made: str) -> None:
    """Hold a text against the file that keeps it; TRTPROF_UPDATE_GOLDEN=1 writes the file anew."""
    if os.environ.get("TRTPROF_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(made, encoding="utf-8")
    assert made == path.read_text(encoding="utf-8")


def layer_of_line(line: str) -> PlanLayer:
    """The layer of a line ``Name: X, LayerType: Y, Inputs: [...], ...``, as in the plan that a build prints."""
    raw = parse_layer_line(line)
    assert raw is not None
    return make_plan([raw], (), found_in="", era="", notes=()).layers[0]


def known(value: T | None) -> T:
    """What a result may leave open, where it must not."""
    assert value is not None
    return value


def ort_engine(request: SessionRequest, folder: Path, backend: str = "ort-cpu") -> Engine:
    """The engine of ONNX Runtime, as a worker that runs it saves it."""
    _, facts = timed_session(request, save_to=str(folder / ENGINE_GRAPH))
    return session_engine(Backend(name=backend, reason="asked for"), request, facts, folder / ENGINE_GRAPH)
