"""Pages of quarantines with the verdicts of their tests since then."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

from indexing.health.window import day_of
from indexing.identifiers import derive_test_id
from indexing.models.quarantines import Quarantine
from indexing.models.verdict_counts import VerdictCounts, VerdictsSince
from indexing.names import RepositoryName
from indexing.store.interface import Reader
from service.schemas.compiled import compile_encoder
from service.schemas.responses import QuarantinesAnswer, Rows

_encode: Final = compile_encoder(QuarantinesAnswer)


@dataclass(frozen=True, slots=True, kw_only=True)
class DetailedQuarantine(Quarantine):
    """A quarantine with the verdicts of its test on the UTC days after it was created."""

    test_id: uuid.UUID
    verdicts_since: VerdictCounts


async def add_details(
    reader: Reader, repository: RepositoryName, rows: Sequence[Quarantine]
) -> list[DetailedQuarantine]:
    """Return these quarantines of a repository with their details; reads each test once."""
    requested = [
        # Not the day itself: the failures of that day may be why the test is in quarantine.
        VerdictsSince(derive_test_id(repository, row.test_name), day_of(row.key.created_at) + 1)
        for row in rows
    ]
    counts = await reader.count_verdicts(repository, requested)
    return [
        DetailedQuarantine(
            **{field.name: getattr(row, field.name) for field in fields(row)},
            test_id=since.test_id,
            verdicts_since=counts[since],
        )
        for row, since in zip(rows, requested, strict=True)
    ]


def encode_details(rows: Sequence[DetailedQuarantine]) -> bytes:
    """Return the body of a page."""
    return _encode(Rows(rows, len(rows)))
