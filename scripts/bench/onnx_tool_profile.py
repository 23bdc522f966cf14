"""What `trtprof inspect` does, with onnx-tool: load, infer every shape, profile; prints the MACs of MatMul nodes.

    python scripts/bench/onnx_tool_profile.py model.onnx input_ids:1x128 attention_mask:1x128

Runs in an interpreter that has onnx-tool; `inspect_scale.py` starts it. Inputs are int64.
"""

from __future__ import annotations

import importlib
import json
import sys

import numpy as np


def main() -> None:
    path, *shapes = sys.argv[1:]
    onnx_tool = importlib.import_module("onnx_tool")
    # What onnx_tool.model_profile does, without its printing of a line per node.
    model = onnx_tool.loadmodel(path, {"verbose": False})
    graph = model.graph
    graph.graph_reorder_nodes()
    inputs = {
        name: np.ones([int(dim) for dim in dims.split("x")], dtype=np.int64)
        for name, dims in (text.split(":") for text in shapes)
    }
    graph.shape_infer(inputs)
    graph.profile(exclude_ops=onnx_tool.NoMacsOps)
    products = [node for node in graph.nodemap.values() if node.op_type == "MatMul"]
    print(json.dumps({"matmul_macs": int(sum(node.macs[0] for node in products)), "nodes": len(graph.nodemap)}))


if __name__ == "__main__":
    main()
