"""What a connection asks before it parses a request: whether it knows the bytes.

`service/middleware/unparsed_requests.py` implements both interfaces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from aiohttp.http import RawRequestMessage
from aiohttp.web import BaseRequest, StreamResponse

T = TypeVar("T")

# Some two thousand of each kind. What is not sent again for `KNOWN_SECONDS` is dropped.
KNOWN_MAX_BYTES: Final = 4 * 1024 * 1024
KNOWN_SECONDS: Final = 60.0


class RepeatedRequests(Protocol):
    """The request heads that a process knows, and can answer at once."""

    def digest(self, data: bytes) -> bytes | None:
        """Return the digest of these bytes, if they may be the head of one request and no more."""

    def answer(self, head: bytes) -> bytes | None:
        """Return the whole response to a known head, if it can be sent without waiting."""

    def learn(self, head: bytes, request: BaseRequest, response: StreamResponse) -> None:
        """Remember the head of a request, if it was answered from the response cache."""

    def knows(self, head: bytes) -> bool:
        """Whether that head is known."""


class DirectReads(Protocol[T]):
    """The header fields that a process knows; a target is a `T`."""

    def read_target(self, data: bytes) -> T | None:
        """Return the target of the read that these bytes are the whole head of, if they are."""

    def open(
        self, target: T, make: Callable[[RawRequestMessage], BaseRequest]
    ) -> BaseRequest | None:
        """Return the request for that target, if its fields are known and its access is valid.

        `make` makes a request of what the parser would return.
        """

    def learn(self, target: T, request: BaseRequest, response: StreamResponse) -> None:
        """Remember the fields of a request that was answered, if the next one may be direct."""
