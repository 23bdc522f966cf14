"""A model as it is asked for: read once, opened, bound to its shapes, and named as it was asked for."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.fakes.support import SAMPLES
from trtprof.base.errors import UsageError
from trtprof.source import export
from trtprof.source.request import ModelRequest
from trtprof.source.spec import ExportOptions, ModelSpec

RESNET = SAMPLES / "resnet_tiny.onnx"


def test_shapes_are_read_once_and_kept_as_they_were_written() -> None:
    asked = ModelRequest.of("m.onnx", ["x:1x3,y:2", "z:scalar"], batch=4, dtypes=("y:int64",))
    assert asked.shapes == {"x": (1, 3), "y": (2,), "z": ()}
    assert asked.shapes_given == ("x:1x3,y:2", "z:scalar")
    assert (asked.batch, asked.export.dtypes) == (4, ("y:int64",))
    with pytest.raises(UsageError, match="cannot be read"):
        ModelRequest.of("m.onnx", ["x:1xN"])


def test_a_file_is_opened_and_bound() -> None:
    asked = ModelRequest.of(RESNET, ["image:3x3x64x64"])
    with asked.opened() as loaded:
        source = asked.bound(loaded)
    assert source.model.path == str(RESNET)
    assert [tensor.shape for tensor in source.model.inputs] == [(3, 3, 64, 64)]
    assert not source.model.sha256, "what does not run is not read in full"


def test_a_named_dimension_gets_its_number_in_each_input_that_has_it_and_guesses_still_fit_the_graph() -> None:
    asked = ModelRequest.of(SAMPLES / "transformer_block.onnx", batch=3, symbols={"sequence": 17})
    with asked.opened() as loaded:
        assert [tensor.shape for tensor in asked.bound(loaded).model.inputs] == [(3, 17), (3, 17)]
        with pytest.raises(UsageError, match="'seq' is not a dynamic dimension") as wrong:
            msgspec.structs.replace(asked, symbols={"seq": 17}).bound(loaded)
    assert "batch, sequence" in wrong.value.fix


@pytest.mark.parametrize(
    ("option", "field"), [("--dtypes", "dtypes"), ("--dynamic", "dynamic"), ("--factory-arg", "factory_args")]
)
def test_how_to_export_is_refused_for_a_file(option: str, field: str) -> None:
    given: dict[str, Any] = {field: ("x",)}
    with pytest.raises(UsageError, match=f"{option} is not for"), ModelRequest.of(RESNET, **given).opened():
        pass


def test_a_spec_is_exported_for_as_long_as_it_is_open_and_keeps_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ModelRequest.of("package.module:net", ["image:2x3x64x64"], factory_args=("width=64",))
    made: list[tuple[ModelSpec, ExportOptions]] = []

    def export_model(spec: ModelSpec, how: ExportOptions, path: Path, *_: Any) -> export.Exported:
        made.append((spec, how))
        shutil.copy(RESNET, path)
        return export.Exported(path, None, {}, ["exported by a stand-in"])

    monkeypatch.setattr(export, "export_model", export_model)
    with asked.opened() as loaded:
        assert loaded.path.name == "net.onnx"
        source = asked.bound(loaded)
    assert made == [(ModelSpec("package.module", "net"), asked.export)]
    assert not loaded.path.exists()
    assert source.model.path == "package.module:net"
    assert "exported by a stand-in" in source.model.assumptions
