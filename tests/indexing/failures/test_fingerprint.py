"""Failures that say the same, and those that do not."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexing.failures.fingerprint import identify_failure, normalise_message
from indexing.failures.texts import MESSAGE_MAX_LENGTH
from indexing.models.executions import Conclusion
from tests.builders import make_executions, make_run
from tests.growth import assert_linear

A_TEST = uuid.uuid5(uuid.NAMESPACE_DNS, "a test")
ANOTHER_TEST = uuid.uuid5(uuid.NAMESPACE_DNS, "another test")

# Only text here: nothing is opened.
TEMPORARY = "/" + "tmp/"

ALIKE = [
    ("expected 3.5, got 17", "expected 4, got -1e-7"),
    ("1,000,000 rows, 12 %", "999 rows, 7 %"),
    ("object at 0x7fff12ab", "object at 0xDEADBEEF00"),
    ("lid.go:3 +0x5e", "lid.go:31 +0x64"),
    ("commit 3df1a2b9 is gone", "commit 12345678 is gone"),
    (
        "no widget 3f0c9a4e-8d1b-5f6a-9c2d-0123456789ab",
        "no widget ABCDEFAB-0000-4000-8000-000000000000",
    ),
    ("at 2026-09-01T12:00:00.123Z: down", "at 2026-10-02 01:02:03,9 +02:00: down"),
    ("at 12:00:00: down", "at 23:59:59.999999: down"),
    ("Tue Sep  1 12:00:00 2026 down", "Wed, 02 Dec 2026 12:00:00 GMT down"),
    ("took 1m 30s to open", "took 250ms to open"),
    ("took 3 seconds.", "took 1.5 hours."),
    (f"{TEMPORARY}pytest-of-mona/pytest-0/a.txt is gone", f"{TEMPORARY}tmpab_3x9 is gone"),
    ("/private/var/folders/x/y/T/b: no", f"/var{TEMPORARY}c: no"),
    (
        r"C:\Users\mona\AppData\Local\Temp\x\y.txt is locked",
        r"D:\Temp\z is locked",
    ),
    ("columns   1  2", "columns 10 20"),
]
DIFFERENT = [
    ("the hinge is stuck", "the hinge is loose"),
    ("expected 3 apples", "expected 3 pears"),
    ("/srv/hinge.py is gone", "/srv/lid.py is gone"),
    ("deadlock", "feedback"),
    ("took 3 m", "took 3 metres"),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_what_varies_is_put_aside(one: str, other: str) -> None:
    assert normalise_message(one) == normalise_message(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_words_distinguish_failures(one: str, other: str) -> None:
    assert normalise_message(one) != normalise_message(other)


def identify(test: uuid.UUID = A_TEST, **about: Any) -> uuid.UUID | None:
    (execution,) = make_executions(make_run(), [("t", Conclusion.FAILED)], **about)
    return identify_failure(test, execution)


def test_a_failure_has_the_id_of_its_test_type_and_message() -> None:
    told = identify(failure_type="Stuck", failure_message="hinge 3")
    assert told == identify(failure_type="Stuck", failure_message="hinge 4")
    others = [
        identify(ANOTHER_TEST, failure_type="Stuck", failure_message="hinge 3"),
        identify(failure_type="Loose", failure_message="hinge 3"),
        identify(failure_type="Stuck", failure_message="lid 3"),
        identify(failure_type="Stuck"),
        identify(failure_message="hinge 3"),
        identify(),
    ]
    assert len({told, *others}) == 1 + len(others)


def test_only_failures_have_an_id() -> None:
    for conclusion in (Conclusion.PASSED, Conclusion.SKIPPED):
        (execution,) = make_executions(make_run(), [("t", conclusion)], failure_message="odd")
        assert identify_failure(A_TEST, execution) is None


@given(st.text(st.sampled_from("0123456789abcdefxXTZ:.,-+_/\\ \t\nsmh#%"), max_size=200))
def test_any_message_has_a_shape_without_digits_and_it_is_its_own(message: str) -> None:
    shape = normalise_message(message)
    assert not any(character in "0123456789" for character in shape)
    assert normalise_message(shape) == shape


@pytest.mark.parametrize(
    "unit",
    [
        *("1", "a", "0", "1a", "a1", "1s", "1 ", "1.", "-", "1-", "e1", "1e", "1_", "12:", "1s1"),
        *(
            TEMPORARY,
            f"{TEMPORARY}a ",
            "0x",
            "+0x",
            "Tue ",
            "Mon Jan 1 ",
            "2026-01-01T",
            "C:\\Temp\\",
        ),
        *("C:\\", "abcdef1", "deadbeef0_", "C:\\Users\\a\\AppData\\Local\\", "1,", "1.1 "),
        "3f0c9a4e-8d1b-",
    ],
)
def test_the_time_is_linear_in_the_message(unit: str) -> None:
    def prepare(size: int) -> Any:
        message = (unit * size)[:size]
        # Without what is remembered of equal messages.
        return lambda: normalise_message.__wrapped__(message)

    assert_linear(prepare, MESSAGE_MAX_LENGTH // 8)


def test_only_the_part_of_a_message_that_is_stored_counts() -> None:
    start = "x" * MESSAGE_MAX_LENGTH
    assert normalise_message(start + "one") == normalise_message(start + "other")
