"""Where tests stand: in the folders of what they test, and what they share in `tests.fakes`."""

from __future__ import annotations

import re

from tests.fakes.support import ROOT

TESTS = ROOT / "tests"


def test_no_test_imports_a_test_and_none_changes_the_path() -> None:
    wrong = re.compile(r"^ *(from|import) (test_|conftest|tests(?!\.fakes\b))|^ *sys\.path\.insert", re.MULTILINE)
    assert [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in sorted(TESTS.rglob("*.py"))
        for found in wrong.finditer(path.read_text(encoding="utf-8"))
    ] == []


def test_folders_of_tests_are_those_of_the_package() -> None:
    folders = {path.parent.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}
    assert {path for path in folders if not (ROOT / "profiler" / "trtprof" / path).is_dir()} == {
        "sample_models",
        "scripts",
    }
    # What is left at the top is about the repository.
    names = {path.name for path in TESTS.glob("test_*.py")}
    assert names == {
        "test_github_action.py", "test_layout.py", "test_manual.py", "test_readme.py",
    }  # fmt: skip


def test_a_file_is_named_like_its_module_or_says_what_it_tests() -> None:
    for path in TESTS.rglob("test_*.py"):
        folder, name = ROOT / "profiler" / "trtprof" / path.parent.relative_to(TESTS), path.stem.removeprefix("test_")
        modules = {file.stem.strip("_") for file in folder.glob("*.py")}
        assert name in modules or path.read_text(encoding="utf-8").startswith('"""'), path.relative_to(ROOT)
