"""The document of one quarantine slot: a test and a branch pattern, or a test and all branches.

One write with optimistic concurrency control changes the record in force together with the data
about ended ones. So two processes cannot both begin a quarantine.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final

from indexing.health.recovery import Recovery
from indexing.health.rollup_text import read_recovery, write_recovery
from indexing.identifiers import derive_quarantine_slot_id
from indexing.models.quarantines import (
    Actor,
    ActorKind,
    ChangeAction,
    Quarantine,
    QuarantineChange,
    QuarantineChangeKey,
    QuarantineKey,
    QuarantineRequest,
    QuarantineSource,
)
from indexing.quarantine.changes import record_change, record_expiry
from indexing.store.elasticsearch.client.bulk import Operation
from indexing.store.elasticsearch.client.connection import WRITING
from indexing.store.elasticsearch.client.documents import Document, Version
from indexing.store.elasticsearch.client.failures import ConflictError
from indexing.store.elasticsearch.client.places import Place
from indexing.store.elasticsearch.cluster import Cluster
from indexing.timestamps import (
    from_microseconds,
    microseconds_or_none,
    moment_or_none,
    to_microseconds,
)

# The fields of a document that a `Quarantine` is made of.
QUARANTINE_FIELDS: Final = (
    "quarantine_id",
    "test_name",
    "reason",
    "branch",
    "source",
    "created_at",
    "owner",
    "expires_at",
    "is_recovered",
)
_fields_of: Final = itemgetter(*QUARANTINE_FIELDS)

# More rows than nearly all repositories have; each takes about a kilobyte.
_KEPT: Final = 4_096


@dataclass(frozen=True, slots=True)
class Record:
    """One quarantine, from its beginning until it is removed or expires.

    `judged_until` is the newest finish time among the evidence for an automatic one. It is valid
    for the repository's `settings_version`; under another version the decision is final. `recovery`
    is the state from which `is_recovered` is computed; None if it is not known.
    """

    id: uuid.UUID
    reason: str
    source: QuarantineSource
    created_at: datetime
    owner: str | None = None
    expires_at: datetime | None = None
    is_recovered: bool = False
    judged_until: datetime | None = None
    settings_version: int = 0
    recovery: Recovery | None = None
    # The expiry that webhooks were already notified of.
    notified_expiry: datetime | None = None

    def taken_over_by(self, request: QuarantineRequest) -> Record:
        """Return this quarantine with the reason, owner, expiry and source of a new request."""
        return replace(
            self,
            reason=request.reason,
            owner=request.owner,
            expires_at=request.expires_at,
            source=request.source,
            judged_until=None,
        )


@dataclass(frozen=True, slots=True)
class QuarantineSlot:
    """The slot of one test and branch pattern, with or without a quarantine in force.

    `ended` counts the quarantines that ended. `answered_until` is the time of the newest evidence
    that they have answered. `version` is None for a slot that was never stored. `unlisted` are
    changes that are not in the log of changes yet.
    """

    routing: str
    test_id: uuid.UUID
    test_name: str
    branch: str | None
    record: Record | None = None
    ended: int = 0
    answered_until: datetime | None = None
    version: Version | None = None
    unlisted: tuple[QuarantineChange, ...] = ()
    # When webhooks were last notified that the test was quarantined.
    notified_at: datetime | None = None

    @property
    def id(self) -> str:
        """The id of its document."""
        return derive_quarantine_slot_id(self.test_id, self.branch).hex()

    @property
    def quarantine(self) -> Quarantine | None:
        """The record in force, as a `Quarantine`."""
        record = self.record
        if record is None:
            return None
        return Quarantine(
            key=QuarantineKey(record.created_at, record.id),
            test_name=self.test_name,
            reason=record.reason,
            branch=self.branch,
            source=record.source,
            is_recovered=record.is_recovered,
            owner=record.owner,
            expires_at=record.expires_at,
        )

    def holding(self, record: Record | None) -> QuarantineSlot:
        """Return the slot with another record; the old one does not count as ended."""
        return replace(self, record=record)

    def ended_with(self, evidence_until: datetime | None) -> QuarantineSlot:
        """Return the slot after its record ended, with the evidence up to that moment answered."""
        answered = [m for m in (self.answered_until, evidence_until) if m is not None]
        return replace(
            self, record=None, ended=self.ended + 1, answered_until=max(answered, default=None)
        )

    def expired_by(self, now: datetime) -> QuarantineSlot:
        """Return the slot; if its record has expired, it is ended."""
        quarantine = self.quarantine
        if quarantine is None or quarantine.expires_at is None or quarantine.expires_at > now:
            return self
        ended = self.ended_with(quarantine.expires_at)
        return replace(ended, unlisted=(*self.unlisted, record_expiry(quarantine)))

    def changed(self, action: ChangeAction, at: datetime, actor: Actor) -> QuarantineSlot:
        """Return the slot with one more unlisted change, which is about its current record."""
        if self.quarantine is None:
            raise LookupError("the slot holds no quarantine")
        change = record_change(self.quarantine, action, at, actor)
        return replace(self, unlisted=(*self.unlisted, change))


async def read_slots(cluster: Cluster, slots: Sequence[QuarantineSlot]) -> list[QuarantineSlot]:
    """Return each slot as stored; a slot that is not stored comes back unchanged."""
    found = await cluster.connection.get_many(
        [Place(cluster.layout.quarantines, slot.id, slot.routing) for slot in slots],
        timeouts=WRITING,
    )
    return [
        slot if document is None else slot_of(document)
        for slot, document in zip(slots, found, strict=True)
    ]


async def try_write_slot(cluster: Cluster, slot: QuarantineSlot) -> bool:
    """Store a slot; return False if it has changed since it was read."""
    try:
        await write_slot(cluster, slot)
    except ConflictError:
        return False
    return True


async def write_slot(cluster: Cluster, slot: QuarantineSlot) -> None:
    """Store a slot; raises `ConflictError` if it has changed since it was read."""
    await cluster.connection.put(
        cluster.layout.quarantines,
        slot.id,
        _source_of(slot),
        over=slot.version,
        routing=slot.routing,
    )


def writing(cluster: Cluster, slot: QuarantineSlot) -> Operation:
    """Return the write of `write_slot` as a bulk operation; its outcome may be a conflict."""
    return Operation(
        "create" if slot.version is None else "index",
        cluster.layout.quarantines,
        slot.id,
        slot.routing,
        _source_of(slot),
        None if slot.version is None else slot.version.parameters,
    )


def slot_of(document: Document) -> QuarantineSlot:
    """Return the slot in a document."""
    source = document.source
    return QuarantineSlot(
        routing=source["repository_id"],
        test_id=uuid.UUID(source["test_id"]),
        test_name=source["test_name"],
        branch=source["branch"],
        record=_record_of(source) if source.get("quarantine_id") else None,
        ended=source["ended"],
        answered_until=moment_or_none(source["answered_until"]),
        version=document.version,
        unlisted=tuple(map(change_of, source.get("unlisted", ()))),
        notified_at=moment_or_none(source.get("told_at")),
    )


def quarantine_of(source: Mapping[str, Any]) -> Quarantine:
    """Return the record in force of a document that has one; it needs only `QUARANTINE_FIELDS`."""
    return _quarantine_of(_fields_of(source))


# A build asks for the list of its own branch, which mostly has the same rows as that of another.
@lru_cache(_KEPT)
def _quarantine_of(row: tuple[Any, ...]) -> Quarantine:
    quarantine_id, test_name, reason, branch, source, created_at, owner, expires_at, recovered = row
    return Quarantine(
        key=QuarantineKey(from_microseconds(created_at), uuid.UUID(quarantine_id)),
        test_name=test_name,
        reason=reason,
        branch=branch,
        source=QuarantineSource(source),
        is_recovered=recovered,
        owner=owner,
        expires_at=moment_or_none(expires_at),
    )


def slot_of_hit(hit: Mapping[str, Any]) -> QuarantineSlot:
    """Return the slot of a hit of a search that has `seq_no_primary_term`."""
    return slot_of(Document.of(hit))


def document_of(change: QuarantineChange) -> dict[str, Any]:
    """Return the fields of a change that searches do not use."""
    actor = change.actor
    return {
        "change_id": str(change.key.id),
        "at": to_microseconds(change.key.at),
        "action": change.action.value,
        "quarantine_id": str(change.quarantine_id),
        "test_name": change.test_name,
        "branch": change.branch,
        "reason": change.reason,
        "source": change.source.value,
        "actor": None
        if actor is None
        else {"kind": actor.kind.value, "name": actor.name, "id": actor.id},
    }


def change_of(fields: Mapping[str, Any]) -> QuarantineChange:
    """Parse the fields that `document_of` returned."""
    actor = fields["actor"]
    return QuarantineChange(
        key=QuarantineChangeKey(from_microseconds(fields["at"]), uuid.UUID(fields["change_id"])),
        action=ChangeAction(fields["action"]),
        quarantine_id=uuid.UUID(fields["quarantine_id"]),
        test_name=fields["test_name"],
        branch=fields["branch"],
        reason=fields["reason"],
        source=QuarantineSource(fields["source"]),
        actor=None
        if actor is None
        else Actor(ActorKind(actor["kind"]), actor["name"], actor["id"]),
    )


def _record_of(source: Mapping[str, Any]) -> Record:
    # Documents of an earlier release have no `recovery`.
    recovery = source.get("recovery")
    return Record(
        id=uuid.UUID(source["quarantine_id"]),
        reason=source["reason"],
        source=QuarantineSource(source["source"]),
        created_at=from_microseconds(source["created_at"]),
        owner=source["owner"],
        expires_at=moment_or_none(source["expires_at"]),
        is_recovered=source["is_recovered"],
        judged_until=moment_or_none(source["judged_until"]),
        settings_version=source["settings_version"],
        recovery=None if recovery is None else read_recovery(recovery.encode()),
        notified_expiry=moment_or_none(source.get("expiry_told")),
    )


def _source_of(slot: QuarantineSlot) -> dict[str, Any]:
    source: dict[str, Any] = {
        "repository_id": slot.routing,
        "scope": slot.id,
        "test_id": str(slot.test_id),
        "test_name": slot.test_name,
        "branch": slot.branch,
        "ended": slot.ended,
        "answered_until": microseconds_or_none(slot.answered_until),
    }
    if slot.notified_at is not None:
        source["told_at"] = to_microseconds(slot.notified_at)
    if slot.unlisted:
        source["unlisted"] = [document_of(change) for change in slot.unlisted]
    record = slot.record
    if record is not None:
        source |= {
            "quarantine_id": str(record.id),
            "reason": record.reason,
            "source": record.source.value,
            "created_at": to_microseconds(record.created_at),
            "owner": record.owner,
            "expires_at": microseconds_or_none(record.expires_at),
            "is_recovered": record.is_recovered,
            "judged_until": microseconds_or_none(record.judged_until),
            "settings_version": record.settings_version,
            "recovery": (
                None if record.recovery is None else write_recovery(record.recovery).decode()
            ),
            "expiry_told": microseconds_or_none(record.notified_expiry),
        }
    return source
