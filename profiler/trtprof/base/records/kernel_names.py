"""What names of kernels and tactics say."""

from __future__ import annotations

import msgspec

from trtprof.base.records.common import NonNegative, Record


class NamedKernel(Record, frozen=True, kw_only=True):
    """What one name says (`kernel_names.record.KernelName`); None and ``unknown`` are what it does not say.

    In documents the dtypes are called ``in``, ``acc``, ``out`` and ``math``.
    """

    name: str
    family: str
    op: str
    arch: NonNegative | None
    """The least SM version it was written for, as 80."""
    unit: str
    """``tensor``, ``simt``, ``none`` or ``unknown``."""
    mma: str | None
    dtype_in: str | None = msgspec.field(name="in")
    dtype_acc: str | None = msgspec.field(name="acc")
    dtype_out: str | None = msgspec.field(name="out")
    layout: str | None
    tile: str | None
    stages: NonNegative | None
    split_k: bool | None
    alignment: dict[str, int] | None
    """Elements by operand: ``a``, ``b``, ``c``."""
    vector: NonNegative | None
    dtype_math: str | None = msgspec.field(name="math")
    cluster: str | None
    ops: tuple[str, ...]
    evidence: str | None
    """The part of the name that tells the unit."""


class KernelListing(Record, frozen=True, kw_only=True):
    """Names in the order asked for: the document of `trtprof kernel --format json`."""

    schema_version: int
    kernels: tuple[NamedKernel, ...]
