"""Shapes that plugins are asked about."""

from __future__ import annotations

from collections.abc import Iterator

from trtprof.plugin.task import Task

Shapes = tuple[tuple[int, ...], ...]


def cases(task: Task) -> Iterator[Shapes]:
    """Shapes of the inputs that tell dimensions from one another: all different, all 1, and each 0 once."""
    names = list(dict.fromkeys(one for operand in task.inputs for one in operand.dims if isinstance(one, str)))
    different = {name: 3 + 4 * place for place, name in enumerate(names)}
    yield task.shapes(different)
    if names:
        yield task.shapes({}, default=1)
    for name in names:
        yield task.shapes({**different, name: 0})
