"""Hold the laws of rewrites against many random models, and show the smallest model of each law that is broken.

    python scripts/fuzz/rewrites.py --seconds 120 --seed 0 [--only NAME,...] [--keep FOLDER]

Each model is tried with every rewrite alone and with a random sequence of four. Exit code 1 if a law is broken.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

import onnx
import onnx.printer

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fakes.random_graphs import Drawn, drawn
from tests.fakes.rewrite_laws import Subject, smaller
from trtprof.rewrite import REWRITES


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="names of rewrites, with commas")
    parser.add_argument("--keep", type=Path, help="where models that break a law are written")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else REWRITES.keys()
    places: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    broken: dict[tuple[str, str], tuple[int, str, Drawn]] = {}
    times: Counter[tuple[str, str]] = Counter()
    unstable = models = refused = 0
    began, seed = time.perf_counter(), options.seed
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        while time.perf_counter() - began < options.seconds:
            seed += 1
            random = Random(seed)  # noqa: S311 - of tests
            one = drawn(random)
            try:
                subject = Subject(one, folder)
            except Exception as error:  # It is counted; the drawing is at fault, or the runtime
                refused += 1
                print(f"seed {seed}: no model: {str(error)[:200]}", file=sys.stderr)
                continue
            models += 1
            for chosen in [*([name] for name in names), random.choices(names, k=4)]:
                kept = subject.kept(chosen)
                title = chosen[0] if len(chosen) == 1 else "a sequence of four"
                places[title] += kept.places
                tried[title] += bool(kept.places)
                unstable += kept.unstable
                if kept.broken:
                    key = (title, kept.broken.split(":")[0][:60])
                    times[key] += 1
                    size = len(one.model.graph.node)
                    if key not in broken or size < len(broken[key][2].model.graph.node):
                        broken[key] = (seed, ",".join(chosen), one)
        seconds = time.perf_counter() - began
        for (title, law), (at, chosen_names, one) in broken.items():
            _show(title, law, times[title, law], at, chosen_names.split(","), one, folder, options.keep)
    for title in [*names, "a sequence of four"]:
        print(f"{title:24} {tried[title]:6} models, {places[title]:6} places")
    print(f"{len(names)} rewrites x {models} models in {seconds:.0f} s (seeds {options.seed + 1} to {seed}): "
          f"{sum(times.values())} broken, {unstable} unstable, {refused} no models")  # fmt: skip
    return 1 if broken else 0


def _show(
    title: str, law: str, times: int, seed: int, chosen: list[str], one: Drawn, folder: Path, keep: Path | None
) -> None:
    small = smaller(one, lambda model: Subject(model, folder).kept(chosen).broken.startswith(law))
    kept = Subject(small, folder).kept(chosen)
    print(f"BROKEN {title}: {kept.broken or law} ({times} times; seed {seed}; {','.join(chosen)})")
    print(onnx.printer.to_text(small.model))
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        onnx.save(small.model, keep / f"{title.replace(' ', '-')}-{seed}.onnx")


if __name__ == "__main__":
    raise SystemExit(main())
