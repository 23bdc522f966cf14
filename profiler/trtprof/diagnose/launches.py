"""How the kernels of a layer lie on the SMs of the GPU that ran them, as far as the capture tells their launches."""

from __future__ import annotations

import math
from typing import NamedTuple

from trtprof.base.occupancy import SM_LIMITS, Occupancy, Waves, occupancy, waves
from trtprof.base.records import LayerResult, Match
from trtprof.diagnose import Case
from trtprof.kernel_names.parse import KernelName


class Launch(NamedTuple):
    """A kernel of a layer and how it was launched."""

    match: Match  # The kernel, with its launch
    name: KernelName  # What its name says
    ns: int  # Its part of the time of the layer, by the time that its launches took
    resident: Occupancy  # How many of its blocks one SM holds at once
    grid: Waves  # How all of them fill the GPU
    sms: int  # SMs of the GPU
    most_warps: int  # Warps that one SM can hold

    @property
    def rounds(self) -> int:
        """Blocks that the busiest SM has."""
        return -(-self.match.blocks // self.sms)

    @property
    def last_round(self) -> int:
        """SMs that have a block in the last round."""
        return self.match.blocks - (self.rounds - 1) * self.sms

    @property
    def occupied(self) -> float:
        """Warps that run at once, as a share of those that the GPU can hold."""
        at_once = min(self.resident.blocks_per_sm, self.match.blocks / self.sms)
        return at_once * self.resident.warps_per_sm / self.resident.blocks_per_sm / self.most_warps

    @property
    def words(self) -> str:
        """``132 blocks of 256 threads on 128 SMs``."""
        match = self.match
        return f"{match.blocks:,} block{'s' if match.blocks > 1 else ''} of {match.threads} threads on {self.sms} SMs"


def launches(case: Case, layer: LayerResult) -> tuple[Launch, ...]:
    """Kernels of a layer whose launch is known, most time first; none on a CPU or without known SM limits."""
    spec = case.spec
    limits = None if spec is None else SM_LIMITS.get(spec.compute_capability)
    total = sum(match.total_ns for match in layer.kernels)
    if spec is None or limits is None or not total:
        return ()
    sms = int(spec.sms.value)
    found = []
    for match, name in case.kernel_names(layer):
        if not (match.blocks and match.threads):
            continue
        try:
            resident = occupancy(spec.compute_capability, match.threads, match.registers, match.shared_bytes)
        except ValueError:
            # No such block can be launched: the capture, or the GPU that it was made on, is not what it is taken for.
            continue
        if not resident.blocks_per_sm:
            continue
        cluster = math.prod(int(part) for part in name.cluster.split("x")) if name.cluster else 1
        fits = cluster > 0 and match.blocks % cluster == 0 and cluster <= resident.blocks_per_sm * sms
        grid = waves(match.blocks, resident.blocks_per_sm, sms, cluster if fits else 1)
        ns = layer.measured_ns * match.total_ns // total
        found.append(Launch(match, name, ns, resident, grid, sms, limits.warps))
    return tuple(found)


def excess_ns(case: Case, layer: LayerResult) -> int:
    """What a layer took longer than a healthy kernel of its work; 0 where its work, or a part of it, is not known."""
    if layer.role != "compute" or layer.attainable_ns is None or layer.lost_ns is None or layer.name in case.partial:
        return 0
    reached = case.thresholds.of_datasheet if case.from_datasheet else 1.0
    if reached * layer.measured_ns <= layer.attainable_ns:
        return 0
    return max(min(layer.lost_ns, round(layer.measured_ns - layer.attainable_ns / reached)), 0)
