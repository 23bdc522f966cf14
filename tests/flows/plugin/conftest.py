"""Most tests of the flow compile kernels: the same ones."""

from __future__ import annotations

import pytest

from tests.fakes.compiler import compiled_once
from trtprof.runtime import nvrtc


@pytest.fixture(autouse=True)
def _compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "compile_source", compiled_once)
