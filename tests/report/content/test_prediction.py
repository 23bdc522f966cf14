"""What `trtprof predict` prints and draws."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.engine_factory import write_engine
from tests.fakes.estimates import built, predicted
from tests.fakes.rendering import render_csv, render_html, render_image, render_json, render_markdown, render_text
from tests.fakes.support import known
from trtprof.base.errors import UsageError
from trtprof.base.records import ExpectedBasis, GpuPrediction, PredictedLayer, Prediction, bound_name
from trtprof.base.units import format_band, format_ns
from trtprof.flows.analyze import Files, analyze
from trtprof.flows.predict.groups import Settings
from trtprof.flows.predict.on_gpus import gpu_prediction
from trtprof.hardware import gpus
from trtprof.report import _roofline
from trtprof.report.content.prediction import longest
from trtprof.report.formats._style import BOUND_COLORS
from trtprof.report.tables import table_of

COLUMNS = tuple(column.name for column in table_of("layers", Prediction).columns(None))
SLUGS = ("rtx-4090", "a100-sxm4-80gb", "t4", "l4")


@pytest.fixture(scope="module")
def one() -> Prediction:
    return predicted("resnet_tiny", "rtx-4090", image=(64, 3, 64, 64))


@pytest.fixture(scope="module")
def many() -> Prediction:
    return predicted("resnet_tiny", *SLUGS, image=(64, 3, 64, 64))


@pytest.fixture(scope="module")
def engine() -> Prediction:
    return built("resnet_tiny", "rtx-4090")


# --- text -----------------------------------------------------------------------------------


def test_one_gpu_is_shown_with_its_layers(one: Prediction) -> None:
    text = render_text(one)
    (gpu,) = one.gpus
    for part in ("RTX 4090 at 2520 MHz, 450 W", "ridge ", "memory      fits", "bound by precision", "bound by",
                 "estimated groups, no engine built", "weak figures of its datasheet"):  # fmt: skip
        assert part in text
    assert f"(10 of {len(gpu.layers)})" in text
    first = longest(gpu)[0]
    assert first.estimate is not None
    assert f"{bound_name(first.estimate.bound)} >= " in text
    assert f", {bound_name(first.estimate.runner_up)} >= " in text
    assert "fastest" not in text


def test_a_screen_tells_what_was_assumed_of_this_model_and_paper_what_of_all(one: Prediction) -> None:
    model = msgspec.structs.replace(one.model, assumptions=("batch is 1",))
    found = msgspec.structs.replace(one, model=model, assumptions=("batch is 1", "energy is the bound", "no engine"))
    text = render_text(found)
    assert "assumed: batch is 1" in text
    assert "2 assumptions of the method" in text
    assert "energy is the bound" not in text
    for paper in (render_markdown(found), render_html(found)):
        assert all(f"assumed: {each}" in paper for each in found.assumptions)


def test_several_gpus_are_compared_before_all_else(many: Prediction) -> None:
    text = render_text(many, 100)
    lines = text.splitlines()
    table = next(at for at, line in enumerate(lines) if line.startswith("GPU "))
    assert [line.split()[0] for line in lines[table + 1 : table + 5]] == list(SLUGS)
    assert "fastest by the bound: A100 80 GB SXM4, >= 29.3 us (not each GPU has a forecast of the same layers)" in text
    assert "most efficient per watt by the bound: " in text
    assert text.index("fastest") < text.index("layers of")
    assert "no unit" in text


def test_what_has_no_price_is_said(one: Prediction) -> None:
    gpu = one.gpus[0]
    lost = msgspec.structs.replace(gpu.layers[0], work=None, estimate=None, reason="Mystery: no cost function")
    found = msgspec.structs.replace(one, gpus=(msgspec.structs.replace(gpu, layers=(lost, *gpu.layers[1:])),))
    text = render_text(found, top=99)
    assert "no price" in text
    assert "Mystery: no cost function" in text
    assert longest(found.gpus[0])[-1] == lost


# --- bounds and expectations ----------------------------------------------------------------


def with_expectations(found: Prediction, *, of: int = 1, reason: str = "", scale: float = 2.0) -> Prediction:
    """Every ``of``-th layer with an expectation of ``scale`` times its bound; the others are refused.

    With a ``reason`` they are extrapolations, for it.
    """
    basis: ExpectedBasis = "extrapolated" if reason else "measured"

    def layer(at: int, one: PredictedLayer) -> PredictedLayer:
        if at % of or one.estimate is None:
            none = {"expected_ns": None, "expected_p10_ns": None, "expected_p90_ns": None, "expected_basis": "none"}
            return msgspec.structs.replace(one, **none, expected_reason="nothing like it was measured")
        ns = round(one.estimate.attainable_ns * scale)
        band = {"expected_ns": ns, "expected_p10_ns": round(ns * 0.9), "expected_p90_ns": round(ns * 1.5)}
        return msgspec.structs.replace(one, **band, expected_basis=basis, expected_reason=reason)

    def on(gpu: GpuPrediction) -> GpuPrediction:
        layers = tuple(layer(at, one) for at, one in enumerate(gpu.layers))
        return gpu_prediction(gpus.find(gpu.gpu), Settings(), gpu.ceilings, layers, gpu.by_precision, 1)

    return msgspec.structs.replace(found, gpus=tuple(map(on, found.gpus)))


_DURATION = re.compile(r"(?<![\d.])\d[\d.,]* (?:ns|us|ms|s|mJ|J)\b")


def bare_times(text: str) -> list[str]:
    """Durations and energies without what says that they are a bound, an expectation or the end of a band."""
    flat = " ".join(text.replace("**", "").replace("`", "").replace("&#62;", ">").replace("&gt;", ">").split())
    return [
        flat[max(0, match.start() - 20) : match.end()]
        for match in _DURATION.finditer(flat)
        if not re.search(r"(>= |~|\.\. )$", flat[: match.start()])
    ]


@pytest.mark.parametrize("of", [1, 2, 99])
def test_no_document_shows_a_bound_like_a_forecast(many: Prediction, engine: Prediction, of: int) -> None:
    for found in (many, one_of(many), engine):
        some = with_expectations(found, of=of)
        for text in (render_text(some, 80, top=99), render_text(some, 60), render_markdown(some, top=99)):
            assert bare_times(text) == []
        page = render_html(some)
        assert bare_times(re.sub(r"<style.*?</style>|<[^>]+>", " ", page, flags=re.DOTALL)) == []


def test_a_bare_time_would_be_found() -> None:
    text = "time 198 us, >= 3 us, ~4.20 ms (3.00 .. 5.00 ms) or 5 s, 7.1 mJ or >= ~2 J"
    assert [found.split()[-2:] for found in bare_times(text)] == [["198", "us"], ["5", "s"], ["7.1", "mJ"]]


def one_of(found: Prediction) -> Prediction:
    return msgspec.structs.replace(found, gpus=found.gpus[:1])


def test_bound_and_expectation_stand_beside_one_another_with_the_level_of_the_band(many: Prediction) -> None:
    some = with_expectations(one_of(many))
    (gpu,) = some.gpus
    assert gpu.expected_ns is not None
    text = render_text(some)
    assert f"time        >= {format_ns(gpu.time_ns or 0)} (bound), <= " in text
    assert f"expected    {format_band(gpu.expected_ns, gpu.expected_p10_ns or 0, gpu.expected_p90_ns or 0)}, ~" in text
    assert ", 80 %)" in text
    assert "80 % band" in text  # the head of the column
    first = longest(gpu)[0]
    assert first.expected_ns is not None
    row = next(line for line in text.splitlines() if line.startswith(f">= {format_ns(first.estimate.attainable_ns)}"))  # type: ignore[union-attr]
    assert f"~{format_ns(first.expected_ns)} " in row
    assert " .. " in row


def test_layers_without_an_expectation_are_counted_with_their_bound_and_the_reason(many: Prediction) -> None:
    some = with_expectations(one_of(many), of=2)
    (gpu,) = some.gpus
    refused = [layer for layer in gpu.layers if layer.expected_ns is None]
    text = render_text(some)
    assert f"{len(refused)} of {len(gpu.layers)} layers without: >= {format_ns(gpu.refused_ns)}" in text
    assert f"{len(refused)} x nothing like it was measured" in text
    if gpu.expected_ns is None:
        assert "no forecast: only layers of " in text
    else:
        # Of what is not in the forecast the bound is in its rate.
        assert f"<= ~{1e9 / (gpu.expected_ns + gpu.refused_ns):,.0f} /s" in text


def test_without_half_of_the_bound_time_there_is_no_forecast_and_it_says_why(many: Prediction) -> None:
    some = with_expectations(one_of(many), of=99)
    (gpu,) = some.gpus
    assert (gpu.expected_ns, gpu.expected_p10_ns, gpu.expected_p90_ns) == (None, None, None)
    assert "expected    no forecast: only layers of " in render_text(some)
    assert "% of the bound time have an expectation" in gpu.expected_reason


def test_a_wider_band_is_marked_and_its_reason_told(many: Prediction) -> None:
    some = with_expectations(one_of(many), reason="extrapolated: k lies outside of what was measured")
    text = render_text(some)
    (gpu,) = some.gpus
    assert f"{len(gpu.layers)} x extrapolated: k lies outside of what was measured" in text
    assert "* with the wider band of what was not measured itself" in text
    assert f"~{format_ns(longest(gpu)[0].expected_ns or 0)}* " in text
    assert "extrapolated: k lies outside" in render_html(some)
    assert "*" not in render_text(with_expectations(one_of(many))).replace("**", "")


def test_how_much_of_a_forecast_no_verdict_rests_on_is_told(many: Prediction) -> None:
    firm = with_expectations(many)
    far = with_expectations(many, reason="extrapolated: k lies outside of what was measured")
    words = "100.0 % of shapes outside of those that were measured"
    for found, told in ((firm, False), (far, True)):
        assert (f"of what is expected {words}" in " ".join(render_text(found).split())) is told
        one = " ".join(render_text(one_of(found)).split())
        assert (f"of it {words}: shown, and no verdict rests on it" in one) is told
    assert all(gpu.expected_ns_by_basis == {"extrapolated": gpu.expected_ns} for gpu in far.gpus)
    table = table_of("gpus", Prediction)
    names = [column.name for column in table.columns(None)]
    for row, gpu in zip(table.rows(far), far.gpus, strict=True):
        cells = dict(zip(names, row, strict=True))
        assert (cells["expected_measured_ns"], cells["expected_extrapolated_ns"]) == (None, gpu.expected_ns)


def test_energy_is_of_what_the_gpus_are_compared_by(many: Prediction) -> None:
    some = with_expectations(many)
    frugal = min(some.gpus, key=lambda gpu: gpu.expected_joules or 0)
    found = msgspec.structs.replace(some, fastest_by="expectation", most_efficient=frugal.gpu)
    told = " ".join(render_text(found).split())
    assert f"most efficient per watt by the expectation: {frugal.name}, ~" in told
    assert "most efficient per watt by the bound: " in " ".join(render_text(many).split())
    for gpu in some.gpus:
        assert gpu.expected_joules == pytest.approx((gpu.expected_ns or 0) / 1e9 * gpu.tdp_w)


def test_several_gpus_have_both_columns(many: Prediction) -> None:
    some = with_expectations(many)
    text = render_text(some, 100)
    head = next(line for line in text.splitlines() if line.startswith("GPU "))
    assert head.split()[:6] == ["GPU", "bound", "expected", "80", "%", "band"]
    for gpu in some.gpus:
        row = next(line for line in text.splitlines() if line.startswith(f"{gpu.gpu} "))
        assert f">= {format_ns(gpu.time_ns or 0)} " in row
        assert f"~{format_ns(gpu.expected_ns or 0)} " in row


@pytest.mark.parametrize("width", [60, 80])
def test_expectations_fit_and_lose_nothing_that_counts(many: Prediction, width: int) -> None:
    some = with_expectations(many, of=2, reason="extrapolated: k lies outside of what was measured")
    text = render_text(some, width)
    assert max(map(len, text.splitlines())) <= width
    for gpu in some.gpus:
        assert f">= {format_ns(gpu.time_ns or 0)}" in text
        assert f">= {format_ns(gpu.refused_ns)}" in text
        if gpu.expected_ns is not None:
            assert f"~{format_ns(gpu.expected_ns)}*" in text


# --- of a built engine ----------------------------------------------------------------------


def test_an_engine_is_named_with_its_layers_and_what_became_of_the_nodes(engine: Prediction) -> None:
    text = render_text(engine)
    plan = engine.gpus[0].plan
    assert plan is not None
    head = text[: text.index("RTX 4090 at")]
    for words in ("layers of the engine", "engine tensorrt-rtx 1.2.3, no GPU", "built  fp32, as in the file",
                  f"80 in the network -> {plan.layers} in the engine -> {plan.launches} launches",
                  f"nodes  {len(engine.fates)}: "):  # fmt: skip
        assert words in head
    assert "by kind" in text[text.index("the engine on RTX 4090") :]
    assert "\n  engine " not in render_text(predicted("resnet_tiny", "rtx-4090"))


def test_layers_of_an_engine_show_kind_and_nodes(engine: Prediction) -> None:
    text = render_text(engine, 120, top=99)
    assert "Conv + BatchNormalization + Relu: /stem/ conv/Conv, bn/BatchNormalization, Relu" in text
    assert "runtime_fusion  " in text
    assert "maxpool: MaxPool  " in text
    assert "__myl_Corr" not in text


def test_how_surely_nodes_were_found_is_said_where_it_is_not_sure(engine: Prediction) -> None:
    (gpu,) = engine.gpus
    first, second, *others = gpu.layers
    layers = (
        msgspec.structs.replace(first, match="inferred", reason="between its borders"),
        msgspec.structs.replace(second, match="none", reason="nothing names it"),
        *(msgspec.structs.replace(layer, match="exact", reason="the plan names them") for layer in others),
    )
    text = render_text(msgspec.structs.replace(engine, gpus=(msgspec.structs.replace(gpu, layers=layers),)), top=99)
    assert "nodes inferred: between its borders" in text
    assert "no node found: nothing names it" in text
    assert "the plan names them" not in text


def test_of_several_gpus_the_engine_is_summed_up_on_the_first() -> None:
    text = render_text(built("resnet_tiny", *SLUGS), 100)
    assert "the engine on RTX 4090" in text
    assert text.count("by kind") == 1
    assert text.index("fastest by ") < text.index("layers of RTX 4090")


def test_precisions_may_be_missing(engine: Prediction) -> None:
    (gpu,) = engine.gpus
    none = msgspec.structs.replace(engine, gpus=(msgspec.structs.replace(gpu, by_precision={}),))
    assert "bound by precision" not in render_text(none)
    assert "bound by precision" not in render_markdown(none)
    other = msgspec.structs.replace(gpu, gpu="other", by_precision={"tf32": None})
    both = msgspec.structs.replace(
        engine, gpus=(msgspec.structs.replace(gpu, by_precision={"fp32": 2000}), other), fastest=gpu.gpu,
        most_efficient=gpu.gpu,
    )  # fmt: skip
    lines = render_text(both, 120).splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("bound by precision"))
    assert [line.split() for line in lines[at + 1 : at + 4]] == [
        ["GPU", "fp32", "tf32"],
        ["rtx-4090", ">=", "2.00", "us", "-"],
        ["other", "-", "no", "unit"],
    ]


def test_documents_of_an_engine(engine: Prediction) -> None:
    assert msgspec.json.decode(render_json(engine), type=Prediction) == engine
    rows = list(csv.DictReader(io.StringIO(render_csv(engine))))
    assert tuple(rows[0]) == COLUMNS
    assert {row["kind"] for row in rows} == {layer.kind for layer in engine.gpus[0].layers}
    text = render_markdown(engine)
    for part in (
        "- engine tensorrt-rtx 1.2.3",
        "the engine on RTX 4090",
        "| by kind |",
        "| bound | expected | share | layer |",
    ):
        assert part in text
    assert render_image(engine, ".svg") == render_image(engine, ".svg")


# --- documents ------------------------------------------------------------------------------


def test_the_csv_has_every_layer_of_every_gpu(many: Prediction) -> None:
    rows = list(csv.DictReader(io.StringIO(render_csv(many))))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == sum(len(gpu.layers) for gpu in many.gpus)
    for gpu in many.gpus:
        times = [int(row["attainable_ns"]) * int(row["repeats"]) for row in rows if row["gpu"] == gpu.gpu]
        assert times == sorted(times, reverse=True)
        assert sum(times) == gpu.time_ns
    for row in rows:
        terms = [int(row[f"{term}_ns"]) for term in ("launch", "tensor", "vector", "sfu", "dram", "l2")]
        assert max(terms) == int(row["attainable_ns"]) == int(row[f"{row['bound']}_ns"])


# --- the picture ----------------------------------------------------------------------------


def test_a_layer_that_no_algorithm_need_compute_is_no_point(many: Prediction) -> None:
    """Of one product a fast algorithm does without, by the count: zero has no logarithm."""
    layer = next(each for each in many.gpus[0].layers if each.work is not None and each.work.tensor_flops)
    assert layer.work is not None
    work = msgspec.structs.replace(layer.work, tensor_flops=1, fast_flops=1, vector_flops=0, special={})
    gpu = msgspec.structs.replace(
        many.gpus[0], layers=(msgspec.structs.replace(layer, work=work), *many.gpus[0].layers)
    )
    assert _roofline.plot_of(gpu) == _roofline.plot_of(many.gpus[0])


def test_no_point_is_above_the_roof(many: Prediction) -> None:
    for gpu in many.gpus:
        plot = _roofline.plot_of(gpu)
        assert plot is not None
        highest = max(roof.flops_per_s for roof in plot.roofs)
        for point in plot.points:
            assert point.flops_per_s <= min(highest, point.intensity * plot.cache) * (1 + 1e-9)


def test_fp32_products_lie_under_the_roof_of_tf32() -> None:
    names = {}
    for precision in ("model", "fp32"):
        (gpu,) = predicted("gemv", "a100-sxm4-80gb", how=Settings(precision=precision)).gpus
        plot = _roofline.plot_of(gpu)
        assert plot is not None
        names[precision] = [roof.name for roof in plot.roofs]
    assert names == {"model": ["tf32", "fp32 vector"], "fp32": ["fp32, fp32 vector"]}


@given(
    st.lists(
        st.tuples(st.floats(1e-6, 1e6), st.floats(1e-9, 1.0), st.sampled_from(sorted(BOUND_COLORS)), st.integers(1, 9)),
        min_size=1,
        max_size=5,
    ),
    st.floats(1e9, 1e16),
    st.floats(1e8, 1e13),
)
def test_scales_hold_any_layers_under_a_roof(
    layers: list[tuple[float, float, str, int]], peak: float, dram: float
) -> None:
    points = tuple(
        _roofline.Point(intensity, share * min(peak, 4 * dram * intensity), bound, ns)
        for intensity, share, bound, ns in layers
    )
    plot = _roofline.Plot("a GPU", points, (_roofline.Roof("fp32", peak, peak / dram),), dram, 4 * dram)
    assert all(plot.left <= point.intensity <= plot.right for point in points)
    assert plot.bottom < plot.top
    assert all(point.flops_per_s < plot.top for point in points)


def test_the_image_is_the_same_every_time(many: Prediction) -> None:
    image = render_image(many, ".svg")
    assert image == render_image(many, ".svg")
    text = image.decode()
    ET.fromstring(text)  # noqa: S314 - our own picture
    assert all(gpu.name in text for gpu in many.gpus)
    assert "<dc:date>" not in text
    png = render_image(msgspec.structs.replace(many, gpus=many.gpus[:1]), ".png")
    assert png.startswith(b"\x89PNG")
    assert b"matplotlib" not in png.lower()


def _idle(gpu: GpuPrediction) -> GpuPrediction:
    def still(layer: PredictedLayer) -> PredictedLayer:
        assert layer.work is not None
        return msgspec.structs.replace(layer, work=msgspec.structs.replace(layer.work, tensor_flops=0))

    return msgspec.structs.replace(gpu, layers=tuple(map(still, gpu.layers)))


def test_without_arithmetic_there_is_nothing_to_draw() -> None:
    found = predicted("gemv", "rtx-4090")
    found = msgspec.structs.replace(found, gpus=tuple(map(_idle, found.gpus)))
    with pytest.raises(UsageError, match="no roofline"):
        render_image(found, ".svg")


def of_regions(folder: Path, *slugs: str, priced: bool = False) -> Prediction:
    """An engine of which only the borders of its blocks are known; ``priced``: with a convolution between them."""
    layers = write_engine(folder, "regions").layers
    document = json.loads(known(layers).read_text())
    if not priced:
        document["Layers"] = [layer for layer in document["Layers"] if layer["LayerType"] == "Myelin"]
        known(layers).write_text(json.dumps(document))
    found = analyze(Files(layers=layers), [gpus.find(slug) for slug in slugs], Settings())
    assert isinstance(found, Prediction)
    return found


WOULD_PRICE = "nothing is priced, the work of no layer is known: give the model that the engine was built from (--onnx)"


@pytest.mark.parametrize("slugs", [["rtx-4090"], ["rtx-4090", "l4"]])
def test_where_nothing_is_priced_that_is_the_verdict_in_every_format(slugs: list[str], tmp_path: Path) -> None:
    found = of_regions(tmp_path, *slugs)
    document = json.loads(render_json(found))
    assert document["unpriced"] == WOULD_PRICE
    assert (document["fastest"], document["most_efficient"]) == ("", "")
    for gpu in document["gpus"]:
        assert (gpu["time_ns"], gpu["ideal_ns"], gpu["joules"], gpu["by_precision"]) == (None, None, None, {})
        assert "layers without a price, which are not in the time: 2" in gpu["notes"]
    for text in (render_text(found), render_markdown(found)):
        words = " ".join(text.replace("`", "").split())
        assert f"no verdict: {WOULD_PRICE}" in words
        assert "nothing to do" not in words
        assert " 0 ns" not in words


def test_the_time_of_a_part_is_not_told_as_that_of_the_whole(tmp_path: Path) -> None:
    text = render_text(of_regions(tmp_path, "rtx-4090", priced=True))
    assert "; 2 of 3 layers unpriced" in " ".join(text.split())
    assert "launches    at least 3; without" in text
    assert "verdict     of what is priced, compute-bound" in text
