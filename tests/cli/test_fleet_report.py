"""``trtprof fleet report`` as a person uses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes import fleets
from tests.fakes.command_line import refused, trtprof
from tests.fakes.fleet_reports import asked
from trtprof.flows.fleet.store import Store


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("fleet") / "a fleet"
    cells = list(fleets.cells(3, 2))
    store = Store(str(place))
    store.keep(asked(cells, {"t4": 0.4, "l4": 0.8}), cells)
    store.put(fleets.rows(3, 2))
    return place


def test_it_is_told_and_written_in_any_format(folder: Path, tmp_path: Path) -> None:
    files = [tmp_path / f"f.{suffix}" for suffix in ("html", "json", "csv", "parquet", "md", "txt")]
    done = trtprof("fleet", "report", folder, *(word for file in files for word in ("-o", file)))
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("ours   3 models   6 targets   36 cells:")
    assert all(f"wrote {file}" in done.stderr for file in files)
    again = trtprof("fleet", "report", folder, "-o", files[0])
    refused(again, 2, "exists and will not be overwritten")


def test_a_page_links_runs_from_where_it_is(folder: Path, tmp_path: Path) -> None:
    ran = next(row for row in fleets.rows(3, 2) if row.run)
    for page, link in ((folder / "fleet.html", f"./{ran.run}"), (folder.parent / "x.html", f"./a%20fleet/{ran.run}")):
        assert trtprof("fleet", "report", folder, "-o", page, "--force").exit_code == 0
        assert f'"{link}"' in page.read_text("utf-8")
    other = tmp_path / "y.html"
    assert trtprof("fleet", "report", folder, "-o", other).exit_code == 0
    assert f"/a%20fleet/{ran.run}" in other.read_text("utf-8")
