"""What the handler of a page works with: the request, its session, the API, the rendering."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib.metadata import version
from typing import Any, Final
from urllib.parse import quote

from aiohttp import web

from indexing.identifiers import derive_test_id
from indexing.names import RepositoryName
from service.auth.principal import Principal
from service.context import CONTEXT, REQUEST_ID
from service.http.operations import Operation
from service.http.problems import Problem
from service.middleware.authentication import make_principal
from service.middleware.authorization import OPERATIONS
from service.ui.api import Api
from service.ui.dashboard import DASHBOARD, Dashboard
from service.ui.rendering import render
from service.ui.session import Session

_version: Final = cache(lambda: version("mergewatch"))


@dataclass(slots=True)
class PageContext:
    """A request to a page of the dashboard, by a person who may be signed in."""

    request: web.Request
    dashboard: Dashboard
    now: datetime
    session: Session | None = None
    principal: Principal | None = None
    began: float = field(default_factory=time.perf_counter)

    @classmethod
    def begin(cls, request: web.Request) -> PageContext:
        """Read the session that came with the request."""
        dashboard = request.app[DASHBOARD]
        now = request.app[CONTEXT].clock()
        return cls(request, dashboard, now, dashboard.sessions.read(request))

    @property
    def repository_path(self) -> Mapping[str, str]:
        """The parameters that name the repository in a path of the API, in both spellings."""
        owner, name = self.request.match_info["owner"], self.request.match_info["repository"]
        return {"owner": owner, "repository": name, "repository_name": name}

    @property
    def is_fragment(self) -> bool:
        """Whether a script asks for a part of the page alone."""
        headers = self.request.headers
        return headers.get("HX-Request") == "true" and "HX-History-Restore-Request" not in headers

    async def find_principal(self, key_id: str | None) -> Principal | None:
        """The principal of a key, looked up now; None if the key is not valid, or not any more."""
        if key_id is None:
            return None
        reader = await self.request.app[CONTEXT].readers.open(Operation.TEST, None, None)
        key = await reader.get_key(key_id)
        try:
            return None if key is None else make_principal(key, self._read_clock())
        except Problem:
            return None

    async def find_present_principal(self) -> Principal | None:
        """Who is signed in at this moment, for what goes on after the request was answered."""
        session = self.session
        if session is None or session.ends_at <= self._read_clock():
            return None
        return await self.find_principal(session.key_id)

    def _read_clock(self) -> datetime:
        return self.request.app[CONTEXT].clock()

    def open_api(self, principal: Principal) -> Api:
        """The API as that principal sees it."""
        return Api(self.request, principal, self.dashboard.handlers)

    def may(self, operation: Operation) -> bool:
        """Whether the key may do that."""
        return self.principal is not None and operation in OPERATIONS[self.principal.scope]

    def link(self, *segments: str) -> str:
        """The path of a page."""
        return self.dashboard.base + "/".join(quote(each, safe="") for each in segments)

    def test_id_of(self, test_name: str) -> str:
        """The id of a test of the repository that the path names."""
        info = self.request.match_info
        repository = RepositoryName(info["owner"], info["repository"])
        return str(derive_test_id(repository, test_name))

    async def show(self, template: str, status: int = 200, **values: Any) -> web.Response:
        """The response of a page; `values` are added to those that every page has."""
        session = self.session
        if session is None:
            session = self.session = self.dashboard.sessions.new()
            is_new = True
        else:
            is_new = False
        owner = self.request.match_info.get("owner")
        common = {
            "base": self.dashboard.base,
            "form_token": session.make_form_token(),
            "link": self.link,
            "may_quarantine": self.may(Operation.ADD_QUARANTINE),
            "milliseconds": round((time.perf_counter() - self.began) * 1000),
            "now": self.now,
            "owner": owner,
            "principal": self.principal,
            "release": _version(),
            "repository": self.request.match_info.get("repository"),
            "request_id": self.request[REQUEST_ID],
            "session": session,
            "tab": None,
        }
        response = await render(self.request, template, {**common, **values}, status)
        if is_new:
            self.dashboard.sessions.write(self.request, response, session)
        return response

    def go_to(self, path: str) -> web.Response:
        """Send the browser to another page, by a GET."""
        headers = {"Location": path, "Cache-Control": "no-store"}
        if self.is_fragment:
            # A script would follow the redirect itself, and put the page into a part of this one.
            return web.Response(
                status=204, headers={"HX-Redirect": path, "Cache-Control": "no-store"}
            )
        return web.Response(status=303, headers=headers)
