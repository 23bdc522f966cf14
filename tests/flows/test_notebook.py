"""What Python and notebooks hold: results that show themselves, tables, pictures, all runs of a folder."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest

import trtprof as tp
from tests.fakes import fleets
from tests.fakes.in_process import quick
from tests.fakes.support import ROOT, SAMPLES
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.records import SCHEMA_VERSION, FleetRow
from trtprof.engine.inspector import read_layer_info
from trtprof.flows.fleet.cells import Asked
from trtprof.flows.fleet.store import Store
from trtprof.flows.notebook import LoadedRun
from trtprof.report.tables import TABLES

FAST: dict[str, Any] = {
    "backend": "ort-cpu",
    "duration_s": 0.0,
    "iterations": 3,
    "warmup_ms": 0.0,
    "profile_iterations": 3,
}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[LoadedRun]]:
    folder = tmp_path_factory.mktemp("reports")
    with pytest.MonkeyPatch.context() as patch:
        quick(patch)
        yield [tp.run(SAMPLES / "resnet_tiny.onnx", output=folder / name, **FAST) for name in ("a", "b")]


def test_a_run_shows_itself(two: list[LoadedRun]) -> None:
    run = two[0]
    shown = run._repr_html_()
    assert run.run.model.name in shown
    assert "\x1b" not in shown
    assert repr(run) == f"LoadedRun({str(run.path)!r}: resnet_tiny, {len(run.run.layers)} layers)"


def test_tables_hold_plain_values_and_join_by_the_layer(two: list[LoadedRun]) -> None:
    run = two[0]
    assert set(run.tables) == set(TABLES)
    for name in run.tables:
        frame = run.table(name)
        assert not any(isinstance(cell, (dict, list)) for column in frame for cell in frame[column]), name
    joined = run.layers.merge(run.kernels, left_on="name", right_on="layer", suffixes=("", "_of_kernel"))
    assert len(joined) == run.kernels["layer"].notna().sum()
    assert int(run.ledger["ns"].sum()) == run.run.latency.median_ns
    with pytest.raises(UsageError, match="no table 'layer'"):
        run.table("layer")


@pytest.mark.parametrize("figure", ["roofline", "ledger", "timeline"])
def test_pictures_are_svg(two: list[LoadedRun], figure: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = getattr(two[0].plot, figure)()
    assert picture._repr_svg_().lstrip().startswith("<?xml")
    assert picture.save(tmp_path / "a.svg").read_text() == picture.svg


def test_all_runs_of_a_folder(two: list[LoadedRun], tmp_path: Path) -> None:
    reports = two[0].path.parent
    broken = reports / "broken"
    broken.mkdir()
    (broken / "report.json").write_text("{")
    try:
        found = tp.runs(reports)
        assert [run.path for run in found] == [run.path for run in two]
        assert list(found.left_out) == [broken]
        assert list(found.frame["path"]) == [str(run.path) for run in two]
        assert "<table" in found._repr_html_()
    finally:
        (broken / "report.json").unlink()
        broken.rmdir()
    with pytest.raises(MissingError, match="no folder"):
        tp.runs(tmp_path / "none")
    assert len(tp.runs(tmp_path).frame) == 0


def test_a_model_is_predicted_and_its_layers_are_a_table() -> None:
    found = tp.predict(SAMPLES / "resnet_tiny.onnx", "rtx-4090", level="groups", batch=2)
    assert set(found.layers["gpu"]) == {"rtx-4090"}
    assert "resnet_tiny" in str(found)
    assert set(tp.predict(SAMPLES / "gemv.onnx", "l4,t4").layers["gpu"]) == {"l4", "t4"}


@pytest.mark.process
def test_importing_the_package_loads_nothing() -> None:
    heavy = ("pandas", "numpy", "onnx", "msgspec", "trtprof.flows")
    code = f"import sys, trtprof; print(*(name in sys.modules for name in {heavy}), len(dir(trtprof)) > 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"] * len(heavy) + ["True"]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tp.nothing


def test_files_made_elsewhere_are_analysed(tmp_path: Path) -> None:
    log = ROOT / "tests" / "engine" / "data" / "rtx_resnet_tiny.log"
    predicted = tp.analyze(log, gpu="rtx-4090")
    assert len(predicted.layers)
    rows = [{"name": layer.name, "averageMs": 0.02, "medianMs": 0.02} for layer in read_layer_info(log).layers]
    profile = tmp_path / "profile.json"
    profile.write_text(json.dumps([{"count": 100}, *rows]))
    measured = tp.analyze(log, profile, SAMPLES / "resnet_tiny.onnx", gpu="rtx-4090", batch=2)
    assert set(measured.layers["measured_ns"]) == {20_000}
    assert "resnet_tiny" in measured._repr_html_()


def test_the_table_of_a_fleet_is_a_frame(tmp_path: Path) -> None:
    store, rows = Store(str(tmp_path)), fleets.rows()
    asked = Asked(schema_version=SCHEMA_VERSION, name="fleet", models=(), targets=())
    store.keep(asked, list(fleets.cells())[:12])
    store.put(rows)
    names = list(FleetRow.__struct_fields__)
    assert list(tp.fleet(tmp_path).columns) == [name for name in names if name not in ("ledger", "kernels")]
    assert list(tp.fleet(tmp_path, columns=["model", "key"]).columns) == ["model", "key"]
    assert list(tp.fleet(tmp_path, columns="kernels").columns) == ["kernels"]
    with pytest.raises(UsageError, match="no column latency"):
        tp.fleet(tmp_path, columns=["latency"])
    frame = tp.fleet(tmp_path, columns=names)
    assert list(frame.columns) == names
    assert set(frame["key"]) == {cell.key for cell in list(fleets.cells())[:12]}
    of = {row.key: row for row in rows}
    for key, latency, kernels, ledger in zip(
        frame["key"], frame["latency_ns"], frame["kernels"], frame["ledger"], strict=True
    ):
        assert (None if pd.isna(latency) else latency) == of[key].latency_ns
        assert kernels == list(msgspec.to_builtins(of[key].kernels))
        assert ledger == list(msgspec.to_builtins(of[key].ledger))
    assert set(tp.fleet(str(tmp_path), all=True)["key"]) == set(of)
    part = next((tmp_path / "parts").iterdir())
    part.write_bytes(b"")
    with pytest.warns(UserWarning, match="cannot be read"):
        assert part.stem not in set(tp.fleet(tmp_path, all=True)["key"])
    with pytest.raises(MissingError, match="is no folder of a fleet"):
        tp.fleet(tmp_path / "none")
