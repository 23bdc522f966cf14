"""Plugins of every template in both forms, asked by TensorRT's own registry: versions x plugins, questions, seconds.

    python scripts/bench/plugin_forms.py [--dtype fp16] [--native HEADERS] FOLDER...

FOLDER holds the packages tensorrt_bindings and tensorrt_lean_libs of one version (``pip install --target FOLDER``);
HEADERS is a folder with NvInferRuntime.h. No GPU is needed. Kernels are
compiled for sm_75, sm_89 and sm_120.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.fakes.kernel_tasks import usual
from trtprof.plugin import contract, native, quick
from trtprof.plugin.build import build
from trtprof.plugin.kernel import write
from trtprof.plugin.specification import Specification

ARCHITECTURES = ("sm_75", "sm_89", "sm_120")


def specifications(dtype: str) -> dict[str, Specification]:
    """What each template writes for a usual task."""
    found = {}
    for name, task in usual(dtype).items():
        shapes = task.shapes({}, default=64)
        built = [one for one in build(task, write(task).kernels, shapes, (), ARCHITECTURES) if one.ptx]
        ptx = {(arch, one.kernel.tactic): text for one in built for arch, text in one.ptx.items()}
        found[name] = Specification(task, tuple(one.kernel for one in built), ptx)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", default="fp16")
    parser.add_argument("--native", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    given = parser.parse_args()
    steps = []
    begun = time.perf_counter()
    made = specifications(given.dtype)
    print(f"{len(made)} plugins of {given.dtype}, {sum(len(one.ptx) for one in made.values())} PTX files, "
          f"{time.perf_counter() - begun:.1f} s")  # fmt: skip
    for name, spec in made.items():
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            for file, content in {**quick.files(spec), **native.files(spec)}.items():
                (folder / file).write_bytes(content)
            found = [contract.registry(spec, folder, place=place) for place in given.folders]
            if given.native:
                found.append(contract.native(spec, folder, include=given.native, place=given.folders[-1]))
        for step in found:
            print(f"{name:24} {step.name:8} {step.verdict:8} {step.cases:6} {step.seconds:6.1f} s  {step.reason}")
        steps += found
    passed = sum(step.verdict == "passed" for step in steps)
    print(f"{len(made)} plugins x {len(given.folders)} versions: {passed} of {len(steps)} passed, "
          f"{sum(step.cases for step in steps):,} questions, {sum(step.seconds for step in steps):.0f} s")  # fmt: skip


if __name__ == "__main__":
    main()
