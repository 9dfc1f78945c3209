"""A truncated or replaced file gives an error or the right answer, never another one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from indexing.errors import StoreError, StoreUnavailableError
from indexing.groups import find_directory
from indexing.models import groups as models
from indexing.models.groups import Grouping
from indexing.store import open_store
from indexing.store.interface import Store
from tests.builders import GADGETS, WIDGETS, load_names
from tests.new_stores import open_new_store

FILE = "mergewatch.db"
# All cuts inside the last pages, and some that remove whole pages.
LENGTHS = [*range(100, 4 * 4096, 500), 4096, 8192, 5 * 4096, 20 * 4096]


async def group(store: Store) -> list[models.TestGroup]:
    return list(await store.group_tests(WIDGETS, Grouping.DIRECTORY, 100, find_directory))


def require_named(error: StoreError) -> None:
    """Fail unless the error names the file."""
    if FILE not in str(error):
        raise error


@pytest.fixture
async def origin(tmp_path: Path) -> tuple[Path, list[models.TestGroup]]:
    """A folder with a store, and its groups."""
    folder = tmp_path / "origin"
    store = await open_new_store(folder)
    # With 150 tests, the last page of the file contains some of them.
    await load_names(store, [f"tests/part_{n % 7}/test_{n}.py" for n in range(150)])
    groups = await group(store)
    await store.close()
    assert len(groups) == 7
    return folder, groups


@pytest.mark.parametrize("missing", LENGTHS)
async def test_a_store_that_was_truncated_before_it_is_opened(
    origin: tuple[Path, list[models.TestGroup]], missing: int
) -> None:
    folder, groups = origin
    file = folder / FILE
    os.truncate(file, file.stat().st_size - missing)
    found = groups
    try:
        store = await open_store(folder)
        try:
            found = await group(store)
        finally:
            await store.close()
    except StoreError as error:
        require_named(error)
    assert found == groups


async def test_a_store_that_is_truncated_while_it_is_open(
    origin: tuple[Path, list[models.TestGroup]], tmp_path: Path
) -> None:
    folder, groups = origin
    errors = 0
    for missing in LENGTHS:
        place = tmp_path / str(missing)
        shutil.copytree(folder, place)
        store = await open_store(place)
        os.truncate(place / FILE, (place / FILE).stat().st_size - missing)
        found = groups
        try:
            found = await group(store)
        except StoreError as error:
            require_named(error)
            errors += 1
        finally:
            await store.close()
        assert found == groups
    assert errors


async def test_a_store_that_is_replaced_while_it_is_open(tmp_path: Path) -> None:
    store = await open_store(tmp_path)
    await store.ensure_repository(WIDGETS)
    shutil.copy(tmp_path / FILE, tmp_path / "copy")
    (tmp_path / "copy").rename(tmp_path / FILE)
    # What is written now would be lost.
    with pytest.raises(StoreUnavailableError, match=f"{FILE} was replaced"):
        await store.ensure_repository(GADGETS)
    with pytest.raises(StoreUnavailableError, match=f"{FILE} was replaced"):
        await store.find_repository(WIDGETS)
    await store.close()
