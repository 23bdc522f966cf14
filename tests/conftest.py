"""Fixtures that every test may use."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from support import fixed_ceilings

# A busy machine is no defect: no example has a deadline.
settings.register_profile("trtprof", deadline=None)
settings.load_profile("trtprof")

# Where TensorRT-RTX is installed too, engines are built by the tests that ask for them alone.
os.environ["TRTPROF_NO_ENGINE"] = "1"


@pytest.fixture
def no_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in this process take `fixed_ceilings` instead of measuring for twenty seconds."""
    monkeypatch.setattr("profiler.hardware.store.load_or_calibrate", lambda *_args, **_named: fixed_ceilings())
