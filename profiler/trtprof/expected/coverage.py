"""What was measured of a GPU: for which kinds of work and dtypes there are expectations."""

from __future__ import annotations

from trtprof.base.records import GpuSpec, MeasuredWorks
from trtprof.expected.model import KIND_WORDS, document, dtype_group


def measured_on(spec: GpuSpec) -> tuple[MeasuredWorks, ...]:
    """What was measured on a GPU or others of its architecture, by kind and group of dtypes; all else is refused."""
    rows: dict[tuple[str, str], int] = {}
    others: dict[tuple[str, str], set[str]] = {}
    dtypes: dict[tuple[str, str], set[str]] = {}
    for name, known in document().classes.items():
        kind = name.split()[0]
        for dtype, by in known.measured.items():
            counts = by.get(spec.architecture)
            if counts is not None:
                place = kind, dtype_group(kind, dtype)
                rows[place] = rows.get(place, 0) + counts.get(spec.slug, 0)
                others.setdefault(place, set()).update(counts.keys() - {spec.slug})
                dtypes.setdefault(place, set()).add(dtype)
    order = list(KIND_WORDS)
    return tuple(
        MeasuredWorks(
            kind=place[0],
            words=KIND_WORDS[place[0]],
            dtypes=place[1],
            measured=tuple(sorted(dtypes[place])),
            rows=rows[place],
            others=tuple(sorted(others[place])),
        )
        for place in sorted(rows, key=lambda place: (order.index(place[0]), place[1]))
    )
