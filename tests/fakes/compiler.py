"""Tests that compile kernels, where there is no compiler: they are skipped, in words."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

import pytest

from trtprof.base.errors import MissingError
from trtprof.runtime import nvrtc


def needs_nvrtc() -> None:
    """Skip where NVRTC is not installed."""
    try:
        nvrtc.nvrtc_version()
    except MissingError as missing:
        pytest.skip(f"kernels are compiled by NVRTC: {missing.what}")


@contextlib.contextmanager
def skipped_without_nvrtc() -> Iterator[None]:
    """What fails in here because NVRTC is not installed is skipped; other things that are missing stay errors."""
    try:
        yield
    except MissingError:
        needs_nvrtc()
        raise


@functools.lru_cache(maxsize=1000)
def _kept(source: bytes, architecture: str, fast_math: bool) -> nvrtc.Compiled:
    return _compile(source, architecture, fast_math=fast_math)


_compile = nvrtc.compile_source


def compiled_once(source: bytes, architecture: str, *, fast_math: bool = True) -> nvrtc.Compiled:
    """`nvrtc.compile_source`, which is asked once for each text that many tests have."""
    return _kept(source, architecture, fast_math)
