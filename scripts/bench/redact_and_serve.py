"""Time to redact a run of 10,000 layers, and to list 1,000 runs in the browser of runs.

    python scripts/bench/redact_and_serve.py

Runs are those that the tests of the reporters make (tests/fakes/report_factory.py): sizes are real, numbers are
invented.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.fakes.report_factory import CASES, many, typical  # noqa: E402
from trtprof.flows.serve import server  # noqa: E402
from trtprof.report.redact import redact  # noqa: E402

REPEATS = 3


def main() -> None:
    """Print the best of some repeats of each."""
    big = many(10_000)
    _timed("redact, 10,000 layers", lambda: redact(big))
    hostile = CASES["hostile"]()
    _timed("redact, hostile names of 10 kB", lambda: redact(hostile))
    with tempfile.TemporaryDirectory() as folder:
        run = msgspec.json.encode(typical())
        for number in range(1000):
            place = Path(folder) / f"run-{number:04d}"
            place.mkdir()
            (place / "report.json").write_bytes(run)
        with server(Path(folder)) as running:
            thread = threading.Thread(target=running.serve_forever, daemon=True)
            thread.start()
            print(f"1,000 runs of {len(run) / 1e3:.0f} kB:")
            _timed("  listed for the first time", lambda: _get(running.url), repeats=1)
            _timed("  listed again", lambda: _get(running.url))
            running.shutdown()
            thread.join()


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url) as answer:  # noqa: S310 - our own server
        content: bytes = answer.read()
        return content


def _timed(what: str, call: Callable[[], object], repeats: int = REPEATS) -> None:
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - began)
    print(f"{what:<34} {best:6.2f} s")


if __name__ == "__main__":
    main()
