"""Cells of a manifest: which files it means, what they are called, and what of a cell its address tells."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

from trtprof.base.errors import UsageError
from trtprof.base.records import FleetCell
from trtprof.flows.fleet import cells as cells_of
from trtprof.flows.fleet import manifest
from trtprof.flows.fleet.cells import Expanded, expand, in_shard, request_of

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


def read(folder: Path, text: str, targets: str = TARGETS) -> Expanded:
    file = folder / "fleet.toml"
    file.write_text(text + "\n" + targets)
    return expand(manifest.read(file))


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


def test_files_with_one_content_are_one_model(tmp_path: Path) -> None:
    model(tmp_path / "a.onnx", 1)
    shutil.copy(tmp_path / "a.onnx", tmp_path / "b.onnx")
    found = read(tmp_path, '[[models]]\nfiles = ["*.onnx"]')
    assert names(found) == ["a"]
    assert found.notes == (f"{tmp_path / 'b.onnx'} has the content of {tmp_path / 'a.onnx'}: both are one model",)


def test_what_is_no_model_has_cells_that_fail_later(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("this is no model")
    (tmp_path / "empty.onnx").write_bytes(b"")
    found = read(tmp_path, '[[models]]\nfiles = "*.onnx"\nbatches = [1, 2]\nsizes = { any = 3 }')
    assert len(found.cells) == 4
    assert found.notes == ("no ONNX model can be read from empty, text: their cells will fail",)


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


def test_a_size_that_a_model_cannot_have_is_told_with_what_it_can(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for line, said in SIZES.items():
        with subtests.test(line):
            model(tmp_path / "a.onnx", "n", "seq", 4)
            told = mistake(tmp_path, f'[[models]]\nfiles = "a.onnx"\n{line}')
            assert "fleet.toml, line 3: " in told
            assert said in told


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


def test_the_version_is_in_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model(tmp_path / "a.onnx", 1)
    text = '[[models]]\nfiles = "*.onnx"'
    before = read(tmp_path, text).cells[0]
    monkeypatch.setattr(cells_of, "__version__", "99")
    assert read(tmp_path, text).cells[0].key != before.key


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


# --- many -----------------------------------------------------------------------------------


def test_more_cells_than_anybody_wants_are_refused_before_they_are_made(tmp_path: Path) -> None:
    model(tmp_path / "a.onnx", "n", "seq")
    many = list(range(1, 1002))
    text = f'[[models]]\nfiles = "a.onnx"\n[[models]]\nfiles = "a.onnx"\nbatches = {many}\nsizes.seq = {many}'
    told = mistake(tmp_path, text)
    assert "line 3: models[1]: with it the fleet has 1,002,002 cells, and at most 1,000,000 are possible" in told
