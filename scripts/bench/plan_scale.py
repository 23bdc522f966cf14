"""How fast a large plan is read, led back to its nodes, and predicted.

    python scripts/bench/plan_scale.py [--layers 10000] [--repeats 5] [--gpu rtx-4090]

Needs TensorRT-RTX (``pip install 'trtprof[rtx]'``), no GPU. A real plan of a transformer encoder of 12 layers is
built; what it says of one encoder layer in the middle is repeated, under names of its own, until the plan has
``--layers`` layers, and the ONNX model of as many encoder layers is generated beside it. A build of that size
would take an hour: the time of TensorRT-RTX grows faster than the model (300 encoder layers took 220 s).

Timed, each the best of ``--repeats`` in one process, without Python's search for cycles, as the commands run: the
layer information read as text of one line a layer, and as the JSON of the inspector
(``engine.inspector.read_layer_info``), the alignment with the nodes of the model and the work of each layer
(``engine_plan.price_plan``), and the prediction on one GPU (``plan_prediction.predict_plan``). Loading the ONNX model
is shown beside, and is not in the target. Exit code 1 where reading (either way), aligning and predicting take more
than 2 s together, or a node is lost.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import onnx

from trtprof.analysis.plan import price_plan
from trtprof.base.errors import TrtprofError
from trtprof.engine import tensorrt
from trtprof.engine._plan_text import parse_layer_line
from trtprof.engine.inspector import read_layer_info
from trtprof.flows.predict.groups import Settings
from trtprof.flows.predict.layers import predict_plan
from trtprof.hardware import gpus
from trtprof.source.load import load_model, source_of

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "sample_models"))
import generate

TARGET_SECONDS = 2.0
BUILT = 12
"""Encoder layers of the plan that is really built; that in the middle is repeated."""
MIDDLE = BUILT // 2
_SHAPES: dict[str, tuple[int, ...]] = {"input_ids": (1, 128), "attention_mask": (1, 128)}
_TENSOR = re.compile(r"(?<=\{ Name: )(.*?)(?=, Dimensions)")
_OUTPUTS = re.compile(r"Outputs: \[(.*?)\], TacticName")
_LAYER = re.compile(r"/layer(\d+)/")

Result = TypeVar("Result")


def encoder(layers: int) -> onnx.ModelProto:
    return generate.transformer(layers=layers, width=32, heads=2)


def real_plan(folder: Path) -> str:
    """The text of a plan as TensorRT-RTX prints it."""
    model = folder / "model.onnx"
    onnx.save(encoder(BUILT), str(model))
    options = tensorrt.BuildOptions(backend="tensorrt-rtx", shapes=_SHAPES)
    return tensorrt.build(model, options, cache_dir=folder / "cache").plan_text


def repeated(plan: str, layers: int) -> tuple[list[str], int]:
    """Lines of a plan of about ``layers`` layers, and how many encoder layers that is.

    What stands at one place in every encoder layer plays one part: a tensor that one of them makes and the next
    one reads is found by where the next one reads it.
    """
    lines = [line for line in plan.split("\n") if line.startswith("Name: ")]
    begins = [next(i for i, line in enumerate(lines) if f"/layer{at}/" in line) for at in range(BUILT)]
    size = begins[MIDDLE + 1] - begins[MIDDLE]
    block = lines[begins[MIDDLE] : begins[MIDDLE + 1]]
    after = lines[begins[MIDDLE + 1] : begins[MIDDLE + 1] + size]
    end = lines[begins[BUILT - 1] + size :]
    count = max((layers - begins[MIDDLE] - len(end)) // size, 1)
    made = {name for line in block for found in _OUTPUTS.findall(line) for name in _TENSOR.findall(found)}
    parts = dict(zip(_names(block), _names(after), strict=True))
    # Behind the last encoder layer the same tensors are read as at the beginning of one.
    parts_of_end = dict(zip(_names(end), _names(after), strict=False))

    def renamed(line: str, at: int, parts: dict[str, str], shift: int) -> str:
        def tensor(found: re.Match[str]) -> str:
            name = found[0]
            if name in made:
                return f"{name}~{at}"
            if parts.get(name) in made:
                return f"{parts[name]}~{at - 1}" if at else name
            return name if parts.get(name, name) == name else f"{name}~{at}"

        line = _TENSOR.sub(tensor, line)
        line = _LAYER.sub(lambda found: f"/layer{int(found[1]) + shift}/", line)
        return line.replace("_myl0_", f"_myl0_{at}_", 1)

    result = lines[: begins[MIDDLE]]
    for at in range(count):
        result += [renamed(line, at, parts, at) for line in block]
    total = MIDDLE + count
    result += [renamed(line, count, parts_of_end, total - BUILT) for line in end]
    return result, total


def _names(lines: list[str]) -> list[str]:
    return [name for line in lines for name in _TENSOR.findall(line)]


def best_of(repeats: int, work: Callable[[], Result]) -> tuple[float, Result]:
    """Shortest time in s, and what it gave."""
    times = []
    for _ in range(repeats):
        gc.collect()
        gc.disable()
        begin = time.perf_counter()
        found = work()
        times.append(time.perf_counter() - begin)
        gc.enable()
    return min(times), found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--gpu", default="rtx-4090")
    options = parser.parse_args()
    spec = gpus.find(options.gpu)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        try:
            lines, count = repeated(real_plan(folder), options.layers)
        except TrtprofError as error:
            print(f"error: {error}", file=sys.stderr)
            return error.exit_code
        text, document, model = folder / "plan.txt", folder / "plan.json", folder / "large.onnx"
        text.write_text("Layers:\n" + "\n".join(lines) + "\n")
        document.write_text(json.dumps({"Layers": [parse_layer_line(line) for line in lines], "Bindings": []}))
        onnx.save(encoder(count), str(model))
        begin = time.perf_counter()
        source = source_of(load_model(model), _SHAPES, None, feed=False)
        loading = time.perf_counter() - begin
        of_text, plan = best_of(options.repeats, lambda: read_layer_info(text))
        of_json, _ = best_of(options.repeats, lambda: read_layer_info(document))
        pricing, priced = best_of(options.repeats, lambda: price_plan(plan, source))
        predicting, found = best_of(options.repeats, lambda: predict_plan(priced, source, [spec], Settings()))
        megabytes = text.stat().st_size / 1e6, document.stat().st_size / 1e6
    fates: dict[str, int] = {}
    for fate in priced.document.fates:
        fates[fate.fate] = fates.get(fate.fate, 0) + 1
    total = max(of_text, of_json) + pricing + predicting
    print(f"{len(plan.layers):,} layers, {len(source.nodes):,} ONNX nodes ({count} encoder layers): {fates}")
    print(f"model loaded, shapes inferred    {loading:7.3f} s   (not in the target)")
    print(f"text of {megabytes[0]:5.1f} MB read            {of_text:7.3f} s")
    print(f"JSON of {megabytes[1]:5.1f} MB read            {of_json:7.3f} s")
    print(f"aligned and counted              {pricing:7.3f} s")
    print(f"predicted on {found.gpus[0].gpu:<20}{predicting:7.3f} s")
    print(f"slower reading, and all behind   {total:7.3f} s   target {TARGET_SECONDS:.1f} s")
    return int(total > TARGET_SECONDS or bool(fates.get("lost")))


if __name__ == "__main__":
    sys.exit(main())
