"""Manifests: what one says, and how each mistake of one is told."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.support import SAMPLES
from trtprof.base.errors import MissingError, TrtprofError, UsageError
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


def test_the_sample_is_read() -> None:
    found = manifests.read(SAMPLES / "fleet.toml")
    assert [target.verb for target in found.targets] == ["predict"] * 4
    assert all(target.price_per_hour for target in found.targets)


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
    "far-off key": (of_model("zzz = 1"), "line 3: models[0].zzz: there is no such key; there are files, exclude"),
    "table for a list": (
        "[models]\nfiles = 'x'\n" + TARGETS,
        "line 1: models: it is a list of tables, [[models]], not a table",
    ),
    "no table": (f"models = [1]\n{TARGETS}", "line 1: models[0]: it is a table, not a number"),
    "text for a number": (of_model('batches = "8"'), "line 3: models[0].batches: it is a whole number, not a text"),
    "fraction": (of_model("batches = [1, 1.5]"), "line 3: models[0].batches[1]: it is a whole number, not 1.5"),
    "truth": (of_model("batches = true"), "line 3: models[0].batches: it is a whole number, not true or false"),
    "date": (of_model("name = 1979-05-27"), "line 3: models[0].name: it is a text, not a date or a time"),
    "empty batch": (
        of_model("batches = [\n 1,\n 0]"),
        "line 5: models[0].batches[1]: 0 is not possible: from 1 to 2147483647",
    ),
    "huge batch": (of_model(f"batches = {10**40}"), "line 3: models[0].batches: so large a number is not possible"),
    "empty list": (of_model("batches = []"), "line 3: models[0].batches: the list is empty: leave it away"),
    "size": (of_model("sizes = { seq = [1, -2] }"), "line 3: models[0].sizes.seq[1]: -2 is not possible"),
    "sizes of no kind": (
        of_model("sizes = 8"),
        "line 3: models[0].sizes: it is a table such as { seq = [128, 512] }, not a number",
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
    "served by nobody": (
        of_model('served_by = "x"'),
        "line 3: models[0].served_by: there is no target 'x'; there are l4",
    ),
    "served by one not asked": (
        of_model('targets = "l4"\nserved_by = "t4"') + '[[targets]]\ngpu = "t4"',
        "line 4: models[0].served_by: t4 is not among its targets: l4",
    ),
    "limit without unit": (
        of_model('latency_limit = "10"'),
        "line 3: models[0].latency_limit: '10' is no time: a number and ns, us, ms or s",
    ),
    "limit as a number": (
        of_model("latency_limit = 10"),
        'line 3: models[0].latency_limit: it is a text such as "10 ms", not a number',
    ),
    "limit of nothing": (
        of_model('latency_limit = "0 ms"'),
        "line 3: models[0].latency_limit: '0 ms' is not possible: nothing takes no time",
    ),
    "requests": (
        of_model("requests_per_s = nan"),
        "line 3: models[0].requests_per_s: nan is not possible: a number from 0 on",
    ),
    "tag": (of_model('tags = ["two words"]'), "line 3: models[0].tags[0]: 'two words' is no tag"),
    "name": (of_model('name = " x"'), "line 3: models[0].name: ' x' is no name"),
    "control character": (
        of_model('name = "a\\u001b[2J"'),
        "line 3: models[0].name: 'a\\x1b[2J' is no text that can be read",
    ),
    "code": (
        '[[models]]\nfiles = "package.module:factory"\n' + TARGETS,
        "line 2: models[0].files: 'package.module:factory' names code, and a manifest holds none",
    ),
    "Python": (
        '[[models]]\nfiles = ["net.py:make"]\n' + TARGETS,
        "line 2: models[0].files[0]: 'net.py:make' names code",
    ),
    "Python file": ('[[models]]\nfiles = "net.py"\n' + TARGETS, "line 2: models[0].files: 'net.py' names code"),
    "no files": ("[[models]]\nname = 'x'\n" + TARGETS, 'line 1: models[0]: files are missing: files = "models/*.onnx"'),
    "no models": (TARGETS, 'models are missing: [[models]] with files = "*.onnx"'),
    "no targets": (MODELS, "targets are missing: [[targets]] with a gpu to predict for"),
    "no GPU": (
        of_target('[[targets]]\ngpu = "rtx-4091"'),
        "line 4: targets[1].gpu: no GPU is called 'rtx-4091': the nearest are rtx-4090",
    ),
    "no datasheet": (of_target('[[targets]]\ngpu = "x.toml"'), "line 4: targets[1].gpu: the GPU datasheet"),
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
    "price in words": (
        of_target('price_per_hour = "1 EUR"'),
        "line 3: targets[0].price_per_hour: it is a number, not a text",
    ),
    "verb": (of_target('verb = "runn"'), "line 3: targets[0].verb: there is no verb 'runn'; did you mean run?"),
    "prediction of nothing": (
        of_target('[[targets]]\nverb = "predict"'),
        'line 3: targets[1]: a prediction needs a datasheet: gpu = "rtx-4090"',
    ),
    "prediction on a node": (
        of_target('[[targets]]\ngpu = "l4"\nverb = "predict"\nresource = "x"'),
        "line 6: targets[1].resource: a prediction runs anywhere, and needs no GPU",
    ),
    "run on two": (
        of_target('[[targets]]\ngpu = ["l4", "l40"]\nverb = "run"'),
        "line 4: targets[1].gpu: a machine to run on has one kind of GPU",
    ),
    "one name for two": (
        of_target('[[targets]]\ngpu = ["l4", "l40"]\nname = "x"'),
        "line 5: targets[1].name: 2 targets cannot have one name",
    ),
    "part of two GPUs": (
        of_target('[[targets]]\nresource = "x"\nnum_gpus = 1.5'),
        "line 5: targets[1].num_gpus: 1.5 is not possible",
    ),
    "option that is none": (
        of_model("options = { durration = 1 }"),
        "line 3: models[0].options.durration: no command has this option, or it decides no answer: did you mean",
    ),
    "option with underscores": (of_model("options = { cold_l2 = true }"), "did you mean cold-l2?"),
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
    "nobody takes the fleet's": (
        f"[options]\niterations = 1\n{MODELS}{TARGETS}",
        "line 2: options.iterations: it is an option of run, and nothing",
    ),
    "the target does not": (
        of_target("options.backend = 'auto'"),
        "line 3: targets[0].options.backend: it is an option of build and run, and nothing",
    ),
    "session option": (
        of_target("[[targets]]\noptions = { session-option = ['x=1'] }"),
        "line 4: targets[1].options.session-option: --sessionOption x is not known",
    ),
    "options that contradict": (
        of_target("[[targets]]\noptions = { backend = 'ort-cpu', cold-l2 = true }"),
        "line 3: targets[1]: --cold-l2 is of no use with the backend ort-cpu: ort-cpu runs on the CPU",
    ),
    "precision of no backend": (
        of_target("[[targets]]\noptions = { backend = 'ort-cpu' }") + "precisions = 'fp16'",
        "line 3: targets[1]: --fp16 is of no use with the backend ort-cpu",
    ),
    "build without an engine": (
        of_target("[[targets]]\nverb = 'build'\noptions = { backend = 'ort-cuda' }"),
        "line 3: targets[1]: backend ort-cuda builds no engine",
    ),
    "no precision in common": (
        '[[models]]\nfiles = "*"\nprecisions = "fp16"\n' + TARGETS + "precisions = 'fp8'",
        "line 1: models[0]: none of its precisions is one of its targets'",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_line_with_its_place(case: str, tmp_path: Path) -> None:
    text, want = MISTAKES[case]
    (told,) = mistakes(text, tmp_path)
    assert told.startswith("fleet.toml")
    assert want in told


def test_hostile_keys_and_endless_numbers_are_told_in_a_line(tmp_path: Path) -> None:
    told = mistakes(of_model('"a\\nb\\u001b[2J" = 1'), tmp_path)
    assert r"fleet.toml, line 3: models[0].'a\nb\x1b[2J': there is no such key" in told[0]
    endless = f"0x{'F' * 5000}"
    for line in (f"batches = {endless}", f"requests_per_s = {endless}", f"name = {endless}", f"sizes.n = {endless}"):
        assert "fleet.toml, line 3: models[0]." in mistakes(of_model(line), tmp_path)[0]
    for line in (f"options.duration = {endless}", f"options.seed = {endless}", f"num_gpus = {endless}"):
        assert "line 4: targets[1]." in mistakes(of_target(f"[[targets]]\n{line}"), tmp_path)[0]


def test_every_mistake_is_told_by_line_and_the_rest_counted(tmp_path: Path) -> None:
    found = mistakes(f"{MODELS}batches = [0, -1]\n{TARGETS}x = 1\n[[targets]]\ngpu = 1\n", tmp_path)
    assert [re.findall(r"line \d+", line)[0] for line in found] == ["line 3", "line 3", "line 6", "line 8"]
    many = mistakes(MODELS + "batches = [" + "0," * 30 + "]\n" + TARGETS, tmp_path)
    assert many[-1] == "and 10 more"
    assert len(many) == 21


NO_TOML = {
    "unclosed list": (b"a = [1\n b = 2", "fleet.toml, line 2: Unclosed array (column 2)"),
    "unclosed text": (b'a = "x', "fleet.toml: Unterminated string (at end of document)"),
    "key twice": (b"a = 1\nname = 'x'\na = 2\n", "fleet.toml, line 3: Cannot overwrite a value"),
    "binary": (b"\x00\xff\xfe\x01" * 99, "fleet.toml, line 1: it is no text"),
    "Latin 1": (b"name = 'x'\ntag = '\xe9'", "fleet.toml, line 2: it is no text"),
    "deep": (b"a = " + b"[" * 100_000, "fleet.toml: it is nested too deep"),
    "deep and whole": (b"a = " + b"[" * 400 + b"]" * 400, "fleet.toml"),
    "digits": (b"a = " + b"9" * 5000, "fleet.toml: Exceeds the limit"),
    "large": (b"#" * (MOST_BYTES + 1), "too large for a manifest"),
    "nothing": (b"", "fleet.toml has 2 mistakes"),
}


@pytest.mark.parametrize("case", NO_TOML)
def test_what_is_no_toml_is_told_where(case: str, tmp_path: Path) -> None:
    content, want = NO_TOML[case]
    with pytest.raises(UsageError) as caught:
        read(content, tmp_path)
    assert want in caught.value.what


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="there is no file"):
        manifests.read(tmp_path / "none.toml")
    with pytest.raises(UsageError, match="is a folder, not a file"):
        manifests.read(tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        manifests.read(Path("a\0b"))
    with pytest.raises(UsageError, match="is a device"):
        manifests.read(Path("/dev/zero"))


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    assert read(b"\xef\xbb\xbf" + (MODELS + TARGETS).encode(), tmp_path).targets


def test_run_and_predict_know_the_same_precisions() -> None:
    assert set(PREDICTED) == {"model", *BUILT}


ANY = st.recursive(
    st.sampled_from(["1", "-1", "1.5", "nan", "true", '""', '"x"', '"l4"', '"fp16"', '"10 ms"', "1979-05-27", "'*'"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2).map(lambda parts: f"[{', '.join(parts)}]"),
        st.tuples(st.sampled_from(["x", "level", "seq"]), inner).map(lambda pair: f"{{ {pair[0]} = {pair[1]} }}"),
    ),
    max_leaves=3,
)
KEYS = st.sampled_from([
    "files", "exclude", "name", "shapes", "batches", "sizes", "precisions", "targets", "requests_per_s", "served_by",
    "latency_limit", "options", "tags", "verb", "gpu", "resource", "num_gpus", "price_per_hour", "currency", "x",
])  # fmt: skip
TABLES = st.tuples(
    st.sampled_from(["[[models]]", "[[targets]]", "[options]", "[models]", "[x]"]),
    st.dictionaries(KEYS, ANY, max_size=4),
)


@given(st.dictionaries(KEYS, ANY, max_size=2), st.lists(TABLES, max_size=4))
def test_nothing_that_a_manifest_says_ends_in_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, top: dict[str, str], tables: list[tuple[str, dict[str, str]]]
) -> None:
    text = "".join(f"{key} = {value}\n" for key, value in top.items())
    for head, pairs in tables:
        text += head + "\n" + "".join(f"{key} = {value}\n" for key, value in pairs.items())
    with contextlib.suppress(TrtprofError):
        read(text, tmp_path_factory.getbasetemp())


@pytest.mark.parametrize(
    ("files", "fix"),
    [(r'"C:\models\a.onnx"', "folders with /"), (r'"C:\users\a.onnx"', "folders with /"), ("a.onnx", "in quotes")],
)
def test_slips_of_toml_are_told_how_to_mend(files: str, fix: str, tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(f"[[models]]\nfiles = {files}\n")
    with pytest.raises(UsageError) as caught:
        manifests.read(path)
    assert fix in (caught.value.fix or "")
