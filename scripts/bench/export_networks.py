"""Export well-known networks to ONNX without their weights, and say what is published of them.

    python scripts/bench/export_networks.py --list
    python scripts/bench/export_networks.py FOLDER resnet50@224 bert_base@128

Runs in an interpreter that has torch (its CPU build is enough), torchvision, onnxscript and transformers;
`published_macs.py` starts it. Prints one JSON document a line. A name is a network and its input: pixels a
side, or tokens.

Parameters are allocated but never filled, and saved as external data in a file of holes: the largest network
here has 27 GB of weights, and takes some 500 MB of memory and 4 MB of disk. Work does not depend on their values.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

HOLLOW_BYTES = 1024
"""Tensors larger than this are saved as holes; shapes and other small constants keep their values."""
LANGUAGE_MODELS = ("bert_base@128", "gpt2@1024", "llama_7b@128")


def published_networks(models: Any) -> dict[str, float]:
    """Every classification network of torchvision at every size it was trained for -> its published ``_ops``, G."""
    found: dict[str, float] = {}
    for name in models.list_models(module=models):
        for weights in models.get_model_weights(name):
            (size,) = weights.transforms().crop_size
            found[f"{name}@{size}"] = weights.meta["_ops"]
    return found


def unfilled(torch: Any) -> Any:
    """A context in which no operation fills a parameter, so that its pages are never touched."""

    class Unfilled(torch.overrides.TorchFunctionMode):  # type: ignore[misc] # torch is not there where types are checked
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            name = getattr(function, "__name__", "")
            target = args[0] if args else kwargs.get("tensor")
            if name.endswith("_") and not name.endswith("__") and isinstance(target, torch.nn.Parameter):
                return target
            return function(*args, **kwargs)

    return Unfilled()


def classifier(torch: Any, models: Any, name: str, size: int) -> tuple[Any, dict[str, Any], tuple[Any, ...]]:
    arguments: dict[str, Any] = {"image_size": size} if name.startswith("vit_") else {}
    if name in ("googlenet", "inception_v3"):
        arguments |= {"init_weights": False, "aux_logits": False}
    return models.get_model(name, weights=None, **arguments), {}, (torch.empty(1, 3, size, size),)


def language_model(torch: Any, name: str, tokens: int) -> tuple[Any, dict[str, Any], tuple[Any, ...]]:
    transformers = importlib.import_module("transformers")

    class Plain(torch.nn.Module):  # type: ignore[misc] # torch is not there where types are checked
        """The network with tensors as outputs, which is all that an exporter can name."""

        def __init__(self, network: Any) -> None:
            super().__init__()
            self.network = network

        def forward(self, **inputs: Any) -> Any:
            return tuple(self.network(**inputs, return_dict=False))

    # The configurations' defaults are those of BERT-base, GPT-2 small and LLaMA-7B.
    network = {
        "bert_base": lambda: transformers.BertModel(transformers.BertConfig()),
        "gpt2": lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False)),
        "llama_7b": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(use_cache=False)),
    }[name]()
    inputs = {"input_ids": torch.zeros(1, tokens, dtype=torch.int64)}
    if name == "bert_base":
        inputs["attention_mask"] = torch.ones(1, tokens, dtype=torch.int64)
    return Plain(network), inputs, ()


def normalized_elements(torch: Any, network: Any, positional: tuple[Any, ...]) -> int:
    """Elements that pass through batch normalisations in one forward pass, from their outputs' shapes.

    The export folds these into convolutions where it can, so that the graph no longer shows them.
    """
    counts: list[int] = []
    handles = [
        module.register_forward_hook(lambda _module, _inputs, output: counts.append(output.numel()))
        for module in network.modules()
        if isinstance(module, torch.nn.BatchNorm2d)
    ]
    if handles:
        shapes_only = {name: value.to("meta") for name, value in network.state_dict().items()}
        with torch.no_grad():
            torch.func.functional_call(network, shapes_only, tuple(value.to("meta") for value in positional))
    for handle in handles:
        handle.remove()
    return sum(counts)


def save_hollow(model: Any, path: Path) -> None:
    """Save an ONNX IR model with its weights as external data in a file of the right size that holds nothing."""
    ir = importlib.import_module("onnx_ir")
    data = path.with_suffix(".data")
    offset = 0
    for value in model.graph.initializers.values():
        tensor = value.const_value
        if tensor.nbytes > HOLLOW_BYTES:
            where = {"shape": tensor.shape, "name": tensor.name, "base_dir": path.parent}
            value.const_value = ir.ExternalTensor(data.name, offset, tensor.nbytes, tensor.dtype, **where)
            offset += tensor.nbytes
    with data.open("wb") as file:
        file.truncate(offset)
    ir.save(model, path)


def export(torch: Any, models: Any, full_name: str, folder: Path) -> dict[str, Any]:
    """Write one network into a folder; its file, and what of it the graph does not show."""
    name, _, size = full_name.partition("@")
    with unfilled(torch):
        network, inputs, positional = (
            language_model(torch, name, int(size))
            if full_name in LANGUAGE_MODELS
            else classifier(torch, models, name, int(size))
        )
    network.eval()
    normalized = normalized_elements(torch, network, positional)
    program = torch.onnx.export(network, positional, kwargs=inputs, dynamo=True, verbose=False)
    path = folder / f"{name}_{size}.onnx"
    save_hollow(program.model, path)
    return {"name": full_name, "file": str(path), "normalized_elements": normalized}


def networks(arguments: list[str]) -> Iterator[dict[str, Any]]:
    torch = importlib.import_module("torch")
    models = importlib.import_module("torchvision.models")
    if arguments == ["--list"]:
        versions = {
            name: importlib.import_module(name).__version__ for name in ("torch", "torchvision", "transformers")
        }
        yield {"versions": versions, "torchvision": published_networks(models), "language": LANGUAGE_MODELS}
        return
    folder, *names = arguments
    for name in names:
        yield export(torch, models, name, Path(folder))


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(str(__doc__))
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    for found in networks(sys.argv[1:]):
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
