"""Ids of streamed events: opaque, authenticated, the same everywhere."""

from __future__ import annotations

import secrets

from hypothesis import given
from hypothesis import strategies as st

from indexing.identifiers import derive_repository_id
from indexing.models.arrivals import ArrivalKey
from service.streaming.event_ids import SALT_SIZE, EventIds
from tests.builders import GADGETS, WIDGETS

IDS = EventIds(b"secret", "store")
HERE, ELSEWHERE = derive_repository_id(WIDGETS), derive_repository_id(GADGETS)
INTEGERS = st.integers(0, 2**63 - 1)
PLACES = st.builds(ArrivalKey, INTEGERS, st.integers(-(2**63), 2**63 - 1), INTEGERS)
PLACE = ArrivalKey(7, 8, 9)


@given(PLACES)
def test_a_place_is_read_back_by_every_process(place: ArrivalKey) -> None:
    written = IDS.write(HERE, place)
    assert EventIds(b"secret", "store").read(HERE, written) == place
    assert IDS.write(HERE, place) == written


@given(st.integers(0, 63), st.sampled_from("AZaz09-_"))
def test_an_altered_id_is_none(at: int, character: str) -> None:
    written = IDS.write(HERE, PLACE)
    altered = written[:at] + character + written[at + 1 :]
    assert IDS.read(HERE, altered) == (PLACE if altered == written else None)


@given(st.text(max_size=80))
def test_any_other_text_is_none(text: str) -> None:
    assert IDS.read(HERE, text) is None


def test_an_id_of_another_repository_store_or_secret_is_none() -> None:
    written = IDS.write(HERE, PLACE)
    assert IDS.read(ELSEWHERE, written) is None
    assert EventIds(b"secret", "other").read(HERE, written) is None
    assert EventIds(b"other", "store").read(HERE, written) is None


def test_neighbours_have_nothing_in_common() -> None:
    ids = [IDS.write(HERE, ArrivalKey(n, 0, 0)) for n in range(300)]
    ids += [IDS.write(ELSEWHERE, ArrivalKey(n, 0, 0)) for n in range(300)]
    assert len({each[:8] for each in ids}) == len({each[-8:] for each in ids}) == 600


def test_a_salt_hides_that_two_places_are_equal() -> None:
    written = {IDS.write(HERE, PLACE, secrets.token_bytes(SALT_SIZE)) for _ in range(9)}
    assert len(written) == 9
    assert {IDS.read(HERE, each) for each in written} == {PLACE}
