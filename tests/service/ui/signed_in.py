"""Plain requests of a person who is signed in."""

from __future__ import annotations

from indexing.models.keys import Scope
from tests.service.front_door import FrontDoor
from tests.service.ui.client import Client


async def sign_in(
    door: FrontDoor, scope: Scope = Scope.QUARANTINE, key_id: str | None = None
) -> Client:
    """Return a client that is signed in with a new key, which becomes the key of the door."""
    chosen = {} if key_id is None else {"key_id": key_id}
    door.key = await door.add_key(name="on call", scope=scope, **chosen)
    door.client.cookie_jar.clear()
    client = Client(door)
    await client.sign_in()
    return client


async def read(client: Client, path: str) -> str:
    answer = await client.get(path)
    assert answer.status == 200, (path, answer.body)
    return answer.body.decode()
