"""Models that a runtime refuses, dies of, or cannot hold, run for real: an end with words. A case takes seconds."""

from __future__ import annotations

from pathlib import Path
from random import Random

import onnx

from tests.fakes.hostile.mutate import mutated_bytes
from tests.fakes.hostile.running import Case

_SAMPLES = Path(__file__).parents[3] / "sample_models"
_NAMES = ("gemv", "lstm", "mobilenet_tiny", "qdq_cnn", "resnet_tiny", "transformer_block")
_SHORT = ("--backend", "ort-cpu", "--iterations", "3", "--duration", "0", "--warmup", "0")

WARM = (("inspect", _SAMPLES / "resnet_tiny.onnx"),)


def case(random: Random, folder: Path, data: Path | None) -> Case:
    """A model of those that ship, with bytes or parts of its graph changed."""
    place = folder / "model.onnx"
    content = (_SAMPLES / f"{random.choice(_NAMES)}.onnx").read_bytes()
    if random.random() < 0.4:
        done = "bytes"
        place.write_bytes(mutated_bytes(random, content))
    else:
        model = onnx.load_from_string(content)
        done = ", ".join(_change(random, model.graph) for _ in range(random.choice((1, 1, 2, 3))))
        place.write_bytes(model.SerializeToString())
    words = ["run", "model.onnx", *_SHORT, "-o", "out"]
    zone = random.choice(("UTC", "Asia/Kathmandu", "nowhere/none", ":/dev/null"))
    return Case(f"{done}, {zone}", words, env={"TZ": zone})


def _change(random: Random, graph: onnx.GraphProto) -> str:
    """One thing in a graph that no exporter writes."""
    node = random.choice(graph.node)
    kind = random.randrange(7)
    if kind == 0:
        node.op_type = random.choice(("Add", "MatMul", "Reshape", "Loop", "NoSuchOp", "Sqrt", "Gather", "Softmax"))
    elif kind == 1 and node.input:
        node.input[random.randrange(len(node.input))] = random.choice([other.output[0] for other in graph.node])
    elif kind == 2 and node.attribute:
        attribute = random.choice(node.attribute)
        attribute.i = random.choice((-1, 0, 2**31, 2**62))
        for at in range(len(attribute.ints)):
            attribute.ints[at] = random.choice((-1, 0, 1, 2**31, 2**62))
    elif kind == 3 and graph.input[0].type.tensor_type.shape.dim:
        dim = random.choice(graph.input[0].type.tensor_type.shape.dim)
        dim.dim_value = random.choice((0, 1, 3, 2**20, 2**40, 2**62))
    elif kind == 4 and graph.initializer:
        weight = random.choice(graph.initializer)
        weight.raw_data = random.choice((b"", b"\xff" * len(weight.raw_data), weight.raw_data[:-1]))
    elif kind == 5 and graph.initializer:
        weight = random.choice(graph.initializer)
        weight.data_type = random.choice((1, 6, 7, 8, 9, 10, 11, 16, 99))
    else:
        graph.node.remove(node)
    return f"{kind} {node.op_type}"
