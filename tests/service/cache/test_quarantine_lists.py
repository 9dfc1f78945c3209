"""A list of 10,000 quarantines delays no other request."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from indexing.models.paging import Page
from indexing.models.quarantines import Quarantine, QuarantineKey, QuarantineSource
from service.cache import quarantine_lists
from service.cache.quarantine_lists import ROWS_AT_ONCE, encode_quarantines
from service.cache.session import SHARED_MAX_BYTES
from service.middleware.response_cache import RESPONSE_CACHE
from service.schemas.responses import Rows
from tests.builders import NOON
from tests.service.front_door import QUARANTINES, FrontDoor


def make_quarantines(count: int, name: str = "test") -> tuple[Quarantine, ...]:
    return tuple(
        Quarantine(
            QuarantineKey(NOON, uuid.UUID(int=number)),
            f"{name} [] {number}",
            "flaps",
            None,
            QuarantineSource.MANUAL,
        )
        for number in range(count)
    )


@pytest.mark.parametrize("count", [0, 1, ROWS_AT_ONCE, ROWS_AT_ONCE + 1, 2 * ROWS_AT_ONCE + 3])
def test_a_long_list_is_encoded_as_a_short_one(count: int) -> None:
    rows = make_quarantines(count)
    text = encode_quarantines(rows)
    assert text == quarantine_lists._encode(Rows(rows, count))
    assert len(orjson.loads(text)["quarantined_tests"]) == count


@pytest.mark.parametrize("stack", ["sqlite and redis"], indirect=True)
async def test_a_long_list_is_encoded_in_steps_beside_the_loop_and_is_not_shared(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = make_quarantines(2 * ROWS_AT_ONCE + 1, "x" * 5_000)
    encode, here = quarantine_lists._encode, threading.get_ident()
    steps: list[int] = []

    def encode_some(value: Any) -> bytes:
        assert threading.get_ident() != here
        steps.append(len(value.rows))
        return encode(value)

    async def list_all(*_: object) -> Page[Quarantine]:
        return Page(rows, has_previous=False, has_next=False)

    monkeypatch.setattr(quarantine_lists, "_encode", encode_some)
    monkeypatch.setattr(door.reader, "list_quarantines", list_all)
    shared = sizes_of_shared(door, monkeypatch)
    answer = await door.get(QUARANTINES)
    assert len(answer.json["quarantined_tests"]) == len(rows)
    assert steps == [ROWS_AT_ONCE, ROWS_AT_ONCE, 1]
    assert len(answer.body) > SHARED_MAX_BYTES
    assert max(shared, default=0) <= SHARED_MAX_BYTES


def sizes_of_shared(door: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> Sequence[int]:
    """Record the sizes of the values that the service puts into the shared cache from now on."""
    backend = door.app[RESPONSE_CACHE]._backend
    put, sizes = backend.put, list[int]()

    def count(name: str, versions: Any, payload: bytes, seconds: float) -> None:
        sizes.append(len(payload))
        put(name, versions, payload, seconds)

    monkeypatch.setattr(backend, "put", count)
    return sizes
