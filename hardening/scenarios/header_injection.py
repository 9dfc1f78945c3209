"""Injection of a header or a response through any parameter: none succeeds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus
from urllib.parse import quote

from hardening.findings import Finding
from hardening.harness import Harness
from hardening.raw_http import NoResponseError, RawConnection, Response, build_request
from hardening.seeding import SeededRepository, seed_new_store

_INJECTED = "x-injected"
_ENCODED = re.compile(r"[A-Za-z0-9%._~*\-]+(, [A-Za-z0-9%._~*\-]+)*")
_LINES = (
    "\r\nX-Injected: 1",
    "\nX-Injected: 1",
    "\rX-Injected: 1",
    "\r\n\r\nHTTP/1.1 200 OK\r\nX-Injected: 1\r\nContent-Length: 0\r\n\r\n",
    "\u560d\u560aX-Injected: 1",
    "\u2028X-Injected: 1",
    "\0\r\nX-Injected: 1",
    '>; rel="next", <https://evil.example/',
)
_PARAMETERS = {
    "events": ("pull_request", "base_ref", "event_type", "received_from", "received_to"),
    "search": (
        "test_name",
        "sort",
        "direction",
        "pipeline_name",
        "pipeline_name_exclude",
        "job_name",
        "job_name_exclude",
    ),
    "quarantines": ("branch", "test_id", "source", "include"),
}
_PAGED = ("cursor", "per_page", "unknown")
_HEADERS = (
    "X-Request-Id",
    "Host",
    "Origin",
    "If-None-Match",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "Forwarded",
    "Authorization",
)


async def run(harness: Harness) -> list[Finding]:
    place = await harness.new_store("sqlite")
    (seeded,), key = await seed_new_store(harness, place, ["acme/widgets"])
    requests, unanswered, injected, split = 0, 0, [], []
    async with harness.serve(place, cors_origins="https://ci.example") as running:
        for data in _requests(seeded, key):
            requests += 1
            answers = await _answers(running.port, data)
            unanswered += not answers
            if any(name == _INJECTED or "evil" in value for name, value in _fields(answers)):
                injected.append(repr(data[:200]))
            if len(answers) > 1:
                split.append(repr(data[:200]))
    return [
        Finding(
            "injection into headers",
            f"{requests:,} requests: {len(injected)} with an injected header or link, {len(split)} "
            f"with a second response, {unanswered} without one",
            "0, 0, 0",
            not injected and not split and not unanswered,
            "; ".join([*injected, *split][:2]),
        )
    ]


def _fields(heads: list[Response]) -> Iterator[tuple[str, str]]:
    for response in heads:
        # The client's own query comes back in links and as names, where it stays encoded.
        yield from (
            (name, "" if name == "link" or _is_encoded(name, value) else value)
            for name, value in response.headers
        )
        links = [value for name, value in response.headers if name == "link"]
        yield from (
            ("link", link) for value in links for link in value.split(", <") if _leaves(link)
        )


def _is_encoded(name: str, value: str) -> bool:
    return name == "x-ignored-parameters" and _ENCODED.fullmatch(value) is not None


def _leaves(link: str) -> bool:
    return "//evil" in link.partition("?")[0]


def _requests(seeded: SeededRepository, key: str) -> Iterator[bytes]:
    targets = seeded.targets()
    for text in _LINES:
        encoded = {quote(text, safe=""), quote(text, safe="").lower(), quote(quote(text, safe=""))}
        for value in sorted(encoded):
            for operation, target in targets.items():
                path, _, query = target.partition("?")
                parts = path.split("/")
                for at in range(2, len(parts)):
                    changed = "/".join([*parts[:at], parts[at] + value, *parts[at + 1 :]])
                    yield build_request(f"{changed}?{query}", key)
                for name in (*_PARAMETERS.get(operation, ()), *_PAGED):
                    yield build_request(f"{path}?{query}&{name}={value}", key)
                    yield build_request(f"{path}?{query}&{name}{value}=1", key)
            yield build_request(f"/v1/nothing{value}", key)
        for header in _HEADERS:
            # What a proxy might pass: a line break within a value, without the full line end.
            sent = text.replace("\r\n\r\n", " ").replace("\r\n", "\r ").encode()
            yield build_request(targets["search"], key, header.encode() + b": a" + sent)


async def _answers(port: int, data: bytes) -> list[Response]:
    """Return the response, and any response before that to a known second request."""
    connection = RawConnection(port)
    answers = []
    try:
        await connection.send(data)
        answers.append(await connection.read())
        if connection.is_open:
            # A second request with a known answer: anything before it is an injected response.
            await connection.send(build_request("/health/live"))
            behind = await connection.read()
            if not (behind.status == HTTPStatus.OK and behind.body.startswith(b'{"status"')):
                answers.append(behind)
    except NoResponseError:
        pass
    finally:
        connection.abort()
    return answers
