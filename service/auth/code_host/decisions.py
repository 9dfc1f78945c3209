"""Access decisions from responses of the code host's API. Pure.

The API is GitHub's `GET /repos/{owner}/{repository}`, or one that is compatible with it.
https://docs.github.com/en/rest/repos/repos#get-a-repository
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final

import orjson

from indexing.names import RepositoryName
from indexing.timestamps import from_microseconds, to_microseconds

GRANT_LIFETIME: Final = timedelta(seconds=60)
# Shorter: a user who was just given access tries again at once.
REFUSAL_LIFETIME: Final = timedelta(seconds=10)
# How long a grant is valid while the host does not respond. Outages of hosts last minutes; a token
# that was revoked just before one works until its end, so this is no longer than that.
OUTAGE_LIFETIME: Final = timedelta(minutes=10)
# Between the clocks of two machines that share decisions.
_CLOCK_SLACK: Final = timedelta(seconds=5)

# Bounds of the wait before the next request, for clients and for this service. A host may demand an
# hour, which would outlast the reason for it.
MIN_WAIT_SECONDS: Final = 1
MAX_WAIT_SECONDS: Final = 300
# If the host gives no time: GitHub's own advice for rate limits without one.
LIMITED_WAIT_SECONDS: Final = 60
UNAVAILABLE_WAIT_SECONDS: Final = 5

# No host has longer names, so these are not sent.
NAME_MAX_LENGTH: Final = 255

_HIDDEN_STATUSES: Final = frozenset({403, 404, 410, 451})
_MOVED: Final = frozenset({301, 307, 308})
_LIMIT_WORDS: Final = re.compile(rb"rate limit|abuse|try again later", re.IGNORECASE)
_PACKED: Final = struct.Struct(">Bq")


class Finding(Enum):
    """The finding of the host: readable, not visible to this token, or not a valid token."""

    READABLE = 1
    HIDDEN = 2
    BAD_CREDENTIAL = 3


@dataclass(frozen=True, slots=True)
class Moved:
    """The repository has been renamed; the host redirects to it by this number."""

    repository_id: int


@dataclass(frozen=True, slots=True)
class HostUnavailable:
    """There is no decision; retry after `seconds`. `limited`: the token's rate limit is used up."""

    seconds: int
    limited: bool = False


@dataclass(frozen=True, slots=True)
class CodeHostResponse:
    """A response of the host, with header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """A finding, and the moment just before the request to the host."""

    finding: Finding
    requested_at: datetime

    @property
    def until(self) -> datetime:
        """When access has to be checked again."""
        granted = self.finding is Finding.READABLE
        return self.requested_at + (GRANT_LIFETIME if granted else REFUSAL_LIFETIME)

    def is_fresh(self, now: datetime) -> bool:
        """Whether the decision can be used without another request to the host."""
        return not self.is_ahead(now) and now < self.until

    def outlasts(self, now: datetime) -> bool:
        """Whether it stays valid during an outage of the host: a grant does, for some minutes."""
        return (
            self.finding is Finding.READABLE
            and not self.is_ahead(now)
            and now < self.requested_at + OUTAGE_LIFETIME
        )

    def is_ahead(self, now: datetime) -> bool:
        """Whether its clock was put back since, so that nobody knows how old it is."""
        return self.requested_at > now + _CLOCK_SLACK


def is_valid_in_path(name: RepositoryName) -> bool:
    """Whether the name can be part of the path of a request."""
    # `.` and `..` match the pattern of repository names, and would change the path.
    return name.name.strip(".") != "" and len(name.name) <= NAME_MAX_LENGTH


def judge(
    response: CodeHostResponse, requested: RepositoryName | Moved, now: datetime
) -> Finding | Moved | HostUnavailable:
    """Return the finding in the response to a request about that repository.

    Return `Moved` for a redirect to a repository's number. Before the caller follows it, it has to
    check that the redirect stays with the host.
    """
    if response.status == 200:
        return _judge_repository(response.body, requested)
    if response.status == 401:
        return Finding.BAD_CREDENTIAL
    if response.status == 429 or (response.status == 403 and _is_limit(response)):
        return HostUnavailable(_wait_of(response.headers, now, LIMITED_WAIT_SECONDS), limited=True)
    if response.status in _HIDDEN_STATUSES:
        return Finding.HIDDEN
    if response.status in _MOVED and isinstance(requested, RepositoryName):
        return _judge_redirect(response.headers.get("location", ""))
    return HostUnavailable(_wait_of(response.headers, now, UNAVAILABLE_WAIT_SECONDS))


def pack_decision(decision: AccessDecision) -> bytes:
    """Return a decision as bytes."""
    return _PACKED.pack(decision.finding.value, to_microseconds(decision.requested_at))


def unpack_decision(data: bytes) -> AccessDecision:
    """Return the decision that `pack_decision` encoded."""
    finding, requested_at = _PACKED.unpack(data)
    return AccessDecision(Finding(finding), from_microseconds(requested_at))


def _judge_repository(body: bytes, requested: RepositoryName | Moved) -> Finding | HostUnavailable:
    """Check that a 200 shows that repository: a proxy in between may answer 200 to anything."""
    try:
        shown: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return HostUnavailable(UNAVAILABLE_WAIT_SECONDS)
    if not isinstance(shown, dict) or not isinstance(shown.get("full_name"), str):
        return HostUnavailable(UNAVAILABLE_WAIT_SECONDS)
    if isinstance(requested, Moved):
        same = shown.get("id") == requested.repository_id
    else:
        same = shown["full_name"].lower() == requested.key
    # `permissions` is about users: for the token of an installation, all are false even if it may
    # read the repository. A token that is shown the repository may read it.
    return Finding.READABLE if same else Finding.HIDDEN


def _judge_redirect(location: str) -> Finding | Moved:
    # A number belongs to one repository for ever. A name may pass to another repository, so a
    # redirect to a name does not prove that it is the requested repository.
    match = re.search(r"/repositories/([0-9]{1,18})\Z", location)
    return Finding.HIDDEN if match is None else Moved(int(match[1]))


def _is_limit(response: CodeHostResponse) -> bool:
    # GitHub responds 403 both to a used-up rate limit and to what a token may not see.
    # https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
    return (
        response.headers.get("x-ratelimit-remaining") == "0"
        or "retry-after" in response.headers
        or _LIMIT_WORDS.search(response.body) is not None
    )


def _wait_of(headers: Mapping[str, str], now: datetime, otherwise: int) -> int:
    after = headers.get("retry-after", "")
    reset = headers.get("x-ratelimit-reset", "")
    if _is_number(after):
        seconds = int(after)
    elif headers.get("x-ratelimit-remaining") == "0" and _is_number(reset):
        seconds = int(reset) - int(now.timestamp())
    else:
        seconds = otherwise
    return min(max(seconds, MIN_WAIT_SECONDS), MAX_WAIT_SECONDS)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 12
