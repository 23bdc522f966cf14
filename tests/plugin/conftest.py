"""Most tests of plugins compile kernels, which takes NVRTC, and no GPU."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.fakes.compiler import compiled_once, skipped_without_nvrtc
from trtprof.runtime import nvrtc


@pytest.fixture(autouse=True)
def _compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "compile_source", compiled_once)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    """Fixtures that compile."""
    with skipped_without_nvrtc():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """Tests that compile."""
    with skipped_without_nvrtc():
        return (yield)
