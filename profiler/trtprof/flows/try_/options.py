"""What may be asked of `trtprof try`, and the rungs that change how a session is set up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

import msgspec

from trtprof.base.records import Device, GpuSpec, Run, RungKind
from trtprof.base.units import format_ns
from trtprof.flows.options import RunOptions
from trtprof.flows.try_.price import Price
from trtprof.rewrite import REWRITES


class TryOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that may be asked."""

    # How the original is run; ``output`` is the folder that receives the runs of the original and of the best
    run: RunOptions
    # About how many seconds it may take, the run of the original included; see `search.SINGLES`
    budget_s: float = 300.0
    most: int = 40  # How many rungs are measured at most
    only: tuple[str, ...] = ()
    rungs: tuple[str, ...] = ()  # Names of rungs: all others are left out. Empty for all
    skip: tuple[str, ...] = ()  # Names of rungs to leave out
    kinds: frozenset[str] = frozenset({"option", "rewrite", "pass"})  # Which kinds of rungs are tried
    quick: bool = False  # Whether the outputs of options are taken to be right
    dry_run: bool = False  # Whether to stop before anything is measured but the original
    gpu: GpuSpec | None = None  # Predict rewrites for this GPU, and run nothing; None for the device that is here
    model: str = ""  # Where to write the best model; empty for nowhere
    force: bool = False  # Whether it may replace a file


class Candidate(NamedTuple):
    """One change, or several, that may be measured."""

    name: str  # That of its rung; of several, theirs, joined with ``+``
    title: str  # What it does, in a few words
    # KEY=VALUE as ``--sessionOption`` takes them; where KEY begins with ``--``, a flag of `trtprof run`, whose value
    # is 1 where it takes none.
    settings: tuple[str, ...] = ()
    threads: int = 0  # Threads inside an op; 0 leaves them as they are
    answers: tuple[str, ...] = ()  # Codes of the rules whose remedy it is
    exact: bool | None = True  # See `records.Rung`; threads may cut a sum otherwise
    idle: str = ""  # Why it changes nothing of this model, in words; empty where it may
    why_not: str = ""  # Why it cannot be made here, in words; empty where it can
    price: Price | None = None  # What it should bring, where that is known before it is built
    steps: tuple[str, ...] = ()  # Rewrites and passes, in order
    kind: RungKind = "option"  # See `records.RungKind`

    @property
    def options(self) -> dict[str, str]:
        """What it sets, by the flag or the key that sets it."""
        found = dict(setting.split("=", 1) for setting in self.settings)
        return {**({"--threads": str(self.threads)} if self.threads else {}), **found}

    def beside(self, other: Candidate) -> Candidate:
        """This one, and then another one that sets no option of it."""
        return Candidate(
            f"{self.name}+{other.name}", f"{self.title}; {other.title}", (*self.settings, *other.settings),
            other.threads or self.threads, tuple(dict.fromkeys((*self.answers, *other.answers))),
            None if self.exact is None or other.exact is None else self.exact and other.exact,
            steps=(*self.steps, *other.steps), kind="combination",
        )  # fmt: skip


def rewrite_candidates() -> Iterator[Candidate]:
    """All rewrites, each a candidate."""
    for one in REWRITES.values():
        yield Candidate(one.name, one.title, answers=one.answers, exact=one.exact, steps=(one.name,), kind="rewrite")


_OF_THREADS = ("RL101", "RL102", "LA401", "HO501", "HO503")
_Here = Callable[[Run], str]


def _without(why: str, *ops: str) -> _Here:
    return lambda run: "" if any(layer.op_type in ops for layer in run.layers) else why


def one_chain(run: Run) -> str:
    """Why layers cannot run side by side; empty where some tensor has several readers, or there are several sources."""
    edges = run.graph.layer_from if run.graph is not None else ()
    return "" if len(set(edges)) < len(edges) else "its layers are one chain"


_SESSION: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...], bool, _Here | None], ...] = (
    ("no-spinning", "threads sleep in place of spinning for work, for cores that other processes want",
     ("session.intra_op.allow_spinning=0",), ("HO501", "HO503", "LA401"), True, None),
    ("dynamic-blocks", "work is handed to threads in smaller and smaller blocks",
     ("session.dynamic_block_base=4",), (), True, None),
    ("parallel-execution", "layers that do not wait for one another run side by side",
     ("execution_mode=parallel",), ("HO501", "LA401"), True, one_chain),
    ("no-blocked-layout", "convolutions without the blocked layout and its reorders",
     ("graph_optimization_level=extended",), ("LY201",), False,
     _without("no blocked layout", "ReorderInput", "ReorderOutput")),
    ("no-arena", "memory from the system's allocator", ("enable_cpu_mem_arena=0",), (), True, None),
    ("no-memory-pattern", "memory without a plan made beforehand", ("enable_mem_pattern=0",), (), True, None),
    ("no-prepacking", "weights as they are in the file", ("session.disable_prepacking=1",), (), False, None),
    ("denormals-as-zero", "numbers too small for their type are zero",
     ("session.set_denormal_as_zero=1",), (), False, None),
    ("gelu-approximation", "Gelu by its tanh form",
     ("optimization.enable_gelu_approximation=1",), ("RL101", "RL102"), False,
     _without("no Gelu", "Gelu", "Erf", "BiasGelu", "FastGelu")),
)  # fmt: skip
"""Of ONNX Runtime 1.23 and later on the CPU (onnxruntime_session_options_config_keys.h)."""
SESSION_NAMES = tuple(row[0] for row in _SESSION)


def option_rungs(run: Run, device: Device, threads: int) -> Iterator[Candidate]:
    """The rungs of ONNX Runtime on the CPU."""
    logical = int(device.detail.get("logical_cpus", device.cores) or device.cores)
    alone = "one thread, for a machine whose other cores are busy"
    for count, title in ((1, alone), (device.cores, "a thread a core"), (logical, "a thread a logical CPU")):
        if count != threads and count > 0:
            yield Candidate(f"threads-{count}", title, threads=count, answers=_OF_THREADS, exact=False)
    yield from session_rungs(run)


def session_rungs(run: Run, names: Collection[str] = ()) -> Iterator[Candidate]:
    """The rungs of a session of ONNX Runtime; those of some names alone, where any are given."""
    for name, title, settings, answers, exact, here in _SESSION:
        if not names or name in names:
            idle = here(run) if here is not None else ""
            yield Candidate(name, title, settings, 0, answers, exact, idle)


# --- on a GPU ------------------------------------------------------------------------------------


def cuda_graph_rung(run: Run) -> Candidate:
    """An inference as a CUDA graph: the run of the original has measured it already, for all but its noise."""
    title, settings, answers = "an inference is one launch of a CUDA graph", ("--cuda-graph=1",), ("HO501", "LA401")
    graph = next((mode.latency.median_ns for mode in run.modes if mode.mode == "cuda graph"), 0)
    if graph:
        price = Price(
            run.latency.median_ns / graph, f"as a CUDA graph the original took {format_ns(graph)} in its own run"
        )
        return Candidate("cuda-graph", title, settings, 0, answers, price=price)
    told = [note.removeprefix(_NO_GRAPH) for note in run.assumptions if note.startswith(_NO_GRAPH)]
    why = told[0] if told else "the original was not measured as a CUDA graph"
    return Candidate("cuda-graph", title, settings, 0, answers, why_not=why)


_NO_GRAPH = "no CUDA graph: "


def no_fp32(run: Run) -> str:
    """Why no other type is worth a try; empty where a layer computes in fp32."""
    plain = any(layer.dtype in ("fp32", "tf32") for layer in run.layers)
    return "" if plain else "no layer computes in fp32"


def tf32_rung(run: Run, capability: Sequence[int], *, on: bool) -> Candidate:
    """The other way to multiply fp32."""
    why_not = "" if tuple(capability) >= (8,) else "the GPU has no TF32 (compute capability 8.0 and later have)"
    name, title, answers = (
        ("no-tf32", "fp32 is multiplied as fp32", ())
        if on
        else ("tf32", "fp32 is multiplied as TF32", ("KN702", "PR801", "TC2"))
    )
    settings = (f"--noTF32={int(on)}",)
    return Candidate(name, title, settings, 0, answers, exact=False, idle=no_fp32(run), why_not=why_not)
