"""Events that are sent to the log, if the operator turns this on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Final

from aiohttp import web

from indexing.ingest.bodies import (
    REPORTED_REFUSALS,
    AcceptedLine,
    UnreportedLines,
    WrongLine,
    read_events,
)
from indexing.ingest.counts import IngestCount
from indexing.ingest.dead_letter import RefusedLine
from indexing.ingest.events import EventLoad
from service.context import CONTEXT, REPOSITORY
from service.ingest.body_workers.wire import BodyReader
from service.ingest.limiter import LIMITER
from service.routes import SEND_EVENTS
from service.schemas.compiled import compile_encoder
from service.schemas.responses import EventIntakeAnswer

_encode: Final = compile_encoder(EventIntakeAnswer)


@dataclass(frozen=True, slots=True)
class _Intake:
    """What became of the events of a body; `refusals` are the first of the refused ones."""

    count: IngestCount
    refusals: Sequence[RefusedLine]


async def send_events(request: web.Request) -> web.Response:
    """POST /v1/repos/{owner}/{repository}/logs."""
    context = request.app[CONTEXT]
    repository = request[REPOSITORY]
    refused: list[RefusedLine] = []

    def refuse(line: RefusedLine) -> None:
        if len(refused) < REPORTED_REFUSALS:
            refused.append(line)

    reader: BodyReader[AcceptedLine | WrongLine | UnreportedLines] = partial(
        read_events, repository, context.clock()
    )
    load = EventLoad(context.writer, "the request body", refuse)
    async with (
        request.app[LIMITER].receive(request, SEND_EVENTS.media_types) as body,
        aclosing(body.read(reader)) as lines,
    ):
        async for item in lines:
            if isinstance(item, AcceptedLine):
                load.add(item.line, item.event)
            elif isinstance(item, WrongLine):
                load.refuse(item.line, item.reasons)
            else:
                load.refuse_unreported(item.count)
            if load.is_full:
                await load.flush()
        await load.flush()
    return web.Response(body=_encode(_Intake(load.count, refused)), content_type="application/json")
