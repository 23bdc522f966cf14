"""A share of ``scripts/fuzz/redaction.py``: no name that was planted is in any document."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes import planted_names

pytestmark = pytest.mark.nightly


def test_no_planted_name_is_in_any_document(tmp_path: Path) -> None:
    found = planted_names.search(tmp_path, seed=3, models=1, engines=2)
    assert found.leaks == []
    assert found.planted > 250
    assert found.documents > 100


def test_they_are_found_where_nothing_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trtprof.report.redact.redact", lambda run, _: run)
    assert planted_names.search(tmp_path, seed=3, models=0, engines=1).leaks
