"""How many ops have a cost, of all that the installed ONNX and ONNX Runtime define.

    python scripts/bench/op_coverage.py

An op counts when every version of it that is in use has a cost function, or a function body that is
priced in its place. Deprecated versions are left out. Exit code 1 if an op of ``ai.onnx`` is missing.
"""

from __future__ import annotations

import sys

import onnx
from onnx import defs

from trtprof.cost import COSTS
from trtprof.cost.functions import has_body


def onnx_domains() -> dict[str, dict[str, list[bool]]]:
    """Of each op by domain: which versions have a cost."""
    found: dict[str, dict[str, list[bool]]] = {}
    for schema in defs.get_all_schemas_with_history():
        priced = COSTS.get((schema.domain, schema.name), schema.since_version) is not None or has_body(schema)
        if not schema.deprecated:
            found.setdefault(schema.domain or "ai.onnx", {}).setdefault(schema.name, []).append(priced)
    return found


def runtime_domains() -> dict[str, dict[str, list[bool]]]:
    """The same for the domains that ONNX Runtime adds, where it is installed."""
    try:
        import onnxruntime
        from onnxruntime.capi import _pybind_state
    except ImportError:
        return {}
    print(f"onnxruntime {onnxruntime.__version__}")
    found: dict[str, dict[str, list[bool]]] = {}
    for schema in _pybind_state.get_all_operator_schema():
        if schema.domain.startswith("com.m"):
            priced = COSTS.get((schema.domain, schema.name)) is not None
            found.setdefault(schema.domain, {}).setdefault(schema.name, []).append(priced)
    return found


def main() -> int:
    print(f"onnx {onnx.__version__}, opset {defs.onnx_opset_version()}")
    missing_in_onnx = 0
    for domain, ops in sorted({**onnx_domains(), **runtime_domains()}.items()):
        missing = sorted(name for name, versions in ops.items() if not all(versions))
        versions = [priced for found in ops.values() for priced in found]
        print(
            f"{domain}: {len(ops) - len(missing)} of {len(ops)} ops, {sum(versions)} of {len(versions)} versions",
            end="",
        )
        print(f"; without: {', '.join(missing)}" if missing else "")
        missing_in_onnx += len(missing) if domain == "ai.onnx" else 0
    return 1 if missing_in_onnx else 0


if __name__ == "__main__":
    sys.exit(main())
