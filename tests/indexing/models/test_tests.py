"""Models of tests."""

from __future__ import annotations

from indexing.models.tests import TestMetadata


def test_metadata_of_a_release_with_other_fields_is_read() -> None:
    record = {"language": "python", "filepath": None, "colour": "red"}
    assert TestMetadata.from_record(record) == TestMetadata(language="python")
