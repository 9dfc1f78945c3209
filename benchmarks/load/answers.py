"""Looks at single answers: whether one is right, how large it is, and where the next page lies."""

from __future__ import annotations

import http.client
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import orjson

from benchmarks.running.processes import HOST

_TIMEOUT: Final = 60.0
_NEXT: Final = re.compile(r'<([^>]*)>; *rel="?next"?')
# What the dialects call their rows.
_MEMBERS: Final = ("events", "tests", "quarantined_tests")


class WrongAnswerError(RuntimeError):
    """An answer is not what every answer to that request has to be."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A right answer: the size of its body, how many rows it has, and the path of what follows."""

    size: int
    rows: int
    next_path: str | None


def ask(port: int, path: str, key: str) -> Answer:
    """Ask once; raises `WrongAnswerError` for any status but 200."""
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


def walk(port: int, path: str, key: str, pages: int) -> str:
    """The path of that page of a list, found by following links from the first one."""
    for page in range(1, pages):
        following = ask(port, path, key).next_path
        if following is None:
            raise WrongAnswerError(f"page {page} is the last one, {pages} are needed")
        path = following
    return path


def read_answer(body: bytes, link: str) -> Answer:
    """What an answer holds. Pure."""
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
