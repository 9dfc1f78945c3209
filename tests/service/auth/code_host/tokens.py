"""Requests with tokens of the code host."""

from __future__ import annotations

from tests.service.front_door import LOGS, FrontDoor
from tests.source_host import Saying

TOKEN = "ghs_a.token-of/a+host~1="
GOOD = Saying(200, body=b'{"id": 1, "full_name": "Acme/Widgets"}')


async def status(door: FrontDoor, token: str = TOKEN, target: str = LOGS) -> int:
    return (await door.get(target, key=token)).status
