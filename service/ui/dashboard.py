"""The dashboard of one process: what its pages are made with."""

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


@dataclass(frozen=True)
class Dashboard:
    """What all pages share; `public_url` is that of the service.

    A page that takes longer than `page_seconds` is given up, if that is set.
    """

    sessions: Sessions
    links: SignInLinks
    handlers: Handlers
    public_url: str | None
    page_seconds: float | None = None

    @cached_property
    def base(self) -> str:
        """The path of the dashboard as browsers see it, with a slash at its end."""
        return (urlsplit(self.public_url).path if self.public_url else "") + UI_PREFIX


DASHBOARD: Final = web.AppKey("dashboard", Dashboard)
