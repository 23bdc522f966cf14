"""Which rungs make what the remedies name: the table is that of the rungs, and no sentence of a rule is left out."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.fakes import cpu_rule_cases, kernel_rule_cases, plan_rule_cases, rule_cases
from tests.fakes.cases import found
from trtprof.base.records import Device, Run
from trtprof.base.rungs import ANSWERS, WITHOUT, Answers, answered, family
from trtprof.diagnose import RULES, remedies
from trtprof.engine.passes import PASSES
from trtprof.flows.try_.on_cuda import OnCuda
from trtprof.flows.try_.on_tensorrt import Facts, tensorrt_rungs
from trtprof.flows.try_.options import option_rungs
from trtprof.rewrite import REWRITES

FIRES = {**rule_cases.POSITIVE, **kernel_rule_cases.POSITIVE, **plan_rule_cases.POSITIVE, **cpu_rule_cases.POSITIVE}

SENTENCES: tuple[tuple[str, str, str], ...] = (
    ("AL802", "pad", "conv-pad-channels"),
    ("CN601", "fold it into an initializer", "constant-folding onnxslim onnxscript-optimizer"),
    ("CN601", "simplify the graph", "constant-folding onnxslim onnxscript-optimizer"),
    ("DW805", "a multiple of 8 channels", "conv-pad-channels"),
    ("DW805", "channels last", "conv1d-as-conv2d depthwise-repeated-channels"),
    ("FU301", "the form that the runtime fuses", "gelu-fused layernorm-fused rmsnorm-fused batchnorm-folded"),
    ("FU301", "the form that tensorrt fuses", "gelu-spelled layernorm-spelled rmsnorm-spelled batchnorm-as-mul-add"),
    ("FU301", "the op itself (gelu", "gelu-fused layernorm-fused ort-transformers"),
    ("HO501", "fewer and larger nodes", "merge-products constant-folding reshape-chains loop-unrolled onnxslim"),
    ("KN701", "fold the batch", "gemv-fold-batch"),
    ("KN701", "mul + reducesum", "gemv-as-reduce"),
    ("KN701", "pad ", "conv-pad-channels"),
    ("KN701", "transpose the weight", "row-matmul-transposed"),
    ("KN702", "pad ", "conv-pad-channels"),
    ("KN703", "fold the batch", "gemv-fold-batch"),
    ("KN703", "mul and reducesum", "gemv-as-reduce"),
    ("KN703", "mul + reducesum", "gemv-as-reduce"),
    ("KN703", "transpose the weight", "row-matmul-transposed"),
    ("KN703", "store the weight transposed", "row-matmul-transposed"),
    ("KN703", "merge products", "merge-products"),
    ("KN704", "merge products that share an input", "merge-products"),
    ("LA401", "fold shape", "constant-folding onnxslim onnxscript-optimizer"),
    ("LA401", "fuse small ops", "gelu-fused layernorm-fused rmsnorm-fused batchnorm-folded merge-products"),
    ("LA401", "fuse them into their neighbours", "gelu-fused layernorm-fused batchnorm-folded"),
    ("LY201", "out of the chain", "transpose-through convtranspose-as-conv matmul-as-conv1x1 conv1x1-as-matmul"),
    ("LY201", "channels that are a multiple of the block", "conv-pad-channels"),
    ("LY201", "keep convolution chains unbroken", "transpose-through no-blocked-layout"),
    ("LY201", "one precision", "cast-pairs"),
    ("HO501", "cuda graph", "cuda-graph"),
    ("KN701", "fp16", "fp16"),
    ("KN701", "more tactics", "builder-level-5"),
    ("KN702", "more tactics", "builder-level-5"),
    ("KN702", "allow tf32", "tf32"),
    ("HO503", "let threads sleep", "no-spinning"),
    ("KN702", "fp16", "fp16 bf16"),
    ("KN704", "more tactics", "builder-level-5"),
    ("KN705", "fp16", "fp16 bf16"),
    ("LA401", "cuda graph", "cuda-graph"),
    ("OC707", "more tactics", "builder-level-5"),
    ("PR801", "fp16", "fp16 bf16"),
    ("PR801", "tf32", "tf32"),
    ("RL102", "let the builder try", "builder-level-5"),
    ("TC2", "tf32", "tf32 fp16"),
    ("TC2", "more tactics", "builder-level-5"),
    ("WV706", "more tactics", "builder-level-5"),
    ("DW805", "fp16", "fp16"),
    ("RF2", "one precision", "cast-pairs"),
    ("SL1", "one precision", "cast-pairs"),
    ("RL101", "fold batch dimensions", "gemv-fold-batch"),
    ("RL101", "fold the batch into one gemm", "gemv-fold-batch"),
    ("RL101", "mul and reducesum", "gemv-as-reduce"),
    ("RL101", "choose layouts so that it is not needed", "transpose-through concat-of-slices gather-as-slice"),
    ("RL101", "fuse it with its neighbours", "batchnorm-folded gelu-fused layernorm-fused rmsnorm-fused"),
    ("RL101", "fused or approximate form", "gelu-fused pow-as-mul gelu-approximation"),
    ("RL102", "pad ", "conv-pad-channels"),
    ("RL102", "merge parallel products", "merge-products"),
    ("RL102", "merge products", "merge-products"),
    ("RL102", "fused op", "gelu-fused ort-transformers"),
    ("RL102", "a product for a convolution of one point", "conv1x1-as-matmul"),
    ("RL102", "a convolution for a transposed one", "convtranspose-as-conv convtranspose-as-resize"),
    ("RL102", "a product for a power", "pow-as-mul"),
    ("RL102", "widen groups", "depthwise-repeated-channels"),
    ("RL102", "fused or approximate form", "gelu-fused gelu-approximation pow-as-mul"),
    ("TC1", "pad ", "conv-pad-channels"),
)
"""Rules, what their remedies name (in small letters), and rungs that make it."""

NO_CHANGE: tuple[tuple[str, str, str], ...] = (
    ("AL802", "price is that of the roofline", "no change"),
    ("CA806", "fus", "two layers that no runtime has as one op"),
    ("CA806", "layers in another order", "the order is the runtime's"),
    ("DW805", "merge it with the pointwise convolution", "it changes what the model can learn, and its weights"),
    ("HO501", "batch several requests", "the program around the model"),
    ("KN705", "a newer tensorrt", "another version of a library"),
    ("LA401", "fixed time", "no change"),
    ("LY201", "inputs and outputs", "the program around the model"),
    ("OC707", "a reduction in two steps", "a kernel's inside"),
    ("PR2", "cast its inputs down", "another type"),
    ("QD1", "", "where Q/DQ pairs stand is for the calibration"),
    ("QD803", "", "where Q/DQ pairs stand is for the calibration"),
    ("RL102", "merge it with the pointwise one", "it changes the weights"),
    ("TC1", "says what padding would give", "no change"),
    ("WV706", "", "the batch, or the builder"),
)
"""Sentences with words of a change that no rung makes, and why."""

CHANGES = re.compile(
    r"\b(?:fold\w*|pad(?:ded|ding)?|transpos\w*|merge\w*|fus(?:e|es|ed|ing)|reducesum|threads|simplif\w*|gelu"
    r"|channels last|unroll\w*|innermost|chains?|layouts?|one precision|cast|cuda graph|fp16|tf32|tactics)\b"
)
"""Words that name a change which some rung makes."""


def clauses(text: str) -> Iterator[str]:
    return (part for part in re.split(r"[.;:]\s", text.lower()) if CHANGES.search(part))


def said() -> Iterator[tuple[str, str]]:
    """Each clause of a remedy that names such a change: of what the rules say of themselves, and of their cases."""
    for rule in RULES.values():
        if not rule.code.startswith("TR"):
            remedies = [finding.try_ for finding in found(FIRES[rule.code], rule.code)] if rule.plan is None else []
            for text in (rule.section("Try"), *remedies):
                yield from ((rule.code, clause) for clause in clauses(text))


def rungs() -> dict[str, Answers]:
    """By rule, as the rungs themselves say it."""
    base = cast("Run", SimpleNamespace(layers=(), graph=None, modes=(), assumptions=()))
    device = Device(name="any", kind="cpu", cores=4)
    told: list[tuple[str, Any]] = [
        *(("rewrites", one) for one in REWRITES.values()),
        *(("passes", one) for one in PASSES),
        *(("on_cpu", one) for one in option_rungs(base, device, 2)),
    ]
    for tf32 in (False, True):
        original = SimpleNamespace(gpu=SimpleNamespace(build=SimpleNamespace(tf32=tf32)))
        cuda: Any = SimpleNamespace(_base=base, _capability=(8, 9), original=original)
        facts = Facts(base, "tensorrt", (10, 16), (8, 9), tf32=tf32, quantised=True, streams=True)
        told += [("on_cuda", one) for one in OnCuda.rungs(cuda)]
        told += [("on_tensorrt", one) for one in tensorrt_rungs(facts)]
    table: dict[str, dict[str, set[str]]] = {}
    for kind, one in told:
        for code in one.answers:
            table.setdefault(code, {}).setdefault(kind, set()).add(family(one.name))
    return {
        code: Answers(**{kind: tuple(sorted(names)) for kind, names in kinds.items()}) for code, kinds in table.items()
    }


def test_the_table_is_what_the_rungs_say_of_themselves() -> None:
    assert dict(ANSWERS) == rungs()


def test_each_rule_has_a_rung_or_the_reason_why_there_is_none() -> None:
    assert set(ANSWERS) | set(WITHOUT) == set(RULES.keys())
    assert set(ANSWERS) & set(WITHOUT) == set()
    assert all(WITHOUT.values())


@pytest.mark.parametrize(("code", "phrase", "names"), SENTENCES)
def test_a_sentence_of_a_remedy_has_the_rungs_that_make_it(code: str, phrase: str, names: str) -> None:
    rule = RULES.get(code)
    assert rule is not None
    module = inspect.getmodule(rule.plan or rule.check)
    assert module is not None
    written = f"{rule.section('Try')} {inspect.getsource(module)} {inspect.getsource(remedies)}"
    assert phrase in " ".join(written.lower().split())
    assert set(names.split()) <= set(ANSWERS[code].names)


def test_no_sentence_of_a_remedy_names_a_change_that_nobody_looked_for_a_rung_of() -> None:
    known = {(code, phrase) for code, phrase, _ in (*SENTENCES, *NO_CHANGE)}
    left = [
        (code, clause)
        for code, clause in said()
        if code not in WITHOUT and not any(of == code and phrase in clause for of, phrase in known)
    ]
    assert left == []


def test_a_backend_is_answered_by_its_own_options() -> None:
    assert answered("KN703", "tensorrt")
    assert not answered("HO502", "ort-cpu")
    for code, one in ANSWERS.items():
        graph = bool(one.rewrites or one.passes)
        assert answered(code, "ort-cpu") == (graph or bool(one.on_cpu))
        assert answered(code, "ort-cuda") == (graph or bool(one.on_cuda))
        assert answered(code, "tensorrt") == answered(code, "tensorrt-rtx") == (graph or bool(one.on_tensorrt))
        assert not answered(code, "pytorch")
    assert (answered("PR801", "tensorrt"), answered("PR801", "ort-cpu")) == (True, False)
