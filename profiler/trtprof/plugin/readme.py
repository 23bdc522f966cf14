"""The README.md of a plugin's folder: what is in it, how it is used, what was checked, and what no GPU has run."""

from __future__ import annotations

import re
from collections.abc import Mapping

from trtprof.base.records import CheckStep, Plugin
from trtprof.plugin import native
from trtprof.plugin.specification import VERSION, Specification, forms
from trtprof.plugin.task import DOMAIN

_CHECKS: Mapping[str, str] = {
    "numerics": "the PTX that ships, executed thread by thread beside float64",
    "traffic": "the memory that it moves, counted beside what is predicted",
    "registry": "the plugin in Python, asked by TensorRT's own registry all that a build asks",
    "native": "the plugin in C++, compiled, asked by its own test, loaded by TensorRT's registry",
    "onnxruntime": "the model with the plugin, by its functions, beside the original in ONNX Runtime",
    "tensorrt-rtx": "the model with the plugin, by its functions, built by TensorRT-RTX",
}
_VERDICTS: Mapping[str, str] = {"passed": "passed", "failed": "**failed**", "not here": "not run: it lacks something"}
_PTX_VERSION = re.compile(r"^\s*\.version\s+(\d+)\.(\d+)", re.MULTILINE)


def text(spec: Specification, document: Plugin) -> str:
    """The README in Markdown."""
    task = spec.task
    steps: tuple[CheckStep, ...] = document.check.steps if document.check is not None else ()
    version = ptx_version(spec)
    values = {
        "name": task.name,
        "plugin": spec.plugin,
        "namespace": DOMAIN,
        "version": VERSION,
        "file": spec.file_name,
        "template": document.template,
        "model": document.inserted.model if document.inserted is not None else "",
        "formulas": document.brief.formulas or task.nodes,
        "operands": [
            {
                "name": one.name,
                "dtype": one.dtype,
                "dims": " x ".join(map(str, one.dims)) or "a scalar",
                "output": output,
            }
            for output, operands in ((False, task.inputs), (True, task.outputs))
            for one in operands
        ],
        "kernels": [
            {
                "tactic": one.tactic,
                "label": _cell(one.label),
                "why": _cell(one.why),
                "architectures": ", ".join(name for name in spec.architectures if (name, one.tactic) in spec.ptx),
            }
            for one in spec.kernels
        ],
        "ptx": ".".join(map(str, version)),
        "cuda": cuda_of(version),
        "steps": [{"what": _CHECKS[one.name], "verdict": _VERDICTS[one.verdict], "cases": one.cases} for one in steps],
        "inputs": ", ".join(one.name for one in task.inputs),
        "options": [f"'{one}'" for one in native.architecture_options(spec)],
        "sources": " ".join(native.sources(spec)),
        "library": native.library(spec),
    }
    return forms().get_template("README.md.j2").render(values)


def ptx_version(spec: Specification) -> tuple[int, int]:
    """The newest version of PTX that the kernels are written in; (0, 0) where none tells."""
    found = [one for text in spec.ptx.values() if (one := _PTX_VERSION.search(text))]
    return max(((int(one[1]), int(one[2])) for one in found), default=(0, 0))


def cuda_of(version: tuple[int, int]) -> str:
    """The first CUDA whose driver takes a version of PTX; "" where that is not known.

    PTX ISA, release notes: 8.0 to 8.5 came with CUDA 12.0 to 12.5, 8.6 with 12.7, 8.7 with 12.8, 8.8 with 12.9, and
    9.0 with 13.0. NVRTC 13.5 writes 9.5.
    """
    major, minor = version
    if major == 9:
        return f"13.{minor}"
    return f"12.{minor if minor <= 5 else minor + 1}" if major == 8 else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")
