"""What the name of a kernel or a tactic says: who wrote it, what it computes, for which architecture, on which unit.

A name is read with a grammar, not searched for marks: ``xmma`` is no mark of tensor cores (``sm50_xmma_..._ffma`` runs
on the scalar pipes), ``batch`` contains ``tc``, and ``sm80`` in the name of a kernel is the least architecture, not the
one it runs on. What a name does not say is None or ``unknown``. A profiler may cut a name anywhere: a cut makes fields
unknown, but never turns one into another.
"""

from __future__ import annotations

from functools import lru_cache

from trtprof.kernel_names import (
    attention,
    blas,
    generated,
    identifiers,
    libraries,
    mangled,
    pytorch,
    runtimes,
    symbols,
    xmma,
)  # fmt: skip
from trtprof.kernel_names.record import UNKNOWN, Fields, KernelName, Unit
from trtprof.kernel_names.words import Words

__all__ = ["UNKNOWN", "KernelName", "Unit", "parse"]

MAX_LENGTH = 16_384  # Characters of a name that are read; what stands behind them is as if a profiler had cut it

_WORD_GRAMMARS = (
    xmma.parse, blas.parse_nvjet, blas.parse_cutlass, blas.parse_trtllm, blas.parse_deepgemm, generated.parse_myelin,
    attention.parse_words, blas.parse_convolve, blas.parse_assembled, generated.parse_triton, generated.parse_cute,
    generated.parse_nccl,
)  # fmt: skip
_TERM_GRAMMARS = (
    attention.parse_term, libraries.wrapped, libraries.deepgemm, libraries.cutlass, runtimes.tensorrt,
    runtimes.onnxruntime, libraries.cublas, libraries.cudnn, pytorch.pytorch, runtimes.cub,
)  # fmt: skip
_WHOLE = libraries.BARE | pytorch.BARE | runtimes.BARE
"""Short names that are whole as they stand: no other name begins with one of them and says something else."""


@lru_cache(maxsize=65_536)
def parse(name: str) -> KernelName:
    """What ``name`` says: of a kernel (mangled, demangled or short) or a tactic, whole or cut. It never raises."""
    text = name.strip()[:MAX_LENGTH]
    if not text:
        return KernelName(name)
    return KernelName(name, **_fields(text))


def _fields(text: str) -> Fields:
    is_mangled = text.startswith("_Z")
    term, complete = mangled.read(text) if is_mangled else symbols.read(text)
    if len(term.parts) == 1 and term.last.args is None:
        # A name of words; parentheses behind it show that it is whole.
        closed = complete and term.last.params is not None
        words = Words(term.last.name, closed=closed)
        for grammar in _WORD_GRAMMARS:
            fields = grammar(words)
            if fields is not None:
                return fields
        complete |= term.last.name in _WHOLE or identifiers.subwords(term.last.name)[-1:] == ["kernel"]
    if not term.parts:
        return {}
    for read in _TERM_GRAMMARS:
        fields = read(term, complete=complete)
        if fields is not None:
            return fields
    return identifiers.parse(term, complete=complete)
