"""The table of slow kernels: each row is found in a model that has it, and not in its other form."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from msgspec.structs import replace
from onnx import numpy_helper, parser

from tests.fakes.cases import Timed, layer, make_case
from tests.fakes.cases import found as findings_of
from trtprof.base.onnx_graph import nodes_in
from trtprof.base.records import Tensor
from trtprof.diagnose import Case
from trtprof.diagnose.rules.sk803_slow_kernel import CONDITIONS, read_table
from trtprof.rewrite import REWRITES

FED = ("x", "z", "q")
ROWS: list[dict[str, Any]] = read_table()["kernel"]
NEAR = {
    "few_positions": ("128,5]", "128,7]"),
    "key_mask": ("float[1,1,1,256]", "float[1,1,256,256]"),
    "unsigned_weights": ("uint8[384,1536] w", "uint8[384,1536] z"),
}
"""By condition, what of the inputs of a row to replace so that it does not hold: z is fed, w is constant."""
DTYPES = {"float": "f4", "int64": "i8", "int32": "i4", "uint8": "u1", "int8": "i1"}


def model_of(row: dict[str, Any], form: str) -> onnx.ModelProto:
    """The model of a row in one of its two forms; constants without values are random."""
    values: dict[str, tuple[str, Any]] = {}
    random = np.random.default_rng(0)
    for kind, _, rest in (part.partition(" ") for part in row["inputs"].split(", ")):
        name, _, text = rest.partition("=")
        dtype, _, dims = kind.partition("[")
        shape = [int(size) for size in dims.rstrip("]").split(",") if size]
        given = text and not text.startswith("cubic")
        numbers = np.array(text.split(), float) if given else random.standard_normal(int(np.prod(shape))) * 30
        values[name] = kind, np.resize(numbers, shape).astype(DTYPES[dtype])
    fed = ", ".join(f"{kind} {name}" for name, (kind, _) in values.items() if name in FED)
    head = '<ir_version: 10, opset_import: ["" : 22, "com.microsoft" : 1]>'
    model = parser.parse_model(f"{head} g ({fed}) => (float y) {{ {row[form]} }}")
    constants = [numpy_helper.from_array(array, name) for name, (_, array) in values.items() if name not in FED]
    model.graph.initializer.extend(constants)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def case_of(row: dict[str, Any], form: str, us: float, **changes: Any) -> Case:
    """A run on the CPU of that model: each op of the row, or all of the other form, took so long."""
    timed = []
    # Types behind ops of com.microsoft are not inferred: they are those of what is fed.
    model = model_of(row, form)
    fed = tuple(dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim)

    def known(tensors: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        return tuple(
            one
            and (
                replace(one, shape=fed, dtype="uint8" if one.dtype == "unknown" else one.dtype)
                if one.shape is None
                else one
            )
            for one in tensors
        )

    for at, node in enumerate(nodes_in(model)):
        op = node.op
        one = layer(f"layer{at}", op.op_type, known(op.inputs), known(op.outputs), attributes=op.attributes)
        timed.append(Timed(one, ns=round(us * 1000)))
    case = make_case(*timed, backend="ort-cpu")
    return case._replace(**changes)


def test_each_row_is_found_where_it_holds_and_not_in_its_other_form(subtests: pytest.Subtests) -> None:
    assert {row["when"] for row in ROWS} == set(CONDITIONS)
    for row in ROWS:
        with subtests.test(row["ops"] + row["cause"]):
            assert row["slow_us"] >= 1.9 * row["fast_us"]
            (finding,) = findings_of(case_of(row, "op", row["slow_us"], tries="trtprof try m.onnx"), "SK803")
            assert bool(finding.command) == (REWRITES.get(row["rewrite"]) is not None), (
                "no trial where no rewrite makes the form"
            )
            assert finding.try_ == row["advice"] + f" ({row['rewrite']})" * (REWRITES.get(row["rewrite"]) is not None)
            assert row["shape"] in finding.evidence
            assert findings_of(case_of(row, "op", row["slow_us"], backend="ort-cuda"), "SK803") == []
            # An op that takes no longer than its other form is not slow, whatever the table says.
            assert findings_of(case_of(row, "op", min(row["fast_us"], 19) * 0.9), "SK803") == []
            if row["when"] in NEAR:
                near = row | {"inputs": row["inputs"].replace(*NEAR[row["when"]])}
                assert findings_of(case_of(near, "op", row["slow_us"]), "SK803") == []
            kept = findings_of(case_of(row, "alternative", row["slow_us"]), "SK803")
            assert [one for one in kept if row["advice"] in one.try_] == []


@pytest.mark.nightly
def test_both_forms_of_each_row_have_equal_outputs(subtests: pytest.Subtests) -> None:
    ort = pytest.importorskip("onnxruntime")
    for row in ROWS:
        with subtests.test(row["op"]):
            if row["when"] == "cubic":
                continue  # Its matrices are results of the op itself
            outputs = []
            for form in ("op", "alternative"):
                model = model_of(row, form)
                fed = {one.name: _random(one) for one in model.graph.input}
                outputs.append(ort.InferenceSession(model.SerializeToString()).run(["y"], fed)[0])
            np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-3, atol=1e-4)


def _random(info: onnx.ValueInfoProto) -> Any:
    shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
    values = np.random.default_rng(1).standard_normal(shape)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    return values.astype(dtype) if dtype == np.float32 else (values * 30).astype("i1").astype(dtype)
