"""Values whose storing is confirmed, in each of the places that hold them."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from service.cache import local_values
from service.cache.confirmed import CacheUnavailableError, ConfirmedValues
from service.cache.local_values import FolderValues, MemoryValues
from service.cache.redis_connection import RedisConnection
from service.cache.redis_values import RedisValues
from service.cache.signing import CacheSigner

HOUR = 3_600.0


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def open_redis(url: str, secret: bytes, prefix: str) -> tuple[RedisValues, RedisConnection]:
    connection = RedisConnection(url)
    await connection.open()
    return RedisValues(connection, CacheSigner(secret), prefix), connection


@pytest.fixture(params=["memory", "folder", "redis"])
async def values(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ConfirmedValues]:
    if request.param == "memory":
        yield MemoryValues()
    elif request.param == "folder":
        yield FolderValues(tmp_path / "new")
    else:
        url = request.getfixturevalue("redis_url")
        opened, connection = await open_redis(url, b"secret", f"test-{secrets.token_hex(8)}:")
        yield opened
        await connection.close()


async def test_a_value_is_found_until_it_is_dropped(values: ConfirmedValues) -> None:
    assert await values.find("a1") is None
    await values.drop("a1")
    await values.keep("a1", b"first", HOUR)
    await values.keep("b2", b"\0other\xff", HOUR)
    await values.keep("a1", b"second", HOUR)
    assert await values.find("a1") == b"second"
    await values.drop("a1")
    assert await values.find("a1") is None
    assert await values.find("b2") == b"\0other\xff"


async def test_an_expired_file_is_not_found_and_soon_removed(tmp_path: Path) -> None:
    values = FolderValues(tmp_path)
    await values.keep("a1", b"old", HOUR)
    os.utime(tmp_path / "a1", (1, 1))
    assert await values.find("a1") is None
    await values.keep("b2", b"new", HOUR)
    assert names_in(tmp_path) == ["b2"]


async def test_of_too_many_files_the_first_to_expire_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_values, "MAX_FILES", 3)
    values = FolderValues(tmp_path)
    for number in range(6):
        await values.keep(f"a{number}", b"x", HOUR + number)
    await values.sweep()
    assert names_in(tmp_path) == ["a3", "a4", "a5"]


@pytest.mark.parametrize("most", [0, 10])
async def test_a_file_that_is_being_written_is_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(local_values, "MAX_FILES", most)
    set_times = os.utime

    def sweep_before(path: Path, times: tuple[float, float]) -> None:
        local_values._sweep(tmp_path)
        set_times(path, times)

    monkeypatch.setattr(os, "utime", sweep_before)
    values = FolderValues(tmp_path)
    await values.keep("a1", b"x", HOUR)
    assert await values.find("a1") == b"x"


async def test_a_file_that_a_process_died_over_is_removed_after_a_minute(tmp_path: Path) -> None:
    left, written = tmp_path / ".left", tmp_path / ".written"
    for path, seconds in ((left, 90), (written, 30)):
        path.touch()
        os.utime(path, (time.time() - seconds,) * 2)
    await FolderValues(tmp_path).sweep()
    assert names_in(tmp_path) == [".written"]


async def test_only_this_user_reads_the_files(tmp_path: Path) -> None:
    await FolderValues(tmp_path / "new").keep("a1", b"x", HOUR)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "new" / "a1").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "call",
    [
        lambda values: values.keep("a1", b"x", HOUR),
        lambda values: values.find("a1"),
        lambda values: values.drop("a1"),
        lambda values: values.sweep(),
    ],
)
async def test_a_folder_that_cannot_be_used_is_an_error(
    tmp_path: Path, call: Callable[[FolderValues], Awaitable[object]]
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CacheUnavailableError, match=r"Not a directory|File exists"):
        await call(FolderValues(tmp_path / "file"))


async def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_values, "MAX_MEMORY_BYTES", 10_000)
    values = MemoryValues()
    for number in range(10):
        await values.keep(f"a{number}", b"x" * 1_000, HOUR)
    assert await values.find("a0") is None
    assert await values.find("a9") is not None


async def test_a_redis_that_does_not_answer_is_an_error_and_not_a_missing_value() -> None:
    values, connection = await open_redis("redis://127.0.0.1:1/0", b"secret", "test:")
    for call in (values.keep("a1", b"x", HOUR), values.find("a1"), values.drop("a1")):
        with pytest.raises(CacheUnavailableError):
            await call
    await connection.close()


async def test_a_value_of_another_secret_is_not_found(redis_url: str) -> None:
    prefix = f"test-{secrets.token_hex(8)}:"
    mine, connection = await open_redis(redis_url, b"mine", prefix)
    forged, other = await open_redis(redis_url, b"forged", prefix)
    await forged.keep("a1", b"x", HOUR)
    assert await mine.find("a1") is None
    assert await forged.find("a1") == b"x"
    await connection.close()
    await other.close()
