"""The client of the code host's API: one small request, with a bounded response and time."""

from __future__ import annotations

import asyncio
import logging
import time
from importlib.metadata import version
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from indexing.clocks import Clock
from indexing.names import RepositoryName
from service.auth.code_host.decisions import (
    CodeHostResponse,
    Finding,
    HostUnavailable,
    Moved,
    is_valid_in_path,
    judge,
)

# The time for one request, including a redirect: a client of this service gets its response within
# two seconds.
TOTAL_SECONDS: Final = 1.5
CONNECT_SECONDS: Final = 0.5
# The description of a repository takes about 20 KB.
MAX_ANSWER_BYTES: Final = 256 * 1024
# How often a reason is logged: anybody can make up tokens as fast as they like.
LOGGED_EVERY: Final = 10.0

_HEADERS: Final = {
    "Accept": "application/vnd.github+json",
    # The size of a compressed body is not known in advance.
    "Accept-Encoding": "identity",
    "User-Agent": f"mergewatch/{version('mergewatch')}",
}

_log = logging.getLogger(__name__)


class CodeHostClient:
    """The client of one host. It sends tokens to the base URL only, and puts them in no message."""

    def __init__(self, base_url: str, session: aiohttp.ClientSession, clock: Clock) -> None:
        self._base_url = base_url
        self._base = urlsplit(base_url)
        self._session = session
        self._clock = clock
        # When each reason was logged last.
        self._logged: dict[str, float] = {}

    @classmethod
    def open(cls, base_url: str, clock: Clock) -> CodeHostClient:
        """Open a client, to be closed. It ignores proxies and credentials of the environment."""
        session = aiohttp.ClientSession(
            # Callers hold a slot already, so no request waits for a connection.
            connector=aiohttp.TCPConnector(limit=0),
            # Cookies of one principal would be sent with the token of another.
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=_HEADERS,
            timeout=aiohttp.ClientTimeout(total=TOTAL_SECONDS, sock_connect=CONNECT_SECONDS),
            auto_decompress=False,
            trust_env=False,
        )
        return cls(base_url, session, clock)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    def warn_unavailable(self, reason: str) -> None:
        """Log why there is no decision about a token, unless it was logged a moment ago."""
        now = time.monotonic()
        if now - self._logged.get(reason, float("-inf")) >= LOGGED_EVERY:
            self._logged[reason] = now
            _log.warning("code host unavailable", extra={"reason": reason})

    async def find(
        self, token: str, repository: RepositoryName
    ) -> Finding | HostUnavailable | None:
        """Find out whether this token may read the repository.

        `None` if the host does not respond in time, or its response cannot be read.
        """
        if not is_valid_in_path(repository):
            return Finding.HIDDEN
        try:
            async with asyncio.timeout(TOTAL_SECONDS):
                answer = await self._request(token, f"/repos/{repository.owner}/{repository.name}")
                found = judge(answer, repository, self._clock())
                if isinstance(found, Moved) and self._is_own(answer, found):
                    answer = await self._request(token, f"/repositories/{found.repository_id}")
                    found = judge(answer, found, self._clock())
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            # Not the error's text, which may contain what was sent.
            self.warn_unavailable(type(error).__name__)
            return None
        if isinstance(found, HostUnavailable):
            self.warn_unavailable(_explain(answer, found))
        # A redirect to another host, or a second redirect, proves no access.
        return Finding.HIDDEN if isinstance(found, Moved) else found

    async def _request(self, token: str, path: str) -> CodeHostResponse:
        # The parts were checked, so the URL is not normalised.
        url = URL(self._base_url + path, encoded=True)
        async with self._session.get(
            url, headers={"Authorization": f"Bearer {token}"}, allow_redirects=False
        ) as response:
            body = bytearray()
            async for piece in response.content.iter_any():
                body += piece
                if len(body) > MAX_ANSWER_BYTES:
                    raise ValueError("the response is too large")
            headers = {name.lower(): value for name, value in response.headers.items()}
            return CodeHostResponse(response.status, headers, bytes(body))

    def _is_own(self, answer: CodeHostResponse, moved: Moved) -> bool:
        """Whether a redirect leads to that repository on this same API."""
        found = urlsplit(answer.headers.get("location", ""))
        origin = (self._base.scheme, self._base.netloc)
        here = (found.scheme, found.netloc) in {origin, ("", "")}
        path = f"{self._base.path}/repositories/{moved.repository_id}"
        return here and (found.path, found.query) == (path, "")


def _explain(answer: CodeHostResponse, found: HostUnavailable) -> str:
    """Return what was wrong with the response, of which only the status may be logged."""
    if found.limited:
        return f"the rate limit of the token is used up, status {answer.status}"
    what = ", but no description of a repository" if answer.status == 200 else ""
    return f"status {answer.status}{what}"
