"""Facts that are not the same on both sides: plugins that were measured beside the runs."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.compare_factory import L, chain, make_run, save
from trtprof.base import run_folder
from trtprof.base.records import SCHEMA_VERSION, BenchSide, FactChange, Interval, PluginBench, PluginBenches
from trtprof.base.run_folder import RunFolder
from trtprof.compare import compare

RUN = make_run(chain("Conv", "Relu"), (L("a", ("n0", "n1"), 50_000),))
BENCH = PluginBench(
    schema_version=SCHEMA_VERSION, name="BatchedGemv", gpu="a GPU", created="", verdict="faster", why="",
    kernel=(BenchSide(what="", median_ns=300_000, n=156), BenchSide(what="", median_ns=150_000, n=156)),
    engine_gain=Interval(value=1.42, low=1.38, high=1.46),
)  # fmt: skip
SLOWER = PluginBench(
    schema_version=SCHEMA_VERSION, name="BatchedGemv", gpu="a GPU", created="", verdict="slower", why=""
)


def run(path: Path, *benches: PluginBench) -> RunFolder:
    folder = save(path, RUN)
    if benches:
        folder.write(run_folder.BENCH, PluginBenches(schema_version=SCHEMA_VERSION, benches=benches))
    return folder


def plugins(before: RunFolder, after: RunFolder) -> list[FactChange]:
    (found,) = compare([[before], [after]]).comparisons
    return [fact for fact in found.facts if fact.what.startswith("plugin")]


def test_a_plugin_that_was_measured_beside_one_run_is_told(tmp_path: Path) -> None:
    (fact,) = plugins(run(tmp_path / "a"), run(tmp_path / "b", BENCH))
    assert (fact.what, fact.before) == ("plugin BatchedGemv", "none")
    assert fact.after == (
        "faster on a GPU, the engine 1.42 times as fast with it (1.38 to 1.46), "
        "the kernel 300 us -> 150 us"
    )  # fmt: skip


def test_of_a_plugin_that_was_measured_beside_both_it_is_told_what_changed(tmp_path: Path) -> None:
    (fact,) = plugins(run(tmp_path / "a", SLOWER), run(tmp_path / "b", BENCH))
    assert fact.before == "slower on a GPU"
    assert fact.after.startswith("faster on a GPU")
    assert plugins(run(tmp_path / "c", BENCH), run(tmp_path / "d", BENCH)) == []
