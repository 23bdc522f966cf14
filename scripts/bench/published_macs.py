"""MACs of well-known networks by `trtprof inspect`, beside what is published of them.

    python scripts/bench/published_macs.py [--python VENV/bin/python] [NAME ...]

NAME is a network (``resnet50``), one at one size (``vit_b_16@384``), or the beginning of one (``resnet*``);
by default all: every classification network of torchvision at every size that it was trained for, BERT-base,
GPT-2 and LLaMA-7B. They are exported here by `export_networks.py`, without weights, by the interpreter that
``--python`` names: one with torch, torchvision, onnxscript and transformers, by default this one.

    python -m venv V && V/bin/pip install torch torchvision onnxscript transformers

Published figures are those of `PUBLISHED` and the ``_ops`` that torchvision keeps with its weights (the column
GFLOPS of its table of models). Papers and libraries call a MAC a FLOP or an op; here all are MACs in units of
1e9, and what is published as two FLOP a MAC is halved.

A figure agrees when it is within 1 %, or rounds to what is printed. Where a publisher counts by another
convention, it is in `CONVENTIONS`, with the arithmetic on the graph that leads to it: the line below the figure
shows the sum, which must be within 1 %. Exit code 1 if a figure neither agrees nor is explained, or a network
cannot be exported or has ops without a cost.

The 0.2 to 0.4 % of Swin V2 are the small networks that make its position biases: they depend on weights alone, so
that the export computes them once, while PyTorch runs them, and counts them, every time.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trtprof.base.errors import TrtprofError
from trtprof.base.records import Inspection
from trtprof.flows.inspect import inspect
from trtprof.source.request import ModelRequest

EXPORTER = Path(__file__).resolve().with_name("export_networks.py")
TOLERANCE = 0.01
SOURCES = {
    "torchvision": "_ops of torchvision.models.get_model_weights(NAME)",
    "timm": "huggingface/pytorch-image-models, results/benchmark-infer-amp-nchw-pt240-cu124-rtx4090.csv, infer_gmacs",
    "timm card": "GMACs on the model card of timm/vit_base_patch16_224.augreg2_in21k_ft_in1k",
    # The BERT of that example has the geometry of BERT-base; its vocabulary does not enter.
    "calflops": "MrYxJ/calculate-flops.pytorch, README: LLaMA-7B, and hfl/chinese-roberta-wwm-ext at 128 tokens",
    "nanoGPT": "karpathy/nanoGPT, transformer_sizing.ipynb, forward_total, which is 2 FLOP a MAC",
}


@dataclass(frozen=True)
class Figure:
    """A published count: 1e9 MACs, a key of `SOURCES`, and the convention by which it differs, if any."""

    giga_macs: float
    source: str
    convention: str = ""


@dataclass(frozen=True)
class Network:
    """An exported and inspected network; ``normalized_elements`` passed through its batch normalisations."""

    name: str
    inspection: Inspection
    normalized_elements: int

    @property
    def macs(self) -> int:
        return self.inspection.total.macs

    @property
    def attention_macs(self) -> int:
        """MACs of matrix products of which neither factor is a weight: in these networks those of attention."""
        total = 0
        for node in self.inspection.nodes:
            factors = [tensor for tensor in node.op.inputs[:2] if tensor is not None]
            if node.work and node.op.op_type == "MatMul" and not any(tensor.constant for tensor in factors):
                total += node.work.macs
        return total


CONVENTIONS: dict[str, tuple[str, Callable[[Network], tuple[str, int]]]] = {
    "fused attention not seen": (
        "counts modules, so that the two products of attention inside a fused kernel are left out",
        lambda network: (
            f"{network.macs / 1e9:.3f} - {network.attention_macs / 1e9:.3f}",
            network.macs - network.attention_macs,
        ),
    ),
    "batch norm counted": (
        "adds 2 for every element that passes through a batch normalisation",
        lambda network: (
            f"{network.macs / 1e9:.3f} + 2 * {network.normalized_elements / 1e9:.4f}",
            network.macs + 2 * network.normalized_elements,
        ),
    ),
}

PUBLISHED: dict[str, tuple[Figure, ...]] = {
    "resnet50@224": (Figure(4.11, "timm"),),
    "resnet101@224": (Figure(7.83, "timm"),),
    "wide_resnet50_2@224": (Figure(11.43, "timm"),),
    "resnext50_32x4d@224": (Figure(4.26, "timm"),),
    "vgg16@224": (Figure(15.47, "timm"),),
    "densenet121@224": (Figure(2.87, "timm", "batch norm counted"),),
    "densenet169@224": (Figure(3.40, "timm", "batch norm counted"),),
    "densenet201@224": (Figure(4.34, "timm", "batch norm counted"),),
    "convnext_tiny@224": (Figure(4.47, "timm"),),
    "convnext_small@224": (Figure(8.71, "timm"),),
    "convnext_base@224": (Figure(15.38, "timm"),),
    "swin_t@224": (Figure(4.51, "timm"),),
    "vit_b_16@224": (
        Figure(17.58, "timm"),
        Figure(16.9, "timm card", "fused attention not seen"),
    ),
    "vit_l_32@224": (Figure(15.39, "timm"),),
    "bert_base@128": (Figure(11.17, "calflops"),),
    "gpt2@1024": (Figure(291.648307200 / 2, "nanoGPT"),),
    "llama_7b@128": (Figure(850.00, "calflops"),),
}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def exporter(interpreter: str, log: Path, *arguments: str) -> Iterator[dict[str, Any]]:
    """The documents that the exporter prints, as they come.

    Raises:
        RuntimeError: It failed.
    """
    with log.open("w+", encoding="utf-8") as errors:
        command = [interpreter, str(EXPORTER), *arguments]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        if child.stdout is None:
            raise RuntimeError("the exporter has no output")
        for line in child.stdout:
            yield json.loads(line)
        if child.wait():
            errors.seek(0)
            raise RuntimeError(f"{' '.join(command)} exited with {child.returncode}:\n{errors.read()[-2000:]}")


def networks(interpreter: str, names: list[str], folder: Path) -> Iterator[Network]:
    """Export by one process, inspect each as it comes, and delete its files."""
    began = time.perf_counter()
    for found in exporter(interpreter, folder / f"{names[0]}.log", str(folder), *names):
        file = Path(found["file"])
        inspection = inspect(ModelRequest.of(file))
        file.unlink()
        file.with_suffix(".data").unlink()
        say(f"{found['name']}: {inspection.model.nodes} nodes, {time.perf_counter() - began:.0f} s")
        yield Network(found["name"], inspection, found["normalized_elements"])


def judge(network: Network, figure: Figure) -> bool:
    """Print one figure beside ours; whether it agrees or is explained."""
    ours = network.macs / 1e9
    difference = ours / figure.giga_macs - 1
    decimals = len(str(figure.giga_macs).partition(".")[2])
    verdict, explanation = "DIFFERS", ""
    if abs(difference) <= TOLERANCE:
        verdict = "ok"
    elif round(ours, decimals) == figure.giga_macs:
        verdict = "rounded"
    elif figure.convention:
        what, arithmetic = CONVENTIONS[figure.convention]
        text, macs = arithmetic(network)
        rest = macs / 1e9 / figure.giga_macs - 1
        explanation = f"  {figure.convention} ({what}): {text} = {macs / 1e9:.3f}, {rest:+.2%}"
        verdict = "explained" if abs(rest) <= TOLERANCE else "DIFFERS"
    unknown = sum(item.count for item in network.inspection.unsupported)
    if unknown:
        verdict = f"{unknown} ops without a cost"
    print(f"{network.name:<23}{figure.giga_macs:>10.3f}{ours:>10.3f}{difference:>+8.2%}  {figure.source:<12}{verdict}")
    if explanation:
        print(explanation)
    return verdict in ("ok", "rounded", "explained")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks to export; all by default")
    parser.add_argument("--python", default=sys.executable, help="interpreter that has torch and torchvision")
    options = parser.parse_args()
    began = time.perf_counter()
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        try:
            (known,) = exporter(options.python, folder / "list.log", "--list")
        except (OSError, RuntimeError, ValueError) as error:
            say(f"networks cannot be exported: {str(error).strip().splitlines()[-1]}\n"
                "  fix: python -m venv V && V/bin/pip install torch torchvision onnxscript transformers,\n"
                f"  then {' '.join(sys.argv)} --python V/bin/python")  # fmt: skip
            return 3
        figures: dict[str, tuple[Figure, ...]]
        figures = {name: (Figure(giga, "torchvision"),) for name, giga in known["torchvision"].items()}
        figures |= {name: figures.get(name, ()) + more for name, more in PUBLISHED.items()}
        wanted = [
            name
            for name in figures
            if not options.names
            or any(fnmatch.fnmatch(name, text) or fnmatch.fnmatch(name.split("@")[0], text) for text in options.names)
        ]
        if not wanted:
            say(f"no network is called {', '.join(options.names)}; known: {', '.join(sorted(figures))}")
            return 2
        done: dict[str, Network] = {}
        try:
            done = {network.name: network for network in networks(options.python, wanted, folder)}
        except (RuntimeError, TrtprofError) as error:
            failures.append(str(error))
    versions = ", ".join(f"{name} {version}" for name, version in known["versions"].items())
    print(f"1e9 MACs at batch 1; {versions}; {len(done)} networks in {time.perf_counter() - began:.0f} s")
    print(f"{'network@input':<23}{'published':>10}{'trtprof':>10}{'differs':>8}  {'source':<12}verdict")
    judged = [judge(done[name], figure) for name in wanted if name in done for figure in figures[name]]
    for key in dict.fromkeys(figure.source for name in wanted for figure in figures[name]):
        print(f"{key}: {SOURCES[key]}")
    for failure in failures:
        print(f"failed: {failure}")
    missing = [name for name in wanted if name not in done]
    if missing:
        print(f"not done: {', '.join(missing)}")
    print(f"{sum(judged)} of {len(judged)} figures within {TOLERANCE:.0%}, rounded or explained")
    return 0 if all(judged) and not failures and not missing else 1


if __name__ == "__main__":
    sys.exit(main())
