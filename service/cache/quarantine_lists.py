"""Encodes lists of quarantines, which may be of 10,000 rows with long names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from indexing.models.quarantines import Quarantine
from service.schemas.compiled import compile_encoder
from service.schemas.responses import (
    QUARANTINE_DETAILS,
    QuarantinesAnswer,
    Rows,
    TestStatePageAnswer,
)

# The encoder holds the interpreter's lock (GIL). Even in a thread it blocks the event loop, but no
# longer than this number of rows takes.
ROWS_AT_ONCE: Final = 500

_encode: Final = compile_encoder(
    QuarantinesAnswer, without=[f"quarantined_tests.{name}" for name in QUARANTINE_DETAILS]
)
_encode_states: Final = compile_encoder(TestStatePageAnswer)
_START, _END = (part for part in _encode(Rows((), 0)).split(b"[]"))


def encode_quarantines(rows: Sequence[Quarantine]) -> bytes:
    """Return the body of a list. Call it in a thread for more than `ROWS_AT_ONCE` rows."""
    if len(rows) <= ROWS_AT_ONCE:
        return _encode(Rows(rows, len(rows)))
    start, end = len(_START) + 1, -len(_END) - 1
    pieces = []
    for first in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[first : first + ROWS_AT_ONCE]
        pieces.append(_encode(Rows(some, len(some)))[start:end])
    return b"".join((_START, b"[", b",".join(pieces), b"]", _END))


def encode_test_states(rows: Sequence[Quarantine], per_page: int | None) -> bytes:
    """Return the body of a page as plugins of test frameworks read it."""
    return _encode_states(Rows(rows, len(rows), per_page))
