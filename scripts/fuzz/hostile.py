"""Ask commands of hostile inputs, and show what ended in anything but an answer or a clear error.

    python scripts/fuzz/hostile.py CAMPAIGN,... --seed 1 --count 200 --out FOLDER [--jobs 2] [--data FOLDER]
    python scripts/fuzz/hostile.py CAMPAIGN --seed 1 --only NUMBER --out FOLDER [--data FOLDER]

CAMPAIGN is a module of tests/fakes/hostile, or ``all``. A case is made from its seed and number alone, so ``--only``
asks the same again and keeps its folder. Inputs that went wrong are kept below FOLDER/failures. Exit code 1 if any did.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fakes import hostile
from tests.fakes.hostile.running import Runner

NO_CAMPAIGN = ("__init__", "running", "mutate")
CAMPAIGNS = sorted({path.stem for path in Path(hostile.__file__).parent.glob("*.py")} - {*NO_CAMPAIGN})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("campaigns", help="one of " + ", ".join(CAMPAIGNS) + "; several with commas; or all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100, help="cases of each campaign")
    parser.add_argument("--seconds", type=float, default=1e9, help="at most for each campaign")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--job", type=int, default=-1, help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help="real files by others, which are broken, too")
    parser.add_argument("--only", type=int, help="the number of one case, whose folder is kept")
    options = parser.parse_args()
    names = CAMPAIGNS if options.campaigns == "all" else options.campaigns.split(",")
    if unknown := sorted({*names} - {*CAMPAIGNS}):
        parser.error(f"no campaign {', '.join(unknown)}; known: {', '.join(CAMPAIGNS)}")
    options.out.mkdir(parents=True, exist_ok=True)
    if options.job >= 0 or options.only is not None:
        return _one_job(names[0], options)
    print(f"{'campaign':<12} {'inputs':>7} {'wrong':>6} {'answered':>9} {'seconds':>8} {'slowest':>8} {'most MiB':>9}")
    wrong = 0
    for name in names:
        wrong += _campaign(name, options)
    return 1 if wrong else 0


def _campaign(name: str, options: argparse.Namespace) -> int:
    """Ask all cases of one campaign, and print its row; how many went wrong."""
    began = time.perf_counter()
    line = [sys.executable, __file__, name, *sys.argv[2:]]
    jobs = [
        subprocess.Popen([*line, "--job", str(job)], stdout=subprocess.PIPE, text=True) for job in range(options.jobs)
    ]
    said = [job.communicate()[0] for job in jobs]
    if any(job.returncode for job in jobs):
        sys.exit(f"{name}: a case could not be made")
    told = [json.loads(each.splitlines()[-1]) for each in said]
    codes: Counter[str] = Counter()
    found: dict[str, list[int]] = {}
    for each in told:
        codes.update(each["codes"])
        for what, numbers in each["found"].items():
            found.setdefault(what, []).extend(numbers)
    wrong = {number for numbers in found.values() for number in numbers}
    print(f"{name:<12} {sum(each['inputs'] for each in told):>7} {len(wrong):>6} {codes['0']:>9} "
          f"{time.perf_counter() - began:>8.0f} {max(each['slowest'][0] for each in told):>7.1f}s "
          f"{max(each['peak'] for each in told) >> 20:>9}")  # fmt: skip
    for what, numbers in sorted(found.items(), key=lambda item: -len(item[1])):
        print(f"  {len(numbers):>5} {what[:300]}   e.g. --seed {options.seed} --only {min(numbers)}")
    sys.stdout.flush()
    return len(wrong)


def _one_job(name: str, options: argparse.Namespace) -> int:
    """Ask a share of the cases in this process, and print what was found as JSON."""
    runner = Runner(importlib.import_module(f"tests.fakes.hostile.{name}"), options.out, options.data)
    if options.only is not None:
        for each in runner.ask(options.seed, options.only, keep=True):
            print(each)
        print(f"kept in {options.out}/failures/{name}-{options.seed}-{options.only}")
        return 1 if runner.found else 0
    began = time.perf_counter()
    for number in range(options.job, options.count, options.jobs):
        if time.perf_counter() - began > options.seconds:
            break
        runner.ask(options.seed, number)
    print(json.dumps({"inputs": runner.inputs, "codes": runner.codes, "found": runner.found, "slowest": runner.slowest,
                      "peak": runner.peak}))  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
