"""Ops from ONNX nodes, ONNX Runtime as the reference for values, and scalars that count what is done to them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from hypothesis import HealthCheck, settings
from onnx import helper
from onnxruntime.capi import _pybind_state

from tests.fakes.support import what_this_cpu_can
from trtprof.base.records import Attribute, Op, Tensor, Work
from trtprof.cost import work_of

Array = npt.NDArray[Any]

DTYPES = {
    "float16": "fp16", "float32": "fp32", "float64": "fp64", "bool": "bool", "bfloat16": "bf16",
    "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
    "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64",
}  # fmt: skip


def tensor(
    name: str, dtype: str, *dims: int | str, constant: bool = False, value: tuple[int, ...] | None = None
) -> Tensor:
    return Tensor(name=name, dtype=dtype, shape=dims, constant=constant, value=value)


def attributes_of(node: onnx.NodeProto) -> dict[str, Attribute]:
    found: dict[str, Attribute] = {}
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            found[attribute.name] = value.decode()
        elif isinstance(value, int | float):
            found[attribute.name] = value
        elif attribute.type in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS):
            found[attribute.name] = tuple(value)
        elif attribute.type == onnx.AttributeProto.STRINGS:
            found[attribute.name] = tuple(item.decode() for item in value)
    return found


def op_of(node: onnx.NodeProto, opset: int, tensors: Mapping[str, Tensor]) -> Op:
    """The record of a node, given the tensors it touches by name."""
    return Op(
        op_type=node.op_type,
        domain=node.domain,
        opset=opset,
        attributes=attributes_of(node),
        inputs=tuple(tensors[name] if name else None for name in node.input),
        outputs=tuple(tensors[name] if name else None for name in node.output),
    )


def tensor_of(name: str, array: Array, constant: bool = False) -> Tensor:
    small = array.dtype.kind in "ib" and array.size <= 16
    return Tensor(
        name=name,
        dtype=DTYPES[array.dtype.name],
        shape=tuple(array.shape),
        constant=constant,
        value=tuple(int(item) for item in array.ravel()) if constant and small else None,
    )


def run(
    op_type: str,
    inputs: Sequence[Array | None],
    outputs: int | Sequence[bool] = 1,
    version: int = 21,
    domain: str = "",
    constants: Sequence[int] = (),
    **attributes: Any,
) -> tuple[Op, list[Array]]:
    """A node run alone by ONNX Runtime, unoptimised: its record, with the shapes seen, and its results."""
    names = ["" if array is None else f"x{index}" for index, array in enumerate(inputs)]
    asked = [True] * outputs if isinstance(outputs, int) else list(outputs)
    results = [f"y{index}" if wanted else "" for index, wanted in enumerate(asked)]
    node = helper.make_node(op_type, names, results, domain=domain, **attributes)
    feeds = {name: array for name, array in zip(names, inputs, strict=True) if array is not None}
    fixed = {f"x{index}" for index in constants}
    graph = helper.make_graph(
        [node],
        "one",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in feeds.items()
            if name not in fixed
        ],
        [onnx.ValueInfoProto(name=name) for name in results if name],
        [onnx.numpy_helper.from_array(feeds[name], name) for name in sorted(fixed)],
    )
    imports = [helper.make_opsetid("", version)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    with what_this_cpu_can():
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        values = session.run(None, {name: array for name, array in feeds.items() if name not in fixed})
    made = dict(zip([name for name in results if name], values, strict=True))
    tensors = {name: tensor_of(name, array, name in fixed) for name, array in feeds.items()}
    tensors |= {name: tensor_of(name, array) for name, array in made.items()}
    return op_of(node, 1 if domain else version, tensors), list(made.values())


def work(op: Op) -> Work:
    found = work_of(op)
    assert found is not None, f"no cost function for {op.domain}::{op.op_type}-{op.opset}"
    return found


@dataclass
class Tally:
    """What was done to the scalars of one calculation."""

    tensor: int = 0
    vector: int = 0
    special: dict[str, int] = field(default_factory=dict)

    def of(self, value: Any) -> Num:
        return Num(float(value), self)

    def array(self, values: Array) -> Any:
        """The array with every value counted."""
        return np.vectorize(self.of, otypes=[object])(values)

    def flops(self) -> Flops:
        return self.tensor, self.vector, self.special


Flops = tuple[int, int, dict[str, int]]
"""Tensor FLOP, vector FLOP, and evaluations by special function."""


def flops(found: Work) -> Flops:
    return found.tensor_flops, found.vector_flops, {name: count for name, count in found.special.items() if count}


def totals(found: Work) -> tuple[int, int, int]:
    """Tensor FLOP, vector FLOP, and evaluations of special functions of any kind."""
    return found.tensor_flops, found.vector_flops, sum(found.special.values())


class Num:
    """A scalar that adds every operation to its tally."""

    def __init__(self, value: float, tally: Tally) -> None:
        self.value = value
        self.tally = tally

    def _vector(self, value: float) -> Num:
        self.tally.vector += 1
        return Num(value, self.tally)

    def _special(self, name: str, function: Callable[[float], float]) -> Num:
        self.tally.special[name] = self.tally.special.get(name, 0) + 1
        return Num(function(self.value), self.tally)

    def mac(self, a: Num, b: Num) -> Num:
        """This plus a * b, as one multiply-accumulate."""
        self.tally.tensor += 2
        return Num(self.value + a.value * b.value, self.tally)

    def __add__(self, other: Num | float) -> Num:
        return self._vector(self.value + _value(other))

    def __sub__(self, other: Num | float) -> Num:
        return self._vector(self.value - _value(other))

    def __mul__(self, other: Num | float) -> Num:
        return self._vector(self.value * _value(other))

    def __truediv__(self, other: Num | float) -> Num:
        return self._vector(self.value / _value(other))

    def __radd__(self, other: float) -> Num:
        return self._vector(other + self.value)

    def __rsub__(self, other: float) -> Num:
        return self._vector(other - self.value)

    def __rmul__(self, other: float) -> Num:
        return self._vector(other * self.value)

    def __rtruediv__(self, other: float) -> Num:
        return self._vector(other / self.value)

    def __lt__(self, other: Num | float) -> bool:
        self.tally.vector += 1
        return self.value < _value(other)

    def __gt__(self, other: Num | float) -> bool:
        self.tally.vector += 1
        return self.value > _value(other)

    def __neg__(self) -> Num:
        return self._vector(-self.value)

    def __abs__(self) -> Num:
        return self._vector(abs(self.value))

    def max(self, other: Num | float) -> Num:
        return self._vector(max(self.value, _value(other)))

    def min(self, other: Num | float) -> Num:
        return self._vector(min(self.value, _value(other)))

    def round(self) -> Num:
        return self._vector(float(np.rint(self.value)))

    def convert(self) -> Num:
        return self._vector(self.value)

    def exp(self) -> Num:
        return self._special("exp", math.exp)

    def log(self) -> Num:
        return self._special("log", math.log)

    def tanh(self) -> Num:
        return self._special("tanh", math.tanh)

    def erf(self) -> Num:
        return self._special("erf", math.erf)

    def sqrt(self) -> Num:
        return self._special("sqrt", math.sqrt)

    def pow(self, exponent: float) -> Num:
        return self._special("pow", lambda value: value**exponent)


def _value(other: Num | float) -> float:
    return other.value if isinstance(other, Num) else other


def total(values: Sequence[Num]) -> Num:
    """Their sum, with one add less than there are values."""
    result = values[0]
    for value in values[1:]:
        result = result + value
    return result


def largest(values: Sequence[Num]) -> Num:
    """Their maximum, with one compare less than there are values."""
    result = values[0]
    for value in values[1:]:
        result = result.max(value)
    return result


def plain(values: Any) -> Array:
    """The values of an array of scalars that count."""
    return np.asarray(np.vectorize(lambda item: item.value, otypes=[float])(values))


FEW = settings(derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def values(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed + sum(shape)).uniform(-2, 2, shape).astype(np.float32)


def assert_same(result: Any, reference: Array, tolerance: float = 1e-4) -> None:
    np.testing.assert_allclose(plain(result), reference, rtol=tolerance, atol=tolerance)


MS_DOMAINS = ("com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc")


def ms_schemas() -> set[tuple[str, str]]:
    """Domain and op type of every schema of the installed ONNX Runtime in its own domains."""
    every = _pybind_state.get_all_operator_schema()
    return {(schema.domain, schema.name) for schema in every if schema.domain in MS_DOMAINS}
