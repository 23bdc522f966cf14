"""Every flag of trtexec in `run` and `build`: acted on, always so, or answered with what does the same."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest
import typer.main

from tests.fakes.command_line import refused, trtprof
from tests.fakes.support import SAMPLES
from trtprof.cli import app, load_commands, manual
from trtprof.cli.trtexec import FLAGS, FLAGS_BY_NAME, Verb, answer, without
from trtprof.engine.profile_files import read_profile, read_times

RESNET = str(SAMPLES / "resnet_tiny.onnx")
QUICK = ("--duration", "0", "--iterations", "20", "--warmUp", "0", "--profile-iterations", "3")
VERBS: tuple[Verb, ...] = get_args(Verb)


def options_of(verb: Verb) -> set[str]:
    """The options of the real command."""
    load_commands()
    commands: Any = typer.main.get_command(app)
    params = commands.commands[verb].params
    return {name for param in params for name in (*param.opts, *param.secondary_opts)} | {"--help", "-h"}


def test_the_whole_table() -> None:
    """Every flag is an option of ours, or answered, or one that asks for what the verb does anyway."""
    wrong = []
    for verb in VERBS:
        taken = options_of(verb)
        for flag in FLAGS:
            how = flag.of(verb)
            for name in flag.names:
                told = answer(verb, name)
                left = without(verb, name, ["m.onnx", name, *([how.only or "value"] * bool(flag.takes))])
                right = {
                    "acted on": name in taken and told is None,
                    "answered": name not in taken and told is not None and (told.why, told.fix) == (how.why, how.fix),
                    "always so": name not in taken and left == ["m.onnx"],
                }
                if not right[how.kind]:
                    wrong.append(f"{verb} {name}: {how.kind}")
    assert wrong == []


def test_flags_that_are_not_taken_are_answered_or_passed_over() -> None:
    for verb, name in (("run", "--dumpOutput"), ("build", "--atol")):
        assert f"{name} is not taken by trtprof {verb}" in refused(trtprof(verb, "no-such.onnx", name))
    done = trtprof("build", "no-such.onnx", "--skipInference")
    assert "--skipInference: always so: `trtprof build` runs nothing" in " ".join(done.stderr.split())
    assert "no-such.onnx" in done.stderr.partition("error: ")[2], "the command went on without the flag"


def test_each_flag_is_there_once_with_its_versions_and_a_sentence() -> None:
    assert len(FLAGS_BY_NAME) == sum(len(flag.names) for flag in FLAGS)
    for flag in FLAGS:
        since, until = (tuple(map(int, text.split("."))) for text in (flag.since, flag.until))
        assert (6, 0) <= since <= until <= (11, 1), flag
        for verb in VERBS:
            how = flag.of(verb)
            assert how.why or how.kind == "acted on", flag
            assert how.fix or how.kind != "answered", flag
            assert not how.only or (flag.takes and how.fix), flag
    counts = {verb: Counter(flag.of(verb).kind for flag in FLAGS) for verb in VERBS}
    page = manual.page("trtexec")
    for verb, kinds in counts.items():
        said = f"`{verb}` acts on {kinds['acted on']}, does {kinds['always so']} anyway and answers {kinds['answered']}"
        assert said in " ".join(page.split())


# --- what acts, acts -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run with all that trtexec tells: its folder, beside which the files lie, and what it printed."""
    from tests.fakes.in_process import quick

    place = tmp_path_factory.mktemp("told")
    with pytest.MonkeyPatch.context() as patch:
        quick(patch)
        done = trtprof(
            "run", RESNET, *QUICK, "-o", place / "run", "--percentile=50,90", "--avgRuns=5", "--dumpProfile",
            "--dumpLayerInfo", f"--exportTimes={place / 'times.json'}", f"--exportProfile={place / 'profile.json'}",
            f"--exportLayerInfo={place / 'layers.json'}", "--separateProfileRun", "--profilingVerbosity=detailed",
        )  # fmt: skip
    assert done.exit_code == 0, done.output
    return place, done.stdout


def test_times_are_the_samples_of_the_run(told: tuple[Path, str]) -> None:
    place, _ = told
    samples = [int(ns) for ns in pd.read_parquet(place / "run" / "latency.parquet")["latency_ns"]]
    assert len(samples) >= 20
    assert list(read_times(place / "times.json").latency_ns) == samples
    first, second = json.loads((place / "times.json").read_text())[:2]
    assert set(first) == {
        "startEnqMs", "endEnqMs", "startH2dMs", "endH2dMs", "startComputeMs", "endComputeMs", "startD2hMs", "endD2hMs",
        "h2dMs", "computeMs", "d2hMs", "latencyMs",
    }  # fmt: skip
    assert second["startComputeMs"] == pytest.approx(first["endComputeMs"])


def test_percentiles_and_means_are_of_the_samples(told: tuple[Path, str]) -> None:
    place, printed = told
    samples = pd.read_parquet(place / "run" / "latency.parquet")["latency_ns"].to_numpy()
    for percent in (50, 90):
        at_ms = round(float(np.percentile(samples, percent))) / 1e6
        assert f"latency: percentile({percent}%) = {at_ms:.6g} ms of {len(samples)} inferences" in printed
    assert f"inferences 6 to 10 = {samples[5:10].sum() / 5e6:.6g} ms" in printed
    assert printed.count("latency: mean of") == len(samples) // 5


def test_the_profile_is_that_of_the_report_printed_and_exported(told: tuple[Path, str], tmp_path: Path) -> None:
    place, printed = told
    run = json.loads((place / "run" / "report.json").read_text())
    exported = read_profile(place / "profile.json")
    assert exported.iterations == run["profiled"]["n"]
    by_name = {layer["name"]: layer for layer in run["layers"]}
    assert [layer.name for layer in exported.layers] != list(by_name), "in the order of execution, not of what is lost"
    for layer in exported.layers:
        assert layer.median_ns == by_name[layer.name]["measured_ns"]
        assert layer.total_ns == sum(match["total_ns"] for match in by_name[layer.name]["kernels"])
    log = tmp_path / "log.txt"
    log.write_text(printed)
    assert [layer.name for layer in read_profile(log).layers] == [layer.name for layer in exported.layers]


REFUSED = (
    (("--percentile=101",), "a number from 0 to 100"),
    (("--dumpProfile", "--format", "json"), "stdout holds one document"),
    (("--percentile=90", "-q"), "stdout holds one document"),
    (("--useCudaGraph", "--backend", "ort-cpu"), "--cuda-graph is of no use with the backend ort-cpu"),
    (("--saveEngine=x.engine", "--backend", "ort-cpu"), "--saveEngine is of no use with the backend ort-cpu"),
    (("--optShapes=image:2x3x64x64", "--backend", "ort-cpu"), "--optShapes is of no use with the backend ort-cpu"),
    (("--memPoolSize=workspace:64", "--backend", "ort-cpu"), "--memPoolSize is of no use"),
    (("--int8", "--backend", "ort-cpu"), "--int8 is of no use with the backend ort-cpu"),
    (("--dtype=fp4",), "known: model, fp32, tf32"),
    (("--dtype=tf32", "--fp16"), "--dtype tf32 and --fp16"),
)


def test_what_cannot_be_done_is_said_before_anything_runs(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for options, words in REFUSED:
        with subtests.test(" ".join(options)):
            assert words in refused(trtprof("run", RESNET, *options, "-o", tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_precisions_mean_the_same_by_flag_and_by_dtype() -> None:
    one = ("predict", RESNET, "--gpu", "l4", "--level", "groups", "--format", "json")
    dry = ("build", RESNET, "--dry-run", "--backend", "tensorrt")
    for short, long in (("--fp16", "fp16"), ("--noTF32", "fp32")):
        assert trtprof(*one, short).stdout == trtprof(*one, "--dtype", long).stdout
        assert trtprof(*dry, short).stdout == trtprof(*dry, "--dtype", long).stdout
        assert short in trtprof(*dry, short).stdout
