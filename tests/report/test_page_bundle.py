"""The bundle of the page that is installed is that of the sources beside it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

REPORT = Path(__file__).parents[2] / "profiler" / "trtprof" / "report"
WEB, TEMPLATES = REPORT / "web", REPORT / "templates"
PRODUCT = ("app.js", "fleet.js", "theme.js", "app.js.LICENSES.txt", "fleet.js.LICENSES.txt")
REBUILD = "after a change in report/web run `npm ci && npm run build` there, and commit templates/ with it"


def sources() -> list[str]:
    inside = [path.relative_to(WEB).as_posix() for path in (WEB / "src").rglob("*.ts")]
    return sorted(["build.mjs", "package.json", "package-lock.json", "tsconfig.json", *inside])


def digest(paths: list[str]) -> str:
    """As build.mjs computes it."""
    seen = hashlib.sha256()
    for path in paths:
        content = (WEB / path).read_bytes()
        seen.update(f"{path}\n{len(content)}\n".encode())
        seen.update(content)
    return seen.hexdigest()


@pytest.mark.parametrize("name", PRODUCT)
def test_the_product_is_of_these_sources(name: str) -> None:
    head = (TEMPLATES / name).read_text("utf-8")[:500]
    found = re.search(r"sources sha256:([0-9a-f]{64})", head)
    assert found, f"{name} names no sources"
    assert found[1] == digest(sources()), REBUILD


def test_a_change_of_any_source_changes_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest(sources())
    shutil.copytree(WEB, tmp_path / "web", ignore=shutil.ignore_patterns("node_modules"))
    monkeypatch.setattr(f"{__name__}.WEB", tmp_path / "web")
    assert digest(sources()) == before
    for path in ("src/charts/roofline.ts", "package-lock.json"):
        file = tmp_path / "web" / path
        file.write_text(file.read_text("utf-8") + "\n", "utf-8")
        assert digest(sources()) != before
        before = digest(sources())


def test_the_lock_file_pins_every_package_and_names_no_registry() -> None:
    lock = json.loads((WEB / "package-lock.json").read_text("utf-8"))
    wanted = json.loads((WEB / "package.json").read_text("utf-8"))
    for name, version in {**wanted["dependencies"], **wanted["devDependencies"]}.items():
        assert lock["packages"][f"node_modules/{name}"]["version"] == version
    for path, package in lock["packages"].items():
        assert "resolved" not in package
        assert not path or package["integrity"].startswith("sha512-")


def test_the_licences_of_all_that_is_bundled_are_there() -> None:
    words = (TEMPLATES / "app.js.LICENSES.txt").read_text("utf-8")
    lock = json.loads((WEB / "package-lock.json").read_text("utf-8"))["packages"]
    for name in ("@tanstack/virtual-core", "echarts", "tslib", "zrender"):
        assert f"{name} {lock[f'node_modules/{name}']['version']} (" in words
    for text in ("Apache License", "Redistribution and use in source and binary forms", "MIT License"):
        assert text in words


def test_the_sources_build_elements_from_text_alone() -> None:
    for path in (WEB / "src").rglob("*.ts"):
        words = path.read_text("utf-8")
        for way in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "fetch(",
        ):
            assert way not in words, f"{path.name} uses {way}"


@pytest.mark.browser
def test_a_build_from_the_lock_file_gives_the_same_bytes(web: Path, tmp_path: Path) -> None:
    checked = subprocess.run(["npm", "run", "check"], cwd=web, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
    built = subprocess.run(
        ["npm", "run", "build", "--", "--out", str(tmp_path)], cwd=web, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    for name in PRODUCT:
        assert (tmp_path / name).read_bytes() == (TEMPLATES / name).read_bytes(), REBUILD


@pytest.mark.browser
def test_laws_of_layout_and_merging(web: Path, tmp_path: Path) -> None:
    """The pure parts of the charts, by node's own test runner."""
    esbuild = web / "node_modules" / "esbuild" / "bin" / "esbuild"
    sources = [str(web / "src" / "charts" / f"{name}.ts") for name in ("layout", "merge", "modules")]
    subprocess.run(
        [str(esbuild), *sources, "--format=esm", f"--outdir={tmp_path}", "--out-extension:.js=.mjs"],
        check=True,
        capture_output=True,
    )
    done = subprocess.run(
        ["node", "--test", str(Path(__file__).with_name("page_charts_laws.test.mjs"))],
        env={**os.environ, "CHARTS": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "# pass 0" not in done.stdout


def test_what_only_tests_need_is_not_in_the_page() -> None:
    assert b"axe" not in (TEMPLATES / "app.js.LICENSES.txt").read_bytes()
    assert b"axe-core" not in (TEMPLATES / "app.js").read_bytes()
