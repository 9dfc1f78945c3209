"""Folders of reports: which files are read, and what cannot be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from indexing.ingest.counts import IngestCount
from indexing.store.interface import Store
from tests.indexing.ingest.reports import count_of, ingest, request_for, write_report


async def test_a_folder_is_walked_in_order_for_reports_alone(store: Store, folder: Path) -> None:
    for name in ("b/2.xml", "b/1.xml.gz", "a.xml", "c.XML"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("<wrong/>")
    (folder / "notes.txt").write_text("not looked at")
    os.mkfifo(folder / "pipe.xml")
    _, refused = await ingest(store, request_for(folder))
    assert [Path(refusal.file).relative_to(folder).as_posix() for refusal in refused] == [
        "a.xml",
        "c.XML",
        "b/1.xml.gz",
        "b/2.xml",
    ]


@pytest.mark.parametrize("to", ["x" * 300, "link.xml", "a.xml/foo", "gone.xml"])
async def test_a_link_that_cannot_be_read_is_refused_and_the_rest_of_the_folder_lands(
    store: Store, folder: Path, to: str
) -> None:
    # No permission gives an error too, but does not bind root.
    (folder / "link.xml").symlink_to(to)
    write_report(folder / "a.xml", "one")
    write_report(folder / "z.xml", "two")
    count, (refusal,) = await ingest(store, request_for(folder))
    assert count == IngestCount(read=3, written=2, refused=1)
    assert refusal.file == str(folder / "link.xml")
    assert refusal.reason.startswith("cannot be read: ")


@pytest.mark.parametrize("to", ["x" * 300, "loop", "a.xml/foo", "gone"])
async def test_a_link_that_leads_nowhere_and_is_not_named_like_a_report_is_passed_over(
    store: Store, folder: Path, to: str
) -> None:
    (folder / "loop").symlink_to(to)
    write_report(folder / "a.xml", "one")
    count, refused = await ingest(store, request_for(folder))
    assert (count, refused) == (IngestCount(read=1, written=1), [])


async def test_linked_folders_are_read_once_and_loops_end(
    store: Store, folder: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    write_report(elsewhere / "b.xml", "linked")
    write_report(folder / "a.xml", "own")
    for name in ("1", "2"):
        (folder / name).symlink_to(elsewhere)
    (elsewhere / "loop").symlink_to(folder)
    count, refused = await ingest(store, request_for(folder))
    assert (count, refused) == (IngestCount(read=2, written=2), [])
    assert await count_of(store, "linked") == 1


async def test_a_folder_without_reports_is_refused(store: Store, folder: Path) -> None:
    _, (refusal,) = await ingest(store, request_for(folder))
    assert refusal.file == str(folder)
