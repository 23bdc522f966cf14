"""Manifests: what one says, and how each mistake of one is told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trtprof.base.errors import MissingError, UsageError
from trtprof.base.toml_file import MOST_BYTES
from trtprof.cli.engine_options import PRECISIONS as BUILT
from trtprof.cost.recast import PRECISIONS as PREDICTED
from trtprof.flows.fleet import manifest as manifests
from trtprof.flows.fleet.manifest import Manifest, options_on

MODELS = '[[models]]\nfiles = "*.onnx"\n'
TARGETS = '[[targets]]\ngpu = "l4"\n'


def read(text: str | bytes, folder: Path) -> Manifest:
    path = folder / "fleet.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return manifests.read(path)


def mistakes(text: str | bytes, folder: Path) -> list[str]:
    with pytest.raises(UsageError) as caught:
        read(text, folder)
    error = caught.value
    told = error.why.splitlines() if "mistakes" in error.what else [error.what]
    return [line.strip() for line in told]


def test_what_a_manifest_says(tmp_path: Path) -> None:
    found = read(
        """\
name = "nightly"
currency = "EUR"
latency_limit = "10 ms"
options = { duration = 1.0, cold = false }
[[models]]
files = "a/**/*.onnx"
exclude = ["a/old/*"]
shapes = "x:1x3"
batches = [1, 8, 8]
sizes = { seq = [128, 512], "x[1]" = 4 }
precisions = ["model", "fp16"]
targets = ["h100", "l4"]
requests_per_s = 200
served_by = "l4"
latency_limit = "1.5ms"
options = { level = "nodes" }
tags = "vision"
[[models]]
files = ["b.onnx"]
name = "b"
[[targets]]
gpu = ["L4", "t4"]
price_per_hour = 1
[[targets]]
name = "h100"
verb = "run"
resource = "gpu_h100"
num_gpus = 1
gpu = "h100-sxm5"
precisions = ["fp16"]
options = { backend = "tensorrt", duration = 3, cuda-graph = false }
tags = ["cloud"]
[[targets]]
verb = "build"
""",
        tmp_path,
    )
    assert (found.name, found.currency, found.latency_limit_ns) == ("nightly", "EUR", 10_000_000)
    first, second = found.models
    assert (first.files, first.exclude, first.shapes) == (("a/**/*.onnx",), ("a/old/*",), ("x:1x3",))
    assert (first.batches, first.sizes) == ((1, 8), {"seq": (128, 512), "x[1]": (4,)})
    assert (first.precisions, first.targets) == (("model", "fp16"), ("h100", "l4"))
    assert (first.requests_per_s, first.served_by, first.latency_limit_ns) == (200.0, "l4", 1_500_000)
    assert (first.options, first.tags, first.place) == ({"level": "nodes"}, ("vision",), "models[0]")
    assert (second.name, second.precisions) == ("b", ("model",))
    assert [(each.name, each.verb, each.gpu) for each in found.targets] == [
        ("l4", "predict", "l4"), ("t4", "predict", "t4"), ("h100", "run", "h100-sxm5"), ("local", "build", ""),
    ]  # fmt: skip
    assert [each.price_per_hour for each in found.targets] == [1.0, 1.0, None, None]
    h100 = found.targets[2]
    assert (h100.resource, h100.num_gpus, h100.precisions, h100.tags) == ("gpu_h100", 1.0, ("fp16",), ("cloud",))
    assert options_on(found, first, found.targets[0]) == {"level": "nodes"}
    # The target's word counts before the fleet's, and what is as by default is not said.
    assert options_on(found, first, h100) == {"backend": "tensorrt", "cuda-graph": "false"}
    assert found.where("models[0].sizes.seq[7]") == "fleet.toml, line 10: models[0].sizes.seq[7]"


def test_the_example_of_the_manual_is_read(tmp_path: Path) -> None:
    example = (manifests.__doc__ or "").partition("\n\n")[2].rpartition("\n\n")[0]
    found = read(re.sub(r"^    ", "", example, flags=re.MULTILINE), tmp_path)
    known = set(re.findall(r"^    (\w+) =", example, flags=re.MULTILINE))
    fields = {*found.models[0].__struct_fields__, *found.targets[0].__struct_fields__} - {"place"}
    assert {name.removesuffix("_ns") for name in fields} <= known, "each key has its line in the example"


def test_a_datasheet_of_ones_own_lies_beside_the_manifest(tmp_path: Path) -> None:
    from trtprof.hardware import gpus

    sheet = Path(gpus.__file__).with_name("specs") / "l4.toml"
    (tmp_path / "mine.toml").write_bytes(sheet.read_bytes())
    (target,) = read(MODELS + '[[targets]]\ngpu = "mine.toml"', tmp_path).targets
    assert (target.name, target.gpu, target.verb) == ("mine", str(tmp_path / "mine.toml"), "predict")


def test_one_gpu_may_be_two_targets_at_other_precisions(tmp_path: Path) -> None:
    targets = '[[targets]]\ngpu = "l4"\nprecisions = "fp16"\n[[targets]]\ngpu = "l4"\nname = "spot"\nprecisions = '
    entry = MODELS + 'precisions = ["fp16", "fp8"]\n'
    assert len(read(f'{entry}{targets}"fp8"', tmp_path).targets) == 2
    assert "spot asks what l4 asks" in mistakes(f'{entry}{targets}["fp16", "fp8"]', tmp_path)[0]


def of_model(line: str) -> str:
    """A mistake in a line of an entry, which is line 3."""
    return f"{MODELS}{line}\n{TARGETS}"


def of_target(line: str) -> str:
    """The same of a target."""
    return f"{TARGETS.replace('l4', 't4')}{line}\n{MODELS}"


MISTAKES = {
    "unknown key": (
        f"{MODELS}{TARGETS}price = 1",
        "line 5: targets[0].price: there is no such key; did you mean price_per_hour?",
    ),
    "unknown table": (f"[[modles]]\n{MODELS}{TARGETS}", "line 1: modles: there is no such key; did you mean models?"),
    "table for a list": (
        "[models]\nfiles = 'x'\n" + TARGETS,
        "line 1: models: it is a list of tables, [[models]], not a table",
    ),
    "fraction": (of_model("batches = [1, 1.5]"), "line 3: models[0].batches[1]: it is a whole number, not 1.5"),
    "empty batch": (
        of_model("batches = [\n 1,\n 0]"),
        "line 5: models[0].batches[1]: 0 is not possible: from 1 to 2147483647",
    ),
    "shapes": (
        of_model('shapes = ["x:1xN"]'),
        "line 3: models[0].shapes[0]: 'x:1xN' cannot be read: dimension 'N' of 'x' is not an integer",
    ),
    "precision": (
        of_model('precisions = ["fp61"]'),
        "line 3: models[0].precisions[0]: there is no precision 'fp61'; did you mean fp16?",
    ),
    "target that is none": (
        of_model('targets = ["l5"]'),
        "line 3: models[0].targets[0]: there is no target 'l5'; did you mean l4?",
    ),
    "served by one not asked": (
        of_model('targets = "l4"\nserved_by = "t4"') + '[[targets]]\ngpu = "t4"',
        "line 4: models[0].served_by: t4 is not among its targets: l4",
    ),
    "limit without unit": (
        of_model('latency_limit = "10"'),
        "line 3: models[0].latency_limit: '10' is no time: a number and ns, us, ms or s",
    ),
    "code": (
        '[[models]]\nfiles = "package.module:factory"\n' + TARGETS,
        "line 2: models[0].files: 'package.module:factory' names code, and a manifest holds none",
    ),
    "no files": ("[[models]]\nname = 'x'\n" + TARGETS, 'line 1: models[0]: files are missing: files = "models/*.onnx"'),
    "no models": (TARGETS, 'models are missing: [[models]] with files = "*.onnx"'),
    "no GPU": (
        of_target('[[targets]]\ngpu = "rtx-4091"'),
        "line 4: targets[1].gpu: no GPU is called 'rtx-4091': the nearest are rtx-4090",
    ),
    "one name twice": (
        of_target('[[targets]]\ngpu = "l4"\nname = "t4"'),
        "line 5: targets[1].name: another target is called 't4', on line 1: give one a name",
    ),
    "one question twice": (
        of_target('[[targets]]\ngpu = "T4"\nname = "spot"'),
        "line 3: targets[1]: spot asks what t4 asks, on line 1",
    ),
    "price": (
        of_target("price_per_hour = -0.1"),
        "line 3: targets[0].price_per_hour: -0.1 is not possible: a number from 0 on",
    ),
    "prediction of nothing": (
        of_target('[[targets]]\nverb = "predict"'),
        'line 3: targets[1]: a prediction needs a datasheet: gpu = "rtx-4090"',
    ),
    "run on two": (
        of_target('[[targets]]\ngpu = ["l4", "l40"]\nverb = "run"'),
        "line 4: targets[1].gpu: a machine to run on has one kind of GPU",
    ),
    "option that is none": (
        of_model("options = { durration = 1 }"),
        "line 3: models[0].options.durration: no command has this option, or it decides no answer: did you mean",
    ),
    "libraries are code": (
        of_model('options = { static-plugins = "x.so" }'),
        "line 3: models[0].options.static-plugins: no command has this option",
    ),
    "value of an option": (
        of_model('options = { cold = "yes" }'),
        "line 3: models[0].options.cold: 'yes' is not possible: it takes true or false",
    ),
    "nobody takes the option": (
        of_model("options = { duration = 1 }"),
        "line 3: models[0].options.duration: it is an option of run, and nothing here asks for that",
    ),
    "options that contradict": (
        of_target("[[targets]]\noptions = { backend = 'ort-cpu', cold-l2 = true }"),
        "line 3: targets[1]: --cold-l2 is of no use with the backend ort-cpu: ort-cpu runs on the CPU",
    ),
    "no precision in common": (
        '[[models]]\nfiles = "*"\nprecisions = "fp16"\n' + TARGETS + "precisions = 'fp8'",
        "line 1: models[0]: none of its precisions is one of its targets'",
    ),
}


def test_a_mistake_is_one_line_with_its_place(tmp_path: Path) -> None:
    told = {case: mistakes(text, tmp_path) for case, (text, _) in MISTAKES.items()}
    wrong = [case for case, (_, want) in MISTAKES.items() if len(told[case]) != 1 or want not in told[case][0]]
    assert not wrong, {case: told[case] for case in wrong}


def test_every_mistake_is_told_by_line_and_the_rest_counted(tmp_path: Path) -> None:
    found = mistakes(f"{MODELS}batches = [0, -1]\n{TARGETS}x = 1\n[[targets]]\ngpu = 1\n", tmp_path)
    assert [re.findall(r"line \d+", line)[0] for line in found] == ["line 3", "line 3", "line 6", "line 8"]
    many = mistakes(MODELS + "batches = [" + "0," * 30 + "]\n" + TARGETS, tmp_path)
    assert many[-1] == "and 10 more"
    assert len(many) == 21


NO_TOML = {
    "unclosed list": (b"a = [1\n b = 2", "fleet.toml, line 2: Unclosed array (column 2)"),
    "key twice": (b"a = 1\nname = 'x'\na = 2\n", "fleet.toml, line 3: Cannot overwrite a value"),
    "binary": (b"\x00\xff\xfe\x01" * 99, "fleet.toml, line 1: it is no text"),
    "deep": (b"a = " + b"[" * 100_000, "fleet.toml: it is nested too deep"),
    "large": (b"#" * (MOST_BYTES + 1), "too large for a manifest"),
}


def test_what_is_no_toml_is_told_where(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for case, (content, want) in NO_TOML.items():
        with subtests.test(case), pytest.raises(UsageError, match=re.escape(want)):
            read(content, tmp_path)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="there is no file"):
        manifests.read(tmp_path / "none.toml")
    with pytest.raises(UsageError, match="is a folder, not a file"):
        manifests.read(tmp_path)


def test_run_and_predict_know_the_same_precisions() -> None:
    assert set(PREDICTED) == {"model", *BUILT}


def test_slips_of_toml_are_told_how_to_mend(tmp_path: Path) -> None:
    for files, fix in ((r'"C:\models\a.onnx"', "folders with /"), ("a.onnx", "in quotes")):
        with pytest.raises(UsageError) as caught:
            read(f"[[models]]\nfiles = {files}\n", tmp_path)
        assert fix in (caught.value.fix or "")
