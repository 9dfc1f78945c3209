"""The part of HTTP that the proxy needs to respond in place of the server."""

from __future__ import annotations

import http
import json
import re

LENGTH = re.compile(rb"^content-length:\s*(\d+)", re.IGNORECASE | re.MULTILINE)
CHUNKED = re.compile(rb"^transfer-encoding:.*chunked", re.IGNORECASE | re.MULTILINE)


class RequestEnd:
    """Finds the ends of requests in the bytes of one connection."""

    def __init__(self) -> None:
        self._pending = b""

    def ends_within(self, data: bytes) -> int:
        """Add these bytes and return how many requests they complete."""
        self._pending += data
        ended = 0
        while (length := self._first_length()) is not None:
            self._pending = self._pending[length:]
            ended += 1
        return ended

    def _first_length(self) -> int | None:
        head, found, rest = self._pending.partition(b"\r\n\r\n")
        if not found:
            return None
        if CHUNKED.search(head):
            end = (b"\r\n" + rest).find(b"\r\n0\r\n\r\n")
            body = end + 5 if end >= 0 else len(rest) + 1
        else:
            named = LENGTH.search(head)
            body = int(named[1]) if named else 0
        return len(head) + len(found) + body if len(rest) >= body else None


def answer_of(status: int, retry_after: int | None) -> bytes:
    """An Elasticsearch error. The client requires the header with the product name."""
    body = json.dumps({"error": {"type": "proxy", "reason": "asked to"}, "status": status})
    lines = [
        f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}",
        "X-Elastic-Product: Elasticsearch",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    if retry_after is not None:
        lines.append(f"Retry-After: {retry_after}")
    return "\r\n".join([*lines, "", body]).encode()
