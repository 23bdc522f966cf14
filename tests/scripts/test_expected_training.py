"""The ensembles as ONNX: what they say is what was learned, and the same rows give the same bytes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pandas as pd
import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts" / "expected"


@pytest.fixture(scope="module")
def modules() -> Any:
    pytest.importorskip("lightgbm", reason="lightgbm learns the ensembles")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPTS)
        import sources
        import train
        import write
    return sources, train, write


def rows(count: int = 300) -> pd.DataFrame:
    """Products on two GPUs that take 1.5 times the roofline of their bytes."""
    random = np.random.default_rng(0)
    m, n, k = (2 ** random.integers(5, 12, count) for _ in range(3))
    return pd.DataFrame({
        "source": "made", "split": "", "kind": "product", "dtype": "bf16",
        "gpu": np.where(np.arange(count) % 2, "h100-sxm5", "l40s"), "shape": "made", "batch": 1, "m": m, "n": n, "k": k,
        "window": 1, "stride": 1, "shared": 1, "causal": False, "tensor": 2 * m * n * k, "saved": 0, "vector": 0,
        "special": 0, "read": 2 * (m * k + k * n), "written": 2 * m * n,
        "ns": 4000 + 2 * (m * k + k * n + m * n) / 1e12 * 1e9 * random.uniform(1, 2, count),
    })  # fmt: skip


def test_onnx_runtime_says_what_was_learned(modules: Any) -> None:
    _, train, write = modules
    x, base = train.inputs("product", rows())
    learned = train.fit(x, np.log(rows()["ns"].to_numpy() / base), share=0.05)
    model = write.as_onnx("product", [learned.boosters[one] for one in train.QUANTILES], len(x.columns))
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    said = session.run(None, {"features": x.to_numpy()})[0]
    meant = np.stack([learned.boosters[one].predict(x) for one in train.QUANTILES], axis=1)
    np.testing.assert_allclose(said, meant, atol=1e-5)


def test_the_same_rows_give_the_same_bytes(modules: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, train, write = modules
    monkeypatch.setattr(train, "TREES", dict.fromkeys(train.QUANTILES, 8))
    for name in ("one", "two"):
        write.write(rows(), Counter({"made up": 1}), tmp_path / name)
    files = sorted(file.name for file in (tmp_path / "one").iterdir())
    assert files == ["model.json", "product.onnx", "rows.parquet"]
    assert all((tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in files)


def test_what_the_measurement_adds_is_the_time_at_no_bytes(modules: Any) -> None:
    sources, _, _ = modules
    moved = np.linspace(1e5, 4e6, 200)
    assert sources.time_at_nothing(moved, 20_000 + moved * 0.01) == pytest.approx(20_000, rel=0.01)


def test_rows_that_are_faster_than_dram_are_left_out(modules: Any, tmp_path: Path) -> None:
    sources, _, _ = modules
    # 35 MB, which an L40S reads in 40 us, and has room for in its L2.
    for framework, shapes in (
        ("one", [(64, 4096, 4096, 0.025), (32, 4096, 4096, 0.025)]),
        ("other", [(64, 4096, 4096, 0.05)]),
    ):
        file = tmp_path / f"l40s/gemm/{framework}/1.0.0/gemm_perf.parquet"
        file.parent.mkdir(parents=True)
        found = pd.DataFrame(shapes, columns=["m", "n", "k", "latency"])
        found.assign(device="NVIDIA L40S", gemm_dtype="bfloat16").to_parquet(file)
    left_out: Counter[str] = Counter()
    kept = sources.products(tmp_path, left_out)
    assert kept[["m", "ns"]].to_numpy().tolist() == [[64, 50_000]]
    assert left_out["aiconfigurator: operands were in the cache"] == 2
