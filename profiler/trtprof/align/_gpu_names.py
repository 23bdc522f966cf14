"""Names that lead to layers of a plan: those of NVTX ranges, and those of kernels that are tactics."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from trtprof.base.records import MatchedLayer

_PROFILE = re.compile(r" \[profile (\d+)\]")
_MYELIN = re.compile(r"_myl\d+_\d+$")
_CONTROL = re.compile(r"[\x00-\x20\x7f]+")
_DOMAIN = re.compile(r"(tensorrt)|(myelin)", re.IGNORECASE)
_RUN = re.compile(r"(?:nvinfer1::)?I?ExecutionContext::\w+")
_COUNTERS = re.compile(r", (?:op_id|seq) = \d+")
_WHOLE_GRAPH = re.compile(r"myelinGraph(?:Execute|Load|Unload)\w*")

OTHER, TENSORRT, MYELIN = 0, 1, 2  # Whose NVTX domain it is

# What follows a TacticName in the name of a kernel, as seen in real captures: `_execute_kernel_trt`,
# `_execute_split_k_kernel__5x_cublas`, `_kernel_0_kernel_trt`, `_fused`.
_SUFFIX = re.compile(
    r"(?:_execute(?:_[a-z][a-z_]*?)?_kernel|_kernel_\d+_kernel|_kernel)?(?:__5x_cublas|_cublas|_cudnn|_trt)?(?:_fused)?"
)
_SUFFIX_START = re.compile(r"_(?=execute|kernel|fused|cudnn|trt|_5x)")
# Blackwell puts the tile behind the hash of Myelin's kernels: `__myl_Fc_0x33c3..._tensorop256x256_cga2x2`.
_HASHED = re.compile(r"(.*_0x[0-9a-f]{8,})_\w+", re.DOTALL)
_FUNCTION = re.compile(r"(?:void )?([^<(]+)")


def domain_kind(domain: str) -> int:
    """`TENSORRT`, `MYELIN`, or `OTHER`: by how the name of an NVTX domain begins."""
    found = _DOMAIN.match(domain)
    return OTHER if found is None else TENSORRT if found[1] else MYELIN


def is_run(name: str) -> bool:
    """Whether a range of TensorRT's domain holds one inference: ``ExecutionContext::enqueue``."""
    return _RUN.fullmatch(name) is not None


def is_whole_graph(name: str) -> bool:
    """Whether a range of Myelin's domain holds a whole Myelin graph."""
    return _WHOLE_GRAPH.fullmatch(name) is not None


def without_counters(name: str) -> str:
    """The name of a range without what PyTorch counts up in it: ``aten::mm, op_id = 314307`` -> ``aten::mm``."""
    return _COUNTERS.sub("", name)


def short_name(name: str) -> str:
    """The name of a layer as Myelin's own ranges have it: without ``_myl0_15`` and ``[profile 1]``."""
    return _MYELIN.sub("", _PROFILE.sub("", name))


class LayerNames:
    """Layers by the names that an NVTX range may have for them."""

    def __init__(self, layers: Sequence[MatchedLayer]) -> None:
        """Index the names, each layer by its place in ``layers``."""
        self.profiles = [layer.layer.profile for layer in layers]
        self._full: defaultdict[str, list[int]] = defaultdict(list)
        self._bare: defaultdict[str, list[int]] = defaultdict(list)
        self._short: defaultdict[str, list[int]] = defaultdict(list)
        self._clean: defaultdict[str, list[int]] = defaultdict(list)
        for index, layer in enumerate(layers):
            name = layer.layer.name
            bare = _PROFILE.sub("", name)
            self._full[name].append(index)
            self._bare[bare].append(index)
            if (short := _MYELIN.sub("", bare)) != bare:
                self._short[short].append(index)
            self._clean[_CONTROL.sub("", bare)].append(index)

    def find(self, name: str, domain: int, profile: int) -> tuple[int, ...]:
        """Layers that a range of this name may stand for, in plan order: Myelin drops the end ``_myl0_15`` of names."""
        bare = _PROFILE.sub("", name)
        mark = _PROFILE.search(name)
        lookups = [(self._full, name), (self._bare, bare), (self._clean, _CONTROL.sub("", bare))]
        lookups.insert(0 if domain == MYELIN else len(lookups), (self._short, bare))
        for index, sought in lookups:
            hits = index.get(sought)
            if hits:
                return self._of_profile(hits, int(mark[1]) if mark else profile)
        return ()

    def _of_profile(self, hits: Sequence[int], profile: int) -> tuple[int, ...]:
        return tuple(hit for hit in hits if self.profiles[hit] == profile) or tuple(hits)


class Tactics:
    """Layers by TacticName."""

    def __init__(self, layers: Sequence[MatchedLayer]) -> None:
        """Index the tactics, each layer by its place in ``layers``."""
        self._profiles = [layer.layer.profile for layer in layers]
        self._layers: defaultdict[str, list[int]] = defaultdict(list)
        for index, layer in enumerate(layers):
            if layer.layer.tactic:
                self._layers[layer.layer.tactic].append(index)
        self._layers.default_factory = None

    def __bool__(self) -> bool:
        return bool(self._layers)

    def find(self, name: str, short_name: str, profile: int | None = None) -> tuple[int, ...]:
        """Layers whose tactic a kernel of this name is, in plan order; those of a profile (None: all) if any."""
        found = _FUNCTION.match(name)
        for known in (name, short_name, *((found[1].strip(),) if found else ())):
            hits = self._layers.get(known) or self._stripped(known)
            if hits:
                return tuple(hit for hit in hits if self._profiles[hit] == profile) or tuple(hits)
        return ()

    def _stripped(self, name: str) -> list[int]:
        for found in reversed(list(_SUFFIX_START.finditer(name))):
            hits = self._layers.get(name[: found.start()])
            if hits and _SUFFIX.fullmatch(name, found.start()):
                return hits
        hashed = _HASHED.fullmatch(name)
        return self._layers.get(hashed[1], []) if hashed else []


def running_profile(
    layers: Sequence[MatchedLayer], ranges: Iterable[str], kernels: Iterable[tuple[str, str]]
) -> tuple[int, str]:
    """Index of the optimisation profile that ran, and the evidence in words: empty where the plan has one profile."""
    known = sorted({layer.layer.profile for layer in layers})
    if len(known) < 2:
        return known[0] if known else 0, ""
    full = {layer.layer.name: layer.layer.profile for layer in layers}
    marked = Counter(int(mark[1]) for name in ranges if (mark := _PROFILE.search(name)) and name in full)
    if marked:
        return min(marked, key=lambda profile: (-marked[profile], profile)), "names of NVTX ranges carry its mark"
    tactics = Tactics(layers)
    votes: Counter[int] = Counter()
    for name, short_name in kernels:
        votes.update({layers[hit].layer.profile for hit in tactics.find(name, short_name)})
    best = min(known, key=lambda profile: (-votes[profile], profile))
    if votes and all(votes[best] > votes[profile] for profile in known if profile != best):
        return best, "its tactics fit the names of the kernels best"
    return best, "nothing tells which profile ran"
