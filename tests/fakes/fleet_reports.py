"""Reports of fleets: small ones whose numbers a person can work out, and made-up ones of any size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tests.fakes import fleets
from tests.fakes.report_factory import HOSTILE_NAMES
from trtprof.base import fleet_table
from trtprof.base.records import SCHEMA_VERSION, Fleet, FleetCell, FleetKernel, FleetLoss, FleetRow, FleetVerb
from trtprof.flows.fleet import summary
from trtprof.flows.fleet.cells import Asked, AskedModel, AskedTarget

MS = 1_000_000
PRICES = {"rtx-4090": 0.7, "l4": 0.8, "h100-sxm": 3.5, "t4": 0.4, "h100-pool": 3.5}


def cell(
    model: str = "a", target: str = "x", batch: int | None = 1, verb: FleetVerb = "predict", **more: Any
) -> FleetCell:
    """A question."""
    given: dict[str, Any] = {
        "key": fleets.digest(model, target, batch, more),
        "group": fleets.digest(model, batch),
        "path": f"models/{model}.onnx",
        "sha256": fleets.digest(model),
        "trtprof": "1",
        **more,
    }
    return FleetCell(model=model, target=target, batch=batch, verb=verb, **given)


def done(of: FleetCell, **values: Any) -> FleetRow:
    """Its answer: ``latency_ns`` with an interval of 1 % to either side, ``expected_ns`` with a band of 10 %."""
    if (latency := values.get("latency_ns")) is not None:
        values = {"latency_low_ns": latency * 99 // 100, "latency_high_ns": latency * 101 // 100, **values}
        values.setdefault("run", f"runs/{of.key}")
    if (expected := values.get("expected_ns")) is not None:
        band = {"expected_p10_ns": expected * 9 // 10, "expected_p90_ns": expected * 11 // 10}
        values = {**band, "expected_basis": "measured", **values}
    return FleetRow(**msgspec.structs.asdict(of), status="done", **values)


def failed(of: FleetCell, error: str = "", **values: Any) -> FleetRow:
    """Its failure."""
    return FleetRow(
        **msgspec.structs.asdict(of), status="failed", stage="source", error=error or f"{of.path} is not an ONNX model",
        **values,
    )  # fmt: skip


def kernel(pattern: str = "Conv", **values: Any) -> FleetKernel:
    """Layers that are alike."""
    return FleetKernel(
        **{"pattern": pattern, "dtype": "fp16", "shapes": "1x8", "layer": f"layer of {pattern}", "count": 1, **values}
    )


def loss(cause: str, ns: int, kind: Any = "estimate") -> FleetLoss:
    """A row of a ledger."""
    return FleetLoss(cause=cause, ns=ns, kind=kind)


def asked(
    cells: Sequence[FleetCell],
    prices: dict[str, float] | None = None,
    models: Sequence[AskedModel] = (),
    name: str = "ours",
) -> Asked:
    """What the cells ask; ``models`` in place of those that are told nothing of."""
    told = {model.name: model for model in models}
    verbs = {cell.target: cell for cell in cells}
    return Asked(
        schema_version=SCHEMA_VERSION, name=name, currency="EUR",
        models=tuple(told.get(each, AskedModel(name=each)) for each in sorted({cell.model for cell in cells})),
        targets=tuple(
            AskedTarget(name=each, verb=of.verb, gpu=of.gpu, price_per_hour=(prices or {}).get(each))
            for each, of in verbs.items()
        ),
    )  # fmt: skip


def report_of(
    rows: Sequence[FleetRow],
    prices: dict[str, float] | None = None,
    models: Sequence[AskedModel] = (),
    cells: Sequence[FleetCell] | None = None,
    **narrowed: Any,
) -> Fleet:
    """The report of rows, in the order that they are given in."""
    of = list(rows) if cells is None else list(cells)
    questions = [FleetCell(**{name: getattr(one, name) for name in FleetCell.__struct_fields__}) for one in of]
    how = summary.Narrowed(**narrowed)
    table = fleet_table.table_of(rows)
    return summary.summarised(asked(questions, prices, models), questions, table, [table], "fleet", how)


def made_up(models: int = 6, sizes: int = 2, *, ran: bool = True, served: str = "h100-pool", fails: float = 0.05,
            requests: bool = True) -> Fleet:  # fmt: skip
    """A report of any size: with runs beside predictions, or of predictions alone."""
    targets = fleets.TARGETS if ran else fleets.TARGETS[:4]
    rows = [fleets.row(one, fails=fails) for one in fleets.cells(models, sizes, targets)]
    told = [
        AskedModel(
            name=f"model_{at:04}",
            requests_per_s=100.0 * (at + 1) if requests and at % 3 else None,
            served_by=served if ran else "",
            latency_limit_ns=MS if at % 2 else None,
        )
        for at in range(models)
    ]
    return report_of(rows, PRICES, told)


def hostile() -> Fleet:
    """A fleet whose names are by somebody who means no good."""
    rows: list[FleetRow] = []
    for at, bad in enumerate(HOSTILE_NAMES):
        of = cell(f"{bad}{at}", "x", tags=(bad,), verb="run")
        kernels = (
            kernel(f"{bad} + MatMul", layer=bad, kernel=bad, measured_ns=MS, bound_ns=MS // 2, verdict="write it",
                   win_ns=MS // 4, win_low_ns=0, win_high_ns=MS // 2),
        )  # fmt: skip
        rows.append(done(of, latency_ns=2 * MS, bound_ns=MS, doubts=bad, kernels=kernels, run=f"runs/{bad}"))
        rows.append(failed(cell(f"{bad}{at}", "y"), bad, why=bad, fix=bad))
    return report_of(rows)
