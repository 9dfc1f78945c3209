"""Checks single answers: correctness, size, and the link to the next page."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import orjson

from benchmarks.running.processes import HOST

_TIMEOUT: Final = 60.0
_NEXT: Final = re.compile(r'<([^>]*)>; *rel="?next"?')
# The names that the dialects use for their rows.
_MEMBERS: Final = ("events", "tests", "quarantined_tests")


class WrongAnswerError(RuntimeError):
    """An answer is not a correct answer to its request."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A correct answer: the size of its body, its number of rows, and the path of the next page."""

    size: int
    rows: int
    next_path: str | None


def ask(port: int, path: str, key: str) -> Answer:
    """Send one request; raise `WrongAnswerError` for any status but 200."""
    connection = http.client.HTTPConnection(HOST, port, timeout=_TIMEOUT)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {key}"})
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    if response.status != http.HTTPStatus.OK:
        raise WrongAnswerError(f"{path} gave {response.status}: {body[:300]!r}")
    return read_answer(body, response.getheader("Link", ""))


def walk(port: int, first: str, key: str) -> Iterator[str]:
    """Yield the path of each page of a list from this one on, found by following its links.

    Raises:
        WrongAnswerError: the list ends.
    """
    path = first
    while True:
        yield path
        following = ask(port, path, key).next_path
        if following is None:
            raise WrongAnswerError(f"the list that begins with {first} has too few pages")
        path = following


def read_answer(body: bytes, link: str) -> Answer:
    """Parse an answer. Pure."""
    value = orjson.loads(body)
    if isinstance(value, dict):
        hits = value.get("hits")
        value = next((value[m] for m in _MEMBERS if isinstance(value.get(m), list)), [value])
        if isinstance(hits, dict):
            value = hits["hits"]
    following = _NEXT.search(link)
    return Answer(len(body), len(value), None if following is None else _target(following[1]))


def _target(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"
