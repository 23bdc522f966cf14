"""A plan in figures: shares, reformats and fates of plans made by hand, and of real ones counted by other means."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.engine_factory import MOBILENET, RESNET, RESNET_QAT, layers_of
from trtprof.analysis.plan import on_device, price_plan
from trtprof.base.records import MatchedLayer, NodeFate, PlanBinding, PlanLayer, PlanTensor, Work
from trtprof.diagnose.plan_summary import summarise
from trtprof.engine.inspector import read_layer_info
from trtprof.hardware.gpus import ceilings, find

INPUT = PlanBinding(name="in", mode="input")
OUTPUT = PlanBinding(name="out", mode="output")


def layer(
    name: str,
    kind: str,
    reads: str = "",
    writes: str = "",
    *,
    dtype: str = "fp16",
    role: Any = "compute",
    **fields: Any,
) -> MatchedLayer:
    """A layer with tensors of 100 elements."""
    match = fields.pop("match", "exact")
    tensors = (
        tuple(PlanTensor(name=each, dims=(100,), dtype=dtype) for each in names.split()) for names in (reads, writes)
    )
    inputs, outputs = tensors
    return MatchedLayer(
        layer=PlanLayer(name=name, kind=kind, inputs=inputs, outputs=outputs, **fields), role=role, match=match
    )


def work(read: int, dtype: str = "") -> Work:
    return Work(bytes_read=read, vector_flops=1 if dtype else 0, dtype=dtype)


def test_kinds_are_shares_of_bytes_where_no_time_is_known() -> None:
    layers = [layer("a", "gemm", "x", "y"), layer("b", "kgen", "y", "z"), layer("c", "gemm", "z", "out")]
    summary = summarise(layers, [work(100), work(700), work(200)], ())
    assert [(share.what, share.layers, share.bytes, share.ns, share.fraction) for share in summary.by_kind] == [
        ("kgen", 1, 700, None, 0.7),
        ("gemm", 2, 300, None, 0.3),
    ]


def test_kinds_are_shares_of_time_where_it_is_known() -> None:
    layers = [layer("a", "gemm", "x", "y"), layer("b", "kgen", "y", "z"), layer("c", "gemm", "z", "out")]
    summary = summarise(layers, [work(100), work(700), work(200)], (), times_ns=[50, 40, None])
    assert [(share.what, share.bytes, share.ns, share.fraction) for share in summary.by_kind] == [
        ("gemm", 300, 50, 50 / 90),
        ("kgen", 700, 40, 40 / 90),
    ]


def test_layers_that_launch_nothing_are_kinds_and_no_launches() -> None:
    layers = [
        layer("a", "gemm", "x", "y"),
        layer("b", "signal", role="sync"),
        layer("c", "NoOp", "y", "z", role="idle"),
        layer("d", "Reformat", "z", "out", role="layout"),
    ]
    summary = summarise(layers, [work(100), Work(), Work(), work(100)], ())
    assert (summary.layers, summary.launches) == (4, 2)
    assert [share.what for share in summary.by_kind] == ["Reformat", "gemm", "NoOp", "signal"]
    assert [(share.what, share.layers) for share in summary.by_precision] == [("fp16", 2)]


def test_precision_is_that_of_the_arithmetic_else_of_what_is_moved() -> None:
    layers = [layer("a", "gemm", "x", "y"), layer("b", "kgen", "y", "z", dtype="int8"), layer("c", "kgen", "z", "out")]
    summary = summarise(layers, [work(10, "int8"), work(10), None], ())
    assert [(share.what, share.layers, share.bytes) for share in summary.by_precision] == [
        # Of what has no work the bytes of its tensors.
        ("fp16", 1, 400),
        ("int8", 2, 20),
    ]


def test_matches_are_shares_of_what_is_launched() -> None:
    layers = [
        layer("a", "gemm", "x", "y"),
        layer("b", "kgen", "y", "z", match="inferred"),
        layer("c", "wait", role="sync"),
    ]
    summary = summarise(layers, [work(300), work(100), Work()], ())
    assert [(share.what, share.layers, share.fraction) for share in summary.by_match] == [
        ("exact", 1, 0.75),
        ("inferred", 1, 0.25),
    ]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["gemm", "kgen", "Reformat", "signal"]),
            st.sampled_from(["compute", "layout", "sync", "idle"]),
            st.sampled_from(["fp16", "int8", "fp32"]),
            st.none() | st.integers(0, 10**12),
            st.none() | st.integers(0, 10**12),
        ),
        max_size=20,
    )
)
def test_fractions_add_up_to_one_and_layers_bytes_and_times_to_those_of_the_plan(rows: list[Any]) -> None:
    layers = [
        layer(f"l{at}", kind, "x", "y", dtype=dtype, role=role) for at, (kind, role, dtype, _, _) in enumerate(rows)
    ]
    works = [None if moved is None else work(moved) for *_, moved, _ in rows]
    times = [ns if role in ("compute", "layout") else None for _, role, _, _, ns in rows]
    summary = summarise(layers, works, (), times_ns=times)
    assert sum(share.layers for share in summary.by_kind) == summary.layers == len(rows)
    for shares, count in (
        (summary.by_kind, summary.layers),
        (summary.by_precision, summary.launches),
        (summary.by_match, summary.launches),
    ):
        assert sum(share.layers for share in shares) == count
        weights = [share.bytes if share.ns is None else share.ns for share in shares]
        assert sum(share.fraction for share in shares) == pytest.approx(1.0 if sum(weights) else 0.0)
        assert sum(share.ns or 0 for share in shares) == sum(ns or 0 for ns in times)
        assert [share.fraction for share in shares] == sorted((share.fraction for share in shares), reverse=True)


def test_where_a_reformat_comes_from_and_whom_it_serves(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str, dict[str, Any], str, str]] = [
        ("in", "a", {}, "input", "next"),
        ("b", "out", {}, "output", "out"),
        ("b", "a", {}, "between layers", "next"),
        ("b", "unread", {}, "between layers", ""),
        ("in", "a", {"origin": "REFORMAT", "serves": "conv1"}, "input", "conv1"),
        ("a", "out", {"origin": "REFORMAT"}, "output", "out"),
        ("b", "a", {"origin": "QDQ"}, "QDQ", "next"),
    ]
    for reads, writes, fields, origin, serves in rows:
        with subtests.test(reads=reads, writes=writes, origin=origin, serves=serves):
            layers = [layer("r", "Reformat", reads, writes, role="layout", **fields), layer("next", "gemm", "a", "c")]
            summary = summarise(layers, [work(5), work(5)], (), times_ns=[7, 8], bindings=[INPUT, OUTPUT])
            (found,) = summary.reformats
            assert (found.layer, found.origin, found.serves, found.bytes, found.ns) == ("r", origin, serves, 5, 7)


def test_the_change_of_a_reformat_is_in_words() -> None:
    source = PlanTensor(name="a", dims=(1, 3, 4, 4), dtype="fp32", format="Row major linear FP32")
    target = PlanTensor(
        name="b", dims=(1, 3, 4, 4), dtype="fp16", format="Channel major FP16 format where channel % 8 == 0",
        vector=8, vector_axis=1,
    )  # fmt: skip
    made = PlanLayer(name="r", kind="Reformat", inputs=(source,), outputs=(target,))
    (found,) = summarise([MatchedLayer(layer=made, role="layout")], [None], ()).reformats
    assert found.change == "fp32 Linear -> fp16 NHWC8"
    assert found.bytes == 3 * 16 * 4 + 8 * 16 * 2


def test_fates_are_counted() -> None:
    fates = [
        NodeFate(node="a", fate="layer", layers=("x",)),
        NodeFate(node="b", fate="folded", layers=()),
        NodeFate(node="c", fate="layer", layers=("x",)),
    ]
    assert summarise([], [], fates).fates == {"folded": 1, "layer": 2}


@pytest.mark.parametrize(
    ("engine", "origins", "kinds"),
    [
        (
            "fp16",
            {"input": 1, "output": 1},
            {"CaskConvolution": 4, "NoOp": 1, "Reformat": 2, "CudaPooling": 1, "CaskPooling": 1},
        ),
        (
            "int8",
            {"QDQ": 2, "between layers": 1},
            {"CaskConvolution": 3, "Reformat": 3, "CudaDepthwiseConvolution": 1, "TiledPooling": 2, "NoOp": 1},
        ),
        (
            RESNET,
            {"input": 1, "output": 1},
            {"CaskConvolution": 21, "NoOp": 11, "Reformat": 2, "CudaPooling": 1, "CaskPooling": 1},
        ),
        (
            RESNET_QAT,
            {"QDQ": 10, "between layers": 2},
            {"CaskConvolution": 21, "Reformat": 12, "TiledPooling": 2, "NoOp": 2},
        ),
        (
            MOBILENET,
            {"QDQ": 17, "between layers": 1},
            {"CaskConvolution": 36, "Reformat": 18, "CudaDepthwiseConvolution": 17, "TiledPooling": 1, "NoOp": 1},
        ),
    ],
)
def test_reformats_and_kinds_of_plans(
    engine: str, origins: dict[str, int], kinds: dict[str, int], tmp_path: Path
) -> None:
    path = layers_of(engine, tmp_path)
    raw = json.loads(path.read_text(encoding="utf-8"))["Layers"]
    summary = on_device(price_plan(read_layer_info(path)), ceilings(find("a100-sxm4-80gb"))).summary
    counted = Counter(one["Origin"] for one in raw if one["LayerType"] == "Reformat")
    assert Counter(found.origin for found in summary.reformats) == origins
    assert counted["QDQ"] == origins.get("QDQ", 0)
    assert {share.what: share.layers for share in summary.by_kind} == kinds
    assert sum(share.fraction for share in summary.by_kind) == pytest.approx(1)
    # Each with the bytes that the file tells, in the order of the file.
    named = {one["Name"]: one for one in raw}
    assert [found.layer for found in summary.reformats] == [x["Name"] for x in raw if x["LayerType"] == "Reformat"]
    for found in summary.reformats:
        assert found.ns
        assert found.bytes == sum(_nbytes(one) for side in ("Inputs", "Outputs") for one in named[found.layer][side])
        assert found.serves


def _nbytes(raw: dict[str, Any]) -> int:
    """By hand: padded channels times the width that the words of the format name."""
    text = raw["Format/Datatype"]
    width = 4 if "FP32" in text else 2 if "FP16" in text else 1
    vectors = {"Two": 2, "Four": 4, "Thirty-two": 32}
    vector = vectors.get(text.split(" wide")[0], 1)
    if "channel % " in text:
        vector = int(text.split("channel % ")[1].split()[0])
    dims = raw["Dimensions"]
    count = 1
    for axis, dim in enumerate(dims):
        count *= -(-dim // vector) * vector if axis == 1 and len(dims) > 2 else dim
    return count * width
