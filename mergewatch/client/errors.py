"""The errors that a call can raise. No message contains the token."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, NamedTuple


class ClientError(Exception):
    """A call failed."""


class UnreachableError(ClientError):
    """No response, because of the network, the host name, the certificate or a timeout."""


class BrokenStreamError(UnreachableError):
    """A stream ended early; some of its rows are missing."""


class ForeignServiceError(ClientError):
    """The server at the URL is not a mergewatch service, for example a login page."""


class FieldError(NamedTuple):
    """One wrong field of a request; `place` is `path`, `query` or `body`."""

    place: str
    field: str
    detail: str


class ProblemError(ClientError):
    """The service refused the request (RFC 9457).

    If the response is not a problem body, `title` is empty; `detail` is too, or has the target of a
    redirect, which is not followed. `request_id` identifies the request in the log of the service.
    `attempts` is the number of requests that were sent. `response_lost` says that one before the
    last got no response, and may have been executed.
    """

    def __init__(
        self,
        url: str,
        status: int,
        *,
        title: str = "",
        detail: str = "",
        errors: Sequence[FieldError] = (),
        request_id: str | None = None,
        attempts: int = 1,
        response_lost: bool = False,
    ) -> None:
        self.status = status
        self.title = title
        self.detail = detail
        self.errors = tuple(errors)
        self.request_id = request_id
        self.attempts = attempts
        self.response_lost = response_lost
        times = f", {attempts} times" if attempts > 1 else ""
        super().__init__(f"{url} answered {self.summary}{times}")

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception is copied from `args`, which hold the message instead of the parameters.
        return type(self).__new__, (type(self), *self.args), vars(self)

    @property
    def summary(self) -> str:
        """Return the status, with title, detail and wrong fields if the response has them.

        Proxies have no problem bodies, so the standard phrase of the status is the title then.
        """
        named = "; ".join(f"{error.field}: {error.detail}" for error in self.errors)
        told = ": ".join(part for part in (self.title or self._phrase, self.detail) if part)
        return f"{self.status} {told}{f' ({named})' if named else ''}".rstrip()

    @property
    def _phrase(self) -> str:
        try:
            return HTTPStatus(self.status).phrase
        except ValueError:
            return ""
