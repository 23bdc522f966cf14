"""Who is told what a flow is doing."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from trtprof.base.records import ModelInfo


class Progress(Protocol):
    """Told which stage runs and what it is doing."""

    def stage(self, name: str) -> None:
        """A stage begins; the one before is done."""

    def detail(self, text: str) -> None:
        """One line about the running stage."""

    def note(self, text: str) -> None:
        """A sentence that stays, whole, whatever else is told."""

    def opened(self, folder: Path) -> None:
        """The run folder is there; what the stages finish is kept in it."""


class _Silent:
    """Says nothing."""

    def stage(self, name: str) -> None:
        """Nothing."""

    def detail(self, text: str) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""

    def opened(self, folder: Path) -> None:
        """Nothing."""


SILENT = _Silent()  # A `Progress` that says nothing


def tell_assumptions(model: ModelInfo, progress: Progress) -> None:
    """Say all that was assumed of a model."""
    for text in model.assumptions:
        progress.note(f"assumed: {text}")
