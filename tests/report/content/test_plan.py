"""What a built engine looks like on screen and in documents."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.plan_factory import CASES, many, plan_of, row, typical
from tests.fakes.rendering import render_csv, render_markdown, render_text
from tests.fakes.support import ROOT, SAMPLES, columns, fixed_ceilings
from trtprof.analysis.plan import on_device, price_plan
from trtprof.base.records import EngineFacts, EnginePlan, NodeFate, PlanLint, PlanSummary
from trtprof.engine.inspector import read_layer_info
from trtprof.report import ReportOptions
from trtprof.report.content.plan import (
    LAYERS,
    LAYERS_OF_A_PART,
    PLACES,
    engine_text,
    fates_text,
    layer_names,
    layers_text,
    nodes_of,
    op_runs,
    parts,
    summary_of,
    worth_a_look,
)
from trtprof.report.document import Document, Notes, Section, sections
from trtprof.report.formats.text import text_of
from trtprof.report.tables import table_of
from trtprof.source.load import load_model, source_of


def _shown(parts: Iterable[Section], width: int, **options: Any) -> list[str]:
    document = Document(title="", titled=False, sections=tuple(parts), least_width=1)
    return text_of(document, ReportOptions(width=width, **options)).splitlines()


def summary_lines(
    summary: PlanSummary, width: int = 80, *, ascii_only: bool = False, top: int | None = None, **options: Any
) -> list[str]:
    return _shown(sections(*summary_of(summary, top, **options)), width, ascii=ascii_only)


def plan_lines(plan: EnginePlan) -> list[str]:
    return _shown(parts(plan, ReportOptions(), LAYERS_OF_A_PART), 80)


def node_lines(nodes: Sequence[str], width: int, lines: int = 2, before: str = "") -> list[str]:
    return _shown(sections([Notes((nodes_of(nodes, before=before),), lines, hang=0)]), width)


COLUMNS = tuple(column.name for column in table_of("layers", EnginePlan).columns(None))
LOGS = ROOT / "tests/engine" / "data"


def real(name: str) -> EnginePlan:
    """The plan in a log of a real build, led back to its model."""
    source = source_of(load_model(SAMPLES / f"{name}.onnx"), {}, feed=False)
    return price_plan(read_layer_info(LOGS / f"rtx_{name}.log"), source).document


# --- text -----------------------------------------------------------------------------------


def test_what_is_worth_a_look_stands_before_the_layers() -> None:
    text = render_text(typical(), 100)
    look = text.index("look at")
    layers = text.index("10 layers, in execution order")
    assert look < layers
    for words in ("1 fusion to be expected did not happen", "2 reformats, 602 kB: 1 input, 1 QDQ",
                  "TC1 at 5 layers: input channels", "1 node lost"):  # fmt: skip
        assert words in text[look:layers]
    assert layers < text.index("nodes that are lost") < text.index("fusions that did not happen")
    assert text.index("by kind") < text.index("warning: ") < text.index("note: ")


def test_the_head_says_how_the_engine_came_about() -> None:
    text = render_text(typical())
    for words in ("tensorrt-rtx 1.2.3, no GPU, onnx 1.20.0", "TensorRT 11 or TensorRT-RTX",
                  "converted before the build", "build       243 ms",
                  "112 in the network -> 10 in the engine -> 7 launches",
                  "in layers, 1 folded, 1 eliminated, 1 lost"):  # fmt: skip
        assert words in text
    facts = msgspec.structs.replace(typical().facts, cached=True)
    cached = msgspec.structs.replace(typical(), facts=facts)
    assert "taken from the cache; it took 243 ms" in render_text(cached)


def test_words_of_the_head() -> None:
    summary = typical().summary
    assert layers_text(EngineFacts(), summary) == "10 in the engine -> 7 launches"
    assert engine_text(EngineFacts()) == "not known"
    assert fates_text({}) == ""
    assert fates_text({"folded": 2, "layer": 3}) == "5: 3 in layers, 2 folded, 0 lost"
    assert op_runs(["Conv", "Relu", "Relu", "", "Add"]) == ["Conv", "2 Relu", "Add"]


def test_layers_are_in_execution_order_and_top_takes_the_largest() -> None:
    plan = many(300)
    text = render_text(plan, 100, top=12)
    assert "12 of 300 layers, largest by bytes, in execution order" in text
    start = text.index("ONNX nodes\n")
    rows = [int(line.split()[0]) for line in text[start : text.index("nodes that are lost")].splitlines()[1::2] if line]
    sizes = [0 if work is None else work.bytes for work in plan.works]
    assert rows == sorted(rows)
    assert {sizes[index] for index in rows} == set(sorted(sizes)[-12:])
    assert f"{LAYERS} of 300 layers" in render_text(plan)


def test_layers_that_launch_nothing_are_one_line() -> None:
    text = render_text(typical())
    assert "(2 wait, signal: launch nothing)" in text
    assert "wait_1" not in text


def test_a_layer_shows_its_nodes_and_their_folder_once() -> None:
    text = render_text(typical())
    assert "/stem/ conv/Conv, bn/BatchNormalization, Relu" in text
    assert "Conv + BatchNormalization + Relu" in text
    assert "~2 MatMul" in text
    assert "step0/Mul*" in text
    assert "~ led back by inference, * a node in several layers, < at most" in text
    assert "(no node) __myl_Move_myl0_4" in text
    assert "(layout) fp32 Linear -> fp16 NHWC8" in text
    untold = msgspec.structs.replace(typical().summary, reformats=())
    assert "(layout) for /stem/conv/Conv" in render_text(msgspec.structs.replace(typical(), summary=untold))


def test_nodes_that_do_not_fit_are_counted() -> None:
    nodes = [f"/m/{index:04}" for index in range(5000)]
    lines = node_lines(nodes, 40)
    assert len(lines) == 2
    assert lines[0].startswith("/m/ 0000, 0001, ")
    shown = " ".join(lines).removeprefix("/m/ ").split(", ")
    assert shown[-1] == f"{5000 - (len(shown) - 1):,} more"
    assert node_lines(["a/b", "a/c"], 40) == ["a/ b, c"]
    assert node_lines(["n1", "n2"], 40, before="Conv:") == ["Conv: n1, n2"]


@given(
    st.lists(st.text(alphabet="abc/", max_size=30), min_size=1, max_size=30),
    st.integers(24, 90),
    st.integers(1, 3),
    st.sampled_from(["", "Conv + Relu:"]),
)
def test_every_node_is_shown_or_counted(nodes: list[str], width: int, lines: int, before: str) -> None:
    found = node_lines(nodes, width, lines, before=before)
    assert len(found) <= lines
    assert max(map(len, found)) <= width
    text = " ".join(found)
    left = int(text.rpartition(", ")[2].removesuffix(" more").split()[-1]) if text.endswith(" more") else 0
    assert text.count(",") == len(nodes) - left - (left == 0)


def test_without_a_model_the_nodes_that_the_plan_names_are_shown() -> None:
    text = render_text(CASES["without_model"]())
    assert "no model was given" in text
    assert "conv, relu" in text
    assert "work        not known of any layer" in text


def test_a_real_plan() -> None:
    plan = real("resnet_tiny")
    text = render_text(plan)
    assert f"{len(plan.layers)} layers, in execution order" in text
    assert "/stem/ conv/Conv, bn/BatchNormalization, Relu" in text
    assert "input       image  fp32 ?x3x64x64" in text
    table = text[text.index("ONNX nodes\n") : text.index("fusions that did not happen")]
    rows = [line for line in table.splitlines() if line[:2].strip().isdigit()]
    assert [int(line.split()[0]) for line in rows] == [
        index for index, matched in enumerate(plan.layers) if matched.role in ("compute", "layout")
    ]


# --- the summary ----------------------------------------------------------------------------


def test_fusions_without_a_price_stand_by_what_is_expected_and_bytes() -> None:
    text = "\n".join(summary_lines(typical().summary))
    assert "fusions that did not happen: 2, 1 to be expected; 3.34 MB through memory" in text
    assert text.index("gemm_3 ->") < text.index("__myl_CorrMulAddRelu_myl0_1 ->")
    assert "would save" not in text
    assert "epilogue, to be expected: the rule 'product'" in text
    assert "and 1 more" in text


def test_reformats_by_origin_and_lints_by_code() -> None:
    plan = typical(timed=True)
    text = "\n".join(summary_lines(plan.summary, 120, names=layer_names(plan)))
    assert "reformats: 2, by origin" in text
    assert "1 x input" in text
    assert "fp32 Linear -> fp16 NHWC8 for #4 /stem/Relu +2" in text
    assert "TC1 x 5: input channels that tensor cores cannot use in full" in text
    assert text.count("     at   ") == PLACES + 1
    assert f"{5 - PLACES} more" in text
    assert text.count("     try  ") == 2


def test_what_is_found_at_an_output_is_not_told_of_the_input() -> None:
    """Of two conversions at the borders each is told with its side, and each place with what to try there."""

    def lint(layer: str, side: str, to: str) -> PlanLint:
        take = "take" if side == "input" else "give"
        return PlanLint(
            code="RF1", layer=layer, what=f"converts an {side} of the engine", evidence=f"{side}, {to}",
            try_=f"let the engine {take} {to}",
        )  # fmt: skip

    lints = lint("first", "input", "fp16"), lint("last", "output", "fp16"), lint("other", "output", "int8")
    summary = msgspec.structs.replace(typical().summary, lints=lints)
    lines = [line.strip() for line in summary_lines(summary)]
    for first, second in (
        ("RF1 x 1: converts an input of the engine", "at   first: input, fp16"),
        ("at   first: input, fp16", "try  let the engine take fp16"),
        ("RF1 x 2: converts an output of the engine", "at   last: output, fp16"),
        ("at   last: output, fp16", "try  let the engine give fp16"),
        ("at   other: output, int8", "try  let the engine give int8"),
    ):
        assert lines[lines.index(first) + 1] == second
    looks = worth_a_look(summary)
    assert "RF1 at 1 layer: converts an input of the engine" in looks
    assert "RF1 at 2 layers: converts an output of the engine" in looks


def test_shares_have_bars_and_say_of_what() -> None:
    text = "\n".join(summary_lines(typical().summary))
    assert "of bytes" in text
    assert "allows" not in text
    timed = typical(timed=True).summary
    lines = summary_lines(timed, ascii_only=True)
    assert any("allows  of time" in line for line in lines)
    assert any("measured  of time" in line for line in summary_lines(timed, measured=True))
    for share in timed.by_kind:
        (line,) = (line for line in lines if line.split()[:1] == [share.what] or share.what[:6] in line[:10])
        assert line.count("#") == round(share.fraction * 20)


def test_the_plan_as_a_part_has_no_bindings_and_fewer_layers() -> None:
    text = "\n".join(plan_lines(many(300)))
    assert "8 of 300 layers" in text
    assert "\ninput " not in "\n".join(plan_lines(typical()))


# --- documents ------------------------------------------------------------------------------


def test_the_csv_has_every_layer() -> None:
    plan = typical()
    rows = list(csv.DictReader(io.StringIO(render_csv(plan))))
    assert tuple(rows[0]) == COLUMNS
    assert [row["name"] for row in rows] == [matched.layer.name for matched in plan.layers]
    assert rows[4]["op_types"] == "Conv;BatchNormalization;Relu"
    assert rows[4]["nodes"] == "/stem/conv/Conv;/stem/bn/BatchNormalization;/stem/Relu"
    assert rows[4]["outputs"] == "__myl_CorrMulAddRelu_myl0_1_out fp16 1x8x16x?"
    assert sum(int(row["bytes_read"] or 0) + int(row["bytes_written"] or 0) for row in rows) == sum(
        work.bytes for work in plan.works if work
    )
    # Unknown is not 0.
    assert rows[-1]["bytes_read"] == rows[-1]["tensor_flops"] == ""


def test_markdown_has_all_parts() -> None:
    text = render_markdown(typical(timed=True))
    for part in ("### tensorrt-rtx 1.2.3", "| look at |", "10 layers, in execution order", "nodes that are lost",
                 "fusions that did not happen: 2", "reformats: 2", "worth checking: 6 places", "| by kind |",
                 "- note: "):  # fmt: skip
        assert part in text
    assert "3 of 10 layers" in render_markdown(typical(), top=3)


# --- size -----------------------------------------------------------------------------------


def test_names_of_ten_kilobytes_are_no_burden() -> None:
    long = tuple(f"/{'n' * 10_000}/{index}" for index in range(100))
    plan = plan_of([row(name, "kgen", long) for name in long], [NodeFate(node=name, fate="lost") for name in long])
    text = render_text(plan, top=100)
    assert max(map(columns, text.splitlines())) <= 80


def test_times_on_a_device_are_in_the_summary() -> None:
    source = source_of(load_model(SAMPLES / "resnet_tiny.onnx"), {}, feed=False)
    priced = price_plan(read_layer_info(LOGS / "rtx_resnet_tiny.log"), source)
    text = "\n".join(summary_lines(on_device(priced, fixed_ceilings()).summary))
    assert "of time" in text
    assert "allows" in text
