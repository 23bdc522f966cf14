"""Names that try to leave the place that they are written to, in models, plans and results: none is run or steers."""

from __future__ import annotations

import ast
import csv
import html.parser
import io
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.fakes import report_factory
from tests.fakes.engine_factory import ENGINES, write_engine
from tests.fakes.hostile.running import Case, Outcome
from trtprof.base.records import Holds, Run
from trtprof.base.records.texts import rewritten
from trtprof.base.run_folder import REPORT, RunFolder

MARK = "INJECTED"
"""Of all hostile names; where it is code, a name was run."""
_MARKED = re.compile(rf"\b{MARK}\b")
"""Not in an identifier that was made of a name, which is harmless."""

NAMES = (
    "*/ INJECTED(); /*", "\nINJECTED()\n", "\n#error INJECTED\n", "x\\", "x // INJECTED \\", "??/\nINJECTED();//",
    '"""\nINJECTED()\n"""', "'''\nINJECTED()\n'''", "'); INJECTED(); ('", '"); INJECTED(); ("', "${INJECTED}",
    "$(INJECTED)", "`INJECTED`", "{{ INJECTED }}", "{% INJECTED %}", "{INJECTED!r:>99}", "%s%n%(INJECTED)s",
    "]]>INJECTED", "</script><script>INJECTED()</script>", "<img src=x onerror=INJECTED()>",
    "'\" onmouseover='INJECTED()'", "<!--INJECTED", "=cmd|' /C INJECTED'!A0", "+INJECTED()", "@SUM(INJECTED)",
    "-1+INJECTED()", "\t=INJECTED()", "\uff1dINJECTED()", "INJECTED | a | b", "[x](javascript:INJECTED())",
    "```\nINJECTED\n```", "\n## INJECTED\n", "![x](http://INJECTED.example/)", "\u202eINJECTED()\u202c",
    "\u200bINJECTED", "\u2066INJECTED\u2069", "\ufeffINJECTED", "\x1b]0;INJECTED\x07", "\x1b[2JINJECTED",
    "\rINJECTED()", "\r\nINJECTED()\r\n", "\x0bINJECTED()", "\x0cINJECTED()", "\x85INJECTED()", "\u2028INJECTED()",
    "\u2029INJECTED()", "../../INJECTED", "/etc/INJECTED", "..\\..\\INJECTED", "C:INJECTED", "NUL", "con", ".", "..",
    "-o", "--force", "-rf INJECTED", ";INJECTED()", "# INJECTED", "/* INJECTED", "// INJECTED", "int", "class", "def",
    "__device__", "asm", "threadIdx", "blockIdx", "sizeof", "operator", "self", "import", "lambda", "trt", "trtp",
    "np", "0", "1abc", "a b", "\u00e9", "\u0438\u043c\u044f", "\U0001f600", "", " ", "a" * 3000, "INJECTED" * 500,
    "x" * 255, ".visible .entry INJECTED()", "}\n.visible .entry INJECTED(){ret;}", "R\"(INJECTED)\"",
    "\\u000aINJECTED()", "\\nINJECTED()", "$ENV{INJECTED}", "[==[INJECTED]==]", "#[[INJECTED]]",
)  # fmt: skip

WARM: tuple[tuple[str, ...], ...] = (
    ("inspect", "--help"), ("predict", "--help"), ("report", "--help"), ("plugin", "--help"), ("analyze", "--help"),
)  # fmt: skip

_FORMATS = ("text", "html", "json", "csv", "markdown")
_RUN_FORMATS = (*_FORMATS, "junit", "perfetto")


def case(random: Random, folder: Path, data: Path | None) -> Case:
    """One command that is given hostile names, and shows or writes them."""
    asked = random.choice(_ASKED)
    return asked(random, folder)


# --- names --------------------------------------------------------------------------------------


class _Namer:
    """Hostile names, each once for what has to be told apart."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.given: set[str] = set()

    def any(self) -> str:
        name = self.random.choice(NAMES)
        return name + self.random.choice(NAMES) if self.random.random() < 0.2 else name

    def own(self) -> str:
        """One that no other has."""
        while True:
            name = self.any()
            if name in self.given or not name:
                name += f"{self.random.choice(('', '_', ' ', '#', chr(10)))}{len(self.given)}"
            if name not in self.given:
                self.given.add(name)
                return name


def _file_name(random: Random) -> str:
    """A name that a file can have here."""
    name = random.choice(NAMES).replace("/", "_").replace("\0", "") or "x"
    return name.encode()[:200].decode("utf-8", "ignore").lstrip("-") or "x"


# --- models -------------------------------------------------------------------------------------


_KINDS = (
    ("Relu", "Add"), ("MatMul", "Add"), ("Softmax",), ("ReduceMean",), ("Transpose",), ("Mul", "Erf"),
    ("LayerNormalization",), ("Conv", "Relu"), ("Einsum",), ("Cast", "Mul"),
)  # fmt: skip


def model(random: Random) -> tuple[onnx.ModelProto, list[str]]:
    """A small model of ops that plugins are written for, under hostile names; and its nodes."""
    namer = _Namer(random)
    own = namer.own
    batch: Any = random.choice((2, 2, namer.any() or "n"))
    x, out = own(), own()
    kinds = random.choice(_KINDS)
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []

    def weight(*shape: int) -> str:
        name = own()
        weights.append(numpy_helper.from_array(np.full(shape, 0.5, np.float32), name))
        return name

    shape = [batch, 8, 16, 16] if kinds[0] == "Conv" else [batch, 16, 32]
    now = x
    for at, kind in enumerate(kinds):
        more: dict[str, Any] = {}
        inputs = [now]
        if kind in ("Add", "Mul"):
            inputs.append(weight(shape[-1] if kinds[0] != "MatMul" else 8))
        elif kind == "MatMul":
            inputs.append(weight(32, 8))
        elif kind == "LayerNormalization":
            inputs.append(weight(32))
        elif kind == "Conv":
            inputs.append(weight(8, 1, 3, 3))
            more = {"group": 8, "pads": [1] * 4, "auto_pad": "NOTSET"}
        elif kind == "Einsum":
            inputs.append(weight(32, 8))
            more = {"equation": random.choice(("bij,jk->bik", "bij,jk->bik", namer.any()))}
        elif kind == "ReduceMean":
            more = {"axes": [-1]}
        elif kind == "Transpose":
            more = {"perm": [0, 2, 1]}
        elif kind == "Cast":
            more = {"to": TensorProto.FLOAT16 if at else TensorProto.FLOAT}
        now = out if at == len(kinds) - 1 else own()
        name = random.choice((own(), own(), kind, ""))
        nodes.append(helper.make_node(kind, inputs, [now], name=name, doc_string=namer.any(), **more))
    graph = helper.make_graph(
        nodes, namer.any(), [helper.make_tensor_value_info(x, TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(now, TensorProto.FLOAT, None)], weights, doc_string=namer.any(),
    )  # fmt: skip
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9, producer_name=namer.any(),
        producer_version=namer.any(), domain=namer.any(), doc_string=namer.any(),
    )  # fmt: skip
    entry = made.metadata_props.add()
    entry.key, entry.value = own(), namer.any()
    return made, [node.name for node in nodes]


def _model_file(random: Random, folder: Path) -> tuple[Path, list[str]]:
    made, nodes = model(random)
    path = folder / (f"{_file_name(random)}.onnx" if random.random() < 0.5 else "m.onnx")
    path.write_bytes(made.SerializeToString())
    return path, nodes


# --- what is asked ------------------------------------------------------------------------------


def _plugin(random: Random, folder: Path) -> Case:
    path, nodes = _model_file(random, folder)
    out = folder / (_file_name(random) if random.random() < 0.3 else "plugin")
    node = random.choice([name for name in nodes if name and not name.startswith("-")] or ["Relu"])
    kind = random.choice(_FORMATS)
    asked = ("--gpu", "rtx-4090", "--only", "brief,write,insert", "--format", kind)
    batch = () if isinstance(_batch(path), int) else ("--batch", "2")
    words = ("plugin", path, node, "-o", out, *asked, *batch)

    def check(outcome: Outcome) -> Iterable[str]:
        yield from _in_document(kind, outcome)
        if out.is_dir():
            for file in sorted(each for each in out.rglob("*") if each.is_file()):
                yield from (f"{file.relative_to(out)}: {each}" for each in in_file(file, random))
        outside = {each.name for each in outcome.folder.iterdir()} - {path.name, out.name}
        if outside:
            yield f"written outside of its folder: {sorted(outside)}"

    return Case(f"plugin of {node!r}", words, check, exact=kind == "csv")


def _batch(path: Path) -> int | str:
    dim = onnx.load(path).graph.input[0].type.tensor_type.shape.dim[0]
    return dim.dim_param or dim.dim_value


def _inspect(random: Random, folder: Path) -> Case:
    path, _ = _model_file(random, folder)
    return _shown(random, ("inspect", path), _FORMATS)


def _predict(random: Random, folder: Path) -> Case:
    path, _ = _model_file(random, folder)
    return _shown(random, ("predict", path, "--gpu", "l4"), _FORMATS)


def _try(random: Random, folder: Path) -> Case:
    path, _ = _model_file(random, folder)
    return _shown(random, ("try", path, "--dry-run", "--gpu", "l4"), _FORMATS)


def _report(random: Random, folder: Path) -> Case:
    place = _run(random, folder, "run")
    words = ("report", place, *random.choice(((), ("--redact",), ("--by", "node"), ("--by", "module"))))
    return _shown(random, words, _RUN_FORMATS)


def _compare(random: Random, folder: Path) -> Case:
    return _shown(random, ("compare", _run(random, folder, "a"), _run(random, folder, "b")), _FORMATS)


def _run(random: Random, folder: Path, name: str) -> Path:
    """A result in which every field of text has a hostile name."""
    namer = _Namer(random)
    made: dict[str, str] = {}

    def change(value: str, rule: Holds, _: str) -> str:
        if not value or rule.kind == "safe":
            return value
        return made.setdefault(value, namer.own() if rule.kind != "text" else f"{value} {namer.any()}")

    run = rewritten(report_factory.typical(), change)
    assert isinstance(run, Run)
    place = folder / (name + (_file_name(random) if random.random() < 0.3 else ""))
    place.mkdir(exist_ok=True)
    RunFolder(place).write(REPORT, run)
    return place


def _analyze(random: Random, folder: Path) -> Case:
    namer = _Namer(random)
    files = write_engine(folder, random.choice(list(ENGINES)))
    assert files.layers is not None
    assert files.profile is not None
    words: dict[str, str] = {}

    def named(text: str) -> str:
        return words.setdefault(text, namer.own())

    graph, profile = json.loads(files.layers.read_text()), json.loads(files.profile.read_text())
    for layer in graph["Layers"]:
        layer["Name"] = named(layer["Name"])
        for tensor in (*layer["Inputs"], *layer["Outputs"]):
            tensor["Name"] = named(tensor["Name"])
        layer["TacticName"] = namer.any()
        layer["Metadata"] = f"[ONNX Layer: {namer.any()}]\x1e[ONNX Layer: {namer.any()}]"
    graph["Bindings"] = [named(each) for each in graph["Bindings"]]
    for row in profile[1:]:
        row["name"] = named(row["name"])
    files.layers.write_text(json.dumps(graph))
    files.profile.write_text(json.dumps(profile))
    return _shown(random, ("analyze", files.layers, files.profile, "--gpu", "l4"), _RUN_FORMATS)


def _kernel(random: Random, folder: Path) -> Case:
    names = [name for name in (random.choice(NAMES) for _ in range(3)) if name.strip() and name != "-"] or ["x"]
    kind = random.choice(_FORMATS)
    check = _checked(kind)
    return Case(f"kernel {names!r}", ("kernel", "--format", kind, "--", *names), check, exact=kind == "csv")


def _shown(random: Random, words: tuple[str | Path, ...], formats: tuple[str, ...]) -> Case:
    kind = random.choice(formats)
    asked = ("-o", "page.html") if kind == "html" else ("--format", kind)  # a page has numbers of its own in its script
    return Case(" ".join(map(repr, words)), (*words, *asked), _checked(kind), exact=kind == "csv")


def _checked(kind: str) -> Callable[[Outcome], Iterable[str]]:
    return lambda outcome: _in_document(kind, outcome)


_ASKED = (_plugin, _plugin, _plugin, _inspect, _predict, _try, _report, _report, _compare, _analyze, _kernel)


# --- what may not be there ----------------------------------------------------------------------

_STEERS = re.compile("[\u202a-\u202e\u2066-\u2069\u200b-\u200f\ufeff\u2028\u2029\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _in_document(kind: str, outcome: Outcome) -> Iterable[str]:
    """What is wrong with what was printed in a format."""
    if steers := _STEERS.search(outcome.said):
        yield f"stderr has {steers[0]!r}"
    if outcome.code != 0:
        return
    page = outcome.folder / "page.html"
    text = page.read_text(encoding="utf-8") if page.is_file() else outcome.out.decode()
    if kind == "text" and (steers := _STEERS.search(text)):
        yield f"stdout has {steers[0]!r}"
    if kind in _WRONG:
        yield from _WRONG[kind](text)


class _Page(html.parser.HTMLParser):
    """Tells where a hostile name is more than text in a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.wrong: list[str] = []
        self._script: dict[str, str | None] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name.startswith("on") or MARK.lower() in name:
                self.wrong.append(f"<{tag}> has the attribute {name}")
            if name in ("href", "src", "action") and re.match(r"\s*(?:javascript|data:text/html)", value or "", re.I):
                self.wrong.append(f"<{tag}> leads to {value}")
            if name == "src" and MARK in (value or ""):
                self.wrong.append(f"<{tag}> loads {value}")
        if tag == "script":
            self._script = dict(attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is not None and MARK in data and self._script.get("type") != "application/json":
            self.wrong.append("a name is in a script")

    def handle_comment(self, data: str) -> None:
        if MARK in data:
            self.wrong.append("a name is in a comment")


def in_page(text: str) -> list[str]:
    """What is wrong with a page."""
    page = _Page()
    page.feed(text)
    return page.wrong


def in_table(text: str) -> list[str]:
    """Cells that a spreadsheet would compute."""
    return [
        f"the cell {cell[:40]!r} is a formula"
        for row in csv.reader(io.StringIO(text, newline=""))
        for cell in row
        if re.match(r"\s*[=+@\-\uff1d\uff0b\uff0d\uff20]", cell) and MARK in cell
    ]


def in_markdown(text: str) -> list[str]:
    """Tags, links and headings that are a name's, outside of code."""
    bare = re.sub(r"(?ms)^(`{3,})[^`\n]*\n.*?^\1`*$", "", text)
    bare = re.sub(r"(?s)(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", bare)
    wrong = []
    for what, pattern in (
        ("a tag", r"(?<!\\)<(?:script|img)[\s>]"), ("a link", r"(?<!\\)\]\(javascript"),
        ("an image", r"(?<!\\)!\[x\]\(http"),
        ("a heading", rf"(?m)^#+ {MARK}$"), ("a line", rf"(?m)^{MARK}"),
    ):  # fmt: skip
        if found := re.search(pattern, bare):
            wrong.append(f"{what} of a name: {found[0]!r}")
    return wrong


def _in_json(text: str) -> list[str]:
    json.loads(text)
    return []


_WRONG: dict[str, Callable[[str], Iterable[str]]] = {
    "html": in_page, "csv": in_table, "markdown": in_markdown, "json": _in_json, "perfetto": _in_json,
}  # fmt: skip


# --- generated code -----------------------------------------------------------------------------


def in_file(path: Path, random: Random) -> list[str]:
    """What is wrong with a file that was generated."""
    if path.suffix in (".onnx", ".json", ".npz", ".npy"):
        return []
    text = path.read_text(encoding="utf-8")
    wrong = [f"holds {found[0]!r}"] if (found := _STEERS.search(text)) else []
    if path.suffix == ".py":
        wrong += in_python(text)
    elif path.suffix in (".cu", ".cpp", ".h"):
        wrong += in_c(text)
        if path.name == "plugin.cpp" and random.random() < 0.15:
            wrong += _compiled(path)
    elif path.suffix == ".ptx":
        wrong += [f"{line!r}" for line in text.splitlines() if _MARKED.search(line.partition("//")[0])]
    elif path.name == "CMakeLists.txt":
        wrong += [f"{line!r}" for line in text.splitlines() if MARK in line.partition("#")[0]]
    elif path.suffix == ".md":
        wrong += in_markdown(text)
    return wrong


def in_python(text: str) -> list[str]:
    """Names of the program that are hostile ones; a program that is none is wrong, too."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        return [f"no Python: {error}"]
    found = {getattr(node, field, "") for node in ast.walk(tree) for field in ("id", "arg", "attr", "name")}
    return [f"{name!r} is a name of the program" for name in found if _MARKED.fullmatch(str(name))]


_C_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def in_c(text: str) -> list[str]:
    """Hostile names outside of comments and strings, as a compiler reads them: lines joined, trigraphs read."""
    for letters in (("??/", "\\"), ("\r\n", "\n"), ("\r", "\n"), ("\\\n", "")):
        text = text.replace(*letters)
    code = _C_TOKEN.sub(" ", text)
    return [f"{line.strip()[:80]!r} is code" for line in code.splitlines() if _MARKED.search(line)]


_CUDA = """#pragma once
typedef enum cudaError { cudaSuccess, cudaErrorInvalidValue } cudaError_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
enum cudaDeviceAttr { cudaDevAttrComputeCapabilityMajor, cudaDevAttrComputeCapabilityMinor };
cudaError_t cudaGetDevice(int *);
cudaError_t cudaDeviceGetAttribute(int *, cudaDeviceAttr, int);
cudaError_t cudaGetLastError();
char const *cudaGetErrorString(cudaError_t);
"""
"""As much of CUDA's header as a plugin uses: the real one is not everywhere."""


def _compiled(path: Path) -> list[str]:
    """Errors of the compiler over a plugin, with headers that only declare."""
    compiler, headers = shutil.which("g++"), Path(__file__).parents[1] / "tensorrt_headers" / "10.0.1"
    if compiler is None:
        return []
    cuda = path.parent / "cuda_runtime_api.h"
    cuda.write_text(_CUDA)
    line: list[str | Path] = [
        compiler,
        "-std=c++17",
        "-fsyntax-only",
        "-isystem",
        headers,
        "-isystem",
        path.parent,
        path,
    ]
    done = subprocess.run([*line, path], capture_output=True, text=True, timeout=60, check=False)
    cuda.unlink()
    return [f"not compiled: {done.stderr[-600:]}"] if done.returncode else []
