"""How often the layers of a plan run: TensorRT-RTX keeps the loop of a recurrent op as a jump back."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trtprof.base.records import PlanLayer

JUMP = "cjmp"
"""Kind of the layer that ends the body of a loop and jumps back while a counter is below its limit."""

_TARGET = "JumpTargetThen"
_NUMBER = re.compile(r"^__d\^(M?)(\d+)i\d+(?:_myl\d+)?$")
"""What Myelin calls a tensor that holds one integer: ``__d^8i32``, of a negative one ``__d^M8i32``."""


def runs(layers: Sequence[PlanLayer]) -> list[int | None]:
    """How often each layer runs in one inference; None in a loop whose length the plan does not tell."""
    found: list[int | None] = [1] * len(layers)
    if not any(layer.kind == JUMP for layer in layers):
        return found
    places: dict[str, int] = {}
    steps: dict[str, int] = {}
    for place, layer in enumerate(layers):
        places.setdefault(layer.name, place)
        if layer.kind == "add" and len(layer.inputs) == 2 and len(layer.outputs) == 1:
            counter, step = layer.inputs[0].name, _number(layer.inputs[1].name)
            if step is not None and layer.outputs[0].name == counter:
                steps[counter] = step
        elif layer.kind == JUMP:
            start = places.get(str(layer.attributes.get(_TARGET, "")))
            times = _times(layer, steps)
            for inside in range(place if start is None else start, place + 1):
                before = found[inside]
                found[inside] = None if times is None or before is None else before * times
    return found


def _times(jump: PlanLayer, steps: dict[str, int]) -> int | None:
    """The limit over the step, for a counter that starts at 0."""
    if len(jump.inputs) != 2:
        return None
    limit, step = _number(jump.inputs[1].name), steps.get(jump.inputs[0].name)
    if limit is None or step is None or step <= 0 or limit <= 0:
        return None
    return -(-limit // step)


def _number(name: str) -> int | None:
    found = _NUMBER.match(name)
    return None if found is None else int(found[2]) * (-1 if found[1] else 1)
