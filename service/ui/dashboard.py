"""The state that all pages of the dashboard in one process share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from service.http.targets import UI_PREFIX
from service.ui.api import Handlers
from service.ui.links import SignInLinks
from service.ui.session import Sessions
from service.ui.token_sessions import TokenSessions


@dataclass(frozen=True)
class Dashboard:
    """The state that all pages share; `public_url` is the public URL of the service.

    Without a code host, there are no `token_sessions`. `page_seconds` is the time limit of a page,
    if set.
    """

    sessions: Sessions
    links: SignInLinks
    handlers: Handlers
    public_url: str | None
    token_sessions: TokenSessions | None = None
    page_seconds: float | None = None

    @cached_property
    def base(self) -> str:
        """The path of the dashboard as browsers see it, with a trailing slash."""
        return (urlsplit(self.public_url).path if self.public_url else "") + UI_PREFIX


DASHBOARD: Final = web.AppKey("dashboard", Dashboard)
