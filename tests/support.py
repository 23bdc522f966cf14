"""What all tests share: where the real models are, and ceilings that need no measurement."""

from __future__ import annotations

from pathlib import Path

import onnx

from profiler.records import Ceilings, Roof

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "sample_models"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
CAPTURES = ROOT.parent / "shared" / "captures"


def fixed_ceilings(scale: float = 1.0, cache_bytes: int = 32 << 20) -> Ceilings:
    """Plausible ceilings of a two-core machine, ``scale`` times as fast; nothing is measured."""
    roof = Roof(
        flops_per_s={"fp32": 5e11 * scale, "fp64": 2.5e11 * scale, "int8": 2e12 * scale},
        dram_bytes_per_s=5e10 * scale,
        cache_bytes_per_s=3e11 * scale,
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


def real_models() -> list[Path]:
    """Sample models, the nine of the onnx package, and the valid captures where they are at hand."""
    captured = sorted((CAPTURES / "onnx").glob("*.onnx"))
    return [
        *sorted(path for path in SAMPLES.glob("*.onnx") if ".generated." not in path.name),
        *sorted(LIGHT.glob("light_*.onnx")),
        *(path for path in captured if "bad_graph" not in path.name),
    ]
