"""The state that all pages of the dashboard in one process share."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from aiohttp import web

from indexing.clocks import Clock
from service.http.targets import UI_PREFIX
from service.ui.api import Handlers
from service.ui.links import SignInLinks

if TYPE_CHECKING:
    from service.ui.session import Sessions
    from service.ui.token_sessions import TokenSessions


@dataclass(frozen=True)
class Dashboard:
    """The state that all pages share; `public_url` is the public URL of the service.

    Cookies are encrypted by a key from the `secret`. Without a code host, there are no
    `token_sessions`. `page_seconds` is the time limit of a page, if set.
    """

    secret: bytes = field(repr=False)
    clock: Clock
    links: SignInLinks
    handlers: Handlers
    public_url: str | None
    token_sessions: TokenSessions | None = None
    page_seconds: float | None = None

    @cached_property
    def sessions(self) -> Sessions:
        """The sessions of all people who are signed in."""
        # Imported here, as it loads cryptography, which no request to the API needs.
        from service.ui.session import Sessions

        return Sessions(self.secret, self.clock)

    @cached_property
    def base(self) -> str:
        """The path of the dashboard as browsers see it, with a trailing slash."""
        return (urlsplit(self.public_url).path if self.public_url else "") + UI_PREFIX


DASHBOARD: Final = web.AppKey("dashboard", Dashboard)
