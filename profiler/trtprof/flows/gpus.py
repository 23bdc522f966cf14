"""The GPUs at hand, the datasheets asked for, and for which works there are expectations on each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from trtprof.base.errors import UsageError
from trtprof.base.records import GpuListing, GpuSheet, GpuSpec
from trtprof.expected import measured_on
from trtprof.hardware import gpus as datasheets
from trtprof.hardware import listing
from trtprof.hardware.listing import Filters

__all__ = ["Filters", "asked_or_here", "gpus"]


def gpus(names: Sequence[str], filters: Filters) -> GpuListing:
    """The GPUs of these names or TOML paths, or without a name all that pass; see `hardware.listing`."""
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


def asked_or_here(names: Sequence[str], say: Callable[[str], None] = lambda _: None) -> list[GpuSpec]:
    """The GPUs that are asked for, or the first that is here."""
    found = {spec.slug: spec for spec in map(datasheets.find, names)}
    if found:
        return list(found.values())
    from trtprof.hardware import nvml

    live, why = nvml.gpus()
    if not live:
        few = ", ".join(sorted(datasheets.specs())[:5])
        raise UsageError(
            "which GPU? none is named with --gpu, and none is here",
            why=why,
            fix=f"--gpu NAME, such as {few}; `trtprof gpus` lists them all",
        )
    spec, reason = nvml.spec_of(live[0])
    say(f"{live[0].name}: {reason}")
    return [spec]
