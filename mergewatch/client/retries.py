"""Retry policy: which statuses to retry, and how long to wait. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

# The retryable statuses of OTLP/HTTP.
# https://opentelemetry.io/docs/specs/otlp/#retryable-response-codes
RETRIED_STATUSES: Final = frozenset({429, 502, 503, 504})

MAX_ATTEMPTS: Final = 5

# A waiting CI job costs money, so a longer Retry-After is cut to this limit.
MAX_WAIT_SECONDS: Final = 30.0


def seconds_to_wait(retry_after: str | None, attempt: int, now: datetime | None = None) -> float:
    """Return the seconds to wait after attempt number `attempt`, counted from 1.

    `retry_after` is the header: seconds or a date. If it is missing or malformed, the wait
    doubles with each attempt. The same applies if the header asks for no wait; otherwise all
    attempts would reach a busy service at once.
    """
    stated = read_retry_after(retry_after, now or datetime.now(UTC)) if retry_after else None
    wait = float(2 ** (attempt - 1)) if stated is None or stated <= 0 else stated
    return min(wait, MAX_WAIT_SECONDS)


def read_retry_after(text: str, now: datetime) -> float | None:
    """Return the seconds, from now on, of such a header; None if it is malformed."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return float(text[:10])
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, IndexError, OverflowError):
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - now).total_seconds()
