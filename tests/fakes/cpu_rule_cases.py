"""A case for every rule of ONNX Runtime on a CPU: one that it finds, and a near miss."""

from __future__ import annotations

from tests.fakes.cases import Timed, layer, make_case, tensor
from trtprof.diagnose import Case


def prelu(ns: int, backend: str = "ort-cpu") -> Case:
    image, slope = tensor("x", 1, 64, 56, 56), tensor("w", 64, 1, 1, constant=True)
    return make_case(
        Timed(layer("prelu", "PRelu", (image, slope), (tensor("y", 1, 64, 56, 56),)), ns=ns), backend=backend
    )


POSITIVE: dict[str, Case] = {
    "SK803": prelu(900_000),
}

NEGATIVE: dict[str, Case] = {
    # No longer than Relu, Sub, Mul and Add take.
    "SK803": prelu(90_000),
}
