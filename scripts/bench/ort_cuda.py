"""The pieces of the ort-cuda backend one after the other: build, time, verify, capture, and kernels to layers.

    python scripts/bench/ort_cuda.py MODEL.onnx [--provider cuda] [--collector cupti] [--verify] [--l2 BYTES] [-o DIR]

``--provider cpu --collector none`` runs the same code with the CPU in place of the GPU, and aligns nothing. ``--l2`` is
the size of the L2 cache: inputs then take turns, so that they come from DRAM. The files stay in DIR.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import msgspec
import pandas as pd

from trtprof.align.nodes import match_layers
from trtprof.align.ort_cuda import align_ort
from trtprof.base.errors import TrtprofError
from trtprof.base.records import Source
from trtprof.base.trace_file import FACTS_FILE, load_trace
from trtprof.base.units import format_ns, format_percent
from trtprof.capture.gpu_record import (
    CLEAN_FILE,
    NODE_EVENTS_FILE,
    PROFILED_FILE,
    CleanTimes,
    OrtCudaRequest,
    ProfiledTimes,
)
from trtprof.capture.launch import run_worker
from trtprof.engine.onnxruntime import ENGINE_GRAPH, build_ort_cpu, build_ort_cuda, layers_from_file
from trtprof.runtime.ort_session import CudaOptions, SessionRequest
from trtprof.source.load import load_model, source_of
from trtprof.source.shapes import parse_shapes


def run(given: argparse.Namespace, folder: Path, scratch: Path) -> None:
    """All of it, printed as it is done."""
    loaded = load_model(given.model)
    source = source_of(loaded, parse_shapes(given.shapes))
    session = SessionRequest(
        model=str(loaded.path),
        provider=given.provider,
        cuda=CudaOptions(device_id=given.device, use_tf32=not given.no_tf32),
    )
    if given.provider == "cuda":
        engine, on_cpu = build_ort_cuda(session, folder, scratch, "asked for")
        print(f"{len(on_cpu)} nodes on the CPU: {engine.backend.options['nodes_on_cpu']}")
    else:
        engine = build_ort_cpu(session, folder, scratch, "asked for")
    print(f"{len(engine.layers)} layers in {format_ns(engine.build_ns)}")
    request = OrtCudaRequest(
        phase="clean",
        session=session,
        folder=str(folder),
        scratch=str(scratch),
        inputs=source.model.inputs,
        graph_file=ENGINE_GRAPH,
        layers=len(engine.layers),
        seed=0,
        iterations=10,
        warmup_ms=200.0,
        duration_s=3.0,
        profile_iterations=30,
        cold_l2=given.l2 > 0,
        l2_bytes=given.l2,
        verify=given.verify,
        collector=given.collector,
    )
    worker, done = "trtprof.capture.workers.ort_cuda", scratch / CLEAN_FILE
    run_worker(request, print, worker, done)
    clean = msgspec.json.decode(done.read_bytes(), type=CleanTimes)
    done = scratch / PROFILED_FILE
    run_worker(msgspec.structs.replace(request, phase="profiled"), print, worker, done)
    seen = msgspec.json.decode(done.read_bytes(), type=ProfiledTimes)
    for mode in clean.modes:
        named = (
            ("to device", mode.h2d_ns),
            ("compute", mode.compute_ns),
            ("back", mode.d2h_ns),
            ("enqueue", mode.enqueue_ns),
        )
        parts = ", ".join(f"{name} {format_ns(ns)}" for name, ns in named if ns)
        print(f"{mode.mode}: {format_ns(mode.latency.median_ns)} ({parts}; by {clean.timed_by})")
    print(f"profiled: {format_ns(seen.latency.median_ns)}; copies of the inputs: {clean.copies}")
    print(f"no CUDA graph: {clean.no_cuda_graph}" if clean.no_cuda_graph else "with a CUDA graph")
    for check in clean.checks[:3]:
        found = f"off by {check.max_abs:.3g}, relative {check.max_rel:.3g}, {check.tolerance:.3g} of what is allowed"
        print(f"output {check.name} ({check.dtype}): {'right' if check.matches else 'WRONG'}: {check.reason or found}")
    for what, names in (("layers on the CPU", seen.cpu_layers), ("copying layers", seen.copy_layers)):
        print(f"{what}: {', '.join(names) or 'none'}")
    for note in (*clean.notes, *seen.notes):
        print(note)
    if (folder / FACTS_FILE).is_file():
        aligned(source, folder, seen)


def aligned(source: Source, folder: Path, seen: ProfiledTimes) -> None:
    """Kernels by layer."""
    layers, _ = match_layers(source.nodes, layers_from_file(folder / ENGINE_GRAPH))
    found = align_ort(
        load_trace(folder),
        layers,
        pd.read_parquet(folder / NODE_EVENTS_FILE),
        guess_ns=seen.clock_guess_ns,
        within_ns=seen.clock_within_ns,
    ).alignment
    for note in found.notes:
        print(note)
    for name, coverage in (("layers", found.coverage), ("nodes", found.node_coverage)):
        shares = (format_percent(share) for share in (coverage.exact, coverage.inferred, coverage.unattributed))
        print("kernel time to {}: {} exact, {} inferred, {} unattributed".format(name, *shares))
    kept = int(found.iterations["kept"].sum())
    print(f"{kept} of {len(found.iterations)} inferences alike, told apart by {found.iteration_source}")
    most = sorted(range(len(found.layers)), key=lambda place: -found.per_iteration_ns[place])[:10]
    for place in most:
        kernels = ", ".join(match.kernel.split("(")[0] for match in found.matches[place][:2])
        print(f"{format_ns(found.per_iteration_ns[place]):>12}  {found.layers[place].layer.name}  {kernels}")


def main() -> int:
    """Parse, run, and turn an error of ours into its lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--shapes", action="append", default=[])
    parser.add_argument("--provider", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--collector", choices=["cupti", "none"], default="cupti")
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--no-tf32", action="store_true")
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--l2", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trtprof-") as scratch:
        folder = given.output or Path(scratch) / "run"
        folder.mkdir(parents=True, exist_ok=True)
        try:
            run(given, folder.resolve(), Path(scratch))
        except TrtprofError as error:
            print(error)
            return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
