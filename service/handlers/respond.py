"""The last step of a handler: send an answer, and put the response into the response cache."""

from __future__ import annotations

from aiohttp import web
from aiohttp.typedefs import Handler
from multidict import CIMultiDict

from service.cache.answers import Answer, tag_of
from service.cache.keys import CREDENTIALS, EVERYTHING, repository_namespace
from service.handlers.admission import Admission
from service.http.ignored_parameters import IGNORED_HEADER, name_ignored
from service.http.query_string import split
from service.middleware.response_cache import RESPONSE_CACHE, headers_of, make_response


def find_ignored(request: web.Request) -> str | None:
    """The header that names all parameters of a request, where its operation has none."""
    raw_query = request.rel_url.raw_query_string
    return name_ignored(split(raw_query, ())[1]) if raw_query else None


def without_parameters(handler: Handler) -> Handler:
    """A handler that names in its answer all parameters of the request."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = await handler(request)
        ignored = find_ignored(request)
        if ignored is not None:
            response.headers[IGNORED_HEADER] = ignored
        return response

    return answer


def respond(
    request: web.Request,
    admission: Admission,
    answer: Answer,
    links: CIMultiDict[str] | None = None,
    *,
    ignored: str | None,
) -> web.StreamResponse:
    """The response to an admitted request; `ignored` names parameters without effect."""
    etag = tag_of(answer, () if links is None else links.values())
    headers = headers_of(links, etag=etag, ignored=ignored)
    # Everything that a response depends on, from the credential to the body.
    namespaces = (CREDENTIALS, EVERYTHING, repository_namespace(admission.repository))
    versions = admission.session.versions_of(namespaces)
    if versions is not None:
        request.app[RESPONSE_CACHE].keep(
            request,
            answer,
            headers,
            namespaces=namespaces,
            versions=versions,
            principal=admission.principal.name,
            until=admission.principal.until,
        )
    return make_response(request, answer, headers)
