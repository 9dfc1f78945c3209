"""Documents of repositories: found regardless of case, stored as first written.

A change is one write of one document, so it is atomic. The document also contains the follow-up
work: a new `settings_version` makes decisions under earlier settings final, and `announcement` is
the event that is still to be written into the log. `removal` changes whenever results are deleted:
what an earlier load knows of its results may no longer be true.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from indexing.errors import UnknownRepositoryError
from indexing.models.events import EventKey, Outcome, StoredEvent
from indexing.models.repositories import Repository
from indexing.names import RepositoryName
from indexing.notifications.rules import Subscription
from indexing.store.elasticsearch.client.documents import Document
from indexing.store.elasticsearch.client.failures import ConflictError
from indexing.store.elasticsearch.client.places import Place
from indexing.store.elasticsearch.client.scanning import scan
from indexing.store.elasticsearch.cluster import Cluster, routing_of
from indexing.store.elasticsearch.indices.control import State
from indexing.store.elasticsearch.indices.repository_fields import name_keys
from indexing.timestamps import from_microseconds, to_microseconds

KIND: Final = "repository"
_PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class StoredRepository:
    """The content of a repository's document."""

    repository: Repository
    settings_version: int
    announcement: StoredEvent | None
    # The time at which each webhook was added; the oldest may have the time of a removed one.
    webhooks: Mapping[uuid.UUID, datetime]
    document: Document

    @property
    def subscription(self) -> Subscription | None:
        """The webhooks of the repository, if it has any."""
        if not self.webhooks:
            return None
        return Subscription(tuple(self.webhooks), min(self.webhooks.values()))


def document_id(name: RepositoryName) -> str:
    """Return the document id of a repository."""
    return document_routed(routing_of(name))


def document_routed(routing: str) -> str:
    """Return the document id of the repository with that routing."""
    return f"repository:{routing}"


async def find_repository(cluster: Cluster, name: RepositoryName) -> Repository | None:
    found = await cluster.connection.get(cluster.layout.control, document_id(name))
    return None if found is None else repository_of(found.source)


async def list_repositories(cluster: Cluster) -> list[Repository]:
    found: list[Repository] = []
    body = {
        "size": _PAGE,
        "query": {"term": {"kind": KIND}},
        "sort": [{"repository_id": "asc"}],
    }
    async for hits in scan(cluster.connection, cluster.layout.control, body):
        found += [repository_of(hit["_source"]) for hit in hits]
    return sorted(found, key=lambda repository: repository.name.key)


async def read_repository(cluster: Cluster, name: RepositoryName) -> StoredRepository:
    """Read the document of a repository; raises `UnknownRepositoryError` if there is none."""
    found = await cluster.connection.get(cluster.layout.control, document_id(name))
    if found is None:
        raise unknown_repository(name)
    return stored_of(found)


async def read_known(
    cluster: Cluster, name: RepositoryName, places: Sequence[Place]
) -> tuple[State, Document, list[Document | None]]:
    """Return the state of the store, the repository's document, and those at these places.

    Missing ones are None.

    Raises:
        UnknownRepositoryError: nobody has registered the repository.
    """
    own = Place(cluster.layout.control, document_id(name))
    state, (known, *documents) = await cluster.control.read_with([own, *places], may_be_gone=True)
    if known is None:
        raise unknown_repository(name)
    return state, known, documents


async def find_unknown(
    cluster: Cluster, names: Sequence[RepositoryName]
) -> tuple[State, frozenset[str]]:
    """Return the state of the store, and the keys of those repositories that are unknown."""
    places = [Place(cluster.layout.control, document_id(name)) for name in names]
    state, found = await cluster.control.read_with(places)
    unknown = [name.key for name, there in zip(names, found, strict=True) if there is None]
    return state, frozenset(unknown)


def unknown_repository(name: RepositoryName) -> UnknownRepositoryError:
    """Return the error for a repository that nobody registered."""
    return UnknownRepositoryError(f"the repository {name} is not known")


async def ensure_repository(cluster: Cluster, name: RepositoryName) -> Repository:
    return (await make_known(cluster, name)).repository


async def make_known(cluster: Cluster, name: RepositoryName) -> StoredRepository:
    """Read the document of a repository; register the repository first if it is unknown."""
    place = (cluster.layout.control, document_id(name))
    found = await cluster.connection.get(*place)
    if found is None:
        with suppress(ConflictError):
            source = _source_of(
                Repository(name), settings_version=0, announcement=None, webhooks={}, removal=""
            )
            await cluster.connection.put(*place, source)
        return await read_repository(cluster, name)
    return stored_of(found)


async def replace_repository(
    cluster: Cluster,
    stored: StoredRepository,
    repository: Repository,
    *,
    settings_version: int,
    announcement: StoredEvent | None,
) -> None:
    """Replace a stored repository; raises `ConflictError` if it has changed since it was read."""
    await cluster.connection.put(
        cluster.layout.control,
        stored.document.id,
        _source_of(
            repository,
            settings_version=settings_version,
            announcement=announcement,
            webhooks=stored.webhooks,
            removal=removal_of(stored.document),
        ),
        over=stored.document.version,
    )


async def replace_webhooks(
    cluster: Cluster, stored: StoredRepository, webhooks: Mapping[uuid.UUID, datetime]
) -> None:
    """Replace the webhooks of a repository; raises `ConflictError` if it has changed."""
    await cluster.connection.put(
        cluster.layout.control,
        stored.document.id,
        {**stored.document.source, "webhooks": _webhooks_source(webhooks)},
        over=stored.document.version,
    )


async def note_removal(cluster: Cluster, routing: str) -> None:
    """Note that results were deleted, so that refreshes no longer merge what earlier loads wrote.

    Call it after the deletion, and before the marker of the deletion is deleted.
    """
    place = (cluster.layout.control, document_routed(routing))
    noted = False
    while not noted:
        found = await cluster.connection.get(*place)
        if found is None:
            # So no load can write into it.
            return
        source = {**found.source, "removal": uuid.uuid4().hex}
        with suppress(ConflictError):
            await cluster.connection.put(*place, source, over=found.version)
            noted = True


async def read_removal(cluster: Cluster, routing: str) -> str:
    """Return the id of the last deletion of results, as `removal_of`."""
    found = await cluster.connection.get(cluster.layout.control, document_routed(routing))
    return "" if found is None else removal_of(found)


def removal_of(document: Document) -> str:
    """Return the id of the last deletion of results, by the document of their repository.

    It is empty if there was none.
    """
    removal: str = document.source.get("removal", "")
    return removal


def _webhooks_source(webhooks: Mapping[uuid.UUID, datetime]) -> list[list[Any]]:
    return [[str(webhook), to_microseconds(at)] for webhook, at in webhooks.items()]


def _source_of(
    repository: Repository,
    *,
    settings_version: int,
    announcement: StoredEvent | None,
    webhooks: Mapping[uuid.UUID, datetime],
    removal: str,
) -> dict[str, Any]:
    return {
        "kind": KIND,
        "repository_id": routing_of(repository.name),
        **name_keys(repository.name.owner, repository.name.name),
        "owner": repository.name.owner,
        "name": repository.name.name,
        "default_branch": repository.default_branch,
        "flaky_detection": repository.flaky_detection,
        "auto_quarantine": repository.auto_quarantine,
        "ignore_broken_on_default_branch": repository.ignore_broken_on_default_branch,
        "quarantine_after": repository.quarantine_after,
        "settings_version": settings_version,
        "announcement": None if announcement is None else _announcement_source(announcement),
        "webhooks": _webhooks_source(webhooks),
        "removal": removal,
    }


def stored_of(document: Document) -> StoredRepository:
    """Return the content of a repository's document."""
    repository = repository_of(document.source)
    announcement = document.source["announcement"]
    return StoredRepository(
        repository,
        document.source["settings_version"],
        None if announcement is None else _announcement_of(repository.name, announcement),
        # Documents of an earlier release have no webhooks.
        {
            uuid.UUID(webhook): from_microseconds(at)
            for webhook, at in document.source.get("webhooks", ())
        },
        document,
    )


def repository_of(source: Mapping[str, Any]) -> Repository:
    """Return the settings in a repository's document."""
    return Repository(
        RepositoryName(source["owner"], source["name"]),
        source["default_branch"],
        flaky_detection=source["flaky_detection"],
        auto_quarantine=source["auto_quarantine"],
        ignore_broken_on_default_branch=source["ignore_broken_on_default_branch"],
        # Documents of an earlier release lack this field.
        quarantine_after=source.get("quarantine_after", 0),
    )


def _announcement_source(event: StoredEvent) -> dict[str, Any]:
    return {
        "received_at": to_microseconds(event.key.received_at),
        "id": event.key.id,
        "type": event.type,
        "trigger": event.trigger,
        "body": event.body.decode(),
    }


def _announcement_of(name: RepositoryName, source: Mapping[str, Any]) -> StoredEvent:
    # A settings change has no pull request and no branch.
    return StoredEvent(
        repository=name,
        key=EventKey(from_microseconds(source["received_at"]), source["id"]),
        type=source["type"],
        pull_request=None,
        base_ref=None,
        # An earlier release left it out of this document.
        trigger=source.get("trigger", "CLI"),
        outcome=Outcome.NEUTRAL,
        body=source["body"].encode(),
    )
