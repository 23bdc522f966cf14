"""Plans: cells by target, what of them is done, and about how long the rest takes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import fleets
from tests.fakes.support import SAMPLES
from trtprof.base.records import FleetCell, FleetRow
from trtprof.flows import fleet
from trtprof.flows.fleet import trial
from trtprof.flows.fleet.cells import Asked, AskedModel, AskedTarget
from trtprof.flows.fleet.progress import Pace, Took, counted, looked_at, pace_of
from trtprof.flows.fleet.store import State, Store

CELLS = list(fleets.cells())
ASKED = Asked(
    schema_version=1,
    name="made up",
    models=tuple(AskedModel(name=name) for name in dict.fromkeys(cell.model for cell in CELLS)),
    targets=tuple(
        AskedTarget(name=name, verb=verb, gpu=gpu, resource="gpu_h100" if name == "h100-pool" else "")
        for name, verb, gpu in fleets.TARGETS
    ),
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTPROF_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


# --- counts ---------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(["done", "failed", "claimed", "left"]), min_size=len(CELLS), max_size=len(CELLS)))
def test_every_cell_is_counted_once(words: list[str]) -> None:
    by: dict[str, set[str]] = {word: set() for word in ("done", "failed", "claimed", "left")}
    for cell, word in zip(CELLS, words, strict=True):
        by[word].add(cell.key)
    groups = {cell.group for cell in CELLS if cell.key in by["claimed"]}
    found = counted(ASKED, CELLS, State(frozenset(by["done"]), frozenset(by["failed"])), groups)
    assert [each.target for each in found.targets] == [name for name, _, _ in fleets.TARGETS]
    for target in found.targets:
        own = {cell.key for cell in CELLS if cell.target == target.target}
        assert (target.cells, target.done, target.failed) == (len(own), len(own & by["done"]), len(own & by["failed"]))
        under_way = {cell.key for cell in CELLS if cell.key in own - by["done"] - by["failed"] and cell.group in groups}
        assert target.claimed == len(under_way)
    assert found.cells == len(CELLS)
    assert found.models == 3
    left = [cell for cell in CELLS if cell.key not in by["done"] | by["failed"]]
    assert list(found.sample) == left[:5]


# --- how long -------------------------------------------------------------------------------


def test_the_pace_is_the_median_of_a_model_and_else_of_the_verb() -> None:
    pace = pace_of(
        [Took("predict", "a", 1), Took("predict", "a", 3), Took("predict", "a", 50), Took("predict", "b", 9)]
    )
    (cell, *_) = CELLS
    assert [pace.of(msgspec.structs.replace(cell, model=name)) for name in ("a", "b", "c")] == [3, 9, 6]
    assert pace.of(msgspec.structs.replace(cell, verb="run")) is None
    assert "4 of predict" in pace.basis
    assert pace_of([]) == Pace()


def test_without_anything_that_tells_there_is_no_number_but_what_runs_take_at_least() -> None:
    found = counted(ASKED, CELLS)
    assert found.left_s is None
    left = {each.target: each.left_s for each in found.targets}
    assert left["l4"] is None
    assert left["here"] == pytest.approx(6 * (0.2 + 3))
    assert found.basis == "of runs, warm-up and measurement alone"
    quick = [msgspec.structs.replace(cell, options={"duration": "0.5", "warmup": "0"}) for cell in CELLS]
    assert {each.target: each.left_s for each in counted(ASKED, quick).targets}["here"] == pytest.approx(3)


# --- by the store ---------------------------------------------------------------------------


def failed(cell: FleetCell, stage: str, error: str) -> FleetRow:
    return FleetRow(**msgspec.structs.asdict(cell), status="failed", stage=stage, error=error)


def test_what_the_store_holds_is_told_the_most_frequent_failures_first(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "fleet"), "me")
    store.keep(ASKED, CELLS)
    done = [fleets.row(cell, fails=0) for cell in CELLS[:10]]
    errors = ["rare"] * 2 + ["common"] * 5
    rows = [failed(cell, "source", error) for cell, error in zip(CELLS[10:17], errors, strict=True)]
    store.put([*done, *rows])
    store.claim([CELLS[17].group])
    found = looked_at(store, ASKED, CELLS, folder="fleet", failures=3)
    assert sum(each.done for each in found.targets) == 10
    assert sum(each.failed for each in found.targets) == 7
    assert sum(each.claimed for each in found.targets) >= 1
    assert [row.error for row in found.failures] == ["common", "rare", "common"]
    assert found.failures[0].stage == "source"
    counts = Counter(row.verb for row in done)
    assert f"{counts['predict']} of predict" in found.basis
    assert looked_at(
        store, ASKED, CELLS[10:], folder="fleet", pace=Pace({}, {"predict": 1.0}, "a guess")
    ).basis.startswith("a guess")


def test_a_plan_tells_what_is_done_of_a_manifest_and_writes_nothing(tmp_path: Path) -> None:
    manifest, place = tmp_path / "fleet.toml", tmp_path / "fleet"
    manifest.write_text(
        f'[[models]]\nfiles = ["{SAMPLES}/gemv.onnx", "{SAMPLES}/lstm.onnx"]\n[[targets]]\ngpu = ["l4", "t4"]\n'
    )
    before, expanded = fleet.plan(manifest, str(place))
    assert not place.exists()
    assert (before.cells, before.models, before.folder) == (4, 2, str(place))
    assert before.left_s
    assert before.basis.startswith("predictions of lstm, gemv now, by their nodes")
    store = Store(str(place), "me")
    store.keep(expanded.asked, expanded.cells)
    store.put([fleets.row(cell, fails=0) for cell in expanded.cells[:2]])
    listed = sorted(path for path in place.rglob("*"))
    after, _ = fleet.plan(manifest, str(place))
    assert sorted(path for path in place.rglob("*")) == listed
    assert [(each.target, each.done, each.left) for each in after.targets] == [("l4", 1, 1), ("t4", 1, 1)]
    assert after.basis.startswith("the median of cells that are done (2 of predict)")
    assert list(after.sample) == expanded.cells[2:]
    parts = [fleet.plan(manifest, str(place), (part, 3))[0] for part in (1, 2, 3)]
    assert sum(part.cells for part in parts) == 4


# --- tried ----------------------------------------------------------------------------------


def test_a_few_predictions_are_tried_the_first_a_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    nodes = {"model_0000": 90, "model_0001": 5000, "model_0002": 700}

    def seconds(group: list[FleetCell]) -> float:
        asked.append(group[0].model)
        return 1e-5 * nodes[group[0].model] * len(group)

    monkeypatch.setattr(trial, "_seconds", seconds)
    pace = trial.tried(CELLS, nodes)
    assert asked == ["model_0000", "model_0000", "model_0001", "model_0002"], "the first one loads what all need"
    assert {model: seconds for (_, model), seconds in pace.by_model.items()} == pytest.approx(
        {model: 1e-5 * size for model, size in nodes.items()}
    )
    # What would take longer than may be spent is not tried.
    asked.clear()
    monkeypatch.setattr(trial, "BUDGET_S", 0.05)
    assert trial.tried(CELLS, nodes).basis == "predictions of model_0000, model_0002 now, by their nodes"
