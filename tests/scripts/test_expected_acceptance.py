"""What the acceptance of expected times reads and prints, on made networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts" / "expected"


@pytest.fixture(scope="module")
def acceptance() -> Any:
    pytest.importorskip("lightgbm", reason="lightgbm learns the ensembles")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPTS)
        import acceptance
    return acceptance


OPS = {
    "a": "[['Linear', (8, 512, 1024, 4096)]]",
    "b": "[['Linear', (8, 512, 1024, 4096)]]",
    "c": "[['BMM', (16, 512, 64, 512)]]",
    "d": "[['VECsoftmax', (16, 512, 512)]]",
    "e": "[['MEM', ((1,), (1,))]]",
    "f": "[]",
}


def written(folder: Path) -> Path:
    """A network of two like products, a batched one, a softmax, a copy and nothing, measured and predicted on an L4."""
    times = {"NVIDIA_L4": "label/NVIDIA_L4", "neusight": "results/prediction/NVIDIA_L4/neusight"}
    for by, (name, place) in enumerate(times.items()):
        path = folder / place
        path.mkdir(parents=True)
        table = pd.DataFrame({"Name": list(OPS), "fw_latency": [0.1 + by, 0.3 + by, 0.2, 0.4, 0.1, 0.1]})
        if name == "neusight":
            table["FwOps"] = list(OPS.values())
        table.to_csv(path / "net-inf-512-8.csv", index=False)
    return folder


def test_like_ops_of_a_network_are_one_row_with_their_mean(acceptance: Any, tmp_path: Path) -> None:
    found = acceptance.network_rows(written(tmp_path)).set_index("key")
    assert set(found.index) == {
        ("linear", 4096, 1, 1024, 4096), ("bmm", 16, 512, 64, 512), ("softmax", 8192, 512),
    }  # fmt: skip
    twice = found.loc[[("linear", 4096, 1, 1024, 4096)]].iloc[0]
    assert (twice["count"], round(twice["ns"]), round(twice["neusight"])) == (2, 200_000, 1_200_000)
    assert pd.isna(twice["roofline"])
    assert set(found["gpu"]) == {"l4"}


def test_errors_and_what_lies_in_the_band_are_printed(acceptance: Any, capsys: Any) -> None:
    rows = pd.DataFrame({"op": ["bmm", "bmm"], "ns": [100.0, 200.0], "bound": [50.0, 100.0], "p10": [80.0, 210.0],
                         "p50": [110.0, 220.0], "p90": [120.0, 260.0], "other": [100.0, float("nan")]})  # fmt: skip
    acceptance.shown(rows, ["op"], ("other",))
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["rows", "bound", "ours", "median", "other", "in", "band"]
    assert line.split() == ["bmm", "2.0", "50.0", "10.0", "10.0", "0.0", "50.0"]


def test_what_no_size_tells_is_told_of_each_gpu(acceptance: Any, capsys: Any) -> None:
    random = np.random.default_rng(0)
    side = 2048
    scattered = np.arange(400) % 2 == 0
    rows = pd.DataFrame({
        "split": "test", "kind": "product", "dtype": "fp32", "gpu": np.where(scattered, "l4", "h100-sxm5"), "batch": 1,
        "m": side, "n": side, "k": side, "window": 1, "stride": 1, "shared": 1, "causal": False, "tensor": 2 * side**3,
        "saved": 0, "vector": 0, "special": 0, "read": 8 * side**2, "written": 4 * side**2,
        "ns": 1e5 * np.where(scattered, random.choice([1.0, 1.5], 400), 1.0),
    })  # fmt: skip
    acceptance.from_itself(rows)
    exact, loose = (float(line.split("err by ")[1].split(" %")[0]) for line in capsys.readouterr().out.splitlines())
    assert exact < 1
    assert loose > 15
