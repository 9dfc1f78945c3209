"""Names: exactly the interface's patterns, and text that every store handles the same."""

from __future__ import annotations

import pytest

from indexing.errors import InvalidValueError
from indexing.names import RepositoryName, check_stored_name, check_text, parse_repository


def test_a_repository_is_read_and_written_as_it_was_spelled() -> None:
    name = parse_repository("Acme-1/w_i.d-gets")
    assert (name, str(name)) == (RepositoryName("Acme-1", "w_i.d-gets"), "Acme-1/w_i.d-gets")
    assert name.key == "acme-1/w_i.d-gets"


@pytest.mark.parametrize(
    "text",
    [
        "widgets",
        "/widgets",
        "acme/",
        "acme/wid/gets",
        "ac_me/widgets",
        "acmé/widgets",
        "acme/widgéts",
        "acme/widgets\n",
        "a" * 41 + "/widgets",
        "acme/wid gets",
        "",
    ],
)
def test_what_is_no_name_of_a_repository_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError):
        parse_repository(text)


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "x\udfff"])
def test_nul_and_lone_surrogates_are_refused(text: str) -> None:
    with pytest.raises(InvalidValueError):
        check_text(text)


@pytest.mark.parametrize("name", ["x" * 8_000, "é" * 4_000, "🧪" * 2_000, "a b\n"])
def test_names_of_8000_bytes_are_stored(name: str) -> None:
    assert check_stored_name(name) == name


@pytest.mark.parametrize("name", ["", "x" * 8_001, "é" * 4_001, "🧪" * 2_001])
def test_longer_and_empty_ones_are_not(name: str) -> None:
    with pytest.raises(InvalidValueError):
        check_stored_name(name)
