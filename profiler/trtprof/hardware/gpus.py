"""The datasheets of GPUs: found by name, checked as they are loaded, turned into ceilings.

A datasheet is a TOML file of `profiler/trtprof/hardware/specs`, of a distribution that announces an entry point of the
group ``trtprof.gpus``, or one that the user names by its path.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib.metadata
import importlib.resources
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Annotated, Literal, NamedTuple

import msgspec

from trtprof.base import plugins, units
from trtprof.base.errors import UsageError
from trtprof.base.records import Accumulate, Ceilings, Figure, GpuSpec, Roof
from trtprof.base.toml_file import read_toml
from trtprof.hardware import throughput

ENTRY_POINT_GROUP = "trtprof.gpus"
"""Entry points of it name a package whose folder holds TOML files, or a function that returns their paths."""

SHORT_DTYPES: dict[str, tuple[str, ...]] = {
    "fp8": ("fp8e4m3fn", "fp8e5m2"),
    "fp4": ("fp4e2m1",),
    "int8": ("int8", "uint8"),
}
"""What a datasheet means by a dtype for which `units.DTYPE_BITS` has several names."""

OVERRIDES = ("dram", "l2", "launch")  # What `ceilings` takes in ``overrides`` beside a dtype

_TERA = 1e12
_SPECS = Path(__file__).with_name("specs")
_DTYPES = frozenset((*units.DTYPE_BITS, *SHORT_DTYPES, "tf32"))

Positive = Annotated[float, msgspec.Meta(gt=0, lt=1e12)]
Word = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]*\Z")]


class _Cell(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A figure as the file has it."""

    value: Positive
    kind: Literal["published", "derived", "weak"]
    source: str
    note: str = ""  # Why it is more than 2 % off the formula


class _Figures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sms: _Cell
    boost_mhz: _Cell
    tensor_mhz: _Cell
    memory_gib: _Cell
    bandwidth_gbs: _Cell
    l2_mib: _Cell
    l2_bandwidth_gbs: _Cell
    tdp_w: _Cell
    launch_us: _Cell


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A datasheet as the file has it."""

    name: Word
    architecture: Word
    compute_capability: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,2}\.[0-9]\Z")]
    product_class: throughput.ProductClass = msgspec.field(name="class")
    sources: dict[str, str]
    figures: _Figures
    cuda_tflops: dict[str, _Cell]
    tensor_tflops: dict[str, dict[str, _Cell]] = {}
    nvml: tuple[Word, ...] = ()
    aliases: tuple[Word, ...] = ()
    note: str = ""


class _Catalogue(NamedTuple):
    specs: dict[str, GpuSpec]
    nvml: dict[str, str]  # Slug by exact NVML name
    names: dict[str, str]  # Slug by normalised slug, alias, display name or NVML name


def specs() -> dict[str, GpuSpec]:
    """All datasheets by slug, those of other distributions included."""
    return dict(_catalogue().specs)


def find(name: str) -> GpuSpec:
    """The datasheet that ``name`` means."""
    if name.endswith(".toml"):
        return load(Path(name))[0]
    own = _SPECS / f"{name}.toml"
    if own.parent == _SPECS and own.is_file():
        # A slug as it is spelled is that of one file: the hundred others need not be read to tell.
        with contextlib.suppress(UsageError):
            return load(own)[0]
    catalogue = _catalogue()
    slug = catalogue.nvml.get(name) or catalogue.names.get(_normal(name))
    if slug is not None:
        return catalogue.specs[slug]
    near = difflib.get_close_matches(_normal(name), catalogue.names, n=8, cutoff=0.5)
    slugs = list(dict.fromkeys(catalogue.names[match] for match in near))[:5]
    raise UsageError(
        f"no GPU is called {name!r}",
        why=f"the nearest are {', '.join(slugs)}" if slugs else f"{len(catalogue.specs)} GPUs are known",
        fix="name one that `trtprof gpus` lists, or the path of a TOML file",
    )


def load(path: Path) -> tuple[GpuSpec, tuple[str, ...]]:
    """The datasheet in a TOML file, and its aliases. Its slug is the stem of the file."""
    try:
        raw = read_toml(path, "a GPU datasheet")
    except OSError as error:
        raise _broken(path, error.strerror or str(error)) from None
    except ValueError as error:
        raise _broken(path, f"it is not TOML: {error}") from None
    try:
        file = msgspec.convert(raw, _File)
    except msgspec.ValidationError as error:
        raise _broken(path, str(error)) from None
    return _Reader(path, file).spec(), file.aliases


def derive(
    name: str,
    cc: str,
    product_class: throughput.ProductClass,
    sms: int,
    boost_mhz: float,
    memory_bytes: int,
    dram_bytes_per_s: float,
    l2_bytes: int,
    tdp_w: float | None,
) -> GpuSpec:
    """A datasheet of what a device says about itself: peak = multiprocessors x rate x clock; no power limit is 0 W."""
    device = "the device's own properties"

    def own(value: float) -> Figure:
        return Figure(value=value, kind="derived", source=device)

    def peak(rate: float) -> Figure:
        source = f"{sms} multiprocessors x {rate:g} FLOP per clock x {boost_mhz:g} MHz"
        return Figure(value=sms * rate * boost_mhz * 1e6, kind="derived", source=source)

    vector = {dtype: peak(2 * rate) for dtype, rate in throughput.cuda_results(cc).items()}
    # TU116 and TU117, sold as GTX, are Turing without tensor cores.
    rates = {} if cc == "7.5" and "GTX" in name else throughput.tensor_flops(cc, product_class)
    tensor = {dtype: {acc: peak(rate) for acc, rate in by.items()} for dtype, by in rates.items()}
    per_clock, l2_source = throughput.l2_bytes(cc)
    launch_ns, launch_source = throughput.graph_launch_ns(cc)
    return GpuSpec(
        slug=re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"),
        name=name,
        nvml_names=(name,),
        architecture=throughput.architecture(cc),
        compute_capability=cc,
        product_class=product_class,
        sms=own(sms),
        boost_mhz=own(boost_mhz),
        tensor_mhz=own(boost_mhz),
        memory_bytes=own(memory_bytes),
        dram_bytes_per_s=own(dram_bytes_per_s),
        l2_bytes=own(l2_bytes),
        l2_bytes_per_s=Figure(
            value=per_clock * sms * boost_mhz * 1e6,
            kind="weak",
            source=f"{sms} multiprocessors x {per_clock:.3g} bytes per clock x {boost_mhz:g} MHz, from {l2_source}",
        ),
        tdp_w=own(tdp_w) if tdp_w else Figure(value=0.0, kind="weak", source="the device does not tell"),
        vector_flops_per_s=vector,
        tensor_flops_per_s=_expanded(tensor),
        launch_ns=Figure(value=launch_ns, kind="weak", source=launch_source),
        origin="derived",
    )


def ceilings(
    spec: GpuSpec,
    *,
    tf32: bool = True,
    accumulate: Accumulate = "auto",
    clock_mhz: float | None = None,
    overrides: Mapping[str, float] | None = None,
) -> Ceilings:
    """The ceilings of a GPU that is not at hand: its datasheet.

    ``attainable`` accumulates as asked for, ``best`` at the fastest accumulator of each dtype; both multiply a dtype
    where it is fastest, so that what tensor cores do not take runs on the CUDA cores.

    Args:
        tf32: Whether fp32 may be multiplied as TF32, as TensorRT does unless told otherwise.
        accumulate: Accumulator of what can be accumulated in fp16 and in fp32; ``auto`` leaves it to each work
            (`Work.accumulator`), and is the faster where that does not tell.
        clock_mhz: Clock to compute at; scales arithmetic, special functions and L2 against the boost clock, not DRAM.
            None is the boost clock.
        overrides: Ceilings to use instead, in FLOP/s by dtype (tensor and vector alike), ``dram`` and ``l2`` in B/s,
            ``launch`` in s. They replace what is attainable, and what is best where they are above it.
    """
    if clock_mhz is not None and not clock_mhz > 0:
        raise UsageError(
            f"the clock of {spec.name} cannot be {clock_mhz:g} MHz",
            why="a clock is a positive number of MHz",
            fix=f"ask for a clock up to the boost clock, {spec.boost_mhz.value:g} MHz",
        )
    scale = 1.0 if clock_mhz is None else clock_mhz / spec.boost_mhz.value
    changed = _overrides(overrides or {})
    attainable = _replaced(_roof(spec, scale, tf32, accumulate), changed)
    best = _raised(_roof(spec, scale, tf32, "fastest"), attainable, changed)
    return Ceilings(
        device=spec.name,
        source=_in_words(spec, tf32, accumulate, clock_mhz, overrides or {}),
        measured_at="",
        origin="datasheet",
        best=best,
        attainable=attainable,
        cache_bytes=int(spec.l2_bytes.value),
        threads=0,
        launch_ns=changed.get("launch", spec.launch_ns.value / 1e9) * 1e9,
        call_ns=0.0,
    )


def ridge_points(roof: Roof) -> dict[str, float]:
    """FLOP per byte of DRAM traffic where the roofline of each dtype bends."""
    return {dtype: peak / roof.dram_bytes_per_s for dtype, peak in roof.tensor_flops_per_s.items()}


# --- names ----------------------------------------------------------------------------------


def _normal(name: str) -> str:
    """A name without what people spell in different ways."""
    return re.sub(r"[\s_-]+", "", name.casefold()).removeprefix("nvidia").removeprefix("geforce")


@functools.cache
def _catalogue() -> _Catalogue:
    """All datasheets that can be used; the others are noted in `plugins.LEFT_OUT`."""
    catalogue = _Catalogue({}, {}, {})
    for path in (*sorted(_SPECS.glob("*.toml")), *_announced()):
        try:
            _add(catalogue, path)
        except UsageError as error:
            plugins.LEFT_OUT.append(plugins.LeftOut(f"the GPU datasheet {path}", error.why, error.fix))
    return catalogue


def _add(catalogue: _Catalogue, path: Path) -> None:
    """Take a datasheet into the catalogue, or nothing of it."""
    spec, aliases = load(path)
    if spec.slug in catalogue.specs:
        raise _broken(path, f"{spec.slug} is described twice: {catalogue.specs[spec.slug].origin} does too")
    normal = {_normal(name) for name in (spec.slug, spec.name, *aliases, *spec.nvml_names)}
    for names, own in ((catalogue.nvml, spec.nvml_names), (catalogue.names, sorted(normal))):
        for name in own:
            if name in names:
                raise _broken(path, f"it is called {name!r}, and so is {names[name]}")
    catalogue.specs[spec.slug] = spec
    catalogue.nvml.update(dict.fromkeys(spec.nvml_names, spec.slug))
    catalogue.names.update(dict.fromkeys(normal, spec.slug))


def _announced() -> Iterable[Path]:
    """TOML files of other distributions."""
    for paths in plugins.loaded(ENTRY_POINT_GROUP, _paths):
        yield from paths


def _paths(point: importlib.metadata.EntryPoint) -> list[Path]:
    value = point.load()
    if isinstance(value, ModuleType):
        return sorted(Path(str(importlib.resources.files(value))).glob("*.toml"))
    return [Path(path) for path in value()]


# --- from TOML ------------------------------------------------------------------------------


def _broken(path: Path, why: str) -> UsageError:
    return UsageError(
        f"the GPU datasheet {path} cannot be used", why=why, fix=f"mend the file after the example of those in {_SPECS}"
    )


class _Reader(NamedTuple):
    """A file on its way to a `GpuSpec`."""

    path: Path
    file: _File

    def figure(self, key: str, cell: _Cell, scale: float = 1.0) -> Figure:
        source = self.file.sources.get(cell.source)
        if source is None:
            raise _broken(self.path, f"{key}: there is no source {cell.source!r} under [sources]")
        text = f"{source} ({cell.note})" if cell.note else source
        return Figure(value=cell.value * scale, kind=cell.kind, source=text)

    def spec(self) -> GpuSpec:
        file, figures = self.file, self.file.figures
        self.check_dtypes()
        vector = {dtype: self.figure(f"cuda_tflops.{dtype}", cell, _TERA) for dtype, cell in file.cuda_tflops.items()}
        tensor = {
            dtype: {acc: self.figure(f"tensor_tflops.{dtype}.{acc}", cell, _TERA) for acc, cell in by.items()}
            for dtype, by in file.tensor_tflops.items()
        }
        return GpuSpec(
            slug=self.path.stem,
            name=file.name,
            nvml_names=file.nvml,
            architecture=file.architecture,
            compute_capability=file.compute_capability,
            product_class=file.product_class,
            sms=self.figure("figures.sms", figures.sms),
            boost_mhz=self.figure("figures.boost_mhz", figures.boost_mhz),
            tensor_mhz=self.figure("figures.tensor_mhz", figures.tensor_mhz),
            memory_bytes=self.figure("figures.memory_gib", figures.memory_gib, 1 << 30),
            dram_bytes_per_s=self.figure("figures.bandwidth_gbs", figures.bandwidth_gbs, 1e9),
            l2_bytes=self.figure("figures.l2_mib", figures.l2_mib, 1 << 20),
            l2_bytes_per_s=self.figure("figures.l2_bandwidth_gbs", figures.l2_bandwidth_gbs, 1e9),
            tdp_w=self.figure("figures.tdp_w", figures.tdp_w),
            vector_flops_per_s=vector,
            tensor_flops_per_s=_expanded(tensor),
            launch_ns=self.figure("figures.launch_us", figures.launch_us, 1e3),
            note=file.note,
            origin=self.path.name if self.path.parent == _SPECS else str(self.path),
        )

    def check_dtypes(self) -> None:
        file, tensor = self.file, self.file.tensor_tflops
        if wrong := {*file.cuda_tflops, *tensor, *(acc for by in tensor.values() for acc in by)} - _DTYPES:
            raise _broken(self.path, f"{min(wrong)!r} is not a dtype")
        if "fp32" not in file.cuda_tflops or not all(tensor.values()):
            raise _broken(self.path, "fp32 is missing under cuda_tflops, or an accumulator under tensor_tflops")


def _expanded(tensor: dict[str, dict[str, Figure]]) -> dict[str, dict[str, Figure]]:
    """The short names of dtypes replaced by those of `units.DTYPE_BITS`."""
    return {name: by for dtype, by in tensor.items() for name in SHORT_DTYPES.get(dtype, (dtype,))}


# --- to ceilings ----------------------------------------------------------------------------


def _roof(spec: GpuSpec, scale: float, tf32: bool, accumulate: str) -> Roof:
    """The roof at ``accumulate``, ``fastest`` or ``auto``: the fastest with the slower ones beside it."""
    vector = {dtype: figure.value * scale for dtype, figure in spec.vector_flops_per_s.items()}
    tensor = dict(vector)
    slower = {}
    for dtype, by in spec.tensor_flops_per_s.items():
        figure = by.get(accumulate) or max(by.values(), key=lambda figure: figure.value)
        tensor[dtype] = max(figure.value * scale, vector.get(dtype, 0.0))
        wide = by.get("fp32", figure)
        if accumulate == "auto" and wide.value < figure.value:
            slower[dtype] = max(wide.value * scale, vector.get(dtype, 0.0))
    if tf32 and "tf32" in tensor:
        tensor["fp32"] = max(tensor["fp32"], tensor["tf32"])
    clock = spec.sms.value * spec.boost_mhz.value * 1e6 * scale
    special = throughput.special_results(spec.compute_capability) if throughput.known(spec.compute_capability) else {}
    return Roof(
        tensor_flops_per_s=tensor,
        fp32_accumulate_flops_per_s=slower,
        vector_flops_per_s=vector,
        special_per_s={function: rate * clock for function, rate in special.items()},
        dram_bytes_per_s=spec.dram_bytes_per_s.value,
        cache_bytes_per_s=spec.l2_bytes_per_s.value * scale,
    )


def _overrides(asked: Mapping[str, float]) -> dict[str, float]:
    changed = {}
    for name, value in asked.items():
        if name not in OVERRIDES and name not in _DTYPES:
            near = difflib.get_close_matches(name, (*OVERRIDES, *_DTYPES), n=3)
            raise UsageError(
                f"there is no ceiling called {name!r}",
                why=f"a ceiling is a dtype, or one of {', '.join(OVERRIDES)}",
                fix=f"did you mean {' or '.join(near)}?" if near else "name a dtype such as fp16, dram, l2 or launch",
            )
        if not value > 0:
            raise UsageError(
                f"the ceiling {name} cannot be {value:g}",
                why="a ceiling is a positive number",
                fix="give FLOP/s for a dtype, B/s for dram and l2, s for launch",
            )
        changed.update(dict.fromkeys(SHORT_DTYPES.get(name, (name,)), float(value)))
    return changed


def _replaced(roof: Roof, changed: dict[str, float]) -> Roof:
    dtypes = {name: value for name, value in changed.items() if name not in OVERRIDES}
    vector = {name: value for name, value in dtypes.items() if name != "tf32"}
    return msgspec.structs.replace(
        roof,
        tensor_flops_per_s=roof.tensor_flops_per_s | dtypes,
        # A peak that was set by hand holds for any accumulator.
        fp32_accumulate_flops_per_s={
            dtype: peak for dtype, peak in roof.fp32_accumulate_flops_per_s.items() if dtype not in dtypes
        },
        vector_flops_per_s=roof.vector_flops_per_s | vector,
        dram_bytes_per_s=changed.get("dram", roof.dram_bytes_per_s),
        cache_bytes_per_s=changed.get("l2", roof.cache_bytes_per_s),
    )


def _raised(best: Roof, attainable: Roof, changed: dict[str, float]) -> Roof:
    """``best`` with every ceiling that was overridden by a larger one."""

    def larger(peaks: dict[str, float], others: dict[str, float]) -> dict[str, float]:
        return peaks | {name: max(peaks.get(name, 0.0), others[name]) for name in changed if name in others}

    return msgspec.structs.replace(
        best,
        tensor_flops_per_s=larger(best.tensor_flops_per_s, attainable.tensor_flops_per_s),
        vector_flops_per_s=larger(best.vector_flops_per_s, attainable.vector_flops_per_s),
        dram_bytes_per_s=max(best.dram_bytes_per_s, attainable.dram_bytes_per_s),
        cache_bytes_per_s=max(best.cache_bytes_per_s, attainable.cache_bytes_per_s),
    )


def _in_words(
    spec: GpuSpec, tf32: bool, accumulate: str, clock_mhz: float | None, overrides: Mapping[str, float]
) -> str:
    own = "derived from the device's own properties" if spec.origin == "derived" else f"datasheet {spec.origin}"
    words = [f"{own}, dense peaks"]
    if clock_mhz is not None:
        words.append(f"at {clock_mhz:g} MHz instead of {spec.boost_mhz.value:g} MHz")
    words.append(
        "accumulation as tactic or kernel say, else in what is fastest"
        if accumulate == "auto"
        else f"accumulation in {accumulate} where there is a choice"
    )
    if "tf32" in spec.tensor_flops_per_s:
        words.append("fp32 multiplied as TF32" if tf32 else "fp32 on the CUDA cores")
    for kind in ("weak", "derived"):
        names = [name for name, figure in spec.figures.items() if figure.kind == kind]
        if names:
            words.append(f"{kind}: {', '.join(names)}")
    if overrides:
        words.append("set by hand: " + ", ".join(f"{name} = {value:.4g}" for name, value in overrides.items()))
    return "; ".join(words)
