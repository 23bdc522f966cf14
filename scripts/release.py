"""Build a release and check it, as somebody meets it who has nothing but the wheel.

    scripts/release [FOLDER]

The sdist and the wheel are built, `twine check` reads them, their contents and sizes are held against what they should
be, and the wheel is installed into an empty environment of each Python that is here, with ONNX Runtime's GPU wheel and
without any. There it does the tutorial of its own manual, every command of it; without ONNX Runtime what needs none.
Every figure is printed; what is wrong is told at the end, with exit code 1.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.fakes.manual import commands  # noqa: E402

MOST_BYTES = 12 * 1024**2
PYTHONS = ("python3.11", "python3.12", "python3.13")
SHIPS = (
    "trtprof/__init__.py", "trtprof/py.typed", "trtprof/docs/index.md", "trtprof/docs/tutorial.md",
    "trtprof/docs/sample_models/gemv.onnx", "trtprof/hardware/specs/l4.toml", "trtprof/expected/data/model.json",
    "trtprof/report/templates/app.js",
    "share/man/man1/trtprof.1", "share/bash-completion/completions/trtprof", "share/zsh/site-functions/_trtprof",
    "share/fish/vendor_completions.d/trtprof.fish",
    "licenses/profiler/trtprof/LICENSE", "licenses/profiler/trtprof/NOTICE",
)  # fmt: skip
OF_SOURCE = (
    "pyproject.toml",
    "README.md",
    "profiler/trtprof/LICENSE",
    "profiler/trtprof/docs/index.md",
    "scripts/trtprof",
)
NEVER = re.compile(r"(^|/)(tests?|node_modules|__pycache__|report/web|reports)/|\.generated\.onnx|\.pyc$")
WITHOUT_RUNTIME = (
    "inspect sample_models/resnet_tiny.onnx", "predict sample_models/gemv.onnx --gpu rtx-4090", "help tutorial",
    "rules KN701", "gpus l4", "kernel gemv", "sweep conv --kernel 1,3 --gpu t4",
    "fleet plan sample_models/fleet.toml",
)  # fmt: skip
"""Commands that need no ONNX Runtime; `analyze` and `report` read files that only a run makes: tests do these."""


class Wrong(list[str]):
    """What is wrong, told as it is found."""

    def add(self, text: str) -> None:
        self.append(text)
        print(f"WRONG  {text}", file=sys.stderr)


def run(*words: object, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **more)


def build(folder: Path, wrong: Wrong) -> tuple[Path, Path]:
    """The sdist and the wheel."""
    done = run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    if done.returncode:
        wrong.add(f"build: {done.stdout[-800:]}{done.stderr[-800:]}")
        sys.exit(1)
    sdist, wheel = max(folder.glob("*.tar.gz")), max(folder.glob("*.whl"))
    done = run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
    if done.returncode:
        wrong.add(f"twine check: {done.stdout}")
    return sdist, wheel


def contents(sdist: Path, wheel: Path, wrong: Wrong) -> None:
    """Names and sizes."""
    with zipfile.ZipFile(wheel) as archive, tarfile.open(sdist) as tar:
        names, of_source = archive.namelist(), [name.partition("/")[2] for name in tar.getnames()]
    for path, count in ((sdist, len(of_source)), (wheel, len(names))):
        print(f"{path.name:<34}{path.stat().st_size / 1e6:8.2f} MB{count:8} files")
        if path.stat().st_size > MOST_BYTES:
            wrong.add(f"{path.name} has {path.stat().st_size} bytes, more than {MOST_BYTES}")
    for problem in (
        *(f"the wheel has no {each}" for each in SHIPS if not any(name.endswith(each) for name in names)),
        *(f"the wheel has {name}" for name in names if NEVER.search(name)),
        *(f"the sdist has no {each}" for each in OF_SOURCE if each not in of_source),
        *["the sdist has tests, and their data"] * any(name.startswith("tests/") for name in of_source),
    ):
        wrong.add(problem)


def megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()) / 1e6


def try_it(python: str, wheel: Path, *, runtime: bool, wrong: Wrong) -> None:
    """Install the wheel into an empty environment, and do the tutorial there."""
    what = f"{python}, {'with' if runtime else 'without'} ONNX Runtime"
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        run(python, "-m", "venv", place / "venv")
        pip = [place / "venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        began = time.monotonic()
        if runtime:
            done = run(*pip, wheel)
        else:
            wanted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
            run(*pip, *(each for each in wanted if not each.startswith("onnxruntime")))
            done = run(*pip, "--no-deps", wheel)
        took = time.monotonic() - began
        if done.returncode:
            wrong.add(f"{what}: {done.stderr[-800:]}")
            return
        size = megabytes(place / "venv/lib")
        work = place / "work"
        work.mkdir()
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "TRTPROF", "CI"))}
        kept |= {"HOME": str(place), "PATH": f"{place / 'venv/bin'}:/usr/bin:/bin"}
        page = run(place / "venv/bin/trtprof", "help", "tutorial", cwd=work, env=kept).stdout
        typed = list(commands(page)) if runtime else [(f"trtprof {each}", 0) for each in WITHOUT_RUNTIME]
        if not runtime:
            typed.insert(0, ("trtprof help --samples", 0))
        began = time.monotonic()
        for line, code in typed:
            done = run(*shlex.split(line, comments=True), cwd=work, env=kept)
            if done.returncode != code:
                wrong.add(f"{what}: {line}: exit {done.returncode}: {done.stderr[-500:]}")
        if not typed:
            wrong.add(f"{what}: the tutorial has no commands")
        print(
            f"{what:<40}installed in {took:5.1f} s, {size:6.0f} MB; {len(typed)} commands in "
            f"{time.monotonic() - began:5.1f} s"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist")
    asked = parser.parse_args(arguments)
    wrong = Wrong()
    shutil.rmtree(asked.folder, ignore_errors=True)
    sdist, wheel = build(asked.folder.resolve(), wrong)
    contents(sdist, wheel, wrong)
    for python in os.environ.get("PYTHONS", "").split() or PYTHONS:
        if shutil.which(python) is None or run(python, "-c", "import venv").returncode:
            print(f"{python:<40}not here")
            continue
        for runtime in (True, False):
            try_it(python, wheel, runtime=runtime, wrong=wrong)
    print(f"{len(wrong)} wrong")
    return min(len(wrong), 1)


if __name__ == "__main__":
    sys.exit(main())
