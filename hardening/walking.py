"""Walks the event log by its links and collects the events."""

from __future__ import annotations

import re
from datetime import datetime
from http import HTTPStatus
from urllib.parse import quote

import orjson

from hardening.stock import Stock
from hardening.tenants import path_of
from hardening.wire import Told, Wire
from indexing.timestamps import format_timestamp

_PAGE = 100
_LINK = r'<https?://[^/<>]*([^<>]*)>; rel="%s"'


async def walk_events(
    port: int, key: str, stock: Stock, start: datetime, end: datetime
) -> set[int]:
    """Return the ids of all events in a range; a failed page ends the walk."""
    received = f"received_from={quote(format_timestamp(start))}"
    received += f"&received_to={quote(format_timestamp(end))}"
    following: str | None = f"{path_of(stock, 'logs')}?{received}&per_page={_PAGE}"
    wire, ids = Wire(port), set[int]()
    while following is not None:
        told = await wire.ask(following, key)
        if told.status != HTTPStatus.OK:
            break
        ids.update(event["id"] for event in orjson.loads(told.body)["events"])
        following = link_of(told, "next")
    wire.abort()
    return ids


def link_of(told: Told, relation: str) -> str | None:
    """Return the target of a link of an answer, without scheme and host."""
    links = ", ".join(value for name, value in told.headers if name == "link")
    found = re.search(_LINK % relation, links)
    return found and found[1]
