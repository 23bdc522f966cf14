"""`trtprof plugin`: from a layer to a kernel by hand, and the proof that it is right.

`brief` says what a kernel would compute and win, `made` has it written and compiled, `folder` writes it out as a plugin
in both forms, `inserted` and the stage `trtprof.plugin` check it without a GPU, `bench` measures it on one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from trtprof.base.errors import MissingError, UsageError
from trtprof.base.records import SCHEMA_VERSION, Plugin, PluginBrief, Source
from trtprof.flows.plugin.brief import Subject, brief_of, subject_of
from trtprof.flows.plugin.folder import Target, again, keep
from trtprof.flows.plugin.made import Made, NotMade, kernel_for
from trtprof.flows.plugin.options import PluginOptions
from trtprof.flows.progress import SILENT, Progress
from trtprof.plugin.specification import VERSION
from trtprof.plugin.task import Task
from trtprof.source.load import LoadedModel
from trtprof.source.request import ModelRequest


class NotCompiledError(MissingError):
    """What compiles kernels is missing; there is the brief all the same."""

    def __init__(self, document: Plugin, error: MissingError) -> None:
        super().__init__(error.what, why=error.why, fix=error.fix)
        self.document = document


def make(options: PluginOptions, progress: Progress = SILENT) -> Plugin:
    """A kernel by hand for a layer, as far as it is asked for."""
    if options.steps == ("check",):
        return again(Path(options.folder or options.what), options, progress)
    target = Target.of(options)
    progress.stage("brief")
    subject = subject_of(options.what, options.layer, options.gpu, options.request, say=progress.note)
    if options.steps == ("brief",):
        return keep(_document(subject, brief_of(subject)), None, target, options, progress)
    missing: MissingError | None = None
    with _opened(subject, progress) as opened:
        if isinstance(opened, str):
            found: Made | NotMade = NotMade(opened)
        else:
            progress.stage("kernel")
            try:
                found = _made(subject, *opened, alone=options.alone)
            except MissingError as error:
                missing, found = error, NotMade(error.what)
        if isinstance(found, NotMade):
            document = keep(_without_kernel(subject, found), None, target, options, progress)
            if missing is not None:
                raise NotCompiledError(document, missing)
            return document
        document = _with_kernel(subject, found)
        return keep(document, found, target, options, progress, *opened)


@contextlib.contextmanager
def _opened(subject: Subject, progress: Progress) -> Iterator[tuple[LoadedModel, Source] | str]:
    """The model of a layer with its shapes; or why it is not at hand, in words."""
    request = subject.request
    if request is None and subject.run is not None:
        request = ModelRequest.of(subject.run.model.path)
    if request is None:
        yield "the model is not at hand"
        return
    with contextlib.ExitStack() as stack:
        try:
            loaded = stack.enter_context(request.opened(progress.detail))
        except (MissingError, UsageError) as error:
            yield f"the model is not at hand: {error.what}"
            return
        known = subject.source.model.sha256 if subject.source is not None else ""
        if request.spec is None and known and loaded.sha256 != known:
            yield f"{loaded.path} is not the model that this is about: it was changed since"
            return
        yield loaded, request.bound(loaded, feed=True)


def _made(subject: Subject, loaded: LoadedModel, source: Source, *, alone: bool) -> Made | NotMade:
    return kernel_for(subject._replace(source=subject.source or source), loaded, source, alone=alone)


def _document(subject: Subject, brief: PluginBrief) -> Plugin:
    model = subject.source.model.name if subject.source is not None else subject.run.model.name if subject.run else ""
    return Plugin(schema_version=SCHEMA_VERSION, model=model, name="", version=VERSION, brief=brief)


def _without_kernel(subject: Subject, why: NotMade) -> Plugin:
    document = _document(subject, brief_of(subject))
    return msgspec.structs.replace(
        document, refused=why.refused, notes=(f"no kernel is written: {why.why}", *document.notes)
    )


def _with_kernel(subject: Subject, found: Made) -> Plugin:
    """The brief with the kernel priced: the best variant for the GPU in question."""
    task = found.task
    operands = {one.tensor: one.name for one in (*task.inputs, *task.outputs)} | _numbers(subject, task)
    brief = brief_of(subject, task.nodes, operands, found.best_for(subject.spec))
    document = _document(subject, brief)
    return msgspec.structs.replace(
        document, name=task.name, template=found.template, refused=found.refused,
        variants=tuple(one.variant for one in found.built), notes=(*document.notes, *found.notes),
    )  # fmt: skip


def _numbers(subject: Subject, task: Task) -> dict[str, str]:
    """Constants of one element that are part of a kernel, by the names of their tensors in the model."""
    from onnx import numpy_helper

    ops = subject.ops
    values = {
        node.output[0]: numpy_helper.to_array(node.attribute[0].t)
        for node in task.body.node
        if node.op_type == "Constant"
    }
    found = {}
    nodes = [node for node in task.body.node if node.op_type != "Constant"]
    for name, node in zip(task.nodes, nodes, strict=True):
        for tensor, called in zip(ops[name].inputs if name in ops else (), node.input, strict=False):
            if tensor is not None and called in values and values[called].size == 1:
                found[tensor.name] = f"{float(values[called].reshape(())):.6g}"
    return found
