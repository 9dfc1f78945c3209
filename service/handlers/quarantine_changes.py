"""Adds and removes quarantines on request, and lists all changes of quarantines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final
from urllib.parse import quote

import orjson
from aiohttp import web
from marshmallow import ValidationError

from indexing.errors import TooManyQuarantinesError
from indexing.identifiers import derive_test_id
from indexing.ingest.body_errors import BodyError
from indexing.models.quarantines import Actor, ActorKind, QuarantineRequest
from service.auth.principal import Principal
from service.context import CONTEXT, PRINCIPAL, REPOSITORY
from service.handlers.list_endpoint import ListEndpoint, open_list, read_page
from service.http import problems
from service.http.field_errors import FieldError
from service.http.path_params import QUARANTINE_ID, read_id
from service.http.query_string import name_ignored
from service.ingest.limiter import LIMITER, SMALL_BODY_BYTES
from service.middleware.response_cache import respond_uncached
from service.pagination.sort_keys import QUARANTINE_CHANGE_KEYS
from service.routes import ADD_QUARANTINE, LIST_QUARANTINE_CHANGES
from service.schemas.bodies import QuarantineBody
from service.schemas.compiled import compile_encoder
from service.schemas.responses import AddedQuarantineAnswer, QuarantineChangesAnswer

LIST: Final = ListEndpoint(LIST_QUARANTINE_CHANGES, QUARANTINE_CHANGE_KEYS)

_BODY: Final = QuarantineBody()
_ADDED: Final = AddedQuarantineAnswer()
_UNKNOWN_TEST: Final = "no result of this test is known; check the spelling of its name"
_encode_page: Final = compile_encoder(QuarantineChangesAnswer)


async def list_changes(request: web.Request) -> web.StreamResponse:
    """GET /v1/ci/{owner}/repositories/{repository}/quarantines/changes."""
    opened = open_list(request, LIST)
    context = opened.context
    read = partial(context.reader.list_quarantine_changes, opened.repository, context.clock())
    answer = await read_page(opened, read, _encode_page)
    links = opened.links(answer.ends)
    return respond_uncached(request, answer, links, ignored=opened.query.ignored)


async def add_quarantine(request: web.Request) -> web.Response:
    """POST /v1/ci/{owner}/repositories/{repository}/quarantines."""
    async with request.app[LIMITER].receive(
        request, ADD_QUARANTINE.media_types, SMALL_BODY_BYTES
    ) as body:
        async with aclosing(body.read(_parse)) as values:
            value = await anext(values, None)
        return await add_decoded_quarantine(request, value)


async def add_decoded_quarantine(request: web.Request, value: Any) -> web.Response:
    """Quarantine the test that a decoded body names."""
    context, repository = request.app[CONTEXT], request[REPOSITORY]
    now = context.clock()
    wanted = _check(value, now)
    try:
        quarantine, is_new = await context.writer.add_quarantine(
            repository, replace(wanted, actor=_actor_of(request[PRINCIPAL])), now
        )
    except TooManyQuarantinesError as error:
        raise problems.conflict(str(error)) from error
    test_id = derive_test_id(repository, wanted.test_name)
    is_known = await context.reader.get_test(repository, test_id) is not None
    answer: dict[str, Any] = {"id": quarantine.key.id}
    if warnings := [*_warn_of_unknown(value), *(() if is_known else (_UNKNOWN_TEST,))]:
        answer["warning"] = "; ".join(warnings)
    place = f"{request.rel_url.raw_path.rstrip('/')}/{quarantine.key.id}"
    return web.Response(
        status=201 if is_new else 200,
        body=orjson.dumps(_ADDED.dump(answer)),
        content_type="application/json",
        headers={"Location": f"{context.public_url or ''}{place}"},
    )


async def remove_quarantine(request: web.Request) -> web.Response:
    """DELETE /v1/ci/{owner}/repositories/{repository}/quarantines/{quarantine_id}."""
    context = request.app[CONTEXT]
    quarantine_id = read_id(request.match_info, QUARANTINE_ID)
    if not await context.writer.remove_quarantine(
        request[REPOSITORY], quarantine_id, context.clock(), _actor_of(request[PRINCIPAL])
    ):
        raise problems.not_found("quarantine")
    return web.Response(status=204)


def _parse(content: bytes) -> Iterator[Any]:
    try:
        yield orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise BodyError(f"the request body is not JSON: {error}") from error


def _check(value: Any, now: datetime) -> QuarantineRequest:
    if not isinstance(value, dict):
        raise problems.malformed("the request body must be a JSON object")
    errors: list[FieldError] = []
    members: dict[str, Any]
    try:
        members = _BODY.load(value)
    except ValidationError as error:
        members = dict(error.valid_data or {})
        errors += (
            FieldError("body", str(name), "; ".join(map(str, messages)))
            for name, messages in error.messages_dict.items()
        )
    expires_at = members.get("expires_at")
    if expires_at is not None and expires_at <= now:
        errors.append(FieldError("body", "expires_at", "must be in the future"))
    if errors:
        raise problems.invalid(errors)
    return QuarantineRequest(**members)


def _warn_of_unknown(value: Mapping[str, Any]) -> Iterator[str]:
    # A misspelled `expires_at` makes a quarantine that never ends.
    if named := name_ignored([quote(name) for name in value.keys() - _BODY.fields.keys()]):
        yield f"members of the body that are not known have no effect: {named}"


def _actor_of(principal: Principal) -> Actor:
    if principal.key is None:
        return Actor(ActorKind.USER, principal.name)
    return Actor(ActorKind.KEY, principal.key.name, principal.key.id)
