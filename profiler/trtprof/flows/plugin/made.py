"""The kernel for a layer: the nodes that it computes, the template that writes it, and what NVRTC makes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trtprof.base.errors import UsageError
from trtprof.base.records import GpuSpec, KernelBuild, Source
from trtprof.flows.plugin.brief import Subject, nodes_of
from trtprof.flows.plugin.inserted import model_of
from trtprof.hardware import gpus
from trtprof.plugin.build import Built, build
from trtprof.plugin.kernel import Kernel, write
from trtprof.plugin.model import Model
from trtprof.plugin.select import Choice, choices, chosen
from trtprof.plugin.specification import Specification
from trtprof.plugin.task import Task
from trtprof.source.load import LoadedModel

TYPICAL = ("t4", "a100-sxm4-80gb", "rtx-3090", "rtx-4090", "h100-sxm5", "b200", "rtx-5090")
"""A GPU of each architecture that kernels are compiled for, whose bandwidth stands for it in the brief."""


class Made(NamedTuple):
    """A kernel for a layer."""

    model: Model  # That the plugin is put into
    choice: Choice  # The nodes that it computes
    template: str  # That wrote it
    built: tuple[Built, ...]  # Its variants, compiled
    dims: dict[str, int]  # What named dimensions of the task are in this brief
    refused: dict[str, str]  # What other templates do not know of the task, by name
    notes: tuple[str, ...] = ()  # What else is to be said

    @property
    def task(self) -> Task:
        """What it computes."""
        return self.choice.task

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of the inputs of the task, as they are in this brief."""
        return self.task.shapes(self.dims)

    @property
    def specification(self) -> Specification:
        """What a plugin is written from: the variants that are used on an architecture at least."""
        used = [one for one in self.built if one.ptx]
        ptx = {(name, one.kernel.tactic): text for one in used for name, text in one.ptx.items()}
        return Specification(self.task, tuple(one.kernel for one in used), ptx)

    def best_for(self, spec: GpuSpec | None) -> KernelBuild | None:
        """The variant that is predicted to draw most on a GPU, as it was compiled for it; None without one."""
        if spec is None:
            return None
        name = f"sm_{spec.compute_capability.replace('.', '')}"
        found = [one for each in self.built for one in each.builds if one.architecture == name and not one.dropped]
        return max(found, key=lambda one: one.bandwidth or 0.0, default=None)


class NotMade(NamedTuple):
    """Why there is no kernel for a layer."""

    why: str  # In a sentence
    # What each template does not know of the main node alone, by name
    refused: dict[str, str] = {}  # noqa: RUF012 - nobody changes it


def kernel_for(subject: Subject, loaded: LoadedModel, source: Source, *, alone: bool) -> Made | NotMade:
    """A kernel for a layer, of the largest region around it that a template knows."""
    names = nodes_of(subject)
    last = NotMade("no template knows it")
    for bound in (None, source):
        model = model_of(loaded, names, bound)
        try:
            found = list(_choices(model, names, alone=alone))
        except UsageError as error:
            last = NotMade(f"{error.what}: {error.why}" if error.why else error.what)
            continue
        for choice in found:
            try:
                written = write(choice.task)
            except UsageError as error:
                last = NotMade(f"{error.what}: {error.why}")
                continue
            if written.kernels:
                notes = () if bound is None or not _open(source) else (_FIXED,)
                done = _built(subject, model, choice, written.kernels, written.refused, source, notes)
                if any(one.ptx for one in done.built):
                    return done
                last = NotMade(f"of the {written.kernels[0].template} kernels each variant spills", written.refused)
                continue
            last = NotMade(_why(choice.task), written.refused)
    return last


_FIXED = "the kernel is for the shapes that were asked for: how its sizes follow from those of inputs is not known"


def _open(source: Source) -> bool:
    """Whether callers choose dimensions of the model."""
    return any(not isinstance(dim, int) for tensor in source.model.inputs for dim in tensor.declared)


def _why(task: Task) -> str:
    return f"no template knows {task.main} with these operands"


def _choices(model: Model, names: Sequence[str], *, alone: bool) -> Iterator[Choice]:
    """What a kernel could compute, most nodes first."""
    if len(names) > 1:
        try:
            whole = chosen(model, names)
        except UsageError:
            main = None
        else:
            main = next(node for node in whole.task.nodes if model.node(model.named(node)).op_type == whole.task.main)
            yield whole
    else:
        main = names[0]
    for name in (main,) if main is not None else names:
        found = choices(model, name)
        yield from found[-1:] if alone else found


def _built(
    subject: Subject,
    model: Model,
    choice: Choice,
    kernels: Sequence[Kernel],
    refused: dict[str, str],
    source: Source,
    notes: tuple[str, ...],
) -> Made:
    task = choice.task
    dims = _dims(task, source)
    built = build(task, kernels, task.shapes(dims), _gpus(subject.spec))
    template = kernels[0].template
    dropped = [f"{one.kernel.label} is used on no architecture" for one in built if not one.ptx]
    return Made(model, choice, template, built, dims, refused, (*notes, *dropped))


def _gpus(spec: GpuSpec | None) -> list[GpuSpec]:
    return [*([spec] if spec is not None else []), *map(gpus.find, TYPICAL)]


def _dims(task: Task, source: Source) -> dict[str, int]:
    """What named dimensions of a task are at the shapes of a source."""
    known = {
        tensor.name: tensor.shape
        for node in source.nodes
        for tensor in (*node.op.inputs, *node.op.outputs)
        if tensor is not None and tensor.shape is not None
    }
    found: dict[str, int] = {}
    for operand in task.inputs:
        for dim, size in zip(operand.dims, known.get(operand.tensor, ()), strict=False):
            if isinstance(dim, str) and isinstance(size, int):
                found.setdefault(dim, size)
    return found
