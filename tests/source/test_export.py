"""A PyTorch module exported: what a spec says, what torch makes of it, and what is refused.

The tests that export skip without torch, which the dev extra leaves out for its size.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import itertools
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from trtprof.base.errors import BuildError, MissingError, TrtprofError, UsageError
from trtprof.source.export import export_model, staged
from trtprof.source.load import graph_inputs, load_model
from trtprof.source.shapes import parse_shapes
from trtprof.source.spec import (
    DynamicDim,
    ExportOptions,
    ModelSpec,
    parse_dtypes,
    parse_dynamic,
    parse_factory_args,
    parse_spec,
)

_TORCH = importlib.util.find_spec("torch") and importlib.util.find_spec("onnxscript")


def needs_torch(function: Callable[..., None]) -> Callable[..., None]:
    """Nightly, since an export takes seconds; skipped where the extra is not installed."""
    missing = pytest.mark.skipif(
        not _TORCH, reason="torch or onnxscript is not installed: pip install 'trtprof[export]'"
    )
    marked: Callable[..., None] = pytest.mark.nightly(missing(function))
    return marked


NETS = """
import torch
from torch import nn


class Cnn(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, width, 3, stride=2, padding=1), nn.Linear(width, 4)

    def forward(self, x):
        return self.fc(self.conv(x).relu().mean((2, 3)))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True)

    def forward(self, x):
        return self.lstm(x)[0]


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(100, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids, mask=None):
        return self.layers(self.table(ids), src_key_padding_mask=mask)


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(x + torch.ones(4))


class Product(nn.Module):
    def forward(self, x, y):
        return (x @ y).softmax(-1)


class Spare(nn.Module):
    def forward(self, x, unused):
        return x * 2


relu = nn.ReLU()


def by_position():
    return nn.Bilinear(4, 5, 6), (torch.randn(1, 4), torch.randn(1, 5))


def by_name():
    return Encoder(), {"mask": torch.zeros(1, 7, dtype=torch.bool), "ids": torch.ones(1, 7, dtype=torch.int64)}


def misfit():
    return Cnn(), (torch.ones(1, 3, 8, 8), torch.ones(1))


def wide(width, kind="linear"):
    return nn.Linear(width, width) if kind == "linear" else None


def broken():
    raise ValueError("no checkpoint\\nin this folder")
"""


@pytest.fixture
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of `NETS`, importable from the current folder as ``export_nets``."""
    (tmp_path / "export_nets.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "export_nets", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("export_nets")


def export(name: str, shapes: str = "", path: str = "model.onnx", **options: Any) -> Path:
    spec = parse_spec(f"export_nets:{name}")
    assert spec is not None
    given = parse_shapes([shapes] if shapes else [])
    return export_model(spec, ExportOptions(shapes=given, **options), Path(path)).path


def fails(name: str, shapes: str = "", **options: Any) -> TrtprofError:
    with pytest.raises(TrtprofError) as caught:
        export(name, shapes, **options)
    assert not Path("model.onnx").exists()
    assert caught.value.why
    assert caught.value.fix
    return caught.value


def dims(path: Path) -> dict[str, tuple[int | str, ...] | None]:
    return {tensor.name: tensor.shape for tensor in graph_inputs(load_model(path).proto)}


def outputs(path: Path, values: Mapping[str, Any]) -> list[Any]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return list(session.run(None, {name: value.numpy() for name, value in values.items()}))


# --- what the command line says -------------------------------------------------------------------


def test_a_spec_is_told_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for text, module, attribute in (
        ("package.module:factory", "package.module", "factory"),
        ("net:Net.small", "net", "Net.small"),
        ("../my-nets/net.v2.py:factory", "../my-nets/net.v2.py", "factory"),
        (r"C:\nets\net.py:factory", r"C:\nets\net.py", "factory"),
        ("odd:name", "odd", "name"),
    ):
        assert parse_spec(text) == ModelSpec(module, attribute)
    Path("odd:name").touch()
    for text in ("model.onnx", r"C:\nets\model.onnx", "C:/model.onnx", "Input:0", "a-b:c", "net:", ":net", "odd:name"):
        assert parse_spec(text) is None, text
    with pytest.raises(UsageError, match=r"net\.py does not say which model") as caught:
        parse_spec("net.py")
    assert "net.py:<factory>" in caught.value.fix


def test_dtypes_dimensions_and_arguments_are_read() -> None:
    dtypes = {"ids": "int64", "mask": "bool", "x": "fp16", "y": "fp32"}
    assert parse_dtypes(["ids:int64,mask:bool", "x:float16, y:fp32"]) == dtypes
    assert parse_dynamic(["0=batch, x:2=height", "x : 3 = width"]) == [
        DynamicDim(None, 0, "batch"),
        DynamicDim("x", 2, "height"),
        DynamicDim("x", 3, "width"),
    ]
    given = ["width=64", "name=resnet18", "sizes=[1, 2]", "path=a=b", "none=None"]
    assert parse_factory_args(given) == {
        "width": 64, "name": "resnet18", "sizes": [1, 2], "path": "a=b", "none": None,
    }  # fmt: skip


def test_other_forms_are_refused() -> None:
    for text in ("ids", "ids:", ":int64", "ids:long", "", "ids:int64,", "ids:int64,ids:int32"):
        with pytest.raises(UsageError, match="--dtypes"):
            parse_dtypes([text])
    for text in ("x:0", "x:-1=n", "x:0=", "x:0=2", "x:0=a b", "x:0=class", "", "x:0=n,x:0=m", "a.b:0=n"):
        with pytest.raises(UsageError, match="--dynamic"):
            parse_dynamic([text])
    for arguments in (["width"], ["=3"], ["a b=3"], ["a=1", "a=2"]):
        with pytest.raises(UsageError, match="--factory-arg"):
            parse_factory_args(arguments)


# --- files ----------------------------------------------------------------------------------------


def test_files_appear_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "model.onnx"
    with staged(target, force=False) as path:
        path.write_text("model")
        path.with_name("model.onnx.data").write_text("weights")
        assert not target.exists()
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        "model.onnx": "model",
        "model.onnx.data": "weights",
    }


def _export(target: Path, value: float) -> None:
    """Export a model with one weight, which lies beside it as the exporter has it."""
    with staged(target, force=True) as path:
        tensor = numpy_helper.from_array(np.full(64, value, np.float32), "w")
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [64])
        graph = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", [], [y], [tensor])
        location = f"{path.name}.data"
        onnx.save(helper.make_model(graph), path, save_as_external_data=True, location=location, size_threshold=0)


def _weight(path: Path) -> float:
    return float(numpy_helper.to_array(onnx.load(path).graph.initializer[0])[0])


@pytest.mark.parametrize("moves", [0, 1, 2])
def test_a_model_and_its_weights_are_of_one_export_whenever_it_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: int
) -> None:
    target, made = tmp_path / "model.onnx", itertools.count()
    _export(target, 1.0)

    def killed(move: Callable[..., Any]) -> Callable[..., Any]:
        def moved(*args: Any, **options: Any) -> None:
            if next(made) == moves:
                raise KeyboardInterrupt
            move(*args, **options)

        return moved

    with monkeypatch.context() as patched, contextlib.suppress(KeyboardInterrupt):
        for name in ("replace", "unlink"):
            patched.setattr(Path, name, killed(getattr(Path, name)))
        _export(target, 2.0)
    assert _weight(target) == (2.0 if moves == 2 else 1.0)
    _export(target, 3.0)
    assert _weight(target) == 3.0
    assert len(list(tmp_path.iterdir())) == 2


def test_impossible_targets_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for target, error, words in (
        (".", UsageError, "a folder"),
        ("-", UsageError, "two files"),
        ("nowhere/model.onnx", MissingError, "there is no folder"),
    ):
        with pytest.raises(error, match=words), staged(Path(target), force=True):
            pass


# --- torch itself ---------------------------------------------------------------------------------


@pytest.mark.parametrize("package", ["torch", "onnxscript"])
def test_without_torch_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingError, match="needs torch and onnxscript") as caught:
        export_model(ModelSpec("net", "make"), ExportOptions(), tmp_path / "model.onnx")
    assert "pip install 'trtprof[export]'" in caught.value.fix
    assert caught.value.exit_code == 3


def test_an_old_torch_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "torch.onnx", "onnxscript"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(sys.modules["torch"], "__version__", "2.1.0+cpu", raising=False)
    with pytest.raises(MissingError, match=r"torch 2\.1\.0\+cpu is too old"):
        export_model(ModelSpec("net", "make"), ExportOptions(), tmp_path / "model.onnx")


@needs_torch
@pytest.mark.parametrize(
    ("name", "shapes", "dynamic", "dtypes"),
    [
        ("Cnn", "x:1x3x16x16", "0=batch,x:2=height,x:3=width", ()),
        ("Lstm", "x:1x5x8", "x:0=batch", ()),
        ("Encoder", "ids:1x7", "0=batch,1=length", ("ids:int64",)),
        ("Encoder", "ids:2x7,mask:2x7", "0=batch,1=length", ("ids:int64", "mask:bool")),
        ("Product", "x:1x3x4,y:1x4x5", "0=batch,x:1=rows", ()),
        ("Spare", "x:1x3,unused:1x2", "0=batch", ()),
    ],
)
def test_exported_models_compute_what_torch_does(
    nets: ModuleType, name: str, shapes: str, dynamic: str, dtypes: tuple[str, ...]
) -> None:
    import torch

    path = export(name, shapes, dynamic=(dynamic,), dtypes=dtypes)
    torch.manual_seed(0)  # as the export does before it calls the factory
    module = getattr(nets, name)().eval()
    found = dims(path)
    for batch, other in ((1, 6), (2, 8), (5, 4)):
        values: dict[str, Any] = {}
        for tensor in graph_inputs(load_model(path).proto):
            assert tensor.shape is not None
            shape = [dim if isinstance(dim, int) else batch if dim == "batch" else other for dim in tensor.shape]
            values[tensor.name] = {
                "fp32": torch.randn(shape),
                "int64": torch.randint(0, 100, shape),
                "bool": torch.zeros(shape, dtype=torch.bool),
            }[tensor.dtype]
        if "mask" in values:
            values["mask"][:, -1] = True
        with torch.no_grad():
            wanted = module(**values).numpy()
        (got,) = outputs(path, values)
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    assert all(shape is not None and shape[0] == "batch" for shape in found.values())
    assert found.keys() == {item.partition(":")[0] for item in shapes.split(",")}


@needs_torch
def test_examples_stand_for_shapes(nets: ModuleType) -> None:
    assert dims(export("by_position", dynamic=("0=batch",))) == {"input1": ("batch", 4), "input2": ("batch", 5)}
    assert dims(export("by_position", "input1:3x4,input2:3x5")) == {"input1": (3, 4), "input2": (3, 5)}
    path = export("by_name", dynamic=("0=batch,1=length",))
    assert [(tensor.name, tensor.dtype, tensor.shape) for tensor in graph_inputs(load_model(path).proto)] == [
        ("ids", "int64", ("batch", "length")),
        ("mask", "bool", ("batch", "length")),
    ]


@needs_torch
@pytest.mark.parametrize(("precision", "dtype"), [("fp16", "fp16"), ("bf16", "bf16"), ("", "fp32")])
def test_precision_converts_parameters_and_float_inputs(nets: ModuleType, precision: str, dtype: str) -> None:
    path = export("Encoder", "ids:1x7", dtypes=("ids:int64",), precision=precision)
    proto = load_model(path).proto
    assert [tensor.dtype for tensor in graph_inputs(proto)] == ["int64"]
    onnx_dtypes = {"fp16": onnx.TensorProto.FLOAT16, "bf16": onnx.TensorProto.BFLOAT16, "fp32": onnx.TensorProto.FLOAT}
    assert proto.graph.output[0].type.tensor_type.elem_type == onnx_dtypes[dtype]
    weights = [tensor.data_type for tensor in proto.graph.initializer if len(tensor.dims) == 2]
    assert weights
    assert set(weights) == {onnx_dtypes[dtype]}
    path = export("Cnn", "x:1x3x16x16", path="cnn.onnx", precision=precision)
    assert [tensor.dtype for tensor in graph_inputs(load_model(path).proto)] == [dtype]


@needs_torch
def test_the_opset_is_that_asked_for(nets: ModuleType) -> None:
    assert load_model(export("Cnn", "x:1x3x16x16", opset=21)).proto.opset_import[0].version == 21
    error = fails_in(BuildError, "Cnn", "x:1x3x16x16", opset=99)
    assert "cannot be exported with opset 99" in error.what
    assert re.fullmatch(r"--opset \d\d", error.fix)


def fails_in(kind: type[TrtprofError], name: str, shapes: str = "", **options: Any) -> TrtprofError:
    Path("model.onnx").unlink(missing_ok=True)
    error = fails(name, shapes, **options)
    assert type(error) is kind
    return error


@needs_torch
@pytest.mark.parametrize(
    ("name", "shapes", "options", "what", "why", "fix"),
    [
        ("Encoder", "ids:1x7", {}, "failed on ids:1x7 fp32", r"Long.*\(export_nets.py:\d+\)", "--dtypes ids:int64"),
        ("Mixed", "x:2x4", {"precision": "fp16"}, "failed on x:2x4 fp16", "Float and Half", "leave --fp16 away"),
        ("Cnn", "", {}, "shapes of the inputs", r"forward takes \(x\)", "--shapes x:<dims>"),
        ("Cnn", "x:1x3x8x8", {"dtypes": ("y:int64",)}, "--dtypes names 'y'", "forward takes", "--dtypes x:int64"),
        ("misfit", "", {}, "example inputs of .* do not fit", "too many positional", "in that order"),
        ("wide", "", {}, "cannot be called", r"'width'; it takes \(width", "--factory-arg"),
        ("wide", "", {"factory_args": ("width=3", "kind=x")}, "no PyTorch module", "of type NoneType", "nn.Module"),
        ("broken", "", {}, ":broken failed", r"ValueError: no checkpoint in this folder \(export_nets.py:", ""),
        ("Cmn", "", {}, "has no 'Cmn'", "Cnn, Lstm, Encoder", "export_nets:Cnn"),
    ],
)
def test_one_error_says_what_is_wrong_with_the_call(
    nets: ModuleType, name: str, shapes: str, options: dict[str, Any], what: str, why: str, fix: str
) -> None:
    error = fails_in(UsageError, name, shapes, **options)
    assert re.search(what, error.what)
    assert re.search(why, error.why)
    assert fix in error.fix
    assert all("\n" not in line for line in (error.what, error.why, error.fix))
