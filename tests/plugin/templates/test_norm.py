from __future__ import annotations

import numpy as np
import pytest

from tests.fakes.executing import execute, kernels, worst
from tests.fakes.kernel_tasks import node, task
from trtprof.plugin.task import Task


def layer(columns: int, dtype: str) -> Task:
    """With a residual before, whose sum is an output, too."""
    dims, scale = ("B", 3, columns), (dtype, [columns])
    return task(
        [node("Add", "x r", "s"), node("LayerNormalization", "s g b", "y", axis=-1)],
        {"x": (dtype, dims), "r": (dtype, dims), "g": scale, "b": scale},
        {"y": (dtype, dims), "s": (dtype, dims)},
    )


def spelled(columns: int, dtype: str, *, centred: bool) -> Task:
    nodes = [node("ReduceMean", "x axes", "m"), node("Sub", "x m", "d")] if centred else [node("Identity", "x", "d")]
    nodes += [
        node("Pow", "d two", "p"), node("ReduceMean", "p axes", "v"), node("Add", "v small", "e"),
        node("Sqrt", "e", "q"), node("Div", "d q", "n"), node("Mul", "n g", "y"),
    ]  # fmt: skip
    dims = ("B", columns)
    return task(
        nodes, {"x": (dtype, dims), "g": (dtype, [columns])}, {"y": (dtype, dims)},
        constants={"axes": [-1], "two": np.float32(2), "small": np.float32(1e-6)},
    )  # fmt: skip


@pytest.mark.parametrize(("columns", "dtype"), [(33, "fp16"), (257, "bf16"), (4096, "fp32")])
def test_residual_and_layer_normalisation(columns: int, dtype: str) -> None:
    of = layer(columns, dtype)
    for kernel in kernels("norm", of):
        assert worst(kernel, of, {"B": 1}, shift=1) <= 1.01
        assert worst(kernel, of, {"B": 0}) == 0.0


@pytest.mark.nightly
@pytest.mark.parametrize("centred", [True, False])
def test_normalisations_that_are_spelled_out(centred: bool) -> None:
    for columns, dtype in ((100, "fp32"), (1024, "fp32")):
        of = spelled(columns, dtype, centred=centred)
        for kernel in kernels("norm", of):
            assert kernel.template == "norm"
            assert worst(kernel, of, {"B": 3}, order=1) <= 1.0


def test_data_far_from_zero_keeps_its_digits() -> None:
    of = layer(768, "fp32")
    rng = np.random.default_rng(0)
    x = (1000 + rng.standard_normal((1, 3, 768))).astype(np.float32)
    ones = np.ones(768, np.float32)
    for kernel in kernels("norm", of):
        got, _ = execute(kernel, of, [x, 0 * x, ones, 0 * ones]).outputs
        wide = x.astype(np.float64)
        expected = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
        np.testing.assert_allclose(got, expected, atol=2e-4)  # E[x^2] - E[x]^2 would be off by 0.06


@pytest.mark.parametrize("op", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_the_ops_of_onnx_runtime(op: str) -> None:
    simple = "Simplified" in op
    scale = {"g": ("fp32", [24])} if simple else {"g": ("fp32", [24]), "b": ("fp32", [24])}
    of = task(
        [node(op, "x r g" if simple else "x r g b", "y _ _ s", domain="com.microsoft", epsilon=1e-6)],
        {"x": ("fp32", ["B", 24]), "r": ("fp32", ["B", 24]), **scale},
        {"y": ("fp32", ["B", 24]), "s": ("fp32", ["B", 24])},
    )
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((3, 24)).astype(np.float32) for _ in range(2)]
    arrays += [rng.standard_normal(24).astype(np.float32) for _ in scale]
    got, total = execute(kernels("norm", of)[0], of, arrays).outputs
    wide = arrays[0].astype(np.float64) + arrays[1]
    np.testing.assert_allclose(total, wide, rtol=1e-6)
    centred = wide if simple else wide - wide.mean(1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-6) * arrays[2] + (0 if simple else arrays[3])
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-6)
