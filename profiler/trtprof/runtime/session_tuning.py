"""What an ONNX Runtime session may be tuned by: the one table of its keys, and what was chosen of it.

Keys without a dot are attributes of ``SessionOptions``, under ONNX Runtime's own names. Keys with one are session
entries (onnxruntime/core/session/onnxruntime_session_options_config_keys.h); ONNX Runtime takes any name for these,
and does nothing about one that it does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

import msgspec

from trtprof.base.errors import UsageError

FLAG = "--sessionOption"
_ON_OFF = ("0", "1")


class Key(NamedTuple):
    """A key of the table."""

    does: str  # What it does, in a line
    values: tuple[str, ...] = ()  # Those that it takes; empty for any
    number: bool = False  # Whether it takes a whole number from 0 on

    @property
    def takes(self) -> str:
        """What may stand behind its ``=``, in words."""
        return "a whole number from 0 on" if self.number else " or ".join(self.values) if self.values else "a text"

    def allows(self, value: str) -> bool:
        """Whether it takes a value."""
        if self.number:
            return value.isascii() and value.isdigit()
        return value in self.values if self.values else bool(value)


KEYS: Mapping[str, Key] = {
    "graph_optimization_level": Key(
        "How far the graph is rewritten before it runs.", ("disable", "basic", "extended", "all")
    ),
    "execution_mode": Key("Whether branches of the graph run beside one another.", ("sequential", "parallel")),
    "inter_op_num_threads": Key("Threads for branches, where these run beside one another; 0: a core each.", (), True),
    "enable_cpu_mem_arena": Key("Keep memory that was given back for the next tensor.", _ON_OFF),
    "enable_mem_pattern": Key("Plan the memory of all tensors in one block, where shapes are the same.", _ON_OFF),
    "session.intra_op.allow_spinning": Key("Threads inside an op wait for work awake.", _ON_OFF),
    "session.inter_op.allow_spinning": Key("Threads for branches wait for work awake.", _ON_OFF),
    "session.intra_op.spin_duration_us": Key("For how many microseconds they do, inside an op.", (), True),
    "session.inter_op.spin_duration_us": Key("For how many microseconds they do, for branches.", (), True),
    "session.intra_op.spin_backoff_max": Key("Most pauses between two looks for work, inside an op.", (), True),
    "session.inter_op.spin_backoff_max": Key("Most pauses between two looks for work, for branches.", (), True),
    "session.force_spinning_stop": Key("They go to sleep when an inference has ended.", _ON_OFF),
    "session.intra_op_thread_affinities": Key("Cores that the threads inside an op are bound to, such as 1;2;3."),
    "session.dynamic_block_base": Key("Cut loops into blocks that shrink: so many for a thread at first.", (), True),
    "session.set_denormal_as_zero": Key("Numbers too small to be normal count as 0, which are slow.", _ON_OFF),
    "session.disable_prepacking": Key("Weights are not laid out for the kernel when the session is made.", _ON_OFF),
    "session.use_device_allocator_for_initializers": Key("Weights lie outside of the arena.", _ON_OFF),
    "session.disable_aot_function_inlining": Key("Functions of the model become nodes late.", _ON_OFF),
    "session.graph_optimizations_loop_level": Key("How often rewrites are tried again.", ("0", "1", "2")),
    "session.disable_quant_qdq": Key("Nodes between QuantizeLinear and DequantizeLinear stay in floats.", _ON_OFF),
    "session.disable_double_qdq_remover": Key("Two pairs of these in a row stay two.", _ON_OFF),
    "session.enable_quant_qdq_cleanup": Key("Pairs of these that are left over are removed.", _ON_OFF),
    "session.qdq_matmulnbits_accuracy_level": Key(
        "What a product with 4-bit weights computes in at least: 1 fp32, 2 fp16, 3 bf16, 4 int8; 0: as the model says.",
        ("0", "1", "2", "3", "4"),
    ),
    "optimization.enable_gelu_approximation": Key("Gelu by tanh: other values, by 1e-3 or so.", _ON_OFF),
    "optimization.enable_cast_chain_elimination": Key("Casts in a row become one: other rounding.", _ON_OFF),
    "optimization.disable_specified_optimizers": Key("Names of rewrites to leave out, with ; between."),
    "mlas.enable_gemm_fastmath_arm64_bfloat16": Key("On Arm: products of fp32 in bf16.", _ON_OFF),
    "mlas.disable_kleidiai": Key("On Arm: no kernels of KleidiAI.", _ON_OFF),
    "mlas.use_lut_gemm": Key("Products with 2-bit weights by tables.", _ON_OFF),
    "cuda.cudnn_conv_algo_search": Key(
        "On CUDA: how cuDNN finds its algorithm for a convolution.", ("EXHAUSTIVE", "HEURISTIC", "DEFAULT")
    ),
    "cuda.prefer_nhwc": Key("On CUDA: convolutions with channels last.", _ON_OFF),
}  # fmt: skip
"""What is known to change how fast a session is."""

CUDA = "cuda."  # Keys that begin so are options of the CUDA provider, under their own names behind it

PREFIXES = ("session.", "optimization.", "mlas.", "ep.")
"""How further keys may begin: of another version of ONNX Runtime, or of no use to speed."""

_OURS = {
    "intra_op_num_threads": "--threads sets it",
    "session.intra_op_num_threads": "--threads sets it",
    **{f"session.{key}": f"{key} sets it" for key in KEYS if "." not in key},
    **dict.fromkeys(
        (
            "session.optimized_model_filepath", "session.optimized_model_external_initializers_file_name",
            "session.optimized_model_external_initializers_min_size_in_bytes",
            "session.model_external_initializers_file_folder_path", "session.record_ep_graph_assignment_info",
            "session.enable_profiling", "session.compile_only",
        ),
        "trtprof sets it itself",
    ),
}  # fmt: skip
_SLIP = 0.94  # Likeness to a known key from which on another one is taken for a slip of the hand


class SessionTuning(msgspec.Struct, frozen=True, kw_only=True):
    """What a session is tuned by; by default what ONNX Runtime does unless told, with all graph optimisations."""

    graph_optimization_level: Literal["disable", "basic", "extended", "all"] = "all"
    execution_mode: Literal["sequential", "parallel"] = "sequential"
    inter_op_num_threads: int = 0
    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    entries: tuple[tuple[str, str], ...] = ()  # Session entries: key and value, in the order of the keys

    @classmethod
    def of(cls, values: Iterable[str]) -> SessionTuning:
        """What is chosen by texts such as ``execution_mode=parallel``; their order is of no account."""
        found: dict[str, str] = {}
        for text in values:
            key, equals, value = (part.strip() for part in text.partition("="))
            if not equals or not key:
                raise UsageError(
                    f"{FLAG} {text!r} cannot be read", why="it is KEY=VALUE", fix=f"{FLAG} execution_mode=parallel"
                )
            _check(key, value)
            if found.setdefault(key, value) != value:
                raise UsageError(f"{FLAG} gives {key} twice", why=f"{found[key]} and {value}", fix="leave one away")
        fields: dict[str, Any] = {key: _value(KEYS[key], value) for key, value in found.items() if "." not in key}
        entries = tuple(sorted((key, value) for key, value in found.items() if "." in key))
        made = cls(**fields, entries=entries)
        if made.inter_op_num_threads and made.execution_mode != "parallel":
            raise UsageError(
                f"{FLAG} inter_op_num_threads={made.inter_op_num_threads} is of no use alone",
                why="nodes run one after the other: there are no branches for these threads",
                fix=f"add {FLAG} execution_mode=parallel",
            )
        return made

    @property
    def changed(self) -> dict[str, str]:
        """What is not as by default, by its key, in the order of `KEYS`; `of` makes the same of it again."""
        usual = SessionTuning()
        plain = {
            name: _text(getattr(self, name))
            for name in self.__struct_fields__
            if name != "entries" and getattr(self, name) != getattr(usual, name)
        }
        return plain | dict(self.entries)

    @property
    def texts(self) -> tuple[str, ...]:
        """`changed` as it is typed."""
        return tuple(f"{key}={value}" for key, value in self.changed.items())

    @property
    def of_cuda(self) -> dict[str, str]:
        """What is chosen of the options of the CUDA provider, by their own names."""
        return {key.removeprefix(CUDA): value for key, value in self.entries if key.startswith(CUDA)}

    def apply(self, options: Any) -> None:
        """Set an ``onnxruntime.SessionOptions`` so."""
        import onnxruntime as ort

        levels = ort.GraphOptimizationLevel
        options.graph_optimization_level = {
            "disable": levels.ORT_DISABLE_ALL, "basic": levels.ORT_ENABLE_BASIC,
            "extended": levels.ORT_ENABLE_EXTENDED, "all": levels.ORT_ENABLE_ALL,
        }[self.graph_optimization_level]  # fmt: skip
        parallel = self.execution_mode == "parallel"
        options.execution_mode = ort.ExecutionMode.ORT_PARALLEL if parallel else ort.ExecutionMode.ORT_SEQUENTIAL
        options.inter_op_num_threads = self.inter_op_num_threads
        options.enable_cpu_mem_arena = self.enable_cpu_mem_arena
        options.enable_mem_pattern = self.enable_mem_pattern
        for key, value in self.entries:
            if key.startswith(CUDA):
                continue  # of the provider, not of the session
            options.add_session_config_entry(key, value)


def _value(key: Key, text: str) -> bool | int | str:
    return text == "1" if key.values == _ON_OFF else int(text) if key.number else text


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _check(key: str, value: str) -> None:
    if key in _OURS:
        raise UsageError(f"{FLAG} cannot set {key}", why=_OURS[key], fix="leave it away")
    known = KEYS.get(key)
    if known is None:
        near = get_close_matches(key, KEYS, n=3)
        if key.startswith(PREFIXES) and key not in PREFIXES and not get_close_matches(key, KEYS, n=1, cutoff=_SLIP):
            if not value:
                raise UsageError(f"{FLAG} {key} has no value", why="it is KEY=VALUE", fix=f"{FLAG} {key}=1")
            return
        raise UsageError(
            f"{FLAG} {key} is not known",
            why=f"alike: {', '.join(near)}" if near else f"known: {', '.join(KEYS)}",
            fix=f"{FLAG} {near[0]}=..." if near else f"further keys begin with {', '.join(PREFIXES)}",
        )
    if not known.allows(value):
        raise UsageError(
            f"{FLAG} {key}={value} is not possible", why=f"it takes {known.takes}: {known.does}",
            fix=f"{FLAG} {key}={known.values[0] if known.values else '1'}",
        )  # fmt: skip
