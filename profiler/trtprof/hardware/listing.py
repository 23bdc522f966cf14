"""What `trtprof gpus` shows: the GPUs at hand, and the datasheets asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from trtprof.base.errors import TrtprofError, UsageError
from trtprof.base.records import SCHEMA_VERSION, GpuListing, GpuSheet, GpuSpec, LiveGpu, LiveSheet
from trtprof.hardware import gpus, nvml

_CLASSES = ("datacenter", "workstation", "geforce", "jetson")


class Filters(NamedTuple):
    """Which datasheets to list; empty or None is all."""

    architecture: str = ""
    compute_capability: str = ""  # ``8.9``, ``89`` or ``sm_89``
    product_class: str = ""
    min_memory_gib: float | None = None
    dtype: str = ""  # One that tensor cores multiply


def known(filters: Filters) -> GpuListing:
    """The GPUs at hand, then all datasheets that pass: by class, newest architecture and fastest first."""
    checked = _checked(filters)
    specs = [spec for spec in gpus.specs().values() if _passes(spec, checked)]
    specs.sort(key=_order)
    found, note = nvml.gpus()
    return GpuListing(
        schema_version=SCHEMA_VERSION,
        live=tuple(map(_live, found)),
        live_note=note,
        gpus=tuple(sheet(spec) for spec in specs),
    )


def named(names: Sequence[str]) -> GpuListing:
    """The datasheets of these names or TOML paths, in that order; the first is what the others are compared with."""
    specs = list({spec.slug: spec for spec in map(gpus.find, names)}.values())
    return GpuListing(
        schema_version=SCHEMA_VERSION,
        live=(),
        live_note="",
        gpus=tuple(sheet(spec, specs[0] if len(specs) > 1 else None) for spec in specs),
    )


def sheet(spec: GpuSpec, first: GpuSpec | None = None) -> GpuSheet:
    """A datasheet with its roof and ridge points, and its figures over those of ``first``."""
    roof = gpus.ceilings(spec, tf32=False).attainable
    base = first.figures if first else {}
    return GpuSheet(
        spec=spec,
        roof=roof,
        ridge=gpus.ridge_points(roof),
        relative={
            name: figure.value / base[name].value
            for name, figure in spec.figures.items()
            if name in base and base[name].value
        },
    )


def _live(gpu: LiveGpu) -> LiveSheet:
    try:
        spec, reason = nvml.spec_of(gpu)
    except TrtprofError as error:
        return LiveSheet(gpu=gpu, sheet=None, reason=f"{error.what}: {error.why}")
    return LiveSheet(gpu=gpu, sheet=sheet(spec), reason=reason)


def _order(spec: GpuSpec) -> tuple[int, tuple[int, ...], float, str]:
    newest = tuple(-int(part) for part in spec.compute_capability.split("."))
    return _CLASSES.index(spec.product_class), newest, -spec.vector_flops_per_s["fp32"].value, spec.slug


def _passes(spec: GpuSpec, filters: Filters) -> bool:
    return (
        (not filters.architecture or spec.architecture.casefold() == filters.architecture)
        and (not filters.compute_capability or spec.compute_capability == filters.compute_capability)
        and (not filters.product_class or spec.product_class == filters.product_class)
        and (filters.min_memory_gib is None or spec.memory_bytes.value >= filters.min_memory_gib * (1 << 30))
        and (not filters.dtype or filters.dtype in spec.tensor_flops_per_s)
    )


def _checked(filters: Filters) -> Filters:
    """The filters as datasheets spell it."""
    specs = gpus.specs().values()

    def one(option: str, asked: str, spelled: str, of: Callable[[GpuSpec], Collection[str]]) -> str:
        have = {value for spec in specs for value in of(spec)}
        if asked and spelled not in {value.casefold() for value in have}:
            raise UsageError(
                f"no GPU has {option} {asked}",
                why="those of the datasheets are " + ", ".join(sorted(have)),
                fix="choose one of these, or leave the option away",
            )
        return spelled

    digits = filters.compute_capability.casefold().removeprefix("sm").removeprefix("_")
    if digits.isdigit() and len(digits) > 1:
        digits = f"{digits[:-1]}.{digits[-1]}"
    dtype = filters.dtype.casefold()
    return Filters(
        architecture=one(
            "--arch", filters.architecture, filters.architecture.casefold(), lambda spec: [spec.architecture]
        ),
        compute_capability=one("--cc", filters.compute_capability, digits, lambda spec: [spec.compute_capability]),
        product_class=one(
            "--class", filters.product_class, filters.product_class.casefold(), lambda spec: [spec.product_class]
        ),
        min_memory_gib=filters.min_memory_gib,
        dtype=one(
            "--dtype", filters.dtype, gpus.SHORT_DTYPES.get(dtype, (dtype,))[0],
            lambda spec: list(spec.tensor_flops_per_s),
        ),
    )  # fmt: skip
