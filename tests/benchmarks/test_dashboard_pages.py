"""The benchmark of the dashboard's pages, over a small store."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.dashboard import data
from benchmarks.dashboard.__main__ import Place, add_key, fill, measure
from benchmarks.dashboard.pages import list_pages
from service.config.settings import Settings
from tests.builders import NOON

pytestmark = pytest.mark.slow


async def test_every_page_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, few in (("_OTHERS", 2), ("_LONG_DAYS", 3), ("QUARANTINES", 2)):
        monkeypatch.setattr(data, name, few)
    settings = Settings(data_dir=tmp_path)
    await fill(settings, 400, 600, NOON)
    place = Place(settings, None, await add_key(settings, NOON), NOON)
    pages = list(list_pages())
    await measure(place, pages, 1)
    rows = capsys.readouterr().out.splitlines()[-len(pages) :]
    # A page that is refused has its status instead of figures.
    assert [row for row in rows if len(row.split()) < 7 or "HOLD:" in row] == []
    assert all(row.startswith(page.name) for row, page in zip(rows, pages, strict=True))
