"""`mergewatch webhook`: receivers come and go, and neither URL nor secret is ever shown."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from indexing.models.notifications import MAX_WEBHOOKS
from indexing.store import open_store
from service.config.settings import load_settings
from tests.builders import WIDGETS
from tests.service.cli.conftest import ON_EVERY_STORE, Command
from tests.service.notifications.scripted import break_tests

SECRET = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"
URL = "https://hooks.example/T000/hush"


class Taker(BaseHTTPRequestHandler):
    """A receiver that responds with the status at the end of the path."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(int(self.path.rpartition("/")[2]))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Taker) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "url").write_text(URL + "\n")
    (tmp_path / "secret").write_text(SECRET + "\n")
    return tmp_path


def add(command: Command, files: Path, *more: str) -> str:
    options = more or ("--secret-file", str(files / "secret"))
    target = ("--repository", "acme/widgets", "--url-file", str(files / "url"))
    result = command("webhook", "add", *target, *options)
    assert "MERGEWATCH_NOTIFICATIONS" in result.stderr
    return result.stdout.strip()


@ON_EVERY_STORE
def test_a_webhook_is_added_listed_and_removed(command: Command, files: Path) -> None:
    first = add(command, files)
    second = add(command, files, "--slack")
    listed = command("webhook", "list").output
    rows = [line.split() for line in listed.splitlines()[1:]]
    assert [(row[0], *row[1:4]) for row in rows] == [
        (first, "acme/widgets", "standard", "https://hooks.example"),
        (second, "acme/widgets", "slack", "https://hooks.example"),
    ]
    assert [row[5:] for row in rows] == [["0", "-", "0"]] * 2
    assert "hush" not in listed
    assert SECRET[6:] not in listed
    here, elsewhere = ("--repository", "acme/widgets"), ("--repository", "acme/gadgets")
    assert "has no webhook" in command("webhook", "remove", *elsewhere, first, code=1).stderr
    command("webhook", "remove", *here, first)
    assert first not in command("webhook", "list", *here).output
    assert second in command("webhook", "list", *here).output
    command("webhook", "remove", *here, second)
    assert len(command("webhook", "list", *here).output.splitlines()) == 1
    assert "acme/gadgets is not known" in command("webhook", "list", *elsewhere, code=1).stderr


def test_dead_letters_wait_again(command: Command, files: Path) -> None:
    webhook = add(command, files)

    async def bury() -> None:
        store = await open_store(load_settings().store)
        await break_tests(store, ["hinge"])
        (found,) = await store.list_webhooks(WIDGETS)
        dead = await store.list_outbox(found.id, 10)
        await store.give_up(found.id, [each.id for each in dead])
        await store.close()

    asyncio.run(bury())
    here = ("--repository", "acme/widgets")
    assert command("webhook", "list").output.split()[-1] == "1"
    assert "again: 1 notification\n" in command("webhook", "retry", *here, webhook).stderr
    assert command("webhook", "list").output.split()[-1] == "0"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "either --secret-file or --slack"),
        (("--slack", "--secret-file", "secret"), "either --secret-file or --slack"),
        (("--secret-file", "url"), "base64"),
    ],
)
def test_wrong_usage_is_refused_without_showing_what_is_secret(
    command: Command,
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(files)
    target = ("--repository", "acme/widgets", "--url-file", "url")
    result = command("webhook", "add", *target, *options, code=2)
    assert message in result.stderr
    assert "hush" not in result.output


def test_one_webhook_too_many_is_refused(command: Command, files: Path) -> None:
    for _ in range(MAX_WEBHOOKS):
        add(command, files)
    options = ("--repository", "acme/widgets", "--url-file", str(files / "url"), "--slack")
    assert "remove one first" in command("webhook", "add", *options, code=1).stderr


def test_a_webhook_can_be_tried(
    command: Command, files: Path, receiver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = ("--repository", "acme/widgets")
    (files / "url").write_text(f"{receiver}/hush/200")
    good = add(command, files)
    (files / "url").write_text(f"{receiver}/hush/500")
    bad = add(command, files, "--slack")
    refused = command("webhook", "test", *here, good, code=1)
    assert refused.stderr == (
        "Error: the receiver did not take the message: the address is not public, which needs"
        " MERGEWATCH_NOTIFICATIONS=any, for this command too\n"
    )
    monkeypatch.setenv("MERGEWATCH_NOTIFICATIONS", "any")
    assert "took the message" in command("webhook", "test", *here, good).stderr
    failed = command("webhook", "test", *here, bad, code=1)
    assert "the receiver did not take the message: status 500" in failed.stderr
    assert "hush" not in failed.output
