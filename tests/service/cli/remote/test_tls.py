"""The commands that read from a service whose TLS certificate may not be trusted."""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.servers.certificates import make_certificate
from tests.service.front_door import ROOT

TOKEN = "mw_certified_secret"
HOST = "127.0.0.1"
COMMANDS = (
    ("tests", "search", "--repository", "acme/widgets"),
    ("events", "--repository", "acme/widgets", "--json"),
)


@asynccontextmanager
async def serving(certificate: Path) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Serve empty lists over TLS; yield the URL, and the requests that arrive."""
    requests: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        body = b'{"size": 0, "per_page": 10, "tests": []}'
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        writer.write(head.encode() + b"\r\nConnection: close\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    server = await asyncio.start_server(answer, HOST, 0, ssl=context)
    async with server:
        yield f"https://{HOST}:{server.sockets[0].getsockname()[1]}", requests


async def run(url: str, *words: str, trusted: Path | None = None) -> tuple[int | None, str, str]:
    """Run a command in a process of its own, as trust is read from its environment."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MERGEWATCH_URL": url}
    environment |= {"MERGEWATCH_TOKEN": TOKEN}
    environment.pop("SSL_CERT_FILE", None)
    if trusted is not None:
        environment["SSL_CERT_FILE"] = str(trusted)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from service.cli import main; main()", *words),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, told = await process.communicate()
    return process.returncode, out.decode(), told.decode()


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
async def test_an_untrusted_certificate_is_one_clear_line(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    async with serving(make_certificate(tmp_path)) as (url, requests):
        code, out, told = await run(url, *words)
    assert (code, out) == (1, "")
    (line,) = told.splitlines()
    assert line.startswith(f"Error: {url} cannot be reached: its TLS certificate is not accepted: ")
    assert "self-signed certificate" in line
    assert TOKEN not in told
    # Nothing was sent: neither the token nor a second attempt.
    assert requests == []


@pytest.mark.parametrize(
    ("days", "address", "said"),
    [(-1, HOST, "certificate has expired"), (1, "127.0.0.2", "not valid for")],
    ids=["expired", "of another host"],
)
async def test_a_certificate_of_a_trusted_signer_may_be_wrong_too(
    tmp_path: Path, days: int, address: str, said: str
) -> None:
    certificate = make_certificate(tmp_path, days=days, address=address)
    async with serving(certificate) as (url, requests):
        code, _, told = await run(url, *COMMANDS[0], trusted=certificate)
    assert code == 1
    assert "its TLS certificate is not accepted: " in told
    assert said in told
    assert requests == []


async def test_a_certificate_that_the_machine_trusts_is_accepted(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    async with serving(certificate) as (url, requests):
        code, out, told = await run(url, *COMMANDS[0], trusted=certificate)
    assert (code, told) == (0, "")
    assert out.split() == ["TEST", "PIPELINE", "JOB"]
    assert len(requests) == 1
    assert f"Authorization: Bearer {TOKEN}".encode() in requests[0]
