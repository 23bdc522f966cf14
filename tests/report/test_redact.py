"""A run without names: nothing private in any format, nothing else changed."""

from __future__ import annotations

import functools
import html
import json
import re
import typing
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes import report_factory as factory
from trtprof.base.records import (
    BarrierPart,
    Finding,
    Holds,
    Interval,
    LadderStep,
    Match,
    PluginCandidate,
    Run,
    RunGraph,
    RunMemory,
    Timeline,
    TimelineLane,
    TriedRung,
    texts,
)
from trtprof.report import REPORTERS, ReportOptions
from trtprof.report import redact as module
from trtprof.report.redact import redact, redaction

XMMA = (
    "sm80_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16_stage4_warpsize2x2x1_g1"
    "_tensor16x8x8"
)
SECRET = "/acme_vision/branch7"  # noqa: S105 - the name of a node
SECRETS = (
    "/acme_vision/branch7", "acme_vision.onnx", "acme_logits_head", "grace", "acme_vision_gelu", "hopperhost",
    "acme.internal", "q3_launch",
)  # fmt: skip


def private_run() -> Run:
    """A run with names that nobody else is to see, in every kind of place."""
    run = factory.of_engine(factory.typical(), (f"{SECRET}/conv1 + {SECRET}/relu1", "acme_logits_head"))
    first = run.layers[0]
    kernels = (
        Match(
            layer=first.name,
            kernel=XMMA,
            count=50,
            median_ns=9,
            total_ns=450,
            confidence="exact",
            reason=f"the layer {SECRET}/conv1 says so",
        ),
        Match(
            layer=first.name,
            kernel="void acme_vision_gelu<float>(float*, int)",
            count=50,
            median_ns=9,
            total_ns=450,
            confidence="exact",
            reason="the only kernel in the range of the layer",
        ),
        Match(
            layer=first.name,
            kernel="void cutlass::Kernel<acme_vision_gelu::Epilogue>(int)",
            count=1,
            median_ns=9,
            total_ns=9,
            confidence="exact",
            reason="",
        ),
    )
    layers = (
        msgspec.structs.replace(
            first,
            name=f"{SECRET}/conv1 + {SECRET}/relu1",
            nodes=(f"{SECRET}/conv1", f"{SECRET}/relu1"),
            kernels=kernels,
        ),
        *run.layers[1:],
    )
    texts = (
        f"{SECRET}/conv1 + {SECRET}/relu1 takes 1.93 ms of 9.77 ms (19.8 %)",
        f"tensor '{SECRET}/relu1_output_0' of input 'q' is written and read again, 12 MB at 0.92 TB/s",
        "read /home/grace/acme_vision/net.engine, written by grace@hopperhost; try --shapes x:1x3x224x224",
        "kernel sm80_xmma_fprop_implicit_gemm_f32f32_tf32f32 of acme_logits_head; output 1x1000, latency 9.77 ms",
        r"C:\Users\grace\acme_vision\net.onnx.data is beside acme_vision.onnx",
    )
    return msgspec.structs.replace(
        run,
        model=msgspec.structs.replace(
            run.model,
            name="acme_vision.onnx",
            path="/home/grace/models/acme_vision.onnx",
            producer="acme.internal exporter",
            opsets={"": 20, "acme.internal": 1},
            assumptions=texts,
            inputs=(msgspec.structs.replace(run.model.inputs[0], name="q", file="/home/grace/q3_launch.npy"),),
        ),
        layers=layers,
        nodes=(
            *run.nodes,
            msgspec.structs.replace(run.nodes[0], name=f"{SECRET}/conv1"),
            msgspec.structs.replace(run.nodes[0], name="output"),
        ),
        verdict=texts[0],
        assumptions=texts,
        findings=tuple(
            Finding(
                code="RL101",
                title=text,
                severity="warning",
                where=f"{SECRET}/conv1",
                evidence=text,
                lost_ns=7,
                confidence=0.5,
                try_=text,
                layers=(layers[0].name,),
                command="trtprof try /home/grace/models/acme_vision.onnx --loadInputs q:q3_launch.npy --only RL101",
                tried=(TriedRung(name="gemv-as-reduce", verdict="helps", gain=Interval(value=7, low=6, high=8)),),
            )
            for text in texts
        ),
        backend=msgspec.structs.replace(
            run.backend, options={"engine": "/home/grace/acme_vision.engine", "threads": "2"}
        ),
        device=msgspec.structs.replace(run.device, detail={"hostname": "hopperhost", "governor": "performance"}),
        candidates=(
            PluginCandidate(
                layer=layers[0].name,
                nodes=(f"{SECRET}/conv1",),
                kernel=kernels[1].kernel,
                measured_ns=9,
                reachable_ns=5,
                basis=texts[0],
                recoverable_ns=4,
                barrier=(BarrierPart(what=f"{SECRET}/relu1 crosses DRAM", ns=1, bytes=8),),
                net_ns=3,
                net_low_ns=2,
                net_high_ns=4,
                verdict="write it",
                why=texts[1],
                ladder=(
                    LadderStep(what="CUDA graph", command="trtprof run /home/grace/models/acme_vision.onnx", gain_ns=1),
                ),
            ),
        ),
        timeline=Timeline(
            iteration=1,
            duration_ns=20,
            lanes=(TimelineLane(name="stream 7", kind="kernels"),),
            layers=(layers[0].name,),
            names=(kernels[0].kernel, kernels[1].kernel, "[CUDA memcpy HtoD]", "cudaLaunchKernel"),
            lane=(0, 0, 0, 0),
            layer=(0, 0, -1, -1),
            name=(0, 1, 2, 3),
            start_ns=(0, 5, 10, 15),
            dur_ns=(5, 5, 5, 5),
            note=texts[0],
        ),
        graph=RunGraph(
            layers=(layers[0].name, layers[1].name),
            layer_from=(0,),
            layer_to=(1,),
            tensor=("acme_logits_head",),
            nbytes=(64,),
        ),
        memory=RunMemory(
            live=(64, 64), peak_bytes=64, peak_at=0, tensor=("acme_logits_head",), nbytes=(64,), first=(0,), last=(1,)
        ),
        tags=("q3_launch",),
    )


def documents(run: Run) -> dict[str, str]:
    """The run in every format, binary ones as far as their bytes are text; data blocks of pages unescaped."""
    found: dict[str, str] = {}
    for one in REPORTERS.values():
        if one.name == "onnx" or not one.takes(Run):
            continue  # The first is the model itself, which is refused together with --redact.
        if one.name in ("png", "svg"):
            for figure in ("roofline", "ledger", "timeline"):
                content = one.encode(run, ReportOptions(figure=figure))
                found[f"{one.name} {figure}"] = content.decode("latin-1")
        elif one.tables:
            from trtprof.report.tables import TABLES

            for table in TABLES:
                found[f"{one.name} {table}"] = one.encode(run, ReportOptions(table=table)).decode("utf-8", "replace")
        else:
            found[one.name] = one.encode(run, ReportOptions(width=200, top=500)).decode("utf-8", "replace")
    page = found["html"]
    found["html unescaped"] = html.unescape(page)
    for at, block in enumerate(re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)):
        found[f"data of html {at}"] = "\n".join(strings(json.loads(block)))
    return found


def strings(value: Any) -> list[str]:
    """All strings of a JSON document, keys included."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in (key, *strings(item))]
    if isinstance(value, list | tuple):
        return [text for item in value for text in strings(item)]
    return []


def without_text(value: Any) -> Any:
    """A document with every string, and the name of every key that is data, taken out."""
    if isinstance(value, str):
        return "?"
    if isinstance(value, dict):
        return [without_text(item) for item in value.values()]
    if isinstance(value, list | tuple):
        return [without_text(item) for item in value]
    return value


def test_no_secret_is_in_any_format() -> None:
    found = redact(private_run(), ["hopperhost", "grace"])
    for name, text in documents(found).items():
        for secret in SECRETS:
            assert secret not in text, f"{secret} in {name}"
        assert "acme" not in text, name


def test_the_secrets_are_there_without_redaction() -> None:
    text = documents(private_run())["json"]
    assert all(json.dumps(secret)[1:-1] in text for secret in SECRETS)


def test_numbers_shapes_and_structure_stay(subtests: pytest.Subtests) -> None:
    for case in [*sorted(factory.CASES), "private"]:
        with subtests.test(case=case):
            run = private_run() if case == "private" else factory.CASES[case]()
            found = redact(run)
            assert without_text(msgspec.to_builtins(found)) == without_text(msgspec.to_builtins(run))
            assert [layer.shapes for layer in found.layers] == [layer.shapes for layer in run.layers]
            assert [(layer.op_type, layer.dtype, layer.bound) for layer in found.layers] == [
                (layer.op_type, layer.dtype, layer.bound) for layer in run.layers
            ]
            assert found.device.name == run.device.name
            assert msgspec.structs.replace(found.ceilings, source="") == msgspec.structs.replace(
                run.ceilings, source=""
            )


def test_one_word_a_name_everywhere_and_one_name_a_word() -> None:
    run = private_run()
    found, names = redaction(run)
    assert len(set(names)) == len(names) == len(set(names.values()))
    layer = next(word for word, name in names.items() if name == run.layers[0].name)
    assert found.layers[0].name == found.graph.layers[0] == found.timeline.layers[0] == layer  # type: ignore[union-attr]
    assert found.verdict == f"{layer} takes 1.93 ms of 9.77 ms (19.8 %)"
    node = next(word for word, name in names.items() if name == f"{SECRET}/conv1")
    assert found.findings[0].where == node
    assert f"the layer {node} says so" in {match.reason for match in found.layers[0].kernels}
    assert redaction(run) == (found, names)


def test_kernels_of_vendors_stay_and_those_of_others_go() -> None:
    kernels = redact(private_run()).layers[0].kernels
    assert kernels[0].kernel.startswith("sm80_xmma_fprop_implicit_gemm")
    assert [kernel.kernel[:7] for kernel in kernels[1:]] == ["kernel_", "kernel_"]
    names = redact(private_run()).timeline.names  # type: ignore[union-attr]
    assert names[2:] == ("[CUDA memcpy HtoD]", "cudaLaunchKernel")


def test_whose_kernel_it_is(subtests: pytest.Subtests) -> None:
    for kernel, stays in [
        ("ampere_sgemm_128x64_nn", True),
        ("void gemv2T_kernel_val<int, int, float>(int)", True),
        ("__myl_MulAddSoft_0x123", True),
        ("void onnxruntime::cuda::_UnaryElementWise<float, float>(int)", True),
        ("CPU:Conv", True),
        ("Memcpy HtoD", True),
        ("CPU:SecretOp", False),
        ("triton_acme_fused_gelu_0", False),
        ("my_kernel", False),
        ("void acme::fmha_kernel<float>(float*)", False),
        ("void at::native::elementwise_kernel<128, acme::gelu>(int)", False),
        ("_ZN4acme4geluEPf", False),
    ]:
        with subtests.test(kernel=kernel, stays=stays):
            match = Match(layer=None, kernel=kernel, count=1, median_ns=1, total_ns=1, confidence="none", reason="")
            found = redact(
                factory.make_run(
                    (factory.layer("c", "Conv", flops=8, nbytes=8, slow=2.0),), kernels_unattributed=(match,)
                )
            )
            assert (found.kernels_unattributed[0].kernel == kernel) is stays


def test_text_without_names_stays(subtests: pytest.Subtests) -> None:
    for text in [
        "57.3 % of what this device attains; likely cause RL102 (compute-bound op far under peak), 24.2 us",
        "3 of 21 layers, 1x3x224x224 -> 1x64x112x112, 0.92 TB/s and 80 GFLOP/s, mean / median",
        "latency varies by 27.7 % (standard deviation / mean of 13557); the profiler's own time is 3 ns",
        "inputs are random: x: uniform -1..1",
        "try `trtprof doctor`, or --builderOptimizationLevel=5 with intra_op_threads 2",
    ]:
        with subtests.test(text=text):
            names = ("x", "output", "latency", "224", "1", "layer")
            run = factory.make_run(
                tuple(factory.layer(name, "Conv", flops=8, nbytes=8, slow=2.0) for name in names), verdict=text
            )
            assert redact(run).verdict == text


def test_ordinary_words_are_replaced_between_quotes() -> None:
    run = factory.make_run(
        (factory.layer("output", "Conv", flops=8, nbytes=8, slow=2.0),),
        verdict="'output' has no reader; 3 output layers",
    )
    assert redact(run).verdict == f"'{redact(run).layers[0].name}' has no reader; 3 output layers"
    assert redact(run).layers[0].name == "node_0001"


def test_what_looks_like_a_name_is_replaced_too(subtests: pytest.Subtests) -> None:
    for text, replaced in [
        ("written to /srv/data/x.engine today", "written to file_0001.engine today"),
        ("see plan.json, then ../b/c.py", "see file_0001.json, then file_0002.py"),
        ("by ada@build7.corp: 3 runs", "by user_0001: 3 runs"),
        ("'secret thing' and `secret thing`", "'name_0001' and `name_0001`"),
        ("acme::Fused of some_odd_name_2", "name_0001 of name_0002"),
        ("in encoder/block3/attn it is", "in name_0001 it is"),
    ]:
        with subtests.test(text=text, replaced=replaced):
            run = factory.make_run(verdict=text)
            run = msgspec.structs.replace(run, model=msgspec.structs.replace(run.model, name="", path="", sha256=""))
            assert redact(run).verdict == replaced


def text_fields(record: type[msgspec.Struct] = Run) -> dict[str, Holds]:
    """Every field of text that ``record`` and the records in it have, with what it is taken for."""
    fields: dict[str, Holds] = {}
    seen: set[type] = set()

    def look(hint: Any, where: str) -> None:
        rule, hint = texts.held(hint)
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if hint is str or hint is Any:
            fields[where] = rule
        elif isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            if hint not in seen:
                seen.add(hint)
                for name, kind in typing.get_type_hints(hint, include_extras=True).items():
                    look(kind, f"{hint.__name__}.{name}")
        elif origin is dict:
            look(arguments[0], f"{where}:key")
            look(arguments[1], where)
        elif origin is not Literal:
            for argument in arguments:
                if argument is not ...:
                    look(argument, where)

    look(record, record.__name__)
    return fields


def test_a_field_that_is_not_known_is_redacted() -> None:
    class Tomorrow(msgspec.Struct, frozen=True):
        remark: str
        remarks: dict[str, tuple[str, ...]]
        either: int | str | None
        number: int

    plan = texts.text_fields(Tomorrow)
    names = module._Names(factory.empty())
    value = Tomorrow("acme one", {"acme two": ("acme three", "")}, "acme four", 5)
    found = {field: rewrite(getattr(value, field), names.replaced) for field, rewrite in plan.items()}
    assert "number" not in found
    assert "acme" not in str(found)
    assert found["remark"] == "text_0001"
    assert found["either"] == "text_0004"


def test_a_kind_of_field_that_is_not_known_is_no_silent_leak() -> None:
    class Odd(msgspec.Struct, frozen=True):
        what: bytes

    with pytest.raises(TypeError, match=r"Odd\.what"):
        texts.text_fields(Odd)


NAMES = st.lists(
    st.one_of(
        st.from_regex(r"[a-z]{3,6}(?:[/._:][a-z0-9]{2,8}){1,3}", fullmatch=True),
        st.from_regex(r"zq[a-z]{2,9}", fullmatch=True),
        st.from_regex(r"zq[A-Za-z0-9 +]{1,20}qz", fullmatch=True),
        st.from_regex(r"\{ForeignNode\[/zq[a-z]{2,6}\.\.\./[a-z]{2,6}zq\]\}", fullmatch=True),
    ),
    min_size=1,
    max_size=6,
    unique=True,
)  # fmt: skip
WORDS = ["takes 3.2 us", "reads", "(", "), then", "'", "' of", ": 12 %", "->", ",", "and"]


@settings(max_examples=10)
@given(names=NAMES, data=st.data())
def test_no_name_is_left_in_any_text(names: list[str], data: st.DataObject) -> None:
    private = [name for name in names if len(name) >= 4 and not _ordinary(name)]
    pieces = st.sampled_from([*names, *names, *WORDS])
    text = " ".join(data.draw(st.lists(pieces, max_size=12)))
    run = factory.make_run(
        tuple(factory.layer(name, "Conv", flops=8, nbytes=8, slow=2.0) for name in names),
        verdict=text,
        assumptions=(text, f"{names[0]}_output_0"),
        findings=(
            Finding(
                code="RL101",
                title=text,
                severity="info",
                where=text,
                evidence=text,
                lost_ns=0,
                confidence=1.0,
                try_=text,
                layers=(names[0],),
            ),
        ),
    )
    found = redact(run)
    for name in ("text", "json", "csv", "markdown", "html", "junit"):
        shown = html.unescape(REPORTERS.get(name).render(found, SHOWN))  # type: ignore[union-attr]
        own = _own_words(name)
        for secret in private:
            assert secret not in shown or secret in own, f"{secret!r} in {name}"


SHOWN = ReportOptions(width=200, top=99)


@functools.cache
def _own_words(name: str) -> str:
    """What a format, or a run without private names, says itself is nobody's secret."""
    run = redact(factory.make_run())
    bare = html.unescape(REPORTERS.get(name).render(run, SHOWN))  # type: ignore[union-attr]
    return "\n".join([bare, *strings(msgspec.to_builtins(run))])


def _ordinary(name: str) -> bool:
    return all(len(word) < 4 or word.lower() in module._ORDINARY for word in re.findall(r"[a-zA-Z]+", name))


def test_op_types_stay_and_domains_of_others_go() -> None:
    types = ("Conv + Relu", "com.microsoft::FusedConv", "acme.ops::Gelu", "Softmax")
    run = factory.make_run(
        tuple(factory.layer(f"n{at}", op, flops=8, nbytes=8, slow=2.0) for at, op in enumerate(types))
    )
    found = {layer.op_type for layer in redact(run).layers}
    assert found == {"Conv + Relu", "com.microsoft::FusedConv", "domain_0001::Gelu", "Softmax"}
