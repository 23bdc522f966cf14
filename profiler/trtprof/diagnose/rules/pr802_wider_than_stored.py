"""A model that stores fp16 or int8, whose products ONNX Runtime computes in fp32 on this CPU.

What:
    The weights of convolutions, matrix products or recurrent layers are int8 in the model, or its tensors are fp16,
    and the layers that computed them ran in fp32. The evidence has the time of those layers, by op, and of the casts
    that ONNX Runtime inserted.

Why:
    ONNX Runtime has few fp16 kernels for x86: it casts to fp32 and back. A product runs in int8 only where both
    operands are quantized: DequantizeLinear, or Cast and Mul, on the weights alone is folded into fp32 weights before
    the run. Such a file is smaller, but no faster.

Try:
    fp16: deploy the fp32 model on this CPU; it needs no casts. int8: quantize the activations too, as
    `onnxruntime.quantization` does (`quantize_dynamic`, or `quantize_static` with uint8 activations), and measure
    both: `trtprof compare`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from trtprof.base.op_kinds import MULTIPLYING, OPERANDS, VIEWS
from trtprof.base.plan_words import FULL, HALF
from trtprof.base.records import LayerResult, Op
from trtprof.base.units import format_ns, format_percent
from trtprof.diagnose import Case, Claim, rule
from trtprof.diagnose.products import product_dtype

_KEEPS = VIEWS | {"Cast", "DequantizeLinear", "Mul", "Sub", "Transpose"}
"""What stands between stored weights and the product that uses them."""


def _makers(case: Case) -> dict[str, Op]:
    """The ONNX op that makes each tensor."""
    return {tensor.name: op for op in case.ops.values() for tensor in op.outputs if tensor is not None}


def _stored(case: Case, layer: LayerResult, makers: Mapping[str, Op]) -> str:
    """The narrower type in which the model stores what a layer multiplies in fp32; empty for none."""
    if layer.role != "compute" or layer.op_type not in MULTIPLYING or product_dtype(layer) not in FULL:
        return ""
    for op in (case.ops[name] for name in layer.nodes if name in case.ops):
        dtypes = {tensor.dtype for tensor in (*op.inputs, *op.outputs) if tensor is not None} & HALF
        if dtypes:
            return min(dtypes)
        for place in OPERANDS.get(op.op_type, ()):
            if place < len(op.inputs) and (dtype := _weights(op, place, makers)):
                return dtype
    return ""


def _weights(op: Op, place: int, makers: Mapping[str, Op]) -> str:
    """The integer type of constant weights behind an input; empty where it is another, or no constant."""
    tensor = op.inputs[place]
    for _ in makers:
        if tensor is None:
            return ""
        if tensor.constant and "int" in tensor.dtype:
            return tensor.dtype if tensor.dtype.removeprefix("u") in ("int8", "int4", "int2") else ""
        maker = makers.get(tensor.name)
        if maker is None or maker.op_type not in _KEEPS or not maker.inputs:
            return ""
        tensor = maker.inputs[0]
    return ""


def _reason(case: Case, layer: LayerResult) -> str:
    if not case.on_ort_cpu:
        return "the layer did not run on ONNX Runtime's CPU provider"
    if _stored(case, layer, _makers(case)):
        return ""
    return f"nothing shows that the model stores in a narrower type what the layer computes in {layer.dtype or 'none'}"


@rule("PR802", "computed in fp32, stored narrower", order=12, reason=_reason, thresholds=("wider_share",))
def check(case: Case) -> Iterator[Claim]:
    """One finding for each narrower type that enough of the time is computed without."""
    if not case.on_ort_cpu:
        return
    makers, all_ns = _makers(case), sum(layer.measured_ns for layer in case.layers)
    stored = {layer.name: _stored(case, layer, makers) for layer in case.unclaimed}
    for dtype in sorted(set(filter(None, stored.values()))):
        layers = [layer for layer in case.unclaimed if stored[layer.name] == dtype]
        total = sum(layer.measured_ns for layer in layers)
        share = total / max(all_ns, 1)
        if share < case.thresholds.wider_share:
            continue
        times: Counter[str] = Counter()
        for layer in layers:
            times[layer.op_type] += layer.measured_ns
        half = dtype in HALF
        casts = [layer for layer in case.unclaimed if half and layer.op_type == "Cast" and layer.role == "layout"]
        saved = {layer.name: layer.measured_ns for layer in casts}
        evidence = (
            f"the model stores {dtype}{'' if half else ' weights'}, but {format_ns(total)} of the "
            f"{format_ns(all_ns)} of its layers ({format_percent(share)}) run in fp32: "
            f"{', '.join(f'{op} {format_ns(ns)}' for op, ns in times.most_common(3))}"
        )
        if not half:
            evidence += (
                "; measured elsewhere (1 thread of an AMD EPYC with VNNI): MatMul of 128x384 by 384x384 333 us, "
                "with DynamicQuantizeLinear and MatMulInteger 108 us"
            )
        if casts:
            evidence += f"; {len(casts)} casts that ONNX Runtime inserted take {format_ns(sum(saved.values()))}"
        yield Claim(
            where=f"{len(layers)} layers, largest {max(layers, key=lambda layer: layer.measured_ns).name}",
            evidence=evidence,
            remedy=(
                "fp16 makes the file smaller here, not the inference faster: deploy the fp32 model if size is no issue"
                if half
                else "quantize the activations too (dynamic, or static with uint8), compare the latency with "
                "`trtprof compare`, and check the outputs; or deploy fp32"
            ),
            layers=saved or {layer.name: 0 for layer in layers},
            confidence=0.95,
            always=True,
        )
