"""The list of a run by layer, node, op type and kernel: whatever is shown, the times add up to the same whole."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.report_factory import CASES, layer, make_run, many, typical
from trtprof.base import units
from trtprof.base.records import Match, NodeResult, Run
from trtprof.report import ReportOptions, get
from trtprof.report.content._views import By, folded, kernel_words, shape_words, view_of

ALL: tuple[By, ...] = get_args(By)


def text(run: Run, **options: object) -> str:
    return get("text").render(run, ReportOptions(**options))  # type: ignore[arg-type]


def whole(run: Run, by: By) -> int:
    if by != "kernel":
        return sum(one.measured_ns for one in run.layers)
    kernels = (*(kernel for one in run.layers for kernel in one.kernels), *run.kernels_unattributed)
    # Runs of the factory may hold more kernels than were captured.
    return max(run.captured_ns, sum(kernel.total_ns for kernel in kernels))


# --- nothing is lost ------------------------------------------------------------------------


def test_rows_and_others_are_the_whole(subtests: pytest.Subtests) -> None:
    for by in ALL:
        for case in CASES:
            with subtests.test(by=by, case=case):
                run = many(300) if case == "many" else CASES[case]()
                view = view_of(run, by)
                assert view.total_ns == whole(run, by)
                assert sum(row.measured_ns for row in view.rows) == view.total_ns
                for shown in (0, 1, 3, 10_000):
                    for sharing in (None, 0, 2):
                        rows, rest = folded(view, shown, sharing)
                        others = [rest] if rest is not None else []
                        assert len(rows) <= shown
                        assert sum(row.measured_ns for row in (*rows, *others)) == view.total_ns
                        lost = [row.lost_ns for row in (*rows, *others) if row.lost_ns is not None]
                        if by != "kernel":
                            assert sum(lost) == sum(one.lost_ns for one in run.layers if one.lost_ns is not None)
                            assert sum(row.unpriced for row in (*rows, *others)) == sum(
                                one.lost_ns is None for one in run.layers
                            )


def test_an_op_that_a_capture_does_not_tell_has_a_name_all_the_same() -> None:
    run = typical()
    untold = [msgspec.structs.replace(one, op_type="") for one in run.layers]
    run = msgspec.structs.replace(run, layers=tuple(untold))
    assert {row.name.partition(" (")[0] for row in view_of(run, "type").rows} == {"unknown op"}
    assert "by op     unknown op" in text(run)


def test_an_op_that_the_model_does_not_have_is_told_with_those_that_it_has() -> None:
    run = typical()
    assert "FusedConv (Conv, Relu) 54 %, Conv 25 %" in text(run)
    slowest = max(run.layers, key=lambda layer: layer.measured_ns)
    nodes = run.nodes[:2]
    fused = msgspec.structs.replace(slowest, op_type="QuickGelu", nodes=tuple(node.name for node in nodes))
    others = [layer for layer in run.layers if layer is not slowest]
    kinds = [msgspec.structs.replace(node, op_type=kind) for node, kind in zip(nodes, ("Sigmoid", "Mul"), strict=True)]
    run = msgspec.structs.replace(run, layers=(fused, *others), nodes=(*kinds, *run.nodes[2:]))
    assert re.search(r"by op .*QuickGelu \(Mul, Sigmoid\) \d+ %", text(run))


names = st.sampled_from("abcdefgh")


@given(
    st.lists(
        st.tuples(st.lists(names, max_size=4, unique=True), st.integers(0, 10**6), st.booleans(), names), max_size=8
    ),
    st.dictionaries(names, st.none() | st.integers(0, 10**9)),
)
def test_a_time_stands_in_one_row_whoever_shares_it(
    asked: list[tuple[list[str], int, bool, str]], flops: dict[str, int | None]
) -> None:
    layers = []
    for place, (nodes, ns, priced, kernel) in enumerate(asked):
        one = layer(f"layer{place}", "Op", flops=1000, nbytes=1000, slow=1.5, nodes=tuple(nodes))
        match = Match(
            layer=one.name, kernel=kernel, count=2, median_ns=ns, total_ns=2 * ns, confidence="exact", reason=""
        )
        changes = {} if priced else {"attainable_ns": None, "lost_ns": None, "ideal_ns": None}
        layers.append(msgspec.structs.replace(one, measured_ns=ns, kernels=(match,), **changes))
    base = make_run(tuple(layers), captured_ns=2 * sum(ns for _, ns, _, _ in asked))
    known = tuple(
        NodeResult(name=name, op_type="Op", graph="", fate="layer", layers=(), flops=count, bytes=None)
        for name, count in flops.items()
    )
    run = msgspec.structs.replace(base, nodes=known)
    for by in ALL:
        view = view_of(run, by)
        assert sum(row.measured_ns for row in view.rows) == view.total_ns == whole(run, by)
    rows = view_of(run, "node").rows
    listed = [row.name for row in rows if not row.nameless]
    assert sorted(listed) == sorted({name for nodes, *_ in asked for name in nodes}), "every node that ran, once"
    heads = {row.name for row in rows if row.home is None}
    assert all(row.home in heads for row in rows if row.home is not None)
    assert all(row.measured_ns == 0 for row in rows if row.home is not None)


# --- by node --------------------------------------------------------------------------------


def shared() -> Run:
    """A layer of three nodes of which the second has most work, one of a single node, and one of none."""
    fused = layer("fused", "Conv", flops=10**8, nbytes=10**6, slow=2.0, nodes=("/pad", "/conv", "/relu"))
    alone = layer("alone", "Add", flops=10**5, nbytes=10**6, slow=2.0, nodes=("/add",))
    copy = layer("copy", "Reformat", flops=0, nbytes=10**5, slow=3.0, nodes=(), role="layout", match="none")
    run = make_run((fused, alone, copy))
    flops = {"/pad": 0, "/conv": 10**8, "/relu": 10**4, "/add": 10**5}
    nodes = tuple(msgspec.structs.replace(node, flops=flops[node.name]) for node in run.nodes)
    folded_node = msgspec.structs.replace(run.nodes[0], name="/const", layers=(), fate="folded")
    return msgspec.structs.replace(run, nodes=(*nodes, folded_node))


def test_a_node_shows_the_layer_that_it_shares_and_with_how_many() -> None:
    run = shared()
    fused = next(one for one in run.layers if one.name == "fused")
    rows = {row.name: row for row in view_of(run, "node").rows}
    assert rows["/conv"].sharing == 2
    assert rows["/conv"].measured_ns == fused.measured_ns
    assert (rows["/pad"].home, rows["/relu"].home) == ("/conv", "/conv")
    shown = text(run, by="node", top=10, width=140).splitlines()
    at = next(index for index, line in enumerate(shown) if "/conv +2 in fused" in line)
    assert units.in_unit(fused.measured_ns, 1e6) in shown[at].split()
    for line in shown[at + 1 : at + 3]:
        assert re.match(r' +\+ .* " +" +\| +" +"$', line), "the time is not said again"
    assert any("layers of no node" in line for line in shown)
    assert any("1 node in no layer" in line for line in shown), "there is room to say so"


def test_without_top_nodes_that_share_are_counted_not_listed() -> None:
    shown = text(typical(), by="node")
    assert '"' not in shown
    assert re.search(r"\d+ other nodes", shown)
    assert re.search(r"Conv /conv \+2 ", text(shared(), by="node"))


# --- by type and kernel ---------------------------------------------------------------------


def test_types_have_their_sums_and_shares() -> None:
    run = typical()
    conv = [one for one in run.layers if one.op_type == "Conv"]
    ns = sum(one.measured_ns for one in conv)
    line = next(line for line in text(run, by="type", top=20).splitlines() if f" {len(conv)}x Conv " in line)
    measured, estimate = (part.split() for part in line.split("|"))
    assert measured[-3:-1] == [units.in_unit(ns, 1e6), f"{100 * ns / sum(one.measured_ns for one in run.layers):.0f}"]
    allowed, lost = (sum(getattr(one, name) for one in conv) for name in ("attainable_ns", "lost_ns"))
    assert (estimate[0], estimate[-1]) == (units.in_unit(allowed, 1e6), units.in_unit(lost, 1e6))
    assert " 11x ReorderOutput (layout) " in text(run, by="type", top=20)
    nms = next(line for line in text(run, by="type", top=20).splitlines() if " NonMaxSuppression " in line)
    assert nms.split("|")[1].split() == ["-", "unknown", "-"], "what has no estimate is not 0"


def test_kernels_have_launches_share_and_what_their_names_say() -> None:
    run = typical()
    name = "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x32_stage4_warpsize2x2x1_tensor16x8x16"
    first, second, *rest = run.layers
    renamed = tuple(
        msgspec.structs.replace(one, kernels=tuple(msgspec.structs.replace(k, kernel=name) for k in one.kernels))
        for one in (first, second)
    )
    run = msgspec.structs.replace(run, layers=(*renamed, *rest))
    row = next(row for row in view_of(run, "kernel").rows if row.name == name)
    assert (row.launches, row.layers) == (100, 2)
    assert row.measured_ns == sum(kernel.total_ns for one in renamed for kernel in one.kernels)
    assert kernel_words(name) == "gemm xmma sm80"
    line = next(line for line in text(run, by="kernel", top=60, width=160).splitlines() if f"{name} " in line)
    assert "gemm xmma sm80  " in line
    assert line.split()[-4:] == [f"{100 * row.measured_ns / whole(run, 'kernel'):.0f}", "%", "100", "2"]
    assert "Memcpy_token_17" in text(run, by="kernel", top=60), "kernels of no layer are part of the whole"


def scoped(*names: str) -> Run:
    return make_run(tuple(layer(at, "MatMul", flops=10**7, nbytes=10**5, slow=2.0, nodes=(at,)) for at in names))


def test_modules_are_the_scopes_of_names_as_deep_as_makes_few() -> None:
    blocks = [f"/net/block{at}/{part}/MatMul" for at in range(12) for part in ("attention", "mlp")]
    view = view_of(scoped(*blocks, "/head/MatMul", "Softmax"), "module")
    assert {row.name for row in view.rows} >= {"net/block3/attention", "net/block11/mlp", "head"}
    (bare,) = (row for row in view.rows if row.nameless)
    assert (bare.name, bare.layers) == ("layers whose node has no scope", 1)
    deeper = [f"/net/block{at}/{part}/MatMul" for at in range(12) for part in ("q", "k", "v")]
    assert {row.name for row in view_of(scoped(*deeper), "module").rows} == {f"net/block{at}" for at in range(12)}
    wide = view_of(scoped(*(f"/only/b{at}/MatMul" for at in range(50))), "module")
    assert len(wide.rows) == 50, "the first depth that parts any is shown however many that are"
    shown = text(scoped(*blocks), by="module")
    assert " of 24 modules, " in shown
    assert "net/block0/attention 1 layer " in shown


def test_time_without_a_kernel_is_a_row_of_its_own() -> None:
    run = typical()
    bare = tuple(msgspec.structs.replace(one, kernels=()) for one in run.layers)
    run = msgspec.structs.replace(run, layers=bare, kernels_unattributed=(), captured_ns=9_000_000)
    assert "time of which no kernel is known" in text(run, by="kernel")
    assert "0 of 0 kernels" in text(run, by="kernel")


# --- layers that are alike ------------------------------------------------------------------


def detector() -> Run:
    """302 layers: four convolutions of one shape, with the largest loss together, among others of their own work."""
    alike = [layer(f"/head/{at}/conv", "Conv", flops=10**7, nbytes=10**6, slow=2.0 + at / 100) for at in range(4)]
    others = [layer(f"/body/{at}", "Relu", flops=0, nbytes=10**5 + 64 * at, slow=1.2) for at in range(297)]
    one = layer("/stem/conv", "Conv", flops=10**7, nbytes=10**6 + 8, slow=2.5)
    kernels = tuple(msgspec.structs.replace(kernel, kernel="conv3x3") for kernel in one.kernels)
    return make_run(tuple(msgspec.structs.replace(each, kernels=kernels) for each in (*alike, *others, one)))


def test_layers_that_are_alike_are_one_row_with_their_time_and_their_loss_summed() -> None:
    run = detector()
    first, second = view_of(run, "layer").rows[:2]
    alike = [one for one in run.layers if one.name.startswith("/head/")]
    assert (first.layers, second.layers) == (4, 1)
    assert first.layer is not None
    assert first.layer.name == "/head/3/conv"
    assert first.measured_ns == sum(one.measured_ns for one in alike)
    assert first.lost_ns == sum(one.lost_ns or 0 for one in alike)
    shown = text(run)
    row = next(line for line in shown.splitlines() if "/head/3/conv" in line)
    assert " 4x Conv 1x64x56x56  /head/3/conv " in row
    assert row.endswith(units.in_unit(first.lost_ns, 1e6))
    # A row of four layers is counted as four.
    number, rest = re.search(r"(\d+) of 302 layers", shown), re.search(r"(\d+) other layers", shown)
    assert number is not None
    assert rest is not None
    assert int(number[1]) + int(rest[1]) == 302
    assert "4x Conv 1x64x56x56 `/head/3/conv`" in get("markdown").render(run, ReportOptions())
    assert len(json.loads(get("json").render(run, ReportOptions()))["layers"]) == 302


def test_layers_that_differ_in_anything_that_a_kernel_is_written_for_are_not_alike(subtests: pytest.Subtests) -> None:
    changed: dict[str, Any] = {"shapes": "1x64x28x28 -> 1x64x28x28", "dtype": "fp16", "op_type": "Gemm",
                               "bytes": 10**6 + 2, "flops": 10**7 + 2, "lost_ns": None, "kernels": ()}  # fmt: skip
    for field, value in changed.items():
        with subtests.test(field=field):
            run = detector()
            layers = tuple(
                msgspec.structs.replace(one, **{field: value}) if one.name == "/head/0/conv" else one
                for one in run.layers
            )
            rows = view_of(msgspec.structs.replace(run, layers=layers), "layer").rows
            assert {row.layers for row in rows if row.layer is not None and row.layer.name.startswith("/head/")} == {
                1,
                3,
            }


def test_a_shape_is_told_in_the_words_of_its_op(subtests: pytest.Subtests) -> None:
    for op, shapes, words in [
        ("Conv", "1x96x52x52, 96x96x3x3, 96 -> 1x96x52x52", "3x3 96>96 52x52"),
        ("FusedConv", "8x3x224x224, 16x3x3x3 -> 8x16x112x112", "3x3 3>16 224x224>112x112 batch 8"),
        ("Conv", "1x256x14x14, 256x1x5x5 -> 1x256x14x14", "5x5 depthwise 256 14x14"),
        ("Conv", "1x32x8x8, 64x8x3x3 -> 1x64x8x8", "3x3 32>64 8x8 groups 4"),
        ("ConvTranspose", "1x16x8x8, 16x4x2x2 -> 1x4x16x16", "2x2 16>4 8x8>16x16"),
        ("Conv", "1x1x576, 258x1x256 -> 1x258x3", "256 1>258 576>3"),
        ("Conv", "1x3x?x?, 16x3x3x3 -> 1x16x?x?", "1x16x?x?"),
        ("Conv", "1x3x8x8 -> 1x16x8x8", "1x16x8x8"),
        ("MatMul", "128x768, 768x3072 -> 128x3072", "128x768 x 768x3072"),
        ("QLinearMatMul", "1x6x400x64, scalar, scalar, 1x6x64x400 -> 1x6x400x400", "1x6x400x64 x 1x6x64x400"),
        ("ReduceSum", "1x512x256, 1 -> 1x256", "1x512x256>1x256"),
        ("Concat", "1x8x4, 1x8x4 -> 1x16x4", "1x16x4"),
        ("Relu", "1x8x4 -> 1x8x4", "1x8x4"),
        ("If", "scalar -> 1x1", "1x1"),
    ]:
        with subtests.test(op=op, shapes=shapes, words=words):
            one = layer("n", op, flops=10**6, nbytes=10**5, slow=2.0)
            assert shape_words(msgspec.structs.replace(one, op_type=op, shapes=shapes)) == words
