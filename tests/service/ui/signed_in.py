"""Plain requests of a person who is signed in."""

from __future__ import annotations

from indexing.models.keys import Scope
from tests.service.front_door import FrontDoor
from tests.service.ui.test_sessions import Client


async def sign_in(door: FrontDoor) -> Client:
    """Return a client with a session that may read and quarantine."""
    door.key = await door.add_key(name="on call", scope=Scope.QUARANTINE)
    door.client.cookie_jar.clear()
    client = Client(door)
    await client.sign_in()
    return client


async def read(client: Client, path: str) -> str:
    answer = await client.get(path)
    assert answer.status == 200, (path, answer.body)
    return answer.body.decode()
