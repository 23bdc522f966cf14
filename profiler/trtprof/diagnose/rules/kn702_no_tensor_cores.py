"""A product on the CUDA cores that tensor cores would do in less time.

What:
    The name of the kernel says that it multiplies on the CUDA cores. The tensor cores of this GPU take the dtype,
    and by the roofline they would be done before the CUDA cores can be: arithmetic, not bytes, is what it waits for.
    Of a layer whose work is not known, as in a capture alone, the names of the kernels tell: a matrix product or a
    convolution in tiles. What is claimed there is the most that can be won, and half as sure.

Why:
    Channels, or K and N, that do not fill 16 bytes; groups of few channels; fp32 where TF32 was off when the engine
    was built; or a builder that tried too few tactics. Where the shapes and the dtype tell which, the evidence says so.

Try:
    Leave the first convolution of a quantised model unquantised: in TensorRT's own example on an A100 it takes 202 us
    in 8 bits, and 112 us in fp16. Else pad the dimensions that the evidence names, allow TF32 or take fp16, and build
    with a higher optimization level and more workspace so that more tactics are tried. What is claimed is the time over
    that of the tensor cores' roofline only: where bytes bound the product either way, this rule is silent.
"""

from __future__ import annotations

from trtprof.base.records import LayerResult
from trtprof.base.units import format_ns, format_percent, format_rate
from trtprof.diagnose import Case, Loss, layer_rule
from trtprof.diagnose.libraries import as_fast, down_to, winnable_ns
from trtprof.diagnose.products import (
    aligned,
    beside_roof,
    explains,
    least_healthy,
    main_kernel,
    named_unit,
    no_product,
    padded_ns,
    product_dtype,
    product_of,
    shown,
    tensor_peak,
    too_little,
)
from trtprof.diagnose.remedies import half_precision, more_kernels, pad, unquantised


@layer_rule("KN702", "tensor cores possible but not used", order=26, thresholds=("of_datasheet", "explains", "healthy"))
def judge(case: Case, layer: LayerResult) -> Loss | str:
    """A product on the CUDA cores whose time is over that of the tensor cores' roofline."""
    if case.gpu and layer.role == "compute" and layer.work is None:
        return _by_name(case, layer)
    if why := no_product(case, layer) or as_fast(layer):
        return why
    measured, dtype, kernel = layer.measured_ns, product_dtype(layer), main_kernel(case, layer)
    if not tensor_peak(case, dtype):
        return f"the tensor cores of this GPU take no {dtype} here"
    if kernel is None or kernel.name.unit != "simt":
        return named_unit(kernel)
    # The roof is that of the tensor cores where they take the dtype. Where bytes reach it, they would not help.
    flops = layer.work.tensor_flops if layer.work is not None else 0
    scalar_ns, attainable = (flops * 1e9 / _scalar_peak(case, product_dtype(layer))), _on_tensor_cores(layer)
    if scalar_ns <= attainable:
        return (
            f"at their peak the CUDA cores take {format_ns(scalar_ns)}, no more than the {format_ns(attainable)} that "
            "are attainable with tensor cores"
        )
    if attainable >= least_healthy(case) * measured or measured - attainable <= case.clock_resolution_ns:
        return (
            f"{beside_roof(case, layer)}; tensor cores attain {format_ns(attainable)}, and healthy kernels lose as much"
        )
    ns = min(measured - attainable, round(measured * kernel.share))
    if not explains(case, layer, ns):
        return too_little(case, layer, ns)
    return Loss(
        min(ns, winnable_ns(layer)),
        f"{shown(kernel.match.kernel)} multiplies on the CUDA cores ('{kernel.name.evidence}' in its name), "
        f"which take {format_ns(scalar_ns)} at their peak; with tensor cores {format_ns(attainable)} are attainable "
        f"({format_rate(tensor_peak(case, dtype), 'FLOP/s')} of {dtype}); {beside_roof(case, layer)}; "
        f"{_why(layer)}{down_to(layer)}",
        _remedy(case, layer),
        0.85,
    )


def _by_name(case: Case, layer: LayerResult) -> Loss | str:
    """The same of a layer of which only the names of its kernels are known."""
    kernel = main_kernel(case, layer)
    if kernel is None or kernel.name.unit != "simt":
        return named_unit(kernel)
    name = kernel.name
    if name.op not in ("gemm", "conv", "dgrad", "wgrad") or name.tile is None or "depthwise" in name.ops:
        # A vector's product, a thin one, a depthwise convolution: bytes bound it on either unit.
        return f"{shown(kernel.match.kernel)} is no matrix product in tiles, and the layer's work is not known"
    dtype = name.dtype_in or ""
    scalar, tensor = _scalar_peak(case, dtype), tensor_peak(case, dtype)
    if tensor <= scalar:
        return f"the tensor cores of this GPU are not faster at {dtype or 'a dtype that no name tells'}"
    return Loss(
        round(layer.measured_ns * kernel.share * (1 - scalar / tensor)),
        f"{shown(kernel.match.kernel)} multiplies on the CUDA cores ('{name.evidence}' in its name), "
        f"{format_percent(kernel.share)} of {format_ns(layer.measured_ns)}; the tensor cores do {dtype}"
        f"{' as TF32' if dtype == 'fp32' else ''} at {format_rate(tensor, 'FLOP/s')}, the CUDA cores at "
        f"{format_rate(scalar, 'FLOP/s')}: that much is lost at the most, and less where bytes bound the product, whose"
        " size the capture does not tell",
        _allow(case) if dtype == "fp32" else f"try {more_kernels(case)}",
        0.5,
    )


def _scalar_peak(case: Case, dtype: str) -> float:
    """FLOP/s of the CUDA cores.

    One dp4a does four multiply-accumulates of 8 bits (PTX ISA) at the rate of int32 at most; another dtype without a
    peak has that of fp32.
    """
    peaks = case.ceilings.attainable.vector_flops_per_s
    narrow = 4 * peaks.get("int32", peaks["fp32"]) if dtype in ("int8", "uint8") else peaks["fp32"]
    return peaks.get(dtype) or narrow


def _on_tensor_cores(layer: LayerResult) -> int:
    """What is attainable with tensor cores, in ns: with dimensions padded where they do not fit them."""
    product = product_of(layer)
    if product is None or not _misfits(layer) or (product.convolution and product.batch > 1):
        return layer.attainable_ns or 0
    return padded_ns(layer, product, aligned(product_dtype(layer)))


def _misfits(layer: LayerResult) -> tuple[tuple[str, int], ...]:
    product = product_of(layer)
    return () if product is None else product.misfits(aligned(product_dtype(layer)))


def _why(layer: LayerResult) -> str:
    """What its shapes and dtype tell of the reason."""
    product = product_of(layer)
    if product is not None and product.convolution and product.batch > 1:
        return f"it has {product.batch:,} groups of {product.inner} input channels each"
    if misfits := _misfits(layer):
        named = " and ".join(f"{name} = {size:,}" for name, size in misfits)
        return f"{named}: no multiple of {aligned(product_dtype(layer))}, as tensor cores want them"
    if product_dtype(layer) == "fp32":
        return "it multiplies fp32 as it is, where TF32 is allowed"
    where = "its dtype and dimensions" if product is not None else "its dtype"
    return f"nothing in {where} forbids tensor cores"


def _remedy(case: Case, layer: LayerResult) -> str:
    product, dtype = product_of(layer), product_dtype(layer)
    if product is not None and product.convolution and product.batch > 1:
        return "widen its groups, or merge it with the pointwise convolution behind it; then a hand-written kernel"
    if alone := unquantised(product, dtype):
        return alone
    if padded := pad(product, aligned(dtype)):
        return f"{padded} with zeros in the model"
    if half_precision(layer):
        return _allow(case)
    return f"try {more_kernels(case)}"


def _allow(case: Case) -> str:
    if case.backend == "pytorch":
        how = "allow TF32 (torch.set_float32_matmul_precision('high')), or take fp16 or bf16 (torch.autocast)"
    elif case.tensorrt:
        how = "allow TF32 (build without --noTF32), or take fp16 (--fp16)"
    else:
        how = "allow TF32, or take fp16 or bf16"
    return f"{how}, and compare the outputs"
