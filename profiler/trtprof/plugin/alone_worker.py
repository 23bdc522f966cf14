"""The child process that measures a kernel alone: ``python -m trtprof.plugin.alone_worker REQUEST``; see `alone`."""

from __future__ import annotations

import ctypes
import itertools
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from trtprof.base.errors import CaptureError, MissingError
from trtprof.base.units import format_bytes, format_percent
from trtprof.plugin import folder as plugin_folder
from trtprof.plugin.alone import PAIRS, RACE, TIMED, WARM_UPS, Alone, AlonePair, AloneRequest, Checked, Rival
from trtprof.plugin.folder import PluginFolder
from trtprof.plugin.kernel import Kernel
from trtprof.plugin.reference import Array, Expected, difference, evaluate, numpy_dtype
from trtprof.plugin.task import Task
from trtprof.plugin.trials import Trial, drawn
from trtprof.runtime import child, cublas, cuda_driver, nvrtc
from trtprof.runtime.cuda_driver import Argument, Properties, answer_on_gpu
from trtprof.runtime.cuda_driver import Extent as Blocks

POISONS = (0xFF, 0x5A)
"""Bytes that outputs hold before they are written: NaN in all float formats, and something that is none."""
GUARD = 256  # Bytes before and behind an output that must not be touched
SOL_ATOL, SOL_RTOL, SOL_SHARE = 1e-2, 1e-2, 0.99
"""SOL-ExecBench's tolerance: ``|y - reference| <= atol + rtol |reference|`` of so many elements."""
SMALL = 3  # What open dimensions are, beside what they were in the brief: odd, and no multiple of anything

FLUSHED, LEAST_FLUSHED = 4, 256 << 20
"""So many times the L2 is read between launches, and at least so many bytes: the device is busy with them for longer
than the host takes to put what comes next on the stream."""
RAMP = 2000
"""So often more than the L2 is read before anything is timed: 0.1 s on the fastest GPUs, 0.5 s and more on others. The
clock of a GPU that had nothing to do meanwhile is down, and comes up slowly beside what is timed."""
POOLED, MOST_SETS = 2, 16
"""Inputs take turns that together are so many times the L2, as far as so many sets of them are enough."""
SHARE = 2  # At most one part in so many of the free memory is taken
ALGORITHMS_TRIED = 3
_WIDE = ("fp32", "fp64", "int32")  # What a library sums in where it takes turns: no kernel of ours sums in less

THREADS = 256
FLUSH = rb"""
typedef unsigned long long u64;
extern "C" __global__ void flush(const uint4 *from, u64 pieces, unsigned *sink) {
  unsigned found = 0;
  for (u64 at = blockIdx.x * (u64)blockDim.x + threadIdx.x; at < pieces; at += (u64)gridDim.x * blockDim.x) {
    uint4 piece = from[at];
    found |= piece.x | piece.y | piece.z | piece.w;
  }
  if (found) *sink = found; /* never: all of it is 0 */
}
"""

Run = Callable[[int], None]  # Puts one run on the stream, with inputs of that number


class Device(Protocol):
    """What is asked of a device; `cuda_driver.Gpu`."""

    @property
    def properties(self) -> Properties: ...
    def load(self, image: bytes) -> int: ...
    def full_wave(self, kernel: str, threads: int) -> int: ...
    def launch(self, kernel: str, blocks: Blocks, threads: Blocks, *arguments: Argument, module: int = 0) -> None: ...
    def elapsed_ns(
        self, enqueue: Callable[[], None], hold_ns: int = 0, before: Callable[[], None] | None = None
    ) -> float | None: ...
    def synchronize(self) -> None: ...
    def allocate(self, nbytes: int) -> int: ...
    def fill(self, address: int, byte: int, nbytes: int) -> None: ...
    def copy_to_device(self, target_address: int, source_address: int, nbytes: int) -> None: ...
    def read(self, address: int, nbytes: int) -> bytes: ...


class Products(Protocol):
    """The library of matrix products; `cublas.Library`."""

    version: str

    def algorithms(self, product: cublas.Product, extent: cublas.Extent, address: int) -> list[Callable[[], None]]: ...


Library = Callable[[int], Products]  # Opens it, given the address of `cublas.WORKSPACE` bytes of device memory


class Variant(NamedTuple):
    """A kernel that is loaded."""

    kernel: Kernel
    module: int


class Inputs(NamedTuple):
    """Inputs and outputs on the device."""

    shapes: tuple[tuple[int, ...], ...]  # Of the inputs
    arrays: tuple[Array, ...]  # The inputs
    at: tuple[int, ...]  # Their addresses
    outputs: tuple[int, ...]  # Addresses of the outputs, each with `GUARD` bytes before and behind it
    sizes: tuple[int, ...]  # Of the outputs in bytes


def main(argv: list[str]) -> int:
    """Entry point of the child; returns its exit code."""
    return answer_on_gpu(argv, AloneRequest, opened)


def opened(request: AloneRequest) -> Alone:
    """Measure on the device of the request."""
    with cuda_driver.device(request.ordinal, request.uuid) as gpu:
        found = gpu.properties
        architecture = nvrtc.target(found.capability, "sm_{}{}".format(*found.capability))
        flush = nvrtc.compile_source(FLUSH, architecture).image
        return measure(request, gpu, flush, lambda workspace: cublas.Library(workspace, int(gpu.stream)))


def measure(request: AloneRequest, gpu: Device, flush: bytes, library: Library | None = None) -> Alone:
    """Measure on a device; see `opened`. `library`: opens the library of products; None where there is none."""
    folder = Path(request.folder)
    bench = Bench(gpu, plugin_folder.load(folder), flush, request.seed)
    variants, left_out = bench.variants(folder)
    checks: tuple[Checked, ...] = ()
    raced: dict[int, float] = {}
    tactic = request.tactic
    if not tactic:
        checks = tuple(bench.checks(variants))
        if not all(check.ok for check in checks):
            return bench.told(checks=checks, left_out=left_out)
        bench.ramp()
        raced = {one.kernel.tactic: statistics.median(bench.times(one, RACE)) for one in variants}
        tactic = min(raced, key=lambda place: raced[place])
    variant = next(one for one in variants if one.kernel.tactic == tactic)
    rival = bench.rival(request.rival, library) if request.rival else None
    bench.warm_up(variant, rival)
    began = time.monotonic_ns()
    pairs = tuple(bench.pairs(variant, rival, request.first))
    ended = time.monotonic_ns()
    last = bench.last(variant)
    if not last.ok:
        checks, pairs, tactic = (*checks, last), (), 0
    return bench.told(
        checks=checks, left_out=left_out, raced=raced, tactic=tactic, pairs=pairs, rival=rival.what if rival else "",
        began_ns=began, ended_ns=ended,
    )  # fmt: skip


class RivalRun(NamedTuple):
    """What takes turns with the kernel."""

    what: str
    run: Run


class Bench:
    """Checks and times kernels of one folder."""

    def __init__(self, gpu: Device, given: PluginFolder, flush: bytes, seed: int) -> None:
        self.gpu, self.given, self.seed = gpu, given, seed
        self.task: Task = given.task
        self.shapes = given.operand_shapes
        self.notes: list[str] = []
        gpu.load(flush)
        self._taken = 0
        self._expected: dict[int, tuple[Expected, ...]] = {}
        size = max(FLUSHED * gpu.properties.l2_bytes, LEAST_FLUSHED) // 16 * 16
        self._flushed, self._sink = self._take(size), self._take(256)
        gpu.fill(self._flushed, 0, size)
        self._pieces = size // 16
        self.sets = [self._inputs(self.shapes, number) for number in range(len(POISONS))]
        # More of them where they are small, so that none is used again before it has left the L2.
        nbytes = max(sum(array.nbytes for array in self.sets[0].arrays), 1)
        wanted = min(-(-POOLED * gpu.properties.l2_bytes // nbytes), MOST_SETS)
        with_outputs = nbytes + sum(size + 2 * GUARD for size in self.sets[0].sizes)
        while len(self.sets) < wanted and self._room() > 2 * with_outputs:
            self.sets.append(self._inputs(self.shapes, len(self.sets)))
        self._places = itertools.cycle(range(len(self.sets)))
        self._used = 0

    def told(self, **found: object) -> Alone:
        """The result, with what is known of the device."""
        properties = self.gpu.properties
        return Alone(gpu=properties.name, capability=properties.capability, notes=tuple(self.notes), **found)  # type: ignore[arg-type]

    # --- memory -----------------------------------------------------------------------------

    def _room(self) -> int:
        return self.gpu.properties.free_bytes // SHARE - self._taken

    def _take(self, nbytes: int) -> int:
        if nbytes > self._room():
            raise CaptureError(
                f"there is too little free memory on {self.gpu.properties.name} to measure {self.task.name}",
                why=f"{format_bytes(self._taken + nbytes)} are needed; {format_bytes(self.gpu.properties.free_bytes)} "
                f"are free, of which one part in {SHARE} may be taken",
                fix="end other programs that hold memory of the GPU (nvidia-smi lists them)",
            )
        self._taken += nbytes
        return self.gpu.allocate(nbytes)

    def _inputs(self, shapes: tuple[tuple[int, ...], ...], number: int) -> Inputs:
        """Random inputs on the device, others for each number."""
        arrays = tuple(map(np.ascontiguousarray, drawn(Trial(self.task, shapes), self.seed + number)))
        at = []
        for array in arrays:
            at.append(self._take(max(array.nbytes, 1)))
            if array.nbytes:
                self.gpu.copy_to_device(at[-1], array.ctypes.data, array.nbytes)
        self.gpu.synchronize()
        sizes = tuple(
            math.prod(shape) * numpy_dtype(operand.dtype).itemsize
            for operand, shape in zip(self.task.outputs, self.task.output_shapes(shapes), strict=True)
        )
        outputs = tuple(self._take(size + 2 * GUARD) + GUARD for size in sizes)
        return Inputs(shapes, arrays, tuple(at), outputs, sizes)

    # --- kernels ----------------------------------------------------------------------------

    def variants(self, folder: Path) -> tuple[list[Variant], dict[int, str]]:
        """The variants that the device loads, and why it does not load the others."""
        found, left_out = [], {}
        capability = self.gpu.properties.capability
        version = ".".join(map(str, capability))
        for files in sorted(self.given.kernels, key=lambda one: one.kernel.tactic):
            kernel = files.kernel
            file = files.ptx_for(capability)
            if capability < kernel.least:
                left_out[kernel.tactic] = f"it is for compute capability {'.'.join(map(str, kernel.least))} and later"
            elif not file:
                left_out[kernel.tactic] = f"it was compiled for {', '.join(files.ptx) or 'no architecture'} only"
            else:
                found.append(Variant(kernel, self._loaded(plugin_folder.read(folder, file), file)))
        if not found:
            raise MissingError(
                f"no variant of {self.given.name} is for a GPU of compute capability {version}",
                why="; ".join(left_out.values()) or "no kernel was written",
                fix="write it again with trtprof plugin ... --gpu for this GPU",
            )
        return found, left_out

    def _loaded(self, ptx: bytes, file: str) -> int:
        try:
            return self.gpu.load(ptx.rstrip(b"\0") + b"\0")
        except nvrtc.CudaError as error:
            if "UNSUPPORTED_PTX_VERSION" not in str(error):
                raise
            said = next((line for line in ptx.decode(errors="replace").splitlines() if line.startswith(".version")), "")
            cuda = ".".join(map(str, self.gpu.properties.cuda))
            raise MissingError(
                f"the NVIDIA driver is too old for {file}",
                why=f"it runs CUDA {cuda} at most, and this is PTX {said.removeprefix('.version').strip()}",
                fix="update the driver, or write the plugin again where an older NVRTC is installed "
                f"({nvrtc.INSTALL_12})",
            ) from None

    def _launch(self, variant: Variant, given: Inputs) -> None:
        kernel = variant.kernel
        grid, extras = kernel.launch(given.shapes)
        inputs = dict(zip((one.name for one in self.task.inputs), given.at, strict=True))
        outputs = dict(zip((one.name for one in self.task.outputs), given.outputs, strict=True))
        self.gpu.launch(
            kernel.entry, grid, kernel.block,
            *(ctypes.c_uint64(inputs[name]) for name in kernel.inputs),
            *(ctypes.c_int32(value) for value in extras),
            *(ctypes.c_uint64(outputs[name]) for name in kernel.outputs),
            module=variant.module,
        )  # fmt: skip

    # --- outputs ----------------------------------------------------------------------------

    def checks(self, variants: Sequence[Variant]) -> Iterator[Checked]:
        """All variants, until one of them leaves the device of no further use."""
        trials = list(enumerate(self.sets[: len(POISONS)]))
        if any(isinstance(dim, str) for operand in self.task.inputs for dim in operand.dims):
            small = self.task.shapes({}, SMALL)
            trials += [(-1 - number, self._inputs(small, number)) for number in range(len(POISONS))]
        for variant in variants:
            found = []
            for place, given in trials:
                try:
                    found.append(self._check(variant, given, place))
                except nvrtc.CudaError as error:
                    yield Checked(tactic=variant.kernel.tactic, ok=False, reason=f"it crashed: {error}")
                    return
                if not found[-1].ok:
                    break
            wrong = [one for one in found if not one.ok]
            yield wrong[0] if wrong else max(found, key=lambda one: one.worst or 0.0)

    def _check(self, variant: Variant, given: Inputs, place: int) -> Checked:
        poison = POISONS[place % len(POISONS)]
        self._poison(given, poison)
        self._launch(variant, given)
        self.gpu.synchronize()
        return self._held(variant, given, place, poison)

    def _poison(self, given: Inputs, poison: int) -> None:
        for at, size in zip(given.outputs, given.sizes, strict=True):
            self.gpu.fill(at - GUARD, poison, size + 2 * GUARD)

    def _held(self, variant: Variant, given: Inputs, place: int, poison: int) -> Checked:
        """What lies in the outputs, held against float64."""
        if place not in self._expected:
            self._expected[place] = evaluate(self.task, given.arrays)
        tactic, most = variant.kernel.tactic, variant.kernel.most_error
        worst = 0.0
        rows = zip(self.task.outputs, given.outputs, given.sizes, self._expected[place], strict=True)
        for operand, at, size, expected in rows:
            raw = self.gpu.read(at - GUARD, size + 2 * GUARD)
            if {*raw[:GUARD], *raw[GUARD + size :]} != {poison}:
                return Checked(tactic=tactic, ok=False, reason=f"it writes before or behind {operand.name}")
            got = np.frombuffer(raw[GUARD : GUARD + size], numpy_dtype(operand.dtype)).reshape(expected.value.shape)
            off = difference(expected, got)
            ratio = off.worst / most
            reason = _not_near(expected, got, operand.name)
            unwritten = _unwritten(got, poison)
            # Poison is true as a boolean: nothing but its bytes tells there.
            if ratio > 1 or reason or (unwritten and got.dtype == bool):
                if unwritten:
                    reason = f"{unwritten:,} of {got.size:,} elements of {operand.name} are not written"
                elif "NaN" not in reason and ratio > 1:
                    reason = f"{operand.name}: {off.reason}"
                told = ratio if math.isfinite(ratio) and not unwritten else None
                return Checked(tactic=tactic, ok=False, worst=told, reason=reason)
            worst = max(worst, ratio)
        return Checked(tactic=tactic, ok=True, worst=worst)

    def last(self, variant: Variant) -> Checked:
        """What the last timed launch of the kernel left."""
        return self._held(variant, self.sets[self._used], self._used, POISONS[0])

    # --- time -------------------------------------------------------------------------------

    def times(self, variant: Variant, count: int) -> list[float]:
        """Launches of a kernel in ns, each with cold inputs, after one that is not timed."""

        def run(place: int) -> None:
            self._launch(variant, self.sets[place])

        self._once(run)
        return [self._once(run) for _ in range(count)]

    def warm_up(self, variant: Variant, rival: RivalRun | None) -> None:
        """What goes before the turns."""
        self.ramp()
        own = self._own(variant)
        for run in (own, *([rival.run] if rival else [])):
            for _ in range(WARM_UPS):
                self._once(run, poisoned=run is own)

    def _own(self, variant: Variant) -> Run:
        """Launches of a kernel whose last one `last` looks at."""

        def run(place: int) -> None:
            self._used = place
            self._launch(variant, self.sets[place])

        return run

    def pairs(self, variant: Variant, rival: RivalRun | None, first: int) -> Iterator[AlonePair]:
        """Turns of rival and kernel, after `warm_up`."""
        own = self._own(variant)
        for number in range(PAIRS):
            kernel: list[float] = []
            theirs: list[float] = []
            sides = [(own, kernel)] + ([(rival.run, theirs)] if rival else [])
            if (number + first) % 2 == 0:
                sides.reverse()
            for run, times in sides:
                times += [self._once(run, poisoned=run is own) for _ in range(TIMED)]
            yield AlonePair(rival=tuple(theirs), kernel=tuple(kernel))

    def _once(self, run: Run, *, poisoned: bool = True) -> float:
        """One run with other inputs than the last one's, none of which are in the L2."""
        place = next(self._places)
        for times in (1, 4, 16):
            found = self.gpu.elapsed_ns(lambda: run(place), before=lambda: self._cold(place, times, poisoned))  # noqa: B023
            if found is not None:
                return found
        note = "the host is slow: the time that it takes to launch is in some of the times"
        if note not in self.notes:
            self.notes.append(note)
        self._cold(place, 1, poisoned)
        self.gpu.synchronize()
        return self.gpu.elapsed_ns(lambda: run(place)) or 0.0

    def _cold(self, place: int, times: int, poisoned: bool) -> None:
        if poisoned:
            self._poison(self.sets[place], POISONS[0])
        self._flush(times)

    def ramp(self) -> None:
        """Keep the device busy until its clock is up."""
        self._flush(RAMP)

    def _flush(self, times: int) -> None:
        """Put it on the stream that more than the L2 is read."""
        blocks, pieces = self.gpu.full_wave("flush", THREADS), ctypes.c_uint64(self._pieces)
        for _ in range(times):
            self.gpu.launch(
                "flush", blocks, THREADS, ctypes.c_uint64(self._flushed), pieces, ctypes.c_uint64(self._sink)
            )

    # --- the rival --------------------------------------------------------------------------

    def rival(self, wanted: Rival, library: Library | None) -> RivalRun | None:
        """The fastest of the first algorithms of the library; None, and a note, where it makes no such products."""
        extent = cublas.Extent(wanted.m, wanted.n, wanted.k, wanted.batch)
        capability = self.gpu.properties.capability
        kinds = [
            one for one in cublas.PRODUCTS
            if one.dtype == wanted.dtype and one.accumulator in _WIDE and capability >= one.at_least
        ]  # fmt: skip
        if not kinds or library is None:
            self.notes.append(f"no library makes products of {wanted.dtype} here")
            return None
        product = kinds[0]
        nbytes = cublas.layout(product, extent)[3]
        if nbytes + cublas.WORKSPACE > self._room():
            self.notes.append(f"the library's products take {format_bytes(nbytes)}, for which there is no room")
            return None
        try:
            products = library(self._take(cublas.WORKSPACE))
            address = self._take(nbytes)
            self._fill(address, product, nbytes)
            runs = products.algorithms(product, extent, address)[:ALGORITHMS_TRIED]
            self.ramp()
            best = self._fastest(runs)
        except (ImportError, cublas.UnsupportedError) as error:
            self.notes.append(f"no library takes turns with it: {error}")
            return None
        shape = f"{wanted.batch:,} products of {wanted.m} x {wanted.k} and {wanted.k} x {wanted.n}"
        words = f"cuBLASLt {products.version}: {shape}, laid out as it likes them"
        return RivalRun(words, _always(best))

    def _fastest(self, runs: Sequence[Callable[[], None]]) -> Callable[[], None]:
        """Of algorithms, those left out that the library refuses when it runs them."""
        timed: list[tuple[float, Callable[[], None]]] = []
        refused: cublas.UnsupportedError | None = None
        for run in runs:
            try:
                timed.append((statistics.median(self._once(_always(run)) for _ in range(RACE)), run))
            except cublas.UnsupportedError as error:
                refused = error
        if refused is not None and not timed:
            raise refused
        return min(timed, key=lambda pair: pair[0])[1]

    def _fill(self, address: int, product: cublas.Product, nbytes: int) -> None:
        """Random values: zeros would take less power."""
        dtype = numpy_dtype(product.fill)
        count = nbytes // dtype.itemsize
        values = np.random.default_rng(self.seed).standard_normal(min(count, 1 << 20))
        array = np.resize(values.astype(dtype), count)
        self.gpu.copy_to_device(address, array.ctypes.data, array.nbytes)
        self.gpu.synchronize()


def _always(run: Callable[[], None]) -> Run:
    return lambda _: run()


def _unwritten(got: Array, poison: int) -> int:
    """Elements that hold the poison."""
    raw = np.frombuffer(got.tobytes(), np.uint8).reshape(got.size, got.itemsize)
    return int(np.count_nonzero((raw == poison).all(axis=1)))


def _not_near(expected: Expected, got: Array, name: str) -> str:
    """By SOL-ExecBench's tolerance, what is wrong; empty where nothing is."""
    known = np.isfinite(expected.floor) & np.isfinite(expected.value.astype(np.float64))
    value, found = expected.value[known].astype(np.float64), got[known].astype(np.float64)
    if np.isnan(found).any():
        return f"{int(np.isnan(found).sum()):,} of {got.size:,} elements of {name} are NaN"
    near = np.abs(found - value) <= SOL_ATOL + SOL_RTOL * np.abs(value)
    if near.size and near.mean() < SOL_SHARE:
        return f"only {format_percent(float(near.mean()))} of {name} are within {SOL_ATOL:g} + {SOL_RTOL:g} |{name}|"
    return ""


if __name__ == "__main__":
    child.end_with_parent()
    sys.exit(main(sys.argv))
