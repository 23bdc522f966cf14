"""Names that try to leave the place that they are written to, a model under such names, and where one is code."""

from __future__ import annotations

import ast
import csv
import html.parser
import io
import re
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

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

_KINDS = (("Relu", "Add"), ("MatMul", "Add"), ("Softmax",), ("ReduceMean",), ("Transpose",), ("LayerNormalization",))


def model(random: Random) -> onnx.ModelProto:
    """A small model of ops that plugins are written for, under hostile names."""
    given: set[str] = set()

    def own() -> str:
        name = random.choice(NAMES)
        while not name or name in given:
            name += str(len(given))
        given.add(name)
        return name

    x = now = own()
    nodes, weights = [], []
    for kind in random.choice(_KINDS):
        inputs, more = [now], dict[str, Any]()
        if shape := {"Add": (1,), "MatMul": (32, 8), "LayerNormalization": (32,)}.get(kind):
            inputs.append(own())
            weights.append(numpy_helper.from_array(np.full(shape, 0.5, np.float32), inputs[1]))
        if kind == "ReduceMean":
            more = {"axes": [-1]}
        now = own()
        nodes.append(helper.make_node(kind, inputs, [now], name=own(), doc_string=own(), **more))
    graph = helper.make_graph(
        nodes, own(), [helper.make_tensor_value_info(x, TensorProto.FLOAT, [2, 16, 32])],
        [helper.make_tensor_value_info(now, TensorProto.FLOAT, None)], weights, doc_string=own(),
    )  # fmt: skip
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9, producer_name=own(), domain=own()
    )


STEERS = re.compile("[\u202a-\u202e\u2066-\u2069\u200b-\u200f\ufeff\u2028\u2029\x00-\x08\x0b-\x1f\x7f-\x9f]")


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
