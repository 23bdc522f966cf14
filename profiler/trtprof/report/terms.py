"""What each word and number of a report means: the definitions behind the ``?`` of the page and ``trtprof help``.

One dictionary, so that a word means the same wherever it stands. They follow the docstrings of
`trtprof.base.records` and `trtprof.base.units`; those win.
"""

from __future__ import annotations

import difflib
from typing import NamedTuple

from trtprof.base import units
from trtprof.base.errors import UsageError


class Term(NamedTuple):
    """A word of the reports, in words."""

    title: str
    text: str
    also: tuple[str, ...] = ()  # Other words that reports use for it, or that the field does


_SPECIAL = ", ".join(
    f"{weight} for {' '.join(name for name, w in units.SPECIAL_FLOPS.items() if w == weight)}"
    for weight in sorted(set(units.SPECIAL_FLOPS.values()))
)

_UNITS = ("tensor", "sfu", "dram", "l2", "llc")  # What documents for programs call what bounds a layer

TERMS: dict[str, Term] = {
    "latency": Term(
        "Latency",
        "Time of one inference, end to end, without the profiler: the median of the inferences in which no thread "
        "waited for a CPU where there are enough of them, else the median of all. A fact. ~ when nothing else runs: an "
        "estimate from the times of the layers, with its 95 % interval.",
        ("median", "inferences/s", "undisturbed", "as shared"),
    ),
    "layers-sum": Term(
        "Sum of the layers",
        "No times of whole inferences were given, so the times of the layers are added up. It leaves out gaps, copies "
        "and the host.",
        ("in layers",),
    ),
    "p99": Term("p10, p50, p99", "10, 50 or 99 of 100 samples took this time or less.", ("p10 of the latency", "p50")),
    "perturbation": Term(
        "Cost of the profiler",
        "Median latency with the profiler attached over that without it, less one. Times of layers are taken with the "
        "profiler; the latency is not.",
        ("with the profiler", "profiled", "profiler cost"),
    ),
    "allowed": Term(
        "Roofline bound",
        "Least time for the model's work: the sum of the bounds of the layers that do it. Layers that only change a "
        "layout count 0; layers without a cost model are left out and counted. At most N times faster: latency over "
        "bound. An estimate.",
        ("floor", "estimate", "allows", "at most", "max speedup"),
    ),
    "ideal": Term(
        "Ideal",
        "The larger of work / peak and bytes / bandwidth, with the best ceilings known of the device: the datasheet of "
        "a GPU, the best measured at any number of threads of a CPU. An estimate.",
        ("speed of light",),
    ),
    "attainable": Term(
        "Allowed (attainable)",
        "The ideal with the ceilings measured on this device at the clock of the run, where they were: what fits in "
        "the last-level cache is charged at its bandwidth, and no layer takes less than an empty kernel. An estimate.",
        ("roof", "roofs", "allowed time"),
    ),
    "expected": Term(
        "Expected: what good kernels take",
        "What good library kernels (cuBLAS, cuDNN, CUTLASS, FlashAttention) take for this op, these shapes, this type "
        "and this GPU, learned from measurements by others: the median, and the band that holds 80 % of such kernels, "
        "from p10 to p90. No bound: a tenth of them is faster than p10. Bands of layers add up as if all erred the "
        "same way. Nothing is expected where nothing like it was measured; what is extrapolated is shown, and no "
        "verdict, sum or step of the ledger rests on it. An estimate.",
        ("good kernels", "expectation", "p10", "p90", "library kernels", "band"),
    ),
    "of-expected": Term(
        "Of what is expected",
        "Expected time over measured time: 100 % is as fast as good library kernels are in the median, more is faster "
        "than they are.",
        ("of expected",),
    ),
    "unreached": Term(
        "What good kernels do not reach either",
        "The part of the time lost that good library kernels are expected to lose too: expected less allowed time. "
        "What is left is slower than good kernels. Only layers with an expectation are split so. An estimate.",
        ("what good kernels do not reach either", "slower than good kernels", "kernel inefficiency"),
    ),
    "of-roof": Term(
        "Of the roofline",
        "Allowed time over measured time: 100 % is as fast as the ceilings allow.",
        ("eff", "efficiency", "of what this device attains", "of the roof", "gap-to-roof"),
    ),
    "coverage": Term(
        "Coverage",
        "Share of the captured time that was attributed to nodes of the model: exact where a name or an id says so, "
        "inferred where only a rule does, unattributed where nothing does. A kernel's time is never split over nodes.",
        ("attribution", "exact", "inferred", "unattributed time"),
    ),
    "device": Term("Device", "What the model ran on, as its driver or operating system calls it."),
    "clocks": Term(
        "Clocks",
        "Clock of the device while the latency was measured. A clock below the highest one, or one that moves, makes "
        "every time longer; the reasons are those that the driver gives.",
    ),
    "finding-lost": Term(
        "Time lost by a finding",
        "Time above what the roofline allows that this finding claims, of one inference. No nanosecond is claimed by "
        "two findings. An estimate.",
        ("likely cause", "hypothesis", "finding", "causes"),
    ),
    "confidence": Term(
        "Confidence",
        "Of a rule in its cause, which is a hypothesis: high from 75 %, medium from 45 %, else low.",
        ("sure", "certainty"),
    ),
    "net": Term(
        "Net gain of a custom kernel",
        "Measured time less what kernels of the same class reach on this device, or the fastest tenth of library "
        "kernels where those were measured, less what it costs to cut the layer out of its fusion. An estimate, with "
        "its interval.",
        ("kernel", "custom kernel", "plugin"),
    ),
    "in-reach": Term(
        "In reach",
        "What a hand-written kernel should take: what kernels of its class reach on this device, or what is predicted "
        "of one that was written by the bytes that it keeps under way. An estimate, never the bound.",
        ("reachable",),
    ),
    "barrier": Term(
        "Fusion barrier",
        "What it costs to cut a layer out of what the engine computes in one kernel: tensors that cross memory, "
        "reformats at its borders, launches.",
        ("fusion barrier", "what cutting it out costs"),
    ),
    "pays": Term(
        "Pays",
        "What the present kernels must take for a hand-written one to win anything: what is in reach, and the fusion "
        "barrier. Where nothing was measured, all that can be said.",
    ),
    "tactic": Term(
        "Tactic",
        "A variant of a kernel. TensorRT times all of a layer when it builds an engine, and takes the fastest.",
        ("variant",),
    ),
    "occupancy": Term(
        "Occupancy", "Share of the warps that an SM can hold which its registers and shared memory leave room for."
    ),
    "rounding-floor": Term(
        "Rounding floor",
        "What the roundings of fp32 arithmetic come to in any order, and half a unit in the last place of the output. "
        "Errors of a kernel are told in units of it.",
    ),
    "score": Term(
        "Speed of light",
        "1 / (1 + (Tk - Tsol) / (Tb - Tsol)): Tk what the kernel takes, Tb its rival, Tsol what no correct kernel "
        "beats. 1 is the speed of light, 0.5 as fast as the rival.",
        ("sol", "light"),
    ),
    "counters": Term(
        "Hardware counters",
        "Predictions about a layer held against what the GPU counted while its kernels ran (ncu): bytes that crossed "
        "to DRAM, FLOP, and which unit multiplied.",
    ),
    "ledger": Term(
        "Ledger",
        "Steps from what the device could do at best to what was measured. They add up to the measured latency, to the "
        "nanosecond; what has no name is a step called unexplained.",
        ("from ideal to measured",),
    ),
    "ledger-share": Term("Share", "Of the measured latency."),
    "kind": Term(
        "Kind of a number",
        "measured: a fact. estimate (~): computed from the work and the ceilings. remainder (=): what is left over "
        "when all else is subtracted.",
        ("fact", "remainder", "marks"),
    ),
    "roofline": Term(
        "Roofline",
        "Achieved FLOP/s of each layer over its FLOP per byte. Slanted lines are bandwidths, level lines are peaks; no "
        "layer can be above them. After Williams, Waterman and Patterson, CACM 52(4), 2009.",
    ),
    "intensity": Term(
        "Arithmetic intensity", "FLOP of a layer over the bytes that it must move.", ("flop/byte", "ridge")
    ),
    "lost": Term(
        "Time above bound",
        "Measured time minus bound. Layers are ranked by it, not by their time. Negative where a layer was faster "
        "than the estimate. An estimate.",
        ("excess", "loss", "headroom"),
    ),
    "measured": Term(
        "Measured time of a layer",
        "Median over the profiled inferences of the time of its kernels, less the profiler's own time inside them "
        "where that was measured. A fact.",
    ),
    "share": Term("Share of the time", "Of the measured time of all layers.", ("by op",)),
    "bound": Term(
        "Bound",
        "What takes longest by the estimate: compute (multiply-accumulates), vector (other arithmetic), "
        "special (special functions: exp, tanh ...), memory (bytes to DRAM), cache or, of a GPU, L2 (bytes "
        "through the last-level cache), launch (an empty kernel). A layer whose role is layout only reorders or casts "
        "for the backend.",
        ("by", "limit", "compute", "vector", "special", "cache", "layout", "launch", *_UNITS),
    ),
    "memory": Term(
        "Memory over the inference",
        "Bytes of the tensors that are alive while a layer runs: each from the layer that writes it to the last that "
        "reads it, inputs and outputs of the model included. Weights, scratch memory and what a runtime keeps in store "
        "are not in it; a runtime that writes over what is read for the last time needs less. An estimate. "
        "As the limit of a layer the word means something else, bytes to DRAM: see Bound.",
    ),
    "terms": Term(
        "Times that competed",
        "What each unit alone would take for the layer's work. The longest is the bound and the allowed time.",
    ),
    "work": Term(
        "Work",
        f"FLOP of a layer: {units.FLOP_PER_MAC} for one multiply-accumulate, 1 for any other arithmetic; a special "
        f"function counts as {_SPECIAL}. Computed from shapes.",
        ("flop", "mac"),
    ),
    "bytes": Term(
        "Bytes",
        "Each distinct tensor that crosses the border of the layer, counted once, at the dtype that it has in the "
        "engine, weights included. Computed from shapes.",
    ),
    "dtype": Term("Type", "What is multiplied, or computed with where nothing is multiplied."),
    "match": Term(
        "Match",
        "How surely the layer was attributed to nodes of the model: exact, inferred, or none. The details of a layer "
        "give the evidence.",
    ),
    "fate": Term(
        "Fate of a node",
        "layer: it runs in the layers named. folded: computed before the run. eliminated: not needed. lost: nothing "
        "tells where it went.",
        ("folded", "eliminated"),
    ),
    "timeline": Term(
        "Timeline",
        "One inference as captured, with the profiler's own time in it: the one whose time is the median of those that "
        "count.",
    ),
    "graph": Term(
        "Engine graph",
        "Layers of the engine and the tensors between them; a layer's colour is the time it lost. Nodes of the model "
        "that a layer computes together are its fused group.",
    ),
    "unsupported": Term(
        "Without a cost model",
        "The work of these ops is not known, which is not zero: they have no estimate and no loss.",
        ("without a price", "without a cost model", "unpriced", "ignored"),
    ),
    "unattributed": Term(
        "Kernels without a layer",
        "Captured time that nothing leads back to a layer. It is never spread over others.",
        ("kernels of no layer",),
    ),
    "fusions": Term(
        "Fusions that did not happen",
        "Tensors that one layer leaves in memory for another, and what both would take less as one layer, by the "
        "roofline.",
    ),
    "captured": Term("Time captured", "Of all kernels in all profiled inferences, matched and unmatched."),
    "ceilings": Term(
        "Ceilings",
        "What the units of the device and its memory can do at best: measured by kernels made for it, or from the "
        "datasheet, as said beside them.",
        ("peak", "peaks", "bandwidth"),
    ),
    "empty-kernel": Term(
        "Empty kernel",
        "Time that a kernel which does nothing adds to an inference.",
        ("launch floor", "launch overhead"),
    ),
    "shape-coverage": Term("Shapes known", "Share of node outputs whose shape and dtype are known before the run."),
    "trust": Term(
        "Trust",
        "What else used the CPUs, and each measurement warning with its number. low: a warning is beyond the limit up "
        "to which conclusions are drawn, so no cause is named. fair: there are warnings. good: there are none. A "
        "warning is a finding whose code begins with TR: trtprof rules CODE says what it looks at, and its limits.",
        ("low", "fair", "good", "doubt", "measurement warning", "verdict"),
    ),
    "row": Term(
        "One row: same op and shape",
        "Layers with the same op, shapes, type, work and kernels are one row, since one change would serve them all: "
        "4x Conv 3x3 64>128 28x28 are four of 3x3, from 64 channels to 128, on 28x28. +1 counts further nodes of the "
        "model that run in the same layer; a ~ before the name says that a rule led to it, no name.",
        ("where it goes", "4x", "+1"),
    ),
    "module": Term(
        "Module",
        "The scopes before the last slash in the names of nodes, as exporters write them: /layer1/attention of "
        "/layer1/attention/MatMul. A layer of several nodes stands at the one with most work.",
        ("scope", "--by module"),
    ),
    "unexplained": Term(
        "Unexplained",
        "What no other step of the ledger holds: gaps between kernels, and what changed between the measurement "
        "without the profiler and that with it. Below 0 where the steps hold more than was measured.",
        ("gaps",),
    ),
    "medians": Term(
        "Medians not adding up",
        "All kernels of an inference, in the median, less the sum of the medians of layers: other layers are slow in "
        "each inference.",
        ("medians not adding up", "medians of layers"),
    ),
    "prefixes": Term("Prefixes", "SI: 1 TB/s = 1e12 B/s, 1 MB = 1e6 B. us is a microsecond."),
}
"""By the name that templates and scripts call them."""


def is_term(word: str) -> bool:
    """Whether a word has a definition."""
    return _asked(word) in _known()


def term_of(word: str) -> Term:
    """The definition of a word, by its name, its title or another word for it."""
    known, asked = _known(), _asked(word)
    if asked not in known:
        near = difflib.get_close_matches(asked, known, n=3, cutoff=0.5)
        raise UsageError(
            f"there is no term {word!r}",
            why=f"near ones: {', '.join(near)}" if near else "it is none of the words of a report",
            fix=f"trtprof help {near[0]}" if near else "trtprof help lists them",
        )
    return known[asked]


def _known() -> dict[str, Term]:
    return {name: term for key, term in TERMS.items() for name in (key, term.title.lower(), *term.also)}


def _asked(word: str) -> str:
    return word.lower().strip(" ~?:=!")
