"""Counts the long bodies of responses that clients have not read yet, and limits them.

A client that reads slowly, or not at all, keeps the body of its response in memory for as long as
it keeps its connection. The bodies of many such clients must not fill the memory.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Final

from aiohttp.web import BaseRequest, Response

from indexing.fairness import current_tenant
from service.context import PRINCIPAL
from service.http import problems
from service.http.held_bytes import HeldBytes
from service.http.problems import Problem
from service.http.raw_response import Pieces, RawResponse, body_of, is_long
from service.http.response_headers import REQUEST_ID_HEADER, RESPONSE_HEADERS
from service.middleware.rate_limit import LIMIT_HEADER, POLICY_HEADER

# Of one process, and of one tenant: eight of the largest pages. Clients that read need few at once.
MAX_BYTES: Final = 512 * 1024 * 1024
MAX_BYTES_PER_TENANT: Final = 64 * 1024 * 1024
# The data of one owner leaves room to others, however many credentials read it.
MAX_BYTES_PER_OWNER: Final = MAX_BYTES // 8 * 7

_log = logging.getLogger(__name__)

# The header fields that layers add to a response. Those of CORS begin with the prefix.
_OF_LAYERS: Final = frozenset({REQUEST_ID_HEADER, POLICY_HEADER, LIMIT_HEADER})
_CORS: Final = "Access-Control-"


class UnsentBodies:
    """The unsent bodies of one process.

    A body that several responses share counts once for its owner, and once for each of their
    tenants. All bodies for which no credential is needed count as data of one more owner.
    """

    def __init__(self) -> None:
        self.of_tenants = HeldBytes()
        self.of_owners = HeldBytes()

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
            self.of_tenants.release(body, tenant)
            self.of_owners.release(body, owner)

    def _add(self, body: bytes, tenant: Hashable, owner: str) -> None:
        """Count a body for one more response.

        Raises:
            Problem: there is no room for it.
        """
        growth, own = self.of_tenants.find_growth(body, tenant), self.of_tenants.of(tenant)
        # However long a response is, a client gets it if it reads one after the other.
        if growth and own and own + growth > MAX_BYTES_PER_TENANT:
            raise problems.too_many_open(
                "this credential has too many long responses open that are not read"
            )
        if not self.of_owners.has_room(body, owner, MAX_BYTES_PER_OWNER, MAX_BYTES):
            raise problems.unavailable("too many long responses are not read, retry later")
        self.of_tenants.hold(body, tenant)
        self.of_owners.hold(body, owner)


def _refuse(problem: Problem, response: RawResponse | Response) -> Response:
    """Return the response of a problem, with what all layers add to a response."""
    refusal = problems.response(problem)
    refusal.headers.update(RESPONSE_HEADERS)
    for name, value in response.headers.items():
        if name in _OF_LAYERS or name.startswith(_CORS):
            refusal.headers[name] = value
    if response.keep_alive is False:
        refusal.force_close()
    return refusal
