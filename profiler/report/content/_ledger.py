"""A ledger that fits: its smallest rows as one."""

from __future__ import annotations

from profiler.base.records import LedgerRow


def largest(rows: list[LedgerRow], most: int) -> list[LedgerRow]:
    """At most ``most`` rows in their order; the smallest become one row, so that the sum stays."""
    if len(rows) <= most:
        return rows
    kept = sorted(range(len(rows)), key=lambda index: -abs(rows[index].ns))[: most - 1]
    small = [row for index, row in enumerate(rows) if index not in kept]
    facts = all(row.kind == "fact" for row in small)
    total = sum(row.ns for row in small)
    rest = LedgerRow(cause=f"{len(small)} smaller rows", ns=total, kind="fact" if facts else "estimate")
    return [*(rows[index] for index in sorted(kept)), rest]
