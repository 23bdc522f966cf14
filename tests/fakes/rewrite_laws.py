"""What holds of every rewrite, of a drawn model: said as the first thing that does not hold, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnx import TensorProto, numpy_helper

from tests.fakes.random_graphs import Drawn
from tests.fakes.rewrites import nodes_of
from trtprof.capture.verify import check_outputs
from trtprof.rewrite import REWRITES, Rewrite, apply
from trtprof.rewrite.edit import Site
from trtprof.rewrite.model import opened, save


class Kept(NamedTuple):
    """What became of a model.

    Attributes:
        places: How many were changed.
        broken: The law that does not hold, in words; empty if all do.
        unstable: Whether nothing can be said of the outputs: a rounding of the inputs changes them as much.
    """

    places: int
    broken: str = ""
    unstable: bool = False


class Subject:
    """A model that rewrites are tried on; raises what ONNX's checker or ONNX Runtime raises of it.

    Args:
        drawn: The model and its inputs.
        folder: Where it is written.
    """

    def __init__(self, drawn: Drawn, folder: Path) -> None:
        onnx.checker.check_model(drawn.model, full_check=True)
        self.drawn = drawn
        self._file, self._changed = folder / "before.onnx", folder / "after.onnx"
        onnx.save(drawn.model, self._file)
        # Where no shape is fixed by a constant, a model takes other lengths too.
        others = [feed for feed in drawn.others if _takes(drawn.model, feed)]
        self._feeds = (*drawn.feeds, *others)
        self._expected = _outputs(drawn.model, self._feeds)
        self._names = [info.name for info in drawn.model.graph.output]
        types = {tensor.data_type for tensor in drawn.model.graph.initializer}
        half = TensorProto.FLOAT16 in types or any(
            attribute.i == TensorProto.FLOAT16 for node in nodes_of(drawn.model.graph) for attribute in node.attribute
        )
        halves = [info for info in drawn.model.graph.input if info.type.tensor_type.elem_type == TensorProto.FLOAT16]
        self._precision = "fp16" if half or halves else ""
        self._opened = opened(self._file)
        self._spare: ir.Model | None = None
        self._as_opened = _bytes(self._opened)
        # In the form in which onnx-ir writes: it leaves out fields that are empty.
        self._baseline = self._saved(self._opened.clone())

    def kept(self, rewrites: Sequence[str]) -> Kept:
        """Run rewrites one after another, and hold the result against the laws."""
        model = self._spare or self._opened.clone()
        sites: list[Site] = []
        self._spare = None
        try:
            for name in rewrites:
                sites += apply(_named(name), model)
        except Exception as error:
            return Kept(0, f"it raised {type(error).__name__}: {error}")
        if not sites:
            if _bytes(model) != self._as_opened:
                return Kept(0, "it changed a model in which it fits nowhere")
            self._spare = model
            return Kept(0)
        return self._held(rewrites, self._saved(model), sites)

    def _saved(self, model: ir.Model) -> onnx.ModelProto:
        save(model, self._changed)
        return onnx.load(self._changed)

    def _held(self, rewrites: Sequence[str], changed: onnx.ModelProto, sites: Sequence[Site]) -> Kept:
        places = len(sites)
        for one, other in (
            (self._baseline.graph.input, changed.graph.input),
            (self._baseline.graph.output, changed.graph.output),
        ):
            if [info.SerializeToString() for info in one] != [info.SerializeToString() for info in other]:
                return Kept(places, "inputs or outputs are others")
        try:
            onnx.checker.check_model(changed, full_check=True)
            found = _outputs(changed, self._feeds)
        except Exception as error:
            return Kept(places, f"the result is not valid, or does not run: {error}")
        stranger = touched(self._baseline, changed, {name for site in sites for name in site.before})
        if stranger:
            return Kept(places, f"it changed the node {stranger}, which it does not name")
        if len(rewrites) == 1 and (again := self._once_more(rewrites[0])):
            return Kept(places, again)
        exact = all(_named(name).exact for name in rewrites)
        wrong = self._wrong(found, self._expected, exact=exact)
        if wrong and not exact and self._moves_by_rounding():
            return Kept(places, unstable=True)
        return Kept(places, wrong)

    def _once_more(self, name: str) -> str:
        model = opened(self._changed)
        once = _bytes(model)
        sites = apply(_named(name), model)
        if sites:
            return f"it fits its own result: {sites[0]}"
        return "" if once == _bytes(model) else "it changed its own result"

    def _wrong(self, found: Sequence[list[Any]], expected: Sequence[list[Any]], *, exact: bool) -> str:
        for number, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
            for name, one, other in zip(self._names, mine, theirs, strict=True):
                if exact and not self._precision and not np.array_equal(one, other, equal_nan=one.dtype.kind == "f"):
                    return f"output {name} of inputs {number} is not the same bit by bit"
            for check in check_outputs(self._names, mine, theirs, tf32=False, precision=self._precision):
                if not check.matches:
                    return f"output {check.name} of inputs {number}: {check.reason}"
        return ""

    def _moves_by_rounding(self) -> bool:
        """Whether outputs change by more than is allowed where inputs and constants change by a few roundings."""
        random, moved = Random(0), onnx.ModelProto()
        moved.CopyFrom(self.drawn.model)
        for tensor in moved.graph.initializer:
            tensor.CopyFrom(numpy_helper.from_array(_moved(random, numpy_helper.to_array(tensor)), tensor.name))
        feeds = [{name: _moved(random, array) for name, array in feed.items()} for feed in self._feeds]
        return bool(self._wrong(_outputs(moved, feeds), self._expected, exact=False))


def _named(name: str) -> Rewrite:
    chosen = REWRITES.get(name)
    assert chosen is not None, name
    return chosen


def _bytes(model: ir.Model) -> bytes:
    return ir.to_proto(model).SerializeToString(deterministic=True)


def _moved(random: Random, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if array.dtype.kind != "f":
        return array
    generator = np.random.default_rng(random.randrange(2**16))
    by = 8 * np.finfo(array.dtype).eps
    moved: npt.NDArray[Any] = (array * (1 + by * generator.choice([-1, 1], array.shape))).astype(array.dtype)
    return moved


def touched(before: onnx.ModelProto, after: onnx.ModelProto, gone: set[str]) -> str:
    """A node that is another one than it was but for what it reads, and is not among those that went."""
    left = {node.name: node for node in nodes_of(after.graph)}
    whole = [node for node in nodes_of(before.graph) if node.name in gone]
    gone = gone | {node.name for one in whole for node in nodes_of(onnx.helper.make_graph([one], "", [], []))}
    for node in nodes_of(before.graph):
        if node.name not in gone and (node.name not in left or _own(node) != _own(left[node.name])):
            return str(node.name)
    return ""


def _own(node: onnx.NodeProto) -> bytes:
    """What a node says but for its inputs, and but for graphs in it, whose nodes are looked at one by one."""
    own = onnx.NodeProto()
    own.CopyFrom(node)
    del own.input[:]
    for attribute in own.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            attribute.ClearField("g")
    return own.SerializeToString(deterministic=True)


def _outputs(model: onnx.ModelProto, feeds: Sequence[dict[str, npt.NDArray[Any]]]) -> list[list[Any]]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    how = ort.RunOptions()
    how.log_severity_level = 4  # That it fails for some lengths is asked, and no news.
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [session.run(None, one, how) for one in feeds]


def _takes(model: onnx.ModelProto, feed: dict[str, npt.NDArray[Any]]) -> bool:
    try:
        _outputs(model, [feed])
    except Exception:
        return False
    return True


# --- the smallest model that still breaks a law ---------------------------------------------------


def smaller(drawn: Drawn, breaks: Callable[[Drawn], bool]) -> Drawn:
    """The model with as few nodes as still break a law: outputs are left out, and values become inputs.

    Args:
        drawn: A model that breaks it.
        breaks: Says of a model whether it does.
    """
    while True:
        for candidate in _smaller_ones(drawn):
            try:
                if _size(candidate) < _size(drawn) and breaks(candidate):
                    drawn = candidate
                    break
            except Exception:  # noqa: S112 - the model is no model any more
                continue
        else:
            return drawn


def _size(drawn: Drawn) -> tuple[int, int]:
    return len(drawn.model.graph.node), len(drawn.model.graph.output)


def _smaller_ones(drawn: Drawn) -> Iterator[Drawn]:
    model = onnx.shape_inference.infer_shapes(drawn.model)
    infos = {info.name: info for info in (*model.graph.value_info, *model.graph.output)}
    inputs, outputs = list(model.graph.input), list(model.graph.output)
    if len(outputs) > 1:
        for output in outputs:
            yield _cut(drawn, model, inputs, [output])
            yield _cut(drawn, model, inputs, [one for one in outputs if one is not output])
    constants = {name for node in model.graph.node if node.op_type == "Constant" for name in node.output}
    given = {info.name for info in inputs}
    for info in reversed(infos.values()):
        if info.name not in given and info.name not in constants:
            if info not in outputs:
                yield _cut(drawn, model, [*inputs, info], outputs)
            yield _cut(drawn, model, inputs, [info])


def _cut(
    drawn: Drawn, model: onnx.ModelProto, inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[onnx.ValueInfoProto]
) -> Drawn:
    """The nodes between some values, with random values where there are new inputs."""
    needed, nodes = {info.name for info in outputs}, []
    given = {info.name for info in inputs}
    for node in reversed(model.graph.node):
        if any(name in needed and name not in given for name in node.output):
            nodes.append(node)
            needed.update(name for one in nodes_of(onnx.helper.make_graph([node], "", [], [])) for name in one.input)
    graph = onnx.helper.make_graph(
        nodes[::-1],
        "cut",
        [info for info in inputs if info.name in needed],
        outputs,
        [tensor for tensor in model.graph.initializer if tensor.name in needed],
    )
    cut = onnx.helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    generator = np.random.default_rng(0)
    feeds = []
    for feed in drawn.feeds[:1]:
        own = dict(feed)
        for info in inputs:
            if info.name not in own:
                tensor = info.type.tensor_type
                dims = [dim.dim_value or 2 for dim in tensor.shape.dim]
                dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
                own[info.name] = np.asarray(generator.uniform(-2, 2, dims), dtype)
        feeds.append({name: array for name, array in own.items() if name in needed})
    return Drawn(cut, tuple(feeds))
