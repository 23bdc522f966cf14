"""Fixtures that every test may use."""

from __future__ import annotations

import pytest

from support import fixed_ceilings


@pytest.fixture
def no_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in this process take `fixed_ceilings` instead of measuring for twenty seconds."""
    monkeypatch.setattr("profiler.hardware.store.load_or_calibrate", lambda *_args, **_named: fixed_ceilings())
