"""Kernels of PyTorch: ATen's templates over functors and lambdas."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trtprof.kernel_names.identifiers import op_of
from trtprof.kernel_names.record import Fields
from trtprof.kernel_names.signatures import leading_types, pointer_types
from trtprof.kernel_names.symbols import ANONYMOUS, LAMBDA, Part, Term, dtype

_TORCH_BARE = frozenset((
    "vectorized_elementwise_kernel", "unrolled_elementwise_kernel", "CatArrayBatchedCopy",
    "CatArrayBatchedCopy_vectorized", "CatArrayBatchedCopy_aligned16_contig", "vectorized_gather_kernel",
    "multi_tensor_apply_kernel", "vectorized_layer_norm_kernel", "indexSelectLargeIndex", "indexSelectSmallIndex",
    "cunn_SoftMaxForward", "cunn_SoftMaxForwardSmem", "cunn_SoftMaxBackward", "tensor_kernel_scan_innermost_dim",
))  # fmt: skip
"""Functions that no other library has; profilers drop the namespace from short names."""
_TORCH_ANONYMOUS = frozenset(("softmax_warp_forward", "softmax_warp_backward", "elementwise_kernel_with_index"))
BARE = _TORCH_BARE | _TORCH_ANONYMOUS  # ATen's short names, which have nothing behind them
_TORCH_OPS = (
    ("vectorized_elementwise_kernel", "elementwise"), ("unrolled_elementwise_kernel", "elementwise"),
    ("elementwise_kernel_with_index", "elementwise"), ("index_elementwise_kernel", "elementwise"),
    ("legacy_elementwise_kernel", "elementwise"), ("elementwise_kernel", "elementwise"),
    ("elementwise_kernel_manual_unroll", "elementwise"), ("reduce_kernel", "reduce"),
    ("CatArrayBatchedCopy", "concat"), ("softmax_warp_forward", "softmax"),
    ("softmax_warp_backward", "softmax_backward"), ("vectorized_gather_kernel", "gather"),
    ("multi_tensor_apply_kernel", "elementwise"), ("max_pool_forward", "pooling"),
    ("max_pool_backward", "pooling_backward"), ("vectorized_layer_norm_kernel", "layer_norm"),
    ("layer_norm", "layer_norm"), ("indexSelect", "gather"), ("batch_norm", "batch_norm"),
    ("distribution_elementwise", "rng"),
)  # fmt: skip
_FUNCTORS = {
    "MulFunctor": "mul", "DivFunctor": "div", "AddFunctor": "add", "CUDAFunctor_add": "add",
    "CUDAFunctorOnSelf_add": "add", "CUDAFunctorOnOther_add": "add", "AbsFunctor": "abs", "FillFunctor": "fill",
    "CompareEqFunctor": "equal", "CompareFunctor": "compare", "MeanOps": "mean", "WelfordOps": "variance",
    "sum_functor": "sum", "MaxOps": "max", "MaxNanFunctor": "max", "MinNanFunctor": "min", "ArgMaxOps": "argmax",
    "ArgMinOps": "argmin", "NormTwoOps": "norm", "BitwiseAndFunctor": "and", "BitwiseOrFunctor": "or",
    "multiplies": "mul", "plus": "add", "direct_copy_kernel_cuda": "copy", "arange_cuda_out": "arange",
}  # fmt: skip
_WRAPPERS = ("BinaryFunctor", "AUnaryFunctor", "BUnaryFunctor")
_KERNEL_IN_NAME = re.compile(
    r"(.+?)(?:_scalar|_tensor_scalar)?(?:_kernel(?:_cuda|_impl|_cuda_impl)?|_cuda|CUDAKernelImpl)\Z"
)


def pytorch(term: Term, *, complete: bool) -> Fields | None:
    """Kernels of ATen: element-wise maps with a functor or a lambda, reductions, concatenations, softmax."""
    name = term.last.name
    spaces = term.names[:-1]
    torch = spaces[:1] in (("at",), ("at_cuda_detail",), ("c10",)) or "native" in spaces
    anonymous = spaces == (ANONYMOUS,) and name in _TORCH_ANONYMOUS
    if not (torch or anonymous or (complete and name in _TORCH_BARE)):
        return None
    fields: Fields = {"family": "pytorch"}
    if not complete:
        return fields
    op = next((op for begin, op in _TORCH_OPS if name.startswith(begin)), None) or op_of(name)
    if name.startswith("conv_depthwise"):
        # ATen's own depthwise convolutions are plain loops.
        return fields | {"op": "conv", "unit": "simt", "evidence": name, "ops": ("depthwise",)}
    if op in (None, "gemm", "conv", "gemv", "attention"):
        return fields | ({"op": op} if op else {})
    fields |= {"op": op, "unit": "none", "evidence": name}
    return fields | _torch_details(term.last, name)


def _torch_details(part: Part, name: str) -> Fields:
    fields: Fields = {}
    args = part.args or ()
    if name.startswith("vectorized_elementwise_kernel") and args and args[0].value:
        fields["vector"] = args[0].value
    if "elementwise_kernel" in name:
        functor = next((arg for arg in args if arg.parts and dtype(arg) is None), None)
        if functor is not None:
            fields |= _functor(functor)
            # These take a function of an index; only ATen's wrappers tell what it does with which types.
            bare = not name.startswith(("vectorized", "unrolled")) and not any("gpu_" in each for each in functor.names)
            casts = bare or _casts(functor) or any(arg.last.name in ("LoadWithCast", "StoreWithCast") for arg in args)
            if casts or (name.startswith("unrolled") and not part.args_end):
                # What is in memory is converted on the way, from and to types that only the launch knows.
                fields.pop("dtype_in", None)
                fields.pop("dtype_out", None)
    elif name == "reduce_kernel":
        reduce = next((arg.last for arg in args if arg.last.name == "ReduceOp"), None)
        if reduce is not None:
            fields |= _reduction(reduce)
    elif name.startswith("softmax_warp_") and (kinds := leading_types(args)):
        # <input, output, accumulator, ...>
        fields["dtype_in"] = kinds[0]
        if len(kinds) > 2:
            fields |= {"dtype_out": kinds[1], "dtype_acc": kinds[2]}
    elif name.startswith("CatArrayBatchedCopy") and args:
        # The data are opaque words where only their size counts.
        if kind := dtype(args[0]):
            fields |= {"dtype_in": kind, "dtype_out": kind}
        if name.endswith("_vectorized") and part.args_end and len(args) > 6 and args[6].value:
            fields["vector"] = args[6].value
    elif name.startswith("max_pool_") and (kinds := leading_types(args)):
        fields |= pointer_types(part)
    elif name == "multi_tensor_apply_kernel":
        fields |= _multi_tensor(args)
    return fields


def _casts(functor: Term) -> bool:
    """Whether the branch of ``gpu_kernel_impl`` that converts may have launched it: its first lambda does not."""
    if not any(part.name == "gpu_kernel_impl" for part in functor.parts):
        return False
    number = functor.last.args[0].value if functor.last.name == LAMBDA and functor.last.args else None
    return number != 1


def _functor(term: Term) -> Fields:
    """What a functor or a lambda does, and its types: ``BinaryFunctor<in, in, out, MulFunctor<float>>``."""
    fields: Fields = {}
    # `gpu_kernel_impl_nocast<F>(...)::(lambda)` wraps the functor that counts.
    for part in term.parts:
        if part.name.startswith("gpu_kernel_impl") and part.args:
            return _functor(part.args[0])
        if part.name == "gpu_index_kernel" and part.args:
            # It moves rows of bytes by indices.
            return {"ops": _functor(part.args[0]).get("ops", ())}
    last = term.last
    args = last.args or ()
    if last.name in _WRAPPERS:
        kinds = leading_types(args)
        if kinds:
            fields["dtype_in"] = kinds[0]
        if len(kinds) > 2:
            fields["dtype_out"] = kinds[2]
        inner = next((arg for arg in args[3:] if arg.parts), None)
        if inner is not None and (ops := _functor(inner).get("ops")):
            fields["ops"] = ops
        return fields
    if last.name in _FUNCTORS:
        fields["ops"] = (_FUNCTORS[last.name],)
        kinds = leading_types(args)
        if kinds and last.name == "FillFunctor":
            fields["dtype_out"] = kinds[0]
        elif kinds:
            fields["dtype_in"] = kinds[0]
            if last.name.startswith("CUDAFunctor") or last.name == "AbsFunctor":
                fields["dtype_out"] = kinds[0]
        return fields
    if last.name == LAMBDA:
        if last.params and (kind := dtype(last.params[0])):
            fields["dtype_in"] = kind
        function = next((part for part in reversed(term.parts) if part.name not in (LAMBDA, "operator")), None)
        if function is not None:
            known = _FUNCTORS.get(function.name)
            plain = _KERNEL_IN_NAME.fullmatch(function.name)
            op = known or (plain[1] if plain else function.name)
            fields["ops"] = (op.lower(),)
            if op == "arange":
                fields.pop("dtype_in", None)
        if function is not None and (function.name == "where_kernel_impl" and last.params):
            # where(condition, a, b): the values, not the condition.
            fields.pop("dtype_in", None)
            if len(last.params) > 1 and (kind := dtype(last.params[1])):
                fields["dtype_in"] = kind
    return fields


def _reduction(reduce: Part) -> Fields:
    """``ReduceOp<scalar, ops, index, result, ...>``; the ops name their accumulator second."""
    args = reduce.args or ()
    fields: Fields = {}
    if args and (kind := dtype(args[0])):
        fields["dtype_in"] = kind
    if len(args) > 3 and (kind := dtype(args[3])):
        fields["dtype_out"] = kind
    if len(args) > 1:
        ops = args[1].last
        if ops.name == "func_wrapper_t" and ops.args and len(ops.args) > 1:
            inner = next((part for part in ops.args[1].parts if part.name in _FUNCTORS), ops.args[1].last)
            ops = inner
        if ops.name in _FUNCTORS:
            fields["ops"] = (_FUNCTORS[ops.name],)
        kinds = leading_types(ops.args)
        if len(kinds) > 1:
            fields["dtype_acc"] = kinds[1]
    return fields


def _multi_tensor(args: Sequence[Term]) -> Fields:
    fields: Fields = {}
    functor = next((arg for arg in args if "Functor" in arg.last.name), None)
    if functor is not None and (kinds := leading_types(functor.last.args)):
        fields |= {"dtype_in": kinds[0], "dtype_out": kinds[0]}
    ops = tuple(_FUNCTORS[arg.last.name] for arg in args if arg.last.name in _FUNCTORS)
    return fields | ({"ops": ops} if ops else {})
