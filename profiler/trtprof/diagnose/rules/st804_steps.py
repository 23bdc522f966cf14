"""Steps that wait for one another: recurrent layers and loops.

What:
    A good part of the latency is in LSTM, GRU or RNN layers, or in the bodies of Loop and Scan, whose steps run one
    after the other.

Why:
    A step reads what the step before it made, so steps cannot run side by side, however many threads there are. Each is
    a thin product, or some small ops that each cost their start.

Try:
    For throughput, run several sequences as one batch: a step then does more work in little more time (a batch of 4 had
    1.4 to 3.4 times the throughput; with GRU 0.9 to 1.6 times). The latency of one sequence gets no shorter by a batch:
    for that, fewer steps or a smaller hidden size are needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trtprof.base.op_kinds import op_kind
from trtprof.base.records import LayerResult
from trtprof.base.units import format_ns, format_percent
from trtprof.diagnose import Case, Claim, rule


class _Steps(NamedTuple):
    name: str  # Of the layer that has them
    op_type: str
    steps: int  # 0 where they are not known
    ns: int
    body: int  # Layers of a loop's body; 0 of a recurrent layer


def _steps(case: Case) -> Iterator[_Steps]:
    """The layers of a run that do one step after the other."""
    for layer in case.unclaimed:
        op = case.engine[layer.name].op
        if op_kind(layer.op_type) == "recurrent":
            shape = op.inputs[0].shape if op.inputs and op.inputs[0] is not None else None
            at = 1 if op.attributes.get("layout") == 1 else 0
            count = shape[at] if shape is not None and len(shape) > at else 0
            yield _Steps(layer.name, layer.op_type, count if isinstance(count, int) else 0, layer.measured_ns, 0)
        elif layer.op_type in ("Loop", "Scan"):
            body = [one for one in case.layers if case.engine[one.name].graph.startswith(f"{layer.name}/")]
            count = max((case.runs.get(one.name, 1) for one in body), default=0)
            ns = max(layer.measured_ns, sum(one.measured_ns for one in body))
            yield _Steps(layer.name, layer.op_type, count, ns, len(body))


def _reason(case: Case, layer: LayerResult) -> str:
    if not case.on_ort_cpu:
        return "the rule is about layers of ONNX Runtime on a CPU"
    own = [one for one in _steps(case) if one.name == layer.name]
    return "" if own else f"{layer.op_type} has no steps that wait for one another"


@rule("ST804", "steps that wait for one another", order=35, reason=_reason, thresholds=("wider_share",))
def check(case: Case) -> Iterator[Claim]:
    """One finding for all of them, which claims no time."""
    found = [one for one in _steps(case) if one.steps != 1] if case.on_ort_cpu else []
    all_ns, total = sum(layer.measured_ns for layer in case.layers), sum(one.ns for one in found)
    if not found or total < case.thresholds.wider_share * all_ns:
        return
    worst = max(found, key=lambda one: one.ns)
    each = f"{worst.steps} steps of {format_ns(worst.ns / worst.steps)}" if worst.steps else "steps"
    body = f", each of {worst.body} ops" if worst.body else ""
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    yield Claim(
        where=f"{worst.name}{more}",
        evidence=(
            f"{format_ns(total)} of the {format_ns(all_ns)} of its layers ({format_percent(min(total / all_ns, 1))}) "
            f"are steps that run one after the other; {worst.op_type} {worst.name}: {each}{body}"
        ),
        remedy=(
            "run several sequences as one batch for throughput, which does not shorten the latency of one; "
            "only fewer steps or a smaller hidden size would"
        ),
        layers={one.name: 0 for one in found},
        confidence=0.9,
        always=True,
    )
