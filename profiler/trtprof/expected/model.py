"""The expectation of layers: which are refused and why, and what the trees say of the others."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import msgspec
import numpy as np

from trtprof.base.parquet_file import read_parquet
from trtprof.base.records import FIRM, Ceilings, Core, Expectation, ExpectedBasis, GpuSpec, MeasuredRow, Work
from trtprof.expected.correction import Correction, place_of
from trtprof.expected.features import device_of, features, rows_of, soonest
from trtprof.runtime.ort_session import SessionRequest, make_session

_DATA = resources.files("trtprof.expected") / "data"

_ALIKE = {"bf16": "16 bits", "fp16": "16 bits", "fp8e4m3fn": "fp8", "fp8e5m2": "fp8", "int8": "int8", "uint8": "int8",
          "fp4e2m1": "fp4", "fp32": "fp32", "tf32": "tf32"}  # fmt: skip
"""Dtypes that kernels of one kind take: they move as many bytes, and tensor cores multiply them as fast."""

_FLOATS = frozenset({"16 bits", "fp32"})

SIMT_PRODUCTS = "product fp32"
"""Products on the CUDA cores have an ensemble of their own: what they reach says nothing of tensor cores."""

PRODUCTS = frozenset({"product", SIMT_PRODUCTS, "convolution"})
"""Kinds that libraries compute in tiles of a matrix."""

FAR = 4
"""How many times its range a dimension may leave it by: of more, nothing that was held out tells the error."""

KIND_WORDS = {
    "product": "matrix products", "convolution": "convolutions", "attention": "attention", "softmax": "softmax",
    "normalisation": "normalisations", "pointwise": "pointwise ops",
}  # fmt: skip


class _Class(msgspec.Struct, frozen=True):
    """What is known of one kind of work: see ``scripts/expected/write.py``."""

    features: tuple[str, ...]
    bands: dict[str, tuple[float, float]]
    range: dict[str, tuple[float, float]]
    measured: dict[str, dict[str, dict[str, int]]]  # Rows by dtype, architecture and GPU


class _Document(msgspec.Struct, frozen=True):
    quantiles: tuple[float, ...]
    covered: float
    sources: dict[str, dict[str, str]]
    left_out: dict[str, int]
    classes: dict[str, _Class]


@functools.cache
def document() -> _Document:
    """What was learned from what."""
    return msgspec.json.decode((_DATA / "model.json").read_bytes(), type=_Document)


def expect(
    works: Sequence[Work | None],
    spec: GpuSpec,
    ceilings: Ceilings,
    *,
    tf32: bool = True,
    correction: Correction | None = None,
) -> tuple[Expectation, ...]:
    """What good library kernels would take for each work, of layers as one kernel each, on a GPU."""
    found: list[Expectation] = []
    alike: dict[str, dict[tuple[Any, ...], tuple[Work, Core, list[int]]]] = {}
    """By kind, and by all that is looked at: layers of one work take the same."""
    asked = [None if work is None else as_measured(work, spec, tf32=tf32) for work in works]
    for place, work in enumerate(asked):
        why = "its work is not known" if work is None else _refused(work, spec, tf32=tf32)
        found.append(_refusal(why))
        if work is not None and work.core is not None and not why:
            name = class_of(work.core.kind, dtype_on(work, spec, tf32=tf32))
            alike.setdefault(name, {}).setdefault(_key(work), (work, work.core, []))[2].append(place)
    for kind, some in alike.items():
        priced = _priced(kind, [(work, core) for work, core, _ in some.values()], spec, ceilings, correction)
        for (*_, places), expectation in zip(some.values(), priced, strict=True):
            for place in places:
                changed = asked[place] is not works[place]
                found[place] = _less_sure(expectation, asked[place]) if changed else expectation
    return tuple(found)


def as_measured(work: Work, spec: GpuSpec, *, tf32: bool) -> Work:
    """The work as what was measured of its like: a convolution in 16 bits as the product that libraries make of it."""
    core = work.core
    if core is None or core.kind != "convolution" or core.batch != 1:
        return work
    group = dtype_group(core.kind, dtype_on(work, spec, tf32=tf32))
    if group != "16 bits" or group in _measured(core.kind):
        return work
    return msgspec.structs.replace(work, core=Core(kind="product", m=core.m, n=core.n, k=core.k), fast_flops=0)


def _less_sure(expectation: Expectation, work: Work | None) -> Expectation:
    """That of a convolution as a product: with the band of what lies outside of what was measured, and shown only."""
    ns, low, high = expectation.expected_ns, expectation.expected_p10_ns, expectation.expected_p90_ns
    if ns is None or low is None or high is None or work is None:
        return expectation
    below, above = document().classes["product"].bands[OUTSIDE]
    why = f"extrapolated: no convolutions in {work.dtype} were measured; as the product that it is"
    return Expectation(
        expected_ns=ns,
        expected_p10_ns=min(low, round(ns * math.exp(below))),
        expected_p90_ns=max(high, round(ns * math.exp(above))),
        expected_basis="product",
        expected_reason="; ".join(filter(None, (why, expectation.expected_reason))),
    )


@functools.lru_cache(maxsize=256)
def _refusal(why: str) -> Expectation:
    return Expectation(expected_reason=why)


def _key(work: Work) -> tuple[Any, ...]:
    return (work.core, work.dtype, work.accumulator, work.tensor_flops, work.fast_flops, work.vector_flops,
            tuple(work.special.items()), work.bytes_read, work.bytes_written)  # fmt: skip


def _refused(work: Work, spec: GpuSpec, *, tf32: bool) -> str:
    """Why there is no expectation; empty where there is one."""
    core = work.core
    if not work.bytes:
        return "it moves nothing"
    if core is None:
        return "no measured kernel computes its like: it is no product, attention, softmax, norm or pointwise op alone"
    dtype = dtype_on(work, spec, tf32=tf32)
    group = dtype_group(core.kind, dtype)
    words = KIND_WORDS[core.kind]
    there = _measured(core.kind)
    if group not in there:
        known = ", ".join(sorted(there))
        return f"no {words} in {dtype or 'what it computes with'} were measured (there are: {known})"
    if spec.architecture not in there[group]:
        known = ", ".join(sorted(there[group]))
        return f"no {words} in {dtype} were measured on {spec.architecture} (there are: {known})"
    for dim, (low, high) in document().classes[class_of(core.kind, dtype)].range.items():
        value = getattr(core, dim, None)
        if value is not None and not low / FAR <= value <= high * FAR:
            return f"no {words} like it were measured: {dim} is {value:,}, and was {low:,.0f} to {high:,.0f}"
    return ""


def dtype_on(work: Work, spec: GpuSpec, *, tf32: bool) -> str:
    """What a GPU multiplies or computes a work with."""
    dtype = work.dtype or "fp32"
    products = work.core is not None and work.core.kind in ("product", "convolution", "attention")
    return "tf32" if dtype == "fp32" and tf32 and products and "tf32" in spec.tensor_flops_per_s else dtype


def dtype_group(kind: str, dtype: str) -> str:
    """What a dtype counts as: of ops that only move, any float does."""
    group = _ALIKE.get(dtype, dtype)
    return "floats" if kind in _BY_BYTES and group in _FLOATS else group


_BY_BYTES = frozenset({"pointwise"})
"""Kinds that take as long in one float as in another by the bytes that they move."""


@functools.cache
def _measured(kind: str) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    found: dict[str, dict[str, set[str]]] = {}
    for name, known in document().classes.items():
        for dtype, by in known.measured.items() if name.split()[0] == kind else ():
            group = found.setdefault(dtype_group(kind, dtype), {})
            for architecture, counts in by.items():
                group.setdefault(architecture, set()).update(counts)
    return {group: {name: tuple(sorted(slugs)) for name, slugs in by.items()} for group, by in found.items()}


def class_of(kind: str, dtype: str) -> str:
    """Name of the ensemble for a kind of work at a dtype."""
    return SIMT_PRODUCTS if kind == "product" and dtype == "fp32" else kind


def _priced(
    name: str, works: Sequence[tuple[Work, Core]], spec: GpuSpec, ceilings: Ceilings, correction: Correction | None
) -> list[Expectation]:
    known = document().classes[name]
    device = device_of(spec, ceilings)
    rows = rows_of(works, device)
    if name in PRODUCTS:
        # What is done to a result on its way out costs next to nothing, and hardly any measured product had any.
        rows = rows._replace(vector=np.zeros(rows.size), special=np.zeros(rows.size))
    columns, base = features(rows, device, product=name in PRODUCTS)
    least = soonest(rows, device)
    x = np.stack([columns[feature] for feature in known.features], axis=1).astype(np.float32)
    ratios = np.sort(_session(name).run(None, {"features": x})[0].astype(np.float64), axis=1)
    middle = np.maximum(base * np.exp(ratios[:, 1]), least)
    measured = None
    if correction is not None:
        places = np.array([place_of(core, float(ns)) for (_, core), ns in zip(works, middle, strict=True)])
        measured = correction.at(name, places, [work.dtype for work, _ in works])
    found = []
    for place, ((work, core), row) in enumerate(zip(works, ratios, strict=True)):
        band, basis, why = _band(name, core, work.dtype or "fp32", float(columns["roof"][place]), spec)
        low, high = known.bands[band]
        if band == KNOWN:
            low, high = row[0] - row[1] + low, row[2] - row[1] + high
        move = 0.0
        if correction is not None and measured is not None:
            move, weight = float(measured.middle[place]), float(measured.weight[place])
            low, high = low + weight * (measured.low - low), high + weight * (measured.high - high)
            basis = "corrected" if basis in FIRM else basis
            why = f"corrected by {correction.counts[name]} timed rows of {KIND_WORDS[core.kind]}" + (
                f"; {why}" if why else ""
            )
        moves = move + min(low, 0.0), move, move + max(high, 0.0)
        times = [max(middle[place] * math.exp(by), float(least[place])) for by in moves]
        found.append(
            Expectation(
                expected_ns=round(times[1]),
                expected_p10_ns=round(times[0]),
                expected_p90_ns=round(times[2]),
                expected_basis=basis,
                expected_reason=why,
            )
        )
    return found


KNOWN, UNKNOWN_GPU, OUTSIDE = "known", "unknown GPU", "outside"
"""Bands: how far log(p10) and log(p90) lie from log(p50); of what is known, from the deciles of the trees."""


def _band(name: str, core: Core, dtype: str, roof: float, spec: GpuSpec) -> tuple[str, ExpectedBasis, str]:
    """Which band holds, on what basis, and why it is not that of a GPU and a range that were measured."""
    beyond = [
        dim
        for dim, (low, high) in document().classes[name].range.items()
        if not low <= (roof if dim == "roof" else getattr(core, dim)) <= high
    ]
    slugs = _measured(core.kind)[dtype_group(core.kind, dtype)][spec.architecture]
    alike = {gpu for one, by in document().classes[name].measured.items() if _ALIKE.get(one) == _ALIKE.get(dtype)
             for gpu in by.get(spec.architecture, ())}  # fmt: skip
    if beyond:
        named = "its size" if beyond == ["roof"] else ", ".join(dim for dim in beyond if dim != "roof")
        return OUTSIDE, "extrapolated", f"extrapolated: {named} lies outside of what was measured"
    if spec.origin == "derived":
        others = f"it was not measured, {', '.join(slugs)} of its architecture were"
        return UNKNOWN_GPU, "architecture", f"the datasheet of {spec.name} is derived from its own properties: {others}"
    if spec.slug not in slugs:
        others = f"{', '.join(slugs)} of its architecture were"
        return UNKNOWN_GPU, "architecture", f"{spec.name} was not measured, {others}"
    if spec.slug not in alike:
        words = f"{KIND_WORDS[core.kind]} in {dtype} were not measured on {spec.name}, others were"
        return UNKNOWN_GPU, "architecture", words
    return KNOWN, "measured", ""


@functools.cache
def _session(name: str) -> Any:
    with resources.as_file(_DATA / f"{name.replace(' ', '_')}.onnx") as path:
        return make_session(SessionRequest(model=str(path), threads=1))


def nearest(work: Work, spec: GpuSpec, *, tf32: bool = True, count: int = 3) -> tuple[MeasuredRow, ...]:
    """The measured rows that are most like a work: of its kind and dtypes, by the ratios of the dimensions."""
    work = as_measured(work, spec, tf32=tf32)
    core = work.core
    if core is None:
        return ()
    rows = _rows()
    group = dtype_group(core.kind, dtype_on(work, spec, tf32=tf32))
    dtypes = [dtype for dtype in rows["dtype"].cat.categories if dtype_group(core.kind, dtype) == group]
    rows = rows[(rows["kind"] == core.kind) & rows["dtype"].isin(dtypes)]
    if rows.empty:
        return ()
    apart = np.zeros(len(rows))
    for name in ("batch", "m", "n", "k"):
        apart += np.abs(np.log2(np.maximum(rows[name].to_numpy(), 1)) - math.log2(max(getattr(core, name), 1)))
    slugs = rows["gpu"].astype(str)
    families = {slug: name for name, some in _measured(core.kind).get(group, {}).items() for slug in some}
    apart += np.where(slugs == spec.slug, 0.0, np.where(slugs.map(families) == spec.architecture, 2.0, 6.0))
    chosen = rows.iloc[np.argsort(apart, kind="stable")[:count]]
    return tuple(
        MeasuredRow(
            source=str(row.source), gpu=str(row.gpu), dtype=str(row.dtype), shape=str(row.shape), ns=int(row.ns)
        )
        for row in chosen.itertuples()
    )


@functools.cache
def _rows() -> Any:
    with resources.as_file(_DATA / "rows.parquet") as path:
        return read_parquet(path)


__all__ = [
    "KIND_WORDS",
    "KNOWN",
    "OUTSIDE",
    "PRODUCTS",
    "UNKNOWN_GPU",
    "as_measured",
    "class_of",
    "document",
    "dtype_group",
    "dtype_on",
    "expect",
    "nearest",
]
