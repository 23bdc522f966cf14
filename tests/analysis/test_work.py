"""What `inspect` adds up: bodies as often as they run, constants never, dtypes of products apart."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from trtprof import report
from trtprof.analysis.work import count_runs
from trtprof.base.records import Inspection
from trtprof.flows.inspect import inspect
from trtprof.source.request import ModelRequest


def info(name: str, *dims: int | str, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, dims)


def body(name: str, nodes: list[NodeProto], inputs: list[onnx.ValueInfoProto], *outputs: str) -> GraphProto:
    made = [
        info(output, 4, 4) if not output.startswith("cond") else info(output, dtype=TensorProto.BOOL)
        for output in outputs
    ]
    return helper.make_graph(nodes, name, inputs, made)


def inspected(path: Path, graph: GraphProto, opset: int = 21) -> Inspection:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    onnx.save(model, path / "m.onnx")
    return inspect(ModelRequest.of(path / "m.onnx"))


PRODUCT = 2 * 4 * 4 * 4  # FLOP of a product of two 4x4 matrices


def products(count: int, x: str, prefix: str) -> list[NodeProto]:
    names = [x, *(f"{prefix}{i}" for i in range(count))]
    return [helper.make_node("MatMul", [a, a], [b], name=b) for a, b in itertools.pairwise(names)]


def test_of_an_if_the_larger_branch_counts(tmp_path: Path) -> None:
    branches: dict[str, Any] = {
        "then_branch": body("t", products(1, "x", "t"), [], "t0"),
        "else_branch": body("e", products(3, "x", "e"), [], "e2"),
    }
    graph = helper.make_graph(
        [helper.make_node("If", ["flag"], ["y"], name="choice", **branches)],
        "g", [info("flag", dtype=TensorProto.BOOL), info("x", 4, 4)], [info("y", 4, 4)],
    )  # fmt: skip
    found = inspected(tmp_path, graph)
    assert (found.total.tensor_flops, found.total.bound) == (3 * PRODUCT, "upper")
    assert "the branch with more work" in found.total.note
    assert "at most" in report.render(found)


def loop(trips: int | None, cond: bool) -> GraphProto:
    """y = x (x x) as often as the Loop says; without ``trips`` its number is an input."""
    inner = body(
        "b",
        [helper.make_node("Identity", ["cond_in"], ["cond_out"], name="pass"), *products(1, "state", "p")],
        [info("i", dtype=TensorProto.INT64), info("cond_in", dtype=TensorProto.BOOL), info("state", 4, 4)],
        "cond_out", "p0",
    )  # fmt: skip
    inputs = [info("x", 4, 4), info("flag", dtype=TensorProto.BOOL)]
    constants = []
    if trips is None:
        inputs.append(info("trips", dtype=TensorProto.INT64))
    else:
        constants.append(numpy_helper.from_array(np.array(trips, dtype=np.int64), "trips"))
    node = helper.make_node("Loop", ["trips", "flag" if cond else "", "x"], ["y"], name="loop", body=inner)
    return helper.make_graph([node], "g", inputs, [info("y", 4, 4)], constants)


@pytest.mark.parametrize(
    ("trips", "cond", "times", "bound"),
    [(7, False, 7, "exact"), (7, True, 7, "upper"), (0, False, 0, "exact"), (None, True, 1, "lower")],
)
def test_a_loop_counts_as_many_trips_as_are_known(
    tmp_path: Path, trips: int | None, cond: bool, times: int, bound: str
) -> None:
    found = inspected(tmp_path, loop(trips, cond))
    assert found.total.tensor_flops == times * PRODUCT
    assert count_runs(found.nodes).times["loop/body"] == times
    assert count_runs(found.nodes).bound == bound


@pytest.mark.parametrize(("axis", "dims"), [(0, (9, 4, 4)), (1, (4, 9, 4)), (-1, (4, 4, 9))])
def test_a_scan_makes_as_many_trips_as_its_inputs_are_long(
    tmp_path: Path, axis: int, dims: tuple[int, int, int]
) -> None:
    inner = body("b", [helper.make_node("MatMul", ["state", "row"], ["next"], name="step")],
                 [info("state", 4, 4), info("row", 4, 4)], "next")  # fmt: skip
    node = helper.make_node(
        "Scan", ["x", "rows"], ["y"], name="scan", body=inner, num_scan_inputs=1, scan_input_axes=[axis]
    )
    graph = helper.make_graph([node], "g", [info("x", 4, 4), info("rows", *dims)], [info("y", 4, 4)])
    found = inspected(tmp_path, graph)
    assert found.total.tensor_flops == 9 * PRODUCT
    assert found.macs_by_dtype == {"fp32": 9 * PRODUCT // 2}


def test_nested_bodies_multiply(tmp_path: Path) -> None:
    """A Loop of 5 around an If whose larger branch holds two products: ten of them, and one outside."""
    choice = helper.make_node(
        "If", ["cond_in"], ["p"], name="choice",
        then_branch=body("t", products(2, "state", "t"), [], "t1"),
        else_branch=body("e", products(1, "state", "e"), [], "e0"),
    )  # fmt: skip
    inner = body("b", [helper.make_node("Identity", ["cond_in"], ["cond_out"], name="pass"), choice],
                 [info("i", dtype=TensorProto.INT64), info("cond_in", dtype=TensorProto.BOOL), info("state", 4, 4)],
                 "cond_out", "p")  # fmt: skip
    nodes = [*products(1, "x", "first"), helper.make_node("Loop", ["n", "", "first0"], ["y"], name="loop", body=inner)]
    graph = helper.make_graph(nodes, "g", [info("x", 4, 4)], [info("y", 4, 4)],
                              [numpy_helper.from_array(np.array(5, dtype=np.int64), "n")])  # fmt: skip
    found = inspected(tmp_path, graph)
    assert (found.total.tensor_flops, found.total.bound) == (11 * PRODUCT, "upper")
    assert next(op.work.tensor_flops for op in found.ops if op.op_type == "MatMul") == 11 * PRODUCT


def test_nodes_without_a_price_make_the_total_a_lower_bound(tmp_path: Path) -> None:
    nodes = [*products(1, "x", "p"), helper.make_node("Snake", ["p0"], ["y"], name="snake", domain="org.example")]
    graph = helper.make_graph(nodes, "g", [info("x", 4, 4)], [info("y", 4, 4)])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("org.example", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "m.onnx")
    found = inspect(ModelRequest.of(tmp_path / "m.onnx"))
    assert (found.total.tensor_flops, found.total.bound) == (PRODUCT, "lower")
    assert "without a price, which are not counted: 1" in found.total.note
    assert [(missing.op_type, missing.reason) for missing in found.unsupported] == [("Snake", "no cost function")]
    assert "at least" in report.render(found)


def test_alike_nodes_have_one_price_and_others_their_own(tmp_path: Path) -> None:
    """x + x reads one tensor, x + z two; both have the same shapes."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["a"], name="twice"),
        helper.make_node("Add", ["x", "z"], ["b"], name="both"),
        helper.make_node("Add", ["z", "x"], ["c"], name="turned"),
        helper.make_node("Sum", ["a", "b", "c"], ["y"], name="sum"),
    ]
    found = inspected(tmp_path, helper.make_graph(nodes, "g", [info("x", 4, 4), info("z", 4, 4)], [info("y", 4, 4)]))
    read = {node.name: node.work.bytes_read for node in found.nodes if node.work is not None}
    assert read == {"twice": 64, "both": 128, "turned": 128, "sum": 192}
