"""How many node-test models of the onnx package `inspect` takes, with the reasons for nodes without a price.

    python scripts/bench/onnx_node_tests.py

A model passes if nothing crashes, every node has work or a reason that holds, no work is nothing
without a note, and the bytes are those of the arrays of the test; see ``tests/fakes/node_tests.py``.
Exit code 1 if a model fails.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fakes.node_tests import judge, node_test_cases


def main() -> int:
    cases = node_test_cases()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        verdicts = [judge(case, Path(scratch)) for case in cases]
    seconds = time.perf_counter() - began
    failing = [verdict for verdict in verdicts if verdict.faults]
    nodes = sum(verdict.nodes for verdict in verdicts)
    reasons = Counter(reason for verdict in verdicts for reason in verdict.excused)
    models = Counter(reason for verdict in verdicts for reason in set(verdict.excused))
    print(f"onnx {onnx.__version__}: {len(verdicts) - len(failing)} of {len(verdicts)} node-test models pass")
    print(f"{nodes} nodes, {nodes - reasons.total()} with work; inspected twice, in {seconds:.1f} s")
    print(f"{sum(verdict.compared for verdict in verdicts)} times bytes were held against the arrays")
    for reason, count in reasons.most_common():
        print(f"{count:6} nodes of {models[reason]} models  {reason}")
    for verdict in failing:
        print(f"{verdict.case}: {'; '.join(verdict.faults)}")
    return int(bool(failing))


if __name__ == "__main__":
    sys.exit(main())
