"""What a side may be, what is said of weak ones, and what is refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pandas as pd
import pytest

from tests.fakes.compare_factory import L, chain, make_run, save
from tests.fakes.run_factory import with_latency
from tests.fakes.support import refused
from trtprof.base.errors import MissingError, UsageError
from trtprof.base.records import Backend, Comparison, Finding, Latency, Run
from trtprof.base.run_folder import LATENCY, REPORT, RunFolder
from trtprof.compare import compare

NODES = chain("Conv", "Relu")
RUN = make_run(NODES, (L("a", ("n0", "n1"), 50_000),))


def at_latency(ns: int, run: Run = RUN) -> Run:
    return with_latency(run, Latency(median_ns=ns, p99_ns=ns, cv=0.0, n=401))


def one_of(before: RunFolder, after: RunFolder) -> Comparison:
    return compare([[before], [after]]).comparisons[0]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    there = save(tmp_path / "a", RUN)
    with pytest.raises(MissingError, match="nothere is not there") as caught:
        compare([[there], [RunFolder(tmp_path / "nothere")]])
    assert "no folder" in refused(caught.value)


def test_an_unfinished_run(tmp_path: Path) -> None:
    there, unfinished = save(tmp_path / "a", RUN), save(tmp_path / "b", RUN)
    unfinished.file(REPORT).unlink()
    with pytest.raises(MissingError, match=r"has no report\.json") as caught:
        compare([[there], [unfinished]])
    refused(caught.value)


def test_one_side_is_no_comparison(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="1 side to compare") as caught:
        compare([[save(tmp_path / "a", RUN)]])
    refused(caught.value)
    with pytest.raises(UsageError, match="a side has no run") as caught:
        compare([[], [save(tmp_path / "a", RUN)]])
    refused(caught.value)


def test_runs_of_one_side_must_be_of_the_same_thing(tmp_path: Path) -> None:
    other = msgspec.structs.replace(RUN, model=msgspec.structs.replace(RUN.model, sha256="b" * 64))
    folders = [save(tmp_path / "a", RUN), save(tmp_path / "b", other)]
    with pytest.raises(UsageError, match="not runs of the same thing") as caught:
        compare([folders, [folders[0]]])
    assert "model file" in refused(caught.value)


def test_the_same_folder_twice_on_one_side_is_refused(tmp_path: Path) -> None:
    folder = save(tmp_path / "a", RUN)
    with pytest.raises(UsageError, match="named twice on one side") as caught:
        compare([[folder, RunFolder(tmp_path / "." / "a")], [folder]])
    refused(caught.value)


def test_several_runs_a_side_are_taken_together(tmp_path: Path) -> None:
    before = [save(tmp_path / f"a{at}", at_latency(50_000 + at)) for at in range(3)]
    after = [save(tmp_path / f"b{at}", at_latency(60_000 + at)) for at in range(3)]
    one = compare([before, after]).comparisons[0]
    assert one.before.medians_ns == (50_000, 50_001, 50_002)
    assert one.before.latency.n == 3 * 401
    assert one.latency.samples_after == 3 * 401
    assert one.latency.answer == "slower"
    assert "3 and 3 runs" in one.latency.method
    assert not any("process to process" in note for note in one.notes)
    single = one_of(before[0], after[0])
    assert any("measure each side three times" in note for note in single.notes)
    old, new = single.latency.difference_ns, one.latency.difference_ns
    assert new.high - new.low < old.high - old.low


def test_without_samples_nothing_is_told_of_significance(tmp_path: Path) -> None:
    before, after = save(tmp_path / "a", RUN), save(tmp_path / "b", at_latency(90_000))
    (after.path / "latency.parquet").unlink()
    (after.path / "kernels.parquet").unlink()
    (after.path / "capture.json").unlink()
    (after.path / "ceilings.json").unlink()
    one = one_of(before, after)
    assert one.latency.answer == "not significant"
    assert one.latency.samples_after == 0
    assert one.latency.difference_ns.level == 0
    assert one.latency.difference_ns.value == 40_000
    assert "cannot be told" in one.latency.reason
    assert "cannot be told" in one.verdict
    assert any("no raw samples" in note for note in one.notes)
    assert {region.answer for region in one.regions} == {None}


SAMPLES = {
    "not a number": [float("nan"), *[1e6] * 99], "without an end": [float("inf"), *[1e6] * 99],
    "negative": [-1e6, *[1e6] * 99], "none taken": [0] * 100, "longer than centuries": [1e300] * 100,
    "text": ["1 ms"] * 100, "text of numbers": ["1000000"] * 100, "lists": [[1e6]] * 100, "missing": [None] * 100,
    "truths": [True] * 100,
}  # fmt: skip


def test_samples_that_are_no_times_tell_nothing_of_significance(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for what, samples in SAMPLES.items():
        with subtests.test(what=what):
            before, after = save(tmp_path / "a", RUN), save(tmp_path / "b", at_latency(60_000))
            pd.DataFrame({"latency_ns": samples}).to_parquet(after.file(LATENCY))
            found = one_of(before, after)
            assert found.latency.answer == "not significant"
            assert any("b has raw samples that are no times" in note for note in found.notes)


def test_facts_that_changed(tmp_path: Path) -> None:
    changed = msgspec.structs.replace(
        RUN, versions={"trtprof": "0", "onnxruntime": "1.31"},
        model=msgspec.structs.replace(
            RUN.model, inputs=(msgspec.structs.replace(RUN.model.inputs[0], values="file x.npy"),)
        ),
    )  # fmt: skip
    one = one_of(save(tmp_path / "a", RUN), save(tmp_path / "b", changed))
    facts = {fact.what: (fact.before, fact.after) for fact in one.facts}
    assert facts == {"values of x": ("uniform", "file x.npy"), "version of onnxruntime": ("none", "1.31")}


def test_one_option_alone_is_told_as_the_cause(tmp_path: Path) -> None:
    def with_options(**options: str) -> Run:
        return at_latency(30_000, msgspec.structs.replace(RUN, backend=Backend(name="b", reason="", options=options)))

    base = save(tmp_path / "a", at_latency(60_000, msgspec.structs.replace(RUN, backend=Backend(name="b", reason=""))))
    one = one_of(base, save(tmp_path / "b", with_options(spin="0")))
    assert one.verdict.endswith("; the only thing that changed is spin=0")
    assert "the only thing" not in one_of(base, save(tmp_path / "c", with_options(spin="0", arena="0"))).verdict


def test_findings_are_told_apart_by_code_and_region(tmp_path: Path) -> None:
    def finding(code: str, layer: str) -> Finding:
        return Finding(
            code=code, title="", severity="info", where="", evidence="", lost_ns=1, confidence=1.0, try_="",
            layers=(layer,),
        )  # fmt: skip

    layers = (L("a", ("n0",), 50_000), L("b", ("n1",), 50_000))
    moved = tuple(layer._replace(name=f"x{layer.name}") for layer in layers)
    before = make_run(NODES, layers, findings=(finding("RL101", "a"), finding("KN701", "b")))
    after = make_run(NODES, moved, findings=(finding("RL101", "xa"), finding("KN701", "xa")))
    one = one_of(save(tmp_path / "a", before), save(tmp_path / "b", after))
    assert [(f.code, f.layers) for f in one.findings_gone] == [("KN701", ("b",))]
    assert [(f.code, f.layers) for f in one.findings_new] == [("KN701", ("xa",))]
