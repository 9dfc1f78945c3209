"""Tokens of the code host, over HTTP: the access that each response of the host grants."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from service.config.settings import LogFormat, LogLevel, Settings
from service.logs import configure_logging
from tests.builders import FOREIGN, GADGETS, WIDGETS
from tests.service.auth.code_host.tokens import GOOD, TOKEN, status
from tests.service.conftest import open_door
from tests.service.front_door import LOGS, FrontDoor, operations
from tests.source_host import Saying, SourceHost

NAMES = tuple(operations())
REPOSITORIES = "/v1/ci/acme/repositories"


@pytest.mark.parametrize("operation", NAMES)
async def test_a_token_reads_what_it_reads_on_the_host(door: FrontDoor, operation: str) -> None:
    by_key = await door.get(operations()[operation])
    by_token = await door.get(operations()[operation], key=TOKEN)
    assert (by_token.status, by_token.body) == (by_key.status, by_key.body)
    assert by_token.status in {200, 404}


async def test_the_request_to_the_host_has_the_token_and_nothing_else(
    door: FrontDoor, host: SourceHost
) -> None:
    await door.get(f"{LOGS}?base_ref=main", key=TOKEN, Cookie="a=b")
    assert host.asked == [("/repos/acme/widgets", TOKEN)]


@pytest.mark.parametrize("operation", NAMES)
async def test_a_token_that_the_host_does_not_know_is_as_good_as_none(
    door: FrontDoor, operation: str
) -> None:
    unknown = await door.get(operations()[operation], key="ghp_unknown")
    none = await door.ask(operations()[operation], {})
    assert (unknown.status, unknown.body) == (403, none.body)


@pytest.mark.parametrize("operation", NAMES)
async def test_what_the_host_hides_is_like_what_is_absent(
    door: FrontDoor, host: SourceHost, operation: str
) -> None:
    await door.store.ensure_repository(FOREIGN)
    host.add("umbrella/widgets")
    host.add("acme/nothing", TOKEN)
    hidden = await door.get(operations("umbrella", "widgets")[operation], key=TOKEN)
    nowhere = await door.get(operations("nobody", "nothing")[operation], key=TOKEN)
    unknown_here = await door.get(operations("acme", "nothing")[operation], key=TOKEN)
    by_key = await door.get(operations("umbrella", "widgets")[operation])
    assert {hidden.status, nowhere.status, unknown_here.status} == {404}
    assert hidden.body == nowhere.body == unknown_here.body == by_key.body


async def test_a_token_lists_the_one_repository_that_it_names(
    door: FrontDoor, host: SourceHost
) -> None:
    await door.store.ensure_repository(GADGETS)
    await door.store.ensure_repository(WIDGETS)
    host.add("acme/gadgets")
    named = await door.get(f"{REPOSITORIES}?repository=widgets", key=TOKEN)
    assert [row["repository"] for row in named.json["repositories"]] == ["acme/widgets"]
    hidden = await door.get(f"{REPOSITORIES}?repository=gadgets", key=TOKEN)
    absent = await door.get(f"{REPOSITORIES}?repository=nothing", key=TOKEN)
    foreign = await door.get("/v1/ci/nobody/repositories?repository=x", key=TOKEN)
    assert (hidden.status, hidden.body) == (404, absent.body)
    assert foreign.body == absent.body
    unknown = await door.get(f"{REPOSITORIES}?repository=widgets", key="ghp_unknown")
    assert unknown.status == 403


@pytest.mark.parametrize(
    "query", ["", "?repository=", "?repository=a%2Fb", "?repository=a&repository=b"]
)
async def test_a_token_without_a_repository_parameter_is_not_sent_to_the_host(
    door: FrontDoor, host: SourceHost, query: str
) -> None:
    answer = await door.get(REPOSITORIES + query, key=TOKEN)
    assert (answer.status, host.asked) == (403, [])
    assert "parameter repository" in answer.json["detail"]


async def test_a_token_may_not_write(tmp_path: Path, host: SourceHost) -> None:
    settings = Settings(data_dir=tmp_path, host_api_url=host.base, ingest=True)
    async for door in open_door(settings):
        sent = await door.post(LOGS, b"", "application/x-ndjson", key=TOKEN)
        assert sent.status == 403
        hidden = await door.post(
            "/v1/repos/umbrella/x/logs", b"", "application/x-ndjson", key=TOKEN
        )
        assert hidden.status == 404


async def test_tokens_are_refused_without_a_configured_host(tmp_path: Path) -> None:
    async for door in open_door(Settings(data_dir=tmp_path)):
        assert await status(door) == 403
        assert await status(door, target="/v1/repos/ac_me/widgets/logs") == 403


async def test_a_mistyped_application_key_is_not_sent_to_the_host(
    door: FrontDoor, host: SourceHost
) -> None:
    for wrong in (door.key[:-1], door.key + "x", "mw_", "mw_secret"):
        assert await status(door, wrong) == 403
    assert host.asked == []


@pytest.mark.parametrize("token", ["a,b", "a;b", 'a"b', "=a", "a=b", "a" * 5_000])
async def test_a_token_of_unknown_form_is_not_sent_to_the_host(
    door: FrontDoor, host: SourceHost, token: str
) -> None:
    assert await status(door, token) == 403
    assert await status(door, token, "/v1/repos/ac_me/widgets/logs") == 403
    assert host.asked == []


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/v1/repos/ac_me/widgets/logs", 422),
        (f"/v1/repos/acme/{'a' * 300}/logs", 404),
        ("/v1/repos/acme/%2E%2E/logs", 404),
        ("/v1/repos/acme/a%2Fb/logs", 422),
    ],
)
async def test_a_name_that_changes_the_path_is_not_sent_to_the_host(
    door: FrontDoor, host: SourceHost, target: str, expected: int
) -> None:
    assert await status(door, target=target) == expected
    assert host.asked == []


async def test_a_renamed_repository_stays_readable_by_its_number(
    door: FrontDoor, host: SourceHost
) -> None:
    host.rename("Acme/Widgets", "elsewhere/gizmos")
    assert await status(door) == 200
    assert [path for path, _ in host.asked] == ["/repos/acme/widgets", "/repositories/1000"]


@pytest.mark.parametrize(
    "location",
    [
        "{base}/repos/elsewhere/gizmos",
        "https://elsewhere.example/repositories/1000",
        "{base}.elsewhere.example/repositories/1000",
        "//elsewhere.example/repositories/1000",
        "{base}/other/repositories/1000",
        "{base}/repositories/1000?a=b",
        "",
    ],
)
async def test_a_redirect_to_anything_else_opens_nothing(
    door: FrontDoor, host: SourceHost, location: str
) -> None:
    host.saying = Saying(301, {"Location": location.format(base=host.base)})
    assert await status(door) == 404
    assert len(host.asked) == 1


async def test_a_response_about_another_repository_grants_nothing(
    door: FrontDoor, host: SourceHost
) -> None:
    host.saying = Saying(200, body=b'{"id": 2, "full_name": "acme/other"}')
    assert await status(door) == 404


async def test_the_token_of_an_installation_reads_what_it_is_shown(
    door: FrontDoor, host: SourceHost
) -> None:
    # An installation token belongs to no user, and has none of a user's permissions.
    permissions = b'"permissions": {"admin": false, "push": false, "pull": false}'
    host.saying = Saying(200, body=b'{"id": 2, "full_name": "acme/widgets", %s}' % permissions)
    assert await status(door) == 200


async def test_a_long_description_of_a_repository_is_read(
    door: FrontDoor, host: SourceHost
) -> None:
    about = b"x" * 200_000
    host.saying = Saying(200, body=b'{"full_name": "acme/widgets", "description": "%s"}' % about)
    assert await status(door) == 200


@pytest.mark.slow
async def test_a_token_is_in_no_log_and_in_no_answer(
    door: FrontDoor, host: SourceHost, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging(LogLevel.DEBUG, LogFormat.JSON)
    for saying in (None, Saying(500), Saying(403), Saying(301, {"Location": TOKEN}), GOOD):
        host.saying = saying
        door.clock.now += timedelta(hours=1)
        answer = await door.get(LOGS, key=TOKEN)
        assert TOKEN not in answer.body.decode() + str(answer.headers)
    host.is_silent = True
    door.clock.now += timedelta(hours=1)
    await door.get(LOGS, key=TOKEN)
    written = capsys.readouterr().err
    assert "code host unavailable" in written
    assert TOKEN not in written
