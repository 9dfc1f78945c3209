"""Where the sessions of tokens are kept without Redis."""

from __future__ import annotations

import base64
import time
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from indexing.clocks import utc_now
from indexing.names import RepositoryName
from service.cache.memory import MemoryBackend
from service.config.settings import Settings
from service.ui.session import LIFETIME
from service.ui.session_places import needs_folder, open_token_sessions
from service.ui.token_sessions import SignedToken, TokenSessions

MONA = "token 1"
SIGNED = SignedToken("ghp_of_mona", RepositoryName("acme", "widgets"))
ON_SQLITE = Settings(host_api_url="https://api.example")
ON_ELASTICSEARCH = replace(ON_SQLITE, elasticsearch_url=("http://127.0.0.1:1",))


def any_in(folder: Path) -> bool:
    return any(folder.iterdir())


def find_expiry_in(folder: Path) -> float:
    """Return the time of the one file, which is that at which it expires."""
    [kept] = folder.iterdir()
    return kept.stat().st_mtime


async def open_sessions(settings: Settings, folder: Path | None) -> TokenSessions:
    opened = await open_token_sessions(settings, MemoryBackend(lambda: None), folder, utc_now)
    assert opened is not None
    return opened


async def test_workers_over_elasticsearch_share_a_folder(tmp_path: Path) -> None:
    one, other = [await open_sessions(ON_ELASTICSEARCH, tmp_path) for _ in range(2)]
    ticket = await one.begin(SIGNED, MONA)
    assert await other.find(ticket) == SIGNED
    await other.end(ticket)
    assert await one.find(ticket) is None


async def test_a_token_is_kept_for_as_long_as_its_session(tmp_path: Path) -> None:
    opened = await open_sessions(ON_ELASTICSEARCH, tmp_path)
    began = time.time()
    await opened.begin(SIGNED, MONA)
    assert find_expiry_in(tmp_path) >= began + LIFETIME.total_seconds()


async def test_a_single_process_over_elasticsearch_writes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    one, other = [await open_sessions(ON_ELASTICSEARCH, None) for _ in range(2)]
    ticket = await one.begin(SIGNED, MONA)
    assert await one.find(ticket) == SIGNED
    assert await other.find(ticket) is None
    assert not any_in(tmp_path)


@pytest.mark.parametrize("ticket", ["", "A", "ä", "AAAA", "!" * 44, "A" * 43 + "="])
async def test_a_made_up_ticket_finds_nothing(tmp_path: Path, ticket: str) -> None:
    opened = await open_sessions(replace(ON_SQLITE, data_dir=tmp_path), None)
    await opened.begin(SIGNED, MONA)
    assert await opened.find(ticket) is None
    await opened.end(ticket)


async def test_a_ticket_of_an_earlier_release_stays_valid(tmp_path: Path) -> None:
    opened = await open_sessions(replace(ON_SQLITE, data_dir=tmp_path), None)
    key = b"k" * 32
    content = orjson.dumps([SIGNED.token, SIGNED.repository.owner, SIGNED.repository.name])
    fernet = opened._open_fernet(key)
    await opened._values.keep(opened._name(key), fernet.encrypt(content), 60)
    ticket = base64.urlsafe_b64encode(key).decode()
    assert await opened.find(ticket) == SIGNED
    await opened.end(ticket)
    assert await opened.find(ticket) is None


async def test_a_folder_that_cannot_be_read_does_not_stop_the_service(tmp_path: Path) -> None:
    (tmp_path / "sessions").touch()
    await open_sessions(replace(ON_SQLITE, data_dir=tmp_path), None)


def test_only_workers_that_share_nothing_else_need_a_folder() -> None:
    assert needs_folder(ON_ELASTICSEARCH)
    for settings in (
        ON_SQLITE,
        replace(ON_ELASTICSEARCH, redis_url="redis://127.0.0.1"),
        replace(ON_ELASTICSEARCH, host_api_url=None),
        replace(ON_ELASTICSEARCH, ui=False),
    ):
        assert not needs_folder(settings)
