"""The last step of a handler whose answer is kept: give it, and let it stand for the next asker."""

from __future__ import annotations

from aiohttp import web
from multidict import CIMultiDict

from service.answers import Answer
from service.cache.questions import CREDENTIALS, EVERYTHING, repository_generation
from service.context import Admission
from service.front import headers_of, respond


def give(
    request: web.Request,
    admission: Admission,
    answer: Answer,
    links: CIMultiDict[str] | None = None,
) -> web.StreamResponse:
    """The response to a request that was let in."""
    headers = headers_of(links, answer.etag)
    # All that an answer comes of, from the credential to the body.
    generations = (CREDENTIALS, EVERYTHING, repository_generation(admission.repository))
    tokens = admission.visit.tokens_of(generations)
    if tokens is not None:
        admission.context.front.keep(
            request,
            answer,
            headers,
            generations=generations,
            tokens=tokens,
            caller=admission.caller.name,
            until=admission.caller.until,
        )
    return respond(request, answer, headers)
