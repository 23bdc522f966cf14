"""Output shapes of ops for which onnx has no shape inference: those of runtimes, and some of ai.onnx.ml.

What is not known of an input stays open in what follows from it: a rank as None, a dimension as ``?``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from trtprof.base.records import Op, Tensor
from trtprof.base.registry import Registry

Rule = Callable[[Op], Sequence[Tensor | None]]

RULES: Registry[tuple[str, str], Rule] = Registry("shape rule", "trtprof.source.shape_rules", "trtprof.shape_rules")


def rule(*op_types: str, domain: str) -> Callable[[Rule], Rule]:
    """Decorator that files a rule under op types of one domain."""
    return RULES.register(*((domain, op_type) for op_type in op_types))


def rules(domain: str, table: Mapping[str, Rule]) -> None:
    """File rules of one line under op types of one domain, several of them with spaces between."""
    for op_types, function in table.items():
        rule(*op_types.split(), domain=domain)(function)


def has_rule(op_type: str, domain: str) -> bool:
    """Whether there is a rule for an op."""
    return RULES.get((domain, op_type)) is not None


def ops_with_rules(domain: str) -> frozenset[str]:
    """The op types of a domain that have a rule."""
    keys = RULES.keys()
    return frozenset(op_type for each, op_type in keys if each == domain)


def outputs_by_rule(op: Op) -> Sequence[Tensor | None] | None:
    """The outputs of an op under their names, or None when no rule knows it or the op is not as defined.

    An integer input may carry its value although it is no constant: a shape that is known may decide another.
    """
    found = RULES.get((op.domain, op.op_type))
    if found is None:
        return None
    try:
        made = found(op)
    except (LookupError, ValueError, TypeError, ArithmeticError):
        return None
    return [
        None if asked is None or tensor is None else msgspec.structs.replace(tensor, name=asked.name)
        for asked, tensor in zip(op.outputs, made, strict=False)
    ]
