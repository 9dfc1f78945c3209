"""Walks the event log by its links and collects the events."""

from __future__ import annotations

import re
from datetime import datetime
from http import HTTPStatus
from urllib.parse import quote

import orjson

from hardening.raw_http import RawConnection, Response
from hardening.seeding import SeededRepository
from hardening.tenants import path_of
from indexing.timestamps import format_timestamp

_PAGE = 100
_LINK = r'<https?://[^/<>]*([^<>]*)>; rel="%s"'


async def walk_events(
    port: int, key: str, seeded: SeededRepository, start: datetime, end: datetime
) -> set[int]:
    """Return the ids of all events in a range; a failed page ends the walk."""
    received = f"received_from={quote(format_timestamp(start))}"
    received += f"&received_to={quote(format_timestamp(end))}"
    following: str | None = f"{path_of(seeded, 'logs')}?{received}&per_page={_PAGE}"
    connection, ids = RawConnection(port), set[int]()
    while following is not None:
        response = await connection.request(following, key)
        if response.status != HTTPStatus.OK:
            break
        ids.update(event["id"] for event in orjson.loads(response.body)["events"])
        following = link_of(response, "next")
    connection.abort()
    return ids


def link_of(response: Response, relation: str) -> str | None:
    """Return the target of a link of an answer, without scheme and host."""
    links = ", ".join(value for name, value in response.headers if name == "link")
    found = re.search(_LINK % relation, links)
    return found and found[1]
