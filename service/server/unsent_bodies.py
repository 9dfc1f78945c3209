"""Counts the long bodies of responses that clients have not read yet, and limits them.

A client that reads slowly, or not at all, keeps the body of its response in memory for as long as
it keeps its connection. The bodies of many such clients must not fill the memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from aiohttp.web import Response

from indexing.fairness import current_tenant
from service.http import problems
from service.http.problems import Problem
from service.http.raw_response import Pieces, RawResponse, body_of, is_long
from service.http.response_headers import REQUEST_ID_HEADER, RESPONSE_HEADERS

# Of one process, and of one tenant: eight of the largest pages. Clients that read need few at once.
MAX_BYTES: Final = 512 * 1024 * 1024
MAX_BYTES_PER_TENANT: Final = 64 * 1024 * 1024

_CORS: Final = "Access-Control-"

# When a client that has too many may try again, in seconds.
RETRY_AFTER: Final = 5


@dataclass(slots=True)
class _Held:
    """A body, which its own reference keeps from being freed, and how many responses send it."""

    body: bytes
    tenant: Hashable
    responses: int = 0


class UnsentBodies:
    """The unsent bodies of one process. A body that several responses share counts once."""

    def __init__(self) -> None:
        # By the id of the body.
        self._held: dict[int, _Held] = {}
        self._bytes: Counter[Hashable] = Counter()

    @property
    def size(self) -> int:
        """How many bytes all of them have."""
        return self._bytes.total()

    @contextmanager
    def admit(self, response: RawResponse | Response) -> Iterator[RawResponse | Response]:
        """Count the body of a response of the current tenant until the context exits.

        Yields the response to send: a 429 instead if the tenant has too many bytes unsent, a 503 if
        the process has.
        """
        body = body_of(response)
        held = self._held.get(id(body))
        if held is None:
            held = _Held(body, current_tenant.get())
            try:
                self._check_room(held)
            except Problem as problem:
                yield _refuse(problem, response)
                return
            self._held[id(body)] = held
            self._bytes[held.tenant] += len(body)
        held.responses += 1
        if not isinstance(response, RawResponse) and is_long(response):
            response.body = Pieces(body)
        try:
            yield response
        finally:
            held.responses -= 1
            if not held.responses:
                del self._held[id(body)]
                self._bytes[held.tenant] -= len(body)
                if not self._bytes[held.tenant]:
                    del self._bytes[held.tenant]

    def _check_room(self, held: _Held) -> None:
        size, own = len(held.body), self._bytes[held.tenant]
        # However long a response is, a client gets it if it reads one after the other.
        if own and own + size > MAX_BYTES_PER_TENANT:
            detail = "this credential has too many long responses open that are not read"
            raise Problem(429, detail, headers={"Retry-After": str(RETRY_AFTER)})
        if self.size + size > MAX_BYTES:
            raise problems.unavailable("too many long responses are not read, retry later")


def _refuse(problem: Problem, response: RawResponse | Response) -> Response:
    """Return the response of a problem, with what all layers add to a response."""
    refusal = problems.response(problem)
    refusal.headers.update(RESPONSE_HEADERS)
    for name, value in response.headers.items():
        if name == REQUEST_ID_HEADER or name.startswith(_CORS):
            refusal.headers[name] = value
    if response.keep_alive is False:
        refusal.force_close()
    return refusal
