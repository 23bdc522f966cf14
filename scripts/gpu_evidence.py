"""What a GPU says of trtprof: everything that only one can tell, by one command, in about ten minutes.

    python scripts/gpu_evidence.py [PART...] [--out FOLDER] [--dry-run]

Parts (all but the last two by default, in this order):

* ``here``: `trtprof doctor`, driver, packages and tools; whether TensorRT and TensorRT-RTX build and run an engine, and
  whether nsys records kernels.
* ``calibrate``: the ceilings with the spread of their repeats, and kernels that correct what is expected.
* ``runs``: ONNX Runtime's CUDA provider on a batched gemv, a convolution, ResNet-50, a MobileNet, an LSTM and a
  transformer of 12 layers; the gemv with TensorRT, too.
* ``truth``: predicted DRAM bytes and FLOP beside the counters of ncu, and predicted beside measured time, by op.
* ``plugin``, only where it is named: a custom kernel for the batched gemv, written, and the engine with it measured.
* ``try``, only where it is named: what `trtprof try` finds on the gemv and on a MobileNet.

Every step is a `trtprof` command of its own with a limit of time. ``--out`` gets ``evidence.jsonl`` (a line a step:
part, step, status, seconds, what was found), the documents and the logs of all steps, and the run folders; these hold
paths and versions: look through them, or redact them (``trtprof report --redact``), before they are passed on.
``--dry-run`` prints the commands and runs none.

It needs ``pip install -e '.[gpu,cupti]'`` (``.[tensorrt]``, ``.[rtx]``, ``.[plugin]``, nsys and ncu add what they are
for), and no network. A step is ``ok``, ``failed``, or ``absent`` where what it needs is not here. Exit code 1 where one
failed, 3 where there is no GPU.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "sample_models"
OUT = Path("reports") / "gpu-evidence"
MISSING = 3
"""The exit code of `trtprof` where something is not here."""
PACKAGES = (
    "onnxruntime-gpu", "onnxruntime", "onnx", "numpy", "torch", "cupti-python", "nvidia-cuda-cupti", "nvidia-cublas",
    "nvidia-cudnn-cu13", "nvidia-cudnn-cu12", "nvtx", "tensorrt", "tensorrt-rtx", "triton",
    "nvidia-ml-py",
)  # fmt: skip
TOOLS = (("nvidia-smi", "-L"), ("nvcc", "--version"), ("nsys", "--version"), ("ncu", "--version"))
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_resnet50.onnx"
TOKENS = ("--shapes", "input_ids:8x128,attention_mask:8x128")


class Step(NamedTuple):
    """A `trtprof` command; ``{out}`` in its words is the folder. One of no words is done by this script."""

    part: str
    name: str
    limit_s: float
    words: tuple[str, ...] = ()


def run(name: str, model: Path | str, *more: str, part: str = "runs", limit_s: float = 60, cuda: bool = True) -> Step:
    backend = ("--backend", "ort-cuda", "--verify") if cuda else ()
    words = ("run", str(model), *backend, "--duration", "1", "--profile-iterations", "30", "--format", "json")
    return Step(part, name, limit_s, (*words, "-o", f"{{out}}/runs/{name}", "--force", *more))


def steps() -> Iterator[Step]:
    """All steps, in their order."""
    resnet, gemv, mobilenet = (SAMPLES / f"{name}.onnx" for name in ("resnet_tiny", "gemv", "mobilenet_tiny"))
    yield Step("here", "doctor", 60, ("doctor",))
    yield Step("here", "tools", 60)
    for backend in ("tensorrt-rtx", "tensorrt"):
        words = ("--batch", "1", "--backend", backend, "--verify")
        yield run(f"resnet_tiny-{backend}", resnet, *words, part="here", cuda=False)
    yield run("gemv-nsys", gemv, "--collector", "nsys", part="here", limit_s=90)
    yield Step("calibrate", "ceilings", 150, ("calibrate", "--device", "gpu:0", "--format", "json"))
    yield run("gemv", gemv)
    yield run("conv", "{out}/models/conv.onnx", "--batch", "1")
    yield run("resnet50", LIGHT)
    yield run("mobilenet", mobilenet, "--batch", "32")
    yield run("transformer", "{out}/models/transformer.onnx", *TOKENS)
    yield run("lstm", SAMPLES / "lstm.onnx", "--shapes", "features:64x16x64")
    yield run("gemv-tensorrt", gemv, "--backend", "tensorrt", "--verify", cuda=False)
    yield run(
        "transformer-fp16", "{out}/models/transformer.onnx", "--backend", "tensorrt", "--fp16", *TOKENS, cuda=False
    )
    yield run("op_classes", "{out}/models/op_classes.onnx", "--confirm", "64", part="truth", limit_s=180)
    yield Step("truth", "errors", 30)
    node, folder = onnx.load(str(gemv), load_external_data=False).graph.node[0].name, "{out}/runs/plugin-gemv"
    write = ("--gpu", "rtx-4090", "--only", "brief,write,insert", "--force")
    yield Step("plugin", "write", 60, ("plugin", str(gemv), node, *write, "-o", folder))
    yield Step("plugin", "bench", 300, ("plugin", "bench", folder, "--format", "json"))
    for model in (gemv, mobilenet):
        how = ("--budget", "150s", "--runs", f"{{out}}/runs/try-{model.stem}", "--format", "json")
        yield Step("try", model.stem, 230, ("try", str(model), *how))


NAMED = ("plugin", "try")


# --- models ----------------------------------------------------------------------------------


def make_models(out: Path) -> None:
    """Those that no sample is."""
    sys.path.insert(0, str(SAMPLES))
    generate = importlib.import_module("generate")
    models = out / "models"
    models.mkdir(parents=True, exist_ok=True)
    onnx.save(generate.conv(256), models / "conv.onnx")
    onnx.save(generate.transformer(layers=12, width=768, heads=12), models / "transformer.onnx")
    onnx.save(onnx.shape_inference.infer_shapes(op_classes()), models / "op_classes.onnx")


def op_classes() -> onnx.ModelProto:
    """One model of many ops that do not depend on each other: several of each class, in sizes that differ."""
    inputs = {
        "x": (4096, 4096), "w": (4096, 4096), "thin": (4096, 512), "few": (512, 4096), "row": (1, 4096),
        "column": (4096, 1), "heads_a": (64, 512, 64), "heads_b": (64, 64, 512), "story_a": (150, 200, 8, 1, 64),
        "story_b": (150, 1, 8, 64, 1), "scores": (16, 12, 256, 256), "tokens": (32768, 768),
        "image": (16, 64, 112, 112), "w3": (64, 64, 3, 3), "w1": (256, 64, 1, 1), "w5": (64, 64, 5, 5),
        "wd": (64, 1, 3, 3), **{f"{part}{width}": (width,) for part in "sb" for width in (4096, 256, 768)},
    }  # fmt: skip
    norms = ((name, f"s{inputs[name][-1]}", f"b{inputs[name][-1]}") for name in ("x", "scores", "tokens"))
    products = (("x", "w"), ("x", "thin"), ("few", "thin"), ("heads_a", "heads_b"), ("story_a", "story_b"),
                ("row", "x"), ("w", "column"))  # fmt: skip
    ops: list[tuple[str, tuple[str, ...], dict[str, Any]]] = [
        *(("MatMul", names, {}) for names in products),
        ("Conv", ("image", "w3"), {"pads": [1] * 4}), ("Conv", ("image", "w1"), {}),
        ("Conv", ("image", "w5"), {"pads": [2] * 4, "strides": [2, 2]}),
        ("Conv", ("image", "wd"), {"pads": [1] * 4, "group": 64}),
        *(("Softmax", (name,), {"axis": -1}) for name in ("x", "scores", "tokens")),
        *(("LayerNormalization", names, {"axis": -1}) for names in norms),
        ("Exp", ("x",), {}), ("Add", ("x", "w"), {}), ("Sigmoid", ("tokens",), {}), ("Mul", ("image", "image"), {}),
        ("ReduceMean", ("x",), {"axes": [1], "keepdims": 0}), ("ReduceMax", ("x",), {"axes": [0], "keepdims": 0}),
        ("ReduceMean", ("tokens",), {"axes": [1], "keepdims": 0}), ("Transpose", ("x",), {"perm": [1, 0]}),
        ("Transpose", ("image",), {"perm": [0, 2, 3, 1]}), ("Transpose", ("scores",), {"perm": [0, 2, 1, 3]}),
    ]  # fmt: skip
    random = np.random.default_rng(0)
    stored = [name for name in inputs if re.fullmatch(r"w\d|wd|[sb]\d+", name)]
    weights = [numpy_helper.from_array(random.standard_normal(inputs[name], "f4") / 8, name) for name in stored]
    nodes = [
        helper.make_node(op, names, [f"y{at}"], name=f"{op}_{at}", **more) for at, (op, names, more) in enumerate(ops)
    ]
    given, made = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in infos]
        for infos in (
            [(name, shape) for name, shape in inputs.items() if name not in stored],
            [(f"y{at}", None) for at in range(len(ops))],
        )
    )
    graph = helper.make_graph(nodes, "op_classes", given, made, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


# --- what was found --------------------------------------------------------------------------


def of_run(document: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A run in short: ``failed`` where a contract does not hold."""
    told, layers = document["latency"], document["layers"]
    latency = told["undisturbed_ns"] if told.get("undisturbed_basis") == "inferences" else told["median_ns"]
    off = sum(row["ns"] for row in document["ledger"]) - latency
    wrong = [check["name"] for check in document["checks"] if not check["matches"]]
    checks = [check for one in document["confirmations"] for check in one["checks"]]
    found = {
        "device": document["device"]["name"], "median_us": latency / 1e3, "coverage": document["coverage"],
        "profiled_us": document["profiled"]["median_ns"] / 1e3, "ledger_off_by_ns": off, "wrong_outputs": wrong,
        "share_of_roof": sum(layer["attainable_ns"] or 0 for layer in layers) / latency, "layers": len(layers),
        "findings": Counter(finding["code"] for finding in document["findings"]), "clocks": document["clocks"],
        "counters": Counter(f"{check['what']} {check['verdict']}" for check in checks),
        "ceilings": document["ceilings"]["origin"], "versions": document["versions"],
    }  # fmt: skip
    return "failed" if off or wrong else "ok", found


def of_calibration(document: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "ok", {key: document.get(key) for key in ("device", "source", "measurements", "clocks_mhz")}


def of_bench(document: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return ("failed" if document["verdict"] == "incorrect" else "ok"), document


def of_try(document: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    keys = ("name", "verdict", "reason", "predicted", "gain", "seconds")
    rungs = [{key: rung.get(key) for key in keys} for rung in document["rungs"]]
    return "ok", {"verdict": document["verdict"], "spent_s": document["spent_s"], "rungs": rungs}


READS = {"run": of_run, "calibrate": of_calibration, "plugin": of_bench, "try": of_try}


def tools(_out: Path) -> dict[str, Any]:
    """Versions of packages and tools; what is not here is not there."""
    found: dict[str, Any] = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    for command in TOOLS:
        if shutil.which(command[0]):
            said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30).stdout
            found[command[0]] = said.strip().splitlines()[-1:]
    return found


def errors(out: Path) -> dict[str, Any]:
    """By op, over all runs: mean of |predicted - measured| / measured, and how many beat the ideal."""
    rows: dict[str, list[tuple[float, float, bool]]] = defaultdict(list)
    for path in sorted(out.glob("runs/*/report.json")):
        for layer in json.loads(path.read_bytes())["layers"]:
            measured, ideal, attainable = (layer[key] for key in ("measured_ns", "ideal_ns", "attainable_ns"))
            if measured and ideal and attainable and layer["kernels"]:
                row = abs(attainable - measured) / measured, abs(ideal - measured) / measured, measured < ideal
                for kind in ("all", layer["op_type"]):
                    rows[kind].append(row)
    names = ("attainable_error", "ideal_error", "faster_than_ideal")
    return {
        kind: {"layers": len(own), **dict(zip(names, map(statistics.fmean, zip(*own, strict=True)), strict=True))}
        for kind, own in rows.items()
    }


# --- the steps, one after the other ----------------------------------------------------------


def perform(step: Step, out: Path) -> dict[str, Any]:
    """Do a step within its limit; return the line of ``evidence.jsonl``."""
    began = time.monotonic()
    try:
        status, found = ("ok", (tools if step.name == "tools" else errors)(out)) if not step.words else call(step, out)
    except subprocess.TimeoutExpired:
        status, found = "failed", {"why": f"no end within {step.limit_s:.0f} s"}
    except Exception as error:  # a fault of ours is a result, too: the others go on
        status, found = "failed", {"why": f"{type(error).__name__}: {error}"}
    seconds = round(time.monotonic() - began, 1)
    return {"part": step.part, "step": step.name, "status": status, "seconds": seconds, "found": found}


def command_of(step: Step, out: Path) -> list[str]:
    return [sys.executable, "-m", "trtprof", *(word.replace("{out}", str(out)) for word in step.words)]


def call(step: Step, out: Path) -> tuple[str, dict[str, Any]]:
    name = out / f"{step.part}.{step.name}"
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT / "profiler"), "TRTPROF_CACHE_DIR": str(out / "cache"),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "NO_COLOR": "1",  # as NVML counts
    }  # fmt: skip
    with name.with_suffix(".log").open("wb") as log:
        done = subprocess.run(
            command_of(step, out),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            timeout=step.limit_s,
            check=False,
        )
    name.with_suffix(".json" if "json" in step.words else ".txt").write_bytes(done.stdout)
    if done.returncode:
        said = name.with_suffix(".log").read_text(errors="replace")
        why = " ".join(said[said.rfind("error:") :].split())[-600:]
        return "absent" if done.returncode == MISSING else "failed", {"exit_code": done.returncode, "why": why}
    if "json" not in step.words:
        return "ok", {"printed": done.stdout.decode(errors="replace").splitlines()[-40:]}
    return READS[step.words[0]](json.loads(done.stdout))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = list(dict.fromkeys(step.part for step in steps()))
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(known)}")
    parser.add_argument("--out", type=Path, default=OUT, help=f"folder of the files ({OUT})")
    parser.add_argument("--dry-run", action="store_true", help="print the commands, and run none")
    given = parser.parse_args(argv)
    if unknown := set(given.parts) - set(known):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    wanted = given.parts or [part for part in known if part not in NAMED]
    chosen, out = [step for step in steps() if step.part in wanted], given.out.resolve()
    if given.dry_run:
        for step in chosen:
            words = command_of(step, out)[1:] if step.words else ["(this script)"]
            print(f"{step.part}/{step.name} ({step.limit_s:.0f} s): {' '.join(words)}")
        return 0
    if (
        not shutil.which("nvidia-smi")
        or subprocess.run(["nvidia-smi", "-L"], capture_output=True, check=False).returncode
    ):
        print(
            "error: there is no NVIDIA GPU to take evidence from; run this where nvidia-smi lists one", file=sys.stderr
        )
        return MISSING
    make_models(out)
    counts: Counter[str] = Counter()
    with (out / "evidence.jsonl").open("w") as lines:
        for step in chosen:
            line = perform(step, out)
            counts[line["status"]] += 1
            lines.write(json.dumps(line) + "\n")
            lines.flush()
            shown = json.dumps(line["found"])[:160]
            print(f"{step.part}/{step.name:<22} {line['status']:<6} {line['seconds']:>6.1f} s  {shown}", flush=True)
    print(f"{', '.join(f'{count} {status}' for status, count in counts.items())}; in {out}")
    return int(bool(counts["failed"]))


if __name__ == "__main__":
    sys.exit(main())
