"""Short real runs on ONNX Runtime: what a person would say of them must be what comes out."""

from __future__ import annotations

import onnx
import pytest

from tests.fakes.in_process import fixed_calibration
from tests.fakes.support import SAMPLES, load_script
from trtprof.base.records import Comparison
from trtprof.base.run_folder import RunFolder
from trtprof.compare import compare
from trtprof.flows.options import RunOptions
from trtprof.flows.run import execute
from trtprof.source.request import ModelRequest

pytestmark = pytest.mark.nightly

CAUSES = {"replaced": "work changed", "qdq": "precision changed", "batch": "work changed"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunFolder]:
    """A small CNN as it is, again, with a Relu replaced by an op that takes long, in QDQ form, and with 64 images."""
    folder = tmp_path_factory.mktemp("compared")
    generate = load_script(SAMPLES / "generate.py", "compare_generate")
    onnx.save(generate.float_cnn(), folder / "fp32.onnx")
    replaced = generate.float_cnn()
    next(node for node in replaced.graph.node if node.name == "/stage1/Relu").op_type = "Softplus"
    onnx.save(replaced, folder / "replaced.onnx")
    models = {
        "base": (folder / "fp32.onnx", 1), "again": (folder / "fp32.onnx", 1),
        "replaced": (folder / "replaced.onnx", 1),
        "qdq": (SAMPLES / "qdq_cnn.onnx", 1), "batch": (folder / "fp32.onnx", 64),
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        fixed_calibration(patch)
        return {
            name: execute(
                RunOptions(
                    model=ModelRequest.of(model, batch=batch),
                    backend="ort-cpu", threads=1, duration_s=0.05, iterations=20,
                    warmup_ms=10.0, profile_iterations=5, output=str(folder / name),
                )
            )
            for name, (model, batch) in models.items()
        }  # fmt: skip


def compared(runs: dict[str, RunFolder], later: str) -> Comparison:
    one = compare([[runs["base"]], [runs[later]]]).comparisons[0]
    assert sum(row.ns for row in one.ledger) == one.latency.difference_ns.value
    kernels = sum(sum(region.parts.values()) for region in one.regions)
    sides = [runs[name].report() for name in ("base", later)]
    first, second = (sum(layer.measured_ns for layer in run.layers) for run in sides)
    assert kernels == second - first
    for at, run in enumerate(sides):
        held = [name for region in one.regions for name in (region.layers_before, region.layers_after)[at]]
        assert sorted(held) == sorted(layer.name for layer in run.layers)
    return one


def test_the_same_thing_again_has_the_same_parts(runs: dict[str, RunFolder]) -> None:
    one = compared(runs, "again")
    assert {region.match for region in one.regions} == {"same names"}
    named = {cause for region in one.regions for cause in region.parts}
    assert named <= {"same kernels, other time", "clock changed"}


@pytest.mark.parametrize(("later", "cause"), CAUSES.items())
def test_the_cause_is_the_one_that_was_changed(runs: dict[str, RunFolder], later: str, cause: str) -> None:
    one = compared(runs, later)
    # A busy machine may have been slower in one of the two, which is told apart.
    known = (row for row in one.ledger if row.cause not in ("unexplained", "clock changed"))
    by_size = sorted(known, key=lambda row: -abs(row.ns))
    assert by_size[0].cause == cause


def test_a_replaced_node_is_named(runs: dict[str, RunFolder]) -> None:
    one = compared(runs, "replaced")
    region = next(region for region in one.regions if region.reason == "Relu became Softplus")
    assert "/stage1/Relu" in region.nodes_before
    assert len(region.layers_after) > len(region.layers_before)
