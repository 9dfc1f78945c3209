"""Fixtures: a service whose sessions of tokens are in a folder or in Redis, and a browser."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from service.config.settings import Settings
from tests.service.front_door import Answer, FrontDoor
from tests.service.ui.client import Client
from tests.source_host import SourceHost, open_host

TOKEN = "ghs_a.token-of/a+host~1="
OTHER = "ghp_of_another_person"
HOME = "acme/widgets"
NO_REDIS = "redis://127.0.0.1:1/0"


@pytest.fixture
async def host() -> AsyncIterator[SourceHost]:
    async with open_host() as opened:
        opened.add("Acme/Widgets", TOKEN)
        opened.add("umbrella/widgets", OTHER)
        yield opened


@pytest.fixture(params=["folder", "redis"])
def stack(request: pytest.FixtureRequest, tmp_path: Path, host: SourceHost) -> Settings:
    """The settings of a service that keeps sessions in that place."""
    chosen = Settings(data_dir=tmp_path, host_api_url=host.base)
    if request.param == "redis":
        chosen = replace(chosen, redis_url=request.getfixturevalue("redis_url"))
    return chosen


@pytest.fixture
async def client(door: FrontDoor) -> Client:
    # Cookies are kept by the tests themselves.
    door.client.cookie_jar.clear()
    return Client(door)


async def sign_in(client: Client, token: str = TOKEN, repository: str = HOME) -> Answer:
    return await client.sign_in(token, repository=repository)


async def signed_in(door: FrontDoor, token: str = TOKEN, repository: str = HOME) -> Client:
    client = Client(door)
    assert (await sign_in(client, token, repository)).status == 303
    return client


async def is_open(client: Client, path: str = "/ui/") -> bool:
    return (await client.get(path)).status == 200


def move(client: Client, door: FrontDoor) -> Client:
    """The same browser at another process, which listens on another port."""
    moved = Client(door)
    old, new = (each.base.rpartition(":")[2] for each in (client.door, door))
    moved.cookies = {name.replace(old, new): value for name, value in client.cookies.items()}
    return moved


def kept_in(settings: Settings) -> bytes:
    """Return all that is stored: every file of the service, or every value of Redis."""
    found = [path.read_bytes() for path in settings.data_dir.rglob("*") if path.is_file()]
    if settings.redis_url is not None:
        with redis.Redis.from_url(settings.redis_url) as server:
            for key in server.keys("mergewatch:*"):
                found += [key, server.get(key) or b""]
    return b"\n".join(found)


async def drop_sessions(door: FrontDoor) -> int:
    """Lose all sessions of tokens; return how many there were."""
    settings = door.settings
    if settings.redis_url is None:
        paths = list((settings.data_dir / "sessions").iterdir())
        for path in paths:
            path.unlink()
        return len(paths)
    with redis.Redis.from_url(settings.redis_url) as server:
        store_id = (await door.reader.get_identity()).store_id
        keys = server.keys(f"mergewatch:*{store_id}*:confirmed:*")
        return int(server.delete(*keys)) if keys else 0


def without_figures(answer: Answer) -> bytes:
    """Return the page without what differs each time: CSRF tokens, times and request ids."""
    text = re.sub(rb'value="[0-9a-f]+\.[0-9a-f]+"', b"", answer.body)
    return re.sub(rb"Answered in [^<]*|request <?[^<]*", b"", text)


def forms_of(secret: str) -> list[bytes]:
    """Return the encodings in which a secret may hide."""
    raw = secret.encode()
    # Base64 of the same bytes depends on the position, modulo three.
    shifted = [base64.b64encode(b"\0" * at + raw)[4 * bool(at) : -4] for at in range(3)]
    return [raw, raw.hex().encode(), *shifted, *(each.translate(URL_SAFE) for each in shifted)]


URL_SAFE = bytes.maketrans(b"+/", b"-_")
