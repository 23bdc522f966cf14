"""What `trtprof doctor` says: what can run on this machine, and why not the rest."""

from __future__ import annotations

from collections.abc import Iterator

from trtprof.base.records import LiveGpu, Machine, Part
from trtprof.base.units import format_bytes
from trtprof.report import ReportOptions, content_of
from trtprof.report.document import Block, Column, Document, Heading, Notes, Pair, Pairs, Row, Section, Table, Under

_TITLES = {
    "backend": "backends, in the order of --backend auto",
    "collector": "collectors on a GPU, in the order of --collector auto",
    "plugin": "for custom kernels: what compiles them, and what checks them without a GPU",
    "try": "for trtprof try: what graphs are rewritten with",
    "fleet": "for a fleet on more than this machine",
    "left out": "left out, for it is broken",
}


@content_of(Machine)
def document(found: Machine, options: ReportOptions) -> Document:  # noqa: ARG001 - there is nothing to choose
    """Versions, devices and ceilings, then what can be used and what the others lack."""
    device = found.device
    kept = (
        f"{found.ceilings_kept} kept in {found.ceilings_folder}; `trtprof calibrate` measures again"
        if found.ceilings_kept
        else f"none measured yet; the first run does it and keeps them in {found.ceilings_folder}"
    )
    memory = f"{format_bytes(device.memory_bytes)} memory, {format_bytes(device.cache_bytes)} last-level cache"
    pairs = [
        ("trtprof", f"{found.trtprof}, Python {found.python}, {found.platform}"),
        ("onnxruntime", found.onnxruntime),
        ("device", f"{device.name}, {device.cores} cores, {memory}"),
        *map(_gpu, found.gpus),
        *([("gpu", found.gpus_note if found.gpus else f"none: {found.gpus_note}")] if found.gpus_note else []),
        ("ceilings", kept),
    ]
    parts = [
        Section(title=title, tight=True, blocks=tuple(_parts(title, same)))
        for kind, title in _TITLES.items()
        if (same := [part for part in found.parts if part.kind == kind])
    ]
    return Document(
        title="What can run here",
        titled=False,
        labels=13,
        sections=(Section(blocks=(Pairs(tuple(Pair(label, text, None, "") for label, text in pairs)),)), *parts),
    )


def _gpu(gpu: LiveGpu) -> tuple[str, str]:
    place = f"{gpu.index}" + (f".{gpu.slice}" if gpu.slice is not None else "")
    known = [
        f"compute capability {gpu.compute_capability}" if gpu.compute_capability else "",
        f"{gpu.sms} SMs" if gpu.sms else "",
        f"driver {gpu.driver}" if gpu.driver else "",
        f"CUDA {gpu.cuda}" if gpu.cuda else "",
    ]
    return f"gpu {place}", ", ".join([gpu.name, *filter(None, known)])


def _parts(title: str, parts: list[Part]) -> Iterator[Block]:
    yield Heading(f"{title}:")
    if parts[0].kind == "left out":
        yield Notes(
            tuple(text for part in parts for text in (f"  --  {part.name}: {part.reason}", f"      fix: {part.fix}"))
        )
        return
    rows = [
        Row(
            (f"  {'ok' if part.available else '--'}", part.name, part.reason),
            (Under(part.fix, "fix:", None, at=2),) if part.fix else (),
        )
        for part in parts
    ]
    columns = Column("", gap=0), Column("name", least=13), Column("what it is", gap=1, cut="wrap")
    yield Table(columns=columns, rows=rows, headless=True)
