"""The context of a page handler: the request, its session, the API and rendering."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from importlib.metadata import version
from typing import Any, Final
from urllib.parse import quote

from aiohttp import web

from indexing.identifiers import derive_test_id
from indexing.names import RepositoryName
from indexing.timestamps import format_timestamp
from service.auth.principal import Principal
from service.cache.confirmed import CacheUnavailableError
from service.context import CONTEXT, REPOSITORY
from service.http import problems
from service.http.operations import Operation
from service.http.problems import Problem
from service.http.request_id import REQUEST_ID
from service.middleware.access import OPERATIONS
from service.middleware.rate_limit import RateLimit
from service.ui.api import Api
from service.ui.dashboard import DASHBOARD, Dashboard
from service.ui.principals import find_of_session, read_repository
from service.ui.queries import Pairs
from service.ui.rendering import render
from service.ui.session import Session

_version: Final = cache(lambda: version("mergewatch"))


@dataclass(slots=True)
class PageContext:
    """A request to a page of the dashboard, by a user who may be signed in."""

    request: web.Request
    dashboard: Dashboard
    now: datetime
    session: Session | None = None
    principal: Principal | None = None
    began: float = field(default_factory=time.perf_counter)

    @classmethod
    def begin(cls, request: web.Request) -> PageContext:
        """Create the context of a request, with its session."""
        dashboard = request.app[DASHBOARD]
        now = request.app[CONTEXT].clock()
        return cls(request, dashboard, now, dashboard.sessions.read(request))

    @property
    def repository(self) -> RepositoryName:
        """The repository of the page, in its stored spelling once the API has checked the names."""
        info = self.request.match_info
        return self.request.get(REPOSITORY) or RepositoryName(info["owner"], info["repository"])

    @property
    def repository_path(self) -> Mapping[str, str]:
        """The repository as path parameters of the API, under both of their names."""
        owner, name = self.repository.owner, self.repository.name
        return {"owner": owner, "repository": name, "repository_name": name}

    @property
    def ends_at(self) -> datetime | None:
        """When the session ends, which is not after its key expires; None without a session."""
        if self.session is None:
            return None
        ends_at, principal = self.session.ends_at, self.principal
        # A decision about a token ends sooner, but is renewed.
        if principal is None or principal.key is None or principal.until is None:
            return ends_at
        return min(ends_at, principal.until)

    @property
    def is_fragment(self) -> bool:
        """Whether a script requests only a part of the page."""
        headers = self.request.headers
        return headers.get("HX-Request") == "true" and "HX-History-Restore-Request" not in headers

    async def find_principal(
        self,
        repository: RepositoryName | None = None,
        rate_limit: RateLimit | None = None,
    ) -> Principal | None:
        """Look up who is signed in, with the access to that repository.

        It defaults to the repository of the page. `find_of_session` has the rest.
        """
        if self.session is None:
            return None
        info = self.request.match_info
        wanted = repository or read_repository(info.get("owner"), info.get("repository"))
        tokens = self.dashboard.token_sessions
        return await find_of_session(self.request, self.session, tokens, wanted, rate_limit)

    async def find_present_principal(self) -> Principal | None:
        """Look up the signed-in principal again, for a stream that outlives its session or key.

        Raises:
            Problem: 503 if access cannot be checked now: a stream goes on for a while then.
        """
        now = self.request.app[CONTEXT].clock()
        if self.session is None or self.session.ends_at <= now:
            return None
        try:
            return await self.find_principal()
        except CacheUnavailableError as error:
            raise sessions_unavailable() from error

    def open_api(self, principal: Principal) -> Api:
        """Return the API as this principal may use it."""
        return Api(self.request, principal, self.find_present_principal, self.dashboard.handlers)

    def may(self, operation: Operation) -> bool:
        """Whether the scope of the key allows the operation."""
        return self.principal is not None and operation in OPERATIONS[self.principal.scope]

    def link(self, *segments: str) -> str:
        """Return the path of a page."""
        return self.dashboard.base + "/".join(quote(each, safe="") for each in segments)

    def link_in_repository(self, *segments: str) -> str:
        """Return the path of another page of the same repository."""
        return self.link(self.repository.owner, self.repository.name, *segments)

    def find_range(self, days: int) -> Pairs:
        """Return the range of series of this many UTC days, the last of which is today.

        It names its end, so that all series of a page have the same days, even around midnight.
        """
        midnight = self.now.replace(hour=0, minute=0, second=0, microsecond=0)
        start, end = midnight - timedelta(days=days - 1), midnight + timedelta(days=1)
        return [("start", format_timestamp(start)), ("end", format_timestamp(end))]

    def test_id_of(self, test_name: str) -> str:
        """Return the id of a test in the repository of the request."""
        return str(derive_test_id(self.repository, test_name))

    async def show(
        self, template: str, status: int = 200, *, begins_session: bool = False, **values: Any
    ) -> web.Response:
        """Render a page; `values` are added to the values that every page has.

        With `begins_session`, a session begins if the request has none, for the form of the page.
        No other page may set a cookie: forms of other sites arrive without one, and a new cookie
        would replace the session of the person who is signed in.
        """
        is_new = self.session is None and begins_session
        if is_new:
            self.session = self.dashboard.sessions.new()
        session = self.session
        repository = self.repository if "repository" in self.request.match_info else None
        common = {
            "base": self.dashboard.base,
            "ends_at": self.ends_at,
            "form_token": "" if session is None else session.make_form_token(),
            "link": self.link,
            "may_quarantine": self.may(Operation.ADD_QUARANTINE),
            "milliseconds": round((time.perf_counter() - self.began) * 1000),
            "now": self.now,
            "owner": repository and repository.owner,
            "principal": self.principal,
            "release": _version(),
            "repository": repository and repository.name,
            "request_id": self.request[REQUEST_ID],
            "tab": None,
        }
        response = await render(self.request, template, {**common, **values}, status)
        if is_new and session is not None:
            self.dashboard.sessions.write(self.request, response, session)
        return response

    def go_to(self, path: str) -> web.Response:
        """Redirect the browser to another page, which it requests by GET."""
        # htmx would follow a redirect itself, and insert the page into a part of this one.
        status, field = (204, "HX-Redirect") if self.is_fragment else (303, "Location")
        return web.Response(status=status, headers={field: path, "Cache-Control": "no-store"})


def sessions_unavailable() -> Problem:
    """Return the refusal while the cache that holds the sessions of tokens does not answer."""
    return problems.unavailable("the sessions of tokens are unavailable, retry later")
