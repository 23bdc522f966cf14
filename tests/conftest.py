"""Fixtures that every test may use."""

from __future__ import annotations

import pytest
from hypothesis import settings

from support import fixed_ceilings

# A busy machine is no defect: no example has a deadline.
settings.register_profile("trtprof", deadline=None)
settings.load_profile("trtprof")


@pytest.fixture
def no_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in this process take `fixed_ceilings` instead of measuring for twenty seconds."""
    monkeypatch.setattr("profiler.hardware.store.load_or_calibrate", lambda *_args, **_named: fixed_ceilings())
