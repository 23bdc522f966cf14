"""What is expected of the layers of a prediction: their sum, what is refused, and the GPU that is fastest by it."""

from __future__ import annotations

import math

import msgspec
import pytest

from tests.fakes.estimates import predicted
from trtprof.base.records import EXPECTED_BASES, WIDER_BASES, Ceilings, Expectation, GpuSpec, Prediction, Work
from trtprof.flows.predict import on_gpus
from trtprof.flows.predict.groups import Settings
from trtprof.flows.predict.why import why
from trtprof.hardware import gpus

FP16 = Settings(precision="fp16")


def twice_the_bound(
    works: list[Work | None], spec: GpuSpec, ceilings: Ceilings, *, tf32: bool = True, correction: None = None
) -> tuple[Expectation, ...]:
    """In place of the trees: twice the time of the bytes and a launch; nothing where nothing is multiplied."""

    def one(work: Work | None) -> Expectation:
        if work is None or not work.tensor_flops:
            return Expectation(expected_reason="it multiplies nothing")
        ns = round(2 * (work.bytes / ceilings.attainable.dram_bytes_per_s * 1e9 + ceilings.launch_ns))
        return Expectation(
            expected_ns=ns, expected_p10_ns=ns - ns // 10, expected_p90_ns=ns + ns // 5, expected_basis="measured"
        )

    return tuple(map(one, works))


def forecasts(found: Prediction) -> None:
    for gpu in found.gpus:
        known = [layer for layer in gpu.layers if layer.expected_ns is not None]
        refused = [layer for layer in gpu.layers if layer.expected_ns is None]
        launch_ns = math.ceil(gpu.ceilings.launch_ns)
        bound = {
            id(one): max(one.estimate.attainable_ns, launch_ns * one.steps) * one.repeats if one.estimate else 0
            for one in gpu.layers
        }
        assert gpu.refused_ns == sum(bound[id(one)] for one in refused)
        assert sum(gpu.refused_layers.values()) == len(refused)
        assert all(one.expected_reason in gpu.refused_layers for one in refused)
        assert "" not in gpu.refused_layers
        assert sum(gpu.wider_layers.values()) == sum(one.expected_basis in WIDER_BASES for one in known)
        if not known or sum(bound[id(one)] for one in known) < gpu.refused_ns:
            assert (gpu.expected_ns, gpu.expected_p10_ns, gpu.expected_p90_ns) == (None, None, None)
            assert gpu.expected_reason
            continue
        assert not gpu.expected_reason
        by_basis = {
            basis: sum((one.expected_ns or 0) * one.repeats for one in known if one.expected_basis == basis)
            for basis in EXPECTED_BASES
        }
        assert gpu.expected_ns_by_basis == {basis: ns for basis, ns in by_basis.items() if ns}
        assert gpu.expected_basis == list(gpu.expected_ns_by_basis)[-1]
        for name in ("expected_ns", "expected_p10_ns", "expected_p90_ns"):
            assert getattr(gpu, name) == sum(getattr(one, name) * one.repeats for one in known)
        for one in known:
            assert one.estimate is not None
            assert one.estimate.attainable_ns <= (one.expected_p10_ns or 0) <= (one.expected_ns or 0)
            assert (one.expected_ns or 0) <= (one.expected_p90_ns or 0)


def test_the_sum_is_the_sum_of_the_layers(subtests: pytest.Subtests) -> None:
    for precision in ("model", "fp32", "fp16", "fp8"):
        for model in ("gemv", "resnet_tiny", "transformer_block", "lstm", "qdq_cnn"):
            with subtests.test(f"{model} {precision}"):
                forecasts(predicted(model, "a100-sxm4-80gb", "rtx-4090", "t4", how=Settings(precision=precision)))


@pytest.mark.parametrize(
    ("model", "slug", "precision", "words"),
    [
        ("transformer_block", "a100-sxm4-80gb", "fp8", "no matrix products in fp8e4m3fn were measured on Ampere"),
        ("transformer_block", "t4", "bf16", "no matrix products in bf16 were measured on Turing"),
        ("transformer_block", "jetson-agx-xavier", "fp16", "no matrix products in fp16 were measured on Volta"),
        ("resnet_tiny", "rtx-4090", "int8", "no convolutions in int8 were measured"),
    ],
)
def test_what_nobody_measured_is_refused_in_words(model: str, slug: str, precision: str, words: str) -> None:
    (gpu,) = predicted(model, slug, how=Settings(precision=precision)).gpus
    assert any(words in reason for reason in gpu.refused_layers)
    refused = next(layer for layer in gpu.layers if words in layer.expected_reason)
    assert (refused.expected_ns, refused.expected_p10_ns, refused.expected_p90_ns) == (None, None, None)
    assert refused.estimate is not None


def test_the_fastest_is_by_the_expectation_where_each_has_one_for_the_same_layers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(on_gpus, "expect", twice_the_bound)
    assert predicted("resnet_tiny", "rtx-4090", "t4").fastest_by == "expectation"

    def slow_there(
        works: list[Work | None], spec: GpuSpec, ceilings: Ceilings, *, tf32: bool, correction: None = None
    ) -> tuple[Expectation, ...]:
        scale = 1000 if spec.slug == "rtx-4090" else 1
        return tuple(
            msgspec.structs.replace(one, expected_ns=one.expected_ns * scale, expected_p90_ns=one.expected_ns * scale)
            if one.expected_ns is not None
            else one
            for one in twice_the_bound(works, spec, ceilings)
        )

    monkeypatch.setattr(on_gpus, "expect", slow_there)
    found = predicted("resnet_tiny", "rtx-4090", "t4")
    assert (found.fastest, found.fastest_by) == ("t4", "expectation")

    def not_there(
        works: list[Work | None], spec: GpuSpec, ceilings: Ceilings, *, tf32: bool, correction: None = None
    ) -> tuple[Expectation, ...]:
        none = Expectation(expected_reason="not there")
        return (none,) * len(works) if spec.slug == "t4" else slow_there(works, spec, ceilings, tf32=tf32)

    monkeypatch.setattr(on_gpus, "expect", not_there)
    found = predicted("resnet_tiny", "rtx-4090", "t4")
    assert (found.fastest, found.fastest_by) == ("rtx-4090", "bound")


def test_no_layer_of_a_prediction_is_expected_below_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Expectation(expected_ns=1, expected_p10_ns=1, expected_p90_ns=1, expected_basis="measured")
    monkeypatch.setattr(on_gpus, "expect", lambda works, *_, **__: (one,) * len(works))
    (gpu,) = predicted("resnet_tiny", "l4").gpus
    assert gpu.expected_ns == gpu.expected_p10_ns == gpu.time_ns
    assert {layer.expected_reason for layer in gpu.layers} == {
        "kernels of libraries are expected at 1.00 ns, below the bound"
    }
    # Nothing is wrong with the band of what was measured: that the bound counts is told once.
    assert gpu.wider_layers == {}
    assert f"so that they count with it: {len(gpu.layers)}" in " ".join(gpu.notes)


def test_fp32_alone_forbids_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def noting(
        works: list[Work | None], spec: GpuSpec, ceilings: Ceilings, *, tf32: bool, correction: None = None
    ) -> tuple[Expectation, ...]:
        asked.append(tf32)
        return twice_the_bound(works, spec, ceilings)

    monkeypatch.setattr(on_gpus, "expect", noting)
    for precision in ("fp32", "model"):
        predicted("gemv", "l4", how=Settings(precision=precision))
    assert asked == [False, True]


def test_why_names_the_nearest_measurements_and_whose_they_are() -> None:
    slugs = ("a100-sxm4-80gb", "rtx-4090")
    found = predicted("transformer_block", *slugs, how=FP16)
    told = why(found, [gpus.find(slug) for slug in slugs], FP16, "/layer0/attention/query/MatMul")
    assert told.layer == "/layer0/attention/query/MatMul +1"
    assert [gpu.gpu for gpu in told.gpus] == list(slugs)
    for gpu, predicted_on in zip(told.gpus, found.gpus, strict=True):
        assert gpu.layer in predicted_on.layers
        assert len(gpu.nearest) == 3
        assert all(row.ns > 0 and row.shape for row in gpu.nearest)
    assert {row.gpu for row in told.gpus[0].nearest} == {"a100-sxm4-80gb"}
    named = {source.name: source for source in told.sources}
    assert {row.source.split()[0] for gpu in told.gpus for row in gpu.nearest} == set(named)
    assert all(source.licence in ("MIT", "Apache-2.0") and source.commit for source in told.sources)
