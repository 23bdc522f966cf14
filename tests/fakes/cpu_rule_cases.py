"""A case for every rule of ONNX Runtime on a CPU: one that it finds, and a near miss."""

from __future__ import annotations

import msgspec

from tests.fakes.cases import Timed, layer, make_case, relu, tensor
from trtprof.base.records import CpuUse, Op
from trtprof.diagnose import Case


def prelu(ns: int, backend: str = "ort-cpu") -> Case:
    image, slope = tensor("x", 1, 64, 56, 56), tensor("w", 64, 1, 1, constant=True)
    return make_case(
        Timed(layer("prelu", "PRelu", (image, slope), (tensor("y", 1, 64, 56, 56),)), ns=ns), backend=backend
    )


def dequantized(dtype: str = "int8") -> Case:
    """A product in fp32 with weights that a DequantizeLinear of the model makes of constants of this type."""
    stored, weights = tensor("q", 384, 384, dtype=dtype, constant=True), tensor("w", 384, 384)
    product = layer("product", "MatMul", (tensor("x", 128, 384), weights), (tensor("y", 128, 384),))
    ops = {"dequantize": Op(op_type="DequantizeLinear", inputs=(stored,), outputs=(weights,)), "product": product.op}
    return make_case(Timed(product), backend="ort-cpu", ops=ops)


def half(dtype: str = "fp16") -> Case:
    """A convolution of the model in this type, which ran in fp32 between casts."""
    image, result = tensor("x", 1, 64, 56, 56), tensor("y", 1, 64, 56, 56)
    weights = tensor("w", 64, 64, 3, 3, constant=True)
    cast = layer("cast", "Cast", (image,), (tensor("x32", 1, 64, 56, 56),), role="layout", nodes=())
    conv = layer("conv", "Conv", (tensor("x32", 1, 64, 56, 56), weights), (result,))
    inputs = tuple(msgspec.structs.replace(one, dtype=dtype) for one in (image, weights))
    ops = {"conv": Op(op_type="Conv", inputs=inputs, outputs=(msgspec.structs.replace(result, dtype=dtype),))}
    return make_case(Timed(cast, ns=40_000), Timed(conv), backend="ort-cpu", ops=ops)


def recurrent(steps: int, backend: str = "ort-cpu") -> Case:
    """An LSTM over a sequence, and a Relu of a tenth of its time."""
    inputs = (tensor("x", steps, 1, 64), tensor("w", 1, 256, 64), tensor("r", 1, 256, 64))
    lstm = layer("lstm", "LSTM", inputs, (tensor("y", steps, 1, 1, 64),), attributes={"hidden_size": 64})
    return make_case(Timed(lstm, ns=900_000), Timed(relu("relu", "y", "z", 1000), ns=90_000), backend=backend)


def loop(runs: int) -> Case:
    """A Loop whose body of two ops ran so often."""
    none = tensor("n", 1)
    body = [layer(name, "Relu", (none,), (tensor(f"{name}_out", 1),), graph="loop/body") for name in ("one", "two")]
    control = layer("loop", "Loop", (none,), (tensor("out", 1),), role="control")
    timed = [Timed(control, ns=0), *(Timed(one, ns=500_000) for one in body)]
    return make_case(*timed, backend="ort-cpu", runs={"one": runs, "two": runs})


def busy(others: float = 1.3, waited: float = 0.4, cpus: int = 2, threads: str = "2", spinning: str = "1") -> Case:
    """A session of two threads beside processes that keep so many CPUs busy."""
    use = CpuUse(
        cpus=cpus, seconds=1.0, own_cpus=1.0, others_cpus=others, steal_cpus=0.0, others=3, waits=True, waited=waited
    )
    return make_case(
        Timed(relu("relu", "x", "y")), backend="ort-cpu", cpu_use=use, tries="trtprof try m.onnx",
        options={"intra_op_threads": threads, "session.intra_op.allow_spinning": spinning},
    )  # fmt: skip


POSITIVE: dict[str, Case] = {
    "HO503": busy(),
    "PR802": half(),
    "ST804": recurrent(100),
    "SK803": prelu(900_000),
}

NEGATIVE: dict[str, Case] = {
    "HO503": busy(0.4, 0.05),
    "ST804": recurrent(1),
    "PR802": half("fp32"),
    # No longer than Relu, Sub, Mul and Add take.
    "SK803": prelu(90_000),
}
