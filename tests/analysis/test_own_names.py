"""Names that sentences of a run hold and no field is for."""

from __future__ import annotations

import msgspec
import pytest

from tests.fakes import report_factory as factory
from trtprof.analysis.own_names import with_own_names
from trtprof.base.records import Node, Op, PlanLayer, PlanTensor, RunGraph, Tensor
from trtprof.report.redact import redact, redaction


def node(op_type: str, domain: str, *tensors: Tensor) -> Node:
    return Node(name="n", original_name="acmenode", graph="", op=Op(op_type=op_type, domain=domain, inputs=tensors))


def tensor(name: str, *shape: int | str) -> Tensor:
    return Tensor(name=name, dtype="fp32", shape=shape)


NODES = (node("AcmeFold", "acme.ops", tensor("acmesecret", "acmebatch", 8)), node("Relu", "", tensor("x")))
PLANNED = PlanLayer(name="l", kind="Reformat", inputs=(PlanTensor(name="it's acmeplanned", dims=None, dtype=""),))


def test_what_sentences_hold_is_told_and_left_out(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str, str]] = [
        ("acmesecret, fp32 -> int8, of 12 MB", "acmesecret", "tensor"),
        ("1xacmebatchx8 is not known", "acmebatch", "dim"),
        ("acmebatch x 8 is not known", "acmebatch", "dim"),
        ("a reformat of it's acmeplanned before it", "it's acmeplanned", "tensor"),
        ("AcmeFold has no price", "AcmeFold", "op"),
        ("acmenode is the only reader", "acmenode", "node"),
        ("x and Relu tell nothing", "", ""),
    ]
    for text, name, kind in rows:
        with subtests.test(text=text, name=name, kind=kind):
            run = with_own_names(factory.make_run(verdict=text), NODES, [PLANNED])
            assert run.own_names == ({name: kind} if name else {})
            found, words = redaction(run)
            word = next((word for word, one in words.items() if one == name), "")
            assert word.startswith(kind)
            assert found.verdict == (text.replace(name, word) if name else text)


def test_names_that_a_field_is_for_are_not_told_twice() -> None:
    run = factory.make_run(verdict="acmesecret is read again", graph=RunGraph(layers=(), tensor=("acmesecret",)))
    assert with_own_names(run, NODES, []).own_names == {}


def test_op_types_of_ones_own_go_and_those_of_onnx_stay() -> None:
    run = factory.make_run(
        (factory.layer("a", "AcmeFold + Relu", flops=8, nbytes=8, slow=2.0),), verdict="AcmeFold is slow, Relu is not"
    )
    run = with_own_names(run, NODES, [])
    assert run.own_names == {"AcmeFold": "op"}
    found = redact(run)
    assert (found.layers[0].op_type, found.verdict) == ("op_0001 + Relu", "op_0001 is slow, Relu is not")
    assert found.own_names == {"op_0001": "op"}


def test_a_tensor_called_like_an_op_of_onnx_leaves_the_op_alone() -> None:
    run = factory.make_run((factory.layer("a", "Relu", flops=8, nbytes=8, slow=2.0),), verdict="of 'Relu'")
    run = msgspec.structs.replace(run, own_names={"Relu": "tensor"})
    assert redact(run).layers[0].op_type == "Relu"
