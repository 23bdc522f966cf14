from __future__ import annotations

from pathlib import Path

import pytest
from onnx import helper

from trtprof.base.errors import MissingError, UsageError
from trtprof.base.records import SCHEMA_VERSION
from trtprof.plugin import sizes
from trtprof.plugin.folder import FILE, KernelFiles, OfRun, PluginFolder, kernel_files, load, save
from trtprof.plugin.kernel import Extra, Kernel
from trtprof.plugin.task import Operand, Task


def task() -> Task:
    body = helper.make_function(
        "trtprof", "Twice", ["x"], ["y"], [helper.make_node("Add", ["x", "x"], ["y"])], [helper.make_opsetid("", 17)]
    )
    x, y = (Operand(name, "fp32", ("n", 3), f"model/{name}") for name in "xy")
    return Task("Twice", ("add",), (x,), (y,), body, "Add")


KERNEL = Kernel(
    "pointwise", 1, "plain", "twice", "extern \"C\" ...", ("x",), ("y",),
    (sizes.cdiv(sizes.dim(0, 0) * 3, 256), sizes.number(1), sizes.number(1)), (256, 1, 1), "it is", 16,
    (Extra("n", sizes.least(sizes.dim(0, 0), 7)),), {"x": sizes.dim(0, 0) * 12}, (8, 0), 2.0,
)  # fmt: skip


def written(folder: Path) -> PluginFolder:
    folder.mkdir()
    files = {"twice.cu": KERNEL.source, "ptx/twice.80.ptx": "// 80", "ptx/twice.90a.ptx": "// 90a"}
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    kernel = kernel_files(KERNEL, "twice.cu", {"sm_90a": "ptx/twice.90a.ptx", "sm_80": "ptx/twice.80.ptx"})
    given = PluginFolder.of(
        task(), (kernel,), model="m.onnx", dims={"n": 5}, run=OfRun(folder="m-1", created="now", kernels_ns=7)
    )
    save(folder, given)
    return given


def test_what_was_written_is_read_back_and_is_the_same_bytes_anywhere(tmp_path: Path) -> None:
    given, other = written(tmp_path / "a"), written(tmp_path / "somewhere else")
    assert given == other
    found = load(tmp_path / "a")
    assert found == given
    assert (tmp_path / "a" / FILE).read_bytes() == (tmp_path / "somewhere else" / FILE).read_bytes()
    assert str(tmp_path).encode() not in (tmp_path / "a" / FILE).read_bytes()
    assert found.task == task()
    assert found.kernels_in(tmp_path / "a") == (KERNEL,)
    assert found.ptx_in(tmp_path / "a") == {("sm_80", 1): "// 80", ("sm_90a", 1): "// 90a"}
    assert found.operand_shapes == ((5, 3),)
    ((kernel,), shapes) = found.kernels_in(tmp_path / "a"), found.operand_shapes
    assert kernel.launch(shapes) == ((1, 1, 1), (5,))


def test_a_device_gets_the_ptx_of_the_nearest_architecture_that_it_runs(subtests: pytest.Subtests) -> None:
    for capability, file in (
        ((7, 5), ""),
        ((8, 0), "80"),
        ((8, 9), "80"),
        ((9, 0), "90a"),
        ((10, 0), "80"),
        ((12, 0), "80"),
    ):
        with subtests.test(file):
            files = KernelFiles(kernel=KERNEL, source="", ptx={"sm_80": "80", "sm_90a": "90a"})
            assert files.ptx_for(capability) == file


def test_a_folder_that_is_none_says_so(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="is no folder of trtprof plugin") as caught:
        load(tmp_path / "none")
    assert "No such file" in caught.value.why
    with pytest.raises(MissingError, match="is no folder of trtprof plugin") as caught:
        load(tmp_path)
    assert caught.value.why == "plugin.json is not in it"


@pytest.mark.parametrize("text", ["", "{}", '{"schema_version": "x"}', f'{{"schema_version": {SCHEMA_VERSION}}}'])
def test_a_damaged_file_is_one_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(UsageError, match="cannot be read"):
        load(tmp_path)


def test_another_version_is_told(tmp_path: Path) -> None:
    written(tmp_path / "a")
    text = (tmp_path / "a" / FILE).read_text()
    (tmp_path / "a" / FILE).write_text(text.replace(f'"schema_version": {SCHEMA_VERSION}', '"schema_version": 99'))
    with pytest.raises(UsageError, match="cannot be read") as caught:
        load(tmp_path / "a")
    assert caught.value.why == f"it has schema version 99, this trtprof reads {SCHEMA_VERSION}"


def test_no_file_outside_of_the_folder_is_read(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name in ("/etc/passwd", "../outside", "a/../../b", "C:\\x", "a\\..\\b"):
        with subtests.test(name):
            save(tmp_path, PluginFolder.of(task(), inserted="model.onnx"))
            text = (tmp_path / FILE).read_text()
            (tmp_path / FILE).write_text(text.replace('"model.onnx"', '"' + name.replace("\\", "\\\\") + '"'))
            with pytest.raises(UsageError, match="is not used"):
                load(tmp_path)
