"""Makes the records of changes of quarantines. Pure.

The id of a change is derived from all of its values, so recording it again changes nothing.
"""

from __future__ import annotations

from datetime import datetime

from indexing.errors import TooManyQuarantinesError
from indexing.identifiers import derive_change_id
from indexing.models.quarantines import (
    MAX_QUARANTINES,
    MAX_QUARANTINES_PER_TEST,
    Actor,
    ChangeAction,
    Quarantine,
    QuarantineChange,
    QuarantineChangeKey,
)
from indexing.timestamps import MICROSECOND, format_timestamp


def too_many_quarantines() -> TooManyQuarantinesError:
    """Return the error for adding a quarantine beyond `MAX_QUARANTINES`."""
    return TooManyQuarantinesError(
        f"the repository has {MAX_QUARANTINES:,} manual quarantines in force; end some first"
    )


def too_many_of_test() -> TooManyQuarantinesError:
    """Return the error for adding a quarantine beyond `MAX_QUARANTINES_PER_TEST`."""
    return TooManyQuarantinesError(
        f"the test has {MAX_QUARANTINES_PER_TEST:,} manual quarantines in force; end some first"
    )


def record_change(
    quarantine: Quarantine, action: ChangeAction, at: datetime, actor: Actor
) -> QuarantineChange:
    """Return the record of a change that gave the quarantine these values.

    It is later than the beginning of the quarantine, whatever clock says `at`: a command that takes
    long uses the time at which it began.
    """
    if action is not ChangeAction.ADDED:
        at = max(at, quarantine.key.created_at + MICROSECOND)
    expires_at = quarantine.expires_at
    change_id = derive_change_id(
        quarantine.key.id,
        action.value,
        format_timestamp(at),
        quarantine.reason,
        quarantine.source.value,
        quarantine.owner or "",
        "" if expires_at is None else format_timestamp(expires_at),
        actor.kind.value,
        actor.id or "",
        actor.name,
    )
    return _record(quarantine, QuarantineChangeKey(at, change_id), action, actor)


def find_withdrawal_time(now: datetime, created_at: datetime, *, begins_again: bool) -> datetime:
    """Return the time of the change that takes back a quarantine which began at `created_at`.

    If another one begins at once, it is earlier than `now`: changes are listed by their time, and
    the beginning is the newer one.
    """
    return now - MICROSECOND if begins_again and created_at < now else now


def record_expiry(quarantine: Quarantine) -> QuarantineChange:
    """Return the record of the expiry of a quarantine.

    Its id is that of the quarantine, which can expire only once: so a store can list expiries in
    their order without having recorded them.
    """
    if quarantine.expires_at is None:
        raise ValueError("the quarantine never expires")
    key = QuarantineChangeKey(quarantine.expires_at, quarantine.key.id)
    return _record(quarantine, key, ChangeAction.EXPIRED, None)


def _record(
    quarantine: Quarantine, key: QuarantineChangeKey, action: ChangeAction, actor: Actor | None
) -> QuarantineChange:
    return QuarantineChange(
        key=key,
        action=action,
        quarantine_id=quarantine.key.id,
        test_name=quarantine.test_name,
        branch=quarantine.branch,
        reason=quarantine.reason,
        source=quarantine.source,
        actor=actor,
    )
