"""What can run on this machine."""

from __future__ import annotations

from typing import Literal

from trtprof.base.records.capture import Device
from trtprof.base.records.common import NonNegative, Record
from trtprof.base.records.gpus import LiveGpu


class Part(Record, frozen=True, kw_only=True):
    """A backend, a collector, a tool for plugins, for `try` or for fleets, or something that is broken."""

    kind: Literal["backend", "collector", "plugin", "try", "fleet", "left out"]
    name: str
    available: bool
    reason: str
    """What it is, or why it is of no use here."""
    fix: str = ""
    """What to do about that."""


class Machine(Record, frozen=True, kw_only=True):
    """What can run here, and why not the rest: the document of `trtprof doctor --format json`."""

    schema_version: int
    trtprof: str
    python: str
    platform: str
    onnxruntime: str
    device: Device
    gpus: tuple[LiveGpu, ...]
    gpus_note: str
    """In words, why there are none, or what could not be read; empty where all is well."""
    ceilings_kept: NonNegative
    """Devices, versions and thread counts whose ceilings were measured."""
    ceilings_folder: str
    parts: tuple[Part, ...]
    """Backends in the order of ``--backend auto``, collectors in that of ``--collector auto``, what makes and
    checks plugins, what runs fleets on more than this machine, what is left out."""
