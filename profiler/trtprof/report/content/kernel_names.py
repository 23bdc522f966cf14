"""What `trtprof kernel` says: what names of kernels tell, and what they do not."""

from __future__ import annotations

from trtprof.base.records import KernelListing, NamedKernel
from trtprof.report import ReportOptions, content_of
from trtprof.report._format import count
from trtprof.report.document import Document, Notes, Section, Span

_UNITS = {
    "tensor": "tensor cores",
    "simt": "scalar pipes, no tensor cores",
    "none": "no matrix product",
    "unknown": "the name does not say on which unit",
}


@content_of(KernelListing)
def document(found: KernelListing, options: ReportOptions) -> Document:  # noqa: ARG001 - there is nothing to choose
    """A section a name."""
    return Document(
        title=count(len(found.kernels), "kernel name"),
        titled=False,
        sections=tuple(
            Section(blocks=(Notes((Span(each.name, cut="never", name=True), *_said(each))),)) for each in found.kernels
        ),
    )


def _said(kernel: NamedKernel) -> list[str]:
    arch = f"sm{kernel.arch} or later" if kernel.arch is not None else "architecture not said"
    unit = _UNITS[kernel.unit] + (f" ({kernel.evidence})" if kernel.evidence else "")
    lines = [f"  {kernel.op}, family {kernel.family}, {arch}", f"  {unit}"]
    dtypes = {"in": kernel.dtype_in, "math": kernel.dtype_math, "acc": kernel.dtype_acc, "out": kernel.dtype_out}
    types = [f"{word} {dtype}" for word, dtype in dtypes.items() if dtype]
    if types:
        lines.append("  dtypes: " + ", ".join(types))
    shape = {
        "mma": kernel.mma, "layout": kernel.layout, "tile": kernel.tile, "cluster": kernel.cluster,
        "stages": kernel.stages, "vector": kernel.vector,
    }  # fmt: skip
    said = [f"{word} {value}" for word, value in shape.items() if value]
    if kernel.split_k is not None:
        said.append("split-k" if kernel.split_k else "no split-k")
    said += [f"align {operand} {elements}" for operand, elements in (kernel.alignment or {}).items()]
    if said:
        lines.append("  " + ", ".join(said))
    if kernel.ops:
        lines.append("  ops: " + ", ".join(kernel.ops))
    return lines
