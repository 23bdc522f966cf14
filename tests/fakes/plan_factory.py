"""Plans of engines for the tests of reporters. All numbers are invented for the tests."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from tests.fakes.report_factory import HOSTILE_NAMES
from trtprof.base.records import (
    EngineFacts,
    EnginePlan,
    MatchConfidence,
    MatchedLayer,
    NodeFate,
    PlanBinding,
    PlanEdge,
    PlanLayer,
    PlanLint,
    PlanReformat,
    PlanRole,
    PlanShare,
    PlanSummary,
    PlanTensor,
    Work,
)

Row = tuple[MatchedLayer, Work | None]


def tensor(name: str, *dims: int, dtype: str = "fp16") -> PlanTensor:
    return PlanTensor(name=name, dims=dims, dtype=dtype, format="Linear")


def row(
    name: str,
    kind: str,
    nodes: Sequence[str] = (),
    *,
    role: PlanRole = "compute",
    flops: int = 0,
    nbytes: int | None = 1000,
    match: MatchConfidence = "exact",
    shared: Sequence[str] = (),
    serves: str = "",
    work: Work | None = None,
) -> Row:
    """A layer with its nodes and its work; without ``nbytes`` its work is not known."""
    layer = PlanLayer(
        name=name, kind=kind, inputs=(tensor(f"{name}_in", 1, 8, 16, 16),),
        outputs=(tensor(f"{name}_out", 1, 8, 16, -1),), tactic=f"{name}_kernel", stream=0, serves=serves,
    )  # fmt: skip
    matched = MatchedLayer(
        layer=layer, role=role, nodes=tuple(nodes), shared=tuple(shared), match=match,
        reason="the plan names them" if match == "exact" else "between its borders",
    )  # fmt: skip
    if work is None and nbytes is not None:
        work = Work(
            tensor_flops=flops,
            bytes_read=nbytes - nbytes // 3,
            bytes_written=nbytes // 3,
            dtype="fp16" if flops else "",
        )
    return matched, work


def plan_of(
    rows: Sequence[Row],
    fates: Iterable[NodeFate] = (),
    *,
    facts: EngineFacts | None = None,
    bindings: Sequence[PlanBinding] = (),
    op_types: dict[str, str] | None = None,
    reformats: Sequence[PlanReformat] = (),
    edges: Sequence[PlanEdge] = (),
    lints: Sequence[PlanLint] = (),
    timed: bool = False,
) -> EnginePlan:
    """A plan whose summary fits its layers; with times every layer takes 1 ns a byte."""
    matched = [each for each, _ in rows]
    works = [work for _, work in rows]
    fates = tuple(fates)
    total = sum(work.bytes for work in works if work) or 1

    def shares(words: Sequence[str]) -> tuple[PlanShare, ...]:
        moved: Counter[str] = Counter()
        layers = Counter(words)
        for word, work in zip(words, works, strict=True):
            moved[word] += work.bytes if work else 0
        return tuple(
            PlanShare(
                what=word, layers=layers[word], bytes=nbytes, ns=nbytes if timed else None, fraction=nbytes / total
            )
            for word, nbytes in moved.most_common()
        )

    summary = PlanSummary(
        layers=len(rows), launches=sum(each.role in ("compute", "layout") for each in matched),
        by_kind=shares([each.layer.kind for each in matched]),
        by_precision=shares([work.dtype or "fp16" if work else "unknown" for work in works]),
        by_match=shares([each.match for each in matched]), reformats=tuple(reformats), edges=tuple(edges),
        lints=tuple(lints), fates=dict(sorted(Counter(fate.fate for fate in fates).items())),
    )  # fmt: skip
    return EnginePlan(
        facts=facts or EngineFacts(), bindings=tuple(bindings), layers=tuple(matched), works=tuple(works),
        fates=fates, op_types=op_types or {}, summary=summary,
    )  # fmt: skip


def typical(*, timed: bool = False) -> EnginePlan:
    """A plan with everything that a report has to show."""
    rows = [
        row("wait_1", "wait", role="sync", nbytes=0),
        row("wait_2", "wait", role="sync", nbytes=0),
        row("signal_1", "signal", role="sync", nbytes=0),
        row("reformat_in", "Reformat", role="layout", nbytes=602_112, serves="/stem/conv/Conv"),
        row(
            "__myl_CorrMulAddRelu_myl0_1",
            "runtime_fusion",
            ("/stem/conv/Conv", "/stem/bn/BatchNormalization", "/stem/Relu"),
            flops=236_027_904,
            nbytes=2_408_448,
        ),
        row("/pool/MaxPool_myl0_2", "maxpool", ("/pool/MaxPool",), nbytes=2_007_040),
        row(
            "gemm_3",
            "CaskGemmMatrixMultiplication",
            ("/head/attention/query/MatMul", "/head/attention/key/MatMul"),
            flops=3_145_728,
            nbytes=180_232,
            match="inferred",
        ),
        row("__myl_Move_myl0_4", "kgen", nbytes=65_536, match="none"),
        row(
            "__myl_fused_5",
            "kgen",
            [f"/head/attention/step{index}/Mul" for index in range(30)],
            shared=("/head/attention/step0/Mul",),
            work=Work(vector_flops=9_000, bytes_read=40_000, bytes_written=20_000, bound="upper", dtype="fp16"),
        ),
        row("plugin_6", "PluginV3", ("/post/Nms",), nbytes=None),
    ]
    nodes = [node for matched, _ in rows for node in matched.nodes]
    fates = [
        *(NodeFate(node=node, fate="layer") for node in nodes),
        NodeFate(node="/head/Shape", fate="folded", reason="shape arithmetic"),
        NodeFate(node="/head/Identity", fate="eliminated", reason="it changes no values"),
        NodeFate(node="/head/Reshape", fate="lost", reason="no layer names it"),
    ]
    return plan_of(
        rows,
        fates,
        timed=timed,
        facts=EngineFacts(
            backend="tensorrt-rtx", versions={"tensorrt-rtx": "1.2.3", "onnx": "1.20.0"}, device="no GPU",
            era="TensorRT 11 or TensorRT-RTX, text of one line a layer",
            precision="fp16, converted before the build with a converter 1.0", build_ns=243_000_000,
            network_layers=112, warnings=("the timing cache is of another version and was not used",),
            notes=("the plan does not tell which kernels run",),
        ),
        bindings=(
            PlanBinding(name="image", mode="input", dtype="fp32", dims=(1, 3, 224, 224)),
            PlanBinding(name="boxes", mode="output", dtype="fp32", dims=(-1, 4)),
        ),
        op_types={**{node: node.rpartition("/")[2] for node in nodes}, "/head/Reshape": "Reshape"},
        reformats=(
            PlanReformat(
                layer="reformat_in", origin="input", serves="__myl_CorrMulAddRelu_myl0_1",
                change="fp32 Linear -> fp16 NHWC8", bytes=602_112, ns=602_112 if timed else None,
            ),
            PlanReformat(layer="copy", origin="QDQ", serves="", change="int8 Linear -> fp16 Linear", bytes=None),
        ),
        edges=(
            PlanEdge(
                tensor="a", maker="__myl_CorrMulAddRelu_myl0_1", readers=("/pool/MaxPool_myl0_2",), kind="epilogue",
                expected=False, reason="a reduction in between", bytes=3_211_264,
                saved_ns=3_200_000 if timed else None,
            ),
            PlanEdge(
                tensor="b", maker="gemm_3", readers=("__myl_fused_5", "plugin_6"), kind="epilogue", expected=True,
                reason="the rule 'product' makes one layer of /head/attention/query/MatMul and what follows it",
                bytes=131_072, saved_ns=900 if timed else None,
            ),
        ),
        lints=(
            *(
                PlanLint(
                    code="TC1",
                    layer=name,
                    what="input channels that tensor cores cannot use in full",
                    evidence="3 input channels",
                    try_="pad the channels to 8 in the model",
                )
                for name in ("__myl_CorrMulAddRelu_myl0_1", "gemm_3", "plugin_6", "__myl_fused_5", "unheard-of")
            ),
            PlanLint(code="PL2", layer="plugin_6", what="a plugin", evidence="", try_="look at it"),
        ),
    )  # fmt: skip


def empty() -> EnginePlan:
    return plan_of(())


def without_model() -> EnginePlan:
    """Of a file alone: names of nodes are those that the plan has."""
    layer = PlanLayer(name="conv + relu", kind="CaskConvolution", onnx_nodes=("conv", "relu"), nodes_from="name")
    return plan_of([(MatchedLayer(layer=layer, match="exact"), None)], facts=EngineFacts(era="TensorRT 8"))


def hostile() -> EnginePlan:
    """Names that try to break out of every format, in every place that holds a name."""
    rows = [row(name, name, HOSTILE_NAMES, shared=HOSTILE_NAMES, serves=name) for name in HOSTILE_NAMES]
    rows += [row(name, name, (name,), role="layout", match="inferred") for name in HOSTILE_NAMES]
    rows += [row(name, name, (), role="layout", serves=name) for name in HOSTILE_NAMES]
    rows += [row(name, name, role="idle", nbytes=0) for name in HOSTILE_NAMES]
    return plan_of(
        rows,
        [NodeFate(node=name, fate="lost", layers=(name,), reason=name) for name in HOSTILE_NAMES],
        timed=True,
        facts=EngineFacts(
            backend=HOSTILE_NAMES[0], versions={name: name for name in HOSTILE_NAMES}, device=HOSTILE_NAMES[6],
            era=HOSTILE_NAMES[8], precision=HOSTILE_NAMES[7], build_ns=1, warnings=HOSTILE_NAMES, notes=HOSTILE_NAMES,
        ),
        bindings=[
            PlanBinding(name=name, mode=mode, dtype=name, dims=None)
            for name in HOSTILE_NAMES
            for mode in ("input", "output")
        ],
        op_types={name: name for name in HOSTILE_NAMES},
        reformats=[
            PlanReformat(layer=name, origin=name, serves=name, change=name, bytes=1, ns=1) for name in HOSTILE_NAMES
        ],
        edges=[
            PlanEdge(
                tensor=name, maker=name, readers=(name,), kind="layout", expected=True, reason=name, bytes=1, saved_ns=1
            )
            for name in HOSTILE_NAMES
        ],
        lints=[PlanLint(code=name, layer=name, what=name, evidence=name, try_=name) for name in HOSTILE_NAMES],
    )  # fmt: skip


def many(number: int = 10_000) -> EnginePlan:
    """As many layers as large models have, each with an edge, a reformat and a lint."""
    rows = [
        row(
            f"__myl_layer_{index}",
            "kgen" if index % 3 else "gemm",
            [f"/model/layers.{index}/block/{op}" for op in ("MatMul", "Add", "Relu")],
            nbytes=1 + index * 7919 % 90_000,
            flops=index * 2,
        )
        for index in range(number)
    ]
    names = [matched.layer.name for matched, _ in rows]
    nodes = [node for matched, _ in rows for node in matched.nodes]
    return plan_of(
        rows,
        [NodeFate(node=node, fate="layer" if index % 2 else "lost") for index, node in enumerate(nodes)],
        op_types={node: node.rpartition("/")[2] for node in nodes},
        edges=[
            PlanEdge(tensor=name, maker=name, readers=(after,), kind="pointwise", expected=True, bytes=10)
            for name, after in itertools.pairwise(names)
        ],
        reformats=[PlanReformat(layer=name, origin="REFORMAT", serves=name, change="", bytes=1) for name in names],
        lints=[PlanLint(code="TC1", layer=name, what="w", evidence="e", try_="t") for name in names],
    )


CASES: dict[str, Callable[[], EnginePlan]] = {
    "typical": typical,
    "typical_timed": lambda: typical(timed=True),
    "empty": empty,
    "without_model": without_model,
    "hostile": hostile,
}
