"""Causes that only a run of ONNX Runtime on a CPU has: each in a case that has it, and in one that does not."""

from __future__ import annotations

import msgspec

from tests.fakes.cases import RTX_4090, Timed, found, gemv, make_case, only
from tests.fakes.cpu_rule_cases import busy, dequantized, half, loop, recurrent
from tests.fakes.rule_cases import chain, conv, reorder_case, scalars
from trtprof.diagnose.rank import diagnose


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


def test_threads_that_spin_beside_other_processes_are_named_with_the_trial_that_shows_it() -> None:
    finding = only(busy(), "HO503")
    assert "2 threads spin" in finding.evidence
    assert "3 other processes kept 1.3 busy" in finding.evidence
    assert "waited 40.0 % of their time" in finding.evidence
    assert finding.command == "trtprof try m.onnx --rung no-spinning,threads-1 --budget 1m"
    assert "1 CPUs" in only(busy(cpus=1), "HO503").evidence  # More threads than CPUs
    room = busy(1.3, 0.05, cpus=8)
    for silent in (busy(threads="1"), busy(spinning="0"), busy(0.4, 0.05), room, busy()._replace(cpu_use=None)):
        assert found(silent, "HO503") == []


def test_steps_that_wait_for_one_another_are_told_with_what_a_batch_does_and_does_not() -> None:
    finding = only(recurrent(100), "ST804")
    assert "LSTM lstm: 100 steps of 9.00 us" in finding.evidence
    assert "does not shorten the latency" in finding.try_
    gru = recurrent(100)
    layers = tuple(msgspec.structs.replace(one, op_type=one.op_type.replace("LSTM", "GRU")) for one in gru.layers)
    assert "does not shorten the latency" in only(gru._replace(layers=layers), "ST804").try_
    of_loop = only(loop(128), "ST804")
    assert "Loop loop: 128 steps of 7.81 us, each of 2 ops" in of_loop.evidence
    for silent in (recurrent(1), loop(1), recurrent(100, "ort-cuda")):
        assert found(silent, "ST804") == []


def test_on_a_cpu_nothing_is_told_from_the_roofline_alone() -> None:
    cases = (chain(), make_case(Timed(gemv(), 10.0), ceilings=RTX_4090), make_case(Timed(conv(), 1 / 0.3)))
    for case in (*cases, make_case(*scalars(9)), reorder_case(0.2)):
        assert diagnose(case), "the case has a finding elsewhere"
        causes = diagnose(case._replace(backend="ort-cpu"))
        assert [finding.code for finding in causes if finding.kind == "hypothesis"] == []


def test_gaps_of_a_run_beside_other_processes_are_theirs() -> None:
    case = make_case(Timed(gemv(), 1.0), gap_ns=10_000_000, backend="ort-cpu")
    assert found(case, "HO501")
    assert found(case._replace(cpu_use=busy().cpu_use), "HO501") == []


def test_reorders_count_on_a_cpu_from_a_quarter_of_the_latency_on() -> None:
    assert found(reorder_case(0.3)._replace(backend="ort-cpu"), "LY201")
    assert not found(reorder_case(0.2)._replace(backend="ort-cpu"), "LY201")
