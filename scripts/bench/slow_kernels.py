"""Time ops against an equivalent form on this CPU, or against a Relu of as many elements.

    python scripts/bench/slow_kernels.py [--threads 1] [--rounds 7] [--only TEXT]

Cases are the rows of `diagnose/slow_kernels.toml`, and those of `slow_kernels.txt` that are not slow or have no other
form: ``inputs | op -> alternative ; op ; ...``, where constants have their values behind a ``=``, else random ones.
"""

from __future__ import annotations

import argparse
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper, parser

from trtprof.diagnose import __file__ as diagnose

FED = ("x", "z", "q")
DTYPES = {"float": "f4", "int64": "i8", "int32": "i4", "uint8": "u1", "int8": "i1"}
RANDOM = np.random.default_rng(0)
Values = dict[str, tuple[str, np.ndarray[Any, Any]]]  # Type in ONNX's text and values by name


def resize_matrix(mode: str, before: int, after: int) -> np.ndarray[Any, Any]:
    """What a Resize makes of the rows of the identity."""
    scales, identity = np.array([1, 1, 1, after / before], "f4"), np.eye(before, dtype="f4")[None, None]
    values = {"x": (f"float[1,1,{before},{before}]", identity), "s": ("", scales)}
    session = make_session(values, f'y=Resize<mode="{mode}">(x,,s)', 1)
    return np.asarray(session.run(["y"], {"x": identity})[0][0, 0])


def parse_values(text: str) -> Values:
    """Values of ``float[64,1] w=0.1, ...``."""
    values: Values = {}
    for kind, _, rest in (part.strip().partition(" ") for part in text.split(", ")):
        name, _, given = rest.partition("=")
        dtype, _, dims = kind.partition("[")
        shape = tuple(int(size) for size in dims.rstrip("]").split(",") if size)
        count = int(np.prod(shape))
        if given.startswith("cubic"):
            array = resize_matrix("cubic", *shape) if given == "cubic" else resize_matrix("cubic", *shape[::-1]).T
        elif given:
            array = np.resize(np.array([float(number) for number in given.split()]), count)
        else:
            array = RANDOM.standard_normal(count) if dtype == "float" else RANDOM.integers(0, 100, count)
        values[name] = kind, array.reshape(shape).astype(DTYPES[dtype])
    return values


def make_session(values: Values, body: str, threads: int) -> ort.InferenceSession:
    fed = ", ".join(f"{kind} {name}" for name, (kind, _) in values.items() if name in FED)
    opsets = '["" : 22, "com.microsoft" : 1]'
    model = parser.parse_model(f"<ir_version: 10, opset_import: {opsets}> g ({fed}) => (float y) {{ {body} }}")
    constants = [numpy_helper.from_array(array, name) for name, (_, array) in values.items() if name not in FED]
    model.graph.initializer.extend(constants)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    return ort.InferenceSession(onnx.shape_inference.infer_shapes(model).SerializeToString(), options)


def measure(inputs: str, op: str, alternative: str, threads: int, rounds: int) -> tuple[float, float, str]:
    """Fastest times of an op and of its alternative in ms, and what that is."""
    values = parse_values(inputs)
    feeds = {name: array for name, (_, array) in values.items() if name in FED}
    forms = [(make_session(values, op, threads), feeds)]
    output, note = forms[0][0].run(["y"], feeds)[0], "Relu"
    if alternative:
        forms.append((make_session(values, alternative, threads), feeds))
        result = forms[1][0].run(["y"], feeds)[0]
        note = "equal" if np.allclose(result, output, rtol=1e-3, atol=1e-4) else "NOT EQUAL"
    else:
        array = RANDOM.standard_normal(max([output.size, *(array.size for array in feeds.values())])).astype("f4")
        relu: Values = {"x": (f"float[{array.size}]", array)}
        forms.append((make_session(relu, "y=Relu(x)", threads), {"x": array}))
    best = [float("inf")] * 2
    for _ in range(rounds):
        for at, (session, fed) in enumerate(forms):
            until = time.perf_counter() + 0.03
            while (begin := time.perf_counter()) < until:
                session.run(["y"], fed)
                best[at] = min(best[at], time.perf_counter() - begin)
    return best[0] * 1e3, best[1] * 1e3, note


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--only", default="")
    chosen = options.parse_args()
    table = tomllib.loads((Path(diagnose).parent / "slow_kernels.toml").read_text())["kernel"]
    cases = [(row["inputs"], row["op"], row["alternative"]) for row in table]
    for inputs, _, forms in (line.partition(" | ") for line in Path(__file__).with_suffix(".txt").open()):
        cases += [(inputs, *form.strip().partition(" -> ")[::2]) for form in forms.split(" ; ")]
    print(f"ONNX Runtime {ort.__version__}, {chosen.threads} threads: op in ms, alternative in ms, times, which")
    for inputs, op, alternative in cases:
        if chosen.only.lower() in op.lower():
            slow, fast, note = measure(inputs, op, alternative, chosen.threads, chosen.rounds)
            print(f"{slow:8.3f} {fast:8.3f} {slow / fast:6.2f}x  {note:9}  {op}  of {inputs}", flush=True)


if __name__ == "__main__":
    main()
