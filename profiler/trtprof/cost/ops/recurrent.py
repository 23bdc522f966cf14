"""RNN, GRU and LSTM over a whole sequence."""

from __future__ import annotations

import math

from trtprof.base.op_kinds import op_kind
from trtprof.base.records import Op
from trtprof.cost import Cost, cost
from trtprof.cost._recipes import ACTIVATIONS, NOTHING, Recipe, dynamic_quantize, softmax
from trtprof.cost._shapes import MS, given, integer, need, number, shape, work

_DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}


def _activations(op: Op, kind: str) -> tuple[list[list[Recipe]], str]:
    """Recipes f, g, h of each direction, and a note naming those that are not known."""
    defaults = _DEFAULTS[kind]
    directions = 2 if op.attributes.get("direction") == "bidirectional" else 1
    names = op.attributes.get("activations")
    listed = [str(name) for name in names] if isinstance(names, tuple) and names else list(defaults) * directions
    unknown = [name for name in listed if name.lower() not in ACTIVATIONS]
    # A clip bounds the input of every activation from both sides.
    clip = Recipe(2) if number(op, "clip", 0.0) > 0 else NOTHING
    recipes = [ACTIVATIONS.get(name.lower(), NOTHING).plus(clip) for name in listed]
    step = len(defaults)
    note = f"activations {', '.join(unknown)} not counted" if unknown else ""
    return [recipes[start : start + step] for start in range(0, len(recipes), step)], note


def _per_unit(op: Op, kind: str) -> tuple[Recipe, str]:
    """Arithmetic of one hidden unit in one step, besides MACs and biases, summed over directions."""
    directions, note = _activations(op, kind)
    total = NOTHING
    for recipes in directions:
        if kind == "RNN":
            total = total.plus(recipes[0])
        elif kind == "GRU":
            # Gates z and r with f, h with g; r * H, and (1 - z) * h + z * H.
            total = total.plus(recipes[0].times(2)).plus(recipes[1]).plus(Recipe(1 + 4))
        else:
            # Gates i, o and f with f, c with g; C = f * C + i * c, H = o * h(C). A coupled forget
            # gate is 1 - i. Peepholes are a multiply and an add for each of i, o and f.
            coupled = bool(integer(op, "input_forget", 0))
            gates = recipes[0].times(2 if coupled else 3).plus(Recipe(int(coupled)))
            peepholes = Recipe(6) if given(op, 7) is not None else NOTHING
            total = total.plus(gates).plus(recipes[1]).plus(recipes[2]).plus(Recipe(3 + 1)).plus(peepholes)
    return total, note


def count_steps(op: Op) -> int:
    """How many steps of a recurrence wait for the one before; 1 of any other op, and where it is not known."""
    if op_kind(op.op_type) != "recurrent" or op.inputs[0] is None or not op.inputs[0].elements:
        return 1
    return shape(op.inputs[0])[1 if integer(op, "layout", 0) else 0]


@cost("RNN", "GRU", "LSTM")
@cost("DynamicQuantizeLSTM", domain=MS)
def recurrent(op: Op) -> Cost:
    """2 * directions * steps * batch * gates * H * (inputs + H) for the gates; the rest per hidden unit and step.

    With B there are two adds per gate, Wb and Rb. Weights are read once for all steps. Inputs
    X [steps, batch, inputs] (batch first with ``layout`` 1), W [directions, gates * H, inputs],
    R [directions, gates * H, H], B, sequence_lens, ...; a dynamically quantised LSTM has the last
    two dimensions of W and R exchanged, and quantises every row of X and H by its own range.
    """
    quantized = op.op_type == "DynamicQuantizeLSTM"
    kind = "LSTM" if quantized else op.op_type
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    x = shape(need(op, 0))
    steps, batch = (x[1], x[0]) if integer(op, "layout", 0) else (x[0], x[1])
    recurrence = shape(need(op, 2))
    directions, hidden = recurrence[0], recurrence[1] if quantized else recurrence[2]
    cells = steps * batch
    unit, note = _per_unit(op, kind)
    each = unit.times(cells * hidden)
    gate_values = directions * cells * gates * hidden
    vector = 2 * gate_values if given(op, 3) is not None else 0
    if quantized:
        # Each accumulator is converted and scaled: two products of a gate, X * W and H * R.
        rows = dynamic_quantize(x[2]).vector + directions * dynamic_quantize(hidden).vector
        vector += cells * rows + 2 * 2 * gate_values
    shorter = given(op, 4) is not None
    notes = [note, "sequences may be shorter than the longest" if shorter else "", "weights read once for all steps"]
    return work(
        op,
        each,
        tensor=2 * gate_values * (x[2] + hidden),
        vector=vector,
        bound="upper" if shorter else "lower" if note else "exact",
        note="; ".join(part for part in notes if part),
    )


@cost("AttnLSTM", domain=MS)
def attention_lstm(op: Op) -> Cost:
    """An LSTM that reads its input with what it attended to a step before, and attends to a memory (Bahdanau).

    Besides the LSTM, of which W holds the columns for both: keys from the memory once; a step, the
    query from the hidden state, v * tanh(key + query) summed over the attention's depth for every
    place of the memory, a softmax, the weighted memory, and the attention layer where there is one.
    Inputs X [steps, batch, inputs], W, R, B, sequence_lens, initial_h, initial_c, P, QW [directions,
    H, depth], MW [directions, memory depth, depth], V, M [batch, places, memory depth],
    memory_seq_lens, AW [directions, memory depth + H, attended].
    """
    steps, batch = shape(need(op, 0))[:2]
    directions, gates, hidden = shape(need(op, 2))
    places, memory = shape(need(op, 11))[1:]
    depth = shape(need(op, 8))[2]
    cells = steps * batch
    unit, note = _per_unit(op, "LSTM")
    gate_values = directions * cells * gates
    lstm = gate_values * (shape(need(op, 1))[2] + hidden)
    layer = given(op, 13)
    a_step = hidden * depth + places * depth + places * memory
    a_step += math.prod(shape(layer)[1:]) if layer is not None else 0
    keys = directions * batch * places * memory * depth
    aligned = softmax(1, places).plus(Recipe(1, {"tanh": 1}).times(places * depth))
    other = unit.times(cells * hidden).plus(aligned.times(directions * cells))
    shorter = any(given(op, index) is not None for index in (4, 12))
    notes = [note, "sequences may be shorter than the longest" if shorter else "", "weights read once for all steps"]
    return work(
        op,
        other,
        tensor=2 * (lstm + keys + directions * cells * a_step),
        vector=2 * gate_values if given(op, 3) is not None else 0,
        bound="upper" if shorter else "lower" if note else "exact",
        note="; ".join(part for part in notes if part),
    )
