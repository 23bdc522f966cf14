"""Faults that are planted into CUDA C++ one at a time: what people get wrong in kernels.

Each kind finds its places in a text and gives, for every one, the text with the fault. Which places a compiled kernel
cannot tell from the original is for those who plant to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from trtprof.plugin import reference, trials
from trtprof.plugin.kernel import Kernel
from trtprof.plugin.numerics import Outcome, compiled, tried
from trtprof.plugin.ptx.fault import Fault
from trtprof.plugin.ptx.parse import Program
from trtprof.plugin.reference import Array, Expected
from trtprof.plugin.task import Task
from trtprof.plugin.trials import Trial
from trtprof.runtime.nvrtc import CudaError


class Planted(NamedTuple):
    """A text with one fault.

    Attributes:
        kind: A key of `KINDS`.
        line: Of the text, from 1.
        before: The line as it was.
        after: The line as it is.
        text: All of it.
    """

    kind: str
    line: int
    before: str
    after: str
    text: str


def _replaced(pattern: str, replacement: str | Callable[[re.Match[str]], str]) -> Callable[[str], Iterator[str]]:
    """One place of a line at a time; comments and preprocessor lines stay."""

    def plant(line: str) -> Iterator[str]:
        code, slashes, comment = line.partition("//")
        for match in re.finditer(pattern, code):
            put = match.expand(replacement) if isinstance(replacement, str) else replacement(match)
            if put != match.group():
                yield code[: match.start()] + put + code[match.end() :] + slashes + comment

    return plant


def _swapped_parameters(line: str) -> Iterator[str]:
    """Two neighbouring pointers of the same type in a list of parameters."""
    found = list(re.finditer(r"((?:const )?\w[\w ]*\*\s*__restrict__ )(\w+)", line))
    for left, right in pairwise(found):
        if left.group(1) == right.group(1):
            yield (
                line[: left.start(2)] + right.group(2) + line[left.end(2) : right.start(2)]
                + left.group(2) + line[right.end(2) :]
            )  # fmt: skip


def _dropped_term(line: str) -> Iterator[str]:
    """One operand of a sum or a product in an assignment, dropped."""
    match = re.match(r"(\s*(?:const )?(?:float|auto) \w+ = )([^;]+);(.*)$", line)
    if match is None:
        return
    for operator in (" * ", " + ", " - "):
        left, found, right = match.group(2).partition(operator)
        if found and left.count("(") == left.count(")") and right.count("(") == right.count(")"):
            yield f"{match.group(1)}{left};{match.group(3)}"


KINDS: Mapping[str, Callable[[str], Iterator[str]]] = {
    "barrier left out": _replaced(r"__syncthreads\(\);|__syncwarp\(\);", ";"),
    "guard off by one": _replaced(r"(?<![<\w-])(\w+(?:\.\w+)?(?: \+ \w+)?) < (\w+)(?=[;)\s&|?])", r"\1 <= \2"),
    "guard one short": _replaced(r"(?<![<\w-])(\w+(?:\.\w+)?(?: \+ \w+)?) < (\w+)(?=[;)\s&|?])", r"\1 + 1 < \2"),
    "guard left out": _replaced(r"\bif \((?!constexpr)[^()]*(?:\([^()]*\)[^()]*)*\)(?= [^{]*;|\s*\{| \w)", "if (true)"),
    "alignment taken for granted": _replaced(r"\baligned<[^>]+>\(\w+(?:\.\w+)?\)", "true"),
    "stride off": _replaced(r"(\+= |\* )(THREADS|STEP|GROUPS|SPLIT|ACROSS|K|columns|width|WIDE)\b", r"\1(\2 + 1)"),
    "wrong index": _replaced(r"(threadIdx|blockIdx)\.x\b", r"(\1.x + 1)"),
    "initial value": _replaced(r"= 0\.0f;", "= 1.0f;"),
    "sum lost": _replaced(r" \+= (?=[^;]*;)", " = "),
    "maximum left out": _replaced(r"([\w\[\]]+) - (?:max|top|most|peak|largest)\w*", r"\1"),
    "shuffle one short": _replaced(
        r"= LANES / 2;|= 16;", lambda found: found.group().replace("LANES / 2", "LANES / 4").replace("16", "8")
    ),
    "wrong lane": _replaced(r"% 32 == 0", "% 32 == 1"),
    "sign": _replaced(r"(?<=\w) - (?=\w)", " + "),
    "factor for term": _replaced(r"(?<=\w) \* (?=\w+(?:\[\w+\])?;)", " + "),
    "accumulated in fp16": _replaced(
        r"((?:sum|total|all)\w*(?:\[\w+\])*) (?:\+= ([^;]+)|= (Add::of\([^;]+\)));",
        lambda found: f"{found.group(1)} = half_of({found.group(3) or f'{found.group(1)} + ({found.group(2)})'});",
    ),
    "term of a reduction left out": _replaced(r"= (?:Add|Max|Min)::of\((\w+), (\w+)\);", r"= \2;"),
    "number off by one": _replaced(
        r"(?<=[*/%] )(\d{2,})(\.0f)?\b", lambda f: f"{int(f.group(1)) - 1}{f.group(2) or ''}"
    ),
    "arguments swapped": _swapped_parameters,
    "term dropped": _dropped_term,
    "quotient rounded down": _replaced(r"\((\w+) \+ (\w+) - 1\) / \2", r"\1 / \2"),
    "epsilon left out": _replaced(r" \+ 1e-\d+f|\+ [\d.]+e-\d+f|\+ epsilon", ""),
    "one element left out": _replaced(r"\bint i = 0;", "int i = 1;"),
}
"""What is planted, in the words of those who look for it."""

_HALF = """
__device__ __forceinline__ float half_of(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
"""


def planted(source: str) -> Iterator[Planted]:
    """All faults of all kinds in a text, by line."""
    lines = source.split("\n")
    for kind, plant in KINDS.items():
        for number, line in enumerate(lines):
            if line.lstrip().startswith(("//", "#")):
                continue
            for after in plant(line):
                text = "\n".join([*lines[:number], after, *lines[number + 1 :]])
                if "half_of(" in text:
                    text = _HALF + text
                yield Planted(kind, number + 1, line.strip(), after.strip(), text)


class Stand:
    """Trials of one task, which many kernels take: what is expected of them is evaluated once.

    Attributes:
        task: What is computed.
        trials: What it is tried on, with the inputs and what is expected.
    """

    def __init__(self, task: Task, wanted: Sequence[Trial], seed: int = 0) -> None:
        self.task = task
        self.trials: list[tuple[Trial, list[Array], tuple[Expected, ...]]] = []
        for number, trial in enumerate(wanted):
            inputs = trials.drawn(trial, seed + number)
            self.trials.append((trial, inputs, reference.evaluate(task, inputs)))

    def outcome(self, kernel: Kernel, ptx: str) -> tuple[Outcome, int]:
        """The first trial that fails, or else the worst of all; and how many were executed."""
        worst = Outcome(True, 0.0, 0)
        program = Program.parse(ptx)
        for number, (trial, inputs, expected) in enumerate(self.trials, 1):
            found = tried(kernel, program, trial, inputs, expected)
            if not found.ok:
                return found._replace(reason=f"{trial.what}: {found.reason}"), number
            if (found.worst or 0.0) >= (worst.worst or 0.0):
                worst = found
        return worst, len(self.trials)

    def caught(self, kernel: Kernel, fault: Planted, original: str, architecture: str) -> str | None:
        """Why a kernel with a fault is refused; empty if it passes, None if it is no other kernel.

        What does not compile is none, and what compiles to the same instructions.
        """
        try:
            ptx = compiled(fault.text, architecture)
        except CudaError:
            return None
        if code(ptx) == code(original):
            return None
        try:
            found, _ = self.outcome(kernel, ptx)
        except Fault as error:
            return str(error)
        return "" if found.ok else found.reason


def code(ptx: str) -> str:
    """PTX without what names files, lines and versions."""
    return re.sub(r"(?m)//.*$|^\s*\.(?:loc|file|version|target).*$|\s+", " ", ptx)


def telling(task: Task) -> list[Trial]:
    """Trials of a task with its own dimensions, the most telling first."""
    names = trials.names(task)

    def at(size: int, values: str = "normal", shift: int = 0, order: int = 0) -> Trial:
        return Trial(task, task.shapes(dict.fromkeys(names, size)), values, shift, order)

    first = [at(7), at(33, "normal", 1, 1), at(7, "one-hot", 1), at(5, "cancelling"), at(8, "wide exponents", 0, 2),
             at(3, "large"), at(2, "equal", 2), at(3, "infinite and NaN"), at(3, "denormal")]  # fmt: skip
    # Vectors are moved as such only where sizes are multiples of theirs: then alignment is what counts.
    alone = [at(16)._replace(shift=1, only=place) for place in range(len(task.inputs) + len(task.outputs))]
    lengths = ((300, "normal"), (1030, "wide exponents"))
    long = [Trial(task, task.shapes({one: size}, 2), values) for one in names for size, values in lengths]
    found = [*first, *alone, *(at(size) for size in (0, 1, 64, 65, 130) if names), *long]
    return [one for one in found if trials.elements(task, one.shapes) < 5 * trials.SMALL]
