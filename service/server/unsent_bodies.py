"""Counts the long bodies of responses that clients have not read yet, and limits them.

A client that reads slowly, or not at all, keeps the body of its response in memory for as long as
it keeps its connection. The bodies of many such clients must not fill the memory.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from aiohttp.web import BaseRequest, Response

from indexing.fairness import current_tenant
from service.context import PRINCIPAL
from service.http import problems
from service.http.problems import Problem
from service.http.raw_response import Pieces, RawResponse, body_of, is_long
from service.http.response_headers import REQUEST_ID_HEADER, RESPONSE_HEADERS

# Of one process, and of one tenant: eight of the largest pages. Clients that read need few at once.
MAX_BYTES: Final = 512 * 1024 * 1024
MAX_BYTES_PER_TENANT: Final = 64 * 1024 * 1024
# The data of one owner leaves room to others, however many credentials read it.
MAX_BYTES_PER_OWNER: Final = MAX_BYTES // 8 * 7

_log = logging.getLogger(__name__)

_CORS: Final = "Access-Control-"

# When a client that has too many may try again, in seconds.
RETRY_AFTER: Final = 5


@dataclass(slots=True)
class _Held:
    """A body with data of an owner, and how many responses send it to each tenant.

    The reference to the body keeps its id unique.
    """

    body: bytes
    owner: str
    responses: Counter[Hashable] = field(default_factory=Counter)


class UnsentBodies:
    """The unsent bodies of one process.

    A body that several responses share counts once in all, and once for each of their tenants. All
    bodies for which no credential is needed count as data of one more owner.
    """

    def __init__(self) -> None:
        # By the id of the body.
        self._held: dict[int, _Held] = {}
        self._bytes_of: Counter[Hashable] = Counter()
        self._of_owners: Counter[str] = Counter()
        self.size = 0

    @contextmanager
    def admit(
        self, request: BaseRequest, response: RawResponse | Response
    ) -> Iterator[RawResponse | Response]:
        """Count the body of a response of the current tenant until the context exits.

        Yields the response to send: a 429 instead if the tenant has too many bytes unsent, a 503 if
        the process has, or all who read the data of the same owner.
        """
        body, tenant, principal = body_of(response), current_tenant.get(), request.get(PRINCIPAL)
        name, owner = ("", "") if principal is None else (principal.name, principal.owner.lower())
        try:
            self._add(body, tenant, owner)
        except Problem as problem:
            refused = {"reason": problem.detail, "principal": name}
            _log.warning("long response refused", extra=refused)
            yield _refuse(problem, response)
            return
        if not isinstance(response, RawResponse) and is_long(response):
            response.body = Pieces(body)
        try:
            yield response
        finally:
            self._remove(body, tenant)

    def _add(self, body: bytes, tenant: Hashable, owner: str) -> None:
        """Count a body for one more response.

        Raises:
            Problem: there is no room for it.
        """
        held, size = self._held.get(id(body)), len(body)
        if held is None or not held.responses[tenant]:
            own = self._bytes_of[tenant]
            # However long a response is, a client gets it if it reads one after the other.
            if own and own + size > MAX_BYTES_PER_TENANT:
                detail = "this credential has too many long responses open that are not read"
                raise Problem(429, detail, headers={"Retry-After": str(RETRY_AFTER)})
            if held is None:
                of_owner = self._of_owners[owner]
                if self.size + size > MAX_BYTES or of_owner + size > MAX_BYTES_PER_OWNER:
                    raise problems.unavailable("too many long responses are not read, retry later")
                held = self._held[id(body)] = _Held(body, owner)
                self._of_owners[owner] += size
                self.size += size
            self._bytes_of[tenant] += size
        held.responses[tenant] += 1

    def _remove(self, body: bytes, tenant: Hashable) -> None:
        """Count a body for one response less."""
        held, size = self._held[id(body)], len(body)
        held.responses[tenant] -= 1
        if held.responses[tenant]:
            return
        del held.responses[tenant]
        self._bytes_of[tenant] -= size
        if not self._bytes_of[tenant]:
            del self._bytes_of[tenant]
        if not held.responses:
            del self._held[id(body)]
            self._of_owners[held.owner] -= size
            if not self._of_owners[held.owner]:
                del self._of_owners[held.owner]
            self.size -= size


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
