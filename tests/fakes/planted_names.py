"""Models and engines with secrets for names, and all documents that are to be without them."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import onnx
import pandas as pd
import pytest
from onnx import TensorProto, helper

from tests.fakes.command_line import trtprof
from tests.fakes.engine_factory import ENGINES, MOBILENET, RESIDUALS, RESNET, RESNET_QAT, files_of
from tests.fakes.in_process import quick
from tests.fakes.support import CAPTURES
from trtprof.base.records import Run
from trtprof.report import formats_of
from trtprof.report.tables import TABLES

SHAPES = (
    "{0}", "/{0}/conv", "{0}.weight", "{0}/layer.{1}/attn:0", "model {0} x", "'{0}'", '"{0}', "{0}\\n{1}", "{0}-{1}",
    "Camel{0}Block", "{0}1", "1{0}", "{0}\n{1}", "{0}\u200b", "{0}\u00e9", "\u043a\u043b\u044e\u0447{0}", "[{0}]",
    "{0},{1}", "({0})", "{0}|{1}", "<{0}>", "`{0}`", "{0} + {1}", "{0}::{1}", "PWN({0})", "{{{0}, {1}}}", "{0};{1}",
    "{0}%", "a{0}b", "Conv_{0}", "conv{0}relu", "fp16_{0}", "output_{0}", "C:\\Users\\{0}\\m.onnx",
    "https://{0}.example.com/{1}", "{0}@{1}.com", "it's {0}", "{0} of {1}", "__{0}__", "{0}...{1}", "\U0001f600{0}",
)  # fmt: skip
"""Forms of names; what stands in the braces is secret."""

KINDS = (*ENGINES, *((RESNET, RESNET_QAT, MOBILENET, RESIDUALS) if CAPTURES.is_dir() else ()))
"""Engines: made up, and those that others captured where they are at hand."""

_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"


class Found(NamedTuple):
    """How many secrets were planted, in how many documents they were looked for, and where which was found."""

    planted: int
    documents: int
    leaks: list[tuple[str, str]]


class Secrets:
    """Words that nobody else uses, each once."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.words: set[str] = set()

    def word(self) -> str:
        """A new one: lower case letters alone, which no format escapes."""
        while True:
            word = "".join(self.random.choice(_CONSONANTS) + self.random.choice(_VOWELS) for _ in range(5)) + "q"
            if word not in self.words:
                self.words.add(word)
                return word

    def name(self) -> str:
        """A name with one or two of them in it."""
        return self.random.choice(SHAPES).format(self.word(), self.word())


def search(folder: Path, seed: int, models: int, engines: int) -> Found:
    """Plant names in models, which run in this process, and in engines; look for them in all documents."""
    secrets = Secrets(Random(seed))
    user, host = secrets.word(), secrets.word()
    home = folder / user
    home.mkdir(parents=True)
    leaks: list[tuple[str, str]] = []
    documents = 0
    own = {"HOME": str(home), "USER": user, "LOGNAME": user, "USERNAME": user}
    with (
        pytest.MonkeyPatch.context() as patch,
        mock.patch.dict(os.environ, own),
        mock.patch("socket.gethostname", return_value=host),
    ):
        quick(patch)
        patch.chdir(home)
        for number in range(models):
            for what, content in _of_run(_run(secrets, number)):
                documents += 1
                leaks += [(f"model {number}: {what}", word) for word in _seen(content, secrets.words)]
        for number in range(engines):
            for what, content in _of_engine(secrets, KINDS[number % len(KINDS)]):
                documents += 1
                leaks += [(f"engine {number}: {what}", word) for word in _seen(content, secrets.words)]
    return Found(len(secrets.words), documents, leaks)


def _seen(content: bytes, words: set[str]) -> list[str]:
    text = content.decode("utf-8", "replace").lower()
    return sorted(word for word in words if word in text)


# --- what is planted ---------------------------------------------------------------------------------


def model(secrets: Secrets) -> onnx.ModelProto:
    """A chain of nodes in which all that has a name has a secret one."""
    name = secrets.name
    tensors = iter(lambda: name() + str(len(secrets.words)), "")
    x = entry = next(tensors)
    domain, function = secrets.word(), "Op" + secrets.word()
    batch: Any = secrets.word() if secrets.random.random() < 0.5 else 1
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    for at in range(12):
        out = next(tensors)
        kind = secrets.random.choice(("Conv", "Relu", "Sigmoid", "Softmax", "Transpose", "own", "If", "Add"))
        inputs = [x]
        more: dict[str, Any] = {}
        if kind in ("Conv", "Add"):
            shape = (8, 8, 1, 1) if kind == "Conv" else (1, 8, 1, 1)
            inputs.append(next(tensors))
            weights.append(onnx.numpy_helper.from_array(np.full(shape, 0.1, np.float32), inputs[-1]))
        elif kind == "Transpose":
            more = {"perm": [0, 1, 3, 2]}
        elif kind == "own":
            kind, more = function, {"domain": domain}
        elif kind == "If":
            inputs = [next(tensors)]
            weights.append(onnx.numpy_helper.from_array(np.array(True), inputs[0]))
            more = {key: _branch(secrets, x, tensors) for key in ("then_branch", "else_branch")}
        node = helper.make_node(kind, inputs, [out], name=f"{name()}#{at}", doc_string=name(), **more)
        nodes.append(node)
        x = out
    inner = secrets.word(), secrets.word()
    body = [helper.make_node("Tanh", [inner[0]], [inner[1]], name=name())]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    shown = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, name(), [shown(entry, TensorProto.FLOAT, [batch, 8, 8, 8])], [shown(x, TensorProto.FLOAT, None)],
        weights, doc_string=name(),
    )  # fmt: skip
    functions = [helper.make_function(domain, function, inner[:1], inner[1:], body, opsets[:1], doc_string=name())]
    made = helper.make_model(
        graph, opset_imports=opsets, functions=functions, ir_version=9, producer_name=name(), producer_version=name(),
        domain=name(), doc_string=name(),
    )  # fmt: skip
    helper.set_model_props(made, {name(): name()})
    return made


def _branch(secrets: Secrets, x: str, tensors: Iterator[str]) -> onnx.GraphProto:
    out = next(tensors)
    node = helper.make_node("Neg", [x], [out], name=secrets.name())
    return helper.make_graph([node], secrets.name(), [], [helper.make_tensor_value_info(out, 1, None)])


def _run(secrets: Secrets, number: int) -> Path:
    """The folder of a run of such a model."""
    place = Path(secrets.word())
    place.mkdir()
    file = place / f"{secrets.word()}.onnx"
    onnx.save(model(secrets), file, save_as_external_data=number % 2 == 1, location=secrets.word(), size_threshold=64)
    folder = place / secrets.word()
    quickly = ("--duration", "0", "--iterations", "3", "--warmUp", "0", "--profile-iterations", "2")
    made = trtprof("run", file, "-o", folder, "--tag", secrets.word(), *quickly)
    assert made.exit_code == 0, made.output
    return folder


def _engine(secrets: Secrets, kind: str) -> tuple[Path, Path]:
    """Layers and their times of an engine, all names of which are replaced."""
    place = Path(secrets.word())
    place.mkdir()
    files = files_of(kind, place)
    assert files.layers is not None
    assert files.profile is not None
    words: dict[str, str] = {}

    def named(text: str) -> str:
        return words.setdefault(text, secrets.name() + str(len(words)))

    graph, profile = json.loads(files.layers.read_text()), json.loads(files.profile.read_text())
    for layer in filter(lambda each: isinstance(each, dict), graph["Layers"]):
        layer["Name"] = named(layer["Name"])
        for tensor in (*layer["Inputs"], *layer["Outputs"]):
            tensor["Name"] = named(tensor["Name"])
        if secrets.random.random() < 0.5:
            layer["Metadata"] = f"[ONNX Layer: {secrets.name()}]\x1e[ONNX Layer: {secrets.name()}]"
    graph["Bindings"] = [named(each) for each in graph["Bindings"]]
    _less(secrets.random, graph)
    for row in profile[1:]:
        row["name"] = named(row["name"])
    found = place / f"{secrets.word()}.graph.json", place / f"{secrets.word()}.profile.json"
    found[0].write_text(json.dumps(graph))
    found[1].write_text(json.dumps(profile))
    return found


def _less(random: Random, graph: dict[str, Any]) -> None:
    """Leave out some of what tells who makes a tensor, and how large it is: sentences alone may hold its name then."""
    if random.random() < 0.5:
        del graph["Bindings"]
    for layer in filter(lambda each: isinstance(each, dict), graph["Layers"]):
        for tensor in (*layer["Inputs"], *layer["Outputs"]):
            if random.random() < 0.3:
                tensor["Dimensions"][0] = -1


# --- where it is looked for --------------------------------------------------------------------------

Documents = Iterator[tuple[str, bytes]]


def _of_run(folder: Path) -> Documents:
    yield from _printed("report", folder, "--redact")
    for by in ("node", "type", "kernel", "module"):
        yield from _printed("report", folder, "--redact", "--by", by, "--top", 50, "--ledger")
    yield from _written("report", folder)


def _of_engine(secrets: Secrets, kind: str) -> Documents:
    words = ("analyze", *_engine(secrets, kind), "--gpu", "l4")
    yield from _printed(*words, "--redact")
    yield from _written(*words)


def _printed(*words: object) -> Documents:
    """What is printed, and what is said beside it."""
    done = trtprof(*words)
    assert done.exit_code == 0, done.output
    label = " ".join(map(str, words[2:]))
    yield f"{words[0]} {label}", done.stdout_bytes
    yield f"{words[0]} {label}, stderr", done.stderr_bytes


def _written(*words: object) -> Documents:
    """Each format in a file; of tables and of pictures each one."""
    for reporter in formats_of(Run):
        if reporter.name == "onnx":
            continue  # The model itself, which is refused together with --redact.
        choices: Sequence[tuple[str, ...]] = [()]
        if reporter.tables:
            choices = [("--table", table) for table in TABLES]
        elif reporter.name in ("svg", "png"):
            choices = [("--figure", figure) for figure in ("roofline", "ledger", "timeline")]
        for choice in choices:
            path = Path(f"out{reporter.suffix}")
            done = trtprof(*words, "--redact", "-o", path, "--force", "--format", "text", *choice)
            what = " ".join((str(words[0]), reporter.name, *choice))
            if done.exit_code:
                assert "nothing" in done.output or "no " in done.output, done.output
                continue
            content = path.read_bytes()
            if reporter.name == "parquet":
                content += pd.read_parquet(io.BytesIO(content)).to_csv().encode()
            yield what, content
