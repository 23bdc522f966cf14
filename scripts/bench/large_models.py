"""Time and memory that inspect and predict take for chains of very many nodes, beside what onnx alone takes.

    python scripts/bench/large_models.py [--nodes 8000 50000]

"onnx" is `onnx.load` and `onnx.shape_inference.infer_shapes` in a process of its own, as the commands are.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parents[2]
_KINDS = ("Relu", "Sigmoid", "Tanh", "Abs")
_PLAIN = "import onnx, sys; onnx.shape_inference.infer_shapes(onnx.load(sys.argv[1]))"


def chain(nodes: int) -> onnx.ModelProto:
    """Elementwise nodes in a row."""
    made = [helper.make_node(_KINDS[at % 4], [f"t{at}"], [f"t{at + 1}"], name=f"n{at}") for at in range(nodes)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64]) for name in ("t0", f"t{nodes}")]
    graph = helper.make_graph(made, "chain", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def taken(*words: str) -> tuple[float, float]:
    """User seconds and peak MB of a Python process.

    Raises:
        SystemExit: It failed.
    """
    process = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(words)} failed")
    return usage.ru_utime, usage.ru_maxrss * 1024 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[8000, 50000])
    options = parser.parse_args()
    print(f"{'nodes':>7}  {'command':<8} {'user s':>7} {'peak MB':>8}")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "chain.onnx"))
        commands = {
            "onnx": ("-c", _PLAIN, path),
            "inspect": ("-m", "trtprof", "inspect", path),
            "predict": ("-m", "trtprof", "predict", path, "--gpu", "l4"),
        }
        for nodes in options.nodes:
            onnx.save(chain(nodes), path)
            for name, words in commands.items():
                seconds, peak = taken(*words)
                print(f"{nodes:>7}  {name:<8} {seconds:>7.2f} {peak:>8.0f}")


if __name__ == "__main__":
    main()
