"""Repositories, application keys and the store's own status, the same in every backend."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import orjson
import pytest

from indexing.errors import InvalidValueError, StoreError
from indexing.models.events import EventQuery
from indexing.models.keys import ApplicationKey, Scope
from indexing.models.paging import Anchor
from indexing.models.repositories import (
    MAX_CODE_OWNERS_BYTES,
    Repository,
    RepositoryChange,
)
from indexing.names import RepositoryName, parse_repository
from indexing.store.interface import Store
from tests.builders import GADGETS, NOON, WIDGETS, after

KEY = ApplicationKey("k1", "ci", Scope.READ, "acme", None, b"\x01" * 32, NOON)


async def test_a_repository_answers_in_the_spelling_that_came_first(store: Store) -> None:
    first = RepositoryName("Acme", "Widgets")
    assert await store.find_repository(WIDGETS) is None
    assert await store.ensure_repository(first) == Repository(first)
    assert await store.ensure_repository(WIDGETS) == Repository(first)
    assert await store.find_repository(RepositoryName("ACME", "WIDGETS")) == Repository(first)


@pytest.mark.parametrize(
    ("one", "other"), [(("a-b", "c"), ("a", "b-c")), (("a", "b.c"), ("a", "b_c"))]
)
async def test_names_that_look_alike_are_two_repositories(
    store: Store, one: tuple[str, str], other: tuple[str, str]
) -> None:
    await store.ensure_repository(RepositoryName(*one))
    assert await store.find_repository(RepositoryName(*other)) is None


async def test_all_repositories_are_listed_by_name(store: Store) -> None:
    assert await store.list_repositories() == []
    names = ["zeta/a", "Acme/widgets", "acme/Gadgets", "acme-b/a", "b/z"]
    for name in names:
        await store.ensure_repository(parse_repository(name))
    await store.ensure_repository(parse_repository("ZETA/A"))
    changed = await store.set_repository(
        parse_repository("b/z"), RepositoryChange(default_branch="develop"), NOON
    )
    found = await store.list_repositories()
    assert [str(each.name) for each in found] == sorted(names, key=str.lower)
    assert changed in found


async def test_settings_change_one_by_one(store: Store) -> None:
    assert await store.set_repository(WIDGETS, RepositoryChange(), NOON) == Repository(WIDGETS)
    await store.set_repository(WIDGETS, RepositoryChange(default_branch="develop"), NOON)
    changed = await store.set_repository(WIDGETS, RepositoryChange(flaky_detection=False), NOON)
    assert changed == Repository(WIDGETS, "develop", flaky_detection=False)
    assert await store.find_repository(WIDGETS) == changed


async def test_a_change_of_automatic_quarantine_is_in_the_log_once(store: Store) -> None:
    for minute, change in enumerate(
        (
            RepositoryChange(ignore_broken_on_default_branch=True),
            RepositoryChange(auto_quarantine=True),
            RepositoryChange(auto_quarantine=True, ignore_broken_on_default_branch=True),
            RepositoryChange(ignore_broken_on_default_branch=False, default_branch="next"),
            RepositoryChange(auto_quarantine=False),
            RepositoryChange(flaky_detection=False),
        )
    ):
        await store.set_repository(WIDGETS, change, after(minutes=minute))
    query = EventQuery(WIDGETS, NOON, after(hours=1))
    events = [orjson.loads(row.body) for row in (await store.list_events(query, Anchor(), 9)).rows]
    assert [(event["received_at"][14:16], event["type"]) for event in events] == [
        ("04", "ci_insights.auto_quarantine.disabled"),
        ("03", "ci_insights.auto_quarantine.modified"),
        ("01", "ci_insights.auto_quarantine.enabled"),
    ]


async def test_a_file_of_code_owners_is_kept_as_it_was_given(store: Store) -> None:
    assert await store.get_code_owners(WIDGETS) is None
    text = "\ufeff# ß\r\n*.py\t@acme/\u202epython\n" + "/x @y\n" * 1_000
    for kept in ("* @nobody\n", text):
        await store.set_code_owners(WIDGETS, kept)
    assert await store.get_code_owners(RepositoryName("ACME", "WIDGETS")) == text
    assert await store.get_code_owners(GADGETS) is None
    assert await store.find_repository(WIDGETS) == Repository(WIDGETS)
    await store.set_code_owners(WIDGETS, None)
    assert await store.get_code_owners(WIDGETS) is None


@pytest.mark.parametrize(
    "text",
    ["x" * (MAX_CODE_OWNERS_BYTES + 1), "ß" * (MAX_CODE_OWNERS_BYTES // 2 + 1), "\0", "\ud800"],
    ids=["too long", "too long in bytes", "NUL", "surrogate"],
)
async def test_a_file_of_code_owners_that_a_store_cannot_keep_changes_nothing(
    store: Store, text: str
) -> None:
    await store.set_code_owners(WIDGETS, "* @before")
    with pytest.raises(InvalidValueError):
        await store.set_code_owners(WIDGETS, text)
    assert await store.get_code_owners(WIDGETS) == "* @before"


async def test_the_longest_file_of_code_owners_is_kept(store: Store) -> None:
    await store.set_code_owners(WIDGETS, "x" * MAX_CODE_OWNERS_BYTES)
    assert await store.get_code_owners(WIDGETS) == "x" * MAX_CODE_OWNERS_BYTES


async def test_a_key_is_found_by_its_digest_alone(store: Store) -> None:
    await store.add_key(KEY)
    assert await store.find_key(KEY.digest) == KEY
    assert await store.find_key(b"\x02" * 32) is None


async def test_a_key_is_added_once(store: Store) -> None:
    for _ in range(2):
        await store.add_key(KEY)
    assert await store.list_keys() == [KEY]
    with pytest.raises(StoreError):
        await store.add_key(replace(KEY, name="another"))
    assert await store.find_key(KEY.digest) == KEY


async def test_a_key_is_found_by_its_id_and_shows_at_once_that_it_was_revoked(store: Store) -> None:
    await store.add_key(KEY)
    await store.add_key(replace(KEY, id="k2", digest=b"\x02" * 32))
    assert await store.get_key("k1") == KEY
    assert await store.get_key("k3") is None
    await store.revoke_key("k1", after(hours=1))
    assert await store.get_key("k1") == replace(KEY, revoked_at=after(hours=1))


async def test_a_key_for_one_repository_makes_it_known(store: Store) -> None:
    await store.add_key(replace(KEY, repository="widgets", expires_at=after(days=1)))
    assert await store.find_repository(WIDGETS) == Repository(WIDGETS)
    assert [key.repository for key in await store.list_keys()] == ["widgets"]


async def test_a_key_is_revoked_once(store: Store) -> None:
    await store.add_key(KEY)
    assert await store.revoke_key("k1", after(hours=1))
    assert await store.revoke_key("k1", after(hours=2))
    assert not await store.revoke_key("k2", after(hours=2))
    assert await store.find_key(KEY.digest) == replace(KEY, revoked_at=after(hours=1))


async def test_keys_are_listed_oldest_first(store: Store) -> None:
    later = replace(KEY, id="k0", digest=b"\x03" * 32, created_at=after(hours=1))
    await store.add_key(later)
    await store.add_key(KEY)
    assert await store.list_keys() == [KEY, later]


async def test_a_store_keeps_its_identity_over_a_rebuild(store: Store) -> None:
    before = await store.get_identity()
    await store.rebuild(NOON)
    assert await store.get_identity() == before
    assert len(before.cursor_secret) == 32


async def test_reads_at_the_same_time_as_writes_are_answered(store: Store) -> None:
    names = [RepositoryName("acme", f"r{n}") for n in range(20)]
    await asyncio.gather(*(store.ensure_repository(n) for n in names), store.ping())
    found = await asyncio.gather(*(store.find_repository(n) for n in names))
    assert [repository and repository.name for repository in found] == names
