"""The plugin in Python: what is refused before anything is written, and that what is written is the same each time."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.plugin_forms import ARCHITECTURES, gemv_specification
from trtprof.base.errors import UsageError
from trtprof.plugin import quick
from trtprof.plugin.sizes import Size, cdiv, dim, least, most, number
from trtprof.plugin.specification import Specification

NAMES = ("w", "x")


def with_source(*changes: tuple[str, str]) -> Specification:
    """The gemv with the text of its first variant changed."""
    spec = gemv_specification()
    first, *others = spec.kernels
    source = first.source
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    return spec._replace(kernels=(replace(first, source=source), *others))


def test_files_are_a_module_and_the_ptx_of_each_architecture_and_tactic() -> None:
    spec = gemv_specification()
    files = quick.files(spec)
    ptx = {f"batchedgemv_64.{arch}.{tactic}.ptx" for arch in ARCHITECTURES for tactic in (1, 2)}
    assert set(files) == {"batchedgemv_64.py", "test_batchedgemv_64.py", *ptx}
    for (architecture, tactic), text in spec.ptx.items():
        assert files[f"batchedgemv_64.{architecture}.{tactic}.ptx"] == text.encode()


def test_the_module_imports_nothing_but_tensorrt_and_the_standard_library() -> None:
    tree = ast.parse(quick.files(gemv_specification())["batchedgemv_64.py"])
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {one.name.partition(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(str(node.module).partition(".")[0])
    assert "__future__" not in imported  # TensorRT reads annotations
    assert imported - set(sys.stdlib_module_names) == {"tensorrt"}


def test_the_same_input_gives_the_same_bytes_in_any_order() -> None:
    spec = gemv_specification()
    shuffled = spec._replace(ptx=dict(reversed(list(spec.ptx.items()))))
    assert quick.files(spec) == quick.files(shuffled)


def test_a_variant_that_an_architecture_lacks_is_not_offered_there() -> None:
    spec = gemv_specification()
    fewer = spec._replace(ptx={key: text for key, text in spec.ptx.items() if key != ("sm_75", 2)})
    text = quick.files(fewer)["batchedgemv_64.py"].decode()
    assert re.search(r"75: \{\s*1: [^\n]*\n    \}", text)
    assert "batchedgemv_64.sm_75.2.ptx" not in text


SIZES = st.recursive(
    st.one_of(st.integers(0, 9).map(number), st.sampled_from([dim(0, 0), dim(0, 1), dim(1, 1)])),
    lambda inner: st.one_of(
        *(st.builds(make, inner, inner) for make in (Size.__add__, Size.__sub__, Size.__mul__, least, most)),
        st.builds(lambda a, b: a // most(b, 1), inner, inner),
        st.builds(lambda a, b: cdiv(a, most(b, 1)), inner, inner),
    ),
    max_leaves=6,
)


@given(SIZES)
def test_an_expression_is_worth_the_same_in_python(size: Size) -> None:
    shapes = ((3, 5, 64), (3, 64, 1))
    helpers = {
        "_cdiv": lambda a, b: -(-a // b), "_least": min, "_most": max, "_symbol": lambda value, _: value,
    }  # fmt: skip
    found = eval(quick.python_text(size, NAMES), {**helpers, **dict(zip(NAMES, shapes, strict=True))})  # noqa: S307
    assert found == size.value(shapes)


def refusal(spec: Specification) -> str:
    with pytest.raises(UsageError) as caught:
        quick.files(spec)
    return str(caught.value)


def test_arguments_in_another_order_are_refused() -> None:
    matrix, vector, output = "const float *__restrict__ w", "const float *__restrict__ x", "float *__restrict__ y"
    x_first = with_source((f"{matrix}, {vector}", f"{vector}, {matrix}"))
    assert "takes (const float *x, const float *w, int batches, int rows, float *y)" in refusal(x_first)
    assert "int rows, int batches" in refusal(with_source(("int batches, int rows", "int rows, int batches")))
    y_first = with_source((f"int batches, int rows,\n    {output}", f"{output}, int batches, int rows"))
    assert "float *y, int batches" in refusal(y_first)


def test_ptx_of_another_text_is_refused() -> None:
    spec = gemv_specification()
    other = spec.ptx["sm_89", 1]
    wide = other.replace(".param .u32 gemv_4_param_2", ".param .u64 gemv_4_param_2")
    assert wide != other
    assert "64-bit pointer, 64-bit pointer, 64-bit pointer" in refusal(
        spec._replace(ptx={**spec.ptx, ("sm_89", 1): wide})
    )
    assert "has no entry gemv_8" in refusal(spec._replace(ptx={**spec.ptx, ("sm_89", 2): other}))
    assert "is for sm_89" in refusal(spec._replace(ptx={**spec.ptx, ("sm_120", 1): other}))


def test_a_dtype_and_a_dimension_that_tensorrt_does_not_know_are_refused() -> None:
    spec = gemv_specification()
    w, x = spec.task.inputs
    assert "w is fp64" in refusal(spec._replace(task=replace(spec.task, inputs=(replace(w, dtype="fp64"), x))))
    (y,) = spec.task.outputs
    strange = replace(y, dims=("batch", "elsewhere", 1))
    assert "elsewhere" in refusal(spec._replace(task=replace(spec.task, outputs=(strange,))))
