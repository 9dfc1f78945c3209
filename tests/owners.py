"""Reads a CODEOWNERS file at once, as no request may do."""

from __future__ import annotations

from indexing.owners.finding import Owners, OwnersReader


def read_owners(text: str) -> Owners:
    reader = OwnersReader(text)
    while (owners := reader.read(1)) is None:
        pass
    return owners
