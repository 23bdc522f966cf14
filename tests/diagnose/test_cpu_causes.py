"""Causes that only a run of ONNX Runtime on a CPU has: each in a case that has it, and in one that does not."""

from __future__ import annotations

from tests.fakes.cases import found, only
from tests.fakes.cpu_rule_cases import dequantized, half


def test_a_model_that_computes_wider_than_it_stores_says_so_first() -> None:
    finding = only(half(), "PR802")
    assert "stores fp16" in finding.evidence
    assert "in fp32: Conv" in finding.evidence
    assert "1 casts that ONNX Runtime inserted take 40.0 us" in finding.evidence
    assert (finding.lost_ns, finding.layers) == (40_000, ("cast",))
    stored = only(dequantized(), "PR802")
    assert "stores int8 weights" in stored.evidence
    assert "in fp32: MatMul" in stored.evidence
    assert "quantize the activations" in stored.try_
    for silent in (half("fp32"), dequantized("fp32"), half()._replace(backend="ort-cuda")):
        assert found(silent, "PR802") == []
