"""`trtprof gpus`: the GPUs at hand, the datasheets asked for, and for which works there are expectations on each."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from profiler.base.records import GpuListing, GpuSheet
from profiler.expected import measured_on
from profiler.hardware import listing
from profiler.hardware.listing import Filters

__all__ = ["Filters", "gpus"]


def gpus(names: Sequence[str], filters: Filters) -> GpuListing:
    """The GPUs of these names or TOML paths, or without a name all that pass; see `hardware.listing`.

    Raises:
        UsageError: A name is not known, a file is broken, or a filter names what no datasheet has.
    """
    found = listing.named(names) if names else listing.known(filters)
    return msgspec.structs.replace(
        found,
        gpus=tuple(map(_with_measured, found.gpus)),
        live=tuple(
            live if live.sheet is None else msgspec.structs.replace(live, sheet=_with_measured(live.sheet))
            for live in found.live
        ),
    )


def _with_measured(sheet: GpuSheet) -> GpuSheet:
    return msgspec.structs.replace(sheet, measured=measured_on(sheet.spec))
