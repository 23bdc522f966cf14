"""The model itself with what was measured beside its nodes, for Netron and every other viewer of ONNX.

Each node's metadata says which layers compute it, what they took, what bounds them, which kernels ran and which
findings are about them. Time belongs to layers: where one computes several nodes, each of them has the time of the
layer, and with how many others it shares it. What is estimated begins with ``~`` and what is a hypothesis ends with its
confidence. The model is the one that ran, byte for byte as far as it was not changed for the run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from trtprof.base import units
from trtprof.base.errors import MissingError
from trtprof.base.records import Finding, LayerResult, Run, bound_name
from trtprof.report import ReportOptions, reporter
from trtprof.report._format import count, time_of

PREFIX = "trtprof."
NEEDS_MODEL = "onnx"  # Name of the format that needs the file of the model beside the record
_KERNELS = 8  # Kernels of a layer that are named, those with most time first


@reporter("onnx", suffix=".onnx", binary=True, of=(Run,))
def encode(run: Run, options: ReportOptions) -> bytes:
    """The model with metadata; without its large weights where ``options.weights`` is False."""
    if not options.model:
        raise MissingError(
            "the run has no model to write into",
            why="an annotated model is made of the model's own file",
            fix="trtprof report RUN -o annotated.onnx, where the file is still in its place",
        )
    from trtprof.base.onnx_metadata import with_metadata  # the other formats need no onnx

    layers: dict[str, list[LayerResult]] = defaultdict(list)
    for layer in run.layers:
        for name in layer.nodes:
            layers[name].append(layer)
    findings: dict[str, list[Finding]] = defaultdict(list)
    for finding in run.findings:
        for name in finding.layers:
            findings[name].append(finding)
    said: dict[str, list[tuple[str, str]]] = {}
    for node in run.nodes:
        words = [(f"{PREFIX}fate", f"{node.fate}: {node.reason}" if node.reason else node.fate)]
        own = layers.get(node.name, [])
        for number, layer in enumerate(own):
            at = f"{PREFIX}{number}." if len(own) > 1 else PREFIX
            words += [(at + key, value) for key, value in _of_layer(run, layer, findings[layer.name])]
        said[node.name] = words
    return with_metadata(options.model, said, list(_of_run(run)), PREFIX, weights=options.weights)


def _of_layer(run: Run, layer: LayerResult, findings: list[Finding]) -> Iterator[tuple[str, str]]:
    yield "layer", layer.name
    time = units.format_ns(layer.measured_ns)
    whose = "" if len(layer.nodes) == 1 else f" for these {count(len(layer.nodes), 'node')}: {', '.join(layer.nodes)}"
    yield "time", f"layer {layer.name}: {time}{whose}" if whose else time
    if run.latency.headline_ns:
        yield "share", f"{units.format_percent(layer.measured_ns / run.latency.headline_ns)} of the measured latency"
    yield "bound", bound_name(layer.bound, run.device.kind)
    if layer.attainable_ns is not None:
        yield "floor", f"~{units.format_ns(layer.attainable_ns)} at the ceilings of this device"
    if layer.lost_ns is not None:
        yield "lost", f"~{units.format_ns(layer.lost_ns)}"
    ranked = sorted(layer.kernels, key=lambda each: (-each.total_ns, each.kernel))
    named = [f"{each.count} x {each.kernel}, {units.format_ns(each.median_ns)}" for each in ranked[:_KERNELS]]
    named += [f"and {len(ranked) - _KERNELS} more"] if len(ranked) > _KERNELS else []
    if named:
        yield "kernels" if time_of(run) == "kernel" else "times", "; ".join(named)
    if layer.match != "exact":
        yield "match", f"{layer.match}: {layer.reason}"
    for number, finding in enumerate(findings, 1):
        sure = "" if finding.kind == "trust" else f" ({units.format_percent(finding.confidence)} sure)"
        lost = f", ~{units.format_ns(finding.lost_ns)} lost in all" if finding.lost_ns else ""
        how = f" ({finding.command})" if finding.command else ""
        yield f"finding.{number}", f"{finding.code} {finding.title}{sure}{lost}. Try: {finding.try_}{how}"


def _of_run(run: Run) -> Iterator[tuple[str, str]]:
    yield f"{PREFIX}latency", f"{units.format_ns(run.latency.headline_ns)} median, measured without the profiler"
    yield f"{PREFIX}device", f"{run.backend.name} on {run.device.name}"
    yield f"{PREFIX}verdict", run.verdict
    for number, finding in enumerate((each for each in run.findings if each.kind == "trust"), 1):
        yield f"{PREFIX}doubt.{number}", f"{finding.code} {finding.title}: {finding.evidence}"
    rest = [layer for layer in run.layers if not layer.nodes and layer.measured_ns]
    if rest:
        took = units.format_ns(sum(layer.measured_ns for layer in rest))
        yield (
            f"{PREFIX}layers_of_no_node",
            f"{count(len(rest), 'layer')}, {took}: {', '.join(each.name for each in rest)}",
        )
    for number, text in enumerate(run.model.assumptions, 1):
        yield f"{PREFIX}assumed.{number}", text
    if run.created:
        yield f"{PREFIX}created", run.created
