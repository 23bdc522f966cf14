"""Which kernels that were timed on a GPU correct what is expected there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from profiler.base.errors import UsageError
from profiler.base.records import GpuSpec
from profiler.expected import NONE, Measured, read_measured


def timed_on(asked: str | None, specs: Sequence[GpuSpec]) -> dict[str, Measured]:
    """By slug, the rows of GPUs.

    Args:
        asked: As ``--measured`` says: a file, or `NONE`; None where nobody said.
        specs: The GPUs that are asked for.

    Raises:
        MissingError: The file cannot be read.
        UsageError: It is no table of measured rows, or there are several GPUs that it may be of.
    """
    if asked is None or asked == NONE:
        return {}
    if len(specs) != 1:
        raise UsageError(
            f"--measured {asked} is of which GPU?",
            why=f"{len(specs)} are asked for, and what was timed on one says nothing of another",
            fix="ask for the one that it was timed on: --gpu NAME",
        )
    return {specs[0].slug: read_measured(Path(asked))}
