"""What the model of expected times looks at: terms of the roofline, sizes, tiles and the datasheet.

No name of a GPU, a kernel or a library is in it, and all of it is known before a run. Arrays have one entry a layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trtprof.base import units
from trtprof.base.peaks import peak_flops, special_rate
from trtprof.base.records import Ceilings, Core, GpuSpec, Work

Array = npt.NDArray[np.float64]

TILES = ((32, 32), (64, 32), (64, 64), (128, 64), (64, 128), (128, 128), (128, 256), (256, 128))
"""Rows and columns of the result that a thread block of a library's kernels computes (CUTLASS, "Default GEMM
configurations"; the names of cuBLAS's kernels have the same)."""

SPLITS = (1, 2, 4, 8, 16)
"""Into how many parts libraries cut the sum of a product that would leave multiprocessors idle."""

_REUSE = 96.0
"""Side of the square tile from which on shared memory feeds the multipliers: smaller ones read it too often."""

_PICOJOULES = ((8.9, 4.2), (8.0, 6.0), (0.0, 14.0))
"""What a FLOP of a product costs on CUDA cores, from a compute capability on: in chips of 5 and 4 nm, 7 and 8 nm,
12 nm. With the last a T4 is foretold from other boards within 21 % instead of 30 %, and they no worse; the others are
what TSMC says that its processes save: 7 nm 58 % against 12 nm, and 5 nm 30 % of that."""

_BUSY = 0.85
"""Share of a board's power that its multiprocessors can have."""

_STEP = 32
"""What the inner loop of a product sums up at a time."""


class Device(NamedTuple):
    """The datasheet of a GPU as features have it. Rates are in FLOP, bytes and evaluations per second."""

    sms: float
    mhz: float
    dram: float
    l2: float
    l2_bytes: float
    capability: float
    watts: float
    launch_ns: float
    ceilings: Ceilings


def device_of(spec: GpuSpec, ceilings: Ceilings) -> Device:
    """The device of a datasheet, with the ceilings that it is set against."""
    roof = ceilings.attainable
    return Device(
        sms=spec.sms.value,
        mhz=spec.boost_mhz.value,
        dram=roof.dram_bytes_per_s,
        l2=max(roof.cache_bytes_per_s, roof.dram_bytes_per_s),
        l2_bytes=float(ceilings.cache_bytes),
        capability=float(spec.compute_capability),
        watts=spec.tdp_w.value,
        launch_ns=ceilings.launch_ns,
        ceilings=ceilings,
    )


class Rows(NamedTuple):
    """Works with a core, in columns: its dimensions (`Core`), FLOP, evaluations and bytes."""

    batch: Array
    m: Array
    n: Array
    k: Array
    window: Array
    stride: Array
    shared: Array
    causal: Array
    tensor: Array
    saved: Array
    vector: Array
    special: Array
    read: Array
    written: Array
    width: Array  # Bytes of an element of what is multiplied, or computed with
    peak: Array
    vector_peak: Array
    special_peak: Array

    @property
    def size(self) -> int:
        """How many there are."""
        return self.m.size


def rates(device: Device, dtype: str, accumulator: str = "", functions: Sequence[str] = ()) -> tuple[float, ...]:
    """Bytes of an element, and FLOP/s of products, FLOP/s of all else and evaluations per second at a dtype."""
    roof = device.ceilings.attainable
    slower = roof.fp32_accumulate_flops_per_s if accumulator == "fp32" else None
    vector = peak_flops(roof.vector_flops_per_s, dtype)
    special = min(special_rate(roof, name) for name in functions or ("exp",)) if roof.special_per_s else vector
    return (units.DTYPE_BITS.get(dtype, 32) / 8, peak_flops(roof.tensor_flops_per_s, dtype, slower), vector, special)


def rows_of(works: Sequence[tuple[Work, Core]], device: Device) -> Rows:
    """The columns of works and their cores."""
    known: dict[tuple[str, str, tuple[str, ...]], tuple[float, ...]] = {}
    columns = []
    for work, core in works:
        place = work.dtype or "fp32", work.accumulator, tuple(work.special)
        if place not in known:
            known[place] = rates(device, *place)
        columns.append((*_dims(core), work.fewest_tensor_flops, work.fast_flops, work.vector_flops,
                        sum(work.special.values()), work.bytes_read, work.bytes_written, *known[place]))  # fmt: skip
    return Rows(*np.array(columns, dtype=np.float64).reshape(len(columns), len(Rows._fields)).T)


def _dims(core: Core) -> tuple[int, ...]:
    return core.batch, core.m, core.n, core.k, core.window, core.stride, core.shared, core.causal


def features(rows: Rows, device: Device, *, product: bool = False) -> tuple[dict[str, Array], Array]:
    """The features of every row by name, and the time in ns that expectations are multiples of.

    That time is the roofline with every byte from DRAM, and a launch; of a ``product``, also a convolution as one, that
    of its best tile where it is longer, or what the board's power allows.
    """
    moved = rows.read + rows.written
    tensor = rows.tensor / rows.peak * 1e9
    vector = rows.vector / rows.vector_peak * 1e9
    special = rows.special / rows.special_peak * 1e9
    dram = moved / device.dram * 1e9
    warm = np.maximum(moved - device.l2_bytes, 0) / device.dram * 1e9
    l2 = moved / device.l2 * 1e9
    roof = np.maximum.reduce([tensor, vector, special, dram, np.ones_like(dram)])
    tile, chosen = _tiled(rows, device, dram) if product else (roof, {})
    held = _power_held(rows, device) if product else roof
    base = np.maximum.reduce([roof, tile, held]) + device.launch_ns
    clock = device.mhz * 1e6
    found = {
        "roof": _log(roof),
        "tensor / dram": _log(tensor + 1) - _log(dram + 1),
        "vector / dram": _log(vector + 1) - _log(dram + 1),
        "special / dram": _log(special + 1) - _log(dram + 1),
        "l2 / dram": _log(l2 + 1) - _log(dram + 1),
        "warm / dram": _log(warm + 1) - _log(dram + 1),
        "bytes / cache": _log(moved) - _log(device.l2_bytes),
        "launch / roof": _log(device.launch_ns) - _log(roof),
        "written": rows.written / np.maximum(moved, 1),
        "width": rows.width,
        "batch": _log(rows.batch),
        "m": _log(rows.m),
        "n": _log(rows.n),
        "k": _log(rows.k),
        "window": rows.window,
        "stride": rows.stride,
        "shared": rows.shared,
        "causal": rows.causal,
        "saved": rows.saved / np.maximum(rows.tensor + rows.saved, 1),
        "elements an SM": _log(rows.batch * rows.m * rows.n / device.sms),
        "rows an SM": _log(rows.batch * rows.m / device.sms),
        "FLOP an element": _log(rows.vector / np.maximum(rows.batch * rows.m * rows.n, 1) + 0.01),
        "special an element": rows.special / np.maximum(rows.batch * rows.m * rows.n, 1),
        "SM time / dram": _log((rows.batch * rows.m * rows.n) / device.sms / clock * 1e9 + 1) - _log(dram + 1),
        "tiled / roof": _log(tile) - _log(roof),
        **{name: _log(column) for name, column in chosen.items()},
        "SMs": np.full_like(roof, device.sms),
        "clock": np.full_like(roof, device.mhz),
        "capability": np.full_like(roof, device.capability),
        "DRAM an SM": np.full_like(roof, device.dram / device.sms / 1e9),
        "L2 / DRAM rate": np.full_like(roof, device.l2 / device.dram),
        "FLOP a byte": _log(rows.peak / device.dram),
        "FLOP an SM and clock": _log(rows.peak / device.sms / clock),
        "watts a TFLOP/s": _log(device.watts / rows.peak * 1e12),
        "watts an SM": np.full_like(roof, device.watts / device.sms),
    }  # fmt: skip
    if not product:
        return found, base
    for name, dims in (("m", rows.m), ("n", rows.n), ("k", rows.k)):
        found[f"{name} even"] = sum((dims % step == 0).astype(np.float64) for step in (2, 8, 32, 64, 128))
    for height, width in ((64, 64), (128, 64), (128, 128), (128, 256)):
        tiles = np.ceil(rows.m / height) * np.ceil(rows.n / width) * rows.batch
        waves = tiles / device.sms
        used = rows.m * rows.n * rows.batch / (tiles * height * width)
        found[f"waves {height}x{width}"] = _log(waves)
        found[f"used {height}x{width}"] = waves / np.ceil(waves) * used
    return found, base


def soonest(rows: Rows, device: Device) -> Array:
    """What no kernel is faster than, in ns: products, and bytes through the L2 and those that it cannot hold."""
    moved = rows.read + rows.written
    beyond = np.maximum(moved - device.l2_bytes, 0) / device.dram
    return np.asarray(np.maximum.reduce([rows.tensor / rows.peak, moved / device.l2, beyond]) * 1e9)


def _power_held(rows: Rows, device: Device) -> Array:
    joules = next(cost for capability, cost in _PICOJOULES if device.capability >= capability) * 1e-12
    on_cuda_cores = rows.peak <= rows.vector_peak
    allowed = device.watts * _BUSY or np.inf
    return np.where(on_cuda_cores, rows.tensor * joules / allowed * 1e9, 0.0)


def _tiled(rows: Rows, device: Device, dram: Array) -> tuple[Array, dict[str, Array]]:
    """The time in ns of the best tile of a product, and what that tile is.

    Blocks run in waves over the multiprocessors, each as long as its own products take; every block reads its rows
    and columns from the L2; parts of a sum are added up once more.
    """
    best = np.full(rows.size, np.inf)
    chosen = {name: np.zeros(rows.size) for name in ("tile rows", "tile columns", "splits", "waves", "wave used")}
    a_unit = rows.peak / device.sms
    for height, width in TILES:
        reuse = min(1.0, 2 / (1 / height + 1 / width) / _REUSE)
        blocks = np.ceil(rows.m / height) * np.ceil(rows.n / width) * rows.batch
        for split in SPLITS:
            tiles = blocks * split
            depth = np.ceil(rows.k / split / _STEP) * _STEP
            waves = tiles / device.sms
            computing = np.ceil(waves) * 2 * height * width * depth / (a_unit * reuse) * 1e9
            feeding = tiles * (height + width) * depth * rows.width / device.l2 * 1e9
            time = np.maximum.reduce([computing, feeding, dram])
            if split > 1:
                adding = 2 * split * rows.batch * rows.m * rows.n * 4 / device.l2 * 1e9
                time = np.where(rows.k >= 128 * split, time + adding + device.launch_ns, np.inf)
            better = time < best
            best = np.where(better, time, best)
            values: dict[str, Any] = {
                "tile rows": height, "tile columns": width, "splits": split, "waves": waves,
                "wave used": waves / np.ceil(waves),
            }  # fmt: skip
            for name, value in values.items():
                chosen[name] = np.where(better, value, chosen[name])
    return best, chosen


def _log(values: Any) -> Array:
    return np.log2(np.maximum(np.asarray(values, dtype=np.float64), 1e-6))
