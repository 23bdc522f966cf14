"""What a release carries: the licence, the manual, the man page, completion; and what works of it without a runtime."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

import trtprof
from tests.fakes.support import ROOT, load_script

pytestmark = pytest.mark.nightly

HIDDEN = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "onnxruntime":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
"""


@pytest.fixture(scope="module")
def release() -> ModuleType:
    return load_script(ROOT / "scripts" / "release.py", "release")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist and the wheel, as hatchling makes them."""
    wheel = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed").WheelBuilder
    sdist = pytest.importorskip("hatchling.builders.sdist").SdistBuilder
    folder = str(tmp_path_factory.mktemp("dist"))
    (source,) = sdist(str(ROOT)).build(directory=folder)
    (made,) = wheel(str(ROOT)).build(directory=folder, versions=["standard"])
    return Path(source), Path(made)


def test_contents_and_sizes_are_those_of_a_release(built: tuple[Path, Path], release: ModuleType) -> None:
    wrong = release.Wrong()
    release.contents(*built, wrong)
    assert wrong == []


def test_what_does_not_belong_into_a_release_is_told(
    built: tuple[Path, Path], release: ModuleType, tmp_path: Path
) -> None:
    wheel = tmp_path / "trtprof-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tests/data/model.onnx", b"")
    source = tmp_path / "trtprof-0.1.0.tar.gz"
    with tarfile.open(source, "w:gz") as archive_:
        archive_.add(__file__, "trtprof-0.1.0/tests/test_release.py")
    wrong = release.Wrong()
    release.contents(source, wheel, wrong)
    assert "the wheel has tests/data/model.onnx" in wrong
    assert "the wheel has no trtprof/py.typed" in wrong
    assert "the sdist has tests, and their data" in wrong


def test_the_metadata_name_the_licence_and_the_one_version(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith("dist-info/METADATA"))
        metadata = archive.read(name).decode()
    assert f"\nVersion: {trtprof.__version__}\n" in metadata
    assert "\nLicense-Expression: Apache-2.0\n" in metadata
    assert metadata.count("\nLicense-File: ") == 4
    assert "version" not in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_man_page_knows_every_command_and_option() -> None:
    """After a change of the command line: scripts/docs files."""
    scripts = load_script(ROOT / "scripts" / "manual.py", "manual_script")
    kept = (scripts.SHELL / "trtprof.1").read_text(encoding="utf-8")
    words = {name: set(re.findall(r"\S+", text)) for name, text in (("kept", kept), ("now", scripts.man_page()))}
    assert words["now"] - words["kept"] == set()
    assert len(words["kept"]) > 1000


def test_what_a_reader_of_a_page_types_is_found_with_its_exit_code(release: ModuleType) -> None:
    page = (
        "```console\n$ trtprof gpus l4\nL4\n$ trtprof run \\\n    m.onnx\n```\n"
        "<!-- exit: 1 -->\n```sh\ntrtprof rules\n```\n"
        "<!-- on a GPU -->\n```sh\ntrtprof build m.onnx\n```\n"
    )
    assert list(release.commands(page)) == [
        ("trtprof gpus l4", 0),
        ("trtprof run      m.onnx", 0),
        ("trtprof rules", 1),
    ]


def test_what_measures_nothing_needs_no_runtime(tmp_path: Path, subtests: pytest.Subtests) -> None:
    (tmp_path / "sitecustomize.py").write_text(HIDDEN)
    environment = dict(os.environ) | {"PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT / "profiler")))}
    for words in (
        "inspect sample_models/resnet_tiny.onnx", "predict sample_models/gemv.onnx --gpu l4", "report reports/example",
        "analyze tests/engine/data/rtx_resnet_tiny.log --onnx sample_models/resnet_tiny.onnx --batch 2 --gpu l4",
        "compare reports/example reports/example-1-thread", "help index",
    ):  # fmt: skip
        with subtests.test(words):
            command = [sys.executable, "-m", "trtprof", *words.split()]
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
    hidden = [sys.executable, "-c", "import onnxruntime"]
    assert subprocess.run(hidden, env=environment, capture_output=True, check=False).returncode, "it was hidden indeed"
