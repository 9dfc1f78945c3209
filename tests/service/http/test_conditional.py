"""Entity tags in `If-None-Match`, and how much of a long list is read."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from service.http import conditional
from service.http.conditional import is_known

ETAG = '"0123456789abcdef"'
FIELD_MAX = 8_190


class Reads:
    """Counts the tags that are read of fields."""

    def __init__(self, expression: re.Pattern[str]) -> None:
        self.tags = 0
        self._expression = expression

    def finditer(self, field: str) -> Iterator[re.Match[str]]:
        for found in self._expression.finditer(field):
            self.tags += 1
            yield found


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    counted = Reads(conditional._TAG)
    monkeypatch.setattr(conditional, "_TAG", counted)
    return counted


@pytest.mark.parametrize(
    "unknown", [",", '"a",', '"0123456789abcdef', f"{ETAG}x,"], ids=["commas", "tags", "open", "x"]
)
def test_little_of_a_megabyte_of_tags_is_read(reads: Reads, unknown: str) -> None:
    field = f"{ETAG}x," + unknown * ((FIELD_MAX - 20) // len(unknown))
    assert not is_known([unknown * (FIELD_MAX // len(unknown)), *[field] * 120], ETAG)
    assert reads.tags <= 1_000


def test_fields_without_the_tag_are_not_read(reads: Reads) -> None:
    assert is_known(["," * FIELD_MAX] * 120 + [f'"a", W/{ETAG}'], ETAG)
    assert reads.tags == 2


def test_a_tag_is_found_among_all_that_fit_into_a_field() -> None:
    others = ",".join(f'"{number:016x}"' for number in range(400))
    assert is_known([f"{others}, {ETAG}"], ETAG)
    assert not is_known([f"{others}, {ETAG}x"], ETAG)
