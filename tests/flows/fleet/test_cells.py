"""Cells of a manifest: which files it means, what they are called, and what of a cell its address tells."""

from __future__ import annotations

import itertools
import os
import shutil
import string
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, numpy_helper
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

from tests.fakes.support import SAMPLES
from trtprof.base.errors import UsageError
from trtprof.base.records import FleetCell
from trtprof.flows.fleet import cells as cells_of
from trtprof.flows.fleet import contents, manifest
from trtprof.flows.fleet.cells import Expanded, expand, in_shard, key_by, request_of

TARGETS = '[[targets]]\ngpu = "l4"\n'


def model(path: Path, *shape: int | str | None, to: float = 1.0, external: str = "") -> Path:
    """One Mul of an input ``x``; with its weight in another file where that is named."""
    weight = numpy_helper.from_array(np.array([to], np.float32), "w")
    graph = make_graph(
        [make_node("Mul", ["x", "w"], ["y"])], "g", [make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [make_tensor_value_info("y", TensorProto.FLOAT, shape)], [weight],
    )  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    proto = make_model(graph, opset_imports=[make_opsetid("", 17)], ir_version=8)
    if external:
        onnx.save(proto, path, save_as_external_data=True, location=external, size_threshold=0)
    else:
        onnx.save(proto, path)
    return path


def read(folder: Path, text: str, targets: str = TARGETS, known: Path | None = None) -> Expanded:
    file = folder / "fleet.toml"
    file.write_text(text + "\n" + targets)
    return expand(manifest.read(file), known)


def mistake(folder: Path, text: str, targets: str = TARGETS) -> str:
    with pytest.raises(UsageError) as caught:
        read(folder, text, targets)
    return str(caught.value)


def names(found: Expanded) -> list[str]:
    return [each.name for each in found.asked.models]


# --- which files ----------------------------------------------------------------------------


def test_globs_go_from_the_folder_of_the_manifest_and_mean_each_file_once(tmp_path: Path) -> None:
    for at, name in enumerate(("b", "a", "sub/deep/c", "sub/old/d")):
        model(tmp_path / f"{name}.onnx", 1, to=at)
    (tmp_path / "notes.txt").write_text("no model")
    found = read(tmp_path, '[[models]]\nfiles = ["b.onnx", "*", "**/*.onnx"]\nexclude = "sub/old/*"')
    assert names(found) == ["b", "a", "c"]
    assert [cell.path for cell in found.cells] == [
        str(tmp_path / name) for name in ("b.onnx", "a.onnx", "sub/deep/c.onnx")
    ]


@pytest.mark.parametrize("pattern", ["**/*.onnx", "**/" * 40 + "*.onnx", "*/" * 30 + "*.onnx", "**/*/**/*/**/*.onnx"])
def test_links_that_lead_back_end_no_glob(tmp_path: Path, pattern: str) -> None:
    folder = tmp_path / "of [all]"
    file = model(folder / "sub" / "deep" / "a.onnx", 2)
    for name in ("one", "two", "three"):
        (folder / "sub" / name).symlink_to("..")
    model(tmp_path / "other.onnx", 2)
    found = cells_of._matches(folder, pattern)
    assert {each.resolve() for each in found} <= {file}
    assert found or "*/*" in pattern


def test_a_file_that_looks_like_a_glob_is_a_file(tmp_path: Path) -> None:
    model(tmp_path / "a[1].onnx", 1)
    assert names(read(tmp_path, '[[models]]\nfiles = "a[1].onnx"')) == ["a[1]"]


def test_an_entry_that_means_nothing_is_told_with_its_line(tmp_path: Path) -> None:
    model(tmp_path / "resnet.onnx", 1)
    (tmp_path / "folder").mkdir()
    text = '[[models]]\nfiles = [\n"resnet.onnx",\n"resmet.onnx"]'
    assert "fleet.toml, line 4: models[0].files[1]: resmet.onnx means no file in" in mistake(tmp_path, text)
    assert "did you mean resnet.onnx?" in mistake(tmp_path, text)
    assert "folder is a folder: folder/*.onnx means the models in it" in mistake(
        tmp_path, '[[models]]\nfiles = "folder"'
    )
    text = '[[models]]\nfiles = "*.onnx"\nexclude = ["res*"]'
    assert "line 2: models[0].files: all that *.onnx means is excluded" in mistake(tmp_path, text)
    text = '[[models]]\nfiles = "no/**/*.onnx"\n[[models]]\nfiles = "none.onnx"'
    assert "fleet.toml has 2 mistakes" in mistake(tmp_path, text)


def test_names_have_as_many_folders_as_tell_them_apart(tmp_path: Path) -> None:
    for at, name in enumerate(("x/a/net", "y/a/net", "y/b/net", "solo")):
        model(tmp_path / f"{name}.onnx", 1, to=at)
    found = read(
        tmp_path,
        '[[models]]\nfiles = "**/*.onnx"\n[[models]]\nfiles = "x/a/net.onnx"\nbatches = []'.replace(
            "\nbatches = []", ""
        ),
    )
    assert names(found) == ["solo", "x/a/net", "y/a/net", "b/net"]
    found = read(tmp_path, '[[models]]\nfiles = "solo.onnx"\nname = "net"\n[[models]]\nfiles = "y/b/net.onnx"')
    assert names(found) == ["net", "b/net"]


def test_two_models_cannot_have_one_name(tmp_path: Path) -> None:
    model(tmp_path / "a.onnx", 1, to=1)
    model(tmp_path / "b.onnx", 1, to=2)
    text = '[[models]]\nfiles = "a.onnx"\nname = "n"\n[[models]]\nfiles = "b.onnx"\nname = "n"'
    assert f"line 6: models[1].name: {tmp_path / 'a.onnx'} is called n, too" in mistake(tmp_path, text)
    text = '[[models]]\nfiles = "*.onnx"\nname = "n"'
    assert "line 3: models[0].name: 2 files cannot have one name" in mistake(tmp_path, text)
    text = '[[models]]\nfiles = "a.onnx"\nname = "n"\n[[models]]\nfiles = "a.onnx"\nname = "m"'
    assert "line 6: models[1].name: a.onnx is called n already, in models[0]" in mistake(tmp_path, text)


def test_files_with_one_content_are_one_model(tmp_path: Path) -> None:
    model(tmp_path / "a.onnx", 1)
    shutil.copy(tmp_path / "a.onnx", tmp_path / "b.onnx")
    found = read(tmp_path, '[[models]]\nfiles = ["*.onnx"]')
    assert names(found) == ["a"]
    assert found.notes == (f"{tmp_path / 'b.onnx'} has the content of {tmp_path / 'a.onnx'}: both are one model",)


def test_a_model_asked_by_two_entries_has_each_size_once_and_what_either_says(tmp_path: Path) -> None:
    model(tmp_path / "a.onnx", "n", 3)
    found = read(
        tmp_path,
        '[[models]]\nfiles = "a.onnx"\nbatches = [1, 8]\ntags = "x"\n'
        '[[models]]\nfiles = "*.onnx"\nbatches = [8, 2]\nrequests_per_s = 5\nlatency_limit = "1 ms"\ntags = "y"',
    )
    assert [cell.batch for cell in found.cells] == [1, 8, 2]
    (asked,) = found.asked.models
    assert (asked.requests_per_s, asked.latency_limit_ns, asked.tags) == (5.0, 1_000_000, ("x", "y"))
    text = '[[models]]\nfiles = "a.onnx"\nrequests_per_s = 1\n[[models]]\nfiles = "*.onnx"\nrequests_per_s = 2'
    assert "line 6: models[1].requests_per_s: models[0] says another requests_per_s: a" in mistake(tmp_path, text)


def test_one_question_with_two_sets_of_options_is_told(tmp_path: Path) -> None:
    """A report calls a cell by model, target, size and precision: it would show one answer of two."""
    model(tmp_path / "a.onnx", 1)
    text = '[[models]]\nfiles = "a.onnx"\n[[models]]\nfiles = "*.onnx"\noptions = { cold = true }'
    told = mistake(tmp_path, text)
    assert "line 3" in told
    assert "another entry asks the same with other options" in told
    apart = text.replace('files = "*.onnx"', 'files = "*.onnx"\nprecisions = ["fp16"]')
    assert len({cell.key for cell in read(tmp_path, apart).cells}) == len(read(tmp_path, apart).cells)


def test_what_is_no_model_has_cells_that_fail_later(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("this is no model")
    (tmp_path / "empty.onnx").write_bytes(b"")
    found = read(tmp_path, '[[models]]\nfiles = "*.onnx"\nbatches = [1, 2]\nsizes = { any = 3 }')
    assert len(found.cells) == 4
    assert found.notes == ("no ONNX model can be read from empty, text: their cells will fail",)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_what_cannot_be_read_has_cells_too(tmp_path: Path) -> None:
    model(tmp_path / "a.onnx", 1).chmod(0)
    assert len(read(tmp_path, '[[models]]\nfiles = "*.onnx"').cells) == 1


# --- sizes ----------------------------------------------------------------------------------


def test_every_combination_is_a_cell_groups_together(tmp_path: Path) -> None:
    model(tmp_path / "a.onnx", "n", "seq")
    found = read(
        tmp_path,
        '[[models]]\nfiles = "a.onnx"\nbatches = [1, 8]\nsizes = { seq = [16, 32] }\n'
        'precisions = ["model", "fp16", "int8"]',
        '[[targets]]\ngpu = ["l4", "t4"]\n[[targets]]\nverb = "run"\nprecisions = ["model", "fp32"]',
    )
    assert len(found.cells) == 2 * 2 * (3 * 2 + 1)
    assert [cell.size for cell in found.cells[:8]] == ["batch=1 seq=16"] * 7 + ["batch=1 seq=32"]
    groups = [len(list(group)) for _, group in itertools.groupby(found.cells, key=lambda cell: cell.group)]
    assert set(groups) == {2, 1}
    assert all((cell.group == cell.key) == (cell.verb == "run") for cell in found.cells)
    assert len({cell.key for cell in found.cells}) == len(found.cells)
    parts = [[cell for cell in found.cells if in_shard(cell, part, 3)] for part in (1, 2, 3)]
    assert sum(map(len, parts)) == len(found.cells)
    assert not {cell.group for cell in parts[0]} & {cell.group for cell in parts[1]}


def test_a_cell_is_what_the_verbs_are_asked(tmp_path: Path) -> None:
    model(tmp_path / "a.onnx", "n", "seq", 4)
    found = read(tmp_path, '[[models]]\nfiles = "a.onnx"\nbatches = 2\nsizes = { seq = 5 }')
    request = request_of(found.cells[0])
    with request.opened() as loaded:
        assert request.bound(loaded).model.inputs[0].shape == (2, 5, 4)
    elsewhere = model(tmp_path / "b.onnx", "n", "seq", 4)
    assert request_of(found.cells[0], elsewhere).model == str(elsewhere)


SIZES = {
    'sizes = { len = 5 }': "models[0].sizes.len: a.onnx: 'len' is not a dynamic dimension of this model: its",
    'sizes = { "x[2]" = 5 }': "models[0].sizes.x[2]: a.onnx: 'x[2]' is not a dynamic dimension",
    'shapes = "y:1x2x4"': "models[0].shapes: a.onnx: shapes names 'y', which is not an input of this model",
    'shapes = "x:1x2x5"': "models[0].shapes: a.onnx: dimension 2 of input 'x' is given as 5, the model fixes it at 4",
    'batches = 8\nshapes = "x:3x2x4"': "models[0].batches: a.onnx: batch 8 binds nothing",
    'sizes = { n = 3 }\nbatches = [8]': "models[0].sizes.n: a.onnx: dimension 'n' would be 3 and 8 at once",
}  # fmt: skip


@pytest.mark.parametrize("line", SIZES)
def test_a_size_that_a_model_cannot_have_is_told_with_what_it_can(line: str, tmp_path: Path) -> None:
    model(tmp_path / "a.onnx", "n", "seq", 4)
    told = mistake(tmp_path, f'[[models]]\nfiles = "a.onnx"\n{line}')
    assert "fleet.toml, line 3: " in told
    assert SIZES[line] in told


def test_one_mistake_of_many_models_is_told_once(tmp_path: Path) -> None:
    for at in range(30):
        model(tmp_path / f"m{at:02}.onnx", 1, at + 1)
    told = mistake(tmp_path, '[[models]]\nfiles = "*.onnx"\nbatches = [1, 8]')
    assert told.count("no input has a dynamic leading or batch dimension") == 1
    assert "in [[models]] without batches: m00, m01, " in told
    assert told.endswith("and 10 more")
    text = '[[models]]\nfiles = "*.onnx"\nrequests_per_s = 1\n[[models]]\nfiles = "*.onnx"\nrequests_per_s = 2'
    assert mistake(tmp_path, text).count("says another requests_per_s: m00, m01") == 1


def test_files_alike_are_one_note(tmp_path: Path) -> None:
    first = model(tmp_path / "a.onnx", 1)
    for name in "bcd":
        shutil.copy(first, tmp_path / f"{name}.onnx")
    (note,) = read(tmp_path, '[[models]]\nfiles = "*.onnx"').notes
    assert note.endswith("a.onnx: both are one model; so are 2 more files and others")


@pytest.mark.parametrize(("files", "hint"), [("~/a.onnx", "write the path out"), (r"sub\a.onnx", "parted by /")])
def test_paths_of_other_shells_are_told(files: str, hint: str, tmp_path: Path) -> None:
    assert hint in mistake(tmp_path, f"[[models]]\nfiles = '{files}'")


def test_names_that_no_file_can_have_and_such_as_are_no_text_are_told(tmp_path: Path) -> None:
    model(tmp_path / "a.onnx", 1)
    assert "line 2: models[0].files: it cannot be looked at: File name too long" in mistake(
        tmp_path, f'[[models]]\nfiles = "{"a" * 300}.onnx"'
    )
    many = f'[[models]]\nfiles = "*.onnx"\nexclude = "{"a" * 300}.onnx"'
    assert names(read(tmp_path, many)) == ["a"]
    shutil.copy(tmp_path / "a.onnx", os.fsdecode(os.fsencode(tmp_path) + b"/b\xff.onnx"))
    assert "b\\udcff.onnx' has no name in UTF-8" in mistake(tmp_path, '[[models]]\nfiles = "*.onnx"')
    assert names(read(tmp_path, '[[models]]\nfiles = "*.onnx"\nexclude = "b*.onnx"')) == ["a"]


def test_two_targets_that_ask_the_same_by_two_files_are_told(tmp_path: Path) -> None:
    from trtprof.hardware import gpus

    model(tmp_path / "a.onnx", 1)
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        shutil.copy(Path(gpus.__file__).with_name("specs") / "l4.toml", tmp_path / folder / "mine.toml")
    targets = '[[targets]]\ngpu = "x/mine.toml"\n[[targets]]\ngpu = "y/mine.toml"\nname = "other"'
    assert "line 5: targets[1]: other asks of a what mine asks: leave one away" in mistake(
        tmp_path, '[[models]]\nfiles = "*.onnx"', targets
    )


def test_a_target_without_cells_is_noted(tmp_path: Path) -> None:
    model(tmp_path / "a.onnx", 1)
    found = read(tmp_path, '[[models]]\nfiles = "*.onnx"', TARGETS + '[[targets]]\ngpu = "t4"\nprecisions = "fp8"')
    assert found.notes == ("target t4 has no cells",)


# --- the address ----------------------------------------------------------------------------


def test_the_content_of_a_model_is_in_the_key_with_the_weights_beside_it(tmp_path: Path) -> None:
    text = '[[models]]\nfiles = "a.onnx"'
    keys = []
    for external in ("", "a.data"):
        for to in (1.0, 2.0):
            model(tmp_path / "a.onnx", 1, to=to, external=external)
            keys.append(read(tmp_path, text).cells[0].key)
    (tmp_path / "a.data").unlink()
    keys.append(read(tmp_path, text).cells[0].key)
    assert len(set(keys)) == 5
    whole = read(tmp_path, text).cells[0]
    assert len(whole.key) == 24
    assert len(whole.sha256) == 64


def test_the_digest_of_a_file_alone_is_that_which_others_compute(tmp_path: Path) -> None:
    import hashlib

    path = model(tmp_path / "a.onnx", 1)
    assert (
        read(tmp_path, '[[models]]\nfiles = "*.onnx"').cells[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    )


def test_a_datasheet_is_in_the_key_by_what_it_says(tmp_path: Path) -> None:
    from trtprof.hardware import gpus

    model(tmp_path / "a.onnx", 1)
    sheet = (Path(gpus.__file__).with_name("specs") / "l4.toml").read_text()
    text, targets = '[[models]]\nfiles = "*.onnx"', '[[targets]]\ngpu = "{}/l4.toml"'
    found = {}
    for name, content in {
        "same": sheet,
        "again": sheet,
        "other": sheet.replace("value = 300", "value = 301", 1),
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "l4.toml").write_text(content)
        found[name] = read(tmp_path, text, targets.format(name)).cells[0]
    assert found["same"].key == found["again"].key != found["other"].key
    assert found["same"].group == found["other"].group
    assert found["same"].key == read(tmp_path, text).cells[0].key, "a copy of the datasheet that ships says the same"


def test_the_key_of_a_cell_is_made_anew_by_its_datasheet(tmp_path: Path) -> None:
    from trtprof.hardware import gpus

    model(tmp_path / "a.onnx", "n", 3)
    text = '[[models]]\nfiles = "*.onnx"\nshapes = "x:2x3"\nprecisions = ["fp16"]\noptions = { level = "nodes" }'
    sized = '[[models]]\nfiles = "*.onnx"\nsizes = { n = [1, 4] }\n[[models]]\nfiles = "*.onnx"\nbatches = 7'
    for cell in (*read(tmp_path, text).cells, *read(tmp_path, sized).cells):
        assert key_by(cell, gpus.find("l4")) == cell.key != key_by(cell, gpus.find("t4"))


def test_the_version_is_in_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model(tmp_path / "a.onnx", 1)
    text = '[[models]]\nfiles = "*.onnx"'
    before = read(tmp_path, text).cells[0]
    monkeypatch.setattr(cells_of, "__version__", "99")
    assert read(tmp_path, text).cells[0].key != before.key


WORD = st.text(string.ascii_lowercase, min_size=1, max_size=5)
SIZE = st.integers(1, 64)
ASKED = st.fixed_dictionaries(
    {
        "batches": st.lists(SIZE, min_size=1, max_size=3, unique=True),
        "sizes": st.fixed_dictionaries({"seq": st.lists(SIZE, min_size=1, max_size=2, unique=True)}),
        "precisions": st.lists(st.sampled_from(["model", "fp32", "fp16"]), min_size=1, max_size=3, unique=True),
        "options": st.dictionaries(st.sampled_from(["cold", "verify"]), st.booleans(), max_size=2)
        | st.dictionaries(st.sampled_from(["clock", "duration"]), SIZE, max_size=2),
        "gpus": st.lists(st.sampled_from(["l4", "t4", "a10"]), min_size=1, max_size=3, unique=True),
    }
)
AROUND = st.fixed_dictionaries(
    {"name": WORD, "folder": WORD, "file": WORD, "price": SIZE, "tags": st.lists(WORD, min_size=1), "requests": SIZE,
     "runs_on": WORD, "later": st.booleans()}
)  # fmt: skip


def asked(folder: Path, what: dict[str, Any], around: dict[str, Any]) -> list[FleetCell]:
    """The cells of a manifest that asks ``what``, all else as ``around`` has it."""
    place = folder / around["folder"]
    shutil.rmtree(place, ignore_errors=True)
    model(place / "models" / f"{around['file']}.onnx", "n", "seq")
    options = ", ".join(f"{name} = {str(value).lower()}" for name, value in what["options"].items())
    above = f"options = {{ {options} }}"
    text = f"""\
{"" if around["later"] else above}
name = "{around["name"]}"
[[models]]
files = "models/*.onnx"
batches = {what["batches"]}
sizes = {{ seq = {what["sizes"]["seq"]} }}
precisions = {what["precisions"]}
tags = {around["tags"]}
requests_per_s = {around["requests"]}
{above if around["later"] else ""}
"""
    targets = "".join(
        f'[[targets]]\ngpu = "{gpu}"\nname = "{gpu}-{around["runs_on"]}"\nprice_per_hour = {around["price"]}\n'
        for gpu in what["gpus"]
    )
    return list(read(place, text, targets + f'[[targets]]\nverb = "run"\nname = "{around["runs_on"]}"\n').cells)


def questions(cells: list[FleetCell]) -> dict[str, tuple[object, ...]]:
    """What each key stands for, as a person would say it."""
    return {
        cell.key: (cell.verb, cell.gpu, cell.size, cell.precision, tuple(sorted(cell.options.items())))
        for cell in cells
    }


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(one=ASKED, other=ASKED, around=AROUND, elsewhere=AROUND)
def test_keys_tell_what_is_asked_and_nothing_else(
    tmp_path: Path, one: dict[str, Any], other: dict[str, Any], around: dict[str, Any], elsewhere: dict[str, Any]
) -> None:
    first = asked(tmp_path, one, around)
    again = asked(tmp_path, one, elsewhere)
    assert questions(first) == questions(again), (
        "names, places, prices, tags and the order of the file are no part of it"
    )
    assert [cell.group for cell in first] == [cell.group for cell in again]
    # Two questions never have one key, and one question never two.
    known = questions(first) | questions(asked(tmp_path, other, around))
    assert len(set(known.values())) == len(known)
    by_group: dict[str, set[tuple[object, ...]]] = {}
    for cell in first:
        by_group.setdefault(cell.group, set()).add((cell.verb, cell.size, cell.precision, tuple(cell.options.items())))
    assert all(len(each) == 1 for each in by_group.values())


# --- what is kept for another time ----------------------------------------------------------


def test_files_that_are_as_they_were_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = model(tmp_path / "a.onnx", "n", to=1, external="a.data")
    old = 1_600_000_000
    for file in (path, tmp_path / "a.data"):
        os.utime(file, (old, old))
    text, known = '[[models]]\nfiles = "a.onnx"\nbatches = [1, 2]', tmp_path / "deep" / "known.json"
    first = read(tmp_path, text, known=known)
    with monkeypatch.context() as patch:
        patch.setattr(contents, "look", lambda _: pytest.fail("it was read again"))
        assert read(tmp_path, text, known=known).cells == first.cells
    for change in (tmp_path / "a.data", path):
        change.write_bytes(change.read_bytes() + b"\n")
        assert read(tmp_path, text, known=known).cells[0].key != first.cells[0].key
        change.write_bytes(change.read_bytes()[:-1])
        os.utime(change, (old, old))


def test_what_changed_a_moment_ago_is_read_again(tmp_path: Path) -> None:
    # Within the resolution of the clock it may change once more, at the same size.
    model(tmp_path / "a.onnx", "n", to=1)
    known = tmp_path / "known.json"
    text = '[[models]]\nfiles = "a.onnx"'
    first = read(tmp_path, text, known=known)
    stamp = (tmp_path / "a.onnx").stat()
    model(tmp_path / "a.onnx", "n", to=2)
    os.utime(tmp_path / "a.onnx", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert read(tmp_path, text, known=known).cells[0].key != first.cells[0].key


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"trtprof": "0", "files": {}}', b"[[[["])
def test_what_is_kept_and_cannot_be_used_is_as_good_as_nothing(content: bytes, tmp_path: Path) -> None:
    model(tmp_path / "a.onnx", 1)
    known = tmp_path / "known.json"
    known.write_bytes(content)
    assert read(tmp_path, '[[models]]\nfiles = "a.onnx"', known=known).cells
    (tmp_path / "folder").mkdir()
    assert read(tmp_path, '[[models]]\nfiles = "a.onnx"', known=tmp_path / "folder").cells


# --- many -----------------------------------------------------------------------------------


def test_more_cells_than_anybody_wants_are_refused_before_they_are_made(tmp_path: Path) -> None:
    model(tmp_path / "a.onnx", "n", "seq")
    many = list(range(1, 1002))
    text = f'[[models]]\nfiles = "a.onnx"\n[[models]]\nfiles = "a.onnx"\nbatches = {many}\nsizes.seq = {many}'
    told = mistake(tmp_path, text)
    assert "line 3: models[1]: with it the fleet has 1,002,002 cells, and at most 1,000,000 are possible" in told


def test_a_hundred_thousand_cells(tmp_path: Path) -> None:
    text = (
        f'[[models]]\nfiles = ["{SAMPLES}/resnet_tiny.onnx", "{SAMPLES}/lstm.onnx"]\nbatches = {list(range(1, 10001))}'
    )
    found = read(tmp_path, text, '[[targets]]\ngpu = ["l4", "t4", "a10", "a40", "l40s"]')
    assert len({cell.key for cell in found.cells}) == 100_000
    assert len({cell.group for cell in found.cells}) == 20_000
