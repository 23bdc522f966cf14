"""A run without the names of its owner: what one may show to strangers, with every number as it was.

Names of the model, nodes, layers, tensors, files, tags, commands and hand-written kernels become ``node_0001``,
``layer_0001`` and so on: the same name the same word everywhere, in free text too. What one asks others about stays: op
types, dtypes, shapes, numbers, the device, kernels of vendors' libraries (`trtprof.kernel_names.parse` tells which).

`Run` is walked by its types. What a field of text holds, its type says (`records.Holds`); a field that does not say it
is taken for a name, so that a new one does not leak. Words of a few choices (``Literal``) and numbers hold no names.

Free text is cut into pieces and led through a tree of all names, the longest name first. Of what is left, everything
that looks like a path, a file, an address, a qualified or a quoted name is replaced as well. A name that is an ordinary
word (``output``), a number (``495``) or a letter (``x``) is replaced in text only between quotes: anywhere else it may
be no name, and tells nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import msgspec

from trtprof.base import units
from trtprof.base.name_tree import NameTree, Span
from trtprof.base.op_kinds import VENDORS_DOMAINS
from trtprof.base.records import Holds, LayerResult, LiveGpu, NodeResult, Run, Unsupported
from trtprof.base.records.texts import text_fields
from trtprof.kernel_names import mangled, symbols
from trtprof.kernel_names import parse as kernel_name

__all__ = ["Redaction", "redact", "redaction"]

_FIRST = ("model", "nodes", "layers", "graph", "plan")
"""Fields of a `Run` in the order in which their names are numbered; the others follow as declared."""

_DETAIL = frozenset((
    "architecture", "compute capability", "cores_from", "cpu_quota", "cpus_of_host", "datasheet", "family", "governor",
    "isa", "llc", "llc_instances", "logical_cpus", "max_clock_mhz", "memory_limit", "microcode", "model",
    "performance_cores", "power limit", "stepping", "vendor",
    *(field for field in LiveGpu.__struct_fields__ if field != "uuid"),
))  # fmt: skip
"""Details of a device that tell what it is, not whose: names of hosts, of kernels and serial numbers are no such."""

_PRODUCERS = (
    "pytorch", "onnx", "tf2onnx", "keras2onnx", "skl2onnx", "onnxmltools", "paddle", "onnxruntime", "onnx-ir", "mxnet",
    "trtprof sample_models", "cntk", "caffe2", "backend-test", "winmltools", "coremltools", "spox", "nndct", "torch",
)  # fmt: skip
"""Public exporters by how they call themselves."""

_VENDORS = frozenset((
    "xmma", "cublas", "nvjet", "cutlass", "cudnn", "cutensor", "myelin", "attention", "tensorrt", "onnxruntime",
    "pytorch", "cub", "thrust", "nccl", "trtllm", "deepgemm",
))  # fmt: skip
"""Families of `kernel_name.KernelName` that no user wrote. Triton's and CuTe's are compiled from what users write."""

_NAMESPACES = frozenset((
    "at", "c10", "caffe2", "std", "cuda", "cudnn", "cutlass", "cute", "cub", "thrust", "onnxruntime", "flash",
    "pytorch_flash", "cublas", "cublasLt", "cask", "cask_trt", "cask_cudnn_infer", "cask_cudnn_train", "nvinfer1",
    "internal", "detail", "function_traits", "epilogue", "genericReformat", "cuEltwise", "cuInt8", "cuSliceLayer",
    "cuResizeLayer", "cuSoftMaxLayer", "cuDepthwise", "CUTENSOR_NAMESPACE", "cutensor", "PyTorchMemEffAttention",
    "tensorrt_llm", "xmma_new", "nvjet", "DSE", "gemv", "dot", "cutlass__5x_cudnn", "native", "kernel", "gemm", "conv",
    "deep_gemm", "flashinfer", "vllm",
    symbols.ANONYMOUS, symbols.LAMBDA,
))  # fmt: skip
"""Where identifiers in kernels of vendors live; a name with any other namespace in it has a part by somebody else."""

_TRANSFER = re.compile(
    r"\[?(?:CUDA )?mem(?:cpy|set)(?:[ :]?(?:HtoD|DtoH|DtoD|HtoH|PtoP|HtoA|AtoH|Host-to-Device|Device-to-Host|"
    r"Device-to-Device|[A-Za-z]+ ?-> ?[A-Za-z]+))?\]?",
    re.IGNORECASE,
)
_CALL = re.compile(
    r"(?:cuda(?:Launch|Memcpy|Memset|Event|Stream|Graph|Malloc|Free|Device|Func|Host)|"
    r"cu(?:Launch|Memcpy|Memset|Event|Stream|Graph|Mem|Ctx|Func|Module))[A-Za-z0-9]*(?:_v\d+)?(?:_ptsz)?"
)
"""Calls of the CUDA runtime and driver, as a host shows them."""
_PROVIDER = re.compile(r"(CPU|CUDA|Tensorrt|TensorRT|NvTensorRTRTX|DML|Dnnl|XNNPACK):(\w+)")
"""A kernel as the profile of ONNX Runtime names it: the provider and the op."""

_WORDS = """
    a about above after all allocation allowed amx an and any are arena around as at atomic attainable attention
    auto aux average avx axes axis back backend bandwidth batch before behind below best between bf bf16 bfloat16
    bias bit bits block blocks bool both bound bounded bounds build builder by byte bytes cache call calls can
    cannot case cast casts ceiling ceilings cell change channel channels chw class clock clocks coarse code cold
    column columns command compute computed concat const constant constants context control conv convolution copies
    copy core cores cost count counted counts coverage cpu cross cublas cuda cudagraph cudnn cupti cut cutlass cycle
    data dataset datasheet decode decoder default dense depth depthwise device dim dimension dims dispatch div do
    does double down dram driver dropout dropped dtype duration dynamic each edge effects elements elementwise
    eliminated embedding enabled encode encoder end engine epilogue equal error estimate every exact example
    execution expected expert explained export fact fake false far fast faster features few ffn file files fill
    filter final find finding first flag flags float float16 float32 float64 floor flop flops fma folded for forward
    found fp fp16 fp32 fp64 fp8 from full func function functions fused fusion gain gap gaps gate gather gb gelu
    gemm gemv gflop ghz gib give global gpu graph graphs group groups half hand head heads held here hidden high
    hmma host how hwc hz idle if image images imma in index indices inference inferences inferred info initializer
    inner inplace input inputs int int16 int32 int4 int64 int8 integer integers inter internal intra is isa it item
    iteration iterations its join kb kept kernel kernels key keys kflop khz kib kind l1 l2 l3 label labels large
    largest last latency launch launches layer layers layout least length less level library limit limited line
    linear list llc load local logits long loop lost low lower machine made main map mask masks match matched math
    matmul matrix matter matters max maximum mb mean means measure measured median memory mflop mhz mib mix mlp mnk
    mode model models module more most ms mul multiple multiplies myelin name named names narrow nchw nchwc neon net
    network new next nhwc no node nodes noise noisy none nor norm not note nothing ns nsys null number numbers
    nvidia nvtx of off on once one ones only onnx onnxruntime op open operand operator operators ops opset opt
    optimization option options or order other others out outer output outputs over own pad padded padding pads
    parallel parameter parameters part parts pass path pattern peak per pflop place plan plugin plugins point
    pointwise pool pooling position positions post power precision predict predicted prefill prior probabilities
    product products profile profiled profiler projection provider python pytorch qdq quantize quantized query
    random range ranges rate ratio reach read reads reason reduce reduction reformat register registers relu reorder
    repeat rest result results reuse roof roofline root rope row rows rule rules run runs runtime same sample
    samples scale scales scan score scores second seed self sequence sequential session set sfu shape shaped shapes
    share shared short shows side sigmoid silu simd simt single size sizes slice slot slow slower sm small smaller
    smem sms softmax some source sparse speed split square sse stage stages start state states static stem step
    steps stop store stream streams string style sub sum table take taken target tb tensor tensorrt tensors test
    text tf tf32 tflop than that the their them then there these they third this thread threads tib tile tiles time
    times tiny to token tokens too top torch total train transformer transpose triton trtprof true try turn type
    types uint uint16 uint32 uint64 uint8 under uniform unit units unknown until up upper us use used user value
    values variance vector view vnni vocabulary wait wall warp warps was wave waves way weight weights what when
    where which while whole why width wise with without word words work worker worse worst write writes written
    wrong zero zeros
"""
_ORDINARY = frozenset(_WORDS.split())
"""Words that models name things by and that the texts of trtprof are made of as well: alone they tell nothing."""

_WORD = re.compile(r"\w")
_QUOTES = "'\"`\u2018\u2019\u201c\u201d"
_SUFFIXES = (
    "onnx|ort|data|engine|plan|trt|rtx|py|pt|pth|ckpt|safetensors|npy|npz|json|sqlite|nsys-rep|ncu-rep|qdrep|csv|tsv|so|"
    "dll|dylib|log|cache|timing|txt|yaml|yml|html|parquet|pb|pbtxt|bin|tflite|h5|md|xml|cu|cpp|h|hpp|sh"
)
_TOKEN = re.compile(r"[\w./\\~+@:$#-]+")
_QUOTED = re.compile(r"(?<!\w)['\"`\u2018\u201c]([^'\"`\u2019\u201d\n]{1,400})['\"`\u2019\u201d](?!\w)")
_PATH = re.compile(r"(?:[A-Za-z]:\\|\\\\|~?/)[\w.$~]")
"""How an absolute path begins, also of Windows, and a name of a node that looks like one."""
_FILE = re.compile(rf"(?:\A|[\w./\\~+-])\w\.(?:{_SUFFIXES})(?:\.\d+)*\Z", re.IGNORECASE)
_USER = re.compile(r"[\w.+-]+@[\w-][\w.-]*")
_HOME = re.compile(r"(?:/home/|/Users/|[A-Za-z]:\\Users\\)([^/\\\s'\":]+)")
_OP_WORD = re.compile(r"([\w.]+)(::)?")  # A word of an op type, and whether it is the domain of the next
_DIGITS = 4


class Redaction(NamedTuple):
    """A run without names, and which word stands for which name."""

    run: Run
    names: dict[str, str]  # Word -> name, in the order of their numbers


def redact(run: Run, private: Iterable[str] = ()) -> Run:
    """The run without names; see `redaction`."""
    return redaction(run, private).run


def redaction(run: Run, private: Iterable[str] = ()) -> Redaction:
    """The run without names, and which word stands for which name."""
    names = _Names(run)
    for word in private:
        names.word("user", word)
    plan = text_fields(Run)
    order = [*_FIRST, *(field for field in Run.__struct_fields__ if field not in _FIRST)]
    for field in order:
        rewrite = plan.get(field)
        if rewrite is not None:
            rewrite(getattr(run, field), names.collected)
    names.close()
    changed = {field: rewrite(getattr(run, field), names.replaced) for field, rewrite in plan.items()}
    found = msgspec.structs.replace(run, **changed)
    return Redaction(found, {word: name for name, word in names.words.items()})


# --- names ----------------------------------------------------------------------------------


class _Names:
    """All names of a run and what stands for them."""

    def __init__(self, run: Run) -> None:
        self.words: dict[str, str] = {}
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}
        self._tree = NameTree()
        self._kept: set[str] = set()
        self._texts: dict[str, str] = {}
        self._dims: list[str] = []
        rows: list[LayerResult | NodeResult | Unsupported] = [*run.layers, *run.nodes, *run.unsupported]
        self._own = run.own_names
        words = {word for each in rows for word in re.findall(r"\w+", each.op_type)}
        self._ops = {word for word in words if not self._is_own_op(word)}
        self._ordinary = _ORDINARY | set(units.DTYPE_BITS) | {word.lower() for word in self._ops}
        self._model = run.model.name

    def word(self, kind: str, name: str) -> str:
        """What stands for a name; numbered at its first use."""
        if not name.strip():
            return name
        found = self.words.get(name)
        if found is None:
            found = self._model_word(name) if kind == "model" else self._numbered(kind, name)
            self.words[name] = found
            self._taken.add(found)
        return found

    def _numbered(self, kind: str, name: str) -> str:
        end = ""
        if kind == "file":
            match = re.search(rf"\.(?:{_SUFFIXES})\Z", name, re.IGNORECASE)
            end = match[0].lower() if match else ""
        while True:
            self._numbers[kind] = number = self._numbers.get(kind, 0) + 1
            word = f"{kind.rstrip('_')}_{number:0{_DIGITS}d}{end}"
            if word not in self._taken:
                return word

    @staticmethod
    def _model_word(name: str) -> str:
        return "model.onnx" if name.lower().endswith(".onnx") else "model"

    def collected(self, value: str, rule: Holds, key: str) -> str:  # noqa: ARG002 - as `replaced`
        """Take note of a name; texts wait until all names are known."""
        kind = rule.kind
        if kind == "kernel":
            if self._is_vendors(value):
                self._kept.add(value)
            else:
                self.word(kind, value)
        elif kind == "model":
            self.word(kind, value)
        elif kind == "file":
            self._file(value)
        elif kind == "dim":
            if value not in ("", "?"):
                self.word(kind, value)
        elif kind == "domain":
            if value not in VENDORS_DOMAINS:
                self.word(kind, value)
        elif kind == "op":
            for word, is_domain in _OP_WORD.findall(value):
                if is_domain and word not in VENDORS_DOMAINS:
                    self.word("domain", word)
        elif kind == "name":
            self.word(self._own[value], value)
        elif kind not in ("safe", "text", "place", "detail", "producer"):
            self.word(kind, value)
        return value

    def _file(self, path: str) -> None:
        """A path, its last part, and the name of the model where the file has it."""
        for user in _HOME.findall(path):
            self.word("user", user)
        base = re.split(r"[\\/]", path)[-1]
        stem = re.sub(rf"\.(?:{_SUFFIXES})\Z", "", base, flags=re.IGNORECASE)
        of_model = self._model and stem == re.sub(r"\.onnx\Z", "", self._model, flags=re.IGNORECASE)
        for name in (path, base, stem) if of_model else (path, base):
            if of_model and name not in self.words and name.strip():
                self.words[name] = "model.onnx" if name.lower().endswith(".onnx") else "model"
            else:
                self.word("file", name)

    def close(self) -> None:
        """All names are known: build the tree that texts are led through."""
        for name in (*self._kept, *self.words):
            self._tree.plant(name, name if name in self._kept else self.words[name])
        # Sentences shorten long names to their last part.
        for name, word in self.words.items():
            last = name.rpartition("/")[2]
            if last != name and not self._is_harmless(last):
                self._tree.plant(last, word)
        self._dims = [
            name for name, word in self.words.items() if word.startswith("dim_") and not self._is_ordinary(name)
        ]

    def replaced(self, value: str, rule: Holds, key: str) -> str:
        """The text without names."""
        kind = rule.kind
        if kind == "safe":
            return value
        if kind in ("text", "place"):
            if kind == "place" and value in self.words:
                return self.words[value]
            return self.text(value)
        if kind == "detail":
            # Of a key of its own ``key`` is empty: those that are known stay as they are.
            return self.text(value) if (key or value) in _DETAIL else self.word("text_", value)
        if kind == "producer":
            known = value.lower().startswith(_PRODUCERS) and (value not in self.words)
            return self.text(value) if known else self.word("producer", value)
        if kind == "op":
            return _OP_WORD.sub(self._op_word, value)
        if kind == "kernel" and value in self._kept:
            # A vendor's kernel that has a name of this model in it is not the vendor's alone.
            found = self._tree.spans(value, self._is_name)
            return value if not found or found == [Span(0, len(value), value)] else self.word("kernel", value)
        if kind == "domain" and value in VENDORS_DOMAINS:
            return value
        if kind == "dim" and value in ("", "?"):
            return value
        return self.word(kind, value)

    def _op_word(self, found: re.Match[str]) -> str:
        word, behind = found[1], found[2] or ""
        return (self.words.get(word, word) if behind or self._is_own_op(word) else word) + behind

    def _is_own_op(self, word: str) -> bool:
        """Whether an op type is of the user's own making."""
        return self._own.get(word) == "op"

    def text(self, value: str) -> str:
        """Prose without names."""
        found = self._texts.get(value)
        if found is None:
            found = self._texts[value] = self._rewritten(value)
        return found

    def _rewritten(self, value: str) -> str:
        names = self._tree.spans(value, self._is_name)
        # Dimensions stand between two ``x``, too: ``1xbatchx8``.
        for dim in self._dims:
            if dim in value:
                names += (Span(*found.span(), self.words[dim]) for found in re.finditer(re.escape(dim), value))
        spans = self._joined(value, names, self._suspects(value))
        if not spans:
            return value
        parts: list[str] = []
        at = 0
        for start, end, word in spans:
            parts += (value[at:start], word)
            at = end
        parts.append(value[at:])
        return "".join(parts)

    def _is_name(self, value: str, start: int, end: int) -> bool:
        """Whether what a text has in this place is the name that it looks like."""
        name = value[start:end]
        before, behind = value[start - 1 : start], value[end : end + 1]
        if self._is_ordinary(name):
            return bool(before) and before in _QUOTES and bool(behind) and behind in _QUOTES
        if len(name) < 4:
            return not _WORD.match(before) and not _WORD.match(behind)
        return True

    def _is_ordinary(self, name: str) -> bool:
        if len(name) <= 2 or not any(char.isalpha() for char in name):
            return True
        return name.lower() in self._ordinary

    def _suspects(self, value: str) -> list[Span]:
        """What looks like a name in a text, known or not; the word is the kind of name."""
        found = []
        for match in _TOKEN.finditer(value):
            token = match[0].rstrip(".:-")
            kind = self._suspicion(token)
            if kind:
                found.append(Span(match.start(), match.start() + len(token), kind))
        for match in _QUOTED.finditer(value):
            quoted = match[1]
            if not self._is_harmless(quoted) and not quoted.startswith(("trtprof ", "--")):
                found.append(Span(*match.span(1), "name"))
        return found

    def _suspicion(self, token: str) -> str:
        """What kind of name a word of a text may be; empty where it looks like none."""
        if "@" in token and _USER.fullmatch(token):
            return "user"
        if _PATH.match(token):
            return "file"
        if "." in token and _FILE.search(token[-40:]):
            return "file"
        if ("::" in token or "_" in token or token.count("/") > 1) and not self._is_harmless(token):
            return "name"
        return ""

    def _is_harmless(self, text: str) -> bool:
        """Whether there is nothing in it but ordinary words, or it is a kernel of a vendor."""
        words = re.findall(r"[^\W\d_]+", text)
        if all(len(word) <= 2 or word.lower() in self._ordinary for word in words) and "::" not in text:
            return True
        return self._is_vendors(text)

    def _joined(self, value: str, names: list[Span], suspects: list[Span]) -> list[Span]:
        """Both without overlaps: what holds a name is a name, as a whole."""
        result: list[Span] = []
        for span in sorted((*names, *(span._replace(word="\0" + span.word) for span in suspects))):
            if result and span.start < result[-1].end:
                last = result.pop()
                start, end = last.start, max(last.end, span.end)
                # A known name that covers the whole wins over a suspicion.
                covering = next((each for each in (last, span) if (each.start, each.end) == (start, end) and
                                 not each.word.startswith("\0")), None)  # fmt: skip
                kind = next((each.word for each in (last, span) if each.word.startswith("\0")), "\0name")
                result.append(covering or Span(start, end, kind))
            else:
                result.append(span)
        return [
            span._replace(word=self.word(span.word[1:], value[span.start : span.end]))
            if span.word.startswith("\0")
            else span
            for span in result
        ]

    # --- kernels ----------------------------------------------------------------------------

    def _is_vendors(self, name: str) -> bool:
        """Whether a kernel is of a library of a vendor, all of it."""
        if _TRANSFER.fullmatch(name) or _CALL.fullmatch(name):
            return True
        if provided := _PROVIDER.fullmatch(name):
            return provided[2] in self._ops
        return _is_library_kernel(name)


@lru_cache(maxsize=65_536)
def _is_library_kernel(name: str) -> bool:
    if kernel_name.parse(name).family not in _VENDORS:
        return False
    text = name.strip()[: kernel_name.MAX_LENGTH]
    term, _ = mangled.read(text) if text.startswith("_Z") else symbols.read(text)
    stack = [term]
    while stack:
        term = stack.pop()
        if len(term.parts) > 1 and term.parts[0].name not in _NAMESPACES:
            return False
        for part in term.parts:
            stack += (*(part.args or ()), *(part.params or ()))
    return True
