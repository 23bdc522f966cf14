"""Hold kernels of random tasks against float64, plant faults into them, and show what was not caught.

    python scripts/fuzz/plugins.py --seconds 120 --seed 0 [--only TEMPLATE,...] [--faults 6] [--keep FOLDER]

Each kernel is compiled for an architecture at random, and its registers and what it spills are counted, too.
Exit code 1 if a kernel that nobody touched fails or spills.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import onnx.printer

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fakes.planted_faults import Stand, some, telling
from tests.fakes.random_tasks import DRAWN
from trtprof.plugin.kernel import TEMPLATES, Kernel, NotFitError
from trtprof.plugin.ptx.fault import Fault
from trtprof.plugin.task import Task
from trtprof.runtime.nvrtc import compile_source

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="names of templates, with commas")
    parser.add_argument("--faults", type=int, default=6, help="planted into a kernel")
    parser.add_argument("--keep", type=Path, help="where kernels that fail are written, and faults that are not caught")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else [name for name in DRAWN if name in TEMPLATES.keys()]  # noqa: SIM118 - of a registry
    found = Found()
    failed = number = 0
    began = time.perf_counter()
    while time.perf_counter() - began < options.seconds:
        number += 1
        random = Random(options.seed * 1_000_003 + number)  # noqa: S311 - of tests
        failed += not one_kernel(random, names[number % len(names)], number, options, found)
    seconds = time.perf_counter() - began
    _table(names, found)
    print(f"{found.kernels.total()} kernels, {found.cases.total()} cases in {seconds:.0f} s (seed {options.seed}): "
          f"{failed} failed; faults planted {found.planted.total()}, caught {found.caught.total()}")  # fmt: skip
    return 1 if failed else 0


@dataclass
class Found:
    """What is counted, by template; faults by template and kind, errors by template and dtype."""

    kernels: Counter[str] = field(default_factory=Counter)
    cases: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    registers: dict[str, list[int]] = field(default_factory=dict)
    worst: dict[tuple[str, str], float] = field(default_factory=dict)
    planted: Counter[tuple[str, str]] = field(default_factory=Counter)
    caught: Counter[tuple[str, str]] = field(default_factory=Counter)


def one_kernel(random: Random, name: str, number: int, options: argparse.Namespace, found: Found) -> bool:
    """A random task, one of its kernels, and some faults; whether the kernel is right."""
    task = DRAWN[name](random)
    dtype = task.outputs[0].dtype
    try:
        variants = next(one for one in TEMPLATES.values() if one.name == name).write(task)
    except NotFitError:
        found.refused[name] += 1
        return True
    kernel, architecture = random.choice(list(variants)), random.choice(ARCHITECTURES)
    found.kernels[name] += 1
    stand = Stand(task, telling(task))
    made = compile_source(kernel.source.encode(), architecture, fast_math=False)
    ptx = made.ptx
    title = f"{name} {dtype} {kernel.label} {architecture} (number {number})"
    found.registers.setdefault(name, []).extend(int(one) for one in re.findall(r"Used (\d+) registers", made.log))
    if re.search(r"\b[1-9]\d* bytes spill", made.log):
        print(f"FAILED {title}: it spills\n{_shown(task)}")
        return False
    try:
        outcome, done = stand.outcome(kernel, ptx)
    except Fault as error:
        print(f"FAILED {title}: {error}")
        return False
    found.cases[name] += done
    if not outcome.ok:
        print(f"FAILED {title}: {outcome.reason} ({outcome.worst} floors)\n{_shown(task)}")
        _keep(options.keep, f"failed-{number}", kernel, kernel.source)
        return False
    found.worst[name, dtype] = max(found.worst.get((name, dtype), 0.0), outcome.worst or 0.0)
    for fault in some(kernel.source, options.faults, random):
        reason = stand.caught(kernel, fault, ptx, architecture)
        if reason is None:
            continue
        found.planted[name, fault.kind] += 1
        found.caught[name, fault.kind] += bool(reason)
        if not reason:
            print(f"NOT CAUGHT {title}: {fault.kind}, line {fault.line}\n"
                  f"    - {fault.before}\n    + {fault.after}\n    {_shown(task, brief=True)}")  # fmt: skip
            _keep(options.keep, f"left-{number}-{fault.line}", kernel, fault.text)
    return True


def _table(names: list[str], found: Found) -> None:
    print(f"{'template':12} {'kernels':>8} {'refused':>8} {'cases':>8}  {'planted':>8} {'caught':>8} "
          f"{'registers':>10}  worst in floors")  # fmt: skip
    for name in names:
        errors = ", ".join(f"{dtype} {value:.2f}" for (of, dtype), value in sorted(found.worst.items()) if of == name)
        wrong, right = (sum(n for (of, _), n in one.items() if of == name) for one in (found.planted, found.caught))
        used = found.registers.get(name, [0])
        few, many = min(used), max(used)
        print(f"{name:12} {found.kernels[name]:8} {found.refused[name]:8} {found.cases[name]:8}  {wrong:8} {right:8}"
              f" {few:>4} to {many:>2}  {errors}")  # fmt: skip
    print()
    for kind in sorted({kind for _, kind in found.planted}):
        wrong, right = (sum(n for (_, of), n in one.items() if of == kind) for one in (found.planted, found.caught))
        print(f"{kind:28} {wrong:6} planted {right:6} caught")


def _shown(task: Task, *, brief: bool = False) -> str:
    shapes = ", ".join(f"{one.name} {one.dtype}{list(one.dims)}" for one in (*task.inputs, *task.outputs))
    return shapes if brief else f"{shapes}\n{onnx.printer.to_text(task.body)}"


def _keep(folder: Path | None, name: str, kernel: Kernel, source: str) -> None:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}-{kernel.template}.cu").write_text(source)


if __name__ == "__main__":
    raise SystemExit(main())
