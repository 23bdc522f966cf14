"""What the dialect says of each TensorRT, checked against the real bindings of each.

The bindings of TensorRT need its libraries, which are far larger and need a GPU; the few symbols that they
link are stubbed by a library compiled here, so that the modules import and can be asked for their names.
"""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.fakes.other_versions import TENSORRT, asked_of, other_version, stub_libraries
from tests.fakes.support import refused
from tests.fakes.tensorrt_names import NAMES, Name
from trtprof.base.errors import MissingError, UsageError
from trtprof.engine import _trt_build, dialect
from trtprof.engine.dialect import Dialect
from trtprof.runtime import tensorrt_module
from trtprof.runtime.tensorrt_module import PRODUCTS, installed_version, parse_version, product_of

ASK = """
import importlib, json, sys
from trtprof.engine.dialect import Dialect
from tests.fakes.tensorrt_names import NAMES
from trtprof.base.errors import UsageError
trt = importlib.import_module(sys.argv[1])
def has(path):
    found = trt
    for part in path.split("."):
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True
dialect = Dialect.of(trt)
try:
    strong = dialect.network_flags(strongly_typed=True)
except UsageError:
    strong = None
flag = trt.NetworkDefinitionCreationFlag
print(json.dumps({
    "version": trt.__version__,
    "names": {name.path: has(name.path) for name in NAMES},
    "weak": dialect.network_flags(strongly_typed=False),
    "strong": strong,
    "batch": int(flag.EXPLICIT_BATCH) if hasattr(flag, "EXPLICIT_BATCH") else None,
    "typed": int(flag.STRONGLY_TYPED) if hasattr(flag, "STRONGLY_TYPED") else None,
    "precision_flags": dialect.takes_precision_flags,
    "capabilities": list(dialect.compute_capabilities()),
}))
"""


@pytest.mark.nightly
@pytest.mark.parametrize("version", TENSORRT)
def test_the_real_bindings_have_just_the_names_that_the_list_says(version: str, tmp_path: Path) -> None:
    numbers = parse_version(version)
    path = other_version(TENSORRT[version])
    said = asked_of(ASK, ["tensorrt_bindings"], path, stub_libraries(tmp_path, numbers[0]))
    assert said["version"] == version
    assert said["names"] == {name.path: name.expected(numbers, rtx=False) for name in NAMES}
    assert said["precision_flags"] == (numbers < (11,))
    assert said["weak"] == (0 if said["batch"] is None else 1 << int(str(said["batch"])))
    if numbers < (10,):
        assert said["strong"] is None
    else:
        assert said["strong"] == int(str(said["weak"])) | 1 << int(str(said["typed"]))
        assert said["typed"] == (0 if numbers >= (11,) else 1), "why no number may be hard-coded"
    assert said["capabilities"] == []


@pytest.mark.process
def test_the_real_tensorrt_rtx_has_just_the_names_that_the_list_says() -> None:
    if importlib.util.find_spec("tensorrt_rtx") is None:
        pytest.skip("the package tensorrt_rtx is not installed")
    said = asked_of(ASK, ["tensorrt_rtx"])
    assert said["names"] == {name.path: name.expected((), rtx=True) for name in NAMES}
    assert said["precision_flags"] is False
    assert said["weak"] == 0
    assert said["strong"] == 1
    assert {"current", "7.5", "8.6", "8.9", "12.0"} <= set(str(said["capabilities"]).strip("[]'").split("', '"))


def test_every_member_that_the_code_takes_of_the_module_is_on_the_list() -> None:
    """Attributes written as ``trt.X`` or ``trt.X.Y``; what hangs on objects is caught by the stub."""
    known = {part for name in NAMES for part in (name.path, name.path.partition(".")[0])}
    used = set()
    for module in (dialect, _trt_build, tensorrt_module):
        assert module.__file__
        for node in ast.walk(ast.parse(Path(module.__file__).read_text(encoding="utf-8"))):
            text = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
            for start in ("self.trt.", "dialect.trt.", "trt."):
                if text.startswith(start):
                    used.add(text.removeprefix(start).partition("(")[0])
                    break
    assert {"Builder", "OnnxParser", "ILogger.__init__", "ProfilingVerbosity.DETAILED"} <= used
    assert {name for name in used if "__" not in name} <= known


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("10.16.1.11", (10, 16, 1, 11)), ("8.6.1", (8, 6, 1)), ("10.0.0b6", (10, 0, 0)),
     ("11.0.0.114.post1", (11, 0, 0, 114)), ("", ())],
)  # fmt: skip
def test_versions_are_numbers(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_version(text) == numbers


def test_a_name_has_a_first_and_a_last_version() -> None:
    name = Name("A.b", since=(10,), until=(11,), rtx=False)
    assert [name.expected(version, rtx=False) for version in ((8, 6, 1), (10,), (10, 16, 1, 11), (11,), (11, 4))] == [
        False, True, True, False, False,
    ]  # fmt: skip
    assert not name.expected((10,), rtx=True)
    assert not Name("A.b", since=None).expected((10,), rtx=False)
    assert Name("A.b", since=None).expected((1, 7), rtx=True)


@pytest.mark.parametrize(("module", "version"), [("tensorrt", "8.5.3.1"), ("tensorrt_rtx", "1.4.0.76")])
def test_a_version_that_is_too_old_is_refused(module: str, version: str) -> None:
    with pytest.raises(MissingError) as caught:
        Dialect.of(SimpleNamespace(__name__=module, __version__=version))
    assert version in str(caught.value)
    assert "pip install -U" in caught.value.fix


def test_the_bindings_go_by_their_own_name_too() -> None:
    found = Dialect.of(SimpleNamespace(__name__="tensorrt_bindings", __version__="10.0.1"))
    assert found.title == "TensorRT 10.0.1"
    assert not found.is_rtx


def test_a_backend_that_builds_nothing_with_tensorrt_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        product_of("ort-cpu")
    assert "tensorrt-rtx" in refused(caught.value)


def test_a_package_that_is_not_there_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert installed_version(PRODUCTS["tensorrt"]) is None
