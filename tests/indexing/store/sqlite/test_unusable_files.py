"""An error says what to look at if the file, its folder or its disk cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexing.errors import StoreUnavailableError
from indexing.store import open_store
from tests.full_disk import limit_of_files


async def test_a_store_cannot_be_opened_on_a_full_disk(tmp_path: Path) -> None:
    await (await open_store(tmp_path)).close()
    # SQLite cannot make its file of shared memory.
    with (
        limit_of_files(1024),
        pytest.raises(StoreUnavailableError, match=r"mergewatch\.db failed: .*full"),
    ):
        await open_store(tmp_path)
    await (await open_store(tmp_path)).close()


async def test_a_store_that_cannot_be_opened_is_told_who_must_be_able_to(tmp_path: Path) -> None:
    # Not a file without rights: the tests may run as root, who can open those.
    (tmp_path / "mergewatch.db").mkdir()
    with pytest.raises(StoreUnavailableError, match=r"mergewatch\.db failed: .*this user has to"):
        await open_store(tmp_path)
